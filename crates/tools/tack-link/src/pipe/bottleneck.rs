//! The rate of a pipe, and the queue in front of it.

use super::queue::{ActiveQueue, DropTail};
use super::transmitter::Transmitter;
use super::{PipeConfig, Schedule};
use crate::Time;

/// A queue and a transmitter, by what has to happen when a packet leaves the queue.
#[derive(Clone, Debug)]
pub(super) enum Bottleneck {
    /// Nothing: when a packet leaves is known as soon as it is taken.
    Foreseen(DropTail),
    /// The queue decides then.
    Active(Transmitter),
}

impl Bottleneck {
    pub(super) fn new(config: &PipeConfig, rate_bps: &Schedule<u64>, seed: u64) -> Self {
        match ActiveQueue::new(config.queue, seed) {
            None => Self::Foreseen(DropTail::new(rate_bps, config.buffer_bytes)),
            Some(queue) => Self::Active(Transmitter::new(rate_bps, config.buffer_bytes, queue)),
        }
    }

    pub(super) fn set_rate(&mut self, rate_bps: &Schedule<u64>, now: Time) {
        match self {
            Self::Foreseen(queue) => queue.set_rate(rate_bps, now),
            Self::Active(transmitter) => transmitter.set_rate(rate_bps, now),
        }
    }
}
