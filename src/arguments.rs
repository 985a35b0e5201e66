//! The arguments that several SQL functions take, checked.

use crate::epoch::Epoch;
use crate::error::{Argument, Error};
use crate::layout::Shard;
use pgrx::datum::TimestampWithTimeZone;

/// A shard, 0 to 8191.
pub fn shard(number: i32) -> Result<Shard, Error> {
    Shard::new(number).ok_or(Error::ShardOutOfRange(number))
}

/// A shard of a function that makes something, and so wants one.
pub fn shard_not_null(number: Option<i32>) -> Result<Shard, Error> {
    shard(not_null(number, Argument::Shard)?)
}

/// An epoch: any finite time.
pub fn epoch(at: TimestampWithTimeZone) -> Result<Epoch, Error> {
    Epoch::new(at.into()).ok_or(Error::EpochInfinite)
}

/// An argument that functions which make something want, and must not be NULL to do without.
pub fn not_null<T>(value: Option<T>, argument: Argument) -> Result<T, Error> {
    value.ok_or(Error::Null(argument))
}
