//! What an end announced of the extensions in its transport parameters.

use serde::Serialize;
use tack_proto::transport_parameters::{self, TimestampMode};

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

impl From<transport_parameters::Announced> for Announced {
    fn from(announcement: transport_parameters::Announced) -> Self {
        Self {
            tack: announcement.tack_version().is_some(),
            min_ack_delay_us: announcement.min_ack_delay_us,
            timestamp: matches!(
                announcement.timestamp,
                Some(TimestampMode::Receive | TimestampMode::Both)
            ),
        }
    }
}
