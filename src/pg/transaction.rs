//! Tracks how durable the WAL is that the ids of a transaction depend on.
//!
//! A record that a transaction writes becomes as durable as its commit requires. A transaction that only uses values
//! which another one has logged writes nothing itself, so its commit would not wait for that record. This file tracks
//! which records are durable at which level, and does the rest before the commit.

use crate::pg::sys::{self, CommitLevel};
use pgrx::pg_sys::{self, XLogRecPtr};
use std::cell::Cell;
use std::ffi::{CString, c_void};

/// A WAL record that this backend has made durable, or that the commit of its current transaction will make durable, at
/// this level.
#[derive(Clone, Copy)]
pub struct DurableRecord {
    lsn: XLogRecPtr,
    level: CommitLevel,
    /// The value of [`UNKEPT`] at that time. If it has grown since, the record may be less durable.
    unkept: u64,
}

thread_local! {
    /// The highest level at which the commit of this transaction is expected to make a record durable.
    static EXPECTED: Cell<CommitLevel> = const { Cell::new(CommitLevel::OFF) };
    /// The number of transactions that have not done so: rolled back, or committed at a lower level.
    static UNKEPT: Cell<u64> = const { Cell::new(0) };
    /// The WAL positions that values of this transaction depend on, by the level at which each is durable. A commit at
    /// a higher level must first make them durable at that level.
    static DEPENDS_ON: Cell<[XLogRecPtr; CommitLevel::COUNT]> = const { Cell::new([0; CommitLevel::COUNT]) };
}

impl DurableRecord {
    /// A record that will be durable when the current transaction has committed, at this level.
    pub fn when_committed(lsn: XLogRecPtr, level: CommitLevel) -> DurableRecord {
        EXPECTED.set(EXPECTED.get().max(level));
        DurableRecord { lsn, level, unkept: UNKEPT.get() }
    }

    /// Whether this is the record at `lsn`, and as durable as a commit at this level would make it.
    pub fn covers(self, lsn: XLogRecPtr, level: CommitLevel) -> bool {
        self.lsn == lsn && self.level >= level && self.unkept == UNKEPT.get()
    }
}

/// Records that values of this transaction depend on the WAL up to `lsn`, which is durable at the level of `flushed`.
pub fn depend_on(flushed: Option<DurableRecord>, lsn: XLogRecPtr) {
    let level = flushed.map_or(CommitLevel::OFF, |flushed| flushed.level);
    let mut positions = DEPENDS_ON.get();
    let position = &mut positions[level.index()];
    *position = lsn.max(*position);
    DEPENDS_ON.set(positions);
}

/// Makes the records that this transaction depends on as durable as its commit will be. PREPARE needs nothing: it flushes
/// all WAL before its own record, at any level.
///
/// # Safety
///
/// Must be called in a transaction that is about to commit. An error leaves by `longjmp`.
unsafe fn flush_before_commit() {
    let positions = DEPENDS_ON.get();
    // SAFETY: promised by the caller. Nothing here has a destructor.
    unsafe {
        let level = sys::commit_level();
        let lsn = positions[..level.index()].iter().copied().max().unwrap_or(0);
        if lsn == 0 {
            return;
        }
        if level.waits_for_standbys() || sys::has_transaction_id() {
            sys::make_commit_wait_for(lsn);
        } else {
            sys::XLogFlush(lsn);
        }
    }
}

extern "C-unwind" fn on_transaction_event(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    use pg_sys::XactEvent::*;
    let level = match event {
        // SAFETY: a transaction is about to commit; this function has nothing with a destructor.
        XACT_EVENT_PRE_COMMIT => return unsafe { flush_before_commit() },
        // SAFETY: reads settings, which are still those of the commit.
        XACT_EVENT_COMMIT | XACT_EVENT_PREPARE => unsafe { sys::commit_level() },
        XACT_EVENT_ABORT => CommitLevel::OFF,
        _ => return,
    };
    DEPENDS_ON.set([0; CommitLevel::COUNT]);
    if level < EXPECTED.replace(CommitLevel::OFF) {
        UNKEPT.set(UNKEPT.get() + 1);
    }
}

/// Registers the callback for the end of transactions.
///
/// # Safety
///
/// Must be called once in a backend's life, when the library is loaded.
pub unsafe fn register_callback() {
    // SAFETY: the callback is never unloaded. It can raise an error only before a commit, where a transaction may still
    // fail.
    unsafe { pg_sys::RegisterXactCallback(Some(on_transaction_event), std::ptr::null_mut()) }
}

/// Raises PostgreSQL's own error if the transaction is read-only.
pub fn prevent_if_read_only(function: &str) {
    let function = CString::new(function).expect("a name without NUL");
    // SAFETY: the name is copied into the error.
    unsafe { pg_sys::PreventCommandIfReadOnly(function.as_ptr()) }
}
