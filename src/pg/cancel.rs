//! Cancels of the query, and whose they are.
//!
//! PostgreSQL has one variable for all cancels. Code that an operation calls can catch the error
//! that results from one, or raise a similar error.

use crate::pg::raw::guarded;
use crate::pg::sys::STATEMENT_TIMEOUT;
use pgrx::{PgSqlErrorCode, pg_sys};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

// A handler of a signal also uses these variables.

/// Whether this module has asked for the last cancel that is known here.
static IS_OWN: AtomicBool = AtomicBool::new(false);
/// Whether PostgreSQL has raised one for which others have asked.
static WAS_SEEN: AtomicBool = AtomicBool::new(false);
static HAS_STATEMENT_TIMEOUT: AtomicBool = AtomicBool::new(false);

/// Whether an error with this SQLSTATE, from this function of PostgreSQL, is a cancel of the query.
/// No code of a role, and no other server, can raise one from there.
pub fn is_cancel(state: PgSqlErrorCode, function: Option<&str>) -> bool {
    state == PgSqlErrorCode::ERRCODE_QUERY_CANCELED && function == Some("ProcessInterrupts")
}

/// Notes all cancels from now on.
pub fn observe() {
    IS_OWN.store(false, Relaxed);
    WAS_SEEN.store(false, Relaxed);
    HAS_STATEMENT_TIMEOUT.store(is_statement_timeout_active(), Relaxed);
}

/// PostgreSQL raises a cancel.
pub fn note() {
    WAS_SEEN.fetch_or(!IS_OWN.load(Relaxed), Relaxed);
}

/// Cancels the query at its next check for interrupts, unless it is canceled already.
pub fn request() {
    // SAFETY: variables that PostgreSQL sets in the handlers of its signals.
    unsafe {
        if pg_sys::QueryCancelPending == 0 {
            IS_OWN.store(true, Relaxed);
            pg_sys::QueryCancelPending = 1;
            pg_sys::InterruptPending = 1;
        }
    }
}

/// Takes back the last [`request`], if there was one. A cancel of the user stays, as far as it can
/// be distinguished.
pub fn withdraw() {
    // SAFETY: a variable of the backend. For `statement_timeout`, see PostgreSQL's
    // ProcessInterrupts().
    unsafe {
        if was_requested() && !guarded(|raw| raw.get_timeout_indicator(STATEMENT_TIMEOUT, false)) {
            pg_sys::QueryCancelPending = 0;
        }
    }
}

/// After a [`request`] that has had its effect: the next cancel is one of others.
pub fn forget() {
    IS_OWN.store(false, Relaxed);
}

/// Whether [`request`] has canceled the query.
pub fn was_requested() -> bool {
    IS_OWN.load(Relaxed)
}

/// Whether PostgreSQL has raised a cancel for which the user or `statement_timeout` has asked.
pub fn was_seen() -> bool {
    WAS_SEEN.load(Relaxed)
}

/// The same, or `statement_timeout` has ended.
pub fn is_of_others() -> bool {
    was_seen() || HAS_STATEMENT_TIMEOUT.load(Relaxed) && !is_statement_timeout_active()
}

/// Whether the timer of `statement_timeout` runs. It stops when it cancels the statement.
fn is_statement_timeout_active() -> bool {
    // SAFETY: reads the table of timers.
    unsafe { guarded(|raw| raw.get_timeout_active(STATEMENT_TIMEOUT)) }
}
