//! How COPY inserts in batches although a column's default is `next_id()`.
//!
//! COPY inserts row by row if a default is volatile, except if `nextval` is the only volatile
//! function in it. So outside of queries PostgreSQL plans `_next_id(shard, seq, epoch,
//! nextval(...))` in place of `next_id(shard, seq, epoch)`:
//!
//! - `_next_id` is `next_id`. It is labelled STABLE, but **an expression with `nextval` counts as
//!   volatile, whatever surrounds it**. So it is evaluated for each row, everywhere, as before.
//! - This `nextval` has the argument NULL and is strict, so PostgreSQL does not run it. No sequence
//!   is touched but by `next_id` itself.
//!
//! In a query, where a plan could rely on the label, the call stays as it is. `_next_id` refuses to
//! run without the `nextval`, so that nobody calls it as the stable function that it is not. A call
//! that a role has written itself, with a `nextval` of its own, needs the privilege to call
//! `next_id`.

use crate::error::{Error, or_raise};
use crate::functions::next_id;
use crate::pg::catalog;
use crate::pg::planner::{self, Call};
use crate::pg::reg_types::Regclass;
use pgrx::datum::Internal;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;

/// The function beside `next_id` that is called in its place.
const NAME: &str = "_next_id";

/// The functions in whose place it is called.
const IN_PLACE_OF: [&str; 2] = ["next_id", "shard_next_id"];

/// The parameters of the forms of `next_id`: the first 0 to 3 of these.
const PARAMETERS: [Oid; 3] = [pg_sys::INT4OID, pg_sys::REGCLASSOID, pg_sys::TIMESTAMPTZOID];

/// The planner support function of `next_id` in its forms. It has no effect but on its result,
/// because the planner also calls it for estimates.
#[pg_extern(sql = false)]
fn next_id_support(request: Internal) -> Internal {
    let in_place =
        Call::outside_query(request).and_then(|call| Some(call.with_nextval(function_for(&call)?)));
    in_place.unwrap_or_else(planner::unchanged)
}

/// The function that is called in place of the call's, unless the role may call one of them and not
/// the other.
fn function_for(call: &Call) -> Option<Oid> {
    let mut parameters = PARAMETERS.get(..call.arguments_len())?.to_vec();
    parameters.push(pg_sys::INT8OID);
    let schema = catalog::schema_of_function(call.function());
    let function = catalog::function_in(schema, NAME, &parameters)?.oid;
    (catalog::may_execute(call.function()) && planner::may_execute_with_nextval(function))
        .then_some(function)
}

/// Generates an id in a call that [`next_id_support`] has made. Any other call is an error.
#[inline]
fn in_place(fcinfo: pg_sys::FunctionCallInfo, next_id: impl FnOnce() -> Result<i64, Error>) -> i64 {
    or_raise(|| {
        if !planner::is_with_nextval(fcinfo) {
            return Err(Error::OnlyOutsideQueries);
        }
        if planner::is_first_call(fcinfo) {
            check_execute(fcinfo);
        }
        next_id()
    })
}

/// Checks that the role may call one of the functions in whose place this one is called. As for any
/// function, this is checked once for each call in an expression.
#[cold]
fn check_execute(fcinfo: pg_sys::FunctionCallInfo) {
    let schema = catalog::schema_of_this_function(fcinfo);
    let parameters = &PARAMETERS[..planner::arguments_len(fcinfo) - 1];
    let may_execute = |name: &&str| {
        catalog::function_in(schema, name, parameters)
            .is_some_and(|function| catalog::may_execute(function.oid))
    };
    if !IN_PLACE_OF.iter().any(may_execute) {
        catalog::refuse_execute(IN_PLACE_OF[0]);
    }
}

/// `next_id()`
#[pg_extern(sql = false)]
fn copy_id_of_setting(_nextval: Option<i64>, fcinfo: pg_sys::FunctionCallInfo) -> i64 {
    in_place(fcinfo, next_id::of_setting)
}

/// `next_id(shard)`
#[pg_extern(sql = false)]
fn copy_id_of_shard(
    shard: Option<i32>,
    _nextval: Option<i64>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> i64 {
    in_place(fcinfo, || next_id::of_shard(shard))
}

/// `next_id(shard, seq)`
#[pg_extern(sql = false)]
fn copy_id_of_sequence(
    shard: Option<i32>,
    seq: Option<Regclass>,
    _nextval: Option<i64>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> i64 {
    in_place(fcinfo, || next_id::of_sequence(shard, seq))
}

/// `next_id(shard, seq, epoch)`, and `shard_next_id(shard, seq, epoch)`
#[pg_extern(sql = false)]
fn copy_id_of_sequence_and_epoch(
    shard: Option<i32>,
    seq: Option<Regclass>,
    epoch: Option<TimestampWithTimeZone>,
    _nextval: Option<i64>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> i64 {
    in_place(fcinfo, || next_id::of_sequence_and_epoch(shard, seq, epoch))
}
