//! inflight_longterm (section "Probing for Bandwidth In ProbeBW"): how much may be in flight
//! without a probe losing packets (TACK-6.5-4). It is found by a probe that did, and is raised with care.
//!
//! It is a volume on the path. What has arrived and waits for its TACK is not, and is allowed for
//! besides.

/// BBR.Headroom: what a flow that cruises leaves to others.
const HEADROOM: f64 = 0.15;

/// The slope of growth doubles in each round of a probe, so often at most.
const MAX_ROUNDS: u32 = 30;

/// The bound, and the probe that explores it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongTerm {
    inflight: Option<u64>,
    /// The last probe lost too much.
    too_high: bool,
    /// The probe now is a cautious one, or the last one was.
    precautionary: bool,
    up_rounds: u32,
    up_acked: u64,
    acked_per_increment: u64,
}

impl LongTerm {
    /// The bound, while there is one.
    pub fn get(&self) -> Option<u64> {
        self.inflight
    }

    /// The volume within the bound.
    pub fn bound_inflight(&self, inflight: u64) -> u64 {
        self.inflight.map_or(inflight, |bound| inflight.min(bound))
    }

    /// The volume within the bound, less the headroom that is left to others; not less than what the
    /// path holds, `bdp`, where that is within the bound.
    pub fn bound_cruise(&self, inflight: u64, bdp: u64) -> u64 {
        let headroom = |bound: u64| (bound as f64 * (1.0 - HEADROOM)) as u64;
        let within = |bound: u64| inflight.min(headroom(bound).max(bdp.min(bound)));
        self.inflight.map_or(inflight, within)
    }

    /// A probe begins, where so much may be in flight.
    pub fn on_probe(&mut self, cap: u64, mss: u64) {
        (self.up_rounds, self.up_acked, self.precautionary) = (0, 0, false);
        self.raise_slope(cap, mss);
    }

    /// A probe has lost too much, which leaves `bound` of what was in flight.
    pub fn on_too_high(&mut self, bound: u64, app_limited: bool) {
        self.too_high = true;
        if !app_limited {
            self.inflight = Some(bound);
        }
    }

    /// Startup has filled the path and lost packets with it.
    pub fn on_startup_loss(&mut self, bdp: u64, inflight_latest: u64) {
        self.inflight = Some(bdp.max(inflight_latest));
    }

    /// A packet was acknowledged that left with so much in flight, and little was lost.
    pub fn on_safe(&mut self, tx_in_flight: u64) {
        self.inflight = self.inflight.map(|bound| bound.max(tx_in_flight));
    }

    /// Bytes were acknowledged while the bound held a probe back (ProbeInflightLongtermUpward).
    pub fn on_limited(&mut self, acked: u64, mss: u64) {
        let Some(bound) = &mut self.inflight else { return };
        self.up_acked += acked;
        let increments = self.up_acked / self.acked_per_increment.max(1);
        self.up_acked -= increments * self.acked_per_increment;
        *bound = bound.saturating_add(increments.saturating_mul(mss));
    }

    /// A round of a probe is over (RaiseInflightLongtermSlope).
    pub fn raise_slope(&mut self, cap: u64, mss: u64) {
        let growth = 1_u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(MAX_ROUNDS);
        self.acked_per_increment = (cap / growth).max(mss);
    }

    /// Whether a probe with so much in flight ends before it has lost anything, because the last
    /// one lost too much there.
    pub fn ends_with_caution(&mut self, in_flight: u64) -> bool {
        let ends = self.too_high && self.inflight.is_some_and(|bound| in_flight >= bound);
        self.precautionary |= ends;
        ends
    }

    /// A probe is over by itself.
    pub fn on_probed(&mut self) {
        self.too_high = false;
    }

    /// All that a probe has sent has been judged: whether the next follows at once.
    pub fn repeats_probe(&mut self) -> bool {
        std::mem::take(&mut self.precautionary) && !self.too_high
    }

    /// The higher bound of two: what a spurious loss has cost is given back.
    pub fn restore(&mut self, before: Option<u64>) {
        self.inflight = self.inflight.zip(before).map(|(one, other)| one.max(other));
    }
}
