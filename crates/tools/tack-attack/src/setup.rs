//! How an end and a link are set up.

use std::time::Duration;

use boring::ssl::{SslContextBuilder, SslMethod};
use quiche::ConnectionId;
use tack_link::pipe::PipeConfig;
use tacklib::Profile;

use crate::endpoint::Stack;
use crate::identity::Identity;
use crate::keys::Secrets;
use crate::puppet::Puppet;
use crate::{Side, client_address, server_address};

/// Application protocol of all connections.
const ALPN: &[u8] = b"tack-attack";

/// The largest UDP payload that an end accepts.
const LARGEST_DATAGRAM: usize = 1500;

/// Length of each connection id in bytes.
pub const CID_LEN: usize = 16;

/// What runs at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// tacklib, with a profile.
    Tack(Profile),
    /// quiche without the layer.
    Plain,
    /// tacklib until a test takes over after the handshake.
    Puppet(Profile),
}

/// An end's settings.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The stack.
    pub kind: Kind,
    /// UDP payload of a full packet in bytes.
    pub payload: usize,
    /// Flow-control windows of streams and connection in bytes.
    pub window: u64,
    /// Idle timeout.
    pub idle: Duration,
    /// Certificates that a server sends.
    pub certificates: usize,
    /// Further settings of quiche's.
    pub configure: Option<fn(&mut quiche::Config)>,
}

impl Setup {
    /// An end with settings that bound nothing but an attacker.
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            payload: 1350,
            window: 64 << 20,
            idle: Duration::from_secs(30),
            certificates: 1,
            configure: None,
        }
    }

    /// tacklib with its defaults.
    pub const fn tack() -> Self {
        Self::new(Kind::Tack(Profile::Default))
    }

    /// quiche with its defaults.
    pub const fn plain() -> Self {
        Self::new(Kind::Plain)
    }

    /// A puppet that speaks TACK.
    pub const fn puppet() -> Self {
        Self::new(Kind::Puppet(Profile::Default))
    }

    /// The connection of one side.
    pub(crate) fn build(&self, side: Side, scid: &[u8], secrets: &Secrets) -> Stack {
        let scid = ConnectionId::from_ref(scid);
        let (client, server) = (client_address(0), server_address());
        let config = self.config(side);
        let profile = match self.kind {
            Kind::Plain => {
                let mut config = config;
                let mut connection = match side {
                    Side::Client => {
                        quiche::connect(Some("localhost"), &scid, client, server, &mut config)
                    }
                    Side::Server => quiche::accept(&scid, None, server, client, &mut config),
                }
                .unwrap();
                connection.set_keylog(Box::new(secrets.clone()));
                return Stack::Plain(Box::new(connection));
            }
            Kind::Tack(profile) | Kind::Puppet(profile) => profile,
        };
        let mut config = tacklib::Config::from_quiche(config);
        config.set_profile(profile);
        let mut connection = match side {
            Side::Client => {
                tacklib::connect(Some("localhost"), &scid, client, server, &mut config)
            }
            Side::Server => tacklib::accept(&scid, None, server, client, &mut config),
        }
        .unwrap();
        connection.set_keylog(Box::new(secrets.clone()));
        if matches!(self.kind, Kind::Puppet(_)) {
            Stack::Puppet(Box::new(Puppet::new(connection, side, secrets.clone())))
        } else {
            Stack::Tack(Box::new(connection))
        }
    }

    /// quiche's configuration of one side.
    pub fn config(&self, side: Side) -> quiche::Config {
        let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
        if side == Side::Server {
            let identity = Identity::get();
            tls.set_certificate(&identity.certificate).unwrap();
            tls.set_private_key(&identity.key).unwrap();
            for _ in 1..self.certificates {
                tls.add_extra_chain_cert(identity.certificate.clone()).unwrap();
            }
        }
        let mut config =
            quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls).unwrap();
        config.verify_peer(false);
        config.set_application_protos(&[ALPN]).unwrap();
        config.log_keys();
        config.set_max_idle_timeout(self.idle.as_millis() as u64);
        config.set_max_send_udp_payload_size(self.payload);
        config.set_max_recv_udp_payload_size(LARGEST_DATAGRAM);
        config.set_initial_max_data(self.window);
        config.set_initial_max_stream_data_bidi_local(self.window);
        config.set_initial_max_stream_data_bidi_remote(self.window);
        config.set_initial_max_stream_data_uni(self.window);
        config.set_max_connection_window(self.window);
        config.set_max_stream_window(self.window);
        config.set_initial_max_streams_bidi(100);
        config.set_initial_max_streams_uni(100);
        if let Some(configure) = self.configure {
            configure(&mut config);
        }
        config
    }
}

/// One direction of a link: Mbit/s, one-way delay, and what its queue holds in bytes.
pub fn pipe(mbps: f64, delay: Duration, queue_bytes: u64) -> PipeConfig {
    PipeConfig::new((mbps * 1e6) as u64, delay, queue_bytes)
}
