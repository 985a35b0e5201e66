//! The columns that reference a key by foreign keys, and whether they can hold ids.

use crate::error::{Error, Widening};
use crate::pg::catalog;
use crate::pg::names;
use crate::pg::spi::select;
use crate::shard::columns::Column;
use pgrx::pg_sys::Oid;
use pgrx::spi::quote_identifier;

/// A column that references the key and is too narrow for an id.
pub struct Narrow {
    table: Oid,
    name: String,
    type_name: String,
}

impl Narrow {
    /// The statement that lets a column of a table hold ids.
    pub fn widen(&self) -> String {
        widen(self.table, &self.name)
    }
}

/// The statement that lets a column hold ids. It rewrites the table, for which PostgreSQL
/// evaluates expressions of the table's owner. With SET ROLE they could return to the rights of the
/// caller.
pub fn widen(table: Oid, name: &str) -> String {
    let table_name = names::relation(table);
    let statement =
        format!("ALTER TABLE {table_name} ALTER {} TYPE bigint", quote_identifier(name));
    let owner = catalog::relation(table).map(|relation| relation.owner);
    match owner.filter(|owner| !catalog::has_rights_of(*owner, catalog::current_role())) {
        Some(owner) => format!("{statement} in a session of role {}", names::role(owner)),
        None => statement,
    }
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
        way: way_to_widen(key.table, narrow.iter().map(Narrow::widen).collect()),
    })
}

/// These statements, unless they would evaluate expressions of a role without the rights of the
/// table's owner: they rewrite tables, and check foreign keys between them again.
pub fn way_to_widen(table: Oid, statements: Vec<String>) -> Widening {
    let owner = catalog::relation(table).map_or(Oid::INVALID, |relation| relation.owner);
    let query = "WITH RECURSIVE connected(oid) AS (
             SELECT $1
             UNION SELECT next.oid FROM connected AS c, LATERAL (
                 SELECT inhrelid FROM pg_inherits WHERE inhparent = c.oid
                 UNION ALL SELECT inhparent FROM pg_inherits WHERE inhrelid = c.oid
                 UNION ALL SELECT conrelid FROM pg_constraint WHERE contype = 'f' AND confrelid = c.oid
                 UNION ALL SELECT confrelid FROM pg_constraint WHERE contype = 'f' AND conrelid = c.oid
             ) AS next(oid)
         )
         SELECT oid, relowner FROM connected JOIN pg_class USING (oid) ORDER BY oid";
    let others: Vec<String> =
        select(query, &[table.into()], |row| Some((row.get::<Oid>(1)?, row.get::<Oid>(2)?)))
            .into_iter()
            .filter(|(_, other)| !catalog::has_rights_of(*other, owner))
            .map(|(table, _)| names::relation(table))
            .collect();
    if others.is_empty() {
        Widening::Statements(statements)
    } else {
        Widening::TablesOfOthers(others)
    }
}

/// The columns of type integer or smallint that reference the key or its copies in partitions, or
/// such a column in turn. Of a partitioned table only the column of the table itself is returned.
pub fn narrow_references(key: &Column) -> Vec<Narrow> {
    let query = "WITH RECURSIVE columns(relid, name, is_reference) AS (
             SELECT attrelid, attname, false FROM pg_attribute WHERE attrelid = $1 AND attname = $2
             UNION SELECT next.* FROM columns AS c, LATERAL (
                 SELECT inhrelid, c.name, c.is_reference FROM pg_inherits WHERE inhparent = c.relid
                 UNION ALL SELECT i.inhparent, c.name, true FROM pg_inherits AS i
                     JOIN pg_attribute AS a ON a.attrelid = i.inhparent AND a.attname = c.name AND NOT a.attisdropped
                     WHERE i.inhrelid = c.relid AND c.is_reference
                 UNION ALL SELECT f.conrelid, own.attname, true FROM pg_constraint AS f, unnest(f.conkey, f.confkey) AS k(own, key)
                     JOIN pg_attribute AS own ON own.attnum = k.own JOIN pg_attribute AS key ON key.attnum = k.key
                     WHERE f.contype = 'f' AND f.confrelid = c.relid AND own.attrelid = f.conrelid
                     AND key.attrelid = f.confrelid AND key.attname = c.name
             ) AS next
         )
         SELECT c.relid, a.attname::text, format_type(a.atttypid, a.atttypmod)
         FROM columns AS c JOIN pg_attribute AS a ON a.attrelid = c.relid AND a.attname = c.name
         WHERE c.is_reference AND a.attinhcount = 0 AND EXISTS (
             WITH RECURSIVE types(oid) AS (
                 SELECT a.atttypid
                 UNION ALL SELECT t.typbasetype FROM types JOIN pg_type AS t ON t.oid = types.oid WHERE t.typtype = 'd')
             SELECT FROM types WHERE oid IN ('int2'::regtype, 'int4'::regtype))
         ORDER BY c.relid, a.attnum";
    select(query, &[key.table.into(), key.name.clone().into()], |row| {
        Some(Narrow { table: row.get(1)?, name: row.get(2)?, type_name: row.get(3)? })
    })
}
