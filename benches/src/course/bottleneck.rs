//! The way of the data: a rate, a queue in front of it and a delay behind it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Course;

/// A batch is read this long after its first datagram has come, however few have.
const LONGEST_BATCH: Duration = Duration::from_millis(2);

pub struct Bottleneck {
    /// Times of arrival and datagrams.
    way: VecDeque<(Instant, Vec<u8>)>,
    /// When it has nothing left to send.
    idle_at: Instant,
}

impl Bottleneck {
    pub const fn new(start: Instant) -> Self {
        Self { way: VecDeque::new(), idle_at: start }
    }

    /// Takes a datagram at `at`, or gives it back where there is no room for it.
    pub fn enter(
        &mut self,
        at: Instant,
        datagram: Vec<u8>,
        course: &Course,
    ) -> Result<(), Vec<u8>> {
        let begin = self.idle_at.max(at);
        let waiting =
            begin.duration_since(at).as_nanos() * u128::from(course.rate) / 8_000_000_000;
        if waiting > u128::from(course.queue) {
            return Err(datagram);
        }
        let nanos = datagram.len() as u64 * 8_000_000_000 / course.rate;
        self.idle_at = begin + Duration::from_nanos(nanos);
        self.way.push_back((self.idle_at + course.delay, datagram));
        Ok(())
    }

    /// When the receiver reads next: when a batch is there, or the first has waited for long.
    pub fn next_batch(&self, batch: usize) -> Option<Instant> {
        let first = self.way.front()?.0 + LONGEST_BATCH;
        let last = self.way.get(batch - 1).map(|(at, _)| *at);
        Some(last.map_or(first, |last| last.min(first)))
    }

    /// The batch that the receiver reads at `now`, if it reads.
    pub fn read(&mut self, batch: usize, now: Instant, into: &mut Vec<Vec<u8>>) -> bool {
        if self.next_batch(batch).is_none_or(|at| at > now) {
            return false;
        }
        let there = self.way.iter().take(batch).take_while(|(at, _)| *at <= now).count();
        into.extend(self.way.drain(..there).map(|(_, datagram)| datagram));
        true
    }
}
