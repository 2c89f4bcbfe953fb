//! Which packets wait at a bottleneck, which leave it next, and which are dropped or marked.

mod codel;
mod drop_tail;
mod dualpi2;
mod fifo;
mod fq_codel;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use self::codel::CoDel;
pub use self::codel::CoDelConfig;
pub(super) use self::drop_tail::DropTail;
use self::dualpi2::DualPi2;
pub use self::dualpi2::DualPi2Config;
use self::fq_codel::FqCoDel;
pub use self::fq_codel::FqCoDelConfig;
use super::impairments::Fate;
use crate::{Ecn, Packet, ParameterError, Time};

/// What a queue does when it grows.
///
/// With all of them [`buffer_bytes`](super::PipeConfig::buffer_bytes) is the most that may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum QueueDiscipline {
    /// First in, first out; drops what does not fit.
    #[default]
    DropTail,
    /// First in, first out; drops or marks at the head by the delay of the queue (RFC 8289).
    CoDel(CoDelConfig),
    /// A queue with CoDel for each flow (RFC 8290). What does not fit is dropped from the longest
    /// queue.
    FqCoDel(FqCoDelConfig),
    /// A queue for L4S and one for Classic traffic with coupled probabilities (RFC 9332).
    DualPi2(DualPi2Config),
}

impl QueueDiscipline {
    /// As link files call it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DropTail => "drop-tail",
            Self::CoDel(_) => "codel",
            Self::FqCoDel(_) => "fq-codel",
            Self::DualPi2(_) => "dualpi2",
        }
    }

    pub(super) fn check(&self) -> Result<(), ParameterError> {
        match self {
            Self::DropTail => Ok(()),
            Self::CoDel(config) => config.check(),
            Self::FqCoDel(config) => config.check(),
            Self::DualPi2(config) => config.check(),
        }
    }
}

/// A packet in a queue.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) packet: Packet,
    pub(super) fate: Fate,
    pub(super) enqueued: Time,
}

impl Queued {
    /// How long it has waited.
    const fn sojourn(&self, now: Time) -> Duration {
        now.since(self.enqueued)
    }

    const fn is_ecn_capable(&self) -> bool {
        self.packet.ecn.is_capable()
    }

    fn marked(mut self, tally: &mut Tally) -> Self {
        tally.marked += u64::from(self.packet.ecn != Ecn::Ce);
        self.packet.ecn = Ecn::Ce;
        self
    }
}

/// What a queue has done to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) dropped: u64,
    /// Set to CE, which they were not before.
    pub(super) marked: u64,
}

/// A queue that decides at dequeue.
#[derive(Clone, Debug)]
pub(super) enum ActiveQueue {
    CoDel(CoDel),
    FqCoDel(FqCoDel),
    DualPi2(Box<DualPi2>),
}

impl ActiveQueue {
    /// `None` for a queue that does not decide at dequeue.
    pub(super) fn new(discipline: QueueDiscipline, seed: u64) -> Option<Self> {
        match discipline {
            QueueDiscipline::DropTail => None,
            QueueDiscipline::CoDel(config) => Some(Self::CoDel(CoDel::new(config))),
            QueueDiscipline::FqCoDel(config) => Some(Self::FqCoDel(FqCoDel::new(config))),
            QueueDiscipline::DualPi2(config) => {
                Some(Self::DualPi2(Box::new(DualPi2::new(config, seed))))
            }
        }
    }

    /// Takes a packet, if no more than `room` bytes wait then.
    pub(super) fn enqueue(&mut self, queued: Queued, room: u64, tally: &mut Tally) {
        let size = u64::from(queued.packet.size);
        let fits = |bytes: u64| bytes + size <= room;
        match self {
            Self::CoDel(queue) if fits(queue.bytes()) => queue.enqueue(queued),
            Self::DualPi2(queue) if fits(queue.bytes()) => queue.enqueue(queued),
            Self::FqCoDel(queue) => queue.enqueue(queued, room, tally),
            Self::CoDel(_) | Self::DualPi2(_) => tally.dropped += 1,
        }
    }

    /// The next packet to send; those before it may be dropped.
    pub(super) fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Queued> {
        match self {
            Self::CoDel(queue) => queue.dequeue(now, tally),
            Self::FqCoDel(queue) => queue.dequeue(now, tally),
            Self::DualPi2(queue) => queue.dequeue(now, tally),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::CoDel(queue) => queue.len(),
            Self::FqCoDel(queue) => queue.len(),
            Self::DualPi2(queue) => queue.len(),
        }
    }
}

fn above_zero(field: &str, value: Duration) -> Result<(), ParameterError> {
    if value.is_zero() || value > super::MAX_DELAY {
        let allowed = format!("above 0, up to {:?}", super::MAX_DELAY);
        return Err(ParameterError::new(field, format!("{value:?}"), allowed));
    }
    Ok(())
}

fn in_range<T: PartialOrd + Display>(
    field: &str,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> Result<(), ParameterError> {
    if range.contains(&value) {
        return Ok(());
    }
    let allowed = format!("{} to {} {unit}", range.start(), range.end());
    Err(ParameterError::new(field, value, allowed))
}
