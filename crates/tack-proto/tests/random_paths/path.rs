//! A path that a seed decides.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_proto::ecn::Ecn;

use crate::marking::{Aqm, Mangling};
use crate::simulation::PACKET;

/// No queue is shorter, in packets: the initial window of RFC 9002 section 7.2.
const SHORTEST_QUEUE: u64 = 10;

/// RED lets no fewer packets wait unmarked, and marks all only where three times as many wait: what
/// "RED: Discussions of Setting Parameters" (S. Floyd, 1997) recommends.
const LEAST_RED_PACKETS: u64 = 5;

/// What a path is like. What has a range is drawn uniformly on a logarithmic scale.
#[derive(Clone, Debug)]
pub struct Path {
    /// Bytes per second: 0.1 to 1,000 Mbit/s.
    pub rate: f64,
    /// Round trip without queues: 1 to 800 ms.
    pub round_trip: Duration,
    /// Bytes that wait in front of the bottleneck at most: 0.1 to 10 bandwidth-delay products.
    pub queue: u64,
    /// Share of data packets lost behind the queue: up to 20 %, or none.
    pub loss: f64,
    /// Share of acknowledgements lost.
    pub ack_loss: f64,
    /// Each packet is late by any time up to this, and overtakes none.
    pub jitter: Duration,
    /// Share of packets that others overtake.
    pub reordered: f64,
    /// How late those are.
    pub reordered_by: Duration,
    /// From when to when the bottleneck stands still, after the start, in order.
    pub blackouts: Vec<(Duration, Duration)>,
    /// What the sender marks its packets with.
    pub ecn: Ecn,
    /// What the queue marks.
    pub aqm: Aqm,
    /// What happens to marks behind the queue, and from when on.
    pub mangling: (Mangling, Duration),
}

impl Path {
    /// The path of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let rate = between(&mut random, 0.1, 1000.0) * 125_000.0;
        let rtt = between(&mut random, 0.001, 0.8);
        let queue = (between(&mut random, 0.1, 10.0) * rate * rtt) as u64;
        let mut path = Self {
            rate,
            round_trip: Duration::from_secs_f64(rtt),
            queue: queue.max(SHORTEST_QUEUE * PACKET),
            loss: 0.0,
            ack_loss: 0.0,
            jitter: Duration::ZERO,
            reordered: 0.0,
            reordered_by: Duration::ZERO,
            blackouts: Vec::new(),
            ecn: Ecn::Off,
            aqm: Aqm::Off,
            mangling: (Mangling::Off, Duration::ZERO),
        };
        if random.random_bool(0.6) {
            path.loss = between(&mut random, 1e-4, 0.2);
        }
        if random.random_bool(0.6) {
            path.ack_loss = between(&mut random, 1e-4, 0.2);
        }
        if random.random_bool(0.3) {
            path.jitter = Duration::from_secs_f64(between(&mut random, rtt / 100.0, rtt));
        }
        if random.random_bool(0.3) {
            path.reordered = between(&mut random, 1e-4, 0.1);
            path.reordered_by = Duration::from_secs_f64(between(&mut random, rtt / 50.0, rtt));
        }
        if random.random_bool(0.3) {
            let mut at = Duration::ZERO;
            for _ in 0..random.random_range(1..=4) {
                at += Duration::from_secs_f64(between(&mut random, 0.1, 10.0));
                let end = at + Duration::from_secs_f64(between(&mut random, 0.02, 3.0));
                path.blackouts.push((at, end));
                at = end;
            }
        }
        path.draw_marks(&mut random);
        path
    }

    /// Draws what has to do with ECN. A codepoint and a queue are drawn apart from each other: queues
    /// of RFC 3168 mark ECT(1), too.
    fn draw_marks(&mut self, random: &mut Pcg64Mcg) {
        self.ecn = [Ecn::Off, Ecn::Off, Ecn::Classic, Ecn::L4s][random.random_range(0..4)];
        self.aqm = match random.random_range(0..5) {
            0 => Aqm::Step(seconds(random, 0.0005, 0.005)),
            1 => {
                let low =
                    seconds(random, 0.001, 0.05).max(self.time_for(LEAST_RED_PACKETS * PACKET));
                Aqm::Red(low, low.mul_f64(between(random, 3.0, 10.0)))
            }
            2 => Aqm::CoDel,
            _ => Aqm::Off,
        };
        if random.random_bool(0.2) {
            self.mangling.0 = [
                Mangling::Bleaches,
                Mangling::SetsCe,
                Mangling::Swaps,
                Mangling::ClearsCe,
                Mangling::Drops,
            ][random.random_range(0..5)];
            if random.random_bool(0.5) {
                self.mangling.1 = seconds(random, 0.1, 10.0);
            }
        }
    }

    /// The same path without marks, and without a queue that would drop instead.
    pub fn without_marks(self) -> Self {
        Self { ecn: Ecn::Off, aqm: Aqm::Off, mangling: (Mangling::Off, Duration::ZERO), ..self }
    }

    /// When the bottleneck works, at this time after the start or as soon as it does again.
    pub fn working(&self, at: Duration) -> Duration {
        let over = self.blackouts.iter().find(|(from, to)| (*from..*to).contains(&at));
        over.map_or(at, |(_, to)| *to)
    }

    /// How long the bottleneck stands still between two times after the start.
    pub fn blackout(&self, from: Duration, to: Duration) -> Duration {
        let overlap = |blackout: &(Duration, Duration)| {
            blackout.1.min(to).saturating_sub(blackout.0.max(from))
        };
        self.blackouts.iter().map(overlap).sum()
    }

    /// How long so many bytes take.
    pub fn time_for(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.rate)
    }
}

fn seconds(random: &mut Pcg64Mcg, low: f64, high: f64) -> Duration {
    Duration::from_secs_f64(between(random, low, high))
}

fn between(random: &mut Pcg64Mcg, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.random())
}
