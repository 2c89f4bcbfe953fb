//! Sockets that a task can wait for.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tack_endpoint::EndpointConfig;
use tack_endpoint::runtime::{Burst, DatagramSocket, ReceiveBuffers, UdpSocket};
use tokio::io::Interest;

/// A UDP socket, or what takes its place, that a task can wait for.
///
/// [`Endpoint::server`](crate::Endpoint::server) and [`Endpoint::client`](crate::Endpoint::client) open one of
/// the system's. An implementation of this trait carries datagrams in another way, such as a simulated
/// network; [`Endpoint::with_socket`](crate::Endpoint::with_socket) takes it.
pub trait AsyncUdpSocket: DatagramSocket + 'static {
    /// Tells whether [`receive`](DatagramSocket::receive) may find something; wakes the task when that
    /// changes. It may be wrong in saying yes, not in saying no.
    ///
    /// An error says that the socket cannot be waited for at present, and that the task will not be woken: the
    /// endpoint receives to see what is wrong, and asks again after a pause of 1 ms, and up to 100 ms when that
    /// fails, too. An endpoint whose socket has answered with errors alone for ten seconds fails
    /// ([`ConnectionError::EndpointFailed`](crate::ConnectionError::EndpointFailed)), except with those that say
    /// nothing of the socket, `WouldBlock` and `Interrupted`.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Tells whether [`send`](DatagramSocket::send) may succeed; asked after it has said that it would
    /// block. Wakes the task when that changes. Errors count as those of
    /// [`poll_readable`](Self::poll_readable) do.
    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// Takes the place of a socket that is closed: what is sent is lost, and nothing comes.
pub(crate) struct ClosedSocket(pub(crate) SocketAddr);

impl DatagramSocket for ClosedSocket {
    fn local_addr(&self) -> SocketAddr {
        self.0
    }

    fn max_segments(&self) -> usize {
        1
    }

    fn send(&mut self, _: &Burst<'_>) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, _: &mut ReceiveBuffers) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl AsyncUdpSocket for ClosedSocket {
    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_writable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// The system's socket, for which tokio waits.
pub(crate) struct TokioSocket(UdpSocket<tokio::net::UdpSocket>);

impl TokioSocket {
    pub(crate) fn bind(
        address: SocketAddr,
        config: &EndpointConfig,
    ) -> Result<Self, tack_endpoint::Error> {
        UdpSocket::bind(address, config, tokio::net::UdpSocket::from_std).map(Self)
    }

    /// Makes a system call, and tells tokio if the socket turns out not to be ready: what epoll tells
    /// once, tokio remembers until then. `is_last` says so of a result. A call that tokio would not let
    /// pass is made all the same: the core knows when to look without an event.
    fn call<T>(
        &self,
        interest: Interest,
        mut call: impl FnMut() -> io::Result<T>,
        is_last: impl Fn(&T) -> bool,
    ) -> io::Result<T> {
        let (mut is_made, mut outcome) = (false, None);
        let passed = self.0.io().try_io(interest, || {
            is_made = true;
            let result = call()?;
            if is_last(&result) {
                outcome = Some(result);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(result)
        });
        match (outcome, passed) {
            (Some(result), _) => Ok(result),
            (None, passed) if is_made => passed,
            _ => call(),
        }
    }
}

impl DatagramSocket for TokioSocket {
    fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    fn max_segments(&self) -> usize {
        self.0.max_segments()
    }

    fn send(&mut self, burst: &Burst<'_>) -> io::Result<()> {
        self.call(Interest::WRITABLE, || self.0.try_send(burst), |()| false)
    }

    fn receive(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        let most = buffers.len();
        let is_last = |count: &usize| most > 1 && *count < most;
        self.call(Interest::READABLE, || self.0.try_receive(buffers), is_last)
    }

    fn is_refusal(&self, error: &io::Error) -> bool {
        self.0.is_refusal(error)
    }
}

impl AsyncUdpSocket for TokioSocket {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.io().poll_recv_ready(cx)
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.io().poll_send_ready(cx)
    }
}
