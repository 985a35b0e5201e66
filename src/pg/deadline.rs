//! A limit for the time of an operation that waits for other sessions and other servers.
//!
//! PostgreSQL's own limits are for a lock or a statement. This one uses a timer of PostgreSQL, as
//! `statement_timeout` does: at its end it cancels the query. [`Deadline::limit`] returns that as a
//! result, and [`Deadline::limit_or_raise`] raises an error in its place. So it covers every wait
//! that a user can cancel.
//!
//! Code that the operation calls, such as that of Citus, could catch a cancel, also one of the user
//! or of `statement_timeout`. So it is canceled again after each tick of the timer until it ends.

use crate::error::{Error, or_raise};
use crate::pg::cancel;
use crate::pg::errors;
use crate::pg::raw::guarded;
use crate::pg::subtransaction;
use crate::pg::wait_event::{self, WaitEvent};
use pgrx::pg_sys::PgTryBuilder;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgSqlErrorCode, pg_sys};
use std::cell::Cell;
use std::ffi::c_uint;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often the timer looks at the clock. So an operation is canceled at most this much later.
const TICK_MS: i32 = 100;

#[derive(Clone, Copy)]
pub struct Deadline {
    until: Instant,
}

/// The operation was not finished in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedOut;

impl Deadline {
    pub fn after(limit: Duration) -> Deadline {
        Deadline { until: Instant::now() + limit }
    }

    pub fn left(self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// Runs `f` in a subtransaction, and cancels it when the time is over. While it sleeps without
    /// a wait event of its own, the session shows this one. Another cancel, and all other errors,
    /// are raised as usual. `f` sets no limit of its own.
    pub fn limit<T>(self, event: WaitEvent, f: impl FnOnce() -> T) -> Result<T, TimedOut> {
        if self.is_over() {
            return Err(TimedOut);
        }
        // The timer stops before the subtransaction is rolled back.
        let result = subtransaction::catching(is_of_timer, || self.run(event, f));
        if result.is_err() {
            cancel::forget();
        }
        result.map_err(|_| TimedOut)
    }

    /// The same without a subtransaction. So nothing can be done after the time is over but to
    /// raise this error.
    pub fn limit_or_raise<T>(self, event: WaitEvent, error: Error, f: impl FnOnce() -> T) -> T {
        let result =
            PgTryBuilder::new(AssertUnwindSafe(|| (!self.is_over()).then(|| self.run(event, f))))
                .catch_others(|caught| match &caught {
                    CaughtError::PostgresError(report) if is_of_timer(report.sql_error_code()) => {
                        errors::forget();
                        cancel::forget();
                        None
                    }
                    _ => caught.rethrow(),
                })
                .execute();
        or_raise(|| result.ok_or(error))
    }

    fn run<T>(self, event: WaitEvent, f: impl FnOnce() -> T) -> T {
        let timer = Timer::start(self.until, event);
        let result = f();
        timer.stop();
        // It may have canceled the query after the last wait, and the operation may have caught
        // another cancel.
        if cancel::is_of_others() {
            cancel::request();
        }
        pgrx::check_for_interrupts!();
        result
    }
}

/// Whether an error with this SQLSTATE is the cancel of the timer. The error does not say whether
/// `statement_timeout` has ended meanwhile, too.
fn is_of_timer(state: PgSqlErrorCode) -> bool {
    state == PgSqlErrorCode::ERRCODE_QUERY_CANCELED
        && cancel::was_requested()
        && !cancel::is_of_others()
}

thread_local! {
    /// The number of the timer in this session.
    static NUMBER: Cell<Option<c_uint>> = const { Cell::new(None) };
}

// The variables of the signal handler.

static EVENT: AtomicU32 = AtomicU32::new(0);
/// The end of the time, in nanoseconds from the start, or [`NEVER`] if no timer runs.
static UNTIL: AtomicU64 = AtomicU64::new(NEVER);
static START: OnceLock<Instant> = OnceLock::new();

const NEVER: u64 = u64::MAX;

/// PostgreSQL's timer while it runs.
struct Timer {
    number: c_uint,
}

impl Timer {
    fn start(until: Instant, event: WaitEvent) -> Timer {
        let number = NUMBER.get().unwrap_or_else(|| {
            // SAFETY: every backend has initialized its timers before it runs SQL. A session does
            // this once.
            let number =
                unsafe { guarded(|raw| raw.RegisterTimeout(c_uint::from(u16::MAX), on_tick)) };
            NUMBER.set(Some(number));
            number
        });
        let start = *START.get_or_init(Instant::now);
        let until = until.saturating_duration_since(start).as_nanos() as u64;
        EVENT.store(wait_event::number(event), Relaxed);
        UNTIL.store(until, Relaxed);
        cancel::observe();
        // SAFETY: the timer is registered, and does not run.
        unsafe {
            guarded(|raw| {
                let first = raw.GetCurrentTimestamp() + i64::from(TICK_MS) * 1000;
                raw.enable_timeout_every(number, first, TICK_MS);
            });
        }
        Timer { number }
    }

    /// Ends the limit. It may have ended already.
    fn stop(&self) {
        // SAFETY: the timer is registered; it may have been stopped.
        unsafe { guarded(|raw| raw.disable_timeout(self.number, false)) }
        if wait_event::current() == EVENT.load(Relaxed) {
            wait_event::pgstat_report_wait_end();
        }
        UNTIL.store(NEVER, Relaxed);
    }
}

impl Drop for Timer {
    /// A cancel of the timer has no effect after that.
    fn drop(&mut self) {
        self.stop();
        cancel::withdraw();
    }
}

fn is_over() -> bool {
    let until = UNTIL.load(Relaxed);
    until != NEVER && START.get().is_some_and(|start| start.elapsed().as_nanos() as u64 >= until)
}

/// Called by PostgreSQL in the handler of a signal, which also wakes a session that waits for its
/// latch. Cancels the query if the time is over, or if the query was canceled before. It only reads
/// the clock and variables, and writes variables.
unsafe extern "C" fn on_tick() {
    let is_running = UNTIL.load(Relaxed) != NEVER;
    if is_over() || is_running && cancel::was_seen() {
        cancel::request();
    }
    // Citus sleeps without a wait event until a node has answered.
    if wait_event::current() == 0 {
        wait_event::pgstat_report_wait_start(EVENT.load(Relaxed));
    }
}

#[cfg(feature = "pg_test")]
#[pgrx::pg_schema]
mod tests {
    use super::*;
    use crate::pg::spi;
    use pgrx::prelude::*;

    /// Works, without a wait event and without the latch.
    fn work(duration: Duration) {
        let started = Instant::now();
        while started.elapsed() < duration {
            std::hint::spin_loop();
        }
    }

    #[pg_test]
    fn an_operation_ends_at_its_deadline() {
        let (started, limit) = (Instant::now(), Duration::from_millis(350));
        let result = Deadline::after(limit).limit(WaitEvent::TakeOver, || {
            work(Duration::from_millis(200));
            assert_eq!(wait_event::current(), wait_event::number(WaitEvent::TakeOver));
            Spi::run("SELECT pg_sleep(60)").unwrap();
        });
        assert_eq!(result, Err(TimedOut));
        assert!((limit..limit * 3).contains(&started.elapsed()), "{:?}", started.elapsed());
        assert_eq!(wait_event::current(), 0);
        assert_eq!(Deadline::after(Duration::ZERO).limit(WaitEvent::TakeOver, || 5), Err(TimedOut));
        // The transaction goes on.
        assert_eq!(Spi::get_one::<i32>("SELECT 7"), Ok(Some(7)));
    }

    #[pg_test]
    fn a_later_operation_is_not_canceled() {
        let deadline = Deadline::after(Duration::from_millis(150));
        assert_eq!(deadline.limit(WaitEvent::TakeOver, || 5), Ok(5));
        work(Duration::from_millis(400));
        pgrx::check_for_interrupts!();
        assert_eq!(wait_event::current(), 0);
        // It was canceled, and has ended before it noticed.
        let deadline = Deadline::after(Duration::from_millis(150));
        let late = deadline.limit(WaitEvent::TakeOver, || work(Duration::from_millis(400)));
        assert_eq!(late, Err(TimedOut));
        pgrx::check_for_interrupts!();
    }

    #[pg_test]
    #[should_panic(expected = "cannot take over sequence insta5.table_id_seq within 10 s")]
    fn an_error_is_raised_at_the_deadline() {
        let (name, limit) = ("insta5.table_id_seq", "10 s");
        let over =
            || Error::TakeOverTimedOut { name: name.into(), limit: limit.into(), nodes: vec![] };
        let long = Deadline::after(Duration::from_secs(60));
        assert_eq!(long.limit_or_raise(WaitEvent::TakeOver, over(), || 5), 5);
        let started = Instant::now();
        let raised = std::panic::catch_unwind(|| {
            Deadline::after(Duration::from_millis(300)).limit_or_raise(
                WaitEvent::TakeOver,
                over(),
                || Spi::run("SELECT pg_sleep(60)").unwrap(),
            )
        });
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        work(Duration::from_millis(250));
        pgrx::check_for_interrupts!();
        std::panic::resume_unwind(raised.unwrap_err());
    }

    #[pg_test]
    fn the_end_clears_its_own_cancel() {
        let limit = Deadline::after(Duration::from_millis(150));
        let result = std::panic::catch_unwind(|| {
            limit.limit(WaitEvent::TakeOver, || {
                work(Duration::from_millis(400));
                // SAFETY: reads a variable.
                assert_eq!(unsafe { pg_sys::QueryCancelPending }, 1);
                std::panic::resume_unwind(Box::new("another error"));
            })
        });
        assert!(result.is_err());
        pgrx::check_for_interrupts!();
    }

    #[pg_test]
    #[should_panic(expected = "canceling statement due to user request")]
    fn another_cancel_is_not_a_timeout() {
        let _ = Deadline::after(Duration::from_secs(10)).limit(WaitEvent::TakeOver, || {
            Spi::run("SELECT pg_cancel_backend(pg_backend_pid())").unwrap();
            Spi::run("SELECT pg_sleep(60)").unwrap();
        });
    }

    /// Code that catches the first cancel, and then goes on.
    const CATCHES: &str = "DO $$ BEGIN
             PERFORM pg_cancel_backend(pg_backend_pid());
             PERFORM pg_sleep(60);
         EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(60);
         END $$";

    #[pg_test]
    #[should_panic(expected = "canceling statement due to user request")]
    fn another_cancel_cannot_be_caught() {
        let started = Instant::now();
        let long = Deadline::after(Duration::from_secs(60));
        let result =
            std::panic::catch_unwind(|| long.limit(WaitEvent::TakeOver, || spi::run(CATCHES)));
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        // Nothing is left of it.
        work(Duration::from_millis(250));
        pgrx::check_for_interrupts!();
        std::panic::resume_unwind(result.unwrap_err());
    }

    #[pg_test]
    #[should_panic(expected = "canceling statement due to user request")]
    fn a_caught_cancel_is_raised_at_the_end() {
        let caught = CATCHES.replace("THEN PERFORM pg_sleep(60)", "THEN PERFORM 1");
        let long = Deadline::after(Duration::from_secs(60));
        let _ = long.limit(WaitEvent::TakeOver, || spi::run(&caught));
    }
}
