//! One direction of a path with a bottleneck, in this process.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Carries datagrams at a rate and with a delay; drops what its buffer cannot hold.
pub struct Link {
    /// Bits per second; may change at any time.
    pub rate: u64,
    delay: Duration,
    /// Longest time that a datagram may wait for those ahead of it.
    buffer: Duration,
    /// When the last datagram will have left the bottleneck.
    busy_until: Instant,
    /// Datagrams and when they arrive.
    on_the_way: VecDeque<(Instant, Vec<u8>)>,
}

impl Link {
    /// A link that is idle at `now`; `buffer` is the longest time that a datagram waits.
    pub fn new(now: Instant, rate: u64, delay: Duration, buffer: Duration) -> Self {
        Self { rate, delay, buffer, busy_until: now, on_the_way: VecDeque::new() }
    }

    /// Takes a datagram, or drops it if the buffer is full.
    pub fn send(&mut self, now: Instant, datagram: &[u8]) {
        let start = self.busy_until.max(now);
        if start - now > self.buffer {
            return;
        }
        let bits = datagram.len() as u64 * 8;
        self.busy_until = start + Duration::from_nanos(bits * 1_000_000_000 / self.rate);
        self.on_the_way.push_back((self.busy_until + self.delay, datagram.to_vec()));
    }

    /// The next datagram that has arrived.
    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (arrival, _) = self.on_the_way.front()?;
        if *arrival > now {
            return None;
        }
        self.on_the_way.pop_front().map(|(_, datagram)| datagram)
    }

    /// When the next datagram arrives.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.on_the_way.front().map(|(arrival, _)| *arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn datagrams_arrive_at_the_rate_after_the_delay_and_a_full_buffer_drops() {
        let start = Instant::now();
        // A datagram of 1,000 bytes takes 1 ms; four may wait behind the one that leaves.
        let mut link = Link::new(start, 8_000_000, 20 * MS, 4 * MS);
        for number in 0..10 {
            link.send(start, &[number; 1000]);
        }
        assert_eq!(link.next_arrival(), Some(start + 21 * MS));
        assert_eq!(link.receive(start + 20 * MS), None);
        assert_eq!(link.receive(start + 21 * MS), Some(vec![0; 1000]));
        assert_eq!(link.receive(start + 21 * MS), None);
        let rest: Vec<_> =
            std::iter::from_fn(|| link.receive(start + 100 * MS)).map(|d| d[0]).collect();
        assert_eq!(rest, [1, 2, 3, 4]);
        assert_eq!(link.next_arrival(), None);
    }
}
