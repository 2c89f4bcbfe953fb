//! What the ends announce of the extensions: their transport parameters, read from the TLS
//! handshake on the wire (RFC 9001 section 8.2). And what they agree to speak.

use std::collections::BTreeMap;

use tack_proto::frame::{Frame, Frames, Located};
use tack_proto::transport_parameters::{self, Announced as Announcement};
use tack_proto::varint::{Reader, Truncated};
use tack_tap::Direction;

use super::handshake_keys::HandshakeKeys;
use super::long_header::{LongKind, LongPacket};
use super::tls;

const CLIENT_HELLO: u8 = 1;
const ENCRYPTED_EXTENSIONS: u8 = 8;
/// The TLS extension `quic_transport_parameters`.
const TRANSPORT_PARAMETERS: u16 = 0x39;
/// The TLS extension `application_layer_protocol_negotiation` (RFC 7301).
const ALPN: u16 = 0x10;
/// Longer than any ClientHello: what lies behind is not collected.
const LONGEST_HELLO: u64 = 64 << 10;

/// Reads the announcements of both ends out of long-header packets.
#[derive(Default)]
pub struct Handshake {
    /// Of the client's Initials. More than one after a Retry: its id gives new keys.
    client_keys: Vec<HandshakeKeys>,
    /// Of the server's Handshake packets, one for each suite that may have been agreed on.
    server_keys: Vec<HandshakeKeys>,
    client: CryptoStream,
    server: CryptoStream,
}

impl Handshake {
    /// Takes the secret under which the server's handshake packets are.
    pub fn take_secret(&mut self, secret: &[u8]) {
        self.server_keys = HandshakeKeys::handshake(secret);
    }

    /// What the key log calls the connection by; `None` before the ClientHello was seen.
    pub fn client_random(&self) -> Option<[u8; 32]> {
        tls::client_hello(&self.client.contiguous()).map(|hello| hello.random)
    }

    /// Looks into a packet.
    pub fn packet(&mut self, direction: Direction, packet: &LongPacket<'_>) {
        match (direction, packet.kind) {
            (Direction::ToServer, LongKind::Initial) => {
                if let Some(payload) = self.open_initial(packet) {
                    self.client.take_from(&payload);
                }
            }
            (Direction::ToClient, LongKind::Handshake) => {
                let opened = self.server_keys.iter_mut().find_map(|keys| keys.open(packet));
                if let Some(payload) = opened {
                    self.server.take_from(&payload);
                }
            }
            _ => {}
        }
    }

    /// What the client announced; `None` if its ClientHello was not seen.
    pub fn client(&self) -> Option<Announcement> {
        announcement(&self.client.contiguous(), CLIENT_HELLO)
    }

    /// What the server announced; `None` if its EncryptedExtensions were not seen.
    pub fn server(&self) -> Option<Announcement> {
        announcement(&self.server.contiguous(), ENCRYPTED_EXTENSIONS)
    }

    /// How long the server's messages under handshake keys are, in bytes.
    pub fn server_flight_bytes(&self) -> u64 {
        self.server.contiguous().len() as u64
    }

    /// The application protocol that the server chose; `None` if that was not seen.
    pub fn protocol(&self) -> Option<String> {
        let stream = self.server.contiguous();
        let list = extension(&stream, ENCRYPTED_EXTENSIONS, ALPN).ok().flatten()?;
        chosen(list).ok()
    }

    fn open_initial(&mut self, packet: &LongPacket<'_>) -> Option<Vec<u8>> {
        if let Some(payload) = self.client_keys.iter_mut().find_map(|keys| keys.open(packet)) {
            return Some(payload);
        }
        let mut keys = HandshakeKeys::initial(packet.dcid, Direction::ToServer)?;
        let payload = keys.open(packet)?;
        self.client_keys.push(keys);
        Some(payload)
    }
}

/// The bytes of CRYPTO frames, which come in any order and more than once.
#[derive(Default)]
pub struct CryptoStream(BTreeMap<u64, Vec<u8>>);

impl CryptoStream {
    /// Takes the CRYPTO frames among those of a packet.
    pub fn take_from(&mut self, payload: &[u8]) {
        for located in Frames::new(payload).map_while(Result::ok) {
            let Located { frame: Frame::Crypto { offset, data_len }, range } = located else {
                continue;
            };
            if offset.saturating_add(data_len) > LONGEST_HELLO {
                continue;
            }
            let data = &payload[range.end - data_len as usize..range.end];
            let known = self.0.entry(offset).or_default();
            if known.len() < data.len() {
                *known = data.to_vec();
            }
        }
    }

    /// Everything before the first hole.
    pub fn contiguous(&self) -> Vec<u8> {
        let mut stream: Vec<u8> = Vec::new();
        for (&offset, data) in &self.0 {
            let Some(new) = (stream.len() as u64).checked_sub(offset) else { break };
            stream.extend(data.iter().skip(new as usize));
        }
        stream
    }
}

/// The announcement in the first handshake message of that type.
fn announcement(stream: &[u8], message_type: u8) -> Option<Announcement> {
    let parameters = extension(stream, message_type, TRANSPORT_PARAMETERS).ok().flatten()?;
    // Whether max_ack_delay allows what is announced is for the ends to check.
    transport_parameters::parse(parameters, u64::MAX).ok()
}

/// The only entry in the server's list.
fn chosen(list: &[u8]) -> Result<String, Truncated> {
    let mut reader = Reader::new(list);
    let _whole = reader.read_u16()?;
    let len = reader.read_u8()?;
    Ok(String::from_utf8_lossy(reader.take(len.into())?).into_owned())
}

/// That extension in the first handshake message of that type.
fn extension(stream: &[u8], message_type: u8, wanted: u16) -> Result<Option<&[u8]>, Truncated> {
    let mut reader = Reader::new(stream);
    while reader.remaining() > 0 {
        let found = reader.read_u8()?;
        let len = usize::from(reader.read_u8()?) << 16 | usize::from(reader.read_u16()?);
        let mut body = Reader::new(reader.take(len)?);
        if found != message_type {
            continue;
        }
        if message_type == CLIENT_HELLO {
            body.take(2 + 32)?; // version and random
            let session_id = body.read_u8()?;
            body.take(session_id.into())?;
            let suites = body.read_u16()?;
            body.take(suites.into())?;
            let compression = body.read_u8()?;
            body.take(compression.into())?;
        }
        let extensions = body.read_u16()?;
        return find(body.take(extensions.into())?, wanted);
    }
    Ok(None)
}

fn find(extensions: &[u8], wanted: u16) -> Result<Option<&[u8]>, Truncated> {
    let mut reader = Reader::new(extensions);
    while reader.remaining() > 0 {
        let id = reader.read_u16()?;
        let len = reader.read_u16()?;
        let value = reader.take(len.into())?;
        if id == wanted {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `min_ack_delay` of 1000 us.
    const PARAMETERS: [u8; 11] = [0xc0, 0, 0, 0, 0xff, 0x04, 0xde, 0x1b, 2, 0x43, 0xe8];

    fn encrypted_extensions() -> Vec<u8> {
        let mut extensions = vec![0, 0x10, 0, 5, 0, 3, 2, b'h', b'3'];
        extensions.extend([0, 0x39, 0, PARAMETERS.len() as u8]);
        extensions.extend(PARAMETERS);
        let len = extensions.len() as u8;
        [&[ENCRYPTED_EXTENSIONS, 0, 0, len + 2, 0, len][..], &extensions].concat()
    }

    #[test]
    fn min_ack_delay_is_found_among_the_extensions() {
        let found = announcement(&encrypted_extensions(), ENCRYPTED_EXTENSIONS).unwrap();
        assert_eq!(found.min_ack_delay_us, Some(1000));
        assert_eq!(found.tack_version(), None);
    }

    #[test]
    fn the_chosen_protocol_is_found_among_the_extensions() {
        let mut handshake = Handshake::default();
        assert_eq!(handshake.protocol(), None);
        handshake.server.0.insert(0, encrypted_extensions());
        assert_eq!(handshake.protocol().as_deref(), Some("h3"));
    }

    #[test]
    fn a_message_that_has_not_come_whole_says_nothing() {
        let message = encrypted_extensions();
        for len in 0..message.len() {
            assert_eq!(announcement(&message[..len], ENCRYPTED_EXTENSIONS), None);
        }
        assert_eq!(announcement(&message, CLIENT_HELLO), None);
    }

    #[test]
    fn crypto_frames_are_put_in_order_up_to_the_first_hole() {
        let mut stream = CryptoStream::default();
        stream.take_from(&[0x06, 3, 2, 3, 4, 0x06, 0, 2, 0, 1]);
        assert_eq!(stream.contiguous(), [0, 1]);
        stream.take_from(&[0x06, 1, 3, 1, 2, 3]);
        assert_eq!(stream.contiguous(), [0, 1, 2, 3, 4]);
    }
}
