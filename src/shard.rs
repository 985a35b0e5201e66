//! Shards as schemas: making one, finding the clock of one, taking one ahead, saying where it is at home.

use crate::arguments;
use crate::catalog;
use crate::definition::{self, Definition};
use crate::epoch::{Epoch, US_PER_MS};
use crate::error::{Argument, Error};
use crate::known;
use crate::layout::{self, Shard};
use crate::names;
use crate::oid_types::Regnamespace;
use crate::plan::Plan;
use crate::query;
use crate::sequence::{self, Clock};
use crate::settings;
use crate::tick;
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;
use std::ffi::CString;

/// `create_shard(shard, schema, epoch, if_not_exists)`: makes a schema (`insta<shard>` without a name), in it a
/// sequence, `next_id()`, `id_time(id)`, `epoch()` and `shard_<shard>()`, which defines the shard. They belong to
/// the caller, not to the extension, so they are dumped with the schema.
///
/// The functions have parsed bodies: they follow no search_path later, are inlined into the defaults and queries
/// that call them, and are dumped after what they name.
///
/// With `if_not_exists` what is there already stays, provided that it is what would be made, and the rest is made.
///
/// # Errors
///
/// 22004 without a shard, 22023 for one outside 0..8191, 42602 or 42622 for a name that a schema cannot have, 22008
/// for an epoch with which ids cannot be made now, 42710 where the shard is there already, 42P06 where the schema
/// is, 42723 where a function is that would not agree, 42501 without the right to create schemas in this database.
#[pg_extern(volatile, parallel_unsafe)]
fn create_shard(
    shard: Option<i32>,
    schema: default!(Option<String>, "NULL"),
    epoch: default!(Option<TimestampWithTimeZone>, "NULL"),
    if_not_exists: default!(Option<bool>, "false"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<Regnamespace, ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let schema = schema.map(arguments::schema_name).transpose()?;
    let epoch = epoch.map(arguments::workable_epoch).transpose()?;
    let if_not_exists = arguments::not_null(if_not_exists, Argument::IfNotExists)?;
    let own_schema = schema_of_this_function(fcinfo);
    prevent_if_read_only("create_shard()");
    settings::with(settings::OWN_NAMES, || {
        // Nobody has to wait for somebody else's statement that makes nothing.
        let is_whole = |definition: &Definition| {
            let plan = Plan::of(definition, own_schema);
            plan.missing_functions(definition.schema, definition.clock)
                .is_ok_and(|missing| missing.is_empty())
        };
        if if_not_exists && let Some(existing) = definition::find(shard)?.filter(is_whole) {
            check_same(&existing, if_not_exists, schema.as_deref(), epoch)?;
            let message = format!("shard {} already exists, skipping", shard.number());
            ErrorReport::new(PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT, message, "instagram_id")
                .report(PgLogLevel::NOTICE);
            return Ok(Regnamespace(existing.schema));
        }
        begin_change();
        if let Some(existing) = find_to_change(shard, if_not_exists)? {
            check_same(&existing, if_not_exists, schema.as_deref(), epoch)?;
            Plan::of(&existing, own_schema).complete(&existing)?;
            return Ok(Regnamespace(existing.schema));
        }
        let schema = schema.unwrap_or_else(|| definition::schema_name(shard));
        if !if_not_exists && catalog::schema_oid(&schema) != Oid::INVALID {
            return Err(Error::SchemaExists { shard: shard.number(), schema }.into());
        }
        Ok(Regnamespace(Plan { shard, schema, own_schema }.make(epoch)?))
    })
}

/// `advance_shard(shard, id)`: sees to it that the shard's next id is greater than this one, and returns its last
/// id as it is then. Never takes it back. For after a restore or a move, where ids are known that the sequence does
/// not know of.
///
/// Like `setval` it takes effect at once, for all sessions, and is not undone by a rollback.
///
/// # Errors
///
/// 22004 without a shard or id, 22023 for a shard outside 0..8191 or an id that is another shard's or negative, 2200H
/// for the last id of all, 42P01 where there is no such shard, 42501 without UPDATE on its sequence, and those of the
/// moment as for `next_id`.
#[pg_extern(volatile, parallel_unsafe)]
fn advance_shard(shard: Option<i32>, id: Option<i64>) -> Result<i64, ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let id = arguments::not_null(id, Argument::Id)?;
    if id < 0 {
        return Err(Error::IdNegative(id).into());
    }
    let id_shard = layout::shard_of(id).number();
    if id_shard != shard.number() {
        return Err(Error::IdOfAnotherShard { id, id_shard, shard: shard.number() }.into());
    }
    let value = layout::value_of(id);
    if value >= tick::VALUE_MAX {
        return Err(Error::IdIsTheLast(id).into());
    }
    let clock = lock_clock_of(shard)?;
    let last = sequence::advance(clock, value, "advance_shard()")?;
    warn_if_ahead(shard, clock.epoch, last);
    Ok(layout::id_of(last, shard))
}

/// `claim_shard(shard)`: says that from now on this database is where the shard is at home, after a move or a
/// restore; see the column `at_home` of `shards`.
///
/// # Errors
///
/// 22004 without a shard, 22023 for one outside 0..8191, 42P01 where there is none, 42501 for who does not own its
/// functions.
#[pg_extern(volatile, parallel_unsafe)]
fn claim_shard(shard: Option<i32>, fcinfo: pg_sys::FunctionCallInfo) -> Result<(), ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let own_schema = schema_of_this_function(fcinfo);
    prevent_if_read_only("claim_shard()");
    settings::with(settings::OWN_NAMES, || {
        check_owner(&definition::find(shard)?.ok_or_else(|| missing(shard))?)?;
        begin_change();
        let definition = find_to_change(shard, true)?.ok_or_else(|| missing(shard))?;
        check_owner(&definition)?;
        query::run(&Plan::of(&definition, own_schema).definition(definition.clock).create);
        Ok(())
    })
}

fn check_owner(definition: &Definition) -> Result<(), Error> {
    if catalog::has_rights_of(catalog::current_role(), definition.owner) {
        Ok(())
    } else {
        Err(Error::NotOwner(names::function(definition.function)))
    }
}

/// Finds a shard that is to be changed, and where `keep` is set keeps its schema and its sequence from being dropped
/// or renamed before that.
fn find_to_change(shard: Shard, keep: bool) -> Result<Option<Definition>, Error> {
    loop {
        let Some(found) = definition::find(shard)? else { return Ok(None) };
        if !keep {
            return Ok(Some(found));
        }
        let is_there = catalog::lock_schema(found.schema) && sequence::lock(found.clock.sequence);
        if is_there && definition::find(shard)?.as_ref() == Some(&found) {
            return Ok(Some(found));
        }
        pgrx::check_for_interrupts!();
    }
}

/// The clock that makes a shard's ids. Its schema may be renamed or dropped until the sequence is locked; what was
/// found holds in the era that it was asked for in.
///
/// # Errors
///
/// 42P01 where there is no such shard, 42725 where there are several, 42501 without USAGE on the schema.
pub fn clock_of(shard: Shard) -> Result<Clock, Error> {
    let role = catalog::current_role();
    if let Some(clock) = known::recall_shard(shard.number(), role) {
        return Ok(clock);
    }
    let era = known::era();
    let definition = definition::find(shard)?.ok_or_else(|| missing(shard))?;
    if !catalog::may_use_schema(definition.schema, role) {
        let name = names::schema(definition.schema);
        return Err(Error::NoRightOnSchema { name, role: names::current_role() });
    }
    catalog::forget_schema(definition.schema);
    known::remember_shard(shard.number(), era, role, definition.clock, definition.schema);
    Ok(definition.clock)
}

/// The schema of a shard, where there is one.
///
/// # Errors
///
/// Those of [`clock_of`].
pub fn schema_of(shard: Shard) -> Result<Oid, Error> {
    clock_of(shard)?;
    if let Some(schema) = known::recall_schema(shard.number()) {
        return Ok(schema);
    }
    Ok(definition::find(shard)?.ok_or_else(|| missing(shard))?.schema)
}

/// The clock that makes a shard's ids, with its sequence locked to the transaction's end. Waiting for the lock may
/// have meant waiting for whoever has put another sequence in its place.
fn lock_clock_of(shard: Shard) -> Result<Clock, Error> {
    loop {
        let clock = clock_of(shard)?;
        sequence::lock(clock.sequence);
        if clock_of(shard)? == clock {
            return Ok(clock);
        }
        pgrx::check_for_interrupts!();
    }
}

/// The error for a shard that is not there.
pub fn missing(shard: Shard) -> Error {
    let schema = definition::schema_name(shard);
    let schema_exists = catalog::schema_oid(&schema) != Oid::INVALID;
    Error::ShardMissing { shard: shard.number(), schema, schema_exists }
}

/// Whether a shard is of someone whose word counts for less than the caller's: a number that somebody else has taken
/// is not silently what the database's owner asks for.
fn is_doubtful(existing: &Definition) -> bool {
    catalog::rules_database(catalog::current_role()) && !catalog::rules_database(existing.owner)
}

/// Raises PostgreSQL's own error where the transaction cannot write.
pub fn prevent_if_read_only(function: &str) {
    let function = CString::new(function).expect("a name");
    // SAFETY: the name is copied into the error.
    unsafe { pg_sys::PreventCommandIfReadOnly(function.as_ptr()) }
}

/// Begins to make or change a shard: one transaction at a time, so that no two make the same one in different schemas.
pub fn begin_change() {
    // SAFETY: the lock lasts to the transaction's end.
    unsafe {
        let extension = pg_sys::get_extension_oid(c"instagram_id".as_ptr(), false);
        let mode = pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE;
        pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, extension, 0, mode);
    }
}

/// The schema that the extension's functions are in.
pub fn schema_of_this_function(fcinfo: pg_sys::FunctionCallInfo) -> Oid {
    // SAFETY: PostgreSQL passes a call's fcinfo with its flinfo.
    unsafe { pg_sys::get_func_namespace((*(*fcinfo).flinfo).fn_oid) }
}

/// Warns where a shard's ids are from now on of a time that is yet to come.
pub fn warn_if_ahead(shard: Shard, epoch: Epoch, last_value: i64) {
    let ahead_us = epoch.at() + tick::ms_of(last_value) * US_PER_MS - names::now();
    if ahead_us > sequence::WARN_AHEAD_MS * US_PER_MS {
        let name = format!("shard {}", shard.number());
        warning!("{}", names::ahead_of_clock(&name, ahead_us / 1_000_000));
    }
}

/// An existing shard is an error, or with if_not_exists what was asked for, if it is.
fn check_same(
    existing: &Definition,
    if_not_exists: bool,
    schema: Option<&str>,
    epoch: Option<Epoch>,
) -> Result<(), Error> {
    let shard = existing.shard.number();
    let name = names::raw_schema(existing.schema);
    if is_doubtful(existing) {
        let function = names::function(existing.function);
        return Err(Error::ShardOfAnother { shard, function, role: names::role(existing.owner) });
    }
    if !if_not_exists {
        return Err(Error::ShardExists { shard, schema: quote_identifier(name) });
    }
    if let Some(asked) = schema.filter(|asked| *asked != name) {
        return Err(Error::ShardDiffers {
            shard,
            what: "schema",
            is: quote_identifier(name),
            asked: quote_identifier(asked),
        });
    }
    if let Some(asked) = epoch.filter(|asked| *asked != existing.clock.epoch) {
        return Err(Error::ShardDiffers {
            shard,
            what: "epoch",
            is: names::time(existing.clock.epoch.at()),
            asked: names::time(asked.at()),
        });
    }
    Ok(())
}

extension_sql!(
    r#"
COMMENT ON FUNCTION create_shard(integer, text, timestamptz, boolean) IS
'makes a logical shard (0 to 8191): a schema, insta<shard> unless named, with its sequence and functions';
COMMENT ON FUNCTION advance_shard(integer, bigint) IS
'makes the next id of a shard greater than this one, if it is not yet; returns its last id';
COMMENT ON FUNCTION claim_shard(integer) IS
'says that a shard is at home in this database, after a move or a restore';
"#,
    name = "comments_shard",
    requires = [create_shard, advance_shard, claim_shard],
);
