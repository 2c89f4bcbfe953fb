//! Both ends' configuration, and what an end has measured.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use s2n_quic::connection::Handle;
use s2n_quic::provider::event::{Subscriber, events};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::{io, tls};
use s2n_quic::{Client, Server};
use tack_perf::{
    ALPN, ClientOptions, EndReport, Rtt, ServerOptions, TransportOptions, locked_version,
    process_cpu_time,
};

const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const STREAMS: u64 = 100;

/// Bytes of the headers of IPv4 and UDP, which the library counts in.
const HEADERS: u16 = 28;

pub fn server(options: &ServerOptions) -> Result<Server> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Server::builder()
        .with_tls(tls::rustls::Server::from(tls))?
        .with_io(io(options.listen, &options.transport)?)?
        .with_limits(limits(&options.transport)?)?
        .with_event(Counter)?
        .start()?)
}

pub fn client(server: SocketAddr, options: &ClientOptions) -> Result<Client> {
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
    Ok(Client::builder()
        .with_tls(tls::rustls::Client::from(tls))?
        .with_io(io(SocketAddr::new(local, 0), &options.transport)?)?
        .with_limits(limits(&options.transport)?)?
        .with_event(Counter)?
        .start()?)
}

fn io(address: SocketAddr, options: &TransportOptions) -> Result<io::Default> {
    let mtu = options.udp_payload + HEADERS;
    // The system may grant less than such buffers.
    let builder = io::Default::builder()
        .with_receive_address(address)?
        .with_send_buffer_size(options.socket_buffer())?
        .with_recv_buffer_size(options.socket_buffer())?
        .with_max_mtu(mtu)?
        .with_initial_mtu(mtu)?
        .with_gso(!options.no_gso)?;
    Ok(builder.build()?)
}

fn limits(options: &TransportOptions) -> Result<Limits> {
    let stream_window = options.stream_window();
    Ok(Limits::new()
        .with_data_window(options.connection_window().into())?
        .with_bidirectional_local_data_window(stream_window.into())?
        .with_bidirectional_remote_data_window(stream_window.into())?
        .with_max_send_buffer_size(stream_window)?
        .with_max_open_local_bidirectional_streams(STREAMS)?
        .with_max_open_remote_bidirectional_streams(STREAMS)?
        .with_max_idle_timeout(IDLE_TIMEOUT)?)
}

/// rustls prefers AES-256, BoringSSL AES-128: all ends use the latter.
fn provider() -> Arc<CryptoProvider> {
    let suites = vec![TLS13_AES_128_GCM_SHA256];
    CryptoProvider { cipher_suites: suites, ..rustls::crypto::aws_lc_rs::default_provider() }
        .into()
}

/// Counts what the library tells of a connection.
struct Counter;

/// What it has told.
#[derive(Clone, Copy, Default)]
struct Counts {
    packets: u64,
    acks: u64,
    lost: u64,
    rtt: Option<(Duration, Duration)>,
}

impl Subscriber for Counter {
    type ConnectionContext = Counts;

    fn create_connection_context(
        &mut self,
        _meta: &events::ConnectionMeta,
        _info: &events::ConnectionInfo<'_>,
    ) -> Counts {
        Counts::default()
    }

    fn on_packet_sent(
        &mut self,
        counts: &mut Counts,
        _meta: &events::ConnectionMeta,
        _event: &events::PacketSent,
    ) {
        counts.packets += 1;
    }

    fn on_frame_sent(
        &mut self,
        counts: &mut Counts,
        _meta: &events::ConnectionMeta,
        event: &events::FrameSent,
    ) {
        counts.acks += u64::from(matches!(event.frame, events::Frame::Ack { .. }));
    }

    fn on_packet_lost(
        &mut self,
        counts: &mut Counts,
        _meta: &events::ConnectionMeta,
        event: &events::PacketLost<'_>,
    ) {
        counts.lost += u64::from(!event.is_mtu_probe);
    }

    fn on_recovery_metrics(
        &mut self,
        counts: &mut Counts,
        _meta: &events::ConnectionMeta,
        event: &events::RecoveryMetrics<'_>,
    ) {
        counts.rtt = Some((event.min_rtt, event.smoothed_rtt));
    }
}

/// What was counted before a connection's work.
pub struct Baseline {
    cpu: Duration,
    counts: Counts,
}

impl Baseline {
    pub fn take(connection: &Handle) -> Result<Self> {
        Ok(Self { cpu: process_cpu_time(), counts: counts(connection)? })
    }

    /// What this end has measured since.
    pub fn report(&self, connection: &Handle, payload_received: u64) -> Result<EndReport> {
        let cpu = process_cpu_time().saturating_sub(self.cpu);
        let (now, before) = (counts(connection)?, self.counts);
        let (min, smoothed) = now.rtt.unzip();
        Ok(EndReport {
            library: "s2n-quic".to_owned(),
            versions: versions(),
            cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
            payload_received,
            packets_sent: Some(now.packets - before.packets),
            ack_packets_sent: Some(now.acks - before.acks),
            packets_lost: Some(now.lost - before.lost),
            rtt: Rtt::new(min, smoothed),
            ..EndReport::default()
        })
    }
}

fn counts(connection: &Handle) -> Result<Counts> {
    let counts = connection.query_event_context(|counts: &Counts| *counts);
    counts.ok().context("the connection is gone")
}

fn versions() -> BTreeMap<String, String> {
    let lock = include_str!("../Cargo.lock");
    ["s2n-quic", "rustls", "aws-lc-rs"]
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
