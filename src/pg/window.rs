//! A window function has more than its arguments: the rows of its partition, a state, and memory of
//! its own.

use crate::pg::raw::guarded;
use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys::{self, Datum};
use std::ffi::{c_int, c_void};

/// `windowapi.h`: a window function's access to the rows of its partition. The bindings of pgrx do
/// not have it.
#[derive(Clone, Copy)]
pub struct Window {
    object: *mut c_void,
    arguments: u16,
}

impl Window {
    /// `None` if the function is not called as a window function. The parser makes sure that it is,
    /// but CREATE OPERATOR accepts any function.
    ///
    /// # Safety
    ///
    /// `fcinfo` must be that of the current call. The result is valid until it returns.
    pub unsafe fn of_call(fcinfo: pg_sys::FunctionCallInfo) -> Option<Window> {
        // SAFETY: promised by the caller. A call's context is NULL or a node, which begins with its
        // tag.
        unsafe {
            let context = (*fcinfo).context;
            let is_window =
                !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_WindowObjectData;
            is_window.then(|| Window { object: context.cast(), arguments: (*fcinfo).nargs as u16 })
        }
    }

    /// The number of arguments of the call.
    pub fn arguments(self) -> u16 {
        self.arguments
    }

    /// The position of the current row in its partition, from 0.
    pub fn position(self) -> i64 {
        // SAFETY: reads a field. The object is that of the current call.
        unsafe { guarded(|raw| raw.WinGetCurrentPosition(self.object)) }
    }

    /// Releases the rows before the current one.
    pub fn release_earlier_rows(self) {
        // SAFETY: the object is that of the current call, and no earlier row is read after this.
        unsafe {
            guarded(|raw| {
                raw.WinSetMarkPosition(self.object, raw.WinGetCurrentPosition(self.object))
            })
        }
    }

    /// The first arguments of the row at this offset from the current one; `None` after the end of
    /// the partition.
    pub fn values<const N: usize>(self, offset: usize) -> Option<[Option<Datum>; N]> {
        const WINDOW_SEEK_CURRENT: c_int = 0;
        assert!(N <= self.arguments.into());
        let offset = c_int::try_from(offset).expect("the rows of a millisecond are fewer");
        let mut values = [None; N];
        let mut is_out = false;
        // SAFETY: the object is that of the current call, which has these arguments.
        unsafe {
            guarded(|raw| {
                for (argument, value) in (0..).zip(&mut values) {
                    let mut is_null = false;
                    let (object, null) = (self.object, &raw mut is_null);
                    let datum = match offset {
                        // This does not move the position from which the next row is read.
                        0 => raw.WinGetFuncArgCurrent(object, argument, null),
                        _ => {
                            let (seek, out) = (WINDOW_SEEK_CURRENT, &raw mut is_out);
                            raw.WinGetFuncArgInPartition(
                                object, argument, offset, seek, false, null, out,
                            )
                        }
                    };
                    *value = (!is_null).then_some(datum);
                }
            });
        }
        (!is_out).then_some(values)
    }
}

/// Runs `f` in a memory context, created on first use and reset afterwards. The result of `f` must
/// not be allocated in it.
pub fn in_memory_of_its_own<T>(memory: &mut Option<PgMemoryContexts>, f: impl FnOnce() -> T) -> T {
    let memory = memory.get_or_insert_with(|| PgMemoryContexts::new("instagram_id"));
    // SAFETY: the context is owned, and nothing else is allocated in it. If `f` panics, dropping
    // the context switches back to the previous one.
    unsafe {
        let result = memory.switch_to(|_| f());
        memory.reset();
        result
    }
}

/// `fmgr.h`: `fn_extra`, the state that a function call keeps until its statement ends.
///
/// # Safety
///
/// A call must always use the same type of state, and hold only one reference to it at a time.
pub unsafe fn state_of_call<'a, T: Default>(fcinfo: pg_sys::FunctionCallInfo) -> &'a mut T {
    // SAFETY: PostgreSQL passes an fcinfo with an flinfo. Its fn_extra belongs to the function and
    // lives as long as fn_mcxt. The caller promises the rest.
    unsafe {
        let flinfo = &mut *(*fcinfo).flinfo;
        if flinfo.fn_extra.is_null() {
            let mut memory = PgMemoryContexts::For(flinfo.fn_mcxt);
            flinfo.fn_extra = memory.leak_and_drop_on_delete(T::default()).cast();
        }
        &mut *flinfo.fn_extra.cast()
    }
}
