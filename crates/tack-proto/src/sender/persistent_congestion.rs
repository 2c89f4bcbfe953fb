//! How long losses last that are persistent congestion (RFC 9002 section 7.6.1, TACK-6.6-1).

use std::time::Duration;

use super::Sender;
use crate::loss_detection::GRANULARITY;

/// kPersistentCongestionThreshold, RFC 9002 section 7.6.1: probe timeouts without the back-off.
const THRESHOLD: u32 = 3;

impl Sender {
    /// The duration on the path that data goes over; `None` before a round trip has been measured there.
    pub(super) fn persistent_congestion_duration(&self) -> Option<Duration> {
        let smoothed = self.path.smoothed_rtt?;
        let variation = (4 * self.path.rtt_variation).max(GRANULARITY);
        let path = &self.limits.path;
        // A receiver of TACKs waits for alpha where that is longer, and one TACK may come late.
        let ack_delay = self.config.max_ack_delay.max(path.ack_interval + path.ack_late);
        Some((smoothed + variation + ack_delay) * THRESHOLD)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Harness, MS, RTT};

    /// Sends a packet that arrives, waits, and loses one packet `lasting` after another; the one behind
    /// them arrives.
    fn lose_for(harness: &mut Harness, lasting: Duration) -> bool {
        let arrived = harness.send(1);
        harness.pass(RTT);
        harness.tack(std::slice::from_ref(&arrived), None).unwrap();
        harness.send(1);
        harness.pass(lasting);
        harness.send(1);
        harness.pass(MS);
        let behind = harness.send(4);
        harness.pass(RTT);
        let outcome = harness.tack(&[behind, arrived], None).unwrap();
        assert_eq!(outcome.lost_packets, 2);
        outcome.current.is_persistent_congestion
    }

    fn duration(harness: &Harness) -> Duration {
        harness.sender.persistent_congestion_duration().unwrap()
    }

    #[test]
    fn the_duration_is_three_probe_timeouts() {
        // TACK-6.6-1: the handshake's round trip, half of it as variation, and 25 ms.
        assert_eq!(duration(&Harness::new()), 3 * (RTT + 2 * RTT + 25 * MS));
    }

    #[test]
    fn only_losses_that_last_three_probe_timeouts_are_persistent_congestion() {
        let mut harness = Harness::new();
        let arrived = harness.send(1);
        harness.pass(RTT);
        harness.tack(&[arrived], None).unwrap();
        assert!(!lose_for(&mut harness, duration(&Harness::new()) / 2));
        let mut harness = Harness::new();
        assert!(lose_for(&mut harness, duration(&Harness::new())));
        assert_eq!(harness.sender.stats().persistent_congestions, 1);
    }

    #[test]
    fn what_was_acknowledged_in_between_makes_losses_two_runs() {
        let mut harness = Harness::new();
        let lasting = duration(&harness);
        let arrived = harness.send(1);
        harness.pass(RTT);
        harness.tack(std::slice::from_ref(&arrived), None).unwrap();
        harness.send(1);
        harness.pass(lasting / 2);
        let between = harness.send(1);
        harness.pass(lasting / 2);
        harness.send(1);
        let behind = harness.send(4);
        harness.pass(RTT);
        let outcome = harness.tack(&[behind, between, arrived], None).unwrap();
        assert_eq!(outcome.lost_packets, 2);
        assert!(!outcome.current.is_persistent_congestion);
    }

    #[test]
    fn tacks_that_got_lost_are_no_persistent_congestion() {
        let mut harness = Harness::new();
        let lasting = duration(&harness);
        let arrived = harness.send(1);
        harness.pass(RTT);
        harness.tack(&[arrived], None).unwrap();
        for _ in 0..20 {
            harness.send(1);
            harness.pass(lasting / 10);
        }
        // TACK-6.6-2: the only TACK to come reports less than all that has arrived.
        let behind = harness.send(4);
        harness.pass(RTT);
        let outcome = harness.tack(&[behind], None).unwrap();
        assert_eq!(outcome.lost_packets, 20);
        assert!(!outcome.current.is_persistent_congestion);
    }

    #[test]
    fn losses_before_the_first_round_trip_are_no_persistent_congestion() {
        let mut harness = Harness::new();
        let lasting = 100 * duration(&harness);
        harness.sender.set_path(harness.now, crate::sender::PathId(1));
        assert_eq!(harness.sender.persistent_congestion_duration(), None);
        let first = harness.send(1);
        harness.send(1);
        harness.pass(lasting);
        harness.send(1);
        let behind = harness.send(4);
        harness.pass(RTT);
        let outcome = harness.tack(&[behind.clone(), first.clone()], None).unwrap();
        assert_eq!(outcome.lost_packets, 2);
        assert!(!outcome.current.is_persistent_congestion);
        harness.send(1);
        let next = harness.send(4);
        harness.pass(RTT);
        let outcome = harness.tack(&[next, behind, first], None).unwrap();
        assert_eq!(outcome.lost_packets, 1);
        assert!(!outcome.current.is_persistent_congestion, "nor afterwards");
    }

    #[test]
    fn one_of_the_lost_packets_that_arrives_undoes_it() {
        let mut harness = Harness::new();
        let lasting = duration(&harness);
        assert!(lose_for(&mut harness, lasting));
        assert_eq!(harness.sender.inflight_cap(), 2500);
        let outcome = harness.tack(&[2..=2], None).unwrap();
        assert!(outcome.current.was_no_persistent_congestion);
        assert!(harness.sender.inflight_cap() >= 12_500, "TACK-6.6-4");
    }
}
