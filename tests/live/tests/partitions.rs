//! Creates and drops partitions under load, and day by day as a scheduler does.

use crate::adopt::{releasing, with_longest};
use instagram_id_live::*;
use postgres::Client;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: usize = 6;
const PERIODS: [&str; 3] = ["day", "week", "month"];

/// A table partitioned by the ids that its default generates, with objects that may interfere with
/// creating and dropping partitions.
fn setup_events(client: &mut Client, partitions: &str) {
    setup(client);
    run(client, &format!(
            "CREATE TABLE insta5.people (id bigint PRIMARY KEY);
             INSERT INTO insta5.people VALUES (1);
             CREATE TABLE insta5.events (
                 id bigint PRIMARY KEY DEFAULT insta5.next_id(), person bigint DEFAULT 1 REFERENCES insta5.people, kind text
             ) PARTITION BY RANGE (id);
             CREATE INDEX ON insta5.events (kind);
             {partitions}"
        ));
}

/// Repeats a statement during the load; any error fails the test.
fn repeat_under_load(
    server: &Server,
    until: Instant,
    statement: impl Fn(usize) -> String,
) -> (usize, Duration) {
    let mut client = server.connect();
    let (mut calls, mut longest) = (0, Duration::ZERO);
    while Instant::now() < until {
        let statement = statement(calls);
        let started = Instant::now();
        run(&mut client, &statement);
        longest = longest.max(started.elapsed());
        calls += 1;
        thread::sleep(Duration::from_millis(5));
    }
    (calls, longest)
}

/// To drop a partition takes no longer if the table has many, or if other roles have many tables:
/// readers of the table wait meanwhile.
#[test]
fn partitions_are_dropped_without_a_search_for_each() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    run(&mut client, "CREATE EXTENSION instagram_id; SELECT create_shard(5)");
    let pid = one(&mut client, "SELECT pg_backend_pid()");
    let epoch = "'2011-08-24 21:07:01.721+00'";
    let [few, many] = [100, 1000].map(|days| {
        run(
            &mut client,
            &format!(
                "CREATE TABLE t{days} (id bigint) PARTITION BY RANGE (id);
                 SELECT create_id_partitions('t{days}', 'day', 1, now() - interval '{days} days', {epoch})"
            ),
        );
        let drop = format!("drop_old_id_partitions('t{days}', now() - interval '50 days', {epoch})");
        let before = cpu_time(pid);
        let count: i64 = one(&mut client, &format!("SELECT count(*) FROM {drop}"));
        (cpu_time(pid) - before) / u32::try_from(count).unwrap()
    });
    println!("CPU time to drop one of many partitions: {many:.1?}, one of few: {few:.1?}");
    assert!(many < 2 * few + Duration::from_millis(1), "{many:?}, {few:?}");
}

/// Writers continue while sessions create and drop partitions of all sizes, some of which are
/// rolled back. The test also creates a partition of 0.3 s for every 0.7 s, so that the partition
/// of the current time changes often.
#[test]
#[expect(clippy::too_many_lines, reason = "one history of a table")]
fn writers_continue_while_partitions_are_created_and_dropped() {
    let server =
        Server::start(&[("fsync", "off"), ("deadlock_timeout", "100ms"), ("log_lock_waits", "on")]);
    let seconds = length(5, 60);
    setup_events(
        &mut server.connect(),
        &format!(
            "DO $$
             DECLARE
                 start timestamptz := date_trunc('second', clock_timestamp());
                 at timestamptz;
             BEGIN
                 FOR n IN 0..{seconds} * 2 + 40 LOOP
                     at := start + n * interval '0.7 s';
                     EXECUTE format('CREATE TABLE insta5.by_hand_%s PARTITION OF insta5.events FOR VALUES FROM (%s) TO (%s)',
                         n, id_floor(at), id_floor(at + interval '0.3 s'));
                 END LOOP;
             END $$;
             SELECT create_id_partitions('insta5.events', 'month', 1, now() - interval '40 days')"
        ),
    );
    let inserts = [
        query("INSERT INTO insta5.events DEFAULT VALUES RETURNING id"),
        query(
            "INSERT INTO insta5.events (kind) SELECT 'many' FROM generate_series(1, 100) RETURNING id",
        ),
        query(
            "BEGIN; INSERT INTO insta5.events (kind) VALUES ('a') RETURNING id; SELECT FROM pg_sleep(0.002) OFFSET 1; \
               INSERT INTO insta5.events (kind) VALUES ('b') RETURNING id; COMMIT",
        ),
    ];
    let in_transaction = |call: String, n: usize| {
        format!("BEGIN; {call}; {}", if n.is_multiple_of(3) { "ROLLBACK" } else { "COMMIT" })
    };
    let tally = Mutex::new(vec![]);
    let (sessions, ()) = under_load(
        || server.try_connect(),
        WRITERS,
        &inserts,
        || {
            let until = Instant::now() + Duration::from_secs(seconds);
            thread::scope(|scope| {
                for first in 0..3 {
                    let (server, tally) = (&server, &tally);
                    scope.spawn(move || {
                    let figures = repeat_under_load(server, until, |n| {
                        let (period, ahead) = (PERIODS[(first + n) % 3], n % 20);
                        let make = format!(
                            "SELECT count(*) FROM create_id_partitions('insta5.events', '{period}', {ahead}, now() - {} * interval '1 day')",
                            n % 7 * 5
                        );
                        in_transaction(make, n)
                    });
                    tally.lock().unwrap().push(("create", figures));
                });
                }
                for detach in [false, true] {
                    let (server, tally) = (&server, &tally);
                    scope.spawn(move || {
                    let figures = repeat_under_load(server, until, |n| {
                        // Detached partitions are dropped to free the names for new ones.
                        let remove = format!(
                            "WITH gone AS MATERIALIZED (SELECT part FROM drop_old_id_partitions('insta5.events', now() - {} * interval '1 day', detach => {detach}) AS part) \
                             SELECT count(*) FROM gone",
                            n % 5 * 6 + 2
                        );
                        let tidy = "DO $$ DECLARE it regclass; BEGIN FOR it IN SELECT oid FROM pg_class WHERE relnamespace = 'insta5'::regnamespace \
                             AND relkind = 'r' AND relname LIKE 'events\\_p%' AND NOT relispartition LOOP EXECUTE format('DROP TABLE IF EXISTS %s', it); END LOOP; END $$";
                        in_transaction(if detach { format!("{remove}; {tidy}") } else { remove }, n)
                    });
                    tally.lock().unwrap().push((if detach { "detach" } else { "drop" }, figures));
                });
                }
            });
        },
    );
    for (what, (calls, longest)) in tally.into_inner().unwrap() {
        println!("    {what}: {calls} calls, the longest {longest:?}");
        assert!(calls > 5, "{what}: {calls} calls");
    }
    let longest = sessions.iter().flat_map(Received::times).max().unwrap();
    let mut journal = Journal::new("inserts while partitions come and go", Clock::IN_STEP);
    let received: HashSet<i64> =
        sessions.iter().flat_map(|session| session.ids.iter().copied()).collect();
    journal.add(sessions);
    journal.check();
    let mut client = server.connect();
    let kept: HashSet<i64> =
        column(&mut client, "SELECT id FROM insta5.events").into_iter().collect();
    println!("    {} ids received, the longest insert took {longest:?}", received.len());
    let lost = received.difference(&kept).count();
    assert_eq!(lost, 0, "{lost} of {} rows are lost", received.len());
    assert_eq!(kept.len(), received.len(), "rows whose ids no client has received");
    let in_places: i64 = one(&mut client, "SELECT count(DISTINCT tableoid) FROM insta5.events");
    assert!(in_places >= seconds as i64, "the rows are in {in_places} partitions");
    assert!(!server.log().contains("deadlock detected"), "{}", server.log());
}

/// Does what a scheduler does once a day, over days to which the server's clock is set, with the
/// table in use all the time: there is always a partition for the next ids, and old ones are
/// dropped.
#[test]
fn daily_maintenance_keeps_partitions_current() {
    let server = Server::start_with_a_clock_of_its_own(&[("fsync", "off")]);
    setup_events(&mut server.connect(), "SELECT create_id_partitions('insta5.events', 'day', 3)");
    let days = length(20, 400);
    let insert = [query("INSERT INTO insta5.events DEFAULT VALUES RETURNING id")];
    let mut journal =
        Journal::new("a clock that goes day by day, beside daily partitions", Clock::Set);
    let (sessions, most) = under_load(
        || server.try_connect(),
        2,
        &insert,
        || {
            let mut client = server.connect();
            let mut most = 0;
            for day in 1..=days {
                // Some days are skipped: three days ahead are enough for two without the scheduler.
                server.set_clock(day as f64 * DAY);
                thread::sleep(Duration::from_millis(20));
                if day % 5 == 3 {
                    continue;
                }
                run(
                    &mut client,
                    "SELECT create_id_partitions('insta5.events', 'day', 3);
                     SELECT drop_old_id_partitions('insta5.events', now() - interval '10 days')",
                );
                let row = client
                .query_one(
                    "SELECT count(*), count(*) FILTER (WHERE begins > now()),
                            extract(epoch FROM max(begins) - min(begins))::bigint / 86400 + 1
                     FROM (SELECT id_time((regexp_match(pg_get_expr(relpartbound, oid), '\\d+'))[1]::bigint) AS begins
                           FROM pg_class WHERE relispartition AND relkind = 'r') AS t",
                    &[],
                )
                .unwrap();
                let [count, ahead, span]: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
                assert_eq!((ahead, span), (3, count), "day {day}: ahead, and without a gap");
                assert!(count <= 14, "day {day}: {count} partitions");
                most = most.max(count);
            }
            most
        },
    );
    let made: usize = sessions.iter().map(|session| session.ids.len()).sum();
    println!("    {days} days, {made} inserts, {most} partitions at most");
    assert_eq!(most, 14);
    journal.add(sessions);
    journal.faults = days;
    journal.check();
}

/// Other sessions hold the locks on the indexes of a partition, and each gives its lock up shortly
/// after the removal waits for it. All these waits together are short for a reader of the table.
#[test]
fn locks_held_one_after_the_other_do_not_add_up() {
    let server = Server::start(&[("fsync", "off")]);
    let mut owner = server.connect();
    run(
        &mut owner,
        "CREATE EXTENSION instagram_id; CREATE TABLE days (id bigint, n int) PARTITION BY RANGE (id);
         CREATE TABLE old PARTITION OF days FOR VALUES FROM (id_floor('2024-01-01+00')) TO (id_floor('2024-02-01+00'));
         CREATE TABLE new PARTITION OF days FOR VALUES FROM (id_floor('2024-02-01+00')) TO (MAXVALUE);
         DO $$ BEGIN FOR i IN 1..10 LOOP EXECUTE format('CREATE INDEX i%s ON old (n)', i); END LOOP; END $$;
         CREATE ROLE nobody",
    );
    // Without any privilege: the error comes after the lock.
    let hold = |index: i64| {
        let mut client = server.connect();
        run(&mut client, "SET ROLE nobody; BEGIN; SAVEPOINT s");
        assert!(client.batch_execute(&format!("SELECT nextval({index})")).is_err());
        run(&mut client, "ROLLBACK TO s");
        (index, client)
    };
    let indexes = column(
        &mut owner,
        "SELECT indexrelid::int8 FROM pg_index WHERE indrelid = 'old'::regclass",
    );
    let holders: HashMap<i64, Client> = indexes.into_iter().map(hold).collect();
    let drop_old = "SELECT drop_old_id_partitions('days', '2024-02-01+00')";
    let (_, longest) = with_longest(&server, "SELECT count(*) FROM days", || {
        releasing(&server, holders, || run(&mut owner, drop_old))
    });
    assert!(longest < Duration::from_secs(2), "{longest:?}");
}
