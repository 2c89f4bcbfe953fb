//! A queue that drops what does not fit, with its transmitter.

use std::collections::VecDeque;

use crate::Time;
use crate::pipe::Schedule;
use crate::pipe::rate::{RateIntegral, Work, work_of};

/// A transmitter with a drop-tail queue.
///
/// Packets leave in the order in which they came, so when one leaves is known as soon as it is
/// taken: nothing has to happen at that moment.
#[derive(Clone, Debug)]
pub(in crate::pipe) struct DropTail {
    rate: RateIntegral,
    buffer_bytes: u64,
    /// When everything taken so far has been sent, as the work done until then.
    busy_until: Work,
    /// Packets that are not being sent yet: when that begins, and their size.
    waiting: VecDeque<(Time, u32)>,
    waiting_bytes: u64,
}

impl DropTail {
    pub(in crate::pipe) fn new(rate_bps: &Schedule<u64>, buffer_bytes: u64) -> Self {
        Self {
            rate: RateIntegral::new(rate_bps),
            buffer_bytes,
            busy_until: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Takes a packet; returns when its last bit has been sent, or `None` if the queue is full.
    pub(in crate::pipe) fn take(&mut self, size: u32, now: Time) -> Option<Time> {
        self.forget_started(now);
        let idle_from = self.rate.work(now);
        if self.busy_until > idle_from {
            if self.waiting_bytes + u64::from(size) > self.buffer_bytes {
                return None;
            }
            self.waiting.push_back((self.rate.time_of(self.busy_until), size));
            self.waiting_bytes += u64::from(size);
        }
        self.busy_until = self.busy_until.max(idle_from) + work_of(size);
        Some(self.rate.time_of(self.busy_until).max(now))
    }

    /// Sends what it takes from now on at another rate.
    pub(in crate::pipe) fn set_rate(&mut self, rate_bps: &Schedule<u64>, now: Time) {
        let free_at = self.rate.time_of(self.busy_until).max(now);
        self.rate = RateIntegral::new(rate_bps);
        self.busy_until = self.rate.work(free_at);
    }

    fn forget_started(&mut self, now: Time) {
        while let Some(&(start, size)) = self.waiting.front()
            && start <= now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(size);
        }
    }
}
