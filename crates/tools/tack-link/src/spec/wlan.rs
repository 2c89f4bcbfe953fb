//! WLANs of a specification.

use std::time::Duration;

use super::pipe::{bytes_in, one_of};
use super::table::WlanTable;
use crate::ParameterError;
use crate::compose::BoxedLink;
use crate::parameter::number;
use crate::wlan::{
    FULL_PACKET_BYTES, FULL_PAYLOAD_BYTES, Load, Options, Parameters, Wlan, WlanConfig,
    closed_form,
};

/// The queue of a station is never smaller by default: some ten of the largest A-MPDUs have to
/// fit.
pub const MIN_DEFAULT_WLAN_BUFFER: u64 = 512 << 10;

const MAX_BACKGROUND_MBPS: f64 = 100_000.0;
const MIN_BACKGROUND_MBPS: f64 = 0.001;

/// A cell, and how long its queues are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WlanHop {
    /// All but the queues, which may depend on the path too.
    config: WlanConfig,
    buffer_bytes: Option<u64>,
}

impl WlanHop {
    pub(super) fn new(table: &WlanTable) -> Result<Self, ParameterError> {
        one_of(&[
            ("buffer_bytes", table.buffer_bytes.is_some()),
            ("buffer_packets", table.buffer_packets.is_some()),
        ])?;
        let options = Options {
            preamble: table.preamble,
            cw_min: table.cw_min,
            cw_max: table.cw_max,
            ampdu_bytes: table.ampdu_bytes,
            aggregate_acks: table.aggregate_acks,
            mpdu_error_rate: table.mpdu_error_rate,
        };
        let mut config = WlanConfig::new(Parameters::new(table.profile, &options)?);
        config.uplink = table.uplink.unwrap_or(config.uplink);
        config.hops = table.hops.unwrap_or(config.hops);
        config.background = table.background.unwrap_or(config.background);
        if let Some(mbps) = table.background_mbps {
            let range = MIN_BACKGROUND_MBPS..=MAX_BACKGROUND_MBPS;
            config.background_load =
                Load::Mbps(number("background_mbps", mbps, range, "Mbit/s")?);
        }
        Wlan::new(&config, 0)?; // checks the rest
        let in_packets = |packets: u32| u64::from(packets) * u64::from(FULL_PACKET_BYTES);
        let buffer_bytes = table.buffer_bytes.or(table.buffer_packets.map(in_packets));
        Ok(Self { config, buffer_bytes })
    }

    /// What the forward direction carries without traffic of others and in reverse.
    pub(super) fn capacity_bps(&self) -> f64 {
        let ip_share = f64::from(FULL_PAYLOAD_BYTES) / f64::from(FULL_PACKET_BYTES);
        // Both hops are on the same medium.
        self.payload_bps() / ip_share / f64::from(self.config.hops)
    }

    /// Size of each queue; `rtt` is that of link and path.
    pub(super) fn buffer_bytes(&self, rtt: Duration) -> u64 {
        let bdp = || bytes_in(rtt, self.payload_bps() as u64);
        self.buffer_bytes.unwrap_or_else(|| bdp().max(MIN_DEFAULT_WLAN_BUFFER))
    }

    pub(super) fn build(&self, rtt: Duration, seed: u64) -> Result<BoxedLink, ParameterError> {
        let queue = self.buffer_bytes(rtt);
        let config = WlanConfig {
            forward_queue_bytes: queue,
            reverse_queue_bytes: queue,
            ..self.config.clone()
        };
        Ok(Box::new(Wlan::new(&config, seed)?))
    }

    fn payload_bps(&self) -> f64 {
        closed_form(&self.config.parameters) * 1e6
    }
}
