//! Objects that prevent others from being dropped.
//!
//! Any role with USAGE on a schema can create views that depend on its tables, sequences and
//! functions. `DROP` locks each of them before it fails, and each of their owners can hold a lock.
//! So this is looked up before the locks that others wait for. Once more under them shortens the
//! race: a view of a function, or of a type, takes no lock on it.

use crate::error::Error;
use crate::pg::spi::select_by_index;
use pgrx::pg_sys::Oid;

/// Raises an error if something else depends on one of these objects of a class, or on what is
/// dropped with them: columns, indexes, constraints, partitions and sequences, among others. The
/// references that a partition has from its table do not count: it is detached from them.
/// `can_detach`: whether that can be the way out.
pub fn check(class: Oid, objects: &[Oid], can_detach: bool) -> Result<(), Error> {
    const QUERY: &str = "WITH RECURSIVE dropped (class, object) AS (
             SELECT $1, unnest($2::oid[])
             UNION SELECT d.classid, d.objid FROM dropped CROSS JOIN LATERAL (
                 SELECT classid, objid FROM pg_depend WHERE refclassid = class AND refobjid = object AND deptype <> 'n' OFFSET 0) AS d
         ), needed (class, object, dependent) AS (
             SELECT class, object, pg_describe_object(coalesce(view.classid, d.classid), coalesce(view.objid, d.objid), objsubid)
             FROM dropped CROSS JOIN LATERAL (
                 SELECT classid, objid, objsubid FROM pg_depend WHERE refclassid = class AND refobjid = object AND deptype = 'n' OFFSET 0) AS d
             LEFT JOIN LATERAL (
                 SELECT 'pg_class'::regclass, ev_class FROM pg_rewrite
                 WHERE d.classid = 'pg_rewrite'::regclass AND oid = d.objid AND ev_type = '1') AS view (classid, objid) ON true
             WHERE (d.classid, d.objid) NOT IN (SELECT class, object FROM dropped) AND NOT (d.classid = 'pg_constraint'::regclass
                 AND EXISTS (SELECT FROM pg_constraint WHERE oid = d.objid AND conparentid <> 0))
         )
         SELECT dependent, pg_describe_object(class, object, 0) FROM needed WHERE dependent IS NOT NULL LIMIT 1";
    if objects.is_empty() {
        return Ok(());
    }
    let found = select_by_index(QUERY, &[class.into(), objects.to_vec().into()], |row| {
        Some(Error::DependsOnDropped { by: row.get(1)?, on: row.get(2)?, can_detach })
    });
    found.into_iter().next().map_or(Ok(()), Err)
}
