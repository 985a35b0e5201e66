//! The wait at a millisecond's end: it holds no lock, costs at most a tick, and lets a cancel through.

use instagram_id_live::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(1);
/// generate_series in the target list streams; in FROM its rows would all be made first.
const FOREVER: &str = "SELECT count(next_id(5)) FROM (SELECT generate_series(1, 1000000000)) AS many";

fn server() -> Server {
    let server = Server::start(&[("fsync", "off")]);
    setup(&mut server.connect());
    server
}

/// Another session reads the sequence's page while one makes ids in batches at the limit, so spends nearly all
/// of its time waiting. With the page locked in the wait a read would take the rest of a tick, half of one as a rule: a
/// read that comes at any moment, not one that follows upon the last, which would mostly fall into the moment after a
/// wait. Reads of another sequence, in turns with these, say what one takes on this machine as it is.
#[test]
fn a_waiting_session_keeps_the_page_from_nobody() {
    let server = server();
    server.connect().batch_execute("CREATE SEQUENCE idle").unwrap();
    let stop = AtomicBool::new(false);
    let [busy, idle] = thread::scope(|scope| {
        let maker = scope.spawn(|| {
            let mut client = server.connect();
            while !stop.load(Ordering::Relaxed) {
                one::<i64>(&mut client, "SELECT count(*) FROM (SELECT next_ids(5, 100000)) AS batch");
            }
        });
        thread::sleep(Duration::from_millis(50));
        let mut client = server.connect();
        let reads = ["insta5.table_id_seq", "idle"]
            .map(|name| client.prepare(&format!("SELECT last_value FROM {name}")).unwrap());
        let mut times = [vec![], vec![]];
        for n in 0..500 {
            for (read, times) in reads.iter().zip(&mut times) {
                thread::sleep(Duration::from_micros(500 + n * 379 % 1000));
                let started = Instant::now();
                client.query_one(read, &[]).unwrap();
                times.push(started.elapsed());
            }
        }
        stop.store(true, Ordering::Relaxed);
        maker.join().unwrap();
        times.map(median)
    });
    println!(
        "median of 500 reads of the page beside a session at the limit: {busy:?}, of another page {idle:?}"
    );
    assert!(busy < idle + TICK / 4, "a read takes {busy:?}, of another page {idle:?}");
}

/// Each call here finds its millisecond used up, and the sequence an hour ahead of the clock. How long a tick takes on a
/// machine with other work to do a sleep of one says, in turns with the calls.
#[test]
fn a_crossing_costs_at_most_a_tick() {
    let server = server();
    let mut client = server.connect();
    one::<i64>(&mut client, "SELECT next_id(5)");
    set_an_hour_ahead(&mut client, "insta5.table_id_seq");
    let use_up = client
        .prepare("SELECT setval('insta5.table_id_seq', last_value | 1023) FROM insta5.table_id_seq")
        .unwrap();
    let next = client.prepare("SELECT next_id(5)").unwrap();
    let nothing = client.prepare("SELECT 1").unwrap();
    let mut last = 0;
    let mut crossings = vec![];
    let mut ticks = vec![];
    for _ in 0..1000 {
        let used_up: i64 = client.query_one(&use_up, &[]).unwrap().get(0);
        let started = Instant::now();
        let id: i64 = client.query_one(&next, &[]).unwrap().get(0);
        crossings.push(started.elapsed());
        assert!(id > last);
        assert_eq!(ms_of(id), (used_up >> 10) + 1, "one millisecond further");
        last = id;
        let started = Instant::now();
        client.query_one(&nothing, &[]).unwrap();
        thread::sleep(TICK);
        ticks.push(started.elapsed());
    }
    let longest = *crossings.iter().max().unwrap();
    let (crossing, tick) = (median(crossings), median(ticks));
    println!(
        "1,000 crossings, an hour ahead of the clock: median {crossing:?}, longest {longest:?}; a sleep of a tick {tick:?}"
    );
    assert!(crossing < tick, "a crossing takes {crossing:?}, a sleep of a tick {tick:?}");
}

/// One expression whose every second part waits a tick, and between whose parts PostgreSQL itself looks for no
/// interrupt: a timeout comes through all the same.
#[test]
fn each_wait_lets_a_timeout_through() {
    let server = server();
    let mut client = server.connect();
    one::<i64>(&mut client, "SELECT next_id(5)");
    let ahead: i64 =
        one(&mut client, "SELECT (last_value | 1023) + 3600000 * 1024::bigint FROM insta5.table_id_seq");
    let parts: Vec<String> = (0..5000)
        .map(|n| format!("setval('insta5.table_id_seq', {}), next_id(5)", ahead + n * 1024))
        .collect();
    let query = format!("SELECT ARRAY[{}]", parts.join(", "));
    client.batch_execute("SET statement_timeout = '300ms'").unwrap();
    let started = Instant::now();
    assert_eq!(error_of(&mut client, &query).0, "57014");
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(3), "cancelled after {elapsed:?}");
}

/// Ids within a millisecond that is open cost no wait, however far ahead of the clock it lies.
#[test]
fn an_open_millisecond_costs_no_wait() {
    let server = server();
    let mut client = server.connect();
    one::<i64>(&mut client, "SELECT next_id(5)");
    client
        .batch_execute("SELECT setval('insta5.table_id_seq', (last_value | 1023) + 3600000 * 1024::bigint + 1) FROM insta5.table_id_seq")
        .unwrap();
    let statements = ["SELECT next_id(5)", "SELECT 1"].map(|query| client.prepare(query).unwrap());
    let mut times = [vec![], vec![]];
    for _ in 0..1000 {
        for (statement, times) in statements.iter().zip(&mut times) {
            let started = Instant::now();
            client.query_one(statement, &[]).unwrap();
            times.push(started.elapsed());
        }
    }
    let [id, nothing] = times.map(median);
    println!("1,000 ids within one millisecond: median {id:?}; of SELECT 1 {nothing:?}");
    assert!(id < nothing + TICK / 4, "{id:?}, SELECT 1 {nothing:?}");
}

fn waits_in_pg_stat_activity(server: &Server, pid: i32) -> bool {
    let mut client = server.connect();
    let query = format!("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = {pid}");
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if one::<Option<bool>>(&mut client, &query) == Some(true) {
            return true;
        }
    }
    false
}

/// Starts a session that makes ids at the limit, has `end_it` end it, and returns the SQLSTATE it got.
fn end_while_waiting(server: &Server, settings: &str, end_it: &str) -> String {
    let mut client = server.connect();
    client.batch_execute(settings).unwrap();
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    thread::scope(|scope| {
        let maker = scope.spawn(move || {
            let error = client.batch_execute(FOREVER).unwrap_err();
            // Where the server's last words and its hanging up arrive together the client reports but the latter;
            // the log has the words.
            let state = if error.is_closed() { "57P01" } else { error.code().map_or("", |code| code.code()) };
            (state.to_owned(), client)
        });
        assert!(waits_in_pg_stat_activity(server, pid), "the wait shows in pg_stat_activity");
        let mut other = server.connect();
        if !end_it.is_empty() {
            assert!(one::<bool>(&mut other, &end_it.replace("PID", &pid.to_string())));
        }
        let (state, mut client) = maker.join().unwrap();
        let locks = format!("SELECT count(*) FROM pg_locks WHERE pid = {pid}");
        let deadline = Instant::now() + Duration::from_secs(10);
        while one::<i64>(&mut other, &locks) != 0 {
            assert!(Instant::now() < deadline, "locks are left behind");
        }
        if state != "57P01" {
            one::<i64>(&mut client, "SELECT next_id(5)"); // the session works on
        }
        one::<i64>(&mut other, "SELECT next_id(5)");
        // Nobody keeps the sequence pinned or locked: it can be dropped and made again.
        other
            .batch_execute("SET lock_timeout = '5s'; DROP SCHEMA insta5 CASCADE; SELECT create_shard(5)")
            .unwrap();
        state
    })
}

#[test]
fn a_wait_ends_on_timeout_cancel_and_termination() {
    let server = server();
    assert_eq!(end_while_waiting(&server, "SET statement_timeout = '2s'", ""), "57014");
    assert_eq!(end_while_waiting(&server, "", "SELECT pg_cancel_backend(PID)"), "57014");
    assert_eq!(end_while_waiting(&server, "", "SELECT pg_terminate_backend(PID)"), "57P01");
    let log = server.log();
    assert_eq!(log.matches("terminating connection due to administrator command").count(), 1, "{log}");
    assert!(!log.contains("WARNING") && !log.contains("PANIC") && !log.contains("signal"), "{log}");
}
