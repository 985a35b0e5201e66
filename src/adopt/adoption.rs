//! The adoption of one function: what is read from its body, what is checked, and the statements that replace it.

use crate::adopt::adopted::{self, KEPT};
use crate::adopt::columns::{
    AHEAD_MAX_MS, Column, FIRST_DAY_MS, KEY_AHEAD_MAX_MS, check_not_ahead, columns_of,
    columns_with_default_on, newest_id, now_ms,
};
use crate::adopt::rights;
use crate::adopt::writers::{TableLock, lock_out_writers, lock_tables};
use crate::arguments;
use crate::error::{Argument, Error};
use crate::generator;
use crate::pg::catalog::{self, Function};
use crate::pg::names;
use crate::pg::reg_types::Regclass;
use crate::pg::roles;
use crate::pg::spi::{self, select};
use crate::sequence::Clock;
use crate::sequence::read;
use crate::shard::ddl::{self, Plan};
use crate::shard::definition::{self, Definition};
use crate::shard::trust::{self, Trust};
use instagram_id_core::epoch::Epoch;
use instagram_id_core::hlc::{self, VALUES_PER_MS};
use instagram_id_core::layout::{self, SEQ_MAX, Shard};
use instagram_id_core::plpgsql::Original;
use pgrx::PgXactCallbackEvent;
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::{quote_identifier, quote_literal, quote_qualified_identifier};

/// New ids start this far ahead of the clock, because old calls in progress have yet to read it.
const GRACE_MS: i64 = 1000;

/// An epoch that only the caller gives is accepted if, counted from it, the newest id is at most an hour old or a
/// minute ahead. A wrong time zone would shift the time by an hour or more.
const CLAIM_AGE_MAX_MS: i64 = 3_600_000;

const CLAIM_AHEAD_MAX_MS: i64 = 60_000;

/// The most functions for which an error lists why they are not the original.
const REASONS_MAX: usize = 3;

/// The original in a schema, and the shard that it becomes.
pub struct Adoption {
    pub function: Function,
    /// The function's body when it was read.
    pub source: Option<String>,
    pub plan: Plan,
    pub clock: Clock,
    pub columns: Vec<Column>,
    /// The shard, if it exists already: then the function was replaced after an adoption, or is another function of the
    /// shard.
    pub existing: Option<Definition>,
    /// Which constants are given by the caller alone.
    claims: Claims,
}

#[derive(Clone, Copy)]
struct Claims {
    pub shard: bool,
    pub epoch: bool,
}

impl Adoption {
    /// Combines the constants in the body and those given by the caller.
    pub fn new(
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
                return Err(Error::NotOriginal {
                    function: name,
                    why: "has a shard that is out of range".into(),
                });
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
        let (clock, existing) = (Clock { sequence, epoch }, definition::find(agreed_shard)?);
        let owner = existing.as_ref().map_or(function.owner, |existing| existing.owner);
        let plan = Plan { shard: agreed_shard, schema, own_schema, owner };
        let mut adoption = Adoption { function, source, plan, clock, columns: vec![], existing, claims };
        adoption.columns = adoption.columns_with_its_ids();
        Ok(adoption)
    }

    /// The columns that the function fills, and those that the shard's `next_id()` of an earlier adoption fills from
    /// the same sequence.
    pub fn columns_with_its_ids(&self) -> Vec<Column> {
        let mut columns = columns_of(self.function.oid);
        if let Some(next_id) = catalog::function_in(self.function.schema, "next_id", &[])
            && ddl::makes_ids_of(&next_id, self.plan.own_schema, self.plan.shard, self.clock)
            && trust::is_of_shard(next_id.owner, self.plan.owner)
        {
            columns.extend(columns_of(next_id.oid));
        }
        columns
    }

    /// Checks that the function may generate ids of a shard that exists already.
    pub fn check_existing(&self, existing: &Definition) -> Result<(), Error> {
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
        // A sequence that was closed for a move must not be opened here.
        let query = "SELECT seqmax FROM pg_sequence WHERE seqrelid = $1";
        let max = select(query, &[existing.clock.sequence.into()], |row| row.get::<i64>(1));
        let is_closed = |max: &i64| *max < hlc::VALUE_MAX && hlc::ms_of(*max) >= FIRST_DAY_MS;
        match max.into_iter().find(is_closed) {
            Some(max) => Err(Error::Closed { name: names::relation(existing.clock.sequence), max }),
            None => Ok(()),
        }
    }

    /// Checks that the caller trusts the owner of the shard; see [`trust`].
    pub fn check_trust(&self, trust: Trust) -> Result<(), Error> {
        match &self.existing {
            Some(existing) => trust.check(existing)?,
            None => trust.check_original(self.plan.shard, &self.function)?,
        }
        trust.announce(self.plan.shard, self.function.schema);
        Ok(())
    }

    /// The clock of the shard's own functions.
    pub fn shard_clock(&self) -> Clock {
        self.existing.as_ref().map_or(self.clock, |existing| existing.clock)
    }

    /// Checks all that can be checked before the locks are taken.
    pub fn check(&self) -> Result<(), Error> {
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
        // The owner of the function must be able to change the sequence. No other role may move it.
        if !catalog::has_rights_of(self.function.owner, relation.owner)
            || !trust::is_of_shard(relation.owner, self.plan.owner)
        {
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
                || ddl::makes_ids_of(function, self.plan.own_schema, shard, self.clock)
        };
        if let Some(other) = adopted::other_user_of(sequence, is_ours) {
            let (function, other) = (names::function(self.function.oid), names::function(other.oid));
            return Err(Error::OriginalsShareSequence { name: name(), function, other });
        }
        self.plan.missing_functions_beside(&self.function.name, self.function.schema, self.shard_clock())?;
        rights::check_owner_can_create(&self.function, self.plan.own_schema)?;
        rights::check_callers(&self.function, sequence, self.plan.own_schema)
    }

    pub fn kept_name(&self) -> String {
        format!("{KEPT}{}", self.function.name)
    }

    /// The original kept by an earlier adoption of the function.
    pub fn kept_before(&self) -> Option<Function> {
        let kept = catalog::function_in(self.function.schema, &self.kept_name(), &[])?;
        (kept.owner == self.function.owner && adopted::read_original(&kept).is_ok()).then_some(kept)
    }

    /// The newest id and its column. Checks that new ids can follow it.
    pub fn newest_id(&self) -> Result<Option<(i64, String)>, Error> {
        let newest = newest_id(&self.columns)?;
        if let Some((id, column)) = &newest {
            self.check_claims(*id, column)?;
        }
        let way = |value| self.setval_statement(value);
        check_not_ahead(newest.as_ref(), self.clock, KEY_AHEAD_MAX_MS, way)?;
        Ok(newest)
    }

    /// The statement that moves the sequence up to a value. [`Adoption::start`] then continues above it.
    fn setval_statement(&self, value: i64) -> String {
        let name = names::relation(self.clock.sequence);
        let setval = format!("SELECT setval({}, {value})", quote_literal(&name));
        format!("ALTER SEQUENCE {name} AS bigint INCREMENT 1 NO MAXVALUE NO CYCLE; {setval}")
    }

    /// Compares a constant that only the caller gives with the newest id. A constant in the body needs no such check:
    /// it describes what the function does, whatever is in its tables.
    pub fn check_claims(&self, id: i64, column: &str) -> Result<(), Error> {
        let ms = layout::ms_of(id) as i64;
        if id < 0 || ms < FIRST_DAY_MS {
            return Ok(()); // not an id
        }
        let (column, function) = (column.to_owned(), names::function(self.function.oid));
        let (is, asked) = (layout::shard_of(id).number(), self.plan.shard.number());
        if self.claims.shard && is != asked {
            return Err(Error::NewestOfAnotherShard { id, column, is, asked, function });
        }
        let ahead_ms = ms - now_ms(self.clock.epoch);
        if self.claims.epoch && !(-CLAIM_AGE_MAX_MS..=CLAIM_AHEAD_MAX_MS).contains(&ahead_ms) {
            let epoch = self.clock.epoch;
            let time = epoch.time_of(ms as u64).map_or_else(|| "after the year 294276".into(), names::time);
            let epoch = names::time(epoch.at());
            return Err(Error::NewestOfAnotherTime { id, column, epoch, time, function });
        }
        Ok(())
    }

    /// Takes the locks, finds the newest id, and replaces the function. Returns the newest id with its column, and the
    /// value that all new ids are above.
    pub fn carry_out(&self) -> Result<(Option<(i64, String)>, i64), Error> {
        lock_out_writers(&self.columns, TableLock::AgainstWriters, &[self.clock.sequence])?;
        // Waiting for the locks may have taken a while.
        let function = self.function.oid;
        if catalog::source(function) != self.source || self.columns_with_its_ids() != self.columns {
            return Err(Error::OriginalChanged(names::function(function)));
        }
        let newest = self.newest_id()?;
        let counter = read::last_value(self.clock.sequence).unwrap_or(0);
        // The RESTART in it gives the sequence a new file, so that a rollback also undoes the change of the value
        // below.
        spi::run(&self.fix_options_of_sequence());
        let start = self.start(counter, newest.as_ref().map(|newest| newest.0));
        let above = generator::advance(self.clock, start)?;
        let statements = self.statements();
        roles::with_rights_of(self.function.owner, || {
            for statement in &statements {
                spi::run(statement);
            }
            self.plan.make_functions(self.function.schema, self.shard_clock())
        })?;
        self.start_again_at_commit();
        Ok((newest, above))
    }

    /// Old calls that wait for our lock continue when the transaction ends, which may be much later. So the start is
    /// moved ahead once more just before the commit.
    pub fn start_again_at_commit(&self) {
        let (shard, clock, own_schema) = (self.plan.shard, self.clock, self.plan.own_schema);
        let function = self.function.oid;
        // The adoption may have been rolled back to a savepoint.
        let is_adopted = move || {
            catalog::function(function)
                .is_some_and(|function| ddl::makes_ids_of(&function, own_schema, shard, clock))
        };
        pgrx::register_xact_callback(PgXactCallbackEvent::PreCommit, move || {
            let sequence = catalog::relation(clock.sequence).filter(|_| is_adopted());
            let Some(catalog::Relation { owner, .. }) = sequence else { return };
            let last = read::last_value(clock.sequence).unwrap_or(0);
            let start = ((now_ms(clock.epoch) + GRACE_MS) * VALUES_PER_MS) | (last & i64::from(SEQ_MAX));
            let advanced = roles::with_rights_of(owner, || generator::advance(clock, start));
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

    /// The value that new ids follow. It is later than any id that the original has generated or is generating, and it
    /// continues the sequence field.
    pub fn start(&self, counter: i64, newest: Option<i64>) -> i64 {
        let now_ms = now_ms(self.clock.epoch);
        let newest_ms = newest.filter(|id| *id >= 0).map_or(0, |id| layout::ms_of(id) as i64);
        // The sequence may have been a clock before, and must not go back then. A plain counter is far below the clock,
        // and a value far above it cannot be a clock.
        let counter_ms = hlc::ms_of(counter);
        let clock_ms = if counter_ms <= now_ms + AHEAD_MAX_MS { counter_ms } else { 0 };
        let ms = (now_ms + GRACE_MS).max(newest_ms + 1).max(clock_ms + 1);
        (ms * VALUES_PER_MS) | (counter & i64::from(SEQ_MAX))
    }

    pub fn fix_options_of_sequence(&self) -> String {
        format!(
            "ALTER SEQUENCE {} AS pg_catalog.int8 INCREMENT 1 NO MAXVALUE NO CYCLE CACHE 1 RESTART",
            names::relation(self.clock.sequence)
        )
    }

    /// Replaces the function and keeps the original under another name. An original kept by an earlier adoption is
    /// dropped.
    pub fn statements(&self) -> Vec<String> {
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

    /// CREATE OR REPLACE keeps OID, owner, grants and comment. Attributes that the statement does not repeat, such as
    /// SECURITY DEFINER, would be lost.
    pub fn replace_function(&self) -> String {
        let details = Details::of(self.function.oid);
        format!(
            "CREATE OR REPLACE FUNCTION {}({}) RETURNS pg_catalog.int8{}\n    {}",
            quote_qualified_identifier(&self.plan.schema, &self.function.name),
            details.arguments,
            if details.security_definer { " SECURITY DEFINER" } else { "" },
            self.plan.next_id(self.clock)
        )
    }

    /// The statements of `carry_out`, as a script for the user to read.
    pub fn script(&self) -> String {
        let mut statements: Vec<String> =
            lock_tables(&self.columns, TableLock::AgainstWriters).into_iter().collect();
        statements.push(self.fix_options_of_sequence());
        statements.push(format!("-- the sequence goes to {GRACE_MS} ms after the clock and all ids so far"));
        statements.extend(self.statements());
        let others =
            self.plan.missing_functions_beside(&self.function.name, self.function.schema, self.shard_clock());
        statements.extend(others.unwrap_or_default().into_iter().map(|part| part.create));
        let ended = |line: String| if line.starts_with("--") { line } else { line + ";" };
        statements.into_iter().map(ended).collect::<Vec<_>>().join("\n")
    }
}

/// Combines the constant in the body and the one from the caller. At least one of them must be given, and two must be
/// equal.
pub fn agree<T: PartialEq>(
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

pub fn function_by_oid(oid: Oid) -> Result<Function, Error> {
    catalog::function(oid).ok_or(Error::FunctionMissing(oid))
}

/// Checks that the caller has the privileges of the function's owner, with which the shard's functions are created.
pub fn check_owner(function: &Function) -> Result<(), Error> {
    if catalog::has_rights_of(catalog::current_role(), function.owner) {
        Ok(())
    } else {
        Err(Error::NotOwner(names::function(function.oid)))
    }
}

/// The only function of a schema that is the original.
pub fn find_original(schema: &str) -> Result<Function, Error> {
    let oid = catalog::schema_oid(schema);
    if oid == Oid::INVALID {
        return Err(Error::SchemaMissing(quote_identifier(schema)));
    }
    // Used for the error only: a function that calls nextval is more likely to be the one that is meant.
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
    let reasons = reasons.iter().take(REASONS_MAX).map(Error::reason).collect();
    Err(Error::OriginalMissing { schema: quote_identifier(schema), reasons })
}

/// The error for a shard that has no function to adopt.
pub fn adopted_already(existing: &Definition, own_schema: Oid) -> Error {
    let is_adopted = !adopted::functions(existing, own_schema).is_empty();
    let (shard, schema) = (existing.shard.number(), names::schema(existing.schema));
    Error::AdoptedAlready { shard, schema, is_adopted }
}

/// The statement that creates a function again under another name.
pub fn renamed(function: &Function, name: &String, or_replace: bool) -> String {
    let schema = names::raw_schema(function.schema);
    let definition = Details::of(function.oid).definition;
    let head = format!("CREATE OR REPLACE FUNCTION {}(", quote_qualified_identifier(&schema, &function.name));
    let rest = definition.strip_prefix(&head).unwrap_or_else(|| unreachable!("pg_get_functiondef starts so"));
    let create = if or_replace { "CREATE OR REPLACE FUNCTION" } else { "CREATE FUNCTION" };
    format!("{create} {}({}", quote_qualified_identifier(&schema, name), rest.trim_end())
}

/// Properties of a function that are not in [`Function`].
struct Details {
    pub arguments: String,
    pub definition: String,
    pub security_definer: bool,
}

impl Details {
    pub fn of(function: Oid) -> Details {
        let query = "SELECT pg_get_function_arguments(oid), pg_get_functiondef(oid), prosecdef FROM pg_proc WHERE oid = $1";
        let details = select(query, &[function.into()], |row| {
            Some(Details { arguments: row.get(1)?, definition: row.get(2)?, security_definer: row.get(3)? })
        });
        details.into_iter().next().unwrap_or_else(|| unreachable!("a function that was found"))
    }
}
