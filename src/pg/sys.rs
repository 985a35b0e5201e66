//! Ports of macros from PostgreSQL's C, as needed for a sequence's page or missing in pgrx's bindings, and uses of its
//! functions that need more than a call.
//!
//! Names are PostgreSQL's own. Functions are `unsafe` here because they dereference PostgreSQL's pointers, or because
//! they call raw functions (see [`crate::pg::raw`]), for which they take the token.
#![allow(non_snake_case, non_camel_case_types, non_upper_case_globals)]

use crate::pg::errors;
use crate::pg::raw::{Raw, RelFileLocator, guarded};
use instagram_id_core::durable::CommitLevel;
use pgrx::PgSqlErrorCode;
use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys::PgTryBuilder;
use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::pg_sys::{self, Buffer, Datum, Oid, Relation, XLogRecPtr};
use std::ffi::{c_char, c_int, c_void};
use std::panic::AssertUnwindSafe;

// `storage/bufmgr.h`: an enum from 19 on, with other numbers.
#[cfg(feature = "pg19")]
use pg_sys::BufferLockMode as lock_mode;
#[cfg(not(feature = "pg19"))]
use pgrx::pg_sys as lock_mode;
pub const BUFFER_LOCK_SHARE: c_int = lock_mode::BUFFER_LOCK_SHARE as c_int;
pub const BUFFER_LOCK_EXCLUSIVE: c_int = lock_mode::BUFFER_LOCK_EXCLUSIVE as c_int;

/// `storage/lockdefs.h`
pub const NoLock: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;
/// `storage/lockdefs.h`
pub const AccessShareLock: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
/// `storage/lockdefs.h`
pub const RowExclusiveLock: pg_sys::LOCKMODE = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;

/// `c.h`: `#define InvalidSubTransactionId ((SubTransactionId) 0)`
const InvalidSubTransactionId: pg_sys::SubTransactionId = 0;

/// `commands/sequence.h`, from 19 `commands/sequence_xlog.h`: `#define XLOG_SEQ_LOG 0x00`
const XLOG_SEQ_LOG: u8 = 0x00;

/// `catalog/pg_partitioned_table.h`
pub const Anum_pg_partitioned_table_partstrat: pg_sys::AttrNumber = 2;
/// `catalog/pg_partitioned_table.h`
pub const Anum_pg_partitioned_table_partattrs: pg_sys::AttrNumber = 5;
/// `catalog/pg_partitioned_table.h`
pub const Anum_pg_partitioned_table_partclass: pg_sys::AttrNumber = 6;

/// `catalog/pg_language.dat`
pub const ClanguageId: u32 = 13;

/// `catalog/pg_depend.h`
pub const DependRelationId: u32 = 2608;
/// `catalog/pg_depend.h`
pub const DependReferenceIndexId: u32 = 2674;
/// `catalog/pg_depend.h`
pub const Anum_pg_depend_refclassid: pg_sys::AttrNumber = 4;
/// `catalog/pg_depend.h`
pub const Anum_pg_depend_refobjid: pg_sys::AttrNumber = 5;

/// `catalog/pg_depend.h`: the row of `pg_depend`.
#[repr(C)]
pub struct FormData_pg_depend {
    pub classid: Oid,
    pub objid: Oid,
    pub objsubid: i32,
    pub refclassid: Oid,
    pub refobjid: Oid,
    pub refobjsubid: i32,
    pub deptype: c_char,
}

/// `commands/sequence.c`, from 19 `commands/sequence_xlog.h`: `#define SEQ_MAGIC 0x1717`
const SEQ_MAGIC: u32 = 0x1717;

/// `commands/sequence.h`: the data of a sequence's only tuple.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FormData_pg_sequence_data {
    pub last_value: i64,
    pub log_cnt: i64,
    /// A C bool. A byte here, because on a damaged page it may have any value.
    pub is_called: u8,
}

/// `catalog/pg_sequence.h`: the row of `pg_sequence`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FormData_pg_sequence {
    pub seqrelid: Oid,
    pub seqtypid: Oid,
    pub seqstart: i64,
    pub seqincrement: i64,
    pub seqmax: i64,
    pub seqmin: i64,
    pub seqcache: i64,
    /// A C bool.
    pub seqcycle: u8,
}

/// `commands/sequence.h`, from 19 `commands/sequence_xlog.h`: the header of an `XLOG_SEQ_LOG` record.
#[repr(C)]
struct xl_seq_rec {
    locator: RelFileLocator,
}

/// The relation's `rd_locator`, `rd_node` in 15.
pub unsafe fn rd_locator(relation: Relation) -> RelFileLocator {
    // SAFETY: the caller passes an open relation.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*relation).rd_node;
        #[cfg(not(feature = "pg15"))]
        return (*relation).rd_locator;
    }
}

/// The number of the file. A RESTART changes it, and a rollback changes it back.
pub fn file_number(locator: RelFileLocator) -> Oid {
    #[cfg(feature = "pg15")]
    return locator.relNode;
    #[cfg(not(feature = "pg15"))]
    return locator.relNumber;
}

/// `MyProc->lxid`, `MyProc->vxid.lxid` from 17: the number of this backend's current transaction.
pub unsafe fn local_transaction_id() -> pg_sys::LocalTransactionId {
    // SAFETY: MyProc is set in every backend before it runs SQL.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return (*pg_sys::MyProc).lxid;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return (*pg_sys::MyProc).vxid.lxid;
    }
}

/// `utils/rel.h`:
/// ```c
/// #define RelationNeedsWAL(relation)
///     (RelationIsPermanent(relation) && (XLogIsNeeded() ||
///       (relation->rd_createSubid == InvalidSubTransactionId &&
///        relation->rd_firstRelfilelocatorSubid == InvalidSubTransactionId)))
/// ```
pub unsafe fn RelationNeedsWAL(relation: Relation) -> bool {
    // SAFETY: the caller passes an open relation.
    let relation = unsafe { &*relation };
    #[cfg(feature = "pg15")]
    let first_file = relation.rd_firstRelfilenodeSubid;
    #[cfg(not(feature = "pg15"))]
    let first_file = relation.rd_firstRelfilelocatorSubid;
    // SAFETY: rd_rel of an open relation points to its pg_class row; wal_level is plain data.
    let (permanent, xlog_is_needed) = unsafe {
        (
            (*relation.rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT,
            pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as c_int,
        )
    };
    permanent
        && (xlog_is_needed
            || (relation.rd_createSubid == InvalidSubTransactionId && first_file == InvalidSubTransactionId))
}

/// Uses of the raw functions that take more than one call.
impl Raw<'_> {
    /// `storage/lmgr.h`, as used in `commands/sequence.c`: locks a sequence until the transaction ends, even if a
    /// subtransaction that asked for the lock is rolled back.
    #[inline]
    pub unsafe fn LockRelationForTransaction(self, relid: Oid, lockmode: pg_sys::LOCKMODE) {
        // SAFETY: resource owners exist inside a transaction, and an error resets CurrentResourceOwner itself.
        unsafe {
            let owner = pg_sys::CurrentResourceOwner;
            pg_sys::CurrentResourceOwner = pg_sys::TopTransactionResourceOwner;
            self.LockRelationOid(relid, lockmode);
            pg_sys::CurrentResourceOwner = owner;
        }
    }

    /// Whether this transaction has an id, and so will write a record when it commits.
    pub unsafe fn has_transaction_id(self) -> bool {
        // SAFETY: reads a variable of the backend.
        unsafe { self.GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId }
    }

    /// Makes the commit of this transaction wait for all WAL up to `lsn`, as if the transaction had written it.
    /// `access/parallel.c` does the same for the WAL of parallel workers.
    pub unsafe fn make_commit_wait_for(self, lsn: XLogRecPtr) {
        // SAFETY: called in a transaction. With an id it writes a commit record, which waits.
        unsafe {
            self.GetTopTransactionId();
            pg_sys::XactLastRecEnd = pg_sys::XactLastRecEnd.max(lsn);
        }
    }

    /// Writes the tuple on the page to WAL, and sets the page's LSN to that of the record.
    ///
    /// # Safety
    ///
    /// Must be called in a critical section, with a sequence's buffer that is locked exclusively and marked dirty.
    pub unsafe fn log_sequence_tuple(
        self,
        locator: RelFileLocator,
        buffer: Buffer,
        page: pg_sys::Page,
        tuple: pg_sys::HeapTupleHeader,
        tuple_len: u32,
    ) {
        // SAFETY: the record is as seq_redo expects it: the buffer to initialize, the locator, the tuple. Both pieces of
        // data live until XLogInsert has copied them.
        unsafe {
            let header = xl_seq_rec { locator };
            self.XLogBeginInsert();
            self.XLogRegisterBuffer(0, buffer, pg_sys::REGBUF_WILL_INIT as u8);
            self.XLogRegisterData((&raw const header).cast(), size_of::<xl_seq_rec>() as u32);
            self.XLogRegisterData(tuple.cast(), tuple_len);
            let end = self.XLogInsert(pg_sys::RmgrIds::RM_SEQ_ID as pg_sys::RmgrId, XLOG_SEQ_LOG);
            PageSetLSN(page, end);
        }
    }

    /// Whether the role has one of these privileges on the relation.
    pub unsafe fn may(self, relid: Oid, role: Oid, mode: pg_sys::AclMode) -> bool {
        // SAFETY: a catalog lookup.
        unsafe { self.pg_class_aclcheck(relid, role, mode) == pg_sys::AclResult::ACLCHECK_OK }
    }

    /// Whether Citus is installed in this database. If it is, its catalog of distributed objects exists in pg_catalog,
    /// where no other relation gets created by accident.
    pub unsafe fn has_citus(self) -> bool {
        // SAFETY: a lookup in a syscache whose keys are a name and a schema.
        unsafe {
            let (name, none) = (Datum::from(c"pg_dist_object".as_ptr()), Datum::null());
            let schema = Oid::from(pg_sys::PG_CATALOG_NAMESPACE).into();
            self.SearchSysCacheExists(
                pg_sys::SysCacheIdentifier::RELNAMENSP as c_int,
                name,
                schema,
                none,
                none,
            )
        }
    }

    /// Removes the row of that OID from this backend's syscache. PostgreSQL loads it again on the next lookup. PostgreSQL
    /// itself removes rows in the same way when another backend announces a change.
    pub unsafe fn drop_from_syscache(self, cache: pg_sys::SysCacheIdentifier::Type, oid: Oid) {
        // SAFETY: the only key of the cache is an OID. An entry in use stays until it is released.
        unsafe {
            let none = pg_sys::Datum::null();
            let hash = self.GetSysCacheHashValue(cache as c_int, oid.into(), none, none, none);
            self.SysCacheInvalidate(cache as c_int, hash);
        }
    }

    /// The row of a sequence in `pg_sequence`; `None` if there is none.
    pub unsafe fn pg_sequence_row(self, relid: Oid) -> Option<FormData_pg_sequence> {
        // SAFETY: a syscache tuple is valid until it is released. Its data starts at t_hoff and has this layout.
        unsafe {
            let cache = pg_sys::SysCacheIdentifier::SEQRELID as c_int;
            let tuple = self.SearchSysCache1(cache, relid.into());
            if tuple.is_null() {
                return None;
            }
            let row = *pg_sys::GETSTRUCT(tuple).cast::<FormData_pg_sequence>();
            self.ReleaseSysCache(tuple);
            Some(row)
        }
    }
}

/// Releases the locks on a relation that this transaction has created, so that creating thousands of them does not
/// overflow the lock table. Other sessions cannot see the relation before the commit, and the locks would end there
/// anyway.
pub unsafe fn release_locks_on_new_relation(relid: Oid) {
    // SAFETY: promised by the caller.
    unsafe { release_locks(pg_sys::LockTagType::LOCKTAG_RELATION, [relid, Oid::INVALID]) }
}

/// The same for an object of another class, such as a schema.
pub unsafe fn release_locks_on_new_object(class: Oid, object: Oid) {
    // SAFETY: promised by the caller.
    unsafe { release_locks(pg_sys::LockTagType::LOCKTAG_OBJECT, [class, object]) }
}

/// `storage/lock.h`: `SET_LOCKTAG_RELATION`, `SET_LOCKTAG_OBJECT`
unsafe fn release_locks(kind: pg_sys::LockTagType::Type, [field2, field3]: [Oid; 2]) {
    // SAFETY: the tag names an object of this database; a lock is released only while this backend holds it.
    unsafe {
        let tag = pg_sys::LOCKTAG {
            locktag_field1: pg_sys::MyDatabaseId.to_u32(),
            locktag_field2: field2.to_u32(),
            locktag_field3: field3.to_u32(),
            locktag_field4: 0,
            locktag_type: kind as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        };
        for mode in pg_sys::AccessShareLock as c_int..=pg_sys::AccessExclusiveLock as c_int {
            while LockHeldByMe(&tag, mode) && pg_sys::LockRelease(&tag, mode, false) {}
        }
    }
}

/// `storage/lock.h`: `LockHeldByMe`, which from 17 on has a parameter to look for stronger locks as well.
unsafe fn LockHeldByMe(tag: &pg_sys::LOCKTAG, mode: pg_sys::LOCKMODE) -> bool {
    // SAFETY: looks only into this backend's lock table.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return pg_sys::LockHeldByMe(tag, mode);
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return pg_sys::LockHeldByMe(tag, mode, false);
    }
}

/// Runs `f` in a subtransaction, and keeps it if `f` returns true. If `f` returns false, or fails with a lock timeout
/// or a deadlock, the subtransaction and its locks are rolled back. Any other error is raised again after the rollback.
pub fn in_subtransaction(f: impl FnOnce() -> bool) -> bool {
    let is_caught = |state| {
        matches!(
            state,
            PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE | PgSqlErrorCode::ERRCODE_T_R_DEADLOCK_DETECTED
        )
    };
    subtransaction(f, |keep| *keep, is_caught).unwrap_or(false)
}

/// Runs `f` in a subtransaction. If it raises an error, the subtransaction is rolled back, and the error is returned. A
/// cancel, a timeout of the statement and a shutdown are raised again.
pub fn catching_errors<T>(f: impl FnOnce() -> T) -> Result<T, ErrorReportWithLevel> {
    let is_caught = |state| {
        !matches!(
            state,
            PgSqlErrorCode::ERRCODE_QUERY_CANCELED
                | PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN
                | PgSqlErrorCode::ERRCODE_CRASH_SHUTDOWN
        )
    };
    subtransaction(f, |_| true, is_caught)
}

/// Runs `f` in a subtransaction, which is rolled back after an error, and if `keeps` is false for the result. Errors with
/// these SQLSTATEs are returned, all others are raised again.
fn subtransaction<T>(
    f: impl FnOnce() -> T,
    keeps: impl FnOnce(&T) -> bool,
    is_caught: fn(PgSqlErrorCode) -> bool,
) -> Result<T, ErrorReportWithLevel> {
    // SAFETY: as in PL/pgSQL for a block with an EXCEPTION clause. Both variables are restored on every way out.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let end = |keep: bool| {
            if keep {
                pg_sys::ReleaseCurrentSubTransaction();
            } else {
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
            }
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
        };
        // A handler further out ends its own subtransaction, so ours must have ended before. After an error the callers
        // use nothing that `f` was changing.
        PgTryBuilder::new(AssertUnwindSafe(|| {
            let result = f();
            end(keeps(&result));
            Ok(result)
        }))
        .catch_others(|error| {
            end(false);
            match error {
                CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)
                    if is_caught(report.sql_error_code()) =>
                {
                    errors::forget();
                    Err(report)
                }
                error => error.rethrow(),
            }
        })
        .catch_rust_panic(|error| {
            end(false);
            error.rethrow()
        })
        .execute()
    }
}

/// Runs `f` as another role and with PostgreSQL's restrictions for maintenance commands, as for any operation that may
/// run code of a table's owner. An error also restores the role.
///
/// The caller must have checked that the current role may act as the other.
pub fn with_rights_of<T>(role: Oid, f: impl FnOnce() -> T) -> T {
    // SAFETY: sets variables of the backend. The end of a failed transaction or subtransaction resets them.
    unsafe {
        let (mut outer, mut context) = (Oid::INVALID, 0);
        pg_sys::GetUserIdAndSecContext(&mut outer, &mut context);
        let restricted =
            (pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION) as c_int;
        pg_sys::SetUserIdAndSecContext(role, context | restricted);
        let result = f();
        pg_sys::SetUserIdAndSecContext(outer, context);
        result
    }
}

/// `windowapi.h`: a window function's access to the rows of its partition. The bindings of pgrx do not have it.
#[derive(Clone, Copy)]
pub struct Window {
    object: *mut c_void,
    arguments: u16,
}

impl Window {
    /// `None` if the function is not called as a window function. The parser makes sure that it is, but CREATE OPERATOR
    /// accepts any function.
    ///
    /// # Safety
    ///
    /// `fcinfo` must be that of the current call. The result is valid until it returns.
    pub unsafe fn of_call(fcinfo: pg_sys::FunctionCallInfo) -> Option<Window> {
        // SAFETY: promised by the caller. A call's context is NULL or a node, which begins with its tag.
        unsafe {
            let context = (*fcinfo).context;
            let is_window = !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_WindowObjectData;
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
        unsafe { guarded(|raw| raw.WinSetMarkPosition(self.object, raw.WinGetCurrentPosition(self.object))) }
    }

    /// The first arguments of the row at this offset from the current one; `None` after the end of the partition.
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
                            raw.WinGetFuncArgInPartition(object, argument, offset, seek, false, null, out)
                        }
                    };
                    *value = (!is_null).then_some(datum);
                }
            });
        }
        (!is_out).then_some(values)
    }
}

/// Runs `f` in a memory context, created on first use and reset afterwards. The result of `f` must not be allocated in
/// it.
pub fn in_memory_of_its_own<T>(memory: &mut Option<PgMemoryContexts>, f: impl FnOnce() -> T) -> T {
    let memory = memory.get_or_insert_with(|| PgMemoryContexts::new("instagram_id"));
    // SAFETY: the context is owned, and nothing else is allocated in it. If `f` panics, dropping the context switches
    // back to the previous one.
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
    // SAFETY: PostgreSQL passes an fcinfo with an flinfo. Its fn_extra belongs to the function and lives as long as
    // fn_mcxt. The caller promises the rest.
    unsafe {
        let flinfo = &mut *(*fcinfo).flinfo;
        if flinfo.fn_extra.is_null() {
            let mut memory = PgMemoryContexts::For(flinfo.fn_mcxt);
            flinfo.fn_extra = memory.leak_and_drop_on_delete(T::default()).cast();
        }
        &mut *flinfo.fn_extra.cast()
    }
}

/// `storage/bufpage.h`: `PageXLogRecPtrGet`. On a page the upper half comes first, on machines of either byte order.
#[cfg(not(feature = "pg19"))]
fn PageXLogRecPtrGet(stored: pg_sys::PageXLogRecPtr) -> XLogRecPtr {
    (stored.xlogid as u64) << 32 | stored.xrecoff as u64
}

/// `storage/bufpage.h`: `PageXLogRecPtrGet`. In 19 it is one number, with the same halves in the same order.
#[cfg(feature = "pg19")]
fn PageXLogRecPtrGet(stored: pg_sys::PageXLogRecPtr) -> XLogRecPtr {
    if cfg!(target_endian = "big") { stored.lsn } else { stored.lsn.rotate_left(32) }
}

/// `storage/bufpage.h`: `PageXLogRecPtrSet`
#[cfg(not(feature = "pg19"))]
fn PageXLogRecPtrSet(lsn: XLogRecPtr) -> pg_sys::PageXLogRecPtr {
    pg_sys::PageXLogRecPtr { xlogid: (lsn >> 32) as u32, xrecoff: lsn as u32 }
}

/// `storage/bufpage.h`: `PageXLogRecPtrSet`
#[cfg(feature = "pg19")]
fn PageXLogRecPtrSet(lsn: XLogRecPtr) -> pg_sys::PageXLogRecPtr {
    pg_sys::PageXLogRecPtr { lsn: if cfg!(target_endian = "big") { lsn } else { lsn.rotate_left(32) } }
}

/// `storage/bufpage.h`: `PageGetLSN`
pub unsafe fn PageGetLSN(page: pg_sys::Page) -> XLogRecPtr {
    // SAFETY: the caller passes the page of a pinned, locked buffer, which begins with the header.
    PageXLogRecPtrGet(unsafe { (*page.cast::<pg_sys::PageHeaderData>()).pd_lsn })
}

/// `storage/bufpage.h`: `PageSetLSN`
pub unsafe fn PageSetLSN(page: pg_sys::Page, lsn: XLogRecPtr) {
    // SAFETY: as for PageGetLSN, with the buffer locked exclusively.
    unsafe { (*page.cast::<pg_sys::PageHeaderData>()).pd_lsn = PageXLogRecPtrSet(lsn) }
}

/// The only tuple of a sequence's page, and its length; `None` if the page lacks a sequence's magic number or the tuple
/// is not within the page. See `fill_seq_with_data` and `read_seq_tuple` in `commands/sequence.c`.
#[inline(always)]
pub unsafe fn sequence_tuple(page: pg_sys::Page) -> Option<(pg_sys::HeapTupleHeader, u32)> {
    // The page ends with the special area: a magic number, aligned. The tuple has no NULLs.
    const SPECIAL: usize = pg_sys::BLCKSZ as usize - 8;
    const DATA: usize = size_of::<pg_sys::HeapTupleHeaderData>();
    const LEN: usize = DATA + std::mem::offset_of!(FormData_pg_sequence_data, is_called) + 1;
    const SIZE: usize = DATA + size_of::<FormData_pg_sequence_data>();
    // SAFETY: the caller passes the page of a pinned, locked buffer. The page may be damaged, so every offset is
    // checked against its 8 kB before it is used.
    unsafe {
        let header = page.cast::<pg_sys::PageHeaderData>();
        if (*header).pd_special as usize != SPECIAL || page.add(SPECIAL).cast::<u32>().read() != SEQ_MAGIC {
            return None;
        }
        // PageGetItemId(page, FirstOffsetNumber). After every header there is room for a line pointer.
        let item = (&raw const (*header).pd_linp).cast::<pg_sys::ItemIdData>().read();
        let offset = item.lp_off() as usize;
        if !offset.is_multiple_of(8) || offset + SIZE > SPECIAL || item.lp_len() as usize != LEN {
            return None;
        }
        let tuple: pg_sys::HeapTupleHeader = page.add(offset).cast();
        ((*tuple).t_hoff as usize == DATA).then_some((tuple, LEN as u32))
    }
}

/// `access/htup_details.h`: `GETSTRUCT`, for a tuple on a sequence's page.
pub unsafe fn sequence_data(tuple: pg_sys::HeapTupleHeader) -> *mut FormData_pg_sequence_data {
    // SAFETY: the caller passes a result of `sequence_tuple`. The data starts at t_hoff, aligned to 8 bytes.
    unsafe { tuple.cast::<c_char>().add((*tuple).t_hoff as usize).cast() }
}

/// `miscadmin.h`: `START_CRIT_SECTION()`
pub unsafe fn START_CRIT_SECTION() {
    // SAFETY: a counter of this backend, which has one thread.
    unsafe { pg_sys::CritSectionCount += 1 }
}

/// `miscadmin.h`: `END_CRIT_SECTION()`
pub unsafe fn END_CRIT_SECTION() {
    // SAFETY: as above. Every call follows a START_CRIT_SECTION.
    unsafe { pg_sys::CritSectionCount -= 1 }
}

const _: () = {
    use pg_sys::SyncCommitLevel::*;
    assert!(SYNCHRONOUS_COMMIT_OFF == 0 && SYNCHRONOUS_COMMIT_LOCAL_FLUSH == 1);
    assert!(SYNCHRONOUS_COMMIT_REMOTE_APPLY == 4);
};

/// The level that a commit would wait for now: `synchronous_commit`, limited to the local disk without synchronous
/// standbys. See `replication/syncrep.h` and `syncrep.c`: `SyncRepRequested() && SyncStandbysDefined()`.
pub unsafe fn commit_level() -> CommitLevel {
    // SAFETY: reads settings.
    unsafe { CommitLevel::of_number(pg_sys::synchronous_commit).min(highest_commit_level()) }
}

/// The highest level that a commit could wait for.
pub unsafe fn highest_commit_level() -> CommitLevel {
    // SAFETY: reads settings. The string is NULL or ends with a zero byte.
    unsafe {
        let standbys = pg_sys::SyncRepStandbyNames;
        let has_standbys = pg_sys::max_wal_senders > 0 && !standbys.is_null() && *standbys != 0;
        if has_standbys { CommitLevel::REMOTE_APPLY } else { CommitLevel::LOCAL }
    }
}

/// An unpredictable random number.
pub fn random_i32() -> i32 {
    let mut bytes = [0; size_of::<i32>()];
    // SAFETY: fills the given number of bytes.
    let is_random = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    assert!(is_random, "the system has random numbers");
    i32::from_ne_bytes(bytes)
}

/// `utils/wait_event.h`: sets this backend's wait event in pg_stat_activity.
pub fn pgstat_report_wait_start(event: u32) {
    // SAFETY: this points to a writable u32 throughout a backend's life.
    unsafe { pg_sys::my_wait_event_info.write_volatile(event) }
}

/// `utils/wait_event.h`
pub fn pgstat_report_wait_end() {
    pgstat_report_wait_start(0);
}

/// [`Raw::has_citus`], under a guard of its own.
pub fn has_citus() -> bool {
    // SAFETY: it does not panic and owns nothing.
    unsafe { guarded(|raw| raw.has_citus()) }
}

/// Whether this transaction created the relation. Then no other session has seen it yet.
pub fn is_new(relid: Oid) -> bool {
    // SAFETY: reads the descriptor of an open relation, which the caller has locked.
    unsafe {
        let relation = pg_sys::relation_open(relid, NoLock);
        let is_new = (*relation).rd_createSubid != InvalidSubTransactionId;
        pg_sys::relation_close(relation, NoLock);
        is_new
    }
}

/// Runs `f` while this session holds, for each relation, a lock that belongs to it and conflicts only with itself. They
/// are taken in the order of the OIDs, so that two sessions do not wait for each other.
pub fn with_locks_beside<T>(relids: &[Oid], f: impl FnOnce() -> T) -> T {
    const BESIDE: u16 = 1;
    let mode = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
    let mut relids = relids.to_vec();
    relids.sort_unstable_by_key(|relid| relid.to_u32());
    // SAFETY: an error releases the locks, too. Locks on relations themselves have other tags.
    unsafe {
        for &relid in &relids {
            pg_sys::LockDatabaseObject(pg_sys::RelationRelationId, relid, BESIDE, mode);
        }
        let result = f();
        for &relid in &relids {
            pg_sys::UnlockDatabaseObject(pg_sys::RelationRelationId, relid, BESIDE, mode);
        }
        result
    }
}

/// Runs `f` with a snapshot taken now, in place of the transaction's.
pub fn with_latest_snapshot<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: the snapshot that is pushed is popped. An error pops it with its transaction or subtransaction.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        let result = f();
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// [`Raw::drop_from_syscache`], under a guard of its own.
pub fn drop_from_syscache(cache: pg_sys::SysCacheIdentifier::Type, oid: Oid) {
    // SAFETY: it does not panic and owns nothing.
    unsafe { guarded(|raw| raw.drop_from_syscache(cache, oid)) }
}
