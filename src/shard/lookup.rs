//! From the number of a shard to its sequence.

use crate::error::Error;
use crate::pg::catalog::{self, Relation};
use crate::pg::guc;
use crate::pg::invalidation::{self, Cached};
use crate::pg::locks;
use crate::pg::roles;
use crate::pg::spi::select;
use crate::sequence::{IdSequence, visit};
use crate::shard::definition::{self, Definition};
use crate::shard::trust::Trust;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, Oid};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// A shard that was looked up.
#[derive(Clone, Copy)]
struct FoundShard {
    /// The role whose USAGE on the schema was checked.
    role: Oid,
    sequence: IdSequence,
}

thread_local! {
    static SHARDS: RefCell<FxHashMap<u16, Cached<FoundShard>>> = RefCell::new(FxHashMap::default());
}

/// The cached shard, if it is still valid.
fn cached(shard: Shard) -> Option<FoundShard> {
    let found = SHARDS.with_borrow(|shards| shards.get(&shard.number()).copied());
    found.and_then(Cached::get)
}

/// The sequence and epoch of a shard. Until the sequence is locked, the schema may be renamed
/// or dropped.
pub fn sequence_of(shard: Shard) -> Result<IdSequence, Error> {
    let role = catalog::current_role();
    let of_role = |found: &FoundShard| found.role == role;
    if let Some(found) = cached(shard).filter(of_role) {
        return Ok(found.sequence);
    }
    let count = invalidation::settled_count();
    if let Some(found) = cached(shard).filter(of_role) {
        return Ok(found.sequence);
    }
    let Definition { schema, sequence, .. } =
        invalidation::look_up(is_refused, || find_usable(shard, role))?;
    catalog::forget_schema(schema);
    SHARDS.with_borrow_mut(|shards| {
        shards.insert(shard.number(), Cached::new(count, FoundShard { role, sequence }))
    });
    Ok(sequence)
}

/// The definition of a shard, which must exist.
pub fn definition_of(shard: Shard) -> Result<Definition, Error> {
    definition::find(shard)?.ok_or_else(|| missing(shard))
}

/// Whether the role may not use the schema. The search for the definition repeats itself.
fn is_refused(found: &Result<Definition, Error>) -> bool {
    matches!(found, Err(Error::NoRightOnSchema { .. }))
}

/// The definition of a shard whose schema the role may use.
fn find_usable(shard: Shard, role: Oid) -> Result<Definition, Error> {
    let definition = definition_of(shard)?;
    roles::check_may_use_schema(definition.schema, role)?;
    Ok(definition)
}

/// The definition of a shard in the schema of a table, as the default `insta5.next_id()` finds it:
/// one look-up by name, whatever other schemas define. `None` if there is none, or if those who use
/// the table need not trust its owner. Any role with CREATE on the schema could define the shard of
/// another schema in it. A partition counts as the table that is its root, because the owner of its
/// schema need not be trusted by those who use that table. Watches what the result depends on, so
/// that a caller can cache it.
///
/// # Errors
///
/// The sequence belongs to another role than the definition, as while both get another owner. Its
/// number does not find another shard then.
pub fn beside(table: Oid, shard: Shard) -> Result<Option<Definition>, Error> {
    let found = watched_table(table).and_then(|relation| {
        let is_trusted = |found: &Definition| {
            Trust::of_table(&relation, found.schema, false).accepts(found.schema, found.owner)
        };
        definition::candidate_in_schema(relation.schema, shard).filter(is_trusted)
    });
    found.as_ref().map_or(Ok(()), definition::check_owner)?;
    Ok(found)
}

/// The table itself, or the root of a partition. Watches it, and what is between them.
fn watched_table(table: Oid) -> Option<Relation> {
    invalidation::watch(table);
    let relation = catalog::relation(table)?;
    if relation.is_partition { catalog::relation(watched_root_of(table)?) } else { Some(relation) }
}

/// The root of a partition. Watches it, and what is between them.
fn watched_root_of(partition: Oid) -> Option<Oid> {
    let query = "SELECT relid::oid FROM pg_partition_ancestors($1)";
    let ancestors = guc::with(guc::OWN_SETTINGS, || {
        select(query, &[partition.into()], |row| row.get::<Oid>(1))
    });
    ancestors.iter().for_each(|ancestor| invalidation::watch(*ancestor));
    ancestors.last().copied()
}

/// The sequence and epoch of a shard, with the sequence locked until the transaction ends. It
/// is looked up again under the lock, because another session may give the shard another sequence
/// while this one waits.
pub fn lock_sequence_of(shard: Shard) -> Result<IdSequence, Error> {
    loop {
        let sequence = sequence_of(shard)?;
        visit::lock(sequence.oid);
        if sequence_of(shard)? == sequence {
            return Ok(sequence);
        }
        pgrx::check_for_interrupts!();
    }
}

/// Finds a shard that is about to be changed. Also locks its schema, its sequence and its
/// definition, so that they are not dropped or renamed before the change. The lock on the
/// definition has this mode.
pub fn find_to_change(shard: Shard, mode: u32) -> Result<Option<Definition>, Error> {
    loop {
        let Some(found) = definition::find(shard)? else { return Ok(None) };
        // In the order in which DROP SCHEMA ... CASCADE locks them.
        let exists = locks::lock_schema_in_time(found.schema)?;
        locks::lock_in_time(found.sequence.oid, pg_sys::RowExclusiveLock)?;
        locks::lock_function(found.function, mode)?;
        if exists && definition::find(shard)?.as_ref() == Some(&found) {
            return Ok(Some(found));
        }
        pgrx::check_for_interrupts!();
    }
}

/// The error for a shard that does not exist.
pub fn missing(shard: Shard) -> Error {
    let schema = definition::schema_name(shard);
    let schema_exists = catalog::schema_oid(&schema) != Oid::INVALID;
    Error::ShardMissing { shard: shard.number(), schema, schema_exists }
}
