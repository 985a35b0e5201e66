//! What has to be true before a shard can be moved. All obstacles are reported at once, before anything is changed.

use crate::error::{Context, Error, Result};
use crate::libpq::{self, Connection};
use crate::server::{Mark, Server};

/// PostgreSQL's own functions can run SQL from a text in expressions; the rules for them are those of this major, the
/// strictest, since the replication runs all expressions as a superuser, whatever the major.
pub const STRICTEST_MAJOR: &str = "15";

/// A server whose clock is behind by more than this, in seconds, is behind by more than the sequence's state makes up for.
const CLOCK_TOLERANCE: f64 = 1.0;

/// The first version of the extension that tells why a shard cannot generate ids.
const OLDEST_EXTENSION: &str = "0.4.0";

struct Facts {
    extension: Option<(String, String)>,
    is_standby: bool,
    major: i32,
    is_superuser: bool,
    clock: f64,
}

/// What is free on the source for logical replication.
struct Logical {
    wal_level: String,
    slots: i64,
}

/// Checks whether the shard can be moved. `is_new` unless the move has begun, so that its copy may be there already.
/// Sets the schema of both servers to that of the shard if it is not known yet. Returns the major of the target.
pub fn check(source: &mut Server, target: &mut Server, is_new: bool) -> Result<i32> {
    let mut obstacles = Vec::new();
    let (from, to) = (source.name.clone(), target.name.clone());
    let mut refuse = |obstacle: String| obstacles.push(obstacle);

    let (here, logical) = facts_of_source(source)?;
    let (there, workers) = facts_of_target(target)?;
    if here.extension.is_none() {
        refuse(format!("{from} has no extension instagram_id"));
    }
    for (server, facts) in [(&from, &here), (&to, &there)] {
        if let Some((version, _)) = &facts.extension
            && version_parts(version) < version_parts(OLDEST_EXTENSION)
        {
            refuse(format!(
                "{server} has instagram_id {version}, and {OLDEST_EXTENSION} or later is needed: ALTER EXTENSION instagram_id UPDATE there"
            ));
        }
    }
    if here.is_standby {
        refuse(format!("{from} is a standby: name the primary in the map"));
    }
    if !here.is_superuser {
        refuse(format!("the role that connects to {from} is no superuser, as publishing a schema takes"));
    }
    if here.major < 15 {
        refuse(format!("{from} is PostgreSQL {}: a schema can be published from 15 on", here.major));
    }
    let wal_level = &logical.wal_level;
    if wal_level != "logical" {
        refuse(format!(
            "{from} has wal_level = {wal_level}: set it to logical in postgresql.conf and restart the server"
        ));
    } else if !source.has_publication()? {
        let name = source.replication();
        if source.holds("SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1)", &[&name])? {
            refuse(format!("{from} has a publication {name} that is not of this move: drop it"));
        }
        if logical.slots < 2 {
            let slots = logical.slots;
            refuse(format!(
                "{from} has {slots} replication slots left and a move needs 2: raise max_replication_slots"
            ));
        }
    }

    match (&there.extension, &here.extension) {
        (None, _) => {
            refuse(format!("{to} has no extension instagram_id: CREATE EXTENSION instagram_id there"))
        }
        (Some((version, schema)), Some((needed, schema_here))) => {
            if version_parts(version) < version_parts(needed) {
                refuse(format!(
                    "{to} has instagram_id {version}, older than {needed} on {from}: ALTER EXTENSION instagram_id UPDATE there"
                ));
            }
            if schema != schema_here {
                refuse(format!(
                    "{to} has instagram_id in schema {schema}, {from} in {schema_here}: ALTER EXTENSION instagram_id SET SCHEMA"
                ));
            }
        }
        (Some(_), None) => {}
    }
    if there.is_standby {
        refuse(format!("{to} is a standby: name the primary in the map"));
    }
    if !there.is_superuser {
        refuse(format!("the role that connects to {to} is no superuser, as subscribing takes"));
    }
    if there.major < here.major {
        refuse(format!("{to} is PostgreSQL {}, older than {} on {from}", there.major, here.major));
    }
    if workers < 2 && !target.has_subscription()? {
        refuse(format!(
            "{to} has {workers} logical replication workers left and a move needs 2: raise max_logical_replication_workers"
        ));
    }

    if is_new && here.extension.is_some() && !here.is_standby {
        for obstacle in find_schema(source, target)? {
            refuse(obstacle);
        }
    }
    if !source.schema().is_empty() {
        for obstacle in obstacles_in_schema(source, target)? {
            refuse(obstacle);
        }
        if is_new && there.extension.is_some() && !there.is_standby {
            if !shards(target)?.is_empty() {
                refuse(format!(
                    "{to} has a shard {} already: drop its schema there, if it is an old copy",
                    target.shard()
                ));
            }
            if target.has_schema()? {
                refuse(format!("{to} has a schema {} already", target.schema()));
            }
        }
    }

    let behind = here.clock - there.clock;
    if behind > CLOCK_TOLERANCE {
        refuse(format!("the clock of {to} is {behind:.1} s behind that of {from}: set it"));
    }
    if let Err(error) = std::process::Command::new("pg_dump").arg("--version").output() {
        refuse(format!("pg_dump cannot be run here: {error}"));
    }

    if obstacles.is_empty() {
        return Ok(there.major);
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
        clock: rows.get(0, 7),
    };
    Ok((facts, Logical { wal_level: rows.get(0, 3), slots: rows.get(0, 4) }))
}

/// The facts, and how many workers for logical replication are free.
fn facts_of_target(server: &Server) -> Result<(Facts, i64)> {
    let rows = server.query(include_str!("sql/target_facts.sql"), &[])?;
    let facts = Facts {
        extension: rows.get::<Option<String>>(0, 0).map(|version| (version, rows.get(0, 1))),
        is_standby: rows.get(0, 2),
        major: rows.get(0, 3),
        is_superuser: rows.get(0, 4),
        clock: rows.get(0, 6),
    };
    Ok((facts, rows.get(0, 5)))
}

/// The numbers of a version, to compare 0.10.0 with 0.9.0.
fn version_parts(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Finds the schema of the shard on the source, and passes it to both servers. Returns what is wrong with it.
fn find_schema(source: &mut Server, target: &mut Server) -> Result<Vec<String>> {
    let (shard, from) = (source.shard(), source.name.clone());
    let found = shards(source)?;
    let (schema, has_sequence) = match &found[..] {
        [] => return Ok(vec![format!("{from} has no shard {shard}, though the map says so")]),
        [one] => one.clone(),
        [(first, _), (second, _), ..] => {
            return Ok(vec![format!("{from} has shard {shard} more than once: in {first}, {second}")]);
        }
    };
    source.set_schema(&schema)?;
    target.set_schema(&schema)?;
    let mut obstacles = Vec::new();
    if !has_sequence {
        obstacles.push(format!(
            "the sequence of shard {shard} is in another schema than {schema} on {from}: move it there"
        ));
    }
    match source.mark()? {
        Mark::Closed => {
            obstacles.push(format!("schema {schema} on {from} is closed, as the old copy of a shard that has moved"));
        }
        Mark::Foreign => obstacles.push(format!(
            "schema {schema} on {from} has a routine shard_is_elsewhere(), which is not a superuser's: drop it"
        )),
        Mark::None | Mark::Opened => {}
    }
    Ok(obstacles)
}

/// The schemas that call themselves this shard, and whether their sequence is in them.
fn shards(server: &Server) -> Result<Vec<(String, bool)>> {
    let problem = || format!("server {} cannot be asked", server.name);
    let connection = server.connection();
    connection.run("BEGIN").context(problem)?;
    let found = (|| -> std::result::Result<Vec<(String, bool)>, libpq::Error> {
        let extension = lock_extension(&connection)?;
        let query = include_str!("sql/shards.sql").replace("{extension}", &extension);
        let rows = connection.query(&query, &[&server.shard().to_string()])?;
        Ok((0..rows.len()).map(|row| (rows.get(row, 0), rows.get(row, 1))).collect())
    })();
    connection.run("COMMIT").context(problem)?;
    found.context(problem)
}

/// The quoted name of the extension's schema, which cannot be renamed until the transaction ends: in another schema of
/// that name there could be anyone's functions.
pub fn lock_extension(connection: &Connection) -> std::result::Result<String, libpq::Error> {
    let rows = connection.run(
        "SELECT nspname FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace
         WHERE extname = 'instagram_id' FOR UPDATE",
    )?;
    connection.quote_ident(&rows.column::<String>().pop().unwrap_or_default())
}

fn obstacles_in_schema(source: &Server, target: &Server) -> Result<Vec<String>> {
    let mut obstacles: Vec<String> =
        source.query(include_str!("sql/obstacles.sql"), &[source.schema()])?.column();
    // A function of the one would become a function of the other, with a superuser's rights.
    let owners: String = source.query(include_str!("sql/owners.sql"), &[])?.one();
    let superusers: Vec<String> =
        target.query(include_str!("sql/foreign_superusers.sql"), &[&owners])?.column();
    let (from, to) = (&source.name, &target.name);
    obstacles.extend(superusers.iter().map(|role| {
        format!("role {role} owns objects on {from} and is no superuser there, but one on {to}")
    }));
    obstacles.extend(
        source.query(include_str!("sql/code.sql"), &[source.schema(), STRICTEST_MAJOR])?.column::<String>(),
    );
    Ok(obstacles)
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
