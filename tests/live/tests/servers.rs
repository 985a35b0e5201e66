//! The map of docs/run/servers.md. Its clients are tested in tests/clients.

use instagram_id_live::*;
use std::fs;
use std::thread;
use std::time::Duration;

/// Runs the command with a map on the server. Returns its exit status, and what it said.
fn run(server: &Server, database: &str, arguments: &[&str]) -> (i32, String) {
    run_as(server, "postgres", database, arguments)
}

fn run_as(server: &Server, role: &str, database: &str, arguments: &[&str]) -> (i32, String) {
    let mut command = server.shards_command(arguments);
    let conninfo = format!("host={} user={role} dbname={database}", server.path().display());
    let output = command.env("INSTAGRAM_ID_MAP", conninfo).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

/// A placement is not overwritten silently, and servers without shards can be removed.
#[test]
fn map_is_changed_and_shown() {
    let server = server_with_a_map();
    for (arguments, status, said) in [
        (&["server", "a", "host=/tmp"][..], 0, "==> Recorded server a\n"),
        (&["place", "a", "5", "6"], 0, "==> Recorded on a: 5 6\n"),
        (&["server", "b", "host=/tmp"], 0, "==> Recorded server b\n"),
        (
            &["place", "b", "5"],
            0,
            "==> Recorded on b: 5\nwarning: the map has placed shard 5 on a until now\n",
        ),
        (
            &["remove", "b"],
            1,
            "error: server b has shards in the map, or old copies of shards: move or clean them first\n",
        ),
        (
            &["status", "--shards-of", "a"],
            0,
            "==> Shards by server\nserver  shards  version  trusts\na       1       2\nb       1       4\n==> Moves\n\
             shard  source  target  started  state\n==> Shards of a: 6\n",
        ),
        (&["server", "c", "host=/tmp"], 0, "==> Recorded server c\n"),
        (&["remove", "c"], 0, "==> Removed server c\n"),
        (
            &["remove", "c"],
            1,
            "error: there is no server c in the map; to add it: instagram_id_shards server c CONNINFO\n",
        ),
    ] {
        assert_eq!(run(&server, "map", arguments), (status, said.into()), "{arguments:?}");
    }
}

/// The map's own errors name the way out.
#[test]
fn misuse_of_the_map_is_explained() {
    let server = server_with_a_map();
    server.connect().batch_execute("CREATE DATABASE empty").unwrap();
    let run = |database: &str, arguments: &[&str]| run(&server, database, arguments);
    const NO_MAP: &str =
        "error: this database has no map; to create one: instagram_id_shards init\n";
    for arguments in [
        &["status"][..],
        &["server", "a", "host=/tmp"],
        &["place", "a", "5"],
        &["move", "5", "--to", "b"],
    ] {
        assert_eq!(run("empty", arguments), (1, NO_MAP.into()), "{arguments:?}");
    }
    for (arguments, status, said) in [
        (
            &["init"][..],
            1,
            "error: this database has a map already, which belongs to role postgres\n",
        ),
        (
            &["place", "a", "5"],
            1,
            "error: there is no server a in the map; to add it: instagram_id_shards server a CONNINFO\n",
        ),
        (
            &["server", "a", "nonsense"],
            1,
            "error: the connection string is invalid: missing \"=\" after \"nonsense\" in connection info string\n",
        ),
        (&["server", "a", "postgresql:///app?host=/tmp"], 0, "==> Recorded server a\n"),
        (
            &["place", "a", "8192"],
            2,
            "error: invalid value '8192' for '<SHARD>...': expected the number of a shard, 0 to 8191\n\nFor more information, try '--help'.\n",
        ),
    ] {
        assert_eq!(run("map", arguments), (status, said.into()), "{arguments:?}");
    }
    assert!(run("map", &["move", "5", "b"]).1.contains("--to <SERVER> <SHARD>"));
    assert!(run("map", &["help"]).1.contains("Commands:"));
}

/// Makes evil a superuser, if the command that runs it is one.
const TRAP: &str = "CREATE FUNCTION evil.trap() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        SET LOCAL ROLE NONE;
        ALTER ROLE evil SUPERUSER;
        RETURN new;
    END $$";
const TRAPPED: &str = "CREATE TRIGGER trap BEFORE INSERT ON shard_map.servers
    FOR EACH ROW EXECUTE FUNCTION evil.trap()";

/// A map in which evil, who is not trusted, has rights.
fn map_with_evil() -> Server {
    let server = server_with_a_map();
    for create in ["ROLE evil LOGIN", "ROLE keeper LOGIN", "DATABASE other"] {
        instagram_id_live::run(&mut server.connect(), &format!("CREATE {create}"));
    }
    for database in ["map", "other"] {
        let mut client = server.connect_to(database);
        let schema = "CREATE SCHEMA evil AUTHORIZATION evil; GRANT USAGE ON SCHEMA evil TO PUBLIC";
        instagram_id_live::run(&mut client, schema);
        instagram_id_live::run(&mut client, &format!("SET ROLE evil; {TRAP}"));
    }
    server
}

/// The commands are refused for this reason, and evil has gained nothing.
#[track_caller]
fn check_refused(server: &Server, database: &str, reason: &str) {
    let expected =
        format!("error: the map cannot be used:\n    - role evil is not trusted, but {reason}");
    for arguments in [&["server", "x", "password=secret"][..], &["status"], &["place", "x", "5"]] {
        let (status, said) = run(server, database, arguments);
        assert!(status == 3 && said.starts_with(&expected), "{arguments:?}: {status}, {said}");
    }
    let mut client = server.connect_to(database);
    let is_super = "SELECT rolsuper FROM pg_roles WHERE rolname = 'evil'";
    assert!(!one::<bool>(&mut client, is_super), "{reason}");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM shard_map.servers"), 0, "{reason}");
}

/// The triggers, rules and views of the map run with the rights of the command. If a role that is
/// not trusted can put code into them, the command names it, and neither reads nor writes the map.
#[test]
fn map_with_code_of_another_role_is_refused() {
    let server = map_with_evil();
    let cases = [
        ("ALTER SCHEMA shard_map OWNER TO evil", "owns schema shard_map: "),
        ("ALTER TABLE shard_map.servers OWNER TO evil", "owns table shard_map.servers: "),
        (
            "ALTER FUNCTION shard_map.take_turns OWNER TO evil",
            "owns function shard_map.take_turns(): ",
        ),
        (TRAPPED, "owns function evil.trap(), owns schema evil: "),
        (
            "CREATE RULE r AS ON UPDATE TO shard_map.servers DO ALSO SELECT evil.f()",
            "owns function evil.f(), owns schema evil: ",
        ),
        ("GRANT CREATE ON SCHEMA shard_map TO evil", "has CREATE on schema shard_map: "),
        (
            "GRANT USAGE ON SCHEMA shard_map TO evil; GRANT TRIGGER ON shard_map.servers TO evil; SET ROLE evil; CREATE TRIGGER trap BEFORE INSERT
             ON shard_map.servers FOR EACH ROW EXECUTE FUNCTION evil.trap(); RESET ROLE",
            "has TRIGGER on table shard_map.servers, owns function evil.trap() and 1 more: ",
        ),
    ];
    let mut client = server.connect_to("map");
    let before = "GRANT USAGE ON SCHEMA shard_map TO evil;
        CREATE FUNCTION evil.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION evil.f OWNER TO evil";
    instagram_id_live::run(&mut client, before);
    for (change, reason) in cases {
        instagram_id_live::run(&mut client, change);
        check_refused(&server, "map", reason);
        let undo = "ALTER SCHEMA shard_map OWNER TO postgres; ALTER TABLE shard_map.servers OWNER TO postgres;
            ALTER FUNCTION shard_map.take_turns OWNER TO postgres; DROP TRIGGER IF EXISTS trap ON shard_map.servers;
            DROP RULE IF EXISTS r ON shard_map.servers; REVOKE CREATE ON SCHEMA shard_map FROM evil;
            REVOKE ALL ON shard_map.servers FROM evil";
        instagram_id_live::run(&mut client, undo);
    }
    assert_eq!(run(&server, "map", &["status"]).0, 0);
}

/// A role that may create schemas in the database of the map can be there before init. The owner of
/// the database cannot make the command run as itself either.
#[test]
fn map_that_another_role_has_created_is_refused() {
    let server = map_with_evil();
    let mut client = server.connect_to("other");
    let map = fs::read_to_string(of_project("cli/src/sql/map.sql")).unwrap();
    instagram_id_live::run(&mut client, "GRANT CREATE ON DATABASE other TO evil; SET ROLE evil");
    instagram_id_live::run(&mut client, &format!("{map}; {TRAPPED}; RESET ROLE"));
    let (status, said) = run(&server, "other", &["init"]);
    let refused = "role evil is not trusted, but owns function evil.trap(), owns ";
    assert!(status == 3 && said.contains(refused), "{said}");
    check_refused(&server, "other", "owns function evil.trap(), owns ");
    let role =
        "ALTER DATABASE other OWNER TO evil; SET ROLE evil; ALTER DATABASE other SET role = evil";
    instagram_id_live::run(&mut client, role);
    check_refused(&server, "other", "owns function evil.trap(), owns ");
    // Nor can it hide behind a predefined role, whose objects are not in pg_shdepend.
    let hidden = "RESET ROLE; ALTER DATABASE other OWNER TO postgres; REASSIGN OWNED BY evil TO pg_database_owner;
        ALTER DATABASE other OWNER TO evil";
    instagram_id_live::run(&mut client, hidden);
    check_refused(
        &server,
        "other",
        "is a member of pg_database_owner, which owns function evil.trap(), ",
    );
}

/// The owner of a map uses it, also if it is no superuser, and roles that it can become.
#[test]
fn map_is_used_by_its_owner() {
    let server = map_with_evil();
    let mut client = server.connect_to("other");
    let rights = "GRANT CREATE ON DATABASE other TO keeper";
    instagram_id_live::run(&mut client, rights);
    let created = "==> Created the map. To add servers: instagram_id_shards server NAME CONNINFO\n";
    assert_eq!(run_as(&server, "keeper", "other", &["init"]), (0, created.into()));
    let add = ["server", "a", "host=/tmp"];
    assert_eq!(run_as(&server, "keeper", "other", &add), (0, "==> Recorded server a\n".into()));
    let (status, said) = run(&server, "other", &["status"]);
    let refused = "role keeper is not trusted, but owns function shard_map.count_the_version(), ";
    assert!(status == 3 && said.contains(refused), "{said}");
    instagram_id_live::run(&mut client, "GRANT postgres TO keeper");
    assert_eq!(run(&server, "other", &["status"]).0, 0);
    // The map of a superuser can be read by a role with SELECT.
    let read = "GRANT USAGE ON SCHEMA shard_map TO evil; GRANT SELECT ON ALL TABLES IN SCHEMA shard_map TO evil";
    instagram_id_live::run(&mut server.connect_to("map"), read);
    assert_eq!(run_as(&server, "evil", "map", &["status"]).0, 0);
}

/// A client that caches the map and reads the rows with a version above the highest one it has seen
/// misses no change, in whichever order the changes commit.
#[test]
fn map_versions_become_visible_in_order() {
    let server = server_with_a_map();
    let map = || server.connect_to("map");
    let record = "INSERT INTO shard_map.servers VALUES ('a', 'host=a'), ('b', 'host=b');
        INSERT INTO shard_map.shards (shard, server) VALUES (1, 'a'), (2, 'a'), (3, 'a')";
    instagram_id_live::run(&mut map(), record);
    let change = "UPDATE shard_map.shards SET server = 'b' WHERE shard = ";
    let (mut first, mut reader) = (map(), map());
    let version = "SELECT max(version) FROM shard_map.shards";
    let before: i64 = one(&mut reader, version);
    instagram_id_live::run(&mut first, &format!("BEGIN; {change} 1"));
    let second = thread::scope(|scope| {
        let second = scope.spawn(|| instagram_id_live::run(&mut map(), &format!("{change} 2")));
        thread::sleep(Duration::from_millis(300));
        assert_eq!(one::<i64>(&mut reader, version), before, "the second waits for the first");
        // The second has locked no row of a shard, or these two would deadlock.
        instagram_id_live::run(&mut first, &format!("{change} 2; COMMIT"));
        second.join().unwrap();
        one::<i64>(&mut reader, version)
    });
    assert_eq!(second, before + 3);
}
