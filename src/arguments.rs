//! Checks of arguments that several SQL functions have.

use crate::error::Error;
use crate::pg::names;
use crate::pg::text::Word;
use instagram_id_core::epoch::{Epoch, OutOfField, TimestampUs, US_PER_MS};
use instagram_id_core::hlc::FIRST_DAY_MS;
use instagram_id_core::layout::{ISSUED_MS_MAX, Shard};
use pgrx::datum::TimestampWithTimeZone;

/// A shard, 0 to 8191.
pub fn shard(number: i32) -> Result<Shard, Error> {
    Shard::new(number).ok_or_else(|| Error::ShardOutOfRange(number))
}

/// The shard of a function that must not be called without one.
pub fn shard_not_null(number: Option<i32>) -> Result<Shard, Error> {
    shard(not_null(number, "shard")?)
}

/// An epoch: any finite time.
pub fn epoch(at: TimestampWithTimeZone) -> Result<Epoch, Error> {
    Epoch::new(at.into()).ok_or_else(|| Error::EpochInfinite)
}

/// An epoch with which ids can be generated now: it is not in the future, and ids are not negative
/// yet.
pub fn workable_epoch(at: TimestampWithTimeZone) -> Result<Epoch, Error> {
    let epoch = epoch(at)?;
    let now = names::now();
    let elapsed_ms = epoch.elapsed_us(now).div_euclid(US_PER_MS);
    if (0..=ISSUED_MS_MAX as i64).contains(&elapsed_ms) {
        return Ok(epoch);
    }
    Err(Error::EpochUnworkable {
        epoch: names::time(epoch.at()),
        is_future: elapsed_ms < 0,
        // A day later than the very first, so that it still works when the call is repeated.
        earliest: names::time(now - (ISSUED_MS_MAX as i64 - FIRST_DAY_MS) * US_PER_MS),
        now: names::time(now),
    })
}

/// The error for a time that does not fit into an epoch's time field.
pub fn out_of_field(why: OutOfField, time: TimestampUs, epoch: Epoch) -> Error {
    let time = names::time(time);
    let epoch = names::time(epoch.at());
    match why {
        OutOfField::Infinite => Error::TimeInfinite(time),
        OutOfField::BeforeEpoch => Error::TimeBeforeEpoch { time, epoch },
        OutOfField::PastField => Error::TimePastField { time, epoch },
    }
}

/// A valid schema name, unquoted.
pub fn schema_name(name: Word) -> Result<String, Error> {
    match name.into_name()? {
        name if name.is_empty() => Err(Error::NameEmpty),
        name if name.starts_with("pg_") => Err(Error::NameReserved(name)),
        name => Ok(name),
    }
}

/// An argument that must not be NULL.
pub fn not_null<T>(value: Option<T>, argument: &'static str) -> Result<T, Error> {
    value.ok_or_else(|| Error::Null(argument))
}
