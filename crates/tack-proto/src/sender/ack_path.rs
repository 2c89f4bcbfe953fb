//! How long acknowledgements queue on their own way (TACK-5.3-6, TACK-8-6).
//!
//! Where both ends send data, acknowledgements queue behind the data of their own end. A round trip
//! does not tell that queue from one in front of the data: at 0.5 Mbit/s one packet ahead of a TACK
//! makes 40 ms look like 64. What queues on the way back is taken off round trips, so that the
//! controller does not answer it, and for as long as it queues more may be in flight.

use std::time::{Duration, Instant};

/// Delays of acknowledgements on their own way, above the shortest of late.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckPathDelay {
    /// Of the packet that brought the newest acknowledgements, if it had a TIMESTAMP.
    latest: Option<Duration>,
    smoothed: Duration,
    /// When the current span began; what is kept counts for one to two of them.
    span_began: Option<Instant>,
    longest: [Duration; 2],
    untimed: Untimed,
}

/// What round trips alone say of the delay.
#[derive(Clone, Copy, Debug, Default)]
struct Untimed {
    /// Ack-eliciting bytes that the peer has sent.
    peer_bytes: [u64; 2],
    /// By how much all round trips were above RTTmin.
    least: [Option<Duration>; 2],
    /// By how much any was.
    most: [Duration; 2],
}

impl Untimed {
    fn is_bulk(&self, bulk: u64) -> bool {
        self.peer_bytes.iter().any(|bytes| *bytes >= bulk)
    }
}

impl AckPathDelay {
    /// A packet has come that took so much longer than the fastest of late; `None` without a TIMESTAMP.
    /// It counts only while the peer sends `bulk` bytes: else there is nothing of the peer's to queue
    /// behind, and a receiver that lies would hide the queue that it makes.
    pub fn on_packet(&mut self, above_lowest: Option<Duration>, bulk: u64) {
        self.latest = above_lowest.filter(|_| self.untimed.is_bulk(bulk));
    }

    /// Whether acknowledgements queue behind the peer's data, if they do.
    pub fn is_behind_data(&self, bulk: u64) -> bool {
        self.untimed.is_bulk(bulk)
    }

    /// The newest acknowledgement's delay. It is part of what `round_trip` is above RTTmin,
    /// so a peer cannot claim more than that.
    pub fn within(&self, round_trip: Duration, min_rtt: Option<Duration>) -> Duration {
        let above = round_trip.saturating_sub(min_rtt.unwrap_or(round_trip));
        self.latest.unwrap_or_default().min(above)
    }

    /// The newest acknowledgement has given a round trip, that delay included; without it.
    pub fn on_round_trip(
        &mut self,
        now: Instant,
        round_trip: Duration,
        min_rtt: Option<Duration>,
        span: Duration,
    ) -> Duration {
        let delay = self.within(round_trip, min_rtt);
        self.count_spans(now, span);
        self.longest[1] = self.longest[1].max(delay);
        self.smoothed = (self.smoothed * 7 + delay) / 8;
        round_trip.saturating_sub(delay)
    }

    /// The peer has sent so many bytes in a packet that elicits acknowledgements.
    pub fn on_peer_data(&mut self, bytes: u64) {
        self.untimed.peer_bytes[1] += bytes;
    }

    /// A round trip has been measured with an ACK, which does not tell when it left. `span` holds a
    /// time in which this sender's own queue drains: what all round trips stay above RTTmin by is not
    /// that queue. Where the peer has sent `bulk` bytes meanwhile, it is what ACKs queue for. In Startup, which
    /// drains none, any round trip may be one in which ACKs queued.
    pub fn on_untimed(
        &mut self,
        now: Instant,
        (round_trip, min_rtt): (Duration, Option<Duration>),
        span: Duration,
        bulk: u64,
        is_starting: bool,
    ) {
        let above = round_trip.saturating_sub(min_rtt.unwrap_or(round_trip));
        self.count_spans(now, span);
        let is_bulk = self.untimed.is_bulk(bulk);
        let least = &mut self.untimed.least;
        least[1] = Some(least[1].map_or(above, |least| least.min(above)));
        let least = least.iter().flatten().min().copied().unwrap_or_default();
        let most = &mut self.untimed.most;
        most[1] = most[1].max(above);
        self.longest = match (is_bulk, is_starting) {
            (true, true) => *most,
            (true, false) => [least; 2],
            (false, _) => [Duration::ZERO; 2],
        };
    }

    /// The longest delay of late.
    pub fn longest(&self) -> Duration {
        self.longest[0].max(self.longest[1])
    }

    /// The smoothed delay: what to take off the smoothed round trip.
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    fn count_spans(&mut self, now: Instant, span: Duration) {
        let began = *self.span_began.get_or_insert(now);
        if now.saturating_duration_since(began) >= span {
            self.longest = [self.longest[1], Duration::ZERO];
            self.untimed.peer_bytes = [self.untimed.peer_bytes[1], 0];
            self.untimed.least = [self.untimed.least[1], None];
            self.untimed.most = [self.untimed.most[1], Duration::ZERO];
            self.span_began = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MIN_RTT: Option<Duration> = Some(Duration::from_millis(40));
    const BULK: u64 = 3000;

    #[test]
    fn the_delay_of_an_acknowledgement_is_taken_off_its_round_trip() {
        let now = crate::test_clock();
        let mut delay = AckPathDelay::default();
        delay.on_peer_data(BULK);
        delay.on_packet(Some(25 * MS), BULK);
        assert_eq!(delay.on_round_trip(now, 70 * MS, MIN_RTT, 80 * MS), 45 * MS);
        assert_eq!(delay.longest(), 25 * MS);
        delay.on_packet(None, BULK);
        assert_eq!(delay.on_round_trip(now, 70 * MS, MIN_RTT, 80 * MS), 70 * MS);
    }

    #[test]
    fn no_more_can_be_claimed_than_a_round_trip_is_above_the_minimum() {
        let now = crate::test_clock();
        let mut delay = AckPathDelay::default();
        delay.on_peer_data(BULK);
        delay.on_packet(Some(Duration::from_secs(60)), BULK);
        assert_eq!(delay.on_round_trip(now, 55 * MS, MIN_RTT, 80 * MS), 40 * MS);
        assert_eq!(delay.longest(), 15 * MS);
        assert_eq!(delay.on_round_trip(now, 30 * MS, MIN_RTT, 80 * MS), 30 * MS);
    }

    #[test]
    fn a_peer_that_sends_no_data_cannot_claim_any() {
        let now = crate::test_clock();
        let mut delay = AckPathDelay::default();
        delay.on_peer_data(BULK - 1);
        delay.on_packet(Some(25 * MS), BULK);
        assert_eq!(delay.on_round_trip(now, 70 * MS, MIN_RTT, 80 * MS), 70 * MS);
        assert_eq!(delay.longest(), Duration::ZERO);
    }

    #[test]
    fn the_longest_delay_counts_for_two_spans_at_most() {
        let t0 = crate::test_clock();
        let mut delay = AckPathDelay::default();
        delay.on_peer_data(BULK);
        delay.on_packet(Some(30 * MS), BULK);
        delay.on_round_trip(t0, 70 * MS, MIN_RTT, 80 * MS);
        delay.on_packet(Some(MS), BULK);
        delay.on_round_trip(t0 + 80 * MS, 41 * MS, MIN_RTT, 80 * MS);
        assert_eq!(delay.longest(), 30 * MS);
        delay.on_round_trip(t0 + 160 * MS, 41 * MS, MIN_RTT, 80 * MS);
        assert_eq!(delay.longest(), MS);
    }

    #[test]
    fn acks_of_a_peer_that_sends_data_queue_for_what_every_round_trip_is_longer_by() {
        let t0 = crate::test_clock();
        let mut delay = AckPathDelay::default();
        delay.on_peer_data(BULK);
        for (at, round_trip) in [(0, 300), (100, 250), (200, 400)] {
            delay.on_untimed(t0 + at * MS, (round_trip * MS, MIN_RTT), 500 * MS, BULK, false);
        }
        assert_eq!(delay.longest(), 210 * MS);
        // The own queue has drained, and with it the round trip.
        delay.on_untimed(t0 + 300 * MS, (45 * MS, MIN_RTT), 500 * MS, BULK, false);
        assert_eq!(delay.longest(), 5 * MS);
    }

    #[test]
    fn in_startup_any_round_trip_tells_what_acks_of_such_a_peer_queue_for() {
        let t0 = crate::test_clock();
        let mut delay = AckPathDelay::default();
        delay.on_peer_data(BULK);
        for (at, round_trip) in [(0, 45), (100, 250), (200, 60)] {
            delay.on_untimed(t0 + at * MS, (round_trip * MS, MIN_RTT), 500 * MS, BULK, true);
        }
        assert_eq!(delay.longest(), 210 * MS);
        delay.on_untimed(t0 + 300 * MS, (45 * MS, MIN_RTT), 500 * MS, BULK, false);
        assert_eq!(delay.longest(), 5 * MS, "behind it the sender's own queue drains");
    }

    #[test]
    fn acks_of_a_peer_that_sends_none_do_not_queue() {
        let t0 = crate::test_clock();
        let mut delay = AckPathDelay::default();
        delay.on_peer_data(BULK);
        for span in 0..4 {
            delay.on_untimed(t0 + span * 500 * MS, (300 * MS, MIN_RTT), 500 * MS, BULK, false);
        }
        assert_eq!(delay.longest(), Duration::ZERO);
    }
}
