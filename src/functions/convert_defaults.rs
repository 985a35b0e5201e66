//! `convert_defaults_to_triggers`: triggers in place of the defaults of a shard.

use crate::adopt::writers::{TableLock, lock_out_writers_if_available};
use crate::arguments;
use crate::error::{Error, WhyKept};
use crate::pg::catalog;
use crate::pg::deadline::Deadline;
use crate::pg::guc;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::reg_types::Regclass;
use crate::pg::roles;
use crate::pg::spi::{self, select};
use crate::pg::subtransaction;
use crate::pg::transaction::prevent_if_read_only;
use crate::sequence::placement::{self, RowPlacement};
use crate::shard::columns::{self, Column};
use crate::shard::ddl::{self, ShardParts};
use crate::shard::definition::{self, Definition};
use crate::shard::lookup;
use crate::shard::related::{self, Change};
use crate::shard::trust;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::{quote_identifier, quote_literal};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// The prefix of a trigger's name, followed by the column's. Triggers run in the order of their
/// names. Other triggers of the table usually have names that begin with a letter, and so they see
/// the id, as they would with a default.
const PREFIX: &str = "0_assign_";

/// `convert_defaults_to_triggers(shard)`. Columns that have the trigger already are skipped, so it
/// can be called again for new tables. Columns for which [`Candidate::why_kept`] returns a reason
/// are skipped with a WARNING, and so are tables that stay locked or whose conversion fails. A call
/// converts the tables of one role, and a WARNING names the others. Citus creates the functions of
/// the shard on all nodes, if it has not done so yet.
///
/// # Errors
///
/// The shard is NULL, is not 0 to 8191, or does not exist. The caller owns none of the tables that
/// could be converted.
#[pg_extern(sql = false)]
fn convert_defaults_to_triggers(
    shard: Option<i32>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<
    TableIterator<'static, (name!(table_name, Regclass), name!(column_name, String))>,
    ErrorReport,
> {
    let shard = arguments::shard_not_null(shard)?;
    let own_schema = catalog::schema_of_this_function(fcinfo);
    prevent_if_read_only("convert_defaults_to_triggers()");
    let converted = guc::with_own_settings_and_limit(|| {
        let definition = lookup::definition_of(shard)?;
        let parts = ShardParts::of(&definition, own_schema);
        parts.check_next_id(definition.schema, definition.sequence)?;
        copy_functions(&definition);
        let mut found = candidates(&definition, own_schema, None);
        let mut fit = found.iter().filter(|candidate| candidate.why_unfit().is_none());
        if let Some(first) = fit.clone().next()
            && !fit.any(Candidate::is_of_caller)
        {
            return Err(Error::NotTableOwner(names::relation(first.column.table)));
        }
        found.retain(Candidate::is_convertible);
        // Other sessions wait for the converted tables until this transaction ends. Whatever
        // another role locks, and however many tables it has, only its own are locked meanwhile.
        let deadline = Deadline::after(guc::lock_limit());
        let mut groups = by_owner(found, definition.owner).into_iter();
        while let Some((owner, columns)) = groups.next() {
            // Half of the time that is left, so that each role that follows has some.
            let share = if groups.len() == 0 { 1 } else { 2 };
            let convert = || convert_group(owner, &columns, &definition, &parts);
            let converted = guc::with_lock_timeout(deadline.left() / share, convert)?;
            if !converted.is_empty() {
                warn_left(shard, groups.map(|(owner, _)| owner));
                return Ok(converted);
            }
        }
        Ok::<_, Error>(vec![])
    })?;
    let row = |Candidate { column, .. }| (Regclass(column.table), column.name);
    Ok(TableIterator::new(converted.into_iter().map(row)))
}

/// Makes Citus create the functions of the shard on all nodes, before a trigger there needs them.
/// If the shard was created before Citus, only the default of a table has brought `next_id()`
/// there.
fn copy_functions(definition: &Definition) {
    let functions = ddl::functions_in(definition.schema, definition.shard).into_iter();
    let own = functions.filter(|it| trust::is_of_shard(it.owner, definition.owner));
    for function in placement::functions_not_copied(definition.schema, own.map(|it| it.oid)) {
        let function = function.to_u32();
        spi::run(&format!("SELECT create_distributed_function({function}::regprocedure)"));
    }
}

/// The columns by the owners of their tables, and first those of this owner.
fn by_owner(candidates: Vec<Candidate>, first: Oid) -> Vec<(Oid, Vec<Column>)> {
    let mut groups = BTreeMap::<_, (Oid, Vec<_>)>::new();
    for candidate in candidates {
        let owner = candidate.owner().unwrap_or(first);
        let group = groups.entry((owner != first, owner.to_u32())).or_insert((owner, vec![]));
        group.1.push(candidate.column);
    }
    groups.into_values().collect()
}

/// Converts these columns of one role's tables. If none is converted, keeps no lock. Errors are
/// those of the shard's owner and of roles with the rights of the caller. If the tables of another
/// role cannot be converted, for example because the server has no more locks for so many, all of
/// them keep their defaults.
fn convert_group(
    owner: Oid,
    columns: &[Column],
    definition: &Definition,
    parts: &ShardParts,
) -> Result<Vec<Candidate>, Error> {
    let is_any_converted =
        |result: &Result<Vec<_>, _>| result.as_ref().is_ok_and(|converted| !converted.is_empty());
    let convert = || {
        subtransaction::kept_if(is_any_converted, || convert_columns(columns, definition, parts))
    };
    if owner == definition.owner || catalog::has_rights_of(owner, catalog::current_role()) {
        return convert();
    }
    Ok(subtransaction::with_cause(convert).unwrap_or_else(|why| {
        columns.iter().for_each(|column| warn_kept(column, WhyKept::Fails(why.clone())));
        vec![]
    }))
}

/// Locks the tables of these columns, and converts those for which no other session keeps a lock.
fn convert_columns(
    columns: &[Column],
    definition: &Definition,
    parts: &ShardParts,
) -> Result<Vec<Candidate>, Error> {
    let locked = lock_out_writers_if_available(columns, TableLock::ToAlter, |column, why| {
        warn_kept(column, WhyKept::Fails(why.in_one_line()));
    })?;
    // The trigger names the shard.
    if definition::find(definition.shard)?.as_ref() != Some(definition) {
        return Err(Error::ShardChanged(definition.shard.number()));
    }
    parts.check_next_id(definition.schema, definition.sequence)?;
    // The function, the defaults and the owners may have changed before we got the locks. A column
    // that has come since is left for another call.
    let tables = locked.iter().map(|column| column.table).collect();
    let locked: FxHashSet<Column> = locked.into_iter().collect();
    let mut candidates = candidates(definition, parts.own_schema, Some(tables));
    candidates.retain(|one| locked.contains(&one.column) && one.is_convertible());
    candidates.retain(|candidate| {
        let convert = || candidate.convert_locked(definition.shard, parts.own_schema);
        let converted = subtransaction::with_cause(convert);
        let is_converted = converted.is_ok();
        converted.unwrap_or_else(|why| warn_kept(&candidate.column, WhyKept::Fails(why)));
        is_converted
    });
    Ok(candidates)
}

/// A WARNING: the tables of these other roles are left for another call.
fn warn_left(shard: Shard, owners: impl Iterator<Item = Oid>) {
    let roles: Vec<_> = owners.map(names::role).collect();
    if !roles.is_empty() {
        let left = Error::ConvertsTablesOfOneRole { shard: shard.number(), roles };
        left.warn();
    }
}

/// A WARNING: the column keeps its default.
fn warn_kept(column: &Column, why: WhyKept) {
    let column = column.qualified();
    Error::DefaultKept { column, why }.warn();
}

/// Does the same for a table that the present statement has created, whose schema's `next_id()` is
/// that of the shard. Returns whether it has got a trigger.
pub fn convert_new_table(table: Oid, definition: &Definition, own_schema: Oid) -> bool {
    let mut candidates = candidates(definition, own_schema, Some(vec![table]));
    candidates.retain(Candidate::is_convertible);
    candidates.iter().for_each(|candidate| candidate.convert(definition.shard, own_schema));
    !candidates.is_empty()
}

/// A WARNING for each column of such a table that keeps its default, because the shard cannot be
/// used now.
pub fn warn_new_table_kept(table: Oid, schema: Oid, shard: Shard, own_schema: Oid, why: &str) {
    let definition = definition::in_schema_by_number(schema, shard);
    let kept = definition.map(|definition| candidates(&definition, own_schema, Some(vec![table])));
    let warn = |candidate: &Candidate| warn_kept(&candidate.column, WhyKept::Fails(why.into()));
    kept.iter().flatten().for_each(warn);
}

/// A column whose default generates the ids of a shard.
struct Candidate {
    column: Column,
    is_partition_key: bool,
    /// Whether a partition key of the table, or of one of its partitions, has an expression.
    has_key_expression: bool,
    /// Whether other tables may inherit from the table, which are not its partitions.
    has_children: bool,
    /// Whether the table, or one below it, has a rule for INSERT.
    has_rule: bool,
    /// Whether the default calls a function that is SECURITY DEFINER.
    has_rights_of_definer: bool,
    /// A trigger of the table, or of one below it, that generates ids of another shard for the
    /// column as soon as it has no default. Any role with TRIGGER can create one.
    trigger: Option<(String, Oid)>,
    /// A partition that has another default for the column.
    other_default: Option<Oid>,
}

/// The candidates in the schema of the shard, or those of some tables there.
fn candidates(
    definition: &Definition,
    own_schema: Oid,
    tables: Option<Vec<Oid>>,
) -> Vec<Candidate> {
    let defaults = columns::defaults_of(definition, own_schema);
    let is_of_user = placement::is_no_citus_shard();
    let default = columns::shown_default(definition, own_schema);
    let tree = catalog::tree_of("c.oid");
    let arguments_of_shard = columns::trigger_arguments(definition.shard);
    let next_id = catalog::function_in(definition.schema, "next_id", &[]);
    let by_definer = match next_id.filter(|function| function.is_security_definer) {
        Some(function) => {
            format!("strpos(f.adbin::text, ':funcid {} ') > 0", function.oid.to_u32())
        }
        None => "false".into(),
    };
    // Arguments of a trigger have any length, and are read while others wait. Those of
    // next_id_trigger() are a number and a name.
    let query = format!(
        "SELECT c.oid, a.attname::text, a.atttypid = 'int8'::regtype,
             EXISTS (SELECT FROM ({tree}) AS t
                     JOIN pg_depend AS d ON d.objid = t.relid AND d.refobjid = t.relid
                     JOIN pg_attribute AS k ON k.attrelid = t.relid AND k.attnum = d.objsubid AND k.attname = a.attname
                     WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                     AND d.refobjsubid = 0 AND d.deptype = 'i'),
             EXISTS (SELECT FROM ({tree}) AS t JOIN pg_partitioned_table AS p ON p.partrelid = t.relid
                     WHERE p.partexprs IS NOT NULL),
             c.relhassubclass AND c.relkind = 'r',
             EXISTS (SELECT FROM ({tree}) AS t JOIN pg_rewrite ON ev_class = t.relid WHERE ev_type = '3'), {by_definer},
             other.name, other.table_oid,
             (SELECT min(t.relid) FROM ({tree}) AS t JOIN pg_attribute AS k ON k.attrelid = t.relid AND k.attname = a.attname
                     JOIN pg_attrdef AS f ON f.adrelid = k.attrelid AND f.adnum = k.attnum
                     WHERE c.relkind = 'p' AND t.relid <> c.oid AND coalesce({default} <> ALL ($2), true))
         FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
         JOIN pg_attrdef AS f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
         LEFT JOIN LATERAL (
             SELECT tgname::text, tgrelid FROM ({tree}) AS t JOIN pg_trigger ON tgrelid = t.relid WHERE tgfoid = $4
             AND CASE WHEN octet_length(tgargs) > 1024 THEN false ELSE
                 position(decode('00', 'hex') || convert_to(a.attname::text, getdatabaseencoding()) || decode('00', 'hex') IN tgargs) > 0
                 AND tgargs <> {arguments_of_shard} END
             AND tgparentid = 0 ORDER BY tgname::text COLLATE \"C\", tgrelid LIMIT 1
         ) AS other(name, table_oid) ON true
         WHERE c.relnamespace = $1 AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND {is_of_user}
         AND ($3 IS NULL OR c.oid = ANY ($3)) AND {default} = ANY ($2)
         ORDER BY c.oid, a.attnum"
    );
    let trigger =
        catalog::function_in(own_schema, "next_id_trigger", &[]).map(|function| function.oid);
    let arguments = [definition.schema.into(), defaults.into(), tables.into(), trigger.into()];
    select(&query, &arguments, |row| {
        let column = Column { table: row.get(1)?, name: row.get(2)?, is_bigint: row.get(3)? };
        Some(Candidate {
            column,
            is_partition_key: row.get(4)?,
            has_key_expression: row.get(5)?,
            has_children: row.get(6)?,
            has_rule: row.get(7)?,
            has_rights_of_definer: row.get(8)?,
            trigger: row.get(9).zip(row.get(10)),
            other_default: row.get(11),
        })
    })
}

impl Candidate {
    /// The owner of the table, unless that is gone.
    fn owner(&self) -> Option<Oid> {
        catalog::relation(self.column.table).map(|table| table.owner)
    }

    /// The role whose code would run while the column is converted, if its rights are not those of
    /// the caller: PostgreSQL evaluates the constant parts of expressions in partition keys when a
    /// trigger is created. It evaluates nothing else of a table then.
    fn author(&self) -> Option<Oid> {
        let owner = self.owner()?;
        let is_trusted = || catalog::has_rights_of(owner, catalog::current_role());
        (self.has_key_expression && !is_trusted()).then_some(owner)
    }

    /// Why the column keeps its default; `None` if a trigger can replace it.
    fn why_kept(&self) -> Option<WhyKept> {
        self.why_unfit().or_else(|| (!self.is_of_caller()).then_some(WhyKept::OfAnother))
    }

    /// The same, apart from the rights of the caller.
    fn why_unfit(&self) -> Option<WhyKept> {
        if !self.column.is_bigint {
            return Some(WhyKept::NotBigint);
        }
        if self.is_partition_key {
            return Some(WhyKept::PartitionKey);
        }
        if self.has_rule {
            return Some(WhyKept::Rule);
        }
        if self.has_rights_of_definer {
            return Some(WhyKept::SecurityDefiner);
        }
        if let Some((trigger, table)) = &self.trigger {
            let (name, table) = (quote_identifier(trigger), names::relation(*table));
            return Some(WhyKept::OtherTrigger { name, table });
        }
        if let Some(partition) = self.other_default {
            return Some(WhyKept::OtherDefault(names::relation(partition)));
        }
        if let Some(author) = self.author() {
            return Some(WhyKept::ExpressionOf(names::role(author)));
        }
        if !catalog::has_citus() {
            return None;
        }
        match placement::rows_of(self.column.table).0 {
            RowPlacement::Replicated => Some(WhyKept::Replicated),
            RowPlacement::OfTable => Some(WhyKept::PlacedElsewhere),
            RowPlacement::Local | RowPlacement::OfSchema => None,
        }
    }

    /// Whether a trigger can replace the default; a WARNING says why not.
    fn is_convertible(&self) -> bool {
        let why = self.why_kept();
        let is_convertible = why.is_none();
        why.into_iter().for_each(|why| warn_kept(&self.column, why));
        is_convertible
    }

    /// Whether the caller has the rights of the table's owner, or the table is gone.
    fn is_of_caller(&self) -> bool {
        self.owner().is_none_or(|owner| catalog::has_rights_of(catalog::current_role(), owner))
    }

    /// Converts the column of a table that is locked.
    fn convert_locked(&self, shard: Shard, own_schema: Oid) -> Result<(), Error> {
        related::lock_all_and_check(self.column.table, Change::Alter)?;
        self.convert(shard, own_schema);
        Ok(())
    }

    /// A name for the trigger. A number follows if a role with TRIGGER has used the name.
    fn trigger_name(&self) -> String {
        let tree = catalog::tree_of("$1");
        let query = format!("SELECT tgname::text FROM pg_trigger WHERE tgrelid IN ({tree})");
        let taken = select(&query, &[self.column.table.into()], |row| row.get::<String>(1));
        let name = format!("{PREFIX}{}", self.column.name);
        let mut end = String::new();
        for number in 2.. {
            let trigger = format!("{}{end}", names::cut_off(&name, end.len()));
            if !taken.contains(&trigger) {
                return trigger;
            }
            end = format!("_{number}");
        }
        name
    }

    /// Replaces the default by the trigger.
    fn convert(&self, shard: Shard, own_schema: Oid) {
        let (table, name) =
            (names::relation(self.column.table), quote_identifier(&self.column.name));
        let trigger = quote_identifier(self.trigger_name());
        let (schema, column) = (names::schema(own_schema), quote_literal(&self.column.name));
        // Citus cannot see what a trigger does and refuses it without this setting. This trigger
        // uses nothing but its own row.
        let for_citus = [(c"citus.enable_unsafe_triggers", "on")];
        // A trigger does not apply to tables that inherit from this one, so they keep their
        // defaults. Those in the schema of the shard are candidates, too.
        let only = if self.has_children { "ONLY " } else { "" };
        let statements = [
            format!("ALTER TABLE {only}{table} ALTER COLUMN {name} DROP DEFAULT"),
            format!(
                "CREATE TRIGGER {trigger} BEFORE INSERT ON {table} FOR EACH ROW WHEN (NEW.{name} IS NULL) \
                 EXECUTE FUNCTION {schema}.next_id_trigger('{}', {column})",
                shard.number()
            ),
        ];
        // One statement at a time, because Citus sends each to the other nodes as text.
        let run = || statements.iter().for_each(|statement| spi::run(statement));
        let convert = || match catalog::relation(self.column.table) {
            // PostgreSQL evaluates expressions of the partition key and of those of partitions
            // here. They belong to roles with the rights of the owner.
            Some(table) if table.is_partitioned => roles::as_role(table.owner, run),
            _ => run(),
        };
        // Others wait meanwhile.
        guc::with(&for_citus, || locks::waiting_briefly(convert));
    }
}
