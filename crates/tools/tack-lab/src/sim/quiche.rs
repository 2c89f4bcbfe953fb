//! quiche as a peer, with our layer and without.

mod connection;

use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

use boring::ssl::{SslContextBuilder, SslMethod};
use quiche::{CongestionControlAlgorithm, ConnectionId, RecvInfo};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use tack_link::Ecn as EcnField;
use tack_tap::KeyLog;
use tacklib::{AckSchedule, Ecn, LabSwitches, MediaStats, TackConfig};

use super::content::Content;
use super::identity::Identity;
use super::peer::{ALPN, CLIENT, Consumed, IDLE_TIMEOUT, Peer, SERVER, WINDOW};
use super::{Acks, CarefulResume, Congestion, EndConfig, Error, Flow, Load, Rates, Stack};
use connection::Connection;

/// The client's first bidirectional stream.
const STREAM: u64 = 0;

/// The most streams and DATAGRAMs of a call that may wait.
const CALL_QUEUE: u16 = 1000;

/// DATAGRAMs of a live source that wait at most: some large frames.
const FRAMES_QUEUE: u16 = 8000;

/// The largest UDP payload that quiche may receive.
const LARGEST_DATAGRAM: usize = 1500;

/// What the server's application waits to write at once, bytes. Behind what it writes quiche sends a packet that is
/// not full: with 3,000 bytes these were half as many again, and where each packet contends for the channel plain
/// quiche carried a fifth less (802.11g, 80 ms).
const LEAST_WRITE: usize = 16 << 10;
/// Over quiche's CUBIC until it has left slow start: it grows the less, the longer it waits for data. 20 MB
/// over 200 Mbit/s and 40 ms take 1.2 s so, and 2.2 s with what holds later.
const LEAST_WRITE_AT_START: usize = 3000;

/// When connections end and begin, as far as the age of CC parameters goes.
const DAY: SystemTime = SystemTime::UNIX_EPOCH;

/// Bytes of a connection ID, as tack-endpoint and quinn have it.
const CID_LEN: usize = 8;

/// A client that connects.
pub fn client(
    flow: &Flow,
    seeds: &mut Pcg64Mcg,
    key_log: &KeyLog,
) -> Result<Box<dyn Peer>, Error> {
    let id = connection_id(seeds);
    let name = Some("localhost");
    let setup = Error::setup(stack_name(flow.client));
    let config = base_config(flow, false)?;
    if flow.client.stack == Stack::Tack {
        let mut config = tack_config(&flow.client, config)?;
        let connection = tacklib::connect(name, &id, CLIENT, SERVER, &mut config);
        Ok(Box::new(End::new(connection.map_err(|error| setup(&error))?, false, flow, key_log)))
    } else {
        let mut config = plain_config(&flow.client, config)?;
        let connection = quiche::connect(name, &id, CLIENT, SERVER, &mut config);
        Ok(Box::new(End::new(connection.map_err(|error| setup(&error))?, false, flow, key_log)))
    }
}

/// A server that accepts one connection.
pub fn server(
    flow: &Flow,
    seeds: &mut Pcg64Mcg,
    key_log: &KeyLog,
) -> Result<Box<dyn Peer>, Error> {
    let id = connection_id(seeds);
    let setup = Error::setup(stack_name(flow.server));
    let config = base_config(flow, true)?;
    if flow.server.stack == Stack::Tack {
        let mut config = tack_config(&flow.server, config)?;
        let connection = tacklib::accept(&id, None, SERVER, CLIENT, &mut config);
        let mut connection = connection.map_err(|error| setup(&error))?;
        if let Some(parameters) = flow.server.cc_parameters {
            connection.set_cc_parameters(parameters, DAY);
        }
        Ok(Box::new(End::new(connection, true, flow, key_log)))
    } else {
        let mut config = plain_config(&flow.server, config)?;
        let connection = quiche::accept(&id, None, SERVER, CLIENT, &mut config);
        Ok(Box::new(End::new(connection.map_err(|error| setup(&error))?, true, flow, key_log)))
    }
}

fn connection_id(seeds: &mut Pcg64Mcg) -> ConnectionId<'static> {
    let mut id = vec![0; CID_LEN];
    seeds.fill_bytes(&mut id);
    ConnectionId::from_vec(id)
}

fn stack_name(end: EndConfig) -> &'static str {
    if end.stack == Stack::Tack { "tacklib" } else { "quiche" }
}

fn plain_config(end: &EndConfig, mut config: quiche::Config) -> Result<quiche::Config, Error> {
    if end.ecn != Ecn::Off {
        return Err(Error::Scenario {
            field: "--ecn",
            problem: "quiche neither marks nor reads marks: `off` for --stack plain".to_owned(),
        });
    }
    config.set_cc_algorithm(match end.congestion {
        Congestion::Bbr => CongestionControlAlgorithm::Bbr2Gcongestion,
        Congestion::Cubic => CongestionControlAlgorithm::CUBIC,
    });
    match end.acks {
        Acks::Delayed => Ok(config),
        _ => Err(Error::Scenario {
            field: "--ack",
            problem: "quiche has one way to acknowledge, its own: `delayed` for --stack plain"
                .to_owned(),
        }),
    }
}

fn tack_config(end: &EndConfig, config: quiche::Config) -> Result<tacklib::Config, Error> {
    if end.congestion != Congestion::Bbr {
        return Err(Error::Scenario {
            field: "--cc",
            problem: "the TACK stack has one controller, `bbr`; `cubic` is for --stack plain \
                      and --stack quinn"
                .to_owned(),
        });
    }
    let mut config = tacklib::Config::from_quiche(config);
    let mut tack = TackConfig::new(end.profile);
    // What there is to set of TACK's rule.
    match end.acks {
        Acks::TackPaper => {
            tack.packets_per_ack = 2;
            tack.acks_per_round_trip = 4.0;
            tack.shortest_ack_interval = Duration::from_millis(1);
            tack.short_path_ack_interval = Duration::ZERO;
        }
        Acks::TackNoSooner(interval) => {
            tack.shortest_ack_interval = interval;
            tack.short_path_ack_interval = Duration::ZERO;
            tack.longest_ack_interval = tack.longest_ack_interval.max(interval);
        }
        _ => {}
    }
    config.set_tack(tack);
    config.set_lab(LabSwitches {
        schedule: match end.acks {
            Acks::Tack | Acks::TackPoor | Acks::TackPaper | Acks::TackNoSooner(_) => {
                AckSchedule::Tack
            }
            Acks::Delayed => AckSchedule::Delayed,
            Acks::Every(packets) => AckSchedule::EveryPackets(packets),
            Acks::Periodic(interval) => AckSchedule::Periodic(interval),
        },
        reported_gaps: if end.acks == Acks::TackPoor { Some(1) } else { None },
        plain_sampling: end.plain_sampling,
        deviations: end.deviations,
        ..LabSwitches::default()
    });
    Ok(config)
}

/// What both kinds have in common.
fn base_config(flow: &Flow, server: bool) -> Result<quiche::Config, Error> {
    let setup = Error::setup("quiche");
    let identity = Identity::get()?;
    let mut tls = SslContextBuilder::new(SslMethod::tls()).map_err(|error| setup(&error))?;
    if server {
        tls.set_certificate(&identity.certificate).map_err(|error| setup(&error))?;
        tls.set_private_key(&identity.key).map_err(|error| setup(&error))?;
    }
    let builder = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls);
    let mut config = builder.map_err(|error| setup(&error))?;
    config.verify_peer(false);
    config.set_application_protos(&[ALPN]).map_err(|error| setup(&error))?;
    config.log_keys();
    config.set_max_idle_timeout(IDLE_TIMEOUT.as_millis() as u64);
    config.set_max_send_udp_payload_size(flow.udp_payload);
    config.set_max_recv_udp_payload_size(LARGEST_DATAGRAM);
    config.set_initial_max_data(WINDOW.into());
    config.set_initial_max_stream_data_bidi_local(WINDOW.into());
    config.set_initial_max_stream_data_bidi_remote(WINDOW.into());
    config.set_max_connection_window(WINDOW.into());
    config.set_max_stream_window(WINDOW.into());
    config.set_initial_max_streams_bidi(1);
    config.set_disable_active_migration(true);
    if matches!(flow.load, Load::Call(_) | Load::Frames(_)) {
        let queue =
            if matches!(flow.load, Load::Frames(_)) { FRAMES_QUEUE } else { CALL_QUEUE };
        config.enable_dgram(true, queue.into(), queue.into());
        config.set_initial_max_streams_uni(CALL_QUEUE.into());
        config.set_initial_max_stream_data_uni(WINDOW.into());
    }
    Ok(config)
}

/// The ID of a unidirectional stream of the server (RFC 9000 section 2.1).
pub const fn server_stream(number: u64) -> u64 {
    4 * number + 3
}

/// One end.
struct End<C> {
    connection: C,
    info: RecvInfo,
    is_server: bool,
    /// Whether marks are read.
    reads_marks: bool,
    reads_arrivals: bool,
    /// Whether the client sends data, and no request.
    two_way: bool,
    /// Server: the request has been read.
    requested: bool,
    /// The end of the stream has been written.
    written: bool,
    offset: u64,
    consumed: Consumed,
    buffer: Vec<u8>,
    /// quiche's CUBIC decides, which has a slow start.
    starts_slowly: bool,
}

impl<C: Connection + 'static> End<C> {
    fn new(mut connection: C, is_server: bool, flow: &Flow, key_log: &KeyLog) -> Self {
        let ecn = if is_server { flow.server.ecn } else { flow.client.ecn };
        connection.set_keylog(key_log.clone());
        connection.set_ecn(ecn);
        let (local, peer) = if is_server { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
        let two_way = matches!(flow.load, Load::TwoWay | Load::Applications);
        let end = if is_server { flow.server } else { flow.client };
        Self {
            connection,
            info: RecvInfo { from: peer, to: local },
            is_server,
            reads_marks: ecn != Ecn::Off,
            reads_arrivals: end.arrival_times,
            two_way,
            requested: two_way,
            written: false,
            offset: 0,
            consumed: Consumed::default(),
            buffer: vec![0; 1 << 16],
            starts_slowly: end.stack == Stack::Plain && end.congestion == Congestion::Cubic,
        }
    }

    /// quiche makes a packet of what there is: an application that writes each byte that the
    /// congestion window allows gets small packets. One that waits until a few packets fit, as
    /// `stream_writable` is there for, leaves a part of the window unused, and plain quiche then
    /// takes the flow to be limited by its application, so that its CUBIC hardly grows.
    fn least_write(&self) -> u64 {
        let path = self.connection.plain().path_stats().next();
        let window = path.as_ref().map_or(0, |path| path.cwnd);
        let starts = self.starts_slowly && path.is_none_or(|path| path.startup_exit.is_none());
        let (share, most) = if starts { (64, LEAST_WRITE_AT_START) } else { (4, LEAST_WRITE) };
        (window / share).clamp(1, most) as u64
    }

    /// The client asks as soon as it can.
    fn request(&mut self) {
        if !self.is_server
            && !self.two_way
            && !self.written
            && self.connection.plain().is_established()
        {
            self.written = self.connection.stream_send(STREAM, b"?", true).is_ok();
        }
    }

    /// What the stream takes. quiche knows of no stream before the client has written to it.
    fn capacity(&mut self) -> Option<usize> {
        let opens = !self.is_server && self.offset == 0;
        match self.connection.stream_capacity(STREAM) {
            Ok(capacity) => Some(capacity),
            Err(_) if opens && self.connection.plain().is_established() => Some(LEAST_WRITE),
            Err(_) => None,
        }
    }
}

impl<C: Connection + 'static> Peer for End<C> {
    fn receive(&mut self, datagram: &mut [u8], ecn: EcnField, waited: Duration) {
        let ecn = if self.reads_marks { ecn } else { EcnField::NotEct };
        // Errors close the connection, which is noticed; a damaged datagram is dropped.
        let waited = if self.reads_arrivals { waited } else { Duration::ZERO };
        let now = Instant::now();
        let at = now.checked_sub(waited).unwrap_or(now);
        let _ = self.connection.recv(datagram, self.info, ecn, at);
        self.request();
    }

    fn transmit(&mut self, out: &mut Vec<u8>) -> Option<(Instant, EcnField)> {
        out.resize(LARGEST_DATAGRAM, 0);
        let (len, info) = self.connection.send(out).ok()?;
        out.truncate(len);
        Some((info.at, self.connection.send_ecn()))
    }

    fn timeout(&mut self) -> Option<Instant> {
        self.connection.timeout_instant()
    }

    fn on_timeout(&mut self) {
        self.connection.on_timeout();
    }

    fn supply(&mut self, content: &Content, available: u64, last: bool) {
        if !self.is_requested() {
            return;
        }
        while !self.written && (self.offset < available || last) {
            // quiche queues a DATA_BLOCKED each time that it is given more than it takes.
            let Some(capacity) = self.capacity() else { return };
            let left = available.saturating_sub(self.offset);
            if (capacity as u64) < left.min(self.least_write()) {
                return;
            }
            let bytes = content.at(self.offset, left.min(capacity as u64));
            let fin = last && bytes.len() as u64 == left;
            let Ok(taken) = self.connection.stream_send(STREAM, bytes, fin) else { return };
            self.offset += taken as u64;
            self.written = fin && taken == bytes.len();
            if taken < bytes.len() {
                return;
            }
        }
    }

    fn consume(&mut self, content: &Content) -> Result<Consumed, u64> {
        while !self.consumed.finished
            && let Ok((len, fin)) = self.connection.stream_recv(STREAM, &mut self.buffer)
        {
            if !content.matches(self.consumed.bytes, &self.buffer[..len]) {
                return Err(self.consumed.bytes);
            }
            self.consumed.bytes += len as u64;
            self.consumed.finished = fin;
        }
        Ok(self.consumed)
    }

    fn is_requested(&mut self) -> bool {
        if !self.requested {
            // The request comes first, with the end of the client's side.
            let request = self.connection.stream_recv(STREAM, &mut self.buffer);
            self.requested = matches!(request, Ok((_, true)));
        }
        self.requested
    }

    fn send_datagram(&mut self, datagram: &[u8]) {
        // A queue that is full loses it, as an application would have to.
        let _ = self.connection.dgram_send(datagram);
    }

    fn write_stream(
        &mut self,
        stream: u64,
        priority: u8,
        content: &Content,
        part: Range<u64>,
        last: bool,
    ) -> (u64, bool) {
        let id = server_stream(stream);
        let Range { mut start, end } = part.clone();
        if start == 0 && self.connection.stream_priority(id, priority).is_err() {
            return (0, false);
        }
        loop {
            let capacity = match self.connection.stream_capacity(id) {
                Ok(capacity) => capacity as u64,
                Err(quiche::Error::StreamStopped(_)) => return (start - part.start, true),
                Err(_) => return (start - part.start, false),
            };
            let left = end - start;
            if (left == 0 && !last) || capacity < left.min(self.least_write()) {
                return (start - part.start, false);
            }
            let bytes = content.at(start, left.min(capacity));
            let fin = last && bytes.len() as u64 == left;
            let Ok(taken) = self.connection.stream_send(id, bytes, fin) else {
                return (start - part.start, false);
            };
            start += taken as u64;
            if taken < bytes.len() || start == end {
                return (start - part.start, fin && taken == bytes.len());
            }
        }
    }

    fn set_stream_deadline(&mut self, stream: u64, at: Instant) {
        self.connection.set_stream_deadline(server_stream(stream), at);
    }

    fn read_datagram(&mut self) -> Option<Vec<u8>> {
        let len = self.connection.dgram_recv(&mut self.buffer).ok()?;
        Some(self.buffer[..len].to_vec())
    }

    fn read_stream(&mut self, stream: u64, content: &Content, offset: u64) -> Result<u64, u64> {
        let mut offset = offset;
        let id = server_stream(stream);
        while let Ok((len, fin)) = self.connection.stream_recv(id, &mut self.buffer) {
            if !content.matches(offset, &self.buffer[..len]) {
                return Err(offset);
            }
            offset += len as u64;
            if fin {
                break;
            }
        }
        Ok(offset)
    }

    fn stop_stream(&mut self, stream: u64) -> bool {
        self.connection.stop_sending(server_stream(stream)).is_ok()
    }

    fn is_open(&mut self) -> bool {
        self.connection.plain().is_established()
    }

    fn read_bytes(&mut self, out: &mut [u8]) -> usize {
        self.connection.stream_recv(STREAM, out).map_or(0, |(count, _)| count)
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> usize {
        // As in `supply`: neither more than it takes nor in small pieces.
        let capacity = self.capacity().unwrap_or_default();
        if bytes.is_empty() || (capacity as u64) < self.least_write().min(bytes.len() as u64) {
            return 0;
        }
        let fitting = &bytes[..bytes.len().min(capacity)];
        let taken = self.connection.stream_send(STREAM, fitting, false).unwrap_or_default();
        self.offset += taken as u64;
        taken
    }

    fn media_stats(&self) -> Option<MediaStats> {
        self.connection.media_stats()
    }

    fn probing_share(&self) -> Option<f64> {
        self.connection.probing_share()
    }

    fn is_drained(&self) -> Option<bool> {
        self.connection.is_drained()
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.connection.min_rtt()
    }

    fn rates(&self) -> Option<Rates> {
        self.connection.rates()
    }

    fn ecn_marked_and_reported(&self) -> Option<(u64, u64)> {
        self.connection.ecn_marked_and_reported()
    }

    fn careful_resume(&self) -> Option<CarefulResume> {
        self.connection.careful_resume()
    }

    fn closed(&self) -> Option<String> {
        let connection = self.connection.plain();
        if !connection.is_closed() && !connection.is_draining() {
            return None;
        }
        let error = connection.local_error().or_else(|| connection.peer_error());
        Some(match error {
            Some(error) => {
                format!(
                    "error {:#x} {}",
                    error.error_code,
                    String::from_utf8_lossy(&error.reason)
                )
            }
            None if connection.is_timed_out() => "idle timeout".to_owned(),
            None => "no reason given".to_owned(),
        })
    }
}
