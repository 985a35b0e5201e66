//! All that was measured on one PostgreSQL.

use crate::calls::Decoding;
use crate::contestants::Contestant;
use crate::footprint::Growth;
use crate::rounds::Rounds;
use crate::sessions::{Kept, LOADS, Load, Run, load};
use crate::shards::Among;
use crate::tables::{Filled, Key};

pub struct Results {
    /// PostgreSQL's.
    pub version: String,
    pub rounds: usize,
    /// The extension's.
    pub extension: String,
    pub major: u32,
    /// Nanoseconds of CPU time.
    pub calls: Rounds<Contestant>,
    /// Nanoseconds of CPU time.
    pub decoders: Rounds<Decoding>,
    /// Bytes.
    pub wal: Rounds<Contestant>,
    pub memory: Rounds<Contestant, Growth>,
    pub in_bulk: [(Load, Rounds<Contestant, Run>); LOADS.len()],
    /// Transactions a second.
    pub one_a_transaction: [(Load, Rounds<Contestant>); LOADS.len()],
    pub kept: [(Load, Rounds<Contestant, Kept>); LOADS.len()],
    /// Nanoseconds of CPU time.
    pub shards: Rounds<Among>,
    pub rows: usize,
    pub tables: Rounds<Key, Result<Filled, String>>,
}

impl Results {
    pub fn contestants(&self) -> Vec<Contestant> {
        self.calls.contestants().collect()
    }

    pub fn in_bulk(&self, sessions: usize, sequences: usize) -> &Rounds<Contestant, Run> {
        of_load(&self.in_bulk, load(sessions, sequences))
    }

    pub fn one_a_transaction(&self, sessions: usize, sequences: usize) -> &Rounds<Contestant> {
        of_load(&self.one_a_transaction, load(sessions, sequences))
    }

    /// What PostgreSQL says where the table of this key could not be filled in some round.
    pub fn failure_of(&self, key: Key) -> Option<&str> {
        self.tables.of_one(key).iter().find_map(|filled| filled.as_ref().err().map(String::as_str))
    }

    /// One figure of the tables that could be filled; the others' are no numbers.
    pub fn of_tables(&self, figure: impl Fn(&Filled) -> f64) -> Rounds<Key> {
        self.tables.each(|filled| filled.as_ref().map_or(f64::NAN, &figure))
    }
}

/// A rate with the share of its ids that had been made before.
pub fn with_duplicates(rate: String, kept: &Kept) -> String {
    match kept.duplicates {
        0 => rate,
        duplicates => format!("{rate}, {:.2} % twice", duplicates as f64 / kept.ids as f64 * 100.0),
    }
}

fn of_load<T>(measured: &[(Load, T)], load: Load) -> &T {
    let found = measured.iter().find(|(of, _)| *of == load);
    &found.expect("one of the loads").1
}
