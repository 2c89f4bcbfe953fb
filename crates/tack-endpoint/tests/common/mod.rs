//! What the tests share: certificates, configurations, and an application that exchanges data on
//! stream 0 with its peer and checks the digest of what it gets.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod link;

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use tack_endpoint::{CloseReason, Endpoint, EndpointConfig, Event, Handle};

pub const ALPN: &[u8] = b"tack-endpoint-test";

/// How long a test may take before it counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const LOCALHOST: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

pub struct Certificate {
    _directory: tempfile::TempDir,
    pub chain_file: String,
    pub key_file: String,
    pub chain_der: Vec<u8>,
    pub key_der: Vec<u8>,
}

impl Certificate {
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, contents: String| {
            let path = directory.path().join(name);
            std::fs::write(&path, contents).unwrap();
            path.to_str().unwrap().to_owned()
        };
        Self {
            chain_file: write("cert.pem", made.cert.pem()),
            key_file: write("key.pem", made.signing_key.serialize_pem()),
            chain_der: made.cert.der().to_vec(),
            key_der: made.signing_key.serialize_der(),
            _directory: directory,
        }
    }

    pub fn give_to(&self, config: &mut quiche::Config) {
        config.load_cert_chain_from_pem_file(&self.chain_file).unwrap();
        config.load_priv_key_from_pem_file(&self.key_file).unwrap();
    }
}

/// Parameters for every quiche connection of the tests.
pub fn set_parameters(config: &mut quiche::Config) {
    config.set_application_protos(&[ALPN]).unwrap();
    config.verify_peer(false);
    config.set_max_idle_timeout(20_000);
    config.set_max_recv_udp_payload_size(1452);
    config.set_max_send_udp_payload_size(1452);
    config.set_initial_max_data(4 << 20);
    config.set_initial_max_stream_data_bidi_local(2 << 20);
    config.set_initial_max_stream_data_bidi_remote(2 << 20);
    config.set_initial_max_streams_bidi(4);
    config.set_active_connection_id_limit(4);
}

pub fn client_config() -> tacklib::Config {
    let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    set_parameters(&mut config);
    config
}

pub fn server_config(certificate: &Certificate) -> tacklib::Config {
    let mut config = client_config();
    certificate.give_to(&mut config);
    config
}

/// The default settings of an endpoint with some changed.
pub fn endpoint_config(change: impl FnOnce(&mut EndpointConfig)) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    change(&mut config);
    config
}

/// Bytes that look random and are the same each time.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = XorShift(seed | 1);
    (0..len).map(|_| random.next() as u8).collect()
}

pub struct XorShift(pub u64);

impl XorShift {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// The stream calls that quiche's connection and ours have in common.
pub trait Streams {
    fn write(&mut self, data: &[u8], fin: bool) -> quiche::Result<usize>;
    fn read(&mut self, out: &mut [u8]) -> quiche::Result<(usize, bool)>;
    fn capacity(&mut self) -> quiche::Result<usize>;
}

impl Streams for tacklib::Connection {
    fn write(&mut self, data: &[u8], fin: bool) -> quiche::Result<usize> {
        self.stream_send(0, data, fin)
    }

    fn read(&mut self, out: &mut [u8]) -> quiche::Result<(usize, bool)> {
        self.stream_recv(0, out)
    }

    fn capacity(&mut self) -> quiche::Result<usize> {
        self.stream_capacity(0)
    }
}

impl Streams for quiche::Connection {
    fn write(&mut self, data: &[u8], fin: bool) -> quiche::Result<usize> {
        self.stream_send(0, data, fin)
    }

    fn read(&mut self, out: &mut [u8]) -> quiche::Result<(usize, bool)> {
        self.stream_recv(0, out)
    }

    fn capacity(&mut self) -> quiche::Result<usize> {
        self.stream_capacity(0)
    }
}

/// One side of an exchange on stream 0: both send `data`, both check what they get. The server
/// ends its half only when it has the client's, so a client that is done may close.
pub struct Exchange {
    data: Vec<u8>,
    sent: usize,
    fin_sent: bool,
    received: usize,
    fin_received: bool,
    digest: blake3::Hasher,
    is_client: bool,
}

impl Exchange {
    pub fn client(data: Vec<u8>) -> Self {
        Self {
            data,
            sent: 0,
            fin_sent: false,
            received: 0,
            fin_received: false,
            digest: blake3::Hasher::new(),
            is_client: true,
        }
    }

    pub fn server(data: Vec<u8>) -> Self {
        Self { is_client: false, ..Self::client(data) }
    }

    pub fn is_done(&self) -> bool {
        self.fin_sent && self.fin_received
    }

    pub fn received(&self) -> usize {
        self.received
    }

    pub fn assert_received(&self, expected: &[u8]) {
        assert!(self.fin_received, "{} of {} bytes arrived", self.received, expected.len());
        assert_eq!(self.received, expected.len());
        assert_eq!(self.digest.finalize(), blake3::hash(expected), "the digest differs");
    }

    pub fn drive(&mut self, connection: &mut impl Streams) {
        let mut buffer = [0; 65_536];
        while let Ok((len, fin)) = connection.read(&mut buffer) {
            self.digest.update(&buffer[..len]);
            self.received += len;
            self.fin_received |= fin;
        }
        // The server's half exists once the client has opened the stream.
        if !self.is_client && self.received == 0 {
            return;
        }
        while !self.fin_sent {
            let rest = &self.data[self.sent..];
            let may_end = self.is_client || self.fin_received;
            if rest.is_empty() && !may_end {
                return;
            }
            // A stream that does not exist yet has no capacity; the first write opens it.
            let capacity = connection.capacity().unwrap_or(1000);
            let chunk = &rest[..rest.len().min(capacity)];
            let fin = may_end && chunk.len() == rest.len();
            if chunk.is_empty() && !fin {
                return;
            }
            match connection.write(chunk, fin) {
                Ok(written) => {
                    self.sent += written;
                    self.fin_sent = fin && self.sent == self.data.len();
                    if written < chunk.len() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

/// An endpoint with an exchange on each of its connections.
pub struct App {
    pub endpoint: Endpoint,
    pub exchanges: HashMap<Handle, Exchange>,
    pub connected: Vec<Handle>,
    pub closed: HashMap<Handle, CloseReason>,
    /// What a server sends on each connection.
    reply: Option<Vec<u8>>,
}

impl App {
    pub fn server(certificate: &Certificate, config: EndpointConfig, reply: Vec<u8>) -> Self {
        Self::server_with(server_config(certificate), config, reply)
    }

    pub fn server_with(tack: tacklib::Config, config: EndpointConfig, reply: Vec<u8>) -> Self {
        let endpoint = Endpoint::server(LOCALHOST.into(), tack, config).unwrap();
        Self::new(endpoint, Some(reply))
    }

    pub fn client() -> Self {
        let config = EndpointConfig::default();
        Self::new(Endpoint::client(LOCALHOST.into(), config).unwrap(), None)
    }

    pub fn new(endpoint: Endpoint, reply: Option<Vec<u8>>) -> Self {
        Self {
            endpoint,
            exchanges: HashMap::new(),
            connected: Vec::new(),
            closed: HashMap::new(),
            reply,
        }
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    pub fn connect(&mut self, server: SocketAddr, data: Vec<u8>) -> Handle {
        self.connect_with(server, data, &mut client_config())
    }

    pub fn connect_with(
        &mut self,
        server: SocketAddr,
        data: Vec<u8>,
        config: &mut tacklib::Config,
    ) -> Handle {
        let handle = self.endpoint.connect(server, Some("localhost"), config).unwrap();
        self.exchanges.insert(handle, Exchange::client(data));
        handle
    }

    /// Polls once and serves the events.
    pub fn turn(&mut self, max_wait: Duration) {
        self.endpoint.poll(Some(max_wait)).unwrap();
        while let Some(event) = self.endpoint.next_event() {
            #[allow(unreachable_patterns, reason = "inside of the crate there are no others")]
            match event {
                Event::Connected(handle) => {
                    self.connected.push(handle);
                    if let Some(reply) = &self.reply {
                        self.exchanges.insert(handle, Exchange::server(reply.clone()));
                    }
                    self.drive(handle);
                }
                Event::Activity(handle) => self.drive(handle),
                Event::Closed(handle, reason) => {
                    self.drive(handle);
                    let before = self.closed.insert(handle, reason);
                    assert_eq!(before, None, "closed twice");
                }
                other => panic!("an event that the tests do not know: {other:?}"),
            }
        }
    }

    fn drive(&mut self, handle: Handle) {
        if let (Some(exchange), Some(connection)) =
            (self.exchanges.get_mut(&handle), self.endpoint.connection_mut(handle))
        {
            exchange.drive(connection);
        }
    }

    pub fn is_done(&self, handle: Handle) -> bool {
        self.exchanges[&handle].is_done()
    }

    pub fn close(&mut self, handle: Handle) {
        self.endpoint.connection_mut(handle).unwrap().close(true, 0, b"done").unwrap();
    }

    /// The only connection there is.
    pub fn only(&self) -> Handle {
        assert_eq!(self.exchanges.len(), 1);
        *self.exchanges.keys().next().unwrap()
    }
}

const STEP: Duration = Duration::from_millis(1);

/// Gives both sides turns until `done` says so; panics when it takes too long.
pub fn run_until(
    server: &mut App,
    client: &mut App,
    mut done: impl FnMut(&mut App, &mut App) -> bool,
) {
    run_with(server, client, || (), |server, client| done(server, client));
}

/// As `run_until`, with something to do between the turns.
pub fn run_with(
    server: &mut App,
    client: &mut App,
    mut between: impl FnMut(),
    mut done: impl FnMut(&mut App, &mut App) -> bool,
) {
    let start = Instant::now();
    while !done(server, client) {
        assert!(start.elapsed() < PATIENCE, "the test hangs");
        client.turn(STEP);
        between();
        server.turn(STEP);
        between();
    }
}

/// Gives one side turns, the other of which runs on a thread of its own, until `done` says so.
pub fn run_alone(app: &mut App, mut done: impl FnMut(&App) -> bool) {
    let start = Instant::now();
    while !done(app) {
        assert!(start.elapsed() < PATIENCE, "the test hangs");
        app.turn(Duration::from_millis(10));
    }
}

/// Sits between a client and a server, and may change what passes.
pub struct Relay {
    front: UdpSocket,
    /// The last one sends; the others still receive.
    back: Vec<UdpSocket>,
    server: SocketAddr,
    client: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

fn nonblocking() -> UdpSocket {
    nonblocking_at(LOCALHOST.0)
}

fn nonblocking_at(host: [u8; 4]) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::from((host, 0))).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

impl Relay {
    pub fn new(server: SocketAddr) -> Self {
        Self { front: nonblocking(), back: vec![nonblocking()], server, client: None }
    }

    pub fn address(&self) -> SocketAddr {
        self.front.local_addr().unwrap()
    }

    /// The server sees the client at another port from now on, as behind a NAT that chose anew.
    pub fn rebind(&mut self) {
        self.back.push(nonblocking());
    }

    /// The server sees the client at the address of this socket from now on.
    pub fn rebind_to(&mut self, socket: UdpSocket) {
        socket.set_nonblocking(true).unwrap();
        self.back.push(socket);
    }

    /// The server sees the client at another address from now on, and what it sends to those
    /// before is lost.
    pub fn move_to(&mut self, host: [u8; 4]) {
        self.back = vec![nonblocking_at(host)];
    }

    /// Waits for a datagram in one direction and loses it, with all that come before it.
    pub fn lose_one(&mut self, wanted: Direction) {
        let start = Instant::now();
        let mut is_lost = false;
        while !is_lost {
            assert!(start.elapsed() < PATIENCE, "the test hangs");
            self.turn(|direction, _, _| {
                is_lost |= direction == wanted;
                false
            });
        }
    }

    /// Passes on what has arrived, if `pass` says so. What it adds to the list goes to the same
    /// destination behind the datagram.
    pub fn turn(&mut self, mut pass: impl FnMut(Direction, &[u8], &mut Vec<Vec<u8>>) -> bool) {
        let mut buffer = [0; 65_536];
        let mut more = Vec::new();
        loop {
            let to_server = self.front.recv_from(&mut buffer).ok();
            let (len, direction) = if let Some((len, from)) = to_server {
                self.client = Some(from);
                (len, Direction::ToServer)
            } else {
                let mut sockets = self.back.iter();
                let Some(len) = sockets.find_map(|back| back.recv(&mut buffer).ok()) else {
                    return;
                };
                (len, Direction::ToClient)
            };
            let (socket, to) = match direction {
                Direction::ToServer => (&self.back[self.back.len() - 1], self.server),
                Direction::ToClient => (&self.front, self.client.unwrap()),
            };
            if pass(direction, &buffer[..len], &mut more) {
                // A full buffer loses it, as a network would.
                let _ = socket.send_to(&buffer[..len], to);
            }
            for datagram in more.drain(..) {
                let _ = socket.send_to(&datagram, to);
            }
        }
    }
}
