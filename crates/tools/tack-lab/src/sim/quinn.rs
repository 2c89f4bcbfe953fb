//! quinn-proto as a peer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionError, ConnectionEvent,
    ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir, EcnCodepoint,
    Endpoint, EndpointConfig, Event, IdleTimeout, ServerConfig, Side, StreamEvent, StreamId,
    TransportConfig, VarInt, WriteError,
};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tack_link::Ecn as EcnField;
use tack_tap::KeyLog;
use tacklib::Ecn;

use super::content::Content;
use super::identity::Identity;
use super::peer::{ALPN, CLIENT, Consumed, IDLE_TIMEOUT, Peer, SERVER, WINDOW};
use super::{Acks, Congestion, EndConfig, Error, Flow, Load};

/// A threshold that is never reached: the delay alone decides.
const NEVER: VarInt = VarInt::from_u32(1 << 20);

/// A client that connects.
pub fn client(flow: &Flow, seeds: &mut Pcg64Mcg, key_log: &KeyLog) -> Result<End, Error> {
    let transport = transport(&flow.client, flow.udp_payload)?;
    let mut client = End::new(None, SERVER, flow, seeds);
    let config = client_config(transport, key_log, seeds.next_u64())?;
    let connection = client.endpoint.connect(Instant::now(), config, SERVER, "localhost");
    client.connection = Some(connection.map_err(|error| Error::setup("quinn")(&error))?);
    Ok(client)
}

/// A server that accepts one connection.
pub fn server(flow: &Flow, seeds: &mut Pcg64Mcg, key_log: &KeyLog) -> Result<End, Error> {
    let transport = transport(&flow.server, flow.udp_payload)?;
    Ok(End::new(Some(server_config(transport, key_log)?), CLIENT, flow, seeds))
}

fn transport(end: &EndConfig, udp_payload: usize) -> Result<TransportConfig, Error> {
    if end.ecn == Ecn::L4s {
        return Err(Error::Scenario {
            field: "--ecn",
            problem: "quinn marks with ECT(0): `off` or `classic` for --stack quinn".to_owned(),
        });
    }
    let mut transport = TransportConfig::default();
    let mtu = u16::try_from(udp_payload).unwrap_or(u16::MAX);
    transport
        .initial_mtu(mtu)
        .mtu_discovery_config(None)
        // One datagram at a time: the link is no network card that cuts up large ones.
        .enable_segmentation_offload(false)
        .max_idle_timeout(IdleTimeout::try_from(IDLE_TIMEOUT).ok())
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(WINDOW.into());
    // Streams of one priority share the path, as by default. quinn recommends to go without
    // for many small streams; the longest frames of calls are no earlier then.
    let congestion: Arc<dyn ControllerFactory + Send + Sync> = match end.congestion {
        Congestion::Bbr => Arc::new(BbrConfig::default()),
        Congestion::Cubic => Arc::new(CubicConfig::default()),
    };
    transport.congestion_controller_factory(congestion);
    let mut frequency = AckFrequencyConfig::default();
    match end.acks {
        Acks::Delayed => {}
        Acks::Every(packets) => {
            let threshold = VarInt::from_u64(packets.saturating_sub(1)).unwrap_or(NEVER);
            frequency.ack_eliciting_threshold(threshold);
            transport.ack_frequency_config(Some(frequency));
        }
        Acks::Periodic(interval) => {
            frequency.ack_eliciting_threshold(NEVER).max_ack_delay(Some(interval));
            transport.ack_frequency_config(Some(frequency));
        }
        Acks::Tack | Acks::TackPoor | Acks::TackPaper | Acks::TackNoSooner(_) => {
            return Err(Error::Scenario {
                field: "--ack",
                problem:
                    "quinn does not speak TACK: `delayed`, `every:L` or `periodic:MS` for \
                          --stack quinn"
                        .to_owned(),
            });
        }
    }
    Ok(transport)
}

/// One end: an endpoint with one connection.
pub struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    remote: SocketAddr,
    is_server: bool,
    /// Whether its marks leave, and marks reach it.
    uses_ecn: bool,
    /// Whether the client sends data, and no request.
    two_way: bool,
    stream: Option<StreamId>,
    /// The end of the stream has been written.
    written: bool,
    /// Server: the request has been read.
    requested: bool,
    offset: u64,
    consumed: Consumed,
    /// Server of a call: how many streams it has opened.
    opened: u64,
    /// What the endpoint itself answered.
    answers: VecDeque<Vec<u8>>,
    lost: Option<ConnectionError>,
}

impl End {
    fn new(
        server: Option<ServerConfig>,
        remote: SocketAddr,
        flow: &Flow,
        seeds: &mut Pcg64Mcg,
    ) -> Self {
        let two_way = matches!(flow.load, Load::TwoWay | Load::Applications);
        let mut secret = [0; 64];
        seeds.fill_bytes(&mut secret);
        let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let mut config = EndpointConfig::new(Arc::new(reset_key));
        let mut seed = [0; 32];
        seeds.fill_bytes(&mut seed);
        config.rng_seed(Some(seed));
        let ids = seeds.next_u64();
        config.cid_generator(move || {
            Box::new(SeededIds { generator: Pcg64Mcg::seed_from_u64(ids) })
        });
        let is_server = server.is_some();
        let ecn = if is_server { flow.server.ecn } else { flow.client.ecn };
        Self {
            endpoint: Endpoint::new(Arc::new(config), server.map(Arc::new), false, None),
            connection: None,
            remote,
            is_server,
            uses_ecn: ecn != Ecn::Off,
            two_way,
            stream: None,
            written: false,
            requested: two_way,
            offset: 0,
            consumed: Consumed::default(),
            opened: 0,
            answers: VecDeque::new(),
            lost: None,
        }
    }

    /// Passes messages between endpoint and connection, and notes what happened.
    fn settle(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected if !self.is_server => {
                    self.stream = connection.streams().open(Dir::Bi);
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    self.stream = connection.streams().accept(Dir::Bi);
                }
                // RFC 9000 section 3.5: an application that is told to stop resets its stream.
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    let _ = connection.send_stream(id).reset(VarInt::from_u32(0));
                }
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                _ => {}
            }
        }
        if !self.is_server
            && !self.two_way
            && !self.written
            && let Some(stream) = self.stream
        {
            let mut stream = connection.send_stream(stream);
            self.written = stream.write(b"?").is_ok() && stream.finish().is_ok();
        }
    }

    fn handle(&mut self, event: ConnectionEvent) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_event(event);
        }
    }
}

impl Peer for End {
    fn receive(&mut self, datagram: &mut [u8], ecn: EcnField, _waited: Duration) {
        let (now, mut answer) = (Instant::now(), Vec::new());
        let bytes = BytesMut::from(&*datagram);
        let ecn = EcnCodepoint::from_bits(ecn.bits()).filter(|_| self.uses_ecn);
        let event = self.endpoint.handle(now, self.remote, None, ecn, bytes, &mut answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.handle(event),
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                let accepted = self.endpoint.accept(incoming, now, &mut answer, None);
                self.connection = accepted.ok();
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => {
                answer.truncate(transmit.size);
                self.answers.push_back(answer);
            }
            None => {}
        }
        self.settle();
    }

    fn transmit(&mut self, out: &mut Vec<u8>) -> Option<(Instant, EcnField)> {
        let now = Instant::now();
        out.clear();
        if let Some(answer) = self.answers.pop_front() {
            *out = answer;
            return Some((now, EcnField::NotEct));
        }
        let (_, connection) = self.connection.as_mut()?;
        let transmit = connection.poll_transmit(now, 1, out);
        self.settle();
        let transmit = transmit?;
        out.truncate(transmit.size);
        let ecn = transmit.ecn.filter(|_| self.uses_ecn);
        Some((now, EcnField::from_bits(ecn.map_or(0, |ecn| ecn as u8))))
    }

    fn timeout(&mut self) -> Option<Instant> {
        self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout())
    }

    fn on_timeout(&mut self) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(Instant::now());
        }
        self.settle();
    }

    fn supply(&mut self, content: &Content, available: u64, last: bool) {
        if !self.is_requested() || self.written {
            return;
        }
        let (Some((_, connection)), Some(id)) = (&mut self.connection, self.stream) else {
            return;
        };
        let mut stream = connection.send_stream(id);
        while self.offset < available {
            let bytes = content.at(self.offset, available - self.offset);
            let Ok(taken) = stream.write(bytes) else { return };
            self.offset += taken as u64;
        }
        self.written = last && stream.finish().is_ok();
    }

    fn consume(&mut self, content: &Content) -> Result<Consumed, u64> {
        if let (Some((_, connection)), Some(id)) = (&mut self.connection, self.stream)
            && !self.consumed.finished
            && let Ok(mut chunks) = connection.recv_stream(id).read(true)
        {
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => {
                        if !content.matches(self.consumed.bytes, &chunk.bytes) {
                            return Err(self.consumed.bytes);
                        }
                        self.consumed.bytes += chunk.bytes.len() as u64;
                    }
                    Ok(None) => {
                        self.consumed.finished = true;
                        break;
                    }
                    Err(_) => break,
                }
            }
            let _ = chunks.finalize();
        }
        Ok(self.consumed)
    }

    fn is_requested(&mut self) -> bool {
        if let (Some((_, connection)), Some(id)) = (&mut self.connection, self.stream)
            && !self.requested
        {
            if let Ok(mut chunks) = connection.recv_stream(id).read(true) {
                while let Ok(Some(_)) = chunks.next(usize::MAX) {}
                let _ = chunks.finalize();
            }
            self.requested = true;
        }
        self.requested && self.stream.is_some()
    }

    fn send_datagram(&mut self, datagram: &[u8]) {
        if let Some((_, connection)) = &mut self.connection {
            // A queue that is full loses it, as an application would have to.
            let _ = connection.datagrams().send(Bytes::copy_from_slice(datagram), false);
        }
    }

    fn write_stream(
        &mut self,
        stream: u64,
        priority: u8,
        content: &Content,
        part: Range<u64>,
        last: bool,
    ) -> (u64, bool) {
        let Some((_, connection)) = &mut self.connection else { return (0, false) };
        let id = server_stream(stream);
        if self.opened <= stream {
            if connection.streams().open(Dir::Uni) != Some(id) {
                return (0, false);
            }
            self.opened = stream + 1;
            // Here the higher number goes first.
            let _ = connection.send_stream(id).set_priority(-i32::from(priority));
        }
        let mut sending = connection.send_stream(id);
        let mut offset = part.start;
        while offset < part.end {
            match sending.write(content.at(offset, part.end - offset)) {
                Ok(taken) => offset += taken as u64,
                Err(WriteError::Blocked) => return (offset - part.start, false),
                Err(_) => return (offset - part.start, true),
            }
        }
        (offset - part.start, last && sending.finish().is_ok())
    }

    fn read_datagram(&mut self) -> Option<Vec<u8>> {
        let (_, connection) = self.connection.as_mut()?;
        connection.datagrams().recv().map(|datagram| datagram.to_vec())
    }

    fn read_stream(&mut self, stream: u64, content: &Content, offset: u64) -> Result<u64, u64> {
        let Some((_, connection)) = &mut self.connection else { return Ok(offset) };
        let mut offset = offset;
        if let Ok(mut chunks) = connection.recv_stream(server_stream(stream)).read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                if !content.matches(offset, &chunk.bytes) {
                    return Err(offset);
                }
                offset += chunk.bytes.len() as u64;
            }
            let _ = chunks.finalize();
        }
        Ok(offset)
    }

    fn stop_stream(&mut self, stream: u64) -> bool {
        let Some((_, connection)) = &mut self.connection else { return false };
        connection.recv_stream(server_stream(stream)).stop(VarInt::from_u32(0)).is_ok()
    }

    fn is_open(&mut self) -> bool {
        self.stream.is_some()
    }

    fn read_bytes(&mut self, out: &mut [u8]) -> usize {
        let (Some((_, connection)), Some(id)) = (&mut self.connection, self.stream) else {
            return 0;
        };
        let mut receiving = connection.recv_stream(id);
        let Ok(mut chunks) = receiving.read(true) else { return 0 };
        let mut read = 0;
        while read < out.len()
            && let Ok(Some(chunk)) = chunks.next(out.len() - read)
        {
            out[read..read + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
            read += chunk.bytes.len();
        }
        let _ = chunks.finalize();
        read
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> usize {
        let (Some((_, connection)), Some(id)) = (&mut self.connection, self.stream) else {
            return 0;
        };
        connection.send_stream(id).write(bytes).unwrap_or_default()
    }

    fn min_rtt(&self) -> Option<Duration> {
        let (_, connection) = self.connection.as_ref()?;
        (!connection.is_handshaking()).then(|| connection.min_rtt())
    }

    fn closed(&self) -> Option<String> {
        self.lost.as_ref().map(ToString::to_string)
    }
}

/// A unidirectional stream of the server.
fn server_stream(number: u64) -> StreamId {
    StreamId::new(Side::Server, Dir::Uni, number)
}

/// Connection ids from a seed.
struct SeededIds {
    generator: Pcg64Mcg,
}

impl ConnectionIdGenerator for SeededIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; 8];
        self.generator.fill_bytes(&mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn client_config(
    transport: TransportConfig,
    key_log: &KeyLog,
    first_id: u64,
) -> Result<ClientConfig, Error> {
    let setup = Error::setup("quinn");
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| setup(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.key_log = Arc::new(Secrets(key_log.clone()));
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| setup(&error))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    let id = ConnectionId::new(&first_id.to_be_bytes());
    config.initial_dst_cid_provider(Arc::new(move || id));
    Ok(config)
}

fn server_config(transport: TransportConfig, key_log: &KeyLog) -> Result<ServerConfig, Error> {
    let setup = Error::setup("quinn");
    let identity = Identity::get()?;
    let certificate = identity.certificate.to_der().map_err(|error| setup(&error))?;
    let key = identity.key.private_key_to_der_pkcs8().map_err(|error| setup(&error))?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| setup(&error))?
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate)],
            PrivatePkcs8KeyDer::from(key).into(),
        )
        .map_err(|error| setup(&error))?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.key_log = Arc::new(Secrets(key_log.clone()));
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| setup(&error))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Hands rustls's secrets to the tap.
#[derive(Debug)]
struct Secrets(KeyLog);

impl rustls::KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        use std::io::Write;

        let hex = |bytes: &[u8]| {
            let digit = |value| char::from_digit(u32::from(value), 16).unwrap_or_default();
            let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
            digits.collect::<String>()
        };
        // A key log in memory takes everything.
        let _ = writeln!(self.0.clone(), "{label} {} {}", hex(client_random), hex(secret));
    }
}

/// Takes any certificate: nothing here authenticates anybody.
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
        _signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has no TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
