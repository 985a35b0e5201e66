//! Real servers for the tests, load for them, and the record of the ids that their clients
//! received.
//!
//! A server is started in a temporary folder, uses a socket there, and is stopped when dropped.
//! `PG_CONFIG` names the PostgreSQL, in which the extension must be installed. If root runs the
//! tests, the servers run as the user `postgres`. With `TORTURE=1` in the environment the scenarios
//! run longer.

mod clock;
mod cluster;
mod commands;
mod disk;
mod emulated;
mod journal;
mod load;
mod original;
mod page;
mod place;
mod preload;
pub mod restored;
mod server;
mod traps;
mod unread;

pub use clock::{DAY, HOUR, YEAR};
pub use cluster::Cluster;
pub use disk::{DiskFault, FaultyDisk};
pub use emulated::{AN_HOUR_AHEAD, Emulated, Fault, NEXT_ID, SHARD_WITH_TRIGGER, WAYS};
pub use journal::{Clock, Figures, Journal, Received};
pub use load::{
    StopAtEnd, Work, calls, check_no_row_is_lost, copy, everything, insert_statements, inserts,
    query, setup_photos, under_load, unrecorded,
};
pub use original::{ORIGINAL_EPOCH_MS, original_function, original_of_shard};
pub use page::{blocks, metrics, rows, run_page, trimmed};
pub use place::{Place, conninfo, server_with_a_map};
pub use server::{LOGICAL, Server, is_panic_of_the_disk, major, pg_config_says};

pub use traps::{install_traps, roles_caught};
pub use unread::Unread;

use postgres::{Client, GenericClient};
use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

/// A parameter of a scenario: one value for everyday runs and one for long runs.
pub fn length<T>(everyday: T, torture: T) -> T {
    if std::env::var_os("TORTURE").is_some_and(|value| value == "1") { torture } else { everyday }
}

/// Whether a test with random choices needs to make only a few, as `make check` asks for.
pub fn is_quick() -> bool {
    std::env::var_os("QUICK").is_some_and(|value| value == "1")
}

/// Random choices, which can be repeated by setting `SEED` to the value that a run has printed.
pub fn random(scenario: &str) -> fastrand::Rng {
    let seed = match std::env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("{scenario}: SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Fails on an older PostgreSQL. A test that needs a major is in a module `since_<major>`, so that
/// the scripts leave it out on older ones, and list it.
#[track_caller]
pub fn needs_major(needed: u32) {
    assert!(major() >= needed, "PostgreSQL {} does not have this; {needed} and later do", major());
}

/// A file or a folder of the project.
pub fn of_project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// An example of the documentation.
pub fn example(name: &str) -> PathBuf {
    of_project("docs/examples").join(name)
}

/// The folder in which the scripts keep what they have downloaded.
pub static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
    let ask = ["-c", ". \"$1\" && printf %s \"$CACHE\"", "bash"];
    PathBuf::from(server::output(Command::new("bash").args(ask).arg(of_project("scripts/lib.sh"))))
});

/// CPU time that a single-threaded process has used.
pub fn cpu_time(pid: i32) -> Duration {
    let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let (nanoseconds, _) = schedstat.split_once(' ').unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

/// A field of a process's memory in `/proc`, in bytes: `RssAnon` is its private memory, `VmHWM` its
/// peak.
pub fn memory_of(pid: i32, line: &str) -> i64 {
    status_of(pid, line).strip_suffix(" kB").unwrap().parse::<i64>().unwrap() * 1024
}

/// The number of voluntary context switches of a process.
pub fn sleeps_of(pid: i32) -> i64 {
    status_of(pid, "voluntary_ctxt_switches").parse().unwrap()
}

fn status_of(pid: i32, line: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = status.lines().find_map(|is| is.strip_prefix(line)?.strip_prefix(':'));
    value.unwrap().trim().to_owned()
}

#[track_caller]
pub fn one<T: for<'a> postgres::types::FromSql<'a>>(client: &mut Client, query: &str) -> T {
    client.query_one(query, &[]).unwrap_or_else(|error| panic!("{query}: {}", why(&error))).get(0)
}

#[track_caller]
pub fn column(client: &mut Client, query: &str) -> Vec<i64> {
    values(client, query)
}

#[track_caller]
pub fn texts(client: &mut Client, query: &str) -> Vec<String> {
    values(client, query)
}

#[track_caller]
fn values<T: for<'a> postgres::types::FromSql<'a>>(client: &mut Client, query: &str) -> Vec<T> {
    client
        .query(query, &[])
        .unwrap_or_else(|error| panic!("{query}: {}", why(&error)))
        .iter()
        .map(|row| row.get(0))
        .collect()
}

/// Runs statements that succeed.
#[track_caller]
pub fn run(client: &mut impl GenericClient, statements: &str) {
    client
        .batch_execute(statements)
        .unwrap_or_else(|error| panic!("{statements}: {}", why(&error)));
}

/// An error as psql shows it; the text of the client's own errors is only "db error".
pub fn why(error: &postgres::Error) -> String {
    let Some(of_server) = error.as_db_error() else { return format!("{error:?}") };
    let lines = [
        ("DETAIL", of_server.detail()),
        ("HINT", of_server.hint()),
        ("CONTEXT", of_server.where_()),
    ];
    let lines = lines.into_iter().filter_map(|(name, text)| Some(format!("\n{name}: {}", text?)));
    let first =
        format!("{}: {}: {}", of_server.severity(), of_server.code().code(), of_server.message());
    first + &lines.collect::<String>()
}

/// Runs statements that may fail. The server sends an error before it ends the transaction and
/// releases its locks, and answers an empty query after that.
pub fn attempt(client: &mut Client, statements: &str) -> Result<(), postgres::Error> {
    let outcome = client.batch_execute(statements);
    if outcome.is_err() {
        // A closed connection has no transaction.
        let _ = client.batch_execute("");
    }
    outcome
}

/// SQLSTATE, message and hint of a statement's error. The detail is appended to the message as a
/// second line.
#[track_caller]
pub fn error_of(client: &mut Client, statement: &str) -> (String, String, String) {
    let error = attempt(client, statement).expect_err(statement);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {}", why(&error)));
    let message =
        [error.message()].into_iter().chain(error.detail()).collect::<Vec<_>>().join("\n");
    (error.code().code().into(), message, error.hint().unwrap_or_default().into())
}

/// Compares two sets, and shows only how they differ.
#[track_caller]
pub fn assert_same_set<T: Ord + Debug>(
    found: impl IntoIterator<Item = T>,
    expected: impl IntoIterator<Item = T>,
    what: &str,
) {
    let (found, expected) = (BTreeSet::from_iter(found), BTreeSet::from_iter(expected));
    let only = |these: &BTreeSet<T>, those: &BTreeSet<T>| -> String {
        these.difference(those).map(|item| format!("\n    {item:?}")).collect()
    };
    let (missing, unexpected) = (only(&expected, &found), only(&found, &expected));
    assert!(
        missing.is_empty() && unexpected.is_empty(),
        "{what}\n  missing:{missing}\n  not expected:{unexpected}"
    );
}

/// The OIDs of the extension's functions, as a subquery.
pub const MEMBER_FUNCTIONS: &str =
    "SELECT objid FROM pg_depend JOIN pg_extension AS e ON e.oid = refobjid
    WHERE extname = 'instagram_id' AND deptype = 'e'
      AND refclassid = 'pg_extension'::regclass AND classid = 'pg_proc'::regclass";

/// Creates the extension and shard 5.
pub fn setup(client: &mut Client) {
    run(client, "CREATE EXTENSION instagram_id; SELECT create_shard(5)");
}

/// A server that does not wait for its disk, with the extension, and a session.
pub fn with_extension() -> (Server, Client) {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    run(&mut client, "CREATE EXTENSION instagram_id");
    (server, client)
}

/// The same with shard 5.
pub fn with_shard() -> (Server, Client) {
    let (server, mut client) = with_extension();
    run(&mut client, "SELECT create_shard(5)");
    (server, client)
}

/// Seconds by which an id's time is ahead of the server's clock.
pub fn lead(client: &mut Client, id: i64) -> f64 {
    one(client, &format!("SELECT extract(epoch FROM id_time({id}) - clock_timestamp())::float8"))
}

/// How many of the ids are repeated.
pub fn duplicates(sessions: &[Vec<i64>]) -> usize {
    let all: usize = sessions.iter().map(Vec::len).sum();
    let distinct: HashSet<i64> = sessions.iter().flatten().copied().collect();
    all - distinct.len()
}

/// Checks that the ids of each session increase, and that no id is repeated.
#[track_caller]
pub fn check_unique_and_increasing(sessions: &[Vec<i64>]) {
    for (session, ids) in sessions.iter().enumerate() {
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] >= pair[1]) {
            panic!("session {session}: {} is followed by {}", pair[0], pair[1]);
        }
    }
    let duplicates = duplicates(sessions);
    assert_eq!(duplicates, 0, "{duplicates} duplicates");
}

/// Milliseconds from an id's epoch.
pub fn ms_of(id: i64) -> i64 {
    id >> 23
}

/// Sets a sequence, which must have been used, an hour ahead of its value. There the clock cannot
/// hide a loss.
pub fn set_an_hour_ahead(client: &mut impl GenericClient, sequence: &str) {
    let set = format!(
        "SELECT setval($${sequence}$$, last_value + 3600000 * 1024::bigint) FROM {sequence}"
    );
    client.batch_execute(&set).unwrap();
}

/// Runs `session(n)` for n in 0..count, each in a thread of its own, and returns what they return.
pub fn in_parallel<T: Send>(count: usize, session: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let session = &session;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || session(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The median of some measurements.
pub fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values[values.len() / 2]
}

/// Same for plain numbers.
pub fn middle(values: impl IntoIterator<Item = f64>) -> f64 {
    median(values.into_iter().map(Duration::from_secs_f64).collect()).as_secs_f64()
}
