//! The SQL in the README and in docs/ runs, and returns the results that the pages show.

use instagram_id_live::*;
use std::process::Command;

const REFERENCE: &str = include_str!("../../../docs/reference.md");

/// Runs a page's statements on a new server, and compares the results.
#[track_caller]
fn check(page: &str, at_least: usize) {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    run_page(page, at_least, &mut [("", server.connect())]);
}

#[test]
fn readme_examples_run() {
    check(include_str!("../../../README.md"), 2);
}

#[test]
fn reference_examples_run() {
    check(REFERENCE, 22);
}

#[test]
fn other_ids_page_examples_run() {
    check(include_str!("../../../docs/comparison.md"), 5);
}

#[test]
fn installing_page_examples_run() {
    check(include_str!("../../../docs/install.md"), 1);
}

#[test]
fn operations_page_examples_run() {
    check(include_str!("../../../docs/operations.md"), 9);
}

#[test]
fn shards_page_examples_run() {
    check(include_str!("../../../docs/shards.md"), 15);
}

#[test]
fn adopting_page_examples_run() {
    check(include_str!("../../../docs/adopting.md"), 22);
}

#[test]
fn guarantees_page_examples_run() {
    check(include_str!("../../../docs/guarantees.md"), 5);
}

#[test]
fn querying_page_examples_run() {
    check(include_str!("../../../docs/querying.md"), 30);
}

/// The script of the page loads a file, and no row of it if there are too few ids.
#[test]
fn querying_page_load_runs() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    client
        .batch_execute("CREATE TABLE insta5.photos (id bigint PRIMARY KEY, user_id bigint, title text)")
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (1..=5000).map(|n| format!("{n}\tphoto {n}\n")).collect();
    std::fs::write(folder.path().join("photos.tsv"), lines).unwrap();
    let load = |script: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-ec", script]).current_dir(folder.path()).env("PATH", server.programs_path());
        bash.env("PGHOST", server.path()).env("PGUSER", "postgres").output().unwrap()
    };
    let script = blocks(include_str!("../../../docs/querying.md"), "bash")[0];
    let query = "SELECT count(*), count(DISTINCT title), bool_and(id_shard(id) = 5 AND user_id = number),
                       coalesce(min(id_time(id)) > now() - interval '1 minute', false)
                FROM (SELECT *, row_number() OVER (ORDER BY id) AS number FROM insta5.photos) AS photos";
    let too_few = load(&script.replace("next_ids(5, $rows)", "next_ids(5, $rows - 1)"));
    let said = String::from_utf8_lossy(&too_few.stderr).into_owned();
    assert!(said.contains("invalid input syntax for type bigint: \"\""), "{said}");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM insta5.photos"), 0);
    let loaded = load(script);
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    assert_eq!(rows(&mut client, query), ["5000 | 5000 | t | t"]);
}

/// The SQL for PostgREST.
#[test]
fn javascript_page_examples_run() {
    check(include_str!("../../../docs/javascript.md"), 5);
}

#[test]
fn scaling_page_examples_run() {
    check(include_str!("../../../docs/scaling.md"), 23);
}

/// Each query of the page that returns no row on a healthy server returns rows when its condition occurs.
#[test]
fn every_alert_fires() {
    let page = include_str!("../../../docs/operations.md");
    let quiet = blocks(page, "sql").into_iter().filter_map(|block| block.strip_suffix(";  --\n"));
    let [ahead, cannot, twice, older, end, waiting, unlogged, own, claim] = quiet.collect::<Vec<_>>()[..]
    else {
        panic!("another number of alerts in the page");
    };
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id; SELECT create_shard(5)").unwrap();
    let mut fires = |condition: &str, alert: &str| {
        client.batch_execute(condition).unwrap();
        assert_ne!(rows(&mut client, alert).len(), 0, "{alert}");
    };
    fires("SELECT create_shard(8); DROP FUNCTION insta8.id_time(bigint)", cannot);
    fires("SELECT create_shard(7, epoch => now() - interval '33 years')", end);
    fires("CREATE SEQUENCE own; SELECT setval('own', id_floor(now() + interval '1 hour') >> 23 << 10)", own);
    fires("ALTER SEQUENCE insta7.table_id_seq SET UNLOGGED", unlogged);
    fires(
        "CREATE SCHEMA another;
         DO $$ BEGIN EXECUTE replace(pg_get_functiondef('insta7.shard_7'::regproc), 'insta7.shard_7', 'another.shard_7'); END $$",
        twice,
    );
    in_parallel(4, |session| {
        let mut client = server.connect();
        if session == 0 {
            server.wait_for("a session that waits", || !rows(&mut client, waiting).is_empty());
        } else {
            client.batch_execute("SELECT count(next_id(5)) FROM generate_series(1, 1000000)").unwrap();
        }
    });
    fires("SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0))", ahead);
    drop(client);
    server.copy_database("postgres", "wal_log");
    let mut client = server.connect_to("copy");
    client.batch_execute("DROP SCHEMA another, insta8 CASCADE").unwrap();
    assert_ne!(rows(&mut client, cannot).len(), 0, "{cannot}");
    assert_ne!(rows(&mut client, claim).len(), 0, "{claim}");
    assert_eq!(rows(&mut client, cannot).len(), 0, "{cannot}");
    server.connect().batch_execute("CREATE DATABASE older").unwrap();
    let mut client = server.connect_to("older");
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    assert_eq!(rows(&mut client, older).len(), 0, "{older}");
    client
        .batch_execute("UPDATE pg_extension SET extversion = '0.9.0' WHERE extname = 'instagram_id'")
        .unwrap();
    assert_ne!(rows(&mut client, older).len(), 0, "{older}");
}

/// The reference lists every function and no others.
#[test]
fn reference_lists_every_function() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    let query = format!("SELECT DISTINCT proname::text FROM pg_proc WHERE oid IN ({MEMBER_FUNCTIONS})");
    let installed = texts(&mut client, &query);
    let name_of_row = |line: &str| {
        let cell = line.strip_prefix("| `")?.split('`').next()?;
        Some(cell.split_once('(')?.0.to_owned())
    };
    assert_same_set(REFERENCE.lines().filter_map(name_of_row), installed, "functions in docs/reference.md");
}
