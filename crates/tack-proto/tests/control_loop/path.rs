//! The path between sender and receiver: a pipe each way.

use std::time::{Duration, Instant};

use tack_link::pipe::{Pipe, PipeConfig, Reorder, Schedule};
use tack_link::{Direction, Packet, Time, child_seed};

use super::PACKET;

/// What a path is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    pub megabits: f64,
    pub round_trip: Duration,
    pub buffer: u64,
    pub loss: f64,
    pub ack_loss: f64,
    /// What acknowledgements take longer than the round trip says, as on Wi-Fi: the mean.
    pub ack_jitter: Duration,
    /// From when to when it stands still, after the start.
    pub pause: Option<(Duration, Duration)>,
    /// Packets and acknowledgements arrive together, so far apart; zero where they do not.
    pub batch: Duration,
    /// The part of the packets that arrive later than others, and by how much.
    pub reordering: (f64, Duration),
    /// Drops what a token bucket has no tokens for.
    pub policer: Option<Policer>,
}

/// A token bucket without a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policer {
    pub megabits: f64,
    pub burst: u64,
}

impl Link {
    /// A path that queues a BDP.
    pub fn new(megabits: f64, round_trip: Duration) -> Self {
        let bdp = (megabits * 125_000.0 * round_trip.as_secs_f64()) as u64;
        Self {
            megabits,
            round_trip,
            buffer: bdp.max(16 * PACKET),
            loss: 0.0,
            ack_loss: 0.0,
            ack_jitter: Duration::ZERO,
            pause: None,
            batch: Duration::ZERO,
            reordering: (0.0, Duration::ZERO),
            policer: None,
        }
    }

    pub fn bytes_in(&self, time: Duration) -> u64 {
        (self.megabits * 125_000.0 * time.as_secs_f64()) as u64
    }

    pub fn time_for(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / (self.megabits * 125_000.0))
    }

    fn rate(&self) -> Schedule<u64> {
        let rate = (self.megabits * 1e6) as u64;
        let Some((from, to)) = self.pause else { return Schedule::constant(rate) };
        Schedule::new(vec![(Duration::ZERO, rate), (from, 0), (to, rate)], None).unwrap()
    }

    fn delay(&self) -> Schedule<Duration> {
        Schedule::constant(self.round_trip / 2)
    }

    fn data_pipe(&self) -> PipeConfig {
        let (probability, delay) = self.reordering;
        PipeConfig {
            rate_bps: Some(self.rate()),
            delay: self.delay(),
            buffer_bytes: self.buffer,
            loss: self.loss,
            reorder: (probability > 0.0).then_some(Reorder { probability, delay }),
            ..PipeConfig::default()
        }
    }

    fn ack_pipe(&self) -> PipeConfig {
        let jitter = (!self.ack_jitter.is_zero()).then(|| Schedule::constant(self.ack_jitter));
        PipeConfig { delay: self.delay(), loss: self.ack_loss, jitter, ..PipeConfig::default() }
    }
}

/// Something that has come over the path.
#[derive(Debug)]
pub struct Arrived {
    /// Data goes forward, acknowledgements in reverse.
    pub direction: Direction,
    /// When it was sent.
    pub sent: Instant,
    /// How long it queued; zero for acknowledgements.
    pub queueing: Duration,
    pub bytes: Vec<u8>,
}

/// A path and what is on it.
#[derive(Debug)]
pub struct Path {
    link: Link,
    start: Instant,
    data: Pipe,
    acks: Pipe,
    /// What the policer lets through at once, and since when it has had that.
    tokens: (f64, Instant),
    policed: u64,
}

impl Path {
    pub fn new(link: Link, start: Instant, seed: u64) -> Self {
        Self {
            link,
            start,
            data: Pipe::new(&link.data_pipe(), child_seed(seed, 0)).unwrap(),
            acks: Pipe::new(&link.ack_pipe(), child_seed(seed, 1)).unwrap(),
            tokens: (link.policer.map_or(0.0, |policer| policer.burst as f64), start),
            policed: 0,
        }
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Changes its rate, its round trip, or how far apart arrivals are.
    pub fn change(&mut self, now: Instant, change: impl FnOnce(&mut Link)) {
        let mut link = self.link;
        change(&mut link);
        let Link { megabits, round_trip, batch, .. } = link;
        assert_eq!(link, Link { megabits, round_trip, batch, ..self.link }, "nothing else");
        let now = self.time(now);
        if link.rate() != self.link.rate() {
            self.data.set_rate(&link.rate(), now).unwrap();
        }
        if round_trip != self.link.round_trip {
            self.data.set_delay(link.delay(), now).unwrap();
            self.acks.set_delay(link.delay(), now).unwrap();
        }
        self.link = link;
    }

    pub fn send(&mut self, now: Instant, direction: Direction, bytes: Vec<u8>) {
        let at = self.time(now);
        match direction {
            Direction::Forward if !self.conforms(now) => self.policed += 1,
            Direction::Forward => {
                self.data.send(Packet::new(PACKET as u32, 0, at, bytes), at);
            }
            // They never queue.
            Direction::Reverse => self.acks.send(Packet::new(0, 0, at, bytes), at),
        }
    }

    /// When something arrives next.
    pub fn next_event(&self) -> Option<Instant> {
        let next =
            [self.data.next_event(), self.acks.next_event()].into_iter().flatten().min()?;
        let batch = self.link.batch.as_nanos() as u64;
        let at =
            if batch == 0 { next.as_nanos() } else { next.as_nanos().next_multiple_of(batch) };
        Some(self.start + Duration::from_nanos(at))
    }

    /// What has arrived by now, one by one in order of arrival.
    pub fn arrival(&mut self, now: Instant) -> Option<Arrived> {
        let now = self.time(now).as_nanos();
        // What has come since the last batch waits for the next.
        let due = now - now.checked_rem(self.link.batch.as_nanos() as u64).unwrap_or_default();
        let due = Time::from_nanos(due);
        let data_is_next = match (self.data.next_event(), self.acks.next_event()) {
            (Some(data), Some(acks)) => data <= acks,
            (data, _) => data.is_some(),
        };
        let (direction, pipe) = if data_is_next {
            (Direction::Forward, &mut self.data)
        } else {
            (Direction::Reverse, &mut self.acks)
        };
        let (at, packet) = pipe.arrival(due)?;
        let queueing = if data_is_next {
            let least = self.link.round_trip / 2 + self.link.time_for(PACKET);
            at.since(packet.sent).saturating_sub(least)
        } else {
            Duration::ZERO
        };
        let sent = self.start + packet.sent.since(Time::ZERO);
        Some(Arrived { direction, sent, queueing, bytes: packet.bytes })
    }

    /// Packets that its buffer or its policer has dropped.
    pub fn dropped(&self) -> u64 {
        self.data.losses().queue + self.policed
    }

    /// Whether the policer lets a packet through.
    fn conforms(&mut self, now: Instant) -> bool {
        let Some(policer) = self.link.policer else { return true };
        let (tokens, since) = self.tokens;
        let gained = policer.megabits * 125_000.0 * (now - since).as_secs_f64();
        let tokens = (tokens + gained).min(policer.burst as f64);
        let conforms = tokens >= PACKET as f64;
        self.tokens = (if conforms { tokens - PACKET as f64 } else { tokens }, now);
        conforms
    }

    fn time(&self, at: Instant) -> Time {
        Time::from(at - self.start)
    }
}
