//! The cutover: writes are stopped on the source, what is still to come arrives, the copy opens, and the map changes.
//! All that can be done before or after is done before or after.

use crate::checks::lock_extension;
use crate::error::{Context, Error, Result};
use crate::libpq::{self, Connection};
use crate::map::Map;
use crate::output::Output;
use crate::server::Server;
use crate::{check_interrupt, fail, interrupt};
use std::time::{Duration, Instant};

/// How often the command tries to stop writes. Each try waits for open transactions for half a second at most.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(500);
/// How often the command asks whether the target has caught up.
const POLL: Duration = Duration::from_millis(1);

/// What the target is set to when it opens, as the source has it when it is closed.
struct Standing {
    /// Last value and `is_called` of each sequence.
    sequences: String,
    /// Owner and privileges of the schema.
    rights: String,
}

/// Moves the shard to the target, whose copy has nearly all rows. If that fails, writes continue on the source.
pub fn cut_over(map: &mut Map, source: &Server, target: &Server, limit: Duration, output: &Output) -> Result {
    let tables = target.tables()?;
    // Later tables are seen in the comparison of both sides.
    if target
        .holds(include_str!("sql/tables_not_subscribed.sql"), &[&target.replication(), target.schema()])?
    {
        fail!(
            "{} has tables in schema {} that are not on {}, or do not come from there: cancel {}, and move it again",
            target.name,
            target.schema(),
            source.name,
            source.shard()
        );
    }
    if !(target.is_closed()? && target.is_guarded()?) {
        fail!(
            "schema {} on {} is not as this move has left it: cancel {}, and move it again",
            target.schema(),
            target.name,
            target.shard()
        );
    }
    warm_up(source, target)?;
    output.step("Stopping writes to the shard");
    let mut definitions = String::new();
    match stop_and_open(map, source, target, limit, tables, &mut definitions) {
        Ok(began) => change_map(map, source, target, Some(began), output),
        Err(cause) => Err(resume_after(cause, map, source, target, &definitions, output)),
    }
}

/// Runs what is to be run while writes are stopped, as far as it changes nothing: a session loads libraries and catalogs
/// when it first needs them.
fn warm_up(source: &Server, target: &Server) -> Result {
    standing(source)?;
    source.tables()?;
    let connection = target.connection();
    let problem = || format!("server {} cannot be asked", target.name);
    connection.run("BEGIN; DO 'BEGIN END'").context(problem)?;
    let claimed =
        lock_extension(&connection).and_then(|extension| is_claimed(&connection, &extension, target));
    connection.run("ROLLBACK").context(problem)?;
    claimed.context(problem)?;
    Ok(())
}

/// Whether the schema may generate ids of the shard.
fn is_claimed(
    connection: &Connection,
    extension: &str,
    target: &Server,
) -> std::result::Result<bool, libpq::Error> {
    let query = include_str!("sql/claim.sql").replace("{extension}", extension);
    Ok(connection.query(&query, &[&target.shard().to_string(), target.schema()])?.one())
}

fn standing(source: &Server) -> Result<Standing> {
    Ok(Standing {
        sequences: source.run(include_str!("sql/states.sql"), "the sequences cannot be read")?.one(),
        rights: source.query(include_str!("sql/rights.sql"), &[source.schema()])?.one(),
    })
}

/// From the first lock on the source until the copy is open. Returns when writes were stopped. `definitions` are set to
/// those of the sequences before they were closed.
fn stop_and_open(
    map: &Map,
    source: &Server,
    target: &Server,
    limit: Duration,
    tables: Option<String>,
    definitions: &mut String,
) -> Result<Instant> {
    let began = stop_writes(map, source, definitions)?;
    let standing = wait_for_the_rest(source, limit, target, tables)?;
    check_interrupt()?;
    map.check_lock()?;
    interrupt::hold_off(|| open_copy(target, &standing, definitions, limit))?;
    Ok(began)
}

/// Closes the shard on the source. Sessions that keep its tables locked are waited for between the tries, so that nobody
/// has to wait along for long.
fn stop_writes(map: &Map, source: &Server, definitions: &mut String) -> Result<Instant> {
    let shard = source.shard();
    for _ in 0..TRIES {
        check_interrupt()?;
        *definitions = source.query(include_str!("sql/sequences.sql"), &[source.schema()])?.one();
        // Recorded before they are closed: so they can be opened by any command that comes after this one.
        map.record_sequences(shard, definitions)?;
        source.set("move.sequences", definitions)?;
        let began = Instant::now();
        match source.connection().run(include_str!("sql/close.sql")) {
            Ok(_) => return Ok(began),
            // A lock, or the time for all locks, or other sequences than those that were recorded.
            Err(error) if ["55P03", "57014", "40001"].contains(&error.sqlstate.as_str()) => {
                check_interrupt()?
            }
            error => {
                error.context(|| format!("writes to the shard cannot be stopped on {}", source.name))?;
            }
        }
        Connection::pause(PAUSE);
    }
    fail!(
        "writes to the shard cannot be stopped: transactions keep its tables or sequences locked; pg_locks on {} shows them",
        source.name
    );
}

/// Waits until the target has all that was written. Returns how the source stands, if its tables look like those there.
fn wait_for_the_rest(
    source: &Server,
    limit: Duration,
    target: &Server,
    tables: Option<String>,
) -> Result<Standing> {
    let started = Instant::now();
    let end: String = source.query("SELECT pg_current_wal_flush_lsn()::text", &[])?.one();
    // This takes a while, too, so it is done while the rest arrives.
    let standing = standing(source)?;
    if source.tables()? != tables {
        fail!(
            "the tables of schema {} on {} have changed since the move began: cancel {}, and move it again",
            source.schema(),
            source.name,
            source.shard()
        );
    }
    let has_arrived =
        "SELECT EXISTS (SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid
        WHERE slot_name = $1 AND replay_lsn >= $2::pg_lsn)";
    while !source.holds(has_arrived, &[&source.replication(), &end])? {
        if started.elapsed() > limit {
            fail!(
                "{} has not caught up within {} s; nothing is lost: run move again when there is less load",
                target.name,
                limit.as_secs()
            );
        }
        check_interrupt()?;
        std::thread::sleep(POLL);
    }
    Ok(standing)
}

/// Opens the copy in one transaction: with the sequences, the owner and the privileges of the source.
fn open_copy(target: &Server, standing: &Standing, definitions: &str, limit: Duration) -> Result {
    let problem = || format!("the shard cannot be opened on {}", target.name);
    let connection = target.connection();
    let set = "SELECT set_config('move.states', $1, false), set_config('move.rights', $2, false),
        set_config('move.sequences', $3, false)";
    connection.query(set, &[&standing.sequences, &standing.rights, definitions]).context(problem)?;
    let opened = (|| {
        connection.run(&format!("BEGIN; SET LOCAL lock_timeout = '{}s'", limit.as_secs()))?;
        connection.run(include_str!("sql/open.sql"))?;
        connection.run(include_str!("sql/set_states.sql"))?;
        connection.run(include_str!("sql/unlock_copy.sql"))?;
        let extension = lock_extension(&connection)?;
        connection
            .query(&format!("SELECT {extension}.claim_shard($1::int)"), &[&target.shard().to_string()])?;
        is_claimed(&connection, &extension, target)
    })();
    let is_claimed = match opened {
        Ok(is_claimed) => is_claimed,
        Err(error) => {
            // The error counts, not what the rollback says.
            let _ = connection.run("ROLLBACK");
            return Err(error).context(problem);
        }
    };
    if !is_claimed {
        connection.run("ROLLBACK").context(problem)?;
        fail!("another schema calls itself this shard: drop its function shard_N()");
    }
    connection.run("COMMIT").context(problem)?;
    Ok(())
}

/// Sends clients to the target. From here on there is no way back: the shard is open there, and closed on the source.
pub fn change_map(
    map: &mut Map,
    source: &Server,
    target: &Server,
    began: Option<Instant>,
    output: &Output,
) -> Result {
    let shard = source.shard();
    let mut last = None;
    for _ in 0..20 {
        match interrupt::hold_off(|| map.reconnect().and_then(|()| map.switch(shard, &target.name))) {
            Ok(()) => {
                output.moved(shard, &target.name, began.map(|began| began.elapsed()));
                return Ok(());
            }
            Err(error) => last = Some(error),
        }
        Connection::pause(PAUSE);
        if interrupt::is_requested() {
            break;
        }
    }
    let message = format!(
        "shard {shard} is open on {}, but the map still says {}: no client can write to it until you run move again",
        target.name, source.name
    );
    let server = last.and_then(|error| if let Error::Failed { server, .. } = error { server } else { None });
    Err(Error::Failed { message, server })
}

/// Lets writes continue on the source, unless the target has opened, is opening, or cannot be asked.
fn resume_after(
    cause: Error,
    map: &mut Map,
    source: &Server,
    target: &Server,
    definitions: &str,
    output: &Output,
) -> Error {
    let wait = Duration::from_secs(10);
    let resumed = interrupt::hold_off(|| -> Result<bool> {
        source.reconnect()?;
        target.reconnect()?;
        if !(source.wait_for_leftovers(wait)? && target.wait_for_leftovers(wait)? && target.is_closed()?) {
            return Ok(false);
        }
        if source.is_closed()? {
            if !map.may_undo() {
                return Ok(false);
            }
            source.open_shard(definitions)?;
        }
        Ok(true)
    });
    match resumed {
        Ok(true) => {
            output.step(format!("Writes continue on {}", source.name));
            cause
        }
        _ => Error::WritesStopped { shard: source.shard(), cause: Box::new(cause) },
    }
}
