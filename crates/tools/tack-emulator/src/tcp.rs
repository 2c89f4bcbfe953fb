//! The kernel's TCP over a link.
//!
//! One connection sends as much as it can from [`End::A`] to [`End::B`]. It is the kernel's
//! own, with nothing set but the congestion controller and windows large enough to fill
//! any of the links.
//!
//! How often the kernel acknowledges is its own affair, too: every second packet, as RFC 5681
//! has it, only while the receiving program keeps up. What arrives in one A-MPDU arrives at
//! once, and often gets fewer acknowledgements than that. Reports count them.

mod congestion;
mod connection;
mod segment;
mod tally;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};
use std::{panic, thread};

use serde::Serialize;
use socket2::{Domain, Socket, Type};
use tack_link::{Direction, Link, Losses};

pub use congestion::{Congestion, UnknownCongestion};
pub use connection::{
    ConnectionOptions, ConnectionReport, SocketOptions, TcpEnd, run_connection,
};

use crate::error::Error;
use crate::tun::promptness::{Rank, ask_for_promptness};
use crate::tun::{Emulator, End, PunctualitySummary};
use tally::Tally;

/// What to run.
pub struct TcpOptions {
    /// The link under the connection.
    pub link: Box<dyn Link + Send>,
    /// The sender's congestion controller.
    pub congestion: Congestion,
    /// How long to send, counted from the end of the handshake: slow start is part of it.
    pub duration: Duration,
}

/// How TCP fared.
///
/// The fields are those of a QUIC transfer's report; what TCP does not have is null.
#[derive(Clone, Debug, Serialize)]
pub struct TcpReport {
    /// The sender's congestion controller.
    pub congestion: Congestion,
    /// How long the sender sent.
    pub seconds: f64,
    /// Bytes that the receiving application read, per second, in Mbit/s.
    pub goodput_mbps: f64,
    /// Packets with data that the sender sent.
    pub data_packets: u64,
    /// Packets without data that the receiver sent.
    pub ack_packets: u64,
    /// Bytes of these, IP headers included.
    pub ack_bytes: u64,
    /// TCP has no immediate acknowledgements that could be told from others.
    pub iacks: Option<u64>,
    /// How many of the packets with data were retransmissions.
    pub retransmitted: u64,
    /// Retransmissions of what had arrived: not seen from outside.
    pub spurious: Option<u64>,
    /// The shortest time from a data packet to its acknowledgement, both at the sender's device.
    pub min_rtt_ms: Option<f64>,
    /// 95th percentile of how long a data packet was on the link.
    pub owd_p95_ms: Option<f64>,
    /// The same, beyond the shortest.
    pub queue_p95_ms: Option<f64>,
    /// Bytes waiting for a gap to be filled: hidden in the kernel.
    pub hol_blocked_bytes_p95: Option<u64>,
    /// Packets from the sender that were lost on the link.
    pub lost: u64,
    /// The same, by cause.
    pub losses_forward: Losses,
    /// Packets from the receiver that were lost on the link, by cause.
    pub losses_reverse: Losses,
    /// Whether the emulator kept up; if not, the figures mean nothing.
    #[serde(flatten)]
    pub punctuality: PunctualitySummary,
}

/// Sends over TCP for a while and reports.
pub fn run(options: TcpOptions) -> Result<TcpReport, Error> {
    let TcpOptions { link, congestion, duration } = options;
    let tally = Tally::new()
        .map_err(|error| Error::setup("create a histogram", io::Error::other(error)))?;
    let emulator = Emulator::start(link, tally)?;
    // The window follows the path by itself, up to these limits.
    emulator.set_sysctl("net/ipv4/tcp_rmem", WINDOW_LIMITS)?;
    emulator.set_sysctl("net/ipv4/tcp_wmem", WINDOW_LIMITS)?;
    let listener = emulator.run_at(End::B, || listen().map_err(Error::tcp("listen")))?;
    let sender = emulator.run_at(End::A, || sender_socket(congestion))?;

    connect(&sender, &listener).map_err(Error::tcp("connect"))?;
    let deadline = Instant::now() + duration;
    let (received, record) = thread::scope(|scope| {
        scope.spawn(|| send(sender.into(), deadline));
        let receiver = scope.spawn(|| receive(&listener, deadline));
        thread::sleep(duration);
        // What is on its way at the deadline counts neither as sent nor as received.
        let record = emulator.stop();
        let received = receiver.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        (received, record)
    });
    let (received, record) = (received.map_err(Error::tcp("receive"))?, record?);

    let millis = |duration: Duration| duration.as_nanos() as f64 / 1e6;
    let tally = record.observer;
    let (delay, queue) = tally.delay_and_queue_p95().unzip();
    Ok(TcpReport {
        congestion,
        seconds: duration.as_secs_f64(),
        goodput_mbps: received as f64 * 8.0 / duration.as_secs_f64() / 1e6,
        data_packets: tally.data_packets,
        ack_packets: tally.ack_packets,
        ack_bytes: tally.ack_bytes,
        iacks: None,
        retransmitted: tally.retransmitted,
        spurious: None,
        min_rtt_ms: tally.min_rtt.map(millis),
        owd_p95_ms: delay.map(millis),
        queue_p95_ms: queue.map(millis),
        hol_blocked_bytes_p95: None,
        lost: record.link.losses(Direction::Forward).total(),
        losses_forward: record.link.losses(Direction::Forward),
        losses_reverse: record.link.losses(Direction::Reverse),
        punctuality: record.punctuality.summary(),
    })
}

/// Smallest, initial and largest size of a socket buffer in bytes. The largest holds 1 Gbit/s
/// for 200 ms and a queue of the same length, as the kernel counts memory, which is twice the
/// payload; the others are the kernel's defaults.
const WINDOW_LIMITS: &str = "4096 131072 134217728";

/// How long to wait for a peer that a lossy link may keep away.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the threads look at the clock while nothing moves.
const TICK: Duration = Duration::from_millis(50);

fn listen() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddrV4::new(End::B.address(), 0).into())?;
    socket.listen(1)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

fn sender_socket(congestion: Congestion) -> Result<Socket, Error> {
    let socket =
        Socket::new(Domain::IPV4, Type::STREAM, None).map_err(Error::tcp("make a socket"))?;
    set_congestion(&socket, congestion.name())?;
    Ok(socket)
}

fn set_congestion(socket: &Socket, name: &'static str) -> Result<(), Error> {
    match socket.set_tcp_congestion(name.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Error::NoSuchCongestionControl { wanted: name, offered: offered() })
        }
        outcome => outcome.map_err(Error::tcp("set the congestion control")),
    }
}

/// The congestion controllers that the kernel lists.
fn offered() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map_or_else(|_| "an unknown list".to_owned(), |list| list.trim().to_owned())
}

fn connect(sender: &Socket, listener: &Socket) -> io::Result<()> {
    sender.connect_timeout(&listener.local_addr()?, PATIENCE)?;
    // What is not delivered at the end is thrown away, and the sockets with it.
    sender.set_linger(Some(Duration::ZERO))?;
    sender.set_write_timeout(Some(TICK))
}

fn send(mut stream: TcpStream, deadline: Instant) {
    ask_for_promptness(Rank::End);
    let data = vec![0; 1 << 17];
    while Instant::now() < deadline {
        match stream.write(&data) {
            Ok(_) => {}
            Err(error) if is_tick(&error) => {}
            // The receiver says what is wrong.
            Err(_) => return,
        }
    }
}

/// Bytes that arrived before the deadline.
fn receive(listener: &Socket, deadline: Instant) -> io::Result<u64> {
    ask_for_promptness(Rank::End);
    let (socket, _) = listener.accept()?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_read_timeout(Some(TICK))?;
    let mut stream = TcpStream::from(socket);
    let mut buffer = vec![0; 1 << 18];
    let mut received = 0;
    while Instant::now() < deadline {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => received += length as u64,
            Err(error) if is_tick(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(received)
}

fn is_tick(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_congestion_control_is_answered_with_those_that_there_are() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let error = set_congestion(&socket, "no_such").unwrap_err().to_string();
        assert!(error.contains("no_such"), "{error}");
        // Every Linux has it.
        assert!(error.contains("reno"), "{error}");
    }
}
