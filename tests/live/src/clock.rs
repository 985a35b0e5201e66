//! A clock that the tests can set for one server without changing the machine's.

use crate::preload::Preloaded;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

/// Seconds, as [`Server::set_clock`](crate::Server::set_clock) takes them.
pub const HOUR: f64 = 3600.0;
pub const DAY: f64 = 24.0 * HOUR;
pub const YEAR: f64 = 365.0 * DAY;

/// The library compiled from `clock.c`, which shares one number with the test.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

pub struct ClockOfItsOwn(Preloaded);

impl ClockOfItsOwn {
    /// Starts with the machine's time.
    pub fn new(folder: &Path) -> ClockOfItsOwn {
        ClockOfItsOwn(Preloaded::new(folder, "INSTAGRAM_ID_CLOCK", LIBRARY, 1))
    }

    pub fn set(&self, offset: f64) {
        self.0.shared[0].store((offset * 1e6).round() as i64, Ordering::Relaxed);
    }

    /// Makes a program, and its child processes, use this clock.
    pub fn show(&self, program: &mut Command) {
        self.0.show(program);
    }
}
