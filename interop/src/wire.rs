//! What was on the wire: everything that both ends sent, opened with the key log of our end.

mod announced;
mod handshake_keys;
mod handshakes;
mod long_header;
mod recorder;
mod secrets;
mod signals;
mod tls;
mod trace;

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use tack_proto::transport_parameters::Announcement;
use tack_tap::{Direction, KeyLog, Tap, TapCounters};

use self::announced::Handshake;
use self::handshakes::Handshakes;
pub use self::handshakes::{EarlyData, Greeting};
use self::long_header::{LongKind, Packet, packets};
pub use self::recorder::{Recorder, Sent};
use self::signals::Conversation;
pub use self::signals::{Frequency, Signals};

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

/// A connection as seen between its ends.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Observation {
    /// What the client sent in 1-RTT packets.
    pub to_server: TapCounters,
    /// What the server sent in 1-RTT packets.
    pub to_client: TapCounters,
    /// What the client announced; `None` if it could not be read.
    pub client: Option<Announced>,
    /// What the server announced; `None` if it could not be read.
    pub server: Option<Announced>,
    /// The application protocol that the server chose; `None` if it could not be read.
    pub protocol: Option<String>,
    /// What the client asked of the server.
    pub asked_of_server: Signals,
    /// What the server asked of the client.
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

/// Opens what was recorded, and describes each packet in a line of `trace`.
pub fn observe(record: &[Sent], key_log: &str, trace: &mut String) -> Observation {
    let mut keys = KeyLog::new();
    // It is in memory: nothing can fail.
    let _ = keys.write_all(key_log.as_bytes());
    let mut tap = Tap::new(keys);
    let mut handshake = Handshake::new(key_log);
    let mut handshakes = Handshakes::new(key_log);
    let mut conversation = Conversation::default();
    let mut seen = Observation::default();
    let mut data = None;
    for Sent { at, direction, bytes } in record {
        let before = *tap.counters(*direction);
        tap.open(*direction, bytes, |packet| conversation.packet(*at, *direction, packet));
        let after = *tap.counters(*direction);
        for packet in packets(bytes) {
            if let Packet::Long(packet) = packet {
                handshake.packet(*direction, &packet);
                handshakes.packet(*direction, &packet);
                seen.retries += u64::from(packet.kind == LongKind::Retry);
                let with_token = packet.kind == LongKind::Initial && !packet.token.is_empty();
                seen.initials_with_token += u64::from(with_token);
            }
        }
        if after.data_packets > before.data_packets {
            let (first, _) = data.unwrap_or((*at, *at));
            data = Some((first, *at));
        }
        trace::line(trace, *at, *direction, bytes, &before, &after);
    }
    seen.to_server = *tap.counters(Direction::ToServer);
    seen.to_client = *tap.counters(Direction::ToClient);
    seen.client = handshake.client().map(Announced::from);
    seen.server = handshake.server().map(Announced::from);
    seen.protocol = handshake.protocol();
    (seen.asked_of_server, seen.asked_of_client) = conversation.into_signals();
    seen.greetings = handshakes.greetings();
    seen.data_seconds =
        data.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first)).as_secs_f64();
    seen
}

impl From<Announcement> for Announced {
    fn from(announcement: Announcement) -> Self {
        use tack_proto::transport_parameters::TimestampMode::{Both, Receive};

        Self {
            tack: announcement.tack_version.is_some(),
            min_ack_delay_us: announcement.min_ack_delay_us,
            timestamp: matches!(announcement.timestamp, Some(Receive | Both)),
        }
    }
}
