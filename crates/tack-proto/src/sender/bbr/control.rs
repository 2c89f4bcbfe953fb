//! Control parameters: the pacing rate and what may be in flight (section "Updating Control
//! Parameters").

use super::{Bbr, Deviation, LEAST_PACKETS, PathModel, ProbeBwPhase, State, startup};
use crate::bandwidth::Bandwidth;

impl Bbr {
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
            State::Startup => self.trains.pacing_rate(bandwidth).unwrap_or_else(|| {
                let doubling = self.startup_bandwidth().scaled(startup::GAIN);
                doubling.max(path.initial_rate(startup::GAIN))
            }),
            State::Drain(drain) => {
                drain.bound_bandwidth(bandwidth).scaled(drain.gain()).max(least)
            }
            State::ProbeBw(ProbeBwPhase::Up) if self.scalable.is_some() => bandwidth.max(least),
            // TACK-6.2-16: what arrives is to be the path's rate. What Down loses tells how much more that takes.
            State::ProbeBw(phase) if phase != ProbeBwPhase::Down => {
                let lost = if self.has(Deviation::PathLosses) {
                    self.path_losses.share()
                } else {
                    0.0
                };
                bandwidth.scaled(self.cycle.gain(phase) / (1.0 - lost)).max(least)
            }
            State::ProbeBw(phase) => bandwidth.scaled(self.cycle.gain(phase)).max(least),
            State::ProbeRtt(_) => bandwidth.scaled(self.config.probe_rtt_gain).max(least),
        }
    }

    /// How much may be in flight: (2 + 1/(RTTmin f)) BDP, where 1/f is what the
    /// wait for the next TACK adds; more where the medium aggregates, the path is
    /// shorter than those it shares with, or acknowledgements queue (TACK-6.2-9). What the models of
    /// congestion allow is the most.
    pub fn inflight_cap(&self, path: &PathModel) -> u64 {
        // TACK-6.6-3
        self.minimum_window.bound_inflight(self.model_cap(path))
    }

    /// What Startup goes by without trains.
    fn startup_bandwidth(&self) -> Bandwidth {
        self.bandwidth().max(self.startup_rate)
    }

    fn model_cap(&self, path: &PathModel) -> u64 {
        let least = LEAST_PACKETS * path.mss;
        let Some(min_rtt) = path.min_rtt else { return path.initial_window };
        let held = self.bandwidth().bytes_in(path.usual_ack_interval);
        let late = self.bandwidth().bytes_in(path.ack_late);
        match self.state {
            State::Startup => {
                if let Some(cap) = self.trains.inflight_cap(self.bandwidth(), path) {
                    return cap;
                }
                // TACK-6.2-19
                let round_trip = path.startup_rtt().max(path.round_trip() + self.held_up());
                let bdp = self.startup_bandwidth().bytes_in(round_trip);
                let held = self.startup_bandwidth().bytes_in(path.ack_interval);
                let gain = startup::inflight_gain(min_rtt, self.round_trip);
                let own = self.bandwidth().bytes_in(2 * path.own_late);
                // Where there is one TACK in a round trip or less, the rate doubles by what it finds.
                let (grows, held) =
                    if path.ack_interval < min_rtt || !self.has(Deviation::ShortPaths) {
                        (bdp, held)
                    } else {
                        (bdp + held, 0)
                    };
                let cap = (grows as f64 * gain) as u64 + held + late.min(own);
                cap.max(path.initial_window)
            }
            State::Drain(_) => (self.path_inflight(path) + held).max(least),
            State::ProbeBw(_) => {
                let span =
                    self.config.deviations.allow(Deviation::ExtraAcked, path.ack_interval);
                let extra = self.extra_acked.allowance(self.bandwidth(), span);
                (self.path_inflight(path) + held + late + extra).max(least)
            }
            State::ProbeRtt(_) => self.probe_rtt_window(path),
        }
    }

    /// What of that may be on the path: no more than the models of congestion allow
    /// (BoundCwndForModel).
    pub(super) fn path_inflight(&self, path: &PathModel) -> u64 {
        let bdp = self.bandwidth().bytes_in(path.round_trip());
        let inflight = match self.state {
            State::ProbeBw(_) => {
                bdp + self.bandwidth().bytes_in(path.shared_rtt(self.even_rtt()))
            }
            _ => bdp,
        };
        let inflight = match self.state {
            State::Startup => return inflight,
            State::ProbeBw(ProbeBwPhase::Cruise) => self.long_term.bound_cruise(inflight, bdp),
            _ => self.long_term.bound_inflight(inflight),
        };
        self.short_term.bound_inflight(inflight)
    }

    /// How much may be in flight while the path says nothing: what it holds, and two waits for a
    /// TACK. More would only fill the queue in front of a path that stands still.
    pub fn outage_cap(&self, path: &PathModel) -> u64 {
        match (self.state, path.min_rtt) {
            (State::ProbeBw(_), Some(_)) if self.has(Deviation::Outages) => {
                let span = path.round_trip() + 2 * path.ack_interval + path.ack_late;
                let cap = self.bandwidth().bytes_in(span);
                cap.max(LEAST_PACKETS * path.mss)
            }
            _ => u64::MAX,
        }
    }

    /// What ProbeRTT leaves in flight: its part of what the path and the wait for the next TACK
    /// hold.
    pub(super) fn probe_rtt_window(&self, path: &PathModel) -> u64 {
        let span = path.round_trip() + path.ack_interval;
        let rate = self.bandwidth().scaled(self.config.probe_rtt_gain);
        rate.bytes_in(span).max(LEAST_PACKETS * path.mss)
    }
}
