//! What was on the wire: the packets of both ends, opened with the key log of our end.

mod announced;
mod closing;
mod connection;
mod connections;
mod crypto_stream;
mod handshake;
mod handshake_keys;
mod recorder;
mod secrets;
mod seen;
mod signals;
mod tls;
mod trace;
mod validation;

use std::time::Duration;

use serde::Serialize;
use tack_tap::{Direction, TapCounters};

pub use self::announced::Announced;
pub use self::closing::Close;
use self::connection::Summary;
pub(crate) use self::connection::new_stream_bytes;
use self::connections::Connections;
pub use self::handshake::{EarlyData, Greeting};
pub use self::recorder::{Disorder, Event, Passage, Recorder};
pub use self::seen::{DatagramSizes, PathSeen, Progress, Seen as ConnectionSeen};
pub use self::signals::{Frequency, Signals};
pub use self::validation::Amplification;

/// The connections between two ends, and what was sent on all of them together.
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
    /// From the first packet with data to the last, in seconds, whichever end sent it.
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

    /// Retry packets that servers sent.
    pub fn retries(&self) -> u64 {
        self.connections.iter().map(|connection| connection.retries).sum()
    }

    fn add(&mut self, summary: Summary) {
        let Summary { seen, greeting, protocol, of_server, of_client } = summary;
        self.to_server += seen.to_server;
        self.to_client += seen.to_client;
        self.asked_of_server += of_server;
        self.asked_of_client += of_client;
        self.client = self.client.or(seen.client);
        self.server = self.server.or(seen.server);
        self.protocol = self.protocol.take().or(protocol);
        self.greetings.push(greeting);
        self.connections.push(seen);
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
    let mut seen = Observation::default();
    let mut data: Option<(Duration, Duration)> = None;
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
        let Passage { at, direction, .. } = *passage;
        let before = connections.find(passage).map(|of| connections.counters(of, direction));
        let before = before.unwrap_or_default();
        let number = connections.sent(passage, at.saturating_sub(first));
        let after = number.map_or(before, |of| connections.counters(of, direction));
        if after.data_packets > before.data_packets {
            data = Some((data.map_or(at, |(first, _)| first), at));
        }
        if number.is_none() {
            *seen.strays_mut(direction) += 1;
        }
        trace::line(trace, number.map_or(0, |number| number + 1), passage, &before, &after);
    }
    connections.into_all().into_iter().for_each(|one| seen.add(one.into_summary()));
    seen.data_seconds =
        data.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first)).as_secs_f64();
    seen
}
