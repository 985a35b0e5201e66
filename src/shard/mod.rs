//! A shard is a schema with a sequence, several functions, and one function that defines it.
//!
//! - [`definition`]: the function that makes a schema a shard, and finding a shard by its number
//! - [`columns`]: the columns that a function or a shard fills with ids, and the newest id in them
//! - [`ddl`]: the parts of a shard, and the statements that create them
//! - [`generated`]: the ids that a call generates
//! - [`lookup`]: from a shard's number to its sequence, cached
//! - [`related`]: the tables whose owners' code runs when a table with partitions is changed
//! - [`trust`]: the rule about the owners of a shard's parts

pub mod columns;
pub mod ddl;
pub mod definition;
pub mod generated;
pub mod lookup;
pub mod related;
pub mod trust;
