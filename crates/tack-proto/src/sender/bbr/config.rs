//! Parameters of the controller, and the two sets that ship.

use std::time::Duration;

use super::INITIAL_WINDOW_PACKETS;
use crate::sender::deviations::Deviations;

/// Parameters of the controller.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BbrConfig {
    /// What may be in flight in the first round trip, in full packets; those behind the tenth are
    /// paced: 10 (RFC 9002 section 7.2), or 32, which Chromium's QUIC begins with
    /// (kInitialCongestionWindow): a picture that has to wait for Startup is late.
    pub initial_window_packets: u64,
    /// Pauses of the application that Startup's packet trains outlast: 2, because bulk data follows a question and an
    /// answer or two, or none, where frames are packet trains themselves. An application that makes more may stay in
    /// Startup for long, and what was proven long ago says little of the path.
    pub startup_pauses: u32,
    /// Probe units of a ProbeBW cycle: 32, or 16 in the video profile.
    pub cycle_units: u32,
    /// Probe units that ProbeBW sends more for: 4, which is a round trip, or 3.
    pub probe_up_units: u32,
    /// On a long path the first probe of a series lasts so long, or a probe unit: 70 ms, or 55. At 1.25 it
    /// adds 18 ms to the queue, or 14; a shorter one sees less of what it asks for.
    pub first_probe: Duration,
    /// How far a receiver may report above the sender's own sample: 1, not at all, or 1.05. Its
    /// samples span less time than the sender's, and show all of a probe that is shorter than a
    /// round trip. A liar gains a queue by it; where packets get lost, nothing above the sample
    /// counts.
    pub reported_rate_excess: f64,
    /// Packets in the time of a report by which it counts for more: 0, or 1 in the quick profile, whose
    /// reports hold few. A receiver that reports too much would gain what honest ones fall short by.
    pub reported_rate_resolution: u64,
    /// A probe that raised the estimate by this has found room, not noise: 1.15, or 1.1. All of
    /// it would be 1.25 after a probe of a round trip, and less after a shorter one.
    pub probe_up_growth: f64,
    /// Probe units that the bandwidth filter spans: 40, or 20.
    pub filter_units: u64,
    /// Probe units of low samples behind a queue after which the path counts as slower: 4,
    /// or 1.
    pub bandwidth_drop_units: u32,
    /// Samples below this part of the estimate are low. A neighbour's probe of 1.25 takes a
    /// fifth away for a round trip, a rival of the same size half: 0.65, or 0.75.
    pub bandwidth_drop_below: f64,
    /// What one drop leaves of the estimate at least: 0.8, or nothing. A flow that starts
    /// takes more than its share for a moment; a flow that yielded to all of that would start from
    /// below its own.
    pub bandwidth_drop_keeps: f64,
    /// By how much of itself a cycle's cruise is longer or shorter at random: a third, or
    /// nothing. Flows that probe in step learn nothing of each other.
    pub bw_probe_wait_jitter: f64,
    /// Time without a sample as low as RTTmin after which ProbeRTT looks for it: 10 s, or 2.5 s.
    pub probe_rtt_after: Duration,
    /// What ProbeRTT leaves of the rate: 0.5, or 0.75.
    pub probe_rtt_gain: f64,
    /// Shorter paths probe, remember and queue as if they were this long, though at most twice
    /// as long as they are: 60 ms, or nothing.
    pub even_rtt: Duration,
    /// Where the controller differs from the draft: everywhere, unless the lab compares.
    pub deviations: Deviations,
}

impl BbrConfig {
    /// The default profile.
    pub const DEFAULT: Self = Self {
        initial_window_packets: INITIAL_WINDOW_PACKETS,
        startup_pauses: 2,
        cycle_units: 32,
        probe_up_units: 4,
        first_probe: Duration::from_millis(70),
        reported_rate_excess: 1.0,
        reported_rate_resolution: 0,
        probe_up_growth: 1.15,
        filter_units: 40,
        bandwidth_drop_units: 4,
        bandwidth_drop_below: 0.65,
        bandwidth_drop_keeps: 0.8,
        bw_probe_wait_jitter: 1.0 / 3.0,
        probe_rtt_after: Duration::from_secs(10),
        probe_rtt_gain: 0.5,
        even_rtt: Duration::from_millis(60),
        deviations: Deviations::ALL,
    };

    /// The video profile (section VII-D of the paper).
    pub const VIDEO: Self = Self {
        initial_window_packets: 32,
        startup_pauses: 0,
        cycle_units: 16,
        probe_up_units: 3,
        first_probe: Duration::from_millis(55),
        reported_rate_excess: 1.05,
        reported_rate_resolution: 0,
        probe_up_growth: 1.1,
        filter_units: 20,
        bandwidth_drop_units: 1,
        bandwidth_drop_below: 0.75,
        bandwidth_drop_keeps: 0.0,
        bw_probe_wait_jitter: 0.0,
        probe_rtt_after: Duration::from_millis(2500),
        probe_rtt_gain: 0.75,
        even_rtt: Duration::ZERO,
        deviations: Deviations::ALL,
    };

    /// The quick profile.
    pub const QUICK: Self = Self { reported_rate_resolution: 1, ..Self::DEFAULT };
}

impl Default for BbrConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}
