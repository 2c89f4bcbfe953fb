//! What a user sees while files move.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units;
use tack_transfer::Progress;

/// Between two lines where there is no terminal to redraw.
const LINE_EVERY: Duration = Duration::from_secs(2);
const REDRAWS_PER_SECOND: u8 = 10;
/// Between two looks at how fast it goes.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// In this time, in seconds, what was before counts for no more than a third.
const MEMORY: f64 = 5.0;
/// Longer estimates, in seconds, say nothing.
const MAX_ETA: f64 = 99.0 * 3600.0;

/// Shows progress on standard error: a bar on a terminal, else a line now and then.
pub struct Display {
    style: Style,
    last_line: Instant,
    /// Content that crosses the network.
    moved: Pace,
    /// All that is done with content: it is compared, found at the receiver, or transferred.
    done: Pace,
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
        Self { style, last_line: now, moved: Pace::new(now), done: Pace::new(now) }
    }

    /// Shows where things are.
    pub fn update(&mut self, progress: &Progress) {
        let (now, seen) = (Instant::now(), Seen::of(progress));
        self.moved.look(seen.moved, now);
        self.done.look(seen.done(), now);
        let (rate, eta) = (units::bit_rate(self.moved.rate()), self.done.eta(seen.left()));
        match &self.style {
            Style::Quiet => {}
            Style::Bar(bar) => {
                let (position, length) = seen.position();
                bar.set_length(length);
                bar.set_position(position);
                bar.set_message(match seen.comparing() {
                    Some(comparing) => format!("{comparing}, {rate} ETA {eta}"),
                    None => format!("{rate} ETA {eta}"),
                });
            }
            Style::Lines if now.duration_since(self.last_line) < LINE_EVERY => {}
            Style::Lines => {
                self.last_line = now;
                let (settled, total) = (units::bytes(seen.settled), units::bytes(seen.total));
                let line = format!("{settled} of {total}, {rate}, ETA {eta}");
                print(&match seen.comparing() {
                    Some(comparing) => format!("{comparing}; {line}"),
                    None => line,
                });
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

/// Where things are at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    total: u64,
    settled: u64,
    moved: u64,
    to_compare: u64,
    compared: u64,
    /// The other end compares something.
    elsewhere: bool,
}

impl Seen {
    fn of(progress: &Progress) -> Self {
        let comparing = progress.comparing();
        // What is done is read before what there is to do, so that it is never more.
        let (settled, moved, compared) =
            (progress.settled(), progress.moved(), comparing.read());
        Self {
            total: progress.total(),
            settled,
            moved,
            to_compare: comparing.expected(),
            compared,
            elsewhere: comparing.is_elsewhere(),
        }
    }

    fn done(&self) -> u64 {
        self.settled + self.compared
    }

    fn left(&self) -> u64 {
        (self.total + self.to_compare).saturating_sub(self.done())
    }

    fn is_comparing(&self) -> bool {
        self.compared < self.to_compare
    }

    /// How far what is going on has got, and how far it goes.
    fn position(&self) -> (u64, u64) {
        if self.is_comparing() && (self.settled == 0 || self.settled == self.total) {
            return (self.compared, self.to_compare);
        }
        (self.settled, self.total)
    }

    /// What is being compared, if anything is.
    fn comparing(&self) -> Option<String> {
        if self.is_comparing() {
            let (compared, all) = (units::bytes(self.compared), units::bytes(self.to_compare));
            return Some(format!("comparing {compared}/{all}"));
        }
        self.elsewhere.then(|| "comparing at the other end".to_owned())
    }
}

/// How fast something goes on, of late more than before.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Bytes per second, once that is known.
    rate: Option<f64>,
    /// What was done at the last look, and when that was.
    last: (u64, Instant),
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { rate: None, last: (0, now) }
    }

    fn look(&mut self, done: u64, now: Instant) {
        let (before, at) = self.last;
        let elapsed = now.duration_since(at);
        if elapsed < LOOK_EVERY {
            return;
        }
        self.last = (done, now);
        let seconds = elapsed.as_secs_f64();
        // Less than before if a file begins anew.
        let current = done.saturating_sub(before) as f64 / seconds;
        let kept = (-seconds / MEMORY).exp();
        self.rate =
            Some(self.rate.map_or(current, |rate| rate * kept + current * (1.0 - kept)));
    }

    fn rate(&self) -> f64 {
        self.rate.unwrap_or_default()
    }

    /// How long so many bytes more take.
    fn eta(&self, left: u64) -> String {
        let seconds = left as f64 / self.rate();
        if seconds < MAX_ETA { units::duration(seconds) } else { "-:--".to_owned() }
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

/// Writes a line to standard error, which may be closed.
pub fn print(text: &str) {
    let _ = writeln!(stderr(), "tack: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn what_is_reused_makes_the_estimate_shorter_and_not_longer() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.eta(GB), "-:--", "nothing is known yet");
        // One byte in a thousand crosses the network, which does not matter.
        for second in 1..=10 {
            pace.look(second * GB / 10, start + Duration::from_secs(second));
        }
        assert_eq!(pace.eta(GB), units::duration(10.0));
        // What was fast long ago is forgotten.
        for second in 11..=60 {
            pace.look(GB + (second - 10) * GB / 1000, start + Duration::from_secs(second));
        }
        let seconds = GB as f64 / pace.rate();
        assert!((900.0..1100.0).contains(&seconds), "{seconds}");
        assert_eq!(pace.eta(u64::MAX), "-:--");
    }

    #[test]
    fn comparing_is_shown_with_how_far_it_has_got() {
        let seen = Seen { total: 3 * GB, to_compare: 3 * GB, compared: GB, ..Seen::default() };
        assert_eq!(seen.comparing().unwrap(), "comparing 1.00 GB/3.00 GB");
        assert_eq!((seen.position(), seen.left()), ((GB, 3 * GB), 5 * GB));
        let seen = Seen { compared: 3 * GB, elsewhere: true, ..seen };
        assert_eq!(seen.comparing().unwrap(), "comparing at the other end");
        let seen = Seen { elsewhere: false, settled: GB, ..seen };
        assert_eq!((seen.comparing(), seen.position()), (None, (GB, 3 * GB)));
    }
}
