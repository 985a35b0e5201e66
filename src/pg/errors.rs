//! Errors of PostgreSQL that leave a SQL function as they were raised.
//!
//! pgrx turns an error of PostgreSQL into a Rust panic, so that destructors run. At the entry of
//! the SQL function it raises a new error, which has only the message, DETAIL, HINT and, if pgrx
//! knows it, the SQLSTATE. It lacks the names of the schema, table and constraint, the statement
//! that failed and the CONTEXT within it.
//!
//! [`keep`] therefore copies an error when it is raised, in an error context callback. If the error
//! then leaves `keep` as a panic, another callback raises the copy in place of pgrx's error. The
//! callbacks of the callers, which come after it, add their part of the CONTEXT to the copy.
//!
//! pgrx copies the texts of an error into Rust, where a failed allocation ends the server process,
//! and with it all sessions. A function of any role can raise an error with a text of 1 GB. So the
//! copy has shortened texts, and if one was too long, the copy is raised at once in place of the
//! error, before pgrx sees that.

use crate::pg::cancel;
use crate::pg::raw::{Raw, called_by_postgresql};
use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::pg_sys::{self, ErrorContextCallback, ErrorData, MemoryContext};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

/// The longest text of an error that is copied, in bytes.
const TEXT_MAX: usize = 1 << 14;

const OUT_OF_MEMORY: c_int = PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int;

/// The end of a text that was longer.
const DOTS: &CStr = c"...";

/// A copy of an error, in a memory context of its own; NULL if there is none.
#[derive(Clone, Copy)]
struct Copied {
    memory: MemoryContext,
    error: *mut ErrorData,
}

impl Copied {
    const NONE: Copied = Copied { memory: ptr::null_mut(), error: ptr::null_mut() };

    /// Copies the error that is being raised, in an error context callback. There is none for a
    /// message of a lower level, and no memory for a copy of "out of memory".
    unsafe fn of_current_error(raw: Raw) -> Copied {
        // SAFETY: in an error context callback there is an error. It is copied into a context that
        // lives as long as the backend, unless it is freed.
        unsafe {
            UNFINISHED.replace(Copied::NONE).free(raw);
            if raw.geterrcode() == OUT_OF_MEMORY {
                return Copied::NONE;
            }
            let memory = raw.AllocSetContextCreateInternal(
                pg_sys::TopMemoryContext,
                c"instagram_id error".as_ptr(),
                0,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
            );
            UNFINISHED.set(Copied { memory, error: ptr::null_mut() });
            let outer = ptr::replace(&raw mut pg_sys::CurrentMemoryContext, memory);
            let error = raw.CopyErrorData();
            pg_sys::CurrentMemoryContext = outer;
            UNFINISHED.set(Copied::NONE);
            let copied = Copied { memory, error };
            if (*error).elevel >= PgLogLevel::ERROR as c_int {
                return copied;
            }
            copied.free(raw);
            Copied::NONE
        }
    }

    /// Shortens the texts that pgrx copies. Returns whether one was too long.
    unsafe fn shorten(self, raw: Raw) -> bool {
        // SAFETY: each text is NULL or a C string in the memory of the copy. The end is that of a
        // character before the limit, so that the dots have room.
        unsafe {
            let mut has_changed = false;
            let error = &mut *self.error;
            for text in [&mut error.message, &mut error.detail, &mut error.hint] {
                if text.is_null() || CStr::from_ptr(*text).count_bytes() <= TEXT_MAX {
                    continue;
                }
                let len = raw.pg_mbcliplen(
                    *text,
                    TEXT_MAX as c_int,
                    TEXT_MAX as c_int - DOTS.count_bytes() as c_int,
                );
                let end = text.add(len as usize);
                ptr::copy_nonoverlapping(DOTS.as_ptr(), end, DOTS.to_bytes_with_nul().len());
                let short = raw.MemoryContextStrdup(self.memory, *text);
                let long = std::mem::replace(text, short);
                raw.pfree(long.cast());
                has_changed = true;
            }
            has_changed
        }
    }

    unsafe fn is_cancel(self) -> bool {
        // SAFETY: the name of a function of PostgreSQL, or NULL.
        unsafe {
            let error = &*self.error;
            let function = (!error.funcname.is_null()).then(|| CStr::from_ptr(error.funcname));
            let state = PgSqlErrorCode::from(error.sqlerrcode as isize);
            cancel::is_cancel(state, function.and_then(|name| name.to_str().ok()))
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
    /// The last copy, if there was no memory for it.
    static UNFINISHED: Cell<Copied> = const { Cell::new(Copied::NONE) };
    /// The error that is on its way to the entry of the SQL function, or was the last one.
    static LEAVING: Cell<Copied> = const { Cell::new(Copied::NONE) };
    /// The callback that raises it.
    static RAISE: Cell<ErrorContextCallback> = const {
        Cell::new(ErrorContextCallback { previous: ptr::null_mut(), callback: Some(raise), arg: ptr::null_mut() })
    };
}

/// The state that the callback of a call of [`keep`] needs.
struct Observed {
    copied: Cell<Copied>,
    /// The callbacks of the callers.
    outer: *mut ErrorContextCallback,
}

/// Runs `f`, which runs statements or expressions of other roles. If an error of PostgreSQL leaves
/// it, the error leaves the SQL function unchanged.
pub fn keep<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: the callback is on PostgreSQL's stack of callbacks only while this function runs, and
    // is not moved. The guards of pgrx restore that stack.
    unsafe {
        set_leaving(Copied::NONE);
        let outer = pg_sys::error_context_stack;
        let observed = Observed { copied: Cell::new(Copied::NONE), outer };
        let observe = ErrorContextCallback {
            previous: outer,
            callback: Some(observe),
            arg: (&raw const observed).cast_mut().cast(),
        };
        pg_sys::error_context_stack = (&raw const observe).cast_mut();
        let result = catch_unwind(AssertUnwindSafe(f));
        pg_sys::error_context_stack = outer;
        let copied = observed.copied;
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

/// Copies an error when it is raised within [`keep`]. If one of its texts is too long, raises the
/// copy in its place.
unsafe extern "C-unwind" fn observe(observed: *mut c_void) {
    // SAFETY: called by PostgreSQL, with the argument that `keep` has set. Nothing here has a
    // destructor, or panics. The callbacks that were called before this one have added their parts
    // to the copy.
    unsafe {
        called_by_postgresql(|raw| {
            let Observed { copied, outer } = &*observed.cast::<Observed>();
            let error = Copied::of_current_error(raw);
            if error.memory.is_null() {
                if is_long_and_out_of_memory(raw) {
                    pg_sys::error_context_stack = *outer;
                    let mut short: ErrorData = std::mem::zeroed();
                    short.elevel = PgLogLevel::ERROR as c_int;
                    short.sqlerrcode = OUT_OF_MEMORY;
                    short.message = c"out of memory".as_ptr().cast_mut();
                    raw.ThrowErrorData(&mut short);
                }
                return;
            }
            copied.replace(error).free(raw);
            if error.is_cancel() {
                cancel::note();
            }
            if error.shorten(raw) {
                pg_sys::error_context_stack = *outer;
                raw.ThrowErrorData(error.error);
            }
        });
    }
}

/// Whether the current error is "out of memory", so that it is not copied, and has long texts all
/// the same. A function can raise that error, too.
unsafe fn is_long_and_out_of_memory(raw: Raw) -> bool {
    // SAFETY: in an error context callback there is an error, whose texts are in this memory
    // context.
    unsafe {
        raw.geterrcode() == OUT_OF_MEMORY
            && raw.MemoryContextMemAllocated(pg_sys::ErrorContext, true) > 4 * TEXT_MAX
    }
}

/// Raises the copy of an error in place of the error that pgrx has made of it.
unsafe extern "C-unwind" fn raise(_: *mut c_void) {
    // SAFETY: called by PostgreSQL, as above. Until the panic has become an error again, only
    // messages of a lower level are raised.
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

/// Leaves backtraces out of errors. With RUST_BACKTRACE in the server's environment, pgrx's hook
/// takes one for each panic and adds it to the DETAIL. Here most panics are errors of SQL; only for
/// the others a backtrace tells something.
pub fn register_panic_hook() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        if !payload.is::<CaughtError>() && !payload.is::<ErrorReportWithLevel>() {
            hook(info);
        }
    }));
}
