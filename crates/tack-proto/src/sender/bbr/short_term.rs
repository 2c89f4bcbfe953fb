//! The short-term model (section "When not Probing for Bandwidth"): what the path delivers at
//! present, while others want a part of it (TACK-6.5-5). It bounds rate and flight until the next probe.

use super::BETA;
use crate::bandwidth::Bandwidth;

/// What is left where most of a round trip was lost, as with NewReno (kLossReductionFactor, RFC 9002 section B.1).
const KEEPS_OF_FLOOD: f64 = 0.5;

/// bw_shortterm and inflight_shortterm; without bounds where nothing was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ShortTerm {
    bandwidth: Option<Bandwidth>,
    inflight: Option<u64>,
}

impl ShortTerm {
    /// A round trip with congestion is over, in which `latest` was delivered: a rate, and a volume
    /// within a round trip; most of it was lost if it `floods`. `now` is what was allowed so far.
    pub fn on_congestion(
        &mut self,
        latest: (Bandwidth, u64),
        now: (Bandwidth, u64),
        floods: bool,
    ) {
        let keeps = if floods { KEEPS_OF_FLOOD } else { BETA };
        let bandwidth = self.bandwidth.unwrap_or(now.0);
        let inflight = self.inflight.unwrap_or(now.1);
        self.bandwidth = Some(latest.0.max(bandwidth.scaled(keeps)));
        self.inflight = Some(latest.1.max((inflight as f64 * keeps) as u64));
    }

    /// Packets of this round trip were marked, which leaves so much of what was allowed so far.
    pub fn on_marks(&mut self, keeps: f64, now: (Bandwidth, u64)) {
        self.bandwidth = Some(self.bandwidth.unwrap_or(now.0).scaled(keeps));
        self.inflight = Some((self.inflight.unwrap_or(now.1) as f64 * keeps) as u64);
    }

    /// The path is probed again: what congestion has bounded is free.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Whether there has been congestion since the last probe.
    pub fn is_congested(&self) -> bool {
        self.bandwidth.is_some()
    }

    /// The rate within the bound.
    pub fn bound_bandwidth(&self, bandwidth: Bandwidth) -> Bandwidth {
        self.bandwidth.map_or(bandwidth, |bound| bandwidth.min(bound))
    }

    /// The volume within the bound.
    pub fn bound_inflight(&self, inflight: u64) -> u64 {
        self.inflight.map_or(inflight, |bound| inflight.min(bound))
    }

    /// The higher bounds of two models: what a spurious loss has cost is given back.
    pub fn restore(&mut self, before: Self) {
        self.bandwidth =
            self.bandwidth.zip(before.bandwidth).map(|(one, other)| one.max(other));
        self.inflight = self.inflight.zip(before.inflight).map(|(one, other)| one.max(other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bytes_per_second: u64) -> Bandwidth {
        Bandwidth::from_bytes_per_second(bytes_per_second)
    }

    #[test]
    fn congestion_leaves_what_was_delivered_and_seven_tenths_or_half_at_least() {
        let mut model = ShortTerm::default();
        assert_eq!(model.bound_bandwidth(rate(1000)), rate(1000));
        model.on_congestion((rate(900), 95), (rate(1000), 100), false);
        assert_eq!(
            (model.bound_bandwidth(rate(1000)), model.bound_inflight(100)),
            (rate(900), 95)
        );
        model.on_congestion((rate(100), 10), (rate(1000), 100), false);
        assert_eq!(model.bound_bandwidth(rate(1000)), rate(630));
        assert_eq!(model.bound_inflight(100), 66);
        model.on_congestion((rate(100), 10), (rate(1000), 100), true);
        assert_eq!(model.bound_bandwidth(rate(1000)), rate(315), "TACK-6.5-5");
        assert_eq!(model.bound_inflight(100), 33);
    }

    #[test]
    fn a_spurious_loss_gives_back_what_it_took() {
        let mut model = ShortTerm::default();
        model.on_congestion((rate(900), 95), (rate(1000), 100), false);
        let before = model;
        model.on_congestion((rate(100), 10), (rate(1000), 100), false);
        model.restore(before);
        assert_eq!(model, before);
        model.restore(ShortTerm::default());
        assert!(!model.is_congested());
    }
}
