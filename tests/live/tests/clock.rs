//! A clock that is set: ids go on from the last one, in order, with no failure and no long wait.

use instagram_id_live::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn an_idle_sequence_follows_the_clock_forward_and_waits_for_it_backward() {
    let server = Server::start_with_a_clock_of_its_own(&[("fsync", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    let mut last = 0;
    let mut next = |offset: &str| {
        server.set_clock(offset);
        let id: i64 = one(&mut client, "SELECT next_id(5)");
        assert!(id > last, "{offset}: {id} after {last}");
        last = id;
        lead(&mut client, id)
    };
    let follows = |lead: f64| lead.abs() < 0.5;
    let ahead_by = |lead: f64, hours: f64| (lead - hours * 3600.0).abs() < 5.0;
    assert!(follows(next("+0")));
    assert!(follows(next("+1s")));
    assert!(ahead_by(next("+0"), 1.0 / 3600.0));
    assert!(follows(next("+1h")));
    assert!(ahead_by(next("-1h"), 2.0));
    assert!(follows(next("+1d")));
    assert!(ahead_by(next("-1d"), 48.0));
    assert!(ahead_by(next("+0"), 24.0));
    // Years ahead, as a broken battery or a typo has it, and back.
    assert!(follows(next("+10y")));
    assert!(ahead_by(next("+0"), 10.0 * 365.0 * 24.0));
}

#[test]
fn under_load_the_clock_may_jump_as_it_likes() {
    let server = Server::start_with_a_clock_of_its_own(&[("fsync", "off")]);
    setup(&mut server.connect());
    let stop = AtomicBool::new(false);
    let jumps = ["+1s", "-1s", "+1h", "-1h", "+0", "+1d", "-1d", "+30s", "-2d", "+0"];
    let (single, bulk) = thread::scope(|scope| {
        let single: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    let next = client.prepare("SELECT next_id(5)").unwrap();
                    let (mut ids, mut times) = (vec![], vec![]);
                    while !stop.load(Ordering::Relaxed) {
                        let started = Instant::now();
                        ids.push(client.query_one(&next, &[]).unwrap().get(0));
                        times.push(started.elapsed());
                    }
                    (ids, times)
                })
            })
            .collect();
        let bulk = scope.spawn(|| {
            let mut client = server.connect();
            let mut ids = vec![];
            while !stop.load(Ordering::Relaxed) {
                ids.extend(column(&mut client, "SELECT next_id(5) FROM generate_series(1, 20000)"));
            }
            ids
        });
        for jump in jumps.iter().cycle().take(30) {
            server.set_clock(jump);
            thread::sleep(Duration::from_millis(150));
        }
        stop.store(true, Ordering::Relaxed);
        let single: Vec<_> = single.into_iter().map(|thread| thread.join().unwrap()).collect();
        (single, bulk.join().unwrap())
    });
    let times: Vec<Duration> = single.iter().flat_map(|(_, times)| times.clone()).collect();
    let longest = *times.iter().max().unwrap();
    let middle = median(times);
    let mut sessions: Vec<Vec<i64>> = single.into_iter().map(|(ids, _)| ids).collect();
    sessions.push(bulk);
    check_unique_and_increasing(&sessions);
    let ids: usize = sessions.iter().map(Vec::len).sum();
    println!(
        "{ids} ids from 3 sessions while the clock jumped 30 times by up to 2 days: 0 duplicates, 0 out of order"
    );
    println!("single calls: median {middle:?}, longest {longest:?}");
    assert!(longest < Duration::from_millis(500), "a call took {longest:?}");
}
