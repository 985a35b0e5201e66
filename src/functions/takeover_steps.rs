//! `_close_sequence` and `_record_sequence_holder`: the steps of `next_id` on another node of a
//! Citus cluster.

use crate::arguments::not_null;
use crate::citus::takeover;
use crate::error::Error;
use crate::pg::catalog;
use crate::pg::reg_types::Regclass;
use crate::sequence::placement;
use instagram_id_core::copy::{Attempt, LastHolder};
use instagram_id_core::hlc;
use pgrx::pg_sys::{Oid, panic::ErrorReport};
use pgrx::prelude::*;

/// `_close_sequence(seq, for_group, attempt)`. The node of that group then opens its own copy.
/// Returns a value greater than all that this copy has issued, and the recorded group of the node
/// that last took the sequence over: NULL if there was none, -1 if it is not known. `attempt`, 0 to
/// 2^30 - 1, identifies the attempt of the other node. `placed_on` is the group of the node that
/// owns the schema by the catalogs of this node; NULL if the sequence has no copies. If that is
/// this node after all, the next call of `next_id` here takes the sequence back.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn close_sequence(
    seq: Option<Regclass>,
    for_group: Option<i32>,
    attempt: Option<i32>,
) -> Result<
    TableIterator<
        'static,
        (name!(next_value, i64), name!(last_holder, Option<i32>), name!(placed_on, Option<i32>)),
    >,
    ErrorReport,
> {
    let (sequence, _, attempt) = arguments_of_step(seq, for_group, attempt)?;
    let state = takeover::close(sequence, attempt)?;
    let placed_on = placement::of(sequence).placed_on;
    Ok(TableIterator::once((state.next_value, state.last_holder.to_column(), placed_on)))
}

/// `_record_sequence_holder(seq, for_group, attempt, floor)`. Records that group, and that its ids
/// begin at the value `floor` or above. Returns false if the copy is no longer closed for this
/// attempt. `next_id` on another node calls it after `_close_sequence`.
#[pg_extern(sql = false)]
fn record_sequence_holder(
    seq: Option<Regclass>,
    for_group: Option<i32>,
    attempt: Option<i32>,
    floor: Option<i64>,
) -> Result<bool, ErrorReport> {
    let (sequence, holder, attempt) = arguments_of_step(seq, for_group, attempt)?;
    let floor = not_null(floor, "floor")?;
    // A greater one would use up all ids.
    if !(0..=hlc::VALUE_MAX + 1).contains(&floor) {
        return Err(Error::FloorOutOfRange(floor).into());
    }
    Ok(takeover::record_holder(sequence, holder, attempt, floor)?)
}

fn arguments_of_step(
    seq: Option<Regclass>,
    for_group: Option<i32>,
    attempt: Option<i32>,
) -> Result<(Oid, LastHolder, Attempt), Error> {
    let Regclass(sequence) = not_null(seq, "sequence")?;
    let group = not_null(for_group, "for_group")?;
    // If a group without a node were recorded as the holder, no node could open the sequence any
    // more.
    let holder = LastHolder::node(group)
        .filter(|_| !catalog::has_citus() || placement::node_of(group).is_some())
        .ok_or_else(|| Error::GroupUnknown(group))?;
    let number = not_null(attempt, "attempt")?;
    let attempt = Attempt::new(number).ok_or_else(|| Error::AttemptOutOfRange(number))?;
    Ok((sequence, holder, attempt))
}
