//! Receiver-driven BBR (section VI-D of the paper).
//!
//! The bandwidth estimate is the largest delivery rate of the last forty probe
//! units, as the receiver measured it; the sender's own record bounds it. A stock
//! peer reports no rate: then the sender's samples alone drive the same
//! controller.

mod bandwidth_drop;
mod config;
mod drain;
mod extra_acked;
mod path_model;
mod probe_bw;
mod probe_rtt;
mod reported_rate_bound;
mod startup;
mod windowed_filter;

use std::time::{Duration, Instant};

pub use config::BbrConfig;
pub use path_model::{INITIAL_WINDOW_PACKETS, PathModel};
pub use windowed_filter::MaxFilter;

use crate::bandwidth::Bandwidth;
use bandwidth_drop::BandwidthDrop;
use drain::Drain;
use extra_acked::ExtraAcked;
use path_model::{ASSUMED_RTT, LEAST_PACKETS};
use probe_bw::ProbeBw;
use probe_rtt::ProbeRtt;
use reported_rate_bound::ReportedRateBound;
use startup::FullPipe;

/// What an acknowledgement says to the controller.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    /// The sender's own delivery-rate sample.
    pub sample: Option<super::RateSample>,
    /// The receiver's delivery rate.
    pub reported: Option<Bandwidth>,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Bytes that this acknowledgement has added.
    pub acked: u64,
    /// Bytes that it has shown to be lost.
    pub lost: u64,
    /// Packets that it has newly reported as CE (RFC 9000 section 13.4.2); 0 while the path's ECN has
    /// not been validated.
    #[allow(dead_code, reason = "the controller does not respond to marks yet")]
    pub ce: u64,
    /// Bytes in flight when the acknowledgement left, about.
    pub in_flight: u64,
    /// The round trip that came with the acknowledgement, without what that queued for.
    pub round_trip: Option<Duration>,
    /// Whether the minimum of the round trips is out of date.
    pub min_rtt_expired: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Startup,
    Drain(Drain),
    ProbeBw(ProbeBw),
    ProbeRtt(ProbeRtt),
}

/// The states, for statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Looking for the rate of the path.
    Startup,
    /// Giving back Startup's queue.
    Drain,
    /// Following the rate of the path.
    ProbeBw,
    /// Looking for the round trip of the path.
    ProbeRtt,
}

/// The controller: how fast to send, and how much may be in flight.
#[derive(Debug)]
pub struct Bbr {
    config: BbrConfig,
    state: State,
    bandwidth: MaxFilter<Bandwidth>,
    full_pipe: FullPipe,
    bandwidth_drop: BandwidthDrop,
    extra_acked: ExtraAcked,
    rate_bound: ReportedRateBound,
    round: u64,
    round_ends_at: u64,
    /// Probe units so far. Time, not round trips: those become longer
    /// just when a queue should make the estimate fall.
    units: u64,
    unit_began: Option<Instant>,
    last_feedback: Option<Instant>,
    /// The round trip that came with the last acknowledgement.
    round_trip: Option<Duration>,
}

impl Bbr {
    /// A controller in Startup.
    pub fn new(config: BbrConfig) -> Self {
        Self {
            config,
            state: State::Startup,
            bandwidth: MaxFilter::new(config.filter_units),
            full_pipe: FullPipe::default(),
            bandwidth_drop: BandwidthDrop::default(),
            extra_acked: ExtraAcked::new(config.filter_units),
            rate_bound: ReportedRateBound::new(config.reported_rate_excess),
            round: 0,
            round_ends_at: 0,
            units: 0,
            unit_began: None,
            last_feedback: None,
            round_trip: None,
        }
    }

    /// BWmax.
    pub fn bandwidth(&self) -> Bandwidth {
        self.bandwidth.get()
    }

    /// How long a cycle of ProbeBW lasts, in which the sender's own queue drains once.
    pub fn cycle(&self, path: &PathModel) -> Duration {
        path.cycle_unit(&self.config) * self.config.cycle_units
    }

    /// Round trips so far.
    pub fn rounds(&self) -> u64 {
        self.round
    }

    /// The state.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Startup => Phase::Startup,
            State::Drain(_) => Phase::Drain,
            State::ProbeBw(_) => Phase::ProbeBw,
            State::ProbeRtt(_) => Phase::ProbeRtt,
        }
    }

    /// Data goes over the path again: what it was silent for says nothing of it, and what was
    /// planned for that time is too late.
    pub fn on_resumed(&mut self, now: Instant) {
        self.last_feedback = None;
        self.unit_began = None;
        self.bandwidth_drop = BandwidthDrop::default();
        self.extra_acked.interrupt();
        if !matches!(self.state, State::Startup) {
            self.state = State::ProbeBw(ProbeBw::new(now, self.bandwidth(), &self.config));
        }
    }

    /// Takes in an acknowledgement. True if a visit to ProbeRTT has ended with it.
    pub fn on_feedback(&mut self, now: Instant, feedback: &Feedback, path: &PathModel) -> bool {
        self.count_units(now, path);
        self.round_trip = feedback.round_trip;
        let silence = self
            .last_feedback
            .replace(now)
            .map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        if path.is_outage(silence) || !matches!(self.state, State::ProbeBw(_)) {
            self.extra_acked.interrupt();
        } else {
            let bandwidth = self.bandwidth();
            self.extra_acked.on_acked(now, self.units, feedback.acked, bandwidth);
        }
        self.rate_bound.on_acked(feedback.acked, feedback.lost);
        if let Some(sample) = feedback.sample {
            let round_ended = sample.prior_delivered >= self.round_ends_at;
            if round_ended {
                self.round += 1;
                self.round_ends_at = feedback.delivered;
            }
            let rate = self.rate_bound.bounded(&sample, feedback.reported);
            if round_ended {
                self.rate_bound.on_round();
            }
            // TACK-6.1-2, TACK-6.3-1. A span below the round trip has caught acknowledgements
            // that came together. An application-limited sample can only show that the path is
            // faster than was known.
            let spans_round_trip = path.min_rtt.is_none_or(|rtt| sample.interval >= rtt);
            if spans_round_trip && (!sample.app_limited || rate > self.bandwidth()) {
                self.bandwidth.update(self.units, rate);
            } else if sample.app_limited {
                // It says nothing, and the estimate does not age by it: else the
                // first sample after a quiet time would replace it, however low.
                self.bandwidth.update(self.units, self.bandwidth());
            }
            if round_ended {
                let queue = !path.acks_queue() && path.is_queueing(path.forward_rtt);
                self.full_pipe.on_round(self.bandwidth(), sample.app_limited, queue);
            }
            self.follow_bandwidth_drop(now, feedback, path, &sample);
        }
        let probed = self.phase() == Phase::ProbeRtt;
        self.change_state(now, feedback, path);
        if matches!(self.state, State::ProbeBw(_)) && path.is_outage(silence) {
            // What was sent meanwhile waits in a queue that nothing else would take back.
            let round_trip = path.min_rtt.unwrap_or(ASSUMED_RTT) + path.ack_interval;
            self.state = State::Drain(Drain::after_outage(now, round_trip));
        }
        self.on_time(now, path);
        probed && self.phase() != Phase::ProbeRtt
    }

    /// Moves on where time alone says so. True if the pacing rate has changed with it.
    pub fn on_time(&mut self, now: Instant, path: &PathModel) -> bool {
        let bandwidth = self.bandwidth();
        // A queue is known to have drained while acknowledgements come.
        let longest_wait = path.ack_interval * 3 / 2 + path.ack_path;
        let is_acknowledged = self.last_feedback.is_some_and(|last| now <= last + longest_wait);
        match &mut self.state {
            State::ProbeBw(probe) if is_acknowledged || !probe.is_draining() => {
                let units = (path.probe_unit(), path.cycle_unit(&self.config));
                probe.on_time(now, units, bandwidth)
            }
            State::Drain(drain) if is_acknowledged && drain.is_done(now) => {
                self.state = State::ProbeBw(ProbeBw::new(now, bandwidth, &self.config));
                true
            }
            _ => false,
        }
    }

    /// Before this instant [`Self::on_time`] changes nothing, unless an acknowledgement comes
    /// first; `None` if it never does.
    pub fn next_change(&self, path: &PathModel) -> Option<Instant> {
        match &self.state {
            State::ProbeBw(probe) => Some(probe.until(path.cycle_unit(&self.config))),
            State::Drain(drain) => Some(drain.until()),
            State::Startup | State::ProbeRtt(_) => None,
        }
    }

    /// How fast to send.
    pub fn pacing_rate(&self, path: &PathModel) -> Bandwidth {
        let bandwidth = self.bandwidth();
        // The paper's max(gain * BWmax, MSS * f_tack), where f_tack is bound by the
        // same bandwidth estimate: it would not stop a loss above the probe's gain
        // from driving both to nothing. Four packets for each round trip do, and
        // adapt to a path that is slower than that, because its round trip grows.
        let least = path.least_rate();
        match self.state {
            // TACK-6.2-1, TACK-6.2-2, TACK-6.2-3, TACK-6.2-4, TACK-6.2-5
            State::Startup => bandwidth.max(path.initial_rate()).scaled(startup::GAIN),
            State::Drain(drain) => bandwidth.scaled(drain.gain()).max(least),
            State::ProbeBw(probe) => bandwidth.scaled(probe.gain()).max(least),
            State::ProbeRtt(_) => bandwidth.scaled(self.config.probe_rtt_gain).max(least),
        }
    }

    /// How much may be in flight: (2 + 1/(RTTmin f)) BDP, where 1/f is what the
    /// wait for the next TACK adds; more where the medium aggregates, the path is
    /// shorter than those it shares with, or acknowledgements queue (TACK-6.2-9).
    pub fn inflight_cap(&self, path: &PathModel) -> u64 {
        let least = LEAST_PACKETS * path.mss;
        let Some(min_rtt) = path.min_rtt else { return INITIAL_WINDOW_PACKETS * path.mss };
        let bdp = self.bandwidth().bytes_in(path.round_trip());
        let held = self.bandwidth().bytes_in(path.ack_interval);
        let late = self.bandwidth().bytes_in(path.ack_late);
        match self.state {
            State::Startup => {
                let gain = startup::inflight_gain(min_rtt, self.round_trip);
                let own = self.bandwidth().bytes_in(2 * path.own_late);
                // Where there is one TACK in a round trip or less, the rate doubles by what it finds.
                let (grows, held) =
                    if path.ack_interval < min_rtt { (bdp, held) } else { (bdp + held, 0) };
                let cap = (grows as f64 * gain) as u64 + held + late.min(own);
                cap.max(INITIAL_WINDOW_PACKETS * path.mss)
            }
            State::Drain(_) => (bdp + held).max(least),
            State::ProbeBw(_) => {
                let queue = self.bandwidth().bytes_in(path.even_rtt(&self.config));
                let extra = self.extra_acked.allowance(self.bandwidth(), path.ack_interval);
                (bdp + queue + held + late + extra).max(least)
            }
            State::ProbeRtt(_) => self.probe_rtt_window(path),
        }
    }

    /// How much may be in flight while the path says nothing: what it holds, and two waits for a
    /// TACK. More would only fill the queue in front of a path that stands still.
    pub fn outage_cap(&self, path: &PathModel) -> u64 {
        match (self.state, path.min_rtt) {
            (State::ProbeBw(_), Some(_)) => {
                let span = path.round_trip() + 2 * path.ack_interval + path.ack_late;
                let cap = self.bandwidth().bytes_in(span);
                cap.max(LEAST_PACKETS * path.mss)
            }
            _ => u64::MAX,
        }
    }

    /// What ProbeRTT leaves in flight: its part of what the path and the wait for the next TACK
    /// hold.
    fn probe_rtt_window(&self, path: &PathModel) -> u64 {
        let span = path.round_trip() + path.ack_interval;
        let rate = self.bandwidth().scaled(self.config.probe_rtt_gain);
        rate.bytes_in(span).max(LEAST_PACKETS * path.mss)
    }

    /// Counts time in probe units. A medium that pauses brings no acknowledgements, and the
    /// estimate ages by no more than a round trip meanwhile: else the first sample behind the
    /// pause, which has the pause in it, would replace it.
    fn count_units(&mut self, now: Instant, path: &PathModel) {
        let unit = path.cycle_unit(&self.config);
        let began = *self.unit_began.get_or_insert(now);
        let longest = 4 * unit + path.ack_interval;
        let began = now.checked_sub(longest).map_or(began, |earliest| began.max(earliest));
        let passed = now.saturating_duration_since(began);
        // At most four and what an ACK may wait for, which is 2^14 ms at most.
        let units = (passed.as_nanos() / unit.as_nanos()) as u32;
        self.units += u64::from(units);
        self.unit_began = Some(began + unit * units);
    }

    /// Follows a path that has become slower before the filter forgets.
    fn follow_bandwidth_drop(
        &mut self,
        now: Instant,
        feedback: &Feedback,
        path: &PathModel,
        sample: &super::RateSample,
    ) {
        if !matches!(self.state, State::ProbeBw(_)) || sample.app_limited {
            self.bandwidth_drop = BandwidthDrop::default();
            return;
        }
        // The reported rate counts here: a receiver cannot gain by under-reporting, and it does
        // not contain the pause of a medium once that is over.
        let rate = feedback.reported.unwrap_or(sample.rate);
        let queue = path.is_queueing(feedback.round_trip);
        let low = self.bandwidth().scaled(self.config.bandwidth_drop_below);
        let lasting = path.probe_unit() * self.config.bandwidth_drop_units;
        if let Some(rate) = self.bandwidth_drop.on_sample(now, rate, low, queue, lasting) {
            let kept = self.bandwidth().scaled(self.config.bandwidth_drop_keeps);
            self.bandwidth.reset(self.units, rate.max(kept));
            self.drain(now, feedback, path);
        }
    }

    fn drain(&mut self, now: Instant, feedback: &Feedback, path: &PathModel) {
        let bandwidth = self.bandwidth();
        let bdp = path.min_rtt.map_or(0, |rtt| bandwidth.bytes_in(rtt));
        self.state = State::Drain(Drain::new(now, feedback.in_flight, bdp, bandwidth));
    }

    fn change_state(&mut self, now: Instant, feedback: &Feedback, path: &PathModel) {
        let bandwidth = self.bandwidth();
        let bdp = path.min_rtt.map_or(0, |rtt| bandwidth.bytes_in(rtt));
        let probe_rtt_window = self.probe_rtt_window(path);
        let cruise = ProbeBw::new(now, bandwidth, &self.config);
        // TACK-6.2-9: what a round trip tells too late there, losses do.
        let overflows = feedback.lost > 0
            && path.acks_queue()
            && self.rate_bound.is_lossy()
            && path.is_queueing(feedback.round_trip);
        match &mut self.state {
            State::Startup if self.full_pipe.is_full() || overflows => {
                self.drain(now, feedback, path);
            }
            State::Drain(drain) => {
                drain.on_feedback(now, feedback.in_flight, bdp, bandwidth);
            }
            State::ProbeBw(_) if feedback.min_rtt_expired => {
                self.state = State::ProbeRtt(ProbeRtt::new(now));
            }
            State::ProbeBw(probe) => {
                let flight = (feedback.in_flight, bdp);
                probe.on_feedback(now, path.probe_unit(), flight, bandwidth);
            }
            State::ProbeRtt(probe) => {
                let round_trip = path.min_rtt.unwrap_or(ASSUMED_RTT);
                // The minimum has shown again: there is no queue, and nothing to wait for.
                let found = !feedback.min_rtt_expired;
                if found || probe.is_done(now, feedback.in_flight, probe_rtt_window, round_trip)
                {
                    self.state = State::ProbeBw(cruise);
                }
            }
            State::Startup => {}
        }
    }
}

#[cfg(test)]
mod tests;
