//! Packets in the order in which they came.

use std::collections::VecDeque;
use std::time::Duration;

use super::Queued;
use crate::Time;

/// A queue without a limit, which knows its size.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifo {
    packets: VecDeque<Queued>,
    bytes: u64,
}

impl Fifo {
    pub(super) fn push(&mut self, queued: Queued) {
        self.bytes += u64::from(queued.packet.size);
        self.packets.push_back(queued);
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let queued = self.packets.pop_front()?;
        self.bytes -= u64::from(queued.packet.size);
        Some(queued)
    }

    /// Time since the first packet was queued; zero if the queue is empty.
    pub(super) fn delay(&self, now: Time) -> Duration {
        self.packets.front().map_or(Duration::ZERO, |first| first.sojourn(now))
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}
