//! Trust. The text of a schema runs with the rights of the roles that move it: pg_dump writes it,
//! the target executes it, and the replication evaluates its expressions. So a shard moves only if
//! every role that can put code into its schema has these rights already, or the administrator
//! trusts it.

use crate::error::{Context, Error, Result, fail};
use crate::libpq::{self, Connection};
use crate::map::{Map, ServerEntry};
use crate::rights::{self, Right, Scope};
use crate::server::Server;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `--trust SERVER:ROLE`, for servers of the map.
#[derive(Debug, Default)]
pub struct Trust(Vec<(String, String)>);

impl Trust {
    /// Fails if an argument does not begin with the name of exactly one server.
    pub fn parse(map: &Map, arguments: &[String]) -> Result<Trust> {
        if arguments.is_empty() {
            return Ok(Trust::default());
        }
        let servers: Vec<String> = map.servers()?.into_iter().map(|server| server.server).collect();
        let mut trust = Vec::new();
        for argument in arguments {
            let split = |server: &String| {
                let role = argument.strip_prefix(server.as_str())?.strip_prefix(':')?;
                Some((server.clone(), role.to_owned()))
            };
            let mut found: Vec<_> = servers.iter().filter_map(split).collect();
            match (found.pop(), found.is_empty()) {
                (Some(one), true) => trust.push(one),
                (Some(_), false) => {
                    fail!("--trust {argument} is ambiguous: several servers have such a name")
                }
                (None, _) => {
                    fail!("--trust {argument} does not begin with a server of the map and a colon")
                }
            }
        }
        Ok(Trust(trust))
    }

    /// The entry of a server in the map, which also trusts the roles of the command line.
    pub fn on(&self, map: &Map, server: &str) -> Result<ServerEntry> {
        let mut entry = map.server(server)?;
        let roles = self.0.iter().filter(|(name, _)| name == server).map(|(_, role)| role.clone());
        entry.trusted.extend(roles);
        Ok(entry)
    }
}

/// The findings of [`look`] in a database.
pub struct Findings {
    /// One sentence for each role that is not trusted.
    pub obstacles: Vec<String>,
    /// The rights that a dump of the schema repeats on another server, in the form that [`look`]
    /// takes.
    pub dumped: String,
}

/// Looks for roles that are not trusted; without a schema, only in the database and the extension.
/// `needed`: the addresses of objects that the schema needs and that are in the database; `dumped`:
/// rights of the same schema in another database.
pub fn look(server: &Server, session: &Connection, needed: &str, dumped: &str) -> Result<Findings> {
    let name = &server.name;
    let (schema, trusted) = (server.schema(), &server.trusted);
    let scope = Scope { schema, needed, dumped, trusted, is_moved: true };
    let found = rights::find(session, &scope).context(|| server.problem())?;
    let obstacle = |Right { role, what }: &Right| {
        format!(
            "role {role} on {name} is not trusted, but {what}: connect to {name} as a role whose rights it has, \
             revoke this, or trust it with --trust {name}:{role}"
        )
    };
    let obstacles = found.untrusted.iter().map(obstacle).collect();
    Ok(Findings { obstacles, dumped: found.dumped.to_string() })
}

/// Fails if [`look`] finds a role that is not trusted. Returns the rights that a dump repeats.
pub fn require(
    server: &Server,
    session: &Connection,
    needed: &str,
    dumped: &str,
) -> Result<String> {
    let Findings { obstacles, dumped } = look(server, session, needed, dumped)?;
    if obstacles.is_empty() {
        return Ok(dumped);
    }
    let problem = format!("shard {} cannot be moved", server.shard());
    Err(Error::Refused { problem, obstacles })
}

/// An object outside the schema that it needs.
#[derive(Serialize, Deserialize)]
pub struct Needed {
    /// Its address, for pg_get_object_address.
    r#type: String,
    names: String,
    arguments: String,
    description: String,
    used_by: String,
    /// The [`Shape`] of a type of which values are stored.
    shape: Option<String>,
}

/// The structure of a type, by the names of the types in it, as in sql/shape.sql.
type Shape = BTreeMap<String, String>;

fn parse(shape: &Option<String>) -> Result<Shape> {
    serde_json::from_str(shape.as_deref().unwrap_or("{}"))
        .map_err(|error| Error::failed(format!("unexpected definition of a type: {error}")))
}

/// The objects outside the schema that it needs.
pub fn needed(
    session: &Connection,
    schema: &str,
) -> std::result::Result<Vec<Needed>, libpq::Error> {
    let query =
        rights::with_own(include_str!("sql/needed.sql")).replace("{shape}", &shape("object"));
    session.select(&query, &[schema])
}

/// An expression for the [`Shape`] of the type with this OID, an expression too.
fn shape(oid: &str) -> String {
    include_str!("sql/shape.sql").replace("$TYPE", oid)
}

/// Looks for these objects on the target. Returns sentences about those that it lacks or that
/// differ, and the others in the form that [`look`] takes.
pub fn find_needed(target: &Server, needed: &[Needed]) -> Result<(Vec<String>, String)> {
    let (mut missing, mut found) = (Vec::new(), Vec::new());
    let query = format!(
        "SELECT CASE WHEN a.classid = 'pg_type'::regclass THEN {} END
         FROM pg_get_object_address($1, $2::text[], $3::text[]) AS a",
        shape("a.objid")
    );
    for object in needed {
        let Needed { r#type, names, arguments, description, used_by, shape } = object;
        match target.connection().query(&query, &[r#type, names, arguments]) {
            Ok(rows) => {
                let there = parse(&rows.one()?)?;
                for (name, here) in parse(shape)? {
                    let there = there.get(&name).map_or("another type", String::as_str);
                    if there != here {
                        missing.push(format!(
                            "type {name}, needed for {used_by}, is ({there}) on {}, so values could change: make it the same as here, ({here})",
                            target.name
                        ));
                    }
                }
                found.push(object);
            }
            // An undefined object, or one of another kind.
            Err(error) if error.sqlstate.starts_with("42") || error.sqlstate == "3F000" => {
                missing.push(format!(
                    "server {} has no {description}, needed for {used_by}",
                    target.name
                ));
            }
            Err(error) => {
                return Err(error).context(|| target.problem());
            }
        }
    }
    Ok((missing, serde_json::to_string(&found).expect("texts")))
}
