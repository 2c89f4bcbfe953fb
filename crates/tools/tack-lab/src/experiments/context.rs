//! What every experiment is given.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Error, Progress};
use crate::pool;
use crate::sim::{self, Scenario, ScenarioReport};

/// How much is to be run, and from which seed.
#[derive(Clone, Debug)]
pub struct Context {
    quick: bool,
    seed: u64,
    progress: Progress,
    /// The rows to run; empty for all.
    only: Vec<String>,
}

impl Context {
    /// The seed where none is given.
    pub const DEFAULT_SEED: u64 = 1;

    /// The form (short or long), the first seed and the display of progress.
    pub const fn new(quick: bool, seed: u64, progress: Progress) -> Self {
        Self { quick, seed, progress, only: Vec::new() }
    }

    /// The same with these rows only, of experiments that have [rows](super::Experiment::rows);
    /// with none of them, all.
    #[must_use]
    pub fn only(self, only: Vec<String>) -> Self {
        Self { only, ..self }
    }

    /// Whether a row is to be run.
    pub(super) fn selects(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == row)
    }

    /// The choice of rows as an argument, with a space before it.
    pub(super) fn only_argument(&self) -> String {
        if self.only.is_empty() {
            String::new()
        } else {
            format!(" --only {}", self.only.join(","))
        }
    }

    /// Whether this is the short form.
    pub const fn quick(&self) -> bool {
        self.quick
    }

    /// The first seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// One of two values, by the form.
    pub(super) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// So many seeds, from the first one on. An odd number where a median is taken: of an even one it would be the
    /// lower of two values, which is the better one of a time and the worse one of a rate.
    pub(super) fn seeds(&self, full: u64, quick: u64) -> Vec<u64> {
        (0..self.pick(full, quick)).map(|index| self.seed.wrapping_add(index)).collect()
    }

    /// Does the work for every cell with every seed, on all cores: for each cell the results of
    /// all seeds. After a failure nothing new is begun.
    pub(super) fn each<C: Sync, T: Send>(
        &self,
        cells: &[C],
        seeds: &[u64],
        work: impl Fn(&C, u64) -> Result<T, Error> + Sync,
    ) -> Result<Vec<Vec<T>>, Error> {
        let runs: Vec<_> =
            cells.iter().flat_map(|cell| seeds.iter().map(move |&seed| (cell, seed))).collect();
        self.progress.expect(runs.len());
        let failed = AtomicBool::new(false);
        let results = pool::run_all(&runs, |&(cell, seed)| {
            if failed.load(Ordering::Relaxed) {
                return None;
            }
            let result = work(cell, seed);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            self.progress.advance();
            Some(result)
        });
        let results: Vec<_> = results.into_iter().flatten().collect::<Result<_, _>>()?;
        let mut results = results.into_iter();
        Ok(cells.iter().map(|_| results.by_ref().take(seeds.len()).collect()).collect())
    }

    /// Runs a scenario for every cell with every seed. `scenario` also names the cell, for
    /// errors.
    pub(super) fn simulate<C: Sync>(
        &self,
        cells: &[C],
        seeds: &[u64],
        scenario: impl Fn(&C, u64) -> Result<(String, Scenario), Error> + Sync,
    ) -> Result<Vec<Vec<ScenarioReport>>, Error> {
        self.each(cells, seeds, |cell, seed| {
            let (cell, scenario) = scenario(cell, seed)?;
            sim::run(&scenario)
                .map_err(|error| Error::Simulation { cell, reason: Box::new(error) })
        })
    }
}

#[cfg(test)]
mod tests {
    use tack_link::LinkSpec;

    use super::*;

    #[test]
    fn results_of_a_cell_stay_together() {
        let context = Context::new(false, 7, Progress::hidden());
        let seeds = context.seeds(2, 1);
        let results =
            context.each(&["a", "b"], &seeds, |cell, seed| Ok(format!("{cell}{seed}")));
        assert_eq!(results.unwrap(), [["a7", "a8"], ["b7", "b8"]]);
    }

    #[test]
    fn a_failure_ends_the_work() {
        let context = Context::new(false, 1, Progress::hidden());
        let cells: Vec<u32> = (0..1000).collect();
        let begun = std::sync::atomic::AtomicUsize::new(0);
        let result = context.each(&cells, &[1], |_, _| {
            begun.fetch_add(1, Ordering::Relaxed);
            LinkSpec::resolve("no-such-link").map_err(Error::from)
        });
        assert!(result.is_err());
        assert!(begun.load(Ordering::Relaxed) < 100);
    }
}
