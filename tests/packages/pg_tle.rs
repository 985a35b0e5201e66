//! The portable edition as a Trusted Language Extension, with the pg_tle that the server has. No
//! package registry that the scripts use has pg_tle.

use instagram_id_live::*;
use postgres::{Client, NoTls};
use std::path::Path;
use std::process::Command;

/// The output of portable/pg_tle.sh.
fn script(arguments: &[&str]) -> String {
    let script = Command::new(of_project("portable/pg_tle.sh")).args(arguments).output().unwrap();
    assert!(script.status.success(), "{script:?}");
    String::from_utf8(script.stdout).unwrap()
}

fn connect_as(server: &Server, database: &str, role: &str) -> Client {
    server.config(database).user(role).connect(NoTls).unwrap()
}

/// The commands of docs/run/portable.md: a role that owns the database and is no superuser installs
/// and updates the extension. Ids continue. A shard goes to the library by a dump, not in place.
#[test]
fn pg_tle_installs_and_updates_the_portable_edition() {
    let control = Path::new(&pg_config_says("--sharedir")).join("extension/pg_tle.control");
    assert!(control.exists(), "pg_tle is missing; install https://github.com/aws/pg_tle");
    let server = Server::start(&[("fsync", "off"), ("shared_preload_libraries", "pg_tle")]);
    for statement in [
        "CREATE ROLE installer LOGIN; CREATE ROLE writer LOGIN",
        "CREATE DATABASE app OWNER installer",
        "CREATE DATABASE library OWNER installer",
        "ALTER DATABASE app SET search_path = public, ids",
    ] {
        run(&mut server.connect(), statement);
    }
    run(&mut server.connect_to("app"), "CREATE EXTENSION pg_tle; GRANT pgtle_admin TO installer");
    let mut installer = connect_as(&server, "app", "installer");
    run(&mut installer, &script(&[]));
    run(&mut installer, "CREATE EXTENSION instagram_id_portable; SELECT ids.create_shard(5)");
    run(
        &mut installer,
        "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text);
         GRANT USAGE ON SCHEMA insta5 TO writer; GRANT INSERT ON insta5.photos TO writer",
    );
    let insert = "INSERT INTO insta5.photos SELECT FROM generate_series(1, 500)";
    run(&mut connect_as(&server, "app", "writer"), insert);

    let later = script(&["1.0.0", "1.1.0"]).replace("1.0.0-portable", "1.1.0-portable");
    run(&mut installer, &later);
    run(&mut installer, "ALTER EXTENSION instagram_id_portable UPDATE TO '1.1.0'");
    let mut writer = connect_as(&server, "app", "writer");
    assert_eq!(one::<String>(&mut writer, "SELECT instagram_id_version()"), "1.1.0-portable");
    run(&mut writer, insert);
    assert_eq!(error_of(&mut writer, "BEGIN; LOCK TABLE ids_mutexes._mutex_0").0, "42501");
    run(&mut writer, "ROLLBACK");
    let count = "SELECT count(DISTINCT id) FROM insta5.photos WHERE insta5.id_time(id) <= now()";
    assert_eq!(one::<i64>(&mut installer, count), 1000);
    assert!(one::<bool>(&mut installer, "SELECT can_generate FROM id_shards"));

    let mut app = server.connect_to("app");
    for version in ["", " VERSION '1.0.0-portable'"] {
        let statement = format!("CREATE EXTENSION instagram_id SCHEMA ids{version}");
        let refused = error_of(&mut app, &statement);
        assert_eq!(refused.0, "55000", "{statement}: {refused:?}");
    }
    let dump = server.path().join("insta5.sql");
    let dump = dump.to_str().unwrap();
    let of_shard = ["-U", "installer", "-d", "app", "-n", "insta5", "--no-owner", "-f", dump];
    server.run("pg_dump", &of_shard);
    let mut library = connect_as(&server, "library", "installer");
    run(&mut library, "CREATE SCHEMA ids; CREATE EXTENSION instagram_id SCHEMA ids");
    let options = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "installer", "-d", "library"];
    server.run("psql", &[&options[..], &["-f", dump]].concat());
    run(&mut library, "SELECT ids.claim_shard(5)");
    let newest = "SELECT max(id) FROM insta5.photos";
    let last: i64 = one(&mut installer, newest);
    run(&mut library, insert);
    assert_eq!(one::<i64>(&mut library, "SELECT count(*) FROM insta5.photos"), 1500);
    let next = format!("SELECT count(*) FROM insta5.photos WHERE id > {last}");
    assert_eq!(one::<i64>(&mut library, &next), 500);
}
