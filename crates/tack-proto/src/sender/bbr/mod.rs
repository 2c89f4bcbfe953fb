//! Receiver-driven BBR (section VI-D of the paper).
//!
//! The bandwidth estimate is the largest delivery rate of the last forty TACK
//! intervals, as the receiver measured it; the sender's own record bounds what it
//! believes. A stock peer reports no rate: then the sender's samples alone
//! drive the same controller.

mod drain;
mod probe_bw;
mod probe_rtt;
mod startup;
mod windowed_filter;

use std::time::{Duration, Instant};

pub use windowed_filter::MaxFilter;

use super::ack_frequency::SHORTEST_INTERVAL;
use crate::bandwidth::Bandwidth;
use probe_bw::ProbeBw;
use probe_rtt::ProbeRtt;
use startup::FullPipe;

/// RFC 9002 section 7.2: what may be in flight before anything is known.
pub const INITIAL_WINDOW_PACKETS: u64 = 10;

/// Packets that may always be in flight: fewer would wait for each other's
/// acknowledgements (L = 2, and one burst on its way).
const LEAST_PACKETS: u64 = 4;

/// Round trip assumed before one has been measured, for the first burst.
const ASSUMED_RTT: Duration = Duration::from_millis(100);

/// What a receiver may report above the sender's own estimate: its samples
/// span half a round trip, the sender's a whole one, and a probe shows in them
/// earlier.
const TRUSTED_EXCESS: f64 = 1.25;

/// Parameters of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BbrConfig {
    /// TACK intervals of a ProbeBW cycle: 32, or 16 in the video profile.
    pub cycle_intervals: u32,
    /// TACK intervals that the bandwidth filter spans: 40, or 20.
    pub filter_intervals: u64,
}

impl Default for BbrConfig {
    fn default() -> Self {
        Self { cycle_intervals: 32, filter_intervals: 40 }
    }
}

/// What the controller is told with each acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    /// The sender's own delivery-rate sample.
    pub sample: Option<super::RateSample>,
    /// The receiver's delivery rate.
    pub reported: Option<Bandwidth>,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Bytes in flight now.
    pub in_flight: u64,
    /// Whether the minimum of the round trips is out of date.
    pub min_rtt_expired: bool,
}

/// What the controller needs to know of the path.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// RTTmin, if measured.
    pub min_rtt: Option<Duration>,
    /// Smoothed round trip, if measured.
    pub smoothed_rtt: Option<Duration>,
    /// alpha, the interval between TACKs.
    pub ack_interval: Duration,
    /// Largest packet, bytes.
    pub mss: u64,
}

impl Path {
    /// The unit of the controller's cycles: a quarter of RTTmin, which is the
    /// paper's TACK interval whatever interval the receiver was told.
    fn interval(&self) -> Duration {
        (self.min_rtt.unwrap_or(ASSUMED_RTT) / 4).max(SHORTEST_INTERVAL)
    }

    /// Whether the round trip is a quarter above its minimum: packets queue.
    fn has_queue(&self) -> bool {
        match (self.min_rtt, self.smoothed_rtt) {
            (Some(min_rtt), Some(smoothed)) => smoothed > min_rtt + min_rtt / 4,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Startup,
    Drain,
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
    round: u64,
    round_ends_at: u64,
    /// TACK intervals of RTTmin/4 so far. Time, not round trips: those become
    /// longer just when a queue wants the estimate to fall.
    interval: u64,
    interval_began: Option<Instant>,
}

impl Bbr {
    /// A controller in Startup.
    pub fn new(config: BbrConfig) -> Self {
        Self {
            config,
            state: State::Startup,
            bandwidth: MaxFilter::new(config.filter_intervals),
            full_pipe: FullPipe::default(),
            round: 0,
            round_ends_at: 0,
            interval: 0,
            interval_began: None,
        }
    }

    /// BWmax.
    pub fn bandwidth(&self) -> Bandwidth {
        self.bandwidth.get()
    }

    /// Round trips so far.
    pub fn rounds(&self) -> u64 {
        self.round
    }

    /// The state.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Startup => Phase::Startup,
            State::Drain => Phase::Drain,
            State::ProbeBw(_) => Phase::ProbeBw,
            State::ProbeRtt(_) => Phase::ProbeRtt,
        }
    }

    /// Takes in an acknowledgement. True if a visit to ProbeRTT has ended with it.
    pub fn on_feedback(&mut self, now: Instant, feedback: &Feedback, path: &Path) -> bool {
        self.count_intervals(now, path.interval());
        if let Some(sample) = feedback.sample {
            let round_ended = sample.prior_delivered >= self.round_ends_at;
            if round_ended {
                self.round += 1;
                self.round_ends_at = feedback.delivered;
            }
            let rate = believed(&sample, feedback.reported);
            // A span below the round trip has caught acknowledgements that came
            // together. An application-limited sample can only show that the
            // path is faster than was known.
            let spans_round_trip = path.min_rtt.is_none_or(|rtt| sample.interval >= rtt);
            if spans_round_trip && (!sample.app_limited || rate > self.bandwidth()) {
                self.bandwidth.update(self.interval, rate);
            } else if sample.app_limited {
                // It says nothing, and the estimate does not age by it: else the
                // first sample after a quiet time would replace it, however low.
                self.bandwidth.update(self.interval, self.bandwidth());
            }
            if round_ended {
                let queue = path.has_queue();
                self.full_pipe.on_round(self.bandwidth(), sample.app_limited, queue);
            }
        }
        let probed = self.phase() == Phase::ProbeRtt;
        self.change_state(now, feedback, path);
        probed && self.phase() != Phase::ProbeRtt
    }

    /// How fast to send.
    pub fn pacing_rate(&self, path: &Path) -> Bandwidth {
        let bandwidth = self.bandwidth();
        // The paper's max(gain * BWmax, MSS * f_tack), where f_tack is bound by the
        // same bandwidth estimate: it would not stop a loss above the probe's gain
        // from driving both to nothing. Four packets for each round trip do, and
        // adapt to a path that is slower than that, because its round trip grows.
        let least = least_rate(path);
        match self.state {
            State::Startup => bandwidth.max(initial_rate(path)).scaled(startup::GAIN),
            State::Drain => bandwidth.scaled(drain::GAIN).max(least),
            State::ProbeBw(probe) => bandwidth.scaled(probe.gain()).max(least),
            State::ProbeRtt(_) => least,
        }
    }

    /// How much may be in flight: (2 + 1/(RTTmin f)) BDP, where 1/f is what the
    /// wait for the next TACK adds.
    pub fn inflight_cap(&self, path: &Path) -> u64 {
        let least = LEAST_PACKETS * path.mss;
        let Some(min_rtt) = path.min_rtt else { return INITIAL_WINDOW_PACKETS * path.mss };
        let bdp = self.bandwidth().bytes_in(min_rtt);
        let held = self.bandwidth().bytes_in(path.ack_interval);
        match self.state {
            State::Startup => {
                let cap = (bdp as f64 * startup::INFLIGHT_GAIN) as u64 + held;
                cap.max(INITIAL_WINDOW_PACKETS * path.mss)
            }
            State::Drain | State::ProbeBw(_) => (2 * bdp + held).max(least),
            State::ProbeRtt(_) => (bdp / 2).max(least),
        }
    }

    fn count_intervals(&mut self, now: Instant, interval: Duration) {
        let began = *self.interval_began.get_or_insert(now);
        let passed = now.saturating_duration_since(began).as_micros() / interval.as_micros();
        // A day of the shortest intervals fits; after a longer silence nothing
        // of the estimate is left anyway.
        if let Ok(passed) = u32::try_from(passed) {
            self.interval += u64::from(passed);
            self.interval_began = Some(began + interval * passed);
        } else {
            self.interval += u64::from(u32::MAX);
            self.interval_began = Some(now);
        }
    }

    fn change_state(&mut self, now: Instant, feedback: &Feedback, path: &Path) {
        let bdp = path.min_rtt.map_or(0, |rtt| self.bandwidth().bytes_in(rtt));
        let cruise = ProbeBw::new(now, self.config.cycle_intervals);
        match &mut self.state {
            State::Startup if self.full_pipe.is_full() => self.state = State::Drain,
            State::Drain if drain::is_done(feedback.in_flight, bdp) => {
                self.state = State::ProbeBw(cruise);
            }
            State::ProbeBw(_) if feedback.min_rtt_expired => {
                self.state = State::ProbeRtt(ProbeRtt::new(now));
            }
            State::ProbeBw(probe) => {
                probe.advance(now, path.interval(), feedback.in_flight, bdp);
            }
            State::ProbeRtt(probe) => {
                let target = (bdp / 2).max(LEAST_PACKETS * path.mss);
                let round_trip = path.min_rtt.unwrap_or(ASSUMED_RTT);
                if probe.is_done(now, feedback.in_flight, target, round_trip) {
                    self.state = State::ProbeBw(cruise);
                }
            }
            State::Startup | State::Drain => {}
        }
    }
}

/// The initial window in a round trip: the rate to begin with, and Startup's
/// least. Its first samples are those of single packets and far too low.
fn initial_rate(path: &Path) -> Bandwidth {
    let rtt = path.min_rtt.unwrap_or(ASSUMED_RTT).max(Duration::from_millis(1));
    Bandwidth::from_delta(INITIAL_WINDOW_PACKETS * path.mss, rtt).unwrap_or_default()
}

/// What Startup's successors send at least.
fn least_rate(path: &Path) -> Bandwidth {
    let rtt = path.smoothed_rtt.or(path.min_rtt).unwrap_or(ASSUMED_RTT);
    Bandwidth::from_delta(LEAST_PACKETS * path.mss, rtt).unwrap_or_default()
}

/// The receiver's rate, as far as the sender's own record supports it.
fn believed(sample: &super::RateSample, reported: Option<Bandwidth>) -> Bandwidth {
    match reported {
        Some(reported) => reported.min(sample.rate.scaled(TRUSTED_EXCESS)),
        None => sample.rate,
    }
}

#[cfg(test)]
mod tests {
    use super::super::RateSample;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PATH: Path = Path {
        min_rtt: Some(Duration::from_millis(40)),
        smoothed_rtt: Some(Duration::from_millis(40)),
        ack_interval: Duration::from_millis(10),
        mss: 1250,
    };

    fn rate(bytes_per_second: u64) -> Bandwidth {
        Bandwidth::from_bytes_per_second(bytes_per_second)
    }

    /// One round trip in which `bandwidth` was delivered.
    fn round(
        bbr: &mut Bbr,
        now: &mut Instant,
        delivered: &mut u64,
        bandwidth: u64,
        in_flight: u64,
    ) {
        let prior_delivered = *delivered;
        *delivered += bandwidth / 25;
        *now += 40 * MS;
        let sample = RateSample {
            rate: rate(bandwidth),
            send_rate: None,
            interval: 40 * MS,
            app_limited: false,
            prior_delivered,
        };
        let feedback = Feedback {
            sample: Some(sample),
            reported: None,
            delivered: *delivered,
            in_flight,
            min_rtt_expired: false,
        };
        bbr.on_feedback(*now, &feedback, &PATH);
    }

    fn cruising() -> (Bbr, Instant, u64) {
        let mut bbr = Bbr::new(BbrConfig::default());
        let (mut now, mut delivered) = (crate::test_clock(), 0);
        for bandwidth in [312_500, 1_000_000, 3_000_000, 6_250_000, 6_250_000, 6_250_000] {
            round(&mut bbr, &mut now, &mut delivered, bandwidth, 600_000);
            assert_eq!(bbr.phase(), Phase::Startup);
        }
        round(&mut bbr, &mut now, &mut delivered, 6_250_000, 600_000);
        assert_eq!(bbr.phase(), Phase::Drain);
        assert!(bbr.pacing_rate(&PATH) < rate(3_000_000));
        round(&mut bbr, &mut now, &mut delivered, 6_250_000, 240_000);
        assert_eq!(bbr.phase(), Phase::ProbeBw);
        (bbr, now, delivered)
    }

    #[test]
    fn startup_fills_the_pipe_drains_and_cruises_at_its_rate() {
        let (bbr, _, _) = cruising();
        assert_eq!(bbr.pacing_rate(&PATH), rate(6_250_000));
        // (2 + 10/40) * 250,000 bytes.
        assert_eq!(bbr.inflight_cap(&PATH), 562_500);
    }

    #[test]
    fn more_bandwidth_is_found_by_probing_and_less_within_the_filter() {
        let (mut bbr, mut now, mut delivered) = cruising();
        for _ in 0..9 {
            round(&mut bbr, &mut now, &mut delivered, 7_000_000, 300_000);
        }
        assert_eq!(bbr.bandwidth(), rate(7_000_000));
        for _ in 0..11 {
            round(&mut bbr, &mut now, &mut delivered, 3_000_000, 300_000);
        }
        assert_eq!(bbr.bandwidth(), rate(3_000_000));
    }

    #[test]
    fn a_receiver_that_lies_upwards_gains_a_quarter_at_most() {
        let (mut bbr, now, delivered) = cruising();
        let sample = RateSample {
            rate: rate(6_250_000),
            send_rate: None,
            interval: 40 * MS,
            app_limited: false,
            prior_delivered: delivered,
        };
        for lie in [u64::MAX / 2, 62_500_000] {
            let feedback = Feedback {
                sample: Some(sample),
                reported: Some(rate(lie)),
                delivered: delivered + 1,
                in_flight: 250_000,
                min_rtt_expired: false,
            };
            bbr.on_feedback(now + MS, &feedback, &PATH);
            assert!(bbr.bandwidth() <= rate(6_250_000).scaled(TRUSTED_EXCESS));
        }
    }

    #[test]
    fn an_application_limited_sample_does_not_lower_the_estimate() {
        let (mut bbr, mut now, delivered) = cruising();
        for i in 0..20 {
            now += 40 * MS;
            let sample = RateSample {
                rate: rate(1000),
                send_rate: None,
                interval: 40 * MS,
                app_limited: true,
                prior_delivered: delivered + i * 40,
            };
            let feedback = Feedback {
                sample: Some(sample),
                reported: None,
                delivered: delivered + (i + 1) * 40,
                in_flight: 40,
                min_rtt_expired: false,
            };
            bbr.on_feedback(now, &feedback, &PATH);
        }
        assert_eq!(bbr.bandwidth(), rate(6_250_000));
    }

    #[test]
    fn one_low_sample_after_a_limited_time_does_not_replace_the_estimate() {
        let (mut bbr, mut now, mut delivered) = cruising();
        for _ in 0..100 {
            now += 40 * MS;
            delivered += 40;
            let sample = RateSample {
                rate: rate(1000),
                send_rate: None,
                interval: 40 * MS,
                app_limited: true,
                prior_delivered: delivered - 40,
            };
            let feedback = Feedback {
                sample: Some(sample),
                reported: None,
                delivered,
                in_flight: 40,
                min_rtt_expired: false,
            };
            bbr.on_feedback(now, &feedback, &PATH);
        }
        round(&mut bbr, &mut now, &mut delivered, 100_000, 4000);
        assert_eq!(bbr.bandwidth(), rate(6_250_000));
        for _ in 0..11 {
            round(&mut bbr, &mut now, &mut delivered, 100_000, 4000);
        }
        assert_eq!(bbr.bandwidth(), rate(100_000), "many of them do");
    }

    #[test]
    fn an_expired_minimum_is_probed_for_and_then_the_rate_is_resumed() {
        let (mut bbr, mut now, _) = cruising();
        let mut feedback = Feedback {
            sample: None,
            reported: None,
            delivered: 0,
            in_flight: 250_000,
            min_rtt_expired: true,
        };
        bbr.on_feedback(now, &feedback, &PATH);
        assert_eq!(bbr.phase(), Phase::ProbeRtt);
        assert_eq!(bbr.pacing_rate(&PATH), rate(125_000), "four packets in a round trip");
        feedback.in_flight = 5_000;
        feedback.min_rtt_expired = false;
        for _ in 0..6 {
            now += 40 * MS;
            bbr.on_feedback(now, &feedback, &PATH);
        }
        assert_eq!(bbr.phase(), Phase::ProbeBw);
    }
}
