//! What a path does to the ECN field: queues that mark, and nodes that spoil the codepoint.

use std::time::{Duration, Instant};

use tack_proto::ecn::EcnCodepoint;

/// TARGET and INTERVAL of CoDel (RFC 8289 sections 4.3 and 4.4).
const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
/// TARGET is no less than the time for so many packets, and INTERVAL longer by as much as TARGET: RFC
/// 8290 section 5.2.3 has it so of slow links, and sqm-scripts with these numbers.
const TARGET_PACKETS: f64 = 1.5;

/// When the queue in front of the bottleneck marks a packet. It marks none that finds less than a
/// packet in front of it, and drops one that is not ECN-capable instead, unless the threshold is a
/// step: a dual queue (RFC 9332) keeps such packets apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aqm {
    /// Never: the queue is a tail-drop FIFO.
    Off,
    /// It has waited longer than this: the queue of an L4S link, or of DCTCP's.
    Step(Duration),
    /// With a probability that grows from 0 to 1 with the time that it has waited, between these two.
    Red(Duration, Duration),
    /// By RFC 8289.
    CoDel,
}

/// What a node behind the bottleneck does to the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mangling {
    Off,
    /// Clears it.
    Bleaches,
    /// Sets CE in each ECN-capable packet.
    SetsCe,
    /// Exchanges ECT(0) and ECT(1).
    Swaps,
    /// Clears CE: the codepoint is that which the packet left with.
    ClearsCe,
    /// Drops ECN-capable packets.
    Drops,
}

impl Mangling {
    /// The field of a packet that left with `sent` and comes with `marked` from the queue; `None` if
    /// the packet is dropped.
    pub fn apply(self, sent: EcnCodepoint, marked: EcnCodepoint) -> Option<EcnCodepoint> {
        use EcnCodepoint::{Ce, Ect0, Ect1, NotEct};
        if marked == NotEct {
            return Some(NotEct);
        }
        match (self, marked) {
            (Self::Bleaches, _) => Some(NotEct),
            (Self::SetsCe, _) => Some(Ce),
            (Self::Swaps, Ect0) => Some(Ect1),
            (Self::Swaps, Ect1) => Some(Ect0),
            (Self::Off | Self::Swaps, _) => Some(marked),
            (Self::ClearsCe, _) => Some(sent),
            (Self::Drops, _) => None,
        }
    }
}

/// The state of CoDel.
#[derive(Debug)]
pub struct CoDel {
    target: Duration,
    interval: Duration,
    /// When the time in the queue will have been above TARGET for an INTERVAL.
    first_above: Option<Instant>,
    /// When the next packet is marked, while some are.
    next: Option<Instant>,
    count: u32,
}

impl CoDel {
    /// In front of a bottleneck that takes so long for a packet.
    pub fn new(packet: Duration) -> Self {
        let target = TARGET.max(packet.mul_f64(TARGET_PACKETS));
        let interval = INTERVAL + target.saturating_sub(TARGET);
        Self { target, interval, first_above: None, next: None, count: 0 }
    }

    /// Whether a packet is marked that leaves the queue now and has waited so long.
    pub fn marks(&mut self, now: Instant, waited: Duration) -> bool {
        if waited < self.target {
            self.first_above = None;
            self.next = None;
            return false;
        }
        if now < *self.first_above.get_or_insert(now + self.interval) {
            return false;
        }
        match self.next {
            None => self.count = self.count.saturating_sub(2).max(1),
            Some(next) if now >= next => self.count += 1,
            Some(_) => return false,
        }
        let since = self.next.unwrap_or(now);
        self.next = Some(since + self.interval.div_f64(f64::from(self.count).sqrt()));
        true
    }
}
