//! All measurements on one PostgreSQL.

use crate::calls::Decoding;
use crate::contestants::Contestant;
use crate::first_ids::{Cost, First};
use crate::footprint::Growth;
use crate::order::Order;
use crate::rivals::Description;
use crate::rounds::Rounds;
use crate::sessions::{Kept, Load, Run, load};
use crate::shards::Among;
use crate::tables::{Filled, Key};
use crate::transactions::{self, Transaction};

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
    /// Microseconds of CPU time.
    pub transactions: Rounds<Transaction>,
    pub in_bulk: Vec<(Load, Rounds<Contestant, Run>)>,
    /// Transactions a second.
    pub one_a_transaction: Vec<(Load, Rounds<Contestant>)>,
    pub kept: Vec<(Load, Rounds<Contestant, Kept>)>,
    pub first_ids: Rounds<First, Cost>,
    /// Nanoseconds of CPU time.
    pub shards: Rounds<Among>,
    pub rows: usize,
    /// Of one row, in a transaction of its own.
    pub inserts: Rounds<Key, transactions::Cost>,
    pub tables: Rounds<Key, Result<Filled, String>>,
    pub order: Rounds<Contestant, Order>,
    pub rivals: Vec<Description>,
    pub rivals_settings: Vec<(&'static str, String)>,
}

impl Results {
    pub fn contestants(&self) -> Vec<Contestant> {
        self.calls.contestants().collect()
    }

    pub fn in_bulk(&self, sessions: usize, sequences: usize) -> &Rounds<Contestant, Run> {
        of_load(&self.in_bulk, load(sessions, sequences))
    }

    /// All ids of this contestant that were compared with each other, and the duplicates among
    /// them.
    pub fn kept(&self, maker: Contestant) -> Kept {
        let in_bulk =
            self.in_bulk.iter().flat_map(|(_, runs)| runs.of_one(maker)).map(|run| &run.kept);
        let single = self.kept.iter().flat_map(|(_, kept)| kept.of_one(maker));
        Kept::of_all(in_bulk.chain(single))
    }

    /// PostgreSQL's error, if the table with this key could not be filled in some round.
    pub fn failure_of(&self, key: Key) -> Option<&str> {
        self.tables.of_one(key).iter().find_map(|filled| filled.as_ref().err().map(String::as_str))
    }

    /// Microseconds of CPU time of an INSERT of one row.
    pub fn of_one_row(&self) -> Rounds<Key> {
        self.inserts.each(|cost| cost.cpu_us)
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
        duplicates => {
            format!("{rate}, {:.2} % repeated", duplicates as f64 / kept.ids as f64 * 100.0)
        }
    }
}

fn of_load<T>(measured: &[(Load, T)], load: Load) -> &T {
    let found = measured.iter().find(|(of, _)| *of == load);
    &found.expect("one of the loads").1
}
