//! CoDel, controlled delay (RFC 8289).

use std::time::Duration;

use super::fifo::Fifo;
use super::{Queued, Tally};
use crate::{ParameterError, Time};

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelConfig {
    /// Delay that a queue may have for longer than an interval (RFC 8289 section 4.4).
    pub target: Duration,
    /// About the longest round-trip time of the traffic (RFC 8289 section 4.3).
    pub interval: Duration,
}

impl Default for CoDelConfig {
    /// 5 ms and 100 ms, for round-trip times from 10 ms to 1 s (RFC 8289 section 4.3).
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}

impl CoDelConfig {
    pub(super) fn check(&self) -> Result<(), ParameterError> {
        super::above_zero("target", self.target)?;
        super::above_zero("interval", self.interval)
    }
}

/// A queue that drops or marks at its head, more and more often while the delay stays above the
/// target (RFC 8289 section 5).
///
/// A packet whose sender uses ECN is marked instead of dropped, and leaves (RFC 8290 section 5.2).
#[derive(Clone, Debug)]
pub(in crate::pipe) struct CoDel {
    config: CoDelConfig,
    packets: Fifo,
    /// Size of the largest packet so far: that much may always wait, as in RFC 8289 section 5.6.
    largest: u32,
    /// When the delay has been above the target for an interval; `None` while it is below.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Packets dropped since `dropping` began.
    count: u32,
    /// What `count` was when `dropping` began last.
    last_count: u32,
}

impl CoDel {
    pub(super) fn new(config: CoDelConfig) -> Self {
        Self {
            config,
            packets: Fifo::default(),
            largest: 0,
            first_above: None,
            dropping: false,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    pub(super) fn enqueue(&mut self, queued: Queued) {
        self.largest = self.largest.max(queued.packet.size);
        self.packets.push(queued);
    }

    /// The next packet to send (RFC 8289 section 5.5).
    pub(super) fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Queued> {
        let Some((queued, ok_to_drop)) = self.pop(now) else {
            self.dropping = false;
            return None;
        };
        if !ok_to_drop {
            self.dropping = false;
            return Some(queued);
        }
        if self.dropping {
            return self.go_on_dropping(queued, now, tally);
        }
        self.begin_dropping(now);
        if queued.is_ecn_capable() {
            return Some(queued.marked(tally));
        }
        tally.dropped += 1;
        self.pop(now).map(|(next, _)| next)
    }

    /// Takes out the first packet, whatever CoDel would do to it.
    pub(super) fn drop_head(&mut self, tally: &mut Tally) {
        tally.dropped += u64::from(self.packets.pop().is_some());
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.packets.bytes()
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// The first packet, and whether the delay has been above the target for an interval
    /// (RFC 8289 section 5.6).
    fn pop(&mut self, now: Time) -> Option<(Queued, bool)> {
        let Some(queued) = self.packets.pop() else {
            self.first_above = None;
            return None;
        };
        let below = queued.sojourn(now) < self.config.target;
        if below || self.packets.bytes() <= u64::from(self.largest) {
            self.first_above = None;
            return Some((queued, false));
        }
        let since = *self.first_above.get_or_insert(now + self.config.interval);
        Some((queued, now >= since))
    }

    fn begin_dropping(&mut self, now: Time) {
        // If the last dropping state ended only recently, its rate is about right: begin near it.
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next) < 16 * self.config.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
        self.dropping = true;
    }

    fn go_on_dropping(
        &mut self,
        mut queued: Queued,
        now: Time,
        tally: &mut Tally,
    ) -> Option<Queued> {
        while now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            if queued.is_ecn_capable() {
                self.drop_next = self.control_law(self.drop_next);
                return Some(queued.marked(tally));
            }
            tally.dropped += 1;
            let next = self.pop(now);
            self.dropping = next.as_ref().is_some_and(|(_, ok_to_drop)| *ok_to_drop);
            queued = next?.0;
            if !self.dropping {
                break;
            }
            self.drop_next = self.control_law(self.drop_next);
        }
        Some(queued)
    }

    /// The time between drops shrinks with the square root of their number, so that the rate of
    /// TCP falls linearly (RFC 8289 section 3.3).
    fn control_law(&self, from: Time) -> Time {
        let interval = self.config.interval.as_nanos() as f64;
        from + Duration::from_nanos((interval / f64::from(self.count).sqrt()) as u64)
    }
}
