//! What a flow did, seen from the wire.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use hdrhistogram::Histogram;
use tack_link::{Direction, Ecn, LinkSpec, Packet, PathSpec, Time};
use tack_tap::{self as tap, KeyLog, RangeSet, StreamData, Tap, TapCounters};

use super::{Bin, FlowReport, Rates};

/// Significant digits of percentiles.
const DIGITS: u8 = 3;

/// Length of the headers around a UDP payload: IPv4 and UDP.
pub const HEADERS: usize = 28;

/// Watches the data that goes in one direction of a flow, at both ends of the link, and its
/// acknowledgements.
pub struct Probe {
    /// Which way the data goes.
    data: Direction,
    link: LinkSpec,
    /// What this direction of the link can carry, over the time of the scenario.
    capacity_bps: f64,
    /// Propagation delay of the path behind the link, in this direction.
    path_delay: Duration,
    /// Nothing before this counts.
    from: Time,
    to: Time,
    bin: u64,
    /// As the endpoints sent it.
    sent: Tap,
    /// As it arrived.
    arrived: Tap,
    /// By stream.
    received: BTreeMap<u64, RangeSet>,
    /// End of the stream data that was put on the link.
    sent_until: u64,
    /// When streams are worth nothing any more.
    deadlines: BTreeMap<u64, Time>,
    /// The tap's counts when the measurement began.
    before: Option<TapCounters>,
    counts: Counts,
    /// Data packets that count and have not arrived.
    missing: HashSet<Tag>,
    one_way_delay: Histogram<u64>,
    /// Mean and variance of that, and of what the packets that come back take, in ms.
    delays: [Spread; 2],
    /// What a packet has waited, in nanoseconds, and in bytes at the rate of the link.
    queueing: [Histogram<u64>; 2],
    /// What the medium lets any packet wait: the least that one has waited since the flow began.
    medium_ns: u64,
    blocked: Histogram<u64>,
    blocked_since: Time,
    bins: Vec<BinCounts>,
}

#[derive(Default)]
struct Counts {
    new_bytes: u64,
    delivered_ip_bytes: u64,
    data_sent: u64,
    marked: u64,
    retransmitted: u64,
    spurious: u64,
    expired_packets: u64,
    expired_bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct BinCounts {
    new_bytes: u64,
    ack_packets: u64,
    repeated: u64,
    delay_ns: u64,
    delays: u64,
    min_rtt_ms: Option<f64>,
    rates: Option<Rates>,
}

impl Probe {
    /// Measures data that goes over the link in that direction, from one moment to another; the
    /// timeline has bins of `bin` nanoseconds from the start of the run, which ends at `end`.
    pub fn new(
        key_log: &KeyLog,
        (link, path, data): (&LinkSpec, &PathSpec, Direction),
        (from, to, end): (Time, Time, Time),
        bin: u64,
    ) -> Self {
        let bins = to.as_nanos().div_ceil(bin.max(1)) as usize;
        Self {
            data,
            link: link.clone(),
            capacity_bps: link.direction_capacity_bps(data, end.since(Time::ZERO)),
            path_delay: path.delay(data),
            from,
            to,
            bin: bin.max(1),
            sent: Tap::new(key_log.clone()),
            arrived: Tap::new(key_log.clone()),
            received: BTreeMap::new(),
            sent_until: 0,
            deadlines: BTreeMap::new(),
            before: None,
            counts: Counts::default(),
            missing: HashSet::new(),
            one_way_delay: histogram(),
            delays: [Spread::default(); 2],
            queueing: [histogram(), histogram()],
            medium_ns: if link.has_medium() { u64::MAX } else { 0 },
            blocked: histogram(),
            blocked_since: from,
            bins: vec![BinCounts::default(); bins],
        }
    }

    /// A datagram is put on the link.
    pub fn on_sent(&mut self, direction: Direction, datagram: &[u8], now: Time) {
        if now > self.to {
            return;
        }
        if now >= self.from && self.before.is_none() {
            self.before = Some(*self.sent.counters(self.ack_side()));
        }
        if direction == self.data {
            self.on_data_sent(datagram, now);
        } else {
            let side = self.ack_side();
            let packets = self.sent.counters(side).ack_packets;
            self.sent.datagram(side, datagram);
            let more = self.sent.counters(side).ack_packets - packets;
            if let Some(bin) = self.bin_at(now) {
                bin.ack_packets += more;
            }
        }
    }

    fn on_data_sent(&mut self, datagram: &[u8], now: Time) {
        let side = tap_direction(self.data);
        let before = *self.sent.counters(side);
        let (mut len, mut again, mut needless, mut expired) = (0, 0, 0, 0);
        let deadlines = &self.deadlines;
        let (received, sent_until) = (&self.received, &mut self.sent_until);
        self.sent.inspect(side, datagram, |data: StreamData| {
            len += data.range.end - data.range.start;
            again += data.retransmitted;
            if deadlines.get(&data.stream_id).is_some_and(|at| *at < now) {
                expired += data.range.end - data.range.start;
            }
            *sent_until = (*sent_until).max(data.range.end);
            needless += received.get(&data.stream_id).map_or(0, |of| of.overlap(data.range));
        });
        let after = self.sent.counters(side);
        let acks = after.ack_packets - before.ack_packets;
        let eliciting = after.packets - before.packets - acks;
        if again == len
            && let Some(bin) = self.bin_at(now)
        {
            bin.repeated += eliciting;
        }
        if now >= self.from && len > 0 {
            self.counts.data_sent += 1;
            self.missing.insert(tag(datagram));
            self.counts.retransmitted += u64::from(again == len);
            self.counts.spurious += u64::from(needless == len);
            self.counts.expired_packets += u64::from(expired > 0);
            self.counts.expired_bytes += expired;
        }
    }

    /// Which way the acknowledgements go, for the tap.
    const fn ack_side(&self) -> tap::Direction {
        tap_direction(self.data.opposite())
    }

    /// A packet came out of the link.
    pub fn on_arrival(&mut self, direction: Direction, packet: &Packet, now: Time) {
        if now > self.to {
            self.on_late_arrival(direction, packet);
            return;
        }
        if direction != self.data {
            // Only to follow the connection ids.
            if now >= self.from {
                self.delays[1].add(now.since(packet.sent).as_secs_f64() * 1e3);
            }
            self.arrived.datagram(tap_direction(direction), &packet.bytes);
            return;
        }
        self.note_blocked(now);
        let (mut data, mut new) = (false, 0);
        let received = &mut self.received;
        self.arrived.inspect(tap_direction(direction), &packet.bytes, |part: StreamData| {
            let len = part.range.end - part.range.start;
            data |= len > 0;
            new += len - received.entry(part.stream_id).or_default().insert(part.range);
        });
        if !data {
            return;
        }
        self.missing.remove(&tag(&packet.bytes));
        let delay = now.since(packet.sent).as_nanos() as u64;
        let rate_bps = self.link.direction_rate_bps(self.data, now);
        let waited = self.waited_ns(packet, now, rate_bps);
        // A flow that always queues has not always waited this long: the smallest wait counts from its beginning.
        self.medium_ns = self.medium_ns.min(waited);
        if now >= self.from {
            self.counts.new_bytes += new;
            self.counts.marked += u64::from(packet.ecn == Ecn::Ce);
            self.counts.delivered_ip_bytes += u64::from(packet.size);
            record(&mut self.one_way_delay, delay, 1);
            self.delays[0].add(delay as f64 / 1e6);
            let queued = waited - self.medium_ns;
            record(&mut self.queueing[0], queued, 1);
            record(&mut self.queueing[1], (queued as f64 * rate_bps / 8e9) as u64, 1);
        }
        if let Some(bin) = self.bin_at(now) {
            bin.new_bytes += new;
            bin.delay_ns += delay;
            bin.delays += 1;
        }
    }

    /// What a packet that has arrived has waited on its way: its delay without what propagation and its own length
    /// at the rate of the link take.
    fn waited_ns(&self, packet: &Packet, now: Time, rate_bps: f64) -> u64 {
        let delay = |at| self.link.direction_delay(self.data, at);
        // While it was on its way the delay may have changed.
        let propagation = delay(packet.sent).max(delay(now)) + self.path_delay;
        // None where the link has no rate, or stands still for the moment.
        let own_ns = if rate_bps > 0.0 { f64::from(packet.size) * 8e9 / rate_bps } else { 0.0 };
        let rest = now.since(packet.sent).saturating_sub(propagation);
        (rest.as_nanos() as u64).saturating_sub(own_ns as u64)
    }

    /// A packet comes out of the link when the measurement is over: it counts for nothing, but is not lost.
    pub fn on_late_arrival(&mut self, direction: Direction, packet: &Packet) {
        if direction == self.data && !self.missing.is_empty() {
            let mut data = false;
            self.arrived.inspect(
                tap_direction(direction),
                &packet.bytes,
                |part: StreamData| {
                    data |= !part.range.is_empty();
                },
            );
            if data {
                self.missing.remove(&tag(&packet.bytes));
            }
        }
    }

    /// Whether data packets have not arrived.
    pub fn misses_packets(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Bytes that wait behind a gap, for as long as they have done so.
    fn note_blocked(&mut self, now: Time) {
        let micros = now.since(self.blocked_since).as_micros() as u64;
        if now >= self.from && micros > 0 {
            let waiting = |of: &RangeSet| of.len() - of.contiguous();
            let blocked = self.received.values().map(waiting).sum();
            record(&mut self.blocked, blocked, micros);
            self.blocked_since = now;
        }
    }

    /// What is sent of a stream behind its deadline is counted.
    pub fn set_deadline(&mut self, stream_id: u64, at: Time) {
        self.deadlines.insert(stream_id, at);
    }

    /// How much of the stream has been put on the link.
    pub const fn sent_until(&self) -> u64 {
        self.sent_until
    }

    /// Notes the sender's estimate.
    pub fn on_min_rtt(&mut self, min_rtt_ms: f64, now: Time) {
        if let Some(bin) = self.bin_at(now) {
            bin.min_rtt_ms = Some(min_rtt_ms);
        }
    }

    /// Notes how fast the sender sends, once in each bin.
    pub fn on_rates(&mut self, rates: impl FnOnce() -> Option<Rates>, now: Time) {
        if let Some(bin) = self.bin_at(now)
            && bin.rates.is_none()
        {
            bin.rates = rates();
        }
    }

    fn bin_at(&mut self, now: Time) -> Option<&mut BinCounts> {
        self.bins.get_mut((now.as_nanos() / self.bin) as usize)
    }

    /// What the link could carry on average while it was measured.
    fn capacity_until(&self, now: Time) -> f64 {
        let until = |end: Time| {
            let span = end.since(Time::ZERO);
            let bits = self.link.direction_capacity_bps(self.data, span) * span.as_secs_f64();
            if span.is_zero() { 0.0 } else { bits }
        };
        let seconds = now.since(self.from).as_secs_f64();
        if self.capacity_bps.is_finite() && seconds > 0.0 {
            (until(now) - until(self.from)) / seconds
        } else {
            self.capacity_bps
        }
    }

    /// What was seen until `now`.
    pub fn report(mut self, now: Time) -> FlowReport {
        let now = now.min(self.to);
        self.note_blocked(now);
        let seconds = now.since(self.from).as_secs_f64();
        let over = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let acks = self.sent.counters(self.ack_side());
        let before = self.before.unwrap_or(*acks);
        let ack_packets = acks.ack_packets - before.ack_packets;
        let ms = |histogram: &Histogram<u64>, nanos: u64| {
            (!histogram.is_empty()).then_some(nanos as f64 / 1e6)
        };
        let [queue, queue_bytes] = &self.queueing;
        let queue_ms = |nanos: u64| ms(queue, zero_or(nanos));
        let bytes = |bytes: u64| {
            let has_rate = self.capacity_bps.is_finite() && !queue_bytes.is_empty();
            has_rate.then_some(zero_or(bytes) as f64)
        };
        FlowReport {
            goodput_mbps: over(self.counts.new_bytes) / 1e6,
            utilisation: over(self.counts.delivered_ip_bytes) / self.capacity_until(now),
            seconds,
            data_packets: self.counts.data_sent,
            ack_packets,
            ack_bytes: acks.ack_path_bytes - before.ack_path_bytes
                + ack_packets * HEADERS as u64,
            iacks: acks.iacks - before.iacks,
            retransmitted: self.counts.retransmitted,
            spurious: self.counts.spurious,
            lost: self.missing.len() as u64,
            ce_marked: self.counts.marked,
            ecn_marked: None,
            ce_reported: None,
            careful_resume: None,
            min_rtt_ms: None,
            owd_p50_ms: ms(&self.one_way_delay, self.one_way_delay.value_at_quantile(0.5)),
            owd_p95_ms: ms(&self.one_way_delay, self.one_way_delay.value_at_quantile(0.95)),
            owd_p99_ms: ms(&self.one_way_delay, self.one_way_delay.value_at_quantile(0.99)),
            expired_packets: self.counts.expired_packets,
            expired_bytes: self.counts.expired_bytes,
            delivered_frames: None,
            rtt_mean_ms: Spread::sum(self.delays).map(|(mean, _)| mean),
            rtt_deviation_ms: Spread::sum(self.delays).map(|(_, deviation)| deviation),
            queue_p95_ms: queue_ms(queue.value_at_quantile(0.95)),
            queue_p99_ms: queue_ms(queue.value_at_quantile(0.99)),
            queue_max_ms: queue_ms(queue.max()),
            queue_p95_bytes: bytes(queue_bytes.value_at_quantile(0.95)),
            queue_max_bytes: bytes(queue_bytes.max()),
            hol_blocked_bytes_p95: (!self.blocked.is_empty())
                .then(|| zero_or(self.blocked.value_at_quantile(0.95)) as f64),
            completion_ms: None,
            frames: None,
            timeline: self.timeline(now),
            reverse: None,
        }
    }

    fn timeline(&self, end: Time) -> Vec<Bin> {
        let starts = (0..).map(|index| index * self.bin);
        let until_end = starts.zip(&self.bins).take_while(|(start, _)| *start < end.as_nanos());
        let bin = |(start, counts): (u64, &BinCounts)| {
            let width = self.bin.min(end.as_nanos() - start) as f64 / 1e9;
            Bin {
                at: start as f64 / 1e9,
                goodput_mbps: counts.new_bytes as f64 * 8.0 / 1e6 / width,
                ack_packets: counts.ack_packets,
                repeated: counts.repeated,
                owd_ms: (counts.delays > 0)
                    .then(|| counts.delay_ns as f64 / counts.delays as f64 / 1e6),
                min_rtt_ms: counts.min_rtt_ms,
                rates: counts.rates,
            }
        };
        until_end.map(bin).collect()
    }
}

/// Mean and variance of values, without keeping them (Welford's method).
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    count: u64,
    mean: f64,
    /// Sum of the squares of differences from the mean.
    squares: f64,
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// Mean and standard deviation of the sum of two independent values; `None` if one of them
    /// was never seen.
    fn sum(of: [Self; 2]) -> Option<(f64, f64)> {
        let [one, other] = of;
        let variance = |of: Self| of.squares / of.count as f64;
        (one.count > 0 && other.count > 0)
            .then(|| (one.mean + other.mean, (variance(one) + variance(other)).sqrt()))
    }
}

/// The last bytes of a packet, which tell it from all others of its connection: the tag of its AEAD.
type Tag = [u8; 16];

fn tag(datagram: &[u8]) -> Tag {
    datagram.last_chunk().copied().unwrap_or_default()
}

/// The tap's name for a direction: servers send forward.
const fn tap_direction(direction: Direction) -> tap::Direction {
    match direction {
        Direction::Forward => tap::Direction::ToClient,
        Direction::Reverse => tap::Direction::ToServer,
    }
}

fn record(histogram: &mut Histogram<u64>, value: u64, times: u64) {
    // It grows as needed, up to any u64; zero it does not take.
    let _ = histogram.record_n(value.max(1), times);
}

/// A value of a histogram, which has no zero.
const fn zero_or(value: u64) -> u64 {
    if value <= 1 { 0 } else { value }
}

fn histogram() -> Histogram<u64> {
    const { assert!(DIGITS <= 5, "more digits are refused") };
    // Cannot fail with a valid number of digits.
    let mut histogram = Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!());
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_a_sum_is_that_of_its_parts() {
        let mut parts = [Spread::default(); 2];
        assert_eq!(Spread::sum(parts), None);
        for (one, other) in [(10.0, 1.0), (20.0, 25.0)] {
            parts[0].add(one);
            parts[1].add(other);
        }
        // Means of 15 and 13, deviations of 5 and 12.
        assert_eq!(Spread::sum(parts), Some((28.0, 13.0)));
    }
}
