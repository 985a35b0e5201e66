//! When the clock is set, ids continue from the last one, in order, without failure and without a
//! long wait.

use instagram_id_live::*;
use postgres::{Client, NoTls};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: usize = 6;
const STEPS: [f64; 10] = [1.0, -1.0, HOUR, -HOUR, 0.0, DAY, -DAY, 30.0, -2.0 * DAY, 0.0];

fn server() -> Server {
    Server::start_with_a_clock_of_its_own(&[("fsync", "off")])
}

fn ahead_in_view(client: &mut Client) -> f64 {
    one(client, "SELECT extract(epoch FROM ahead)::float8 FROM id_shards WHERE shard = 5")
}

/// No insert fails at any change of the clock: a failure would end its session, and the test.
#[test]
fn ids_increase_under_load_when_the_clock_jumps() {
    let server = server();
    setup_photos(&mut server.connect());
    let mut journal = Journal::new("clock that jumps by up to 2 days", Clock::Set);
    let (sessions, ()) = under_load(
        || server.try_connect(),
        SESSIONS,
        &everything(),
        || {
            for &step in STEPS.iter().cycle().take(length(10, 600)) {
                server.set_clock(step);
                journal.faults += 1;
                thread::sleep(Duration::from_millis(150));
            }
        },
    );
    journal.add(sessions);
    journal.check();
    // It was a day ahead at most, and each second since has advanced it by at most a second.
    let ahead = ahead_in_view(&mut server.connect());
    assert!((86_000.0..86_405.0).contains(&ahead), "{ahead} s ahead");
}

/// A clock that runs too fast, too slowly, or slowly backward, in steps from a fraction of a
/// millisecond to some milliseconds, as time services slew it. Ids are ahead of such a clock by at
/// most the time that it has lost.
#[test]
fn ids_increase_under_load_when_the_clock_drifts() {
    let server = server();
    setup_photos(&mut server.connect());
    let mut journal = Journal::new("clock that drifts", Clock::Set);
    let seconds = length(0.4, 15.0);
    let (sessions, lost) = under_load(
        || server.try_connect(),
        SESSIONS,
        &everything(),
        || {
            let (mut offset, mut lost) = (0.0_f64, 0.0);
            for rate in [0.02, -0.02, 0.5, -0.5, -1.3, 2.0] {
                let (started, before) = (Instant::now(), offset);
                while started.elapsed().as_secs_f64() < seconds {
                    thread::sleep(Duration::from_millis(5));
                    let last = std::mem::replace(
                        &mut offset,
                        before + started.elapsed().as_secs_f64() * rate,
                    );
                    lost += (last - offset).max(0.0);
                    server.set_clock(offset);
                }
                journal.faults += 1;
            }
            lost
        },
    );
    journal.add(sessions);
    journal.check();
    // While the clock loses time, ids may advance in real time at the limit; nothing else puts them
    // ahead of it.
    let ahead = ahead_in_view(&mut server.connect());
    assert!(ahead <= lost + 0.5, "{ahead} s ahead of a clock that has lost {lost} s");
}

/// A client, and the notices that it receives.
fn connect_with_notices(server: &Server) -> (Client, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(vec![]));
    let sink = Arc::clone(&told);
    let mut config = server.config("postgres");
    config.notice_callback(move |notice| {
        let (detail, hint) =
            (notice.detail().unwrap_or_default(), notice.hint().unwrap_or_default());
        sink.lock().unwrap().push(format!(
            "{}: {}\n{detail}\n{hint}",
            notice.severity(),
            notice.message()
        ));
    });
    (config.connect(NoTls).unwrap(), told)
}

/// Ids continue, and a lead over the clock is reported: once to each session, and in the view.
#[test]
fn sequence_years_ahead_of_the_clock_is_reported() {
    let server = server();
    let mut client = server.connect();
    setup_photos(&mut client);
    let mut journal = Journal::new("clock set ten years ahead and back", Clock::Set);
    let make_ids = |client: &mut Client| {
        let mut received = Received::default();
        for call in ["SELECT next_id(5)", "SELECT next_ids(5, 1000)", "SELECT insta5.next_id()"] {
            received.run(client, call).unwrap();
        }
        received.run(client, "INSERT INTO insta5.photos DEFAULT VALUES RETURNING id").unwrap();
        received
    };
    let (mut before, told_before) = connect_with_notices(&server);
    journal.add([make_ids(&mut before)]);
    // While the clock itself is wrong, nothing can be detected.
    server.set_clock(10.0 * YEAR);
    journal.add([make_ids(&mut before)]);
    assert!(told_before.lock().unwrap().is_empty());
    server.set_clock(0.0);
    let (mut after, told_after) = connect_with_notices(&server);
    for _ in 0..2 {
        journal.add([make_ids(&mut before), make_ids(&mut after)]);
    }
    journal.faults = 2;
    journal.is_complete = true;
    journal.check();
    // Ten years of 365 days, minus the milliseconds since.
    let message = "sequence insta5.table_id_seq is 3649 days 23 h ahead of the clock";
    let detail =
        "Its ids stay unique and in order, and carry future timestamps until the clock catches up.";
    let hint =
        "Check the clock of the server. The view id_shards shows how far each shard is ahead.";
    for told in [told_before, told_after] {
        assert_eq!(
            told.lock().unwrap().join(" | "),
            format!("WARNING: {message}\n{detail}\n{hint}")
        );
    }
    assert_eq!(server.log().matches(message).count(), 2, "in the log, too");
    let days = ahead_in_view(&mut client) / 86_400.0;
    assert!((3649.9..3650.1).contains(&days), "{days} days ahead");
}

/// A clock that is set to just before the end of ids takes the sequence there, and a crash takes it
/// to the last value. The hint has the way back.
#[test]
fn clock_set_to_the_end_is_followed_by_a_crash() {
    let server = server();
    let mut client = server.connect();
    setup(&mut client);
    let before: i64 = one(&mut client, "SELECT next_id(5)");
    let until_the_end =
        "SELECT extract(epoch FROM ends_at - clock_timestamp())::float8 FROM id_shards";
    // Again if the machine is so busy that the clock passes the end.
    let last: i64 = (0..100)
        .find_map(|_| {
            server.set_clock(0.0);
            let until_the_end: f64 = one(&mut client, until_the_end);
            server.set_clock(until_the_end - 0.9);
            client.query_one("SELECT next_id(5)", &[]).ok()
        })
        .expect("an id just before the end")
        .get(0);
    assert!(i64::MAX - last < 900 << 23, "{last}");
    // Without a crash, ids go on from there.
    server.set_clock(0.0);
    assert!(one::<i64>(&mut client, "SELECT next_id(5)") > last);
    server.crash();
    server.launch();
    let mut client = server.connect();
    let (state, message, hint) = error_of(&mut client, "SELECT next_id(5)");
    assert_eq!(state, "2200H", "{message}");
    let way_back = hint.split_once("use ").unwrap().1.split_once(" to let it follow").unwrap().0;
    assert_eq!(way_back, "SELECT setval('insta5.table_id_seq', 1, false)");
    run(&mut client, way_back);
    let after: i64 = one(&mut client, "SELECT next_id(5)");
    assert!(after > before && lead(&mut client, after) < 1.0, "{after} after {before}");
}

/// The wait of `unadopt_shard()` for the clock has a limit by another clock.
#[test]
fn clock_that_is_set_back_does_not_prolong_a_wait() {
    let server = server();
    let mut client = server.connect();
    let original = original_of_shard(5);
    run(&mut client, &format!("CREATE EXTENSION instagram_id; {original}; SELECT adopt_shard(5)"));
    thread::scope(|scope| {
        let unadopt = scope.spawn(|| {
            run(&mut client, "SELECT advance_shard(5, make_id(clock_timestamp() + '1.9 s', 5, 0))");
            error_of(&mut client, "SELECT unadopt_shard(5)")
        });
        server.wait_until(
            "SELECT EXISTS (SELECT FROM pg_stat_activity
                 WHERE query LIKE 'SELECT unadopt%' AND wait_event_type = 'Extension')",
        );
        server.set_clock(-30.0);
        let (code, message, _) = unadopt.join().unwrap();
        assert_eq!(code, "55000", "{message}");
        assert!(message.contains("ahead of the clock"), "{message}");
    });
}
