//! `status`: shows the map, and the progress of moves, including those that run on other machines.

use crate::error::Result;
use crate::map::{self, Map, MoveStatus, ServerShards};
use crate::output::{Output, Progress, summary};
use crate::replication;
use crate::server::Server;
use serde::Serialize;

#[derive(Serialize)]
struct Status {
    servers: Vec<ServerShards>,
    moves: Vec<MoveNow>,
    /// The shards of the server that the user asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<Vec<u16>>,
}

#[derive(Serialize)]
struct MoveNow {
    #[serde(flatten)]
    moving: MoveStatus,
    /// Progress of the copy. None after the cutover, or if a server cannot be queried.
    progress: Option<Progress>,
}

/// Shows the map, and the shards of the server `shards_of`.
pub fn show(map: &Map, shards_of: Option<&str>, output: &Output) -> Result {
    let moves = map.moves()?.into_iter().map(|moving| {
        let progress = if moving.switched { None } else { progress(map, &moving).ok() };
        MoveNow { moving, progress }
    });
    let shards = match shards_of {
        None => None,
        Some(server) => {
            map.server(server)?;
            Some(map::shards_of(&map.placements()?, server))
        }
    };
    let status = Status { servers: map.servers()?, moves: moves.collect(), shards };
    if output.is_json() {
        output.object(&status);
        return Ok(());
    }
    output.step("Shards by server");
    let mut rows = vec![["server", "shards", "version", "trusts"].map(String::from)];
    rows.extend(status.servers.iter().map(|server| {
        let version = server.version.map(|version| version.to_string()).unwrap_or_default();
        [server.server.clone(), server.shards.to_string(), version, server.trusted.join(", ")]
    }));
    output.table(&rows);
    output.step("Moves");
    let mut rows = vec![["shard", "source", "target", "started", "state"].map(String::from)];
    rows.extend(status.moves.iter().map(|now| {
        let moving = &now.moving;
        let (source, target) = (moving.source.clone(), moving.target.clone());
        [moving.shard.to_string(), source, target, moving.started.clone(), state(now)]
    }));
    output.table(&rows);
    if let (Some(server), Some(shards)) = (shards_of, &status.shards) {
        let shards: Vec<_> = shards.iter().map(u16::to_string).collect();
        output.step(format!("Shards of {server}: {}", shards.join(" ")));
    }
    Ok(())
}

fn state(now: &MoveNow) -> String {
    let MoveStatus { shard, target, switched, finished, running, .. } = &now.moving;
    let progress = now
        .progress
        .as_ref()
        .map(|progress| format!(": {}", summary(progress)))
        .unwrap_or_default();
    match (finished, switched, running) {
        (true, ..) => format!("done; to drop the old copy: clean {shard}"),
        (_, _, true) => format!("running{progress}"),
        (_, true, _) => format!("on {target}; to finish: move {shard} --to {target}"),
        _ if now.moving.changed => format!("the schema was changed; to undo: cancel {shard}"),
        _ => format!("interrupted; to resume: move {shard} --to {target}{progress}"),
    }
}

/// Reads the progress of the copy from the servers. Does not disturb the command that runs the
/// move.
fn progress(map: &Map, moving: &MoveStatus) -> Result<Progress> {
    let observe =
        |server: &str| Server::observe(server, map.server(server)?, moving.shard, &moving.schema);
    let (source, target) = (observe(&moving.source)?, observe(&moving.target)?);
    let mut report = replication::report(&source, &target, "")?;
    report.read_sizes(&source, &target)?;
    Ok(report.progress)
}
