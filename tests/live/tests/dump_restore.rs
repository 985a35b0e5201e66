//! A shard keeps its state, its epoch and its privileges through dump, restore and copy: see
//! `restored` in the library.

use instagram_id_live::restored::*;
use instagram_id_live::*;
use postgres::Client;

#[test]
fn dump_of_a_schema_keeps_the_state() {
    let server = fast();
    // A server with another time zone and date style.
    let other =
        Server::start(&[("fsync", "off"), ("timezone", "Asia/Kolkata"), ("datestyle", "SQL, DMY")]);
    let largest = settle(&server);
    run(&mut other.connect(), "CREATE ROLE app");
    let (script, archive) = (server.path().join("shards.sql"), server.path().join("shards.dump"));
    server.run("pg_dump", &[&BOTH_SCHEMAS[..], &["-f", "shards.sql", "home"]].concat());
    server.run("pg_dump", &[&BOTH_SCHEMAS[..], &["-Fc", "-f", "shards.dump", "home"]].concat());
    for destination_server in [&server, &other] {
        let mut client = destination(destination_server, "by_script");
        run_script(destination_server, &script, "by_script");
        check_restored(&mut client, largest);
        let mut client = destination(destination_server, "by_archive");
        let archive = archive.to_str().unwrap();
        destination_server
            .run("pg_restore", &["--exit-on-error", "-j", "2", "-d", "by_archive", archive]);
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
        run(&mut client, "CREATE TABLE other ()");
        server.crash();
        server.launch();
        let mut client = server.connect_to("copy");
        run(&mut client, "SELECT claim_shard(5), claim_shard(6)");
        check_shards(&mut client, largest, true);
    }
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
    run(&mut client, "DROP EXTENSION instagram_id CASCADE");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM pg_attrdef"), 0);
    run(&mut client, "CREATE EXTENSION instagram_id");
    for Shard { number, schema, .. } in SHARDS {
        run(
            &mut client,
            &format!(
                "SELECT create_shard({number}, if_not_exists => true);
                 ALTER TABLE {schema}.photos ALTER id SET DEFAULT {schema}.next_id();
                 ALTER TABLE {schema}.likes ALTER id SET DEFAULT next_id({number})"
            ),
        );
    }
    check_shards(&mut client, largest, true);
}

#[test]
fn dropping_the_schema_drops_the_shard() {
    let server = fast();
    let largest = settle(&server);
    let mut client = server.connect_to("home");
    one::<i64>(&mut client, "SELECT next_id(5)");
    run(&mut client, "DROP SCHEMA insta5 CASCADE");
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

/// Schema tools drop sequences that they do not know. docs/use/shards.md has the repair.
#[test]
fn dropped_sequence_can_be_replaced() {
    let server = fast();
    let client = &mut server.connect();
    setup(client);
    let an_hour_ahead =
        "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id());
        SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0));
        INSERT INTO insta5.photos SELECT FROM generate_series(1, 1000)";
    run(client, an_hour_ahead);
    let last: i64 = one(client, "SELECT max(id) FROM insta5.photos");
    let is_after = |client: &mut Client| one::<i64>(client, "SELECT next_id(5)") > last;
    assert!(is_after(client));

    assert_eq!(error_of(client, "DROP SEQUENCE insta5.table_id_seq").0, "2BP01");
    run(client, "DROP SEQUENCE insta5.table_id_seq CASCADE");
    assert_eq!(error_of(client, "INSERT INTO insta5.photos DEFAULT VALUES").0, "23502");
    assert_eq!(error_of(client, "SELECT next_id(5)").0, "42P01");
    run(client, "SELECT create_shard(5, if_not_exists => true)");
    assert!(!is_after(client), "the new sequence does not know the last id");
    run(client, "SELECT advance_shard(5, max(id)) FROM insta5.photos");
    assert!(is_after(client));
    run(client, "ALTER TABLE insta5.photos ALTER id SET DEFAULT insta5.next_id()");
    run(client, "INSERT INTO insta5.photos DEFAULT VALUES");
    assert!(one::<i64>(client, "SELECT max(id) FROM insta5.photos") > last);
}
