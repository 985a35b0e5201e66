//! Dumps and upgrades from the PostgreSQL under test to a newer major, which `NEWER_PG_CONFIG`
//! names.

use instagram_id_live::restored::*;
use instagram_id_live::*;

/// A server of the installation that `NEWER_PG_CONFIG` names.
fn newer_server() -> Server {
    let pg_config = std::env::var("NEWER_PG_CONFIG").unwrap_or_default();
    assert!(!pg_config.is_empty(), "NEWER_PG_CONFIG names no newer PostgreSQL with the extension");
    Server::start_of(&pg_config, &[("fsync", "off")])
}

#[test]
fn dump_and_restore_on_a_newer_major_keep_the_state() {
    let newer = newer_server();
    let server = fast();
    let largest = settle(&server);
    let host = server.path().to_str().unwrap();
    newer.run("pg_dumpall", &["-h", host, "-f", "all.sql"]);
    newer.run("pg_dump", &["-h", host, "-f", "home.sql", "home"]);
    newer.run("pg_dump", &[&BOTH_SCHEMAS[..], &["-h", host, "-f", "shards.sql", "home"]].concat());
    // psql continues after errors by default. The role postgres exists already; and programs from
    // before November 2026 set an option, pg_attver, that they found on a later server.
    let run =
        |script: &str, database: &str| newer.run("psql", &["-X", "-q", "-f", script, database]);
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
    let newer = newer_server();
    let server = fast();
    // See the test above. If that option is set for an unrelated table, pg_upgrade fails.
    run(&mut server.connect(), "CREATE TABLE plain (n int)");
    newer.run("pg_dump", &["-h", server.path().to_str().unwrap(), "-f", "plain.sql", "postgres"]);
    let plain = std::fs::read_to_string(newer.path().join("plain.sql")).unwrap();
    assert!(
        !plain.contains("pg_attver"),
        "this pg_upgrade is older than the server and fails on any table"
    );
    let largest = settle(&server);
    let checksums = |server: &Server| one::<String>(&mut server.connect(), "SHOW data_checksums");
    let differ = checksums(&server) != checksums(&newer);
    server.stop();
    newer.stop();
    if differ {
        // The default from 18 on.
        server.run("pg_checksums", &["--enable", "--no-sync", "-D", "data"]);
    }
    let (old_bin, old_data) = (server.bin().to_str().unwrap(), server.path().join("data"));
    let old_data = old_data.to_str().unwrap();
    newer.run("pg_upgrade", &["-U", "postgres", "-b", old_bin, "-d", old_data, "-D", "data"]);
    newer.launch();
    check_restored(&mut newer.connect_to("home"), largest);
}
