//! The portable edition, portable/instagram_id.sql: the rule, the mutex, crashes and privileges.

use crate::vectors;
use instagram_id_core::hlc::{self, Next, State};
use instagram_id_live::*;
use postgres::{Client, NoTls};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub const FILE: &str = "portable/instagram_id.sql";

/// A server with the portable edition and shard 5.
fn installed(settings: &[(&str, &str)]) -> Server {
    let server = Server::start(settings);
    install(&server);
    server
}

/// Installs the portable edition as a role that owns the database and is no superuser, and creates
/// shard 5.
pub fn install(server: &Server) {
    run(
        &mut server.connect(),
        "CREATE ROLE installer LOGIN; ALTER DATABASE postgres OWNER TO installer;
         ALTER DATABASE postgres SET search_path = public, ids",
    );
    let mut installer = server.connect_as("installer");
    run(&mut installer, &std::fs::read_to_string(of_project(FILE)).unwrap());
    run(
        &mut installer,
        "SELECT create_shard(5); CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC",
    );
}

/// The decoders match the test vectors. `_rule()` and `_next()` decide as the library does, for
/// states and clocks near each of the rule's limits.
#[test]
fn decoders_and_the_rule_are_those_of_the_library() {
    let server = installed(&[("fsync", "off"), ("timezone", "UTC")]);
    let mut client = server.connect();
    vectors::check(&mut client);
    // The planner evaluates a function of constants, also where it is not reached.
    let null = "SELECT (make_id(now(), NULL, 1), make_id(now(), NULL, 1, 'epoch'), make_id(now(), 1, NULL)) IS NULL";
    assert!(one::<bool>(&mut client, null));

    let mut random = random("the rule in SQL");
    let now = 480_000_000_000_i64;
    let end = hlc::VALUE_MAX >> 10;
    let near = |random: &mut fastrand::Rng| {
        let center = [0, 0, -1, 1, -3_600_000, 86_400_000, i64::MIN >> 12, now][random.usize(..8)];
        center + random.i64(-3..=3)
    };
    let rule = client
        .prepare(
            "SELECT first, len, ticks, error, ids._next($1, $3) FROM ids._rule($1, $2, $3, $4, $5)",
        )
        .unwrap();
    for _ in 0..length(2_000, 100_000) {
        let now_ms = [now, now, now, 0, -1, end, end + 1][random.usize(..7)];
        let last_value = match random.usize(..10) {
            0 => hlc::VALUE_MAX - random.i64(-2..=2),
            1 => random.i64(-3000..3000),
            _ => (now_ms - near(&mut random)) << 10 | [0, 5, 1022, 1023][random.usize(..4)],
        };
        let state = State { last_value, is_called: random.u8(..8) > 0 };
        let (want, has_waited) = ([1, 2, 1024, 5000][random.usize(..4)], random.bool());
        let expected = hlc::next(state, now_ms, want, has_waited.then_some(state));
        let row = client
            .query_one(&rule, &[&state.last_value, &state.is_called, &now_ms, &want, &has_waited]);
        let row = row.unwrap();
        let (first, len, ticks): (Option<i64>, Option<i64>, Option<i32>) =
            (row.get(0), row.get(1), row.get(2));
        let found = match (first, ticks, row.get(3)) {
            (Some(first), None, None) => Next::Take(hlc::Run { first, len: len.unwrap() }),
            (None, Some(ticks), None) => Next::Wait { ticks: ticks.into() },
            (None, None, Some("2200H")) => Next::Exhausted,
            (None, None, Some("22008")) => Next::ClockBeforeEpoch,
            (None, None, Some("2200H clock")) => Next::ClockPastField,
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{state:?} at {now_ms}, {want} wanted, waited: {has_waited}");
        // The short form never takes what the rule does not, and takes what it would at once.
        let short: Option<i64> = row.get(4);
        let at_once = match hlc::next(state, now_ms, 1, None) {
            Next::Take(run) if now_ms >= 0 => Some(run.first),
            _ => None,
        };
        if state.is_called {
            assert_eq!(short, at_once, "{state:?} at {now_ms}");
        }
    }
}

/// The ways to generate ids in the portable edition.
pub fn work() -> Vec<Work> {
    vec![
        query("SELECT insta5.next_id()"),
        query("SELECT insta5.next_id() FROM generate_series(1, 50)"),
        query("SELECT next_ids(5, 2000)"),
        query(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT insta5.next_id(); SAVEPOINT a; SELECT next_id(5); ROLLBACK TO a; SELECT insta5.next_id(); COMMIT",
        ),
        unrecorded("BEGIN; SELECT insta5.next_id(); ROLLBACK"),
    ]
}

/// While the clock jumps and statements are canceled at random moments, no id repeats, and no mutex
/// stays locked.
#[test]
fn clock_jumps_and_cancels_repeat_nothing() {
    let server = Server::start_with_a_clock_of_its_own(&[("fsync", "off")]);
    install(&server);
    let mut journal = Journal::new("portable, clock jumps and cancels", Clock::Set);
    let mut random = random("portable, clock jumps");
    let cancelable: Vec<Work> = vec![Box::new(|client, received| {
        match received.run(client, "SELECT insta5.next_id() FROM generate_series(1, 20)") {
            Err(error) if error.code().is_some_and(|code| code.code() == "57014") => Ok(()),
            other => other,
        }
    })];
    let mut all = work();
    all.extend(cancelable);
    let (sessions, ()) = under_load(
        || server.try_connect(),
        6,
        &all,
        || {
            let mut client = server.connect();
            let cancel =
                "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE state = 'active'
                AND pid <> pg_backend_pid() AND query LIKE '%generate_series(1, 20)'";
            for _ in 0..length(100, 3000) {
                let jump = [0.001, -0.001, 0.5, -0.5, 60.0, -60.0, HOUR, -HOUR, 0.0];
                server.set_clock(jump[random.usize(..jump.len())]);
                thread::sleep(Duration::from_millis(random.u64(1..20)));
                journal.faults += 1 + one::<i64>(&mut client, cancel) as usize;
            }
        },
    );
    journal.add(sessions);
    journal.check();
    let mutexes = "SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation WHERE relname ~ '^_(mutex|queue)_'";
    server.wait_for("the end of the sessions", || one::<i64>(&mut server.connect(), mutexes) == 0);
}

/// A session that waits after the sequence was set back does not use another state that it was set
/// back to in the meantime, since its millisecond may have been used since. All states have one
/// sequence field.
#[test]
fn sequence_set_back_concurrently_repeats_no_ids() {
    let server = installed(&[("fsync", "off")]);
    let mut journal = Journal::new("portable, a sequence set back", Clock::IN_STEP);
    journal.add(in_parallel(6, |n| {
        let mut client = server.connect_as("installer");
        let mut received = Received::default();
        for step in 1..=500 {
            if n < 2 {
                let ms = 2 * step + n;
                run(&mut client, &format!("SELECT setval('insta5.table_id_seq', {ms} << 10)"));
            }
            received.run(&mut client, "SELECT insta5.next_id()").unwrap();
        }
        received
    }));
    journal.check();
}

/// A session that waits for the lock on a sequence holds no mutex, so it does not delay calls for
/// other sequences with the same one. A call waits for a mutex no longer than `lock_timeout`.
#[test]
fn waits_for_sequences_and_mutexes_are_limited() {
    let server = installed(&[("fsync", "off")]);
    let mut installer = server.connect_as("installer");
    run(&mut installer, "SELECT create_shard(n) FROM generate_series(6, 120) AS n");
    let other: String = installer
        .query_one(
            "SELECT a.schema::text FROM id_shards AS a, id_shards AS b WHERE a.shard <> 5 AND b.shard = 5
             AND ids._mutex(a.sequence) = ids._mutex(b.sequence) LIMIT 1",
            &[],
        )
        .unwrap()
        .get(0);
    let mut ddl = server.connect();
    let calls = [
        "SELECT insta5.next_id()",
        "SELECT next_ids(5, 2)",
        "SELECT advance_shard(5, make_id(now(), 5, 0))",
    ];
    for call in calls {
        run(&mut ddl, "BEGIN; ALTER SEQUENCE insta5.table_id_seq NO CYCLE");
        thread::scope(|scope| {
            let waits = scope.spawn(|| run(&mut server.connect_as("installer"), call));
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'insta5.table_id_seq'::regclass";
            server.wait_for(call, || one::<i64>(&mut server.connect(), waiting) == 1);
            let in_time = format!("SET statement_timeout = '5s'; SELECT {other}.next_id()");
            let result = installer.batch_execute(&in_time);
            run(&mut ddl, "COMMIT");
            waits.join().unwrap();
            result.unwrap_or_else(|error| panic!("{call}: {}", why(&error)));
        });
    }

    let mutex: i32 = one(&mut ddl, "SELECT ids._mutex('insta5.table_id_seq'::regclass)");
    run(&mut ddl, &format!("BEGIN; LOCK TABLE ids_mutexes._mutex_{mutex}"));
    run(&mut installer, "SET lock_timeout = '100ms'");
    for call in ["SELECT insta5.next_id()", "SELECT next_ids(5, 2)"] {
        assert_eq!(error_of(&mut installer, call).0, "55P03", "{call}");
    }
}

/// Nothing is parsed under a mutex, which would read all functions and operators of a name, of any
/// schema: any role can create thousands. A session that has taken a mutex waits for no catalog
/// before it has released it, in its first call and after a change of its search_path.
#[test]
fn nothing_is_parsed_under_a_mutex() {
    let server = installed(&[("fsync", "off")]);
    let mut holder = server.connect();
    let mutex: i32 = one(&mut holder, "SELECT ids._mutex('insta5.table_id_seq'::regclass)");
    let mut catalogs = server.connect();
    let waiting = format!(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'ids_mutexes._mutex_{mutex}'::regclass"
    );
    let state = format!(
        "SELECT count(*) FILTER (WHERE NOT granted) > 0,
            count(*) FILTER (WHERE relation = 'ids_mutexes._mutex_{mutex}'::regclass) > 0
         FROM pg_locks WHERE pid = $1"
    );
    let state = catalogs.prepare(&state).unwrap();
    run(&mut catalogs, "SET lock_timeout = '30s'");
    let debug = "SET client_min_messages = debug1";
    for (before, call) in [
        ("", "SELECT insta5.next_id()"),
        ("SELECT insta5.next_id(); SET search_path = app, ids", "SELECT insta5.next_id()"),
        (debug, "SELECT insta5.next_id()"),
        ("", "SELECT ids._take('insta5.table_id_seq', '2011-01-01', 5)"),
    ] {
        let mut client = server.connect_as("installer");
        run(&mut client, "SET statement_timeout = '60s'");
        run(&mut client, before);
        let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
        run(
            &mut holder,
            &format!("BEGIN; LOCK TABLE ids_mutexes._mutex_{mutex} IN SHARE UPDATE EXCLUSIVE MODE"),
        );
        thread::scope(|scope| {
            let calls = scope.spawn(|| run(&mut client, call));
            server.wait_for(call, || one::<i64>(&mut server.connect(), &waiting) == 1);
            catalogs.query(&state, &[&pid]).unwrap();
            run(
                &mut catalogs,
                "BEGIN; LOCK TABLE pg_proc, pg_operator, pg_type, pg_cast IN ACCESS EXCLUSIVE MODE",
            );
            run(&mut holder, "COMMIT");
            let mut waits_with_mutex = false;
            server.wait_for("the end of the visit", || {
                let row = catalogs.query_one(&state, &[&pid]).unwrap();
                let waits = row.get(0);
                waits_with_mutex = waits && row.get(1);
                waits || calls.is_finished()
            });
            run(&mut catalogs, "COMMIT");
            calls.join().unwrap();
            assert!(!waits_with_mutex, "{before}, {call}: parses something under the mutex");
        });
    }
}

/// Any role can lock the view of create_shard() in the mode in which a sequence is used, to the end
/// of a transaction. Nothing waits for that, and the wait for another session that creates a shard
/// has a limit.
#[test]
fn strangers_do_not_block_create_shard() {
    let server = installed(&[("fsync", "off")]);
    let mut admin = server.connect();
    run(&mut admin, "CREATE ROLE stranger LOGIN");
    let view: u32 = one(&mut admin, "SELECT 'ids_mutexes._create_shard'::regclass::oid");
    let mut stranger = server.connect_as("stranger");
    run(&mut stranger, "BEGIN; SAVEPOINT a");
    assert_eq!(
        error_of(&mut stranger, &format!("SELECT nextval({view}::oid::regclass)")).0,
        "42809"
    );
    run(&mut stranger, "ROLLBACK TO a");
    let held = format!("SELECT mode FROM pg_locks WHERE relation = {view}");
    assert_eq!(one::<String>(&mut admin, &held), "RowExclusiveLock");
    let mut installer = server.connect_as("installer");
    run(&mut installer, "SET statement_timeout = '60s'; BEGIN; SELECT create_shard(91)");
    let mut other = server.connect_as("installer");
    for (limit, next) in [("100ms", 93), ("0", 94)] {
        run(&mut other, &format!("SET statement_timeout = '60s'; SET lock_timeout = '{limit}'"));
        let refused = error_of(&mut other, "SELECT create_shard(92)");
        assert_eq!(refused.0, "55P03");
        assert!(
            refused.1.starts_with("could not obtain the lock of create_shard()"),
            "{refused:?}"
        );
        run(&mut installer, "COMMIT");
        run(&mut other, "BEGIN; SELECT create_shard(92)");
        assert_eq!(one::<String>(&mut other, "SHOW lock_timeout"), limit);
        run(&mut other, "ROLLBACK");
        run(&mut installer, &format!("BEGIN; SELECT create_shard({next})"));
    }
}

fn walwriter(server: &Server) -> i32 {
    one(&mut server.connect(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
}

/// After crashes each id is greater than all acknowledged ones. The sequence is an hour ahead,
/// where the clock cannot hide a loss. Without synchronous_commit ids are lost, so the test can
/// fail.
#[test]
fn crashes_lose_no_acknowledged_id() {
    for (synchronous_commit, may_lose) in [("on", false), ("off", true)] {
        // A killed process loses nothing that it has written.
        let settings = [("synchronous_commit", synchronous_commit), ("fsync", "off")];
        let server = installed(&settings);
        one::<i64>(&mut server.connect(), "SELECT insta5.next_id()");
        set_an_hour_ahead(&mut server.connect(), "insta5.table_id_seq");
        // Without synchronous_commit a crash could take the shard too.
        run(&mut server.connect(), "CHECKPOINT");
        let mut random = random("portable, crashes");
        let acknowledged = Arc::new(Mutex::new(vec![]));
        let mut lost = 0;
        for _ in 0..length(3, 60) {
            let noted = acknowledged.clone();
            let keep: Work = Box::new(move |client, received| {
                received.run(client, "SELECT insta5.next_id()")?;
                noted.lock().unwrap().push(*received.ids.last().unwrap());
                Ok(())
            });
            under_load(
                || server.try_connect(),
                4,
                &[keep],
                || {
                    // Then only a commit writes the WAL, or a full buffer.
                    server.freeze(walwriter(&server));
                    // Each record of WAL is for up to 32 ids.
                    let count = acknowledged.lock().unwrap().len() + 100;
                    server.wait_for("ids", || acknowledged.lock().unwrap().len() > count);
                    thread::sleep(Duration::from_millis(random.u64(50..300)));
                    server.crash();
                    let before = *acknowledged.lock().unwrap().iter().max().unwrap();
                    server.launch();
                    let next: i64 = one(&mut server.connect(), "SELECT insta5.next_id()");
                    lost += usize::from(next <= before);
                },
            );
        }
        println!("synchronous_commit = {synchronous_commit}: ids lost in {lost} crashes");
        assert_eq!(lost > 0, may_lose, "synchronous_commit = {synchronous_commit}");
    }
}

/// The planner inlines each function with a name of the library, except those that it never can. A
/// statement that calls another one could fail when the library takes over.
#[test]
fn functions_of_the_library_are_inlined() {
    let server = installed(&[("fsync", "off")]);
    let mut client = server.connect();
    run(
        &mut client,
        "CREATE TABLE public.t (i integer, b bigint, t text, tz timestamptz, r regclass);
         SET search_path = pg_catalog",
    );
    let calls = "SELECT proname || ' ids.' || proname || '(' || (
            SELECT coalesce(string_agg(CASE type WHEN 'integer'::regtype THEN 'i' WHEN 'bigint'::regtype THEN 'b'
                WHEN 'text'::regtype THEN 't' WHEN 'regclass'::regtype THEN 'r' ELSE 'tz' END, ', ' ORDER BY n), '')
            FROM unnest(proargtypes) WITH ORDINALITY AS u (type, n)) || ')'
        FROM pg_proc WHERE pronamespace = 'ids'::regnamespace AND proname !~ '^_' AND proname <> 'create_shard'
        ORDER BY 1";
    let mut kept = vec![];
    for call in texts(&mut client, calls) {
        let (name, call) = call.split_once(' ').unwrap();
        let plan = format!("EXPLAIN (VERBOSE, COSTS OFF) SELECT {call} FROM public.t");
        if texts(&mut client, &plan).concat().contains(&format!("ids.{name}(")) {
            kept.push(name.to_owned());
        }
    }
    assert_eq!(kept, ["advance_shard", "claim_shard", "id_parts", "id_parts", "next_ids"]);
}

/// Each kind of role can do what the table of docs/run/portable.md shows.
#[test]
fn roles_can_do_what_the_page_shows() {
    let server = installed(&[("fsync", "off")]);
    let mut client = server.connect();
    run(
        &mut client,
        "CREATE ROLE stranger LOGIN; CREATE ROLE writer LOGIN; CREATE ROLE sequence_user LOGIN;
         GRANT USAGE ON SCHEMA insta5 TO writer, sequence_user;
         GRANT USAGE, UPDATE ON SEQUENCE insta5.table_id_seq TO sequence_user;
         GRANT CREATE ON DATABASE postgres TO stranger, writer, sequence_user;
         CREATE SEQUENCE public.own; GRANT ALL ON SEQUENCE public.own TO PUBLIC",
    );
    let actions = [
        ("SELECT insta5.next_id()", ["42501", "", "", ""]),
        ("SELECT next_id(5)", ["42501", "", "", ""]),
        ("SELECT next_ids(5, 10)", ["42501", "", "", ""]),
        ("SELECT next_id(5, 'insta5.table_id_seq')", ["42501", "42501", "42501", ""]),
        ("SELECT next_id(5, 'public.own')", ["42501", "42501", "42501", ""]),
        (
            "SELECT ids._take('insta5.table_id_seq', '2011-01-01', 5)",
            ["42501", "42501", "42501", ""],
        ),
        ("SELECT nextval('insta5.table_id_seq')", ["42501", "42501", "", ""]),
        ("SELECT setval('insta5.table_id_seq', 1)", ["42501", "42501", "", ""]),
        (
            "SELECT advance_shard(5, make_id('2015-01-01+00', 5, 0))",
            ["42501", "42501", "42501", ""],
        ),
        ("SELECT claim_shard(5)", ["42501", "42501", "42501", ""]),
        ("SELECT create_shard(6)", ["42501", "42501", "42501", ""]),
        ("BEGIN; LOCK TABLE ids_mutexes._mutex_3; ROLLBACK", ["42501", "42501", "42501", ""]),
        (
            "BEGIN; LOCK TABLE ids_mutexes._mutex_3 IN ACCESS SHARE MODE; ROLLBACK",
            ["42501", "42501", "42501", ""],
        ),
        (
            "BEGIN; CREATE TEMP VIEW v AS SELECT FROM ids_mutexes._mutex_3; LOCK TABLE v; ROLLBACK",
            ["42501", "42501", "42501", ""],
        ),
        ("ALTER SEQUENCE insta5.table_id_seq RESTART WITH 1", ["42501", "42501", "42501", ""]),
        (
            "CREATE FUNCTION ids.next_id(smallint) RETURNS bigint RETURN 1",
            ["42501", "42501", "42501", ""],
        ),
        ("SELECT count(*) FROM id_shards", ["", "", "", ""]),
    ];
    for (action, expected) in actions {
        for (role, expected) in
            ["stranger", "writer", "sequence_user", "installer"].into_iter().zip(expected)
        {
            let result = server.connect_as(role).batch_execute(action);
            let found = result
                .map_or_else(|error| error.code().unwrap().code().to_owned(), |()| String::new());
            assert_eq!(found, expected, "{role}: {action}");
        }
    }
    // PostgreSQL sends an error before it releases the locks of the statement, so a client that
    // reads nothing holds the lock of a statement that is refused. A role that may not use the
    // schema of the mutexes cannot hold one this way.
    for role in ["stranger", "writer", "sequence_user"] {
        let usage = format!("SELECT has_schema_privilege('{role}', 'ids_mutexes', 'USAGE')");
        assert!(!one::<bool>(&mut client, &usage), "{role}");
    }
}

/// The statements of hints work, whatever search_path is.
#[test]
fn hints_can_be_followed() {
    let server = installed(&[("fsync", "off")]);
    run(
        &mut server.connect(),
        "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA insta5 TO writer;
         GRANT USAGE, UPDATE ON SEQUENCE insta5.table_id_seq TO writer",
    );
    let call = "SELECT advance_shard(5, make_id('2015-01-01+00', 5, 0))";
    let (_, message, hint) = error_of(&mut server.connect_as("writer"), call);
    assert!(message.starts_with("must be owner of schema ids\n"), "{message}");
    assert_eq!(hint, "Use SET ROLE installer.");
    let mut installer = server.connect_as("installer");
    run(&mut installer, "SET search_path = public");
    let (_, _, hint) = error_of(&mut installer, "SELECT ids.next_id(99)");
    run(&mut installer, hint.strip_prefix("Create the shard with ").unwrap().trim_end_matches('.'));
    // A function that a migration has replaced, with a default on it.
    run(
        &mut installer,
        "CREATE TABLE insta5.photos (id bigint DEFAULT insta5.next_id());
         CREATE OR REPLACE FUNCTION insta5.next_id() RETURNS bigint LANGUAGE sql
             RETURN nextval('insta5.table_id_seq')",
    );
    let reason = "SELECT reason FROM ids.id_shards WHERE shard = 5";
    let replaced = "insta5.next_id() does not generate the shard's ids";
    assert_eq!(one::<String>(&mut server.connect_as("writer"), reason), replaced);
    let again = "SELECT ids.create_shard(5, if_not_exists => true)";
    let (_, _, hint) = error_of(&mut installer, again);
    run(
        &mut installer,
        hint.strip_prefix("End all sessions that use it, then use ").unwrap().trim_end_matches('.'),
    );
    assert_eq!(one::<Option<String>>(&mut installer, reason), None);
    run(&mut installer, again);
    run(&mut server.connect_as("writer"), "SELECT insta5.next_id()");
    // A function with the rights of its callers, as that of a shard from the library.
    run(&mut installer, "ALTER FUNCTION insta5.next_id() SECURITY INVOKER");
    let invoker = "insta5.next_id() does not run with the rights of its owner";
    assert_eq!(one::<String>(&mut installer, reason), invoker);
    let call = "SELECT insta5.next_id()";
    let (_, _, hint) = error_of(&mut server.connect_as("writer"), call);
    assert!(hint.contains(" call claim_shard() "), "{hint}");
    run(&mut installer, "SELECT ids.claim_shard(5)");
    run(&mut server.connect_as("writer"), call);
    run(
        &mut installer,
        "CREATE OR REPLACE FUNCTION insta5.epoch() RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN now();
         DROP FUNCTION insta5.id_time(bigint)",
    );
    let others = "insta5.epoch() is not the shard's; insta5.id_time(bigint) is missing";
    assert_eq!(one::<String>(&mut installer, reason), others);
}

/// PostgreSQL sends messages during a call where the settings of a session ask for them. A client
/// that reads nothing does not keep a mutex, whichever message does not fit into its socket.
#[test]
fn clients_that_do_not_read_hold_no_mutex() {
    let server = installed(&[("fsync", "off")]);
    run(&mut server.connect(), "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA insta5 TO writer");
    let call = "SELECT insta5.next_id()";
    let mut other = server.connect_as("writer");
    // Also reads all pages that the sessions below need. From PostgreSQL 18 on, others wait for a
    // read during which a message is sent.
    let debug = "SET client_min_messages = debug5";
    run(&mut server.connect_as("writer"), &format!("{debug}; {call}"));
    run(&mut other, &format!("SET statement_timeout = '10s'; {call}"));
    for settings in [debug, "SET exit_on_error = on"] {
        let during = |_: &Unread| run(&mut other, call);
        let stopped = Unread::at_each_message(&server, ("writer", settings, call), || (), during);
        // With the other setting only a call that fails would send a message before its end.
        assert_eq!(stopped > 0, settings == debug, "{settings}: {stopped}");
    }
}

/// No setting of a session makes a call start a parallel worker, for which all that wait for its
/// mutex would wait, too. The log shows each worker.
#[test]
fn settings_of_a_caller_start_no_worker() {
    let server = installed(&[("fsync", "off"), ("log_min_messages", "debug1")]);
    run(&mut server.connect(), "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA insta5 TO writer");
    let mut writer = server.connect_as("writer");
    let force = if major() < 16 { "force_parallel_mode" } else { "debug_parallel_query" };
    let settings = format!(
        "SET {force} = on; SET max_parallel_workers_per_gather = 2; SET client_min_messages = log"
    );
    run(&mut writer, &settings);
    let workers =
        || server.log().matches("starting background worker process \"parallel worker").count();
    run(&mut writer, "SELECT count(*) FROM pg_class");
    let before = workers();
    assert!(before > 0, "the settings start no worker");
    run(&mut writer, "SELECT insta5.next_id()");
    run(&mut writer, "SELECT insta5.next_id()");
    assert_eq!(workers(), before);
}

/// Default privileges of the installer give other roles nothing on the schema and the mutexes, and
/// take nothing from the functions.
#[test]
fn default_privileges_do_not_open_the_mutexes() {
    let server = Server::start(&[("fsync", "off")]);
    run(
        &mut server.connect(),
        "CREATE ROLE installer LOGIN; CREATE ROLE app LOGIN; ALTER DATABASE postgres OWNER TO installer;
         ALTER DEFAULT PRIVILEGES FOR ROLE installer GRANT ALL ON TABLES TO app, PUBLIC;
         ALTER DEFAULT PRIVILEGES FOR ROLE installer GRANT ALL ON SCHEMAS TO app;
         ALTER DEFAULT PRIVILEGES FOR ROLE installer REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC",
    );
    let file = std::fs::read_to_string(of_project(FILE)).unwrap();
    for _ in 0..2 {
        run(&mut server.connect_as("installer"), &file);
        let mut app = server.connect_as("app");
        for mutex in ["_mutex_0", "_mutex_15", "_create_shard"] {
            assert_eq!(
                error_of(&mut app, &format!("BEGIN; LOCK TABLE ids_mutexes.{mutex}")).0,
                "42501"
            );
            run(&mut app, "ROLLBACK");
        }
        // Their schema is closed, too.
        let grants = "SELECT count(*) FROM pg_class, aclexplode(relacl)
            WHERE relnamespace = 'ids_mutexes'::regnamespace AND grantee <> relowner";
        assert_eq!(one::<i64>(&mut server.connect(), grants), 0);
        let function = "CREATE FUNCTION ids.id_time(text) RETURNS timestamptz RETURN now()";
        assert_eq!(error_of(&mut app, function).0, "42501");
        run(
            &mut app,
            "SELECT ids.id_time(5), ids.make_id(now(), 5, 5); SELECT * FROM ids.id_shards",
        );
    }
    // A grant on the sequence would not help, and permits nextval, which repeats ids.
    run(&mut server.connect_as("installer"), "SELECT ids.create_shard(5)");
    run(&mut server.connect_as("installer"), "GRANT USAGE ON SCHEMA insta5, ids TO app");
    let mut app = server.connect_as("app");
    let refused = error_of(&mut app, "SELECT ids.next_id(5, 'insta5.table_id_seq')");
    let message = "role app cannot generate ids from sequence insta5.table_id_seq";
    assert!(refused.0 == "42501" && refused.1.starts_with(message), "{refused:?}");
}

/// Functions, operators and types of another role that come first in search_path, and definitions
/// of its shards, change nothing.
#[test]
fn hostile_objects_are_not_used() {
    let server = installed(&[("fsync", "off")]);
    let mut client = server.connect_as("installer");
    install_traps(&server, "SELECT lay_traps('trap', true)");
    run(
        &mut server.connect_as("mallory"),
        "CREATE SCHEMA insta7; CREATE SEQUENCE insta7.table_id_seq;
         CREATE FUNCTION insta7.shard_5(OUT sequence regclass, OUT epoch timestamptz, OUT home text) LANGUAGE sql
            BEGIN ATOMIC SELECT 'insta7.table_id_seq'::regclass, '2011-08-24 21:07:01.721+00'::timestamptz, ''::text; END",
    );
    run(&mut client, "SET search_path = trap, pg_catalog, ids");
    run(
        &mut client,
        "SELECT (SELECT pg_catalog.max(id) FROM ids.next_ids(5, 3) AS id), insta5.next_id(), ids.next_id(5), ids.create_shard(6), ids.id_time(5), ids.id_parts(7),
            ids.make_id(pg_catalog.now(), 5, 5), ids.id_between(5, pg_catalog.now(), pg_catalog.now()), ids.shard_for(5, 6),
            ids.id_to_shortcode(77), ids.shortcode_to_id('B8IzNOMBtIQ'), ids.advance_shard(5, 5120), ids.claim_shard(5);
         SELECT * FROM ids.id_shards; SELECT ids.next_id(6, 'insta6.table_id_seq')",
    );
    assert_eq!(roles_caught(&server), Vec::<String>::new());
    // The traps work.
    let _ = client.batch_execute("SELECT 5::pg_catalog.int8 + 5::pg_catalog.int8");
    assert_eq!(roles_caught(&server), ["installer"]);
}

/// Sets backslashes in strings to their old meaning, which PostgreSQL has until 18.
pub fn with_old_strings(client: &mut Client) {
    if major() < 19 {
        run(client, "SET standard_conforming_strings = off");
    }
}

/// Neither the name of the installer nor the settings of a session change what the functions find.
/// PostgreSQL prints IST for this zone, and reads it as another one.
#[test]
fn names_and_settings_change_nothing() {
    let server = Server::start(&[("fsync", "off")]);
    for role in ["App", "a.b@example.com", r"back\slash"] {
        run(&mut server.connect(), &format!("CREATE DATABASE \"{role}\""));
        let mut superuser = server.connect_to(role);
        run(
            &mut superuser,
            &format!("CREATE ROLE \"{role}\" LOGIN; ALTER DATABASE \"{role}\" OWNER TO \"{role}\""),
        );
        let mut client = server.config(role).user(role).connect(NoTls).unwrap();
        let file = std::fs::read_to_string(of_project(FILE)).unwrap();
        run(&mut client, "SET client_min_messages = error");
        for _ in 0..2 {
            with_old_strings(&mut client);
            run(&mut client, &file);
            with_old_strings(&mut client); // which the file has set
            run(
                &mut client,
                "SET search_path = ids; SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Kolkata';
                 SELECT create_shard(5, if_not_exists => true), claim_shard(5), next_id(5);
                 SELECT next_ids(5, 3); SET instagram_id.shard = 5; SELECT next_id();
                 SELECT create_shard(6, E'\"quoted\" and ''back\\\\slash''', if_not_exists => true), next_id(6)",
            );
            assert_eq!(error_of(&mut client, "SELECT create_shard(5, 'other')").0, "42710");
            let shards = "SELECT count(*) FROM id_shards WHERE can_generate";
            assert_eq!(one::<i64>(&mut client, shards), 2);
            run(&mut client, "SET quote_all_identifiers = on");
        }
        run(
            &mut client,
            "DROP SEQUENCE insta5.table_id_seq CASCADE; CREATE SEQUENCE insta5.table_id_seq CYCLE INCREMENT 2",
        );
        let fault = "SELECT create_shard(5, if_not_exists => true)";
        let (_, detail, hint) = error_of(&mut client, fault);
        assert!(detail.ends_with("\nIts increment is 2. It cycles."), "{detail}");
        assert!(hint.ends_with("table_id_seq\" INCREMENT 1 NO CYCLE."), "{hint}");
        run(
            &mut client,
            &format!("{}; {fault}", hint.strip_prefix("Use ").unwrap().trim_end_matches('.')),
        );
    }
}

/// A snapshot of before another session's create_shard() does not show that its number is taken,
/// and one of before a DROP FUNCTION does not give the next function of that name to its caller.
#[test]
fn old_snapshots_show_no_other_shards() {
    let server = installed(&[("fsync", "off")]);
    run(&mut server.connect(), "CREATE ROLE mallory LOGIN");
    let mut client = server.connect_as("installer");
    run(&mut client, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT next_id(5)");
    let mut installer = server.connect_as("installer");
    run(
        &mut installer,
        "SELECT create_shard(77); DROP FUNCTION insta5.next_id(); GRANT CREATE ON SCHEMA insta5 TO mallory",
    );
    run(
        &mut server.connect_as("mallory"),
        "CREATE FUNCTION insta5.next_id() RETURNS bigint LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'runs as %', current_user USING ERRCODE = 'XX001'; END $$",
    );
    for statement in [
        "SELECT create_shard(77, 'other')",
        "SELECT claim_shard(5)",
        "SELECT next_id(5)",
        "SELECT next_ids(5, 2)",
    ] {
        run(&mut client, "SAVEPOINT s; SELECT count(*) FROM pg_am");
        match statement {
            "SELECT next_ids(5, 2)" => run(&mut client, statement),
            _ => assert_eq!(error_of(&mut client, statement).0, "55000", "{statement}"),
        }
        run(&mut client, "ROLLBACK TO s");
    }
}

/// Functions of another role in the schema of a shard are neither called nor shown, after the
/// shard's own were dropped. To show a body waits for the locks on its tables.
#[test]
fn functions_of_others_are_not_those_of_a_shard() {
    let server = installed(&[("fsync", "off")]);
    run(&mut server.connect(), "CREATE ROLE mallory LOGIN");
    let mut installer = server.connect_as("installer");
    run(
        &mut installer,
        "DROP FUNCTION insta5.next_id(); GRANT USAGE, CREATE ON SCHEMA insta5 TO mallory; CREATE SCHEMA shared;
         GRANT USAGE, CREATE ON SCHEMA shared TO mallory; SET statement_timeout = '20s'",
    );
    let (code, message, _) = error_of(&mut installer, "SELECT next_id(5)");
    assert_eq!(code, "55000");
    assert!(message.ends_with("It does not exist."), "{message}");
    let mut mallory = server.connect_as("mallory");
    run(
        &mut mallory,
        "CREATE FUNCTION insta5.next_id() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'runs as %', current_user; END $$;
         CREATE TABLE shared.t ();
         CREATE FUNCTION shared.epoch() RETURNS timestamptz BEGIN ATOMIC SELECT now() FROM shared.t; END",
    );
    run(&mut mallory, "BEGIN; LOCK TABLE shared.t");
    for (statement, code) in [
        ("SELECT next_id(5)", "55000"),
        ("SELECT create_shard(6, 'shared', if_not_exists => true)", "42723"),
    ] {
        assert_eq!(error_of(&mut installer, statement).0, code, "{statement}");
    }
    assert_eq!(error_of(&mut server.connect_as("mallory"), "SELECT next_ids(5, 2)").0, "55000");
    run(
        &mut installer,
        "DROP FUNCTION insta5.next_id(); SELECT create_shard(5, if_not_exists => true); SELECT next_id(5)",
    );
}

/// Temporary objects of a writer, which PostgreSQL finds first unless search_path names pg_temp, do
/// not run in the calls that have the rights of the installer. Each role may create them.
#[test]
fn temporary_objects_of_a_writer_are_not_used() {
    let server = installed(&[("fsync", "off")]);
    run(&mut server.connect(), "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA insta5 TO writer");
    let mut writer = server.connect_as("writer");
    run(
        &mut writer,
        "CREATE FUNCTION pg_temp.trap() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
            IF current_user <> 'writer' THEN RAISE EXCEPTION 'runs as %', current_user; END IF; RETURN true; END $$;
         CREATE TEMP VIEW pg_sequence AS SELECT * FROM pg_catalog.pg_sequence WHERE pg_temp.trap();
         CREATE TEMP VIEW pg_proc AS SELECT * FROM pg_catalog.pg_proc WHERE pg_temp.trap();
         GRANT SELECT ON pg_sequence, pg_proc TO PUBLIC;
         CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (pg_temp.trap())",
    );
    // A new shard takes the slow path, and so do the errors of a closed sequence and of a read-only
    // transaction.
    run(&mut writer, "SELECT insta5.next_id()");
    run(&mut server.connect(), "ALTER SEQUENCE insta5.table_id_seq MAXVALUE 5 RESTART WITH 5");
    assert_eq!(error_of(&mut writer, "SELECT insta5.next_id()").0, "25006");
    assert_eq!(error_of(&mut writer, "BEGIN READ ONLY; SELECT insta5.next_id()").0, "25006");
    run(&mut server.connect(), "ALTER SEQUENCE insta5.table_id_seq NO MAXVALUE");
    run(&mut writer, "ROLLBACK; SELECT next_id(5); SELECT * FROM ids.id_shards");
}

/// The commands of docs/run/portable.md that copy a shard between the editions.
fn copy_shard(server: &Server, from: &str, to: &str, role: &str) {
    let dump = server.path().join(format!("{from}.sql"));
    let dump = dump.to_str().unwrap();
    server.run("pg_dump", &["-U", role, "-d", from, "-n", "insta5", "--no-owner", "-f", dump]);
    server.run("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", role, "-d", to, "-f", dump]);
}

/// A shard goes to a database with the library and back by dump, and outlasts the functions of the
/// portable edition. Ids continue above the old ones, also for a role that is only a writer.
#[test]
#[expect(clippy::too_many_lines, reason = "the commands of a page")]
fn shards_go_to_the_library_and_back_by_dump() {
    let server = installed(&[("fsync", "off")]);
    let mut portable = server.connect_as("installer");
    run(
        &mut portable,
        "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text);
         INSERT INTO insta5.photos (title) SELECT 'a' FROM generate_series(1, 100)",
    );
    let last: i64 = one(&mut portable, "SELECT max(id) FROM insta5.photos");

    for statement in [
        "CREATE ROLE writer LOGIN",
        "CREATE DATABASE library OWNER installer",
        "CREATE DATABASE back OWNER installer",
    ] {
        run(&mut server.connect(), statement);
    }
    let as_installer =
        |database: &str| server.config(database).user("installer").connect(NoTls).unwrap();
    let mut library = as_installer("library");
    run(
        &mut library,
        "CREATE SCHEMA ids; GRANT USAGE ON SCHEMA ids TO PUBLIC; CREATE EXTENSION instagram_id SCHEMA ids",
    );
    copy_shard(&server, "postgres", "library", "installer");
    let can_generate = "SELECT can_generate FROM ids.id_shards WHERE shard = 5";
    assert!(!one::<bool>(&mut library, can_generate));
    run(
        &mut library,
        "SELECT ids.claim_shard(5); ALTER FUNCTION insta5.next_id() SECURITY INVOKER",
    );
    assert!(one::<bool>(&mut library, can_generate));
    run(
        &mut library,
        "GRANT USAGE ON SCHEMA insta5 TO writer; GRANT INSERT ON insta5.photos TO writer; GRANT USAGE ON SEQUENCE insta5.table_id_seq TO writer",
    );
    // The shard is as create_shard() makes it.
    run(&mut library, "SELECT ids.create_shard(5, if_not_exists => true)");
    let definition = "SELECT string_agg(pg_get_functiondef(p.oid) || obj_description(p.oid), '' ORDER BY proname) FROM pg_proc AS p
        WHERE pronamespace = 'insta5'::regnamespace";
    let copied: String = one(&mut library, definition);
    run(&mut library, "BEGIN; DROP SCHEMA insta5 CASCADE; SELECT ids.create_shard(5)");
    assert_eq!(one::<String>(&mut library, definition), copied);
    run(&mut library, "ROLLBACK");

    let write = "INSERT INTO insta5.photos (title) VALUES ('b')";
    let newest = "SELECT max(id) FROM insta5.photos";
    run(&mut server.config("library").user("writer").connect(NoTls).unwrap(), write);
    let next: i64 = one(&mut library, newest);
    assert!(next > last, "{next} after {last}");

    let mut back = as_installer("back");
    run(&mut back, &std::fs::read_to_string(of_project(FILE)).unwrap());
    copy_shard(&server, "library", "back", "installer");
    let mut writer = server.config("back").user("writer").connect(NoTls).unwrap();
    // The restored next_id() runs with the rights of the writer until it is claimed.
    assert_eq!(error_of(&mut writer, write).0, "42501");
    run(&mut back, "SELECT ids.claim_shard(5)");
    assert!(one::<bool>(&mut back, can_generate));
    run(&mut writer, write);
    let last: i64 = one(&mut back, newest);
    assert!(last > next);

    // The command of the page removes the functions and the defaults that call them. Rows and
    // sequences stay, and the shard can be completed again.
    run(&mut back, "SET client_min_messages = warning; DROP SCHEMA ids, ids_mutexes CASCADE");
    assert_eq!(error_of(&mut back, write).0, "23502");
    run(&mut back, &std::fs::read_to_string(of_project(FILE)).unwrap());
    run(
        &mut back,
        "SELECT ids.create_shard(5, if_not_exists => true); SELECT ids.claim_shard(5);
         ALTER TABLE insta5.photos ALTER id SET DEFAULT insta5.next_id()",
    );
    run(&mut back, write);
    assert!(one::<i64>(&mut back, newest) > last);
    assert_eq!(one::<i64>(&mut back, "SELECT count(*) FROM insta5.photos"), 103);
    assert!(one::<bool>(&mut back, can_generate));
}

/// The file of a later version replaces the functions while sessions generate ids, and shards
/// remain as they are.
#[test]
fn a_later_version_replaces_the_functions_under_load() {
    let server = installed(&[("fsync", "off")]);
    let file = std::fs::read_to_string(of_project(FILE)).unwrap();
    let later = file.replace("1.0.0-portable", "1.1.0-portable").replacen(
        "now_ms := ids._arrive(shard, seq, epoch);",
        "now_ms := ids._arrive_as_in_1_1(shard, seq, epoch);",
        1,
    );
    let helper =
        "CREATE OR REPLACE FUNCTION ids._arrive_as_in_1_1(shard integer, seq regclass, epoch timestamptz)
        RETURNS bigint LANGUAGE sql VOLATILE RETURN ids._arrive(shard, seq, epoch);\n";
    let later = later.replacen("/* Generating ids */", helper, 1);
    assert_eq!(later.matches("_arrive_as_in_1_1").count(), 2);
    let mut client = server.connect();
    let oids = "SELECT string_agg(oid::text, ' ' ORDER BY oid) FROM pg_proc
        WHERE pronamespace = ANY (ARRAY['ids', 'insta5']::regnamespace[]) AND proname <> '_arrive_as_in_1_1'";
    let before: String = one(&mut client, oids);
    let mut journal = Journal::new("portable, upgrade under load", Clock::IN_STEP);
    let mut installer = server.connect_as("installer");
    let (sessions, ()) = under_load(
        || server.try_connect(),
        4,
        &work(),
        || {
            for file in [&later, &file, &later] {
                thread::sleep(Duration::from_millis(length(300, 3000)));
                run(&mut installer, file);
            }
            thread::sleep(Duration::from_millis(300));
        },
    );
    journal.faults = 3;
    journal.add(sessions);
    journal.check();
    assert_eq!(one::<String>(&mut client, oids), before);
    assert_eq!(one::<String>(&mut client, "SELECT instagram_id_version()"), "1.1.0-portable");
    assert!(one::<bool>(&mut client, "SELECT can_generate FROM id_shards"));
}

/// Where the system identifier cannot be read, a value of the installation stands for the database.
/// A dump of the shard does not contain it, so the copy is recognized.
#[test]
fn copies_are_recognized_without_the_system_identifier() {
    let server = Server::start(&[("fsync", "off")]);
    let forbid = "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC";
    run(&mut server.connect(), forbid);
    install(&server);
    let can_generate = "SELECT can_generate FROM ids.id_shards";
    let mut installer = server.connect_as("installer");
    assert!(one::<bool>(&mut installer, can_generate));
    run(&mut installer, &std::fs::read_to_string(of_project(FILE)).unwrap());
    assert!(one::<bool>(&mut installer, can_generate), "after an upgrade");
    run(&mut server.connect(), "CREATE DATABASE copy OWNER installer");
    run(&mut server.connect_to("copy"), forbid);
    let mut copy = server.config("copy").user("installer").connect(NoTls).unwrap();
    run(&mut copy, &std::fs::read_to_string(of_project(FILE)).unwrap());
    copy_shard(&server, "postgres", "copy", "installer");
    let reason = "SELECT reason FROM ids.id_shards";
    assert_eq!(
        one::<Option<String>>(&mut copy, reason).as_deref(),
        Some("copied from another database")
    );
    run(&mut copy, "SELECT ids.claim_shard(5)");
    assert!(one::<bool>(&mut copy, can_generate));
}
