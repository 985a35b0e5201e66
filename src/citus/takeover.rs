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
//! 3. It makes every other node close its copy, and report how far that copy has advanced and which
//!    node took it over last (`_close_sequence`). If that last owner is not among the nodes that
//!    have reported, for example because it was removed from the cluster, ids might be repeated.
//!    Then the attempt fails: no copy is opened, and the closed copies are otherwise unchanged.
//! 4. It records in its own copy how far all copies have advanced.
//! 5. It records itself as the owner on every other node (`_name_sequence_taker`).
//! 6. If its mark is still there, it opens its copy above all of these values.
//!
//! No id is repeated, because the recorded last owner is either reached, and its own copy shows how
//! far the ids have advanced, or the attempt fails. An attempt that fails leaves the recorded
//! owners as they are. If an owner is replaced (step 5), its value is already recorded in the copy
//! of the node that replaces it (step 4).
//!
//! Closing a copy removes its mark. So if two nodes attempt this at the same time, the node that
//! marks its copy first notices the other one: that either removes its mark, or closes the copy
//! that it has opened and continues above it. An owner is recorded only while the copy is still
//! closed for the same attempt.
//!
//! The placement that a session has cached decides only whether it makes an attempt. The page
//! itself shows whether a copy is open. So a session that has not received a move yet finds its
//! copy closed, or generates ids above which the new owner then continues.
//!
//! All of this ends at a deadline. Other sessions of the node wait meanwhile. If a node has not
//! answered, the session records that in its own copy, and the sessions that have waited fail with
//! it, instead of asking the same node one after another.
//!
//! With the setting `instagram_id.continue_without_lost_nodes`, steps 2 to 5 leave out nodes that
//! do not accept a connection, except for the coordinator and the last owner. The coordinator
//! records each owner before it opens its copy, and whichever node begins another attempt closes
//! the copy of the coordinator, so at most one attempt records its node there. If the last owner
//! was removed from the cluster, and this node owns the schema by the coordinator's catalogs, it
//! continues above everything that is known ([`floor_without_owner`]). A removed node does not
//! return with its open copy: it gets another group, for which the copy was not made. An owner that
//! is only unreachable or disabled could return, and continue from its copy once the schema has
//! moved back to it.
//!
//! Several sequences can be taken over together. Each goes through the steps above, and each
//! command to another node is about all of them.

use crate::citus::placement::{self, COORDINATOR, Node, Owner, field, retry};
use crate::error::Error;
use crate::pg::catalog;
use crate::pg::deadline::{Deadline, TimedOut};
use crate::pg::guc;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::roles;
use crate::pg::spi::select_latest;
use crate::pg::sys;
use crate::pg::wait_event::{self, WaitEvent};
use crate::sequence::{CopyPolicy, IdSequence, read, visit};
use instagram_id_core::copy::{
    Attempt, CopyState, LastOwner, OwnerProblem, Stage, check_last_owners, floor_without_owner,
    unreported_owners,
};
use instagram_id_core::epoch::{Epoch, US_PER_MS};
use pgrx::PgLogLevel;
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::spi::quote_literal;
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// The maximum of the random pause before an attempt is repeated because another node has
/// interfered. Without a pause, two nodes could interfere with each other forever.
const PAUSE_MAX_MS: i32 = 32;

/// How often a session looks whether another one of its node has taken the sequence over.
const POLL: Duration = Duration::from_millis(10);

/// A session that has waited this long for another one fails with it. Earlier it makes an attempt
/// of its own: the other one may have asked as a role that cannot connect.
const SHARES_AFTER: Duration = Duration::from_secs(1);

/// How long a session that waits for another one does so after its own deadline. If both have begun
/// at the same time, it then learns why the other one has failed.
const GRACE: Duration = Duration::from_millis(250);

/// Where a sequence continues that is taken over, besides above all values that the copies record.
#[derive(Clone, Copy)]
pub struct Floor {
    /// Above this value.
    pub given: i64,
    /// If the last owner is lost, above the value that this function returns: that of the newest id
    /// in the tables. `None` if it is not known which tables have ids of the sequence.
    pub newest_in_tables: fn(IdSequence) -> Result<Option<i64>, Error>,
}

/// Opens this node's copy of a sequence in the steps above, if it is not open already.
///
/// # Errors
///
/// Another node owns the schema, the coordinator is not known, the last owner is not known or no
/// longer in use, a node does not hand over, or the time is over.
pub fn take_over(sequence: IdSequence, policy: CopyPolicy, floor: Floor) -> Result<(), Error> {
    let attempts = |deadline| {
        while !attempt_to_open(&[sequence], policy, floor, deadline)?.is_empty() {
            let pause = sys::random_i32().rem_euclid(PAUSE_MAX_MS);
            wait_event::pause(WaitEvent::TakeOver, Duration::from_millis(pause as u64));
        }
        Ok(())
    };
    in_turn(&[sequence], attempts).map(Option::unwrap_or_default)
}

/// Makes one attempt to take several sequences over together. The caller has locked them. The other
/// nodes are asked as one role; see [`role_to_ask_as`]. Returns the sequences for which another
/// node has overtaken the attempt.
///
/// # Errors
///
/// Those of [`take_over`]. The error may name another of the sequences. All of them may be closed
/// on every node then, and a later attempt continues from there.
pub fn attempt_to_take_over(
    sequences: &[IdSequence],
    floor: Floor,
) -> Result<Vec<IdSequence>, Error> {
    let attempt = |deadline| attempt_to_open(sequences, CopyPolicy::Owner, floor, deadline);
    in_turn(sequences, attempt).map(Option::unwrap_or_default)
}

/// Whether an error concerns a node, and not the sequence: other attempts would fail in the same
/// way.
pub fn is_of_a_node(error: &Error) -> bool {
    matches!(
        error,
        Error::NodeNotReached { .. }
            | Error::TakeOverTimedOut { .. }
            | Error::TakeOverFailed { .. }
    )
}

/// Runs `attempt` while no other session of this node makes one for these sequences, because two
/// would remove each other's marks. The deadline covers the wait for the other session and the
/// attempt. `None` if other sessions have opened all copies in the meantime.
///
/// # Errors
///
/// The time is over, or the attempt of another session has failed during the wait; those of
/// `attempt`.
fn in_turn<T>(
    sequences: &[IdSequence],
    attempt: impl Fn(Deadline) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let started = Instant::now();
    let deadline = Deadline::after(guc::take_over_timeout());
    let oids: Vec<Oid> = sequences.iter().map(|sequence| sequence.oid).collect();
    let mut attempts_seen = vec![false; sequences.len()];
    loop {
        let in_time = || attempt_in_time(sequences, deadline, &attempt);
        if let Some(result) = locks::with_locks_beside(&oids, in_time) {
            return result.map(Some);
        }
        if (deadline + GRACE).is_over() {
            return Err(timed_out(oids[0], vec![]));
        }
        wait_event::pause(WaitEvent::TakeOver, POLL);
        let copies: Vec<_> = oids.iter().map(|oid| read::tuple(*oid)).collect();
        if copies.iter().all(|copy| copy.is_some_and(|copy| !copy.is_closed(true))) {
            return Ok(None);
        }
        for ((oid, copy), is_seen) in oids.iter().zip(copies).zip(&mut attempts_seen) {
            match copy.and_then(|copy| copy.mark()).map(|mark| mark.stage) {
                Some(Stage::Opening(_)) => *is_seen = true,
                Some(Stage::Failed(group)) if *is_seen && started.elapsed() > SHARES_AFTER => {
                    let node = group.map(placement::name_of_group);
                    return Err(Error::TakeOverFailed { name: names::relation(*oid), node });
                }
                _ => {}
            }
        }
    }
}

/// Runs `attempt`, and ends it at the deadline. If a node has not answered, records this for the
/// sessions that wait.
fn attempt_in_time<T>(
    sequences: &[IdSequence],
    deadline: Deadline,
    attempt: impl Fn(Deadline) -> Result<T, Error>,
) -> Result<T, Error> {
    let result =
        deadline.limit(WaitEvent::TakeOver, || attempt(deadline)).unwrap_or_else(|TimedOut| {
            let own = placement::local_group();
            let nodes = guc::with(guc::OWN_NAMES, placement::nodes)
                .into_iter()
                .filter(|node| node.group != own);
            Err(timed_out(sequences[0].oid, nodes.map(|node| node.name()).collect()))
        });
    let unreached = match result {
        Err(Error::NodeNotReached { group, .. }) => Some(group),
        Err(Error::TakeOverTimedOut { .. }) => None,
        result => return result,
    };
    for &sequence in sequences {
        retry(sequence, || visit::give_up(sequence.oid, unreached))?;
    }
    result
}

/// The error at the deadline, with the nodes that were asked; none if another session was to ask
/// them.
fn timed_out(sequence: Oid, nodes: Vec<String>) -> Error {
    let limit = guc::take_over_timeout();
    let limit = match limit.subsec_millis() {
        0 => names::duration(limit.as_secs() as i64),
        _ => format!("{} ms", limit.as_millis()),
    };
    Error::TakeOverTimedOut { name: names::relation(sequence), limit, nodes }
}

/// This node's copy of a sequence during an attempt to open it.
struct Opening {
    sequence: IdSequence,
    attempt: Attempt,
    /// Its state when the attempt began.
    own: CopyState,
    owner: Owner,
    /// The value at which it continues or above.
    floor: i64,
}

/// Makes one attempt. Returns the sequences for which another node has overtaken it.
fn attempt_to_open(
    sequences: &[IdSequence],
    policy: CopyPolicy,
    floor: Floor,
    deadline: Deadline,
) -> Result<Vec<IdSequence>, Error> {
    let mut opening = vec![];
    for &sequence in sequences {
        check_owner(sequence.oid, policy)?;
        let attempt = Attempt::of_random(sys::random_i32());
        if let Some(own) = retry(sequence, || visit::begin_opening(sequence, policy, attempt))? {
            // Check again, because a sequence without copies may have got some before the mark was
            // made.
            let owner = check_owner(sequence.oid, policy)?;
            opening.push(Opening { sequence, attempt, own, owner, floor: floor.given });
        }
    }
    // The name of a sequence without copies may be that of an unrelated sequence on another node.
    let (copies, alone): (Vec<_>, Vec<_>) =
        opening.into_iter().partition(|opening| opening.owner.owner.is_some());
    let mut overtaken = open_above(alone, &OtherCopies::none(deadline), policy, floor)?;
    if let Some(altered) = copies.iter().find(|opening| catalog::has_new_file(opening.sequence.oid))
    {
        return Err(Error::SequenceAltered { name: names::relation(altered.sequence.oid) });
    }
    if !copies.is_empty() {
        let others = OtherCopies::find(&copies, policy, deadline)?;
        overtaken.extend(open_above(copies, &others, policy, floor)?);
    }
    Ok(overtaken)
}

/// Steps 3 to 6 of an attempt. Returns the sequences for which another node has overtaken it.
fn open_above(
    mut opening: Vec<Opening>,
    others: &OtherCopies,
    policy: CopyPolicy,
    floor: Floor,
) -> Result<Vec<IdSequence>, Error> {
    let copies = others.close(&opening)?;
    for (opening, copies) in opening.iter_mut().zip(&copies) {
        opening.floor = floor_of(opening, others, policy, copies, floor)?;
    }
    let mut overtaken = vec![];
    let raise = |&Opening { sequence, attempt, floor, .. }: &Opening| {
        retry(sequence, || visit::raise_floor(sequence, policy, attempt, floor))
    };
    let results = opening.iter().map(raise).collect::<Result<_, _>>()?;
    remove_overtaken(&mut opening, results, &mut overtaken);
    let results = others.record_owner(&opening)?;
    remove_overtaken(&mut opening, results, &mut overtaken);
    let open = |&Opening { sequence, attempt, .. }: &Opening| {
        retry(sequence, || visit::open(sequence, policy, attempt))
    };
    let results = opening.iter().map(open).collect::<Result<_, _>>()?;
    remove_overtaken(&mut opening, results, &mut overtaken);
    Ok(overtaken)
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

/// The owner of a sequence's schema, which must be this node if the policy needs that.
///
/// # Errors
///
/// Another node owns it.
fn check_owner(sequence: Oid, policy: CopyPolicy) -> Result<Owner, Error> {
    let owner = placement::owner_of(sequence);
    if owner.is_here() || !policy.needs_placement() {
        Ok(owner)
    } else {
        Err(placement::placed_elsewhere(sequence, &owner))
    }
}

/// The value at which a sequence continues, or above: that of the copies, if each last owner that
/// they record has reported its own copy; see [`check_last_owners`]. Otherwise, if that is allowed,
/// one above everything that is known.
///
/// # Errors
///
/// An owner has not reported or is disabled, or every copy has lost the record.
fn floor_of(
    Opening { sequence, own, owner, .. }: &Opening,
    others: &OtherCopies,
    policy: CopyPolicy,
    copies: &[(i32, Report)],
    floor: Floor,
) -> Result<i64, Error> {
    let of_copies = copies.iter().map(|(_, report)| report.state).chain([*own]);
    let known = of_copies.clone().map(|copy| copy.next_value).fold(floor.given, i64::max);
    let owners: Vec<LastOwner> = of_copies.map(|copy| copy.last_owner).collect();
    let has_reported = |group: i32| {
        owner.owner.is_some() && group == owner.group || copies.iter().any(|(of, _)| *of == group)
    };
    // Which nodes were left out earlier, and may not know the last owner, only the coordinator
    // shows.
    let of_coordinator = copies.iter().find(|(of, _)| *of == COORDINATOR).map(|(_, report)| report);
    let recorded = of_coordinator.map_or(own.last_owner, |report| report.state.last_owner);
    let owner_by_coordinator = of_coordinator.and_then(|report| report.owner_of_schema);
    if let Some((node, said)) = others.unreached.first()
        && recorded == LastOwner::Unknown
    {
        return Err(others.not_reached(node, said.clone()));
    }
    let is_floor_given = policy == CopyPolicy::OwnerWithFloor;
    let problem =
        match check_last_owners(&owners, is_floor_given, has_reported, placement::is_disabled) {
            Ok(()) => return Ok(known),
            Err(problem) => problem,
        };
    let name = || names::relation(sequence.oid);
    let group = match problem {
        OwnerProblem::Lost(group) => group,
        OwnerProblem::Unknown => return Err(Error::LastOwnerUnknown { name: name() }),
        OwnerProblem::Disabled(group) => {
            return Err(Error::LastOwnerDisabled { name: name(), group });
        }
    };
    let lost = unreported_owners(&owners, has_reported);
    if let Some((node, said)) = others.unreached.iter().find(|(node, _)| lost.contains(&node.group))
    {
        return Err(others.not_reached(node, said.clone()));
    }
    // The tables are on this node, also by the catalogs of the coordinator. Whichever node takes
    // the sequence over after that closes the copy of the coordinator, and so ends this attempt.
    let is_confirmed = owner.owner.is_some()
        && owner.is_here()
        && (owner.group == COORDINATOR || owner_by_coordinator == Some(owner.group));
    let are_removed = || !lost.iter().any(|group| placement::is_known(*group));
    let newest = if guc::continues_without_lost_nodes() && is_confirmed && are_removed() {
        (floor.newest_in_tables)(*sequence)?
    } else {
        None
    };
    let Some(newest) = newest else { return Err(Error::LastOwnerLost { name: name(), group }) };
    ErrorReport::from(Error::ContinuedWithoutOwner { name: name(), group })
        .report(PgLogLevel::WARNING);
    let now_ms = sequence.epoch.elapsed_us(names::now()).div_euclid(US_PER_MS);
    Ok(floor_without_owner(known, newest, now_ms))
}

/// Closes this node's copy for another node; see [`visit::close`].
///
/// # Errors
///
/// Those of the sequence; the role lacks UPDATE on it, or its lock is not available in time.
pub fn close(sequence: Oid, attempt: Attempt) -> Result<CopyState, Error> {
    let ids = IdSequence { oid: sequence, epoch: Epoch::ORIGINAL };
    with_lock_timeout(|| retry(ids, || visit::close(sequence, attempt)))
}

/// Records the node that takes the sequence over; see [`visit::record_owner`].
///
/// # Errors
///
/// As [`close`].
pub fn record_owner(
    sequence: Oid,
    owner: LastOwner,
    attempt: Attempt,
    floor: i64,
) -> Result<bool, Error> {
    let ids = IdSequence { oid: sequence, epoch: Epoch::ORIGINAL };
    with_lock_timeout(|| retry(ids, || visit::record_owner(sequence, owner, attempt, floor)))
}

/// Limits the wait for locks in a step that another node has asked for, because the holder of a
/// lock may wait for that other node. It ends before the deadline of that node, which then reports
/// the reason.
fn with_lock_timeout<T>(step: impl FnOnce() -> T) -> T {
    let limit = guc::take_over_timeout() * 4 / 5;
    guc::with(&[(c"lock_timeout", &limit.as_millis().to_string())], step)
}

/// The role as which the other nodes are asked for their copies of a sequence: the current role if
/// it has UPDATE on the sequence, otherwise the sequence's owner.
pub fn role_to_ask_as(sequence: Oid) -> Oid {
    let role = catalog::current_role();
    if visit::may_be_updated_by(sequence, role) {
        role
    } else {
        catalog::relation(sequence).map_or(role, |relation| relation.owner)
    }
}

/// The copies of one or several sequences on the other nodes.
struct OtherCopies {
    /// The sequence that an error names.
    sequence: Oid,
    /// The group of this node.
    group: i32,
    /// The nodes, each with the quoted name of the extension's schema there.
    nodes: Vec<(Node, String)>,
    /// With the setting, the nodes that do not accept a connection, and what Citus has said. Their
    /// copies are closed, unless one of them is the last owner: the coordinator is not among them,
    /// and it records each node before that opens its copy.
    unreached: Vec<(Node, String)>,
    /// The role as which the commands are run. They require UPDATE on the sequences on each node.
    role: Oid,
    deadline: Deadline,
}

impl OtherCopies {
    /// Those of sequences without copies.
    fn none(deadline: Deadline) -> OtherCopies {
        OtherCopies {
            sequence: Oid::INVALID,
            group: COORDINATOR,
            nodes: vec![],
            unreached: vec![],
            role: Oid::INVALID,
            deadline,
        }
    }

    /// Asks every other node whether it has the sequences, one or more, and the functions. Only
    /// functions that belong to the extension by the node's catalogs count, so that a function of
    /// another role with the same name is not called.
    #[expect(clippy::too_many_lines, reason = "the text of a query is a third of it")]
    fn find(
        opening: &[Opening],
        policy: CopyPolicy,
        deadline: Deadline,
    ) -> Result<OtherCopies, Error> {
        let (sequence, group) = (opening[0].sequence.oid, opening[0].owner.group);
        let mut found = OtherCopies {
            sequence,
            group,
            nodes: vec![],
            unreached: vec![],
            role: role_to_ask_as(sequence),
            deadline,
        };
        let mut nodes = guc::with(guc::OWN_NAMES, placement::nodes);
        let has_coordinator = nodes.iter().any(|node| node.group == COORDINATOR);
        nodes.retain(|node| node.group != group);
        // The workers refuse a coordinator that is not in their catalogs. A coordinator without
        // workers need not be.
        if !has_coordinator && (group != COORDINATOR || !nodes.is_empty()) {
            return Err(Error::CoordinatorUnknown { name: names::relation(sequence) });
        }
        let nodes: Vec<_> = nodes.into_iter().map(|node| (node, String::new())).collect();
        let exist = opening.iter().map(|opening| {
            let name = quote_literal(names::relation(opening.sequence.oid));
            format!("(pg_catalog.to_regclass({name}) IS NOT NULL)::pg_catalog.int4")
        });
        let command = format!(
            "SELECT pg_catalog.concat_ws(' ', {}, \
             (SELECT pg_catalog.quote_ident(n.nspname) \
              FROM pg_catalog.pg_extension AS e, pg_catalog.pg_namespace AS n, pg_catalog.pg_proc AS p, pg_catalog.pg_depend AS d \
              WHERE e.extname OPERATOR(pg_catalog.=) 'instagram_id'::pg_catalog.name \
              AND n.oid OPERATOR(pg_catalog.=) e.extnamespace \
              AND (p.proname OPERATOR(pg_catalog.=) '_close_sequence'::pg_catalog.name \
                   OR p.proname OPERATOR(pg_catalog.=) '_name_sequence_taker'::pg_catalog.name) \
              AND p.pronamespace OPERATOR(pg_catalog.=) n.oid \
              AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid \
              AND d.objid OPERATOR(pg_catalog.=) p.oid \
              AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid \
              AND d.refobjid OPERATOR(pg_catalog.=) e.oid \
              AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog.\"char\" \
              GROUP BY n.nspname HAVING pg_catalog.count(*) OPERATOR(pg_catalog.=) 2::pg_catalog.int8))",
            joined(exist)
        );
        // A caller that passes where to continue might pass too little for such a node.
        let may_skip = guc::continues_without_lost_nodes() && policy != CopyPolicy::OwnerWithFloor;
        let answers = found.ask(&nodes, |_| command.clone(), may_skip);
        // The other nodes see a sequence that the coordinator has created in this transaction only
        // after the commit. Until then they cannot generate ids from it: they would ask the
        // coordinator, where other sessions do not see the sequence either.
        let are_new = group == COORDINATOR
            && opening.iter().all(|opening| catalog::is_new(opening.sequence.oid));
        let all = |digit: &str| vec![digit; opening.len()].join(SEPARATOR);
        for ((node, _), answer) in nodes.into_iter().zip(answers) {
            let said = match answer {
                Ok(said) => said,
                Err(said)
                    if may_skip && node.group != COORDINATOR && said.starts_with(NOT_CONNECTED) =>
                {
                    found.unreached.push((node, said));
                    continue;
                }
                Err(said) => return Err(found.not_reached(&node, said)),
            };
            match said.split_once(' ') {
                Some((exist, schema)) if exist == all("1") => {
                    found.nodes.push((node, schema.to_owned()))
                }
                Some((exist, _)) if exist == all("0") && are_new => {}
                answer => {
                    let (name, node) = (names::relation(sequence), node.name());
                    return Err(match answer {
                        Some(_) => Error::SequenceNotOnNode { name, node },
                        None => Error::NodeOutdated { name, node },
                    });
                }
            }
        }
        Ok(found)
    }

    /// Makes every node close its copies. Returns, for each sequence, the states of the copies with
    /// the groups of their nodes.
    fn close(&self, opening: &[Opening]) -> Result<Vec<Vec<(i32, Report)>>, Error> {
        let close = |schema: &str, opening: &Opening| {
            let arguments = self.arguments_of_step(opening);
            format!(
                "(SELECT pg_catalog.concat_ws(' ', c.next_value, COALESCE(c.owner_group, -1), \
                 c.previous_group) FROM {schema}._close_sequence({arguments}) AS c)"
            )
        };
        self.ask_about(opening, close, Report::parse)
    }

    /// Records this node as the owner on every node. Returns, for each sequence, false if a copy is
    /// no longer closed for this attempt.
    fn record_owner(&self, opening: &[Opening]) -> Result<Vec<bool>, Error> {
        let record = |schema: &str, opening: &Opening| {
            let (arguments, floor) = (self.arguments_of_step(opening), opening.floor);
            format!("{schema}._name_sequence_taker({arguments}, '{floor}'::pg_catalog.int8)")
        };
        let recorded = self.ask_about(opening, record, |said| Some(said == "t"))?;
        Ok(recorded
            .iter()
            .map(|of_nodes| of_nodes.iter().all(|(_, is_recorded)| *is_recorded))
            .collect())
    }

    /// Evaluates an expression for each of these sequences on every node. Returns, for each
    /// sequence, the values with the groups of their nodes.
    fn ask_about<T: Clone>(
        &self,
        opening: &[Opening],
        expression: impl Fn(&str, &Opening) -> String,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<Vec<(i32, T)>>, Error> {
        let mut values = vec![vec![]; opening.len()];
        if opening.is_empty() {
            return Ok(values); // an ARRAY[] has no type
        }
        let command = |schema: &str| {
            let expressions = opening.iter().map(|opening| expression(schema, opening));
            format!("SELECT {}", joined(expressions))
        };
        let answers = self.ask(&self.nodes, command, false);
        for ((node, _), answer) in self.nodes.iter().zip(answers) {
            let said = answer.map_err(|said| self.not_handed_over(node, said))?;
            let of_node: Option<Vec<T>> = said.split(SEPARATOR).map(&parse).collect();
            let Some(of_node) = of_node.filter(|of_node| of_node.len() == opening.len()) else {
                return Err(self.not_handed_over(node, said));
            };
            for (values, value) in values.iter_mut().zip(of_node) {
                values.push((node.group, value));
            }
        }
        Ok(values)
    }

    /// The arguments of both functions for a sequence. The expression for the sequence does not
    /// depend on the search_path there.
    fn arguments_of_step(&self, Opening { sequence, attempt, .. }: &Opening) -> String {
        let copy = quote_literal(names::relation(sequence.oid));
        let (group, number) = (self.group, attempt.number());
        format!("{copy}::pg_catalog.regclass, {group}::pg_catalog.int4, {number}::pg_catalog.int4")
    }

    /// Runs a command on each of these nodes. Returns their answers, in the order of the nodes: an
    /// error with the text of Citus if a node does not answer, or answers with an error. With
    /// `may_skip` there must be time left after a node could not be reached.
    fn ask(
        &self,
        nodes: &[(Node, String)],
        command: impl Fn(&str) -> String,
        may_skip: bool,
    ) -> Vec<Result<String, String>> {
        if nodes.is_empty() {
            return vec![];
        }
        let list = |text: &dyn Fn(&(Node, String)) -> String| {
            nodes.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let query = format!(
            "SELECT node_name, node_port, success::int, result
             FROM master_run_on_worker(ARRAY[{}]::text[], ARRAY[{}]::int[], ARRAY[{}]::text[], true)",
            list(&|(node, _)| quote_literal(&node.host)),
            list(&|(node, _)| node.port.to_string()),
            list(&|(_, schema)| quote_literal(command(schema))),
        );
        // A node that cannot be reached should be named before the time is over.
        let left_ms = self.deadline.left().as_millis() as i64;
        let limit = if may_skip { left_ms / 4 } else { left_ms * 9 / 10 };
        let limit = limit.max(CONNECTION_TIMEOUT_MIN_MS);
        let timeout = guc::number(CONNECTION_TIMEOUT)
            .map(|ms| (CONNECTION_TIMEOUT, ms.min(limit).to_string()));
        let timeout = timeout.iter().map(|(name, value)| (*name, value.as_str()));
        let settings: Vec<_> = guc::OWN_NAMES.iter().copied().chain(timeout).collect();
        let rows = guc::with(&settings, || {
            if self.role == catalog::current_role() {
                select_latest(&query)
            } else {
                roles::with_rights_of(self.role, || select_latest(&query))
            }
        });
        let answer_of = |node: &Node| {
            let is_of_node = |row: &&Vec<Option<String>>| {
                field::<String>(row, 0) == node.host && field::<i32>(row, 1) == node.port
            };
            let row = rows.iter().find(is_of_node);
            let said = row.and_then(|row| row[3].clone()).unwrap_or_default().trim().to_owned();
            match row {
                Some(row) if field::<i32>(row, 2) == 1 => Ok(said),
                Some(_) => Err(said),
                None => Err("It has not answered.".into()),
            }
        };
        nodes.iter().map(|(node, _)| answer_of(node)).collect()
    }

    fn not_reached(&self, node: &Node, said: String) -> Error {
        Error::NodeNotReached {
            name: names::relation(self.sequence),
            node: node.name(),
            group: node.group,
            role: names::role(self.role),
            said,
        }
    }

    fn not_handed_over(&self, node: &Node, said: String) -> Error {
        let role = names::role(self.role);
        Error::NotHandedOver { name: names::relation(self.sequence), node: node.name(), role, said }
    }
}

/// The limit of Citus for a connection to another node, in milliseconds, and its smallest value.
const CONNECTION_TIMEOUT: &CStr = c"citus.node_connection_timeout";
const CONNECTION_TIMEOUT_MIN_MS: i64 = 10;

/// How Citus begins its text if a node does not accept a connection.
const NOT_CONNECTED: &str = "failed to connect to ";

/// Separates the answers of a node about several sequences.
const SEPARATOR: &str = ",";

/// An expression for the values of these expressions, with [`SEPARATOR`]. A function, such as
/// `concat_ws`, would accept only a hundred of them.
fn joined(expressions: impl Iterator<Item = String>) -> String {
    let expressions = expressions.collect::<Vec<_>>().join(", ");
    format!("pg_catalog.array_to_string(ARRAY[{expressions}], '{SEPARATOR}')")
}

/// The answer of a node to `_close_sequence`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Report {
    state: CopyState,
    /// The group of the node that owns the schema by that node's catalogs.
    owner_of_schema: Option<i32>,
}

impl Report {
    /// Parses the next value, the group of the node that owns the schema or -1, and the group of
    /// the last owner if there is one.
    fn parse(said: &str) -> Option<Report> {
        let mut fields = said.split(' ');
        let next_value = fields.next()?.parse().ok()?;
        let owner: i32 = fields.next()?.parse().ok()?;
        let last_owner = match fields.next() {
            Some(group) => LastOwner::of_column(Some(group.parse().ok()?))?,
            None => LastOwner::Nobody,
        };
        fields.next().is_none().then_some(Report {
            state: CopyState { next_value, last_owner },
            owner_of_schema: (owner >= 0).then_some(owner),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_parsed() {
        let report = |next_value, owner_of_schema, last_owner| {
            Some(Report { state: CopyState { next_value, last_owner }, owner_of_schema })
        };
        assert_eq!(Report::parse("5 -1"), report(5, None, LastOwner::Nobody));
        assert_eq!(Report::parse("-5 2 0"), report(-5, Some(2), LastOwner::Node(0)));
        assert_eq!(Report::parse("5 0 -1"), report(5, Some(0), LastOwner::Unknown));
        for said in ["", " ", "5", "5 ", "x", "5 x", "5 6 7 8", "5|6", "5,6", "5 1 -2", "5 1 "] {
            assert_eq!(Report::parse(said), None, "{said}");
        }
    }
}
