//! The rate of a pipe behind a queue that decides at dequeue.

use super::Schedule;
use super::queue::{ActiveQueue, Queued, Tally};
use super::rate::{RateIntegral, Work, work_of};
use crate::Time;

/// A transmitter that asks its queue for a packet whenever it has sent one.
///
/// The rate is exact, as with drop-tail: only the moment at which a packet has been sent is
/// rounded up to a nanosecond, and the errors do not add up.
#[derive(Clone, Debug)]
pub(super) struct Transmitter {
    rate: RateIntegral,
    buffer_bytes: u64,
    queue: ActiveQueue,
    /// When everything dequeued so far has been sent, as the work done until then.
    busy_until: Work,
    /// The same as a time.
    free_at: Time,
    /// When the last packet came.
    last_taken: Time,
    tally: Tally,
}

impl Transmitter {
    pub(super) fn new(rate_bps: &Schedule<u64>, buffer_bytes: u64, queue: ActiveQueue) -> Self {
        Self {
            rate: RateIntegral::new(rate_bps),
            buffer_bytes,
            queue,
            busy_until: 0,
            free_at: Time::ZERO,
            last_taken: Time::ZERO,
            tally: Tally::default(),
        }
    }

    /// Puts a packet into the queue. What is due by then must have been
    /// [transmitted](Self::transmit).
    pub(super) fn take(&mut self, queued: Queued) {
        let now = queued.enqueued;
        // An idle link sends a packet at once, which takes no room in the queue.
        let idle = self.queue.len() == 0 && self.free_at <= now;
        let room = if idle { u64::MAX } else { self.buffer_bytes };
        self.last_taken = now;
        self.queue.enqueue(queued, room, &mut self.tally);
    }

    /// When the next packet is dequeued.
    pub(super) fn next_event(&self) -> Option<Time> {
        (self.queue.len() > 0).then(|| self.free_at.max(self.last_taken))
    }

    /// Dequeues the next packet if that is due at `now`; also says when its last bit is sent.
    pub(super) fn transmit(&mut self, now: Time) -> Option<(Queued, Time)> {
        let start = self.next_event().filter(|start| *start <= now)?;
        let queued = self.queue.dequeue(start, &mut self.tally)?;
        if start > self.free_at {
            self.busy_until = self.rate.work(start);
        }
        self.busy_until += work_of(queued.packet.size);
        self.free_at = self.rate.time_of(self.busy_until).max(start);
        Some((queued, self.free_at))
    }

    /// Sends what it dequeues from now on at another rate.
    pub(super) fn set_rate(&mut self, rate_bps: &Schedule<u64>, now: Time) {
        self.rate = RateIntegral::new(rate_bps);
        self.busy_until = self.rate.work(self.free_at.max(now));
    }

    /// What the queue has dropped and marked so far.
    pub(super) const fn tally(&self) -> Tally {
        self.tally
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }
}
