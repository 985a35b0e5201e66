//! A disk whose writes and fsyncs fail at random, for one server.

use crate::preload::Preloaded;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

/// The library compiled from `disk.c`.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/disk.so"));

/// The calls that can fail: on tables, indexes and sequences in `base`, and on WAL in `pg_wal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    WriteData,
    WriteWal,
    SyncData,
    SyncWal,
}

impl DiskFault {
    pub const ALL: [DiskFault; 4] =
        [DiskFault::WriteData, DiskFault::WriteWal, DiskFault::SyncData, DiskFault::SyncWal];
}

// The layout of `struct disk` in disk.c, in numbers of 64 bits.
const RATES: usize = 0;
const FAILURES: usize = 4;
const TORN: usize = 8;
const LOST: usize = 9;
const SEED: usize = 10;
const UNDO_END: usize = 12;
const LEN: usize = (32 << 20) / 8;

pub struct FaultyDisk(Preloaded);

impl FaultyDisk {
    /// A disk on which no call fails.
    pub fn new(folder: &Path) -> FaultyDisk {
        FaultyDisk(Preloaded::new(folder, "INSTAGRAM_ID_DISK", LIBRARY, LEN))
    }

    /// Makes a program, and its child processes, use this disk.
    pub fn show(&self, program: &mut Command) {
        self.0.show(program);
    }

    /// Sets the seed of the random choices. Calls use the choices in the order in which they occur
    /// in all processes.
    pub fn set_seed(&self, seed: u64) {
        self.set(SEED, seed as i64);
    }

    /// Sets the number of failures in a million calls.
    pub fn set_rate(&self, fault: DiskFault, rate: i64) {
        self.set(RATES + fault as usize, rate);
    }

    /// Makes all calls succeed. The server must have stopped.
    pub fn repair(&self) {
        for fault in DiskFault::ALL {
            self.set_rate(fault, 0);
        }
        self.set(UNDO_END, 0);
    }

    /// The number of calls that have failed.
    pub fn failures(&self, fault: DiskFault) -> i64 {
        self.get(FAILURES + fault as usize)
    }

    /// The number of failed writes that wrote half of their data.
    pub fn torn(&self) -> i64 {
        self.get(TORN)
    }

    /// The number of failed fsyncs that reverted the WAL written since the last successful fsync.
    pub fn lost(&self) -> i64 {
        self.get(LOST)
    }

    fn set(&self, number: usize, value: i64) {
        self.0.shared[number].store(value, Relaxed);
    }

    fn get(&self, number: usize) -> i64 {
        self.0.shared[number].load(Relaxed)
    }
}
