//! The copy of a shard by logical replication: publication, schema, subscription, and waiting for the rows.

use crate::checks::STRICTEST_MAJOR;
use crate::error::{Context, Error, Result};
use crate::libpq::{self, Connection};
use crate::output::{Output, Progress};
use crate::server::Server;
use crate::session;
use crate::{check_interrupt, fail};
use std::process::Command;
use std::time::{Duration, Instant};

/// Interval between checks of the copy.
const LOOK: Duration = Duration::from_millis(100);

/// The target is near enough if it confirms what the source has written within this time. If it does not, the time
/// grows, up to half of the time for which writes may be stopped.
const NEAR: Duration = Duration::from_millis(300);

pub fn publish(source: &Server) -> Result {
    source.run(include_str!("sql/publish.sql"), "the schema cannot be published")?;
    Ok(())
}

/// Creates the schema on the target. The schema rejects writes, and only superusers have privileges on it.
pub fn create_copy(source: &Server, target: &Server) -> Result {
    let (dump, owners) = dump_schema(source)?;
    // Use a separate session, because the dump changes settings.
    let session = target.another_session()?;
    let problem = || format!("the schema cannot be created on {}", target.name);
    session.run("BEGIN").context(problem)?;
    session.run(&dump).context(problem)?;
    session.run("SELECT pg_catalog.set_config('search_path', 'pg_catalog', false)").context(problem)?;
    session.run(include_str!("sql/close.sql")).context(problem)?;
    session.run(include_str!("sql/lock_copy.sql")).context(problem)?;
    // `dump_schema` has checked the source. Check the restored schema as well.
    let code =
        session.query(include_str!("sql/code.sql"), &[source.schema(), STRICTEST_MAJOR]).context(problem)?;
    if let Some(obstacle) = code.column::<String>().pop() {
        fail!("the schema has changed: {obstacle}");
    }
    let roles = session.query(include_str!("sql/foreign_superusers.sql"), &[&owners]).context(problem)?;
    if let Some(role) = roles.column::<String>().pop() {
        fail!("role {role} owns objects on {}, and is a superuser only on {}", source.name, target.name);
    }
    session.run("COMMIT").context(problem)?;
    Ok(())
}

/// Returns the statements that create the schema, and the roles that own objects. Both are read in the snapshot in
/// which the tables were checked for code that the replication must not execute.
fn dump_schema(source: &Server) -> Result<(String, String)> {
    let problem = || format!("the schema cannot be dumped from {}", source.name);
    let session = source.another_session()?;
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").context(problem)?;
    let code =
        session.query(include_str!("sql/code.sql"), &[source.schema(), STRICTEST_MAJOR]).context(problem)?;
    if !code.is_empty() {
        let problem = format!("shard {} cannot be moved", source.shard());
        return Err(Error::Refused { problem, obstacles: code.column() });
    }
    let owners: String = session.query(include_str!("sql/owners.sql"), &[]).context(problem)?.one();
    let snapshot: String = session.run("SELECT pg_export_snapshot()").context(problem)?.one();
    let mut pg_dump = Command::new("pg_dump");
    pg_dump.env("PGOPTIONS", session::options());
    let (conninfo, password) = without_password(&source.conninfo)?;
    if let Some(password) = password {
        // All users can read the arguments of a process, but only this user can read its environment.
        pg_dump.env("PGPASSWORD", password);
    }
    pg_dump.arg("--dbname").arg(conninfo).arg(format!("--snapshot={snapshot}"));
    pg_dump.arg(format!("--schema=\"{}\"", source.schema().replace('"', "\"\"")));
    let output = pg_dump
        .args(["--schema-only", "--no-publications", "--no-subscriptions", "--encoding=UTF8"])
        .output()
        .context(|| "pg_dump cannot be run".into())?;
    check_interrupt()?;
    if !output.status.success() {
        fail!("{}: {}", problem(), String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let text =
        String::from_utf8(output.stdout).map_err(|_| Error::failed("pg_dump has not written UTF-8"))?;
    Ok((statements(&text)?, owners))
}

/// Removes the commands for psql, `\restrict` and `\unrestrict`, from a dump. A pg_dump that does not write
/// them lacks the fix of CVE-2025-8715, so a name with a line break could run statements.
fn statements(dump: &str) -> Result<String> {
    let restrict = dump.lines().find_map(|line| line.strip_prefix("\\restrict "));
    let Some(key) = restrict.filter(|key| key.chars().all(|c| c.is_ascii_alphanumeric()) && !key.is_empty())
    else {
        fail!("this pg_dump lacks the fix of CVE-2025-8715: use 15.14, 16.10, 17.6 or later");
    };
    let own = [format!("\\restrict {key}"), format!("\\unrestrict {key}")];
    // pg_dump 17 and later write this line, but an older server does not have the setting.
    let is_kept = |line: &&str| !own.iter().any(|own| own == line);
    let dump = dump.split('\n').filter(is_kept).collect::<Vec<_>>().join("\n");
    Ok(dump.replacen("\nSET transaction_timeout = 0;\n", "\n", 1))
}

/// A connection string without its password, and the password.
fn without_password(conninfo: &str) -> Result<(String, Option<String>)> {
    let mut parameters = libpq::parse_conninfo(conninfo).context(|| "the conninfo is not valid".into())?;
    let position = parameters.iter().position(|(keyword, _)| keyword == "password");
    let password = position.map(|position| parameters.remove(position).1);
    Ok((libpq::format_conninfo(&parameters), password))
}

/// Creates the subscription, which stays disabled until [`start`].
pub fn subscribe(source: &Server, target: &Server) -> Result {
    source.drop_slot()?;
    let problem = |server: &Server| format!("server {} cannot subscribe", server.name);
    let slot = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
    source.connection().query(slot, &[&source.replication()]).context(|| problem(target))?;
    // The connection string may contain a password, which must not appear in the server's log: neither in a
    // statement, nor as a parameter, nor in the context of an error.
    let session = target.another_session()?;
    let quiet = "SET log_statement = none; SET log_min_duration_statement = -1; SET log_min_duration_sample = -1;
        SET log_min_error_statement = panic; SET log_error_verbosity = terse; SET log_parameter_max_length = 0";
    match session.run(quiet) {
        // Another role than a superuser may not change these settings. Then what the server logs is its own affair; the
        // documentation says so.
        Err(error) if error.sqlstate == "42501" => {}
        result => drop(result.context(|| problem(target))?),
    }
    let set = "SELECT set_config('move.conninfo', $1, false)";
    session.query(set, &[&source.conninfo]).context(|| problem(target))?;
    session.run(include_str!("sql/subscribe.sql")).context(|| problem(target))?;
    Ok(())
}

/// Enables the subscription. Fails if it would write to another schema: the owner can rename the published
/// schema on the source to the name of a schema that exists on the target.
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
    target.run(&format!("ALTER SUBSCRIPTION {name} ENABLE"), "the subscription cannot be enabled")?;
    Ok(())
}

/// Waits until all tables are copied, and nearly all later changes are applied. Then creates the planner's
/// statistics.
pub fn wait_for_copy(source: &Server, target: &Server, limit: Duration, output: &Output) -> Result {
    let (mut mark, mut marked_at) = (String::new(), Instant::now());
    let mut near = NEAR;
    let mut errors = None;
    let mut is_copied = false;
    loop {
        let (mut progress, errors_now) = copied(target)?;
        if progress.tables_copied == progress.tables && !is_copied {
            // Later changes are applied faster if not each commit is flushed.
            is_copied = true;
            set_synchronous_commit(target, "off")?;
        }
        progress.bytes = source.query(include_str!("sql/size.sql"), &[source.schema()])?.one();
        let sent = source.query(include_str!("sql/sent.sql"), &[&source.replication(), &mark])?;
        let mut is_near = false;
        if !sent.is_empty() {
            progress.lag_bytes = sent.get(0, 0);
            let is_reached: bool = sent.get(0, 1);
            is_near = is_reached && marked_at.elapsed() <= near;
            if sent.get(0, 2) {
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
                (mark, marked_at) = (sent.get(0, 3), Instant::now());
            }
        }
        if is_near && progress.tables_copied == progress.tables {
            output.copied(&progress);
            break;
        }
        output.progress(&progress);
        // Only warn: the replication retries, and the user may fix the cause meanwhile.
        if errors.is_some_and(|errors| errors != errors_now) {
            output.warn(&format!(
                "server {} reports replication errors; see its log. The move continues; \
                 to give up, run cancel {}",
                target.name,
                target.shard()
            ));
        }
        errors = Some(errors_now);
        Connection::pause(LOOK);
        check_interrupt()?;
    }
    // Otherwise the target would confirm a transaction only after its WAL writer has flushed it, which can take twice
    // wal_writer_delay (0.4 s).
    set_synchronous_commit(target, "local")?;
    let statements: Vec<String> =
        target.query(include_str!("sql/statistics.sql"), &[target.schema()])?.column();
    for statement in statements {
        target.run(&statement, "the statistics cannot be created")?;
    }
    Ok(())
}

/// Whether the workers of the subscription flush each commit (`local`) or not (`off`).
fn set_synchronous_commit(target: &Server, value: &str) -> Result {
    let statement = format!("ALTER SUBSCRIPTION {} SET (synchronous_commit = {value})", target.replication());
    target.run(&statement, "the subscription cannot be changed").map(drop)
}

/// The progress as far as the target reports it, and the number of replication errors.
pub fn copied(target: &Server) -> Result<(Progress, i64)> {
    let rows = target.query(include_str!("sql/copied.sql"), &[&target.replication()])?;
    if rows.is_empty() {
        return Ok((Progress::default(), 0));
    }
    let progress = Progress {
        tables: rows.get(0, 0),
        tables_copied: rows.get(0, 1),
        rows: rows.get(0, 2),
        bytes_copied: rows.get(0, 3),
        ..Progress::default()
    };
    Ok((progress, rows.get(0, 4)))
}

/// Drops the subscription, the slot and the publication, if they exist.
pub fn remove(source: &Server, target: &Server) -> Result {
    if target.has_subscription()? {
        let slot = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)";
        if !source.holds(slot, &[&source.replication()])? {
            // The slot is lost, or an earlier attempt has dropped it. A subscription that names it cannot be dropped.
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
        assert_eq!(statements(dump).unwrap(), "--\n\nSET x = 1;\n\\restrict other\n");
        for unsafe_dump in ["SET x = 1;", "\\restrict \\! true\n"] {
            let Err(error) = statements(unsafe_dump) else { panic!("{unsafe_dump}") };
            assert!(error.to_string().starts_with("this pg_dump lacks the fix of CVE-2025-8715"), "{error}");
        }
    }

    #[test]
    fn passwords_are_taken_out() {
        let (conninfo, password) = without_password("postgresql://me:top%20secret@h/db").unwrap();
        assert_eq!(password.as_deref(), Some("top secret"));
        assert!(!conninfo.contains("secret") && conninfo.contains("host='h'"), "{conninfo}");
        assert_eq!(without_password("host=h").unwrap().1, None);
    }
}
