//! The wait at the end of a millisecond: it sleeps until the next millisecond, holds no lock, and
//! can be cancelled.

use instagram_id_live::*;
use postgres::Client;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// generate_series in the target list returns its rows one by one; in FROM they would all be
/// materialized first.
const FOREVER: &str =
    "SELECT count(next_id(5)) FROM (SELECT generate_series(1, 1000000000)) AS many";

fn server() -> Server {
    let server = Server::start(&[("fsync", "off")]);
    setup(&mut server.connect());
    server
}

/// A session is stopped while it waits, until another one has read the page and generated ids.
#[test]
fn waiting_session_holds_no_lock_on_the_page() {
    let server = server();
    let mut client = server.connect();
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let mut observer = server.connect();
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(error_of(&mut client, FOREVER).0, "57014"));
        server.wait_for("a session that is frozen in its wait", || {
            server.freeze(pid);
            let waits = is_waiting(&mut observer, pid);
            if !waits {
                server.thaw(pid);
            }
            waits
        });
        let (done, is_done) = mpsc::channel();
        // A wait for a page lock cannot be cancelled, so the other session has its own thread.
        let server = &server;
        let other = scope.spawn(move || {
            let mut client = server.connect();
            one::<i64>(&mut client, "SELECT last_value FROM insta5.table_id_seq");
            let ids = column(&mut client, "SELECT next_ids(5, 5000)");
            done.send(()).unwrap();
            ids
        });
        let outcome = is_done.recv_timeout(Duration::from_secs(30));
        server.thaw(pid);
        one::<bool>(&mut observer, &format!("SELECT pg_cancel_backend({pid})"));
        assert_eq!(other.join().unwrap().len(), 5000);
        outcome.expect("the page can be read and written beside a session that waits");
    });
}

/// Each call finds its millisecond used up, and the sequence an hour ahead of the clock. It gets
/// the next millisecond, for which it sleeps, and no longer than a millisecond: as long as
/// `pg_sleep(0.001)`, alternating with the calls, takes on this machine. Ids within an open
/// millisecond need no wait, however far it is ahead of the clock.
#[test]
fn used_up_millisecond_costs_a_sleep_of_one_tick() {
    let server = server();
    let mut client = server.connect();
    one::<i64>(&mut client, "SELECT next_id(5)");
    set_an_hour_ahead(&mut client, "insta5.table_id_seq");
    run(&mut client, "CREATE FUNCTION crossings(count int)
             RETURNS TABLE (used_up bigint, id bigint, crossing float8, tick float8) LANGUAGE plpgsql AS $$
             DECLARE times timestamptz[];
             BEGIN
                 FOR n IN 1..count LOOP
                     SELECT setval('insta5.table_id_seq', last_value | 1023) INTO used_up FROM insta5.table_id_seq;
                     times[1] := clock_timestamp();
                     id := next_id(5);
                     times[2] := clock_timestamp();
                     PERFORM pg_sleep(0.001);
                     times[3] := clock_timestamp();
                     crossing := extract(epoch FROM times[2] - times[1]);
                     tick := extract(epoch FROM times[3] - times[2]);
                     RETURN NEXT;
                 END LOOP;
             END $$");
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let before = sleeps_of(pid);
    let rows = client.query("SELECT * FROM crossings(500)", &[]).unwrap();
    let sleeps = sleeps_of(pid) - before;
    for row in &rows {
        let [used_up, id] = [0, 1].map(|n| row.get::<_, i64>(n));
        assert_eq!(ms_of(id), (used_up >> 10) + 1, "one millisecond further");
    }
    let [crossing, tick] = [2, 3].map(|n| middle(rows.iter().map(|row| row.get(n))));
    println!("500 calls: median {crossing} s, of a tick {tick} s; {sleeps} sleeps");
    // If the session does not run for a millisecond in between, it has nothing to sleep for.
    assert!(sleeps > 750, "{sleeps} sleeps in 500 calls and 500 ticks");
    assert!(crossing < 2.0 * tick, "a call takes {crossing} s, a tick {tick} s");

    let open =
        "SELECT setval('insta5.table_id_seq', (last_value | 1023) + 2) FROM insta5.table_id_seq";
    run(&mut client, open);
    let before = sleeps_of(pid);
    let ids = column(&mut client, "SELECT next_id(5) FROM generate_series(1, 1000)");
    let sleeps = sleeps_of(pid) - before;
    assert_eq!(ms_of(ids[0]), ms_of(ids[999]));
    assert!(sleeps < 100, "{sleeps} sleeps");
}

/// In one expression every second part waits for a millisecond, and PostgreSQL itself does not
/// check for interrupts between the parts: a cancel ends it before its last part, which would be 20
/// seconds later.
#[test]
fn every_wait_can_be_cancelled() {
    let server = server();
    let mut client = server.connect();
    one::<i64>(&mut client, "SELECT next_id(5)");
    let ahead: i64 = one(
        &mut client,
        "SELECT (last_value | 1023) + 3600000 * 1024::bigint FROM insta5.table_id_seq",
    );
    let set_to = |part: i64| ahead + part * 1024;
    let parts: Vec<String> = (0..20_000)
        .map(|part| format!("setval('insta5.table_id_seq', {}), next_id(5)", set_to(part)))
        .collect();
    let query = format!("SELECT ARRAY[{}]", parts.join(", "));
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let mut other = server.connect();
    let reached =
        |client: &mut Client| one::<i64>(client, "SELECT last_value FROM insta5.table_id_seq");
    thread::scope(|scope| {
        let error = scope.spawn(|| error_of(&mut client, &query));
        server.wait_for("the first part", || reached(&mut other) >= set_to(0));
        assert!(one::<bool>(&mut other, &format!("SELECT pg_cancel_backend({pid})")));
        assert_eq!(error.join().unwrap().0, "57014");
    });
    assert!(reached(&mut other) < set_to(19_000), "it went on to the end");
}

/// Whether a session waits for the clock, under the name of this wait.
fn is_waiting(client: &mut Client, pid: i32) -> bool {
    let name = if major() >= 17 { "InstagramIdClockTick" } else { "Extension" };
    let query = format!(
        "SELECT (wait_event_type, wait_event) = ('Extension', '{name}') FROM pg_stat_activity WHERE pid = {pid}"
    );
    one::<Option<bool>>(client, &query) == Some(true)
}

/// Starts a session that generates ids at the limit, runs `end_it` to end it, and returns the
/// SQLSTATE it received.
fn end_while_waiting(server: &Server, settings: &str, end_it: &str) -> String {
    let mut client = server.connect();
    run(&mut client, settings);
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    thread::scope(|scope| {
        let maker = scope.spawn(move || {
            let error = client.batch_execute(FOREVER).unwrap_err();
            // If the server's last message and the end of the connection arrive together, the
            // client reports only the latter; the log contains the message.
            let state = if error.is_closed() {
                "57P01"
            } else {
                error.code().map_or("", |code| code.code())
            };
            (state.to_owned(), client)
        });
        let mut other = server.connect();
        server.wait_for("a wait in pg_stat_activity", || is_waiting(&mut other, pid));
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
            one::<i64>(&mut client, "SELECT next_id(5)"); // the session still works
        }
        one::<i64>(&mut other, "SELECT next_id(5)");
        // No session keeps the sequence pinned or locked: it can be dropped and created again.
        run(
            &mut other,
            "SET lock_timeout = '5s'; DROP SCHEMA insta5 CASCADE; SELECT create_shard(5)",
        );
        state
    })
}

#[test]
fn wait_ends_on_timeout_cancel_and_termination() {
    let server = server();
    assert_eq!(end_while_waiting(&server, "SET statement_timeout = '2s'", ""), "57014");
    assert_eq!(end_while_waiting(&server, "", "SELECT pg_cancel_backend(PID)"), "57014");
    assert_eq!(end_while_waiting(&server, "", "SELECT pg_terminate_backend(PID)"), "57P01");
    let log = server.log();
    assert_eq!(
        log.matches("terminating connection due to administrator command").count(),
        1,
        "{log}"
    );
    assert!(!log.contains("WARNING") && !log.contains("PANIC") && !log.contains("signal"), "{log}");
}
