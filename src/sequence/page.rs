//! A sequence's one page, locked: apply the clock, close, open, write WAL.

use crate::error::Unfit;
use crate::pg::raw::Raw;
use crate::pg::sys::{self, NoLock};
use crate::pg::transaction;
use crate::sequence::CopyPolicy;
use crate::sequence::cache::{CachedSequence, Placement, SequenceInfo};
use crate::sequence::refusal::Refusal;
use instagram_id_core::copy::{self, Tuple, first_of_range};
use instagram_id_core::epoch::{Epoch, US_PER_MS};
use instagram_id_core::hlc::{self, Next, Run, Seen, State, Wait};
use pgrx::pg_sys::{self, Oid, XLogRecPtr};

/// The outcome of a visit to take values.
#[derive(Clone, Copy)]
pub enum Outcome {
    Taken {
        run: Run,
        /// Milliseconds that the first of them is ahead of the clock.
        ahead_ms: i64,
    },
    Wait(Wait),
    /// The catalogs changed while this session waited for the lock, so the shard may have another
    /// sequence now.
    LookAgain,
}

/// A sequence's one page, pinned and locked exclusively until [`SequencePage::unlock`].
///
/// It has no destructor, because an error leaves by `longjmp`. The abort of the transaction then
/// releases the page.
pub struct SequencePage<'a> {
    raw: Raw<'a>,
    info: &'a SequenceInfo,
    buffer: pg_sys::Buffer,
    page: pg_sys::Page,
    tuple: pg_sys::HeapTupleHeader,
    tuple_len: u32,
}

impl<'a> SequencePage<'a> {
    /// Pins and locks the page, in the buffer where it last was if it still is there.
    #[inline(always)]
    pub unsafe fn lock(
        raw: Raw<'a>,
        sequence: Oid,
        info: &'a SequenceInfo,
        cached: &mut CachedSequence,
    ) -> Result<SequencePage<'a>, Refusal> {
        // SAFETY: a sequence has block 0, and on it one tuple; a pinned buffer's page stays in
        // place.
        unsafe {
            const MAIN: pg_sys::ForkNumber::Type = pg_sys::ForkNumber::MAIN_FORKNUM;
            let is_recent = cached.buffer != pg_sys::InvalidBuffer as pg_sys::Buffer
                && raw.ReadRecentBuffer(info.locator, MAIN, 0, cached.buffer);
            if !is_recent {
                cached.has_filled_caches = true;
                let relation = raw.relation_open(sequence, NoLock);
                cached.buffer = raw.ReadBuffer(relation, 0);
                raw.relation_close(relation, NoLock);
            }
            let buffer = cached.buffer;
            lock_exclusively(raw, buffer);
            let page = pg_sys::BufferGetPage(buffer);
            let Some((tuple, tuple_len)) = sys::sequence_tuple(page) else {
                raw.UnlockReleaseBuffer(buffer);
                return Err(Refusal::BadMagic);
            };
            Ok(SequencePage { raw, info, buffer, page, tuple, tuple_len })
        }
    }

    /// Releases the page, and returns its LSN.
    #[inline(always)]
    pub fn unlock(self) -> XLogRecPtr {
        let lsn = self.lsn();
        // SAFETY: locked and pinned by `lock`.
        unsafe { self.raw.UnlockReleaseBuffer(self.buffer) };
        lsn
    }

    /// The position of the last WAL record of the page.
    #[inline(always)]
    fn lsn(&self) -> XLogRecPtr {
        // SAFETY: the page is locked.
        unsafe { sys::PageGetLSN(self.page) }
    }

    /// Why a role that lacks UPDATE may not use a sequence that may be the counter of a serial
    /// column: it is one, or a node of a cluster would be the first to take it over from the
    /// others, whose copies may be.
    #[cold]
    pub fn refusal_without_update(&self, policy: CopyPolicy) -> Option<Refusal> {
        let Tuple { last_value, is_called, .. } = self.data();
        if policy.needs_open() && self.is_closed() && !copy::is_closed(last_value) {
            return Some(Refusal::NoRight { update: true });
        }
        let range_from = match self.info.placement {
            Placement::Copy { group, .. } if group > 0 => Some(first_of_range(group.into())),
            _ => None,
        };
        let now_us = elapsed_us(self.raw, Epoch::ORIGINAL);
        let now = hlc::first_of(now_us.div_euclid(US_PER_MS));
        hlc::is_counter(State { last_value, is_called }, self.info.min_value, range_from, now)
            .then_some(Refusal::Counter { last_value })
    }

    /// Takes 1 to `want` values, as [`hlc::visit`] decides.
    ///
    /// `arrived_us` is the clock at the caller's arrival, in microseconds from the epoch.
    #[inline(always)]
    pub fn take(
        &self,
        epoch: Epoch,
        policy: CopyPolicy,
        arrived_us: i64,
        want: i64,
        waited_on: Option<Wait>,
        cached: &mut CachedSequence,
    ) -> Result<Outcome, Refusal> {
        let data = self.data();
        let state = State { last_value: data.last_value, is_called: data.is_called };
        if !state.is_called {
            self.check_start(data, policy)?;
        }
        let seen = Seen { state, lsn: self.lsn() };
        let min = self.info.min_value;
        let (next, clock_us) =
            hlc::visit(seen, arrived_us, || elapsed_us(self.raw, epoch), want, min, waited_on);
        let now_ms = clock_us.div_euclid(US_PER_MS);
        let run = match next {
            Next::Take(run) => run,
            Next::Wait { ticks } => return Ok(Outcome::Wait(Wait { seen, clock_us, ticks })),
            refused => return Err(self.refusal(refused, epoch, state.last_value, policy)),
        };
        if run.first < min {
            return Err(Refusal::Unfit(Unfit { min: Some(min), ..Unfit::default() }));
        }
        // SAFETY: the page is locked. If a checkpoint begins after the redo point was read, it
        // writes this page, because the page is dirty.
        unsafe { self.raw.MarkBufferDirty(self.buffer) };
        let must_record = !state.is_called || !self.is_covered_by_wal(cached);
        let plan = hlc::durability(state.last_value, data.log_cnt, run.last(), now_ms, must_record);
        self.step(run.last(), plan, cached);
        Ok(Outcome::Taken { run, ahead_ms: hlc::ms_of(run.first) - now_ms })
    }

    /// Whether the sequence is a copy of a node.
    pub fn is_copy(&self) -> bool {
        self.info.placement.is_copy()
    }

    /// Whether it is one that is not open.
    fn is_closed(&self) -> bool {
        self.data().is_closed(self.is_copy())
    }

    /// Checks that a sequence which was never called may start, as a copy that is not open may not.
    #[cold]
    fn check_start(&self, data: Tuple, policy: CopyPolicy) -> Result<(), Refusal> {
        if policy.needs_open() && self.is_closed() {
            return Err(Refusal::Closed);
        }
        if copy::is_closed(data.last_value) {
            return Err(Refusal::ServesShard);
        }
        Ok(())
    }

    /// The reason why the rule issues no value.
    #[cold]
    fn refusal(&self, next: Next, epoch: Epoch, last_value: i64, policy: CopyPolicy) -> Refusal {
        match next {
            Next::ClockBeforeEpoch => Refusal::ClockBeforeEpoch(epoch),
            Next::ClockPastField => Refusal::ClockPastField(epoch),
            _ if !copy::is_closed(last_value) => Refusal::Exhausted { last_value },
            _ if policy.needs_open() => Refusal::Closed,
            _ => Refusal::ServesShard,
        }
    }

    /// Makes `value` the last value, unless the sequence has already reached it. Returns the last
    /// value after that, which is that of an id: a sequence without MAXVALUE can be beyond them.
    pub fn advance_to(
        &self,
        epoch: Epoch,
        value: i64,
        cached: &mut CachedSequence,
    ) -> Result<i64, Refusal> {
        let data = self.data();
        if self.is_closed() {
            return Err(Refusal::Closed);
        }
        if data.is_called && data.last_value >= value {
            let last_value = data.last_value;
            return match last_value > hlc::VALUE_MAX {
                true => Err(Refusal::Exhausted { last_value }),
                false => Ok(last_value),
            };
        }
        self.step_at_once(epoch, data.last_value, value, cached);
        Ok(value)
    }

    /// Writes a step of the take-over and flushes it, whatever `synchronous_commit` is, because a
    /// crash must not undo it. Returns whether there was something to write.
    pub fn write_and_flush(&self, tuple: Option<Tuple>, cached: &mut CachedSequence) -> bool {
        let Some(tuple) = tuple else { return false };
        self.write(tuple, cached);
        if self.info.needs_wal {
            // SAFETY: `write` has inserted a record, whose position the page has now.
            unsafe { self.raw.XLogFlush(self.lsn()) };
        }
        true
    }

    /// Replaces the tuple, for example by one that is closed.
    pub fn write(&self, tuple: Tuple, cached: &mut CachedSequence) {
        // SAFETY: in the order of `step`.
        unsafe {
            let data = sys::sequence_data(self.tuple);
            if self.info.needs_wal {
                self.raw.GetTopTransactionId();
            }
            sys::START_CRIT_SECTION();
            self.raw.MarkBufferDirty(self.buffer);
            *data = sys::FormData_pg_sequence_data {
                last_value: tuple.last_value,
                log_cnt: tuple.log_cnt,
                is_called: tuple.is_called.into(),
            };
            if self.info.needs_wal {
                self.log();
            }
            sys::END_CRIT_SECTION();
            if self.info.needs_wal {
                self.has_logged(cached);
            }
        }
    }

    /// Makes `new_value` the last value, and logs it whatever was logged before.
    pub fn step_at_once(
        &self,
        epoch: Epoch,
        last_value: i64,
        new_value: i64,
        cached: &mut CachedSequence,
    ) {
        let now_ms = elapsed_us(self.raw, epoch).div_euclid(US_PER_MS);
        let plan = hlc::durability(last_value, 0, new_value, now_ms, true);
        // SAFETY: the page is locked.
        unsafe { self.raw.MarkBufferDirty(self.buffer) };
        self.step(new_value, plan, cached);
    }

    /// Makes `new_value` the last value: first logs a later value if a WAL record is due, then
    /// changes the page. The buffer must be marked dirty already.
    #[inline(always)]
    fn step(&self, new_value: i64, plan: hlc::Durability, cached: &mut CachedSequence) {
        // SAFETY: the order is that of nextval_internal. The transaction id is assigned before the
        // critical section, in which an error would be a PANIC; because of the id, the commit waits
        // for the record to be flushed. The buffer is dirty before the record is inserted, because
        // otherwise a checkpoint could miss it. No other session sees the logged values on the
        // page, because it stays locked until the true ones are restored.
        unsafe {
            let data = sys::sequence_data(self.tuple);
            let record = plan.record.filter(|_| self.info.needs_wal);
            if record.is_some() {
                self.raw.GetTopTransactionId();
            }
            sys::START_CRIT_SECTION();
            (*data).is_called = 1;
            if let Some(logged_value) = record {
                (*data).last_value = logged_value;
                (*data).log_cnt = 0;
                self.log();
            }
            (*data).last_value = new_value;
            // Without WAL nothing is logged ahead. The sequence may become logged later, with this
            // page as it is, so log_cnt must be 0.
            (*data).log_cnt = if self.info.needs_wal { plan.log_cnt } else { 0 };
            sys::END_CRIT_SECTION();
            if record.is_some() {
                self.has_logged(cached);
            }
        }
    }

    /// Writes the tuple on the page to WAL.
    fn log(&self) {
        // SAFETY: the page is locked and dirty, in a critical section.
        unsafe {
            let SequencePage { raw, info, buffer, page, tuple, tuple_len } = *self;
            raw.log_sequence_tuple(info.locator, buffer, page, tuple, tuple_len);
        }
    }

    /// Notes that this transaction has written a record, which its commit makes durable.
    fn has_logged(&self, cached: &mut CachedSequence) {
        cached.logged_file = sys::file_number(self.info.locator);
        cached.flushed = Some(transaction::when_committed(self.lsn()));
    }

    #[inline(always)]
    pub fn data(&self) -> Tuple {
        // SAFETY: the page is locked, and was found to be a sequence's.
        let data = unsafe { &*sys::sequence_data(self.tuple) };
        Tuple { last_value: data.last_value, log_cnt: data.log_cnt, is_called: data.is_called != 0 }
    }

    /// Whether `log_cnt` is valid: crash recovery would replay a record of this very file.
    ///
    /// Recovery does not replay records from before the last checkpoint's redo point. A file that
    /// was created as a copy (a database made from a template, a sequence made logged) has the
    /// `log_cnt` of the original, but no record of its own. So the first value that a backend takes
    /// from a file is always logged.
    fn is_covered_by_wal(&self, cached: &CachedSequence) -> bool {
        // SAFETY: the page is locked.
        unsafe {
            cached.logged_file == sys::file_number(self.info.locator)
                && self.lsn() > self.raw.GetRedoRecPtr()
        }
    }
}

/// Microseconds from the epoch to now.
pub fn elapsed_us(raw: Raw, epoch: Epoch) -> i64 {
    // SAFETY: reads the clock.
    epoch.elapsed_us(unsafe { raw.GetCurrentTimestamp() })
}

/// Locks the page of a pinned buffer.
#[inline(always)]
unsafe fn lock_exclusively(raw: Raw, buffer: pg_sys::Buffer) {
    // SAFETY: the caller has pinned the buffer.
    unsafe {
        if !raw.ConditionalLockBuffer(buffer) {
            lock_contended(raw, buffer);
        }
    }
}

/// Locks a page that other sessions usually hold for less than a tenth of a microsecond. It is
/// faster to retry for some microseconds than to sleep and be woken.
#[cold]
unsafe fn lock_contended(raw: Raw, buffer: pg_sys::Buffer) {
    const TRIES: usize = 19;
    const PAUSES_BETWEEN: usize = 8;
    // SAFETY: as above.
    unsafe {
        for _ in 0..TRIES {
            (0..PAUSES_BETWEEN).for_each(|_| std::hint::spin_loop());
            if raw.ConditionalLockBuffer(buffer) {
                return;
            }
        }
        raw.LockBuffer(buffer, sys::BUFFER_LOCK_EXCLUSIVE);
    }
}
