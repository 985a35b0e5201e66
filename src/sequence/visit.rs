//! Visits to the page of a sequence: lock, check, act, flush. A function that could not act returns
//! a [`Refusal`]. Its caller resolves the refusal if possible, and visits again.

use crate::pg::catalog;
use crate::pg::invalidation::{self, InvalidationCount};
use crate::pg::raw::{Raw, guarded};
use crate::pg::roles;
use crate::pg::transaction;
use crate::sequence::cache::{self, CachedSequence, Permit, SequenceInfo};
use crate::sequence::check::{check, lock_for_transaction};
use crate::sequence::page::{self, Outcome, SequencePage};
use crate::sequence::refusal::Refusal;
use crate::sequence::{CopyPolicy, IdSequence};
use instagram_id_core::copy::{Attempt, CopyState, LastHolder};
use instagram_id_core::hlc::Wait;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{Oid, XLogRecPtr};

/// One visit to take values.
#[derive(Clone, Copy)]
pub struct Take {
    pub sequence: IdSequence,
    pub found: Found,
    pub policy: CopyPolicy,
    /// The maximum number of values, 1 or more.
    pub want: i64,
    pub waited_on: Option<Wait>,
}

/// How the sequence of a visit was found. It determines what the visit checks once the sequence is
/// locked.
#[derive(Clone, Copy)]
pub enum Found {
    /// The caller passed it. The role needs a permit to use it for this shard.
    Given(Shard),
    /// The caller passed it, and the permit for the shard was looked up under the lock. It holds
    /// for the next visit, even if another invalidation has arrived since.
    Permitted(Permit),
    /// It was looked up, as that of the shard, at this invalidation count. If the count has
    /// changed, the look-up must be repeated.
    LookedUp(InvalidationCount),
    /// The previous visit could not confirm it, and the look-up of the sequence was repeated under
    /// the lock. That holds for the next visit, too.
    Confirmed,
}

/// Takes values from the sequence's page, if the clock allows.
#[inline(always)]
pub fn take(take: &Take) -> Result<Outcome, Refusal> {
    // Written in place: a result returned through the guard would be copied on the way, which costs
    // 5 % of a call.
    let mut visited = Err(Refusal::Missing);
    cache::with(take.sequence.oid, |cached| {
        // SAFETY: `take_guarded` keeps the guard's rules: it does not panic and owns nothing with a
        // destructor.
        unsafe { guarded(|raw| visited = take_guarded(raw, take, cached)) }
    });
    visited
}

#[inline(always)]
unsafe fn take_guarded(
    raw: Raw,
    take: &Take,
    cached: &mut CachedSequence,
) -> Result<Outcome, Refusal> {
    let IdSequence { oid: sequence, epoch } = take.sequence;
    // SAFETY: the requirements of each raw call are those of its PostgreSQL counterpart, and are
    // met as at the same place of nextval_internal.
    unsafe {
        lock_for_transaction(raw, sequence, cached);
        let count = invalidation::count();
        if matches!(take.found, Found::LookedUp(then) if then != count) {
            return Ok(Outcome::LookAgain);
        }
        let info = check(raw, sequence, take.policy, cached)?;
        let must_be_clock = match take.found {
            Found::Given(shard) if !cached.permit.allows(shard, epoch) => {
                return Err(Refusal::NotPermitted);
            }
            Found::Given(_) => matches!(cached.permit, Permit::OfSequence(_)),
            Found::Permitted(permit) => matches!(permit, Permit::OfSequence(_)),
            Found::LookedUp(_) | Found::Confirmed => false,
        };
        // The clock is read before the page is locked, which keeps the lock short. A session that
        // waited for the page still uses its arrival millisecond if there is room.
        let arrived_us = page::elapsed_us(raw, epoch);
        let page = SequencePage::lock(raw, sequence, &info, cached)?;
        let refusal = if must_be_clock { page.refusal_without_update(take.policy) } else { None };
        let outcome = match refusal {
            None => page.take(epoch, take.policy, arrived_us, take.want, take.waited_on, cached),
            Some(refusal) => Err(refusal),
        };
        let lsn = page.unlock();
        if let Ok(Outcome::Taken { .. }) = outcome {
            make_durable(raw, &info, lsn, cached);
        }
        evict_lookup(raw, sequence, cached);
        outcome
    }
}

/// One visit for another action than taking values. With `needs_update` it requires UPDATE on the
/// sequence.
fn act_on_page<T: Copy>(
    sequence: Oid,
    policy: CopyPolicy,
    needs_update: bool,
    act: impl Fn(&SequencePage<'_>, &mut CachedSequence) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let visit = |raw: Raw, cached: &mut CachedSequence| {
        // SAFETY: as for `take_guarded`.
        unsafe {
            lock_for_transaction(raw, sequence, cached);
            let info = check(raw, sequence, policy, cached).map_err(|refusal| match refusal {
                Refusal::NoRight { .. } if needs_update => Refusal::NoRight { update: true },
                other => other,
            })?;
            if needs_update && !raw.may(sequence, raw.GetUserId(), roles::TO_SET) {
                return Err(Refusal::NoRight { update: true });
            }
            let page = SequencePage::lock(raw, sequence, &info, cached)?;
            let result = act(&page, cached);
            let lsn = page.unlock();
            make_durable(raw, &info, lsn, cached);
            evict_lookup(raw, sequence, cached);
            result
        }
    };
    // SAFETY: `visit` and `act` do not panic and own nothing with a destructor.
    cache::with(sequence, |cached| unsafe { guarded(|raw| visit(raw, cached)) })
}

/// Makes the next value of a sequence greater than `value` (0 to `VALUE_MAX`), and returns the last
/// value after that. Like `setval` it requires UPDATE, and is not rolled back. Unlike `setval` it
/// never moves the sequence back, logs WAL ahead of the clock as [`take`] does, and ignores
/// MINVALUE.
pub fn advance(sequence: IdSequence, value: i64) -> Result<i64, Refusal> {
    act_on_page(sequence.oid, CopyPolicy::SchemaNodeWithFloor, true, |page, cached| {
        page.advance_to(sequence.epoch, value, cached)
    })
}

/// Begins to open a closed copy. After this, [`raise_floor`] and [`open`] notice if another node
/// has closed it again. Returns the state of the copy, or `None` if it is open already.
pub fn begin_opening(
    sequence: IdSequence,
    policy: CopyPolicy,
    attempt: Attempt,
) -> Result<Option<CopyState>, Refusal> {
    act_on_page(sequence.oid, policy, false, |page, cached| {
        let before = page.data();
        Ok(before.begin_opening(page.is_copy(), attempt).map(|opening| {
            page.write(opening, cached);
            before.copy_state()
        }))
    })
}

/// Records in a copy that is being opened that the other copies have issued values below `floor`,
/// and flushes this; with `taker` also that node as the last holder. Returns false if another node
/// has closed the copy since [`begin_opening`].
pub fn raise_floor(
    sequence: IdSequence,
    policy: CopyPolicy,
    taker: Option<LastHolder>,
    attempt: Attempt,
    floor: i64,
) -> Result<bool, Refusal> {
    act_on_page(sequence.oid, policy, false, |page, cached| {
        Ok(page.write_and_flush(page.data().raise_floor(taker, attempt, floor), cached))
    })
}

/// Opens a copy, for values greater than the one that it records. Returns false if another node has
/// closed it since [`begin_opening`].
pub fn open(sequence: IdSequence, policy: CopyPolicy, attempt: Attempt) -> Result<bool, Refusal> {
    act_on_page(sequence.oid, policy, false, |page, cached| {
        let before = page.data();
        let opened = before.open(attempt);
        if let Some(last_value) = opened {
            page.step_at_once(sequence.epoch, before.last_value, last_value, cached);
        }
        Ok(opened.is_some())
    })
}

/// Marks an attempt of this node to open a copy as failed, because the node of that group cannot be
/// reached. Does nothing if another node has closed the copy in the meantime.
pub fn give_up(sequence: Oid, unreached: i32) -> Result<(), Refusal> {
    act_on_page(sequence, CopyPolicy::Close, false, |page, cached| {
        if let Some(failed) = page.data().give_up(unreached) {
            page.write(failed, cached);
        }
        Ok(())
    })
}

/// Closes a copy because another node attempts to open its own, flushes this, and returns the state
/// of the copy. The recorded last holder stays the same until [`record_holder`]. Requires UPDATE on
/// the sequence.
pub fn close(sequence: Oid, attempt: Attempt) -> Result<CopyState, Refusal> {
    act_on_page(sequence, CopyPolicy::Close, true, |page, cached| {
        let before = page.data();
        page.write_and_flush(Some(before.close(attempt)), cached);
        Ok(before.copy_state())
    })
}

/// Records the node that takes the sequence over, and the value above which it begins, and flushes
/// this. Returns false, and changes nothing, if the copy is no longer closed for that attempt.
/// Requires UPDATE on the sequence.
pub fn record_holder(
    sequence: Oid,
    holder: LastHolder,
    attempt: Attempt,
    floor: i64,
) -> Result<bool, Refusal> {
    act_on_page(sequence, CopyPolicy::Close, true, |page, cached| {
        Ok(page.write_and_flush(page.data().record_holder(holder, attempt, floor), cached))
    })
}

/// Checks that ids can be generated from a sequence, and locks it to the end of the transaction.
pub fn examine(sequence: Oid) -> Result<(), Refusal> {
    cache::with(sequence, |cached| {
        // SAFETY: as for `take_guarded`.
        unsafe {
            guarded(|raw| {
                lock_for_transaction(raw, sequence, cached);
                check(raw, sequence, CopyPolicy::Any, cached).map(|_| ())
            })
        }
    })
}

/// Locks a sequence against being dropped or altered, to the end of the transaction; returns
/// whether it still exists.
pub fn lock(sequence: Oid) -> bool {
    // SAFETY: as for `take_guarded`.
    cache::with(sequence, |cached| unsafe {
        guarded(|raw| lock_for_transaction(raw, sequence, cached))
    });
    catalog::relation(sequence).is_some()
}

/// Ensures that the WAL record that covers the values just taken is durable when this transaction
/// has committed: on disk, and with synchronous replication on the standbys, as
/// `synchronous_commit` requires. It holds no lock on the page. See [`instagram_id_core::durable`].
#[inline(always)]
unsafe fn make_durable(
    raw: Raw,
    info: &SequenceInfo,
    lsn: XLogRecPtr,
    cached: &mut CachedSequence,
) {
    // SAFETY: as for `take_guarded`; the position is that of a record on a page with WAL.
    unsafe {
        // In nearly every call the record is already as durable as any commit could require.
        if info.needs_wal
            && !transaction::covers(cached.flushed, lsn, transaction::highest_commit_level())
        {
            cached.flushed = transaction::use_record(raw, cached.flushed, lsn);
        }
    }
}

/// If the look-up of this sequence has added entries to PostgreSQL's caches, evicts them.
#[inline(always)]
unsafe fn evict_lookup(raw: Raw, sequence: Oid, cached: &mut CachedSequence) {
    // SAFETY: as for `take_guarded`.
    unsafe {
        if cached.has_filled_caches && cached.checked.is_some_and(|(_, info)| !info.is_local_temp) {
            catalog::forget_sequence(raw, sequence);
        }
        cached.has_filled_caches = false;
    }
}
