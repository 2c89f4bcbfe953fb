//! Receiving with timestamps of the kernel.
//!
//! quinn-udp (0.6.3) asks for them, but its buffer for control messages is too short for all that a socket of
//! every address tells then: 112 bytes over IPv4, of which the ECN field comes last, and 120 over IPv6.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libc::{c_int, in6_pktinfo, timespec};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg,
};
use quinn_udp::{EcnCodepoint as UdpEcn, RecvMeta};

/// Receives a batch into buffers of `len` bytes, as [`quinn_udp::UdpSocketState::recv`], with a timestamp of
/// each datagram where the socket has `SO_TIMESTAMPNS`.
pub(crate) fn receive(
    socket: &impl AsFd,
    bytes: &mut [u8],
    len: usize,
    meta: &mut [RecvMeta],
) -> io::Result<usize> {
    loop {
        match try_receive(socket, bytes, len, meta) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn try_receive(
    socket: &impl AsFd,
    bytes: &mut [u8],
    len: usize,
    meta: &mut [RecvMeta],
) -> io::Result<usize> {
    let buffers = bytes.chunks_exact_mut(len).take(meta.len());
    let mut slices: Vec<_> = buffers.map(|buffer| [IoSliceMut::new(buffer)]).collect();
    // A timestamp, an address, the ECN field and the length of a segment.
    let control = nix::cmsg_space!(timespec, in6_pktinfo, c_int, c_int);
    let mut headers = MultiHeaders::preallocate(slices.len(), Some(control));
    let flags = MsgFlags::empty();
    let received =
        recvmmsg(socket.as_fd().as_raw_fd(), &mut headers, &mut slices, flags, None)?;
    let mut count = 0;
    for (message, meta) in received.zip(meta) {
        *meta = decode(&message);
        count += 1;
    }
    Ok(count)
}

fn decode(message: &RecvMsg<'_, '_, SockaddrStorage>) -> RecvMeta {
    let mut meta = RecvMeta::default();
    (meta.len, meta.stride) = (message.bytes, message.bytes);
    if let Some(from) = message.address.as_ref().and_then(address) {
        meta.addr = from;
    }
    let mut ecn = 0;
    // Nothing is known of a datagram whose control messages were cut off.
    for control in message.cmsgs().into_iter().flatten() {
        match control {
            ControlMessageOwned::ScmTimestampns(at) => {
                meta.timestamp = Some(Duration::from(at));
            }
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                let ip = Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes());
                meta.dst_ip = Some(IpAddr::V4(ip));
                meta.interface_index = u32::try_from(info.ipi_ifindex).ok();
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                meta.dst_ip = Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)));
                meta.interface_index = Some(info.ipi6_ifindex);
            }
            ControlMessageOwned::Ipv4Tos(tos) => ecn = tos,
            // The lowest octet is the traffic class (RFC 3542 section 6.5).
            ControlMessageOwned::Ipv6TClass(class) => ecn = class.to_le_bytes()[0],
            ControlMessageOwned::UdpGroSegments(len) => {
                meta.stride = usize::try_from(len).unwrap_or(message.bytes);
            }
            _ => {}
        }
    }
    meta.ecn = UdpEcn::from_bits(ecn);
    meta
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|address| SocketAddr::from(*address));
    v4.or_else(|| storage.as_sockaddr_in6().map(|address| SocketAddr::from(*address)))
}
