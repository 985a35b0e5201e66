//! Shards as schemas: making one, and finding the sequence of one.

use crate::arguments;
use crate::error::Error;
use crate::known;
use crate::layout::Shard;
use crate::names;
use crate::oid_types::Regnamespace;
use pgrx::pg_sys::{self, AsPgCStr, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;
use std::ffi::CStr;

/// The name of every shard's sequence, as in the original.
pub const SEQUENCE: &str = "table_id_seq";

/// The name of a shard's schema, as in the original.
fn schema_name(shard: Shard) -> String {
    format!("insta{}", shard.number())
}

/// `create_shard(shard)`: makes schema `insta<shard>`, its sequence and its `next_id()`. They belong to the
/// caller, not to the extension, so they are dumped with the schema.
///
/// `next_id()` has a `RETURN` body: parsed here once, it follows no search_path later, is inlined into the
/// column defaults that call it, and is dumped after its sequence.
///
/// # Errors
///
/// 22004 without a shard, 22023 for one outside 0..8191, 42P06 where the schema is there already, 42501 without
/// the right to create schemas in this database.
#[pg_extern(volatile, parallel_unsafe)]
fn create_shard(shard: Option<i32>, fcinfo: pg_sys::FunctionCallInfo) -> Result<Regnamespace, ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let (number, schema) = (shard.number(), schema_name(shard));
    if namespace_oid(&schema) != Oid::INVALID {
        return Err(Error::ShardExists { shard: number, schema }.into());
    }
    // The schema that this very function lives in is the extension's; of the names here only it may need quotes.
    // SAFETY: PostgreSQL passes a call's fcinfo with its flinfo.
    let own_schema =
        unsafe { pg_sys::get_namespace_name(pg_sys::get_func_namespace((*(*fcinfo).flinfo).fn_oid)) };
    // SAFETY: the schema of a function that is running exists, so this is a C string.
    let own_schema = quote_identifier(unsafe { CStr::from_ptr(own_schema) }.to_string_lossy());
    Spi::run(&format!(
        "CREATE SCHEMA {schema};
         COMMENT ON SCHEMA {schema} IS 'logical shard {number} of instagram_id';
         CREATE SEQUENCE {schema}.{SEQUENCE} AS pg_catalog.int8;
         COMMENT ON SEQUENCE {schema}.{SEQUENCE} IS 'last issued id of shard {number} without its shard bits';
         CREATE FUNCTION {schema}.next_id() RETURNS pg_catalog.int8
             LANGUAGE sql VOLATILE PARALLEL UNSAFE
             RETURN {own_schema}.next_id({number}, '{schema}.{SEQUENCE}'::pg_catalog.regclass);
         COMMENT ON FUNCTION {schema}.next_id() IS 'next id of shard {number}'"
    ))
    .unwrap_or_else(|error| unreachable!("PostgreSQL reports a failed statement itself: {error}"));
    Ok(Regnamespace(namespace_oid(&schema)))
}

/// The sequence that makes a shard's ids: `insta<shard>.table_id_seq`. It may be renamed or dropped until it is
/// locked; what was found holds in the era that it was asked for in.
///
/// # Errors
///
/// 42P01 where the schema or the sequence is missing, 42501 without USAGE on the schema.
pub fn sequence_of(shard: Shard) -> Result<Oid, Error> {
    // SAFETY: reads a variable of the backend.
    let role = unsafe { pg_sys::GetUserId() };
    if let Some(sequence) = known::recall_shard(shard.number(), role) {
        return Ok(sequence);
    }
    let era = known::era();
    let name = schema_name(shard);
    let schema = namespace_oid(&name);
    if schema == Oid::INVALID {
        return Err(Error::ShardMissing { shard: shard.number(), schema: name });
    }
    if !may_use_schema(schema, role) {
        return Err(Error::NoRightOnSchema { name, role: names::current_role() });
    }
    let sequence = relation_oid(SEQUENCE, schema);
    if sequence == Oid::INVALID {
        let sequence = format!("{name}.{SEQUENCE}");
        return Err(Error::ShardWithoutSequence { shard: shard.number(), sequence });
    }
    known::remember_shard(shard.number(), era, role, sequence);
    Ok(sequence)
}

/// The schema of that name, or `InvalidOid`.
fn namespace_oid(name: &str) -> Oid {
    // SAFETY: the name is copied to a C string.
    unsafe { pg_sys::get_namespace_oid(name.as_pg_cstr(), true) }
}

/// The relation of that name in a schema, or `InvalidOid`.
fn relation_oid(name: &str, schema: Oid) -> Oid {
    // SAFETY: the name is copied to a C string.
    unsafe { pg_sys::get_relname_relid(name.as_pg_cstr(), schema) }
}

fn may_use_schema(schema: Oid, role: Oid) -> bool {
    let usage = pg_sys::ACL_USAGE as pg_sys::AclMode;
    // SAFETY: asks the catalogs; a schema dropped meanwhile is an error of PostgreSQL's own.
    let result = unsafe {
        #[cfg(feature = "pg15")]
        {
            pg_sys::pg_namespace_aclcheck(schema, role, usage)
        }
        #[cfg(not(feature = "pg15"))]
        {
            pg_sys::object_aclcheck(pg_sys::NamespaceRelationId, schema, role, usage)
        }
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

extension_sql!(
    r#"
COMMENT ON FUNCTION create_shard(integer) IS
'makes a logical shard (0 to 8191): schema insta<shard>, its sequence table_id_seq and its function next_id()';
"#,
    name = "comments_shard",
    requires = [create_shard],
);
