//! What makes a schema a shard: its function `shard_<N>()`, which says what the shard consists of.
//!
//! ```text
//! insta5.shard_5(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
//!     SELECT 'insta5.table_id_seq'::regclass, '2011-08-24 21:07:01.721+00'::timestamptz, '7642…/16384'
//! ```
//!
//! It is in the schema and nowhere else, so that it travels with it, through dump, restore and rename. Its name
//! holds the shard's number, so that one look into an index finds the shard among thousands, whatever its schema is
//! called. It is read here and never run; PostgreSQL sees to it that the sequence is not dropped without it.

use crate::catalog::{self, Function, Named, Relation};
use crate::epoch::Epoch;
use crate::error::Error;
use crate::layout::Shard;
use crate::names;
use crate::sequence::Clock;
use pgrx::pg_sys::{self, Oid};

/// What the name of every defining function starts with.
const PREFIX: &str = "shard_";

/// A shard, as its schema defines it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    pub shard: Shard,
    pub schema: Oid,
    pub clock: Clock,
    /// The database that the shard is at home in, as [`this_database`] named it there.
    pub home: String,
    /// The function that says all this, and its owner.
    pub function: Oid,
    pub owner: Oid,
}

/// The name of the function that defines a shard.
pub fn function_name(shard: Shard) -> String {
    format!("{PREFIX}{}", shard.number())
}

/// The name of a shard's schema where nothing else is asked for, as in the original.
pub fn schema_name(shard: Shard) -> String {
    format!("insta{}", shard.number())
}

/// This database among all the world's: the identifier that initdb gave the server, and the database's OID.
pub fn this_database() -> String {
    // SAFETY: both are set before a backend runs SQL.
    unsafe { format!("{}/{}", pg_sys::GetSystemIdentifier(), pg_sys::MyDatabaseId.to_u32()) }
}

/// Finds a shard by its number.
///
/// Anyone who may make functions can make one of that name. So it counts only if its owner has the rights of the
/// sequence's owner, too; one of the database's owner, or of a superuser, comes before all others, which nobody else
/// can win over; and then one whose owner has the rights of the schema's owner.
///
/// # Errors
///
/// 42725 where that leaves more than one.
pub fn find(shard: Shard) -> Result<Option<Definition>, Error> {
    let mut found = vec![];
    catalog::visit_functions(Named::Exactly(&function_name(shard)), |function| found.extend(read(function)));
    let ranks: [fn(&Definition) -> bool; 2] = [
        |definition| catalog::rules_database(definition.owner),
        |definition| catalog::rules_schema(definition.schema, definition.owner),
    ];
    for is_before_others in ranks {
        if found.len() > 1 && found.iter().any(is_before_others) {
            found.retain(is_before_others);
        }
    }
    if found.len() > 1 {
        let schemas = found.iter().map(|one| names::schema(one.schema)).collect();
        return Err(Error::ShardAmbiguous { shard: shard.number(), schemas });
    }
    Ok(found.pop())
}

/// The shards that a sequence serves: one, unless its owner has made more. Here a definition also counts if it is in the
/// sequence's schema and its owner rules that: then the sequence was given to another role.
pub fn served_by(sequence: Oid) -> Vec<Definition> {
    let mut found = defined_by(catalog::functions_that_need(pg_sys::RelationRelationId, sequence));
    found.retain(|definition| definition.clock.sequence == sequence);
    found
}

/// The shards that the schema of a sequence is.
pub fn in_schema_of(sequence: Oid) -> Vec<Definition> {
    let Some(relation) = catalog::relation(sequence) else { return vec![] };
    defined_by(catalog::functions_that_need(pg_sys::NamespaceRelationId, relation.schema))
}

fn defined_by(functions: Vec<Oid>) -> Vec<Definition> {
    let definitions = functions.into_iter().filter_map(|function| parse(&catalog::function(function)?));
    let rules = |definition: &Definition| {
        catalog::relation(definition.clock.sequence).is_some_and(|relation| {
            catalog::has_rights_of(definition.owner, relation.owner)
                || relation.schema == definition.schema
                    && catalog::rules_schema(definition.schema, definition.owner)
        })
    };
    definitions.filter(rules).collect()
}

/// Visits every shard of the database, as far as each can be found by its number.
pub fn visit_all(mut visit: impl FnMut(Definition)) {
    catalog::visit_functions(Named::StartingWith(PREFIX), |function| {
        if let Some(definition) = read(function) {
            visit(definition);
        }
    });
}

/// What the function defines, if it is of the form above, and its owner has the rights of the sequence's.
pub fn read(function: &Function) -> Option<Definition> {
    let is_of_owner = |relation: Relation| catalog::has_rights_of(function.owner, relation.owner);
    parse(function).filter(|definition| catalog::relation(definition.clock.sequence).is_some_and(is_of_owner))
}

/// What the function defines, whoever has made it.
fn parse(function: &Function) -> Option<Definition> {
    let shard = Shard::new(function.name.strip_prefix(PREFIX)?.parse().ok()?)?;
    // A schema can be gone: servers of before November 2026 let it be dropped beside a transaction that makes a
    // function in it.
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
        clock: Clock { sequence, epoch: Epoch::new(epoch.time()?).filter(|epoch| epoch.has_whole_field())? },
        home: home.text()?,
        function: function.oid,
        owner: function.owner,
    })
}

/// What a schema's `epoch()` says, where it is as `create_shard` makes it.
pub fn epoch_of(function: &Function) -> Option<Epoch> {
    if function.returns != pg_sys::TIMESTAMPTZOID || function.returns_set {
        return None;
    }
    let selected = function.selected()?;
    let [epoch] = selected.as_slice() else { return None };
    Epoch::new(epoch.time()?)
}
