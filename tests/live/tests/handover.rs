//! The copies of a sequence on the nodes of a Citus cluster hand over to each other. Citus itself is emulated here, so that
//! nodes can be stopped, cut off and made to believe what Citus would not tell them: see `Emulated`. With Citus itself
//! `citus.rs` does the same.

use instagram_id_live::*;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SHARD: &str = "SELECT create_shard(5);
    CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), batch bigint);
    SELECT create_id_triggers(5)";
const NEXT_ID: &str = "SELECT insta5.next_id()";
/// The trigger's way.
const INSERT: &str = "INSERT INTO insta5.photos (batch) VALUES (1), (2) RETURNING id";
const AN_HOUR_AHEAD: &str = "SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0))";

/// Within a transaction a session learns of changes when it locks a relation, as Citus does in every statement.
const NOTICE: &str = "SELECT FROM pg_am";

/// Shard 5, with a table whose ids a trigger generates, at home on node 1.
fn start(workers: usize) -> Emulated {
    distribute(Emulated::start(workers))
}

fn distribute(cluster: Emulated) -> Emulated {
    cluster.create(SHARD);
    cluster.distribute("insta5", 1);
    cluster
}

fn next_id(client: &mut Client) -> i64 {
    one(client, NEXT_ID)
}

/// The next id of shard 5 on a node, in a session of its own.
fn next_on(cluster: &Emulated, node: usize) -> i64 {
    next_id(&mut cluster.nodes[node].connect())
}

/// Whether a node's copy of the sequence is open.
fn is_open(cluster: &Emulated, node: usize) -> bool {
    one(&mut cluster.nodes[node].connect(), "SELECT is_called FROM insta5.table_id_seq")
}

/// SQLSTATE of an error, and all of its text.
#[track_caller]
fn refusal(client: &mut Client, statement: &str) -> (String, String) {
    let error = client.simple_query(statement).expect_err(statement);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
    let texts = [Some(error.message()), error.detail(), error.hint()];
    (error.code().code().into(), texts.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

#[track_caller]
fn is_refused(client: &mut Client, statement: &str, sqlstate: &str) -> String {
    let (code, text) = refusal(client, statement);
    assert_eq!(code, sqlstate, "{statement}: {text}");
    text
}

/// What a node's home calls on the others: it closes their copy for that group, and a later attempt can tell.
fn close(client: &mut Client, group: i32) -> String {
    let is_function = "SELECT to_regprocedure('_close_sequence(regclass, integer, bigint)') IS NOT NULL";
    if one(client, is_function) {
        format!("SELECT _close_sequence('insta5.table_id_seq', {group}, 1)")
    } else {
        format!("SELECT shard_hand_over('insta5.table_id_seq', {group})")
    }
}

#[test]
fn ids_are_generated_at_home_and_nowhere_else() {
    let cluster = Emulated::start(2);
    cluster.create("SELECT create_shard(5); CREATE TABLE insta5.photos (id bigint DEFAULT insta5.next_id(), batch bigint)");
    cluster.distribute("insta5", 1);
    let name = cluster.address(1).0;
    let ways = [
        NEXT_ID,
        "SELECT next_id(5)",
        "SELECT next_id(5, 'insta5.table_id_seq')",
        "SELECT next_ids(5, 10)",
        AN_HOUR_AHEAD,
        INSERT,
        "INSERT INTO insta5.photos (batch) SELECT generate_series(1, 10)",
    ];
    for node in [0, 2] {
        let mut client = cluster.nodes[node].connect();
        // Twice: what is remembered after the first time must not let the second pass.
        for way in ways.iter().chain(&ways) {
            let text = is_refused(&mut client, way, "55000");
            assert!(text.contains(&name) && text.contains("create_id_triggers"), "{way}: {text}");
        }
    }
    let mut client = cluster.nodes[1].connect();
    let mut ids: Vec<i64> = (0..100).map(|_| next_id(&mut client)).collect();
    ids.extend(column(&mut client, INSERT));
    ids.extend(column(&mut client, "SELECT next_ids(5, 3000)"));
    check_unique_and_increasing(&[ids]);
    for (node, expected) in [(0, false), (1, true), (2, false)] {
        let at_home: bool =
            one(&mut cluster.nodes[node].connect(), "SELECT at_home FROM shards WHERE shard = 5");
        assert_eq!((at_home, is_open(&cluster, node)), (expected, expected), "node {node}");
    }
}

/// Ids go on above all that were generated before, on nodes whose clocks differ, and where the clock of the new home is
/// behind. Sessions on the old home notice at once.
#[test]
fn ids_go_on_above_after_moves_between_clocks_that_differ() {
    let cluster = distribute(Emulated::start_with_clocks_of_their_own(2));
    let mut clients: Vec<Client> = cluster.nodes.iter().map(Server::connect).collect();
    let mut ids = vec![];
    for round in 0..length(8, 60) {
        let home = cluster.home_of("insta5");
        let target = 3 - home;
        // The old home is a second ahead, and the coordinator sometimes that far behind.
        cluster.nodes[home].set_clock(1.0);
        cluster.nodes[target].set_clock(0.0);
        cluster.nodes[0].set_clock([0.0, -1.0][round % 2]);
        ids.extend((0..50).map(|_| next_id(&mut clients[home])));
        ids.extend(column(&mut clients[home], INSERT));
        // In the middle of a transaction.
        clients[home].batch_execute(["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"][round % 2]).unwrap();
        ids.push(next_id(&mut clients[home]));
        cluster.move_schema("insta5", target);
        clients[home].batch_execute(NOTICE).unwrap();
        let text = is_refused(&mut clients[home], NEXT_ID, "55000");
        assert!(text.contains(&cluster.address(target).0), "{text}");
        clients[home].batch_execute("ROLLBACK").unwrap();
        assert!(is_open(&cluster, home), "closed already, which refuses by itself");
        ids.push(next_id(&mut clients[target]));
        assert!(!is_open(&cluster, home), "open in two places");
        is_refused(&mut clients[home], NEXT_ID, "55000");
    }
    check_unique_and_increasing(&[ids]);
}

/// Only node 1 knows how far it came, an hour ahead of all clocks. When it is lost before another node has asked, ids are
/// refused, as often as one likes and on every node, until `advance_shard` says where to go on.
#[test]
fn lost_home_stays_lost_however_often_a_node_tries() {
    let mut cluster = start(3);
    let mut ids = vec![];
    let mut home = cluster.nodes[1].connect();
    ids.push(one(&mut home, AN_HOUR_AHEAD));
    ids.push(next_id(&mut home));
    cluster.grow();
    cluster.move_schema("insta5", 4);
    cluster.nodes[1].stop_at_once();
    cluster.remove(1);
    for node in [4, 2, 0, 3, 4] {
        cluster.move_schema("insta5", node);
        for statement in [NEXT_ID, NEXT_ID, INSERT, INSERT] {
            let text = is_refused(&mut cluster.nodes[node].connect(), statement, "55000");
            assert!(text.contains("group 1") && text.contains("advance_shard"), "{text}");
            assert!((0..5).filter(|&node| node != 1).all(|node| !is_open(&cluster, node)));
        }
    }
    let advance = format!("SELECT advance_shard(5, {})", ids[1] + 1000);
    ids.push(one(&mut cluster.nodes[4].connect(), &advance));
    ids.push(next_on(&cluster, 4));
    // From now on node 4 is the one that knows.
    cluster.move_schema("insta5", 2);
    ids.push(next_on(&cluster, 2));
    check_unique_and_increasing(&[ids]);
}
