//! This backend's cache of sequences.
//!
//! `nextval` looks up the caller's privilege and the sequence's options in the system caches on
//! every call. Here the result of that look-up is kept until an invalidation arrives
//! ([`crate::pg::invalidation`]).

use crate::pg::invalidation::{self, Cached, Catalog, InvalidationCount};
use crate::pg::raw::RelFileLocator;
use instagram_id_core::durable::DurableRecord;
use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, LocalTransactionId, Oid};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// A sequence as this backend last found it.
#[derive(Clone, Copy)]
pub struct CachedSequence {
    /// The result of the last look-up, and how long it is valid.
    pub checked: Option<(Validity, SequenceInfo)>,
    /// The permit of the same role, valid as long as `checked`.
    pub permit: Permit,
    /// The permit of roles that lack UPDATE. It is the same for all of them.
    pub permit_without_update: Option<Cached<Permit>>,
    /// Its placement, on a node of a cluster.
    pub placement: Option<Cached<Placement>>,
    /// The transaction that holds the lock on it.
    pub locked_in: LocalTransactionId,
    /// The shared buffer that its page was last in, or `InvalidBuffer`.
    pub buffer: pg_sys::Buffer,
    /// The file for which this backend has itself written a WAL record, or `InvalidOid`.
    pub logged_file: Oid,
    /// The last WAL record that this backend has made durable.
    pub flushed: Option<DurableRecord>,
    /// Whether the current visit has added entries to PostgreSQL's caches, which it evicts at its
    /// end.
    pub has_filled_caches: bool,
}

/// How long a cached result is valid: until an invalidation, and only for this role.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub count: InvalidationCount,
    pub role: Oid,
}

/// A sequence from which ids can be generated, by a role that may use it.
#[derive(Clone, Copy)]
pub struct SequenceInfo {
    pub locator: RelFileLocator,
    pub min_value: i64,
    /// Whether its changes are logged: not for a temporary or unlogged sequence, nor under
    /// `wal_level = minimal` in the transaction that created it, whose end invalidates this.
    pub needs_wal: bool,
    /// A temporary sequence of this session.
    pub is_local_temp: bool,
    pub placement: Placement,
    /// The group for which it was created, if that is not this node's by its catalogs.
    pub copy_of_another_group: Option<i32>,
}

/// Where ids are generated from a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// On this node, which has the only copy of it.
    Local,
    /// Each node of a cluster has a copy. This node is that of `group`.
    Copy {
        group: i32,
        /// Whether this node owns the schema, so that ids are generated from its copy.
        is_here: bool,
        /// Whether the node that owns the schema has its tables. Otherwise it is the
        /// coordinator.
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
    /// Any: the role has UPDATE, so it could set the sequence to any value.
    Any,
    /// Only those of this shard, counted from this epoch.
    Only(Shard, Epoch),
    /// Those of any shard, counted from this epoch or, without one, from any. But only if the
    /// sequence is not a counter, from which other statements take small numbers.
    OfSequence(Option<Epoch>),
}

impl Permit {
    #[inline(always)]
    pub fn allows(self, shard: Shard, epoch: Epoch) -> bool {
        match self {
            Permit::Any => true,
            Permit::Only(of, from) => of == shard && from == epoch,
            Permit::OfSequence(from) => from.is_none_or(|from| from == epoch),
            Permit::Unknown => false,
        }
    }
}

impl CachedSequence {
    const EMPTY: CachedSequence = CachedSequence {
        checked: None,
        permit: Permit::Unknown,
        permit_without_update: None,
        placement: None,
        locked_in: 0,
        buffer: pg_sys::InvalidBuffer as pg_sys::Buffer,
        logged_file: Oid::INVALID,
        flushed: None,
        has_filled_caches: false,
    };
}

/// The most sequences that are cached, eight for each possible shard. A session that creates, uses
/// and drops temporary sequences would otherwise need more and more memory.
const SEQUENCES_MAX: usize = 1 << 16;

thread_local! {
    static SEQUENCES: RefCell<FxHashMap<Oid, CachedSequence>> = RefCell::new(FxHashMap::default());
}

/// Calls `visit` with the cache entry of the sequence. `visit` must not call this function again,
/// because the map is borrowed.
pub fn with<T>(sequence: Oid, visit: impl FnOnce(&mut CachedSequence) -> T) -> T {
    SEQUENCES.with_borrow_mut(|sequences| {
        if let Some(cached) = sequences.get_mut(&sequence) {
            return visit(cached);
        }
        visit(new_entry(sequences, sequence))
    })
}

/// A new entry. If there are too many, or there is no memory for more, the cache is emptied: an
/// entry only saves a look-up, the lock that is held already, or a WAL record.
#[cold]
fn new_entry(sequences: &mut FxHashMap<Oid, CachedSequence>, sequence: Oid) -> &mut CachedSequence {
    if sequences.len() == SEQUENCES_MAX || sequences.try_reserve(1).is_err() {
        sequences.clear();
        invalidation::forget_watched();
    }
    invalidation::watch(sequence);
    invalidation::watch_row(Catalog::Sequence, sequence);
    sequences.entry(sequence).or_insert(CachedSequence::EMPTY)
}

/// The number of cached sequences.
#[cfg(any(test, feature = "pg_test"))]
pub fn len() -> usize {
    SEQUENCES.with_borrow(FxHashMap::len)
}

/// Caches a permit that was looked up at this count.
pub fn set_permit(sequence: Oid, count: InvalidationCount, permit: Permit) {
    with(sequence, |cached| {
        cached.permit_without_update = Some(Cached::new(count, permit));
        cached.checked = None;
    });
}

/// Caches a placement that was looked up at this count; or removes it from the cache, so that it is
/// looked up again.
pub fn set_placement(sequence: Oid, placement: Option<Cached<Placement>>) {
    with(sequence, |cached| {
        cached.placement = placement;
        cached.checked = None;
    });
}
