//! Connections, the links that they share, and an attacker's datagrams among theirs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::RecvInfo;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_link::compose::Duplex;
use tack_link::pipe::PipeConfig;
use tack_link::{Arrival, Direction, Link, Packet, Time};
use tack_virtual::Virtual;

use crate::endpoint::{Endpoint, Outgoing};
use crate::identity::Identity;
use crate::keys::Secrets;
use crate::setup::{CID_LEN, Setup};
use crate::{QueueLog, Side, client_address, server_address};

/// Headers of IPv4 and UDP, bytes.
const HEADERS: u32 = 28;

/// Rounds without progress of time after which a run is given up.
const PATIENCE: u32 = 100_000;

/// A link of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkIndex(usize);

/// A connection of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionIndex(usize);

/// A datagram on its way into the network.
#[derive(Debug)]
pub struct Sighting<'a> {
    /// When.
    pub now: Time,
    /// Who sent it.
    pub sender: Side,
    /// Its addresses.
    pub source: SocketAddr,
    /// Where it goes.
    pub destination: SocketAddr,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// What becomes of a datagram that an attacker has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It does not.
    Drop,
    /// This goes on in its place.
    Replace(Vec<u8>),
}

/// A datagram of an attacker's. It comes by a way of its own, not over the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// When it arrives, counted from now.
    pub after: Duration,
    /// Who gets it.
    pub recipient: Side,
    /// The address that it claims to be from.
    pub source: SocketAddr,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// An attacker on the path.
type Tap = Box<dyn FnMut(&Sighting<'_>, &mut Vec<Injection>) -> Verdict>;

struct Connection {
    ends: [Endpoint; 2],
    /// The link of each address of the client's.
    links: HashMap<SocketAddr, usize>,
    tap: Option<Tap>,
}

struct SharedLink {
    duplex: Duplex,
    /// Rate and delay of both directions, in the order of [`Direction::index`].
    ways: [(Option<u64>, Duration); 2],
    queues: [QueueLog; 2],
}

/// An injected datagram, by time of arrival and in order.
type Pending = Reverse<(Time, u64, usize, PendingDatagram)>;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PendingDatagram {
    to_client: bool,
    source: SocketAddr,
    bytes: Vec<u8>,
}

/// Connections and links in virtual time.
pub struct Network {
    clock: Virtual,
    epoch: Instant,
    now: Time,
    random: Pcg64Mcg,
    links: Vec<SharedLink>,
    connections: Vec<Connection>,
    /// Addresses that packets on the links name by their place.
    addresses: Vec<SocketAddr>,
    pending: BinaryHeap<Pending>,
    injected: u64,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Network {
    /// An empty network. The thread is in virtual time until it is dropped.
    pub fn new(seed: u64) -> Self {
        Identity::get(); // not to be made in virtual time
        let clock = Virtual::enter(seed);
        Self {
            clock,
            epoch: Instant::now(),
            now: Time::ZERO,
            random: Pcg64Mcg::seed_from_u64(seed),
            links: Vec::new(),
            connections: Vec::new(),
            addresses: Vec::new(),
            pending: BinaryHeap::new(),
            injected: 0,
        }
    }

    /// Adds a link: the way to clients and the way to servers.
    pub fn link(&mut self, down: &PipeConfig, up: &PipeConfig) -> LinkIndex {
        let seed = self.random.next_u64();
        let way = |pipe: &PipeConfig| {
            (pipe.rate_bps.as_ref().map(|rate| rate.at(Time::ZERO)), pipe.delay.at(Time::ZERO))
        };
        self.links.push(SharedLink {
            duplex: Duplex::new(down, up, seed).unwrap(),
            ways: [way(down), way(up)],
            queues: [QueueLog::default(), QueueLog::default()],
        });
        LinkIndex(self.links.len() - 1)
    }

    /// Adds a connection over a link.
    pub fn connect(
        &mut self,
        link: LinkIndex,
        client: Setup,
        server: Setup,
    ) -> ConnectionIndex {
        let mut end = |side, setup: Setup, address| {
            let mut scid = [0; CID_LEN];
            self.random.fill_bytes(&mut scid);
            let secrets = Secrets::default();
            let stack = setup.build(side, &scid, &secrets);
            Endpoint::new(side, stack, secrets, address)
        };
        let client = end(Side::Client, client, client_address(0));
        let server = end(Side::Server, server, server_address());
        let links = HashMap::from([(client_address(0), link.0)]);
        self.connections.push(Connection { ends: [client, server], links, tap: None });
        ConnectionIndex(self.connections.len() - 1)
    }

    /// The client's datagrams come from another address from now on, over another link. What is
    /// sent to the old address still goes over the old link, and arrives.
    pub fn move_client(
        &mut self,
        connection: ConnectionIndex,
        address: SocketAddr,
        link: LinkIndex,
    ) {
        self.reroute(connection, address, link);
        self.connections[connection.0].ends[Side::Client.index()].address = address;
    }

    /// Datagrams to and from an address of the client's go over this link.
    pub fn reroute(
        &mut self,
        connection: ConnectionIndex,
        address: SocketAddr,
        link: LinkIndex,
    ) {
        self.connections[connection.0].links.insert(address, link.0);
    }

    /// Puts an attacker on the path of a connection: it sees each datagram before the link does.
    pub fn tap(
        &mut self,
        connection: ConnectionIndex,
        tap: impl FnMut(&Sighting<'_>, &mut Vec<Injection>) -> Verdict + 'static,
    ) {
        self.connections[connection.0].tap = Some(Box::new(tap));
    }

    /// Takes the attacker off the path.
    pub fn untap(&mut self, connection: ConnectionIndex) {
        self.connections[connection.0].tap = None;
    }

    /// Delivers a datagram of an attacker's.
    pub fn inject(&mut self, connection: ConnectionIndex, injection: Injection) {
        let Injection { after, recipient, source, bytes } = injection;
        let to_client = recipient == Side::Client;
        let datagram = PendingDatagram { to_client, source, bytes };
        self.injected += 1;
        let at = self.now + after;
        self.pending.push(Reverse((at, self.injected, connection.0, datagram)));
    }

    /// One end of a connection.
    pub fn end(&self, connection: ConnectionIndex, side: Side) -> &Endpoint {
        &self.connections[connection.0].ends[side.index()]
    }

    /// The same, to be changed; it gets a turn at once.
    pub fn end_mut(&mut self, connection: ConnectionIndex, side: Side) -> &mut Endpoint {
        let end = &mut self.connections[connection.0].ends[side.index()];
        end.touched = true;
        end
    }

    /// Waits in the queue of a link on the way to one side.
    pub fn queue(&self, link: LinkIndex, to: Side) -> &QueueLog {
        &self.links[link.0].queues[direction_to(to).index()]
    }

    /// Time since the start.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The moment as the connections know it.
    pub fn instant(&self) -> Instant {
        self.epoch + self.now.since(Time::ZERO)
    }

    /// Runs until both ends of all connections are established.
    pub fn handshake(&mut self) {
        let established = |network: &Self| {
            network
                .connections
                .iter()
                .flat_map(|connection| &connection.ends)
                .all(|end| end.stack.quic().is_established())
        };
        let done = self.run_while(Duration::from_secs(10), |network| !established(network));
        assert!(done.is_some(), "no handshake");
    }

    /// Runs for a while.
    pub fn run_for(&mut self, time: Duration) {
        self.run_while(time, |_| true);
    }

    /// Runs as long as a condition holds, for `limit` at most. How long it held, if it ended.
    pub fn run_while(
        &mut self,
        limit: Duration,
        mut condition: impl FnMut(&Self) -> bool,
    ) -> Option<Duration> {
        let (start, end) = (self.now, self.now + limit);
        let mut rounds = 0;
        while condition(self) {
            let next = self.next_event().filter(|next| *next <= end);
            let Some(next) = next else {
                self.set_time(end);
                return None;
            };
            rounds = if next > self.now { 0 } else { rounds + 1 };
            assert!(rounds < PATIENCE, "no progress of time at {:?}", self.now);
            self.set_time(self.now.max(next));
            self.step();
        }
        Some(self.now.since(start))
    }

    fn set_time(&mut self, now: Time) {
        self.now = now;
        self.clock.set(now.since(Time::ZERO));
    }

    fn next_event(&self) -> Option<Time> {
        let instant = self.instant();
        let ends = self.connections.iter().flat_map(|connection| &connection.ends);
        let ends = ends.filter_map(|end| end.next_event(instant)).min();
        let ends = ends.map(|at| Time::from(at.saturating_duration_since(self.epoch)));
        let links = self.links.iter().filter_map(|link| link.duplex.next_event()).min();
        let pending = self.pending.peek().map(|Reverse((at, ..))| *at);
        [ends, links, pending].into_iter().flatten().min()
    }

    /// Does all that is due now. Each datagram is answered before the next is read.
    fn step(&mut self) {
        while self.pending.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Some(Reverse((_, _, connection, datagram))) = self.pending.pop() else { break };
            let to = if datagram.to_client { Side::Client } else { Side::Server };
            self.deliver(connection, to, datagram.source, datagram.bytes);
        }
        for link in 0..self.links.len() {
            while let Some(arrival) = self.links[link].duplex.arrival(self.now) {
                self.arrive(link, arrival);
            }
        }
        for connection in 0..self.connections.len() {
            self.turn(connection);
        }
    }

    /// A packet has come out of a link.
    fn arrive(&mut self, link: usize, arrival: Arrival) {
        let Arrival { at, direction, packet } = arrival;
        let SharedLink { ways, queues, .. } = &mut self.links[link];
        let (rate, delay) = ways[direction.index()];
        let nanos = |rate: u64| u64::from(packet.size) * 8 * 1_000_000_000 / rate.max(1);
        let least = delay + Duration::from_nanos(rate.map_or(0, nanos));
        queues[direction.index()].push(at, at.since(packet.sent).saturating_sub(least));
        let (connection, source, destination) = self.parse_flow(packet.flow);
        let to = match direction {
            Direction::Forward => Side::Client,
            Direction::Reverse => Side::Server,
        };
        // Somebody else's: a server may be made to answer to an attacker's address.
        let reaches = match to {
            Side::Client => self.connections[connection].links.contains_key(&destination),
            Side::Server => destination == server_address(),
        };
        if reaches {
            self.deliver(connection, to, source, packet.bytes);
        }
    }

    fn deliver(&mut self, connection: usize, to: Side, source: SocketAddr, bytes: Vec<u8>) {
        let now = self.instant();
        let end = &mut self.connections[connection].ends[to.index()];
        // An end behind a NAT knows nothing of the address that the NAT gave it.
        let local = match to {
            Side::Client => client_address(0),
            Side::Server => end.address,
        };
        let mut bytes = bytes;
        end.receive(&mut bytes, RecvInfo { from: source, to: local }, now);
        self.turn(connection);
    }

    fn turn(&mut self, connection: usize) {
        let now = self.instant();
        for side in Side::ALL {
            let mut sent = Vec::new();
            self.connections[connection].ends[side.index()].turn(now, &mut sent);
            for outgoing in sent {
                self.send(connection, side, outgoing);
            }
        }
    }

    /// Puts a datagram on its link, past the attacker.
    fn send(&mut self, index: usize, sender: Side, outgoing: Outgoing) {
        let Outgoing { source, destination, bytes } = outgoing;
        let connection = &mut self.connections[index];
        let mut injections = Vec::new();
        let sighting = Sighting { now: self.now, sender, source, destination, bytes: &bytes };
        let verdict = match &mut connection.tap {
            Some(tap) => tap(&sighting, &mut injections),
            None => Verdict::Pass,
        };
        let client = if sender == Side::Client { source } else { destination };
        let link = connection.links.get(&client).copied();
        for injection in injections {
            self.inject(ConnectionIndex(index), injection);
        }
        let bytes = match verdict {
            Verdict::Pass => bytes,
            Verdict::Drop => return,
            Verdict::Replace(bytes) => bytes,
        };
        let Some(link) = link else { return };
        let size = bytes.len() as u32 + HEADERS;
        let flow = self.flow(index, source, destination);
        let packet = Packet::new(size, flow, self.now, bytes);
        self.links[link].duplex.send(direction_to(sender.peer()), packet, self.now);
    }

    /// A packet's connection and addresses, as the links carry them.
    fn flow(&mut self, connection: usize, source: SocketAddr, destination: SocketAddr) -> u32 {
        let mut place = |address| {
            let known = self.addresses.iter().position(|known| *known == address);
            known.unwrap_or_else(|| {
                self.addresses.push(address);
                self.addresses.len() - 1
            })
        };
        let (source, destination) = (place(source), place(destination));
        (connection as u32) << 16 | (source as u32) << 8 | destination as u32
    }

    fn parse_flow(&self, flow: u32) -> (usize, SocketAddr, SocketAddr) {
        let address = |place: u32| self.addresses[(place & 0xff) as usize];
        ((flow >> 16) as usize, address(flow >> 8), address(flow))
    }
}

const fn direction_to(side: Side) -> Direction {
    match side {
        Side::Client => Direction::Forward,
        Side::Server => Direction::Reverse,
    }
}
