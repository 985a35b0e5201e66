//! PostgreSQL's own commands on a sequence that the nodes of a Citus cluster hand over: `nextval`,
//! `setval`, `ALTER SEQUENCE` and dumps. They ignore the takeover, and some need only USAGE. Ids
//! stay unique and in order, or the next one is refused.

use instagram_id_live::*;

/// The statement that a dump contains for a sequence.
const RESTORE: &str =
    "SELECT setval('insta5.table_id_seq', last_value, is_called) FROM insta5.table_id_seq";
const APP: &str = "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA insta5 TO app;
    GRANT USAGE ON SEQUENCE insta5.table_id_seq TO app";

/// The value of a closed copy is no id: `nextval` returns 2^61 or more.
const CLOSED: i64 = 1 << 61;

/// `nextval` needs only USAGE. On a closed copy it overwrites the record of the last holder, but
/// does not open the copy: the open copy shows that it is the one, and no id is repeated.
#[test]
fn nextval_on_closed_copies_stops_no_takeover() {
    let cluster = Emulated::start_with_shard(2);
    cluster.everywhere(APP);
    let mut ids = cluster.ids_an_hour_ahead(1);
    for (closed, next) in [([0, 2], 2), ([0, 1], 1)] {
        for node in closed {
            let mut app = cluster.connect_as(node, "app");
            let value: i64 = one(&mut app, "SELECT nextval('insta5.table_id_seq')");
            assert!(value >= CLOSED, "{value}");
        }
        cluster.move_schema("insta5", next);
        ids.extend(column(&mut cluster.nodes[next].connect(), "SELECT next_ids(5, 100)"));
    }
    check_unique_and_increasing(&[ids]);
}

/// The owning node is lost after a statement on the coordinator, whose copy is closed: a new node
/// refuses, until `advance_shard` says where to continue. A role with USAGE cannot make the cluster
/// ignore the lost node, nor can statements that have no effect elsewhere: an ALTER SEQUENCE that
/// the hints of this extension advise, and the statements that `pg_upgrade` runs on each node.
#[test]
fn lost_node_blocks_takeover_after_statements_of_postgresql() {
    let cluster = Emulated::start_with_shard(2);
    cluster.everywhere(APP);
    let mut ids = cluster.ids_an_hour_ahead(1);
    let mut owner = 1;
    for (statement, role) in [
        ("SELECT nextval('insta5.table_id_seq')", "app"),
        ("ALTER SEQUENCE insta5.table_id_seq INCREMENT 1", "postgres"),
        (RESTORE, "postgres"),
    ] {
        let new = 3 - owner;
        // The copy of a node that was just added records no owner.
        cluster.remove(new);
        cluster.add(new);
        run(&mut cluster.connect_as(0, role), statement);
        cluster.move_schema("insta5", new);
        cluster.remove(owner);
        let mut home = cluster.nodes[new].connect();
        let (state, message, _) = error_of(&mut home, NEXT_ID);
        assert_eq!(state, "55000", "{statement}: {message}");
        let is_unknown = message.contains("No copy records which node was the last");
        assert!(is_unknown, "{statement}: {message}");
        ids.push(one(&mut home, AN_HOUR_AHEAD));
        ids.push(one(&mut home, NEXT_ID));
        owner = new;
    }
    check_unique_and_increasing(&[ids]);
}

/// `pg_dump` and `pg_upgrade` set a sequence to the values in its row, also if it is closed. A copy
/// that a failed attempt has closed keeps its last value through this.
#[test]
fn restored_closed_copy_keeps_its_last_value() {
    let cluster = Emulated::start(1);
    cluster.create(SHARD_WITH_TRIGGER);
    one::<i64>(&mut cluster.nodes[0].connect(), NEXT_ID);
    cluster.distribute("insta5", 0);
    let ids = cluster.ids_an_hour_ahead(0);
    cluster.break_commands(1, 0, r"%.\_close\_sequence(%", Fault::Lose);
    cluster.move_schema("insta5", 1);
    assert_eq!(error_of(&mut cluster.nodes[1].connect(), NEXT_ID).0, "08000", "the answer is lost");
    cluster.restore_commands(1);
    let dump = cluster.nodes[0].run("pg_dump", &["-n", "insta5", "postgres"]);
    let set = dump.lines().find(|line| line.contains("pg_catalog.setval")).expect("a setval");
    run(&mut cluster.nodes[0].connect(), set);
    let (state, message, _) = error_of(&mut cluster.nodes[1].connect(), NEXT_ID);
    assert_eq!(state, "55000", "the taker is no longer recorded: {message}");
    let last = ids.iter().max().unwrap();
    let mut home = cluster.nodes[1].connect();
    assert!(one::<i64>(&mut home, "SELECT advance_shard(5, 5 << 10)") > *last);
    assert!(one::<i64>(&mut home, NEXT_ID) > *last);
}

/// The copy of a node that was disabled while its copy was open is not ignored: activated again,
/// the node would continue there. After the node is removed, `advance_shard` sets where to
/// continue.
#[test]
fn copy_of_a_disabled_node_blocks_takeover() {
    let cluster = Emulated::start_with_shard(2);
    let mut ids = vec![one(&mut cluster.nodes[1].connect(), NEXT_ID)];
    cluster.disable(1);
    cluster.move_schema("insta5", 2);
    let mut home = cluster.nodes[2].connect();
    for statement in [NEXT_ID, AN_HOUR_AHEAD, NEXT_ID] {
        assert_eq!(error_of(&mut home, statement).0, "55000", "{statement}");
    }
    let (_, message, hint) = error_of(&mut home, AN_HOUR_AHEAD);
    assert!(
        message.contains("disabled") && hint.contains("citus_remove_node()"),
        "{message}: {hint}"
    );
    cluster.activate(1);
    ids.push(one(&mut home, NEXT_ID));
    cluster.move_schema("insta5", 1);
    ids.push(one(&mut cluster.nodes[1].connect(), NEXT_ID));
    cluster.move_schema("insta5", 2);
    cluster.nodes[1].stop();
    cluster.remove(1);
    assert_eq!(error_of(&mut home, NEXT_ID).0, "55000");
    ids.push(one(&mut home, AN_HOUR_AHEAD));
    ids.push(one(&mut home, NEXT_ID));
    check_unique_and_increasing(&[ids]);
}

/// USAGE is not enough to exhaust a shard's sequence when the definition of the sequence no longer
/// prevents it, because the sequence was given to another role.
#[test]
fn usage_does_not_exhaust_a_sequence_with_another_owner() {
    let server = Server::start(&[]);
    let mut owner = server.connect();
    run(&mut owner, "CREATE EXTENSION instagram_id; CREATE ROLE keeper; CREATE ROLE other; GRANT CREATE ON DATABASE postgres TO keeper;
             SET ROLE keeper; SELECT create_shard(5); RESET ROLE; GRANT USAGE, CREATE ON SCHEMA insta5 TO other;
             ALTER SEQUENCE insta5.table_id_seq OWNER TO other");
    run(&mut owner, APP);
    let mut app = server.connect_as("app");
    one::<i64>(&mut app, NEXT_ID);
    let jump =
        "SELECT next_id(5, 'insta5.table_id_seq', clock_timestamp() - interval '1099511627000 ms')";
    assert_eq!(error_of(&mut app, jump).0, "42501");
    one::<i64>(&mut app, NEXT_ID);
}

/// If the owner of a shard is a role that cannot log in, a role with UPDATE generates the first id
/// after a move. The error names the owner and this cause.
#[test]
fn error_names_an_owner_that_cannot_log_in() {
    let cluster = Emulated::start(1);
    cluster.everywhere("CREATE ROLE keeper NOLOGIN; GRANT CREATE ON DATABASE postgres TO keeper");
    cluster
        .create("SET ROLE keeper; SELECT create_shard(5); CREATE TABLE insta5.photos (id bigint)");
    cluster.distribute("insta5", 1);
    cluster.everywhere(APP);
    let mut app = cluster.connect_as(1, "app");
    let (state, message, hint) = error_of(&mut app, NEXT_ID);
    assert_eq!(state, "08000", "{message}");
    assert!(
        message.contains("as role keeper") && hint.contains("UPDATE") && hint.contains("log in"),
        "{hint}"
    );
    let first: i64 = one(&mut cluster.nodes[1].connect(), NEXT_ID);
    assert!(one::<i64>(&mut app, NEXT_ID) > first);
}
