//! The page of a sequence: its content, and how it is read and written.
//!
//! A port of PostgreSQL's `nextval_internal` (commands/sequence.c), with the hybrid logical clock
//! of [`instagram_id_core::hlc`] in place of `+ 1`. Locks, privileges, WAL and critical sections
//! are the same. One step is left out: `nextval` also resets an xmax that a `SELECT FOR UPDATE` in
//! an ancient release may have left in the tuple. Nothing here reads it.
//!
//! - [`cache`]: what this backend has cached about sequences
//! - [`refusal`]: the reason why a sequence could not be used, as plain data, and the error for it
//! - [`read`]: reads the page without changing it
//! - [`page`]: the locked page: apply the clock, close, open, write WAL
//! - [`check`]: checks whether the sequence may be used now, on this node, by this role
//! - [`placement`]: the node that owns a sequence's schema, and the nodes that store a table's rows,
//!   by Citus's catalogs
//! - [`visit`]: lock, check, act, flush: the operations that the rest of the extension calls

pub mod cache;
pub mod check;
pub mod page;
pub mod placement;
pub mod read;
pub mod refusal;
pub mod visit;

use instagram_id_core::epoch::Epoch;
use pgrx::pg_sys::Oid;

/// A sequence, and the instant that its milliseconds count from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdSequence {
    pub oid: Oid,
    pub epoch: Epoch,
}

/// Each node of a Citus cluster has a copy of a sequence. The policy says which copy may be used.
/// Without a cluster it has no effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CopyPolicy {
    /// The copy on the node that owns the schema, after that node has taken the sequence over from
    /// all other nodes.
    SchemaNode,
    /// The same, for a caller that passes how far the sequence has advanced. So it also works if
    /// the node that recorded this is lost.
    SchemaNodeWithFloor,
    /// The copy on the node that stores the row. That node owns the schema, but during a move its
    /// own catalogs may not show that yet.
    RowNode,
    /// The copy on this node, whichever node owns the schema.
    EveryNode,
    /// The copy on this node, only to check it.
    Any,
    /// The copy on this node, only to close it for another node.
    Close,
}

impl CopyPolicy {
    /// Whether the copy must be open. At most one copy of a sequence is.
    pub fn needs_open(self) -> bool {
        matches!(
            self,
            CopyPolicy::SchemaNode | CopyPolicy::SchemaNodeWithFloor | CopyPolicy::RowNode
        )
    }

    /// Whether the node must own the schema by its own catalogs.
    pub fn needs_placement(self) -> bool {
        matches!(self, CopyPolicy::SchemaNode | CopyPolicy::SchemaNodeWithFloor)
    }
}
