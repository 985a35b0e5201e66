//! Trust. The text of a schema runs with the rights of the roles that move it: pg_dump writes it,
//! the target executes it, and the replication evaluates its expressions. So a shard moves only if
//! every role that can put code into its schema has these rights already, or the administrator
//! trusts it.

use crate::error::{Context, Error, Result, refuse};
use crate::libpq::{self, Connection};
use crate::server::Server;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// An empty list of addresses, rights or roles.
pub const NOTHING: &str = "[]";

/// A role, and what gives it the means to put code into a schema.
#[derive(Debug, Deserialize)]
pub struct Right {
    pub role: String,
    pub what: String,
}

/// The row of sql/trust.sql.
#[derive(Debug, Deserialize)]
pub struct Found {
    pub schema_exists: bool,
    /// The rights that a dump of the schema repeats on another server.
    dumped: Value,
    /// The rights of roles that are not trusted.
    pub untrusted: Vec<Right>,
}

/// A query with the objects of the schema, those of sql/own.sql, in the place of `{own}`.
pub fn with_own(query: &str) -> String {
    query.replace("{own}", include_str!("sql/own.sql"))
}

/// Looks for roles that are not trusted, with the parameters of sql/trust.sql.
pub fn find(
    session: &Connection,
    parameters: [&str; 5],
) -> std::result::Result<Found, libpq::Error> {
    session.select_one(&with_own(include_str!("sql/trust.sql")), &parameters)
}

/// Looks for roles that are not trusted; without a schema, only in the database and the extension.
/// Returns a sentence for each, and the rights that a dump of the schema repeats.
pub fn look(server: &Server, session: &Connection) -> Result<(Vec<String>, String)> {
    look_with(server, session, NOTHING, NOTHING)
}

/// The same with the addresses of objects that the schema needs and that are in the database, and
/// with the rights of the same schema in another database, as [`look`] returns them.
pub fn look_with(
    server: &Server,
    session: &Connection,
    needed: &str,
    dumped: &str,
) -> Result<(Vec<String>, String)> {
    let name = &server.name;
    let trusted = serde_json::to_string(&server.trusted).expect("texts");
    let parameters = [&server.schema, needed, dumped, &trusted, "on"];
    let found = find(session, parameters).context(|| server.problem())?;
    let obstacle = |Right { role, what }: &Right| {
        format!(
            "role {role} on {name} is not trusted, but {what}: connect to {name} as a role whose rights it has, \
             revoke this, or trust it with --trust {name}:{role}"
        )
    };
    Ok((found.untrusted.iter().map(obstacle).collect(), found.dumped.to_string()))
}

/// Fails if [`look`] finds a role that is not trusted. Returns the rights that a dump repeats.
pub fn require(server: &Server, session: &Connection) -> Result<String> {
    require_with(server, session, NOTHING, NOTHING)
}

/// The same with what [`look_with`] takes.
pub fn require_with(
    server: &Server,
    session: &Connection,
    needed: &str,
    dumped: &str,
) -> Result<String> {
    let (obstacles, dumped) = look_with(server, session, needed, dumped)?;
    refuse(format!("shard {} cannot be moved", server.shard), obstacles)?;
    Ok(dumped)
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
    let query = with_own(include_str!("sql/needed.sql")).replace("{shape}", &shape("object"));
    session.select(&query, &[schema])
}

/// An expression for the [`Shape`] of the type with this OID, an expression too.
fn shape(oid: &str) -> String {
    include_str!("sql/shape.sql").replace("$TYPE", oid)
}

/// Looks for these objects on the target. Returns sentences about those that it lacks or that
/// differ, and the others in the form that [`look_with`] takes.
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
