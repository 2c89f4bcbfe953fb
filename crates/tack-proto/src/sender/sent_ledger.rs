//! The sender's record of 1-RTT packets: what is in flight, what an
//! acknowledgement newly covers, and the rate that its packets were delivered at.
//!
//! It is also what every claim of the receiver is held against. A number that
//! was never sent, or was skipped on purpose, closes the connection
//! (RFC 9000 section 13.1).

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::bandwidth::Bandwidth;

/// kPacketThreshold, RFC 9002 section 6.1.1.
pub(super) const PACKET_THRESHOLD: u64 = 3;

/// Reordering does not raise it further: quiche's limit (0.30).
const MOST_PACKETS: u64 = 20;

/// kTimeThreshold, RFC 9002 section 6.1.2, as a fraction: 9/8.
const TIME_THRESHOLD: (u32, u32) = (9, 8);

/// The same once a loss was spurious: quiche's value.
const REORDERING_TIME_THRESHOLD: (u32, u32) = (5, 4);

/// Packets that stay in the record although nothing waits for them: a late
/// acknowledgement of a lost one shows that the loss was spurious.
const MEMORY: usize = 256;

/// The receiver acknowledged what was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the peer acknowledged packet {0}, which was never sent; it is faulty or lies, \
     and the connection cannot go on"
)]
pub struct OptimisticAck(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Never sent under this number.
    Skipped,
    /// Sent; not ack-eliciting, so not in flight.
    Uncounted,
    InFlight,
    Acked,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    state: State,
    bytes: u32,
    app_limited: bool,
    time: Instant,
    /// `delivered` and its time when this packet left: a delivery-rate sample
    /// spans from then to its acknowledgement.
    delivered: u64,
    delivered_time: Instant,
    first_sent_time: Instant,
}

/// A delivery-rate sample computed from the sender's own record, as in
/// draft-cheng-iccrg-delivery-rate-estimation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered over the longer of the send and the acknowledgement
    /// interval: never above what was really sent in that time.
    pub rate: Bandwidth,
    /// The rate at which those bytes were sent.
    pub send_rate: Option<Bandwidth>,
    /// The time that it spans.
    pub interval: Duration,
    /// Whether the application, not the path, limited it.
    pub app_limited: bool,
    /// `delivered` when the newest packet of the sample was sent: rounds are
    /// counted with it.
    pub prior_delivered: u64,
}

/// What an acknowledgement changed.
#[derive(Clone, Debug, Default)]
pub struct Newly {
    /// Newly acknowledged numbers, ascending ranges.
    pub acked: Vec<RangeInclusive<u64>>,
    /// Bytes of them that were in flight.
    pub acked_bytes: u64,
    /// Bytes that are lost now.
    pub lost_bytes: u64,
    /// Packets that are lost now.
    pub lost_packets: u64,
    /// Packets that no number named, and whose data has arrived according to bubbles.
    pub by_bubbles: u64,
    /// Packets that were taken for lost and have arrived after all.
    pub spurious: u64,
    /// Round trip of the largest newly acknowledged packet, its hold included.
    pub largest_rtt: Option<Duration>,
    /// Time since the smallest newly acknowledged packet left, the wait for its
    /// acknowledgement included.
    pub earliest_rtt: Option<Duration>,
    /// Delivery rate.
    pub sample: Option<RateSample>,
}

/// Sent packets, indexed by number.
#[derive(Debug)]
pub struct SentLedger {
    packets: VecDeque<Sent>,
    /// Number of the front packet.
    base: u64,
    largest_acked: Option<u64>,
    /// No packet with a lower number is in flight.
    settled_below: u64,
    in_flight: u64,
    delivered: u64,
    delivered_time: Instant,
    first_sent_time: Instant,
    /// While `delivered` is at most this, samples are application limited.
    app_limited_until: u64,
    /// Whether every packet of the number space is recorded.
    sees_all: bool,
    packet_threshold: u64,
    time_threshold: (u32, u32),
}

impl SentLedger {
    /// An empty ledger. Where it does not see all packets (around 0-RTT, before
    /// the keys were there), numbers below the first that it sees are let pass.
    pub fn new(now: Instant, sees_all: bool) -> Self {
        Self {
            packets: VecDeque::new(),
            base: 0,
            largest_acked: None,
            settled_below: 0,
            in_flight: 0,
            delivered: 0,
            delivered_time: now,
            first_sent_time: now,
            app_limited_until: 0,
            sees_all,
            packet_threshold: PACKET_THRESHOLD,
            time_threshold: TIME_THRESHOLD,
        }
    }

    /// How far below the largest acknowledged number a packet is lost.
    pub fn packet_threshold(&self) -> u64 {
        self.packet_threshold
    }

    /// Records a packet. Numbers between the last one and `pn` were skipped.
    /// A number that is not above the last is ignored.
    pub fn on_sent(&mut self, now: Instant, pn: u64, bytes: usize, ack_eliciting: bool) {
        if self.packets.is_empty() {
            // The first number seen: those below it left before 1-RTT (0-RTT).
            self.base = self.base.max(pn);
        }
        if pn < self.next_packet_number() {
            return;
        }
        // Here and not with the acknowledgement, so that the fate of every
        // packet can be asked for between the two.
        self.forget_settled();
        if self.in_flight == 0 && ack_eliciting {
            self.first_sent_time = now;
            self.delivered_time = now;
        }
        let mut sent = Sent {
            state: State::Skipped,
            bytes: 0,
            app_limited: self.delivered < self.app_limited_until,
            time: now,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent_time: self.first_sent_time,
        };
        while self.next_packet_number() < pn {
            self.packets.push_back(sent);
        }
        sent.bytes = bytes as u32;
        sent.state = if ack_eliciting { State::InFlight } else { State::Uncounted };
        if ack_eliciting {
            self.in_flight += bytes as u64;
        }
        self.packets.push_back(sent);
    }

    /// One above the largest number sent.
    pub fn next_packet_number(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// The lowest number that something may still wait for.
    pub fn first_packet_number(&self) -> u64 {
        self.base
    }

    /// Bytes sent and neither acknowledged nor lost.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bytes delivered in total.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The largest number that has been acknowledged.
    pub fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// The application has nothing to send: samples of what is in flight now
    /// say nothing of the path.
    pub fn on_app_limited(&mut self) {
        self.app_limited_until = self.delivered + self.in_flight.max(1);
    }

    /// Whether packet `pn` has been acknowledged, or lost. `None` while it is
    /// on its way.
    pub fn was_delivered(&self, pn: u64) -> Option<bool> {
        if pn < self.base {
            // Lost packets stay in the record until after they were asked for.
            return Some(true);
        }
        match self.packets.get((pn - self.base) as usize)?.state {
            State::Acked => Some(true),
            State::Lost | State::Skipped => Some(false),
            State::InFlight | State::Uncounted => None,
        }
    }

    /// Whether every number above the largest acknowledged one and below
    /// `smallest` is one that the receiver has been silent about: then an
    /// acknowledgement that starts at `smallest` would make a QUIC sender take
    /// all of them for lost.
    pub fn leaves_unknown_below(&self, smallest: u64) -> bool {
        let known = self.largest_acked.map_or(self.base, |largest| largest + 1);
        (known..smallest.min(self.next_packet_number()))
            .any(|pn| self.state(pn) == Some(State::InFlight))
    }

    /// Applies acknowledged ranges, newest first, and then the packets of `also`, which
    /// ascend: those whose data has arrived as bubbles tell. `round_trip` is what time-based
    /// loss detection goes by.
    pub fn on_ack(
        &mut self,
        now: Instant,
        ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
        also: &[u64],
        round_trip: Duration,
    ) -> Result<Newly, OptimisticAck> {
        self.check(ranges.clone())?;
        let mut newly = Newly::default();
        let mut newest: Option<Sent> = None;
        let mut oldest_spurious = None;
        let largest = ranges.clone().next().map(|range| *range.end());
        for range in ranges {
            if *range.end() < self.base {
                break;
            }
            let first = (*range.start()).max(self.base);
            let end = (*range.end() + 1).min(self.next_packet_number());
            for pn in (first..end).rev() {
                let sent = &mut self.packets[(pn - self.base) as usize];
                let before = std::mem::replace(&mut sent.state, State::Acked);
                match before {
                    State::Acked => continue,
                    State::Lost => {
                        newly.spurious += 1;
                        oldest_spurious = Some(pn);
                    }
                    State::Skipped | State::Uncounted => {}
                    State::InFlight => {
                        self.in_flight -= u64::from(sent.bytes);
                        self.delivered += u64::from(sent.bytes);
                        newly.acked_bytes += u64::from(sent.bytes);
                        newly.earliest_rtt = Some(now.saturating_duration_since(sent.time));
                        if newest.is_none() {
                            newest = Some(*sent);
                            // RFC 9002 section 5.1: the delay that came with it
                            // is that of the largest.
                            if largest == Some(pn) {
                                let rtt = now.saturating_duration_since(sent.time);
                                newly.largest_rtt = Some(rtt);
                            }
                        }
                    }
                }
                push_descending(&mut newly.acked, pn);
                self.largest_acked = self.largest_acked.max(Some(pn));
            }
        }
        newly.acked.reverse();
        self.settle(also, &mut newly);
        if let Some(sent) = newest {
            self.delivered_time = now;
            self.first_sent_time = sent.time;
            newly.sample = self.sample(now, &sent);
        }
        if let Some(pn) = oldest_spurious {
            self.tolerate(pn);
        }
        self.detect_losses(now, round_trip, &mut newly);
        Ok(newly)
    }

    /// Takes packets out of flight whose data has arrived. They yield no sample and do not
    /// count as delivered: bubbles name no packet numbers, so the trap of skipped ones
    /// (RFC 9000 section 21.4) would not catch a receiver that lies. In this way a lie gains
    /// no more than reporting the packets as lost would.
    fn settle(&mut self, also: &[u64], newly: &mut Newly) {
        for &pn in also {
            let Some(at) = pn.checked_sub(self.base) else { continue };
            let Some(sent) = self.packets.get_mut(at as usize) else { continue };
            if sent.state != State::InFlight {
                continue;
            }
            sent.state = State::Acked;
            self.in_flight -= u64::from(sent.bytes);
            newly.by_bubbles += 1;
            newly.acked.push(pn..=pn);
        }
        if newly.by_bubbles > 0 {
            newly.acked.sort_unstable_by_key(|range| *range.start());
            newly.acked.dedup_by(|next, range| {
                let joins = *range.end() + 1 == *next.start();
                if joins {
                    *range = *range.start()..=*next.end();
                }
                joins
            });
        }
    }

    fn sample(&self, now: Instant, sent: &Sent) -> Option<RateSample> {
        let bytes = self.delivered - sent.delivered;
        let send = sent.time.saturating_duration_since(sent.first_sent_time);
        let ack = now.saturating_duration_since(sent.delivered_time);
        Some(RateSample {
            rate: Bandwidth::from_delta(bytes, send.max(ack))?,
            send_rate: Bandwidth::from_delta(bytes, send),
            interval: send.max(ack),
            app_limited: sent.app_limited,
            prior_delivered: sent.delivered,
        })
    }

    /// Refuses acknowledgements of what was not sent (RFC 9000 section 13.1).
    pub fn check(
        &self,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
    ) -> Result<(), OptimisticAck> {
        if !self.sees_all && self.packets.is_empty() {
            return Ok(());
        }
        for range in ranges {
            if *range.end() >= self.next_packet_number() {
                return Err(OptimisticAck(*range.end()));
            }
            let first = (*range.start()).max(self.base);
            let skipped =
                (first..=*range.end()).find(|&pn| self.state(pn) == Some(State::Skipped));
            if let Some(pn) = skipped {
                return Err(OptimisticAck(pn));
            }
        }
        Ok(())
    }

    /// Packet `pn` had arrived and was taken for lost: it takes more to be lost
    /// from now on, as it does for quiche.
    fn tolerate(&mut self, pn: u64) {
        let distance = self.largest_acked.map_or(0, |largest| largest.saturating_sub(pn) + 1);
        self.packet_threshold = self.packet_threshold.max(distance.min(MOST_PACKETS));
        self.time_threshold = REORDERING_TIME_THRESHOLD;
    }

    /// RFC 9002 section 6.1, as quiche applies it to the same acknowledgement.
    fn detect_losses(&mut self, now: Instant, round_trip: Duration, newly: &mut Newly) {
        let Some(largest) = self.largest_acked else { return };
        let patience = round_trip * self.time_threshold.0 / self.time_threshold.1;
        let end = largest.min(self.next_packet_number());
        // What is settled stays so: most of the record is not looked at again.
        self.settled_below = self.settled_below.max(self.base);
        while self.settled_below < end
            && self.state(self.settled_below) != Some(State::InFlight)
        {
            self.settled_below += 1;
        }
        for pn in self.settled_below..end {
            let sent = &mut self.packets[(pn - self.base) as usize];
            let old = now.saturating_duration_since(sent.time) >= patience;
            if sent.state != State::InFlight || !(largest >= pn + self.packet_threshold || old)
            {
                continue;
            }
            sent.state = State::Lost;
            self.in_flight -= u64::from(sent.bytes);
            newly.lost_bytes += u64::from(sent.bytes);
            newly.lost_packets += 1;
        }
    }

    fn forget_settled(&mut self) {
        let largest = self.largest_acked.unwrap_or(0);
        while let Some(front) = self.packets.front() {
            let settled = match front.state {
                State::Acked | State::Skipped => self.base < largest,
                State::Uncounted => self.base < largest || self.packets.len() > MEMORY,
                State::Lost => self.base + (MEMORY as u64) < largest,
                State::InFlight => false,
            };
            if !settled {
                break;
            }
            self.packets.pop_front();
            self.base += 1;
        }
    }

    fn state(&self, pn: u64) -> Option<State> {
        let offset = pn.checked_sub(self.base)?;
        self.packets.get(offset as usize).map(|sent| sent.state)
    }
}

/// Extends descending ranges by the next lower number.
fn push_descending(ranges: &mut Vec<RangeInclusive<u64>>, pn: u64) {
    if let Some(last) = ranges.last_mut()
        && *last.start() == pn + 1
    {
        *last = pn..=*last.end();
        return;
    }
    ranges.push(pn..=pn);
}

#[cfg(test)]
mod tests;
