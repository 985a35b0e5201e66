//! The copies of a sequence on the nodes of a Citus cluster hand over to each other. Citus itself is emulated here, so that
//! nodes can be stopped, cut off and made to believe what Citus would not tell them: see `Emulated`. With Citus itself
//! `citus.rs` does the same.

use instagram_id_live::*;
use postgres::Client;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The trigger's way.
const INSERT: &str = "INSERT INTO insta5.photos (batch) VALUES (1), (2) RETURNING id";

/// Within a transaction a session learns of changes when it locks a relation, as Citus does in every statement.
const NOTICE: &str = "SELECT FROM pg_am";

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

/// What the new home runs on each other node to close its copy.
fn close_statement(group: i32) -> String {
    format!("SELECT next_value FROM _close_sequence('insta5.table_id_seq', {group}, 1)")
}

/// What such a command is LIKE, and the one that writes a name down.
const CLOSING: &str = r"%.\_close\_sequence(%";
const NAMING: &str = r"%.\_name\_sequence\_taker(%";

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
            assert!(text.contains(&name) && text.contains("convert_defaults_to_triggers"), "{way}: {text}");
        }
    }
    let mut client = cluster.nodes[1].connect();
    let mut ids: Vec<i64> = (0..100).map(|_| next_id(&mut client)).collect();
    ids.extend(column(&mut client, INSERT));
    ids.extend(column(&mut client, "SELECT next_ids(5, 3000)"));
    check_unique_and_increasing(&[ids]);
    for (node, expected) in [(0, false), (1, true), (2, false)] {
        let at_home: bool =
            one(&mut cluster.nodes[node].connect(), "SELECT can_generate FROM id_shards WHERE shard = 5");
        assert_eq!((at_home, is_open(&cluster, node)), (expected, expected), "node {node}");
    }
}

/// Ids go on above all that were generated before, on nodes whose clocks differ, and where the clock of the new home is
/// behind. Sessions on the old home notice at once.
#[test]
fn ids_go_on_above_after_moves_between_clocks_that_differ() {
    let cluster = Emulated::start_with_clocks_of_their_own(2).with_shard();
    let mut clients: Vec<Client> = cluster.nodes.iter().map(Server::connect).collect();
    let mut ids = vec![];
    for round in 0..length(8, 60) {
        let home = cluster.home_of("insta5");
        let target = 3 - home;
        // The old home is a minute ahead, and the coordinator sometimes that far behind: longer than a move takes.
        cluster.nodes[home].set_clock(60.0);
        cluster.nodes[target].set_clock(0.0);
        cluster.nodes[0].set_clock([0.0, -60.0][round % 2]);
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
    let mut cluster = Emulated::start_with_shard(3);
    let mut ids = cluster.ids_an_hour_ahead(1);
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

/// The same where nodes have tried in vain and crashed before the schema moved on.
#[test]
fn lost_home_stays_lost_after_attempts_of_other_nodes() {
    let cluster = Emulated::start_with_shard(4);
    let last = cluster.ids_an_hour_ahead(1)[1];
    cluster.nodes[1].stop_at_once();
    // While it is down and still a part of the cluster.
    for node in [2, 3, 2] {
        cluster.move_schema_without("insta5", node, 1);
        is_refused(&mut cluster.nodes[node].connect(), NEXT_ID, "08000");
        is_refused(&mut cluster.nodes[node].connect(), INSERT, "08000");
    }
    cluster.remove(1);
    for node in [2, 3, 4, 0, 3, 2] {
        cluster.move_schema("insta5", node);
        for crashed in [node, 4] {
            is_refused(&mut cluster.nodes[node].connect(), NEXT_ID, "55000");
            cluster.nodes[crashed].crash();
            cluster.nodes[crashed].launch();
        }
    }
    let advance = format!("SELECT advance_shard(5, {last})");
    cluster.nodes[2].connect().batch_execute(&advance).unwrap();
    assert!(next_on(&cluster, 2) > last);
}

/// Two nodes take over at once, and the one that has done it is lost.
#[test]
fn lost_home_stays_lost_where_another_node_took_over_at_the_same_time() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![next_on(&cluster, 1)];
    // Nodes 2 and 3 both take themselves for the home.
    cluster.decide_move("insta5", Some(3));
    cluster.announce(3);
    cluster.decide_move("insta5", Some(2));
    cluster.announce(2);
    let pause = cluster.pause_commands(3, 2, "%");
    std::thread::scope(|scope| {
        let attempt = scope.spawn(|| refusal(&mut cluster.nodes[3].connect(), NEXT_ID));
        cluster.wait_for_pause(3);
        let mut winner = cluster.nodes[2].connect();
        ids.push(next_id(&mut winner));
        ids.push(one(&mut winner, AN_HOUR_AHEAD));
        cluster.nodes[2].stop_at_once();
        drop(pause);
        let (code, text) = attempt.join().unwrap();
        assert_eq!(code, "08000", "{text}");
    });
    cluster.mend_commands(3);
    cluster.remove(2);
    for node in [3, 0, 1, 3] {
        cluster.move_schema("insta5", node);
        for _ in 0..2 {
            let text = is_refused(&mut cluster.nodes[node].connect(), NEXT_ID, "55000");
            assert!(text.contains("group 2"), "{text}");
        }
    }
    check_unique_and_increasing(&[ids]);
}

/// A new home whose name did not reach every node is passed over by none.
#[test]
fn home_that_could_not_name_itself_everywhere_is_not_passed_over() {
    for fault in [Fault::Refuse, Fault::Lose] {
        let cluster = Emulated::start_with_shard(3);
        let mut ids = vec![next_on(&cluster, 1)];
        for node in [0, 1, 3] {
            cluster.break_commands(2, node, NAMING, fault);
        }
        cluster.move_schema("insta5", 2);
        let mut new = cluster.nodes[2].connect();
        let was_refused = new.query_one(NEXT_ID, &[]).map(|row| ids.push(row.get(0))).is_err();
        if !was_refused {
            ids.push(one(&mut new, AN_HOUR_AHEAD));
        }
        assert_eq!(is_open(&cluster, 2), !was_refused);
        cluster.nodes[2].stop_at_once();
        cluster.remove(2);
        cluster.move_schema("insta5", 3);
        // Where it has not opened its copy nothing is lost with it, but nobody has to know that.
        for _ in 0..2 {
            match cluster.nodes[3].connect().query_one(NEXT_ID, &[]) {
                Ok(row) if was_refused => ids.push(row.get(0)),
                Ok(row) => panic!("{ids:?} are followed by {}", row.get::<_, i64>(0)),
                Err(error) => assert_eq!(error.code().unwrap().code(), "55000", "{error:?}"),
            }
        }
        check_unique_and_increasing(&[ids]);
    }
}

/// A node that is down keeps the new home from taking over, and closes nothing: the old home goes on when the schema comes
/// back, and where nothing moves no other node is needed.
#[test]
fn nothing_is_closed_while_a_node_is_down() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![next_on(&cluster, 1)];
    // In the order in which they are asked, the first and the last.
    for down in [0, 3] {
        cluster.nodes[down].stop();
        cluster.move_schema_without("insta5", 2, down);
        for statement in [NEXT_ID, INSERT, AN_HOUR_AHEAD] {
            let text = is_refused(&mut cluster.nodes[2].connect(), statement, "08000");
            assert!(text.contains(&cluster.address(down).0), "{text}");
        }
        assert!(is_open(&cluster, 1), "closed for nothing");
        cluster.move_schema_without("insta5", 1, down);
        ids.push(next_on(&cluster, 1));
        ids.extend(column(&mut cluster.nodes[1].connect(), INSERT));
        cluster.nodes[down].launch();
        cluster.announce(down);
    }
    cluster.move_schema("insta5", 2);
    ids.push(next_on(&cluster, 2));
    cluster.nodes[1].stop();
    ids.push(next_on(&cluster, 2));
    check_unique_and_increasing(&[ids]);
}

/// A node whose copy is locked, by a transaction that may wait for the new home, refuses after ten seconds.
#[test]
fn locked_copy_does_not_block_the_new_home_for_ever() {
    let cluster = Emulated::start_with_shard(1);
    let mut ids = vec![next_on(&cluster, 1)];
    let mut ddl = cluster.nodes[1].connect();
    ddl.batch_execute("BEGIN; ALTER SEQUENCE insta5.table_id_seq OWNED BY NONE").unwrap();
    cluster.decide_move("insta5", Some(0));
    cluster.announce(0);
    let mut new = cluster.nodes[0].connect();
    new.batch_execute("SET statement_timeout = '100s'").unwrap();
    is_refused(&mut new, NEXT_ID, "08000");
    ddl.batch_execute("COMMIT").unwrap();
    ids.push(next_id(&mut new));
    check_unique_and_increasing(&[ids]);
}

/// A command that fails between the first node and the last, or whose answer is lost: ids go on above, at either home.
#[test]
fn ids_go_on_above_after_a_failed_attempt() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![];
    for (fault, node) in
        [(Fault::Refuse, 0), (Fault::Refuse, 3), (Fault::Lose, 0), (Fault::Lose, 1), (Fault::Lose, 3)]
    {
        ids.push(next_on(&cluster, 1));
        cluster.break_commands(2, node, CLOSING, fault);
        cluster.move_schema("insta5", 2);
        is_refused(&mut cluster.nodes[2].connect(), NEXT_ID, "08000");
        assert!(!is_open(&cluster, 2));
        // Back, or on.
        if node == 3 {
            cluster.mend_commands(2);
            ids.push(next_on(&cluster, 2));
        }
        cluster.move_schema("insta5", 1);
        ids.push(next_on(&cluster, 1));
        cluster.mend_commands(2);
    }
    check_unique_and_increasing(&[ids]);
}

/// A node that crashes while it takes over has opened nothing.
#[test]
fn ids_go_on_above_after_the_new_home_crashed_on_the_way() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![];
    for node in [0, 1, 3] {
        ids.push(next_on(&cluster, 1));
        let pause = cluster.pause_commands(2, node, CLOSING);
        cluster.move_schema("insta5", 2);
        std::thread::scope(|scope| {
            let attempt = scope.spawn(|| cluster.nodes[2].connect().simple_query(NEXT_ID).is_err());
            cluster.wait_for_pause(2);
            cluster.nodes[2].crash();
            assert!(attempt.join().unwrap());
        });
        drop(pause);
        cluster.nodes[2].launch();
        cluster.mend_commands(2);
        assert!(!is_open(&cluster, 2));
        if node != 1 {
            ids.push(next_on(&cluster, 2));
        }
        cluster.move_schema("insta5", 1);
    }
    ids.push(next_on(&cluster, 1));
    check_unique_and_increasing(&[ids]);
}

/// While one node takes over, another one does so faster: the slower one goes on above that, wherever it stood.
#[test]
fn attempt_that_is_overtaken_opens_above_the_other() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![next_on(&cluster, 1)];
    for node in [0, 1, 3] {
        cluster.decide_move("insta5", Some(3));
        cluster.announce(3);
        cluster.decide_move("insta5", Some(2));
        cluster.announce(2);
        ids.push(next_on(&cluster, 3)); // which closes the other's copy
        let pause = cluster.pause_commands(2, node, CLOSING);
        std::thread::scope(|scope| {
            let slower = scope.spawn(|| next_on(&cluster, 2));
            cluster.wait_for_pause(2);
            let mut faster = cluster.nodes[3].connect();
            ids.push(next_id(&mut faster));
            ids.push(next_id(&mut faster));
            drop(pause);
            ids.push(slower.join().unwrap());
        });
        cluster.mend_commands(2);
    }
    check_unique_and_increasing(&[ids]);
}

/// Two nodes that both take themselves for the home, which Citus does not let happen.
#[test]
fn two_nodes_that_both_take_themselves_for_the_home_repeat_nothing() {
    let cluster = Emulated::start_with_shard(2);
    cluster.decide_move("insta5", Some(2));
    cluster.announce(2);
    let mut journal = Journal::new("Emulated Citus: two nodes generate ids of a shard", Clock::IN_STEP);
    let next = AtomicUsize::new(0);
    let connect = || cluster.nodes[1 + next.fetch_add(1, Ordering::Relaxed) % 2].try_connect();
    let work = [
        query(NEXT_ID),
        query("SELECT next_ids(5, 1000)"),
        query(INSERT),
        query(format!("BEGIN; {NEXT_ID}; {NEXT_ID}; COMMIT")),
    ];
    let (received, ()) = under_load(connect, 6, &work, || {
        std::thread::sleep(length(Duration::from_secs(5), Duration::from_secs(60)));
    });
    journal.add(received);
    journal.check();
}

/// Sessions on every node try while the schema moves to and fro. Those that are not at home are refused.
#[test]
fn moves_under_load_repeat_nothing() {
    let cluster = Emulated::start_with_shard(2);
    let mut journal =
        Journal::new("Emulated Citus: ids on every node while the schema moves", Clock::IN_STEP);
    let next = AtomicUsize::new(0);
    let connect = || cluster.nodes[next.fetch_add(1, Ordering::Relaxed) % 3].try_connect();
    let or_refused = |work: Work| -> Work {
        Box::new(move |client, received| match work(client, received) {
            Err(error) if error.code().is_some_and(|code| code.code() == "55000") => Ok(()),
            result => result,
        })
    };
    let work = [query(NEXT_ID), query("SELECT next_ids(5, 100)")].map(or_refused);
    let (received, ()) = under_load(connect, 6, &work, || {
        for round in 0..length(6, 60) {
            let target = [2, 1, 0][round % 3];
            cluster.decide_move("insta5", Some(target));
            // The parts of the commit come in another order each time, with time in between.
            for node in 0..3 {
                cluster.announce((node + round) % 3);
                std::thread::sleep(Duration::from_millis(150));
            }
            journal.faults += 1;
        }
    });
    journal.add(received);
    journal.check();
}

/// Of a move's commit the nodes learn one after another. The trigger generates ids where the row is stored, before that node
/// knows; a session on the old home that has not heard of it takes the sequence back, above.
#[test]
fn ids_go_on_above_where_a_node_learns_of_the_move_late() {
    let cluster = Emulated::start_with_shard(2);
    cluster.everywhere(
        "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA insta5 TO app; GRANT USAGE ON SEQUENCE insta5.table_id_seq TO app;
         GRANT SELECT, INSERT ON insta5.photos TO app",
    );
    let connect = |node: usize| cluster.connect_as(node, "app");
    let mut ids = vec![next_on(&cluster, 1)];
    cluster.decide_move("insta5", Some(2));
    cluster.announce(0);
    cluster.announce(1);
    // The new home is last.
    is_refused(&mut connect(1), NEXT_ID, "55000");
    is_refused(&mut connect(2), NEXT_ID, "55000");
    ids.extend(column(&mut connect(2), INSERT));
    cluster.announce(2);
    ids.push(next_id(&mut connect(2)));
    // The old home is last.
    cluster.decide_move("insta5", Some(1));
    cluster.announce(1);
    ids.extend(column(&mut connect(1), INSERT));
    ids.push(next_id(&mut connect(2)));
    ids.push(next_id(&mut connect(1)));
    cluster.announce(2);
    is_refused(&mut connect(2), NEXT_ID, "55000");
    ids.push(next_id(&mut connect(1)));
    check_unique_and_increasing(&[ids]);
}

/// The hand-over holds where a node crashes right after it, even if no commit waits for the disk there.
#[test]
fn closed_copy_stays_closed_after_a_crash() {
    let cluster = Emulated::start_with_shard(2);
    cluster.nodes.iter().for_each(delay_wal);
    let mut ids = vec![];
    for _ in 0..length(3, 20) {
        let mut client = cluster.nodes[1].connect();
        // Ahead of the clock, which would hide a loss.
        client.batch_execute(AN_HOUR_AHEAD).unwrap();
        ids.extend(column(&mut client, INSERT));
        client.batch_execute("CHECKPOINT").unwrap();
        let close = close_statement(cluster.group(2).unwrap());
        let above: i64 = one(&mut client, &close);
        cluster.nodes[1].crash();
        cluster.nodes[1].launch();
        assert!(!is_open(&cluster, 1), "open again");
        let mut client = cluster.nodes[1].connect();
        assert_eq!(
            one::<i64>(&mut client, "SELECT last_value - (1::bigint << 61) FROM insta5.table_id_seq"),
            above
        );
        ids.extend(column(&mut client, INSERT));
    }
    check_unique_and_increasing(&[ids]);
}

/// The first ids of a new home are above those before a crash of it, an hour ahead, where the clock hides nothing.
#[test]
fn ids_of_a_new_home_survive_its_crash() {
    let cluster = Emulated::start_with_shard(1);
    let mut ids = cluster.ids_an_hour_ahead(1);
    cluster.move_schema("insta5", 0);
    ids.push(next_on(&cluster, 0));
    cluster.nodes[0].crash();
    cluster.nodes[0].launch();
    ids.push(next_on(&cluster, 0));
    check_unique_and_increasing(&[ids]);
}

/// A home that is disabled is asked again once it is active; one that comes back under another number, with an empty
/// copy, is not the one that knows.
#[test]
fn lost_home_is_known_by_its_number() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = cluster.ids_an_hour_ahead(1);
    cluster.move_schema("insta5", 2);
    cluster.disable(1);
    for _ in 0..3 {
        is_refused(&mut cluster.nodes[2].connect(), NEXT_ID, "55000");
    }
    cluster.activate(1);
    ids.push(next_on(&cluster, 2));
    cluster.move_schema("insta5", 3);
    cluster.remove(2);
    is_refused(&mut cluster.nodes[3].connect(), NEXT_ID, "55000");
    cluster.add(2);
    for node in [3, 1, 2, 3] {
        cluster.move_schema("insta5", node);
        is_refused(&mut cluster.nodes[node].connect(), NEXT_ID, "55000");
        is_refused(&mut cluster.nodes[node].connect(), NEXT_ID, "55000");
    }
    let advance = format!("SELECT advance_shard(5, {})", ids[2] + 1);
    ids.push(one(&mut cluster.nodes[3].connect(), &advance));
    // And the one that came back is as good as any other.
    cluster.move_schema("insta5", 2);
    ids.push(next_on(&cluster, 2));
    check_unique_and_increasing(&[ids]);
}

/// What the home has issued is not issued again when a schema is distributed, and comes back.
#[test]
fn ids_go_on_above_when_a_schema_is_distributed_and_undistributed() {
    let cluster = Emulated::start(2);
    cluster.create(SHARD_WITH_TRIGGER);
    let mut coordinator = cluster.nodes[0].connect();
    let mut ids = vec![one(&mut coordinator, AN_HOUR_AHEAD)];
    ids.push(next_id(&mut coordinator));
    cluster.distribute("insta5", 1);
    is_refused(&mut coordinator, NEXT_ID, "55000");
    ids.push(next_on(&cluster, 1));
    is_refused(&mut coordinator, NEXT_ID, "55000");
    cluster.undistribute("insta5");
    is_refused(&mut cluster.nodes[1].connect(), NEXT_ID, "55000");
    ids.push(next_id(&mut coordinator));
    is_refused(&mut cluster.nodes[1].connect(), NEXT_ID, "55000");
    check_unique_and_increasing(&[ids]);
}

/// A transaction whose snapshot is older than a move takes over where the home is now. One on the old home, which has not
/// noticed the move, does not take back what is closed.
#[test]
fn transaction_from_before_a_move_generates_ids_on_the_new_home() {
    let cluster = Emulated::start_with_shard(2);
    let mut ids = vec![next_on(&cluster, 1)];
    let mut old = cluster.nodes[1].connect();
    old.batch_execute("BEGIN; SELECT insta5.next_id()").unwrap();
    let mut sessions = [(); 2].map(|()| cluster.nodes[2].connect());
    is_refused(&mut sessions[1], NEXT_ID, "55000");
    for session in &mut sessions {
        session.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class").unwrap();
    }
    cluster.move_schema("insta5", 2);
    for session in &mut sessions {
        session.batch_execute(NOTICE).unwrap();
        ids.push(next_id(session));
        session.batch_execute("COMMIT").unwrap();
    }
    is_refused(&mut old, NEXT_ID, "55000");
    assert!(!is_open(&cluster, 1), "taken back");
    check_unique_and_increasing(&[ids]);
}

/// A role that the other nodes do not let in is refused, and closes nothing. When another one has taken over, it needs no
/// other node.
#[test]
fn role_that_cannot_connect_closes_nothing() {
    let cluster = Emulated::start_with_shard(2);
    let mut ids = vec![next_on(&cluster, 1)];
    cluster.everywhere(
        "CREATE ROLE nobody; GRANT USAGE ON SCHEMA insta5 TO nobody;
         GRANT USAGE, UPDATE ON SEQUENCE insta5.table_id_seq TO nobody; GRANT INSERT, SELECT ON insta5.photos TO nobody",
    );
    cluster.move_schema("insta5", 2);
    let mut nobody = cluster.nodes[2].connect();
    nobody.batch_execute("SET ROLE nobody").unwrap();
    for statement in [NEXT_ID, INSERT] {
        let text = is_refused(&mut nobody, statement, "08000");
        assert!(text.contains("nobody"), "{text}");
    }
    assert!(is_open(&cluster, 1));
    ids.push(next_on(&cluster, 2));
    ids.push(next_id(&mut nobody));
    check_unique_and_increasing(&[ids]);
}

/// Role app, which may generate ids and has a schema of its own.
const APP: &str =
    "CREATE ROLE app LOGIN; CREATE SCHEMA app AUTHORIZATION app; GRANT USAGE ON SCHEMA insta5 TO app;
    GRANT USAGE ON SEQUENCE insta5.table_id_seq TO app; GRANT SELECT, INSERT ON insta5.photos TO app";

/// USAGE on the sequence generates ids, and takes over after a move. It closes no copy of another node: not by a direct
/// call, nor by a trigger on another table.
#[test]
fn usage_closes_no_copy() {
    let cluster = Emulated::start_with_shard(3);
    cluster.everywhere(APP);
    // Tables of that role, and one whose owner has UPDATE on the sequence.
    cluster.everywhere(
        "GRANT CREATE ON SCHEMA insta5 TO app; SET ROLE app;
         CREATE TABLE app.own (id bigint, batch bigint); CREATE TABLE insta5.own (id bigint, batch bigint);
         CREATE TRIGGER ids BEFORE INSERT ON app.own FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id');
         CREATE TRIGGER ids BEFORE INSERT ON insta5.own FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id');
         RESET ROLE; CREATE TABLE public.own (id bigint, batch bigint); GRANT INSERT ON public.own TO app;
         CREATE TRIGGER ids BEFORE INSERT ON public.own FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id')",
    );
    let inserts =
        ["app.own", "insta5.own", "public.own"].map(|table| format!("INSERT INTO {table} VALUES (NULL, 1)"));
    let mut ids = column(&mut cluster.connect_as(1, "app"), INSERT);
    for is_down in [false, true] {
        if is_down {
            cluster.nodes[3].stop();
        }
        for node in [0, 2] {
            for insert in &inserts {
                let (code, text) = refusal(&mut cluster.connect_as(node, "app"), insert);
                assert!(["55000", "42501"].contains(&&*code), "{insert}: {code} {text}");
                assert!(is_open(&cluster, 1), "{insert} on node {node} has closed the home's copy");
            }
        }
        let mut app = cluster.connect_as(1, "app");
        for group in [0, 1, 2] {
            let close = close_statement(group);
            is_refused(&mut app, &close, "42501");
        }
        assert!(is_open(&cluster, 1));
        ids.push(next_id(&mut app));
        // At home these triggers are as good as any.
        inserts.iter().for_each(|insert| app.batch_execute(insert).unwrap());
        ids.push(next_id(&mut app));
    }
    cluster.nodes[3].launch();
    cluster.move_schema("insta5", 2);
    ids.push(next_id(&mut cluster.connect_as(2, "app")));
    cluster.move_schema("insta5", 1);
    ids.extend(column(&mut cluster.connect_as(1, "app"), INSERT));
    check_unique_and_increasing(&[ids]);
}

/// A closed copy asks where its home is before it opens. Where Citus's catalogs no longer say so, it stays closed until
/// `advance_shard` says where to go on.
#[test]
fn closed_copy_stays_closed_where_its_home_is_unknown() {
    let forget = [
        // DROP EXTENSION citus
        "DROP TABLE pg_catalog.pg_dist_object, pg_catalog.pg_dist_local_group, pg_catalog.pg_dist_node, pg_catalog.pg_dist_schema,
             pg_catalog.pg_dist_partition, pg_catalog.pg_dist_shard, pg_catalog.pg_dist_placement",
        "DELETE FROM pg_catalog.pg_dist_object",
    ];
    for sql in forget {
        let cluster = Emulated::start(2);
        cluster.create(SHARD_WITH_TRIGGER);
        let mut ids = vec![next_on(&cluster, 0)];
        cluster.distribute("insta5", 1);
        ids.extend(cluster.ids_an_hour_ahead(1));
        cluster.move_schema("insta5", 2);
        ids.push(next_on(&cluster, 2));
        for node in [0, 1] {
            cluster.nodes[node].connect().batch_execute(sql).unwrap();
            for statement in [NEXT_ID, INSERT, NEXT_ID] {
                let text = is_refused(&mut cluster.nodes[node].connect(), statement, "55000");
                // On a worker the copy has a range that is refused anyway.
                assert!(node == 1 || text.contains("advance_shard"), "{text}");
            }
            assert!(!is_open(&cluster, node));
        }
        let mut coordinator = cluster.nodes[0].connect();
        let last = *ids.last().unwrap();
        assert_eq!(one::<i64>(&mut coordinator, &format!("SELECT advance_shard(5, {last})")), last);
        ids.push(next_id(&mut coordinator));
        check_unique_and_increasing(&[ids]);
    }
}

/// Sessions that wait for a closed copy to open get no id below the one that `advance_shard` opens it with.
#[test]
fn advance_shard_opens_where_it_was_told() {
    let cluster = Emulated::start_with_shard(1);
    let mut client = cluster.nodes[1].connect();
    let mut waiting = cluster.nodes[1].connect();
    client
        .batch_execute(
            "CREATE FUNCTION id_when_open() RETURNS bigint LANGUAGE plpgsql AS $$
             BEGIN
                 WHILE NOT (SELECT is_called FROM insta5.table_id_seq) LOOP END LOOP;
                 RETURN insta5.next_id();
             END $$",
        )
        .unwrap();
    next_id(&mut client);
    let [pid, pid_of_waiting] =
        [&mut client, &mut waiting].map(|client| one::<i32>(client, "SELECT pg_backend_pid()"));
    let is_waiting = format!("SELECT state = 'active' FROM pg_stat_activity WHERE pid = {pid_of_waiting}");
    let mut ids: Vec<i64> = vec![one(&mut waiting, "SELECT id_when_open()")];
    let close = close_statement(0);
    for round in 1..=length(40, 400) {
        client.batch_execute(&close).unwrap();
        std::thread::scope(|scope| {
            let id = scope.spawn(|| one::<i64>(&mut waiting, "SELECT id_when_open()"));
            cluster.nodes[1].wait_until(&is_waiting);
            let asked = format!("SELECT make_id(now() + interval '{} minutes', 5, 0)", 10 * round);
            let asked: i64 = one(&mut client, &asked);
            let advance = format!("SELECT advance_shard(5, {asked})");
            let last = cluster.nodes[1].slow_down(pid, || one::<i64>(&mut client, &advance));
            assert!(last >= asked); // it may be the other session's already
            ids.push(asked);
            ids.push(id.join().unwrap());
        });
    }
    check_unique_and_increasing(&[ids]);
}

/// On a node where the extension lacks what the others call, as an older version does, nothing can be closed, and so
/// nothing is closed anywhere.
#[test]
fn nothing_is_closed_where_a_node_has_another_version() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![next_on(&cluster, 1)];
    let mut other = cluster.nodes[3].connect();
    for function in
        ["_close_sequence(regclass, integer, integer)", "_name_sequence_taker(regclass, integer, integer)"]
    {
        other.batch_execute(&format!("ALTER EXTENSION instagram_id DROP FUNCTION {function}")).unwrap();
        let name = function.split_once('(').unwrap().0;
        other.batch_execute(&format!("ALTER FUNCTION {function} RENAME TO gone")).unwrap();
        cluster.move_schema("insta5", 2);
        for statement in [NEXT_ID, INSERT] {
            let (code, text) = refusal(&mut cluster.nodes[2].connect(), statement);
            assert!(code == "08000" || code == "55000", "{code} {text}");
            assert!(text.contains(&cluster.address(3).0), "{text}");
        }
        assert!(is_open(&cluster, 1), "closed for nothing");
        cluster.move_schema("insta5", 1);
        ids.push(next_on(&cluster, 1));
        let arguments = function.split_once('(').unwrap().1;
        other
            .batch_execute(&format!(
                "ALTER FUNCTION gone({arguments} RENAME TO {name}; ALTER EXTENSION instagram_id ADD FUNCTION {function}"
            ))
            .unwrap();
    }
    cluster.move_schema("insta5", 2);
    ids.push(next_on(&cluster, 2));
    check_unique_and_increasing(&[ids]);
}

/// From a sequence that is of no shard every node generates ids of its own, from its own copy; from a shard's sequence it
/// generates none that way, nor from a copy with the range of another group.
#[test]
fn nodes_generate_ids_of_their_own_from_no_sequence_of_a_shard() {
    let cluster = Emulated::start_with_shard(2);
    cluster.create("CREATE SCHEMA own; CREATE SEQUENCE own.ids");
    cluster.distribute("own", 0); // without tables it is only copied
    for node in 0..3 {
        let mut client = cluster.nodes[node].connect();
        let ids = column(&mut client, "SELECT node_next_id('own.ids') FROM generate_series(1, 3000)");
        let group = i64::from(cluster.group(node).unwrap());
        assert!(ids.iter().all(|id| (id >> 10) & 8191 == group), "node {node}");
        assert!(lead(&mut client, ids[2999]).abs() < 60.0, "node {node}");
        check_unique_and_increasing(&[ids]);
        is_refused(&mut client, "SELECT node_next_id('insta5.table_id_seq')", "55000");
    }
    // Added anew a node is another group, also to a session from before.
    let mut client = cluster.nodes[2].connect();
    let of_group = |client: &mut Client| one::<i64>(client, "SELECT node_next_id('own.ids')") >> 10 & 8191;
    let before = of_group(&mut client);
    cluster.remove(2);
    cluster.add(2);
    let group = i64::from(cluster.group(2).unwrap());
    assert_eq!((before, of_group(&mut client)), (2, group));
    let mut client = cluster.nodes[1].connect();
    let (first, last) = ((7_i64 << 48) + 1, (8_i64 << 48) + 1);
    let range_of_group_7 =
        format!("ALTER SEQUENCE own.ids MINVALUE {first} MAXVALUE {last} START {first} RESTART");
    client.batch_execute(&range_of_group_7).unwrap();
    let text = is_refused(&mut client, "SELECT node_next_id('own.ids')", "55000");
    assert!(text.contains("group 7"), "{text}");
}

/// Where a node may not be asked, or has no copy to close, nothing is closed, and the home goes on.
#[test]
fn nothing_is_closed_where_a_copy_or_the_coordinator_is_missing() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![next_on(&cluster, 1)];
    let mut third = cluster.nodes[3].connect();
    third.batch_execute("ALTER SEQUENCE insta5.table_id_seq RENAME TO gone").unwrap();
    for node in [2, 0] {
        cluster.move_schema("insta5", node);
        let text = is_refused(&mut cluster.nodes[node].connect(), NEXT_ID, "08000");
        assert!(text.contains(&cluster.address(3).0), "{text}");
    }
    third.batch_execute("ALTER SEQUENCE insta5.gone RENAME TO table_id_seq").unwrap();
    cluster.remove(0);
    cluster.move_schema("insta5", 2);
    let text = is_refused(&mut cluster.nodes[2].connect(), NEXT_ID, "55000");
    assert!(text.contains("coordinator"), "{text}");
    // Nor for a node that there is none of.
    is_refused(&mut cluster.nodes[1].connect(), &close_statement(77), "22023");
    assert!(is_open(&cluster, 1), "closed for nothing");
    cluster.move_schema("insta5", 1);
    ids.push(next_on(&cluster, 1));
    check_unique_and_increasing(&[ids]);
}

/// Lays the traps of the regression tests, of another role's, and what `more` adds.
fn lay_springs(node: &Server, more: &str) {
    let attacks = std::fs::read_to_string(of_project("tests/regress/sql/search_path.sql")).unwrap();
    let from = attacks.find("CREATE VIEW members AS").unwrap();
    let to = attacks.find("SELECT lay_traps('trap', true);").unwrap();
    let sql = attacks[from..to].replace("regress_id_mallory", "mallory");
    node.connect()
        .batch_execute(&format!(
            "CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory;
             GRANT CREATE ON SCHEMA public TO mallory; {sql} {more}"
        ))
        .unwrap();
}

/// The roles that have sprung one.
fn sprung(node: &Server) -> Vec<String> {
    texts(&mut node.connect(), "SELECT DISTINCT who::text FROM trap.caught ORDER BY 1")
}

/// What one node runs on another means the same whatever search_path its role has there.
#[test]
fn commands_mean_the_same_under_every_search_path() {
    let cluster = Emulated::start(2);
    cluster.everywhere("CREATE ROLE keeper LOGIN; GRANT CREATE ON DATABASE postgres TO keeper");
    cluster.create("SET ROLE keeper; SELECT create_shard(5); CREATE TABLE insta5.photos (id bigint)");
    cluster.distribute("insta5", 1);
    cluster.everywhere(
        "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA insta5 TO app; GRANT USAGE ON SEQUENCE insta5.table_id_seq TO app;
         CREATE ROLE manager LOGIN; GRANT app TO manager; GRANT UPDATE ON SEQUENCE insta5.table_id_seq TO manager",
    );
    // An operator || for any two types, which PostgreSQL has for few.
    let operators = "SELECT lay_traps('trap', true);
        DO $$
        DECLARE
            types text[] := '{int2,int4,int8,numeric,oid,regclass,text,name,bool}';
            l text;
            r text;
        BEGIN
            FOR l, r IN SELECT * FROM unnest(types) AS l, unnest(types) AS r LOOP
                CONTINUE WHEN l = r OR to_regoperator(format('trap.||(pg_catalog.%s, pg_catalog.%s)', l, r)) IS NOT NULL;
                EXECUTE format('CREATE FUNCTION trap.joined(l pg_catalog.%s, r pg_catalog.%s) RETURNS pg_catalog.text LANGUAGE plpgsql
                    AS ''BEGIN PERFORM trap.spring(); RETURN NULL; END''', l, r);
                EXECUTE format('CREATE OPERATOR trap.|| (LEFTARG = pg_catalog.%s, RIGHTARG = pg_catalog.%s, FUNCTION = trap.joined)', l, r);
            END LOOP;
        END $$;
        RESET ROLE;";
    let roles = ["app", "manager", "keeper"];
    for node in &cluster.nodes {
        lay_springs(node, operators);
        for role in roles {
            let path = format!("ALTER ROLE {role} SET search_path = trap, pg_catalog, public");
            node.connect().batch_execute(&path).unwrap();
        }
    }
    let mut ids = vec![];
    for (round, role) in roles.iter().cycle().take(6).enumerate() {
        let node = [1, 2, 0, 2, 1, 0][round];
        cluster.move_schema("insta5", node);
        let id = cluster.connect_as(node, role).query_one("SELECT public.next_id(5)", &[]);
        for (number, node) in cluster.nodes.iter().enumerate() {
            assert_eq!(sprung(node), [""; 0], "on node {number}, for {role}");
        }
        ids.push(id.unwrap().get(0));
    }
    check_unique_and_increasing(&[ids]);
    // They are armed.
    let mut app = cluster.connect_as(1, "app");
    for statement in [
        "SELECT 1::pg_catalog.int8 || ' '",
        "SELECT 1::pg_catalog.int8 >= 2::pg_catalog.int8",
        "SELECT now()",
    ] {
        let _ = app.batch_execute(statement);
        assert_eq!(sprung(&cluster.nodes[1]), ["app"], "{statement}");
        app.batch_execute("DELETE FROM trap.caught").unwrap();
    }
}

/// Another role's function under the name of the extension's is not called where the extension is not installed: not when
/// the command is planned, either.
#[test]
fn function_that_is_not_of_the_extension_is_not_called() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![next_on(&cluster, 1)];
    let twins = "
        CREATE FUNCTION public._close_sequence(seq regclass, for_group int, attempt int, OUT next_value bigint, OUT previous_group int)
            IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM trap.spring(); next_value := 0; END';
        CREATE FUNCTION public._name_sequence_taker(seq regclass, for_group int, attempt int) RETURNS bool
            IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM trap.spring(); RETURN true; END';
        RESET ROLE;";
    let node = &cluster.nodes[3];
    lay_springs(
        node,
        "RESET ROLE; DROP VIEW members; DROP EXTENSION instagram_id CASCADE; SET ROLE mallory;",
    );
    node.connect().batch_execute(&format!("SET ROLE mallory; {twins}")).unwrap();
    cluster.move_schema("insta5", 2);
    for statement in [NEXT_ID, INSERT, AN_HOUR_AHEAD] {
        let result = cluster.nodes[2].connect().batch_execute(statement);
        assert_eq!(sprung(node), [""; 0], "{statement}: {result:?}");
        let error = result.expect_err(statement);
        assert!(["08000", "55000"].contains(&error.code().unwrap().code()), "{error:?}");
    }
    assert!(is_open(&cluster, 1), "closed for nothing");
    cluster.move_schema("insta5", 1);
    ids.push(next_on(&cluster, 1));
    check_unique_and_increasing(&[ids]);
}

/// Has a node keep its WAL in memory as long as PostgreSQL lets it.
fn delay_wal(node: &Server) {
    let mut client = node.connect();
    client.batch_execute("ALTER SYSTEM SET synchronous_commit = off").unwrap();
    client.batch_execute("ALTER SYSTEM SET wal_writer_delay = '10s'").unwrap();
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
}

/// The name of the new home is on disk on the other nodes before that opens its copy.
#[test]
fn lost_home_stays_lost_after_all_other_nodes_crashed() {
    let cluster = Emulated::start_with_shard(3);
    cluster.nodes.iter().for_each(delay_wal);
    let mut ids = vec![next_on(&cluster, 1)];
    for node in [0, 1, 3] {
        cluster.nodes[node].connect().batch_execute("CHECKPOINT").unwrap();
    }
    cluster.move_schema("insta5", 2);
    ids.push(next_on(&cluster, 2));
    for node in [0, 1, 3] {
        cluster.nodes[node].crash();
        cluster.nodes[node].launch();
    }
    ids.extend(cluster.ids_an_hour_ahead(2));
    cluster.nodes[2].stop_at_once();
    cluster.remove(2);
    for node in [3, 0, 1, 3] {
        cluster.move_schema("insta5", node);
        is_refused(&mut cluster.nodes[node].connect(), NEXT_ID, "55000");
    }
    check_unique_and_increasing(&[ids]);
}

/// A node whose name is on record everywhere knows how far the home before it came, also after a crash.
#[test]
fn named_node_knows_the_last_value_after_a_crash() {
    let cluster = Emulated::start_with_shard(3);
    delay_wal(&cluster.nodes[2]);
    let mut ids = cluster.ids_an_hour_ahead(1);
    cluster.move_schema("insta5", 2);
    cluster.nodes[2].connect().batch_execute("CHECKPOINT").unwrap();
    // The last step of all, so that nothing is opened.
    cluster.break_commands(2, 3, NAMING, Fault::Lose);
    is_refused(&mut cluster.nodes[2].connect(), NEXT_ID, "08000");
    cluster.nodes[2].crash();
    cluster.nodes[2].launch();
    cluster.mend_commands(2);
    cluster.nodes[1].stop_at_once();
    cluster.remove(1);
    for _ in 0..2 {
        match cluster.nodes[2].connect().query_one(NEXT_ID, &[]) {
            Ok(row) => ids.push(row.get(0)),
            Err(error) => assert_eq!(error.code().unwrap().code(), "55000", "{error:?}"),
        }
    }
    check_unique_and_increasing(&[ids]);
}

type Pause = fn(&Emulated, usize, usize, &str) -> Client;

/// A node is overtaken after it has closed all copies, while it puts its name on record, or right before it opens its own; and
/// the one that was faster is lost.
#[test]
fn name_does_not_replace_that_of_a_faster_node() {
    let (before, after): (Pause, Pause) = (Emulated::pause_commands, Emulated::pause_after_commands);
    for (pause, node, is_lost) in
        [(before, 3, false), (before, 0, true), (before, 3, true), (after, 3, false)]
    {
        let cluster = Emulated::start_with_shard(3);
        let mut ids = vec![next_on(&cluster, 1)];
        cluster.decide_move("insta5", Some(3));
        cluster.announce(3);
        cluster.decide_move("insta5", Some(2));
        cluster.announce(2);
        let pause = pause(&cluster, 2, node, NAMING);
        std::thread::scope(|scope| {
            let slower = scope.spawn(|| cluster.nodes[2].connect().query_one(NEXT_ID, &[]));
            cluster.wait_for_pause(2);
            let mut faster = cluster.nodes[3].connect();
            ids.push(next_id(&mut faster));
            ids.push(one(&mut faster, AN_HOUR_AHEAD));
            if is_lost {
                cluster.nodes[3].stop_at_once();
                cluster.remove(3);
            }
            drop(pause);
            match slower.join().unwrap() {
                Ok(row) => ids.push(row.get(0)),
                Err(error) => {
                    let code = error.code().unwrap().code();
                    assert!(is_lost && ["08000", "55000"].contains(&code), "{error:?}");
                }
            }
        });
        cluster.mend_commands(2);
        for node in [2, 0, 1].into_iter().cycle().take(6) {
            cluster.move_schema("insta5", node);
            match cluster.nodes[node].connect().query_one(NEXT_ID, &[]) {
                Ok(row) => ids.push(row.get(0)),
                Err(error) => assert!(is_lost && error.code().unwrap().code() == "55000", "{error:?}"),
            }
        }
        check_unique_and_increasing(&[ids]);
    }
}

/// The answer of the home is lost on the way, and then the home.
#[test]
fn home_whose_answer_was_lost_is_not_passed_over() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = cluster.ids_an_hour_ahead(1);
    cluster.break_commands(2, 1, CLOSING, Fault::Lose);
    cluster.move_schema("insta5", 2);
    is_refused(&mut cluster.nodes[2].connect(), NEXT_ID, "08000");
    cluster.nodes[1].stop_at_once();
    cluster.remove(1);
    for node in [3, 2, 0, 3] {
        cluster.move_schema("insta5", node);
        is_refused(&mut cluster.nodes[node].connect(), NEXT_ID, "55000");
    }
    let advance = format!("SELECT advance_shard(5, {})", ids[1] + 1);
    ids.push(one(&mut cluster.nodes[3].connect(), &advance));
    ids.push(next_on(&cluster, 3));
    check_unique_and_increasing(&[ids]);
}

/// A role with nothing but USAGE takes over by the rights of the sequence's owner, so it needs no access to other nodes.
#[test]
fn usage_takes_over_by_the_rights_of_the_owner() {
    let cluster = Emulated::start_with_shard(2);
    cluster.everywhere(
        "CREATE ROLE nobody; GRANT USAGE ON SCHEMA insta5 TO nobody; GRANT USAGE ON SEQUENCE insta5.table_id_seq TO nobody;
         GRANT INSERT, SELECT ON insta5.photos TO nobody",
    );
    let mut ids = vec![next_on(&cluster, 1)];
    for (node, statement) in [(2, NEXT_ID), (1, INSERT), (0, NEXT_ID), (2, INSERT)] {
        cluster.move_schema("insta5", node);
        let mut nobody = cluster.nodes[node].connect();
        nobody.batch_execute("SET ROLE nobody").unwrap();
        ids.extend(column(&mut nobody, statement));
        // It is itself again.
        assert_eq!(texts(&mut nobody, "SELECT current_user::text"), ["nobody"]);
    }
    check_unique_and_increasing(&[ids]);
}

/// Names that need quotes, under settings of the role that change what strings mean.
#[test]
fn names_are_quoted_for_every_setting() {
    let cluster = Emulated::start(2);
    let schema = r#"a 'b' "c" \'; $$ $(x) `y` %s {z}"#;
    let [literal, name] =
        [format!("'{}'", schema.replace('\'', "''")), format!("\"{}\"", schema.replace('"', "\"\""))];
    cluster.create(&format!("SELECT create_shard(5, {literal}); CREATE TABLE {name}.photos (id bigint)"));
    cluster.distribute(schema, 1);
    cluster.everywhere(&format!(
        "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA {name} TO app; GRANT USAGE, UPDATE ON SEQUENCE {name}.table_id_seq TO app;
         ALTER ROLE app SET standard_conforming_strings = off; ALTER ROLE app SET backslash_quote = on;
         ALTER ROLE app SET escape_string_warning = on; ALTER ROLE app SET quote_all_identifiers = on"
    ));
    let mut ids = vec![];
    for node in [1, 2, 0, 1] {
        cluster.move_schema(schema, node);
        ids.push(one(&mut cluster.connect_as(node, "app"), "SELECT next_id(5)"));
    }
    check_unique_and_increasing(&[ids]);
}

/// A trigger runs on each copy of a row, and would give each an id of its own: rows of reference tables, and of tables with
/// more than one placement of a shard, are refused, and such tables get no triggers.
#[test]
fn copied_rows_get_no_ids_by_trigger() {
    let cluster = Emulated::start_with_shard(1);
    let mut home = cluster.nodes[1].connect();
    let mut ids = column(&mut home, INSERT);
    home.batch_execute("CREATE TABLE insta5.words (id bigint DEFAULT insta5.next_id(), batch bigint)")
        .unwrap();
    let placements = "INSERT INTO pg_catalog.pg_dist_placement SELECT shardid + 500, shardid, 1, 0, 2 FROM pg_catalog.pg_dist_shard";
    let of_words = "INSERT INTO pg_catalog.pg_dist_partition SELECT 'insta5.words'::regclass, partmethod, partkey, colocationid, repmodel, autoconverted
        FROM pg_catalog.pg_dist_partition WHERE logicalrelid = 'insta5.photos'::regclass;
        INSERT INTO pg_catalog.pg_dist_shard SELECT 'insta5.words'::regclass, 102900, 't'; INSERT INTO pg_catalog.pg_dist_placement VALUES (102900, 102900, 1, 0, 1)";
    home.batch_execute(of_words).unwrap();
    for kind in [
        "UPDATE pg_catalog.pg_dist_partition SET repmodel = 't'".into(),
        format!("UPDATE pg_catalog.pg_dist_partition SET repmodel = 'c'; {placements}"),
    ] {
        // What Citus does where it changes a table, too: sessions learn of it.
        let announce =
            "ALTER TABLE insta5.photos SET (fillfactor = 90); ALTER TABLE insta5.words SET (fillfactor = 90)";
        home.batch_execute(&format!("{kind}; {announce}")).unwrap();
        assert!(is_refused(&mut home, INSERT, "55000").contains("insta5.photos"));
        assert!(
            is_refused(&mut home, "SELECT convert_defaults_to_triggers(5)", "55000").contains("insta5.words")
        );
        ids.push(next_id(&mut home));
        home.batch_execute(&format!("INSERT INTO insta5.photos VALUES ({}, 1)", ids.last().unwrap()))
            .unwrap();
    }
    check_unique_and_increasing(&[ids]);
}
