//! This backend's [`CommitTracker`]: tracks how durable the WAL is that the ids of a transaction
//! depend on, and does the rest before the commit.

use crate::pg::raw::{Raw, guarded};
use instagram_id_core::durable::{CommitLevel, CommitTracker, DurableRecord, Wal};
use pgrx::pg_guard;
use pgrx::pg_sys::{self, XLogRecPtr};
use std::cell::Cell;
use std::ffi::{CString, c_void};

thread_local! {
    static TRACKER: Cell<CommitTracker> = const { Cell::new(CommitTracker::NEW) };
}

/// PostgreSQL's WAL, in a transaction.
struct PostgresWal<'guard>(Raw<'guard>);

impl Wal for PostgresWal<'_> {
    fn flush(&mut self, lsn: XLogRecPtr) {
        // SAFETY: used only by the unsafe functions below, with positions that were read from a
        // page.
        unsafe { self.0.XLogFlush(lsn) }
    }

    fn make_commit_wait_for(&mut self, lsn: XLogRecPtr) {
        // SAFETY: as above.
        unsafe { self.0.make_commit_wait_for(lsn) }
    }
}

const _: () = {
    use pg_sys::SyncCommitLevel::*;
    assert!(SYNCHRONOUS_COMMIT_OFF == 0 && SYNCHRONOUS_COMMIT_LOCAL_FLUSH == 1);
    assert!(SYNCHRONOUS_COMMIT_REMOTE_APPLY == 4);
};

/// Whether the server is a standby.
pub fn is_standby() -> bool {
    // SAFETY: reads shared memory, without side effects.
    unsafe { guarded(|raw| raw.RecoveryInProgress()) }
}

/// The level that a commit would wait for now: `synchronous_commit`, limited to the local disk
/// without synchronous standbys. See `replication/syncrep.h` and `syncrep.c`: `SyncRepRequested()
/// && SyncStandbysDefined()`.
fn commit_level() -> CommitLevel {
    // SAFETY: reads a setting.
    let asked = CommitLevel::of_number(unsafe { pg_sys::synchronous_commit });
    asked.min(highest_commit_level())
}

/// The highest level that a commit could wait for.
pub fn highest_commit_level() -> CommitLevel {
    // SAFETY: reads settings. The string is NULL or ends with a zero byte.
    unsafe {
        let standbys = pg_sys::SyncRepStandbyNames;
        let has_standbys = pg_sys::max_wal_senders > 0 && !standbys.is_null() && *standbys != 0;
        if has_standbys { CommitLevel::REMOTE_APPLY } else { CommitLevel::LOCAL }
    }
}

impl Raw<'_> {
    /// Whether this transaction has an id, and so will write a record when it commits.
    pub unsafe fn has_transaction_id(self) -> bool {
        // SAFETY: reads a variable of the backend.
        unsafe { self.GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId }
    }

    /// Makes the commit of this transaction wait for all WAL up to `lsn`, as if the transaction had
    /// written it. `access/parallel.c` does the same for the WAL of parallel workers.
    pub unsafe fn make_commit_wait_for(self, lsn: XLogRecPtr) {
        // SAFETY: called in a transaction. With an id it writes a commit record, which waits.
        unsafe {
            self.GetTopTransactionId();
            pg_sys::XactLastRecEnd = pg_sys::XactLastRecEnd.max(lsn);
        }
    }
}

/// Whether the record at `lsn` is as durable as a commit at this level would make it.
#[inline(always)]
pub fn covers(record: Option<DurableRecord>, lsn: XLogRecPtr, level: CommitLevel) -> bool {
    TRACKER.get().covers(record, lsn, level)
}

/// The record at `lsn`, which this transaction has written: its commit makes it durable.
pub fn when_committed(lsn: XLogRecPtr) -> DurableRecord {
    let mut tracker = TRACKER.get();
    let record = tracker.when_committed(lsn, commit_level());
    TRACKER.set(tracker);
    record
}

/// Makes the record at `lsn`, on which values of this transaction depend, durable at the level of a
/// commit now; see [`CommitTracker::use_record`].
///
/// # Safety
///
/// Must be called in a transaction, with the position of a page.
#[cold]
pub unsafe fn use_record(
    raw: Raw,
    known: Option<DurableRecord>,
    lsn: XLogRecPtr,
) -> Option<DurableRecord> {
    let mut tracker = TRACKER.get();
    let record = tracker.use_record(known, lsn, commit_level(), &mut PostgresWal(raw));
    TRACKER.set(tracker);
    record
}

#[pg_guard]
unsafe extern "C-unwind" fn on_transaction_event(
    event: pg_sys::XactEvent::Type,
    _arg: *mut c_void,
) {
    use pg_sys::XactEvent::*;
    // In nearly every transaction.
    if TRACKER.get().is_idle() {
        return;
    }
    let level = match event {
        // SAFETY: a transaction is about to commit. The closure does not panic and owns nothing
        // with a destructor.
        XACT_EVENT_PRE_COMMIT => unsafe {
            return guarded(|raw| {
                let (level, writes_record) = (commit_level(), raw.has_transaction_id());
                TRACKER.get().before_commit(level, writes_record, &mut PostgresWal(raw));
            });
        },
        // The settings are still those of the commit.
        XACT_EVENT_COMMIT | XACT_EVENT_PREPARE => commit_level(),
        XACT_EVENT_ABORT => CommitLevel::OFF,
        _ => return,
    };
    let mut tracker = TRACKER.get();
    tracker.end(level);
    TRACKER.set(tracker);
}

/// Registers the callback for the end of transactions.
///
/// # Safety
///
/// Must be called once in a backend's life, when the library is loaded.
pub unsafe fn register_callback() {
    // SAFETY: the callback is never unloaded. It can raise an error only before a commit, where a
    // transaction may still fail.
    unsafe { pg_sys::RegisterXactCallback(Some(on_transaction_event), std::ptr::null_mut()) }
}

/// Raises PostgreSQL's own error if the transaction is read-only, or in a parallel query.
pub fn prevent_if_read_only(function: &str) {
    let name = CString::new(function).expect("a name without NUL");
    // SAFETY: the name is copied into the error.
    unsafe { pg_sys::PreventCommandIfReadOnly(name.as_ptr()) }
    prevent_in_parallel(function);
}

/// Raises PostgreSQL's own error in a parallel query, where it takes no new snapshot.
pub fn prevent_in_parallel(function: &str) {
    let name = CString::new(function).expect("a name without NUL");
    // SAFETY: the name is copied into the error.
    unsafe { pg_sys::PreventCommandIfParallelMode(name.as_ptr()) }
}
