//! Explicit congestion notification, for applications whose socket can mark and read marks.

use std::net::SocketAddr;

use quiche::{BufFactory, RecvInfo};
use tack_proto::ecn::{Ecn, EcnCodepoint, EcnState};

use super::Connection;

impl<F: BufFactory> Connection<F> {
    /// Processes a datagram from the peer that came with this ECN codepoint.
    ///
    /// As [`recv`](Self::recv), which takes it for one without.
    ///
    /// From the first mark on the peer is told how many came with each codepoint
    /// (RFC 9000 section 13.4.1), and early of the first with CE.
    /// [`Profile::Off`](crate::Profile::Off) reports none.
    pub fn recv_with_ecn(
        &mut self,
        buf: &mut [u8],
        info: RecvInfo,
        ecn: EcnCodepoint,
    ) -> quiche::Result<usize> {
        self.recv_arrived(buf, info, ecn, None)
    }

    /// Has datagrams marked. The application has to set the codepoint of each datagram that
    /// [`send_ecn`](Self::send_ecn) tells.
    ///
    /// To be called before the handshake is done, at best right after the connection is made. It has no
    /// effect later, nor with [`Profile::Off`](crate::Profile::Off). Marks stop where the peer does
    /// not report them, or the path changes or drops what is marked (RFC 9000 section 13.4.2):
    /// [`TackStats::ecn`](crate::TackStats::ecn) tells.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.handshake.ecn = ecn;
    }

    /// The ECN codepoint of the datagram that [`send`](Self::send) has written last.
    #[inline]
    pub fn send_ecn(&self) -> EcnCodepoint {
        self.sent_ecn
    }

    /// What is known of ECN on a path, by its local and remote address.
    ///
    /// `None` of one that data has never gone over, or that was forgotten.
    pub fn path_ecn(&self, local: SocketAddr, peer: SocketAddr) -> Option<EcnState> {
        let path = self.paths.known_id((local, peer))?;
        self.layer.as_ref()?.sender().ecn_state_on(path)
    }
}
