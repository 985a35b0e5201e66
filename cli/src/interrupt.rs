//! SIGINT, SIGTERM and SIGHUP end the command at the next point where no change is incomplete.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

static SIGNAL: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

thread_local! {
    static IS_SHIELDED: Cell<bool> = const { Cell::new(false) };
}

/// Records these signals from now on, instead of letting them end the process.
pub fn listen() -> std::io::Result<()> {
    let noted = SIGNAL.get_or_init(Arc::default);
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register_usize(signal, Arc::clone(noted), signal as usize)?;
    }
    Ok(())
}

/// The number of the signal that was received. None while interrupts are held off.
pub fn signal() -> Option<i32> {
    let signal = SIGNAL.get().map_or(0, |noted| noted.load(Ordering::Relaxed));
    (signal > 0 && !IS_SHIELDED.get()).then_some(signal as i32)
}

/// Whether the command should end.
pub fn is_requested() -> bool {
    signal().is_some()
}

/// Runs `work` to its end. Signals that arrive meanwhile take effect afterwards.
pub fn hold_off<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_SHIELDED.replace(true);
    let result = work();
    IS_SHIELDED.set(before);
    result
}
