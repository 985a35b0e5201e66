//! The tables below the one that `adopt_table` changes: its partitions, and those that inherit from
//! it. They get the same default, whoever owns them.

use crate::error::Error;
use crate::pg::catalog::{self, tree_of};
use crate::pg::names;
use crate::pg::spi::select;
use crate::shard::columns::Column;
use crate::shard::definition::Definition;
use crate::shard::trust::Trust;
use pgrx::pg_sys::Oid;

/// Checks that the owner of the table could change those below it, and that they have the same keys
/// or none, so that the way back restores all of them.
pub fn check(column: &Column, default: Option<&str>, identity: &str) -> Result<(), Error> {
    let Some(above) = catalog::relation(column.table) else { return Ok(()) };
    for (table, below_default, below_identity) in keys_below(column) {
        let Some(relation) = catalog::relation(table) else { continue };
        if !catalog::has_rights_of(above.owner, relation.owner) {
            return Err(Error::BelowOfAnother {
                table: names::relation(table),
                owner: names::role(relation.owner),
                above: names::relation(column.table),
                role: names::role(above.owner),
            });
        }
        let differs = below_default.is_some() && below_default.as_deref() != default;
        if differs || !below_identity.is_empty() && below_identity != identity {
            let below = Column { table, ..column.clone() };
            let (column, above) = (below.qualified(), column.qualified());
            return Err(Error::BelowHasOtherKeys { column, default: below_default, above });
        }
    }
    Ok(())
}

/// Checks that those who use each table below this one trust the shard, too: one can be in another
/// schema.
pub fn check_trust(table: Oid, definition: &Definition, names_schema: bool) -> Result<(), Error> {
    let tables = select(&tree_of("$1"), &[table.into()], |row| row.get::<Oid>(1));
    for relation in tables.into_iter().filter_map(catalog::relation) {
        Trust::of_table(&relation, definition.schema, names_schema).check(definition)?;
    }
    Ok(())
}

/// For each table below that of the column: its default of this column, and whether it is an
/// identity, as `attidentity` shows it.
fn keys_below(column: &Column) -> Vec<(Oid, Option<String>, String)> {
    let query = format!(
        "SELECT a.attrelid, CASE a.attgenerated WHEN '' THEN pg_get_expr(f.adbin, 0::oid) ELSE 'generated' END,
             a.attidentity::text
         FROM ({}) AS below JOIN pg_attribute AS a ON a.attrelid = relid AND a.attname = $2
         LEFT JOIN pg_attrdef AS f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
         WHERE relid <> $1 ORDER BY 1",
        tree_of("$1")
    );
    let arguments = [column.table.into(), column.name.as_str().into()];
    select(&query, &arguments, |row| Some((row.get(1)?, row.get(2), row.get(3)?)))
}
