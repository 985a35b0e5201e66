//! `plan`: reads the size of each shard and its rate of new ids from all servers, and prints a
//! plan.

use crate::checks::select_from_extension;
use crate::error::{Result, check_interrupt, fail, refuse};
use crate::map::{Map, Trust, shards_of};
use crate::output::{Output, size};
use crate::plan::{Plan, ShardLoad, plan};
use crate::server::Server;
use crate::trust;
use instagram_id_core::layout;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The rate of new ids is computed from this fraction of the rows, the newest ones.
const NEWEST: f64 = 0.25;

/// More ids per second a shard cannot generate.
const LIMIT: f64 = 1_024_000.0;

/// Prints a plan that empties the servers in `drained`, and balances the others.
pub fn show_plan(
    map: &Map,
    drained: &[String],
    tolerance: f64,
    trust: &Trust,
    output: &Output,
) -> Result {
    let servers: Vec<String> = map.servers()?.into_iter().map(|server| server.server).collect();
    for server in drained {
        if !servers.contains(server) {
            fail!("there is no server {server} in the map");
        }
    }
    if servers.iter().all(|server| drained.contains(server)) {
        fail!("there is no server left to move shards to");
    }
    let plan = plan(&servers, &loads(map, &servers, trust, output)?, drained, tolerance);
    print(&plan, output);
    Ok(())
}

/// Reads the load of each shard from the server where the map places it.
fn loads(map: &Map, servers: &[String], trust: &Trust, output: &Output) -> Result<Vec<ShardLoad>> {
    let placements = map.placements()?;
    let mut loads = Vec::new();
    for server in servers {
        check_interrupt()?;
        let observed = Server::observe(server, trust.on(map, server)?, 0, "")?;
        let placed = shards_of(&placements, server);
        let found = loads_of_server(&observed, &placed)?;
        for shard in &placed {
            match found.iter().find(|load| load.shard == *shard) {
                Some(load) => loads.push(load.clone()),
                None => output.warn(&format!(
                    "server {server} has no shard {shard}, contrary to the map; ignored"
                )),
            }
        }
    }
    Ok(loads)
}

/// A row of loads.sql: a schema.
#[derive(Deserialize)]
struct LoadRow {
    /// Its shards, each with the epoch of its ids, in milliseconds since 1970.
    shards: Vec<(u16, i64)>,
    bytes: i64,
    /// The time of the server, in milliseconds since 1970.
    now: i64,
    /// The number of rows and the bounds of each histogram.
    histograms: Vec<(f64, String)>,
}

/// The load of each of these shards, as far as the server has them.
fn loads_of_server(server: &Server, shards: &[u16]) -> Result<Vec<ShardLoad>> {
    let (obstacles, _) = trust::look(server, &server.connection())?;
    refuse(format!("the shards of server {} cannot be read", server.name), obstacles)?;
    let shards: Vec<String> = shards.iter().map(u16::to_string).collect();
    let shards = format!("{{{}}}", shards.join(","));
    let rows: Vec<LoadRow> =
        select_from_extension(server, include_str!("sql/loads.sql"), &[&shards])?;
    Ok(rows.iter().flat_map(|row| loads_of_schema(&server.name, row)).collect())
}

fn loads_of_schema(server: &str, row: &LoadRow) -> Vec<ShardLoad> {
    let epochs: BTreeMap<u16, i64> = row.shards.iter().copied().collect();
    let mut buckets: BTreeMap<u16, Vec<Bucket>> = BTreeMap::new();
    for (rows, bounds) in &row.histograms {
        let Some(bounds) = ids(bounds) else { continue };
        let shard = layout::shard_of(bounds[0]).number();
        if let Some(epoch) = epochs.get(&shard) {
            buckets.entry(shard).or_default().extend(histogram(*rows, *epoch, &bounds));
        }
    }
    let mut load = |shard: &u16| {
        let buckets = buckets.remove(shard).unwrap_or_default();
        let (server, bytes) = (server.to_owned(), row.bytes);
        ShardLoad { shard: *shard, server, bytes, ids_per_second: ids_per_second(buckets, row.now) }
    };
    epochs.keys().map(&mut load).collect()
}

/// The number of rows whose ids were generated from this time until the time of the next bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    /// Milliseconds since 1970.
    from: i64,
    rows: f64,
}

/// The bounds of a histogram, if all are ids of one shard.
fn ids(bounds: &str) -> Option<Vec<i64>> {
    let bounds = bounds.trim_matches(['{', '}']).split(',');
    let bounds: Vec<i64> = bounds.map(|bound| bound.parse().ok()).collect::<Option<_>>()?;
    let is_id = |id: &i64| *id >= 0 && layout::shard_of(*id) == layout::shard_of(bounds[0]);
    (bounds.len() > 1 && bounds.iter().all(is_id)).then_some(bounds)
}

/// The buckets of a histogram of ids, each with the same number of rows. `epoch` is in milliseconds
/// since 1970.
fn histogram(rows: f64, epoch: i64, bounds: &[i64]) -> Vec<Bucket> {
    let rows = rows / (bounds.len() - 1) as f64;
    let time = |id: i64| epoch.saturating_add(i64::try_from(layout::ms_of(id)).unwrap_or(i64::MAX));
    bounds[..bounds.len() - 1].iter().map(|id| Bucket { from: time(*id), rows }).collect()
}

/// The average rate of inserts, from the start of the newest buckets until now. 0 without buckets.
fn ids_per_second(mut buckets: Vec<Bucket>, now: i64) -> f64 {
    // An owner can insert any id, and set the statistics of a table.
    buckets.retain(|bucket| bucket.from < now && bucket.rows.is_finite());
    buckets.sort_by_key(|bucket| -bucket.from);
    let all: f64 = buckets.iter().map(|bucket| bucket.rows).sum();
    let mut rows = 0.0;
    for bucket in &buckets {
        rows += bucket.rows;
        if rows >= all * NEWEST && rows > 0.0 {
            return (rows * 1000.0 / (now - bucket.from) as f64).min(LIMIT);
        }
    }
    0.0
}

fn print(plan: &Plan, output: &Output) {
    if output.is_json() {
        return output.object(plan);
    }
    output.step("Servers, before and after the moves");
    let mut rows =
        vec![["server", "shards", "size", "ids/s", "after", "size", "ids/s"].map(String::from)];
    rows.extend(plan.servers.iter().map(|server| {
        let [before, after] = [server.before, server.after].map(|load| {
            [load.shards.to_string(), size(load.bytes), format!("{:.1}", load.ids_per_second)]
        });
        let [shards, bytes, ids] = before;
        let [shards_then, bytes_then, ids_then] = after;
        [server.server.clone(), shards, bytes, ids, shards_then, bytes_then, ids_then]
    }));
    output.table(&rows);
    output.step(format!("Moves: {}", plan.moves.len()));
    let mut rows = vec![["shard", "from", "to", "size", "ids/s"].map(String::from)];
    rows.extend(plan.moves.iter().map(|planned| {
        let ids = format!("{:.1}", planned.ids_per_second);
        [
            planned.shard.to_string(),
            planned.from.clone(),
            planned.to.clone(),
            size(planned.bytes),
            ids,
        ]
    }));
    output.table(&rows);
}

#[cfg(test)]
mod tests {
    use super::*;
    use instagram_id_core::layout::{Seq, Shard};

    fn id(ms: u64) -> i64 {
        layout::pack(ms, Shard::new(5).unwrap(), Seq::MIN)
    }

    /// The load of shard 5 in a schema with this histogram of 2,000 rows.
    fn rate(bounds: &str, now: i64) -> f64 {
        let histograms = vec![(2000.0, bounds.to_owned())];
        let row = LoadRow { shards: vec![(4, 7), (5, 0)], bytes: 1, now, histograms };
        let loads = loads_of_schema("a", &row);
        assert_eq!(loads.iter().map(|load| load.shard).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(loads[0].ids_per_second, 0.0);
        loads[1].ids_per_second
    }

    #[test]
    fn the_rate_is_that_of_the_newest_ids() {
        // 1,000 rows in the first 100 seconds, then 1,000 in ten.
        let bounds = [0, 100_000, 110_000].map(|ms| id(ms).to_string()).join(",");
        let bounds = format!("{{{bounds}}}");
        assert_eq!(rate(&bounds, 110_000), 100.0);
        // The same, ninety seconds later.
        assert_eq!(rate(&bounds, 200_000), 10.0);
    }

    #[test]
    fn values_that_are_no_ids_of_the_shard_tell_nothing() {
        let other = layout::pack(1, Shard::new(6).unwrap(), Seq::MIN);
        let mixed = format!("{{{},{other}}}", id(1));
        for text in [&mixed, &format!("{{{other},{other}}}"), "{}", "{1}", "{-5,7}", "{a,b}", ""] {
            assert_eq!(rate(text, 110_000), 0.0, "{text}");
        }
        assert_eq!(ids_per_second(vec![], 5), 0.0);
    }
}
