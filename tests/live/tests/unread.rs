//! Clients that do not read what they are sent. Their sessions wait, and keep their locks: those
//! that their role could take anyway, and no others.

use instagram_id_live::*;

/// Whether a session has the lock with which it takes a sequence over.
const TURN: &str = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'object'
    AND classid = 'pg_class'::regclass AND objsubid = 1 AND mode = 'ExclusiveLock')";

const MALLORY: &str = "CREATE ROLE mallory LOGIN; GRANT USAGE ON SCHEMA insta5 TO mallory;
    GRANT USAGE ON SEQUENCE insta5.table_id_seq TO mallory";

/// A closed sequence is opened in spite of such a client, which has USAGE on it, or can only read
/// it as a member of pg_monitor.
#[test]
fn sequence_is_taken_over() {
    let (server, mut owner) = with_shard();
    run(&mut owner, MALLORY);
    run(
        &mut owner,
        "CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor; SET instagram_id.take_over_timeout = '1s'",
    );
    let settings = "SET client_min_messages = debug5";
    let close = "SELECT _close_sequence('insta5.table_id_seq', 0, 7)";
    for (role, statement) in [
        ("mallory", "SELECT insta5.next_id()"),
        ("monitor", "SELECT count(*) FROM take_over_shards()"),
    ] {
        let before = || run(&mut server.connect(), close);
        let during = |_: &Unread| {
            assert!(!one::<bool>(&mut owner, TURN), "{role} keeps its turn");
            one::<i64>(&mut owner, NEXT_ID);
        };
        let stopped = Unread::at_each_message(&server, (role, settings, statement), before, during);
        assert!(stopped > 1, "{role}: {stopped}");
    }
}

/// The same for an error, or the end of the session, while a node does not answer.
#[test]
fn sequence_is_taken_over_after_an_error() {
    let cluster = Emulated::start_with_shard(2);
    cluster.everywhere(MALLORY);
    one::<i64>(&mut cluster.nodes[1].connect(), NEXT_ID);
    cluster.move_schema("insta5", 2);
    let pause = cluster.pause_commands(2, 0, "%");
    let node = &cluster.nodes[2];
    let mut observer = node.connect();
    let error = "SET statement_timeout = '100ms'";
    let end = "SET exit_on_error = on; SET statement_timeout = '100ms'";
    // The session ends while it has its turn, so it sends no message.
    let silent_end = "SET transaction_timeout = '100ms'";
    for settings in [error, end, silent_end] {
        if settings == silent_end && major() < 17 {
            continue;
        }
        let during = |_: &Unread| {
            assert!(!one::<bool>(&mut observer, TURN), "mallory keeps its turn: {settings}");
        };
        let statement = ("mallory", settings, "SELECT insta5.next_id()");
        let stopped = Unread::at_each_message(node, statement, || (), during);
        assert_eq!(stopped > 0, settings != silent_end, "{settings}: {stopped}");
    }
    drop(pause);
    cluster.restore_commands(2);
    one::<i64>(&mut observer, NEXT_ID);
}

/// A role that may not create, adopt or give back a shard locks neither its number nor a schema.
#[test]
fn role_without_privileges_locks_nothing() {
    let (server, mut owner) = with_shard();
    run(&mut owner, "CREATE SCHEMA victim; CREATE ROLE nobody LOGIN");
    run(&mut owner, &original_of_shard(7));
    run(&mut owner, &original_of_shard(8));
    run(&mut owner, "SELECT adopt_shard(8)");
    let original = original_function("pg_temp", 9, ORIGINAL_EPOCH_MS);
    let temporary = format!("CREATE TEMP SEQUENCE table_id_seq; {original}");
    for statement in [
        "SELECT create_shard(6)",
        "SELECT create_shard(6, 'victim', if_not_exists => true)",
        "SELECT adopt_shard(5)",
        "SELECT adopt_shard(7)",
        "SELECT adopt_shard(9, function => 'pg_temp.next_id()', sequence => 'pg_temp.table_id_seq')",
        "SELECT unadopt_shard(5)",
        "SELECT unadopt_shard(8)",
    ] {
        let during = |client: &Unread| {
            let locks = format!(
                "SELECT array_agg(classid::regclass::text) FROM pg_locks WHERE pid = {} AND locktype = 'object'
                 AND classid IN ('pg_extension'::regclass, 'pg_namespace'::regclass)",
                client.pid
            );
            let locks: Option<Vec<String>> = one(&mut owner, &locks);
            assert_eq!(locks, None, "{statement}");
        };
        let stopped =
            Unread::at_each_message(&server, ("nobody", &temporary, statement), || (), during);
        assert!(stopped > 0, "{statement}");
    }
}
