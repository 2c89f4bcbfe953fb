//! Waiting for what may take for ever: ssh, name servers, an answer of the user.

use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow};

use crate::error::Error;
use crate::termination::Termination;

/// How often to look whether the user has had enough.
const SLICE: Duration = Duration::from_millis(100);

/// How long to wait.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// Ends the wait; signals do not end the process any more.
    pub stop: &'a Termination,
    /// Set while the user may be away, who would answer ssh or give up waiting for it.
    pub unattended: Option<Unattended>,
}

/// How ssh is run while the user may be away.
#[derive(Clone, Copy)]
pub struct Unattended {
    /// When the wait ends by itself.
    pub until: Instant,
    /// Whether ssh may go over a connection that another ssh has opened, if its configuration says so.
    pub shares: bool,
}

impl<'a> Patience<'a> {
    /// As long as the user has it.
    pub fn of_user(stop: &'a Termination) -> Self {
        Self { stop, unattended: None }
    }

    /// Whether it makes sense to wait longer.
    fn check(self) -> Result<(), Error> {
        if self.stop.is_requested() {
            return Err(Error::Interrupted);
        }
        if self.unattended.is_some_and(|unattended| Instant::now() >= unattended.until) {
            return Err(Error::Ssh("ssh has not brought an answer in time".to_owned()));
        }
        Ok(())
    }
}

/// Does `work` on a thread of its own, where it may take for ever. What it sends is for [`wait_for`].
pub fn aside<T: Send + 'static>(
    work: impl FnOnce(&Sender<T>) + Send + 'static,
) -> Result<Receiver<T>, Error> {
    let (sender, receiver) = channel();
    // Signals are for the thread that waits for them; this one inherits that it gets none.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let started = thread::Builder::new().spawn(move || work(&sender));
    if let Ok(before) = before {
        // Fails only for a set of signals that was not one.
        let _ = before.thread_set_mask();
    }
    started.map_err(Error::Thread)?;
    Ok(receiver)
}

/// Waits for what another thread finds out.
pub fn wait_for<T>(told: &Receiver<T>, patience: Patience<'_>) -> Result<T, Error> {
    loop {
        match told.recv_timeout(SLICE) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => patience.check()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Ssh("a thread has ended without an answer".to_owned()));
            }
        }
    }
}

/// Waits for the end of a process in the same way; `None` if it cannot be told how that was.
pub fn wait_for_end(
    child: &mut Child,
    patience: Patience<'_>,
) -> Result<Option<ExitStatus>, Error> {
    loop {
        match child.try_wait() {
            Ok(None) => patience.check()?,
            ended => return Ok(ended.ok().flatten()),
        }
        thread::sleep(SLICE);
    }
}
