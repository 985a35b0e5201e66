//! Several sessions, several servers: what one does, the other sees at its next call.

use instagram_id_live::*;

/// The record of every id that is made of this shard.
fn complete_journal(scenario: impl Into<String>, shard: i64) -> Journal {
    let mut journal = Journal::new(scenario, Clock::IN_STEP);
    journal.shard = shard;
    journal.is_complete = true;
    journal
}

#[test]
fn ten_sessions_insert_through_defaults() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE EXTENSION instagram_id; SELECT create_shard(5); SELECT create_shard(6);
             CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), session int);
             CREATE TABLE insta6.photos (id bigint PRIMARY KEY DEFAULT next_id(6), session int)",
        )
        .unwrap();
    let sessions = in_parallel(10, |n| {
        let mut client = server.connect();
        let table = if n % 2 == 0 { "insta5.photos" } else { "insta6.photos" };
        let single =
            client.prepare(&format!("INSERT INTO {table} (session) VALUES ($1) RETURNING id")).unwrap();
        let bulk =
            format!("INSERT INTO {table} (session) SELECT {n} FROM generate_series(1, 500) RETURNING id");
        let mut received = Received::default();
        for _ in 0..20 {
            for _ in 0..50 {
                received.run_prepared(&mut client, &single, &[&(n as i32)]).unwrap();
            }
            received.run(&mut client, &bulk).unwrap();
        }
        received
    });
    let mut journals =
        [5, 6].map(|shard| complete_journal(format!("inserts through defaults, shard {shard}"), shard));
    for (n, received) in sessions.into_iter().enumerate() {
        journals[n % 2].add([received]);
    }
    for journal in journals {
        assert_eq!(journal.check().ids, 5 * 20 * 550);
    }
    let rows: i64 = one(
        &mut client,
        "SELECT (SELECT count(*) FROM insta5.photos) + (SELECT count(*) FROM insta6.photos)",
    );
    assert_eq!(rows, 10 * 20 * 550);
}

#[test]
fn what_another_session_changes_is_seen_at_the_next_call() {
    let server = Server::start(&[("fsync", "off")]);
    let (mut a, mut b) = (server.connect(), server.connect());
    a.batch_execute("CREATE EXTENSION instagram_id; SELECT create_shard(5); CREATE ROLE app; GRANT USAGE ON SCHEMA insta5 TO app").unwrap();
    let by_shard = "SELECT next_id(5)";
    let mut last: i64 = one(&mut a, by_shard);
    let mut goes_on = |client: &mut postgres::Client, query: &str| {
        let id: i64 = one(client, query);
        assert!(id > last, "{query}: {id} after {last}");
        last = id;
    };

    // The shard goes with its schema, and its sequence may be called what it likes.
    b.batch_execute("ALTER SCHEMA insta5 RENAME TO away").unwrap();
    goes_on(&mut a, by_shard);
    goes_on(&mut a, "SELECT away.next_id()");
    b.batch_execute("ALTER SCHEMA away RENAME TO insta5").unwrap();
    goes_on(&mut a, by_shard);

    b.batch_execute("ALTER SEQUENCE insta5.table_id_seq RENAME TO other").unwrap();
    goes_on(&mut a, by_shard);
    b.batch_execute("ALTER SEQUENCE insta5.other RENAME TO table_id_seq").unwrap();
    goes_on(&mut a, by_shard);

    // Another schema takes over the number.
    b.batch_execute("DROP FUNCTION insta5.shard_5()").unwrap();
    assert_eq!(error_of(&mut a, by_shard).0, "42P01");
    b.batch_execute("SELECT create_shard(5, 'elsewhere')").unwrap();
    goes_on(&mut a, by_shard);
    assert!(one::<bool>(&mut a, "SELECT is_called FROM elsewhere.table_id_seq"));
    b.batch_execute("DROP SCHEMA elsewhere CASCADE; SELECT create_shard(5, if_not_exists => true)").unwrap();
    goes_on(&mut a, by_shard);

    b.batch_execute("ALTER SEQUENCE insta5.table_id_seq INCREMENT 2").unwrap();
    assert_eq!(error_of(&mut a, by_shard).0, "55000");
    b.batch_execute("ALTER SEQUENCE insta5.table_id_seq INCREMENT 1").unwrap();
    goes_on(&mut a, by_shard);

    b.batch_execute("ALTER SEQUENCE insta5.table_id_seq RESTART").unwrap();
    goes_on(&mut a, by_shard);
    goes_on(&mut b, by_shard);

    b.batch_execute("DROP SCHEMA insta5 CASCADE").unwrap();
    assert_eq!(error_of(&mut a, by_shard).0, "42P01");
    b.batch_execute("SELECT create_shard(5); GRANT USAGE ON SCHEMA insta5 TO app").unwrap();
    goes_on(&mut a, by_shard);

    a.batch_execute("SET ROLE app").unwrap();
    assert_eq!(error_of(&mut a, by_shard).0, "42501");
    b.batch_execute("GRANT USAGE ON SEQUENCE insta5.table_id_seq TO app").unwrap();
    goes_on(&mut a, by_shard);
    b.batch_execute("REVOKE USAGE ON SEQUENCE insta5.table_id_seq FROM app").unwrap();
    assert_eq!(error_of(&mut a, by_shard).0, "42501");
    b.batch_execute(
        "CREATE ROLE makers; GRANT USAGE ON SEQUENCE insta5.table_id_seq TO makers; GRANT makers TO app",
    )
    .unwrap();
    goes_on(&mut a, by_shard);
    b.batch_execute("REVOKE makers FROM app").unwrap();
    assert_eq!(error_of(&mut a, by_shard).0, "42501");
    b.batch_execute("ALTER ROLE app SUPERUSER").unwrap();
    goes_on(&mut a, by_shard);
    b.batch_execute("ALTER ROLE app NOSUPERUSER").unwrap();
    assert_eq!(error_of(&mut a, by_shard).0, "42501");
    // pg_database_owner has no members but the database's owner of the moment.
    b.batch_execute(
        "GRANT USAGE ON SEQUENCE insta5.table_id_seq TO pg_database_owner; ALTER DATABASE postgres OWNER TO app",
    )
    .unwrap();
    goes_on(&mut a, by_shard);
    b.batch_execute("ALTER DATABASE postgres OWNER TO postgres").unwrap();
    assert_eq!(error_of(&mut a, by_shard).0, "42501");
    b.batch_execute("GRANT makers TO app").unwrap();
    goes_on(&mut a, by_shard);
    b.batch_execute("REVOKE USAGE ON SCHEMA insta5 FROM app").unwrap();
    assert_eq!(error_of(&mut a, by_shard).1, "permission denied for schema insta5");
}

/// Calls by the shard's number that wait for the lock while a transaction puts another sequence in place of the
/// shard's: once it commits they use the new one. Going on with the old one would make two clocks of one shard.
#[test]
fn a_call_that_waits_for_ddl_follows_it() {
    let server = Server::start(&[("fsync", "off")]);
    let mut a = server.connect();
    a.batch_execute("CREATE EXTENSION instagram_id; SELECT create_shard(7)").unwrap();
    let call = |client: &mut postgres::Client, calls: &str| {
        let mut received = Received::default();
        received.run(client, calls).unwrap();
        received
    };
    let mut race = |scenario: &str, ddl: &str, calls: &str| {
        let mut journal = complete_journal(scenario, 7);
        a.batch_execute(&format!("BEGIN; {ddl}")).unwrap();
        std::thread::scope(|scope| {
            let waiting: Vec<_> =
                (0..3).map(|_| scope.spawn(|| call(&mut server.connect(), calls))).collect();
            server
                .wait_until("SELECT count(*) = 3 FROM pg_locks WHERE NOT granted AND locktype = 'relation'");
            a.batch_execute("COMMIT").unwrap();
            journal.add([call(&mut a, calls)]);
            journal.add(waiting.into_iter().map(|thread| thread.join().unwrap()));
        });
        journal.check();
    };

    race(
        "calls that wait for another sequence",
        "ALTER SEQUENCE insta7.table_id_seq RENAME TO old; CREATE SEQUENCE insta7.table_id_seq;
         SELECT setval('insta7.table_id_seq', last_value) FROM insta7.old",
        "SELECT next_ids(7, 5000)",
    );
    race(
        "calls that wait for another schema",
        "DROP SCHEMA insta7 CASCADE; SELECT create_shard(7)",
        "SELECT next_id(7)",
    );
}

/// Whoever makes a shard of a number waits for another who is making it, in whatever schema, and then finds it there.
#[test]
fn a_shard_is_made_once() {
    let server = Server::start(&[("fsync", "off")]);
    let (mut a, mut watch) = (server.connect(), server.connect());
    a.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    for (number, second) in [(7, "SELECT create_shard(7, 'second')"), (8, "SELECT create_shard(8)")] {
        a.batch_execute(&format!("BEGIN; SELECT create_shard({number}, 'first_{number}')")).unwrap();
        let error = std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let error = server.connect().batch_execute(second).err()?;
                Some(error.as_db_error().expect("an error of the database's").message().to_owned())
            });
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while one::<i64>(&mut watch, "SELECT count(*) FROM pg_locks WHERE NOT granted") < 1
                && std::time::Instant::now() < deadline
            {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            a.batch_execute("COMMIT").unwrap();
            second.join().unwrap()
        });
        let expected = format!("shard {number} already exists: it is schema first_{number}");
        assert_eq!(error, Some(expected), "{second}");
        let made = format!("SELECT count(*) FROM shards WHERE shard = {number}");
        assert_eq!(one::<i64>(&mut a, &made), 1, "{second}");
    }
}

/// A transaction that has used a sequence keeps it from being dropped or altered, as with nextval, and no one
/// else from using it.
#[test]
fn an_open_transaction_stands_in_nobodys_way_but_ddls() {
    let server = Server::start(&[("fsync", "off")]);
    let (mut a, mut b) = (server.connect(), server.connect());
    setup(&mut a);
    // Each transaction takes the lock anew. It is the transaction's, also when the savepoint that first asked for
    // it is rolled back.
    one::<i64>(&mut a, "SELECT next_id(5)");
    a.batch_execute("BEGIN; SAVEPOINT s; SELECT next_id(5); ROLLBACK TO s").unwrap();
    b.batch_execute("SET lock_timeout = '200ms'").unwrap();
    one::<i64>(&mut b, "SELECT next_id(5)");
    assert_eq!(error_of(&mut b, "DROP SCHEMA insta5 CASCADE").0, "55P03");
    assert_eq!(error_of(&mut b, "ALTER SEQUENCE insta5.table_id_seq RESTART").0, "55P03");
    one::<i64>(&mut a, "SELECT next_id(5)");
    a.batch_execute("COMMIT").unwrap();
    b.batch_execute("DROP SCHEMA insta5 CASCADE").unwrap();
}

/// With far fewer buffers than shards a page is seldom in the buffer that it was in last.
#[test]
fn a_page_that_was_evicted_is_found_again() {
    let server = Server::start(&[("fsync", "off"), ("shared_buffers", "128kB")]);
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE EXTENSION instagram_id; SELECT count(create_shard(n)) FROM generate_series(0, 99) AS n;
             CREATE TABLE filler AS SELECT repeat('x', 2000) FROM generate_series(1, 1000)",
        )
        .unwrap();
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
        let of_shard = |ids: &Vec<i64>| ids.iter().copied().filter(|id| (id >> 10) & 8191 == shard).collect();
        check_unique_and_increasing(&sessions.iter().map(of_shard).collect::<Vec<_>>());
    }
}

/// A function that claims to be safe in parallel queries does not make it so.
#[test]
fn a_parallel_worker_refuses() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE EXTENSION instagram_id; SELECT create_shard(5);
             CREATE FUNCTION lie() RETURNS bigint PARALLEL SAFE LANGUAGE plpgsql AS 'BEGIN RETURN next_id(5); END';
             CREATE TABLE t AS SELECT generate_series(1, 1000) AS n; ANALYZE t",
        )
        .unwrap();
    let version: i32 = one(&mut client, "SELECT current_setting('server_version_num')::int");
    let force = if version < 160000 { "force_parallel_mode" } else { "debug_parallel_query" };
    client.batch_execute(&format!("SET {force} = on")).unwrap();
    let (state, message, hint) = error_of(&mut client, "SELECT sum(lie()) FROM t");
    assert_eq!(
        (state.as_str(), message.as_str(), hint.as_str()),
        (
            "25000",
            "cannot execute next_id() during a parallel operation",
            "Call it in a query that does not run in parallel."
        )
    );
}

/// A database owner who is no superuser installs the extension.
#[test]
fn a_database_owner_installs_it() {
    let server = Server::start(&[("fsync", "off")]);
    server.connect().batch_execute("CREATE ROLE owner LOGIN").unwrap();
    server.connect().batch_execute("CREATE DATABASE theirs OWNER owner").unwrap();
    let mut config = server.config("theirs");
    let mut client = config.user("owner").connect(postgres::NoTls).unwrap();
    setup(&mut client);
    assert_eq!(one::<i32>(&mut client, "SELECT id_shard(insta5.next_id())"), 5);
}

/// Sessions that set a shard's sequence back beside others that wait on it: the wait of one that saw the same state
/// before does not pay for the state that came back, whose millisecond may be used by now.
#[test]
fn a_sequence_set_back_beside_others_repeats_nothing() {
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
