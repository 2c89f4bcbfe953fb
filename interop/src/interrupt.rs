//! SIGINT and SIGTERM during a run: its cells end one by one, and with them their programs.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::error::Error;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Takes these signals from now on; the second one ends the process at once. No thread may have
/// been started before.
pub fn take() -> Result<(), Error> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    let failed = |errno: nix::Error| Error::Signals(errno.into());
    // A signal that every thread blocks is left to the one that waits for it.
    signals.thread_block().map_err(failed)?;
    thread::spawn(move || {
        while signals.wait().is_ok() {
            if REQUESTED.swap(true, Ordering::Relaxed) {
                process::exit(Error::Interrupted.exit_code().into());
            }
            eprintln!("tack-interop: interrupted; once more ends it at once");
        }
    });
    Ok(())
}

/// Fails once the run is interrupted.
pub fn check() -> Result<(), Error> {
    if REQUESTED.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}
