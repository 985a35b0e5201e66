//! The page of a sequence: lock it, read the state, apply the rule, make it durable, let go.
//!
//! This is `nextval_internal` of PostgreSQL's commands/sequence.c with the rule of [`tick`] in place of `+ 1`.
//! Locks, rights, WAL and critical section are as there. One thing is left to `nextval`: it also mends the xmax
//! of a sequence that an ancient release let someone `SELECT FOR UPDATE`, which nothing here looks at.

use crate::epoch::{Epoch, US_PER_MS};
use crate::error::{Error, Unfit};
use crate::known::{self, Era, Facts, Known, Valid};
use crate::layout::Shard;
use crate::sys::{self, NoLock, RowExclusiveLock, guarded};
use crate::tick::{self, Next, Run, State, VALUE_MAX};
use crate::{names, shard};
use pgrx::pg_sys::{self, Oid};
use std::ffi::c_int;
use std::time::Duration;

/// What to take, from where, and for whom the error speaks.
#[derive(Clone, Copy)]
pub struct Request {
    pub source: Source,
    pub epoch: Epoch,
    /// At most this many values, at least 1.
    pub want: i64,
    /// The SQL function, as error messages name it.
    pub function: &'static str,
}

/// Which sequence.
#[derive(Clone, Copy)]
pub enum Source {
    /// The one in the shard's schema, whichever that is when it is locked.
    Shard(Shard),
    Sequence(Oid),
}

/// What came of one visit to the sequence.
#[derive(Clone, Copy)]
enum Outcome {
    Taken(Run),
    Wait(Wait),
    /// While the lock was waited for something changed; the shard's sequence may be another by now.
    LookAgain,
}

/// A tick to wait for, and what that pays for: leaving this state.
#[derive(Clone, Copy)]
struct Wait {
    state: State,
    /// The page's position in WAL. It tells a state that has stayed from one that has come back, by setval: what
    /// was issued in between may be of the very millisecond that the wait was to get past.
    lsn: pg_sys::XLogRecPtr,
    /// Microseconds from the epoch to the clock as it stood.
    clock_us: i64,
}

/// Why nothing was taken. Plain data, so that it can leave the guard.
#[derive(Clone, Copy)]
enum Refusal {
    Missing,
    NotSequence,
    Unfit(Unfit),
    NoRight,
    ReadOnly,
    Parallel,
    BadMagic,
    Exhausted { last_value: i64, min_value: i64 },
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
        let (sequence, found) = match request.source {
            Source::Sequence(sequence) => (sequence, None),
            Source::Shard(shard) => {
                let found = known::era();
                (shard::sequence_of(shard)?, Some(found))
            }
        };
        let visit = known::with(sequence, |known| {
            // SAFETY: `visit` keeps the guard's rules: it panics nowhere and owns nothing with a destructor.
            unsafe { guarded(|| visit(sequence, found, &request, paid, known)) }
        });
        match visit.map_err(|refusal| explain(refusal, sequence, &request))? {
            Outcome::Taken(run) => return Ok(run),
            Outcome::LookAgain => {}
            Outcome::Wait(wait) => {
                wait_for_tick(wait.clock_us, request.epoch);
                paid = Some(wait);
            }
        }
    }
}

/// Goes to the sequence's page and takes what the rule gives.
///
/// # Safety
///
/// Inside [`guarded`].
unsafe fn visit(
    sequence: Oid,
    found: Option<Era>,
    request: &Request,
    paid: Option<Wait>,
    known: &mut Known,
) -> Result<Outcome, Refusal> {
    // SAFETY: each raw call has what its PostgreSQL counterpart asks for at the same place of nextval_internal.
    unsafe {
        lock_for_transaction(sequence, known);
        if found.is_some_and(|era| era != known::era()) {
            return Ok(Outcome::LookAgain);
        }
        let facts = check(sequence, known)?;
        if pg_sys::XactReadOnly && !facts.is_local_temp {
            return Err(Refusal::ReadOnly);
        }
        if sys::IsInParallelMode() {
            return Err(Refusal::Parallel);
        }
        let page = SequencePage::lock(sequence, facts, known);
        let outcome = page.take(request, paid, known);
        let lsn = sys::PageGetLSN(page.page);
        page.unlock();
        if let Ok(Outcome::Taken(_)) = outcome {
            make_safe(facts, lsn, known);
        }
        outcome
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
unsafe fn check(sequence: Oid, known: &mut Known) -> Result<Facts, Refusal> {
    // SAFETY: as for `visit`; an open relation has its pg_class row.
    unsafe {
        let now = Valid { era: known::era(), role: sys::GetUserId(), transaction: 0 };
        if let Some((valid, facts)) = known.checked
            && (valid == now || valid == Valid { transaction: known.locked_in, ..now })
        {
            return Ok(facts);
        }
        let relation = sys::try_relation_open(sequence, NoLock);
        if relation.is_null() {
            return Err(Refusal::Missing);
        }
        let is_sequence = (*(*relation).rd_rel).relkind as u8 == pg_sys::RELKIND_SEQUENCE;
        let mut facts = Facts {
            locator: sys::rd_locator(relation),
            min_value: 0,
            needs_wal: sys::RelationNeedsWAL(relation),
            is_local_temp: (*relation).rd_islocaltemp,
        };
        sys::relation_close(relation, NoLock);
        if !is_sequence {
            return Err(Refusal::NotSequence);
        }
        let either = (pg_sys::ACL_USAGE | pg_sys::ACL_UPDATE) as pg_sys::AclMode;
        if sys::pg_class_aclcheck(sequence, now.role, either) != pg_sys::AclResult::ACLCHECK_OK {
            return Err(Refusal::NoRight);
        }
        let Some(options) = sys::pg_sequence_row(sequence) else {
            return Err(Refusal::Missing);
        };
        let unfit = Unfit {
            not_bigint: options.seqtypid != pg_sys::INT8OID,
            increment: (options.seqincrement != 1).then_some(options.seqincrement),
            max: (options.seqmax < VALUE_MAX).then_some(options.seqmax),
            min: None, // the clock moves: checked with every value
            cycle: options.seqcycle != 0,
        };
        if unfit != Unfit::default() {
            return Err(Refusal::Unfit(unfit));
        }
        facts.min_value = options.seqmin;
        // What has no WAL in this transaction may have it in the next.
        let transaction = if facts.needs_wal { 0 } else { known.locked_in };
        known.checked = Some((Valid { transaction, ..now }, facts));
        Ok(facts)
    }
}

/// Sees to it that the WAL record which covers the values just taken is on disk when this transaction ends.
///
/// The transaction that wrote the record flushes it with its commit. Another one may live on the values that the
/// record logged ahead, write nothing itself, and hand them out before anyone has flushed; a crash would then
/// issue them again. So whoever first finds a record that is new to him flushes it, once, holding no lock.
unsafe fn make_safe(facts: Facts, lsn: pg_sys::XLogRecPtr, known: &mut Known) {
    // SAFETY: as for `visit`; the position is that of a record on a page with WAL.
    unsafe {
        if known.safe_lsn == lsn && (known.safe_in == 0 || known.safe_in == known.locked_in) {
            return;
        }
        let commits_wait =
            pg_sys::synchronous_commit > pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as c_int;
        if commits_wait && facts.needs_wal {
            sys::XLogFlush(lsn);
            known.safe_lsn = lsn;
            known.safe_in = 0;
        }
    }
}

/// A sequence's one page, pinned and locked exclusively.
///
/// Without a destructor, since an error leaves by `longjmp`: then the transaction's abort lets go of the page.
#[derive(Clone, Copy)]
struct SequencePage {
    facts: Facts,
    buffer: pg_sys::Buffer,
    page: pg_sys::Page,
    tuple: pg_sys::HeapTupleHeader,
    tuple_len: u32,
}

impl SequencePage {
    /// In the buffer where it last was, if it still is there; else wherever the buffer manager has it or puts it.
    unsafe fn lock(sequence: Oid, facts: Facts, known: &mut Known) -> SequencePage {
        // SAFETY: a sequence has block 0, and on it one tuple; a pinned buffer's page stays in place.
        unsafe {
            const MAIN: pg_sys::ForkNumber::Type = pg_sys::ForkNumber::MAIN_FORKNUM;
            let is_recent = known.buffer != pg_sys::InvalidBuffer as pg_sys::Buffer
                && sys::ReadRecentBuffer(facts.locator, MAIN, 0, known.buffer);
            if !is_recent {
                let relation = sys::relation_open(sequence, NoLock);
                known.buffer = sys::ReadBuffer(relation, 0);
                sys::relation_close(relation, NoLock);
            }
            let buffer = known.buffer;
            sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as c_int);
            let page = pg_sys::BufferGetPage(buffer);
            let (tuple, tuple_len) = sys::first_tuple(page);
            SequencePage { facts, buffer, page, tuple, tuple_len }
        }
    }

    unsafe fn unlock(self) {
        // SAFETY: locked and pinned by `lock`.
        unsafe { sys::UnlockReleaseBuffer(self.buffer) }
    }

    /// Reads the state, asks the rule, and where it gives values records and applies them.
    unsafe fn take(
        self,
        request: &Request,
        paid: Option<Wait>,
        known: &mut Known,
    ) -> Result<Outcome, Refusal> {
        // SAFETY: the page is locked; as for `visit`.
        unsafe {
            if sys::sequence_magic(self.page) != sys::SEQ_MAGIC {
                return Err(Refusal::BadMagic);
            }
            let data = *sys::sequence_data(self.tuple);
            let state = State { last_value: data.last_value, is_called: data.is_called != 0 };
            let clock_us = request.epoch.elapsed_us(sys::GetCurrentTimestamp());
            let now_ms = clock_us.div_euclid(US_PER_MS);
            let lsn = sys::PageGetLSN(self.page);
            let paid = paid.filter(|wait| wait.lsn == lsn).map(|wait| wait.state);
            let run = match tick::next(state, now_ms, request.want, paid) {
                Next::Take(run) => run,
                Next::Wait => return Ok(Outcome::Wait(Wait { state, lsn, clock_us })),
                Next::Exhausted => {
                    let (last_value, min_value) = (state.last_value, self.facts.min_value);
                    return Err(Refusal::Exhausted { last_value, min_value });
                }
                Next::ClockBeforeEpoch => return Err(Refusal::ClockBeforeEpoch),
                Next::ClockPastField => return Err(Refusal::ClockPastField),
            };
            let min = self.facts.min_value;
            if run.first < min {
                return Err(Refusal::Unfit(Unfit { min: Some(min), ..Unfit::default() }));
            }
            let must_record = !state.is_called || !self.is_covered_by_wal(known);
            let plan = tick::durability(state.last_value, data.log_cnt, run.last(), now_ms, must_record);
            if self.advance(run.last(), plan) {
                known.logged_file = sys::file_number(self.facts.locator);
                known.safe_lsn = sys::PageGetLSN(self.page);
                known.safe_in = known.locked_in;
            }
            Ok(Outcome::Taken(run))
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
            known.logged_file == sys::file_number(self.facts.locator)
                && sys::PageGetLSN(self.page) > sys::GetRedoRecPtr()
        }
    }

    /// Makes `new_value` the sequence's last one: first in WAL, ahead of it, then on the page. Returns whether a
    /// WAL record was written.
    unsafe fn advance(self, new_value: i64, plan: tick::Durability) -> bool {
        // SAFETY: the order is nextval_internal's. The transaction id is assigned before the critical section,
        // in which an error would be a panic, so that the commit waits for the record to be flushed. The buffer
        // is dirty before the record is inserted, lest a checkpoint miss it; no one sees the page with the
        // logged values, since it is locked until the true ones are back.
        unsafe {
            let data = sys::sequence_data(self.tuple);
            let record = plan.record.filter(|_| self.facts.needs_wal);
            if record.is_some() {
                sys::GetTopTransactionId();
            }
            sys::START_CRIT_SECTION();
            sys::MarkBufferDirty(self.buffer);
            (*data).is_called = 1;
            if let Some(logged_value) = record {
                (*data).last_value = logged_value;
                (*data).log_cnt = 0;
                sys::log_sequence_tuple(
                    self.facts.locator,
                    self.buffer,
                    self.page,
                    self.tuple,
                    self.tuple_len,
                );
            }
            (*data).last_value = new_value;
            // What has no WAL has nothing logged ahead; it may get WAL later, with this page as it stands.
            (*data).log_cnt = if self.facts.needs_wal { plan.log_cnt } else { 0 };
            sys::END_CRIT_SECTION();
            record.is_some()
        }
    }
}

/// Sleeps until the clock's next tick after `clock_us` (at most 1 ms), then lets a cancel or a timeout through.
fn wait_for_tick(clock_us: i64, epoch: Epoch) {
    let now_us = epoch.elapsed_us(names::now());
    let next_tick_us = (clock_us.div_euclid(US_PER_MS) + 1) * US_PER_MS;
    // The clock may have been set in between; a tick of real time never takes longer than this.
    let left_us = (next_tick_us - now_us).clamp(0, US_PER_MS);
    sys::pgstat_report_wait_start(pg_sys::PG_WAIT_EXTENSION);
    std::thread::sleep(Duration::from_micros(left_us as u64));
    sys::pgstat_report_wait_end();
    pgrx::check_for_interrupts!();
}

/// The error for a refusal.
fn explain(refusal: Refusal, sequence: Oid, request: &Request) -> Error {
    let name = || names::relation(sequence);
    let clock_and_epoch = || (names::time(names::now()), names::time(request.epoch.at()));
    match refusal {
        Refusal::Missing => Error::SequenceMissing(sequence),
        Refusal::NotSequence => Error::NotSequence(name()),
        Refusal::Unfit(unfit) => Error::Unfit { name: name(), unfit },
        Refusal::NoRight => Error::NoRightOnSequence { name: name(), role: names::current_role() },
        Refusal::ReadOnly => Error::ReadOnly {
            function: request.function,
            // SAFETY: asks shared memory, without effect.
            standby: unsafe { pg_sys::RecoveryInProgress() },
        },
        Refusal::Parallel => Error::Parallel(request.function),
        Refusal::BadMagic => Error::BadMagic(name()),
        Refusal::Exhausted { last_value, min_value } => {
            Error::Exhausted { name: name(), last_value, min_value }
        }
        Refusal::ClockBeforeEpoch => {
            let (time, epoch) = clock_and_epoch();
            Error::ClockBeforeEpoch { time, epoch }
        }
        Refusal::ClockPastField => {
            let (time, epoch) = clock_and_epoch();
            Error::ClockPastField { time, epoch }
        }
    }
}
