//! PostgreSQL's C functions without a guard for each, callable only under one guard around all of
//! them.
//!
//! The bindings of pgrx wrap every C function in a guard that turns a PostgreSQL error into a Rust
//! panic, at 30 to 40 ns a call. The generator makes about fifteen such calls for one id. So it
//! calls the functions below, which leave by `longjmp` on an error. They are methods of [`Raw`],
//! which only [`guarded`] creates, so that no call is left without a guard.
#![allow(non_snake_case)]

use pgrx::pg_sys::{self, Buffer, Datum, MemoryContext, Oid, Relation, XLogRecPtr};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;

/// The permission to call raw functions, within one call of [`guarded`].
#[derive(Clone, Copy)]
pub struct Raw<'guard>(PhantomData<&'guard ()>);

/// Runs `f` under one guard, with the raw functions. An error that PostgreSQL raises inside becomes
/// a panic, which pgrx turns back into the error at the entry of the SQL function.
///
/// # Safety
///
/// `f` must not panic, and must own no value with a destructor while a raw function runs, because
/// an error leaves `f` by `longjmp`. Must be called on the backend's main thread.
#[inline(always)]
pub unsafe fn guarded<T: Copy>(f: impl FnOnce(Raw<'_>) -> T) -> T {
    // SAFETY: the caller vouches for `f`, and `T: Copy` has no destructor.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| f(Raw(PhantomData))) }
}

/// The file of a relation: `RelFileNode` in 15.
#[cfg(feature = "pg15")]
pub type RelFileLocator = pg_sys::RelFileNode;
/// The file of a relation.
#[cfg(not(feature = "pg15"))]
pub type RelFileLocator = pg_sys::RelFileLocator;

/// Runs `f` with the raw functions in a function that PostgreSQL calls. Without a guard, an error
/// leaves that function by `longjmp`, as it leaves PostgreSQL's own.
///
/// # Safety
///
/// As for [`guarded`]. There must be no frame with a destructor, and none that catches panics,
/// between PostgreSQL and `f`, unless `f` raises no error.
pub unsafe fn called_by_postgresql<T>(f: impl FnOnce(Raw<'_>) -> T) -> T {
    f(Raw(PhantomData))
}

/// Declares C functions, and a method of [`Raw`] for each.
macro_rules! raw_functions {
    ($( $(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?; )+) => {
        // SAFETY: each declaration has the parameter widths and the return type of the function in
        // PostgreSQL 15 to 19. The parameters of XLogRegisterData changed their C types in these
        // versions (char * and int, char * and uint32, const void * and uint32), but are always
        // passed as a pointer and a 32-bit integer. The identifiers of caches, an enum from 19 on,
        // are always passed as a 32-bit integer.
        unsafe extern "C-unwind" { $(
            $(#[$attribute])*
            fn $name($($argument: $type),*) $(-> $result)?;
        )+ }

        /// The requirements of each are those of the C function.
        impl Raw<'_> { $(
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            pub unsafe fn $name(self, $($argument: $type),*) $(-> $result)? {
                // SAFETY: runs under a guard, as the token shows. The caller vouches for the
                // arguments.
                unsafe { $name($($argument),*) }
            }
        )+ }
    };
}

raw_functions! {
    fn AllocSetContextCreateInternal(
        parent: MemoryContext,
        name: *const c_char,
        min_size: usize,
        init_size: usize,
        max_size: usize,
    ) -> MemoryContext;
    fn ConditionalLockBuffer(buffer: Buffer) -> bool;
    fn ConditionalLockRelationOid(relid: Oid, lockmode: pg_sys::LOCKMODE) -> bool;
    fn CopyErrorData() -> *mut pg_sys::ErrorData;
    fn GetCurrentTimestamp() -> pg_sys::TimestampTz;
    fn GetRedoRecPtr() -> XLogRecPtr;
    fn GetSysCacheHashValue(cache: c_int, key1: Datum, key2: Datum, key3: Datum, key4: Datum) -> u32;
    fn GetTopTransactionId() -> pg_sys::TransactionId;
    fn GetTopTransactionIdIfAny() -> pg_sys::TransactionId;
    fn GetUserId() -> Oid;
    fn IsInParallelMode() -> bool;
    // In 19 an inline function that calls this one.
    #[cfg_attr(feature = "pg19", link_name = "LockBufferInternal")]
    fn LockBuffer(buffer: Buffer, mode: c_int);
    fn LockRelationOid(relid: Oid, lockmode: pg_sys::LOCKMODE);
    fn MarkBufferDirty(buffer: Buffer);
    fn MemoryContextDelete(context: MemoryContext);
    fn MemoryContextMemAllocated(context: MemoryContext, recurse: bool) -> usize;
    fn MemoryContextStrdup(context: MemoryContext, string: *const c_char) -> *mut c_char;
    fn ReadBuffer(reln: Relation, block: pg_sys::BlockNumber) -> Buffer;
    fn ReadRecentBuffer(
        locator: RelFileLocator,
        fork: pg_sys::ForkNumber::Type,
        block: pg_sys::BlockNumber,
        recent_buffer: Buffer,
    ) -> bool;
    fn RecoveryInProgress() -> bool;
    fn RelationCacheInvalidateEntry(relid: Oid);
    fn RegisterTimeout(id: c_uint, handler: unsafe extern "C" fn()) -> c_uint;
    fn ReleaseSysCache(tuple: pg_sys::HeapTuple);
    fn SearchSysCache1(cache: c_int, key: Datum) -> pg_sys::HeapTuple;
    fn SearchSysCacheExists(cache: c_int, key1: Datum, key2: Datum, key3: Datum, key4: Datum) -> bool;
    fn SysCacheInvalidate(cache: c_int, hash: u32);
    fn ThrowErrorData(error: *mut pg_sys::ErrorData);
    fn UnlockRelationOid(relid: Oid, lockmode: pg_sys::LOCKMODE);
    fn UnlockReleaseBuffer(buffer: Buffer);
    fn WinGetCurrentPosition(window: *mut c_void) -> i64;
    fn WinGetFuncArgCurrent(window: *mut c_void, argument: c_int, is_null: *mut bool) -> Datum;
    fn WinGetFuncArgInPartition(
        window: *mut c_void,
        argument: c_int,
        position: c_int,
        seek: c_int,
        set_mark: bool,
        is_null: *mut bool,
        is_out: *mut bool,
    ) -> Datum;
    fn WinSetMarkPosition(window: *mut c_void, position: i64);
    fn XLogBeginInsert();
    fn XLogFlush(record: XLogRecPtr);
    fn XLogInsert(rmid: pg_sys::RmgrId, info: u8) -> XLogRecPtr;
    fn XLogRegisterBuffer(block_id: u8, buffer: Buffer, flags: u8);
    fn XLogRegisterData(data: *const c_void, len: u32);
    fn disable_timeout(id: c_uint, keep_indicator: bool);
    fn enable_timeout_after(id: c_uint, delay_ms: c_int);
    fn enable_timeout_every(id: c_uint, first: pg_sys::TimestampTz, delay_ms: c_int);
    fn get_timeout_active(id: c_uint) -> bool;
    fn get_timeout_indicator(id: c_uint, reset: bool) -> bool;
    fn geterrcode() -> c_int;
    fn pfree(pointer: *mut c_void);
    fn pg_class_aclcheck(relid: Oid, role: Oid, mode: pg_sys::AclMode) -> pg_sys::AclResult::Type;
    fn pg_mbcliplen(string: *const c_char, len: c_int, limit: c_int) -> c_int;
    fn relation_close(relation: Relation, lockmode: pg_sys::LOCKMODE);
    fn relation_open(relid: Oid, lockmode: pg_sys::LOCKMODE) -> Relation;
    fn try_relation_open(relid: Oid, lockmode: pg_sys::LOCKMODE) -> Relation;
}
