//! The event trigger adopt_new_tables() on a cluster, and with dumps.

use instagram_id_live::*;
use postgres::{Client, NoTls};

const EVENT_TRIGGER: &str = "CREATE EVENT TRIGGER adopt_new_tables ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION adopt_new_tables()";

/// Each column with a default or an identity in the schema of shard 5, each trigger that is none of
/// Citus, and each sequence but that of the shard.
const KEYS: &str = "SELECT format('%s.%s %s%s', attrelid::regclass, attname, attidentity,
        pg_get_expr(adbin, adrelid)) AS key
    FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE relnamespace = 'insta5'::regnamespace AND relkind IN ('r', 'p') AND attnum > 0
        AND (adbin IS NOT NULL OR attidentity <> '')
    UNION ALL
    SELECT format('%s %s', tgrelid::regclass, tgname) FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid
    WHERE relnamespace = 'insta5'::regnamespace AND NOT tgisinternal
    UNION ALL
    SELECT oid::regclass::text FROM pg_class
    WHERE relnamespace = 'insta5'::regnamespace AND relkind = 'S' AND relname <> 'table_id_seq'
    ORDER BY key";

const SETTING: &str = "SELECT current_setting('citus.enable_unsafe_triggers')";

fn sqlstate_of(client: &mut Client, statement: &str) -> String {
    error_of(client, statement).0
}

/// The default of a new table works on the node that owns the schema, and nowhere else. With the
/// event trigger a new table has a trigger in place of it, on whichever node it is created.
#[test]
fn new_tables_of_a_distributed_schema_get_a_trigger() {
    let cluster = Emulated::start_with_shard(2);
    cluster.everywhere("CREATE TABLE insta5.old (id bigint DEFAULT insta5.next_id() PRIMARY KEY)");
    cluster.everywhere(EVENT_TRIGGER);
    cluster.everywhere(
        "CREATE TABLE insta5.serials (id bigserial PRIMARY KEY, batch int);
         CREATE TABLE insta5.identities (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
         CREATE TABLE insta5.defaults (id bigint DEFAULT insta5.next_id(), batch int)",
    );
    cluster.distribute("insta5", 1); // with the new tables
    for node in 0..3 {
        let mut client = cluster.nodes[node].connect();
        let expected = [
            "insta5.defaults 0_assign_id",
            "insta5.identities 0_assign_id",
            "insta5.old.id insta5.next_id()",
            "insta5.photos 0_assign_id",
            "insta5.serials 0_assign_id",
        ];
        assert_eq!(texts(&mut client, KEYS), expected, "node {node}");
    }
    let mut other = cluster.nodes[0].connect();
    assert_eq!(sqlstate_of(&mut other, "INSERT INTO insta5.old DEFAULT VALUES"), "55000");
    let mut home = cluster.nodes[1].connect();
    for table in ["serials", "defaults", "identities"] {
        let insert = format!("INSERT INTO insta5.{table} DEFAULT VALUES RETURNING id_shard(id)");
        assert_eq!(one::<i32>(&mut home, &insert), 5, "{table}");
    }
    // A default that calls a function of another role is not one of the shard.
    cluster.everywhere(
        "CREATE ROLE other; ALTER FUNCTION insta5.next_id() OWNER TO other;
         CREATE TABLE insta5.kept (id bigint DEFAULT insta5.next_id() PRIMARY KEY)",
    );
    let kept = "insta5.kept.id insta5.next_id()".to_owned();
    assert!(texts(&mut home, KEYS).contains(&kept));
}

/// Citus distributes a new table at the end of the statement that creates it, and refuses one with
/// a trigger without its setting.
#[test]
fn citus_can_distribute_a_new_table_with_its_trigger() {
    let cluster = Emulated::start_with_shard(1);
    let mut client = cluster.nodes[0].connect();
    run(&mut client, EVENT_TRIGGER);
    run(&mut client, "SELECT create_shard(6)");
    run(&mut client, "BEGIN; CREATE TABLE insta6.local (id bigserial PRIMARY KEY)");
    let default = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef
        WHERE adrelid = 'insta6.local'::regclass";
    assert_eq!(one::<String>(&mut client, default), "insta6.next_id()");
    assert_eq!(one::<String>(&mut client, SETTING), "off");
    run(&mut client, "CREATE TABLE insta5.plain (id bigint PRIMARY KEY)");
    assert_eq!(one::<String>(&mut client, SETTING), "off");
    run(&mut client, "SAVEPOINT s; CREATE TABLE insta5.back (id bigserial PRIMARY KEY)");
    assert_eq!(one::<String>(&mut client, SETTING), "on");
    run(&mut client, "ROLLBACK TO s");
    assert_eq!(one::<String>(&mut client, SETTING), "off");
    run(&mut client, "CREATE TABLE insta5.new (id bigserial PRIMARY KEY)");
    assert_eq!(one::<String>(&mut client, SETTING), "on");
    run(&mut client, "COMMIT");
    assert_eq!(one::<String>(&mut client, SETTING), "off");
}

/// Citus creates a table on the other nodes as it is on the first.
#[test]
fn tables_that_citus_creates_are_left_as_they_are() {
    let cluster = Emulated::start_with_shard(1);
    run(&mut cluster.nodes[0].connect(), EVENT_TRIGGER);
    for (name, is_of_citus) in [
        ("citus_internal gpid=10000000123", true),
        ("citus_rebalancer gpid=7", true),
        ("app", false),
    ] {
        let mut config = cluster.nodes[0].config("postgres");
        let mut client = config.application_name(name).connect(NoTls).unwrap();
        let create = "CREATE TABLE insta5.new (id bigint PRIMARY KEY DEFAULT insta5.next_id());
            CREATE TABLE insta5.serial (id bigserial PRIMARY KEY)";
        run(&mut client, create);
        let mut expected = vec!["insta5.photos 0_assign_id"];
        if is_of_citus {
            expected.extend([
                "insta5.new.id insta5.next_id()",
                "insta5.serial.id nextval('insta5.serial_id_seq'::regclass)",
                "insta5.serial_id_seq",
            ]);
        } else {
            expected.extend(["insta5.new 0_assign_id", "insta5.serial 0_assign_id"]);
        }
        expected.sort_unstable();
        assert_eq!(texts(&mut client, KEYS), expected, "{name}");
        run(&mut client, "DROP TABLE insta5.new, insta5.serial");
    }
}

/// A dump is restored as it was dumped: into a new database, which gets the event trigger last,
/// and into one in which it is active.
#[test]
fn dumps_are_restored_as_they_are() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    for database in ["home", "copy", "active"] {
        run(&mut client, &format!("CREATE DATABASE {database}"));
    }
    let mut home = server.connect_to("home");
    run(&mut home, "CREATE EXTENSION instagram_id; SELECT create_shard(5)");
    run(
        &mut home,
        "CREATE TABLE insta5.serial (id bigserial PRIMARY KEY, n serial);
         CREATE TABLE insta5.always (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
    );
    run(&mut home, EVENT_TRIGGER);
    run(
        &mut home,
        "CREATE TABLE insta5.new (id bigserial PRIMARY KEY, n bigserial);
         CREATE TABLE insta5.part (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)
             PARTITION BY RANGE (id);
         CREATE TABLE insta5.part_1 PARTITION OF insta5.part DEFAULT;
         INSERT INTO insta5.new DEFAULT VALUES; INSERT INTO insta5.serial DEFAULT VALUES",
    );
    let keys = texts(&mut home, KEYS);
    assert_eq!(keys.len(), 11, "{keys:?}");
    let ids = "SELECT (SELECT id FROM insta5.new)::text || (SELECT id FROM insta5.serial)";
    let rows: String = one(&mut home, ids);

    server.run("pg_dump", &["-Fc", "-f", "home.dump", "home"]);
    server.run("pg_dump", &["-Fc", "-n", "insta5", "-f", "shard.dump", "home"]);
    let mut active = server.connect_to("active");
    run(&mut active, "CREATE EXTENSION instagram_id");
    run(&mut active, EVENT_TRIGGER);
    for (database, dump) in [("copy", "home.dump"), ("active", "shard.dump")] {
        let dump = server.path().join(dump);
        server.run("pg_restore", &["--exit-on-error", "-d", database, dump.to_str().unwrap()]);
        let mut client = server.connect_to(database);
        assert_eq!(texts(&mut client, KEYS), keys, "{database}");
        assert_eq!(one::<String>(&mut client, ids), rows, "{database}");
        // And new tables are converted there.
        run(&mut client, "CREATE TABLE insta5.newer (id bigserial PRIMARY KEY)");
        assert!(texts(&mut client, KEYS).contains(&"insta5.newer.id insta5.next_id()".into()));
        let (state, ..) = error_of(&mut client, "DROP EXTENSION instagram_id");
        assert_eq!(state, "2BP01", "{database}");
    }
}

mod since_18 {
    use super::*;

    /// An extension knows the keys of its tables, and a dump leaves their definitions out.
    #[test]
    fn tables_of_an_extension_are_left_as_they_are() {
        needs_major(18);
        let server = Server::start(&[]);
        let files = server.path().join("extension");
        std::fs::create_dir(&files).unwrap();
        let write = |name: &str, text: &str| std::fs::write(files.join(name), text).unwrap();
        write("keys.control", "default_version = '1'");
        write("keys--1.sql", "CREATE TABLE of_extension (id bigserial PRIMARY KEY);");
        let mut client = server.connect();
        setup(&mut client);
        run(&mut client, EVENT_TRIGGER);
        let folder = server.path().display();
        run(&mut client, &format!("SET extension_control_path = '$system:{folder}'"));
        run(&mut client, "CREATE EXTENSION keys SCHEMA insta5");
        run(&mut client, "CREATE TABLE insta5.own (id bigserial PRIMARY KEY)");
        let expected = [
            "insta5.of_extension.id nextval('insta5.of_extension_id_seq'::regclass)",
            "insta5.of_extension_id_seq",
            "insta5.own.id insta5.next_id()",
        ];
        assert_eq!(texts(&mut client, KEYS), expected);
    }
}
