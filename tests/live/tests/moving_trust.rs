//! Tests of the rule of trust: a shard moves only if every role that can put code into its schema
//! has the rights of the command's role, or is trusted.

use crate::moving::{
    GIVE_AWAY, HAS_SCHEMA, IS_CLOSED, MOVES, NOTHING, Servers, WAITS, fill, kill_group, leftovers,
    move_blocked_after_copy, move_with_stopped_writes, outcome,
};
use instagram_id_live::*;
use postgres::{Client, NoTls};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

/// Shard 5 belongs to `keeper`, which the map trusts on both servers. Nobody trusts `evil`.
fn start() -> Servers {
    let servers = Servers::start();
    for server in [&servers.a, &servers.b] {
        let roles = "CREATE ROLE keeper LOGIN; CREATE ROLE evil LOGIN; GRANT CREATE ON DATABASE postgres TO keeper, evil";
        run(&mut server.connect(), roles);
    }
    run(&mut servers.a.connect(), &GIVE_AWAY.replace("attacker", "keeper"));
    trust(&servers, "keeper");
    servers
}

/// Makes the map trust these roles on both servers.
fn trust(servers: &Servers, roles: &str) {
    let update = format!("UPDATE shard_map.servers SET trusted = '{{{roles}}}'");
    run(&mut servers.map(), &update);
}

/// The exit status of a check, and what it said.
fn check(servers: &Servers, options: &[&str]) -> (Option<i32>, String) {
    finish(servers, &[&["check", "5", "--to", "b"], options].concat())
}

/// The exit status of a command, and what it said.
fn finish(servers: &Servers, arguments: &[&str]) -> (Option<i32>, String) {
    let output = servers.b.shards_command(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
    (output.status.code(), said)
}

/// A session of the owner of the shard on a.
fn keeper(servers: &Servers) -> Client {
    servers.a.config("postgres").user("keeper").connect(NoTls).unwrap()
}

/// Functions of keeper, which write to the server's log if the command calls one.
const TRAPS: &str = "CREATE SCHEMA trap;
    CREATE FUNCTION trap.spring() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
        RAISE LOG 'trapped: %', current_user; RETURN 5; END $$;
    CREATE FUNCTION trap.steady() RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN trap.spring(); END';
    CREATE FUNCTION trap.restriction() RETURNS int IMMUTABLE LANGUAGE plpgsql AS
        $$ BEGIN RAISE LOG '% may not read: %', current_user, current_setting('restrict_nonsystem_relation_kind'); RETURN 1; END $$;
    CREATE FUNCTION trap.closed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'";

#[track_caller]
fn assert_not_trapped(servers: &Servers) {
    let log = servers.a.log();
    assert!(!log.contains("trapped: postgres"), "the command has run code of keeper");
}

/// Whether a check is refused for this reason.
fn is_refused(servers: &Servers, options: &[&str], reason: &str) -> bool {
    let (status, said) = check(servers, options);
    let is_refused = status == Some(3) && said.contains(reason);
    if !is_refused {
        println!("expected {reason:?}: status {status:?}, {said}");
    }
    is_refused
}

const SIDE: &str = "CREATE SCHEMA side AUTHORIZATION evil; GRANT USAGE ON SCHEMA side TO PUBLIC;
    CREATE FUNCTION side.f(bigint) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
    ALTER FUNCTION side.f OWNER TO evil;";

/// Each right that lets a role put code into the schema, or into an object that it uses, on either
/// server.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of objects")]
fn role_that_can_put_code_into_the_schema_must_be_trusted() {
    let servers = start();
    let domain = format!(
        "{SIDE} CREATE DOMAIN d AS bigint CHECK (side.f(VALUE)); CREATE TABLE insta5.new (id bigint PRIMARY KEY, d d);
         ALTER TABLE insta5.new OWNER TO keeper"
    );
    let function = format!("{SIDE} ALTER TABLE insta5.photos ADD CONSTRAINT c CHECK (side.f(id))");
    let mut cases = vec![
        (
            "a",
            "GRANT CREATE ON SCHEMA insta5 TO evil",
            "REVOKE CREATE ON SCHEMA insta5 FROM evil",
            "has CREATE on schema insta5",
        ),
        (
            "a",
            "GRANT TRIGGER ON insta5.photos TO evil",
            "REVOKE ALL ON insta5.photos FROM evil",
            "has TRIGGER on table insta5.photos",
        ),
        (
            "a",
            "GRANT REFERENCES ON insta5.photos TO evil",
            "REVOKE ALL ON insta5.photos FROM evil",
            "has REFERENCES on table insta5.photos",
        ),
        (
            "a",
            "GRANT REFERENCES (id) ON insta5.photos TO evil",
            "REVOKE ALL (id) ON insta5.photos FROM evil",
            "has REFERENCES on table insta5.photos",
        ),
        ("a", "GRANT keeper TO evil", "REVOKE keeper FROM evil", "is a member of keeper, which "),
        (
            "a",
            "CREATE ROLE team; GRANT keeper TO team; GRANT team TO evil",
            "REVOKE team FROM evil; DROP ROLE team",
            "is a member of keeper, which ",
        ),
        (
            "a",
            "ALTER DATABASE postgres OWNER TO evil",
            "ALTER DATABASE postgres OWNER TO postgres",
            "owns the database",
        ),
        (
            "a",
            "CREATE VIEW insta5.v AS SELECT 1 AS x; ALTER VIEW insta5.v OWNER TO evil",
            "DROP VIEW insta5.v",
            "owns view insta5.v",
        ),
        (
            "a",
            "CREATE VIEW insta5.v AS SELECT 1 AS x; ALTER VIEW insta5.v OWNER TO pg_monitor; GRANT pg_monitor TO evil",
            "DROP VIEW insta5.v; REVOKE pg_monitor FROM evil",
            "is a member of pg_monitor, which owns view insta5.v",
        ),
        (
            "a",
            "CREATE TYPE insta5.t AS (x int); ALTER TYPE insta5.t OWNER TO evil",
            "DROP TYPE insta5.t",
            "owns type insta5.t",
        ),
        (
            "a",
            "CREATE COLLATION insta5.c FROM \"C\"; ALTER COLLATION insta5.c OWNER TO evil",
            "DROP COLLATION insta5.c",
            "owns collation insta5.c",
        ),
        (
            "a",
            "CREATE STATISTICS insta5.s ON id, batch FROM insta5.photos; ALTER STATISTICS insta5.s OWNER TO evil",
            "DROP STATISTICS insta5.s",
            "owns statistics object insta5.s",
        ),
        (
            "a",
            &function,
            "DROP SCHEMA side CASCADE",
            "owns function side.f(bigint), owns schema side",
        ),
        (
            "a",
            &domain,
            "DROP TABLE insta5.new; DROP DOMAIN d; DROP SCHEMA side CASCADE",
            "owns function side.f(bigint), owns schema side",
        ),
        (
            "a",
            "GRANT CREATE ON SCHEMA public TO evil",
            "REVOKE CREATE ON SCHEMA public FROM evil",
            "has CREATE on schema public",
        ),
        (
            "a",
            "ALTER FUNCTION id_seq(bigint) OWNER TO evil",
            "ALTER FUNCTION id_seq(bigint) OWNER TO postgres",
            "owns function public.id_seq(bigint)",
        ),
        (
            "b",
            "GRANT keeper TO evil",
            "REVOKE keeper FROM evil",
            "is a member of keeper, which owns ",
        ),
        (
            "b",
            "GRANT CREATE ON SCHEMA public TO evil",
            "REVOKE CREATE ON SCHEMA public FROM evil",
            "has CREATE on schema public",
        ),
        (
            "b",
            "ALTER DATABASE postgres OWNER TO evil",
            "ALTER DATABASE postgres OWNER TO postgres",
            "owns the database",
        ),
    ];
    if major() >= 16 {
        let admin = "GRANT keeper TO evil WITH ADMIN TRUE, INHERIT FALSE, SET FALSE";
        cases.push(("a", admin, "REVOKE keeper FROM evil", "is a member of keeper, which "));
    } else {
        cases.push((
            "a",
            "ALTER ROLE evil CREATEROLE",
            "ALTER ROLE evil NOCREATEROLE",
            "has CREATEROLE",
        ));
    }
    assert_eq!(check(&servers, &[]).0, Some(0));
    let mut passed = Vec::new();
    for (name, grant, revoke, reason) in cases {
        let server = if name == "a" { &servers.a } else { &servers.b };
        run(&mut server.connect(), grant);
        if !is_refused(&servers, &[], &format!("role evil on {name} is not trusted, but {reason}"))
        {
            passed.push(grant);
        }
        run(&mut server.connect(), revoke);
    }
    let public = "GRANT TRIGGER ON insta5.photos TO PUBLIC";
    run(&mut servers.a.connect(), public);
    if !is_refused(
        &servers,
        &[],
        "role public on a is not trusted, but has TRIGGER on table insta5.photos",
    ) {
        passed.push(public);
    }
    run(&mut servers.a.connect(), "REVOKE ALL ON insta5.photos FROM PUBLIC");
    // The owner of a function is trusted on a, but another role owns it on b.
    let needed = format!(
        "CREATE ROLE friend; {} ALTER TABLE insta5.photos ADD CONSTRAINT c CHECK (side.f(id))",
        SIDE.replace("evil", "keeper")
    );
    run(&mut servers.a.connect(), &needed);
    run(&mut servers.b.connect(), SIDE);
    if !is_refused(
        &servers,
        &[],
        "role evil on b is not trusted, but owns function side.f(bigint), owns schema side",
    ) {
        passed.push("a function on b");
    }
    run(&mut servers.b.connect(), "REASSIGN OWNED BY evil TO keeper");
    assert_eq!(passed, [""; 0]);
    assert_eq!(check(&servers, &[]).0, Some(0));
}

/// Ways in which an owner's code ran with the rights of the command, or changed what others own,
/// although no function in a constraint, index or default of the schema belonged to the owner. Each
/// is refused because of the owner.
#[test]
fn owner_that_is_not_trusted_cannot_move_code() {
    let servers = start();
    trust(&servers, "");
    let side = "SET ROLE keeper; CREATE SCHEMA side; CREATE TYPE side.pair AS (x int);
        CREATE FUNCTION side.f(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
        CREATE DOMAIN side.d AS text CHECK (side.f(VALUE)); CREATE DOMAIN side.n AS bigint CHECK (side.f(VALUE::text));
        CREATE FUNCTION side.sf(side.d, text) RETURNS side.d LANGUAGE sql AS 'SELECT $1'; RESET ROLE;
        CREATE FUNCTION f(bigint) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
        REVOKE EXECUTE ON FUNCTION f FROM PUBLIC; CREATE SEQUENCE precious; GRANT USAGE ON SEQUENCE precious TO keeper";
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), side);
    }
    let mut ways = vec![
        "CREATE AGGREGATE insta5.a(text) (SFUNC = side.sf, STYPE = side.d, INITCOND = 'x')",
        "CREATE STATISTICS insta5.s ON (batch::text || ('x'::side.d)::text), id FROM insta5.photos",
        "CREATE FUNCTION insta5.g(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 1; END';
         CREATE STATISTICS insta5.s ON (insta5.g(id)), batch FROM insta5.photos",
        "CREATE TABLE insta5.new (id bigint PRIMARY KEY, pair side.pair)",
        "CREATE FUNCTION insta5.g(bigint) RETURNS bool IMMUTABLE RETURN true;
         CREATE TABLE insta5.new (id bigint PRIMARY KEY CHECK (insta5.g(id)))",
        "CREATE TABLE insta5.new (id bigint PRIMARY KEY CHECK (public.f(id)))",
        "CREATE TABLE insta5.new (id bigint PRIMARY KEY CHECK (public.advance_shard(6, id) IS NOT NULL))",
        "CREATE TABLE insta5.new (id bigint PRIMARY KEY CHECK (nextval('public.precious') > id))",
    ];
    if major() >= 17 {
        ways.push(
            "CREATE TABLE insta5.new (id bigint PRIMARY KEY, j jsonb CHECK (json_value(j, '$' RETURNING side.n) > 0))",
        );
    }
    let mut passed = Vec::new();
    for way in ways {
        let mut owner =
            servers.a.config("postgres").user("keeper").connect(postgres::NoTls).unwrap();
        if let Err(error) = owner.batch_execute(way) {
            panic!("{way}: {error:?}");
        }
        if !is_refused(&servers, &[], "role keeper on a is not trusted, but owns ") {
            passed.push(way);
        }
        let undo = "DROP AGGREGATE IF EXISTS insta5.a(text); DROP STATISTICS IF EXISTS insta5.s; DROP TABLE IF EXISTS insta5.new;
            DROP FUNCTION IF EXISTS insta5.g";
        run(&mut owner, undo);
    }
    assert_eq!(passed, [""; 0]);
    assert!(is_refused(&servers, &[], "role keeper on b is not trusted, but owns "));
    assert_eq!(one::<i64>(&mut servers.map(), MOVES), 0);
}

/// Whom the command trusts depends on its role on each server.
#[test]
fn trust_depends_on_the_role_of_the_command() {
    let servers = start();
    let roles = "CREATE ROLE other; CREATE ROLE mover LOGIN REPLICATION; CREATE ROLE twice LOGIN REPLICATION;
        ALTER ROLE keeper REPLICATION; GRANT keeper TO mover; GRANT keeper, other TO twice; GRANT pg_monitor TO keeper, mover, twice;
        GRANT CREATE ON DATABASE postgres TO mover, twice";
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), roles);
        if major() >= 16 {
            run(&mut server.connect(), "GRANT pg_create_subscription TO keeper, mover, twice");
        }
    }
    let no_trust = Some("role keeper on a is not trusted, but ");
    let mut wrong = Vec::new();
    for (role, trusted, refused) in [
        ("postgres", "", no_trust),
        (
            "postgres",
            "keeper",
            Some("role mover on a is not trusted, but is a member of keeper, which "),
        ),
        ("postgres", "keeper,mover,twice", None),
        // One moving role for each owner. It is a member of the owner, not the owner one of it.
        ("mover", "", no_trust),
        ("mover", "keeper,twice", None),
        // The owner moves its own shard.
        ("keeper", "mover,twice", None),
        // A role with the rights of several owners: one owner's code could act on the others.
        ("twice", "", no_trust),
        ("twice", "other,mover", no_trust),
        ("twice", "keeper,mover", None),
    ] {
        let target = if major() >= 16 { role } else { "postgres" };
        for (name, server, role) in [("a", &servers.a, role), ("b", &servers.b, target)] {
            let conninfo = format!(
                "host={} dbname=postgres user={role} password=secret",
                server.path().display()
            );
            servers.command(&["server", name, &conninfo]);
            let trusted =
                if role == "postgres" && name == "b" { "keeper,mover,twice" } else { trusted };
            let update = format!(
                "UPDATE shard_map.servers SET trusted = '{{{trusted}}}' WHERE server = '{name}'"
            );
            run(&mut servers.map(), &update);
        }
        let is_right = match refused {
            Some(reason) => is_refused(&servers, &[], reason),
            None => {
                let (status, said) = check(&servers, &[]);
                println!("{role}, {trusted}: {said}");
                status == Some(0)
            }
        };
        if !is_right {
            wrong.push((role, trusted));
        }
    }
    assert_eq!(wrong, []);
}

/// The map and the command line name trusted roles, each for one server.
#[test]
fn trust_is_named_for_a_server() {
    let servers = start();
    trust(&servers, "");
    assert_eq!(check(&servers, &["--trust", "a:keeper", "--trust=b:keeper"]).0, Some(0));
    assert!(is_refused(&servers, &["--trust=a:keeper"], "trust it with --trust b:keeper"));
    assert!(is_refused(&servers, &["--trust=b:keeper"], "trust it with --trust a:keeper"));
    for wrong in ["keeper", "c:keeper", "a"] {
        let (status, said) = check(&servers, &["--trust", wrong]);
        assert!(
            status == Some(1) && said.contains("does not begin with a server of the map"),
            "{said}"
        );
    }
    for (name, server) in [("a", &servers.a), ("b", &servers.b)] {
        let conninfo = format!("host={} user=postgres dbname=postgres", server.path().display());
        servers.command(&[
            "server",
            name,
            &conninfo,
            "--trust",
            "keeper",
            "--trust",
            "it's \"me\"",
        ]);
    }
    assert_eq!(check(&servers, &[]).0, Some(0));
    assert!(servers.command(&["status"]).contains("it's \"me\", keeper"));
    assert!(
        servers.command(&["status", "--json"]).contains(r#""trusted":["it's \"me\"","keeper"]"#)
    );
    // A new connection string may lead to another server, so it replaces the roles, too.
    let conninfo = format!("host={} user=postgres dbname=postgres", servers.a.path().display());
    servers.command(&["server", "a", &conninfo]);
    assert!(is_refused(&servers, &[], "role keeper on a is not trusted, but owns "));
}

/// A role that gets a right after the checks is found before the schema is dumped, before the dump
/// is executed, and before the copy is opened.
#[test]
fn trust_is_checked_again_during_the_move() {
    let servers = start();
    for (name, grant, revoke) in [
        ("a", "GRANT CREATE ON SCHEMA insta5 TO evil", "REVOKE CREATE ON SCHEMA insta5 FROM evil"),
        ("b", "GRANT keeper TO evil", "REVOKE keeper FROM evil"),
    ] {
        let server = if name == "a" { &servers.a } else { &servers.b };
        let mut other = servers.a.connect();
        run(&mut other, "BEGIN; LOCK TABLE pg_publication IN SHARE MODE");
        let command = servers.start_command(&["move", "5", "--to", "b"]);
        servers.a.wait_until(WAITS);
        run(&mut server.connect(), grant);
        run(&mut other, "COMMIT");
        let output = command.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(&format!("role evil on {name} is not trusted, but ")), "{said}");
        assert_eq!(output.status.code(), Some(3), "{said}");
        run(&mut server.connect(), revoke);
        servers.command(&["cancel", "5"]);
    }
    for (name, server) in [("a", &servers.a), ("b", &servers.b)] {
        let (command, mut transaction) = move_blocked_after_copy(&servers, &[]);
        run(&mut server.connect(), "GRANT keeper TO evil");
        run(&mut transaction, "COMMIT");
        let said = outcome(command).expect_err("a refusal");
        assert!(
            said.contains(&format!(
                "role evil on {name} is not trusted, but is a member of keeper"
            )),
            "{said}"
        );
        run(&mut server.connect(), "REVOKE keeper FROM evil");
        servers.command(&["cancel", "5"]);
    }
    assert_eq!(leftovers(&servers.a), NOTHING);
    servers.command(&["move", "5", "--to", "b"]);
}

/// While a command that lets writes continue waits for a lock on one sequence, the owner puts a
/// view in the place of the next one. The command notices it, and evaluates nothing.
#[test]
fn view_in_the_place_of_a_sequence_is_not_read() {
    let servers = start();
    let mut keeper_session = keeper(&servers);
    run(&mut keeper_session, &format!("{TRAPS}; CREATE SEQUENCE insta5.a_seq"));
    let (command, mut other) = move_with_stopped_writes(&servers, 1);
    assert!(!kill_group(command));
    run(&mut other, "COMMIT");
    for command in [&["move", "5", "--to", "b"] as &[&str], &["cancel", "5"]] {
        // A session that the command does not end.
        let mut holder = servers.a.connect();
        run(&mut holder, "BEGIN; ALTER SEQUENCE insta5.a_seq NO CYCLE");
        let command = servers.start_command(command);
        servers.a.wait_until(WAITS);
        run(
            &mut keeper_session,
            "BEGIN; ALTER SEQUENCE insta5.table_id_seq RENAME TO hidden;
             CREATE VIEW insta5.table_id_seq AS SELECT trap.spring() AS last_value; COMMIT",
        );
        run(&mut holder, "ROLLBACK");
        let said = outcome(command);
        assert_not_trapped(&servers);
        let said = said.expect_err("a view");
        let reason = "relation insta5.table_id_seq was replaced by another one";
        assert!(said.contains(reason), "{said}");
        assert!(said.contains("writes to shard 5 may still be stopped"), "{said}");
        assert!(one::<bool>(&mut servers.a.connect(), IS_CLOSED));
        run(
            &mut keeper_session,
            "DROP VIEW insta5.table_id_seq; ALTER SEQUENCE insta5.hidden RENAME TO table_id_seq",
        );
    }
    servers.command(&["cancel", "5"]);
    run(&mut keeper_session, "INSERT INTO insta5.photos DEFAULT VALUES");
}

/// While the rows of the old copy are counted, the owner replaces tables by views.
#[test]
fn view_in_the_place_of_a_table_is_not_counted() {
    let servers = start();
    let mut keeper_session = keeper(&servers);
    let tables: String =
        (1..6).map(|n| format!("; CREATE TABLE insta5.t{n} (id bigint PRIMARY KEY)")).collect();
    run(&mut keeper_session, &format!("{TRAPS}{tables}"));
    let (command, mut other) = move_with_stopped_writes(&servers, 1);
    let mut holder = keeper(&servers);
    run(&mut holder, "BEGIN; LOCK TABLE insta5.counter IN ACCESS EXCLUSIVE MODE");
    run(&mut other, "COMMIT");
    servers.a.wait_until(WAITS);
    for n in 1..6 {
        let replace = format!(
            "BEGIN; ALTER TABLE insta5.t{n} RENAME TO hidden{n}; CREATE VIEW insta5.t{n} AS SELECT trap.spring() AS id; COMMIT"
        );
        run(&mut keeper_session, &replace);
    }
    run(&mut holder, "COMMIT");
    let said = outcome(command);
    assert_not_trapped(&servers);
    let said = said.expect_err("views");
    let reason = "other numbers of rows than the old copy on a has: table insta5.hidden1, ";
    assert!(said.contains(reason), "{said}");
}

/// To plan a query on a table runs functions in its indexes, so `clean` reads the old copy only if
/// its owner is trusted. It does not read what it has not locked, and its session expands no view.
#[test]
fn clean_reads_only_tables_of_trusted_owners_that_it_has_locked() {
    let servers = start();
    servers.command(&["move", "5", "--to", "b"]);
    trust(&servers, "");
    let mut keeper_session = keeper(&servers);
    let index = "CREATE INDEX steady ON insta5.photos ((trap.steady()))";
    run(&mut keeper_session, &format!("{TRAPS}; {index}"));
    let (status, said) = finish(&servers, &["clean", "5"]);
    assert_not_trapped(&servers);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("the old copy cannot be checked on a"), "{said}");
    assert!(said.contains("role keeper on a is not trusted, but owns "), "{said}");
    run(&mut keeper_session, "DROP INDEX insta5.steady");

    // Other tables that look as if they were closed, of which some then become views.
    let clean = ["clean", "5", "--trust", "a:keeper"];
    let mut holder = keeper(&servers);
    run(&mut holder, "BEGIN; LOCK TABLE insta5.photos IN ROW EXCLUSIVE MODE");
    let command = servers.start_command(&clean);
    servers.a.wait_until(WAITS);
    for n in 0..6 {
        let create = format!(
            "CREATE TABLE insta5.t{n} (x int);
             CREATE TRIGGER shard_is_elsewhere BEFORE INSERT ON insta5.t{n} EXECUTE FUNCTION trap.closed();
             ALTER TABLE insta5.t{n} ENABLE ALWAYS TRIGGER shard_is_elsewhere"
        );
        run(&mut keeper_session, &create);
    }
    let mut first = keeper(&servers);
    run(&mut first, "BEGIN; INSERT INTO insta5.t0 VALUES (1)");
    run(&mut holder, "COMMIT");
    for n in 1..6 {
        let replace = format!(
            "DROP TABLE insta5.t{n}; CREATE VIEW insta5.t{n} AS SELECT trap.spring()::text::xid AS xmin"
        );
        run(&mut keeper_session, &replace);
    }
    run(&mut first, "COMMIT");
    let said = outcome(command);
    assert_not_trapped(&servers);
    let said = said.expect_err("new tables");
    assert!(said.contains("table insta5.t0 was not closed by the move"), "{said}");
    assert!(one::<bool>(&mut servers.a.connect(), HAS_SCHEMA));
    run(&mut keeper_session, "DROP VIEW insta5.t1, insta5.t2, insta5.t3, insta5.t4, insta5.t5");

    // A table that is created after the rows were checked is not dropped.
    run(&mut keeper_session, "DROP TABLE insta5.t0");
    run(&mut holder, "BEGIN; SELECT FROM insta5.photos");
    let command = servers.start_command(&clean);
    servers.a.wait_until(WAITS);
    run(&mut keeper_session, "CREATE TABLE insta5.new (x int)");
    run(&mut holder, "COMMIT");
    let said = outcome(command).expect_err("a new table");
    assert!(said.contains("other sessions have changed its tables; run clean again"), "{said}");
    run(&mut keeper_session, "DROP TABLE insta5.new");

    // The code of a trusted owner runs, and sees the setting of the session.
    run(&mut keeper_session, "CREATE INDEX says ON insta5.photos ((trap.restriction()))");
    run(&mut holder, "BEGIN; SELECT FROM insta5.photos");
    let said = servers.refusal(&clean);
    assert!(said.contains("table insta5.photos could not be locked for 10 s"), "{said}");
    run(&mut holder, "COMMIT");
    servers.command(&clean);
    assert!(!one::<bool>(&mut servers.a.connect(), HAS_SCHEMA));
    assert!(servers.a.log().contains("postgres may not read: view,foreign-table"));
}

/// While `cancel` waits for a table, its owner puts a view in its place. LOCK TABLE locks what the
/// view reads, with the rights of the command if it is a security_invoker view. The command keeps
/// none of it locked while it waits for another lock.
#[test]
fn cancel_keeps_no_table_of_others_locked() {
    let servers = start();
    let (command, mut other) = move_blocked_after_copy(&servers, &[]);
    assert!(!kill_group(command));
    run(&mut other, "COMMIT");
    let mut evil = servers.b.config("postgres").user("evil").connect(NoTls).unwrap();
    run(
        &mut servers.b.connect(),
        "CREATE TABLE precious (x int); ALTER TABLE precious OWNER TO evil",
    );
    let of_keeper = || servers.b.config("postgres").user("keeper").connect(NoTls).unwrap();
    let (mut holder, mut owner) = (of_keeper(), of_keeper());
    run(
        &mut owner,
        "CREATE SCHEMA side; CREATE TABLE side.held (x int);
         CREATE VIEW side.counter WITH (security_invoker) AS SELECT 1 AS x FROM public.precious, side.held",
    );
    run(&mut holder, "BEGIN; LOCK TABLE side.held");
    run(&mut owner, "BEGIN; LOCK TABLE insta5.counter");
    let mut command = servers.start_command(&["cancel", "5"]);
    servers.b.wait_until(WAITS);
    run(
        &mut owner,
        "ALTER TABLE insta5.counter RENAME TO hidden; ALTER VIEW side.counter SET SCHEMA insta5; COMMIT",
    );
    run(&mut evil, "SET lock_timeout = '2s'");
    while command.try_wait().unwrap().is_none() {
        run(&mut evil, "SELECT FROM precious");
        thread::sleep(Duration::from_millis(20));
    }
    outcome(command).unwrap();
    assert!(!one::<bool>(&mut servers.b.connect(), HAS_SCHEMA));
}

/// An autovacuum worker of the copy ends if `cancel` needs its lock, although no session waits for
/// that.
#[test]
fn autovacuum_does_not_block_cancel() {
    let servers = start();
    run(
        &mut servers.a.connect(),
        "ALTER TABLE insta5.photos SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)",
    );
    fill(&servers, 20_000);
    let mut b = servers.b.connect();
    run(&mut b, "ALTER SYSTEM SET autovacuum_naptime = 1");
    run(&mut b, "SELECT pg_reload_conf()");
    let (command, mut other) = move_blocked_after_copy(&servers, &[]);
    assert!(!kill_group(command));
    run(&mut other, "COMMIT");
    servers.b.wait_until(
        "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
         WHERE relation = 'insta5.photos'::regclass AND query LIKE 'autovacuum: VACUUM%')",
    );
    servers.command(&["cancel", "5"]);
    assert!(!one::<bool>(&mut b, HAS_SCHEMA));
}

/// A server whose minor release lacks the setting that keeps a session from expanding views.
#[test]
fn server_without_the_setting_is_refused() {
    let servers = start();
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
    let conninfo = format!("host={} user=postgres dbname=postgres", folder.path().display());
    servers.command(&["server", "a", &conninfo]);
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut length = [0; 4];
        client.read_exact(&mut length).unwrap();
        let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut startup).unwrap();
        // The text has the language of the server.
        let message = "Konfigurationsparameter »restrict_nonsystem_relation_kind« unbekannt";
        let fields = format!("SFATAL\0VFATAL\0C42704\0M{message}\0\0");
        client.write_all(b"E").unwrap();
        client.write_all(&(fields.len() as u32 + 4).to_be_bytes()).unwrap();
        client.write_all(fields.as_bytes()).unwrap();
        String::from_utf8(startup).unwrap()
    });
    let (status, said) = check(&servers, &[]);
    assert!(server.join().unwrap().contains("restrict_nonsystem_relation_kind=view,foreign-table"));
    assert_eq!(status, Some(1), "{said}");
    let reason = "server a cannot be reached: the server does not have the setting restrict_nonsystem_relation_kind";
    assert!(said.contains(reason), "{said}");
    assert!(said.contains("HINT: Update PostgreSQL to the newest minor release"), "{said}");
}
