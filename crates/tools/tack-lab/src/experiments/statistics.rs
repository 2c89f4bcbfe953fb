//! What is made of many numbers.

/// The middle value, or the lower of the two in the middle, so that it is one that was seen;
/// `None` without values. What is not a number does not count.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.into_iter().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// The mean; `None` without values.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) =
        values.into_iter().fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The value that a share of all does not exceed, by nearest rank: one that was seen. `None`
/// without values.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}

/// Jain's fairness index: 1 when all shares are equal, 1/n when one takes everything. `None`
/// when there is nothing to share.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// How long after `from` a value has settled: the start of the first bin from which `hold` bins
/// in a row are as they should be, in seconds. `None` when it does not come to that.
///
/// The bins are (start in seconds, value) in order of time.
pub fn converged_after(
    bins: &[(f64, f64)],
    from: f64,
    hold: usize,
    settled: impl Fn(f64) -> bool,
) -> Option<f64> {
    // Starts of bins are sums of a width; a bin that begins at `from` counts.
    let bins = &bins[bins.partition_point(|(at, _)| *at < from - 1e-9)..];
    bins.windows(hold.max(1))
        .find(|window| window.iter().all(|(_, value)| settled(*value)))
        .map(|window| (window[0].0 - from).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median([9.0, 1.0, 5.0, 4.0]), Some(4.0));
        assert_eq!(median([f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median([]), None);
    }

    #[test]
    fn a_percentile_is_the_smallest_value_that_so_many_do_not_exceed() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), Some(198.0));
        assert_eq!(percentile(&values, 0.5), Some(100.0));
        assert_eq!(percentile(&[3.0], 0.99), Some(3.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn equal_shares_are_fair_and_a_monopoly_is_not() {
        assert_eq!(jain(&[5.0, 5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    fn ramp() -> Vec<(f64, f64)> {
        // 10 until second 2, then 1 more each tenth of a second up to 20.
        (0..50).map(|bin| (f64::from(bin) * 0.1, f64::from((bin - 10).clamp(10, 20)))).collect()
    }

    #[test]
    fn a_ramp_has_converged_when_it_is_near_the_top() {
        let after = converged_after(&ramp(), 2.0, 5, |value| value >= 19.0).unwrap();
        assert!((after - 0.9).abs() < 1e-9, "{after}");
    }

    #[test]
    fn a_value_that_is_reached_and_left_again_does_not_count() {
        let mut bins = ramp();
        bins[22].1 = 20.0;
        let after = converged_after(&bins, 2.0, 2, |value| value >= 19.0).unwrap();
        assert!((after - 0.9).abs() < 1e-9, "{after}");
    }

    #[test]
    fn what_is_never_reached_never_converges() {
        assert_eq!(converged_after(&ramp(), 2.0, 3, |value| value > 21.0), None);
    }

    #[test]
    fn what_was_right_all_along_converges_at_once() {
        assert_eq!(converged_after(&ramp(), 2.0, 3, |value| value >= 10.0), Some(0.0));
    }
}
