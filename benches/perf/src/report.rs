//! What a run has measured.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::latency::Latency;
use crate::options::ClientOptions;

/// What one end has measured since its handshake. `None` is what its library does not tell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndReport {
    /// The QUIC library.
    pub library: String,
    /// Versions of it and of what it builds on.
    pub versions: BTreeMap<String, String>,
    /// The profile of tacklib.
    pub profile: Option<String>,
    /// Whether both ends speak TACK.
    pub tack: Option<bool>,
    /// CPU time of the process, in user and kernel mode.
    pub cpu_ns: u64,
    /// CPU time for each byte of payload of the run, whichever end sent it.
    pub cpu_ns_per_byte: f64,
    /// Payload received.
    pub payload_received: u64,
    /// Packets sent, as datagrams where the library counts those.
    pub packets_sent: Option<u64>,
    /// Acknowledgements sent: ACK frames, or TACKs and IACKs. Each is in a packet of its own or
    /// beside data.
    pub ack_packets_sent: Option<u64>,
    /// Packets sent and taken for lost.
    pub packets_lost: Option<u64>,
    /// Round trips of the connection.
    pub rtt: Rtt,
}

/// Round trips that an end has measured, microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Rtt {
    /// The smallest.
    pub min_us: Option<f64>,
    /// The smoothed one at the end.
    pub smoothed_us: Option<f64>,
}

impl Rtt {
    /// From what a library tells.
    pub fn new(min: Option<Duration>, smoothed: Option<Duration>) -> Self {
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        Self { min_us: min.map(microseconds), smoothed_us: smoothed.map(microseconds) }
    }
}

/// What a client has measured.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Payload that arrived at the client and when it was complete.
    pub down: (u64, Duration),
    /// Payload that was sent and when the server had said that it was complete.
    pub up: (u64, Duration),
    /// From the first order to the last answer.
    pub wall: Duration,
    /// The client's end.
    pub client: EndReport,
    /// The server's end, as it has said.
    pub server: EndReport,
    /// Of requests.
    pub latency: Option<Latency>,
}

/// Payload of a run, bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bytes {
    /// From server to client.
    pub down: u64,
    /// From client to server.
    pub up: u64,
}

/// A run, as it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct Report<'a> {
    /// What the run was asked to do.
    pub parameters: &'a ClientOptions,
    /// Nothing in a run is drawn at random.
    pub seed: Option<u64>,
    /// Payload.
    pub bytes: Bytes,
    /// From the first order to the last answer.
    pub wall_seconds: f64,
    /// Payload of both directions.
    pub goodput_mbit_s: f64,
    /// Payload from server to client, over the time that it took.
    pub down_mbit_s: f64,
    /// Payload from client to server, over the time that it took.
    pub up_mbit_s: f64,
    /// The client's end.
    pub client: EndReport,
    /// The server's end.
    pub server: EndReport,
    /// Of requests, microseconds.
    pub latency_us: Option<Latency>,
}

impl<'a> Report<'a> {
    /// The report of an outcome.
    pub fn new(parameters: &'a ClientOptions, outcome: &Outcome) -> Self {
        let bytes = Bytes { down: outcome.down.0, up: outcome.up.0 };
        let total = bytes.down + bytes.up;
        let with_cost = |end: &EndReport| EndReport {
            cpu_ns_per_byte: end.cpu_ns as f64 / total.max(1) as f64,
            ..end.clone()
        };
        Self {
            parameters,
            seed: None,
            bytes,
            wall_seconds: outcome.wall.as_secs_f64(),
            goodput_mbit_s: mbit_s(total, outcome.wall),
            down_mbit_s: mbit_s(bytes.down, outcome.down.1),
            up_mbit_s: mbit_s(bytes.up, outcome.up.1),
            client: with_cost(&outcome.client),
            server: with_cost(&outcome.server),
            latency_us: outcome.latency,
        }
    }
}

fn mbit_s(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / 1e6 / time.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_in_megabits_and_that_of_no_time_is_zero() {
        assert_eq!(mbit_s(1_000_000, Duration::from_secs(2)).to_bits(), 4.0f64.to_bits());
        assert_eq!(mbit_s(0, Duration::ZERO).to_bits(), 0.0f64.to_bits());
    }

    #[test]
    fn the_report_of_a_server_survives_the_wire() {
        let end = EndReport { cpu_ns: 7, tack: Some(true), ..EndReport::default() };
        let read: EndReport =
            serde_json::from_slice(&serde_json::to_vec(&end).unwrap()).unwrap();
        assert_eq!((read.cpu_ns, read.tack, read.packets_lost), (7, Some(true), None));
    }
}
