//! Reads the page of a sequence without changing it.

use crate::pg::catalog;
use crate::pg::raw::{Raw, guarded};
use crate::pg::roles;
use crate::pg::sys::{self, AccessShareLock, RowExclusiveLock};
use instagram_id_core::copy::Tuple;
use instagram_id_core::hlc::State;
use pgrx::pg_sys::{self, Oid};

/// The last value of a sequence. `None` if it was never called, or if this role or server cannot
/// read it, or if it is temporary. It waits for no session that uses the sequence, but for one that
/// alters it, and writes nothing.
pub fn last_value(sequence: Oid) -> Option<i64> {
    state(sequence).filter(|state| state.is_called).map(|state| state.last_value)
}

/// The state of a sequence, even if it was never called; `last_value` is then its start value. It
/// waits for a session that alters the sequence, which could give it another file meanwhile.
pub fn state(sequence: Oid) -> Option<State> {
    tuple_under(sequence, RowExclusiveLock, Reader::of_session()).map(state_of)
}

/// The same for the sequence of an identity, on which the owner of the table needs no privilege. It
/// can be temporary.
pub fn state_of_identity(sequence: Oid) -> Option<State> {
    tuple_under(sequence, RowExclusiveLock, Reader::OwnerOfTable).map(state_of)
}

/// The right by which a sequence is read.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    /// A privilege on it.
    Privileged,
    /// That of members of `pg_read_all_stats`. How far a sequence has advanced is one of the
    /// statistics of the server, so a monitoring role needs no grant on each sequence.
    Monitor,
    /// That of the owner of a table on the sequence of an identity.
    OwnerOfTable,
}

impl Reader {
    fn of_session() -> Reader {
        let monitors = pg_sys::ROLE_PG_READ_ALL_STATS.into();
        match catalog::has_rights_of(catalog::current_role(), monitors) {
            true => Reader::Monitor,
            false => Reader::Privileged,
        }
    }
}

/// The state of a sequence in a tuple.
pub fn state_of(Tuple { last_value, is_called, .. }: Tuple) -> State {
    State { last_value, is_called }
}

/// The tuple of a sequence, for a caller that must not wait for a session that alters it. At that
/// moment this can fail.
pub fn tuple(sequence: Oid) -> Option<Tuple> {
    tuple_under(sequence, AccessShareLock, Reader::of_session())
}

fn tuple_under(sequence: Oid, mode: pg_sys::LOCKMODE, reader: Reader) -> Option<Tuple> {
    // SAFETY: `read` does not panic and owns nothing with a destructor.
    unsafe {
        guarded(|raw| {
            raw.LockRelationOid(sequence, mode);
            read(raw, sequence, mode, reader)
        })
    }
}

/// Another session holds a lock with which the sequence cannot be read, or waits for one.
#[derive(Clone, Copy)]
pub struct Locked;

/// The same as [`tuple`], for a caller that must not wait for a session that alters or drops the
/// sequence, and must not fail: the lock of `nextval` keeps others from giving the sequence another
/// file.
pub fn tuple_unless_locked(sequence: Oid) -> Result<Option<Tuple>, Locked> {
    let reader = Reader::of_session();
    // SAFETY: as for `tuple`.
    unsafe {
        guarded(|raw| {
            if raw.ConditionalLockRelationOid(sequence, RowExclusiveLock) {
                Ok(read(raw, sequence, RowExclusiveLock, reader))
            } else {
                Err(Locked)
            }
        })
    }
}

/// Reads the tuple as `pg_sequence_last_value` does, and releases the lock.
///
/// # Safety
///
/// The caller holds a lock of this mode on the sequence.
unsafe fn read(raw: Raw, sequence: Oid, mode: pg_sys::LOCKMODE, reader: Reader) -> Option<Tuple> {
    // SAFETY: an open relation has its pg_class row; a sequence has block 0, and on it one tuple.
    unsafe {
        let relation = raw.try_relation_open(sequence, sys::NoLock);
        if relation.is_null() {
            raw.UnlockRelationOid(sequence, mode);
            return None;
        }
        let row = &*(*relation).rd_rel;
        let any = pg_sys::ACL_SELECT | roles::TO_GENERATE;
        // An unlogged sequence has no file on a standby.
        let has_file = row.relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT
            || !raw.RecoveryInProgress();
        let may_be_read = row.relpersistence as u8 != pg_sys::RELPERSISTENCE_TEMP
            || reader == Reader::OwnerOfTable && (*relation).rd_islocaltemp;
        let tuple = if row.relkind as u8 == pg_sys::RELKIND_SEQUENCE
            && may_be_read
            && has_file
            && (reader != Reader::Privileged || raw.may(sequence, raw.GetUserId(), any))
        {
            let buffer = raw.ReadBuffer(relation, 0);
            raw.LockBuffer(buffer, sys::BUFFER_LOCK_SHARE);
            let data = sys::sequence_tuple(pg_sys::BufferGetPage(buffer))
                .map(|(tuple, _)| *sys::sequence_data(tuple));
            raw.UnlockReleaseBuffer(buffer);
            data.map(|data| Tuple {
                last_value: data.last_value,
                log_cnt: data.log_cnt,
                is_called: data.is_called != 0,
            })
        } else {
            None
        };
        raw.relation_close(relation, mode);
        catalog::forget_sequence(raw, sequence);
        tuple
    }
}
