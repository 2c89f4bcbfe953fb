//! Waiting for the socket, a deadline or a wake-up, whichever comes first.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};

#[cfg(target_os = "linux")]
use crate::timer_fd::TimerFd;

/// Wakes the endpoint's [`poll`](crate::Endpoint::poll) from another thread.
///
/// For threads that produce data to send, such as readers of files, and for threads that handle
/// signals. If the endpoint is not waiting, its next `poll` returns at once.
#[derive(Clone, Debug)]
pub struct Waker(Arc<mio::Waker>);

impl Waker {
    /// Makes `poll` return.
    pub fn wake(&self) -> io::Result<()> {
        self.0.wake()
    }
}

pub(crate) struct Waiter {
    poll: Poll,
    events: Events,
    waker: Waker,
    alarm: Alarm,
    wants_writable: bool,
}

/// What the socket reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

const SOCKET: Token = Token(0);
const WAKER: Token = Token(1);
#[cfg(target_os = "linux")]
const ALARM: Token = Token(2);

impl Waiter {
    pub(crate) fn new(socket: &mut mio::net::UdpSocket) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.registry().register(socket, SOCKET, Interest::READABLE)?;
        let waker = Waker(Arc::new(mio::Waker::new(poll.registry(), WAKER)?));
        let alarm = Alarm::new(poll.registry())?;
        Ok(Self { poll, events: Events::with_capacity(8), waker, alarm, wants_writable: false })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Sets whether to wait for room in the socket's buffer: only while it is full, for otherwise
    /// every datagram that leaves would be reported.
    pub(crate) fn want_writable(
        &mut self,
        socket: &mut mio::net::UdpSocket,
        wanted: bool,
    ) -> io::Result<()> {
        if wanted != self.wants_writable {
            let both = Interest::READABLE | Interest::WRITABLE;
            let interest = if wanted { both } else { Interest::READABLE };
            self.poll.registry().reregister(socket, SOCKET, interest)?;
            self.wants_writable = wanted;
        }
        Ok(())
    }

    /// Waits, until the given time at most.
    pub(crate) fn wait(
        &mut self,
        now: Instant,
        until: Option<Instant>,
    ) -> io::Result<Readiness> {
        let timeout = self.alarm.timeout(now, until)?;
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {}
            // A signal: return, so that the application can act on it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Ok(Readiness::default());
            }
            Err(error) => return Err(error),
        }
        let mut readiness = Readiness::default();
        for event in self.events.iter().filter(|event| event.token() == SOCKET) {
            readiness.readable |= event.is_readable() || event.is_error();
            readiness.writable |= event.is_writable();
        }
        Ok(readiness)
    }
}

/// The timeout for `Poll::poll`: none where the timer wakes it.
#[cfg(target_os = "linux")]
struct Alarm(TimerFd);

#[cfg(target_os = "linux")]
impl Alarm {
    fn new(registry: &Registry) -> io::Result<Self> {
        let timer = TimerFd::new()?;
        let source = timer.as_fd().as_raw_fd();
        // mio registers edge-triggered: each expiry is one event, and nothing need be read.
        registry.register(&mut SourceFd(&source), ALARM, Interest::READABLE)?;
        Ok(Self(timer))
    }

    fn timeout(
        &mut self,
        now: Instant,
        until: Option<Instant>,
    ) -> io::Result<Option<Duration>> {
        if until.is_some_and(|until| until <= now) {
            return Ok(Some(Duration::ZERO));
        }
        self.0.set(now, until)?;
        Ok(None)
    }
}

/// The timeout for `Poll::poll`.
#[cfg(not(target_os = "linux"))]
struct Alarm;

#[cfg(not(target_os = "linux"))]
impl Alarm {
    fn new(_registry: &Registry) -> io::Result<Self> {
        Ok(Self)
    }

    fn timeout(
        &mut self,
        now: Instant,
        until: Option<Instant>,
    ) -> io::Result<Option<Duration>> {
        Ok(until.map(|until| until.saturating_duration_since(now)))
    }
}
