//! `plan`: reads the size of each shard and its rate of new ids from all servers, and prints a
//! plan.

use crate::checks::select_from_extension;
use crate::error::{Error, Result, check_interrupt, fail};
use crate::map::{Map, Placement};
use crate::output::{Output, size};
use crate::plan::{Plan, ShardLoad, plan};
use crate::rights;
use crate::server::{Names, Server};
use crate::trust::{self, Trust};
use instagram_id_core::layout;
use serde::Deserialize;

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
        let observed = Server::observe(server, trust.on(map, server)?, &Names::default())?;
        let found = loads_of_server(&observed)?;
        for Placement { shard, .. } in placements.iter().filter(|placed| placed.server == *server) {
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

/// A row of loads.sql.
#[derive(Deserialize)]
struct LoadRow {
    shard: u16,
    bytes: i64,
    /// The epoch of the ids and the time of the server, in milliseconds since 1970.
    epoch: i64,
    now: i64,
    /// The number of rows and the bounds of each histogram.
    histograms: Vec<(f64, String)>,
}

/// The load of each shard of a server.
fn loads_of_server(server: &Server) -> Result<Vec<ShardLoad>> {
    let found = trust::look(server, &server.connection(), rights::NOTHING, rights::NOTHING)?;
    let obstacles = found.obstacles;
    if !obstacles.is_empty() {
        let problem = format!("the shards of server {} cannot be read", server.name);
        return Err(Error::Refused { problem, obstacles });
    }
    let rows: Vec<LoadRow> = select_from_extension(server, include_str!("sql/loads.sql"), &[])?;
    let load = |LoadRow { shard, bytes, epoch, now, histograms }| {
        let buckets =
            histograms.iter().flat_map(|(rows, bounds)| histogram(shard, *rows, epoch, bounds));
        let ids_per_second = ids_per_second(buckets.collect(), now);
        ShardLoad { shard, server: server.name.clone(), bytes, ids_per_second }
    };
    Ok(rows.into_iter().map(load).collect())
}

/// The number of rows whose ids were generated from this time until the time of the next bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    /// Milliseconds since 1970.
    from: i64,
    rows: f64,
}

/// The buckets of a histogram of ids, each with the same number of rows. `epoch` is in milliseconds
/// since
/// 1970. Returns no buckets if any bound is not an id of the shard.
fn histogram(shard: u16, rows: f64, epoch: i64, bounds: &str) -> Vec<Bucket> {
    let bounds: Option<Vec<i64>> =
        bounds.trim_matches(['{', '}']).split(',').map(|bound| bound.parse().ok()).collect();
    let bounds = bounds.unwrap_or_default();
    if bounds.len() < 2
        || bounds.iter().any(|id| *id < 0 || layout::shard_of(*id).number() != shard)
    {
        return Vec::new();
    }
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

    #[test]
    fn the_rate_is_that_of_the_newest_ids() {
        // 1,000 rows in the first 100 seconds, then 1,000 in ten.
        let text =
            |bounds: [u64; 3]| format!("{{{}}}", bounds.map(|ms| id(ms).to_string()).join(","));
        let buckets = histogram(5, 2000.0, 0, &text([0, 100_000, 110_000]));
        assert_eq!(buckets.len(), 2);
        assert_eq!(ids_per_second(buckets.clone(), 110_000), 100.0);
        // The same, ninety seconds later.
        assert_eq!(ids_per_second(buckets, 200_000), 10.0);
    }

    #[test]
    fn values_that_are_no_ids_of_the_shard_tell_nothing() {
        assert_eq!(histogram(6, 10.0, 0, &format!("{{{},{}}}", id(1), id(2))), []);
        for text in ["{}", "{1}", "{-5,7}", "{a,b}", ""] {
            assert_eq!(histogram(5, 10.0, 0, text), [], "{text}");
        }
        assert_eq!(ids_per_second(vec![], 5), 0.0);
    }
}
