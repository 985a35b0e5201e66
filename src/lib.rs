//! Sharded, time-sortable 64-bit ids for PostgreSQL, after Instagram's published design.
//!
//! The layers, from the bottom up. A module imports only from layers below it, and a test enforces
//! that. See docs/inside/architecture.md.
//!
//! - [`instagram_id_core`], a separate crate in `core/`: all that does not need PostgreSQL, such as
//!   the hybrid logical clock
//! - [`error`]: every error, with SQLSTATE, message, detail and hint
//! - [`pg`]: Rust wrappers for PostgreSQL
//! - [`arguments`]: checks of arguments that several SQL functions have
//! - [`sequence`]: the page of a sequence
//! - [`shard`] and [`citus`]: shards as schemas; the copies of a sequence on the nodes of a cluster
//! - [`generator`]: the loop that generates ids
//! - [`adopt`]: shards that run the PL/pgSQL original
//! - [`functions`]: the SQL functions, one file per topic

mod adopt;
mod arguments;
mod citus;
mod error;
mod functions;
mod generator;
mod pg;
mod sequence;
mod shard;
#[cfg(any(test, feature = "pg_test"))]
mod tests;

use pgrx::prelude::*;

// The package has another name for PostgreSQL 19.
pgrx::pg_module_magic!(name = c"instagram_id", version);

/// Called when a backend loads the library: on the first use of a function, or at server start if
/// the library is preloaded. Preloading is allowed but not needed.
#[pg_guard]
extern "C-unwind" fn _PG_init() {
    pg::errors::register_panic_hook();
    pg::guc::register();
    // SAFETY: a backend loads the library only once.
    unsafe {
        pg::invalidation::register_callbacks();
        pg::transaction::register_callback();
    }
}

/// Required by pgrx-tests at the crate's root.
#[cfg(test)]
pub mod pg_test {
    pub fn setup(_options: Vec<&str>) {}

    #[must_use]
    pub fn postgresql_conf_options() -> Vec<&'static str> {
        vec![]
    }
}
