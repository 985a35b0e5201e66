//! The cost of a range of times on the primary key. It is compared with the same range of ids, with
//! an indexed `created_at` column, and with decoding every id.

use crate::goals::{Goal, at_least, at_most};
use instagram_id_live::{Server, length, middle, one, run, why};
use postgres::Client;
use std::time::Instant;

/// A day in the middle of the photos' year.
const DAY: [&str; 2] = ["2025-07-01 00:00+00", "2025-07-02 00:00+00"];

/// A way to query the photos of a day: the condition as printed and as run, and the sort order for
/// the newest.
struct Form {
    name: &'static str,
    condition: String,
    order: &'static str,
}

const BY_HAND: usize = 0;
const BY_DECODING: usize = 4;

fn forms(client: &mut Client) -> [Form; 5] {
    let [from, to] = DAY;
    let [start, end] = DAY.map(|time| one::<i64>(client, &format!("SELECT id_floor('{time}')")));
    let form = |name, condition, order| Form { name, condition, order };
    [
        form("id >= 3666… AND id < 3667…", format!("id >= {start} AND id < {end}"), "id"),
        form(
            "id >= id_floor(a) AND id < id_floor(b)",
            format!("id >= id_floor('{from}') AND id < id_floor('{to}')"),
            "id",
        ),
        form("id_between(id, a, b)", format!("id_between(id, '{from}', '{to}')"), "id"),
        form(
            "created_at >= a AND created_at < b",
            format!("created_at >= '{from}' AND created_at < '{to}'"),
            "created_at",
        ),
        form(
            "id_time(id) BETWEEN a AND b",
            format!("id_time(id) BETWEEN '{from}' AND timestamptz '{to}' - interval '1 ms'"),
            "id_time(id)",
        ),
    ]
}

/// A server with a table of `rows` photos, spread over the year 2025 and stored in order of time,
/// which is also in an indexed column.
fn server_with_photos(rows: i64) -> Server {
    let server = Server::start(&[
        ("fsync", "off"),
        ("autovacuum", "off"),
        ("shared_buffers", "1GB"),
        ("max_wal_size", "20GB"),
        ("checkpoint_timeout", "1h"),
        ("max_parallel_workers_per_gather", "0"),
        ("jit", "off"),
    ]);
    let mut client = server.connect();
    run(&mut client, &format!(
            "CREATE EXTENSION instagram_id;
             CREATE FUNCTION run(query text, times int) RETURNS void LANGUAGE plpgsql AS $$
             BEGIN
                 FOR n IN 1..times LOOP EXECUTE query; END LOOP;
             END $$;
             CREATE TABLE stamped (id bigint PRIMARY KEY, created_at timestamptz NOT NULL, payload text);
             CREATE INDEX ON stamped (created_at);
             INSERT INTO stamped SELECT make_id(time, 5, (n % 1024)::int), time, repeat(md5(n::text), 3)
                 FROM generate_series(0, {rows} - 1) AS n,
                     LATERAL (SELECT timestamptz '2025-01-01+00' + n * 31536000000 / {rows} * interval '1 ms') AS t(time)",
        ));
    run(&mut client, "VACUUM ANALYZE stamped");
    server
}

/// The seconds that a statement takes.
fn time(client: &mut Client, statement: &str) -> f64 {
    let started = Instant::now();
    client.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {}", why(&error)));
    started.elapsed().as_secs_f64()
}

/// The median of the ratios of two times that were measured in the same round.
fn ratio(times: &[f64], others: &[f64]) -> f64 {
    middle(times.iter().zip(others).map(|(time, other)| time / other))
}

/// Runs statements in turns, so that noise affects all alike. Each runs a query the given number of
/// times. Prints the time of a query, and returns it relative to the first.
fn compare(
    client: &mut Client,
    what: &str,
    names: &[&str],
    statements: &[(String, u32)],
) -> Vec<f64> {
    let mut times = vec![vec![]; statements.len()];
    // Once before, to load the caches.
    statements.iter().for_each(|(statement, _)| _ = time(client, statement));
    for round in 0..21 {
        for ((statement, runs), times) in statements.iter().zip(&mut times) {
            // Queries that take hundreds of times as long are measured less often.
            if *runs > 1 || round < 3 {
                times.push(time(client, statement) / f64::from(*runs));
            }
        }
    }
    eprintln!("\n| {what} | ms | times the first |\n| --- | --- | --- |");
    let ratios: Vec<f64> = times.iter().map(|form| ratio(form, &times[BY_HAND])).collect();
    for ((name, times), ratio) in names.iter().zip(times).zip(&ratios) {
        eprintln!("| {name} | {:.3} | {ratio:.2} |", middle(times) * 1000.0);
    }
    ratios
}

#[allow(clippy::too_many_lines)] // a table of goals
pub fn goals() -> Vec<Goal> {
    let mut goals = vec![];
    let rows = length(1_000_000, 10_000_000);
    let server = server_with_photos(rows);
    let mut client = server.connect();
    // With an unexpected plan this would take an hour.
    run(&mut client, "SET statement_timeout = '30s'");
    eprintln!("{rows} photos, the {} of a day", rows / 365);
    let forms = forms(&mut client);
    let names: Vec<&str> = forms.iter().map(|form| form.name).collect();
    let many = length(30, 5);

    // Planned each time, like most queries.
    for (what, is_page, select, many) in [
        ("count(*)", false, "SELECT count(*) FROM stamped", many),
        ("sum(length(payload))", false, "SELECT sum(length(payload)) FROM stamped", many),
        ("newest 50", true, "SELECT id, payload FROM stamped", 200),
    ] {
        let mut statements = vec![];
        let mut results = vec![];
        for (n, form) in forms.iter().enumerate() {
            let page = if is_page {
                format!("ORDER BY {} DESC LIMIT 50", form.order)
            } else {
                String::new()
            };
            let query = format!("{select} WHERE {} {page}", form.condition);
            results.push(one::<String>(
                &mut client,
                &format!("SELECT array_agg(q)::text FROM ({query}) AS q"),
            ));
            let runs = if n == BY_DECODING { 1 } else { many };
            statements.push((format!("SELECT run($${query}$$, {runs})"), runs));
        }
        assert!(
            results.iter().all(|result| *result == results[BY_HAND]),
            "{what}: not the same rows"
        );
        let ratios = compare(&mut client, what, &names, &statements);
        // Planning takes most of the time of this query, and slightly more for these conditions;
        // see below.
        if !is_page {
            for n in 1..3 {
                let what = format!("time of {what} WHERE {}, to the ids by hand", names[n]);
                goals.push(at_most(&what, 1.25, 1.1, ratios[n]));
            }
        }
        let what = format!("time of {what} WHERE {}, to the ids by hand", names[BY_DECODING]);
        goals.push(at_least(&what, 5.0, 10.0, ratios[BY_DECODING]));
    }

    // Planned once, because PL/pgSQL prepares its statements.
    let names = [
        "id >= $1 AND id < $2",
        "id >= id_floor($1) AND id < id_floor($2)",
        "id_between(id, $1, $2)",
    ];
    let mut statements = vec![];
    for (n, condition) in names.iter().enumerate() {
        let parameter = if n == BY_HAND { "bigint" } else { "timestamptz" };
        run(&mut client, &format!(
                "CREATE FUNCTION page{n}({parameter}, {parameter}, times int) RETURNS void LANGUAGE plpgsql AS $$
                 BEGIN
                     FOR n IN 1..times LOOP
                         PERFORM id, payload FROM stamped WHERE {condition} ORDER BY id DESC LIMIT 50;
                     END LOOP;
                 END $$",
            ));
        let [from, to] =
            DAY.map(
                |time| {
                    if n == BY_HAND { format!("id_floor('{time}')") } else { format!("'{time}'") }
                },
            );
        statements.push((format!("SELECT page{n}({from}, {to}, 500)"), 500));
    }
    let ratios = compare(&mut client, "newest 50, prepared", &names, &statements);
    // One microsecond is a fifteenth of the total.
    for n in 1..3 {
        let what = format!("time of newest 50 WHERE {}, prepared, to the ids by hand", names[n]);
        goals.push(at_most(&what, 1.25, 1.1, ratios[n]));
    }
    goals
}
