//! What CE marks say of the path (TACK-6.5-8).
//!
//! An L4S queue marks from a millisecond on, and how many packets says how long it is: the response is
//! that share, as in DCTCP and Prague (RFC 8257 section 3.3, RFC 9331 section 4.3). A Classic mark
//! stands for a loss that an AQM has spared the flow: one in a round trip counts like many, for a
//! little less than a loss (RFC 8511 section 3.1).

use crate::ecn::Ecn;

/// DCTCP.g, RFC 8257 section 4.2; ecn_alpha_gain of Linux' BBRv3.
const GAIN: f64 = 1.0 / 16.0;

/// beta_ecn, RFC 8511 section 3.1: what a Classic mark leaves to a sender with CUBIC's beta of 0.7.
const BETA_ECN: f64 = 0.85;

/// ecn_thresh of Linux' BBRv3: where half of a round's packets are marked, Startup has filled the path.
const STARTUP_THRESH: f64 = 0.5;

/// Counts marks by round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    ce: u64,
    acked_bytes: u64,
    alpha: f64,
}

/// The marks of a round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MarkedRound {
    /// What the marks leave of rate and flight; 1 without any.
    pub keeps: f64,
    /// So many that Startup has filled the path.
    pub ends_startup: bool,
}

impl Marks {
    /// An acknowledgement reports so many packets as CE, and acknowledges so many bytes.
    pub fn on_acked(&mut self, ce: u64, acked_bytes: u64) {
        self.ce += ce;
        self.acked_bytes += acked_bytes;
    }

    /// A round trip is over; what was sent in it had the codepoint that `ecn` says.
    pub fn on_round(&mut self, ecn: Ecn, mss: u64) -> MarkedRound {
        let packets = (self.acked_bytes / mss.max(1)).max(1);
        let share = (self.ce as f64 / packets as f64).min(1.0);
        self.alpha += (share - self.alpha) * GAIN;
        let marked = self.ce > 0;
        (self.ce, self.acked_bytes) = (0, 0);
        let keeps = match ecn {
            _ if !marked => 1.0,
            Ecn::L4s => 1.0 - self.alpha / 2.0,
            Ecn::Off | Ecn::Classic => BETA_ECN,
        };
        MarkedRound { keeps, ends_startup: marked && share >= STARTUP_THRESH }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(marks: &mut Marks, ecn: Ecn, ce: u64) -> MarkedRound {
        marks.on_acked(ce, 100 * 1250);
        marks.on_round(ecn, 1250)
    }

    /// In thousandths.
    fn keeps(marks: &mut Marks, ecn: Ecn, ce: u64) -> u64 {
        (round(marks, ecn, ce).keeps * 1000.0).round() as u64
    }

    #[test]
    fn a_classic_mark_counts_once_in_a_round_trip() {
        let mut marks = Marks::default();
        let kept = [0, 1, 30].map(|ce| keeps(&mut marks, Ecn::Classic, ce));
        assert_eq!(kept, [1000, 850, 850]);
    }

    #[test]
    fn l4s_marks_count_by_their_share() {
        let mut marks = Marks::default();
        for _ in 0..200 {
            round(&mut marks, Ecn::L4s, 10);
        }
        assert_eq!([10, 0].map(|ce| keeps(&mut marks, Ecn::L4s, ce)), [950, 1000]);
    }

    #[test]
    fn half_of_a_round_ends_startup() {
        let mut marks = Marks::default();
        assert!(!round(&mut marks, Ecn::L4s, 49).ends_startup);
        assert!(round(&mut marks, Ecn::L4s, 50).ends_startup);
    }
}
