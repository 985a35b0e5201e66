//! A limit for all waits for locks together.
//!
//! `lock_timeout` limits each wait. A statement such as DROP can wait for many locks, one after the
//! other, while other sessions wait for those that it has.

use crate::pg::guc;
use crate::pg::raw::guarded;
use pgrx::pg_sys;
use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::time::{Duration, Instant};

thread_local! {
    /// The number of PostgreSQL's timer for this in the session.
    static NUMBER: Cell<Option<c_uint>> = const { Cell::new(None) };
    /// The end of the time, while a limit is in force.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `f`, in which a wait for a lock lasts at most as long as this limit, and a wait that begins
/// after it a millisecond. So all of them together last twice as long at most. A limit within
/// another one ends no later.
pub fn limit<T>(limit: Duration, f: impl FnOnce() -> T) -> T {
    let until = Instant::now() + limit;
    let until = UNTIL.get().map_or(until, |outer| outer.min(until));
    guc::with_lock_timeout(left(until), || {
        let _timer = Timer::start(until);
        f()
    })
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

struct Timer {
    number: c_uint,
    /// The end of the time of the limit around this one.
    outer: Option<Instant>,
}

impl Timer {
    fn start(until: Instant) -> Timer {
        let number = NUMBER.get().unwrap_or_else(|| {
            // SAFETY: every backend has initialized its timers before it runs SQL. A session does
            // this once.
            unsafe { guarded(|raw| raw.RegisterTimeout(c_uint::from(u16::MAX), on_end)) }
        });
        NUMBER.set(Some(number));
        let timer = Timer { number, outer: UNTIL.replace(Some(until)) };
        timer.set(until);
        timer
    }

    fn set(&self, until: Instant) {
        let delay_ms = left(until).as_millis().clamp(1, i32::MAX as u128) as c_int;
        // SAFETY: the timer is registered. One that runs is set anew.
        unsafe { guarded(|raw| raw.enable_timeout_after(self.number, delay_ms)) }
    }
}

impl Drop for Timer {
    /// The setting gets its former value when the nesting level ends that has begun with the limit.
    fn drop(&mut self) {
        UNTIL.set(self.outer);
        match self.outer {
            Some(outer) => self.set(outer),
            // SAFETY: the timer is registered; it may have ended.
            None => unsafe { guarded(|raw| raw.disable_timeout(self.number, false)) },
        }
    }
}

/// Called by PostgreSQL in the handler of a signal. It only writes the variable of the setting,
/// which PostgreSQL reads when it begins to wait.
unsafe extern "C" fn on_end() {
    // SAFETY: a variable of this backend, which has one thread.
    unsafe { pg_sys::LockTimeout = 1 }
}
