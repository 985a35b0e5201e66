//! This backend's cache of sequences.
//!
//! `nextval` looks up the caller's privilege and the sequence's options in the system caches on every call. Here the result
//! of that look-up is kept until an invalidation arrives ([`crate::pg::invalidation`]).

use crate::pg::invalidation::{self, Cached, InvalidationCount};
use crate::pg::sys::RelFileLocator;
use crate::pg::transaction::FlushedRecord;
use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, LocalTransactionId, Oid};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// A sequence as this backend last found it.
#[derive(Clone, Copy)]
pub struct CachedSequence {
    /// The result of the last look-up, and for how long it holds.
    pub checked: Option<(Validity, SequenceInfo)>,
    /// For the same role, as long as `checked` holds.
    pub permit: Permit,
    /// The transaction that holds the lock on it.
    pub locked_in: LocalTransactionId,
    /// The shared buffer that its page was last in, or `InvalidBuffer`.
    pub buffer: pg_sys::Buffer,
    /// The file for which this backend has itself written a WAL record, or `InvalidOid`.
    pub logged_file: Oid,
    /// The last WAL record that this backend has made durable.
    pub flushed: Option<FlushedRecord>,
    /// Whether this look-up has filled PostgreSQL's caches.
    pub has_filled_caches: bool,
}

/// When a finding holds: as long as nothing was invalidated, for this role.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub count: InvalidationCount,
    pub role: Oid,
    /// The only transaction in which it holds, or 0 where it outlives the transaction.
    pub transaction: LocalTransactionId,
}

/// A sequence from which ids can be generated, by a role that may use it.
#[derive(Clone, Copy)]
pub struct SequenceInfo {
    pub locator: RelFileLocator,
    pub min_value: i64,
    /// Whether its changes are logged: not for a temporary or unlogged sequence, nor under `wal_level = minimal` in the
    /// transaction that created it.
    pub needs_wal: bool,
    /// A temporary sequence of this session.
    pub is_local_temp: bool,
    pub placement: Placement,
    /// Whether it is a copy on a worker whose values Citus has limited to a range of the node. Ids do not count from there.
    pub has_range_of_node: bool,
}

/// Where ids are generated from a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Here; there is no other copy of it.
    Local,
    /// Each node of a cluster has a copy, this one as the node of that group.
    Copy {
        group: i32,
        /// Whether this node owns the schema, so that its copy is the one to be open.
        is_here: bool,
        /// Whether it is the tables of the schema that are placed on the owning node.
        is_of_schema: bool,
    },
}

impl Placement {
    pub fn is_copy(self) -> bool {
        matches!(self, Placement::Copy { .. })
    }

    pub fn is_elsewhere(self) -> bool {
        matches!(self, Placement::Copy { is_here: false, .. })
    }

    pub fn is_of_schema(self) -> bool {
        matches!(self, Placement::Copy { is_of_schema: true, .. })
    }
}

/// The ids that a role may generate from a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permit {
    /// Not looked up yet.
    Unknown,
    /// Any: the role has UPDATE, so it could set the sequence to any value, or the sequence serves no shard.
    Any,
    /// Those of the shard that the sequence serves, with this epoch.
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

impl CachedSequence {
    const EMPTY: CachedSequence = CachedSequence {
        checked: None,
        permit: Permit::Unknown,
        locked_in: 0,
        buffer: pg_sys::InvalidBuffer as pg_sys::Buffer,
        logged_file: Oid::INVALID,
        flushed: None,
        has_filled_caches: false,
    };
}

thread_local! {
    static SEQUENCES: RefCell<FxHashMap<Oid, CachedSequence>> = RefCell::new(FxHashMap::default());
    /// The permits of roles that lack UPDATE. This map and the next one are apart from the one above, which every call
    /// reads.
    static PERMITS: RefCell<FxHashMap<Oid, Cached<Permit>>> = RefCell::new(FxHashMap::default());
    static PLACEMENTS: RefCell<FxHashMap<Oid, Cached<Placement>>> = RefCell::new(FxHashMap::default());
}

/// Lets `visit` use and change what is cached of the sequence. It must not come back here.
pub fn with<T>(sequence: Oid, visit: impl FnOnce(&mut CachedSequence) -> T) -> T {
    SEQUENCES.with_borrow_mut(|sequences| {
        visit(sequences.entry(sequence).or_insert_with(|| {
            invalidation::watch(sequence);
            CachedSequence::EMPTY
        }))
    })
}

/// The permit of roles that lack UPDATE on the sequence.
pub fn permit(sequence: Oid) -> Permit {
    let found = PERMITS.with_borrow(|permits| permits.get(&sequence).copied());
    found.and_then(Cached::get).unwrap_or(Permit::Unknown)
}

/// Caches a permit that was looked up at this count.
pub fn set_permit(sequence: Oid, count: InvalidationCount, permit: Permit) {
    PERMITS.with_borrow_mut(|permits| permits.insert(sequence, Cached::new(count, permit)));
    with(sequence, |cached| cached.checked = None);
}

/// Where the sequence is placed; `None` where that has to be looked up.
pub fn placement(sequence: Oid) -> Option<Placement> {
    let found = PLACEMENTS.with_borrow(|placements| placements.get(&sequence).copied());
    found.and_then(Cached::get)
}

/// Caches a placement that was looked up at this count.
pub fn set_placement(sequence: Oid, count: InvalidationCount, placement: Placement) {
    PLACEMENTS.with_borrow_mut(|placements| placements.insert(sequence, Cached::new(count, placement)));
}

/// Has the placement of the sequence looked up again.
pub fn forget_placement(sequence: Oid) {
    PLACEMENTS.with_borrow_mut(|placements| placements.remove(&sequence));
    with(sequence, |cached| cached.checked = None);
}
