//! `take_over_shards`: after moves of a Citus cluster, takes the sequences of many shards over
//! together.

use crate::citus::{placement, takeover};
use crate::error::{self, Error};
use crate::generator;
use crate::pg::catalog;
use crate::pg::guc;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::reg_types::Regclass;
use crate::pg::spi;
use crate::pg::subtransaction;
use crate::pg::sys;
use crate::pg::text::push;
use crate::pg::transaction::prevent_if_read_only;
use crate::sequence::refusal::Refusal;
use crate::sequence::{IdSequence, check, read, visit};
use crate::shard::definition::{self, Definition};
use instagram_id_core::copy::Attempt;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The number of sequences that a command to another node is about. This node keeps other sessions
/// from taking them over in the meantime, and the other node locks them until the command ends.
const BATCH: usize = 100;

/// How long it waits for the lock on a sequence. The role that owns a shard could hold that lock as
/// long as it likes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long it waits for locks that it does not get, in total. A role can own many shards.
const PATIENCE: Duration = Duration::from_secs(4);

/// `take_over_shards()`. Each shard has the reason if its sequence could not be taken over. The
/// first `next_id` on the new node does the same for one shard.
///
/// A command to another node is about many sequences. If one of them cannot be taken over, each of
/// the others is taken over by commands of its own. A copy of another group is made one of this
/// node, which needs ownership. Sequences that are taken over stay so if the transaction is rolled
/// back. Without Citus it opens the closed sequences that do not record another node as the last
/// owner.
///
/// # Errors
///
/// The transaction is read-only, the server is a standby, or the call is canceled. Other errors are
/// returned as reasons.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn take_over_shards() -> TableIterator<
    'static,
    (name!(shard, i32), name!(sequence, Regclass), name!(reason, Option<String>)),
> {
    prevent_if_read_only("take_over_shards()");
    let mut results = vec![];
    let mut patience = PATIENCE;
    let mut by_role = BTreeMap::<u32, Vec<(Shard, IdSequence)>>::new();
    for (shard, sequence, is_copy) in shards_placed_here() {
        let prepare = || {
            if is_copy && make_own(sequence)? {
                return Err(Error::SequenceAltered { name: names::relation(sequence.oid) });
            }
            role_if_closed(sequence, is_copy)
        };
        match with_reason(&mut patience, prepare) {
            Ok(Some(role)) => by_role.entry(role.to_u32()).or_default().push((shard, sequence)),
            Ok(None) => {}
            Err(reason) => results.push((shard, sequence, Some(reason))),
        }
    }
    for shards in by_role.values() {
        // After a node has not answered, each further attempt as this role would wait for it again.
        let mut problem = None;
        for batch in shards.chunks(BATCH) {
            let sequences: Vec<IdSequence> = batch.iter().map(|(_, sequence)| *sequence).collect();
            let left = attempt(&sequences, &mut problem, &mut patience).unwrap_or(sequences);
            for &(shard, sequence) in batch {
                let is_left = left.contains(&sequence);
                let reason = if is_left {
                    take_over(sequence, &mut problem, &mut patience).err()
                } else {
                    None
                };
                results.push((shard, sequence, reason));
            }
        }
    }
    results.sort_by_key(|(shard, ..)| shard.number());
    let row = |(shard, sequence, reason): (Shard, IdSequence, _)| {
        (i32::from(shard.number()), Regclass(sequence.oid), reason)
    };
    TableIterator::new(results.into_iter().map(row))
}

/// Makes one attempt to take these sequences over, and returns those for which another node has
/// overtaken it. Makes none if there is a problem with a node already; keeps such a problem.
fn attempt(
    sequences: &[IdSequence],
    problem: &mut Option<String>,
    patience: &mut Duration,
) -> Result<Vec<IdSequence>, String> {
    if let Some(problem) = problem {
        return Err(problem.clone());
    }
    with_reason(patience, || {
        let result = takeover::attempt_to_take_over(sequences, generator::floor(i64::MIN));
        *problem =
            result.as_ref().err().filter(|error| takeover::is_of_a_node(error)).map(Error::reason);
        result
    })
}

/// Makes one attempt to take a sequence over. The role that owns it could interfere with any number
/// of them.
fn take_over(
    sequence: IdSequence,
    problem: &mut Option<String>,
    patience: &mut Duration,
) -> Result<(), String> {
    if attempt(&[sequence], problem, patience)?.is_empty() {
        Ok(())
    } else {
        Err(Error::TakeOverOvertaken { name: names::relation(sequence.oid) }.in_one_line())
    }
}

/// The shards whose schema this node owns, each with whether its sequence has copies on other
/// nodes; without Citus all shards.
fn shards_placed_here() -> Vec<(Shard, IdSequence, bool)> {
    let mut definitions = vec![];
    definition::visit_all(|definition| push(&mut definitions, definition));
    let placed_here = placement::placed_here();
    let is_copy = |sequence: &Oid| match &placed_here {
        Some(placed_here) => placed_here.get(sequence).copied(),
        None => Some(false),
    };
    definitions
        .into_iter()
        .filter_map(|Definition { shard, sequence, .. }| {
            Some((shard, sequence, is_copy(&sequence.oid)?))
        })
        .collect()
}

/// If this node must open the sequence before it generates ids, locks it, and returns the role as
/// which the other nodes are asked. `None` if it is open, or is not a sequence that other sessions
/// can use.
///
/// # Errors
///
/// This role cannot read the sequence.
fn role_if_closed(sequence: IdSequence, is_copy: bool) -> Result<Option<Oid>, Error> {
    let is_usable = || {
        catalog::relation(sequence.oid)
            .is_some_and(|found| found.is_sequence && !found.is_temporary)
    };
    if !is_usable() {
        return Ok(None);
    }
    let is_closed = match read::tuple(sequence.oid) {
        Some(tuple) => tuple.is_closed(is_copy),
        None if is_usable() => return Err(Refusal::NoRight { update: false }.error(sequence)),
        None => false, // dropped in the meantime
    };
    let must_be_opened = is_closed && visit::lock(sequence.oid);
    Ok(must_be_opened.then(|| takeover::role_to_ask_as(sequence.oid)))
}

/// If this node has the copy of a node of another group, as a promoted clone has, or a node that
/// was added again with its data, makes the copy one of this node. It may be open, so it is closed
/// first. ALTER SEQUENCE then removes the record of the last owner, which the copies on the other
/// nodes have as well. Returns whether it has; the sequence can be taken over after a commit.
///
/// # Errors
///
/// This role lacks UPDATE on the sequence.
fn make_own(sequence: IdSequence) -> Result<bool, Error> {
    if check::made_for(sequence.oid).is_none_or(|group| group == placement::local_group()) {
        return Ok(false);
    }
    takeover::close(sequence.oid, Attempt::of_random(sys::random_i32()))?;
    locks::lock_schema_of(sequence.oid);
    // Citus would run the statement on all nodes.
    guc::with(&[(c"citus.enable_ddl_propagation", "off")], || {
        spi::run(&format!(
            "ALTER SEQUENCE {} NO MINVALUE NO MAXVALUE",
            names::relation(sequence.oid)
        ));
    });
    Ok(true)
}

/// Runs `f` in a subtransaction. An error, also one of PostgreSQL, is returned as text. A cancel is
/// not caught. `patience` is the time that is left for locks that are not obtained.
fn with_reason<T>(
    patience: &mut Duration,
    f: impl FnOnce() -> Result<T, Error>,
) -> Result<T, String> {
    // 0 would be no limit.
    let timeout = (*patience).min(LOCK_TIMEOUT).as_millis().max(1).to_string();
    let started = Instant::now();
    match subtransaction::catching_errors(|| guc::with(&[(c"lock_timeout", &timeout)], f)) {
        Ok(result) => result.map_err(|error| error.in_one_line()),
        Err(report) => {
            if report.sql_error_code() == PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE {
                *patience = patience.saturating_sub(started.elapsed());
            }
            Err(error::report_in_one_line(&report))
        }
    }
}
