//! Packet trains: what the path could carry while the application sends less (TACK-6.8).
//!
//! A live source sends a frame now and then, and a rate over a round trip is that of the source. But
//! the packets of one frame leave as a train, faster than the path is known to carry; those at its ends
//! have TIMESTAMPs, and the receiver tells when these arrived. A train that arrives as it left has not met
//! its limit; one that arrives stretched shows the rate of the bottleneck (the dispersion of packet
//! trains; Dovrolis, Ramanathan and Moore, "Packet-dispersion techniques and a capacity-estimation
//! methodology", 2004).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::bandwidth::Bandwidth;
use crate::frame::Arrivals;

/// IPv4 and UDP headers, which take their share of the path: small packets are not to show a slow one.
pub(super) const HEADERS: u64 = 28;

/// How much faster than the estimate a train leaves where nothing queues: BBR.ProbeBwUpPacingGain.
const GAIN: f64 = 1.25;

/// A round trip is that much above RTTmin where a train is not to make the queue longer.
pub(super) const QUEUE: Duration = Duration::from_millis(5);

/// No train that was not stretched counts for more than so many times the estimate: the controller's rate may be far
/// above that, and one train alone is a weak proof.
const MOST_RISE: f64 = 2.0;

/// So much of BWmax is less than what flows beside this one make the estimate vary by: the path has become slower.
pub(super) const FALL: f64 = 0.6;

/// A train is stretched if it arrives in so much more time than it left in.
const STRETCHED: f64 = 1.06;

/// One that left more slowly than the estimate has to be stretched by this: jitter alone may do less.
const STRETCHED_SLOW: f64 = 1.5;

/// Bytes a second at which packets arrive that a medium has held back, or that a process reads together: the time from
/// one to the next is what it takes to note it down. A train that left in one call would be stretched by that.
const HANDED_OVER: f64 = 250e6;

/// Trains that are taken together, and for how long: what jitter does to each is evened out.
const TRAINS: usize = 8;
const SPAN: Duration = Duration::from_millis(400);

/// A train is no longer: what goes on without a pause has more to send than may leave, and queues.
pub(super) const LONGEST: Duration = Duration::from_millis(100);

/// A train leaves faster than the controller lets it for no longer: at 1.25 times the estimate that is a queue of
/// 5 ms. A key frame that goes on so fills the queue until the controller yields to it.
pub(super) const FASTER_FOR: Duration = Duration::from_millis(20);

/// An application that has made no pause for so long is not limited by itself.
const MOST_BETWEEN_PAUSES: Duration = Duration::from_secs(1);

/// A path has changed where the last two trains differ so much from the estimate, to the same side.
const CHANGE: f64 = 1.15;

/// A train that is so many times slower than those before it says nothing of the path alone: jitter does less.
const HELD_UP: f64 = 8.0;

/// A frame that fits into a packet is split in two if each is no shorter, bytes.
const LEAST_PART: u64 = 100;

/// What a second packet costs: header, tag, IP and UDP headers, and a TIMESTAMP.
pub(super) const SPLIT_COST: u64 = 80;

/// The most that a packet for the end of a train alone costs, with IP and UDP headers.
const TAIL_COST: u64 = 100;

/// Of what is sent, trains may cost no more than one part in so many.
const COST_SHARE: u64 = 50;

/// Departures that are remembered: some round trips of a live source.
const DEPARTURES: usize = 256;

/// A packet that left with a TIMESTAMP.
#[derive(Clone, Copy, Debug)]
struct Stamped {
    packet_number: u64,
    at: Instant,
    /// Bytes of ack-eliciting packets sent until then, its own included.
    sent: u64,
    train: u64,
}

/// What a train has shown.
#[derive(Clone, Copy, Debug)]
struct Dispersion {
    at: Instant,
    /// Bytes behind its first packet, with IP and UDP headers.
    bytes: u64,
    left_in: Duration,
    arrived_in: Duration,
}

impl Dispersion {
    fn arrival_rate(&self) -> f64 {
        self.bytes as f64 / self.arrived_in.as_secs_f64().max(1e-9)
    }

    fn departure_rate(&self) -> f64 {
        self.bytes as f64 / self.left_in.as_secs_f64().max(1e-9)
    }

    fn is_stretched_by(&self, ratio: f64) -> bool {
        self.arrived_in > self.left_in.mul_f64(ratio) && self.arrival_rate() < HANDED_OVER
    }
}

/// Trains on their way, and what they show.
#[derive(Debug)]
pub(super) struct PacketTrains {
    stamped: VecDeque<Stamped>,
    /// The train that leaves, or has left last, and when it began.
    train: u64,
    began: Option<Instant>,
    /// Nothing more was to be sent, and nothing has been since.
    has_run_dry: bool,
    /// Packets of the train that have left with a TIMESTAMP, and whether the last has one.
    stamped_of_train: u32,
    is_last_stamped: bool,
    /// Stretched trains of late.
    recent: VecDeque<Dispersion>,
    /// The last train was faster than the estimate and not stretched: its rate.
    faster: Option<f64>,
    /// Of UDP payload in full-sized packets, bytes per second.
    estimate: Option<f64>,
    measured: Option<Instant>,
    /// Bytes that were sent for trains alone.
    cost: u64,
}

impl Default for PacketTrains {
    fn default() -> Self {
        Self {
            stamped: VecDeque::new(),
            train: 0,
            began: None,
            has_run_dry: true,
            stamped_of_train: 0,
            is_last_stamped: false,
            recent: VecDeque::new(),
            faster: None,
            estimate: None,
            measured: None,
            cost: 0,
        }
    }
}

impl PacketTrains {
    /// The application has nothing more to send.
    pub fn on_run_dry(&mut self) {
        self.has_run_dry = true;
    }

    /// Whether the application limits what is sent: it has made pauses of late.
    pub fn is_app_limited(&self, now: Instant) -> bool {
        self.has_run_dry || self.began_within(now, MOST_BETWEEN_PAUSES)
    }

    /// Whether what leaves now belongs to a train that has begun within this time.
    pub fn began_within(&self, now: Instant, time: Duration) -> bool {
        self.began.is_some_and(|began| now.saturating_duration_since(began) < time)
    }

    /// Whether a packet that leaves behind a pause would begin a train.
    pub fn has_run_dry(&self) -> bool {
        self.has_run_dry
    }

    /// Whether `waiting` bytes, all that there is to send, should leave in two packets because one alone
    /// is no train (TACK-6.8-6); `sent` are the bytes sent so far, and a packet holds `mss`.
    pub fn splits(&self, waiting: u64, sent: u64, mss: u64) -> bool {
        (2 * LEAST_PART..mss.saturating_sub(LEAST_PART)).contains(&waiting)
            && (self.cost + SPLIT_COST) * COST_SHARE <= sent
    }

    /// Whether the train that has left shows something only if another packet follows, or two, and may cost that
    /// (TACK-6.8-7); `sent` are the bytes sent so far.
    pub fn owes_tail(&self, now: Instant, sent: u64) -> bool {
        let lacking = match (self.stamped_of_train, self.is_last_stamped) {
            (0, _) => 2,
            (1, _) | (_, false) => 1,
            _ => return false,
        };
        !self.has_run_dry
            && self.began_within(now, LONGEST)
            && (self.cost + lacking * TAIL_COST) * COST_SHARE <= sent
    }

    /// So many bytes have left for trains alone.
    pub fn on_cost(&mut self, bytes: u64) {
        self.cost += bytes;
    }

    /// A packet leaves behind a pause.
    pub fn on_head(&mut self, now: Instant) {
        self.train += 1;
        self.began = Some(now);
        self.stamped_of_train = 0;
    }

    /// An ack-eliciting packet has left; `sent` are the bytes of all, its own included.
    pub fn on_sent(&mut self, now: Instant, packet_number: u64, sent: u64, is_stamped: bool) {
        self.has_run_dry = false;
        self.is_last_stamped = is_stamped;
        if !is_stamped {
            return;
        }
        self.stamped_of_train += 1;
        if self.stamped.len() == DEPARTURES {
            self.stamped.pop_front();
        }
        self.stamped.push_back(Stamped { packet_number, at: now, sent, train: self.train });
    }

    /// The receiver has told when packets with a TIMESTAMP arrived. `known` is the controller's
    /// bandwidth, `mss` the payload of a full-sized packet.
    pub fn on_arrivals(
        &mut self,
        now: Instant,
        arrivals: &Arrivals,
        known: Bandwidth,
        mss: u64,
    ) {
        let mut whole: Option<(u64, Dispersion)> = None;
        for pair in arrivals.as_slice().windows(2) {
            let Some((train, part)) = self.dispersion(now, pair[0].packet_number, &pair[1])
            else {
                continue;
            };
            match &mut whole {
                Some((of, whole)) if *of == train => {
                    whole.bytes += part.bytes;
                    whole.left_in += part.left_in;
                    whole.arrived_in += part.arrived_in;
                }
                _ => {
                    let before = whole.replace((train, part));
                    self.take_in(before, known, mss);
                }
            }
        }
        self.take_in(whole, known, mss);
    }

    /// What lies between two packets of one train: times and bytes, of which no more arrived than left.
    fn dispersion(
        &self,
        now: Instant,
        first: u64,
        last: &crate::frame::StampedArrival,
    ) -> Option<(u64, Dispersion)> {
        let first = self.find(first)?;
        let left = self.find(last.packet_number)?;
        if first.train != left.train || left.sent <= first.sent {
            return None;
        }
        let sent = left.sent - first.sent;
        let bytes = last.bytes.min(sent);
        let packets = left.packet_number - first.packet_number;
        let headers = (HEADERS * packets) as f64 * bytes as f64 / sent as f64;
        let dispersion = Dispersion {
            at: now,
            bytes: bytes + headers as u64,
            left_in: left.at.saturating_duration_since(first.at),
            arrived_in: Duration::from_micros(last.since_last_us),
        };
        Some((left.train, dispersion))
    }

    fn find(&self, packet_number: u64) -> Option<&Stamped> {
        let at =
            self.stamped.binary_search_by_key(&packet_number, |stamped| stamped.packet_number);
        self.stamped.get(at.ok()?)
    }

    /// TACK-6.8-3, TACK-6.8-4
    fn take_in(&mut self, train: Option<(u64, Dispersion)>, known: Bandwidth, mss: u64) {
        let Some((_, train)) = train else { return };
        let payload = mss as f64 / (mss + HEADERS) as f64;
        let known = known.bytes_per_second() as f64;
        let estimate = self.estimate.unwrap_or(known) / payload;
        let left = train.departure_rate();
        let is_fast = left >= 0.95 * estimate;
        let ratio = if is_fast { STRETCHED } else { STRETCHED_SLOW };
        if train.is_stretched_by(ratio) {
            self.faster = None;
            self.on_stretched(train);
        } else {
            // A train cannot arrive faster than it left, and a report that says so is no proof.
            let rate = train.arrival_rate().min(left);
            self.refute_last(rate);
            // The train shows that there is more than what is known, so something must be known.
            if !is_fast || estimate <= 0.0 {
                return;
            }
            let rate = rate.min(MOST_RISE * estimate);
            let Some(before) = self.faster.replace(rate) else { return };
            let rate = f64::midpoint(before, rate);
            if rate > estimate || self.estimate.is_none() {
                self.recent.clear();
                self.estimate = Some(rate * payload);
            }
        }
        if let Some(rate) = self.recent_rate(estimate) {
            self.estimate = Some(rate * payload);
        } else if !self.recent.is_empty() {
            return;
        }
        self.measured = Some(train.at);
    }

    /// The rate that the stretched trains show, if they may change the `estimate`. A process that is held up while it
    /// sends stretches a train as a slow path does, by thousands of times if the packets are small. So one alone
    /// lowers the estimate by no more than what counts as a change of the path, of two the faster counts, and one
    /// that is much slower than those before counts once the next is no faster.
    fn recent_rate(&self, estimate: f64) -> Option<f64> {
        let mut rates = self.recent.iter().map(Dispersion::arrival_rate);
        match self.recent.len() {
            0 => None,
            1 => rates.next().filter(|rate| *rate * CHANGE >= estimate),
            2 => Some(rates.fold(0.0, f64::max)),
            _ if self.last_was_held_up() => None,
            all => self.mean_of(all),
        }
    }

    /// Whether the last of the stretched trains was much slower than those before.
    fn last_was_held_up(&self) -> bool {
        let last = self.recent.back().map(Dispersion::arrival_rate);
        last.zip(self.mean_but_last()).is_some_and(|(last, before)| last * HELD_UP < before)
    }

    /// A train has arrived as it left, at this rate: a slower one that does not count yet has shown something else than
    /// the path.
    fn refute_last(&mut self, rate: f64) {
        let is_slower =
            self.recent.back().is_some_and(|last| last.arrival_rate() * CHANGE < rate);
        if is_slower && (self.recent.len() == 1 || self.last_was_held_up()) {
            self.recent.pop_back();
        }
    }

    fn on_stretched(&mut self, train: Dispersion) {
        let rates = self.recent.back().map(|last| (last.arrival_rate(), train.arrival_rate()));
        if let Some((last, newest)) = rates
            && let Some(earlier) = self.mean_but_last()
        {
            let is_lower = last.max(newest) * CHANGE < earlier;
            let is_higher = last.min(newest) > earlier * CHANGE;
            if is_lower || is_higher {
                let keep = self.recent.len() - 1;
                self.recent.drain(..keep);
            } else if self.last_was_held_up() {
                self.recent.pop_back();
            }
        }
        self.recent.push_back(train);
        let is_old = |first: &Dispersion| train.at.saturating_duration_since(first.at) > SPAN;
        while self.recent.len() > TRAINS
            || self.recent.len() > 2 && self.recent.front().is_some_and(is_old)
        {
            self.recent.pop_front();
        }
    }

    /// The rate of the stretched trains before the last one.
    fn mean_but_last(&self) -> Option<f64> {
        self.mean_of(self.recent.len().checked_sub(1)?)
    }

    /// The rate of the first so many stretched trains.
    fn mean_of(&self, trains: usize) -> Option<f64> {
        let first = self.recent.iter().take(trains);
        let bytes: u64 = first.clone().map(|train| train.bytes).sum();
        let time: Duration = first.map(|train| train.arrived_in).sum();
        (trains > 0).then(|| bytes as f64 / time.as_secs_f64().max(1e-9))
    }

    /// What the path could carry, as of the last train that has shown something.
    pub fn estimate(&self) -> Option<Bandwidth> {
        self.estimate.map(|rate| Bandwidth::from_bytes_per_second(rate as u64))
    }

    /// When a train has last shown something.
    pub fn measured(&self) -> Option<Instant> {
        self.measured
    }

    /// Whether the last two trains were stretched by more than `jitter` alone may do.
    pub fn is_clear(&self, jitter: Duration) -> bool {
        let is_clear = |train: &Dispersion| train.arrived_in > train.left_in + 2 * jitter;
        self.recent.len() > 1 && self.recent.iter().rev().take(2).all(is_clear)
    }

    /// The rate at which a train leaves that is to show whether the path carries more.
    pub fn rate(&self) -> Option<Bandwidth> {
        self.estimate().map(|estimate| estimate.scaled(GAIN))
    }
}

#[cfg(test)]
#[path = "packet_trains_tests.rs"]
mod tests;
