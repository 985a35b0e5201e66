//! The ways to generate ids in PostgreSQL.

use crate::rivals::{self, Rival};
use instagram_id_live::{ORIGINAL_EPOCH_MS, original_function, run};
use postgres::Client;
use postgres::types::{FromSql, Type};
use std::error::Error;

/// The number of shards, and of sequences for each contestant that uses some, numbered from 0.
pub const SEQUENCES: usize = 200;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contestant {
    NextId,
    ShardsNextId,
    Nextval,
    /// The cheapest configuration of a plain sequence.
    CachedNextval,
    Original,
    ClockInSql,
    Uuid4,
    Uuid7,
    Rival(Rival),
}

use Contestant::{
    CachedNextval, ClockInSql, NextId, Nextval, Original, ShardsNextId, Uuid4, Uuid7,
};

impl Contestant {
    /// The contestants on this major, and those of other extensions that are installed.
    pub fn all(major: u32, rivals: &[Rival]) -> Vec<Contestant> {
        let everywhere =
            [NextId, ShardsNextId, Nextval, CachedNextval, Original, ClockInSql, Uuid4];
        // uuidv7() is new in PostgreSQL 18.
        let own = everywhere.into_iter().chain((major >= 18).then_some(Uuid7));
        own.chain(rivals.iter().copied().map(Contestant::Rival)).collect()
    }

    pub fn name(self) -> &'static str {
        match self {
            NextId => "next_id(5)",
            ShardsNextId => "insta5.next_id()",
            Nextval => "nextval",
            CachedNextval => "nextval, CACHE 50",
            Original => "PL/pgSQL original",
            ClockInSql => "nextval + clock in SQL",
            Uuid4 => "gen_random_uuid()",
            Uuid7 => "uuidv7()",
            Contestant::Rival(rival) => rival.name(),
        }
    }

    /// An expression that generates an id, from the sequence of this number.
    pub fn call(self, n: usize) -> String {
        match self {
            NextId => format!("next_id({n})"),
            ShardsNextId => format!("insta{n}.next_id()"),
            Nextval => format!("nextval('plain.seq{n}')"),
            CachedNextval => format!("nextval('plain.cached{n}')"),
            Original => format!("original{n}.next_id()"),
            ClockInSql => format!("clock{n}.clock_id()"),
            Uuid4 => "gen_random_uuid()".into(),
            Uuid7 => "uuidv7()".into(),
            Contestant::Rival(rival) => rival.call(n),
        }
    }

    /// The same in a form that a client can receive.
    pub fn received(self, n: usize) -> String {
        if let Contestant::Rival(rival) = self { rival.received(n) } else { self.call(n) }
    }

    /// The type of its ids.
    pub fn type_name(self) -> String {
        match self {
            Contestant::Rival(rival) => rival.type_name(),
            Uuid4 | Uuid7 => "uuid".into(),
            _ => "bigint".into(),
        }
    }

    /// Whether its ids are only unique within a sequence. Plain sequences, for example, all count
    /// from 1.
    fn is_unique_by_sequence(self) -> bool {
        match self {
            Contestant::Rival(rival) => rival.is_unique_by_sequence(),
            _ => matches!(self, Nextval | CachedNextval),
        }
    }

    pub fn is_ours(self) -> bool {
        matches!(self, NextId | ShardsNextId)
    }
}

/// Creates the sequences and functions of all contestants.
pub fn set_up(client: &mut Client, rivals: &[Rival]) {
    run(client, "CREATE EXTENSION instagram_id; CREATE SCHEMA plain");
    for n in 0..SEQUENCES {
        let original = original_function(&format!("original{n}"), n as i32, ORIGINAL_EPOCH_MS);
        run(client, &format!(
                "SELECT create_shard({n});
                 CREATE SEQUENCE plain.seq{n}; CREATE SEQUENCE plain.cached{n} CACHE 50;
                 CREATE SCHEMA original{n}; CREATE SEQUENCE original{n}.table_id_seq; {original}
                 CREATE SCHEMA clock{n}; CREATE SEQUENCE clock{n}.table_id_seq;
                 CREATE FUNCTION clock{n}.clock_id() RETURNS bigint LANGUAGE sql VOLATILE
                 RETURN ((extract(epoch FROM clock_timestamp()) * 1000)::bigint - {ORIGINAL_EPOCH_MS}) << 23
                        | ({n} << 10) | nextval('clock{n}.table_id_seq') % 1024"
            ));
    }
    rivals::set_up(client, rivals);
}

/// An id of any type, as the bits that the server sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(pub u128);

impl<'a> FromSql<'a> for Id {
    fn from_sql(_: &Type, sent: &'a [u8]) -> Result<Id, Box<dyn Error + Sync + Send>> {
        Ok(Id(sent.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte))))
    }

    fn accepts(id: &Type) -> bool {
        [Type::INT8, Type::UUID].contains(id) || id.name() == "ulid"
    }
}

/// How many of the ids are duplicates, given the sequence of each session.
pub fn duplicates(maker: Contestant, by_sequence: impl Iterator<Item = (usize, Vec<Id>)>) -> usize {
    let scope = |sequence| if maker.is_unique_by_sequence() { sequence } else { 0 };
    let mut ids: Vec<(usize, Id)> = by_sequence
        .flat_map(|(sequence, ids)| ids.into_iter().map(move |id| (scope(sequence), id)))
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    all - ids.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_seen() {
        let ids = |ids: &[u128]| ids.iter().map(|id| Id(*id)).collect::<Vec<Id>>();
        let of = |maker| duplicates(maker, [(0, ids(&[1, 2, 2])), (1, ids(&[2, 3]))].into_iter());
        assert_eq!(of(NextId), 2);
        assert_eq!(of(Nextval), 1); // the other sequence has its own 2
    }
}
