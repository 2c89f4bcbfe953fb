//! The answer to the marks of an L4S queue: a Scalable congestion control (RFC 9331 section 4.3,
//! TACK-6.5-10).
//!
//! Such a queue marks from a millisecond on. What probes with gains, or falls by tenths, passes that
//! threshold by a multiple or leaves the link idle. From the first marks on the rate therefore follows
//! them alone: each round trip adds a packet to what a round trip carries, and each mark takes half of
//! one away. In a steady state two packets are marked in each round trip at any rate, as with DCTCP's and
//! Prague's alpha/2, but without their smoothing: an acknowledgement says how many packets were
//! marked, so there is no share to be estimated.
//!
//! Where this flow is alone, all of a round trip's packets are marked before the answer to the first one
//! shows. What was delivered in that time is what the path carries, so nothing is gained by falling
//! further below that than it takes to drain the queue.

use std::time::{Duration, Instant};

use crate::bandwidth::Bandwidth;

/// Shorter paths count as that long (Prague's RTT_virt, draft-briscoe-iccrg-prague-congestion-control
/// section 2.4.4): Classic traffic beside them waits in a queue of 15 ms, and would be left the less the
/// shorter the path is.
const VIRTUAL_RTT: Duration = Duration::from_millis(25);

/// What a mark takes: half of a packet.
const MARK: f64 = 0.5;

/// The queue that a round trip of marks drains at the most.
const DRAINS: Duration = Duration::from_millis(1);

/// Rounds above what the path carried when it last marked, behind which it has become faster.
const PATIENCE: f64 = 16.0;

/// From then on a round adds half of what a round of marks drains, then this part of what was found so far,
/// and no more than a probe of BBR's.
const OF_WHAT_WAS_FOUND: f64 = 0.0625;
const MOST_GROWTH: f64 = 0.25;

/// How far the rate may be above what was delivered: as far as in a probe of BBR's.
const ABOVE_DELIVERED: f64 = 1.25;

/// A queue that is longer for a whole round is none of L4S: nothing marks there, or a Classic AQM does, and
/// waits for the answer to a loss (RFC 9331 section 4.3). TARGET of CoDel (RFC 8289 section 4.4), and some
/// packets, since the marks of an L4S queue begin with the second that waits (RFC 9332 appendix A.1).
const LONGEST_QUEUE: Duration = Duration::from_millis(5);
const LONGEST_QUEUE_PACKETS: u64 = 4;

/// Whether what took `round_trip` has met the queue of an L4S link of that rate, or a shorter one.
pub(super) fn is_l4s_queue(
    round_trip: Duration,
    path_rtt: Duration,
    rate: Bandwidth,
    mss: u64,
) -> bool {
    round_trip <= path_rtt + LONGEST_QUEUE + rate.time_for(LONGEST_QUEUE_PACKETS * mss)
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signals {
    /// Packets that it newly reports as CE.
    pub ce: u64,
    /// What was delivered in the last round trip.
    pub delivered: Option<Bandwidth>,
    /// The highest rate of late.
    pub max_bw: Bandwidth,
    pub app_limited: bool,
    /// The round trip that came with it, and how long one is where nothing queues.
    pub round_trip: Option<Duration>,
    pub path_rtt: Duration,
    pub mss: u64,
}

/// The rate by marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scalable {
    /// Bytes per second.
    rate: f64,
    last: Instant,
    /// What the marks of a round leave at least, and until when.
    least: f64,
    round_ends: Instant,
    /// What the path carried when it last marked, and how many rounds ago the rate was that high again.
    carried: f64,
    rounds_above: f64,
    /// The shortest round trip since then.
    watched_since: Instant,
    shortest: Option<Duration>,
}

impl Scalable {
    /// The path has marked at this rate.
    pub fn new(now: Instant, carried: Bandwidth, path_rtt: Duration) -> Self {
        let carried = carried.bytes_per_second() as f64;
        let round = path_rtt.max(VIRTUAL_RTT);
        let rate = carried * drained(round);
        Self {
            rate,
            last: now,
            least: rate,
            // What the first marks have seen drains until then.
            round_ends: now + 2 * round,
            carried,
            // That is an estimate from below: Startup's samples span its growth.
            rounds_above: PATIENCE,
            watched_since: now,
            shortest: None,
        }
    }

    /// The rate.
    pub fn rate(&self) -> Bandwidth {
        Bandwidth::from_bytes_per_second(self.rate as u64)
    }

    /// An acknowledgement has arrived. False if packets wait longer than in front of an L4S link.
    pub fn on_acked(&mut self, now: Instant, signals: &Signals) -> bool {
        let round = signals.path_rtt.max(VIRTUAL_RTT);
        let passed = now.saturating_duration_since(self.last).min(round);
        self.last = now;
        let rounds = passed.as_secs_f64() / round.as_secs_f64();
        // A packet in a round trip.
        let packet = signals.mss as f64 / round.as_secs_f64();
        if !signals.app_limited {
            self.grow(rounds, packet, round);
            let most = signals.max_bw.bytes_per_second() as f64 * ABOVE_DELIVERED;
            self.rate = self.rate.min(most);
        }
        if signals.ce > 0 {
            if now >= self.round_ends {
                let delivered = signals.delivered.map(|rate| rate.bytes_per_second() as f64);
                self.least = delivered.unwrap_or(self.rate).min(self.rate) * drained(round);
                // With a queue to drain the rate is below that, and behind a pause the sample.
                self.carried = delivered.unwrap_or(self.rate).max(self.rate);
                self.round_ends = now + round;
                self.rounds_above = 0.0;
            }
            let left = self.rate - MARK * signals.ce as f64 * packet;
            self.rate = left.max(self.least.min(self.rate));
        }
        self.watch_queue(now, signals, round)
    }

    /// Grows for so many rounds, of which each adds so much.
    fn grow(&mut self, rounds: f64, packet: f64, round: Duration) {
        if self.rate > self.carried {
            self.rounds_above += rounds;
        }
        let mut step = packet;
        if self.rounds_above >= PATIENCE {
            let found = (self.rate / self.carried.max(1.0) - 1.0) * OF_WHAT_WAS_FOUND;
            step = step.max(self.rate * found.clamp((1.0 - drained(round)) / 2.0, MOST_GROWTH));
        }
        self.rate += step * rounds;
    }

    fn watch_queue(&mut self, now: Instant, signals: &Signals, round: Duration) -> bool {
        self.shortest = self.shortest.into_iter().chain(signals.round_trip).min();
        if now < self.watched_since + round {
            return true;
        }
        self.watched_since = now;
        let (path_rtt, rate, mss) = (signals.path_rtt, self.rate(), signals.mss);
        let is_l4s = |shortest: Duration| is_l4s_queue(shortest, path_rtt, rate, mss);
        self.shortest.take().is_none_or(is_l4s)
    }
}

/// What drains the queue within a round.
fn drained(round: Duration) -> f64 {
    1.0 - DRAINS.as_secs_f64() / round.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PACKET: u64 = 1250;
    /// 50 Mbit/s.
    const LINK: f64 = 6_250_000.0;

    /// An acknowledgement in each tenth of a round trip of `rtt`.
    struct Flow {
        scalable: Scalable,
        now: Instant,
        rtt: Duration,
    }

    impl Flow {
        fn new(carried: f64, rtt: Duration) -> Self {
            let now = crate::test_clock();
            Self { scalable: Scalable::new(now, bandwidth(carried), rtt), now, rtt }
        }

        /// The same behind a mark that has shown what the path carries.
        fn settled(carried: f64, rtt: Duration) -> Self {
            let mut flow = Self::new(carried, rtt);
            flow.now += 2 * VIRTUAL_RTT.max(rtt);
            flow.step(1, carried, |signals| signals.app_limited = true);
            flow
        }

        /// A tenth of a round trip in which so many packets are marked and so much is delivered each second.
        fn step(&mut self, ce: u64, delivered: f64, change: impl FnOnce(&mut Signals)) -> bool {
            self.now += self.rtt / 10;
            let mut signals = Signals {
                ce,
                delivered: Some(bandwidth(delivered)),
                max_bw: bandwidth(f64::MAX),
                app_limited: false,
                round_trip: Some(self.rtt),
                path_rtt: self.rtt,
                mss: PACKET,
            };
            change(&mut signals);
            self.scalable.on_acked(self.now, &signals)
        }

        fn round_trips(&mut self, count: u32) {
            for _ in 0..10 * count {
                assert!(self.step(0, LINK, |_| ()));
            }
        }

        /// Bytes per second.
        fn rate(&self) -> f64 {
            self.scalable.rate().bytes_per_second() as f64
        }
    }

    fn bandwidth(rate: f64) -> Bandwidth {
        Bandwidth::from_bytes_per_second(rate as u64)
    }

    #[test]
    fn a_round_trip_adds_a_packet_and_a_mark_takes_half_of_one() {
        let mut flow = Flow::settled(LINK, 100 * MS);
        flow.round_trips(1);
        let (before, packet) = (flow.rate(), PACKET as f64 / 0.1);
        flow.round_trips(1);
        assert!((flow.rate() - before - packet).abs() < packet / 100.0, "{}", flow.rate());
        let before = flow.rate();
        flow.step(2, LINK, |_| ());
        let fell = before + packet / 10.0 - flow.rate();
        assert!((fell - packet).abs() < packet / 100.0, "{fell}");
    }

    #[test]
    fn two_marks_in_a_round_trip_hold_any_rate_where_it_is() {
        for link in [LINK / 10.0, LINK, 10.0 * LINK] {
            let mut flow = Flow::settled(link, 50 * MS);
            let before = flow.rate();
            for tenth in 0..1000 {
                flow.step(u64::from(tenth % 5 == 0), flow.rate(), |_| ());
            }
            let packets = (flow.rate() - before).abs() / (PACKET as f64 / 0.05);
            assert!(packets < 1.5, "{packets} packets from {before}");
        }
    }

    #[test]
    fn a_shorter_path_answers_as_one_of_25_ms() {
        let mut flows = [5, 25].map(|rtt| Flow::settled(LINK, rtt * MS));
        flows[0].round_trips(5);
        flows[1].round_trips(1);
        let [short, long] = flows.map(|flow| flow.rate());
        assert!((short - long).abs() < 10.0, "{short} and {long}");
    }

    #[test]
    fn a_round_trip_full_of_marks_takes_what_drains_the_queue_and_no_more() {
        let mut flow = Flow::settled(LINK, 50 * MS);
        flow.round_trips(8);
        assert!(flow.rate() > LINK);
        for _ in 0..10 {
            flow.step(25, LINK, |_| ());
        }
        let least = LINK * (1.0 - 0.001 / 0.05);
        assert!((flow.rate() - least).abs() < 0.01 * LINK, "{}", flow.rate());
        assert!(flow.rate() >= least);
        // A queue that is still there by then, and what it delivers, is another's too.
        for _ in 0..30 {
            flow.step(25, LINK / 2.0, |_| ());
        }
        assert!(flow.rate() < 0.55 * LINK, "{}", flow.rate());
    }

    #[test]
    fn a_path_that_has_become_faster_is_followed_faster_and_faster() {
        let mut flow = Flow::settled(LINK, 50 * MS);
        flow.round_trips(15);
        assert!(flow.rate() < 1.1 * LINK, "{}", flow.rate());
        flow.round_trips(85);
        assert!(flow.rate() > 3.0 * LINK, "{}", flow.rate());
        let mut flow = Flow::settled(LINK, 50 * MS);
        for _ in 0..100 {
            flow.round_trips(1);
            flow.step(1, flow.rate(), |_| ());
        }
        assert!(flow.rate() < 1.5 * LINK, "{}: it has marked all the time", flow.rate());
    }

    #[test]
    fn the_rate_grows_no_further_than_a_quarter_above_what_was_delivered() {
        let mut flow = Flow::new(LINK, 50 * MS);
        for _ in 0..1000 {
            flow.step(0, LINK, |signals| signals.max_bw = bandwidth(LINK));
        }
        assert!((flow.rate() - 1.25 * LINK).abs() < 10.0, "{}", flow.rate());
    }

    #[test]
    fn an_application_that_pauses_earns_no_rate() {
        let mut flow = Flow::new(LINK, 50 * MS);
        let before = flow.rate();
        for _ in 0..1000 {
            flow.step(0, LINK, |signals| signals.app_limited = true);
        }
        assert!((flow.rate() - before).abs() < 1.0);
    }

    #[test]
    fn a_queue_that_stands_for_a_round_is_not_an_l4s_queue_marked_or_not() {
        for ce in [0, 1] {
            let mut flow = Flow::new(LINK, 50 * MS);
            let slow = |signals: &mut Signals| signals.round_trip = Some(60 * MS);
            assert!((0..20).any(|_| !flow.step(ce, LINK, slow)));
            let mut flow = Flow::new(LINK, 50 * MS);
            for tenth in 0..50_u64 {
                let short = |signals: &mut Signals| {
                    signals.round_trip = Some(if tenth % 10 == 0 { 50 * MS } else { 60 * MS });
                };
                assert!(flow.step(ce, LINK, short), "not all packets queue");
            }
        }
    }

    #[test]
    fn counts_beyond_reason_do_no_harm() {
        let mut flow = Flow::new(LINK, 50 * MS);
        for _ in 0..1000 {
            flow.step(u64::MAX, 0.0, |_| ());
        }
        assert_eq!(flow.scalable.rate(), Bandwidth::ZERO);
        flow.round_trips(1);
        assert!(flow.rate() > 0.0, "it recovers");
    }
}
