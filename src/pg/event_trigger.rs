//! Event triggers.

use crate::pg::sys::{EventTriggerData, NoLock};
use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;

/// The event, such as `ddl_command_end`, if an event trigger has called the function.
pub fn event(fcinfo: pg_sys::FunctionCallInfo) -> Option<&'static CStr> {
    // SAFETY: the name of an event is a constant.
    data(fcinfo).map(|data| unsafe { CStr::from_ptr(data.event) })
}

/// The schema of the table that the statement of the event creates; `None` if it is none that
/// creates one table, or if the schema is `pg_temp`.
pub fn schema_of_new_table(fcinfo: pg_sys::FunctionCallInfo) -> Option<Oid> {
    let statement = data(fcinfo)?.parsetree;
    // SAFETY: the statement that PostgreSQL has carried out, with its tag. The name is looked up as
    // it was then, without a lock.
    unsafe {
        if statement.is_null() || (*statement).type_ != pg_sys::NodeTag::T_CreateStmt {
            return None;
        }
        let relation = (*statement.cast::<pg_sys::CreateStmt>()).relation;
        if !(*relation).schemaname.is_null() {
            // Looked up without USAGE on it, which the statement does not require either.
            let schema = pg_sys::get_namespace_oid((*relation).schemaname, true);
            return (schema != Oid::INVALID).then_some(schema);
        }
        let table = pg_sys::RangeVarGetRelidExtended(
            relation,
            NoLock,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        );
        (table != Oid::INVALID).then(|| pg_sys::get_rel_namespace(table))
    }
}

fn data<'a>(fcinfo: pg_sys::FunctionCallInfo) -> Option<&'a EventTriggerData> {
    // SAFETY: PostgreSQL passes a call's arguments. The tag of the context says what it is.
    unsafe {
        let context = (*fcinfo).context;
        let is_event =
            !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_EventTriggerData;
        is_event.then(|| &*context.cast::<EventTriggerData>())
    }
}
