//! The view `id_shards`: every shard of the database, its last id, and whether ids may be generated here. Also the
//! version of the library.

use crate::adopt::adopted;
use crate::citus::placement;
use crate::error::Error;
use crate::pg::catalog;
use crate::pg::guc;
use crate::pg::names;
use crate::pg::raw::guarded;
use crate::pg::reg_types::{Regclass, Regnamespace};
use crate::pg::text::push;
use crate::sequence::check;
use crate::sequence::read::{self, Locked};
use crate::shard::definition::{self, Definition};
use instagram_id_core::hlc;
use instagram_id_core::layout::{self, Shard};
use pgrx::pg_sys::{self, panic::ErrorReport};
use pgrx::prelude::*;

/// `_shard_states()`: one row for each shard of the database, ordered by number. A part of the view `id_shards`. The
/// last id is NULL if there is none yet, if the caller lacks SELECT, USAGE and UPDATE on the sequence and is no member of
/// `pg_read_all_stats`, or if another session has locked the sequence to alter it.
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
        let clock = definition.clock;
        let state = read::state_unless_locked(clock.sequence).ok().flatten();
        let last_value = state.filter(|state| state.is_called).map(|state| state.last_value);
        let last_value = last_value.filter(|value| (0..=hlc::VALUE_MAX).contains(value));
        (
            definition.shard.number().into(),
            Regnamespace(definition.schema),
            Regclass(clock.sequence),
            names::timestamp(clock.epoch.at()),
            last_value.map(|value| layout::id_of(value, definition.shard)),
        )
    }))
}

/// `_shard_reason(shard, schema)`: why ids of the shard that this schema defines may not be generated here, or NULL if
/// they may. Several reasons are separated by "; ". A part of the view `id_shards`. It is STABLE, so that a query that
/// does not select it does not evaluate it. It waits for no other session.
#[pg_extern(sql = false)]
fn shard_reason(shard: i32, schema: Regnamespace, fcinfo: pg_sys::FunctionCallInfo) -> Option<String> {
    let own_schema = catalog::schema_of_this_function(fcinfo);
    let Regnamespace(schema) = schema;
    guc::with(guc::OWN_NAMES, || {
        let name = definition::function_name(Shard::new(shard)?);
        let definition = definition::read(&catalog::function_in(schema, &name, &[])?)?;
        // Everything else is for the primary to report, which repairs it.
        // SAFETY: reads shared memory, without side effects.
        if unsafe { guarded(|raw| raw.RecoveryInProgress()) } {
            return Some("this server is a standby".into());
        }
        let of_sequence = match read::state_unless_locked(definition.clock.sequence) {
            Ok(state) => check::inspect(definition.clock, state).and_then(|refusal| refusal.reason(state)),
            Err(Locked) => Some("sequence locked by another session".into()),
        };
        let reasons = [of_sequence, foreign(&definition), adopted::problem(&definition, own_schema)];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    })
}

/// Where the shard's ids are generated, if not here. On a Citus cluster that is the node that owns the schema,
/// otherwise the database that created or claimed the shard.
fn foreign(definition: &Definition) -> Option<String> {
    if placement::is_locked() {
        return Some("placement locked by another session".into());
    }
    let owner = placement::owner_of(definition.clock.sequence);
    if !owner.is_here() {
        let node = placement::name_of_owner(&owner);
        return Some(format!("placed on node {}", node.unwrap_or_else(|| "of another group".into())));
    }
    (owner.owner.is_none() && definition.home != definition::this_database())
        .then(|| "copied from another database".into())
}

/// `instagram_id_version()`: the version of the library that the session has loaded, such as `1.0.0`. A session that
/// was open before a new version was installed keeps the old one.
#[pg_extern(sql = false)]
fn instagram_id_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// `check_target_schema()`: CREATE EXTENSION runs it first, and then drops it.
///
/// # Errors
///
/// The schema already has a `next_id()`, which is a common name of the original. Unlike PostgreSQL's own error, this one
/// has a hint.
#[pg_extern(sql = false)]
fn check_target_schema(fcinfo: pg_sys::FunctionCallInfo) -> Result<(), ErrorReport> {
    let own_schema = catalog::schema_of_this_function(fcinfo);
    match catalog::function_in(own_schema, "next_id", &[]) {
        None => Ok(()),
        Some(taken) => {
            let (function, schema) = (names::function(taken.oid), names::raw_schema(own_schema));
            Err(Error::NextIdTaken { function, schema }.into())
        }
    }
}
