//! Pauses that `pg_stat_activity` shows as wait events. Every wait for time is here, so that each
//! can be cancelled.

use pgrx::pg_sys;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_long};
use std::time::{Duration, Instant};

/// The longest pause that is a plain sleep. A latch waits for whole milliseconds, which is too
/// coarse for a tick of the clock, and a cancel can wait for so short a sleep.
const SLEEP_MAX: Duration = Duration::from_millis(2);

/// The reason for a pause. From PostgreSQL 17 on each has a name in `pg_stat_activity.wait_event`;
/// before, all have the name `Extension`.
#[derive(Clone, Copy)]
pub enum WaitEvent {
    /// The next tick of the clock, because the ids of this millisecond are used up.
    ClockTick,
    /// A sequence is taken over from other nodes: by this session, or by another one that it waits
    /// for.
    TakeOver,
    /// The pause before the next attempt to lock the tables of an adoption.
    TableLocks,
}

impl WaitEvent {
    const COUNT: usize = 3;

    fn name(self) -> &'static CStr {
        match self {
            WaitEvent::ClockTick => c"InstagramIdClockTick",
            WaitEvent::TakeOver => c"InstagramIdTakeOver",
            WaitEvent::TableLocks => c"InstagramIdTableLocks",
        }
    }
}

thread_local! {
    /// The numbers of the events in this server, 0 where this session does not know it yet.
    static NUMBERS: Cell<[u32; WaitEvent::COUNT]> = const { Cell::new([0; WaitEvent::COUNT]) };
}

/// Waits for this long, and reports the wait event meanwhile. Handles interrupts, so a cancel or a
/// timeout ends the pause with its error.
pub fn pause(event: WaitEvent, duration: Duration) {
    let number = number(event);
    if duration <= SLEEP_MAX {
        pgstat_report_wait_start(number);
        std::thread::sleep(duration);
        pgstat_report_wait_end();
        pgrx::check_for_interrupts!();
        return;
    }
    let started = Instant::now();
    while let Some(left) = duration.checked_sub(started.elapsed()) {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        let left_ms = left.as_micros().div_ceil(1000);
        // SAFETY: a backend has its own latch. Each interrupt sets it.
        unsafe {
            pg_sys::WaitLatch(pg_sys::MyLatch, events as c_int, left_ms as c_long, number);
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
        pgrx::check_for_interrupts!();
    }
}

/// The number of an event in this server.
pub fn number(event: WaitEvent) -> u32 {
    let mut numbers = NUMBERS.get();
    let number = &mut numbers[event as usize];
    if *number == 0 {
        *number = custom_number(event.name());
        NUMBERS.set(numbers);
    }
    numbers[event as usize]
}

#[cfg(any(feature = "pg15", feature = "pg16"))]
fn custom_number(_: &CStr) -> u32 {
    pg_sys::PG_WAIT_EXTENSION
}

/// A server has 128 names of custom wait events, which all extensions share, and raises an error
/// for one more. A wait without a name of its own is better than an error, so this leaves the last
/// ones to others.
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
fn custom_number(name: &CStr) -> u32 {
    const MAX: usize = 128;
    const LEFT_TO_OTHERS: usize = 16;
    let (names, others) =
        (names_of(pg_sys::PG_WAIT_EXTENSION), names_of(pg_sys::PG_WAIT_INJECTIONPOINT));
    if names.len() + others.len() >= MAX - LEFT_TO_OTHERS && !names.contains(&name) {
        return pg_sys::PG_WAIT_EXTENSION;
    }
    // SAFETY: the name ends with a zero byte. PostgreSQL copies it.
    unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) }
}

/// The names of the custom wait events of a class.
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
fn names_of(class: u32) -> Vec<&'static CStr> {
    let mut count = 0;
    // SAFETY: PostgreSQL returns an array of this many strings. They are in shared memory, and are
    // never changed or removed.
    unsafe {
        let names = pg_sys::GetWaitEventCustomNames(class, &mut count);
        let of = |i: i32| CStr::from_ptr(*names.add(i as usize));
        let list = (0..count).map(of).collect();
        pg_sys::pfree(names.cast());
        list
    }
}

/// `utils/wait_event.h`: sets this backend's wait event in pg_stat_activity.
pub fn pgstat_report_wait_start(event: u32) {
    // SAFETY: this points to a writable u32 throughout a backend's life.
    unsafe { pg_sys::my_wait_event_info.write_volatile(event) }
}

/// This backend's wait event, or 0.
pub fn current() -> u32 {
    // SAFETY: as above.
    unsafe { pg_sys::my_wait_event_info.read_volatile() }
}

/// `utils/wait_event.h`
pub fn pgstat_report_wait_end() {
    pgstat_report_wait_start(0);
}

#[cfg(feature = "pg_test")]
#[pgrx::pg_schema]
mod tests {
    use super::*;
    use pgrx::prelude::*;

    /// The name of the event that this session reports while it sleeps.
    fn event_of(number: u32) -> String {
        // SAFETY: PostgreSQL returns a constant, or a string in shared memory.
        unsafe { CStr::from_ptr(pg_sys::pgstat_get_wait_event(number)) }
            .to_string_lossy()
            .into_owned()
    }

    #[cfg(any(feature = "pg15", feature = "pg16"))]
    #[pg_test]
    fn waits_are_of_an_extension() {
        assert_eq!(event_of(number(WaitEvent::ClockTick)), "Extension");
    }

    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    #[pg_test]
    fn waits_have_names_until_the_server_has_no_more() {
        let known = number(WaitEvent::ClockTick);
        assert_eq!(event_of(known), "InstagramIdClockTick");
        assert_eq!(custom_number(WaitEvent::ClockTick.name()), known);
        let mut names = 0;
        while custom_number(&std::ffi::CString::new(format!("Other{names}")).unwrap())
            != pg_sys::PG_WAIT_EXTENSION
        {
            names += 1;
        }
        assert!((64..128).contains(&names), "{names} names");
        assert_eq!(custom_number(WaitEvent::ClockTick.name()), known);
        assert_eq!(event_of(custom_number(c"OneMore")), "Extension");
    }
}
