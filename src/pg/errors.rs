//! Errors of PostgreSQL that leave a SQL function as they were raised.
//!
//! pgrx turns an error of PostgreSQL into a Rust panic, so that destructors run. At the entry of the SQL function it
//! raises a new error, which has only the message, DETAIL, HINT and, if pgrx knows it, the SQLSTATE. It lacks the names
//! of the schema, table and constraint, the statement that failed and the CONTEXT within it.
//!
//! [`keep`] therefore copies an error when it is raised, in an error context callback. If the error then leaves `keep`
//! as a panic, another callback raises the copy in place of pgrx's error. The callbacks of the callers, which come after
//! it, add their part of the CONTEXT to the copy.

use crate::pg::raw::{Raw, called_by_postgresql};
use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::pg_sys::{self, ErrorContextCallback, ErrorData, MemoryContext};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

/// A copy of an error, in a memory context of its own; NULL if there is none.
#[derive(Clone, Copy)]
struct Copied {
    memory: MemoryContext,
    error: *mut ErrorData,
}

impl Copied {
    const NONE: Copied = Copied { memory: ptr::null_mut(), error: ptr::null_mut() };

    /// Copies the error that is being raised, in an error context callback. There is none for a message of a lower level,
    /// and no memory for a copy of "out of memory".
    unsafe fn of_current_error(raw: Raw) -> Copied {
        // SAFETY: in an error context callback there is an error. It is copied into a context that lives as long as the
        // backend, unless it is freed.
        unsafe {
            if raw.geterrcode() == PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int {
                return Copied::NONE;
            }
            let memory = raw.AllocSetContextCreateInternal(
                pg_sys::TopMemoryContext,
                c"instagram_id error".as_ptr(),
                0,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
            );
            let outer = ptr::replace(&raw mut pg_sys::CurrentMemoryContext, memory);
            let error = raw.CopyErrorData();
            pg_sys::CurrentMemoryContext = outer;
            let copied = Copied { memory, error };
            if (*error).elevel >= PgLogLevel::ERROR as c_int {
                return copied;
            }
            copied.free(raw);
            Copied::NONE
        }
    }

    unsafe fn free(self, raw: Raw) {
        if !self.memory.is_null() {
            // SAFETY: nothing else refers to it.
            unsafe { raw.MemoryContextDelete(self.memory) }
        }
    }

    /// Whether this is the error with that message.
    fn has_message(self, message: &str) -> bool {
        // SAFETY: NULL, or an error, whose message is NULL or a C string.
        unsafe {
            let text = self.error.as_ref().map_or(ptr::null_mut(), |error| error.message);
            !text.is_null() && CStr::from_ptr(text).to_string_lossy() == message
        }
    }
}

thread_local! {
    /// The error that is on its way to the entry of the SQL function, or was the last one.
    static LEAVING: Cell<Copied> = const { Cell::new(Copied::NONE) };
    /// The callback that raises it.
    static RAISE: Cell<ErrorContextCallback> = const {
        Cell::new(ErrorContextCallback { previous: ptr::null_mut(), callback: Some(raise), arg: ptr::null_mut() })
    };
}

/// Runs `f`, which runs a statement. If an error of PostgreSQL leaves it, the error leaves the SQL function unchanged.
pub fn keep<T>(f: impl FnOnce() -> T) -> T {
    let copied = Cell::new(Copied::NONE);
    // SAFETY: the callback is on PostgreSQL's stack of callbacks only while this function runs, and is not moved. The
    // guards of pgrx restore that stack.
    unsafe {
        set_leaving(Copied::NONE);
        let observe = ErrorContextCallback {
            previous: pg_sys::error_context_stack,
            callback: Some(observe),
            arg: (&raw const copied).cast_mut().cast(),
        };
        pg_sys::error_context_stack = (&raw const observe).cast_mut();
        let result = catch_unwind(AssertUnwindSafe(f));
        pg_sys::error_context_stack = observe.previous;
        // An error that was copied may have been caught by the statement itself.
        let is_copied = |payload: &CaughtError| match payload {
            CaughtError::PostgresError(report) => copied.get().has_message(report.message()),
            _ => false,
        };
        match result {
            Err(payload) if payload.downcast_ref().is_some_and(is_copied) => {
                set_leaving(copied.get());
                let mut callback = RAISE.get();
                callback.previous = pg_sys::error_context_stack;
                RAISE.set(callback);
                pg_sys::error_context_stack = RAISE.with(Cell::as_ptr);
                resume_unwind(payload)
            }
            result => {
                called_by_postgresql(|raw| copied.get().free(raw));
                result.unwrap_or_else(|payload| resume_unwind(payload))
            }
        }
    }
}

/// Forgets an error that has left [`keep`] and was caught.
pub fn forget() {
    // SAFETY: removes only the callback that `keep` has put there.
    unsafe {
        if pg_sys::error_context_stack == RAISE.with(Cell::as_ptr) {
            pg_sys::error_context_stack = RAISE.get().previous;
        }
    }
}

unsafe fn set_leaving(copied: Copied) {
    // SAFETY: the former one was raised, or caught. Deleting a memory context raises no error.
    unsafe { called_by_postgresql(|raw| LEAVING.replace(copied).free(raw)) }
}

/// Copies an error when it is raised within [`keep`].
unsafe extern "C-unwind" fn observe(copied: *mut c_void) {
    // SAFETY: called by PostgreSQL, with the argument that `keep` has set. Nothing here has a destructor, or panics.
    unsafe {
        called_by_postgresql(|raw| {
            let error = Copied::of_current_error(raw);
            if !error.memory.is_null() {
                (*copied.cast::<Cell<Copied>>()).replace(error).free(raw);
            }
        });
    }
}

/// Raises the copy of an error in place of the error that pgrx has made of it.
unsafe extern "C-unwind" fn raise(_: *mut c_void) {
    // SAFETY: called by PostgreSQL, as above. Until the panic has become an error again, only messages of a lower level
    // are raised.
    unsafe {
        called_by_postgresql(|raw| {
            let current = Copied::of_current_error(raw);
            if !current.memory.is_null() {
                current.free(raw);
                pg_sys::error_context_stack = RAISE.get().previous;
                raw.ThrowErrorData(LEAVING.get().error);
            }
        });
    }
}

/// Leaves backtraces out of errors. With RUST_BACKTRACE in the server's environment, pgrx's hook takes one for each panic
/// and adds it to the DETAIL. Here most panics are errors of SQL; only for the others a backtrace tells something.
pub fn register_panic_hook() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        if !payload.is::<CaughtError>() && !payload.is::<ErrorReportWithLevel>() {
            hook(info);
        }
    }));
}
