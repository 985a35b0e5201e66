//! Sessions that generate ids continuously and reconnect after faults of their server, as
//! applications do.

use crate::Received;
use crate::journal::Moment;
use crate::{column, run};
use postgres::error::Severity;
use postgres::{Client, Error};
use std::collections::HashSet;
use std::error::Error as _;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Work that a session repeats, recording the ids that it receives.
pub type Work = Box<dyn Fn(&mut Client, &mut Received) -> Result<(), Error> + Send + Sync>;

/// A statement that returns ids.
pub fn query(statement: impl Into<String>) -> Work {
    let statement = statement.into();
    Box::new(move |client, received| received.run(client, &statement))
}

/// COPY loads values of `batch` from this one on; all other rows have smaller ones.
const FIRST_OF_COPY: i64 = 1 << 40;

/// Loads rows into a table with a column `batch`, whose default generates the `id`; then reads
/// these ids in the order in which the rows were loaded, by `batch`: their physical order may
/// differ if earlier pages have free space.
pub fn copy(table: &'static str, rows: i64) -> Work {
    Box::new(move |client, received| {
        let first = fastrand::i64(FIRST_OF_COPY..FIRST_OF_COPY << 10) * rows;
        let batch = first..first + rows;
        let started = Moment::now();
        let mut writer = client.copy_in(&format!("COPY {table} (batch) FROM STDIN"))?;
        let lines: String = batch.clone().map(|line| format!("{line}\n")).collect();
        writer.write_all(lines.as_bytes()).expect("the writer keeps it");
        assert_eq!(writer.finish()?, rows as u64);
        let ended = Moment::now();
        let ids = format!(
            "SELECT id FROM {table} WHERE batch >= {} AND batch < {} ORDER BY batch",
            batch.start, batch.end
        );
        received.note(client.query(&ids, &[])?.iter().map(|row| row.get(0)), started, ended);
        Ok(())
    })
}

/// Same as [`query`] but without a record, for statements that return no ids, or ids without any
/// guarantee.
pub fn unrecorded(statement: impl Into<String>) -> Work {
    let statement = statement.into();
    Box::new(move |client, _| client.batch_execute(&statement))
}

/// Creates `insta5.photos`, whose default generates ids.
pub fn setup_photos(client: &mut Client) {
    crate::setup(client);
    run(client, &format!(
            "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), batch bigint);
             CREATE INDEX ON insta5.photos (batch) WHERE batch >= {FIRST_OF_COPY}"
        ));
}

/// The ways to insert into `insta5.photos`, from one row to thousands.
pub fn inserts() -> Vec<Work> {
    insert_statements().into_iter().chain([copy("insta5.photos", 500)]).collect()
}

/// The ways that are plain statements. The client library cannot handle a cancel during a COPY.
pub fn insert_statements() -> Vec<Work> {
    const ROW: &str = "INSERT INTO insta5.photos DEFAULT VALUES RETURNING id;";
    vec![
        query(ROW),
        query("INSERT INTO insta5.photos (batch) SELECT generate_series(1, 100) RETURNING id"),
        query(ROW),
        query("INSERT INTO insta5.photos SELECT next_ids(5, 2000) RETURNING id"),
        query(format!("BEGIN; {ROW} {ROW} COMMIT")),
        query(
            "INSERT INTO insta5.photos VALUES (DEFAULT, 1), (DEFAULT, 2), (next_id(5), 3) RETURNING id",
        ),
    ]
}

/// The ways to generate ids without a table.
pub fn calls() -> Vec<Work> {
    vec![
        query("SELECT next_id(5)"),
        query("SELECT insta5.next_id() FROM generate_series(1, 100)"),
        query("SELECT next_ids(5, 2000)"),
        query("SELECT next_id(5, 'insta5.table_id_seq') FROM generate_series(1, 5000)"),
    ]
}

/// All of these ways.
pub fn everything() -> Vec<Work> {
    inserts().into_iter().chain(calls()).collect()
}

/// Runs all of this work in `count` sessions until `during` returns, each session starting with
/// another part. A session that loses its connection reconnects and continues; any other error
/// fails the test.
pub fn under_load<T>(
    connect: impl Fn() -> Result<Client, Error> + Sync,
    count: usize,
    work: &[Work],
    during: impl FnOnce() -> T,
) -> (Vec<Received>, T) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (stop, connect) = (&stop, &connect);
        // Stops the sessions even if `during` panics, because the scope waits for its threads.
        let stop_at_end = StopAtEnd(stop);
        let sessions: Vec<_> =
            (0..count).map(|n| scope.spawn(move || session(connect, n, work, stop))).collect();
        let result = during();
        drop(stop_at_end);
        (sessions.into_iter().map(|session| session.join().unwrap()).collect(), result)
    })
}

/// Checks that each of these ids still has its row.
pub fn check_no_row_is_lost(client: &mut Client, acknowledged: &[i64]) {
    let kept: HashSet<i64> = column(client, "SELECT id FROM insta5.photos").into_iter().collect();
    let lost = acknowledged.iter().filter(|id| !kept.contains(id)).count();
    println!("    {lost} of {} rows lost", acknowledged.len());
    assert_eq!(lost, 0, "rows lost");
}

/// Sets its flag when it is dropped, also by a panic.
pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn session(
    connect: &impl Fn() -> Result<Client, Error>,
    first: usize,
    work: &[Work],
    stop: &AtomicBool,
) -> Received {
    let mut received = Received::default();
    let mut turns = work.iter().cycle().skip(first % work.len());
    while !stop.load(Ordering::Relaxed) {
        let outcome = connect().and_then(|mut client| {
            while !stop.load(Ordering::Relaxed) {
                turns.next().expect("a cycle")(&mut client, &mut received)?;
            }
            Ok(())
        });
        if let Err(error) = outcome {
            assert!(is_loss_of_connection(&error), "session {first}: {error:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
    received
}

/// Whether the error means that the server is stopped, stopping or starting. A crash caused by the
/// server itself is found in its log when it is dropped.
fn is_loss_of_connection(error: &Error) -> bool {
    match error.as_db_error() {
        // admin_shutdown, crash_shutdown, cannot_connect_now; and query_canceled if connecting was
        // cancelled. The log of the server shows whether a PANIC was expected.
        Some(error) => match error.code().code() {
            "57P01" | "57P02" | "57P03" => true,
            // PgBouncer's.
            "08P01" => error.severity() == "FATAL",
            _ if error.parsed_severity() == Some(Severity::Panic) => true,
            code => code == "57014" && error.parsed_severity() == Some(Severity::Fatal),
        },
        None => {
            // PostgreSQL 19 was seen to send a message out of turn when it stopped with a PANIC.
            let is_out_of_turn = error.to_string() == "unexpected message from server";
            is_out_of_turn
                || error.is_closed()
                || error.source().is_some_and(|source| source.is::<io::Error>())
        }
    }
}
