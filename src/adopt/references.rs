//! The columns that reference a key by foreign keys, and whether they can hold ids.

use crate::error::Error;
use crate::pg::catalog::{self, BaseTypes};
use crate::pg::names;
use crate::pg::spi::select_by_index;
use crate::shard::columns::Column;
use pgrx::pg_sys::{self, Oid};
use pgrx::spi::quote_identifier;

/// A column that references the key and is too narrow for an id.
struct Narrow {
    table: Oid,
    name: String,
    type_name: String,
}

/// Checks that the columns that reference the key can hold ids. Otherwise a row with an id could be
/// inserted, but none that references it.
pub fn check(key: &Column) -> Result<(), Error> {
    let narrow = narrow_references(key);
    if narrow.is_empty() {
        return Ok(());
    }
    let described = |one: &Narrow| {
        format!(
            "{}.{} ({})",
            names::relation(one.table),
            quote_identifier(&one.name),
            one.type_name
        )
    };
    Err(Error::ReferencesNotBigint {
        column: key.qualified(),
        references: narrow.iter().map(described).collect(),
    })
}

/// The columns of type integer or smallint that reference the key or its copies in partitions, or
/// such a column in turn. Of a partitioned table only the column of the table itself is returned.
/// Other roles decide how many there are, so they are found by indexes.
fn narrow_references(key: &Column) -> Vec<Narrow> {
    let query = format!(
        "WITH RECURSIVE columns(relid, name, is_reference) AS (
             SELECT attrelid, attname, false FROM pg_attribute WHERE attrelid = $1 AND attname = $2
             UNION SELECT next.* FROM columns AS c, LATERAL (
                 SELECT inhrelid, c.name, c.is_reference FROM pg_inherits WHERE inhparent = c.relid
                 UNION ALL SELECT i.inhparent, c.name, true FROM pg_inherits AS i
                     JOIN pg_attribute AS a ON a.attrelid = i.inhparent AND a.attname = c.name AND NOT a.attisdropped
                     WHERE i.inhrelid = c.relid AND c.is_reference
                 UNION ALL SELECT f.conrelid, own.attname, true
                 FROM {} AS f, LATERAL unnest(f.conkey, f.confkey) AS k(own, key)
                     JOIN pg_attribute AS own ON own.attnum = k.own JOIN pg_attribute AS key ON key.attnum = k.key
                     WHERE own.attrelid = f.conrelid AND key.attrelid = f.confrelid AND key.attname = c.name
             ) AS next
         )
         SELECT c.relid, a.attname::text, format_type(a.atttypid, a.atttypmod), a.atttypid
         FROM columns AS c JOIN pg_attribute AS a ON a.attrelid = c.relid AND a.attname = c.name
         WHERE c.is_reference AND a.attinhcount = 0
         ORDER BY c.relid, a.attnum",
        catalog::foreign_keys_on("c.relid")
    );
    let types = BaseTypes::default();
    let arguments = [key.table.into(), key.name.clone().into()];
    select_by_index(&query, &arguments, |row| match types.of(row.get(4)?) {
        pg_sys::INT2OID | pg_sys::INT4OID => {
            Some(Narrow { table: row.get(1)?, name: row.get(2)?, type_name: row.get(3)? })
        }
        _ => None,
    })
}
