//! The cost of a call as the number of shards grows to 8,192.

use crate::rounds::Rounds;
use crate::session::Session;
use instagram_id_live::{Server, one, run};
use postgres::Client;

pub const SHARDS: usize = 8192;

/// The number of shards that are called in turns, and the kind of call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Among {
    pub called: usize,
    pub by: Caller,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// `next_id(n)` in a database with 8,192 shards.
    NextId,
    /// `nextval(sequence)` of as many sequences in that database.
    Nextval,
    /// `next_id(n)` in a database that has only the shards that are called.
    NextIdOfFew,
}

impl Caller {
    fn database(self) -> &'static str {
        if self == Caller::NextIdOfFew { "few" } else { "many" }
    }
}

/// The number of shards in the database that has only those that are called: enough to stay below
/// the limit.
pub const FEW: usize = 128;

/// How many shards are called in turns.
pub const CALLED: [usize; 2] = [FEW, SHARDS];

/// The database that has only the shards that are called, and the one with all.
pub const DATABASES: [(&str, usize); 2] = [("few", FEW), ("many", SHARDS)];

/// The number of rows of a table of calls.
const CALLS: usize = 500_000;

/// Creates the databases.
pub fn set_up(server: &Server) {
    eprintln!("    making {SHARDS} shards");
    for (database, shards) in DATABASES {
        run(&mut server.connect(), &format!("CREATE DATABASE {database}"));
        let mut client = server.connect_to(database);
        make_shards(&mut client, shards);
        for called in CALLED.into_iter().filter(|called| *called <= shards) {
            run(
                &mut client,
                &format!(
                    "CREATE TABLE calls{called} AS
                     SELECT n % {called} AS shard, ('plain.seq' || n % {called})::regclass AS plain
                     FROM generate_series(1, {CALLS}) AS n"
                ),
            );
            run(&mut client, &format!("VACUUM ANALYZE calls{called}"));
        }
    }
}

/// Nanoseconds of CPU time per call.
pub fn cost(server: &Server, rounds: usize) -> Rounds<Among> {
    let contestants: Vec<Among> = CALLED
        .into_iter()
        .flat_map(|called| [Caller::NextId, Caller::Nextval].map(|by| Among { called, by }))
        .chain([Among { called: FEW, by: Caller::NextIdOfFew }])
        .collect();
    // In a new session each time, because the speed depends on where a session's memory is.
    Rounds::of("as shards grow", rounds, &contestants, |Among { called, by }| {
        let mut session = Session::of(server.connect_to(by.database()));
        run(&mut session.client, "SET max_parallel_workers_per_gather = 0");
        let (column, call) = match by {
            Caller::Nextval => ("plain", "nextval(plain)"),
            Caller::NextId | Caller::NextIdOfFew => ("shard", "next_id(shard)"),
        };
        let [without, with] = [column, call].map(|counted| {
            let statement = session.prepare(&format!("SELECT count({counted}) FROM calls{called}"));
            session.cpu_ns(&statement)
        });
        (with - without) / CALLS as f64
    })
}

/// Creates the shards from 0 on, and as many plain sequences.
fn make_shards(client: &mut Client, shards: usize) {
    run(client, "CREATE EXTENSION instagram_id; CREATE SCHEMA plain");
    for first in (0..shards).step_by(1024) {
        let last = (first + 1023).min(shards - 1);
        let create_shards =
            format!("SELECT count(create_shard(n)) FROM generate_series({first}, {last}) AS n");
        one::<i64>(client, &create_shards);
        let create = "EXECUTE 'CREATE SEQUENCE plain.seq' || n; END LOOP; END $$";
        run(client, &format!("DO $$ BEGIN FOR n IN {first}..{last} LOOP {create}"));
    }
}
