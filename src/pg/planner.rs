//! Planner support: PostgreSQL plans another call in place of one of the extension's.

use crate::pg::catalog;
use pgrx::datum::Internal;
use pgrx::pg_sys::{self, Datum, NodeTag, Oid};
use pgrx::{PgList, is_a};
use std::ffi::c_int;

/// A call outside of a query: in the default of a column that COPY or ALTER TABLE evaluates, in a
/// CHECK constraint, and so on. Estimates of the planner look the same; their result is thrown
/// away.
pub struct Call(*mut pg_sys::FuncExpr);

impl Call {
    /// The call that a planner support function is asked to simplify. `None` for a call in a query,
    /// and for the other requests.
    pub fn outside_query(request: Internal) -> Option<Call> {
        let request = request.unwrap()?.cast_mut_ptr::<pg_sys::Node>();
        // SAFETY: PostgreSQL passes a support function a node, whose type is that of its tag.
        unsafe {
            if !is_a(request, NodeTag::T_SupportRequestSimplify) {
                return None;
            }
            let request = &*request.cast::<pg_sys::SupportRequestSimplify>();
            request.root.is_null().then_some(Call(request.fcall))
        }
    }

    pub fn function(&self) -> Oid {
        // SAFETY: PostgreSQL keeps the call while the support function runs.
        unsafe { (*self.0).funcid }
    }

    pub fn arguments_len(&self) -> usize {
        // SAFETY: as for `function`.
        PgList::<pg_sys::Node>::len(&unsafe { PgList::from_pg((*self.0).args) })
    }

    /// A call of a function with the same result, with these arguments and one more: `nextval` of
    /// no sequence. PostgreSQL counts an expression with `nextval` as volatile. But `nextval` does
    /// not run: no relation has a file of the number 0, so its argument is NULL, and it is strict.
    pub fn with_nextval(&self, function: Oid) -> Internal {
        // SAFETY: the nodes have the types of the functions' arguments and results. They are
        // allocated where PostgreSQL expects the result. It keeps the arguments of the call, and
        // the list of them is copied.
        let call = unsafe {
            let zero = || {
                let length = size_of::<Oid>() as c_int;
                let zero = Datum::from(0);
                pg_sys::makeConst(pg_sys::OIDOID, -1, Oid::INVALID, length, zero, false, true)
                    .cast()
            };
            let no_sequence = expression(
                pg_sys::F_PG_FILENODE_RELATION.into(),
                pg_sys::REGCLASSOID,
                &[zero(), zero()],
            );
            let nextval = expression(pg_sys::F_NEXTVAL.into(), pg_sys::INT8OID, &[no_sequence]);
            let call = &*self.0;
            let arguments = PgList::<pg_sys::Node>::from_pg(call.args);
            let arguments: Vec<_> = arguments.iter_ptr().chain([nextval]).collect();
            expression(function, call.funcresulttype, &arguments)
        };
        Internal::from(Some(Datum::from(call)))
    }
}

/// The answer of a support function that leaves the call as it is.
pub fn unchanged() -> Internal {
    Internal::from(Some(Datum::from(0)))
}

/// A call of a function.
///
/// # Safety
///
/// The function must have this result and parameters of the types of these arguments.
unsafe fn expression(
    function: Oid,
    result: Oid,
    arguments: &[*mut pg_sys::Node],
) -> *mut pg_sys::Node {
    let mut list = PgList::new();
    for argument in arguments {
        list.push(*argument);
    }
    let (none, form) = (Oid::INVALID, pg_sys::CoercionForm::COERCE_EXPLICIT_CALL);
    // SAFETY: promised by the caller.
    unsafe { pg_sys::makeFuncExpr(function, result, list.into_pg(), none, none, form).cast() }
}

/// Whether the last argument of the call that this function runs for is a call of `nextval`.
#[inline]
pub fn is_with_nextval(fcinfo: pg_sys::FunctionCallInfo) -> bool {
    // SAFETY: PostgreSQL passes an fcinfo with an flinfo. If it has an expression, this is the node
    // of the call, with the function's arguments.
    unsafe {
        let call = (*(*fcinfo).flinfo).fn_expr;
        if call.is_null() || !is_a(call, NodeTag::T_FuncExpr) {
            return false;
        }
        let arguments = (*call.cast::<pg_sys::FuncExpr>()).args;
        if arguments.is_null() {
            return false;
        }
        let last = (*(*arguments).elements.add((*arguments).length as usize - 1)).ptr_value;
        is_a(last.cast(), NodeTag::T_FuncExpr)
            && (*last.cast::<pg_sys::FuncExpr>()).funcid == Oid::from(pg_sys::F_NEXTVAL)
    }
}

/// Whether this is the first call of the function at its place in an expression.
#[inline]
pub fn is_first_call(fcinfo: pg_sys::FunctionCallInfo) -> bool {
    // SAFETY: PostgreSQL passes an fcinfo with an flinfo, whose `fn_extra` is the function's to
    // use. It is NULL until the first call, and afterwards a pointer that nothing follows.
    unsafe {
        let flinfo = (*fcinfo).flinfo;
        std::ptr::replace(&raw mut (*flinfo).fn_extra, flinfo.cast()).is_null()
    }
}

/// The number of arguments of a call.
pub fn arguments_len(fcinfo: pg_sys::FunctionCallInfo) -> usize {
    // SAFETY: PostgreSQL passes the arguments of a call.
    unsafe { (*fcinfo).nargs as usize }
}

/// Whether the current role may call all functions of a call [`Call::with_nextval`].
pub fn may_execute_with_nextval(function: Oid) -> bool {
    let functions = [function, pg_sys::F_NEXTVAL.into(), pg_sys::F_PG_FILENODE_RELATION.into()];
    functions.into_iter().all(catalog::may_execute)
}
