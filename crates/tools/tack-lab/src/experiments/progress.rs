//! How far the runs are.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How many runs are done, on standard error, where that is a terminal.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar with words in front of it.
    pub fn new(words: impl Into<String>) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(8));
        let style = "{prefix:28} {bar:30} {pos}/{len} runs, {elapsed} gone, {eta} to go";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.set_prefix(words.into());
        Self { bar }
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// So many runs more to do.
    pub fn expect(&self, runs: usize) {
        self.bar.inc_length(runs as u64);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// A run is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }
}
