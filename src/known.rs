//! What this backend has found out about sequences and shards, and when to forget it.
//!
//! `nextval` looks up the caller's right and the sequence's options in the system caches on every call. Here a
//! verdict is kept, and is as fresh as those caches are: PostgreSQL announces every change of the catalogs to
//! every backend, and each announcement that could matter begins a new *era*, in which everything found out in
//! an earlier one is looked up again. Forgetting too much costs some microseconds; forgetting too little would be
//! wrong, so nothing finer is attempted than to pass over relations that were never asked about, such as the
//! temporary tables that some applications make with every transaction.

use crate::citus::Standing;
use crate::epoch::Epoch;
use crate::layout::Shard;
use crate::sequence::Clock;
use crate::sys::{self, CommitLevel, RelFileLocator};
use pgrx::pg_sys::{self, Datum, LocalTransactionId, Oid};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};

/// The count of announcements so far. Two equal readings: nothing has changed between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Era(u64);

/// A sequence as this backend last found it.
#[derive(Clone, Copy)]
pub struct Known {
    /// What the catalogs say of it, and when they said so.
    pub checked: Option<(Valid, Facts)>,
    /// For the same role, at the same time.
    pub permit: Permit,
    /// The transaction that holds the lock on it.
    pub locked_in: LocalTransactionId,
    /// The shared buffer that its page was last in, or `InvalidBuffer`.
    pub buffer: pg_sys::Buffer,
    /// The file for which this backend has itself written a WAL record, or `InvalidOid`.
    pub logged_file: Oid,
    /// The last WAL record that this backend has made safe.
    pub safe: Option<Safe>,
    /// Whether PostgreSQL's caches were filled to find this out.
    pub looked: bool,
}

/// For what a finding holds: in this era, for this role.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Valid {
    pub era: Era,
    pub role: Oid,
    /// The transaction it holds in, where it cannot outlive one, else 0.
    pub transaction: LocalTransactionId,
}

/// What the catalogs say of a sequence that is fit to be a clock and that the role may use.
#[derive(Clone, Copy)]
pub struct Facts {
    pub locator: RelFileLocator,
    pub min_value: i64,
    /// Whether its changes are logged: not for a temporary or unlogged one, nor under `wal_level = minimal` in the
    /// transaction that made it.
    pub needs_wal: bool,
    /// A temporary one of this session's.
    pub is_local_temp: bool,
    /// One of the copies that the nodes of a Citus cluster have; whether another node is its home; and whether tables of its
    /// schema say so.
    pub is_copy: bool,
    pub is_elsewhere: bool,
    pub is_of_schema: bool,
    /// A copy on a worker, of whose values Citus has given each node a range of its own. That means nothing to a clock.
    pub has_range_of_node: bool,
}

/// Whose ids a role may take from a sequence, and from which epoch they count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permit {
    /// That has not been found out.
    Unknown,
    /// Any: the role has UPDATE, and could set the sequence to any value, or the sequence serves no shard.
    Any,
    /// Those of the shard that the sequence serves.
    Only(Shard, Epoch),
}

impl Permit {
    pub fn allows(self, shard: Shard, epoch: Epoch) -> bool {
        match self {
            Permit::Any => true,
            Permit::Only(of, from) => of == shard && from == epoch,
            Permit::Unknown => false,
        }
    }
}

/// A WAL record that this backend has seen to, and how far: so far it is safe when the transaction that did has
/// committed.
#[derive(Clone, Copy)]
pub struct Safe {
    lsn: pg_sys::XLogRecPtr,
    level: CommitLevel,
    /// How many transactions had broken their word when this was written.
    broken: u64,
}

impl Safe {
    /// To be called by the transaction whose commit waits at this level.
    pub fn when_committed(lsn: pg_sys::XLogRecPtr, level: CommitLevel) -> Safe {
        PROMISED.set(PROMISED.get().max(level));
        Safe { lsn, level, broken: BROKEN.get() }
    }

    /// Whether the last record, at `lsn`, is as safe as a commit at this level would make it.
    pub fn covers(self, lsn: pg_sys::XLogRecPtr, level: CommitLevel) -> bool {
        self.lsn == lsn && self.level >= level && self.broken == BROKEN.get()
    }
}

/// Notes that values of this transaction rest on the WAL up to `lsn`, which is only as safe as this says.
pub fn note_debt(safe: Option<Safe>, lsn: pg_sys::XLogRecPtr) {
    let level = safe.map_or(CommitLevel::OFF, |safe| safe.level);
    let mut debts = DEBTS.get();
    let debt = &mut debts[level.index()];
    *debt = lsn.max(*debt);
    DEBTS.set(debts);
}

/// Before a commit: makes what the values of this transaction rest on as safe as the commit asks for. PREPARE needs no such
/// thing: it flushes all WAL before its own record, at whatever level.
///
/// # Safety
///
/// In a transaction that is about to commit; an error leaves by `longjmp`.
unsafe fn settle_debts() {
    let debts = DEBTS.get();
    // SAFETY: the caller's promise; nothing here has a destructor.
    unsafe {
        let level = sys::commit_level();
        let lsn = debts[..level.index()].iter().copied().max().unwrap_or(0);
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

impl Known {
    const NOTHING: Known = Known {
        checked: None,
        permit: Permit::Unknown,
        locked_in: 0,
        buffer: pg_sys::InvalidBuffer as pg_sys::Buffer,
        logged_file: Oid::INVALID,
        safe: None,
        looked: false,
    };
}

thread_local! {
    static ERA: Cell<u64> = const { Cell::new(0) };
    /// The highest level at which this transaction has said that its commit will make a record safe.
    static PROMISED: Cell<CommitLevel> = const { Cell::new(CommitLevel::OFF) };
    /// How many transactions have not kept that: rolled back, or committed without waiting for as much.
    static BROKEN: Cell<u64> = const { Cell::new(0) };
    static SEQUENCES: RefCell<FxHashMap<Oid, Known>> = RefCell::new(FxHashMap::default());
    /// WAL positions that values of this transaction rest on, by the level at which each is safe. A commit at a higher level
    /// has to see to them.
    static DEBTS: Cell<[pg_sys::XLogRecPtr; CommitLevel::COUNT]> = const { Cell::new([0; CommitLevel::COUNT]) };
    /// What roles that lack UPDATE may take from sequences. Like the next one apart from the above, which every call goes
    /// through.
    static PERMITS: RefCell<FxHashMap<Oid, (Era, Permit)>> = RefCell::new(FxHashMap::default());
    /// What sequences are among the nodes of a Citus cluster.
    static STANDINGS: RefCell<FxHashMap<Oid, (Era, Standing)>> = RefCell::new(FxHashMap::default());
    static SHARDS: RefCell<FxHashMap<u16, ShardClock>> = RefCell::new(FxHashMap::default());
    /// The keys of `SEQUENCES` again, for the callback: an announcement may arrive while that is borrowed. And the other
    /// relations whose changes matter.
    static WATCHED: RefCell<FxHashSet<Oid>> = RefCell::new(FxHashSet::default());
}

/// What a shard's number led to.
#[derive(Clone, Copy)]
struct ShardClock {
    era: Era,
    /// The role that has USAGE on the schema.
    role: Oid,
    clock: Clock,
    schema: Oid,
}

pub fn era() -> Era {
    Era(ERA.get())
}

/// Lets `visit` use and add to what is known of the sequence. It must not come back here: an announcement may
/// arrive while it runs, and only begins a new era.
pub fn with<T>(sequence: Oid, visit: impl FnOnce(&mut Known) -> T) -> T {
    SEQUENCES.with_borrow_mut(|sequences| {
        visit(sequences.entry(sequence).or_insert_with(|| {
            WATCHED.with_borrow_mut(|watched| watched.insert(sequence));
            Known::NOTHING
        }))
    })
}

/// The clock of a shard, where `role` has found it in the present era.
pub fn recall_shard(shard: u16, role: Oid) -> Option<Clock> {
    SHARDS.with_borrow(|shards| {
        let found = shards.get(&shard)?;
        (found.era == era() && found.role == role).then_some(found.clock)
    })
}

/// The schema of a shard, where it has been found in the present era.
pub fn recall_schema(shard: u16) -> Option<Oid> {
    SHARDS.with_borrow(|shards| {
        let found = shards.get(&shard)?;
        (found.era == era()).then_some(found.schema)
    })
}

pub fn remember_shard(shard: u16, era: Era, role: Oid, clock: Clock, schema: Oid) {
    SHARDS.with_borrow_mut(|shards| shards.insert(shard, ShardClock { era, role, clock, schema }));
}

/// What roles that lack UPDATE may take from the sequence, as far as that was found in the present era.
pub fn permit(sequence: Oid) -> Permit {
    PERMITS.with_borrow(|permits| match permits.get(&sequence) {
        Some((of, permit)) if *of == era() => *permit,
        _ => Permit::Unknown,
    })
}

pub fn remember_permit(sequence: Oid, era: Era, permit: Permit) {
    PERMITS.with_borrow_mut(|permits| permits.insert(sequence, (era, permit)));
    with(sequence, |known| known.checked = None);
}

/// What the sequence is among the nodes of a Citus cluster, where that was found in the present era.
pub fn standing(sequence: Oid) -> Option<Standing> {
    STANDINGS.with_borrow(|standings| {
        let (of, standing) = standings.get(&sequence)?;
        (*of == era()).then_some(*standing)
    })
}

pub fn remember_standing(sequence: Oid, era: Era, standing: Standing) {
    STANDINGS.with_borrow_mut(|standings| standings.insert(sequence, (era, standing)));
}

/// Forgets where the sequence is at home.
pub fn forget_standing(sequence: Oid) {
    STANDINGS.with_borrow_mut(|standings| standings.remove(&sequence));
    with(sequence, |known| known.checked = None);
}

/// Sees to it that a change of this relation begins a new era.
pub fn watch(relation: Oid) {
    WATCHED.with_borrow_mut(|watched| watched.insert(relation));
}

/// Begins a new era.
fn forget_all() {
    ERA.set(ERA.get() + 1);
}

extern "C-unwind" fn on_relcache_change(_arg: Datum, relid: Oid) {
    let all = relid == Oid::INVALID;
    if all || WATCHED.with_borrow(|watched| watched.contains(&relid)) {
        forget_all();
    }
}

extern "C-unwind" fn on_syscache_change(_arg: Datum, _cache: c_int, _hash: u32) {
    forget_all();
}

extern "C-unwind" fn on_transaction_event(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    use pg_sys::XactEvent::*;
    // SAFETY: reads settings, which are still as the commit has found them.
    let kept = match event {
        // SAFETY: a transaction is about to commit; this function has nothing with a destructor.
        XACT_EVENT_PRE_COMMIT => return unsafe { settle_debts() },
        XACT_EVENT_COMMIT | XACT_EVENT_PREPARE => unsafe { sys::commit_level() },
        XACT_EVENT_ABORT => CommitLevel::OFF,
        _ => return,
    };
    DEBTS.set([0; CommitLevel::COUNT]);
    if kept < PROMISED.replace(CommitLevel::OFF) {
        BROKEN.set(BROKEN.get() + 1);
    }
}

/// Asks PostgreSQL to announce changes of what a verdict rests on: sequences with their options and grants
/// (each such change invalidates the relation), the functions that define a shard, schemas with their names and
/// grants, roles, memberships, and the owner of the database, whom pg_database_owner stands for. And the ends of
/// transactions.
pub fn register_callbacks() {
    // SAFETY: called once in a backend's life, when the library is loaded; the callbacks never go away, take
    // what PostgreSQL passes, touch the variables above, none of which is borrowed while PostgreSQL runs but
    // SEQUENCES. Only the one before a commit can raise an error, where a transaction may still fail.
    unsafe {
        pg_sys::RegisterXactCallback(Some(on_transaction_event), std::ptr::null_mut());
        pg_sys::CacheRegisterRelcacheCallback(Some(on_relcache_change), Datum::null());
        use pg_sys::SysCacheIdentifier::*;
        for cache in [SEQRELID, PROCOID, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID] {
            pg_sys::CacheRegisterSyscacheCallback(cache as c_int, Some(on_syscache_change), Datum::null());
        }
    }
}
