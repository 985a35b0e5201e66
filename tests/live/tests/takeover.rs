//! Takeover of a shard's sequence between its copies on the nodes of a Citus cluster. Citus is
//! emulated, so that nodes can be stopped and disconnected, and can have catalogs that Citus would
//! not give them: see `Emulated`. The tests with Citus itself are in `citus.rs`.

use instagram_id_live::*;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// An insert whose ids the trigger generates.
const INSERT: &str = "INSERT INTO insta5.photos (batch) VALUES (1), (2) RETURNING id";

/// Within a transaction a session processes invalidations when it locks a relation, as Citus does
/// in every statement.
const NOTICE: &str = "SELECT FROM pg_am";

fn next_id(client: &mut Client) -> i64 {
    one(client, NEXT_ID)
}

/// The next id of shard 5 on a node, in a new session.
fn next_on(cluster: &Emulated, node: usize) -> i64 {
    next_id(&mut cluster.nodes[node].connect())
}

/// Moves shard 5 to a node, and generates its next id there.
fn next_after_move(cluster: &Emulated, node: usize) -> i64 {
    cluster.move_schema("insta5", node);
    next_on(cluster, node)
}

/// The next id of shard 5, or `None` if it is refused with one of these SQLSTATEs.
#[track_caller]
fn next_unless(client: &mut Client, sqlstates: &[&str]) -> Option<i64> {
    match client.query_one(NEXT_ID, &[]) {
        Ok(row) => Some(row.get(0)),
        Err(error) => {
            let code = error.code().map(|code| code.code());
            assert!(code.is_some_and(|code| sqlstates.contains(&code)), "{}", why(&error));
            None
        }
    }
}

/// A node is lost, and removed from the cluster.
fn lose(cluster: &Emulated, node: usize) {
    cluster.nodes[node].stop_at_once();
    cluster.remove(node);
}

/// A node that was down comes back, and receives what has changed.
fn come_back(cluster: &Emulated, node: usize) {
    cluster.nodes[node].launch();
    cluster.announce(node);
}

fn crash(cluster: &Emulated, node: usize) {
    cluster.nodes[node].crash();
    cluster.nodes[node].launch();
}

/// By their own catalogs, both node 2 and node 3 own shard 5. By those of the coordinator it is
/// still the former node.
fn two_owners(cluster: &Emulated) {
    for node in [3, 2] {
        cluster.decide_move("insta5", Some(node));
        cluster.announce(node);
    }
}

/// Whether a node's copy of the sequence is open.
fn is_open(cluster: &Emulated, node: usize) -> bool {
    is_open_of(cluster, node, 5)
}

fn is_open_of(cluster: &Emulated, node: usize, shard: i32) -> bool {
    let query = format!("SELECT is_called FROM insta{shard}.table_id_seq");
    one(&mut cluster.session(node), &query)
}

/// Whether a statement gets no answer, because its node crashes.
fn is_cut_off(client: &mut Client, statement: &str) -> bool {
    match client.simple_query(statement) {
        Ok(_) => false,
        Err(error) => {
            assert!(error.as_db_error().is_none(), "{statement}: {}", why(&error));
            true
        }
    }
}

/// SQLSTATE of an error, and its complete text.
#[track_caller]
fn refusal(client: &mut Client, statement: &str) -> (String, String) {
    let (code, message, hint) = error_of(client, statement);
    (code, format!("{message} {hint}").replace('\n', " "))
}

#[track_caller]
fn is_refused(client: &mut Client, statement: &str, sqlstate: &str) -> String {
    let (code, text) = refusal(client, statement);
    assert_eq!(code, sqlstate, "{statement}: {text}");
    text
}

#[track_caller]
fn is_refused_on(cluster: &Emulated, node: usize, statement: &str, sqlstate: &str) -> String {
    is_refused(&mut cluster.nodes[node].connect(), statement, sqlstate)
}

/// Whichever of these nodes shard 5 moves to, and however often it is tried, ids are refused there,
/// because the node of this group was the last to generate them.
#[track_caller]
fn is_blocked(cluster: &Emulated, nodes: &[usize], group: i32) {
    for &node in nodes {
        cluster.move_schema("insta5", node);
        for _ in 0..2 {
            let text = is_refused_on(cluster, node, NEXT_ID, "55000");
            assert!(text.contains(&format!("group {group} ")), "{text}");
        }
    }
}

/// Calls `advance_shard` on a node, and returns the next id as well.
fn advance_on(cluster: &Emulated, node: usize, id: i64) -> [i64; 2] {
    let mut client = cluster.nodes[node].connect();
    [&format!("SELECT advance_shard(5, {id})"), NEXT_ID].map(|query| one(&mut client, query))
}

/// The statement that the new node runs on each other node to close its copy.
fn close_statement(group: i32) -> String {
    format!("SELECT next_value FROM _close_sequence('insta5.table_id_seq', {group}, 1)")
}

/// LIKE patterns for the command that closes a copy and for the one that records the name of the
/// new node.
const CLOSING: &str = r"%.\_close\_sequence(%";
const RECORDING: &str = r"%.\_record\_sequence\_holder(%";

/// Runs `work`, in which this node waits for the pause, then `meanwhile`, and then ends the pause.
fn in_pause<T: Send>(
    (cluster, node, pause): (&Emulated, usize, Client),
    work: impl FnOnce() -> T + Send,
    meanwhile: impl FnOnce(),
) -> T {
    let result = std::thread::scope(|scope| {
        let work = scope.spawn(work);
        cluster.wait_for_pause(node);
        meanwhile();
        drop(pause);
        work.join().unwrap()
    });
    cluster.restore_commands(node);
    result
}

/// The node waits before it sends such a command, or after the other node has run it.
type Pause = fn(&Emulated, usize, usize, &str) -> Client;
const BEFORE: Pause = Emulated::pause_commands;
const AFTER: Pause = Emulated::pause_after_commands;

/// A query of the view does not wait for a session that has locked one of Citus's catalogs, or the
/// sequence.
fn view_waits_for_no_lock(cluster: &Emulated) {
    let mut client = cluster.nodes[1].connect();
    run(&mut client, "SET lock_timeout = '10s'");
    let state = "SELECT concat_ws(' ', last_id IS NOT NULL, can_generate, reason) FROM id_shards";
    assert_eq!(texts(&mut client, state), ["t t"]);
    let mut holder = cluster.nodes[1].connect();
    let catalogs = texts(
        &mut holder,
        "SELECT oid::regclass::text FROM pg_class WHERE relname LIKE 'pg\\_dist\\_%' AND relkind IN ('r', 'p') ORDER BY 1",
    );
    assert!(catalogs.len() >= 7, "{catalogs:?}");
    let locks = catalogs
        .iter()
        .map(|name| (format!("LOCK TABLE {name}"), "t f placement locked by another session"));
    let rename = "ALTER SEQUENCE insta5.table_id_seq RENAME TO other".to_owned();
    for (lock, expected) in locks.chain([(rename, "f f sequence locked by another session")]) {
        run(&mut holder, &format!("BEGIN; {lock}"));
        assert_eq!(texts(&mut client, state), [expected], "{lock}");
        run(&mut holder, "ROLLBACK");
        assert_eq!(texts(&mut client, state), ["t t"], "after {lock}");
    }
}

/// New ids are above all earlier ones on nodes whose clocks differ, also if the clock of the new
/// node is behind. Sessions on the former node are refused at once.
#[test]
fn ids_increase_after_moves_between_different_clocks() {
    let cluster = Emulated::start_with_clocks_of_their_own(2).with_shard();
    let mut clients: Vec<Client> = cluster.nodes.iter().map(Server::connect).collect();
    let mut ids = vec![];
    for round in 0..length(4, 60) {
        let source = cluster.node_of("insta5");
        let target = 3 - source;
        // The current node's clock is a minute ahead, and the coordinator's is sometimes a minute
        // behind: more than a move takes.
        cluster.nodes[source].set_clock(60.0);
        cluster.nodes[target].set_clock(0.0);
        cluster.nodes[0].set_clock([0.0, -60.0][round % 2]);
        ids.extend((0..50).map(|_| next_id(&mut clients[source])));
        ids.extend(column(&mut clients[source], INSERT));
        // In the middle of a transaction.
        run(&mut clients[source], ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"][round % 2]);
        ids.push(next_id(&mut clients[source]));
        cluster.move_schema("insta5", target);
        run(&mut clients[source], NOTICE);
        let text = is_refused(&mut clients[source], NEXT_ID, "55000");
        assert!(text.contains(&cluster.address(target).0), "{text}");
        run(&mut clients[source], "ROLLBACK");
        assert!(is_open(&cluster, source), "closed already, which refuses by itself");
        ids.push(next_id(&mut clients[target]));
        assert!(!is_open(&cluster, source), "open in two places");
        is_refused(&mut clients[source], NEXT_ID, "55000");
    }
    check_unique_and_increasing(&[ids]);
}

/// Only node 1 has its last value, which is an hour ahead of all clocks. If it is lost before
/// another node has read it, ids are refused on every node and at every attempt, until
/// `advance_shard` sets where to continue. Neither failed attempts and crashes change that, nor the
/// server of node 1, if it comes back in another group with an empty copy.
#[test]
fn lost_node_blocks_every_attempt() {
    let mut cluster = Emulated::start_with_shard(3);
    let mut ids = cluster.ids_an_hour_ahead(1);
    cluster.nodes[1].stop_at_once();
    // While the lost node is down but still in the cluster.
    for node in [2, 3, 2] {
        cluster.move_schema("insta5", node);
        for statement in [NEXT_ID, INSERT] {
            is_refused_on(&cluster, node, statement, "08000");
        }
    }
    cluster.remove(1);
    cluster.grow();
    for node in [4, 2, 0] {
        cluster.move_schema("insta5", node);
        for statement in [NEXT_ID, INSERT] {
            let text = is_refused_on(&cluster, node, statement, "55000");
            assert!(text.contains("group 1 ") && text.contains("advance_shard"), "{text}");
        }
        crash(&cluster, node);
        assert!([0, 2, 3, 4].into_iter().all(|node| !is_open(&cluster, node)));
    }
    cluster.nodes[1].launch();
    cluster.add(1);
    is_blocked(&cluster, &[3, 1, 4], 1);
    let given = ids[1] + 1000;
    ids.extend(advance_on(&cluster, 4, given));
    // No session could get a lower id when the copy was opened: the others record that it was
    // opened above this one.
    assert!(recorded_on(&cluster, 2) >= (given >> 23) << 10 | given & 1023);
    // From here on node 4 has the last value.
    ids.extend([2, 1].map(|node| next_after_move(&cluster, node)));
    check_unique_and_increasing(&[ids]);
}

/// The value with which a closed copy would continue.
fn recorded_on(cluster: &Emulated, node: usize) -> i64 {
    let query = "SELECT last_value - (1::bigint << 61) FROM insta5.table_id_seq";
    one(&mut cluster.session(node), query)
}

/// The server of the last holder is replaced by an empty one, with the same group. Its copy
/// answers, but is a new one. So ids are refused, on that node as well, until a call says where
/// they continue.
#[test]
fn new_copy_of_the_last_owner_blocks_takeover() {
    let cluster = Emulated::start_with_shard(2);
    let mut ids = vec![];
    for target in [2, 1] {
        ids.extend(cluster.ids_an_hour_ahead(1));
        let last = ids[ids.len() - 1];
        cluster.move_schema("insta5", target);
        let replace = "ALTER SEQUENCE insta5.table_id_seq RESTART";
        run(&mut cluster.nodes[1].connect(), replace);
        is_blocked(&cluster, &[target, 0, target], 1);
        // No row has the ids of an hour ahead.
        let recovered = one::<i64>(&mut cluster.nodes[target].connect(), "SELECT recover_shard(5)");
        assert!(recovered > last - (3600 << 33));
        ids.extend(advance_on(&cluster, target, last + 1000));
        ids.extend([2, 1].map(|node| next_after_move(&cluster, node)));
    }
    check_unique_and_increasing(&[ids]);
}

/// Something that prevents each takeover.
struct Obstacle<'a> {
    name: &'a str,
    /// A statement with which it begins in the session of the new node.
    first: &'a str,
    /// The error has one of these SQLSTATEs, and these texts.
    sqlstates: &'a [&'a str],
    texts: &'a [&'a str],
}

/// Checks that these nodes do not take the sequence over. They close nothing meanwhile: when the
/// schema moves back, node 1 continues.
#[track_caller]
fn check_closes_nothing(cluster: &Emulated, ids: &mut Vec<i64>, nodes: &[usize], of: &Obstacle) {
    let name = of.name;
    for &node in nodes {
        cluster.move_schema("insta5", node);
        for statement in [NEXT_ID, INSERT, AN_HOUR_AHEAD] {
            let mut new = cluster.nodes[node].connect();
            run(&mut new, of.first);
            let (code, text) = refusal(&mut new, statement);
            assert!(of.sqlstates.contains(&&*code), "{name}: {statement}: {code} {text}");
            let has_texts = of.texts.iter().all(|expected| text.contains(expected));
            assert!(has_texts, "{name}: {statement}: {text}");
        }
        assert!(is_open(cluster, 1), "{name}: closed for nothing");
    }
    ids.push(next_after_move(cluster, 1));
}

const NOT_REACHED: &[&str] = &["08000"];

/// Node 0 or node 3 is down: the first and the last node that are asked. A node that was disabled,
/// and was not the last to generate ids, is not asked any more.
fn nodes_that_are_down(cluster: &Emulated, ids: &mut Vec<i64>) {
    for down in [0, 3] {
        cluster.nodes[down].stop();
        let texts = [&*cluster.address(down).0];
        let name = "a node that is down";
        let obstacle = Obstacle { name, first: "", sqlstates: NOT_REACHED, texts: &texts };
        check_closes_nothing(cluster, ids, &[2], &obstacle);
        if down == 3 {
            cluster.disable(3);
            ids.push(next_after_move(cluster, 2));
            cluster.nodes[3].launch();
            cluster.activate(3);
            ids.extend([3, 1, 3, 1].map(|node| next_after_move(cluster, node)));
        } else {
            come_back(cluster, down);
        }
    }
}

/// On node 3 there is no copy to close: the functions that the others call are missing, as in an
/// older version, or the sequence is, or it is one of another role.
fn nodes_without_a_copy(cluster: &Emulated, ids: &mut Vec<i64>) {
    let mut third = cluster.nodes[3].connect();
    run(&mut third, "CREATE ROLE evil");
    let rename = |name: &str| {
        (
            format!(
                "ALTER EXTENSION instagram_id DROP FUNCTION {name}; ALTER FUNCTION {name} RENAME TO gone"
            ),
            format!(
                "ALTER FUNCTION gone RENAME TO {name}; ALTER EXTENSION instagram_id ADD FUNCTION {name}"
            ),
        )
    };
    let alter = |hide: &str, show: &str| {
        [hide, show].map(|change| format!("ALTER SEQUENCE insta5.{change}")).into()
    };
    let (outdated, missing) = ((&["08000", "55000"][..], ""), (NOT_REACHED, "Commit first"));
    let address = cluster.address(3).0;
    for ((begin, end), (sqlstates, cause)) in [
        (rename("_close_sequence"), outdated),
        (rename("_record_sequence_holder"), outdated),
        (alter("table_id_seq RENAME TO gone", "gone RENAME TO table_id_seq"), missing),
        (alter("table_id_seq OWNER TO evil", "table_id_seq OWNER TO postgres"), missing),
    ] {
        run(&mut third, &begin);
        let texts = [&*address, cause];
        let obstacle = Obstacle { name: &begin, first: "", sqlstates, texts: &texts };
        check_closes_nothing(cluster, ids, &[2, 0], &obstacle);
        run(&mut third, &end);
    }
}

/// A transaction that has altered the sequence does not take it over: its rollback would bring back
/// the closed copy, after the other nodes have recorded this one. Nor does a role that cannot
/// connect to the other nodes. After the takeover by another role it needs no other node.
fn sessions_that_must_not_take_over(cluster: &Emulated, ids: &mut Vec<i64>) {
    let altered = Obstacle {
        name: "an altered sequence",
        first: "BEGIN; ALTER SEQUENCE insta5.table_id_seq RESTART",
        sqlstates: &["55000"],
        texts: &["has altered the sequence"],
    };
    check_closes_nothing(cluster, ids, &[2], &altered);
    cluster.everywhere(
        "CREATE ROLE nobody; GRANT USAGE ON SCHEMA insta5 TO nobody;
         GRANT USAGE, UPDATE ON SEQUENCE insta5.table_id_seq TO nobody; GRANT INSERT, SELECT ON insta5.photos TO nobody",
    );
    let first = "SET ROLE nobody";
    let name = "a role that cannot connect";
    let role = Obstacle { name, first, sqlstates: NOT_REACHED, texts: &["nobody"] };
    check_closes_nothing(cluster, ids, &[2], &role);
    ids.push(next_after_move(cluster, 2));
    let mut nobody = cluster.nodes[2].connect();
    run(&mut nobody, first);
    ids.push(next_id(&mut nobody));
    ids.push(next_after_move(cluster, 1));
}

/// If the extension is not installed on a node, another role's function with the name of the
/// extension's function is not called there, not even when the command is planned.
fn functions_outside_the_extension(cluster: &Emulated, ids: &mut Vec<i64>) {
    let twins = "
        CREATE FUNCTION public._close_sequence(seq regclass, for_group int, attempt int, OUT next_value bigint, OUT last_holder int)
            IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM trap.spring(); next_value := 0; END';
        CREATE FUNCTION public._record_sequence_holder(seq regclass, for_group int, attempt int, floor bigint) RETURNS bool
            IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM trap.spring(); RETURN true; END';
        RESET ROLE;";
    let node = &cluster.nodes[3];
    install_traps(
        node,
        "RESET ROLE; DROP VIEW members; DROP EXTENSION instagram_id CASCADE; SET ROLE mallory;",
    );
    run(&mut node.connect(), &format!("SET ROLE mallory; {twins}"));
    let name = "functions outside the extension";
    let twins = Obstacle { name, first: "", sqlstates: &["08000", "55000"], texts: &[] };
    check_closes_nothing(cluster, ids, &[2], &twins);
    assert_eq!(roles_caught(node), [""; 0]);
}

/// A takeover that fails because of a node, a role or a session closes no copy. Without a move no
/// other node is needed.
#[test]
fn takeover_that_cannot_succeed_closes_no_copy() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = cluster.ids_an_hour_ahead(1);
    nodes_that_are_down(&cluster, &mut ids);
    nodes_without_a_copy(&cluster, &mut ids);
    sessions_that_must_not_take_over(&cluster, &mut ids);
    // From here on no takeover succeeds.
    functions_outside_the_extension(&cluster, &mut ids);
    cluster.remove(0);
    let name = "no coordinator";
    let texts = &["coordinator"];
    let removed = Obstacle { name, first: "", sqlstates: &["55000"], texts };
    check_closes_nothing(&cluster, &mut ids, &[2], &removed);
    [2, 3].into_iter().for_each(|node| cluster.nodes[node].stop());
    ids.push(next_on(&cluster, 1));
    ids.extend(column(&mut cluster.nodes[1].connect(), INSERT));
    check_unique_and_increasing(&[ids]);
}

/// The limit of [`six_writers_fail_together`].
const LIMIT: Duration = Duration::from_secs(4);

/// Six writers on node 2 wait for an attempt that fails. All of them fail with it, at most at the
/// limit, and name it. Returns the texts of the errors.
fn six_writers_fail_together(cluster: &Emulated) -> Vec<String> {
    let commands = cluster.commands(2);
    let barrier = Barrier::new(7);
    let texts = std::thread::scope(|scope| {
        let writer = || {
            let mut client = cluster.nodes[2].connect();
            let set = format!("SET instagram_id.take_over_timeout = '{}s'", LIMIT.as_secs());
            run(&mut client, &set);
            barrier.wait();
            let started = Instant::now();
            let text = is_refused(&mut client, INSERT, "08000");
            (started.elapsed(), text)
        };
        let writers: Vec<_> = (0..6).map(|_| scope.spawn(writer)).collect();
        barrier.wait();
        let event = if major() < 17 { "Extension" } else { "InstagramIdTakeOver" };
        cluster.nodes[2].wait_until(&format!(
            "SELECT count(*) >= 5 FROM pg_stat_activity WHERE query LIKE 'INSERT%' AND wait_event = '{event}'"
        ));
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        for (time, text) in &results {
            assert!(*time < 2 * LIMIT, "one after another: {time:?}: {text}");
        }
        results.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
    });
    assert_eq!(
        cluster.commands(2) - commands,
        3,
        "a single attempt, which asks three nodes once: {texts:?}"
    );
    let own = texts.iter().filter(|text| !text.contains("Another session")).count();
    assert!(own >= 1, "{texts:?}");
    texts
}

/// A third node accepts connections and never answers, or the answer to a command never comes.
/// Sessions that generate the first id after a move do not ask it one after another.
#[test]
fn sessions_that_wait_for_a_hanging_node_fail_together() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![next_on(&cluster, 1)];
    let hanging = cluster.nodes[3].hang();
    cluster.move_schema("insta5", 2);
    let address = cluster.address(3).0;
    // On a busy machine the time of a session that waits can end just before the attempt.
    let waited = |text: &String| text.contains("within 4 s") && text.contains("still taking");
    let texts = six_writers_fail_together(&cluster);
    assert!(texts.iter().any(|text| text.contains(&address)), "{texts:?}");
    assert!(texts.iter().all(|text| text.contains(&address) || waited(text)), "{texts:?}");
    assert_eq!(
        reason_on(&cluster, 2),
        "not taken over yet, last holder: group 1, group 3 unreachable"
    );
    assert!(is_open(&cluster, 1), "closed for nothing");
    drop(hanging);
    come_back(&cluster, 3);
    let pause = cluster.pause_after_commands(2, 3, "%");
    let (own, of_others): (Vec<_>, Vec<_>) =
        six_writers_fail_together(&cluster).into_iter().partition(|text| text.contains(&address));
    assert_eq!((own.len(), of_others.len()), (1, 5), "{own:?} {of_others:?}");
    assert!(own[0].contains("within 4 s"), "{own:?}");
    assert!(of_others.iter().all(waited), "{of_others:?}");
    assert_eq!(
        reason_on(&cluster, 2),
        "not taken over yet, last holder: group 1, attempt not completed"
    );
    drop(pause);
    // When the node answers, a single attempt is enough for all of them.
    cluster.restore_commands(2);
    let commands = cluster.commands(2);
    ids.extend(in_parallel(6, |_| next_on(&cluster, 2)));
    assert_eq!(cluster.commands(2) - commands, 3 * 3);
    assert_eq!(reason_on(&cluster, 2), "");
    ids[1..].sort_unstable();
    check_unique_and_increasing(&[ids]);
}

/// A session waits for another one, whose role cannot connect to the other nodes. It makes an
/// attempt of its own after that one has failed.
fn session_whose_role_cannot_connect_does_not_fail_others(cluster: &Emulated, ids: &mut Vec<i64>) {
    cluster.everywhere(
        "CREATE ROLE nologin; GRANT USAGE ON SCHEMA insta5 TO nologin;
         GRANT USAGE, UPDATE ON SEQUENCE insta5.table_id_seq TO nologin",
    );
    cluster.move_schema("insta5", 2);
    let mut session = cluster.nodes[2].connect();
    run(&mut session, "SET ROLE nologin");
    let pause = cluster.pause_commands(2, 0, "%");
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| is_refused(&mut session, NEXT_ID, "08000"));
        cluster.wait_for_pause(2);
        let other = scope.spawn(|| next_on(cluster, 2));
        cluster.nodes[2].wait_until(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%next_id()' AND wait_event_type = 'Extension')",
        );
        drop(pause);
        let text = refused.join().unwrap();
        assert!(text.contains("as role nologin"), "{text}");
        ids.push(other.join().unwrap());
    });
    cluster.restore_commands(2);
}

/// A session waits for another one, which waits for a lock before it asks any node. It does not
/// fail with an attempt that has failed before.
fn earlier_failure_does_not_fail_sessions_that_wait(cluster: &Emulated, ids: &mut Vec<i64>) {
    cluster.nodes[0].stop();
    cluster.move_schema("insta5", 1);
    let mut sessions = [(); 2].map(|()| cluster.nodes[1].connect());
    for session in &mut sessions {
        is_refused(session, NEXT_ID, "08000");
    }
    come_back(cluster, 0);
    let mut lock = cluster.nodes[1].connect();
    run(&mut lock, "BEGIN; LOCK TABLE pg_catalog.pg_dist_object");
    let mut later = std::thread::scope(|scope| {
        let waiting = sessions.each_mut().map(|session| scope.spawn(|| next_id(session)));
        cluster.nodes[1].wait_until(
            "SELECT count(*) = 2 AND count(*) FILTER (WHERE wait_event_type = 'Lock') = 1
             FROM pg_stat_activity WHERE query LIKE '%next_id()' AND wait_event_type IN ('Lock', 'Extension')",
        );
        std::thread::sleep(Duration::from_millis(1500));
        run(&mut lock, "COMMIT");
        waiting.map(|session| session.join().unwrap())
    });
    later.sort_unstable();
    ids.extend(later);
}

/// The limit of a session is its own: a statement that is canceled, or a shorter statement_timeout,
/// ends it earlier, and the next session makes an attempt of its own.
fn canceled_attempt_does_not_fail_other_sessions(cluster: &Emulated, ids: &mut Vec<i64>) {
    cluster.move_schema("insta5", 2);
    let pause = cluster.pause_commands(2, 0, "%");
    let mut hasty = cluster.nodes[2].connect();
    run(&mut hasty, "SET statement_timeout = '1s'");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| is_refused(&mut hasty, NEXT_ID, "57014"));
        cluster.wait_for_pause(2);
        let patient = scope.spawn(|| next_on(cluster, 2));
        first.join().unwrap();
        cluster.wait_for_pause(2);
        drop(pause);
        ids.push(patient.join().unwrap());
    });
    cluster.restore_commands(2);
    // No timer is left that would cancel a later statement.
    cluster.move_schema("insta5", 1);
    let mut worker = cluster.nodes[1].connect();
    run(&mut worker, "SET instagram_id.take_over_timeout = '2s'");
    ids.push(next_id(&mut worker));
    run(&mut worker, "SELECT pg_sleep(2.2)");
}

#[test]
fn attempt_of_a_session_does_not_fail_others() {
    let cluster = Emulated::start_with_shard(2);
    let mut ids = vec![next_on(&cluster, 1)];
    session_whose_role_cannot_connect_does_not_fail_others(&cluster, &mut ids);
    earlier_failure_does_not_fail_sessions_that_wait(&cluster, &mut ids);
    canceled_attempt_does_not_fail_other_sessions(&cluster, &mut ids);
    check_unique_and_increasing(&[ids]);
}

/// The reason in `id_shards` on a node; empty if ids can be generated there.
fn reason_on(cluster: &Emulated, node: usize) -> String {
    reason_in(&mut cluster.nodes[node].connect())
}

fn reason_in(client: &mut Client) -> String {
    let query = "SELECT coalesce(reason, '') FROM id_shards WHERE shard = 5 AND can_generate = (reason IS NULL)";
    texts(client, query).remove(0)
}

/// The view shows a shard that cannot generate ids because the node that was the last to do so is
/// unreachable.
#[test]
fn view_shows_shards_that_were_not_taken_over() {
    let cluster = Emulated::start_with_shard(3);
    assert_eq!(reason_on(&cluster, 1), "not taken over yet");
    let mut ids = vec![next_on(&cluster, 1)];
    let elsewhere =
        |node: usize| format!("placed on node {}:5432 (group {node})", cluster.address(node).0);
    for (node, reason) in [(0, elsewhere(1)), (1, String::new()), (2, elsewhere(1))] {
        assert_eq!(reason_on(&cluster, node), reason, "on node {node}");
    }
    let name = cluster.address(1).0;
    for node in [0, 2] {
        let mut client = cluster.nodes[node].connect();
        // Twice: state cached by the first call must not let the second call succeed.
        for way in WAYS.iter().chain(&WAYS) {
            let text = is_refused(&mut client, way, "55000");
            assert!(
                text.contains(&name) && text.contains("convert_defaults_to_triggers"),
                "{way}: {text}"
            );
        }
    }
    cluster.move_schema("insta5", 2);
    assert_eq!(reason_on(&cluster, 1), elsewhere(2));
    assert_eq!(reason_on(&cluster, 2), "not taken over yet, last holder: group 1");
    cluster.nodes[1].stop();
    is_refused_on(&cluster, 2, NEXT_ID, "08000");
    assert_eq!(reason_on(&cluster, 2), "not taken over yet, last holder: group 1 (unreachable)");
    cluster.nodes[1].launch();
    ids.push(next_on(&cluster, 2));
    assert_eq!(reason_on(&cluster, 2), "");
    // Drained and removed, without take_over_shards().
    cluster.move_schema("insta5", 3);
    cluster.disable(2);
    assert_eq!(reason_on(&cluster, 3), "not taken over yet, last holder: group 2 (unreachable)");
    // With the setting, ids continue without a node that was removed, not without a disabled one.
    let mut continuing = cluster.nodes[3].connect();
    run(&mut continuing, "SET instagram_id.continue_without_lost_nodes = on");
    let reason = reason_in(&mut continuing);
    assert_eq!(reason, "not taken over yet, last holder: group 2 (unreachable)");
    cluster.remove(2);
    assert_eq!(reason_on(&cluster, 3), "not taken over yet, last holder: group 2 (unreachable)");
    let reason = reason_in(&mut continuing);
    assert_eq!(reason, "not taken over yet, last holder: group 2 (removed)");
    is_refused_on(&cluster, 3, NEXT_ID, "55000");
    assert_eq!(reason_on(&cluster, 3), "not taken over yet, last holder: group 2 (unreachable)");
    ids.push(one(&mut cluster.nodes[3].connect(), "SELECT recover_shard(5)"));
    assert_eq!(reason_on(&cluster, 3), "");
    ids.push(next_on(&cluster, 3));
    check_unique_and_increasing(&[ids]);
}

/// A node whose copy is locked, by a transaction that may wait for the new node, fails before the
/// time is over.
fn locked_copy_fails_takeover_before_the_time_is_over(cluster: &Emulated, ids: &mut Vec<i64>) {
    let mut ddl = cluster.nodes[1].connect();
    run(&mut ddl, "BEGIN; ALTER SEQUENCE insta5.table_id_seq OWNED BY NONE");
    cluster.decide_move("insta5", Some(0));
    cluster.announce(0);
    let mut new = cluster.nodes[0].connect();
    run(&mut new, "SET statement_timeout = '100s'");
    let text = is_refused(&mut new, NEXT_ID, "08000");
    assert!(text.contains(&cluster.address(1).0) && text.contains("lock timeout"), "{text}");
    run(&mut ddl, "COMMIT");
    ids.push(next_id(&mut new));
}

/// A command fails after some nodes have run it, or its result is lost: ids continue above all
/// others on either node.
#[test]
fn ids_increase_after_a_failed_attempt() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![];
    for (command, fault, node) in [
        (CLOSING, Fault::Refuse, 0),
        (CLOSING, Fault::Refuse, 3),
        (CLOSING, Fault::Lose, 0),
        (CLOSING, Fault::Lose, 1),
        (CLOSING, Fault::Lose, 3),
        (RECORDING, Fault::Refuse, 0),
    ] {
        ids.push(next_on(&cluster, 1));
        cluster.break_commands(2, node, command, fault);
        cluster.move_schema("insta5", 2);
        is_refused_on(&cluster, 2, NEXT_ID, "08000");
        assert!(!is_open(&cluster, 2));
        // In the rounds with node 3 the new node completes the takeover before the schema moves
        // back.
        if node == 3 {
            cluster.restore_commands(2);
            ids.push(next_on(&cluster, 2));
        }
        ids.push(next_after_move(&cluster, 1));
        cluster.restore_commands(2);
    }
    check_unique_and_increasing(&[ids]);
}

/// Work that may be refused on this node, or end at the deadline because nodes take the sequence
/// over from each other. Notes in `has_ids` that one was not refused.
fn or_refused(work: Work, has_ids: &Arc<AtomicBool>) -> Work {
    let has_ids = has_ids.clone();
    Box::new(move |client, received| match work(client, received) {
        Err(error)
            if error.code().is_some_and(|code| ["55000", "08000"].contains(&code.code())) =>
        {
            client.batch_execute("ROLLBACK")
        }
        result => {
            has_ids.fetch_or(result.is_ok(), Ordering::Relaxed);
            result
        }
    })
}

/// Sessions on every node generate ids while the schema moves back and forth, and at last while two
/// nodes act as its owner, which Citus prevents. Sessions on other nodes are refused.
#[test]
fn moves_under_load_repeat_no_ids() {
    let cluster = Emulated::start_with_shard(2);
    let mut journal =
        Journal::new("Emulated Citus: ids on every node while the schema moves", Clock::IN_STEP);
    let (next, has_ids) = (AtomicUsize::new(0), Arc::default());
    let connect = || cluster.nodes[next.fetch_add(1, Ordering::Relaxed) % 3].try_connect();
    let work = [
        query(NEXT_ID),
        query("SELECT next_ids(5, 1000)"),
        query(INSERT),
        query(format!("BEGIN; {NEXT_ID}; {NEXT_ID}; COMMIT")),
    ]
    .map(|work| or_refused(work, &has_ids));
    let (received, ()) = under_load(connect, 6, &work, || {
        for round in 0..length(6, 60) {
            let target = [2, 1, 0][round % 3];
            cluster.decide_move("insta5", Some(target));
            // The nodes receive the commit in another order each time, with time in between.
            for node in 0..3 {
                cluster.announce((node + round) % 3);
                std::thread::sleep(Duration::from_millis(150));
            }
            journal.faults += 1;
        }
        // Node 0 has the schema, also by its own catalogs.
        cluster.decide_move("insta5", Some(2));
        cluster.announce(2);
        std::thread::sleep(length(Duration::from_secs(2), Duration::from_secs(60)));
        // On a busy machine each node may take the sequence over before the other one has an id.
        cluster.nodes[0].wait_for("ids", || has_ids.load(Ordering::Relaxed));
    });
    journal.add(received);
    journal.check();
}

/// The nodes receive the commit of a move one after another. The trigger generates ids on the node
/// that stores the row, before that node has received the commit. A session on the former node that
/// has not received the commit takes the sequence back, and continues above all ids.
#[test]
fn ids_increase_when_nodes_receive_the_move_late() {
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
    // The new node receives the commit last.
    is_refused(&mut connect(1), NEXT_ID, "55000");
    is_refused(&mut connect(2), NEXT_ID, "55000");
    ids.extend(column(&mut connect(2), INSERT));
    cluster.announce(2);
    ids.push(next_id(&mut connect(2)));
    // The former node receives the commit last.
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

/// Lets the nodes continue without lost nodes, in sessions from now on.
fn set_continue(cluster: &Emulated) {
    cluster.everywhere("ALTER DATABASE postgres SET instagram_id.continue_without_lost_nodes = on");
}

/// With the setting, a node that has no part in a move does not stop ids, whether it is down or
/// hangs. They continue above the ids of the last holder, at once and without a margin.
#[test]
fn third_node_does_not_block_takeover_with_the_setting() {
    let cluster = Emulated::start_with_shard(4);
    let mut ids = cluster.ids_an_hour_ahead(1);
    set_continue(&cluster);
    cluster.nodes[3].stop();
    cluster.move_schema("insta5", 2);
    ids.extend(column(&mut cluster.nodes[2].connect(), INSERT));
    let gap = (ids[2] >> 23) - (ids[1] >> 23);
    assert!(gap < 1000, "{gap} ms, as after the loss of the last holder");
    come_back(&cluster, 3);
    // There is time left after two that hang.
    let hanging = [3, 4].map(|node| cluster.nodes[node].hang());
    cluster.decide_move("insta5", Some(1));
    (0..3).for_each(|node| cluster.announce(node));
    let mut worker = cluster.nodes[1].connect();
    run(&mut worker, "SET instagram_id.take_over_timeout = '8s'");
    ids.push(next_id(&mut worker));
    drop(hanging);
    [3, 4].into_iter().for_each(|node| come_back(&cluster, node));
    // Those nodes, which do not know the last holder, take part again.
    ids.extend([3, 4, 0, 2].map(|node| next_after_move(&cluster, node)));
    check_unique_and_increasing(&[ids]);
}

/// The setting does not allow an attempt without the coordinator, or without an owner that could
/// return: one that is unreachable or disabled.
#[test]
fn coordinator_and_last_owner_are_needed_with_the_setting() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = cluster.ids_an_hour_ahead(1);
    set_continue(&cluster);
    let advance = format!("SELECT advance_shard(5, {})", ids[1]);
    for down in [0, 1] {
        cluster.nodes[down].stop();
        cluster.move_schema("insta5", 2);
        let address = cluster.address(down).0;
        for statement in [NEXT_ID, INSERT, &advance, "SELECT recover_shard(5)"] {
            let text = is_refused_on(&cluster, 2, statement, "08000");
            assert!(text.contains(&address), "{statement}: {text}");
        }
        assert!(!is_open(&cluster, 2));
        if down == 1 {
            cluster.disable(1);
            for (statement, hint) in [
                (NEXT_ID, "Activate that node again"),
                ("SELECT recover_shard(5)", "citus_activate_node"),
            ] {
                let text = is_refused_on(&cluster, 2, statement, "55000");
                assert!(text.contains(hint), "{statement}: {text}");
            }
            assert!(!is_open(&cluster, 2));
            cluster.nodes[down].launch();
            cluster.activate(1);
        } else {
            cluster.nodes[down].launch();
        }
        cluster.announce(down);
    }
    ids.push(next_on(&cluster, 2));
    // A node that answers with an error, or does not answer a command, is not lost.
    cluster.move_schema("insta5", 1);
    cluster.break_commands(1, 3, r"%pg\_extension%", Fault::Lose);
    is_refused_on(&cluster, 1, NEXT_ID, "08000");
    cluster.restore_commands(1);
    let mut third = cluster.nodes[3].connect();
    run(&mut third, "ALTER SEQUENCE insta5.table_id_seq RENAME TO gone");
    is_refused_on(&cluster, 1, NEXT_ID, "08000");
    run(&mut third, "ALTER SEQUENCE insta5.gone RENAME TO table_id_seq");
    ids.push(next_on(&cluster, 1));
    no_node_is_left_out_without_the_record_of_the_coordinator(&cluster, &mut ids);
    check_unique_and_increasing(&[ids]);
}

/// Two schemas exchange their names, and the node that takes a sequence over has not received this
/// yet. It closes the copies of this sequence, not those with its name.
#[test]
fn schemas_exchange_their_names_during_takeover() {
    let cluster = Emulated::start_with_shard(2);
    cluster.create(&SHARD_WITH_TRIGGER.replace('5', "6"));
    cluster.distribute("insta6", 1);
    // Only node 1 knows these.
    let mut ids = vec![next_on(&cluster, 1)];
    ids.extend(cluster.ids_an_hour_ahead(1));
    let next_of_6 = || one(&mut cluster.nodes[1].connect(), "SELECT next_id(6)");
    let mut ids_of_6 = vec![next_of_6()];
    cluster.move_schema("insta5", 2);
    let exchange = || {
        for node in [0, 1] {
            let mut client = cluster.nodes[node].connect();
            run(
                &mut client,
                "ALTER SCHEMA insta5 RENAME TO other; ALTER SCHEMA insta6 RENAME TO insta5;
                     ALTER SCHEMA other RENAME TO insta6",
            );
        }
    };
    exchange();
    ids.push(next_on(&cluster, 2));
    assert!(ids.is_sorted(), "{ids:?}");
    let is_open = "SELECT is_called FROM insta5.table_id_seq"; // of shard 6
    assert!(one::<bool>(&mut cluster.nodes[1].connect(), is_open));
    ids_of_6.push(next_of_6());
    exchange();
    ids.extend([0, 1].map(|node| next_after_move(&cluster, node)));
    check_unique_and_increasing(&[ids, ids_of_6]);
}

/// If `nextval` has overwritten the record of the coordinator, a node is not left out: nodes that
/// were left out before do not know the last holder.
fn no_node_is_left_out_without_the_record_of_the_coordinator(
    cluster: &Emulated,
    ids: &mut Vec<i64>,
) {
    ids.push(next_after_move(cluster, 0));
    cluster.nodes[2].stop();
    ids.push(next_after_move(cluster, 3));
    ids.extend(cluster.ids_an_hour_ahead(3));
    cluster.nodes[2].launch();
    run(&mut cluster.nodes[0].connect(), "SELECT nextval('insta5.table_id_seq')");
    for down in [1, 3] {
        cluster.nodes[down].stop();
    }
    cluster.move_schema("insta5", 2);
    for _ in 0..2 {
        is_refused_on(cluster, 2, NEXT_ID, "08000");
    }
    for down in [1, 3] {
        come_back(cluster, down);
    }
    ids.push(next_on(cluster, 2));
}

/// With the setting, ids continue by themselves after the last holder was removed: above its ids in
/// the tables, which can be hours ahead, and above those in no table, although its clock was half a
/// minute ahead of the others. Without the setting they do not.
#[test]
fn ids_continue_without_a_removed_owner_with_the_setting() {
    let cluster = Emulated::start_with_clocks_of_their_own(3).with_shard();
    cluster.nodes[1].set_clock(30.0);
    let mut ids = vec![next_on(&cluster, 1)];
    cluster.move_schema("insta5", 2);
    lose(&cluster, 1);
    is_refused_on(&cluster, 2, NEXT_ID, "55000");
    set_continue(&cluster);
    let mut new = cluster.nodes[2].connect();
    // An attempt that is canceled after it has recorded where ids continue does not make the next
    // one continue a minute later.
    let cancel = new.cancel_token();
    let pause = cluster.pause_commands(2, 0, RECORDING);
    let canceled = || is_refused(&mut new, NEXT_ID, "57014");
    in_pause((&cluster, 2, pause), canceled, || cancel.cancel_query(NoTls).unwrap());
    ids.extend(column(&mut new, INSERT));
    let ahead = lead(&mut new, ids[1]);
    assert!((55.0..=60.1).contains(&ahead), "{ahead} s ahead");
    let warning = "sequence insta5.table_id_seq continues without its last holder";
    assert_eq!(cluster.nodes[2].log().matches(warning).count(), 1);
    // The second owner is lost right after the first, with the clock behind: its ids in no table
    // are above the clock by the margin.
    ids.push(next_id(&mut new));
    cluster.nodes[3].set_clock(-20.0);
    cluster.nodes[0].set_clock(-20.0);
    cluster.move_schema("insta5", 3);
    lose(&cluster, 2);
    ids.push(next_on(&cluster, 3));
    // The third one has an id in a table, hours ahead.
    let mut third = cluster.nodes[3].connect();
    let hours = "SELECT advance_shard(5, make_id(now() + interval '5 hours', 5, 0))";
    let in_row: i64 = one(&mut third, hours);
    ids.push(in_row);
    cluster.move_schema("insta5", 0);
    let mut coordinator = cluster.nodes[0].connect();
    run(&mut coordinator, &format!("INSERT INTO insta5.photos VALUES ({in_row}, 1)"));
    lose(&cluster, 3);
    assert_eq!(taken_over(&mut coordinator), [(5, None)]);
    ids.push(next_id(&mut coordinator));
    let margin = (ids[ids.len() - 1] >> 23) - (in_row >> 23);
    assert!((60_000..60_100).contains(&margin), "{margin} ms above the table");
    check_unique_and_increasing(&[ids]);
}

/// The rows of a distributed table are in another table, its Citus shard. That is read after the
/// loss of a node, and not its indexes, whose names end in the same number.
#[test]
fn recovery_reads_the_tables_that_store_the_rows() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![next_on(&cluster, 1)];
    for (lost, new, hours) in [(1, 2, 2), (2, 3, 4)] {
        cluster.move_schema("insta5", new);
        let mut client = cluster.nodes[new].connect();
        let of_citus = format!(
            "CREATE OR REPLACE FUNCTION pg_catalog.relation_is_a_known_shard(regclass) RETURNS bool
                 LANGUAGE sql STABLE RETURN $1::text ~ '_102001$';
             CREATE TABLE insta5.photos_102001 (id bigint CONSTRAINT photos_pkey_102001 PRIMARY KEY, batch bigint);
             INSERT INTO insta5.photos_102001 VALUES (make_id(now() + interval '{hours} hours', 5, 0))"
        );
        run(&mut client, &of_citus);
        let in_row: i64 = one(&mut client, "SELECT id FROM insta5.photos_102001");
        ids.push(in_row);
        lose(&cluster, lost);
        if lost == 1 {
            assert_eq!(one::<i64>(&mut client, "SELECT recover_shard(5)"), in_row);
        } else {
            set_continue(&cluster);
        }
        ids.push(next_on(&cluster, new));
    }
    check_unique_and_increasing(&[ids]);
}

/// A node whose catalogs name it as the owner, but not those of the coordinator, does not continue.
/// Nor is there another way around the coordinator: a removed node, which comes back with its open
/// copy, has another group.
#[test]
fn owner_by_the_coordinator_continues_with_the_setting() {
    let cluster = Emulated::start_with_shard(3);
    set_continue(&cluster);
    let mut ids = cluster.ids_an_hour_ahead(1);
    cluster.decide_move("insta5", Some(3));
    cluster.announce(3);
    cluster.move_schema("insta5", 2);
    let row = format!("INSERT INTO insta5.photos VALUES ({}, 1)", ids[1]);
    run(&mut cluster.nodes[2].connect(), &row);
    lose(&cluster, 1);
    // Node 3 has received the removal, but not the second move.
    cluster.decide_move("insta5", Some(3));
    cluster.announce(3);
    cluster.decide_move("insta5", Some(2));
    for statement in [NEXT_ID, INSERT] {
        let text = is_refused_on(&cluster, 3, statement, "55000");
        assert!(text.contains("group 1"), "{text}");
    }
    ids.push(next_on(&cluster, 2));
    cluster.announce(3);
    cluster.nodes[1].launch();
    cluster.add(1);
    ids.push(next_after_move(&cluster, 1));
    check_unique_and_increasing(&[ids]);
}

/// The tables are read for every role that may generate ids, and only if their owners have UPDATE
/// on the sequence. The keys of another role have no effect, and no code of an owner runs. A role
/// that generates ids cannot choose the setting.
#[test]
fn tables_of_other_roles_are_not_read_with_the_setting() {
    let cluster = Emulated::start_with_shard(2);
    cluster.everywhere(APP);
    cluster.everywhere(
        "CREATE ROLE keeper LOGIN; GRANT UPDATE ON SEQUENCE insta5.table_id_seq TO keeper",
    );
    let mut ids = vec![next_on(&cluster, 1)];
    cluster.move_schema("insta5", 2);
    // Nor before the session has loaded the library, when PostgreSQL does not know the setting.
    let mut app = cluster.connect_as(2, "app");
    let set = "SET instagram_id.continue_without_lost_nodes = on";
    run(&mut app, set);
    run(&mut app, "SELECT instagram_id_version()");
    is_refused(&mut app, set, "42501");
    assert_eq!(texts(&mut app, "SHOW instagram_id.continue_without_lost_nodes"), ["off"]);
    install_traps(&cluster.nodes[2], "");
    let mut root = cluster.nodes[2].connect();
    let grant = "GRANT USAGE, CREATE ON SCHEMA insta5 TO mallory, keeper";
    run(&mut root, grant);
    let hours = |hours: i64| format!("make_id(now() + interval '{hours} hours', 5, 0)");
    for (role, ahead) in [("mallory", hours(20)), ("keeper", hours(2))] {
        // A planner would evaluate the predicate of the index.
        let table = format!(
            "CREATE FUNCTION insta5.{role}(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql
                 AS 'BEGIN PERFORM trap.spring(), set_config(''search_path'', ''trap'', false); RETURN n; END';
             CREATE TABLE insta5.of_{role} (id bigint DEFAULT insta5.next_id());
             INSERT INTO insta5.of_{role} VALUES ({ahead});
             CREATE INDEX ON insta5.of_{role} (id) WHERE insta5.{role}(5) > 4"
        );
        run(&mut cluster.connect_as(2, role), &table);
    }
    run(
        &mut root,
        "ALTER TABLE insta5.of_mallory ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         DELETE FROM trap.caught",
    );
    lose(&cluster, 1);
    set_continue(&cluster);
    let mut app = cluster.connect_as(2, "app");
    ids.push(next_id(&mut app));
    let ahead = lead(&mut root, ids[1]) / 3600.0;
    assert!((2.0..2.1).contains(&ahead), "{ahead} hours ahead");
    assert_eq!(roles_caught(&cluster.nodes[2]), [""; 0]);
    let state = "SELECT current_user || ' ' || current_setting('search_path')";
    assert_eq!(texts(&mut app, state), ["app \"$user\", public"]);
    check_unique_and_increasing(&[ids]);
}

const SEVERAL: std::ops::Range<i32> = 10..15;

/// Several shards with tables, placed on node 1, which has taken them over.
fn start_with_new_shards(workers: usize) -> (Emulated, Client) {
    let cluster = Emulated::start(workers);
    let create = SEVERAL.map(|shard| SHARD_WITH_TRIGGER.replace('5', &shard.to_string()));
    cluster.create(&create.collect::<Vec<_>>().join(";"));
    cluster.distribute_together(schemas(), 1);
    let mut worker = cluster.nodes[1].connect();
    assert_eq!(taken_over(&mut worker), all_taken_over());
    (cluster, worker)
}

/// The same, and an id of each, an hour ahead.
fn start_with_several_shards(workers: usize) -> (Emulated, Vec<Vec<i64>>) {
    let (cluster, mut worker) = start_with_new_shards(workers);
    let advance = |shard: i32| AN_HOUR_AHEAD.replace('5', &shard.to_string());
    let ids = SEVERAL.map(|shard| vec![one(&mut worker, &advance(shard))]).collect();
    (cluster, ids)
}

fn schemas() -> impl Iterator<Item = String> {
    SEVERAL.map(|shard| format!("insta{shard}"))
}

type Reasons = Vec<(i32, Option<String>)>;

/// The shards that `take_over_shards` returns, with the reasons.
fn taken_over(client: &mut Client) -> Reasons {
    reasons(client, "take_over_shards()")
}

/// The same after the loss of a node.
fn recovered(client: &mut Client) -> Reasons {
    reasons(client, "take_over_shards(recover => true)")
}

fn reasons(client: &mut Client, call: &str) -> Reasons {
    let rows = client.query(&format!("SELECT shard, reason FROM {call}"), &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// The result if all of them have been taken over.
fn all_taken_over() -> Reasons {
    SEVERAL.map(|shard| (shard, None)).collect()
}

/// Checks that all but one of them have been taken over, and that the reason of this one contains a
/// text.
#[track_caller]
fn check_all_but_one(mut taken_over: Reasons, shard: i32, text: &str) {
    let place = taken_over.iter().position(|(number, _)| *number == shard).unwrap();
    let reason = taken_over[place].1.take();
    assert!(reason.as_ref().is_some_and(|reason| reason.contains(text)), "{reason:?}");
    assert_eq!(taken_over, all_taken_over());
}

fn next_of_several(client: &mut Client, ids: &mut [Vec<i64>]) {
    for (shard, ids) in SEVERAL.zip(ids) {
        ids.push(one(client, &format!("SELECT next_id({shard})")));
    }
}

fn move_several(cluster: &Emulated, to: usize) {
    cluster.move_together(schemas(), to);
}

/// After the loss of a node its shards are recovered together, with two commands to each other node
/// that find this, and three that continue them. A shard that cannot be recovered is returned with
/// the reason, and all others are recovered.
#[test]
fn shards_of_a_lost_node_are_recovered_together() {
    let (cluster, mut worker) = start_with_new_shards(3);
    let mut ids = vec![vec![]; SEVERAL.len()];
    next_of_several(&mut worker, &mut ids);
    cluster.everywhere(
        "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA insta13, insta14 TO app;
         GRANT UPDATE ON SEQUENCE insta13.table_id_seq TO app; GRANT SELECT, USAGE ON SEQUENCE insta14.table_id_seq TO app",
    );
    move_several(&cluster, 2);
    lose(&cluster, 1);
    let mut new = cluster.nodes[2].connect();
    // One has an id that is two hours ahead, another one a key of the day after tomorrow.
    let two_hours: i64 = one(&mut new, "SELECT make_id(now() + interval '2 hours', 11, 0)");
    run(
        &mut new,
        &format!(
            "INSERT INTO insta11.photos VALUES ({two_hours});
         INSERT INTO insta12.photos VALUES (make_id(now() + interval '2 days', 12, 0))"
        ),
    );
    ids[1].push(two_hours);
    let refused = taken_over(&mut new);
    assert_eq!(refused.len(), 5, "{refused:?}");
    for (_, reason) in refused {
        assert!(reason.as_ref().is_some_and(|reason| reason.contains("group 1")), "{reason:?}");
    }
    assert_eq!(cluster.commands(2), 2 * 2, "two to each node, for all of them");
    // A role recovers only what it could recover with recover_shard().
    let reasons = recovered(&mut cluster.connect_as(2, "app"));
    let of = |shard: i32| reasons.iter().find(|(of, _)| *of == shard).unwrap().1.clone();
    assert!(of(13).is_some_and(|reason| reason.contains("table insta13.photos")), "{reasons:?}");
    assert!(
        of(14).is_some_and(|reason| reason.contains("sequence insta14.table_id_seq")),
        "{reasons:?}"
    );
    // Only the node that owns a shard recovers it, and only once.
    let recover = |node: usize| -> Option<i64> {
        one(&mut cluster.session(node), "SELECT recover_shard(11)")
    };
    assert_eq!([0, 3].map(recover), [None; 2]);
    let commands = cluster.commands(2);
    check_all_but_one(recovered(&mut new), 12, "is ahead of the clock");
    assert_eq!(cluster.commands(2) - commands, (2 + 3) * 2);
    run(&mut new, "DELETE FROM insta12.photos");
    assert_eq!(recovered(&mut new), [(12, None)]);
    assert_eq!(recovered(&mut new), []);
    assert_eq!(recover(2), None);
    next_of_several(&mut new, &mut ids);
    // Above lost ids, although the clock of the lost node may have been ahead.
    let ahead = lead(&mut new, ids[0][1]);
    assert!((40.0..=60.1).contains(&ahead), "{ahead} s ahead");
    check_unique_and_increasing(&ids);
}

/// `take_over_shards` takes over the sequences of all shards that are now placed on its node, with
/// three commands to each other node. A shard that cannot be taken over is returned with the
/// reason, and all others are taken over.
#[test]
fn shards_are_taken_over_together() {
    let (cluster, mut ids) = start_with_several_shards(3);
    cluster.create("SELECT create_shard(99)"); // not distributed
    let mut new = cluster.nodes[2].connect();
    assert_eq!(taken_over(&mut new), []);
    // A node that cannot be reached is not asked again for each shard.
    cluster.nodes[3].stop();
    move_several(&cluster, 2);
    let refused = taken_over(&mut new);
    assert_eq!(refused.len(), 5, "{refused:?}");
    let address = cluster.address(3).0;
    for (_, reason) in refused {
        assert!(reason.as_ref().is_some_and(|reason| reason.contains(&address)), "{reason:?}");
    }
    assert_eq!(cluster.commands(2), 3, "a single attempt, which asks three nodes once");
    come_back(&cluster, 3);
    assert_eq!(taken_over(&mut new), all_taken_over());
    let commands = 3 + 3 * 3;
    assert_eq!(cluster.commands(2), commands);
    assert_eq!(taken_over(&mut new), []);
    assert_eq!(taken_over(&mut cluster.nodes[1].connect()), []);
    next_of_several(&mut new, &mut ids);
    assert_eq!(cluster.commands(2), commands, "ids need no other node");
    // On node 3 a sequence is lost.
    run(&mut cluster.nodes[3].connect(), "DROP SEQUENCE insta12.table_id_seq CASCADE");
    move_several(&cluster, 1);
    let mut old = cluster.nodes[1].connect();
    check_all_but_one(taken_over(&mut old), 12, "does not exist there");
    assert_eq!(taken_over(&mut old).len(), 1);
    cluster.move_schema("insta12", 2);
    ids[2].push(one(&mut new, "SELECT next_id(12)"));
    ids.remove(2);
    for (shard, ids) in SEVERAL.filter(|shard| *shard != 12).zip(&mut ids) {
        ids.push(one(&mut old, &format!("SELECT next_id({shard})")));
    }
    check_unique_and_increasing(&ids);
}

/// Another node takes one of the sequences over in the meantime, at whichever step, and continues
/// from it. Only this sequence needs a second attempt.
#[test]
fn one_of_the_shards_that_are_taken_over_together_is_overtaken() {
    let (cluster, mut ids) = start_with_several_shards(3);
    for (pause, node, command) in
        [(BEFORE, 0, CLOSING), (BEFORE, 0, RECORDING), (AFTER, 3, RECORDING)]
    {
        // Node 3 has not received that shard 13 is placed on node 2.
        cluster.move_schema("insta13", 3);
        schemas().for_each(|schema| cluster.decide_move(&schema, Some(2)));
        [0, 1, 2].into_iter().for_each(|node| cluster.announce(node));
        let commands = cluster.commands(2);
        let pause = pause(&cluster, 2, node, command);
        let together = || taken_over(&mut cluster.nodes[2].connect());
        let result = in_pause((&cluster, 2, pause), together, || {
            let mut faster = cluster.nodes[3].connect();
            ids[3].push(one(&mut faster, "SELECT next_id(13)"));
            let two_hours = "SELECT advance_shard(13, make_id(now() + interval '2 hours', 13, 0))";
            ids[3].push(one(&mut faster, two_hours));
        });
        assert_eq!(result, all_taken_over());
        assert_eq!(cluster.commands(2) - commands, 2 * 3 * 3, "all together, and one again");
        SEVERAL
            .for_each(|shard| assert!(is_open_of(&cluster, 2, shard), "shard {shard} is closed"));
        next_of_several(&mut cluster.nodes[2].connect(), &mut ids);
        // Back to node 1 for the next round.
        move_several(&cluster, 1);
        next_of_several(&mut cluster.nodes[1].connect(), &mut ids);
    }
    check_unique_and_increasing(&ids);
}

/// Between two steps of this node, another one closes the copies of a sequence for an attempt of
/// its own, and then cannot reach this node. No node has recorded this node as the owner, so it
/// makes another attempt before it generates ids.
#[test]
fn node_that_is_not_recorded_generates_no_ids() {
    let (cluster, _) = start_with_several_shards(3);
    cluster.move_schema("insta13", 3);
    schemas().for_each(|schema| cluster.decide_move(&schema, Some(2)));
    [0, 1, 2].into_iter().for_each(|node| cluster.announce(node));
    cluster.break_commands(3, 2, CLOSING, Fault::Refuse);
    let pause = cluster.pause_commands(2, 0, RECORDING);
    let together = || taken_over(&mut cluster.nodes[2].connect());
    let result = in_pause((&cluster, 2, pause), together, || {
        is_refused_on(&cluster, 3, "SELECT next_id(13)", "08000");
    });
    assert_eq!(result, all_taken_over());
    one::<i64>(&mut cluster.nodes[2].connect(), &AN_HOUR_AHEAD.replace('5', "13"));
    cluster.restore_commands(3);
    lose(&cluster, 2);
    cluster.move_schema("insta13", 3);
    is_refused_on(&cluster, 3, "SELECT next_id(13)", "55000");
}

/// The result of a command is lost, or the node crashes, while sequences are taken over together.
#[test]
fn shards_are_taken_over_together_after_a_failed_attempt() {
    let (cluster, mut ids) = start_with_several_shards(2);
    let mut owner = 1;
    for (command, lost_on) in [(CLOSING, 1), (RECORDING, 0)] {
        let new = 3 - owner;
        let node = if lost_on == 0 { 0 } else { owner };
        cluster.break_commands(new, node, command, Fault::Lose);
        move_several(&cluster, new);
        let refused = taken_over(&mut cluster.nodes[new].connect());
        assert!(
            refused.len() == 5 && refused.iter().all(|(_, reason)| reason.is_some()),
            "{refused:?}"
        );
        cluster.restore_commands(new);
        let pause = cluster.pause_commands(new, node, command);
        let query = "SELECT * FROM take_over_shards()";
        let together = || is_cut_off(&mut cluster.nodes[new].connect(), query);
        assert!(in_pause((&cluster, new, pause), together, || crash(&cluster, new)));
        assert_eq!(taken_over(&mut cluster.nodes[new].connect()), all_taken_over());
        next_of_several(&mut cluster.nodes[new].connect(), &mut ids);
        owner = new;
    }
    check_unique_and_increasing(&ids);
}

/// Shards of other roles, among those that are taken over together: one whose sequence has no
/// copies, but the name of a sequence on the coordinator; one with a temporary sequence; and one
/// whose sequence is locked. The first and the second have no effect on other sequences, and the
/// third is returned with the reason.
#[test]
fn shards_of_other_roles_do_not_hinder_those_that_are_taken_over_together() {
    let (cluster, mut ids) = start_with_several_shards(2);
    let mut coordinator = cluster.nodes[0].connect();
    run(&mut coordinator, "SELECT create_shard(5)");
    let mut local = vec![next_id(&mut coordinator)];
    let mut new = cluster.nodes[2].connect();
    for node in &cluster.nodes {
        run(&mut node.connect(), "CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory;
             ALTER SCHEMA insta11 OWNER TO mallory; ALTER SEQUENCE insta11.table_id_seq OWNER TO mallory;
             ALTER FUNCTION insta11.shard_11() OWNER TO mallory");
    }
    let mut mallory = cluster.connect_as(2, "mallory");
    run(&mut mallory, "SELECT create_shard(5); SELECT _close_sequence('insta5.table_id_seq', 1, 1);
             CREATE SCHEMA temporary; CREATE TEMP SEQUENCE ids;
             CREATE FUNCTION temporary.shard_0(OUT sequence regclass, OUT epoch timestamptz, OUT home text) BEGIN ATOMIC
                 SELECT 'pg_temp.ids'::regclass, '2011-08-24 21:07:01.721+00'::timestamptz, 'x'; END");
    move_several(&cluster, 2);
    run(&mut mallory, "BEGIN; ALTER SEQUENCE insta11.table_id_seq RENAME TO ids");
    let mut taken = taken_over(&mut new);
    assert_eq!(taken.remove(0), (5, None));
    check_all_but_one(taken, 11, "lock timeout");
    run(&mut mallory, "ROLLBACK");
    // Another node waits no longer for the lock than this one.
    let mut elsewhere = cluster.connect_as(1, "mallory");
    run(&mut elsewhere, "BEGIN; ALTER SEQUENCE insta11.table_id_seq RENAME TO ids");
    let began = Instant::now();
    let reason = taken_over(&mut new).pop().unwrap().1.unwrap();
    assert!(reason.contains("lock timeout"), "{reason}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    run(&mut elsewhere, "ROLLBACK");
    assert_eq!(taken_over(&mut new), [(11, None)]);
    next_of_several(&mut new, &mut ids);
    local.push(next_id(&mut coordinator));
    ids.push(local);
    check_unique_and_increasing(&ids);
}

/// Another session takes one of the sequences over, and waits for a node for long. All others are
/// taken over, and this one is returned with the reason.
#[test]
fn session_of_one_shard_does_not_hinder_those_that_are_taken_over_together() {
    let (cluster, mut ids) = start_with_several_shards(2);
    move_several(&cluster, 2);
    let pause = cluster.pause_commands(2, 0, r"%.\_close\_sequence(%colocationid% 4::%");
    let session = || one(&mut cluster.nodes[2].connect(), "SELECT next_id(13)");
    let id = in_pause((&cluster, 2, pause), session, || {
        let started = Instant::now();
        let taken_over = taken_over(&mut cluster.nodes[2].connect());
        check_all_but_one(taken_over, 13, "Another session");
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    });
    ids[3].push(id);
    next_of_several(&mut cluster.nodes[2].connect(), &mut ids);
    check_unique_and_increasing(&ids);
}

/// One of the roles as which the nodes are asked cannot connect to them. Its shard is returned with
/// the reason, and those of roles that are asked later are taken over.
#[test]
fn role_that_cannot_connect_does_not_hinder_other_roles() {
    let (cluster, mut ids) = start_with_several_shards(1);
    cluster.everywhere("CREATE ROLE app LOGIN; CREATE ROLE first; CREATE ROLE second LOGIN");
    for (shard, owner) in SEVERAL.zip(["postgres", "first", "second", "postgres", "postgres"]) {
        cluster.everywhere(&format!(
            "ALTER SCHEMA insta{shard} OWNER TO {owner};
             ALTER SEQUENCE insta{shard}.table_id_seq OWNER TO {owner};
             ALTER FUNCTION insta{shard}.shard_{shard}() OWNER TO {owner};
             GRANT USAGE ON SCHEMA insta{shard} TO app;
             GRANT USAGE ON SEQUENCE insta{shard}.table_id_seq TO app"
        ));
    }
    move_several(&cluster, 0);
    check_all_but_one(taken_over(&mut cluster.connect_as(0, "app")), 11, "as role first");
    next_of_several(&mut cluster.nodes[0].connect(), &mut ids);
    check_unique_and_increasing(&ids);
}

/// Ids that the owning node has issued are not repeated when a schema is distributed, moves, or is
/// undistributed. The schema gets its first table late: without one, no invalidation announces that
/// it is placed on a node.
#[test]
fn ids_increase_when_a_schema_is_distributed_and_undistributed() {
    let cluster = Emulated::start(2);
    cluster.create("SELECT create_shard(5)");
    let mut coordinator = cluster.nodes[0].connect();
    let mut ids = vec![one(&mut coordinator, AN_HOUR_AHEAD)];
    ids.push(next_id(&mut coordinator));
    cluster.distribute("insta5", 2);
    let mut new = cluster.nodes[2].connect();
    is_refused(&mut new, NEXT_ID, "55000");
    cluster.everywhere("CREATE TABLE insta5.photos (id bigint)");
    cluster.move_schema("insta5", 2);
    is_refused(&mut coordinator, NEXT_ID, "55000");
    ids.push(next_id(&mut new));
    is_refused(&mut coordinator, NEXT_ID, "55000");
    // A transaction whose snapshot is older than a move can do the takeover on the new node. One on
    // the former node that has not received the move does not open the closed copy.
    let mut old = cluster.nodes[2].connect();
    run(&mut old, "BEGIN");
    ids.push(next_id(&mut old));
    let mut sessions = [(); 2].map(|()| cluster.nodes[1].connect());
    is_refused(&mut sessions[1], NEXT_ID, "55000");
    for session in &mut sessions {
        run(session, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class");
    }
    cluster.move_schema("insta5", 1);
    for session in &mut sessions {
        run(session, NOTICE);
        ids.push(next_id(session));
        run(session, "COMMIT");
    }
    is_refused(&mut old, NEXT_ID, "55000");
    assert!(!is_open(&cluster, 2), "taken back");
    cluster.undistribute("insta5");
    is_refused_on(&cluster, 1, NEXT_ID, "55000");
    ids.push(next_id(&mut coordinator));
    is_refused_on(&cluster, 1, NEXT_ID, "55000");
    assert_eq!(taken_over(&mut cluster.nodes[1].connect()), []);
    // The same for an original, which is adopted afterwards. Its sequence still has copies.
    cluster.everywhere(&original_of_shard(6));
    cluster.distribute("insta6", 1);
    let next = "SELECT insta6.next_id()";
    let mut originals: Vec<i64> = vec![one(&mut cluster.nodes[1].connect(), next)];
    cluster.undistribute("insta6");
    run(&mut coordinator, "SELECT adopt_shard(6)");
    originals.extend([(); 2].map(|()| one::<i64>(&mut coordinator, next)));
    check_unique_and_increasing(&[ids, originals]);
    // At the end of the ids, on a node whose copy has a MINVALUE of its own.
    cluster.distribute("insta5", 1);
    let mut node = cluster.nodes[1].connect();
    next_id(&mut node);
    let last = i64::MAX - (8191 - 5) * 1024;
    run(&mut node, &format!("SELECT advance_shard(5, {})", last - 1));
    assert_eq!(next_id(&mut node), last);
    let (_, _, hint) = error_of(&mut node, NEXT_ID);
    let (_, reset) = hint.split_once("use ").expect(&hint);
    let (reset, _) = reset.split_once(" to let").expect(&hint);
    assert!(reset.ends_with(&format!(", {}, false)", (1_i64 << 48) + 1)), "{hint}");
    run(&mut node, reset);
    // The copy is like a new one, so the hint leads to another one.
    let (_, _, hint) = error_of(&mut node, NEXT_ID);
    assert!(hint.contains("SELECT * FROM take_over_shards(recover => true)"), "{hint}");
    let reasons = "SELECT reason FROM take_over_shards(recover => true)";
    assert_eq!(one::<Option<String>>(&mut node, reasons), None);
    assert!(next_id(&mut node) < last);
}

/// Role app, which can generate ids and owns a schema.
const APP: &str =
    "CREATE ROLE app LOGIN; CREATE SCHEMA app AUTHORIZATION app; GRANT USAGE ON SCHEMA insta5 TO app;
    GRANT USAGE ON SEQUENCE insta5.table_id_seq TO app; GRANT SELECT, INSERT ON insta5.photos TO app";

/// A role with USAGE on the sequence can generate ids, and can do the takeover after a move. It
/// cannot close the copy of another node, neither by a direct call nor by a trigger on another
/// table.
#[test]
fn usage_closes_no_copy() {
    let cluster = Emulated::start_with_shard(3);
    cluster.everywhere(APP);
    // Tables of that role, also in the shard's schema, and a table in another schema whose owner
    // has UPDATE on the sequence.
    cluster.everywhere(
        "GRANT CREATE ON SCHEMA insta5 TO app; SET ROLE app;
         CREATE TABLE app.own (id bigint, batch bigint); CREATE TABLE insta5.own (id bigint, batch bigint);
         CREATE TRIGGER ids BEFORE INSERT ON app.own FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id');
         CREATE TRIGGER ids BEFORE INSERT ON insta5.own FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id');
         RESET ROLE; CREATE SCHEMA other; CREATE TABLE other.own (id bigint, batch bigint);
         GRANT USAGE ON SCHEMA other TO app; GRANT INSERT ON other.own TO app;
         CREATE TRIGGER ids BEFORE INSERT ON other.own FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id')",
    );
    // Also announces the table in the shard's schema.
    cluster.distribute("other", 2);
    let inserts = ["app.own", "insta5.own", "other.own"]
        .map(|table| format!("INSERT INTO {table} VALUES (NULL, 1)"));
    let mut ids = column(&mut cluster.connect_as(1, "app"), INSERT);
    for is_down in [false, true] {
        if is_down {
            cluster.nodes[3].stop();
        }
        for node in [0, 2] {
            for insert in &inserts {
                let (code, text) = refusal(&mut cluster.connect_as(node, "app"), insert);
                assert!(["55000", "42501"].contains(&&*code), "{insert}: {code} {text}");
                assert!(is_open(&cluster, 1), "{insert} on node {node} has closed the open copy");
            }
        }
        let mut app = cluster.connect_as(1, "app");
        for group in [0, 1, 2] {
            let close = close_statement(group);
            is_refused(&mut app, &close, "42501");
        }
        // No node could open a copy that is closed for a group without a node.
        is_refused_on(&cluster, 1, &close_statement(77), "22023");
        assert!(is_open(&cluster, 1));
        ids.push(next_id(&mut app));
        // On the owning node these triggers work as any other.
        inserts.iter().for_each(|insert| run(&mut app, insert));
        ids.push(next_id(&mut app));
    }
    cluster.nodes[3].launch();
    // Nor does it open a sequence that serves no shard and was never used.
    cluster.create(
        "CREATE SCHEMA own; CREATE SEQUENCE own.ids;
         GRANT USAGE ON SCHEMA own TO app; GRANT USAGE ON SEQUENCE own.ids TO app",
    );
    cluster.distribute("own", 0);
    is_refused(&mut cluster.connect_as(0, "app"), "SELECT next_id(6, 'own.ids')", "42501");
    cluster.move_schema("insta5", 2);
    ids.push(next_id(&mut cluster.connect_as(2, "app")));
    cluster.move_schema("insta5", 1);
    ids.extend(column(&mut cluster.connect_as(1, "app"), INSERT));
    check_unique_and_increasing(&[ids]);
}

/// A closed copy looks up the placement of its schema before it opens. If Citus's catalogs no
/// longer contain it, the copy stays closed until `advance_shard` sets where to continue.
#[test]
fn closed_copy_without_placement_stays_closed() {
    let cluster = Emulated::start(2);
    cluster.create(SHARD_WITH_TRIGGER);
    let mut ids = vec![next_on(&cluster, 0)];
    cluster.distribute("insta5", 1);
    ids.extend(cluster.ids_an_hour_ahead(1));
    ids.push(next_after_move(&cluster, 2));
    for node in [0, 1] {
        run(&mut cluster.nodes[node].connect(), "DELETE FROM pg_catalog.pg_dist_object");
        for statement in [NEXT_ID, INSERT, NEXT_ID] {
            let text = is_refused_on(&cluster, node, statement, "55000");
            // On a worker the range of the copy is refused anyway.
            assert!(node == 1 || text.contains("advance_shard"), "{text}");
        }
        assert!(!is_open(&cluster, node));
    }
    // Nor does an open copy generate ids there, which has the range of its node.
    run(&mut cluster.nodes[2].connect(), "DELETE FROM pg_catalog.pg_dist_object");
    is_refused_on(&cluster, 2, NEXT_ID, "55000");
    let mut coordinator = cluster.nodes[0].connect();
    let last = *ids.last().unwrap();
    assert_eq!(one::<i64>(&mut coordinator, &format!("SELECT advance_shard(5, {last})")), last);
    ids.push(next_id(&mut coordinator));
    check_unique_and_increasing(&[ids]);
}

/// From a sequence that belongs to no shard every node generates ids of its own shard, from its own
/// copy. A shard's sequence is refused for this, and so is a copy with the range of another group.
#[test]
fn node_ids_are_not_generated_from_a_shards_sequence() {
    let cluster = Emulated::start_with_shard(2);
    cluster.create("CREATE SCHEMA own; CREATE SEQUENCE own.ids");
    cluster.distribute("own", 0); // a schema without tables is only copied
    for node in 0..3 {
        let mut client = cluster.nodes[node].connect();
        let ids =
            column(&mut client, "SELECT node_next_id('own.ids') FROM generate_series(1, 3000)");
        let group = i64::from(cluster.group(node).unwrap());
        assert!(ids.iter().all(|id| (id >> 10) & 8191 == group), "node {node}");
        assert!(lead(&mut client, ids[2999]).abs() < 60.0, "node {node}");
        check_unique_and_increasing(&[ids]);
        is_refused(&mut client, "SELECT node_next_id('insta5.table_id_seq')", "55000");
    }
    // A node that is added again is in another group, also for a session from before.
    let mut client = cluster.nodes[2].connect();
    let of_group =
        |client: &mut Client| one::<i64>(client, "SELECT node_next_id('own.ids')") >> 10 & 8191;
    let before = of_group(&mut client);
    cluster.remove(2);
    cluster.add(2);
    let group = i64::from(cluster.group(2).unwrap());
    assert_eq!((before, of_group(&mut client)), (2, group));
    let mut client = cluster.nodes[1].connect();
    let (first, last) = ((7_i64 << 48) + 1, (8_i64 << 48) + 1);
    let range_of_group_7 =
        format!("ALTER SEQUENCE own.ids MINVALUE {first} MAXVALUE {last} START {first} RESTART");
    run(&mut client, &range_of_group_7);
    let text = is_refused(&mut client, "SELECT node_next_id('own.ids')", "55000");
    assert!(text.contains("group 7"), "{text}");
}

/// Turns node 2 into a promoted clone of another node, whose group was 7: its copy has the range
/// and the page of that node, and is open, with a value that the other nodes have left behind.
fn make_clone(cluster: &Emulated) {
    let set_range = |first: i64, last: i64| {
        format!(
            "UPDATE pg_catalog.pg_sequence SET seqmin = {first}, seqmax = {last}, seqstart = {first}
             WHERE seqrelid IN ('insta5.table_id_seq'::regclass, to_regclass('insta6.table_id_seq'))"
        )
    };
    let (without, of_group_7) = (set_range(1, i64::MAX), set_range((7 << 48) + 1, (8 << 48) + 1));
    let clone =
        format!("{without}; SELECT setval('insta5.table_id_seq', 1000, true); {of_group_7}");
    run(&mut cluster.nodes[2].connect(), &clone);
}

/// A promoted clone has an open copy, with which it would repeat ids of the other node. After Citus
/// has sent its metadata to the clone, as the HINT says, the copy is that of a new node, and takes
/// the sequence over as any other. Once more this changes nothing: see
/// [`Emulated::catch_up`].
#[test]
fn promoted_clone_takes_sequences_over() {
    let cluster = Emulated::start_with_shard(3);
    cluster.create(&SHARD_WITH_TRIGGER.replace('5', "6"));
    cluster.distribute("insta6", 1);
    let mut ids = cluster.ids_an_hour_ahead(1);
    make_clone(&cluster);
    let mut clone = cluster.nodes[2].connect();
    assert_eq!(taken_over(&mut clone), [], "it does not own the schema");
    cluster.move_schema("insta5", 2);
    cluster.move_schema("insta6", 2);
    for statement in [NEXT_ID, INSERT, "SELECT recover_shard(5)"] {
        let text = is_refused(&mut clone, statement, "55000");
        assert!(
            text.contains("group 7") && text.contains("start_metadata_sync_to_all_nodes()"),
            "{statement}: {text}"
        );
    }
    let [(5, Some(reason)), (6, Some(_))] = &taken_over(&mut clone)[..] else {
        panic!("no reasons")
    };
    assert!(reason.contains("group 7"), "{reason}");
    assert_eq!(reason_on(&cluster, 2), "copy made for group 7");
    assert!(is_open(&cluster, 1), "closed for nothing");
    // Its copy can be closed, so it does not block an owner of the schema.
    ids.push(next_after_move(&cluster, 3));
    cluster.move_schema("insta5", 2);
    assert!(is_refused(&mut clone, NEXT_ID, "55000").contains("group 7"));
    assert!(is_open(&cluster, 3), "closed for nothing");
    cluster.catch_up(2);
    ids.push(next_id(&mut clone));
    assert!(!is_open(&cluster, 3));
    // Shard 6 has no ids yet.
    assert_eq!(taken_over(&mut clone), [(6, None)]);
    cluster.catch_up(2);
    ids.extend(column(&mut clone, INSERT));
    ids.extend([3, 2, 0, 2].map(|node| next_after_move(&cluster, node)));
    check_unique_and_increasing(&[ids]);
}

/// The commands that one node runs on another work under every search_path of the role there, and
/// under settings that change how strings are parsed, with names that need quotes.
#[test]
fn commands_work_under_every_setting() {
    let cluster = Emulated::start(2);
    let schema = r#"a 'b' "c" \'; $$ $(x) `y` %s {z}"#;
    let [literal, name] = [
        format!("'{}'", schema.replace('\'', "''")),
        format!("\"{}\"", schema.replace('"', "\"\"")),
    ];
    cluster.everywhere("CREATE ROLE keeper LOGIN; GRANT CREATE ON DATABASE postgres TO keeper");
    cluster.create(&format!(
        "SET ROLE keeper; SELECT create_shard(5, {literal}); CREATE TABLE {name}.photos (id bigint)"
    ));
    cluster.distribute(schema, 1);
    cluster.everywhere(&format!(
        "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA {name} TO app; GRANT USAGE ON SEQUENCE {name}.table_id_seq TO app;
         CREATE ROLE manager LOGIN; GRANT app TO manager; GRANT UPDATE ON SEQUENCE {name}.table_id_seq TO manager"
    ));
    let roles = ["app", "manager", "keeper"];
    for node in &cluster.nodes {
        install_traps(node, OPERATORS);
        for role in roles {
            let settings = [
                "search_path = trap, pg_catalog, public",
                "standard_conforming_strings = off",
                "backslash_quote = on",
                "escape_string_warning = on",
                "quote_all_identifiers = on",
            ]
            .map(|setting| format!("ALTER ROLE {role} SET {setting}"));
            run(&mut node.connect(), &settings.join(";"));
        }
    }
    let mut ids = vec![];
    for (round, role) in roles.iter().cycle().take(6).enumerate() {
        let node = [1, 2, 0, 2, 1, 0][round];
        cluster.move_schema(schema, node);
        let id = cluster.connect_as(node, role).query_one("SELECT public.next_id(5)", &[]);
        for (number, node) in cluster.nodes.iter().enumerate() {
            assert_eq!(roles_caught(node), [""; 0], "on node {number}, for {role}");
        }
        ids.push(id.unwrap().get(0));
    }
    check_unique_and_increasing(&[ids]);
    // The traps work.
    let mut app = cluster.connect_as(1, "app");
    for statement in [
        "SELECT 1::pg_catalog.int8 || ' '",
        "SELECT 1::pg_catalog.int8 >= 2::pg_catalog.int8",
        "SELECT now()",
    ] {
        run(&mut app, statement);
        assert_eq!(roles_caught(&cluster.nodes[1]), ["app"], "{statement}");
        run(&mut app, "DELETE FROM trap.caught");
    }
}

/// An operator || for any two types, which PostgreSQL has only for some.
const OPERATORS: &str = "SELECT lay_traps('trap', true);
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

/// Delays the WAL writes of a node as long as PostgreSQL allows.
fn delay_wal(node: &Server) {
    let mut client = node.connect();
    run(&mut client, "ALTER SYSTEM SET synchronous_commit = off");
    run(&mut client, "ALTER SYSTEM SET wal_writer_delay = '10s'");
    run(&mut client, "SELECT pg_reload_conf()");
}

/// A crash right after a takeover loses none of its changes, even if commits on the nodes are
/// asynchronous. Ids are ahead of the clock, so that the clock cannot hide a loss.
#[test]
fn takeover_survives_crashes() {
    let cluster = Emulated::start_with_shard(3);
    cluster.nodes.iter().for_each(delay_wal);
    let mut ids = vec![];
    for _ in 0..length(1, 20) {
        let mut client = cluster.nodes[1].connect();
        run(&mut client, AN_HOUR_AHEAD);
        ids.extend(column(&mut client, INSERT));
        run(&mut client, "CHECKPOINT");
        let close = close_statement(cluster.group(2).unwrap());
        let above: i64 = one(&mut client, &close);
        crash(&cluster, 1);
        assert!(!is_open(&cluster, 1), "open again");
        assert_eq!(recorded_on(&cluster, 1), above);
        ids.extend(column(&mut cluster.nodes[1].connect(), INSERT));
    }
    // The first ids of a new node.
    cluster.move_schema("insta5", 0);
    let mut new = cluster.nodes[0].connect();
    run(&mut new, "SET synchronous_commit = on");
    ids.push(next_id(&mut new));
    crash(&cluster, 0);
    ids.push(next_on(&cluster, 0));
    // The name of the new node is flushed on the other nodes before the new node opens its copy.
    for node in [0, 1, 3] {
        run(&mut cluster.nodes[node].connect(), "CHECKPOINT");
    }
    ids.push(next_after_move(&cluster, 2));
    for node in [0, 1, 3] {
        crash(&cluster, node);
    }
    ids.extend(cluster.ids_an_hour_ahead(2));
    lose(&cluster, 2);
    is_blocked(&cluster, &[3, 0, 1, 3], 2);
    check_unique_and_increasing(&[ids]);
}

/// A node whose name is recorded on every node has the last value of the previous holder, also
/// after a crash.
#[test]
fn recorded_node_has_the_last_value_after_a_crash() {
    let cluster = Emulated::start_with_shard(3);
    delay_wal(&cluster.nodes[2]);
    let mut ids = cluster.ids_an_hour_ahead(1);
    cluster.move_schema("insta5", 2);
    run(&mut cluster.nodes[2].connect(), "CHECKPOINT");
    // This is the last step, so that nothing is opened.
    cluster.break_commands(2, 3, RECORDING, Fault::Lose);
    is_refused_on(&cluster, 2, NEXT_ID, "08000");
    crash(&cluster, 2);
    cluster.restore_commands(2);
    lose(&cluster, 1);
    for _ in 0..2 {
        ids.extend(next_unless(&mut cluster.nodes[2].connect(), &["55000"]));
    }
    check_unique_and_increasing(&[ids]);
}

/// Another node completes a takeover after this node has closed all copies: while this node records
/// its name, or right before it opens its own copy. In the last case the other node is then lost,
/// and the copies of third nodes still record it.
#[test]
fn attempt_does_not_replace_a_later_nodes_name() {
    let cluster = Emulated::start_with_shard(3);
    let mut ids = vec![];
    for (pause, node, is_lost) in [(BEFORE, 3, false), (AFTER, 3, false), (BEFORE, 0, true)] {
        ids.push(next_after_move(&cluster, 1));
        two_owners(&cluster);
        let pause = pause(&cluster, 2, node, RECORDING);
        let refusals: &[&str] = if is_lost { &["08000", "55000"] } else { &[] };
        let slower = || next_unless(&mut cluster.nodes[2].connect(), refusals);
        let slower = in_pause((&cluster, 2, pause), slower, || {
            let mut faster = cluster.nodes[3].connect();
            ids.push(next_id(&mut faster));
            ids.push(one(&mut faster, AN_HOUR_AHEAD));
            if is_lost {
                lose(&cluster, 3);
            }
        });
        ids.extend(slower);
        if is_lost {
            // Overwrites the record of node 2 itself: it must not be the only one that is right.
            run(&mut *cluster.session(2), "SELECT nextval('insta5.table_id_seq')");
        }
        for node in [2, 0, 1].into_iter().cycle().take(6) {
            cluster.move_schema("insta5", node);
            ids.extend(next_unless(&mut cluster.nodes[node].connect(), refusals));
        }
    }
    check_unique_and_increasing(&[ids]);
}

/// A trigger runs for each copy of a row and would generate a different id for each. So rows of
/// reference tables, and of tables with several placements of a shard, are refused, and such tables
/// get no triggers.
fn rows_with_several_copies_get_no_ids_by_trigger(cluster: &Emulated, ids: &mut Vec<i64>) {
    let mut worker = cluster.nodes[1].connect();
    ids.extend(column(&mut worker, INSERT));
    run(
        &mut worker,
        "CREATE TABLE insta5.words (id bigint DEFAULT insta5.next_id(), batch bigint)",
    );
    let placements = "INSERT INTO pg_catalog.pg_dist_placement SELECT shardid + 500, shardid, 1, 0, 2 FROM pg_catalog.pg_dist_shard";
    let of_words = "INSERT INTO pg_catalog.pg_dist_partition SELECT 'insta5.words'::regclass, partmethod, partkey, colocationid, repmodel, autoconverted
        FROM pg_catalog.pg_dist_partition WHERE logicalrelid = 'insta5.photos'::regclass;
        INSERT INTO pg_catalog.pg_dist_shard SELECT 'insta5.words'::regclass, 102900, 't'; INSERT INTO pg_catalog.pg_dist_placement VALUES (102900, 102900, 1, 0, 1)";
    run(&mut worker, of_words);
    // The table in which Citus stores the rows of words. A change is announced for words alone.
    run(
        &mut worker,
        "CREATE TABLE insta5.words_102900 (id bigint); CREATE TRIGGER ids BEFORE INSERT ON insta5.words_102900
             FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id')",
    );
    let store = "INSERT INTO insta5.words_102900 DEFAULT VALUES RETURNING id";
    let mut node = cluster.nodes[1].connect();
    ids.extend(column(&mut node, store));
    run(
        &mut worker,
        "UPDATE pg_catalog.pg_dist_partition SET repmodel = 't' WHERE logicalrelid = 'insta5.words'::regclass;
             ALTER TABLE insta5.words SET (fillfactor = 80)",
    );
    assert!(is_refused(&mut node, store, "55000").contains("insta5.words "));
    for kind in [
        "UPDATE pg_catalog.pg_dist_partition SET repmodel = 't'".into(),
        format!("UPDATE pg_catalog.pg_dist_partition SET repmodel = 'c'; {placements}"),
    ] {
        // As Citus does when it changes a table: this invalidates what sessions have cached.
        let announce = "ALTER TABLE insta5.photos SET (fillfactor = 90); ALTER TABLE insta5.words SET (fillfactor = 90)";
        run(&mut worker, &format!("{kind}; {announce}"));
        assert!(is_refused(&mut worker, INSERT, "55000").contains("insta5.photos"));
        let words: Vec<String> =
            texts(&mut worker, "SELECT column_name FROM convert_defaults_to_triggers(5)");
        assert_eq!(words, [""; 0]);
        assert!(cluster.nodes[1].log().contains("column insta5.words.id keeps its default"));
        ids.push(next_id(&mut worker));
        run(&mut worker, &format!("INSERT INTO insta5.photos VALUES ({}, 1)", ids.last().unwrap()));
    }
    run(&mut worker, "DROP TABLE insta5.words, insta5.words_102900");
    cluster.announce(1);
}

/// A bulk load looks up the placement of its table once, and not for each row.
fn rows_are_inserted_without_a_look_up_for_each(cluster: &Emulated) {
    let mut worker = cluster.nodes[1].connect();
    run(&mut worker, "BEGIN; INSERT INTO insta5.photos (batch) SELECT generate_series(1, 1000)");
    let look_ups: i64 = one(
        &mut worker,
        "SELECT seq_scan + idx_scan FROM pg_stat_xact_sys_tables WHERE relname = 'pg_class'",
    );
    assert!(look_ups < 500, "pg_class was read {look_ups} times for 1000 rows");
}

/// Rows of a table that is distributed by a column, or that has a node of its own, are not on the
/// node that owns the schema. Such tables get no triggers, and nodes do not take the sequence from
/// each other for their rows.
#[test]
fn tables_that_are_not_placed_with_the_schema_get_no_ids_by_trigger() {
    let cluster = Emulated::start_with_shard(2);
    let mut ids = vec![next_on(&cluster, 1)];
    cluster.undistribute("insta5");
    ids.push(next_on(&cluster, 0));
    let mut other = cluster.nodes[2].connect();
    run(&mut other, "CREATE TABLE insta5.words (id bigint DEFAULT insta5.next_id());
             INSERT INTO pg_catalog.pg_dist_partition (logicalrelid, partmethod, colocationid, repmodel)
             VALUES ('insta5.photos', 'h', 7, 's'), ('insta5.words', 'h', 7, 's')");
    for kind in ["partmethod = 'h'", "partmethod = 'n'"] {
        let set = format!(
            "UPDATE pg_catalog.pg_dist_partition SET {kind}; ALTER TABLE insta5.photos SET (fillfactor = 90);
             ALTER TABLE insta5.words SET (fillfactor = 90)"
        );
        run(&mut other, &set);
        let text = is_refused(&mut other, INSERT, "55000");
        assert!(
            text.contains("insta5.photos") && text.contains("node_next_id('table_ids')"),
            "{kind}: {text}"
        );
        assert!(
            texts(&mut other, "SELECT column_name FROM convert_defaults_to_triggers(5)").is_empty()
        );
    }
    assert!(is_open(&cluster, 0), "taken over for a row");
    // The default that the HINT names.
    run(
        &mut other,
        "DROP TRIGGER \"0_assign_id\" ON insta5.photos; CREATE SEQUENCE table_ids;
             ALTER TABLE insta5.photos ALTER COLUMN id SET DEFAULT node_next_id('table_ids')",
    );
    assert_eq!(
        column(&mut other, INSERT).iter().map(|id| (id >> 10) & 8191).collect::<Vec<_>>(),
        [2, 2]
    );
    ids.push(next_on(&cluster, 0));
    check_unique_and_increasing(&[ids]);
}

/// The trigger refers to its column by name.
fn trigger_of_a_renamed_column_is_named(cluster: &Emulated) {
    let mut worker = cluster.nodes[1].connect();
    run(&mut worker, "ALTER TABLE insta5.photos RENAME COLUMN id TO photo_id");
    let text = is_refused(&mut worker, "INSERT INTO insta5.photos (batch) VALUES (1)", "42703");
    assert!(text.contains("column id of table insta5.photos"), "{text}");
    assert!(text.contains("That needs the setting citus.enable_unsafe_triggers."), "{text}");
    run(
        &mut worker,
        "SET citus.enable_unsafe_triggers = on; DROP TRIGGER \"0_assign_id\" ON insta5.photos;
         CREATE TRIGGER \"0_assign_id\" BEFORE INSERT ON insta5.photos FOR EACH ROW WHEN (NEW.photo_id IS NULL)
             EXECUTE FUNCTION next_id_trigger('5', 'photo_id')",
    );
    run(&mut worker, "INSERT INTO insta5.photos (batch) VALUES (1)");
}

/// A coordinator that is not in its own catalogs is not known to the workers, which would refuse
/// it.
fn coordinator_that_is_not_in_the_catalogs_is_named(cluster: &Emulated, ids: &mut Vec<i64>) {
    ids.push(next_after_move(cluster, 1));
    cluster.undistribute("insta5");
    let mut coordinator = cluster.nodes[0].connect();
    for node in &cluster.nodes {
        run(&mut node.connect(), "DELETE FROM pg_catalog.pg_dist_node WHERE groupid = 0");
    }
    let text = is_refused(&mut coordinator, NEXT_ID, "55000");
    assert!(
        text.contains("not in pg_dist_node") && text.contains("citus_set_coordinator_host"),
        "{text}"
    );
    assert!(is_open(cluster, 1), "closed for nothing");
    // That function does the same on all nodes.
    (0..2).for_each(|node| cluster.announce(node));
    ids.push(next_id(&mut coordinator));
}

/// A session that has loaded the library of an earlier version generates no ids after the extension
/// was upgraded.
fn session_with_an_older_library_is_refused_after_an_upgrade(
    cluster: &Emulated,
    ids: &mut Vec<i64>,
) {
    let mut worker = cluster.nodes[1].connect();
    ids.push(next_id(&mut worker));
    // An upgrade replaces functions, which invalidates what sessions have cached.
    let upgrade = |version: &str| {
        format!(
            "UPDATE pg_extension SET extversion = {version} WHERE extname = 'instagram_id';
             COMMENT ON FUNCTION next_id_trigger() IS ''; ALTER FUNCTION next_id_trigger() COST 1"
        )
    };
    let mut other = cluster.nodes[1].connect();
    run(
        &mut other,
        "CREATE TABLE version AS SELECT extversion FROM pg_extension WHERE extname = 'instagram_id'",
    );
    run(&mut other, &upgrade("'99.0.0'"));
    for insert in [NEXT_ID, INSERT] {
        let text = is_refused(&mut worker, insert, "55000");
        assert!(text.contains("99.0.0") && text.contains("Connect again"), "{text}");
    }
    for version in ["'0.9.0'", "(SELECT extversion FROM version)"] {
        run(&mut other, &upgrade(version));
        ids.push(next_id(&mut worker));
    }
}

/// The tests that need no second worker, one after another on one cluster.
#[test]
fn each_rule_holds_on_one_worker() {
    let cluster = Emulated::start_with_shard(1);
    let mut ids = vec![next_on(&cluster, 1)];
    view_waits_for_no_lock(&cluster);
    rows_are_inserted_without_a_look_up_for_each(&cluster);
    session_with_an_older_library_is_refused_after_an_upgrade(&cluster, &mut ids);
    rows_with_several_copies_get_no_ids_by_trigger(&cluster, &mut ids);
    trigger_of_a_renamed_column_is_named(&cluster);
    locked_copy_fails_takeover_before_the_time_is_over(&cluster, &mut ids);
    coordinator_that_is_not_in_the_catalogs_is_named(&cluster, &mut ids);
    check_unique_and_increasing(&[ids]);
}
