//! Which extensions the two ends agree on, by transport parameters.
//!
//! quiche has no interface to send parameters of our own, but BoringSSL lets the
//! encoded whole be replaced. What quiche would have sent is read from a
//! throw-away handshake of the same configuration; the parameters that differ
//! for each connection are then put in by hand (RFC 9000 section 18.2).

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use quiche::ConnectionId;
use tack_proto::transport_parameters::{
    self as parameters, Announced, ParameterError, Parameters,
};

use crate::boringssl;

/// The shortest delay of acknowledgements that ACK_FREQUENCY may ask us for:
/// about what an operating system's timers can do.
const MIN_ACK_DELAY: Duration = Duration::from_millis(1);

/// Ids of RFC 9000 section 18.2.
mod id {
    pub const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    pub const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub const MAX_ACK_DELAY: u64 = 0x0b;
    pub const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    pub const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
}

/// What a server's parameters say of its connection ids.
pub struct ServerIds<'a> {
    /// Destination of the client's first Initial.
    pub original_destination: &'a [u8],
    /// Source id of the Retry, if one was sent.
    pub retry_source: Option<&'a [u8]>,
    /// Token of the first source id.
    pub reset_token: Option<u128>,
}

/// Encoded transport parameters of a configuration, our announcement included,
/// without those that differ for each connection.
#[derive(Clone)]
pub struct Template {
    blob: Vec<u8>,
}

impl Template {
    /// Reads what quiche sends with this configuration; `None` if the TLS
    /// context does not let a handshake begin.
    pub fn capture(config: &mut quiche::Config) -> Option<Self> {
        let mut blob = first_flight_parameters(config)?;
        let (max_ack_delay, _) = ack_delays(&blob);
        parameters::remove(&mut blob, id::INITIAL_SOURCE_CONNECTION_ID).ok()?;
        Announced::all(min_ack_delay(max_ack_delay).as_micros() as u64, 0).encode(&mut blob);
        Some(Self { blob })
    }

    /// The parameters of a client.
    pub fn for_client(&self, scid: &ConnectionId<'_>) -> Option<Vec<u8>> {
        let mut blob = self.blob.clone();
        parameters::set(&mut blob, id::INITIAL_SOURCE_CONNECTION_ID, scid).ok()?;
        Some(blob)
    }

    /// The parameters of a server.
    pub fn for_server(&self, scid: &ConnectionId<'_>, ids: &ServerIds<'_>) -> Option<Vec<u8>> {
        let mut blob = self.for_client(scid)?;
        let original = ids.original_destination;
        parameters::set(&mut blob, id::ORIGINAL_DESTINATION_CONNECTION_ID, original).ok()?;
        if let Some(retry) = ids.retry_source {
            parameters::set(&mut blob, id::RETRY_SOURCE_CONNECTION_ID, retry).ok()?;
        }
        if let Some(token) = ids.reset_token {
            parameters::set(&mut blob, id::STATELESS_RESET_TOKEN, &token.to_be_bytes()).ok()?;
        }
        Some(blob)
    }
}

/// Changes the idle timeout in encoded parameters.
pub fn set_max_idle_timeout(
    blob: &mut Vec<u8>,
    milliseconds: u64,
) -> Result<(), ParameterError> {
    let mut value = Vec::new();
    tack_proto::varint::put(&mut value, milliseconds.min(tack_proto::varint::MAX));
    parameters::set(blob, id::MAX_IDLE_TIMEOUT, &value)
}

/// Our own `max_ack_delay` and `ack_delay_exponent`, with the RFC's defaults.
pub fn ack_delays(blob: &[u8]) -> (Duration, u32) {
    let (mut delay, mut exponent) = (25, 3);
    for (id, value) in Parameters::new(blob).flatten() {
        let Ok(value) = tack_proto::varint::Reader::new(value).read_varint() else { continue };
        match id {
            id::MAX_ACK_DELAY => delay = value,
            id::ACK_DELAY_EXPONENT => exponent = value.min(20) as u32,
            _ => {}
        }
    }
    (Duration::from_millis(delay), exponent)
}

/// What we announce as `min_ack_delay` beside this `max_ack_delay`, which it must
/// not exceed.
pub fn min_ack_delay(max_ack_delay: Duration) -> Duration {
    MIN_ACK_DELAY.min(max_ack_delay)
}

/// What was agreed with the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Both ends speak TACK: TACK, IACK, TIMESTAMP and the packet mark.
    pub tack: bool,
    /// The peer accepts ACK_FREQUENCY and IMMEDIATE_ACK, with this least delay.
    pub min_ack_delay: Option<Duration>,
    /// The peer's `max_ack_delay`.
    pub max_ack_delay: Duration,
    /// The peer's `ack_delay_exponent`.
    pub ack_delay_exponent: u32,
}

impl Agreement {
    /// Reads the peer's parameters; an error must close the connection with
    /// TRANSPORT_PARAMETER_ERROR.
    pub fn from_peer(blob: &[u8]) -> Result<Self, ParameterError> {
        let (max_ack_delay, ack_delay_exponent) = ack_delays(blob);
        let announced = parameters::parse(blob, max_ack_delay.as_micros() as u64)?;
        Ok(Self {
            tack: announced.tack_version().is_some(),
            min_ack_delay: announced.min_ack_delay_us.map(Duration::from_micros),
            max_ack_delay,
            ack_delay_exponent,
        })
    }
}

/// Runs a client's first flight into a server of the same configuration, and
/// reads the parameters there. Nothing leaves the process.
fn first_flight_parameters(config: &mut quiche::Config) -> Option<Vec<u8>> {
    let scid = ConnectionId::from_ref(&[0; 16]);
    let a = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let b = SocketAddr::from((Ipv4Addr::LOCALHOST, 2));
    let mut client = quiche::connect(None, &scid, a, b, config).ok()?;
    let mut server = quiche::accept(&scid, None, b, a, config).ok()?;
    let mut datagram = vec![0; 65536];
    // A ClientHello with a post-quantum key share spans two datagrams.
    while let Ok((len, _)) = client.send(&mut datagram) {
        let packet = &mut datagram[..len];
        // A configuration without a certificate fails here, after it has read
        // the parameters.
        let received = server.recv(packet, quiche::RecvInfo { from: a, to: b });
        if received == Err(quiche::Error::UnknownVersion) {
            // A client that begins with a reserved version wants to negotiate.
            let header = quiche::Header::from_slice(packet, scid.len()).ok()?;
            let mut offer = [0; 128];
            let len = quiche::negotiate_version(&header.scid, &header.dcid, &mut offer).ok()?;
            client.recv(&mut offer[..len], quiche::RecvInfo { from: b, to: a }).ok()?;
            server = quiche::accept(&scid, None, b, a, config).ok()?;
            continue;
        }
        let blob = boringssl::peer_transport_parameters(server.as_mut());
        if !blob.is_empty() {
            return Some(blob);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiche_config() -> quiche::Config {
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        config.set_application_protos(&[b"test"]).unwrap();
        config.set_max_ack_delay(42);
        config.set_initial_max_data(1_234_567);
        config
    }

    #[test]
    fn a_configuration_without_a_certificate_shows_its_parameters() {
        let template = Template::capture(&mut quiche_config()).unwrap();
        let (max_ack_delay, exponent) = ack_delays(&template.blob);
        assert_eq!((max_ack_delay, exponent), (Duration::from_millis(42), 3));
        let max_data = Parameters::new(&template.blob)
            .flatten()
            .find(|(id, _)| *id == 0x04)
            .map(|(_, value)| tack_proto::varint::Reader::new(value).read_varint().unwrap());
        assert_eq!(max_data, Some(1_234_567));
    }

    #[test]
    fn our_own_announcement_is_agreed_to() {
        let template = Template::capture(&mut quiche_config()).unwrap();
        let blob = template.for_client(&ConnectionId::from_ref(&[7; 8])).unwrap();
        let agreement = Agreement::from_peer(&blob).unwrap();
        assert!(agreement.tack);
        assert_eq!(agreement.min_ack_delay, Some(MIN_ACK_DELAY));
    }

    #[test]
    fn a_server_names_its_connection_ids() {
        let template = Template::capture(&mut quiche_config()).unwrap();
        let ids = ServerIds {
            original_destination: &[1; 9],
            retry_source: Some(&[2; 10]),
            reset_token: Some(3),
        };
        let blob = template.for_server(&ConnectionId::from_ref(&[4; 11]), &ids).unwrap();
        let value = |wanted: u64| {
            Parameters::new(&blob)
                .flatten()
                .find(|(id, _)| *id == wanted)
                .map(|(_, v)| v.to_vec())
        };
        assert_eq!(value(0x00), Some(vec![1; 9]));
        assert_eq!(value(0x10), Some(vec![2; 10]));
        assert_eq!(value(0x0f), Some(vec![4; 11]));
        assert_eq!(value(0x02), Some(3u128.to_be_bytes().to_vec()));
    }

    #[test]
    fn a_peer_without_our_parameters_gets_plain_quic() {
        let blob = first_flight_parameters(&mut quiche_config()).unwrap();
        let agreement = Agreement::from_peer(&blob).unwrap();
        assert!(!agreement.tack);
        assert_eq!(agreement.min_ack_delay, None);
    }
}
