//! Tests of the rule of trust: a shard moves only if every role that can put code into its schema
//! has the rights of the command's role, or is trusted.

use crate::moving::{
    GIVE_AWAY, HAS_SCHEMA, IS_CLOSED, NOTHING, Servers, WAITS, cases, fails, fill, kill_after_copy,
    kill_group, leftovers, lose_slot, move_blocked_after_copy, move_blocked_before_stop,
    move_with_stopped_writes, outcome,
};
use instagram_id_live::*;
use postgres::Client;
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

const CHECK: [&str; 4] = ["check", "5", "--to", "b"];

/// A session of the owner of the shard on a.
fn keeper(servers: &Servers) -> Client {
    servers.a.connect_as("keeper")
}

/// Functions of keeper, which write to the server's log if the command calls one.
const TRAPS: &str = "CREATE SCHEMA trap;
    CREATE FUNCTION trap.spring() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
        RAISE LOG 'trapped: %', current_user; RETURN 5; END $$;
    CREATE FUNCTION trap.steady() RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN trap.spring(); END';
    CREATE FUNCTION trap.restriction() RETURNS int IMMUTABLE LANGUAGE plpgsql AS
        $$ BEGIN RAISE LOG '% may not read: %', current_user, current_setting('restrict_nonsystem_relation_kind'); RETURN 1; END $$;
    CREATE FUNCTION trap.closed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'";

/// A function of evil, to which no object of the schema refers. PostgreSQL stores the default of a
/// new column as a value of the type.
const CAST: &str = "CREATE SCHEMA side; GRANT USAGE ON SCHEMA side TO PUBLIC; CREATE TYPE insta5.mood AS ENUM ('good');
    CREATE FUNCTION side.to_json(insta5.mood) RETURNS json LANGUAGE plpgsql AS $$ BEGIN
        RAISE LOG 'cast by %', current_user; RETURN '1'; END $$;
    ALTER SCHEMA side OWNER TO evil; ALTER FUNCTION side.to_json OWNER TO evil; ALTER TYPE insta5.mood OWNER TO keeper;
    ALTER TABLE insta5.photos ADD mood insta5.mood DEFAULT 'good'";

#[track_caller]
fn assert_not_trapped(servers: &Servers) {
    let log = servers.a.log();
    assert!(!log.contains("trapped: postgres"), "the command has run code of keeper");
}

/// Asserts that a command finds this obstacle. Returns its output.
#[track_caller]
fn assert_obstacle(servers: &Servers, arguments: &[&str], reason: &str) -> String {
    let said = servers.refuses(arguments, reason);
    assert!(said.ends_with("exit status 3"), "{said}");
    said
}

/// Asserts that a check is refused for this reason.
#[track_caller]
fn assert_refused(servers: &Servers, options: &[&str], reason: &str) {
    assert_obstacle(servers, &[&CHECK, options].concat(), reason);
}

/// A schema with a function that the schema of the shard can use.
const SIDE: &str = "CREATE SCHEMA side# AUTHORIZATION evil#; GRANT USAGE ON SCHEMA side# TO PUBLIC;
    CREATE FUNCTION side#.f(bigint) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
    ALTER FUNCTION side#.f OWNER TO evil#;";

/// On which server a role gets a right in the schema or in an object that it uses, how, and what is
/// said of it. # is the number of the row.
const RIGHTS: &str = r#"
    a | GRANT CREATE ON SCHEMA insta5 TO evil# | evil# on a is not trusted, but has CREATE on schema insta5
    a | GRANT TRIGGER ON insta5.photos TO evil# | evil# on a is not trusted, but has TRIGGER on table insta5.photos
    a | GRANT TRIGGER ON insta5.photos TO PUBLIC | public on a is not trusted, but has TRIGGER on table insta5.photos
    a | GRANT REFERENCES ON insta5.photos TO evil# | evil# on a is not trusted, but has REFERENCES on table insta5.photos
    a | GRANT REFERENCES (id) ON insta5.photos TO evil# | evil# on a is not trusted, but has REFERENCES on table insta5.photos
    a | ALTER ROLE evil# NOINHERIT; GRANT keeper TO evil# | evil# on a is not trusted, but is a member of keeper, which @
    a | CREATE ROLE team#; GRANT keeper TO team#; GRANT team# TO evil# | evil# on a is not trusted, but is a member of keeper, which @
    a | CREATE VIEW insta5.v# AS SELECT 1 AS x; ALTER VIEW insta5.v# OWNER TO evil# | evil# on a is not trusted, but owns view insta5.v#
    a | CREATE VIEW insta5.v# AS SELECT 1 AS x; ALTER VIEW insta5.v# OWNER TO pg_monitor; GRANT pg_monitor TO evil# | evil# on a is not trusted, but is a member of pg_monitor, which owns view insta5.v#
    a | CREATE TYPE insta5.t# AS (x int); ALTER TYPE insta5.t# OWNER TO evil# | evil# on a is not trusted, but owns type insta5.t#
    a | CREATE COLLATION insta5.c# FROM "C"; ALTER COLLATION insta5.c# OWNER TO evil# | evil# on a is not trusted, but owns collation insta5.c#
    a | CREATE STATISTICS insta5.s# ON id, batch FROM insta5.photos; ALTER STATISTICS insta5.s# OWNER TO evil# | evil# on a is not trusted, but owns statistics object insta5.s#
    a | SIDE ALTER TABLE insta5.photos ADD CONSTRAINT c# CHECK (side#.f(id)) | evil# on a is not trusted, but owns function side#.f(bigint), owns schema side#
    a | SIDE CREATE DOMAIN d# AS bigint CHECK (side#.f(VALUE)); CREATE TABLE insta5.new# (id bigint PRIMARY KEY, d d#); ALTER TABLE insta5.new# OWNER TO keeper | evil# on a is not trusted, but owns function side#.f(bigint), owns schema side#
    a | CREATE SCHEMA util#; CREATE FUNCTION util#.g(bigint) RETURNS bool IMMUTABLE RETURN true; CREATE FUNCTION util#.g(int) RETURNS bool IMMUTABLE RETURN true; ALTER FUNCTION util#.g(int) OWNER TO evil#; ALTER TABLE insta5.photos ADD CONSTRAINT c# CHECK (util#.g(id)) | evil# on a is not trusted, but owns function util#.g(integer)
    a | CREATE SCHEMA util#; CREATE OPERATOR util#.=== (FUNCTION = int8eq, LEFTARG = bigint, RIGHTARG = bigint); CREATE OPERATOR util#.=== (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int); ALTER OPERATOR util#.=== (int, int) OWNER TO evil#; ALTER TABLE insta5.photos ADD CONSTRAINT c# CHECK (id OPERATOR(util#.===) id) | evil# on a is not trusted, but owns operator util#.===(integer,integer)
    a | CREATE SCHEMA util#; CREATE TYPE util#.m AS ENUM ('a'); CREATE FUNCTION util#.t(util#.m) RETURNS int IMMUTABLE RETURN 1; ALTER FUNCTION util#.t OWNER TO evil#; CREATE CAST (util#.m AS int) WITH FUNCTION util#.t(util#.m); ALTER TABLE insta5.photos ADD m# util#.m | evil# on a is not trusted, but owns function util#.t(util#.m)
    b | GRANT keeper TO evil# | evil# on b is not trusted, but is a member of keeper, which owns @"#;

const SINCE_16: &str = "
    a | GRANT keeper TO evil# WITH ADMIN TRUE, INHERIT FALSE, SET FALSE | evil# on a is not trusted, but is a member of keeper, which @";
const UNTIL_15: &str = "
    a | ALTER ROLE evil# CREATEROLE | evil# on a is not trusted, but has CREATEROLE";

/// The same in the database or the extension. The schema is not looked at before these are gone.
const RIGHTS_IN_DATABASE: &str = "
    a | ALTER DATABASE postgres OWNER TO evil# | evil# on a is not trusted, but owns the database
    a | GRANT CREATE ON SCHEMA public TO evil# | evil# on a is not trusted, but has CREATE on schema public
    a | ALTER FUNCTION id_seq(bigint) OWNER TO evil# | evil# on a is not trusted, but owns function public.id_seq(bigint)
    a | INSERT INTO pg_shdepend SELECT (SELECT oid FROM pg_database WHERE datname = 'postgres'), 'pg_extension'::regclass, oid, 0, 'pg_authid'::regclass, 'evil#'::regrole, 'o' FROM pg_extension WHERE extname = 'instagram_id' | evil# on a is not trusted, but owns extension instagram_id
    b | GRANT CREATE ON SCHEMA public TO evil# | evil# on b is not trusted, but has CREATE on schema public
    b | ALTER DATABASE postgres OWNER TO evil# | evil# on b is not trusted, but owns the database";

/// Each right that lets a role put code into the schema, or into an object that it uses, on either
/// server.
#[test]
fn role_that_can_put_code_into_the_schema_must_be_trusted() {
    let servers = start();
    // The owner of a function is trusted on a, but another role owns it on b.
    let side = SIDE.replace('#', "");
    let needed = format!(
        "{} ALTER TABLE insta5.photos ADD CONSTRAINT c CHECK (side.f(id))",
        side.replace("evil", "keeper")
    );
    run(&mut servers.a.connect(), &needed);
    run(&mut servers.b.connect(), &side);
    let reason =
        "role evil on b is not trusted, but owns function side.f(bigint), owns schema side";
    assert_refused(&servers, &[], reason);
    run(&mut servers.b.connect(), "REASSIGN OWNED BY evil TO keeper");
    // A role that only names the schema puts nothing into it.
    let mut evil = servers.a.connect_as("evil");
    run(&mut evil, "CREATE TEMP VIEW names AS SELECT 'insta5'::regnamespace");
    servers.command(&CHECK);

    for (name, server) in [("a", &servers.a), ("b", &servers.b)] {
        run(&mut server.connect(), "GRANT CREATE ON SCHEMA public TO evil");
        let reason = format!("the shards of server {name} cannot be read");
        assert_obstacle(&servers, &["plan"], &reason);
        run(&mut server.connect(), "REVOKE CREATE ON SCHEMA public FROM evil");
    }
    let of_major = if major() >= 16 { SINCE_16 } else { UNTIL_15 };
    let mut number = 0;
    for rights in [[cases(RIGHTS), cases(of_major)].concat(), cases(RIGHTS_IN_DATABASE)] {
        let mut reasons = Vec::new();
        for [name, grant, reason] in rights {
            number += 1;
            let numbered = |text: &str| text.replace('#', &number.to_string());
            let mut client = if name == "a" { &servers.a } else { &servers.b }.connect();
            run(&mut client, &numbered("CREATE ROLE evil#"));
            run(&mut client, &numbered(&grant.replace("SIDE", SIDE)));
            reasons.push(numbered(&format!("role {}", reason.trim_end_matches('@'))));
        }
        let said = assert_obstacle(&servers, &CHECK, &reasons[0]);
        let missing: Vec<_> = reasons.iter().filter(|reason| !said.contains(*reason)).collect();
        assert!(missing.is_empty(), "{missing:#?}: {said}");
    }
}

/// A role defines shard 5 in a schema of its own.
const DEFINITION: &str = "SET ROLE evil; CREATE SCHEMA evil; CREATE SEQUENCE evil.table_id_seq MAXVALUE 1125899906842623;
    CREATE FUNCTION evil.shard_5(OUT sequence regclass, OUT epoch timestamptz, OUT home text) LANGUAGE sql IMMUTABLE PARALLEL SAFE
        BEGIN ATOMIC SELECT 'evil.table_id_seq'::regclass AS sequence, '2011-08-24 21:07:01.721+00'::timestamptz AS epoch, '1/1'::text AS home; END;
    RESET ROLE";

/// Any role that can create functions can define the number of a shard. The command chooses as the
/// extension does, and names such a function before it stops writes.
#[test]
fn shard_that_another_role_defines_is_named() {
    let servers = start();
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    let drop = "DROP SCHEMA evil CASCADE";
    let several = "has shard 5 in several schemas: evil.shard_5() of role evil, insta5.shard_5() of role keeper: drop";
    run(&mut a, DEFINITION);
    assert_refused(&servers, &[], &format!("server a {several}"));
    run(&mut a, drop);
    run(&mut b, DEFINITION);
    let reason = "server b has a shard 5 already, by evil.shard_5() of role evil: drop that function if no client uses";
    assert_refused(&servers, &[], reason);
    run(&mut b, drop);
    let (command, mut other) = move_blocked_after_copy(&servers, &[]);
    run(&mut b, DEFINITION);
    run(&mut other, "COMMIT");
    let said = fails(command, &format!("server b {several}"));
    assert!(!said.contains("Stopping writes"), "{said}");
    // Then the definition of keeper is that of the owner of the database.
    run(&mut a, DEFINITION);
    run(&mut b, "ALTER DATABASE postgres OWNER TO keeper");
    servers.command(&["move", "5", "--to", "b"]);
    servers.command(&["clean", "5"]);
    run(&mut a, "ALTER DATABASE postgres OWNER TO keeper");
    servers.command(&["check", "5", "--to", "a"]);
}

/// A constraint is validated with the rights of the session. So `check` names the owner, whose code
/// could otherwise use those of a superuser.
fn constraint_is_validated_by_its_owner(servers: &Servers) {
    let mut keeper = keeper(servers);
    run(
        &mut keeper,
        "ALTER TABLE insta5.counter ADD CONSTRAINT positive CHECK (value >= 0) NOT VALID;
         CREATE DOMAIN insta5.small AS int; CREATE TABLE insta5.sizes (id bigint PRIMARY KEY, small insta5.small);
         ALTER DOMAIN insta5.small ADD CONSTRAINT is_small CHECK (VALUE < 5) NOT VALID",
    );
    for statement in [
        "ALTER TABLE insta5.counter VALIDATE CONSTRAINT positive",
        "ALTER DOMAIN insta5.small VALIDATE CONSTRAINT is_small",
    ] {
        assert_refused(servers, &[], &format!(": in a session of role keeper, {statement}"));
        run(&mut keeper, statement);
    }
    servers.command(&CHECK);
}

/// Some sessions of the command have the settings of the database, as those of the replication do.
/// Code of its owner does not run there, even before the owner is named.
fn names_in_the_settings_of_a_database_are_not_used(servers: &Servers) {
    for server in [&servers.a, &servers.b] {
        let traps = "CREATE SCHEMA evil AUTHORIZATION evil; SET ROLE evil;
            CREATE FUNCTION evil.spring(pg_catalog.text) RETURNS bool LANGUAGE plpgsql AS
                $$ BEGIN RAISE LOG 'trapped: %', current_user; RETURN true; END $$;
            CREATE DOMAIN evil.text AS pg_catalog.text CHECK (evil.spring(VALUE)); RESET ROLE;
            ALTER DATABASE postgres OWNER TO evil;
            SET ROLE evil; ALTER DATABASE postgres SET search_path = evil, pg_catalog, public";
        run(&mut server.connect(), traps);
    }
    let reason = "role evil on a is not trusted, but owns the database";
    assert_refused(servers, &[], reason);
    for server in [&servers.a, &servers.b] {
        assert!(!server.log().contains("trapped"), "the command has run code of evil");
    }
}

/// Whom the command trusts depends on its role on each server.
#[test]
fn trust_depends_on_the_role_of_the_command() {
    let servers = start();
    let roles = "CREATE ROLE other; CREATE ROLE mover LOGIN REPLICATION; CREATE ROLE twice LOGIN REPLICATION;
        ALTER ROLE keeper REPLICATION; GRANT keeper TO mover; GRANT keeper, other TO twice; GRANT pg_monitor TO keeper, mover, twice;
        GRANT CREATE ON DATABASE postgres TO mover, twice; ALTER ROLE keeper SET row_security = off;
        ALTER ROLE mover SET row_security = off; ALTER ROLE twice BYPASSRLS";
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), roles);
        if major() >= 16 {
            run(&mut server.connect(), "GRANT pg_create_subscription TO keeper, mover, twice");
        }
    }
    let no_trust = Some("role keeper on a is not trusted, but ");
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
            let trusted =
                if role == "postgres" && name == "b" { "keeper,mover,twice" } else { trusted };
            let folder = server.path().display();
            let update = format!(
                "UPDATE shard_map.servers SET trusted = '{{{trusted}}}',
                    conninfo = 'host={folder} dbname=postgres user={role} password=secret' WHERE server = '{name}'"
            );
            run(&mut servers.map(), &update);
        }
        println!("{role}, {trusted}");
        match refused {
            Some(reason) => assert_refused(&servers, &[], reason),
            None => drop(servers.command(&CHECK)),
        }
    }
}

/// The map and the command line name trusted roles, each for one server.
#[test]
fn trust_is_named_for_a_server() {
    let servers = start();
    trust(&servers, "");
    servers.command(&[&CHECK[..], &["--trust", "a:keeper", "--trust=b:keeper"]].concat());
    assert_refused(&servers, &["--trust=a:keeper"], "trust it with --trust b:keeper");
    assert_refused(&servers, &["--trust=b:keeper"], "trust it with --trust a:keeper");
    for wrong in ["keeper", "c:keeper", "a"] {
        let check = [&CHECK[..], &["--trust", wrong]].concat();
        let said = servers.refuses(&check, "does not begin with a server of the map");
        assert!(said.ends_with("exit status 1"), "{said}");
    }
    servers.command(&["server", "a:keeper", "host=/nowhere"]);
    let check = [&CHECK[..], &["--trust", "a:keeper:x"]].concat();
    servers.refuses(&check, "is ambiguous: several servers have such a name");
    for name in ["a", "b"] {
        let roles = ["--trust", "keeper", "--trust", "it's \"me\""];
        servers.connect_as(name, "postgres", &roles);
    }
    servers.command(&CHECK);
    assert!(servers.command(&["status"]).contains("it's \"me\", keeper"));
    assert!(
        servers.command(&["status", "--json"]).contains(r#""trusted":["it's \"me\"","keeper"]"#)
    );
    // A new connection string may lead to another server, so it replaces the roles, too.
    servers.connect_as("a", "postgres", &[]);
    assert_refused(&servers, &[], "role keeper on a is not trusted, but owns ");

    trust(&servers, "keeper");
    constraint_is_validated_by_its_owner(&servers);
    names_in_the_settings_of_a_database_are_not_used(&servers);
    server_without_the_setting_is_refused(&servers);
}

/// A role that gets a right after the checks is found before the schema is dumped, before the dump
/// is executed, in the schema that it has created, and before the copy is opened. No cast of a
/// column's type runs.
#[test]
fn trust_is_checked_again_during_the_move() {
    let servers = start();
    let Servers { a, b } = &servers;
    run(&mut a.connect(), CAST);
    let rename = |from, to| format!("ALTER FUNCTION trap.{from} RENAME TO {to}");
    for server in [a, b] {
        run(&mut server.connect(), &format!("SET ROLE keeper; {TRAPS}"));
    }
    // CREATE INDEX calls this function.
    run(&mut keeper(&servers), "CREATE INDEX steady ON insta5.photos ((trap.steady()))");
    for (server, change, undo, status, reason) in [
        (
            a,
            "GRANT CREATE ON SCHEMA insta5 TO evil",
            "REVOKE CREATE ON SCHEMA insta5 FROM evil",
            3,
            "role evil on a is not trusted, but has CREATE on schema insta5",
        ),
        (
            b,
            "GRANT keeper TO evil",
            "REVOKE keeper FROM evil",
            3,
            "role evil on b is not trusted, but is a member of keeper",
        ),
        (
            b,
            &rename("steady", "other"),
            &rename("other", "steady"),
            1,
            "the schema has changed: server b has no function trap.steady(), needed for index insta5.steady",
        ),
    ] {
        let mut other = a.connect();
        run(&mut other, "BEGIN; LOCK TABLE pg_publication IN SHARE MODE");
        let command = servers.start_command(&["move", "5", "--to", "b"]);
        a.wait_until(WAITS);
        run(&mut server.connect(), change);
        run(&mut other, "COMMIT");
        let said = outcome(command).expect_err("a refusal");
        assert!(said.contains(reason) && said.ends_with(&format!("status {status}")), "{said}");
        assert!(!b.log().contains("trapped"), "the dump was executed");
        run(&mut server.connect(), undo);
        servers.command(&["cancel", "5"]);
    }
    check_default_privileges(&servers);
    check_trust_before_the_cutover(&servers);
}

/// The dump does not contain these rights, which the copy then has, or lacks.
fn check_default_privileges(servers: &Servers) {
    let mut client = servers.b.connect();
    // MAINTAIN allows all locks on a table. PostgreSQL 17 has added it.
    let more = if major() < 17 { "TRIGGER" } else { "MAINTAIN" };
    let more = format!("GRANT {more} ON TABLES TO evil");
    for (change, undo, named) in [
        ("GRANT SELECT ON TABLES TO evil", "REVOKE ALL ON TABLES FROM evil", "TABLE insta5."),
        (&more, "REVOKE ALL ON TABLES FROM evil", "TABLE insta5."),
        (
            "REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC",
            "GRANT EXECUTE ON FUNCTIONS TO PUBLIC",
            "ROUTINE insta5.epoch(), ",
        ),
    ] {
        run(&mut client, &format!("ALTER DEFAULT PRIVILEGES {change}"));
        let reason = format!("other roles would have other privileges than on a on {named}");
        let said = servers.refuses(&["move", "5", "--to", "b"], &reason);
        assert!(said.ends_with("exit status 1") && !said.contains("Copying rows"), "{said}");
        run(&mut client, &format!("ALTER DEFAULT PRIVILEGES {undo}"));
    }
    servers.command(&["cancel", "5"]);
}

/// A role gets a right after the rows were copied.
fn check_trust_before_the_cutover(servers: &Servers) {
    let Servers { a, b } = servers;
    for (name, server) in [("a", a), ("b", b)] {
        let (command, mut transaction) = move_blocked_after_copy(servers, &[]);
        let mut map = servers.map();
        if name == "b" {
            // The roles of b have been checked once more when the command comes to this.
            run(&mut map, "BEGIN; LOCK TABLE shard_map.moves IN SHARE MODE");
            run(&mut transaction, "COMMIT");
            b.wait_until("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'map' AND wait_event_type = 'Lock')");
        }
        run(&mut server.connect(), "GRANT keeper TO evil");
        run(if name == "b" { &mut map } else { &mut transaction }, "COMMIT");
        fails(command, &format!("role evil on {name} is not trusted, but is a member of keeper"));
        run(&mut server.connect(), "REVOKE keeper FROM evil");
    }
    let (command, mut transaction) = move_blocked_after_copy(servers, &[]);
    let cast = "CREATE CAST (insta5.mood AS json) WITH FUNCTION side.to_json(insta5.mood)";
    run(&mut keeper(servers), cast);
    run(&mut transaction, "COMMIT");
    fails(command, "role evil on a is not trusted, but owns function side.to_json(insta5.mood)");
    assert!(!a.log().contains("cast by"), "the command has run code of evil");
    servers.command(&["cancel", "5"]);
    assert_eq!(leftovers(a), NOTHING);
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
    // To resume writes requires no trust.
    trust(&servers, "");
    for command in [&["move", "5", "--to", "b"] as &[&str], &["cancel", "5"]] {
        // A session that the command does not end.
        let mut holder = servers.a.connect();
        run(&mut holder, "BEGIN; ALTER SEQUENCE insta5.a_seq NO CYCLE");
        let began: String = one(&mut servers.a.connect(), "SELECT clock_timestamp()::text");
        let command = servers.start_command(command);
        // The session of the killed command may still wait as well.
        servers.a.wait_until(&format!(
            "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
             WHERE relation = 'insta5.a_seq'::regclass AND NOT granted AND backend_start > '{began}')"
        ));
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
    let reason = "the old copy cannot be checked on a";
    let said = assert_obstacle(&servers, &["clean", "5"], reason);
    assert_not_trapped(&servers);
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
    fails(command, "relation insta5.new was created meanwhile");
    run(&mut keeper_session, "DROP TABLE insta5.new");

    // The code of a trusted owner runs, and sees the setting of the session.
    run(&mut keeper_session, "CREATE INDEX says ON insta5.photos ((trap.restriction()))");
    run(&mut holder, "BEGIN; SELECT FROM insta5.photos");
    let pid: i32 = one(&mut holder, "SELECT pg_backend_pid()");
    let named = format!(
        "DETAIL: It waits for process {pid} of role keeper with a lock on table insta5.photos (transaction since "
    );
    servers.refuses(&clean, &named);
    run(&mut holder, "COMMIT");
    servers.command(&clean);
    assert!(!one::<bool>(&mut servers.a.connect(), HAS_SCHEMA));
    assert!(servers.a.log().contains("postgres may not read: view,foreign-table"));
}

/// The conninfo of a server is changed during a move, while the subscription goes on. `cancel` does
/// not report success.
fn another_database_is_reported(servers: &Servers) {
    for (name, server) in [("b", &servers.b), ("a", &servers.a)] {
        run(&mut server.connect(), "CREATE DATABASE other");
        run(&mut server.connect_to("other"), "CREATE EXTENSION instagram_id");
        servers.command(&["server", name, &conninfo(server, "other")]);
        let reason = format!("the conninfo of {name} names another database");
        servers.refuses(&["cancel", "5"], &reason);
        servers.connect_as(name, "postgres", &["--trust", "keeper"]);
    }
}

/// While `cancel` waits for a table, its owner puts a view in its place. LOCK TABLE locks what the
/// view reads, with the rights of the command if it is a security_invoker view. The command keeps
/// none of it locked while it waits for another lock.
#[test]
fn cancel_keeps_no_table_of_others_locked() {
    let servers = start();
    kill_after_copy(&servers);
    another_database_is_reported(&servers);
    let mut evil = servers.b.connect_as("evil");
    run(
        &mut servers.b.connect(),
        "CREATE TABLE precious (x int); ALTER TABLE precious OWNER TO evil",
    );
    let of_keeper = || servers.b.connect_as("keeper");
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
    assert_eq!(leftovers(&servers.a), NOTHING);
}

/// An autovacuum worker ends if `cancel` needs its lock, although no session waits for that, or a
/// move, which waits for less than the default of deadlock_timeout.
#[test]
fn autovacuum_blocks_neither_a_move_nor_cancel() {
    let servers = start();
    let vacuums = "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
         WHERE relation = 'insta5.photos'::regclass AND query LIKE 'autovacuum: VACUUM%')";
    let mut a = servers.a.connect();
    run(
        &mut a,
        "ALTER TABLE insta5.photos SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)",
    );
    fill(&servers, 20_000);
    let mut b = servers.b.connect();
    for client in [&mut a, &mut b] {
        run(client, "ALTER SYSTEM SET autovacuum_naptime = 1");
        run(client, "SELECT pg_reload_conf()");
    }
    kill_after_copy(&servers);
    // Nor does a slot that is lost, which ends the move at once.
    lose_slot(&servers);
    servers.refuses(&["move", "5", "--to", "b"], "server a has lost the slot of the move");
    servers.b.wait_until(vacuums);
    servers.command(&["cancel", "5"]);
    assert!(!one::<bool>(&mut b, HAS_SCHEMA));
    assert_eq!(leftovers(&servers.b), NOTHING);
    let (command, mut transaction) =
        move_blocked_before_stop(&servers, &[], "INSERT INTO insta5.counter VALUES (3, 0)");
    run(&mut a, "UPDATE insta5.photos SET batch = 1");
    servers.a.wait_until(vacuums);
    run(&mut transaction, "COMMIT");
    outcome(command).unwrap();
}

/// A server whose minor release lacks the setting that keeps a session from expanding views.
fn server_without_the_setting_is_refused(servers: &Servers) {
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
    let reason = "server a cannot be reached: the server does not have the setting restrict_nonsystem_relation_kind";
    let said = servers.refuses(&CHECK, reason);
    assert!(server.join().unwrap().contains("restrict_nonsystem_relation_kind=view,foreign-table"));
    assert!(said.ends_with("exit status 1"), "{said}");
    assert!(said.contains("HINT: Update PostgreSQL to the newest minor release"), "{said}");
}
