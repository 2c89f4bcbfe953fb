//! Both ends' configuration, and what an end has measured.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use socket2::{Domain, Protocol, Socket, Type};
use tack_perf::{
    ALPN, ClientOptions, EndReport, Rtt, ServerOptions, TransportOptions, locked_version,
    process_cpu_time,
};

const IDLE_TIMEOUT: VarInt = VarInt::from_u32(30_000); // ms
const STREAMS: VarInt = VarInt::from_u32(100);

pub fn server(options: &ServerOptions) -> Result<Endpoint> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(&options.transport));
    endpoint(options.listen, Some(config), &options.transport)
}

pub fn client(server: SocketAddr, options: &ClientOptions) -> Result<Endpoint> {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let local = match server {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let mut endpoint = endpoint(SocketAddr::new(local, 0), None, &options.transport)?;
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(&options.transport));
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

fn endpoint(
    address: SocketAddr,
    server: Option<ServerConfig>,
    options: &TransportOptions,
) -> Result<Endpoint> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // The system may grant less.
    socket.set_send_buffer_size(options.socket_buffer())?;
    socket.set_recv_buffer_size(options.socket_buffer())?;
    socket.bind(&address.into()).with_context(|| address.to_string())?;
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(options.udp_payload)?;
    Ok(Endpoint::new(config, server, socket.into(), Arc::new(TokioRuntime))?)
}

fn transport(options: &TransportOptions) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IDLE_TIMEOUT.into()))
        .max_concurrent_bidi_streams(STREAMS)
        .stream_receive_window(options.stream_window().into())
        .receive_window(options.connection_window().into())
        .send_window(options.stream_window().into())
        .initial_mtu(options.udp_payload)
        // The size is given: nothing is probed.
        .mtu_discovery_config(None)
        .enable_segmentation_offload(!options.no_gso);
    Arc::new(transport)
}

/// rustls prefers AES-256, BoringSSL AES-128: all ends use the latter.
fn provider() -> Arc<CryptoProvider> {
    let suites = vec![TLS13_AES_128_GCM_SHA256];
    CryptoProvider { cipher_suites: suites, ..rustls::crypto::ring::default_provider() }.into()
}

/// What was counted before a connection's work.
pub struct Baseline {
    cpu: Duration,
    datagrams: u64,
    acks: u64,
}

impl Baseline {
    pub fn take(connection: &Connection) -> Self {
        let stats = connection.stats();
        Self {
            cpu: process_cpu_time(),
            datagrams: stats.udp_tx.datagrams,
            acks: stats.frame_tx.acks,
        }
    }

    /// What this end has measured since.
    pub fn report(&self, connection: &Connection, payload_received: u64) -> EndReport {
        let cpu = process_cpu_time().saturating_sub(self.cpu);
        let stats = connection.stats();
        EndReport {
            library: "quinn".to_owned(),
            versions: versions(),
            cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
            payload_received,
            packets_sent: Some(stats.udp_tx.datagrams - self.datagrams),
            ack_packets_sent: Some(stats.frame_tx.acks - self.acks),
            packets_lost: Some(stats.path.lost_packets),
            rtt: Rtt::new(Some(stats.path.min_rtt), Some(stats.path.rtt)),
            ..EndReport::default()
        }
    }
}

fn versions() -> BTreeMap<String, String> {
    let lock = include_str!("../Cargo.lock");
    ["quinn", "quinn-proto", "rustls", "ring"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), locked_version(lock, name)?.to_owned())))
        .collect()
}

/// Accepts any certificate: trust is not measured.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
