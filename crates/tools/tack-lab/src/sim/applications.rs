//! An application protocol over a flow.

use tack_link::Time;

use super::peer::Peer;
use crate::application::{Application, ApplicationError, ByteStream};

/// Both ends of a protocol: client and server.
pub struct Applications<'a> {
    ends: [&'a mut dyn Application; 2],
}

impl<'a> Applications<'a> {
    pub fn new(client: &'a mut dyn Application, server: &'a mut dyn Application) -> Self {
        Self { ends: [client, server] }
    }

    /// Lets one end do what it can.
    pub fn turn(
        &mut self,
        which: usize,
        peer: &mut dyn Peer,
        now: Time,
    ) -> Result<(), ApplicationError> {
        self.ends[which].turn(&mut PeerStream(peer), now)
    }

    /// When one of them has something to do by itself.
    pub fn next_event(&self) -> Option<Time> {
        self.ends.iter().filter_map(|end| end.next_event()).min()
    }

    /// Whether the client has nothing more to do.
    pub fn is_finished(&self) -> bool {
        self.ends[0].is_finished()
    }
}

/// The stream of a connection.
struct PeerStream<'a>(&'a mut dyn Peer);

impl ByteStream for PeerStream<'_> {
    fn is_open(&mut self) -> bool {
        self.0.is_open()
    }

    fn read(&mut self, out: &mut [u8]) -> usize {
        self.0.read_bytes(out)
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        self.0.write_bytes(bytes)
    }

    fn is_drained(&mut self) -> Option<bool> {
        self.0.is_drained()
    }
}
