//! What is known of the last probe (section "Probing for Bandwidth"): whether its losses still count, whether the
//! flight that it is there to raise held it back, and what it has found.

use std::time::Duration;

use crate::bandwidth::Bandwidth;
use crate::loss_detection::GRANULARITY;

/// The last Up, and what its acknowledgements have said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// It has been sent and its losses have had no consequence yet (is_bw_probe_sample).
    is_judging: bool,
    /// It is over, and its acknowledgements end with that of a packet sent when so much was
    /// delivered (ACKS_PROBE_STOPPING).
    stopping: Option<u64>,
    /// What inflight_longterm allows has held data back since it began.
    is_longterm_limited: bool,
    /// One has lost too much, and none since has been harmless.
    was_too_high: bool,
    /// The best rate since the last Refill; what the application limits shows none.
    best: Bandwidth,
    /// The best rate that was reported since it began.
    best_reported: Bandwidth,
    /// The shortest and the longest round trip since the last Refill.
    round_trips: Option<(Duration, Duration)>,
    /// Packets sent before so much was delivered say nothing of what is safe.
    safe_from: u64,
}

impl Probe {
    /// The path is filled for the next one.
    pub fn on_refill(&mut self) {
        self.best = Bandwidth::ZERO;
        self.round_trips = None;
    }

    /// A packet has taken so long.
    pub fn on_round_trip(&mut self, round_trip: Duration) {
        let (shortest, longest) = self.round_trips.unwrap_or((round_trip, round_trip));
        self.round_trips = Some((shortest.min(round_trip), longest.max(round_trip)));
    }

    /// It begins.
    pub fn on_begin(&mut self) {
        self.is_judging = true;
        self.is_longterm_limited = false;
        self.stopping = None;
        self.best_reported = Bandwidth::ZERO;
    }

    /// It goes on for another round trip.
    pub fn on_prolonged(&mut self) {
        self.is_longterm_limited = false;
    }

    /// Nothing of it is sent any more; so much was delivered.
    pub fn on_end(&mut self, delivered: u64) {
        self.stopping = Some(delivered);
    }

    /// What inflight_longterm allows holds data back.
    pub fn on_longterm_limited(&mut self) {
        self.is_longterm_limited = true;
    }

    /// A rate was seen.
    pub fn on_rate(&mut self, rate: Bandwidth) {
        self.best = self.best.max(rate);
    }

    /// A rate was reported. What counts is the best since the probe began, if it `may_be_earlier`.
    pub fn reported(&mut self, rate: Bandwidth, may_be_earlier: bool) -> Bandwidth {
        self.best_reported = self.best_reported.max(rate);
        if may_be_earlier { self.best_reported } else { rate }
    }

    /// It has lost too much, when so much was delivered.
    pub fn on_too_high(&mut self, delivered: u64) {
        self.is_judging = false;
        self.was_too_high = true;
        self.safe_from = delivered;
    }

    /// What was sent before so much was delivered says nothing of what is safe.
    pub fn forget_before(&mut self, delivered: u64) {
        self.safe_from = delivered;
    }

    /// Whether the acknowledgement of a packet sent when so much was delivered is the last of it. True once.
    pub fn ends_with(&mut self, prior_delivered: u64) -> bool {
        self.stopping.take_if(|stopped| prior_delivered >= *stopped).is_some()
    }

    /// All of it has been acknowledged or lost. Whether it was harmless.
    pub fn on_judged(&mut self) -> bool {
        if self.is_judging && !self.is_longterm_limited {
            self.was_too_high = false;
        }
        self.is_judging
    }

    /// Whether it is over, and some of it still to be acknowledged or lost.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Whether its losses may still have a consequence.
    pub fn is_judging(&self) -> bool {
        self.is_judging
    }

    /// Whether inflight_longterm has held it back.
    pub fn is_longterm_limited(&self) -> bool {
        self.is_longterm_limited
    }

    /// Whether it is held back by a bound that it is there to raise.
    pub fn goes_on(&self) -> bool {
        self.is_longterm_limited && self.is_judging
    }

    /// The shortest round trip since the Refill, if none was longer by more than timers can tell: what the probe has sent in
    /// addition did not queue.
    pub fn even_round_trip(&self) -> Option<Duration> {
        let (shortest, longest) = self.round_trips?;
        (longest <= shortest + GRANULARITY).then_some(shortest)
    }

    /// Whether one has lost too much, and none since has been harmless.
    pub fn was_too_high(&self) -> bool {
        self.was_too_high
    }

    /// Whether a packet sent when so much was delivered says what is safe.
    pub fn is_safe(&self, prior_delivered: u64) -> bool {
        prior_delivered >= self.safe_from
    }

    /// The best rate since the last Refill.
    pub fn best(&self) -> Bandwidth {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_reports_of_a_probe_the_best_counts() {
        let rate = Bandwidth::from_bytes_per_second;
        let mut probe = Probe::default();
        probe.reported(rate(1500), true);
        probe.on_begin();
        assert_eq!(
            probe.reported(rate(1200), true),
            rate(1200),
            "what was before does not count"
        );
        assert_eq!(probe.reported(rate(1000), true), rate(1200), "TACK-6.1-1");
        assert_eq!(probe.reported(rate(1000), false), rate(1000));
    }

    #[test]
    fn it_is_judged_with_the_first_packet_sent_after_its_end() {
        let mut probe = Probe::default();
        probe.on_begin();
        assert!(!probe.ends_with(u64::MAX), "it has not ended");
        probe.on_end(1000);
        assert!(!probe.ends_with(999));
        assert!(probe.ends_with(1000));
        assert!(!probe.ends_with(2000), "once");
    }

    #[test]
    fn one_that_went_too_high_counts_until_one_is_harmless_that_nothing_held_back() {
        let mut probe = Probe::default();
        probe.on_begin();
        probe.on_too_high(5000);
        assert!(probe.was_too_high() && !probe.is_judging());
        assert!(!probe.is_safe(4999) && probe.is_safe(5000));
        assert!(!probe.on_judged());
        probe.on_begin();
        probe.on_longterm_limited();
        assert!(probe.goes_on() && probe.on_judged());
        assert!(probe.was_too_high(), "it could not go as high");
        probe.on_begin();
        assert!(!probe.goes_on() && probe.on_judged());
        assert!(!probe.was_too_high());
    }

    #[test]
    fn round_trips_are_even_that_timers_cannot_tell_apart() {
        let micros = Duration::from_micros;
        let mut probe = Probe::default();
        assert_eq!(probe.even_round_trip(), None, "there was none");
        probe.on_round_trip(micros(9000));
        probe.on_refill();
        for round_trip in [100_300, 100_000, 101_000] {
            probe.on_round_trip(micros(round_trip));
            assert!(probe.even_round_trip().is_some());
        }
        assert_eq!(probe.even_round_trip(), Some(micros(100_000)));
        probe.on_round_trip(micros(101_001));
        assert_eq!(probe.even_round_trip(), None);
    }

    #[test]
    fn the_best_rate_is_that_since_the_refill() {
        let mut probe = Probe::default();
        probe.on_rate(Bandwidth::from_bytes_per_second(9));
        probe.on_refill();
        probe.on_rate(Bandwidth::from_bytes_per_second(4));
        probe.on_rate(Bandwidth::from_bytes_per_second(3));
        assert_eq!(probe.best(), Bandwidth::from_bytes_per_second(4));
    }
}
