//! All measurements on one PostgreSQL.

use crate::calls::Decoding;
use crate::contestants::Contestant;
use crate::footprint::Growth;
use crate::rounds::Rounds;
use crate::sessions::{Kept, LOADS, Load, Run, load};
use crate::shards::Among;
use crate::tables::{Filled, Key};

pub struct Results {
    /// The version of PostgreSQL.
    pub version: String,
    pub rounds: usize,
    /// The version of the extension.
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

    /// PostgreSQL's error, if the table with this key could not be filled in some round.
    pub fn failure_of(&self, key: Key) -> Option<&str> {
        self.tables.of_one(key).iter().find_map(|filled| filled.as_ref().err().map(String::as_str))
    }

    /// One figure of the tables that could be filled, and NaN for the others.
    pub fn of_tables(&self, figure: impl Fn(&Filled) -> f64) -> Rounds<Key> {
        self.tables.each(|filled| filled.as_ref().map_or(f64::NAN, &figure))
    }
}

/// A rate, and the share of duplicates among its ids.
pub fn with_duplicates(rate: String, kept: &Kept) -> String {
    match kept.duplicates {
        0 => rate,
        duplicates => format!("{rate}, {:.2} % repeated", duplicates as f64 / kept.ids as f64 * 100.0),
    }
}

fn of_load<T>(measured: &[(Load, T)], load: Load) -> &T {
    let found = measured.iter().find(|(of, _)| *of == load);
    &found.expect("one of the loads").1
}
