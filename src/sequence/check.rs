//! Whether a sequence may be used now, here, by this role.

use crate::error::{Error, Unfit};
use crate::pg::catalog;
use crate::pg::invalidation::{self, Cached};
use crate::pg::names;
use crate::pg::raw::Raw;
use crate::pg::roles;
use crate::pg::sys::{self, NoLock, RowExclusiveLock};
use crate::sequence::cache::{CachedSequence, Permit, Placement, SequenceInfo, Validity};
use crate::sequence::read;
use crate::sequence::refusal::{Refusal, ends_at};
use crate::sequence::{CopyPolicy, IdSequence};
use instagram_id_core::copy::{self, RANGE_BITS, first_of_range};
use instagram_id_core::hlc::{self, FIRST_DAY_MS, Next, State, VALUE_MAX};
use pgrx::pg_sys::{self, Oid};

/// Locks the sequence, once per transaction, so that it cannot be dropped or altered.
///
/// # Safety
///
/// Must be called in a transaction.
pub unsafe fn lock_for_transaction(raw: Raw, sequence: Oid, cached: &mut CachedSequence) {
    // SAFETY: promised by the caller.
    unsafe {
        let transaction = sys::local_transaction_id();
        if cached.locked_in != transaction {
            raw.LockRelationForTransaction(sequence, RowExclusiveLock);
            cached.locked_in = transaction;
        }
    }
}

/// Whether the sequence may be written now, on this node, by this role.
///
/// # Safety
///
/// The sequence must be locked.
#[inline(always)]
pub unsafe fn check(
    raw: Raw,
    sequence: Oid,
    policy: CopyPolicy,
    cached: &mut CachedSequence,
) -> Result<SequenceInfo, Refusal> {
    // SAFETY: promised by the caller.
    unsafe {
        let info = look_up(raw, sequence, cached)?;
        if pg_sys::XactReadOnly && !info.is_local_temp {
            return Err(Refusal::ReadOnly);
        }
        if raw.IsInParallelMode() {
            return Err(Refusal::Parallel);
        }
        // The owner of the schema must be able to close such a copy, because it closes all others.
        if let Some(group) = info.copy_of_another_group
            && policy != CopyPolicy::Close
        {
            return Err(Refusal::CopyOfAnotherGroup(group));
        }
        if info.placement.is_elsewhere() && policy.needs_placement() {
            return Err(Refusal::NotPlacedHere);
        }
        if info.placement.is_of_schema() && policy == CopyPolicy::EveryNode {
            return Err(Refusal::ServesShard);
        }
        Ok(info)
    }
}

/// Whether ids can be generated from this sequence by this role. The result is cached until an
/// invalidation.
#[inline(always)]
unsafe fn look_up(
    raw: Raw,
    sequence: Oid,
    cached: &mut CachedSequence,
) -> Result<SequenceInfo, Refusal> {
    // SAFETY: as for `check`.
    unsafe {
        let role = raw.GetUserId();
        match valid_now(role, cached) {
            Some(info) => Ok(info),
            None => {
                invalidation::settle(raw);
                valid_now(role, cached)
                    .map_or_else(|| look_up_anew(raw, sequence, role, cached), Ok)
            }
        }
    }
}

/// The cached result, if it is still valid for this role.
#[inline(always)]
fn valid_now(role: Oid, cached: &CachedSequence) -> Option<SequenceInfo> {
    let now = Validity { count: invalidation::count(), role };
    cached.checked.and_then(|(valid, info)| (valid == now).then_some(info))
}

#[cold]
unsafe fn look_up_anew(
    raw: Raw,
    sequence: Oid,
    role: Oid,
    cached: &mut CachedSequence,
) -> Result<SequenceInfo, Refusal> {
    // SAFETY: as for `check`.
    unsafe {
        let now = Validity { count: invalidation::count(), role };
        cached.has_filled_caches = true;
        let mut info = describe(raw, sequence)?;
        if !raw.may(sequence, role, roles::TO_GENERATE) {
            return Err(Refusal::NoRight { update: false });
        }
        let permit = if info.is_local_temp || raw.may(sequence, role, roles::TO_SET) {
            Permit::Any
        } else {
            cached.permit_without_update.and_then(Cached::get).unwrap_or(Permit::Unknown)
        };
        let Some(options) = raw.pg_sequence_row(sequence) else {
            return Err(Refusal::Missing);
        };
        // On a worker, Citus gives a copy a MINVALUE and a MAXVALUE of the node, which ids ignore.
        let mut has_range_of_node = false;
        // Only a cluster has copies.
        if !info.is_local_temp && raw.has_citus() {
            let Some(placement) = cached.placement.and_then(Cached::get) else {
                // The look-up is a query, which parallel mode does not allow.
                let in_parallel = raw.IsInParallelMode();
                return Err(if in_parallel {
                    Refusal::Parallel
                } else {
                    Refusal::PlacementUnknown
                });
            };
            info.placement = placement;
            let range = group_of_range(options.seqmin, options.seqmax);
            has_range_of_node = range.is_some();
            // Without Citus's metadata it is not known to be a copy, as after
            // stop_metadata_sync_to_node(): the catalogs are empty then.
            info.copy_of_another_group = match placement {
                Placement::Copy { group, .. } => range.filter(|of| *of != group),
                Placement::Local => range,
            };
        }
        let unfit = unfit(&options, has_range_of_node);
        if unfit != Unfit::default() {
            return Err(Refusal::Unfit(unfit));
        }
        info.min_value = if has_range_of_node { 0 } else { options.seqmin };
        cached.checked = Some((now, info));
        cached.permit = permit;
        Ok(info)
    }
}

/// The part that the relation itself shows; the rest has the values of a sequence without copies.
unsafe fn describe(raw: Raw, sequence: Oid) -> Result<SequenceInfo, Refusal> {
    // SAFETY: as for `check`; an open relation has its pg_class row.
    unsafe {
        let relation = raw.try_relation_open(sequence, NoLock);
        if relation.is_null() {
            return Err(Refusal::Missing);
        }
        let is_sequence = (*(*relation).rd_rel).relkind as u8 == pg_sys::RELKIND_SEQUENCE;
        let info = SequenceInfo {
            locator: sys::rd_locator(relation),
            min_value: 0,
            needs_wal: sys::RelationNeedsWAL(relation),
            is_local_temp: (*relation).rd_islocaltemp,
            placement: Placement::Local,
            copy_of_another_group: None,
        };
        raw.relation_close(relation, NoLock);
        if is_sequence { Ok(info) } else { Err(Refusal::NotSequence) }
    }
}

/// The reason why ids cannot be generated from a sequence, judged only by its options and the state
/// of its page; `None` if they can. This role may be unable to read the state.
pub fn inspect(sequence: IdSequence, state: Option<State>) -> Option<Refusal> {
    let options = catalog::sequence_options(sequence.oid)?;
    let has_range_of_node = group_of_range(options.seqmin, options.seqmax).is_some();
    let unfit = unfit(&options, has_range_of_node);
    if unfit != Unfit::default() {
        return Some(Refusal::Unfit(unfit));
    }
    let state = state?;
    // A closed copy is no obstacle: the next id opens it.
    if copy::is_closed(state.last_value) || has_range_of_node {
        return None;
    }
    let now_ms = names::now_ms(sequence.epoch);
    match hlc::next(state, now_ms, 1, None) {
        Next::Take(run) if run.first < options.seqmin => {
            Some(Refusal::Unfit(Unfit { min: Some(options.seqmin), ..Unfit::default() }))
        }
        Next::Exhausted => Some(Refusal::Exhausted { last_value: state.last_value }),
        Next::ClockBeforeEpoch => Some(Refusal::ClockBeforeEpoch(sequence.epoch)),
        Next::ClockPastField => Some(Refusal::ClockPastField(sequence.epoch)),
        Next::Take(_) | Next::Wait { .. } => None,
    }
}

/// The group of the node that a sequence's copy was made for, by its range of values, if that is
/// not this node's own group. `None` for a sequence of the coordinator.
pub fn made_for_another(sequence: Oid, own_group: i32) -> Option<i32> {
    let options = catalog::sequence_options(sequence)?;
    group_of_range(options.seqmin, options.seqmax).filter(|group| *group != own_group)
}

/// With this increment `nextval()` fails, from the first call on that follows another. An adopted
/// sequence has it, so that no session generates ids by the original any more. It has no meaning
/// for the clock.
pub const CLOSED_TO_NEXTVAL: i64 = i64::MAX;

/// Whether `nextval()` fails on a sequence.
pub fn is_closed_to_nextval(sequence: Oid) -> bool {
    catalog::sequence_options(sequence)
        .is_some_and(|options| options.seqincrement == CLOSED_TO_NEXTVAL)
}

/// The options that prevent a sequence from following the clock. MINVALUE is checked with each
/// value instead, because the clock moves.
fn unfit(options: &sys::FormData_pg_sequence, has_range_of_node: bool) -> Unfit {
    Unfit {
        not_bigint: options.seqtypid != pg_sys::INT8OID,
        increment: Some(options.seqincrement).filter(|it| ![1, CLOSED_TO_NEXTVAL].contains(it)),
        max: (options.seqmax < VALUE_MAX && !has_range_of_node).then_some(options.seqmax),
        min: None,
        cycle: options.seqcycle != 0,
    }
}

/// The group of the node to which Citus gives this range of a sequence's values.
pub fn group_of_range(min: i64, max: i64) -> Option<i32> {
    let group = min >> RANGE_BITS;
    let is_range = group > 0 && min == first_of_range(group) && max == first_of_range(group + 1);
    is_range.then_some(group as i32)
}

/// Checks that no move has closed the sequence of a shard, even if its value was set back since.
pub fn check_not_closed(sequence: Oid) -> Result<(), Error> {
    check_end(sequence, |max| hlc::ms_of(max) >= FIRST_DAY_MS || ends(sequence, max))
}

/// Checks that no move has closed a sequence that may be a plain counter, with any MAXVALUE.
pub fn check_not_ended(sequence: Oid) -> Result<(), Error> {
    check_end(sequence, |max| ends(sequence, max))
}

fn check_end(sequence: Oid, is_closed: impl Fn(i64) -> bool) -> Result<(), Error> {
    let Some(options) = catalog::sequence_options(sequence) else { return Ok(()) };
    let max = options.seqmax;
    let may_end = options.seqcycle == 0
        && options.seqincrement > 0
        && group_of_range(options.seqmin, max).is_none();
    if may_end && max < VALUE_MAX && is_closed(max) {
        return Err(Error::ClosedByMove { name: names::relation(sequence), max });
    }
    Ok(())
}

fn ends(sequence: Oid, max: i64) -> bool {
    read::state(sequence).is_some_and(|state| ends_at(max, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_nodes_are_recognized() {
        assert_eq!(group_of_range((1 << 48) + 1, (2 << 48) + 1), Some(1));
        assert_eq!(group_of_range((7 << 48) + 1, (8 << 48) + 1), Some(7));
        assert_eq!(group_of_range(1, i64::MAX), None);
        assert_eq!(group_of_range(1, (1 << 48) + 1), None); // a sequence of the user's own
        assert_eq!(group_of_range((1 << 48) + 1, i64::MAX), None);
        assert_eq!(group_of_range((1 << 48) + 2, (2 << 48) + 2), None);
        assert_eq!(group_of_range(i64::MIN, i64::MAX), None);
    }
}
