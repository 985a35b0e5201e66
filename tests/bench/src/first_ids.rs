//! The first id of a new session: its time, and the memory that the session takes for it.

use crate::footprint::own_kb;
use crate::rounds::Rounds;
use crate::shards::DATABASES;
use instagram_id_live::{Server, cpu_time, one, run};
use std::time::Instant;

/// The first statement of a session, in a database with so many shards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct First {
    pub statement: &'static str,
    pub shards: usize,
}

/// The last two insert into tables that differ only in the default of the key.
pub const STATEMENTS: [&str; 6] = [
    "SELECT next_id(5)",
    "SELECT insta5.next_id()",
    "SELECT next_ids(5, 1)",
    "SELECT nextval('plain.seq5')",
    "INSERT INTO insta5.photos DEFAULT VALUES",
    "INSERT INTO plain.photos DEFAULT VALUES",
];

pub struct Cost {
    /// Until the client has the answer.
    pub ms: f64,
    pub cpu_ms: f64,
    pub kb: f64,
}

/// In each of the databases of `shards`.
pub fn cost(server: &Server, rounds: usize) -> Rounds<First, Cost> {
    for (database, _) in DATABASES {
        run(
            &mut server.connect_to(database),
            "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id());
                 CREATE TABLE plain.photos (id bigint PRIMARY KEY DEFAULT nextval('plain.seq6'))",
        );
    }
    let all: Vec<First> = DATABASES
        .iter()
        .flat_map(|&(_, shards)| STATEMENTS.map(|statement| First { statement, shards }))
        .collect();
    Rounds::of("first id of a session", rounds, &all, |First { statement, shards }| {
        let (database, _) = DATABASES.iter().find(|(_, of)| *of == shards).unwrap();
        let mut client = server.connect_to(database);
        let pid = one(&mut client, "SELECT pg_backend_pid()");
        run(&mut client, "SELECT now()");
        let (kb, cpu, started) = (own_kb(pid), cpu_time(pid), Instant::now());
        run(&mut client, statement);
        let (time, cpu) = (started.elapsed(), cpu_time(pid) - cpu);
        Cost { ms: time.as_secs_f64() * 1e3, cpu_ms: cpu.as_secs_f64() * 1e3, kb: own_kb(pid) - kb }
    })
}
