//! The rights with which roles can put code into a schema.

use crate::libpq::{Connection, Error};
use serde::Deserialize;
use serde_json::Value;

/// An empty list of addresses or rights.
pub const NOTHING: &str = "[]";

/// A schema whose objects are used, and what else counts.
pub struct Scope<'a> {
    pub schema: &'a str,
    /// The addresses of objects that the schema needs and that are in the database.
    pub needed: &'a str,
    /// Rights of the same schema in another database, as [`Found::dumped`] contains them.
    pub dumped: &'a str,
    /// The roles that the administrator trusts.
    pub trusted: &'a [String],
    /// Whether the schema is moved.
    pub is_moved: bool,
}

/// A role, and what gives it the means to put code into the schema.
#[derive(Debug, Deserialize)]
pub struct Right {
    pub role: String,
    pub what: String,
}

#[derive(Debug, Deserialize)]
pub struct Found {
    pub schema_exists: bool,
    /// The rights that a dump of the schema repeats on another server.
    pub dumped: Value,
    /// The rights of roles that are not trusted.
    pub untrusted: Vec<Right>,
}

/// A query with the objects of the schema, those of sql/own.sql, in the place of `{own}`.
pub fn with_own(query: &str) -> String {
    query.replace("{own}", include_str!("sql/own.sql"))
}

/// Looks for roles that are not trusted.
pub fn find(session: &Connection, scope: &Scope) -> Result<Found, Error> {
    let query = with_own(include_str!("sql/trust.sql"));
    let trusted = serde_json::to_string(scope.trusted).expect("texts");
    let is_moved = if scope.is_moved { "on" } else { "off" };
    let parameters = [scope.schema, scope.needed, scope.dumped, &trusted, is_moved];
    session.select_one(&query, &parameters)
}
