//! How the command connects, whatever the server, the role or the environment has set.

use crate::libpq::{Connection, Error};

/// Above all, a COMMIT is on disk when it returns: a change is acknowledged only after the shard is closed or open for
/// good. To compile a query takes longer than to run it here.
const SETTINGS: &str = "-c jit=off -c synchronous_commit=on -c client_min_messages=warning -c search_path=pg_catalog \
     -c statement_timeout=0 -c lock_timeout=0 -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0";

/// What libpq takes unless the environment says otherwise: a server that does not answer is given up after this time.
const DEFAULTS: [(&str, &str, &str); 4] = [
    ("connect_timeout", "10", "PGCONNECT_TIMEOUT"),
    ("keepalives_idle", "10", ""),
    ("keepalives_interval", "5", ""),
    ("tcp_user_timeout", "30000", ""),
];

/// The name of sessions that only look.
pub const OBSERVER: &str = "instagram_id_shards";

/// Connects with these settings, under a name that pg_stat_activity shows.
pub fn open(conninfo: &str, name: &str) -> Result<Connection, Error> {
    let options = format!("{} {SETTINGS}", std::env::var("PGOPTIONS").unwrap_or_default());
    let mut parameters: Vec<(&str, &str)> = DEFAULTS
        .iter()
        .filter(|(_, _, variable)| variable.is_empty() || std::env::var_os(variable).is_none())
        .map(|(keyword, value, _)| (*keyword, *value))
        .collect();
    parameters.extend([
        ("dbname", conninfo),
        ("options", options.trim_start()),
        ("application_name", name),
        ("client_encoding", "UTF8"),
    ]);
    Connection::open(&parameters)
}
