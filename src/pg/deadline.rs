//! A limit for the time of an operation that waits for other sessions and other servers.
//!
//! PostgreSQL's own limits are for a lock or a statement. This one uses a timer of PostgreSQL, as
//! `statement_timeout` does: at its end it cancels the query, and [`Deadline::limit`] returns that
//! as a result. So it covers every wait that a user can cancel.

use crate::pg::raw::guarded;
use crate::pg::subtransaction;
use crate::pg::wait_event::{self, WaitEvent};
use pgrx::{PgSqlErrorCode, pg_sys};
use std::cell::Cell;
use std::ffi::c_uint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
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
    /// are raised as usual.
    pub fn limit<T>(self, event: WaitEvent, f: impl FnOnce() -> T) -> Result<T, TimedOut> {
        if self.is_over() {
            return Err(TimedOut);
        }
        let timer = Timer::start(self.until, event);
        let is_of_timer = |state: PgSqlErrorCode| {
            state == PgSqlErrorCode::ERRCODE_QUERY_CANCELED && HAS_CANCELED.load(Relaxed)
        };
        let result = subtransaction::catching(is_of_timer, || {
            let result = f();
            timer.stop();
            // It may have canceled the query after the last wait.
            pgrx::check_for_interrupts!();
            result
        });
        result.map_err(|_| TimedOut)
    }
}

thread_local! {
    /// The number of the timer in this session.
    static NUMBER: Cell<Option<c_uint>> = const { Cell::new(None) };
}

// The variables of the signal handler.
static HAS_CANCELED: AtomicBool = AtomicBool::new(false);
static EVENT: AtomicU32 = AtomicU32::new(0);
/// The end of the time, in nanoseconds from [`start`].
static UNTIL: AtomicU64 = AtomicU64::new(0);
static START: OnceLock<Instant> = OnceLock::new();

/// PostgreSQL's timer while it runs. One at a time.
struct Timer(c_uint);

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
        UNTIL.store(until.saturating_duration_since(start).as_nanos() as u64, Relaxed);
        EVENT.store(wait_event::number(event), Relaxed);
        HAS_CANCELED.store(false, Relaxed);
        // SAFETY: the timer is registered, and does not run.
        unsafe {
            guarded(|raw| {
                let first = raw.GetCurrentTimestamp() + i64::from(TICK_MS) * 1000;
                raw.enable_timeout_every(number, first, TICK_MS);
            });
        }
        Timer(number)
    }

    fn stop(&self) {
        // SAFETY: the timer is registered; it may have been stopped.
        unsafe { guarded(|raw| raw.disable_timeout(self.0, false)) }
        if wait_event::current() == EVENT.load(Relaxed) {
            wait_event::pgstat_report_wait_end();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Called by PostgreSQL in the handler of a signal, which also wakes a session that waits for its
/// latch. It only reads the clock and writes variables.
unsafe extern "C" fn on_tick() {
    let is_over =
        START.get().is_some_and(|start| start.elapsed().as_nanos() as u64 >= UNTIL.load(Relaxed));
    if is_over && !HAS_CANCELED.swap(true, Relaxed) {
        // SAFETY: variables that PostgreSQL sets in the handlers of its signals.
        unsafe {
            pg_sys::QueryCancelPending = 1;
            pg_sys::InterruptPending = 1;
        }
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
    #[should_panic(expected = "canceling statement due to user request")]
    fn another_cancel_is_not_a_timeout() {
        let _ = Deadline::after(Duration::from_secs(10)).limit(WaitEvent::TakeOver, || {
            Spi::run("SELECT pg_cancel_backend(pg_backend_pid())").unwrap();
            Spi::run("SELECT pg_sleep(60)").unwrap();
        });
    }
}
