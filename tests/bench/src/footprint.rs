//! What ids leave behind in WAL and in a session's memory.

use crate::contestants::{Contestant, SEQUENCES};
use crate::rounds::Rounds;
use instagram_id_live::{Server, one};
use postgres::Client;
use std::fs;

/// Bytes of WAL for a million ids in one statement, from one sequence.
pub fn wal_of_a_million(server: &Server, rounds: usize, contestants: &[Contestant]) -> Rounds<Contestant> {
    let mut client = server.connect();
    Rounds::of("WAL of a million ids", rounds, contestants, |contestant| {
        let call = contestant.call(5);
        client.batch_execute("CHECKPOINT").unwrap();
        // What the first look at a page after a checkpoint writes.
        one::<i64>(&mut client, &format!("SELECT count({call}) FROM generate_series(1, 100)"));
        let before: String = one(&mut client, "SELECT pg_current_wal_insert_lsn()::text");
        one::<i64>(&mut client, &format!("SELECT count({call}) FROM generate_series(1, 1000000)"));
        one::<i64>(&mut client, &format!("SELECT (pg_current_wal_insert_lsn() - '{before}')::bigint")) as f64
    })
}

/// Kilobytes by which a session has grown that has made ids from one sequence, and from all.
#[derive(Clone, Copy)]
pub struct Growth {
    pub one_sequence_kb: f64,
    pub all_sequences_kb: f64,
}

/// Each statement is prepared and run in a transaction of its own, and given up.
pub fn memory_of_a_session(
    server: &Server,
    rounds: usize,
    contestants: &[Contestant],
) -> Rounds<Contestant, Growth> {
    Rounds::of("memory of a session", rounds, contestants, |contestant| {
        let mut client = server.connect();
        let pid = one(&mut client, "SELECT pg_backend_pid()");
        let run = |client: &mut Client, n: usize| {
            client.query_one(&format!("SELECT {}", contestant.call(n)), &[]).unwrap();
        };
        client.query_one("SELECT now()", &[]).unwrap();
        let before = private_kb(pid);
        run(&mut client, 0);
        let one_sequence_kb = private_kb(pid) - before;
        (1..SEQUENCES).for_each(|n| run(&mut client, n));
        Growth { one_sequence_kb, all_sequences_kb: private_kb(pid) - before }
    })
}

/// Kilobytes of memory that are the process's alone; what it reads of the buffers that all share is not among them.
fn private_kb(pid: i32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
