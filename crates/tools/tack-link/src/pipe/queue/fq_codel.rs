//! FlowQueue-CoDel (RFC 8290).

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::codel::{CoDel, CoDelConfig};
use super::{Queued, Tally};
use crate::{ParameterError, Time};

/// Most packets that are dropped at once when the memory is full (RFC 8290 section 4.1).
const DROP_BATCH: usize = 64;

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDelConfig {
    /// What CoDel does in the queue of each flow.
    pub codel: CoDelConfig,
    /// Bytes that a queue may send in its turn (RFC 8290 section 5.2).
    pub quantum: u32,
    /// Number of queues (RFC 8290 section 5.2). A flow has the queue of its number modulo this:
    /// an ideal hash, so flows share one only if there are more of them.
    pub flows: u32,
}

impl Default for FqCoDelConfig {
    /// A quantum of 1514 bytes, an Ethernet frame, and 1024 queues (RFC 8290 section 5.2).
    fn default() -> Self {
        Self { codel: CoDelConfig::default(), quantum: 1514, flows: 1024 }
    }
}

impl FqCoDelConfig {
    pub(super) fn check(&self) -> Result<(), ParameterError> {
        self.codel.check()?;
        super::in_range("quantum", self.quantum, 1..=1 << 20, "bytes")?;
        super::in_range("flows", self.flows, 1..=1 << 16, "queues")
    }
}

/// A queue with CoDel for each flow, served in turn; flows that had nothing waiting come first.
#[derive(Clone, Debug)]
pub(in crate::pipe) struct FqCoDel {
    config: FqCoDelConfig,
    /// By the number of the queue, up to the highest one used.
    flows: Vec<Flow>,
    /// Queues that have just got their first packet, in the order of their turns.
    new: VecDeque<usize>,
    /// All others that have packets, and some that have just sent their last.
    old: VecDeque<usize>,
    bytes: u64,
    len: usize,
}

#[derive(Clone, Debug)]
struct Flow {
    queue: CoDel,
    /// How many bytes it may still send in its turn.
    deficit: i64,
    /// Whether it is in the list of new or of old queues.
    listed: bool,
}

impl FqCoDel {
    pub(super) const fn new(config: FqCoDelConfig) -> Self {
        Self {
            config,
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            len: 0,
        }
    }

    /// Takes a packet; if more than `room` bytes wait then, the longest queue has to give way
    /// (RFC 8290 section 4.1).
    pub(super) fn enqueue(&mut self, queued: Queued, room: u64, tally: &mut Tally) {
        let slot = (queued.packet.flow % self.config.flows) as usize;
        if slot >= self.flows.len() {
            let queue = CoDel::new(self.config.codel);
            self.flows.resize(slot + 1, Flow { queue, deficit: 0, listed: false });
        }
        let flow = &mut self.flows[slot];
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.config.quantum.into();
            self.new.push_back(slot);
        }
        self.change(slot, |queue| queue.enqueue(queued));
        while self.bytes > room {
            self.drop_from_fattest(tally);
        }
    }

    /// The next packet to send (RFC 8290 section 4.2).
    pub(super) fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Queued> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let slot = *list.front()?;
            if self.flows[slot].deficit <= 0 {
                self.flows[slot].deficit += i64::from(self.config.quantum);
                list.pop_front();
                self.old.push_back(slot);
                continue;
            }
            if let Some(queued) = self.change(slot, |queue| queue.dequeue(now, tally)) {
                self.flows[slot].deficit -= i64::from(queued.packet.size);
                return Some(queued);
            }
            let list = if is_new { &mut self.new } else { &mut self.old };
            list.pop_front();
            if is_new {
                // Else a flow could always be new, and the old ones would starve.
                self.old.push_back(slot);
            } else {
                self.flows[slot].listed = false;
            }
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Half of the longest queue, from its head.
    fn drop_from_fattest(&mut self, tally: &mut Tally) {
        let flows = self.flows.iter().enumerate();
        let fattest = flows.min_by_key(|(_, flow)| Reverse(flow.queue.bytes()));
        let Some((slot, flow)) = fattest else { return };
        let batch = (flow.queue.len() / 2).clamp(1, DROP_BATCH);
        self.change(slot, |queue| (0..batch).for_each(|_| queue.drop_head(tally)));
    }

    /// Does something to a queue, and keeps the sums right.
    fn change<T>(&mut self, slot: usize, change: impl FnOnce(&mut CoDel) -> T) -> T {
        let queue = &mut self.flows[slot].queue;
        self.bytes -= queue.bytes();
        self.len -= queue.len();
        let result = change(queue);
        self.bytes += queue.bytes();
        self.len += queue.len();
        result
    }
}
