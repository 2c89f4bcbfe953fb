//! The UDP socket, with whatever offloads the system has.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use quinn_udp::{BATCH_SIZE, EcnCodepoint as UdpEcn, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Type};

use crate::receive_buffers::{BUFFER_LEN, ReceiveBuffers};
use crate::refusals::Refusals;
use crate::send_queue::{self, Burst, SendError};
use crate::{EndpointConfig, Error};

/// What an endpoint needs of a UDP socket, none of whose calls waits.
pub trait DatagramSocket: Send {
    /// The address the socket is bound to.
    fn local_addr(&self) -> SocketAddr;

    /// How many datagrams one burst may have at present.
    fn max_segments(&self) -> usize;

    /// Sends a burst. [`WouldBlock`](io::ErrorKind::WouldBlock) says that the socket's buffer is full;
    /// any other error is a loss, or a failure that the endpoint tries again.
    fn send(&mut self, burst: &Burst<'_>) -> io::Result<()>;

    /// Receives a batch and returns how many of the buffers it filled;
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing waits.
    fn receive(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<usize>;

    /// Whether an error of [`send`](Self::send) or [`receive`](Self::receive) is none of the call's, but the answer to
    /// an earlier datagram whose port is closed. By default there are none.
    fn is_refusal(&self, error: &io::Error) -> bool {
        let _ = error;
        false
    }
}

impl<T: DatagramSocket + ?Sized> DatagramSocket for Box<T> {
    fn local_addr(&self) -> SocketAddr {
        (**self).local_addr()
    }

    fn max_segments(&self) -> usize {
        (**self).max_segments()
    }

    fn send(&mut self, burst: &Burst<'_>) -> io::Result<()> {
        (**self).send(burst)
    }

    fn receive(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        (**self).receive(buffers)
    }

    fn is_refusal(&self, error: &io::Error) -> bool {
        (**self).is_refusal(error)
    }
}

/// A nonblocking UDP socket of the system, as the standard library or a runtime holds it.
#[cfg(unix)]
pub trait SystemSocket: std::os::fd::AsFd + Send {}
#[cfg(unix)]
impl<T: std::os::fd::AsFd + Send> SystemSocket for T {}

/// A nonblocking UDP socket of the system, as the standard library or a runtime holds it.
#[cfg(windows)]
pub trait SystemSocket: std::os::windows::io::AsSocket + Send {}
#[cfg(windows)]
impl<T: std::os::windows::io::AsSocket + Send> SystemSocket for T {}

/// A socket of the system, with the offloads that it has.
pub struct UdpSocket<I> {
    io: I,
    /// Replaced where quinn-udp has given up more than the system refuses.
    state: RwLock<UdpSocketState>,
    /// How many datagrams leave one by one, since the system refused a burst.
    singly: AtomicUsize,
    local: SocketAddr,
    gso: bool,
    gro: bool,
    arrival_times: bool,
    refusals: Refusals,
}

impl<I: SystemSocket> UdpSocket<I> {
    /// Binds a socket; `register` hands the one of the standard library to the runtime that waits for it.
    pub fn bind(
        address: SocketAddr,
        config: &EndpointConfig,
        register: impl FnOnce(std::net::UdpSocket) -> io::Result<I>,
    ) -> Result<Self, Error> {
        Self::bind_shared(address, PortUse::Alone, config, register)
    }

    /// Binds a socket that shares its port with those of other workers, if it is to.
    pub(crate) fn bind_shared(
        address: SocketAddr,
        port: PortUse,
        config: &EndpointConfig,
        register: impl FnOnce(std::net::UdpSocket) -> io::Result<I>,
    ) -> Result<Self, Error> {
        let socket = bound(address, port).map_err(|source| Error::Bind { address, source })?;
        Self::open(socket, config, register).map_err(|source| Error::Bind { address, source })
    }

    fn open(
        socket: std::net::UdpSocket,
        config: &EndpointConfig,
        register: impl FnOnce(std::net::UdpSocket) -> io::Result<I>,
    ) -> io::Result<Self> {
        let io = SockRef::from(&socket);
        // A wish: the system grants what its limits allow.
        let _ = io.set_recv_buffer_size(config.socket_buffer);
        let _ = io.set_send_buffer_size(config.socket_buffer);

        // Sets all options that QUIC needs: no fragmentation (RFC 9000 section 14), ECN marks and
        // the destination address of received datagrams, receive offload.
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let arrival_times = set_timestamps(&socket, config.arrival_times);
        if !config.gro {
            disable_gro(&socket);
        }
        let local = socket.local_addr()?;
        let refusals = Refusals::new(&socket, config.count_refusals);
        let io = register(socket)?;
        let (gso, gro) = (config.gso, config.gro);
        let state = RwLock::new(state);
        let singly = AtomicUsize::new(0);
        Ok(Self { io, state, singly, local, gso, gro, arrival_times, refusals })
    }

    /// Sends a burst, as [`DatagramSocket::send`].
    pub fn try_send(&self, burst: &Burst<'_>) -> io::Result<()> {
        let transmit = Transmit {
            destination: burst.to,
            // None for Not-ECT.
            ecn: UdpEcn::from_bits(burst.ecn.bits()),
            contents: burst.contents,
            segment_size: (burst.count > 1).then_some(burst.segment),
            src_ip: (self.local.ip().is_unspecified() && !burst.from.ip().is_unspecified())
                .then_some(burst.from.ip()),
        };
        let sent = self.state().try_send(UdpSockRef::from(&self.io), &transmit);
        match &sent {
            Ok(()) if self.sends_singly() => self.count_down(burst.count),
            Ok(()) => {}
            Err(error) => {
                if let Some(singly) = singly_after(burst.count, error) {
                    self.restore_offloads();
                    self.singly.store(singly, Ordering::Relaxed);
                }
                self.refusals.on_error(&self.io, error);
            }
        }
        sent
    }

    fn sends_singly(&self) -> bool {
        self.singly.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn count_down(&self, sent: usize) {
        let left = self.singly.load(Ordering::Relaxed).saturating_sub(sent);
        self.singly.store(left, Ordering::Relaxed);
    }

    /// quinn-udp (0.6.3) takes it for a lack of segmentation offload and of ECN that Linux refuses a datagram (EINVAL, EIO),
    /// and does without them on this socket from then on.
    #[cold]
    fn restore_offloads(&self) {
        match UdpSocketState::new(UdpSockRef::from(&self.io)) {
            Ok(state) => *self.state.write().unwrap_or_else(PoisonError::into_inner) = state,
            Err(error) => log::debug!("offloads cannot be turned on again: {error}"),
        }
        if !self.gro {
            disable_gro(&self.io);
        }
        set_timestamps(&self.io, self.arrival_times);
    }

    /// Receives a batch, as [`DatagramSocket::receive`].
    pub fn try_receive(&self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        let received = self.receive_batch(buffers);
        match &received {
            Ok(_) => self.refusals.end(&self.io),
            Err(error) => self.refusals.on_error(&self.io, error),
        }
        received
    }

    fn receive_batch(&self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        #[cfg(target_os = "linux")]
        if self.arrival_times {
            let ReceiveBuffers { bytes, meta } = buffers;
            return crate::receive_linux::receive(&self.io, bytes, BUFFER_LEN, meta);
        }
        let mut rest = buffers.bytes.chunks_exact_mut(BUFFER_LEN);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        self.state().recv(UdpSockRef::from(&self.io), &mut slices, &mut buffers.meta)
    }
}

impl<I> UdpSocket<I> {
    fn state(&self) -> RwLockReadGuard<'_, UdpSocketState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runtime's socket.
    pub fn io(&self) -> &I {
        &self.io
    }

    /// The runtime's socket, to register it.
    pub fn io_mut(&mut self) -> &mut I {
        &mut self.io
    }
}

impl<I: SystemSocket> DatagramSocket for UdpSocket<I> {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn max_segments(&self) -> usize {
        // Asked each time: quinn-udp lowers it when the system refuses an offload.
        if self.gso && !self.sends_singly() { self.state().max_gso_segments() } else { 1 }
    }

    fn send(&mut self, burst: &Burst<'_>) -> io::Result<()> {
        self.try_send(burst)
    }

    fn receive(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        self.try_receive(buffers)
    }

    fn is_refusal(&self, error: &io::Error) -> bool {
        self.refusals.is_one(error)
    }
}

impl<S: DatagramSocket + ?Sized> send_queue::Sink for S {
    fn max_segments(&self) -> usize {
        DatagramSocket::max_segments(self)
    }

    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        DatagramSocket::send(self, burst).map_err(|error| {
            if self.is_refusal(&error) {
                return SendError::Refused;
            }
            let meaning = classify(&error);
            if meaning == SendError::Failed {
                log::debug!("sending to {} failed: {error}", burst.to);
            }
            meaning
        })
    }
}

/// Which other sockets may be bound to the port of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortUse {
    /// None.
    Alone,
    /// None so far; those of further workers may follow.
    First,
    /// That of the first worker, and those of others.
    Further,
}

/// Opens a nonblocking socket.
fn bound(address: SocketAddr, port: PortUse) -> io::Result<std::net::UdpSocket> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // One socket for both IP versions, where the system can; otherwise IPv6 alone.
        let _ = socket.set_only_v6(false);
    }
    socket.set_nonblocking(true)?;
    if port == PortUse::Further {
        share_port(&socket)?;
    }
    socket.bind(&address.into())?;
    if port == PortUse::First {
        // Not before: else another server of the same user could have the port already, and both would get
        // a part of the datagrams.
        share_port(&socket)?;
    }
    Ok(socket.into())
}

/// Lets the kernel spread datagrams over all sockets of a port by their addresses.
fn share_port(socket: &socket2::Socket) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{setsockopt, sockopt::ReusePort};
        Ok(setsockopt(socket, ReusePort, &true)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Turns off receive offload, which quinn-udp turns on without asking.
fn disable_gro(socket: &impl SystemSocket) {
    #[cfg(target_os = "linux")]
    if let Err(error) =
        nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::UdpGroSegment, &false)
    {
        // Kernels before 5.0 do not have it in the first place.
        log::debug!("UDP_GRO cannot be turned off: {error}");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Turns receive timestamps on or off; whether they are on. quinn-udp (0.6.3) turns them on without asking, but
/// reads them only where all control messages fit its buffer.
fn set_timestamps(socket: &impl SystemSocket, on: bool) -> bool {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{setsockopt, sockopt::ReceiveTimestampns};
        match setsockopt(socket, ReceiveTimestampns, &on) {
            Ok(()) => on,
            Err(error) => {
                log::debug!("SO_TIMESTAMPNS cannot be set: {error}");
                // They may be on.
                true
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (socket, on);
        false
    }
}

/// So many datagrams leave one by one after a burst that the system refused. Another refusal costs a few system calls, and
/// only the device of one destination may lack the offload.
const SINGLY: usize = 1000;

/// How many datagrams are to leave one by one after this error of a burst of `count`; `None` if the error says nothing
/// of the socket's offloads.
fn singly_after(count: usize, error: &io::Error) -> Option<usize> {
    #[cfg(unix)]
    let is_refused = matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL));
    #[cfg(not(unix))]
    let is_refused = error.kind() == io::ErrorKind::InvalidInput;
    // Of a single datagram it is the addresses that were refused: one of this host's that it has lost, or one that
    // somebody has forged. A burst before it may have been refused for the same.
    is_refused.then_some(if count > 1 { SINGLY } else { 0 })
}

fn classify(error: &io::Error) -> SendError {
    if error.kind() == io::ErrorKind::WouldBlock {
        return SendError::Full;
    }
    if quinn_udp::is_msg_size_err(error) {
        return SendError::TooLarge;
    }
    #[cfg(unix)]
    match error.raw_os_error() {
        Some(libc::ENOBUFS) => return SendError::NoBuffers,
        Some(libc::EIO | libc::EINVAL) => return SendError::Offload,
        _ => {}
    }
    SendError::Failed
}

#[cfg(test)]
mod tests;
