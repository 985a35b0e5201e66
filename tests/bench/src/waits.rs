//! The cost of a wait for the clock, and of a clock that is set.

use crate::goals::{Goal, at_most};
use instagram_id_live::{
    Clock, DAY, HOUR, Journal, Server, median, one, query, run, set_an_hour_ahead, setup,
    setup_photos, under_load,
};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(1);
const STEPS: [f64; 10] = [1.0, -1.0, HOUR, -HOUR, 0.0, DAY, -DAY, 30.0, -2.0 * DAY, 0.0];

pub fn goals() -> Vec<Goal> {
    [vec![of_a_crossing(), of_an_open_millisecond()], of_a_clock_that_jumps()].concat()
}

/// The sequence is an hour ahead of the clock, and each call finds its millisecond used up. The
/// calls alternate with a sleep of one tick, to measure how long a tick takes on this machine.
fn of_a_crossing() -> Goal {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    one::<i64>(&mut client, "SELECT next_id(5)");
    set_an_hour_ahead(&mut client, "insta5.table_id_seq");
    let [use_up, next, nothing] = [
        "SELECT setval('insta5.table_id_seq', last_value | 1023) FROM insta5.table_id_seq",
        "SELECT next_id(5)",
        "SELECT 1",
    ]
    .map(|statement| client.prepare(statement).unwrap());
    let [mut crossings, mut ticks] = [vec![], vec![]];
    for _ in 0..1000 {
        client.query_one(&use_up, &[]).unwrap();
        let started = Instant::now();
        client.query_one(&next, &[]).unwrap();
        crossings.push(started.elapsed());
        let started = Instant::now();
        client.query_one(&nothing, &[]).unwrap();
        thread::sleep(TICK);
        ticks.push(started.elapsed());
    }
    let ratio = median(crossings).as_secs_f64() / median(ticks).as_secs_f64();
    at_most(
        "an id whose millisecond is used up, time to a statement and a sleep of 1 ms",
        1.0,
        0.95,
        ratio,
    )
}

/// An id in a millisecond that is open, however far ahead of the clock.
fn of_an_open_millisecond() -> Goal {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    one::<i64>(&mut client, "SELECT next_id(5)");
    let open = "SELECT setval('insta5.table_id_seq', (last_value | 1023) + 3600000 * 1024::bigint + 1) FROM insta5.table_id_seq";
    run(&mut client, open);
    let statements = ["SELECT next_id(5)", "SELECT 1"].map(|query| client.prepare(query).unwrap());
    let mut times = [vec![], vec![]];
    for _ in 0..1000 {
        for (statement, times) in statements.iter().zip(&mut times) {
            let started = Instant::now();
            client.query_one(statement, &[]).unwrap();
            times.push(started.elapsed());
        }
    }
    let [id, nothing] = times.map(|times| median(times).as_secs_f64());
    at_most("SELECT next_id(5) in an open millisecond, time to SELECT 1", 3.0, 1.5, id / nothing)
}

/// Single inserts of one session should be as fast while the clock jumps back and forth as while
/// nobody sets it, except for a tick now and then. Both are measured in turns, so that noise
/// affects both.
fn of_a_clock_that_jumps() -> Vec<Goal> {
    let server = Server::start_with_a_clock_of_its_own(&[("fsync", "off")]);
    setup_photos(&mut server.connect());
    let insert = [query("INSERT INTO insta5.photos DEFAULT VALUES RETURNING id")];
    let mut journal = Journal::new("single inserts while the clock jumps", Clock::Set);
    // For each round the median and the 99th percentile, in milliseconds.
    let mut of_rounds = [vec![], vec![]];
    for round in 0..14 {
        let jumps = round % 2 == 1;
        let (sessions, ()) = under_load(
            || server.try_connect(),
            1,
            &insert,
            || {
                for step in STEPS {
                    if jumps {
                        server.set_clock(step);
                        journal.faults += 1;
                    }
                    thread::sleep(Duration::from_millis(30));
                }
            },
        );
        let mut times: Vec<Duration> = sessions[0].times().collect();
        times.sort_unstable();
        of_rounds[round % 2].push((times[times.len() / 2], times[times.len() * 99 / 100]));
        journal.add(sessions);
    }
    journal.check();
    let [still, jumping] = of_rounds.map(|rounds| {
        let (middle, late): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
        [median(middle), median(late)].map(|time| time.as_secs_f64() * 1000.0)
    });
    vec![
        at_most(
            "ms that an insert takes more while the clock jumps, median",
            1.0,
            0.1,
            jumping[0] - still[0],
        ),
        at_most(
            "ms that an insert takes more while the clock jumps, 99th percentile",
            2.0,
            1.0,
            jumping[1] - still[1],
        ),
    ]
}
