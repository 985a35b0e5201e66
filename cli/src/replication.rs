//! The copy of a shard by logical replication: publication, schema, subscription, and waiting for
//! the rows.

use crate::error::{Context, Error, Result, check_interrupt, fail, refuse};
use crate::libpq::{self, Connection};
use crate::map::Map;
use crate::output::{Output, Progress};
use crate::server::{self, Server, lock_relations};
use crate::session;
use crate::trust::{self, Needed};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

/// Interval between checks of the copy.
const LOOK: Duration = Duration::from_millis(100);

/// Interval between checks whether the definition of the schema has changed.
const COMPARE: Duration = Duration::from_secs(60);

/// The target is near enough if it applies what the source has written within this time. If it
/// does not, the time grows, up to half of the time for which writes may be stopped.
const NEAR: Duration = Duration::from_millis(300);

/// A move ends after this many errors of the replication without progress, or if no worker of the
/// target has been at work for this time. Workers retry every five seconds by default.
const ERRORS: i64 = 5;
const IDLE: Duration = Duration::from_secs(30);

/// A worker that has copied a table drops its slot on the source, and then commits that it has done
/// so. If the target crashes between the two, each later worker looks for that slot in vain. So a
/// copy is abandoned if a slot has been missing for this time.
const ABANDONED: Duration = Duration::from_secs(10);

/// To begin to copy a table waits for all transactions of the source that have written by then. The
/// command names those for which this has waited for this time.
const DELAYED: Duration = Duration::from_secs(5);

pub fn publish(source: &Server) -> Result {
    let cannot = "the schema cannot be published";
    source.run_against_blockers(include_str!("sql/publish.sql"), false, None, cannot)?;
    Ok(())
}

/// Creates the schema on the target, closed, and records its definitions on both servers in the
/// map. Untrusted roles are looked for before the statements of the dump are executed, and again in
/// the schema that they have created.
pub fn create_copy(map: &Map, source: &Server, target: &Server) -> Result {
    let dump = dump_schema(source)?;
    let (missing, needed) = trust::find_needed(target, &dump.needed)?;
    if !missing.is_empty() {
        fail!("the schema has changed: {}", missing.join("; "));
    }
    // Use a separate session, because the dump changes settings.
    let session = target.another_session()?;
    let problem = || format!("the schema cannot be created on {}", target.name);
    session.run("SET move.is_copy = on; BEGIN").context(problem)?;
    trust::require_with(target, &session, &needed, &dump.rights)?;
    session.run(&dump.statements).context(problem)?;
    session
        .run("SELECT pg_catalog.set_config('search_path', 'pg_catalog', false); SET lock_timeout = '60s'")
        .context(problem)?;
    let created = objects(&session, source).context(problem)?;
    if let Some(lost) = dump.objects.difference(&created).next() {
        let way_out = if lost.starts_with("column ") {
            "make the types of both servers the same, or, if it inherits columns, let it inherit them again after the move"
        } else {
            "drop it, and create it again after the move"
        };
        fail!("{}: its dump does not create {lost}; {way_out}", problem());
    }
    // Before the lock, which changes those of a role that is no superuser.
    let privileges = privileges(&session, source, &dump.has_maintain).context(problem)?;
    session.run(server::LOCK).context(problem)?;
    session.run(server::CLOSE).context(problem)?;
    let differing = server::changed_objects(&dump.privileges, &privileges)?;
    if !differing.is_empty() {
        fail!(
            "{}: other roles would have other privileges than on {} on {}; ALTER DEFAULT PRIVILEGES has changed those of \
             new objects on {} for the role of the command: undo that (\\ddp), or connect to {} as another role",
            problem(),
            source.name,
            differing.join(", "),
            target.name,
            target.name
        );
    }
    trust::require_with(target, &session, &needed, &dump.rights)?;
    let owners = session.query(include_str!("sql/owners.sql"), &[&target.schema]);
    let obstacles: Vec<String> = owners.and_then(|rows| rows.column()).context(problem)?;
    refuse(problem(), obstacles)?;
    let copy = server::definition(&session).context(problem)?;
    map.record(source.shard, "definition", &dump.definition)?;
    map.record(source.shard, "copy_definition", &copy)?;
    session.run("COMMIT").context(problem)?;
    Ok(())
}

/// A schema as it is in one snapshot of the source.
struct Dump {
    /// Create the schema.
    statements: String,
    definition: String,
    /// Those of the schema on the source.
    objects: BTreeSet<String>,
    /// The objects that the schema needs, for [`trust::find_needed`].
    needed: Vec<Needed>,
    /// The rights in the schema, for [`trust::require_with`].
    rights: String,
    /// The [`privileges`], and whether MAINTAIN counts.
    privileges: String,
    has_maintain: String,
}

/// The privileges on each object of the schema, as a JSON object. A dump leaves out those that
/// PostgreSQL grants by default.
fn privileges(
    session: &Connection,
    source: &Server,
    has_maintain: &str,
) -> std::result::Result<String, libpq::Error> {
    let query = include_str!("sql/privileges.sql").replace("{acls}", include_str!("sql/acls.sql"));
    session.query(&query, &[&source.schema, has_maintain])?.one()
}

/// The objects of the schema which its dump creates. An object with parts in other schemas, such as
/// statistics of a table there, may be missing in a dump.
fn objects(
    session: &Connection,
    source: &Server,
) -> std::result::Result<BTreeSet<String>, libpq::Error> {
    let query = trust::with_own(include_str!("sql/objects.sql"));
    Ok(session.query(&query, &[&source.schema])?.column()?.into_iter().collect())
}

fn dump_schema(source: &Server) -> Result<Dump> {
    let problem = || format!("the schema cannot be dumped from {}", source.name);
    let session = source.another_session()?;
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").context(problem)?;
    let rights = trust::require(source, &session)?;
    let needed = trust::needed(&session, &source.schema).context(problem)?;
    let definition = server::definition(&session).context(problem)?;
    let objects = objects(&session, source).context(problem)?;
    let since_17 = "SELECT (current_setting('server_version_num')::int >= 170000)::text";
    let has_maintain: String = session.run(since_17).context(problem)?.one()?;
    let privileges = privileges(&session, source, &has_maintain).context(problem)?;
    let snapshot: String = session.run("SELECT pg_export_snapshot()").context(problem)?.one()?;
    let mut pg_dump = Command::new("pg_dump");
    pg_dump.env("PGOPTIONS", session::options());
    let (conninfo, secrets) = without_secrets(&source.conninfo)?;
    let conninfo = session::with_defaults(&conninfo).context(problem)?;
    pg_dump.envs(secrets);
    pg_dump.arg("--dbname").arg(conninfo).arg(format!("--snapshot={snapshot}"));
    pg_dump.arg(format!("--schema=\"{}\"", source.schema.replace('"', "\"\"")));
    let output = pg_dump
        .args(["--schema-only", "--no-publications", "--no-subscriptions", "--encoding=UTF8"])
        .arg("--lock-wait-timeout=60s")
        .output()
        .context(|| "pg_dump cannot be run".into())?;
    check_interrupt()?;
    if !output.status.success() {
        fail!("{}: {}", problem(), libpq::one_line(&String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8(output.stdout)
        .map_err(|_| Error::failed("pg_dump has not written UTF-8"))?;
    let statements = statements(&text);
    Ok(Dump { statements, definition, objects, needed, rights, privileges, has_maintain })
}

/// Removes what the server does not understand from a dump: the commands for psql, and a setting
/// that pg_dump 17 and later write. Removes them only where pg_dump writes them, as an object, such
/// as a function, can contain the same lines.
fn statements(dump: &str) -> String {
    // The last line of the header that no object has written.
    let end = dump.find("\nSELECT pg_catalog.set_config('search_path'").unwrap_or_default();
    let (header, objects) = dump.split_at(end);
    let key = header.lines().find_map(|line| line.strip_prefix("\\restrict "));
    let is_kept =
        |line: &&str| !line.starts_with("\\restrict ") && *line != "SET transaction_timeout = 0;";
    let header = header.split('\n').filter(is_kept).collect::<Vec<_>>().join("\n");
    // The key is random, so no object contains it.
    let objects = key.map_or(objects.into(), |key| {
        objects.replacen(&format!("\n\\unrestrict {key}\n"), "\n", 1)
    });
    header + &objects
}

/// The secrets of a connection string, and the variables that libpq reads instead. No variable
/// exists for the others.
const SECRETS: [(&str, Option<&str>); 4] = [
    ("password", Some("PGPASSWORD")),
    ("sslpassword", None),
    ("scram_client_key", None),
    ("oauth_client_secret", None),
];

/// Splits the secrets off a connection string: all users can read the arguments of a process, but
/// only this user can read its environment. Fails for a secret that pg_dump cannot get in this way.
fn without_secrets(conninfo: &str) -> Result<(String, Vec<(&'static str, String)>)> {
    let parameters =
        libpq::parse_conninfo(conninfo).context(|| "the conninfo is not valid".into())?;
    let (mut kept, mut secrets) = (Vec::new(), Vec::new());
    for (keyword, value) in parameters {
        match SECRETS.iter().find(|(secret, _)| *secret == keyword) {
            None => kept.push((keyword, value)),
            Some((_, Some(variable))) => secrets.push((*variable, value)),
            Some((_, None)) => {
                fail!(
                    "the conninfo contains {keyword}, which pg_dump would show as an argument: use a file instead"
                )
            }
        }
    }
    Ok((libpq::format_conninfo(&kept), secrets))
}

/// Creates the subscription, which stays disabled until [`start`].
pub fn subscribe(source: &Server, target: &Server) -> Result {
    source.drop_slot()?;
    let problem = |server: &Server| format!("server {} cannot subscribe", server.name);
    // This waits for all transactions of the cluster that have written.
    let slot =
        format!("SELECT pg_create_logical_replication_slot('{}', 'pgoutput')", source.replication);
    source.run_against_blockers(&slot, false, None, "the replication slot cannot be created")?;
    // The connection string may contain a password, which must not appear in the server's log:
    // neither in a statement, nor as a parameter, nor in the context of an error.
    let session = target.another_session()?;
    let quiet = "SET log_statement = none; SET log_min_duration_statement = -1; SET log_min_duration_sample = -1;
        SET log_min_error_statement = panic; SET log_error_verbosity = terse; SET log_parameter_max_length = 0";
    match session.run(quiet) {
        // Another role than a superuser may not change these settings. Then what the server logs is
        // its own affair; the documentation says so.
        Err(error) if error.sqlstate == "42501" => {}
        result => drop(result.context(|| problem(target))?),
    }
    let set = "SELECT set_config('move.conninfo', $1, false)";
    let conninfo = session::with_defaults(&source.conninfo).context(|| problem(target))?;
    session.query(set, &[&conninfo]).context(|| problem(target))?;
    let subscribe = include_str!("sql/subscribe.sql");
    target.run_in(&session, subscribe, false, None, "the subscription cannot be created")?;
    Ok(())
}

/// Enables the subscription. Fails if it would write to another schema: the owner can rename the
/// published schema on the source to the name of a schema that exists on the target.
pub fn start(target: &Server) -> Result {
    let name = &target.replication;
    if target.holds(include_str!("sql/subscribes_elsewhere.sql"), &[name, &target.schema])? {
        let shard = target.shard;
        fail!(
            "the subscription would write to schemas other than {} on {}: \
             run cancel {shard}, and move the shard again",
            target.schema,
            target.name
        );
    }
    target
        .run(&format!("ALTER SUBSCRIPTION {name} ENABLE"), "the subscription cannot be enabled")?;
    Ok(())
}

/// Waits until all tables are copied, and nearly all later changes are applied. Then creates the
/// planner's statistics. Fails early if the definition of the schema on the source has changed, or
/// the schema of one of the two definitions has another name.
/// Returns false if the copy cannot be completed, so that the move has to begin anew.
pub fn wait_for_copy(
    source: &Server,
    target: &Server,
    [definition, copy]: [&str; 2],
    limit: Duration,
    output: &Output,
) -> Result<bool> {
    let mut compared = None;
    let (mut mark, mut marked_at) = (String::new(), Instant::now());
    let mut near = NEAR;
    let mut patience = Patience {
        errors: None,
        copied: 0,
        worked: Instant::now(),
        blocked: None,
        delayed: None,
        named: BTreeSet::new(),
        abandoned: None,
    };
    let mut is_copied = false;
    loop {
        if compared.is_none_or(|at: Instant| at.elapsed() > COMPARE) {
            source.compare_definition(&source.connection(), definition)?;
            compared = Some(Instant::now());
        }
        source.require_name(definition)?;
        target.require_name(copy)?;
        let mut report = report(source, target, &mark)?;
        if report.progress.has_all_tables() && !is_copied {
            // Later changes are applied faster if not each commit is flushed.
            is_copied = true;
            set_synchronous_commit(target, "off")?;
        }
        if is_copied && report.is_reached {
            if marked_at.elapsed() <= near {
                report.read_sizes(source, target)?;
                output.copied(&report.progress);
                break;
            }
            // Under constant load the target may always be this far behind.
            near = (near * 2).min(limit / 2);
        }
        if output.wants_progress() {
            report.read_sizes(source, target)?;
            output.progress(&report.progress);
        }
        patience.check(source, target, &report)?;
        patience.name_transactions(source, &report, output)?;
        if patience.abandoned.is_some_and(|since| since.elapsed() > ABANDONED) {
            return Ok(false);
        }
        if is_copied && (report.is_reached || mark.is_empty()) {
            (mark, marked_at) = (mark_wal(source)?, Instant::now());
        }
        Connection::pause(LOOK);
        check_interrupt()?;
    }
    // Otherwise the target would confirm a transaction only after its WAL writer has flushed it,
    // which can take twice wal_writer_delay (0.4 s).
    set_synchronous_commit(target, "local")?;
    create_statistics(source, target, output)?;
    Ok(true)
}

/// Writes a message to the WAL, and flushes it with all before, as the end of writes will do.
/// Returns its position. The server sends only what is flushed, which for asynchronous commits can
/// be three times wal_writer_delay later.
fn mark_wal(source: &Server) -> Result<String> {
    let mark = "SET LOCAL synchronous_commit = local;
        SELECT pg_logical_emit_message(true, 'instagram_id_shards', '')::text";
    Ok(source.run(mark, "a message cannot be written to the WAL")?.one()?)
}

/// Refreshes the materialized views that are populated on the source, and creates the planner's
/// statistics. The rows are complete without them, so a failure is only a warning.
fn create_statistics(source: &Server, target: &Server, output: &Output) -> Result {
    let populated = "SELECT coalesce(jsonb_agg(relname), '[]') FROM pg_class
        WHERE relnamespace = quote_ident($1)::regnamespace AND relkind = 'm' AND relispopulated";
    let populated: String = source.query(populated, &[&source.schema])?.one()?;
    let statements: Vec<String> = target
        .query(include_str!("sql/statistics.sql"), &[&target.schema, &populated])?
        .column()?;
    for statement in statements {
        // It runs as the owner of its table, whose queries may read views.
        let run = format!("SET LOCAL {} = ''; {statement}", session::RESTRICTION);
        match target.run(&run, &format!("{statement} fails")) {
            Err(error) if error.sqlstate().is_empty() => return Err(error), // no connection
            Err(error) => error.lines().iter().for_each(|line| output.warn(line)),
            Ok(_) => {}
        }
        check_interrupt()?;
    }
    Ok(())
}

/// The state of the replication, as both servers report it.
#[derive(Deserialize)]
pub struct Report {
    #[serde(flatten)]
    pub progress: Progress,
    /// The number of errors.
    errors: i64,
    /// Whether the target has applied the changes before a certain position in the WAL.
    is_reached: bool,
    /// Up to three tables that are being copied.
    copying: String,
    /// The workers of the subscription that wait for locks, as an array.
    waiting: String,
    /// Whether tables wait in vain for a worker that copies them.
    is_stuck: bool,
    /// The slots of tables that are being copied, separated by spaces. They may not exist yet.
    new_slots: String,
    /// The slots of tables whose rows are copied.
    slots: String,
    #[serde(skip)]
    source: Sent,
}

/// The part of the source.
#[derive(Deserialize, Default)]
struct Sent {
    lag_bytes: Option<i64>,
    /// Whether WAL that the target needs was removed, or the slot does not exist.
    is_lost: bool,
    /// Whether one of [`Report::slots`] does not exist.
    is_abandoned: bool,
    /// The sessions that create one of [`Report::new_slots`] and wait for a transaction.
    waiting: String,
    is_connected: bool,
}

/// Reads a report, without sizes. `mark`: the position of [`Report::is_reached`], or empty.
pub fn report(source: &Server, target: &Server, mark: &str) -> Result<Report> {
    let name = &target.replication;
    let mut report: Report = target.select_one(include_str!("sql/copied.sql"), &[name, mark])?;
    let sent: [&str; 3] = [name, &report.slots, &report.new_slots];
    report.source = source.select_one(include_str!("sql/sent.sql"), &sent)?;
    report.progress.lag_bytes = report.source.lag_bytes;
    Ok(report)
}

/// When a move that makes no progress ends. The replication itself retries for ever.
struct Patience {
    /// The number of errors when there was progress.
    errors: Option<i64>,
    /// The number of tables that were copied then.
    copied: i64,
    /// When workers of the target were last at work.
    worked: Instant,
    /// Since when a worker has waited for a lock.
    blocked: Option<Instant>,
    /// Since when the source has not created a slot, or when the transactions were last looked for.
    delayed: Option<Instant>,
    /// The transactions that were named.
    named: BTreeSet<String>,
    /// Since when the slot of a table has been missing.
    abandoned: Option<Instant>,
}

impl Report {
    pub fn read_sizes(&mut self, source: &Server, target: &Server) -> Result {
        (self.progress.bytes, self.progress.bytes_copied) = (source.bytes()?, target.bytes()?);
        Ok(())
    }
}

impl Patience {
    /// Fails after [`ERRORS`] errors without progress, or if for [`IDLE`] no worker has been at
    /// work, or one has waited for a lock. Only the log of the target contains the error itself.
    fn check(&mut self, source: &Server, target: &Server, report: &Report) -> Result {
        let (from, to, name) = (&source.name, &target.name, &target.replication);
        if report.source.is_lost {
            fail!(
                "server {from} has lost the slot of the move, as after a failover, or WAL that the slot needs \
                 (max_slot_wal_keep_size): run cancel {0}, and move the shard again",
                source.shard
            );
        }
        let Report { progress, errors, copying, waiting, is_stuck, .. } = report;
        let seconds = IDLE.as_secs();
        let copied = progress.tables_copied;
        if progress.has_all_tables() && report.is_reached || copied > self.copied {
            (self.errors, self.copied) = (None, copied);
        }
        let failures = errors - *self.errors.get_or_insert(*errors);
        if failures >= ERRORS {
            let what = match copying.as_str() {
                "" => "applying changes".into(),
                tables => format!("copying {tables}"),
            };
            fail!(
                "the replication to {to} has failed {failures} times in a row while {what}: \
                 the log of {to} contains the error of the worker for subscription \"{name}\""
            );
        }
        if report.source.is_connected && !is_stuck {
            self.worked = Instant::now();
        }
        self.abandoned =
            report.source.is_abandoned.then(|| self.abandoned.unwrap_or_else(Instant::now));
        self.blocked = (waiting != "{}").then(|| self.blocked.unwrap_or_else(Instant::now));
        if self.blocked.is_some_and(|since| since.elapsed() > IDLE) {
            let names = target.names_of_blockers(waiting)?.join(", ");
            if !names.is_empty() {
                fail!(
                    "the replication to {to} has waited for {seconds} s for {names}: end that transaction"
                );
            }
            self.blocked = None; // it has just ended
        }
        if self.worked.elapsed() <= IDLE {
            return Ok(());
        }
        if *is_stuck {
            let settings: String = target
                .query(
                    "SELECT string_agg(format('%s (%s)', name, setting), ' or ' ORDER BY name) FROM pg_settings
                     WHERE name IN ('max_logical_replication_workers', 'max_worker_processes')",
                    &[],
                )?
                .one()?;
            fail!(
                "all logical replication workers of server {to} have been taken for {seconds} s, \
                 and none of them copies tables: increase {settings}"
            );
        }
        fail!(
            "server {to} has not been connected to {from} for {seconds} s: the log of {to} contains the \
             error of the worker for subscription \"{name}\", or that no worker can start"
        );
    }

    /// Names transactions of the source for which the copy of a table waits, each of them once.
    /// They do not end the move: other tables are copied meanwhile.
    fn name_transactions(&mut self, source: &Server, report: &Report, output: &Output) -> Result {
        let waiting = &report.source.waiting;
        self.delayed = (waiting != "{}").then(|| self.delayed.unwrap_or_else(Instant::now));
        if self.delayed.is_some_and(|since| since.elapsed() > DELAYED) {
            self.delayed = Some(Instant::now());
            for who in source.names_of_blockers(waiting)? {
                if self.named.insert(who.clone()) {
                    output.warn(&format!("copying a table waits for {who} on {}", source.name));
                }
            }
        }
        Ok(())
    }
}

/// Whether the workers of the subscription flush each commit (`local`) or not (`off`).
fn set_synchronous_commit(target: &Server, value: &str) -> Result {
    let statement =
        format!("ALTER SUBSCRIPTION {} SET (synchronous_commit = {value})", target.replication);
    target.run(&statement, "the subscription cannot be changed").map(drop)
}

/// Drops the subscription, the slot and the publication, if they exist.
pub fn remove(source: &Server, target: &Server) -> Result {
    if target.has_subscription()? {
        let slot = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND database = current_database())";
        if !source.holds(slot, &[&source.replication])? {
            // The slot is lost, or an earlier attempt has dropped it. A subscription that names it
            // cannot be dropped, or would drop the slot of a move from another database.
            let forget = format!(
                "ALTER SUBSCRIPTION {0} DISABLE; ALTER SUBSCRIPTION {0} SET (slot_name = NONE)",
                target.replication
            );
            target.run(&forget, "the subscription cannot be changed")?;
        }
        let statement = format!("DROP SUBSCRIPTION {}", target.replication);
        target.run(&statement, "the subscription cannot be dropped")?;
    }
    source.drop_slot()?;
    unpublish(source)
}

/// Drops the publication, if it exists, and is not that of another role.
pub fn unpublish(source: &Server) -> Result {
    let name = &source.replication;
    let is_ours = "SELECT EXISTS (SELECT FROM pg_publication JOIN pg_roles AS r ON r.oid = pubowner
        WHERE pubname = $1 AND (rolsuper OR rolname = current_user))";
    if source.holds(is_ours, &[name])? {
        source.run(&format!("DROP PUBLICATION {name}"), "the publication cannot be dropped")?;
    }
    Ok(())
}

/// Drops the schema. It waits for each lock for two seconds, and for all of them not much longer
/// than the work takes on a slow machine: for each relation, and for each column and constraint of
/// a table with all its columns, which PostgreSQL reads again for each that it drops.
const DROP_SCHEMA: &str = concat!(
    "SELECT set_config('move.until', (clock_timestamp() + interval '3 s' + count(*) * interval '2 ms'
            + coalesce(sum(relnatts * (relnatts + parts)), 0) * interval '5 us')::text, true)
     FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
        CROSS JOIN LATERAL (SELECT count(*) AS parts FROM pg_constraint WHERE conrelid = c.oid) AS p
     WHERE nspname = current_setting('move.schema');",
    include_str!("sql/limit.sql"),
    "SET LOCAL lock_timeout = '2s';
     DO $$ BEGIN
         -- Before 18 a GRANT locks only the row of the schema.
         IF current_setting('is_superuser')::boolean AND current_setting('server_version_num')::int < 180000 THEN
             PERFORM FROM pg_namespace WHERE nspname = current_setting('move.schema') FOR UPDATE;
         END IF;
         EXECUTE format('DROP SCHEMA %I CASCADE', current_setting('move.schema'));
     END $$"
);

/// Drops the schema, if it exists. Fails if the schema is not the recorded one, or not closed, if
/// an object outside depends on one in it, or if rows were written to an old copy after it was
/// closed.
pub fn drop_copy(server: &Server, recorded: &str, is_old_copy: bool) -> Result {
    if !server.has_schema()? {
        return Ok(());
    }
    let cannot = "the copy cannot be dropped";
    let problem = || format!("{cannot} on {}", server.name);
    // To connect can take longer than the last statement waits.
    let watcher = server.another_observer()?;
    let run = |statements| {
        Ok::<_, Error>(server.run_against_blockers(statements, false, Some(&watcher), cannot)?.0)
    };
    server.transaction(|session| {
        run(concat!("SET LOCAL lock_timeout = '10s';", include_str!("sql/lock_schema.sql")))?;
        if !server.has_same("identity of the schema", recorded)? {
            return Err(server.not_of_this_move());
        }
        if !server.is_closed()? {
            fail!("{}: schema {} is not closed", problem(), server.schema);
        }
        let locked: String = run(lock_relations!("SHARE MODE NOWAIT"))?.one()?;
        if is_old_copy {
            check_old_copy(server, session)?;
        }
        // From here on no table can be replaced by a view.
        run("SET LOCAL lock_timeout = '500ms'")?;
        let tables: String = run(lock_relations!("ACCESS EXCLUSIVE MODE"))?.one()?;
        if locked != tables {
            fail!("{}: other sessions have changed its tables; run the command again", problem());
        }
        // DROP SCHEMA would lock what depends on the copy, and wait for it.
        require_nothing_else_is_dropped(server, session)?;
        let objects = own_objects(server, &watcher)?;
        // While the tables are locked, it waits for sessions that use a sequence or a view, or have
        // created an object. So it drops, too, what these and others commit meanwhile.
        run(DROP_SCHEMA)?;
        if objects != own_objects(server, &watcher)? {
            fail!("{}: other sessions have changed its objects; run the command again", problem());
        }
        require_nothing_else_is_dropped(server, &watcher)?;
        // A COMMIT that is canceled would not wait for a synchronous standby.
        session.run("SET LOCAL statement_timeout = 0").context(problem).map(drop)
    })
}

/// A hash of the objects of the schema, in a session that does not see what another one has
/// dropped. Limits this and the next statements of the session, since others wait for the locks of
/// that other one. What is created meanwhile waits for the DROP, but in some minor releases only a
/// table does: anything else would be left without a schema.
fn own_objects(server: &Server, watcher: &Connection) -> Result<String> {
    let problem = || server.problem();
    watcher.run("SET statement_timeout = '5s'").context(problem)?;
    let query = "WITH RECURSIVE {own} SELECT sum(hashtextextended(concat_ws(' ', class, object), 0))::text FROM own \
         WHERE class <> 'pg_default_acl'::regclass"; // which any role can change all the time
    watcher
        .query(&trust::with_own(query), &[&server.schema])
        .context(problem)?
        .one()
        .map_err(Error::from)
}

/// Checks that DROP SCHEMA drops nothing outside the schema, and no extension.
fn require_nothing_else_is_dropped(server: &Server, session: &Connection) -> Result {
    let (name, schema) = (&server.name, &server.schema);
    let problem = || server.problem();
    let members = concat!(
        "WITH RECURSIVE {own}, ",
        include_str!("sql/members.sql"),
        "SELECT min(problem) FROM members"
    );
    let found: Option<String> =
        session.query(&trust::with_own(members), &[schema]).context(problem)?.one()?;
    if let Some(problem) = found {
        fail!("schema {schema} on {name} cannot be dropped: {problem}");
    }
    let dependents = trust::with_own(include_str!("sql/dependents.sql"));
    let users: Option<String> = session.query(&dependents, &[schema]).context(problem)?.one()?;
    if let Some(users) = users {
        fail!("objects outside schema {schema} on {name} use it: {users}; drop them first");
    }
    Ok(())
}

/// Checks that all rows of an old copy were moved. Its tables are locked against writes. To plan a
/// query on a table can run functions of its owner, which requires trust.
fn check_old_copy(server: &Server, session: &Connection) -> Result {
    let problem = || format!("the old copy cannot be checked on {}", server.name);
    refuse(problem(), trust::look(server, session)?.0)?;
    session.run(include_str!("sql/moved_rows.sql")).context(problem).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of the header, or of an object.
    #[test]
    fn only_the_header_of_a_dump_is_changed() {
        let search_path = "SELECT pg_catalog.set_config('search_path', '', false);";
        let body = "\\restrict other\n\\unrestrict \nSET transaction_timeout = 0;\n\\restrict \n";
        let dump = format!(
            "--\n\n\\restrict aB3\n\nSET x = 1;\nSET transaction_timeout = 0;\nSET y = 1;\n{search_path}\n{body}\\unrestrict aB3\n\n"
        );
        let kept = format!("--\n\n\nSET x = 1;\nSET y = 1;\n{search_path}\n{body}\n");
        assert_eq!(statements(&dump), kept);
        // Older versions write neither.
        assert_eq!(statements(&kept), kept);
    }

    #[test]
    fn secrets_are_taken_out() {
        let (conninfo, secrets) = without_secrets("postgresql://me:top%20secret@h/db").unwrap();
        assert_eq!(secrets, [("PGPASSWORD", "top secret".to_owned())]);
        assert!(!conninfo.contains("secret") && conninfo.contains("host='h'"), "{conninfo}");
        assert_eq!(
            without_secrets("passfile=p host=h").unwrap(),
            ("passfile='p' host='h'".into(), vec![])
        );
        let error = without_secrets("host=h sslpassword=x").unwrap_err().to_string();
        assert!(error.starts_with("the conninfo contains sslpassword"), "{error}");
    }
}
