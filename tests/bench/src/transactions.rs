//! The cost of a transaction with one id.

use crate::contestants::Contestant;
use crate::rounds::Rounds;
use crate::tables::Key;
use instagram_id_live::{Server, cpu_time, in_parallel, one, run};
use std::sync::Barrier;
use std::time::Instant;

/// The only statement of the transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// `SELECT 1`: no function, no relation.
    Constant,
    /// `pg_sequence_last_value`, which does what a function on a sequence cannot avoid: it locks
    /// the relation, checks the privileges, and reads the page.
    LastValue,
    Made(Contestant),
}

pub const CLIENTS: usize = 8;

impl Transaction {
    fn all(contestants: &[Contestant]) -> Vec<Transaction> {
        let of_core = [Transaction::Constant, Transaction::LastValue];
        of_core.into_iter().chain(contestants.iter().copied().map(Transaction::Made)).collect()
    }

    fn statement(self) -> String {
        match self {
            Transaction::Constant => "SELECT 1".into(),
            Transaction::LastValue => "SELECT pg_sequence_last_value('plain.seq5')".into(),
            Transaction::Made(contestant) => format!("SELECT {}", contestant.call(5)),
        }
    }
}

/// Microseconds of CPU time of the sessions for each transaction, on one sequence.
pub fn cpu_time_of_one(
    server: &Server,
    rounds: usize,
    contestants: &[Contestant],
) -> Rounds<Transaction> {
    let all = Transaction::all(contestants);
    Rounds::of("CPU time of a transaction", rounds, &all, |transaction| {
        run_by_all(server, &transaction.statement(), 4000).cpu_us
    })
}

/// The INSERT of one row into a new table with this key.
pub fn of_inserts(server: &Server, rounds: usize, contestants: &[Contestant]) -> Rounds<Key, Cost> {
    let mut client = server.connect();
    Rounds::of("INSERT of one row", rounds, &Key::all(contestants), |key| {
        key.create_table(&mut client);
        let cost = run_by_all(server, "INSERT INTO photos (title) VALUES ('photo 1')", 1000);
        run(&mut client, "DROP TABLE photos");
        cost
    })
}

pub struct Cost {
    pub cpu_us: f64,
    pub per_second: f64,
}

/// All clients run the same prepared statement, each time in a transaction of its own.
fn run_by_all(server: &Server, statement: &str, each: usize) -> Cost {
    let barrier = Barrier::new(CLIENTS);
    let sessions = in_parallel(CLIENTS, |_| {
        let mut client = server.connect();
        let pid = one(&mut client, "SELECT pg_backend_pid()");
        let statement = client.prepare(statement).unwrap();
        let mut run = |times: usize| {
            for _ in 0..times {
                client.execute(&statement, &[]).unwrap();
            }
        };
        run(each / 20);
        barrier.wait();
        let (started, before) = (Instant::now(), cpu_time(pid));
        run(each);
        (started, Instant::now(), (cpu_time(pid) - before).as_secs_f64() * 1e6)
    });
    let started = sessions.iter().map(|(started, ..)| *started).min().unwrap();
    let ended = sessions.iter().map(|(_, ended, _)| *ended).max().unwrap();
    let all = (CLIENTS * each) as f64;
    Cost {
        cpu_us: sessions.iter().map(|(.., us)| us).sum::<f64>() / all,
        per_second: all / (ended - started).as_secs_f64(),
    }
}
