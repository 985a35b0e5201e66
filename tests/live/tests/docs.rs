//! The SQL in the README and in docs/ runs, and returns the results that the pages show.

use instagram_id_live::*;

const REFERENCE: &str = include_str!("../../../docs/use/reference.md");

/// Runs a page's statements on a new server, and compares the results.
#[track_caller]
fn check(page: &str, at_least: usize) {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    run_page(page, at_least, &mut [("", server.connect())]);
}

/// A test for each page, with the number of results that it shows at least.
macro_rules! pages {
    ($($test:ident: $page:literal, $at_least:literal;)+) => {
        $(
            #[test]
            fn $test() {
                check(include_str!(concat!("../../../", $page)), $at_least);
            }
        )+
    };
}

pages! {
    readme_examples_run: "README.md", 2;
    reference_examples_run: "docs/use/reference.md", 22;
    other_ids_page_examples_run: "docs/use/comparison.md", 3;
    installing_page_examples_run: "docs/run/install.md", 1;
    operations_page_examples_run: "docs/run/operations.md", 9;
    shards_page_examples_run: "docs/use/shards.md", 15;
    adopting_page_examples_run: "docs/use/adopting.md", 22;
    existing_apps_page_examples_run: "docs/use/existing_apps.md", 9;
    guarantees_page_examples_run: "docs/use/guarantees.md", 5;
    querying_page_examples_run: "docs/use/querying.md", 30;
    javascript_page_examples_run: "docs/use/javascript.md", 5;
    scaling_page_examples_run: "docs/run/scaling.md", 23;
}

/// Each query of the page that returns no row on a healthy server returns rows when its condition
/// occurs.
#[test]
fn every_alert_fires() {
    let page = include_str!("../../../docs/run/operations.md");
    let quiet = blocks(page, "sql").into_iter().filter_map(|block| block.strip_suffix(";  --\n"));
    let [ahead, cannot, twice, older, end, waiting, unlogged, own, claim] =
        quiet.collect::<Vec<_>>()[..]
    else {
        panic!("another number of alerts in the page");
    };
    let (server, mut client) = with_extension();
    run(&mut client, "SELECT create_shard(5)");
    let mut fires = |condition: &str, alert: &str| {
        run(&mut client, condition);
        assert_ne!(rows(&mut client, alert).len(), 0, "{alert}");
    };
    fires("SELECT create_shard(8); DROP FUNCTION insta8.id_time(bigint)", cannot);
    fires("SELECT create_shard(7, epoch => now() - interval '33 years')", end);
    fires(
        "CREATE SEQUENCE own; SELECT setval('own', id_floor(now() + interval '1 hour') >> 23 << 10)",
        own,
    );
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
            run(&mut client, "SELECT count(next_id(5)) FROM generate_series(1, 1000000)");
        }
    });
    fires("SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0))", ahead);
    drop(client);
    server.copy_database("postgres", "wal_log");
    let mut client = server.connect_to("copy");
    run(&mut client, "DROP SCHEMA another, insta8 CASCADE");
    assert_ne!(rows(&mut client, cannot).len(), 0, "{cannot}");
    let claims = texts(&mut client, claim);
    assert_ne!(claims.len(), 0, "{claim}");
    claims.iter().for_each(|claim| run(&mut client, claim));
    assert_eq!(rows(&mut client, cannot).len(), 0, "{cannot}");
    run(&mut server.connect(), "CREATE DATABASE older");
    let mut client = server.connect_to("older");
    run(&mut client, "CREATE EXTENSION instagram_id");
    assert_eq!(rows(&mut client, older).len(), 0, "{older}");
    run(&mut client, "UPDATE pg_extension SET extversion = '0.9.0' WHERE extname = 'instagram_id'");
    assert_ne!(rows(&mut client, older).len(), 0, "{older}");
}

/// The reference lists every function and no others.
#[test]
fn reference_lists_every_function() {
    let (_server, mut client) = with_extension();
    let query =
        format!("SELECT DISTINCT proname::text FROM pg_proc WHERE oid IN ({MEMBER_FUNCTIONS})");
    let installed = texts(&mut client, &query);
    let name_of_row = |line: &str| {
        let cell = line.strip_prefix("| `")?.split('`').next()?;
        Some(cell.split_once('(')?.0.to_owned())
    };
    assert_same_set(
        REFERENCE.lines().filter_map(name_of_row),
        installed,
        "functions in docs/use/reference.md",
    );
}
