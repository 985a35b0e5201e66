//! Sharded, time-sortable 64-bit ids for PostgreSQL, after Instagram's published design.
//!
//! The parts that know nothing of PostgreSQL, the rule of the generator among them, are the crate
//! [`instagram_id_core`] in `core/`.
//!
//! The SQL functions, one file a topic:
//! - [`generate`]: `next_id`, `next_ids`, `node_next_id`
//! - [`decode`]: `id_time`, `id_shard`, `id_seq`, `id_parts`, `make_id`, `id_floor`, `id_between`, `shard_for`,
//!   `id_to_shortcode`, `shortcode_to_id`
//! - [`backfill`]: `backfill_id`, ids for rows of the past
//! - [`explain`]: `id_explain`, an id for people to look at
//! - [`partition`]: `create_partitions`, `drop_partitions`
//! - [`shard`]: `create_shard`, `advance_shard`, `claim_shard`, and the way from a shard to its sequence
//! - [`adopt`]: `adopt_shard`, `unadopt_shard`, `adopt_table`
//! - [`trigger`]: `create_id_triggers`, `assign_id`, ids by a trigger instead of a default
//! - [`status`]: the view `shards`, `instagram_id_version`
//!
//! What carries them:
//! - [`sequence`]: the sequence page: lock, read, apply the rule, write WAL
//! - [`citus`]: on which node of a Citus cluster a sequence is at home, and how it is handed over
//! - [`plan`]: what a shard consists of, and the statements that make it
//! - [`adopted`]: which functions of a shard were adopted, and whether they still generate its ids
//! - [`rights`]: whether the roles that could insert before an adoption can insert after it
//! - [`definition`]: what makes a schema a shard, and how one is found by its number
//! - [`catalog`]: schemas, functions with their bodies and partitions, as PostgreSQL's catalogs have them
//! - [`query`]: statements run through SPI
//! - [`known`]: what a backend remembers about sequences, and when it forgets
//! - [`sys`]: PostgreSQL's C functions and macros; with [`sequence`], where the unsafe code is
//! - [`arguments`], [`error`], [`names`], [`settings`], [`oid_types`]

mod adopt;
mod adopted;
mod arguments;
mod backfill;
mod catalog;
mod citus;
mod decode;
mod definition;
mod error;
mod explain;
mod generate;
mod known;
mod names;
mod oid_types;
mod partition;
mod plan;
mod query;
mod rights;
mod sequence;
mod settings;
mod shard;
mod status;
mod sys;
#[cfg(any(test, feature = "pg_test"))]
mod tests;
mod trigger;

use instagram_id_core::{epoch, layout, original, shortcode, tick};
use pgrx::prelude::*;

pgrx::pg_module_magic!(name, version);

/// Called when a backend first loads the library: at the first use of a function, or at the server's start
/// where it is preloaded, which is allowed but not needed.
#[pg_guard]
extern "C-unwind" fn _PG_init() {
    settings::register();
    known::register_callbacks();
}

/// `cargo pgrx test` looks for this at the crate's root.
#[cfg(test)]
pub mod pg_test {
    pub fn setup(_options: Vec<&str>) {}

    #[must_use]
    pub fn postgresql_conf_options() -> Vec<&'static str> {
        vec![]
    }
}
