//! The limit of the format: 1,024 ids a millisecond from one sequence, and not a duplicate on the way there.

use instagram_id_live::*;
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const IDS_PER_MS: f64 = 1024.0;

/// How long `ids` took by their own time fields, over how long they take at the limit.
fn share_of_limit(sessions: &[Received]) -> f64 {
    let ids = sessions.iter().flat_map(|session| &session.ids);
    let span = ms_of(*ids.clone().max().unwrap()) - ms_of(*ids.clone().min().unwrap()) + 1;
    ids.count() as f64 / IDS_PER_MS / span as f64
}

/// What this machine allows at the moment: the share of milliseconds in which a thread gets to run that works for a
/// fifth of each and sleeps until the next, as a session at the limit does. 1 on an idle machine.
fn share_of_milliseconds() -> f64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let started = now().as_millis();
    let mut seen = 0;
    while now().as_millis() < started + 500 {
        seen += 1;
        let work_until = now() + Duration::from_micros(200);
        while now() < work_until {}
        let into_ms = now().subsec_nanos() % 1_000_000;
        std::thread::sleep(Duration::from_nanos(u64::from(1_000_000 - into_ms)));
    }
    seen as f64 / (now().as_millis() - started) as f64
}

/// How long as many plain `nextval` take as many sessions all at once, in milliseconds: the work that there is in any
/// case, on this machine as it is now, to make numbers and to receive them.
fn ms_of_nextvals(server: &Server, count: usize, ids: usize) -> f64 {
    let started = Instant::now();
    in_parallel(count, |_| {
        let statement = format!("SELECT nextval('plain') FROM generate_series(1, {ids})");
        assert_eq!(column(&mut server.connect(), &statement).len(), ids);
    });
    started.elapsed().as_secs_f64() * 1000.0
}

/// Has `count` sessions each make `ids` ids in one statement, all at once, and checks the record of them all.
/// They must take at most 1.1 times as long as the limit allows, or as the machine does where that is busy
/// with other work; in the best of some rounds, since noise only ever takes away. Where it is so slow that plain numbers
/// are hardly made and received at that rate, the work may come on top: there is no time left to make up for a late tick.
fn run_at_the_limit(count: usize, ids: usize, statement: &str) {
    let server = Server::start(&[("fsync", "off")]);
    setup(&mut server.connect());
    server.connect().batch_execute("CREATE SEQUENCE plain").unwrap();
    let ms_at_the_limit = (count * ids) as f64 / IDS_PER_MS;
    let mut journal = Journal::new(format!("{count} x {ids} ids by {statement}"), Clock::IN_STEP);
    journal.is_complete = true;
    let mut rounds = vec![];
    let near_enough = |&(share, allowed): &(f64, f64)| share * 1.1 >= f64::min(1.0, allowed);
    while rounds.len() < 10 && !rounds.iter().any(near_enough) {
        let before = share_of_milliseconds();
        let work = ms_of_nextvals(&server, count, ids);
        let barrier = Barrier::new(count);
        let sessions = in_parallel(count, |_| {
            let mut client = server.connect();
            let statement = client.prepare(statement).unwrap();
            let mut received = Received::default();
            barrier.wait();
            received.run_prepared(&mut client, &statement, &[]).unwrap();
            received
        });
        let mut allowed = (before + share_of_milliseconds()) / 2.0;
        if work > 0.8 * ms_at_the_limit {
            allowed = allowed.min(ms_at_the_limit / (ms_at_the_limit + work));
        }
        assert!(sessions.iter().all(|session| session.ids.len() == ids));
        rounds.push((share_of_limit(&sessions), allowed));
        journal.add(sessions);
    }
    journal.check();
    let (share, allowed) = rounds.last().unwrap();
    println!("    {share:.4} of the limit (the machine: {allowed:.4}; round {})", rounds.len());
    assert!(
        rounds.iter().any(near_enough),
        "(share of the limit, of the machine's milliseconds): {rounds:.4?}"
    );
}

#[test]
fn a_million_ids_from_one_session() {
    run_at_the_limit(1, 1_000_000, "SELECT next_id(5) FROM generate_series(1, 1000000)");
}

#[test]
fn two_million_ids_from_four_sessions() {
    run_at_the_limit(4, 500_000, "SELECT next_id(5) FROM generate_series(1, 500000)");
}

#[test]
fn a_million_ids_from_the_shards_own_function() {
    run_at_the_limit(1, 1_000_000, "SELECT insta5.next_id() FROM generate_series(1, 1000000)");
}

#[test]
fn two_million_ids_in_batches_from_four_sessions() {
    run_at_the_limit(4, 500_000, "SELECT next_ids(5, 500000)");
}

/// By the server's clock and not by the ids' own time fields, which cannot show more than the limit: sessions that
/// wait for the same tick do not each open a millisecond after it. The ids stay in the server, whose speed would
/// otherwise be the client's.
#[test]
fn four_sessions_are_together_no_faster_than_the_limit() {
    let server = Server::start(&[("fsync", "off")]);
    setup(&mut server.connect());
    let barrier = Barrier::new(4);
    let started = Instant::now();
    in_parallel(4, |_| {
        let mut client = server.connect();
        barrier.wait();
        one::<i64>(&mut client, "SELECT count(*) FROM (SELECT next_ids(5, 500000)) AS batch")
    });
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_millis(1950), "2,000,000 ids in {elapsed:?}");
    let lead: f64 = one(
        &mut server.connect(),
        "SELECT extract(epoch FROM id_time(next_id(5)) - clock_timestamp())::float8",
    );
    assert!(lead <= 0.001, "{lead} s ahead of the clock");
}

/// While it waits a session sleeps: making ids at the limit takes the CPU time of a call each, and of waking up once a
/// millisecond, and no more. On an idle machine that is less than half of a core; as many `nextval` say what it is now.
#[test]
fn waiting_does_not_burn_the_core() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    client.batch_execute("CREATE SEQUENCE plain").unwrap();
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let mut cost = |call: &str| {
        let (started, before) = (Instant::now(), cpu_time(pid));
        one::<i64>(&mut client, &format!("SELECT count({call}) FROM generate_series(1, 3000000)"));
        (cpu_time(pid) - before, started.elapsed())
    };
    let ((used, elapsed), (plain, _)) = (cost("next_id(5)"), cost("nextval('plain')"));
    println!("3,000,000 ids: {used:?} of CPU in {elapsed:?}; as many nextval: {plain:?}");
    assert!(used < plain.mul_f64(1.75), "{used:?} of CPU in {elapsed:?}, nextval: {plain:?}");
    assert!(elapsed >= Duration::from_millis(2900), "faster than the format allows: {elapsed:?}");
}

/// Where the limit does not bind, because the calls go round many sequences. In turns with nextval, so that noise
/// hits both.
#[test]
fn a_call_costs_no_more_than_nextval() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE EXTENSION instagram_id;
             SELECT count(create_shard(n)) FROM generate_series(0, 199) AS n;
             DO $$ BEGIN FOR n IN 0..199 LOOP EXECUTE format('CREATE SEQUENCE plain%s', n); END LOOP; END $$;
             CREATE TABLE calls AS
             SELECT n % 200 AS shard, format('insta%s.table_id_seq', n % 200)::regclass AS seq,
                    format('plain%s', n % 200)::regclass AS plain
             FROM generate_series(1, 200000) AS n;
             SET max_parallel_workers_per_gather = 0",
        )
        .unwrap();
    client.batch_execute("VACUUM ANALYZE calls").unwrap();
    let calls = ["shard", "nextval(plain)", "next_id(shard)", "next_id(shard, seq)"];
    let mut times = vec![vec![]; calls.len()];
    for _ in 0..9 {
        for (call, times) in calls.iter().zip(&mut times) {
            let started = Instant::now();
            one::<i64>(&mut client, &format!("SELECT count({call}) FROM calls"));
            times.push(started.elapsed());
        }
    }
    let medians: Vec<f64> = times.into_iter().map(|times| median(times).as_secs_f64()).collect();
    let ratio = |call: usize| (medians[call] - medians[0]) / (medians[1] - medians[0]);
    println!("of nextval's cost: next_id(shard) {:.2}, next_id(shard, seq) {:.2}", ratio(2), ratio(3));
    assert!(ratio(2) < 1.1 && ratio(3) < 1.1);
}

/// One WAL record a second, not one for every 32 ids.
#[test]
fn a_million_ids_write_next_to_no_wal() {
    let server = Server::start(&[("autovacuum", "off"), ("checkpoint_timeout", "1h")]);
    let mut client = server.connect();
    client
        .batch_execute("CREATE EXTENSION instagram_id; SELECT create_shard(5); CREATE SEQUENCE plain")
        .unwrap();
    client.batch_execute("CHECKPOINT").unwrap();
    let mut wal_of = |statement: &str| -> i64 {
        // Once before, for what the first look at the catalogs after the checkpoint writes.
        one::<i64>(&mut client, &format!("SELECT count({statement}) FROM generate_series(1, 10)"));
        let statement = format!("SELECT count({statement}) FROM generate_series(1, 1000000)");
        let before: String = one(&mut client, "SELECT pg_current_wal_insert_lsn()::text");
        one::<i64>(&mut client, &statement);
        one(&mut client, &format!("SELECT (pg_current_wal_insert_lsn() - '{before}')::bigint"))
    };
    let (ours, plain) = (wal_of("next_id(5)"), wal_of("nextval('plain')"));
    println!("WAL for a million ids: {ours} bytes; for a million nextvals: {plain} bytes");
    // A record a second; the server's own background records may add some.
    assert!(ours * 1000 <= plain, "{ours} bytes against {plain}");
}
