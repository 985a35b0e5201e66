//! What a crash leaves: every id after it is larger than every id before it.

use instagram_id_live::*;
use postgres::Client;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

const SESSIONS: usize = 4;
const MINIMAL_WAL: [(&str, &str); 2] = [("wal_level", "minimal"), ("max_wal_senders", "0")];

/// Makes ids in statements of different sizes until the server is gone; every id received is noted.
fn make_until_gone(client: &mut Client, received: &mut Vec<i64>) {
    let statements = [
        "SELECT next_id(5)",
        "SELECT insta5.next_id() FROM generate_series(1, 100)",
        "SELECT next_ids(5, 2000)",
        "SELECT next_id(5) FROM generate_series(1, 5000)",
    ];
    for statement in statements.iter().cycle() {
        match client.query(*statement, &[]) {
            Ok(rows) => received.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
            Err(_) => return,
        }
    }
}

/// Kills the server `times` times under load from four sessions, and checks each life's ids against all before.
fn crash_under_load(settings: &[(&str, &str)], times: u64, before_crash: &str) {
    let server = Server::start(settings);
    setup(&mut server.connect());
    let (mut issued, mut largest) = (0, 0);
    for life in 0..times {
        let sessions = Mutex::new(vec![]);
        thread::scope(|scope| {
            for _ in 0..SESSIONS {
                scope.spawn(|| {
                    let mut received = vec![];
                    make_until_gone(&mut server.connect(), &mut received);
                    sessions.lock().unwrap().push(received);
                });
            }
            thread::sleep(Duration::from_millis(150 + 37 * life));
            if !before_crash.is_empty() {
                server.connect().batch_execute(before_crash).unwrap();
            }
            server.crash();
        });
        server.launch();
        let sessions = sessions.into_inner().unwrap();
        check_unique_and_increasing(&sessions);
        let ids = || sessions.iter().flatten().copied();
        assert!(ids().count() > 1000, "only {} ids before the crash", ids().count());
        let smallest = ids().min().unwrap();
        assert!(smallest > largest, "life {life} issued {smallest} after {largest}");
        largest = ids().max().unwrap();
        issued += ids().count();
        let mut client = server.connect();
        let next: i64 = one(&mut client, "SELECT next_id(5)");
        assert!(next > largest, "after the crash {next}, before it {largest}");
        let lead = lead(&mut client, next);
        // A second ahead of the clock, and a little more for each crash that comes before that is made up for.
        let bound = 1.0 + 0.05 * (life + 1) as f64;
        assert!(lead <= bound, "{lead} s ahead of the clock after {} crashes", life + 1);
        largest = next;
    }
    println!("{issued} ids through {times} crashes: 0 duplicates, 0 out of order");
}

#[test]
fn killed_under_load() {
    crash_under_load(&[], 6, "");
}

#[test]
fn killed_right_after_a_checkpoint() {
    crash_under_load(&[], 4, "CHECKPOINT");
}

#[test]
fn killed_without_full_page_writes() {
    crash_under_load(&[("full_page_writes", "off"), ("checkpoint_timeout", "30s")], 3, "CHECKPOINT");
}

#[test]
fn killed_with_minimal_wal() {
    crash_under_load(&MINIMAL_WAL, 3, "");
}

/// With wal_level minimal a sequence made in the same transaction is not logged but synced at its commit. Ahead of
/// the clock, so that the clock would not hide a loss.
#[test]
fn made_and_used_in_one_transaction_with_minimal_wal() {
    let server = Server::start(&MINIMAL_WAL);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    let ids = "SELECT next_id(6, 'fresh') FROM generate_series(1, 3000)";
    let mut transaction = client.transaction().unwrap();
    transaction.batch_execute("CREATE SEQUENCE fresh").unwrap();
    transaction.batch_execute("SELECT next_id(6, 'fresh')").unwrap();
    set_an_hour_ahead(&mut transaction, "fresh");
    let before: i64 = transaction.query(ids, &[]).unwrap().last().unwrap().get(0);
    transaction.commit().unwrap();
    let after_commit = *column(&mut client, ids).last().unwrap();
    client.batch_execute("CREATE TABLE kept AS SELECT 1 AS n").unwrap();
    server.crash();
    server.launch();
    let after: i64 = one(&mut server.connect(), "SELECT next_id(6, 'fresh')");
    assert!(before < after_commit && after_commit < after);
}

/// The state that a crash can cost is ahead of the clock here, so the clock would not hide a loss: each life
/// begins with the sequence an hour further.
#[test]
fn a_lead_over_the_clock_survives() {
    let server = Server::start(&[]);
    setup(&mut server.connect());
    let mut largest: i64 = one(&mut server.connect(), "SELECT next_id(5)");
    for _ in 0..3 {
        let mut client = server.connect();
        set_an_hour_ahead(&mut client, "insta5.table_id_seq");
        let ids = column(&mut client, "SELECT next_ids(5, 20000)");
        assert!(ids[0] > largest);
        largest = *ids.last().unwrap();
        server.crash();
        server.launch();
        let next: i64 = one(&mut server.connect(), "SELECT next_id(5)");
        assert!(next > largest, "{next} after {largest}");
        largest = next;
    }
}

/// The same beside checkpoints: before the first ids, so that their change of the page must reach the disk by the
/// next one; and before the last ids, so that they need a record after it.
#[test]
fn a_lead_over_the_clock_survives_checkpoints() {
    for settings in [&[][..], &MINIMAL_WAL] {
        let server = Server::start(settings);
        setup(&mut server.connect());
        one::<i64>(&mut server.connect(), "SELECT next_id(5)");
        for ids_after_checkpoint in [false, true] {
            let mut client = server.connect();
            set_an_hour_ahead(&mut client, "insta5.table_id_seq");
            client.batch_execute("CHECKPOINT").unwrap();
            let mut largest = *column(&mut client, "SELECT next_ids(5, 1000)").last().unwrap();
            client.batch_execute("CHECKPOINT").unwrap();
            if ids_after_checkpoint {
                largest = *column(&mut client, "SELECT next_ids(5, 1000)").last().unwrap();
            }
            server.crash();
            server.launch();
            let next: i64 = one(&mut server.connect(), "SELECT next_id(5)");
            assert!(next > largest, "{settings:?}, {ids_after_checkpoint}: {next} after {largest}");
        }
    }
}

/// A transaction writes a WAL record and does not commit; what it logged ahead then serves transactions that only
/// read, of another session while it is open, and of its own when it was rolled back. Their ids are safe when their
/// statement ends. Ahead of the clock, so that the clock would not hide a loss, and with no one else to flush WAL.
#[test]
fn ids_that_were_only_read_survive() {
    for rolled_back in [false, true] {
        let server = Server::start(&[("wal_writer_delay", "10s"), ("autovacuum", "off")]);
        let (mut a, mut b) = (server.connect(), server.connect());
        setup(&mut a);
        one::<i64>(&mut b, "SELECT next_id(5)");
        set_an_hour_ahead(&mut a, "insta5.table_id_seq");
        one::<i64>(&mut b, "SELECT next_id(5)");
        let end_of_wal =
            |client: &mut Client| -> String { one(client, "SELECT pg_current_wal_insert_lsn()::text") };
        let before = end_of_wal(&mut b);
        a.batch_execute("BEGIN; SELECT count(next_id(5)) FROM generate_series(1, 60000)").unwrap();
        assert_ne!(end_of_wal(&mut b), before, "a record, by a transaction that stays open");
        let reader = if rolled_back {
            a.batch_execute("ROLLBACK").unwrap();
            &mut a
        } else {
            &mut b
        };
        let read: i64 = one(reader, "SELECT next_id(5)");
        server.crash();
        server.launch();
        let next: i64 = one(&mut server.connect(), "SELECT next_id(5)");
        assert!(next > read, "rolled back: {rolled_back}: {next} after {read}");
    }
}

/// A shard that was taken ahead stays there, also where the transaction that took it there is rolled back by the crash
/// and another one has only been told how far it is.
#[test]
fn an_advance_survives() {
    for is_told in [false, true] {
        let server = Server::start(&[("wal_writer_delay", "10s"), ("autovacuum", "off")]);
        let (mut a, mut b) = (server.connect(), server.connect());
        setup(&mut a);
        one::<i64>(&mut a, "SELECT next_id(5)");
        one::<i64>(&mut b, "SELECT next_id(5)");
        a.batch_execute("SET client_min_messages = error; CHECKPOINT").unwrap();
        b.batch_execute("SET client_min_messages = error").unwrap();
        let an_hour_ahead = "SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0))";
        let known = if is_told {
            a.batch_execute("BEGIN").unwrap();
            let ahead: i64 = one(&mut a, an_hour_ahead);
            let told: i64 = one(&mut b, "SELECT advance_shard(5, make_id(now(), 5, 0))");
            assert_eq!(ahead, told);
            told
        } else {
            one(&mut a, an_hour_ahead)
        };
        server.crash();
        server.launch();
        let next: i64 = one(&mut server.connect(), "SELECT next_id(5)");
        assert!(next > known, "told: {is_told}: {next} after {known}");
    }
}

/// A database made from a template has a copy of the sequence, with the original's log_cnt but no WAL record of
/// its own. Ahead of the clock, so that the clock would not hide a loss.
#[test]
fn a_copy_made_from_a_template_survives() {
    for strategy in ["wal_log", "file_copy"] {
        let server = Server::start(&[]);
        server.connect().batch_execute("CREATE DATABASE original").unwrap();
        let mut client = server.connect_to("original");
        setup(&mut client);
        one::<i64>(&mut client, "SELECT next_id(5)");
        set_an_hour_ahead(&mut client, "insta5.table_id_seq");
        let mut largest = *column(&mut client, "SELECT next_ids(5, 5000)").last().unwrap();
        drop(client);
        let copy = format!("CREATE DATABASE copy TEMPLATE original STRATEGY {strategy}");
        // The session just closed may take a moment to leave.
        while server.connect().batch_execute(&copy).is_err() {
            thread::sleep(Duration::from_millis(20));
        }
        for _ in 0..2 {
            let mut client = server.connect_to("copy");
            let ids = column(&mut client, "SELECT next_ids(5, 5000)");
            assert!(ids[0] > largest, "{strategy}");
            largest = *ids.last().unwrap();
            // Flushed by someone else's commit, as on any busy server.
            client.batch_execute("CREATE TABLE IF NOT EXISTS other (); DROP TABLE other").unwrap();
            server.crash();
            server.launch();
        }
        let next: i64 = one(&mut server.connect_to("copy"), "SELECT next_id(5)");
        assert!(next > largest, "{strategy}: {next} after {largest}");
    }
}

/// The same for a sequence that was unlogged and is made logged, which copies its page with log_cnt.
#[test]
fn a_sequence_made_logged_survives() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id; CREATE UNLOGGED SEQUENCE s").unwrap();
    one::<i64>(&mut client, "SELECT next_id(5, 's')");
    set_an_hour_ahead(&mut client, "s");
    one::<i64>(&mut client, "SELECT next_id(5, 's')");
    client.batch_execute("ALTER SEQUENCE s SET LOGGED").unwrap();
    let largest =
        *column(&mut client, "SELECT next_id(5, 's') FROM generate_series(1, 5000)").last().unwrap();
    server.crash();
    server.launch();
    let next: i64 = one(&mut server.connect(), "SELECT next_id(5, 's')");
    assert!(next > largest, "{next} after {largest}");
}

/// An unlogged sequence is emptied by a crash, as PostgreSQL says; its ids go on with the clock.
#[test]
fn an_unlogged_sequence_starts_over_with_the_clock() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id; CREATE UNLOGGED SEQUENCE s").unwrap();
    let largest =
        *column(&mut client, "SELECT next_id(5, 's') FROM generate_series(1, 5000)").last().unwrap();
    server.crash();
    server.launch();
    let mut client = server.connect();
    assert!(!one::<bool>(&mut client, "SELECT is_called FROM s"));
    assert!(one::<i64>(&mut client, "SELECT next_id(5, 's')") > largest);
}

/// A page whose special area is not a sequence's is refused, not written over.
#[test]
fn a_damaged_page_is_refused() {
    let server = Server::start(&[("ignore_checksum_failure", "on")]);
    let mut client = server.connect();
    setup(&mut client);
    one::<i64>(&mut client, "SELECT next_id(5)");
    let file: String = one(&mut client, "SELECT pg_relation_filepath('insta5.table_id_seq')");
    client.batch_execute("CHECKPOINT").unwrap();
    server.crash();
    let path = server.path().join("data").join(file);
    let mut page = std::fs::read(&path).unwrap();
    page[8192 - 8..].fill(0);
    std::fs::write(&path, page).unwrap();
    server.launch();
    let (state, message, hint) = error_of(&mut server.connect(), "SELECT next_id(5)");
    assert_eq!(
        (state.as_str(), message.as_str(), hint.as_str()),
        (
            "XX001",
            "bad magic number in sequence insta5.table_id_seq",
            "Restore the sequence from a backup, or drop it and create it again."
        )
    );
}
