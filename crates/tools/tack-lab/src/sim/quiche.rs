//! quiche as a peer, with our layer and without.

use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

use boring::ssl::{SslContextBuilder, SslMethod};
use quiche::{CongestionControlAlgorithm, ConnectionId, RecvInfo, SendInfo};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use tack_link::Ecn as EcnField;
use tack_tap::KeyLog;
use tacklib::{
    AckSchedule, CarefulResumeTrigger, Ecn, EcnCodepoint, LabSwitches, MediaStats, TackConfig,
};

use super::content::Content;
use super::identity::Identity;
use super::peer::{ALPN, CLIENT, Consumed, IDLE_TIMEOUT, Peer, SERVER, WINDOW};
use super::{Acks, CarefulResume, Congestion, EndConfig, Error, Flow, Load, Stack};

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

/// What [`End`] needs of a connection; ours and quiche's have the same methods.
trait Connection: Sized {
    fn plain(&self) -> &quiche::Connection;
    fn recv(
        &mut self,
        datagram: &mut [u8],
        info: RecvInfo,
        ecn: EcnField,
        at: Instant,
    ) -> quiche::Result<usize>;
    fn send(&mut self, out: &mut [u8]) -> quiche::Result<(usize, SendInfo)>;
    fn timeout_instant(&self) -> Option<Instant>;
    fn on_timeout(&mut self);
    fn stream_send(&mut self, id: u64, bytes: &[u8], fin: bool) -> quiche::Result<usize>;
    fn stream_recv(&mut self, id: u64, out: &mut [u8]) -> quiche::Result<(usize, bool)>;
    fn stream_capacity(&mut self, id: u64) -> quiche::Result<usize>;
    fn stream_priority(&mut self, id: u64, urgency: u8) -> quiche::Result<()>;
    fn stop_sending(&mut self, id: u64) -> quiche::Result<()>;
    fn dgram_send(&mut self, datagram: &[u8]) -> quiche::Result<()>;
    fn dgram_recv(&mut self, out: &mut [u8]) -> quiche::Result<usize>;
    fn set_keylog(&mut self, key_log: KeyLog);
    /// What an encoder can go by, where the stack tells.
    fn media_stats(&self) -> Option<MediaStats>;
    /// The share of bytes that were sent to measure the path, where the stack tells.
    fn probing_share(&self) -> Option<f64>;
    /// Sets the deadline of a stream, where the stack has deadlines.
    fn set_stream_deadline(&mut self, id: u64, at: Instant);
    fn min_rtt(&self) -> Option<Duration>;
    fn set_ecn(&mut self, ecn: Ecn);
    fn send_ecn(&self) -> EcnField;
    fn ecn_marked_and_reported(&self) -> Option<(u64, u64)>;
    fn careful_resume(&self) -> Option<CarefulResume>;
    /// Whether no stream data waits and nothing is in flight, where the stack tells.
    fn is_drained(&self) -> Option<bool>;
}

macro_rules! connection {
    ($type:ty, $min_rtt:expr, $recv:expr, $set_ecn:expr, $send_ecn:expr, $ecn:expr, $resume:expr, $deadline:expr, $drained:expr, $media:expr, $probing:expr) => {
        impl Connection for $type {
            fn plain(&self) -> &quiche::Connection {
                self
            }

            fn recv(
                &mut self,
                datagram: &mut [u8],
                info: RecvInfo,
                ecn: EcnField,
                at: Instant,
            ) -> quiche::Result<usize> {
                $recv(self, datagram, info, ecn, at)
            }

            fn set_ecn(&mut self, ecn: Ecn) {
                $set_ecn(self, ecn);
            }

            fn send_ecn(&self) -> EcnField {
                $send_ecn(self)
            }

            fn ecn_marked_and_reported(&self) -> Option<(u64, u64)> {
                $ecn(self)
            }

            fn careful_resume(&self) -> Option<CarefulResume> {
                $resume(self)
            }

            fn is_drained(&self) -> Option<bool> {
                $drained(self)
            }

            fn send(&mut self, out: &mut [u8]) -> quiche::Result<(usize, SendInfo)> {
                <$type>::send(self, out)
            }

            fn timeout_instant(&self) -> Option<Instant> {
                <$type>::timeout_instant(self)
            }

            fn on_timeout(&mut self) {
                <$type>::on_timeout(self);
            }

            fn stream_send(
                &mut self,
                id: u64,
                bytes: &[u8],
                fin: bool,
            ) -> quiche::Result<usize> {
                <$type>::stream_send(self, id, bytes, fin)
            }

            fn stream_recv(
                &mut self,
                id: u64,
                out: &mut [u8],
            ) -> quiche::Result<(usize, bool)> {
                <$type>::stream_recv(self, id, out)
            }

            fn stream_capacity(&mut self, id: u64) -> quiche::Result<usize> {
                <$type>::stream_capacity(self, id)
            }

            fn stream_priority(&mut self, id: u64, urgency: u8) -> quiche::Result<()> {
                <$type>::stream_priority(self, id, urgency, false)
            }

            fn stop_sending(&mut self, id: u64) -> quiche::Result<()> {
                <$type>::stream_shutdown(self, id, quiche::Shutdown::Read, 0)
            }

            fn dgram_send(&mut self, datagram: &[u8]) -> quiche::Result<()> {
                <$type>::dgram_send(self, datagram)
            }

            fn dgram_recv(&mut self, out: &mut [u8]) -> quiche::Result<usize> {
                <$type>::dgram_recv(self, out)
            }

            fn set_stream_deadline(&mut self, id: u64, at: Instant) {
                $deadline(self, id, at);
            }

            fn media_stats(&self) -> Option<MediaStats> {
                $media(self)
            }

            fn probing_share(&self) -> Option<f64> {
                $probing(self)
            }

            fn set_keylog(&mut self, key_log: KeyLog) {
                <$type>::set_keylog(self, Box::new(key_log));
            }

            fn min_rtt(&self) -> Option<Duration> {
                $min_rtt(self)
            }
        }
    };
}

connection!(
    quiche::Connection,
    |connection: &quiche::Connection| connection
        .path_stats()
        .next()
        .and_then(|path| path.min_rtt),
    |connection: &mut quiche::Connection, datagram, info, _, _| connection.recv(datagram, info),
    |_, _| (),
    |_| EcnField::NotEct,
    |_| None,
    |_| None,
    |_, _, _| (),
    |_| None,
    |connection: &quiche::Connection| {
        let path = connection.path_stats().next()?;
        let rtt = path.rtt.as_secs_f64().max(1e-6);
        let mut stats = MediaStats::default();
        stats.estimated_send_rate = (path.cwnd as f64 / rtt) as u64;
        stats.rate_age = Some(Duration::ZERO);
        Some(stats)
    },
    |_| None
);
connection!(
    tacklib::Connection,
    |connection: &tacklib::Connection| connection.tack_stats().min_rtt,
    |connection: &mut tacklib::Connection, datagram, info, ecn: EcnField, at| {
        connection.recv_at(datagram, info, EcnCodepoint::from_bits(ecn.bits()), at)
    },
    tacklib::Connection::set_ecn,
    |connection: &tacklib::Connection| EcnField::from_bits(connection.send_ecn().bits()),
    |connection: &tacklib::Connection| {
        let stats = connection.tack_stats();
        Some((stats.ecn_marked, stats.ecn_ce_reported))
    },
    |connection: &tacklib::Connection| {
        let stats = connection.tack_stats();
        Some(CarefulResume {
            phase: stats.careful_resume.name(),
            trigger: stats.careful_resume_trigger.map(CarefulResumeTrigger::name),
            observed: connection.cc_parameters(DAY),
        })
    },
    |connection: &mut tacklib::Connection, id, at| {
        // It fails for streams of the other end alone.
        let _ = connection.set_stream_deadline(id, Some(at));
    },
    |connection: &tacklib::Connection| {
        let backlog = connection.media_stats().backlog;
        Some(backlog == 0 && connection.tack_stats().bytes_in_flight == 0)
    },
    |connection: &tacklib::Connection| Some(connection.media_stats()),
    |connection: &tacklib::Connection| {
        let sent = connection.stats().sent_bytes.max(1);
        Some(connection.tack_stats().train_bytes as f64 / sent as f64)
    }
);

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
