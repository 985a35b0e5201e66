//! Citus: every node of a cluster has a copy of a sequence, and one of them is open.
//!
//! - [`placement`]: the node that owns a sequence's schema, and the nodes that store a table's
//!   rows, by Citus's catalogs
//! - [`copies`]: the commands that a node runs on the others to take sequences over
//! - [`takeover`]: how a node takes a sequence over from the others

pub mod copies;
pub mod placement;
pub mod takeover;
