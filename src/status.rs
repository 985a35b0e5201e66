//! The view `shards`: every shard of the database, how it stands, and whether it is at home here; and the library's version.

use crate::citus;
use crate::definition;
use crate::layout;
use crate::names;
use crate::oid_types::{Regclass, Regnamespace};
use crate::sequence;
use crate::tick;
use pgrx::prelude::*;

/// `shard_states()`: one row for each shard of the database, in the order of their numbers; a part of the view
/// `shards`. On a Citus cluster a shard is at home where its ids are made. The last id is NULL where there is none yet, or
/// none that the caller may see: as `pg_sequences` does it asks for SELECT, USAGE or UPDATE on the sequence.
#[pg_extern(volatile, parallel_unsafe)]
fn shard_states() -> TableIterator<
    'static,
    (
        name!(shard, i32),
        name!(schema, Regnamespace),
        name!(sequence, Regclass),
        name!(epoch, TimestampWithTimeZone),
        name!(last_id, Option<i64>),
        name!(at_home, bool),
    ),
> {
    let mut shards = vec![];
    definition::visit_all(|definition| shards.push(definition));
    shards.sort_by_key(|definition| (definition.shard.number(), definition.schema.to_u32()));
    let here = definition::this_database();
    let of_cluster = citus::at_home();
    TableIterator::new(shards.into_iter().map(move |definition| {
        let clock = definition.clock;
        let last_value =
            sequence::last_value(clock.sequence).filter(|value| (0..=tick::VALUE_MAX).contains(value));
        (
            definition.shard.number().into(),
            Regnamespace(definition.schema),
            Regclass(clock.sequence),
            names::timestamp(clock.epoch.at()),
            last_value.map(|value| layout::id_of(value, definition.shard)),
            of_cluster.as_ref().map_or(definition.home == here, |at_home| at_home.contains(&clock.sequence)),
        )
    }))
}

/// `instagram_id_version()`: the version of the library that the session has loaded, such as `0.2.0`. A session that was
/// open before a new one was installed goes on with the old one.
#[pg_extern(stable, parallel_safe)]
fn instagram_id_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

extension_sql_file!(
    "../sql/shards.sql",
    name = "view_shards",
    requires = [shard_states, instagram_id_version]
);
