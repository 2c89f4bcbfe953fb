//! One end of a connection, with an application that writes and reads streams.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::{RecvInfo, SendInfo};
use tacklib::TackStats;

use crate::Side;
use crate::content;
use crate::keys::Secrets;
use crate::puppet::Puppet;

/// What an application waits to write at once, bytes: quiche makes packets of what there is, so
/// one that fills each gap in the window gets small packets.
const LEAST_WRITE: u64 = 16 << 10;

/// How long a timer that should have gone is left alone, so that a run ends.
const STALE_PAUSE: Duration = Duration::from_millis(1);

/// What runs at an end.
pub enum Stack {
    /// tacklib.
    Tack(Box<tacklib::Connection>),
    /// quiche without the layer.
    Plain(Box<quiche::Connection>),
    /// A connection with somebody else's hand in it.
    Puppet(Box<Puppet>),
}

/// Calls the method of the same name on whichever connection it is.
macro_rules! forward {
    ($stack:expr, $connection:ident => $call:expr) => {
        match $stack {
            Stack::Tack($connection) => $call,
            Stack::Plain($connection) => $call,
            Stack::Puppet(puppet) => {
                let $connection = puppet.connection_mut();
                $call
            }
        }
    };
}

impl Stack {
    /// quiche's connection.
    pub fn quic(&self) -> &quiche::Connection {
        match self {
            Self::Tack(connection) => connection,
            Self::Plain(connection) => connection,
            Self::Puppet(puppet) => puppet.connection(),
        }
    }

    /// quiche's connection, to be changed past the layer.
    pub fn quic_mut(&mut self) -> &mut quiche::Connection {
        match self {
            Self::Tack(connection) => connection,
            Self::Plain(connection) => connection,
            Self::Puppet(puppet) => puppet.connection_mut(),
        }
    }

    /// What the layer tells; all zero without it.
    pub fn stats(&self) -> TackStats {
        match self {
            Self::Tack(connection) => connection.tack_stats(),
            Self::Plain(_) => TackStats::default(),
            Self::Puppet(puppet) => puppet.connection().tack_stats(),
        }
    }

    /// Writes to a stream; how many bytes were taken.
    pub fn write(&mut self, stream: u64, data: &[u8], fin: bool) -> quiche::Result<usize> {
        forward!(self, connection => connection.stream_send(stream, data, fin))
    }

    /// Reads from a stream; how many bytes, and whether it has ended.
    pub fn read(&mut self, stream: u64, out: &mut [u8]) -> quiche::Result<(usize, bool)> {
        forward!(self, connection => connection.stream_recv(stream, out))
    }

    /// How much can be written to a stream.
    pub fn capacity(&mut self, stream: u64) -> quiche::Result<usize> {
        forward!(self, connection => connection.stream_capacity(stream))
    }

    fn timeout_instant(&self) -> Option<Instant> {
        match self {
            Self::Tack(connection) => connection.timeout_instant(),
            Self::Plain(connection) => connection.timeout_instant(),
            Self::Puppet(puppet) => puppet.timeout_instant(),
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        match self {
            Self::Tack(connection) => connection.on_timeout(),
            Self::Plain(connection) => connection.on_timeout(),
            Self::Puppet(puppet) => puppet.on_timeout(now),
        }
    }

    fn transmit(&mut self, out: &mut [u8]) -> Option<(usize, SendInfo)> {
        match self {
            Self::Tack(connection) => connection.send(out).ok(),
            Self::Plain(connection) => connection.send(out).ok(),
            Self::Puppet(puppet) => puppet.transmit(out),
        }
    }

    fn receive(&mut self, datagram: &mut [u8], info: RecvInfo, now: Instant) {
        // What a connection refuses shows in its state.
        match self {
            Self::Tack(connection) => drop(connection.recv(datagram, info)),
            Self::Plain(connection) => drop(connection.recv(datagram, info)),
            Self::Puppet(puppet) => puppet.receive(datagram, info, now),
        }
    }
}

/// A datagram that an end sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub bytes: Vec<u8>,
}

/// One end of a connection.
pub struct Endpoint {
    /// The connection.
    pub stack: Stack,
    /// Secrets of the connection, from this end's key log.
    pub secrets: Secrets,
    /// Bytes that its application has yet to write to its unidirectional stream.
    pub to_write: u64,
    /// Where its datagrams come from, and where it can be reached.
    pub address: SocketAddr,
    /// Bytes that its application has read, of all streams.
    pub read: u64,
    /// Datagrams and bytes that it has sent.
    pub sent: (u64, u64),
    /// Datagrams and bytes that have reached it, an attacker's included.
    pub received: (u64, u64),
    /// The most that was ever in flight, as the layer tells.
    pub most_in_flight: u64,
    /// How often a timer was left expired by `on_timeout` and `send` until `Done`, and the
    /// first time's circumstances.
    pub stale_timers: u64,
    /// What the connection was doing the first time.
    pub first_stale: Option<String>,
    side: Side,
    written: u64,
    held: Option<(Instant, Outgoing)>,
    stale_until: Option<Instant>,
    pub(crate) touched: bool,
}

impl Endpoint {
    pub(crate) fn new(side: Side, stack: Stack, secrets: Secrets, address: SocketAddr) -> Self {
        Self {
            stack,
            secrets,
            to_write: 0,
            address,
            read: 0,
            sent: (0, 0),
            received: (0, 0),
            most_in_flight: 0,
            stale_timers: 0,
            first_stale: None,
            side,
            written: 0,
            held: None,
            stale_until: None,
            touched: true,
        }
    }

    /// The unidirectional stream that its application writes to.
    pub const fn stream(&self) -> u64 {
        match self.side {
            Side::Client => 2,
            Side::Server => 3,
        }
    }

    /// The code of the error that it closed the connection with, if it did.
    pub fn closed_with(&self) -> Option<u64> {
        self.stack.quic().local_error().map(|error| error.error_code)
    }

    /// Bytes in flight, as the layer tells.
    pub fn in_flight(&self) -> u64 {
        self.stack.stats().bytes_in_flight
    }

    /// The puppet at this end.
    pub fn puppet(&mut self) -> &mut Puppet {
        self.touched = true;
        match &mut self.stack {
            Stack::Puppet(puppet) => puppet,
            _ => panic!("no puppet at this end"),
        }
    }

    /// tacklib's connection at this end.
    pub fn tack(&mut self) -> &mut tacklib::Connection {
        self.touched = true;
        match &mut self.stack {
            Stack::Tack(connection) => connection,
            _ => panic!("not tacklib at this end"),
        }
    }

    pub(crate) fn receive(&mut self, datagram: &mut [u8], info: RecvInfo, now: Instant) {
        self.received.0 += 1;
        self.received.1 += datagram.len() as u64;
        self.stack.receive(datagram, info, now);
        self.touched = true;
    }

    pub(crate) fn next_event(&self, now: Instant) -> Option<Instant> {
        let timeout = self.stack.timeout_instant();
        let timeout = timeout.map(|at| self.stale_until.map_or(at, |until| at.max(until)));
        let held = self.held.as_ref().map(|(at, _)| *at);
        [timeout, held, self.touched.then_some(now)].into_iter().flatten().min()
    }

    /// Does all that is due at `now`.
    pub(crate) fn turn(&mut self, now: Instant, sent: &mut Vec<Outgoing>) {
        if self.stale_until.is_some_and(|until| until > now) && !self.touched {
            return;
        }
        let expired = self.stack.timeout_instant().is_some_and(|at| at <= now);
        let released = self.held.as_ref().is_some_and(|(at, _)| *at <= now);
        if !(expired || released || self.touched) {
            return;
        }
        self.stale_until = None;
        self.touched = false;
        if expired {
            self.stack.on_timeout(now);
        }
        self.consume();
        self.supply();
        self.transmit(now, sent);
        self.check_timers(now, sent);
        self.most_in_flight = self.most_in_flight.max(self.in_flight());
    }

    /// A timer may be due at once after a datagram or a write; it must not be after
    /// `on_timeout` and `send` until `Done`.
    fn check_timers(&mut self, now: Instant, sent: &mut Vec<Outgoing>) {
        let is_expired = |stack: &Stack| stack.timeout_instant().is_some_and(|at| at <= now);
        if self.held.is_some() || !is_expired(&self.stack) {
            return;
        }
        self.stack.on_timeout(now);
        self.transmit(now, sent);
        if self.held.is_some() || !is_expired(&self.stack) {
            return;
        }
        self.stale_until = Some(now + STALE_PAUSE);
        self.stale_timers += 1;
        let quic = self.stack.quic();
        self.first_stale.get_or_insert_with(|| {
            format!(
                "{:?}: established {}, draining {}, closed {}, local error {:?}",
                self.side,
                quic.is_established(),
                quic.is_draining(),
                quic.is_closed(),
                quic.local_error()
            )
        });
    }

    /// Reads all there is, and checks the bytes of the peer's bulk stream.
    fn consume(&mut self) {
        let mut buffer = [0; 8 << 10];
        let bulk = 5 - self.stream(); // 2 and 3
        let readable: Vec<u64> = self.stack.quic().readable().collect();
        for stream in readable {
            while let Ok((len, _)) = self.stack.read(stream, &mut buffer) {
                if stream == bulk {
                    let offset = self.bulk_read();
                    assert!(
                        buffer[..len] == *content::at(offset, len),
                        "wrong bytes from offset {offset} on"
                    );
                }
                self.read += len as u64;
                if len == 0 {
                    break;
                }
            }
        }
    }

    /// The offset of the bulk stream that is read next: nothing else is read before it ends.
    const fn bulk_read(&self) -> u64 {
        self.read
    }

    /// Writes what the connection takes.
    fn supply(&mut self) {
        if self.to_write == 0 || !self.stack.quic().is_established() {
            return;
        }
        let stream = self.stream();
        while self.to_write > 0 {
            // A stream that has not been opened yet has no capacity.
            let capacity = match self.stack.capacity(stream) {
                Ok(capacity) => capacity as u64,
                Err(_) if self.written == 0 => LEAST_WRITE,
                Err(_) => return,
            };
            if capacity < self.to_write.min(self.least_write()) {
                return;
            }
            let data = content::at(self.written, self.to_write.min(capacity) as usize);
            let fin = self.to_write == data.len() as u64;
            let Ok(taken) = self.stack.write(stream, data, fin) else { return };
            self.written += taken as u64;
            if self.to_write != u64::MAX {
                self.to_write -= taken as u64;
            }
            if taken < data.len() {
                return;
            }
        }
    }

    /// No more than a quarter of quiche's window.
    fn least_write(&self) -> u64 {
        let window = self.stack.quic().path_stats().next().map_or(0, |path| path.cwnd);
        (window as u64 / 4).clamp(1, LEAST_WRITE)
    }

    /// Sends what may leave now; a packet that is to leave later is held, and nothing is written
    /// behind it.
    fn transmit(&mut self, now: Instant, sent: &mut Vec<Outgoing>) {
        if let Some((at, outgoing)) = self.held.take() {
            if at > now {
                self.held = Some((at, outgoing));
            } else {
                self.put(outgoing, sent);
            }
        }
        let mut buffer = [0; 1500];
        while self.held.is_none() {
            let Some((len, info)) = self.stack.transmit(&mut buffer) else { break };
            // An end whose address has changed without its knowledge still sends from it.
            let outgoing = Outgoing {
                source: self.source(info.from),
                destination: info.to,
                bytes: buffer[..len].to_vec(),
            };
            if info.at > now {
                self.held = Some((info.at, outgoing));
            } else {
                self.put(outgoing, sent);
            }
        }
    }

    fn put(&mut self, outgoing: Outgoing, sent: &mut Vec<Outgoing>) {
        self.sent.0 += 1;
        self.sent.1 += outgoing.bytes.len() as u64;
        sent.push(outgoing);
    }

    /// The address that the peer sees: a NAT may have changed the client's first one.
    fn source(&self, own: SocketAddr) -> SocketAddr {
        if self.side == Side::Client && own == crate::client_address(0) {
            self.address
        } else {
            own
        }
    }
}
