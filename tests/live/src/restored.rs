//! Two shards that keep their state, their epoch and their privileges through dump, restore, copy
//! and upgrade.
//!
//! The shards are an hour ahead of the clock, so that only the state that was transferred keeps new
//! ids above the old ones, not the clock.

use crate::{Server, check_unique_and_increasing, column, one, run, set_an_hour_ahead};
use postgres::Client;
use std::path::Path;

/// A shard of these tests.
pub struct Shard {
    pub number: i32,
    /// Its schema, as a quoted identifier.
    pub schema: &'static str,
    pub epoch: &'static str,
}

/// One with defaults, and one whose schema needs quotes.
pub const SHARDS: [Shard; 2] = [
    Shard { number: 5, schema: "insta5", epoch: "2011-08-24 21:07:01.721+00" },
    Shard { number: 6, schema: r#""it's ""Odd""""#, epoch: "2020-01-01 00:00+00" },
];

/// Number of ids in each table of a shard.
pub const ROWS: i64 = 300;

/// The largest id of each shard.
pub type Largest = [i64; 2];

/// A server that does not wait for its disk.
pub fn fast() -> Server {
    Server::start(&[("fsync", "off")])
}

/// Creates a database `home` with both shards, which both forms of default have used, and the role
/// that may use them.
pub fn settle(server: &Server) -> Largest {
    create_database(server, "home");
    run(&mut server.connect(), "CREATE ROLE app");
    let mut client = server.connect_to("home");
    run(
        &mut client,
        r#"CREATE EXTENSION instagram_id; SELECT create_shard(5);
               SELECT create_shard(6, schema => 'it''s "Odd"', epoch => '2020-01-01 00:00+00')"#,
    );
    SHARDS.map(|Shard { number, schema, .. }| {
        run(&mut client, &format!(
                "CREATE TABLE {schema}.photos (id bigint PRIMARY KEY DEFAULT {schema}.next_id(), title text);
                 CREATE TABLE {schema}.likes (id bigint PRIMARY KEY DEFAULT next_id({number}), title text);
                 GRANT USAGE ON SCHEMA {schema} TO app;
                 GRANT USAGE ON SEQUENCE {schema}.table_id_seq TO app;
                 GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO app;
                 SELECT next_id({number})"
            ));
        set_an_hour_ahead(&mut client, &format!("{schema}.table_id_seq"));
        ["photos", "likes"].map(|table| *insert(&mut client, schema, table).last().unwrap())[1]
    })
}

/// Creates a database.
pub fn create_database(server: &Server, name: &str) {
    run(&mut server.connect(), &format!("CREATE DATABASE {name}"));
}

/// Inserts rows into a table of a shard, and returns their ids.
pub fn insert(client: &mut Client, schema: &str, table: &str) -> Vec<i64> {
    let titles = format!("SELECT 'title ' || n FROM generate_series(1, {ROWS}) AS n");
    column(client, &format!("INSERT INTO {schema}.{table} (title) {titles} RETURNING id"))
}

/// Checks that both shards are complete in this database, which is not the one in which they were
/// created, and claims them.
#[track_caller]
pub fn check_restored(client: &mut Client, largest: Largest) {
    for Shard { schema, .. } in SHARDS {
        for table in ["photos", "likes"] {
            assert_eq!(
                one::<i64>(client, &format!("SELECT count(*) FROM {schema}.{table}")),
                ROWS,
                "{schema}"
            );
        }
    }
    let largest = check_shards(client, largest, false);
    run(client, "SELECT claim_shard(5), claim_shard(6)");
    check_shards(client, largest, true);
}

/// Checks that both shards are complete, and that their new ids are above the `largest` so far;
/// returns the last ones.
#[track_caller]
pub fn check_shards(client: &mut Client, largest: Largest, can_generate: bool) -> Largest {
    [
        check_shard(client, &SHARDS[0], largest[0], can_generate),
        check_shard(client, &SHARDS[1], largest[1], can_generate),
    ]
}

/// Same for one of them.
#[track_caller]
pub fn check_shard(client: &mut Client, shard: &Shard, largest: i64, can_generate: bool) -> i64 {
    let Shard { number, schema, epoch } = shard;
    run(client, "SET ROLE app");
    let mut ids = vec![largest];
    ids.extend(insert(client, schema, "photos"));
    ids.extend(insert(client, schema, "likes"));
    for call in [format!("{schema}.next_id()"), format!("next_id({number})")] {
        ids.extend(column(client, &format!("SELECT {call} FROM generate_series(1, 150)")));
    }
    run(client, "RESET ROLE");
    check_unique_and_increasing(&[ids.clone()]);
    let last = *ids.last().unwrap();
    // Counted from the shard's epoch their time is an hour ahead, minus the time since then.
    let wrong = format!(
        "SELECT count(*) FROM unnest($1::bigint[]) AS id
         WHERE id_shard(id) <> {number} OR {schema}.id_time(id) <> id_time(id, '{epoch}')
             OR {schema}.id_time(id) - clock_timestamp() NOT BETWEEN '40 min' AND '61 min'"
    );
    assert_eq!(client.query_one(&wrong, &[&ids]).unwrap().get::<_, i64>(0), 0, "{schema}");
    let definition = format!(
        "SELECT sequence = $${schema}.table_id_seq$$::regclass AND epoch = '{epoch}' AND {schema}.epoch() = epoch
         FROM {schema}.shard_{number}()"
    );
    assert!(one::<bool>(client, &definition), "{definition}");
    let in_view = format!(
        "SELECT quote_ident(schema) = $${schema}$$ AND sequence = $${schema}.table_id_seq$$::regclass
             AND epoch = '{epoch}' AND last_id = {last} AND can_generate = {can_generate}
         FROM id_shards WHERE shard = {number}"
    );
    assert!(one::<bool>(client, &in_view), "{in_view}");
    last
}

/// A new database, ready for the restore.
pub fn destination(server: &Server, name: &str) -> Client {
    create_database(server, name);
    let mut client = server.connect_to(name);
    run(&mut client, "CREATE EXTENSION instagram_id");
    client
}

/// Runs a script that must succeed.
pub fn run_script(server: &Server, script: &Path, database: &str) {
    server.run(
        "psql",
        &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script.to_str().unwrap(), database],
    );
}

/// Options of pg_dump.
pub const BOTH_SCHEMAS: [&str; 4] = ["-n", "insta5", "-n", SHARDS[1].schema];
