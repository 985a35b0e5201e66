//! The loop that generates ids: find the sequence, visit its page, wait for the clock, resolve a
//! refusal.

use crate::citus::takeover;
use crate::error::Error;
use crate::pg::invalidation;
use crate::pg::names;
use crate::pg::wait_event::{self, WaitEvent};
use crate::sequence::cache::{self, Permit};
use crate::sequence::page::Outcome;
use crate::sequence::placement;
use crate::sequence::refusal::Refusal;
use crate::sequence::visit::{self, Found, Take};
use crate::sequence::{CopyPolicy, IdSequence};
use crate::shard::definition;
use crate::shard::lookup;
use instagram_id_core::epoch::{Epoch, US_PER_MS};
use instagram_id_core::hlc::{self, Run, WARN_AHEAD_MS, Wait};
use instagram_id_core::layout::{self, Shard};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// Whether this session was warned that a sequence is ahead of the clock.
    static HAS_WARNED: Cell<bool> = const { Cell::new(false) };
}

/// The values to take, and the sequence to take them from.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The shard whose ids they become.
    pub shard: Shard,
    pub source: Source<'a>,
    /// The maximum number of values, 1 or more.
    pub want: i64,
}

/// Where values come from.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// The sequence that belongs to the shard when the sequence is locked.
    OfShard,
    /// The one that this function returns when the sequence is locked. Its callers need no further
    /// permit.
    Found(&'a dyn Fn() -> Result<Origin, Error>),
    Given(Origin),
}

/// A sequence, and the copy of it from which ids are generated.
#[derive(Clone, Copy)]
pub struct Origin {
    pub sequence: IdSequence,
    pub policy: CopyPolicy,
}

/// The next id of a shard.
///
/// Temporary: the transaction is read-only, a parallel operation is under way, a wait is canceled,
/// or the clock is before the epoch and the sequence was never used.
#[inline]
pub fn next_id(shard: Shard, source: Source) -> Result<i64, Error> {
    let run = take(Request { shard, source, want: 1 })?;
    Ok(layout::id_of(run.first, shard))
}

/// Takes the next values of a sequence, and waits for the clock if necessary.
///
/// Between two visits the session holds only the lock on the sequence. As with `nextval`, that lock
/// lasts until the transaction ends and does not block other callers.
pub fn take(request: Request) -> Result<Run, Error> {
    let Request { shard, source, want } = request;
    let (mut origin, mut found) = find(shard, source)?;
    let mut waited_on = None;
    loop {
        let Origin { sequence, policy } = origin;
        match visit::take(&Take { sequence, found, policy, want, waited_on }) {
            Ok(Outcome::Taken { run, ahead_ms }) => {
                if ahead_ms > WARN_AHEAD_MS {
                    warn_once(sequence, run);
                }
                return Ok(run);
            }
            Ok(Outcome::LookAgain) => {
                (origin, found) = find(shard, source)?;
                if origin.sequence == sequence {
                    found = Found::Confirmed;
                }
                continue;
            }
            Err(Refusal::NotPermitted) => {
                found = Found::Permitted(look_up_permit(sequence, shard)?);
                continue;
            }
            Ok(Outcome::Wait(wait)) => {
                wait_for_ticks(wait, sequence.epoch);
                waited_on = Some(wait);
            }
            Err(refusal) => resolve(refusal, sequence, policy, i64::MIN)?,
        }
        // The catalogs may have changed in the meantime.
        (origin, found) = find(shard, source)?;
    }
}

/// The sequence to take values from, and what a visit must check.
#[inline(always)]
fn find(shard: Shard, source: Source) -> Result<(Origin, Found), Error> {
    let count = invalidation::count();
    match source {
        Source::Given(origin) => Ok((origin, Found::Given(shard))),
        Source::OfShard => {
            let sequence = lookup::sequence_of(shard)?;
            Ok((Origin { sequence, policy: CopyPolicy::SchemaNode }, Found::LookedUp(count)))
        }
        Source::Found(find) => Ok((find()?, Found::LookedUp(count))),
    }
}

/// Makes the next value of a sequence greater than `value`; see [`visit::advance`]. If the copy is
/// closed, it is opened above `value`.
pub fn advance(sequence: IdSequence, value: i64) -> Result<i64, Error> {
    loop {
        match visit::advance(sequence, value) {
            Ok(last_value) => return Ok(last_value),
            Err(refusal) => resolve(refusal, sequence, CopyPolicy::SchemaNodeWithFloor, value)?,
        }
    }
}

/// Resolves a refusal, so that the visit can be repeated. A copy that is opened for this continues
/// above `floor`.
#[cold]
fn resolve(
    refusal: Refusal,
    sequence: IdSequence,
    policy: CopyPolicy,
    floor: i64,
) -> Result<(), Error> {
    match refusal {
        Refusal::Closed => takeover::take_over(sequence, policy, floor),
        refusal => placement::resolve(refusal, sequence.oid),
    }
}

/// Looks up whether a role that has only USAGE on a sequence may generate ids of this shard and
/// epoch from it.
///
/// With another epoch a role could move the sequence years ahead of the clock, up to the end of its
/// ids. So a sequence that serves a shard of its schema may be used only for that shard with its
/// epoch. Another sequence in the schema of a shard may be used only with the epoch of that shard.
/// And a sequence in the schema of no shard may be the counter of a serial column.
#[cold]
fn look_up_permit(sequence: IdSequence, shard: Shard) -> Result<Permit, Error> {
    let count = invalidation::settled_count();
    let permit = if definition::serves_in_its_schema(sequence, shard) {
        Permit::Only(shard, sequence.epoch)
    } else {
        look_up_permit_beside_shards(sequence, shard)?
    };
    cache::set_permit(sequence.oid, count, permit);
    Ok(permit)
}

/// The same for a sequence that does not serve the shard in its own schema. The definitions of
/// other schemas are read only if they could permit more, because many roles can create these.
fn look_up_permit_beside_shards(sequence: IdSequence, shard: Shard) -> Result<Permit, Error> {
    let defined = definition::in_schema_of(sequence.oid);
    let served = defined.iter().find(|of| of.sequence.oid == sequence.oid);
    let Some(of) = served.or(defined.first()) else { return Ok(Permit::OfSequence(None)) };
    if served.is_none() && defined.iter().any(|of| of.sequence.epoch == sequence.epoch) {
        return Ok(Permit::OfSequence(Some(sequence.epoch)));
    }
    if definition::serves_anywhere(sequence, shard) {
        return Ok(Permit::Only(shard, sequence.epoch));
    }
    Err(Error::SequenceServesAnother {
        name: names::relation(sequence.oid),
        shard: of.shard.number(),
        serves: served.is_some(),
        epoch: names::time(of.sequence.epoch.at()),
        role: names::current_role(),
    })
}

/// Waits until the clock has ticked `ticks` times, for at most that many milliseconds.
fn wait_for_ticks(wait: Wait, epoch: Epoch) {
    let left_us = wait.left_us(epoch.elapsed_us(names::now()));
    wait_event::pause(WaitEvent::ClockTick, Duration::from_micros(left_us as u64));
}

/// Warns if the next ids of a shard will carry future timestamps.
pub fn warn_if_ahead(shard: Shard, epoch: Epoch, last_value: i64) {
    let ahead_us = epoch.at() + hlc::ms_of(last_value) * US_PER_MS - names::now();
    if ahead_us > WARN_AHEAD_MS * US_PER_MS {
        let (shard, ahead) = (shard.number(), names::duration(ahead_us / 1_000_000));
        Error::ShardIsAhead { shard, ahead }.warn();
    }
}

/// Warns that ids carry future timestamps, once per session.
#[cold]
fn warn_once(sequence: IdSequence, run: Run) {
    // Uses the current clock, because the session may have waited for the page long after its
    // arrival.
    let now_ms = names::now_ms(sequence.epoch);
    let ahead_ms = hlc::ms_of(run.first) - now_ms;
    if ahead_ms <= WARN_AHEAD_MS || HAS_WARNED.replace(true) {
        return;
    }
    let (name, ahead) = (names::relation(sequence.oid), names::duration(ahead_ms / 1000));
    Error::SequenceIsAhead { name, ahead }.warn();
}
