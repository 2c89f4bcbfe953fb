//! Queues in front of a rate, with traffic that does not react to anything.

mod codel;
mod dualpi2;
mod fq_codel;

use proptest::prelude::*;

use super::*;
use crate::pipe::{Bottleneck, MAX_DELAY, Pipe, PipeConfig};

/// At this rate a packet of 1250 bytes takes a millisecond.
const RATE: u64 = 10_000_000;
const SIZE: u32 = 1250;
const END: Time = Time::from_nanos(u64::MAX);

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn codel() -> QueueDiscipline {
    QueueDiscipline::CoDel(CoDelConfig::default())
}

fn fq_codel() -> QueueDiscipline {
    QueueDiscipline::FqCoDel(FqCoDelConfig::default())
}

fn dualpi2() -> QueueDiscipline {
    QueueDiscipline::DualPi2(DualPi2Config::default())
}

fn config(queue: QueueDiscipline, buffer_bytes: u64) -> PipeConfig {
    PipeConfig { queue, ..PipeConfig::new(RATE, Duration::ZERO, buffer_bytes) }
}

/// A pipe that has room for everything.
fn pipe(queue: QueueDiscipline) -> Pipe {
    Pipe::new(&config(queue, u64::MAX), 1).unwrap()
}

/// Packets that wait in the queue or are under way.
fn inside(pipe: &Pipe) -> u64 {
    let waiting = match &pipe.bottleneck {
        Some(Bottleneck::Active(transmitter)) => transmitter.waiting(),
        None | Some(Bottleneck::Foreseen(_)) => 0,
    };
    (waiting + pipe.under_way.len()) as u64
}

/// Packets at a constant rate.
#[derive(Clone, Copy)]
struct Source {
    flow: u32,
    size: u32,
    every: Duration,
    ecn: Ecn,
}

impl Source {
    /// Of that many thousandths of the link's rate, in packets of the usual size.
    fn of_load(flow: u32, permille: u64, ecn: Ecn) -> Self {
        Self { flow, size: SIZE, every: Duration::from_nanos(1_000_000_000 / permille), ecn }
    }
}

/// Something that has come out of a pipe.
struct Delivered {
    at: Time,
    /// Time in the queue.
    sojourn: Duration,
    packet: Packet,
}

/// What has been sent, delivered and lost from one moment to another.
#[derive(Default)]
struct Run {
    delivered: Vec<Delivered>,
    /// When each packet was dropped.
    drops: Vec<Time>,
    /// When each packet was marked.
    marks: Vec<Time>,
    sent: Vec<u64>,
}

impl Run {
    /// Sends all sources into the pipe until then, and sees what it does event by event.
    fn new(pipe: &mut Pipe, sources: &[Source], until: Duration) -> Self {
        let mut run = Self { sent: vec![0; sources.len()], ..Self::default() };
        loop {
            let sends = sources.iter().zip(&run.sent);
            let next = sends.map(|(source, sent)| Time::ZERO + source.every * *sent as u32);
            let send = next.enumerate().map(|(index, at)| (at, index)).min();
            let event = pipe.next_event().unwrap_or(END);
            match send.filter(|(at, _)| *at <= event) {
                Some((now, _)) if now >= Time::from(until) => break,
                Some((now, index)) => {
                    let Source { flow, size, ecn, .. } = sources[index];
                    run.sent[index] += 1;
                    pipe.send(Packet::new(size, flow, now, Vec::new()).with_ecn(ecn), now);
                    run.note(pipe, now);
                }
                None if event >= Time::from(until) => break,
                None => run.note(pipe, event),
            }
        }
        run
    }

    fn note(&mut self, pipe: &mut Pipe, now: Time) {
        while let Some((at, packet)) = pipe.arrival(now) {
            let transmission = micros(u64::from(packet.size) * 8_000_000 / RATE);
            let sojourn = at.since(packet.sent).saturating_sub(transmission);
            self.delivered.push(Delivered { at, sojourn, packet });
        }
        self.drops.resize(pipe.losses().total() as usize, now);
        self.marks.resize(pipe.marked() as usize, now);
        assert!(pipe.next_event().is_none_or(|next| next > now));
    }

    fn of(&self, flow: u32, from: Duration) -> impl Iterator<Item = &Delivered> {
        let of = move |one: &&Delivered| one.packet.flow == flow && one.at >= Time::from(from);
        self.delivered.iter().filter(of)
    }

    fn mean_ms(&self, flow: u32, from: Duration) -> f64 {
        let sum: Duration = self.of(flow, from).map(|one| one.sojourn).sum();
        sum.as_secs_f64() * 1e3 / self.of(flow, from).count() as f64
    }

    fn max_ms(&self, flow: u32, from: Duration) -> f64 {
        let max = self.of(flow, from).map(|one| one.sojourn).max().unwrap();
        max.as_secs_f64() * 1e3
    }

    fn bytes(&self, flow: u32, from: Duration) -> f64 {
        self.of(flow, from).map(|one| f64::from(one.packet.size)).sum()
    }

    fn marked_share(&self, flow: u32, from: Duration) -> f64 {
        let marked = self.of(flow, from).filter(|one| one.packet.ecn == Ecn::Ce).count();
        marked as f64 / self.of(flow, from).count() as f64
    }
}

#[test]
fn a_queue_without_a_rate_is_refused() {
    for queue in [codel(), fq_codel(), dualpi2()] {
        let error = Pipe::new(&PipeConfig { queue, ..PipeConfig::default() }, 1).unwrap_err();
        assert_eq!((error.field.as_str(), error.value.as_str()), ("queue", queue.name()));
        assert!(error.allowed.starts_with("drop-tail, unless"), "{error}");
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let zero = Duration::ZERO;
    let codel = |config| QueueDiscipline::CoDel(config);
    let dual = |config| QueueDiscipline::DualPi2(config);
    let (usual, usual_dual) = (CoDelConfig::default(), DualPi2Config::default());
    let usual_fq = FqCoDelConfig::default();
    for (queue, field) in [
        (codel(CoDelConfig { target: zero, ..usual }), "queue.target"),
        (codel(CoDelConfig { interval: 2 * MAX_DELAY, ..usual }), "queue.interval"),
        (QueueDiscipline::FqCoDel(FqCoDelConfig { quantum: 0, ..usual_fq }), "queue.quantum"),
        (QueueDiscipline::FqCoDel(FqCoDelConfig { flows: 0, ..usual_fq }), "queue.flows"),
        (dual(DualPi2Config { target: zero, ..usual_dual }), "queue.target"),
        (dual(DualPi2Config { update_interval: zero, ..usual_dual }), "queue.update_interval"),
        (dual(DualPi2Config { alpha_hz: 0.0, ..usual_dual }), "queue.alpha_hz"),
        (dual(DualPi2Config { beta_hz: f64::NAN, ..usual_dual }), "queue.beta_hz"),
        (dual(DualPi2Config { coupling: 0.0, ..usual_dual }), "queue.coupling"),
        (dual(DualPi2Config { classic_percent: 100, ..usual_dual }), "queue.classic_percent"),
    ] {
        let error = Pipe::new(&config(queue, 0), 1).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
}

#[test]
fn an_idle_link_sends_a_packet_larger_than_its_queue() {
    for queue in [codel(), fq_codel(), dualpi2()] {
        let mut pipe = Pipe::new(&config(queue, 0), 1).unwrap();
        for at in [0, 999, 1000] {
            let now = Time::ZERO + micros(at);
            pipe.send(Packet::new(SIZE, at as u32, now, Vec::new()), now);
        }
        let arrivals = std::iter::from_fn(|| pipe.arrival(END));
        let flows: Vec<_> = arrivals.map(|(_, packet)| packet.flow).collect();
        assert_eq!(flows, [0, 1000], "{queue:?}");
        assert_eq!(pipe.losses().queue, 1);
    }
}

#[test]
fn results_follow_the_seed() {
    let outcome = |seed| {
        let mut pipe = Pipe::new(&config(dualpi2(), 200_000), seed).unwrap();
        Run::new(&mut pipe, &[Source::of_load(0, 1300, Ecn::NotEct)], secs(5)).drops
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

fn any_queue() -> impl Strategy<Value = QueueDiscipline> {
    prop_oneof![
        Just(QueueDiscipline::DropTail),
        Just(codel()),
        Just(fq_codel()),
        Just(dualpi2()),
    ]
}

proptest! {
    #[test]
    fn what_was_taken_is_delivered_lost_or_inside_at_any_time(
        queue in any_queue(),
        sends in prop::collection::vec((0_u64..3000, 1_u32..2000, 0_u32..6, 0_u8..4), 1..300),
        buffer_bytes in prop_oneof![0_u64..30_000, Just(u64::MAX)],
        (loss, duplicate, corrupt) in (0.0..0.2, 0.0..0.2, 0.0..0.2),
        jitter in prop_oneof![Just(0_u64), 1_u64..91],
        seed: u64,
    ) {
        let mut config = config(queue, buffer_bytes);
        (config.loss, config.duplicate, config.corrupt) = (loss, duplicate, corrupt);
        config.jitter = Some(crate::pipe::Schedule::constant(millis(jitter)));
        let mut pipe = Pipe::new(&config, seed).unwrap();
        let (mut now, mut arrived, mut latest, mut ce) = (Time::ZERO, 0_u64, Time::ZERO, 0);
        let mut came_with_ce = 0;
        for (taken, (gap, size, flow, ecn)) in (1_u64..).zip(&sends) {
            now = now + micros(*gap);
            let ecn = Ecn::from_bits(*ecn);
            came_with_ce += u64::from(ecn == Ecn::Ce);
            pipe.send(Packet::new(*size, *flow, now, Vec::new()).with_ecn(ecn), now);
            while let Some((at, packet)) = pipe.arrival(now) {
                prop_assert!(latest <= at && at <= now && packet.sent <= at);
                (latest, arrived) = (at, arrived + 1);
                ce += u64::from(packet.ecn == Ecn::Ce);
            }
            prop_assert!(pipe.next_event().is_none_or(|next| next > now));
            let known = arrived + inside(&pipe) + pipe.losses().total();
            prop_assert_eq!(known, taken + pipe.duplicates());
        }
        while let Some((_, packet)) = pipe.arrival(END) {
            arrived += 1;
            ce += u64::from(packet.ecn == Ecn::Ce);
        }
        prop_assert_eq!(pipe.next_event(), None);
        prop_assert_eq!(inside(&pipe), 0);
        let taken = sends.len() as u64 + pipe.duplicates();
        prop_assert_eq!(arrived + pipe.losses().total(), taken);
        prop_assert!(ce <= came_with_ce + pipe.marked() + pipe.duplicates());
    }
}
