//! Rust wrappers of PostgreSQL: its C functions, catalogs, invalidations, transactions and
//! settings. Nothing here generates ids.

pub mod cancel;
pub mod catalog;
pub mod deadline;
pub mod default;
pub mod dependents;
pub mod errors;
pub mod event_trigger;
pub mod greatest;
pub mod guc;
pub mod invalidation;
pub mod lock_waits;
pub mod locks;
pub mod names;
pub mod parsed_body;
pub mod partitions;
pub mod planner;
pub mod raw;
pub mod reg_types;
pub mod roles;
pub mod spi;
pub mod subtransaction;
pub mod sys;
pub mod text;
pub mod transaction;
pub mod wait_event;
pub mod window;
