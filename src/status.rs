//! The view `shards`: every shard of the database, how it stands, and whether it is at home here; and the library's version.

use crate::adopted;
use crate::catalog;
use crate::citus;
use crate::definition;
use crate::error::Error;
use crate::layout::{self, Shard};
use crate::names;
use crate::oid_types::{Regclass, Regnamespace};
use crate::sequence;
use crate::settings;
use crate::shard;
use crate::tick;
use pgrx::pg_sys::{self, panic::ErrorReport};
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

/// `shard_problem(shard, schema)`: what keeps the shard that this schema defines from generating its ids as it should; NULL
/// where all is well, or the schema does not define it. It reads the catalogs alone; a part of the view `shards`, and
/// STABLE, so that a query that does not ask for it does not pay for it.
#[pg_extern(stable, strict, parallel_unsafe)]
fn shard_problem(shard: i32, schema: Regnamespace, fcinfo: pg_sys::FunctionCallInfo) -> Option<String> {
    let own_schema = shard::schema_of_this_function(fcinfo);
    let Regnamespace(schema) = schema;
    settings::with(settings::OWN_NAMES, || {
        let name = definition::function_name(Shard::new(shard)?);
        let definition = definition::read(&catalog::function_in(schema, &name, &[])?)?;
        adopted::problem(&definition, own_schema)
    })
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
    requires = [shard_states, shard_problem, instagram_id_version]
);

/// `check_target_schema()`: the first thing that CREATE EXTENSION runs, and drops again.
///
/// # Errors
///
/// 42723 where the schema has a `next_id()` already, as the original is often called, with the way out; PostgreSQL's own
/// error would say no more than that.
#[pg_extern(sql = false)]
fn check_target_schema(fcinfo: pg_sys::FunctionCallInfo) -> Result<(), ErrorReport> {
    let own_schema = shard::schema_of_this_function(fcinfo);
    match catalog::function_in(own_schema, "next_id", &[]) {
        None => Ok(()),
        Some(taken) => {
            let (function, schema) = (names::function(taken.oid), names::raw_schema(own_schema));
            Err(Error::NextIdTaken { function, schema }.into())
        }
    }
}

extension_sql!(
    r#"
CREATE FUNCTION check_target_schema() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'check_target_schema_wrapper';
SELECT check_target_schema();
DROP FUNCTION check_target_schema();
"#,
    name = "check_target_schema",
    bootstrap
);

// Default privileges that take EXECUTE on functions from PUBLIC are not meant for these.
extension_sql_file!("../sql/grants.sql", name = "grants", finalize);
