//! Detects that cached results of catalog look-ups are out of date.
//!
//! PostgreSQL sends an invalidation message to every backend for each change of the catalogs. This
//! file counts those that could matter. A result is cached together with the count before its
//! look-up, and is valid as long as the count stays the same. A look-up too many costs some
//! microseconds for each sequence; one too few would be wrong.
//!
//! The messages that could matter are those about
//!
//! - what a look-up has read: relations, and rows of catalogs, which it watches;
//! - roles, memberships and databases with their owners, because any could give or take a right;
//! - functions whose name begins with [`DEFINING_PREFIX`], because a new one can define a shard
//!   that was looked up;
//! - functions in C, which change when an extension such as Citus is installed or upgraded.
//!
//! A message about a function contains only a hash of its OID, and the function must be looked up.
//! This is not possible when the message arrives, so it is done before the next use of a cached
//! result ([`settle`]).

use crate::pg::raw::{Raw, guarded};
use crate::pg::sys;
use pgrx::pg_guard;
use pgrx::pg_sys::SysCacheIdentifier::{
    AUTHMEMROLEMEM, AUTHOID, DATABASEOID, NAMESPACEOID, PROCOID, SEQRELID,
};
use pgrx::pg_sys::{self, Datum, Oid};
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_int};

/// The prefix of the names of functions that define shards.
pub const DEFINING_PREFIX: &str = "shard_";

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

/// A catalog whose rows can be watched, by its cache.
#[derive(Clone, Copy)]
pub enum Catalog {
    Function = PROCOID as isize,
    Schema = NAMESPACEOID as isize,
    Sequence = SEQRELID as isize,
}

/// Hashes of functions that have changed.
#[derive(Clone, Copy)]
struct Functions {
    len: usize,
    hashes: [u32; Functions::MAX],
}

impl Functions {
    const MAX: usize = 32;
    const NONE: Functions = Functions { len: 0, hashes: [0; Functions::MAX] };

    fn hashes(&self) -> &[u32] {
        &self.hashes[..self.len]
    }

    /// Returns false if there are too many.
    fn add(&mut self, hash: u32) -> bool {
        if self.hashes().contains(&hash) {
            return true;
        }
        let has_room = self.len < Functions::MAX;
        if has_room {
            self.hashes[self.len] = hash;
            self.len += 1;
        }
        has_room
    }
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// The count after [`settle`], if none of the changed functions matters. Until then the count
    /// is another one, so that no cached result is used.
    static SETTLED: Cell<u64> = const { Cell::new(0) };
    /// The greatest count so far.
    static GREATEST: Cell<u64> = const { Cell::new(0) };
    /// The functions that have changed since the last [`settle`].
    static CHANGED: Cell<Functions> = const { Cell::new(Functions::NONE) };
    /// Watched relations, by [`RELATION`] and OID, and watched rows of catalogs, by cache and hash.
    static WATCHED: RefCell<FxHashSet<(c_int, u32)>> = RefCell::new(FxHashSet::default());
    /// Whether everything is watched, because the set is full, or there is no memory for more.
    static WATCHES_ALL: Cell<bool> = const { Cell::new(false) };
}

const RELATION: c_int = -1;

/// The most that is watched by itself, in 4 MB: four objects for each sequence that a session can
/// cache. Dropped objects stay in the set, and other roles can drop any number.
const WATCHED_MAX: usize = 262_144;

/// The count now. A look-up outside a guard should begin with [`settled_count`].
#[inline(always)]
pub fn count() -> InvalidationCount {
    InvalidationCount(COUNT.get())
}

/// The count after [`settle`].
pub fn settled_count() -> InvalidationCount {
    if COUNT.get() != SETTLED.get() {
        // SAFETY: the function does not panic and owns nothing with a destructor.
        unsafe { guarded(|raw| settle(raw)) }
    }
    count()
}

/// How often a look-up is done that fails. Other roles can invalidate something all the time.
const LOOK_UPS_MAX: usize = 5;

/// Runs a look-up, and again if it has failed while something was invalidated: it may have read one
/// catalog before a commit, and another one after it. A result needs no second look-up, because it
/// is confirmed under a lock.
pub fn look_up<T>(has_failed: impl Fn(&T) -> bool, look: impl Fn() -> T) -> T {
    for _ in 1..LOOK_UPS_MAX {
        let count = settled_count();
        let found = look();
        if !has_failed(&found) || settled_count() == count {
            return found;
        }
    }
    look()
}

/// Finds out whether any of the functions that have changed matters. If none does, the cached
/// results are valid again. A look-up watches a function after it has read it, so the message can
/// come first. Such a function counts, too.
///
/// # Safety
///
/// Must be called in a transaction.
pub unsafe fn settle(raw: Raw) {
    // SAFETY: promised by the caller.
    settle_by(|hash| unsafe { function_matters(raw, hash) });
}

fn settle_by(matters: impl Fn(u32) -> bool) {
    while COUNT.get() != SETTLED.get() {
        let (changed, before) = (CHANGED.replace(Functions::NONE), SETTLED.get());
        if changed.len == 0 {
            COUNT.set(before);
            return;
        }
        // If an error ends this, or other messages arrive, the former count is not used again.
        let provisional = next_count();
        SETTLED.set(provisional);
        let is_any = |hash: &u32| is_watched((PROCOID as c_int, *hash)) || matters(*hash);
        if !changed.hashes().iter().any(is_any) && SETTLED.get() == provisional {
            SETTLED.set(before);
        }
    }
}

/// Whether a function that has changed could matter. One that was dropped is watched if it did.
unsafe fn function_matters(raw: Raw, hash: u32) -> bool {
    let oid = Oid::from(murmurhash32_inverse(hash));
    // SAFETY: a lookup in a syscache whose only key is an OID. The tuple is valid until it is
    // released.
    unsafe {
        if row_hash(raw, Catalog::Function, oid) != hash {
            return true; // this PostgreSQL has another hash function
        }
        let tuple = raw.SearchSysCache1(PROCOID as c_int, oid.into());
        if tuple.is_null() {
            return false;
        }
        let row = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
        let name = CStr::from_ptr((&raw const (*row).proname.data).cast()).to_bytes();
        let matters = name.starts_with(DEFINING_PREFIX.as_bytes())
            || (*row).prolang == Oid::from(sys::ClanguageId);
        raw.ReleaseSysCache(tuple);
        raw.SysCacheInvalidate(PROCOID as c_int, hash);
        matters
    }
}

unsafe fn row_hash(raw: Raw, catalog: Catalog, oid: Oid) -> u32 {
    let none = Datum::null();
    // SAFETY: the only key of these caches is an OID.
    unsafe { raw.GetSysCacheHashValue(catalog as c_int, oid.into(), none, none, none) }
}

/// The number with this hash. `common/hashfn.h` has `murmurhash32`, with which PostgreSQL hashes
/// the OIDs of rows. It maps each number to another one.
fn murmurhash32_inverse(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x7ed1_b41d);
    hash ^= hash >> 13 ^ hash >> 26;
    hash = hash.wrapping_mul(0xa5cb_9243);
    hash ^ hash >> 16
}

/// Counts each change of this relation from now on.
pub fn watch(relation: Oid) {
    insert((RELATION, relation.to_u32()));
}

/// Counts each change of this row from now on.
pub fn watch_row(catalog: Catalog, oid: Oid) {
    // SAFETY: the function does not panic and owns nothing.
    insert((catalog as c_int, unsafe { guarded(|raw| row_hash(raw, catalog, oid)) }));
}

fn insert(key: (c_int, u32)) {
    WATCHED.with_borrow_mut(|watched| {
        if watched.len() < WATCHED_MAX && watched.try_reserve(1).is_ok() {
            watched.insert(key);
        } else if !watched.contains(&key) {
            WATCHES_ALL.set(true);
        }
    });
}

fn is_watched(key: (c_int, u32)) -> bool {
    WATCHES_ALL.get() || WATCHED.with_borrow(|watched| watched.contains(&key))
}

/// Forgets what is watched, and makes all cached results invalid. The next look-up watches again.
/// The caller empties the cache of sequences, whose entries are watched only when they are created.
pub fn forget_watched() {
    WATCHED.with_borrow_mut(FxHashSet::clear);
    WATCHES_ALL.set(false);
    invalidate();
}

fn next_count() -> u64 {
    GREATEST.set(GREATEST.get() + 1);
    GREATEST.get()
}

/// Makes all cached results invalid.
fn invalidate() {
    let has_settled = COUNT.get() == SETTLED.get();
    SETTLED.set(next_count());
    COUNT.set(if has_settled { SETTLED.get() } else { next_count() });
}

/// Makes all cached results invalid until [`settle`].
fn note_function(hash: u32) {
    let mut changed = CHANGED.get();
    if !changed.add(hash) {
        return invalidate();
    }
    CHANGED.set(changed);
    COUNT.set(next_count());
}

#[pg_guard]
unsafe extern "C-unwind" fn on_relcache_change(_arg: Datum, relid: Oid) {
    if relid == Oid::INVALID || is_watched((RELATION, relid.to_u32())) {
        invalidate();
    }
}

/// A hash of 0 stands for all rows.
#[pg_guard]
unsafe extern "C-unwind" fn on_syscache_change(_arg: Datum, cache: c_int, hash: u32) {
    let is_of_rights =
        [AUTHOID, AUTHMEMROLEMEM, DATABASEOID].iter().any(|of| *of as c_int == cache);
    if hash == 0 || is_of_rights || is_watched((cache, hash)) {
        invalidate();
    } else if cache == PROCOID as c_int {
        note_function(hash);
    }
}

/// Registers callbacks for changes of relations (sequences including their grants), options of
/// sequences, functions, schemas including their grants, roles and memberships, and databases (the
/// owner is the implicit member of `pg_database_owner`).
///
/// # Safety
///
/// Must be called once in a backend's life, when the library is loaded.
pub unsafe fn register_callbacks() {
    // SAFETY: the callbacks are never unloaded and have the parameters that PostgreSQL passes. They
    // use only the variables above, none of which is borrowed while PostgreSQL runs.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(on_relcache_change), Datum::null());
        for cache in [SEQRELID, PROCOID, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID] {
            pg_sys::CacheRegisterSyscacheCallback(
                cache as c_int,
                Some(on_syscache_change),
                Datum::null(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As in `common/hashfn.h`.
    fn murmurhash32(mut hash: u32) -> u32 {
        hash ^= hash >> 16;
        hash = hash.wrapping_mul(0x85eb_ca6b);
        hash ^= hash >> 13;
        hash = hash.wrapping_mul(0xc2b2_ae35);
        hash ^ hash >> 16
    }

    proptest! {
        #[test]
        fn hashes_are_reversed(number in any::<u32>()) {
            prop_assert_eq!(murmurhash32_inverse(murmurhash32(number)), number);
        }
    }

    #[test]
    fn changed_functions_are_noted_once_and_up_to_a_limit() {
        let mut changed = Functions::NONE;
        for hash in 1..=Functions::MAX as u32 {
            assert!(changed.add(hash) && changed.add(hash));
        }
        assert_eq!(changed.hashes().len(), Functions::MAX);
        assert!(!changed.add(77) && changed.add(1));
    }

    /// A look-up has read the function before it changed, and watches it only then.
    #[test]
    fn function_that_is_watched_later_matters() {
        let before = count();
        note_function(7);
        note_function(8);
        settle_by(|_| false);
        assert_eq!(count(), before);
        note_function(7);
        insert((PROCOID as c_int, 7));
        settle_by(|_| false);
        assert_ne!(count(), before);
    }

    #[test]
    fn what_is_watched_has_a_limit() {
        let before = count();
        for oid in 0..WATCHED_MAX as u32 {
            watch(Oid::from(oid));
        }
        watch(Oid::from(7));
        assert!(!WATCHES_ALL.get() && !is_watched((RELATION, u32::MAX)));
        watch(Oid::from(u32::MAX - 1));
        assert!(WATCHED.with_borrow(FxHashSet::len) == WATCHED_MAX && count() == before);
        assert!([7, u32::MAX - 1, u32::MAX].iter().all(|oid| is_watched((RELATION, *oid))));
        forget_watched();
        assert!(count() != before && !is_watched((RELATION, 7)));
    }
}
