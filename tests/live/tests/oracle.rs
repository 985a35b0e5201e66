//! The PL/pgSQL original, and the same two calls without PL/pgSQL, repeat ids under a load under
//! which next_id repeats none.

use instagram_id_live::*;
use std::sync::Barrier;

const SESSIONS: usize = 4;
const STATEMENTS: i32 = 10;

/// Generates ids in concurrent sessions, and records what they receive.
fn load(server: &Server, statement: &str, scenario: &str, clock: Clock) -> Journal {
    let barrier = Barrier::new(SESSIONS);
    let sessions = in_parallel(SESSIONS, |_| {
        let mut client = server.connect();
        let mut received = Received::default();
        barrier.wait();
        for _ in 0..STATEMENTS {
            received.run(&mut client, statement).unwrap();
        }
        received
    });
    let mut journal = Journal::new(scenario, clock);
    journal.is_complete = true;
    journal.add(sessions);
    journal
}

/// The purpose of this extension. The original repeats ids when a session is suspended between its
/// nextval and its clock; PL/pgSQL is so slow that this is rare, so there are several rounds. The
/// same two calls without PL/pgSQL repeat ids all the time. For next_id, alternating with them
/// under the same load, the same check finds none.
#[test]
fn original_repeats_ids_and_next_id_does_not() {
    let (server, mut client) = with_extension();
    run(&mut client, "CREATE SEQUENCE plain");
    run(&mut client, "SELECT create_shard(5, 'ours')");
    run(&mut client, &original_of_shard(5));
    let ids = length(10_000, 50_000);
    let times = format!("FROM generate_series(1, {ids})");
    let original = format!("SELECT insta5.next_id() {times}");
    let port = format!(
        "SELECT (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23
             | (5 << 10) | nextval('plain') % 1024 {times}"
    );
    let ours = format!("SELECT next_id(5) {times}");
    let mut duplicates = [0; 2];
    let mut made = 0;
    for round in 1..=20 {
        let ways = [("the original, PL/pgSQL", &original), ("nextval and the clock, SQL", &port)];
        for ((scenario, statement), duplicates) in ways.into_iter().zip(&mut duplicates) {
            *duplicates += load(&server, statement, scenario, Clock::Set).figures().duplicates;
        }
        let journal = load(&server, &ours, "next_id", Clock::IN_STEP);
        made += journal.check().ids;
        if duplicates.iter().all(|&count| count > 0) {
            println!(
                "{made} ids each from {SESSIONS} sessions in {round} rounds; duplicates: {} of the original's, {} of \
                 nextval and the clock, 0 of next_id",
                duplicates[0], duplicates[1]
            );
            return;
        }
    }
    panic!("no duplicates in {made} ids: {duplicates:?}");
}
