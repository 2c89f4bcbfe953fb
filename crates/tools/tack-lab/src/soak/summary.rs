//! What many seeds say together, and whether it is good enough.

use serde::Serialize;

use super::Comparison;
use crate::experiments::percentile;

/// No clean seed may be below this part of the best rival.
const LEAST_RATIO: f64 = 0.7;
/// The median of the share of the link over long transfers of clean seeds, at least.
const LEAST_MEDIAN_SHARE: f64 = 0.95;
/// How many of the worst clean seeds are shown.
const WORST: usize = 10;

/// The distribution of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// How many seeds have one.
    pub seeds: usize,
    /// The smallest.
    pub least: f64,
    /// A hundredth is no higher.
    pub p1: f64,
    /// A tenth is no higher.
    pub p10: f64,
    /// Half are no higher.
    pub median: f64,
    /// Nine tenths are no higher.
    pub p90: f64,
}

impl Quantiles {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<_> = values.collect();
        let at = |share| percentile(&values, share);
        Some(Self {
            seeds: values.len(),
            least: at(0.0)?,
            p1: at(0.01)?,
            p10: at(0.1)?,
            median: at(0.5)?,
            p90: at(0.9)?,
        })
    }
}

/// The result of a soak.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Whether every target was met.
    pub passed: bool,
    /// The targets that were missed, each with the figure.
    pub missed: Vec<String>,
    /// TACK's goodput as a part of the best rival's, over clean seeds.
    pub clean_ratio: Option<Quantiles>,
    /// The same over all seeds.
    pub ratio: Option<Quantiles>,
    /// The share of the link in long transfers, over clean seeds.
    pub clean_share: Option<Quantiles>,
    /// The same over all seeds.
    pub share: Option<Quantiles>,
    /// The clean seeds with the lowest ratios, worst first.
    pub worst: Vec<u64>,
    /// What became of rivals that did not get through, which makes them no rival on that link.
    pub rival_faults: Vec<String>,
}

impl Summary {
    /// Of these seeds.
    pub fn new(seeds: &[Comparison]) -> Self {
        let clean: Vec<_> = seeds.iter().filter(|seed| seed.link.is_clean()).collect();
        let clean_ratio = Quantiles::of(clean.iter().filter_map(|seed| seed.ratio));
        let clean_share = Quantiles::of(clean.iter().filter_map(|seed| long_share(seed)));
        let mut worst: Vec<_> =
            clean.iter().filter_map(|seed| Some((seed.ratio?, seed.seed))).collect();
        worst.sort_by(|one, other| one.0.total_cmp(&other.0));

        let mut missed: Vec<_> = seeds.iter().filter_map(failure).collect();
        let slow = worst.iter().filter(|(ratio, _)| *ratio < LEAST_RATIO).count();
        if slow > 0 {
            missed.push(format!(
                "{slow} of {} clean seeds are below {LEAST_RATIO} of the best rival",
                clean.len()
            ));
        }
        if let Some(Quantiles { median, .. }) = clean_share
            && median < LEAST_MEDIAN_SHARE
        {
            missed.push(format!(
                "the median share of the link is {median:.3}, below {LEAST_MEDIAN_SHARE}"
            ));
        }
        Self {
            passed: missed.is_empty(),
            missed,
            clean_ratio,
            ratio: Quantiles::of(seeds.iter().filter_map(|seed| seed.ratio)),
            clean_share,
            share: Quantiles::of(seeds.iter().filter_map(long_share)),
            worst: worst.into_iter().take(WORST).map(|(_, seed)| seed).collect(),
            rival_faults: seeds.iter().flat_map(rival_faults).collect(),
        }
    }
}

/// The share of the link in a long transfer: none where that never ended.
fn long_share(seed: &Comparison) -> Option<f64> {
    let is_over = seed.tack.completion_s.is_some();
    let share = if is_over { seed.tack.link_share } else { Some(0.0) };
    share.filter(|_| seed.link.is_long())
}

/// What was wrong with the rivals of a seed.
fn rival_faults(seed: &Comparison) -> impl Iterator<Item = String> {
    let faults =
        seed.rivals.iter().filter_map(|rival| Some((rival.stack, rival.fault.as_ref()?)));
    faults.map(|(stack, fault)| format!("seed {}: {stack}: {fault}", seed.seed))
}

/// What is wrong with a seed, however bad its link is.
fn failure(seed: &Comparison) -> Option<String> {
    Some(format!("seed {}: {}", seed.seed, seed.tack.failure()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::{RandomLink, Transfer};

    fn seed(seed: u64, loss: f64, ratio: f64, share: f64) -> Comparison {
        let tack = Transfer {
            stack: "tacklib TACK",
            goodput_mbps: ratio,
            link_share: Some(share),
            completion_s: Some(1.0),
            silence_s: 0.1,
            needless: 0,
            queue_p95_ms: None,
            fault: None,
        };
        let link = RandomLink {
            rate_mbps: 10.0,
            rtt_ms: 20.0,
            loss,
            ack_loss: 0.0,
            bytes: 2_000_000,
            ..RandomLink::draw(1)
        };
        let rivals = vec![tack.clone()];
        let best_rival = Some("quinn CUBIC");
        Comparison { seed, link, tack, rivals, ratio: Some(ratio), best_rival }
    }

    #[test]
    fn good_seeds_pass_and_a_lossy_one_need_not_be_as_good() {
        let summary = Summary::new(&[
            seed(1, 0.0, 1.1, 0.97),
            seed(2, 0.01, 0.8, 0.96),
            seed(3, 0.2, 0.1, 0.2),
        ]);
        assert_eq!(summary.missed, [""; 0]);
        assert!(summary.passed);
        assert_eq!(summary.worst, [2, 1]);
        assert!((summary.clean_ratio.unwrap().least - 0.8).abs() < 1e-9);
        assert!((summary.ratio.unwrap().least - 0.1).abs() < 1e-9);
    }

    #[test]
    fn one_clean_seed_far_below_the_best_rival_fails() {
        let summary = Summary::new(&[seed(1, 0.0, 1.1, 0.97), seed(2, 0.0, 0.69, 0.97)]);
        assert!(!summary.passed);
        assert!(summary.missed[0].contains("1 of 2 clean seeds"), "{summary:?}");
    }

    #[test]
    fn a_median_that_leaves_the_link_idle_fails() {
        let summary = Summary::new(&[seed(1, 0.0, 1.0, 0.94)]);
        assert!(summary.missed[0].contains("0.940"), "{summary:?}");
    }

    #[test]
    fn a_fault_fails_on_the_worst_of_links() {
        let mut bad = seed(7, 0.2, 1.0, 1.0);
        bad.tack.fault = Some("flow 0: what arrived is not what was sent, at offset 3".into());
        let summary = Summary::new(&[bad]);
        assert!(!summary.passed);
        assert!(summary.missed[0].starts_with("seed 7: flow 0: what arrived"), "{summary:?}");
        let mut stalled = seed(8, 0.2, 1.0, 1.0);
        stalled.tack.silence_s = 61.0;
        assert_eq!(Summary::new(&[stalled]).missed, ["seed 8: stalled: nothing new for 61 s"]);
    }

    #[test]
    fn a_long_transfer_that_never_ends_has_no_share_of_the_link() {
        let mut endless = seed(9, 0.0, 1.0, 1.0);
        (endless.tack.completion_s, endless.tack.link_share) = (None, None);
        assert!(Summary::new(&[endless]).missed[0].contains("0.000"));
    }

    #[test]
    fn a_rival_that_fails_is_named_and_fails_nothing() {
        let mut failed = seed(10, 0.0, 1.0, 1.0);
        failed.rivals[0].fault = Some("flow 0: closed".into());
        let summary = Summary::new(&[failed]);
        assert!(summary.passed);
        assert_eq!(summary.rival_faults, ["seed 10: tacklib TACK: flow 0: closed"]);
    }
}
