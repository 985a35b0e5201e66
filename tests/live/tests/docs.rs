//! The SQL in the README and in docs/ runs, and gives what the pages say.

use instagram_id_live::*;

const README: &str = include_str!("../../../README.md");

/// Runs a page's statements on a server of their own, and compares the results.
#[track_caller]
fn check(page: &str, at_least: usize) {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    run_page(page, at_least, &mut [("", server.connect())]);
}

#[test]
fn the_readme() {
    check(README, 18);
}

#[test]
fn the_page_about_other_ids() {
    check(include_str!("../../../docs/comparison.md"), 5);
}

#[test]
fn the_page_about_installing() {
    check(include_str!("../../../docs/install.md"), 1);
}

#[test]
fn the_page_about_operations() {
    check(include_str!("../../../docs/operations.md"), 8);
}

#[test]
fn the_page_about_shards() {
    check(include_str!("../../../docs/shards.md"), 15);
}

#[test]
fn the_page_about_adopting() {
    check(include_str!("../../../docs/adopting.md"), 11);
}

#[test]
fn the_page_about_guarantees() {
    check(include_str!("../../../docs/guarantees.md"), 5);
}

#[test]
fn the_page_about_querying() {
    check(include_str!("../../../docs/querying.md"), 30);
}

#[test]
fn the_page_about_scaling() {
    check(include_str!("../../../docs/scaling.md"), 22);
}

/// Where pg_partman is there, in the version that the page is about.
#[test]
fn the_page_about_pg_partman() {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    let mut client = server.connect();
    let version: Option<String> = one(
        &mut client,
        "SELECT (SELECT default_version FROM pg_available_extensions
                 WHERE name = 'pg_partman' AND string_to_array(default_version, '.')::int[] >= '{5,4}')",
    );
    match version {
        Some(version) => {
            println!("pg_partman {version}");
            run_page(include_str!("../../../docs/pg_partman.md"), 4, &mut [("", client)]);
        }
        None => println!("skipped: this server has no pg_partman 5.4 or later"),
    }
}

/// No function is left out, and none is named that is not there.
#[test]
fn the_readme_knows_every_function() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    let query = "SELECT DISTINCT proname::text FROM pg_depend JOIN pg_proc ON pg_proc.oid = objid
        WHERE deptype = 'e' AND classid = 'pg_proc'::regclass
          AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id') ORDER BY 1";
    let installed: Vec<String> = client.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    let mut documented: Vec<String> = README
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('(')?.0.to_owned()))
        .collect();
    documented.sort();
    documented.dedup();
    assert_eq!(installed, documented);
}
