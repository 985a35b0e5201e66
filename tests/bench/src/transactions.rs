//! The CPU time that the server uses for a transaction with one id.

use crate::contestants::Contestant;
use crate::rounds::Rounds;
use instagram_id_live::{Server, cpu_time, in_parallel, one};
use std::sync::Barrier;

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

/// Microseconds of CPU time of the sessions for each transaction. All clients run the same prepared
/// statement, on one sequence.
pub fn cpu_time_of_one(
    server: &Server,
    rounds: usize,
    contestants: &[Contestant],
) -> Rounds<Transaction> {
    const EACH: usize = 4000;
    let all = Transaction::all(contestants);
    Rounds::of("CPU time of a transaction", rounds, &all, |transaction| {
        let barrier = Barrier::new(CLIENTS);
        let sessions = in_parallel(CLIENTS, |_| {
            let mut client = server.connect();
            let pid = one(&mut client, "SELECT pg_backend_pid()");
            let statement = client.prepare(&transaction.statement()).unwrap();
            let mut run = |times: usize| {
                for _ in 0..times {
                    client.query_one(&statement, &[]).unwrap();
                }
            };
            run(EACH / 20);
            barrier.wait();
            let before = cpu_time(pid);
            run(EACH);
            (cpu_time(pid) - before).as_secs_f64() * 1e6
        });
        sessions.iter().sum::<f64>() / (CLIENTS * EACH) as f64
    })
}
