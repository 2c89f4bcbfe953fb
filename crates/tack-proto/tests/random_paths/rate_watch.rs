//! The highest rate behind Startup.
//!
//! The windows slide by a tenth of their length and begin with the end of Startup, so that a second
//! in which the rate is too high is found wherever it begins, and the one behind Startup too.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Steps of a window.
const STEPS: usize = 10;

/// What is sent in windows of time.
pub struct RateWatch {
    step: Duration,
    /// When Startup ended.
    since: Option<Instant>,
    /// Bytes of the last steps; the last one is not over.
    sent: VecDeque<u64>,
    /// When that one began.
    began: Instant,
    windows: u64,
    highest: (u64, Instant),
}

impl RateWatch {
    pub fn new(start: Instant, window: Duration) -> Self {
        Self {
            step: window / STEPS as u32,
            since: None,
            sent: VecDeque::new(),
            began: start,
            windows: 0,
            highest: (0, start),
        }
    }

    /// So many bytes leave; `starting` tells that Startup is on.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, starting: bool) {
        if starting {
            self.since = None;
            return;
        }
        if self.since.is_none() {
            (self.since, self.began) = (Some(now), now);
            self.sent.clear();
            self.sent.push_back(0);
        }
        while now >= self.began + self.step {
            self.end_step();
        }
        if let Some(last) = self.sent.back_mut() {
            *last += bytes;
        }
    }

    fn end_step(&mut self) {
        self.began += self.step;
        if self.sent.len() == STEPS {
            let sent = self.sent.iter().sum();
            self.windows += 1;
            if sent > self.highest.0 {
                self.highest = (sent, self.began);
            }
            self.sent.pop_front();
        }
        self.sent.push_back(0);
    }

    /// How long Startup has been over.
    pub fn watched(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now - since)
    }

    /// Windows that were looked at.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Bytes per second in the window with the most, and when it ended.
    pub fn highest(&self) -> (f64, Instant) {
        let window = self.step * STEPS as u32;
        (self.highest.0 as f64 / window.as_secs_f64(), self.highest.1)
    }
}
