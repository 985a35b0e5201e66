//! How a node of a Citus cluster takes a sequence over from the others.
//!
//! Citus gives every node a copy of a sequence. Each copy has a state of its own, which Citus
//! transfers neither when the schema is distributed nor when it moves. So one of the copies is
//! *open*, and the others are *closed*. Only the node that owns the schema opens its copy, in these
//! steps ([`take_over`]):
//!
//! 1. It marks its copy as about to be opened, with the number of this attempt.
//! 2. It asks every other node whether the sequence exists there, and functions of this version are
//!    installed. If a node does not answer, the attempt fails before any copy has been closed.
//! 3. It makes every other node close its copy, and report how far that copy has advanced and
//!    which node took it over last (`_close_sequence`). If that last holder is not among the nodes
//!    that have reported, for example because it was removed from the cluster, or if its copy was
//!    replaced by a new one, ids might be repeated. Then the attempt fails: no copy is opened,
//!    and the closed copies are otherwise unchanged.
//! 4. It records in its own copy how far all copies have advanced.
//! 5. It records itself as the last holder on every other node (`_record_sequence_holder`).
//! 6. If its mark is still there, it opens its copy above all of these values.
//!
//! No id is repeated, because the recorded last holder is either reached, and its own copy shows
//! how far the ids have advanced, or the attempt fails. An attempt that fails leaves the recorded
//! holders as they are. If a holder is replaced (step 5), its value is already recorded in the copy
//! of the node that replaces it (step 4).
//!
//! Closing a copy removes its mark. So if two nodes attempt this at the same time, the node that
//! marks its copy first notices the other one: that either removes its mark, or closes the copy
//! that it has opened and continues above it. A holder is recorded only while the copy is still
//! closed for the same attempt.
//!
//! The placement that a session has cached decides only whether it makes an attempt. The page
//! itself shows whether a copy is open. So a session that has not received a move yet finds its
//! copy closed, or generates ids above which the new holder then continues.
//!
//! All of this ends at a deadline. Other sessions of the node wait meanwhile. If a node cannot be
//! reached, the session records that in its own copy, and the sessions that have waited fail with
//! it, instead of asking the same node one after another. The deadline itself only raises an error:
//! with a subtransaction, Citus would leave locks behind if the session ended meanwhile.
//!
//! With the setting `instagram_id.continue_without_lost_nodes`, steps 2 to 5 leave out nodes that
//! do not accept a connection, except for the coordinator and the last holder. The coordinator
//! records each holder before it opens its copy, and whichever node begins another attempt closes
//! the copy of the coordinator, so at most one attempt records its node there. If the last holder
//! was removed from the cluster, and this node owns the schema by the coordinator's catalogs, it
//! continues above everything that is known ([`floor_without_holder`]). A removed node does not
//! return with its open copy: it gets another group, for which the copy was not made. A holder that
//! is only unreachable or disabled could return, and continue from its copy once the schema has
//! moved back to it.
//!
//! Several sequences can be taken over together. Each goes through the steps above, and each
//! command to another node is about all of them.

use crate::citus::copies::{Opening, OtherCopies, Report};
use crate::error::Error;
use crate::pg::catalog;
use crate::pg::deadline::{Deadline, TimedOut};
use crate::pg::guc;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::sys;
use crate::pg::wait_event::{self, WaitEvent};
use crate::sequence::placement::{self, COORDINATOR, Node, SequencePlacement, retry};
use crate::sequence::{CopyPolicy, IdSequence, read, visit};
use crate::shard::columns;
use instagram_id_core::copy::{
    Attempt, CopyState, HolderProblem, LastHolder, Stage, check_last_holders, floor_above,
    floor_without_holder, unreported_holders,
};
use pgrx::pg_sys::Oid;
use std::time::{Duration, Instant};

/// The maximum of the random pause before an attempt is repeated because another node has
/// interfered. It doubles each time up to the second value, so that it soon exceeds the time that
/// an attempt needs, and one of the nodes completes an attempt while the other one pauses.
const PAUSE_MAX_MS: (i32, i32) = (32, 1024);

/// How often a session looks whether another one of its node has taken the sequence over.
const POLL: Duration = Duration::from_millis(10);

/// A session that has waited this long for another one fails with it. Earlier it makes an attempt
/// of its own: the other one may have asked as a role that cannot connect.
const SHARES_AFTER: Duration = Duration::from_secs(1);

/// A sequence to take over, and the value at which it continues or above.
pub type Wanted = (IdSequence, i64);

/// The sequences that an attempt has not opened.
#[derive(Default)]
pub struct NotOpened {
    /// Another node has overtaken the attempt.
    pub overtaken: Vec<IdSequence>,
    /// The last holder is not known or no longer in use.
    pub refused: Vec<(IdSequence, Error)>,
    /// Warnings about others, to be reported after the attempt.
    warnings: Vec<Error>,
}

/// Opens this node's copy of a sequence in the steps above, if it is not open already.
pub fn take_over(sequence: IdSequence, policy: CopyPolicy, floor: i64) -> Result<(), Error> {
    let wanted = [(sequence, floor)];
    let attempts = |deadline| {
        let (mut pause_max_ms, limit) = PAUSE_MAX_MS;
        loop {
            let mut left = attempt_to_open(&wanted, policy, deadline)?;
            if let Some((_, error)) = left.refused.pop() {
                return Err(error);
            }
            if left.overtaken.is_empty() {
                return Ok(left);
            }
            let pause_ms = sys::random_i32().rem_euclid(pause_max_ms);
            wait_event::pause(WaitEvent::TakeOver, Duration::from_millis(pause_ms as u64));
            pause_max_ms = limit.min(2 * pause_max_ms);
        }
    };
    let in_time = |deadline: Deadline| {
        let error = timed_out_with_nodes(&wanted);
        deadline.limit_or_raise(WaitEvent::TakeOver, error, || attempts(deadline))
    };
    in_turn(&wanted, Duration::MAX, in_time).map(|_| ())
}

/// Makes one attempt to take several sequences over together, in a subtransaction. The caller has
/// locked them. It waits for other sessions of this node for `patience` at most. The other nodes
/// are asked as one role; see [`copies::role_to_ask_as`](super::copies::role_to_ask_as). An error
/// may name another of the sequences. All of them may be closed on every node then, and a later
/// attempt continues from there.
pub fn attempt_to_take_over(
    wanted: &[Wanted],
    policy: CopyPolicy,
    patience: Duration,
) -> Result<NotOpened, Error> {
    let in_time = |deadline: Deadline| {
        let attempt = || attempt_to_open(wanted, policy, deadline);
        let result = deadline.limit(WaitEvent::TakeOver, attempt);
        result.unwrap_or_else(|TimedOut| Err(timed_out_with_nodes(wanted)))
    };
    in_turn(wanted, patience, in_time)
}

/// Whether an error concerns a node, and not the sequence: other attempts would fail in the same
/// way.
pub fn is_of_a_node(error: &Error) -> bool {
    match error {
        Error::NodeNotReached { .. } => true,
        Error::TakeOverTimedOut { nodes, .. } => !nodes.is_empty(),
        _ => false,
    }
}

/// Whether an error is that the last holder is lost, so that only what is known tells where the ids
/// continue.
pub fn is_recoverable(error: &Error) -> bool {
    use Error::{LastHolderLost, LastHolderReplaced, LastHolderUnknown};
    matches!(error, LastHolderLost { .. } | LastHolderReplaced { .. } | LastHolderUnknown { .. })
}

/// Whether an error is that of a wait for another session, of this node or of one that was asked.
/// Each role that may generate ids from the sequence, or owns it, can cause it.
pub fn is_of_another_session(error: &Error) -> bool {
    match error {
        Error::TakeOverFailed { .. } | Error::NotHandedOver { .. } => true,
        Error::TakeOverTimedOut { nodes, .. } => nodes.is_empty(),
        _ => false,
    }
}

/// Runs `attempt` while no other session of this node makes one for these sequences, because two
/// would remove each other's marks. The deadline covers the wait for the other session and the
/// attempt. The wait ends after `patience`, and early enough to leave time for an attempt. If other
/// sessions have opened all copies in the meantime, none is left.
fn in_turn(
    wanted: &[Wanted],
    patience: Duration,
    attempt: impl Fn(Deadline) -> Result<NotOpened, Error>,
) -> Result<NotOpened, Error> {
    let started = Instant::now();
    let limit = guc::take_over_timeout();
    let deadline = Deadline::after(limit);
    let oids: Vec<Oid> = wanted.iter().map(|(sequence, _)| sequence.oid).collect();
    let mut attempts_seen = vec![false; wanted.len()];
    loop {
        let record = || recording_failure(wanted, || attempt(deadline));
        if let Some(result) = locks::with_locks_beside(&oids, record) {
            let mut left = result?;
            for warning in left.warnings.drain(..) {
                warning.warn();
            }
            return Ok(left);
        }
        if started.elapsed() >= patience.min(limit * 9 / 10) {
            return Err(timed_out(oids[0], patience.min(limit), vec![]));
        }
        wait_event::pause(WaitEvent::TakeOver, POLL);
        let copies: Vec<_> = oids.iter().map(|oid| read::tuple(*oid)).collect();
        if copies.iter().all(|copy| copy.is_some_and(|copy| !copy.is_closed(true))) {
            return Ok(NotOpened::default());
        }
        for ((oid, copy), is_seen) in oids.iter().zip(copies).zip(&mut attempts_seen) {
            match copy.and_then(|copy| copy.mark()).map(|mark| mark.stage) {
                Some(Stage::Opening(_)) => *is_seen = true,
                Some(Stage::Failed(group)) if *is_seen && started.elapsed() > SHARES_AFTER => {
                    let node = placement::name_of_group(group);
                    return Err(Error::TakeOverFailed { name: names::relation(*oid), node });
                }
                _ => {}
            }
        }
    }
}

/// Runs `attempt`. If a node cannot be reached, records this for the sessions that wait.
fn recording_failure<T>(
    wanted: &[Wanted],
    attempt: impl Fn() -> Result<T, Error>,
) -> Result<T, Error> {
    // With exit_on_error the deadline would end the session, without an error for the client.
    let result = guc::with(&[(c"exit_on_error", "off")], attempt);
    if let Err(Error::NodeNotReached { group, .. }) = result {
        for &(sequence, _) in wanted {
            // A refusal, as of a sequence that was dropped, must not hide the error.
            let _ = retry(sequence.oid, || visit::give_up(sequence.oid, group));
        }
    }
    result
}

/// The error at the deadline. Made before an attempt, because catalogs cannot be read after it was
/// canceled.
fn timed_out_with_nodes(wanted: &[Wanted]) -> Error {
    let own = placement::local_group();
    let nodes = placement::nodes();
    let others = nodes.iter().filter(|node| node.group != own).map(Node::name).collect();
    timed_out(wanted[0].0.oid, guc::take_over_timeout(), others)
}

/// The error after this time, with the nodes that were asked; none if another session was to ask
/// them.
fn timed_out(sequence: Oid, limit: Duration, nodes: Vec<String>) -> Error {
    let limit = match limit.subsec_millis() {
        0 => names::duration(limit.as_secs() as i64),
        _ => format!("{} ms", limit.as_millis()),
    };
    Error::TakeOverTimedOut { name: names::relation(sequence), limit, nodes }
}

/// Makes one attempt.
fn attempt_to_open(
    wanted: &[Wanted],
    policy: CopyPolicy,
    deadline: Deadline,
) -> Result<NotOpened, Error> {
    let mut opening = vec![];
    for &(sequence, floor) in wanted {
        check_placement(sequence.oid, policy)?;
        let attempt = Attempt::of_random(sys::random_i32());
        if let Some(own) = retry(sequence.oid, || visit::begin_opening(sequence, policy, attempt))?
        {
            // Check again, because a sequence without copies may have got some before the mark was
            // made.
            let placement = check_placement(sequence.oid, policy)?;
            opening.push(Opening { sequence, attempt, own, placement, floor, taker: None });
        }
    }
    // The name of a sequence without copies may be that of an unrelated sequence on another node.
    let (copies, alone): (Vec<_>, Vec<_>) =
        opening.into_iter().partition(|opening| opening.placement.has_copies());
    let mut left = NotOpened::default();
    open_above(alone, &OtherCopies::none(deadline), policy, &mut left)?;
    if let Some(altered) = copies.iter().find(|opening| catalog::has_new_file(opening.sequence.oid))
    {
        return Err(Error::SequenceAltered { name: names::relation(altered.sequence.oid) });
    }
    if !copies.is_empty() {
        let others = OtherCopies::find(&copies, policy, deadline)?;
        open_above(copies, &others, policy, &mut left)?;
    }
    Ok(left)
}

/// Steps 3 to 6 of an attempt. Adds the sequences that it does not open to `left`.
fn open_above(
    sequences: Vec<Opening>,
    others: &OtherCopies,
    policy: CopyPolicy,
    NotOpened { overtaken, refused, warnings }: &mut NotOpened,
) -> Result<(), Error> {
    let copies = others.close(&sequences)?;
    let mut opening = vec![];
    for (sequence, copies) in sequences.into_iter().zip(&copies) {
        match floor_of(&sequence, others, policy, copies, warnings) {
            Ok((known, taker)) => {
                opening.push(Opening { floor: floor_above(known), taker, ..sequence })
            }
            Err(error) if is_of_a_node(&error) => return Err(error),
            Err(error) => refused.push((sequence.sequence, error)),
        }
    }
    let raise = |&Opening { sequence, attempt, floor, taker, .. }: &Opening| {
        retry(sequence.oid, || visit::raise_floor(sequence, policy, taker, attempt, floor))
    };
    let results = opening.iter().map(raise).collect::<Result<_, _>>()?;
    remove_overtaken(&mut opening, results, overtaken);
    let results = others.record_holder(&opening)?;
    remove_overtaken(&mut opening, results, overtaken);
    let open = |&Opening { sequence, attempt, .. }: &Opening| {
        retry(sequence.oid, || visit::open(sequence, policy, attempt))
    };
    let results = opening.iter().map(open).collect::<Result<_, _>>()?;
    remove_overtaken(&mut opening, results, overtaken);
    Ok(())
}

/// Moves the sequences for which a step returned false from `opening` to `overtaken`.
fn remove_overtaken(
    opening: &mut Vec<Opening>,
    results: Vec<bool>,
    overtaken: &mut Vec<IdSequence>,
) {
    let mut results = results.into_iter();
    opening.retain(|opening| {
        let is_current = results.next().unwrap_or(false);
        if !is_current {
            overtaken.push(opening.sequence);
        }
        is_current
    });
}

/// The placement of a sequence, which must be on this node if the policy needs that.
fn check_placement(sequence: Oid, policy: CopyPolicy) -> Result<SequencePlacement, Error> {
    let placement = placement::of(sequence);
    if placement.is_here() || !policy.needs_placement() {
        Ok(placement)
    } else {
        Err(placement::placed_elsewhere(sequence, &placement))
    }
}

/// The value at which a sequence continues, or above: that of the copies, if each last holder that
/// they record has reported its own copy; see [`check_last_holders`]. Otherwise, if that is
/// allowed, one above everything that is known, and this node, to be recorded.
fn floor_of(
    Opening { sequence, own, placement, floor, .. }: &Opening,
    others: &OtherCopies,
    policy: CopyPolicy,
    copies: &[(i32, Report)],
    warnings: &mut Vec<Error>,
) -> Result<(i64, Option<LastHolder>), Error> {
    let all: Vec<CopyState> = copies.iter().map(|(_, report)| report.state).chain([*own]).collect();
    let known = all.iter().map(|copy| copy.next_value).fold(*floor, i64::max);
    let reported = |group: i32| match placement.has_copies() && group == placement.group {
        true => Some(own.next_value),
        false => copies.iter().find(|(of, _)| *of == group).map(|(_, copy)| copy.state.next_value),
    };
    // Which nodes were left out earlier, and may not know the last holder, only the coordinator
    // shows.
    let of_coordinator = copies.iter().find(|(of, _)| *of == COORDINATOR).map(|(_, report)| report);
    let recorded = of_coordinator.map_or(own.last_holder, |report| report.state.last_holder);
    let placed_by_coordinator = of_coordinator.and_then(|report| report.placed_on);
    if let Some((node, said)) = others.unreached.first()
        && recorded == LastHolder::Unknown
    {
        return Err(others.not_reached(node, said.clone()));
    }
    let is_floor_given = policy == CopyPolicy::SchemaNodeWithFloor;
    let problem = match check_last_holders(&all, is_floor_given, reported, placement::is_disabled) {
        Ok(()) => return Ok((known, None)),
        Err(problem) => problem,
    };
    let name = || names::relation(sequence.oid);
    let group = match problem {
        HolderProblem::Lost(group) => group,
        HolderProblem::Replaced(group) => {
            return Err(Error::LastHolderReplaced { name: name(), group });
        }
        HolderProblem::Unknown => return Err(Error::LastHolderUnknown { name: name() }),
        HolderProblem::Disabled(group) => {
            return Err(Error::LastHolderDisabled { name: name(), group });
        }
    };
    let lost = unreported_holders(&all, reported);
    if let Some((node, said)) = others.unreached.iter().find(|(node, _)| lost.contains(&node.group))
    {
        return Err(others.not_reached(node, said.clone()));
    }
    // The tables are on this node, also by the catalogs of the coordinator. Whichever node takes
    // the sequence over after that closes the copy of the coordinator, and so ends this attempt.
    let is_confirmed = placement.has_copies()
        && placement.is_here()
        && (placement.group == COORDINATOR || placed_by_coordinator == Some(placement.group));
    let are_removed = || !lost.iter().any(|group| placement::is_known(*group));
    let newest = if guc::continues_without_lost_nodes() && is_confirmed && are_removed() {
        columns::newest_of_sequence(*sequence)?
    } else {
        None
    };
    let Some(newest) = newest else { return Err(Error::LastHolderLost { name: name(), group }) };
    warnings.push(Error::ContinuedWithoutHolder { name: name(), group });
    let now_ms = names::now_ms(sequence.epoch);
    let above = floor_without_holder(&all, &lost, *floor, newest, now_ms);
    Ok((above, LastHolder::node(placement.group)))
}

/// Closes this node's copy for another node; see [`visit::close`].
pub fn close(sequence: Oid, attempt: Attempt) -> Result<CopyState, Error> {
    with_lock_timeout(|| retry(sequence, || visit::close(sequence, attempt)))
}

/// Records the node that takes the sequence over; see [`visit::record_holder`].
pub fn record_holder(
    sequence: Oid,
    holder: LastHolder,
    attempt: Attempt,
    floor: i64,
) -> Result<bool, Error> {
    with_lock_timeout(|| retry(sequence, || visit::record_holder(sequence, holder, attempt, floor)))
}

/// Limits the wait for locks in a step that another node has asked for, because the holder of a
/// lock may wait for that other node. It ends before the deadline of that node, which then reports
/// the reason.
fn with_lock_timeout<T>(step: impl FnOnce() -> T) -> T {
    guc::with_lock_timeout(guc::shorter_lock_timeout(guc::take_over_timeout() * 4 / 5), step)
}
