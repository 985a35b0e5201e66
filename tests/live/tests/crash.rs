//! What a crash leaves: every id after it is larger than every id before it.

use instagram_id_live::*;
use postgres::Client;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

const SESSIONS: usize = 4;
const MINIMAL_WAL: [(&str, &str); 2] = [("wal_level", "minimal"), ("max_wal_senders", "0")];

fn setup(client: &mut Client) {
    client.batch_execute("CREATE EXTENSION instagram_id; SELECT create_shard(5)").unwrap();
}

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
        let lead: f64 = one(
            &mut client,
            &format!("SELECT extract(epoch FROM id_time({next}) - clock_timestamp())::float8"),
        );
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

/// With wal_level minimal a sequence made in the same transaction is not logged but synced at its commit.
#[test]
fn made_and_used_in_one_transaction_with_minimal_wal() {
    let server = Server::start(&MINIMAL_WAL);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    let ids = "SELECT next_id(6, 'fresh') FROM generate_series(1, 3000)";
    let mut transaction = client.transaction().unwrap();
    transaction.batch_execute("CREATE SEQUENCE fresh").unwrap();
    let before: i64 = transaction.query(ids, &[]).unwrap().last().unwrap().get(0);
    transaction.commit().unwrap();
    let after_commit = *column(&mut client, ids).last().unwrap();
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
        client
            .batch_execute("SELECT setval('insta5.table_id_seq', last_value + 3600000 * 1024::bigint) FROM insta5.table_id_seq")
            .unwrap();
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
        client
            .batch_execute("SELECT setval('insta5.table_id_seq', last_value + 3600000 * 1024::bigint) FROM insta5.table_id_seq")
            .unwrap();
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
    client.batch_execute("SELECT setval('s', last_value + 3600000 * 1024::bigint) FROM s").unwrap();
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
