//! Tests of schemas and events during a move that could lose rows, definitions or ids without an
//! error.

use crate::moving::{
    CLOSED_BY_ANOTHER_MOVE, HAS_SCHEMA, IS_CLOSED, NOTHING, Servers, WAITS, cases, create_tables,
    fails, fill, kill_after_copy, leftovers, move_blocked_after_copy, move_blocked_before_stop,
    outcome, wait_during, while_closing_is_lost,
};
use instagram_id_live::*;
use postgres::Client;
use std::fs;
use std::time::Duration;

/// The initial copy reads the tables as the role of the conninfo, and the replication writes as the
/// owner. If a policy applies to one of them, rows are lost.
#[test]
fn row_level_security_that_applies_to_the_move_is_refused() {
    let servers = Servers::start();
    fill(&servers, 1000);
    let setup = "CREATE ROLE keeper; CREATE ROLE mover LOGIN REPLICATION; GRANT keeper, pg_monitor TO mover;
        GRANT CREATE ON DATABASE postgres TO mover; ALTER ROLE mover SET row_security = off";
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), setup);
    }
    servers.connect_as("a", "mover", &[]);
    run(&mut servers.map(), "UPDATE shard_map.servers SET trusted = '{keeper,mover}'");
    let mut a = servers.a.connect();
    run(&mut a, &crate::moving::GIVE_AWAY.replace("attacker", "keeper"));
    run(
        &mut a,
        "SET ROLE keeper; CREATE TYPE insta5.span AS RANGE (subtype = float8); RESET ROLE;
         ALTER TABLE insta5.photos ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         CREATE POLICY few ON insta5.photos USING (id = 1)",
    );
    let reason = "row-level security of table insta5.photos applies to role ";
    servers.refuses(&["move", "5", "--to", "b"], &format!("{reason}mover"));
    servers.connect_as("a", "postgres", &["--trust", "keeper", "--trust", "mover"]);
    servers.refuses(&["move", "5", "--to", "b"], &format!("{reason}keeper"));
    servers.connect_as("a", "mover", &["--trust", "keeper"]);
    run(
        &mut a,
        "ALTER TABLE insta5.photos NO FORCE ROW LEVEL SECURITY; REVOKE INSERT ON insta5.counter FROM keeper;
         REVOKE USAGE ON SCHEMA insta5 FROM keeper, PUBLIC",
    );
    let reason = "role keeper lacks a privilege on its own table insta5.counter";
    let said = servers.refuses(&["move", "5", "--to", "b"], reason);
    let reason = "role keeper owns tables in schema insta5, but lacks USAGE on it";
    assert!(said.contains(reason), "{said}");
    // The owner has the privilege by a membership that it lacks on the new server.
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), "CREATE ROLE team");
    }
    run(
        &mut a,
        "GRANT INSERT ON insta5.counter TO keeper; GRANT team TO keeper; GRANT USAGE ON SCHEMA insta5 TO team",
    );
    let said = servers.refuses(&["move", "5", "--to", "b"], "the schema cannot be created on b");
    assert!(said.contains(reason), "{said}");
    servers.command(&["cancel", "5"]);
    assert_eq!(leftovers(&servers.b), NOTHING);
    run(&mut a, "GRANT USAGE ON SCHEMA insta5 TO keeper");
    // pg_dump writes statistics with their table.
    run(
        &mut a,
        "CREATE TABLE outside (x int, y int); CREATE STATISTICS insta5.left_out ON x, y FROM outside; ALTER STATISTICS insta5.left_out OWNER TO keeper",
    );
    let reason = "its dump does not create statistics object insta5.left_out; drop it";
    servers.refuses(&["move", "5", "--to", "b"], reason);
    run(&mut a, "DROP TABLE outside; COMMENT ON TYPE insta5.span_multirange IS 'left out, too'");
    let reason = "its dump does not create the comment on type insta5.span_multirange; drop it";
    servers.refuses(&["move", "5", "--to", "b"], reason);
    run(&mut a, "COMMENT ON TYPE insta5.span_multirange IS NULL");
    servers.command(&["move", "5", "--to", "b"]);
    assert_eq!(one::<i64>(&mut servers.b.connect(), "SELECT count(*) FROM insta5.photos"), 1000);
}

/// Sequences of all kinds.
const SEQUENCES: &str = "
    CREATE SEQUENCE insta5.one; CREATE SEQUENCE insta5.three START 3; CREATE SEQUENCE insta5.low MINVALUE -5 START -5;
    CREATE SEQUENCE insta5.fifty INCREMENT 50 MINVALUE 100 START 120;
    CREATE SEQUENCE insta5.blocks INCREMENT 50; SELECT nextval('insta5.blocks');
    CREATE SEQUENCE insta5.small AS smallint MINVALUE -32768 START -32768;
    CREATE SEQUENCE insta5.spent AS smallint MINVALUE -32768 START -32768; SELECT nextval('insta5.spent');
    CREATE SEQUENCE insta5.down INCREMENT -1;
    CREATE SEQUENCE insta5.deep AS smallint INCREMENT -2 MAXVALUE 32767 START 32767;
    CREATE SEQUENCE insta5.round AS integer MAXVALUE 3 CYCLE; SELECT nextval('insta5.round') FROM generate_series(1, 3);
    CREATE TABLE insta5.numbered (n int PRIMARY KEY GENERATED ALWAYS AS IDENTITY);
    INSERT INTO insta5.numbered SELECT FROM generate_series(1, 7)";

/// The next value of each. One at the end of its type skips a value or two when it is closed.
const NEXT_VALUES: [(&str, i64); 11] = [
    ("one", 1),
    ("three", 3),
    ("low", -5),
    ("fifty", 120),
    ("blocks", 51),
    ("small", -32766),
    ("spent", -32766),
    ("down", -1),
    ("deep", 32764),
    ("round", 1),
    ("numbered_n_seq", 8),
];

/// A sequence of any kind gives each value once: the old copy gives none any more, and the new one
/// continues with the same definition.
#[test]
fn sequences_of_every_kind_give_each_value_once() {
    let servers = Servers::start();
    let mut a = servers.a.connect();
    run(&mut a, &format!("{SEQUENCES}; SELECT create_shard(7)"));
    let definitions = "SELECT string_agg(relname || row(seqtypid, seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle)::text, ' ' ORDER BY relname)
        FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid WHERE relnamespace = 'insta5'::regnamespace AND relname <> 'used'";
    let before: String = one(&mut a, definitions);
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
    for (name, _) in NEXT_VALUES {
        assert_eq!(error_of(&mut a, &next(name)).0, "2200H", "{name}");
    }
    outcome(command).expect_err("the target does not catch up");
    run(&mut other, "COMMIT");
    servers.command(&["cancel", "5"]);
    assert_eq!(one::<String>(&mut a, definitions), before);
    run(&mut a, "CREATE SEQUENCE insta5.used; SELECT nextval('insta5.used')");
    servers.command(&["move", "5", "--to", "b"]);
    assert_eq!(one::<String>(&mut servers.b.connect(), definitions), before);
    for (name, first) in NEXT_VALUES {
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

/// Changes of the old copy after the move, why `clean` keeps it then, and how they are undone.
const CHANGES_OF_OLD_COPY: &str = "
    ALTER TABLE insta5.photos DISABLE TRIGGER ALL; INSERT INTO insta5.photos VALUES (1); ALTER TABLE insta5.photos ENABLE TRIGGER ALL; ALTER TABLE insta5.photos ENABLE ALWAYS TRIGGER shard_is_elsewhere | table insta5.photos was not closed by the move, or was written later | ALTER TABLE insta5.photos DISABLE TRIGGER shard_is_elsewhere; DELETE FROM insta5.photos WHERE id = 1; ALTER TABLE insta5.photos ENABLE ALWAYS TRIGGER shard_is_elsewhere
    ALTER TABLE insta5.counter ENABLE TRIGGER shard_is_elsewhere | table insta5.counter was not closed by the move | ALTER TABLE insta5.counter ENABLE ALWAYS TRIGGER shard_is_elsewhere
    CREATE TABLE insta5.late (n int); INSERT INTO insta5.late VALUES (1) | table insta5.late was not closed by the move | DROP TABLE insta5.late
    ALTER EXTENSION pretended ADD TEXT SEARCH CONFIGURATION insta5.words | text search configuration insta5.words belongs to extension pretended, | ALTER EXTENSION pretended DROP TEXT SEARCH CONFIGURATION insta5.words
    ALTER EXTENSION pretended SET SCHEMA insta5 | extension pretended is in schema insta5 | ALTER EXTENSION pretended SET SCHEMA public";

/// Objects outside the schema that use it, with the names by which `clean` keeps the old copy.
const USERS: &str = "
    CREATE TABLE words (word text COLLATE insta5.german); INSERT INTO words VALUES ('x') | column word of table public.words
    CREATE TABLE texts (t text); CREATE INDEX ON texts USING gin (to_tsvector('insta5.words', t)) | index public.texts_to_tsvector_idx
    CREATE TABLE child () INHERITS (insta5.photos) | default value for column id of table public.child, table public.child
    CREATE TABLE part PARTITION OF insta5.parts DEFAULT | table public.part, constraint part_pkey on table public.part, index public.part_pkey
    CREATE TABLE other (n bigint DEFAULT nextval('insta5.table_id_seq')) | default value for column n of table public.other
    CREATE TABLE feelings (mood insta5.mood) | column mood of table public.feelings
    CREATE VIEW photos AS SELECT * FROM insta5.photos | view public.photos of role postgres
    CREATE VIEW tables AS SELECT FROM pg_class WHERE relnamespace = 'insta5'::regnamespace | view public.tables of role postgres
    CREATE STATISTICS of_photos ON id, batch FROM insta5.photos | statistics object public.of_photos
    CREATE TYPE span AS RANGE (subtype = int4, multirange_type_name = insta5.spans); CREATE TABLE bookings (span span) | type public.span, function public.spans(), function public.spans(public.span), function public.spans(public.span[])
    CREATE TABLE orders (id int); CREATE CONSTRAINT TRIGGER guard AFTER INSERT ON orders FROM insta5.photos DEFERRABLE FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger() | trigger guard on table public.orders
    CREATE PUBLICATION other FOR TABLE orders WHERE (id <> 'insta5.photos'::regclass::int) | publication of table public.orders in publication other
    CREATE OPERATOR CLASS oc FOR TYPE int4 USING hash FAMILY insta5.fam AS OPERATOR 1 =, FUNCTION 1 hashint4(int4) | operator class public.oc for access method hash";

/// `clean` drops no rows that were written to the old copy after it was closed, and nothing outside
/// the schema.
#[test]
fn clean_drops_nothing_that_was_not_moved() {
    let servers = Servers::start();
    fill(&servers, 1000);
    let mut a = servers.a.connect();
    run(
        &mut a,
        "CREATE VIEW insta5.one AS SELECT 1; CREATE VIEW insta5.two AS SELECT 2; CREATE VIEW insta5.three AS SELECT 3;
         CREATE OPERATOR FAMILY insta5.fam USING hash; CREATE COLLATION insta5.german FROM \"C\"; CREATE TEXT SEARCH CONFIGURATION insta5.words (COPY = simple);
         CREATE TYPE insta5.mood AS ENUM ('good'); CREATE TABLE insta5.parts (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
         INSERT INTO pg_extension SELECT 99999, 'pretended', 10, 'public'::regnamespace, true, '1', NULL, NULL;
         INSERT INTO pg_depend VALUES ('pg_extension'::regclass, 99999, 0, 'pg_namespace'::regclass, 'public'::regnamespace, 0, 'n');
         CREATE DOMAIN word AS text; CREATE TABLE words_of_pretended (word word); INSERT INTO words_of_pretended VALUES ('kept');
         ALTER EXTENSION pretended ADD DOMAIN word",
    );
    servers.command(&["move", "5", "--to", "b"]);
    servers.refuses(&["place", "a", "5"], "shard 5 has an old copy");
    let may_execute =
        "SELECT has_function_privilege('pg_monitor', 'insta5.shard_is_elsewhere()', 'EXECUTE')";
    assert!(!one::<bool>(&mut a, may_execute), "a role could keep the function from being dropped");
    // Clients have deleted rows on the new server, so a comparison of the numbers of rows would see
    // nothing.
    run(&mut servers.b.connect(), "DELETE FROM insta5.photos WHERE batch > 998");
    for [change, reason, undo] in cases(CHANGES_OF_OLD_COPY) {
        run(&mut a, change);
        let said = servers.refusal(&["clean", "5"]);
        assert!(said.contains(reason), "{change}: {said}");
        run(&mut a, undo);
    }
    users_of_the_old_copy_are_named(&servers);
    what_is_created_while_clean_waits_is_kept(&servers);
    // As after b was restored from a backup of before the move, with another schema of this name.
    let (mut b, mut map) = (servers.b.connect(), servers.map());
    let copy: String = one(&mut map, "SELECT copy_definition::text FROM shard_map.moves");
    let identity = "copy_definition - 'identity of the schema'";
    run(&mut map, &format!("UPDATE shard_map.moves SET copy_definition = {identity}"));
    servers.refuses(&["clean", "5"], "server b has no open copy of shard 5");
    map.execute("UPDATE shard_map.moves SET copy_definition = $1::text::jsonb", &[&copy]).unwrap();
    servers.command(&["server", "b", &conninfo(&servers.a, "template1")]);
    let said = servers.refuses(&["clean", "5"], "a and b are the same server");
    assert!(!said.ends_with("exit status 5"), "no writes are stopped: {said}");
    servers.command(&["server", "b", &conninfo(&servers.b, "postgres")]);
    run(&mut b, "ALTER SCHEMA insta5 RENAME TO later; CREATE SCHEMA insta5");
    servers.refuses(&["clean", "5"], "schema insta5 on b is called later now: rename it");
    run(&mut b, "DROP SCHEMA insta5 CASCADE; ALTER SCHEMA later RENAME TO insta5");
    while_closing_is_lost(&servers, || {
        servers.refuses(&["clean", "5"], "schema insta5 on a is open, too");
    });
    run(&mut a, "ALTER SCHEMA insta5 RENAME TO other");
    servers.refuses(&["clean", "5"], "schema insta5 on a is called other now: rename it");
    run(&mut a, "ALTER SCHEMA other RENAME TO insta5");
    servers.command(&["clean", "5"]);
    assert!(!one::<bool>(&mut a, HAS_SCHEMA));
    assert_eq!(texts(&mut a, "SELECT word::text FROM words_of_pretended"), ["kept"]);
}

fn users_of_the_old_copy_are_named(servers: &Servers) {
    let mut a = servers.a.connect();
    let users = cases::<2>(USERS);
    for [create, _] in &users {
        run(&mut a, create);
    }
    let said = servers.refusal(&["clean", "5"]);
    let (_, named) = said.split_once("on a use it: ").expect(&said);
    let (named, _) = named.split_once("; drop them first").expect(&said);
    assert_same_set(
        named.split(", "),
        users.iter().flat_map(|[_, user]| user.split(", ")),
        "users",
    );
    run(
        &mut a,
        "DROP VIEW photos, tables; DROP STATISTICS of_photos; DROP TABLE bookings, orders; DROP TYPE span; DROP PUBLICATION other;
         DROP OPERATOR CLASS oc USING hash; DROP TABLE words, texts, child, part, other, feelings",
    );
}

/// `clean` waits for sessions that read views or create tables. It drops nothing that others create
/// meanwhile, and waits no longer if it is for several views.
fn what_is_created_while_clean_waits_is_kept(servers: &Servers) {
    let mut a = servers.a.connect();
    let audit = "CREATE TABLE audit (mood insta5.mood); INSERT INTO audit VALUES ('good')";
    let late = "CREATE TABLE insta5.late (n int); INSERT INTO insta5.late VALUES (1)";
    let changed = "on a: other sessions have changed its objects;";
    let replace = format!(
        "ALTER SCHEMA insta5 RENAME TO other; CREATE SCHEMA insta5; {CLOSED_BY_ANOTHER_MOVE}"
    );
    for (holds, meanwhile, reason, undo) in [
        (late, "", changed, "DROP TABLE insta5.late"),
        ("SELECT FROM insta5.one", audit, "column mood of table public.audit;", "DROP TABLE audit"),
        (
            &replace,
            "",
            "schema insta5 on a is not the one of this move",
            "DROP SCHEMA insta5 CASCADE; ALTER SCHEMA other RENAME TO insta5",
        ),
    ] {
        let mut other = servers.a.connect();
        run(&mut other, &format!("BEGIN; {holds}"));
        let command = servers.start_command(&["clean", "5"]);
        servers.a.wait_until(WAITS);
        run(&mut a, meanwhile);
        run(&mut other, "COMMIT");
        fails(command, reason);
        run(&mut a, undo);
    }
    let mut readers = ["one", "two", "three"].map(|view| {
        let mut reader = servers.a.connect();
        run(&mut reader, &format!("BEGIN; SELECT FROM insta5.{view}"));
        (view, reader)
    });
    let mut command = servers.start_command(&["clean", "5"]);
    while command.try_wait().unwrap().is_none() {
        for (view, reader) in &mut readers {
            let waits = format!(
                "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'insta5.{view}'::regclass AND NOT granted)"
            );
            if one(&mut a, &waits) {
                std::thread::sleep(Duration::from_millis(1500));
                run(reader, "COMMIT");
            }
        }
    }
    fails(command, "DETAIL: It waits for process ");
}

/// The next transaction.
const NEXT: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";

fn use_transactions(client: &mut Client) {
    run(
        client,
        "DO $$ BEGIN FOR i IN 1 .. 2000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
    );
}

/// Freezes all rows of the only database, and lets the server continue with this transaction.
fn continue_with(server: &Server, transaction: i64) {
    run(&mut server.connect(), "VACUUM (FREEZE)");
    server.stop();
    let (epoch, number) = (transaction >> 32, transaction & 0xFFFF_FFFF);
    let segment = server.path().join(format!("data/pg_xact/{:04X}", number >> 20));
    std::fs::write(&segment, vec![0; 256 * 1024]).unwrap();
    if let Some((user, group)) = server.owner() {
        std::os::unix::fs::chown(segment, Some(user), Some(group)).unwrap();
    }
    server.run("pg_resetwal", &["-x", &number.to_string(), "-e", &epoch.to_string(), "data"]);
    server.launch();
}

/// A frozen row keeps the lower half of the number of its transaction, which can be that of one
/// after the closing.
#[test]
fn rows_older_than_all_numbers_of_transactions_do_not_keep_the_old_copy() {
    let servers = Servers::of(Server::start_with_one_database(&LOGICAL), Server::start(&LOGICAL));
    let Servers { a: server, .. } = &servers;
    let mut a = server.connect();
    create_tables(&mut a);
    run(
        &mut a,
        "SELECT create_shard(7); CREATE TABLE insta7.photos (id bigint PRIMARY KEY, batch bigint)",
    );
    servers.command(&["place", "a", "7"]);
    use_transactions(&mut a);
    run(&mut a, "INSERT INTO insta5.photos VALUES (1); INSERT INTO insta7.photos VALUES (1)");
    let inserted: i64 = one(&mut a, "SELECT xmin::text::bigint FROM insta7.photos");
    for transaction in [2_000_000_000, 4_000_000_000, (1 << 32) + inserted - 1000] {
        continue_with(server, transaction);
    }
    let mut a = server.connect();
    for shard in ["5", "7"] {
        servers.command(&["move", shard, "--to", "b"]);
    }
    assert!(one::<i64>(&mut a, NEXT) < (1 << 32) + inserted);
    use_transactions(&mut a);
    servers.command(&["clean", "7"]);
    // Rows that were written later are noticed.
    run(
        &mut a,
        "ALTER TABLE insta5.photos DISABLE TRIGGER shard_is_elsewhere; UPDATE insta5.photos SET batch = 7;
         ALTER TABLE insta5.photos ENABLE ALWAYS TRIGGER shard_is_elsewhere",
    );
    servers.refuses(
        &["clean", "5"],
        "table insta5.photos was not closed by the move, or was written later",
    );
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
    fails(
        command,
        "the copy on b was opened with other numbers of rows than the old copy on a has: table insta5.photos;",
    );
    assert_eq!(servers.placement(), "b");
    run(&mut b, "INSERT INTO insta5.photos DEFAULT VALUES");
    // As if b had lost the transaction that opened the copy.
    run(&mut b, "COMMENT ON FUNCTION insta5.shard_is_elsewhere() IS 'closed'");
    servers.refuses(&["move", "5", "--to", "b"], "server b has no open copy of shard 5");
    run(&mut b, "COMMENT ON FUNCTION insta5.shard_is_elsewhere() IS NULL");
    servers.command(&["move", "5", "--to", "b"]);
    servers.refuses(&["clean", "5"], "table insta5.photos has 1000 rows, but the copy on the new server had 999 when it was opened");
    run(&mut b, &format!("INSERT INTO insta5.photos VALUES ({}, 501)", ids[500]));
    // As after b was upgraded, which gives the schema another OID.
    run(&mut b, "DROP SCHEMA insta5 CASCADE; CREATE SCHEMA insta5");
    run(&mut servers.a.connect(), "DROP SCHEMA insta5 CASCADE");
    servers.command(&["clean", "5"]);
}

const SCHEMA: &str = "CREATE ROLE reader; CREATE ROLE keeper; GRANT SELECT ON insta5.photos TO reader;
    CREATE TABLE insta5.parts (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE insta5.part PARTITION OF insta5.parts DEFAULT; INSERT INTO insta5.parts VALUES (1);
    CREATE TYPE insta5.mood AS ENUM ('good');
    CREATE TABLE insta5.left (id bigint PRIMARY KEY, x int DEFAULT 1, writer text); CREATE TABLE insta5.right (id bigint PRIMARY KEY, x int);
    INSERT INTO insta5.left VALUES (1, 1); INSERT INTO insta5.right VALUES (2, 2);
    CREATE FUNCTION insta5.double() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
    CREATE TRIGGER double AFTER INSERT ON insta5.right FOR EACH ROW EXECUTE FUNCTION insta5.double();
    CREATE DOMAIN insta5.tags AS text[] CHECK (cardinality(VALUE) < 3);
    CREATE TABLE insta5.tagged (id int PRIMARY KEY, tags insta5.tags) WITH (toast.autovacuum_enabled = off);
    CREATE INDEX left_x ON insta5.left (x); COMMENT ON INDEX insta5.left_x IS 'kept';
    CREATE VIEW insta5.lefts AS SELECT * FROM insta5.left; CREATE MATERIALIZED VIEW insta5.seen AS SELECT count(*) FROM insta5.lefts";

/// Types outside the schema.
const TYPES: &str =
    "CREATE TYPE feeling AS ENUM ('good'); CREATE TYPE feelings AS RANGE (SUBTYPE = feeling);
    CREATE TYPE pair AS (n int, f feelings); CREATE DOMAIN pairs AS pair[];
    CREATE FUNCTION from_sql(internal) RETURNS internal IMMUTABLE LANGUAGE internal AS 'boolin'";

/// Statements that only rewrite or inspect tables.
const MAINTENANCE: [&str; 12] = [
    "ANALYZE",
    "VACUUM insta5.photos",
    "VACUUM (FREEZE) insta5.photos",
    "VACUUM FULL insta5.photos, insta5.tagged",
    "CLUSTER insta5.photos USING photos_pkey",
    "REINDEX TABLE CONCURRENTLY insta5.photos",
    "REINDEX TABLE CONCURRENTLY insta5.left",
    "REINDEX TABLE insta5.right",
    "TRUNCATE insta5.right",
    "TRUNCATE insta5.\"It's \"\"odd\"\"\" RESTART IDENTITY",
    "REFRESH MATERIALIZED VIEW insta5.seen",
    "INSERT INTO insta5.left VALUES (3, 3)",
];

/// Statements that any role can call on objects of others, with USAGE on the schema or without.
/// They change no privilege, but write rows of the catalogs, or privileges of objects to come.
const NO_CHANGES: [&str; 6] = [
    "CREATE TYPE pg_temp.own AS ENUM ('good'); CREATE CAST (pg_temp.own AS insta5.mood) WITH INOUT",
    "GRANT USAGE ON TYPE insta5.left, insta5.mood TO reader",
    "GRANT EXECUTE ON FUNCTION insta5.next_id(), insta5.double() TO reader",
    "GRANT SELECT ON insta5.photos TO reader",
    "GRANT USAGE ON SCHEMA insta5 TO reader",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA insta5 GRANT SELECT ON TABLES TO reader",
];

/// Changes during a move, the objects that they change, and how they are undone.
const CHANGES: &str = r#"
    REVOKE SELECT ON insta5.photos FROM reader; ALTER TABLE insta5.left OWNER TO keeper; ALTER SCHEMA insta5 OWNER TO keeper | schema insta5, table insta5."left", table insta5.photos | GRANT SELECT ON insta5.photos TO reader; ALTER TABLE insta5.left OWNER TO postgres; ALTER SCHEMA insta5 OWNER TO postgres
    ALTER TABLE insta5.photos ENABLE ROW LEVEL SECURITY; ALTER TABLE insta5.left ALTER x SET DEFAULT 2; GRANT USAGE ON SCHEMA insta5 TO reader | schema insta5, table insta5."left", table insta5.photos | ALTER TABLE insta5.photos DISABLE ROW LEVEL SECURITY; REVOKE USAGE ON SCHEMA insta5 FROM reader
    CREATE POLICY few ON insta5.photos USING (id = 1); COMMENT ON COLUMN insta5.left.x IS 'new'; ALTER TYPE insta5.mood ADD VALUE 'bad' | table insta5."left", table insta5.photos, type insta5.mood | DROP POLICY few ON insta5.photos
    ALTER TABLE insta5.parts DETACH PARTITION insta5.part; ALTER SEQUENCE insta5.table_id_seq START 2 | sequence insta5.table_id_seq, table insta5.part, table insta5.parts | ALTER TABLE insta5.parts ATTACH PARTITION insta5.part DEFAULT; ALTER SEQUENCE insta5.table_id_seq START 1
    CREATE VIEW insta5.v AS SELECT 1 AS x; CREATE FUNCTION insta5.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER TABLE insta5.right ENABLE ALWAYS TRIGGER double | function insta5.f(), table insta5."right", view insta5.v | DROP VIEW insta5.v; DROP FUNCTION insta5.f(); ALTER TABLE insta5.right ENABLE TRIGGER double
    ALTER TABLE insta5.left RENAME TO swap; ALTER TABLE insta5.right RENAME TO "left"; ALTER TABLE insta5.swap RENAME TO "right"; DROP TABLE insta5.counter; CREATE TABLE insta5.counter (n int PRIMARY KEY, value bigint) | table insta5."left", table insta5."right", table insta5.counter | ALTER TABLE insta5.left RENAME TO swap; ALTER TABLE insta5.right RENAME TO "left"; ALTER TABLE insta5.swap RENAME TO "right"
    ALTER TABLE insta5.left RENAME TO swap; ALTER TABLE insta5.right RENAME TO "left"; ALTER TABLE insta5.swap RENAME TO "right"; UPDATE insta5.left SET x = 3; ALTER TABLE insta5.left RENAME TO swap; ALTER TABLE insta5.right RENAME TO "left"; ALTER TABLE insta5.swap RENAME TO "right"; ALTER TABLE insta5.counter ALTER value TYPE bigint USING value + 1 | table insta5."left", table insta5."right", table insta5.counter | SELECT
    BEGIN; ALTER TABLE insta5.photos SET SCHEMA public; UPDATE public.photos SET batch = 7; ALTER TABLE public.photos SET SCHEMA insta5; COMMIT; ALTER TYPE insta5.mood RENAME VALUE 'good' TO 'new'; ALTER TYPE insta5.mood RENAME VALUE 'new' TO 'good'; ALTER PUBLICATION instagram_id_move_5 SET (publish = 'insert'); ALTER PUBLICATION instagram_id_move_5 SET (publish = 'insert, update, delete, truncate') | publication instagram_id_move_5, table insta5.photos, type insta5.mood | SELECT
    ALTER TYPE feeling RENAME VALUE 'good' TO 'new'; ALTER TYPE feeling RENAME VALUE 'new' TO 'good'; ALTER TYPE pair DROP ATTRIBUTE n; ALTER TYPE pair ADD ATTRIBUTE n int | type public.feeling, type public.pair | SELECT
    GRANT USAGE ON TYPE insta5.mood, insta5.left TO reader; REVOKE EXECUTE ON FUNCTION insta5.double() FROM PUBLIC | function insta5.double(), table insta5."left", type insta5.mood | REVOKE ALL ON TYPE insta5.mood, insta5.left FROM reader; GRANT EXECUTE ON FUNCTION insta5.double() TO PUBLIC
    ALTER DEFAULT PRIVILEGES IN SCHEMA insta5 GRANT SELECT ON TABLES TO reader | schema insta5 | ALTER DEFAULT PRIVILEGES IN SCHEMA insta5 REVOKE ALL ON TABLES FROM reader
    ALTER DOMAIN insta5.tags DROP CONSTRAINT tags_check; ALTER TABLE insta5.tagged RESET (toast.autovacuum_enabled); CREATE CAST (insta5.mood AS int) WITH INOUT | table insta5.tagged, type insta5.mood, type insta5.tags | ALTER TABLE insta5.tagged SET (toast.autovacuum_enabled = off); DROP CAST (insta5.mood AS int)
    REVOKE USAGE ON TYPE insta5.tags FROM PUBLIC; CREATE CAST (insta5.left AS text) WITH INOUT; CREATE TRANSFORM FOR insta5.mood LANGUAGE plpgsql (FROM SQL WITH FUNCTION from_sql(internal)) | type insta5."left", type insta5.mood, type insta5.tags | DROP CAST (insta5.left AS text); DROP TRANSFORM FOR insta5.mood LANGUAGE plpgsql
    CREATE INDEX extra ON insta5.left (x, id); REVOKE SELECT ON insta5.photos FROM reader; COMMENT ON VIEW insta5.lefts IS 'new' | table insta5."left", table insta5.photos, view insta5.lefts | GRANT SELECT ON insta5.photos TO reader"#;

/// Every change of the definition of a schema is noticed, also one that was undone if it can lose
/// changes of rows, and nothing else is.
#[test]
fn definition_of_a_schema_contains_every_change() {
    let server = Server::start(&[("fsync", "off"), ("wal_level", "logical")]);
    let mut client = server.connect();
    create_tables(&mut client);
    run(&mut client, &format!("{SCHEMA}; {TYPES}; ALTER TABLE insta5.right ADD pairs pairs"));
    let mut look = server.connect();
    run(
        &mut look,
        "SET search_path = pg_catalog; SET move.schema = 'insta5'; SET move.name = 'instagram_id_move_5'",
    );
    let [publish, definition] = ["publish", "definition"]
        .map(|name| fs::read_to_string(of_project(&format!("cli/src/sql/{name}.sql"))).unwrap());
    run(&mut look, &publish);
    let mut differing = |client: &mut Client, user: &str, statement: &str| {
        run(&mut look, &format!("CREATE TEMP TABLE before (hashes) AS {definition}"));
        // VACUUM cannot run with other statements.
        run(client, &format!("SET ROLE {user}"));
        run(client, statement);
        run(client, "RESET ROLE");
        let differing = texts(
            &mut look,
            &format!(
                "SELECT object FROM (SELECT * FROM pg_temp.before, jsonb_each_text(hashes)) AS b (hashes, object, hash)
                 FULL JOIN jsonb_each_text(({definition})) AS now (object, hash) USING (object)
                 WHERE b.hash IS DISTINCT FROM now.hash ORDER BY object COLLATE \"C\""
            ),
        );
        run(&mut look, "DROP TABLE pg_temp.before");
        differing.join(", ")
    };
    for [change, named, undo] in cases(CHANGES) {
        assert_eq!(differing(&mut client, "postgres", change), named, "{change}");
        run(&mut client, undo);
    }
    run(&mut client, "GRANT USAGE ON SCHEMA insta5 TO reader");
    let maintenance = MAINTENANCE.map(|statement| ("postgres", statement));
    for (user, statement) in maintenance.into_iter().chain(NO_CHANGES.map(|one| ("reader", one))) {
        assert_eq!(differing(&mut client, user, statement), "", "{statement}");
    }
}

/// A change of the definition fails the move at whichever step it is noticed, and writes continue
/// on the source. The move cannot be resumed, even if the change is undone. Maintenance and grants
/// do not disturb it.
#[test]
fn only_changes_of_a_definition_fail_a_move() {
    let servers = Servers::start();
    fill(&servers, 1000);
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    run(&mut a, &format!("{SCHEMA}; GRANT USAGE ON SCHEMA insta5 TO reader"));
    run(
        &mut a,
        "SET ROLE keeper; ALTER DEFAULT PRIVILEGES IN SCHEMA insta5 GRANT SELECT ON TABLES TO keeper; RESET ROLE",
    );
    servers.refuses(
        &["check", "5", "--to", "b"],
        "b has no role keeper, needed for default privileges",
    );
    run(&mut b, "CREATE ROLE reader; CREATE ROLE keeper");
    servers.command(&["check", "5", "--to", "b"]);
    renamed_copy_fails_the_move(&servers);
    changes_fail_the_move(&servers);
    maintenance_and_grants_do_not_fail_it(&servers);
}

/// The schema is renamed while rows are copied, which here takes as long as a lock on b.
fn renamed_copy_fails_the_move(servers: &Servers) {
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    kill_after_copy(servers);
    let mut other = servers.b.connect();
    run(&mut other, "BEGIN; LOCK TABLE insta5.photos IN SHARE MODE");
    run(&mut a, "INSERT INTO insta5.photos DEFAULT VALUES");
    let mut command = servers.start_command(&["move", "5", "--to", "b"]);
    let copies = "SELECT subsynccommit = 'off' FROM pg_subscription";
    wait_during(&mut command, servers, &servers.b, copies);
    run(&mut b, "ALTER SCHEMA insta5 RENAME TO other");
    fails(command, "schema insta5 on b is called other now");
    run(&mut other, "COMMIT");
    servers.refuses(&["cancel", "5"], "schema insta5 on b is called other now");
    run(&mut b, "ALTER SCHEMA other RENAME TO insta5");
    let before = "on b has changed since the move began: an earlier change of schema insta5;";
    let said = servers.refuses(&["move", "5", "--to", "b"], before);
    assert!(!said.contains("tables copied") && !said.contains("to resume"), "{said}");
    let said = servers.command(&["check", "5", "--to", "b"]);
    assert!(said.contains("changed, so undo that: instagram_id_shards cancel 5"), "{said}");
    let said = servers.command(&["status"]);
    assert!(said.contains("the schema was changed; to undo: cancel 5"), "{said}");
    servers.command(&["cancel", "5"]);
}

/// On each server, before and while the move waits for writers.
fn changes_fail_the_move(servers: &Servers) {
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    let changed =
        |on: &str, what: &str| format!("on {on} has changed since the move began: {what};");
    let (comment, no_comment) =
        ("COMMENT ON VIEW insta5.lefts IS 'new'", "COMMENT ON VIEW insta5.lefts IS NULL");
    let index = "CREATE INDEX late ON insta5.photos (batch)";
    // Other changes are noticed before more rows are copied.
    kill_after_copy(servers);
    run(&mut a, comment);
    let said = servers.refuses(&["move", "5", "--to", "b"], &changed("a", "view insta5.lefts"));
    assert!(!said.contains("tables copied"), "{said}");
    run(&mut a, no_comment);
    let before = changed("a", "an earlier change of view insta5.lefts");
    (0..2).for_each(|_| drop(servers.refuses(&["move", "5", "--to", "b"], &before)));
    servers.command(&["cancel", "5"]);

    let (command, mut other) = move_blocked_after_copy(servers, &[]);
    run(&mut b, index);
    run(&mut other, "COMMIT");
    let said = fails(command, &changed("b", "table insta5.photos"));
    assert!(!said.contains("Stopping writes"), "{said}");
    servers.command(&["cancel", "5"]);

    // While the move waits for writers, it has compared the copy already. A trigger that fires for
    // the replication can have changed rows.
    let trigger = "ALTER TABLE insta5.right ENABLE ALWAYS TRIGGER double; ALTER TABLE insta5.right ENABLE TRIGGER double";
    for (server, name, change, what, undo) in [
        (&servers.a, "a", comment, "view insta5.lefts", no_comment),
        (&servers.b, "b", trigger, "table insta5.\"right\"", "SELECT"),
    ] {
        let write = "UPDATE insta5.counter SET value = 1";
        let (command, mut transaction) = move_blocked_before_stop(servers, &[], write);
        run(&mut server.connect(), change);
        run(&mut transaction, "COMMIT");
        fails(command, &changed(name, what));
        assert!(!one::<bool>(&mut a, IS_CLOSED), "{change}");
        run(&mut server.connect(), undo);
        servers.command(&["cancel", "5"]);
    }

    // To lock a sequence is to change it, which must not undo a change for which it has waited.
    let write = "UPDATE insta5.counter SET value = 2";
    let (command, mut transaction) = move_blocked_before_stop(servers, &[], write);
    let mut owner = servers.a.connect();
    run(&mut owner, "BEGIN; ALTER SEQUENCE insta5.table_id_seq CYCLE");
    run(&mut transaction, "COMMIT");
    servers.a.wait_until(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'insta5.table_id_seq'::regclass AND NOT granted)",
    );
    run(&mut owner, "COMMIT");
    fails(command, "sequences of schema insta5 on a have changed since the move began");
    let cycles =
        "SELECT seqcycle FROM pg_sequence WHERE seqrelid = 'insta5.table_id_seq'::regclass";
    assert!(one::<bool>(&mut a, cycles));
    run(&mut a, "ALTER SEQUENCE insta5.table_id_seq NO CYCLE");
}

/// Nor does a role without a right to change the schema, on either server.
fn maintenance_and_grants_do_not_fail_it(servers: &Servers) {
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    let (command, mut other) = move_blocked_after_copy(servers, &[]);
    for statement in MAINTENANCE {
        run(&mut a, statement);
    }
    // Changes of an unlogged table would be lost.
    let (code, said, _) = error_of(&mut a, "ALTER TABLE insta5.left SET UNLOGGED");
    assert!(["42P16", "55000"].contains(&code.as_str()), "{code}: {said}");
    assert!(said.contains("because it is part of a publication"), "{said}");
    for client in [&mut a, &mut b] {
        for statement in NO_CHANGES {
            run(client, &format!("SET ROLE reader; {statement}; RESET ROLE"));
        }
    }
    run(&mut other, "COMMIT");
    outcome(command).unwrap();
    assert_eq!(one::<i64>(&mut b, "SELECT count(*) FROM insta5.photos"), 1001);
    assert_eq!(one::<i64>(&mut b, "SELECT count(*) FROM insta5.left"), 2);
    assert_eq!(one::<i64>(&mut b, "SELECT count(*) FROM insta5.right"), 0);
    assert_eq!(one::<i64>(&mut b, "SELECT count FROM insta5.seen"), 1);
    run(&mut a, "DROP TYPE pg_temp.own CASCADE"); // with the cast
    servers.command(&["clean", "5"]);
}
