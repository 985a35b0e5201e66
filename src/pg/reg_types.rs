//! `regclass`, `regnamespace` and `regprocedure` as argument and result types of SQL functions.
//!
//! pgrx maps an OID to `oid` in SQL. These types keep the SQL type. A `regclass` constant makes the
//! function or default that contains it depend on the object, and is dumped by name, so it survives
//! dump and restore.

use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::datum::IntoDatum;
use pgrx::impl_sql_translatable;
use pgrx::pg_sys::{self, Oid};

macro_rules! oid_type {
    ($(#[doc = $doc:literal])* $name:ident, $sql:literal) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(pub Oid);

        impl_sql_translatable!($name, $sql);

        // SAFETY: the datum is the OID that the type wraps.
        unsafe impl<'fcx> ArgAbi<'fcx> for $name {
            unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
                // SAFETY: promised by the caller.
                $name(unsafe { Oid::unbox_arg_unchecked(arg) })
            }
        }

        // SAFETY: the datum is the OID that the type wraps.
        unsafe impl BoxRet for $name {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
                // SAFETY: promised by the caller.
                unsafe { self.0.box_into(fcinfo) }
            }
        }

        impl IntoDatum for $name {
            fn into_datum(self) -> Option<pg_sys::Datum> {
                self.0.into_datum()
            }

            fn type_oid() -> Oid {
                // Of the same width; used only for columns of a result, which have a type of their
                // own.
                pg_sys::OIDOID
            }
        }
    };
}

oid_type!(
    /// A relation.
    Regclass, "regclass"
);
oid_type!(
    /// A schema.
    Regnamespace, "regnamespace"
);
oid_type!(
    /// A function.
    Regprocedure, "regprocedure"
);
