//! `next_id`, `next_ids` and `node_next_id`: the SQL functions that generate ids.
//!
//! Each determines a shard, a sequence and an epoch; [`generator::take`] does the rest.

use crate::arguments::{self, not_null};
use crate::error::{Error, or_raise};
use crate::generator::{self, Origin, Request, Source};
use crate::pg::guc;
use crate::pg::reg_types::Regclass;
use crate::sequence::placement;
use crate::sequence::{CopyPolicy, IdSequence};
use crate::shard::definition;
use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::{self, Shard};
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use std::cell::Cell;

#[pg_extern(sql = false)]
fn next_id_of_shard(shard: Option<i32>) -> i64 {
    or_raise(|| of_shard(shard))
}

/// `next_id(shard)`
#[inline]
pub fn of_shard(shard: Option<i32>) -> Result<i64, Error> {
    let shard = arguments::shard_not_null(shard)?;
    generator::next_id(shard, Source::OfShard)
}

#[pg_extern(sql = false)]
fn next_id_of_sequence(shard: Option<i32>, seq: Option<Regclass>) -> i64 {
    or_raise(|| of_sequence(shard, seq))
}

/// `next_id(shard, seq)`. The shard need not exist.
#[inline]
pub fn of_sequence(shard: Option<i32>, seq: Option<Regclass>) -> Result<i64, Error> {
    let shard = arguments::shard_not_null(shard)?;
    let Regclass(sequence) = not_null(seq, "sequence")?;
    generator::next_id(shard, given(sequence, Epoch::ORIGINAL, CopyPolicy::SchemaNode))
}

#[inline(always)]
fn given(oid: Oid, epoch: Epoch, policy: CopyPolicy) -> Source<'static> {
    Source::Given(Origin { sequence: IdSequence { oid, epoch }, policy })
}

#[pg_extern(sql = false)]
fn next_id_of_sequence_and_epoch(
    shard: Option<i32>,
    seq: Option<Regclass>,
    epoch: Option<TimestampWithTimeZone>,
) -> i64 {
    or_raise(|| of_sequence_and_epoch(shard, seq, epoch))
}

/// `next_id(shard, seq, epoch)`, and `shard_next_id(shard, seq, epoch)`
#[inline]
pub fn of_sequence_and_epoch(
    shard: Option<i32>,
    seq: Option<Regclass>,
    epoch: Option<TimestampWithTimeZone>,
) -> Result<i64, Error> {
    let shard = arguments::shard_not_null(shard)?;
    let Regclass(sequence) = not_null(seq, "sequence")?;
    let epoch = arguments::epoch(not_null(epoch, "epoch")?)?;
    generator::next_id(shard, given(sequence, epoch, CopyPolicy::SchemaNode))
}

#[pg_extern(sql = false)]
fn next_id_of_setting() -> i64 {
    or_raise(of_setting)
}

/// `next_id()`
#[inline]
pub fn of_setting() -> Result<i64, Error> {
    let shard = guc::shard().ok_or_else(|| Error::ShardNotSet)?;
    generator::next_id(shard, Source::OfShard)
}

/// `next_ids(shard, count)`, with as many ids as possible from each visit to the sequence. Ids that
/// the query does not fetch are never used.
#[pg_extern(sql = false)]
fn next_ids(shard: Option<i32>, count: Option<i32>) -> SetOfIterator<'static, i64> {
    or_raise(|| {
        let shard = arguments::shard_not_null(shard)?;
        let count = not_null(count, "count")?;
        if count < 1 {
            return Err(Error::CountOutOfRange(count));
        }
        let mut left = i64::from(count);
        let runs = std::iter::from_fn(move || {
            (left > 0).then(|| {
                let request = Request { shard, source: Source::OfShard, want: left };
                let run = or_raise(|| generator::take(request));
                left -= run.len;
                run.first..=run.last()
            })
        });
        Ok(SetOfIterator::new(runs.flatten().map(move |value| layout::id_of(value, shard))))
    })
}

/// `node_next_id(seq, epoch)`, for tables that are distributed by a column, with ids that each node
/// generates independently of the others. The sequence must serve nothing else. Without Citus the
/// group id is 0, as on a coordinator. Warns once a session if there is a shard with the number of
/// the group.
#[pg_extern(sql = false)]
fn node_next_id(seq: Option<Regclass>, epoch: Option<TimestampWithTimeZone>) -> i64 {
    or_raise(|| {
        let Regclass(sequence) = not_null(seq, "sequence")?;
        let epoch = epoch.map_or(Ok(Epoch::ORIGINAL), arguments::epoch)?;
        let shard = arguments::shard(placement::local_group())?;
        if CHECKED_GROUP.get() != Some(shard) {
            warn_if_shard_exists(shard);
        }
        generator::next_id(shard, given(sequence, epoch, CopyPolicy::EveryNode))
    })
}

thread_local! {
    /// The group whose number this session has looked for among the shards.
    static CHECKED_GROUP: Cell<Option<Shard>> = const { Cell::new(None) };
}

/// Warns, once a session, if the group of this node is also the number of a shard.
#[cold]
fn warn_if_shard_exists(group: Shard) {
    CHECKED_GROUP.set(Some(group));
    if !matches!(definition::find(group), Ok(None)) {
        Error::GroupIsShard(group.number()).warn();
    }
}
