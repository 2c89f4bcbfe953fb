//! The data receiver: what has arrived, and what to report when.

mod ack_budget;
mod ack_policy;
#[cfg(test)]
mod bubble_tests;
mod delivered_reports;
mod delivery_rate;
mod ecn_counts;
mod loss_event;
mod one_way_delay;
mod rbb;
mod received_packets;
mod reordering;
mod schedule;
mod stamped_arrivals;
#[cfg(test)]
mod tests;
mod tolerance;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

pub use ack_policy::Rule;
pub use received_packets::{Arrival, ReceivedPackets};
pub use schedule::Schedule;
pub use tolerance::Tolerance;

use ack_budget::AckBudget;
use ack_policy::AckPolicy;
use delivered_reports::DeliveredReports;
use delivery_rate::DeliveryRate;
use ecn_counts::ReceivedMarks;
use loss_event::LossEvents;
use one_way_delay::OneWayDelay;
use rbb::{Packet, ReceiveBuffer};
use reordering::Reordering;
use stamped_arrivals::StampedArrivals;

use crate::bandwidth::Bandwidth;
use crate::ecn::EcnCodepoint;
use crate::frame::{
    AckFrequency, EcnCounts, IackEvent, IackFields, Rate, Stream, TackFields, encode_ack,
    encode_iack, encode_tack,
};
use crate::repetition::{LEAST_RANGES, REPETITIONS, is_long};

/// Ranges in an IACK. It must reach down to what the last TACKs reported; 64
/// losses between two TACKs are beyond what a usable path shows.
const IACK_RANGES: usize = 64;

/// An ACK frame without gaps, as the QUIC stack writes it.
const SHORT_ACK_LEN: usize = 10;

/// One TACK and one IACK in so many carry a block that means nothing (TACK-3.1-5).
const GREASED_ONE_IN: u64 = 64;

/// A packet's arrival, as the receiver needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Packet number.
    pub packet_number: u64,
    /// Size on the wire, bytes.
    pub bytes: usize,
    /// Whether it elicits acknowledgements (RFC 9000 section 13.2).
    pub ack_eliciting: bool,
    /// TIMESTAMP it carried.
    pub departure: Option<u64>,
    /// Whether the sender had nothing more to send: the end of a stream.
    pub ends_stream: bool,
    /// The ECN field that it came with, or [`EcnCodepoint::NotEct`] where it was not read.
    pub ecn: EcnCodepoint,
}

/// An acknowledgement that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The periodic TACK.
    Tack,
    /// An instant ACK for this event.
    Iack(IackEvent),
}

/// Counters of the receiving side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiverStats {
    /// TACKs written.
    pub tacks: u64,
    /// IACKs written.
    pub iacks: u64,
    /// Bubbles written, repetitions included.
    pub bubbles: u64,
    /// Acknowledgements that a delayed-ACK receiver (every second packet)
    /// would have sent for the same packets.
    pub delayed_acks: u64,
    /// Ack-eliciting packets received.
    pub packets: u64,
    /// Packets received with each ECN codepoint, ack-eliciting or not.
    pub ecn: EcnCounts,
}

/// Settings of a receiver.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReceiverConfig {
    /// No acknowledgement is held longer: our `max_ack_delay`.
    pub max_ack_delay: Duration,
    /// log2 of the microseconds in one unit of the peer's timestamps.
    pub timestamp_exponent: u32,
    /// What decides when to acknowledge.
    pub schedule: Schedule,
    /// Q of equation (5): bubbles that a TACK reports at most, and the gaps in packet numbers
    /// that an IACK does; `None`: as many as a rich TACK needs. One, the least, makes the
    /// paper's "poor" TACK, for comparison: it acknowledges what arrived before the oldest
    /// bubble and the packet right behind that.
    pub reported_gaps: Option<usize>,
    /// Whether the peer wants to be told when packets with a TIMESTAMP arrived (TACK-4.4-4).
    pub reports_arrivals: bool,
}

impl ReceiverConfig {
    /// TACK's schedule, and timestamps in RFC 9000's default unit.
    pub const fn new(max_ack_delay: Duration) -> Self {
        Self {
            max_ack_delay,
            timestamp_exponent: 3,
            schedule: Schedule::Tack,
            reported_gaps: None,
            reports_arrivals: false,
        }
    }
}

/// Receiver state of one packet number space.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    received: ReceivedPackets,
    policy: AckPolicy,
    budget: AckBudget,
    losses: LossEvents,
    buffer: ReceiveBuffer,
    /// The sender's part of equation (5): packets of a round trip that it hears nothing of
    /// because TACKs get lost.
    unreported: u64,
    one_way_delay: OneWayDelay,
    delivery_rate: DeliveryRate,
    stamped: Option<StampedArrivals>,
    marks: ReceivedMarks,
    interval: Option<Duration>,
    ack_frequency_sequence: Option<u64>,
    reordering: Reordering,
    reply_wanted: bool,
    largest_arrival: Option<Instant>,
    sequence: u64,
    /// Largest numbers at the last TACKs: ranges below the oldest of them have
    /// been reported in all of these.
    reported: [u64; REPETITIONS],
    delivered_reports: DeliveredReports,
    /// A packet has come that the next TACK would name only if it is a long one.
    has_late: bool,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver that has received nothing.
    pub fn new(now: Instant, config: ReceiverConfig) -> Self {
        let mut policy = AckPolicy::new(config.max_ack_delay);
        policy.set_rule(config.schedule.rule(Rule::EveryPacket, config.max_ack_delay));
        Self {
            config,
            received: ReceivedPackets::default(),
            policy,
            budget: AckBudget::default(),
            losses: LossEvents::default(),
            buffer: ReceiveBuffer::default(),
            unreported: 0,
            one_way_delay: OneWayDelay::new(now, config.timestamp_exponent),
            delivery_rate: DeliveryRate::default(),
            stamped: config.reports_arrivals.then(StampedArrivals::default),
            marks: ReceivedMarks::default(),
            interval: None,
            ack_frequency_sequence: None,
            reordering: Reordering::default(),
            reply_wanted: false,
            largest_arrival: None,
            sequence: 0,
            reported: [0; REPETITIONS],
            delivered_reports: DeliveredReports::default(),
            has_late: false,
            stats: ReceiverStats::default(),
        }
    }

    /// A packet has been received, authenticated and accepted. If it has a TIMESTAMP: how much longer
    /// it took than the fastest of late (TACK-5.3-6).
    pub fn on_packet(&mut self, now: Instant, packet: Received) -> Option<Duration> {
        let pn = packet.packet_number;
        // TACK-3.1-3: what comes twice counts once.
        let arrival = self.received.insert(pn);
        match arrival {
            Arrival::Duplicate => return None,
            Arrival::InOrder => self.losses.on_in_order(pn),
            Arrival::Ahead { missing } => self.losses.on_ahead(now, pn, missing),
            Arrival::Late => {
                self.has_late |= pn <= self.reported[0] || self.delivered_reports.covers(pn);
                self.delivered_reports.on_late(pn);
                self.losses.on_late(now, pn);
            }
        }
        if arrival != Arrival::Late {
            self.largest_arrival = Some(now);
        }
        let congestion_begins = self.marks.on_packet(packet.ecn);
        let above_lowest = packet.departure.map(|departure| {
            self.one_way_delay.on_timestamp(now, departure, packet.ack_eliciting)
        });
        if packet.ack_eliciting {
            self.stats.packets += 1;
            self.stats.delayed_acks = self.stats.packets / 2;
            self.delivery_rate.on_packet(now, packet.bytes);
            if packet.departure.is_some()
                && arrival != Arrival::Late
                && let Some(stamped) = &mut self.stamped
            {
                let received = self.delivery_rate.received_bytes();
                stamped.on_packet(now, pn, received, self.policy.is_load_light());
            }
            self.policy.on_ack_eliciting(now);
            if packet.ends_stream {
                self.policy.on_stream_end();
            }
            if congestion_begins {
                self.policy.request_early(now);
            }
            if above_lowest > Some(self.config.max_ack_delay) {
                self.policy.on_queue(now);
            }
            // TACK-4.3-3: between TACK peers loss events take the place of reordering.
            if !matches!(self.policy.rule(), Rule::Tack { .. }) {
                // RFC 9000 section 13.2.1. Where each packet is acknowledged that is at once anyway, but beside data.
                let is_reordered = self.reordering.on_ack_eliciting(pn, &self.received);
                let may_wait = matches!(self.policy.rule(), Rule::Delayed { .. })
                    || self.budget.next().is_some();
                if is_reordered && may_wait {
                    self.policy.request_immediate();
                }
            }
        } else {
            self.delivery_rate.on_other_packet();
        }
        above_lowest
    }

    /// Whether [`Self::on_stream`] is worth looking into packets for: the sender asks for bubbles,
    /// or poor TACKs go by them.
    pub fn wants_streams(&self) -> bool {
        self.unreported > 0 || self.config.reported_gaps.is_some()
    }

    /// Whether [`Self::on_stream`] was called for this stream before. It should first be called for
    /// what came of the stream until then.
    pub fn knows_stream(&self, stream_id: u64) -> bool {
        self.buffer.knows(stream_id)
    }

    /// A packet that [`Self::on_packet`] was called for has brought stream data. To be called
    /// for all of it while [`Self::wants_streams`].
    pub fn on_stream(&mut self, now: Instant, packet_number: u64, frame: &Stream) {
        self.buffer.on_stream(Packet { number: packet_number, arrival: now }, frame);
    }

    /// RESET_STREAM has been received.
    pub fn on_reset_stream(&mut self, stream_id: u64) {
        self.buffer.on_reset(stream_id);
    }

    /// Numbers that arrived where this receiver could not see them (0-RTT).
    pub fn on_received_elsewhere(&mut self, range: RangeInclusive<u64>) {
        if !self.received.contains_range(&range) {
            self.delivered_reports.on_late(*range.start());
        }
        self.received.insert_range(range);
    }

    /// ACK_FREQUENCY of a TACK peer: threshold is L - 1, the delay is alpha, and the
    /// reordering threshold is the sender's part of equation (5).
    pub fn on_frequency_update(&mut self, update: &AckFrequency) {
        if !self.is_new_sequence(update.sequence) {
            return;
        }
        let interval = Duration::from_micros(update.requested_max_ack_delay_us);
        let packets = update.ack_eliciting_threshold.saturating_add(1);
        // TACK-4.2-5: a delay of zero leaves alpha as it was.
        let mut asked = Rule::EveryPacket;
        if !interval.is_zero() {
            self.interval = Some(interval);
            self.losses.set_settling_time(interval);
            asked = Rule::Tack { packets, interval };
        }
        self.policy.set_rule(self.config.schedule.rule(asked, self.config.max_ack_delay));
        self.unreported = update.reordering_threshold;
        if !self.wants_streams() {
            // Nothing reports what comes now: the record would be out of date.
            self.buffer = ReceiveBuffer::default();
        }
    }

    /// ACK_FREQUENCY of a peer that knows nothing of TACK: the draft's rule.
    pub fn on_ack_frequency(&mut self, update: &AckFrequency) {
        if !self.is_new_sequence(update.sequence) {
            return;
        }
        self.reordering.set_threshold(update.reordering_threshold);
        self.policy.set_rule(Rule::Delayed {
            threshold: update.ack_eliciting_threshold,
            max_delay: Duration::from_micros(update.requested_max_ack_delay_us),
        });
        self.policy.set_early_after_idle();
    }

    /// IMMEDIATE_ACK has been received. A peer that asks more often than it has a use for
    /// the answer is answered when an acknowledgement is due anyway.
    pub fn on_immediate_ack(&mut self, now: Instant) {
        self.reply_wanted |= self.policy.on_immediate_ack(now);
    }

    /// Whether packet `pn` has been received before.
    pub fn has_received(&self, pn: u64) -> bool {
        self.received.contains(pn)
    }

    /// The rule that decides when to acknowledge.
    pub fn rule(&self) -> Rule {
        self.policy.rule()
    }

    /// What is due at `now`.
    pub fn due(&self, now: Instant) -> Option<Due> {
        // Packets that elicit no acknowledgement get none, holes or not (RFC 9000 section 13.2.1):
        // else the losses of ACKs would be reported, and those of the reports.
        if self.policy.pending() == 0 {
            return None;
        }
        if self.budgeted().is_some_and(|next| now < next) {
            return None;
        }
        if self.policy.is_due(now) {
            // The sender asks behind a silence: where TACKs got lost it wants their bubbles too,
            // or it takes for lost what only they report (TACK-4.2-6).
            let reply = self.reply_wanted && !self.wants_bubbles();
            return Some(if reply { Due::Iack(IackEvent::Reply) } else { Due::Tack });
        }
        // While every packet is acknowledged there is nothing to add.
        let watches = matches!(self.policy.rule(), Rule::Tack { .. });
        if !watches || !self.losses.is_due(now) {
            return None;
        }
        // A TACK that is all but due says it too.
        let soon = self.interval.is_some_and(|interval| self.policy.is_due(now + interval / 8));
        Some(if soon || self.policy.replaces_iack(now) {
            Due::Tack
        } else {
            Due::Iack(IackEvent::Loss)
        })
    }

    /// When something becomes due if nothing else arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let loss = match self.policy.rule() {
            Rule::Tack { .. } if self.policy.pending() > 0 => self.losses.deadline(),
            Rule::Tack { .. } | Rule::EveryPacket | Rule::Delayed { .. } => None,
        };
        let deadline = [self.policy.deadline(), loss].into_iter().flatten().min()?;
        Some(self.budgeted().map_or(deadline, |next| deadline.max(next)))
    }

    /// Whether what is `due` has to name more than so many ranges (TACK-4.1-1, TACK-4.3-4).
    pub fn names_more_than(&self, count: usize, due: Due) -> bool {
        let Some(range) = self.received.newest_first().nth(count) else { return false };
        match due {
            Due::Tack | Due::Iack(IackEvent::Reply) => {
                *range.end() > self.reported[0] && !self.delivered_reports.covers(*range.end())
            }
            Due::Iack(_) => *range.end() > self.reported[REPETITIONS - 2],
        }
    }

    /// Ack-eliciting packets that no acknowledgement has covered yet.
    pub fn pending(&self) -> u64 {
        self.policy.pending()
    }

    /// Appends the frame for `due` to `out`, in at most `budget` bytes; false
    /// if it does not fit or nothing has been received.
    pub fn write(&mut self, now: Instant, due: Due, budget: usize, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let tells_loss = self.losses.is_due(now);
        let is_written = match due {
            Due::Tack => self.write_tack(now, budget, out),
            Due::Iack(event) => self.write_iack(now, event, budget, out),
        };
        if is_written {
            self.budget.on_sent(now, out.len() - before, self.config.max_ack_delay);
            if tells_loss {
                self.policy.on_loss_told();
            }
        }
        is_written
    }

    /// Whether this end wants to hear if the acknowledgement that is due arrives: under a light load another one takes the
    /// place of one that tells of a loss and gets lost (TACK-4.2-9).
    pub fn wants_answer(&self, now: Instant) -> bool {
        self.policy.is_load_light() && self.losses.is_due(now)
    }

    /// A packet has left with what was written last, if that has not left before; its number, if it is ack-eliciting.
    pub fn on_packet_sent(&mut self, answered: Option<u64>) {
        self.policy.on_packet_sent(answered);
        self.delivered_reports.on_packet_sent(answered);
    }

    /// Packets of this end have been acknowledged; `was_delivered` tells of one what has become of it.
    pub fn on_acknowledgement(&mut self, was_delivered: impl Fn(u64) -> Option<bool>) {
        self.policy.on_acknowledgement(&was_delivered);
        self.delivered_reports.on_acknowledgement(was_delivered);
    }

    /// The rate at which this end sends data; `None` while it has less to send than may leave
    /// (TACK-4.2-8).
    pub fn set_data_rate(&mut self, rate: Option<Bandwidth>) {
        self.budget.set_rate(rate);
    }

    /// Appends a standard ACK frame (RFC 9000 section 19.3) to `out`, in at most `budget` bytes, with as
    /// many of the newest ranges as fit; false if nothing has been received or it does not fit.
    /// `exponent` is our `ack_delay_exponent`.
    pub fn write_ack(
        &mut self,
        now: Instant,
        exponent: u32,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(arrival) = self.largest_arrival else { return false };
        let delay = now.saturating_duration_since(arrival).as_micros() as u64 >> exponent;
        let ecn = self.marks.counts();
        if encode_ack(out, self.received.newest_first(), delay, ecn, budget) == 0 {
            return false;
        }
        self.on_ack_sent(now);
        true
    }

    /// A standard acknowledgement of everything has left instead (stock peers, TACK-8-7).
    pub fn on_ack_sent(&mut self, now: Instant) {
        self.budget.on_sent(now, SHORT_ACK_LEN, self.config.max_ack_delay);
        self.policy.on_sent(now);
        self.losses.on_reported(now);
        self.losses.on_tack();
        self.reordering.on_acknowledged(self.received.largest());
        self.reply_wanted = false;
    }

    /// Packets come over another path from now on.
    pub fn on_new_path(&mut self) {
        self.one_way_delay.forget_lowest();
    }

    /// Queueing delay on the way here, from one-way delays.
    pub fn queueing(&self) -> Option<Duration> {
        self.one_way_delay.queueing()
    }

    /// rho, the loss rate of the data path between 0 and 1.
    pub fn loss_rate(&self) -> f64 {
        self.delivery_rate.loss_rate()
    }

    /// The ECN counts that an acknowledgement reports (RFC 9000 section 19.3.2); `None` before the
    /// first packet with a mark.
    #[inline]
    pub fn ecn_counts(&self) -> Option<EcnCounts> {
        self.marks.counts()
    }

    /// What makes a hole in the packet numbers a loss.
    pub fn tolerance(&self) -> &Tolerance {
        self.losses.tolerance()
    }

    /// Counters.
    pub fn stats(&self) -> ReceiverStats {
        ReceiverStats { ecn: self.marks.totals(), ..self.stats }
    }

    /// Before when no acknowledgement should leave, unless the peer waits for it.
    fn budgeted(&self) -> Option<Instant> {
        self.budget.next().filter(|_| !self.policy.is_immediate())
    }

    fn write_tack(&mut self, now: Instant, budget: usize, out: &mut Vec<u8>) -> bool {
        let Some(largest) = self.received.largest() else { return false };
        let newest = self.newest_acknowledged(now, largest);
        // TACK-4.4-2: shorter spans measure bursts, not the path.
        let span = self.interval.unwrap_or(Duration::MAX);
        let rate = self.delivery_rate.estimate(span).map(|rate| Rate {
            delivery_rate: rate.bytes_per_second().min(crate::varint::MAX),
            loss_rate: (self.delivery_rate.loss_rate() * 65536.0).min(65535.0) as u16,
        });
        let fields = TackFields {
            sequence: self.sequence,
            ack_delay_us: now.saturating_duration_since(newest.arrival).as_micros() as u64,
            received_bytes: self.delivery_rate.received_bytes(),
            timing: self.one_way_delay.timing(now),
            rate,
            ecn: self.marks.counts(),
            arrivals: self.stamped.as_ref().and_then(StampedArrivals::report),
            grease: self.sequence % GREASED_ONE_IN == GREASED_ONE_IN - 1,
        };
        let floor = self.reported[0];
        let least = if self.is_long_due() { LEAST_RANGES } else { 1 };
        let ranges = self
            .ranges()
            .enumerate()
            .take_while(|(i, range)| *i < least || *range.end() > floor)
            .filter(|(_, range)| *range.start() <= newest.number)
            .map(|(_, range)| *range.start()..=newest.number.min(*range.end()));
        // Those that a hole with no IACK yet may explain are left to a later TACK.
        let young = self.youngest_reported();
        let most = if self.wants_bubbles() { self.most_gaps() } else { 0 };
        let bubbles = self.buffer.bubbles(young).take(most);
        let Some(encoded) = encode_tack(out, &fields, ranges.clone(), bubbles, budget) else {
            return false;
        };
        let is_cut = ranges.skip(encoded.ranges).any(|range| *range.end() > floor);
        let first_left_out = self.received.newest_first().nth(encoded.ranges);
        let names_all =
            first_left_out.is_none_or(|range| self.delivered_reports.covers(*range.end()));
        // TACK-5.4-7: the sender may leave another one to the next that is long by its sequence.
        let counts = !is_cut && (names_all || is_long(self.sequence));
        self.delivered_reports.on_written(counts.then_some(newest.number));
        if encoded.bubbles < most {
            self.buffer.on_listed(encoded.bubbles, young);
        }
        self.stats.bubbles += encoded.bubbles as u64;
        self.sequence += 1;
        self.stats.tacks += 1;
        if !is_cut {
            self.on_all_named(largest);
        }
        self.has_late = false;
        self.one_way_delay.on_reported();
        self.delivery_rate.on_tack_sent(largest);
        if let Some(stamped) = &mut self.stamped {
            stamped.on_reported();
        }
        self.on_ack_sent(now);
        true
    }

    /// The ranges that an acknowledgement may name, newest first: those that the sender is not known to have heard of, and
    /// the one below them, which shows that what is between is missing (TACK-5.4-4, TACK-6.6-2).
    fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + '_ {
        self.received.newest_first().scan(false, |is_last, range| {
            let was_last =
                std::mem::replace(is_last, self.delivered_reports.covers(*range.end()));
            (!was_last).then_some(range)
        })
    }

    /// A TACK, or what came in the place of one, has named all that the last eight have not. One that had no room for
    /// that does not count as one of eight (TACK-4.1-3).
    fn on_all_named(&mut self, largest: u64) {
        self.reported.rotate_left(1);
        self.reported[REPETITIONS - 1] = largest;
    }

    fn write_iack(
        &mut self,
        now: Instant,
        event: IackEvent,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let (least, most, floor) = match event {
            // It comes instead of a TACK.
            IackEvent::Reply => (LEAST_RANGES, usize::MAX, self.reported[0]),
            // Down to what the last but one TACK reported, so that one lost TACK
            // leaves no number unreported (TACK-4.3-4).
            _ => (2, IACK_RANGES, self.reported[REPETITIONS - 2]),
        };
        let ranges = self
            .ranges()
            .enumerate()
            .take_while(|(i, range)| *i < least || (*i < most && *range.end() >= floor))
            .take(self.most_gaps().saturating_add(1))
            .map(|(_, range)| range);
        let fields = IackFields {
            event,
            received_bytes: self.delivery_rate.received_bytes(),
            ack_delay_us: self.ack_delay_us(now),
            ecn: self.marks.counts(),
            grease: self.stats.iacks % GREASED_ONE_IN == GREASED_ONE_IN - 1,
        };
        let count = encode_iack(out, &fields, ranges.clone(), budget);
        if count == 0 {
            return false;
        }
        let is_cut = ranges.skip(count).any(|range| *range.end() > floor);
        self.stats.iacks += 1;
        self.losses.on_reported(now);
        if event == IackEvent::Loss {
            self.losses.on_iack();
        }
        self.delivered_reports.on_written(None);
        if event == IackEvent::Reply {
            if let Some(largest) = self.received.largest().filter(|_| !is_cut) {
                self.on_all_named(largest);
                let counts = self.config.reported_gaps.is_none();
                self.delivered_reports.on_written(counts.then_some(largest));
            }
            self.policy.on_sent(now);
            self.reply_wanted = false;
        }
        true
    }

    /// Equation (5), TACK-4.5-1: whether lost TACKs leave more unreported than the one loss that
    /// the newest range reports in any case.
    fn wants_bubbles(&self) -> bool {
        self.loss_rate() * self.unreported as f64 >= 1.0
    }

    /// Whether the next TACK repeats what eight have reported before it (TACK-4.1-2). The ranges of
    /// old losses are most of such a TACK, and tell nothing new as long as not all of eight get lost.
    fn is_long_due(&self) -> bool {
        is_long(self.sequence)
            || self.has_late
            || self.unreported > 0
            || self.policy.is_immediate()
            // Eight TACKs are eight packets then: a short burst of losses.
            || matches!(self.policy.rule(), Rule::EveryPacket)
    }

    fn most_gaps(&self) -> usize {
        self.config.reported_gaps.map_or(usize::MAX, |gaps| gaps.max(1))
    }

    /// The packet that a TACK acknowledges up to: the largest received, or of a poor TACK
    /// the one behind its last bubble. A bubble that the sender does nothing about for as
    /// many TACKs as repeat a range is passed over, so that nothing stops for good.
    fn newest_acknowledged(&self, now: Instant, largest: u64) -> Packet {
        let arrival = self.largest_arrival.unwrap_or(now);
        self.config
            .reported_gaps
            .and_then(|_| self.buffer.revealer(self.most_gaps()))
            .filter(|packet| packet.number > self.reported[0])
            .unwrap_or(Packet { number: largest, arrival })
    }

    /// The lowest number of a packet whose loss may be unreported (TACK-4.5-3). None
    /// where every packet is acknowledged and no IACK is sent.
    fn youngest_reported(&self) -> u64 {
        match self.policy.rule() {
            Rule::Tack { .. } => self.losses.lowest_watched().unwrap_or(u64::MAX),
            Rule::EveryPacket | Rule::Delayed { .. } => u64::MAX,
        }
    }

    /// How long the acknowledgement of the largest packet has been held.
    fn ack_delay_us(&self, now: Instant) -> u64 {
        self.largest_arrival
            .map_or(0, |arrival| now.saturating_duration_since(arrival).as_micros() as u64)
    }

    /// draft-ietf-quic-ack-frequency section 4: frames that are not newer than
    /// the newest seen are ignored.
    fn is_new_sequence(&mut self, sequence: u64) -> bool {
        if self.ack_frequency_sequence.is_some_and(|newest| sequence <= newest) {
            return false;
        }
        self.ack_frequency_sequence = Some(sequence);
        true
    }
}
