//! Transport parameters of our own.
//!
//! What: the encoded transport parameters of a configuration, with our announcement. Why: quiche encodes
//! its parameters from a list that cannot be extended, but BoringSSL lets the encoded whole be replaced.
//! What quiche would have sent is read from a throw-away handshake of a client with the same configuration; the
//! parameters that differ for each connection are then put in by hand (RFC 9000 section 18.2). Upstream:
//! unknown parameters of the peer can be read, own ones cannot be sent. To delete: when quiche's
//! configuration takes further parameters.

use std::net::{Ipv4Addr, SocketAddr};

use boring::ssl::{SslContextBuilder, SslMethod};
use quiche::ConnectionId;
use tack_proto::transport_parameters::{
    self as parameters, Announced, ParameterError, Parameters,
};
use tack_proto::varint::Reader;

use super::inert_controller::ControllerLook;
use crate::boringssl;
use crate::negotiation::{ack_delays, id, min_ack_delay, set_integer};

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
    controller: ControllerLook,
}

impl Template {
    /// Reads what quiche sends with this configuration, and announces the extensions; `None` if the TLS
    /// context does not let a handshake begin.
    pub fn capture(config: &mut quiche::Config, wants_arrivals: bool) -> Option<Self> {
        let (mut blob, controller) = first_flight(config)?;
        let (max_ack_delay, _) = ack_delays(&blob);
        parameters::remove(&mut blob, id::INITIAL_SOURCE_CONNECTION_ID).ok()?;
        let least_delay = min_ack_delay(max_ack_delay).as_micros() as u64;
        let mut announced = Announced::all(least_delay, crate::random());
        // A peer without TACK has nothing to send that its timestamps would serve.
        announced.timestamp = None;
        announced.wants_arrivals = wants_arrivals;
        announced.encode(&mut blob);
        Some(Self { blob, controller })
    }

    /// quiche's controller in this configuration.
    pub fn controller(&self) -> ControllerLook {
        self.controller
    }

    /// Connection ids that the peer may issue.
    pub fn active_connection_id_limit(&self) -> u64 {
        let mut parameters = Parameters::new(&self.blob).flatten();
        let value = parameters.find(|(id, _)| *id == id::ACTIVE_CONNECTION_ID_LIMIT);
        // RFC 9000 section 18.2: 2 where it is absent.
        value.and_then(|(_, value)| Reader::new(value).read_varint().ok()).unwrap_or(2)
    }

    /// Changes a parameter that is an integer.
    pub fn set_integer(&mut self, parameter: u64, value: u64) -> Result<(), ParameterError> {
        set_integer(&mut self.blob, parameter, value)
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

/// Runs a client's first flight into a server, and reads the parameters there, and what the client shows of its
/// controller. Nothing leaves the process. The server is a plain one: callbacks of the application's TLS context know of
/// no client that names no server.
fn first_flight(config: &mut quiche::Config) -> Option<(Vec<u8>, ControllerLook)> {
    let scid = ConnectionId::from_ref(&[0; 16]);
    let a = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let b = SocketAddr::from((Ipv4Addr::LOCALHOST, 2));
    let mut client = quiche::connect(None, &scid, a, b, config).ok()?;
    // One of quiche's own would read the system's certificates for each configuration.
    let context = SslContextBuilder::new(SslMethod::tls()).ok()?;
    let version = quiche::PROTOCOL_VERSION;
    let mut plain = quiche::Config::with_boring_ssl_ctx_builder(version, context).ok()?;
    let mut server = quiche::accept(&scid, None, b, a, &mut plain).ok()?;
    let mut datagram = vec![0; 65536];
    // A ClientHello with a post-quantum key share spans two datagrams.
    while let Ok((len, _)) = client.send(&mut datagram) {
        let packet = &mut datagram[..len];
        // Without a certificate it fails here, after it has read the parameters.
        let received = server.recv(packet, quiche::RecvInfo { from: a, to: b });
        if received == Err(quiche::Error::UnknownVersion) {
            // A client that begins with a reserved version wants to negotiate.
            let header = quiche::Header::from_slice(packet, scid.len()).ok()?;
            let mut offer = [0; 128];
            let len = quiche::negotiate_version(&header.scid, &header.dcid, &mut offer).ok()?;
            client.recv(&mut offer[..len], quiche::RecvInfo { from: b, to: a }).ok()?;
            server = quiche::accept(&scid, None, b, a, &mut plain).ok()?;
            continue;
        }
        let blob = boringssl::peer_transport_parameters(server.as_mut());
        if !blob.is_empty() {
            return Some((blob, ControllerLook::of(&client)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::negotiation::{Agreement, MIN_ACK_DELAY};

    fn quiche_config() -> quiche::Config {
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        config.set_application_protos(&[b"test"]).unwrap();
        config.set_max_ack_delay(42);
        config.set_initial_max_data(1_234_567);
        config
    }

    #[test]
    fn a_configuration_without_a_certificate_shows_its_parameters() {
        let template = Template::capture(&mut quiche_config(), false).unwrap();
        let (max_ack_delay, exponent) = ack_delays(&template.blob);
        assert_eq!((max_ack_delay, exponent), (Duration::from_millis(42), 3));
        let max_data = Parameters::new(&template.blob)
            .flatten()
            .find(|(id, _)| *id == 0x04)
            .map(|(_, value)| Reader::new(value).read_varint().unwrap());
        assert_eq!(max_data, Some(1_234_567));
    }

    #[test]
    fn our_own_announcement_is_agreed_to() {
        let template = Template::capture(&mut quiche_config(), false).unwrap();
        let blob = template.for_client(&ConnectionId::from_ref(&[7; 8])).unwrap();
        let agreement = Agreement::from_peer(&blob).unwrap();
        assert!(agreement.tack);
        assert_eq!(agreement.min_ack_delay, Some(MIN_ACK_DELAY));
    }

    #[test]
    fn a_server_names_its_connection_ids() {
        let template = Template::capture(&mut quiche_config(), false).unwrap();
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
        let (blob, _) = first_flight(&mut quiche_config()).unwrap();
        let agreement = Agreement::from_peer(&blob).unwrap();
        assert!(!agreement.tack);
        assert_eq!(agreement.min_ack_delay, None);
    }
}
