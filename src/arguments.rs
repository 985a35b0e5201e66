//! The arguments that several SQL functions take, checked.

use crate::epoch::Epoch;
use crate::error::Error;
use crate::layout::Shard;
use pgrx::datum::TimestampWithTimeZone;

/// A shard, 0 to 8191.
pub fn shard(number: i32) -> Result<Shard, Error> {
    Shard::new(number).ok_or(Error::ShardOutOfRange(number))
}

/// An epoch: any finite time.
pub fn epoch(at: TimestampWithTimeZone) -> Result<Epoch, Error> {
    Epoch::new(at.into()).ok_or(Error::EpochInfinite)
}

/// An argument that functions which make something want, and must not be NULL to do without.
pub fn not_null<T>(argument: Option<T>, name: &'static str) -> Result<T, Error> {
    argument.ok_or(Error::Null(name))
}
