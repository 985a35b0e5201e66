//! Sessions leave nothing behind, neither when they are cancelled or terminated at any moment nor
//! after long work. A pin that a transaction leaves is logged at its end; tests/contrib counts the
//! pins of open sessions.

use instagram_id_live::*;
use postgres::Client;
use postgres::error::SqlState;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The same work, which may be cancelled; the session then continues.
fn may_be_cancelled(work: Work, cancelled: &'static AtomicUsize) -> Work {
    Box::new(move |client, received| {
        let mut outcome = work(client, received);
        while let Err(error) = &outcome
            && error.code() == Some(&SqlState::QUERY_CANCELED)
        {
            cancelled.fetch_add(1, Ordering::Relaxed);
            // A cancelled transaction is still open.
            outcome = client.batch_execute("ROLLBACK");
        }
        outcome
    })
}

/// Sessions are cancelled and terminated at random moments and run into timeouts, mostly while they
/// wait for the next millisecond. No lock and no pin remains, the server logs no unexpected
/// message, and the ids stay unique and in order.
#[test]
#[expect(clippy::too_many_lines, reason = "one loop of random events")]
fn sessions_interrupted_at_random_moments_leave_nothing() {
    static CANCELLED: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start(&[("fsync", "off"), ("log_min_messages", "warning")]);
    let mut control = server.connect();
    setup_photos(&mut control);
    let timeout = |n: i32| query(format!("SET statement_timeout = '{n}ms'"));
    let many = || query("SELECT next_id(5) FROM generate_series(1, 20000)");
    let lines = server.path().join("lines");
    std::fs::write(&lines, "1\n".repeat(500)).unwrap();
    let copy = unrecorded(format!("COPY insta5.photos (batch) FROM '{}'", lines.display()));
    let work: Vec<Work> = insert_statements()
        .into_iter()
        .chain([copy])
        .chain([many(), timeout(5), many(), timeout(0)])
        .chain(calls())
        .chain([timeout(2), query("SELECT next_ids(5, 50000)"), many(), timeout(0)])
        .map(|work| may_be_cancelled(work, &CANCELLED))
        .collect();
    let mut random = random("sessions cut off");
    let mut journal = Journal::new("sessions cut off", Clock::IN_STEP);
    let mut terminated = 0;
    let (sessions, ()) = under_load(
        || server.try_connect(),
        8,
        &work,
        || {
            for _ in 0..length(250, 20_000) {
                let pids = "SELECT pid::bigint FROM pg_stat_activity
                    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
                let pids = column(&mut control, pids);
                let Some(pid) = random.choice(pids) else { continue };
                let is_cancel = random.u8(..10) < 9;
                let how = if is_cancel { "pg_cancel_backend" } else { "pg_terminate_backend" };
                let was_there: bool = one(&mut control, &format!("SELECT {how}({pid})"));
                terminated += usize::from(was_there && !is_cancel);
                thread::sleep(Duration::from_micros(random.u64(..10_000)));
            }
        },
    );
    journal.add(sessions);
    let cancelled = CANCELLED.load(Ordering::Relaxed);
    journal.faults = cancelled + terminated;
    journal.check();
    println!("    {cancelled} cancelled or timed out, {terminated} terminated");
    assert!(cancelled >= 50 && terminated >= 5);

    // By now all of them have ended; only this session and the one that queries are left.
    server.wait_until(
        "SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'client backend'",
    );
    assert_eq!(
        one::<i64>(&mut control, "SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid()"),
        0
    );
    // Expected messages: of terminated sessions; of one that was cancelled or terminated while it
    // was connecting, which 18 and later show by then (and the second case as a timeout); of one
    // that had just ended; of a ROLLBACK without an open transaction; and at the start.
    let expected = [
        "terminating connection due to administrator command",
        "FATAL:  canceling statement due to user request",
        "FATAL:  canceling authentication due to timeout",
        "is not a PostgreSQL backend process",
        "there is no transaction in progress",
        "the database system is starting up",
    ];
    let complaint = ["WARNING", "FATAL", "PANIC", "TRAP", "signal", "leak"];
    let log = server.log();
    let complaints: Vec<&str> = log
        .lines()
        .filter(|line| complaint.iter().any(|word| line.contains(word)))
        .filter(|line| !expected.iter().any(|text| line.contains(text)))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// The memory of a session in bytes: in use in PostgreSQL's memory contexts, and private to the
/// process.
fn memory(client: &mut Client) -> (i64, i64) {
    let contexts = one(client, "SELECT sum(used_bytes)::bigint FROM pg_backend_memory_contexts");
    let pid: i32 = one(client, "SELECT pg_backend_pid()");
    (contexts, memory_of(pid, "RssAnon"))
}

/// Checks how much the memory of a session has grown, in memory contexts and in the process, after
/// so many errors that PostgreSQL has raised within a call. For each of these pgrx 0.18 keeps a
/// copy of the name of the message domain, which takes 32 bytes.
#[track_caller]
fn check_growth(what: &str, before: (i64, i64), after: (i64, i64), errors: usize) {
    let (contexts, process) = (after.0 - before.0, after.1 - before.1);
    println!("{what}: {contexts} bytes more in PostgreSQL's contexts, {process} in the process");
    // Less than 16 bytes plus header for each of the thousand waits of a million calls.
    let kept_by_pgrx = 32 * errors as i64;
    assert!(
        contexts <= 16 << 10 && process <= (1 << 20) + kept_by_pgrx,
        "{what}: {before:?} {after:?}"
    );
}

/// A session that is repeatedly cancelled while it waits, and continues, keeps nothing that only
/// its end would release.
#[test]
fn session_cancelled_in_its_waits_keeps_nothing() {
    let server =
        Server::start(&[("fsync", "off"), ("jit", "off"), ("log_min_messages", "warning")]);
    let (mut client, mut watch) = (server.connect(), server.connect());
    setup(&mut client);
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    // The error also resets the setting. As below, generate_series must return its rows one by one.
    let calls =
        ["next_ids(5, 50000)", "count(next_id(5)) FROM (SELECT generate_series(1, 50000)) AS many"]
            .map(|call| format!("SET statement_timeout = '2ms'; SELECT {call}"));
    let mut cut_off = |times: usize| {
        for statement in calls.iter().cycle().take(times) {
            assert_eq!(error_of(&mut client, statement).0, "57014", "{statement}");
        }
        // The client receives the error before the transaction has ended.
        server
            .wait_until(&format!("SELECT state = 'idle' FROM pg_stat_activity WHERE pid = {pid}"));
        let locks = format!("SELECT count(*) FROM pg_locks WHERE pid = {pid}");
        assert_eq!(one::<i64>(&mut watch, &locks), 0, "locks");
        memory(&mut client)
    };
    let before = cut_off(300);
    let times = length(1000, 50_000);
    let after = cut_off(times);
    check_growth(&format!("{times} waits cut off"), before, after, times);
    let warnings: Vec<String> =
        server.log().lines().filter(|line| line.contains("WARNING")).map(str::to_owned).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}

/// Calls in one transaction: in one statement, in many, in subtransactions, and calls that fail.
#[test]
fn million_calls_in_one_transaction_need_constant_memory() {
    // The JIT compiler that PostgreSQL loads for long queries takes 10 MB.
    let server = Server::start(&[("fsync", "off"), ("jit", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    let loops = |body: &str, times: usize| {
        format!("DO $$ BEGIN FOR n IN 1..{times} LOOP {body} END LOOP; END $$")
    };
    let attempt =
        |call: &str| format!("BEGIN PERFORM {call}; EXCEPTION WHEN OTHERS THEN NULL; END;");
    // generate_series in the target list returns its rows one by one; in FROM they would all be
    // materialized first.
    type Calls<'a> = Box<dyn Fn(usize) -> String + 'a>;
    let kinds: [(&str, usize, Calls); 7] = [
        (
            "one statement",
            1,
            Box::new(|n| {
                format!("SELECT count(next_id(5)) FROM (SELECT generate_series(1, {n})) AS many")
            }),
        ),
        (
            "the shard's function",
            1,
            Box::new(|n| {
                format!(
                    "SELECT count(insta5.next_id()) FROM (SELECT generate_series(1, {n})) AS many"
                )
            }),
        ),
        (
            "next_ids",
            1,
            Box::new(|n| {
                format!("SELECT count(*) FROM generate_series(1, {n} / 1000), next_ids(5, 1000)")
            }),
        ),
        ("one at a time", 4, Box::new(|n| loops("PERFORM next_id(5, 'insta5.table_id_seq');", n))),
        ("subtransactions", 20, Box::new(|n| loops(&attempt("next_id(5)"), n))),
        ("failing calls", 20, Box::new(|n| loops(&attempt("next_id(6)"), n))),
        ("failing sequences", 20, Box::new(|n| loops(&attempt("next_id(5, 'pg_class')"), n))),
    ];
    let calls = length(1_000_000, 20_000_000);
    for (kind, share, statement) in kinds {
        run(&mut client, "BEGIN");
        run(&mut client, &statement(5000));
        let before = memory(&mut client);
        let count = calls / share;
        run(&mut client, &statement(count));
        let after = memory(&mut client);
        run(&mut client, "COMMIT");
        check_growth(&format!("{count} calls, {kind}"), before, after, 0);
    }
}
