//! The rate beside others that keep a queue (TACK-6.5-9).
//!
//! CUBIC and Reno give way at each loss. The draft's model takes away what losses between probes have
//! bounded when the next probe begins, so a BBR flow comes back with all that it had, and they with less
//! each time. Here it comes back with less too, if the probe lost packets in a queue that stood before.

use crate::bandwidth::Bandwidth;

/// What a probe that has lost too much leaves of the rate: of the 1.25 that it had gone up to, about as
/// much as CUBIC leaves (RFC 9438 section 4.6: 0.7).
const KEEPS: f64 = 0.85;

/// The bound, while there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// A round trip was free of queues since the last probe began.
    drained: bool,
    /// None was before the probe now or last.
    queue_stood: bool,
    bandwidth: Option<Bandwidth>,
    /// The rate with which the probe now or last began.
    probed_from: Bandwidth,
    /// The best rate since the last Refill that the application did not limit.
    best: Bandwidth,
}

impl Share {
    /// A round trip is over, for all of which packets have queued or not.
    pub fn on_round(&mut self, queued: bool) {
        self.drained |= !queued;
    }

    /// The path is filled, to be probed; `in_series` for a probe that follows one which found more. What has queued
    /// since that one is this flow's own.
    pub fn on_refill(&mut self, max_bw: Bandwidth, in_series: bool) {
        let stood = !std::mem::take(&mut self.drained);
        self.queue_stood = stood && (self.queue_stood || !in_series);
        self.bandwidth = self.bandwidth.filter(|bound| *bound < max_bw);
        self.best = Bandwidth::ZERO;
    }

    /// A probe begins, with that rate between probes.
    pub fn on_probe(&mut self, bandwidth: Bandwidth) {
        self.probed_from = bandwidth;
    }

    /// A rate was seen, which the application did not limit.
    pub fn on_rate(&mut self, rate: Bandwidth) {
        self.best = self.best.max(rate);
    }

    /// The probe has lost too much, and this is the rate between probes now. What congestion has taken from it since the
    /// probe began is free again with the next one, and must not be taken twice.
    pub fn on_too_high(&mut self, bandwidth: Bandwidth) {
        if self.queue_stood {
            self.bandwidth = Some(bandwidth.max(self.probed_from).scaled(KEEPS));
        }
    }

    /// A probe with this gain has not. What a series of them has found is there without harm, however much it is.
    pub fn on_harmless_probe(&mut self, gain: f64) {
        self.bandwidth = self.bandwidth.map(|bound| bound.scaled(gain).max(self.best));
    }

    /// The rate within the bound.
    pub fn bound_bandwidth(&self, bandwidth: Bandwidth) -> Bandwidth {
        self.bandwidth.map_or(bandwidth, |bound| bandwidth.min(bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Bandwidth = Bandwidth::from_bytes_per_second(1_000_000);

    #[test]
    fn a_probe_that_loses_in_a_queue_of_others_costs_a_part_of_the_rate_until_probes_win_it_back()
     {
        let mut share = Share::default();
        share.on_refill(RATE, false);
        share.on_too_high(RATE);
        assert_eq!(share.bound_bandwidth(RATE), RATE.scaled(KEEPS));
        share.on_refill(RATE, false);
        share.on_too_high(RATE.scaled(KEEPS));
        assert_eq!(share.bound_bandwidth(RATE), RATE.scaled(KEEPS).scaled(KEEPS));
        for _ in 0..2 {
            share.on_refill(RATE, false);
            share.on_harmless_probe(1.25);
        }
        share.on_refill(RATE, false);
        assert_eq!(
            share.bound_bandwidth(RATE.scaled(2.0)),
            RATE.scaled(2.0),
            "there is no bound"
        );
    }

    #[test]
    fn what_a_series_of_probes_has_found_without_harm_is_kept() {
        let mut share = Share::default();
        share.on_refill(RATE, false);
        share.on_too_high(RATE);
        share.on_refill(RATE, false);
        share.on_rate(RATE.scaled(3.0));
        share.on_refill(RATE.scaled(3.0), true);
        share.on_rate(RATE.scaled(2.0));
        share.on_rate(RATE.scaled(1.5));
        share.on_harmless_probe(1.25);
        assert_eq!(share.bound_bandwidth(RATE.scaled(3.0)), RATE.scaled(2.0), "TACK-6.5-9");
    }

    #[test]
    fn the_queue_that_a_series_of_probes_has_made_is_its_own() {
        for (drained, after) in [(true, 1.0), (false, KEEPS)] {
            let mut share = Share::default();
            share.on_round(!drained);
            share.on_refill(RATE, false);
            share.on_round(true);
            share.on_refill(RATE, true);
            share.on_too_high(RATE);
            assert_eq!(share.bound_bandwidth(RATE), RATE.scaled(after), "TACK-6.5-9");
        }
    }

    #[test]
    fn a_probe_that_loses_in_a_queue_of_its_own_costs_nothing() {
        let mut share = Share::default();
        share.on_round(false);
        share.on_round(true);
        share.on_refill(RATE, false);
        share.on_too_high(RATE);
        assert_eq!(share.bound_bandwidth(RATE), RATE);
    }
}
