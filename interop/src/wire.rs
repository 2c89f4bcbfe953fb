//! What was on the wire: everything that both ends sent, opened with the key log of our end.

mod announced;
mod closing;
mod connection;
mod connections;
mod handshake_keys;
mod handshakes;
mod long_header;
mod recorder;
mod secrets;
mod signals;
mod tls;
mod trace;
mod validation;

use std::time::Duration;

use serde::Serialize;
use tack_proto::transport_parameters::Announced as Announcement;
use tack_tap::{Direction, TapCounters};

pub use self::closing::Close;
pub use self::connection::{PathSeen, Seen as ConnectionSeen};
use self::connections::Connections;
use self::handshakes::Handshakes;
pub use self::handshakes::{EarlyData, Greeting};
use self::long_header::{LongKind, Packet, packets};
pub use self::recorder::{Event, Passage, Recorder};
pub use self::signals::{Frequency, Signals};
pub use self::validation::Amplification;

/// What one end announced of the extensions, in its transport parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Announced {
    /// It speaks this project's version of TACK.
    pub tack: bool,
    /// It takes ACK_FREQUENCY and IMMEDIATE_ACK; its `min_ack_delay` in microseconds.
    pub min_ack_delay_us: Option<u64>,
    /// It takes TIMESTAMP.
    pub timestamp: bool,
}

/// Connections as seen between their ends: what is not said to be of one is of all together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Observation {
    /// What the client sent in 1-RTT packets.
    pub to_server: TapCounters,
    /// What the server sent in 1-RTT packets.
    pub to_client: TapCounters,
    /// What the client announced on the first connection; `None` if it could not be read.
    pub client: Option<Announced>,
    /// What the server announced on the first connection; `None` if it could not be read.
    pub server: Option<Announced>,
    /// Each connection, in the order in which they began.
    pub connections: Vec<ConnectionSeen>,
    /// Datagrams to the server that belong to no connection.
    pub strays_to_server: u64,
    /// Datagrams to the client that belong to no connection.
    pub strays_to_client: u64,
    /// The application protocol that the server chose; `None` if it could not be read.
    pub protocol: Option<String>,
    /// What the client asked of the server, and how that answered.
    pub asked_of_server: Signals,
    /// What the server asked of the client, and how that answered.
    pub asked_of_client: Signals,
    /// The handshake of each connection.
    pub greetings: Vec<Greeting>,
    /// Retry packets that the server sent.
    pub retries: u64,
    /// Initials of the client with a token.
    pub initials_with_token: u64,
    /// From the first packet with data to the last, in seconds, whoever sent it.
    pub data_seconds: f64,
}

impl Observation {
    /// What was sent in one direction.
    pub const fn counters(&self, direction: Direction) -> &TapCounters {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }

    /// Datagrams in that direction that belong to no connection.
    pub const fn strays(&self, direction: Direction) -> u64 {
        match direction {
            Direction::ToServer => self.strays_to_server,
            Direction::ToClient => self.strays_to_client,
        }
    }

    const fn strays_mut(&mut self, direction: Direction) -> &mut u64 {
        match direction {
            Direction::ToServer => &mut self.strays_to_server,
            Direction::ToClient => &mut self.strays_to_client,
        }
    }

    /// What the sender of what goes in that direction asked for.
    pub const fn asked(&self, direction: Direction) -> &Signals {
        match direction {
            Direction::ToServer => &self.asked_of_server,
            Direction::ToClient => &self.asked_of_client,
        }
    }

    /// What the end announced to which packets go in that direction.
    pub const fn receiver(&self, direction: Direction) -> Option<Announced> {
        match direction {
            Direction::ToServer => self.server,
            Direction::ToClient => self.client,
        }
    }
}

/// Opens what was recorded between clients and that server, and describes each packet in a line of
/// `trace`.
pub fn observe(
    record: &[Event],
    server: u32,
    key_log: &str,
    trace: &mut String,
) -> Observation {
    let mut connections = Connections::new(key_log);
    let mut handshakes = Handshakes::new(key_log);
    let mut seen = Observation::default();
    let mut data = None;
    let first = record.first().map_or(Duration::ZERO, Event::at);
    for event in record {
        let passage = match event {
            Event::Sent(passage) if passage.server == server => passage,
            Event::Arrived(passage) if passage.server == server => {
                connections.arrived(passage);
                continue;
            }
            _ => continue,
        };
        let Passage { at, direction, ref bytes, .. } = *passage;
        let since = at.saturating_sub(first);
        for packet in packets(bytes) {
            if let Packet::Long(packet) = packet {
                handshakes.packet(direction, &packet);
                seen.retries += u64::from(packet.kind == LongKind::Retry);
                let with_token = packet.kind == LongKind::Initial && !packet.token.is_empty();
                seen.initials_with_token += u64::from(with_token);
            }
        }
        let before = connections.find(passage).map(|of| connections.counters(of, direction));
        let before = before.unwrap_or_default();
        let number = connections.sent(passage, since);
        let after = number.map_or(before, |of| connections.counters(of, direction));
        if after.data_packets > before.data_packets {
            let (first, _) = data.unwrap_or((at, at));
            data = Some((first, at));
        }
        if number.is_none() {
            *seen.strays_mut(direction) += 1;
        }
        trace::line(trace, number.map_or(0, |number| number + 1), passage, &before, &after);
    }
    for connection in connections.into_all() {
        let (connection, protocol, of_server, of_client) = connection.into_seen();
        seen.to_server += connection.to_server;
        seen.to_client += connection.to_client;
        seen.asked_of_server += of_server;
        seen.asked_of_client += of_client;
        seen.client = seen.client.or(connection.client);
        seen.server = seen.server.or(connection.server);
        seen.protocol = seen.protocol.or(protocol);
        seen.connections.push(connection);
    }
    seen.greetings = handshakes.greetings();
    seen.data_seconds =
        data.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first)).as_secs_f64();
    seen
}

impl From<Announcement> for Announced {
    fn from(announcement: Announcement) -> Self {
        use tack_proto::transport_parameters::TimestampMode::{Both, Receive};

        Self {
            tack: announcement.tack_version().is_some(),
            min_ack_delay_us: announcement.min_ack_delay_us,
            timestamp: matches!(announcement.timestamp, Some(Receive | Both)),
        }
    }
}
