//! The greatest value of a bigint column, read without a query.
//!
//! To plan a query of a table, PostgreSQL evaluates the constant parts of expressions in its
//! indexes and constraints. That is code of the owner of the table, which could take as long as it
//! likes while the caller holds locks that other sessions wait for. A scan evaluates nothing.

use crate::error::Error;
use crate::pg::catalog;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::spi::select_by_index;
use crate::pg::sys::{AccessShareLock, NoLock};
use pgrx::PgList;
use pgrx::pg_sys::{self, AttrNumber, Datum, LOCKMODE, Oid};
use rustc_hash::FxHashSet;
use std::ffi::c_int;

/// Which tables below one are read with it.
#[derive(Clone, Copy, PartialEq)]
pub enum Parts {
    /// Its partitions, which store its rows.
    Partitions,
    /// Also those that inherit from it.
    AllBelow,
}

/// The greatest value of a column of bigint, or of a domain over it, that is at most `limit`, in a
/// locked table and in those that inherit from it, by a snapshot taken now. Temporary tables of
/// other sessions are left out, and those in `read`, to which the others are added.
///
/// # Errors
///
/// A part of the table is a foreign table, or has changed, or it or one of its indexes is locked.
pub fn greatest_at_most(
    table: Oid,
    column: &str,
    limit: i64,
    parts: Parts,
    read: &mut FxHashSet<Oid>,
) -> Result<Option<i64>, Error> {
    let below = || {
        let query = format!(
            "SELECT c.oid, c.relkind = 'f' FROM ({}) AS t
                 CROSS JOIN LATERAL (SELECT * FROM pg_class WHERE oid = relid OFFSET 0) AS c
             WHERE c.relkind <> 'p' AND NOT pg_is_other_temp_schema(c.relnamespace)",
            catalog::tree_of("$1")
        );
        select_by_index(&query, &[table.into()], |row| Some((row.get(1)?, row.get(2)?)))
    };
    // Writers wait while the columns of many tables are read, most of which have no children.
    let read_alone = |one: &catalog::Relation| {
        let has_parts = one.may_have_children && parts == Parts::AllBelow;
        !(has_parts || one.is_partitioned || one.is_temporary)
    };
    let parts = match catalog::relation(table) {
        Some(one) if read_alone(&one) => vec![(table, one.is_foreign)],
        _ => below(),
    };
    let mut greatest = None;
    for (table, is_foreign) in parts {
        if !read.insert(table) {
            continue;
        }
        if is_foreign {
            let name = names::relation(table);
            return Err(Error::NotTable { name, kind: "a foreign partition" });
        }
        locks::lock_in_time(table, pg_sys::AccessShareLock)?;
        let number = catalog::column_number(table, column).unwrap_or(0);
        // SAFETY: looks up any OID and number. A table that exists under the lock stays, and so
        // does its column.
        unsafe {
            if number <= 0
                || pg_sys::getBaseType(pg_sys::get_atttype(table, number)) != pg_sys::INT8OID
            {
                return Err(Error::TableChanged(names::relation(table)));
            }
            // Before the lock it may have been another kind of relation: up to 15, an empty table
            // can become a view.
            if pg_sys::get_rel_relkind(table) as u8 != pg_sys::RELKIND_RELATION {
                return Err(Error::TableChanged(names::relation(table)));
            }
            greatest = greatest.max(greatest_in(table, number, limit)?);
        }
    }
    Ok(greatest)
}

/// The same for one table, whose column has this number.
///
/// # Safety
///
/// The table must be locked, store its own rows, and have this column, of type bigint or a domain
/// over it.
unsafe fn greatest_in(table: Oid, column: AttrNumber, limit: i64) -> Result<Option<i64>, Error> {
    // SAFETY: scans as in PostgreSQL's own code. The key outlives the scan. An error ends the scan
    // with the transaction or subtransaction.
    unsafe {
        let relation = pg_sys::relation_open(table, NoLock);
        let index = match index_on(relation, column) {
            Ok(index) => index,
            Err(error) => {
                pg_sys::relation_close(relation, NoLock);
                return Err(error);
            }
        };
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        let mut key = pg_sys::ScanKeyData::default();
        let (at_most, int8le) = (pg_sys::BTLessEqualStrategyNumber, pg_sys::F_INT8LE);
        pg_sys::ScanKeyInit(&mut key, column, at_most as u16, int8le.into(), Datum::from(limit));
        let mut is_null = false;
        let mut value = |tuple| {
            let columns = (*relation).rd_att;
            let value = pg_sys::htup::heap_getattr(tuple, column.into(), columns, &mut is_null);
            (!is_null).then_some(value.value() as i64)
        };
        let mut greatest = None;
        if let Some((index, mode)) = index {
            let scan = pg_sys::systable_beginscan_ordered(relation, index, snapshot, 1, &mut key);
            let backward = pg_sys::ScanDirection::BackwardScanDirection;
            let tuple = pg_sys::systable_getnext_ordered(scan, backward);
            if !tuple.is_null() {
                greatest = value(tuple);
            }
            pg_sys::systable_endscan_ordered(scan);
            pg_sys::index_close(index, mode);
        } else {
            let no_index = Oid::INVALID;
            let scan = pg_sys::systable_beginscan(relation, no_index, false, snapshot, 1, &mut key);
            loop {
                let tuple = pg_sys::systable_getnext(scan);
                if tuple.is_null() {
                    break;
                }
                greatest = greatest.max(value(tuple));
            }
            pg_sys::systable_endscan(scan);
        }
        pg_sys::UnregisterSnapshot(snapshot);
        pg_sys::relation_close(relation, NoLock);
        Ok(greatest)
    }
}

/// An index that has all rows of the table in the order of this column, opened, and the lock to
/// close it with.
///
/// # Safety
///
/// The relation must be open.
unsafe fn index_on(
    relation: pg_sys::Relation,
    column: AttrNumber,
) -> Result<Option<(pg_sys::Relation, LOCKMODE)>, Error> {
    // SAFETY: an index is opened while it is read. The elements of a vector follow its fixed part;
    // an index has at least one column, and these arrays an element for each.
    unsafe {
        let indexes = PgList::<pg_sys::Oid>::from_pg(pg_sys::RelationGetIndexList(relation));
        for oid in indexes.iter_oid() {
            // An index can be altered without a lock on its table. A lock that was waited for in a
            // subtransaction is not released with the index.
            let mode = match locks::lock_unless_locked(oid, pg_sys::AccessShareLock) {
                true => AccessShareLock,
                false => locks::lock_in_time(oid, pg_sys::AccessShareLock).map(|()| NoLock)?,
            };
            let index = pg_sys::index_open(oid, NoLock);
            let row = (*index).rd_index;
            let columns = (&raw const (*row).indkey.values).cast::<AttrNumber>();
            let predicate = pg_sys::Anum_pg_index_indpred as c_int;
            let is_usable = (*(*index).rd_rel).relam == pg_sys::BTREE_AM_OID
                && (*row).indisvalid
                && !(*row).indcheckxmin
                && *columns == column
                && *(*index).rd_opfamily == pg_sys::INTEGER_BTREE_FAM_OID
                && *(*index).rd_indoption == 0
                && pg_sys::heap_attisnull((*index).rd_indextuple, predicate, std::ptr::null_mut());
            if is_usable {
                return Ok(Some((index, mode)));
            }
            pg_sys::index_close(index, mode);
        }
        Ok(None)
    }
}
