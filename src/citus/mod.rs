//! Citus: every node of a cluster has a copy of a sequence, and one of them is open.
//!
//! - [`placement`]: which node owns the schema of a sequence, and where a table's rows are, as Citus's catalogs have it
//! - [`handover`]: how a node takes a sequence over from the others

pub mod handover;
pub mod placement;
