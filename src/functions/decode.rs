//! Converts ids to their parts and back, and time ranges to ranges of ids.
//!
//! All of it is exact over all 41 bits of milliseconds, unsigned, in integer arithmetic. Functions
//! without an epoch use the original's: 2011-08-24 21:07:01.721 UTC.

use crate::arguments;
use crate::error::{Error, or_raise, shortened};
use crate::pg::{names, text};
use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::{self, Seq, Shard};
use instagram_id_core::shortcode::{self, Malformed};
use pgrx::prelude::*;

/// `id_time(id)`
#[pg_extern(sql = false)]
fn id_time(id: i64) -> TimestampWithTimeZone {
    // 69.7 years after 2011 are within the range of timestamptz.
    time_of(id, Epoch::ORIGINAL).unwrap_or_else(|_| unreachable!())
}

/// `id_time(id, epoch)`, and `shard_id_time(id, epoch)`
#[pg_extern(sql = false)]
fn id_time_epoch(id: i64, epoch: TimestampWithTimeZone) -> TimestampWithTimeZone {
    or_raise(|| time_of(id, arguments::epoch(epoch)?))
}

/// `id_shard(id)`
#[pg_extern(sql = false)]
fn id_shard(id: i64) -> i32 {
    layout::shard_of(id).number().into()
}

/// `id_seq(id)`
#[pg_extern(sql = false)]
fn id_seq(id: i64) -> i32 {
    layout::seq_of(id).number().into()
}

/// `make_id(time, shard, seq)`. Microseconds below the millisecond are dropped.
#[pg_extern(sql = false)]
fn make_id(time: TimestampWithTimeZone, shard: i32, seq: i32) -> i64 {
    or_raise(|| id_of_parts(time, shard, seq, Epoch::ORIGINAL))
}

/// `make_id(time, shard, seq, epoch)`
#[pg_extern(sql = false)]
fn make_id_epoch(
    time: TimestampWithTimeZone,
    shard: i32,
    seq: i32,
    epoch: TimestampWithTimeZone,
) -> i64 {
    or_raise(|| id_of_parts(time, shard, seq, arguments::epoch(epoch)?))
}

/// `id_floor(time)`
#[pg_extern(sql = false)]
fn id_floor(time: TimestampWithTimeZone) -> i64 {
    or_raise(|| floor_of(time, Epoch::ORIGINAL))
}

/// `id_floor(time, epoch)`
#[pg_extern(sql = false)]
fn id_floor_epoch(time: TimestampWithTimeZone, epoch: TimestampWithTimeZone) -> i64 {
    or_raise(|| floor_of(time, arguments::epoch(epoch)?))
}

/// `id_range_end(from_time, to_time)`
#[pg_extern(sql = false)]
fn id_range_end(from_time: TimestampWithTimeZone, to_time: TimestampWithTimeZone) -> i64 {
    or_raise(|| range_end(from_time, to_time, Epoch::ORIGINAL))
}

/// `id_range_end(from_time, to_time, epoch)`
#[pg_extern(sql = false)]
fn id_range_end_epoch(
    from_time: TimestampWithTimeZone,
    to_time: TimestampWithTimeZone,
    epoch: TimestampWithTimeZone,
) -> i64 {
    or_raise(|| range_end(from_time, to_time, arguments::epoch(epoch)?))
}

/// `shard_for(key, shards)`
#[pg_extern(sql = false)]
fn shard_for(key: i64, shards: i32) -> i32 {
    let shard =
        or_raise(|| layout::shard_for(key, shards).ok_or_else(|| Error::ShardsOutOfRange(shards)));
    shard.number().into()
}

/// `id_to_shortcode(id)`
#[pg_extern(sql = false)]
fn id_to_shortcode(id: i64) -> String {
    shortcode::encode(id)
}

/// `shortcode_to_id(code)`
#[pg_extern(sql = false)]
fn shortcode_to_id(code: &[u8]) -> i64 {
    or_raise(|| id_of_code(code))
}

/// When an id was generated, by this epoch.
pub fn time_of(id: i64, epoch: Epoch) -> Result<TimestampWithTimeZone, Error> {
    epoch
        .time_of(layout::ms_of(id))
        .and_then(|at| TimestampWithTimeZone::try_from(at).ok())
        .ok_or_else(|| Error::IdTimeOutOfRange { id, epoch: names::time(epoch.at()) })
}

/// The id of a text, which in a database with another encoding may not be UTF-8.
fn id_of_code(code: &[u8]) -> Result<i64, Error> {
    let valid = code.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let decoded = match shortcode::decode(valid) {
        Err(why @ Malformed::NoDigit(_)) => Err(why),
        _ if valid.len() < code.len() => Err(Malformed::NoDigit('?')),
        decoded => decoded,
    };
    decoded.map_err(|why| {
        // More than the message shows, whatever the text is.
        let beginning = text::shown_bytes(&code[..code.len().min(256)]);
        Error::ShortcodeMalformed { code: shortened(&beginning), why }
    })
}

fn id_of_parts(
    time: TimestampWithTimeZone,
    shard: i32,
    seq: i32,
    epoch: Epoch,
) -> Result<i64, Error> {
    let shard = arguments::shard(shard)?;
    let seq = Seq::new(seq).ok_or_else(|| Error::SeqOutOfRange(seq))?;
    let ms =
        epoch.ms_at(time.into()).map_err(|why| arguments::out_of_field(why, time.into(), epoch))?;
    Ok(layout::pack(ms, shard, seq))
}

fn floor_of(time: TimestampWithTimeZone, epoch: Epoch) -> Result<i64, Error> {
    let ms = epoch
        .ms_from(time.into())
        .map_err(|why| arguments::out_of_field(why, time.into(), epoch))?;
    Ok(layout::pack(ms, Shard::MIN, Seq::MIN))
}

fn range_end(
    from_time: TimestampWithTimeZone,
    to_time: TimestampWithTimeZone,
    epoch: Epoch,
) -> Result<i64, Error> {
    let (start, end) = (floor_of(from_time, epoch)?, floor_of(to_time, epoch)?);
    if i64::from(to_time) <= i64::from(from_time) {
        Ok(start) // an empty range
    } else if start >= 0 && end < 0 {
        Err(Error::RangeTurnsNegative {
            from: names::time(from_time.into()),
            to: names::time(to_time.into()),
        })
    } else {
        Ok(end)
    }
}
