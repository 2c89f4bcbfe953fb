//! Packet trains of Startup: they ask whether the path carries four times as much (TACK-6.2-14).
//!
//! A Startup that doubles its rate sends for a round trip at up to twice what the path carries before it can know. A train
//! is short, and so may leave much faster: what follows it leaves no faster than what is proven, and of a train that is
//! too fast a part queues. One that arrives stretched shows the rate of the path (Dovrolis, Ramanathan and Moore,
//! "Packet-dispersion techniques and a capacity-estimation methodology", 2004).

use std::time::{Duration, Instant};

use super::startup::GROWTH;
use crate::bandwidth::Bandwidth;
use crate::ecn::Ecn;
use crate::loss_detection::GRANULARITY;
use crate::sender::path_model::{ASSUMED_RTT, PathModel};

/// How much faster than what is proven a train leaves. By as much does SUSS let slow start grow (Arghavani et al., "SUSS:
/// Improving TCP Performance by Speeding Up Slow-Start", SIGCOMM 2024).
const GAIN: f64 = 4.0;

/// The same on long paths, where a train is as large and still longer than [`LONG_DURATION`].
const MOST_GAIN: f64 = 8.0;

/// The same behind a train that was stretched: what slow start grows by.
const GAIN_AT_LIMIT: f64 = 2.0;

/// A train is this part of a round trip's data, and behind one that was stretched an eighth.
const PART: u32 = 2;
const PART_AT_LIMIT: u32 = 8;

/// It lasts no shorter, though a quarter of RTTmin at most: a medium that aggregates hands over at once what leaves in less
/// (the longest transmission on Wi-Fi takes 5.5 ms).
const LEAST_DURATION: Duration = Duration::from_millis(4);

/// Two of the longest transmissions on Wi-Fi.
const LONG_DURATION: Duration = Duration::from_millis(11);

/// A pause that is longer than this part of RTTmin ends a train: no other is as slow.
const PAUSE_PART: u32 = 8;

/// A quarter of a shorter path is little more than the grain of timers, RFC 9002's kGranularity.
const SHORTEST_PATH: Duration = Duration::from_millis(8);

/// Fewer packets show nothing: HyStart++ takes as many round trips (N_RTT_SAMPLE, RFC 9406 section 4.2).
const LEAST_PACKETS: u64 = 8;

/// How far a receiver's claims may raise the rate of a train above that of the sender's own record, in which the wait for
/// the acknowledgement is: slow start would try as much.
const MOST_ABOVE_RECORD: f64 = 2.0;

/// The rate of a train that has arrived at once.
const AT_ONCE: Bandwidth = Bandwidth::from_bytes_per_second(u64::MAX);

/// Trains in a row without growth that show the rate of the path.
const PATIENCE: u32 = 2;

/// The newest packet of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Its number.
    pub packet_number: u64,
    /// When it left.
    pub left: Instant,
    /// When it arrived by what the receiver says, and a one-way delay later.
    pub arrived: Instant,
    /// When the acknowledgement came, and what had been delivered with it, bytes.
    pub acked: Instant,
    pub delivered: u64,
}

/// A train that leaves, or is on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Train {
    /// How much faster it leaves than what is proven.
    gain: f64,
    /// Bytes that belong to it, and that have left.
    volume: u64,
    sent: u64,
    /// Its first packet and its last, and when they left.
    first: Option<(u64, Instant)>,
    last: u64,
    last_left: Option<Instant>,
    /// What had been delivered before any of it.
    delivered: u64,
    /// The first and the last of its packets that were the newest of an acknowledgement.
    head: Option<Newest>,
    tail: Option<Newest>,
}

impl Train {
    fn new(gain: f64, volume: u64) -> Self {
        Self { gain, volume, ..Self::default() }
    }

    fn has_left(&self) -> bool {
        self.sent >= self.volume
    }

    fn has_packets(&self) -> bool {
        self.first.is_some_and(|(first, _)| self.last >= first + LEAST_PACKETS)
    }

    /// Whether a packet that leaves now does not belong to it: the pause before it is too long.
    fn is_interrupted(&self, now: Instant, path: &PathModel) -> bool {
        let longest =
            path.min_rtt.unwrap_or(ASSUMED_RTT) / PAUSE_PART + GRANULARITY + path.own_late;
        self.last_left.is_some_and(|left| now.saturating_duration_since(left) > longest)
    }

    fn on_sent(&mut self, now: Instant, packet_number: u64, bytes: u64) {
        self.first.get_or_insert((packet_number, now));
        self.last = packet_number;
        self.last_left = Some(now);
        self.sent += bytes;
    }

    /// Takes in an acknowledgement. True if all that has left of the train has been acknowledged or lost.
    fn on_acked(&mut self, newest: Newest) -> bool {
        let pn = newest.packet_number;
        let Some((first, _)) = self.first.filter(|&(first, _)| pn >= first) else {
            self.delivered = newest.delivered;
            return false;
        };
        if pn + LEAST_PACKETS <= self.last && self.head.is_none() {
            self.head = Some(newest);
        } else if pn <= self.last || self.tail.is_none_or(|tail| !are_apart(first, tail)) {
            // What left behind the train makes it slower, not faster.
            self.tail = Some(newest);
        }
        pn >= self.last
    }

    /// What it has shown, if that is anything; what was lost of one that left at `most` has shown nothing. Where one
    /// acknowledgement was for all of it, that is held against what a packet takes that does not queue.
    fn shown(&self, most: Bandwidth, path: &PathModel) -> Option<Shown> {
        let (first, began) = self.first?;
        let arrived = began + path.min_rtt?;
        let unqueued = Newest {
            packet_number: first,
            left: began,
            arrived,
            acked: arrived,
            delivered: self.delivered,
        };
        let (head, tail) = match (self.head, self.tail) {
            (Some(head), Some(tail)) if are_apart(head.packet_number, tail) => (head, tail),
            (head, tail) => (unqueued, tail.or(head)?),
        };
        if !are_apart(head.packet_number, tail) {
            return None;
        }
        let packets = tail.packet_number - head.packet_number;
        // Not all are as large as they may be.
        let sent = (self.sent * packets / (self.last - first + 1)).max(1);
        let bytes = tail.delivered.saturating_sub(head.delivered).min(sent);
        let left_in = tail.left.saturating_duration_since(head.left);
        // What timers and a late process add stretches no train.
        let noise = GRANULARITY + path.own_late;
        let over = |bytes, span| Bandwidth::from_delta(bytes, span).unwrap_or(AT_ONCE);
        let rate = |arrived_in: Duration| {
            over(bytes, if arrived_in > left_in + noise { arrived_in } else { left_in })
        };
        let recorded = tail.acked.saturating_duration_since(head.left + path.min_rtt?);
        let claimed = tail.arrived.saturating_duration_since(head.arrived);
        let arrival = rate(claimed).min(rate(recorded).scaled(MOST_ABOVE_RECORD));
        let most_arrived = most.scaled(bytes as f64 / sent as f64);
        Some(Shown {
            left: over(sent, left_in).min(most),
            arrived: arrival.min(most_arrived),
            stretch: arrival.time_for(bytes).saturating_sub(left_in),
        })
    }
}

/// Whether enough packets lie between the one of this number and `tail`.
fn are_apart(head: u64, tail: Newest) -> bool {
    tail.packet_number >= head + LEAST_PACKETS
}

/// What a train has shown.
#[derive(Clone, Copy, Debug)]
struct Shown {
    /// The rate at which it left.
    left: Bandwidth,
    /// The rate at which it arrived.
    arrived: Bandwidth,
    /// How much longer it took to arrive than to leave.
    stretch: Duration,
}

impl Shown {
    /// Whether it is less than that at which it left.
    fn is_slower(&self) -> bool {
        self.arrived.scaled(GROWTH) < self.left
    }
}

/// What the trains do.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::large_enum_variant, reason = "there is one for each path")]
enum State {
    /// The first begins with the next packet.
    #[default]
    Ready,
    /// One leaves, or is on its way.
    Active(Train),
    /// Startup does without.
    Over,
}

/// The trains of one Startup.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartupTrains {
    state: State,
    /// The rate that is proven.
    proven: Bandwidth,
    /// A train has shown something, and one has been stretched.
    has_proof: bool,
    has_limit: bool,
    /// Trains in a row without growth.
    stalls: u32,
    /// Pauses that the application may still make, and whether it makes one.
    pauses: u32,
    pauses_now: bool,
}

impl StartupTrains {
    /// Trains of packets that leave with the codepoint of `ecn`, which outlast so many pauses of the application. Towards
    /// an L4S queue, which holds a millisecond, each is as one behind a train that was stretched.
    pub fn new(ecn: Ecn, pauses: u32) -> Self {
        Self { has_limit: ecn == Ecn::L4s, pauses, ..Self::default() }
    }

    /// How fast to send, where `bandwidth` is known; `None` while Startup does without trains.
    pub fn pacing_rate(&self, bandwidth: Bandwidth) -> Option<Bandwidth> {
        let State::Active(train) = &self.state else { return None };
        let proven = self.proven.max(bandwidth);
        Some(if train.has_left() { proven } else { proven.scaled(train.gain) })
    }

    /// What may be in flight: what the proven rate delivers until that is acknowledged, and a train.
    pub fn inflight_cap(&self, bandwidth: Bandwidth, path: &PathModel) -> Option<u64> {
        let State::Active(train) = &self.state else { return None };
        let span = path.startup_rtt() + path.ack_interval + path.own_late;
        let cap = if self.has_proof {
            self.proven.max(bandwidth).bytes_in(span) + train.volume
        } else {
            bandwidth.bytes_in(span)
        };
        Some(cap.max(path.initial_window))
    }

    /// Whether the last trains have shown no more than was proven.
    pub fn show_no_more(&self) -> bool {
        self.stalls >= PATIENCE
    }

    /// Startup goes on without trains.
    pub fn end(&mut self) {
        *self = Self { state: State::Over, ..Self::default() };
    }

    /// A packet of data leaves. True if the rate changes with it.
    pub fn on_sent(&mut self, now: Instant, sent: (u64, u64), path: &PathModel) -> bool {
        if matches!(self.state, State::Ready) {
            let round_trip = path.min_rtt.unwrap_or(ASSUMED_RTT);
            if round_trip < SHORTEST_PATH {
                self.end();
                return false;
            }
            // The initial window leaves at once, and is the first.
            let rate = Bandwidth::from_delta(path.initial_window, round_trip);
            self.proven = rate.unwrap_or_default();
            self.state = State::Active(Train::new(self.gain(round_trip), path.initial_window));
        }
        self.pauses_now = false;
        match &mut self.state {
            State::Active(train) if !train.has_left() => {
                if train.is_interrupted(now, path) {
                    if train.has_packets() {
                        train.volume = train.sent;
                        return true;
                    }
                    *train = Train::new(train.gain, train.volume);
                }
                let begins = train.first.is_none();
                train.on_sent(now, sent.0, sent.1);
                begins || train.has_left()
            }
            _ => false,
        }
    }

    /// The application has nothing more to send. A few packets that are said before the data comes are no train.
    pub fn on_run_dry(&mut self) {
        let State::Active(train) = &self.state else { return };
        if std::mem::replace(&mut self.pauses_now, true) {
            return;
        }
        if !self.has_proof && !train.has_packets() {
            self.state = State::Ready;
            return;
        }
        match self.pauses.checked_sub(1) {
            Some(left) => self.pauses = left,
            None => self.end(),
        }
    }

    /// All packets up to `newest` have been acknowledged or may be lost. Of late packets were held up for `held_up`.
    pub fn on_acked(&mut self, newest: Newest, held_up: Duration, path: &PathModel) {
        let State::Active(train) = &mut self.state else { return };
        if !train.on_acked(newest) {
            return;
        }
        if !train.has_left() && !train.has_packets() {
            *train = Train::new(train.gain, train.volume);
            return;
        }
        let train = *train;
        let most = self.proven.scaled(train.gain);
        let growth = self.proven.scaled(GROWTH);
        let Some(shown) = train.shown(most, path).filter(|shown| shown.left >= growth) else {
            return self.end();
        };
        // TACK-6.2-14: what jitter and hold-ups do as well is no rate of the path's.
        let longest = path.jitter_both_ways.max(held_up);
        let by_jitter = !shown.stretch.is_zero() && shown.stretch <= longest;
        if by_jitter && shown.is_slower() {
            return self.end();
        }
        self.stalls = if shown.arrived < growth { self.stalls + 1 } else { 0 };
        self.has_limit |= shown.is_slower();
        self.has_proof = true;
        self.proven = self.proven.max(shown.arrived);
        self.begin(path);
    }

    fn gain(&self, round_trip: Duration) -> f64 {
        if self.has_limit {
            GAIN_AT_LIMIT
        } else {
            (round_trip.as_secs_f64() / LONG_DURATION.as_secs_f64() / f64::from(PART))
                .clamp(GAIN, MOST_GAIN)
        }
    }

    fn begin(&mut self, path: &PathModel) {
        let round_trip = path.min_rtt.unwrap_or(ASSUMED_RTT);
        let gain = self.gain(round_trip);
        let part = if self.has_limit { PART_AT_LIMIT } else { PART };
        let least = LEAST_DURATION.min(round_trip / 4);
        let duration = (round_trip / part).div_f64(gain).max(least);
        let volume = self.proven.scaled(gain).bytes_in(duration);
        self.state = State::Active(Train::new(gain, volume));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::bbr::tests::{MS, PATH, rate};

    /// What a path does to the packets of a train that leaves as fast as it may: they pass a bottleneck of
    /// `bottleneck` bytes per second, and the receiver acknowledges every `every`th and the last.
    struct Line {
        trains: StartupTrains,
        now: Instant,
        next: u64,
        bottleneck: u64,
        every: u64,
        /// How much of the time that it took to acknowledge them the receiver says that it was holding.
        claims: f64,
    }

    impl Line {
        fn new(bottleneck: u64) -> Self {
            Self {
                trains: StartupTrains::default(),
                now: crate::test_clock(),
                next: 0,
                bottleneck,
                every: 1,
                claims: 0.0,
            }
        }

        /// Sends a train, and has it acknowledged; the rate at which it left.
        fn train(&mut self) -> u64 {
            let (began, first) = (self.now, self.next);
            let mut left = Vec::new();
            loop {
                let sent = (self.next, PATH.mss);
                self.trains.on_sent(self.now, sent, &PATH);
                left.push((self.next, self.now));
                self.next += 1;
                let State::Active(train) = &self.trains.state else { panic!("no train") };
                if train.has_left() {
                    break;
                }
                let pace = self.trains.pacing_rate(Bandwidth::ZERO).unwrap();
                // The first is at once, as the initial window.
                if first > 0 {
                    self.now += pace.time_for(PATH.mss);
                }
            }
            let span = self.now.duration_since(began);
            let mut served = began;
            let last = self.next - 1;
            for (pn, at) in left {
                served = served.max(at) + rate(self.bottleneck).time_for(PATH.mss);
                if pn % self.every == 0 || pn == last {
                    let acked = served + 40 * MS;
                    let waited = served.duration_since(at).mul_f64(self.claims);
                    let newest = Newest {
                        packet_number: pn,
                        left: at,
                        arrived: acked.checked_sub(waited).unwrap(),
                        acked,
                        delivered: (pn + 1) * PATH.mss,
                    };
                    self.trains.on_acked(newest, Duration::ZERO, &PATH);
                    self.now = acked;
                }
            }
            let bytes = (self.next - first - 1) * PATH.mss;
            Bandwidth::from_delta(bytes, span).map_or(0, Bandwidth::bytes_per_second)
        }

        fn proven(&self) -> u64 {
            self.trains.proven.bytes_per_second()
        }
    }

    /// Ten packets in 40 ms.
    const INITIAL: u64 = 312_500;

    #[test]
    fn trains_quadruple_the_rate_until_one_shows_that_of_the_path() {
        let mut line = Line::new(12_500_000);
        let mut proven = Vec::new();
        for _ in 0..4 {
            line.train();
            proven.push(line.proven());
        }
        assert_eq!(proven[..2], [4 * INITIAL, 16 * INITIAL], "TACK-6.2-14");
        let shown = proven[2];
        assert!(
            (12_400_000..12_600_000).contains(&shown),
            "{shown}, the path carries 12.5 MB/s"
        );
        assert!(!line.trains.show_no_more());
        line.train();
        assert!(line.trains.show_no_more(), "two trains without growth");
    }

    #[test]
    fn trains_of_a_long_path_are_as_large_and_faster() {
        for (min_rtt, gain) in [(80 * MS, 4.0), (110 * MS, 5.0), (600 * MS, 8.0)] {
            let path = PathModel { min_rtt: Some(min_rtt), ..PATH };
            let mut trains = StartupTrains { proven: rate(1_000_000), ..Default::default() };
            trains.begin(&path);
            let State::Active(train) = trains.state else { panic!("no train") };
            assert!((train.gain - gain).abs() < 1e-6, "{min_rtt:?}: {}", train.gain);
            let half = rate(1_000_000).bytes_in(min_rtt / 2);
            assert!(train.volume.abs_diff(half) < 10, "{min_rtt:?}: {}", train.volume);
        }
    }

    #[test]
    fn what_follows_a_train_leaves_at_the_rate_that_is_proven() {
        let mut line = Line::new(125_000_000);
        line.train();
        let pace = |trains: &StartupTrains| trains.pacing_rate(Bandwidth::ZERO).unwrap();
        assert_eq!(pace(&line.trains), rate(16 * INITIAL), "a train may begin");
        let volume = 40 * PATH.mss / 2;
        let mut sent = 0;
        while pace(&line.trains) > rate(4 * INITIAL) {
            line.trains.on_sent(line.now, (line.next, PATH.mss), &PATH);
            (line.next, sent) = (line.next + 1, sent + PATH.mss);
        }
        assert_eq!(sent, volume, "half of what the rate delivers in a round trip");
        let cap = line.trains.inflight_cap(Bandwidth::ZERO, &PATH).unwrap();
        assert_eq!(cap, rate(4 * INITIAL).bytes_in(40 * MS + PATH.ack_interval) + volume);
    }

    #[test]
    fn one_acknowledgement_for_a_train_is_held_against_rttmin() {
        for (bottleneck, proven) in [(125_000_000, 4 * INITIAL), (1_250_000, 1_250_000)] {
            let mut line = Line { every: 1000, ..Line::new(bottleneck) };
            line.next = 1;
            line.train();
            let shown = line.proven();
            assert!(shown <= proven * 5 / 4 && shown >= proven * 9 / 10, "{shown} of {proven}");
        }
    }

    #[test]
    fn a_receiver_that_claims_to_have_waited_proves_twice_the_record_at_most() {
        let honest = |claims| {
            let mut line = Line { claims, ..Line::new(2_500_000) };
            for _ in 0..5 {
                line.train();
            }
            line.proven()
        };
        let (honest, liar) = (honest(0.0), honest(1.0));
        assert!((2_400_000..2_600_000).contains(&honest), "{honest}");
        assert!(liar <= 2 * honest, "{liar}");
    }

    #[test]
    fn what_a_train_has_lost_proves_nothing() {
        let mut trains = StartupTrains::default();
        let now = crate::test_clock();
        for pn in 0..10 {
            trains.on_sent(now, (pn, PATH.mss), &PATH);
        }
        let acked = now + 40 * MS;
        let arrived =
            Newest { packet_number: 9, left: now, arrived: acked, acked, delivered: 0 };
        trains.on_acked(Newest { delivered: 3 * PATH.mss, ..arrived }, Duration::ZERO, &PATH);
        assert_eq!(trains.proven.bytes_per_second(), 4 * INITIAL / 3, "three of nine, at once");
    }

    #[test]
    fn a_late_process_is_no_slow_path() {
        let mut trains = StartupTrains::default();
        let now = crate::test_clock();
        for pn in 0..10 {
            trains.on_sent(now, (pn, PATH.mss), &PATH);
        }
        let path = PathModel { own_late: 20 * MS, ..PATH };
        let acked = now + 40 * MS + 15 * MS;
        let newest = Newest {
            packet_number: 9,
            left: now,
            arrived: acked,
            acked,
            delivered: 10 * PATH.mss,
        };
        trains.on_acked(newest, Duration::ZERO, &path);
        assert_eq!(trains.proven, rate(4 * INITIAL), "TACK-6.2-11");
    }

    /// Ten packets at once, of which the last is acknowledged so much later than RTTmin.
    fn stretched(trains: &mut StartupTrains, stretch: Duration, path: &PathModel) {
        held_up(trains, stretch, Duration::ZERO, path);
    }

    /// The same where packets were held up for a while.
    fn held_up(
        trains: &mut StartupTrains,
        stretch: Duration,
        held_up: Duration,
        path: &PathModel,
    ) {
        let left = crate::test_clock();
        let first = 10 * u64::from(trains.has_proof);
        for pn in first..first + 10 {
            trains.on_sent(left, (pn, PATH.mss), path);
        }
        let acked = left + 40 * MS + stretch;
        let packet_number = first + 9;
        let delivered = (first + 10) * PATH.mss;
        let newest = Newest { packet_number, left, arrived: acked, acked, delivered };
        trains.on_acked(newest, held_up, path);
    }

    #[test]
    fn a_train_that_jitter_may_have_stretched_ends_trains_and_shows_no_rate() {
        let jittery = PathModel { jitter_both_ways: 30 * MS, ..PATH };
        let mut trains = StartupTrains::default();
        stretched(&mut trains, 25 * MS, &jittery);
        assert!(matches!(trains.state, State::Over), "TACK-6.2-14");
        let mut trains = StartupTrains::default();
        stretched(&mut trains, 35 * MS, &jittery);
        assert!(trains.has_limit && matches!(trains.state, State::Active(_)));
        stretched(&mut trains, 25 * MS, &PATH);
        assert!(matches!(trains.state, State::Active(_)), "it does not jitter any more");
        held_up(&mut trains, 25 * MS, 25 * MS, &PATH);
        assert!(matches!(trains.state, State::Over), "TACK-6.2-19");
        stretched(&mut trains, 25 * MS, &jittery);
        assert!(matches!(trains.state, State::Over), "nor has it been stretched any more");
    }

    /// What the application sends between two pauses.
    fn burst(trains: &mut StartupTrains, now: Instant, packets: std::ops::Range<u64>) {
        for pn in packets {
            trains.on_sent(now, (pn, PATH.mss), &PATH);
        }
        trains.on_run_dry();
        trains.on_run_dry();
    }

    #[test]
    fn an_application_that_pauses_again_and_again_sends_no_more_trains() {
        let mut trains = StartupTrains::new(Ecn::Off, 2);
        let now = crate::test_clock();
        trains.on_sent(now, (0, 100), &PATH);
        trains.on_run_dry();
        assert!(matches!(trains.state, State::Ready), "a few packets are no train");
        burst(&mut trains, now, 1..10);
        burst(&mut trains, now, 10..20);
        trains.on_sent(now, (20, PATH.mss), &PATH);
        assert!(trains.pacing_rate(Bandwidth::ZERO).is_some(), "two pauses");
        trains.on_run_dry();
        trains.on_sent(now, (21, PATH.mss), &PATH);
        assert_eq!(trains.pacing_rate(Bandwidth::ZERO), None);
    }

    #[test]
    fn a_question_of_many_packets_is_a_train_behind_which_the_data_follows_faster() {
        let mut trains = StartupTrains::new(Ecn::Off, 2);
        let now = crate::test_clock();
        burst(&mut trains, now, 0..9);
        let acked = now + 40 * MS;
        let newest = Newest {
            packet_number: 8,
            left: now,
            arrived: acked,
            acked,
            delivered: 9 * PATH.mss,
        };
        trains.on_acked(newest, Duration::ZERO, &PATH);
        assert_eq!(trains.proven, rate(4 * INITIAL), "all at once");
        let pace = trains.pacing_rate(Bandwidth::ZERO);
        assert_eq!(pace, Some(rate(16 * INITIAL)), "a train may begin");
        for pn in 9..12 {
            trains.on_sent(acked, (pn, PATH.mss), &PATH);
        }
        trains.on_run_dry();
        trains.on_sent(acked, (12, PATH.mss), &PATH);
        assert_eq!(trains.pacing_rate(Bandwidth::ZERO), pace, "it begins again");
    }

    #[test]
    fn a_path_of_a_few_milliseconds_has_no_trains() {
        let mut trains = StartupTrains::default();
        let path = PathModel { min_rtt: Some(7 * MS), ..PATH };
        assert!(!trains.on_sent(crate::test_clock(), (0, PATH.mss), &path));
        assert_eq!(trains.pacing_rate(Bandwidth::ZERO), None);
        assert_eq!(trains.inflight_cap(Bandwidth::ZERO, &path), None);
    }

    /// What the trains come to behind packets of this size that left at once and then acknowledgements up to `acked`.
    fn acknowledged(size: u64, acked: &[u64]) -> StartupTrains {
        let mut trains = StartupTrains::default();
        let now = crate::test_clock();
        for pn in 0..10 {
            trains.on_sent(now, (pn, size), &PATH);
        }
        let at = now + 40 * MS;
        for &packet_number in acked {
            let delivered = (packet_number + 1) * size;
            let newest = Newest { packet_number, left: now, arrived: at, acked: at, delivered };
            trains.on_acked(newest, Duration::ZERO, &PATH);
        }
        trains
    }

    #[test]
    fn a_train_of_few_packets_shows_nothing() {
        let trains = acknowledged(2 * PATH.mss, &[3, 5]);
        assert_eq!(trains.pacing_rate(Bandwidth::ZERO), None);
    }

    #[test]
    fn a_train_that_is_acknowledged_with_what_follows_it_is_as_fast_as_both() {
        assert_eq!(acknowledged(PATH.mss, &[3, 12]).proven, rate(4 * INITIAL));
        // A round trip behind it: it has not arrived at once, nor has it left at once.
        let trains = acknowledged_with_later(40 * MS);
        assert_eq!(trains.proven.bytes_per_second(), 20 * PATH.mss * 25 * 19 / 20);
        assert!(!trains.has_limit, "it was not stretched");
        // So late that they say nothing of a higher rate.
        let trains = acknowledged_with_later(80 * MS);
        assert_eq!(trains.pacing_rate(Bandwidth::ZERO), None);
    }

    /// A train of ten packets at once, whose end is acknowledged with the tenth of those that leave so long after it.
    fn acknowledged_with_later(behind: Duration) -> StartupTrains {
        let mut trains = StartupTrains::default();
        let now = crate::test_clock();
        for pn in 0..10 {
            trains.on_sent(now, (pn, PATH.mss), &PATH);
        }
        for (packet_number, left) in [(3, now), (19, now + behind)] {
            let acked = left + 40 * MS;
            let delivered = (packet_number + 1) * PATH.mss;
            let newest = Newest { packet_number, left, arrived: acked, acked, delivered };
            trains.on_acked(newest, Duration::ZERO, &PATH);
        }
        trains
    }

    #[test]
    fn a_packet_behind_a_pause_does_not_belong_to_the_train() {
        let now = crate::test_clock();
        for (before, is_train) in [(9, true), (8, false)] {
            let mut trains = StartupTrains::default();
            for pn in 0..before {
                trains.on_sent(now, (pn, PATH.mss), &PATH);
            }
            trains.on_sent(now + 7 * MS, (before, PATH.mss), &PATH);
            let State::Active(train) = trains.state else { panic!("no train") };
            let first = if is_train { 0 } else { before };
            assert_eq!(
                (train.first.unwrap().0, train.has_left()),
                (first, is_train),
                "{before}"
            );
        }
    }

    #[test]
    fn packets_that_are_smaller_than_they_may_be_are_not_lost() {
        let mut trains = acknowledged(PATH.mss, &[9]);
        let before = trains.proven;
        let (mut now, mut sent) = (crate::test_clock() + 40 * MS, Vec::new());
        let pace = trains.pacing_rate(Bandwidth::ZERO).unwrap();
        let size = PATH.mss * 3 / 4;
        while trains.pacing_rate(Bandwidth::ZERO) == Some(pace) {
            sent.push(now);
            trains.on_sent(now, (9 + sent.len() as u64, size), &PATH);
            now += pace.time_for(size);
        }
        for (packet_number, &left) in (10..).zip(&sent) {
            let at = left + 40 * MS;
            let delivered = 10 * PATH.mss + (packet_number - 9) * size;
            let newest = Newest { packet_number, left, arrived: at, acked: at, delivered };
            trains.on_acked(newest, Duration::ZERO, &PATH);
        }
        assert!(trains.proven > before.scaled(0.99 * GAIN), "{:?}", trains.proven);
        assert!(!trains.has_limit);
    }
}
