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

use crate::catalog::{self, Function, Named};
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
    /// Who owns the function that says all this.
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
/// Others may have functions of that name: a schema named `insta<N>` comes before all others, and a function whose
/// owner has the rights of the schema's owner before one that someone else has put there.
///
/// # Errors
///
/// 42725 where that leaves more than one.
pub fn find(shard: Shard) -> Result<Option<Definition>, Error> {
    let mut found = vec![];
    catalog::visit_functions(Named::Exactly(&function_name(shard)), |function| found.extend(read(function)));
    if found.len() > 1 {
        let original_name = catalog::schema_oid(&schema_name(shard));
        if let Some(first) = found.iter().position(|one| one.schema == original_name) {
            return Ok(Some(found.swap_remove(first)));
        }
        if found.iter().any(is_by_schemas_owner) {
            found.retain(is_by_schemas_owner);
        }
    }
    if found.len() > 1 {
        let schemas = found.iter().map(|one| names::schema(one.schema)).collect();
        return Err(Error::ShardAmbiguous { shard: shard.number(), schemas });
    }
    Ok(found.pop())
}

/// Visits every shard of the database, as far as each can be found by its number.
pub fn visit_all(mut visit: impl FnMut(Definition)) {
    catalog::visit_functions(Named::StartingWith(PREFIX), |function| {
        if let Some(definition) = read(function) {
            visit(definition);
        }
    });
}

fn is_by_schemas_owner(definition: &Definition) -> bool {
    catalog::rules_schema(definition.schema, definition.owner)
}

/// What the function defines, if it is of the form above.
pub fn read(function: &Function) -> Option<Definition> {
    let shard = Shard::new(function.name.strip_prefix(PREFIX)?.parse().ok()?)?;
    let is_canonical = function.name == function_name(shard);
    if !is_canonical || !function.parameters.is_empty() || catalog::is_temporary_schema(function.schema) {
        return None;
    }
    let [sequence, epoch, home] = function.body.as_deref()? else { return None };
    Some(Definition {
        shard,
        schema: function.schema,
        clock: Clock { sequence: sequence.oid(pg_sys::REGCLASSOID)?, epoch: Epoch::new(epoch.time()?)? },
        home: home.text()?,
        owner: function.owner,
    })
}

/// What a schema's `epoch()` says, where it is as `create_shard` makes it.
pub fn epoch_of(function: &Function) -> Option<Epoch> {
    let [epoch] = function.body.as_deref()? else { return None };
    Epoch::new(epoch.time()?)
}
