//! `next_id_trigger`: ids from a trigger, for tables whose default is evaluated on the wrong node.
//!
//! Citus evaluates the default of a column on the node that plans the insert, but a trigger on the
//! node that stores the row. That is the node that owns the shard's schema, whichever node the
//! client is connected to.

use crate::error::{Error, or_raise, shortened};
use crate::generator::{self, Origin, Source};
use crate::pg::catalog;
use crate::pg::invalidation::{self, Cached};
use crate::pg::names;
use crate::pg::roles;
use crate::pg::text;
use crate::sequence::placement::{self, RowPlacement};
use crate::sequence::{CopyPolicy, IdSequence};
use crate::shard::lookup;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;
use pgrx::{AllocatedByRust, Internal, PgTriggerOperation, PgTriggerWhen};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::ffi::CStr;
use std::num::NonZeroUsize;

/// `next_id_trigger('<shard>', '<column>')`, a trigger BEFORE INSERT FOR EACH ROW: if the column is
/// NULL, assigns the next id of the shard.
///
/// # Errors
///
/// The call is outside a trigger, or by another kind of trigger, or with other arguments. The table
/// does not have the column, or its rows are replicated to several nodes of a Citus cluster or are
/// not placed with its schema. Also those of `next_id(shard)`.
//
// `pg_trigger` would panic outside a trigger. The result is a pointer to a row, which `Internal`
// passes on unchanged.
#[pg_extern(sql = false)]
fn next_id_trigger(fcinfo: pg_sys::FunctionCallInfo) -> Internal {
    let row = or_raise(|| {
        // SAFETY: PostgreSQL passes a call's arguments, which outlive it.
        let trigger = unsafe { fcinfo.as_ref().map(|call| PgTrigger::from_fcinfo(call)) };
        let Some(Ok(trigger)) = trigger else { return Err(Error::TriggerMisused) };
        Ok(row_with_id(&trigger)?.into_trigger_datum())
    });
    Internal::from(row)
}

/// The row of the trigger, with an id if its column is NULL.
///
/// # Errors
///
/// Those of [`next_id_trigger`].
fn row_with_id<'a>(trigger: &'a PgTrigger<'a>) -> Result<PgHeapTuple<'a, AllocatedByRust>, Error> {
    let is_before_insert = matches!(trigger.when(), Ok(PgTriggerWhen::Before))
        && matches!(trigger.op(), Ok(PgTriggerOperation::Insert));
    let row = trigger.new().filter(|_| is_before_insert).ok_or_else(|| Error::TriggerMisused)?;
    let (shard, column) = arguments_of(trigger).ok_or_else(|| Error::TriggerMisused)?;
    let mut row = row.into_owned();
    let (number, attribute) =
        attribute_of(&row, column).ok_or_else(|| column_missing(trigger, column))?;
    // A smaller type would truncate the id.
    if attribute.atttypid != pg_sys::INT8OID {
        return Err(Error::TriggerMisused);
    }
    if row.get_by_index::<i64>(number).map_err(|_| Error::TriggerMisused)?.is_none() {
        let find = || origin_of(trigger, shard, column);
        let id = generator::next_id(shard, Source::Found(&find))?;
        row.set_by_index(number, id).map_err(|_| Error::TriggerMisused)?;
    }
    Ok(row)
}

/// The column of that name, and its number. Names of other columns need not be UTF-8.
fn attribute_of<'a>(
    row: &'a PgHeapTuple<AllocatedByRust>,
    name: &str,
) -> Option<(NonZeroUsize, &'a pg_sys::FormData_pg_attribute)> {
    let number =
        |n| Some((NonZeroUsize::new(n)?, row.get_attribute_by_index(NonZeroUsize::new(n)?)?));
    // SAFETY: the name of an attribute ends with a zero byte.
    let is_it = |of: &pg_sys::FormData_pg_attribute| unsafe {
        CStr::from_ptr(of.attname.data.as_ptr()).to_bytes() == name.as_bytes()
    };
    (1..=row.len()).filter_map(number).find(|(_, attribute)| is_it(attribute))
}

/// The most origins that are cached. A session that creates, fills and drops temporary tables would
/// otherwise need more and more memory.
const ORIGINS_MAX: usize = 1 << 16;

thread_local! {
    /// By table and shard, the origin of the ids of its rows.
    static ORIGINS: RefCell<FxHashMap<(Oid, u16), Cached<OriginOfTable>>> = RefCell::new(FxHashMap::default());
}

/// Where ids for the rows of a table come from, for all roles.
#[derive(Clone, Copy)]
struct OriginOfTable {
    /// The sequence of the shard that the table's schema defines. Otherwise the number decides.
    beside: Option<IdSequence>,
    policy: CopyPolicy,
}

/// The origin of the ids for rows of the trigger's table; see [`look_up_origin`]. The result is
/// cached, because a look-up for each row would double the time of a bulk load.
///
/// # Errors
///
/// Those of [`look_up_origin`].
fn origin_of(trigger: &PgTrigger, shard: Shard, column: &str) -> Result<Origin, Error> {
    let table = trigger.relid().map_err(|_| Error::TriggerMisused)?;
    let key = (table, shard.number());
    let count = invalidation::settled_count();
    let cached = ORIGINS.with_borrow(|origins| origins.get(&key).copied());
    let OriginOfTable { beside, policy } = match cached.and_then(Cached::get) {
        Some(origin) => origin,
        None => {
            let origin = look_up_origin(table, shard, column)?;
            cache_origin(key, Cached::new(count, origin));
            origin
        }
    };
    Ok(Origin { sequence: beside.map_or_else(|| lookup::sequence_of(shard), Ok)?, policy })
}

/// If there are too many, or there is no memory for more, the cache is emptied.
fn cache_origin(key: (Oid, u16), origin: Cached<OriginOfTable>) {
    ORIGINS.with_borrow_mut(|origins| {
        if origins.len() == ORIGINS_MAX || origins.try_reserve(1).is_err() {
            origins.clear();
        }
        origins.insert(key, origin);
    });
}

/// The origin of the ids for rows of a table. The shard is that of the table's own schema, as for a
/// default. If that does not define it, or those who use the table need not trust the definition,
/// the shard is looked up by its number.
///
/// During a move, Citus may store a row on the new node before the catalogs of that node have the
/// new placement. The row itself then proves the placement, provided that the table is in the
/// schema of the shard, and that its owner has UPDATE on the sequence, with which it could take the
/// sequence over anyway.
///
/// # Errors
///
/// The rows of the table are replicated to several nodes, where the trigger runs on each of them;
/// or the table is not placed with its schema, and this node does not own it. Or those of
/// [`lookup::beside`].
fn look_up_origin(table: Oid, shard: Shard, column: &str) -> Result<OriginOfTable, Error> {
    let beside = lookup::beside(table, shard)?.map(|definition| definition.sequence);
    let of_policy = |policy| Ok(OriginOfTable { beside, policy });
    if !catalog::has_citus() {
        return of_policy(CopyPolicy::SchemaNode);
    }
    let (rows, table_of_user) = placement::rows_of(table);
    match rows {
        RowPlacement::Replicated => {
            Err(Error::TableReplicated { table: names::relation(table_of_user) })
        }
        RowPlacement::Local => of_policy(CopyPolicy::SchemaNode),
        RowPlacement::OfTable => {
            let sequence = beside.map_or_else(|| lookup::sequence_of(shard), Ok)?;
            if placement::of(sequence.oid).is_here() {
                return of_policy(CopyPolicy::SchemaNode);
            }
            let (table, shard) = (names::relation(table_of_user), shard.number());
            Err(Error::TablePlacedElsewhere { table, shard, column: quote_identifier(column) })
        }
        // The privileges on the sequence are a part of its relation, which is watched.
        RowPlacement::OfSchema => {
            let owner = catalog::relation(table).map(|relation| relation.owner);
            let may_take_over = beside
                .zip(owner)
                .is_some_and(|(sequence, owner)| roles::may_set(sequence.oid, owner));
            of_policy(if may_take_over { CopyPolicy::RowNode } else { CopyPolicy::SchemaNode })
        }
    }
}

fn column_missing(trigger: &PgTrigger, column: &str) -> Error {
    let (Ok(name), Ok(table)) = (trigger.name(), trigger.relid()) else {
        return Error::TriggerMisused;
    };
    let has_citus = catalog::has_citus();
    let table_of_user = if has_citus { placement::rows_of(table).1 } else { table };
    let name =
        if table_of_user == table { name } else { without_number(name, &names::relation(table)) };
    Error::TriggerColumnMissing {
        trigger: quote_identifier(name),
        table: names::relation(table_of_user),
        column: quote_identifier(shortened(column)),
        has_citus,
    }
}

/// The name of a trigger on a table that is a Citus shard, without the number that Citus appends to
/// both names.
fn without_number<'a>(trigger: &'a str, table: &str) -> &'a str {
    let number = table.trim_end_matches('"').rsplit('_').next().unwrap_or_default();
    trigger.strip_suffix(number).and_then(|name| name.strip_suffix('_')).unwrap_or(trigger)
}

/// The shard and the column in the trigger's definition. They are not copied, because they can be
/// of any length.
fn arguments_of<'a>(trigger: &'a PgTrigger) -> Option<(Shard, &'a str)> {
    let definition = trigger.trigger();
    if definition.tgnargs != 2 {
        return None;
    }
    // SAFETY: a trigger has this many arguments, which end with a zero byte and live as long as it.
    let [shard, column] = unsafe { [0, 1].map(|n| CStr::from_ptr(*definition.tgargs.add(n))) };
    // Other functions look for the number in its shortest form.
    let number = shard.to_str().ok()?;
    let shard = Shard::new(number.parse().ok()?)?;
    (shard.number().to_string() == number).then(|| (shard, text::utf8(column.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_number_of_a_citus_shard() {
        assert_eq!(without_number("0_assign_id_102008", "insta5.photos_102008"), "0_assign_id");
        assert_eq!(without_number("0_assign_id_102008", "insta5.\"Photos_102008\""), "0_assign_id");
        assert_eq!(without_number("0_assign_id", "insta5.photos_102008"), "0_assign_id");
        assert_eq!(without_number("ids_102009", "insta5.photos_102008"), "ids_102009");
    }

    #[test]
    fn cache_of_origins_has_a_limit() {
        let origin = OriginOfTable { beside: None, policy: CopyPolicy::SchemaNode };
        for table in 0..200_000 {
            cache_origin((Oid::from(table), 5), Cached::new(invalidation::count(), origin));
            assert!(ORIGINS.with_borrow(FxHashMap::len) <= ORIGINS_MAX);
        }
    }
}
