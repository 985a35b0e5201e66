//! Ports of macros from PostgreSQL's C, as needed for a sequence and its page.
//!
//! Names are PostgreSQL's own. Functions are `unsafe` here because they dereference PostgreSQL's
//! pointers, or because they call raw functions (see [`crate::pg::raw`]), for which they take the
//! token.
#![allow(non_snake_case, non_camel_case_types, non_upper_case_globals)]

use crate::pg::raw::{Raw, RelFileLocator};
use pgrx::pg_sys::{self, Buffer, Oid, Relation, XLogRecPtr};
use std::ffi::{c_char, c_int, c_uint};

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
pub const InvalidSubTransactionId: pg_sys::SubTransactionId = 0;

/// The timer of `statement_timeout`, as in `utils/timeout.h`.
pub const STATEMENT_TIMEOUT: c_uint = 3;

/// `commands/sequence.h`, from 19 `commands/sequence_xlog.h`: `#define XLOG_SEQ_LOG 0x00`
const XLOG_SEQ_LOG: u8 = 0x00;

/// `catalog/pg_partitioned_table.h`
pub const Anum_pg_partitioned_table_partstrat: pg_sys::AttrNumber = 2;
pub const Anum_pg_partitioned_table_partattrs: pg_sys::AttrNumber = 5;
pub const Anum_pg_partitioned_table_partclass: pg_sys::AttrNumber = 6;

/// `catalog/pg_language.dat`
pub const ClanguageId: u32 = 13;

/// `commands/event_trigger.h`: the beginning of what the function of an event trigger is called
/// with.
#[repr(C)]
pub struct EventTriggerData {
    pub type_: pg_sys::NodeTag,
    pub event: *const c_char,
    pub parsetree: *mut pg_sys::Node,
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

/// `commands/sequence.h`, from 19 `commands/sequence_xlog.h`: the header of an `XLOG_SEQ_LOG`
/// record.
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
    // SAFETY: rd_rel of an open relation points to its pg_class row; wal_level is plain data.
    let (permanent, xlog_is_needed) = unsafe {
        (
            (*relation.rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT,
            pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as c_int,
        )
    };
    permanent
        && (xlog_is_needed
            || (relation.rd_createSubid == InvalidSubTransactionId
                && first_file(relation) == InvalidSubTransactionId))
}

/// `rd_firstRelfilelocatorSubid`, `rd_firstRelfilenodeSubid` in 15: the subtransaction that has
/// given the relation a new file.
pub fn first_file(relation: &pg_sys::RelationData) -> pg_sys::SubTransactionId {
    #[cfg(feature = "pg15")]
    return relation.rd_firstRelfilenodeSubid;
    #[cfg(not(feature = "pg15"))]
    return relation.rd_firstRelfilelocatorSubid;
}

/// Uses of the raw functions that take more than one call.
impl Raw<'_> {
    /// Writes the tuple on the page to WAL, and sets the page's LSN to that of the record.
    ///
    /// # Safety
    ///
    /// Must be called in a critical section, with a sequence's buffer that is locked exclusively
    /// and marked dirty.
    pub unsafe fn log_sequence_tuple(
        self,
        locator: RelFileLocator,
        buffer: Buffer,
        page: pg_sys::Page,
        tuple: pg_sys::HeapTupleHeader,
        tuple_len: u32,
    ) {
        // SAFETY: the record is as seq_redo expects it: the buffer to initialize, the locator, the
        // tuple. Both pieces of data live until XLogInsert has copied them.
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
}

/// `storage/bufpage.h`: `PageXLogRecPtrGet`. On a page the upper half comes first, on machines of
/// either byte order.
#[cfg(not(feature = "pg19"))]
fn PageXLogRecPtrGet(stored: pg_sys::PageXLogRecPtr) -> XLogRecPtr {
    (stored.xlogid as u64) << 32 | stored.xrecoff as u64
}

/// `storage/bufpage.h`: `PageXLogRecPtrGet`. In 19 it is one number, with the same halves in the
/// same order.
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
    pg_sys::PageXLogRecPtr {
        lsn: if cfg!(target_endian = "big") { lsn } else { lsn.rotate_left(32) },
    }
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

/// The only tuple of a sequence's page, and its length; `None` if the page lacks a sequence's magic
/// number or the tuple is not within the page. See `fill_seq_with_data` and `read_seq_tuple` in
/// `commands/sequence.c`.
#[inline(always)]
pub unsafe fn sequence_tuple(page: pg_sys::Page) -> Option<(pg_sys::HeapTupleHeader, u32)> {
    // The page ends with the special area: a magic number, aligned. The tuple has no NULLs.
    const SPECIAL: usize = pg_sys::BLCKSZ as usize - 8;
    const DATA: usize = size_of::<pg_sys::HeapTupleHeaderData>();
    const LEN: usize = DATA + std::mem::offset_of!(FormData_pg_sequence_data, is_called) + 1;
    const SIZE: usize = DATA + size_of::<FormData_pg_sequence_data>();
    // SAFETY: the caller passes the page of a pinned, locked buffer. The page may be damaged, so
    // every offset is checked against its 8 kB before it is used.
    unsafe {
        let header = page.cast::<pg_sys::PageHeaderData>();
        if (*header).pd_special as usize != SPECIAL
            || page.add(SPECIAL).cast::<u32>().read() != SEQ_MAGIC
        {
            return None;
        }
        // PageGetItemId(page, FirstOffsetNumber). After every header there is room for a line
        // pointer.
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
    // SAFETY: the caller passes a result of `sequence_tuple`. The data starts at t_hoff, aligned to
    // 8 bytes.
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

/// An unpredictable random number.
pub fn random_i32() -> i32 {
    let mut bytes = [0; size_of::<i32>()];
    // SAFETY: fills the given number of bytes.
    let is_random = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    assert!(is_random, "the system has random numbers");
    i32::from_ne_bytes(bytes)
}
