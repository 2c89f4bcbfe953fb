//! What a batch of datagrams lands in, whichever socket receives it, and what is told of each: all that the endpoint knows of
//! them.

use std::net::SocketAddr;

use quinn_udp::{BATCH_SIZE, EcnCodepoint as UdpEcn, RecvMeta};
use tacklib::EcnCodepoint;

/// Buffers for received datagrams.
///
/// They are as many as one call fills, each large enough for what receive offload puts together.
pub struct ReceiveBuffers {
    pub(crate) bytes: Vec<u8>,
    pub(crate) meta: [RecvMeta; BATCH_SIZE],
}

/// Large enough for any datagram, and for what receive offload puts together.
pub(crate) const BUFFER_LEN: usize = 65_536;

impl ReceiveBuffers {
    /// Buffers with room for the largest datagrams.
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; BUFFER_LEN * BATCH_SIZE],
            meta: [RecvMeta::default(); BATCH_SIZE],
        }
    }

    /// Puts a datagram into the buffer of this index.
    ///
    /// For sockets that are none of the system's. `to` is the address that it was sent to. Returns false if there is
    /// no such buffer, or the datagram is larger than any can be.
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

    /// The buffers that the last [`receive`](crate::DatagramSocket::receive) filled, `count` of them.
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
