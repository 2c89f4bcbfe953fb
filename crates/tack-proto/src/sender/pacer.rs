//! Pacing: packets leave in bursts of about a millisecond, less where the path holds less.
//!
//! Fewer acknowledgements would otherwise mean longer bursts (section V-C). A
//! burst shares one departure time, so that its packets can be handed to the
//! kernel together; its length is what a millisecond of the path carries.

use std::time::{Duration, Instant};

use super::spread::Spread;
use crate::bandwidth::Bandwidth;

/// Length of a burst, and how much of a time without data is caught up (TACK-6.4-1).
pub const BURST: Duration = Duration::from_millis(1);

/// Round trips without losses in which bursts grow from a packet to [`BURST`].
const ROUNDS_TO_REGROW: u32 = 64;
/// Length of a burst towards an L4S queue, which marks packets that wait for 800 µs (RFC 9332 appendix
/// A.1): a burst of a millisecond would be marked for its own length.
pub const L4S_BURST: Duration = Duration::from_micros(250);

/// How much is caught up of a time in which data waited, and the process did not run: some slices of
/// a scheduler that others have had. Without that, the rate of a busy machine falls to what it sends
/// when it runs, and the path's estimate follows it down.
const MOST_LATE: Duration = Duration::from_millis(20);

/// Says when the next packet may leave.
#[derive(Debug)]
pub struct Pacer {
    rate: Bandwidth,
    /// The longest burst: [`BURST`], or what the path needs instead.
    longest: Duration,
    /// When everything sent so far has left at `rate`.
    next_release: Instant,
    /// Before this instant no departure is worth telling. A sender that cannot keep up
    /// with its rate never gets ahead of it, and each packet would be a head.
    next_head: Instant,
    head_spacing: Duration,
    in_burst: bool,
    /// How much of that leaves at once now.
    burst: Duration,
    /// No burst is longer now, nor has it more bytes.
    most: Duration,
    most_bytes: Option<u64>,
    /// Data waits for `next_release`.
    waits: bool,
    /// How late this end has sent what waited.
    late: Spread,
    /// How much lateness the burst catches up.
    made_up_for: Duration,
    most_made_up_for: Duration,
    /// Until when a flow restarts from idle, and how much of that time it catches up.
    restart: Option<(Instant, Duration)>,
}

impl Pacer {
    /// A pacer that releases at `rate`, beginning at `now`.
    pub fn new(now: Instant, rate: Bandwidth) -> Self {
        Self {
            rate,
            longest: BURST,
            next_release: now,
            next_head: now,
            head_spacing: BURST / 2,
            in_burst: false,
            burst: BURST,
            most: BURST,
            most_bytes: None,
            waits: false,
            late: Spread::default(),
            made_up_for: BURST,
            most_made_up_for: MOST_LATE,
            restart: None,
        }
    }

    /// The same, which catches up more than a burst of the time that the process ran late; or not.
    #[must_use]
    pub fn catching_up(self, catches_up: bool) -> Self {
        let most_made_up_for = if catches_up { MOST_LATE } else { BURST };
        Self { most_made_up_for, ..self }
    }

    /// Changes the rate (TACK-6.4-2). What has been sent ahead of it is paid off at the higher
    /// of the two: it was within what was allowed, so it does not slow a lower rate down.
    /// ProbeRTT's is a thousandth of the rate before it on some paths, and a burst would last
    /// for seconds. Where a burst has a limit in bytes, those that have left at the higher rate are part of the burst.
    pub fn set_rate(&mut self, now: Instant, rate: Bandwidth) {
        let ahead = self.next_release.saturating_duration_since(now);
        let owed = self.rate.bytes_in(ahead);
        self.rate = rate;
        self.set_most();
        if owed > 0 {
            let longest = if self.most_bytes.is_some() { self.most } else { Duration::ZERO };
            self.next_release = now + rate.time_for(owed).min(ahead.max(longest));
        }
    }

    fn set_most(&mut self) {
        let bytes = self.most_bytes;
        self.most =
            bytes.map_or(self.longest, |most| self.rate.time_for(most).min(self.longest));
    }

    /// Sets the length of the longest burst (TACK-6.4-1), and how many bytes one may have while nothing is known
    /// of the path's buffers (TACK-6.4-5).
    pub fn set_burst(&mut self, longest: Duration, most: Option<u64>) {
        self.longest = longest;
        self.burst = self.burst.min(longest);
        self.most_bytes = most;
        self.set_most();
    }

    /// The rate.
    pub fn rate(&self) -> Bandwidth {
        self.rate
    }

    /// Whether a packet may leave at `now`; `waits` tells that there is one.
    pub fn may_send(&mut self, now: Instant, waits: bool) -> bool {
        let until = if self.in_burst { now + self.burst.min(self.most) } else { now };
        self.in_burst = self.next_release <= until;
        if !self.in_burst {
            self.waits = waits;
            self.made_up_for = self.most;
        } else if std::mem::take(&mut self.waits) {
            let late = now.saturating_duration_since(self.next_release);
            self.late.on_sample(late.min(MOST_LATE));
            self.made_up_for =
                late.clamp(self.longest, self.most_made_up_for.max(self.longest));
        }
        self.in_burst
    }

    /// A round trip is over; `overflows` if packets were lost though none queued for long: then a burst may be
    /// more than the buffer of the path holds (TACK-6.4-3).
    pub fn on_round(&mut self, overflows: bool) {
        self.burst = if overflows {
            self.burst / 2
        } else {
            (self.burst + BURST / ROUNDS_TO_REGROW).min(self.longest)
        };
    }

    /// There is no data, or as much is in flight as may be: the time until the next release is not the
    /// process's lateness.
    pub fn on_held_back(&mut self) {
        self.waits = false;
        self.made_up_for = self.most;
    }

    /// Nothing is in flight, and so many bytes may leave at once (TACK-6.4-4): a short request would else wait
    /// for its own rate.
    pub fn on_restart_from_idle(&mut self, now: Instant, bytes: u64) {
        let ahead = self.rate.time_for(bytes);
        self.restart = Some((now + BURST, ahead));
        self.next_release = self.next_release.min(now.checked_sub(ahead).unwrap_or(now));
    }

    /// How much of a time without data is caught up.
    fn caught_up(&self, now: Instant) -> Duration {
        let restart = self.restart.filter(|(until, _)| now <= *until);
        restart.map_or(self.made_up_for, |(_, ahead)| ahead.max(self.made_up_for))
    }

    /// How late this end sends as a rule what waits for its release: the grain of its timers, and
    /// other work of its machine.
    pub fn late(&self) -> Duration {
        self.late.most()
    }

    /// Sets the least time between two departures with a TIMESTAMP; half a burst at least.
    pub fn set_head_spacing(&mut self, spacing: Duration) {
        self.head_spacing = spacing.max(BURST / 2);
    }

    /// Whether the next packet begins a burst: it then departs when it is
    /// written, and its departure time is worth a TIMESTAMP, unless another has just left.
    pub fn at_burst_head(&self, now: Instant) -> bool {
        self.next_release <= now && self.next_head <= now
    }

    /// When `may_send` becomes true.
    pub fn release_time(&self) -> Instant {
        self.next_release
    }

    /// A packet has left.
    pub fn on_sent(&mut self, now: Instant, bytes: usize) {
        if self.at_burst_head(now) {
            self.next_head = now + self.head_spacing;
        }
        // A sender that woke late may catch up a burst's worth, not more.
        let mut from = self.next_release;
        let caught_up = self.caught_up(now);
        if from + caught_up < now {
            from = now.checked_sub(caught_up).unwrap_or(now);
        }
        self.next_release = from + self.rate.time_for(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends 1,250-byte packets at 50 Mbit/s for `time`, waking `late` after
    /// each release; returns bytes and the longest burst.
    fn run(time: Duration, late: Duration) -> (u64, usize) {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(6_250_000));
        let (mut now, mut bytes, mut longest) = (t0, 0, 0);
        while now < t0 + time {
            let mut burst = 0;
            while pacer.may_send(now, true) {
                pacer.on_sent(now, 1250);
                bytes += 1250;
                burst += 1;
            }
            longest = longest.max(burst);
            now = pacer.release_time() + late;
        }
        (bytes, longest)
    }

    #[test]
    fn the_rate_is_kept_to_a_burst_and_bursts_last_a_millisecond() {
        let (bytes, longest) = run(Duration::from_secs(1), Duration::ZERO);
        assert!((6_250_000..=6_250_000 + 2 * 6250).contains(&bytes), "{bytes}");
        assert!(longest <= 6, "{longest} packets of 0.2 ms in a burst of 1 ms");
    }

    #[test]
    fn what_may_leave_at_once_behind_a_pause_may_be_written_in_parts() {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(100_000));
        pacer.on_sent(t0, 1000);
        let now = t0 + Duration::from_secs(1);
        pacer.on_restart_from_idle(now, 10_000);
        let mut at_once = 0;
        while pacer.may_send(now, true) {
            pacer.on_sent(now, 1000);
            pacer.on_held_back();
            at_once += 1;
        }
        assert_eq!(at_once, 11, "ten packets, and one of the burst that is always allowed");
        assert!(!pacer.may_send(now + BURST, true));
        pacer.on_held_back();
        let later = now + Duration::from_secs(1);
        assert!(pacer.may_send(later, true));
        pacer.on_sent(later, 1000);
        assert!(!pacer.may_send(later, true), "without a pause only a burst");
    }

    #[test]
    fn bursts_towards_an_l4s_queue_are_shorter_than_its_threshold() {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(25_000_000));
        pacer.set_burst(L4S_BURST, None);
        let (mut now, mut bytes, mut longest) = (t0, 0, 0);
        while now < t0 + Duration::from_secs(1) {
            let mut burst = 0;
            while pacer.may_send(now, true) {
                pacer.on_sent(now, 1250);
                burst += 1;
            }
            (bytes, longest) = (bytes + burst * 1250, longest.max(burst));
            now = pacer.release_time();
        }
        assert!((24_900_000..25_100_000).contains(&bytes), "{bytes}");
        assert!(longest <= 7, "{longest} packets of 0.05 ms");
    }

    #[test]
    fn waking_late_costs_no_rate() {
        let (bytes, longest) = run(Duration::from_secs(1), Duration::from_micros(700));
        assert!(bytes >= 6_240_000, "{bytes}");
        assert!(longest <= 10, "{longest}");
    }

    #[test]
    fn a_burst_has_no_more_bytes_than_are_allowed_for_now() {
        let now = crate::test_clock();
        // 0.1 ms for each packet.
        let mut pacer = Pacer::new(now, Bandwidth::from_bytes_per_second(12_500_000));
        let mut burst = |most| {
            pacer.set_burst(BURST, most);
            let at = pacer.release_time() + Duration::from_secs(1);
            pacer.on_held_back();
            let mut packets = 0;
            while pacer.may_send(at, false) {
                pacer.on_sent(at, 1250);
                packets += 1;
            }
            packets
        };
        let [whole, short, again] = [None, Some(5 * 1250), None].map(&mut burst);
        assert_eq!(
            short, 11,
            "five that are caught up, a burst of five, and the one that is always allowed"
        );
        assert_eq!((whole, again), (21, 21));
    }

    #[test]
    fn bursts_become_single_packets_where_a_buffer_overflows_and_grow_again() {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(6_250_000));
        let mut now = t0;
        let mut burst = |pacer: &mut Pacer| {
            now = now.max(pacer.release_time());
            let mut packets = 0;
            while pacer.may_send(now, true) {
                pacer.on_sent(now, 1250);
                packets += 1;
            }
            packets
        };
        assert_eq!(burst(&mut pacer), 6);
        for _ in 0..4 {
            pacer.on_round(true);
        }
        assert_eq!(burst(&mut pacer), 1, "TACK-6.4-3");
        for _ in 0..ROUNDS_TO_REGROW {
            pacer.on_round(false);
        }
        assert_eq!(burst(&mut pacer), 6);
    }

    #[test]
    fn a_busy_machine_costs_no_rate_and_its_lateness_shows() {
        let (bytes, longest) = run(Duration::from_secs(1), Duration::from_millis(10));
        assert!(bytes >= 6_100_000, "{bytes}");
        assert!(longest <= 62, "{longest} packets of 0.2 ms, 10 ms and two bursts late");
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(6_250_000));
        let mut now = t0;
        for _ in 0..50 {
            while pacer.may_send(now, true) {
                pacer.on_sent(now, 1250);
            }
            now = pacer.release_time() + Duration::from_millis(3);
        }
        let late = pacer.late().as_secs_f64() * 1e3;
        assert!((2.9..3.5).contains(&late), "{late} ms");
    }

    #[test]
    fn a_process_that_was_stopped_catches_up_twenty_milliseconds() {
        let (bytes, longest) = run(Duration::from_secs(2), Duration::from_secs(1));
        assert!(longest <= 110, "{longest} packets of 0.2 ms");
        assert!(bytes <= 3 * 110 * 1250, "{bytes}");
    }

    #[test]
    fn time_without_data_is_not_lateness() {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(1_250_000));
        while pacer.may_send(t0, false) {
            pacer.on_sent(t0, 1250);
        }
        let later = t0 + Duration::from_millis(15);
        let mut burst = 0;
        while pacer.may_send(later, true) {
            pacer.on_sent(later, 1250);
            burst += 1;
        }
        assert!(burst <= 3, "{burst} packets of 1 ms each");
        assert_eq!(pacer.late(), Duration::ZERO);
    }

    #[test]
    fn a_late_burst_that_ends_for_want_of_data_is_over() {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(1_250_000));
        while pacer.may_send(t0, true) {
            pacer.on_sent(t0, 1250);
        }
        let late = t0 + Duration::from_millis(15);
        assert!(pacer.may_send(late, true));
        pacer.on_sent(late, 1250);
        pacer.on_held_back();
        let later = late + Duration::from_secs(1);
        let mut burst = 0;
        while pacer.may_send(later, true) {
            pacer.on_sent(later, 1250);
            burst += 1;
        }
        assert!(burst <= 3, "{burst} packets of 1 ms each after a pause");
    }

    #[test]
    fn a_sender_that_cannot_keep_up_begins_a_burst_twice_a_millisecond_at_most() {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(1_000_000_000));
        let mut heads = 0;
        for packet in 0..1000 {
            // Ten microseconds for each packet, which the rate allows in one.
            let now = t0 + packet * Duration::from_micros(10);
            assert!(pacer.may_send(now, true));
            heads += u32::from(pacer.at_burst_head(now));
            pacer.on_sent(now, 1250);
        }
        assert_eq!(heads, 20);
    }

    #[test]
    fn a_debt_from_slower_times_is_paid_at_the_new_rate() {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(10_000));
        pacer.on_sent(t0, 5000);
        assert!(pacer.release_time() >= t0 + Duration::from_millis(499));
        pacer.set_rate(t0, Bandwidth::from_bytes_per_second(1_000_000));
        assert!(pacer.release_time() <= t0 + Duration::from_millis(5));
    }

    #[test]
    fn a_burst_ahead_of_a_rate_that_falls_takes_no_longer_than_it_would_have() {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(50_000_000));
        while pacer.may_send(t0, true) {
            pacer.on_sent(t0, 1250);
        }
        let before = pacer.release_time();
        pacer.set_rate(t0, Bandwidth::from_bytes_per_second(10_000));
        assert_eq!(pacer.release_time(), before);
        assert!(before <= t0 + 2 * BURST);
    }

    #[test]
    fn an_idle_time_is_not_made_up_for() {
        let t0 = crate::test_clock() + Duration::from_secs(1);
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(1_250_000));
        let later = t0 + Duration::from_secs(5);
        let mut burst = 0;
        while pacer.may_send(later, true) {
            pacer.on_sent(later, 1250);
            burst += 1;
        }
        assert!(burst <= 3, "{burst} packets of 1 ms each after a pause");
    }

    // TACK-6.4-5
    #[test]
    fn a_burst_that_left_at_a_higher_rate_is_followed_by_no_other() {
        let t0 = crate::test_clock();
        let mut pacer = Pacer::new(t0, Bandwidth::from_bytes_per_second(40_000_000));
        pacer.set_burst(BURST, Some(10_000));
        let mut sent = 0;
        for rate in [40_000_000, 10_000_000] {
            pacer.set_rate(t0, Bandwidth::from_bytes_per_second(rate));
            while pacer.may_send(t0, true) {
                pacer.on_sent(t0, 1_000);
                sent += 1;
            }
        }
        assert!((10..=11).contains(&sent), "{sent}");
    }
}
