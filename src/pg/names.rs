//! Names and times for error messages and generated SQL, quoted as SQL needs.

use crate::pg::text;
use instagram_id_core::epoch::{Epoch, TimestampUs, US_PER_MS};
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::{self, Oid};
use pgrx::spi::quote_identifier;
use std::ffi::{CStr, CString, c_char, c_int};

/// `schema.name` of a relation, or its OID if it was dropped.
pub fn relation(relid: Oid) -> String {
    // SAFETY: both lookups return a null pointer or a palloc'd C string.
    let names = unsafe {
        string(pg_sys::get_namespace_name(pg_sys::get_rel_namespace(relid)))
            .zip(string(pg_sys::get_rel_name(relid)))
    };
    match names {
        Some((schema, name)) => pgrx::spi::quote_qualified_identifier(schema, name),
        None => relid.to_string(),
    }
}

/// The name of a relation, unquoted; empty if it was dropped.
pub fn raw_relation(relid: Oid) -> String {
    // SAFETY: returns a null pointer or a palloc'd C string.
    unsafe { string(pg_sys::get_rel_name(relid)) }.unwrap_or_default()
}

/// The name of a relation followed by a label, unquoted. The name is truncated if the result would
/// be too long.
pub fn with_label(relid: Oid, label: &str) -> String {
    let label = CString::new(label).expect("a label without NUL");
    // SAFETY: the lookup returns a null pointer or a palloc'd C string. makeObjectName returns
    // another.
    unsafe {
        let name = pg_sys::get_rel_name(relid);
        if name.is_null() {
            return relid.to_string();
        }
        string(pg_sys::makeObjectName(name, std::ptr::null(), label.as_ptr())).unwrap_or_default()
    }
}

/// A name truncated to PostgreSQL's maximum length, less the length of what follows.
pub fn cut_off(name: &str, following: usize) -> &str {
    &name[..name.floor_char_boundary(pg_sys::NAMEDATALEN as usize - 1 - following)]
}

/// The name of a schema, or its OID if it was dropped.
pub fn schema(schema: Oid) -> String {
    pgrx::spi::quote_identifier(raw_schema(schema))
}

/// The same, unquoted.
pub fn raw_schema(schema: Oid) -> String {
    // SAFETY: returns a null pointer or a palloc'd C string.
    unsafe { string(pg_sys::get_namespace_name(schema)) }.unwrap_or_else(|| schema.to_string())
}

/// The name of an access method, unquoted.
pub fn access_method(oid: Oid) -> Option<String> {
    // SAFETY: returns a null pointer or a palloc'd C string.
    unsafe { string(pg_sys::get_am_name(oid)) }
}

/// The name of a tablespace, unquoted.
pub fn tablespace(oid: Oid) -> Option<String> {
    // SAFETY: returns a null pointer or a palloc'd C string.
    unsafe { string(pg_sys::get_tablespace_name(oid)) }
}

/// `schema.name(types)` of a function.
pub fn function(function: Oid) -> String {
    // SAFETY: returns a palloc'd C string, which is a number if the function was dropped.
    unsafe { string(pg_sys::format_procedure_qualified(function)) }.unwrap_or_default()
}

/// The name of a function that need not exist.
pub fn function_in(schema_oid: Oid, name: &str, parameters: &str) -> String {
    format!("{}.{}({parameters})", schema(schema_oid), quote_identifier(name))
}

/// The name of the role whose privileges are in effect.
pub fn current_role() -> String {
    role(crate::pg::catalog::current_role())
}

/// The name of a role, or its OID if it was dropped.
pub fn role(role: Oid) -> String {
    role_name(role).map_or_else(|| role.to_string(), pgrx::spi::quote_identifier)
}

/// The name of a role, not quoted; empty if it was dropped.
pub fn raw_role(role: Oid) -> String {
    role_name(role).unwrap_or_default()
}

fn role_name(role: Oid) -> Option<String> {
    // SAFETY: with missing_ok the result is a null pointer or a palloc'd C string.
    unsafe { string(pg_sys::GetUserNameFromId(role, true)) }
}

/// The current time.
pub fn now() -> TimestampUs {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// Milliseconds from the epoch to now.
pub fn now_ms(epoch: Epoch) -> i64 {
    epoch.elapsed_us(now()).div_euclid(US_PER_MS)
}

/// A duration for a message, in its two largest units.
pub fn duration(seconds: i64) -> String {
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, min, s) => format!("{min} min {s} s"),
        (0, h, min, _) => format!("{h} h {min} min"),
        (days, h, ..) => format!("{days} days {h} h"),
    }
}

/// A finite time, as an argument or a column of a result.
pub fn timestamp(at: TimestampUs) -> TimestampWithTimeZone {
    at.try_into().unwrap_or_else(|_| unreachable!("it came from a timestamptz"))
}

/// A time in the session's time zone.
pub fn time(at: TimestampUs) -> String {
    // SAFETY: returns a static buffer, which is copied at once. Infinities are allowed.
    unsafe { string(pg_sys::timestamptz_to_str(at)) }.unwrap_or_default()
}

/// A time in UTC, for statements. In the session's time zone PostgreSQL shows some times with an
/// offset that it does not read.
pub fn time_in_utc(at: TimestampUs) -> String {
    let (mut fields, mut fraction) = (pg_sys::pg_tm::default(), 0);
    let mut text = [0; pg_sys::MAXDATELEN as usize + 1];
    // SAFETY: without a time zone the fields are those of UTC. The text is long enough for any
    // time, and ends with a zero byte.
    unsafe {
        let none = std::ptr::null_mut();
        let (zone, zone_name) = (std::ptr::null_mut(), std::ptr::null_mut());
        pg_sys::timestamp2tm(at, zone, &mut fields, &mut fraction, zone_name, none);
        fields.tm_isdst = 0; // otherwise no offset is shown
        let (name, style) = (std::ptr::null(), pg_sys::USE_ISO_DATES as c_int);
        pg_sys::EncodeDateTime(&mut fields, fraction, true, 0, name, style, text.as_mut_ptr());
        string(text.as_ptr()).unwrap_or_default()
    }
}

/// # Safety
///
/// `text` must be a null pointer or a C string.
unsafe fn string(text: *const c_char) -> Option<String> {
    // SAFETY: promised by the caller.
    (!text.is_null()).then(|| owned(unsafe { CStr::from_ptr(text) }))
}

/// A string from the server.
pub fn owned(text: &CStr) -> String {
    text::utf8(text.to_bytes()).to_owned()
}

/// Statements as a comment, which a session does not run by mistake. A name can contain a line
/// break.
pub fn commented(statements: &str) -> String {
    format!("-- {};", statements.replace('\n', "\n-- ").replace('\r', "\r-- "))
}
