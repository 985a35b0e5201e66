//! Calls every function of the extension with random arguments, mostly at the edges, only to find
//! crashes and internal errors. The regression tests check the results and raise each error.

use fastrand::Rng;
use instagram_id_live::*;
use postgres::Client;
use std::collections::BTreeMap;

fn one_of<T: Clone>(rng: &mut Rng, values: &[T]) -> T {
    rng.choice(values).expect("some").clone()
}

/// A number of any magnitude; numbers near a power of two and near zero are as likely as all
/// others.
fn any_i64(rng: &mut Rng) -> i64 {
    let step = rng.i64(-2..=2);
    match rng.u8(..4) {
        0 => one_of(rng, &[i64::MIN, i64::MAX, 0]).wrapping_add(step),
        1 => (1i64 << rng.u8(..64)).wrapping_mul(one_of(rng, &[1, -1])).wrapping_add(step),
        2 => one_of(rng, &[0, 1, 1 << 40, 1 << 41]) << 23 | one_of(rng, &[0, 5, 8191]) << 10,
        _ => rng.i64(..),
    }
}

fn any_text(rng: &mut Rng) -> String {
    let chars = [
        'a', 'Z', '0', ' ', '\'', '"', '\\', '$', ';', '.', '%', '\n', 'é', '漢', '😀', '\u{1}',
        '\u{feff}',
    ];
    let len = one_of(rng, &[0, 1, 5, 11, 30, 62, 63, 64, 300]);
    (0..len).map(|_| one_of(rng, &chars)).collect()
}

const OBJECTS: &str = "
    SELECT create_shard(6); SELECT adopt_shard(8);
    CREATE SCHEMA empty;
    CREATE SEQUENCE own; CREATE SEQUENCE wild; CREATE SEQUENCE spent; SELECT setval('spent', 1125899906842623);
    CREATE SEQUENCE narrow AS smallint; CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE round CYCLE;
    CREATE SEQUENCE low MAXVALUE 1125899906842622; CREATE SEQUENCE late MINVALUE 1125899906842000;
    CREATE SEQUENCE handed_over; CREATE SEQUENCE ended; SELECT setval('ended', 1125899906842623);
    CREATE TABLE insta5.t (id bigint DEFAULT insta5.next_id());
    CREATE TABLE t (id bigserial PRIMARY KEY, small int, name text, plain bigint); CREATE VIEW v AS SELECT 1 AS id;
    CREATE TABLE by_id (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE taken (id bigint) PARTITION BY RANGE (id);
    CREATE TABLE by_int (id int) PARTITION BY RANGE (id); CREATE TABLE by_two (id bigint, b int) PARTITION BY RANGE (id, b);
    CREATE TABLE by_sum (id bigint) PARTITION BY RANGE ((id + 1)); CREATE TABLE by_list (id bigint) PARTITION BY LIST (id);
    CREATE TABLE by_hash (id bigint) PARTITION BY HASH (id);
    SELECT create_id_partitions('by_id', 'month', 1, now() - interval '1 year');
    SELECT create_id_partitions('taken', 'day', 3), create_id_partitions('taken', 'week', 2);
    DO $$ BEGIN
        EXECUTE (SELECT string_agg(format('ALTER TABLE taken DETACH PARTITION %s', inhrelid::regclass), ';')
                 FROM pg_inherits WHERE inhparent = 'taken'::regclass);
    END $$";

/// A function as the catalog describes it.
struct Member {
    name: String,
    types: Vec<String>,
    is_window: bool,
}

impl Member {
    /// The functions of the extension, except those that only a trigger can call.
    fn all(client: &mut Client) -> Vec<Member> {
        let query = format!(
            "SELECT proname::text, proargtypes::regtype[]::text[], prokind = 'w' FROM pg_proc
             WHERE oid IN ({MEMBER_FUNCTIONS}) AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
             ORDER BY oid::regprocedure::text"
        );
        let member = |row: &postgres::Row| Member {
            name: row.get(0),
            types: row.get(1),
            is_window: row.get(2),
        };
        client.query(&query, &[]).unwrap().iter().map(member).collect()
    }

    /// A call that fetches at most three rows of the result.
    fn call(&self, objects: &Objects, rng: &mut Rng) -> String {
        let arguments: Vec<String> =
            self.types.iter().map(|of_type| objects.argument(of_type, rng)).collect();
        let over = if self.is_window { " OVER ()" } else { "" };
        format!(
            "SELECT count(r) FROM (SELECT {}({}){over} AS r LIMIT 3) AS s",
            self.name,
            arguments.join(", ")
        )
    }
}

/// The OIDs of the objects that the test has created, and OIDs of none, by the type that names
/// them.
struct Objects(BTreeMap<&'static str, Vec<String>>);

impl Objects {
    fn of(client: &mut Client) -> Objects {
        let catalogs = [
            ("regclass", "pg_class"),
            ("regprocedure", "pg_proc"),
            ("regnamespace", "pg_namespace"),
        ];
        Objects(BTreeMap::from(catalogs.map(|(of_type, catalog)| {
            let query = format!("SELECT oid::text FROM {catalog} WHERE oid >= 16384");
            (
                of_type,
                [texts(client, &query), ["0", "4294967295"].map(str::to_owned).to_vec()].concat(),
            )
        })))
    }

    /// An argument as SQL: a random one of a type that is known here, otherwise NULL.
    fn argument(&self, of_type: &str, rng: &mut Rng) -> String {
        let literal = match of_type {
            "bigint" => any_i64(rng).to_string(),
            "integer" => {
                one_of(rng, &[i32::MIN, -1, 0, 1, 3, 5, 6, 8191, 1 << 30, i32::MAX]).to_string()
            }
            "boolean" => rng.bool().to_string(),
            "text" => match rng.u8(..4) {
                0 => any_text(rng),
                1 => "x".repeat(100_000),
                _ => one_of(rng, &["id", "day"]).to_owned(),
            },
            "timestamp with time zone" => one_of(
                rng,
                &[
                    "-infinity",
                    "infinity",
                    "4714-11-24 BC",
                    "294276-12-31",
                    "2011-08-24 21:07:01.721+00",
                    "now",
                ],
            )
            .to_owned(),
            _ => match self.0.get(of_type) {
                Some(objects) => one_of(rng, objects),
                None => return format!("NULL::{of_type}"),
            },
        };
        match rng.u8(..10) {
            0 => format!("NULL::{of_type}"),
            _ => format!("'{}'::{of_type}", literal.replace('\'', "''")),
        }
    }
}

/// None crashes the server or fails with an internal error.
#[test]
fn every_function_survives_random_arguments() {
    // Of the log messages only those about a crash are needed. They are checked when it stops.
    let server = Server::start(&[("fsync", "off"), ("log_min_messages", "log")]);
    let mut client = server.connect();
    let pid = one::<i32>(&mut client, "SELECT pg_backend_pid()");
    run(&mut client, "SET client_min_messages = error");
    setup(&mut client);
    run(&mut client, &original_of_shard(7));
    run(&mut client, &original_of_shard(8));
    run(&mut client, OBJECTS);
    // Some arguments ask for billions of ids, or for thousands of partitions.
    run(
        &mut client,
        "SET statement_timeout = '1s'; SET standard_conforming_strings = on; SET instagram_id.shard = 5",
    );
    let objects = Objects::of(&mut client);
    let mut rng = random("functions with any arguments");
    let members = Member::all(&mut client);
    for member in &members {
        let mut tally: BTreeMap<String, usize> = BTreeMap::new();
        let count = if is_quick() { 20 } else { length(100, 2000) };
        for _ in 0..count {
            let call = member.call(&objects, &mut rng);
            let mut transaction = client.transaction().unwrap();
            let outcome = transaction.simple_query(&call);
            let state = match &outcome {
                Ok(_) => "answers".to_owned(),
                Err(error) => error
                    .code()
                    .unwrap_or_else(|| panic!("{call}: {}", why(error)))
                    .code()
                    .to_owned(),
            };
            assert!(!state.starts_with("XX"), "{call}: {}", why(&outcome.unwrap_err()));
            // A syntax error, or another function than the one that is installed.
            assert!(
                !["42601", "42883"].contains(&&*state) || call.contains("::regprocedure"),
                "{call}: {state}"
            );
            *tally.entry(state).or_default() += 1;
            transaction.rollback().unwrap();
        }
        println!("{}({}): {tally:?}", member.name, member.types.join(", "));
    }
    assert!(members.len() > 40, "{} functions", members.len());
    assert_eq!(one::<i32>(&mut client, "SELECT pg_backend_pid()"), pid);
}
