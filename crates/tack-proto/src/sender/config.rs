//! Settings of a sender.

use std::time::Duration;

use super::careful_resume::{CcParameters, DEFAULT_MAX_JUMP};
use super::{BbrConfig, Frequency, Peer};
use crate::ecn::Ecn;
use crate::profiles::{LONGEST_INTERVAL, Profile};

/// Settings of a sender.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SenderConfig {
    /// Equation (4).
    pub frequency: Frequency,
    /// The controller.
    pub bbr: BbrConfig,
    /// What the peer does with ACK_FREQUENCY; `None` where it did not announce
    /// to accept any.
    pub peer: Option<Peer>,
    /// The peer's `max_ack_delay`: a longer ACK Delay is not taken off a round
    /// trip (RFC 9002 section 5.3).
    pub max_ack_delay: Duration,
    /// log2 of the microseconds in one unit of our timestamps
    /// (`ack_delay_exponent`).
    pub timestamp_exponent: u32,
    /// Largest packet, bytes.
    pub mss: u64,
    /// Never more in flight, bytes: what the stack below takes.
    pub max_in_flight: u64,
    /// Whether a round trip ends with the acknowledgement and begins with the earliest packet in
    /// it, as TCP's timestamps have it (RFC 7323 section 4.3), so that the wait for the
    /// acknowledgement is part of it. For comparison (section V-B of the paper).
    pub plain_sampling: bool,
    /// Whether every packet is recorded here. After 0-RTT some were not, and what
    /// the peer received in all cannot be held against the record.
    pub sees_all: bool,
    /// Whether this end is the server: which streams it sends on.
    pub is_server: bool,
    /// What packets are marked with, while the path allows it (RFC 9000 section 13.4.2).
    pub ecn: Ecn,
    /// What an earlier connection observed of the path that data goes over first (RFC 9959). The
    /// caller has seen to it that they are no older than may be, and in nobody else's use.
    pub saved: Option<CcParameters>,
    /// max_jump of RFC 9959: how much may be in flight at most because of `saved`, bytes.
    pub max_jump: u64,
    /// Whether the path is measured with packet trains while the application sends less than it may, to
    /// a peer that reports their arrival (TACK-6.8).
    pub packet_trains: bool,
    /// The longest time between two acknowledgements of a source that needs little of the path, by what packet trains
    /// show of it (TACK-5.1-10); 100 ms or less: as of any other.
    pub light_load_ack_interval: Duration,
    /// 64 random bits that the peer cannot know, for the first number skipped on
    /// purpose.
    pub random: u64,
}

impl SenderConfig {
    /// A client's sender on a path that takes packets of `mss` bytes, towards a peer that
    /// takes no ACK_FREQUENCY and has RFC 9000's default delays.
    pub const fn new(profile: Profile, mss: u64, random: u64) -> Self {
        Self {
            frequency: profile.frequency,
            bbr: profile.bbr,
            peer: None,
            max_ack_delay: Duration::from_millis(25),
            timestamp_exponent: 3,
            mss,
            max_in_flight: u64::MAX,
            plain_sampling: false,
            sees_all: true,
            is_server: false,
            ecn: Ecn::Off,
            saved: None,
            max_jump: DEFAULT_MAX_JUMP,
            packet_trains: false,
            light_load_ack_interval: Duration::ZERO,
            random,
        }
    }

    /// Whether a light load is acknowledged less often than any other (TACK-5.1-10).
    pub(super) fn has_light_loads(&self) -> bool {
        self.light_load_ack_interval > LONGEST_INTERVAL
    }
}
