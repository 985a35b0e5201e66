//! The first part of an adoption: finds the original, and reads its constants.

use crate::adopt::adopted::{self, KEPT};
use crate::adopt::adoption::{self, Adoption, KnownFrom};
use crate::arguments;
use crate::error::Error;
use crate::pg::catalog::{self, Function};
use crate::pg::names;
use crate::pg::roles;
use crate::pg::spi::select;
use crate::pg::window;
use crate::sequence::IdSequence;
use crate::shard::columns::Callers;
use crate::shard::ddl::{self, ShardParts};
use crate::shard::definition::{self, Definition};
use crate::shard::trust::{self, Trust};
use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;

/// The most functions for which an error lists why they are not the original.
const REASONS_MAX: usize = 3;

/// The request of the caller of `adopt_shard`.
pub struct AdoptionRequest {
    pub shard: Option<Shard>,
    pub schema: Option<String>,
    pub function: Option<Oid>,
    pub sequence: Option<Oid>,
    pub epoch: Option<TimestampWithTimeZone>,
    pub own_schema: Oid,
}

impl AdoptionRequest {
    /// The adoption that is asked for, with nothing checked but the caller's rights on the
    /// function.
    pub fn read(&self) -> Result<Adoption, Error> {
        let existing = self.shard.map(definition::find).transpose()?.flatten();
        let function = match self.function {
            Some(oid) => self.function_that_is_named(oid, existing)?,
            None => self.only_original(existing)?,
        };
        check_may_replace(&function)?;
        self.read_constants(function)
    }

    /// The owners whom the caller of an adoption of this function trusts.
    pub fn trust(&self, function: &Function) -> Trust {
        match self.function {
            Some(_) => Trust::of_caller_who_names(function.owner),
            None => Trust::of_caller(self.schema.is_some()),
        }
    }

    fn function_that_is_named(
        &self,
        oid: Oid,
        existing: Option<Definition>,
    ) -> Result<Function, Error> {
        let function = catalog::function(oid).ok_or(Error::FunctionMissing(oid))?;
        if let Some(existing) = &existing
            && ddl::sequence_of_ids(&function, self.own_schema, existing.shard).is_some()
        {
            return Err(adopted_already(existing, self.own_schema));
        }
        let is_elsewhere = |asked: &&String| **asked != names::raw_schema(function.schema);
        if let Some(asked) = self.schema.as_ref().filter(is_elsewhere) {
            let read = names::schema(function.schema);
            let (function, asked) = (names::function(oid), quote_identifier(asked));
            return Err(Error::OriginalDiffers { function, constant: "schema", read, asked });
        }
        Ok(function)
    }

    /// The only original in the schema that is named, or in that of the shard.
    ///
    /// Of a shard that exists, other originals count only if their owners have the rights of its
    /// owner, or, in another schema, the trust of the caller. Any role that can create schemas can
    /// create the one with the name of a shard, and functions in it; what it creates decides
    /// nothing.
    fn only_original(&self, existing: Option<Definition>) -> Result<Function, Error> {
        let trust = Trust::of_caller(self.schema.is_some());
        let is_candidate = |schema: Oid, owner: Oid| match &existing {
            Some(existing) if existing.schema == schema => {
                trust::is_of_shard(owner, existing.owner)
            }
            _ => trust.accepts(schema, owner),
        };
        let find = |schema: &str| find_original(schema, is_candidate, existing.is_some());
        let name = match (self.schema.clone(), self.shard, &existing) {
            (Some(schema), ..) => schema,
            (None, Some(shard), Some(existing)) => {
                let (its, by_number) =
                    (names::raw_schema(existing.schema), definition::schema_name(shard));
                let has_candidates = match find(&by_number) {
                    Err(Error::SchemaMissing(_)) => false,
                    Err(Error::OriginalMissing { reasons, .. }) => !reasons.is_empty(),
                    _ => true,
                };
                if !has_candidates || find(&its).is_ok() { its } else { by_number }
            }
            (None, Some(shard), None) => definition::schema_name(shard),
            (None, None, _) => return Err(Error::Null("shard")),
        };
        let found = find(&name);
        let of_shard = existing.filter(|existing| names::raw_schema(existing.schema) == name);
        match (found, of_shard) {
            // It is already a shard, with nothing else to adopt.
            (Err(Error::OriginalMissing { .. } | Error::NotOriginal { .. }), Some(existing)) => {
                trust.check(&existing)?;
                Err(adopted_already(&existing, self.own_schema))
            }
            (found, _) => found,
        }
    }

    /// Combines the constants in the body and those of the caller.
    fn read_constants(&self, function: Function) -> Result<Adoption, Error> {
        let read = adopted::read_original(&function)?;
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
        let read_sequence = adopted::sequence_shown(&read);
        let asked_epoch = self.epoch.map(arguments::epoch).transpose()?;
        let (shard, shard_from) =
            agree(&name, "shard", read_shard, self.shard, |shard| shard.number().to_string())?;
        let (sequence, _) =
            agree(&name, "sequence", read_sequence, self.sequence, |oid| names::relation(*oid))?;
        let (epoch, epoch_from) =
            agree(&name, "epoch", read_epoch, asked_epoch, |epoch| names::time(epoch.at()))?;
        let epoch = arguments::workable_epoch(names::timestamp(epoch.at()))?;
        let source = catalog::source(function.oid, catalog::TEXT_MAX);
        let schema = names::raw_schema(function.schema);
        let (sequence, existing) = (IdSequence { oid: sequence, epoch }, definition::find(shard)?);
        let owner = existing.as_ref().map_or(function.owner, |existing| existing.owner);
        let parts = ShardParts { shard, schema, own_schema: self.own_schema, owner };
        let mut adoption = Adoption {
            function,
            source,
            parts,
            sequence,
            sequence_was: adoption::named(sequence.oid),
            columns: vec![],
            callers: Callers::default(),
            existing,
            shard_from,
            epoch_from,
        };
        adoption.columns = adoption.columns_filled();
        Ok(adoption)
    }
}

/// Combines the constant in the body and the one from the caller. At least one of them must be
/// given, and two must be equal.
fn agree<T: PartialEq>(
    function: &str,
    constant: &'static str,
    read: Option<T>,
    asked: Option<T>,
    show: impl Fn(&T) -> String,
) -> Result<(T, KnownFrom), Error> {
    match (read, asked) {
        (Some(read), Some(asked)) if read != asked => Err(Error::OriginalDiffers {
            function: function.into(),
            constant,
            read: show(&read),
            asked: show(&asked),
        }),
        (Some(value), _) => Ok((value, KnownFrom::Body)),
        (None, Some(value)) => Ok((value, KnownFrom::Caller)),
        (None, None) => Err(Error::OriginalSilent { function: function.into(), constant }),
    }
}

/// Checks that the caller has the privileges of the function's owner, with which the shard's
/// functions are created, and may use their schema.
pub fn check_may_replace(function: &Function) -> Result<(), Error> {
    roles::check_owns_function(function.oid, function.owner)?;
    roles::check_may_use_schema(function.schema, catalog::current_role())
}

/// The only function of a schema that is the original, of the candidates by their schema and owner.
/// Only if none of them is, another one counts, unless `is_strict`: an error will say what to do.
fn find_original(
    schema: &str,
    is_candidate: impl Fn(Oid, Oid) -> bool,
    is_strict: bool,
) -> Result<Function, Error> {
    let oid = catalog::schema_oid(schema);
    if oid == Oid::INVALID {
        return Err(Error::SchemaMissing(quote_identifier(schema)));
    }
    // Used for the error only: a function that calls nextval is more likely to be the one that is
    // meant.
    let query = format!(
        "SELECT p.oid, {}, p.proowner FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
         WHERE p.pronamespace = $1 AND p.prokind = 'f' AND NOT p.proretset AND p.prorettype = 'int8'::regtype
         AND l.lanname NOT IN ('internal', 'c') ORDER BY p.proname, p.oid",
        adopted::mentions_nextval(&catalog::TEXT_MAX.to_string())
    );
    let candidates = select(&query, &[oid.into()], |row| {
        let is_trusted = is_candidate(oid, row.get::<Oid>(3)?);
        Some((is_trusted, (row.get::<Oid>(1)?, row.get::<bool>(2)?)))
    });
    // Also if the function that was adopted was dropped.
    let shards = definition::in_schema(oid);
    let is_kept = |function: &Function| {
        let is_of_shard = || shards.iter().any(|shard| shard.owner == function.owner);
        adopted::kept_of(function).is_some() || function.name.starts_with(KEPT) && is_of_shard()
    };
    let of = |class: bool| {
        candidates.iter().filter(move |(is_trusted, _)| *is_trusted == class).map(|one| one.1)
    };
    let mut reasons = [Vec::new(), Vec::new()];
    if let Some(original) = original_among(of(true), is_kept, Some(&mut reasons))? {
        return Ok(original);
    }
    if !is_strict && let Some(original) = original_among(of(false), is_kept, None)? {
        return Ok(original);
    }
    let [unlikely, likely] = reasons;
    let mut reasons = if likely.is_empty() { unlikely } else { likely };
    if reasons.len() == 1 {
        return Err(reasons.remove(0));
    }
    let reasons = reasons.iter().map(Error::reason).collect();
    Err(Error::OriginalMissing { schema: quote_identifier(schema), reasons })
}

/// The original among functions, each of which may be likely to be it: the only one, or without
/// `reasons` the first. Adds the reasons of those that are none, which are unlikely or likely.
fn original_among(
    candidates: impl Iterator<Item = (Oid, bool)>,
    is_kept: impl Fn(&Function) -> bool,
    mut reasons: Option<&mut [Vec<Error>; 2]>,
) -> Result<Option<Function>, Error> {
    // Any role that can create functions in the schema decides how many there are, so only one at a
    // time is in memory.
    let (mut memory, mut original) = (None, None::<Function>);
    for (oid, is_likely) in candidates {
        let read = window::in_memory_of_its_own(&mut memory, || {
            let function = catalog::function(oid).filter(|function| !is_kept(function))?;
            let read = adopted::read_original(&function);
            Some((function, read))
        });
        let Some((function, read)) = read else { continue };
        match (read, &original) {
            (Ok(_), None) if reasons.is_none() => return Ok(Some(function)),
            (Ok(_), None) => original = Some(function),
            (Ok(_), Some(one)) => {
                let functions =
                    [one, &function].map(|function| names::function(function.oid)).join(", ");
                return Err(Error::OriginalAmbiguous { functions });
            }
            (Err(reason), _) => {
                if let Some(reasons) = &mut reasons
                    && reasons[usize::from(is_likely)].len() < REASONS_MAX
                {
                    reasons[usize::from(is_likely)].push(reason);
                }
            }
        }
    }
    Ok(original)
}

/// The error for a shard that has no function to adopt.
fn adopted_already(existing: &Definition, own_schema: Oid) -> Error {
    let is_adopted = match adopted::functions(existing, own_schema) {
        Ok(_) => true,
        Err(Error::NotAdopted { .. }) => false,
        Err(replaced) => return replaced,
    };
    let (shard, schema) = (existing.shard.number(), names::schema(existing.schema));
    Error::AdoptedAlready { shard, schema, is_adopted }
}
