//! Receiver-driven BBR (section VI-D of the paper).
//!
//! The state machine and the models are those of BBRv3 (draft-ietf-ccwg-bbr-06). What drives them
//! is the receiver: max_bw is the largest delivery rate of the last forty probe units, as the
//! receiver measured it; the sender's own record bounds it. A stock peer reports no rate: then the
//! sender's samples alone drive the same controller.

mod bandwidth_drop;
mod config;
mod control;
mod drain;
mod extra_acked;
mod hold_ups;
mod long_term;
mod loss;
mod marks;
mod minimum_window;
mod probe;
mod probe_bw;
mod probe_rtt;
mod reported_rate_bound;
mod route_check;
mod safe_retreat;
mod share;
mod short_term;
mod startup;
mod startup_trains;
mod state;
mod undo;

use std::time::{Duration, Instant};

pub use config::BbrConfig;

use crate::bandwidth::Bandwidth;
use crate::ecn::Ecn;
use crate::sender::deviations::Deviation;
use crate::sender::path_losses::PathLosses;
use crate::sender::path_model::{
    ASSUMED_RTT, INITIAL_WINDOW_PACKETS, LEAST_PACKETS, PathModel,
};
use crate::sender::scalable::Scalable;
use crate::sender::sent_packets::Pace;
use crate::windowed_filter::MaxFilter;
use bandwidth_drop::BandwidthDrop;
use drain::Drain;
use extra_acked::ExtraAcked;
use hold_ups::HoldUps;
use long_term::LongTerm;
pub(in crate::sender) use loss::LOSS_THRESH;
use loss::LossSignals;
use marks::{BETA_ECN, Marks};
use minimum_window::MinimumWindow;
use probe::Probe;
use probe_bw::{Cycle, Units};
use probe_rtt::ProbeRtt;
use reported_rate_bound::bounded;
use route_check::RouteCheck;
use share::Share;
use short_term::ShortTerm;
use startup::FullPipe;
pub(in crate::sender) use startup_trains::Newest;
use startup_trains::StartupTrains;
pub use state::ProbeBwPhase;
use state::{Cause, State};
use undo::{Ended, LossEpisode};

/// BBR.Beta: what congestion leaves at least, as with CUBIC.
const BETA: f64 = 0.7;

/// Rounds behind an outage or a Drain: one in which what was sent before or queued in front of the path
/// arrives, and one until its losses show.
const ROUNDS_TO_SHOW: u64 = 2;

/// Rounds that the draft lets a flow cruise at most, so that it finds again what losses have cost
/// (section "Design Considerations for Choosing Constant Parameters").
const MOST_CRUISE_ROUNDS: u64 = 63;

/// Round trips for which losses of most of it put off a probe: half of the rate so often leaves less than a hundredth,
/// and a path that loses as much then is not slower but worse.
const MOST_FLOODED_ROUNDS: u32 = 7;

/// What a probe tries at most where congestion has left less: twice as much.
const MOST_REGAINED: f64 = 2.0;

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
    /// Those of both that were sent to probe for bandwidth, and how much was in flight when the last
    /// of the lost ones left.
    pub probe_acked: u64,
    pub probe_lost: u64,
    pub probe_lost_at: Option<super::TxInFlight>,
    /// Those of both that Down has sent, at less than the path carries.
    pub slow_acked: u64,
    pub slow_lost: u64,
    /// Packets that it has shown to be lost, and packets taken for lost that have arrived.
    pub lost_packets: u64,
    pub spurious: u64,
    /// Packets that it has newly reported as CE (RFC 9000 section 13.4.2); 0 while the path's ECN has
    /// not been validated.
    pub ce: u64,
    /// It has established persistent congestion (RFC 9002 section 7.6), or shown that there was none.
    pub is_persistent_congestion: bool,
    pub was_no_persistent_congestion: bool,
    /// Bytes in flight when the acknowledgement left, about.
    pub in_flight: u64,
    /// The round trip that came with the acknowledgement, without what that queued for.
    pub round_trip: Option<Duration>,
    /// The newest packet that it has acknowledged, unless that was known before.
    pub newest: Option<Newest>,
    /// Whether the minimum of the round trips is out of date.
    pub min_rtt_expired: bool,
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

/// What the controller has found out about RTTmin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinRttNews {
    /// A visit to ProbeRTT is over.
    Probed,
    /// Nothing of this flow queues, and round trips are longer all the same: the route may have
    /// become longer.
    Outdated,
}

/// What was delivered of late (bw_latest, inflight_latest).
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    bandwidth: Bandwidth,
    inflight: u64,
}

/// The controller: how fast to send, and how much may be in flight.
#[derive(Debug)]
pub struct Bbr {
    config: BbrConfig,
    state: State,
    cycle: Cycle,
    max_bw: MaxFilter<Bandwidth>,
    full_pipe: FullPipe,
    /// What Startup goes by without trains, where it is more than max_bw.
    startup_rate: Bandwidth,
    trains: StartupTrains,
    bandwidth_drop: BandwidthDrop,
    extra_acked: ExtraAcked,
    loss: LossSignals,
    path_losses: PathLosses,
    marks: Marks,
    ecn: Ecn,
    /// The rate by marks, while the path marks early.
    scalable: Option<Scalable>,
    /// It has marked early, and the rate by marks begins with ProbeBW.
    marks_early: bool,
    long_term: LongTerm,
    short_term: ShortTerm,
    share: Share,
    episode: LossEpisode,
    minimum_window: MinimumWindow,
    latest: Latest,
    probe: Probe,
    /// Round trips in a row of which most was lost.
    flooded_rounds: u32,
    round: u64,
    round_ends_at: u64,
    /// Until this round losses may be those of an outage.
    outage_round: u64,
    /// From this round on losses are not those of a rate that was far too high.
    own_round: u64,
    hold_ups: HoldUps,
    /// What a sample spans, smoothed.
    sample_span: Duration,
    delivered: u64,
    /// Probe units so far. Time, not round trips: those become longer
    /// just when a queue should make the estimate fall.
    units: u64,
    unit_began: Option<Instant>,
    last_feedback: Option<Instant>,
    /// The round trip that came with the last acknowledgement.
    round_trip: Option<Duration>,
    /// The last acknowledgement with a round trip was one of packets that had queued.
    has_queued: bool,
    route_check: RouteCheck,
    /// Nothing was in flight when what is in flight now began to leave.
    idle_restart: bool,
    /// Careful Resume gives back what it has sent too fast: no rate counts.
    is_retreating: bool,
}

impl Bbr {
    /// A controller in Startup of packets that leave with the codepoint of `ecn`; `random` are 64
    /// bits that other flows do not share.
    pub fn new(config: BbrConfig, ecn: Ecn, now: Instant, random: u64) -> Self {
        Self {
            config,
            state: State::Startup,
            cycle: Cycle::new(&config, now, random),
            max_bw: MaxFilter::new(config.filter_units),
            full_pipe: FullPipe::default(),
            startup_rate: Bandwidth::ZERO,
            trains: StartupTrains::new(ecn, config.startup_pauses),
            bandwidth_drop: BandwidthDrop::default(),
            extra_acked: ExtraAcked::new(config.filter_units),
            loss: LossSignals::default(),
            path_losses: PathLosses::default(),
            marks: Marks::default(),
            ecn,
            scalable: None,
            marks_early: false,
            long_term: LongTerm::default(),
            short_term: ShortTerm::default(),
            share: Share::default(),
            episode: LossEpisode::default(),
            minimum_window: MinimumWindow::default(),
            latest: Latest::default(),
            probe: Probe::default(),
            flooded_rounds: 0,
            round: 0,
            round_ends_at: 0,
            outage_round: 0,
            own_round: 0,
            sample_span: Duration::ZERO,
            hold_ups: HoldUps::default(),
            delivered: 0,
            units: 0,
            unit_began: None,
            last_feedback: None,
            round_trip: None,
            has_queued: false,
            route_check: RouteCheck::default(),
            idle_restart: false,
            is_retreating: false,
        }
    }

    fn has(&self, deviation: Deviation) -> bool {
        self.config.deviations.has(deviation)
    }

    /// BBR.bw: what early marks leave, or max_bw within what the short-term model and others allow.
    pub fn bandwidth(&self) -> Bandwidth {
        let by_marks = self.scalable.as_ref().map(Scalable::rate);
        by_marks.unwrap_or_else(|| {
            self.short_term.bound_bandwidth(self.share.bound_bandwidth(self.max_bw.get()))
        })
    }

    /// How long a cycle of ProbeBW lasts, in which the sender's own queue drains once.
    pub fn cycle(&self, path: &PathModel) -> Duration {
        path.cycle_unit(self.even_rtt()) * self.config.cycle_units
    }

    /// Round trips so far.
    pub fn rounds(&self) -> u64 {
        self.round
    }

    /// Whether more than LossThresh of one of the last two round trips was lost though not all of it queued.
    pub fn overflows(&self) -> bool {
        let probes = matches!(self.state, State::Startup | State::ProbeBw(ProbeBwPhase::Up));
        self.has(Deviation::ShortBursts)
            && !probes
            && self.loss.is_lossy()
            && !self.cycle.is_contested
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

    /// Whether what is sent now probes for bandwidth.
    pub fn probes(&self) -> bool {
        matches!(self.state, State::ProbeBw(ProbeBwPhase::Up))
    }

    /// How fast what is sent now is sent.
    pub(in crate::sender) fn pace(&self, now: Instant) -> Pace {
        match self.state {
            State::ProbeBw(ProbeBwPhase::Up) => Pace::Above,
            State::ProbeBw(ProbeBwPhase::Down) if self.cycle.has_slowed_down(now) => {
                Pace::Below
            }
            _ => Pace::Level,
        }
    }

    /// Data goes over the path again: what it was silent for says nothing of it, and what was
    /// planned for that time is too late.
    pub fn on_resumed(&mut self, now: Instant, path: &PathModel) {
        self.last_feedback = None;
        self.unit_began = None;
        self.bandwidth_drop = BandwidthDrop::default();
        self.extra_acked.interrupt();
        if std::mem::take(&mut self.is_retreating) {
            // TACK-6.7-8: the packets that its end waited for are another path's business now.
            self.measure_again();
        }
        if !matches!(self.state, State::Startup) {
            self.cycle.forget_probe();
            self.enter(now, State::ProbeBw(ProbeBwPhase::Cruise), Cause::Resumed, path);
        }
    }

    /// A packet leaves while nothing is in flight for want of data (HandleRestartFromIdle): the
    /// queues of this flow have drained, which is what ProbeRTT would be for. The silence before was not
    /// that of the path.
    pub fn on_restart_from_idle(&mut self) {
        self.idle_restart = true;
        self.last_feedback = None;
        self.extra_acked.interrupt();
    }

    /// A packet of this number and size leaves. True if the pacing rate changes with it.
    #[inline]
    pub fn on_packet_sent(&mut self, now: Instant, sent: (u64, u64), path: &PathModel) -> bool {
        matches!(self.state, State::Startup)
            && self.has(Deviation::StartupTrains)
            && self.trains.on_sent(now, sent, path)
    }

    /// The application has nothing more to send.
    pub fn on_run_dry(&mut self) {
        self.trains.on_run_dry();
    }

    /// The rate is found in another way.
    pub fn end_startup_trains(&mut self) {
        self.trains.end();
    }

    /// As much is in flight as [`Self::inflight_cap`] allows, and there is more to send.
    pub fn on_inflight_limited(&mut self, path: &PathModel) {
        let most = self.path_inflight(path);
        if self.long_term.get().is_some_and(|bound| most >= bound) {
            self.probe.on_longterm_limited();
        }
    }

    /// What of it is on the path (TACK-6.5-3): what has arrived since the last acknowledgement is not.
    fn on_path(&self, in_flight: super::TxInFlight) -> u64 {
        in_flight.bytes.saturating_sub(self.bandwidth().bytes_in(in_flight.since_ack))
    }

    /// Takes in an acknowledgement; what it says of RTTmin.
    pub fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback,
        path: &PathModel,
    ) -> Option<MinRttNews> {
        self.count_units(now, path);
        self.round_trip = feedback.round_trip;
        if let Some(round_trip) = feedback.round_trip {
            self.probe.on_round_trip(round_trip);
        }
        self.delivered = feedback.delivered;
        let silence = self
            .last_feedback
            .replace(now)
            .map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let stood_still = self.has(Deviation::Outages) && path.is_outage(silence);
        if stood_still {
            self.outage_round = self.round + ROUNDS_TO_SHOW;
        }
        // The silence of an application holds nothing up.
        let app_limited = feedback.sample.is_some_and(|sample| sample.app_limited);
        if self.has(Deviation::Jitter) && !app_limited {
            self.hold_ups.on_silence(silence, self.round, path);
        }
        if stood_still || !matches!(self.state, State::ProbeBw(_)) {
            self.extra_acked.interrupt();
        } else {
            let bandwidth = self.bandwidth();
            self.extra_acked.on_acked(now, self.units, feedback.acked, bandwidth);
        }
        self.follow_losses(now, feedback, path);
        self.follow_persistent_congestion(feedback, path);
        self.follow_marks(now, feedback, path);
        if let Some(newest) = feedback.newest {
            self.trains.on_acked(newest, self.held_up(), path);
        }
        if let Some(sample) = feedback.sample {
            self.on_sample(now, feedback, path, &sample);
        }
        let probed = self.phase() == Phase::ProbeRtt;
        self.change_state(now, feedback, stood_still, path);
        if stood_still && matches!(self.state, State::ProbeBw(_)) {
            // Neither what was lost nor what was delivered in the meantime says how much the path takes.
            self.loss.forget_round();
            self.latest = Latest::default();
            self.round_ends_at = self.delivered;
            // What was sent meanwhile waits in a queue that nothing else would take back.
            let round_trip = path.data_rtt() + path.ack_interval;
            let drain = Drain::after_outage(now, round_trip);
            self.enter(now, State::Drain(drain), Cause::PathChange, path);
        }
        if feedback.acked > 0 {
            self.idle_restart = false;
        }
        self.on_time(now, path);
        let is_outdated = self.route_check.take_suspicion().then_some(MinRttNews::Outdated);
        let is_probed = probed && self.phase() != Phase::ProbeRtt;
        is_probed.then_some(MinRttNews::Probed).or(is_outdated)
    }

    /// Moves on where time alone says so. True if the pacing rate may have changed with it.
    pub fn on_time(&mut self, now: Instant, path: &PathModel) -> bool {
        if self.next_change(path).is_none_or(|at| now < at) {
            return false;
        }
        // A queue is known to have drained while acknowledgements come.
        let longest_wait = path.ack_interval * 3 / 2 + path.ack_path;
        let is_acknowledged = self.last_feedback.is_some_and(|last| now <= last + longest_wait);
        let next = match self.state {
            State::ProbeBw(ProbeBwPhase::Up) if self.probe.goes_on() => {
                // Bandwidth is limited by inflight_longterm, which grows faster with each round.
                let cap = self.path_inflight(path);
                self.long_term.raise_slope(cap, path.mss);
                self.probe.on_prolonged();
                self.cycle.go_on(now, path.probe_unit());
                return false;
            }
            State::ProbeBw(ProbeBwPhase::Down) | State::Drain(_) if !is_acknowledged => {
                return false;
            }
            State::ProbeBw(phase) => Cycle::next(phase),
            State::Drain(_) => ProbeBwPhase::Cruise,
            State::Startup | State::ProbeRtt(_) => return false,
        };
        if next == ProbeBwPhase::Down {
            self.long_term.on_probed();
        }
        self.enter(now, State::ProbeBw(next), Cause::Diagram, path);
        true
    }

    /// Before this instant [`Self::on_time`] changes nothing, unless an acknowledgement comes
    /// first; `None` if it never does.
    pub fn next_change(&self, path: &PathModel) -> Option<Instant> {
        match &self.state {
            // Marks say when there is more to be had.
            State::ProbeBw(ProbeBwPhase::Cruise) if self.scalable.is_some() => None,
            // The rate still falls: there is no more to be had.
            State::ProbeBw(ProbeBwPhase::Cruise)
                if (1..=MOST_FLOODED_ROUNDS).contains(&self.flooded_rounds) =>
            {
                None
            }
            State::ProbeBw(phase) => Some(self.cycle.until(*phase, &self.units(path))),
            State::Drain(drain) => Some(drain.until()),
            State::Startup | State::ProbeRtt(_) => None,
        }
    }

    /// The one way from state to state.
    fn enter(&mut self, now: Instant, next: State, cause: Cause, path: &PathModel) {
        debug_assert!(
            self.state.may_become(next, cause),
            "{:?} must not follow {:?} by {cause:?}",
            next,
            self.state
        );
        if let State::ProbeBw(phase) = next {
            self.begin_phase(now, phase, path);
        }
        match next {
            State::ProbeBw(ProbeBwPhase::Refill) => {
                self.probe.on_refill();
                self.lift_short_term();
                self.share.on_refill(self.max_bw.get(), self.cycle.is_accelerated());
            }
            State::Startup => {
                self.short_term.reset();
                self.trains.end();
            }
            State::ProbeBw(ProbeBwPhase::Up) => {
                let cap = self.path_inflight(path);
                self.long_term.on_probe(cap, path.mss);
                self.share.on_probe(self.bandwidth());
                self.loss.on_probe();
                self.probe.on_begin();
            }
            State::ProbeBw(ProbeBwPhase::Down) => self.probe.on_end(self.delivered),
            State::ProbeBw(ProbeBwPhase::Cruise) => {
                if matches!(self.state, State::ProbeRtt(_)) {
                    self.lift_short_term();
                }
                // The queue has drained: from here on only a longer route explains a longer round trip.
                self.route_check.on_drained(self.delivered);
            }
            _ => {}
        }
        if matches!(self.state, State::Drain(drain) if !drain.is_after_outage()) {
            self.own_round = self.round + ROUNDS_TO_SHOW;
        }
        self.state = next;
    }

    /// What congestion has bounded is free again (TACK-6.5-5). Where it has left less than half, the path may have
    /// become slower, and all of max_bw for a round trip would show no more than twice as much as is left.
    fn lift_short_term(&mut self) {
        if self.short_term.is_congested() {
            let left = self.short_term.bound_bandwidth(self.max_bw.get());
            self.max_bw.limit(left.scaled(MOST_REGAINED));
        }
        self.short_term.reset();
    }

    /// A phase of ProbeBW's cycle begins.
    fn begin_phase(&mut self, now: Instant, phase: ProbeBwPhase, path: &PathModel) {
        let spans = path.jitters().then_some(self.sample_span);
        self.cycle.on_enter(now, phase, (path.probe_unit(), spans), self.max_bw.get());
        if phase == ProbeBwPhase::Down && self.path_losses.are_many() {
            self.cycle.looks_for_losses(now, path.probe_unit());
        }
    }

    /// Whether losses in this state bound the short-term model: what was sent to probe, or waited for
    /// a path that stood still, has others.
    fn yields(&self) -> bool {
        !self.state.is_probing() && self.round > self.outage_round
    }

    /// For how long packets have been held up at a time of late; zero if they have not.
    fn held_up(&self) -> Duration {
        self.hold_ups.longest(self.round)
    }

    /// As long a path may count as.
    fn even_rtt(&self) -> Duration {
        self.config.deviations.allow(Deviation::EvenRtt, self.config.even_rtt)
    }

    fn units(&self, path: &PathModel) -> Units {
        let round_trip = path.smoothed_rtt.unwrap_or(ASSUMED_RTT);
        let in_bdp = self.bdp(path) / path.mss.max(1);
        let rounds = in_bdp.clamp(1, MOST_CRUISE_ROUNDS) as u32;
        let is_congested = (self.short_term.is_congested() || self.probe.was_too_high())
            && !self.bandwidth_drop.explains_losses();
        let waits = is_congested || !self.has(Deviation::ShortCycle);
        Units {
            probe: path.probe_unit(),
            cycle: path.cycle_unit(self.even_rtt()),
            congested: waits.then(|| round_trip * rounds),
        }
    }

    /// What the path holds.
    fn bdp(&self, path: &PathModel) -> u64 {
        path.min_rtt.map_or(0, |_| self.bandwidth().bytes_in(path.data_rtt()))
    }

    /// What may be in flight when a queue has drained: what the path holds, but as many packets as may always be
    /// in flight. On a slow short path these are more, and the least rate keeps them there (TACK-6.2-8).
    fn drained_flight(&self, path: &PathModel) -> u64 {
        drained_at(self.bandwidth(), path)
    }

    /// Takes in what was lost, and what was not after all.
    fn follow_losses(&mut self, now: Instant, feedback: &Feedback, path: &PathModel) {
        let probe = (feedback.probe_acked, feedback.probe_lost);
        let all = (feedback.acked, feedback.lost);
        self.loss.on_acked(now, all, probe, feedback.round_trip, path);
        let level = |all: u64, probe: u64, slow: u64| all.saturating_sub(probe + slow);
        let acked = level(feedback.acked, feedback.probe_acked, feedback.slow_acked);
        let lost = level(feedback.lost, feedback.probe_lost, feedback.slow_lost);
        self.path_losses.on_level((acked, lost), path.mss);
        // Losses often show without a round trip, and belong to the packets acknowledged before.
        if let Some(round_trip) = feedback.round_trip {
            self.has_queued = path.holds_queue(round_trip);
        }
        if !self.has_queued {
            self.path_losses.on_slow((feedback.slow_acked, feedback.slow_lost), path.mss);
        }
        if !self.marks_own_burst(feedback, path) {
            self.marks.on_acked(feedback.ce, feedback.acked);
        }
        self.episode.on_lost(feedback.lost_packets, self.short_term, self.long_term.get());
        let spurious = if self.has(Deviation::Undo) { feedback.spurious } else { 0 };
        if let Some(before) = self.episode.on_spurious(spurious) {
            self.short_term.restore(before.short_term);
            self.long_term.restore(before.inflight_longterm);
            self.share = Share::default();
            match (before.ended, self.state) {
                (Some(Ended::Startup), State::Drain(_) | State::ProbeBw(_)) => {
                    self.full_pipe = FullPipe::default();
                    // Nothing follows it in Startup, which has to find more than that.
                    self.scalable = None;
                    self.enter(now, State::Startup, Cause::Undo, path);
                }
                (Some(Ended::ProbeBwUp), State::ProbeBw(_)) => {
                    self.enter(now, State::ProbeBw(ProbeBwPhase::Refill), Cause::Undo, path);
                }
                _ => {}
            }
        }
        let Some(lost_at) = feedback.probe_lost_at.filter(|_| self.probe.is_judging()) else {
            return;
        };
        let tx_in_flight = self.on_path(lost_at);
        if self.loss.is_probe_too_high(tx_in_flight, path.mss) {
            let app_limited = feedback.sample.is_some_and(|sample| sample.app_limited);
            let target = self.bdp(path).min(self.path_inflight(path));
            let bound = self.inflight_too_high(tx_in_flight, target);
            self.long_term.on_too_high(bound, app_limited);
            self.probe.on_too_high(feedback.delivered);
            self.cycle.on_too_high();
            if self.has(Deviation::Share) && !self.bandwidth_drop.explains_losses() {
                self.share.on_too_high(self.bandwidth());
            }
            if self.probes() {
                self.episode.on_ended(Ended::ProbeBwUp);
                self.enter(now, State::ProbeBw(ProbeBwPhase::Down), Cause::Diagram, path);
            }
        }
    }

    /// TACK-6.6-3, TACK-6.6-4
    fn follow_persistent_congestion(&mut self, feedback: &Feedback, path: &PathModel) {
        let prior = feedback.sample.map(|sample| sample.prior_delivered);
        let volume = (feedback.acked, feedback.lost);
        self.minimum_window.on_acked(volume, feedback.delivered, prior);
        if feedback.was_no_persistent_congestion {
            self.minimum_window.undo();
        }
        if feedback.is_persistent_congestion {
            self.minimum_window.on_persistent_congestion(feedback.delivered, path.mss);
        }
    }

    /// What a probe leaves of the flight that was too much, where the path holds `target`
    /// (HandleInflightTooHigh). The draft keeps all of it, so that flows which share a buffer never
    /// become equal; this takes [`BETA`] of it, down to `target`.
    fn inflight_too_high(&self, tx_in_flight: u64, target: u64) -> u64 {
        let keeps = |volume: u64| (volume as f64 * BETA) as u64;
        if self.has(Deviation::Decrease) {
            keeps(tx_in_flight).max(target)
        } else {
            tx_in_flight.max(keeps(target))
        }
    }

    /// A delivery-rate sample: models of rate and volume, and the end of a round trip.
    fn on_sample(
        &mut self,
        now: Instant,
        feedback: &Feedback,
        path: &PathModel,
        sample: &super::RateSample,
    ) {
        let round_ended = sample.prior_delivered >= self.round_ends_at;
        if round_ended {
            self.round += 1;
            self.round_ends_at = feedback.delivered;
        }
        self.sample_span = (self.sample_span * 7 + sample.interval) / 8;
        let excess = self.config.reported_rate_excess;
        // It spans two TACKs (TACK-4.4-2).
        let resolution = self.config.reported_rate_resolution * path.mss;
        let resolution = Bandwidth::from_delta(resolution, 2 * path.ack_interval);
        let reported = feedback.reported.map(|rate| rate.plus(resolution.unwrap_or_default()));
        // TACK-6.1-1. A probe that is shorter than a round trip shows sooner in reports than in the sender's own
        // samples.
        let shows_probe = self.probes() || self.probe.is_stopping();
        let may_be_earlier = shows_probe && excess > 1.0 && !sample.app_limited;
        let reported = reported.map(|rate| self.probe.reported(rate, may_be_earlier));
        let rate = bounded(sample, reported, excess, self.loss.is_lossy());
        // TACK-6.1-2, TACK-6.3-1. A span below the round trip has caught acknowledgements
        // that came together. An application-limited sample can only show that the path is
        // faster than was known.
        let spans_round_trip = path.min_rtt.is_none_or(|rtt| sample.interval >= rtt);
        if self.is_retreating {
            // TACK-6.7-6
        } else if spans_round_trip && (!sample.app_limited || rate > self.max_bw.get()) {
            self.max_bw.update(self.units, rate);
        } else if sample.app_limited {
            // It says nothing, and the estimate does not age by it: else the
            // first sample after a quiet time would replace it, however low.
            self.max_bw.update(self.units, self.max_bw.get());
        }
        let shown = if sample.app_limited { self.max_bw.get() } else { rate };
        self.probe.on_rate(shown);
        if !sample.app_limited {
            self.share.on_rate(rate);
        }
        if matches!(self.state, State::Startup) {
            self.startup_rate = startup::growing_rate(sample, feedback.reported);
        }
        // What was delivered while the newest packet was on its way, and not before it had left.
        let volume = feedback.delivered.saturating_sub(sample.prior_delivered);
        let before = self.bandwidth().bytes_in(sample.tx_in_flight.since_ack);
        let volume = volume.saturating_sub(before);
        self.latest.bandwidth = self.latest.bandwidth.max(rate);
        self.latest.inflight = self.latest.inflight.max(volume);
        if self.probe.is_safe(sample.prior_delivered) {
            self.long_term.on_safe(self.on_path(sample.tx_in_flight));
            if self.probes() && self.probe.is_longterm_limited() {
                self.long_term.on_limited(feedback.acked, path.mss);
            }
        }
        if round_ended {
            self.on_round(now, path, sample.app_limited);
        }
        if self.probe.ends_with(sample.prior_delivered) {
            self.on_probe_judged(now, path);
        }
        if self.route_check.decides(sample.prior_delivered) {
            self.route_check.on_decided(path.is_queueing(feedback.round_trip));
        } else if !self.route_check.is_waiting() {
            self.follow_bandwidth_drop(now, feedback, path, sample);
        }
    }

    /// A round trip is over.
    fn on_round(&mut self, now: Instant, path: &PathModel, app_limited: bool) {
        let is_own = self.has(Deviation::OwnLosses);
        let may_learn = matches!(self.state, State::ProbeBw(_)) && self.round >= self.own_round;
        let losses = self.loss.on_round(path, is_own && may_learn);
        // A queue is longest at the end; on a path that jitters it makes all round trips longer.
        let round_trip =
            if path.jitter_hides_queues() { losses.lowest } else { self.round_trip };
        // A path that stood still in this round trip or the last shows no rate that could grow.
        let stood_still = self.round <= self.outage_round;
        let grew = self.full_pipe.on_round(
            self.max_bw.get(),
            app_limited || stood_still,
            // What was held up has taken longer without a queue.
            !path.acks_queue()
                && path.is_queueing_beyond(path.jitter_both_ways, path.forward_rtt)
                && path.is_queueing(round_trip)
                && self.held_up().is_zero(),
        );
        let in_startup = matches!(self.state, State::Startup);
        let marks = self.marks.on_round(path.mss);
        if in_startup && marks.ends_startup {
            self.full_pipe.on_overflow();
        } else if !in_startup && marks.marked && !self.follows_early_marks() {
            let before = (self.bandwidth(), self.path_inflight(path));
            self.short_term.on_marks(BETA_ECN, before);
        }
        let counts = losses.queued || losses.floods || !is_own;
        let floods = losses.floods && self.yields();
        self.flooded_rounds = if floods { self.flooded_rounds + 1 } else { 0 };
        let surplus = losses.startup_surplus.saturating_sub(self.episode.spurious_in_round());
        self.episode.on_round();
        self.cycle.is_contested = losses.queued;
        if losses.queued && matches!(self.state, State::ProbeBw(ProbeBwPhase::Cruise)) {
            self.bandwidth_drop.on_contested();
        }
        self.share.on_round(losses.queued && path.acks_show_queues());
        let latest = std::mem::take(&mut self.latest);
        // What the path loses by itself does not get less by sending less.
        let delivered = 1.0 - self.loss.base_share();
        let volume = (latest.inflight as f64 / delivered) as u64;
        let bandwidth = latest.bandwidth.scaled(1.0 / delivered);
        if in_startup {
            // The path may have delivered late what seems to have queued, and what seems to be lost, but not half of it.
            let may_be_late = !losses.floods && path.is_within_jitter(losses.lowest);
            let counts = counts && !may_be_late;
            if surplus > 0 && (counts || !grew) {
                self.full_pipe.on_overflow();
                self.episode.on_startup_ended(surplus);
                self.long_term.on_startup_loss(self.bdp(path), volume);
            }
        } else if counts && losses.excess && !app_limited && self.yields() {
            let before = (self.bandwidth(), self.path_inflight(path));
            self.short_term.on_congestion((bandwidth, volume), before, losses.floods);
            // RFC 9331 section 4.3: what is lost is answered as Classic traffic does.
            self.end_rate_by_marks(now, path);
        }
    }

    /// All that a probe has sent has been acknowledged or lost.
    fn on_probe_judged(&mut self, now: Instant, path: &PathModel) {
        if !self.has(Deviation::BandwidthMemory) {
            // The memory holds two cycles (AdvanceMaxBwFilter).
            self.units += self.config.filter_units / 2 + 1;
        }
        if self.probe.on_judged() {
            self.share.on_harmless_probe(self.cycle.gain(ProbeBwPhase::Up));
            // What may always be in flight keeps an even queue of its own on a slow path.
            if self.has(Deviation::BandwidthDrop)
                && path.acks_show_queues()
                && path.is_queueing(self.probe.even_round_trip())
                && self.bdp(path) > LEAST_PACKETS * path.mss
            {
                self.route_check.on_even_probe();
            }
        } else {
            self.follow_drop_in_probe(self.probe.best(), path);
        }
        if self.long_term.repeats_probe()
            && matches!(self.state, State::ProbeBw(ProbeBwPhase::Down | ProbeBwPhase::Cruise))
        {
            self.enter(now, State::ProbeBw(ProbeBwPhase::Refill), Cause::Diagram, path);
        }
    }

    /// Counts time in probe units. A medium that pauses brings no acknowledgements, and the
    /// estimate ages by no more than a round trip meanwhile: else the first sample behind the
    /// pause, which has the pause in it, would replace it.
    fn count_units(&mut self, now: Instant, path: &PathModel) {
        if self.short_term.is_congested() || !self.has(Deviation::BandwidthMemory) {
            // What was found without the bound is to be there again when that is lifted.
            self.unit_began = Some(now);
            return;
        }
        let unit = path.cycle_unit(self.even_rtt());
        let began = *self.unit_began.get_or_insert(now);
        let longest = 4 * unit + path.ack_interval;
        let began = now.checked_sub(longest).map_or(began, |earliest| began.max(earliest));
        let passed = now.saturating_duration_since(began);
        // At most four and what an ACK may wait for, which is 2^14 ms at most.
        let units = (passed.as_nanos() / unit.as_nanos()) as u32;
        self.units += u64::from(units);
        self.unit_began = Some(began + unit * units);
    }

    fn drain(&mut self, now: Instant, feedback: &Feedback, cause: Cause, path: &PathModel) {
        let left = self.drained_flight(path);
        let drain = Drain::new(now, feedback.in_flight, left, self.bandwidth());
        self.enter(now, State::Drain(drain), cause, path);
    }

    fn change_state(
        &mut self,
        now: Instant,
        feedback: &Feedback,
        stood_still: bool,
        path: &PathModel,
    ) {
        let bandwidth = self.bandwidth();
        let drained = self.drained_flight(path);
        let probe_rtt_window = self.probe_rtt_window(path);
        let (bandwidth, drained) = match self.state {
            State::Drain(drain) => {
                let rate = drain.bound_bandwidth(bandwidth);
                (rate, drained.min(drained_at(rate, path)))
            }
            _ => (bandwidth, drained),
        };
        match &mut self.state {
            State::Startup
                if self.full_pipe.is_full()
                    || self.trains.show_no_more() && self.full_pipe.has_stalled() =>
            {
                self.drain(now, feedback, Cause::Diagram, path);
            }
            State::Drain(drain) => {
                drain.on_feedback(now, feedback.in_flight, drained, bandwidth);
            }
            // TACK-6.6-5: behind an outage much of what is in flight is lost, and ProbeRTT would wait
            // for it to drain.
            State::ProbeBw(_)
                if feedback.min_rtt_expired && !self.idle_restart && !stood_still =>
            {
                let probe = ProbeRtt::new(now);
                self.enter(now, State::ProbeRtt(probe), Cause::Diagram, path);
            }
            State::ProbeBw(phase) => {
                let phase = *phase;
                self.follow_probe(now, phase, feedback, path);
            }
            State::ProbeRtt(probe) => {
                let round_trip = path.min_rtt.unwrap_or(ASSUMED_RTT);
                // The minimum has shown again: there is no queue, and nothing to wait for.
                let found = !feedback.min_rtt_expired;
                if found || probe.is_done(now, feedback.in_flight, probe_rtt_window, round_trip)
                {
                    let cruise = State::ProbeBw(ProbeBwPhase::Cruise);
                    self.enter(now, cruise, Cause::Diagram, path);
                }
            }
            State::Startup => {}
        }
    }

    /// What an acknowledgement changes in the cycle of ProbeBW.
    fn follow_probe(
        &mut self,
        now: Instant,
        phase: ProbeBwPhase,
        feedback: &Feedback,
        path: &PathModel,
    ) {
        if self.scalable.is_none() && self.cycle.has_found_more(phase, self.max_bw.get()) {
            if self.has(Deviation::Acceleration) {
                self.cycle.accelerate();
            }
            self.enter(now, State::ProbeBw(ProbeBwPhase::Refill), Cause::Diagram, path);
            self.enter(now, State::ProbeBw(ProbeBwPhase::Up), Cause::Diagram, path);
        } else if phase == ProbeBwPhase::Down {
            let flight = (feedback.in_flight, self.drained_flight(path));
            self.cycle.on_draining(now, flight, self.bandwidth());
        } else if phase == ProbeBwPhase::Up
            && self.has(Deviation::Precaution)
            && self.long_term.ends_with_caution(feedback.in_flight)
        {
            self.long_term.on_probed();
            self.enter(now, State::ProbeBw(ProbeBwPhase::Down), Cause::Diagram, path);
        }
    }
}

/// What may be in flight when a queue has drained that a path of this rate had.
fn drained_at(rate: Bandwidth, path: &PathModel) -> u64 {
    let bdp = path.min_rtt.map_or(0, |_| rate.bytes_in(path.data_rtt()));
    bdp.max(LEAST_PACKETS * path.mss)
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
pub(in crate::sender) mod tests;
