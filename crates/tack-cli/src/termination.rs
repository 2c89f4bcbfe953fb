//! Ending in good order on SIGINT and SIGTERM: the peer is told, and does not wait for a timeout.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, Signal};

/// Whether the process has been asked to end.
pub struct Termination {
    signals: SigSet,
    requested: Arc<AtomicBool>,
}

impl Termination {
    /// Takes over SIGINT and SIGTERM from now on. To be called before other threads are started.
    pub fn catch() -> io::Result<Self> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGINT);
        signals.add(Signal::SIGTERM);
        signals.thread_block()?;
        Ok(Self { signals, requested: Arc::default() })
    }

    /// Waits on a thread of its own for the first signal and then calls `notify`. The second
    /// signal ends the process at once.
    pub fn on_signal(&self, notify: impl FnOnce() + Send + 'static) {
        let (signals, requested) = (self.signals, Arc::clone(&self.requested));
        std::thread::spawn(move || {
            if signals.wait().is_ok() {
                requested.store(true, Ordering::Relaxed);
                notify();
            }
            // Fails only for an invalid argument.
            let _ = signals.thread_unblock();
            loop {
                std::thread::park();
            }
        });
    }

    /// Does `work` as if this thread had taken over no signals: a process that it starts gets them. One that comes in
    /// that moment may end this process at once.
    pub fn suspended<T>(&self, work: impl FnOnce() -> T) -> T {
        // Both fail only for an invalid argument.
        let _ = self.signals.thread_unblock();
        let done = work();
        let _ = self.signals.thread_block();
        done
    }

    /// Is set when a signal has come; for other threads.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.requested)
    }

    /// Whether a signal has come.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}
