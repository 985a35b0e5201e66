//! Concurrent sessions. `tests/isolation` tests when a session sees the changes of another one.

use instagram_id_live::*;
use postgres::Client;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// With fewer buffers than shards, the page of a sequence is mostly evicted between two calls.
#[test]
fn evicted_page_is_read_again() {
    let server = Server::start(&[("fsync", "off"), ("shared_buffers", "128kB")]);
    let mut client = server.connect();
    run(&mut client, "CREATE EXTENSION instagram_id; SELECT count(create_shard(n)) FROM generate_series(0, 99) AS n;
             CREATE TABLE filler AS SELECT repeat('x', 2000) FROM generate_series(1, 1000)");
    let sessions = in_parallel(3, |_| {
        let mut client = server.connect();
        (0..20)
            .flat_map(|_| {
                one::<i64>(&mut client, "SELECT count(*) FROM filler");
                column(&mut client, "SELECT next_id(n % 100) FROM generate_series(1, 500) AS n")
            })
            .collect::<Vec<_>>()
    });
    for shard in 0..100 {
        let of_shard =
            |ids: &Vec<i64>| ids.iter().copied().filter(|id| (id >> 10) & 8191 == shard).collect();
        check_unique_and_increasing(&sessions.iter().map(of_shard).collect::<Vec<_>>());
    }
}

/// A function declared as PARALLEL SAFE does not make next_id parallel safe.
#[test]
fn parallel_worker_refuses() {
    let (_server, mut client) = with_extension();
    run(&mut client, "SELECT create_shard(5);
             CREATE FUNCTION lie() RETURNS bigint PARALLEL SAFE LANGUAGE plpgsql AS 'BEGIN RETURN next_id(5); END';
             CREATE TABLE t AS SELECT generate_series(1, 1000) AS n; ANALYZE t");
    let force = if major() < 16 { "force_parallel_mode" } else { "debug_parallel_query" };
    run(&mut client, &format!("SET {force} = on"));
    let (state, message, hint) = error_of(&mut client, "SELECT sum(lie()) FROM t");
    assert_eq!(
        (state.as_str(), message.as_str(), hint.as_str()),
        (
            "25000",
            "cannot change sequence insta5.table_id_seq during a parallel operation",
            "Generate ids in a query that does not run in parallel."
        )
    );
}

/// A session keeps what it has cached about shards while other sessions create and alter other
/// functions, schemas and sequences. A look-up of a shard scans an index of pg_proc.
#[test]
fn changes_of_other_objects_cause_no_lookups() {
    const SHARDS: i64 = 50;
    let server = Server::start(&[("fsync", "off")]);
    let (mut client, mut other) = (server.connect(), server.connect());
    run(
        &mut client,
        &format!(
            "CREATE EXTENSION instagram_id;
             SELECT create_shard(n) FROM generate_series(0, {SHARDS} - 1) AS n"
        ),
    );
    let all = client
        .prepare(&format!("SELECT next_id(n) FROM generate_series(0, {SHARDS} - 1) AS n"))
        .unwrap();
    let scans = |client: &mut Client| {
        run(client, "SELECT pg_stat_force_next_flush()");
        let index = "'pg_proc_proname_args_nsp_index'";
        one::<i64>(
            client,
            &format!("SELECT idx_scan FROM pg_stat_all_indexes WHERE indexrelname = {index}"),
        )
    };
    let mut scans_of_all = || {
        let before = scans(&mut client);
        client.execute(&all, &[]).unwrap();
        scans(&mut client) - before
    };
    assert!(scans_of_all() >= SHARDS, "the first look-ups");
    for change in [
        "CREATE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE OR REPLACE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 2'",
        "ALTER FUNCTION insta7.next_id() COST 7",
        "DROP FUNCTION other()",
        "CREATE SCHEMA other CREATE TABLE other (id serial)",
        "ALTER SEQUENCE other.other_id_seq CYCLE",
    ] {
        run(&mut other, change);
        let scans = scans_of_all();
        println!("{scans} scans after {change}");
        assert!(scans < SHARDS / 2, "{scans} scans after {change}");
    }
    // A change of a definition, and a function in C, which may be one of the extension.
    for change in [
        "ALTER FUNCTION insta7.shard_7() COST 7",
        "CREATE FUNCTION in_c(bigint) RETURNS int LANGUAGE c AS '$libdir/instagram_id', 'id_shard_wrapper'",
    ] {
        run(&mut other, change);
        assert!(scans_of_all() >= SHARDS, "{change}");
    }
}

/// Some sessions set a shard's sequence back while others wait for it: a session that waited for
/// the same state before must not use the restored state without waiting, since its millisecond may
/// have been used since.
#[test]
fn sequence_set_back_concurrently_repeats_no_ids() {
    let server = Server::start(&[("fsync", "off")]);
    setup(&mut server.connect());
    let mut journal = Journal::new("a sequence set back", Clock::IN_STEP);
    journal.add(in_parallel(4, |n| {
        let mut client = server.connect();
        let set_back = client.prepare("SELECT setval('insta5.table_id_seq', 1, false)").unwrap();
        let next = client.prepare("SELECT next_id(5)").unwrap();
        let mut received = Received::default();
        for _ in 0..3000 {
            if n < 2 {
                client.execute(&set_back, &[]).unwrap();
            }
            received.run_prepared(&mut client, &next, &[]).unwrap();
        }
        received
    }));
    journal.check();
}

/// The setting of an owner who is no superuser, before and after the first call of a session.
#[test]
fn owner_sets_the_shard_after_a_first_call() {
    let server = Server::start(&[("fsync", "off")]);
    let mut superuser = server.connect();
    for statement in
        ["CREATE ROLE owner LOGIN", "CREATE ROLE app LOGIN", "CREATE DATABASE app OWNER owner"]
    {
        run(&mut superuser, statement);
    }
    let connect = |user| server.config("app").user(user).connect(postgres::NoTls).unwrap();
    run(&mut connect("owner"), "CREATE EXTENSION instagram_id; SELECT create_shard(5)");
    let set = "ALTER DATABASE app SET instagram_id.shard = 5";
    let mut owner = connect("owner");
    assert_eq!(error_of(&mut owner, set).0, "42501");
    // A call that fails loads the library, too.
    assert_eq!(error_of(&mut owner, "SELECT next_id()").0, "55000");
    run(&mut owner, set);
    let shard = "SELECT id_shard(next_id())";
    assert_eq!(one::<i32>(&mut connect("owner"), shard), 5);
    // A superuser's value is checked when the library is loaded.
    run(&mut superuser, "ALTER DATABASE app SET instagram_id.shard = 8192");
    assert_eq!(error_of(&mut connect("owner"), "SELECT next_id()").0, "55000");
    assert_eq!(one::<i32>(&mut connect("owner"), "SELECT id_shard(next_id(5))"), 5);
}

/// While the definition of a shard is replaced, it is found at each moment: the owner's calls
/// succeed, and a role with USAGE cannot use the sequence for another shard or epoch.
#[test]
fn definition_is_found_while_it_is_replaced() {
    let (server, mut client) = with_shard();
    let create: String =
        one(&mut client, "SELECT pg_get_functiondef('insta5.shard_5()'::regprocedure)");
    run(
        &mut client,
        "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA insta5 TO app;
             GRANT USAGE ON SEQUENCE insta5.table_id_seq TO app",
    );
    let replace = format!("BEGIN; DROP FUNCTION insta5.shard_5(); {create}; COMMIT");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        let calls = |user, statements: &'static [&'static str], expected| {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut client =
                    server.config("postgres").user(user).connect(postgres::NoTls).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    for statement in statements {
                        let state = client
                            .simple_query(statement)
                            .err()
                            .map(|error| error.code().unwrap().code().to_owned());
                        assert_eq!(state.as_deref(), expected, "{statement}");
                    }
                }
            })
        };
        let others = &[
            "SELECT next_id(6, 'insta5.table_id_seq')",
            "SELECT next_id(5, 'insta5.table_id_seq', '2012-01-01 00:00+00')",
        ];
        let calls =
            [calls("postgres", &["SELECT next_id(5)"], None), calls("app", others, Some("42501"))];
        let end = Instant::now() + Duration::from_secs(length(1, 60));
        while Instant::now() < end && !calls.iter().any(|call| call.is_finished()) {
            run(&mut client, &replace);
        }
        drop(stop_at_end);
        for call in calls {
            call.join().unwrap();
        }
    });
}

/// While a shard is given to another role, it exists at each moment. Functions of other roles make
/// each look-up take as long as the change.
#[test]
fn shard_is_found_while_it_gets_another_owner() {
    let (server, mut client) = with_extension();
    run(
        &mut client,
        "CREATE ROLE one; CREATE ROLE two; CREATE ROLE app LOGIN;
         GRANT CREATE ON DATABASE postgres TO one, two; CREATE SEQUENCE others;
         DO $$ BEGIN FOR n IN 1..200 LOOP
             EXECUTE format('CREATE SCHEMA m%s', n);
             EXECUTE format('CREATE FUNCTION m%s.shard_5(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
                 LANGUAGE sql BEGIN ATOMIC SELECT ''others''::regclass, ''2020-01-01''::timestamptz, ''x''::text; END', n);
             EXECUTE format('ALTER FUNCTION m%s.shard_5() OWNER TO app', n);
         END LOOP; END $$;
         SET ROLE one; SELECT create_shard(5); GRANT USAGE ON SCHEMA insta5 TO app;
         GRANT USAGE ON SEQUENCE insta5.table_id_seq TO app; RESET ROLE",
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        let calls = [0, 1].map(|_| {
            let (mut app, stop) = (server.connect_as("app"), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    run(&mut app, "SELECT next_id(5)");
                }
            })
        });
        let end = Instant::now() + Duration::from_secs(length(2, 60));
        while Instant::now() < end && !calls.iter().any(|call| call.is_finished()) {
            run(&mut client, "REASSIGN OWNED BY one TO two");
            run(&mut client, "REASSIGN OWNED BY two TO one");
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(stop_at_end);
        for call in calls {
            call.join().unwrap();
        }
    });
}

/// A role that can create schemas replaces the definitions in its own ones all the time. That does
/// not delay the calls of a shard of the database's owner without end.
#[test]
fn definitions_of_others_do_not_delay_a_call() {
    const SCHEMAS: i64 = 2000;
    let (server, mut client) = with_shard();
    run(
        &mut client,
        "CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory;
         SET statement_timeout = '10s'",
    );
    let mallory = || server.connect_as("mallory");
    let create = "CREATE FUNCTION m%s.shard_5(OUT sequence regclass, OUT epoch timestamptz, OUT home text) LANGUAGE sql
         BEGIN ATOMIC SELECT ''m.s''::regclass, ''2020-01-01''::timestamptz, ''x''::text; END";
    run(&mut mallory(), "CREATE SCHEMA m CREATE SEQUENCE s");
    run(
        &mut mallory(),
        &format!(
            "DO $$ BEGIN FOR n IN 1..{SCHEMAS} LOOP
                 EXECUTE format('CREATE SCHEMA m%s', n);
                 EXECUTE format('{create}', n);
                 IF n % 50 = 0 THEN COMMIT; END IF;
             END LOOP; END $$"
        ),
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        for session in 0..3 {
            let (mut mallory, stop) = (mallory(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let replace = format!(
                        "DO $$ BEGIN FOR n IN REVERSE {SCHEMAS}..1 LOOP
                             CONTINUE WHEN n % 3 <> {session};
                             EXECUTE format('DROP FUNCTION m%s.shard_5()', n);
                             EXECUTE format('{create}', n);
                             COMMIT;
                         END LOOP; END $$"
                    );
                    run(&mut mallory, &replace);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..5 {
            run(&mut client, "SELECT next_id(5)");
        }
        drop(stop_at_end);
    });
}

/// A role with CREATE on one schema gives its sequence a new file all the time, which thousands of
/// its shards name. No read of the view fails, on the primary and on a standby.
#[test]
fn sequences_with_new_files_do_not_make_the_view_fail() {
    let server = Server::start(&[("fsync", "off"), ("hot_standby_feedback", "on")]);
    run(
        &mut server.connect(),
        "CREATE EXTENSION instagram_id; CREATE ROLE mallory LOGIN; CREATE ROLE watcher LOGIN;
         GRANT pg_monitor TO watcher; CREATE SCHEMA m AUTHORIZATION mallory",
    );
    let mut mallory = server.connect_as("mallory");
    run(
        &mut mallory,
        "SELECT create_shard(0, 'm', if_not_exists => true);
         DO $$ BEGIN FOR n IN 1..500 LOOP
             EXECUTE format('CREATE FUNCTION m.shard_%s(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
                 LANGUAGE sql IMMUTABLE BEGIN ATOMIC
                 SELECT ''m.table_id_seq''::regclass, ''2011-08-24 21:07:01.721+00''::timestamptz, ''x''::text; END', n);
         END LOOP; END $$",
    );
    let standby = Server::start_standby_of(&server);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                run(&mut mallory, "ALTER SEQUENCE m.table_id_seq CACHE 1");
            }
        });
        for server in [&server, &standby] {
            let mut watcher = server.connect_as("watcher");
            for _ in 0..10 {
                let read = "SELECT count(*) FROM id_shards WHERE coalesce(reason, '') <> coalesce(last_id, 0)::text";
                assert_eq!(one::<i64>(&mut watcher, read), 501);
            }
        }
        drop(stop_at_end);
    });
}

/// Creates 1,600 columns in each of so many temporary tables, whose defaults name an object by its
/// OID. That needs no privilege.
pub fn name_in_defaults(mallory: &mut Client, owner: &mut Client, object: &str, tables: usize) {
    let oid: u32 = one(owner, &format!("SELECT {object}::oid"));
    let (_, reg_type) = object.split_once("::").unwrap();
    run(
        mallory,
        &format!(
            "DO $$
             DECLARE
                 columns text := (SELECT string_agg(format('c%s oid DEFAULT ''{oid}''::{reg_type}', n), ', ')
                     FROM generate_series(1, 1600) AS n);
             BEGIN
                 FOR n IN 1..{tables} LOOP
                     EXECUTE format('CREATE TEMPORARY TABLE t%s (%s)', n, columns);
                     COMMIT;
                 END LOOP;
             END $$"
        ),
    );
}

/// A role without a privilege has so many defaults that name the schema of a sequence that a
/// look-up does not read all of them.
#[test]
fn defaults_of_others_do_not_delay_a_lookup() {
    let (server, mut client) = with_shard();
    run(
        &mut client,
        "CREATE SEQUENCE insta5.beside; CREATE ROLE app LOGIN; CREATE ROLE mallory LOGIN;
         GRANT USAGE ON SCHEMA insta5 TO app; GRANT USAGE ON SEQUENCE insta5.beside TO app",
    );
    let mut mallory = server.connect_as("mallory");
    name_in_defaults(&mut mallory, &mut client, "'insta5'::regnamespace", 16);
    let mut app = server.connect_as("app");
    let read = |client: &mut Client| {
        run(client, "SELECT pg_stat_force_next_flush()");
        let index = "'pg_depend_reference_index'";
        let query =
            format!("SELECT idx_tup_read FROM pg_stat_all_indexes WHERE indexrelname = {index}");
        one::<i64>(client, &query)
    };
    let before = read(&mut app);
    run(&mut app, "SELECT next_id(5, 'insta5.beside')");
    let rows = read(&mut app) - before;
    println!("{rows} rows of pg_depend");
    assert!(rows < 22_000, "{rows} rows of pg_depend");
}
