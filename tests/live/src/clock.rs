//! A clock that the tests can set for one server without changing the machine's.

use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, Ordering};

/// Seconds, as [`Server::set_clock`](crate::Server::set_clock) takes them.
pub const HOUR: f64 = 3600.0;
pub const DAY: f64 = 24.0 * HOUR;
pub const YEAR: f64 = 365.0 * DAY;

/// The library compiled from `clock.c`.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

pub struct ClockOfItsOwn {
    library: PathBuf,
    file: PathBuf,
    offset_us: &'static AtomicI64,
}

impl ClockOfItsOwn {
    /// Starts with the machine's time. Its files are in this folder, where the server's user can read them, wherever
    /// the tests were built.
    pub fn new(folder: &Path) -> ClockOfItsOwn {
        let [library, file] = [("clock.so", LIBRARY), ("clock", &[0; 8])].map(|(name, content)| {
            let path = folder.join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            path
        });
        let opened = OpenOptions::new().read(true).write(true).open(&file).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory, of a file whose length never changes: 8 bytes, at the start of a page. It is never
        // unmapped, and all accesses are atomic.
        let offset_us = unsafe {
            let mapped =
                mmap(null_mut(), size_of::<AtomicI64>(), access, MapFlags::SHARED, opened, 0).unwrap();
            &*mapped.cast::<AtomicI64>()
        };
        ClockOfItsOwn { library, file, offset_us }
    }

    pub fn set(&self, offset: f64) {
        self.offset_us.store((offset * 1e6).round() as i64, Ordering::Relaxed);
    }

    /// Makes a program, and its child processes, use this clock.
    pub fn show(&self, program: &mut Command) {
        program.env("LD_PRELOAD", &self.library).env("INSTAGRAM_ID_CLOCK", &self.file);
    }
}
