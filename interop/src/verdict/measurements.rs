//! Test cases that measure: figures for people, the median of a few transfers. What has to be so
//! for them to mean anything is checked as in every cell.

use super::{Evidence, Verdict};
use crate::cases::Kind;

/// The verdict on transfers that went well by themselves, once there are enough of them.
pub fn judge_so_far(kind: Kind, made: &[Evidence], wanted: usize) -> Option<Verdict> {
    if made.len() < wanted {
        return None;
    }
    let goodputs = made.iter().map(|one| one.goodput() / 1e6);
    let (goodput, all_goodputs) = median(goodputs, 2);
    if kind == Kind::Goodput {
        let note = format!("{goodput:.2} Mbit/s, the median of {all_goodputs}");
        return Some(Verdict::Measured { figure: format!("{goodput:.1}"), note });
    }
    let Some(shares) = made.iter().map(share).collect::<Option<Vec<_>>>() else {
        let reason = "nothing of the other flow was seen beside the transfer".to_owned();
        return Some(Verdict::Fail { reason });
    };
    let (share, all_shares) = median(shares.into_iter(), 0);
    let note = format!(
        "{share:.0} % of the data beside a CUBIC flow of plain quiche, the median of {all_shares}; \
         {goodput:.2} Mbit/s"
    );
    Some(Verdict::Measured { figure: format!("{share:.0}%"), note })
}

/// What part of the new data of both flows was the transfer's while it ran, in percent.
fn share(evidence: &Evidence) -> Option<f64> {
    let own = || evidence.seen.connections.iter().flat_map(|seen| &seen.progress);
    let start = own().map(|new| new.at).min()?;
    let end = own().map(|new| new.at).max()?;
    let bytes: u64 = own().map(|new| new.new_bytes).sum();
    let beside = evidence.cross_traffic.iter().filter(|new| (start..=end).contains(&new.at));
    let beside: u64 = beside.map(|new| new.new_bytes).sum();
    (beside > 0).then(|| 100.0 * bytes as f64 / (bytes + beside) as f64)
}

/// The median, the lower one of an even number, and all values in order.
fn median(values: impl Iterator<Item = f64>, decimals: usize) -> (f64, String) {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let all: Vec<_> = values.iter().map(|value| format!("{value:.decimals$}")).collect();
    let middle = values.len().saturating_sub(1) / 2;
    (values.get(middle).copied().unwrap_or_default(), all.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::verdict::tests::{PLAIN, good};
    use crate::wire::Progress;
    use tack_tap::Direction;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_median_of_all_transfers_is_the_figure() {
        let made = [1.0, 0.5, 2.0].map(|seconds| {
            let mut evidence = good(PLAIN);
            evidence.seen.data_seconds = seconds;
            evidence
        });
        assert_eq!(judge_so_far(Kind::Goodput, &made[..2], 3), None);
        let verdict = judge_so_far(Kind::Goodput, &made, 3);
        let note = "8.00 Mbit/s, the median of 4.00, 8.00, 16.00".to_owned();
        assert_eq!(verdict, Some(Verdict::Measured { figure: "8.0".to_owned(), note }));
    }

    #[test]
    fn the_share_is_that_of_the_time_of_the_transfer() {
        let mut evidence = good(PLAIN);
        let sent =
            |ms, new_bytes| Progress { at: MS(ms), direction: Direction::ToClient, new_bytes };
        evidence.seen.connections[0].progress = vec![sent(100, 1000), sent(900, 2000)];
        let alone = judge_so_far(Kind::CrossTraffic, &[evidence.clone()], 1);
        assert!(matches!(alone, Some(Verdict::Fail { .. })), "{alone:?}");
        evidence.cross_traffic =
            vec![sent(99, 7000), sent(100, 400), sent(500, 600), sent(901, 5000)];
        let verdict = judge_so_far(Kind::CrossTraffic, &[evidence], 1);
        let Some(Verdict::Measured { figure, note }) = verdict else { panic!("{verdict:?}") };
        assert_eq!(figure, "75%");
        assert!(note.starts_with("75 % of the data beside a CUBIC flow"), "{note}");
    }
}
