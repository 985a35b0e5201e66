//! The arguments that several SQL functions take, checked.

use crate::epoch::{Epoch, OutOfField, TimestampUs, US_PER_MS};
use crate::error::{Argument, Error};
use crate::layout::{ISSUED_MS_MAX, Shard};
use crate::names;
use pgrx::datum::TimestampWithTimeZone;

/// Names are shorter than this, in bytes.
const NAME_LIMIT: usize = pgrx::pg_sys::NAMEDATALEN as usize;

/// A shard, 0 to 8191.
pub fn shard(number: i32) -> Result<Shard, Error> {
    Shard::new(number).ok_or_else(|| Error::ShardOutOfRange(number))
}

/// A shard of a function that makes something, and so wants one.
pub fn shard_not_null(number: Option<i32>) -> Result<Shard, Error> {
    shard(not_null(number, Argument::Shard)?)
}

/// An epoch: any finite time.
pub fn epoch(at: TimestampWithTimeZone) -> Result<Epoch, Error> {
    Epoch::new(at.into()).ok_or_else(|| Error::EpochInfinite)
}

/// An epoch for a shard that is to make ids now: it must have begun, and ids must not be negative yet.
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
        earliest: names::time(now - ISSUED_MS_MAX as i64 * US_PER_MS),
        now: names::time(now),
    })
}

/// The error for a time that has no place in an epoch's field.
pub fn out_of_field(why: OutOfField, time: TimestampUs, epoch: Epoch) -> Error {
    let time = names::time(time);
    let epoch = names::time(epoch.at());
    match why {
        OutOfField::Infinite => Error::TimeInfinite(time),
        OutOfField::BeforeEpoch => Error::TimeBeforeEpoch { time, epoch },
        OutOfField::PastField => Error::TimePastField { time, epoch },
    }
}

/// A name that a schema can have, as it is, without quotes.
pub fn schema_name(name: String) -> Result<String, Error> {
    match name.len() {
        0 => Err(Error::NameEmpty),
        _ if name.starts_with("pg_") => Err(Error::NameReserved(name)),
        1..NAME_LIMIT => Ok(name),
        _ => Err(Error::NameTooLong(name)),
    }
}

/// An argument that functions which make something want, and must not be NULL to do without.
pub fn not_null<T>(value: Option<T>, argument: Argument) -> Result<T, Error> {
    value.ok_or_else(|| Error::Null(argument))
}
