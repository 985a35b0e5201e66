//! A session with its CPU time.

use instagram_id_live::{cpu_time, one};
use postgres::{Client, Row, Statement};

pub struct Session {
    pub client: Client,
    pub pid: i32,
}

impl Session {
    pub fn of(mut client: Client) -> Session {
        let pid = one(&mut client, "SELECT pg_backend_pid()");
        Session { client, pid }
    }

    /// Prepares a statement and runs it once, so that the caches are filled.
    pub fn prepare(&mut self, statement: &str) -> Statement {
        let statement = self.client.prepare(statement).unwrap();
        self.run(&statement);
        statement
    }

    /// The nanoseconds of CPU time that a statement takes, and the row that it returns.
    pub fn run(&mut self, statement: &Statement) -> (f64, Row) {
        let before = cpu_time(self.pid);
        let row = self.client.query_one(statement, &[]).unwrap();
        ((cpu_time(self.pid) - before).as_nanos() as f64, row)
    }

    pub fn cpu_ns(&mut self, statement: &Statement) -> f64 {
        self.run(statement).0
    }
}
