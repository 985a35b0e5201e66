//! Figures in the forms in which others publish theirs, with the statements as they are there.

use crate::contestants::Contestant;
use crate::rounds::Rounds;
use crate::session::Session;
use crate::sessions::{load, pgbench};
use instagram_id_live::{Server, one};
use postgres::{Client, Statement};

/// The number of calls of the statement with EXPLAIN ANALYZE.
pub const CALLS: usize = 1_000_000;

/// The clients of pgbench.
pub const CLIENTS: usize = 8;

pub fn explain_analyze(call: &str) -> String {
    format!("EXPLAIN ANALYZE SELECT {call} FROM generate_series(1, {CALLS})")
}

/// Milliseconds: the execution time that `EXPLAIN ANALYZE` shows.
pub fn explained(server: &Server, rounds: usize, contestants: &[Contestant]) -> Rounds<Contestant> {
    let mut client = server.connect();
    Rounds::of("EXPLAIN ANALYZE of a million calls", rounds, contestants, |contestant| {
        let plan = client.query(&explain_analyze(&contestant.call(5)), &[]).unwrap();
        let time = plan.last().unwrap().get::<_, &str>(0);
        let time = time.strip_prefix("Execution Time: ").and_then(|time| time.strip_suffix(" ms"));
        time.expect("the execution time is in the last line").parse().unwrap()
    })
}

/// Transactions a second of `SELECT f()`, in pgbench's default protocol.
pub fn by_pgbench(server: &Server, rounds: usize, contestants: &[Contestant]) -> Rounds<Contestant> {
    Rounds::of("pgbench, simple protocol", rounds, contestants, |contestant| {
        pgbench(server, "simple", load(CLIENTS, 1), 2, contestant)
    })
}

/// A query for the last hour of a day, on one kind of key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub key: &'static str,
    pub query: &'static str,
}

/// Milliseconds of CPU time of each query, and what its index takes.
pub struct Ranges {
    pub rows: usize,
    pub ms: Rounds<Range>,
    pub index_mb: Rounds<Range>,
}

pub const RANGES: [Range; 3] = [
    Range {
        key: "uuid, version 7",
        query: "SELECT count(*) FROM logs_by_uuid WHERE id >= to_uuidv7_boundary(now() - interval '1 hour')",
    },
    Range {
        key: "timestamptz",
        query: "SELECT count(*) FROM logs_by_time WHERE id >= now() - interval '1 hour'",
    },
    Range {
        key: "bigint, this extension",
        query: "SELECT count(*) FROM logs WHERE id >= id_floor(now() - interval '1 hour')",
    },
];

const TABLES: [&str; 3] = ["logs_by_uuid", "logs_by_time", "logs"];

/// Fills a table for each key with the same times, and runs the queries.
pub fn ranges(server: &Server, rounds: usize, rows: usize) -> Ranges {
    let mut session = Session::of(server.connect());
    make_logs(&mut session.client, rows);
    let statements: Vec<Statement> = RANGES.iter().map(|range| session.prepare(range.query)).collect();
    let index_of = |range: Range| RANGES.iter().position(|is| *is == range).unwrap();
    let ms = Rounds::of("the last hour of a day", rounds, &RANGES, |range| {
        let (ns, row) = session.run(&statements[index_of(range)]);
        let share = row.get::<_, i64>(0) as f64 / rows as f64;
        assert!((0.9 / 24.0..1.1 / 24.0).contains(&share), "{}: {share}", range.query);
        ns / 1e6
    });
    let index_mb = Rounds::of("their indexes", 1, &RANGES, |range| {
        let size = format!("SELECT pg_indexes_size('{}') / 1e6::float8", TABLES[index_of(range)]);
        one(&mut session.client, &size)
    });
    session.client.batch_execute(&format!("DROP TABLE {}", TABLES.join(", "))).unwrap();
    Ranges { rows, ms, index_mb }
}

/// Creates the tables, and a function that computes what TimescaleDB documents for the function of this name.
fn make_logs(client: &mut Client, rows: usize) {
    let step = 86400.0 / rows as f64;
    client
        .batch_execute(&format!(
            "CREATE FUNCTION to_uuidv7_boundary(ts timestamptz) RETURNS uuid LANGUAGE sql STABLE RETURN (
                 SELECT lpad(to_hex(micros / 1000), 12, '0') || '7'
                        || lpad(to_hex(micros % 1000 * 4096 / 1000), 3, '0') || '8000000000000000'
                 FROM (SELECT (extract(epoch FROM ts) * 1000000)::bigint) AS epoch (micros))::uuid;
             CREATE TEMPORARY TABLE times AS
                 SELECT now() - n * {step} * interval '1 second' AS time FROM generate_series(0, {rows} - 1) AS n;
             CREATE TABLE logs (id bigint PRIMARY KEY, title text);
             CREATE TABLE logs_by_uuid (id uuid PRIMARY KEY, title text);
             CREATE TABLE logs_by_time (id timestamptz PRIMARY KEY, title text);
             INSERT INTO logs SELECT make_id(time, 5, 0), 'log' FROM times ORDER BY time;
             INSERT INTO logs_by_uuid
                 SELECT (left(to_uuidv7_boundary(time)::text, 19) || right(gen_random_uuid()::text, 17))::uuid, 'log'
                 FROM times ORDER BY time;
             INSERT INTO logs_by_time SELECT time, 'log' FROM times ORDER BY time;
             DROP TABLE times"
        ))
        .unwrap();
    client.batch_execute("VACUUM ANALYZE logs, logs_by_uuid, logs_by_time").unwrap();
}
