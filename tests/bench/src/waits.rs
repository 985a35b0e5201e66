//! The cost of inserts while the clock is set. tests/live/tests/wait.rs counts the waits of a call.

use crate::goals::{Goal, at_most};
use instagram_id_live::{
    Clock, DAY, HOUR, Journal, Server, median, query, setup_photos, under_load,
};
use std::thread;
use std::time::Duration;

const STEPS: [f64; 10] = [1.0, -1.0, HOUR, -HOUR, 0.0, DAY, -DAY, 30.0, -2.0 * DAY, 0.0];

/// Single inserts of one session should be as fast while the clock jumps back and forth as while
/// nobody sets it, except for a tick now and then. Both are measured in turns, so that noise
/// affects both.
pub fn goals() -> Vec<Goal> {
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
