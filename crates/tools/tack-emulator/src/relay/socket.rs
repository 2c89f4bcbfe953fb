//! UDP sockets that read and set the ECN field of the IP header.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tack_link::Ecn;

/// Asked of the kernel, which may grant less.
const SOCKET_BUFFER: usize = 8 << 20;

pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
}

/// Datagrams that were received together: they have one sender and one ECN field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) from: SocketAddr,
    pub(super) ecn: Ecn,
    /// Bytes of all.
    pub(super) len: usize,
    /// Bytes of each but the last.
    pub(super) stride: usize,
}

impl Socket {
    /// A socket on a free port that does not block.
    pub(super) fn bind(host: IpAddr) -> io::Result<Self> {
        let io = UdpSocket::bind((host, 0))?;
        io.set_nonblocking(true)?;
        let options = socket2::SockRef::from(&io);
        options.set_recv_buffer_size(SOCKET_BUFFER)?;
        options.set_send_buffer_size(SOCKET_BUFFER)?;
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        // quinn-udp (0.6.3) asks for them, and has no room for them beside the ECN field of what receive
        // offload puts together.
        #[cfg(target_os = "linux")]
        nix::sys::socket::setsockopt(
            &io,
            nix::sys::socket::sockopt::ReceiveTimestampns,
            &false,
        )?;
        Ok(Self { io, state })
    }

    pub(super) const fn io(&self) -> &UdpSocket {
        &self.io
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Reads what lies at the head of the socket's queue.
    pub(super) fn receive(&self, buf: &mut [u8]) -> io::Result<Received> {
        let mut meta = [RecvMeta::default()];
        self.state.recv(UdpSockRef::from(&self.io), &mut [IoSliceMut::new(buf)], &mut meta)?;
        let [RecvMeta { addr, len, stride, ecn, .. }] = meta;
        let ecn = Ecn::from_bits(ecn.map_or(0, |ecn| ecn as u8));
        Ok(Received { from: addr, ecn, len, stride: stride.max(1) })
    }

    pub(super) fn send(&self, contents: &[u8], to: SocketAddr, ecn: Ecn) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(ecn.bits()),
            contents,
            segment_size: None,
            src_ip: None,
        };
        self.state.try_send(UdpSockRef::from(&self.io), &transmit)
    }
}
