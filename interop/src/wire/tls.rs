//! TLS 1.3 handshake messages (RFC 8446 section 4), as far as a verdict needs them.

use tack_proto::varint::{Reader, Truncated};

mod message {
    pub const CLIENT_HELLO: u8 = 1;
    pub const SERVER_HELLO: u8 = 2;
    pub const ENCRYPTED_EXTENSIONS: u8 = 8;
    pub const CERTIFICATE: u8 = 11;
}

mod extension {
    pub const APPLICATION_LAYER_PROTOCOL_NEGOTIATION: u16 = 16;
    pub const PRE_SHARED_KEY: u16 = 41;
    pub const EARLY_DATA: u16 = 42;
    pub const QUIC_TRANSPORT_PARAMETERS: u16 = 57;
}

/// The random of a ServerHello that is a HelloRetryRequest (RFC 8446 section 4.1.3).
const HELLO_RETRY_REQUEST: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8,
    0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8,
    0x33, 0x9c,
];

/// What a ClientHello says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// The name of the connection in a key log.
    pub random: [u8; 32],
    /// The cipher suites offered, in the client's order.
    pub suites: Vec<u16>,
    /// The list of transport parameters, if there is one.
    pub transport_parameters: Option<Vec<u8>>,
}

/// What a ServerHello says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHello {
    /// The cipher suite chosen.
    pub suite: u16,
    /// The session is resumed.
    pub takes_psk: bool,
    /// It is a HelloRetryRequest.
    pub is_retry_request: bool,
}

/// What the server says under the handshake keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFlight {
    /// The list of transport parameters, if there is one.
    pub transport_parameters: Option<Vec<u8>>,
    /// The application protocol.
    pub protocol: Option<String>,
    /// Early data is accepted.
    pub accepts_early_data: bool,
    /// A Certificate message is among the messages.
    pub has_certificate: bool,
}

/// The last ClientHello in the client's stream: after a HelloRetryRequest there are two.
pub fn client_hello(stream: &[u8]) -> Option<ClientHello> {
    let (_, body) =
        messages(stream).filter(|(kind, _)| *kind == message::CLIENT_HELLO).last()?;
    read_client_hello(body).ok()
}

/// The ServerHello messages in the server's stream: a HelloRetryRequest may be the first.
pub fn server_hellos(stream: &[u8]) -> Vec<ServerHello> {
    messages(stream)
        .filter(|(kind, _)| *kind == message::SERVER_HELLO)
        .filter_map(|(_, body)| read_server_hello(body).ok())
        .collect()
}

/// What is there of the server's messages under the handshake keys.
pub fn server_flight(stream: &[u8]) -> ServerFlight {
    let mut flight = ServerFlight::default();
    for (kind, body) in messages(stream) {
        match kind {
            message::ENCRYPTED_EXTENSIONS => {
                for (id, value) in extensions(&mut Reader::new(body)).unwrap_or_default() {
                    match id {
                        extension::EARLY_DATA => flight.accepts_early_data = true,
                        extension::QUIC_TRANSPORT_PARAMETERS => {
                            flight.transport_parameters = Some(value.to_vec());
                        }
                        extension::APPLICATION_LAYER_PROTOCOL_NEGOTIATION => {
                            flight.protocol = chosen_protocol(value).ok();
                        }
                        _ => {}
                    }
                }
            }
            message::CERTIFICATE => flight.has_certificate = true,
            _ => {}
        }
    }
    flight
}

/// The messages of a stream that are there whole: type and body.
fn messages(stream: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut reader = Reader::new(stream);
    std::iter::from_fn(move || {
        let kind = reader.read_u8().ok()?;
        let len =
            usize::from(reader.read_u8().ok()?) << 16 | usize::from(reader.read_u16().ok()?);
        Some((kind, reader.take(len).ok()?))
    })
}

fn read_client_hello(body: &[u8]) -> Result<ClientHello, Truncated> {
    let mut reader = Reader::new(body);
    reader.take(2)?; // version
    let random = *reader.take_array()?;
    let session_id = reader.read_u8()?;
    reader.take(session_id.into())?;
    let len = reader.read_u16()?;
    let suites = reader.take(len.into())?;
    let suites =
        suites.chunks_exact(2).map(|suite| u16::from_be_bytes([suite[0], suite[1]])).collect();
    let compression = reader.read_u8()?;
    reader.take(compression.into())?;
    let transport_parameters = extensions(&mut reader)?
        .into_iter()
        .find(|(id, _)| *id == extension::QUIC_TRANSPORT_PARAMETERS)
        .map(|(_, value)| value.to_vec());
    Ok(ClientHello { random, suites, transport_parameters })
}

fn read_server_hello(body: &[u8]) -> Result<ServerHello, Truncated> {
    let mut reader = Reader::new(body);
    reader.take(2)?; // version
    let is_retry_request = *reader.take_array()? == HELLO_RETRY_REQUEST;
    let session_id = reader.read_u8()?;
    reader.take(session_id.into())?;
    let suite = reader.read_u16()?;
    reader.read_u8()?; // compression
    let extensions = extensions(&mut reader)?;
    let takes_psk = extensions.iter().any(|(id, _)| *id == extension::PRE_SHARED_KEY);
    Ok(ServerHello { suite, takes_psk, is_retry_request })
}

fn extensions<'a>(reader: &mut Reader<'a>) -> Result<Vec<(u16, &'a [u8])>, Truncated> {
    let len = reader.read_u16()?;
    let mut list = Reader::new(reader.take(len.into())?);
    let mut found = Vec::new();
    while list.remaining() > 0 {
        let id = list.read_u16()?;
        let len = list.read_u16()?;
        found.push((id, list.take(len.into())?));
    }
    Ok(found)
}

/// The only entry in the server's list (RFC 7301 section 3.1).
fn chosen_protocol(list: &[u8]) -> Result<String, Truncated> {
    let mut reader = Reader::new(list);
    reader.read_u16()?; // length of the list
    let len = reader.read_u8()?;
    Ok(String::from_utf8_lossy(reader.take(len.into())?).into_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind, 0, 0, body.len() as u8], body].concat()
    }

    fn list(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut list = Vec::new();
        for (id, value) in extensions {
            list.extend(id.to_be_bytes());
            list.extend((value.len() as u16).to_be_bytes());
            list.extend(*value);
        }
        [&(list.len() as u16).to_be_bytes()[..], &list].concat()
    }

    pub fn hello_of_a_client(random: u8) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([random; 32]);
        body.extend([0, 0, 4, 0x13, 0x01, 0x13, 0x03, 1, 0]);
        body.extend(list(&[(43, &[]), (57, &[1, 1, 9, 0x1b, 0])]));
        message(1, &body)
    }

    fn hello_of_a_server(random: [u8; 32], extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend(random);
        body.extend([0, 0x13, 0x03, 0]);
        body.extend(list(extensions));
        message(2, &body)
    }

    #[test]
    fn a_client_hello_tells_random_suites_and_parameters() {
        let hello = client_hello(&hello_of_a_client(5)).unwrap();
        assert_eq!(hello.random, [5; 32]);
        assert_eq!(hello.suites, [0x1301, 0x1303]);
        assert_eq!(hello.transport_parameters.as_deref(), Some(&[1, 1, 9, 0x1b, 0][..]));
    }

    #[test]
    fn the_last_hello_counts_and_one_cut_short_is_none() {
        let two = [hello_of_a_client(5), hello_of_a_client(6)].concat();
        assert_eq!(client_hello(&two).unwrap().random, [6; 32]);
        assert_eq!(client_hello(&two[..two.len() - 1]).unwrap().random, [5; 32]);
        assert_eq!(client_hello(&two[..20]), None);
    }

    #[test]
    fn a_server_that_resumes_names_the_pre_shared_key() {
        let full = hello_of_a_server([7; 32], &[(51, &[1, 2])]);
        let expected = ServerHello { suite: 0x1303, takes_psk: false, is_retry_request: false };
        assert_eq!(server_hellos(&full), [expected]);
        let resumed = hello_of_a_server([7; 32], &[(51, &[1, 2]), (41, &[0, 0])]);
        assert!(server_hellos(&resumed)[0].takes_psk);
    }

    #[test]
    fn a_hello_retry_request_is_told_by_its_random() {
        let request = hello_of_a_server(HELLO_RETRY_REQUEST, &[(51, &[0, 0x1d])]);
        let both = [request, hello_of_a_server([7; 32], &[(51, &[1, 2])])].concat();
        let found: Vec<_> =
            server_hellos(&both).iter().map(|hello| hello.is_retry_request).collect();
        assert_eq!(found, [true, false]);
    }

    #[test]
    fn the_server_s_flight_tells_a_certificate_and_early_data() {
        let protocol = [0, 3, 2, b'h', b'3'];
        let extensions = message(8, &list(&[(16, &protocol), (42, &[]), (57, &[0x1b, 0])]));
        let resumed = server_flight(&extensions);
        assert!(resumed.accepts_early_data && !resumed.has_certificate);
        assert_eq!(resumed.transport_parameters.as_deref(), Some(&[0x1b, 0][..]));
        assert_eq!(resumed.protocol.as_deref(), Some("h3"));
        let full = [message(8, &list(&[])), message(11, &[0; 9])].concat();
        let full = server_flight(&full);
        assert!(full.has_certificate && !full.accepts_early_data);
    }
}
