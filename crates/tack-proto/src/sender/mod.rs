//! The data sender: what is on its way, how fast to send, how often to be told.

mod ack_frequency;
mod ack_loss;
mod acknowledgements;
mod bbr;
mod config;
mod immediate_ack;
mod min_rtt;
mod pacer;
mod sent_ledger;
mod stats;
mod stream_record;
mod violation;

use std::time::{Duration, Instant};

pub use ack_frequency::{AckFrequencySender, Frequency, Peer};
pub use ack_loss::AckLoss;
pub use bbr::{Bbr, BbrConfig, Feedback, INITIAL_WINDOW_PACKETS, MaxFilter, Path, Phase};
pub use config::SenderConfig;
pub use immediate_ack::ImmediateAcks;
pub use min_rtt::MinRtt;
pub use pacer::Pacer;
pub use sent_ledger::{Newly, OptimisticAck, RateSample, SentLedger};
pub use stats::SenderStats;
pub use stream_record::{BadBubble, StreamRecord};
pub use violation::Violation;

use crate::bandwidth::Bandwidth;
use crate::frame::{AckFrequency, Timestamp};

/// Round trips for which Startup asks for more acknowledgements than later. That
/// doubles ten packets to what any path carries; a flow that is still in Startup
/// then is limited by its application, and would stay there for good.
const STARTUP_ROUNDS: u64 = 16;

/// Departure times told for each TACK that may answer one of them, in Startup for each that may
/// later. A TACK interval on a fast path has dozens of bursts, and to tell the departure of one
/// costs as much as a whole packet.
const DEPARTURES_PER_TACK: u32 = 8;

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
        let interval = self.expected_interval(&self.config.frequency);
        self.pacer.set_head_spacing(interval / DEPARTURES_PER_TACK);
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

    /// Whether packet `pn` has been acknowledged, or lost; `None` while it is on its way. To be
    /// asked after each acknowledgement: the record is not kept for ever.
    pub fn was_delivered(&self, pn: u64) -> Option<bool> {
        self.ledger.was_delivered(pn)
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
        let frequency = &self.config.frequency;
        Path {
            min_rtt: self.min_rtt.get(),
            smoothed_rtt: self.smoothed_rtt,
            ack_interval: if self.is_starting() {
                self.expected_interval(&frequency.of_startup())
            } else {
                self.expected_interval(frequency)
            },
            mss: self.config.mss,
        }
    }

    fn expected_interval(&self, frequency: &Frequency) -> Duration {
        let min_rtt = self.min_rtt.get().unwrap_or_default();
        frequency.expected_interval(self.bbr.bandwidth(), min_rtt, self.config.mss)
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
}
