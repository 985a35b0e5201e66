//! Waits for writers and for the clock.

use crate::error::Error;
use crate::pg::catalog;
use crate::pg::guc;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::spi;
use crate::pg::subtransaction;
use crate::pg::wait_event::{self, WaitEvent};
use crate::sequence::IdSequence;
use crate::sequence::read;
use crate::shard::columns::{Column, key_ahead, newest_id, now_ms};
use instagram_id_core::epoch::Epoch;
use instagram_id_core::hlc;
use instagram_id_core::layout::{self, Shard};
use pgrx::pg_sys::{self, Oid};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long to try for the locks in total, and for each attempt. An attempt is short because
/// writers queue behind it.
const LOCK_TRIES_FOR: Duration = Duration::from_secs(10);

const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

const LOCK_PAUSE_MIN: Duration = Duration::from_millis(3);

/// How long `unadopt_shard` waits for the clock to catch up.
const CATCH_UP_MS: i64 = 2000;

/// Waits until the clock has passed the last value of a sequence. The original takes its time from
/// the clock, and would repeat ids ahead of it.
pub fn wait_for_the_clock(shard: Shard, sequence: IdSequence) -> Result<(), Error> {
    let Some(last_value) = read::last_value(sequence.oid) else { return Ok(()) };
    let shard = shard.number();
    wait_until_past(hlc::ms_of(last_value), sequence.epoch, |ahead_ms| Error::ShardAhead {
        shard,
        ahead: names::duration(ahead_ms / 1000),
    })
}

/// Waits until the clock has passed the newest id of these columns.
pub fn wait_for_newest_id(columns: &[Column], epoch: Epoch) -> Result<(), Error> {
    match newest_id(columns)? {
        Some((id, column)) if id >= 0 => {
            let ms = layout::ms_of(id) as i64;
            wait_until_past(ms, epoch, |_| key_ahead(id, column, epoch, None))
        }
        _ => Ok(()),
    }
}

/// Waits until the clock has passed this millisecond. `too_far` returns the error for one that is
/// too far ahead.
fn wait_until_past(ms: i64, epoch: Epoch, too_far: impl FnOnce(i64) -> Error) -> Result<(), Error> {
    let ahead_ms = || ms - now_ms(epoch);
    if ahead_ms() > CATCH_UP_MS {
        return Err(too_far(ahead_ms()));
    }
    while ahead_ms() >= 0 {
        wait_event::pause(WaitEvent::ClockTick, Duration::from_millis(1));
    }
    Ok(())
}

/// How tables are locked while their columns are read and changed.
#[derive(Clone, Copy)]
pub enum TableLock {
    /// Keeps writers out.
    AgainstWriters,
    /// As ALTER TABLE takes it.
    ToAlter,
}

impl TableLock {
    /// The statement that locks these tables.
    fn statement(self, tables: &str) -> String {
        let mode = match self {
            TableLock::AgainstWriters => "SHARE ROW EXCLUSIVE",
            TableLock::ToAlter => "ACCESS EXCLUSIVE",
        };
        format!("LOCK TABLE {tables} IN {mode} MODE")
    }
}

/// The statement that locks the tables of these columns.
pub fn lock_tables(columns: &[Column], lock: TableLock) -> Option<String> {
    let mut tables: Vec<_> = columns.iter().map(|column| names::relation(column.table)).collect();
    tables.dedup();
    (!tables.is_empty()).then(|| lock.statement(&tables.join(", ")))
}

/// Takes the locks that keep writers out: the tables of these columns first, then the sequences, in
/// the order of an insert. A transaction that has called the function directly and then writes to a
/// table locks in the opposite order, and all other writers queue behind our table lock. So we do
/// not wait for a sequence's lock. A failed attempt releases all locks and pauses for as long as it
/// held them, so that the others can proceed.
///
/// Callers read again what they have read before, since it may have changed.
pub fn lock_out_writers(
    columns: &[Column],
    lock: TableLock,
    sequences: &[Oid],
) -> Result<(), Error> {
    for oid in columns.iter().map(|column| column.table).chain(sequences.iter().copied()) {
        locks::lock_schema_of(oid);
    }
    let names: Vec<String> = columns.iter().map(|column| names::relation(column.table)).collect();
    // The relation whose lock another session has.
    let busy = Cell::new(None);
    let started = Instant::now();
    while started.elapsed() < LOCK_TRIES_FOR {
        let tried = Instant::now();
        let got_them = guc::with_lock_timeout(LOCK_TIMEOUT, || {
            subtransaction::in_subtransaction(|| {
                for name in &names {
                    busy.set(Some(name.clone()));
                    spi::run(&lock.statement(name));
                }
                sequences.iter().all(|sequence| {
                    busy.set(Some(names::relation(*sequence)));
                    let mode = pg_sys::ShareRowExclusiveLock as pg_sys::LOCKMODE;
                    // SAFETY: a lock on a dropped relation has no effect, and the next statement
                    // notices that.
                    unsafe { pg_sys::ConditionalLockRelationOid(*sequence, mode) }
                })
            })
        });
        if got_them {
            // A name that was another table's when the lock was taken would be locked in its place.
            let has_name = |(column, name): &(&Column, &String)| {
                names::relation(column.table) == **name
                    && catalog::named(name) == Some(column.table)
            };
            return match columns.iter().zip(&names).find(|one| !has_name(one)) {
                Some((_, name)) => Err(Error::TableChanged(name.clone())),
                None => Ok(()),
            };
        }
        wait_event::pause(WaitEvent::TableLocks, tried.elapsed().max(LOCK_PAUSE_MIN));
    }
    Err(Error::WritersBusy { name: busy.take().unwrap_or_default() })
}
