//! When a receiver acknowledges.
//!
//! TACK's rule (equation 4 of the paper) takes the *minimum* of byte counting
//! and a period: at least L packets **and** at least alpha since the last
//! acknowledgement. A delayed ACK takes the maximum: whichever comes first.

use std::time::{Duration, Instant};

use crate::loss_detection::PACKET_THRESHOLD;
use crate::profiles::LONGEST_INTERVAL;

/// Where every packet is acknowledged, and where the peer asks, acknowledgements are at least this far apart: a peer
/// that floods draws no more of them than 8,000 a second.
const LEAST_SPACING: Duration = Duration::from_micros(125);

/// Which rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every ack-eliciting packet: the start of a connection, so that short
    /// flows and the first bandwidth estimate lose nothing (section VI-D).
    EveryPacket,
    /// TACK: `packets` and `interval` must both have been reached.
    Tack {
        /// L, in ack-eliciting packets.
        packets: u64,
        /// alpha = RTTmin / beta.
        interval: Duration,
    },
    /// ACK_FREQUENCY of a stock peer (draft-ietf-quic-ack-frequency): more than
    /// `threshold` packets, or `max_delay` after the first of them.
    Delayed {
        /// Ack-Eliciting Threshold.
        threshold: u64,
        /// Requested Max Ack Delay.
        max_delay: Duration,
    },
}

/// What is known of an acknowledgement that tells of a loss event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToldLoss {
    /// It has been written.
    Written,
    /// It has left, in the packet with that number if that is ack-eliciting.
    Sent(Option<u64>),
}

/// Counts what has not been acknowledged and says when it must be.
#[derive(Debug)]
pub struct AckPolicy {
    rule: Rule,
    /// Never hold an acknowledgement longer: it is the transport parameter
    /// that the peer's loss timer goes by (RFC 9000 section 13.2.1).
    max_ack_delay: Duration,
    pending: u64,
    first_pending: Option<Instant>,
    last_sent: Option<Instant>,
    immediate: bool,
    /// Congestion has begun: from when on it is reported, if nothing is before.
    early: Option<Instant>,
    /// A loss event has been told since the last TACK, or by it, and may not have reached the peer.
    told_loss: Option<ToldLoss>,
    /// When the last ack-eliciting packet came.
    last_arrival: Option<Instant>,
    /// Whether the first packet after an idle time is acknowledged at once.
    early_after_idle: bool,
}

impl AckPolicy {
    /// Starts with [`Rule::EveryPacket`].
    pub fn new(max_ack_delay: Duration) -> Self {
        Self {
            rule: Rule::EveryPacket,
            max_ack_delay,
            pending: 0,
            first_pending: None,
            last_sent: None,
            immediate: false,
            early: None,
            told_loss: None,
            last_arrival: None,
            early_after_idle: false,
        }
    }

    /// The rule in force.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Changes the rule; what is pending stays pending.
    pub fn set_rule(&mut self, rule: Rule) {
        self.rule = rule;
    }

    /// Acknowledges the first packet after an idle time at once (TACK-8-4). Towards a peer that
    /// knows nothing of TACK (draft-ietf-quic-ack-frequency): it starts slowly, and the packet
    /// would be acknowledged alone in any case.
    pub fn set_early_after_idle(&mut self) {
        self.early_after_idle = true;
    }

    /// IMMEDIATE_ACK has come; whether it is answered at once (TACK-4.2-7): once for kPacketThreshold
    /// packets, and else twice for each time that acknowledgements are held, which is a few
    /// times for each round trip. A sender gains nothing by more, and an answer may be thirty
    /// times as long as the question.
    pub fn on_immediate_ack(&mut self, now: Instant) -> bool {
        let spacing = match self.rule {
            Rule::EveryPacket => Duration::ZERO,
            Rule::Tack { interval, .. } => interval / 2,
            Rule::Delayed { max_delay, .. } => max_delay / 2,
        };
        let since = self.last_sent.map(|last| now.saturating_duration_since(last));
        if since.is_none_or(|since| since >= spacing) {
            self.immediate = true;
            return true;
        }
        if self.pending < PACKET_THRESHOLD {
            return false;
        }
        self.immediate = since.is_none_or(|since| since >= LEAST_SPACING);
        if !self.immediate {
            let at = self.last_sent.map_or(now, |last| last + LEAST_SPACING);
            self.early.get_or_insert(at);
        }
        self.immediate
    }

    /// An ack-eliciting packet has come.
    pub fn on_ack_eliciting(&mut self, now: Instant) {
        let last = self.last_arrival.replace(now);
        if let Rule::Delayed { max_delay, .. } = self.rule
            && self.early_after_idle
            && last.is_none_or(|last| now.saturating_duration_since(last) > max_delay)
        {
            self.immediate = true;
        }
        self.pending += 1;
        self.first_pending.get_or_insert(now);
    }

    /// The next acknowledgement is wanted at once (the end of a stream, a reordering threshold).
    pub fn request_immediate(&mut self) {
        self.immediate = true;
    }

    /// A packet with CE has come behind one without (TACK-4.6-3): the sender wants to know soon. An
    /// acknowledgement leaves half as long after the last one as acknowledgements are held, so
    /// that marks double their number at most, however the path sets them.
    pub fn request_early(&mut self, now: Instant) {
        let spacing = match self.rule {
            Rule::EveryPacket => return,
            // TACK-4.2-9
            Rule::Tack { .. } if self.is_load_light() => self.max_ack_delay,
            Rule::Tack { interval, .. } => interval / 2,
            // TACK-8-9. The draft has no bound: the peer chose to be told.
            Rule::Delayed { .. } => Duration::ZERO,
        };
        let at = self.last_sent.map_or(now, |sent| now.max(sent + spacing));
        self.early.get_or_insert(at);
    }

    /// Whether the sender has asked for what it asks for under a light load (TACK-5.1-10).
    pub fn is_load_light(&self) -> bool {
        matches!(self.rule, Rule::Tack { packets: 2.., interval } if interval > LONGEST_INTERVAL)
    }

    /// Whether a TACK tells of a loss event instead of an IACK (TACK-4.2-9): the next one is long in coming, and would
    /// tell little more.
    pub fn replaces_iack(&self, now: Instant) -> bool {
        let since = self.last_sent.map(|last| now.saturating_duration_since(last));
        self.is_load_light() && since.is_none_or(|since| since >= self.max_ack_delay / 4)
    }

    /// A packet has queued for longer than `max_ack_delay`. Under a light load none does: the sender wants to know soon
    /// (TACK-4.2-9).
    pub fn on_queue(&mut self, now: Instant) {
        if self.is_load_light() {
            self.request_early(now);
        }
    }

    /// A stream has ended: the sender may have nothing more to send, and wait (TACK-4.2-4). Under a light load another
    /// frame follows (TACK-4.2-9).
    pub fn on_stream_end(&mut self) {
        self.immediate |= !self.is_load_light();
    }

    /// Whether the next acknowledgement was asked for at once.
    pub fn is_immediate(&self) -> bool {
        self.immediate
    }

    /// Ack-eliciting packets not yet acknowledged.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Whether an acknowledgement is due at `now`.
    pub fn is_due(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// When the next acknowledgement is due if nothing else arrives (TACK-4.2-1 to
    /// TACK-4.2-4).
    pub fn deadline(&self) -> Option<Instant> {
        let deadline = self.deadline_of_rule()?;
        Some(self.early.map_or(deadline, |early| deadline.min(early)))
    }

    fn deadline_of_rule(&self) -> Option<Instant> {
        let first = self.first_pending?;
        let latest = first + self.max_ack_delay;
        Some(match self.rule {
            // TACK-4.2-1
            Rule::EveryPacket => {
                self.last_sent.map_or(first, |sent| first.max(sent + LEAST_SPACING))
            }
            _ if self.immediate => first,
            // TACK-4.2-2
            Rule::Tack { packets, interval } if self.pending >= packets => {
                let interval = self.until_next(interval);
                let earliest = self.last_sent.map_or(first, |sent| sent + interval);
                // What the sender asks for replaces what it was promised.
                earliest.max(first).min(latest.max(first + interval))
            }
            // TACK-4.2-3. Fewer than L packets: a lone packet waits for the fallback, which
            // is longer than alpha on purpose. A timer of alpha would
            // acknowledge every packet of a slow flow and void L.
            Rule::Tack { .. } => latest,
            Rule::Delayed { threshold, .. } if self.pending > threshold => first,
            // What the peer asks for replaces what the transport parameter
            // promised it (the draft's section 4).
            Rule::Delayed { max_delay, .. } => first + max_delay,
        })
    }

    /// An acknowledgement tells of a loss event. Under a light load another one follows sooner than usual, in case it gets
    /// lost itself (TACK-4.2-9).
    pub fn on_loss_told(&mut self) {
        self.told_loss = Some(ToldLoss::Written);
    }

    /// A packet has left with what was written last, if that has not left before; its number, if it is ack-eliciting.
    pub fn on_packet_sent(&mut self, answered: Option<u64>) {
        if self.told_loss == Some(ToldLoss::Written) {
            self.told_loss = Some(ToldLoss::Sent(answered));
        }
    }

    /// Packets have been acknowledged: `was_delivered` tells whether one was among them.
    pub fn on_acknowledgement(&mut self, was_delivered: impl Fn(u64) -> Option<bool>) {
        if let Some(ToldLoss::Sent(Some(pn))) = self.told_loss
            && was_delivered(pn) == Some(true)
        {
            self.told_loss = None;
        }
    }

    fn until_next(&self, interval: Duration) -> Duration {
        if self.told_loss.is_some() { interval.min(LONGEST_INTERVAL) } else { interval }
    }

    /// An acknowledgement of everything received has left.
    pub fn on_sent(&mut self, now: Instant) {
        self.pending = 0;
        self.first_pending = None;
        self.last_sent = Some(now);
        self.immediate = false;
        self.early = None;
        self.told_loss = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn tack() -> (AckPolicy, Instant) {
        let mut policy = AckPolicy::new(50 * MS);
        policy.set_rule(Rule::Tack { packets: 2, interval: 10 * MS });
        let now = crate::test_clock();
        policy.on_sent(now);
        (policy, now)
    }

    #[test]
    fn tack_waits_for_both_the_packets_and_the_interval() {
        let (mut policy, t0) = tack();
        policy.on_ack_eliciting(t0 + MS);
        policy.on_ack_eliciting(t0 + 2 * MS);
        assert!(!policy.is_due(t0 + 9 * MS), "the interval has not passed");
        assert!(policy.is_due(t0 + 10 * MS));
        policy.on_sent(t0 + 10 * MS);
        policy.on_ack_eliciting(t0 + 30 * MS);
        assert!(!policy.is_due(t0 + 30 * MS), "one packet is fewer than L");
        policy.on_ack_eliciting(t0 + 31 * MS);
        assert!(policy.is_due(t0 + 31 * MS));
    }

    #[test]
    fn a_lone_packet_is_acknowledged_after_max_ack_delay_not_after_alpha() {
        let (mut policy, t0) = tack();
        policy.on_ack_eliciting(t0 + 5 * MS);
        assert_eq!(policy.deadline(), Some(t0 + 55 * MS));
    }

    #[test]
    fn an_interval_above_max_ack_delay_holds_for_l_packets_and_not_for_a_lone_one() {
        let (mut policy, t0) = tack();
        policy.set_rule(Rule::Tack { packets: 2, interval: 500 * MS });
        policy.on_ack_eliciting(t0 + MS);
        assert_eq!(policy.deadline(), Some(t0 + 51 * MS));
        policy.on_ack_eliciting(t0 + MS);
        assert_eq!(policy.deadline(), Some(t0 + 500 * MS));
    }

    fn under_light_load() -> (AckPolicy, Instant) {
        let (mut policy, t0) = tack();
        policy.set_rule(Rule::Tack { packets: 2, interval: 200 * MS });
        policy.on_ack_eliciting(t0 + MS);
        policy.on_ack_eliciting(t0 + MS);
        (policy, t0)
    }

    #[test]
    fn under_a_light_load_the_end_of_a_stream_waits_and_otherwise_it_does_not() {
        let (mut policy, t0) = under_light_load();
        policy.on_stream_end();
        assert_eq!(policy.deadline(), Some(t0 + 200 * MS));
        policy.set_rule(Rule::Tack { packets: 2, interval: 100 * MS });
        policy.on_stream_end();
        assert!(policy.is_due(t0 + MS), "the longest interval of any other load");
        let (mut policy, t0) = tack();
        policy.set_rule(Rule::Tack { packets: 1, interval: 200 * MS });
        policy.on_ack_eliciting(t0 + MS);
        policy.on_stream_end();
        assert!(policy.is_due(t0 + MS), "acknowledgements that fill their path");
    }

    #[test]
    fn under_a_light_load_a_queue_and_a_mark_are_told_after_max_ack_delay() {
        for news in [AckPolicy::on_queue, AckPolicy::request_early] {
            let (mut policy, t0) = under_light_load();
            news(&mut policy, t0 + 10 * MS);
            assert_eq!(policy.deadline(), Some(t0 + 50 * MS));
        }
        let (mut policy, t0) = tack();
        policy.set_rule(Rule::Tack { packets: 2, interval: 100 * MS });
        policy.on_ack_eliciting(t0 + MS);
        policy.on_ack_eliciting(t0 + MS);
        policy.on_queue(t0 + 10 * MS);
        assert_eq!(policy.deadline(), Some(t0 + 100 * MS), "another load may queue");
    }

    #[test]
    fn under_a_light_load_a_tack_takes_the_place_of_an_iack_unless_one_has_just_left() {
        let (policy, t0) = under_light_load();
        assert!(!policy.replaces_iack(t0 + 12 * MS));
        assert!(policy.replaces_iack(t0 + 13 * MS));
        assert!(!tack().0.replaces_iack(t0 + 40 * MS));
    }

    #[test]
    fn under_a_light_load_a_loss_is_told_twice_within_a_tenth_of_a_second() {
        let (mut policy, t0) = under_light_load();
        policy.on_loss_told();
        assert_eq!(policy.deadline(), Some(t0 + 100 * MS));
        policy.on_sent(t0 + 100 * MS);
        policy.on_ack_eliciting(t0 + 101 * MS);
        policy.on_ack_eliciting(t0 + 101 * MS);
        assert_eq!(policy.deadline(), Some(t0 + 300 * MS));
    }

    #[test]
    fn under_a_light_load_a_loss_is_told_once_if_that_is_known_to_have_arrived() {
        let (mut policy, t0) = under_light_load();
        policy.on_packet_sent(Some(6));
        policy.on_loss_told();
        policy.on_packet_sent(Some(7));
        policy.on_packet_sent(Some(8));
        policy.on_acknowledgement(|pn| (pn != 7).then_some(true));
        assert_eq!(policy.deadline(), Some(t0 + 100 * MS), "of others");
        policy.on_acknowledgement(|_| Some(false));
        assert_eq!(policy.deadline(), Some(t0 + 100 * MS), "it is lost");
        policy.on_acknowledgement(|pn| (pn == 7).then_some(true));
        assert_eq!(policy.deadline(), Some(t0 + 200 * MS));
        policy.on_loss_told();
        policy.on_packet_sent(None);
        policy.on_packet_sent(Some(9));
        policy.on_acknowledgement(|_| Some(true));
        assert_eq!(policy.deadline(), Some(t0 + 100 * MS), "nothing tells of it");
    }

    #[test]
    fn a_delayed_ack_goes_with_whichever_comes_first() {
        let (mut policy, t0) = tack();
        policy.set_rule(Rule::Delayed { threshold: 2, max_delay: 20 * MS });
        policy.on_ack_eliciting(t0);
        policy.on_ack_eliciting(t0 + MS);
        assert_eq!(policy.deadline(), Some(t0 + 20 * MS), "threshold 2: *more* than two");
        policy.on_ack_eliciting(t0 + 2 * MS);
        assert!(policy.is_due(t0 + 2 * MS));
    }

    #[test]
    fn immediate_overrides_and_is_used_up() {
        let (mut policy, t0) = tack();
        policy.on_ack_eliciting(t0 + MS);
        policy.request_immediate();
        assert!(policy.is_due(t0 + MS));
        policy.on_sent(t0 + MS);
        policy.on_ack_eliciting(t0 + 2 * MS);
        assert!(!policy.is_due(t0 + 2 * MS));
    }

    #[test]
    fn a_peer_that_asks_draws_no_more_than_one_that_floods() {
        let us = Duration::from_micros(1);
        for rule in [Rule::EveryPacket, Rule::Tack { packets: 2, interval: 10 * MS }] {
            let (mut policy, t0) = tack();
            policy.set_rule(rule);
            let mut sent = 0;
            for n in 0..100_000 {
                let now = t0 + n * us;
                policy.on_ack_eliciting(now);
                policy.on_immediate_ack(now);
                if policy.is_due(now) {
                    policy.on_sent(now);
                    sent += 1;
                }
            }
            assert!((1..=800).contains(&sent), "{sent} in 0.1 s, {rule:?}");
        }
    }

    #[test]
    fn nothing_pending_is_never_due() {
        let (policy, t0) = tack();
        assert_eq!(policy.deadline(), None);
        assert!(!policy.is_due(t0 + 1000 * MS));
    }
}
