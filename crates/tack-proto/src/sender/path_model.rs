//! What the controller knows of the path, and what follows from it alone.

use std::time::Duration;

use super::ack_frequency::SHORTEST_INTERVAL;
use crate::bandwidth::Bandwidth;
use crate::loss_detection::GRANULARITY;

/// RFC 9002 section 7.2: what may leave at once before anything is known.
pub const INITIAL_WINDOW_PACKETS: u64 = 10;

/// Packets that may always be in flight: fewer would wait for each other's
/// acknowledgements (L = 2, and one burst on its way).
pub(super) const LEAST_PACKETS: u64 = 4;

/// Round trip assumed before one has been measured, for the first burst.
pub(super) const ASSUMED_RTT: Duration = Duration::from_millis(100);

/// TARGET of CoDel, RFC 8289 section 4.4.
pub(super) const LONGEST_IDLE_QUEUE: Duration = Duration::from_millis(5);

/// What the controller needs to know of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathModel {
    /// RTTmin, if measured.
    pub min_rtt: Option<Duration>,
    /// Smoothed round trip, if measured.
    pub smoothed_rtt: Option<Duration>,
    /// alpha, the interval between TACKs.
    pub ack_interval: Duration,
    /// Alpha without what it is longer for where acknowledgements seem to queue (TACK-5.1-9): more may not be in flight
    /// for it, because a receiver can claim such a queue.
    pub usual_ack_interval: Duration,
    /// How much later than that they may come, where some get lost or an end is busy.
    pub ack_late: Duration,
    /// How late this end sends, because its machine has other work (TACK-6.2-11).
    pub own_late: Duration,
    /// How long acknowledgements queue on their own way, at the most (TACK-5.3-6, TACK-8-6).
    pub ack_path: Duration,
    /// How much longer than RTTmin data usually takes on a path that jitters (TACK-6.2-12).
    pub jitter: Duration,
    /// How much longer a round trip may well be than the one before, because the path jitters
    /// (TACK-6.1-4).
    pub usual_jitter: Duration,
    /// The same, if it is short again behind that: a queue that grows with the rate does not count
    /// (TACK-6.2-1, TACK-6.2-15).
    pub jitter_both_ways: Duration,
    /// The smoothed round trip without that of acknowledgements.
    pub forward_rtt: Option<Duration>,
    /// Largest packet, bytes.
    pub mss: u64,
    /// What may be in flight in the first round trip, bytes.
    pub initial_window: u64,
}

impl PathModel {
    /// The unit of the controller's cycles: a quarter of RTTmin, as in the paper, or half of
    /// alpha where that is longer. What a probe of four units does has to show in a rate that
    /// spans two TACKs (TACK-6.1-3), and in the sender's own samples, which span all of a round trip.
    pub(super) fn probe_unit(&self) -> Duration {
        let quarter = self.round_trip() / 4;
        quarter.max(self.ack_interval / 2).max(SHORTEST_INTERVAL)
    }

    /// The unit that the time between probes and the memory of the filter are counted in. Flows
    /// over short paths would forget within the cycle of one over a long path what that leaves
    /// them when it drains, and starve beside it; so up to
    /// `even_rtt` a path counts as up to twice as long (TACK-6.1-5).
    pub(super) fn cycle_unit(&self, even_rtt: Duration) -> Duration {
        (self.shared_rtt(even_rtt) / 4).max(self.probe_unit())
    }

    /// The round trip, for the purpose of sharing with flows over longer paths.
    pub(super) fn shared_rtt(&self, even_rtt: Duration) -> Duration {
        let round_trip = self.data_rtt();
        round_trip.max(even_rtt.min(2 * round_trip))
    }

    /// How long data and its acknowledgement take where no data queues: RTTmin, jitter, and what
    /// acknowledgements queue for.
    pub(super) fn round_trip(&self) -> Duration {
        self.data_rtt() + self.ack_path
    }

    /// The same for Startup, whose window has no part for jitter that is less than RTTmin (TACK-6.2-1).
    pub(super) fn startup_rtt(&self) -> Duration {
        let longer =
            self.min_rtt.zip(self.smoothed_rtt).map(|(min, rtt)| rtt.saturating_sub(min));
        let most = if self.jitters() { self.jitter_both_ways } else { Duration::ZERO };
        let jitter = most.min(longer.unwrap_or_default());
        self.round_trip().max(self.min_rtt.unwrap_or(ASSUMED_RTT) + jitter + self.ack_path)
    }

    /// The same without the queue of acknowledgements.
    pub(super) fn data_rtt(&self) -> Duration {
        self.min_rtt.unwrap_or(ASSUMED_RTT) + self.jitter
    }

    /// Whether acknowledgements queue for so long that a round trip says little of the data.
    pub(super) fn acks_queue(&self) -> bool {
        self.min_rtt.is_some_and(|rtt| self.ack_path > rtt / 4)
    }

    /// Whether so long a silence means that the path stood still: where packets flow, there is
    /// an acknowledgement in each alpha (TACK-6.2-7).
    pub(super) fn is_outage(&self, silence: Duration) -> bool {
        self.min_rtt.is_some() && silence > self.longest_silence()
    }

    /// Whether so long a silence means that packets were held up, by what would be a queue otherwise.
    pub(super) fn is_hold_up(&self, silence: Duration) -> bool {
        let queue = (self.round_trip() / 4).max(GRANULARITY);
        self.min_rtt.is_some() && silence > self.ack_interval + self.ack_late + queue
    }

    /// Whether the path jitters by so much that Startup's window would hold the rate down and a short probe does not
    /// show (TACK-6.2-15). By less than half of RTTmin others' queues come and go, too.
    pub(super) fn jitters(&self) -> bool {
        self.jitter_both_ways > self.data_rtt() / 2
    }

    /// Whether it jitters by as much as a queue shows by ([`Self::is_queueing`]).
    pub(super) fn jitter_hides_queues(&self) -> bool {
        self.min_rtt.is_some_and(|min_rtt| self.jitter_both_ways > min_rtt / 4)
    }

    /// The longest silence of a path over which packets flow.
    pub(super) fn longest_silence(&self) -> Duration {
        self.round_trip() + self.ack_interval + self.ack_late
    }

    /// Whether a round trip is a quarter above the minimum: packets queue. What is less than the grain
    /// of timers and schedulers (RFC 9002's kGranularity) or this end's lateness says nothing.
    pub(super) fn is_queueing(&self, round_trip: Option<Duration>) -> bool {
        self.min_rtt.zip(round_trip).is_some_and(|(min_rtt, round_trip)| {
            round_trip > min_rtt + (min_rtt / 4).max(GRANULARITY) + self.own_late + self.jitter
        })
    }

    /// Whether the path may jitter by what a round trip is longer than the minimum. Where it does not jitter it may not.
    pub(super) fn is_within_jitter(&self, round_trip: Option<Duration>) -> bool {
        self.min_rtt.zip(round_trip).is_some_and(|(min_rtt, round_trip)| {
            !self.jitter_both_ways.is_zero() && round_trip <= min_rtt + self.jitter_both_ways
        })
    }

    /// Whether packets queue, and not for what the path may jitter by.
    pub(super) fn is_queueing_beyond(
        &self,
        jitter: Duration,
        round_trip: Option<Duration>,
    ) -> bool {
        let beyond = |(min_rtt, round_trip)| round_trip > min_rtt + jitter;
        self.is_queueing(round_trip) && self.min_rtt.zip(round_trip).is_some_and(beyond)
    }

    /// For how long rates have to be low before the path has become slower: so many probe units, and what a medium that
    /// jitters may hold packets up for on the way there and again behind it (TACK-6.1-4).
    pub(super) fn lasts_beyond_jitter(&self, probe_units: u32) -> Duration {
        self.probe_unit() * probe_units + 2 * self.jitter_both_ways
    }

    /// Whether packets have queued that took `round_trip`: an eighth of RTTmin, but no more than CoDel
    /// lets stand (5 ms, RFC 8289 section 4.4), nor less than timers can tell.
    pub(super) fn holds_queue(&self, round_trip: Duration) -> bool {
        self.min_rtt.is_some_and(|min_rtt| {
            let queue = (min_rtt / 8).min(LONGEST_IDLE_QUEUE).max(GRANULARITY);
            round_trip > min_rtt + queue + self.own_late + self.jitter
        })
    }

    /// Whether what an acknowledgement waits tells of queues. Where TACKs are two round trips apart, most of it is the
    /// wait for the next one.
    pub(super) fn acks_show_queues(&self) -> bool {
        self.ack_interval < 2 * self.data_rtt()
    }

    /// The rate to begin with, and Startup's least, as its first samples are those of single packets and far
    /// too low: what ten packets in a round trip grow to by `gain`, or the initial window in one.
    pub(super) fn initial_rate(&self, gain: f64) -> Bandwidth {
        let rtt = self.min_rtt.unwrap_or(ASSUMED_RTT).max(Duration::from_millis(1));
        let rate = |bytes| Bandwidth::from_delta(bytes, rtt).unwrap_or_default();
        let ten = rate(INITIAL_WINDOW_PACKETS * self.mss).scaled(gain);
        ten.max(rate(self.initial_window))
    }

    /// The least rate in every state behind Startup (TACK-6.2-8).
    pub(super) fn least_rate(&self) -> Bandwidth {
        let rtt = self.smoothed_rtt.or(self.min_rtt).unwrap_or(ASSUMED_RTT);
        Bandwidth::from_delta(LEAST_PACKETS * self.mss, rtt).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::bbr::tests::PATH;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn startup_allows_for_jitter_and_not_for_more_than_round_trips_are_longer() {
        let of = |both_ways: u32, smoothed: u32| {
            let jitter_both_ways = both_ways * MS;
            PathModel { jitter_both_ways, smoothed_rtt: Some(smoothed * MS), ..PATH }
                .startup_rtt()
        };
        let expected = [40 * MS, 40 * MS, 65 * MS, 50 * MS, 40 * MS];
        assert_eq!([of(0, 90), of(20, 90), of(25, 90), of(25, 50), of(25, 30)], expected);
        assert!(PathModel { jitter_both_ways: 21 * MS, ..PATH }.jitters());
        assert!(!PathModel { jitter_both_ways: 20 * MS, ..PATH }.jitters(), "TACK-6.2-15");
    }

    #[test]
    fn rates_are_low_for_longer_on_a_path_that_jitters_before_it_counts_as_slower() {
        let jittery = PathModel { jitter_both_ways: 30 * MS, ..PATH };
        assert_eq!(PATH.lasts_beyond_jitter(1), PATH.probe_unit());
        assert_eq!(jittery.lasts_beyond_jitter(4), 4 * PATH.probe_unit() + 60 * MS);
    }

    #[test]
    fn what_jitter_may_do_to_single_packets_is_no_queue_behind_which_a_path_became_slower() {
        let jittery = PathModel { usual_jitter: 50 * MS, ..PATH };
        for (round_trip, steady, beyond) in
            [(40, false, false), (70, true, false), (95, true, true)]
        {
            let round_trip = Some(round_trip * MS);
            assert_eq!(
                PATH.is_queueing_beyond(PATH.usual_jitter, round_trip),
                steady,
                "{round_trip:?}"
            );
            assert_eq!(
                jittery.is_queueing_beyond(jittery.usual_jitter, round_trip),
                beyond,
                "TACK-6.1-4"
            );
        }
    }
}
