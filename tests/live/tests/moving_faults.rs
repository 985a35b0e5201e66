//! Tests of faults during a move: crashes of servers, full disks and refused connections. Also
//! tests that passwords are not shown.

use crate::moving::{
    CLOSED_BY_ANOTHER_MOVE, HAS_SCHEMA, HAS_TRIGGERS, IS_CLOSED, MOVES, NOTHING, Servers, WAITS,
    block_after_copy, fails, fill, kill_after_copy, kill_group, leftovers, move_blocked_after_copy,
    move_blocked_before_stop, move_with_stopped_writes, outcome, wait_during,
    while_closing_is_lost,
};
use instagram_id_live::*;
use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Inserts photos on the server that the map names for the shard, and reconnects if a server is
/// lost. Returns the acknowledged ids in the order of the inserts.
fn insert_until(servers: &Servers, stop: &AtomicBool) -> Vec<i64> {
    let mut acknowledged = Vec::new();
    let mut client: Option<Client> = None;
    while !stop.load(Ordering::Relaxed) {
        let connected = client
            .take()
            .filter(|client| !client.is_closed())
            .or_else(|| servers.try_connect_to_shard().ok());
        if let Some(mut connected) = connected
            && let Ok(row) =
                connected.query_one("INSERT INTO insta5.photos DEFAULT VALUES RETURNING id", &[])
        {
            acknowledged.push(row.get(0));
            client = Some(connected);
        }
        thread::sleep(Duration::from_millis(2));
    }
    acknowledged
}

/// During moves, which are then resumed, servers crash at random times, including the one with the
/// map, or the map alone is lost for a moment.
#[test]
fn crashing_servers_lose_nothing() {
    let servers = Servers::start();
    let before = fill(&servers, 20_000);
    let mut random = random("servers that crash during moves");
    let stop = AtomicBool::new(false);
    let (mut crashes, mut failed) = (0, 0);
    let sessions: Vec<Vec<i64>> = thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        let sessions: Vec<_> =
            (0..2).map(|_| scope.spawn(|| insert_until(&servers, &stop))).collect();
        for _ in 0..length(3, 60) {
            let to = if servers.placement() == "a" { "b" } else { "a" };
            loop {
                let command = servers.start_command(&["move", "5", "--to", to, "--stop", "20"]);
                // After a failure, crash in only two of three attempts, so that one completes.
                if failed == 0 || random.u64(0..3) > 0 {
                    thread::sleep(Duration::from_millis(random.u64(20..1200)));
                    match random.u64(0..5) {
                        0 => lose_map_for(&servers, Duration::from_millis(random.u64(1..1500))),
                        number => {
                            let server = if number < 3 { &servers.a } else { &servers.b };
                            server.crash();
                            server.launch();
                        }
                    }
                    crashes += 1;
                }
                match outcome(command) {
                    Ok(_) => break,
                    // The command must report an error.
                    Err(said) => assert!(said.contains("error: "), "{said}"),
                }
                failed += 1;
                // The command can fail after the move has finished.
                let query =
                    "SELECT EXISTS (SELECT FROM shard_map.moves WHERE finished IS NOT NULL)";
                if one(&mut servers.map(), query) {
                    break;
                }
            }
            assert_eq!(servers.placement(), to);
            servers.command(&["clean", "5"]);
            failed = 0;
        }
        drop(stop_at_end);
        sessions.into_iter().map(|session| session.join().unwrap()).collect()
    });
    println!(
        "{crashes} crashes, {} acknowledged ids",
        sessions.iter().map(Vec::len).sum::<usize>()
    );
    check_unique_and_increasing(&sessions);
    let mut client = servers.connect_to_shard();
    let rows: BTreeSet<i64> =
        column(&mut client, "SELECT id FROM insta5.photos").into_iter().collect();
    let lost = sessions.iter().flatten().chain(&before).filter(|id| !rows.contains(id)).count();
    assert_eq!(lost, 0, "rows lost");
    assert!(!one::<bool>(&mut client, HAS_TRIGGERS) && !one::<bool>(&mut client, IS_CLOSED));
    for server in [&servers.a, &servers.b] {
        assert_eq!(leftovers(server), NOTHING);
    }
    assert_eq!(one::<i64>(&mut servers.map(), MOVES), 0);
}

/// Ends all sessions with the map, and rejects new ones for this time.
fn lose_map_for(servers: &Servers, time: Duration) {
    lose_map(servers);
    thread::sleep(time);
    restore_map(servers);
}

fn lose_map(servers: &Servers) {
    let mut b = servers.b.connect();
    run(&mut b, "ALTER DATABASE map ALLOW_CONNECTIONS false");
    // First a session that waits for a lock, which it would acquire when another one ends.
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM
        (SELECT pid FROM pg_stat_activity WHERE datname = 'map' ORDER BY wait_event_type = 'Lock' DESC NULLS LAST) AS sessions";
    run(&mut b, end);
}

fn restore_map(servers: &Servers) {
    run(&mut servers.b.connect(), "ALTER DATABASE map ALLOW_CONNECTIONS true");
}

/// The map is lost at each step of one move, while a client writes. Each time the command fails,
/// and the next one resumes the move.
#[test]
fn map_lost_at_each_step_loses_nothing() {
    let servers = Servers::start();
    let before = fill(&servers, 1000);
    let stop = AtomicBool::new(false);
    let acknowledged = thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        let session = scope.spawn(|| insert_until(&servers, &stop));
        lose_the_map_at_each_step(&servers);
        drop(stop_at_end);
        session.join().unwrap()
    });
    println!("{} acknowledged ids", acknowledged.len());
    let rows = column(&mut servers.b.connect(), "SELECT id FROM insta5.photos ORDER BY id");
    let lost = acknowledged.iter().chain(&before).filter(|id| rows.binary_search(id).is_err());
    assert_eq!(lost.count(), 0, "rows lost");
    check_unique_and_increasing(&[acknowledged]);
    for server in [&servers.a, &servers.b] {
        assert_eq!(leftovers(server), NOTHING);
    }
    assert_eq!(one::<i64>(&mut servers.map(), MOVES), 0);
}

#[expect(clippy::too_many_lines, reason = "one move, step by step")]
fn lose_the_map_at_each_step(servers: &Servers) {
    let Servers { a, b } = servers;
    let blocked = |server: &Server, statement: &str| {
        let mut client = server.connect();
        run(&mut client, &format!("BEGIN; {statement}"));
        client
    };
    let resume = || servers.start_command(&["move", "5", "--to", "b", "--stop", "30"]);
    let lose = |command: Child, mut block: Client, reason: &str| {
        lose_map(servers);
        run(&mut block, "COMMIT");
        let said = outcome(command).expect_err("the map is lost");
        restore_map(servers);
        assert!(said.contains(reason), "{reason}: {said}");
    };
    let no_map = "the connection to the map is lost";
    for (server, what, waits, reason) in [
        (a, "LOCK TABLE pg_publication IN SHARE MODE", WAITS, no_map),
        (b, "LOCK TABLE pg_namespace IN SHARE MODE", WAITS, "the map cannot be changed"),
        (b, "LOCK TABLE pg_subscription IN SHARE MODE", WAITS, no_map),
        // The worker that copies this table waits.
        (
            b,
            "LOCK TABLE insta5.counter IN SHARE MODE",
            "SELECT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate = 'd')",
            no_map,
        ),
        // ANALYZE waits.
        (b, "LOCK TABLE insta5.counter IN SHARE UPDATE EXCLUSIVE MODE", WAITS, no_map),
    ] {
        let block = blocked(server, what);
        let mut command = resume();
        wait_during(&mut command, servers, server, waits);
        lose(command, block, reason);
        assert!(!one::<bool>(&mut a.connect(), IS_CLOSED), "{what}");
    }
    // Before writes are stopped, and while they are.
    let count = "UPDATE insta5.counter SET value = value + 1";
    for is_stopped in [false, true] {
        let block = blocked(a, count);
        let mut command = resume();
        wait_during(&mut command, servers, a, WAITS);
        let block = if is_stopped {
            let (mut before, block) =
                (block, blocked(b, "LOCK TABLE insta5.counter IN SHARE MODE"));
            run(&mut before, "COMMIT");
            wait_during(&mut command, servers, a, IS_CLOSED);
            block
        } else {
            block
        };
        lose(command, block, "Writes continue on a");
        assert!(!one::<bool>(&mut a.connect(), IS_CLOSED));
    }
    // When the copy is opened: no server accepts writes until the map is changed.
    let block = blocked(b, "ALTER SEQUENCE insta5.table_id_seq NO CYCLE");
    let plan = b.path().join("plan.json").display().to_string();
    std::fs::write(&plan, r#"{"moves": [{"shard": 5, "from": "a", "to": "b"}]}"#).unwrap();
    let mut command = servers.start_command(&["apply", &plan, "--stop", "30"]);
    wait_during(&mut command, servers, b, WAITS);
    let stopped = "writes to shard 5 may still be stopped: when both servers can be reached, run move, or cancel if the copy is not open yet\nexit status 5";
    lose(command, block, stopped);
    assert_eq!(servers.placement(), "a");
    only_the_move_can_be_finished(servers);
    // When the map is changed: another client changes it before.
    let mut map = servers.map();
    let waits_for_the_map = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'map' AND wait_event_type = 'Lock')";
    let lock = "BEGIN; LOCK TABLE shard_map.moves IN SHARE MODE";
    let other = "INSERT INTO shard_map.servers (server, conninfo) VALUES ('c', 'host=c')";
    run(&mut map, &format!("{other}; {lock}"));
    let mut command = resume();
    wait_during(&mut command, servers, b, waits_for_the_map);
    run(&mut map, "UPDATE shard_map.shards SET server = 'c'; COMMIT");
    let open = "shard 5 is open on b, but not in the map: the map was changed since the move began: run on the map UPDATE shard_map.shards SET server = 'a' WHERE shard = 5";
    fails(command, open);
    run(&mut map, "UPDATE shard_map.shards SET server = 'a'");
    // The command repeats the change; then before the triggers are dropped.
    run(&mut map, lock);
    let block = blocked(b, "SELECT FROM insta5.counter");
    let mut command = resume();
    wait_during(&mut command, servers, b, waits_for_the_map);
    lose_map_for(servers, Duration::from_millis(300));
    wait_during(&mut command, servers, b, WAITS);
    assert_eq!(servers.placement(), "b");
    let said = servers.refusal(&["cancel", "5"]);
    assert!(said.contains("is working on shard 5"), "it holds the lock again: {said}");
    lose(command, block, "to resume: instagram_id_shards move 5 --to b");
    run(&mut b.connect(), "ALTER SCHEMA insta5 RENAME TO other");
    servers
        .refuses(&["move", "5", "--to", "b"], "schema insta5 on b is called other now: rename it");
    run(&mut b.connect(), "ALTER SCHEMA other RENAME TO insta5");
    let said = servers.command(&["move", "5", "--to", "b"]);
    assert!(said.contains("warning: the numbers of rows on a and b were not compared"), "{said}");
    // clean compares the databases that the map names with those of the move.
    servers.command(&["server", "b", &conninfo(b, "other")]);
    servers.refuses(&["clean", "5"], "the conninfo of b names another database");
    servers.command(&["server", "b", &conninfo(b, "postgres")]);
    let block = blocked(a, "SELECT FROM insta5.counter");
    let mut command = servers.start_command(&["clean", "5"]);
    wait_during(&mut command, servers, a, WAITS);
    lose(command, block, "the map cannot be changed");
    // Nor does it take another schema of its name for the old copy.
    run(&mut a.connect(), "CREATE DATABASE other");
    run(&mut a.connect_to("other"), "CREATE EXTENSION instagram_id");
    servers.command(&["server", "a", &conninfo(a, "other")]);
    for create in ["SELECT", "SELECT create_shard(5)"] {
        run(&mut a.connect_to("other"), create);
        servers.refuses(&["clean", "5"], "the conninfo of a names another database");
    }
    servers.command(&["server", "a", &conninfo(a, "postgres")]);
    run(&mut a.connect(), "CREATE SCHEMA insta5");
    servers.refuses(&["clean", "5"], "schema insta5 on a is not the one of this move");
    run(&mut a.connect(), "DROP SCHEMA insta5");
    servers.command(&["clean", "5"]);
}

/// The copy was opened, and the map was not changed. So clients may have written to the copy.
fn only_the_move_can_be_finished(servers: &Servers) {
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    let insert = "INSERT INTO insta5.photos DEFAULT VALUES RETURNING id";
    assert_eq!(error_of(&mut a, insert).0, "25006");
    assert!(one::<i64>(&mut b, insert) > one(&mut a, "SELECT max(id) FROM insta5.photos"));
    servers.refuses(&["cancel", "5"], "shard 5 is open on b already");
    // Neither the copy nor the source is missing if its owner has renamed it.
    for (client, server) in [(&mut a, "a"), (&mut b, "b")] {
        run(client, "ALTER SCHEMA insta5 RENAME TO other");
        let renamed = format!("schema insta5 on {server} is called other now: rename it");
        for command in [&["cancel", "5"][..], &["move", "5", "--to", "b"]] {
            let said = servers.refusal(command);
            assert!(said.contains(&renamed) && said.ends_with("exit status 5"), "{said}");
        }
        run(client, "ALTER SCHEMA other RENAME TO insta5");
    }
    // The map names another database than that of the copy.
    run(&mut b, "CREATE DATABASE other");
    run(&mut servers.b.connect_to("other"), "CREATE EXTENSION instagram_id");
    servers.command(&["server", "b", &conninfo(&servers.b, "other")]);
    for command in [&["cancel", "5"][..], &["move", "5", "--to", "b"]] {
        let said = servers.refusal(command);
        assert!(said.contains("the conninfo of b names another database"), "{said}");
        assert!(said.ends_with("exit status 5") && one::<bool>(&mut a, IS_CLOSED), "{said}");
    }
    servers.command(&["server", "b", &conninfo(&servers.b, "postgres")]);
    while_closing_is_lost(servers, || {
        servers.refuses(&["move", "5", "--to", "b"], "schema insta5 on a is open, too");
        assert_eq!(servers.placement(), "a");
    });
}

/// The owner renames the schema while writes are stopped. The command opens no copy, and says that
/// writes stay stopped. If the schema is dropped, the copy can be the last one, and is kept.
#[test]
fn renamed_schema_is_not_open_and_last_copy_is_kept() {
    let servers = Servers::start();
    fill(&servers, 100);
    let (command, mut other) = move_with_stopped_writes(&servers, 1);
    let mut a = servers.a.connect();
    run(&mut a, "ALTER SCHEMA insta5 RENAME TO other");
    run(&mut other, "COMMIT");
    let said = outcome(command).expect_err("the schema has another name");
    assert!(said.contains("insta5 on a was renamed while writes were stopped"), "{said}");
    assert!(said.ends_with("exit status 5"), "{said}");
    servers.refuses(&["cancel", "5"], "schema insta5 on a is called other now");
    run(&mut a, "ALTER SCHEMA other RENAME TO insta5");
    assert!(one::<bool>(&mut a, IS_CLOSED));
    // A sequence keeps its bounds under another name, but not elsewhere.
    run(
        &mut a,
        "ALTER SEQUENCE insta5.table_id_seq RENAME TO ids; ALTER SEQUENCE insta5.ids SET SCHEMA public",
    );
    let said = servers.refusal(&["cancel", "5"]);
    assert!(said.contains("ALTER SEQUENCE public.ids SET SCHEMA insta5"), "{said}");
    run(&mut a, "ALTER SEQUENCE ids SET SCHEMA insta5");
    // Meanwhile another schema could have had the name.
    let before = "a has changed since the move began: an earlier change of schema insta5;";
    servers.refuses(&["move", "5", "--to", "b"], before);
    assert!(!one::<bool>(&mut a, IS_CLOSED));
    run(&mut a, "INSERT INTO insta5.photos DEFAULT VALUES");
    servers.command(&["cancel", "5"]);

    kill_after_copy(&servers);
    // Here only cancel notices the other name.
    run(&mut a, "ALTER SCHEMA insta5 RENAME TO other");
    servers.refuses(&["cancel", "5"], "schema insta5 on a is called other now");
    run(&mut a, "ALTER SCHEMA other RENAME TO insta5");
    servers.refuses(&["move", "5", "--to", "b"], before);
    let closed = format!("CREATE SCHEMA insta5; {CLOSED_BY_ANOTHER_MOVE}");
    for drop in ["DROP SCHEMA insta5 CASCADE", &closed] {
        run(&mut a, drop);
        servers.refuses(
            &["cancel", "5"],
            "schema insta5 on a was dropped or replaced since the move began, so the copy on b may be the last one",
        );
    }
    assert!(one::<bool>(&mut a, IS_CLOSED), "another schema was opened");
    run(&mut servers.b.connect(), "DROP SCHEMA insta5 CASCADE");
    servers.command(&["cancel", "5"]);
    // Nor is a schema dropped that has taken the name of the copy.
    run(
        &mut a,
        "DROP SCHEMA insta5 CASCADE; SELECT create_shard(5); CREATE TABLE insta5.counter (id bigint PRIMARY KEY)",
    );
    kill_after_copy(&servers);
    let mut b = servers.b.connect();
    run(
        &mut b,
        &format!("DROP SCHEMA insta5 CASCADE; CREATE SCHEMA insta5; {CLOSED_BY_ANOTHER_MOVE}"),
    );
    servers.refuses(&["cancel", "5"], "schema insta5 on b was not created by this move");
    run(&mut b, "DROP SCHEMA insta5 CASCADE");
    servers.command(&["cancel", "5"]);
    assert_eq!([&servers.a, &servers.b].map(leftovers), [NOTHING, NOTHING]);
}

/// A table is copied, its slot on the source is dropped, and then the target crashes, before its
/// WAL writer has flushed anything. The record that the table is copied must survive.
#[test]
fn crash_after_a_table_is_copied_does_not_block_the_move() {
    let servers =
        Servers::start_with(&[("wal_writer_delay", "10s"), ("synchronous_commit", "off")]);
    let ids = fill(&servers, 100);
    let (mut before, mut block) = (servers.b.connect(), servers.b.connect());
    run(&mut before, "BEGIN; LOCK TABLE pg_subscription IN SHARE MODE");
    let command = servers.start_command(&["move", "5", "--to", "b"]);
    servers.b.wait_until(WAITS);
    // The worker that copies this table waits.
    run(&mut block, "BEGIN; LOCK TABLE insta5.photos IN SHARE MODE");
    run(&mut before, "COMMIT");
    servers.b.wait_until(
        "SELECT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate IN ('s', 'r'))",
    );
    thread::sleep(Duration::from_millis(2)); // the worker drops the slot
    servers.b.crash();
    servers.b.launch();
    fails(command, "server b");
    let mut again = servers.start_command(&["move", "5", "--to", "b"]);
    servers.b.wait_for("the end of the move", || again.try_wait().unwrap().is_some());
    let said = outcome(again).unwrap();
    assert!(!said.contains("PostgreSQL cannot continue this copy"), "{said}");
    // What the command has committed is on disk.
    servers.b.crash();
    servers.b.launch();
    assert!(one::<bool>(&mut servers.map(), "SELECT finished IS NOT NULL FROM shard_map.moves"));
    run(&mut servers.b.connect(), "INSERT INTO insta5.counter VALUES (3)");
    assert_eq!(
        column(&mut servers.connect_to_shard(), "SELECT id FROM insta5.photos ORDER BY id"),
        ids
    );
}

/// The target crashes between the moment when a worker drops the slot of a table that it has copied
/// and the commit that records this. Since no later worker can continue, the move begins anew.
#[test]
fn crash_between_slot_and_record_begins_anew() {
    let servers = Servers::start();
    let ids = fill(&servers, 100);
    let Servers { a, b } = &servers;
    // The worker that applies changes waits, so a copied table keeps its slot.
    let mut block = b.connect();
    let command = servers.start_command(&["move", "5", "--to", "b"]);
    b.wait_until("SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'counter')");
    run(&mut block, "BEGIN; LOCK TABLE insta5.photos IN SHARE MODE");
    let others = "SELECT count(*) > 0 AND bool_and(srsubstate = 'r' OR srrelid = 'insta5.photos'::regclass) FROM pg_subscription_rel";
    b.wait_until(others);
    let lock = "BEGIN; LOCK TABLE insta5.counter IN SHARE MODE";
    let mut apply = b.connect();
    run(&mut apply, lock);
    run(&mut a.connect(), "UPDATE insta5.counter SET value = value + 1");
    b.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'insta5.counter'::regclass AND NOT granted)");
    run(&mut block, "COMMIT");
    let copied = "SELECT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate = 'f')";
    b.wait_until(copied);
    b.crash();
    let drop = "SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots WHERE slot_name LIKE 'pg_%_sync_%' AND NOT active";
    a.wait_for(drop, || one::<i64>(&mut a.connect(), drop) == 1);
    b.launch();
    fails(command, "server b");
    let mut again = servers.start_command(&["move", "5", "--to", "b"]);
    b.wait_for("the end of the move", || again.try_wait().unwrap().is_some());
    let said = outcome(again).unwrap();
    assert!(said.contains("PostgreSQL cannot continue this copy"), "{said}");
    let mut client = servers.connect_to_shard();
    assert_eq!(column(&mut client, "SELECT id FROM insta5.photos ORDER BY id"), ids);
    servers.command(&["clean", "5"]);
    for server in [a, b] {
        assert_eq!(leftovers(server), NOTHING);
    }
}

/// `cancel` is interrupted when it drops the copy. `move` then removes what is left and begins
/// anew: if it continued with the copy, each row would be copied a second time.
#[test]
fn move_after_an_interrupted_cancel_begins_anew() {
    let servers = Servers::start();
    let ids = fill(&servers, 100);
    run(
        &mut servers.a.connect(),
        "CREATE TABLE insta5.log (line text);
             ALTER TABLE insta5.log REPLICA IDENTITY FULL;
             INSERT INTO insta5.log SELECT 'line ' || n FROM generate_series(1, 10) AS n",
    );
    kill_after_copy(&servers);
    // It drops the publication first: without that, no later move continues with the copy.
    let mut block = servers.a.connect();
    run(&mut block, "BEGIN; LOCK TABLE pg_publication IN SHARE MODE");
    // A session that reads the copy blocks its DROP.
    let mut reader = servers.b.connect();
    run(&mut reader, "BEGIN; SELECT FROM insta5.counter");
    let cancel = servers.start_command(&["cancel", "5"]);
    servers.a.wait_until(WAITS);
    assert!(leftovers(&servers.b).contains(&"subscription instagram_id_move_5".into()));
    run(&mut block, "COMMIT");
    servers.b.wait_until(WAITS);
    kill_process(Pid::from_raw(cancel.id() as i32).unwrap(), Signal::INT).unwrap();
    fails(cancel, "error: interrupted\nexit status 130");
    assert!(one::<bool>(&mut servers.b.connect(), HAS_SCHEMA));
    run(&mut reader, "COMMIT");
    servers.command(&["move", "5", "--to", "b"]);
    let mut client = servers.connect_to_shard();
    assert_eq!(column(&mut client, "SELECT id FROM insta5.photos ORDER BY id"), ids);
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM insta5.log"), 10);
    servers.command(&["clean", "5"]);
    for server in [&servers.a, &servers.b] {
        assert_eq!(leftovers(server), NOTHING);
    }
}

/// Two servers that were made from one backup have the same system identifier, and maybe the same
/// next OIDs. So moves from one server to both could use slots of the same name.
fn moves_to_servers_with_the_same_identifier_exclude_each_other(servers: &Servers) {
    let identity: String = one(
        &mut servers.b.connect(),
        "SELECT jsonb_build_object('identity of the schema', system_identifier || ' 1')::text FROM pg_control_system()",
    );
    let mut map = servers.map();
    run(
        &mut map,
        &format!(
            "INSERT INTO shard_map.servers VALUES ('twin', 'host=/tmp dbname=postgres');
             INSERT INTO shard_map.shards (shard, server) VALUES (6, 'a');
             INSERT INTO shard_map.moves (shard, source, target, schema, copy_definition, subscribed)
             VALUES (6, 'a', 'twin', 'insta6', '{identity}', now())"
        ),
    );
    let reason =
        "shard 6 is being moved from a to another database with the system identifier of b";
    servers.refuses(&["move", "5", "--to", "b"], reason);
    // One that has not subscribed does not block others: it would be blocked by them in turn.
    run(&mut map, "UPDATE shard_map.moves SET subscribed = NULL WHERE shard = 6");
}

/// Rows that the target rejects end the move, which says which table it is, and can be resumed.
#[test]
fn move_that_cannot_progress_ends() {
    let servers = Servers::start();
    fill(&servers, 100);
    let domain = "CREATE DOMAIN small AS int";
    let table = "CREATE TABLE insta5.sizes (id bigint PRIMARY KEY, size small); INSERT INTO insta5.sizes VALUES (1, 7)";
    run(&mut servers.a.connect(), &format!("{domain}; {table}"));
    let mut b = servers.b.connect();
    run(&mut b, &format!("{domain} CONSTRAINT low CHECK (VALUE < 5)"));
    moves_to_servers_with_the_same_identifier_exclude_each_other(&servers);
    let command = servers.start_command(&["move", "5", "--to", "b"]);
    let said = outcome(command).expect_err("the copy fails");
    for part in [
        "times in a row while copying insta5.sizes: the log of b contains",
        "to resume: instagram_id_shards move 5 --to b; to undo: instagram_id_shards cancel 5",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!one::<bool>(&mut servers.a.connect(), IS_CLOSED));
    run(&mut b, "ALTER DOMAIN small DROP CONSTRAINT low");
    // Now a change that arrives after the initial copy.
    kill_after_copy(&servers);
    let insert = "INSERT INTO insta5.photos VALUES (1)";
    run(&mut b, &format!("SET session_replication_role = replica; {insert}"));
    run(&mut servers.a.connect(), insert);
    servers.refuses(
        &["move", "5", "--to", "b"],
        "times in a row while applying changes: the log of b contains",
    );
    run(&mut b, "DELETE FROM insta5.photos WHERE id = 1");
    servers.command(&["move", "5", "--to", "b"]);
    assert_eq!(one::<i64>(&mut b, "SELECT count(*) FROM insta5.photos"), 101);
}

/// Settings that leave no room for the processes of a move are found before it begins, and so are
/// standbys.
#[test]
fn servers_without_room_for_a_move_are_refused() {
    // The launcher of subscriptions is the only worker.
    let settings = [("max_worker_processes", "1"), ("max_wal_senders", "2")];
    let servers = Servers::start_with(&settings);
    let said = servers.refusal(&["move", "5", "--to", "b"]);
    for reason in [
        "server a has 2 of 2 max_wal_senders left, but a move needs 3: increase max_wal_senders",
        "server b has 0 of 1 max_worker_processes left, but a move needs 2: increase max_worker_processes",
    ] {
        assert!(said.contains(reason), "{reason}: {said}");
    }
    let standby = Server::start_standby_of(&servers.a);
    servers.command(&[
        "server",
        "a",
        &format!("host={} user=postgres dbname=postgres", standby.path().display()),
    ]);
    for (home, to) in [("b", "a"), ("a", "b")] {
        servers.command(&["place", home, "5"]);
        let reason = "server a is a standby: record the primary in the map";
        servers.refuses(&["check", "5", "--to", to], reason);
    }
}

/// The target applies changes more slowly than clients write. While it falls further behind, the
/// output shows that, and writes are not stopped until there is less load.
#[test]
fn lagging_target_does_not_stop_writes() {
    let servers = Servers::start();
    let mut a = servers.a.connect();
    // Slow only where it is called by the replication.
    run(
        &mut a,
        "CREATE FUNCTION insta5.slow(id bigint) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
             PERFORM pg_sleep(0.001) WHERE current_setting('session_replication_role') = 'replica';
             RETURN true;
         END $$;
         ALTER TABLE insta5.photos ADD CHECK (insta5.slow(id))",
    );
    let insert = "INSERT INTO insta5.photos (batch) SELECT n FROM generate_series(1, 20) AS n";
    run(&mut a, insert);
    let mut command = servers.start_command(&["--json", "move", "5", "--to", "b", "--stop", "1"]);
    let mut lines = BufReader::new(command.stdout.take().unwrap()).lines().map(Result::unwrap);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                run(&mut a, insert);
                thread::sleep(Duration::from_millis(10));
            }
        });
        let lag = |line: String| -> Option<i64> {
            let (_, lag) = line.split_once(r#""lag_bytes":"#)?;
            lag.trim_end_matches('}').parse().ok() // not null, as before the first report
        };
        let mut lags = lines.by_ref().filter_map(lag);
        let first = lags.next().unwrap();
        let later = lags.find(|lag| *lag > first + 100_000).expect("a target that falls behind");
        println!("the target was behind by {first} bytes, and later by {later}");
        assert!(!one::<bool>(&mut servers.a.connect(), IS_CLOSED));
        drop(stop_at_end);
    });
    let rest: Vec<_> = lines.collect();
    assert!(command.wait().unwrap().success(), "{rest:?}");
    let count = "SELECT count(*) FROM insta5.photos";
    assert_eq!(
        one::<i64>(&mut servers.b.connect(), count),
        one::<i64>(&mut servers.a.connect(), count)
    );
}

/// A role that may use a sequence of the copy holds a lock on it, and releases it just before the
/// command would give up waiting for this one. Writes are not stopped for longer than `--stop`.
#[test]
fn sessions_that_take_turns_do_not_keep_writes_stopped() {
    let servers = Servers::start();
    let numbers = 1..9;
    let role = "CREATE ROLE reader LOGIN";
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), role);
    }
    run(&mut servers.a.connect(), "GRANT USAGE ON SCHEMA insta5 TO reader");
    for n in numbers.clone() {
        let create =
            format!("CREATE SEQUENCE insta5.s{n}; GRANT USAGE ON SEQUENCE insta5.s{n} TO reader");
        run(&mut servers.a.connect(), &create);
    }
    let (command, mut other) = move_blocked_after_copy(&servers, &["--stop", "3"]);
    let hold = |n| {
        let mut session = servers.b.connect_as("reader");
        run(&mut session, "BEGIN; SAVEPOINT s");
        let nextval = format!("SELECT nextval('insta5.s{n}')");
        assert_eq!(error_of(&mut session, &nextval).0, "2200H");
        run(&mut session, "ROLLBACK TO s");
        (n, session)
    };
    let sessions: Vec<_> = numbers.map(hold).collect();
    run(&mut other, "COMMIT");
    for (n, mut session) in sessions {
        servers.b.wait_until(&format!(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'insta5.s{n}'::regclass AND NOT granted)
             OR NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'instagram_id_move_5' AND state <> 'idle')"
        ));
        thread::sleep(Duration::from_millis(700));
        run(&mut session, "COMMIT");
    }
    let said =
        fails(command, "the shard cannot be opened on b in the time of --stop; no data is lost");
    assert!(said.contains("DETAIL: It waits for process "), "{said}");
    assert!(said.contains(" of role reader with a lock on sequence insta5.s"), "{said}");
    assert!(said.contains("Writes continue on a"), "{said}");
    wait_for_several_locks(&servers);
}

/// Writes are stopped only once if each lock on the old server is released in time.
fn wait_for_several_locks(servers: &Servers) {
    let sessions: Vec<_> = (1..6)
        .map(|n| {
            let mut session = servers.a.connect();
            run(&mut session, &format!("BEGIN; SELECT nextval('insta5.s{n}')"));
            (n, session)
        })
        .collect();
    let command = servers.start_command(&["move", "5", "--to", "b", "--stop", "60"]);
    for (n, mut session) in sessions {
        servers.a.wait_until(&format!(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'insta5.s{n}'::regclass AND NOT granted)"
        ));
        thread::sleep(Duration::from_millis(300));
        run(&mut session, "COMMIT");
    }
    outcome(command).unwrap();
    assert!(!servers.a.log().contains("canceling statement due to statement timeout"));
}

/// Begins a transaction of this role that keeps a lock on the relation: nextval takes it before it
/// fails with this SQLSTATE. Then runs a statement.
fn hold(server: &Server, user: &str, relation: i64, sqlstate: &str, then: &str) -> Client {
    let mut session = server.connect_as(user);
    run(&mut session, "BEGIN; SAVEPOINT s");
    let nextval = format!("SELECT nextval({relation}::regclass)");
    assert_eq!(error_of(&mut session, &nextval).0, sqlstate);
    run(&mut session, "ROLLBACK TO s");
    run(&mut session, then);
    session
}

/// The same, by a session for replication.
fn hold_as_walsender(server: &Server, relation: i64) -> Child {
    let folder = server.path().display();
    let conninfo = format!("host={folder} user=nobody dbname=postgres replication=database");
    let (nextval, sleep) = (format!("SELECT nextval({relation}::regclass)"), "SELECT pg_sleep(60)");
    let walsender = Command::new("psql")
        .env("PATH", server.programs_path())
        .args(["-X", "-d", &conninfo])
        .args(
            ["BEGIN", "SAVEPOINT s", &nextval, "ROLLBACK TO s", sleep]
                .map(|one| format!("-c{one}")),
        )
        .spawn()
        .unwrap();
    server.wait_until(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'nobody' AND wait_event = 'PgSleep')",
    );
    walsender
}

/// Keeps a lock on the sequence of the shard while that is closed, from an autovacuum worker.
const LOCKED_BY_ANALYZE: &str = "CREATE SCHEMA mal; SET application_name = 'not a worker';
    CREATE FUNCTION mal.work() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
        IF current_setting('application_name') = 'not a worker' THEN RETURN 1; END IF;
        IF NOT EXISTS (SELECT FROM pg_proc WHERE proname = 'shard_is_elsewhere') THEN RETURN 1; END IF;
        BEGIN PERFORM nextval('SEQUENCE'::regclass); EXCEPTION WHEN OTHERS THEN END;
        WHILE EXISTS (SELECT FROM pg_proc WHERE proname = 'shard_is_elsewhere') LOOP
            BEGIN PERFORM pg_sleep(0.1); EXCEPTION WHEN query_canceled THEN END;
        END LOOP;
        RETURN 1;
    END $$;
    CREATE FUNCTION mal.f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN mal.work(); END';
    CREATE TABLE mal.t (i int) WITH (autovacuum_analyze_threshold = 1); CREATE INDEX ON mal.t (mal.f(i));
    INSERT INTO mal.t SELECT generate_series(1, 100)";

/// A role without any privilege holds locks on the sequence of the closed shard: nextval of an OID
/// takes one before it checks the privilege. The command ends its sessions, so that clients can
/// write, and an autovacuum worker that runs its code. It does not end those of superusers, nor
/// prepared transactions.
#[test]
fn session_that_would_keep_writes_stopped_is_ended() {
    let servers =
        Servers::start_with(&[("max_prepared_transactions", "5"), ("autovacuum_naptime", "1s")]);
    let mut a = servers.a.connect();
    run(
        &mut a,
        "CREATE ROLE nobody LOGIN REPLICATION; GRANT CREATE ON DATABASE postgres TO nobody",
    );
    let (command, mut other) = move_with_stopped_writes(&servers, 1);
    assert!(!kill_group(command));
    run(&mut other, "COMMIT");
    let oid: i64 = one(&mut a, "SELECT 'insta5.table_id_seq'::regclass::oid::int8");
    let mut nobody = hold(&servers.a, "nobody", oid, "42501", "COMMIT");
    run(&mut nobody, &LOCKED_BY_ANALYZE.replace("SEQUENCE", &oid.to_string()));
    servers.a.wait_until(&format!(
        "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
         WHERE relation = {oid} AND backend_type = 'autovacuum worker')"
    ));
    let _nobody = hold(&servers.a, "nobody", oid, "42501", "SELECT");
    let mut superuser = hold(&servers.a, "postgres", oid, "2200H", "SELECT");
    hold(&servers.a, "nobody", oid, "42501", "PREPARE TRANSACTION 'it''s'");
    let mut walsender = hold_as_walsender(&servers.a, oid);
    let cancel = servers.start_command(&["cancel", "5"]);
    servers.a.wait_until(
        "SELECT count(*) = 1 FROM pg_stat_activity WHERE usename = 'nobody'", // with no lock
    );
    thread::sleep(Duration::from_millis(300));
    run(&mut superuser, "COMMIT"); // it is not ended
    run(&mut superuser, "ROLLBACK PREPARED 'it''s'");
    let said = outcome(cancel).unwrap();
    let who = " of role nobody with a lock on sequence insta5.table_id_seq";
    assert_eq!(said.matches(who).count(), 2, "{said}");
    let who =
        " (autovacuum worker) with a lock on sequence insta5.table_id_seq (transaction since ";
    assert!(said.contains(who), "{said}");
    assert!(said.matches(" on a kept writes stopped, and was ended").count() >= 3, "{said}");
    assert!(said.contains("warning: process "), "{said}");
    assert!(!walsender.wait().unwrap().success());
    run(&mut a, "INSERT INTO insta5.photos DEFAULT VALUES");
}

/// A role that can only read the map has statements wait for locks there, which PostgreSQL acquires
/// before it checks the privilege. They do not keep the map from being changed while writes are
/// stopped.
#[test]
fn locks_on_the_map_do_not_keep_writes_stopped() {
    let servers = Servers::start();
    let ids = fill(&servers, 100);
    let mut map = servers.map();
    run(
        &mut map,
        "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA shard_map TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA shard_map TO reader",
    );
    let (command, mut transaction) =
        move_blocked_before_stop(&servers, &[], "UPDATE insta5.counter SET value = 1");
    let reader = || servers.b.config("map").user("reader").connect(NoTls).unwrap();
    let mut first = reader();
    run(&mut first, "BEGIN; SELECT FROM shard_map.shards, shard_map.last, shard_map.servers");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND wait_event_type = 'Lock'";
    thread::scope(|scope| {
        let relations = ["shards", "shards_pkey", "last", "one_row", "servers", "servers_pkey"];
        for relation in relations {
            scope.spawn(move || {
                let rule = format!(
                    "CREATE RULE r AS ON INSERT TO shard_map.{relation} DO INSTEAD NOTHING"
                );
                reader()
                    .batch_execute(&format!("SET statement_timeout = '20s'; {rule}"))
                    .unwrap_err()
            });
        }
        servers.b.wait_until(&format!("SELECT ({waiting}) = {}", relations.len()));
        run(&mut transaction, "COMMIT");
        let said = outcome(command).unwrap();
        assert_eq!(one::<i64>(&mut map, waiting), relations.len() as i64, "{said}");
        run(&mut first, "COMMIT");
    });
    let rows = "SELECT count(*) FROM insta5.photos";
    assert_eq!(one::<i64>(&mut servers.connect_to_shard(), rows), ids.len() as i64);
}

/// Stops the postmaster of a server, and all its sessions. Returns their process ids.
fn hang(server: &Server) -> Vec<i32> {
    let pids = "SELECT pid::bigint FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let mut pids = column(&mut server.connect(), pids);
    let postmaster = std::fs::read_to_string(server.path().join("data/postmaster.pid")).unwrap();
    pids.insert(0, postmaster.lines().next().unwrap().parse().unwrap());
    let pids: Vec<i32> = pids.into_iter().map(|pid| pid.try_into().unwrap()).collect();
    pids.iter().for_each(|&pid| server.freeze(pid));
    pids
}

/// While writes are stopped, the server of the map hangs, which is another one. Then the new server
/// does as well while it opens the copy, so it ends no statement at its timeout. Writes continue on
/// the old server, since the COMMIT was not sent.
#[test]
fn servers_that_hang_do_not_keep_writes_stopped() {
    let servers = Servers::start();
    let Servers { a, b } = &servers;
    let before = fill(&servers, 100).len() as i64;
    let map = Server::start(&[]);
    let start = |arguments: &[&str]| {
        let mut command = b.shards_command(arguments);
        command.env("INSTAGRAM_ID_MAP", conninfo(&map, "postgres"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let move_5 = ["move", "5", "--to", "b", "--stop", "3"];
    let [on_a, on_b] = [a, b].map(|server| conninfo(server, "postgres"));
    let setup: [&[&str]; 4] =
        [&["init"], &["server", "a", &on_a], &["server", "b", &on_b], &["place", "a", "5"]];
    for arguments in setup {
        outcome(start(arguments)).unwrap();
    }
    let blocked_before_stop = || {
        let mut command = start(&move_5);
        let mut other = block_after_copy(&servers, &mut command);
        let mut transaction = a.connect();
        run(&mut transaction, "BEGIN; UPDATE insta5.counter SET value = 1");
        run(&mut other, "COMMIT");
        a.wait_until(WAITS);
        (command, transaction)
    };
    let writes = || a.connect().batch_execute("INSERT INTO insta5.photos DEFAULT VALUES");
    let wait_for_writes = || {
        let frozen = Instant::now();
        while writes().is_err() && frozen.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(100));
        }
        (frozen.elapsed(), writes())
    };

    let (command, mut transaction) = blocked_before_stop();
    let pids = hang(&map);
    run(&mut transaction, "COMMIT");
    a.wait_until(IS_CLOSED);
    let (_, written) = wait_for_writes();
    pids.iter().for_each(|&pid| map.thaw(pid));
    written.expect("writes on the old server");
    fails(command, "the connection to the map is lost");

    let (command, mut transaction) = blocked_before_stop();
    let mut block = b.connect();
    run(&mut block, "BEGIN; ALTER SEQUENCE insta5.table_id_seq NO CYCLE");
    run(&mut transaction, "COMMIT");
    b.wait_until(WAITS);
    let pids = [hang(&map), hang(b)].concat();
    let (stopped, written) = wait_for_writes();
    pids.iter().for_each(|&pid| b.thaw(pid));
    written.expect("writes on the old server");
    assert!(stopped < Duration::from_secs(10), "{stopped:?}");
    fails(command, "the shard cannot be opened on b in the time of --stop");
    run(&mut block, "ROLLBACK");

    outcome(start(&move_5)).unwrap();
    let rows = "SELECT count(*) FROM insta5.photos";
    assert_eq!(one::<i64>(&mut b.connect(), rows), before + 4);
}

/// A role without a right to change a schema leaves a GRANT on it open, which locks its row. That
/// ends no command.
#[test]
fn open_grants_on_schemas_end_no_command() {
    let servers = Servers::start();
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), "CREATE ROLE reader LOGIN");
    }
    run(&mut servers.a.connect(), "GRANT USAGE ON SCHEMA insta5 TO reader");
    let open = |server: &Server, schema: &str| {
        let mut reader = server.connect_as("reader");
        run(&mut reader, &format!("BEGIN; GRANT USAGE ON SCHEMA {schema} TO reader"));
        reader
    };
    let open_on_both = || [open(&servers.a, "public"), open(&servers.b, "public")];
    let opened = open_on_both();
    servers.command(&["check", "5", "--to", "b"]);
    servers.command(&["plan"]);
    drop(opened);
    // The slot of the subscription waits for all open transactions that have written.
    let (command, mut other) = move_blocked_after_copy(&servers, &["--stop", "3"]);
    let _opened = open_on_both();
    let (mut on_a, mut on_b) = (open(&servers.a, "insta5"), open(&servers.b, "insta5"));
    run(&mut other, "COMMIT");
    // The move waits for these before it stops writes, longer than they may be stopped.
    thread::sleep(Duration::from_millis(3500));
    run(&mut on_b, "COMMIT");
    thread::sleep(Duration::from_millis(3500));
    run(&mut on_a, "COMMIT");
    outcome(command).unwrap();
}

/// A session writes a little, and the WAL writers of both servers flush that seldom. The end of a
/// move waits for neither.
#[test]
fn commits_that_are_flushed_late_do_not_delay_a_move() {
    let late = [("synchronous_commit", "off"), ("wal_writer_delay", "3s")];
    let servers = Servers::start_with(&late);
    fill(&servers, 100);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = servers.a.connect();
            let count = "UPDATE insta5.counter SET value = value + 1";
            while client.batch_execute(count).is_ok() {
                thread::sleep(Duration::from_millis(2));
            }
        });
        kill_after_copy(&servers);
        // Nothing but the WAL writer flushes from here on.
        thread::sleep(Duration::from_secs(4));
        let started = Instant::now();
        let mut command = servers.start_command(&["move", "5", "--to", "b", "--stop", "1"]);
        wait_during(&mut command, &servers, &servers.a, IS_CLOSED);
        outcome(command).unwrap();
        let took = started.elapsed();
        assert!(took < Duration::from_secs(15), "{took:?}");
    });
}

/// Grants that grant nothing on sequences, one after the other.
const QUICK_GRANTS: &str = "DO $$ BEGIN
    FOR n IN 1..300 LOOP
        BEGIN
            EXECUTE format('GRANT ALL ON SEQUENCE insta5.c%s_id_seq TO app', 1 + n % 3);
        EXCEPTION WHEN internal_error OR deadlock_detected THEN NULL;
        END;
        COMMIT;
        PERFORM pg_sleep(0.002);
    END LOOP;
END $$";

/// A role that may use the schema and its sequence calls GRANT again and again on both servers.
/// That changes no privilege, but writes the rows of the catalog that the move has to change. After
/// each command one of the servers accepts writes.
#[test]
fn grants_that_change_nothing_keep_no_shard_closed() {
    let servers = Servers::start();
    fill(&servers, 100);
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), "CREATE ROLE app LOGIN");
    }
    run(
        &mut servers.a.connect(),
        "CREATE TABLE insta5.c1 (id serial PRIMARY KEY); CREATE TABLE insta5.c2 (id serial PRIMARY KEY);
         CREATE TABLE insta5.c3 (id serial PRIMARY KEY);
         GRANT USAGE ON SCHEMA insta5 TO app; GRANT USAGE ON ALL SEQUENCES IN SCHEMA insta5 TO app;
         GRANT SELECT ON insta5.photos TO app",
    );
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop_at_end = StopAtEnd(stop);
        for server in [&servers.a, &servers.b] {
            for object in ["FUNCTION insta5.shard_is_elsewhere()", "SEQUENCE insta5.table_id_seq"] {
                scope.spawn(move || {
                    let grant = format!("GRANT ALL ON {object} TO app");
                    let goes_on = || !stop.load(Ordering::Relaxed);
                    while goes_on() {
                        // It may be ended by the command.
                        if let Ok(mut app) = server.config("postgres").user("app").connect(NoTls) {
                            let grants = format!("BEGIN; {grant}; SELECT pg_sleep(0.2); COMMIT");
                            while goes_on() && app.batch_execute(&grants).is_ok() {}
                        }
                        thread::sleep(Duration::from_millis(5));
                    }
                });
            }
            for _ in 0..3 {
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        if let Ok(mut app) = server.config("postgres").user("app").connect(NoTls) {
                            // It fails on the target as long as there is no copy.
                            while !stop.load(Ordering::Relaxed)
                                && app.batch_execute(QUICK_GRANTS).is_ok()
                            {
                            }
                        }
                        thread::sleep(Duration::from_millis(5));
                    }
                });
            }
        }
        let tries = (1..=5).find(|n| {
            let result = servers.run(&["move", "5", "--to", "b"]);
            println!("{n}: {result:?}");
            let insert = "INSERT INTO insta5.photos DEFAULT VALUES";
            run(&mut servers.connect_to_shard(), insert);
            result.is_ok()
        });
        assert!(tries.is_some());
    });
}

/// A role without any privilege holds the lock that CREATE SUBSCRIPTION needs, in a session and in
/// a prepared transaction, and then locks that prevent the copy from being dropped. They are named.
#[test]
fn sessions_and_prepared_transactions_with_locks_are_named() {
    let servers = Servers::start_with(&[("max_prepared_transactions", "5")]);
    let mut b = servers.b.connect();
    run(&mut b, "CREATE ROLE nobody LOGIN");
    let oid = |client: &mut Client, relation: &str| -> i64 {
        one(client, &format!("SELECT '{relation}'::regclass::oid::int8"))
    };
    let prepared = |what: &str| {
        format!(
            "DETAIL: It waits for prepared transaction 'it''s' of role nobody with a lock on {what}, \
             which COMMIT PREPARED 'it''s' or ROLLBACK PREPARED 'it''s' ends, as its coordinator has decided"
        )
    };
    let (prepare, rollback) = ("PREPARE TRANSACTION 'it''s'", "ROLLBACK PREPARED 'it''s'");
    let origins = oid(&mut b, "pg_replication_origin");
    let mut nobody = hold(&servers.b, "nobody", origins, "42809", "SELECT");
    hold(&servers.b, "nobody", origins, "42809", prepare);
    let command = servers.start_command(&["move", "5", "--to", "b"]);
    servers.b.wait_until(WAITS);
    // The command has looked who holds the lock.
    servers.b.wait_until(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'instagram_id_shards' AND state = 'idle'
         AND query LIKE '%The sessions and prepared transactions%')",
    );
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
        WHERE application_name = 'instagram_id_move_5' AND wait_event_type = 'Lock'";
    assert_eq!(one::<i64>(&mut b, cancel), 1);
    let said = fails(command, "the subscription cannot be created on b");
    let pid: i32 = one(&mut nobody, "SELECT pg_backend_pid()");
    let named = format!(
        "{}, process {pid} of role nobody with a lock on table pg_replication_origin (transaction since ",
        prepared("table pg_replication_origin")
    );
    assert!(said.contains(&named), "{said}");
    run(&mut nobody, "COMMIT");
    run(&mut b, rollback);

    for (relation, sqlstate, what) in [
        ("insta5.photos", "42809", "table insta5.photos"),
        ("insta5.table_id_seq", "42501", "sequence insta5.table_id_seq"),
    ] {
        hold(&servers.b, "nobody", oid(&mut b, relation), sqlstate, prepare);
        servers.refuses(&["cancel", "5"], &format!("{}.\n", prepared(what)));
        run(&mut b, rollback);
    }
    servers.command(&["cancel", "5"]);
}

/// A move ends if a worker of its replication waits for a lock, and names who holds it; or if
/// subscriptions take all workers of the target, and none is left to copy tables. It names a
/// transaction for which the copy of a table waits.
#[test]
fn moves_whose_replication_cannot_work_end() {
    let servers = Servers::start_with(&[("max_prepared_transactions", "5")]);
    let Servers { a, b } = &servers;
    let ids = fill(&servers, 100);
    let photos = "CREATE TABLE insta6.photos (id bigint PRIMARY KEY DEFAULT next_id(6))";
    let rows = "INSERT INTO insta6.photos SELECT next_id(6) FROM generate_series(1, 10)";
    run(&mut a.connect(), &format!("SELECT create_shard(6); {photos}; {rows}"));
    servers.command(&["place", "a", "6"]);
    // Shard 5 is copied. Shard 6 is subscribed to, but its subscription is not enabled yet.
    let (command, mut other) = move_blocked_after_copy(&servers, &[]);
    assert!(!kill_group(command));
    run(&mut other, "COMMIT; BEGIN; LOCK TABLE pg_subscription_rel IN SHARE MODE");
    let command = servers.start_command(&["move", "6", "--to", "b"]);
    b.wait_until(&WAITS.replace("move_5", "move_6"));
    assert!(!kill_group(command));
    run(&mut other, "COMMIT");
    b.wait_until("SELECT count(*) = 2 FROM pg_subscription");
    run(&mut other, "ALTER SYSTEM SET max_logical_replication_workers = 2");
    b.stop();
    b.launch();
    // The worker of shard 5 waits. That of shard 6 leaves none that copies its tables.
    let mut other = b.connect();
    run(
        &mut other,
        "BEGIN; LOCK TABLE insta5.counter IN ACCESS SHARE MODE; PREPARE TRANSACTION 'it''s'",
    );
    run(&mut a.connect(), "TRUNCATE insta5.counter");
    b.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)");
    let moves = ["5", "6"].map(|shard| servers.start_command(&["move", shard, "--to", "b"]));
    let reasons = [
        "the replication to b has waited for 30 s for prepared transaction 'it''s' of role postgres \
         with a lock on table insta5.counter, which COMMIT PREPARED 'it''s' or ROLLBACK PREPARED 'it''s' ends, as its coordinator has decided",
        "all logical replication workers of server b have been taken for 30 s, and none of them copies tables: \
         increase max_logical_replication_workers (2) or max_worker_processes (8)",
    ];
    for (command, reason) in moves.into_iter().zip(reasons) {
        fails(command, reason);
    }
    run(&mut other, "ROLLBACK PREPARED 'it''s'");
    run(&mut other, "ALTER SYSTEM RESET max_logical_replication_workers");
    b.stop();
    run(&mut a.connect(), "CREATE ROLE nobody LOGIN");
    let mut nobody = a.connect_as("nobody");
    run(&mut nobody, "BEGIN; CREATE TEMP TABLE t ()");
    b.launch();
    servers.command(&["move", "5", "--to", "b"]);
    let mut command = servers.start_command(&["move", "6", "--to", "b"]);
    let warning = BufReader::new(command.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    let pid: i32 = one(&mut nobody, "SELECT pg_backend_pid()");
    let names =
        format!("copying a table waits for process {pid} of role nobody (transaction since ");
    assert!(warning.contains(&names), "{warning}");
    run(&mut nobody, "COMMIT");
    outcome(command).unwrap();
    let mut b = b.connect();
    assert_eq!(column(&mut b, "SELECT id FROM insta5.photos ORDER BY id"), ids);
    assert_eq!(one::<i64>(&mut b, "SELECT count(*) FROM insta6.photos"), 10);
}

/// The source removes WAL that the target has not received yet. The move ends, and cannot be
/// resumed.
#[test]
fn move_whose_wal_was_removed_begins_anew() {
    let servers = Servers::start();
    let ids = fill(&servers, 100);
    let Servers { a, b } = &servers;
    kill_after_copy(&servers);
    let mut block = b.connect();
    run(&mut block, "BEGIN; LOCK TABLE insta5.counter IN SHARE MODE");
    let mut a = a.connect();
    run(&mut a, "UPDATE insta5.counter SET value = value + 1");
    run(&mut a, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'");
    run(&mut a, "SELECT pg_reload_conf(), pg_switch_wal()");
    run(&mut a, "UPDATE insta5.counter SET value = value + 1");
    run(&mut a, "SELECT pg_switch_wal()");
    // The process of the checkpoint may not have read the setting yet.
    let is_lost = "SELECT bool_or(wal_status = 'lost') FROM pg_replication_slots";
    servers.a.wait_for(is_lost, || {
        run(&mut a, "CHECKPOINT");
        one(&mut a, is_lost)
    });
    servers.refuses(
        &["move", "5", "--to", "b"],
        "or WAL that the slot needs (max_slot_wal_keep_size): run cancel 5, and move the shard again",
    );
    run(&mut block, "COMMIT");
    servers.command(&["cancel", "5"]);
    servers.command(&["move", "5", "--to", "b"]);
    let query = "SELECT id FROM insta5.photos ORDER BY id";
    assert_eq!(column(&mut servers.connect_to_shard(), query), ids);
}

/// Sessions that lock tables block neither commands that only show numbers, nor sessions that use
/// other tables.
#[test]
fn locked_tables_block_only_themselves() {
    let servers = Servers::start();
    fill(&servers, 1000);
    run(&mut servers.a.connect(), "VACUUM ANALYZE insta5.photos");
    let (mut command, mut other) = move_blocked_after_copy(&servers, &[]);
    let mut holders = [servers.a.connect(), servers.b.connect()];
    for holder in &mut holders {
        run(holder, "BEGIN; LOCK TABLE insta5.photos");
    }
    for (arguments, expected) in
        [(["status"], "3 of 3 tables copied"), (["plan"], "Servers, before and after the moves")]
    {
        let mut asked = servers.start_command(&arguments);
        let started = Instant::now();
        while asked.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_secs(20), "{arguments:?} waits");
            thread::sleep(Duration::from_millis(2));
        }
        let said = outcome(asked).unwrap();
        assert!(said.contains(expected), "{said}");
    }
    drop(holders);

    // The command drops the triggers of the copy: it locks one table at a time.
    let tables = ["photos", "counter", "\"It's \"\"odd\"\"\""];
    let mut readers = tables.map(|table| {
        let mut reader = servers.b.connect();
        run(&mut reader, &format!("BEGIN; SELECT FROM insta5.{table}"));
        (table, Some(reader))
    });
    run(&mut other, "COMMIT");
    let mut b = servers.b.connect();
    // Nobody waits for long behind it.
    let waits = "SELECT relation::regclass::text FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted";
    servers.b.wait_until(&format!("SELECT EXISTS ({waits})"));
    let table: String = one(&mut b, waits);
    run(&mut b, &format!("SET lock_timeout = '5s'; SELECT FROM {table}"));
    let of_command = "FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN pg_class AS c ON c.oid = relation
        WHERE application_name = 'instagram_id_move_5' AND mode = 'AccessExclusiveLock' AND relkind = 'r' AND relnamespace > 16383";
    while command.try_wait().unwrap().is_none() {
        let locks = format!("SELECT format('%I', relname) AS name, granted {of_command}");
        let locks: Vec<(String, bool)> =
            b.query(&locks, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
        assert!(locks.len() < 2, "{locks:?}");
        for (table, reader) in &mut readers {
            if locks.iter().any(|(name, is_granted)| name == table && !is_granted) {
                *reader = None;
            }
        }
    }
    outcome(command).unwrap();
    assert!(!one::<bool>(&mut b, HAS_TRIGGERS));
    assert!(readers.iter().all(|(_, reader)| reader.is_none()));
}

/// The password of a conninfo is neither in the arguments of a program nor in a server's log, even
/// if servers log all statements.
#[test]
fn passwords_are_not_shown() {
    const SECRET: &str = "pass'word\\of a secret";
    let servers = Servers::start();
    for server in [&servers.a, &servers.b] {
        let all = "ALTER SYSTEM SET log_statement = 'all'; ALTER SYSTEM SET log_min_duration_statement = 0;
            ALTER SYSTEM SET log_error_verbosity = verbose; SELECT pg_reload_conf()";
        for statement in all.split(';') {
            run(&mut server.connect(), statement);
        }
    }
    for name in ["a", "b"] {
        let quoted = SECRET.replace('\\', "\\\\").replace('\'', "\\'");
        servers.connect_as(name, &format!("postgres password='{quoted}'"), &[]);
    }
    let stop = AtomicBool::new(false);
    let arguments = thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        let watching = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                seen.extend(arguments_of_all_processes());
                thread::sleep(Duration::from_millis(5));
            }
            seen
        });
        let command = servers
            .b
            .shards_command(&["move", "5", "--to", "b"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        outcome(command).unwrap();
        drop(stop_at_end);
        watching.join().unwrap()
    });
    // A part of the password that quoting does not change.
    let part = "of a secret";
    assert!(
        arguments.iter().any(|arguments| arguments.contains("pg_dump")),
        "the watch has missed pg_dump"
    );
    assert!(!arguments.iter().any(|arguments| arguments.contains(part)), "{arguments:?}");
    for server in [&servers.a, &servers.b] {
        let log = server.log();
        assert!(
            log.contains("CREATE PUBLICATION") || log.contains("ALTER SUBSCRIPTION"),
            "statements are logged"
        );
        let lines: Vec<_> = log.lines().filter(|line| line.contains(part)).collect();
        // Reading the connection strings from the map, also on b, does not log them: they are
        // results.
        assert!(lines.is_empty(), "{lines:?}");
    }
}

fn arguments_of_all_processes() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let arguments =
        processes.filter_map(|process| std::fs::read(process.ok()?.path().join("cmdline")).ok());
    arguments.map(|arguments| String::from_utf8_lossy(&arguments).replace('\0', " ")).collect()
}

/// The COMMIT that opens the copy waits for a standby. The answer to it is lost, and the command
/// finds that the copy is open. Or the command is killed, and the next one, which connects as
/// another superuser, waits for that COMMIT. Clients can never write to both servers.
#[test]
fn copy_that_is_committed_late_is_the_only_one() {
    let servers = Servers::start();
    let Servers { a, b } = &servers;
    let insert = "INSERT INTO insta5.photos DEFAULT VALUES";
    run(&mut a.connect(), "CREATE ROLE boss SUPERUSER LOGIN; CREATE ROLE other");
    let opening = |to, source: &Server, target: &Server| {
        let command = servers.start_command(&["move", "5", "--to", to, "--stop", "30"]);
        target.wait_until("SELECT to_regclass('insta5.counter') IS NOT NULL");
        let mut block = target.connect();
        run(&mut block, "BEGIN; ALTER SEQUENCE insta5.table_id_seq NO CYCLE");
        source.wait_until(IS_CLOSED);
        target.wait_until(WAITS);
        (command, block)
    };
    let set_standby = |server: &Server, name: &str| {
        let mut client = server.connect();
        run(&mut client, &format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
        run(&mut client, "SELECT pg_reload_conf()");
        server
            .wait_until(&format!("SELECT current_setting('synchronous_standby_names') = '{name}'"));
    };
    const COMMITS: &str = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let committing = |to, source: &Server, target: &Server| {
        let (command, mut block) = opening(to, source, target);
        set_standby(target, "nobody");
        run(&mut block, "ROLLBACK");
        target.wait_until(&format!("SELECT EXISTS (SELECT {COMMITS})"));
        command
    };
    let command = committing("b", a, b);
    let ended = format!("SELECT count(pg_terminate_backend(pid, 10000)) {COMMITS}");
    assert_eq!(one::<i64>(&mut b.connect(), &ended), 1);
    set_standby(b, "");
    let said = outcome(command).unwrap();
    assert!(said.contains("Shard 5 is on b"), "{said}");
    assert_eq!(error_of(&mut a.connect(), insert).0, "25006");
    run(&mut b.connect(), insert);
    servers.command(&["clean", "5"]);

    // A copy that cannot generate ids is not opened.
    let (command, mut block) = opening("a", b, a);
    run(&mut a.connect(), "ALTER FUNCTION insta5.epoch() OWNER TO other");
    run(&mut block, "ROLLBACK");
    fails(command, "shard 5 cannot generate ids on a: insta5.epoch() belongs to");
    run(&mut b.connect(), insert);
    servers.command(&["cancel", "5"]);

    assert!(!kill_group(committing("a", b, a)));
    servers.connect_as("a", "boss", &[]);
    let again = servers.start_command(&["move", "5", "--to", "a"]);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(error_of(&mut b.connect(), insert).0, "25006");
    set_standby(a, "");
    outcome(again).unwrap();
    assert_eq!(error_of(&mut b.connect(), insert).0, "25006");
    run(&mut a.connect(), insert);
}

/// A role without superuser rights can move the shards of the roles whose rights it has. Before
/// PostgreSQL 16 only a superuser can subscribe, so there this applies to the old server.
#[test]
#[expect(clippy::too_many_lines, reason = "one move, step by step")]
fn role_that_is_no_superuser_can_move() {
    let servers = Servers::start();
    let major = major();
    for (name, server) in [("a", &servers.a), ("b", &servers.b)] {
        let hba = server.path().join("data/pg_hba.conf");
        let rules = std::fs::read_to_string(&hba).unwrap();
        std::fs::write(&hba, format!("local all mover,boss scram-sha-256\n{rules}")).unwrap();
        run(
            &mut server.connect(),
            "CREATE ROLE keeper; CREATE ROLE mover LOGIN PASSWORD 'secret'; CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'secret'; SELECT pg_reload_conf()",
        );
        let user = if name == "b" && major < 16 { "postgres" } else { "mover password=secret" };
        servers.connect_as(name, user, &["--trust", "keeper"]);
    }
    run(&mut servers.a.connect(), "GRANT CREATE ON DATABASE postgres TO keeper; SET ROLE keeper; SELECT create_shard(6);
             CREATE TABLE insta6.photos (id bigint PRIMARY KEY DEFAULT insta6.next_id(), title text);
             CREATE TABLE insta6.parts (id bigint PRIMARY KEY DEFAULT insta6.next_id()) PARTITION BY RANGE (id);
             CREATE TABLE insta6.part PARTITION OF insta6.parts DEFAULT;
             INSERT INTO insta6.photos (title) SELECT 'photo' FROM generate_series(1, 1000);
             INSERT INTO insta6.parts SELECT insta6.next_id() FROM generate_series(1, 10)");
    servers.command(&["place", "a", "6"]);
    let check = |reason: &str| {
        servers.refuses(&["check", "6", "--to", "b"], reason);
    };
    let grant = |server: &Server, statement: &str| run(&mut server.connect(), statement);
    check("the role that connects to a is no superuser and lacks REPLICATION");
    grant(&servers.a, "ALTER ROLE mover REPLICATION");
    check(
        "server a has row_security = on, which could leave out rows: ALTER ROLE mover IN DATABASE postgres SET row_security = 'off'",
    );
    grant(&servers.a, "ALTER ROLE mover IN DATABASE postgres SET row_security = 'off'");
    check("the role that connects to a lacks CREATE on the database");
    grant(&servers.a, "GRANT CREATE ON DATABASE postgres TO mover");
    check("the role that connects to a lacks the rights of keeper");
    grant(&servers.a, "GRANT keeper TO mover");
    check("GRANT pg_monitor to it there");
    grant(&servers.a, "GRANT pg_monitor TO mover");
    if major >= 16 {
        check("GRANT pg_create_subscription to it there");
        let rights =
            "GRANT pg_create_subscription, pg_monitor TO mover; ALTER ROLE mover REPLICATION;
            GRANT CREATE ON DATABASE postgres TO mover, keeper; GRANT keeper TO mover WITH INHERIT FALSE, SET FALSE";
        grant(&servers.b, rights);
        check(
            "b lacks the rights of keeper, who owns objects of the shard: GRANT keeper to it WITH INHERIT TRUE, SET TRUE",
        );
        grant(&servers.b, "GRANT keeper TO mover WITH INHERIT TRUE");
        check(
            "b cannot SET ROLE keeper, who owns objects of the shard: GRANT keeper to it WITH INHERIT TRUE, SET TRUE",
        );
        grant(&servers.b, "GRANT keeper TO mover WITH INHERIT TRUE, SET TRUE");
    } else {
        servers.connect_as("b", "mover password=secret", &["--trust", "keeper"]);
        check("is no superuser, which a subscription takes before PostgreSQL 16");
        check("the role that connects to b lacks CREATE on the database");
        check("the role that connects to b lacks the rights of keeper");
        servers.connect_as("b", "postgres", &["--trust", "keeper"]);
    }
    servers.command(&["check", "6", "--to", "b"]);
    if major >= 16 {
        // From a superuser to a role that is none, which has no privilege on the schema yet; and
        // back.
        let trusted = ["--trust", "keeper", "--trust", "mover"];
        servers.connect_as("a", "boss password=secret", &trusted);
        for to in ["b", "a"] {
            servers.command(&["move", "6", "--to", to]);
            servers.command(&["clean", "6"]);
        }
        servers.connect_as("a", "mover password=secret", &["--trust", "keeper"]);
    }
    for (from, to) in [("a", "b"), ("b", "a")] {
        let said = servers.command(&["move", "6", "--to", to]);
        assert!(said.contains("Done. The old copy on"), "{from} to {to}: {said}");
        servers.command(&["clean", "6"]);
        let server = if to == "a" { &servers.a } else { &servers.b };
        let mut client = server.connect();
        for (table, rows) in [("photos", 1000), ("parts", 10)] {
            assert_eq!(
                one::<i64>(&mut client, &format!("SELECT count(*) FROM insta6.{table}")),
                rows,
                "{to}"
            );
        }
        let owners = "SELECT DISTINCT rolname::text FROM pg_roles JOIN pg_class ON relowner = pg_roles.oid
            JOIN pg_namespace AS n ON n.oid = relnamespace AND nspowner = relowner WHERE nspname = 'insta6'";
        assert_eq!(texts(&mut client, owners), ["keeper"], "{to}");
        let next = "SET ROLE keeper; INSERT INTO insta6.photos DEFAULT VALUES; DELETE FROM insta6.photos WHERE title IS NULL";
        run(&mut client, next);
        // Back to a it goes only where the roles may subscribe.
        if major < 16 {
            break;
        }
        grant(&servers.a, "GRANT pg_create_subscription TO mover");
    }
    for server in [&servers.a, &servers.b] {
        assert_eq!(leftovers(server), NOTHING);
    }
}

/// The owner of a database can set limits for its sessions. They are not those of the command,
/// which waits longer here.
#[test]
fn limits_of_a_database_end_no_move() {
    let servers = Servers::start();
    let mut holder = servers.map();
    let mut limits = vec!["statement_timeout", "idle_in_transaction_session_timeout"];
    limits.extend((major() >= 17).then_some("transaction_timeout"));
    for limit in &limits {
        for database in ["map", "postgres"] {
            run(&mut holder, &format!("ALTER DATABASE {database} SET {limit} = '700ms'"));
        }
    }
    // The sessions of the replication would have these.
    let mut a = servers.a.connect();
    run(
        &mut a,
        "ALTER TABLE insta5.counter ADD price money[] DEFAULT '{1,2}'; ALTER DATABASE postgres SET statement_timeout = '1h';
         ALTER DATABASE postgres SET idle_in_transaction_session_timeout = '1h';
         CREATE ROLE app; ALTER DATABASE postgres SET role = app",
    );
    run(
        &mut holder,
        "ALTER DATABASE postgres SET array_nulls = off; ALTER ROLE postgres SET xmloption = document;
         ALTER DATABASE postgres SET lc_monetary = 'POSIX'; CREATE ROLE app; ALTER DATABASE postgres SET role = app",
    );
    let said = servers.refusal(&["check", "5", "--to", "b"]);
    let mut wrong = vec![
        "server a has idle_in_transaction_session_timeout = 1h, which could end the copy of a table",
        "server a has role = app, which would read rows as that role",
        "server a has statement_timeout = 1h, which could end the copy of a table",
        "server b has array_nulls = off, which would change arrays",
        "server b has lc_monetary = POSIX, which could change values of type money",
        "server b has role = app, which would write rows as that role",
        "server b has xmloption = document, which could reject values",
    ];
    let timeout = "server b has transaction_timeout = 700ms, which could end the copy of a table";
    wrong.extend((major() >= 17).then_some(timeout));
    let found = said.lines().filter_map(|line| line.strip_prefix("    - ")?.split_once(": "));
    let found: Vec<_> = found.collect();
    assert_same_set(found.iter().map(|(wrong, _)| *wrong), wrong, "settings");
    for (wrong, way_out) in found {
        run(if wrong.starts_with("server a") { &mut a } else { &mut holder }, way_out);
    }
    // The first statement on the map waits, and then its change, while a transaction is idle on b.
    run(&mut holder, "BEGIN; LOCK TABLE shard_map.shards");
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'map' AND wait_event_type = 'Lock')";
    thread::scope(|scope| {
        scope.spawn(|| servers.command(&["move", "5", "--to", "b"]));
        for then in [
            "BEGIN; LOCK TABLE shard_map.shards IN SHARE MODE",
            "ALTER DATABASE map RESET ALL; ALTER DATABASE postgres RESET ALL",
        ] {
            servers.b.wait_until(waits);
            thread::sleep(Duration::from_secs(1));
            run(&mut holder, &format!("COMMIT; {then}"));
        }
    });
    assert_eq!(servers.placement(), "b");
}

/// Sessions that lock tables in another order than the command, and a role without a right that
/// asks for locks, keep neither a move from its cutover nor `clean` from dropping the old copy.
#[test]
fn sessions_that_ask_for_locks_end_neither_move_nor_clean() {
    let servers = Servers::start();
    run(&mut servers.a.connect(), "CREATE ROLE stranger LOGIN");
    let table: u32 = one(&mut servers.a.connect(), "SELECT 'insta5.photos'::regclass::oid");
    let writer = "BEGIN; INSERT INTO insta5.photos DEFAULT VALUES; SELECT pg_sleep(0.1);
        UPDATE insta5.counter SET value = value + 1 WHERE n = 1; COMMIT";
    let reader = "BEGIN; SELECT FROM insta5.photos LIMIT 1; SELECT pg_sleep(0.01); SELECT FROM insta5.counter; COMMIT";
    let probe = format!("SELECT nextval({table}::regclass)");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sessions = [
            ("postgres", writer),
            ("postgres", writer),
            ("postgres", reader),
            ("postgres", "INSERT INTO insta5.photos (batch) VALUES (1)"),
            ("stranger", &probe),
        ];
        for (role, statements) in sessions {
            let mut client = servers.a.connect_as(role);
            let is_done = &is_done;
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    if client.batch_execute(statements).is_err() {
                        run(&mut client, "ROLLBACK");
                    }
                    // Those that never pause would leave the command no moment.
                    if statements.starts_with("BEGIN") {
                        thread::sleep(Duration::from_millis(300));
                    }
                }
            });
        }
        let moved = servers.run(&["move", "5", "--to", "b"]);
        let cleaned = moved.and_then(|_| servers.run(&["clean", "5"]));
        is_done.store(true, Ordering::Relaxed);
        cleaned.unwrap();
    });
}

/// The new server was made from a backup of the old one. When the rows are copied, it fails over to
/// a standby that lacks a change, which it has confirmed.
#[test]
fn failover_of_the_new_server_loses_no_change() {
    let servers = Servers::start();
    fill(&servers, 1000);
    let mut a = servers.a.connect();
    let recover = |server: &Server| {
        server.recover(&[("restore_command", "false")]);
        let conninfo = format!("host={} user=postgres dbname=postgres", server.path().display());
        servers.command(&["server", "c", &conninfo]);
    };
    let c = Server::back_up(&servers.a);
    recover(&c);
    run(&mut c.connect(), "DROP SCHEMA insta5 CASCADE");
    let to_c = ["move", "5", "--to", "c"];
    let command = servers.start_command(&to_c);
    c.wait_until("SELECT to_regclass('insta5.counter') IS NOT NULL");
    // Blocks the command's ANALYZE.
    let mut analyze = c.connect();
    run(&mut analyze, "BEGIN; LOCK TABLE insta5.counter IN SHARE UPDATE EXCLUSIVE MODE");
    c.wait_until(WAITS);
    assert!(!kill_group(command));
    run(&mut analyze, "COMMIT");
    let standby = Server::back_up(&c);
    run(&mut a, "UPDATE insta5.counter SET value = 7");
    let end: String = one(&mut a, "SELECT pg_current_wal_lsn()::text");
    servers.a.wait_until(&format!(
        "SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = 'instagram_id_move_5'"
    ));
    c.stop();
    recover(&standby);
    servers.command(&to_c);
    assert_eq!(column(&mut standby.connect(), "SELECT value FROM insta5.counter"), [7, 7]);
}
