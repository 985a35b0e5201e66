//! `regclass` and `regnamespace` as argument and result types of SQL functions.
//!
//! Under pgrx an object's OID is an `oid` in SQL. These two keep the type: a `regclass` constant is a dependency
//! of the function or default it stands in, is written out by name, and so survives dump and restore.

use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::impl_sql_translatable;
use pgrx::pg_sys::Oid;

/// A relation, as an argument.
#[derive(Clone, Copy, Debug)]
pub struct Regclass(pub Oid);

impl_sql_translatable!(Regclass, "regclass");

// SAFETY: a regclass datum is the OID that it wraps.
unsafe impl<'fcx> ArgAbi<'fcx> for Regclass {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the caller's promise, passed on.
        Regclass(unsafe { Oid::unbox_arg_unchecked(arg) })
    }
}

/// A schema, as a result.
#[derive(Clone, Copy, Debug)]
pub struct Regnamespace(pub Oid);

impl_sql_translatable!(Regnamespace, "regnamespace");

// SAFETY: a regnamespace datum is the OID that it wraps.
unsafe impl BoxRet for Regnamespace {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.box_into(fcinfo) }
    }
}
