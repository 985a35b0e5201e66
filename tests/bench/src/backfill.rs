//! The cost of `backfill_id()`, compared with `row_number()` over the same window.

use crate::goals::{Goal, at_most};
use instagram_id_live::{Server, cpu_time, length, middle, one, run, setup};

pub fn goals() -> Vec<Goal> {
    let server = Server::start(&[("fsync", "off"), ("jit", "off"), ("work_mem", "256MB")]);
    let mut client = server.connect();
    setup(&mut client);
    let rows = length(200_000, 2_000_000);
    // In random order, with a few rows in each millisecond.
    run(
        &mut client,
        &format!(
            "CREATE TABLE staging AS
             SELECT timestamptz '2020-01-01+00' + n * 7919 % {rows} / 4 * interval '1 ms' AS time
             FROM generate_series(1::bigint, {rows}) AS n",
        ),
    );
    run(&mut client, "VACUUM ANALYZE staging");
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let mut cost = |call: &str| -> f64 {
        let query = format!(
            "SELECT count(x) FROM (SELECT {call} OVER (ORDER BY time) AS x FROM staging) AS ids"
        );
        let before = cpu_time(pid);
        assert_eq!(one::<i64>(&mut client, &query), rows);
        (cpu_time(pid) - before).as_secs_f64()
    };
    let ratios: Vec<f64> = (0..9)
        .map(|_| {
            let numbers = cost("row_number()");
            cost("backfill_id(time, 5)") / numbers
        })
        .collect();
    vec![at_most(
        "CPU time of backfill_id() over a window, to row_number()",
        10.0,
        3.0,
        middle(ratios),
    )]
}
