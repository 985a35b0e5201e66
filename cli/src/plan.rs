//! Plans moves that balance the loads of the servers, or that empty servers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The default of `--tolerance`: the load of a server may differ from the mean by this fraction of
/// the mean.
pub const TOLERANCE: f64 = 0.1;

/// Weights that differ by less are equal. They add up to 1, so sums of up to 8,192 of them are off
/// by much less.
const ROUNDING: f64 = 1e-9;

/// The load of a shard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShardLoad {
    pub shard: u16,
    pub server: String,
    /// Size of its tables and indexes.
    pub bytes: i64,
    /// Estimate from the histograms of its ids.
    pub ids_per_second: f64,
}

/// A plan, as `plan --json` prints it and `apply` reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub moves: Vec<PlannedMove>,
    #[serde(default)]
    pub servers: Vec<ServerLoad>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedMove {
    pub shard: u16,
    pub from: String,
    pub to: String,
    #[serde(default)]
    pub bytes: i64,
    #[serde(default)]
    pub ids_per_second: f64,
}

/// A server before and after the moves.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerLoad {
    pub server: String,
    pub before: Load,
    pub after: Load,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Load {
    pub shards: usize,
    pub bytes: i64,
    pub ids_per_second: f64,
}

/// Plans moves that empty the `drained` servers, and bring the load of each other server within
/// `tolerance` of the mean, as far as that is possible with whole shards. No server both gives and
/// receives shards, which avoids unnecessary moves.
///
/// The weight of a shard is the mean of its share of all bytes and its share of all new ids. The
/// load of a server is the sum of these weights.
pub fn plan(servers: &[String], shards: &[ShardLoad], drained: &[String], tolerance: f64) -> Plan {
    let targets: Vec<&String> = servers.iter().filter(|server| !drained.contains(server)).collect();
    let weights = weights(shards);
    let mut loads: BTreeMap<&str, f64> =
        servers.iter().map(|server| (server.as_str(), 0.0)).collect();
    let mut places: Vec<&str> = shards.iter().map(|shard| shard.server.as_str()).collect();
    for (place, weight) in places.iter().zip(&weights) {
        *loads.entry(place).or_default() += weight;
    }
    if !targets.is_empty() {
        drain(&targets, drained, &weights, &mut loads, &mut places);
        even_out(&targets, shards, &weights, &mut loads, &mut places, tolerance);
    }
    let moves = shards.iter().zip(&places).filter(|(shard, place)| shard.server != **place);
    let moves = moves.map(|(shard, to)| PlannedMove {
        shard: shard.shard,
        from: shard.server.clone(),
        to: (*to).to_owned(),
        bytes: shard.bytes,
        ids_per_second: shard.ids_per_second,
    });
    Plan { moves: moves.collect(), servers: summary(servers, shards, &places) }
}

/// Moves the shards of drained servers, heaviest first, each to the server that then has the least
/// load.
fn drain<'a>(
    targets: &[&'a String],
    drained: &[String],
    weights: &[f64],
    loads: &mut BTreeMap<&'a str, f64>,
    places: &mut [&'a str],
) {
    let mut leaving: Vec<usize> = (0..places.len())
        .filter(|&shard| drained.iter().any(|server| server == places[shard]))
        .collect();
    leaving.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    for shard in leaving {
        let to = extreme(targets, loads, |a, b| a.total_cmp(&b));
        relocate(shard, to, weights, loads, places);
    }
}

/// Moves shards from the server with the most load to the one with the least, until both are within
/// the tolerance of the mean.
fn even_out<'a>(
    targets: &[&'a String],
    shards: &[ShardLoad],
    weights: &[f64],
    loads: &mut BTreeMap<&'a str, f64>,
    places: &mut [&'a str],
    tolerance: f64,
) {
    let mean =
        targets.iter().map(|server| loads[server.as_str()]).sum::<f64>() / targets.len() as f64;
    let slack = mean * tolerance;
    loop {
        // A server that receives shards must not give any away, and vice versa: such moves are
        // unnecessary.
        let has_moved = |server: &str, is_giver: bool| {
            places.iter().zip(shards).any(|(place, shard)| {
                shard.server != **place
                    && server == if is_giver { shard.server.as_str() } else { place }
            })
        };
        let without = |is_giver| {
            let targets = targets.iter().copied();
            targets.filter(|server| !has_moved(server, is_giver)).collect::<Vec<_>>()
        };
        let (givers, takers) = (without(false), without(true));
        if givers.is_empty() || takers.is_empty() {
            return;
        }
        let high = extreme(&givers, loads, |a, b| b.total_cmp(&a));
        let low = extreme(&takers, loads, |a, b| a.total_cmp(&b));
        let (excess, room) = (loads[high] - mean, mean - loads[low]);
        if excess <= slack && room <= slack {
            return;
        }
        let gap = loads[high] - loads[low];
        let candidates = (0..places.len()).filter(|&shard| {
            places[shard] == high && weights[shard] > 0.0 && weights[shard] < gap - ROUNDING
        });
        // Choose the shard whose weight is nearest to the excess or the room, whichever is less. If
        // all shards are too heavy for that, choose the lightest: it still reduces the highest
        // load, as it is lighter than the gap.
        let wanted = excess.min(room);
        let distance = |shard: usize| match weights[shard] {
            weight if weight <= wanted + slack => (false, (weight - wanted).abs()),
            weight => (true, weight),
        };
        let order = |&a: &usize, &b: &usize| {
            let (a, b) = (distance(a), distance(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        let Some(best) = candidates.min_by(order) else { return };
        relocate(best, low, weights, loads, places);
    }
}

/// The first server in this order of loads. Among equal loads, the first one of `targets`.
fn extreme<'a>(
    targets: &[&'a String],
    loads: &BTreeMap<&str, f64>,
    order: impl Fn(f64, f64) -> std::cmp::Ordering,
) -> &'a str {
    let first = targets.iter().min_by(|a, b| order(loads[a.as_str()], loads[b.as_str()]));
    first.expect("a server that is not drained").as_str()
}

fn relocate<'a>(
    shard: usize,
    to: &'a str,
    weights: &[f64],
    loads: &mut BTreeMap<&'a str, f64>,
    places: &mut [&'a str],
) {
    *loads.get_mut(places[shard]).expect("a known server") -= weights[shard];
    *loads.get_mut(to).expect("a known server") += weights[shard];
    places[shard] = to;
}

/// The weights of the shards, which add up to 1. Without any data, all shards have the same weight.
fn weights(shards: &[ShardLoad]) -> Vec<f64> {
    let shares = |value: fn(&ShardLoad) -> f64| -> Option<Vec<f64>> {
        let total: f64 = shards.iter().map(value).sum();
        (total > 0.0).then(|| shards.iter().map(|shard| value(shard) / total).collect())
    };
    let known: Vec<Vec<f64>> =
        [shares(|shard| shard.bytes as f64), shares(|shard| shard.ids_per_second)]
            .into_iter()
            .flatten()
            .collect();
    if known.is_empty() {
        return vec![1.0 / shards.len().max(1) as f64; shards.len()];
    }
    (0..shards.len())
        .map(|shard| known.iter().map(|shares| shares[shard]).sum::<f64>() / known.len() as f64)
        .collect()
}

fn summary(servers: &[String], shards: &[ShardLoad], places: &[&str]) -> Vec<ServerLoad> {
    let add = |load: &mut Load, shard: &ShardLoad| {
        load.shards += 1;
        load.bytes += shard.bytes;
        load.ids_per_second += shard.ids_per_second;
    };
    let of_server = |server: &String| {
        let mut row = ServerLoad { server: server.clone(), ..ServerLoad::default() };
        for (shard, place) in shards.iter().zip(places) {
            if shard.server == *server {
                add(&mut row.before, shard);
            }
            if place == server {
                add(&mut row.after, shard);
            }
        }
        row
    };
    servers.iter().map(of_server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shard(shard: u16, server: &str, bytes: i64, ids_per_second: f64) -> ShardLoad {
        ShardLoad { shard, server: server.into(), bytes, ids_per_second }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).into()).collect()
    }

    fn moves(plan: &Plan) -> Vec<(u16, &str, &str)> {
        plan.moves.iter().map(|m| (m.shard, m.from.as_str(), m.to.as_str())).collect()
    }

    #[test]
    fn even_servers_stay() {
        let shards = [shard(1, "a", 100, 1.0), shard(2, "b", 105, 1.0)];
        assert_eq!(moves(&plan(&names(&["a", "b"]), &shards, &[], TOLERANCE)), []);
    }

    #[test]
    fn a_new_server_gets_its_part() {
        let shards: Vec<_> =
            (0..12).map(|n| shard(n, if n < 6 { "a" } else { "b" }, 100, 0.0)).collect();
        let plan = plan(&names(&["a", "b", "c"]), &shards, &[], TOLERANCE);
        assert_eq!(plan.servers.iter().map(|s| s.after.shards).collect::<Vec<_>>(), [4, 4, 4]);
        assert_eq!(plan.moves.len(), 4);
        assert!(plan.moves.iter().all(|m| m.to == "c"));
    }

    #[test]
    fn a_drained_server_is_empty_and_gets_nothing() {
        let shards = [
            shard(1, "a", 300, 0.0),
            shard(2, "a", 200, 0.0),
            shard(3, "a", 100, 0.0),
            shard(4, "b", 100, 0.0),
        ];
        let plan = plan(&names(&["a", "b", "c"]), &shards, &names(&["a"]), TOLERANCE);
        assert_eq!(moves(&plan), [(1, "a", "c"), (2, "a", "b"), (3, "a", "b")]);
    }

    #[test]
    fn inserts_count_as_much_as_bytes() {
        let shards = [
            shard(1, "a", 100, 9.0),
            shard(2, "a", 100, 9.0),
            shard(3, "b", 100, 0.0),
            shard(4, "b", 100, 0.0),
        ];
        let plan = plan(&names(&["a", "b"]), &shards, &[], TOLERANCE);
        // Each busy shard has weight 0.375, and a exceeds the mean by 0.25: a second move would not
        // help.
        assert!(plan.moves.len() <= 1, "{:?}", moves(&plan));
    }

    /// Moving the only shard of a server to an empty one changes nothing, however the weights are
    /// rounded.
    #[test]
    fn the_only_shard_of_a_server_stays() {
        for bytes in 1..500 {
            let shards = [shard(0, "a", 1000, 0.9), shard(1, "a", 1000 + bytes, 0.7)];
            let plan = plan(&names(&["a", "b", "c", "d"]), &shards, &[], 0.0);
            assert_eq!(plan.moves.len(), 1, "{bytes}: {:?}", moves(&plan));
        }
    }

    #[test]
    fn without_any_data_shards_are_counted() {
        let shards: Vec<_> = (0..10).map(|n| shard(n, "a", 0, 0.0)).collect();
        let plan = plan(&names(&["a", "b"]), &shards, &[], TOLERANCE);
        assert_eq!(plan.moves.len(), 5);
    }

    #[test]
    fn no_server_to_move_to() {
        let shards = [shard(1, "a", 1, 0.0)];
        assert_eq!(moves(&plan(&names(&["a"]), &shards, &names(&["a"]), TOLERANCE)), []);
    }

    proptest! {
        #[test]
        fn moves_help_and_none_is_undone(
            loads in prop::collection::vec((0..5usize, 0..1000i64, 0..100u32), 1..60),
            drained in 0..3usize,
        ) {
            let servers = names(&["a", "b", "c", "d", "e"]);
            let shards: Vec<_> = loads.iter().enumerate()
                .map(|(n, (server, bytes, rate))| shard(n as u16, &servers[*server], *bytes, f64::from(*rate)))
                .collect();
            let drained = &servers[..drained];
            let made = plan(&servers, &shards, drained, TOLERANCE);
            for server in &servers {
                let gives = made.moves.iter().any(|m| m.from == *server);
                let gets = made.moves.iter().any(|m| m.to == *server);
                // Not checked with drained servers.
                prop_assert!(!(gives && gets && drained.is_empty()), "{server} gives and gets");
                let row = made.servers.iter().find(|row| row.server == *server).unwrap();
                prop_assert!(!drained.contains(server) || row.after.shards == 0 && !gets);
            }
            let weights = weights(&shards);
            let targets: Vec<_> = servers.iter().filter(|server| !drained.contains(server)).collect();
            // A second plan after the first one does not increase the highest load.
            let after: Vec<_> = shards.iter().map(|shard| {
                let to = made.moves.iter().find(|m| m.shard == shard.shard).map(|m| m.to.clone());
                ShardLoad { server: to.unwrap_or_else(|| shard.server.clone()), ..shard.clone() }
            }).collect();
            let spread = |shards: &[ShardLoad]| -> f64 {
                targets.iter().map(|server| shards.iter().zip(&weights).filter(|(s, _)| s.server == ***server)
                    .map(|(_, w)| w).sum::<f64>()).fold(0.0, f64::max)
            };
            if drained.is_empty() {
                prop_assert!(spread(&after) <= spread(&shards) + 1e-9);
            }
            let again = plan(&servers, &after, drained, TOLERANCE);
            let later: Vec<_> = after.iter().map(|shard| {
                let to = again.moves.iter().find(|m| m.shard == shard.shard).map(|m| m.to.clone());
                ShardLoad { server: to.unwrap_or_else(|| shard.server.clone()), ..shard.clone() }
            }).collect();
            prop_assert!(spread(&later) <= spread(&after) + 1e-9);
        }
    }
}
