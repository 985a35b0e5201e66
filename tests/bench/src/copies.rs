//! COPY into a table whose key has the default `insta5.next_id()`, compared with `bigserial`.

use crate::goals::{Goal, at_most};
use instagram_id_live::{Server, cpu_time, length, middle, one, run, setup};
use postgres::Client;
use std::time::Instant;

/// Ids in a millisecond, by the format.
const IDS_PER_MS: f64 = 1024.0;

/// CPU time of the session, and time of the whole, in seconds.
struct Load {
    cpu_s: f64,
    s: f64,
}

/// Loads the lines of `file` into a table with this key.
fn load(client: &mut Client, pid: i32, key: &str, file: &str) -> Load {
    run(
        client,
        &format!(
            "DROP TABLE IF EXISTS photos; CREATE TABLE photos (id {key} PRIMARY KEY, title text); CHECKPOINT"
        ),
    );
    let (started, before) = (Instant::now(), cpu_time(pid));
    run(client, &format!("COPY photos (title) FROM '{file}'"));
    Load { cpu_s: (cpu_time(pid) - before).as_secs_f64(), s: started.elapsed().as_secs_f64() }
}

pub fn goals() -> Vec<Goal> {
    let server = Server::start(&[
        ("shared_buffers", "1GB"),
        ("max_wal_size", "16GB"),
        ("autovacuum", "off"),
        ("timezone", "UTC"),
    ]);
    let mut client = server.connect();
    setup(&mut client);
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let rows = length(300_000, 1_000_000);
    let limit_s = rows as f64 / IDS_PER_MS / 1000.0;
    let mut goals = vec![];
    for (width, title) in [("of 3 to 9 bytes", "'n' || n"), ("of 400 bytes", "repeat('x', 400)")] {
        let file = server.path().join("titles").display().to_string();
        let titles = format!("SELECT {title} FROM generate_series(1, {rows}) AS n");
        run(&mut client, &format!("COPY ({titles}) TO '{file}'"));
        let rounds: Vec<(Load, Load)> = (0..9)
            .map(|_| {
                let plain = load(&mut client, pid, "bigserial", &file);
                (load(&mut client, pid, "bigint DEFAULT insta5.next_id()", &file), plain)
            })
            .collect();
        let what = format!("COPY of rows {width} with DEFAULT insta5.next_id()");
        let cpu = rounds.iter().map(|(ours, plain)| ours.cpu_s / plain.cpu_s);
        goals.push(at_most(
            &format!("{what}: CPU time relative to bigserial"),
            1.05,
            1.0,
            middle(cpu),
        ));
        let time = rounds.iter().map(|(ours, plain)| ours.s / plain.s.max(limit_s));
        goals.push(at_most(
            &format!(
                "{what}: time relative to the greater of bigserial's and that of the format's limit"
            ),
            1.05,
            1.0,
            middle(time),
        ));
    }
    goals
}
