//! The view `id_shards`: every shard of the database, its last id, and whether ids may be generated
//! here. Also the version of the library.

use crate::adopt::adopted::{self, KeptFunctions};
use crate::error::shortened;
use crate::pg::catalog;
use crate::pg::guc;
use crate::pg::names;
use crate::pg::reg_types::{Regclass, Regnamespace};
use crate::pg::subtransaction;
use crate::pg::text::push;
use crate::pg::transaction::is_standby;
use crate::pg::window;
use crate::sequence::check;
use crate::sequence::placement::{self, SequencePlacement};
use crate::sequence::read::{self, Locked};
use crate::sequence::refusal::CLOSED_BY_A_MOVE;
use crate::shard::definition::{self, Definition};
use instagram_id_core::copy::{LastHolder, Stage, Tuple};
use instagram_id_core::hlc;
use instagram_id_core::layout::{self, Shard};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;

/// `_shard_states()`: one row for each shard of the database, ordered by number. A part of the view
/// `id_shards`. The last id is NULL if there is none yet, if the sequence belongs to another role
/// than the definition, if the caller lacks SELECT, USAGE and UPDATE on the sequence and is no
/// member of `pg_read_all_stats`, or if another session has locked the sequence to alter it; on a
/// standby, while it is altered.
#[pg_extern(sql = false)]
fn shard_states() -> TableIterator<
    'static,
    (
        name!(shard, i32),
        name!(schema, Regnamespace),
        name!(sequence, Regclass),
        name!(epoch, TimestampWithTimeZone),
        name!(last_id, Option<i64>),
    ),
> {
    let mut shards = vec![];
    definition::visit_all(|definition| push(&mut shards, definition));
    shards.sort_by_key(|definition| (definition.shard.number(), definition.schema.to_u32()));
    TableIterator::new(shards.into_iter().map(|definition| {
        let sequence = definition.sequence;
        // Any role that can create functions beside a sequence can define thousands of shards on
        // it. They do not lock it.
        let tuple = definition::owns_sequence(&definition).then(|| tuple_of(sequence.oid));
        let called = tuple.flatten().filter(|tuple| tuple.is_called);
        let last_value = called.map(|tuple| tuple.last_value);
        let last_value = last_value.filter(|value| (0..=hlc::VALUE_MAX).contains(value));
        (
            definition.shard.number().into(),
            Regnamespace(definition.schema),
            Regclass(sequence.oid),
            names::timestamp(sequence.epoch.at()),
            last_value.map(|value| layout::id_of(value, definition.shard)),
        )
    }))
}

/// The tuple of a sequence that no other session has locked. On a standby the replay of ALTER
/// SEQUENCE takes no lock, and can remove the file that is being read. Any role can alter its
/// sequence all the time, and must not make the view fail for all.
fn tuple_of(sequence: Oid) -> Option<Tuple> {
    let read = || read::tuple_unless_locked(sequence).ok().flatten();
    if is_standby() {
        let is_removed = |state| {
            matches!(
                state,
                PgSqlErrorCode::ERRCODE_DATA_CORRUPTED | PgSqlErrorCode::ERRCODE_UNDEFINED_FILE
            )
        };
        return subtransaction::catching(is_removed, read).ok().flatten();
    }
    read()
}

/// `_shard_reason(shard, schema)`: why ids of the shard that this schema defines may not be
/// generated here, or NULL if they may. Several reasons are separated by "; ". A part of the view
/// `id_shards`. It is STABLE, so that a query that does not select it does not evaluate it. It
/// waits for no other session.
#[pg_extern(sql = false)]
fn shard_reason(
    shard: i32,
    schema: Regnamespace,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Option<String> {
    let own_schema = catalog::schema_of_this_function(fcinfo);
    let Regnamespace(schema) = schema;
    // Any role can define shards. One of them must not make the view fail for all.
    // SAFETY: this function has no other state, and no other reference to it.
    let kept = unsafe { window::state_of_call::<KeptFunctions>(fcinfo) };
    match subtransaction::catching_errors(|| reason_of(shard, schema, own_schema, kept)) {
        Ok(reason) => reason,
        Err(error) => Some(shortened(error.message())),
    }
}

fn reason_of(shard: i32, schema: Oid, own_schema: Oid, kept: &mut KeptFunctions) -> Option<String> {
    guc::with(guc::OWN_SETTINGS, || {
        let name = definition::function_name(Shard::new(shard)?);
        let definition = definition::candidate(&catalog::function_in(schema, &name, &[])?)?;
        // Everything else is for the primary to report, which repairs it.
        if is_standby() {
            return Some("this server is a standby".into());
        }
        if let Err(error) = definition::check_owner(&definition) {
            return Some(error.to_string());
        }
        let (tuple, of_sequence) = match read::tuple_unless_locked(definition.sequence.oid) {
            Ok(tuple) => {
                let state = tuple.map(read::state_of);
                let refusal = check::inspect(definition.sequence, state);
                (tuple, refusal.and_then(|refusal| refusal.reason(state)))
            }
            Err(Locked) => (None, Some("sequence locked by another session".into())),
        };
        let problem = adopted::problem(&definition, own_schema, kept);
        let is_moving = of_sequence.as_deref() == Some(CLOSED_BY_A_MOVE);
        let reasons = [of_sequence, foreign(&definition, tuple, is_moving), problem];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    })
}

/// Where the shard's ids are generated, if not here. On a Citus cluster that is the node that owns
/// the schema, otherwise the database that created or claimed the shard. A move claims its copy
/// when it opens it.
fn foreign(definition: &Definition, tuple: Option<Tuple>, is_moving: bool) -> Option<String> {
    if placement::is_locked() {
        return Some("placement locked by another session".into());
    }
    let placement = placement::of(definition.sequence.oid);
    if let Some(elsewhere) = placement.placed_on.filter(|_| !placement.is_here()) {
        return Some(format!("placed on node {}", placement::name_of_group(elsewhere)));
    }
    let made_for = check::made_for_another(definition.sequence.oid, placement.group);
    if let Some(group) = made_for.filter(|_| catalog::has_citus()) {
        return Some(format!("copy made for group {group}"));
    }
    let is_copied = placement.placed_on.is_none()
        && !is_moving
        && definition.home != definition::this_database();
    let reasons = [
        tuple.and_then(|tuple| not_taken_over(tuple, &placement)),
        is_copied.then(|| "copied from another database".into()),
    ];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Which node was the last to generate ids, if this node has not taken the sequence over from it
/// yet. That node is unreachable if it is not an active node of the cluster, or could not be
/// reached when this node has last tried. So the view itself asks no other node.
fn not_taken_over(tuple: Tuple, placement: &SequencePlacement) -> Option<String> {
    if !tuple.is_closed(placement.has_copies()) {
        return None;
    }
    let stage = tuple.mark().map(|mark| mark.stage);
    let (last, is_cause) = match tuple.copy_state().last_holder {
        LastHolder::Nobody => (None, false),
        LastHolder::Unknown => (Some("last holder: unknown".into()), true),
        LastHolder::Node(group) => {
            let is_reachable = group == placement.group
                || placement::node_of(group).is_some() && stage != Some(Stage::Failed(group));
            // With the setting, the next id continues without it.
            let may_be_left_out =
                || guc::continues_without_lost_nodes() && !placement::is_known(group);
            let unreachable = match is_reachable {
                true => "",
                false if may_be_left_out() => " (removed)",
                false => " (unreachable)",
            };
            (Some(format!("last holder: group {group}{unreachable}")), !is_reachable)
        }
    };
    let other = match stage {
        Some(Stage::Failed(group)) if tuple.copy_state().last_holder != LastHolder::Node(group) => {
            Some(format!("group {group} unreachable"))
        }
        Some(Stage::Opening(_)) if !is_cause => Some("attempt not completed".into()),
        _ => None,
    };
    let parts = [Some("not taken over yet".to_owned()), last, other];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// `instagram_id_version()`: the version of the library that the session has loaded, such as
/// `1.0.0`. A session that was open before a new version was installed keeps the old one.
#[pg_extern(sql = false)]
fn instagram_id_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
