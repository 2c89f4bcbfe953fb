//! The thread of a relay.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tack_link::compose::BoxedLink;
use tack_link::{Arrival, Direction, Ecn, Link, Packet, Time};

use super::client::{Client, Upstream, listener};
use super::counters::{LATE, LaneCounters, RelayReport};
use super::socket::Socket;
use super::{Change, Datagram, Observer, Rebinding, Setup, wait};
use crate::MTU;

/// How long the thread sleeps at most before it looks whether it should stop.
const IDLE: Duration = Duration::from_millis(20);
/// Reads from one socket before the others get their turn.
const READ_BURST: usize = 64;
/// Headers of IPv4 (without options) and UDP, in bytes.
const HEADERS_V4: usize = 20 + 8;
/// Headers of IPv6 and UDP, in bytes.
const HEADERS_V6: usize = 40 + 8;

pub(super) struct Worker<O> {
    servers: Vec<SocketAddr>,
    /// One for each server.
    listeners: Vec<Socket>,
    /// In the order of their coming; the place is the flow.
    clients: Vec<Client>,
    /// By server and address.
    flow_of: HashMap<(usize, SocketAddr), usize>,
    /// Those that clients no longer have included.
    upstreams: Vec<Upstream>,
    rebindings: VecDeque<Rebinding>,
    rebound: u64,
    headers: usize,
    /// Whether what is longer than [`MTU`] is lost.
    has_mtu: bool,
    link: BoxedLink,
    /// Time zero of the link: the first datagram.
    start: Option<Instant>,
    /// In the order of [`Direction::index`].
    lanes: [LaneCounters; 2],
    deadline_misses: u64,
    worst_lateness: Duration,
    observer: O,
}

impl<O: Observer> Worker<O> {
    pub(super) fn new(setup: Setup, link: BoxedLink, observer: O) -> io::Result<Self> {
        let Setup { servers, rebindings } = setup;
        let in_order = rebindings.is_sorted_by_key(|rebinding| rebinding.at);
        let Some(first) = servers.first().filter(|_| in_order) else {
            let message = "a relay needs a server, and rebindings in order of time";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let headers = if first.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 };
        Ok(Self {
            listeners: servers
                .iter()
                .map(|server| listener(*server))
                .collect::<Result<_, _>>()?,
            servers,
            clients: Vec::new(),
            flow_of: HashMap::new(),
            upstreams: Vec::new(),
            rebindings: rebindings.into(),
            rebound: 0,
            headers,
            has_mtu: true,
            link,
            start: None,
            lanes: [LaneCounters::default(); 2],
            deadline_misses: 0,
            worst_lateness: Duration::ZERO,
            observer,
        })
    }

    /// Datagrams of any length cross the link.
    pub(super) fn without_mtu(self) -> Self {
        Self { has_mtu: false, ..self }
    }

    pub(super) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(Socket::local_addr).collect()
    }

    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<RelayReport<O>> {
        wait::ask_for_promptness();
        let mut buf = vec![0; usize::from(u16::MAX)];
        let mut ready = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            self.deliver_due();
            self.rebind_due()?;
            self.wait(&mut ready)?;
            for &socket in &ready {
                match socket.checked_sub(self.listeners.len()) {
                    None => self.read_listener(socket, &mut buf)?,
                    Some(upstream) => self.read_upstream(upstream, &mut buf)?,
                }
            }
        }
        // Packets that the link has lost by now count too.
        self.deliver_due();
        let lane = |direction: Direction| LaneCounters {
            losses: self.link.losses(direction),
            corrupted: self.link.corrupted(direction),
            ..self.lanes[direction.index()]
        };
        Ok(RelayReport {
            forward: lane(Direction::Forward),
            reverse: lane(Direction::Reverse),
            deadline_misses: self.deadline_misses,
            rebindings: self.rebound,
            worst_lateness: self.worst_lateness,
            observer: self.observer,
        })
    }

    fn now(&self) -> Time {
        self.start.map_or(Time::ZERO, |start| Time::from(start.elapsed()))
    }

    /// Waits for datagrams, the link, and rebindings; writes into `ready` which sockets have some,
    /// the listeners first.
    fn wait(&self, ready: &mut Vec<usize>) -> io::Result<()> {
        let rebinding = self.rebindings.front().map(|rebinding| Time::from(rebinding.at));
        let until_event =
            self.link.next_event().into_iter().chain(rebinding).map(|at| at.since(self.now()));
        let timeout = until_event.chain([IDLE]).min().unwrap_or(IDLE);
        let upstreams = self.upstreams.iter().map(|upstream| &upstream.socket);
        let sockets = self.listeners.iter().chain(upstreams);
        wait::readable(sockets.map(Socket::io), timeout, ready)
    }

    fn read_listener(&mut self, server: usize, buf: &mut [u8]) -> io::Result<()> {
        for _ in 0..READ_BURST {
            let Some(received) = pending(self.listeners[server].receive(buf))? else { break };
            self.start.get_or_insert_with(Instant::now);
            let client = self.client(server, received.from)?;
            let upstream = self.clients[client].current;
            for datagram in buf[..received.len].chunks(received.stride) {
                self.send(Direction::Reverse, upstream, datagram, received.ecn);
            }
        }
        Ok(())
    }

    fn read_upstream(&mut self, upstream: usize, buf: &mut [u8]) -> io::Result<()> {
        for _ in 0..READ_BURST {
            let Some(received) = pending(self.upstreams[upstream].socket.receive(buf))? else {
                break;
            };
            let client = &self.clients[self.upstreams[upstream].client];
            if received.from != self.servers[client.server] {
                continue; // whoever that is
            }
            for datagram in buf[..received.len].chunks(received.stride) {
                self.send(Direction::Forward, upstream, datagram, received.ecn);
            }
        }
        Ok(())
    }

    fn client(&mut self, server: usize, address: SocketAddr) -> io::Result<usize> {
        if let Some(&client) = self.flow_of.get(&(server, address)) {
            return Ok(client);
        }
        let client = self.clients.len();
        let upstream = Upstream::first(client, self.servers[server])?;
        self.clients.push(Client { address, server, current: self.upstreams.len() });
        self.upstreams.push(upstream);
        self.flow_of.insert((server, address), client);
        Ok(client)
    }

    fn rebind_due(&mut self) -> io::Result<()> {
        while let Some(&Rebinding { at, change }) = self.rebindings.front()
            && Time::from(at) <= self.now()
        {
            self.rebindings.pop_front();
            self.rebind(change)?;
            self.rebound += 1;
        }
        Ok(())
    }

    fn rebind(&mut self, change: Change) -> io::Result<()> {
        for client in &mut self.clients {
            let next = self.upstreams[client.current].next(change)?;
            client.current = self.upstreams.len();
            self.upstreams.push(next);
        }
        Ok(())
    }

    fn send(&mut self, direction: Direction, upstream: usize, bytes: &[u8], ecn: Ecn) {
        let Upstream { client, path, .. } = self.upstreams[upstream];
        let Client { server, current, .. } = self.clients[client];
        let flow = client as u32;
        let server = server as u32;
        self.observer.datagram(&Datagram { direction, flow, server, path, ecn, bytes });
        self.lanes[direction.index()].sent(bytes.len());
        if upstream != current {
            self.lanes[direction.index()].expired();
            return;
        }
        if self.has_mtu && bytes.len() + self.headers > usize::from(MTU) {
            self.lanes[direction.index()].too_large();
            return;
        }
        // What is due meanwhile must not wait for the end of a burst.
        self.deliver_due();
        let now = self.now();
        let size = (bytes.len() + self.headers) as u32;
        let packet = Packet::new(size, flow, now, bytes.to_vec()).with_ecn(ecn);
        self.link.send(direction, packet, now);
    }

    fn deliver_due(&mut self) {
        let now = self.now();
        while let Some(Arrival { at, direction, packet }) = self.link.arrival(now) {
            let Packet { flow, bytes, ecn, .. } = packet;
            let client = &self.clients[flow as usize];
            let upstream = &self.upstreams[client.current];
            let sent = match direction {
                Direction::Forward => {
                    self.listeners[client.server].send(&bytes, client.address, ecn)
                }
                Direction::Reverse => {
                    upstream.socket.send(&bytes, self.servers[client.server], ecn)
                }
            };
            self.lanes[direction.index()].delivered(bytes.len(), sent.is_ok());
            self.observer.delivered(&Datagram {
                direction,
                flow,
                server: client.server as u32,
                path: upstream.path,
                ecn,
                bytes: &bytes,
            });
            let lateness = self.now().since(at);
            self.deadline_misses += u64::from(lateness > LATE);
            self.worst_lateness = self.worst_lateness.max(lateness);
        }
    }
}

/// Tells an empty socket, or one that only reports a closed port at the other end, from a
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
