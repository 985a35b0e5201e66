//! Ids per second: with one session and with many, on one sequence and on one each, in bulk and one
//! per transaction.

use crate::contestants::{Contestant, Id, duplicates};
use crate::rounds::Rounds;
use instagram_id_live::{Server, cpu_time, in_parallel, one};
use std::fs;
use std::sync::Barrier;
use std::time::Instant;

/// The format's limit of ids per second for one sequence.
pub const LIMIT: f64 = 1_024_000.0;

/// The number of sessions, and of sequences that they use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    pub sessions: usize,
    pub sequences: usize,
}

/// The loads of a run.
pub const LOADS: [Load; 3] = [load(1, 1), load(8, 1), load(8, 8)];

pub const fn load(sessions: usize, sequences: usize) -> Load {
    Load { sessions, sequences }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Load { sessions: 1, .. } => write!(f, "1 session"),
            Load { sessions, sequences: 1 } => write!(f, "{sessions} sessions, one sequence"),
            Load { sessions, sequences } => write!(f, "{sessions} sessions, {sequences} sequences"),
        }
    }
}

/// One run of a load.
pub struct Run {
    pub per_second: f64,
    pub kept: Kept,
    /// The share of what one sequence could have generated in the milliseconds that the ids span,
    /// by their own time fields.
    pub share_of_limit: f64,
    /// The number of cores that the server's sessions kept busy.
    pub busy_cores: f64,
}

impl Run {
    /// Nanoseconds of the server's CPU time for an id.
    pub fn cpu_ns(&self) -> f64 {
        self.busy_cores / self.per_second * 1e9
    }
}

/// Ids that were checked.
pub struct Kept {
    pub ids: usize,
    /// How many of them are duplicates.
    pub duplicates: usize,
}

impl Kept {
    fn of(maker: Contestant, load: Load, by_session: Vec<Vec<Id>>) -> Kept {
        let ids = by_session.iter().map(Vec::len).sum();
        let sequences = (0..load.sessions).map(|session| session % load.sequences);
        Kept { ids, duplicates: duplicates(maker, sequences.zip(by_session)) }
    }

    /// The sum of several runs.
    pub fn of_all<'a>(runs: impl IntoIterator<Item = &'a Kept>) -> Kept {
        runs.into_iter().fold(Kept { ids: 0, duplicates: 0 }, |sum, kept| Kept {
            ids: sum.ids + kept.ids,
            duplicates: sum.duplicates + kept.duplicates,
        })
    }
}

/// Each session generates its share of `ids` in one statement and keeps them all.
pub fn in_bulk(
    server: &Server,
    rounds: usize,
    contestants: &[Contestant],
    load: Load,
    ids: usize,
) -> Rounds<Contestant, Run> {
    let each = ids / load.sessions;
    Rounds::of(&format!("in bulk: {load}"), rounds, contestants, |contestant| {
        let barrier = Barrier::new(load.sessions);
        let sessions = in_parallel(load.sessions, |session| {
            let mut client = server.connect();
            let pid = one(&mut client, "SELECT pg_backend_pid()");
            let call = contestant.received(session % load.sequences);
            client.query_one(&format!("SELECT {call}"), &[]).unwrap();
            let statement = format!("SELECT array_agg({call}) FROM generate_series(1, {each})");
            let statement = client.prepare(&statement).unwrap();
            barrier.wait();
            let (started, cpu_before) = (Instant::now(), cpu_time(pid));
            let row = client.query_one(&statement, &[]).unwrap();
            let (ended, cpu) = (Instant::now(), cpu_time(pid) - cpu_before);
            (started, ended, cpu, row.get::<_, Vec<Id>>(0))
        });
        let started = sessions.iter().map(|(started, ..)| *started).min().unwrap();
        let ended = sessions.iter().map(|(_, ended, ..)| *ended).max().unwrap();
        let elapsed = (ended - started).as_secs_f64();
        let cpu: f64 = sessions.iter().map(|(_, _, cpu, _)| cpu.as_secs_f64()).sum();
        let ids: Vec<Vec<Id>> = sessions.into_iter().map(|(.., ids)| ids).collect();
        let made: usize = ids.iter().map(Vec::len).sum();
        let ms = |id: Option<&Id>| (id.unwrap().0 >> 23) as f64;
        let span = ms(ids.iter().flatten().max()) - ms(ids.iter().flatten().min()) + 1.0;
        Run {
            per_second: made as f64 / elapsed,
            share_of_limit: made as f64 / span / (LIMIT / 1000.0),
            busy_cores: cpu / elapsed,
            kept: Kept::of(contestant, load, ids),
        }
    })
}

/// Each transaction generates one id, `SELECT next_id()`, run by pgbench. pgbench cannot keep the
/// ids, so duplicates are counted in [`one_a_transaction_kept`].
pub fn one_a_transaction(
    server: &Server,
    rounds: usize,
    contestants: &[Contestant],
    load: Load,
) -> Rounds<Contestant> {
    Rounds::of(&format!("one a transaction: {load}"), rounds, contestants, |contestant| {
        pgbench(server, load, contestant)
    })
}

/// Transactions a second that pgbench reaches.
fn pgbench(server: &Server, load: Load, contestant: Contestant) -> f64 {
    let folder = server.path().join("scripts");
    fs::create_dir_all(&folder).unwrap();
    // For each transaction a client picks one of the scripts at random, and so one of the
    // sequences.
    let scripts: Vec<String> = (0..load.sequences)
        .map(|n| {
            let script = folder.join(format!("{n}.sql"));
            fs::write(&script, format!("SELECT {};\n", contestant.call(n))).unwrap();
            format!("--file={}", script.display())
        })
        .collect();
    let options = [
        "--no-vacuum".into(),
        "--protocol=prepared".into(),
        format!("--client={}", load.sessions),
        format!("--jobs={}", load.sessions.min(2)),
        "--time=1".into(),
    ];
    let arguments: Vec<&str> =
        options.iter().chain(&scripts).map(String::as_str).chain(["postgres"]).collect();
    let said = server.run("pgbench", &arguments);
    let rate =
        said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.unwrap_or_else(|| panic!("no rate in what pgbench said: {said}"))
}

/// As [`one_a_transaction`], with a client that keeps the ids and is therefore slower.
pub fn one_a_transaction_kept(
    server: &Server,
    contestants: &[Contestant],
    load: Load,
    ids: usize,
) -> Rounds<Contestant, Kept> {
    Rounds::of(&format!("one a transaction, kept: {load}"), 1, contestants, |contestant| {
        let sessions = in_parallel(load.sessions, |session| {
            let mut client = server.connect();
            let statement = format!("SELECT {}", contestant.received(session % load.sequences));
            let statement = client.prepare(&statement).unwrap();
            let each = 0..ids / load.sessions;
            each.map(|_| client.query_one(&statement, &[]).unwrap().get(0)).collect::<Vec<Id>>()
        });
        Kept::of(contestant, load, sessions)
    })
}
