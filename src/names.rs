//! Names and times as error messages and generated SQL show them, quoted where SQL would need it.

use crate::epoch::TimestampUs;
use pgrx::pg_sys::{self, Oid};
use std::ffi::{CStr, c_char};

/// `schema.name` of a relation, or its OID where it is gone.
pub fn relation(relid: Oid) -> String {
    // SAFETY: both look-ups return a null pointer or a palloc'd C string.
    let names = unsafe {
        string(pg_sys::get_namespace_name(pg_sys::get_rel_namespace(relid)))
            .zip(string(pg_sys::get_rel_name(relid)))
    };
    match names {
        Some((schema, name)) => pgrx::spi::quote_qualified_identifier(schema, name),
        None => relid.to_string(),
    }
}

/// The name of the role whose rights count now.
pub fn current_role() -> String {
    // SAFETY: with missing_ok the result is a null pointer or a palloc'd C string.
    let name = unsafe { string(pg_sys::GetUserNameFromId(pg_sys::GetUserId(), true)) };
    pgrx::spi::quote_identifier(name.unwrap_or_default())
}

/// The clock.
pub fn now() -> TimestampUs {
    // SAFETY: reads the clock, which raises no error and so needs no guard.
    unsafe { crate::sys::GetCurrentTimestamp() }
}

/// A time in the session's time zone.
pub fn time(at: TimestampUs) -> String {
    // SAFETY: returns a static buffer, copied at once; takes the infinities too.
    unsafe { string(pg_sys::timestamptz_to_str(at)) }.unwrap_or_default()
}

/// # Safety
///
/// A null pointer or a C string.
unsafe fn string(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
