//! Pages whose SQL uses modules of contrib: pgcrypto and postgres_fdw.

use instagram_id_live::*;

const PAGE: &str = include_str!("../../docs/run/servers.md");

#[test]
fn opaque_ids_page_examples_run() {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    run_page(include_str!("../../docs/use/opaque_ids.md"), 10, &mut [("", server.connect())]);
}

/// Runs the page's SQL, and checks the plans that it shows.
#[test]
#[allow(clippy::too_many_lines)] // one scenario
fn servers_page_examples_run() {
    let place = Place::with_a_map();
    for server in [&place.a, &place.b] {
        run(&mut server.connect(), "CREATE DATABASE app");
    }
    let folder = |server: &Server| server.path().display().to_string();
    let page = PAGE
        .replace("a.example.net", &folder(&place.a))
        .replace("b.example.net", &folder(&place.b));
    let app = |server: &Server| server.connect_to("app");
    run_page(&page, 15, &mut [("map", place.map()), ("a", app(&place.a)), ("b", app(&place.b))]);

    // The block for psql.
    let script = place.a.path().join("by_hand.sql");
    std::fs::write(&script, blocks(&page, "psql")[0]).unwrap();
    let said = place.a.run(
        "psql",
        &["-X", "-v", "ON_ERROR_STOP=1", "-A", "-d", "app", "-f", script.to_str().unwrap()],
    );
    assert!(said.contains("id_shard\n1341\n(1 row)"), "{said}");

    // The plans.
    let shown = blocks(&page, "text");
    let (mut a, mut b) = (app(&place.a), app(&place.b));
    const NEWEST: &str = "SELECT * FROM everywhere.photos ORDER BY id DESC LIMIT 50";
    let explain = format!("EXPLAIN (VERBOSE, COSTS OFF) {NEWEST}");
    assert!(page.contains(&format!("{explain};\n")), "not on the page: {explain}");
    let plan = rows(&mut a, &explain);
    let text = trimmed(&plan.join("\n"));
    assert!(shown.iter().any(|&block| trimmed(block) == text), "not on the page:\n{text}");
    let (_, remote) = plan.iter().find_map(|line| line.split_once("Remote SQL: ")).unwrap();
    let plan = rows(&mut b, &format!("EXPLAIN (COSTS OFF) DECLARE newest CURSOR FOR {remote}"));
    assert_eq!(
        plan.iter().filter(|line| line.contains("Index Scan Backward using photos_pkey")).count(),
        2
    );

    // A condition with `now()` fetches the whole table.
    let with_now =
        "SELECT title FROM b.photos WHERE id_between(id, now() - interval '1 day', now())";
    let explain = format!("EXPLAIN (VERBOSE, COSTS OFF) {with_now}");
    assert!(page.contains(&format!("{explain};\n")), "not on the page: {explain}");
    let plan = rows(&mut a, &explain).join("\n");
    assert!(plan.ends_with("Remote SQL: SELECT id, title FROM here.photos"), "{plan}");

    // The result.
    let mut truth: Vec<String> = vec![];
    for (client, shards) in [(&mut a, [5, 6]), (&mut b, [7, 1341])] {
        for shard in shards {
            truth.extend(rows(client, &format!("SELECT * FROM insta{shard}.photos")));
        }
    }
    truth.sort_by_key(|row| -row.split(' ').next().unwrap().parse::<i64>().unwrap());
    truth.truncate(50);
    assert_eq!(rows(&mut a, NEWEST), truth);

    // The rows that the query read on `b`. The statistics of a session are complete when it has
    // ended.
    drop((a, b));
    let mut b = app(&place.b);
    let mut rows_read = || {
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = 'app' AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        place.b.wait_for("the end of the other sessions", || one::<i64>(&mut b, others) == 0);
        one::<i64>(
            &mut b,
            "SELECT sum(idx_tup_fetch + seq_tup_read)::bigint FROM pg_stat_user_tables",
        )
    };
    let before = rows_read();
    rows(&mut app(&place.a), NEWEST);
    let read = rows_read() - before;
    println!("{read} rows read on the other server for the newest 50");
    assert!((100..=102).contains(&read)); // the fetched rows, and one row read ahead in each index
}

/// A role that can create schemas has rows in `id_shards`. `here.refresh` of the page neither runs
/// a statement in the name of its schema nor shows its rows.
#[test]
fn servers_page_view_reads_no_tables_of_other_roles() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    let sql = blocks(PAGE, "sql");
    let refresh = sql.iter().find(|block| block.contains("PROCEDURE here.refresh")).unwrap();
    run(
        &mut client,
        &format!(
            "CREATE EXTENSION instagram_id; SELECT create_shard(5);
             CREATE TABLE insta5.photos (id bigint DEFAULT insta5.next_id(), user_id bigint, title text);
             INSERT INTO insta5.photos (title) VALUES ('ours');
             CREATE SCHEMA shard_map CREATE TABLE shards (shard int, server text);
             INSERT INTO shard_map.shards VALUES (5, 'a');
             CREATE ROLE mallory; GRANT CREATE ON DATABASE postgres TO mallory;
             CREATE SCHEMA team; GRANT ALL ON SCHEMA insta5, team TO mallory; {refresh}"
        ),
    );
    let mut define = |shard: i32, schema: &str| {
        let schema = format!("\"{schema}\"");
        run(
            &mut client,
            &format!(
                "SET ROLE mallory;
                 CREATE SCHEMA IF NOT EXISTS {schema}; CREATE SEQUENCE {schema}.s{shard};
                 CREATE TABLE IF NOT EXISTS {schema}.photos AS SELECT 1::bigint AS id, 2::bigint AS user_id, 'theirs' AS title;
                 CREATE FUNCTION {schema}.shard_{shard}(OUT sequence regclass, OUT epoch timestamptz, OUT home text) LANGUAGE sql IMMUTABLE
                     BEGIN ATOMIC SELECT '{schema}.s{shard}'::regclass, '2011-08-24 21:07:01.721+00'::timestamptz, 'x'::text; END;
                 RESET ROLE"
            ),
        );
    };
    define(5, "mallory");
    define(5, "insta5.photos; ALTER ROLE mallory SUPERUSER; --");
    define(5, "team"); // a schema that the caller trusts, with a table that it does not trust
    define(6, "insta5"); // the table of shard 5 a second time
    run(&mut client, "CALL here.refresh('a')");
    assert!(!one::<bool>(&mut client, "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"));
    assert_eq!(texts(&mut client, "SELECT title FROM here.photos"), ["ours"]);
    // A shard of the map that only another role has defined here.
    run(&mut client, "INSERT INTO shard_map.shards VALUES (6, 'a')");
    assert_eq!(error_of(&mut client, "CALL here.refresh('a')").0, "22004");
}
