//! Every handshake on the wire: one for each connection, told apart by which keys open what.

use std::collections::BTreeSet;

use serde::Serialize;
use tack_packet::{LongPacket, LongPacketType};
use tack_proto::frame::{Frame, Frames, Located};
use tack_tap::Direction;

use super::announced::CryptoStream;
use super::handshake_keys::HandshakeKeys;
use super::secrets::secret_of;
use super::tls;

/// What was seen of a connection's handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Greeting {
    /// The numbers of the cipher suites that the client offered, in its order.
    pub offered: Vec<u16>,
    /// The number of the one that the server chose; `None` if its hello was not seen.
    pub chosen: Option<u16>,
    /// The server took a pre-shared key: it resumes a session.
    pub resumed: bool,
    /// The server sent its certificate.
    pub certificate: bool,
    /// The ids of the client's transport parameters.
    pub client_parameters: Vec<u64>,
    /// The ids of the server's transport parameters.
    pub server_parameters: Vec<u64>,
    /// What the client sent before it had an answer.
    pub early: EarlyData,
}

/// What was in 0-RTT packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EarlyData {
    /// The server took it.
    pub accepted: bool,
    /// Packets opened.
    pub packets: u64,
    /// Packets that no key opened.
    pub undecryptable: u64,
    /// The streams with data in them.
    pub streams: BTreeSet<u64>,
    /// Extension frames, which do not belong there.
    pub extension_frames: u64,
}

/// Follows all handshakes.
pub struct Handshakes<'log> {
    key_log: &'log str,
    flows: Vec<Flow>,
}

impl<'log> Handshakes<'log> {
    /// Handshakes whose secrets are in the key log.
    pub const fn new(key_log: &'log str) -> Self {
        Self { key_log, flows: Vec::new() }
    }

    /// Looks into a packet.
    pub fn packet(&mut self, direction: Direction, packet: &LongPacket<'_>) {
        match (direction, packet.header.packet_type) {
            (Direction::ToServer, LongPacketType::Initial) => self.client_initial(packet),
            (Direction::ToServer, LongPacketType::ZeroRtt) => {
                if let Some((flow, payload)) = self.open(packet, |flow| &mut flow.early_keys) {
                    flow.early.note(&payload);
                } else if let Some(flow) = self.flows.last_mut() {
                    flow.early.undecryptable += 1;
                }
            }
            (Direction::ToClient, LongPacketType::Initial) => {
                if let Some((flow, payload)) =
                    self.open(packet, |flow| &mut flow.server_initial)
                {
                    flow.server_hello.take_from(&payload);
                }
            }
            (Direction::ToClient, LongPacketType::Handshake) => {
                if let Some((flow, payload)) =
                    self.open(packet, |flow| &mut flow.handshake_keys)
                {
                    flow.server_flight.take_from(&payload);
                }
            }
            (Direction::ToClient, LongPacketType::Retry) => {
                if let Some(flow) = self.flows.last_mut() {
                    // One, and no more: RFC 9000 section 17.2.5.2.
                    flow.retried_to.get_or_insert_with(|| packet.header.scid.to_vec());
                }
            }
            _ => {}
        }
    }

    /// What was seen, in the order in which the connections began.
    pub fn greetings(&self) -> Vec<Greeting> {
        self.flows.iter().map(Flow::greeting).collect()
    }

    fn client_initial(&mut self, packet: &LongPacket<'_>) {
        let key_log = self.key_log;
        if let Some((flow, payload)) = self.open(packet, |flow| &mut flow.client_initial) {
            flow.hear_client(&payload, key_log);
            return;
        }
        let keys = |direction| HandshakeKeys::initial(packet.header.dcid, direction);
        let Some(mut client) = keys(Direction::ToServer) else { return };
        let Some(payload) = client.open(packet) else { return };
        // A Retry makes the client begin again, with what the server calls itself there.
        let retried = |flow: &Flow| flow.retried_to.as_deref() == Some(packet.header.dcid);
        let at = self.flows.iter().position(retried).unwrap_or_else(|| {
            self.flows.push(Flow::default());
            self.flows.len() - 1
        });
        let flow = &mut self.flows[at];
        flow.client_initial = vec![client];
        flow.server_initial = keys(Direction::ToClient).into_iter().collect();
        flow.hear_client(&payload, key_log);
    }

    /// The connection with keys that open the packet, and the frames in it.
    fn open(
        &mut self,
        packet: &LongPacket<'_>,
        keys: impl Fn(&mut Flow) -> &mut Vec<HandshakeKeys>,
    ) -> Option<(&mut Flow, Vec<u8>)> {
        // What connections say follows one upon the other: most likely it is the last.
        self.flows.iter_mut().rev().find_map(|flow| {
            let payload = keys(flow).iter_mut().find_map(|keys| keys.open(packet))?;
            Some((flow, payload))
        })
    }
}

/// One connection. Of keys there are several where the suite is not known.
#[derive(Default)]
struct Flow {
    client_initial: Vec<HandshakeKeys>,
    server_initial: Vec<HandshakeKeys>,
    /// The server's.
    handshake_keys: Vec<HandshakeKeys>,
    early_keys: Vec<HandshakeKeys>,
    client_hello: CryptoStream,
    server_hello: CryptoStream,
    server_flight: CryptoStream,
    early: EarlyData,
    retried_to: Option<Vec<u8>>,
}

impl Flow {
    fn hear_client(&mut self, payload: &[u8], key_log: &str) {
        self.client_hello.take_from(payload);
        if !self.handshake_keys.is_empty() {
            return;
        }
        let Some(hello) = tls::client_hello(&self.client_hello.contiguous()) else { return };
        let keys = |label| {
            secret_of(key_log, label, &hello.random)
                .map_or_else(Vec::new, |secret| HandshakeKeys::handshake(&secret))
        };
        self.handshake_keys = keys("SERVER_HANDSHAKE_TRAFFIC_SECRET");
        self.early_keys = keys("CLIENT_EARLY_TRAFFIC_SECRET");
    }

    fn greeting(&self) -> Greeting {
        let client = tls::client_hello(&self.client_hello.contiguous());
        let server = tls::server_hello(&self.server_hello.contiguous());
        let flight = tls::server_flight(&self.server_flight.contiguous());
        let (offered, client_parameters) =
            client.map_or_else(Default::default, |hello| (hello.suites, hello.parameters));
        Greeting {
            offered,
            chosen: server.map(|hello| hello.suite),
            resumed: server.is_some_and(|hello| hello.takes_psk),
            certificate: flight.has_certificate,
            client_parameters,
            server_parameters: flight.parameters,
            early: EarlyData { accepted: flight.accepts_early_data, ..self.early.clone() },
        }
    }
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
    use super::*;

    #[test]
    fn early_data_is_told_by_its_streams_and_what_does_not_belong_there() {
        let mut early = EarlyData::default();
        early.note(&[0x0a, 0, 2, b'h', b'i', 0x0a, 4, 1, b'!']);
        early.note(&[0x0a, 4, 1, b'!', 0x1f]);
        assert_eq!(early.packets, 2);
        assert_eq!(early.streams, BTreeSet::from([0, 4]));
        assert_eq!(early.extension_frames, 1);
    }
}
