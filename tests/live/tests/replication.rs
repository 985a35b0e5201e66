//! Copies of a shard's rows: by logical replication to a server with the same defaults, and in
//! dumps taken while clients write.
//!
//! Logical replication copies rows with their ids, but no sequences, so the subscriber's shard
//! ignores the ids that arrive. It continues above them with the clock, provided that its clock is
//! not behind the publisher's and that the publisher's shard is not ahead of the clock.
//! `advance_shard` with the publisher's last id, as docs/use/shards.md advises for every copy,
//! ensures this. A dump contains the state of the sequence after all rows of the dump.

use instagram_id_live::*;
use postgres::Client;
use std::ops::Range;
use std::thread;
use std::time::Duration;

const SESSIONS: usize = 4;
const ROWS: &str = "SELECT id FROM insta5.photos ORDER BY id";

/// Creates shard 5 with a table.
fn settle(server: &Server, is_ahead: bool) {
    let mut client = server.connect();
    setup_photos(&mut client);
    if is_ahead {
        one::<i64>(&mut client, "SELECT next_id(5)");
        set_an_hour_ahead(&mut client, "insta5.table_id_seq");
    }
}

/// Rows inserted in each way that applications use, with ids by default.
fn writers() -> [Work; 3] {
    [
        query("INSERT INTO insta5.photos (batch) VALUES (1) RETURNING id"),
        query(
            "INSERT INTO insta5.photos (batch) SELECT 2 FROM generate_series(1, 20) RETURNING id",
        ),
        copy("insta5.photos", 50),
    ]
}

/// Runs the writers for this time; returns what they received.
fn write_for(server: &Server, milliseconds: u64) -> Vec<Received> {
    write_during(server, || thread::sleep(Duration::from_millis(milliseconds)))
}

fn write_during(server: &Server, during: impl FnOnce()) -> Vec<Received> {
    under_load(|| server.try_connect(), SESSIONS, &writers(), during).0
}

/// Subscribes to the publication of this name.
pub fn subscribe(subscriber: &Server, name: &str, publisher: &Server) {
    let host = publisher.path().display();
    let subscribe = format!(
        "CREATE SUBSCRIPTION {name} CONNECTION 'host={host} user=postgres dbname=postgres' PUBLICATION {name}"
    );
    run(&mut subscriber.connect(), &subscribe);
}

/// Waits until a subscriber has received all that its publisher has committed.
pub fn catch_up(publisher: &Server, subscriber: &Server, name: &str) {
    subscriber.wait_until("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel");
    let end: String = one(&mut publisher.connect(), "SELECT pg_current_wal_insert_lsn()::text");
    publisher.wait_until(&format!(
        "SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = '{name}'"
    ));
    // PostgreSQL 19 counts the errors of tables and of sequences separately.
    let errors = "SELECT sum(value::bigint)::bigint FROM pg_stat_subscription_stats AS stats, jsonb_each_text(to_jsonb(stats))
         WHERE key LIKE '%\\_error\\_count'";
    assert_eq!(one::<i64>(&mut subscriber.connect(), errors), 0, "{}", subscriber.log());
}

/// Moves the writers to a subscriber: they stop, it catches up, its shard is advanced to the last
/// id, and they continue there.
fn switch_over() -> Journal {
    let (publisher, subscriber) = (Server::start(&LOGICAL), Server::start(&LOGICAL));
    settle(&publisher, true);
    settle(&subscriber, false);
    // Some of the rows are copied initially, the others are streamed.
    let mut journal = Journal::new("switch-over, an hour ahead", Clock::Set);
    journal.faults = 1;
    journal.add(write_for(&publisher, 200));
    let mut client = publisher.connect();
    run(&mut client, "CREATE PUBLICATION shard_5 FOR TABLES IN SCHEMA insta5");
    journal.add(write_during(&publisher, || {
        subscribe(&subscriber, "shard_5", &publisher);
        subscriber.wait_until("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel");
        thread::sleep(Duration::from_millis(length(500, 20_000)));
    }));
    catch_up(&publisher, &subscriber, "shard_5");
    let mut there = subscriber.connect();
    let rows = column(&mut client, ROWS);
    assert!(rows.len() > 1000, "only {} rows", rows.len());
    assert_eq!(rows, column(&mut there, ROWS), "other rows than those published");
    assert!(
        !one::<bool>(&mut there, "SELECT is_called FROM insta5.table_id_seq"),
        "applying rows makes no ids"
    );
    // Ids that are in no row.
    let mut received = Received::default();
    received.run(&mut client, "SELECT next_ids(5, 5000)").unwrap();
    journal.add([received]);

    run(&mut there, "DROP SUBSCRIPTION shard_5");
    // Hides the warning that the sequence is ahead of the clock.
    run(&mut there, "SET client_min_messages = error");
    let last: i64 = one(&mut client, "SELECT last_id FROM id_shards WHERE shard = 5");
    assert_eq!(one::<i64>(&mut there, &format!("SELECT advance_shard(5, {last})")), last);
    journal.add(write_for(&subscriber, 300));
    journal
}

#[test]
fn ids_increase_when_writers_move_to_an_advanced_subscriber() {
    switch_over().check();
}

/// A way to dump and restore: options of `pg_dump`, and whether `pg_restore` reads the dump.
struct Way {
    name: &'static str,
    options: &'static [&'static str],
    is_script: bool,
}

const WAYS: [Way; 5] = [
    Way { name: "schema, script", options: &["-n", "insta5"], is_script: true },
    Way { name: "schema, archive", options: &["-n", "insta5", "-Fc"], is_script: false },
    Way {
        name: "schema, folder by two workers",
        options: &["-n", "insta5", "-Fd", "-j2"],
        is_script: false,
    },
    Way { name: "database, script", options: &[], is_script: true },
    Way { name: "database, folder by two workers", options: &["-Fd", "-j2"], is_script: false },
];

impl Way {
    /// Dumps the database to `file`.
    fn dump(&self, server: &Server, file: &str) {
        server.run("pg_dump", &[self.options, &["-f", file, "postgres"]].concat());
    }

    /// Restores it into a new database.
    fn restore(&self, server: &Server, file: &str) -> Client {
        run(&mut server.connect(), &format!("CREATE DATABASE {file}"));
        let mut client = server.connect_to(file);
        if self.options.contains(&"-n") {
            run(&mut client, "CREATE EXTENSION instagram_id");
        }
        if self.is_script {
            server.run("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, file]);
        } else {
            server.run("pg_restore", &["--exit-on-error", "-j", "2", "-d", file, file]);
        }
        client
    }
}

/// Takes dumps while clients write, and restores each: new ids are above all in its table. Ahead of
/// the clock only the state in the dump ensures this.
#[test]
fn dumps_under_load_ahead_of_the_clock_keep_the_state() {
    let server = Server::start(&[("fsync", "off")]);
    settle(&server, true);
    let dumps: Range<usize> = 0..length(5, 20);
    let way = |n: usize| &WAYS[n % WAYS.len()];
    write_during(&server, || {
        server.wait_until("SELECT count(*) > 1000 FROM insta5.photos");
        for n in dumps.clone() {
            way(n).dump(&server, &format!("dump_{n}"));
        }
    });
    let in_the_end: i64 = one(&mut server.connect(), "SELECT count(*) FROM insta5.photos");
    for n in dumps {
        let Way { name, .. } = way(n);
        let mut copy = way(n).restore(&server, &format!("dump_{n}"));
        let rows = column(&mut copy, ROWS);
        assert!(
            !rows.is_empty() && (rows.len() as i64) < in_the_end,
            "{name}: not while writers ran"
        );
        let mut received = Received::default();
        received.run(&mut copy, ROWS).unwrap();
        received.run(&mut copy, "SELECT next_ids(5, 2000)").unwrap();
        for work in writers() {
            work(&mut copy, &mut received).unwrap();
        }
        let mut journal = Journal::new(format!("dump under load: {name}"), Clock::Set);
        journal.add([received]);
        journal.check();
    }
}
