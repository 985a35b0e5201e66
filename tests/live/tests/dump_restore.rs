//! A shard keeps its state, its epoch and its privileges through dump, restore, copy and upgrade.
//!
//! The shards here are an hour ahead of the clock, so that only the state that was transferred keeps new ids above the
//! old ones, not the clock.

use instagram_id_live::*;
use postgres::Client;
use std::path::Path;

struct Shard {
    number: i32,
    /// Its schema, as a quoted identifier.
    schema: &'static str,
    epoch: &'static str,
}

const SHARDS: [Shard; 2] = [
    Shard { number: 5, schema: "insta5", epoch: "2011-08-24 21:07:01.721+00" },
    Shard { number: 6, schema: r#""it's ""Odd""""#, epoch: "2020-01-01 00:00+00" },
];

/// Number of ids in each table of a shard.
const ROWS: i64 = 3000;

/// The largest id of each shard.
type Largest = [i64; 2];

fn fast() -> Server {
    Server::start(&[("fsync", "off")])
}

/// Creates a database `home` with both shards, which both forms of default have used, and the role that may use them.
fn settle(server: &Server) -> Largest {
    create_database(server, "home");
    server.connect().batch_execute("CREATE ROLE app").unwrap();
    let mut client = server.connect_to("home");
    client
        .batch_execute(
            r#"CREATE EXTENSION instagram_id; SELECT create_shard(5);
               SELECT create_shard(6, schema => 'it''s "Odd"', epoch => '2020-01-01 00:00+00')"#,
        )
        .unwrap();
    SHARDS.map(|Shard { number, schema, .. }| {
        client
            .batch_execute(&format!(
                "CREATE TABLE {schema}.photos (id bigint PRIMARY KEY DEFAULT {schema}.next_id(), title text);
                 CREATE TABLE {schema}.likes (id bigint PRIMARY KEY DEFAULT next_id({number}), title text);
                 GRANT USAGE ON SCHEMA {schema} TO app;
                 GRANT USAGE ON SEQUENCE {schema}.table_id_seq TO app;
                 GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO app;
                 SELECT next_id({number})"
            ))
            .unwrap();
        set_an_hour_ahead(&mut client, &format!("{schema}.table_id_seq"));
        ["photos", "likes"].map(|table| *insert(&mut client, schema, table).last().unwrap())[1]
    })
}

fn create_database(server: &Server, name: &str) {
    server.connect().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
}

fn insert(client: &mut Client, schema: &str, table: &str) -> Vec<i64> {
    let titles = format!("SELECT 'title ' || n FROM generate_series(1, {ROWS}) AS n");
    column(client, &format!("INSERT INTO {schema}.{table} (title) {titles} RETURNING id"))
}

/// Checks that both shards are complete in this database, which is not the one in which they were created, and claims
/// them.
#[track_caller]
fn check_restored(client: &mut Client, largest: Largest) {
    for Shard { schema, .. } in SHARDS {
        for table in ["photos", "likes"] {
            assert_eq!(
                one::<i64>(client, &format!("SELECT count(*) FROM {schema}.{table}")),
                ROWS,
                "{schema}"
            );
        }
    }
    let largest = check_shards(client, largest, false);
    client.batch_execute("SELECT claim_shard(5), claim_shard(6)").unwrap();
    check_shards(client, largest, true);
}

/// Checks that both shards are complete, and that their new ids are above the `largest` so far; returns the last ones.
#[track_caller]
fn check_shards(client: &mut Client, largest: Largest, can_generate: bool) -> Largest {
    [
        check_shard(client, &SHARDS[0], largest[0], can_generate),
        check_shard(client, &SHARDS[1], largest[1], can_generate),
    ]
}

#[track_caller]
fn check_shard(client: &mut Client, shard: &Shard, largest: i64, can_generate: bool) -> i64 {
    let Shard { number, schema, epoch } = shard;
    client.batch_execute("SET ROLE app").unwrap();
    let mut ids = vec![largest];
    ids.extend(insert(client, schema, "photos"));
    ids.extend(insert(client, schema, "likes"));
    for call in [format!("{schema}.next_id()"), format!("next_id({number})")] {
        ids.extend(column(client, &format!("SELECT {call} FROM generate_series(1, 1500)")));
    }
    client.batch_execute("RESET ROLE").unwrap();
    check_unique_and_increasing(&[ids.clone()]);
    let last = *ids.last().unwrap();
    // Counted from the shard's epoch their time is an hour ahead, minus the time since then.
    let wrong = format!(
        "SELECT count(*) FROM unnest($1::bigint[]) AS id
         WHERE id_shard(id) <> {number} OR {schema}.id_time(id) <> id_time(id, '{epoch}')
             OR {schema}.id_time(id) - clock_timestamp() NOT BETWEEN '40 min' AND '61 min'"
    );
    assert_eq!(client.query_one(&wrong, &[&ids]).unwrap().get::<_, i64>(0), 0, "{schema}");
    let definition = format!(
        "SELECT sequence = $${schema}.table_id_seq$$::regclass AND epoch = '{epoch}' AND {schema}.epoch() = epoch
         FROM {schema}.shard_{number}()"
    );
    assert!(one::<bool>(client, &definition), "{definition}");
    let in_view = format!(
        "SELECT quote_ident(schema) = $${schema}$$ AND sequence = $${schema}.table_id_seq$$::regclass
             AND epoch = '{epoch}' AND last_id = {last} AND can_generate = {can_generate}
         FROM id_shards WHERE shard = {number}"
    );
    assert!(one::<bool>(client, &in_view), "{in_view}");
    last
}

/// A new database, ready for the restore.
fn destination(server: &Server, name: &str) -> Client {
    create_database(server, name);
    let mut client = server.connect_to(name);
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    client
}

fn run_script(server: &Server, script: &Path, database: &str) {
    server.run("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script.to_str().unwrap(), database]);
}

const BOTH_SCHEMAS: [&str; 4] = ["-n", "insta5", "-n", SHARDS[1].schema];

#[test]
fn dump_of_a_schema_keeps_the_state() {
    let server = fast();
    // A server with another time zone and date style.
    let other = Server::start(&[("fsync", "off"), ("timezone", "Asia/Kolkata"), ("datestyle", "SQL, DMY")]);
    let largest = settle(&server);
    other.connect().batch_execute("CREATE ROLE app").unwrap();
    let (script, archive) = (server.path().join("shards.sql"), server.path().join("shards.dump"));
    server.run("pg_dump", &[&BOTH_SCHEMAS[..], &["-f", "shards.sql", "home"]].concat());
    server.run("pg_dump", &[&BOTH_SCHEMAS[..], &["-Fc", "-f", "shards.dump", "home"]].concat());
    for destination_server in [&server, &other] {
        let mut client = destination(destination_server, "by_script");
        run_script(destination_server, &script, "by_script");
        check_restored(&mut client, largest);
        let mut client = destination(destination_server, "by_archive");
        let archive = archive.to_str().unwrap();
        destination_server.run("pg_restore", &["--exit-on-error", "-j", "2", "-d", "by_archive", archive]);
        check_restored(&mut client, largest);
    }
    // The original database is unchanged.
    check_shards(&mut server.connect_to("home"), largest, true);
}

/// The checks of these tests detect a lost state, after which new ids are below earlier ones.
#[test]
fn lost_sequence_state_is_detected() {
    let server = fast();
    let largest = settle(&server);
    server.run("pg_dump", &[&BOTH_SCHEMAS[..], &["-f", "shards.sql", "home"]].concat());
    let script = server.path().join("shards.sql");
    let whole = std::fs::read_to_string(&script).unwrap();
    let stateless: Vec<&str> = whole.lines().filter(|line| !line.contains("setval(")).collect();
    std::fs::write(&script, stateless.join("\n")).unwrap();
    let mut client = destination(&server, "elsewhere");
    run_script(&server, &script, "elsewhere");
    let check = std::panic::AssertUnwindSafe(|| check_restored(&mut client, largest));
    let seen = std::panic::catch_unwind(check).expect_err("a loss that is not seen");
    let seen = seen.downcast_ref::<String>().unwrap();
    assert!(seen.starts_with(&format!("session 0: {} is followed by ", largest[0])), "{seen}");
}

#[test]
fn dump_of_a_database_keeps_the_state() {
    let server = fast();
    let largest = settle(&server);
    server.run("pg_dump", &["-f", "home.sql", "home"]);
    create_database(&server, "copy");
    run_script(&server, &server.path().join("home.sql"), "copy");
    check_restored(&mut server.connect_to("copy"), largest);
}

#[test]
fn separate_dumps_of_schema_and_data_keep_the_state() {
    let server = fast();
    let largest = settle(&server);
    create_database(&server, "copy");
    for part in ["--schema-only", "--data-only"] {
        server.run("pg_dump", &[part, "-f", "part.sql", "home"]);
        run_script(&server, &server.path().join("part.sql"), "copy");
    }
    check_restored(&mut server.connect_to("copy"), largest);
}

#[test]
fn database_from_a_template_keeps_the_state() {
    for strategy in ["wal_log", "file_copy"] {
        // With fsync, since the test crashes the server.
        let server = Server::start(&[]);
        let largest = settle(&server);
        server.copy_database("home", strategy);
        server.crash();
        server.launch();
        let mut client = server.connect_to("copy");
        let largest = check_shards(&mut client, largest, false);
        // The commit of another command flushes WAL, as on any busy server.
        client.batch_execute("CREATE TABLE other ()").unwrap();
        server.crash();
        server.launch();
        let mut client = server.connect_to("copy");
        client.batch_execute("SELECT claim_shard(5), claim_shard(6)").unwrap();
        check_shards(&mut client, largest, true);
    }
}

/// A server of the installation that `NEWER_PG_CONFIG` names, if it is set.
fn newer_server() -> Option<Server> {
    let Some(pg_config) = std::env::var("NEWER_PG_CONFIG").ok().filter(|path| !path.is_empty()) else {
        println!("skipped: NEWER_PG_CONFIG names no newer PostgreSQL with the extension");
        return None;
    };
    Some(Server::start_of(&pg_config, &[("fsync", "off")]))
}

#[test]
fn dump_and_restore_on_a_newer_major_keep_the_state() {
    let Some(newer) = newer_server() else { return };
    let server = fast();
    let largest = settle(&server);
    let host = server.path().to_str().unwrap();
    newer.run("pg_dumpall", &["-h", host, "-f", "all.sql"]);
    newer.run("pg_dump", &["-h", host, "-f", "home.sql", "home"]);
    newer.run("pg_dump", &[&BOTH_SCHEMAS[..], &["-h", host, "-f", "shards.sql", "home"]].concat());
    // psql continues after errors by default. The role postgres exists already; and programs from before November 2026
    // set an option, pg_attver, that they found on a later server.
    let run = |script: &str, database: &str| newer.run("psql", &["-X", "-q", "-f", script, database]);
    run("all.sql", "postgres");
    check_restored(&mut newer.connect_to("home"), largest);
    create_database(&newer, "whole");
    run("home.sql", "whole");
    check_restored(&mut newer.connect_to("whole"), largest);
    let mut client = destination(&newer, "shards");
    run("shards.sql", "shards");
    check_restored(&mut client, largest);
    // The newer pg_dump writes a script that runs without any error.
    server.run("pg_dump", &[&BOTH_SCHEMAS[..], &["-f", "shards.sql", "home"]].concat());
    let mut client = destination(&newer, "by_its_own");
    run_script(&newer, &server.path().join("shards.sql"), "by_its_own");
    check_restored(&mut client, largest);
}

/// For PostgreSQL the upgraded server is another one, so the shards must be claimed.
#[test]
fn pg_upgrade_keeps_the_state() {
    let Some(newer) = newer_server() else { return };
    if !newer.bin().join("pg_upgrade").exists() {
        println!("skipped: there is no pg_upgrade in {}", newer.bin().display());
        return;
    }
    let server = fast();
    // See the test above. If that option is set for an unrelated table, pg_upgrade fails.
    server.connect().batch_execute("CREATE TABLE plain (n int)").unwrap();
    newer.run("pg_dump", &["-h", server.path().to_str().unwrap(), "-f", "plain.sql", "postgres"]);
    if std::fs::read_to_string(newer.path().join("plain.sql")).unwrap().contains("pg_attver") {
        println!("skipped: this pg_upgrade is older than the server and fails on any table (pg_attver)");
        return;
    }
    let largest = settle(&server);
    let checksums = |server: &Server| one::<String>(&mut server.connect(), "SHOW data_checksums");
    let differ = checksums(&server) != checksums(&newer);
    server.stop();
    newer.stop();
    if differ {
        server.run("pg_checksums", &["--enable", "--no-sync", "-D", "data"]); // the default from 18 on
    }
    let (old_bin, old_data) = (server.bin().to_str().unwrap(), server.path().join("data"));
    let old_data = old_data.to_str().unwrap();
    newer.run("pg_upgrade", &["-U", "postgres", "-b", old_bin, "-d", old_data, "-D", "data"]);
    newer.launch();
    check_restored(&mut newer.connect_to("home"), largest);
}

/// The DETAIL of a statement's error.
fn detail_of(client: &mut Client, statement: &str) -> String {
    let error = client.batch_execute(statement).expect_err(statement);
    error.as_db_error().and_then(|error| error.detail()).unwrap_or_default().into()
}

#[test]
fn extension_can_be_dropped_and_created_again() {
    let server = fast();
    let largest = settle(&server);
    let mut client = server.connect_to("home");
    let detail = detail_of(&mut client, "DROP EXTENSION instagram_id");
    for Shard { number, schema, .. } in SHARDS {
        for dependent in [
            format!("function {schema}.next_id() depends on "),
            format!("function {schema}.id_time(bigint) depends on "),
            format!(
                "default value for column id of table {schema}.likes depends on function next_id(integer)"
            ),
        ] {
            assert!(detail.contains(&dependent), "{number}: {detail}");
        }
    }
    client.batch_execute("DROP EXTENSION instagram_id CASCADE").unwrap();
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM pg_attrdef"), 0);
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    for Shard { number, schema, .. } in SHARDS {
        client
            .batch_execute(&format!(
                "SELECT create_shard({number}, if_not_exists => true);
                 ALTER TABLE {schema}.photos ALTER id SET DEFAULT {schema}.next_id();
                 ALTER TABLE {schema}.likes ALTER id SET DEFAULT next_id({number})"
            ))
            .unwrap();
    }
    check_shards(&mut client, largest, true);
}

#[test]
fn dropping_the_schema_drops_the_shard() {
    let server = fast();
    let largest = settle(&server);
    let mut client = server.connect_to("home");
    one::<i64>(&mut client, "SELECT next_id(5)");
    client.batch_execute("DROP SCHEMA insta5 CASCADE").unwrap();
    let (state, message, hint) = error_of(&mut client, "SELECT next_id(5)");
    assert_eq!(
        (state.as_str(), message.as_str(), hint.as_str()),
        (
            "42P01",
            "shard 5 does not exist\nSchema insta5 does not exist.",
            "Create the shard with SELECT create_shard(5)."
        )
    );
    assert_eq!(column(&mut client, "SELECT shard::bigint FROM id_shards"), [6]);
    check_shard(&mut client, &SHARDS[1], largest[1], true);
}

/// Schema tools drop sequences that they do not know. docs/shards.md has the repair.
#[test]
fn dropped_sequence_can_be_replaced() {
    let server = fast();
    let client = &mut server.connect();
    setup(client);
    let an_hour_ahead = "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id());
        SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0));
        INSERT INTO insta5.photos SELECT FROM generate_series(1, 1000)";
    client.batch_execute(an_hour_ahead).unwrap();
    let last: i64 = one(client, "SELECT max(id) FROM insta5.photos");
    let is_after = |client: &mut Client| one::<i64>(client, "SELECT next_id(5)") > last;
    assert!(is_after(client));

    assert_eq!(error_of(client, "DROP SEQUENCE insta5.table_id_seq").0, "2BP01");
    client.batch_execute("DROP SEQUENCE insta5.table_id_seq CASCADE").unwrap();
    assert_eq!(error_of(client, "INSERT INTO insta5.photos DEFAULT VALUES").0, "23502");
    assert_eq!(error_of(client, "SELECT next_id(5)").0, "42P01");
    client.batch_execute("SELECT create_shard(5, if_not_exists => true)").unwrap();
    assert!(!is_after(client), "the new sequence does not know the last id");
    client.batch_execute("SELECT advance_shard(5, max(id)) FROM insta5.photos").unwrap();
    assert!(is_after(client));
    client.batch_execute("ALTER TABLE insta5.photos ALTER id SET DEFAULT insta5.next_id()").unwrap();
    client.batch_execute("INSERT INTO insta5.photos DEFAULT VALUES").unwrap();
    assert!(one::<i64>(client, "SELECT max(id) FROM insta5.photos") > last);
}
