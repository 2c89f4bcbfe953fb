//! One end of a connection, whichever stack it is.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;
use std::time::{Duration, Instant};

use tack_link::Ecn as EcnField;
use tacklib::MediaStats;

use super::content::Content;
use super::{CarefulResume, Rates};

/// Where clients are, for their servers.
pub const CLIENT: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4001));
/// Where servers are, for their clients.
pub const SERVER: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4002));

/// The application protocol of the lab.
pub const ALPN: &[u8] = b"tack-lab";

/// Limits of flow control, bytes: more than any path of the lab holds.
pub const WINDOW: u32 = 64 << 20;

/// Timeout of idle connections: longer than any outage of the lab.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// A connection's end, driven from outside.
///
/// The client opens one bidirectional stream and asks for data; the server sends it there. With
/// [`Load::TwoWay`](super::Load::TwoWay) the client sends data instead of the request.
pub trait Peer {
    /// A datagram with this ECN field, which has `waited` in the socket.
    fn receive(&mut self, datagram: &mut [u8], ecn: EcnField, waited: Duration);

    /// Puts the next datagram into `out`; returns when it is to leave, and with which ECN field.
    fn transmit(&mut self, out: &mut Vec<u8>) -> Option<(Instant, EcnField)>;

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    fn timeout(&mut self) -> Option<Instant>;

    /// Time has come.
    fn on_timeout(&mut self);

    /// An end that sends data: writes what the stack takes of the first `available` bytes of the content, and
    /// ends the stream behind them if that is all (`last`).
    fn supply(&mut self, content: &Content, available: u64, last: bool);

    /// An end that receives data: reads all there is. `Err` with the offset of what does not match.
    fn consume(&mut self, content: &Content) -> Result<Consumed, u64>;

    /// Server of a call: whether the client's request has been read.
    fn is_requested(&mut self) -> bool;

    /// Server of a call: queues a DATAGRAM.
    fn send_datagram(&mut self, datagram: &[u8]);

    /// Server of a call: writes what the stack takes of that part of the content to the
    /// unidirectional stream of this number, and ends it behind that if it is the `last`. Returns
    /// how many bytes were taken, and whether the stream needs no more: it has ended, or the
    /// client has stopped it. Streams are opened in the order of their numbers.
    fn write_stream(
        &mut self,
        stream: u64,
        priority: u8,
        content: &Content,
        part: Range<u64>,
        last: bool,
    ) -> (u64, bool);

    /// Server of frames: what is written to the unidirectional stream of this number is worth nothing
    /// any more at that time. Stacks that have no deadlines do nothing.
    fn set_stream_deadline(&mut self, _stream: u64, _at: Instant) {}

    /// Server of frames: what an encoder can go by. None of a stack that does not tell.
    fn media_stats(&self) -> Option<MediaStats> {
        None
    }

    /// Server of frames: the share of its bytes that it has sent to measure the path. None of a stack that does
    /// not tell.
    fn probing_share(&self) -> Option<f64> {
        None
    }

    /// Client of a call: takes a DATAGRAM that has come.
    fn read_datagram(&mut self) -> Option<Vec<u8>>;

    /// Client of a call: reads all there is of a stream of the server, from `offset` on. Returns
    /// how far it has read; `Err` with the offset of what does not match.
    fn read_stream(&mut self, stream: u64, content: &Content, offset: u64) -> Result<u64, u64>;

    /// Client of a call: asks the server to stop a stream; false if the stack does not know it
    /// yet.
    fn stop_stream(&mut self, stream: u64) -> bool;

    /// End of an application protocol: whether the handshake is over.
    fn is_open(&mut self) -> bool {
        false
    }

    /// End of an application protocol: takes what has come on the bidirectional stream, up to the length
    /// of `out`; returns how many bytes.
    fn read_bytes(&mut self, _out: &mut [u8]) -> usize {
        0
    }

    /// End of an application protocol: writes what the bidirectional stream takes; returns how many bytes.
    fn write_bytes(&mut self, _bytes: &[u8]) -> usize {
        0
    }

    /// Whether all stream data has left and is acknowledged. None of a stack that does not tell.
    fn is_drained(&self) -> Option<bool> {
        None
    }

    /// What the sender takes for the smallest round-trip time.
    fn min_rtt(&self) -> Option<Duration>;

    /// How fast its controller sends. None of a stack that does not tell.
    fn rates(&self) -> Option<Rates> {
        None
    }

    /// Packets that it has marked, and those reported with CE as far as it relies on that. None of a
    /// stack that does not tell.
    fn ecn_marked_and_reported(&self) -> Option<(u64, u64)> {
        None
    }

    /// What became of Careful Resume at a sender. None of a stack that has none.
    fn careful_resume(&self) -> Option<CarefulResume> {
        None
    }

    /// Why the connection is over, if it is.
    fn closed(&self) -> Option<String>;
}

/// What an end has read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    /// Bytes.
    pub bytes: u64,
    /// The end of the stream was among them.
    pub finished: bool,
}
