//! Tests of schemas and events during a move that could lose rows, definitions or ids without an
//! error.

use crate::moving::{
    HAS_SCHEMA, IS_CLOSED, NOTHING, Servers, fill, kill_group, leftovers, move_blocked_after_copy,
    move_blocked_before_stop, outcome,
};
use instagram_id_live::*;
use std::thread;
use std::time::Duration;

/// The initial copy reads the tables as the role of the conninfo, and the replication writes as the
/// owner. If a policy applies to one of them, rows are lost.
#[test]
fn row_level_security_that_applies_to_the_move_is_refused() {
    let servers = Servers::start();
    fill(&servers, 1000);
    let setup = "CREATE ROLE keeper; CREATE ROLE mover LOGIN REPLICATION; GRANT keeper, pg_monitor TO mover;
        GRANT CREATE ON DATABASE postgres TO mover";
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), setup);
    }
    let conninfo = format!("host={} dbname=postgres user=mover", servers.a.path().display());
    servers.command(&["server", "a", &conninfo]);
    run(&mut servers.map(), "UPDATE shard_map.servers SET trusted = '{keeper,mover}'");
    let mut a = servers.a.connect();
    run(&mut a, &crate::moving::GIVE_AWAY.replace("attacker", "keeper"));
    run(
        &mut a,
        "ALTER TABLE insta5.photos ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         CREATE POLICY few ON insta5.photos USING (id = 1)",
    );
    let said = servers.run(&["move", "5", "--to", "b"]).expect_err("a refusal");
    assert!(
        said.contains("row-level security of table insta5.photos applies to role mover"),
        "{said}"
    );
    run(&mut a, "ALTER TABLE insta5.photos NO FORCE ROW LEVEL SECURITY");
    servers.command(&["move", "5", "--to", "b"]);
    assert_eq!(one::<i64>(&mut servers.b.connect(), "SELECT count(*) FROM insta5.photos"), 1000);
}

/// Neither a session that bypasses triggers nor a subscription writes to the closed shard on the
/// source.
#[test]
fn replication_role_cannot_write_to_the_closed_source() {
    let servers = Servers::start();
    fill(&servers, 10);
    servers.command(&["move", "5", "--to", "b"]);
    let mut a = servers.a.connect();
    run(&mut a, "SET session_replication_role = replica");
    for statement in [
        "INSERT INTO insta5.photos VALUES (1)",
        "UPDATE insta5.photos SET batch = 1",
        "DELETE FROM insta5.photos",
        "TRUNCATE insta5.photos CASCADE",
    ] {
        assert_eq!(error_of(&mut a, statement).0, "25006", "{statement}");
    }
    // The copy of the next move is closed for clients only: the replication of the command writes
    // to it.
    servers.command(&["clean", "5"]);
    servers.command(&["move", "5", "--to", "a"]);
    assert_eq!(one::<i64>(&mut a, "SELECT count(*) FROM insta5.photos"), 10);
}

/// A prepared transaction that has created a table holds no lock on a table that the move knows.
#[test]
fn prepared_transaction_blocks_the_cutover() {
    let servers = Servers::start_with(&[("max_prepared_transactions", "5")]);
    let (command, mut other) = move_blocked_after_copy(&servers, &[]);
    let mut a = servers.a.connect();
    run(
        &mut a,
        "BEGIN; CREATE TABLE insta5.new (id bigint PRIMARY KEY); PREPARE TRANSACTION 'new'",
    );
    run(&mut other, "COMMIT");
    thread::sleep(Duration::from_secs(1));
    run(&mut a, "COMMIT PREPARED 'new'");
    let said = outcome(command).expect_err("a table that is not in the copy");
    assert!(said.contains("has changed since the move began: table insta5.new;"), "{said}");
    assert!(!one::<bool>(&mut a, IS_CLOSED));
}

/// A sequence that was never used gives its first value once, on the new server.
#[test]
fn sequence_that_was_never_used_gives_its_first_value_once() {
    let servers = Servers::start();
    let mut a = servers.a.connect();
    run(&mut a, "CREATE SEQUENCE insta5.one; CREATE SEQUENCE insta5.three START 3; CREATE SEQUENCE insta5.low MINVALUE -5 START -5;
         SELECT create_shard(7)");
    let sequences = [("one", 1), ("three", 3), ("low", -5)];
    let next = |name: &str| format!("SELECT nextval('insta5.{name}')");
    // Closed and opened again on the source.
    let (command, mut transaction) = move_blocked_before_stop(
        &servers,
        &["--stop", "1"],
        "INSERT INTO insta5.photos VALUES (1)",
    );
    let mut other = servers.b.connect();
    run(&mut other, "BEGIN; LOCK TABLE insta5.photos IN SHARE MODE");
    run(&mut transaction, "COMMIT");
    servers.a.wait_until(IS_CLOSED);
    for (name, _) in sequences {
        assert_eq!(error_of(&mut a, &next(name)).0, "2200H", "{name}");
    }
    outcome(command).expect_err("the target does not catch up");
    run(&mut other, "COMMIT");
    servers.command(&["cancel", "5"]);
    run(&mut a, "CREATE SEQUENCE insta5.used; SELECT nextval('insta5.used')");
    servers.command(&["move", "5", "--to", "b"]);
    for (name, first) in sequences {
        assert_eq!(error_of(&mut a, &next(name)).0, "2200H", "{name}");
        assert_eq!(one::<i64>(&mut servers.b.connect(), &next(name)), first, "{name}");
    }
    assert_eq!(one::<i64>(&mut servers.b.connect(), &next("used")), 2);
    // A shard without an id.
    servers.command(&["place", "a", "7"]);
    servers.command(&["move", "7", "--to", "b"]);
    assert_eq!(error_of(&mut a, "SELECT next_id(7)").0, "25006");
    let first: i64 = one(&mut servers.b.connect(), "SELECT next_id(7)");
    servers.command(&["clean", "7"]);
    servers.command(&["move", "7", "--to", "a"]);
    assert!(one::<i64>(&mut a, "SELECT next_id(7)") > first);
}

/// `clean` drops no rows that were written to the old copy after it was closed, and nothing outside
/// the schema.
#[test]
fn clean_drops_nothing_that_was_not_moved() {
    let servers = Servers::start();
    fill(&servers, 1000);
    let mut a = servers.a.connect();
    run(
        &mut a,
        "CREATE COLLATION insta5.german FROM \"C\"; CREATE TEXT SEARCH CONFIGURATION insta5.words (COPY = simple)",
    );
    servers.command(&["move", "5", "--to", "b"]);
    let mut wrong = Vec::new();
    // Clients have deleted rows on the new server, so a comparison of the numbers of rows would see
    // nothing.
    run(&mut servers.b.connect(), "DELETE FROM insta5.photos WHERE batch > 998");
    for (change, undo, reason) in [
        (
            "ALTER TABLE insta5.photos DISABLE TRIGGER ALL; INSERT INTO insta5.photos VALUES (1);
             ALTER TABLE insta5.photos ENABLE TRIGGER ALL; ALTER TABLE insta5.photos ENABLE ALWAYS TRIGGER shard_is_elsewhere",
            "ALTER TABLE insta5.photos DISABLE TRIGGER shard_is_elsewhere; DELETE FROM insta5.photos WHERE id = 1;
             ALTER TABLE insta5.photos ENABLE ALWAYS TRIGGER shard_is_elsewhere",
            "table insta5.photos was not closed by the move, or was written later",
        ),
        (
            "ALTER TABLE insta5.counter ENABLE TRIGGER shard_is_elsewhere",
            "ALTER TABLE insta5.counter ENABLE ALWAYS TRIGGER shard_is_elsewhere",
            "table insta5.counter was not closed by the move",
        ),
        (
            "CREATE TABLE words (word text COLLATE insta5.german); INSERT INTO words VALUES ('x')",
            "DROP TABLE words",
            "column word of table public.words",
        ),
        (
            "CREATE TABLE texts (t text); CREATE INDEX ON texts USING gin (to_tsvector('insta5.words', t))",
            "DROP TABLE texts",
            "index public.texts_to_tsvector_idx",
        ),
        ("CREATE TABLE child () INHERITS (insta5.photos)", "DROP TABLE child", "table public.child"),
    ] {
        if !one::<bool>(&mut a, HAS_SCHEMA) {
            wrong.push(change);
            continue;
        }
        run(&mut a, change);
        match servers.run(&["clean", "5"]) {
            Err(said) if said.contains(reason) => {}
            result => {
                println!("{change}: {result:?}");
                wrong.push(change);
                // The old copy again.
                if result.is_ok() {
                    servers.command(&["move", "5", "--to", "a"]);
                    servers.command(&["clean", "5"]);
                    servers.command(&["move", "5", "--to", "b"]);
                }
            }
        }
        let _ = a.batch_execute(undo);
    }
    assert_eq!(wrong, [""; 0]);
    servers.command(&["clean", "5"]);
    assert!(!one::<bool>(&mut a, HAS_SCHEMA));
}

/// The rows of the copy, as it was opened, and of the old copy are counted. If their numbers
/// differ, `clean` keeps the old copy, whatever clients have inserted on the new server since.
#[test]
fn row_that_the_copy_lacks_keeps_the_old_copy() {
    let servers = Servers::start();
    let ids = fill(&servers, 1000);
    let (command, mut transaction) =
        move_blocked_before_stop(&servers, &[], "UPDATE insta5.counter SET value = 1");
    let mut b = servers.b.connect();
    let lose = format!("DELETE FROM insta5.photos WHERE id = {}", ids[500]);
    run(
        &mut b,
        &format!("SET session_replication_role = replica; {lose}; RESET session_replication_role"),
    );
    run(&mut transaction, "COMMIT");
    let said = outcome(command).expect_err("a difference");
    assert!(
        said.contains("the copy on b was opened with other numbers of rows than the old copy on a has: table insta5.photos;"),
        "{said}"
    );
    assert_eq!(servers.placement(), "b");
    run(&mut b, "INSERT INTO insta5.photos DEFAULT VALUES");
    servers.command(&["move", "5", "--to", "b"]);
    let said = servers.refusal(&["clean", "5"]);
    let reason = "table insta5.photos has 1000 rows, but the copy on the new server had 999 when it was opened";
    assert!(said.contains(reason), "{said}");
    run(&mut b, &format!("INSERT INTO insta5.photos VALUES ({}, 501)", ids[500]));
    run(&mut servers.a.connect(), "DROP SCHEMA insta5 CASCADE");
    servers.command(&["clean", "5"]);
}

const SCHEMA: &str = "CREATE ROLE reader; CREATE ROLE keeper; GRANT SELECT ON insta5.photos TO reader;
    CREATE TABLE insta5.parts (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE insta5.part PARTITION OF insta5.parts DEFAULT; INSERT INTO insta5.parts VALUES (1);
    CREATE TABLE insta5.left (id bigint PRIMARY KEY, x int); CREATE TABLE insta5.right (id bigint PRIMARY KEY, x int);
    INSERT INTO insta5.left VALUES (1, 1); INSERT INTO insta5.right VALUES (2, 2);
    CREATE INDEX left_x ON insta5.left (x); COMMENT ON INDEX insta5.left_x IS 'kept';
    CREATE VIEW insta5.lefts AS SELECT * FROM insta5.left; CREATE MATERIALIZED VIEW insta5.seen AS SELECT count(*) FROM insta5.lefts";

/// Commands that only rewrite or inspect tables do not disturb a move.
#[test]
fn maintenance_does_not_disturb_a_move() {
    let servers = Servers::start();
    fill(&servers, 1000);
    let mut a = servers.a.connect();
    run(&mut a, SCHEMA);
    run(&mut servers.b.connect(), "CREATE ROLE reader; CREATE ROLE keeper");
    let (command, mut other) = move_blocked_after_copy(&servers, &[]);
    for statement in [
        "ANALYZE",
        "VACUUM insta5.photos",
        "VACUUM (FREEZE) insta5.photos",
        "VACUUM FULL insta5.photos",
        "CLUSTER insta5.photos USING photos_pkey",
        "REINDEX TABLE CONCURRENTLY insta5.photos",
        "REINDEX TABLE CONCURRENTLY insta5.left",
        "REINDEX TABLE insta5.right",
        "TRUNCATE insta5.right",
        "REFRESH MATERIALIZED VIEW insta5.seen",
        "INSERT INTO insta5.left VALUES (3, 3)",
    ] {
        run(&mut a, statement);
    }
    run(&mut other, "COMMIT");
    outcome(command).unwrap();
    let mut b = servers.b.connect();
    assert_eq!(one::<i64>(&mut b, "SELECT count(*) FROM insta5.photos"), 1000);
    assert_eq!(one::<i64>(&mut b, "SELECT count(*) FROM insta5.left"), 2);
    assert_eq!(one::<i64>(&mut b, "SELECT count(*) FROM insta5.right"), 0);
    assert_eq!(one::<i64>(&mut b, "SELECT count FROM insta5.seen"), 1);
    servers.command(&["clean", "5"]);
}

/// Every change of a definition fails the move, on whichever server, and writes continue on the
/// source.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of changes")]
fn change_of_a_definition_fails_the_move() {
    let servers = Servers::start();
    let mut a = servers.a.connect();
    run(&mut a, SCHEMA);
    run(&mut servers.b.connect(), "CREATE ROLE reader; CREATE ROLE keeper");
    run(&mut servers.map(), "UPDATE shard_map.servers SET trusted = '{keeper}'");
    let mut lost = Vec::new();
    for (name, change, named, undo) in [
        (
            "a",
            "REVOKE SELECT ON insta5.photos FROM reader",
            "table insta5.photos",
            "GRANT SELECT ON insta5.photos TO reader",
        ),
        (
            "a",
            "ALTER TABLE insta5.photos ENABLE ROW LEVEL SECURITY",
            "table insta5.photos",
            "ALTER TABLE insta5.photos DISABLE ROW LEVEL SECURITY",
        ),
        (
            "a",
            "CREATE POLICY few ON insta5.photos USING (id = 1)",
            "table insta5.photos",
            "DROP POLICY few ON insta5.photos",
        ),
        (
            "a",
            "ALTER TABLE insta5.parts DETACH PARTITION insta5.part",
            "table insta5.part, table insta5.parts",
            "ALTER TABLE insta5.parts ATTACH PARTITION insta5.part DEFAULT",
        ),
        (
            "a",
            "ALTER TABLE insta5.left OWNER TO keeper",
            "table insta5.\"left\"",
            "ALTER TABLE insta5.left OWNER TO postgres",
        ),
        ("a", "CREATE VIEW insta5.v AS SELECT 1 AS x", "view insta5.v", "DROP VIEW insta5.v"),
        (
            "a",
            "ALTER SCHEMA insta5 OWNER TO keeper",
            "schema insta5",
            "ALTER SCHEMA insta5 OWNER TO postgres",
        ),
        (
            "a",
            "GRANT USAGE ON SCHEMA insta5 TO reader",
            "schema insta5",
            "REVOKE USAGE ON SCHEMA insta5 FROM reader",
        ),
        (
            "a",
            "CREATE FUNCTION insta5.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "function insta5.f()",
            "DROP FUNCTION insta5.f()",
        ),
        (
            "a",
            "ALTER TABLE insta5.left RENAME TO swap; ALTER TABLE insta5.right RENAME TO \"left\"; ALTER TABLE insta5.swap RENAME TO \"right\"",
            "table insta5.\"left\", table insta5.\"right\"",
            "ALTER TABLE insta5.left RENAME TO swap; ALTER TABLE insta5.right RENAME TO \"left\"; ALTER TABLE insta5.swap RENAME TO \"right\"",
        ),
        ("b", "CREATE INDEX extra ON insta5.left (x, id)", "table insta5.\"left\"", ""),
        ("b", "REVOKE SELECT ON insta5.photos FROM reader", "table insta5.photos", ""),
    ] {
        let (command, mut other) = move_blocked_after_copy(&servers, &[]);
        let server = if name == "a" { &servers.a } else { &servers.b };
        run(&mut server.connect(), change);
        run(&mut other, "COMMIT");
        match outcome(command) {
            Err(said)
                if said
                    .contains(&format!("on {name} has changed since the move began: {named}")) =>
            {
                assert!(!one::<bool>(&mut a, IS_CLOSED), "{change}");
                servers.command(&["cancel", "5"]);
            }
            Err(said) => {
                println!("{change}: {said}");
                lost.push(change);
                servers.command(&["cancel", "5"]);
            }
            Ok(_) => {
                lost.push(change);
                servers.command(&["clean", "5"]);
                servers.command(&["move", "5", "--to", "a"]);
                servers.command(&["clean", "5"]);
                let _ = a.batch_execute("ALTER TABLE insta5.photos NO FORCE ROW LEVEL SECURITY");
            }
        }
        if let Err(error) = a.batch_execute(undo) {
            println!("{undo}: {error:?}");
        }
    }
    assert_eq!(lost, [""; 0]);
    assert_eq!(leftovers(&servers.b), NOTHING);
}

/// A change fails the move long before the rows are copied.
#[test]
fn change_of_a_definition_is_noticed_while_rows_are_copied() {
    let servers = Servers::start();
    let mut a = servers.a.connect();
    run(&mut a, SCHEMA);
    run(&mut servers.b.connect(), "CREATE ROLE reader; CREATE ROLE keeper");
    // Blocks the copy of this table, and so the end of the initial copy.
    let mut other = servers.b.connect();
    run(&mut other, "BEGIN; LOCK TABLE pg_subscription_rel IN SHARE MODE");
    let command = servers.start_command(&["move", "5", "--to", "b"]);
    servers.b.wait_until(crate::moving::WAITS);
    assert!(!kill_group(command));
    run(&mut other, "COMMIT");
    run(&mut a, "CREATE TABLE insta5.part1 PARTITION OF insta5.parts FOR VALUES FROM (10) TO (20)");
    let said = servers.refusal(&["move", "5", "--to", "b"]);
    assert!(said.contains("has changed since the move began: table insta5.part1"), "{said}");
    assert!(!said.contains("Stopping writes"), "{said}");
    servers.command(&["cancel", "5"]);
}
