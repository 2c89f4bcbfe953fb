//! What the system allows a process: taken as far as it goes, and reported as an error beyond.

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Lets the process open as many files as it may, and lets a file that would become longer than it may be
/// fail as any other that can't be written: by default that ends the process. To be called before other
/// threads are started.
pub fn prepare() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    // Both fail for invalid arguments alone; without them there are limits, and all else is as before.
    let _ = signals.thread_block();
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    let _ = setrlimit(Resource::Nofile, files);
}
