//! Connections with settings that override those of the server, the role and the environment.

use crate::libpq::{Connection, Error, format_conninfo, parse_conninfo};

/// Settings of each session, whatever the server, the database or the role sets. Above all, a
/// COMMIT is on disk when it returns. Statements and dumps are read with standard strings;
/// definitions look the same on all servers; and a server notices soon that the machine of the
/// command is lost, and so releases its locks. JIT compilation would take longer than the queries,
/// and so would hash tables of eight megabytes, which recursive queries begin with for a few rows.
/// By ALTER DATABASE ... SET role, an owner could otherwise make the session run as itself, and so
/// be trusted, with code that returns to the rights of the command.
/// A query fails if a name in it turns out to be a view or a foreign table of another role, which
/// would run code with the rights of the command. RESET does not lift that.
const SETTINGS: &str = "-c jit=off -c synchronous_commit=on -c client_min_messages=warning -c search_path=pg_catalog -c role=none \
     -c statement_timeout=0 -c lock_timeout=60s -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0 \
     -c standard_conforming_strings=on -c backslash_quote=safe_encoding -c quote_all_identifiers=off \
     -c work_mem=512kB -c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c extra_float_digits=1 \
     -c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off \
     -c restrict_nonsystem_relation_kind=view,foreign-table \
     -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=30000";

/// The first statements of each session, also behind a connection pooler. These settings decide
/// whose code runs.
const OF_THE_COMMAND: &str = "SET search_path = pg_catalog; SET ROLE NONE";

/// The setting that servers of older minor releases lack.
pub const RESTRICTION: &str = "restrict_nonsystem_relation_kind";

/// Whether the session has these settings. A connection pooler can ignore what a session asks for
/// when it begins.
const HAS_SETTINGS: &str = "SELECT current_setting('standard_conforming_strings') = 'on'
    AND current_setting('restrict_nonsystem_relation_kind') = 'view,foreign-table'";

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

/// Connects with these settings, and with this application_name, which needs no quotes.
pub fn open(conninfo: &str, name: &str) -> Result<Connection, Error> {
    let options = options();
    let mut parameters: Vec<(&str, &str)> = defaults().collect();
    parameters.extend([
        ("dbname", conninfo),
        ("options", options.trim_start()),
        ("application_name", name),
        ("client_encoding", "UTF8"),
    ]);
    let connection = Connection::open(&parameters).map_err(explain)?;
    // Servers before 17 would refuse a session that asks for this when it begins.
    let more = "SELECT set_config('transaction_timeout', '0', false)
         WHERE current_setting('server_version_num')::int >= 170000";
    // All of this in one transaction, which a pooler does not distribute.
    let all = format!(
        "{OF_THE_COMMAND}; {more}; {HAS_SETTINGS} AND current_setting('application_name') = '{name}'"
    );
    if connection.run(&all)?.one()? {
        return Ok(connection);
    }
    Err(Error {
        sqlstate: "0A000".into(),
        message: "the server ignores the settings of the command".into(),
        detail: None,
        hint: Some("Connect to it without a connection pooler.".into()),
    })
}

/// Connects without most of these settings: with those of the server, the role and the database,
/// which the sessions of a replication have, too. The setting move.role has the value of role.
pub fn open_as_replication(conninfo: &str) -> Result<Connection, Error> {
    let mut parameters: Vec<(&str, &str)> = defaults().collect();
    parameters.extend([
        ("dbname", conninfo),
        ("options", " "), // and not PGOPTIONS
        ("application_name", OBSERVER),
        ("client_encoding", "UTF8"),
    ]);
    let connection = Connection::open(&parameters)?;
    let role =
        "SELECT pg_catalog.set_config('move.role', pg_catalog.current_setting('role'), false)";
    connection.run(&format!("{role}; {OF_THE_COMMAND}"))?;
    Ok(connection)
}

/// Explains the error of a server without [`RESTRICTION`]. libpq passes on no SQLSTATE, and the
/// text has the language of the server.
fn explain(error: Error) -> Error {
    if !error.message.contains(RESTRICTION) {
        return error;
    }
    Error {
        sqlstate: "0A000".into(),
        message: format!("the server does not have the setting {RESTRICTION}"),
        detail: Some("The command needs it to read no view that another role has put in the place of a table.".into()),
        hint: Some("Update PostgreSQL to the newest minor release: 15.8, 16.4, 17 and later have the setting.".into()),
    }
}

/// The settings of PGOPTIONS, and those of this command after them.
pub fn options() -> String {
    format!("{} {SETTINGS}", std::env::var("PGOPTIONS").unwrap_or_default())
}
