//! The data sender: what is on its way, how fast to send, how often to be told.

mod ack_frequency;
mod ack_loss;
mod bbr;
mod immediate_ack;
mod min_rtt;
mod pacer;
mod sent_ledger;
mod stream_record;

use std::time::{Duration, Instant};

pub use ack_frequency::{AckFrequencySender, Frequency, Peer};
pub use ack_loss::AckLoss;
pub use bbr::{Bbr, BbrConfig, Feedback, INITIAL_WINDOW_PACKETS, MaxFilter, Path, Phase};
pub use immediate_ack::ImmediateAcks;
pub use min_rtt::MinRtt;
pub use pacer::Pacer;
pub use sent_ledger::{Newly, OptimisticAck, RateSample, SentLedger};
pub use stream_record::{BadBubble, StreamRecord};

use crate::bandwidth::Bandwidth;
use crate::frame::{Ack, AckFrequency, AckRanges, Iack, IackEvent, Tack, Timestamp};

/// Round trips for which Startup asks for more acknowledgements than later. That
/// doubles ten packets to what any path carries; a flow that is still in Startup
/// then is limited by its application, and would stay there for good.
const STARTUP_ROUNDS: u64 = 16;

/// Departure times told for each TACK that may answer one of them. A TACK interval on a fast path
/// has dozens of bursts, and to tell the departure of one costs as much as a whole packet.
const DEPARTURES_PER_TACK: u32 = 8;

/// Settings of a sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// Equation (4).
    pub frequency: Frequency,
    /// The controller.
    pub bbr: BbrConfig,
    /// What the peer does with ACK_FREQUENCY; `None` where it did not announce
    /// to accept any.
    pub peer: Option<Peer>,
    /// log2 of the microseconds in one unit of our timestamps
    /// (`ack_delay_exponent`).
    pub timestamp_exponent: u32,
    /// Largest packet, bytes.
    pub mss: u64,
    /// Never more in flight, bytes: what the stack below takes.
    pub max_in_flight: u64,
    /// Whether a round trip ends with the acknowledgement and begins with the earliest packet in
    /// it, as TCP's timestamps have it (RFC 7323 section 4.3), so that the wait for the
    /// acknowledgement is part of it. For comparison (section V-B).
    pub plain_sampling: bool,
    /// Whether every packet is recorded here. After 0-RTT some were not, and what
    /// the peer received in all cannot be held against the record.
    pub sees_all: bool,
    /// Whether this end is the server: which streams it sends on.
    pub is_server: bool,
}

/// Why an acknowledgement was refused. The connection must be closed with
/// PROTOCOL_VIOLATION.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A number that was never sent.
    #[error(transparent)]
    OptimisticAck(#[from] OptimisticAck),
    /// Bubbles in what was never sent.
    #[error(transparent)]
    BadBubble(#[from] BadBubble),
    /// A departure timestamp later than now.
    #[error(
        "the peer echoed a departure timestamp that lies in the future; it is faulty or lies"
    )]
    FutureTimestamp,
    /// More bytes received than were sent.
    #[error(
        "the peer reports {reported} bytes received where {sent} were sent; it is faulty or lies"
    )]
    ReceivedMoreThanSent {
        /// Its claim.
        reported: u64,
        /// Our record.
        sent: u64,
    },
}

/// Counters of the sending side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderStats {
    /// TACKs received.
    pub tacks: u64,
    /// IACKs received.
    pub iacks: u64,
    /// Standard ACK frames received.
    pub acks: u64,
    /// TACKs that did not arrive, by the gaps in their sequence.
    pub tacks_lost: u64,
    /// Packets that every acknowledgement of which got lost, or was forgotten, and whose data
    /// had arrived as bubbles told.
    pub by_bubbles: u64,
    /// Packets taken for lost.
    pub lost_packets: u64,
    /// Of these, packets that had arrived.
    pub spurious_losses: u64,
    /// Bytes taken for lost.
    pub lost_bytes: u64,
    /// ACK_FREQUENCY frames sent.
    pub frequency_updates: u64,
    /// IMMEDIATE_ACK frames sent.
    pub immediate_acks: u64,
}

/// What an acknowledgement, and little else, changes.
#[derive(Clone, Copy, Debug)]
struct Standing {
    path: Path,
    /// Bytes that may be in flight, and with how many the path may be silent.
    inflight_cap: u64,
    outage_cap: u64,
    /// When time may change something, if no acknowledgement does before.
    next_change: Option<Instant>,
    /// What the peer should be told.
    update: Option<AckFrequency>,
}

/// Sender state of one packet number space.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    epoch: Instant,
    ledger: SentLedger,
    min_rtt: MinRtt,
    smoothed_rtt: Option<Duration>,
    bbr: Bbr,
    pacer: Pacer,
    frequency: Option<AckFrequencySender>,
    ack_loss: AckLoss,
    streams: StreamRecord,
    /// The packet whose payload was given last.
    looked_into: Option<u64>,
    immediate_acks: ImmediateAcks,
    /// What follows from all of the above, and is asked for with every packet.
    standing: Standing,
    last_feedback: Instant,
    /// Too much was sent since: the path is waited for.
    stands_still: bool,
    /// Packets that repeat what was lost, and are still to be sent.
    repairs: u64,
    sent_bytes: u64,
    /// The path's own loss rate, as the receiver sees it.
    reported_loss_rate: f64,
    stats: SenderStats,
}

impl Sender {
    /// A sender; `rtt` is the handshake's round trip.
    pub fn new(now: Instant, config: SenderConfig, rtt: Option<Duration>) -> Self {
        let mut min_rtt = MinRtt::new(config.bbr.probe_rtt_after);
        if let Some(rtt) = rtt {
            min_rtt.on_sample(now, rtt);
        }
        let mut sender = Self {
            config,
            epoch: now,
            ledger: SentLedger::new(now, config.sees_all),
            min_rtt,
            smoothed_rtt: rtt,
            bbr: Bbr::new(config.bbr),
            pacer: Pacer::new(now, Bandwidth::ZERO),
            frequency: config.peer.map(AckFrequencySender::new),
            ack_loss: AckLoss::default(),
            streams: StreamRecord::default(),
            looked_into: None,
            immediate_acks: ImmediateAcks::default(),
            standing: Standing {
                path: Path {
                    min_rtt: rtt,
                    smoothed_rtt: rtt,
                    ack_interval: Duration::ZERO,
                    mss: config.mss,
                },
                inflight_cap: 0,
                outage_cap: 0,
                next_change: None,
                update: None,
            },
            last_feedback: now,
            stands_still: false,
            repairs: 0,
            sent_bytes: 0,
            reported_loss_rate: 0.0,
            stats: SenderStats::default(),
        };
        sender.pacer.set_rate(now, sender.bbr.pacing_rate(&sender.path()));
        sender.take_stock();
        sender
    }

    /// Forgets what was learned of the path, not what is in flight: the
    /// connection has migrated (RFC 9000 section 9.4).
    pub fn on_path_change(&mut self, now: Instant) {
        self.min_rtt = MinRtt::new(self.config.bbr.probe_rtt_after);
        self.smoothed_rtt = None;
        self.bbr = Bbr::new(self.config.bbr);
        self.pacer = Pacer::new(now, self.bbr.pacing_rate(&self.path()));
        // That the old path was silent says nothing of the new one.
        self.last_feedback = now;
        self.stands_still = false;
        self.take_stock();
    }

    /// Follows the size of packets that the path takes.
    pub fn set_mss(&mut self, mss: u64) {
        if self.config.mss != mss {
            self.config.mss = mss;
            self.take_stock();
        }
    }

    /// Whether data may leave now.
    pub fn may_send(&mut self, now: Instant) -> bool {
        if self.ledger.in_flight() >= self.standing.outage_cap {
            let silence = now.saturating_duration_since(self.last_feedback);
            self.stands_still |= self.standing.path.is_outage(silence);
        }
        // The initial window may leave at once (RFC 9002 section 7.7): a flow that fits is over
        // sooner.
        let first = self.sent_bytes < INITIAL_WINDOW_PACKETS * self.config.mss;
        !self.is_inflight_limited() && (first || self.pacer.may_send(now))
    }

    /// Whether as much is in flight as may be. Only an acknowledgement changes that.
    pub fn is_inflight_limited(&self) -> bool {
        self.stands_still || self.ledger.in_flight() >= self.standing.inflight_cap
    }

    /// When the pacer lets the next packet leave.
    pub fn release_time(&self) -> Instant {
        self.pacer.release_time()
    }

    /// The TIMESTAMP to put into a packet written now, if it begins a burst. Not where it repeats
    /// what was lost: the QUIC stack would split that for want of its room.
    pub fn timestamp(&self, now: Instant) -> Option<Timestamp> {
        if self.repairs > 0 || !self.pacer.at_burst_head(now) {
            return None;
        }
        let elapsed = now.saturating_duration_since(self.epoch).as_micros() as u64;
        Some(Timestamp(elapsed >> self.config.timestamp_exponent))
    }

    /// The ACK_FREQUENCY to put into a packet written now, if the peer should
    /// be told something new.
    pub fn frequency_update(&self) -> Option<AckFrequency> {
        self.standing.update
    }

    /// Looks at everything anew that [`Standing`] keeps.
    fn take_stock(&mut self) {
        let path = self.path();
        self.standing = Standing {
            path,
            inflight_cap: self.bbr.inflight_cap(&path).min(self.config.max_in_flight),
            outage_cap: self.bbr.outage_cap(&path),
            next_change: self.bbr.next_change(&path),
            update: self.wanted_update(),
        };
        self.pacer.set_head_spacing(path.ack_interval / DEPARTURES_PER_TACK);
    }

    fn wanted_update(&self) -> Option<AckFrequency> {
        let min_rtt = self.min_rtt.get()?;
        self.frequency.as_ref()?.next_frame(
            &self.config.frequency,
            self.is_starting(),
            self.bbr.bandwidth(),
            min_rtt,
            self.config.mss,
            self.unreported(),
        )
    }

    /// Whether [`Self::on_payload`] is worth opening a packet for: the receiver has been asked
    /// for bubbles.
    pub fn wants_payloads(&self) -> bool {
        self.config.sees_all
            && self.frequency.as_ref().is_some_and(AckFrequencySender::asked_for_bubbles)
    }

    /// The frames of packet `pn`, which is going to be written.
    pub fn on_payload(&mut self, pn: u64, payload: &[u8]) {
        self.streams.forget_below(self.ledger.first_packet_number());
        self.streams.on_payload(pn, payload, self.sent_bytes + payload.len() as u64);
        self.looked_into = Some(pn);
    }

    /// The probe timer (RFC 9002 section 6.2) has expired.
    pub fn on_probe_timeout(&mut self) {
        self.immediate_acks.on_probe_timeout();
    }

    /// Whether the packet written now should carry IMMEDIATE_ACK; `tail` if it
    /// takes all that was left to send.
    pub fn wants_immediate_ack(&self, now: Instant, tail: bool) -> bool {
        let hold = self.frequency.as_ref().and_then(AckFrequencySender::hold);
        let rtt = self.smoothed_rtt.unwrap_or_default();
        hold.is_some_and(|hold| self.immediate_acks.is_wanted(now, tail, hold, rtt))
    }

    /// IMMEDIATE_ACK has been written.
    pub fn on_immediate_ack_sent(&mut self, now: Instant) {
        self.immediate_acks.on_sent(now);
        self.stats.immediate_acks += 1;
    }

    /// A packet has been written.
    pub fn on_packet_sent(
        &mut self,
        now: Instant,
        pn: u64,
        bytes: usize,
        ack_eliciting: bool,
        update: Option<&AckFrequency>,
    ) {
        self.ledger.on_sent(now, pn, bytes, ack_eliciting);
        if ack_eliciting {
            self.sent_bytes += bytes as u64;
            if self.looked_into != Some(pn) {
                self.streams.on_unseen(self.sent_bytes);
            }
            self.pacer.on_sent(now, bytes);
            self.repairs = self.repairs.saturating_sub(1);
            let is_time = self.standing.next_change.is_some_and(|at| at <= now);
            if is_time && self.bbr.on_time(now, &self.standing.path) {
                self.pacer.set_rate(now, self.bbr.pacing_rate(&self.standing.path));
                self.take_stock();
            }
        }
        if let (Some(update), Some(frequency)) = (update, self.frequency.as_mut()) {
            frequency.on_sent(update, pn);
            self.stats.frequency_updates += 1;
            self.take_stock();
        }
    }

    /// There was nothing (more) to send although sending was allowed.
    pub fn on_app_limited(&mut self) {
        if !self.is_inflight_limited() {
            self.ledger.on_app_limited();
        }
    }

    /// A TACK has arrived.
    pub fn on_tack(&mut self, now: Instant, tack: &Tack<'_>) -> Result<Newly, Violation> {
        self.check_received(tack.received_bytes)?;
        let round_trip = tack
            .timing
            .map(|timing| self.round_trip(now, timing.departure, timing.hold_us))
            .transpose()?;
        let delivered = self.delivered(tack)?;
        let newly = self.apply(now, &tack.ranges, &delivered, tack.ack_delay_us)?;
        self.stats.tacks += 1;
        self.ack_loss.on_tack(tack.sequence);
        self.stats.tacks_lost = self.ack_loss.lost();
        let round_trip = round_trip.flatten().filter(|_| !self.config.plain_sampling);
        if let Some(rtt) = round_trip {
            self.on_rtt(now, rtt);
        }
        let reported = tack.rate.map(|rate| {
            self.reported_loss_rate = f64::from(rate.loss_rate) / 65536.0;
            Bandwidth::from_bytes_per_second(rate.delivery_rate)
        });
        let round_trip = round_trip.or(newly.largest_rtt);
        self.feed(now, &newly, reported, round_trip);
        Ok(newly)
    }

    /// An IACK has arrived. Where it leaves numbers out that no TACK has
    /// reported either, it is left to the next TACK: a QUIC sender would take
    /// all of those for lost. A reply to IMMEDIATE_ACK reports what a TACK would,
    /// and after the last packet no other may come.
    pub fn on_iack(&mut self, now: Instant, iack: &Iack<'_>) -> Result<Newly, Violation> {
        self.check_received(iack.received_bytes)?;
        self.ledger.check(iack.ranges.iter())?;
        self.stats.iacks += 1;
        if iack.event != IackEvent::Reply
            && self.ledger.leaves_unknown_below(iack.ranges.smallest())
        {
            return Ok(Newly::default());
        }
        let mut newly = self.apply(now, &iack.ranges, &[], iack.ack_delay_us)?;
        // The receiver's rate comes with TACKs. An IACK leaves when a loss shows, right behind an
        // A-MPDU as a rule: taken there, a sample is always too high.
        newly.sample = None;
        self.feed(now, &newly, None, newly.largest_rtt);
        Ok(newly)
    }

    /// A standard ACK frame has arrived; `ack_delay` is already scaled.
    pub fn on_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        ack_delay: Duration,
    ) -> Result<Newly, Violation> {
        let newly = self.apply(now, &ack.ranges, &[], ack_delay.as_micros() as u64)?;
        self.stats.acks += 1;
        self.feed(now, &newly, None, newly.largest_rtt);
        Ok(newly)
    }

    /// RTTmin.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.get()
    }

    /// Smoothed round trip.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        self.smoothed_rtt
    }

    /// BWmax.
    pub fn bandwidth(&self) -> Bandwidth {
        self.bbr.bandwidth()
    }

    /// The rate at which packets leave.
    pub fn pacing_rate(&self) -> Bandwidth {
        self.pacer.rate()
    }

    /// Bytes in flight.
    pub fn in_flight(&self) -> u64 {
        self.ledger.in_flight()
    }

    /// The controller's state.
    pub fn phase(&self) -> Phase {
        self.bbr.phase()
    }

    /// rho', the loss rate of the ACK path between 0 and 1.
    pub fn ack_loss_rate(&self) -> f64 {
        self.ack_loss.share()
    }

    /// rho, the loss rate of the data path that the receiver reported.
    pub fn loss_rate(&self) -> f64 {
        self.reported_loss_rate
    }

    /// How far below the largest acknowledged number a packet is lost.
    pub fn packet_threshold(&self) -> u64 {
        self.ledger.packet_threshold()
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// One above the largest packet number sent.
    pub fn next_packet_number(&self) -> u64 {
        self.ledger.next_packet_number()
    }

    /// Whether the peer is asked for Startup's acknowledgements.
    fn is_starting(&self) -> bool {
        self.bbr.phase() == Phase::Startup && self.bbr.rounds() < STARTUP_ROUNDS
    }

    fn path(&self) -> Path {
        let min_rtt = self.min_rtt.get();
        let frequency = if self.is_starting() {
            self.config.frequency.of_startup()
        } else {
            self.config.frequency
        };
        Path {
            min_rtt,
            smoothed_rtt: self.smoothed_rtt,
            ack_interval: frequency.expected_interval(
                self.bbr.bandwidth(),
                min_rtt.unwrap_or_default(),
                self.config.mss,
            ),
            mss: self.config.mss,
        }
    }

    fn apply(
        &mut self,
        now: Instant,
        ranges: &AckRanges<'_>,
        delivered: &[u64],
        ack_delay_us: u64,
    ) -> Result<Newly, Violation> {
        let patience = self.smoothed_rtt.unwrap_or(Duration::from_millis(333));
        let newly = self.ledger.on_ack(now, ranges.iter(), delivered, patience)?;
        if self.config.plain_sampling {
            if let Some(rtt) = newly.earliest_rtt {
                self.on_rtt(now, rtt);
            }
        } else if let Some(with_hold) = newly.largest_rtt {
            let rtt = with_hold.saturating_sub(Duration::from_micros(ack_delay_us));
            self.on_rtt(now, if rtt.is_zero() { with_hold } else { rtt });
        }
        if let Some(frequency) = &mut self.frequency {
            frequency.settle(|pn| self.ledger.was_delivered(pn));
            frequency.set_reordering_threshold(self.ledger.packet_threshold());
        }
        self.stats.lost_packets += newly.lost_packets;
        self.repairs += newly.lost_packets;
        self.stats.lost_bytes += newly.lost_bytes;
        self.stats.spurious_losses += newly.spurious;
        self.stats.by_bubbles += newly.by_bubbles;
        Ok(newly)
    }

    /// The packets whose data has arrived, as the bubbles of a TACK tell.
    fn delivered(&self, tack: &Tack<'_>) -> Result<Vec<u64>, Violation> {
        let Some(bubbles) = tack.bubbles.as_ref().filter(|_| self.config.sees_all) else {
            return Ok(Vec::new());
        };
        let largest = tack.ranges.largest();
        Ok(self.streams.delivered(bubbles, largest, self.config.is_server)?)
    }

    /// The sender's part of equation (5): of how many packets of a round trip it hears nothing
    /// because their TACK gets lost. Zero while rho, the other part, leaves fewer than half a
    /// loss among them: then bubbles are of no use, and looking into packets for them neither.
    fn unreported(&self) -> u64 {
        let mss = self.config.mss.max(1);
        let min_rtt = self.min_rtt.get().unwrap_or_default();
        let in_round_trip = self.bbr.bandwidth().bytes_in(min_rtt) / mss;
        let Frequency { packets, per_round_trip, .. } = self.config.frequency;
        // bdp >= beta * L * MSS, or else each TACK stands for L packets.
        let bound_by_time = in_round_trip as f64 >= per_round_trip * packets as f64;
        let reported = if bound_by_time { in_round_trip } else { packets };
        let unreported = self.ack_loss.recent() * reported as f64;
        if unreported * self.reported_loss_rate < 0.5 { 0 } else { unreported as u64 }
    }

    fn feed(
        &mut self,
        now: Instant,
        newly: &Newly,
        reported: Option<Bandwidth>,
        round_trip: Option<Duration>,
    ) {
        self.last_feedback = now;
        self.stands_still = false;
        let path = self.path();
        let feedback = Feedback {
            sample: newly.sample,
            reported,
            delivered: self.ledger.delivered(),
            acked: newly.acked_bytes,
            in_flight: self.ledger.in_flight(),
            round_trip,
            min_rtt_expired: self.min_rtt.is_expired(now),
        };
        if self.bbr.on_feedback(now, &feedback, &path) {
            self.min_rtt.on_probed(now);
        }
        if self.bbr.phase() == Phase::ProbeRtt {
            // What is sent now says nothing of the path's rate. On a short path the visit lasts
            // longer than the bandwidth filter remembers.
            self.ledger.on_app_limited();
        }
        self.pacer.set_rate(now, self.bbr.pacing_rate(&path));
        self.take_stock();
    }

    fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        self.min_rtt.on_sample(now, rtt);
        // RFC 9002 section 5.3: 7/8 of the old and 1/8 of the new.
        self.smoothed_rtt = Some(self.smoothed_rtt.map_or(rtt, |old| (old * 7 + rtt) / 8));
    }

    /// RTT of the packet with the smallest one-way delay (section V-B).
    fn round_trip(
        &self,
        now: Instant,
        departure: u64,
        hold_us: u64,
    ) -> Result<Option<Duration>, Violation> {
        let unit = 1u64 << self.config.timestamp_exponent;
        let departure = Duration::from_micros(departure.saturating_mul(unit));
        let elapsed = now.saturating_duration_since(self.epoch);
        let travelled = elapsed.checked_sub(departure).ok_or(Violation::FutureTimestamp)?;
        Ok(travelled.checked_sub(Duration::from_micros(hold_us)))
    }

    fn check_received(&self, reported: u64) -> Result<(), Violation> {
        if self.config.sees_all && reported > self.sent_bytes {
            return Err(Violation::ReceivedMoreThanSent { reported, sent: self.sent_bytes });
        }
        Ok(())
    }
}
