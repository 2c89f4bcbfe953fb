//! The UDP socket, with whatever offloads the system has.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Type};

use crate::send_queue::{Burst, SendError, Sink};
use crate::{EndpointConfig, Error};

pub(crate) struct Socket {
    pub(crate) io: mio::net::UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    gso: bool,
}

impl Socket {
    pub(crate) fn bind(address: SocketAddr, config: &EndpointConfig) -> Result<Self, Error> {
        Self::open(address, config).map_err(|source| Error::Bind { address, source })
    }

    fn open(address: SocketAddr, config: &EndpointConfig) -> io::Result<Self> {
        let socket = bound(address)?;
        let io = SockRef::from(&socket);
        // A wish: the system grants what its limits allow.
        let _ = io.set_recv_buffer_size(config.socket_buffer);
        let _ = io.set_send_buffer_size(config.socket_buffer);

        let state = if config.gro {
            UdpSocketState::new(UdpSockRef::from(&socket))?
        } else {
            // quinn-udp turns receive offload on for the socket it is shown and has no switch to
            // turn it off, so show it another one; its state serves for ours as well.
            UdpSocketState::new(UdpSockRef::from(&bound(SocketAddr::new(address.ip(), 0))?))?
        };
        let local = socket.local_addr()?;
        let io = mio::net::UdpSocket::from_std(socket);
        Ok(Self { io, state, local, gso: config.gso })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The local address a datagram came to: on a wildcard socket, the one it was sent to.
    pub(crate) fn destination(&self, meta: &RecvMeta) -> SocketAddr {
        match meta.dst_ip {
            Some(ip) if self.local.ip().is_unspecified() => {
                SocketAddr::new(ip, self.local.port())
            }
            _ => self.local,
        }
    }

    /// Receives one batch.
    pub(crate) fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        let mut rest = inbox.buffer.chunks_exact_mut(RECV_BUFFER);
        let mut buffers: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        self.state.recv(UdpSockRef::from(&self.io), &mut buffers, &mut inbox.meta)
    }
}

impl Sink for Socket {
    fn max_segments(&self) -> usize {
        // Asked each time: quinn-udp lowers it when the system refuses an offload.
        if self.gso { self.state.max_gso_segments() } else { 1 }
    }

    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        let transmit = Transmit {
            destination: burst.to,
            ecn: None,
            contents: burst.contents,
            segment_size: (burst.count > 1).then_some(burst.segment),
            src_ip: (self.local.ip().is_unspecified() && !burst.from.ip().is_unspecified())
                .then_some(burst.from.ip()),
        };
        self.state.try_send(UdpSockRef::from(&self.io), &transmit).map_err(|error| {
            let meaning = classify(&error);
            if meaning == SendError::Failed {
                log::debug!("sending to {} failed: {error}", burst.to);
            }
            meaning
        })
    }
}

/// Opens a nonblocking socket.
fn bound(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // One socket for both IP versions, where the system can; otherwise IPv6 alone.
        let _ = socket.set_only_v6(false);
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
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

/// Where received datagrams land.
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    meta: [RecvMeta; BATCH_SIZE],
}

/// Large enough for any datagram, and for what receive offload puts together.
const RECV_BUFFER: usize = 65_536;

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; RECV_BUFFER * BATCH_SIZE],
            meta: [RecvMeta::default(); BATCH_SIZE],
        }
    }

    /// A place-holder that receives nothing and costs nothing.
    pub(crate) fn empty() -> Self {
        Self { buffer: Vec::new(), meta: [RecvMeta::default(); BATCH_SIZE] }
    }

    /// The buffers that the last `receive` filled, `count` of them.
    pub(crate) fn filled(
        &mut self,
        count: usize,
    ) -> impl Iterator<Item = (RecvMeta, &mut [u8])> {
        let buffers = self.buffer.chunks_exact_mut(RECV_BUFFER);
        self.meta.iter().zip(buffers).take(count).map(|(meta, buffer)| {
            let len = meta.len.min(RECV_BUFFER);
            (*meta, &mut buffer[..len])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_receive_offload_every_datagram_arrives_alone() {
        let config = EndpointConfig { gro: false, ..EndpointConfig::default() };
        let localhost = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut sender = Socket::bind(localhost, &config).unwrap();
        let receiver = Socket::bind(localhost, &config).unwrap();
        let contents = [7; 3000];
        let burst = Burst {
            contents: &contents,
            segment: 1000,
            count: 3,
            from: sender.local_addr(),
            to: receiver.local_addr(),
        };
        if sender.max_segments() < 3 {
            return; // No segmentation offload here: nothing would put them together.
        }
        sender.send(&burst).unwrap();

        let mut inbox = Inbox::new();
        let count = receiver.receive(&mut inbox).unwrap();
        let lengths: Vec<usize> = inbox.filled(count).map(|(_, data)| data.len()).collect();
        assert_eq!(lengths, [1000; 3]);
    }

    #[test]
    fn a_wildcard_socket_reports_the_address_a_datagram_was_sent_to() {
        let config = EndpointConfig::default();
        let mut sender = Socket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &config).unwrap();
        let receiver = Socket::bind(SocketAddr::from(([0, 0, 0, 0], 0)), &config).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], receiver.local_addr().port()));
        let from = sender.local_addr();
        let burst = Burst { contents: &[1], segment: 1, count: 1, from, to };
        sender.send(&burst).unwrap();

        let mut inbox = Inbox::new();
        let count = receiver.receive(&mut inbox).unwrap();
        let metas: Vec<RecvMeta> = inbox.filled(count).map(|(meta, _)| meta).collect();
        assert_eq!(metas.len(), 1);
        assert_eq!(metas[0].addr, from);
        assert_eq!(receiver.destination(&metas[0]), to);
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
