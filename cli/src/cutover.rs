//! The cutover: stops writes on the source, waits until the target has applied the last changes, opens the
//! copy, and changes the map. Work that can be done while clients write is done before or after the cutover.

use crate::checks::lock_extension;
use crate::error::{Context, Error, Result};
use crate::libpq::{self, Connection};
use crate::map::Map;
use crate::output::Output;
use crate::server::Server;
use crate::{check_interrupt, fail, interrupt};
use instagram_id_core::moving::{Resume, must_read_mark, resume};
use std::time::{Duration, Instant};

/// Number of attempts to stop writes. The timeouts in close.sql limit how long each attempt waits for locks.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(500);
/// Interval between checks whether the target has caught up.
const POLL: Duration = Duration::from_millis(1);

/// State of the closed source, which the copy gets when it is opened.
struct SourceState {
    /// Last value and `is_called` of each sequence.
    sequences: String,
    /// Owner and privileges of the schema.
    rights: String,
}

/// Moves the shard to the target, whose copy has nearly all rows. After a failure, allows writes on the
/// source again if that is safe.
pub fn cut_over(map: &mut Map, source: &Server, target: &Server, limit: Duration, output: &Output) -> Result {
    let tables = target.tables()?;
    // Tables created after this check are found when `wait_for_the_rest` compares both servers.
    if target
        .holds(include_str!("sql/tables_not_subscribed.sql"), &[&target.replication(), target.schema()])?
    {
        fail!(
            "server {} has tables in schema {} that are not replicated from {}: \
             run cancel {}, and move the shard again",
            target.name,
            target.schema(),
            source.name,
            source.shard()
        );
    }
    if !(target.is_closed()? && target.is_guarded()?) {
        fail!(
            "schema {} on {} is open, or has other privileges than this move has set: \
             run cancel {}, and move the shard again",
            target.schema(),
            target.name,
            target.shard()
        );
    }
    warm_up(source, target)?;
    output.step("Stopping writes to the shard");
    let mut attempt = Attempt::default();
    match stop_and_open(map, source, target, limit, tables, &mut attempt) {
        Ok(began) => change_map(map, source, target, Some(began), output),
        Err(cause) => match resume_writes(map, source, target, &attempt) {
            Ok(Resume::OnSource | Resume::OpenSource) => {
                output.step(format!("Writes continue on {}", source.name));
                Err(cause)
            }
            // The answer to COMMIT was lost.
            Ok(Resume::OnTarget) => change_map(map, source, target, None, output),
            Ok(Resume::Nowhere) | Err(_) => {
                Err(Error::WritesStopped { shard: source.shard(), cause: Box::new(cause) })
            }
        },
    }
}

/// How far a cutover has come, for the case that it fails.
#[derive(Default)]
struct Attempt {
    /// The definitions of the sequences before they were closed. Empty until this command has read them.
    definitions: String,
    /// Whether the copy may have been opened.
    may_be_open: bool,
}

/// Runs those queries of the cutover that change nothing once before writes are stopped. Their first use in a
/// session is slow, because it loads libraries and catalogs.
fn warm_up(source: &Server, target: &Server) -> Result {
    source_state(source)?;
    source.tables()?;
    let connection = target.connection();
    let problem = || format!("query on server {} failed", target.name);
    connection.run("BEGIN; DO 'BEGIN END'").context(problem)?;
    let claimed =
        lock_extension(&connection).and_then(|extension| is_claimed(&connection, &extension, target));
    connection.run("ROLLBACK").context(problem)?;
    claimed.context(problem)?;
    Ok(())
}

/// Whether the schema can generate ids of the shard.
fn is_claimed(
    connection: &Connection,
    extension: &str,
    target: &Server,
) -> std::result::Result<bool, libpq::Error> {
    let query = include_str!("sql/claim.sql").replace("{extension}", extension);
    Ok(connection.query(&query, &[&target.shard().to_string(), target.schema()])?.one())
}

fn source_state(source: &Server) -> Result<SourceState> {
    let states = concat!("SET LOCAL lock_timeout = '1s';", include_str!("sql/states.sql"));
    let rights = source.query(include_str!("sql/rights.sql"), &[source.schema()])?.column().pop();
    let Some(rights) = rights else {
        fail!("there is no schema {} on {}", source.schema(), source.name);
    };
    Ok(SourceState { sequences: source.run(states, "the sequences cannot be read")?.one(), rights })
}

/// Stops writes on the source, waits for the last changes, and opens the copy. Returns the time when writes
/// were stopped.
fn stop_and_open(
    map: &Map,
    source: &Server,
    target: &Server,
    limit: Duration,
    tables: Option<String>,
    attempt: &mut Attempt,
) -> Result<Instant> {
    let began = stop_writes(map, source, &mut attempt.definitions)?;
    let state = wait_for_the_rest(source, limit, target, tables)?;
    check_interrupt()?;
    map.check_lock()?;
    attempt.may_be_open = true;
    interrupt::hold_off(|| open_copy(target, &state, &attempt.definitions, limit))?;
    Ok(began)
}

/// Closes the shard on the source. If other transactions hold locks on its tables, each attempt gives up
/// after a short time and releases its own locks, so that other sessions do not wait for long.
fn stop_writes(map: &Map, source: &Server, definitions: &mut String) -> Result<Instant> {
    let shard = source.shard();
    for _ in 0..TRIES {
        check_interrupt()?;
        *definitions = source.query(include_str!("sql/sequences.sql"), &[source.schema()])?.one();
        // Record the definitions before closing the sequences, so that any later command can restore them.
        map.record_sequences(shard, definitions)?;
        source.set("move.sequences", definitions)?;
        let began = Instant::now();
        match source.connection().run(include_str!("sql/close.sql")) {
            Ok(_) => return Ok(began),
            // lock_timeout, statement_timeout, or sequences that differ from the recorded definitions.
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
        "writes to the shard cannot be stopped: transactions hold locks on its tables or sequences; \
         see pg_locks on {}",
        source.name
    );
}

/// Waits until the target has applied all changes. Returns the state of the source. Fails if the definitions
/// of its tables differ from `tables`, those of the target.
fn wait_for_the_rest(
    source: &Server,
    limit: Duration,
    target: &Server,
    tables: Option<String>,
) -> Result<SourceState> {
    let started = Instant::now();
    let end: String = source.query("SELECT pg_current_wal_flush_lsn()::text", &[])?.one();
    // Reading the state also takes time, so do it while the last changes arrive.
    let state = source_state(source)?;
    if source.tables()? != tables {
        fail!(
            "the tables of schema {} on {} have changed since the move began: \
             run cancel {}, and move the shard again",
            source.schema(),
            source.name,
            source.shard()
        );
    }
    // A table that was dropped and created again has the same name and definition, but none of the rows of the old one.
    if !source.holds(include_str!("sql/same_tables.sql"), &[&source.replication(), source.schema()])? {
        fail!(
            "tables of schema {} on {} were created again since the move began: \
             run cancel {}, and move the shard again",
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
                "server {} has not caught up within {} s; no data is lost: \
                 run move again when there is less load",
                target.name,
                limit.as_secs()
            );
        }
        check_interrupt()?;
        std::thread::sleep(POLL);
    }
    Ok(state)
}

/// Opens the copy, and gives it the sequences, the owner and the privileges of the source, in one
/// transaction.
fn open_copy(target: &Server, state: &SourceState, definitions: &str, limit: Duration) -> Result {
    let problem = || format!("the shard cannot be opened on {}", target.name);
    let connection = target.connection();
    let set = "SELECT set_config('move.states', $1, false), set_config('move.rights', $2, false),
        set_config('move.sequences', $3, false)";
    connection.query(set, &[&state.sequences, &state.rights, definitions]).context(problem)?;
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
            // Report the first error, not an error of the rollback.
            let _ = connection.run("ROLLBACK");
            return Err(error).context(problem);
        }
    };
    if !is_claimed {
        connection.run("ROLLBACK").context(problem)?;
        fail!("another schema on the new server also has a function shard_N() for this shard: drop it");
    }
    connection.run("COMMIT").context(problem)?;
    Ok(())
}

/// Changes the map, so that clients use the target. The move can no longer be cancelled, because the shard is
/// open on the target and closed on the source.
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
    let message =
        format!("shard {shard} is open on {}, but the map still names {}", target.name, source.name);
    let server = last.and_then(|error| if let Error::Failed { server, .. } = error { server } else { None });
    let cause = Box::new(Error::Failed { message, server });
    Err(Error::WritesStopped { shard, cause })
}

/// Allows writes on the source again, unless the target is open or may still open. Returns where writes continue.
fn resume_writes(map: &mut Map, source: &Server, target: &Server, attempt: &Attempt) -> Result<Resume> {
    let wait = Duration::from_secs(10);
    interrupt::hold_off(|| {
        source.reconnect()?;
        if !source.wait_for_leftovers(wait)? {
            return Ok(Resume::Nowhere);
        }
        let mut mark = None;
        if must_read_mark(attempt.may_be_open, map.check_lock().is_ok()) {
            target.reconnect()?;
            if !target.wait_for_leftovers(wait)? {
                return Ok(Resume::Nowhere);
            }
            mark = Some(target.mark()?);
        }
        let resume = resume(mark, source.is_closed()?, !attempt.definitions.is_empty());
        if resume == Resume::OpenSource {
            if !map.may_undo() {
                return Ok(Resume::Nowhere);
            }
            source.open_shard(&attempt.definitions)?;
        }
        Ok(resume)
    })
}
