//! What this backend has found out about sequences and shards, and when to forget it.
//!
//! `nextval` looks up the caller's right and the sequence's options in the system caches on every call. Here a
//! verdict is kept, and is as fresh as those caches are: PostgreSQL announces every change of the catalogs to
//! every backend, and each announcement that could matter begins a new *era*, in which everything found out in
//! an earlier one is looked up again. Forgetting too much costs a microsecond; forgetting too little would be
//! wrong, so nothing finer is attempted.

use pgrx::pg_sys::{self, Datum, Oid};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;

/// The count of announcements so far. Two equal readings: nothing has changed between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Era(u64);

/// A sequence as this backend last found it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// When the sequence was last found fit, and `role` found to have the right to it.
    pub checked: Option<(Era, Oid)>,
    /// Its MINVALUE at that time.
    pub min_value: i64,
    /// The transaction that holds the lock on it.
    pub locked_in: pg_sys::LocalTransactionId,
    /// The file for which this backend has itself written a WAL record, or `InvalidOid`.
    pub logged_file: Oid,
    /// The position in WAL that is on disk, or will be when the transaction `safe_in` commits.
    pub safe_lsn: pg_sys::XLogRecPtr,
    /// 0 where it is on disk.
    pub safe_in: pg_sys::LocalTransactionId,
}

impl Known {
    const NOTHING: Known = Known {
        checked: None,
        min_value: 0,
        locked_in: 0,
        logged_file: Oid::INVALID,
        safe_lsn: 0,
        safe_in: 0,
    };
}

thread_local! {
    static ERA: Cell<u64> = const { Cell::new(0) };
    static SEQUENCES: RefCell<FxHashMap<Oid, Known>> = RefCell::new(FxHashMap::default());
    static SHARDS: RefCell<FxHashMap<u16, ShardSequence>> = RefCell::new(FxHashMap::default());
}

/// The sequence that a shard's number led to.
#[derive(Clone, Copy)]
struct ShardSequence {
    era: Era,
    /// The role that has USAGE on the schema.
    role: Oid,
    sequence: Oid,
}

pub fn era() -> Era {
    Era(ERA.get())
}

/// What is known of the sequence. A copy: announcements may arrive while the caller works with it.
pub fn recall(sequence: Oid) -> Known {
    SEQUENCES.with_borrow(|known| known.get(&sequence).copied().unwrap_or(Known::NOTHING))
}

pub fn remember(sequence: Oid, found: Known) {
    SEQUENCES.with_borrow_mut(|known| known.insert(sequence, found));
}

/// The sequence of a shard, where `role` has found it in the present era.
pub fn recall_shard(shard: u16, role: Oid) -> Option<Oid> {
    SHARDS.with_borrow(|shards| {
        let found = shards.get(&shard)?;
        (found.era == era() && found.role == role).then_some(found.sequence)
    })
}

pub fn remember_shard(shard: u16, era: Era, role: Oid, sequence: Oid) {
    SHARDS.with_borrow_mut(|shards| shards.insert(shard, ShardSequence { era, role, sequence }));
}

/// Begins a new era.
fn forget_all() {
    ERA.set(ERA.get() + 1);
}

extern "C-unwind" fn on_relcache_change(_arg: Datum, _relid: Oid) {
    forget_all();
}

extern "C-unwind" fn on_syscache_change(_arg: Datum, _cache: c_int, _hash: u32) {
    forget_all();
}

/// Asks PostgreSQL to announce changes of what a verdict rests on: relations with their options and grants
/// (each such change invalidates the relation), schemas with their names and grants, roles, memberships, and
/// the owner of the database, whom pg_database_owner stands for.
pub fn register_callbacks() {
    // SAFETY: called once in a backend's life, when the library is loaded; the callbacks never go away, take
    // what PostgreSQL passes, touch one counter and cannot raise an error.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(on_relcache_change), Datum::null());
        use pg_sys::SysCacheIdentifier::*;
        for cache in [SEQRELID, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID] {
            pg_sys::CacheRegisterSyscacheCallback(cache as c_int, Some(on_syscache_change), Datum::null());
        }
    }
}
