//! Traffic that the model makes up itself.

use std::time::Duration;

use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::parameter::number;
use crate::random::stream;
use crate::{Packet, ParameterError, Time};

/// Size of an IP packet of generated traffic, in bytes.
pub const FULL_PACKET_BYTES: u32 = 1500;
/// Of which a UDP program gets this many: without IP and UDP headers.
pub const FULL_PAYLOAD_BYTES: u32 = 1472;

/// How much a station sends of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// It always has the next packet.
    #[default]
    Saturated,
    /// That many Mbit/s of UDP payload, 1472 bytes at even intervals; more than 0.
    Mbps(f64),
}

impl Load {
    pub(crate) fn check(self, field: &str) -> Result<(), ParameterError> {
        match self {
            Self::Saturated => Ok(()),
            Self::Mbps(mbps) => number(field, mbps, 0.001..=100_000.0, "Mbit/s").map(|_| ()),
        }
    }
}

/// Sends packets at even intervals.
#[derive(Clone, Debug)]
pub(super) struct Source {
    flow: usize,
    interval: Duration,
    next: Time,
}

impl Source {
    /// The source of a flow, if its packets come at their own times: a saturated flow fetches
    /// them. The first comes at random within the first interval.
    pub fn new(flow: usize, load: Load, seed: u64) -> Option<Self> {
        let Load::Mbps(mbps) = load else { return None };
        let interval_ns = (f64::from(8 * FULL_PAYLOAD_BYTES) * 1e3 / mbps).round() as u64;
        let first = stream(seed, flow as u64).random_range(0..interval_ns);
        Some(Self {
            flow,
            interval: Duration::from_nanos(interval_ns),
            next: Time::from_nanos(first),
        })
    }

    /// When the next packet comes.
    pub const fn next(&self) -> Time {
        self.next
    }

    /// That packet, and the flow that it belongs to.
    pub fn take(&mut self) -> (usize, Packet) {
        let packet = Packet::new(FULL_PACKET_BYTES, 0, self.next, Vec::new());
        self.next = self.next + self.interval;
        (self.flow, packet)
    }
}
