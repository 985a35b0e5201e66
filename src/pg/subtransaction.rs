//! Subtransactions, in which an error is caught.

use crate::error::{self, Error};
use crate::pg::cancel;
use crate::pg::errors;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys;
use pgrx::pg_sys::PgTryBuilder;
use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe};

/// Runs `f` in a subtransaction, and keeps it if `f` returns true. If `f` returns false, or fails
/// because of another session, the subtransaction and its locks are rolled back. Any other error is
/// raised again after the rollback.
pub fn in_subtransaction(f: impl FnOnce() -> bool) -> bool {
    subtransaction(f, |keep| *keep, is_passing).unwrap_or(false)
}

/// Runs `f` in a subtransaction, and keeps it if `keeps` is true for the result. Errors are raised
/// again after the rollback.
pub fn kept_if<T>(keeps: impl FnOnce(&T) -> bool, f: impl FnOnce() -> T) -> T {
    subtransaction(f, keeps, |_| false).unwrap_or_else(|_| unreachable!("no error is caught"))
}

/// Whether the statement has failed because of what another session is doing: with a lock timeout,
/// a deadlock, or because that session has written the same row of a catalog, as a GRANT does.
fn is_passing(error: &ErrorReportWithLevel) -> bool {
    match error.sql_error_code() {
        PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE
        | PgSqlErrorCode::ERRCODE_T_R_DEADLOCK_DETECTED => true,
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR => {
            // PostgreSQL does not translate these messages.
            ["tuple concurrently updated", "tuple concurrently deleted"].contains(&error.message())
        }
        _ => false,
    }
}

/// Runs `f` in a subtransaction. If it raises an error, the subtransaction is rolled back, and the
/// error is returned. A cancel and a timeout of the statement are raised again.
pub fn catching_errors<T>(f: impl FnOnce() -> T) -> Result<T, ErrorReportWithLevel> {
    subtransaction(f, |_| true, |error| !is_cancel(error))
}

/// The same, and what `f` has done is also rolled back if it returns an error. Then returns the
/// reason in one line.
pub fn with_cause<T>(f: impl FnOnce() -> Result<T, Error>) -> Result<T, String> {
    match subtransaction(f, Result::is_ok, |error| !is_cancel(error)) {
        Ok(result) => result.map_err(|error| error.in_one_line()),
        Err(report) => Err(error::report_in_one_line(&report)),
    }
}

fn is_cancel(error: &ErrorReportWithLevel) -> bool {
    cancel::is_cancel(error.sql_error_code(), error.function_name())
}

/// The same for the errors with these SQLSTATEs. All others are raised again.
pub fn catching<T>(
    is_caught: impl Fn(PgSqlErrorCode) -> bool + UnwindSafe + RefUnwindSafe,
    f: impl FnOnce() -> T,
) -> Result<T, ErrorReportWithLevel> {
    subtransaction(f, |_| true, |error| is_caught(error.sql_error_code()))
}

/// The same, and the subtransaction is always rolled back.
pub fn catching_undone<T>(
    is_caught: impl Fn(PgSqlErrorCode) -> bool + UnwindSafe + RefUnwindSafe,
    f: impl FnOnce() -> T,
) -> Result<T, ErrorReportWithLevel> {
    subtransaction(f, |_| false, |error| is_caught(error.sql_error_code()))
}

/// Runs `f` in a subtransaction, which is rolled back after an error, and if `keeps` is false for
/// the result. These errors are returned, all others are raised again.
fn subtransaction<T>(
    f: impl FnOnce() -> T,
    keeps: impl FnOnce(&T) -> bool,
    is_caught: impl Fn(&ErrorReportWithLevel) -> bool + UnwindSafe + RefUnwindSafe,
) -> Result<T, ErrorReportWithLevel> {
    // SAFETY: as in PL/pgSQL for a block with an EXCEPTION clause. Both variables are restored on
    // every way out.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let end = |keep: bool| {
            if keep {
                pg_sys::ReleaseCurrentSubTransaction();
            } else {
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
            }
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
        };
        // A handler further out ends its own subtransaction, so ours must have ended before. After
        // an error the callers use nothing that `f` was changing.
        PgTryBuilder::new(AssertUnwindSafe(|| {
            let result = f();
            end(keeps(&result));
            Ok(result)
        }))
        .catch_others(|error| {
            end(false);
            match error {
                CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)
                    if is_caught(&report) =>
                {
                    errors::forget();
                    Err(report)
                }
                error => error.rethrow(),
            }
        })
        .catch_rust_panic(|error| {
            end(false);
            error.rethrow()
        })
        .execute()
    }
}
