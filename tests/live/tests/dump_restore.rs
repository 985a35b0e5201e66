//! A shard keeps its state, its epoch and its privileges through dump, restore and copy: see
//! `restored` in the library.

use instagram_id_live::restored::*;
use instagram_id_live::*;

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
    let mut client = destination(&other, "by_script");
    run_script(&other, &script, "by_script");
    check_restored(&mut client, largest);
    let mut client = destination(&other, "by_archive");
    let archive = archive.to_str().unwrap();
    other.run("pg_restore", &["--exit-on-error", "-j", "2", "-d", "by_archive", archive]);
    check_restored(&mut client, largest);
    // The original database is unchanged.
    check_shards(&mut server.connect_to("home"), largest, true);
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
