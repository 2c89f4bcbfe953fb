//! The UDP socket, with whatever offloads the system has.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use quinn_udp::{
    BATCH_SIZE, EcnCodepoint as UdpEcn, RecvMeta, Transmit, UdpSockRef, UdpSocketState,
};
use socket2::{Domain, Protocol, SockRef, Type};
use tacklib::EcnCodepoint;

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

/// The local address that a datagram came to: on a wildcard socket the one it was sent to.
pub(crate) fn destination(local: SocketAddr, meta: &RecvMeta) -> SocketAddr {
    match meta.dst_ip {
        Some(ip) if local.ip().is_unspecified() => SocketAddr::new(ip, local.port()),
        _ => local,
    }
}

/// The ECN codepoint that a datagram came with; Not-ECT where the system does not tell.
pub(crate) fn codepoint(meta: &RecvMeta) -> EcnCodepoint {
    meta.ecn.map_or(EcnCodepoint::NotEct, |ecn| EcnCodepoint::from_bits(ecn as u8))
}

/// Who else may have the port of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortUse {
    /// Nobody.
    Alone,
    /// Nobody has it so far, and further workers may come.
    First,
    /// The first worker and others.
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

/// Where received datagrams land: as many buffers as one call fills, each large enough for what receive
/// offload puts together.
pub struct ReceiveBuffers {
    bytes: Vec<u8>,
    meta: [RecvMeta; BATCH_SIZE],
}

/// Large enough for any datagram, and for what receive offload puts together.
const BUFFER_LEN: usize = 65_536;

impl ReceiveBuffers {
    /// Buffers with room for the largest datagrams.
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; BUFFER_LEN * BATCH_SIZE],
            meta: [RecvMeta::default(); BATCH_SIZE],
        }
    }

    /// Puts a datagram into the buffer of this index, for sockets that are none of the system's; `to` is
    /// the address that it was sent to. Returns false if there is no such buffer, or the datagram is larger
    /// than any can be.
    pub fn put(
        &mut self,
        index: usize,
        datagram: &[u8],
        (from, to): (SocketAddr, SocketAddr),
        ecn: EcnCodepoint,
    ) -> bool {
        let start = index.saturating_mul(BUFFER_LEN);
        let buffer =
            self.bytes.get_mut(start..).and_then(|rest| rest.get_mut(..datagram.len()));
        let (Some(buffer), Some(meta)) = (buffer, self.meta.get_mut(index)) else {
            return false;
        };
        if datagram.len() > BUFFER_LEN {
            return false;
        }
        buffer.copy_from_slice(datagram);
        *meta = RecvMeta::default();
        (meta.addr, meta.dst_ip, meta.ecn) =
            (from, Some(to.ip()), UdpEcn::from_bits(ecn.bits()));
        (meta.len, meta.stride) = (datagram.len(), datagram.len());
        true
    }

    /// How many datagrams one call can receive.
    pub fn len(&self) -> usize {
        self.meta.len()
    }

    /// Whether there is no buffer at all.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A place-holder that receives nothing and costs nothing.
    pub(crate) fn empty() -> Self {
        Self { bytes: Vec::new(), meta: [RecvMeta::default(); BATCH_SIZE] }
    }

    /// The buffers that the last [`receive`](DatagramSocket::receive) filled, `count` of them.
    pub(crate) fn filled(
        &mut self,
        count: usize,
    ) -> impl Iterator<Item = (RecvMeta, &mut [u8])> {
        let buffers = self.bytes.chunks_exact_mut(BUFFER_LEN);
        self.meta.iter().zip(buffers).take(count).map(|(meta, buffer)| {
            let len = meta.len.min(BUFFER_LEN);
            (*meta, &mut buffer[..len])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(
        address: SocketAddr,
        config: &EndpointConfig,
    ) -> Result<UdpSocket<std::net::UdpSocket>, Error> {
        UdpSocket::bind(address, config, Ok)
    }

    #[test]
    fn without_receive_offload_every_datagram_arrives_alone() {
        let config = EndpointConfig { gro: false, ..EndpointConfig::default() };
        let localhost = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut sender = bind(localhost, &config).unwrap();
        let mut receiver = bind(localhost, &config).unwrap();
        let contents = [7; 3000];
        let burst = Burst {
            contents: &contents,
            segment: 1000,
            count: 3,
            from: sender.local_addr(),
            to: receiver.local_addr(),
            ecn: EcnCodepoint::NotEct,
        };
        if sender.max_segments() < 3 {
            return; // No segmentation offload here: nothing would put them together.
        }
        sender.send(&burst).unwrap();

        let mut buffers = ReceiveBuffers::new();
        let count = receiver.receive(&mut buffers).unwrap();
        let lengths: Vec<usize> = buffers.filled(count).map(|(_, data)| data.len()).collect();
        assert_eq!(lengths, [1000; 3]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_socket_that_sends_does_not_fragment_with_receive_offload_or_without() {
        use rustix::net::sockopt::{
            Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu_discover, ipv6_mtu_discover,
        };
        for gro in [true, false] {
            let config = EndpointConfig { gro, ..EndpointConfig::default() };
            let socket = bind("127.0.0.1:0".parse().unwrap(), &config).unwrap();
            let discovery = ip_mtu_discover(&socket.io).unwrap();
            assert_eq!(discovery, Ipv4PathMtuDiscovery::PROBE, "gro: {gro}");

            let Ok(socket) = bind("[::1]:0".parse().unwrap(), &config) else {
                continue; // No IPv6 here.
            };
            let discovery = ipv6_mtu_discover(&socket.io).unwrap();
            assert_eq!(discovery, Ipv6PathMtuDiscovery::PROBE, "gro: {gro}");
        }
    }

    #[test]
    fn a_wildcard_socket_without_receive_offload_reports_the_address_too() {
        let config = EndpointConfig { gro: false, ..EndpointConfig::default() };
        destination_of_a_datagram_is_reported(&config);
    }

    #[test]
    fn a_wildcard_socket_reports_the_address_a_datagram_was_sent_to() {
        destination_of_a_datagram_is_reported(&EndpointConfig::default());
    }

    fn destination_of_a_datagram_is_reported(config: &EndpointConfig) {
        let mut sender = bind(SocketAddr::from(([127, 0, 0, 1], 0)), config).unwrap();
        let mut receiver = bind(SocketAddr::from(([0, 0, 0, 0], 0)), config).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], receiver.local_addr().port()));
        let from = sender.local_addr();
        let ecn = EcnCodepoint::NotEct;
        let burst = Burst { contents: &[1], segment: 1, count: 1, from, to, ecn };
        sender.send(&burst).unwrap();

        let mut buffers = ReceiveBuffers::new();
        let count = receiver.receive(&mut buffers).unwrap();
        let metas: Vec<RecvMeta> = buffers.filled(count).map(|(meta, _)| meta).collect();
        assert_eq!(metas.len(), 1);
        assert_eq!(metas[0].addr, from);
        assert_eq!(destination(receiver.local_addr(), &metas[0]), to);
    }

    #[test]
    fn datagrams_keep_their_ecn_codepoint_alone_and_in_bursts_over_both_ip_versions() {
        use EcnCodepoint::{Ce, Ect0, Ect1, NotEct};
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let host: SocketAddr = host.parse().unwrap();
            let offloads = [(true, true), (false, true), (true, false)];
            for ((gso, gro), arrival_times) in
                offloads.map(|both| [(both, true), (both, false)]).concat()
            {
                let config =
                    EndpointConfig { gso, gro, arrival_times, ..EndpointConfig::default() };
                let Ok(mut sender) = bind(host, &config) else {
                    continue; // No IPv6 here.
                };
                let mut receiver = bind(host, &config).unwrap();
                for ecn in [NotEct, Ect0, Ect1, Ce] {
                    let count = sender.max_segments().min(3);
                    let contents = vec![7; 1000 * count];
                    let (from, to) = (sender.local_addr(), receiver.local_addr());
                    let burst =
                        Burst { contents: &contents, segment: 1000, count, from, to, ecn };
                    sender.send(&burst).unwrap();
                    let mut buffers = ReceiveBuffers::new();
                    let mut bytes = 0;
                    while bytes < contents.len() {
                        let filled = receiver.receive(&mut buffers).unwrap();
                        for (meta, data) in buffers.filled(filled) {
                            assert_eq!(codepoint(&meta), ecn, "{host}, {config:?}");
                            bytes += data.len();
                        }
                    }
                }
            }
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn each_datagram_has_the_time_at_which_it_came_on_sockets_of_one_address_or_all() {
        for host in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let host: SocketAddr = host.parse().unwrap();
            let Ok(mut receiver) = bind(host, &EndpointConfig::default()) else {
                continue; // No IPv6 here.
            };
            let loopback = match host {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            };
            let to = SocketAddr::new(loopback, receiver.local_addr().port());
            let sender = std::net::UdpSocket::bind(SocketAddr::new(loopback, 0)).unwrap();
            // The kernel turns timestamps on behind the first socket that wants them.
            std::thread::sleep(std::time::Duration::from_millis(50));
            let before = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            sender.send_to(&[1; 100], to).unwrap();
            sender.send_to(&[2; 100], to).unwrap();
            let after = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();

            let mut buffers = ReceiveBuffers::new();
            let count = receiver.receive(&mut buffers).unwrap();
            let metas: Vec<_> = buffers.filled(count).map(|(meta, _)| meta).collect();
            assert_eq!(metas.iter().map(|meta| meta.len).sum::<usize>(), 200, "{host}");
            for meta in metas {
                let at = meta.timestamp.unwrap();
                assert!(
                    (before..=after).contains(&at),
                    "{host}: {at:?}, {before:?} to {after:?}"
                );
                assert_eq!(destination(receiver.local_addr(), &meta), to);
                assert_eq!(meta.addr, sender.local_addr().unwrap());
            }
            assert_eq!(
                receiver.receive(&mut buffers).unwrap_err().kind(),
                io::ErrorKind::WouldBlock
            );
        }
    }

    /// Of addresses that anybody can forge, and of one that this host has lost.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_datagram_that_the_system_refuses_for_its_addresses_costs_no_offload() {
        let localhost = SocketAddr::from(([127, 0, 0, 1], 0));
        let local6 = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 4433));
        let lost6: SocketAddr = "[2001:db8::77]:4433".parse().unwrap();
        let multicast = SocketAddr::from(([224, 0, 0, 251], 5353));
        let broadcast = SocketAddr::from(([255, 255, 255, 255], 4433));
        let good = bind(localhost, &EndpointConfig::default()).unwrap();
        for (from, to) in [
            (localhost, localhost),
            (multicast, good.local_addr()),
            (broadcast, good.local_addr()),
            (lost6, local6),
        ] {
            let any: SocketAddr =
                if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }.parse().unwrap();
            let mut socket = bind(any, &EndpointConfig::default()).unwrap();
            if socket.max_segments() == 1 {
                return; // No segmentation offload here: there is nothing to lose.
            }
            let ecn = EcnCodepoint::NotEct;
            let burst = Burst { contents: &[1], segment: 1, count: 1, from, to, ecn };
            let error = socket.try_send(&burst).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "from {from} to {to}");
            assert!(socket.max_segments() > 1, "from {from} to {to}");
            if to.is_ipv4() {
                let from = SocketAddr::from(([127, 0, 0, 1], 0));
                socket.send(&Burst { from, to: good.local_addr(), ..burst }).unwrap();
            }
        }
    }

    /// More datagrams than the kernel splits.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_burst_that_the_system_refuses_costs_no_ecn_marks_and_bursts_for_a_while_only() {
        const COUNT: usize = 200;
        let localhost = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut sender = bind(localhost, &EndpointConfig::default()).unwrap();
        let mut receiver = bind(localhost, &EndpointConfig::default()).unwrap();
        let segments = sender.max_segments();
        if segments == 1 {
            return; // No segmentation offload here: there is nothing to refuse.
        }
        let contents = [7; 10 * COUNT];
        let (from, to) = (sender.local_addr(), receiver.local_addr());
        let ecn = EcnCodepoint::Ect0;
        let burst = Burst { contents: &contents, segment: 10, count: COUNT, from, to, ecn };
        let error = sender.send(&burst).unwrap_err();
        assert_eq!(classify(&error), SendError::Offload, "{error}");
        assert_eq!(sender.max_segments(), 1);

        let single = Burst { contents: &[7; 10], segment: 10, count: 1, from, to, ecn };
        let mut buffers = ReceiveBuffers::new();
        let mut sent = 0;
        while sender.max_segments() == 1 {
            sender.send(&single).unwrap();
            let count = receiver.receive(&mut buffers).unwrap();
            let marks: Vec<_> =
                buffers.filled(count).map(|(meta, _)| codepoint(&meta)).collect();
            assert_eq!(marks, [ecn]);
            sent += 1;
            assert!(sent <= 10_000, "no bursts any more");
        }
        assert_eq!(sender.max_segments(), segments);
    }

    #[test]
    fn a_burst_that_is_refused_has_the_next_leave_one_by_one_unless_single_ones_are_too() {
        let after = |count, code| singly_after(count, &io::Error::from_raw_os_error(code));
        for code in [libc::EIO, libc::EINVAL] {
            assert_eq!((after(2, code), after(1, code)), (Some(SINGLY), Some(0)));
        }
        for code in [libc::EAGAIN, libc::EMSGSIZE, libc::ENOBUFS, libc::ECONNREFUSED] {
            assert_eq!((after(2, code), after(1, code)), (None, None));
        }
    }

    #[test]
    fn system_errors_get_their_meaning() {
        let classify = |code| classify(&io::Error::from_raw_os_error(code));
        assert_eq!(classify(libc::EAGAIN), SendError::Full);
        assert_eq!(classify(libc::ENOBUFS), SendError::NoBuffers);
        assert_eq!(classify(libc::EMSGSIZE), SendError::TooLarge);
        assert_eq!(classify(libc::EIO), SendError::Offload);
        assert_eq!(classify(libc::ECONNREFUSED), SendError::Failed);
    }
}
