//! A limit on how fast the streams of a connection are written and read (`--bwlimit`).
//!
//! What is written is paced: a piece leaves when the pieces before it would have left at the allowed
//! rate. What is read is paced likewise, which opens the flow-control windows no faster (RFC 9000
//! section 4.1), so that the limit holds whatever the sender makes of it.

use std::time::{Duration, Instant};

/// Pieces in a second; a connection wakes up as often.
const PIECES_PER_SECOND: u64 = 50;
/// Smallest and largest piece, in bytes.
const PIECE: std::ops::RangeInclusive<u64> = 1200..=64 * 1024;
/// A thread that wakes up late makes up for so much time.
const LATENESS: Duration = Duration::from_millis(20);

/// The limits of both directions of a connection.
#[derive(Debug, Default)]
pub(super) struct RateLimits {
    /// For what this end writes.
    pub(super) writing: RateLimit,
    /// For what this end reads.
    pub(super) reading: RateLimit,
    /// Bytes that may still be written before the peer has been heard.
    unheard: Option<usize>,
}

/// The limit of one direction, or none.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    bytes_per_second: Option<u64>,
    /// When everything so far would have been moved at the allowed rate.
    due: Option<Instant>,
}

impl RateLimits {
    /// The same number of bytes per second for each direction.
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        let limit = || RateLimit { bytes_per_second, due: None };
        Self { writing: limit(), reading: limit(), unheard: None }
    }

    /// Lets no more than `bytes` be written before something was read.
    #[must_use]
    pub(super) fn unheard(self, bytes: usize) -> Self {
        Self { unheard: Some(bytes), ..self }
    }

    /// Lets `bytes` more be written before something was read.
    pub(super) fn extend_unheard(&mut self, bytes: usize) {
        self.unheard = self.unheard.map(|left| left.saturating_add(bytes));
    }

    /// Bytes that may be written now.
    pub(super) fn may_write(&self, now: Instant) -> usize {
        self.writing.allowance(now).min(self.unheard.unwrap_or(usize::MAX))
    }

    /// Notes that so many bytes were written.
    pub(super) fn on_written(&mut self, bytes: usize, now: Instant) {
        self.writing.spend(bytes, now);
        self.unheard = self.unheard.map(|left| left.saturating_sub(bytes));
    }

    /// Notes that so many bytes, or the end of a stream, were read.
    pub(super) fn on_read(&mut self, bytes: usize, now: Instant) {
        self.reading.spend(bytes, now);
        self.unheard = None;
    }

    /// When a direction that has to wait now may go on.
    pub(super) fn resumes_at(&self, now: Instant) -> Option<Instant> {
        let times = [self.writing.due, self.reading.due].into_iter().flatten();
        times.filter(|due| *due > now).min()
    }
}

impl RateLimit {
    /// Keeps to `bytes_per_second` as well.
    pub(super) fn lower_to(&mut self, bytes_per_second: u64) {
        let current = self.bytes_per_second.unwrap_or(u64::MAX);
        self.bytes_per_second = Some(current.min(bytes_per_second.max(1)));
    }

    /// Bytes that may be moved now; zero while there is something to wait for.
    pub(super) fn allowance(&self, now: Instant) -> usize {
        match (self.bytes_per_second, self.due) {
            (None, _) => usize::MAX,
            (Some(_), Some(due)) if due > now => 0,
            (Some(rate), _) => {
                let piece = (rate / PIECES_PER_SECOND).clamp(*PIECE.start(), *PIECE.end());
                usize::try_from(piece).unwrap_or(usize::MAX)
            }
        }
    }

    /// Notes that so many bytes were moved.
    pub(super) fn spend(&mut self, bytes: usize, now: Instant) {
        let Some(rate) = self.bytes_per_second else { return };
        let takes = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        // Time in which nothing was moved is not saved up.
        let from = now.checked_sub(LATENESS).unwrap_or(now);
        self.due = Some(self.due.map_or(now, |due| due.max(from)) + takes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are moved in `time` by an end that always has some and wakes up when it may, or
    /// `late` after that.
    fn moved(rate: u64, time: Duration, late: Duration) -> u64 {
        let mut limits = RateLimits::new(Some(rate));
        let start = Instant::now();
        let (mut now, mut moved) = (start, 0);
        while now < start + time {
            while let piece @ 1.. = limits.writing.allowance(now) {
                limits.writing.spend(piece, now);
                moved += piece as u64;
            }
            now = limits.resumes_at(now).unwrap() + late;
        }
        moved
    }

    #[test]
    fn the_rate_is_kept_and_reached() {
        for rate in [1000, 100_000, 10_000_000, 1_000_000_000] {
            for late in [Duration::ZERO, Duration::from_millis(3)] {
                let seconds = 20;
                let moved = moved(rate, Duration::from_secs(seconds), late);
                let most = rate * seconds + *PIECE.end() + rate / 40;
                assert!(moved <= most, "{moved} at {rate}, {late:?} late");
                assert!(moved >= rate * seconds * 9 / 10, "{moved} at {rate}, {late:?} late");
            }
        }
    }

    #[test]
    fn time_without_anything_to_move_is_not_saved_up() {
        let mut limit = RateLimits::new(Some(50_000)).writing;
        let start = Instant::now();
        limit.spend(1000, start);
        let later = start + Duration::from_secs(100);
        let mut burst = 0;
        while let piece @ 1.. = limit.allowance(later) {
            limit.spend(piece, later);
            burst += piece;
        }
        assert!(burst <= 3 * 1200, "{burst}");
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        limits.writing.spend(1 << 40, now);
        assert_eq!(limits.writing.allowance(now), usize::MAX);
        assert_eq!(limits.resumes_at(now), None);
    }

    #[test]
    fn little_is_written_before_anything_was_read() {
        let (mut limits, now) = (RateLimits::default().unheard(1000), Instant::now());
        limits.on_written(400, now);
        assert_eq!(limits.may_write(now), 600);
        limits.on_written(600, now);
        assert_eq!(limits.may_write(now), 0);
        assert_eq!(limits.resumes_at(now), None, "time alone changes nothing");
        limits.on_read(0, now);
        assert_eq!(limits.may_write(now), usize::MAX);
    }

    #[test]
    fn what_may_be_written_before_anything_was_read_can_become_more() {
        let (mut limits, now) = (RateLimits::default().unheard(1000), Instant::now());
        limits.on_written(1000, now);
        limits.extend_unheard(500);
        assert_eq!(limits.may_write(now), 500);
        limits.on_read(0, now);
        limits.extend_unheard(500);
        assert_eq!(limits.may_write(now), usize::MAX, "it has been heard");
    }

    #[test]
    fn the_lower_of_two_limits_counts() {
        let mut limit = RateLimits::new(Some(100_000)).writing;
        limit.lower_to(1_000_000);
        assert_eq!(limit.bytes_per_second, Some(100_000));
        limit.lower_to(0);
        assert_eq!(limit.bytes_per_second, Some(1));
    }
}
