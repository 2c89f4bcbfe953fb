//! The settings in the environment, and the QUIC configuration that follows from them.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use boring::ssl::{SslContextBuilder, SslMethod};
use tack_endpoint::{Ecn, EndpointConfig, INITIAL_RTT};
use tacklib::{Config, LabSwitches, TackConfig};

use super::OwnError;
use crate::cases::Kind;
use crate::contract::{self, Method, Protocol, Role};

/// Some links lose a third of all packets each way.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(100);
const IDLE_TIMEOUT_MS: u64 = 60_000;
/// Fits every path that the runner has, except where the test case is about that.
const UDP_PAYLOAD: usize = 1350;
/// The largest payload that is tried where the path is probed: that of an Ethernet frame over IPv4.
const LARGEST_PROBE: usize = 1472;
/// Offered with a key share for the first, which servers refuse by default.
const REFUSED_GROUP_FIRST: &str = "P-521:X25519";
/// DATAGRAM frames that wait to be read, or to be sent.
const DATAGRAM_QUEUE: usize = 200;
/// Addresses of a client that a server can know: quiche keeps them all for as long as the
/// connection lasts, and takes nothing from one more.
const ADDRESSES: u64 = 8;
const WINDOW: u64 = 8 << 20;
/// HTTP/3 takes three each way; more would be the peer's own.
const UNIDIRECTIONAL_STREAMS: u64 = 8;

/// The settings in the environment, and what our end is told besides.
pub struct Settings {
    pub role: Role,
    pub test_case: String,
    pub protocol: Protocol,
    pub address: SocketAddr,
    pub files: PathBuf,
    pub received: PathBuf,
    /// The test case, if this is our end and not a peer.
    pub ours: Option<Kind>,
    tack: (TackConfig, LabSwitches),
}

impl Settings {
    pub fn from_environment(
        tack: (TackConfig, LabSwitches),
        ours: Option<Kind>,
    ) -> Result<Self, OwnError> {
        let role = match text(contract::ROLE)?.as_str() {
            "client" => Role::Client,
            "server" => Role::Server,
            _ => return Err(OwnError::Environment(contract::ROLE)),
        };
        let protocol = match env::var(contract::PROTOCOL) {
            Err(_) => Protocol::Hq,
            Ok(name) => {
                Protocol::by_name(&name).ok_or(OwnError::Environment(contract::PROTOCOL))?
            }
        };
        let address = text(contract::ADDRESS)?;
        Ok(Self {
            role,
            test_case: text(contract::TEST_CASE)?,
            protocol,
            address: address.parse().map_err(|_| OwnError::Environment(contract::ADDRESS))?,
            files: text(contract::FILES)?.into(),
            received: text(contract::RECEIVED)?.into(),
            ours,
            tack,
        })
    }

    /// What a client is asked to do.
    pub fn requests() -> Result<Vec<(Method, String)>, OwnError> {
        let requests = text(contract::REQUESTS)?;
        requests
            .split(',')
            .map(|request| {
                let (method, name) = contract::parse_request(request)
                    .ok_or(OwnError::Environment(contract::REQUESTS))?;
                Ok((method, name.to_owned()))
            })
            .collect()
    }

    /// Whether all requests but the first are for a second connection.
    pub fn resumes(&self) -> bool {
        matches!(self.test_case.as_str(), "resumption" | "zerortt" | "retry-resumption")
    }

    /// Whether that is the test case in the environment.
    pub fn is_test(&self, name: &str) -> bool {
        self.test_case == name
    }

    /// The application's error code where there is no error.
    pub const fn no_error(&self) -> u64 {
        match self.protocol {
            Protocol::Hq => 0,
            Protocol::H3 => 0x100, // H3_NO_ERROR, RFC 9114 section 8.1
        }
    }

    pub fn endpoint(&self) -> EndpointConfig {
        let mut config = EndpointConfig::default();
        config.retry = self.is_test("retry") || self.is_test("retry-resumption");
        config.key_log = env::var_os(contract::KEY_LOG).map(PathBuf::from);
        config.qlog = env::var_os(contract::QLOG).map(PathBuf::from);
        // A batch is acknowledged once, which would hide how often acknowledgements leave.
        config.gso = false;
        config.gro = false;
        config.handshake_timeout = HANDSHAKE_TIMEOUT;
        if self.ours == Some(Kind::Ecn) {
            config.ecn = Ecn::Classic;
        }
        config
    }

    pub fn quic(&self) -> Result<Config, OwnError> {
        let mut config = if self.role == Role::Client && self.is_test("helloretry") {
            let mut tls = SslContextBuilder::new(SslMethod::tls())?;
            tls.set_curves_list(REFUSED_GROUP_FIRST)?;
            Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?
        } else {
            Config::new(quiche::PROTOCOL_VERSION)?
        };
        config.set_tack(self.tack.0);
        config.set_lab(self.tack.1);
        config.set_application_protos(&[self.protocol.name().as_bytes()])?;
        config.verify_peer(false);
        config.log_keys();
        config.set_max_idle_timeout(IDLE_TIMEOUT_MS);
        config.set_initial_rtt(INITIAL_RTT);
        // A peer does not know whether our end probes the path. quiche probes no further than what
        // it takes itself.
        let is_probed = self.ours.is_none_or(|ours| ours == Kind::PathMtu);
        config.set_max_recv_udp_payload_size(if is_probed {
            LARGEST_PROBE
        } else {
            UDP_PAYLOAD
        });
        let probes = self.ours == Some(Kind::PathMtu);
        config.set_max_send_udp_payload_size(if probes { LARGEST_PROBE } else { UDP_PAYLOAD });
        config.discover_pmtu(probes);
        if self.is_test("datagrams") {
            config.enable_dgram(true, DATAGRAM_QUEUE, DATAGRAM_QUEUE);
        }
        config.set_initial_max_data(WINDOW);
        config.set_initial_max_stream_data_bidi_local(WINDOW);
        config.set_initial_max_stream_data_bidi_remote(WINDOW);
        config.set_active_connection_id_limit(ADDRESSES);
        config.set_initial_max_streams_bidi(100);
        if self.protocol == Protocol::H3 {
            config.set_initial_max_streams_uni(UNIDIRECTIONAL_STREAMS);
            config.set_initial_max_stream_data_uni(WINDOW);
        }
        if self.is_test("zerortt") {
            config.enable_early_data();
        }
        if self.role == Role::Server {
            config.load_cert_chain_from_pem_file(&text(contract::CERTIFICATE)?)?;
            config.load_priv_key_from_pem_file(&text(contract::KEY)?)?;
        }
        Ok(config)
    }
}

fn text(variable: &'static str) -> Result<String, OwnError> {
    env::var(variable).map_err(|_| OwnError::Environment(variable))
}
