//! What the tests share: certificates, configurations, and pairs of connections.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod network;

use std::net::SocketAddr;
use std::time::Duration;

use tack_tokio::{Connection, Endpoint, EndpointConfig};
use tacklib::quiche;
// The build script has the linker take its randomness, in every test.
use tack_virtual as _;

pub const ALPN: &[u8] = b"tack-tokio-test";

/// How long a test on real sockets may take before it counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn localhost() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Flow-control windows of the tests, bytes.
pub const STREAM_WINDOW: u64 = 256 << 10;
pub const CONNECTION_WINDOW: u64 = 1 << 20;

/// Streams of each kind that the peer may open.
pub const STREAMS: u64 = 20;

pub fn client_config() -> tacklib::Config {
    let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.set_application_protos(&[ALPN]).unwrap();
    config.verify_peer(false);
    config.set_max_idle_timeout(20_000);
    config.set_max_recv_udp_payload_size(1452);
    config.set_max_send_udp_payload_size(1452);
    config.set_initial_max_data(CONNECTION_WINDOW);
    config.set_initial_max_stream_data_bidi_local(STREAM_WINDOW);
    config.set_initial_max_stream_data_bidi_remote(STREAM_WINDOW);
    config.set_initial_max_stream_data_uni(STREAM_WINDOW);
    config.set_max_stream_window(STREAM_WINDOW);
    config.set_max_connection_window(CONNECTION_WINDOW);
    config.set_initial_max_streams_bidi(STREAMS);
    config.set_initial_max_streams_uni(STREAMS);
    config.enable_dgram(true, 64, 64);
    config
}

pub fn server_config() -> tacklib::Config {
    server_config_with(&certificate())
}

/// A certificate that has signed itself, with its key.
pub type Certificate = rcgen::CertifiedKey<rcgen::KeyPair>;

pub fn certificate() -> Certificate {
    rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap()
}

pub fn server_config_with(made: &Certificate) -> tacklib::Config {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, contents: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut config = client_config();
    config.load_cert_chain_from_pem_file(&write("cert.pem", made.cert.pem())).unwrap();
    config
        .load_priv_key_from_pem_file(&write("key.pem", made.signing_key.serialize_pem()))
        .unwrap();
    config
}

/// A client and a server with one connection between them.
pub struct Pair {
    pub client_endpoint: Endpoint,
    pub server_endpoint: Endpoint,
    pub client: Connection,
    pub server: Connection,
}

impl Pair {
    pub async fn new() -> Self {
        Self::with(client_config(), server_config()).await
    }

    pub async fn with(client: tacklib::Config, server: tacklib::Config) -> Self {
        let endpoint = EndpointConfig::default();
        let server = Endpoint::server(localhost(), server, endpoint.clone()).unwrap();
        let client_endpoint = Endpoint::client(localhost(), endpoint).unwrap();
        Self::connect(client_endpoint, server, client).await
    }

    pub async fn connect(
        client_endpoint: Endpoint,
        server_endpoint: Endpoint,
        mut config: tacklib::Config,
    ) -> Self {
        let to = server_endpoint.local_addr();
        let connecting = client_endpoint.connect(to, Some("localhost"), &mut config).unwrap();
        let (client, server) = tokio::join!(connecting, server_endpoint.accept());
        let (client, server) = (client.unwrap(), server.unwrap());
        Self { client_endpoint, server_endpoint, client, server }
    }
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

    /// A number from 0 to `bound - 1`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Fails a test that hangs on real sockets.
pub async fn patiently<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, test).await.expect("the test hangs")
}
