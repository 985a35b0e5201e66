//! Adopts the PL/pgSQL original, and restores it, under uninterrupted writes.

use crate::sessions::name_in_defaults;
use instagram_id_live::*;
use postgres::Client;
use postgres::error::SqlState;
use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The original as shard 5, with two tables whose ids it generates.
fn original() -> String {
    format!(
        "{}
         CREATE TABLE insta5.photos (id bigint DEFAULT insta5.next_id(), n int);
         CREATE TABLE insta5.likes (id bigint DEFAULT insta5.next_id(), n int);
         CREATE INDEX ON insta5.photos (id);
         CREATE INDEX ON insta5.likes (id)",
        original_of_shard(5)
    )
}

const PLANNED: &str = "
    SET plan_cache_mode = force_generic_plan;
    PREPARE planned AS INSERT INTO insta5.photos DEFAULT VALUES RETURNING id";

/// A statement of a writer: when it began and ended, and the ids it returned.
struct Statement {
    way: usize,
    began: Instant,
    ended: Instant,
    ids: Vec<i64>,
}

/// The index of the way whose ids are stored in no table.
const BY_ITSELF: usize = 4;

/// Ways from this index on call the function outside of a default. A call in progress of the
/// original fails when the adoption ends.
const DIRECT: usize = BY_ITSELF;

/// Runs a statement and returns the ids it received.
type Way = fn(&mut Client) -> Result<Vec<i64>, postgres::Error>;

const WAYS: [Way; 6] = [
    // Through the default, with a plan that is cached for the whole session.
    |client| ids(client, "EXECUTE planned"),
    |client| ids(client, "INSERT INTO insta5.likes (n) VALUES (1), (2), (3) RETURNING id"),
    // Long enough for the replacement of the function to happen during the statement.
    |client| {
        ids(
            client,
            "INSERT INTO insta5.photos (n) SELECT n FROM generate_series(1, 500) AS n RETURNING id",
        )
    },
    |client| {
        let mut rows = client.copy_in("COPY insta5.likes (n) FROM stdin")?;
        rows.write_all("1\n".repeat(200).as_bytes()).unwrap();
        rows.finish()?;
        Ok(vec![]) // their ids are in the table
    },
    // A direct call.
    |client| ids(client, "SELECT insta5.next_id()"),
    // A direct call, followed by an insert in the same transaction: the reverse of the order in
    // which an adoption takes its locks.
    |client| {
        let mut transaction = client.transaction()?;
        let id: i64 = transaction.query_one("SELECT insta5.next_id()", &[])?.get(0);
        thread::sleep(Duration::from_millis(2));
        transaction.execute("INSERT INTO insta5.photos (id) VALUES ($1)", &[&id])?;
        transaction.commit()?;
        Ok(vec![id])
    },
];

fn ids(client: &mut Client, statement: &str) -> Result<Vec<i64>, postgres::Error> {
    Ok(client.query(statement, &[])?.iter().map(|row| row.get(0)).collect())
}

/// A session that has prepared what these ways need.
fn session(server: &Server) -> Client {
    let mut client = server.connect();
    run(&mut client, PLANNED);
    client
}

fn write(client: &mut Client, way: usize, until: &AtomicBool) -> Vec<Statement> {
    let mut statements = vec![];
    while !until.load(Ordering::Relaxed) {
        let began = Instant::now();
        let ids = WAYS[way](client).unwrap_or_else(|error| {
            let code = error.code();
            let is_in_progress = code == Some(&SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED);
            assert!(way >= DIRECT && is_in_progress, "writer {way}: {}", why(&error));
            vec![]
        });
        statements.push(Statement { way, began, ended: Instant::now(), ids });
    }
    statements
}

/// An adoption: when it began, and the range of ids that the extension generated until it was
/// reverted.
struct Adoption {
    began: Instant,
    ended: Instant,
    above: i64,
    last: i64,
}

/// Every insert succeeds; statements that begin after an adoption generate ids above all earlier
/// ones; and no new id is repeated. (Duplicates of the original itself, which occur when a session
/// is suspended between its nextval and its clock, are counted and printed.)
#[test]
fn adoption_under_load_loses_and_repeats_nothing() {
    adopt_under_load(&original());
}

/// The same with a function in SQL, which reads the clock before its sequence, and is inlined into
/// plans.
#[test]
fn adoption_of_a_function_in_sql_under_load_loses_and_repeats_nothing() {
    let in_sql = format!(
        "CREATE OR REPLACE FUNCTION insta5.next_id() RETURNS bigint LANGUAGE sql AS $$
         SELECT ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - {ORIGINAL_EPOCH_MS}) << 23)
             | (5 << 10) | (nextval('insta5.table_id_seq') % 1024) $$;"
    );
    let published = original_function("insta5", 5, ORIGINAL_EPOCH_MS);
    let original = original();
    assert!(original.contains(&published));
    adopt_under_load(&original.replace(&published, &in_sql));
}

#[expect(clippy::too_many_lines, reason = "one history of a table")]
fn adopt_under_load(original: &str) {
    const ROUNDS: usize = 2;
    let (server, mut client) = with_extension();
    run(&mut client, original);
    let stop = AtomicBool::new(false);
    let mut adoptions: Vec<Adoption> = vec![];
    let statements: Vec<Statement> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WAYS.len())
            .map(|way| {
                let (server, stop) = (&server, &stop);
                scope.spawn(move || write(&mut session(server), way, stop))
            })
            .collect();
        let _stop_at_end = StopAtEnd(&stop);
        for round in 0..ROUNDS {
            thread::sleep(Duration::from_millis(300 + 37 * round as u64));
            let began = Instant::now();
            let above: i64 = one(&mut client, "SELECT starts_above FROM adopt_shard(5)");
            adoptions.push(Adoption { began, ended: Instant::now(), above, last: i64::MAX });
            thread::sleep(Duration::from_millis(300));
            if round + 1 < ROUNDS {
                let mut transaction = client.transaction().unwrap();
                transaction.query_one("SELECT unadopt_shard(5)", &[]).unwrap();
                let last = "SELECT last_value >> 10 << 23 | 8388607 FROM insta5.table_id_seq";
                adoptions[round].last = transaction.query_one(last, &[]).unwrap().get(0);
                transaction.commit().unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });

    for (round, adoption) in adoptions.iter().enumerate() {
        let ids_of = |belongs: &dyn Fn(&Statement) -> bool| -> Vec<i64> {
            statements
                .iter()
                .filter(|it| belongs(it))
                .flat_map(|it| it.ids.iter().copied())
                .collect()
        };
        let old = ids_of(&|statement| statement.ended < adoption.began);
        let new = ids_of(&|statement| statement.began > adoption.ended);
        let (newest, first) = (*old.iter().max().unwrap(), *new.iter().min().unwrap());
        let above = adoption.above;
        assert!(
            newest < above && above < first,
            "round {round}: {newest} before, above {above}, then {first}"
        );
    }
    // Ids of direct calls are only in what the clients received; the others are in the tables.
    let received =
        statements.iter().filter(|it| it.way == BY_ITSELF).flat_map(|it| it.ids.iter().copied());
    let mut all: Vec<i64> = received.collect();
    all.extend(column(
        &mut client,
        "SELECT id FROM insta5.photos UNION ALL SELECT id FROM insta5.likes",
    ));
    all.sort();
    assert!(all.iter().all(|id| id >> 10 & 8191 == 5), "an id of another shard");
    let twice: Vec<i64> =
        all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    for id in &twice {
        let is_new =
            adoptions.iter().position(|adoption| adoption.above < *id && *id <= adoption.last);
        assert_eq!(is_new, None, "{id}, made after this adoption, is there twice");
    }
    let of_ours =
        |id: &&i64| adoptions.iter().any(|adoption| adoption.above < **id && **id <= adoption.last);
    let longest =
        statements.iter().map(|statement| statement.ended - statement.began).max().unwrap();
    let longest_switch =
        adoptions.iter().map(|adoption| adoption.ended - adoption.began).max().unwrap();
    println!(
        "{} ids in {} statements of {} writers, {} of them ours; {ROUNDS} adoptions, the longest {longest_switch:?}; the \
         longest statement {longest:?}; duplicates: {} of the original's, none of ours",
        all.len(),
        statements.len(),
        WAYS.len(),
        all.iter().filter(of_ours).count(),
        twice.len(),
    );
}

/// A server with the original, and a session.
fn with_the_original() -> (Server, Client) {
    let (server, mut client) = with_extension();
    run(&mut client, &original());
    (server, client)
}

/// Waits until this many sessions wait for locks on relations.
fn until_blocked(client: &mut Client, count: i64) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'";
    while one::<i64>(client, blocked) < count {
        assert!(Instant::now() < deadline, "fewer than {count} sessions wait");
        thread::sleep(Duration::from_millis(2));
    }
}

/// An adoption waits for a transaction that has an id of the original without blocking it, and then
/// includes the rows that it wrote.
#[test]
fn waiting_adoption_does_not_block_and_includes_earlier_rows() {
    let (server, mut client) = with_the_original();
    let mut writer = server.connect();
    run(&mut writer, "SET deadlock_timeout = '100ms'; BEGIN; SELECT insta5.next_id()");
    let (newest, above, ahead) = thread::scope(|scope| {
        let adoption = scope.spawn(|| {
            let row = client
                .query_one("SELECT newest_id, starts_above FROM adopt_shard(5)", &[])
                .unwrap();
            (row.get::<_, i64>(0), row.get::<_, i64>(1))
        });
        // Meanwhile the adoption requests its lock, gives up, and retries.
        let insert = "INSERT INTO insta5.photos
            VALUES (make_id(clock_timestamp() + interval '5 s', 5, 7)) RETURNING id";
        let mut ahead = 0;
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(10));
            ahead = one(&mut writer, insert);
        }
        assert!(!adoption.is_finished());
        run(&mut writer, "COMMIT");
        let (newest, above) = adoption.join().unwrap();
        (newest, above, ahead)
    });
    assert_eq!(newest, ahead);
    assert!(newest < above, "newest {newest}, above {above}");
}

/// Changes of the original, and of the tables with its ids.
fn changes() -> [String; 2] {
    [
        original_function("insta5", 5, 1_293_840_000_000),
        "CREATE TABLE insta5.more (id bigint DEFAULT insta5.next_id())".to_owned(),
    ]
}

/// A call does not override a change that is made while it waits. Where PostgreSQL locks a function
/// to replace it, the change waits for the call instead. Repeated, the call succeeds, or fails with
/// this SQLSTATE.
fn check_not_overridden(
    (server, mut client): (Server, Client),
    call: &str,
    change: &str,
    again: Option<&str>,
) {
    let (mut writer, mut watch) = (server.connect(), server.connect());
    run(&mut writer, "BEGIN; INSERT INTO insta5.photos DEFAULT VALUES");
    let (changed, result) = thread::scope(|scope| {
        let calling = scope.spawn(|| attempt(&mut client, call));
        until_blocked(&mut watch, 1); // it has read the function and its tables
        let change = format!("SET lock_timeout = '1s'; {change}");
        let changed = server.connect().batch_execute(&change);
        run(&mut writer, "COMMIT");
        (changed, calling.join().unwrap())
    });
    if let Err(error) = changed {
        assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{change}");
        result.unwrap();
        return;
    }
    let error = result.expect_err(change);
    let error = error.as_db_error().unwrap();
    let message = "function insta5.next_id() or its tables changed concurrently";
    assert_eq!((error.code().code(), error.message()), ("55006", message), "{change}");
    match again {
        None => run(&mut client, call),
        Some(state) => assert_eq!(error_of(&mut client, call).0, state),
    }
}

#[test]
fn adoption_does_not_override_a_concurrent_change() {
    for change in changes() {
        check_not_overridden(with_the_original(), "SELECT adopt_shard(5)", &change, None);
    }
}

#[test]
fn unadopt_shard_does_not_override_a_concurrent_change() {
    // A function that was replaced must be adopted again first.
    for (change, again) in changes().into_iter().zip([Some("55000"), None]) {
        let (server, mut client) = with_the_original();
        run(&mut client, "SELECT adopt_shard(5)");
        check_not_overridden((server, client), "SELECT unadopt_shard(5)", &change, again);
    }
}

/// If a writer locks the tables in another order than an adoption does, the adoption gives up, not
/// the writer.
#[test]
fn adoption_gives_up_in_a_deadlock() {
    let (server, mut client) = with_the_original();
    let mut writer = server.connect();
    let mut watch = server.connect();
    run(&mut client, "SET deadlock_timeout = '300ms'");
    run(
        &mut writer,
        "SET deadlock_timeout = '10s'; BEGIN; INSERT INTO insta5.likes DEFAULT VALUES",
    );
    thread::scope(|scope| {
        let adoption =
            scope.spawn(|| one::<i64>(&mut client, "SELECT starts_above FROM adopt_shard(5)"));
        until_blocked(&mut watch, 1);
        run(&mut writer, "INSERT INTO insta5.photos DEFAULT VALUES; COMMIT");
        adoption.join().unwrap();
    });
}

/// While a superuser converts the defaults of a table, the owner of its schema holds a lock that
/// the second statement waits for, and gives the names of schema and table to a table whose
/// partition key is a function of his own. The rename waits.
#[test]
#[allow(clippy::too_many_lines)] // one scenario
fn names_do_not_change_while_defaults_are_converted() {
    let (server, mut watch) = with_extension();
    run(
        &mut watch,
        "CREATE ROLE eve LOGIN;
             GRANT CREATE ON DATABASE postgres TO eve",
    );
    let as_eve = || {
        let mut client = server.connect();
        run(&mut client, "SET SESSION AUTHORIZATION eve");
        client
    };
    let [mut reader, mut dropper, mut renamer] = [as_eve(), as_eve(), as_eve()];
    run(
        &mut reader,
        "SELECT create_shard(9);
             CREATE TABLE insta9.q (id bigint DEFAULT insta9.next_id(), a bigint);
             CREATE VIEW insta9.v AS SELECT insta9.next_id() AS x;
             CREATE SCHEMA other;
             CREATE SCHEMA own;
             CREATE FUNCTION own.become_superuser() RETURNS void LANGUAGE plpgsql AS $$
             BEGIN
                 IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
                     ALTER ROLE eve SUPERUSER;
                 END IF;
             END $$;
             CREATE FUNCTION other.f(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
             BEGIN PERFORM own.become_superuser(); RETURN 1; END $$;
             CREATE TABLE other.q (id bigint, a bigint) PARTITION BY RANGE ((a + other.f(1)))",
    );
    run(&mut reader, "BEGIN; SELECT 1 FROM insta9.v WHERE false");
    let blocked = |client: &mut Client, count: i64| {
        server.wait_for("sessions wait", || {
            one::<i64>(client, "SELECT count(*) FROM pg_locks WHERE NOT granted") >= count
        });
    };
    let pid: i32 = one(&mut dropper, "SELECT pg_backend_pid()");
    let mut superuser = server.connect();
    thread::scope(|scope| {
        let dropping =
            scope.spawn(|| dropper.batch_execute("DROP FUNCTION insta9.next_id() CASCADE"));
        blocked(&mut watch, 1);
        let converting =
            scope.spawn(|| run(&mut superuser, "SELECT convert_defaults_to_triggers(9)"));
        blocked(&mut watch, 2);
        let renaming = scope.spawn(|| {
            renamer.batch_execute(
                "BEGIN; ALTER SCHEMA insta9 RENAME TO old; ALTER SCHEMA other RENAME TO insta9; COMMIT",
            )
        });
        server.wait_for("the rename has ended or waits", || {
            let waiting: i64 = one(&mut watch, "SELECT count(*) FROM pg_locks WHERE NOT granted");
            renaming.is_finished() || waiting >= 3
        });
        watch.execute("SELECT pg_cancel_backend($1)", &[&pid]).unwrap();
        assert!(dropping.join().unwrap().is_err());
        converting.join().unwrap();
        renaming.join().unwrap().unwrap();
    });
    assert!(!one::<bool>(&mut watch, "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'"));
    let table: String = one(
        &mut watch,
        "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE '%next_id%' OR NOT tgisinternal",
    );
    assert_eq!(table, "old.q");
}

/// A call waits for the owner of a schema, who has changed it. The owner rolls back and changes it
/// again. Either the call holds the schema then, or it waits on.
#[test]
fn schema_that_its_owner_changes_again_and_again_is_locked() {
    let server = Server::start(&[("fsync", "off")]);
    let [mut client, mut owner, mut watch] = [server.connect(), server.connect(), server.connect()];
    run(
        &mut client,
        "CREATE EXTENSION instagram_id; CREATE SCHEMA parts;
         CREATE TABLE parts.t (id bigint) PARTITION BY RANGE (id)",
    );
    let grant = "BEGIN; GRANT USAGE ON SCHEMA parts TO PUBLIC";
    for and_then in ["", "; ALTER SCHEMA parts RENAME TO other"] {
        run(&mut owner, &format!("{grant}{and_then}"));
        let (client, owner) = (&mut client, &mut owner);
        thread::scope(|scope| {
            let calling = scope.spawn(move || {
                run(client, "BEGIN; SELECT create_id_partitions('parts.t')");
                client
            });
            let waits = "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted";
            server.wait_for("the call waits", || one(&mut watch, waits));
            let again = scope.spawn(move || {
                run(owner, &format!("ROLLBACK; {grant}"));
                owner
            });
            server.wait_for("an end", || calling.is_finished() || again.is_finished());
            thread::sleep(Duration::from_millis(300));
            if again.is_finished() {
                assert!(!calling.is_finished(), "nothing keeps the owner from a rename");
                run(again.join().unwrap(), "ROLLBACK");
                run(calling.join().unwrap(), "ROLLBACK");
            } else {
                run(calling.join().unwrap(), "ROLLBACK");
                run(again.join().unwrap(), "ROLLBACK");
            }
        });
    }
}

/// Sessions of a role that may use the functions and the sequence write their rows in the catalogs
/// all the time, by a GRANT that grants nothing.
#[test]
fn grants_that_grant_nothing_do_not_stop_an_adoption() {
    let (server, mut client) = with_extension();
    run(&mut client, "CREATE ROLE reader");
    run(&mut client, &original_of_shard(5));
    run(&mut client, "GRANT USAGE ON SCHEMA insta5 TO reader");
    run(&mut client, "GRANT USAGE ON SEQUENCE insta5.table_id_seq TO reader");
    let stop = AtomicBool::new(false);
    let write = |mut reader: Client, objects: &[&str]| {
        run(&mut reader, "SET ROLE reader");
        let mut written = 0;
        for object in objects.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
            let grant = format!("BEGIN; GRANT ALL ON {object} TO reader");
            let is_written = reader.batch_execute(&grant).is_ok();
            thread::sleep(Duration::from_millis(5));
            run(&mut reader, if is_written { "COMMIT" } else { "ROLLBACK" });
            written += u32::from(is_written);
        }
        written
    };
    let functions = ["next_id", "original_next_id", "shard_5", "epoch"]
        .map(|name| format!("FUNCTION insta5.{name}()"));
    let functions = functions.each_ref().map(String::as_str);
    let sequence = ["SEQUENCE insta5.table_id_seq"];
    let grants = thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        let writing =
            [&functions[..], &functions, &sequence, &sequence, &sequence].map(|objects| {
                let reader = server.connect();
                scope.spawn(|| write(reader, objects))
            });
        for _ in 0..4 {
            run(&mut client, "SELECT adopt_shard(5, 'insta5')");
            run(&mut client, "SELECT unadopt_shard(5)");
        }
        drop(stop_at_end);
        writing.into_iter().map(|writer| writer.join().unwrap()).sum::<u32>()
    });
    assert!(grants > 20, "{grants}");
}

/// Two sessions of a role that can read a table keep partitions from being dropped. The waits of
/// all attempts, in which writers queue, have one limit.
#[test]
fn attempts_to_drop_partitions_have_one_limit() {
    let server = Server::start(&[("fsync", "off")]);
    let [mut client, mut reader, mut again] =
        [server.connect(), server.connect(), server.connect()];
    let begins = "from_time => now() - interval '2 months'";
    run(
        &mut client,
        &format!(
            "CREATE EXTENSION instagram_id; CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
             SELECT create_id_partitions('t', {begins}); SET lock_timeout = '3s'"
        ),
    );
    let oldest: String = one(
        &mut client,
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 't'::regclass ORDER BY inhrelid LIMIT 1",
    );
    run(&mut reader, &format!("BEGIN; SELECT FROM {oldest}"));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                run(&mut again, "BEGIN; LOCK TABLE ONLY t IN ACCESS SHARE MODE");
                thread::sleep(Duration::from_millis(2500));
                run(&mut again, "COMMIT");
            }
        });
        thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        let error = error_of(&mut client, "SELECT drop_old_id_partitions('t', now())");
        assert_eq!(error.0, "55P03", "{}", error.1);
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        drop(stop_at_end);
    });
}

/// VACUUM FULL gives the rows of pg_namespace other positions while a call that locks the row of a
/// schema waits for it.
#[test]
fn row_of_a_schema_is_found_again_after_vacuum_full() {
    let server = Server::start(&[("fsync", "off")]);
    let [mut client, mut reader, mut vacuum, mut watch] =
        [server.connect(), server.connect(), server.connect(), server.connect()];
    run(&mut client, "CREATE EXTENSION instagram_id;
             DO $$ BEGIN FOR n IN 1..300 LOOP EXECUTE format('CREATE SCHEMA before%s', n); END LOOP; END $$;
             CREATE SCHEMA parts;
             CREATE TABLE parts.t (id bigint) PARTITION BY RANGE (id);
             DO $$ BEGIN FOR n IN 1..300 LOOP EXECUTE format('DROP SCHEMA before%s', n); END LOOP; END $$");
    // No session can connect or look a schema up meanwhile.
    run(&mut client, "SELECT create_id_partitions('parts.t')");
    until_blocked(&mut watch, 0);
    run(&mut reader, "BEGIN; SELECT FROM pg_toast.pg_toast_2615");
    thread::scope(|scope| {
        scope.spawn(|| run(&mut vacuum, "VACUUM FULL pg_namespace"));
        until_blocked(&mut watch, 1);
        let call = "SELECT create_id_partitions('parts.t', ahead => 5)";
        scope.spawn(|| run(&mut client, call));
        until_blocked(&mut watch, 2);
        run(&mut reader, "COMMIT");
    });
}

/// A table that becomes a view while `adopt_table` waits for it is not read as a table. From
/// PostgreSQL 16 on a rule cannot do that, and the table is another relation by then.
#[test]
fn table_that_becomes_a_view_is_not_adopted() {
    let server = Server::start(&[("fsync", "off")]);
    let (mut client, mut other, mut watch) = (server.connect(), server.connect(), server.connect());
    setup(&mut client);
    run(&mut client, "CREATE TABLE t (id bigserial)");
    let change = match major() {
        15 => "CREATE RULE \"_RETURN\" AS ON SELECT TO t DO INSTEAD SELECT 1::bigint AS id",
        _ => "DROP TABLE t; CREATE VIEW t AS SELECT 1::bigint AS id",
    };
    for dry_run in [true, false] {
        run(&mut other, &format!("BEGIN; {change}"));
        let adopt = format!("SELECT adopt_table(5, 't'::regclass, 'id', dry_run => {dry_run})");
        let error = thread::scope(|scope| {
            let adoption = scope.spawn(|| attempt(&mut client, &adopt).unwrap_err());
            until_blocked(&mut watch, 1);
            run(&mut other, "COMMIT");
            adoption.join().unwrap()
        });
        let message = error.as_db_error().unwrap_or_else(|| panic!("{error}")).message();
        assert!(!message.is_empty());
        run(&mut other, "DROP VIEW t; CREATE TABLE t (id bigserial)");
    }
    assert_eq!(one::<i64>(&mut watch, "SELECT 1::bigint"), 1);
}

/// A writer that holds its locks longer than an adoption retries makes the adoption fail with an
/// error; meanwhile other writers are not blocked.
#[test]
fn blocked_adoption_does_not_block_writers() {
    // A GRANT writes the row of the sequence in pg_class, with no lock on the sequence.
    let blockers = [
        ("INSERT INTO insta5.photos DEFAULT VALUES", "insta5.photos"),
        ("GRANT USAGE ON SEQUENCE insta5.table_id_seq TO PUBLIC", "insta5.table_id_seq"),
    ];
    thread::scope(|scope| {
        for (blocker, relation) in blockers {
            scope.spawn(move || check_blocked_adoption(blocker, relation));
        }
    });
}

/// An open transaction blocks the adoption by this statement, with which it has used the relation.
fn check_blocked_adoption(blocker: &str, relation: &str) {
    let (server, mut client) = with_the_original();
    let mut idle = server.connect();
    let mut idle = idle.transaction().unwrap();
    run(&mut idle, blocker);
    let stop = AtomicBool::new(false);
    let (error, took, statements) = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&mut session(&server), 0, &stop));
        let started = Instant::now();
        let error = error_of(&mut client, "SELECT adopt_shard(5)");
        let took = started.elapsed();
        stop.store(true, Ordering::Relaxed);
        (error, took, writer.join().unwrap())
    });
    assert_eq!(error.0, "55P03");
    assert!(error.1.starts_with("could not obtain locks against writers\n"), "{}", error.1);
    assert!(error.1.contains(relation), "{}", error.1);
    let longest =
        statements.iter().map(|statement| statement.ended - statement.began).max().unwrap();
    println!("{} statements in {took:?}, the longest {longest:?}", statements.len());
    assert!(longest < took / 2, "{longest:?} of {took:?}");
    // The tables are free most of the time: with one statement per retry of the adoption there
    // would be about 20.
    assert!(statements.len() > 100, "{} statements meanwhile", statements.len());
    idle.commit().unwrap();
    one::<i64>(&mut client, "SELECT starts_above FROM adopt_shard(5)");
}

/// A cancel ends the pause between two attempts of an adoption. The pause is as long as the attempt
/// before it, which is made long here by stopping the session meanwhile.
#[test]
fn pause_of_an_adoption_can_be_cancelled() {
    let server = Server::start(&[("fsync", "off")]);
    let (mut client, mut writer, mut watch) =
        (server.connect(), server.connect(), server.connect());
    setup(&mut client);
    run(&mut client, "CREATE TABLE t (id bigserial PRIMARY KEY)");
    run(&mut writer, "BEGIN; INSERT INTO t DEFAULT VALUES");
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let event = if major() >= 17 { "InstagramIdTableLocks" } else { "Extension" };
    let pauses = format!(
        "SELECT wait_event IS NOT DISTINCT FROM '{event}' FROM pg_stat_activity WHERE pid = {pid}"
    );
    let (stopped, took) = thread::scope(|scope| {
        let adoption = scope.spawn(|| error_of(&mut client, "SELECT adopt_table(5, 't')"));
        until_blocked(&mut watch, 1);
        let began = Instant::now();
        server.freeze(pid);
        thread::sleep(Duration::from_secs(3));
        server.thaw(pid);
        let stopped = began.elapsed();
        server.wait_for("the pause", || one::<bool>(&mut watch, &pauses));
        let cancelled = Instant::now();
        run(&mut watch, &format!("SELECT pg_cancel_backend({pid})"));
        assert_eq!(adoption.join().unwrap().0, "57014");
        (stopped, cancelled.elapsed())
    });
    println!("a pause of {stopped:?}, ended {took:?} after the cancel");
    assert!(took < stopped / 2, "{took:?} of {stopped:?}");
}

/// An original with the given name and shard.
fn original_named(schema: &str, name: &str, sequence: &str, shard: i32) -> String {
    original_function(schema, shard, ORIGINAL_EPOCH_MS)
        .replace("next_id", name)
        .replace("table_id_seq", sequence)
}

/// Published code mostly creates the original in `public`. The extension has functions with the
/// names that a shard needs, so it must be in another schema; each error says how, and following
/// its hint works.
#[test]
fn originals_in_public_are_adopted_by_an_extension_in_another_schema() {
    let server = Server::start(&[("fsync", "off")]);
    let create_tables = "CREATE SEQUENCE public.table_id_seq";
    // The original has the name of one of the extension's functions: this conflict is reported
    // first.
    let mut client = server.connect();
    run(&mut client, create_tables);
    run(&mut client, &original_function("public", 5, ORIGINAL_EPOCH_MS));
    run(&mut client, "CREATE TABLE photos (id bigint DEFAULT next_id(), n int)");
    let (state, message, hint) = error_of(&mut client, "CREATE EXTENSION instagram_id");
    assert_eq!(state, "42723");
    assert!(message.starts_with("function public.next_id() already exists\n"), "{message}");
    let way = "BEGIN; CREATE SCHEMA ids; GRANT USAGE ON SCHEMA ids TO PUBLIC; CREATE EXTENSION instagram_id SCHEMA ids; COMMIT";
    let then = "SELECT * FROM ids.adopt_shard(NULL, 'public')";
    assert!(hint.contains(way), "{hint}");
    let old: i64 = one(&mut client, "INSERT INTO photos (n) VALUES (1) RETURNING id");
    run(&mut client, &format!("{way}; {then}"));
    let new: i64 = one(&mut client, "INSERT INTO photos (n) VALUES (2) RETURNING id");
    assert!(old < new && new >> 10 & 8191 == 5, "{old}, {new}");
    one::<String>(&mut client, "SELECT ids.unadopt_shard(5)::text");
    one::<i64>(&mut client, "INSERT INTO photos (n) VALUES (3) RETURNING id");

    // With another name the original does not keep the extension out of `public`.
    run(&mut client, "CREATE DATABASE other");
    let mut client = server.connect_to("other");
    run(&mut client, "CREATE EXTENSION instagram_id; SELECT create_shard(6)");
    run(&mut client, create_tables);
    run(&mut client, &original_named("public", "photo_id", "table_id_seq", 5));
    run(&mut client, "CREATE TABLE photos (id bigint DEFAULT photo_id(), n int)");
    let old: i64 = one(&mut client, "INSERT INTO photos (n) VALUES (1) RETURNING id");
    let way = "BEGIN; CREATE SCHEMA ids; GRANT USAGE ON SCHEMA ids TO PUBLIC; ALTER EXTENSION instagram_id SET SCHEMA ids; COMMIT";
    let then = "SELECT * FROM ids.adopt_shard(5, 'public')";
    for call in ["adopt_shard(5, 'public')", "create_shard(5, 'public', if_not_exists => true)"] {
        let (state, message, hint) = error_of(&mut client, &format!("SELECT {call}"));
        assert_eq!(state, "42723");
        assert!(
            message.starts_with("shard 5 cannot share a schema with the extension"),
            "{message}"
        );
        assert!(hint.contains(way), "{hint}");
    }
    run(&mut client, &format!("{way}; {then}"));
    let new: i64 = one(&mut client, "INSERT INTO photos (n) VALUES (2) RETURNING id");
    assert!(old < new && new >> 10 & 8191 == 5, "{old}, {new}");
    // Existing shards still work.
    assert_eq!(one::<i32>(&mut client, "SELECT ids.id_shard(insta6.next_id())"), 6);
    assert_eq!(
        texts(&mut client, "SELECT concat(shard, reason) FROM ids.id_shards ORDER BY shard"),
        ["5", "6"]
    );
}

/// The event trigger of docs/use/adopting.md.
fn keep_shards() -> &'static str {
    blocks(include_str!("../../../docs/use/adopting.md"), "sql")
        .into_iter()
        .find(|block| block.contains("CREATE EVENT TRIGGER keep_shards"))
        .unwrap()
}

/// The event trigger of docs/use/adopting.md refuses a migration that replaces an adopted function,
/// and nothing else.
#[test]
fn event_trigger_refuses_a_replaced_function() {
    let (_server, mut client) = with_extension();
    run(&mut client, keep_shards());
    run(&mut client, &original());
    let insert = "INSERT INTO insta5.photos (n) VALUES (1) RETURNING id";
    for _ in 0..2 {
        one::<i64>(&mut client, "SELECT starts_above FROM adopt_shard(5)");
        let last: i64 = one(&mut client, insert);
        let (state, message, hint) =
            error_of(&mut client, &original_function("insta5", 5, ORIGINAL_EPOCH_MS));
        assert_eq!(
            (state.as_str(), message.as_str()),
            ("P0001", "insta5.next_id() generates the ids of a shard")
        );
        assert!(hint.contains("unadopt_shard()"), "{hint}");
        assert!(one::<i64>(&mut client, insert) > last);
        // Other objects created there, including some that are dropped and created again.
        run(&mut client, "CREATE OR REPLACE FUNCTION insta5.another() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
                 DROP FUNCTION insta5.id_time(bigint), insta5.epoch();
                 SELECT create_shard(5, if_not_exists => true);
                 SELECT create_shard(6, if_not_exists => true)");
        one::<String>(&mut client, "SELECT unadopt_shard(5)::text");
        run(&mut client, &original_function("insta5", 5, ORIGINAL_EPOCH_MS));
    }
    // If the function was replaced before the trigger existed, it can be adopted and restored with
    // the trigger in place.
    run(&mut client, "ALTER EVENT TRIGGER keep_shards DISABLE; SELECT adopt_shard(5)");
    run(&mut client, &original_function("insta5", 5, ORIGINAL_EPOCH_MS));
    run(
        &mut client,
        "ALTER EVENT TRIGGER keep_shards ENABLE; SELECT adopt_shard(5); SELECT unadopt_shard(5)",
    );
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM id_shards WHERE shard = 5"), 0);
    check_shards_of_other_roles(&mut client);
}

/// The event trigger refuses no function that another role than the owner of the shard owns: any
/// role that can create functions in a schema can define a shard there. It also refuses one that
/// replaces an adopted function beside the shard of another role.
fn check_shards_of_other_roles(client: &mut Client) {
    let replace = "CREATE OR REPLACE FUNCTION util.next_id() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'";
    run(
        client,
        &format!(
            "CREATE ROLE app; CREATE SCHEMA util AUTHORIZATION app; SET ROLE app; {replace}; RESET ROLE;
             CREATE ROLE mallory; GRANT ALL ON SCHEMA util TO mallory; SET ROLE mallory; CREATE SEQUENCE util.s;
             CREATE FUNCTION util.shard_9(OUT sequence regclass, OUT epoch timestamptz, OUT home text) LANGUAGE sql IMMUTABLE
                 BEGIN ATOMIC SELECT 'util.s'::regclass, '2011-08-24 21:07:01.721+00'::timestamptz, 'x'::text; END;
             RESET ROLE"
        ),
    );
    assert_eq!(one::<i64>(client, "SELECT count(*) FROM id_shards WHERE shard = 9"), 1);
    run(client, &format!("SET ROLE app; {replace}; RESET ROLE; {replace}"));

    let photo_id = original_function("insta6", 6, ORIGINAL_EPOCH_MS)
        .replace("next_id(", "photo_id(")
        .replace("table_id_seq", "photo_seq");
    run(
        client,
        &format!(
            "DROP SCHEMA insta6 CASCADE; CREATE ROLE tenant; GRANT CREATE ON DATABASE postgres TO tenant;
             SET ROLE tenant; SELECT create_shard(6); RESET ROLE; CREATE SEQUENCE insta6.photo_seq; {photo_id}
             SELECT adopt_shard(6, function => 'insta6.photo_id()')"
        ),
    );
    let (state, message, _) = error_of(client, &photo_id);
    assert_eq!(state, "P0001", "{message}");
}

/// The statement of the page that takes the place of a migration.
fn migration() -> &'static str {
    let page = include_str!("../../../docs/use/adopting.md");
    let from = page.find("DO $$ DECLARE original ").unwrap();
    &page[from..from + page[from..].find("END $$;").unwrap() + "END $$;".len()]
}

/// The body of an original is text of the function's owner. The statement of the page that takes
/// the place of a migration runs no part of it with the rights of its caller.
#[test]
fn statement_of_the_page_runs_no_text_of_an_original() {
    let migration = migration();
    let body_end = "END; -- $funcoriginal_tion$; ALTER ROLE mallory SUPERUSER; --\n$$";
    let original = original_of_shard(5).replace("END;\n         $$", body_end);
    assert!(original.contains(body_end));
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    run(
        &mut client,
        &format!(
            "CREATE EXTENSION instagram_id; CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory;
             SET ROLE mallory; {original}; SELECT adopt_shard(5); RESET ROLE"
        ),
    );
    run(&mut server.connect_as("mallory"), migration);
    assert!(!one::<bool>(&mut client, "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"));
    let body = "SELECT count(*) FROM pg_proc WHERE oid = 'insta5.next_id()'::regprocedure AND prosrc LIKE '%$funcoriginal_tion$%'";
    assert_eq!(one::<i64>(&mut client, body), 1, "the original is restored");
}

/// To create a function, PostgreSQL can run code that its body names. The statement of the page
/// runs in a session of the owner of the original only.
#[test]
fn statement_of_the_page_creates_a_function_for_its_owner_only() {
    let original = original_of_shard(5).replace("next_id(", "photo_id(");
    let (server, mut client) = with_extension();
    run(
        &mut client,
        "CREATE ROLE \"It's \"\"m\" LOGIN; GRANT CREATE ON DATABASE postgres TO \"It's \"\"m\"",
    );
    let mut owner = server.connect_as("It's \"m");
    run(
        &mut owner,
        &format!(
            "{original}; SELECT adopt_shard(5, function => 'insta5.photo_id()'); DROP FUNCTION insta5.photo_id()"
        ),
    );
    let migration = migration().replace("original_next_id", "original_photo_id");
    let (state, message, _) = error_of(&mut client, &migration);
    assert_eq!(state, "P0001", "{message}");
    run(&mut owner, &migration);
    let owner =
        "SELECT proowner::regrole::text FROM pg_proc WHERE oid = 'insta5.photo_id()'::regprocedure";
    assert_eq!(one::<String>(&mut client, owner), "\"It's \"\"m\"");
}

/// Runs `f`, and this statement every 10 ms meanwhile. Returns the longest time that it took.
pub fn with_longest<T>(server: &Server, statement: &str, f: impl FnOnce() -> T) -> (T, Duration) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        let longest = scope.spawn(|| {
            let (mut client, mut longest) = (server.connect(), Duration::ZERO);
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                run(&mut client, statement);
                longest = longest.max(began.elapsed());
                thread::sleep(Duration::from_millis(10));
            }
            longest
        });
        let result = f();
        drop(stop_at_end);
        (result, longest.join().unwrap())
    })
}

/// Runs `f`. Meanwhile it rolls back each of these transactions 0.4 s after another session waits
/// for the lock on the relation that the transaction holds.
pub fn releasing<T>(
    server: &Server,
    mut holders: HashMap<i64, Client>,
    f: impl FnOnce() -> T,
) -> T {
    let stop = AtomicBool::new(false);
    let mut watcher = server.connect();
    thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        scope.spawn(|| {
            let waits =
                "SELECT relation::int8 FROM pg_locks WHERE NOT granted AND locktype = 'relation'";
            while !stop.load(Ordering::Relaxed) {
                for relation in column(&mut watcher, waits) {
                    if let Some(mut holder) = holders.remove(&relation) {
                        thread::sleep(Duration::from_millis(400));
                        run(&mut holder, "ROLLBACK");
                    }
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        let result = f();
        drop(stop_at_end);
        result
    })
}

/// While writers are kept out, the owner of one of the tables that are read holds locks on its
/// indexes, and gives them up one after the other. The writers of the other tables wait briefly.
#[test]
fn locks_on_indexes_do_not_add_up_while_keys_are_read() {
    let (server, mut owner) = with_shard();
    run(
        &mut owner,
        &format!(
            "{}; CREATE TABLE insta7.photos (id bigint PRIMARY KEY DEFAULT insta7.next_id());
             CREATE ROLE mal LOGIN; GRANT ALL ON SCHEMA public TO mal; GRANT USAGE ON SCHEMA insta7 TO mal; SET ROLE mal;
             CREATE TABLE theirs (id bigint DEFAULT insta7.next_id(), n int);
             DO $$ BEGIN FOR i IN 1..12 LOOP EXECUTE format('CREATE INDEX i%s ON theirs (n)', i); END LOOP; END $$; RESET ROLE",
            original_of_shard(7)
        ),
    );
    let (mut mal, mut watch) = (server.connect_as("mal"), server.connect());
    run(&mut mal, "BEGIN; LOCK TABLE theirs IN ROW EXCLUSIVE MODE");
    let insert = "INSERT INTO insta7.photos DEFAULT VALUES";
    let (result, longest) = with_longest(&server, insert, || {
        thread::scope(|scope| {
            let adopting = scope.spawn(|| owner.batch_execute("SELECT adopt_shard(7)"));
            server.wait_for("the call waits", || {
                one::<bool>(&mut watch, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'theirs'::regclass)")
            });
            let indexes = column(
                &mut watch,
                "SELECT indexrelid::int8 FROM pg_index WHERE indrelid = 'theirs'::regclass",
            );
            let hold = |index: i64| {
                let mut holder = server.connect_as("mal");
                let name: String = one(&mut watch, &format!("SELECT {index}::regclass::text"));
                run(&mut holder, &format!("BEGIN; ALTER INDEX {name} SET TABLESPACE pg_default"));
                (index, holder)
            };
            let holders = indexes.into_iter().map(hold).collect();
            run(&mut mal, "ROLLBACK");
            releasing(&server, holders, || adopting.join().unwrap())
        })
    });
    assert!(longest < Duration::from_secs(2), "{longest:?}: {result:?}");
}

/// A session holds a lock that a call needs beside those that it has: on an index, on the sequence
/// of the shard, or on a table with partitions. The error names it, and others have waited for a
/// moment at most.
#[test]
fn locks_of_others_delay_nobody() {
    let (server, mut owner) = with_shard();
    run(
        &mut owner,
        &format!(
            "{}; CREATE TABLE insta7.photos (id bigint DEFAULT insta7.next_id());
             CREATE TABLE insta7.own (id bigint PRIMARY KEY DEFAULT insta7.next_id());
             CREATE TABLE insta5.serials (id bigserial PRIMARY KEY);
             CREATE TABLE insta5.parted (id bigint) PARTITION BY RANGE (id);
             SELECT create_id_partitions('insta5.parted', from_time => now() - interval '3 months')",
            original_of_shard(7)
        ),
    );
    for (locks, lock, statement, other) in [
        (
            "insta7.own_pkey",
            "ALTER INDEX insta7.own_pkey SET TABLESPACE pg_default",
            "SELECT adopt_shard(7)",
            "INSERT INTO insta7.photos DEFAULT VALUES",
        ),
        (
            "insta5.table_id_seq",
            "ALTER SEQUENCE insta5.table_id_seq CACHE 1",
            "SELECT adopt_table(5, 'insta5.serials')",
            "SELECT count(*) FROM insta5.serials",
        ),
        (
            "insta5.parted",
            "SELECT FROM insta5.parted",
            "SELECT drop_old_id_partitions('insta5.parted', now() - interval '1 month')",
            "SELECT count(*) FROM insta5.parted",
        ),
    ] {
        let mut other_session = server.connect();
        // A lock that is soon released is waited for.
        run(&mut other_session, &format!("BEGIN; {lock}"));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(200));
                run(&mut other_session, "ROLLBACK");
            });
            run(&mut owner, &format!("BEGIN; {statement}; ROLLBACK"));
        });
        run(&mut other_session, &format!("BEGIN; {lock}"));
        let ((state, message, _), longest) =
            with_longest(&server, other, || error_of(&mut owner, statement));
        assert_eq!(state, "55P03", "{statement}: {message}");
        assert!(message.contains(&format!("relation {locks}\n")), "{statement}: {message}");
        assert!(longest < Duration::from_secs(3), "{other}: {longest:?}");
        run(&mut other_session, "ROLLBACK");
        run(&mut owner, statement);
    }
    assert!(!server.log().contains("you don't own a lock"), "{}", server.log());
}

/// A role with INSERT on a table creates thousands of views, each on the one before, and permits
/// all to insert through one. Nobody is asked to grant anything because of that.
#[test]
fn views_of_others_do_not_delay_an_adoption() {
    let server = Server::start(&[("fsync", "off"), ("max_locks_per_transaction", "1000")]);
    let mut owner = server.connect();
    setup(&mut owner);
    run(
        &mut owner,
        "CREATE TABLE keys (id bigserial PRIMARY KEY); CREATE ROLE mallory; CREATE ROLE app;
         GRANT INSERT, SELECT ON keys TO mallory; CREATE SCHEMA mal AUTHORIZATION mallory;
         GRANT USAGE ON SCHEMA insta5 TO mallory; GRANT USAGE ON SEQUENCE insta5.table_id_seq TO mallory;
         SET ROLE mallory; CREATE VIEW mal.v0 AS SELECT * FROM keys; GRANT INSERT ON mal.v0 TO PUBLIC;
         DO $$ BEGIN FOR n IN 1..3000 LOOP
             EXECUTE format('CREATE VIEW mal.v%s AS SELECT * FROM mal.v%s', n, n - 1);
         END LOOP; END $$;
         RESET ROLE; CREATE VIEW own AS SELECT * FROM keys; CREATE VIEW above AS SELECT * FROM own;
         GRANT INSERT ON above TO app; SET statement_timeout = '10s'",
    );
    // A view of the table's owner counts.
    let (state, message, hint) = error_of(&mut owner, "SELECT adopt_table(5, 'keys')");
    assert_eq!(state, "42501", "{message}");
    assert!(message.contains("app") && !hint.contains("PUBLIC"), "{message} {hint}");
    run(&mut owner, "REVOKE INSERT ON above FROM app; SELECT adopt_table(5, 'keys')");
}

/// Roles with CREATE on the schema have so many tables that the server has not enough locks for
/// them. The other tables are converted; an adoption names the roles.
#[test]
fn many_tables_of_others_do_not_use_up_the_locks() {
    let settings =
        [("fsync", "off"), ("max_locks_per_transaction", "10"), ("max_connections", "5")];
    let server = Server::start(&settings);
    let mut owner = server.connect();
    run(
        &mut owner,
        &format!(
            "CREATE EXTENSION instagram_id; SELECT create_shard(5);
             CREATE TABLE insta5.photos (id bigint DEFAULT insta5.next_id());
             {}; CREATE TABLE insta7.photos (id bigint DEFAULT insta7.next_id());
             {}; SELECT adopt_shard(8); {};
             CREATE ROLE mallory; CREATE ROLE group_1 ROLE mallory; CREATE ROLE group_2 ROLE mallory;
             GRANT ALL ON SCHEMA insta5, insta7, insta8, insta9 TO mallory, group_1, group_2",
            original_of_shard(7),
            original_of_shard(8),
            original_of_shard(9)
        ),
    );
    for role in ["mallory", "group_1", "group_2"].iter().cycle().take(40) {
        run(&mut owner, &format!("SET ROLE {role}"));
        run(
            &mut owner,
            "DO $$ BEGIN FOR n IN 1..50 LOOP
                 EXECUTE format('CREATE TABLE insta5.m%1$s_%2$s (id bigint DEFAULT insta5.next_id())', pg_current_xact_id(), n);
                 EXECUTE format('CREATE TABLE insta7.m%1$s_%2$s (id bigint DEFAULT insta7.next_id())', pg_current_xact_id(), n);
                 EXECUTE format('CREATE TABLE insta8.m%1$s_%2$s (id bigint DEFAULT insta8.next_id())', pg_current_xact_id(), n);
             END LOOP; END $$",
        );
    }
    run(&mut owner, "RESET ROLE; SET client_min_messages = error");
    let converted = "SELECT array_agg(table_name::text) FROM convert_defaults_to_triggers(5)";
    let of_owner: Vec<String> = one(&mut owner, converted);
    assert_eq!(of_owner, ["insta5.photos"]);
    // Those of the others cannot be locked together.
    assert_eq!(one::<Option<Vec<String>>>(&mut owner, converted), None);
    for statement in ["SELECT adopt_shard(7)", "SELECT unadopt_shard(8)"] {
        let (state, message, _) = error_of(&mut owner, statement);
        assert_eq!(state, "54000", "{message}");
        assert!(message.contains("fills 2000 tables of other roles\n"), "{message}");
        assert!(message.contains("Their owners are mallory, group_1, group_2."), "{message}");
    }
    // As long as it takes to read many columns, writers wait.
    run(
        &mut owner,
        "SET ROLE mallory;
         DO $$ BEGIN EXECUTE (SELECT format('CREATE TABLE insta9.wide (%s)', string_agg(format('c%s bigint DEFAULT insta9.next_id()', n), ', '))
             FROM generate_series(1, 9) AS n); END $$;
         RESET ROLE",
    );
    let (state, message, _) = error_of(&mut owner, "SELECT adopt_shard(9)");
    assert_eq!(state, "54000", "{message}");
    assert!(message.starts_with("table insta9.wide of role mallory has 9 columns"), "{message}");
    run(&mut owner, "ALTER TABLE insta9.wide ALTER c9 DROP DEFAULT; SELECT adopt_shard(9)");
}

/// Other roles decide how many domains are below the type of a column, and how many defaults there
/// are in a schema. Those that no id depends on add little to the time for which writers wait.
#[test]
fn domains_and_defaults_of_others_delay_no_writers() {
    let server = Server::start(&[("fsync", "off")]);
    let mut owner = server.connect();
    let columns = |of: &str, count: i32| {
        format!(
            "(SELECT string_agg(format('c%s {of}', i, 1000 + i), ', ') FROM generate_series(1, {count}) AS i)"
        )
    };
    run(
        &mut owner,
        &format!(
            "CREATE EXTENSION instagram_id; SELECT create_shard(5); {}; {}; CREATE ROLE mallory;
             CREATE SCHEMA mal AUTHORIZATION mallory; GRANT ALL ON SCHEMA insta7, insta8 TO mallory;
             CREATE TABLE insta5.a (id bigserial PRIMARY KEY); CREATE TABLE insta5.b (id bigserial PRIMARY KEY);
             GRANT USAGE ON SCHEMA insta5 TO mallory; GRANT REFERENCES ON insta5.a, insta5.b TO mallory;
             SET ROLE mallory; CREATE DOMAIN mal.d0 AS bigint;
             DO $$ BEGIN
                 FOR n IN 1..2000 LOOP EXECUTE format('CREATE DOMAIN mal.d%s AS mal.d%s', n, n - 1); END LOOP;
                 FOR n IN 1..40 LOOP
                     EXECUTE format('CREATE TABLE insta7.m%s (%s)', n, {});
                     EXECUTE format('CREATE TABLE insta8.m%s (%s)', n, {});
                 END LOOP;
                 EXECUTE format('CREATE TABLE mal.a (%s)', {});
                 EXECUTE format('CREATE TABLE mal.b (%s)', {});
             END $$;
             RESET ROLE",
            original_of_shard(7),
            original_of_shard(8),
            columns("mal.d%s DEFAULT insta7.next_id()", 8),
            columns("bigint DEFAULT insta8.next_id()", 8),
            columns("mal.d%s REFERENCES insta5.a", 300),
            columns("bigint REFERENCES insta5.b", 300),
        ),
    );
    let pid = one(&mut owner, "SELECT pg_backend_pid()");
    let mut slow_ones = vec![];
    let mut compare = |statement: &str, other: &str| {
        let [slow, fast] = [statement, other].map(|statement| {
            let before = cpu_time(pid);
            run(&mut owner, statement);
            cpu_time(pid) - before
        });
        if slow > 3 * fast + Duration::from_millis(200) {
            slow_ones.push(format!("{statement}: {slow:.1?}; {other}: {fast:.1?}"));
        }
    };
    compare("SELECT adopt_shard(7)", "SELECT adopt_shard(8)");
    let references = "SELECT adopt_table(5, 'insta5.";
    compare(&format!("{references}a')"), &format!("{references}b')"));
    let long = format!("{}1{}", "int4pl(1, ".repeat(50), ")".repeat(50));
    run(
        &mut server.connect(),
        &format!(
            "SET ROLE mallory;
             DO $$ BEGIN FOR n IN 1..3 LOOP EXECUTE format('CREATE TABLE insta7.wide%s (%s)', n, {}); END LOOP; END $$",
            columns(&format!("int DEFAULT {long}"), 1500)
        ),
    );
    compare("SELECT unadopt_shard(7)", "SELECT unadopt_shard(8)");
    assert!(slow_ones.is_empty(), "{slow_ones:#?}");
}

/// A role that may use the sequence has many long functions that name other ones like it. An
/// adoption that reads them can be cancelled meanwhile.
#[test]
fn adoption_that_reads_functions_can_be_cancelled() {
    let (server, mut owner) = with_the_original();
    run(
        &mut owner,
        "CREATE ROLE mallory LOGIN; GRANT USAGE ON SCHEMA insta5 TO mallory;
         GRANT USAGE ON SEQUENCE insta5.table_id_seq TO mallory",
    );
    let mut mallory = server.connect_as("mallory");
    run(
        &mut mallory,
        "SET check_function_bodies = off;
         DO $$ BEGIN FOR n IN 1..150 LOOP
             EXECUTE format('CREATE FUNCTION pg_temp.f%s() RETURNS bigint LANGUAGE plpgsql AS %L', n,
                 'nextval' || repeat('x.table_id_seq(', 66000));
         END LOOP; END $$",
    );
    let adoption = "SELECT adopt_shard(5, dry_run => true)";
    let mut timed = |limit: Duration| {
        run(&mut owner, &format!("SET statement_timeout = '{}ms'", limit.as_millis()));
        let began = Instant::now();
        let result = owner.batch_execute(adoption);
        (began.elapsed(), result.err().map(|error| error.code().unwrap().code().to_owned()))
    };
    // Several times, because other work on the machine comes and goes.
    let mut tries = vec![];
    for _ in 0..10 {
        let (whole, error) = timed(Duration::ZERO);
        assert_eq!(error, None);
        // After the query that finds the functions.
        let (ended, error) = timed(whole / 2);
        if error.is_some_and(|error| error == "57014") && ended < whole * 3 / 4 {
            return;
        }
        tries.push((whole, ended));
    }
    panic!("not cancelled in time: {tries:?}");
}

/// A role without a privilege has many defaults that name the original. They are not read while
/// writers wait.
#[test]
fn writers_do_not_wait_for_defaults_of_others() {
    let (server, mut owner) = with_the_original();
    run(&mut owner, "CREATE ROLE mallory LOGIN");
    let mut mallory = server.connect_as("mallory");
    name_in_defaults(&mut mallory, &mut owner, "'insta5.next_id()'::regprocedure", 2);
    let mut reads = |statement: &str| {
        let read = |owner: &mut Client| {
            run(owner, "SELECT pg_stat_force_next_flush()");
            let query = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_all_tables WHERE relname = 'pg_attrdef'";
            one::<i64>(owner, query)
        };
        let before = read(&mut owner);
        run(&mut owner, statement);
        let reads = (read(&mut owner) - before) as f64 / 3_200.0;
        println!("{statement} reads each default {reads} times");
        reads
    };
    // Twice before the locks.
    assert!(reads("SELECT adopt_shard(5)") < 2.5);
    assert!(reads("SELECT unadopt_shard(5)") < 1.5);
}

/// Sessions call the function by itself, and then write to a table or do not. At each moment one of
/// them has locked the sequence.
#[test]
fn short_transactions_do_not_prevent_an_adoption() {
    let (server, mut owner) = with_the_original();
    let ways = [
        "BEGIN; SELECT insta5.next_id(); SELECT pg_sleep(0.01); COMMIT",
        "BEGIN; SELECT insta5.next_id(); SELECT pg_sleep(0.01); INSERT INTO insta5.photos (n) VALUES (1); COMMIT",
    ];
    for way in ways {
        let stop = &AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop_at_end = StopAtEnd(stop);
            for _ in 0..5 {
                let mut caller = server.connect();
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        // A call may fail while the function is replaced under it.
                        if caller.batch_execute(way).is_err() {
                            run(&mut caller, "ROLLBACK");
                        }
                    }
                });
            }
            run(&mut owner, "SELECT adopt_shard(5)");
            run(&mut owner, "SELECT unadopt_shard(5)");
        });
    }
}

mod since_17 {
    use super::*;

    /// They lose it together with their table, and get the default with it.
    #[test]
    fn partitions_share_an_identity() {
        needs_major(17);
        let server = Server::start(&[("fsync", "off")]);
        let mut client = server.connect();
        run(
            &mut client,
            "CREATE EXTENSION instagram_id;
             SELECT create_shard(5);
             CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, n int) PARTITION BY LIST (n);
             CREATE TABLE one PARTITION OF t FOR VALUES IN (1);
             CREATE TABLE two PARTITION OF t FOR VALUES IN (2);
             INSERT INTO t (n) VALUES (1), (2);
             CREATE ROLE other;
             GRANT INSERT ON one TO other",
        );
        let adopt = "SELECT adopt_table(5, 't', 'id')";
        let (code, message, _) = error_of(&mut client, adopt);
        assert_eq!(code, "42501", "{message}");
        run(&mut client, "REVOKE INSERT ON one FROM other; ALTER TABLE two OWNER TO other");
        let (code, message, _) = error_of(&mut client, adopt);
        assert_eq!(code, "55000", "{message}");
        assert!(message.starts_with("partition public.two belongs to role other"), "{message}");
        run(&mut client, "ALTER TABLE two OWNER TO CURRENT_USER");
        let way_back: String = one(&mut client, "SELECT way_back FROM adopt_table(5, 't', 'id')");
        let shards = "SELECT id_shard(id) FROM t WHERE id > 9 ORDER BY n";
        run(&mut client, "INSERT INTO t (n) VALUES (1); INSERT INTO two (n) VALUES (2)");
        assert_eq!(rows(&mut client, shards), ["5", "5"]);
        run(&mut client, &way_back);
        run(&mut client, "INSERT INTO one (n) VALUES (1)");
        assert_eq!(rows(&mut client, "SELECT id FROM t WHERE id < 9 ORDER BY id"), ["1", "2", "3"]);
    }
}
