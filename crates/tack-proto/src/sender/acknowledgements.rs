//! What arrives from the receiver: TACKs, IACKs and standard ACKs.

use std::time::{Duration, Instant};

use super::{Feedback, Newly, Phase, Sender, Violation};
use crate::bandwidth::Bandwidth;
use crate::frame::{Ack, AckRanges, Iack, IackEvent, Tack};

impl Sender {
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
            lost: newly.lost_bytes,
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
