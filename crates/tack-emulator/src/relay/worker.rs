//! The thread of a relay.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, iter};

use tack_link::compose::BoxedLink;
use tack_link::{Arrival, Direction, Link, Packet, Time};

use super::counters::{LATE, LaneCounters, RelayReport};
use super::{Observer, wait};

/// How long the thread sleeps at most before it looks whether it should stop.
const IDLE: Duration = Duration::from_millis(20);
/// Reads from one socket before the others get their turn.
const READ_BURST: usize = 64;
/// Asked of the kernel, which may grant less.
const SOCKET_BUFFER: usize = 8 << 20;
/// Headers of IPv4 (without options) and UDP, in bytes.
const HEADERS: usize = 20 + 8;

pub(super) struct Worker<O> {
    server: SocketAddr,
    listener: UdpSocket,
    /// In the order of their coming; the place is the flow.
    clients: Vec<Client>,
    flow_of: HashMap<SocketAddr, u32>,
    link: BoxedLink,
    /// Time zero of the link.
    start: Instant,
    /// In the order of [`Direction::index`].
    lanes: [LaneCounters; 2],
    deadline_misses: u64,
    worst_lateness: Duration,
    observer: O,
}

struct Client {
    address: SocketAddr,
    /// Connected to the server, which tells clients apart by this socket's port.
    upstream: UdpSocket,
}

impl<O: Observer> Worker<O> {
    pub(super) fn new(server: SocketAddr, link: BoxedLink, observer: O) -> io::Result<Self> {
        Ok(Self {
            server,
            listener: socket()?,
            clients: Vec::new(),
            flow_of: HashMap::new(),
            link,
            start: Instant::now(),
            lanes: [LaneCounters::default(); 2],
            deadline_misses: 0,
            worst_lateness: Duration::ZERO,
            observer,
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<RelayReport<O>> {
        wait::ask_for_promptness();
        let mut buf = vec![0; usize::from(u16::MAX)];
        let mut ready = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            self.deliver_due();
            self.wait(&mut ready)?;
            for &socket in &ready {
                match socket.checked_sub(1) {
                    None => self.read_listener(&mut buf)?,
                    Some(client) => self.read_upstream(client, &mut buf)?,
                }
            }
        }
        // What the link has lost by now counts, though nobody asked it since.
        self.deliver_due();
        let lane = |direction: Direction| LaneCounters {
            losses: self.link.losses(direction),
            ..self.lanes[direction.index()]
        };
        Ok(RelayReport {
            forward: lane(Direction::Forward),
            reverse: lane(Direction::Reverse),
            deadline_misses: self.deadline_misses,
            worst_lateness: self.worst_lateness,
            observer: self.observer,
        })
    }

    fn now(&self) -> Time {
        Time::from(self.start.elapsed())
    }

    /// Waits for datagrams and for the link; writes into `ready` which sockets have some, the
    /// listener first.
    fn wait(&self, ready: &mut Vec<usize>) -> io::Result<()> {
        let until_event = self.link.next_event().map(|at| at.since(self.now()));
        let timeout = until_event.map_or(IDLE, |timeout| timeout.min(IDLE));
        let upstreams = self.clients.iter().map(|client| &client.upstream);
        wait::readable(iter::once(&self.listener).chain(upstreams), timeout, ready)
    }

    fn read_listener(&mut self, buf: &mut [u8]) -> io::Result<()> {
        for _ in 0..READ_BURST {
            let Some((len, address)) = pending(self.listener.recv_from(buf))? else { break };
            let flow = self.flow(address)?;
            self.send(Direction::Reverse, flow, &buf[..len]);
        }
        Ok(())
    }

    fn read_upstream(&mut self, client: usize, buf: &mut [u8]) -> io::Result<()> {
        for _ in 0..READ_BURST {
            let Some(len) = pending(self.clients[client].upstream.recv(buf))? else { break };
            self.send(Direction::Forward, client as u32, &buf[..len]);
        }
        Ok(())
    }

    fn flow(&mut self, address: SocketAddr) -> io::Result<u32> {
        if let Some(&flow) = self.flow_of.get(&address) {
            return Ok(flow);
        }
        let upstream = socket()?;
        upstream.connect(self.server)?;
        let flow = self.clients.len() as u32;
        self.clients.push(Client { address, upstream });
        self.flow_of.insert(address, flow);
        Ok(flow)
    }

    fn send(&mut self, direction: Direction, flow: u32, bytes: &[u8]) {
        self.observer.datagram(direction, bytes);
        self.lanes[direction.index()].sent(bytes.len());
        // What is due meanwhile must not wait for the end of a burst.
        self.deliver_due();
        let now = self.now();
        let size = (bytes.len() + HEADERS) as u32;
        let packet = Packet { size, flow, sent: now, bytes: bytes.to_vec() };
        self.link.send(direction, packet, now);
    }

    fn deliver_due(&mut self) {
        let now = self.now();
        while let Some(Arrival { at, direction, packet }) = self.link.arrival(now) {
            let client = &self.clients[packet.flow as usize];
            let sent = match direction {
                Direction::Forward => self.listener.send_to(&packet.bytes, client.address),
                Direction::Reverse => client.upstream.send(&packet.bytes),
            };
            self.lanes[direction.index()].delivered(packet.bytes.len(), sent.is_ok());
            let lateness = self.now().since(at);
            self.deadline_misses += u64::from(lateness > LATE);
            self.worst_lateness = self.worst_lateness.max(lateness);
        }
    }
}

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(SOCKET_BUFFER)?;
    options.set_send_buffer_size(SOCKET_BUFFER)?;
    Ok(socket)
}

/// Tells an empty socket, or one that only reports that nobody listens at the other end, from a
/// broken one.
fn pending<T>(received: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, Interrupted, WouldBlock};

    match received {
        Ok(received) => Ok(Some(received)),
        Err(error) => match error.kind() {
            WouldBlock | Interrupted | ConnectionRefused | ConnectionReset => Ok(None),
            _ => Err(error),
        },
    }
}
