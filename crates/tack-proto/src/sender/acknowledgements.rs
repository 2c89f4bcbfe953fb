//! What arrives from the receiver: TACKs, IACKs and standard ACKs.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::{
    AckOutcome, BULK_PACKETS, Deviation, Feedback, INITIAL_RTT, MinRttNews, Newest, Peer,
    Phase, Sender, Violation,
};
use crate::bandwidth::Bandwidth;
use crate::frame::{Ack, AckRanges, EcnCounts, Iack, IackEvent, Tack, Timing};
use crate::loss_detection::GRANULARITY;
use crate::range_set::normalise;
use crate::repetition::LEAST_RANGES;

/// Packets that one TACK leaves out of its ranges and that are held against its bubbles
/// (TACK-5.4-5): they are fewer on a path of 50 Mbit/s and 200 ms that loses three in four
/// acknowledgements, and cost some ten microseconds.
const MAX_BY_BUBBLES: usize = 2048;

/// Packets that may leave after the newest acknowledged one (TACK-7-16): five times as many as the layer has
/// in flight at most. A QUIC stack keeps some 330 bytes of each, also of those that only acknowledge.
const MOST_UNANSWERED: u64 = 100_000;

/// Checks (TACK-7-13): they change nothing, and hold until something else is applied.
impl Sender {
    /// Whether a TACK may be applied; if not, the connection must be closed.
    pub fn check_tack(&self, now: Instant, tack: &Tack<'_>) -> Result<(), Violation> {
        self.check_received(tack.received_bytes)?;
        if let Some(timing) = tack.timing {
            // TACK-7-8
            self.travelled(now, timing.departure).ok_or(Violation::FutureTimestamp)?;
        }
        if let Some(bubbles) = tack.bubbles.as_ref().filter(|_| self.config.sees_all) {
            self.streams.check(bubbles, self.config.is_server)?;
        }
        Ok(self.sent.check(tack.ranges.iter())?)
    }

    /// Whether an IACK may be applied; if not, the connection must be closed.
    pub fn check_iack(&self, _now: Instant, iack: &Iack<'_>) -> Result<(), Violation> {
        self.check_received(iack.received_bytes)?;
        Ok(self.sent.check(iack.ranges.iter())?)
    }

    /// Whether an ACK may be applied; if not, the connection must be closed.
    pub fn check_ack(&self, _now: Instant, ack: &Ack<'_>) -> Result<(), Violation> {
        Ok(self.sent.check(ack.ranges.iter())?)
    }

    /// Whether a peer that sends also acknowledges; if not, the connection must be closed.
    pub fn check_answers(&self) -> Result<(), Violation> {
        let answered = self.sent.largest_acked().map_or(0, |largest| largest + 1);
        let packets = self.sent.next_packet_number().saturating_sub(answered);
        if packets > MOST_UNANSWERED {
            return Err(Violation::AcknowledgesNothing { packets });
        }
        Ok(())
    }

    /// The numbers that [`Self::on_tack`] would report as acknowledged, in
    /// ascending ranges.
    pub fn newly_acknowledged(&self, tack: &Tack<'_>) -> Vec<RangeInclusive<u64>> {
        if self.is_left_to_long_tack(tack) {
            return Vec::new();
        }
        let mut numbers = self.sent.unacknowledged(tack.ranges.iter());
        if tack.bubbles.is_some() {
            numbers.extend(self.delivered(tack).into_iter().map(|pn| pn..=pn));
            normalise(&mut numbers);
        }
        numbers
    }

    /// The numbers that [`Self::on_iack`] would report as acknowledged, in
    /// ascending ranges.
    pub fn newly_acknowledged_by_iack(&self, iack: &Iack<'_>) -> Vec<RangeInclusive<u64>> {
        if self.is_left_to_tack(iack) {
            return Vec::new();
        }
        self.sent.unacknowledged(iack.ranges.iter())
    }

    /// The numbers of `ranges` that nothing has acknowledged yet, in ascending
    /// ranges. Numbers skipped on purpose below the highest of `ranges` are among
    /// them, once; numbers older than the record are not.
    pub fn unacknowledged(
        &self,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
    ) -> Vec<RangeInclusive<u64>> {
        self.sent.unacknowledged(ranges)
    }

    /// An IACK that leaves out numbers which no TACK has reported either is left to the
    /// next TACK (TACK-5.4-4): a QUIC sender would take all of those for lost. A reply to
    /// IMMEDIATE_ACK reports what a TACK would, and after the last packet no other may
    /// come.
    pub fn is_left_to_tack(&self, iack: &Iack<'_>) -> bool {
        iack.event != IackEvent::Reply && self.sent.leaves_unknown_below(iack.ranges.smallest())
    }

    /// A short TACK that leaves out numbers which nothing has reported either is left to the next long one
    /// (TACK-5.4-7): eight TACKs or more before it were lost.
    pub fn is_left_to_long_tack(&self, tack: &Tack<'_>) -> bool {
        tack.bubbles.is_none()
            && tack.ranges.len() < LEAST_RANGES
            && self.ack_loss.may_leave_out(tack.sequence)
            && self.sent.leaves_unknown_below(tack.ranges.smallest())
    }

    fn check_received(&self, reported: u64) -> Result<(), Violation> {
        // TACK-7-7, TACK-7-15
        if self.config.sees_all && reported > self.sent_bytes {
            return Err(Violation::ReceivedMoreThanSent { reported, sent: self.sent_bytes });
        }
        Ok(())
    }

    /// The packets whose data has arrived according to the bubbles of a TACK, and that its
    /// ranges do not name.
    fn delivered(&self, tack: &Tack<'_>) -> Vec<u64> {
        match tack.bubbles.as_ref().filter(|_| self.config.sees_all) {
            Some(bubbles) => {
                let left_out = self.sent.left_out(tack.ranges.iter(), MAX_BY_BUBBLES);
                self.streams.delivered(bubbles, &left_out)
            }
            None => Vec::new(),
        }
    }
}

/// What acknowledgements change, frame by frame (TACK-3-3). Claims that do not check have no
/// effect.
impl Sender {
    /// A TACK has arrived, which is not [left to a long one](Self::is_left_to_long_tack).
    pub fn on_tack(&mut self, now: Instant, tack: &Tack<'_>) -> AckOutcome {
        let delivered = self.delivered(tack);
        let outcome = self.apply(now, &tack.ranges, &delivered, (tack.ecn, true));
        let oldest = self.path.oldest_acked.take();
        let round_trip = tack
            .timing
            .filter(|_| !self.config.plain_sampling)
            .and_then(|timing| self.round_trip(now, timing, oldest));
        self.sample_held(now, &outcome, tack.ack_delay_us);
        self.count_tack(tack.sequence);
        let some_lost = self.ack_loss.take_missing();
        self.sample_gap(now, some_lost);
        if let Some(rtt) = round_trip {
            let forward = self.without_ack_path(now, rtt);
            self.path.min_rtt.on_sample(now, forward);
            self.on_rtt(now, rtt, rtt);
        }
        if let Some(arrivals) = tack.arrivals.as_ref().filter(|_| self.config.packet_trains) {
            let (bandwidth, mss) = (self.path.bbr.bandwidth(), self.config.mss);
            self.path.trains.on_arrivals(now, &arrivals.get(), bandwidth, mss);
        }
        let owns_rate = self.path.owns_rate(tack.sequence, tack.ranges.largest());
        let reported = tack.rate.filter(|_| owns_rate).map(|rate| {
            self.reported_loss_rate = f64::from(rate.loss_rate) / 65536.0;
            Bandwidth::from_bytes_per_second(rate.delivery_rate)
        });
        let round_trip = round_trip.or(outcome.current.largest_rtt);
        let hold = Duration::from_micros(tack.ack_delay_us);
        self.feed(now, (&tack.ranges, hold), &outcome, reported, round_trip);
        outcome
    }

    /// The TACK of this sequence has arrived and was left to the next long one before anything of its packet was
    /// applied.
    pub fn on_left_tack(&mut self, sequence: u64) {
        self.count_tack(sequence);
    }

    fn count_tack(&mut self, sequence: u64) {
        self.stats.tacks += 1;
        self.ack_loss.on_tack(sequence);
        self.stats.tacks_lost = self.ack_loss.lost();
    }

    /// An IACK has arrived.
    pub fn on_iack(&mut self, now: Instant, iack: &Iack<'_>) -> AckOutcome {
        if self.is_left_to_tack(iack) {
            self.on_left_iack();
            return AckOutcome::default();
        }
        self.stats.iacks += 1;
        let mut outcome = self.apply(now, &iack.ranges, &[], (iack.ecn, true));
        self.sample_held(now, &outcome, iack.ack_delay_us);
        // TACK-6.1-2: the receiver's rate comes with TACKs. An IACK leaves when a loss shows,
        // right behind an A-MPDU as a rule: taken there, a sample is always too high.
        outcome.current.sample = None;
        let hold = Duration::from_micros(iack.ack_delay_us);
        self.feed(now, (&iack.ranges, hold), &outcome, None, outcome.current.largest_rtt);
        outcome
    }

    /// An IACK has arrived that was left to the next TACK before anything of its packet was applied.
    pub fn on_left_iack(&mut self) {
        self.stats.iacks += 1;
    }

    /// A standard ACK frame has arrived; `ack_delay` is already scaled.
    pub fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, ack_delay: Duration) -> AckOutcome {
        // TACK-5.8-6
        let has_room = !matches!(self.config.peer, Some(Peer::Tack { .. }));
        let outcome = self.apply(now, &ack.ranges, &[], (ack.ecn, has_room));
        self.sample_delayed(now, &outcome, ack_delay);
        self.stats.acks += 1;
        self.sample_gap(now, false);
        self.feed(now, (&ack.ranges, ack_delay), &outcome, None, outcome.current.largest_rtt);
        outcome
    }

    /// Takes acknowledged packets out of flight. `has_room` tells that what reports no ECN counts has none
    /// to report.
    fn apply(
        &mut self,
        now: Instant,
        ranges: &AckRanges<'_>,
        delivered: &[u64],
        (ecn, has_room): (Option<EcnCounts>, bool),
    ) -> AckOutcome {
        let is_newest = Some(ranges.largest()) > self.sent.largest_acked();
        let proves = is_newest && (ecn.is_some() || has_room);
        let (latest, smoothed) = (self.path.latest_rtt, self.path.smoothed_rtt);
        let round_trip = latest.max(smoothed).unwrap_or(INITIAL_RTT);
        let duration = self.persistent_congestion_duration();
        self.sent.set_persistent_duration(self.path.sampled, duration);
        let mut outcome = self.sent.on_ack(now, ranges.iter(), delivered, round_trip);
        let oldest = outcome.current.earliest_rtt.and_then(|rtt| now.checked_sub(rtt));
        let known = self.path.oldest_acked;
        self.path.oldest_acked = known.into_iter().chain(oldest).min();
        self.path.black_hole.on_outcome(&outcome.current);
        self.path.restart.on_acknowledgement(|pn| self.sent.was_delivered(pn));
        let (all, current) = (outcome.marked, outcome.current.marked);
        let validation = &mut self.path.ecn;
        outcome.current.ce =
            validation.on_acknowledged(now, &mut self.marks, all, current, ecn, proves);
        // TACK-5.8-7
        self.stats.ce += outcome.current.ce;
        if let Some(frequency) = &mut self.frequency {
            frequency.on_acknowledgement(|pn| self.sent.was_delivered(pn));
            frequency.set_reordering_threshold(self.sent.packet_threshold());
        }
        self.stats.lost_packets += outcome.lost_packets;
        self.repairs += outcome.lost_packets;
        self.stats.lost_bytes += outcome.lost_bytes;
        self.stats.spurious_losses += outcome.spurious;
        self.stats.persistent_congestions +=
            u64::from(outcome.current.is_persistent_congestion);
        self.stats.by_bubbles += outcome.by_bubbles;
        outcome
    }

    /// A round trip from the largest number of a TACK or IACK (TACK-5.3-2). Their ACK Delay is
    /// exact, so the sample is the path's alone.
    fn sample_held(&mut self, now: Instant, outcome: &AckOutcome, ack_delay_us: u64) {
        if self.config.plain_sampling {
            self.sample_plainly(now, outcome);
        } else if let Some(with_hold) = outcome.current.largest_rtt {
            let hold = Duration::from_micros(ack_delay_us);
            self.path.sample_jitter(with_hold, hold);
            let rtt = with_hold.saturating_sub(hold);
            let rtt = if rtt.is_zero() { with_hold } else { rtt };
            let forward = self.without_ack_path(now, rtt);
            self.path.min_rtt.on_sample(now, forward);
            self.on_rtt(now, with_hold, rtt);
        }
    }

    /// A round trip from the largest number of an ACK (RFC 9002 sections 5.2 and 5.3,
    /// TACK-5.3-3): the minimum takes no ACK Delay off, and the smoothed value no more than the
    /// peer's `max_ack_delay`, nor what would make it less than the minimum.
    fn sample_delayed(&mut self, now: Instant, outcome: &AckOutcome, ack_delay: Duration) {
        if self.config.plain_sampling {
            return self.sample_plainly(now, outcome);
        }
        let Some(latest) = outcome.current.largest_rtt else { return };
        self.path.sample_jitter(latest, Duration::ZERO);
        self.path.min_rtt.on_sample(now, latest);
        self.follow_untimed_ack_path(now, latest);
        let ack_delay = ack_delay.min(self.config.max_ack_delay);
        let least = self.path.min_rtt.get().unwrap_or_default() + ack_delay;
        let adjusted = latest.saturating_sub(ack_delay);
        self.on_rtt(now, latest, if latest >= least { adjusted } else { latest });
    }

    fn sample_plainly(&mut self, now: Instant, outcome: &AckOutcome) {
        if let Some(rtt) = outcome.current.earliest_rtt {
            self.path.min_rtt.on_sample(now, rtt);
            self.on_rtt(now, rtt, rtt);
        }
    }

    /// Learns how irregularly TACKs come (TACK-6.2-10); `some_lost` tells that some did not.
    fn sample_gap(&mut self, now: Instant, some_lost: bool) {
        let last = self.path.last_tack.replace(now);
        if self.sent.is_app_limited() {
            self.path.last_tack = None;
            return;
        }
        let Some(gap) = last.map(|last| now.saturating_duration_since(last)) else { return };
        // How long a path has stood still is no measure, nor what comes right behind it.
        let stood_still = !some_lost && self.limits.path.is_outage(gap);
        if !stood_still && self.path.bbr.phase() != Phase::Drain {
            let alpha = self.limits.path.ack_interval;
            self.path.ack_late.on_sample(gap.saturating_sub(alpha));
        }
    }

    /// Informs the controller, unless the acknowledgement is all about another path
    /// (RFC 9000 section 9.4).
    fn feed(
        &mut self,
        now: Instant,
        (ranges, hold): (&AckRanges<'_>, Duration),
        outcome: &AckOutcome,
        reported: Option<Bandwidth>,
        round_trip: Option<Duration>,
    ) {
        if ranges.largest() < self.path.first_packet {
            self.recompute();
            return;
        }
        self.path.last_feedback = now;
        self.path.stands_still = false;
        let newest = outcome.current.largest_rtt.map(|rtt| rtt.saturating_sub(hold));
        self.follow_light_load(now, newest);
        let (basis, path) = (self.model_basis(), self.path_model());
        let within = |rtt| self.path.ack_path.within(rtt, path.min_rtt);
        let ack_path = round_trip.map(within).unwrap_or_default();
        // What has arrived while the acknowledgement queued is not in flight any more.
        let arrived = self.path.bbr.bandwidth().bytes_in(ack_path);
        let feedback = Feedback {
            sample: outcome.current.sample,
            reported: reported
                .filter(|_| self.config.bbr.deviations.has(Deviation::ReceiverRate)),
            delivered: self.sent.delivered(),
            acked: outcome.current.acked_bytes,
            lost: outcome.current.lost_bytes,
            probe_acked: outcome.current.probe_acked_bytes,
            probe_lost: outcome.current.probe_lost_bytes,
            slow_acked: outcome.current.slow_acked_bytes,
            slow_lost: outcome.current.slow_lost_bytes,
            probe_lost_at: outcome.current.probe_lost_at,
            lost_packets: outcome.current.lost_packets,
            spurious: outcome.current.spurious,
            ce: outcome.current.ce,
            is_persistent_congestion: outcome.current.is_persistent_congestion,
            was_no_persistent_congestion: outcome.current.was_no_persistent_congestion,
            in_flight: self.sent.in_flight().saturating_sub(arrived),
            round_trip: round_trip.map(|rtt| rtt.saturating_sub(ack_path)),
            newest: outcome.current.largest_rtt.and_then(|since| {
                Some(Newest {
                    packet_number: ranges.largest(),
                    left: now.checked_sub(since)?,
                    arrived: now.checked_sub(hold.min(since) + ack_path)?,
                    acked: now,
                    delivered: self.sent.delivered(),
                })
            }),
            min_rtt_expired: self.path.min_rtt.is_expired(now),
        };
        let order = self.follow_careful_resume(now, ranges.largest(), &feedback, &path);
        let rounds = self.path.bbr.rounds();
        let news = self.path.bbr.on_feedback(now, &feedback, &path);
        if self.path.bbr.rounds() != rounds {
            self.path.pacer.on_round(self.path.bbr.overflows());
        }
        match news {
            Some(MinRttNews::Probed) => self.path.min_rtt.on_probed(now),
            Some(MinRttNews::Outdated) => self.path.min_rtt.expire(),
            None => {}
        }
        self.end_retreat(order);
        if self.path.bbr.phase() == Phase::ProbeRtt {
            // What is sent now says nothing of the path's rate. On a short path the visit lasts
            // longer than the bandwidth filter remembers.
            self.sent.on_app_limited();
        }
        self.path.pacer.set_rate(now, self.wanted_rate(&path));
        self.recompute_from(basis, path);
        if self.is_inflight_limited() {
            self.path.pacer.on_held_back();
        }
    }

    /// TACK-5.1-10: under a light load nothing queues.
    fn follow_light_load(&mut self, now: Instant, newest: Option<Duration>) {
        let min_rtt = self.path.min_rtt.get().unwrap_or_default();
        let has_queued = newest.is_some_and(|rtt| rtt > min_rtt + self.config.max_ack_delay);
        let capacity = self.measured_by_trains(now);
        let round_trip = self.path.smoothed_rtt.unwrap_or_default();
        self.path.light_load.on_feedback(now, round_trip, has_queued, capacity);
    }

    /// A round trip without what the acknowledgement queued for on its own way (TACK-5.3-6).
    fn without_ack_path(&mut self, now: Instant, round_trip: Duration) -> Duration {
        let path = &mut self.path;
        let span = 2 * path.smoothed_rtt.unwrap_or(round_trip);
        path.ack_path.on_round_trip(now, round_trip, path.min_rtt.get(), span)
    }

    /// Learns from an ACK of a stock peer what ACKs queue for (TACK-8-6).
    fn follow_untimed_ack_path(&mut self, now: Instant, round_trip: Duration) {
        if matches!(self.config.peer, Some(Peer::Tack { .. })) {
            return;
        }
        let is_starting = self.is_starting();
        let path = &mut self.path;
        let cycle = path.bbr.cycle(&self.limits.path);
        let span = cycle.max(2 * path.smoothed_rtt.unwrap_or(round_trip));
        let bulk = BULK_PACKETS * self.config.mss;
        let round_trip = (round_trip, path.min_rtt.get());
        path.ack_path.on_untimed(now, round_trip, span, bulk, is_starting);
    }

    fn on_rtt(&mut self, now: Instant, latest: Duration, rtt: Duration) {
        let path = &mut self.path;
        if path.smoothed_rtt.is_none() {
            path.sampled = now;
        }
        path.latest_rtt = Some(latest);
        // RFC 9002 section 5.3 (TACK-5.3-4): 7/8 of the old and 1/8 of the new; 3/4 and 1/4 of the
        // variation, which begins with half of the first.
        let smoothed = path.smoothed_rtt;
        path.rtt_variation = smoothed
            .map_or(rtt / 2, |smoothed| (path.rtt_variation * 3 + smoothed.abs_diff(rtt)) / 4);
        path.smoothed_rtt = Some(smoothed.map_or(rtt, |old| (old * 7 + rtt) / 8));
    }

    /// The round trip of the packet with the smallest one-way delay (section V-B of the
    /// paper, TACK-5.3-1); `None` if it left over another path, or before the `oldest` that was
    /// acknowledged since the last TACK, which the TACK cannot tell the time of.
    fn round_trip(
        &self,
        now: Instant,
        timing: Timing,
        oldest: Option<Instant>,
    ) -> Option<Duration> {
        let travelled = self.travelled(now, timing.departure)?;
        if travelled > now.saturating_duration_since(oldest?) + GRANULARITY {
            return None;
        }
        let on_path = now.saturating_duration_since(self.path.since);
        // What has left at the instant of a change of the path went over the other one.
        let has_changed = self.path.since > self.epoch;
        if travelled > on_path || has_changed && travelled == on_path {
            return None;
        }
        travelled.checked_sub(Duration::from_micros(timing.hold_us))
    }

    /// The time since a departure; `None` if it lies in the future.
    fn travelled(&self, now: Instant, departure: u64) -> Option<Duration> {
        let unit = 1u64 << self.config.timestamp_exponent;
        let departure = Duration::from_micros(departure.saturating_mul(unit));
        now.saturating_duration_since(self.epoch).checked_sub(departure)
    }
}
