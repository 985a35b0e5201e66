//! The WAL that ids write, and the memory that they use in a session.

use crate::contestants::{Contestant, SEQUENCES};
use crate::rounds::Rounds;
use instagram_id_live::{Server, memory_of, one, run};
use postgres::Client;

/// Bytes of WAL for a million ids in one statement, from one sequence.
pub fn wal_of_a_million(
    server: &Server,
    rounds: usize,
    contestants: &[Contestant],
) -> Rounds<Contestant> {
    let mut client = server.connect();
    Rounds::of("WAL of a million ids", rounds, contestants, |contestant| {
        let call = contestant.call(5);
        run(&mut client, "CHECKPOINT");
        // The full-page image after a checkpoint.
        one::<i64>(&mut client, &format!("SELECT count({call}) FROM generate_series(1, 100)"));
        let before: String = one(&mut client, "SELECT pg_current_wal_insert_lsn()::text");
        one::<i64>(&mut client, &format!("SELECT count({call}) FROM generate_series(1, 1000000)"));
        one::<i64>(
            &mut client,
            &format!("SELECT (pg_current_wal_insert_lsn() - '{before}')::bigint"),
        ) as f64
    })
}

/// Kilobytes of memory of a process. Shared memory, such as buffers, is not counted.
pub fn own_kb(pid: i32) -> f64 {
    memory_of(pid, "RssAnon") as f64 / 1024.0
}

/// Kilobytes by which a session grows when it generates ids from one sequence, and from all.
#[derive(Clone, Copy)]
pub struct Growth {
    pub one_sequence_kb: f64,
    pub all_sequences_kb: f64,
}

/// Each statement runs in a transaction of its own.
pub fn memory_of_a_session(
    server: &Server,
    rounds: usize,
    contestants: &[Contestant],
) -> Rounds<Contestant, Growth> {
    Rounds::of("memory of a session", rounds, contestants, |contestant| {
        let mut client = server.connect();
        let pid = one(&mut client, "SELECT pg_backend_pid()");
        let run = |client: &mut Client, n: usize| {
            // By the simple protocol: for another type than a built-in one the driver would read
            // the catalogs in this session.
            run(client, &format!("SELECT {}", contestant.call(n)));
        };
        client.query_one("SELECT now()", &[]).unwrap();
        let own_kb = || own_kb(pid);
        let before = own_kb();
        run(&mut client, 0);
        let one_sequence_kb = own_kb() - before;
        (1..SEQUENCES).for_each(|n| run(&mut client, n));
        Growth { one_sequence_kb, all_sequences_kb: own_kb() - before }
    })
}
