//! Both ends' configuration, and what an end has measured.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;
use tack_endpoint::{Endpoint, EndpointConfig};
use tack_perf::{
    ALPN, EndReport, ProfileName, Rtt, TransportOptions, locked_version, process_cpu_time,
};
use tacklib::{Config, Connection, Profile};

/// Nothing received for so long ends a connection, milliseconds.
const IDLE_TIMEOUT_MS: u64 = 30_000;

/// Streams that a client may have open.
const STREAMS: u64 = 100;

/// The largest UDP payload that there is, bytes.
const MAX_UDP_PAYLOAD: u16 = 65_527;

/// The configuration of a client.
pub fn client_config(options: &TransportOptions) -> Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.verify_peer(false);
    configure(&mut config, options)?;
    Ok(config)
}

/// The configuration of a server, with a certificate of its own.
pub fn server_config(options: &TransportOptions) -> Result<Config> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    context.set_certificate(&*X509::from_der(made.cert.der())?)?;
    context
        .set_private_key(&*PKey::private_key_from_der(&made.signing_key.serialize_der())?)?;
    let mut config = Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context)?;
    configure(&mut config, options)?;
    Ok(config)
}

fn configure(config: &mut Config, options: &TransportOptions) -> Result<()> {
    let stream_window = options.stream_window().into();
    let connection_window = options.connection_window().into();
    config.set_profile(profile(options));
    config.set_application_protos(&[ALPN])?;
    config.set_max_idle_timeout(IDLE_TIMEOUT_MS);
    let largest = if options.discover_path_mtu { MAX_UDP_PAYLOAD } else { options.udp_payload };
    config.set_max_recv_udp_payload_size(largest.into());
    config.set_max_send_udp_payload_size(options.udp_payload.into());
    config.set_initial_max_data(connection_window);
    config.set_max_connection_window(connection_window);
    config.set_initial_max_stream_data_bidi_local(stream_window);
    config.set_initial_max_stream_data_bidi_remote(stream_window);
    config.set_max_stream_window(stream_window);
    config.set_initial_max_streams_bidi(STREAMS);
    Ok(())
}

/// The settings of the socket.
pub fn endpoint_config(options: &TransportOptions) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.discover_path_mtu = options.discover_path_mtu;
    config.gso = !options.no_gso;
    config.arrival_times = !options.no_arrival_times;
    config.socket_buffer = options.socket_buffer();
    config
}

fn name(options: &TransportOptions) -> ProfileName {
    options.profile.unwrap_or(ProfileName::Default)
}

fn profile(options: &TransportOptions) -> Profile {
    match name(options) {
        ProfileName::Default => Profile::Default,
        ProfileName::Video => Profile::Video,
        ProfileName::Quick => Profile::Quick,
        ProfileName::Off => Profile::Off,
    }
}

/// What was counted before a connection's work.
pub struct Baseline {
    cpu: Duration,
    datagrams: u64,
}

impl Baseline {
    pub fn take(endpoint: &Endpoint) -> Self {
        Self { cpu: process_cpu_time(), datagrams: endpoint.stats().datagrams_out }
    }

    /// What this end has measured since.
    pub fn report(
        &self,
        datagrams: u64,
        connection: &Connection,
        options: &TransportOptions,
        payload_received: u64,
    ) -> EndReport {
        let cpu = process_cpu_time().saturating_sub(self.cpu);
        let layer = connection.tack_stats();
        let is_tack = connection.is_tack();
        let path = connection.path_stats().next();
        let is_plain = name(options) == ProfileName::Off;
        EndReport {
            library: if is_plain { "quiche" } else { "tacklib" }.to_owned(),
            versions: versions(),
            profile: Some(name(options).name().to_owned()),
            tack: Some(is_tack),
            cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
            cpu_ns_per_byte: 0.0,
            payload_received,
            packets_sent: Some(datagrams - self.datagrams),
            ack_packets_sent: is_tack.then_some(layer.tacks_sent + layer.iacks_sent),
            packets_lost: Some(if is_plain {
                connection.stats().lost as u64
            } else {
                layer.lost_packets
            }),
            rtt: Rtt::new(
                path.as_ref().and_then(|path| path.min_rtt),
                path.as_ref().map(|path| path.rtt),
            ),
        }
    }
}

fn versions() -> BTreeMap<String, String> {
    let quiche = locked_version(include_str!("../../../../../Cargo.lock"), "quiche");
    [("tacklib", Some(env!("CARGO_PKG_VERSION"))), ("quiche", quiche)]
        .into_iter()
        .filter_map(|(name, version)| Some((name.to_owned(), version?.to_owned())))
        .collect()
}
