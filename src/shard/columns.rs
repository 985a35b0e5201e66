//! The columns that a function or a shard fills with ids, and the newest id in them.

use crate::error::Error;
use crate::pg::catalog::{self, BaseTypes};
use crate::pg::greatest::{self, Parts};
use crate::pg::guc;
use crate::pg::lock_waits;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::roles;
use crate::pg::spi::{Row, select};
use crate::sequence::{IdSequence, placement, read};
use crate::shard::definition::{self, Definition};
use instagram_id_core::epoch::Epoch;
use instagram_id_core::hlc::{self, FIRST_DAY_MS, WARN_AHEAD_MS};
use instagram_id_core::layout::{self, Shard};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use pgrx::spi::{quote_identifier, quote_literal};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;

/// A key or a sequence's last value further ahead of the clock than this was not generated from a
/// clock.
pub const AHEAD_MAX_MS: i64 = 24 * 3_600_000;

/// A column whose default generates ids.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Column {
    pub table: Oid,
    pub name: String,
    /// Whether it stores ids as bigint or a domain over it, and not as text, for example.
    pub is_bigint: bool,
}

impl Column {
    /// The qualified name, for messages.
    pub fn qualified(&self) -> String {
        format!("{}.{}", names::relation(self.table), quote_identifier(&self.name))
    }
}

/// The columns whose default calls a function. Any role can name the function by its OID, which is
/// no call and needs no privilege, in any number of defaults. Those are read once, and later only
/// their OIDs, so that writers do not wait for long.
#[derive(Default)]
pub struct Callers {
    /// Defaults that only name a function, by that function.
    others: RefCell<FxHashMap<Oid, FxHashSet<Oid>>>,
}

impl Callers {
    /// The table columns whose default calls the function.
    pub fn columns_of(&self, function: Oid) -> Vec<Column> {
        let is_short = catalog::IS_SHORT_DEFAULT;
        let function_id = function.to_u32();
        let call = format!(
            "c.relkind IN ('r', 'p')
             AND CASE WHEN {is_short} THEN strpos(f.adbin::text COLLATE \"C\", ':funcid {function_id} ') > 0 END"
        );
        let query = "SELECT objid FROM pg_depend
             WHERE classid = 'pg_attrdef'::regclass AND refclassid = 'pg_proc'::regclass AND refobjid = $1";
        let defaults = select(query, &[function.into()], |row| row.get::<Oid>(1));
        let known = self.others.borrow_mut().remove(&function);
        let among = known.as_ref().map(|known| {
            defaults.iter().copied().filter(|default| !known.contains(default)).collect()
        });
        let found = columns_depending_on("pg_proc", function, &call, among);
        let others = known.unwrap_or_else(|| {
            let calls: FxHashSet<Oid> = found.iter().map(|(default, _)| *default).collect();
            defaults.into_iter().filter(|default| !calls.contains(default)).collect()
        });
        self.others.borrow_mut().insert(function, others);
        found.into_iter().map(|(_, column)| column).collect()
    }
}

/// The columns whose default names the sequence.
pub fn columns_with_default_on(sequence: Oid) -> Vec<Column> {
    columns_naming(sequence, "true")
}

/// The same, of owners who may use the sequence, or of those who may not: any role can name it by
/// its OID.
pub fn columns_of_owners(sequence: Oid, may_use: bool) -> Vec<Column> {
    let may_use =
        format!("has_sequence_privilege(c.relowner, d.refobjid, 'USAGE, UPDATE') = {may_use}");
    columns_naming(sequence, &may_use)
}

/// The columns of owners who may use the sequence whose default calls `nextval()`, or is too long
/// to be searched.
pub fn columns_with_nextval(sequence: Oid) -> Vec<Column> {
    columns_calling(pg_sys::F_NEXTVAL, "USAGE, UPDATE", sequence, true)
}

/// The same for `currval()`, or those of owners who may not use the sequence.
pub fn columns_with_currval(sequence: Oid, may_use: bool) -> Vec<Column> {
    columns_calling(pg_sys::F_CURRVAL, "USAGE, SELECT", sequence, may_use)
}

/// The column to which a sequence belongs, if there is one, as that of a serial or an identity, and
/// whether it is the latter.
pub fn column_owning(sequence: Oid) -> Option<(Column, bool)> {
    let query = "SELECT attrelid, attname::text, atttypid, deptype = 'i' FROM pg_depend
         JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
         WHERE classid = 'pg_class'::regclass AND objid = $1 AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i')";
    let types = BaseTypes::default();
    select(query, &[sequence.into()], |row| column_of(row, &types).zip(row.get(4))).pop()
}

fn columns_calling(function: u32, privileges: &str, sequence: Oid, may_use: bool) -> Vec<Column> {
    let is_short = catalog::IS_SHORT_DEFAULT;
    let condition = format!(
        "has_sequence_privilege(c.relowner, d.refobjid, '{privileges}') = {may_use}
         AND CASE WHEN {is_short} THEN strpos(f.adbin::text COLLATE \"C\", ':funcid {function} ') > 0 ELSE true END"
    );
    columns_naming(sequence, &condition)
}

fn columns_naming(sequence: Oid, condition: &str) -> Vec<Column> {
    let found = columns_depending_on("pg_class", sequence, condition, None);
    found.into_iter().map(|(_, column)| column).collect()
}

/// The columns of tables, views and foreign tables whose default, which comes first, depends on an
/// object of this class, under a condition on `c`, `d` and `f`, rows of `pg_class`, `pg_depend` and
/// `pg_attrdef`. Only these defaults are read, if there are any given. Temporary tables of other
/// sessions, which no other session can read, are left out.
fn columns_depending_on(
    class: &str,
    object: Oid,
    condition: &str,
    among: Option<Vec<Oid>>,
) -> Vec<(Oid, Column)> {
    let query = format!(
        "SELECT a.attrelid, a.attname::text, a.atttypid, f.oid
         FROM pg_depend AS d JOIN pg_attrdef AS f ON f.oid = d.objid
         JOIN pg_attribute AS a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
         JOIN pg_class AS c ON c.oid = a.attrelid
         WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = $1::regclass AND d.refobjid = $2
         AND ($3 IS NULL OR d.objid = ANY ($3))
         AND NOT pg_is_other_temp_schema(c.relnamespace) AND {condition}
         ORDER BY a.attrelid, a.attnum"
    );
    let types = BaseTypes::default();
    select(&query, &[class.into(), object.into(), among.into()], |row| {
        Some((row.get(4)?, column_of(row, &types)?))
    })
}

/// The column of a row with its table, its name and its type.
fn column_of(row: &Row, types: &BaseTypes) -> Option<Column> {
    let is_bigint = types.of(row.get(3)?) == pg_sys::INT8OID;
    Some(Column { table: row.get(1)?, name: row.get(2)?, is_bigint })
}

/// The defaults that generate ids of a shard, as `pg_get_expr` shows them under the extension's own
/// search_path.
pub fn defaults_of(definition: &Definition, own_schema: Oid) -> Vec<String> {
    let mut defaults = vec![format!("{}.next_id()", names::schema(definition.schema))];
    defaults.extend(defaults_by_number(definition, own_schema));
    defaults
}

/// Those of them that name the shard by its number.
fn defaults_by_number(definition: &Definition, own_schema: Oid) -> Vec<String> {
    let (own_schema, number) = (names::schema(own_schema), definition.shard.number());
    let mut defaults = vec![format!("{own_schema}.next_id({number})")];
    if definition.sequence.epoch == Epoch::ORIGINAL {
        let sequence = quote_literal(names::relation(definition.sequence.oid));
        defaults.push(format!("{own_schema}.next_id({number}, {sequence}::regclass)"));
    }
    defaults
}

/// A default, of a row `f` of `pg_attrdef`, in the form of [`defaults_of`]; NULL if it has anything
/// but calls of the functions in them and of PostgreSQL's own, implicit casts, numbers and names of
/// relations. Every role that can create tables in the schema chooses the defaults there. To show
/// others, PostgreSQL waits for locks, fails, or reads constants of types that have changed.
pub fn shown_default(definition: &Definition, own_schema: Oid) -> String {
    let is_short = catalog::IS_SHORT_DEFAULT;
    let other_node =
        "[{](?!FUNCEXPR |RELABELTYPE |COERCEVIAIO |COERCETODOMAIN |CONST :consttype (23|2205) )";
    // It shows the name of a type, which may have been dropped.
    let explicit_cast = ":(relabel|coerce|coercion)format [01] ";
    let generators: Vec<String> = generators(definition, own_schema)
        .iter()
        .map(|function| function.to_u32().to_string())
        .collect();
    // The text is only read of a default that depends on one of these functions.
    let depends = format!(
        "EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_attrdef'::regclass AND objid = f.oid
             AND refclassid = 'pg_proc'::regclass AND refobjid = ANY ('{{{}}}'::oid[]))",
        generators.join(",")
    );
    // PostgreSQL's own objects have OIDs below 16384.
    let other_function = format!(
        ":funcid (?!([0-9]{{1,4}}|1[0-5][0-9]{{3}}|16[0-2][0-9]{{2}}|163[0-7][0-9]|1638[0-3]|{}) )",
        generators.join("|")
    );
    format!(
        "CASE WHEN {is_short} AND {depends} AND f.adbin::text !~ '{other_node}' AND f.adbin::text !~ '{other_function}'
             AND f.adbin::text !~ '{explicit_cast}'
             THEN pg_get_expr(f.adbin, 0::oid) END"
    )
}

/// The functions that the defaults in [`defaults_of`] call.
fn generators(definition: &Definition, own_schema: Oid) -> Vec<Oid> {
    let (by_number, sequence) = (pg_sys::INT4OID, pg_sys::REGCLASSOID);
    let generators = [
        catalog::function_in(definition.schema, "next_id", &[]),
        catalog::function_in(own_schema, "next_id", &[by_number]),
        catalog::function_in(own_schema, "next_id", &[by_number, sequence]),
    ];
    generators.into_iter().flatten().map(|function| function.oid).collect()
}

/// The value of `tgargs` for the trigger function `next_id_trigger`, for ids of the shard in a
/// column `a`, a row of `pg_attribute`.
pub fn trigger_arguments(shard: Shard) -> String {
    format!(
        "convert_to('{}', getdatabaseencoding()) || decode('00', 'hex')
             || convert_to(a.attname::text, getdatabaseencoding()) || decode('00', 'hex')",
        shard.number()
    )
}

/// The owners whose tables count.
#[derive(Clone, Copy)]
pub enum Owners {
    All,
    /// Owners with UPDATE on the sequence of the shard. Others decide how many tables they have.
    WithUpdate,
}

/// Ordinary and partitioned tables, by their `relkind`.
const TABLES: &str = "r,p";

/// These, views and foreign tables: all that can have a default.
const WITH_DEFAULTS: &str = "r,p,v,f";

/// The columns in the schema of a shard that get its ids by a default or by the trigger function
/// `next_id_trigger`, and the same columns of the tables that store their rows. A partition is left
/// out if its table is among them.
pub fn columns_of_shard(definition: &Definition, own_schema: Oid, owners: Owners) -> Vec<Column> {
    let defaults = defaults_of(definition, own_schema);
    columns_filled_by(TABLES, defaults, definition, own_schema, owners)
}

/// Those that name the shard by its number, in the default or in the trigger's arguments, also of
/// views and foreign tables. They do not depend on the functions of the shard.
pub fn columns_by_number(definition: &Definition, own_schema: Oid) -> Vec<Column> {
    let defaults = defaults_by_number(definition, own_schema);
    columns_filled_by(WITH_DEFAULTS, defaults, definition, own_schema, Owners::All)
}

/// The same for these defaults, in relations of these kinds.
fn columns_filled_by(
    kinds: &str,
    defaults: Vec<String>,
    definition: &Definition,
    own_schema: Oid,
    owners: Owners,
) -> Vec<Column> {
    let is_counted = match owners {
        Owners::All => "true",
        Owners::WithUpdate => "has_sequence_privilege(c.relowner, $4, 'UPDATE')",
    };
    let query = format!(
        "WITH filled (relation, number) AS (
             SELECT adrelid, adnum FROM (
                 SELECT f.* FROM pg_class AS c JOIN pg_attrdef AS f ON f.adrelid = c.oid
                 WHERE c.relnamespace = $1 AND {is_counted} OFFSET 0) AS f
             WHERE {} = ANY ($2)
             UNION
             SELECT tgrelid, a.attnum FROM pg_class AS c JOIN pg_trigger ON tgrelid = c.oid
             JOIN pg_attribute AS a ON a.attrelid = c.oid
             WHERE c.relnamespace = $1 AND {is_counted} AND tgfoid = $3 AND tgargs = {}
         )
         SELECT p.oid, a.attname::text, a.atttypid
         FROM filled JOIN pg_class AS c ON c.oid = relation JOIN pg_attribute AS a ON a.attrelid = relation AND a.attnum = number
         JOIN pg_class AS p ON p.relnamespace = c.relnamespace AND (p.oid = c.oid OR p.relkind = c.relkind AND {})
         WHERE c.relkind = ANY ('{{{kinds}}}') AND {} AND a.attnum > 0 AND NOT a.attisdropped
         AND NOT EXISTS (SELECT FROM pg_inherits JOIN filled AS above ON above.relation = inhparent
                         JOIN pg_attribute AS b ON b.attrelid = inhparent AND b.attnum = above.number
                         WHERE inhrelid = c.oid AND c.relispartition AND b.attname = a.attname)
         ORDER BY p.oid, a.attnum",
        shown_default(definition, own_schema),
        trigger_arguments(definition.shard),
        placement::is_citus_shard_of(),
        placement::is_no_citus_shard(),
    );
    let trigger =
        catalog::function_in(own_schema, "next_id_trigger", &[]).map(|function| function.oid);
    let sequence = definition.sequence.oid.into();
    let arguments = [definition.schema.into(), defaults.into(), trigger.into(), sequence];
    let types = BaseTypes::default();
    guc::with(&[guc::ALL_TABLES], || select(&query, &arguments, |row| column_of(row, &types)))
}

/// The largest key in these columns, and its column. The caller must have the rights of the tables'
/// owners. It waits for all locks on tables and indexes together as long as otherwise for one.
pub fn newest_id(columns: &[Column]) -> Result<Option<(i64, String)>, Error> {
    lock_waits::limit(guc::lock_limit(), || newest_id_if(columns, has_rights_of_caller))
}

/// The same for one column, without the tables that inherit from its table.
pub fn newest_id_only(column: &Column) -> Result<Option<(i64, String)>, Error> {
    let newest = lock_waits::limit(guc::lock_limit(), || {
        let mut read = FxHashSet::default();
        newest_at_most(column, i64::MAX, Parts::Partitions, &has_rights_of_caller, &mut read)
    })?;
    Ok(newest.map(|newest| (newest, column.qualified())))
}

fn newest_id_if(
    columns: &[Column],
    may_read: impl Fn(Oid) -> bool,
) -> Result<Option<(i64, String)>, Error> {
    let columns: Vec<&Column> = columns.iter().filter(|column| column.is_bigint).collect();
    let tables: Vec<Oid> = columns.iter().map(|column| column.table).collect();
    let query = "SELECT inhrelid, inhparent FROM pg_inherits WHERE inhrelid = ANY ($1) AND inhparent = ANY ($1)";
    let mut parents = FxHashMap::<Oid, Vec<Oid>>::default();
    for (child, parent) in select(query, &[tables.into()], |row| row.get(1).zip(row.get(2))) {
        parents.entry(child).or_default().push(parent);
    }
    let known: FxHashSet<_> = columns.iter().map(|one| (one.table, one.name.as_str())).collect();
    let is_read_with_parent = |column: &Column| {
        let of_table = parents.get(&column.table).into_iter().flatten();
        of_table.into_iter().any(|parent| known.contains(&(*parent, column.name.as_str())))
    };
    let (mut newest, mut read) = (None, FxHashMap::<&str, FxHashSet<Oid>>::default());
    for column in columns.into_iter().filter(|column| !is_read_with_parent(column)) {
        let read = read.entry(&column.name).or_default();
        let max = newest_at_most(column, i64::MAX, Parts::AllBelow, &may_read, read)?;
        newest = newest.max(max.map(|max| (max, column.qualified())));
    }
    Ok(newest)
}

/// The greatest value of the ids in the tables of the shards that a sequence serves; `None` if it
/// serves none. It is read for every role that may generate ids. So it reads only tables of owners
/// with UPDATE on the sequence: these could set the sequence to any value anyway, not only by the
/// keys of their rows.
pub fn newest_of_sequence(sequence: IdSequence) -> Result<Option<i64>, Error> {
    let may_read = |owner| roles::may_set(sequence.oid, owner);
    guc::with(guc::OWN_SETTINGS, || {
        let query = "SELECT extnamespace FROM pg_extension WHERE extname = 'instagram_id'";
        let own_schema = select(query, &[], |row| row.get(1)).pop().unwrap_or(Oid::INVALID);
        let mut greatest = None;
        for definition in definition::served_by(sequence.oid) {
            let columns = columns_of_shard(&definition, own_schema, Owners::WithUpdate);
            let newest = newest_id_if(&columns, may_read)?;
            check_not_ahead(newest.as_ref(), sequence, AHEAD_MAX_MS)?;
            let value = newest.map_or(0, |(id, _)| layout::value_of(id.max(0)));
            greatest = greatest.max(Some(value));
        }
        Ok(greatest)
    })
}

/// Whether the caller has the rights of this role.
fn has_rights_of_caller(role: Oid) -> bool {
    catalog::has_rights_of(catalog::current_role(), role)
}

/// The largest key that is too small to be an id, which a serial or an identity has generated.
pub fn newest_serial_key(column: &Column) -> Result<Option<i64>, Error> {
    let limit = (FIRST_DAY_MS << layout::TIME_SHIFT) - 1;
    let newest = newest_at_most(
        column,
        limit,
        Parts::Partitions,
        &has_rights_of_caller,
        &mut FxHashSet::default(),
    )?;
    Ok(newest.filter(|key| *key >= 1))
}

/// The largest key of a column that is at most this. `may_read` decides about the owner of its
/// table. Of the tables below it, those in `read` are left out; the others are added.
fn newest_at_most(
    column: &Column,
    limit: i64,
    parts: Parts,
    may_read: &impl Fn(Oid) -> bool,
    read: &mut FxHashSet<Oid>,
) -> Result<Option<i64>, Error> {
    let check_owner = || match catalog::relation(column.table) {
        Some(table) if may_read(table.owner) => Ok(()),
        Some(_) => Err(Error::NotTableOwner(names::relation(column.table))),
        None => Err(Error::TableMissing(column.table)),
    };
    check_owner()?;
    locks::lock_in_time(column.table, pg_sys::AccessShareLock)?;
    check_owner()?; // also if it was dropped
    let greatest = || greatest::greatest_at_most(column.table, &column.name, limit, parts, read);
    guc::with(&[guc::ALL_TABLES], greatest)
}

/// How far a key may move a sequence ahead of the clock if the caller did not ask for it. Every
/// role that can insert into the table chooses its keys, and each table with ids from this sequence
/// would get future timestamps. This much allows for a difference between the clocks of two
/// servers.
pub const KEY_AHEAD_MAX_MS: i64 = WARN_AHEAD_MS;

/// Refuses a key that would move a sequence further ahead of the clock than this. A sequence that
/// has passed the key already is not moved.
pub fn check_not_ahead(
    newest: Option<&(i64, String)>,
    sequence: IdSequence,
    ahead_max_ms: i64,
) -> Result<(), Error> {
    let Some((newest, column)) = newest else { return Ok(()) };
    let ms = layout::ms_of(*newest) as i64;
    // A closed copy has a greater value than any id.
    let last = read::last_value(sequence.oid).filter(|last| *last <= hlc::VALUE_MAX);
    let last_ms = last.map_or(i64::MIN, hlc::ms_of);
    // Negative keys are below all ids.
    if *newest < 0 || ms <= last_ms.max(names::now_ms(sequence.epoch) + ahead_max_ms) {
        return Ok(());
    }
    Err(key_ahead(*newest, column.clone(), sequence.epoch))
}

/// The error for a key ahead of the clock.
fn key_ahead(key: i64, column: String, epoch: Epoch) -> Error {
    let time = epoch.time_of(layout::ms_of(key));
    Error::KeyAhead {
        key,
        column,
        time: time.map_or_else(|| "after the year 294276".into(), names::time),
    }
}
