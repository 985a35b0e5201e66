//! `adopt_new_tables`: an event trigger that gives the keys of new tables ids of the shard in whose
//! schema they are.
//!
//! It runs with the privileges of the role that creates the table, and changes only keys that the
//! same statement has created, as a serial or an identity. A default that a statement or a dump
//! sets stays as it is.

use crate::adopt::key_column;
use crate::adopt::new_key::adopt_new_key;
use crate::error::{Error, or_raise};
use crate::functions::convert_defaults;
use crate::pg::catalog;
use crate::pg::event_trigger;
use crate::pg::guc;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::spi::select;
use crate::pg::subtransaction;
use crate::sequence::placement;
use crate::shard::ddl::{self, ShardParts};
use crate::shard::definition::{self, Definition};
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;

/// PostgreSQL ignores what the function of an event trigger returns.
type EventTrigger = ();

/// `adopt_new_tables()`, for an event trigger ON ddl_command_end. A key that cannot get ids stays
/// as it is, with a WARNING that contains the reason. An error would reject statements of roles
/// that have nothing to do with the shard.
#[pg_extern(sql = false)]
fn adopt_new_tables(fcinfo: pg_sys::FunctionCallInfo) -> EventTrigger {
    or_raise(|| {
        if event_trigger::event(fcinfo) != Some(c"ddl_command_end") {
            return Err(Error::EventTriggerMisused);
        }
        // Then the table was converted on the node on which it was created.
        if placement::is_session_of_citus() {
            return Ok(());
        }
        let own_schema = catalog::schema_of_this_function(fcinfo);
        // Most tables are created elsewhere.
        let is_of_shard = |schema| shard_of(schema, own_schema).is_some();
        if !event_trigger::schema_of_new_table(fcinfo).is_none_or(is_of_shard) {
            return Ok(());
        }
        guc::with_own_settings_and_limit(|| {
            new_tables().into_iter().for_each(|table| adopt_new_table(table, own_schema));
        });
        Ok(())
    })
}

/// The tables that the statement has created, except partitions and the tables of an extension.
fn new_tables() -> Vec<Oid> {
    let query = format!(
        "SELECT c.oid FROM pg_event_trigger_ddl_commands() AS d JOIN pg_class AS c ON c.oid = d.objid
         WHERE d.classid = 'pg_class'::regclass AND d.command_tag = 'CREATE TABLE' AND NOT d.in_extension
         AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition AND {}",
        placement::is_no_citus_shard()
    );
    select(&query, &[], |row| row.get(1))
}

/// Gives the keys of a new table ids of the shard in its schema, if there is one.
fn adopt_new_table(table: Oid, own_schema: Oid) {
    let Some(schema) = catalog::relation(table).map(|relation| relation.schema) else { return };
    let Some(shard) = shard_of(schema, own_schema) else { return };
    let keys = match subtransaction::with_cause(|| Ok(key_column::own_keys(table))) {
        Ok(keys) => keys,
        Err(cause) => return warn(table, "?", shard, &cause),
    };
    let is_distributed = placement::is_distributed(schema);
    if keys.is_empty() && !is_distributed {
        return;
    }
    // A role with USAGE can keep a GRANT open. CREATE TABLE itself does not wait for it.
    let locked_shard = || {
        locks::waiting_briefly(|| locks::lock_schema_in_time(schema))?;
        shard_in(schema, shard, own_schema)
    };
    let definition = match subtransaction::with_cause(locked_shard) {
        Ok(Some(definition)) => definition,
        Ok(None) => return,
        Err(cause) => {
            keys.iter().for_each(|name| warn(table, name, shard, &cause));
            if is_distributed {
                convert_defaults::warn_new_table_kept(table, schema, shard, own_schema, &cause);
            }
            return;
        }
    };
    for name in keys {
        let adopt = || adopt_new_key(table, &name, &definition, own_schema);
        if let Err(cause) = subtransaction::with_cause(adopt) {
            warn(table, &name, shard, &cause);
        }
    }
    if is_distributed && convert_defaults::convert_new_table(table, &definition, own_schema) {
        // Citus distributes the table at the end of this statement. Up to version 14.0 it refuses a
        // table with a trigger without this setting, which therefore lasts until the end of the
        // transaction.
        guc::set_local(c"citus.enable_unsafe_triggers", "on");
    }
}

/// The shard whose ids the schema's `next_id()` generates.
fn shard_of(schema: Oid, own_schema: Oid) -> Option<Shard> {
    let next_id = catalog::function_in(schema, "next_id", &[])?;
    ddl::ids_of(&next_id, own_schema).map(|(shard, _)| shard)
}

/// The definition of this shard in its schema; `None` if that has none. Each role with CREATE on a
/// schema can create a `next_id()` there.
fn shard_in(schema: Oid, shard: Shard, own_schema: Oid) -> Result<Option<Definition>, Error> {
    // Another schema that defines the number, too, does not matter.
    let Some(definition) = definition::in_schema_by_number(schema, shard) else {
        return Ok(None);
    };
    ShardParts::of(&definition, own_schema).check_next_id(schema, definition.sequence)?;
    Ok(Some(definition))
}

/// A WARNING: a key stays as it is.
fn warn(table: Oid, name: &str, shard: Shard, cause: &str) {
    // It may have no name in UTF-8.
    let table = subtransaction::with_cause(|| Ok(names::relation(table)))
        .unwrap_or_else(|_| table.to_u32().to_string());
    let kept = Error::NewKeyKept {
        column: format!("{table}.{}", quote_identifier(name)),
        shard: shard.number(),
        cause: cause.to_owned(),
    };
    kept.warn();
}
