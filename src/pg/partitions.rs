//! Partitions by ranges of a bigint, from the catalogs.

use crate::pg::catalog::IS_SHORT_DEFAULT;
use crate::pg::spi::select;
use crate::pg::sys;
use pgrx::pg_sys::{self, Oid};
use std::ffi::c_int;

/// The partition key of a table.
pub struct PartitionKey {
    pub is_by_range: bool,
    pub columns: usize,
    /// The number of its first column, or 0 for an expression.
    pub column: pg_sys::AttrNumber,
    /// Whether its first column is a bigint in PostgreSQL's default order.
    pub is_bigint: bool,
}

/// Whether the first column of the partition key has a default, of its own or of the domain that is
/// its type, which is neither a number nor a call of nextval() alone.
pub fn key_may_get_ids(table: Oid) -> bool {
    let query = format!(
        "SELECT EXISTS (SELECT FROM pg_partitioned_table AS p
             JOIN pg_attribute AS a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
             JOIN pg_type AS t ON t.oid = a.atttypid
             LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
             CROSS JOIN LATERAL (SELECT coalesce(d.adbin, t.typdefaultbin)) AS f (adbin)
             WHERE p.partrelid = $1 AND (NOT {IS_SHORT_DEFAULT}
                 OR f.adbin::text !~ format('^[{{](CONST|FUNCEXPR :funcid (%s|%s [^{{]*[{{]CONST)) ',
                     'nextval(regclass)'::regprocedure::oid, 'int8(int4)'::regprocedure::oid)))"
    );
    select(&query, &[table.into()], |row| row.get::<bool>(1)) == [true]
}

/// The partitions whose `DETACH PARTITION ... CONCURRENTLY` was interrupted or is in progress.
pub fn being_detached(table: Oid) -> Vec<Oid> {
    let query = "SELECT inhrelid FROM pg_inherits WHERE inhparent = $1 AND inhdetachpending";
    select(query, &[table.into()], |row| row.get(1))
}

/// A table's row in `pg_partitioned_table`, by the current state of the catalog; `None` if the
/// table is not partitioned.
///
/// It is not read from the relation's descriptor, because to build that, PostgreSQL evaluates the
/// constant parts of expressions.
pub fn partition_key(table: Oid) -> Option<PartitionKey> {
    // SAFETY: the tuple is valid until it is released. The columns are as in
    // catalog/pg_partitioned_table.h, and none of these is ever NULL.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PARTRELID as c_int;
        let tuple = pg_sys::SearchSysCache1(cache, table.into());
        if tuple.is_null() {
            return None;
        }
        let column = |number| pg_sys::SysCacheGetAttr(cache, tuple, number, &mut false);
        let strategy = column(sys::Anum_pg_partitioned_table_partstrat).value() as u8;
        let columns =
            column(sys::Anum_pg_partitioned_table_partattrs).cast_mut_ptr::<pg_sys::int2vector>();
        let classes =
            column(sys::Anum_pg_partitioned_table_partclass).cast_mut_ptr::<pg_sys::oidvector>();
        // The elements follow each vector's fixed part, and there is at least one.
        let count = (*columns).dim1 as usize;
        let column = (&raw const (*columns).values).cast::<i16>().read();
        let class = (&raw const (*classes).values).cast::<Oid>().read();
        pg_sys::ReleaseSysCache(tuple);
        Some(PartitionKey {
            is_by_range: strategy == b'r',
            columns: count,
            column,
            is_bigint: pg_sys::get_opclass_input_type(class) == pg_sys::INT8OID
                && pg_sys::get_opclass_family(class) == pg_sys::INTEGER_BTREE_FAM_OID,
        })
    }
}

/// A partition by a range of one bigint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    pub oid: Oid,
    pub range: Range,
}

/// The bigints from `from` up to, but not including, `to`. `None` is MINVALUE or MAXVALUE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub from: Option<i64>,
    pub to: Option<i64>,
}

/// The partitions of a table by ranges of one bigint, in order, by the current state of the
/// catalog. A default partition is not included.
///
/// The caller must have locked the table and checked its partition key.
pub fn partitions(table: Oid) -> Vec<Partition> {
    // SAFETY: the table is locked and partitioned. Its descriptor is copied before anything else
    // runs. It has arrays of nparts partitions and of ndatums bounds, each with one key column; see
    // `PartitionBoundInfoData` in partbounds.h.
    unsafe {
        let relation = pg_sys::table_open(table, pg_sys::NoLock as c_int);
        let descriptor = &*pg_sys::RelationGetPartitionDesc(relation, false);
        let mut partitions = vec![];
        if descriptor.nparts > 0 {
            let bounds = &*descriptor.boundinfo;
            let bound = |n: usize| {
                let kind = **bounds.kind.add(n);
                let value = kind == pg_sys::PartitionRangeDatumKind::PARTITION_RANGE_DATUM_VALUE;
                value.then(|| (**bounds.datums.add(n)).value() as i64)
            };
            // For each bound, the partition that ends there.
            for n in 1..bounds.ndatums as usize {
                if let Ok(partition) = usize::try_from(*bounds.indexes.add(n)) {
                    let range = Range { from: bound(n - 1), to: bound(n) };
                    partitions.push(Partition { oid: *descriptor.oids.add(partition), range });
                }
            }
        }
        pg_sys::table_close(relation, pg_sys::NoLock as c_int);
        partitions
    }
}
