//! The function `shard_<N>()`, which makes a schema a shard and contains its sequence, epoch and
//! database.
//!
//! ```text
//! insta5.shard_5(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
//!     SELECT 'insta5.table_id_seq'::regclass, '2011-08-24 21:07:01.721+00'::timestamptz, '7642…/16384'
//! ```
//!
//! This is stored in the schema and nowhere else, so dump, restore and rename keep it. The
//! function's name contains the shard's number. So one index lookup finds the shard among
//! thousands, whatever the name of its schema. The function is parsed but never run. It depends on
//! the sequence, so the sequence cannot be dropped without it.

use crate::error::Error;
use crate::pg::catalog::{self, Function, Named, Relation};
use crate::pg::invalidation::{self, Catalog};
use crate::pg::names;
use crate::pg::text::push;
use crate::sequence::IdSequence;
use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::{SHARD_MAX, Shard};
use pgrx::pg_sys::{self, Oid};

/// The prefix of the name of every defining function.
const PREFIX: &str = invalidation::DEFINING_PREFIX;

/// A shard, as its schema defines it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    pub shard: Shard,
    pub schema: Oid,
    pub sequence: IdSequence,
    /// The database that generates the shard's ids, in the form of [`this_database`].
    pub home: String,
    /// The function with this definition, and its owner.
    pub function: Oid,
    pub owner: Oid,
}

/// The name of the function that defines a shard.
pub fn function_name(shard: Shard) -> String {
    format!("{PREFIX}{}", shard.number())
}

/// The default name of a shard's schema, as in the original.
pub fn schema_name(shard: Shard) -> String {
    format!("insta{}", shard.number())
}

/// A globally unique name of this database: the system identifier from initdb, and the database's
/// OID.
pub fn this_database() -> String {
    // SAFETY: both are set before a backend runs SQL.
    unsafe { format!("{}/{}", pg_sys::GetSystemIdentifier(), pg_sys::MyDatabaseId.to_u32()) }
}

/// Finds a shard by its number.
///
/// Any role that may create functions can create one of that name. So a function counts only if its
/// owner has the privileges of the sequence's owner, or the sequence is in its schema. Among these,
/// functions owned by the database's owner or a superuser come first, because other roles cannot
/// create them. There is no other order: nothing else shows which of two roles created the shard,
/// and ids of a number that come from another sequence repeat.
///
/// The owner must have these privileges in any case. But if the sequence is in its schema, that
/// does not choose between functions: while the parts of a shard get another owner, one at a time,
/// only that of another role would be left.
pub fn find(shard: Shard) -> Result<Option<Definition>, Error> {
    invalidation::look_up(|found| !matches!(found, Ok(Some(_))), || find_once(shard))
}

fn find_once(shard: Shard) -> Result<Option<Definition>, Error> {
    let mut found = vec![];
    catalog::visit_functions(Named::Exactly(&function_name(shard)), |function| {
        if let Some(definition) = parse_watching(function).filter(counts) {
            push(&mut found, definition);
        }
    });
    let is_before_others = |definition: &Definition| catalog::owns_database(definition.owner);
    if found.len() > 1 && found.iter().any(is_before_others) {
        found.retain(is_before_others);
    }
    if found.len() > 1 {
        let shown = |one: &Definition| {
            format!("{} of role {}", names::function(one.function), names::role(one.owner))
        };
        let definitions = found.iter().map(shown).collect();
        return Err(Error::ShardAmbiguous { shard: shard.number(), definitions });
    }
    let found = found.pop();
    found.as_ref().map_or(Ok(()), check_owner)?;
    Ok(found)
}

/// Checks that the owner of the definition has the privileges of the sequence's owner.
pub fn check_owner(definition: &Definition) -> Result<(), Error> {
    let of_sequence = sequence_of(definition).map(|sequence| sequence.owner);
    if of_sequence.is_some_and(|owner| catalog::has_rights_of(definition.owner, owner)) {
        return Ok(());
    }
    Err(Error::DefinitionOfAnother {
        name: names::relation(definition.sequence.oid),
        function: names::function(definition.function),
        owner: names::role(definition.owner),
        shard: definition.shard.number(),
        schema: names::raw_schema(definition.schema),
        role: names::role(of_sequence.unwrap_or(Oid::INVALID)),
    })
}

/// The definition of a shard in this schema, for a result that is cached.
pub fn in_schema_by_number(schema: Oid, shard: Shard) -> Option<Definition> {
    candidate_in_schema(schema, shard).filter(owns_sequence)
}

/// The same, if it counts; see [`candidate`].
pub fn candidate_in_schema(schema: Oid, shard: Shard) -> Option<Definition> {
    invalidation::watch_row(Catalog::Schema, schema);
    invalidation::look_up(Option::is_none, || {
        let function = catalog::function_in(schema, &function_name(shard), &[])?;
        parse_watching(&function).filter(counts)
    })
}

/// Whether the schema of a sequence defines this shard, with the sequence and its epoch. That is
/// one look-up by name, whatever other roles have created.
pub fn serves_in_its_schema(sequence: IdSequence, shard: Shard) -> bool {
    watch_schema_of(sequence.oid);
    catalog::relation(sequence.oid)
        .and_then(|relation| catalog::function_in(relation.schema, &function_name(shard), &[]))
        .is_some_and(|function| serves_by(&function, sequence))
}

/// Whether any schema defines this shard, with a sequence and its epoch.
pub fn serves_anywhere(sequence: IdSequence, shard: Shard) -> bool {
    let mut serves = false;
    catalog::visit_functions(Named::Exactly(&function_name(shard)), |function| {
        serves |= serves_by(function, sequence);
    });
    serves
}

fn serves_by(function: &Function, sequence: IdSequence) -> bool {
    parse_watching(function).is_some_and(|it| {
        it.sequence == sequence && decides_about(it.schema, it.owner, sequence.oid)
    })
}

/// The shards that a sequence serves: one, unless its owner has created more. Any role can create
/// functions that depend on the sequence, and this looks at each of them.
pub fn served_by(sequence: Oid) -> Vec<Definition> {
    let mut found = vec![];
    watch_schema_of(sequence);
    let object = (pg_sys::RelationRelationId, sequence);
    let may_own = |schema, owner| decides_about(schema, owner, sequence);
    catalog::visit_functions_that_need(object, PREFIX, may_own, usize::MAX, |function| {
        let definition = parse_watching(function).filter(|it| it.sequence.oid == sequence);
        if let Some(definition) = definition {
            push(&mut found, definition);
        }
    });
    found
}

/// The shards that the schema of a sequence defines. A definition counts only if it may decide
/// about this sequence as well: otherwise a role that can create functions in the schema could
/// choose the epoch for the sequences of others.
pub fn in_schema_of(sequence: Oid) -> Vec<Definition> {
    let mut found = vec![];
    let Some(relation) = catalog::relation(sequence) else { return found };
    watch_schema_of(sequence);
    let may_own = |owner| decides_about(relation.schema, owner, sequence);
    visit_in_schema(relation.schema, may_own, |function| {
        let may_serve = |it: &Definition| decides_about(it.schema, it.owner, it.sequence.oid);
        if let Some(definition) = parse_watching(function).filter(may_serve) {
            push(&mut found, definition);
        }
    });
    found
}

/// Whether a definition in this schema, with this owner, may decide what a sequence is used for:
/// the owner has the privileges of the sequence's owner. In the schema of the sequence, those of
/// the schema's owner are enough; then the sequence was given to another role.
fn decides_about(schema: Oid, owner: Oid, sequence: Oid) -> bool {
    catalog::relation(sequence).is_some_and(|relation| {
        catalog::has_rights_of(owner, relation.owner)
            || relation.schema == schema && catalog::owns_schema(schema, owner)
    })
}

/// Counts changes of the schema's owner, on which the answer of [`decides_about`] depends. The
/// cache of sequences watches the sequence, and changes of a definition's owner are always counted.
fn watch_schema_of(sequence: Oid) {
    if let Some(relation) = catalog::relation(sequence) {
        invalidation::watch_row(Catalog::Schema, relation.schema);
    }
}

/// The shards that a schema defines, ordered by number; see [`candidate`].
pub fn in_schema(schema: Oid) -> Vec<Definition> {
    let mut found = vec![];
    visit_in_schema(
        schema,
        |_| true,
        |function| {
            if let Some(definition) = candidate(function) {
                push(&mut found, definition);
            }
        },
    );
    found.sort_by_key(|definition| definition.shard.number());
    found
}

/// Up to so many functions that depend on a schema are looked at one by one, and up to four times
/// as many objects. Any role can create more, in its temporary schema. Then it takes less to ask
/// for each name that a definition can have.
const NAMED_MAX: usize = 5000;

/// Visits the functions in a schema that have the name of a definition, if `may_own` accepts their
/// owner.
fn visit_in_schema(schema: Oid, may_own: impl Fn(Oid) -> bool, mut visit: impl FnMut(&Function)) {
    // A function in another schema can depend on this one as well.
    let is_in_it = |of, owner| of == schema && may_own(owner);
    let object = (pg_sys::NamespaceRelationId, schema);
    if catalog::visit_functions_that_need(object, PREFIX, is_in_it, NAMED_MAX, &mut visit) {
        return;
    }
    for number in 0..=SHARD_MAX {
        pgrx::check_for_interrupts!();
        let function = catalog::function_in(schema, &format!("{PREFIX}{number}"), &[]);
        if let Some(function) = function.filter(|it| may_own(it.owner)) {
            visit(&function);
        }
    }
}

/// Visits every definition in the database that counts, even if several define the same shard.
pub fn visit_all(mut visit: impl FnMut(Definition)) {
    catalog::visit_functions(Named::StartingWith(PREFIX), |function| {
        if let Some(definition) = candidate(function) {
            visit(definition);
        }
    });
}

/// The definition in the function, if it has the form above and its owner has the privileges of the
/// sequence's owner.
pub fn read(function: &Function) -> Option<Definition> {
    parse(function).filter(owns_sequence)
}

/// The definition in the function, if it counts. Its owner need not have the privileges that
/// [`check_owner`] requires.
pub fn candidate(function: &Function) -> Option<Definition> {
    parse(function).filter(counts)
}

/// Whether the definition is one of the candidates for its number.
fn counts(definition: &Definition) -> bool {
    sequence_of(definition).is_some_and(|sequence| {
        sequence.schema == definition.schema
            || catalog::has_rights_of(definition.owner, sequence.owner)
    })
}

/// Whether the owner of the definition has the privileges of the sequence's owner.
pub fn owns_sequence(definition: &Definition) -> bool {
    sequence_of(definition)
        .is_some_and(|sequence| catalog::has_rights_of(definition.owner, sequence.owner))
}

/// The sequence of the definition. Any other relation can take long to open.
fn sequence_of(definition: &Definition) -> Option<Relation> {
    catalog::relation(definition.sequence.oid).filter(|relation| relation.is_sequence)
}

/// The same as [`parse`], for a result that is cached: counts changes of all that it depends on,
/// and those of the function even if their message came after it was read.
fn parse_watching(function: &Function) -> Option<Definition> {
    invalidation::watch_row(Catalog::Function, function.oid);
    invalidation::watch_row(Catalog::Schema, function.schema);
    let definition = parse(function);
    if let Some(definition) = &definition {
        invalidation::watch(definition.sequence.oid);
    }
    definition
}

/// The definition in the function, without a check of its owner.
fn parse(function: &Function) -> Option<Definition> {
    let shard = Shard::new(function.name.strip_prefix(PREFIX)?.parse().ok()?)?;
    // The schema may be gone: servers from before November 2026 allow a schema to be dropped while
    // another transaction creates a function in it.
    if function.name != function_name(shard)
        || function.returns_set
        || !catalog::schema_exists(function.schema)
    {
        return None;
    }
    let selected = function.selected()?;
    let [sequence, epoch, home] = selected.as_slice() else { return None };
    let sequence = sequence.oid(pg_sys::REGCLASSOID)?;
    Some(Definition {
        shard,
        schema: function.schema,
        sequence: IdSequence {
            oid: sequence,
            epoch: Epoch::new(epoch.time()?).filter(|epoch| epoch.has_whole_field())?,
        },
        home: home.text()?,
        function: function.oid,
        owner: function.owner,
    })
}

/// The epoch in a schema's `epoch()`, if the function is as `create_shard` creates it.
pub fn epoch_of(function: &Function) -> Option<Epoch> {
    if function.returns != pg_sys::TIMESTAMPTZOID || function.returns_set {
        return None;
    }
    let selected = function.selected()?;
    let [epoch] = selected.as_slice() else { return None };
    Epoch::new(epoch.time()?)
}
