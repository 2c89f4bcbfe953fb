//! Two connections in one process and the link between them, in virtual time.

#![allow(dead_code)] // each test file uses its part
#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

use std::cell::Cell;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use quiche::{ConnectionId, RecvInfo};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_link::Time;
use tack_link::pipe::Schedule;
use tack_virtual::Virtual;
use tacklib::{Config, Connection, EcnCodepoint, Profile};

#[path = "../../fuzz/checks/identity.rs"]
mod identity;
#[path = "../../fuzz/checks/log.rs"]
pub mod log;
mod way;

use identity::identity;
use way::Way;
pub use way::{Marker, Tamper};

pub const ALPN: &[u8] = b"test";

/// Steps of a [`Pair`] after which time has to pass.
const BUSY_STEPS: u32 = 10_000;

thread_local! {
    /// Each test has a thread, and so a clock of its own that begins at the same moment.
    static TIME: (Virtual, Cell<Duration>) = (Virtual::enter(1), Cell::default());
}

/// Lets the test's thread enter virtual time; every configuration does.
pub fn enter_virtual_time() {
    advance(Duration::ZERO);
}

/// Lets time pass.
pub fn advance(by: Duration) {
    TIME.with(|(clock, since_start)| {
        since_start.set(since_start.get() + by);
        clock.set(since_start.get());
    });
}

/// Lets time pass until `at`, if that is still to come.
pub fn advance_to(at: Instant) {
    advance(at.saturating_duration_since(Instant::now()));
}

/// The moment as links know it.
fn link_time() -> Time {
    Time::from(TIME.with(|(_, since_start)| since_start.get()))
}

/// A moment that links know: what is past is now.
fn instant(at: Time) -> Instant {
    Instant::now() + at.since(link_time())
}

/// What both kinds of connection can do.
pub trait End {
    fn receive(&mut self, datagram: &mut [u8], info: RecvInfo) {
        self.receive_with_ecn(datagram, info, EcnCodepoint::NotEct);
    }
    fn receive_with_ecn(&mut self, datagram: &mut [u8], info: RecvInfo, ecn: EcnCodepoint);
    /// Writes a datagram: its length and where it goes.
    fn transmit(&mut self, out: &mut [u8]) -> Option<(usize, SocketAddr)>;
    /// The codepoint of the datagram that was written last.
    fn ecn(&self) -> EcnCodepoint;
    fn deadline(&self) -> Option<Instant>;
    fn expire(&mut self);
    fn write(&mut self, stream_id: u64, data: &[u8], fin: bool) -> usize;
    fn read(&mut self, stream_id: u64, out: &mut [u8]) -> quiche::Result<(usize, bool)>;
    fn quic(&self) -> &quiche::Connection;
}

macro_rules! end {
    ($name:ty, $quic:expr, $recv:expr, $ecn:expr) => {
        impl End for $name {
            fn receive_with_ecn(
                &mut self,
                datagram: &mut [u8],
                info: RecvInfo,
                ecn: EcnCodepoint,
            ) {
                // What it refuses shows in its state.
                let _ = $recv(self, datagram, info, ecn);
            }

            fn ecn(&self) -> EcnCodepoint {
                $ecn(self)
            }

            fn transmit(&mut self, out: &mut [u8]) -> Option<(usize, SocketAddr)> {
                match self.send(out) {
                    Ok((len, info)) => Some((len, info.to)),
                    Err(quiche::Error::Done) => None,
                    Err(error) => panic!("send: {error:?}"),
                }
            }

            fn deadline(&self) -> Option<Instant> {
                self.timeout_instant()
            }

            fn expire(&mut self) {
                self.on_timeout();
            }

            fn write(&mut self, stream_id: u64, data: &[u8], fin: bool) -> usize {
                match self.stream_send(stream_id, data, fin) {
                    Ok(written) => written,
                    Err(quiche::Error::Done) => 0,
                    Err(error) => panic!("stream_send: {error:?}"),
                }
            }

            fn read(
                &mut self,
                stream_id: u64,
                out: &mut [u8],
            ) -> quiche::Result<(usize, bool)> {
                self.stream_recv(stream_id, out)
            }

            fn quic(&self) -> &quiche::Connection {
                let quic: fn(&$name) -> &quiche::Connection = $quic;
                quic(self)
            }
        }
    };
}
end!(Connection, |c| c, Connection::recv_with_ecn, Connection::send_ecn);
end!(
    quiche::Connection,
    |c| c,
    |c: &mut quiche::Connection, datagram, info, _| c.recv(datagram, info),
    |_| EcnCodepoint::NotEct
);

pub fn client_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 4001))
}

pub fn server_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 4002))
}

/// A self-signed certificate and its key, as PEM files.
pub fn certificate() -> &'static (PathBuf, PathBuf) {
    static FILES: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    FILES.get_or_init(|| {
        let (certificate, key) = identity();
        let dir = std::env::temp_dir().join(format!("tacklib-test-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (cert, key_file) = (dir.join("cert.pem"), dir.join("key.pem"));
        std::fs::write(&cert, certificate.to_pem().unwrap()).unwrap();
        std::fs::write(&key_file, key.private_key_to_pem_pkcs8().unwrap()).unwrap();
        (cert, key_file)
    })
}

/// What the tests' configurations share.
pub fn configure(config: &mut quiche::Config) {
    let (cert, key) = certificate();
    enter_virtual_time();
    config.load_cert_chain_from_pem_file(cert.to_str().unwrap()).unwrap();
    config.load_priv_key_from_pem_file(key.to_str().unwrap()).unwrap();
    config.verify_peer(false);
    config.set_application_protos(&[ALPN]).unwrap();
    config.set_max_idle_timeout(10_000);
    config.set_initial_max_data(8_000_000);
    config.set_initial_max_stream_data_bidi_local(4_000_000);
    config.set_initial_max_stream_data_bidi_remote(4_000_000);
    config.set_initial_max_stream_data_uni(4_000_000);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(100);
}

pub fn tack_config() -> Config {
    let mut config = Config::new(quiche::PROTOCOL_VERSION).unwrap();
    configure(&mut config);
    config
}

pub fn profile_config(profile: Profile) -> Config {
    let mut config = tack_config();
    config.set_profile(profile);
    config
}

pub fn stock_config() -> quiche::Config {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    configure(&mut config);
    config
}

pub fn tack_client(config: &mut Config) -> Connection {
    let scid = ConnectionId::from_ref(&[0xc1; 16]);
    tacklib::connect(Some("localhost"), &scid, client_address(), server_address(), config)
        .unwrap()
}

pub fn tack_server(config: &mut Config) -> Connection {
    let scid = ConnectionId::from_ref(&[0x5e; 16]);
    tacklib::accept(&scid, None, server_address(), client_address(), config).unwrap()
}

pub fn stock_client(config: &mut quiche::Config) -> quiche::Connection {
    let scid = ConnectionId::from_ref(&[0xc1; 16]);
    quiche::connect(Some("localhost"), &scid, client_address(), server_address(), config)
        .unwrap()
}

pub fn stock_server(config: &mut quiche::Config) -> quiche::Connection {
    let scid = ConnectionId::from_ref(&[0x5e; 16]);
    quiche::accept(&scid, None, server_address(), client_address(), config).unwrap()
}

/// A client, a server, and the link between them.
pub struct Pair<C: End, S: End> {
    pub client: C,
    pub server: S,
    up: Way,
    down: Way,
}

impl<C: End, S: End> Pair<C, S> {
    pub fn new(client: C, server: S) -> Self {
        Self {
            client,
            server,
            up: Way::new(client_address(), server_address()),
            down: Way::new(server_address(), client_address()),
        }
    }

    pub fn with_delay(mut self, one_way: Duration) -> Self {
        for way in [&mut self.up, &mut self.down] {
            way.configure(|pipe| pipe.delay = Schedule::constant(one_way));
        }
        self
    }

    /// Has IPv4 and UDP headers take their share of the rate.
    pub fn with_headers(mut self) -> Self {
        self.up.headers = 28;
        self.down.headers = 28;
        self
    }

    pub fn with_rate(mut self, megabits: u64) -> Self {
        for way in [&mut self.up, &mut self.down] {
            way.configure(|pipe| {
                pipe.rate_bps = Some(Schedule::constant(megabits * 1_000_000));
            });
        }
        self
    }

    /// Has what the client sends leave at so many kilobits a second.
    pub fn with_uplink(mut self, kilobits: u64) -> Self {
        self.up.configure(|pipe| pipe.rate_bps = Some(Schedule::constant(kilobits * 1000)));
        self
    }

    /// Drop-tail buffers in front of the rate.
    pub fn with_buffer(mut self, bytes: u64) -> Self {
        for way in [&mut self.up, &mut self.down] {
            way.configure(|pipe| pipe.buffer_bytes = bytes);
        }
        self
    }

    /// Datagrams that the buffers dropped on the way up and down.
    pub fn dropped(&self) -> (u64, u64) {
        (self.up.dropped(), self.down.dropped())
    }

    pub fn tamper_up(&mut self, tamper: Tamper) {
        self.up.tamper = Some(tamper);
    }

    pub fn tamper_down(&mut self, tamper: Tamper) {
        self.down.tamper = Some(tamper);
    }

    /// What the path does to the codepoints of what the client sends.
    pub fn mark_up(&mut self, marker: Marker) {
        self.up.marker = Some(marker);
    }

    /// The server sees the client at another address from now on, as behind a NAT that forgot it.
    /// What it sends to the old one arrives too.
    pub fn rebind(&mut self, client: SocketAddr) {
        self.up.rebind(client);
    }

    /// Holds what goes to the server back, so that it arrives at once when it is let go.
    pub fn hold_up(&mut self, is_held: bool) {
        self.up.is_held = is_held;
    }

    /// Bytes that the server got from an address of the client's, and that it sent there.
    pub fn bytes(&self, client: SocketAddr) -> (usize, usize) {
        let of = |counts: &HashMap<_, _>| counts.get(&client).copied().unwrap_or_default();
        (of(&self.up.come_from), of(&self.down.sent_to))
    }

    /// Datagrams sent by the client and by the server.
    pub fn packets(&self) -> (usize, usize) {
        (self.up.packets, self.down.packets)
    }

    /// Carries what is ready; false if nothing was.
    pub fn step(&mut self) -> bool {
        let mut any = false;
        for end in [&mut self.client as &mut dyn End, &mut self.server] {
            if end.deadline().is_some_and(|at| at <= Instant::now()) {
                end.expire();
            }
        }
        any |= self.up.carry(&mut self.client);
        any |= self.down.carry(&mut self.server);
        any |= self.up.deliver(&mut self.server);
        any |= self.down.deliver(&mut self.client);
        any
    }

    /// Carries what the server has to say; the client says nothing meanwhile.
    pub fn step_down(&mut self) {
        self.down.carry(&mut self.server);
        self.down.deliver(&mut self.client);
    }

    /// Runs until `done`, or panics after half a minute.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let give_up = Instant::now() + Duration::from_secs(30);
        let (mut now, mut busy_steps) = (Instant::now(), 0);
        while !done(self) {
            busy_steps = if Instant::now() > now { 0 } else { busy_steps + 1 };
            now = Instant::now();
            assert!(
                now < give_up && busy_steps < BUSY_STEPS,
                "stalled at {now:?}: {:?} client {:?} {:?}, server {:?} {:?}",
                self.deadlines(),
                self.client.quic().local_error(),
                self.client.quic().stats(),
                self.server.quic().local_error(),
                self.server.quic().stats()
            );
            if !self.step() {
                self.wait();
            }
        }
    }

    pub fn handshake(&mut self) {
        self.run_until(|pair| {
            pair.client.quic().is_established() && pair.server.quic().is_established()
        });
        // Let what follows the handshake settle.
        for _ in 0..20 {
            self.step();
        }
    }

    /// Runs for a while.
    pub fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        self.run_until(|_| Instant::now() >= end);
    }

    /// Timers of the client and the server, and arrivals at the server and the client.
    fn deadlines(&self) -> [Option<Instant>; 4] {
        [
            self.client.deadline(),
            self.server.deadline(),
            self.up.next_arrival(),
            self.down.next_arrival(),
        ]
    }

    pub fn wait(&self) {
        let longest = Instant::now() + Duration::from_millis(5);
        let next = self.deadlines().into_iter().flatten().min();
        advance_to(next.unwrap_or(longest).min(longest));
    }
}

/// Loses those packets, counted from 1.
pub fn losing(is_lost: impl Fn(u64) -> bool + 'static) -> Tamper {
    let mut packets = 0;
    Box::new(move |datagram| {
        packets += 1;
        (!is_lost(packets)).then_some(datagram)
    })
}

/// Drops `percent` of a hundred datagrams, at random.
pub fn lossy(percent: u32, seed: u64) -> Tamper {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    Box::new(move |datagram| (random.random_range(0..100) >= percent).then_some(datagram))
}

/// Bytes that tell where they belong.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

/// Sends `data` on a stream from the server and reads it at the client (or the
/// other way round), checking every byte.
pub fn transfer<C: End, S: End>(pair: &mut Pair<C, S>, stream_id: u64, len: usize, down: bool) {
    let data = pattern(len);
    let (mut sent, mut received, mut finished) = (0, Vec::new(), false);
    let mut buffer = vec![0; 65536];
    if down && stream_id.is_multiple_of(4) {
        // A bidirectional stream is opened by its initiator.
        pair.client.write(stream_id, b"", false);
        pair.client.write(stream_id, b"?", true);
        pair.run_until(|pair| pair.server.read(stream_id, &mut [0; 16]).is_ok());
    }
    pair.run_until(|pair| {
        let (from, to): (&mut dyn End, &mut dyn End) = if down {
            (&mut pair.server, &mut pair.client)
        } else {
            (&mut pair.client, &mut pair.server)
        };
        while sent < len {
            let written = from.write(stream_id, &data[sent..], true);
            sent += written;
            if written == 0 {
                break;
            }
        }
        while let Ok((read, fin)) = to.read(stream_id, &mut buffer) {
            received.extend_from_slice(&buffer[..read]);
            finished |= fin;
        }
        finished
    });
    assert!(received == data, "{} bytes received of {len}", received.len());
}
