//! One direction of a wide-area link.

mod bottleneck;
mod config;
mod impairments;
mod jitter;
mod queue;
mod rate;
mod schedule;
mod transmitter;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use self::bottleneck::Bottleneck;
use self::config::check_delay;
pub(crate) use self::config::check_rate;
pub use self::config::{GilbertElliott, MAX_DELAY, MAX_RATE_BPS, PipeConfig, Reorder};
use self::impairments::{Fate, Impairments};
pub(crate) use self::jitter::check_jitter;
pub use self::queue::{CoDelConfig, DualPi2Config, FqCoDelConfig, QueueDiscipline};
use self::queue::{Queued, Tally};
use self::rate::RateIntegral;
pub use self::schedule::Schedule;
use crate::random::child_seed;
use crate::{Ecn, Losses, Packet, ParameterError, Time};

/// Label of the random streams of the queue; those of [`Impairments`] come before.
const QUEUE: u64 = 7;

/// One direction of a wide-area link: chance, a queue, a rate, and a propagation delay, in this
/// order.
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
/// - A delay that falls does not let packets overtake each other, nor does
///   [`jitter`](PipeConfig::jitter); only [`reorder`](PipeConfig::reorder) does.
/// - A drop-tail queue needs nothing done when a packet leaves it. All other
///   [queues](QueueDiscipline) decide then, and those moments are events of the pipe.
#[derive(Clone, Debug)]
pub struct Pipe {
    impairments: Impairments,
    bottleneck: Option<Bottleneck>,
    delay: Schedule<Duration>,
    bleach_ecn: bool,
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
        let queue_seed = child_seed(seed, QUEUE);
        let bottleneck = |rate| Bottleneck::new(config, rate, queue_seed);
        Ok(Self {
            impairments: Impairments::new(config, seed),
            bottleneck: config.rate_bps.as_ref().map(bottleneck),
            delay: config.delay.clone(),
            bleach_ecn: config.bleach_ecn,
            under_way: BinaryHeap::new(),
            next_number: 0,
            latest_in_order: Time::ZERO,
            losses: Losses::default(),
            duplicates: 0,
            corrupted: 0,
        })
    }

    /// Changes the rate, for whoever learns too late when to put that into the [`PipeConfig`]. Times of
    /// the schedule count from the start of the link. What a drop-tail queue has taken still leaves
    /// at the rate from before; other queues keep to that for the packet that is being sent.
    ///
    /// Fails if the pipe has no rate, or if this one makes no sense.
    pub fn set_rate(
        &mut self,
        rate_bps: &Schedule<u64>,
        now: Time,
    ) -> Result<(), ParameterError> {
        check_rate("rate_bps", rate_bps)?;
        self.transmit(now);
        let Some(bottleneck) = &mut self.bottleneck else {
            return Err(ParameterError::new("rate_bps", "set", "none, as the pipe has none"));
        };
        bottleneck.set_rate(rate_bps, now);
        Ok(())
    }

    /// Changes the propagation delay of what has not left the bottleneck yet, or with a drop-tail queue of
    /// what is sent from now on. Times of the schedule count from the start of the link.
    ///
    /// Fails if it is longer than [`MAX_DELAY`].
    pub fn set_delay(
        &mut self,
        delay: Schedule<Duration>,
        now: Time,
    ) -> Result<(), ParameterError> {
        delay.values().try_for_each(|delay| check_delay("delay", delay))?;
        self.transmit(now);
        self.delay = delay;
        Ok(())
    }

    /// Puts a packet into the pipe.
    pub fn send(&mut self, packet: Packet, now: Time) {
        self.transmit(now);
        let fate = self.impairments.next();
        if fate.lost {
            self.losses.random += 1;
            return;
        }
        match &mut self.bottleneck {
            None => self.on_sent(packet, &fate, now),
            Some(Bottleneck::Foreseen(queue)) => match queue.take(packet.size, now) {
                Some(sent) => self.on_sent(packet, &fate, sent),
                None => self.losses.queue += 1,
            },
            Some(Bottleneck::Active(transmitter)) => {
                transmitter.take(Queued { packet, fate, enqueued: now });
                self.transmit(now);
            }
        }
    }

    /// When [`arrival`](Self::arrival) has to be called next: a packet arrives then, or leaves
    /// the queue.
    pub fn next_event(&self) -> Option<Time> {
        let arrival = self.under_way.peek().map(|Reverse(next)| next.at);
        let Some(Bottleneck::Active(transmitter)) = &self.bottleneck else { return arrival };
        arrival.into_iter().chain(transmitter.next_event()).min()
    }

    /// The next packet that arrives at `now` or before, and when it did.
    pub fn arrival(&mut self, now: Time) -> Option<(Time, Packet)> {
        self.transmit(now);
        if self.under_way.peek()?.0.at > now {
            return None;
        }
        self.under_way.pop().map(|Reverse(UnderWay { at, packet, .. })| (at, packet))
    }

    /// What was lost so far.
    pub fn losses(&self) -> Losses {
        Losses { queue: self.losses.queue + self.queue_tally().dropped, ..self.losses }
    }

    /// How many packets the queue has set to [`Ecn::Ce`] so far.
    pub fn marked(&self) -> u64 {
        self.queue_tally().marked
    }

    /// How many packets were doubled so far.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// How many packets had a bit flipped so far.
    pub const fn corrupted(&self) -> u64 {
        self.corrupted
    }

    fn queue_tally(&self) -> Tally {
        match &self.bottleneck {
            Some(Bottleneck::Active(transmitter)) => transmitter.tally(),
            None | Some(Bottleneck::Foreseen(_)) => Tally::default(),
        }
    }

    /// Lets the queue do what is due.
    fn transmit(&mut self, now: Time) {
        while let Some(Bottleneck::Active(transmitter)) = &mut self.bottleneck
            && let Some((Queued { packet, fate, .. }, sent)) = transmitter.transmit(now)
        {
            self.on_sent(packet, &fate, sent);
        }
    }

    /// Puts a packet under way whose last bit leaves the bottleneck at `sent`.
    fn on_sent(&mut self, mut packet: Packet, fate: &Fate, sent: Time) {
        if let Some(place) = fate.flipped_at {
            if packet.bytes.is_empty() {
                self.losses.random += 1;
                return;
            }
            flip_bit(&mut packet.bytes, place);
            self.corrupted += 1;
        }
        if self.bleach_ecn {
            packet.ecn = Ecn::NotEct;
        }
        let at = self.arrival_time(sent, fate);
        if fate.duplicated {
            self.duplicates += 1;
            self.enqueue(at, packet.clone());
        }
        self.enqueue(at, packet);
    }

    fn arrival_time(&mut self, sent: Time, fate: &Fate) -> Time {
        let delay = self.delay.at(sent) + self.impairments.jitter(fate, sent);
        let at = (sent + delay).max(self.latest_in_order);
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
