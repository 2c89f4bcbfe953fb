//! Acknowledgements that fill their own path come less often (TACK-5.1-9).
//!
//! A TACK with its headers is some 170 bytes, and fifty of them a second are more than an uplink of
//! 64 kbit/s carries. They queue in front of it, all round trips get longer, and the controller cannot
//! tell that from a queue of data. The TIMESTAMP beside each TACK shows the queue.

use std::time::{Duration, Instant};

use super::path_model::LONGEST_IDLE_QUEUE;

/// Acknowledgements whose delay is known before what all of them had is called a queue.
const LEAST_SAMPLES: u32 = 4;

/// For how long nothing has to queue before acknowledgements come more often again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same, where that has brought the queue back again and again.
const MOST_PATIENCE: Duration = Duration::from_secs(160);

/// How much less often than usual acknowledgements are asked for.
#[derive(Clone, Copy, Debug)]
pub struct AckSpacing {
    /// The interval is doubled so many times.
    doublings: u32,
    /// Delays of late.
    span: Option<Span>,
    /// Until then the queue of before is still there.
    settles: Option<Instant>,
    /// Since when nothing queues.
    quiet: Option<Instant>,
    patience: Duration,
    /// When acknowledgements were last asked for more often again.
    tried: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    began: Instant,
    /// Of the acknowledgement that queued least.
    least: Duration,
    samples: u32,
}

/// What is known of the path and its acknowledgements.
#[derive(Clone, Copy, Debug)]
pub struct AckSpacingModel {
    /// RTTmin.
    pub min_rtt: Duration,
    /// The smoothed round trip, with what acknowledgements queue for.
    pub smoothed_rtt: Duration,
    /// The interval between acknowledgements if none queues.
    pub usual: Duration,
}

impl Default for AckSpacing {
    fn default() -> Self {
        Self {
            doublings: 0,
            span: None,
            settles: None,
            quiet: None,
            patience: PATIENCE,
            tried: None,
        }
    }
}

impl AckSpacing {
    /// The interval to ask for, where it is not the usual one. There are two acknowledgements at least in the round
    /// trip as it is: the queue of others, for which this changes nothing, makes that longer too.
    pub fn interval(&self, path: &AckSpacingModel) -> Option<Duration> {
        let spaced = path.usual * (1 << self.doublings);
        let spaced = spaced.min(path.smoothed_rtt / 2);
        (self.doublings > 0 && spaced > path.usual).then_some(spaced)
    }

    /// Whether acknowledgements come less often than usual.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.doublings > 0
    }

    /// An acknowledgement that had nothing to queue behind but others has taken so much longer than the fastest of
    /// late.
    pub fn on_delay(&mut self, now: Instant, above_lowest: Duration, path: &AckSpacingModel) {
        if self.settles.is_some_and(|until| now < until) {
            return;
        }
        self.settles = None;
        let interval = self.interval(path).unwrap_or(path.usual);
        let span =
            self.span.get_or_insert(Span { began: now, least: above_lowest, samples: 0 });
        span.least = span.least.min(above_lowest);
        span.samples += 1;
        let Span { began, least, samples } = *span;
        let longest = 2 * path.smoothed_rtt + LEAST_SAMPLES * interval;
        if samples < LEAST_SAMPLES || now.saturating_duration_since(began) < longest {
            return;
        }
        self.span = None;
        let queue = path.usual.max(path.min_rtt / 4).max(LONGEST_IDLE_QUEUE);
        if least > queue {
            self.space(now, least, path);
        } else if least > queue / 2 {
            self.quiet = None;
        } else if now.saturating_duration_since(*self.quiet.get_or_insert(now)) >= self.patience
        {
            self.quiet = None;
            if self.doublings > 0 {
                self.doublings -= 1;
                self.tried = Some(now);
            }
        }
    }

    /// Doubles the interval, if that is still short of half a round trip.
    fn space(&mut self, now: Instant, queue: Duration, path: &AckSpacingModel) {
        self.quiet = None;
        if path.usual * (1 << self.doublings) >= path.smoothed_rtt / 2 {
            return;
        }
        self.doublings += 1;
        let tried = self.tried.take();
        let since = tried.map(|tried| now.saturating_duration_since(tried));
        self.patience = match since {
            Some(since) if since < self.patience => (2 * self.patience).min(MOST_PATIENCE),
            _ => PATIENCE,
        };
        // The peer has to hear of it, and half as many let what queues drain. A peer that lies may claim any queue; what
        // there is of it is a part of the round trip.
        self.settles = Some(now + path.smoothed_rtt + 2 * queue.min(path.smoothed_rtt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PATH: AckSpacingModel = AckSpacingModel {
        min_rtt: MS.saturating_mul(40),
        smoothed_rtt: MS.saturating_mul(200),
        usual: MS.saturating_mul(20),
    };

    /// Acknowledgements of so many milliseconds, with that delay; what they come to be apart.
    fn acknowledge(
        spacing: &mut AckSpacing,
        now: &mut Instant,
        milliseconds: u32,
        delay: impl Fn(u32) -> u32,
    ) -> Option<Duration> {
        for count in 0..milliseconds / 20 {
            *now += 20 * MS;
            spacing.on_delay(*now, delay(count) * MS, &PATH);
        }
        spacing.interval(&PATH)
    }

    #[test]
    fn acknowledgements_that_all_queue_come_half_as_often() {
        let (mut spacing, mut now) = (AckSpacing::default(), crate::test_clock());
        assert_eq!(acknowledge(&mut spacing, &mut now, 400, |_| 60), None, "too early to tell");
        assert_eq!(acknowledge(&mut spacing, &mut now, 200, |_| 60), Some(40 * MS));
        assert_eq!(
            acknowledge(&mut spacing, &mut now, 300, |_| 60),
            Some(40 * MS),
            "it drains"
        );
        assert_eq!(acknowledge(&mut spacing, &mut now, 1000, |_| 60), Some(80 * MS));
        // Two in a round trip are left.
        assert_eq!(acknowledge(&mut spacing, &mut now, 9000, |_| 60), Some(100 * MS));
    }

    #[test]
    fn acknowledgements_of_which_one_does_not_queue_come_as_often_as_before() {
        let (mut spacing, mut now) = (AckSpacing::default(), crate::test_clock());
        let some = |count: u32| if count.is_multiple_of(10) { 3 } else { 60 };
        assert_eq!(acknowledge(&mut spacing, &mut now, 20_000, some), None);
        // Nor where the queue is shorter than the time between two of them.
        assert_eq!(acknowledge(&mut spacing, &mut now, 20_000, |_| 19), None);
    }

    #[test]
    fn a_queue_that_no_round_trip_shows_is_waited_for_no_longer_than_one() {
        let (mut spacing, mut now) = (AckSpacing::default(), crate::test_clock());
        for _ in 0..100 {
            now += 20 * MS;
            spacing.on_delay(now, Duration::from_secs(1 << 40), &PATH);
        }
        assert_eq!(spacing.interval(&PATH), Some(80 * MS));
    }

    #[test]
    fn acknowledgements_come_more_often_again_once_nothing_has_queued_for_long() {
        let (mut spacing, mut now) = (AckSpacing::default(), crate::test_clock());
        acknowledge(&mut spacing, &mut now, 600, |_| 60);
        assert_eq!(acknowledge(&mut spacing, &mut now, 9_000, |_| 1), Some(40 * MS));
        assert_eq!(acknowledge(&mut spacing, &mut now, 3_000, |_| 1), None);
        // Where they queue at once then, the next time is later.
        assert_eq!(acknowledge(&mut spacing, &mut now, 1_000, |_| 60), Some(40 * MS));
        assert_eq!(acknowledge(&mut spacing, &mut now, 18_000, |_| 1), Some(40 * MS));
        assert_eq!(acknowledge(&mut spacing, &mut now, 5_000, |_| 1), None);
    }
}
