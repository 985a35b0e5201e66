//! Taking over what makes ids already: a schema that runs the PL/pgSQL original, a table with a serial key.
//!
//! The switch must not let an old id and a new one meet. Whoever writes through a column's default waits for a lock
//! on the table before the default is planned, and whoever has called `nextval` holds a lock on the sequence to the
//! transaction's end. So with both locks in hand no call is under way but one that has not come to its `nextval`
//! yet. Such a one still finishes in the old way, at the clock's time: the new ids start a second after that.

use crate::adopted::{self, Adopted, KEPT};
use crate::arguments::{self, not_null};
use crate::catalog::{self, Function};
use crate::definition::{self, Definition};
use crate::epoch::{Epoch, US_PER_MS};
use crate::error::{Argument, Error};
use crate::layout::{self, SEQ_MAX, Shard};
use crate::names;
use crate::oid_types::{Regclass, Regnamespace, Regprocedure};
use crate::original::Original;
use crate::plan::{self, Plan};
use crate::query::{self, select};
use crate::rights;
use crate::sequence::{self, Clock};
use crate::settings;
use crate::shard;
use crate::sys;
use crate::tick::{self, VALUES_PER_MS};
use pgrx::PgXactCallbackEvent;
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::{quote_identifier, quote_literal, quote_qualified_identifier};
use std::time::{Duration, Instant};

/// New ids start this far ahead of the clock, for old calls that are still to read it.
const GRACE_MS: i64 = 1000;

/// An old key further ahead of the clock than this was not made by it.
const AHEAD_MAX_MS: i64 = 24 * 3_600_000;

/// An epoch that only the caller knows is taken for what it is if the newest id is of the last hour by it, or of the next
/// minute: a time zone that was mistaken is an hour or more.
const CLAIM_AGE_MAX_MS: i64 = 3_600_000;
const CLAIM_AHEAD_MAX_MS: i64 = 60_000;

/// Keys of the epoch's first day are no ids, but those of a serial.
const FIRST_DAY_MS: i64 = 24 * 3_600_000;

/// How long to try for the locks in all, and how long at a time, for as long writers wait behind us.
const LOCK_TRIES_FOR: Duration = Duration::from_secs(10);
const LOCK_TIMEOUT: &str = "500ms";
const LOCK_PAUSE_MIN: Duration = Duration::from_millis(3);

/// How many functions an error says of why they are not the original.
const REASONS_MAX: usize = 3;

/// How long `unadopt_shard` waits for the clock to catch up.
const CATCH_UP_MS: i64 = 2000;

/// `adopt_shard(shard, schema, function, sequence, epoch, dry_run)`: takes over a schema that runs the PL/pgSQL
/// original. The function stays the same object, with its name, owner and grants; its body is kept as
/// `original_<name>()` for [`unadopt_shard`]. `starts_above` is what all new ids are greater than, NULL in a dry run.
///
/// Shard, sequence and epoch are read from the function's body; where an argument names them as well they must
/// agree, and where the body does not say them plainly an argument must. The next id is greater than all that the
/// original has made.
///
/// # Errors
///
/// 22004 where a constant is neither in the body nor among the arguments, 22023 where the two differ, 3F000 and
/// 42883 for a schema or function that is not there, 42725 where it could be several, 55000 for a function that is
/// not the original or a key that is far ahead of the clock, 55P03 where writers do not let go, 42710 and 42723 as
/// for `create_shard`, 42501 for who does not own function and sequence.
#[pg_extern(volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn adopt_shard(
    shard: Option<i32>,
    schema: default!(Option<String>, "NULL"),
    function: default!(Option<Regprocedure>, "NULL"),
    sequence: default!(Option<Regclass>, "NULL"),
    epoch: default!(Option<TimestampWithTimeZone>, "NULL"),
    dry_run: default!(Option<bool>, "false"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<
    TableIterator<
        'static,
        (
            name!(shard, i32),
            name!(schema, Regnamespace),
            name!(function, Regprocedure),
            name!(sequence, Regclass),
            name!(epoch, TimestampWithTimeZone),
            name!(newest_id, Option<i64>),
            name!(starts_above, Option<i64>),
            name!(script, String),
        ),
    >,
    ErrorReport,
> {
    let asked_shard = shard.map(arguments::shard).transpose()?;
    let dry_run = not_null(dry_run, Argument::DryRun)?;
    let own_schema = shard::schema_of_this_function(fcinfo);
    settings::with(settings::OWN_NAMES, || {
        if !dry_run {
            shard::prevent_if_read_only("adopt_shard()");
            shard::begin_change();
        }
        let existing = asked_shard.map(definition::find).transpose()?.flatten();
        let function = match function {
            Some(Regprocedure(oid)) => {
                let function = function_by_oid(oid)?;
                if let Some(existing) = &existing
                    && plan::clock_of_ids(&function, own_schema, existing.shard).is_some()
                {
                    return Err(adopted_already(existing, own_schema).into());
                }
                if let Some(asked) = schema.filter(|asked| *asked != names::raw_schema(function.schema)) {
                    let read = names::schema(function.schema);
                    let (function, asked) = (names::function(oid), quote_identifier(asked));
                    let constant = Argument::Schema;
                    return Err(Error::OriginalDiffers { function, constant, read, asked }.into());
                }
                function
            }
            None => {
                let name = match (schema, asked_shard.map(definition::schema_name), &existing) {
                    (Some(schema), ..) => schema,
                    (None, Some(name), Some(existing)) if catalog::schema_oid(&name) == Oid::INVALID => {
                        names::raw_schema(existing.schema)
                    }
                    (None, Some(name), _) => name,
                    (None, None, _) => return Err(Error::Null(Argument::Shard).into()),
                };
                let found = find_original(&name);
                let of_shard = existing.filter(|existing| names::raw_schema(existing.schema) == name);
                match (found, of_shard) {
                    // It is a shard, and has nothing else to take over.
                    (Err(Error::OriginalMissing { .. } | Error::NotOriginal { .. }), Some(existing)) => {
                        return Err(adopted_already(&existing, own_schema).into());
                    }
                    (found, _) => found?,
                }
            }
        };
        check_owner(&function)?;
        let read = adopted::read_original(&function)?;
        let adoption = Adoption::new(function, read, asked_shard, sequence, epoch, own_schema)?;
        adoption.check()?;
        let script = adoption.script();
        let (newest, above) = if dry_run {
            (adoption.newest_id()?, None)
        } else {
            let (newest, above) = adoption.carry_out()?;
            (newest, Some(layout::id_of(above, adoption.plan.shard)))
        };
        let row = (
            adoption.plan.shard.number().into(),
            Regnamespace(adoption.function.schema),
            Regprocedure(adoption.function.oid),
            Regclass(adoption.clock.sequence),
            names::timestamp(adoption.clock.epoch.at()),
            newest.map(|(newest, _)| newest),
            above,
            script,
        );
        Ok(TableIterator::once(row))
    })
}

/// `unadopt_shard(shard)`: brings the PL/pgSQL original back, in place, and takes away what `adopt_shard` made.
///
/// # Errors
///
/// 22004 without a shard, 22023 for one outside 0..8191, 42P01 where there is none, 55000 where it was not adopted
/// or is ahead of the clock, which the original goes by, 55P03 where writers do not let go, 2BP01 where something
/// else has come to depend on what was made, 42501 for who does not own it.
#[pg_extern(volatile, parallel_unsafe)]
fn unadopt_shard(shard: Option<i32>, fcinfo: pg_sys::FunctionCallInfo) -> Result<Regprocedure, ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let own_schema = shard::schema_of_this_function(fcinfo);
    settings::with(settings::OWN_NAMES, || {
        shard::prevent_if_read_only("unadopt_shard()");
        shard::begin_change();
        let definition = definition::find(shard)?.ok_or_else(|| shard::missing(shard))?;
        let mut adopted = adopted::functions(&definition, own_schema);
        if adopted.is_empty() {
            adopted.extend(adopted::original_of(&definition));
        }
        let Some(first) = adopted.first() else {
            let schema = names::schema(definition.schema);
            return Err(Error::NotAdopted { shard: shard.number(), schema }.into());
        };
        for one in &adopted {
            check_owner(&one.function)?;
        }
        // One that was replaced since goes by the clock already.
        let mut clocks: Vec<Clock> = adopted.iter().filter_map(|one| one.clock).collect();
        clocks.dedup();
        let sequences: Vec<Oid> = clocks.iter().map(|clock| clock.sequence).collect();
        let columns: Vec<Column> = adopted.iter().flat_map(|one| columns_of(one.function.oid)).collect();
        let wait = || clocks.iter().try_for_each(|clock| wait_for_the_clock(shard, *clock));
        wait()?; // first where nobody has to wait along
        lock_out_writers(lock_tables(&columns), &sequences)?;
        wait()?;
        let restore: Vec<Option<String>> = adopted.iter().map(restoring_script).collect();
        // What defines the shard goes first: from then on nothing is a change of a shard.
        let drop = format!("DROP FUNCTION {}", parts_beside(&definition, &adopted).join(", "));
        sys::with_rights_of(first.function.owner, || query::run(&drop));
        for (one, script) in adopted.iter().zip(&restore) {
            if let Some(script) = script {
                sys::with_rights_of(one.function.owner, || query::run(script));
            }
        }
        Ok(Regprocedure(first.function.oid))
    })
}

/// The functions of a shard that none of the adopted ones is.
fn parts_beside(definition: &Definition, adopted: &[Adopted]) -> Vec<String> {
    let parts: [(&str, &[Oid]); 3] = [("next_id", &[]), ("id_time", &[pg_sys::INT8OID]), ("epoch", &[])];
    let others = parts.iter().filter(|(name, _)| adopted.iter().all(|one| one.function.name != *name));
    let others = others.filter_map(|(name, types)| catalog::function_in(definition.schema, name, types));
    let mut names: Vec<String> = others.map(|function| names::function(function.oid)).collect();
    names.push(names::function(definition.function));
    names
}

/// Brings an original back under its name. One that has come back by itself stays as it is.
fn restoring_script(adopted: &Adopted) -> Option<String> {
    let kept = adopted.kept.as_ref()?;
    let drop = format!("DROP FUNCTION {}", names::function(kept.oid));
    Some(match adopted.clock {
        Some(_) => format!("{};\n{drop}", renamed(kept, &adopted.function.name, true)),
        None => drop,
    })
}

/// `adopt_table(shard, table, column, dry_run)`: makes the ids of a shard the default of a column that a serial or
/// an identity has filled so far. Old keys stay as they are, below all new ones; the old sequence stays, too, unless it
/// is an identity's.
///
/// # Errors
///
/// 22004 without a shard or table, 42P01 where the shard or the table is not there, 42703 for a column that is not,
/// 42804 for one that is no bigint, 55000 for one whose default is something else or whose keys are far ahead of the
/// clock, 42501 for who does not own the table or may not use the shard's sequence.
#[pg_extern(volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn adopt_table(
    shard: Option<i32>,
    table: Option<Regclass>,
    column: default!(Option<String>, "NULL"),
    dry_run: default!(Option<bool>, "false"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<
    TableIterator<
        'static,
        (
            name!(shard, i32),
            name!(table_name, Regclass),
            name!(column_name, String),
            name!(newest_key, Option<i64>),
            name!(adopted, bool),
            name!(script, String),
            name!(way_back, String),
        ),
    >,
    ErrorReport,
> {
    let shard = arguments::shard_not_null(shard)?;
    let Regclass(table) = not_null(table, Argument::Table)?;
    let dry_run = not_null(dry_run, Argument::DryRun)?;
    let own_schema = shard::schema_of_this_function(fcinfo);
    if catalog::relation(table).is_none() {
        return Err(Error::TableMissing(table).into());
    }
    settings::with(settings::OWN_NAMES, || {
        if !dry_run {
            shard::prevent_if_read_only("adopt_table()");
            shard::begin_change();
        }
        let definition = definition::find(shard)?.ok_or_else(|| shard::missing(shard))?;
        // Its next_id() is to be what the table's writers call from now on.
        let missing =
            Plan::of(&definition, own_schema).missing_functions(definition.schema, definition.clock)?;
        if !missing.is_empty() {
            return Err(Error::ShardIncomplete { shard: shard.number() }.into());
        }
        let column = SerialColumn::find(table, column, &definition)?;
        rights::check_writers(table, &definition, own_schema)?;
        let lock = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", names::relation(table));
        let column = if dry_run {
            column
        } else {
            lock_out_writers(Some(lock.clone()), &[])?;
            SerialColumn::find(table, Some(column.column.name), &definition)? // as it is now
        };
        let newest = newest_id(std::slice::from_ref(&column.column))?;
        let (change, way_back) = column.scripts(&names::schema(definition.schema));
        let script = format!("{lock};\n{change};");
        check_not_far_ahead(newest.as_ref(), definition.clock.epoch)?;
        if !dry_run {
            // Of old keys only ids can be near the clock, say those of another generator; it may be set back yet.
            let newest_ms =
                newest.as_ref().filter(|newest| newest.0 >= 0).map(|newest| layout::ms_of(newest.0) as i64);
            let now_ms = now_ms(definition.clock.epoch);
            if let Some(ms) = newest_ms.filter(|ms| ms + AHEAD_MAX_MS >= now_ms) {
                sequence::advance(definition.clock, (ms + 1) * VALUES_PER_MS, "adopt_table()")?;
            }
            query::run(&change);
        }
        let row = (
            shard.number().into(),
            Regclass(table),
            column.column.name.clone(),
            newest.map(|(newest, _)| newest),
            !dry_run,
            script,
            way_back,
        );
        Ok(TableIterator::once(row))
    })
}

/// A column that a function's ids are the default of.
#[derive(Clone, PartialEq)]
struct Column {
    table: Oid,
    name: String,
    /// Whether it holds ids as they are, and not as text, say.
    is_bigint: bool,
}

impl Column {
    /// Its name with those of table and schema, for messages.
    fn qualified(&self) -> String {
        format!("{}.{}", names::relation(self.table), quote_identifier(&self.name))
    }
}

/// The original in a schema, and what it is to become.
struct Adoption {
    function: Function,
    /// The function's body, as it was read.
    source: Option<String>,
    plan: Plan,
    clock: Clock,
    columns: Vec<Column>,
    /// The shard where it is one already: the function was replaced since, or is another one of its.
    existing: Option<Definition>,
    /// Whether the caller alone says the shard, and the epoch.
    claims: Claims,
}

#[derive(Clone, Copy)]
struct Claims {
    shard: bool,
    epoch: bool,
}

impl Adoption {
    /// Puts together what the body says and what the caller says.
    fn new(
        function: Function,
        read: Original,
        shard: Option<Shard>,
        sequence: Option<Regclass>,
        epoch: Option<TimestampWithTimeZone>,
        own_schema: Oid,
    ) -> Result<Adoption, Error> {
        let name = names::function(function.oid);
        let read_shard = match read.shard.map(i32::try_from) {
            Some(Ok(number)) => Some(arguments::shard(number)?),
            Some(Err(_)) => {
                return Err(Error::NotOriginal { function: name, why: "its shard is out of range".into() });
            }
            None => None,
        };
        let read_epoch = read.epoch_ms.and_then(Epoch::from_unix_ms);
        let read_sequence = read.sequence.as_deref().and_then(adopted::sequence_named);
        let claims = Claims { shard: read_shard.is_none(), epoch: read_epoch.is_none() };
        let epoch = epoch.map(arguments::epoch).transpose()?;
        let agreed_shard =
            agree(&name, Argument::Shard, read_shard, shard, |shard| shard.number().to_string())?;
        let sequence = sequence.map(|Regclass(oid)| oid);
        let sequence =
            agree(&name, Argument::Sequence, read_sequence, sequence, |oid| names::relation(*oid))?;
        let epoch = agree(&name, Argument::Epoch, read_epoch, epoch, |epoch| names::time(epoch.at()))?;
        let epoch = arguments::workable_epoch(names::timestamp(epoch.at()))?;
        let source = catalog::source(function.oid);
        let schema = names::raw_schema(function.schema);
        let plan = Plan { shard: agreed_shard, schema, own_schema };
        let (clock, existing) = (Clock { sequence, epoch }, definition::find(agreed_shard)?);
        let mut adoption = Adoption { function, source, plan, clock, columns: vec![], existing, claims };
        adoption.columns = adoption.columns_with_its_ids();
        Ok(adoption)
    }

    /// The columns that the function fills, and those that the shard's `next_id()` does from the same sequence, where it
    /// is there from an earlier adoption.
    fn columns_with_its_ids(&self) -> Vec<Column> {
        let mut columns = columns_of(self.function.oid);
        if let Some(next_id) = catalog::function_in(self.function.schema, "next_id", &[])
            && plan::makes_ids_of(&next_id, self.plan.own_schema, self.plan.shard, self.clock)
        {
            columns.extend(columns_of(next_id.oid));
        }
        columns
    }

    /// What would keep the function from generating ids of a shard that exists already.
    fn check_existing(&self, existing: &Definition) -> Result<(), Error> {
        let (function, shard) = (names::function(self.function.oid), self.plan.shard.number());
        if existing.schema != self.function.schema {
            let (schema, sequence) = (names::schema(existing.schema), names::relation(self.clock.sequence));
            let literal = quote_literal(&sequence);
            let call = match self.clock.epoch {
                Epoch::ORIGINAL => format!("next_id({shard}, {literal})"),
                epoch => format!("next_id({shard}, {literal}, '{}')", names::time(epoch.at())),
            };
            return Err(Error::ShardElsewhere { shard, schema, function, sequence, call });
        }
        if !catalog::has_rights_of(self.function.owner, existing.owner) {
            return Err(Error::NotOwner(names::function(existing.function)));
        }
        let epoch = |clock: Clock| names::time(clock.epoch.at());
        let sequence = |clock: Clock| names::relation(clock.sequence);
        let differs = |what, show: &dyn Fn(Clock) -> String| {
            let (read, is) = (show(self.clock), show(existing.clock));
            Err(Error::AdoptionDiffers { function: function.clone(), what, read, shard, is })
        };
        if self.clock.epoch != existing.clock.epoch {
            return differs(Argument::Epoch, &epoch);
        }
        if self.clock.sequence != existing.clock.sequence && self.function.name == "next_id" {
            return differs(Argument::Sequence, &sequence);
        }
        // One that was closed for a move must not be opened by the way.
        let query = "SELECT seqmax FROM pg_sequence WHERE seqrelid = $1";
        let max = select(query, &[existing.clock.sequence.into()], |row| row.get::<i64>(1));
        let is_closed = |max: &i64| *max < tick::VALUE_MAX && tick::ms_of(*max) >= FIRST_DAY_MS;
        match max.into_iter().find(is_closed) {
            Some(max) => Err(Error::Closed { name: names::relation(existing.clock.sequence), max }),
            None => Ok(()),
        }
    }

    /// What the shard's own functions go by.
    fn shard_clock(&self) -> Clock {
        self.existing.as_ref().map_or(self.clock, |existing| existing.clock)
    }

    /// What would keep the switch from being made.
    fn check(&self) -> Result<(), Error> {
        let (shard, sequence) = (self.plan.shard, self.clock.sequence);
        if let Some(existing) = &self.existing {
            self.check_existing(existing)?;
        }
        let kept = self.kept_name();
        if kept.len() >= pg_sys::NAMEDATALEN as usize {
            return Err(Error::NameTooLong(kept));
        }
        if let Some(taken) = catalog::function_in(self.function.schema, &kept, &[])
            && self.kept_before().is_none()
        {
            let (function, schema) = (names::function(taken.oid), self.plan.schema.clone());
            return Err(Error::FunctionExists { function, shard: shard.number(), schema });
        }
        let relation = catalog::relation(sequence).ok_or(Error::SequenceMissing(sequence))?;
        let name = || names::relation(sequence);
        if !relation.is_sequence {
            return Err(Error::NotSequence(name()));
        }
        if relation.is_temporary {
            return Err(Error::SequenceTemporary(name()));
        }
        if !catalog::has_rights_of(self.function.owner, relation.owner) {
            return Err(Error::SequenceOfAnother {
                name: name(),
                function: names::function(self.function.oid),
            });
        }
        let query = "SELECT objid FROM pg_depend WHERE classid = 'pg_proc'::regclass
             AND refclassid = 'pg_class'::regclass AND refobjid = $1 AND deptype = 'n'";
        let dependents = select(query, &[sequence.into()], |row| row.get::<Oid>(1));
        let mut definitions =
            dependents.into_iter().filter_map(|oid| definition::read(&catalog::function(oid)?));
        let definition = definitions.find(|definition| Some(definition) != self.existing.as_ref());
        let other = definition.map(|it| format!("shard {}", it.shard.number())).or_else(|| {
            let defaults = columns_with_default_on("pg_class", sequence);
            defaults.first().map(|(column, _)| column.qualified())
        });
        if let Some(other) = other {
            return Err(Error::SequenceShared { name: name(), other });
        }
        let is_ours = |function: &Function| {
            function.oid == self.function.oid
                || plan::makes_ids_of(function, self.plan.own_schema, shard, self.clock)
        };
        if let Some(other) = adopted::other_user_of(sequence, is_ours) {
            let (function, other) = (names::function(self.function.oid), names::function(other.oid));
            return Err(Error::OriginalsShareSequence { name: name(), function, other });
        }
        self.plan.missing_functions_beside(&self.function.name, self.function.schema, self.shard_clock())?;
        rights::check_owner_can_create(&self.function, self.plan.own_schema)?;
        rights::check_callers(&self.function, sequence, self.plan.own_schema)
    }

    fn kept_name(&self) -> String {
        format!("{KEPT}{}", self.function.name)
    }

    /// The original that was kept when the function was adopted before.
    fn kept_before(&self) -> Option<Function> {
        let kept = catalog::function_in(self.function.schema, &self.kept_name(), &[])?;
        (kept.owner == self.function.owner && adopted::read_original(&kept).is_ok()).then_some(kept)
    }

    /// The newest id, and where it is, provided that new ones can start there.
    fn newest_id(&self) -> Result<Option<(i64, String)>, Error> {
        let newest = newest_id(&self.columns)?;
        if let Some((id, column)) = &newest {
            self.check_claims(*id, column)?;
        }
        check_not_far_ahead(newest.as_ref(), self.clock.epoch)?;
        Ok(newest)
    }

    /// What only the caller says must agree with the newest id. What the body says is what the function does, whatever
    /// is in its tables.
    fn check_claims(&self, id: i64, column: &str) -> Result<(), Error> {
        let ms = layout::ms_of(id) as i64;
        if id < 0 || ms < FIRST_DAY_MS {
            return Ok(()); // no id
        }
        let (column, function) = (column.to_owned(), names::function(self.function.oid));
        let (is, asked) = (layout::shard_of(id).number(), self.plan.shard.number());
        if self.claims.shard && is != asked {
            return Err(Error::NewestOfAnotherShard { id, column, is, asked, function });
        }
        let ahead_ms = ms - now_ms(self.clock.epoch);
        if self.claims.epoch && !(-CLAIM_AGE_MAX_MS..=CLAIM_AHEAD_MAX_MS).contains(&ahead_ms) {
            let epoch = self.clock.epoch;
            let time = epoch.time_of(ms as u64).map_or_else(|| "a time to come".into(), names::time);
            let epoch = names::time(epoch.at());
            return Err(Error::NewestOfAnotherTime { id, column, epoch, time, function });
        }
        Ok(())
    }

    /// Locks, looks how far the ids have come, switches. Returns the newest id and where it is, and the value that
    /// all new ones are above.
    fn carry_out(&self) -> Result<(Option<(i64, String)>, i64), Error> {
        lock_out_writers(lock_tables(&self.columns), &[self.clock.sequence])?;
        // That may have taken a while.
        let function = self.function.oid;
        if catalog::source(function) != self.source || self.columns_with_its_ids() != self.columns {
            return Err(Error::OriginalChanged(names::function(function)));
        }
        let newest = self.newest_id()?;
        let counter = sequence::last_value(self.clock.sequence).unwrap_or(0);
        // On a new file, so that a rollback brings back what was there before the next line, too.
        query::run(&self.mend_sequence());
        let start = self.start(counter, newest.as_ref().map(|newest| newest.0));
        let above = sequence::advance(self.clock, start, "adopt_shard()")?;
        let statements = self.statements();
        sys::with_rights_of(self.function.owner, || {
            for statement in &statements {
                query::run(statement);
            }
            self.plan.make_functions(self.function.schema, self.shard_clock())
        })?;
        self.start_again_at_commit();
        Ok((newest, above))
    }

    /// Old calls that wait for our lock go on when the transaction ends, which may be a while from now. So the start is
    /// moved on once more just before.
    fn start_again_at_commit(&self) {
        let (shard, clock, own_schema) = (self.plan.shard, self.clock, self.plan.own_schema);
        let function = self.function.oid;
        // It may have been rolled back to a savepoint.
        let is_adopted = move || {
            catalog::function(function)
                .is_some_and(|function| plan::makes_ids_of(&function, own_schema, shard, clock))
        };
        pgrx::register_xact_callback(PgXactCallbackEvent::PreCommit, move || {
            let sequence = catalog::relation(clock.sequence).filter(|_| is_adopted());
            let Some(catalog::Relation { owner, .. }) = sequence else { return };
            let last = sequence::last_value(clock.sequence).unwrap_or(0);
            let start = ((now_ms(clock.epoch) + GRACE_MS) * VALUES_PER_MS) | (last & i64::from(SEQ_MAX));
            let advanced = sys::with_rights_of(owner, || sequence::advance(clock, start, "adopt_shard()"));
            if let Err(error) = advanced {
                ErrorReport::from(error).report(PgLogLevel::ERROR);
            }
        });
        pgrx::register_xact_callback(PgXactCallbackEvent::PrePrepare, move || {
            if is_adopted() {
                ErrorReport::from(Error::AdoptionPrepared).report(PgLogLevel::ERROR);
            }
        });
    }

    /// The value that new ones follow: later than all that the original has made or is just making, and counting on
    /// in the sequence field.
    fn start(&self, counter: i64, newest: Option<i64>) -> i64 {
        let now_ms = now_ms(self.clock.epoch);
        let newest_ms = newest.filter(|id| *id >= 0).map_or(0, |id| layout::ms_of(id) as i64);
        // It may have been a clock before, and be so again. A counter is far below, or if it is not, no clock.
        let counter_ms = tick::ms_of(counter);
        let clock_ms = if counter_ms <= now_ms + AHEAD_MAX_MS { counter_ms } else { 0 };
        let ms = (now_ms + GRACE_MS).max(newest_ms + 1).max(clock_ms + 1);
        (ms * VALUES_PER_MS) | (counter & i64::from(SEQ_MAX))
    }

    fn mend_sequence(&self) -> String {
        format!(
            "ALTER SEQUENCE {} AS pg_catalog.int8 INCREMENT 1 NO MAXVALUE NO CYCLE CACHE 1 RESTART",
            names::relation(self.clock.sequence)
        )
    }

    /// Replaces the function, and keeps the original under another name. The one that an earlier adoption has kept gives
    /// way.
    fn statements(&self) -> Vec<String> {
        let kept = self.kept_name();
        let quoted = quote_qualified_identifier(&self.plan.schema, &kept);
        let mut statements = vec![self.replace_function()];
        if self.kept_before().is_some() {
            statements.push(format!("DROP FUNCTION {quoted}()"));
        }
        statements.push(renamed(&self.function, &kept, false));
        statements.push(format!("REVOKE ALL ON FUNCTION {quoted}() FROM PUBLIC"));
        statements
    }

    /// CREATE OR REPLACE leaves OID, owner, grants and comment as they are. What the statement does not say, such as
    /// SECURITY DEFINER, would be lost.
    fn replace_function(&self) -> String {
        let details = Details::of(self.function.oid);
        format!(
            "CREATE OR REPLACE FUNCTION {}({}) RETURNS pg_catalog.int8{}\n    {}",
            quote_qualified_identifier(&self.plan.schema, &self.function.name),
            details.arguments,
            if details.security_definer { " SECURITY DEFINER" } else { "" },
            self.plan.next_id(self.clock)
        )
    }

    /// What `carry_out` does, to be read.
    fn script(&self) -> String {
        let mut statements: Vec<String> = lock_tables(&self.columns).into_iter().collect();
        statements.push(self.mend_sequence());
        statements.push(format!("-- the sequence goes to {GRACE_MS} ms after the clock and all ids so far"));
        statements.extend(self.statements());
        let others =
            self.plan.missing_functions_beside(&self.function.name, self.function.schema, self.shard_clock());
        statements.extend(others.unwrap_or_default().into_iter().map(|part| part.create));
        let ended = |line: String| if line.starts_with("--") { line } else { line + ";" };
        statements.into_iter().map(ended).collect::<Vec<_>>().join("\n")
    }
}

/// What the body and the caller say of a constant. One of them must, and both the same.
fn agree<T: PartialEq>(
    function: &str,
    constant: Argument,
    read: Option<T>,
    asked: Option<T>,
    show: impl Fn(&T) -> String,
) -> Result<T, Error> {
    match (read, asked) {
        (Some(read), Some(asked)) if read != asked => Err(Error::OriginalDiffers {
            function: function.into(),
            constant,
            read: show(&read),
            asked: show(&asked),
        }),
        (read, asked) => {
            read.or(asked).ok_or_else(|| Error::OriginalSilent { function: function.into(), constant })
        }
    }
}

fn function_by_oid(oid: Oid) -> Result<Function, Error> {
    catalog::function(oid).ok_or(Error::FunctionMissing(oid))
}

/// Functions are replaced and made with the rights of the owner, whoever calls for it.
fn check_owner(function: &Function) -> Result<(), Error> {
    if catalog::has_rights_of(catalog::current_role(), function.owner) {
        Ok(())
    } else {
        Err(Error::NotOwner(names::function(function.oid)))
    }
}

/// The one function of a schema that is the original.
fn find_original(schema: &str) -> Result<Function, Error> {
    let oid = catalog::schema_oid(schema);
    if oid == Oid::INVALID {
        return Err(Error::SchemaMissing(quote_identifier(schema)));
    }
    // One that calls nextval is more likely to be meant than another, for the error.
    let query = "SELECT p.oid, pg_get_functiondef(p.oid) ~* 'nextval' FROM pg_proc AS p
         JOIN pg_language AS l ON l.oid = p.prolang
         WHERE p.pronamespace = $1 AND p.prokind = 'f' AND NOT p.proretset AND p.prorettype = 'int8'::regtype
         AND l.lanname NOT IN ('internal', 'c') ORDER BY p.proname, p.oid";
    let found = select(query, &[oid.into()], |row| Some((row.get::<Oid>(1)?, row.get::<bool>(2)?)));
    let candidates: Vec<(Function, bool)> = found
        .into_iter()
        .filter_map(|(oid, is_likely)| Some((catalog::function(oid)?, is_likely)))
        .filter(|(function, _)| !adopted::is_kept(function))
        .collect();
    let mut readable = candidates.iter().filter(|(function, _)| adopted::read_original(function).is_ok());
    match (readable.next(), readable.next()) {
        (Some((one, _)), None) => return function_by_oid(one.oid),
        (Some((one, _)), Some((other, _))) => {
            let functions = [one, other].map(|function| names::function(function.oid)).join(", ");
            return Err(Error::OriginalAmbiguous { functions });
        }
        (None, _) => {}
    }
    let reasons_of = |likely: bool| {
        let some = candidates.iter().filter(|(_, is_likely)| *is_likely == likely);
        some.filter_map(|(function, _)| adopted::read_original(function).err()).collect::<Vec<_>>()
    };
    let mut reasons = reasons_of(true);
    if reasons.is_empty() {
        reasons = reasons_of(false);
    }
    if reasons.len() == 1 {
        return Err(reasons.remove(0));
    }
    let reasons = reasons.iter().take(REASONS_MAX).map(Error::to_string).collect();
    Err(Error::OriginalMissing { schema: quote_identifier(schema), reasons })
}

/// The error for a shard that has no function to take over.
fn adopted_already(existing: &Definition, own_schema: Oid) -> Error {
    let is_adopted = !adopted::functions(existing, own_schema).is_empty();
    let (shard, schema) = (existing.shard.number(), names::schema(existing.schema));
    Error::AdoptedAlready { shard, schema, is_adopted }
}

/// The statement that makes a function again under another name.
fn renamed(function: &Function, name: &String, or_replace: bool) -> String {
    let schema = names::raw_schema(function.schema);
    let definition = Details::of(function.oid).definition;
    let head = format!("CREATE OR REPLACE FUNCTION {}(", quote_qualified_identifier(&schema, &function.name));
    let rest = definition.strip_prefix(&head).unwrap_or_else(|| unreachable!("pg_get_functiondef starts so"));
    let create = if or_replace { "CREATE OR REPLACE FUNCTION" } else { "CREATE FUNCTION" };
    format!("{create} {}({}", quote_qualified_identifier(&schema, name), rest.trim_end())
}

/// What SQL says of a function beside what is in [`Function`].
struct Details {
    arguments: String,
    definition: String,
    security_definer: bool,
}

impl Details {
    fn of(function: Oid) -> Details {
        let query = "SELECT pg_get_function_arguments(oid), pg_get_functiondef(oid), prosecdef FROM pg_proc WHERE oid = $1";
        let details = select(query, &[function.into()], |row| {
            Some(Details { arguments: row.get(1)?, definition: row.get(2)?, security_definer: row.get(3)? })
        });
        details.into_iter().next().unwrap_or_else(|| unreachable!("a function that was found"))
    }
}

/// The columns of tables whose default calls the function.
fn columns_of(function: Oid) -> Vec<Column> {
    let columns = columns_with_default_on("pg_proc", function);
    columns.into_iter().filter_map(|(column, is_of_table)| is_of_table.then_some(column)).collect()
}

/// The columns whose default depends on an object of this class, and whether they are a table's and not a view's or
/// a foreign table's.
fn columns_with_default_on(class: &str, object: Oid) -> Vec<(Column, bool)> {
    let query = "SELECT a.attrelid, a.attname::text, a.atttypid = 'int8'::regtype, c.relkind IN ('r', 'p')
         FROM pg_depend AS d JOIN pg_attrdef AS f ON f.oid = d.objid
         JOIN pg_attribute AS a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
         JOIN pg_class AS c ON c.oid = a.attrelid
         WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = $1::regclass AND d.refobjid = $2
         ORDER BY a.attrelid, a.attnum";
    select(query, &[class.into(), object.into()], |row| {
        Some((Column { table: row.get(1)?, name: row.get(2)?, is_bigint: row.get(3)? }, row.get(4)?))
    })
}

/// The largest key in these columns, and where it is.
fn newest_id(columns: &[Column]) -> Result<Option<(i64, String)>, Error> {
    let mut newest = None;
    for column in columns.iter().filter(|column| column.is_bigint) {
        let table = names::relation(column.table);
        // What the owner has attached to the table runs with the owner's rights, neither more nor others.
        let owner_who_may = || {
            let owner = catalog::relation(column.table).map(|relation| relation.owner);
            owner.filter(|owner| catalog::has_rights_of(catalog::current_role(), *owner))
        };
        if owner_who_may().is_none() {
            return Err(Error::NotTableOwner(table));
        }
        // What the name means must not change between here and the query.
        // SAFETY: a lock on a relation that is gone protects nothing, which is found out next.
        unsafe { pg_sys::LockRelationOid(column.table, pg_sys::AccessShareLock as pg_sys::LOCKMODE) };
        let is_same = table == names::relation(column.table) && catalog::named(&table) == Some(column.table);
        let Some(owner) = owner_who_may().filter(|_| is_same) else { return Err(Error::TableChanged(table)) };
        let query = format!("SELECT max({}) FROM {table}", quote_identifier(&column.name));
        let max = sys::with_rights_of(owner, || select(&query, &[], |row| row.get::<i64>(1)));
        newest = newest.max(max.into_iter().next().map(|max| (max, column.qualified())));
    }
    Ok(newest)
}

/// A key far ahead of the clock would take all new ids there.
fn check_not_far_ahead(newest: Option<&(i64, String)>, epoch: Epoch) -> Result<(), Error> {
    let Some((newest, column)) = newest else { return Ok(()) };
    let ms = layout::ms_of(*newest) as i64;
    // Negative keys are below all ids.
    if *newest < 0 || ms <= now_ms(epoch) + AHEAD_MAX_MS {
        return Ok(());
    }
    let time = epoch.time_of(ms as u64).map_or_else(|| "a time to come".into(), names::time);
    Err(Error::KeyAhead { key: *newest, column: column.clone(), time })
}

fn now_ms(epoch: Epoch) -> i64 {
    epoch.elapsed_us(names::now()).div_euclid(US_PER_MS)
}

/// The original takes its time from the clock, and would repeat ids that are ahead of it.
fn wait_for_the_clock(shard: Shard, clock: Clock) -> Result<(), Error> {
    let Some(last_value) = sequence::last_value(clock.sequence) else { return Ok(()) };
    let ahead_ms = || tick::ms_of(last_value) - now_ms(clock.epoch);
    if ahead_ms() > CATCH_UP_MS {
        return Err(Error::ShardAhead { shard: shard.number(), ahead: names::duration(ahead_ms() / 1000) });
    }
    while ahead_ms() >= 0 {
        std::thread::sleep(Duration::from_millis(1));
        pgrx::check_for_interrupts!();
    }
    Ok(())
}

fn lock_tables(columns: &[Column]) -> Option<String> {
    let mut tables: Vec<_> = columns.iter().map(|column| names::relation(column.table)).collect();
    tables.dedup();
    (!tables.is_empty()).then(|| format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", tables.join(", ")))
}

/// Gets the locks that keep writers out, the tables' before the sequence's, in the order in which an insert takes
/// them. A transaction that has called the function by itself and goes on to write to a table comes the other way
/// round, and behind us all others queue. So the sequence is not waited for, and a try that fails lets go of
/// everything and leaves the others as long to pass as it has kept them.
fn lock_out_writers(tables: Option<String>, sequences: &[Oid]) -> Result<(), Error> {
    let started = Instant::now();
    while started.elapsed() < LOCK_TRIES_FOR {
        let tried = Instant::now();
        let got_them = settings::with(&[(c"lock_timeout", LOCK_TIMEOUT)], || {
            sys::in_subtransaction(|| {
                if let Some(tables) = &tables {
                    query::run(tables);
                }
                // SAFETY: a lock on a relation that may be gone protects nothing, which the next statement finds out.
                sequences.iter().all(|sequence| unsafe {
                    let mode = pg_sys::ShareRowExclusiveLock as pg_sys::LOCKMODE;
                    pg_sys::ConditionalLockRelationOid(*sequence, mode)
                })
            })
        });
        if got_them {
            return Ok(());
        }
        std::thread::sleep(tried.elapsed().max(LOCK_PAUSE_MIN));
        pgrx::check_for_interrupts!();
    }
    Err(Error::WritersBusy { sequence: sequences.first().map(|first| names::relation(*first)) })
}

/// A bigint column whose keys come from a sequence.
struct SerialColumn {
    column: Column,
    /// Its default, or `None` for an identity.
    default: Option<String>,
    /// How to make it an identity again.
    identity: Option<String>,
}

impl SerialColumn {
    /// The column of that name, or the one that the table's primary key consists of.
    fn find(table: Oid, name: Option<String>, definition: &Definition) -> Result<SerialColumn, Error> {
        let table_name = names::relation(table);
        let query = "SELECT a.attname::text, a.atttypid, format_type(a.atttypid, a.atttypmod),
                 pg_get_expr(f.adbin, f.adrelid), a.attidentity::text,
                 pg_get_serial_sequence(a.attrelid::regclass::text, a.attname::text)::regclass::oid,
                 f.adbin IS NULL OR EXISTS (SELECT FROM pg_depend AS d JOIN pg_class AS s ON s.oid = d.refobjid
                     WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
                     AND d.refclassid = 'pg_class'::regclass AND s.relkind = 'S')
                     AND pg_get_expr(f.adbin, f.adrelid) LIKE 'nextval(%'
             FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p')
             LEFT JOIN pg_attrdef AS f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
             WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
             AND CASE WHEN $2 IS NOT NULL THEN a.attname = $2
                 ELSE EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisprimary
                     AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) END";
        let found = select(query, &[table.into(), name.clone().into()], |row| {
            let name: String = row.get(1)?;
            let column = Column { table, name, is_bigint: true };
            let identity: String = row.get(5)?;
            let type_oid: Oid = row.get(2)?;
            Some((
                column,
                type_oid,
                row.get::<String>(3)?,
                row.get::<String>(4),
                identity,
                row.get::<Oid>(6),
                row.get::<bool>(7)?,
            ))
        });
        let Some((column, type_oid, type_name, default, identity, owned, is_serial)) =
            found.into_iter().next()
        else {
            return Err(match name {
                Some(name) => Error::ColumnMissing { table: table_name, column: quote_identifier(name) },
                None => Error::NoPrimaryKey(table_name),
            });
        };
        if type_oid != pg_sys::INT8OID {
            let column = quote_identifier(&column.name);
            return Err(Error::ColumnNotBigint { table: table_name, column, type_name });
        }
        let is_identity = !identity.is_empty();
        if !is_serial || default.is_none() && !is_identity {
            let default = default.unwrap_or_else(|| "none".into());
            if default == format!("{}.next_id()", names::schema(definition.schema)) {
                let shard = definition.shard.number();
                return Err(Error::HasIdsAlready { column: column.qualified(), shard });
            }
            return Err(Error::NotSerial { column: column.qualified(), default });
        }
        let identity = owned.filter(|_| is_identity).map(|sequence| {
            let always = if identity == "a" { "ALWAYS" } else { "BY DEFAULT" };
            format!("ADD GENERATED {always} AS IDENTITY ({})", options_of(sequence))
        });
        Ok(SerialColumn { column, default, identity })
    }

    /// The statements of the way there and of the way back.
    fn scripts(&self, schema: &str) -> (String, String) {
        let table = names::relation(self.column.table);
        let name = quote_identifier(&self.column.name);
        let drop_identity =
            self.identity.as_ref().map_or_else(String::new, |_| format!("ALTER {name} DROP IDENTITY, "));
        let there = format!("ALTER TABLE {table} {drop_identity}ALTER {name} SET DEFAULT {schema}.next_id()");
        let back = match (&self.default, &self.identity) {
            (_, Some(identity)) => {
                format!("ALTER TABLE {table} ALTER {name} DROP DEFAULT, ALTER {name} {identity}")
            }
            (Some(default), None) => format!("ALTER TABLE {table} ALTER {name} SET DEFAULT {default}"),
            (None, None) => unreachable!("a serial has a default"),
        };
        (there, back)
    }
}

/// The options of a sequence, and where it stands, as another one would be made with.
fn options_of(sequence: Oid) -> String {
    let query = "SELECT seqincrement, seqmin, seqmax, seqstart, seqcache, seqcycle FROM pg_sequence WHERE seqrelid = $1";
    let options = select(query, &[sequence.into()], |row| {
        let (increment, min, max): (i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let (start, cache): (i64, i64) = (row.get(4)?, row.get(5)?);
        let next = sequence::last_value(sequence).map_or(start, |last| last.saturating_add(increment));
        let cycle = if row.get(6)? { " CYCLE" } else { "" };
        Some(format!(
            "START WITH {} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} CACHE {cache}{cycle}",
            next.clamp(min, max)
        ))
    });
    options.into_iter().next().unwrap_or_default()
}

extension_sql!(
    r#"
COMMENT ON FUNCTION adopt_shard(integer, text, regprocedure, regclass, timestamptz, boolean) IS
'takes over a schema that runs the PL/pgSQL original, in place; with dry_run shows what it would do';
COMMENT ON FUNCTION unadopt_shard(integer) IS
'brings the PL/pgSQL original of an adopted shard back, in place';
COMMENT ON FUNCTION adopt_table(integer, regclass, text, boolean) IS
'makes ids of a shard the default of a column that a serial or an identity has filled; with dry_run shows what it would do';
"#,
    name = "comments_adopt",
    requires = [adopt_shard, unadopt_shard, adopt_table],
);
