//! `adopt_table`: a table with a serial key continues with ids of a shard.

use crate::adopt::columns::{
    self, AHEAD_MAX_MS, Column, KEY_AHEAD_MAX_MS, check_not_ahead, newest_id, now_ms,
};
use crate::adopt::references::{self, Narrow};
use crate::adopt::rights;
use crate::adopt::writers::{TableLock, lock_out_writers, lock_tables};
use crate::arguments::{self, not_null};
use crate::error::{Argument, Error};
use crate::generator;
use crate::pg::catalog;
use crate::pg::guc;
use crate::pg::names;
use crate::pg::reg_types::Regclass;
use crate::pg::spi::{self, select, select_now};
use crate::pg::transaction::prevent_if_read_only;
use crate::sequence::read;
use crate::shard::ddl::{self, Plan};
use crate::shard::definition::{self, Definition};
use crate::shard::lookup;
use instagram_id_core::hlc::VALUES_PER_MS;
use instagram_id_core::layout;
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;

/// `adopt_table(shard, table, column, dry_run)`: makes the ids of a shard the default of a column that has been filled
/// by a serial or an identity. Existing keys stay, and are smaller than all new ones. The old sequence stays as well,
/// unless it belongs to an identity.
///
/// # Errors
///
/// The shard or the table is NULL or does not exist, or the table is a view, for example, or a partition. It does not have
/// the column. The column, or one that references it, is not a bigint. The column has another kind of default, or contains
/// keys ahead of the clock. The caller does not own the table, or lacks privileges on the shard's sequence.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
pub fn adopt_table(
    shard: Option<i32>,
    table: Option<Regclass>,
    column: Option<String>,
    dry_run: Option<bool>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<
    TableIterator<
        'static,
        (
            name!(shard, i32),
            name!(table_name, Regclass),
            name!(column_name, String),
            name!(newest_key, Option<i64>),
            name!(adopted, bool),
            name!(script, String),
            name!(way_back, String),
        ),
    >,
    ErrorReport,
> {
    let shard = arguments::shard_not_null(shard)?;
    let Regclass(table) = not_null(table, Argument::Table)?;
    let dry_run = not_null(dry_run, Argument::DryRun)?;
    let own_schema = catalog::schema_of_this_function(fcinfo);
    if catalog::relation(table).is_none() {
        return Err(Error::TableMissing(table).into());
    }
    guc::with(guc::OWN_NAMES, || {
        if !dry_run {
            prevent_if_read_only("adopt_table()");
            ddl::begin_change();
        }
        let definition = definition::find(shard)?.ok_or_else(|| lookup::missing(shard))?;
        // The table's default will call the shard's next_id().
        let missing =
            Plan::of(&definition, own_schema).missing_functions(definition.schema, definition.clock)?;
        if !missing.is_empty() {
            return Err(Error::ShardIncomplete { shard: shard.number() }.into());
        }
        check_is_table(table, &definition)?;
        let column = SerialColumn::find(table, column, &definition)?;
        rights::check_writers(table, &definition, own_schema)?;
        let lock = lock_tables(std::slice::from_ref(&column.column), TableLock::ToAlter);
        let column = if dry_run {
            column
        } else {
            lock_out_writers(std::slice::from_ref(&column.column), TableLock::ToAlter, &[])?;
            SerialColumn::find(table, Some(column.column.name), &definition)? // it may have changed before we got the lock
        };
        let newest = newest_id(std::slice::from_ref(&column.column))?;
        let (change, way_back) = column.scripts(&names::schema(definition.schema));
        let script = format!("{};\n{change};", lock.unwrap_or_default());
        let way = |value| columns::advance_statement(shard, value);
        check_not_ahead(newest.as_ref(), definition.clock, KEY_AHEAD_MAX_MS, way)?;
        if !dry_run {
            // A key near the clock must be an id, such as one of another generator. New ids must stay above it even if
            // the clock is set back later.
            let newest_ms =
                newest.as_ref().filter(|newest| newest.0 >= 0).map(|newest| layout::ms_of(newest.0) as i64);
            let now_ms = now_ms(definition.clock.epoch);
            if let Some(ms) = newest_ms.filter(|ms| ms + AHEAD_MAX_MS >= now_ms) {
                generator::advance(definition.clock, (ms + 1) * VALUES_PER_MS)?;
            }
            spi::run(&change);
        }
        let row = (
            shard.number().into(),
            Regclass(table),
            column.column.name.clone(),
            newest.map(|(newest, _)| newest),
            !dry_run,
            script,
            way_back,
        );
        Ok(TableIterator::once(row))
    })
}

/// Checks that the relation is a table, and not a partition, whose rows mostly come through the table above it.
fn check_is_table(table: Oid, definition: &Definition) -> Result<(), Error> {
    let query = "SELECT relkind::text, pg_partition_root(oid)::oid FROM pg_class WHERE oid = $1";
    let found = select(query, &[table.into()], |row| Some((row.get::<String>(1)?, row.get::<Oid>(2))));
    let Some((kind, root)) = found.into_iter().next() else { return Err(Error::TableMissing(table)) };
    let name = names::relation(table);
    let kind = match kind.as_str() {
        "r" | "p" => match root.filter(|root| *root != table) {
            Some(root) => {
                let (root, shard) = (names::relation(root), definition.shard.number());
                return Err(Error::TableIsPartition { table: name, root, shard });
            }
            None => return Ok(()),
        },
        "v" => "a view",
        "m" => "a materialized view",
        "f" => "a foreign table",
        "S" => "a sequence",
        "i" | "I" => "an index",
        "c" => "a composite type",
        _ => "no table of users",
    };
    Err(Error::NotTable { name, kind })
}

/// A bigint column whose keys come from a sequence.
pub struct SerialColumn {
    pub column: Column,
    /// Its default, or `None` for an identity.
    pub default: Option<String>,
    /// The clause that makes it an identity again.
    pub identity: Option<String>,
}

impl SerialColumn {
    /// The column of that name, or without a name the only column of the table's primary key.
    pub fn find(table: Oid, name: Option<String>, definition: &Definition) -> Result<SerialColumn, Error> {
        let table_name = names::relation(table);
        let query = "SELECT a.attname::text, a.atttypid, format_type(a.atttypid, a.atttypmod),
                 pg_get_expr(f.adbin, f.adrelid), a.attidentity::text,
                 pg_get_serial_sequence(a.attrelid::regclass::text, a.attname::text)::regclass::oid,
                 f.adbin IS NULL OR EXISTS (SELECT FROM pg_depend AS d JOIN pg_class AS s ON s.oid = d.refobjid
                     WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
                     AND d.refclassid = 'pg_class'::regclass AND s.relkind = 'S')
                     AND pg_get_expr(f.adbin, f.adrelid) LIKE 'nextval(%'
             FROM pg_attribute AS a
             LEFT JOIN pg_attrdef AS f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
             WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
             AND CASE WHEN $2 IS NOT NULL THEN a.attname = $2
                 ELSE EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisprimary
                     AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) END";
        let found = select_now(query, &[table.into(), name.clone().into()], |row| {
            let name: String = row.get(1)?;
            let column = Column { table, name, is_bigint: true };
            let identity: String = row.get(5)?;
            let type_oid: Oid = row.get(2)?;
            Some((
                column,
                type_oid,
                row.get::<String>(3)?,
                row.get::<String>(4),
                identity,
                row.get::<Oid>(6),
                row.get::<bool>(7)?,
            ))
        });
        let Some((column, type_oid, type_name, default, identity, owned, is_serial)) =
            found.into_iter().next()
        else {
            return Err(match name {
                Some(name) => Error::ColumnMissing { table: table_name, column: quote_identifier(name) },
                None => Error::NoPrimaryKey(table_name),
            });
        };
        if type_oid != pg_sys::INT8OID {
            let is_integer = [pg_sys::INT2OID, pg_sys::INT4OID].contains(&type_oid);
            let mut statements: Vec<String> = vec![];
            if is_integer {
                statements.push(references::widen(table, &column.name));
                statements.extend(references::narrow_references(&column).iter().map(Narrow::widen));
            }
            let column = quote_identifier(&column.name);
            return Err(Error::ColumnNotBigint { table: table_name, column, type_name, statements });
        }
        let is_identity = !identity.is_empty();
        if !is_serial || default.is_none() && !is_identity {
            let default = default.unwrap_or_else(|| "none".into());
            if default == format!("{}.next_id()", names::schema(definition.schema)) {
                let shard = definition.shard.number();
                return Err(Error::HasIdsAlready { column: column.qualified(), shard });
            }
            return Err(Error::NotSerial { column: column.qualified(), default });
        }
        let identity = owned.filter(|_| is_identity).map(|sequence| {
            let always = if identity == "a" { "ALWAYS" } else { "BY DEFAULT" };
            format!("ADD GENERATED {always} AS IDENTITY ({})", options_of(sequence))
        });
        references::check(&column)?;
        Ok(SerialColumn { column, default, identity })
    }

    /// The statements that convert the column, and those that undo it.
    pub fn scripts(&self, schema: &str) -> (String, String) {
        let table = names::relation(self.column.table);
        let name = quote_identifier(&self.column.name);
        let drop_identity =
            self.identity.as_ref().map_or_else(String::new, |_| format!("ALTER {name} DROP IDENTITY, "));
        let there = format!("ALTER TABLE {table} {drop_identity}ALTER {name} SET DEFAULT {schema}.next_id()");
        let back = match (&self.default, &self.identity) {
            (_, Some(identity)) => {
                format!("ALTER TABLE {table} ALTER {name} DROP DEFAULT, ALTER {name} {identity}")
            }
            (Some(default), None) => format!("ALTER TABLE {table} ALTER {name} SET DEFAULT {default}"),
            (None, None) => unreachable!("a serial has a default"),
        };
        (there, back)
    }
}

/// The options to create a sequence with that continues this one.
pub fn options_of(sequence: Oid) -> String {
    let query = "SELECT seqincrement, seqmin, seqmax, seqstart, seqcache, seqcycle FROM pg_sequence WHERE seqrelid = $1";
    let options = select(query, &[sequence.into()], |row| {
        let (increment, min, max): (i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let (start, cache): (i64, i64) = (row.get(4)?, row.get(5)?);
        let next = read::last_value(sequence).map_or(start, |last| last.saturating_add(increment));
        let cycle = if row.get(6)? { " CYCLE" } else { "" };
        Some(format!(
            "START WITH {} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} CACHE {cache}{cycle}",
            next.clamp(min, max)
        ))
    });
    options.into_iter().next().unwrap_or_default()
}
