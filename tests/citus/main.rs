//! Tests on a Citus cluster: only the node that has a shard's tables generates its ids; after a
//! move new ids are above all earlier ones; no row is lost and no id is generated twice, whichever
//! node the clients connect to. They need a PostgreSQL with Citus.
//!
//! These tests cover what depends on how Citus moves tables, announces moves and runs commands on
//! its nodes. Crashes, lost nodes, and two nodes that both act as the owner of the schema are
//! tested in `takeover.rs` of tests/live, where Citus is emulated.

use instagram_id_live::*;
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Creates shard 5 with a table and distributes its schema; the table's default generates ids of
/// the shard. Returns the node that owns the schema.
fn distribute(cluster: &Cluster) -> usize {
    run(&mut cluster.nodes[0].connect(), "SELECT create_shard(5);
             CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), batch bigint);
             SELECT citus_schema_distribute('insta5')");
    cluster.node_of("insta5")
}

/// Same as `distribute`, and converts the default to a trigger.
fn distribute_with_triggers(cluster: &Cluster) -> usize {
    let home = distribute(cluster);
    let made = texts(
        &mut cluster.nodes[0].connect(),
        "SELECT table_name || '.' || column_name FROM convert_defaults_to_triggers(5)",
    );
    assert_eq!(made, ["insta5.photos.id"]);
    home
}

/// Creates a shard with a table that has the trigger, and distributes its schema.
fn create_tenant(client: &mut Client, shard: i32) {
    for statement in [
        format!("SELECT create_shard({shard})"),
        format!(
            "CREATE TABLE insta{shard}.photos
             (id bigint PRIMARY KEY DEFAULT insta{shard}.next_id(), batch bigint)"
        ),
        format!("SELECT citus_schema_distribute('insta{shard}')"),
        format!("SELECT convert_defaults_to_triggers({shard})"),
    ] {
        run(client, &statement);
    }
}

/// An insert into the table of this shard.
fn insert_into(shard: i32) -> String {
    INSERT.replace("insta5", &format!("insta{shard}"))
}

const INSERT: &str = "INSERT INTO insta5.photos (batch) VALUES (1) RETURNING id";

fn next_id(client: &mut Client) -> i64 {
    one(client, NEXT_ID)
}

#[track_caller]
fn is_refused(client: &mut Client, statement: &str, home: &str) {
    let (code, message, hint) = error_of(client, statement);
    assert_eq!(code, "55000", "{statement}: {message}");
    assert!(message.contains(&format!("placed on node {home}")), "{statement}: {message}");
    assert!(hint.contains("convert_defaults_to_triggers"), "{statement}: {hint}");
}

#[test]
fn only_the_owning_node_generates_ids() {
    let cluster = Cluster::start(2);
    let home = distribute(&cluster);
    let name = cluster.name(home);
    for (number, node) in cluster.nodes.iter().enumerate().filter(|(number, _)| *number != home) {
        let mut client = node.connect();
        // Twice: state cached by the first call must not let the second call succeed.
        for way in WAYS.iter().chain(&WAYS) {
            is_refused(&mut client, way, &name);
        }
        is_refused(&mut client, "INSERT INTO insta5.photos (batch) VALUES (1)", &name);
        is_refused(
            &mut client,
            "INSERT INTO insta5.photos (batch) SELECT generate_series(1, 10)",
            &name,
        );
        let copy =
            client.copy_in("COPY insta5.photos (batch) FROM STDIN").and_then(|mut writer| {
                std::io::Write::write_all(&mut writer, b"1\n").unwrap();
                writer.finish()
            });
        assert_eq!(copy.unwrap_err().code().unwrap().code(), "55000", "node {number}");
    }
    let mut client = cluster.nodes[home].connect();
    let mut ids: Vec<i64> = (0..1000).map(|_| next_id(&mut client)).collect();
    ids.extend(column(
        &mut client,
        "INSERT INTO insta5.photos (batch) VALUES (1), (2), (3) RETURNING id",
    ));
    ids.extend(column(&mut client, "SELECT next_ids(5, 3000)"));
    // An INSERT ... SELECT from a table of the schema evaluates the default on the node that owns
    // the schema. From another node Citus 14.0 evaluates it there, and it is refused.
    for (number, node) in cluster.nodes.iter().enumerate() {
        let insert = "INSERT INTO insta5.photos (batch) SELECT batch FROM insta5.photos LIMIT 3 RETURNING id";
        match node.connect().query(insert, &[]) {
            Ok(rows) => ids.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
            Err(error) => {
                let code = error.code().map(|code| code.code().to_owned());
                assert!(number != home && code.as_deref() == Some("55000"), "{number} {error}");
            }
        }
    }
    check_unique_and_increasing(&[ids]);
}

/// A shard that is not distributed belongs to the coordinator, also if it is undistributed again.
/// Ids that another node has issued, an hour ahead and in no table, are not issued again. Citus
/// refuses to distribute a table with a trigger again without a setting, which docs/run/citus.md
/// names.
#[test]
fn schemas_are_undistributed_and_distributed_again() {
    let cluster = Cluster::start(2);
    let [mut client, mut other] = [(); 2].map(|()| cluster.nodes[0].connect());
    let shards = [5, 9];
    for shard in shards {
        run(
            &mut client,
            &format!(
                "SELECT create_shard({shard}); CREATE TABLE insta{shard}.photos
                 (id bigint PRIMARY KEY DEFAULT insta{shard}.next_id(), batch bigint)"
            ),
        );
    }
    let insert = |shard: i32| {
        format!("INSERT INTO insta{shard}.photos (batch) VALUES (1), (2) RETURNING id")
    };
    let next = |shard: i32| format!("SELECT insta{shard}.next_id()");
    let mut ids = [vec![], vec![]];
    for round in 1..=3 {
        for (ids, shard) in ids.iter_mut().zip(shards) {
            ids.extend(column(&mut client, &insert(shard)));
            let ahead = |hours: i32| {
                format!(
                    "SELECT advance_shard({shard}, make_id(now() + interval '{hours} hours', {shard}, 0))"
                )
            };
            ids.push(one(&mut client, &ahead(2 * round)));
            // The session has cached that there are no other copies when it is distributed.
            let distribute = format!("SELECT citus_schema_distribute('insta{shard}')");
            // Shard 5 has a trigger from the first round on.
            if shard == 5 && round > 1 {
                let (_, message, _) = error_of(&mut other, &distribute);
                assert!(message.contains("because it has triggers"), "{message}");
                assert!(CITUS_PAGE.contains("`SET citus.enable_unsafe_triggers = on`"));
                run(&mut other, "SET citus.enable_unsafe_triggers = on");
            }
            run(&mut other, &distribute);
            run(&mut other, "RESET citus.enable_unsafe_triggers");
            if shard == 5 {
                run(&mut other, "SELECT convert_defaults_to_triggers(5)");
            }
            assert_eq!(error_of(&mut client, &next(shard)).0, "55000");
            let home = cluster.node_of(&format!("insta{shard}"));
            let mut on_owner = cluster.nodes[home].connect();
            ids.extend(column(&mut on_owner, &insert(shard)));
            // With the trigger from every node.
            if shard == 5 {
                for node in &cluster.nodes {
                    ids.extend(column(&mut node.connect(), &insert(shard)));
                }
            }
            ids.push(one(&mut on_owner, &ahead(2 * round + 1)));
            let undistribute = format!("SELECT citus_schema_undistribute('insta{shard}')");
            run(&mut other, &undistribute);
            ids.extend(column(&mut client, &insert(shard)));
            assert_eq!(error_of(&mut on_owner, &next(shard)).0, "55000");
            ids.push(one(&mut other, &next(shard)));
            let rows =
                column(&mut client, &format!("SELECT id FROM insta{shard}.photos ORDER BY id"));
            assert_eq!(rows.len(), 2 * round as usize * if shard == 5 { 6 } else { 3 });
            assert!(rows.iter().all(|row| ids.contains(row)));
        }
    }
    check_unique_and_increasing(&ids);
}

/// After a move new ids of a shard are above all earlier ones, wherever these were generated and
/// whatever the nodes' clocks show, including ids that are in no table. A session on the former
/// node is refused as soon as the schema has moved, before the new node has generated any id: it
/// reads the current catalogs, not its cached state and not the snapshot of its transaction.
#[test]
fn ids_increase_after_moves_between_different_clocks() {
    let cluster = Cluster::start_with_clocks_of_their_own(2);
    distribute_with_triggers(&cluster);
    let mut clients: Vec<Client> = cluster.nodes.iter().map(Server::connect).collect();
    let mut ids = vec![];
    for (round, mode) in
        ["block_writes", "force_logical"].iter().cycle().take(length(8, 60)).enumerate()
    {
        let home = cluster.node_of("insta5");
        let target = 3 - home;
        // The current node's clock is 1 s ahead; the coordinator's is sometimes 1 s behind.
        cluster.nodes[home].set_clock(1.0);
        cluster.nodes[target].set_clock(0.0);
        cluster.nodes[0].set_clock([0.0, -1.0][round % 2]);
        ids.extend((0..50).map(|_| next_id(&mut clients[home])));
        let batch = format!(
            "INSERT INTO insta5.photos (batch) SELECT {round} FROM generate_series(1, 50) RETURNING id"
        );
        ids.extend(column(&mut clients[round % 3], &batch));
        run(&mut clients[0], "DELETE FROM insta5.photos");
        // Move in the middle of a transaction, but not in logical mode: a replication slot would
        // wait for the end of the transaction.
        if *mode == "block_writes" {
            let begin = ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"][round / 2 % 2];
            run(&mut clients[home], begin);
            ids.push(next_id(&mut clients[home]));
        }
        cluster.move_schema("insta5", target, mode);
        let name = cluster.name(target);
        is_refused(&mut clients[home], NEXT_ID, &name);
        run(&mut clients[home], "ROLLBACK");
        let is_open = "SELECT is_called FROM insta5.table_id_seq";
        assert!(one::<bool>(&mut clients[home], is_open), "closed, which alone would refuse");
        is_refused(&mut clients[home], NEXT_ID, &name);
        ids.push(next_id(&mut clients[target]));
        assert!(!one::<bool>(&mut clients[home], is_open), "open in two places");
        is_refused(&mut clients[home], NEXT_ID, &name);
    }
    check_unique_and_increasing(&[ids]);
}

/// Every kind of insert. Ids of inserts without RETURNING are read from the table afterwards.
fn inserts(table: &'static str) -> Vec<Work> {
    let prepared: Work = Box::new(move |client, received| {
        let insert = client
            .prepare(&format!("INSERT INTO {table} (batch) VALUES ($1), ($2) RETURNING id"))?;
        (0..10).try_for_each(|n: i64| received.run_prepared(client, &insert, &[&n, &(n + 1)]))
    });
    let row = format!("INSERT INTO {table} DEFAULT VALUES RETURNING id;");
    let ways = [
        query(row.clone()),
        query(format!("INSERT INTO {table} (batch) VALUES (1), (2), (3) RETURNING id")),
        prepared,
        query(format!("INSERT INTO {table} (batch) SELECT generate_series(1, 100) RETURNING id")),
        copy(table, 200),
        query(format!(
            "INSERT INTO {table} (batch) SELECT batch FROM {table} LIMIT 50 RETURNING id"
        )),
        query(format!("BEGIN; {row} {row} COMMIT")),
    ];
    ways.into_iter().map(with_retries).collect()
}

/// A session that holds a lock on a moving table and requests another one may fail with a deadlock;
/// it retries. It pauses after each piece of work: a move by logical replication ends when it has
/// caught up with the writers, which on a busy machine can take for ever.
fn with_retries(work: Work) -> Work {
    Box::new(move |client, received| {
        std::thread::sleep(Duration::from_millis(2));
        loop {
            match work(client, received) {
                Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {
                    println!("deadlock, retrying");
                    client.batch_execute("ROLLBACK")?;
                }
                result => return result,
            }
        }
    })
}

/// Runs every kind of insert in sessions on every node and returns the ids they received. The table
/// must contain exactly these ids and those from before.
fn insert_from_every_node(
    cluster: &Cluster,
    table: &'static str,
    during: impl FnOnce(),
) -> Vec<Received> {
    let next = AtomicUsize::new(0);
    let connect =
        || cluster.nodes[next.fetch_add(1, Ordering::Relaxed) % cluster.nodes.len()].try_connect();
    let before: BTreeSet<i64> =
        column(&mut cluster.nodes[0].connect(), &format!("SELECT id FROM {table}"))
            .into_iter()
            .collect();
    let (received, ()) = under_load(connect, 2 * cluster.nodes.len(), &inserts(table), during);
    let rows =
        column(&mut cluster.nodes[0].connect(), &format!("SELECT id FROM {table} ORDER BY id"));
    let mut ids: Vec<i64> =
        received.iter().flat_map(|session| &session.ids).copied().chain(before).collect();
    ids.sort_unstable();
    assert!(rows == ids, "{} rows, {} ids were received", rows.len(), ids.len());
    received
}

#[test]
fn schema_moves_lose_no_rows_and_repeat_no_ids() {
    let cluster = Cluster::start(2);
    distribute_with_triggers(&cluster);
    let mut client = cluster.nodes[0].connect();
    run(&mut client, "CREATE INDEX ON insta5.photos (batch)");
    let mut journal =
        Journal::new("Citus: every insert from every node, while the schema moves", Clock::IN_STEP);
    let received = insert_from_every_node(&cluster, "insta5.photos", || {
        for mode in ["block_writes", "force_logical"].iter().cycle().take(length(8, 100)) {
            cluster.move_schema("insta5", 3 - cluster.node_of("insta5"), mode);
            journal.faults += 1;
        }
        // A rebalance.
        cluster.drain(cluster.node_of("insta5"));
        journal.faults += 1;
    });
    journal.add(received);
    journal.check();
}

/// Tables distributed by a column: every node generates ids of its own shard.
#[test]
fn each_node_generates_own_ids_for_tables_distributed_by_column() {
    let cluster = Cluster::start(2);
    let mut client = cluster.nodes[0].connect();
    run(
        &mut client,
        "SET citus.shard_count = 8;
             CREATE SEQUENCE photo_ids;
             CREATE TABLE photos (id bigint DEFAULT node_next_id('photo_ids'), batch bigint);
             CREATE INDEX ON photos (batch);
             SELECT create_distributed_table('photos', 'id')",
    );
    let received = insert_from_every_node(&cluster, "photos", || {
        std::thread::sleep(length(Duration::from_secs(3), Duration::from_secs(60)));
    });
    let ids: Vec<i64> = received.iter().flat_map(|session| &session.ids).copied().collect();
    let mut of_nodes: BTreeSet<i64> = ids.iter().map(|id| (id >> 10) & 8191).collect();
    println!("{} ids of nodes {of_nodes:?}", ids.len());
    assert_eq!(duplicates(&[ids]), 0);
    assert!((0..3).all(|group| of_nodes.remove(&group)) && of_nodes.is_empty());

    // Each node would generate ids of a fixed shard from its own copy of the sequence, so this is
    // refused.
    run(
        &mut client,
        "SELECT create_shard(7);
             CREATE TABLE fixed (id bigint DEFAULT next_id(7, 'insta7.table_id_seq'), batch bigint);
             SELECT create_distributed_table('fixed', 'id')",
    );
    run(&mut client, "INSERT INTO fixed (batch) VALUES (1), (2)");
    let (code, message, hint) = error_of(
        &mut client,
        "INSERT INTO photos (batch) SELECT next_id(7, 'insta7.table_id_seq') FROM photos",
    );
    assert_eq!(code, "55000", "{message}");
    assert!(message.contains("group 0") && hint.contains("node_next_id()"), "{message}: {hint}");
    let mut worker = cluster.nodes[1].connect();
    assert_eq!(error_of(&mut worker, "INSERT INTO fixed (batch) VALUES (1)").0, "55000");
}

/// The sequence of a serial column belongs to no shard. A role with USAGE on it gets no ids from it
/// that would move a node's counter, and closes no copy.
#[test]
fn usage_moves_no_counter_of_a_node() {
    let cluster = Cluster::start(2);
    run_one_by_one(
        &mut cluster.nodes[0].connect(),
        "CREATE ROLE mal LOGIN;
         CREATE TABLE orders (id bigserial PRIMARY KEY, n int);
         SELECT create_distributed_table('orders', 'id');
         GRANT USAGE ON SEQUENCE orders_id_seq TO mal",
    );
    let states = || -> Vec<String> {
        let state = "SELECT concat_ws(' ', last_value, log_cnt, is_called) FROM orders_id_seq";
        cluster.nodes.iter().map(|node| one(&mut node.connect(), state)).collect()
    };
    let refused = |node: usize, statement: &str| {
        let mut client = cluster.nodes[node].connect_as("mal");
        // With 55000 a worker names the coordinator.
        let (code, message, _) = error_of(&mut client, statement);
        assert!(["42501", "55000"].contains(&&code[..]), "{statement} on {node}: {message}");
    };
    let empty = states();
    (0..3).for_each(|node| refused(node, "SELECT next_id(700, 'orders_id_seq')"));
    assert_eq!(states(), empty);
    for worker in 1..3 {
        let insert = "INSERT INTO orders (n) VALUES (1), (2), (3)";
        run(&mut cluster.nodes[worker].connect(), insert);
    }
    let used = states();
    (0..3).for_each(|node| refused(node, "SELECT next_id(700, 'orders_id_seq')"));
    for worker in 1..3 {
        refused(worker, "SELECT node_next_id('orders_id_seq', '1995-01-01+00')");
    }
    assert_eq!(states(), used);
}

/// Ids are unique and in order whichever way a schema is distributed and wherever it is moved.
#[test]
#[expect(clippy::too_many_lines, reason = "one history of a cluster")]
fn ids_stay_unique_however_schemas_are_distributed() {
    let mut cluster = Cluster::start(1);
    let mut client = cluster.nodes[0].connect();
    run(&mut client, "-- Made as a distributed schema.
             SET citus.enable_schema_based_sharding = on;
             SELECT create_shard(1);
             CREATE TABLE insta1.photos (id bigint PRIMARY KEY DEFAULT insta1.next_id(), batch bigint);
             SELECT convert_defaults_to_triggers(1);
             -- Into one that is there, and has tables.
             CREATE SCHEMA tenant;
             CREATE TABLE tenant.others (id bigint);
             RESET citus.enable_schema_based_sharding;
             SELECT create_shard(2, 'tenant', if_not_exists => true);
             CREATE TABLE tenant.photos (id bigint PRIMARY KEY DEFAULT tenant.next_id(), batch bigint);
             SELECT convert_defaults_to_triggers(2);
             -- With rows, and triggers before that.
             SELECT create_shard(3);
             CREATE TABLE insta3.photos (id bigint PRIMARY KEY DEFAULT insta3.next_id(), batch bigint);
             INSERT INTO insta3.photos SELECT next_id(3), n FROM generate_series(1, 1000) AS n;
             SELECT convert_defaults_to_triggers(3);
             SET citus.enable_unsafe_triggers = on;
             SELECT citus_schema_distribute('insta3');
             RESET citus.enable_unsafe_triggers;
             -- After an hour ahead, where nothing but the sequence knows of the ids.
             SELECT create_shard(4, 'four');
             CREATE TABLE four.photos (id bigint PRIMARY KEY DEFAULT four.next_id(), batch bigint);
             SELECT advance_shard(4, make_id(now() + interval '1 hour', 4, 0));
             SELECT citus_schema_distribute('four');
             SELECT convert_defaults_to_triggers(4);
             -- Nothing to distribute but the shard.
             SELECT create_shard(6)");
    let an_hour_ahead: i64 =
        one(&mut client, "SELECT make_id(now() + interval '50 minutes', 4, 0)");
    let mut ids: Vec<Vec<i64>> = vec![vec![]; 5];
    let shards = ["insta1", "tenant", "insta3", "four"];
    ids[2] = column(&mut client, "SELECT id FROM insta3.photos ORDER BY id");
    ids[3].push(an_hour_ahead);
    let mut round = |cluster: &Cluster| {
        for (shard, schema) in shards.iter().enumerate() {
            for node in &cluster.nodes {
                let insert =
                    format!("INSERT INTO {schema}.photos (batch) VALUES (1), (2) RETURNING id");
                let made = column(&mut node.connect(), &insert);
                assert!(made.iter().all(|id| (id >> 10) & 8191 == shard as i64 + 1), "{made:?}");
                ids[shard].extend(made);
            }
            let home = cluster.node_of(schema);
            ids[shard].push(one(
                &mut cluster.nodes[home].connect(),
                &format!("SELECT {schema}.next_id()"),
            ));
        }
    };
    round(&cluster);
    // A node is added, and all schemas move to it.
    cluster.grow();
    round(&cluster);
    for schema in shards {
        cluster.move_schema(schema, 2, "block_writes");
    }
    round(&cluster);
    // The first node is removed, keeps its copies, and is added again with another group number.
    cluster.call("citus_remove_node", 1).unwrap();
    cluster.add(1);
    for schema in shards {
        cluster.move_schema(schema, 1, "block_writes");
    }
    round(&cluster);
    // A shard without tables belongs to the coordinator.
    ids[4].extend((0..100).map(|_| one::<i64>(&mut client, "SELECT next_id(6)")));
    run(&mut client, "DROP SCHEMA insta6 CASCADE");
    check_unique_and_increasing(&ids);
}

/// The other nodes do not see a shard before the transaction that creates it is committed.
#[test]
fn first_row_of_a_new_shard_needs_a_commit() {
    let cluster = Cluster::start(2);
    let mut client = cluster.nodes[0].connect();
    let create = "BEGIN; SELECT create_shard(5);
        CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), batch bigint);
        SELECT convert_defaults_to_triggers(5)";
    run(&mut client, "SET citus.enable_schema_based_sharding = on");
    run(&mut client, create);
    let (code, message, hint) = error_of(&mut client, INSERT);
    assert!(code == "08000" && hint.contains("Commit first"), "{code} {message}: {hint}");
    run(&mut client, "ROLLBACK");
    run(&mut client, create);
    run(&mut client, "COMMIT");
    check_unique_and_increasing(&[column(&mut client, INSERT)]);
}

/// The error names the node that does not respond; when the node is up again, ids are generated
/// again.
#[test]
fn unreachable_node_blocks_takeover() {
    let cluster = Cluster::start(3);
    let home = distribute_with_triggers(&cluster);
    let [target, third] = [1 + home % 3, 1 + (home + 1) % 3];
    let mut ids = column(&mut cluster.nodes[0].connect(), INSERT);
    cluster.move_schema("insta5", target, "block_writes");
    cluster.nodes[third].stop();
    let (code, message, hint) = error_of(&mut cluster.nodes[target].connect(), INSERT);
    assert_eq!(code, "08000", "{message}");
    assert!(
        message.contains(&cluster.address(third).0)
            && hint.contains("each node must accept a connection"),
        "{message}: {hint}"
    );
    cluster.nodes[third].launch();
    ids.extend(column(&mut cluster.nodes[0].connect(), INSERT));
    // Without a move no other node is needed.
    cluster.nodes[third].stop();
    ids.extend(column(&mut cluster.nodes[target].connect(), INSERT));
    check_unique_and_increasing(&[ids]);
}

/// A third node accepts connections and never answers. Sessions that generate the first id after a
/// move do not ask it one after another: all fail within the limit.
#[test]
fn hanging_node_fails_all_sessions_within_the_limit() {
    let cluster = Cluster::start(3);
    let home = distribute_with_triggers(&cluster);
    let [target, third] = [1 + home % 3, 1 + (home + 1) % 3];
    let mut ids = column(&mut cluster.nodes[0].connect(), INSERT);
    cluster.move_schema("insta5", target, "block_writes");
    let hanging = cluster.nodes[third].hang();
    let started = Instant::now();
    let errors = in_parallel(6, |_| {
        let mut client = cluster.nodes[target].connect();
        run(&mut client, "SET instagram_id.take_over_timeout = '4s'");
        error_of(&mut client, INSERT)
    });
    let elapsed = started.elapsed();
    println!("6 sessions failed after {elapsed:?}");
    assert!(elapsed < Duration::from_millis(5500), "{elapsed:?}: {errors:?}");
    for (code, message, _) in &errors {
        assert!(code == "08000" && message.contains(&cluster.address(third).0), "{message}");
    }
    let of_another = errors.iter().filter(|(_, message, _)| message.contains("Another session"));
    assert!(of_another.count() >= 4, "{errors:?}");
    drop(hanging);
    cluster.nodes[third].launch();
    ids.extend(column(&mut cluster.nodes[0].connect(), INSERT));
    check_unique_and_increasing(&[ids]);
}

/// With `transaction_timeout`.
mod since_17 {
    use super::*;

    /// Sessions end while they take a sequence over, at many moments. Their locks end with them, so
    /// the next session can take the sequence over.
    #[test]
    fn sessions_that_end_leave_no_locks() {
        let cluster = Cluster::start(2);
        let home = distribute(&cluster);
        let mut ids = column(&mut cluster.nodes[home].connect(), "SELECT insta5.next_id()");
        let close = format!("SELECT _close_sequence('insta5.table_id_seq', {}, 1)", 3 - home);
        let mut observer = cluster.nodes[home].connect();
        let mut ended = 0;
        for n in 0..40 {
            run(&mut observer, &close);
            let mut client = cluster.nodes[home].connect();
            run(&mut client, &format!("SET transaction_timeout = '{} ms'", 5 + n));
            ended += i32::from(client.batch_execute("SELECT insta5.next_id()").is_err());
            drop(client);
            let left = "SELECT count(*) FROM pg_locks WHERE pid IS NULL";
            assert_eq!(one::<i64>(&mut observer, left), 0, "in session {n}");
        }
        assert!(ended >= 5, "{ended}");
        ids.extend(column(&mut cluster.nodes[home].connect(), "SELECT insta5.next_id()"));
        check_unique_and_increasing(&[ids]);
    }
}

/// Measures the cost of a call on the node that owns the schema, compared with a server without
/// Citus; of a row whose id a trigger generates, compared with a row that has an id; and of a
/// takeover.
#[test]
#[expect(clippy::too_many_lines, reason = "one measurement after the other on one cluster")]
fn cost_of_ids_on_citus() {
    let cluster = Cluster::start(2);
    let mut home = distribute_with_triggers(&cluster);
    let alone = Server::start(&[("fsync", "off")]);
    setup(&mut alone.connect());
    let mut sessions = [cluster.nodes[home].connect(), alone.connect()];
    let pids = sessions.each_mut().map(|client| one::<i32>(client, "SELECT pg_backend_pid()"));
    let mut least = [f64::MAX; 2];
    for _ in 0..length(15, 60) {
        for (n, (client, pid)) in std::iter::zip(&mut sessions, pids).enumerate() {
            let before = cpu_time(pid);
            run(client, "SELECT count(next_id(5)) FROM generate_series(1, 50000)");
            least[n] = least[n].min((cpu_time(pid) - before).as_secs_f64());
        }
    }
    let ratio = least[0] / least[1];
    println!(
        "CPU time of next_id on the owning node, relative to a server without Citus: {ratio:.3}"
    );
    assert!(ratio < 1.2);

    run(
        &mut cluster.nodes[0].connect(),
        "CREATE TABLE insta5.plain (id bigint PRIMARY KEY, batch bigint)",
    );
    for (node, name) in [(0, "the coordinator"), (home, "the owning node")] {
        let mut client = cluster.nodes[node].connect();
        let by_trigger = client.prepare("INSERT INTO insta5.photos (batch) VALUES ($1)").unwrap();
        let by_client =
            client.prepare("INSERT INTO insta5.plain (batch, id) VALUES ($1, $2)").unwrap();
        let mut id = 0;
        let ratios = (0..length(7, 40)).map(|_| {
            let counts = [true, false].map(|trigger| {
                let started = Instant::now();
                let mut count = 0;
                while started.elapsed() < Duration::from_millis(400) {
                    id += 1;
                    let done = if trigger {
                        client.execute(&by_trigger, &[&id])
                    } else {
                        client.execute(&by_client, &[&id, &(id + (node as i64) * 1_000_000_000)])
                    };
                    assert_eq!(done.unwrap(), 1);
                    count += 1;
                }
                f64::from(count)
            });
            counts[0] / counts[1]
        });
        let ratio = middle(ratios);
        println!(
            "rows a second by way of {name}, by trigger to with an id of their own: {ratio:.3}"
        );
        assert!(ratio > 0.5);
    }
    // In bulk. PostgreSQL inserts rows one by one into a table with a trigger, and in batches
    // without one. An identity column generates its ids on the node that the client is connected
    // to.
    run(
        &mut cluster.nodes[0].connect(),
        "CREATE TABLE insta5.by_identity (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, batch bigint)",
    );
    for (node, name) in [(0, "the coordinator"), (home, "the owning node")] {
        let mut client = cluster.nodes[node].connect();
        let ratios = (0..length(5, 20)).map(|_| {
            let [by_trigger, by_identity] = ["insta5.photos", "insta5.by_identity"].map(|table| {
                run(&mut cluster.nodes[0].connect(), &format!("TRUNCATE {table}"));
                let started = Instant::now();
                copy_rows(&mut client, table, 200_000);
                started.elapsed().as_secs_f64()
            });
            by_trigger / by_identity
        });
        println!(
            "COPY of 200,000 rows by way of {name}, by trigger to identity: {:.3}",
            middle(ratios)
        );
    }

    let first_ids = (0..length(4, 20)).map(|_| {
        home = 3 - home;
        cluster.move_schema("insta5", home, "block_writes");
        let mut client = cluster.nodes[home].connect();
        run(&mut client, "SELECT 1");
        let started = Instant::now();
        next_id(&mut client);
        started.elapsed()
    });
    println!("the first id after a move: {:?}", median(first_ids.collect()));

    // Sequences of many schemas, taken over one by one and together.
    let tenants = length(20, 200);
    let mut client = cluster.nodes[0].connect();
    let mut distribute_tenants = |first: usize| {
        for shard in first..first + tenants {
            for statement in [
                format!("SELECT create_shard({shard})"),
                format!(
                    "CREATE TABLE insta{shard}.photos (id bigint DEFAULT insta{shard}.next_id())"
                ),
                format!("SELECT citus_schema_distribute('insta{shard}')"),
            ] {
                run(&mut client, &statement);
            }
        }
    };
    distribute_tenants(100);
    let mut sessions: Vec<Client> = cluster.nodes.iter().map(Server::connect).collect();
    sessions.iter_mut().for_each(|session| run(session, "SELECT count(*) FROM id_shards"));
    let owners =
        (100..100 + tenants).map(|shard| (shard, cluster.node_of(&format!("insta{shard}"))));
    let owners: Vec<_> = owners.collect();
    let started = Instant::now();
    for (shard, owner) in owners {
        run(&mut sessions[owner], &format!("SELECT next_id({shard})"));
    }
    println!("sequences taken over by next_id: {:?} each", started.elapsed() / tenants as u32);
    distribute_tenants(500);
    let started = Instant::now();
    let rows = sessions[0].query(statement_of_page("take_over_shards()"), &[]).unwrap();
    println!(
        "sequences taken over by take_over_shards: {:?} each",
        started.elapsed() / tenants as u32
    );
    assert!(rows.is_empty(), "{rows:?}");
    for session in &mut sessions {
        assert_eq!(one::<i64>(session, "SELECT count(*) FROM take_over_shards()"), 0);
    }
}

/// Measures how the shards of a lost node continue: one by one and together, and with the setting.
#[test]
fn cost_of_recovery_on_citus() {
    let shards = length(20, 1000);
    let cluster = Cluster::start(4);
    let mut client = cluster.nodes[0].connect();
    for worker in 2..=4 {
        let (host, port) = cluster.address(worker);
        let no_shards =
            format!("SELECT citus_set_node_property('{host}', {port}, 'shouldhaveshards', false)");
        run(&mut client, &no_shards);
    }
    for shard in 1000..1000 + shards {
        for statement in [
            format!("SELECT create_shard({shard})"),
            format!("CREATE TABLE insta{shard}.photos (id bigint DEFAULT insta{shard}.next_id())"),
            format!("SELECT citus_schema_distribute('insta{shard}')"),
        ] {
            run(&mut client, &statement);
        }
    }
    let take_over = statement_of_page("take_over_shards()");
    let recover = statement_of_page("recover => true");
    let one_by_one = "SELECT result FROM id_shards, run_command_on_all_nodes(format('SELECT recover_shard(%s)', shard))
         WHERE NOT success";
    assert!(client.query(take_over, &[]).unwrap().is_empty());
    let setting = "SELECT run_command_on_all_nodes('ALTER DATABASE postgres SET instagram_id.continue_without_lost_nodes = on')";
    for (lost, name, statement) in [
        (1, "take_over_shards(recover => true), 3 nodes to ask", recover),
        (2, "recover_shard, 2 nodes to ask", one_by_one),
        (3, "take_over_shards() with the setting, 1 node to ask", take_over),
    ] {
        // Thousands of moves would take hours, so the shards move in the catalogs only.
        let moved =
            format!("UPDATE pg_dist_placement SET groupid = {} WHERE groupid = {lost}", lost + 1);
        let is_left = |node: &usize| *node == 0 || *node > lost;
        for node in (0..=4).filter(is_left) {
            run(&mut cluster.nodes[node].connect(), &moved);
        }
        cluster.nodes[lost].stop();
        cluster.disable_and_remove(lost, lost + 1);
        if lost == 3 {
            run(&mut client, setting);
            // Sessions from before do not have it.
            (0..=4).filter(is_left).for_each(|node| {
                cluster.nodes[node].stop();
                cluster.nodes[node].launch();
            });
            client = cluster.nodes[0].connect();
        }
        let started = Instant::now();
        let left = client.query(statement, &[]).unwrap();
        println!("{shards} shards of a lost node, {name}: {:?}", started.elapsed());
        assert!(left.is_empty(), "{left:?}");
        let mut owner = cluster.nodes[lost + 1].connect();
        let open = "SELECT count(*) FROM id_shards WHERE can_generate";
        assert_eq!(one::<i64>(&mut owner, open), i64::from(shards));
    }
}

/// Copies this many rows into the column `batch` of a table.
fn copy_rows(client: &mut Client, table: &str, count: usize) {
    let mut writer = client.copy_in(&format!("COPY {table} (batch) FROM STDIN")).unwrap();
    let rows: String = (0..count).map(|row| format!("{row}\n")).collect();
    std::io::Write::write_all(&mut writer, rows.as_bytes()).unwrap();
    assert_eq!(writer.finish().unwrap(), count as u64);
}

/// Citus sends the text of the whole query to the workers, which accept only one statement.
fn run_one_by_one(client: &mut Client, statements: &str) {
    statements.split(';').for_each(|statement| run(client, statement));
}

/// With the event trigger, rows can be inserted into a new table from every node, whatever the tool
/// that created it has said about its key, and whichever node it was created on. A `serial`, and a
/// default that is a partition key, stay.
#[test]
fn new_tables_get_ids_on_every_node() {
    let cluster = Cluster::start(2);
    for node in &cluster.nodes {
        let event_trigger = "CREATE EVENT TRIGGER adopt_new_tables ON ddl_command_end
             WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION adopt_new_tables()";
        run(&mut node.connect(), event_trigger);
    }
    let mut client = cluster.nodes[0].connect();
    run(
        &mut client,
        "SET citus.enable_schema_based_sharding = on;
             SELECT create_shard(7, 'tenant');
             RESET citus.enable_schema_based_sharding",
    );
    for table in [
        "serials (id bigserial PRIMARY KEY)",
        "identities (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
        "references_one (id bigserial PRIMARY KEY, one bigint REFERENCES tenant.serials)",
        "defaults (id bigint PRIMARY KEY DEFAULT tenant.next_id())",
        "parts (id bigserial, at int DEFAULT 1, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "parts_1 PARTITION OF tenant.parts FOR VALUES FROM (0) TO (9)",
        "small (id serial PRIMARY KEY)",
        "by_id (id bigint PRIMARY KEY DEFAULT tenant.next_id()) PARTITION BY RANGE (id)",
    ] {
        run(&mut client, &format!("CREATE TABLE tenant.{table}"));
    }
    let insert_everywhere = || {
        let mut ids = BTreeSet::new();
        for node in &cluster.nodes {
            for table in ["serials", "identities", "references_one", "defaults", "parts"] {
                let insert = format!("INSERT INTO tenant.{table} DEFAULT VALUES RETURNING id");
                assert!(ids.insert(one::<i64>(&mut node.connect(), &insert)), "{table}");
            }
        }
        assert!(ids.iter().all(|id| id >> 10 & 8191 == 7), "{ids:?}");
        ids
    };
    let before = insert_everywhere();
    let home = cluster.node_of("tenant");
    cluster.move_schema("tenant", 1 + home % 2, "force_logical");
    assert!(insert_everywhere().first() > before.last());
    // The triggers that a user knows, the same on every node.
    let triggers =
        "SELECT string_agg(tgrelid::regclass::text, ' ' ORDER BY tgrelid::regclass::text)
         FROM pg_trigger JOIN pg_dist_partition ON logicalrelid = tgrelid
         WHERE tgfoid = 'next_id_trigger'::regproc AND tgparentid = 0";
    for node in &cluster.nodes {
        assert_eq!(
            one::<String>(&mut node.connect(), triggers),
            "tenant.defaults tenant.identities tenant.parts tenant.references_one tenant.serials"
        );
    }
}

/// Rows of tables that are not placed with the schema are not on one node. Such tables get no
/// triggers, and the nodes do not take the sequence from each other row by row.
#[test]
fn tables_that_are_not_placed_with_the_schema_keep_their_defaults() {
    let cluster = Cluster::start(2);
    let mut client = cluster.nodes[0].connect();
    run(&mut client, "SET citus.shard_count = 4;
             SELECT create_shard(7);
             CREATE TABLE insta7.hashed (id bigint DEFAULT insta7.next_id(), batch bigint, PRIMARY KEY (id, batch));
             SELECT create_distributed_table('insta7.hashed', 'batch');
             CREATE TABLE insta7.one (id bigint PRIMARY KEY DEFAULT insta7.next_id(), batch bigint);
             SELECT create_distributed_table('insta7.one', NULL, colocate_with => 'none');
             CREATE TABLE insta7.two (id bigint PRIMARY KEY DEFAULT insta7.next_id(), batch bigint);
             SELECT create_distributed_table('insta7.two', NULL, colocate_with => 'none');
             CREATE TABLE insta7.local (id bigint PRIMARY KEY DEFAULT insta7.next_id(), batch bigint);
             SELECT citus_add_local_table_to_metadata('insta7.local')");
    let converted =
        texts(&mut client, "SELECT table_name::text FROM convert_defaults_to_triggers(7)");
    assert_eq!(converted, ["insta7.local"]);
    run(&mut client, "INSERT INTO insta7.hashed (batch) SELECT generate_series(1, 100)");
    // Rows of a local table are on the coordinator.
    for node in &cluster.nodes {
        run(&mut node.connect(), "INSERT INTO insta7.local (batch) VALUES (1)");
    }
    // A trigger that was created in spite of this refuses the rows on the workers.
    for table in ["hashed", "one", "two"] {
        let create = format!(
            "SET citus.enable_unsafe_triggers = on; ALTER TABLE insta7.{table} ALTER COLUMN id DROP DEFAULT;
             CREATE TRIGGER \"0_assign_id\" BEFORE INSERT ON insta7.{table} FOR EACH ROW WHEN (NEW.id IS NULL)
             EXECUTE FUNCTION next_id_trigger('7', 'id')"
        );
        run_one_by_one(&mut client, &create);
        let insert = format!("INSERT INTO insta7.{table} (batch) VALUES (1)");
        let (code, message, hint) = error_of(&mut client, &insert);
        assert!(
            code == "55000" && message.contains(&format!("insta7.{table}")),
            "{code} {message}"
        );
        assert!(hint.contains("node_next_id('table_ids')"), "{hint}");
        let replace = format!(
            "DROP TRIGGER \"0_assign_id\" ON insta7.{table}; CREATE SEQUENCE {table}_ids;
             ALTER TABLE insta7.{table} ALTER COLUMN id SET DEFAULT node_next_id('{table}_ids')"
        );
        run_one_by_one(&mut client, &replace);
        for node in &cluster.nodes {
            run(&mut node.connect(), &insert);
        }
    }
    let counts =
        texts(&mut client, "SELECT concat(count(*), ' ', count(DISTINCT id)) FROM insta7.hashed");
    assert_eq!(counts, ["103 103"]);
}

/// A role that is no superuser creates the schema first, because Citus creates the sequence on the
/// workers in another connection, which does not see a schema of the same transaction.
#[test]
fn role_without_superuser_creates_a_shard_in_an_existing_schema() {
    let cluster = Cluster::start(1);
    let mut client = cluster.nodes[0].connect();
    run(&mut client, "CREATE ROLE dev LOGIN; GRANT CREATE ON DATABASE postgres TO dev");
    let mut dev = cluster.nodes[0].connect_as("dev");
    assert_eq!(error_of(&mut dev, "SELECT create_shard(5)").0, "3F000");
    run(&mut dev, "CREATE SCHEMA insta5");
    run(&mut dev, "SELECT create_shard(5, if_not_exists => true)");
    next_id(&mut dev);
    assert!(one::<bool>(
        &mut cluster.nodes[1].connect(),
        "SELECT to_regclass('insta5.table_id_seq') IS NOT NULL"
    ));
}

/// A coordinator that is not in pg_dist_node, and a column that was renamed, are named.
#[test]
fn missing_coordinator_and_renamed_column_are_named() {
    let cluster = Cluster::start(1);
    distribute_with_triggers(&cluster);
    let mut client = cluster.nodes[0].connect();
    let insert = "INSERT INTO insta5.photos (batch) VALUES (1)";
    run(&mut client, insert);
    cluster.call("citus_remove_node", 0).unwrap();
    run(&mut client, "SELECT create_shard(9)");
    let (code, message, hint) = error_of(&mut client, "SELECT next_id(9)");
    assert!(code == "55000" && message.contains("not in pg_dist_node"), "{code} {message}");
    assert!(hint.contains("citus_set_coordinator_host"), "{hint}");
    cluster.call("citus_set_coordinator_host", 0).unwrap();
    run(&mut client, "SELECT next_id(9)");

    run(&mut client, "ALTER TABLE insta5.photos RENAME COLUMN id TO photo_id");
    // Also to a client of the node that stores the rows, from which Citus hides their table.
    let [(_, message, hint), of_owner] =
        [0, 1].map(|node| error_of(&mut cluster.nodes[node].connect(), insert));
    assert_eq!(of_owner, ("42703".into(), message.clone(), hint.clone()));
    assert!(message.starts_with("column id of table insta5.photos does"), "{message}");
    assert!(hint.contains("citus.enable_unsafe_triggers"), "{hint}");
    let trigger: String = one(
        &mut client,
        "SELECT quote_ident(tgname) FROM pg_trigger WHERE tgrelid = 'insta5.photos'::regclass AND tgname ~ '_id$'",
    );
    let create = format!(
        "SET citus.enable_unsafe_triggers = on; DROP TRIGGER {trigger} ON insta5.photos;
         CREATE TRIGGER {trigger} BEFORE INSERT ON insta5.photos FOR EACH ROW WHEN (NEW.photo_id IS NULL) EXECUTE FUNCTION next_id_trigger('5', 'photo_id')"
    );
    run_one_by_one(&mut client, &create);
    run(&mut client, insert);
}

/// A node that is down and has a placement of a reference table is disabled before it is removed,
/// as docs/run/citus.md describes. The statement of that page then recovers its shard, and ids
/// continue above those of the lost node.
#[test]
fn lost_node_with_a_reference_table_is_removed() {
    let cluster = Cluster::start(2);
    let home = distribute_with_triggers(&cluster);
    let mut client = cluster.nodes[0].connect();
    run(
        &mut client,
        "CREATE TABLE words (id bigint PRIMARY KEY); SELECT create_reference_table('words')",
    );
    let mut ids = column(&mut client, INSERT);
    // Of this id only its row is left.
    let far_ahead =
        "INSERT INTO insta5.photos VALUES (make_id(now() + interval '3 hours', 5, 0)) RETURNING id";
    ids.extend(column(&mut client, far_ahead));
    let target = 3 - home;
    cluster.move_schema("insta5", target, "block_writes");
    cluster.nodes[home].stop();
    let error = cluster.call("citus_remove_node", home).unwrap_err();
    let state = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
    // Before version 14 a connection exception.
    let (host, _) = cluster.address(home);
    assert!(state.starts_with("08") || why(&error).contains(&host), "{state} {}", why(&error));
    cluster.disable_and_remove(home, target);
    let stuck =
        client.query(statement_of_page("(unreachable|not completed|unknown)"), &[]).unwrap();
    let reasons: Vec<(String, String)> =
        stuck.iter().map(|row| (row.get("nodename"), row.get("result"))).collect();
    let reason = format!("5: not taken over yet, last holder: group {home} (unreachable)");
    assert_eq!(reasons, [(cluster.address(target).0, reason)]);
    let (code, message, hint) = error_of(&mut client, INSERT);
    assert_eq!(code, "55000", "{message}");
    assert!(hint.contains("citus_disable_node()"), "{hint}");
    assert!(hint.contains("run SELECT * FROM take_over_shards(recover => true)"), "{hint}");
    let recover = statement_of_page("recover => true");
    for _ in 0..2 {
        let rows = client.query(recover, &[]).unwrap();
        assert!(rows.is_empty(), "{rows:?}");
    }
    ids.extend(column(&mut client, INSERT));
    check_unique_and_increasing(&[ids]);
}

/// A lost node's shards are recovered by a client of the node that now owns them. Citus hides the
/// tables that store the rows from its queries, but ids continue above the keys in them, also those
/// of partitions.
#[test]
fn recovery_by_a_client_of_the_owning_node_sees_the_keys() {
    let cluster = Cluster::start(2);
    let mut client = cluster.nodes[0].connect();
    let shards = [5, 6, 7, 8];
    [5, 6, 7].into_iter().for_each(|shard| create_tenant(&mut client, shard));
    for statement in [
        "SELECT create_shard(8)",
        "CREATE TABLE insta8.photos (id bigint DEFAULT insta8.next_id(), batch bigint DEFAULT 1)
         PARTITION BY RANGE (batch)",
        "CREATE TABLE insta8.part PARTITION OF insta8.photos FOR VALUES FROM (0) TO (9)",
        "SELECT citus_schema_distribute('insta8')",
        "SELECT convert_defaults_to_triggers(8)",
    ] {
        run(&mut client, statement);
    }
    let mut ids = shards.map(|shard| {
        let schema = format!("insta{shard}");
        if cluster.node_of(&schema) == 2 {
            cluster.move_schema(&schema, 1, "block_writes");
        }
        let mut ids = column(&mut client, &insert_into(shard));
        // Of this id only its row is left.
        let far_ahead = format!(
            "INSERT INTO {schema}.photos VALUES (make_id(now() + interval '3 hours', {shard}, 0))
             RETURNING id"
        );
        ids.extend(column(&mut client, &far_ahead));
        cluster.move_schema(&schema, 2, "block_writes");
        ids
    });
    cluster.nodes[1].stop();
    cluster.disable_and_remove(1, 2);
    let mut owner = cluster.nodes[2].connect();
    run(&mut owner, "SELECT recover_shard(5)");
    ids[0].extend(column(&mut owner, &insert_into(5)));
    run(&mut owner, "SET instagram_id.continue_without_lost_nodes = on");
    ids[1].extend(column(&mut owner, &insert_into(6)));
    run(&mut owner, "RESET instagram_id.continue_without_lost_nodes");
    let recover = "SELECT reason FROM take_over_shards(recover => true) WHERE reason IS NOT NULL";
    assert_eq!(texts(&mut owner, recover), [""; 0]);
    for (ids, shard) in ids.iter_mut().zip(shards) {
        ids.extend(column(&mut client, &insert_into(shard)));
    }
    check_unique_and_increasing(&ids);
}

/// Adds a standby of node 1, and promotes it with a part of the schemas of that node.
fn promote_clone(cluster: &mut Cluster) {
    let mut client = cluster.nodes[0].connect();
    let clone = Server::start_standby_of(&cluster.nodes[1]);
    // Citus finds a standby by the name that it sends.
    let name = clone.path().display().to_string();
    run(&mut clone.connect(), &format!("ALTER SYSTEM SET cluster_name = '{name}'"));
    clone.stop();
    clone.launch();
    cluster.nodes.push(clone);
    let (worker, _) = cluster.address(1);
    cluster.nodes[1].wait_until(&format!(
        "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming')"
    ));
    let add = format!("SELECT citus_add_clone_node('{name}', 5432, '{worker}', 5432)");
    let node: i32 = one(&mut client, &add);
    run(&mut client, &format!("SELECT citus_promote_clone_and_rebalance({node})"));
}

/// A standby of a worker is promoted with a part of the worker's schemas. Its copies are those of
/// the worker's group, and generate no ids until Citus has sent its metadata to the node. Then the
/// ids continue above those of the worker. If Citus does so again, it leaves the copies as they
/// are.
#[test]
fn promoted_clone_takes_sequences_over() {
    let mut cluster = Cluster::start(1);
    let mut client = cluster.nodes[0].connect();
    run_one_by_one(
        &mut client,
        "CREATE SEQUENCE node_ids; CREATE TABLE events (id bigint DEFAULT node_next_id('node_ids'));
         SELECT create_distributed_table('events', 'id')",
    );
    let shards = [5, 6, 7, 8, 9, 10, 11, 12];
    let mut ids = shards.map(|shard| {
        create_tenant(&mut client, shard);
        // The later ones generate no id before.
        let of_worker = AN_HOUR_AHEAD.replace('5', &shard.to_string());
        let advance = || one::<i64>(&mut cluster.nodes[1].connect(), &of_worker);
        Vec::from_iter((shard < 9).then(advance))
    });
    promote_clone(&mut cluster);
    let moved: Vec<i32> =
        shards.into_iter().filter(|shard| cluster.node_of(&format!("insta{shard}")) == 2).collect();
    assert!(
        moved.iter().any(|shard| *shard < 9) && moved.iter().any(|shard| *shard > 8),
        "{moved:?}"
    );
    let node_id = "SELECT node_next_id('node_ids')";
    let of_clone = error_of(&mut cluster.nodes[2].connect(), node_id);
    for shard in &moved {
        let (code, message, hint) = error_of(&mut client, &insert_into(*shard));
        assert_eq!(code, "55000", "{message}");
        assert_eq!(hint, of_clone.2);
    }
    let mut clone = cluster.nodes[2].connect();
    let take_over = "SELECT reason FROM take_over_shards() WHERE reason IS NOT NULL";
    let reasons = texts(&mut clone, take_over);
    assert_eq!(reasons.len(), moved.len(), "{reasons:?}");
    let sync = "SELECT start_metadata_sync_to_all_nodes()";
    assert!(of_clone.2.contains(sync) && CITUS_PAGE.contains(sync), "{}", of_clone.2);
    run(&mut client, sync);
    assert_eq!(texts(&mut clone, take_over), [""; 0]);
    assert_eq!(one::<i64>(&mut clone, node_id) >> 10 & 8191, 2);
    for _ in 0..2 {
        for (ids, shard) in ids.iter_mut().zip(shards) {
            ids.extend(column(&mut client, &insert_into(shard)));
        }
        for shard in &moved {
            let of_clone =
                AN_HOUR_AHEAD.replace('5', &shard.to_string()).replace("1 hour", "2 hours");
            ids[*shard as usize - 5].push(one(&mut clone, &of_clone));
        }
        // Citus does not begin the copies anew.
        run(&mut client, sync);
    }
    check_unique_and_increasing(&ids);
}

/// A node without Citus's metadata does not know that its sequences are copies. They are refused by
/// their range, with the statement that sends the metadata.
#[test]
fn node_without_metadata_names_the_way_back() {
    let cluster = Cluster::start(2);
    let home = distribute_with_triggers(&cluster);
    let mut client = cluster.nodes[0].connect();
    let mut ids = column(&mut client, INSERT);
    ids.push(one(&mut cluster.nodes[home].connect(), AN_HOUR_AHEAD));
    cluster.call("stop_metadata_sync_to_node", home).unwrap();
    for node in [0, home] {
        let (code, message, hint) = error_of(&mut cluster.nodes[node].connect(), NEXT_ID);
        assert_eq!(code, "55000", "{message}");
        assert!(!hint.contains("ALTER SEQUENCE"), "{hint}");
    }
    let (_, message, hint) = error_of(&mut cluster.nodes[home].connect(), NEXT_ID);
    let sync = "SELECT start_metadata_sync_to_all_nodes()";
    assert!(message.contains(&format!("group {home}")) && hint.contains(sync), "{message} {hint}");
    run(&mut client, sync);
    ids.extend(column(&mut client, INSERT));
    check_unique_and_increasing(&[ids]);
}

/// The original is adopted in a schema of the coordinator, also if the transaction ends at once.
/// Citus stores the rows of distributed tables elsewhere. So these are refused, because a key in
/// them can be greater than the new ids.
#[test]
fn what_is_distributed_is_not_adopted() {
    let cluster = Cluster::start(1);
    let mut client = cluster.nodes[0].connect();
    for shard in [5, 6] {
        let schema = format!("insta{shard}");
        for statement in [
            format!("CREATE SCHEMA {schema}"),
            format!("CREATE SEQUENCE {schema}.table_id_seq"),
            original_function(&schema, shard, ORIGINAL_EPOCH_MS),
            format!(
                "CREATE TABLE {schema}.photos
                 (id bigint PRIMARY KEY DEFAULT {schema}.next_id(), batch bigint)"
            ),
        ] {
            run(&mut client, &statement);
        }
    }
    let insert = "INSERT INTO insta5.photos (batch) VALUES (1) RETURNING id";
    let mut ids = column(&mut client, insert);
    run(&mut client, "SELECT adopt_shard(5)");
    ids.extend(column(&mut client, insert));
    check_unique_and_increasing(&[ids]);

    run(&mut client, "SELECT citus_schema_distribute('insta6')");
    for call in ["adopt_shard(6, dry_run => true)", "adopt_shard(6)"] {
        let (code, message, _) = error_of(&mut client, &format!("SELECT {call}"));
        assert!(
            code == "55000" && message.starts_with("schema insta6 is distributed"),
            "{message}"
        );
    }
    for statement in [
        "SELECT citus_schema_distribute('insta5')",
        "CREATE TABLE insta5.serials (id bigserial PRIMARY KEY)",
        "CREATE SCHEMA elsewhere",
        "CREATE TABLE elsewhere.local (id bigserial PRIMARY KEY)",
        "SELECT citus_add_local_table_to_metadata('elsewhere.local')",
    ] {
        run(&mut client, statement);
    }
    for (table, said) in [
        ("insta5.serials", "schema insta5 is distributed"),
        ("elsewhere.local", "table elsewhere.local is managed by Citus"),
    ] {
        for dry_run in [true, false] {
            let adopt = format!("SELECT adopt_table(5, '{table}', dry_run => {dry_run})");
            let (code, message, _) = error_of(&mut client, &adopt);
            assert!(code == "55000" && message.starts_with(said), "{code} {message}");
        }
    }
}

/// A shard was created before Citus. Rows can be inserted from every node after its schema was
/// distributed, and all nodes have its functions.
#[test]
fn shard_from_before_citus_is_distributed() {
    let cluster = Cluster::start(2);
    let connect = |node: usize| cluster.nodes[node].config("grown").connect(NoTls).unwrap();
    cluster.nodes.iter().for_each(|node| run(&mut node.connect(), "CREATE DATABASE grown"));
    let mut client = connect(0);
    run(
        &mut client,
        "CREATE EXTENSION instagram_id; SELECT create_shard(5);
         CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), batch bigint)",
    );
    let mut ids = column(&mut client, INSERT);
    (0..3).for_each(|node| run(&mut connect(node), "CREATE EXTENSION citus"));
    for node in 0..3 {
        let function = if node == 0 { "citus_set_coordinator_host" } else { "citus_add_node" };
        let (host, port) = cluster.address(node);
        run(&mut client, &format!("SELECT {function}('{host}', {port})"));
    }
    run(&mut client, "SELECT citus_schema_distribute('insta5')");
    run(&mut client, "SELECT convert_defaults_to_triggers(5)");
    let functions = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'insta5'::regnamespace";
    for node in 0..3 {
        ids.extend(column(&mut connect(node), INSERT));
        assert_eq!(one::<i64>(&mut connect(node), functions), 4);
    }
    check_unique_and_increasing(&[ids]);
}

/// A role that can create schemas defines the shard of a tenant that belongs to another role.
/// Inserts get their ids as before.
#[test]
fn a_role_that_defines_the_number_does_not_stop_inserts() {
    let cluster = Cluster::start(2);
    let mut client = cluster.nodes[0].connect();
    run(&mut client, "CREATE ROLE keeper LOGIN; CREATE ROLE mallory LOGIN");
    run(&mut client, "GRANT CREATE ON DATABASE postgres TO keeper, mallory");
    let connect = |node: usize, role: &str| cluster.nodes[node].connect_as(role);
    let mut keeper = connect(0, "keeper");
    for statement in [
        "CREATE SCHEMA insta5",
        "SELECT create_shard(5, if_not_exists => true)",
        "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), batch bigint)",
        "SELECT citus_schema_distribute('insta5')",
        "SELECT convert_defaults_to_triggers(5)",
    ] {
        run(&mut keeper, statement);
    }
    let mut ids = column(&mut keeper, INSERT);
    let rival = "SELECT replace(pg_get_functiondef('insta5.shard_5'::regproc), 'insta5', 'rival')";
    let rival: String = one(&mut client, rival);
    let mut mallory = connect(0, "mallory");
    for statement in [
        "CREATE SCHEMA rival",
        "CREATE SEQUENCE rival.table_id_seq",
        &rival,
        "GRANT USAGE ON SCHEMA rival TO PUBLIC",
        "GRANT USAGE ON SEQUENCE rival.table_id_seq TO PUBLIC",
    ] {
        run(&mut mallory, statement);
    }
    assert_eq!(error_of(&mut keeper, "SELECT next_id(5)").0, "42725");
    for node in 0..3 {
        ids.extend(column(&mut connect(node, "keeper"), INSERT));
        ids.extend(column(&mut cluster.nodes[node].connect(), INSERT));
    }
    cluster.move_schema("insta5", 3 - cluster.node_of("insta5"), "block_writes");
    ids.extend(column(&mut keeper, INSERT));
    check_unique_and_increasing(&[ids]);
}

/// With the setting, a node that has no part in a move can be down, and ids continue by themselves
/// above those in the tables after the last holder was removed.
#[test]
fn ids_continue_without_lost_nodes_with_the_setting() {
    let cluster = Cluster::start(3);
    let home = distribute_with_triggers(&cluster);
    let mut client = cluster.nodes[0].connect();
    let set = statement_of_page("continue_without_lost_nodes");
    run(&mut client, &set.replace("DATABASE app", "DATABASE postgres"));
    // Sessions from before, also those between the nodes, do not have it.
    for node in &cluster.nodes {
        node.stop();
        node.launch();
    }
    let mut client = cluster.nodes[0].connect();
    let mut ids = column(&mut client, INSERT);
    let [target, third] = [1, 2, 3]
        .into_iter()
        .filter(|node| *node != home)
        .collect::<Vec<usize>>()
        .try_into()
        .unwrap();
    cluster.move_schema("insta5", target, "block_writes");
    cluster.nodes[third].stop();
    let started = Instant::now();
    ids.extend(column(&mut client, INSERT));
    println!("first id while a third node is down: {:?}", started.elapsed());
    assert!(lead(&mut client, ids[1]) < 1.0, "as after the loss of the last holder");
    cluster.nodes[third].launch();
    ids.extend(column(
        &mut client,
        "INSERT INTO insta5.photos VALUES (make_id(now() + interval '3 hours', 5, 0)) RETURNING id",
    ));
    cluster.move_schema("insta5", home, "block_writes");
    cluster.nodes[target].stop();
    let (code, message, _) = error_of(&mut client, INSERT);
    assert!(code == "08000" && message.contains(&cluster.name(target)), "{code} {message}");
    cluster.disable_and_remove(target, home);
    let started = Instant::now();
    ids.extend(column(&mut client, INSERT));
    println!("first id without the last holder: {:?}", started.elapsed());
    check_unique_and_increasing(&[ids]);
}

const CITUS_PAGE: &str = include_str!("../../docs/run/citus.md");

/// The block of docs/run/citus.md that contains this text.
fn statement_of_page(text: &str) -> &'static str {
    blocks(CITUS_PAGE, "sql").into_iter().find(|block| block.contains(text)).unwrap()
}

#[test]
fn examples_of_the_pages_run() {
    const DETAILS: &str = include_str!("../../docs/inside/citus.md");
    let cluster = Cluster::start(2);
    cluster.nodes.iter().for_each(|node| run(&mut node.connect(), "CREATE DATABASE app"));
    for (page, blocks) in [(CITUS_PAGE, 5), (DETAILS, 5)] {
        run_page(page, blocks, &mut [("", cluster.nodes[0].connect())]);
    }
}

/// A node leaves the cluster before the new node has read its last value: no id is generated that
/// the lost node may have issued, until `advance_shard` sets where to continue.
#[test]
fn lost_node_blocks_takeover_until_advance_shard() {
    let cluster = Cluster::start(3);
    let mut coordinator = cluster.nodes[0].connect();
    let mut ids = vec![];
    let first = distribute_with_triggers(&cluster);
    for disable in [true, false] {
        let home = cluster.node_of("insta5");
        let target = (1..=3).find(|node| *node != home && (disable || *node != first)).unwrap();
        let mut on_owner = cluster.nodes[home].connect();
        ids.push(one(&mut on_owner, AN_HOUR_AHEAD));
        ids.extend(column(&mut on_owner, INSERT));
        drop(on_owner);
        cluster.move_schema("insta5", target, "block_writes");
        if disable {
            cluster.disable(home);
        } else {
            cluster.call("citus_remove_node", home).unwrap();
        }
        // However often it is tried. In the second round the schema has been on another node in
        // between.
        for _ in 0..2 {
            let (code, message, hint) = error_of(&mut coordinator, INSERT);
            assert_eq!(code, "55000", "{message}");
            assert!(
                message.contains(&format!("group {home}")) && hint.contains("advance_shard()"),
                "{message}: {hint}"
            );
        }
        if disable {
            cluster.call("citus_activate_node", home).unwrap();
        } else {
            let advance = format!("SELECT advance_shard(5, {})", ids.last().unwrap());
            run(&mut cluster.nodes[target].connect(), &advance);
        }
        ids.extend(column(&mut coordinator, INSERT));
    }
    check_unique_and_increasing(&[ids]);
}

/// On each node the view shows the shards that can be generated there: first those that this node
/// is to take over, with the reason, and then also these.
#[test]
fn view_shows_which_node_can_generate_ids() {
    let cluster = Cluster::start(2);
    let home = distribute(&cluster);
    run(&mut cluster.nodes[0].connect(), "SELECT create_shard(9)");
    for (number, node) in cluster.nodes.iter().enumerate() {
        let mut client = node.connect();
        let shards_where = |client: &mut Client, condition: &str| {
            column(
                client,
                &format!("SELECT shard::int8 FROM id_shards WHERE {condition} ORDER BY shard"),
            )
        };
        let on_this_node = |shards: &[(i64, usize)]| -> Vec<i64> {
            shards.iter().filter(|(_, at)| *at == number).map(|(shard, _)| *shard).collect()
        };
        assert_eq!(shards_where(&mut client, "can_generate"), [0; 0], "node {number}");
        let to_take_over = "reason LIKE 'not taken over yet%'";
        assert_eq!(
            shards_where(&mut client, to_take_over),
            on_this_node(&[(5, home), (9, 0)]),
            "node {number}"
        );
        run(
            &mut client,
            &format!("SELECT next_id(shard) FROM id_shards WHERE can_generate OR {to_take_over}"),
        );
        assert_eq!(
            shards_where(&mut client, "can_generate"),
            on_this_node(&[(5, home), (9, 0)]),
            "node {number}"
        );
    }
}

/// Errors of Citus, and missing privileges, are reported with their cause.
#[test]
#[allow(clippy::too_many_lines)] // one scenario
fn errors_name_the_obstacle() {
    let cluster = Cluster::start(2);
    let home = distribute_with_triggers(&cluster);
    let mut coordinator = cluster.nodes[0].connect();
    run(&mut coordinator, "CREATE TABLE insta5.days (id bigint DEFAULT insta5.next_id(), n int) PARTITION BY RANGE (id);
             CREATE TABLE insta5.all_days PARTITION OF insta5.days DEFAULT;
             CREATE TABLE insta5.words (id text DEFAULT insta5.next_id(), n int)");
    // These keep their defaults, which work on the node that owns the schema.
    assert!(
        column(&mut coordinator, "SELECT 1::int8 FROM convert_defaults_to_triggers(5)").is_empty()
    );
    let mut on_owner = cluster.nodes[home].connect();
    run(
        &mut on_owner,
        "INSERT INTO insta5.days (n) VALUES (1); INSERT INTO insta5.words (n) VALUES (1)",
    );
    assert_eq!(error_of(&mut coordinator, "INSERT INTO insta5.days (n) VALUES (1)").0, "55000");
    // node_next_id refuses the sequence of a shard.
    for node in &cluster.nodes {
        let (code, message, _) =
            error_of(&mut node.connect(), "SELECT node_next_id('insta5.table_id_seq')");
        assert_eq!(
            (&*code, &*message),
            ("55000", "sequence insta5.table_id_seq is used by next_id()")
        );
    }
    // A role that cannot connect to the other nodes, though it has the privileges needed there.
    run(&mut coordinator, "CREATE ROLE nobody; GRANT USAGE ON SCHEMA insta5 TO nobody;
             GRANT USAGE, UPDATE ON SEQUENCE insta5.table_id_seq TO nobody; GRANT INSERT ON insta5.photos TO nobody");
    cluster.move_schema("insta5", 3 - home, "block_writes");
    let mut on_owner = cluster.nodes[3 - home].connect();
    run(&mut on_owner, "SET ROLE nobody");
    let (code, message, _) = error_of(&mut on_owner, NEXT_ID);
    assert!(code == "08000" && message.contains("made as role nobody"), "{message}");
    run(&mut on_owner, "RESET ROLE");
    next_id(&mut on_owner);
    run(&mut on_owner, "SET ROLE nobody");
    next_id(&mut on_owner);
    // A role with only USAGE queries the other nodes as the owner of the sequence, and cannot close
    // their copies.
    run(
        &mut coordinator,
        "REVOKE UPDATE ON SEQUENCE insta5.table_id_seq FROM nobody; CREATE ROLE app LOGIN; GRANT nobody TO app",
    );
    cluster.move_schema("insta5", home, "block_writes");
    let mut on_owner = cluster.nodes[home].connect();
    run(&mut on_owner, "SET ROLE nobody");
    next_id(&mut on_owner);
    for node in &cluster.nodes {
        let mut app = node.connect_as("app");
        run(&mut app, "INSERT INTO insta5.photos (batch) VALUES (1)");
        let close = |group| format!("SELECT _close_sequence('insta5.table_id_seq', {group}, 1)");
        let (code, message, _) = error_of(&mut app, &close(77));
        assert_eq!((&*code, &*message), ("22023", "group 77 has no node"));
        assert_eq!(error_of(&mut app, &close(0)).0, "42501");
        run(&mut app, "INSERT INTO insta5.photos (batch) VALUES (1)");
    }
}

/// The trigger runs for each copy of a row. Tables whose rows have several copies get no trigger,
/// and a table with the trigger that becomes such a table refuses rows without an id.
#[test]
fn tables_with_several_copies_of_rows_get_no_trigger() {
    let cluster = Cluster::start(2);
    let mut client = cluster.nodes[0].connect();
    run(
        &mut client,
        "SELECT create_shard(7);
             CREATE TABLE insta7.before (id bigint PRIMARY KEY DEFAULT insta7.next_id(), name text);
             SELECT create_reference_table('insta7.before');
             CREATE TABLE insta7.local (id bigint PRIMARY KEY DEFAULT insta7.next_id(), name text)",
    );
    let converted =
        texts(&mut client, "SELECT table_name::text FROM convert_defaults_to_triggers(7)");
    assert_eq!(converted, ["insta7.local"], "the reference table keeps its default");
    run(&mut client, "INSERT INTO insta7.before (name) VALUES ('one id for all copies')");
    run(&mut client, "DROP TABLE insta7.before; CREATE TABLE insta7.after (id bigint PRIMARY KEY DEFAULT insta7.next_id(), name text);
             SELECT convert_defaults_to_triggers(7); SET citus.enable_unsafe_triggers = on;
             SELECT create_reference_table('insta7.after')");
    let (code, message, _) =
        error_of(&mut client, "INSERT INTO insta7.after (name) VALUES ('one for each')");
    assert!(code == "55000" && message.contains("insta7.after"), "{code} {message}");
    run(&mut client, "INSERT INTO insta7.after VALUES (next_id(7), 'one for all')");
}
