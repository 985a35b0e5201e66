//! Detects that cached results of catalog look-ups are out of date.
//!
//! PostgreSQL sends an invalidation message to every backend for each change of the catalogs. This file counts those
//! that could matter. A result is cached together with the count before its look-up, and is valid as long as the count
//! stays the same. A look-up too many costs some microseconds; one too few would be wrong. So the only messages that
//! are ignored are those of relations that were never looked up, such as the temporary tables that some applications
//! create in every transaction.

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, Oid};
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;

/// The number of invalidations so far. If two readings are equal, nothing has changed between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidationCount(u64);

/// A cached result, and the count before its look-up.
#[derive(Clone, Copy)]
pub struct Cached<T> {
    count: InvalidationCount,
    value: T,
}

impl<T> Cached<T> {
    /// `count` must have been read before the look-up began.
    pub fn new(count: InvalidationCount, value: T) -> Cached<T> {
        Cached { count, value }
    }

    /// The result, if nothing was invalidated since.
    pub fn get(self) -> Option<T> {
        (self.count == count()).then_some(self.value)
    }
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// The relations whose changes are counted.
    static WATCHED: RefCell<FxHashSet<Oid>> = RefCell::new(FxHashSet::default());
}

pub fn count() -> InvalidationCount {
    InvalidationCount(COUNT.get())
}

/// Counts each change of this relation from now on.
pub fn watch(relation: Oid) {
    WATCHED.with_borrow_mut(|watched| watched.insert(relation));
}

/// Makes all cached results invalid.
fn invalidate() {
    COUNT.set(COUNT.get() + 1);
}

#[pg_guard]
unsafe extern "C-unwind" fn on_relcache_change(_arg: Datum, relid: Oid) {
    let all = relid == Oid::INVALID;
    if all || WATCHED.with_borrow(|watched| watched.contains(&relid)) {
        invalidate();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_syscache_change(_arg: Datum, _cache: c_int, _hash: u32) {
    invalidate();
}

/// Registers callbacks for changes of sequences including options and grants (each such change invalidates the
/// relation), functions (they define shards), schemas including names and grants, roles and memberships, and the owner
/// of the database (the implicit member of `pg_database_owner`).
///
/// # Safety
///
/// Must be called once in a backend's life, when the library is loaded.
pub unsafe fn register_callbacks() {
    // SAFETY: the callbacks are never unloaded, have the parameters that PostgreSQL passes, and raise no error. They
    // use only the variables above, neither of which is borrowed while PostgreSQL runs.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(on_relcache_change), Datum::null());
        use pg_sys::SysCacheIdentifier::*;
        for cache in [SEQRELID, PROCOID, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID] {
            pg_sys::CacheRegisterSyscacheCallback(cache as c_int, Some(on_syscache_change), Datum::null());
        }
    }
}
