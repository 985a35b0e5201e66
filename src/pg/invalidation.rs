//! When a session has to look up the catalogs again.
//!
//! PostgreSQL sends an invalidation message to every backend for each change of the catalogs. This file counts those that
//! could matter. A finding is cached together with the count at the time of the look-up; once the count has moved on, it is
//! looked up again. Looking up too often costs some microseconds, too seldom would be wrong. So nothing finer is attempted
//! than to ignore relations that were never looked up, such as the temporary tables that some applications create with
//! every transaction.

use pgrx::pg_sys::{self, Datum, Oid};
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;

/// The number of invalidations so far. Two equal readings: nothing has changed between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidationCount(u64);

/// A finding, and the count at the time of its look-up.
#[derive(Clone, Copy)]
pub struct Cached<T> {
    count: InvalidationCount,
    value: T,
}

impl<T> Cached<T> {
    /// `count` was read before the look-up began.
    pub fn new(count: InvalidationCount, value: T) -> Cached<T> {
        Cached { count, value }
    }

    /// The finding, if nothing was invalidated since.
    pub fn get(self) -> Option<T> {
        (self.count == count()).then_some(self.value)
    }
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// The relations whose changes count.
    static WATCHED: RefCell<FxHashSet<Oid>> = RefCell::new(FxHashSet::default());
}

pub fn count() -> InvalidationCount {
    InvalidationCount(COUNT.get())
}

/// From here on a change of this relation counts.
pub fn watch(relation: Oid) {
    WATCHED.with_borrow_mut(|watched| watched.insert(relation));
}

/// Outdates all that was found out so far.
fn invalidate() {
    COUNT.set(COUNT.get() + 1);
}

extern "C-unwind" fn on_relcache_change(_arg: Datum, relid: Oid) {
    let all = relid == Oid::INVALID;
    if all || WATCHED.with_borrow(|watched| watched.contains(&relid)) {
        invalidate();
    }
}

extern "C-unwind" fn on_syscache_change(_arg: Datum, _cache: c_int, _hash: u32) {
    invalidate();
}

/// Registers for changes of sequences with their options and grants (each such change invalidates the relation), of the
/// functions that define a shard, of schemas with their names and grants, of roles and memberships, and of the owner of the
/// database, whom `pg_database_owner` stands for.
///
/// # Safety
///
/// Once in a backend's life, when the library is loaded.
pub unsafe fn register_callbacks() {
    // SAFETY: the callbacks stay for good, take what PostgreSQL passes, raise no error, and touch the variables above,
    // neither of which is borrowed while PostgreSQL runs.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(on_relcache_change), Datum::null());
        use pg_sys::SysCacheIdentifier::*;
        for cache in [SEQRELID, PROCOID, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID] {
            pg_sys::CacheRegisterSyscacheCallback(cache as c_int, Some(on_syscache_change), Datum::null());
        }
    }
}
