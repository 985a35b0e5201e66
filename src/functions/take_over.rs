//! `take_over_shards`: after moves of a Citus cluster, takes the sequences of many shards over
//! together.

use crate::arguments::not_null;
use crate::citus::copies;
use crate::citus::takeover::{self, NotOpened, Wanted};
use crate::error::{self, Error};
use crate::functions::recover;
use crate::pg::catalog;
use crate::pg::guc;
use crate::pg::names;
use crate::pg::reg_types::Regclass;
use crate::pg::roles;
use crate::pg::subtransaction;
use crate::pg::text::push;
use crate::pg::transaction::prevent_if_read_only;
use crate::sequence::placement;
use crate::sequence::refusal::Refusal;
use crate::sequence::{CopyPolicy, IdSequence, check, read, visit};
use crate::shard::definition::{self, Definition};
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The number of sequences that a command to another node is about. This node keeps other sessions
/// from taking them over in the meantime, and the other node locks them until the command ends.
const BATCH: usize = 100;

/// How long it waits for the lock on a sequence, or for another session that takes one over. The
/// role that owns a shard could hold that lock as long as it likes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long it waits in vain, in total. A role can own many shards.
const PATIENCE: Duration = Duration::from_secs(4);

/// `take_over_shards(recover)`. Each shard has the reason if its sequence could not be taken over.
/// The first `next_id` on the new node does the same for one shard. With `recover` a sequence whose
/// last holder is lost continues as with `recover_shard`.
///
/// A command to another node is about many sequences. Sequences that are taken over stay so if the
/// transaction is rolled back. Without Citus it opens the closed sequences that do not record
/// another node as the last holder.
///
/// Errors are returned as reasons, unless the transaction is read-only, the server is a standby,
/// or the call is canceled.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn take_over_shards(
    recover: Option<bool>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<
    TableIterator<
        'static,
        (name!(shard, i32), name!(sequence, Regclass), name!(reason, Option<String>)),
    >,
    ErrorReport,
> {
    let recover = not_null(recover, "recover")?;
    prevent_if_read_only("take_over_shards()");
    let own_schema = recover.then(|| catalog::schema_of_this_function(fcinfo));
    let mut results = vec![];
    let mut call = Call { patience: PATIENCE, problem: None };
    let mut by_role = BTreeMap::<u32, Vec<(Shard, IdSequence)>>::new();
    let group = placement::local_group();
    for (shard, sequence, is_copy) in shards_placed_here() {
        let prepare = || {
            if is_copy && let Some(group) = check::made_for_another(sequence.oid, group) {
                return Err(Refusal::CopyOfAnotherGroup(group).error(sequence.oid));
            }
            role_if_closed(sequence, is_copy)
        };
        match call.with_reason(prepare) {
            Ok(Some(role)) => by_role.entry(role.to_u32()).or_default().push((shard, sequence)),
            Ok(None) => {}
            Err(reason) => results.push((shard, sequence, Some(reason))),
        }
    }
    for shards in by_role.values() {
        call.problem = None;
        for batch in shards.chunks(BATCH) {
            let failures = call.take_over_or_recover(batch, own_schema);
            for (&(shard, sequence), failure) in batch.iter().zip(failures) {
                results.push((shard, sequence, failure.map(|failure| failure.reason)));
            }
        }
    }
    results.sort_by_key(|(shard, ..)| shard.number());
    let row = |(shard, sequence, reason): (Shard, IdSequence, _)| {
        (i32::from(shard.number()), Regclass(sequence.oid), reason)
    };
    Ok(TableIterator::new(results.into_iter().map(row)))
}

/// Why a sequence could not be taken over.
struct Failure {
    reason: String,
    /// Whether the reason is that the last holder is lost.
    is_owner_lost: bool,
}

impl Failure {
    fn of(error: &Error) -> Failure {
        let is_owner_lost = takeover::is_recoverable(error);
        Failure { reason: error.in_one_line(), is_owner_lost }
    }
}

/// The state of a call.
struct Call {
    /// The time that is left to wait in vain.
    patience: Duration,
    /// The error about a node that has not answered. Each further attempt as the same role would
    /// wait for it again.
    problem: Option<String>,
}

impl Call {
    /// Takes these sequences over, all as one role, and with the extension's schema recovers those
    /// whose last holder is lost. Returns the failure of each.
    fn take_over_or_recover(
        &mut self,
        shards: &[(Shard, IdSequence)],
        own_schema: Option<Oid>,
    ) -> Vec<Option<Failure>> {
        let wanted: Vec<_> = shards.iter().map(|(_, sequence)| (*sequence, i64::MIN)).collect();
        let mut failures = self.take_over(&wanted, CopyPolicy::SchemaNode);
        let Some(own_schema) = own_schema else { return failures };
        let mut lost = vec![];
        for (&(shard, sequence), failure) in shards.iter().zip(&mut failures) {
            if failure.as_ref().is_some_and(|failure| failure.is_owner_lost) {
                let above = || recover::above_known(shard, sequence, own_schema);
                match self.with_reason(|| guc::with(guc::OWN_SETTINGS, above)) {
                    Ok(value) => lost.push(((sequence, value + 1), failure)),
                    Err(reason) => *failure = Some(Failure { reason, is_owner_lost: false }),
                }
            }
        }
        let (wanted, lost): (Vec<_>, Vec<_>) = lost.into_iter().unzip();
        let results = self.take_over(&wanted, CopyPolicy::SchemaNodeWithFloor);
        lost.into_iter().zip(results).for_each(|(failure, result)| *failure = result);
        failures
    }

    /// Takes these sequences over. If an attempt fails, one of them may be the cause, so it is
    /// repeated for each half of them. The role that owns a sequence could interfere with any
    /// number of attempts, so one that was overtaken is repeated once, for this sequence only.
    fn take_over(&mut self, wanted: &[Wanted], policy: CopyPolicy) -> Vec<Option<Failure>> {
        let NotOpened { overtaken, mut refused, .. } = match self.attempt(wanted, policy) {
            Ok(left) => left,
            Err(reason) if wanted.len() == 1 => {
                return vec![Some(Failure { reason, is_owner_lost: false })];
            }
            Err(_) => {
                let (first, second) = wanted.split_at(wanted.len() / 2);
                let mut failures = self.take_over(first, policy);
                failures.extend(self.take_over(second, policy));
                return failures;
            }
        };
        let mut failure_of = |wanted_one: &Wanted| {
            let sequence = wanted_one.0;
            if let Some(place) = refused.iter().position(|(refused, _)| *refused == sequence) {
                return Some(Failure::of(&refused.swap_remove(place).1));
            }
            if !overtaken.contains(&sequence) {
                return None;
            }
            if wanted.len() == 1 {
                let name = names::relation(sequence.oid);
                return Some(Failure::of(&Error::TakeOverOvertaken { name }));
            }
            self.take_over(&[*wanted_one], policy).pop()?
        };
        wanted.iter().map(&mut failure_of).collect()
    }

    /// Makes one attempt. Makes none if there is a problem with a node already; keeps such a
    /// problem.
    fn attempt(&mut self, wanted: &[Wanted], policy: CopyPolicy) -> Result<NotOpened, String> {
        if wanted.is_empty() {
            return Ok(NotOpened::default());
        }
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let (mut problem, patience) = (None, self.patience.min(LOCK_TIMEOUT));
        let result = self.with_reason(|| {
            let result = takeover::attempt_to_take_over(wanted, policy, patience);
            problem = result
                .as_ref()
                .err()
                .filter(|error| takeover::is_of_a_node(error))
                .map(Error::reason);
            result
        });
        self.problem = problem;
        result
    }

    /// Runs `f` in a subtransaction. An error, also one of PostgreSQL, is returned as text. A
    /// cancel is not caught.
    fn with_reason<T>(&mut self, f: impl FnOnce() -> Result<T, Error>) -> Result<T, String> {
        let limit = self.patience.min(LOCK_TIMEOUT);
        let started = Instant::now();
        let result = subtransaction::catching_errors(|| guc::with_lock_timeout(limit, f));
        let has_waited = match &result {
            Ok(result) => result.as_ref().is_err_and(takeover::is_of_another_session),
            Err(report) => report.sql_error_code() == PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
        };
        if has_waited {
            self.patience = self.patience.saturating_sub(started.elapsed());
        }
        match result {
            Ok(result) => result.map_err(|error| error.in_one_line()),
            Err(report) => Err(error::report_in_one_line(&report)),
        }
    }
}

/// The shards whose schema this node owns, each with whether its sequence has copies on other
/// nodes; without Citus all shards.
fn shards_placed_here() -> Vec<(Shard, IdSequence, bool)> {
    let mut definitions = vec![];
    definition::visit_all(|definition| {
        if definition::owns_sequence(&definition) {
            push(&mut definitions, definition);
        }
    });
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
        None if is_usable() => return Err(Refusal::NoRight { update: false }.error(sequence.oid)),
        None => false, // dropped in the meantime
    };
    // Before any lock: a member of pg_monitor can read each sequence.
    if is_closed && !roles::may_generate(sequence.oid, catalog::current_role()) {
        return Err(Refusal::NoRight { update: false }.error(sequence.oid));
    }
    let must_be_opened = is_closed && visit::lock(sequence.oid);
    Ok(must_be_opened.then(|| copies::role_to_ask_as(sequence.oid)))
}
