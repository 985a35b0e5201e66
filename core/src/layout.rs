//! The 64 bits of an id: 41 bits of milliseconds since the epoch, 13 bits of shard, 10 bits of
//! sequence.
//!
//! ```text
//! bit 63 ............................ 23 | 22 .......... 10 | 9 ........ 0
//! 41 bits: ms since the epoch            | 13 bits: shard   | 10 bits: sequence
//! ```
//!
//! Pure arithmetic, independent of PostgreSQL.

pub const TIME_BITS: u32 = 41;
pub const SHARD_BITS: u32 = 13;
pub const SEQ_BITS: u32 = 10;

pub const SHARD_SHIFT: u32 = SEQ_BITS;
pub const TIME_SHIFT: u32 = SHARD_BITS + SEQ_BITS;

/// Largest shard number, 8191.
pub const SHARD_MAX: u16 = (1 << SHARD_BITS) - 1;
/// Largest number in the sequence field, 1023.
pub const SEQ_MAX: u16 = (1 << SEQ_BITS) - 1;
/// Largest number of milliseconds that the time field holds, about 69.7 years.
pub const MS_MAX: u64 = (1 << TIME_BITS) - 1;
/// Largest number of milliseconds that the generator issues. An id above it is negative as a
/// bigint.
pub const ISSUED_MS_MAX: u64 = MS_MAX >> 1;

const _: () = assert!(TIME_BITS + SHARD_BITS + SEQ_BITS == u64::BITS);
const _: () = assert!(TIME_SHIFT + TIME_BITS == u64::BITS);
const _: () = assert!(pack(ISSUED_MS_MAX, Shard(SHARD_MAX), Seq(SEQ_MAX)) == i64::MAX);
const _: () = assert!(pack(MS_MAX, Shard(SHARD_MAX), Seq(SEQ_MAX)) == -1);

/// A logical shard, 0 to 8191.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shard(u16);

impl Shard {
    pub const MIN: Shard = Shard(0);

    pub const fn new(number: i32) -> Option<Shard> {
        if 0 <= number && number <= SHARD_MAX as i32 { Some(Shard(number as u16)) } else { None }
    }

    pub const fn number(self) -> u16 {
        self.0
    }
}

/// The sequence field of an id, 0 to 1023.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seq(u16);

impl Seq {
    pub const MIN: Seq = Seq(0);

    pub const fn new(number: i32) -> Option<Seq> {
        if 0 <= number && number <= SEQ_MAX as i32 { Some(Seq(number as u16)) } else { None }
    }

    pub const fn number(self) -> u16 {
        self.0
    }
}

/// Packs the three fields into an id. `ms` counts from the epoch and must not exceed [`MS_MAX`].
pub const fn pack(ms: u64, shard: Shard, seq: Seq) -> i64 {
    debug_assert!(ms <= MS_MAX);
    (ms << TIME_SHIFT | (shard.0 as u64) << SHARD_SHIFT | seq.0 as u64) as i64
}

/// Milliseconds from the epoch to the id, in all 41 bits, unsigned.
pub const fn ms_of(id: i64) -> u64 {
    id as u64 >> TIME_SHIFT
}

pub const fn shard_of(id: i64) -> Shard {
    Shard((id as u64 >> SHARD_SHIFT) as u16 & SHARD_MAX)
}

/// The value of the sequence, `ms << 10 | seq`, that corresponds to an id.
pub const fn value_of(id: i64) -> i64 {
    (ms_of(id) as i64) << SEQ_BITS | seq_of(id).0 as i64
}

/// The id in `shard` that corresponds to a value of its sequence, which must be at least 0.
pub const fn id_of(value: i64, shard: Shard) -> i64 {
    pack((value >> SEQ_BITS) as u64, shard, Seq(value as u16 & SEQ_MAX))
}

pub const fn seq_of(id: i64) -> Seq {
    Seq(id as u16 & SEQ_MAX)
}

/// The shard of `key`: `key` modulo `shards`, never negative. `None` if `shards` is not 1 to 8192.
pub const fn shard_for(key: i64, shards: i32) -> Option<Shard> {
    if 1 <= shards && shards <= SHARD_MAX as i32 + 1 {
        Some(Shard(key.rem_euclid(shards as i64) as u16))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(ms: u64, shard: i32, seq: i32, id: i64) {
        let (shard, seq) = (Shard::new(shard).unwrap(), Seq::new(seq).unwrap());
        assert_eq!(pack(ms, shard, seq), id);
        assert_eq!((ms_of(id), shard_of(id), seq_of(id)), (ms, shard, seq));
    }

    /// The first three rows are the examples of the published write-ups, checked by hand.
    #[test]
    fn worked_examples() {
        check(1_387_263_000, 31341 % 2000, 5001 % 1024, 11637205501278089);
        check(264_384_000_000, 5001 % 2000, 809, 2217813737473025833);
        check(264_384_000_000, 1001, 9000 % 1024, 2217813737473025832);
        check(199_243_105_559, 5, 31, 1671372309237077023);
    }

    #[test]
    fn shard_for_a_key() {
        assert_eq!(shard_for(31341, 2000), Shard::new(1341));
        assert_eq!(shard_for(-1, 2000), Shard::new(1999));
        assert_eq!(shard_for(i64::MIN, 8192), Shard::new(0));
        assert_eq!(shard_for(i64::MAX, 8192), Shard::new(8191));
        assert_eq!(shard_for(i64::MIN, 1), Shard::new(0));
        assert_eq!(shard_for(1, 0), None);
        assert_eq!(shard_for(1, -5), None);
        assert_eq!(shard_for(1, 8193), None);
    }

    proptest! {
        #[test]
        fn ids_sort_as_their_fields(a in 0..=i64::MAX, b in 0..=i64::MAX) {
            let fields = |id| (ms_of(id), shard_of(id).number(), seq_of(id).number());
            prop_assert_eq!(a.cmp(&b), fields(a).cmp(&fields(b)));
        }
    }
}
