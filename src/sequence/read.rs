//! Reads the page of a sequence without changing it.

use crate::pg::catalog;
use crate::pg::raw::{Raw, guarded};
use crate::pg::sys::{self, AccessShareLock, RowExclusiveLock};
use instagram_id_core::copy::Tuple;
use instagram_id_core::hlc::State;
use pgrx::pg_sys::{self, Oid};

/// The last value of a sequence. `None` if it was never called, or if this role or server cannot
/// read it, or if it belongs to the temporary tables of another session. It waits for no session
/// that uses the sequence, but for one that alters it, and writes nothing.
pub fn last_value(sequence: Oid) -> Option<i64> {
    state(sequence).filter(|state| state.is_called).map(|state| state.last_value)
}

/// The state of a sequence, even if it was never called; `last_value` is then its start value. It
/// waits for a session that alters the sequence, which could give it another file meanwhile.
pub fn state(sequence: Oid) -> Option<State> {
    tuple_under(sequence, RowExclusiveLock).map(state_of)
}

/// The state of a sequence in a tuple.
pub fn state_of(Tuple { last_value, is_called, .. }: Tuple) -> State {
    State { last_value, is_called }
}

/// The tuple of a sequence, for a caller that must not wait for a session that alters it. At that
/// moment this can fail.
pub fn tuple(sequence: Oid) -> Option<Tuple> {
    tuple_under(sequence, AccessShareLock)
}

fn tuple_under(sequence: Oid, mode: pg_sys::LOCKMODE) -> Option<Tuple> {
    let reads_all = reads_all_stats();
    // SAFETY: `read` does not panic and owns nothing with a destructor.
    unsafe {
        guarded(|raw| {
            raw.LockRelationOid(sequence, mode);
            read(raw, sequence, mode, reads_all)
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
    let reads_all = reads_all_stats();
    // SAFETY: as for `tuple`.
    unsafe {
        guarded(|raw| {
            if raw.ConditionalLockRelationOid(sequence, RowExclusiveLock) {
                Ok(read(raw, sequence, RowExclusiveLock, reads_all))
            } else {
                Err(Locked)
            }
        })
    }
}

/// Reads the tuple as `pg_sequence_last_value` does, and releases the lock. Members of
/// `pg_read_all_stats` need no privilege on the sequence.
///
/// # Safety
///
/// The caller holds a lock of this mode on the sequence.
unsafe fn read(raw: Raw, sequence: Oid, mode: pg_sys::LOCKMODE, reads_all: bool) -> Option<Tuple> {
    // SAFETY: an open relation has its pg_class row; a sequence has block 0, and on it one tuple.
    unsafe {
        let relation = raw.try_relation_open(sequence, sys::NoLock);
        if relation.is_null() {
            raw.UnlockRelationOid(sequence, mode);
            return None;
        }
        let row = &*(*relation).rd_rel;
        let any = (pg_sys::ACL_SELECT | pg_sys::ACL_USAGE | pg_sys::ACL_UPDATE) as pg_sys::AclMode;
        // An unlogged sequence has no file on a standby.
        let has_file = row.relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT
            || !raw.RecoveryInProgress();
        let is_of_another_session =
            row.relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP && !(*relation).rd_islocaltemp;
        let tuple = if row.relkind as u8 == pg_sys::RELKIND_SEQUENCE
            && !is_of_another_session
            && has_file
            && (raw.may(sequence, raw.GetUserId(), any) || reads_all)
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

/// Whether this role may read the statistics of the whole server, as members of `pg_monitor` may.
/// How far a sequence has advanced is one of them, so a monitoring role needs no grant on each
/// sequence.
fn reads_all_stats() -> bool {
    catalog::has_rights_of(catalog::current_role(), pg_sys::ROLE_PG_READ_ALL_STATS.into())
}
