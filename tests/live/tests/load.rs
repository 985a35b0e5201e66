//! Concurrent sessions generate ids from one sequence in every way, without faults: each id is
//! received once, in order, with a time that the clock showed, and its sequence field is the
//! successor of the previous id's.

use instagram_id_live::*;
use postgres::Client;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

fn server() -> Server {
    let server = Server::start(&[("fsync", "off")]);
    setup_photos(&mut server.connect());
    server
}

/// Runs this work in few and in many sessions, and checks every id that was generated.
fn run(scenario: &str, work: &[Work]) {
    let server = server();
    for count in [2, 64] {
        let mut journal = Journal::new(format!("{scenario}, {count} sessions"), Clock::IN_STEP);
        journal.is_complete = true;
        let run_for = Duration::from_millis(length(500, 20_000));
        let (sessions, ()) =
            under_load(|| server.try_connect(), count, work, || thread::sleep(run_for));
        journal.add(sessions);
        journal.check();
    }
    // No id is in two rows, and all ids belong to shard 5.
    assert!(one::<bool>(
        &mut server.connect(),
        "SELECT count(*) = count(DISTINCT id) AND bool_and(id_shard(id) = 5) IS NOT FALSE FROM insta5.photos"
    ));
}

#[test]
fn load_of_everything() {
    let batches = ["1", "7", "1024", "5000"].map(|n| query(format!("SELECT next_ids(5, {n})")));
    run(
        "inserts and calls of every kind",
        &everything().into_iter().chain(batches).collect::<Vec<_>>(),
    );
}

/// Each session inserts many rows in one statement.
#[test]
fn load_of_large_inserts() {
    let server = server();
    let rows = length(200_000, 1_000_000);
    for count in length(&[2][..], &[1, 2, 8]).iter().copied() {
        let statement = format!(
            "INSERT INTO insta5.photos (batch) SELECT generate_series(1, {rows}) RETURNING id"
        );
        let mut journal = Journal::new(
            format!("INSERT ... SELECT of {rows} rows, {count} sessions"),
            Clock::IN_STEP,
        );
        journal.is_complete = true;
        let barrier = Barrier::new(count);
        journal.add(in_parallel(count, |_| {
            let mut client = server.connect();
            let mut received = Received::default();
            barrier.wait();
            received.run(&mut client, &statement).unwrap();
            received
        }));
        assert_eq!(journal.check().ids, count * rows);
        server.connect().batch_execute("TRUNCATE insta5.photos").unwrap();
    }
}

/// Plain `nextval` on the same sequence takes its own values, one at a time or many. It ignores the
/// clock and does not wait for the next millisecond: its values may be behind the clock, and many
/// calls advance the sequence beyond the clock.
#[test]
fn ids_stay_unique_beside_plain_nextval() {
    let server = server();
    // The id that corresponds to such a value.
    let of = "SELECT (value >> 10 << 23) | (5 << 10) | (value & 1023) FROM";
    let nextval = format!("{of} nextval('insta5.table_id_seq') AS value");
    let many = format!(
        "{of} (SELECT nextval('insta5.table_id_seq') AS value FROM generate_series(1, 3000)) AS many"
    );
    let plain = || [&nextval, &many, &nextval].map(query);
    let work: Vec<Work> =
        inserts().into_iter().chain(plain()).chain(calls()).chain(plain()).collect();
    for count in [2, 64] {
        let mut journal =
            Journal::new(format!("beside plain nextval, {count} sessions"), Clock::Set);
        journal.is_complete = true;
        let run_for = Duration::from_millis(length(700, 20_000));
        let (sessions, ()) =
            under_load(|| server.try_connect(), count, &work, || thread::sleep(run_for));
        journal.add(sessions);
        journal.check();
    }
}

/// Prepared statements with cached plans and defaults, in transactions of many statements.
#[test]
fn load_of_prepared_inserts_in_long_transactions() {
    let server = server();
    let mut journal = Journal::new("prepared inserts in transactions of 500", Clock::IN_STEP);
    journal.is_complete = true;
    let transactions = length(3, 1000);
    journal.add(in_parallel(8, |_| {
        let mut client = server.connect();
        client
            .batch_execute("PREPARE one AS INSERT INTO insta5.photos DEFAULT VALUES RETURNING id")
            .unwrap();
        let mut received = Received::default();
        for _ in 0..transactions {
            in_one_transaction(&mut client, &mut received);
        }
        received
    }));
    journal.check();
}

/// Ids of an open transaction count as received, since nothing fails here.
fn in_one_transaction(client: &mut Client, received: &mut Received) {
    client.batch_execute("BEGIN").unwrap();
    for _ in 0..500 {
        received.run(client, "EXECUTE one").unwrap();
    }
    client.batch_execute("COMMIT").unwrap();
}
