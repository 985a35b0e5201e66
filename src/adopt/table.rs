//! `adopt_table`: a table with a serial key continues with ids of a shard.

use crate::adopt::key_column::{KeyColumn, Keys};
use crate::adopt::rights;
use crate::adopt::writers::{TableLock, lock_out_writers, lock_tables, newest_key_only};
use crate::arguments::{self, not_null};
use crate::error::Error;
use crate::generator;
use crate::pg::catalog::{self, Relation};
use crate::pg::dependents;
use crate::pg::guc;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::reg_types::Regclass;
use crate::pg::roles;
use crate::pg::spi::{self, select, select_by_index};
use crate::pg::text::Word;
use crate::pg::transaction::{prevent_if_read_only, prevent_in_parallel};
use crate::sequence::placement;
use crate::sequence::{IdSequence, check};
use crate::shard::columns::{self, AHEAD_MAX_MS, Column, KEY_AHEAD_MAX_MS, check_not_ahead};
use crate::shard::ddl::ShardParts;
use crate::shard::definition::{self, Definition};
use crate::shard::lookup;
use crate::shard::trust::Trust;
use instagram_id_core::hlc::VALUES_PER_MS;
use instagram_id_core::layout::{self, Shard};
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;

/// `adopt_table(shard, table, column, dry_run, schema)`: makes the ids of a shard the default of a
/// column that has been filled by a serial, an identity or another shard. Existing keys stay, and
/// are smaller than all new ones. The old sequence stays as well, unless it belongs to an identity.
/// For a column that has ids of the shard already, a dry run returns the way back.
///
/// The default runs functions of the shard with the rights of those who insert. So they must trust
/// the owner of the shard ([`trust`](crate::shard::trust)). If they do not trust the owner of its
/// schema otherwise, `schema` has to name it.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
pub fn adopt_table(
    shard: Option<i32>,
    table: Option<Regclass>,
    column: Option<Word>,
    dry_run: Option<bool>,
    schema: Option<Word>,
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
            name!(script, Option<String>),
            name!(way_back, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let shard = arguments::shard_not_null(shard)?;
    let Regclass(table) = not_null(table, "table")?;
    let column = column.map(Word::into_name).transpose()?;
    let dry_run = not_null(dry_run, "dry_run")?;
    let own_schema = catalog::schema_of_this_function(fcinfo);
    let schema = schema.map(arguments::schema_name).transpose()?;
    let relation = roles::own_table(table)?;
    guc::with_own_settings_and_limit(|| {
        if dry_run {
            prevent_in_parallel("adopt_table()");
        } else {
            prevent_if_read_only("adopt_table()");
        }
        let definition = find_definition(shard, schema.as_deref())?;
        let trust = Trust::of_table(&relation, definition.schema, schema.is_some());
        check_is_table(table)?;
        let find = || find_column(table, column.clone(), &definition, own_schema, dry_run);
        let (mut key, mut next_id) = (find()?, Oid::INVALID);
        let has_ids = matches!(key.keys, Keys::Shard);
        // The way back needs no shard that is complete and trusted.
        if !has_ids {
            // The table's default will call this function.
            next_id = next_id_of(&definition, own_schema, trust)?;
            check_before_locks(&key, &definition, own_schema)?;
            if !key.changes_partitions() {
                announce_below(&key.column, &definition, own_schema);
            }
        }
        let columns = [key.column.clone()];
        if !dry_run {
            lock(&key, &definition, next_id)?;
            check_unchanged(&definition, own_schema, trust, next_id)?;
            check_is_table(table)?;
            let before = key;
            key = find()?; // it may have changed before we got the lock
            check_under_locks(&key, &before, &relation)?;
        }
        if !has_ids {
            trust.announce(shard, definition.schema);
        }
        // The way back does not need it.
        let is_unread = has_ids && placement::first_distributed([table].into_iter()).is_some();
        let newest = if is_unread { None } else { newest_key_only(&key.column)? };
        let change = (!has_ids).then(|| key.change(&names::schema(definition.schema)));
        let way_back = key.way_back()?;
        if let Some(change) = &change {
            let start = check_newest(newest.as_ref(), &definition)?;
            if !dry_run {
                set_default(change, start, &definition)?;
            }
        }
        let lock = lock_tables(&columns, lock_for(&key)).unwrap_or_default();
        let row = (
            shard.number().into(),
            Regclass(table),
            key.column.name,
            newest.map(|(newest, _)| newest),
            has_ids || !dry_run,
            // Without the checks, and without setting the sequence.
            change.map(|change| names::commented(&format!("{lock};\n{change}"))),
            way_back,
        );
        Ok(TableIterator::once(row))
    })
}

/// Checks what must not be looked at under the locks: any role can name the sequence of the keys in
/// any number of defaults.
fn check_before_locks(
    key: &KeyColumn,
    definition: &Definition,
    own_schema: Oid,
) -> Result<(), Error> {
    locks::check_schema_of(key.column.table)?;
    roles::check_may_use_schema(definition.schema, catalog::current_role())?;
    check_partitions(key)?;
    rights::check_writers(key, definition, own_schema)?;
    check_dependents(key)?;
    key.check_sources()?;
    check_not_closed(definition)
}

/// Checks what may have changed until the locks were available.
fn check_under_locks(key: &KeyColumn, before: &KeyColumn, table: &Relation) -> Result<(), Error> {
    // The trust is that of the owner, and of the schema.
    let now = roles::own_table(key.column.table)?;
    let is_same = (now.owner, now.schema) == (table.owner, table.schema);
    if !is_same || key.column != before.column || key.sources != before.sources {
        return Err(Error::TableChanged(names::relation(key.column.table)));
    }
    check_partitions(key)?;
    check_dependents(key)
}

/// From PostgreSQL 17 on, partitions share the identity of their table, and lose it together. They
/// get the default instead, so this checks that the owner of the table is also theirs.
fn check_partitions(key: &KeyColumn) -> Result<(), Error> {
    if !key.changes_partitions() {
        return Ok(());
    }
    let table = key.column.table;
    let query = format!(
        "SELECT c.oid, c.relowner FROM ({}) AS t JOIN pg_class AS c ON c.oid = relid
         WHERE c.relowner <> (SELECT relowner FROM pg_class WHERE oid = $1) LIMIT 1",
        catalog::tree_of("$1")
    );
    let other = select_by_index(&query, &[table.into()], |row| {
        Some(Error::PartitionOfAnother {
            partition: names::relation(row.get(1)?),
            owner: names::role(row.get(2)?),
            table: names::relation(table),
        })
    });
    other.into_iter().next().map_or(Ok(()), Err)
}

/// A NOTICE about tables below whose column has keys of its own: an identity, or another default
/// than those that generate ids of the shard.
fn announce_below(column: &Column, definition: &Definition, own_schema: Oid) {
    let query = format!(
        "SELECT relid FROM ({}) AS t JOIN pg_attribute ON attrelid = relid AND attname = $2
             LEFT JOIN pg_attrdef AS f ON adrelid = relid AND adnum = attnum
         WHERE relid <> $1 AND (attidentity <> '' OR atthasdef AND attgenerated = ''
             AND coalesce({} <> ALL ($3), true)) ORDER BY 1",
        catalog::tree_of("$1"),
        columns::shown_default(definition, own_schema)
    );
    let defaults = columns::defaults_of(definition, own_schema);
    let arguments = [column.table.into(), column.name.as_str().into(), defaults.into()];
    let below = select_by_index(&query, &arguments, |row| row.get::<Oid>(1));
    if let Some(first) = below.first() {
        let (below, count) = (names::relation(*first), below.len());
        let kept = Error::BelowKept { below, table: names::relation(column.table), count };
        kept.notice();
    }
}

/// Checks that nothing else depends on the sequence of an identity.
fn check_dependents(key: &KeyColumn) -> Result<(), Error> {
    let dropped = key.dropped_sequence();
    dependents::check(pg_sys::RelationRelationId, dropped.as_slice(), false)
}

fn check_not_closed(definition: &Definition) -> Result<(), Error> {
    // The copies on a Citus cluster are closed in another way.
    if placement::is_distributed(definition.schema) {
        return Ok(());
    }
    check::check_not_closed(definition.sequence.oid)
}

fn lock_for(key: &KeyColumn) -> TableLock {
    if key.changes_partitions() { TableLock::ToAlter } else { TableLock::ToAlterOnly }
}

/// Locks the column, and before it what other roles can lock as long as they like.
fn lock(key: &KeyColumn, definition: &Definition, next_id: Oid) -> Result<(), Error> {
    locks::lock_schema_in_time(definition.schema)?;
    locks::lock_function(next_id, pg_sys::AccessShareLock)?;
    locks::lock_in_time(definition.sequence.oid, pg_sys::RowExclusiveLock)?;
    check_not_closed(definition)?;
    let (columns, dropped) = ([key.column.clone()], key.dropped_sequence());
    lock_out_writers(&columns, lock_for(key), dropped.as_slice(), || Ok(()))
}

/// Checks that the newest key is not ahead of the clock, and that the caller may advance the shard
/// above it. Returns the value to advance its sequence to, if any.
fn check_newest(
    newest: Option<&(i64, String)>,
    definition: &Definition,
) -> Result<Option<i64>, Error> {
    check_not_ahead(newest, definition.sequence, KEY_AHEAD_MAX_MS)?;
    let start = value_to_pass(newest.map(|newest| newest.0), definition.sequence);
    if start.is_some() {
        roles::check_may_set(definition.sequence.oid)?;
    }
    Ok(start)
}

/// The definition of the shard. If several schemas define it, it is that of the schema which the
/// caller names.
fn find_definition(shard: Shard, schema: Option<&str>) -> Result<Definition, Error> {
    let in_schema = |schema| definition::in_schema_by_number(catalog::schema_oid(schema), shard);
    let definition = match definition::find(shard) {
        Ok(found) => found.ok_or_else(|| lookup::missing(shard))?,
        Err(ambiguous) => schema.and_then(in_schema).ok_or(ambiguous)?,
    };
    match schema.filter(|asked| *asked != names::raw_schema(definition.schema)) {
        None => Ok(definition),
        Some(asked) => {
            let (is, asked) = (names::schema(definition.schema), quote_identifier(asked));
            Err(Error::ShardInAnotherSchema { shard: shard.number(), is, asked })
        }
    }
}

/// The column to adopt.
fn find_column(
    table: Oid,
    name: Option<String>,
    definition: &Definition,
    own_schema: Oid,
    dry_run: bool,
) -> Result<KeyColumn, Error> {
    let found = KeyColumn::find(table, name, definition, own_schema);
    // Without a lock, the table may have been dropped since its name was read.
    let is_gone = || catalog::relation(table).is_none();
    let key = found.map_err(|why| if is_gone() { Error::TableMissing(table) } else { why })?;
    match key.keys {
        Keys::Shard if !dry_run => Err(Error::HasIdsAlready {
            column: key.column.qualified(),
            shard: definition.shard.number(),
        }),
        _ => Ok(key),
    }
}

/// Checks that no other session has changed the shard until its `next_id()` was locked.
pub fn check_unchanged(
    definition: &Definition,
    own_schema: Oid,
    trust: Trust,
    next_id: Oid,
) -> Result<(), Error> {
    let now = definition::in_schema_by_number(definition.schema, definition.shard);
    let is_same =
        now.as_ref() == Some(definition) && next_id_of(definition, own_schema, trust)? == next_id;
    if is_same { Ok(()) } else { Err(Error::ShardChanged(definition.shard.number())) }
}

/// Makes ids of the shard the default of a locked column, after the sequence was advanced to
/// `start` if there is one. The statement that does so names the table and the shard's `next_id()`,
/// which keep their names.
pub fn set_default(change: &str, start: Option<i64>, definition: &Definition) -> Result<(), Error> {
    if let Some(start) = start {
        generator::advance(definition.sequence, start)?;
    }
    // Others wait meanwhile.
    locks::waiting_briefly(|| spi::run(change));
    Ok(())
}

/// The value that the sequence has to be advanced to. A key near the clock must be an id, such as
/// one of another generator. New ids must stay above it even if the clock is set back later.
fn value_to_pass(newest: Option<i64>, sequence: IdSequence) -> Option<i64> {
    let ms = layout::ms_of(newest.filter(|key| *key >= 0)?) as i64;
    (ms + AHEAD_MAX_MS >= names::now_ms(sequence.epoch)).then_some((ms + 1) * VALUES_PER_MS)
}

/// The `next_id()` of a shard that is complete and trusted.
pub fn next_id_of(definition: &Definition, own_schema: Oid, trust: Trust) -> Result<Oid, Error> {
    trust.check(definition)?;
    let missing = ShardParts::of(definition, own_schema)
        .missing_functions(definition.schema, definition.sequence)?;
    let next_id =
        catalog::function_in(definition.schema, "next_id", &[]).filter(|_| missing.is_empty());
    let next_id = next_id.ok_or(Error::ShardIncomplete { shard: definition.shard.number() })?;
    Ok(next_id.oid)
}

/// Checks that the relation is a table, and not a partition, whose rows mostly come through the
/// table above it.
fn check_is_table(table: Oid) -> Result<(), Error> {
    let query = "SELECT CASE WHEN pg_is_other_temp_schema(relnamespace) THEN 'other' ELSE relkind::text END,
             pg_partition_root(oid)::oid
         FROM pg_class WHERE oid = $1";
    let found =
        select(query, &[table.into()], |row| Some((row.get::<String>(1)?, row.get::<Oid>(2))));
    let Some((kind, root)) = found.into_iter().next() else {
        return Err(Error::TableMissing(table));
    };
    let name = names::relation(table);
    let kind = match kind.as_str() {
        "r" | "p" => match root.filter(|root| *root != table) {
            Some(root) => {
                let root = names::relation(root);
                return Err(Error::TableIsPartition { table: name, root });
            }
            None => return Ok(()),
        },
        "other" => "a temporary table of another session",
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
