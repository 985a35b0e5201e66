//! The page of a sequence: lock it, read the state, apply the rule, make it durable, let go.
//!
//! This is `nextval_internal` of PostgreSQL's commands/sequence.c with the rule of [`tick`] in place of `+ 1`.
//! Locks, rights, WAL and critical section are as there.

use crate::epoch::{Epoch, US_PER_MS};
use crate::error::{Error, Unfit};
use crate::known::{self, Known};
use crate::names;
use crate::sys::{self, NoLock, RowExclusiveLock, guarded};
use crate::tick::{self, Next, Run, State, VALUE_MAX};
use pgrx::pg_sys::{self, Oid};
use std::ffi::c_int;
use std::time::Duration;

/// What to take from which sequence, and for whom the error speaks.
#[derive(Clone, Copy)]
pub struct Request {
    pub sequence: Oid,
    pub epoch: Epoch,
    /// At most this many values, at least 1.
    pub want: i64,
    /// The SQL function, as error messages name it.
    pub function: &'static str,
}

/// A tick to wait for, and the state of the sequence that it pays for.
#[derive(Clone, Copy)]
struct Wait {
    state: State,
    /// Microseconds from the epoch to the clock as it stood.
    clock_us: i64,
}

/// What came of one visit to the sequence. Plain data, so that it can leave the guard.
#[derive(Clone, Copy)]
enum Visit {
    Taken(Run),
    Wait(Wait),
    Missing,
    NotSequence,
    Unfit(Unfit),
    NoRight,
    ReadOnly,
    Parallel,
    Corrupt,
    Exhausted(State),
    ClockBeforeEpoch,
    ClockPastField,
}

/// Takes the next values of a sequence, waiting for the clock's ticks as the rule asks.
///
/// Between two visits nothing is held but the sequence's relation lock, which like `nextval`'s lasts until the
/// transaction ends and stands in no other caller's way.
pub fn take(request: Request) -> Result<Run, Error> {
    let mut paid = None;
    loop {
        let mut known = known::recall(request.sequence);
        let before = known;
        // SAFETY: `visit` keeps the guard's rules: it panics nowhere and owns nothing with a destructor.
        let visit = unsafe { guarded(|| visit(&request, paid, &mut known)) };
        if known != before {
            known::remember(request.sequence, known);
        }
        match visit {
            Visit::Taken(run) => return Ok(run),
            Visit::Wait(wait) => {
                wait_for_tick(wait.clock_us, request.epoch);
                paid = Some(wait.state);
            }
            refused => return Err(explain(refused, &request)),
        }
    }
}

/// Goes to the sequence's page and takes what the rule gives.
///
/// # Safety
///
/// Inside [`guarded`].
unsafe fn visit(request: &Request, paid: Option<State>, known: &mut Known) -> Visit {
    // SAFETY: each raw call has what its PostgreSQL counterpart asks for at the same place of nextval_internal.
    unsafe {
        lock_for_transaction(request.sequence, known);
        if let Err(refusal) = check(request.sequence, known) {
            return refusal;
        }
        let relation = sys::relation_open(request.sequence, NoLock);
        let visit = if pg_sys::XactReadOnly && !(*relation).rd_islocaltemp {
            Visit::ReadOnly
        } else if sys::IsInParallelMode() {
            Visit::Parallel
        } else {
            let page = SequencePage::lock(relation);
            let visit = page.take(request, paid, known);
            page.unlock();
            visit
        };
        sys::relation_close(relation, NoLock);
        visit
    }
}

/// Locks the sequence against being dropped or altered, once a transaction.
unsafe fn lock_for_transaction(sequence: Oid, known: &mut Known) {
    // SAFETY: as for `visit`.
    unsafe {
        let transaction = sys::local_transaction_id();
        if known.locked_in != transaction {
            sys::LockRelationForTransaction(sequence, RowExclusiveLock);
            known.locked_in = transaction;
        }
    }
}

/// Checks that this is a sequence fit to be a clock and that the current role may use it; at once where that
/// was found out before and nothing has changed since.
unsafe fn check(sequence: Oid, known: &mut Known) -> Result<(), Visit> {
    // SAFETY: as for `visit`.
    unsafe {
        let role = sys::GetUserId();
        let era = known::era();
        if known.checked == Some((era, role)) {
            return Ok(());
        }
        let relation = sys::try_relation_open(sequence, NoLock);
        if relation.is_null() {
            return Err(Visit::Missing);
        }
        let relkind = (*(*relation).rd_rel).relkind as u8;
        sys::relation_close(relation, NoLock);
        if relkind != pg_sys::RELKIND_SEQUENCE {
            return Err(Visit::NotSequence);
        }
        let either = (pg_sys::ACL_USAGE | pg_sys::ACL_UPDATE) as pg_sys::AclMode;
        if sys::pg_class_aclcheck(sequence, role, either) != pg_sys::AclResult::ACLCHECK_OK {
            return Err(Visit::NoRight);
        }
        let Some(options) = sys::pg_sequence_row(sequence) else {
            return Err(Visit::Missing);
        };
        let unfit = Unfit {
            not_bigint: options.seqtypid != pg_sys::INT8OID,
            increment: (options.seqincrement != 1).then_some(options.seqincrement),
            max: (options.seqmax < VALUE_MAX).then_some(options.seqmax),
            min: None, // depends on the clock: see SequencePage::take
            cycle: options.seqcycle,
        };
        if unfit != Unfit::default() {
            return Err(Visit::Unfit(unfit));
        }
        known.min_value = options.seqmin;
        known.checked = Some((era, role));
        Ok(())
    }
}

/// A sequence's one page, pinned and locked exclusively.
///
/// Without a destructor, since an error leaves by `longjmp`: then the transaction's abort lets go of the page.
#[derive(Clone, Copy)]
struct SequencePage {
    relation: pg_sys::Relation,
    buffer: pg_sys::Buffer,
    page: pg_sys::Page,
    tuple: pg_sys::HeapTupleHeader,
    tuple_len: u32,
}

impl SequencePage {
    unsafe fn lock(relation: pg_sys::Relation) -> SequencePage {
        // SAFETY: an open sequence has block 0, and on it one tuple; a pinned buffer's page stays in place.
        unsafe {
            let buffer = sys::ReadBuffer(relation, 0);
            sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as c_int);
            let page = pg_sys::BufferGetPage(buffer);
            let (tuple, tuple_len) = sys::first_tuple(page);
            SequencePage { relation, buffer, page, tuple, tuple_len }
        }
    }

    unsafe fn unlock(self) {
        // SAFETY: locked and pinned by `lock`.
        unsafe { sys::UnlockReleaseBuffer(self.buffer) }
    }

    /// Reads the state, asks the rule, and where it gives values records and applies them.
    unsafe fn take(self, request: &Request, paid: Option<State>, known: &mut Known) -> Visit {
        // SAFETY: the page is locked; as for `visit`.
        unsafe {
            if sys::sequence_magic(self.page) != sys::SEQ_MAGIC {
                return Visit::Corrupt;
            }
            let data = *sys::sequence_data(self.tuple);
            let state = State { last_value: data.last_value, is_called: data.is_called };
            let clock_us = request.epoch.elapsed_us(sys::GetCurrentTimestamp());
            let now_ms = clock_us.div_euclid(US_PER_MS);
            let run = match tick::next(state, now_ms, request.want, paid) {
                Next::Take(run) => run,
                Next::Wait => return Visit::Wait(Wait { state, clock_us }),
                Next::Exhausted => return Visit::Exhausted(state),
                Next::ClockBeforeEpoch => return Visit::ClockBeforeEpoch,
                Next::ClockPastField => return Visit::ClockPastField,
            };
            if run.first < known.min_value {
                return Visit::Unfit(Unfit { min: Some(known.min_value), ..Unfit::default() });
            }
            let must_record = !state.is_called || !self.is_covered_by_wal(known);
            let plan = tick::durability(state.last_value, data.log_cnt, run.last(), now_ms, must_record);
            self.advance(run.last(), plan);
            if plan.record.is_some() {
                known.logged_file = sys::rd_file_number(self.relation);
            }
            Visit::Taken(run)
        }
    }

    /// Whether `log_cnt` can be believed: WAL that a crash would replay holds a record of this very file.
    ///
    /// Records from before the last checkpoint's redo point are not replayed. And a file that came into being
    /// as a copy (a database made from a template, a sequence made logged) has the `log_cnt` of the original,
    /// but no record of its own: so every backend's first value from a file is recorded.
    unsafe fn is_covered_by_wal(self, known: &Known) -> bool {
        // SAFETY: the page is locked.
        unsafe {
            known.logged_file == sys::rd_file_number(self.relation)
                && sys::PageGetLSN(self.page) > sys::GetRedoRecPtr()
        }
    }

    /// Makes `new_value` the sequence's last one: first in WAL, ahead of it, then on the page.
    unsafe fn advance(self, new_value: i64, plan: tick::Durability) {
        // SAFETY: the order is nextval_internal's. The transaction id is assigned before the critical section,
        // in which an error would be a panic, so that the commit waits for the record to be flushed. The buffer
        // is dirty before the record is inserted, lest a checkpoint miss it; no one sees the page with the
        // logged values, since it is locked until the true ones are back.
        unsafe {
            let data = sys::sequence_data(self.tuple);
            let record = plan.record.filter(|_| sys::RelationNeedsWAL(self.relation));
            if record.is_some() {
                sys::GetTopTransactionId();
            }
            sys::START_CRIT_SECTION();
            sys::MarkBufferDirty(self.buffer);
            (*data).is_called = true;
            if let Some(logged_value) = record {
                (*data).last_value = logged_value;
                (*data).log_cnt = 0;
                sys::log_sequence_tuple(self.relation, self.buffer, self.page, self.tuple, self.tuple_len);
            }
            (*data).last_value = new_value;
            (*data).log_cnt = plan.log_cnt;
            sys::END_CRIT_SECTION();
        }
    }
}

/// Sleeps until the clock's next tick after `clock_us` (at most 1 ms), then lets a cancel or a timeout through.
fn wait_for_tick(clock_us: i64, epoch: Epoch) {
    // SAFETY: reads the clock.
    let now_us = epoch.elapsed_us(unsafe { guarded(|| sys::GetCurrentTimestamp()) });
    let next_tick_us = (clock_us.div_euclid(US_PER_MS) + 1) * US_PER_MS;
    // The clock may have been set in between; a tick of real time never takes longer than this.
    let left_us = (next_tick_us - now_us).clamp(0, US_PER_MS);
    report_wait(pg_sys::PG_WAIT_EXTENSION);
    std::thread::sleep(Duration::from_micros(left_us as u64));
    report_wait(0);
    pgrx::check_for_interrupts!();
}

/// `utils/wait_event.h`: what pg_stat_activity shows as this backend's wait event.
fn report_wait(event: u32) {
    // SAFETY: PostgreSQL lets this point at a writable u32 all through a backend's life.
    unsafe { pg_sys::my_wait_event_info.write_volatile(event) }
}

/// The error for a visit that took nothing.
fn explain(visit: Visit, request: &Request) -> Error {
    let name = || names::relation(request.sequence);
    // SAFETY: reads the clock.
    let clock_and_epoch =
        || (names::time(unsafe { pg_sys::GetCurrentTimestamp() }), names::time(request.epoch.at()));
    match visit {
        Visit::Taken(_) | Visit::Wait(_) => unreachable!("not a refusal"),
        Visit::Missing => Error::SequenceMissing(request.sequence),
        Visit::NotSequence => Error::NotSequence(name()),
        Visit::Unfit(unfit) => Error::Unfit { name: name(), unfit },
        Visit::NoRight => Error::NoRightOnSequence { name: name(), role: names::current_role() },
        Visit::ReadOnly => Error::ReadOnly {
            function: request.function,
            // SAFETY: asks shared memory, without effect.
            standby: unsafe { pg_sys::RecoveryInProgress() },
        },
        Visit::Parallel => Error::Parallel(request.function),
        Visit::Corrupt => Error::CorruptPage(name()),
        Visit::Exhausted(state) => Error::Exhausted { name: name(), last_value: state.last_value },
        Visit::ClockBeforeEpoch => {
            let (time, epoch) = clock_and_epoch();
            Error::ClockBeforeEpoch { time, epoch }
        }
        Visit::ClockPastField => {
            let (time, epoch) = clock_and_epoch();
            Error::ClockPastField { time, epoch }
        }
    }
}
