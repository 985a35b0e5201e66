//! How durable the WAL is that the ids of a transaction depend on.
//!
//! A record that a transaction writes is as durable as its commit makes it. A transaction that only uses values which another
//! one has logged writes nothing itself, so nothing would wait for that record. This file keeps track of what was made
//! durable, and before a commit sees to the rest.

use crate::pg::sys::{self, CommitLevel};
use pgrx::pg_sys::{self, XLogRecPtr};
use std::cell::Cell;
use std::ffi::{CString, c_void};

/// A WAL record that this backend has made durable, at the level of the transaction that did so, once that has committed.
#[derive(Clone, Copy)]
pub struct FlushedRecord {
    lsn: XLogRecPtr,
    level: CommitLevel,
    /// [`UNKEPT`] at the time.
    unkept: u64,
}

thread_local! {
    /// The highest level at which the commit of this transaction is expected to make a record durable.
    static EXPECTED: Cell<CommitLevel> = const { Cell::new(CommitLevel::OFF) };
    /// How many transactions have not done so: rolled back, or committed at a lower level.
    static UNKEPT: Cell<u64> = const { Cell::new(0) };
    /// The WAL positions that values of this transaction depend on, by the level at which each is durable. A commit at a
    /// higher level has to see to them.
    static DEPENDS_ON: Cell<[XLogRecPtr; CommitLevel::COUNT]> = const { Cell::new([0; CommitLevel::COUNT]) };
}

impl FlushedRecord {
    /// A record that will be durable when the current transaction has committed, at this level.
    pub fn when_committed(lsn: XLogRecPtr, level: CommitLevel) -> FlushedRecord {
        EXPECTED.set(EXPECTED.get().max(level));
        FlushedRecord { lsn, level, unkept: UNKEPT.get() }
    }

    /// Whether the last record, at `lsn`, is as durable as a commit at this level would make it.
    pub fn covers(self, lsn: XLogRecPtr, level: CommitLevel) -> bool {
        self.lsn == lsn && self.level >= level && self.unkept == UNKEPT.get()
    }
}

/// Notes that values of this transaction depend on the WAL up to `lsn`, which is durable as `flushed` has it.
pub fn depend_on(flushed: Option<FlushedRecord>, lsn: XLogRecPtr) {
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
/// In a transaction that is about to commit; an error leaves by `longjmp`.
unsafe fn flush_before_commit() {
    let positions = DEPENDS_ON.get();
    // SAFETY: the caller's promise; nothing here has a destructor.
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

/// Registers for the ends of transactions.
///
/// # Safety
///
/// Once in a backend's life, when the library is loaded.
pub unsafe fn register_callback() {
    // SAFETY: the callback stays for good. It can raise an error only before a commit, where a transaction may still fail.
    unsafe { pg_sys::RegisterXactCallback(Some(on_transaction_event), std::ptr::null_mut()) }
}

/// Raises PostgreSQL's own error where the transaction cannot write.
pub fn prevent_if_read_only(function: &str) {
    let function = CString::new(function).expect("a name without NUL");
    // SAFETY: the name is copied into the error.
    unsafe { pg_sys::PreventCommandIfReadOnly(function.as_ptr()) }
}
