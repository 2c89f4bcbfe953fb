//! Statistics for applications that send live media.

use std::time::{Duration, Instant};

use serde::Serialize;
use tack_proto::bandwidth::Bandwidth;
use tack_proto::sender::Sender;

use crate::layer::Layer;

/// Round trips that percentiles are taken from.
const SAMPLES: usize = 64;

/// What was sent is noted so often.
const SENT_SPAN: Duration = Duration::from_millis(500);

/// What was noted longer ago counts no more.
const SENT_LONGEST: Duration = Duration::from_secs(1);

/// Bytes of which nothing may be in flight any more before the controller's bandwidth counts as measured: an initial
/// window (RFC 9002 section 7.2). The few packets that end a handshake show the rate of the handshake.
const LEAST_MEASURED: u64 = 12_000;

/// A change of the estimate that an encoder should hear of.
const CHANGE: f64 = 0.05;

/// Statistics for live media: estimated rate, delays, losses and backlog.
///
/// They are measured on data that is sent anyway; with
/// [`TackConfig::packet_trains`](crate::TackConfig::packet_trains) that data leaves in packet trains, which cost a
/// fiftieth of the bytes at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MediaStats {
    /// The rate that the path could carry now, bytes of UDP payload per second.
    ///
    /// While the application sends less
    /// than it may: what the packet trains of its frames show, where they are in use. Else the
    /// controller's bandwidth within its bounds, which of an application that sends less is a floor: it is not
    /// lowered before the bandwidth filter forgets, and `rate_age` tells how old it is.
    pub estimated_send_rate: u64,
    /// Time since the estimate was last measured: by a packet train, or with data waiting. `None` before the
    /// first such measurement, and while the estimate is zero.
    pub rate_age: Option<Duration>,
    /// What the application leaves unused of the estimate, bytes per second.
    ///
    /// The estimate less what was sent in the last half second to second.
    pub spare_rate: u64,
    /// Smoothed round trip.
    pub smoothed_rtt: Option<Duration>,
    /// RTTmin: the smallest round trip of the last ten seconds.
    pub min_rtt: Option<Duration>,
    /// Mean difference of round trips in a row (as RFC 3550 section 6.4.1), over the last 64.
    pub jitter: Option<Duration>,
    /// What the latest round trip lies above RTTmin.
    ///
    /// The queue on the path, and the wait for an acknowledgement if it was late.
    pub queueing_delay: Option<Duration>,
    /// Share of the bytes taken for lost of those sent in the last half second to second: 0 to 1. Counted here: the
    /// receiver's own count ([`TackStats::loss_rate`](crate::TackStats::loss_rate)) takes packet numbers that are
    /// skipped for losses, and a peer without TACK reports none.
    pub loss_rate: f64,
    /// Stream bytes that are written and have not left.
    pub backlog: u64,
    /// Time until a byte leaves that is written now behind all others.
    ///
    /// The backlog over the pacing rate, or over the estimate where packet trains show less than the controller's
    /// bandwidth. Zero before the handshake is done.
    pub time_to_leave: Duration,
    /// Time until it arrives: `time_to_leave` and half of the median of the last 64 round trips.
    pub time_to_arrive_p50: Option<Duration>,
    /// The same with their 95th percentile.
    pub time_to_arrive_p95: Option<Duration>,
    /// Streams that were reset at their deadline.
    pub expired_streams: u64,
    /// DATAGRAMs that were dropped at theirs.
    pub expired_datagrams: u64,
}

/// What packet trains show, where that is less than the controller's bandwidth.
///
/// An application that sends less than it may never lowers that bandwidth: behind a fall of the path it says nothing of
/// when something leaves. Packets that the controller lets go sooner wait on the path, where nothing overtakes them.
pub(crate) fn rate_below_bandwidth(sender: &Sender, now: Instant) -> Option<Bandwidth> {
    // Where no train says otherwise, the estimate is the bandwidth.
    let estimate = sender.estimated_send_rate(now);
    (estimate < sender.bandwidth()).then_some(estimate)
}

/// What has to be remembered for [`MediaStats`].
#[derive(Debug)]
pub(crate) struct MediaRecord {
    round_trips: [Duration; SAMPLES],
    count: usize,
    next: usize,
    jitter: Option<Duration>,
    /// When the rate was last measured with data waiting.
    measured: Option<Instant>,
    /// What had been sent half a second ago or more, and a second or more.
    sent: [Option<Sent>; 2],
    /// The estimate that the application was last told.
    told: Option<u64>,
}

/// Bytes that had been sent by some time, and bytes lost of them.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    bytes: u64,
    lost: u64,
}

impl Default for MediaRecord {
    fn default() -> Self {
        Self {
            round_trips: [Duration::ZERO; SAMPLES],
            count: 0,
            next: 0,
            jitter: None,
            measured: None,
            sent: [None; 2],
            told: None,
        }
    }
}

impl Sent {
    fn now(at: Instant, layer: &Layer) -> Self {
        let sender = layer.sender();
        Self { at, bytes: sender.sent_bytes(), lost: sender.stats().lost_bytes }
    }
}

impl MediaRecord {
    /// Something was acknowledged.
    pub(crate) fn on_acknowledged(&mut self, now: Instant, layer: &Layer) {
        if let Some(round_trip) = layer.sender().latest_rtt() {
            self.on_round_trip(round_trip);
        }
        let sender = layer.sender();
        let settled = sender.sent_bytes().saturating_sub(sender.total_in_flight());
        if !sender.is_app_limited() && settled >= LEAST_MEASURED {
            self.measured = Some(now);
        }
        let sent = Sent::now(now, layer);
        if self.sent[0].is_none_or(|last| now.saturating_duration_since(last.at) >= SENT_SPAN) {
            self.sent = [Some(sent), self.sent[0]];
        }
    }

    /// Bytes per second that have left of late, and the share of these that were lost.
    fn sent_and_lost(&self, sent: Sent) -> (u64, f64) {
        // Nothing was noted in a pause, which is no part of the rate behind it.
        let is_fresh =
            |before: &Sent| sent.at.saturating_duration_since(before.at) <= SENT_LONGEST;
        let [last, earlier] = self.sent.map(|before| before.filter(is_fresh));
        let Some(before) = earlier.or(last) else { return (0, 0.0) };
        // In less time a frame that leaves as a train would count as the rate of the source.
        let time = sent.at.saturating_duration_since(before.at).max(SENT_SPAN).as_secs_f64();
        let bytes = (sent.bytes - before.bytes) as f64;
        let lost = (sent.lost - before.lost) as f64;
        let rate = (bytes / time) as u64;
        // Losses are found after what was sent before: of less that was sent since there may be more.
        let share = if lost > 0.0 { (lost / bytes.max(lost)).min(1.0) } else { 0.0 };
        (rate, share)
    }

    /// The estimate, if it has changed by more than [`CHANGE`] since it was last returned.
    pub(crate) fn take_rate_change(&mut self, rate: u64) -> Option<u64> {
        let differs = |told: u64| rate.abs_diff(told) as f64 > CHANGE * told as f64;
        if self.told.is_none_or(differs) && rate > 0 {
            self.told = Some(rate);
            return Some(rate);
        }
        None
    }

    fn on_round_trip(&mut self, round_trip: Duration) {
        let last = (self.next + SAMPLES - 1) % SAMPLES;
        if self.count > 0 {
            let difference = self.round_trips[last].abs_diff(round_trip);
            self.jitter =
                Some(self.jitter.map_or(difference, |mean| (mean * 15 + difference) / 16));
        }
        self.round_trips[self.next] = round_trip;
        self.next = (self.next + 1) % SAMPLES;
        self.count = (self.count + 1).min(SAMPLES);
    }

    /// Median and 95th percentile of the round trips.
    fn percentiles(&self) -> Option<(Duration, Duration)> {
        let mut sorted = self.round_trips;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable();
        let last = self.count.checked_sub(1)?;
        Some((sorted[last / 2], sorted[(last * 95).div_ceil(100)]))
    }

    /// What is known now, with `backlog` bytes unsent and so many streams and DATAGRAMs expired.
    pub(crate) fn stats(
        &self,
        now: Instant,
        layer: Option<&Layer>,
        backlog: u64,
        (expired_streams, expired_datagrams): (u64, u64),
    ) -> MediaStats {
        let counts =
            MediaStats { backlog, expired_streams, expired_datagrams, ..MediaStats::default() };
        let Some(layer) = layer else { return counts };
        let sender = layer.sender();
        let (sent_rate, loss_rate) = self.sent_and_lost(Sent::now(now, layer));
        let pacing_rate = sender.pacing_rate();
        let rate =
            rate_below_bandwidth(sender, now).map_or(pacing_rate, |rate| rate.min(pacing_rate));
        let rate = rate.bytes_per_second().max(1);
        let time_to_leave = Duration::from_secs_f64(backlog as f64 / rate as f64);
        let estimate = sender.estimated_send_rate(now).bytes_per_second();
        let arrival = |round_trip: Duration| time_to_leave + round_trip / 2;
        let percentiles = self.percentiles();
        MediaStats {
            estimated_send_rate: estimate,
            spare_rate: estimate.saturating_sub(sent_rate),
            rate_age: self
                .measured
                .max(sender.trains_measured())
                // A train may have shown something before the controller knows a rate.
                .filter(|_| estimate > 0)
                .map(|at| now.saturating_duration_since(at)),
            smoothed_rtt: sender.smoothed_rtt(),
            min_rtt: sender.min_rtt(),
            jitter: self.jitter,
            queueing_delay: sender
                .latest_rtt()
                .zip(sender.min_rtt())
                .map(|(latest, min)| latest.saturating_sub(min)),
            loss_rate,
            time_to_leave,
            time_to_arrive_p50: percentiles.map(|(p50, _)| arrival(p50)),
            time_to_arrive_p95: percentiles.map(|(_, p95)| arrival(p95)),
            ..counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn percentiles_are_of_the_last_round_trips_alone() {
        let mut record = MediaRecord::default();
        assert_eq!(record.percentiles(), None);
        record.on_round_trip(40 * MS);
        assert_eq!(record.percentiles(), Some((40 * MS, 40 * MS)));
        (1..=100).for_each(|ms| record.on_round_trip(ms * MS));
        // 37 to 100 ms are left.
        assert_eq!(record.percentiles(), Some((68 * MS, 97 * MS)));
    }

    #[test]
    fn a_change_of_more_than_a_twentieth_is_told_once() {
        let mut record = MediaRecord::default();
        assert_eq!(record.take_rate_change(0), None, "nothing is known");
        assert_eq!(record.take_rate_change(1000), Some(1000));
        assert_eq!(record.take_rate_change(1040), None);
        assert_eq!(record.take_rate_change(1060), Some(1060));
        assert_eq!(record.take_rate_change(1060), None);
        assert_eq!(record.take_rate_change(1000), Some(1000));
    }

    #[test]
    fn the_loss_rate_is_of_the_bytes_sent_since_half_a_second_to_a_second_ago() {
        let start = Instant::now();
        let sent = |ms: u32, bytes, lost| Sent { at: start + ms * MS, bytes, lost };
        let mut record = MediaRecord::default();
        assert_eq!(record.sent_and_lost(sent(0, 1000, 10)), (0, 0.0), "nothing is known");
        record.sent = [Some(sent(600, 5000, 50)), Some(sent(0, 1000, 10))];
        assert_eq!(record.sent_and_lost(sent(1000, 9000, 410)), (8000, 0.05));
        assert_eq!(record.sent_and_lost(sent(1000, 9000, 10)), (8000, 0.0));
        assert_eq!(
            record.sent_and_lost(sent(1000, 1000, 410)),
            (0, 1.0),
            "of what was sent before"
        );
    }

    #[test]
    fn a_pause_of_the_source_is_no_part_of_the_rate_behind_it() {
        let start = Instant::now();
        let sent = |ms: u32, bytes, lost| Sent { at: start + ms * MS, bytes, lost };
        // 100 kB/s until 1 s, then nothing until 11 s.
        let before = [Some(sent(1000, 100_000, 100)), Some(sent(500, 50_000, 0))];
        let mut record = MediaRecord { sent: before, ..MediaRecord::default() };
        assert_eq!(record.sent_and_lost(sent(11_000, 100_000, 100)), (0, 0.0));
        record.sent = [Some(sent(11_000, 100_000, 100)), record.sent[0]];
        assert_eq!(record.sent_and_lost(sent(11_600, 160_000, 100)), (100_000, 0.0));
        // What one frame leaves at is no rate of the source.
        assert_eq!(record.sent_and_lost(sent(11_005, 105_000, 100)), (10_000, 0.0));
    }

    #[test]
    fn jitter_is_the_mean_difference_of_round_trips_in_a_row() {
        let mut record = MediaRecord::default();
        record.on_round_trip(40 * MS);
        assert_eq!(record.jitter, None);
        (0..200)
            .for_each(|at| record.on_round_trip(if at % 2 == 0 { 50 * MS } else { 40 * MS }));
        assert_eq!(record.jitter, Some(10 * MS));
    }
}
