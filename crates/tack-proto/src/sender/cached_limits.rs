//! What follows from the model of the path: how much may be in flight, and how often the peer is to acknowledge. Computed
//! when an acknowledgement has changed something, because every packet asks for it.

use std::time::{Duration, Instant};

use super::ack_spacing::AckSpacingModel;
use super::pacer::{BURST, L4S_BURST};
use super::path_model::{INITIAL_WINDOW_PACKETS, PathModel};
use super::{Deviation, Frequency, Peer, Phase, Sender};
use crate::bandwidth::Bandwidth;
use crate::ecn::{Ecn, EcnState};
use crate::frame::AckFrequency;

/// What of a peer's `min_ack_delay` lets more be in flight: RFC 9000 section 18.2 has it as the default of
/// `max_ack_delay`. A peer may announce 16 s.
const MOST_MIN_ACK_DELAY: Duration = Duration::from_millis(25);

/// TIMESTAMPs for each TACK that may answer one of them, in Startup for each that may later
/// (TACK-5.2-1). A TACK interval on a fast path has dozens of bursts, and a TIMESTAMP makes a
/// packet cost as much as a second one.
const DEPARTURES_PER_TACK: u32 = 8;

/// The same behind Startup on an even path, where the least delay of four is nearly that of eight.
const DEPARTURES_PER_TACK_IF_EVEN: u32 = 4;

/// A path is even whose round trips differ from one to the next by less than this part of RTTmin.
const EVEN: u32 = 8;

/// Limits that acknowledgements, and little else, change, and every packet asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedLimits {
    pub(super) path: PathModel,
    /// Bytes that may be in flight, and how many while the path is silent.
    pub(super) inflight_cap: u64,
    pub(super) outage_cap: u64,
    /// When time may change something, if no acknowledgement does before.
    pub(super) next_change: Option<Instant>,
    /// The ACK_FREQUENCY that the peer should be sent.
    pub(super) update: Option<AckFrequency>,
}

/// What the controller can change, at an acknowledgement, of that the model of the path is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ModelBasis {
    bandwidth: Bandwidth,
    is_starting: bool,
    min_rtt: Option<Duration>,
}

impl Sender {
    pub(super) fn recompute(&mut self) {
        let path = self.path_model();
        self.recompute_with(path);
    }

    /// As [`Self::recompute`] behind an acknowledgement that began with this basis and this model: for most the model
    /// stays as it is, and making one takes a third of what the controller takes.
    pub(super) fn recompute_from(&mut self, basis: ModelBasis, path: PathModel) {
        let path = if self.model_basis() == basis { path } else { self.path_model() };
        debug_assert_eq!(path, self.path_model());
        self.recompute_with(path);
    }

    fn recompute_with(&mut self, path: PathModel) {
        self.limits = CachedLimits {
            path,
            inflight_cap: self.window_within(&path).min(self.config.max_in_flight),
            outage_cap: self.path.bbr.outage_cap(&path),
            next_change: self.path.bbr.next_change(&path),
            update: self.wanted_update(),
        };
        let interval = if self.is_starting() {
            self.expected_interval(&self.config.frequency)
        } else {
            path.usual_ack_interval
        };
        let early = self.config.ecn == Ecn::L4s && self.ecn_state() != EcnState::Failed;
        let knows_no_buffer = self.config.bbr.deviations.has(Deviation::ShortBursts)
            && self.path.bbr.phase() == Phase::Startup;
        let most = knows_no_buffer.then_some(INITIAL_WINDOW_PACKETS * self.config.mss);
        self.path.pacer.set_burst(if early { L4S_BURST } else { BURST }, most);
        self.path.pacer.set_head_spacing(interval / self.departures_per_tack());
        self.trap.set_window(self.window());
    }

    /// TACK-5.2-1
    fn departures_per_tack(&self) -> u32 {
        let differ_by = self.path.rtt_jitter.both_ways();
        let is_even = self.path.min_rtt.get().is_some_and(|min_rtt| differ_by < min_rtt / EVEN);
        if is_even && self.path.bbr.phase() != Phase::Startup {
            DEPARTURES_PER_TACK_IF_EVEN
        } else {
            DEPARTURES_PER_TACK
        }
    }

    pub(super) fn model_basis(&self) -> ModelBasis {
        ModelBasis {
            bandwidth: self.path.bbr.bandwidth(),
            is_starting: self.is_starting(),
            min_rtt: self.path.min_rtt.get(),
        }
    }

    pub(super) fn path_model(&self) -> PathModel {
        let frequency = &self.config.frequency;
        let (smoothed, ack_path) = (self.path.smoothed_rtt, &self.path.ack_path);
        let usual_ack_interval = self.usual_interval();
        let ack_interval = self
            .spaced_interval()
            .or_else(|| self.path.light_load.expected_interval())
            .map_or(usual_ack_interval, |longer| longer.max(usual_ack_interval));
        let min_rtt = self.path.min_rtt.get();
        let deviations = self.config.bbr.deviations;
        let is_short = deviations.has(Deviation::ShortPaths)
            && min_rtt.is_some_and(|rtt| !self.is_starting() && frequency.interval(rtt) >= rtt);
        let ack_late = self.path.ack_late(ack_interval, is_short);
        PathModel {
            min_rtt,
            smoothed_rtt: smoothed,
            forward_rtt: smoothed.map(|rtt| rtt.saturating_sub(ack_path.smoothed())),
            ack_path: ack_path.longest(),
            jitter: deviations.allow(Deviation::Jitter, self.path.jitter()),
            usual_jitter: deviations.allow(Deviation::Jitter, self.path.rtt_jitter.usual()),
            jitter_both_ways: deviations
                .allow(Deviation::Jitter, self.path.rtt_jitter.both_ways()),
            ack_interval,
            usual_ack_interval,
            ack_late: deviations.allow(Deviation::LateTacks, ack_late),
            own_late: deviations.allow(Deviation::OwnLateness, self.path.pacer.late()),
            mss: self.config.mss,
            initial_window: self.config.bbr.initial_window_packets * self.config.mss,
        }
    }

    fn wanted_update(&self) -> Option<AckFrequency> {
        let min_rtt = self.frequency_rtt()?;
        let usual = self.config.frequency;
        let (frequency, startup) =
            match (self.spaced_interval(), self.path.light_load.interval()) {
                (Some(spaced), _) => (usual.spaced(spaced), false),
                (None, Some(interval)) => (usual.light(interval), false),
                (None, None) => (usual, self.is_starting()),
            };
        self.frequency.as_ref()?.next_frame(
            &frequency,
            startup,
            self.path.bbr.bandwidth(),
            min_rtt,
            self.config.mss,
            self.unreported(),
        )
    }

    /// The round trip that equation (4) goes by. In Startup it contains what acknowledgements queue
    /// for: a sixteenth of it is held, and fewer acknowledgements queue for less (TACK-5.1-4).
    fn frequency_rtt(&self) -> Option<Duration> {
        let queue =
            if self.is_starting() { self.path.ack_path.longest() } else { Duration::ZERO };
        self.path.min_rtt.get().map(|rtt| rtt + queue)
    }

    /// The interval between acknowledgements, if those do not fill their own path.
    fn usual_interval(&self) -> Duration {
        let frequency = &self.config.frequency;
        if self.is_starting() {
            self.expected_interval(&frequency.of_startup())
        } else {
            self.expected_interval(frequency)
        }
    }

    /// The same, if they do.
    fn spaced_interval(&self) -> Option<Duration> {
        if !self.path.ack_spacing.is_on() {
            return None;
        }
        self.path.ack_spacing.interval(&self.ack_spacing_model()?)
    }

    pub(super) fn ack_spacing_model(&self) -> Option<AckSpacingModel> {
        Some(AckSpacingModel {
            min_rtt: self.path.min_rtt.get()?,
            smoothed_rtt: self.path.smoothed_rtt?,
            usual: self.usual_interval(),
        })
    }

    fn expected_interval(&self, frequency: &Frequency) -> Duration {
        let min_rtt = self.frequency_rtt().unwrap_or_default();
        let Self { config, path, .. } = self;
        let bandwidth = path.bbr.bandwidth();
        let least = config.peer.map_or(Duration::ZERO, Peer::min_ack_delay);
        frequency
            .expected_interval(bandwidth, min_rtt, config.mss, config.max_ack_delay)
            .max(least.min(MOST_MIN_ACK_DELAY))
    }

    /// The sender's part of equation (5), TACK-5.5-1: how many packets of a round trip go
    /// unreported because their TACK gets lost. Zero while rho, the other part, leaves fewer
    /// than half a loss among them: then bubbles are of no use, and looking into packets for
    /// them neither.
    fn unreported(&self) -> u64 {
        let mss = self.config.mss.max(1);
        let min_rtt = self.path.min_rtt.get().unwrap_or_default();
        let in_round_trip = self.path.bbr.bandwidth().bytes_in(min_rtt) / mss;
        let Frequency { packets, per_round_trip, .. } = self.config.frequency;
        // bdp >= beta * L * MSS, or else each TACK stands for L packets.
        let bound_by_time = in_round_trip as f64 >= per_round_trip * packets as f64;
        let reported = if bound_by_time { in_round_trip } else { packets };
        let unreported = self.ack_loss.recent() * reported as f64;
        if unreported * self.reported_loss_rate < 0.5 { 0 } else { unreported as u64 }
    }
}
