//! The current role, and its privileges.

use crate::error::{Error, or_raise};
use crate::pg::catalog::{self, Relation};
use crate::pg::names;
use crate::pg::raw::{Raw, guarded};
use pgrx::pg_sys::{self, Oid};
use std::ffi::c_int;

/// Runs `f` as another role and with PostgreSQL's restrictions for maintenance commands, as for any
/// operation that may run code of a table's owner. Settings that this code changes end with `f`,
/// because the caller would run its next statements with them, say with another search_path. An
/// error also restores the role and the settings.
///
/// The caller must have checked that the current role may act as the other.
pub fn with_rights_of<T>(role: Oid, f: impl FnOnce() -> T) -> T {
    // SAFETY: sets variables of the backend. The end of a failed transaction or subtransaction
    // resets them.
    unsafe {
        let (mut outer, mut context) = (Oid::INVALID, 0);
        pg_sys::GetUserIdAndSecContext(&mut outer, &mut context);
        let restricted =
            (pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION) as c_int;
        pg_sys::SetUserIdAndSecContext(role, context | restricted);
        let nesting = pg_sys::NewGUCNestLevel();
        let result = f();
        pg_sys::AtEOXact_GUC(false, nesting);
        pg_sys::SetUserIdAndSecContext(outer, context);
        result
    }
}

/// The same for a role whose rights the current role has, and may have lost since that was checked:
/// the caller may have waited.
pub fn as_role<T>(role: Oid, f: impl FnOnce() -> T) -> T {
    or_raise(|| match catalog::has_rights_of(catalog::current_role(), role) {
        true => Ok(()),
        false => Err(Error::RightsRevoked(names::role(role))),
    });
    with_rights_of(role, f)
}

/// One of these suffices to lock a table against writers, as for LOCK TABLE.
const TO_LOCK: u32 = pg_sys::ACL_UPDATE | pg_sys::ACL_DELETE | pg_sys::ACL_TRUNCATE;
/// One of these suffices to generate ids from a sequence.
pub const TO_GENERATE: u32 = pg_sys::ACL_USAGE | pg_sys::ACL_UPDATE;
/// With this a role could set a sequence to any value.
pub const TO_SET: u32 = pg_sys::ACL_UPDATE;

impl Raw<'_> {
    /// Whether the role has one of these privileges on the relation.
    pub unsafe fn may(self, relid: Oid, role: Oid, privileges: u32) -> bool {
        let mode = privileges as pg_sys::AclMode;
        // SAFETY: a catalog lookup.
        unsafe { self.pg_class_aclcheck(relid, role, mode) == pg_sys::AclResult::ACLCHECK_OK }
    }
}

fn may(relation: Oid, role: Oid, privileges: u32) -> bool {
    // SAFETY: a catalog look-up that does not panic and owns nothing with a destructor.
    unsafe { guarded(|raw| raw.may(relation, role, privileges)) }
}

/// Whether the current role may lock a table against writers.
pub fn may_lock(table: Oid) -> bool {
    may(table, catalog::current_role(), TO_LOCK)
}

/// Whether a role may generate ids from a sequence.
pub fn may_generate(sequence: Oid, role: Oid) -> bool {
    may(sequence, role, TO_GENERATE)
}

/// Whether a role may set a sequence.
pub fn may_set(sequence: Oid, role: Oid) -> bool {
    may(sequence, role, TO_SET)
}

/// Checks that the current role may set a sequence.
pub fn check_may_set(sequence: Oid) -> Result<(), Error> {
    if may_set(sequence, catalog::current_role()) {
        return Ok(());
    }
    let name = names::relation(sequence);
    Err(Error::NoRightOnSequence { name, role: names::current_role(), update: true })
}

/// Checks that the role has USAGE on the schema.
pub fn check_may_use_schema(schema: Oid, role: Oid) -> Result<(), Error> {
    if catalog::may_use_schema(schema, role) {
        return Ok(());
    }
    Err(Error::NoRightOnSchema { name: names::schema(schema), role: names::role(role) })
}

/// Checks that the role has USAGE and CREATE on the schema.
pub fn check_may_create_in(schema: Oid, role: Oid) -> Result<(), Error> {
    if catalog::may_create_in(schema, role) {
        return check_may_use_schema(schema, role);
    }
    Err(Error::NoCreateOnSchema { name: names::schema(schema), role: names::role(role) })
}

/// Checks that the current role may change a function of this owner.
pub fn check_owns_function(function: Oid, owner: Oid) -> Result<(), Error> {
    match catalog::has_rights_of(catalog::current_role(), owner) {
        true => Ok(()),
        false => Err(Error::NotOwner(names::function(function))),
    }
}

/// The table, which the current role may change as its owner may.
pub fn own_table(table: Oid) -> Result<Relation, Error> {
    let relation = catalog::relation(table).ok_or(Error::TableMissing(table))?;
    if catalog::has_rights_of(catalog::current_role(), relation.owner) {
        return Ok(relation);
    }
    Err(Error::NotTableOwner(names::relation(table)))
}
