//! A source that needs little of its path is acknowledged less often (TACK-5.1-10).
//!
//! Equation (4) says how soon a sender that fills its path has to hear of it. A live source that needs a quarter of the
//! path fills no queue, and its rate follows the encoder. Losses are told at once in any case, and so is a queue
//! (TACK-4.2-9); what is left for TACKs to do is to free the send buffer.

use std::time::{Duration, Instant};

use crate::bandwidth::Bandwidth;
use crate::profiles::LONGEST_INTERVAL;

/// What is sent is counted over this time.
const SPAN: Duration = Duration::from_millis(250);

/// Spans in a row with a light load, before fewer acknowledgements are asked for.
const LIGHT_SPANS: u32 = 2;

/// Where less than a sixteenth of the path is needed, a shorter time than a span will do: even a frame of four times the
/// usual size does not make that a quarter.
const EARLY: Duration = Duration::from_millis(100);
const VERY_LIGHT: u64 = 16;

/// Spans in a row with a pause that the probe timer may expire behind. One costs a probe, which asks for an
/// acknowledgement; a source that makes them all the time would be probed all the time.
const PAUSED_SPANS: u32 = 2;

/// A load is light below this part of what the path carries, and not light any more above half of it.
const LIGHT: u64 = 4;
const HEAVY: u64 = 2;

/// What the path carries has changed if so many acknowledgements in a row show that much more or less: it is followed
/// closely then. On Wi-Fi one may show anything.
const CHANGE: f64 = 2.0;
const CHANGED: u32 = 2;

/// The share of TACKs that may get lost: what one of them tells of a loss is told again a tenth of a second later
/// (TACK-4.2-9), and frames stand still until then. Two lost of the last 64 are more.
const MOST_ACK_LOSS: f64 = 0.02;

/// The TACK that was lost last is forgotten below that: 175 behind it.
const LEAST_ACK_LOSS: f64 = 0.001;

/// For so long after a TACK was lost the next is not waited for as long: the interval is a third, but remains one that tells
/// the peer of a light load.
const CAUTION: Duration = Duration::from_secs(60);
const CAUTIOUS: u32 = 3;
const LEAST_INTERVAL: Duration =
    Duration::from_millis(LONGEST_INTERVAL.as_millis() as u64 * 5 / 4);

/// What bears on whether a load is light.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What the path carries, by what packet trains have shown; `None` while they show nothing.
    pub capacity: Option<Bandwidth>,
    /// The QUIC stack's probe timer may expire behind a longer pause.
    pub longest_pause: Duration,
    /// The interval to ask for.
    pub interval: Duration,
    /// The share of acknowledgements that got lost of late, 0 to 1.
    pub ack_loss: f64,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    began: Instant,
    bytes: u64,
    /// More bytes than these are no light load.
    most: u64,
    longest_pause: Duration,
    has_paused: bool,
}

/// Whether the load is light, and how often the peer is to acknowledge then.
#[derive(Clone, Copy, Debug, Default)]
pub struct LightLoad {
    span: Option<Span>,
    last_sent: Option<Instant>,
    light_spans: u32,
    paused_spans: u32,
    interval: Option<Duration>,
    /// What the path carried when the load became light.
    capacity: Bandwidth,
    /// Acknowledgements in a row that show something else.
    changed: u32,
    /// The interval that the peer still goes by, and when it was asked for a shorter one.
    before: Option<(Instant, Duration)>,
    /// When acknowledgements were known last to get lost.
    ack_lost: Option<Instant>,
}

impl LightLoad {
    /// The interval to ask for; `None` unless the load is light.
    pub fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// The longest time between two acknowledgements that is to be expected; `None` if the usual one is.
    pub fn expected_interval(&self) -> Option<Duration> {
        self.interval.max(self.before.map(|(_, interval)| interval))
    }

    /// An ack-eliciting packet leaves. Returns whether the interval has changed.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, load: impl Fn() -> Load) -> bool {
        let pause = self.last_sent.replace(now).map(|last| now.saturating_duration_since(last));
        let Some(span) = &mut self.span else {
            self.span = Some(Span::new(now, &load()));
            return false;
        };
        span.bytes += bytes;
        span.has_paused |= pause > Some(span.longest_pause);
        if span.bytes > span.most {
            self.span = Some(Span::new(now, &load()));
            return self.end(now);
        }
        let elapsed = now.saturating_duration_since(span.began);
        if elapsed < SPAN && (self.interval.is_some() || elapsed < EARLY) {
            return false;
        }
        let (bytes, has_paused, load) = (span.bytes, span.has_paused, load());
        let carried = load.capacity.map_or(0, |capacity| capacity.bytes_in(elapsed));
        let is_very_light = bytes <= carried / VERY_LIGHT;
        if elapsed < SPAN && !is_very_light {
            return false;
        }
        self.span = Some(Span::new(now, &load));
        self.paused_spans = if has_paused { self.paused_spans + 1 } else { 0 };
        if load.ack_loss > LEAST_ACK_LOSS {
            self.ack_lost = Some(now);
        }
        let too_many_lost = load.ack_loss > MOST_ACK_LOSS;
        if bytes > carried / HEAVY || self.paused_spans >= PAUSED_SPANS || too_many_lost {
            return self.end(now);
        }
        if is_very_light {
            self.light_spans = LIGHT_SPANS;
        } else if bytes <= carried / LIGHT {
            self.light_spans += 1;
        } else if self.interval.is_none() {
            self.light_spans = 0;
        }
        if self.light_spans < LIGHT_SPANS {
            return false;
        }
        if self.interval.is_none() {
            self.capacity = load.capacity.unwrap_or_default();
            self.changed = 0;
        }
        let interval = self.interval_of(now, load.interval);
        self.set_interval(now, Some(interval))
    }

    fn interval_of(&self, now: Instant, most: Duration) -> Duration {
        let is_cautious =
            self.ack_lost.is_some_and(|at| now.saturating_duration_since(at) < CAUTION);
        if is_cautious { (most / CAUTIOUS).max(LEAST_INTERVAL).min(most) } else { most }
    }

    /// An acknowledgement has come, a round trip of `rtt` behind the packets that it is for. Where those have queued,
    /// or the path carries something else than before, the load is not called light for some time.
    pub fn on_feedback(
        &mut self,
        now: Instant,
        rtt: Duration,
        has_queued: bool,
        capacity: Option<Bandwidth>,
    ) {
        self.before = self.before.filter(|(at, _)| now.saturating_duration_since(*at) <= rtt);
        let differs = capacity.is_none_or(|capacity| {
            capacity > self.capacity.scaled(CHANGE) || self.capacity > capacity.scaled(CHANGE)
        });
        self.changed = if differs { self.changed + 1 } else { 0 };
        if has_queued || self.interval.is_some() && self.changed >= CHANGED {
            self.end(now);
        }
    }

    fn end(&mut self, now: Instant) -> bool {
        self.light_spans = 0;
        self.set_interval(now, None)
    }

    fn set_interval(&mut self, now: Instant, interval: Option<Duration>) -> bool {
        let before = std::mem::replace(&mut self.interval, interval);
        if let Some(before) = before.filter(|before| interval.is_none_or(|now| now < *before)) {
            self.before = Some((now, before));
        }
        self.interval != before
    }
}

impl Span {
    fn new(now: Instant, load: &Load) -> Self {
        let most = load.capacity.map_or(0, |capacity| capacity.bytes_in(SPAN) / HEAVY);
        Self {
            began: now,
            bytes: 0,
            most,
            longest_pause: load.longest_pause,
            has_paused: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TEN_MEGABYTES: Bandwidth = Bandwidth::from_bytes_per_second(10_000_000);
    const RTT: Duration = Duration::from_millis(40);

    fn load(capacity: Option<Bandwidth>) -> Load {
        Load { capacity, longest_pause: 43 * MS, interval: 400 * MS, ack_loss: 0.0 }
    }

    /// A source that sends a packet of so many bytes every so many milliseconds.
    struct Source {
        light_load: LightLoad,
        now: Instant,
        capacity: Option<Bandwidth>,
        ack_loss: f64,
    }

    impl Source {
        fn new() -> Self {
            let now = crate::test_clock();
            let light_load = LightLoad::default();
            Self { light_load, now, capacity: Some(TEN_MEGABYTES), ack_loss: 0.0 }
        }

        fn send(&mut self, packets: u32, bytes: u64, every: Duration) -> Option<Duration> {
            for _ in 0..packets {
                let load = || Load { ack_loss: self.ack_loss, ..load(self.capacity) };
                self.light_load.on_sent(self.now, bytes, load);
                self.now += every;
            }
            self.light_load.interval()
        }

        fn hear(&mut self, has_queued: bool) {
            self.light_load.on_feedback(self.now, RTT, has_queued, self.capacity);
        }
    }

    #[test]
    fn a_load_is_light_below_a_quarter_of_the_path_for_half_a_second() {
        let mut source = Source::new();
        assert_eq!(source.send(25, 40_000, 20 * MS), None, "2 MB/s, not yet");
        assert_eq!(source.send(2, 40_000, 20 * MS), Some(400 * MS));
        let mut source = Source::new();
        assert_eq!(source.send(100, 60_000, 20 * MS), None, "3 MB/s");
    }

    #[test]
    fn it_stays_light_up_to_half_of_the_path_and_ends_at_once_above() {
        let mut source = Source::new();
        source.send(30, 40_000, 20 * MS);
        assert_eq!(source.send(100, 90_000, 20 * MS), Some(400 * MS), "4.5 MB/s");
        // What the path carries in an eighth of a second.
        assert_eq!(source.send(1, 1_250_000, MS), None);
    }

    #[test]
    fn what_the_path_carries_must_be_known() {
        let mut source = Source::new();
        source.capacity = None;
        assert_eq!(source.send(200, 1000, 20 * MS), None);
    }

    #[test]
    fn a_queue_ends_it() {
        let mut source = Source::new();
        source.send(30, 40_000, 20 * MS);
        source.hear(true);
        assert_eq!(source.light_load.interval(), None);
    }

    #[test]
    fn a_change_of_the_path_ends_it_and_a_single_odd_report_does_not() {
        let mut source = Source::new();
        source.send(30, 40_000, 20 * MS);
        source.capacity = Some(TEN_MEGABYTES.scaled(3.0));
        source.hear(false);
        source.capacity = Some(TEN_MEGABYTES);
        source.hear(false);
        source.capacity = Some(TEN_MEGABYTES.scaled(0.4));
        source.hear(false);
        assert_eq!(source.light_load.interval(), Some(400 * MS));
        source.hear(false);
        assert_eq!(source.light_load.interval(), None);
    }

    #[test]
    fn pauses_end_it_if_they_come_again_and_again() {
        let mut source = Source::new();
        source.send(30, 40_000, 20 * MS);
        source.send(1, 40_000, 100 * MS);
        assert_eq!(source.send(30, 40_000, 20 * MS), Some(400 * MS), "one");
        assert_eq!(source.send(12, 40_000, 100 * MS), None, "ten frames a second");
    }

    #[test]
    fn a_sixteenth_of_the_path_is_light_after_a_tenth_of_a_second() {
        let mut source = Source::new();
        assert_eq!(source.send(5, 10_000, 20 * MS), None, "0.5 MB/s, not yet");
        assert_eq!(source.send(1, 10_000, 20 * MS), Some(400 * MS));
        let mut source = Source::new();
        assert_eq!(source.send(24, 14_000, 20 * MS), None, "0.7 MB/s");
    }

    #[test]
    fn a_lost_acknowledgement_shortens_the_interval_for_a_minute_and_several_end_it() {
        let mut source = Source::new();
        assert_eq!(source.send(30, 40_000, 20 * MS), Some(400 * MS));
        source.ack_loss = 1.0 / 64.0;
        assert_eq!(source.send(30, 40_000, 20 * MS), Some(400 * MS / 3));
        source.ack_loss = 2.0 / 64.0;
        assert_eq!(source.send(30, 40_000, 20 * MS), None);
        source.ack_loss = 0.0;
        assert_eq!(source.send(58 * 50, 40_000, 20 * MS), Some(400 * MS / 3));
        assert_eq!(source.send(3 * 50, 40_000, 20 * MS), Some(400 * MS));
    }

    #[test]
    fn the_shorter_interval_still_tells_of_a_light_load() {
        let mut light_load = LightLoad::default();
        let now = crate::test_clock();
        assert_eq!(light_load.interval_of(now, 300 * MS), 300 * MS);
        light_load.ack_lost = Some(now);
        assert_eq!(light_load.interval_of(now, 300 * MS), 125 * MS);
        assert_eq!(light_load.interval_of(now, 110 * MS), 110 * MS);
    }

    #[test]
    fn the_peer_goes_by_the_long_interval_until_a_round_trip_after_the_end() {
        let mut source = Source::new();
        source.send(30, 40_000, 20 * MS);
        source.hear(true);
        assert_eq!(source.light_load.expected_interval(), Some(400 * MS));
        source.now += RTT + MS;
        source.hear(false);
        assert_eq!(source.light_load.expected_interval(), None);
    }
}
