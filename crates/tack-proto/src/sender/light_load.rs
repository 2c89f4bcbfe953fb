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

/// Spans in a row with a pause that the probe timer may expire behind. One costs a probe, which asks for an
/// acknowledgement; a source that makes them all the time would be probed all the time.
const PAUSED_SPANS: u32 = 2;

/// A load is light below this part of what the path carries, and not light any more above half of it.
const LIGHT: u64 = 4;
const HEAVY: u64 = 2;

/// Weight of a span in the average of losses: it is one of two seconds.
const LOSS_WEIGHT: f64 = 1.0 / 8.0;

/// What the path carries has changed if so many acknowledgements in a row show that much more or less: it is followed
/// closely then. On Wi-Fi one may show anything.
const CHANGE: f64 = 2.0;
const CHANGED: u32 = 2;

/// Losses that an interval holds on average: no more than four IACKs leave between two TACKs (TACK-4.3-5).
const LOSSES: f64 = 2.0;

/// What bears on whether a load is light.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What the path carries, by what packet trains have shown; `None` while they show nothing.
    pub capacity: Option<Bandwidth>,
    /// The QUIC stack's probe timer may expire behind a longer pause.
    pub longest_pause: Duration,
    /// The interval to ask for, unless losses make it shorter.
    pub longest_interval: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    began: Instant,
    bytes: u64,
    lost_packets: u64,
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
    /// Packets that get lost in a second, on average.
    losses: f64,
    /// What the path carried when the load became light.
    capacity: Bandwidth,
    /// Acknowledgements in a row that show something else.
    changed: u32,
    /// The interval that the peer still goes by, and when it was asked for a shorter one.
    before: Option<(Instant, Duration)>,
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
    pub fn on_sent(&mut self, now: Instant, bytes: u64, load: impl FnOnce() -> Load) -> bool {
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
        if elapsed < SPAN {
            return false;
        }
        let (ended, load) = (*span, load());
        self.span = Some(Span::new(now, &load));
        let losses = ended.lost_packets as f64 / elapsed.as_secs_f64();
        self.losses += (losses - self.losses) * LOSS_WEIGHT;
        self.paused_spans = if ended.has_paused { self.paused_spans + 1 } else { 0 };
        let carried = load.capacity.map_or(0, |capacity| capacity.bytes_in(elapsed));
        if ended.bytes > carried / HEAVY || self.paused_spans >= PAUSED_SPANS {
            return self.end(now);
        }
        if ended.bytes <= carried / LIGHT {
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
        self.set_interval(now, interval(load.longest_interval, self.losses))
    }

    /// So many packets are taken for lost.
    pub fn on_lost(&mut self, packets: u64) {
        if let Some(span) = &mut self.span {
            span.lost_packets += packets;
        }
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
            lost_packets: 0,
            most,
            longest_pause: load.longest_pause,
            has_paused: false,
        }
    }
}

/// The interval under a light load; `None` where so many losses in a second make it no longer than others are.
fn interval(longest: Duration, losses: f64) -> Option<Duration> {
    let expected = losses * longest.as_secs_f64();
    let interval = longest.div_f64((expected / LOSSES).max(1.0));
    (interval > LONGEST_INTERVAL).then_some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TEN_MEGABYTES: Bandwidth = Bandwidth::from_bytes_per_second(10_000_000);
    const RTT: Duration = Duration::from_millis(40);

    fn load(capacity: Option<Bandwidth>) -> Load {
        Load { capacity, longest_pause: 43 * MS, longest_interval: 200 * MS }
    }

    /// A source that sends a packet of so many bytes every so many milliseconds.
    struct Source {
        light_load: LightLoad,
        now: Instant,
        capacity: Option<Bandwidth>,
    }

    impl Source {
        fn new() -> Self {
            let now = crate::test_clock();
            Self { light_load: LightLoad::default(), now, capacity: Some(TEN_MEGABYTES) }
        }

        fn send(&mut self, packets: u32, bytes: u64, every: Duration) -> Option<Duration> {
            for _ in 0..packets {
                self.light_load.on_sent(self.now, bytes, || load(self.capacity));
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
        assert_eq!(source.send(2, 40_000, 20 * MS), Some(200 * MS));
        let mut source = Source::new();
        assert_eq!(source.send(100, 60_000, 20 * MS), None, "3 MB/s");
    }

    #[test]
    fn it_stays_light_up_to_half_of_the_path_and_ends_at_once_above() {
        let mut source = Source::new();
        source.send(30, 40_000, 20 * MS);
        assert_eq!(source.send(100, 90_000, 20 * MS), Some(200 * MS), "4.5 MB/s");
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
        assert_eq!(source.light_load.interval(), Some(200 * MS));
        source.hear(false);
        assert_eq!(source.light_load.interval(), None);
    }

    #[test]
    fn pauses_end_it_if_they_come_again_and_again() {
        let mut source = Source::new();
        source.send(30, 40_000, 20 * MS);
        source.send(1, 40_000, 100 * MS);
        assert_eq!(source.send(30, 40_000, 20 * MS), Some(200 * MS), "one");
        assert_eq!(source.send(12, 40_000, 100 * MS), None, "ten frames a second");
    }

    #[test]
    fn losses_make_the_interval_shorter_until_it_is_a_usual_one() {
        let mut source = Source::new();
        source.send(30, 40_000, 20 * MS);
        for (losses, expected) in [(3, Some(165..180)), (8, None)] {
            let mut interval = None;
            for _ in 0..40 {
                source.light_load.on_lost(losses);
                interval = source.send(13, 40_000, 20 * MS);
            }
            let is_expected = |range: std::ops::Range<u32>| {
                interval.is_some_and(|interval| {
                    interval > range.start * MS && interval < range.end * MS
                })
            };
            assert!(expected.map_or(interval.is_none(), is_expected), "{interval:?}");
        }
    }

    #[test]
    fn the_peer_goes_by_the_long_interval_until_a_round_trip_after_the_end() {
        let mut source = Source::new();
        source.send(30, 40_000, 20 * MS);
        source.hear(true);
        assert_eq!(source.light_load.expected_interval(), Some(200 * MS));
        source.now += RTT + MS;
        source.hear(false);
        assert_eq!(source.light_load.expected_interval(), None);
    }
}
