//! When packets with a TIMESTAMP arrived (TACK-4.4-4), for a sender that measures with packet trains.

use std::time::Instant;

use crate::frame::{Arrivals, StampedArrival};

/// Longer times and more bytes are reported as this, the most that takes four bytes: no train is so long.
const MOST: u64 = (1 << 30) - 1;

/// Packets that a TACK reports, the last one of the report before included (TACK-4.4-4). Under a light load TACKs are few,
/// and report as many as a block holds.
const MOST_USUALLY: usize = 8;

/// What the next TACK reports of them.
#[derive(Debug, Default)]
pub struct StampedArrivals {
    arrivals: Arrivals,
    /// When the last one came, and the bytes received until then.
    last: Option<(Instant, u64)>,
}

impl StampedArrivals {
    /// An ack-eliciting packet with a TIMESTAMP has arrived, and no later one before it; `received` are
    /// the bytes of all ack-eliciting packets, its own included.
    pub fn on_packet(
        &mut self,
        now: Instant,
        packet_number: u64,
        received: u64,
        is_load_light: bool,
    ) {
        let (since_last_us, bytes) = match self.last.replace((now, received)) {
            Some((last, before)) => {
                let since_last = now.saturating_duration_since(last);
                (since_last.as_micros() as u64, received - before)
            }
            None => (0, 0),
        };
        let arrival = StampedArrival {
            packet_number,
            since_last_us: since_last_us.min(MOST),
            bytes: bytes.min(MOST),
        };
        if is_load_light || self.arrivals.as_slice().len() < MOST_USUALLY {
            self.arrivals.push(arrival);
        } else {
            self.arrivals.extend_last(arrival);
        }
    }

    /// What a TACK says of them.
    pub fn report(&self) -> Option<Arrivals> {
        self.arrivals.is_worth_reporting().then_some(self.arrivals)
    }

    /// They have been reported.
    pub fn on_reported(&mut self) {
        self.arrivals.keep_last();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_report_goes_on_where_the_one_before_has_ended() {
        let t0 = crate::test_clock();
        let at = |us| t0 + Duration::from_micros(us);
        let mut arrivals = StampedArrivals::default();
        arrivals.on_packet(at(0), 3, 1200, false);
        assert_eq!(arrivals.report(), None, "one packet has no time between");
        arrivals.on_packet(at(900), 5, 3600, false);
        let of = |arrivals: &StampedArrivals| arrivals.report().unwrap().as_slice().to_vec();
        let second = StampedArrival { packet_number: 5, since_last_us: 900, bytes: 2400 };
        assert_eq!(of(&arrivals)[1], second);
        arrivals.on_reported();
        assert_eq!(arrivals.report(), None);
        arrivals.on_packet(at(1000), 6, 4800, false);
        let third = StampedArrival { packet_number: 6, since_last_us: 100, bytes: 1200 };
        assert_eq!(
            of(&arrivals),
            [StampedArrival { since_last_us: 0, bytes: 0, ..second }, third]
        );
    }
    #[test]
    fn beyond_eight_packets_only_a_light_load_has_each_reported() {
        for (is_load_light, reported) in [(false, 8), (true, 20)] {
            let t0 = crate::test_clock();
            let mut arrivals = StampedArrivals::default();
            for packet in 0..20 {
                let now = t0 + Duration::from_micros(900 * packet);
                arrivals.on_packet(now, packet, 1200 * packet, is_load_light);
            }
            let report = arrivals.report().unwrap();
            assert_eq!(report.as_slice().len(), reported);
            let time: u64 = report.as_slice().iter().map(|arrival| arrival.since_last_us).sum();
            assert_eq!(time, 900 * 19, "nothing is left out");
        }
    }
}
