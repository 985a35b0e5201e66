//! Checks before a move. All obstacles are reported at once, before anything is changed.

use crate::error::{Context, Error, Result};
use crate::libpq::{self, Connection};
use crate::server::Server;
use instagram_id_core::moving::Mark;

/// Expressions are checked by the rules for this major version, which are the strictest. The replication
/// evaluates them as a superuser on every major version, and some built-in functions can execute SQL from a
/// string.
pub const STRICTEST_MAJOR: &str = "15";

/// The target's clock may be behind the source's clock by this many seconds. New ids carry future timestamps
/// until the clock catches up.
const CLOCK_TOLERANCE: f64 = 1.0;

struct Facts {
    extension: Option<(String, String)>,
    is_standby: bool,
    major: i32,
    is_superuser: bool,
    /// Whether a role that is no superuser may take part in logical replication on this side.
    may_replicate: bool,
    /// Whether it may see how far replication is.
    may_watch: bool,
    /// Whether it may create objects in the database.
    may_create: bool,
    clock: f64,
}

/// The state of logical replication on the source: its WAL level and the number of free slots.
struct Logical {
    wal_level: String,
    slots: i64,
}

/// Checks whether the shard can be moved. `is_new` is false if the move has begun, so that its copy may
/// exist. For a new move, finds the schema of the shard, and sets it for both servers.
pub fn check(source: &mut Server, target: &mut Server, is_new: bool) -> Result {
    let mut obstacles = Vec::new();
    let (from, to) = (source.name.clone(), target.name.clone());
    let mut refuse = |obstacle: String| obstacles.push(obstacle);

    let (here, logical) = facts_of_source(source)?;
    let (there, workers) = facts_of_target(target)?;
    if here.extension.is_none() {
        refuse(format!("server {from} has no extension instagram_id"));
    }
    if here.is_standby {
        refuse(format!("server {from} is a standby: record the primary in the map"));
    }
    if here.major < 15 {
        refuse(format!("server {from} runs PostgreSQL {}, but a move requires 15 or later", here.major));
    }
    let wal_level = &logical.wal_level;
    if wal_level != "logical" {
        refuse(format!(
            "server {from} has wal_level = {wal_level}: \
             set it to logical in postgresql.conf and restart the server"
        ));
    } else if !source.has_publication()? {
        let name = source.replication();
        if source.holds("SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1)", &[&name])? {
            refuse(format!("server {from} has a publication {name} that is not part of this move: drop it"));
        }
        if logical.slots < 2 {
            let slots = logical.slots;
            refuse(format!(
                "server {from} has {slots} replication slots left, but a move needs 2: \
                 increase max_replication_slots"
            ));
        }
    }

    match (&there.extension, &here.extension) {
        (None, _) => {
            refuse(format!("server {to} has no extension instagram_id: run CREATE EXTENSION instagram_id"))
        }
        (Some((version, schema)), Some((needed, schema_here))) => {
            if version_parts(version) < version_parts(needed) {
                refuse(format!(
                    "server {to} has instagram_id {version}, older than {needed} on {from}: \
                     run ALTER EXTENSION instagram_id UPDATE"
                ));
            }
            if schema != schema_here {
                refuse(format!(
                    "server {to} has instagram_id in schema {schema}, but {from} has it in {schema_here}: \
                     use ALTER EXTENSION instagram_id SET SCHEMA"
                ));
            }
        }
        (Some(_), None) => {}
    }
    if there.is_standby {
        refuse(format!("server {to} is a standby: record the primary in the map"));
    }
    if there.major < here.major {
        refuse(format!("server {to} runs PostgreSQL {}, older than {} on {from}", there.major, here.major));
    }
    if workers < 2 && !target.has_subscription()? {
        refuse(format!(
            "server {to} has {workers} logical replication workers left, but a move needs 2: \
             increase max_logical_replication_workers"
        ));
    }

    if is_new && here.extension.is_some() && !here.is_standby {
        for obstacle in find_schema(source, target)? {
            refuse(obstacle);
        }
    }
    for obstacle in missing_rights(source, target, &here, &there)? {
        refuse(obstacle);
    }
    if !source.schema().is_empty() {
        for obstacle in obstacles_in_schema(source, target)? {
            refuse(obstacle);
        }
        if is_new && there.extension.is_some() && !there.is_standby {
            if !shards(target)?.is_empty() {
                refuse(format!(
                    "server {to} has a shard {} already: if that is an old copy, drop its schema",
                    target.shard()
                ));
            }
            if target.has_schema()? {
                refuse(format!("server {to} has a schema {} already", target.schema()));
            }
        }
    }

    let behind = here.clock - there.clock;
    if behind > CLOCK_TOLERANCE {
        refuse(format!("the clock of {to} is {behind:.1} s behind that of {from}: synchronize the clocks"));
    }
    if let Err(error) = std::process::Command::new("pg_dump").arg("--version").output() {
        refuse(format!("pg_dump cannot be run on this machine: {error}"));
    }

    if obstacles.is_empty() {
        return Ok(());
    }
    let problem = format!("shard {} cannot be moved from {from} to {to}", source.shard());
    Err(Error::Refused { problem, obstacles })
}

fn facts_of_source(server: &Server) -> Result<(Facts, Logical)> {
    let rows = server.query(include_str!("sql/source_facts.sql"), &[])?;
    let facts = Facts {
        extension: rows.get::<Option<String>>(0, 0).map(|version| (version, rows.get(0, 1))),
        is_standby: rows.get(0, 2),
        major: rows.get(0, 5),
        is_superuser: rows.get(0, 6),
        may_replicate: rows.get(0, 8),
        may_watch: rows.get(0, 9),
        may_create: rows.get(0, 10),
        clock: rows.get(0, 7),
    };
    Ok((facts, Logical { wal_level: rows.get(0, 3), slots: rows.get(0, 4) }))
}

/// The facts, and the number of free workers for logical replication.
fn facts_of_target(server: &Server) -> Result<(Facts, i64)> {
    let rows = server.query(include_str!("sql/target_facts.sql"), &[])?;
    let facts = Facts {
        extension: rows.get::<Option<String>>(0, 0).map(|version| (version, rows.get(0, 1))),
        is_standby: rows.get(0, 2),
        major: rows.get(0, 3),
        is_superuser: rows.get(0, 4),
        may_replicate: rows.get(0, 7),
        may_watch: true,
        may_create: rows.get(0, 8),
        clock: rows.get(0, 6),
    };
    Ok((facts, rows.get(0, 5)))
}

/// The rights that the roles of the command lack. Superusers lack none.
fn missing_rights(source: &Server, target: &Server, here: &Facts, there: &Facts) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let (from, to) = (&source.name, &target.name);
    for (server, facts) in [(from, here), (to, there)] {
        if !facts.is_superuser && !facts.may_create {
            missing
                .push(format!("the role that connects to {server} lacks CREATE on the database: GRANT it"));
        }
    }
    if !here.is_superuser && !here.may_replicate {
        missing.push(format!(
            "the role that connects to {from} is no superuser and lacks REPLICATION: ALTER ROLE"
        ));
    }
    if !here.is_superuser && !here.may_watch {
        missing.push(format!("the role for server {from} is not a superuser: GRANT pg_monitor to it there"));
    }
    if !there.is_superuser {
        if there.major < 16 {
            missing.push(format!(
                "the role that connects to {to} is no superuser, which a subscription takes before PostgreSQL 16"
            ));
        } else if !there.may_replicate {
            missing.push(format!(
                "the role that connects to {to} is no superuser: GRANT pg_create_subscription to it there"
            ));
        }
        let conninfo = libpq::parse_conninfo(&source.conninfo).unwrap_or_default();
        if !conninfo.iter().any(|(keyword, _)| keyword == "password") {
            missing.push(format!(
                "the conninfo of {from} has no password, without which only a superuser can subscribe on {to}"
            ));
        }
    }
    if !source.schema().is_empty() {
        let owners =
            source.query(include_str!("sql/owners_in_schema.sql"), &[source.schema()])?.column::<String>();
        for owner in owners {
            for (server, facts) in [(source, here), (target, there)] {
                if !facts.is_superuser && !server.holds(include_str!("sql/has_rights_of.sql"), &[&owner])? {
                    let name = &server.name;
                    missing.push(format!(
                        "the role that connects to {name} lacks the rights of {owner}, who owns objects of the shard: GRANT {owner} to it"
                    ));
                }
            }
        }
    }
    Ok(missing)
}

/// The numbers of a version, to compare 0.10.0 with 0.9.0.
fn version_parts(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Finds the schema of the shard on the source, and sets it for both servers. Returns obstacles in it.
fn find_schema(source: &mut Server, target: &mut Server) -> Result<Vec<String>> {
    let (shard, from) = (source.shard(), source.name.clone());
    let found = shards(source)?;
    let Found { schema, has_sequence, reason } = match &found[..] {
        [] => return Ok(vec![format!("server {from} has no shard {shard}, contrary to the map")]),
        [one] => one,
        [first, second, ..] => {
            let (first, second) = (&first.schema, &second.schema);
            return Ok(vec![format!(
                "server {from} has shard {shard} in several schemas: {first}, {second}"
            )]);
        }
    };
    source.set_schema(schema)?;
    target.set_schema(schema)?;
    let mut obstacles = Vec::new();
    if !has_sequence {
        obstacles.push(format!(
            "the sequence of shard {shard} on {from} is not in schema {schema}: move it to that schema"
        ));
    }
    match source.mark()? {
        Mark::Closed => {
            obstacles.push(format!("schema {schema} on {from} is closed: the shard was moved from there"));
        }
        Mark::Foreign => obstacles.push(format!(
            "schema {schema} on {from} has a routine shard_is_elsewhere() \
             whose owner is not a superuser: drop it"
        )),
        // The cutover would fail: the copy would have the same fault.
        Mark::None | Mark::Opened if !reason.is_empty() => {
            obstacles.push(format!("shard {shard} cannot generate ids on {from}: {reason}"));
        }
        Mark::None | Mark::Opened => {}
    }
    Ok(obstacles)
}

/// A row of `id_shards`.
struct Found {
    schema: String,
    /// Whether the sequence is in this schema.
    has_sequence: bool,
    /// Why no ids can be generated there; empty if they can.
    reason: String,
}

/// The rows of `id_shards` for this shard.
fn shards(server: &Server) -> Result<Vec<Found>> {
    let problem = || format!("query on server {} failed", server.name);
    let connection = server.connection();
    connection.run("BEGIN").context(problem)?;
    let found = (|| -> std::result::Result<Vec<Found>, libpq::Error> {
        let extension = lock_extension(&connection)?;
        let query = include_str!("sql/shards.sql").replace("{extension}", &extension);
        let rows = connection.query(&query, &[&server.shard().to_string()])?;
        let found = |row| Found {
            schema: rows.get(row, 0),
            has_sequence: rows.get(row, 1),
            reason: rows.get(row, 2),
        };
        Ok((0..rows.len()).map(found).collect())
    })();
    connection.run("COMMIT").context(problem)?;
    found.context(problem)
}

/// Returns the quoted name of the extension's schema, and locks the schema against renaming until the
/// transaction ends. Otherwise its owner could rename it, and create functions in a new schema of that name. A role
/// that is not a superuser cannot lock it, so it trusts only a schema of a superuser, of the owner of the database, or
/// of its own.
pub fn lock_extension(connection: &Connection) -> std::result::Result<String, libpq::Error> {
    let is_superuser: bool = connection.run("SELECT current_setting('is_superuser')::boolean")?.one();
    let query = "SELECT nspname FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace
         WHERE extname = 'instagram_id'";
    let rows = if is_superuser {
        connection.run(&format!("{query} FOR UPDATE"))?
    } else {
        let is_trusted = "(rolsuper OR rolname = current_user OR r.oid = (SELECT datdba FROM pg_database
            WHERE datname = current_database()) OR rolname = 'pg_database_owner')";
        connection.run(&format!(
            "{query} AND EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = nspowner AND {is_trusted})"
        ))?
    };
    match rows.column::<String>().pop() {
        Some(schema) => connection.quote_ident(&schema),
        None => Err(libpq::Error::local(
            "there is no extension instagram_id, or its schema belongs to another role",
        )),
    }
}

fn obstacles_in_schema(source: &Server, target: &Server) -> Result<Vec<String>> {
    let mut obstacles: Vec<String> =
        source.query(include_str!("sql/obstacles.sql"), &[source.schema()])?.column();
    // The dump restores ownership by role name. If a role is a superuser only on the target, its functions
    // would gain superuser rights there.
    let owners: String = source.query(include_str!("sql/owners.sql"), &[])?.one();
    let superusers: Vec<String> =
        target.query(include_str!("sql/foreign_superusers.sql"), &[&owners])?.column();
    let (from, to) = (&source.name, &target.name);
    obstacles.extend(
        superusers
            .iter()
            .map(|role| format!("role {role} owns objects on {from} and is a superuser only on {to}")),
    );
    obstacles.extend(
        source.query(include_str!("sql/code.sql"), &[source.schema(), STRICTEST_MAJOR])?.column::<String>(),
    );
    obstacles.extend(missing_objects(source, target)?);
    Ok(obstacles)
}

/// Objects that the target lacks, and without which the schema cannot be created there.
fn missing_objects(source: &Server, target: &Server) -> Result<Vec<String>> {
    let needed = source.query(include_str!("sql/needed.sql"), &[source.schema()])?;
    let text = |row, column| needed.get::<String>(row, column);
    let mut missing = Vec::new();
    for row in 0..needed.len() {
        let (kind, names, arguments) = (text(row, 0), text(row, 1), text(row, 2));
        let found = target
            .connection()
            .query("SELECT pg_get_object_address($1, $2::text[], $3::text[])", &[&kind, &names, &arguments]);
        match found {
            Ok(_) => {}
            // An undefined object, or one of another kind.
            Err(error) if error.sqlstate.starts_with("42") || error.sqlstate == "3F000" => {
                let (needed, used_by) = (text(row, 3), text(row, 4));
                missing.push(format!("server {} has no {needed}, needed for {used_by}", target.name));
            }
            Err(error) => return Err(error).context(|| format!("query on server {} failed", target.name)),
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::version_parts;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(version_parts("0.10.0") > version_parts("0.9.1"));
        assert!(version_parts("1.0.0") > version_parts("0.10.0"));
    }
}
