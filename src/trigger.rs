//! Ids from a trigger on the table, for where a default is evaluated in the wrong place: `assign_id`,
//! `create_id_triggers`.
//!
//! Under Citus the default of a column is evaluated on whatever node plans the insert, a trigger where the row is
//! stored. That is the home of the shard, whichever node the client is connected to.

use crate::arguments;
use crate::catalog;
use crate::citus::{self, Rows};
use crate::definition;
use crate::epoch::Epoch;
use crate::error::{Error, or_raise};
use crate::generate;
use crate::layout::Shard;
use crate::names;
use crate::oid_types::Regclass;
use crate::query::{self, select};
use crate::sequence::{self, Site, Source};
use crate::settings;
use crate::shard;
use crate::sys;
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::{quote_identifier, quote_literal};
use pgrx::{AllocatedByRust, PgTriggerOperation, PgTriggerWhen};

/// What the name of a trigger starts with, before the column's. Triggers run in the order of their names, and others
/// of the table, whose names begin with a letter, are to find the id in its place, as they would by a default.
const PREFIX: &str = "0_assign_";

/// `assign_id('<shard>', '<column>')`, a trigger BEFORE INSERT FOR EACH ROW: where the column is NULL it gets the next id
/// of the shard.
///
/// # Errors
///
/// 39P01 for another kind of trigger or other arguments, 55000 for a table of whose rows several nodes of a Citus cluster
/// have copies, and those of `next_id(shard)`.
#[pg_trigger]
fn assign_id<'a>(
    trigger: &'a PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, AllocatedByRust>>, PgTriggerError> {
    let row = or_raise(|| {
        let is_before_insert = matches!(trigger.when(), Ok(PgTriggerWhen::Before))
            && matches!(trigger.op(), Ok(PgTriggerOperation::Insert));
        let row = trigger.new().filter(|_| is_before_insert).ok_or_else(|| Error::TriggerMisused)?;
        let (shard, column) = arguments_of(trigger).ok_or_else(|| Error::TriggerMisused)?;
        let mut row = row.into_owned();
        // Into a smaller column it would be cut off.
        let is_bigint = |attribute: &pg_sys::FormData_pg_attribute| attribute.atttypid == pg_sys::INT8OID;
        if !row.get_attribute_by_name(&column).is_some_and(|(_, attribute)| is_bigint(attribute)) {
            return Err(Error::TriggerMisused);
        }
        if row.get_by_name::<i64>(&column).map_err(|_| Error::TriggerMisused)?.is_none() {
            let id = generate::next_id_from(shard, Source::OfShard, site_of(trigger, shard)?)?;
            row.set_by_name(&column, id).map_err(|_| Error::TriggerMisused)?;
        }
        Ok(row)
    });
    Ok(Some(row))
}

/// Where ids for the rows of the trigger's table are made. During a move the row may know its home before the node does; but
/// only where Citus has put it there, and its table's owner could have the sequence taken over anyway.
///
/// # Errors
///
/// 55000 for a table of whose rows several nodes have copies: the trigger runs on each of them.
fn site_of(trigger: &PgTrigger, shard: Shard) -> Result<Site, Error> {
    if !sys::has_citus() {
        return Ok(Site::Home);
    }
    let table = trigger.relid().map_err(|_| Error::TriggerMisused)?;
    match citus::rows_of(table) {
        Rows::Replicated => Err(replicated(table)),
        Rows::Other => Ok(Site::Home),
        Rows::OfSchema => {
            let sequence = shard::clock_of(shard)?.sequence;
            let schema = shard::schema_of(shard)?;
            let is_of_shard = catalog::relation(table).is_some_and(|relation| {
                relation.schema == schema && sequence::may_be_updated_by(sequence, relation.owner)
            });
            Ok(if is_of_shard { Site::OfRow } else { Site::Home })
        }
    }
}

fn replicated(table: Oid) -> Error {
    Error::TableReplicated { table: names::relation(table) }
}

fn arguments_of(trigger: &PgTrigger) -> Option<(Shard, String)> {
    let arguments = trigger.extra_args().ok()?;
    let [shard, column] = arguments.as_slice() else { return None };
    Some((Shard::new(shard.parse().ok()?)?, column.clone()))
}

/// `create_id_triggers(shard)`: for each table in the shard's schema that has the shard's ids for a default, puts the
/// trigger [`assign_id`] in its place, and returns the tables and columns. What has its trigger already is left alone, so
/// it can be called again for new tables. Left alone, with a WARNING, are columns that are no bigint, and those that rows
/// find their partition by.
///
/// # Errors
///
/// 22004 without a shard, 22023 for one outside 0..8191, 42P01 where there is none, 42501 for who does not own the
/// tables, 55000 for a table of whose rows several nodes of a Citus cluster have copies.
#[pg_extern(volatile, parallel_unsafe)]
fn create_id_triggers(
    shard: Option<i32>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<TableIterator<'static, (name!(table_name, Regclass), name!(column_name, String))>, ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let own_schema = names::schema(shard::schema_of_this_function(fcinfo));
    shard::prevent_if_read_only("create_id_triggers()");
    let columns = settings::with(settings::OWN_NAMES, || {
        let definition = definition::find(shard)?.ok_or_else(|| shard::missing(shard))?;
        let number = shard.number();
        let sequence = quote_literal(names::relation(definition.clock.sequence));
        let mut defaults = vec![
            format!("{}.next_id()", names::schema(definition.schema)),
            format!("{own_schema}.next_id({number})"),
        ];
        if definition.clock.epoch == Epoch::ORIGINAL {
            defaults.push(format!("{own_schema}.next_id({number}, {sequence}::regclass)"));
        }
        // A shard of a distributed table, on a coordinator that has some, gets what its table gets.
        let is_of_user =
            if sys::has_citus() { "NOT coalesce(relation_is_a_known_shard(c.oid), false)" } else { "true" };
        let query = format!(
            "SELECT c.oid, a.attname::text, a.atttypid = 'int8'::regtype,
                 EXISTS (SELECT FROM pg_partition_tree(c.oid) AS t
                         JOIN pg_depend AS d ON d.objid = t.relid AND d.refobjid = t.relid
                         JOIN pg_attribute AS k ON k.attrelid = t.relid AND k.attnum = d.objsubid AND k.attname = a.attname
                         WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                         AND d.refobjsubid = 0 AND d.deptype = 'i')
             FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
             JOIN pg_attrdef AS f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
             WHERE c.relnamespace = $1 AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND {is_of_user}
             AND pg_get_expr(f.adbin, f.adrelid) = ANY ($2)
             ORDER BY c.oid, a.attnum"
        );
        let mut columns = select(&query, &[definition.schema.into(), defaults.into()], |row| {
            let column = (Regclass(row.get(1)?), row.get::<String>(2)?);
            Some((column, row.get::<bool>(3)?, row.get::<bool>(4)?))
        });
        columns.retain(|((table, column), is_bigint, is_partition_key)| {
            let why = match (is_bigint, is_partition_key) {
                (false, _) => "it is no bigint",
                (_, true) => "rows find their partition by it before a trigger runs",
                _ => return true,
            };
            let column = format!("{}.{}", names::relation(table.0), quote_identifier(column));
            warning!("{column} keeps its default: {why}");
            false
        });
        let columns: Vec<_> = columns.into_iter().map(|(column, ..)| column).collect();
        if sys::has_citus()
            && let Some((table, _)) =
                columns.iter().find(|(table, _)| citus::rows_of(table.0) == Rows::Replicated)
        {
            return Err(replicated(table.0));
        }
        let for_citus: &[_] = if sys::has_citus() {
            // Citus does not know what a trigger does, and so wants to hear that it may be there. This one looks at its own
            // row and at nothing else.
            &[(c"citus.enable_unsafe_triggers", "on")]
        } else {
            &[]
        };
        settings::with(for_citus, || {
            for (table, column) in &columns {
                let table = names::relation(table.0);
                let name = quote_identifier(column);
                // One at a time: Citus sends the text of each to the other nodes.
                query::run(&format!("ALTER TABLE {table} ALTER COLUMN {name} DROP DEFAULT"));
                query::run(&format!(
                    "CREATE TRIGGER {} BEFORE INSERT ON {table} FOR EACH ROW WHEN (NEW.{name} IS NULL) \
                     EXECUTE FUNCTION {own_schema}.assign_id('{number}', {})",
                    quote_identifier(names::cut_off(&format!("{PREFIX}{column}"))),
                    quote_literal(column)
                ));
            }
        });
        Ok::<_, Error>(columns)
    })?;
    Ok(TableIterator::new(columns))
}

extension_sql!(
    r#"
COMMENT ON FUNCTION assign_id() IS
'trigger BEFORE INSERT FOR EACH ROW, with a shard and a column for arguments: fills the column with the shard''s next id';
COMMENT ON FUNCTION create_id_triggers(integer) IS
'has the tables of a shard get their ids by a trigger instead of a default, as Citus needs it';
"#,
    name = "comments_trigger",
    requires = [assign_id, create_id_triggers],
);
