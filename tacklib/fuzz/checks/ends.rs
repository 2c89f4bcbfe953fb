//! Two connections and a clock: the handshake in virtual time.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use boring::ssl::{SslContextBuilder, SslMethod};
use quiche::{ConnectionId, RecvInfo, SendInfo};
use tack_virtual::Virtual;
use tacklib::Profile;

use super::identity::identity;
pub use super::log::Log;

/// Length of the connection ids of both ends.
pub const CID_LEN: usize = 16;

/// Time that a flight of the handshake takes.
const ONE_WAY: Duration = Duration::from_millis(5);

/// Flights after which a handshake is over or has failed.
const FLIGHTS: usize = 30;

/// More datagrams than an end can have to send at once, with what the checks let it write.
const MOST_AT_ONCE: usize = 10_000;

pub fn client_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 4001))
}

pub fn server_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 1, 1), 4433))
}

/// Where neither end was before.
pub fn other_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 2, 66), 6666))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    pub fn address(self) -> SocketAddr {
        match self {
            Self::Client => client_address(),
            Self::Server => server_address(),
        }
    }

    /// The label that a key log gives to the 1-RTT secret of what it sends.
    pub const fn secret_label(self) -> &'static str {
        match self {
            Self::Client => "CLIENT_TRAFFIC_SECRET_0",
            Self::Server => "SERVER_TRAFFIC_SECRET_0",
        }
    }

    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server)
    }

    fn cid(self) -> ConnectionId<'static> {
        ConnectionId::from_ref(if self.is_server() {
            &[0x5e; CID_LEN]
        } else {
            &[0xc1; CID_LEN]
        })
    }
}

/// Virtual time of the thread.
pub struct Clock {
    time: Virtual,
    since_start: Duration,
}

impl Clock {
    pub fn start() -> Self {
        // Not to be made in virtual time, where the first connection would draw from its randomness.
        with_configs(Side::Client, |_| ());
        Self { time: Virtual::enter(1), since_start: Duration::ZERO }
    }

    pub fn advance(&mut self, by: Duration) {
        self.since_start += by;
        self.time.set(self.since_start);
    }

    pub fn advance_to(&mut self, at: Instant) {
        self.advance(at.saturating_duration_since(Instant::now()));
    }
}

/// What both kinds of connection can do.
pub trait End {
    fn receive(&mut self, datagram: &mut [u8], info: RecvInfo) -> quiche::Result<usize>;
    fn transmit(&mut self, out: &mut [u8]) -> quiche::Result<(usize, SendInfo)>;
    fn deadline(&self) -> Option<Instant>;
    fn expire(&mut self);
    fn write(&mut self, stream_id: u64, data: &[u8], fin: bool) -> quiche::Result<usize>;
    fn quic(&self) -> &quiche::Connection;
    fn quic_mut(&mut self) -> &mut quiche::Connection;
}

macro_rules! end {
    ($connection:ty) => {
        impl End for $connection {
            fn receive(
                &mut self,
                datagram: &mut [u8],
                info: RecvInfo,
            ) -> quiche::Result<usize> {
                self.recv(datagram, info)
            }

            fn transmit(&mut self, out: &mut [u8]) -> quiche::Result<(usize, SendInfo)> {
                self.send(out)
            }

            fn deadline(&self) -> Option<Instant> {
                self.timeout_instant()
            }

            fn expire(&mut self) {
                self.on_timeout();
            }

            fn write(
                &mut self,
                stream_id: u64,
                data: &[u8],
                fin: bool,
            ) -> quiche::Result<usize> {
                self.stream_send(stream_id, data, fin)
            }

            fn quic(&self) -> &quiche::Connection {
                self
            }

            fn quic_mut(&mut self) -> &mut quiche::Connection {
                self
            }
        }
    };
}
end!(tacklib::Connection);
end!(quiche::Connection);

/// The configurations of a side.
struct Configs {
    default: tacklib::Config,
    video: tacklib::Config,
    plain: quiche::Config,
}

impl Configs {
    fn new(side: Side) -> Self {
        let with_profile = |profile| {
            let mut config = tacklib::Config::from_quiche(config(side));
            config.set_profile(profile);
            // The layer captures its transport parameters with the first connection.
            drop(connect(side, &mut config));
            config
        };
        Self {
            default: with_profile(Profile::Default),
            video: with_profile(Profile::Video),
            plain: config(side),
        }
    }
}

thread_local! {
    /// Those of clients and of servers. To make them takes longer than a handshake.
    static CONFIGS: RefCell<[Configs; 2]> =
        RefCell::new([Configs::new(Side::Client), Configs::new(Side::Server)]);
}

fn with_configs<T>(side: Side, use_them: impl FnOnce(&mut Configs) -> T) -> T {
    CONFIGS.with_borrow_mut(|configs| use_them(&mut configs[usize::from(side.is_server())]))
}

fn connect(side: Side, config: &mut tacklib::Config) -> tacklib::Connection {
    let (client, server) = (client_address(), server_address());
    match side {
        Side::Client => tacklib::connect(None, &side.cid(), client, server, config),
        Side::Server => tacklib::accept(&side.cid(), None, server, client, config),
    }
    .unwrap()
}

/// A connection with tacklib, and TACK's values of the default profile or of `Video`.
pub fn tack_end(side: Side, is_video: bool, keys: &Log) -> tacklib::Connection {
    let mut connection = with_configs(side, |configs| {
        connect(side, if is_video { &mut configs.video } else { &mut configs.default })
    });
    connection.set_keylog(Box::new(keys.clone()));
    connection
}

/// A connection without.
pub fn plain_end(side: Side, keys: &Log) -> quiche::Connection {
    let (client, server) = (client_address(), server_address());
    let mut connection = with_configs(side, |Configs { plain, .. }| match side {
        Side::Client => quiche::connect(None, &side.cid(), client, server, plain),
        Side::Server => quiche::accept(&side.cid(), None, server, client, plain),
    })
    .unwrap();
    connection.set_keylog(Box::new(keys.clone()));
    connection
}

fn config(side: Side) -> quiche::Config {
    let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
    if side.is_server() {
        let (certificate, key) = identity();
        tls.set_certificate(certificate).unwrap();
        tls.set_private_key(key).unwrap();
    }
    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls).unwrap();
    config.verify_peer(false);
    config.set_application_protos(&[b"fuzz"]).unwrap();
    config.log_keys();
    // An end that goes silent would not tell why.
    config.set_max_idle_timeout(0);
    config.set_initial_max_data(64 << 20);
    config.set_initial_max_stream_data_bidi_local(16 << 20);
    config.set_initial_max_stream_data_bidi_remote(16 << 20);
    config.set_initial_max_stream_data_uni(16 << 20);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(100);
    config.set_active_connection_id_limit(4);
    config.enable_dgram(true, 100, 100);
    config
}

/// What an end has to send, which does not fail.
pub fn sent(end: &mut dyn End) -> Vec<(Vec<u8>, SendInfo)> {
    let (datagrams, reaches_dead_end) = sent_until_dead_end(end);
    assert!(!reaches_dead_end, "an end cannot send any more");
    datagrams
}

/// What an end has to send, and whether quiche (0.30) failed then because one of several paths has lost
/// its connection id to the peer, which retires ids as it likes: nothing leaves any more, not even
/// CONNECTION_CLOSE.
pub fn sent_until_dead_end(end: &mut dyn End) -> (Vec<(Vec<u8>, SendInfo)>, bool) {
    let mut out = [0; 1500];
    let mut datagrams = Vec::new();
    loop {
        match end.transmit(&mut out) {
            Ok((len, info)) => datagrams.push((out[..len].to_vec(), info)),
            Err(quiche::Error::Done) => return (datagrams, false),
            Err(_) if end.quic().local_error().is_some() => return (datagrams, false),
            Err(error) => {
                assert_eq!(error, quiche::Error::InvalidState, "send");
                assert!(end.quic().path_stats().count() > 1, "the only path has lost its id");
                return (datagrams, true);
            }
        }
        assert!(datagrams.len() < MOST_AT_ONCE, "it sends for ever");
    }
}

/// Tells an end of its expired timers.
pub fn expire(end: &mut dyn End) {
    if end.deadline().is_some_and(|at| at <= Instant::now()) {
        end.expire();
    }
}

/// Carries what two ends have to say, one flight after the other, until both are silent. Returns
/// the datagrams, with who sent them.
pub fn exchange(
    clock: &mut Clock,
    client: &mut dyn End,
    server: &mut dyn End,
) -> Vec<(Side, Vec<u8>)> {
    let mut seen = Vec::new();
    for _ in 0..FLIGHTS {
        expire(client);
        expire(server);
        let (up, down) = (sent(client), sent(server));
        let soon = Instant::now() + 20 * ONE_WAY;
        let is_due = |end: &dyn End| end.deadline().is_some_and(|at| at <= soon);
        if up.is_empty() && down.is_empty() && !is_due(client) && !is_due(server) {
            break;
        }
        clock.advance(ONE_WAY);
        deliver(server, Side::Client, up, &mut seen);
        deliver(client, Side::Server, down, &mut seen);
    }
    seen
}

fn deliver(
    end: &mut dyn End,
    sender: Side,
    datagrams: Vec<(Vec<u8>, SendInfo)>,
    seen: &mut Vec<(Side, Vec<u8>)>,
) {
    let info = RecvInfo { from: sender.address(), to: sender.peer().address() };
    for (datagram, _) in datagrams {
        // What it refuses shows in its state.
        let _ = end.receive(&mut datagram.clone(), info);
        seen.push((sender, datagram));
    }
}
