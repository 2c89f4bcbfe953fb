//! The bound on the reported rate (TACK-6.1-1).
//!
//! It is the sender's own record: what was acknowledged, over the time that took. A probe that is
//! shorter than a round trip does not show in full there, so the video profile lets the reported
//! rate be a little higher. Not while packets get lost: what is lost is missing from honest
//! reports too, and a liar would fill it in.

use crate::bandwidth::Bandwidth;
use crate::sender::RateSample;

/// The rate to go by: what was `reported`, up to `excess` times the sender's own record, and no more
/// than that where the path `is_lossy`.
pub(super) fn bounded(
    sample: &RateSample,
    reported: Option<Bandwidth>,
    excess: f64,
    is_lossy: bool,
) -> Bandwidth {
    let excess = if is_lossy { 1.0 } else { excess };
    reported.map_or(sample.rate, |reported| reported.min(sample.rate.scaled(excess)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::bbr::tests::SAMPLE;

    fn rate(bytes_per_second: u64) -> Bandwidth {
        Bandwidth::from_bytes_per_second(bytes_per_second)
    }

    fn of(reported: Option<u64>, excess: f64, is_lossy: bool) -> Bandwidth {
        bounded(&SAMPLE, reported.map(rate), excess, is_lossy)
    }

    #[test]
    fn reports_count_up_to_a_little_above_the_own_record() {
        assert_eq!(of(Some(900), 1.05, false), rate(900));
        assert_eq!(of(Some(1020), 1.05, false), rate(1020));
        assert_eq!(of(Some(u64::MAX), 1.05, false), rate(1050));
        assert_eq!(of(None, 1.05, false), rate(1000), "a stock peer reports none");
        assert_eq!(of(Some(1020), 1.0, false), rate(1000));
    }

    #[test]
    fn while_packets_get_lost_the_own_record_is_all() {
        assert_eq!(of(Some(u64::MAX), 1.05, true), rate(1000));
        assert_eq!(of(Some(900), 1.05, true), rate(900));
    }
}
