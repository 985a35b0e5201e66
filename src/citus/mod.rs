//! Citus: every node of a cluster has a copy of a sequence, and one of them is open.
//!
//! - [`copies`]: the commands that a node runs on the others to take sequences over
//! - [`takeover`]: how a node takes a sequence over from the others

pub mod copies;
pub mod takeover;
