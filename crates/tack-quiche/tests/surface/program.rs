// A program against quiche's interface: every function, method and type by its name, each with its whole
// signature. `surface.rs` has it compiled against quiche and against tack-quiche.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use boring::ssl::{SslContextBuilder, SslRef};
use self::quiche::{
    BbrBwLoReductionStrategy, BbrParams, BufFactory, BufSplit, Config, CongestionControlAlgorithm, Connection,
    ConnectionError, ConnectionId, Error, Header, PathEvent, PathStats, QlogLevel, RecvInfo, Result,
    RetryConnectionIds, SendInfo, Shutdown, SocketAddrIter, StartupExit, StartupExitReason, Stats, StreamIter,
    TransportParams, TxBufferTrackingState, Type, UnknownTransportParameter, UnknownTransportParameterIterator,
    UnknownTransportParameters, WireErrorCode, h3,
};

type Writer = Box<dyn Write + Send + Sync>;

macro_rules! signatures {
    ($me:ty { $($name:ident: $signature:ty,)* }) => { $(let _: $signature = <$me>::$name;)* };
}

macro_rules! same {
    ($($function:path: $signature:ty,)*) => { $(let _: $signature = $function;)* };
}

/// A program's own buffers.
#[derive(Clone, Debug, Default)]
pub struct Factory;

impl BufFactory for Factory {
    type Buf = bytes::Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(buf: &[u8]) -> Self::Buf {
        bytes::Bytes::copy_from_slice(buf)
    }

    fn dgram_buf_from_slice(buf: &[u8]) -> Vec<u8> {
        buf.to_vec()
    }
}

type Buffered = Connection<Factory>;

pub fn functions() {
    type Connect<C> =
        fn(Option<&str>, &ConnectionId<'_>, SocketAddr, SocketAddr, &mut Config) -> Result<C>;
    type ConnectTo<C> = fn(
        Option<&str>,
        &ConnectionId<'_>,
        &ConnectionId<'_>,
        SocketAddr,
        SocketAddr,
        &mut Config,
    ) -> Result<C>;
    type Accept<C> = fn(
        &ConnectionId<'_>,
        Option<&ConnectionId<'_>>,
        SocketAddr,
        SocketAddr,
        &mut Config,
    ) -> Result<C>;
    type AcceptRetried<C> = fn(
        &ConnectionId<'_>,
        RetryConnectionIds<'_>,
        SocketAddr,
        SocketAddr,
        &mut Config,
    ) -> Result<C>;
    type Retry = fn(
        &ConnectionId<'_>,
        &ConnectionId<'_>,
        &ConnectionId<'_>,
        &[u8],
        u32,
        &mut [u8],
    ) -> Result<usize>;
    same! {
        quiche::connect: Connect<Connection>,
        quiche::connect_with_buffer_factory::<Factory>: Connect<Buffered>,
        quiche::connect_with_dcid: ConnectTo<Connection>,
        quiche::connect_with_dcid_and_buffer_factory::<Factory>: ConnectTo<Buffered>,
        quiche::accept: Accept<Connection>,
        quiche::accept_with_buf_factory::<Factory>: Accept<Buffered>,
        quiche::accept_with_retry::<Factory>: AcceptRetried<Buffered>,
        quiche::negotiate_version:
            fn(&ConnectionId<'_>, &ConnectionId<'_>, &mut [u8]) -> Result<usize>,
        quiche::retry: Retry,
        quiche::version_is_supported: fn(u32) -> bool,
    }
    let _: u32 = quiche::PROTOCOL_VERSION;
    let _: [usize; 2] = [quiche::MAX_CONN_ID_LEN, quiche::MIN_CLIENT_INITIAL_LEN];
    let _: u64 = quiche::MAX_ACK_DELAY_EXPONENT;
}

#[allow(deprecated)]
pub fn configuration() {
    signatures!(Config {
        discover_pmtu: fn(&mut Config, bool),
        enable_dgram: fn(&mut Config, bool, usize, usize),
        enable_early_data: fn(&mut Config),
        enable_hystart: fn(&mut Config, bool),
        enable_pacing: fn(&mut Config, bool),
        enable_track_unknown_transport_parameters: fn(&mut Config, usize),
        grease: fn(&mut Config, bool),
        load_cert_chain_from_pem_file: fn(&mut Config, &str) -> Result<()>,
        load_priv_key_from_pem_file: fn(&mut Config, &str) -> Result<()>,
        load_verify_locations_from_directory: fn(&mut Config, &str) -> Result<()>,
        load_verify_locations_from_file: fn(&mut Config, &str) -> Result<()>,
        log_keys: fn(&mut Config),
        new: fn(u32) -> Result<Config>,
        set_ack_delay_exponent: fn(&mut Config, u64),
        set_active_connection_id_limit: fn(&mut Config, u64),
        set_application_protos: fn(&mut Config, &[&[u8]]) -> Result<()>,
        set_application_protos_wire_format: fn(&mut Config, &[u8]) -> Result<()>,
        set_cc_algorithm: fn(&mut Config, CongestionControlAlgorithm),
        set_cc_algorithm_name: fn(&mut Config, &str) -> Result<()>,
        set_curves_list: fn(&mut Config, &str) -> Result<()>,
        set_disable_active_migration: fn(&mut Config, bool),
        set_disable_dcid_reuse: fn(&mut Config, bool),
        set_enable_cubic_idle_restart_fix: fn(&mut Config, bool),
        set_enable_relaxed_loss_threshold: fn(&mut Config, bool),
        set_enable_send_streams_blocked: fn(&mut Config, bool),
        set_initial_congestion_window_packets: fn(&mut Config, usize),
        set_initial_max_data: fn(&mut Config, u64),
        set_initial_max_stream_data_bidi_local: fn(&mut Config, u64),
        set_initial_max_stream_data_bidi_remote: fn(&mut Config, u64),
        set_initial_max_stream_data_uni: fn(&mut Config, u64),
        set_initial_max_streams_bidi: fn(&mut Config, u64),
        set_initial_max_streams_uni: fn(&mut Config, u64),
        set_initial_rtt: fn(&mut Config, Duration),
        set_max_ack_delay: fn(&mut Config, u64),
        set_max_amplification_factor: fn(&mut Config, usize),
        set_max_connection_window: fn(&mut Config, u64),
        set_max_idle_timeout: fn(&mut Config, u64),
        set_max_pacing_rate: fn(&mut Config, u64),
        set_max_recv_udp_payload_size: fn(&mut Config, usize),
        set_max_send_udp_payload_size: fn(&mut Config, usize),
        set_max_stream_window: fn(&mut Config, u64),
        set_path_challenge_recv_max_queue_len: fn(&mut Config, usize),
        set_pmtud_max_probes: fn(&mut Config, u8),
        set_send_capacity_factor: fn(&mut Config, f64),
        set_stateless_reset_token: fn(&mut Config, Option<u128>),
        set_ticket_key: fn(&mut Config, &[u8]) -> Result<()>,
        set_use_initial_max_data_as_flow_control_win: fn(&mut Config, bool),
        verify_peer: fn(&mut Config, bool),
        with_boring_ssl_ctx_builder: fn(u32, SslContextBuilder) -> Result<Config>,
    });
    let mut config = Config::new(quiche::PROTOCOL_VERSION).unwrap();
    // As methods, too.
    config.set_initial_max_data(1_000_000);
    config.set_cc_algorithm(CongestionControlAlgorithm::CUBIC);
    config.enable_hystart(true);
}

pub fn methods() {
    signatures!(Connection {
        active_scids: fn(&Connection) -> usize,
        application_proto: fn(&Connection) -> &[u8],
        available_dcids: fn(&Connection) -> usize,
        close: fn(&mut Connection, bool, u64, &[u8]) -> Result<()>,
        destination_id: fn(&Connection) -> ConnectionId<'_>,
        dgram_max_writable_len: fn(&Connection) -> Option<usize>,
        dgram_recv: fn(&mut Connection, &mut [u8]) -> Result<usize>,
        dgram_recv_front_len: fn(&Connection) -> Option<usize>,
        dgram_recv_peek: fn(&Connection, &mut [u8], usize) -> Result<usize>,
        dgram_recv_queue_byte_size: fn(&Connection) -> usize,
        dgram_recv_queue_len: fn(&Connection) -> usize,
        dgram_send: fn(&mut Connection, &[u8]) -> Result<()>,
        dgram_send_queue_byte_size: fn(&Connection) -> usize,
        dgram_send_queue_len: fn(&Connection) -> usize,
        early_data_reason: fn(&Connection) -> u32,
        gcongestion_enabled: fn(&Connection) -> Option<bool>,
        is_closed: fn(&Connection) -> bool,
        is_dgram_recv_queue_full: fn(&Connection) -> bool,
        is_dgram_send_queue_full: fn(&Connection) -> bool,
        is_draining: fn(&Connection) -> bool,
        is_established: fn(&Connection) -> bool,
        is_in_early_data: fn(&Connection) -> bool,
        is_path_validated: fn(&Connection, SocketAddr, SocketAddr) -> Result<bool>,
        is_readable: fn(&Connection) -> bool,
        is_resumed: fn(&Connection) -> bool,
        is_server: fn(&Connection) -> bool,
        is_timed_out: fn(&Connection) -> bool,
        local_error: fn(&Connection) -> Option<&ConnectionError>,
        max_release_into_future: fn(&Connection) -> Duration,
        max_send_udp_payload_size: fn(&Connection) -> usize,
        migrate: fn(&mut Connection, SocketAddr, SocketAddr) -> Result<u64>,
        migrate_source: fn(&mut Connection, SocketAddr) -> Result<u64>,
        new_scid: fn(&mut Connection, &ConnectionId<'_>, u128, bool) -> Result<u64>,
        on_timeout: fn(&mut Connection),
        pacing_enabled: fn(&Connection) -> bool,
        path_event_next: fn(&mut Connection) -> Option<PathEvent>,
        paths_iter: fn(&Connection, SocketAddr) -> SocketAddrIter,
        peer_cert: fn(&Connection) -> Option<&[u8]>,
        peer_cert_chain: fn(&Connection) -> Option<Vec<&[u8]>>,
        peer_error: fn(&Connection) -> Option<&ConnectionError>,
        peer_streams_left_bidi: fn(&Connection) -> u64,
        peer_streams_left_uni: fn(&Connection) -> u64,
        peer_transport_params: fn(&Connection) -> Option<&TransportParams>,
        pmtu: fn(&Connection) -> Option<usize>,
        probe_path: fn(&mut Connection, SocketAddr, SocketAddr) -> Result<u64>,
        readable: fn(&Connection) -> StreamIter,
        recv: fn(&mut Connection, &mut [u8], RecvInfo) -> Result<usize>,
        retire_dcid: fn(&mut Connection, u64) -> Result<()>,
        retired_scid_next: fn(&mut Connection) -> Option<ConnectionId<'static>>,
        retired_scids: fn(&Connection) -> usize,
        revalidate_pmtu: fn(&mut Connection),
        scids_left: fn(&Connection) -> usize,
        send: fn(&mut Connection, &mut [u8]) -> Result<(usize, SendInfo)>,
        send_ack_eliciting: fn(&mut Connection) -> Result<()>,
        send_ack_eliciting_on_path: fn(&mut Connection, SocketAddr, SocketAddr) -> Result<()>,
        send_on_path: fn(&mut Connection, &mut [u8], Option<SocketAddr>, Option<SocketAddr>) -> Result<(usize, SendInfo)>,
        send_quantum: fn(&Connection) -> usize,
        send_quantum_on_path: fn(&Connection, SocketAddr, SocketAddr) -> usize,
        server_name: fn(&Connection) -> Option<&str>,
        session: fn(&Connection) -> Option<&[u8]>,
        set_keylog: fn(&mut Connection, Writer),
        set_max_idle_timeout: fn(&mut Connection, u64) -> Result<()>,
        set_qlog: fn(&mut Connection, Writer, String, String),
        set_qlog_with_level: fn(&mut Connection, Writer, String, String, QlogLevel),
        set_session: fn(&mut Connection, &[u8]) -> Result<()>,
        source_id: fn(&Connection) -> ConnectionId<'_>,
        stats: fn(&Connection) -> Stats,
        stream_capacity: fn(&mut Connection, u64) -> Result<usize>,
        stream_closed: fn(&Connection, u64) -> bool,
        stream_discard: fn(&mut Connection, u64, usize) -> Result<(usize, bool)>,
        stream_finished: fn(&Connection, u64) -> bool,
        stream_priority: fn(&mut Connection, u64, u8, bool) -> Result<()>,
        stream_readable: fn(&Connection, u64) -> bool,
        stream_readable_len: fn(&Connection, u64, usize) -> usize,
        stream_readable_next: fn(&mut Connection) -> Option<u64>,
        stream_recv: fn(&mut Connection, u64, &mut [u8]) -> Result<(usize, bool)>,
        stream_send: fn(&mut Connection, u64, &[u8], bool) -> Result<usize>,
        stream_shutdown: fn(&mut Connection, u64, Shutdown, u64) -> Result<()>,
        stream_writable: fn(&mut Connection, u64, usize) -> Result<bool>,
        stream_writable_next: fn(&mut Connection) -> Option<u64>,
        timeout: fn(&Connection) -> Option<Duration>,
        timeout_instant: fn(&Connection) -> Option<Instant>,
        trace_id: fn(&Connection) -> &str,
        writable: fn(&Connection) -> StreamIter,
    });
    signatures!(Buffered {
        dgram_recv_buf: fn(&mut Buffered) -> Result<Vec<u8>>,
        dgram_send_buf: fn(&mut Buffered, Vec<u8>) -> Result<()>,
        recv: fn(&mut Buffered, &mut [u8], RecvInfo) -> Result<usize>,
        stream_recv_buf: fn(&mut Buffered, u64, bytes::BytesMut) -> Result<(usize, bool)>,
        stream_send_zc:
            fn(&mut Buffered, u64, bytes::Bytes, bool) -> Result<(usize, Option<bytes::Bytes>)>,
    });
}

#[allow(deprecated)]
pub fn in_handshake() {
    signatures!(Connection {
        set_cc_algorithm_in_handshake: fn(&mut SslRef, CongestionControlAlgorithm) -> Result<()>,
        set_cc_algorithm_name_in_handshake: fn(&mut SslRef, &str) -> Result<()>,
        set_discover_pmtu_in_handshake: fn(&mut SslRef, bool, u8) -> Result<()>,
        set_enable_cubic_idle_restart_fix_in_handshake: fn(&mut SslRef, bool) -> Result<()>,
        set_enable_relaxed_loss_threshold_in_handshake: fn(&mut SslRef, bool) -> Result<()>,
        set_hystart_in_handshake: fn(&mut SslRef, bool) -> Result<()>,
        set_initial_congestion_window_packets_in_handshake: fn(&mut SslRef, usize) -> Result<()>,
        set_initial_max_streams_bidi_in_handshake: fn(&mut SslRef, u64) -> Result<()>,
        set_max_idle_timeout_in_handshake: fn(&mut SslRef, u64) -> Result<()>,
        set_max_pacing_rate_in_handshake: fn(&mut SslRef, Option<u64>) -> Result<()>,
        set_max_send_udp_payload_size_in_handshake: fn(&mut SslRef, usize) -> Result<()>,
        set_pacing_in_handshake: fn(&mut SslRef, bool) -> Result<()>,
        set_send_capacity_factor_in_handshake: fn(&mut SslRef, f64) -> Result<()>,
        set_use_initial_max_data_as_flow_control_win_in_handshake: fn(&mut SslRef) -> Result<()>,
    });
}

/// What has a result that cannot be named.
pub fn iterators(connection: &mut Connection, now: Instant) -> usize {
    connection.dgram_purge_outgoing(|datagram: &[u8]| datagram.is_empty());
    if let Some(decision) = Connection::get_next_release_time(connection) {
        let _: (Option<Instant>, bool) = (decision.time(now), decision.can_burst());
        assert!(decision.time_eq(&decision, now));
    }
    let _: Option<&mut qlog::streamer::QlogStreamer> = Connection::qlog_streamer(connection);
    let _: &mut SslRef = connection.as_mut();
    let ids = Connection::source_ids(connection).map(|id| id.len()).sum::<usize>();
    ids + Connection::path_stats(connection).map(|path: PathStats| path.sent).sum::<usize>()
}

pub fn http3() {
    use h3::{Config, Event, Header, HeaderRef, NameValue, Priority, Result};
    type Http = h3::Connection;
    signatures!(Config {
        new: fn() -> Result<Config>,
        enable_extended_connect: fn(&mut Config, bool),
        set_additional_settings: fn(&mut Config, Vec<(u64, u64)>) -> Result<()>,
        set_max_field_section_size: fn(&mut Config, u64),
        set_max_priority_update_size: fn(&mut Config, u64),
        set_qpack_blocked_streams: fn(&mut Config, u64),
        set_qpack_max_table_capacity: fn(&mut Config, u64),
    });
    same! {
        Http::with_transport::<Factory>: fn(&mut Buffered, &Config) -> Result<Http>,
        Http::send_request::<Header, Factory>:
            fn(&mut Http, &mut Buffered, &[Header], bool) -> Result<u64>,
        Http::send_response::<HeaderRef<'static>, Factory>:
            fn(&mut Http, &mut Buffered, u64, &[HeaderRef<'static>], bool) -> Result<()>,
        Http::send_response_with_priority::<Header, Factory>:
            fn(&mut Http, &mut Buffered, u64, &[Header], &Priority, bool) -> Result<()>,
        Http::send_additional_headers::<Header, Factory>:
            fn(&mut Http, &mut Buffered, u64, &[Header], bool, bool) -> Result<()>,
        Http::send_additional_headers_with_priority::<Header, Factory>:
            fn(&mut Http, &mut Buffered, u64, &[Header], &Priority, bool, bool) -> Result<()>,
        Http::send_body::<Factory>:
            fn(&mut Http, &mut Buffered, u64, &[u8], bool) -> Result<usize>,
        Http::send_body_zc::<Factory>:
            fn(&mut Http, &mut Buffered, u64, &mut bytes::Bytes, bool) -> Result<usize>,
        Http::dgram_enabled_by_peer::<Factory>: fn(&Http, &Buffered) -> bool,
        Http::extended_connect_enabled_by_peer: fn(&Http) -> bool,
        Http::recv_body::<Factory>:
            fn(&mut Http, &mut Buffered, u64, &mut [u8]) -> Result<usize>,
        Http::recv_body_buf::<Factory, bytes::BytesMut>:
            fn(&mut Http, &mut Buffered, u64, bytes::BytesMut) -> Result<usize>,
        Http::send_priority_update_for_request::<Factory>:
            fn(&mut Http, &mut Buffered, u64, &Priority) -> Result<()>,
        Http::take_last_priority_update: fn(&mut Http, u64) -> Result<Vec<u8>>,
        Http::poll::<Factory>: fn(&mut Http, &mut Buffered) -> Result<(u64, Event)>,
        Http::send_goaway::<Factory>: fn(&mut Http, &mut Buffered, u64) -> Result<()>,
        Http::peer_settings_raw: fn(&Http) -> Option<&[(u64, u64)]>,
        Http::stats: fn(&Http) -> h3::Stats,
    }
    let _: fn(&Header) -> &[u8] = <Header as NameValue>::name;
    let _: &[&[u8]] = h3::APPLICATION_PROTOCOL;
    let _: (h3::Error, h3::WireErrorCode) = (h3::Error::Done, h3::WireErrorCode::NoError);
    let _: fn() -> h3::qpack::Decoder = h3::qpack::Decoder::new;
}

/// Names of types, and that a connection goes to another thread.
pub fn types() -> usize {
    fn is_sent<T: Send + Sync>() -> usize {
        size_of::<T>()
    }
    fn is_split<B: BufSplit>() {}
    is_split::<bytes::Bytes>();
    let _: (Error, WireErrorCode) = (Error::Done, WireErrorCode::NoError);
    let _: Result<Header<'_>> = Header::from_slice(&mut [], 0);
    let _: (Type, Shutdown, QlogLevel) = (Type::Initial, Shutdown::Read, QlogLevel::Base);
    let _: Option<(BbrParams, BbrBwLoReductionStrategy, TxBufferTrackingState)> = None;
    let _: Option<(StartupExit, StartupExitReason, PathStats, Stats)> = None;
    let _: Option<(UnknownTransportParameter<Vec<u8>>, UnknownTransportParameters)> = None;
    let _: Option<UnknownTransportParameterIterator<'_>> = None;
    is_sent::<Connection>() + is_sent::<Buffered>() + is_sent::<h3::Connection>()
}
