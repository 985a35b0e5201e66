//! The SQL of docs/use/partition_managers.md, with the pg_partman and the TimescaleDB that the
//! server has.

use instagram_id_live::*;

const PAGE: &str = include_str!("../../docs/use/partition_managers.md");

/// The default version of an extension, which the server must have.
#[track_caller]
fn version_of(extension: &str) -> String {
    let server = Server::start(&[("fsync", "off")]);
    let query = format!(
        "SELECT (SELECT default_version FROM pg_available_extensions WHERE name = '{extension}')"
    );
    let version: Option<String> = one(&mut server.connect(), &query);
    let version = version.unwrap_or_else(|| {
        panic!(
            "{extension} is missing; Debian has it in the package postgresql-{}-{}",
            major(),
            extension.trim_start_matches("pg_")
        )
    });
    println!("{extension} {version}");
    version
}

/// The part of the page about this extension.
fn part(extension: &str) -> &'static str {
    let heading = format!("\n## {extension}\n");
    PAGE.split_once(&heading).expect("a heading").1.split("\n## ").next().unwrap()
}

/// A user of each version of pg_partman runs the sections for it, and those for all.
#[test]
fn pg_partman_page_examples_run() {
    let version = version_of("pg_partman");
    let numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
    let sections: &[&str] = match (numbers[0], numbers[1]) {
        (4, _) => &["Debian 12: pg_partman 4", "Every day: before pg_partman 5.4"],
        (5, 0..4) => &["Debian 13: pg_partman 5.0 to 5.3", "Every day: before pg_partman 5.4"],
        _ => &["pg_partman 5.4 and later"],
    };
    let (mut page, mut found) = (String::new(), 0);
    for (n, section) in part("pg_partman").split("\n### ").enumerate() {
        let heading = section.lines().next().unwrap();
        let is_for_all =
            n == 0 || ["All versions", "Encoder functions for bigint columns"].contains(&heading);
        if is_for_all || sections.contains(&heading) {
            page += section;
            found += usize::from(!is_for_all);
        }
    }
    assert_eq!(found, sections.len(), "the page has the sections of {version}");
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    run_page(&page, 6, &mut [("", server.connect())]);

    // The statement of the page drops partitions of more than 90 days ago, and no others: also if
    // a role inserts keys of the future, from which pg_partman would count.
    let mut client = server.connect();
    let drop_old = page.lines().find(|line| line.contains("drop_old_id_partitions(")).unwrap();
    let drop_old = drop_old.split_once(';').unwrap().0;
    const BOUNDS: &str = "FROM partman.show_partitions('insta5.visits'),
        partman.show_partition_info(partition_schemaname || '.' || partition_tablename, p_parent_table => 'insta5.visits')";
    let first: i64 = one(&mut client, &format!("SELECT min(child_start_id) {BOUNDS}"));
    let create = format!(
        "SELECT partman.create_partition_id('insta5.visits', array_agg({first} - n * (86400000::bigint << 23)))
         FROM generate_series(1, 95) AS n"
    );
    assert!(one::<bool>(&mut client, &create));
    for _ in 0..5 {
        run(
            &mut client,
            &format!("INSERT INTO insta5.visits SELECT max(child_end_id) - 1, 'future' {BOUNDS}"),
        );
        run(&mut client, "SELECT partman.run_maintenance('insta5.visits')");
    }
    assert!((4..=6).contains(&one::<i64>(&mut client, drop_old)));
    let oldest = format!("SELECT now() - id_time(min(child_end_id)) < '91 days' {BOUNDS}");
    assert!(one::<bool>(&mut client, &oldest));
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM insta5.visits"), 6);
}

#[test]
fn timescaledb_page_examples_run() {
    version_of("timescaledb");
    let settings =
        [("fsync", "off"), ("timezone", "UTC"), ("shared_preload_libraries", "timescaledb")];
    let server = Server::start(&settings);
    run_page(part("TimescaleDB"), 4, &mut [("", server.connect())]);
}
