//! Rust wrappers for PostgreSQL. Nothing here depends on the rules for ids, on shards or on Citus.

pub mod catalog;
pub mod guc;
pub mod invalidation;
pub mod names;
pub mod partitions;
pub mod reg_types;
pub mod spi;
pub mod sys;
pub mod transaction;
