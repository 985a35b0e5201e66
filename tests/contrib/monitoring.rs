//! The queries of monitoring/sql_exporter.yml. `make check-monitoring` runs them with the exporter.

use instagram_id_live::*;
use postgres::Client;
use std::collections::HashMap;

fn start() -> (Server, Client) {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    let client = server.connect();
    (server, client)
}

/// The rows of each query, by its name.
fn results(client: &mut Client) -> HashMap<String, Vec<String>> {
    metrics().into_iter().map(|(name, query)| (name, rows(client, &query))).collect()
}

/// The names of the queries that return rows.
fn answered(client: &mut Client) -> Vec<String> {
    let mut names: Vec<String> = results(client)
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names
}

/// A member of pg_monitor gets the same results, wherever the extension is and whatever search_path
/// contains.
#[test]
fn queries_work_under_every_search_path() {
    let (server, mut client) = start();
    run(&mut client, "CREATE SCHEMA \"the ids\"; CREATE EXTENSION instagram_id SCHEMA \"the ids\"; SET search_path = \"the ids\";
             SELECT create_shard(5), create_shard(6); SELECT next_id(5); DROP FUNCTION insta6.id_time(bigint);
             CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher; GRANT USAGE ON SCHEMA \"the ids\" TO watcher");
    install_traps(
        &server,
        "SELECT lay_traps('trap', true); CREATE VIEW trap.id_shards AS SELECT trap.spring();
         GRANT SELECT ON trap.id_shards TO PUBLIC; RESET ROLE",
    );
    let mut config = server.config("postgres");
    let mut watcher = config.user("watcher").connect(postgres::NoTls).unwrap();
    let expected = results(&mut watcher);
    for (name, count) in [
        ("instagram_id_version", 1),
        ("instagram_id_shards", 1),
        ("instagram_id_reason", 2),
        ("instagram_id_sessions", 1),
        ("instagram_id_shard", 2),
        ("instagram_id_shard_status", 2),
    ] {
        assert_eq!(expected[name].len(), count, "{name}");
    }
    for path in
        ["trap, pg_catalog, public", "pg_temp, trap, pg_catalog", "pg_catalog", "\"the ids\", trap"]
    {
        run(&mut watcher, &format!("SET search_path = {path}"));
        for (name, query) in metrics() {
            let found = rows(&mut watcher, &query);
            assert_eq!(roles_caught(&server), [""; 0], "{name} under {path}");
            assert_eq!(found.len(), expected[&name].len(), "{name} under {path}");
            // The other results contain the time.
            if ["instagram_id_version", "instagram_id_reason", "instagram_id_shard_status"]
                .contains(&name.as_str())
            {
                assert_eq!(found, expected[&name], "{name} under {path}");
            }
        }
    }
    // The traps work.
    run(&mut watcher, "SET search_path = trap, pg_catalog");
    for statement in ["SELECT pg_catalog.now() - pg_catalog.now()", "SELECT * FROM id_shards"] {
        run(&mut watcher, statement);
        assert_eq!(roles_caught(&server), ["watcher"], "{statement}");
        run(&mut client, "DELETE FROM trap.caught");
    }
}

/// The rows without the extension, with a package that is newer, and with a view that another role
/// could have replaced.
#[test]
fn queries_return_rows_only_of_the_extensions_own_view() {
    let (_server, mut client) = start();
    assert_eq!(answered(&mut client), [""; 0]);
    run(&mut client, "CREATE EXTENSION instagram_id; SELECT create_shard(5), next_id(5)");
    assert_eq!(answered(&mut client).len(), metrics().len());
    let newest: String = one(&mut client, "SELECT instagram_id_version()");
    let version = |client: &mut Client| results(client).remove("instagram_id_version").unwrap();
    assert_eq!(
        version(&mut client),
        [format!("postgres | {newest} | {newest} | {newest} | 0 | 0")]
    );
    run(&mut client, "UPDATE pg_extension SET extversion = '0.9.0' WHERE extname = 'instagram_id'");
    assert_eq!(version(&mut client), [format!("postgres | 0.9.0 | {newest} | {newest} | 1 | 0")]);
    run(&mut client, "CREATE ROLE other; ALTER VIEW id_shards OWNER TO other");
    assert_eq!(answered(&mut client), ["instagram_id_sessions", "instagram_id_version"]);
    run(&mut client, "ALTER FUNCTION instagram_id_version() OWNER TO other");
    assert_eq!(answered(&mut client), ["instagram_id_sessions"]);
}

/// The values of a server on which a shard is ahead, closed, doubled and unlogged.
#[test]
fn queries_return_the_state_of_each_shard() {
    let (_server, mut client) = start();
    // A character that XML cannot contain is part of one name.
    run(&mut client, "CREATE EXTENSION instagram_id; SELECT create_shard(n), next_id(n) FROM generate_series(1, 4) AS n;
             SELECT create_shard(5, schema => E'a\\x01b<&>');
             SELECT setval('insta1.table_id_seq', last_value + 3600 * 1000 * 1024::bigint) FROM insta1.table_id_seq;
             DO $$ BEGIN EXECUTE format('ALTER SEQUENCE insta2.table_id_seq MAXVALUE %s', (SELECT last_value FROM insta2.table_id_seq));
                 CREATE SCHEMA another;
                 EXECUTE replace(pg_get_functiondef('insta3.shard_3'::regproc), 'insta3.shard_3', 'another.shard_3'); END $$;
             ALTER SEQUENCE insta4.table_id_seq SET UNLOGGED");
    let found = results(&mut client);
    let cells = |row: &str| -> Vec<String> { row.split(" | ").map(str::to_owned).collect() };
    let shards = cells(&found["instagram_id_shards"][0]);
    assert_eq!(
        shards[..6],
        ["postgres", "6", "1", "1", "1", "1"],
        "defined, doubled, unlogged, without id, ahead"
    );
    assert_eq!(shards[6], "5", "active");
    let ahead: f64 = shards[7].parse().unwrap();
    assert!((3500.0..=3600.0).contains(&ahead), "{ahead}");
    let life: f64 = one(
        &mut client,
        "SELECT (extract(epoch FROM clock_timestamp() + '1 hour' - insta1.epoch()) / (2 ^ 40 / 1000))::float8",
    );
    assert!((shards[11].parse::<f64>().unwrap() - life).abs() < 1e-6, "{} and {life}", shards[11]);
    assert_eq!(found["instagram_id_shard"].len(), 6);
    let status = &found["instagram_id_shard_status"];
    for row in [
        "postgres | 1 | insta1 |  | 1",
        "postgres | 2 | insta2 | closed by a move | 0",
        "postgres | 5 | \\x6101623c263e |  | 1",
    ] {
        assert!(status.contains(&row.to_owned()), "{row}: {status:?}");
    }
    let reasons = &found["instagram_id_reason"];
    for row in ["postgres |  | 4", "postgres | closed by a move | 1"] {
        assert!(reasons.contains(&row.to_owned()), "{row}: {reasons:?}");
    }
}
