//! The tables below the one that `adopt_table` changes: its partitions, and those that inherit from
//! it. `ALTER TABLE` gives them the same default, and so does the way back.

use crate::adopt::key_column::Keys;
use crate::error::Error;
use crate::pg::catalog::{self, Relation, tree_of};
use crate::pg::names;
use crate::pg::spi::select_by_index;
use crate::shard::definition::Definition;
use crate::shard::trust::Trust;
use pgrx::pg_sys::Oid;

/// Checks a table with these keys and all below it: the caller may change them, and those who use
/// them trust the shard. If the way back leads to a function, the owner of the table could have
/// given it to them.
pub fn check(
    table: Oid,
    keys: &Keys,
    definition: &Definition,
    names_schema: bool,
) -> Result<(), Error> {
    let Some(above) = catalog::relation(table) else { return Ok(()) };
    for (oid, relation) in tree(table) {
        if !catalog::has_rights_of(catalog::current_role(), relation.owner) {
            return Err(Error::NotTableOwner(names::relation(oid)));
        }
        Trust::of_table(&relation, definition.schema, names_schema).check(definition)?;
        let is_of_function = matches!(keys, Keys::Function(_));
        if is_of_function && !catalog::has_rights_of(above.owner, relation.owner) {
            return Err(Error::BelowOfAnother {
                table: names::relation(oid),
                owner: names::role(relation.owner),
                above: names::relation(table),
                role: names::role(above.owner),
            });
        }
    }
    Ok(())
}

/// Whether a table below this one belongs to a role whose tables the owner of this one may not
/// change.
pub fn has_others(table: Oid) -> bool {
    catalog::relation(table).is_some_and(|above| {
        tree(table).any(|(_, relation)| !catalog::has_rights_of(above.owner, relation.owner))
    })
}

/// The table itself, and all tables below it.
fn tree(table: Oid) -> impl Iterator<Item = (Oid, Relation)> {
    let oids = select_by_index(&tree_of("$1"), &[table.into()], |row| row.get::<Oid>(1));
    oids.into_iter().filter_map(|oid| Some((oid, catalog::relation(oid)?)))
}
