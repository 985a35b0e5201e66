//! The cutover: stops writes on the source, waits until the target has applied the last changes,
//! opens the copy, and changes the map. Work that can be done while clients write is done before or
//! after the cutover.

use crate::checks::{lock_extension, require_one_definition};
use crate::error::{Context, Error, Result, check_interrupt, fail};
use crate::interrupt;
use crate::libpq::{self, Connection};
use crate::map::Map;
use crate::output::Output;
use crate::server::{
    CLOSE, LOCK, OPEN, Server, changed_objects, is_passing, is_timeout, lock_relations, locked,
    names_in, within,
};
use crate::trust;
use instagram_id_core::moving::{Resume, must_read_mark, resume};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often stopping writes is repeated, and the least time between the attempts.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(500);
/// The longest wait for the map in one attempt to change it.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the sequences are read before writes are stopped.
const WARM_UP: Duration = Duration::from_secs(1);
/// Interval between checks whether the target has caught up.
const POLL: Duration = Duration::from_millis(1);

/// Takes the snapshot of the transaction, and prevents TRUNCATE and DROP TABLE until the rows are
/// counted. These do not respect snapshots.
const HOLD_ROWS: &str =
    concat!(lock_relations!("ACCESS SHARE MODE NOWAIT"), "SET LOCAL statement_timeout = 0");

/// The definition of each sequence.
const SEQUENCES: &str = include_str!("sql/sequences.sql");

/// The last value and `is_called` of each sequence.
const STATES: &str = locked!("sql/states.sql", "");

/// The end of the time for which writes may be stopped. Every statement between the closing of the
/// source and the COMMIT that opens the copy has a limit, since any session can hold a lock for
/// which one of them waits.
#[derive(Clone, Copy)]
struct Deadline {
    began: Instant,
    limit: Duration,
}

impl Deadline {
    fn begin(limit: Duration) -> Deadline {
        Deadline { began: Instant::now(), limit }
    }

    /// A second after the end, when a server that does not hang has ended the statement.
    fn last_answer(self) -> Instant {
        self.began + self.limit + Duration::from_secs(1)
    }

    fn left(self) -> Duration {
        self.limit.saturating_sub(self.began.elapsed())
    }

    fn within(self, statements: &str) -> String {
        within(self.left(), statements)
    }

    /// The error of a statement, which also explains that of one that has reached its limit.
    fn explain(self, cause: Error) -> Error {
        match cause {
            Error::Failed { message, server: Some(error) } if error.sqlstate == "57014" => {
                let message = format!("{message} in the time of --stop; no data is lost");
                let way = "run move again; if no other session holds locks, with a longer --stop";
                let server = libpq::Error { message: way.into(), ..error };
                Error::Failed { message, server: Some(server) }
            }
            cause => cause,
        }
    }
}

/// Moves the shard to the target, whose copy has nearly all rows. Returns a session that sees the
/// rows of the copy as it was opened. After a failure, allows writes on the source again if that is
/// safe.
pub fn cut_over(
    map: &mut Map,
    source: &Server,
    target: &Server,
    limit: Duration,
    output: &Output,
) -> Result<Connection> {
    if target.holds(
        include_str!("sql/tables_not_subscribed.sql"),
        &[&target.replication, &target.schema],
    )? {
        fail!(
            "server {} has tables in schema {} that are not replicated from {}: \
             run cancel {}, and move the shard again",
            target.name,
            target.schema,
            source.name,
            source.shard
        );
    }
    let [definition, copy] = map.definitions(source.shard)?;
    warm_up(source, target, &definition)?;
    // Recorded before the sequences are closed, so that any later command can restore them.
    let sequences: String = source.query(SEQUENCES, &[&source.schema])?.one()?;
    map.record(source.shard, "sequences", &sequences)?;
    let snapshot = begin_to_count(target)?;
    // To connect can take longer than writes may be stopped.
    let watcher = target.another_observer()?;
    map.begin_to_switch(source.shard, &source.name, &target.name)?;
    let closed = begin_to_open(target, &copy).and_then(|()| {
        output.step("Stopping writes to the shard");
        stop_writes(map, source, target, &definition, &sequences, limit)
    });
    // Until COMMIT is sent, the copy cannot be open.
    let may_be_open = Cell::new(false);
    let opened = closed.and_then(|(deadline, states)| {
        let open = || {
            open_copy(target, watcher, &snapshot, &copy, &states, &sequences, deadline)?;
            may_be_open.set(true);
            commit(target)
        };
        interrupt::hold_off(open).map_err(|cause| deadline.explain(cause))?;
        Ok(deadline.began)
    });
    match opened {
        Ok(began) => change_map(map, source, target, Some(began), output)?,
        Err(cause) => {
            // Report the first error, not an error of the rollback. The target may hang.
            let soon = Instant::now() + Duration::from_secs(1);
            target.connection().wait_until(Some(soon));
            let _ = target.connection().run("ROLLBACK");
            target.connection().wait_until(None);
            let definitions = [&definition[..], &sequences];
            match resume_writes(map, source, target, definitions, may_be_open.get(), output) {
                Ok(Resume::OnSource | Resume::OpenSource) => {
                    output.step(format!("Writes continue on {}", source.name));
                    return Err(cause);
                }
                // The answer to COMMIT was lost.
                Ok(Resume::OnTarget) => change_map(map, source, target, None, output)?,
                outcome => {
                    if let Err(error) = outcome {
                        error.lines().iter().for_each(|line| output.warn(line));
                    }
                    let shard = source.shard;
                    return Err(Error::WritesStopped { shard, cause: Box::new(cause) });
                }
            }
        }
    }
    Ok(snapshot)
}

/// Begins a transaction that counts the rows of the copy after it was opened, and still sees none
/// of the changes of clients. The first call of its statements in a session is slow.
fn begin_to_count(target: &Server) -> Result<Connection> {
    let session = target.another_observer()?;
    let problem = || target.problem();
    session.run(HOLD_ROWS).context(problem)?;
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").context(problem)?;
    Ok(session)
}

/// Compares the numbers of rows of the copy when it was opened with those of the old copy, which is
/// closed. Records them, so that `clean` repeats the comparison.
pub fn compare_rows(map: &Map, source: &Server, target: &Server, snapshot: &Connection) -> Result {
    let copied: String = snapshot
        .run(include_str!("sql/count_rows.sql"))
        .context(|| format!("the rows cannot be counted on {}", target.name))?
        .one()?;
    map.record(source.shard, "rows", &copied)?;
    let count =
        concat!(lock_relations!("ACCESS SHARE MODE NOWAIT"), include_str!("sql/count_rows.sql"));
    let rows: String = source.run(count, "the rows cannot be counted")?.one()?;
    let differing = changed_objects(&copied, &rows)?;
    if differing.is_empty() {
        return Ok(());
    }
    fail!(
        "the copy on {} was opened with other numbers of rows than the old copy on {} has: table {}; \
         clean {} keeps the old copy",
        target.name,
        source.name,
        differing.join(", "),
        source.shard
    );
}

/// Runs those queries of the cutover that change nothing once before writes are stopped. Their
/// first use in a session is slow, because it loads libraries and catalogs.
fn warm_up(source: &Server, target: &Server, recorded: &str) -> Result {
    trust::require(source, &source.connection())?;
    source.compare_definition(&source.connection(), recorded)?;
    match states(source, Deadline::begin(WARM_UP)) {
        // The error of the closing names the session with the lock.
        Err(error) if is_timeout(error.sqlstate()) => check_interrupt()?,
        result => drop(result?),
    }
    target.transaction(|session| {
        let problem = || target.problem();
        session.run("DO 'BEGIN END'").context(problem)?;
        trust::require(target, session)?;
        let extension = lock_extension(session).context(problem)?;
        refusal(session, &extension, target).context(problem)?;
        Ok(())
    })?;
    require_one_definition(target)
}

/// Why the schema cannot generate ids of the shard; empty if it can.
fn refusal(
    connection: &Connection,
    extension: &str,
    target: &Server,
) -> std::result::Result<String, libpq::Error> {
    let query = include_str!("sql/claim.sql").replace("{extension}", extension);
    connection.query(&query, &[&target.shard.to_string(), &target.schema])?.one()
}

fn states(source: &Server, deadline: Deadline) -> Result<String> {
    Ok(source.run(&deadline.within(STATES), "the sequences cannot be read")?.one()?)
}

/// Stops writes on the source, and waits for the last changes. Returns the end of the time for
/// which they may be stopped, and the states of the sequences. After this, the command can open the
/// copy.
fn stop_writes(
    map: &mut Map,
    source: &Server,
    target: &Server,
    recorded: &str,
    sequences: &str,
    limit: Duration,
) -> Result<(Deadline, String)> {
    let deadline = close_source(source, recorded, sequences, limit)?;
    let states =
        wait_for_the_rest(source, deadline, target).map_err(|cause| deadline.explain(cause))?;
    // Both are found by the name of the schema, which its owner can change since the locks are
    // gone.
    let has_all = names_in(&states)? == names_in(sequences)?;
    if !has_all || !source.has_same("identity of the schema", recorded)? {
        return Err(source.renamed("was renamed while writes were stopped"));
    }
    check_interrupt()?;
    let rest = deadline.last_answer().saturating_duration_since(Instant::now());
    map.within(rest, |map| map.check_lock())?;
    Ok((deadline, states))
}

/// Closes the shard on the source. If other transactions hold locks on its tables, each attempt
/// gives up after a short time and releases its own locks, so that other sessions do not wait for
/// long. Fails if the definition of the schema differs from `recorded`, or that of its sequences
/// from `sequences`.
fn close_source(
    source: &Server,
    recorded: &str,
    sequences: &str,
    limit: Duration,
) -> Result<Deadline> {
    const PROBLEM: &str = "writes to the shard cannot be stopped";
    // The sessions with a lock are looked for after a tick, before lock_timeout ends the wait.
    const _: () = assert!(libpq::TICK.as_millis() < 500);
    let watcher = source.another_observer()?;
    let mut tries = 0;
    loop {
        check_interrupt()?;
        let deadline = Deadline::begin(limit);
        let problem = || format!("{PROBLEM} on {}", source.name);
        let mut has_locks = false;
        let closed = source.transaction(|session| {
            // A single lock for less time, as writers wait behind it. That for each sequence is
            // also work. Half of the time is left for the rest.
            session.run("SET LOCAL lock_timeout = '500ms'").context(problem)?;
            let lock = within(limit / 2, LOCK);
            source.run_against_blockers(&lock, false, Some(&watcher), PROBLEM)?;
            has_locks = true;
            session.run(&deadline.within("")).context(problem)?;
            source.compare_definition(session, recorded)?;
            require_sequences(source, &watcher, sequences)?;
            session.run(&deadline.within(CLOSE)).context(problem)?;
            // A COMMIT that is canceled would not wait for a synchronous standby.
            session.run("SET LOCAL statement_timeout = 0").context(problem).map(drop)
        });
        match closed {
            Ok(()) => return Ok(deadline),
            // With all locks, writers have waited for as long as they may.
            Err(error)
                if has_locks && error.sqlstate() == "57014"
                    || tries == TRIES
                    || !is_passing(error.sqlstate()) =>
            {
                check_interrupt()?;
                return Err(deadline.explain(error));
            }
            Err(_) => tries += 1,
        }
        // Otherwise writers would nearly always wait behind attempts that take long.
        Connection::pause(PAUSE.max(deadline.began.elapsed() / 2));
    }
}

/// Fails if the sequences of the schema are not defined like this, as another session sees them: to
/// lock a sequence is to change it, also to what it was before a change for which the lock waited.
fn require_sequences(source: &Server, watcher: &Connection, sequences: &str) -> Result {
    let found = watcher.query(SEQUENCES, &[&source.schema]).context(|| source.problem())?;
    if found.one::<String>()? == sequences {
        return Ok(());
    }
    let (schema, shard) = (&source.schema, source.shard);
    fail!(
        "sequences of schema {schema} on {} have changed since the move began; run cancel {shard}, and move the shard again",
        source.name
    );
}

/// Waits until the target has applied all changes. Returns the states of the sequences.
fn wait_for_the_rest(source: &Server, deadline: Deadline, target: &Server) -> Result<String> {
    let end: String = source.query("SELECT pg_current_wal_flush_lsn()::text", &[])?.one()?;
    // Reading the states also takes time, so do it while the last changes arrive.
    let states = states(source, deadline)?;
    let has_arrived =
        "SELECT EXISTS (SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid
        WHERE slot_name = $1 AND replay_lsn >= $2::pg_lsn)";
    while !source.holds(has_arrived, &[&source.replication, &end])? {
        if deadline.left().is_zero() {
            fail!(
                "server {} has not caught up within {} s; no data is lost: \
                 run move again when there is less load",
                target.name,
                deadline.limit.as_secs()
            );
        }
        check_interrupt()?;
        std::thread::sleep(POLL);
    }
    Ok(states)
}

/// Begins the transaction that opens the copy, before writes are stopped, and locks the schema: the
/// opening would wait for a GRANT in progress. Fails if the definition of the copy differs from
/// `recorded`, or if roles there are not trusted.
fn begin_to_open(target: &Server, recorded: &str) -> Result {
    let session = target.connection();
    session.run("BEGIN").context(|| format!("the shard cannot be opened on {}", target.name))?;
    trust::require(target, &session)?;
    let lock = concat!("SET LOCAL lock_timeout = '10s';", include_str!("sql/lock_schema.sql"));
    target.run_against_blockers(lock, false, None, "the schema cannot be locked")?;
    target.compare_definition(&session, recorded)
}

/// Opens the copy, and gives it the states of the sequences; [`commit`] comes next. Fails if the
/// definition of the copy differs from `recorded`, or the target does not answer.
fn open_copy(
    target: &Server,
    watcher: Connection,
    snapshot: &Connection,
    recorded: &str,
    states: &str,
    sequences: &str,
    deadline: Deadline,
) -> Result {
    let problem = || format!("the shard cannot be opened on {}", target.name);
    let session = target.connection();
    for connection in [&*session, snapshot, &watcher] {
        connection.wait_until(Some(deadline.last_answer()));
    }
    snapshot.run(&deadline.within(HOLD_ROWS)).context(problem)?;
    // The transaction began up to a minute ago.
    session.run(&deadline.within("")).context(problem)?;
    target.compare_definition(&session, recorded)?;
    let set = "SELECT set_config('move.states', $1, false), set_config('move.sequences', $2, false), set_config('move.is_copy', 'on', false)";
    session.query(set, &[states, sequences]).context(problem)?;
    let (open, cannot) = (deadline.within(OPEN), "the shard cannot be opened");
    target.run_against_blockers(&open, false, Some(&watcher), cannot)?;
    session.run(&deadline.within(include_str!("sql/set_states.sql"))).context(problem)?;
    let extension = lock_extension(&session).context(problem)?;
    let claim = format!("SELECT {extension}.claim_shard({})", target.shard);
    session.run(&deadline.within(&claim)).context(problem)?;
    let refusal = refusal(&session, &extension, target).context(problem)?;
    if !refusal.is_empty() {
        fail!("shard {} cannot generate ids on {}: {refusal}", target.shard, target.name);
    }
    [&*session, snapshot].iter().for_each(|connection| connection.wait_until(None));
    Ok(())
}

/// Commits the transaction that opens the copy.
fn commit(target: &Server) -> Result {
    // A COMMIT that is canceled would not wait for a synchronous standby.
    target.run("SET LOCAL statement_timeout = 0; COMMIT", "the shard cannot be opened").map(drop)
}

/// Changes the map, so that clients use the target. The move can no longer be cancelled, because
/// the shard is open on the target and closed on the source.
pub fn change_map(
    map: &mut Map,
    source: &Server,
    target: &Server,
    began: Option<Instant>,
    output: &Output,
) -> Result {
    let shard = source.shard;
    let mut last = None;
    for _ in 0..20 {
        let switch = |map: &mut Map| map.reconnect().and_then(|()| map.switch(shard, &target.name));
        match interrupt::hold_off(|| map.within(ANSWER, switch)) {
            Ok(()) => {
                output.moved(shard, &target.name, began.map(|began| began.elapsed()));
                return Ok(());
            }
            Err(error) => {
                if last.is_none() {
                    output.warn(&format!("the map is not changed yet: {error}"));
                }
                last = Some(error);
            }
        }
        Connection::pause(PAUSE);
        if interrupt::is_requested() {
            break;
        }
    }
    let (why, server) = match last {
        Some(Error::Failed { message, server }) => (message, server),
        other => (other.map_or_else(String::new, |error| error.to_string()), None),
    };
    let message = format!("shard {shard} is open on {}, but not in the map: {why}", target.name);
    let cause = Box::new(Error::Failed { message, server });
    Err(Error::WritesStopped { shard, cause })
}

/// Reports the sessions that [`Server::open_shard`] has ended.
pub fn warn_of_ended(ended: BTreeSet<String>, server: &Server, output: &Output) {
    for one in ended {
        output.warn(&format!("{one} on {} kept writes stopped, and was ended", server.name));
    }
}

/// Allows writes on the source again, unless the target is open or may still open. Returns where
/// writes continue. The definitions are those of the schema and of its sequences.
fn resume_writes(
    map: &mut Map,
    source: &Server,
    target: &Server,
    [definition, sequences]: [&str; 2],
    may_be_open: bool,
    output: &Output,
) -> Result<Resume> {
    let wait = Duration::from_secs(10);
    interrupt::hold_off(|| {
        source.reconnect()?;
        // A schema that was renamed would seem to be open.
        if !source.wait_for_leftovers(wait)?
            || !source.has_same("identity of the schema", definition)?
        {
            return Ok(Resume::Nowhere);
        }
        let mut mark = None;
        // The server of the map may hang, and the target as well.
        let is_alone = source.keeps_others_away()?
            || map.within(Duration::from_secs(1), |map| map.check_lock()).is_ok();
        if must_read_mark(may_be_open, is_alone) {
            target.reconnect()?;
            if !target.wait_for_leftovers(wait)? {
                return Ok(Resume::Nowhere);
            }
            mark = Some(target.mark()?);
        }
        let resume = resume(mark, source.is_closed()?);
        if resume == Resume::OpenSource {
            if !is_alone && !map.may_undo() {
                return Ok(Resume::Nowhere);
            }
            warn_of_ended(source.open_shard(sequences)?, source, output);
        }
        Ok(resume)
    })
}
