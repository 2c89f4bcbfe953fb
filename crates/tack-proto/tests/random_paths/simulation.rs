//! A sender that always has data, a receiver, and the path between them.

use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_proto::ecn::{EcnCodepoint, EcnState};
use tack_proto::frame::{AckFrequency, Frame, Frames};
use tack_proto::profiles::Profile;
use tack_proto::receiver::{Received, Receiver, ReceiverConfig};
use tack_proto::sender::{Departure, Peer, Phase, Sender, SenderConfig};

use crate::event_queue::EventQueue;
use crate::marking::{Aqm, CoDel};
use crate::path::Path;
use crate::rate_watch::RateWatch;
use crate::stall_watch::StallWatch;

const MS: Duration = Duration::from_millis(1);
pub const PACKET: u64 = 1250;
/// That of quiche, and RFC 9000's default.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// A run lasts so many round trips, and so many seconds at least,
const ROUND_TRIPS: u32 = 200;
const LEAST_TIME: Duration = Duration::from_secs(20);
/// unless it has sent so many packets before and has been watched for so long behind Startup,
const ENOUGH_PACKETS: u64 = 50_000;
const ENOUGH_TIME: Duration = Duration::from_secs(3);
/// or in any case so many packets.
const MOST_PACKETS: u64 = 500_000;
/// An expired probe timer sends so many packets, as in the QUIC stack (RFC 9002 section 6.2.4).
const PROBES: u64 = 2;
/// A rate is taken over a second, or as many packets where that is longer: the probes of the
/// controller and of the QUIC stack are single packets.
const RATE_PACKETS: u64 = 50;

/// What a run showed. Values come with the seconds after the start at which they were seen.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Data packets sent.
    pub packets: u64,
    /// Of these, packets that arrived, or that were on their way at the end.
    pub delivered: u64,
    /// The longest stall on a live path, in probe timeouts.
    pub stall_in_ptos: (f64, f64),
    /// The most that was sent in a window after Startup, as a multiple of what the path carries.
    pub rate_over_path: (f64, f64),
    /// Windows in which that was looked at.
    pub windows: u64,
    /// Packets that the sender knows to have been marked with CE.
    pub ce: u64,
    /// What it knows of ECN in the end.
    pub ecn_state: EcnState,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The codepoint is that of the bits (RFC 3168 section 5).
    Data {
        pn: u64,
        departure: Option<u64>,
        update: Option<Box<[u8]>>,
        codepoint: u8,
    },
    Ack(Vec<u8>),
}

pub struct Simulation {
    path: Path,
    start: Instant,
    now: Instant,
    sender: Sender,
    receiver: Receiver,
    events: EventQueue<Event>,
    next_pn: u64,
    lost: u64,
    random: Pcg64Mcg,
    /// When the last bit of the queue leaves the bottleneck.
    busy_until: Instant,
    codel: CoDel,
    /// The latest arrival in order, of data and of acknowledgements.
    in_order: [Instant; 2],
    probe_timer: ProbeTimer,
    stall: StallWatch,
    rate: RateWatch,
}

/// The probe timer of the QUIC stack (RFC 9002 section 6.2), which counts from the last packet.
struct ProbeTimer {
    last_sent: Instant,
    /// How often it has expired since something was newly acknowledged (pto_count).
    expired: u32,
    rtt_variation: Duration,
}

impl Simulation {
    pub fn new(path: Path, seed: u64) -> Self {
        let start = epoch();
        let profile = Profile::ALL[(seed % Profile::ALL.len() as u64) as usize];
        let mut config = SenderConfig::new(profile, PACKET, seed);
        config.peer = Some(Peer::Tack { min_ack_delay: MS, max_ack_delay: MAX_ACK_DELAY });
        config.max_in_flight = 100_000_000;
        config.is_server = true;
        config.ecn = path.ecn;
        // The handshake's packets are as long as others (RFC 9000 section 14.1).
        let handshake = path.round_trip + path.time_for(PACKET);
        Self {
            start,
            now: start,
            sender: Sender::new(start, config, Some(handshake)),
            receiver: Receiver::new(start, ReceiverConfig::new(MAX_ACK_DELAY)),
            events: EventQueue::new(),
            next_pn: 0,
            lost: 0,
            random: Pcg64Mcg::seed_from_u64(!seed),
            busy_until: start,
            codel: CoDel::new(path.time_for(PACKET)),
            in_order: [start; 2],
            probe_timer: ProbeTimer {
                last_sent: start,
                expired: 0,
                rtt_variation: handshake / 2,
            },
            stall: StallWatch::default(),
            rate: RateWatch::new(
                start,
                path.time_for(RATE_PACKETS * PACKET).max(Duration::from_secs(1)),
            ),
            path,
        }
    }

    pub fn run(mut self) -> Outcome {
        let end = self.start + (self.path.round_trip * ROUND_TRIPS).max(LEAST_TIME);
        let (mut packets, mut is_over) = (0, false);
        self.wake_at(self.now);
        while let Some((at, event)) = self.events.pop() {
            let is_enough =
                packets >= ENOUGH_PACKETS && self.rate.watched(self.now) >= ENOUGH_TIME;
            if at > end || is_enough || packets >= MOST_PACKETS {
                is_over = true;
                break;
            }
            self.pass_time(at);
            match event {
                Some(Event::Data { pn, departure, update, codepoint }) => {
                    let codepoint = EcnCodepoint::from_bits(codepoint);
                    self.on_data(pn, departure, update.as_deref(), codepoint);
                    self.acknowledge();
                }
                Some(Event::Ack(frames)) => self.on_ack(&frames),
                None => self.acknowledge(),
            }
            packets += self.transmit();
            packets += self.probe();
        }
        if !is_over {
            // Nothing is in flight, no timer runs, and yet there is data: it would wait for ever.
            self.stall.on_newly_acked(self.probe_timeout(), self.since_start());
            self.pass_time(end);
        }
        let (rate, at) = self.rate.highest();
        Outcome {
            packets,
            delivered: packets - self.lost,
            stall_in_ptos: self.stall.longest(),
            rate_over_path: (rate / self.path.rate, (at - self.start).as_secs_f64()),
            windows: self.rate.windows(),
            ce: self.sender.stats().ce,
            ecn_state: self.sender.ecn_state(),
        }
    }

    /// Time passes until `at`, in which nothing happens.
    fn pass_time(&mut self, at: Instant) {
        let blackout = self.path.blackout(self.now - self.start, at - self.start);
        let lasted = (at - self.now).saturating_sub(blackout);
        let probe_timeout = self.probe_timeout();
        self.now = at;
        self.stall.on_time(lasted, probe_timeout, self.since_start());
    }

    /// Seconds since the start.
    fn since_start(&self) -> f64 {
        (self.now - self.start).as_secs_f64()
    }

    /// Sends what may leave; how many packets that was.
    fn transmit(&mut self) -> u64 {
        let mut sent = 0;
        loop {
            if self.sender.may_send(self.now, true) {
                self.send();
                self.stall.on_data();
                sent += 1;
            } else {
                if !self.sender.is_inflight_limited() {
                    self.wake_at(self.sender.release_time());
                }
                return sent;
            }
        }
    }

    fn send(&mut self) {
        if self.sender.wants_skip() {
            let random = self.random.random();
            self.sender.on_packet_skipped(self.now, self.next_pn, random);
            self.next_pn += 1;
        }
        let departure = self.sender.timestamp(self.now).map(|timestamp| timestamp.0);
        let update = self.sender.frequency_update();
        let pn = self.next_pn;
        self.next_pn += 1;
        let leaving = Departure {
            packet_number: pn,
            bytes: PACKET as usize,
            ack_eliciting: true,
            path: None,
            is_probe: false,
            is_mtu_probe: false,
            update,
            has_timestamp: false,
        };
        let codepoint = self.sender.on_packet_sent(self.now, &leaving);
        let starting = self.sender.phase() == Phase::Startup;
        self.rate.on_sent(self.now, PACKET, starting);
        let update = update.map(|update| {
            let mut bytes = Vec::new();
            update.encode(&mut bytes);
            bytes.into_boxed_slice()
        });
        if let Some((at, codepoint)) = self.cross_queue(codepoint) {
            let codepoint = codepoint.bits();
            self.travel(0, at, Event::Data { pn, departure, update, codepoint });
        } else {
            self.lost += 1;
        }
        self.probe_timer.last_sent = self.now;
    }

    /// When a packet that enters the queue now leaves the bottleneck, and its codepoint then; `None`
    /// if it gets lost.
    fn cross_queue(&mut self, codepoint: EcnCodepoint) -> Option<(Instant, EcnCodepoint)> {
        let free = self.busy_until.max(self.now);
        let free = self.start + self.path.working(free - self.start);
        let busy = self.busy_until.saturating_duration_since(self.now);
        let stands_still = self.path.blackout(self.now - self.start, free - self.start);
        let waiting = busy.saturating_sub(stands_still).as_secs_f64();
        if waiting * self.path.rate > self.path.queue as f64 {
            return None;
        }
        let mut marked = codepoint;
        if self.is_marked(free) {
            match (self.path.aqm, codepoint) {
                (Aqm::Step(_), EcnCodepoint::NotEct) => {}
                (_, EcnCodepoint::NotEct) => return None,
                _ => marked = EcnCodepoint::Ce,
            }
        }
        self.busy_until = free + self.path.time_for(PACKET);
        if self.chance(self.path.loss) {
            return None;
        }
        let (mangling, from) = self.path.mangling;
        if self.now - self.start >= from {
            marked = mangling.apply(codepoint, marked)?;
        }
        Some((self.busy_until, marked))
    }

    /// Whether the queue marks a packet that enters it now, and that the bottleneck begins to send
    /// then.
    fn is_marked(&mut self, sent: Instant) -> bool {
        let waits = sent - self.now;
        if waits <= self.path.time_for(PACKET) {
            return self.path.aqm == Aqm::CoDel && self.codel.marks(sent, Duration::ZERO);
        }
        match self.path.aqm {
            Aqm::Off => false,
            Aqm::Step(threshold) => waits > threshold,
            Aqm::Red(low, high) => {
                let above = waits.saturating_sub(low).as_secs_f64();
                self.chance((above / high.saturating_sub(low).as_secs_f64()).min(1.0))
            }
            Aqm::CoDel => self.codel.marks(sent, waits),
        }
    }

    /// Half a round trip, with jitter and reordering; 0 is the way of data, 1 that back.
    fn travel(&mut self, way: usize, from: Instant, packet: Event) {
        let jitter = self.path.jitter.mul_f64(self.random.random());
        let at = (from + self.path.round_trip / 2 + jitter).max(self.in_order[way]);
        if self.chance(self.path.reordered) {
            return self.events.schedule(at + self.path.reordered_by, packet);
        }
        self.in_order[way] = at;
        self.events.schedule(at, packet);
    }

    fn on_data(
        &mut self,
        pn: u64,
        departure: Option<u64>,
        update: Option<&[u8]>,
        codepoint: EcnCodepoint,
    ) {
        let received = Received {
            ecn: codepoint,
            packet_number: pn,
            bytes: PACKET as usize,
            ack_eliciting: true,
            departure,
            ends_stream: false,
        };
        self.receiver.on_packet(self.now, received);
        if let Some(bytes) = update {
            self.receiver.on_frequency_update(&frequency(bytes));
        }
    }

    fn acknowledge(&mut self) {
        while let Some(due) = self.receiver.due(self.now) {
            let mut frames = Vec::new();
            assert!(self.receiver.write(self.now, due, 1200, &mut frames));
            if !self.chance(self.path.ack_loss) {
                // The blackouts are those of both directions.
                let leaves = self.start + self.path.working(self.now - self.start);
                self.travel(1, leaves, Event::Ack(frames));
            }
        }
        if let Some(at) = self.receiver.deadline() {
            self.wake_at(at.max(self.now));
        }
    }

    fn on_ack(&mut self, bytes: &[u8]) {
        let outcome = match decode(bytes) {
            Frame::Tack(tack) => {
                self.sender.check_tack(self.now, &tack).unwrap();
                self.sender.on_tack(self.now, &tack)
            }
            Frame::Iack(iack) => {
                self.sender.check_iack(self.now, &iack).unwrap();
                self.sender.on_iack(self.now, &iack)
            }
            other => panic!("{other:?}"),
        };
        // What repeats earlier acknowledgements changes neither timer nor back-off (RFC 9002
        // section A.7).
        if !outcome.acked.is_empty() {
            self.on_newly_acked();
        }
        if let Some(at) = self.receiver.deadline() {
            self.wake_at(at.max(self.now));
        }
    }

    fn on_newly_acked(&mut self) {
        self.probe_timer.expired = 0;
        if let (Some(latest), Some(smoothed)) =
            (self.sender.latest_rtt(), self.sender.smoothed_rtt())
        {
            // RFC 9002 section 5.3.
            let variation = &mut self.probe_timer.rtt_variation;
            *variation = (*variation * 3 + smoothed.abs_diff(latest)) / 4;
        }
        self.stall.on_newly_acked(self.probe_timeout(), self.since_start());
    }

    /// What the QUIC stack sends, in flight or not, when nothing has been acknowledged for too
    /// long; how many packets that was.
    fn probe(&mut self) -> u64 {
        if self.sender.in_flight() == 0 {
            return 0;
        }
        let mut sent = 0;
        if self.probe_time() <= self.now {
            self.probe_timer.expired += 1;
            self.stall.on_probe_timeout();
            self.sender.on_probe_timeout();
            for _ in 0..PROBES {
                self.send();
                sent += 1;
            }
        }
        self.wake_at(self.probe_time());
        sent
    }

    /// RFC 9002 section 6.2.1, without back-off.
    fn probe_timeout(&self) -> Duration {
        let smoothed = self.sender.smoothed_rtt().unwrap_or(self.path.round_trip);
        smoothed + (self.probe_timer.rtt_variation * 4).max(MS) + MAX_ACK_DELAY
    }

    /// When the probe timer expires, back-off included (RFC 9002 section A.8).
    fn probe_time(&self) -> Instant {
        let back_off = 2_u32.pow(self.probe_timer.expired.min(10));
        self.probe_timer.last_sent + self.probe_timeout() * back_off
    }

    fn wake_at(&mut self, at: Instant) {
        self.events.wake_at(at.max(self.now));
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.random_bool(probability)
    }
}

fn frequency(bytes: &[u8]) -> AckFrequency {
    let Frame::AckFrequency(update) = decode(bytes) else { panic!("not an update") };
    update
}

fn decode(bytes: &[u8]) -> Frame<'_> {
    Frames::new(bytes).next().unwrap().unwrap().frame
}

#[allow(clippy::disallowed_methods)] // an arbitrary instant to count from
fn epoch() -> Instant {
    Instant::now()
}
