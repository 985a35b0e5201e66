//! After a crash every id is larger than every id before it.

use instagram_id_live::*;
use postgres::Client;
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: usize = 6;
const MINIMAL_WAL: [(&str, &str); 2] = [("wal_level", "minimal"), ("max_wal_senders", "0")];

/// The ways in which a server may end without writing its buffers.
const FAULTS: [fn(&Server, &mut fastrand::Rng); 5] =
    [kill_all, kill_postmaster, kill_one, kill_one, stop_at_once];

fn kill_all(server: &Server, _: &mut fastrand::Rng) {
    server.crash();
    server.launch();
}

fn kill_postmaster(server: &Server, _: &mut fastrand::Rng) {
    server.kill_postmaster();
    server.launch();
}

/// Kills a process of the server: mostly a backend, sometimes an auxiliary process.
fn kill_one(server: &Server, random: &mut fastrand::Rng) {
    let pids = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type IN
        ('client backend', 'checkpointer', 'walwriter', 'background writer', 'autovacuum launcher')";
    // All sessions are terminated, this one included.
    let mut client = server.connect();
    server.wait_for("a crash", || {
        let Ok(rows) = client.query(pids, &[]) else { return true };
        server.kill_backend(rows[random.usize(..rows.len())].get(0));
        let patience = Instant::now() + Duration::from_secs(1);
        while client.simple_query("").is_ok() {
            if Instant::now() > patience {
                return false; // the process was ending anyway: try another one
            }
            thread::sleep(Duration::from_millis(2));
        }
        true
    });
    // The postmaster survives and starts recovery.
    server.wait_for("a recovery", || server.try_connect().is_ok());
}

fn stop_at_once(server: &Server, _: &mut fastrand::Rng) {
    server.stop_at_once();
    server.launch();
}

/// The position of the sequence at the first fault.
#[derive(Clone, Copy)]
enum Start {
    /// At the clock. The clock may hide a loss, since it advances while the server recovers; but
    /// this start shows how far ahead of the clock a crash leaves the sequence.
    AtTheClock,
    /// An hour ahead, where the clock cannot hide a loss.
    AnHourAhead,
}

/// Runs sessions while the server fails repeatedly, at random moments and in each way in turn,
/// right after `before_fault` if that is not empty. Returns the ids.
fn fail_under_load(
    scenario: &str,
    server: &Server,
    start: Start,
    faults: usize,
    work: &[Work],
    before_fault: &str,
) -> Vec<i64> {
    one::<i64>(&mut server.connect(), "SELECT next_id(5)");
    // After a crash a sequence is a second ahead of the clock, or 50 ms ahead of its own value if
    // that is more.
    let mut ahead = 1000 + 50 * faults as i64;
    if let Start::AnHourAhead = start {
        set_an_hour_ahead(&mut server.connect(), "insta5.table_id_seq");
        ahead = 3_600_000 + 50 * (faults as i64 + 1);
    }
    let mut random = random(scenario);
    let mut journal = Journal::new(scenario, Clock::Within { behind: 0, ahead });
    let (sessions, ()) = under_load(
        || server.try_connect(),
        SESSIONS,
        work,
        || {
            for fault in FAULTS.iter().cycle().take(faults) {
                thread::sleep(Duration::from_millis(random.u64(20..600)));
                if !before_fault.is_empty() {
                    run(&mut server.connect(), before_fault);
                }
                fault(server, &mut random);
                journal.faults += 1;
            }
        },
    );
    if let Start::AtTheClock = start {
        // The lead that crashes cause does not raise a warning.
        assert!(!server.log().contains("ahead of the clock"), "{}", server.log());
    }
    let ids = sessions.iter().flat_map(|session| session.ids.clone()).collect();
    journal.add(sessions);
    let figures = journal.check();
    assert!(figures.ids > 1000 * faults, "only {} ids", figures.ids);
    ids
}

/// No id is repeated or out of order, and every row that a client received exists.
#[test]
fn crashes_under_inserts_lose_and_repeat_nothing() {
    let server = Server::start(&[]);
    setup_photos(&mut server.connect());
    // Transactions that are rolled back write WAL that no commit waits for.
    let rolled_back = "BEGIN; INSERT INTO insta5.photos SELECT next_ids(5, 1500); ROLLBACK";
    // Plain nextval on the same sequence, whose values are converted to ids.
    let plain = "INSERT INTO insta5.photos SELECT (value >> 10 << 23) | (5 << 10) | (value & 1023)
        FROM nextval('insta5.table_id_seq') AS value RETURNING id";
    let work: Vec<Work> =
        inserts().into_iter().chain([unrecorded(rolled_back), query(plain)]).collect();
    let faults = length(5, 300);
    let acknowledged =
        fail_under_load("failures under inserts", &server, Start::AnHourAhead, faults, &work, "");
    check_no_row_is_lost(&mut server.connect(), &acknowledged);
}

/// Only calls: most transactions write no WAL themselves, and use values that another transaction
/// has logged.
#[test]
fn crashes_under_calls_repeat_no_ids() {
    let server = Server::start(&[]);
    setup(&mut server.connect());
    fail_under_load(
        "failures under calls",
        &server,
        Start::AtTheClock,
        length(5, 200),
        &calls(),
        "",
    );
}

/// Each crash comes right after a checkpoint, so that recovery does not replay the last record of
/// the sequence; without full_page_writes and with minimal WAL.
#[test]
fn crashes_after_checkpoints_repeat_no_ids() {
    let settings = [("full_page_writes", "off"), ("checkpoint_timeout", "30s")];
    let server = Server::start(&[settings, MINIMAL_WAL].concat());
    setup_photos(&mut server.connect());
    fail_under_load(
        "failures right after checkpoints",
        &server,
        Start::AnHourAhead,
        length(5, 100),
        &everything(),
        "CHECKPOINT",
    );
}

/// Kills the server repeatedly during recovery: at random moments of its start, and right after the
/// start of redo. Ahead of the clock, so that the clock cannot hide a loss.
#[test]
fn crashes_during_recovery_repeat_no_ids() {
    let server = Server::start(&[]);
    setup_photos(&mut server.connect());
    one::<i64>(&mut server.connect(), "SELECT next_id(5)");
    set_an_hour_ahead(&mut server.connect(), "insta5.table_id_seq");
    let scenario = "killed while it recovers";
    let mut random = random(scenario);
    let mut journal = Journal::new(scenario, Clock::Set);
    run(&mut server.connect(), "CREATE TABLE filler ()");
    let load = || {
        let a_while = || thread::sleep(Duration::from_millis(300));
        let received = under_load(|| server.try_connect(), SESSIONS, &inserts(), a_while).0;
        // A busy machine generates few ids, whose recovery is over before a crash can come in it.
        let filling = "INSERT INTO filler SELECT FROM generate_series(1, 200000)";
        run(&mut server.connect(), &format!("TRUNCATE filler; {filling}"));
        received
    };
    let mut start_takes = Duration::from_millis(300);
    // Matches "redo starts", "redo done" and "redo is not required". A crash right after the
    // checkpoint at the end of a recovery leaves a server whose control file says that it was
    // stopped normally, so it does not begin one.
    let redo = || {
        let log = server.log();
        log.matches("LOG:  redo ").count()
            + log.matches("LOG:  database system was shut down at").count()
    };
    let in_recovery = || server.log().matches("interrupted while in recovery").count();
    for _ in 0..length(2, 60) {
        // At least one crash of each round must come during recovery. A completed recovery leaves
        // no work for the next one, so each attempt runs the load again.
        let mut attempts = 0;
        let so_far = in_recovery();
        while in_recovery() == so_far {
            attempts += 1;
            assert!(attempts <= 30, "no crash came in recovery");
            journal.add(load());
            server.crash();
            journal.faults += 1;
            for _ in 0..4 {
                let before = redo();
                server.launch_without_waiting();
                if random.bool() {
                    server.wait_for("redo", || redo() > before);
                    thread::sleep(Duration::from_millis(random.u64(..30)));
                } else {
                    thread::sleep(start_takes.mul_f64(random.f64()));
                }
                server.crash();
                journal.faults += 1;
            }
            let started = Instant::now();
            server.launch();
            start_takes = started.elapsed();
        }
    }
    journal.add(load());
    journal.check();
    println!("    {} of them in recovery", in_recovery());
}

/// Records what a client receives that reconnects after each crash.
struct Record<'a> {
    server: &'a Server,
    journal: Journal,
    received: Received,
}

impl Record<'_> {
    fn new(scenario: impl Into<String>, server: &Server) -> Record<'_> {
        Record {
            server,
            journal: Journal::new(scenario, Clock::Set),
            received: Received::default(),
        }
    }

    fn receive(&mut self, client: &mut Client, statement: &str) {
        self.received
            .run(client, statement)
            .unwrap_or_else(|error| panic!("{statement}: {}", why(&error)));
    }

    /// Kills the server and starts it again.
    fn crash(&mut self) {
        self.server.crash();
        self.server.launch();
        self.journal.faults += 1;
    }

    #[track_caller]
    fn check(mut self) {
        self.journal.add([self.received]);
        self.journal.check();
    }
}

/// A crash right after the creation of the shard, and one after its first use. Ahead of the clock,
/// so that the clock cannot hide a loss.
#[test]
fn ids_of_a_new_shard_survive() {
    let server = Server::start(&[]);
    run(&mut server.connect(), "CREATE EXTENSION instagram_id");
    for (make, sequence) in
        [("SELECT create_shard(5)", "insta5.table_id_seq"), ("CREATE SEQUENCE s START 77", "s")]
    {
        let call = format!("SELECT next_id(5, '{sequence}')");
        let mut record = Record::new(format!("crashes right after {make}"), &server);
        run(&mut server.connect(), make);
        record.crash();
        record.receive(&mut server.connect(), &call);
        record.crash();
        for _ in 0..2 {
            let mut client = server.connect();
            set_an_hour_ahead(&mut client, sequence);
            record.receive(&mut client, &call);
            record.crash();
        }
        record.receive(&mut server.connect(), &call);
        record.check();
    }
}

/// With wal_level minimal a sequence that is created in the same transaction is not logged but
/// synced at commit. Ahead of the clock, so that the clock cannot hide a loss.
#[test]
fn shard_used_in_its_creating_transaction_survives_with_minimal_wal() {
    let server = Server::start(&MINIMAL_WAL);
    let mut client = server.connect();
    run(&mut client, "CREATE EXTENSION instagram_id");
    let mut record = Record::new("made and used in one transaction, minimal WAL", &server);
    record.journal.shard = 6;
    let ids = "SELECT next_id(6, 'fresh') FROM generate_series(1, 3000)";
    run(&mut client, "BEGIN; CREATE SEQUENCE fresh");
    record.receive(&mut client, "SELECT next_id(6, 'fresh')");
    set_an_hour_ahead(&mut client, "fresh");
    record.receive(&mut client, ids);
    run(&mut client, "COMMIT");
    record.receive(&mut client, ids);
    run(&mut client, "CREATE TABLE kept AS SELECT 1 AS n");
    record.crash();
    record.receive(&mut server.connect(), "SELECT next_id(6, 'fresh')");
    record.check();
}

/// Here the state that a crash could lose is ahead of the clock, so the clock cannot hide a loss:
/// before each crash the sequence is set another hour ahead. A crash advances it by at most the 50
/// ms that WAL is written ahead, and to the next millisecond.
#[test]
fn sequence_ahead_of_the_clock_survives() {
    let server = Server::start(&[]);
    setup(&mut server.connect());
    let mut record = Record::new("crashes ahead of the clock", &server);
    record.receive(&mut server.connect(), "SELECT next_id(5)");
    for _ in 0..length(1, 3) {
        let mut client = server.connect();
        set_an_hour_ahead(&mut client, "insta5.table_id_seq");
        record.receive(&mut client, "SELECT next_ids(5, 20000)");
        record.crash();
        record.receive(&mut server.connect(), "SELECT next_id(5)");
        let [.., largest, next] = record.received.ids[..] else { unreachable!() };
        let cost = ms_of(next) - ms_of(largest);
        assert!(cost <= 51, "the crash took the sequence {cost} ms further");
    }
    record.check();
}

/// Same with checkpoints: before the first ids, so that their change of the page must be written by
/// the next checkpoint; and before the last ids, so that these need a new record.
#[test]
fn sequence_ahead_of_the_clock_survives_checkpoints() {
    for (wal, settings) in [("", &[][..]), (", minimal WAL", &MINIMAL_WAL[..])] {
        let server = Server::start(settings);
        setup(&mut server.connect());
        let mut record = Record::new(format!("crashes beside checkpoints{wal}"), &server);
        record.receive(&mut server.connect(), "SELECT next_id(5)");
        for ids_after_checkpoint in [false, true] {
            let mut client = server.connect();
            set_an_hour_ahead(&mut client, "insta5.table_id_seq");
            run(&mut client, "CHECKPOINT");
            record.receive(&mut client, "SELECT next_ids(5, 1000)");
            run(&mut client, "CHECKPOINT");
            if ids_after_checkpoint {
                record.receive(&mut client, "SELECT next_ids(5, 1000)");
            }
            record.crash();
            record.receive(&mut server.connect(), "SELECT next_id(5)");
        }
        record.check();
    }
}

/// Generates ids exactly up to the last one that a record covers, according to log_cnt.
#[test]
fn ids_up_to_the_end_of_a_wal_record_survive() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    setup(&mut client);
    let mut record = Record::new("a crash at the end of a record", &server);
    record.receive(&mut client, "SELECT next_id(5)");
    set_an_hour_ahead(&mut client, "insta5.table_id_seq");
    let log_cnt = "SELECT log_cnt::int FROM insta5.table_id_seq";
    // One call for many ids writes the record.
    record.receive(&mut client, "SELECT next_ids(5, 3000)");
    record.receive(&mut client, &format!("SELECT next_ids(5, ({log_cnt}))"));
    assert_eq!(one::<i32>(&mut client, log_cnt), 0, "the record is used up");
    record.crash();
    record.receive(&mut server.connect(), "SELECT next_id(5)");
    record.check();
}

/// Ids of transactions that only read them, change `synchronous_commit` or end in an unusual way,
/// and whose commit waits for the flush, are below those after a crash. A WAL record of another
/// transaction, which has not committed, covers their values: one of another session, or one of the
/// same session, which is rolled back. In the second case the session has already used the record,
/// in a transaction with `synchronous_commit = off`. Ahead of the clock, so that the clock cannot
/// hide a loss, and without other processes that flush WAL.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of transactions")]
fn ids_of_unusual_transactions_survive_a_crash() {
    let off = "SET LOCAL synchronous_commit = off";
    let on = "SET LOCAL synchronous_commit = on";
    let keep = "PERFORM set_config('x.id', next_id(5)::text, false)";
    let kept = "SELECT current_setting('x.id')::bigint";
    // It writes a record of its own.
    let roll_back = "BEGIN; SELECT count(next_id(5)) FROM generate_series(1, 60000); ROLLBACK";
    let ways: Vec<String> = vec![
        format!("BEGIN; {off}; SAVEPOINT s; SELECT next_id(5); ROLLBACK TO s; {on}; COMMIT"),
        format!("BEGIN; SAVEPOINT s; {off}; SELECT next_id(5); ROLLBACK TO s; COMMIT"),
        format!("BEGIN; SAVEPOINT s; {off}; SELECT next_id(5); RELEASE s; {on}; COMMIT"),
        format!("BEGIN; {off}; DECLARE c CURSOR WITH HOLD FOR SELECT next_id(5); {on}; COMMIT; FETCH c"),
        format!("BEGIN; DECLARE c CURSOR FOR SELECT next_id(5); {off}; FETCH c; CLOSE c; {on}; COMMIT"),
        format!("BEGIN; {off}; SELECT next_id(5); {on}; PREPARE TRANSACTION 'p'"),
        format!("BEGIN; {off}; SELECT next_id(5); PREPARE TRANSACTION 'p'"),
        format!("BEGIN; {off}; SELECT next_id(6); SELECT next_id(5); {on}; SELECT next_id(6); COMMIT"),
        format!("BEGIN; {off}; SELECT next_id(5); {on}; SELECT next_id(6); COMMIT"),
        format!("BEGIN; {off}; SELECT next_id(5); SELECT next_id(6); {on}; COMMIT"),
        format!("BEGIN; {off}; SELECT next_id(5); {on}; COMMIT AND CHAIN; ROLLBACK"),
        format!("BEGIN READ ONLY; SET TRANSACTION READ WRITE; {off}; SELECT next_id(5); SET TRANSACTION READ ONLY; {on}; COMMIT"),
        format!("BEGIN; {off}; SELECT next_id(5); {on}; SET TRANSACTION READ ONLY; COMMIT"),
        format!("DO $$ BEGIN {off}; {keep}; {on}; COMMIT; {off}; END $$ || {kept}"),
        format!("DO $$ BEGIN {off}; {keep}; COMMIT; END $$ || SELECT next_id(5)"),
        format!("DO $$ BEGIN {off}; BEGIN {keep}; PERFORM 1/0; EXCEPTION WHEN division_by_zero THEN END; {keep}; {on}; END $$ || {kept}"),
        "INSERT INTO late VALUES (1) || SELECT current_setting('x.id')::bigint".into(),
        "SET synchronous_commit = off || SELECT next_id(5) || RESET synchronous_commit || SELECT next_id(5)".into(),
        "SET synchronous_commit = off; BEGIN; SELECT next_id(5); RESET synchronous_commit; COMMIT".into(),
        "SET synchronous_commit = off || DO $$ BEGIN PERFORM next_id(5); END $$ || RESET synchronous_commit || SELECT next_id(5)".into(),
        "SELECT next_id(5)".into(),
        "SELECT hasty()".into(),
        format!("BEGIN; {off}; SELECT next_id(5); {on}; COMMIT"),
        format!("{roll_back} || SELECT next_id(5)"),
        format!("{roll_back} || SELECT hasty()"),
        format!("{roll_back} || BEGIN; {off}; SELECT next_id(5); {on}; COMMIT"),
        format!("{roll_back} || SET synchronous_commit = off || SELECT next_id(5) || RESET synchronous_commit || SELECT next_id(5)"),
        "SELECT ids FROM next_ids(5, 10) AS ids".into(),
    ];
    let server = Server::start(&[
        ("wal_writer_delay", "10s"),
        ("autovacuum", "off"),
        ("max_prepared_transactions", "5"),
    ]);
    setup(&mut server.connect());
    run(&mut server.connect(), "SELECT create_shard(6); SELECT next_id(5), next_id(6);
             CREATE FUNCTION hasty() RETURNS bigint LANGUAGE plpgsql SET synchronous_commit = off AS 'BEGIN RETURN next_id(5); END';
             CREATE TABLE late (x int);
             CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql SET synchronous_commit = off AS
                 $$ BEGIN PERFORM set_config('x.id', hasty()::text, false); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()");
    let mut lost = vec![];
    for way in &ways {
        // A statement that is rolled back writes a record of its own, which comes after an earlier
        // use.
        let is_second: &[bool] = if way.starts_with(roll_back) { &[false] } else { &[false, true] };
        for &is_second in is_second {
            let (mut a, mut b) = (server.connect(), server.connect());
            set_an_hour_ahead(&mut a, "insta5.table_id_seq");
            one::<i64>(&mut b, "SELECT next_id(5)");
            // The record of another shard, which precedes that of this one and is not flushed
            // either.
            run(
                &mut b,
                "SET synchronous_commit = off; SELECT next_id(6); RESET synchronous_commit",
            );
            let end_of_wal = "SELECT pg_current_wal_insert_lsn()::text";
            let before: String = one(&mut b, end_of_wal);
            run(&mut a, "BEGIN; SELECT count(next_id(5)) FROM generate_series(1, 60000)");
            assert_ne!(one::<String>(&mut b, end_of_wal), before, "a record");
            if is_second {
                run(
                    &mut b,
                    "SET synchronous_commit = off; SELECT next_id(5); RESET synchronous_commit",
                );
            }
            let mut ids: Vec<i64> = vec![];
            let run = |statement: &str| {
                b.simple_query(statement).unwrap_or_else(|error| panic!("{way}: {error:?}"))
            };
            for message in way.split(" || ").flat_map(run) {
                if let postgres::SimpleQueryMessage::Row(row) = message {
                    ids.extend(
                        row.get(0)
                            .and_then(|text| text.parse::<i64>().ok())
                            .filter(|id| id >> 10 & 8191 == 5),
                    );
                }
            }
            assert!(!ids.is_empty(), "{way}");
            server.crash();
            server.launch();
            let next: i64 = one(&mut server.connect(), "SELECT next_id(5)");
            if ids.iter().any(|id| *id >= next) {
                lost.push(format!("{way} ({is_second}): {ids:?}, then {next}"));
            }
            // Only one of the ways has prepared a transaction.
            if let Err(error) = server.connect().simple_query("ROLLBACK PREPARED 'p'") {
                assert_eq!(error.code().map(|code| code.code()), Some("42704"), "{}", why(&error));
            }
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

/// A shard that was advanced stays ahead after a crash, also if the crash rolls back the
/// transaction that advanced it and another transaction has only read the position.
#[test]
fn advance_shard_survives() {
    for (scenario, is_told) in
        [("a crash after an advance", false), ("a crash after an advance told", true)]
    {
        let server = Server::start(&[("wal_writer_delay", "10s"), ("autovacuum", "off")]);
        let (mut a, mut b) = (server.connect(), server.connect());
        setup(&mut a);
        let mut record = Record::new(scenario, &server);
        record.receive(&mut a, "SELECT next_id(5)");
        record.receive(&mut b, "SELECT next_id(5)");
        run(&mut a, "SET client_min_messages = error; CHECKPOINT");
        run(&mut b, "SET client_min_messages = error");
        let an_hour_ahead = "SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0))";
        if is_told {
            run(&mut a, "BEGIN");
            let ahead: i64 = one(&mut a, an_hour_ahead);
            record.receive(&mut b, "SELECT advance_shard(5, make_id(now(), 5, 0))");
            assert_eq!(record.received.ids.last(), Some(&ahead));
        } else {
            record.receive(&mut a, an_hour_ahead);
        }
        record.crash();
        record.receive(&mut server.connect(), "SELECT next_id(5)");
        record.check();
    }
}

/// Same between two checkpoints, of which the second must write the page.
#[test]
fn advance_shard_survives_checkpoints() {
    let server = Server::start(&[("autovacuum", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    let mut record = Record::new("a crash after an advance between checkpoints", &server);
    record.receive(&mut client, "SELECT next_id(5)");
    run(&mut client, "SET client_min_messages = error; CHECKPOINT");
    record
        .receive(&mut client, "SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0))");
    run(&mut client, "CHECKPOINT");
    record.crash();
    record.receive(&mut server.connect(), "SELECT next_id(5)");
    record.check();
}

/// Same for a shard without ids: its first record must mark the sequence as used, otherwise it
/// would follow the clock again.
#[test]
fn advance_shard_of_a_new_shard_survives() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    setup(&mut client);
    let mut record = Record::new("a crash after an advance of a new shard", &server);
    record
        .receive(&mut client, "SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0))");
    record.crash();
    record.receive(&mut server.connect(), "SELECT next_id(5)");
    record.check();
}

/// One WAL record for a second of ids, however many these are; `nextval` writes one for every 32
/// values. Only records of sequences are counted: the server writes other records at any time.
#[test]
fn one_wal_record_covers_a_second_of_ids() {
    let server = Server::start(&[("autovacuum", "off"), ("checkpoint_timeout", "1h")]);
    let mut client = server.connect();
    setup(&mut client);
    let position =
        |client: &mut Client| one::<String>(client, "SELECT pg_current_wal_insert_lsn()::text");
    let start = position(&mut client);
    let ids = "SELECT min(id), max(id) FROM (SELECT next_id(5) AS id FROM generate_series(1, 1200000)) AS ids";
    let ids = client.query_one(ids, &[]).unwrap();
    let end = position(&mut client);
    run(&mut client, "CHECKPOINT"); // so that all of it is written to the file
    let range = ["--path=data/pg_wal", "--rmgr=Sequence", "--start", &start, "--end", &end];
    let records = server.run("pg_waldump", &range).matches("desc: LOG").count() as i64;
    let seconds = (ms_of(ids.get(1)) - ms_of(ids.get(0))) / 1000;
    println!("{records} WAL records for 1,200,000 ids in {seconds} s");
    assert!((1..=seconds + 2).contains(&records), "{records} WAL records for {seconds} s");
}

/// A database created from a template has a copy of the sequence with the original's log_cnt but
/// without a WAL record of its own. Ahead of the clock, so that the clock cannot hide a loss.
#[test]
fn sequence_copied_from_a_template_survives() {
    for strategy in ["wal_log", "file_copy"] {
        let server = Server::start(&[]);
        run(&mut server.connect(), "CREATE DATABASE original");
        let mut client = server.connect_to("original");
        setup(&mut client);
        let mut record = Record::new(format!("crashes of a copy made by {strategy}"), &server);
        record.receive(&mut client, "SELECT next_id(5)");
        set_an_hour_ahead(&mut client, "insta5.table_id_seq");
        record.receive(&mut client, "SELECT next_ids(5, 5000)");
        drop(client);
        server.copy_database("original", strategy);
        for _ in 0..2 {
            let mut client = server.connect_to("copy");
            record.receive(&mut client, "SELECT next_ids(5, 5000)");
            // The commit of another command flushes WAL, as on any busy server.
            run(&mut client, "CREATE TABLE IF NOT EXISTS other (); DROP TABLE other");
            record.crash();
        }
        record.receive(&mut server.connect_to("copy"), "SELECT next_id(5)");
        record.check();
    }
}

/// Same for an unlogged sequence that is set to LOGGED, which copies its page with log_cnt. Plain
/// nextval relies on that log_cnt.
#[test]
fn sequence_set_logged_survives() {
    let next_id = "SELECT next_id(5, 's') FROM generate_series(1, COUNT)";
    // Converts the values to ids.
    let nextval = "SELECT (value >> 10 << 23) | (5 << 10) | (value & 1023)
        FROM (SELECT nextval('s') AS value FROM generate_series(1, COUNT)) AS many";
    for (name, calls) in [("next_id", next_id), ("nextval", nextval)] {
        let server = Server::start(&[]);
        let mut client = server.connect();
        run(&mut client, "CREATE EXTENSION instagram_id; CREATE UNLOGGED SEQUENCE s");
        let mut record = Record::new(format!("a crash of a sequence made logged, {name}"), &server);
        record.receive(&mut client, "SELECT next_id(5, 's')");
        set_an_hour_ahead(&mut client, "s");
        record.receive(&mut client, "SELECT next_id(5, 's')");
        run(&mut client, "ALTER SEQUENCE s SET LOGGED");
        record.receive(&mut client, &calls.replace("COUNT", "5000"));
        record.crash();
        record.receive(&mut server.connect(), &calls.replace("COUNT", "1"));
        record.check();
    }
}

/// A damaged page is refused, is not overwritten, and causes no read outside of the page: by
/// `next_id`, and by the view, which shows no last id.
#[test]
fn damaged_page_is_refused() {
    // The page begins with a header of 24 bytes, with the offset of the special area at 16,
    // followed by a line pointer of 4 bytes: 15 bits of offset, 2 of flags, 15 of length.
    let line_pointer = |offset: u32, len: u32| (offset | 1 << 15 | len << 17).to_le_bytes();
    let damages: [(&str, usize, &[u8]); 6] = [
        ("no magic number", 8192 - 8, &[0; 4]),
        ("no special area", 16, &8192_u16.to_le_bytes()),
        ("a tuple past the end", 24, &line_pointer(32_760, 41)),
        ("a tuple of no length", 24, &line_pointer(8136, 0)),
        ("a tuple that is too long", 24, &line_pointer(8136, 32_767)),
        ("an odd place", 24, &line_pointer(8137, 41)),
    ];
    let server = Server::start(&[("ignore_checksum_failure", "on")]);
    let mut client = server.connect();
    setup(&mut client);
    one::<i64>(&mut client, "SELECT next_id(5)");
    let file: String = one(&mut client, "SELECT pg_relation_filepath('insta5.table_id_seq')");
    run(&mut client, "CHECKPOINT");
    server.crash();
    let path = server.path().join("data").join(file);
    let sound = std::fs::read(&path).unwrap();
    for (damage, at, bytes) in damages {
        let mut page = sound.clone();
        page[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&path, page).unwrap();
        server.launch();
        let mut client = server.connect();
        assert!(one::<bool>(&mut client, "SELECT last_id IS NULL FROM id_shards"), "{damage}");
        let (state, message, hint) = error_of(&mut client, "SELECT next_id(5)");
        assert_eq!(
            (state.as_str(), message.as_str(), hint.as_str()),
            (
                "XX001",
                "bad magic number in sequence insta5.table_id_seq",
                "Restore the sequence from a backup, or drop it and create it again."
            ),
            "{damage}"
        );
        server.crash();
    }
}
