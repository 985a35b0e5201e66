//! Shards as schemas: making one, finding the clock of one, taking one ahead, saying where it is at home.

use crate::arguments;
use crate::catalog::{self, Expression, Function};
use crate::definition::{self, Definition};
use crate::epoch::{Epoch, US_PER_MS};
use crate::error::{Argument, Error};
use crate::known;
use crate::layout::{self, Shard};
use crate::names;
use crate::oid_types::Regnamespace;
use crate::sequence::{self, Clock};
use crate::sys;
use crate::tick;
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;
use std::ffi::CString;

/// The name of every shard's sequence, as in the original.
pub const SEQUENCE: &str = "table_id_seq";

/// How far an `advance_shard` may take ids ahead of the clock without a warning.
const WARN_AHEAD_US: i64 = 60_000_000;

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
    begin_change("create_shard()");
    let existing = definition::find(shard)?;
    if let Some(existing) = &existing {
        check_same(existing, if_not_exists, schema.as_deref(), epoch)?;
    }
    let schema = match &existing {
        Some(existing) => names::raw_schema(existing.schema),
        None => schema.unwrap_or_else(|| definition::schema_name(shard)),
    };
    let oid = catalog::schema_oid(&schema);
    if oid != Oid::INVALID && !if_not_exists {
        return Err(Error::SchemaExists { shard: shard.number(), schema }.into());
    }
    let sequence =
        existing.as_ref().map_or_else(|| catalog::relation_oid(SEQUENCE, oid), |it| it.clock.sequence);
    let plan =
        Plan { shard, schema, own_schema: schema_of_this_function(fcinfo), is_defined: existing.is_some() };
    let made = plan.carry_out(oid, sequence, epoch)?;
    if existing.is_some() && !made.anything {
        let message = format!("shard {} already exists, skipping", shard.number());
        ErrorReport::new(PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT, message, "instagram_id")
            .report(PgLogLevel::NOTICE);
    }
    Ok(Regnamespace(made.schema))
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
    let clock = clock_of(shard)?;
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
    begin_change("claim_shard()");
    let Some(definition) = definition::find(shard)? else {
        return Err(missing(shard).into());
    };
    let plan = Plan {
        shard,
        schema: names::raw_schema(definition.schema),
        own_schema: schema_of_this_function(fcinfo),
        is_defined: true,
    };
    run(&plan.functions(definition.clock)[DEFINITION].create);
    Ok(())
}

/// The clock that makes a shard's ids. Its schema may be renamed or dropped until the sequence is locked; what was
/// found holds in the era that it was asked for in.
///
/// # Errors
///
/// 42P01 where there is no such shard, 42725 where there are several, 42501 without USAGE on the schema.
pub fn clock_of(shard: Shard) -> Result<Clock, Error> {
    // SAFETY: reads a variable of the backend.
    let role = unsafe { pg_sys::GetUserId() };
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
    known::remember_shard(shard.number(), era, role, definition.clock);
    Ok(definition.clock)
}

/// The error for a shard that is not there.
pub fn missing(shard: Shard) -> Error {
    let schema = definition::schema_name(shard);
    let schema_exists = catalog::schema_oid(&schema) != Oid::INVALID;
    Error::ShardMissing { shard: shard.number(), schema, schema_exists }
}

/// Begins a statement that makes or changes shards: one at a time, so that no two sessions make the same shard in
/// different schemas.
pub fn begin_change(function: &str) {
    let function = CString::new(function).expect("a name");
    // SAFETY: raises PostgreSQL's own error where the transaction cannot write; the lock lasts to its end.
    unsafe {
        pg_sys::PreventCommandIfReadOnly(function.as_ptr());
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

/// Runs statements that were put together here.
pub fn run(statements: &str) {
    Spi::run(statements)
        .unwrap_or_else(|error| unreachable!("PostgreSQL reports a failed statement itself: {error}"));
}

/// Warns where a shard's ids are from now on of a time that is yet to come.
pub fn warn_if_ahead(shard: Shard, epoch: Epoch, last_value: i64) {
    let ahead_us = epoch.at() + tick::ms_of(last_value) * US_PER_MS - names::now();
    if ahead_us > WARN_AHEAD_US {
        let (shard, ahead) = (shard.number(), names::duration(ahead_us / 1_000_000));
        warning!(
            "shard {shard} is {ahead} ahead of the clock: its ids are of a time to come until that catches up"
        );
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

/// A shard to be made, or to be completed.
pub struct Plan {
    pub shard: Shard,
    /// The name of its schema, unquoted.
    pub schema: String,
    /// Where the extension's functions are.
    pub own_schema: Oid,
    /// Whether the schema defines the shard already.
    pub is_defined: bool,
}

/// What became of a plan.
pub struct Made {
    pub schema: Oid,
    /// Whether there was anything to make.
    pub anything: bool,
}

/// A function in a shard's schema.
pub struct Part {
    pub name: String,
    parameters: &'static [Oid],
    pub create: String,
    comment: String,
    /// Whether one that is there already may take its place.
    agrees: Box<dyn Fn(&Function) -> bool>,
}

/// Where the function that defines the shard is among [`Plan::functions`].
const DEFINITION: usize = 3;

impl Plan {
    /// Makes what is missing: of the schema, unless there is one; of the sequence in it, likewise; of the functions.
    fn carry_out(&self, schema: Oid, sequence: Oid, epoch: Option<Epoch>) -> Result<Made, Error> {
        let quoted = quote_identifier(&self.schema);
        let number = self.shard.number();
        let mut made = Made { schema, anything: false };
        if schema == Oid::INVALID {
            run(&format!("CREATE SCHEMA {quoted}"));
            made.schema = catalog::schema_oid(&self.schema);
            let text = format!("logical shard {number} of instagram_id");
            comment_on(pg_sys::NamespaceRelationId, made.schema, &text);
        }
        let mut clock_sequence = sequence;
        if sequence == Oid::INVALID {
            run(&format!("CREATE SEQUENCE {quoted}.{SEQUENCE} AS pg_catalog.int8"));
            clock_sequence = catalog::relation_oid(SEQUENCE, made.schema);
            let text = format!("last issued id of shard {number} without its shard bits");
            comment_on(pg_sys::RelationRelationId, clock_sequence, &text);
            made.anything = true;
        } else if !self.is_defined {
            sequence::examine(sequence)?;
        }
        made.anything |= self.make_functions(made.schema, clock_sequence, epoch)?;
        // SAFETY: both were made above, by this transaction.
        unsafe {
            if schema == Oid::INVALID {
                sys::release_locks_on_new_object(pg_sys::NamespaceRelationId, made.schema);
            }
            if sequence == Oid::INVALID {
                sys::release_locks_on_new_relation(clock_sequence);
            }
        }
        Ok(made)
    }

    /// Makes those of the shard's functions that are not there yet; returns whether there were any.
    pub fn make_functions(&self, schema: Oid, sequence: Oid, epoch: Option<Epoch>) -> Result<bool, Error> {
        let mut anything = false;
        let epoch =
            match (catalog::function_in(schema, "epoch", &[]).as_ref().and_then(definition::epoch_of), epoch)
            {
                (Some(is), Some(asked)) if is != asked => {
                    let (is, asked) = (names::time(is.at()), names::time(asked.at()));
                    return Err(Error::ShardDiffers { shard: self.shard.number(), what: "epoch", is, asked });
                }
                (is, asked) => is.or(asked).unwrap_or(Epoch::ORIGINAL),
            };
        for part in self.functions(Clock { sequence, epoch }) {
            match catalog::function_in(schema, &part.name, part.parameters) {
                Some(function) if (part.agrees)(&function) => {}
                Some(function) => {
                    let (function, schema) = (names::function(function.oid), self.schema.clone());
                    return Err(Error::FunctionExists { function, shard: self.shard.number(), schema });
                }
                None => {
                    run(&part.create);
                    if let Some(function) = catalog::function_in(schema, &part.name, part.parameters) {
                        comment_on(pg_sys::ProcedureRelationId, function.oid, &part.comment);
                    }
                    anything = true;
                }
            }
        }
        Ok(anything)
    }

    /// The functions that a shard consists of, beside its sequence.
    ///
    /// Each holds the constants itself. Where a name is looked up PostgreSQL goes through all functions of that name,
    /// whatever their schemas; so in a database of thousands of shards nothing that makes one should look up a name
    /// that each shard has, such as `epoch()`. That is also why `next_id()` does not call the extension's `next_id`.
    pub fn functions(&self, clock: Clock) -> [Part; 4] {
        const NONE: &[Oid] = &[];
        let schema = quote_identifier(&self.schema);
        let own_schema = names::schema(self.own_schema);
        let own_oid = self.own_schema;
        let (shard, number) = (self.shard, self.shard.number());
        let name = definition::function_name(self.shard);
        let sequence = names::relation(clock.sequence).replace('\'', "''");
        let epoch = names::time(clock.epoch.at());
        [
            Part {
                name: "epoch".into(),
                parameters: NONE,
                create: format!(
                    "CREATE FUNCTION {schema}.epoch() RETURNS pg_catalog.timestamptz\n    \
                         LANGUAGE sql IMMUTABLE PARALLEL SAFE\n    \
                         RETURN '{epoch}'::pg_catalog.timestamptz"
                ),
                comment: format!("instant that the ids of shard {number} count from"),
                agrees: Box::new(move |function| definition::epoch_of(function) == Some(clock.epoch)),
            },
            Part {
                name: "next_id".into(),
                parameters: NONE,
                create: format!(
                    "CREATE FUNCTION {schema}.next_id() RETURNS pg_catalog.int8\n    {}",
                    self.next_id(clock)
                ),
                comment: format!("next id of shard {number}"),
                agrees: Box::new(move |function| makes_ids_of(function, own_oid, shard, clock)),
            },
            Part {
                name: "id_time".into(),
                parameters: &[pg_sys::INT8OID],
                create: format!(
                    "CREATE FUNCTION {schema}.id_time(id pg_catalog.int8) RETURNS pg_catalog.timestamptz\n    \
                         LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE\n    \
                         RETURN {own_schema}.shard_id_time(id, '{epoch}'::pg_catalog.timestamptz)"
                ),
                comment: format!("when an id of shard {number} was made, to the millisecond"),
                agrees: Box::new(move |function| reads_times(function, own_oid, clock.epoch)),
            },
            Part {
                name: name.clone(),
                parameters: NONE,
                create: format!(
                    "CREATE OR REPLACE FUNCTION {schema}.{name}\
                         (OUT sequence pg_catalog.regclass, OUT epoch pg_catalog.timestamptz, OUT home pg_catalog.text)\n    \
                         LANGUAGE sql IMMUTABLE PARALLEL SAFE\n    \
                         BEGIN ATOMIC\n    \
                         SELECT '{sequence}'::pg_catalog.regclass AS sequence, \
                         '{epoch}'::pg_catalog.timestamptz AS epoch, '{}'::pg_catalog.text AS home;\n    \
                         END",
                    definition::this_database()
                ),
                comment: format!("what shard {number} consists of; defines it for instagram_id"),
                agrees: Box::new(move |function| definition::read(function).is_some()),
            },
        ]
    }

    /// What follows the name and the result of a function that makes the shard's ids.
    pub fn next_id(&self, clock: Clock) -> String {
        format!(
            "LANGUAGE sql VOLATILE PARALLEL UNSAFE\n    \
             RETURN {}.shard_next_id({}, '{}'::pg_catalog.regclass, '{}'::pg_catalog.timestamptz)",
            names::schema(self.own_schema),
            self.shard.number(),
            names::relation(clock.sequence).replace('\'', "''"),
            names::time(clock.epoch.at())
        )
    }
}

/// Whether the function is `next_id()` as a [`Plan`] makes it.
fn makes_ids_of(function: &Function, own_schema: Oid, shard: Shard, clock: Clock) -> bool {
    let arguments = calls(function, own_schema, "shard_next_id").unwrap_or_default();
    let [number, sequence, epoch] = arguments.as_slice() else { return false };
    number.constant(pg_sys::INT4OID).is_some_and(|number| number.value() == usize::from(shard.number()))
        && sequence.oid(pg_sys::REGCLASSOID) == Some(clock.sequence)
        && epoch.time() == Some(clock.epoch.at())
}

/// Whether the function is `id_time(id)` as a [`Plan`] makes it.
fn reads_times(function: &Function, own_schema: Oid, epoch: Epoch) -> bool {
    let arguments = calls(function, own_schema, "shard_id_time").unwrap_or_default();
    let [_, is] = arguments.as_slice() else { return false };
    is.time() == Some(epoch.at())
}

/// The arguments that the function calls one of the extension's with, where that is all it does.
fn calls(function: &Function, own_schema: Oid, name: &str) -> Option<Vec<Expression>> {
    let [call] = function.body.as_deref()? else { return None };
    let (callee, arguments) = call.call()?;
    let callee = catalog::function(callee)?;
    (callee.schema == own_schema && callee.name == name).then_some(arguments)
}

/// Gives an object its comment. Unlike the statement COMMENT ON it takes no lock on it, of which a transaction that
/// makes thousands of shards would hold too many.
fn comment_on(class: Oid, object: Oid, text: &str) {
    let text = CString::new(text).expect("a text without NUL");
    // SAFETY: the text is copied.
    unsafe { pg_sys::CreateComments(object, class, 0, text.as_ptr()) }
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
