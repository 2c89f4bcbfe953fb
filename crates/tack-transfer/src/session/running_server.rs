//! A server on a thread of its own, for a caller that has other things to do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tack_endpoint::Waker;

use super::server::Server;
use crate::error::Error;

/// A server on a thread of its own; dropped, it stops.
pub struct RunningServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<std::thread::JoinHandle<Result<(), Error>>>,
}

impl Server {
    /// Serves on a thread of its own, until the value that this returns is stopped or dropped.
    pub fn start(mut self) -> RunningServer {
        let (stop, address, waker) =
            (Arc::new(AtomicBool::new(false)), self.local_addr(), self.waker());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || self.run(|| stopped.load(Ordering::Relaxed)));
        RunningServer { address, stop, waker, thread: Some(thread) }
    }
}

impl RunningServer {
    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections. An error is the one that has ended the server before.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        // Fails only if the server is gone.
        let _ = self.waker.wake();
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        // A thread that has panicked has said so.
        ended.and_then(Result::ok).unwrap_or(Ok(()))
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // Whoever wants to know the error calls stop.
        let _ = self.end();
    }
}
