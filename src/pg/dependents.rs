//! What keeps an object from being dropped.
//!
//! Any role with USAGE on a schema can create views that depend on its tables, sequences and
//! functions. `DROP` locks each of them before it fails, one after the other, and each of their
//! owners can hold a lock. So this is looked up before the locks that others wait for, and once
//! more under them.

use crate::error::Error;
use crate::pg::spi::select_by_index;
use pgrx::pg_sys::Oid;

/// Raises an error if something else depends on one of these objects of a class, or on what is
/// dropped with them: their columns, indexes, constraints, partitions and sequences. The references
/// that a partition has from its table do not count: it is detached from them.
pub fn check(class: Oid, objects: &[Oid], is_partition: bool) -> Result<(), Error> {
    const QUERY: &str = "WITH RECURSIVE dropped (class, object) AS (
             SELECT $1, unnest($2::oid[])
             UNION SELECT d.classid, d.objid FROM dropped CROSS JOIN LATERAL (
                 SELECT classid, objid FROM pg_depend WHERE refclassid = class AND refobjid = object AND deptype <> 'n' OFFSET 0) AS d
         )
         SELECT pg_describe_object(classid, objid, objsubid), pg_describe_object(class, object, 0)
         FROM dropped CROSS JOIN LATERAL (
             SELECT classid, objid, objsubid FROM pg_depend WHERE refclassid = class AND refobjid = object AND deptype = 'n' OFFSET 0) AS d
         WHERE (classid, objid) NOT IN (SELECT class, object FROM dropped) AND NOT (classid = 'pg_constraint'::regclass
             AND EXISTS (SELECT FROM pg_constraint WHERE oid = objid AND conparentid <> 0)) LIMIT 1";
    let found = select_by_index(QUERY, &[class.into(), objects.to_vec().into()], |row| {
        Some(Error::DependsOnDropped { by: row.get(1)?, on: row.get(2)?, is_partition })
    });
    found.into_iter().next().map_or(Ok(()), Err)
}
