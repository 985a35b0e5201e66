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
