//! What a user sees while files move.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units;
use tack_transfer::Progress;

/// Between two lines where there is no terminal to redraw.
const LINE_EVERY: Duration = Duration::from_secs(2);
const REDRAWS_PER_SECOND: u8 = 10;

/// Shows progress on standard error: a bar on a terminal, else a line now and then.
pub struct Display {
    style: Style,
    start: Instant,
    /// Offset of rates: what was moved before the last line, and when that was.
    last: (u64, Instant),
}

enum Style {
    Bar(ProgressBar),
    Lines,
    Quiet,
}

impl Display {
    /// Chooses the style; `quiet` shows errors only.
    pub fn new(quiet: bool) -> Self {
        let now = Instant::now();
        let style = match (quiet, stderr().is_terminal()) {
            (true, _) => Style::Quiet,
            (false, true) => Style::Bar(bar()),
            (false, false) => Style::Lines,
        };
        Self { style, start: now, last: (0, now) }
    }

    /// Shows where things are.
    pub fn update(&mut self, progress: &Progress) {
        match &self.style {
            Style::Quiet => {}
            Style::Bar(bar) => {
                bar.set_length(progress.total());
                bar.set_position(progress.settled());
                let rate = progress.moved() as f64 / self.start.elapsed().as_secs_f64();
                bar.set_message(format!(
                    "{} ETA {}",
                    units::bit_rate(rate),
                    eta(progress, rate)
                ));
            }
            Style::Lines => {
                let (moved_before, at) = self.last;
                let elapsed = at.elapsed();
                if elapsed < LINE_EVERY {
                    return;
                }
                let moved = progress.moved();
                let rate = (moved - moved_before) as f64 / elapsed.as_secs_f64();
                self.last = (moved, Instant::now());
                print(&format!(
                    "{} of {}, {}, ETA {}",
                    units::bytes(progress.settled()),
                    units::bytes(progress.total()),
                    units::bit_rate(rate),
                    eta(progress, rate)
                ));
            }
        }
    }

    /// Says something that is worth knowing.
    pub fn note(&self, text: &str) {
        match &self.style {
            Style::Quiet => {}
            Style::Lines => print(text),
            Style::Bar(bar) => bar.suspend(|| print(text)),
        }
    }

    /// Says something that went wrong.
    pub fn problem(&self, text: &str) {
        match &self.style {
            Style::Bar(bar) => bar.suspend(|| print(text)),
            Style::Quiet | Style::Lines => print(text),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND);
    let bar = ProgressBar::with_draw_target(Some(0), target);
    let style = ProgressStyle::with_template(
        "{wide_bar} {percent:>3}% {decimal_bytes}/{decimal_total_bytes} {msg}",
    );
    // The default style shows the same, less well.
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn eta(progress: &Progress, rate: f64) -> String {
    let left = progress.total().saturating_sub(progress.settled());
    if rate < 1.0 { "-:--".to_owned() } else { units::duration(left as f64 / rate) }
}

/// Writes a line to standard error, which may be closed.
pub fn print(text: &str) {
    let _ = writeln!(stderr(), "tack: {text}");
}
