//! One direction of a wide-area link.

mod bottleneck;
mod config;
mod impairments;
mod rate;
mod schedule;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use self::bottleneck::Bottleneck;
pub(crate) use self::config::check_rate;
pub use self::config::{GilbertElliott, MAX_DELAY, MAX_RATE_BPS, PipeConfig, Reorder};
use self::impairments::{Fate, Impairments};
use self::rate::RateIntegral;
pub use self::schedule::Schedule;
use crate::{Losses, Packet, ParameterError, Time};

/// One direction of a wide-area link: chance, a drop-tail queue, a rate, and a propagation delay,
/// in this order.
///
/// - What is lost at random is lost before the queue, as with Linux netem: it takes no room in it
///   and no time on the link.
/// - The rate is exact: only the moment of arrival is rounded up to a nanosecond, and the errors
///   do not add up. A change of rate counts from its moment on, also for the packet whose bits
///   are just being sent.
/// - A corrupted packet without [`bytes`](Packet::bytes) to corrupt uses the link as others do,
///   but counts as lost at random: its receiver would have to throw it away.
/// - A duplicate arrives right behind the packet that it is a copy of, and uses neither queue nor
///   rate.
/// - A delay that falls does not let packets overtake each other; only
///   [`reorder`](PipeConfig::reorder) does.
#[derive(Clone, Debug)]
pub struct Pipe {
    impairments: Impairments,
    bottleneck: Option<Bottleneck>,
    delay: Schedule<Duration>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    /// Number of the next packet or copy under way.
    next_number: u64,
    /// Latest arrival of a packet that was not held up to be overtaken.
    latest_in_order: Time,
    losses: Losses,
    duplicates: u64,
    corrupted: u64,
}

impl Pipe {
    /// An empty pipe; `seed` decides everything that is left to chance.
    ///
    /// Fails if the configuration makes no sense: a rate above 1 Tbit/s or for ever zero, a
    /// delay above a minute, or a probability not from 0 to 1.
    pub fn new(config: &PipeConfig, seed: u64) -> Result<Self, ParameterError> {
        config.check()?;
        let bottleneck = |rate| Bottleneck::new(rate, config.buffer_bytes);
        Ok(Self {
            impairments: Impairments::new(config, seed),
            bottleneck: config.rate_bps.as_ref().map(bottleneck),
            delay: config.delay.clone(),
            under_way: BinaryHeap::new(),
            next_number: 0,
            latest_in_order: Time::ZERO,
            losses: Losses::default(),
            duplicates: 0,
            corrupted: 0,
        })
    }

    /// Puts a packet into the pipe.
    pub fn send(&mut self, mut packet: Packet, now: Time) {
        let fate = self.impairments.next();
        if fate.lost {
            self.losses.random += 1;
            return;
        }
        let sent = match &mut self.bottleneck {
            Some(bottleneck) => bottleneck.take(packet.size, now),
            None => Some(now),
        };
        let Some(sent) = sent else {
            self.losses.queue += 1;
            return;
        };
        if let Some(place) = fate.flipped_at {
            if packet.bytes.is_empty() {
                self.losses.random += 1;
                return;
            }
            flip_bit(&mut packet.bytes, place);
            self.corrupted += 1;
        }
        let at = self.arrival_time(sent, &fate);
        if fate.duplicated {
            self.duplicates += 1;
            self.enqueue(at, packet.clone());
        }
        self.enqueue(at, packet);
    }

    /// When the next packet arrives.
    pub fn next_event(&self) -> Option<Time> {
        self.under_way.peek().map(|Reverse(next)| next.at)
    }

    /// The next packet that arrives at `now` or before, and when it did.
    pub fn arrival(&mut self, now: Time) -> Option<(Time, Packet)> {
        if self.next_event()? > now {
            return None;
        }
        self.under_way.pop().map(|Reverse(UnderWay { at, packet, .. })| (at, packet))
    }

    /// What was lost so far.
    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// How many packets were doubled so far.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// How many packets had a bit flipped so far.
    pub const fn corrupted(&self) -> u64 {
        self.corrupted
    }

    fn arrival_time(&mut self, sent: Time, fate: &Fate) -> Time {
        let at = (sent + self.delay.at(sent)).max(self.latest_in_order);
        if let Some(extra) = fate.extra_delay {
            return at + extra;
        }
        self.latest_in_order = at;
        at
    }

    fn enqueue(&mut self, at: Time, packet: Packet) {
        self.under_way.push(Reverse(UnderWay { at, number: self.next_number, packet }));
        self.next_number += 1;
    }
}

/// The average of a rate over the first `span` of a link's life, in bits per second.
pub(crate) fn mean_rate_bps(rate_bps: &Schedule<u64>, span: Duration) -> f64 {
    RateIntegral::new(rate_bps).mean_bps(span)
}

fn flip_bit(bytes: &mut [u8], place: f64) {
    let bits = bytes.len() * 8;
    let bit = ((place * bits as f64) as usize).min(bits - 1);
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// A packet with its time of arrival; those of the same time arrive in the order of `number`.
#[derive(Clone, Debug)]
struct UnderWay {
    at: Time,
    number: u64,
    packet: Packet,
}

impl Ord for UnderWay {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for UnderWay {}

#[cfg(test)]
mod tests;
