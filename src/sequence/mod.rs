//! The page of a sequence, and nothing else: what is on it, and how it is read and written.
//!
//! PostgreSQL's `nextval_internal` (commands/sequence.c) with the hybrid logical clock of [`instagram_id_core::hlc`] in place
//! of `+ 1`. Locks, privileges, WAL and critical sections are as there. One thing is left to `nextval`: it also resets the
//! xmax that a `SELECT FOR UPDATE` in an ancient release could leave in the tuple, which nothing here looks at.
//!
//! - [`copy`]: what the tuple records about opening and closing
//! - [`cache`]: what this backend has found out about sequences
//! - [`refusal`]: why a sequence could not be used, as plain data, and the error for it
//! - [`read`]: reads the page without changing it
//! - [`page`]: the locked page: apply the clock, close, open, write WAL
//! - [`check`]: whether the sequence may be used now, here, by this role
//! - [`visit`]: lock, check, act, flush: the operations that the rest of the extension calls

pub mod cache;
pub mod check;
pub mod copy;
pub mod page;
pub mod read;
pub mod refusal;
pub mod visit;

use instagram_id_core::epoch::Epoch;
use pgrx::pg_sys::Oid;

/// A sequence, and the instant that its milliseconds count from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    pub sequence: Oid,
    pub epoch: Epoch,
}

/// Which of the copies that the nodes of a cluster have of a sequence may be used. Without a cluster it makes no difference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CopyPolicy {
    /// The one on the node that owns the schema, once it has been taken over from all other nodes.
    Owner,
    /// The same for a caller who knows how far the sequence came, also where a node is lost that would know.
    OwnerAsTold,
    /// The one on the node that stores the row. That node owns the schema; during a move the session may learn so before
    /// the node's catalogs do.
    RowNode,
    /// Each node's own, as if there were no other copies.
    EveryNode,
    /// This one, to look at it or to close it.
    Any,
}

impl CopyPolicy {
    /// Whether ids are generated from the one copy that is open.
    pub fn needs_open(self) -> bool {
        matches!(self, CopyPolicy::Owner | CopyPolicy::OwnerAsTold | CopyPolicy::RowNode)
    }

    /// Whether the node must own the schema by its own catalogs.
    pub fn needs_placement(self) -> bool {
        matches!(self, CopyPolicy::Owner | CopyPolicy::OwnerAsTold)
    }
}
