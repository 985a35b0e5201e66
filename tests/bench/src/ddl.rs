//! Calls while another session creates and alters functions: what a session has cached must outlive
//! changes of other objects.

use crate::goals::{Goal, at_most};
use instagram_id_live::{Server, in_parallel, median, middle, run};
use postgres::Client;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SHARDS: usize = 1000;
const SESSIONS: usize = 4;
const ROUNDS: usize = 5;
const LONG_ENOUGH: Duration = Duration::from_secs(1);
const EVENT_ROUNDS: usize = 20;
const EVENT_CALLS: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// Each call uses another sequence than the one before it.
const CALLS: [&str; 2] =
    ["SELECT count(next_id(n)) FROM used", "SELECT count(nextval(plain)) FROM used"];

const CHANGES: [&str; 2] = [
    "CREATE OR REPLACE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "ALTER FUNCTION insta7.next_id() COST 100",
];

pub fn goals() -> Vec<Goal> {
    let server = Server::start(&[("fsync", "off"), ("max_locks_per_transaction", "256")]);
    let mut client = server.connect();
    run(&mut client, &format!(
            "CREATE EXTENSION instagram_id;
             SELECT count(create_shard(n)) FROM generate_series(0, {SHARDS} - 1) AS n;
             DO $$ BEGIN FOR n IN 0..{SHARDS} - 1 LOOP EXECUTE 'CREATE SEQUENCE plain' || n; END LOOP; END $$;
             CREATE TABLE used AS SELECT n, ('plain' || n)::regclass AS plain FROM generate_series(0, {SHARDS} - 1) AS n;
             ANALYZE used"
        ));
    let changes = CHANGES.iter().map(|change| of_a_change(&server, change));
    changes.chain(of_event_trigger(&mut client)).collect()
}

/// How much longer statements take that create and change a table elsewhere while the event trigger
/// for new tables is enabled.
fn of_event_trigger(client: &mut Client) -> Vec<Goal> {
    const STATEMENTS: [(&str, &str, &str, f64); 4] = [
        ("", "CREATE TABLE other (id bigserial PRIMARY KEY, n int)", "DROP TABLE other", 1.25),
        ("", "CREATE TABLE other (n int)", "DROP TABLE other", 1.25),
        ("CREATE TABLE other (n int)", "CREATE INDEX i ON other (n)", "DROP TABLE other", 1.05),
        (
            "",
            "CREATE TABLE insta7.new (id bigserial PRIMARY KEY, n int)",
            "DROP TABLE insta7.new",
            20.0,
        ),
    ];
    let create =
        "CREATE EVENT TRIGGER adopt_new_tables ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
        EXECUTE FUNCTION adopt_new_tables()";
    run(client, create);
    let goals = STATEMENTS.map(|(before, statement, after, limit)| {
        let mut times = [vec![], vec![]];
        for _ in 0..EVENT_ROUNDS {
            for (state, times) in ["ENABLE", "DISABLE"].into_iter().zip(&mut times) {
                run(client, &format!("ALTER EVENT TRIGGER adopt_new_tables {state}"));
                for n in 0..=EVENT_CALLS {
                    run(client, before);
                    let started = Instant::now();
                    run(client, statement);
                    // The first one fills caches.
                    times.extend((n > 0).then(|| started.elapsed()));
                    run(client, after);
                }
            }
        }
        let [on, off] = times.map(median);
        println!("    {statement}: {on:.0?} with the event trigger, {off:.0?} without");
        let what =
            format!("with the event trigger for new tables, {statement}: time by the factor");
        at_most(&what, limit, 1.0 + (limit - 1.0) / 2.0, on.as_secs_f64() / off.as_secs_f64())
    });
    run(client, "DROP EVENT TRIGGER adopt_new_tables");
    goals.into()
}

/// How much more a change every 10 ms slows down `next_id` than `nextval`.
fn of_a_change(server: &Server, change: &str) -> Goal {
    let losses = (0..ROUNDS).map(|_| {
        let [ids, values] =
            CALLS.map(|call| [None, Some(change)].map(|change| rate(server, call, change)));
        println!("    {change}: {ids:.0?} ids a second, {values:.0?} values of nextval");
        (ids[0] / ids[1]) / (values[0] / values[1])
    });
    let what = format!(
        "{SESSIONS} sessions on {SHARDS} shards, every 10 ms {change}: slower than nextval by the factor"
    );
    at_most(&what, 2.0, 1.2, middle(losses.collect::<Vec<_>>()))
}

/// Values a second of all sessions together, while another one makes that change.
fn rate(server: &Server, call: &str, change: Option<&str>) -> f64 {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        if let Some(change) = change {
            let stop = &stop;
            scope.spawn(move || {
                let mut client = server.connect();
                while !stop.load(Ordering::Relaxed) {
                    run(&mut client, change);
                    thread::sleep(PAUSE);
                }
            });
        }
        let rates = in_parallel(SESSIONS, |_| {
            let mut client = server.connect();
            let call = client.prepare(call).unwrap();
            let mut count = 0;
            client.query_one(&call, &[]).unwrap();
            let started = Instant::now();
            while started.elapsed() < LONG_ENOUGH {
                count += client.query_one(&call, &[]).unwrap().get::<_, i64>(0);
            }
            count as f64 / started.elapsed().as_secs_f64()
        });
        stop.store(true, Ordering::Relaxed);
        rates.into_iter().sum()
    })
}
