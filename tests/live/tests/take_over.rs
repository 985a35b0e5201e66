//! The library takes the place of the portable edition: under load, and with a hostile installer.

use crate::portable::{FILE, install, with_old_strings, work};
use instagram_id_live::*;
use postgres::Client;
use std::thread;
use std::time::Duration;

const TAKE_OVER: &str = "CREATE EXTENSION instagram_id SCHEMA ids VERSION '1.0.0-portable'";
const UPDATE: &str = "ALTER EXTENSION instagram_id UPDATE";

/// Repeats a statement as docs/run/portable.md advises, until other transactions do not prevent it.
fn retry(client: &mut Client, statement: &str) {
    for _ in 0..300 {
        match client.batch_execute(statement) {
            Ok(()) => return,
            Err(error) => {
                let code = error.code().unwrap_or_else(|| panic!("{statement}: {error:?}")).code();
                assert!(["55P03", "55006"].contains(&code), "{statement}: {}", why(&error));
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{statement}: other transactions prevented it 300 times");
}

/// All that makes up the extension's schema, apart from OIDs. An ACL that is the default is as
/// none.
const CATALOG: &str = "
    SELECT concat_ws(' | ', pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc'), proowner::regrole,
        (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) AS a),
        EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e'))
    FROM pg_proc AS p WHERE pronamespace = 'ids'::regnamespace
    UNION ALL
    SELECT concat_ws(' | ', relname, relowner::regrole, relacl, pg_get_viewdef(c.oid), obj_description(c.oid, 'pg_class'))
    FROM pg_class AS c WHERE relnamespace = 'ids'::regnamespace
    UNION ALL SELECT extversion FROM pg_extension WHERE extname = 'instagram_id'
    ORDER BY 1";

fn catalog(client: &mut Client) -> Vec<String> {
    run(client, "SET search_path = pg_catalog");
    texts(client, CATALOG)
}

/// The functions of shard 5, with their comments.
const SHARD: &str = "
    SELECT pg_get_functiondef(p.oid) || obj_description(p.oid, 'pg_proc') FROM pg_proc AS p
    WHERE pronamespace = 'insta5'::regnamespace ORDER BY 1";

/// A server with the portable edition and a table, which the application uses as a role that is
/// only a writer, and the library in another database.
fn server_with_both(settings: &[(&str, &str)]) -> Server {
    let server = Server::start(settings);
    run(&mut server.connect(), "CREATE DATABASE library");
    run(
        &mut server.connect_to("library"),
        "CREATE SCHEMA ids; CREATE EXTENSION instagram_id SCHEMA ids; SELECT ids.create_shard(5)",
    );
    install(&server);
    run(
        &mut server.connect_as("installer"),
        "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), batch bigint)",
    );
    run(
        &mut server.connect(),
        "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA insta5 TO writer;
         GRANT USAGE ON SEQUENCE insta5.table_id_seq TO writer; GRANT SELECT, INSERT ON insta5.photos TO writer",
    );
    server
}

/// The ways to generate ids, in statements and transactions that last longer than a take-over.
fn long_work() -> Vec<Work> {
    let mut all = work();
    all.extend([
        query("INSERT INTO insta5.photos SELECT FROM generate_series(1, 3000) RETURNING id"),
        query("SELECT next_id(5) FROM generate_series(1, 300)"),
        query("SELECT next_ids(5, 20) FROM generate_series(1, 50)"),
        query("BEGIN; SELECT insta5.next_id(); SELECT next_ids(5, 20000); SELECT insta5.next_id(); COMMIT"),
        Box::new(|client, received| {
            let insert = client.prepare("INSERT INTO insta5.photos VALUES (DEFAULT, $1) RETURNING id")?;
            (0..300).try_for_each(|batch| received.run_prepared(client, &insert, &[&(batch as i64)]))
        }),
        unrecorded("SELECT can_generate FROM id_shards"),
        unrecorded(
            "SELECT count(shortcode_to_id(id_to_shortcode(n))) FROM generate_series(1, 2000) AS n",
        ),
    ]);
    all
}

/// Takes over in copies of the database, one after the other, under the load of writers.
fn take_over_in_copies(server: &Server) {
    let mut library = server.connect_to("library");
    let mut journal = Journal::new("many take-overs under load", Clock::Set);
    for _ in 0..length(1, 100) {
        run(&mut library, "DROP DATABASE IF EXISTS copy WITH (FORCE)");
        run(&mut library, "CREATE DATABASE copy TEMPLATE postgres");
        run(&mut library, "ALTER DATABASE copy SET search_path = public, ids");
        let connect_as = |role: &str| server.config("copy").user(role).connect(postgres::NoTls);
        run(&mut connect_as("installer").unwrap(), "SELECT claim_shard(5)");
        let mut client = server.connect_to("copy");
        run(&mut client, "SET lock_timeout = '1s'");
        let (sessions, ()) = under_load(
            || connect_as("writer"),
            12,
            &long_work(),
            || {
                for statement in [TAKE_OVER, UPDATE] {
                    thread::sleep(Duration::from_millis(100));
                    retry(&mut client, statement);
                }
                thread::sleep(Duration::from_millis(100));
            },
        );
        journal.faults += 1;
        journal.add(sessions);
    }
    journal.check();
}

/// Under the load of writers no statement fails, and no id repeats or goes back. Afterwards the
/// database is one with the library: OIDs and defaults are as before.
#[test]
fn library_takes_over_while_sessions_generate_ids() {
    let server = server_with_both(&[("fsync", "off")]);
    take_over_in_copies(&server);
    let kept = "SELECT (SELECT string_agg(oid::text, ' ' ORDER BY oid::regprocedure::text) FROM pg_proc
            WHERE pronamespace = 'ids'::regnamespace AND proname !~ '^_|^next_ids' AND oid::regprocedure::text IN (
                SELECT unnest(string_to_array(current_setting('test.functions'), '|')))),
        (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'insta5.photos'::regclass)";
    let mut client = server.connect();
    run(
        &mut client,
        "SELECT set_config('test.functions', string_agg(oid::regprocedure::text, '|'), false) FROM pg_proc
            WHERE pronamespace = 'ids'::regnamespace AND proname !~ '^_'; SET lock_timeout = '1s'",
    );
    let before = client.query_one(kept, &[]).unwrap();
    let before: (String, String) = (before.get(0), before.get(1));
    with_old_strings(&mut client);
    let mut journal = Journal::new("take-over under load", Clock::Set);
    let connect = || server.config("postgres").user("writer").connect(postgres::NoTls);
    let (sessions, ()) = under_load(connect, 8, &long_work(), || {
        thread::sleep(Duration::from_millis(length(500, 3000)));
        retry(&mut client, TAKE_OVER);
        thread::sleep(Duration::from_millis(length(500, 3000)));
        retry(&mut client, UPDATE);
        thread::sleep(Duration::from_millis(length(500, 3000)));
    });
    journal.faults = 1;
    journal.add(sessions);
    journal.check();
    let after = client.query_one(kept, &[]).unwrap();
    assert_eq!((after.get(0), after.get(1)), before, "OIDs, and the default of the table");
    assert!(one::<bool>(&mut client, "SELECT can_generate FROM ids.id_shards"));
    let mutexes = "SELECT count(*) FROM pg_namespace WHERE nspname = 'ids_mutexes'";
    assert_eq!(one::<i64>(&mut client, mutexes), 0);
    run(&mut client, "RESET standard_conforming_strings");

    let mut library = server.connect_to("library");
    assert_eq!(catalog(&mut client), catalog(&mut library));
    // Also the shard, by the statement of the page.
    run(&mut server.connect_as("installer"), "ALTER FUNCTION insta5.next_id() SECURITY INVOKER");
    let home = "SELECT home FROM insta5.shard_5()";
    let (own, other): (String, String) = (one(&mut client, home), one(&mut library, home));
    let expected: Vec<_> =
        texts(&mut library, SHARD).iter().map(|text| text.replace(&other, &own)).collect();
    assert_eq!(texts(&mut client, SHARD), expected);
    let mut writer = connect().unwrap();
    let last: i64 = one(&mut writer, "SELECT max(id) FROM insta5.photos");
    assert!(
        one::<i64>(&mut writer, "INSERT INTO insta5.photos DEFAULT VALUES RETURNING id") > last
    );
}

/// Statements that began before the take-over and end after it do not fail, also if a call has
/// begun and looks up its shard only afterwards. The second command waits for them.
#[test]
fn statements_continue_across_the_take_over() {
    // However long the take-over takes, no statement ends before it.
    const PACE: &str = "FROM (SELECT n, pg_sleep(0.003), CASE WHEN n = 900 THEN pg_advisory_xact_lock_shared(1) END
        FROM generate_series(1, 1000) AS n) AS pace";
    const SLOW: &str = "FROM (SELECT CASE WHEN n = 90 THEN pg_advisory_xact_lock_shared(1) END
        FROM generate_series(1, 100) AS n) AS slow";
    let server = server_with_both(&[("fsync", "off")]);
    // A call is nearly always between its beginning and its look-up.
    run(
        &mut server.connect_as("installer"),
        "DO $do$ DECLARE body text := pg_get_functiondef('ids._next_id_of_shard'::regproc);
            slow text := replace(body, 'BEGIN', 'BEGIN PERFORM pg_sleep(0.03);');
         BEGIN ASSERT slow <> body; EXECUTE slow; END $do$",
    );
    let generating = [
        ("writer", format!("SELECT next_id(5) {SLOW}")),
        ("writer", format!("SELECT next_id() {SLOW}")),
        ("writer", format!("SELECT insta5.next_id() {PACE}")),
        ("writer", format!("SELECT next_ids(5, 2) {PACE}")),
        ("installer", format!("SELECT next_ids(5, 2) {PACE}")),
        ("installer", format!("SELECT next_id(5, 'insta5.table_id_seq') {PACE}")),
    ];
    // With an epoch for which they cannot be inlined. next_id() lets the session notice the change
    // of the functions.
    let decoding = format!(
        "SELECT count(*) {PACE} WHERE insta5.next_id() > 0
            AND shortcode_to_id(id_to_shortcode(n)) = n AND (id_parts(n)).seq = n % 1024
            AND id_time(n::bigint << 23, '1900-01-01+00') < now() AND make_id(now(), n, 5) > 0
            AND id_range_end('1900-01-01+00', '1900-01-02+00'::timestamptz + n * interval '1s',
                '1900-01-01+00') > id_floor('1900-01-01+00', '1900-01-01+00')"
    );
    let mut client = server.connect();
    let session = |role: &str, statement: &str| -> Result<Vec<i64>, String> {
        let mut client = server.connect_as(role);
        run(&mut client, "SET instagram_id.shard = 5");
        match client.query(statement, &[]) {
            Ok(rows) => Ok(rows.iter().map(|row| row.get(0)).collect()),
            Err(error) => Err(format!("{role}: {statement}: {}", why(&error))),
        }
    };
    let (ids, decoded, update) = thread::scope(|scope| {
        let mut gate = server.connect();
        run(&mut gate, "SELECT pg_advisory_lock(1)");
        let ids: Vec<_> = generating
            .iter()
            .map(|(role, statement)| scope.spawn(move || session(role, statement)))
            .collect();
        let decoded = scope.spawn(|| session("writer", &decoding));
        server.wait_until(
            "SELECT count(*) = 7 FROM pg_stat_activity WHERE query ~ 'AS (pace|slow)' AND state = 'active'
                AND pid <> pg_backend_pid() AND query_start < clock_timestamp() - interval '0.1 s'",
        );
        retry(&mut client, TAKE_OVER);
        let update = client.batch_execute(UPDATE).map_err(|error| why(&error));
        drop(gate);
        let ids: Vec<_> = ids.into_iter().map(|session| session.join().unwrap()).collect();
        (ids, decoded.join().unwrap(), update)
    });
    let failed: Vec<_> =
        ids.iter().chain([&decoded]).filter_map(|ids| ids.as_ref().err()).collect();
    assert_eq!(failed, Vec::<&String>::new());
    assert!(update.as_ref().is_err_and(|error| error.contains("55006")), "{update:?}");
    assert_eq!(decoded, Ok(vec![1000]));
    check_unique_and_increasing(&ids.into_iter().map(Result::unwrap).collect::<Vec<_>>());
    run(&mut client, UPDATE);
}

/// A view calls a function by its OID. The library's next_ids() is a new function, so the second
/// command names the view, which generates ids all the time.
#[test]
fn views_that_call_next_ids_are_created_again() {
    let server = server_with_both(&[("fsync", "off")]);
    let mut installer = server.connect_as("installer");
    let create = "CREATE OR REPLACE VIEW app.ids AS SELECT next_ids(5, 2) AS id";
    let mut ids = vec![];
    let mut generate = |client: &mut Client| ids.extend(column(client, "SELECT id FROM app.ids"));
    run(&mut installer, create);
    generate(&mut installer);
    run(&mut installer, TAKE_OVER);
    generate(&mut installer);
    let refused = error_of(&mut installer, UPDATE);
    assert_eq!(refused.0, "2BP01", "{refused:?}");
    run(&mut installer, create);
    generate(&mut installer);
    run(&mut installer, UPDATE);
    generate(&mut installer);
    assert_eq!(ids.len(), 8);
    check_unique_and_increasing(&[ids]);
}

/// A call that holds the mutex ends before the library issues an id. Without this its setval()
/// would set the sequence back.
#[test]
fn take_over_waits_for_running_calls() {
    let server = server_with_both(&[("fsync", "off")]);
    // Inside the mutex, between the read and setval(), this one waits. Before that the clock has
    // not been read.
    run(
        &mut server.connect_as("installer"),
        "CREATE OR REPLACE FUNCTION ids._next(last bigint, now_ms bigint) RETURNS bigint LANGUAGE plpgsql AS $$
         BEGIN IF now_ms IS NOT NULL THEN PERFORM pg_sleep(2); END IF; RETURN last + 1; END $$",
    );
    // Ahead of the clock, where the clock cannot hide that the sequence was set back.
    run(&mut server.connect(), "SELECT insta5.next_id()");
    set_an_hour_ahead(&mut server.connect(), "insta5.table_id_seq");
    thread::scope(|scope| {
        let slow = scope.spawn(|| one::<i64>(&mut server.connect(), "SELECT insta5.next_id()"));
        server.wait_until("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
        let mut client = server.connect();
        run(&mut client, TAKE_OVER);
        let after: i64 = one(&mut client, "SELECT insta5.next_id()");
        let slow = slow.join().unwrap();
        assert!(slow < after, "{slow} and {after}");
        assert!(one::<i64>(&mut client, "SELECT insta5.next_id()") > after);
    });
}

/// Statements by which a role could get text of its own run by others.
const REPLACEMENTS: [&str; 9] = [
    "CREATE OR REPLACE FUNCTION ids.id_time(id bigint) RETURNS timestamptz LANGUAGE sql RETURN now()",
    "CREATE OR REPLACE FUNCTION ids._shard_next_id(shard integer, seq regclass, epoch timestamptz) RETURNS bigint RETURN 1",
    "CREATE FUNCTION ids.id_time(id text) RETURNS timestamptz LANGUAGE sql RETURN now()",
    "CREATE OPERATOR ids.+ (FUNCTION = int8pl, LEFTARG = bigint, RIGHTARG = bigint)",
    "CREATE VIEW ids._mutex_0 AS SELECT",
    "CREATE RULE r AS ON INSERT TO ids.id_shards DO INSTEAD DELETE FROM insta5.photos",
    "ALTER FUNCTION ids.next_id() SECURITY DEFINER",
    "ALTER FUNCTION ids.next_id(integer) SET search_path = insta5",
    "DROP FUNCTION ids.id_seq(bigint)",
];

/// Runs UPDATE, and something else while it waits.
fn while_waiting(
    server: &Server,
    updating: &mut Client,
    action: impl FnOnce(),
) -> Result<(), postgres::Error> {
    thread::scope(|scope| {
        let update = scope.spawn(|| attempt(updating, UPDATE));
        server.wait_until(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')",
        );
        action();
        update.join().unwrap()
    })
}

/// UPDATE waits for a transaction that is open, but neither for a later one nor for those of other
/// databases. A busy machine may need longer than it waits.
fn update_while_transactions_end(server: &Server, updating: &mut Client) {
    let [mut open, mut later] = [(); 2].map(|()| server.connect());
    let mut elsewhere = server.connect_to("library");
    run(&mut elsewhere, "BEGIN; PREPARE TRANSACTION 'elsewhere'");
    run(&mut elsewhere, "BEGIN; SELECT");
    for _ in 0..10 {
        run(&mut open, "BEGIN; SELECT");
        let updated = while_waiting(server, updating, || {
            run(&mut later, "BEGIN; SELECT");
            run(&mut open, "COMMIT");
        });
        run(&mut later, "COMMIT");
        match updated {
            Ok(()) => return,
            Err(error) => assert_eq!(error.code().unwrap().code(), "55006", "{}", why(&error)),
        }
    }
    panic!("it waited for other transactions 10 times");
}

/// After the take-over by a superuser, no function has text or properties that the installer gave
/// it, and he can change none.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of objects")]
fn installer_can_replace_nothing_after_the_take_over() {
    let server = server_with_both(&[("fsync", "off"), ("max_prepared_transactions", "2")]);
    let mut installer = server.connect_as("installer");
    let mut client = server.connect();
    run(
        &mut client,
        "CREATE ROLE friend LOGIN; CREATE TABLE public.caught (who name); GRANT ALL ON caught TO PUBLIC",
    );
    let trap = "INSERT INTO public.caught VALUES (current_user)";
    run(
        &mut installer,
        &format!(
            "CREATE OR REPLACE FUNCTION ids.id_time(id bigint) RETURNS timestamptz LANGUAGE plpgsql SECURITY DEFINER
                SET search_path = insta5 AS 'BEGIN {trap}; RETURN now(); END';
             CREATE OR REPLACE FUNCTION ids._shard_states() RETURNS TABLE (shard integer, schema regnamespace,
                sequence regclass, epoch timestamptz, last_id bigint) LANGUAGE plpgsql AS 'BEGIN {trap}; RETURN; END';
             CREATE OR REPLACE FUNCTION ids._shard_next_id(shard integer, seq regclass, epoch timestamptz) RETURNS bigint
                LANGUAGE plpgsql AS 'BEGIN {trap}; RETURN 1; END';
             CREATE FUNCTION ids._own() RETURNS void LANGUAGE plpgsql AS 'BEGIN {trap}; END';
             CREATE RULE r AS ON UPDATE TO ids.id_shards DO INSTEAD {trap};
             GRANT ALL ON FUNCTION ids.id_time(bigint), ids.create_shard TO friend WITH GRANT OPTION;
             GRANT ALL ON SCHEMA ids TO friend WITH GRANT OPTION"
        ),
    );
    run(
        &mut server.connect_as("friend"),
        "GRANT ALL ON FUNCTION ids.create_shard TO writer; GRANT CREATE ON SCHEMA ids TO PUBLIC;
         CREATE OPERATOR ids.= (FUNCTION = int4ne, LEFTARG = integer, RIGHTARG = integer)",
    );
    // Objects that are not the portable edition's are in the way, also for the script itself.
    let refused = error_of(&mut client, TAKE_OVER);
    assert_eq!((&refused.0[..], refused.1.contains("operator")), ("55000", true), "{refused:?}");
    run(&mut server.connect_as("friend"), "DROP OPERATOR ids.= (integer, integer)");
    // Objects that other sessions are about to create: a change of an existing function fails, and
    // a new function prevents the second statement.
    let mut replacing = server.connect_as("installer");
    run(&mut replacing, &format!("BEGIN; {}", REPLACEMENTS[0]));
    run(&mut client, "SET lock_timeout = '200ms'");
    assert_eq!(error_of(&mut client, TAKE_OVER).0, "55P03");
    run(&mut replacing, "ROLLBACK");
    let mut creating = server.connect_as("installer");
    run(
        &mut client,
        "UPDATE pg_extension SET extowner = 'installer'::regrole WHERE extname = 'plpgsql'",
    );
    run(
        &mut creating,
        &format!(
            "BEGIN; {}; ALTER EXTENSION plpgsql ADD FUNCTION ids.id_time(text);
             CREATE FUNCTION ids._member() RETURNS void BEGIN ATOMIC END; ALTER EXTENSION plpgsql ADD FUNCTION ids._member();
             CREATE PROCEDURE ids._procedure() BEGIN ATOMIC END",
            REPLACEMENTS[2]
        ),
    );
    // A session can use privileges that it has looked up before the take-over until its transaction
    // ends. The session that updates has looked at the list of sessions before that one began.
    let mut updating = server.connect();
    run(&mut updating, "BEGIN; SELECT FROM pg_stat_activity");
    let mut idle = server.connect_as("installer");
    run(&mut idle, "BEGIN; SELECT 'idle'");
    run(&mut client, TAKE_OVER);
    let refused = error_of(&mut updating, UPDATE);
    for session in [&mut creating, &mut idle] {
        let process = format!("process {}", one::<i32>(session, "SELECT pg_backend_pid()"));
        assert!(refused.0 == "55006" && refused.1.contains(&process), "{process}: {refused:?}");
    }
    run(&mut updating, "ROLLBACK");
    run(&mut idle, "COMMIT");
    // Also if it is prepared while the statement waits.
    let prepare = || run(&mut creating, "PREPARE TRANSACTION 'later'");
    let refused = while_waiting(&server, &mut updating, prepare).expect_err("it is open");
    assert_eq!(refused.code().unwrap().code(), "55006");
    let message = "a transaction that began before this statement is still open
prepared transaction 'later'.";
    let refused = error_of(&mut client, UPDATE);
    assert_eq!((&refused.0[..], &refused.1[..]), ("55006", message));
    run(&mut creating, "COMMIT PREPARED 'later'");
    let message = "schema ids contains objects that are not of the extension
function ids.id_time(text), function ids._member(), function ids._procedure().";
    let refused = error_of(&mut client, UPDATE);
    assert_eq!((&refused.0[..], &refused.1[..]), ("55000", message));

    for statement in REPLACEMENTS {
        for role in ["installer", "friend"] {
            assert_eq!(
                error_of(&mut server.connect_as(role), statement).0,
                "42501",
                "{role}: {statement}"
            );
        }
    }
    run(
        &mut installer,
        "GRANT CREATE ON SCHEMA ids TO PUBLIC; GRANT ALL ON ids.id_shards TO friend",
    ); // with a warning, and no effect
    // His own, still.
    run(
        &mut installer,
        "ALTER EXTENSION plpgsql DROP FUNCTION ids.id_time(text); ALTER EXTENSION plpgsql DROP FUNCTION ids._member();
         DROP FUNCTION ids.id_time(text); DROP PROCEDURE ids._procedure()",
    );
    update_while_transactions_end(&server, &mut client);
    assert_eq!(catalog(&mut client), catalog(&mut server.connect_to("library")));
    run(&mut client, "SELECT ids.id_time(5), ids.next_id(5); SELECT * FROM ids.id_shards");
    assert_eq!(texts(&mut client, "SELECT who::text FROM public.caught"), Vec::<String>::new());
    let schema = "SELECT concat_ws(' ', nspowner::regrole, has_schema_privilege('friend', oid, 'CREATE'),
        has_schema_privilege('installer', oid, 'CREATE'), obj_description(oid, 'pg_namespace')) FROM pg_namespace WHERE nspname = 'ids'";
    assert_eq!(one::<String>(&mut client, schema), "postgres f f");
}

/// A script runs as a superuser, and names the schema and the functions. While it waits for a lock
/// of the hostile role, that role cannot give these names to other objects.
#[test]
fn names_do_not_change_while_an_installation_waits() {
    let server = server_with_both(&[("fsync", "off")]);
    let mut client = server.connect();
    run(&mut client, "CREATE DATABASE plain");
    run(&mut client, "GRANT CREATE ON DATABASE plain TO installer");
    let plain = || {
        let mut client = server.connect_to("plain");
        run(&mut client, "SET ROLE installer");
        client
    };
    run(&mut plain(), "CREATE SCHEMA evil");
    let cases = [
        (
            server.connect_as("installer"),
            "LOCK TABLE ids.id_shards IN ACCESS SHARE MODE",
            server.connect_as("installer"),
            TAKE_OVER,
            server.connect_as("installer"),
            [
                "ALTER FUNCTION ids.instagram_id_version() RENAME TO other",
                "ALTER SCHEMA ids RENAME TO other",
            ],
        ),
        (
            plain(),
            "CREATE FUNCTION evil._next_id(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
            plain(),
            "CREATE EXTENSION instagram_id SCHEMA evil",
            plain(),
            ["ALTER SCHEMA evil RENAME TO other", "DROP SCHEMA evil CASCADE"],
        ),
    ];
    for (mut blocker, block, mut installing, statement, mut renaming, changes) in cases {
        run(&mut blocker, &format!("BEGIN; {block}"));
        let pid: i32 = one(&mut installing, "SELECT pg_backend_pid()");
        thread::scope(|scope| {
            scope.spawn(move || run(&mut installing, statement));
            server.wait_until(&format!(
                "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = {pid} AND NOT granted)"
            ));
            run(&mut renaming, "SET statement_timeout = '300ms'");
            for change in changes {
                assert_eq!(error_of(&mut renaming, change).0, "57014", "{change}");
            }
            run(&mut blocker, "ROLLBACK");
        });
    }
}

/// Each edition refuses to be installed beside the other. An upgrade of the portable edition keeps
/// its shards, and gives no privilege to other roles.
fn check_refusals_of_the_file(server: &Server) {
    let mut client = server.connect();
    // Also if its schema has another owner than its functions.
    for owner in ["postgres", "installer"] {
        run(&mut client, &format!("ALTER SCHEMA ids OWNER TO {owner}"));
        let refused = error_of(&mut client, "CREATE EXTENSION instagram_id");
        assert_eq!((&refused.0[..], &refused.1[..22]), ("55000", "the portable edition o"));
    }
    let file = std::fs::read_to_string(of_project(FILE)).unwrap();
    let before: i64 = one(&mut client, "SELECT insta5.next_id()");
    let revoke = "REVOKE ALL ON id_shards FROM PUBLIC; REVOKE ALL ON FUNCTION id_seq FROM PUBLIC";
    run(&mut server.connect_as("installer"), &format!("{revoke}; {file}"));
    assert!(one::<i64>(&mut client, "SELECT insta5.next_id()") > before);
    // Another role cannot run the file where it is installed, and gets no privilege by an upgrade.
    let mut mallory = server.connect_as("mallory");
    assert_eq!(error_of(&mut mallory, &file).0, "42P06");
    run(&mut mallory, "ROLLBACK");
    for statement in ["SELECT * FROM id_shards", "SELECT id_seq(5)"] {
        assert_eq!(error_of(&mut mallory, statement).0, "42501", "{statement}");
    }
    run(
        &mut client,
        "GRANT SELECT ON id_shards TO PUBLIC; GRANT EXECUTE ON FUNCTION id_seq TO PUBLIC",
    );
    // Beside the library, also for its own installer. An object that only has a name of the
    // portable edition is no obstacle.
    let mut plain = server.connect_to("plain");
    let library =
        "CREATE SCHEMA ids_mutexes CREATE VIEW _mutex_0 AS SELECT; CREATE EXTENSION instagram_id";
    run(&mut plain, library);
    let refused = error_of(&mut plain, &file);
    assert_eq!((&refused.0[..], &refused.1[..22]), ("55000", "extension instagram_id"));
    run(&mut plain, "ROLLBACK; DROP EXTENSION instagram_id; DROP SCHEMA ids_mutexes CASCADE");
}

/// Such a transaction does not see what others have installed since its first statement.
fn check_refusal_of_an_old_snapshot(client: &mut Client, statement: &str) {
    run(client, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    let refused = error_of(client, statement);
    assert!(
        refused.0 == "55000" && refused.1.contains("at isolation level repeatable read"),
        "{refused:?}"
    );
    run(client, "ROLLBACK");
}

/// Two sessions that install different editions in database "plain" do not see each other, nor does
/// a transaction see what was installed after its snapshot.
fn check_installations_at_the_same_time(server: &Server) {
    let file = std::fs::read_to_string(of_project(FILE)).unwrap();
    let [mut installing, mut other] = [(); 2].map(|()| server.connect_to("plain"));
    run(&mut installing, "DROP SCHEMA ids");
    for (first, second) in [
        (file.replace("COMMIT;", ""), "CREATE EXTENSION instagram_id"),
        ("CREATE EXTENSION instagram_id".into(), &file),
    ] {
        check_refusal_of_an_old_snapshot(&mut other, second);
        run(&mut installing, &format!("BEGIN; {first}"));
        assert_eq!(error_of(&mut other, second).0, "55006");
        run(&mut installing, "ROLLBACK");
        run(&mut other, "ROLLBACK");
    }
}

/// The roles that can take over, and the states that refuse it. Each refusal leaves the portable
/// edition as it was.
#[test]
fn take_over_is_refused_where_it_would_be_wrong() {
    let server = server_with_both(&[("fsync", "off")]);
    let mut client = server.connect();
    run(
        &mut client,
        "CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory; CREATE SCHEMA elsewhere",
    );
    run(&mut client, "CREATE DATABASE plain");
    let refusals = [
        (TAKE_OVER, "mallory", "42501", "must be owner of schema ids"),
        (
            "CREATE EXTENSION instagram_id SCHEMA ids",
            "postgres",
            "55000",
            "the portable edition of instagram_id is installed",
        ),
        (
            "CREATE EXTENSION instagram_id SCHEMA elsewhere VERSION '1.0.0-portable'",
            "postgres",
            "55000",
            "the portable edition of instagram_id is not",
        ),
    ];
    for (statement, role, state, message) in refusals {
        let refused = error_of(&mut server.connect_as(role), statement);
        assert_eq!(
            (&refused.0[..], refused.1.starts_with(message)),
            (state, true),
            "{role}: {statement}: {refused:?}"
        );
    }
    check_refusals_of_the_file(&server);
    let mut plain = server.connect_to("plain");
    run(&mut plain, "CREATE SCHEMA ids");
    assert_eq!(error_of(&mut plain, TAKE_OVER).0, "55000");
    check_refusal_of_an_old_snapshot(&mut client, TAKE_OVER);
    run(&mut client, "SELECT insta5.next_id()");
    // The first statement takes effect for all sessions before the second one.
    run(&mut client, &format!("BEGIN; {TAKE_OVER}"));
    assert_eq!(error_of(&mut client, UPDATE).0, "55006");
    run(&mut client, "ROLLBACK; SELECT insta5.next_id()");
    check_installations_at_the_same_time(&server);

    // The installer can: the functions belong to a superuser, the schema stays his.
    let mut installer = server.connect_as("installer");
    run(&mut installer, TAKE_OVER);
    check_refusal_of_an_old_snapshot(&mut installer, UPDATE);
    run(&mut client, "BEGIN; SELECT pg_advisory_xact_lock(1314220021721)");
    let refused = error_of(&mut installer, UPDATE);
    assert!(refused.0 == "55006" && refused.1.contains("1314220021721"), "{refused:?}");
    run(&mut client, "ROLLBACK");
    run(&mut installer, UPDATE);
    assert_eq!(error_of(&mut installer, REPLACEMENTS[0]).0, "42501");
    assert_eq!(catalog(&mut client), catalog(&mut server.connect_to("library")));
    let file = std::fs::read_to_string(of_project(FILE)).unwrap();
    assert_eq!(error_of(&mut server.connect_as("installer"), &file).0, "55000");
    run(&mut installer, "SELECT insta5.next_id(); SELECT create_shard(6)");
}

/// Objects of others, and functions that were given to another role, prevent a take-over. The HINT
/// distinguishes them, because all ids need the functions.
#[test]
fn objects_of_others_are_named() {
    let server = server_with_both(&[("fsync", "off")]);
    let mut client = server.connect();
    let function = "ALTER FUNCTION ids.id_time(bigint) OWNER TO";
    run(
        &mut client,
        &format!(
            "CREATE ROLE other; CREATE TABLE ids.own (); {function} other; SET ROLE installer;
            CREATE FUNCTION ids.help() RETURNS void BEGIN ATOMIC END;
            CREATE PROCEDURE ids._help() BEGIN ATOMIC END; RESET ROLE"
        ),
    );
    with_old_strings(&mut client);
    let refused = error_of(&mut client, TAKE_OVER);
    let message = "schema ids contains objects that are not of the portable edition
function ids.id_time(bigint), table ids.own, function ids.help(), function ids._help().";
    let hint = "Give functions of the portable edition to the owner of the schema. Drop others, or move them to another schema.";
    assert_eq!(refused, ("55000".into(), message.into(), hint.into()));
    // Objects that only name the schema are not in it, and stay. Default privileges are no code.
    run(
        &mut client,
        &format!(
            "CREATE VIEW names AS SELECT FROM pg_class WHERE relnamespace = 'ids'::regnamespace;
            CREATE FUNCTION public._names() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM pg_class WHERE relnamespace = 'ids'::regnamespace; END;
            ALTER DEFAULT PRIVILEGES FOR ROLE other IN SCHEMA ids REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
            DROP TABLE ids.own; DROP FUNCTION ids.help(); DROP PROCEDURE ids._help(); {function} installer"
        ),
    );
    run(&mut client, TAKE_OVER);
    run(
        &mut client,
        "ALTER EXTENSION instagram_id UPDATE; SELECT public._names(); SELECT FROM names",
    );
}

/// A transaction that has taken values from a sequence may run on in the other edition, whose
/// functions were dropped meanwhile. `create_shard` waits for it before it creates a `next_id()`,
/// and each edition refuses an installation beside the other one, also if comments are lost or the
/// owner of its views has changed.
#[test]
fn no_edition_generates_ids_beside_the_other() {
    let server = Server::start(&[]);
    let (mut client, mut running) = (server.connect(), server.connect());
    let created = "SELECT create_shard(5, if_not_exists => true)";
    let portable = &std::fs::read_to_string(of_project(FILE)).unwrap();
    run(&mut client, "CREATE EXTENSION instagram_id; SELECT create_shard(5)");
    for (drop, install, schema) in [
        ("DROP EXTENSION instagram_id CASCADE", portable.as_str(), "ids"),
        ("DROP SCHEMA ids, ids_mutexes CASCADE", "CREATE EXTENSION instagram_id", "public"),
    ] {
        run(&mut running, "BEGIN");
        let mut ids = vec![one(&mut running, "SELECT insta5.next_id()")];
        run(&mut client, &format!("{drop}; RESET ALL"));
        run(&mut client, install);
        run(&mut client, &format!("SET search_path = {schema}; SET lock_timeout = '300ms'"));
        let (state, message, _) = error_of(&mut client, created);
        assert!(
            state == "55P03" && message.starts_with("could not obtain a lock on relation"),
            "{message}"
        );
        run(&mut running, "COMMIT");
        run(&mut client, created);
        ids.push(one(&mut client, "SELECT insta5.next_id()"));
        check_unique_and_increasing(&[ids]);
    }
    let refused = error_of(&mut client, portable);
    assert!(refused.0 == "55000" && refused.1.contains("extension"), "{refused:?}");
    run(&mut client, "ROLLBACK; DROP EXTENSION instagram_id CASCADE");
    run(&mut client, portable);
    run(&mut client, "COMMENT ON SCHEMA ids IS NULL");
    run(&mut client, portable);
    for change in ["", "CREATE ROLE app; ALTER VIEW ids_mutexes._mutex_0 OWNER TO app"] {
        run(&mut client, change);
        let refused = error_of(&mut client, "CREATE EXTENSION instagram_id");
        assert!(refused.0 == "55000" && refused.1.contains("portable edition"), "{refused:?}");
    }
}

/// A role without a privilege has locks on mutexes by their OIDs, and releases them one after
/// another. Calls do not wait behind the take-over for longer than two seconds.
#[test]
fn locks_by_oids_do_not_keep_calls_waiting() {
    let server = server_with_both(&[("fsync", "off")]);
    let mut client = server.connect();
    run(&mut client, "CREATE ROLE mallory LOGIN; SET statement_timeout = '20s'");
    let mut holders = ["_queue_9", "_mutex_9", "_mutex_3", "_create_shard"].map(|mutex| {
        let oid: u32 = one(&mut client, &format!("SELECT 'ids_mutexes.{mutex}'::regclass::oid"));
        let mut holder = server.connect_as("mallory");
        run(&mut holder, "BEGIN; SAVEPOINT before");
        assert_eq!(error_of(&mut holder, &format!("SELECT nextval({oid}::regclass)")).0, "42809");
        run(&mut holder, "ROLLBACK TO before");
        holder
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            server.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)");
            for holder in &mut holders {
                thread::sleep(Duration::from_millis(900));
                run(holder, "ROLLBACK");
            }
        });
        assert_eq!(error_of(&mut client, TAKE_OVER).0, "55P03");
        run(&mut client, "SELECT insta5.next_id()");
    });
    run(&mut client, TAKE_OVER);
}

/// A call of create_shard() that has its lock needs the functions that a take-over changes.
#[test]
fn create_shard_and_take_over_wait_in_turn() {
    let server = server_with_both(&[("fsync", "off")]);
    let mut installer = server.connect_as("installer");
    run(
        &mut installer,
        "BEGIN; LOCK TABLE ids_mutexes._create_shard IN SHARE UPDATE EXCLUSIVE MODE",
    );
    thread::scope(|scope| {
        let take_over = scope.spawn(|| retry(&mut server.connect(), TAKE_OVER));
        server.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)");
        run(&mut installer, "SELECT ids.create_shard(8); COMMIT");
        take_over.join().unwrap();
    });
    run(&mut installer, "SELECT insta8.next_id()");
}

#[test]
fn create_shard_that_waited_for_a_take_over_can_be_repeated() {
    let server = server_with_both(&[("fsync", "off")]);
    let mut superuser = server.connect();
    run(&mut superuser, &format!("BEGIN; {TAKE_OVER}"));
    let refused = thread::scope(|scope| {
        let create = || error_of(&mut server.connect_as("installer"), "SELECT ids.create_shard(9)");
        let created = scope.spawn(create);
        server.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)");
        run(&mut superuser, "COMMIT");
        created.join().unwrap()
    });
    assert_eq!(refused.0, "55006");
    assert!(refused.1.starts_with("the library has taken the place of the portable edition"));
    run(&mut server.connect_as("installer"), "SELECT ids.create_shard(9)");
}

/// The script runs as a superuser, also for a role that only has CREATE on the database. A schema
/// of another role with the name of that of the mutexes, and its views, stay as they are.
#[test]
fn schema_of_another_role_is_not_that_of_the_mutexes() {
    let server = Server::start(&[("fsync", "off")]);
    let roles = "CREATE ROLE vic LOGIN; CREATE ROLE evil LOGIN; GRANT CREATE ON DATABASE postgres TO vic, evil";
    run(&mut server.connect(), roles);
    let [mut vic, mut evil] = ["vic", "evil"].map(|role| server.connect_as(role));
    let data = "CREATE SCHEMA ids_mutexes CREATE VIEW _mutex_0 AS SELECT 'data' AS d CREATE VIEW _queue_7 AS SELECT";
    run(&mut vic, data);
    let file = std::fs::read_to_string(of_project(FILE)).unwrap();
    run(&mut evil, &file.replace("ids_mutexes", "evil_mutexes"));
    let refused = error_of(&mut evil, TAKE_OVER);
    let message = "the portable edition of instagram_id is not installed in schema ids";
    assert_eq!((&refused.0[..], &refused.1[..]), ("55000", message));
    run(&mut vic, "TABLE ids_mutexes._mutex_0; TABLE ids_mutexes._queue_7");
    // Nor if it takes the place of that of the mutexes after the take-over.
    run(&mut vic, "DROP SCHEMA ids_mutexes CASCADE");
    run(&mut evil, "ALTER SCHEMA evil_mutexes RENAME TO ids_mutexes");
    run(&mut evil, TAKE_OVER);
    run(&mut evil, "DROP SCHEMA ids_mutexes");
    run(&mut vic, "CREATE SCHEMA ids_mutexes");
    retry(&mut evil, UPDATE);
    let owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'ids_mutexes'";
    assert_eq!(one::<String>(&mut server.connect(), owner), "vic");
}
