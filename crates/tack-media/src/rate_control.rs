//! The bit rate of an encoder, from what the connection knows of the path.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tacklib::MediaStats;

/// Bits in a byte.
const BITS: f64 = 8.0;

/// Backlogs that are remembered: those of a quarter of a second, at 240 updates a second.
const MOST_BACKLOGS: usize = 64;

/// Round trips differ by so much where only the source's own frames queue.
const NO_JITTER: Duration = Duration::from_millis(2);

/// Estimates count for so many times the mean difference of round trips, and for no longer than that.
const JITTERS: u32 = 30;
const LONGEST_SPAN: Duration = Duration::from_millis(640);

/// A rise begins from this at least, bits per second: a share of nothing is nothing.
const LEAST: f64 = 10_000.0;

/// Estimates that are remembered.
const MOST_ESTIMATES: usize = 64;

/// How an [`EncoderRateControl`] follows the path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RateControlConfig {
    /// The share of the estimated rate that the encoder may have: 0.9.
    pub headroom: f64,
    /// Changes by less than this share are not told: 0.05.
    pub deadband: f64,
    /// How much the rate rises in a second at most, as a share of itself: 0.25. Falls are followed at once.
    pub recovery: f64,
    /// Within what time a backlog is to leave, beside what is captured in it: 250 ms. What leaves sooner does
    /// not count: a key frame is as long as many others.
    pub drain: Duration,
    /// The lowest rate, bits per second: 100,000.
    pub lowest: u64,
    /// The highest rate, bits per second: 50,000,000.
    pub highest: u64,
    /// The rate to begin with, bits per second: 1,000,000.
    pub first: u64,
}

impl Default for RateControlConfig {
    fn default() -> Self {
        Self {
            headroom: 0.9,
            deadband: 0.05,
            recovery: 0.25,
            drain: Duration::from_millis(250),
            lowest: 100_000,
            highest: 50_000_000,
            first: 1_000_000,
        }
    }
}

/// Follows [`MediaStats::estimated_send_rate`]: at once where it falls, in steps of some per cent where it
/// rises, and below it while data waits for long.
#[derive(Clone, Debug)]
pub struct EncoderRateControl {
    config: RateControlConfig,
    /// What the encoder may have where nothing waits, bits per second.
    rate: f64,
    told: u64,
    updated: Option<Instant>,
    begun: Option<Instant>,
    /// What waited within [`RateControlConfig::drain`], bytes: since when it was that or more. Ascending in both.
    backlogs: VecDeque<(Instant, u64)>,
    estimates: Estimates,
}

/// Recent estimates. On a path that jitters a single one may be far off, and following a false fall costs seconds.
#[derive(Clone, Debug, Default)]
struct Estimates(VecDeque<(Instant, u64)>);

impl Estimates {
    /// The first and the third octile of the estimates within the span that jitter may last: the control follows a
    /// fall that lasts for three eighths of the span, and a rise that lasts for seven.
    fn low_and_middle(&mut self, now: Instant, stats: &MediaStats) -> (u64, u64) {
        let jitter = stats.jitter.unwrap_or_default().saturating_sub(NO_JITTER);
        let span = (JITTERS * jitter).min(LONGEST_SPAN);
        let rate = stats.estimated_send_rate;
        let is_old = |(at, _): &(Instant, u64)| now.saturating_duration_since(*at) > span;
        while self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        let between = LONGEST_SPAN / MOST_ESTIMATES as u32;
        if self.0.back().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= between) {
            self.0.push_back((now, rate));
        }
        if span.is_zero() {
            return (rate, rate);
        }
        let mut rates: Vec<u64> = self.0.iter().map(|(_, rate)| *rate).collect();
        rates.sort_unstable();
        let of = |at: usize| rates.get(at).copied().unwrap_or(rate);
        (of(rates.len() / 8), of(3 * rates.len() / 8))
    }
}

impl EncoderRateControl {
    /// Begins with [`RateControlConfig::first`].
    pub fn new(config: RateControlConfig) -> Self {
        let mut control = Self {
            config,
            rate: 0.0,
            told: 0,
            updated: None,
            begun: None,
            backlogs: VecDeque::new(),
            estimates: Estimates::default(),
        };
        control.rate = control.bounded(config.first as f64);
        control.told = control.rate as u64;
        control
    }

    /// The bit rate for what is encoded next, bits per second. To be called for each frame or more often.
    pub fn update(&mut self, now: Instant, stats: &MediaStats) -> u64 {
        // The first time there is nothing to count from, and a clock that was set back tells nothing.
        let passed =
            self.updated.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.updated = Some(now);
        if stats.rate_age.is_none() {
            return self.told;
        }
        let (low, middle) = self.estimates.low_and_middle(now, stats);
        // What holds for now is let be between them.
        let path = (self.rate / self.config.headroom.max(1e-3))
            .clamp(low as f64 * BITS, middle as f64 * BITS);
        let growth = 1.0 + self.config.recovery * passed.as_secs_f64();
        let most = self.rate.max(LEAST) * growth;
        self.rate = self.bounded((path * self.config.headroom).min(most));
        let backlog = self.lasting_backlog(now, stats.backlog) as f64 * BITS;
        let backlog = backlog / self.config.drain.as_secs_f64().max(1e-3);
        // The path has room for a tenth beside the frames.
        let spare = path * (1.0 - self.config.headroom);
        // Not remembered: what has left says nothing of the path.
        let rate = self.bounded(self.rate - (backlog - spare).max(0.0));
        if (rate - self.told as f64).abs() >= self.config.deadband * self.told as f64 {
            self.told = rate as u64;
        }
        self.told
    }

    /// What has waited all the time that a backlog may take to leave, bytes.
    fn lasting_backlog(&mut self, now: Instant, backlog: u64) -> u64 {
        while self.backlogs.back().is_some_and(|(_, least)| *least > backlog) {
            self.backlogs.pop_back();
        }
        if self.backlogs.back().is_none_or(|(_, least)| *least < backlog) {
            self.backlogs.push_back((now, backlog));
        }
        let is_old =
            |(at, _): &(Instant, u64)| now.saturating_duration_since(*at) > self.config.drain;
        while self.backlogs.len() > MOST_BACKLOGS || self.backlogs.get(1).is_some_and(is_old) {
            self.backlogs.pop_front();
        }
        let begun = *self.begun.get_or_insert(now);
        let is_known = now.saturating_duration_since(begun) >= self.config.drain;
        let least = self.backlogs.front().filter(|_| is_known);
        least.map_or(0, |(_, least)| *least)
    }

    /// The rate that was last told, bits per second.
    pub fn rate(&self) -> u64 {
        self.told
    }

    /// A program may set bounds that contradict each other.
    fn bounded(&self, rate: f64) -> f64 {
        rate.min(self.config.highest as f64).max(self.config.lowest as f64)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;

    fn stats(bits_per_second: u64, backlog: u64) -> MediaStats {
        let mut stats = MediaStats::default();
        stats.estimated_send_rate = bits_per_second / 8;
        stats.rate_age = Some(Duration::ZERO);
        stats.backlog = backlog;
        stats
    }

    /// Updates every 33 ms for so long.
    fn follow(
        control: &mut EncoderRateControl,
        now: &mut Instant,
        stats: &MediaStats,
        ms: u64,
    ) {
        for _ in 0..ms / 33 {
            *now += Duration::from_millis(33);
            control.update(*now, stats);
        }
    }

    #[test]
    fn a_fall_is_followed_at_once_and_a_rise_by_a_quarter_a_second() {
        let mut now = Instant::now();
        let config = RateControlConfig { first: 9_000_000, ..RateControlConfig::default() };
        let mut control = EncoderRateControl::new(config);
        assert_eq!(control.update(now, &stats(10_000_000, 0)), 9_000_000);
        assert_eq!(control.update(now, &stats(5_000_000, 0)), 4_500_000);
        follow(&mut control, &mut now, &stats(10_000_000, 0), 990);
        let after_a_second = control.rate();
        assert!((5_300_000..=5_800_000).contains(&after_a_second), "{after_a_second}");
        follow(&mut control, &mut now, &stats(10_000_000, 0), 5000);
        assert!((8_550_000..=9_000_000).contains(&control.rate()), "{}", control.rate());
    }

    #[test]
    fn on_a_path_that_jitters_a_fall_is_followed_if_it_lasts() {
        let mut now = Instant::now();
        let config = RateControlConfig { first: 9_000_000, ..RateControlConfig::default() };
        let mut control = EncoderRateControl::new(config);
        let jittering = |rate, jitter_ms| {
            let mut stats = stats(rate, 0);
            stats.jitter = Some(Duration::from_millis(jitter_ms));
            stats
        };
        follow(&mut control, &mut now, &jittering(10_000_000, 12), 990);
        for _ in 0..5 {
            follow(&mut control, &mut now, &jittering(500_000, 12), 99);
            assert_eq!(control.rate(), 9_000_000);
            follow(&mut control, &mut now, &jittering(10_000_000, 12), 330);
        }
        follow(&mut control, &mut now, &jittering(5_000_000, 12), 330);
        assert_eq!(control.rate(), 4_500_000);
        follow(&mut control, &mut now, &jittering(1_000_000, 2), 33);
        assert_eq!(control.rate(), 900_000, "at once without jitter");
    }

    #[test]
    fn a_rate_that_has_fallen_to_nothing_rises_again() {
        let mut now = Instant::now();
        let config = RateControlConfig { lowest: 0, ..RateControlConfig::default() };
        let mut control = EncoderRateControl::new(config);
        assert_eq!(control.update(now, &stats(0, 0)), 0);
        follow(&mut control, &mut now, &stats(10_000_000, 0), 10_000);
        // A quarter more in each second.
        assert!((80_000..=150_000).contains(&control.rate()), "{}", control.rate());
    }

    #[test]
    fn small_changes_are_not_told() {
        let now = Instant::now();
        let config = RateControlConfig { first: 9_000_000, ..RateControlConfig::default() };
        let mut control = EncoderRateControl::new(config);
        control.update(now, &stats(10_000_000, 0));
        assert_eq!(control.update(now, &stats(9_700_000, 0)), 9_000_000);
        assert_eq!(control.update(now, &stats(9_400_000, 0)), 8_460_000);
    }

    #[test]
    fn what_waits_for_long_is_let_out_before_more_is_encoded_and_then_forgotten() {
        let mut now = Instant::now();
        let config = RateControlConfig { first: 4_500_000, ..RateControlConfig::default() };
        let mut control = EncoderRateControl::new(config);
        // 62,500 bytes within 250 ms are 2 Mbit/s, of which 0.5 are spare.
        follow(&mut control, &mut now, &stats(5_000_000, 62_500), 231);
        assert_eq!(control.rate(), 4_500_000);
        follow(&mut control, &mut now, &stats(5_000_000, 62_500), 66);
        assert_eq!(control.rate(), 3_000_000);
        follow(&mut control, &mut now, &stats(5_000_000, 10 << 20), 330);
        assert_eq!(control.rate(), 100_000);
        follow(&mut control, &mut now, &stats(5_000_000, 0), 33);
        assert_eq!(control.rate(), 4_500_000);
    }

    #[test]
    fn a_key_frame_that_leaves_soon_is_no_backlog() {
        let mut now = Instant::now();
        let config = RateControlConfig { first: 4_500_000, ..RateControlConfig::default() };
        let mut control = EncoderRateControl::new(config);
        for _ in 0..20 {
            for backlog in [100_000, 80_000, 60_000, 40_000, 20_000, 0] {
                follow(&mut control, &mut now, &stats(5_000_000, backlog), 33);
                assert_eq!(control.rate(), 4_500_000);
            }
        }
    }

    #[test]
    fn nothing_is_followed_that_has_not_been_measured() {
        let mut control = EncoderRateControl::new(RateControlConfig::default());
        assert_eq!(control.update(Instant::now(), &MediaStats::default()), 1_000_000);
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_raises_nothing() {
        let now = Instant::now();
        let mut control = EncoderRateControl::new(RateControlConfig::default());
        control.update(now + Duration::from_secs(9), &stats(10_000_000, 0));
        for _ in 0..100 {
            control.update(now, &stats(10_000_000, 0));
        }
        assert_eq!(control.rate(), 1_000_000);
    }
}
