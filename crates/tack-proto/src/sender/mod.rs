//! The data sender: what is in flight, how fast to send, how often to be acknowledged.

mod ack_frequency;
mod ack_loss;
mod ack_path;
mod ack_spacing;
mod acknowledgements;
mod bbr;
mod black_hole;
mod cached_limits;
mod careful_resume;
mod config;
mod departures;
mod deviations;
#[cfg(test)]
mod ecn_tests;
mod ecn_validation;
mod immediate_ack;
mod jitter;
#[cfg(test)]
mod late_tests;
#[cfg(test)]
mod left_tests;
mod light_load;
mod min_rtt;
mod optimistic_ack_trap;
mod pacer;
mod packet_trains;
mod path_losses;
mod path_model;
#[cfg(test)]
mod path_tests;
mod paths;
#[cfg(test)]
mod pause_tests;
mod persistent_congestion;
mod restart;
#[cfg(test)]
mod rtt_tests;
mod scalable;
mod sent_packets;
mod spread;
#[cfg(test)]
mod startup_tests;
mod stats;
mod stream_record;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod trap_tests;
mod violation;

use std::time::{Duration, Instant};

pub use ack_frequency::{Frequency, Peer};
pub use bbr::{BbrConfig, Phase};
pub use careful_resume::{
    CarefulResumePhase, CarefulResumeTrigger, CcParameters, DEFAULT_LIFETIME, DEFAULT_MAX_JUMP,
};
pub use config::SenderConfig;
pub use departures::Departure;
pub use deviations::{Deviation, Deviations};
pub use paths::PathId;
pub use sent_packets::{AckOutcome, OptimisticAck};
pub use stats::SenderStats;
pub use stream_record::BadBubble;
pub use violation::Violation;

use crate::bandwidth::Bandwidth;
use crate::ecn::EcnState;
use crate::frame::{AckFrequency, Timestamp};
use ack_frequency::AckFrequencySender;
use ack_loss::AckLoss;
use bbr::{Bbr, Feedback, MinRttNews, Newest};
use cached_limits::CachedLimits;
use careful_resume::CarefulResume;
use ecn_validation::MarkRecord;
use immediate_ack::ImmediateAcks;
use min_rtt::MinRtt;
use optimistic_ack_trap::OptimisticAckTrap;
use pacer::{BURST, Pacer};
use packet_trains::{HEADERS, PacketTrains, SPLIT_COST};
use path_model::{INITIAL_WINDOW_PACKETS, PathModel};
use paths::{LeftPaths, PathState};
use sent_packets::{RateSample, SentPackets, TxInFlight};
use stream_record::StreamRecord;

/// Round trips for which Startup asks for more acknowledgements than later. That
/// doubles ten packets to what any path carries; a flow that is still in Startup
/// then is limited by its application, and would stay there for good (TACK-5.1-4).
const STARTUP_ROUNDS: u64 = 16;

/// Full packets on their way that are more than a question or an answer: bulk data, behind which
/// acknowledgements queue.
const BULK_PACKETS: u64 = 2;

/// kInitialRtt, RFC 9002 section 6.2.2: before a round trip has been measured.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// Sender state of one packet number space.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    epoch: Instant,
    sent: SentPackets,
    /// The path that data goes over, and those that it went over before.
    path: PathState,
    left: LeftPaths,
    trap: OptimisticAckTrap,
    frequency: Option<AckFrequencySender>,
    ack_loss: AckLoss,
    marks: MarkRecord,
    streams: StreamRecord,
    /// The last packet whose payload was given.
    last_payload: Option<u64>,
    immediate_acks: ImmediateAcks,
    limits: CachedLimits,
    /// Packets that repeat what was lost, and are still to be sent.
    repairs: u64,
    sent_bytes: u64,
    /// The path's own loss rate, as the receiver sees it.
    reported_loss_rate: f64,
    stats: SenderStats,
}

impl Sender {
    /// A sender on `PathId(0)`; `rtt` is the handshake's round trip.
    pub fn new(now: Instant, config: SenderConfig, rtt: Option<Duration>) -> Self {
        let mut left = LeftPaths::default();
        let mut path = PathState::new(now, PathId::default(), left.new_flight(), &config);
        path.rate_from = Some(0);
        path.careful_resume = CarefulResume::new(config.saved, config.max_jump);
        if let Some(rtt) = rtt {
            path.min_rtt.on_sample(now, rtt);
        }
        (path.latest_rtt, path.smoothed_rtt) = (rtt, rtt);
        path.rtt_variation = rtt.unwrap_or_default() / 2;
        let mut sender = Self {
            config,
            epoch: now,
            sent: SentPackets::new(now, config.sees_all, path.flight),
            left,
            trap: OptimisticAckTrap::new(config.random),
            frequency: config.peer.map(|peer| {
                AckFrequencySender::new(peer).with_spaced_start(config.has_light_loads())
            }),
            ack_loss: AckLoss::default(),
            marks: MarkRecord::default(),
            streams: StreamRecord::default(),
            last_payload: None,
            immediate_acks: ImmediateAcks::default(),
            limits: CachedLimits {
                path: PathModel {
                    min_rtt: rtt,
                    smoothed_rtt: rtt,
                    ack_interval: Duration::ZERO,
                    usual_ack_interval: Duration::ZERO,
                    ack_late: Duration::ZERO,
                    own_late: Duration::ZERO,
                    ack_path: Duration::ZERO,
                    jitter: Duration::ZERO,
                    usual_jitter: Duration::ZERO,
                    jitter_both_ways: Duration::ZERO,
                    forward_rtt: rtt,
                    mss: config.mss,
                    initial_window: config.bbr.initial_window_packets * config.mss,
                },
                inflight_cap: 0,
                outage_cap: 0,
                next_change: None,
                update: None,
            },
            path,
            repairs: 0,
            sent_bytes: 0,
            reported_loss_rate: 0.0,
            stats: SenderStats::default(),
        };
        sender.restart_pacer(now);
        sender.recompute();
        sender
    }

    /// Data goes over that path from now on (RFC 9000 section 9.4, TACK-5.7-1). A path that
    /// was left within the last 30 seconds goes on with what was known of it,
    /// another one begins anew.
    pub fn set_path(&mut self, now: Instant, id: PathId) {
        if self.path.id == id {
            return;
        }
        let known = self.left.take(now, id);
        let mut path = known
            .unwrap_or_else(|| PathState::new(now, id, self.left.new_flight(), &self.config));
        path.enter(now, self.sent.next_packet_number(), &self.limits.path);
        let before = std::mem::replace(&mut self.path, path);
        self.sent.set_flight(now, self.path.flight);
        for forgotten in self.left.keep(now, before) {
            self.sent.forget_flight(forgotten);
        }
        // TACK-5.7-2: a path that was left in a probe or in Drain goes on in Cruise.
        self.restart_pacer(now);
        self.recompute();
    }

    /// The path that data goes over.
    pub fn path(&self) -> PathId {
        self.path.id
    }

    /// Follows the size of packets that the path takes.
    pub fn set_mss(&mut self, mss: u64) {
        if self.config.mss != mss {
            if self.config.max_in_flight < u64::MAX {
                self.config.max_in_flight =
                    self.config.max_in_flight / self.config.mss.max(1) * mss;
            }
            self.config.mss = mss;
            self.recompute();
        }
    }

    /// Whether the path may have stopped taking packets that are longer than 1,200 bytes (TACK-6.5-12); told
    /// once.
    pub fn take_black_hole(&mut self) -> bool {
        self.path.black_hole.take()
    }

    /// Whether data may leave now; `waits` tells that there is some.
    pub fn may_send(&mut self, now: Instant, waits: bool) -> bool {
        self.end_jump_in_time(now);
        let allowed = self.allows(now, waits);
        if !allowed && waits && self.jumps(now) {
            return self.allows(now, waits);
        }
        allowed
    }

    fn allows(&mut self, now: Instant, waits: bool) -> bool {
        if self.sent.in_flight() >= self.limits.outage_cap {
            let silence = now.saturating_duration_since(self.path.last_feedback);
            self.path.stands_still |= self.limits.path.is_outage(silence);
        }
        if self.is_inflight_limited() {
            self.path.pacer.on_held_back();
            if waits {
                self.sent.on_data_waits();
            }
            if waits && !self.path.stands_still {
                self.path.bbr.on_inflight_limited(&self.limits.path);
            }
            return false;
        }
        // TACK-6.4-1: the initial window may leave at once (RFC 9002 section 7.7): a flow that
        // fits is over sooner.
        let first = self.sent_bytes < INITIAL_WINDOW_PACKETS * self.config.mss;
        let allowed = first || self.path.pacer.may_send(now, waits);
        if waits && !allowed {
            self.sent.on_data_waits();
        }
        allowed
    }

    /// Whether as much is in flight as may be. Only an acknowledgement changes that.
    pub fn is_inflight_limited(&self) -> bool {
        self.path.stands_still || self.sent.in_flight() >= self.limits.inflight_cap
    }

    /// When the pacer lets the next packet leave.
    pub fn release_time(&self) -> Instant {
        self.path.pacer.release_time()
    }

    /// Whether a packet written now should carry a TIMESTAMP: it begins a burst. Not where it repeats
    /// what was lost: the QUIC stack would split that for want of its room.
    #[inline]
    pub fn wants_timestamp(&self, now: Instant) -> bool {
        self.repairs == 0 && (self.path.pacer.at_burst_head(now) || self.begins_train(now))
    }

    /// The TIMESTAMP to put into a packet written now, if it should carry one.
    pub fn timestamp(&self, now: Instant) -> Option<Timestamp> {
        if !self.wants_timestamp(now) {
            return None;
        }
        Some(self.clock(now))
    }

    /// Whether a packet that takes all that was left to send should carry a TIMESTAMP, as the end of a
    /// packet train (TACK-5.2-3).
    #[inline]
    pub fn wants_tail_timestamp(&self) -> bool {
        self.config.packet_trains && self.repairs == 0
    }

    /// Whether a packet that leaves now begins a packet train: the application had nothing to send, and what it
    /// has written since could have left before.
    #[inline]
    fn begins_train(&self, now: Instant) -> bool {
        self.config.packet_trains
            && self.path.trains.has_run_dry()
            && self.path.pacer.release_time() + BURST <= now
    }

    /// Whether `waiting` bytes, all that there is to send, should leave in two packets (TACK-6.8-6).
    #[inline]
    pub fn splits(&self, now: Instant, waiting: impl FnOnce() -> u64) -> bool {
        self.begins_train(now)
            && self.path.trains.splits(waiting(), self.sent_bytes, self.config.mss)
    }

    /// The first of the two has left.
    pub fn on_split(&mut self) {
        self.on_train_cost(SPLIT_COST);
    }

    /// Whether a packet train that has left wants for a last packet with a TIMESTAMP (TACK-6.8-7).
    pub fn owes_train_tail(&self, now: Instant) -> bool {
        self.wants_tail_timestamp() && self.path.trains.owes_tail(now, self.sent_bytes)
    }

    /// A packet of so many bytes has left to end a packet train, and for nothing else.
    pub fn on_train_tail(&mut self, bytes: u64) {
        self.on_train_cost(bytes + HEADERS);
    }

    /// So many bytes have left for packet trains alone.
    pub fn on_train_cost(&mut self, bytes: u64) {
        self.path.trains.on_cost(bytes);
        self.stats.train_bytes += bytes;
    }

    /// Begins or ends to measure the path with packet trains. The peer tells of arrivals only if it was asked
    /// to when the connection began.
    pub fn set_packet_trains(&mut self, enabled: bool) {
        if self.config.packet_trains != enabled {
            self.config.packet_trains = enabled;
            self.path.trains = PacketTrains::default();
            self.recompute();
        }
    }

    /// The ACK_FREQUENCY to put into a packet written now, if the peer should
    /// be asked for something new (TACK-5.1-5).
    pub fn frequency_update(&self) -> Option<AckFrequency> {
        self.limits.update
    }

    /// The packet with the acknowledgements that come next took so much longer than the fastest of
    /// late, by its TIMESTAMP; `None` if it has none (TACK-5.3-6).
    pub fn on_ack_path_delay(&mut self, now: Instant, above_lowest: Option<Duration>) {
        let bulk = BULK_PACKETS * self.config.mss;
        self.path.ack_path.on_packet(above_lowest, bulk);
        if let Some(above) = above_lowest.filter(|_| !self.path.ack_path.is_behind_data(bulk))
            && let Some(model) = self.ack_spacing_model()
        {
            self.path.ack_spacing.on_delay(now, above, &model);
        }
    }

    /// The peer has sent so many bytes in a packet that elicits acknowledgements.
    pub fn on_peer_data(&mut self, bytes: usize) {
        self.path.ack_path.on_peer_data(bytes as u64);
    }

    /// The rate at which packets leave while there is more to send than may leave; `None` where
    /// there is less.
    pub fn bulk_rate(&self) -> Option<Bandwidth> {
        let is_bulk = self.sent.in_flight() >= BULK_PACKETS * self.config.mss;
        (is_bulk && !self.sent.is_app_limited()).then(|| self.pacing_rate())
    }

    /// The TIMESTAMP of a packet that is written now.
    pub fn clock(&self, now: Instant) -> Timestamp {
        let elapsed = now.saturating_duration_since(self.epoch).as_micros() as u64;
        Timestamp(elapsed >> self.config.timestamp_exponent)
    }

    /// Whether [`Self::on_payload`] is worth opening a packet for: the receiver has been asked
    /// for bubbles.
    pub fn wants_payloads(&self) -> bool {
        self.config.sees_all
            && self.frequency.as_ref().is_some_and(AckFrequencySender::asks_for_bubbles)
    }

    /// The frames of packet `pn`, which is going to be written.
    pub fn on_payload(&mut self, pn: u64, payload: &[u8]) {
        self.streams.forget_below(self.sent.first_packet_number());
        self.streams.on_payload(pn, payload, self.sent_bytes + payload.len() as u64);
        self.last_payload = Some(pn);
    }

    /// The probe timer (RFC 9002 section 6.2) has expired.
    pub fn on_probe_timeout(&mut self) {
        self.immediate_acks.on_probe_timeout();
        self.ack_loss.on_probe_timeout();
        self.path.ecn.on_probe_timeout();
    }

    /// Whether the packet written now should carry IMMEDIATE_ACK; `tail` if it
    /// takes all that was left to send.
    pub fn wants_immediate_ack(&self, now: Instant, tail: bool) -> bool {
        let hold = self.frequency.as_ref().and_then(AckFrequencySender::hold);
        let rtt = self.path.smoothed_rtt.unwrap_or_default();
        hold.is_some_and(|hold| self.immediate_acks.is_wanted(now, tail, hold, rtt))
    }

    /// IMMEDIATE_ACK has been written.
    pub fn on_immediate_ack_sent(&mut self, now: Instant) {
        self.immediate_acks.on_sent(now);
        self.stats.immediate_acks += 1;
    }

    /// An upper bound of the probe timeout (RFC 9002 section 6.2.1) in any QUIC stack.
    pub fn probe_timeout(&self) -> Duration {
        3 * self.path.smoothed_rtt.unwrap_or(INITIAL_RTT) + self.config.max_ack_delay
    }

    /// A lower bound of the same.
    fn least_probe_timeout(&self) -> Duration {
        self.path.smoothed_rtt.unwrap_or_default() + self.config.max_ack_delay
    }

    /// What is known of ECN on the path that data goes over.
    pub fn ecn_state(&self) -> EcnState {
        self.path.ecn.state()
    }

    /// The same of any path; `None` of one that data never went over, or that was forgotten.
    pub fn ecn_state_on(&self, path: PathId) -> Option<EcnState> {
        if path == self.path.id { Some(self.ecn_state()) } else { self.left.ecn_state(path) }
    }

    /// There was nothing (more) to send although sending was allowed.
    pub fn on_app_limited(&mut self) {
        self.path.pacer.on_held_back();
        if !self.is_inflight_limited() {
            self.sent.on_run_dry();
            self.path.bbr.on_run_dry();
            if self.config.packet_trains {
                self.path.trains.on_run_dry();
            }
        }
    }

    /// Whether the application has had less to send than may leave, as of what was acknowledged last.
    pub fn is_app_limited(&self) -> bool {
        self.sent.is_app_limited()
    }

    /// RTTmin.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.path.min_rtt.get()
    }

    /// The latest round trip.
    pub fn latest_rtt(&self) -> Option<Duration> {
        self.path.latest_rtt
    }

    /// Smoothed round trip.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        self.path.smoothed_rtt
    }

    /// BWmax.
    pub fn bandwidth(&self) -> Bandwidth {
        self.path.bbr.bandwidth()
    }

    /// The rate that the path could carry now, bytes of UDP payload per second: what packet trains show
    /// while the application sends less than it may (TACK-6.8-4), else the controller's bandwidth.
    pub fn estimated_send_rate(&self, now: Instant) -> Bandwidth {
        self.measured_by_trains(now).unwrap_or_else(|| self.bandwidth())
    }

    /// When a packet train has last shown something of the path.
    pub fn trains_measured(&self) -> Option<Instant> {
        self.path.trains.measured()
    }

    /// What packet trains show, while they have something to show.
    fn measured_by_trains(&self, now: Instant) -> Option<Bandwidth> {
        let trains = &self.path.trains;
        trains.estimate().filter(|_| trains.is_app_limited(now))
    }

    /// The rate at which a train leaves (TACK-6.8-2); `None` while the controller's holds.
    fn train_rate(&self) -> Option<Bandwidth> {
        // Bulk data begins as a train does. Its Startup is the controller's.
        let is_measured = match self.path.bbr.phase() {
            Phase::Startup => self.sent.is_app_limited(),
            phase => phase == Phase::ProbeBw,
        };
        let is_train = self.is_train_for(packet_trains::LONGEST);
        self.path.trains.rate().filter(|_| is_measured && is_train)
    }

    /// Whether a train has not yet had its time to leave faster than the controller lets it (TACK-6.8-2).
    fn train_may_be_faster(&self) -> bool {
        self.is_train_for(packet_trains::FASTER_FOR)
    }

    /// Whether what leaves belongs to a train that has not begun longer ago than that.
    fn is_train_for(&self, time: Duration) -> bool {
        let trains = &self.path.trains;
        trains.has_run_dry() || trains.began_within(self.path.last_feedback, time)
    }

    /// The rate at which packets leave.
    pub fn pacing_rate(&self) -> Bandwidth {
        self.path.pacer.rate()
    }

    /// Bytes of all ack-eliciting packets sent.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes in flight on the path that data goes over.
    pub fn in_flight(&self) -> u64 {
        self.sent.in_flight()
    }

    /// Bytes in flight on all paths.
    pub fn total_in_flight(&self) -> u64 {
        self.sent.total_in_flight()
    }

    /// Bytes that may be in flight on the path that data goes over.
    pub fn inflight_cap(&self) -> u64 {
        self.limits.inflight_cap
    }

    /// The controller's state.
    pub fn phase(&self) -> Phase {
        self.path.bbr.phase()
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
        self.sent.packet_threshold()
    }

    /// Whether packet `pn` has been acknowledged, or lost; `None` while it is on its way. To be
    /// asked after each acknowledgement: the record is not kept for ever.
    pub fn was_delivered(&self, pn: u64) -> Option<bool> {
        self.sent.was_delivered(pn)
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// The largest packet number that was acknowledged, on whichever path.
    pub fn largest_acked(&self) -> Option<u64> {
        self.sent.largest_acked()
    }

    /// The lowest packet number of which it may not be known what has become.
    pub fn first_packet_number(&self) -> u64 {
        self.sent.first_packet_number()
    }

    /// One above the largest packet number sent.
    pub fn next_packet_number(&self) -> u64 {
        self.sent.next_packet_number()
    }

    #[cfg(test)]
    fn skipped_between(&self, first: u64, last: u64) -> Vec<u64> {
        self.sent.skipped_between(first, last)
    }

    fn restart_pacer(&mut self, now: Instant) {
        let rate = self.wanted_rate(&self.path_model());
        self.path.pacer.set_rate(now, rate);
    }

    /// Packets that may be in flight within a round trip.
    fn window(&self) -> u64 {
        self.limits.inflight_cap / self.config.mss.max(1)
    }

    /// Whether the peer is asked for Startup's acknowledgements.
    fn is_starting(&self) -> bool {
        self.path.bbr.phase() == Phase::Startup && self.path.bbr.rounds() < STARTUP_ROUNDS
    }
}
