//! The record of an adoption in a shard's schema: each adopted function, and its original under
//! another name. Both are found by name and body. So the record survives dump and restore, and
//! changes made by others are noticed.

use crate::error::{Error, listed, shortened};
use crate::pg::catalog::{self, Function, Named};
use crate::pg::names;
use crate::pg::spi::select;
use crate::pg::text::push;
use crate::sequence::IdSequence;
use crate::sequence::check::is_closed_to_nextval;
use crate::shard::ddl::{self, ShardParts};
use crate::shard::definition::Definition;
use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::Shard;
use instagram_id_core::plpgsql::{self, Difference, Original};
use pgrx::pg_sys::{self, Oid};
use pgrx::spi::quote_identifier;
use rustc_hash::FxHashMap;

/// The prefix of the name under which the original is kept.
pub const KEPT: &str = "original_";

/// An adopted function.
pub struct Adopted {
    pub function: Function,
    /// Its original, and what its body says.
    pub kept: Function,
    original: Original,
    /// The sequence that it generates ids from.
    pub sequence: IdSequence,
}

impl Adopted {
    /// Checks that the sequence belongs to the owner of the function, who can name any relation in
    /// its body, before it is locked.
    pub fn check_sequence(&self) -> Result<(), Error> {
        let sequence = self.sequence.oid;
        let relation = catalog::relation(sequence).ok_or(Error::SequenceMissing(sequence))?;
        let name = names::relation(sequence);
        if !relation.is_sequence {
            return Err(Error::NotSequence(name));
        }
        if !catalog::has_rights_of(self.function.owner, relation.owner) {
            let function = names::function(self.function.oid);
            return Err(Error::SequenceOfAnother { name, function });
        }
        Ok(())
    }

    /// Checks that the original names the sequence that the function uses. The sequence or its
    /// schema may have been renamed since.
    pub fn check_name_in_original(&self) -> Result<(), Error> {
        let sequence = self.sequence.oid;
        let Some(relation) = catalog::relation(sequence) else { return Ok(()) };
        let is = [names::raw_schema(relation.schema), names::raw_relation(sequence)];
        let is_this =
            |parts: Vec<String>| parts.iter().rev().zip(is.iter().rev()).all(|(a, b)| a == b);
        match &self.original.sequence {
            // An OID is no name.
            Some(named) if !plpgsql::name_parts(named).is_none_or(is_this) => {
                Err(Error::OriginalNamesAnother {
                    kept: names::function(self.kept.oid),
                    named: shortened(named),
                    sequence: names::relation(sequence),
                })
            }
            _ => Ok(()),
        }
    }
}

impl PartialEq for Adopted {
    fn eq(&self, other: &Self) -> bool {
        (self.function.oid, self.function.owner, self.kept.oid, self.sequence)
            == (other.function.oid, other.function.owner, other.kept.oid, other.sequence)
    }
}

/// The adopted functions of a shard, those on the shard's own sequence first.
///
/// Other roles may create functions in the schema. One counts only if its kept original has the
/// same owner, and that owner has the privileges of the shard's owner.
///
/// # Errors
///
/// There is none, or one was replaced, dropped, renamed or given away since it was adopted.
pub fn functions(definition: &Definition, own_schema: Oid) -> Result<Vec<Adopted>, Error> {
    let shard = definition.shard.number();
    let mut adopted = vec![];
    for (kept, original) in kept_originals(definition) {
        let Some(name) = kept.name.strip_prefix(KEPT) else { continue };
        let (function, other_role) = match catalog::function_in(definition.schema, name, &[]) {
            Some(function) if function.owner != kept.owner => (None, Some(function.owner)),
            function => (function, None),
        };
        let sequence = function.as_ref().and_then(|one| sequence_of(one, definition, own_schema));
        match (function, sequence) {
            (Some(function), Some(sequence)) => {
                adopted.push(Adopted { function, kept, original, sequence });
            }
            (found, _) if is_closed(&original) => {
                let function = names::function_in(definition.schema, name, "");
                let (kept, owner) = (names::function(kept.oid), kept.owner);
                if found.is_some() {
                    return Err(Error::AdoptedReplaced { function, kept, shard });
                }
                let (name, other) = (quote_identifier(name), other_role.map(names::role));
                let owner = names::role(owner);
                return Err(Error::AdoptedDropped { function, kept, name, owner, other });
            }
            // They only have such names.
            _ => {}
        }
    }
    if adopted.is_empty() {
        return Err(Error::NotAdopted { shard, schema: names::schema(definition.schema) });
    }
    adopted.sort_by_key(|one| one.sequence != definition.sequence);
    Ok(adopted)
}

/// The sequence of an original, if it is closed to `nextval()`.
pub fn closed_sequence_of(kept: &Function) -> Option<Oid> {
    let original = read_original(kept).ok()?;
    sequence_shown(&original).filter(|sequence| is_closed_to_nextval(*sequence))
}

/// Whether an original generates no ids, since its sequence is closed to `nextval()`. Its name may
/// no longer show the sequence.
fn is_closed(original: &Original) -> bool {
    sequence_shown(original).is_none_or(is_closed_to_nextval)
}

/// The clock from which the function generates ids of the shard, if it does.
fn sequence_of(
    function: &Function,
    definition: &Definition,
    own_schema: Oid,
) -> Option<IdSequence> {
    ddl::sequence_of_ids(function, own_schema, definition.shard)
        .filter(|sequence| sequence.epoch == definition.sequence.epoch)
}

/// The functions in the schema of a shard that are named as kept originals and generate its ids in
/// the original way, and whose owners have the privileges of the shard's owner. Other roles decide
/// how many others there are, so PostgreSQL leaves those out before their bodies are read.
fn kept_originals(definition: &Definition) -> Vec<(Function, Original)> {
    // By the dependencies on the schema, which have an index.
    let query = "SELECT p.oid FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
         WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_namespace'::regclass AND d.refobjid = $1
         AND p.pronamespace = $1 AND p.pronargs = 0 AND p.prolang IN ($2, $3) AND p.prosqlbody IS NULL AND p.prorettype = 'int8'::regtype
         AND starts_with(p.proname::text, $4) AND pg_has_role(p.proowner, $5, 'USAGE') ORDER BY p.proname";
    let Definition { schema, owner, shard, .. } = *definition;
    let languages = [catalog::plpgsql(), catalog::sql()];
    let arguments =
        [schema.into(), languages[0].into(), languages[1].into(), KEPT.into(), owner.into()];
    let functions = select(query, &arguments, |row| row.get::<Oid>(1));
    functions
        .into_iter()
        .filter_map(|oid| {
            let function = catalog::function(oid)?;
            let original = read_original(&function).ok().filter(|read| may_be_of(read, shard))?;
            Some((function, original))
        })
        .collect()
}

/// Whether an original generates ids of this shard, as far as its body shows the number.
pub fn may_be_of(original: &Original, shard: Shard) -> bool {
    original.shard.is_none_or(|number| number == i64::from(shard.number()))
}

/// The function of the same owner of which this one is named as the kept original.
pub fn kept_of(function: &Function) -> Option<Function> {
    let name = function.name.strip_prefix(KEPT)?;
    catalog::function_in(function.schema, name, &[]).filter(|one| one.owner == function.owner)
}

/// The functions in the database that are named as kept originals, for a query about all shards.
/// They are read once, and each body at most once: a role can create many shards and many functions
/// in one schema.
#[derive(Default)]
pub struct KeptFunctions(Option<Vec<KeptFunction>>);

/// A function that is named as a kept original.
struct KeptFunction {
    schema: Oid,
    owner: Oid,
    oid: Oid,
    /// `None` until it is read.
    read: Option<KeptOriginal>,
}

/// The state of a function that is named as a kept original.
enum KeptOriginal {
    /// It is none, or the adopted function belongs to another role.
    Ignored,
    /// The adopted function of this name is missing.
    Alone(Original, String),
    /// The function that was adopted, and the ids that it generates.
    Adopted(Original, Oid, Option<(Shard, IdSequence)>),
}

/// The most such functions of a role that are considered: in a schema, and in all schemas, of which
/// each has one original as a rule. A role that can create schemas decides how many there are.
const KEPT_MAX: usize = 100;
const KEPT_OF_ROLE_MAX: usize = 16_384;

impl KeptFunctions {
    /// Those in a schema.
    fn in_schema(&mut self, schema: Oid) -> &mut [KeptFunction] {
        let all = self.0.get_or_insert_with(KeptFunction::all);
        let from = all.partition_point(|one| one.schema.to_u32() < schema.to_u32());
        let to = all.partition_point(|one| one.schema.to_u32() <= schema.to_u32());
        &mut all[from..to]
    }
}

impl KeptFunction {
    /// Those of all schemas, in the order of the schemas.
    fn all() -> Vec<KeptFunction> {
        let mut all: Vec<KeptFunction> = vec![];
        catalog::visit_functions(Named::StartingWith(KEPT), |kept| {
            let Function { schema, owner, oid, .. } = *kept;
            push(&mut all, KeptFunction { schema, owner, oid, read: None });
        });
        KeptFunction::limit(&mut all);
        all
    }

    /// Sorts them by schema, and removes those of a role that are too many.
    fn limit(all: &mut Vec<KeptFunction>) {
        // Stable, so that those of a role in a schema stay in the order of their names.
        all.sort_by_key(|one| (one.schema.to_u32(), one.owner.to_u32()));
        let (mut of, mut count, mut of_role) = (None, 0, FxHashMap::default());
        all.retain(|one| {
            let of_this = Some((one.schema, one.owner));
            count = if of == of_this { count + 1 } else { 1 };
            of = of_this;
            if count > KEPT_MAX {
                return false;
            }
            let of_role = of_role.entry(one.owner).or_insert(0);
            *of_role += 1;
            *of_role <= KEPT_OF_ROLE_MAX
        });
    }

    fn read(&mut self, own_schema: Oid) -> &KeptOriginal {
        let (oid, schema) = (self.oid, self.schema);
        let read = || {
            let kept = catalog::function(oid)?;
            let original = read_original(&kept).ok()?;
            let name = kept.name.strip_prefix(KEPT)?;
            Some(match catalog::function_in(schema, name, &[]) {
                None => KeptOriginal::Alone(original, name.to_owned()),
                Some(function) if function.owner != kept.owner => KeptOriginal::Ignored,
                Some(function) => {
                    let ids = ddl::ids_of(&function, own_schema);
                    KeptOriginal::Adopted(original, function.oid, ids)
                }
            })
        };
        self.read.get_or_insert_with(|| read().unwrap_or(KeptOriginal::Ignored))
    }
}

/// Why a shard does not generate its ids as it should; `None` if there is no problem.
pub fn problem(
    definition: &Definition,
    own_schema: Oid,
    kept: &mut KeptFunctions,
) -> Option<String> {
    let parts = ShardParts::of(definition, own_schema);
    let mut faults = parts.faults(definition.schema, definition.sequence);
    for kept in kept.in_schema(definition.schema) {
        if !catalog::has_rights_of(kept.owner, definition.owner) {
            continue;
        }
        let generates = |(shard, sequence): (Shard, IdSequence)| {
            shard == definition.shard && sequence.epoch == definition.sequence.epoch
        };
        let fault = match kept.read(own_schema) {
            KeptOriginal::Ignored => continue,
            KeptOriginal::Alone(original, ..) | KeptOriginal::Adopted(original, ..)
                if !may_be_of(original, definition.shard) =>
            {
                continue;
            }
            KeptOriginal::Adopted(.., Some(ids)) if generates(*ids) => {
                if is_closed_to_nextval(ids.1.oid) {
                    continue;
                }
                format!("nextval() works on {}", names::relation(ids.1.oid))
            }
            KeptOriginal::Adopted(_, function, _) => ddl::generates_others(*function),
            KeptOriginal::Alone(_, name) => ddl::is_missing(definition.schema, name, ""),
        };
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    (!faults.is_empty()).then(|| listed(&faults, "; "))
}

/// The constants in the function's body.
pub fn read_original(function: &Function) -> Result<Original, Error> {
    let read = read_body(function)?;
    if !function.parameters.is_empty() {
        return Err(Error::OriginalTakesArguments { function: names::function(function.oid) });
    }
    read.map_err(|difference| not_original(function, &difference.to_string()))
}

/// The epoch of the ids that the function generates. `None` if it generates none in the original
/// way, from its own sequence or from one that is an argument.
///
/// # Errors
///
/// The body does not name the epoch.
pub fn epoch_of(function: &Function) -> Result<Option<Epoch>, Error> {
    let Ok(Ok(read)) = read_body(function) else { return Ok(None) };
    let silent =
        || Error::OriginalSilent { function: names::function(function.oid), constant: "epoch" };
    read.epoch_ms.and_then(Epoch::from_unix_ms).ok_or_else(silent).map(Some)
}

fn not_original(function: &Function, why: &str) -> Error {
    Error::NotOriginal { function: names::function(function.oid), why: why.into() }
}

/// The constants in the body of a function that may have parameters, or why there are none.
fn read_body(function: &Function) -> Result<Result<Original, Difference>, Error> {
    let not = |why: &str| not_original(function, why);
    let is_sql = function.language == catalog::sql();
    if !is_sql && function.language != catalog::plpgsql() {
        return Err(not("is written in neither PL/pgSQL nor SQL"));
    }
    if function.returns != pg_sys::INT8OID || function.returns_set {
        return Err(not("does not return bigint"));
    }
    if function.has_parsed_body() {
        return Err(not("has a parsed body; create it with its body in quotes"));
    }
    let source = catalog::source(function.oid, catalog::TEXT_MAX).unwrap_or_default();
    Ok(if is_sql { plpgsql::read_sql(&source) } else { plpgsql::read(&source) })
}

/// The sequence that the body of an original shows.
pub fn sequence_shown(original: &Original) -> Option<Oid> {
    original.sequence.as_deref().and_then(sequence_named)
}

/// The sequence that a text given to `nextval` names. A text without a schema counts only if the
/// database has just one sequence of that name.
fn sequence_named(text: &str) -> Option<Oid> {
    let parts = plpgsql::name_parts(text)?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name),
        [schema, name] => (Some(schema), name),
        _ => return None,
    };
    let query = "SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.relkind = 'S' AND c.relpersistence <> 't' AND c.relname = $1 AND ($2 IS NULL OR n.nspname = $2)";
    let arguments = [name.as_str().into(), schema.map(String::as_str).into()];
    match select(query, &arguments, |row| row.get::<Oid>(1)).as_slice() {
        [sequence] => Some(*sequence),
        _ => None,
    }
}

/// The longest body in which names are searched for, in bytes.
pub const SEARCHED_MAX: usize = 1_000_000;

/// A condition: whether the body of `p`, a row of `pg_proc`, has a call of `nextval`, or its name.
/// Of bodies that are too long to be read, only parsed ones count; `longest` is the limit for the
/// others, as an expression.
///
/// Any role that can create functions in a schema decides about their bodies. To show a parsed
/// body, PostgreSQL waits for locks on the tables that it names.
pub fn mentions_nextval(longest: &str) -> String {
    let (max, nextval) = (SEARCHED_MAX, pg_sys::F_NEXTVAL);
    format!(
        "CASE WHEN p.prosqlbody IS NULL
                 THEN octet_length(p.prosrc) <= {longest} AND strpos(lower(p.prosrc COLLATE \"C\"), 'nextval') > 0
             WHEN octet_length(p.prosqlbody::text) > {max} THEN true
             ELSE strpos(p.prosqlbody::text COLLATE \"C\", ':funcid {nextval} ') > 0 END"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_role_are_limited() {
        let of = |schema: u32, owner: u32| KeptFunction {
            schema: Oid::from(schema),
            owner: Oid::from(owner),
            oid: Oid::INVALID,
            read: None,
        };
        // Role 1 has too many in schema 7, and role 2 in all schemas.
        let mut all: Vec<_> = (0..KEPT_MAX + 1).map(|_| of(7, 1)).collect();
        all.extend((0..KEPT_OF_ROLE_MAX as u32 + 9).map(|schema| of(schema, 2)));
        all.push(of(99_999, 3));
        KeptFunction::limit(&mut all);
        let of_role = |owner: u32| all.iter().filter(|one| one.owner == Oid::from(owner)).count();
        assert_eq!([1, 2, 3].map(of_role), [KEPT_MAX, KEPT_OF_ROLE_MAX, 1]);
        assert!(all.is_sorted_by_key(|one| one.schema.to_u32()));
    }
}
