//! How long transfers take.

use super::statistics::{median, percentile};
use super::{Context, Error};
use crate::sim::{self, Scenario};

/// Completion times of one cell, in milliseconds, one for each seed; infinite where the transfer
/// was not complete in the time of the scenario or the connection failed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Completions(Vec<f64>);

/// Runs transfers with an end for every cell with every seed.
///
/// The client compares all content with what was sent, byte for byte: what differs is an error.
pub(super) fn completions<C: Sync>(
    context: &Context,
    cells: &[C],
    seeds: &[u64],
    scenario: impl Fn(&C, u64) -> Result<(String, Scenario), Error> + Sync,
) -> Result<Vec<Completions>, Error> {
    let times = context.each(cells, seeds, |cell, seed| {
        let (cell, scenario) = scenario(cell, seed)?;
        match sim::run(&scenario) {
            Ok(report) => {
                let flow = report.flows.first();
                Ok(flow.and_then(|flow| flow.completion_ms).unwrap_or(f64::INFINITY))
            }
            Err(sim::Error::Closed { .. }) => Ok(f64::INFINITY),
            Err(error) => Err(Error::Simulation { cell, reason: Box::new(error) }),
        }
    })?;
    Ok(times.into_iter().map(Completions).collect())
}

impl Completions {
    /// The median; none where most transfers did not complete.
    pub(super) fn median(&self) -> Option<f64> {
        median(self.0.iter().copied()).filter(|ms| ms.is_finite())
    }

    /// The 99th percentile; none where more than one in a hundred did not complete.
    pub(super) fn p99(&self) -> Option<f64> {
        percentile(&self.0, 0.99).filter(|ms| ms.is_finite())
    }

    /// The longest; none where one did not complete.
    pub(super) fn longest(&self) -> Option<f64> {
        self.0.iter().copied().reduce(f64::max).filter(|ms| ms.is_finite())
    }

    /// Share of transfers that completed, percent.
    pub(super) fn complete_percent(&self) -> f64 {
        let complete = self.0.iter().filter(|ms| ms.is_finite()).count();
        100.0 * complete as f64 / self.0.len() as f64
    }
}

/// How much later one time is than another, in percent; negative if earlier. A time that was
/// never reached is infinitely late, also beside another such.
pub(super) fn later_percent(ms: Option<f64>, than: Option<f64>) -> f64 {
    match (ms, than) {
        (Some(ms), Some(than)) => (ms / than - 1.0) * 100.0,
        (Some(_), None) => f64::NEG_INFINITY,
        (None, _) => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_that_never_end_are_later_than_all_others() {
        let times = Completions(vec![f64::INFINITY, 10.0, 20.0]);
        assert_eq!((times.median(), times.p99()), (Some(20.0), None));
        assert_eq!(times.longest(), None);
        assert_eq!(Completions(vec![30.0, 10.0, 20.0]).longest(), Some(30.0));
        assert!((times.complete_percent() - 200.0 / 3.0).abs() < 1e-9);
        assert_eq!(Completions(vec![f64::INFINITY; 3]).median(), None);
    }

    #[test]
    fn never_is_infinitely_late() {
        assert!((later_percent(Some(11.0), Some(10.0)) - 10.0).abs() < 1e-9);
        assert!(later_percent(Some(11.0), None) < 0.0);
        assert!(later_percent(None, Some(10.0)) > 0.0 && later_percent(None, None) > 0.0);
    }
}
