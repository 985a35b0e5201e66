//! The format's limit of 1,024 ids a millisecond from one sequence: how close sessions get to it,
//! and how much CPU time they use there.

use crate::goals::{Goal, at_least, at_most};
use crate::sessions::LIMIT;
use instagram_id_live::{
    Clock, Journal, Received, Server, cpu_time, in_parallel, ms_of, one, run, setup,
};
use std::sync::Barrier;
use std::time::Duration;

const ROUNDS: usize = 3;
const IDS: usize = 1_000_000;

pub fn goals() -> Vec<Goal> {
    vec![
        of_a_statement(1, "SELECT next_id(5) FROM generate_series(1, $1::int)"),
        of_a_statement(4, "SELECT next_id(5) FROM generate_series(1, $1::int)"),
        of_a_statement(1, "SELECT insta5.next_id() FROM generate_series(1, $1::int)"),
        of_a_statement(4, "SELECT next_ids(5, $1::int)"),
        of_the_waits(),
    ]
}

/// The share of the limit that `sessions` reach together, over the milliseconds that their ids
/// span. It is the best of several rounds, since noise can only lower it. Every id is checked.
fn of_a_statement(sessions: usize, statement: &str) -> Goal {
    let server = Server::start(&[("fsync", "off")]);
    setup(&mut server.connect());
    let mut journal = Journal::new(format!("{sessions} sessions, {statement}"), Clock::IN_STEP);
    journal.is_complete = true;
    let count = (IDS / sessions) as i32;
    let mut best: f64 = 0.0;
    for _ in 0..ROUNDS {
        let barrier = Barrier::new(sessions);
        let received = in_parallel(sessions, |_| {
            let mut client = server.connect();
            let statement = client.prepare(statement).unwrap();
            let mut received = Received::default();
            barrier.wait();
            received.run_prepared(&mut client, &statement, &[&count]).unwrap();
            received
        });
        let ids = received.iter().flat_map(|session| &session.ids);
        let span = ms_of(*ids.clone().max().unwrap()) - ms_of(*ids.clone().min().unwrap()) + 1;
        best = best.max(ids.count() as f64 / (LIMIT / 1000.0) / span as f64);
        journal.add(received);
    }
    journal.check();
    let what = format!("{sessions} sessions, {statement}: share of the limit");
    at_least(&what, 0.9, 0.98, best)
}

/// A session that waits for the clock sleeps. At the limit it uses only the CPU time of its calls
/// and of one wake-up each millisecond.
fn of_the_waits() -> Goal {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    run(&mut client, "CREATE SEQUENCE plain");
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let mut cost = |call: &str| -> Duration {
        let before = cpu_time(pid);
        one::<i64>(&mut client, &format!("SELECT count({call}) FROM generate_series(1, 3000000)"));
        cpu_time(pid) - before
    };
    let (ours, plain) = (cost("next_id(5)"), cost("nextval('plain')"));
    let what = "CPU time of 3,000,000 ids at the limit, to as many nextval";
    at_most(what, 1.75, 1.25, ours.as_secs_f64() / plain.as_secs_f64())
}
