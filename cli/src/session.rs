//! Connections with settings that override those of the server, the role and the environment.

use crate::libpq::{Connection, Error, format_conninfo, parse_conninfo};

/// Settings of each session, whatever the server, the database or the role sets. Above all, a
/// COMMIT is on disk when it returns. Statements and dumps are read with standard strings;
/// definitions look the same on all servers; and a server notices soon that the machine of the
/// command is lost, and so releases its locks. JIT compilation would take longer than the queries.
/// By ALTER DATABASE ... SET role, an owner could otherwise make the session run as itself, and so
/// be trusted, with code that returns to the rights of the command.
const SETTINGS: &str = "-c jit=off -c synchronous_commit=on -c client_min_messages=warning -c search_path=pg_catalog -c role=none \
     -c statement_timeout=0 -c lock_timeout=0 -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0 \
     -c standard_conforming_strings=on -c backslash_quote=safe_encoding -c quote_all_identifiers=off \
     -c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c extra_float_digits=1 \
     -c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off \
     -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=30000";

/// Defaults for libpq, unless the environment or the connection string sets other values. They
/// limit the time that the command waits for a server that does not respond.
const DEFAULTS: [(&str, &str, &str); 4] = [
    ("connect_timeout", "10", "PGCONNECT_TIMEOUT"),
    ("keepalives_idle", "10", ""),
    ("keepalives_interval", "5", ""),
    ("tcp_user_timeout", "30000", ""),
];

/// The application_name of sessions that do not change a shard.
pub const OBSERVER: &str = "instagram_id_shards";

fn defaults() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_unset = |variable: &str| variable.is_empty() || std::env::var_os(variable).is_none();
    DEFAULTS
        .iter()
        .filter(move |(.., variable)| is_unset(variable))
        .map(|(keyword, value, _)| (*keyword, *value))
}

/// A connection string with these defaults, for pg_dump and for a subscription. Without them, these
/// would wait for two hours for a server whose last packet was lost.
pub fn with_defaults(conninfo: &str) -> Result<String, Error> {
    let mut parameters: Vec<_> =
        defaults().map(|(keyword, value)| (keyword.to_owned(), value.to_owned())).collect();
    parameters.extend(parse_conninfo(conninfo)?);
    Ok(format_conninfo(&parameters))
}

/// Connects with these settings, and with this application_name.
pub fn open(conninfo: &str, name: &str) -> Result<Connection, Error> {
    let options = options();
    let mut parameters: Vec<(&str, &str)> = defaults().collect();
    parameters.extend([
        ("dbname", conninfo),
        ("options", options.trim_start()),
        ("application_name", name),
        ("client_encoding", "UTF8"),
    ]);
    let connection = Connection::open(&parameters)?;
    // A connection pooler can ignore what a session asks for when it begins. These two decide whose
    // code runs.
    connection.run("SET search_path = pg_catalog; SET ROLE NONE")?;
    Ok(connection)
}

/// The settings of PGOPTIONS, and those of this command after them.
pub fn options() -> String {
    format!("{} {SETTINGS}", std::env::var("PGOPTIONS").unwrap_or_default())
}
