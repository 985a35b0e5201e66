//! Names and times as error messages and generated SQL show them, quoted where SQL would need it.

use crate::epoch::TimestampUs;
use crate::error::{Error, or_raise};
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::{self, Oid};
use std::ffi::{CStr, CString, c_char};

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

/// The name of a relation with a label after it, without quotes; the name is cut off where that is too long.
pub fn with_label(relid: Oid, label: &str) -> String {
    let label = CString::new(label).expect("a label without NUL");
    // SAFETY: the look-up returns a null pointer or a palloc'd C string, which is then put together with the label to
    // another.
    unsafe {
        let name = pg_sys::get_rel_name(relid);
        if name.is_null() {
            return relid.to_string();
        }
        string(pg_sys::makeObjectName(name, std::ptr::null(), label.as_ptr())).unwrap_or_default()
    }
}

/// A name cut off to the length that names have.
pub fn cut_off(name: &str) -> &str {
    &name[..name.floor_char_boundary(pg_sys::NAMEDATALEN as usize - 1)]
}

/// The name of a schema, or its OID where it is gone.
pub fn schema(schema: Oid) -> String {
    pgrx::spi::quote_identifier(raw_schema(schema))
}

/// The same without quotes.
pub fn raw_schema(schema: Oid) -> String {
    // SAFETY: returns a null pointer or a palloc'd C string.
    unsafe { string(pg_sys::get_namespace_name(schema)) }.unwrap_or_else(|| schema.to_string())
}

/// The name of an access method, without quotes.
pub fn access_method(oid: Oid) -> Option<String> {
    // SAFETY: returns a null pointer or a palloc'd C string.
    unsafe { string(pg_sys::get_am_name(oid)) }
}

/// The name of a tablespace, without quotes.
pub fn tablespace(oid: Oid) -> Option<String> {
    // SAFETY: returns a null pointer or a palloc'd C string.
    unsafe { string(pg_sys::get_tablespace_name(oid)) }
}

/// `schema.name(types)` of a function.
pub fn function(function: Oid) -> String {
    // SAFETY: returns a palloc'd C string, of a number where the function is gone.
    unsafe { string(pg_sys::format_procedure_qualified(function)) }.unwrap_or_default()
}

/// The name of the role whose rights count now.
pub fn current_role() -> String {
    role(crate::catalog::current_role())
}

/// The name of a role.
pub fn role(role: Oid) -> String {
    // SAFETY: with missing_ok the result is a null pointer or a palloc'd C string.
    let name = unsafe { string(pg_sys::GetUserNameFromId(role, true)) };
    pgrx::spi::quote_identifier(name.unwrap_or_default())
}

/// The clock.
pub fn now() -> TimestampUs {
    // SAFETY: reads the clock, which raises no error and so needs no guard.
    unsafe { crate::sys::GetCurrentTimestamp() }
}

/// A stretch of time for a message: its two largest units.
pub fn duration(seconds: i64) -> String {
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, min, s) => format!("{min} min {s} s"),
        (0, h, min, _) => format!("{h} h {min} min"),
        (days, h, ..) => format!("{days} days {h} h"),
    }
}

/// What a warning says of a shard or a sequence whose ids are of a time to come.
pub fn ahead_of_clock(what: &str, seconds: i64) -> String {
    let ahead = duration(seconds);
    format!("{what} is {ahead} ahead of the clock: its ids are of a time to come until that catches up")
}

/// A finite time, as an argument or a column of a result.
pub fn timestamp(at: TimestampUs) -> TimestampWithTimeZone {
    at.try_into().unwrap_or_else(|_| unreachable!("it came from a timestamptz"))
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
    (!text.is_null()).then(|| owned(unsafe { CStr::from_ptr(text) }))
}

/// A text of the server's. In a database of another encoding than UTF-8 a name may be none of Rust's; it is not replaced by
/// one that resembles it, which may be another object's.
pub fn owned(text: &CStr) -> String {
    match text.to_str() {
        Ok(text) => text.to_owned(),
        Err(_) => or_raise(|| Err(Error::NotUtf8(text.to_string_lossy().into_owned()))),
    }
}
