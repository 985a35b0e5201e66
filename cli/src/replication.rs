//! The copy of a shard by logical replication: publication, schema, subscription, and waiting for
//! the rows.

use crate::error::{Context, Error, Result, check_interrupt, fail};
use crate::libpq::{self, Connection, Rows};
use crate::map::Map;
use crate::output::{Output, Progress};
use crate::server::{self, Server};
use crate::session;
use crate::trust;
use std::process::Command;
use std::time::{Duration, Instant};

/// Interval between checks of the copy.
const LOOK: Duration = Duration::from_millis(100);

/// Interval between checks whether the definition of the schema has changed.
const COMPARE: Duration = Duration::from_secs(60);

/// The target is near enough if it confirms what the source has written within this time. If it
/// does not, the time grows, up to half of the time for which writes may be stopped.
const NEAR: Duration = Duration::from_millis(300);

/// A move ends after this many errors of the replication without progress, or if the target has not
/// been connected to the source for this time. Workers retry every five seconds by default.
const ERRORS: i64 = 5;
const DISCONNECTED: Duration = Duration::from_secs(30);

pub fn publish(source: &Server) -> Result {
    source.run(include_str!("sql/publish.sql"), "the schema cannot be published")?;
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
    trust::require(target, &session, &needed, &dump.rights)?;
    session.run(&dump.statements).context(problem)?;
    session
        .run("SELECT pg_catalog.set_config('search_path', 'pg_catalog', false)")
        .context(problem)?;
    session.run(include_str!("sql/lock.sql")).context(problem)?;
    session.run(include_str!("sql/close.sql")).context(problem)?;
    trust::require(target, &session, &needed, &dump.rights)?;
    let copy = server::definition(&session).context(problem)?;
    map.record_definitions(source.shard(), &dump.definition, &copy)?;
    session.run("COMMIT").context(problem)?;
    Ok(())
}

/// A schema as it is in one snapshot of the source.
struct Dump {
    /// Create the schema.
    statements: String,
    definition: String,
    /// The objects that the schema needs, for [`trust::find_needed`].
    needed: Rows,
    /// The rights in the schema, for [`trust::require`].
    rights: String,
}

fn dump_schema(source: &Server) -> Result<Dump> {
    let problem = || format!("the schema cannot be dumped from {}", source.name);
    let session = source.another_session()?;
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").context(problem)?;
    let rights = trust::require(source, &session, trust::NOTHING, trust::NOTHING)?;
    let needed = trust::needed(&session, source.schema()).context(problem)?;
    let definition = server::definition(&session).context(problem)?;
    let snapshot: String = session.run("SELECT pg_export_snapshot()").context(problem)?.one()?;
    let mut pg_dump = Command::new("pg_dump");
    pg_dump.env("PGOPTIONS", session::options());
    let (conninfo, secrets) = without_secrets(&source.conninfo)?;
    let conninfo = session::with_defaults(&conninfo).context(problem)?;
    pg_dump.envs(secrets);
    pg_dump.arg("--dbname").arg(conninfo).arg(format!("--snapshot={snapshot}"));
    pg_dump.arg(format!("--schema=\"{}\"", source.schema().replace('"', "\"\"")));
    let output = pg_dump
        .args(["--schema-only", "--no-publications", "--no-subscriptions", "--encoding=UTF8"])
        .output()
        .context(|| "pg_dump cannot be run".into())?;
    check_interrupt()?;
    if !output.status.success() {
        fail!("{}: {}", problem(), libpq::one_line(&String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8(output.stdout)
        .map_err(|_| Error::failed("pg_dump has not written UTF-8"))?;
    Ok(Dump { statements: statements(&text), definition, needed, rights })
}

/// Removes the commands for psql, `\restrict` and `\unrestrict`, from a dump.
fn statements(dump: &str) -> String {
    let key = dump.lines().find_map(|line| line.strip_prefix("\\restrict ")).unwrap_or_default();
    let own = [format!("\\restrict {key}"), format!("\\unrestrict {key}")];
    let is_kept = |line: &&str| !own.iter().any(|own| own == line);
    let dump = dump.split('\n').filter(is_kept).collect::<Vec<_>>().join("\n");
    // pg_dump 17 and later write this line, but an older server does not have the setting.
    dump.replacen("\nSET transaction_timeout = 0;\n", "\n", 1)
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
    let slot = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
    source.connection().query(slot, &[&source.replication()]).context(|| problem(target))?;
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
    session.run(include_str!("sql/subscribe.sql")).context(|| problem(target))?;
    Ok(())
}

/// Enables the subscription. Fails if it would write to another schema: the owner can rename the
/// published schema on the source to the name of a schema that exists on the target.
pub fn start(target: &Server) -> Result {
    let name = target.replication();
    if target.holds(include_str!("sql/subscribes_elsewhere.sql"), &[&name, target.schema()])? {
        let shard = target.shard();
        fail!(
            "the subscription would write to schemas other than {} on {}: \
             run cancel {shard}, and move the shard again",
            target.schema(),
            target.name
        );
    }
    target
        .run(&format!("ALTER SUBSCRIPTION {name} ENABLE"), "the subscription cannot be enabled")?;
    Ok(())
}

/// Waits until all tables are copied, and nearly all later changes are applied. Then creates the
/// planner's statistics. Fails early if the definition of the schema differs from `recorded`.
pub fn wait_for_copy(
    source: &Server,
    target: &Server,
    recorded: &str,
    limit: Duration,
    output: &Output,
) -> Result {
    let mut compared = None;
    let (mut mark, mut marked_at) = (String::new(), Instant::now());
    let mut near = NEAR;
    let mut patience = Patience { errors: None, copied: 0, connected: Instant::now() };
    let mut is_copied = false;
    loop {
        if compared.is_none_or(|at: Instant| at.elapsed() > COMPARE) {
            source.compare_definition(&source.connection(), recorded)?;
            compared = Some(Instant::now());
        }
        let Copied { mut progress, errors, copying } = copied(target)?;
        if progress.tables_copied == progress.tables && !is_copied {
            // Later changes are applied faster if not each commit is flushed.
            is_copied = true;
            set_synchronous_commit(target, "off")?;
        }
        progress.bytes = source.query(include_str!("sql/size.sql"), &[source.schema()])?.one()?;
        let sent = source.query(include_str!("sql/sent.sql"), &[&source.replication(), &mark])?;
        let (mut is_near, mut is_reached) = (false, false);
        if !sent.is_empty() {
            progress.lag_bytes = sent.get(0, 0)?;
            is_reached = sent.get(0, 1)?;
            if sent.get(0, 4)? {
                patience.connected = Instant::now();
            }
            is_near = is_reached && marked_at.elapsed() <= near;
            if sent.get(0, 2)? {
                fail!(
                    "server {} has removed WAL that the move still needs (max_slot_wal_keep_size): \
                     run cancel {}, and move the shard again",
                    source.name,
                    source.shard()
                );
            }
            if is_reached && !is_near && progress.tables_copied == progress.tables {
                // Under constant load the target may always be this far behind.
                near = (near * 2).min(limit / 2);
            }
            if is_reached || mark.is_empty() {
                (mark, marked_at) = (sent.get(0, 3)?, Instant::now());
            }
        }
        if is_near && progress.tables_copied == progress.tables {
            output.copied(&progress);
            break;
        }
        output.progress(&progress);
        if is_copied && is_reached || progress.tables_copied > patience.copied {
            (patience.errors, patience.copied) = (None, progress.tables_copied);
        }
        patience.check(source, target, errors, &copying)?;
        Connection::pause(LOOK);
        check_interrupt()?;
    }
    // Otherwise the target would confirm a transaction only after its WAL writer has flushed it,
    // which can take twice wal_writer_delay (0.4 s).
    set_synchronous_commit(target, "local")?;
    let statements: Vec<String> =
        target.query(include_str!("sql/statistics.sql"), &[target.schema()])?.column()?;
    for statement in statements {
        target.run(&statement, &format!("{statement} fails"))?;
    }
    Ok(())
}

/// When a move that makes no progress ends. The replication itself retries for ever.
struct Patience {
    /// The number of errors when there was progress.
    errors: Option<i64>,
    /// The number of tables that were copied then.
    copied: i64,
    /// When the target was connected to the source.
    connected: Instant,
}

impl Patience {
    /// Fails after [`ERRORS`] errors without progress, or if the target has not been connected for
    /// [`DISCONNECTED`]. Only the log of the target contains the error itself. `copying`: tables
    /// that are being copied.
    fn check(&mut self, source: &Server, target: &Server, errors: i64, copying: &str) -> Result {
        let (to, name) = (&target.name, target.replication());
        let failures = errors - *self.errors.get_or_insert(errors);
        if failures >= ERRORS {
            let what = if copying.is_empty() {
                "applying changes".into()
            } else {
                format!("copying {copying}")
            };
            fail!(
                "the replication to {to} has failed {failures} times in a row while {what}: \
                 the log of {to} contains the error of the worker for subscription \"{name}\""
            );
        }
        if self.connected.elapsed() > DISCONNECTED {
            fail!(
                "server {to} has not been connected to {} for {} s: the log of {to} contains the \
                 error of the worker for subscription \"{name}\", or that no worker can start",
                source.name,
                DISCONNECTED.as_secs()
            );
        }
        Ok(())
    }
}

/// Whether the workers of the subscription flush each commit (`local`) or not (`off`).
fn set_synchronous_commit(target: &Server, value: &str) -> Result {
    let statement =
        format!("ALTER SUBSCRIPTION {} SET (synchronous_commit = {value})", target.replication());
    target.run(&statement, "the subscription cannot be changed").map(drop)
}

/// The report of the target.
#[derive(Default)]
pub struct Copied {
    pub progress: Progress,
    /// The number of replication errors.
    errors: i64,
    /// Up to three tables that are being copied.
    copying: String,
}

pub fn copied(target: &Server) -> Result<Copied> {
    let rows = target.query(include_str!("sql/copied.sql"), &[&target.replication()])?;
    if rows.is_empty() {
        return Ok(Copied::default());
    }
    let progress = Progress {
        tables: rows.get(0, 0)?,
        tables_copied: rows.get(0, 1)?,
        rows: rows.get(0, 2)?,
        bytes_copied: rows.get(0, 3)?,
        ..Progress::default()
    };
    Ok(Copied { progress, errors: rows.get(0, 4)?, copying: rows.get(0, 5)? })
}

/// Drops the subscription, the slot and the publication, if they exist.
pub fn remove(source: &Server, target: &Server) -> Result {
    if target.has_subscription()? {
        let slot = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)";
        if !source.holds(slot, &[&source.replication()])? {
            // The slot is lost, or an earlier attempt has dropped it. A subscription that names it
            // cannot be dropped.
            let forget = format!(
                "ALTER SUBSCRIPTION {0} DISABLE; ALTER SUBSCRIPTION {0} SET (slot_name = NONE)",
                target.replication()
            );
            target.run(&forget, "the subscription cannot be changed")?;
        }
        let statement = format!("DROP SUBSCRIPTION {}", target.replication());
        target.run(&statement, "the subscription cannot be dropped")?;
    }
    source.drop_slot()?;
    unpublish(source)
}

/// Drops the publication, if it exists.
pub fn unpublish(source: &Server) -> Result {
    source.run(include_str!("sql/drop_publication.sql"), "the publication cannot be dropped")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_for_psql_are_removed_from_a_dump() {
        let dump = "--\n\n\\restrict aB3\nSET transaction_timeout = 0;\nSET x = 1;\n\\restrict other\n\\unrestrict aB3\n";
        assert_eq!(statements(dump), "--\n\nSET x = 1;\n\\restrict other\n");
        // Older versions do not write them.
        assert_eq!(statements("SET x = 1;\n"), "SET x = 1;\n");
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
