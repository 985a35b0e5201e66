//! The parsed body of a function: what a plain SELECT of expressions selects. It is never run.

use crate::pg::text::NAME_LIMIT;
use instagram_id_core::epoch::TimestampUs;
use pgrx::pg_sys::{self, Datum, NodeTag, Oid};
use pgrx::{PgList, is_a};
use std::ffi::CStr;

/// The expressions that the only statement of a parsed body selects.
pub unsafe fn selected(body: *mut pg_sys::Node) -> Option<Vec<Expression>> {
    // SAFETY: the caller passes the node from pg_proc.prosqlbody. That is a query, or for BEGIN
    // ATOMIC a list of a list of queries.
    unsafe {
        let mut node = body;
        while is_a(node, NodeTag::T_List) {
            let list = PgList::<pg_sys::Node>::from_pg(node.cast());
            if list.len() != 1 {
                return None;
            }
            node = list.get_ptr(0)?;
        }
        // An empty list is a null pointer.
        if !is_a(node, NodeTag::T_Query) {
            return None;
        }
        let query = &*node.cast::<pg_sys::Query>();
        let is_plain = query.commandType == pg_sys::CmdType::CMD_SELECT
            && query.rtable.is_null()
            && query.cteList.is_null()
            && query.setOperations.is_null()
            && query.groupClause.is_null()
            && query.groupingSets.is_null()
            && query.havingQual.is_null()
            && query.windowClause.is_null()
            && query.distinctClause.is_null()
            && query.limitCount.is_null()
            && query.limitOffset.is_null()
            && (query.jointree.is_null() || (*query.jointree).quals.is_null());
        if !is_plain {
            return None;
        }
        let targets = PgList::<pg_sys::TargetEntry>::from_pg(query.targetList);
        Some(targets.iter_ptr().map(|target| Expression((*target).expr.cast())).collect())
    }
}

/// An expression in a function's body, or a default.
#[derive(Clone, Copy)]
pub struct Expression(*mut pg_sys::Node);

impl Expression {
    /// # Safety
    ///
    /// The node must be an expression, and live as long as this.
    pub unsafe fn of_node(node: *mut pg_sys::Node) -> Expression {
        Expression(node)
    }

    /// Its value, if it is a non-NULL constant of that type.
    pub fn constant(self, of_type: Oid) -> Option<Datum> {
        // SAFETY: the type of a node is that of its tag.
        unsafe {
            if !is_a(self.0, NodeTag::T_Const) {
                return None;
            }
            let constant = &*self.0.cast::<pg_sys::Const>();
            (constant.consttype == of_type && !constant.constisnull).then_some(constant.constvalue)
        }
    }

    pub fn oid(self, of_type: Oid) -> Option<Oid> {
        Some(Oid::from(self.constant(of_type)?.value() as u32))
    }

    pub fn time(self) -> Option<TimestampUs> {
        Some(self.constant(pg_sys::TIMESTAMPTZOID)?.value() as TimestampUs)
    }

    /// Whether it is the function's parameter of that number, counted from 1.
    pub fn is_parameter(self, number: i32) -> bool {
        // SAFETY: as for `constant`.
        unsafe {
            is_a(self.0, NodeTag::T_Param) && (*self.0.cast::<pg_sys::Param>()).paramid == number
        }
    }

    /// Its value, if it is a text that is not longer than a name.
    pub fn text(self) -> Option<String> {
        let datum = self.constant(pg_sys::TEXTOID)?;
        // SAFETY: a constant of type text points to a text.
        if unsafe { pg_sys::toast_raw_datum_size(datum) } - size_of::<u32>() >= NAME_LIMIT {
            return None;
        }
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(pg_sys::text_to_cstring(datum.cast_mut_ptr())) };
        text.to_str().ok().map(str::to_owned)
    }

    /// The function that it calls with nothing but constants of these types, and these constants.
    pub fn call_with_constants(self, types: &[Oid]) -> Option<(Oid, Vec<Expression>)> {
        let is_constant = |one: &Expression| types.iter().any(|it| one.constant(*it).is_some());
        self.call().filter(|(_, arguments)| arguments.iter().all(is_constant))
    }

    /// The function that it calls, and the arguments.
    pub fn call(self) -> Option<(Oid, Vec<Expression>)> {
        // SAFETY: as for `constant`.
        unsafe {
            if !is_a(self.0, NodeTag::T_FuncExpr) {
                return None;
            }
            let call = &*self.0.cast::<pg_sys::FuncExpr>();
            let arguments = PgList::<pg_sys::Node>::from_pg(call.args);
            Some((call.funcid, arguments.iter_ptr().map(Expression).collect()))
        }
    }
}
