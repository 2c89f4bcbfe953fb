//! A bottleneck link in the same process: a UDP relay on the loopback interface that delays,
//! paces, queues and loses datagrams like a wide-area link of a given rate.
//!
//! Departure times are computed, not slept: a relay thread that is scheduled late delivers
//! late, but the rate over time stays exact. ECN marks are not carried over.

mod link;
mod wait;

use std::{
    collections::{HashMap, VecDeque},
    io, iter,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

pub use self::link::LinkCounters;
use self::link::{Link, bytes_in};

/// The drop-tail queue is never smaller by default than a burst of a few packets needs.
const MIN_DEFAULT_BUFFER: u64 = 64 << 10;
/// Delivered later than this, a datagram counts as a missed deadline.
const LATE: Duration = Duration::from_millis(5);
/// How long the thread sleeps at most before it looks whether it should stop.
const IDLE: Duration = Duration::from_millis(20);
/// Reads from one socket before due datagrams are delivered again.
const READ_BURST: usize = 64;
/// Asked of the kernel, which may grant less.
const SOCKET_BUFFER: usize = 8 << 20;
/// Beyond this a link is a mistake in the configuration.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// The link that a relay stands for. It has the same properties in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RelayConfig {
    /// Where the datagrams of clients go.
    pub server: SocketAddr,
    /// Rate of each direction in bits of UDP payload per second.
    pub rate_bps: u64,
    /// Propagation delay in each direction, on top of serialisation and queueing.
    pub one_way_delay: Duration,
    /// Size in bytes of the drop-tail queue in front of each direction.
    pub buffer_bytes: u64,
    /// Probability from 0 to 1 that a datagram is lost, drawn for each direction on its own.
    pub loss: f64,
    /// Seed of the losses: the n-th datagram of a direction shares its fate in every run.
    pub seed: u64,
}

impl RelayConfig {
    /// A link without losses, and with a queue of one bandwidth-delay product of the whole
    /// round trip, 64 KiB at least.
    pub fn new(server: SocketAddr, rate_bps: u64, one_way_delay: Duration) -> Self {
        let round_trip = one_way_delay.saturating_mul(2);
        let buffer_bytes = bytes_in(round_trip, rate_bps).max(MIN_DEFAULT_BUFFER);
        Self { server, rate_bps, one_way_delay, buffer_bytes, loss: 0.0, seed: 0 }
    }

    fn check(&self) -> io::Result<()> {
        let wrong = if self.rate_bps == 0 {
            "the link needs a rate above 0 bit/s"
        } else if !(0.0..=1.0).contains(&self.loss) {
            "the loss of the link is a probability from 0 to 1"
        } else if self.one_way_delay > MAX_DELAY {
            "the delay of the link is above one minute"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
    }
}

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From a client to the server.
    ToServer,
    /// From the server to a client.
    ToClient,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ToServer, Self::ToClient];

    /// The other one.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}

/// Sees every datagram as the endpoint sent it, before the link queues or loses it.
pub trait Observer: Send {
    /// Called on the relay's thread: whatever time it takes, datagrams wait for.
    fn datagram(&mut self, direction: Direction, bytes: &[u8]);
}

/// Observes nothing.
impl Observer for () {
    fn datagram(&mut self, _: Direction, _: &[u8]) {}
}

/// A running relay. Dropping it stops it.
pub struct Relay<O = ()> {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<RelayReport<O>>>>,
}

/// What a relay did.
#[derive(Clone, Debug)]
pub struct RelayReport<O = ()> {
    /// The direction from clients to the server.
    pub to_server: LinkCounters,
    /// The direction from the server to clients.
    pub to_client: LinkCounters,
    /// Datagrams delivered more than 5 ms after their time because the relay's thread did not
    /// get the processor. Measurements over such a link describe the machine rather than the
    /// link.
    pub deadline_misses: u64,
    /// What was given to [`Relay::start_observed`].
    pub observer: O,
}

impl<O> RelayReport<O> {
    /// The counters of one direction.
    pub const fn counters(&self, direction: Direction) -> &LinkCounters {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }
}

impl Relay {
    /// Starts a relay on a free port of 127.0.0.1.
    ///
    /// Fails if the configuration makes no sense or the system refuses a socket or a thread.
    pub fn start(config: RelayConfig) -> io::Result<Self> {
        Self::start_observed(config, ())
    }
}

impl<O> Relay<O> {
    /// Starts a relay that shows every datagram to `observer`.
    ///
    /// Fails as [`start`](Relay::start) does.
    pub fn start_observed(config: RelayConfig, observer: O) -> io::Result<Self>
    where
        O: Observer + 'static,
    {
        config.check()?;
        let listener = socket()?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker::new(config, listener, observer);
        let thread = thread::Builder::new().name("relay".into()).spawn({
            let stop = Arc::clone(&stop);
            move || worker.run(&stop)
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where clients send to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the relay. Datagrams still on their way are discarded.
    ///
    /// Fails if a socket failed while the relay ran, which ended it early.
    pub fn stop(mut self) -> io::Result<RelayReport<O>> {
        self.join().unwrap_or_else(|| Err(io::Error::other("the relay was stopped before")))
    }

    fn join(&mut self) -> Option<io::Result<RelayReport<O>>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or_else(|_| {
            Err(io::Error::other("the relay's thread panicked: please report this as a bug"))
        }))
    }
}

impl<O> Drop for Relay<O> {
    fn drop(&mut self) {
        self.join();
    }
}

/// The relay's thread.
struct Worker<O> {
    server: SocketAddr,
    listener: UdpSocket,
    clients: Vec<Client>,
    client_of: HashMap<SocketAddr, usize>,
    to_server: Lane,
    to_client: Lane,
    deadline_misses: u64,
    observer: O,
}

struct Client {
    address: SocketAddr,
    /// Connected to the server, which tells clients apart by this socket's port.
    upstream: UdpSocket,
}

/// One direction: the link, and what is on its way over it.
struct Lane {
    link: Link,
    /// In order of delivery: a link does not reorder.
    in_transit: VecDeque<InTransit>,
}

struct InTransit {
    due: Instant,
    client: usize,
    bytes: Box<[u8]>,
}

impl<O: Observer> Worker<O> {
    fn new(config: RelayConfig, listener: UdpSocket, observer: O) -> Self {
        let lane = |direction| Lane {
            link: Link::new(&config, direction),
            in_transit: VecDeque::new(),
        };
        Self {
            server: config.server,
            listener,
            clients: Vec::new(),
            client_of: HashMap::new(),
            to_server: lane(Direction::ToServer),
            to_client: lane(Direction::ToClient),
            deadline_misses: 0,
            observer,
        }
    }

    fn run(mut self, stop: &AtomicBool) -> io::Result<RelayReport<O>> {
        let mut buf = vec![0; usize::from(u16::MAX)];
        let mut ready = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            self.deliver_due();
            let timeout = self
                .next_due()
                .map_or(IDLE, |due| due.saturating_duration_since(Instant::now()).min(IDLE));
            let upstreams = self.clients.iter().map(|client| &client.upstream);
            wait::readable(iter::once(&self.listener).chain(upstreams), timeout, &mut ready)?;
            for &socket in &ready {
                match socket.checked_sub(1) {
                    None => self.read_listener(&mut buf)?,
                    Some(client) => self.read_upstream(client, &mut buf)?,
                }
            }
        }
        Ok(RelayReport {
            to_server: self.to_server.link.counters,
            to_client: self.to_client.link.counters,
            deadline_misses: self.deadline_misses,
            observer: self.observer,
        })
    }

    fn read_listener(&mut self, buf: &mut [u8]) -> io::Result<()> {
        for _ in 0..READ_BURST {
            let Some((len, address)) = pending(self.listener.recv_from(buf))? else { break };
            let client = self.client(address)?;
            self.offer(Direction::ToServer, client, &buf[..len]);
        }
        Ok(())
    }

    fn read_upstream(&mut self, client: usize, buf: &mut [u8]) -> io::Result<()> {
        for _ in 0..READ_BURST {
            let Some(len) = pending(self.clients[client].upstream.recv(buf))? else { break };
            self.offer(Direction::ToClient, client, &buf[..len]);
        }
        Ok(())
    }

    fn client(&mut self, address: SocketAddr) -> io::Result<usize> {
        if let Some(&client) = self.client_of.get(&address) {
            return Ok(client);
        }
        let upstream = socket()?;
        upstream.connect(self.server)?;
        self.clients.push(Client { address, upstream });
        self.client_of.insert(address, self.clients.len() - 1);
        Ok(self.clients.len() - 1)
    }

    fn offer(&mut self, direction: Direction, client: usize, bytes: &[u8]) {
        self.observer.datagram(direction, bytes);
        let lane = match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        };
        if let Some(due) = lane.link.admit(Instant::now(), bytes.len()) {
            lane.in_transit.push_back(InTransit { due, client, bytes: bytes.into() });
        }
    }

    fn deliver_due(&mut self) {
        let Self { listener, clients, to_server, to_client, deadline_misses, .. } = self;
        *deadline_misses += to_server
            .deliver(Instant::now(), |client, bytes| clients[client].upstream.send(bytes));
        *deadline_misses += to_client.deliver(Instant::now(), |client, bytes| {
            listener.send_to(bytes, clients[client].address)
        });
    }

    fn next_due(&self) -> Option<Instant> {
        [&self.to_server, &self.to_client]
            .into_iter()
            .filter_map(|lane| lane.in_transit.front())
            .map(|datagram| datagram.due)
            .min()
    }
}

impl Lane {
    /// Sends what is due; returns how many datagrams were late.
    fn deliver(
        &mut self,
        now: Instant,
        send: impl Fn(usize, &[u8]) -> io::Result<usize>,
    ) -> u64 {
        let mut late = 0;
        while let Some(datagram) = self.in_transit.front() {
            let Some(lateness) = now.checked_duration_since(datagram.due) else { break };
            late += u64::from(lateness > LATE);
            let sent = send(datagram.client, &datagram.bytes);
            self.link.delivered(datagram.bytes.len(), sent.is_ok());
            self.in_transit.pop_front();
        }
        late
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

#[cfg(test)]
mod tests;
