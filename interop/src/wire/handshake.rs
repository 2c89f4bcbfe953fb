//! The handshake of one connection, opened with the keys of Initial packets and with the secrets in
//! a key log.

use std::collections::BTreeSet;

use serde::Serialize;
use tack_packet::{LongPacket, LongPacketType};
use tack_proto::frame::{Frame, Frames, Located};
use tack_proto::transport_parameters::{self, Announced as Announcement, Parameters};
use tack_proto::varint::Reader;
use tack_tap::Direction;

use super::crypto_stream::CryptoStream;
use super::handshake_keys::HandshakeKeys;
use super::secrets::secret_of;
use super::tls;

/// The transport parameter `initial_max_streams_bidi` (RFC 9000 section 18.2).
const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;

/// What the TLS messages of a handshake say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Greeting {
    /// The cipher suites that the client offered, in its order.
    pub offered: Vec<u16>,
    /// The cipher suite that the server chose; `None` if its ServerHello was not seen.
    pub chosen: Option<u16>,
    /// The server accepted a pre-shared key: it resumes a session.
    pub resumed: bool,
    /// The server sent a HelloRetryRequest.
    pub hello_retry_request: bool,
    /// The server sent its certificate.
    pub certificate: bool,
    /// The ids of the client's transport parameters.
    pub client_parameters: Vec<u64>,
    /// The ids of the server's transport parameters.
    pub server_parameters: Vec<u64>,
    /// How many bidirectional streams the server lets the client open at first; `None` if its
    /// transport parameters do not say.
    pub server_initial_max_streams_bidi: Option<u64>,
    /// What the client sent as 0-RTT data.
    pub early: EarlyData,
}

/// What 0-RTT packets contain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EarlyData {
    /// The server accepted it.
    pub accepted: bool,
    /// Packets opened.
    pub packets: u64,
    /// Packets that no key opened.
    pub undecryptable: u64,
    /// The streams with data in them.
    pub streams: BTreeSet<u64>,
    /// Extension frames, which are not allowed there.
    pub extension_frames: u64,
}

/// Follows the handshake of a connection.
#[derive(Default)]
pub struct Handshake {
    attempt: Attempt,
    /// The source connection ids of the server's Retry packets.
    retry_ids: Vec<Vec<u8>>,
    early: EarlyData,
    client_hellos: u64,
}

/// The part of a handshake that a Retry has the client repeat. Where the cipher suite is not known
/// yet, there are several keys.
#[derive(Default)]
struct Attempt {
    /// The destination connection id that the keys of Initial packets come from.
    initial_id: Option<Vec<u8>>,
    client_initial: Vec<HandshakeKeys>,
    server_initial: Vec<HandshakeKeys>,
    server_handshake: Vec<HandshakeKeys>,
    early: Vec<HandshakeKeys>,
    client_hello: CryptoStream,
    server_hello: CryptoStream,
    server_flight: CryptoStream,
    client_random: Option<[u8; 32]>,
}

impl Handshake {
    /// Looks into a packet. The key log has the secrets of the connection.
    pub fn packet(&mut self, direction: Direction, packet: &LongPacket<'_>, key_log: &str) {
        match (direction, packet.header.packet_type) {
            (Direction::ToServer, LongPacketType::Initial) => {
                self.client_initial(packet, key_log);
            }
            (Direction::ToServer, LongPacketType::ZeroRtt) => {
                match open(&mut self.attempt.early, packet) {
                    Some(payload) => self.early.note(&payload),
                    None => self.early.undecryptable += 1,
                }
            }
            (Direction::ToClient, LongPacketType::Initial) => {
                if let Some(payload) = open(&mut self.attempt.server_initial, packet) {
                    self.attempt.server_hello.take_from(&payload);
                }
            }
            (Direction::ToClient, LongPacketType::Handshake) => {
                if let Some(payload) = open(&mut self.attempt.server_handshake, packet) {
                    self.attempt.server_flight.take_from(&payload);
                }
            }
            (Direction::ToClient, LongPacketType::Retry) => {
                self.retry_ids.push(packet.header.scid.to_vec());
            }
            _ => {}
        }
    }

    /// The random of the ClientHello, by which a key log names the connection.
    pub const fn client_random(&self) -> Option<[u8; 32]> {
        self.attempt.client_random
    }

    /// The client's Initials that carry the beginning of a ClientHello: one for each time that it
    /// was sent, however many packets it takes.
    pub const fn client_hellos(&self) -> u64 {
        self.client_hellos
    }

    /// What the client announced; `None` if its ClientHello was not seen.
    pub fn client(&self) -> Option<Announcement> {
        let hello = tls::client_hello(&self.attempt.client_hello.contiguous())?;
        announcement(&hello.transport_parameters?)
    }

    /// What the server announced; `None` if its EncryptedExtensions were not seen.
    pub fn server(&self) -> Option<Announcement> {
        let flight = tls::server_flight(&self.attempt.server_flight.contiguous());
        announcement(&flight.transport_parameters?)
    }

    /// The length of the server's messages under handshake keys, in bytes.
    pub fn server_flight_bytes(&self) -> u64 {
        self.attempt.server_flight.contiguous().len() as u64
    }

    /// The application protocol that the server chose; `None` if that was not seen.
    pub fn protocol(&self) -> Option<String> {
        tls::server_flight(&self.attempt.server_flight.contiguous()).protocol
    }

    /// What the TLS messages say.
    pub fn greeting(&self) -> Greeting {
        let Attempt { client_hello, server_hello, server_flight, .. } = &self.attempt;
        let client = tls::client_hello(&client_hello.contiguous());
        let server = tls::server_hellos(&server_hello.contiguous());
        let chosen = server.iter().find(|hello| !hello.is_retry_request);
        let flight = tls::server_flight(&server_flight.contiguous());
        Greeting {
            chosen: chosen.map(|hello| hello.suite),
            resumed: chosen.is_some_and(|hello| hello.takes_psk),
            hello_retry_request: server.iter().any(|hello| hello.is_retry_request),
            certificate: flight.has_certificate,
            client_parameters: client
                .as_ref()
                .and_then(|hello| hello.transport_parameters.as_deref())
                .map_or_else(Vec::new, parameter_ids),
            offered: client.map_or_else(Vec::new, |hello| hello.suites),
            server_parameters: flight
                .transport_parameters
                .as_deref()
                .map_or_else(Vec::new, parameter_ids),
            server_initial_max_streams_bidi: flight
                .transport_parameters
                .as_deref()
                .and_then(initial_max_streams_bidi),
            early: EarlyData { accepted: flight.accepts_early_data, ..self.early.clone() },
        }
    }

    /// The client repeats its ClientHello until the Retry has reached it, and again to the id that
    /// the Retry gives, maybe with another random. Only an Initial to that id begins the handshake
    /// anew (RFC 9000 section 17.2.5.2).
    fn client_initial(&mut self, packet: &LongPacket<'_>, key_log: &str) {
        let answers_retry = self.retry_ids.iter().any(|id| id == packet.header.dcid)
            && self.attempt.initial_id.as_deref() != Some(packet.header.dcid);
        if self.attempt.initial_id.is_none() || answers_retry {
            let Some(attempt) = Attempt::new(packet) else { return };
            self.attempt = attempt;
        }
        if let Some(payload) = open(&mut self.attempt.client_initial, packet) {
            self.client_hellos += u64::from(begins_crypto_stream(&payload));
            self.attempt.hear_client(&payload, key_log);
        }
    }
}

impl Attempt {
    /// The attempt that an Initial of the client begins, if the keys from its id open it.
    fn new(packet: &LongPacket<'_>) -> Option<Self> {
        let mut client = HandshakeKeys::initial(packet.header.dcid, Direction::ToServer)?;
        client.open(packet)?;
        let server = HandshakeKeys::initial(packet.header.dcid, Direction::ToClient);
        Some(Self {
            initial_id: Some(packet.header.dcid.to_vec()),
            client_initial: vec![client],
            server_initial: server.into_iter().collect(),
            ..Self::default()
        })
    }

    fn hear_client(&mut self, payload: &[u8], key_log: &str) {
        self.client_hello.take_from(payload);
        if self.client_random.is_some() {
            return;
        }
        let Some(hello) = tls::client_hello(&self.client_hello.contiguous()) else { return };
        self.client_random = Some(hello.random);
        let keys = |label| {
            secret_of(key_log, label, &hello.random)
                .map_or_else(Vec::new, |secret| HandshakeKeys::handshake(&secret))
        };
        self.server_handshake = keys("SERVER_HANDSHAKE_TRAFFIC_SECRET");
        self.early = keys("CLIENT_EARLY_TRAFFIC_SECRET");
    }
}

fn open(keys: &mut [HandshakeKeys], packet: &LongPacket<'_>) -> Option<Vec<u8>> {
    keys.iter_mut().find_map(|keys| keys.open(packet))
}

fn announcement(parameters: &[u8]) -> Option<Announcement> {
    // The ends check whether max_ack_delay allows what is announced.
    transport_parameters::parse(parameters, u64::MAX).ok()
}

fn parameter_ids(parameters: &[u8]) -> Vec<u64> {
    Parameters::new(parameters).map_while(Result::ok).map(|(id, _)| id).collect()
}

fn initial_max_streams_bidi(parameters: &[u8]) -> Option<u64> {
    let mut parameters = Parameters::new(parameters).map_while(Result::ok);
    let (_, value) = parameters.find(|(id, _)| *id == INITIAL_MAX_STREAMS_BIDI)?;
    Reader::new(value).read_varint().ok()
}

/// Whether a packet carries the first byte of the TLS messages.
fn begins_crypto_stream(payload: &[u8]) -> bool {
    let mut frames = Frames::new(payload).map_while(Result::ok);
    frames.any(|located| {
        matches!(located.frame, Frame::Crypto { offset: 0, data_len } if data_len > 0)
    })
}

impl EarlyData {
    fn note(&mut self, payload: &[u8]) {
        self.packets += 1;
        for located in Frames::new(payload) {
            let Ok(Located { frame, .. }) = located else { break };
            self.extension_frames += u64::from(frame.is_extension());
            if let Frame::Stream(stream) = frame {
                self.streams.insert(stream.stream_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tack_packet::{Packet, packets};

    use super::*;

    const OLD: u8 = 1;
    const NEW: u8 = 2;
    const FIRST_ID: [u8; 8] = [0xaa; 8];
    const RETRY_ID: [u8; 8] = [0xbb; 8];
    const LATER_RETRY_ID: [u8; 8] = [0xcc; 8];
    const KEY_LOG: &str = "SERVER_HANDSHAKE_TRAFFIC_SECRET \
        0202020202020202020202020202020202020202020202020202020202020202 \
        0909090909090909090909090909090909090909090909090909090909090909\n";

    /// An Initial of the client with a whole ClientHello of that random.
    fn initial(id: &[u8], number: u8, random: u8) -> Vec<u8> {
        let hello = tls::tests::hello_of_a_client(random);
        let mut payload = vec![0x06, 0, 0x40, hello.len() as u8];
        payload.extend(hello);
        payload.resize(200, 0);
        HandshakeKeys::initial(id, Direction::ToServer)
            .unwrap()
            .seal_initial(id, number, &payload)
    }

    fn retry(id: &[u8]) -> Vec<u8> {
        [&[0xf0, 0, 0, 0, 1, 0, id.len() as u8][..], id, &[7; 30]].concat()
    }

    fn see(handshake: &mut Handshake, direction: Direction, datagram: &[u8]) {
        for packet in packets(datagram) {
            let Packet::Long(packet) = packet else { panic!("{packet:?}") };
            handshake.packet(direction, &packet, KEY_LOG);
        }
    }

    #[test]
    fn a_client_hello_repeated_while_the_retry_is_under_way_does_not_hide_the_new_one() {
        let mut handshake = Handshake::default();
        see(&mut handshake, Direction::ToServer, &initial(&FIRST_ID, 0, OLD));
        assert_eq!(handshake.client_random(), Some([OLD; 32]));
        see(&mut handshake, Direction::ToClient, &retry(&RETRY_ID));
        see(&mut handshake, Direction::ToServer, &initial(&FIRST_ID, 1, OLD));
        see(&mut handshake, Direction::ToServer, &initial(&RETRY_ID, 2, NEW));
        assert_eq!(handshake.client_random(), Some([NEW; 32]));
        assert_eq!(handshake.attempt.server_handshake.len(), 2, "keys of both fitting suites");
        see(&mut handshake, Direction::ToServer, &initial(&RETRY_ID, 3, NEW));
        assert_eq!(handshake.client_random(), Some([NEW; 32]));
    }

    #[test]
    fn the_retry_that_the_client_answers_counts_and_not_one_that_was_lost() {
        let mut handshake = Handshake::default();
        see(&mut handshake, Direction::ToServer, &initial(&FIRST_ID, 0, OLD));
        see(&mut handshake, Direction::ToClient, &retry(&RETRY_ID));
        see(&mut handshake, Direction::ToClient, &retry(&LATER_RETRY_ID));
        see(&mut handshake, Direction::ToServer, &initial(&LATER_RETRY_ID, 1, NEW));
        assert_eq!(handshake.client_random(), Some([NEW; 32]));
        let greeting = handshake.greeting();
        assert_eq!(greeting.offered, [0x1301, 0x1303]);
        assert_eq!(greeting.client_parameters, [1, 0x1b]);
    }

    #[test]
    fn a_client_hello_counts_as_often_as_its_beginning_is_sent() {
        let mut handshake = Handshake::default();
        let seal = |number, payload: &[u8]| {
            HandshakeKeys::initial(&FIRST_ID, Direction::ToServer)
                .unwrap()
                .seal_initial(&FIRST_ID, number, payload)
        };
        let padded = |frame: &[u8]| [frame, &[0; 60]].concat();
        see(&mut handshake, Direction::ToServer, &initial(&FIRST_ID, 0, OLD));
        assert_eq!(handshake.client_hellos(), 1);
        let ack = padded(&[0x02, 0, 0, 0, 0]);
        see(&mut handshake, Direction::ToServer, &seal(1, &ack));
        let end_alone = padded(&[0x06, 3, 1, 7]);
        see(&mut handshake, Direction::ToServer, &seal(2, &end_alone));
        assert_eq!(handshake.client_hellos(), 1, "neither begins it");
        let beginning_last = padded(&[0x06, 3, 1, 7, 0x06, 0, 3, 1, 0, 0]);
        see(&mut handshake, Direction::ToServer, &seal(3, &beginning_last));
        assert_eq!(handshake.client_hellos(), 2);
    }

    #[test]
    fn the_number_of_streams_is_read_from_its_parameter() {
        let limit = [0x01, 1, 9, 0x08, 2, 0x43, 0xe8, 0x09, 1, 3];
        assert_eq!(initial_max_streams_bidi(&limit), Some(1000));
        assert_eq!(initial_max_streams_bidi(&limit[..3]), None);
        assert_eq!(initial_max_streams_bidi(&[0x08, 0]), None);
    }

    #[test]
    fn an_initial_to_an_id_that_no_retry_gave_changes_nothing() {
        let mut handshake = Handshake::default();
        see(&mut handshake, Direction::ToServer, &initial(&FIRST_ID, 0, OLD));
        see(&mut handshake, Direction::ToServer, &initial(&RETRY_ID, 1, NEW));
        assert_eq!(handshake.client_random(), Some([OLD; 32]));
    }

    #[test]
    fn early_data_is_told_by_its_streams_and_by_frames_that_are_not_allowed() {
        let mut early = EarlyData::default();
        early.note(&[0x0a, 0, 2, b'h', b'i', 0x0a, 4, 1, b'!']);
        early.note(&[0x0a, 4, 1, b'!', 0x1f]);
        assert_eq!(early.packets, 2);
        assert_eq!(early.streams, BTreeSet::from([0, 4]));
        assert_eq!(early.extension_frames, 1);
    }
}
