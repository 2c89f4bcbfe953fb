//! When a given number of bits has passed, at a rate that changes over time.

use std::time::Duration;

use super::Schedule;
use crate::Time;

/// Work is what a rate does in a time: bits per second times nanoseconds. In this unit the
/// integral over any schedule is a whole number, so that nothing is ever rounded but the moment
/// at which a packet has passed.
pub(super) type Work = u128;

/// What it takes to pass that many bytes.
pub(super) fn work_of(bytes: u32) -> Work {
    const NANOS_PER_SEC: Work = 1_000_000_000;
    Work::from(bytes) * 8 * NANOS_PER_SEC
}

/// The integral of a rate over time, and its inverse.
#[derive(Clone, Debug)]
pub(super) struct RateIntegral {
    segments: Vec<Segment>,
    cycle: Option<Cycle>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    rate_bps: u64,
    /// Done from the start of the schedule to the start of this segment.
    work: Work,
}

#[derive(Clone, Copy, Debug)]
struct Cycle {
    length: u64,
    work: Work,
}

impl RateIntegral {
    /// The integral of a schedule in bits per second. Its last value, or one of them if it
    /// repeats, must be above zero.
    pub(super) fn new(rate_bps: &Schedule<u64>) -> Self {
        let mut segments: Vec<Segment> = Vec::with_capacity(rate_bps.steps().len());
        for &(start, rate_bps) in rate_bps.steps() {
            let start = Time::from(start).as_nanos();
            let work = segments.last().map_or(0, |last| last.work_until(start));
            segments.push(Segment { start, rate_bps, work });
        }
        let cycle = rate_bps.period().map(|period| {
            let length = Time::from(period).as_nanos();
            let work = segments.last().map_or(0, |last| last.work_until(length));
            Cycle { length, work }
        });
        Self { segments, cycle }
    }

    /// What has been done from time zero to `now`.
    pub(super) fn work(&self, now: Time) -> Work {
        let now = now.as_nanos();
        let (before, offset) = match self.cycle {
            Some(Cycle { length, work }) => (Work::from(now / length) * work, now % length),
            None => (0, now),
        };
        let next = self.segments.partition_point(|segment| segment.start <= offset);
        before + self.segments[next - 1].work_until(offset) // the first starts at zero
    }

    /// The first moment at which that much has been done, rounded up to a nanosecond.
    pub(super) fn time_of(&self, work: Work) -> Time {
        let Some(below) = work.checked_sub(1) else { return Time::ZERO };
        // What is left of it lies above zero, so that an exact number of cycles ends with the
        // last of them, not after the pause that the next may begin with.
        let (before, rest) = match self.cycle {
            Some(cycle) => {
                let cycles = below / cycle.work;
                (cycles * Work::from(cycle.length), work - cycles * cycle.work)
            }
            None => (0, work),
        };
        let next = self.segments.partition_point(|segment| segment.work < rest);
        let segment = self.segments[next - 1]; // the first begins with no work done
        let within = (rest - segment.work).div_ceil(Work::from(segment.rate_bps));
        let nanos = before + Work::from(segment.start) + within;
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The average rate from time zero on, in bits per second.
    pub(super) fn mean_bps(&self, span: Duration) -> f64 {
        if span.is_zero() {
            return self.segments[0].rate_bps as f64;
        }
        let span = Time::from(span);
        self.work(span) as f64 / span.as_nanos() as f64
    }
}

impl Segment {
    fn work_until(&self, offset: u64) -> Work {
        self.work + Work::from(offset - self.start) * Work::from(self.rate_bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: u64 = 1_000_000_000;

    fn integral(steps: &[(u64, u64)], period: Option<u64>) -> RateIntegral {
        let secs = Duration::from_secs;
        let steps = steps.iter().map(|&(at, rate)| (secs(at), rate)).collect();
        RateIntegral::new(&Schedule::new(steps, period.map(secs)).unwrap())
    }

    fn bits(bits: u128) -> Work {
        bits * u128::from(SEC)
    }

    #[test]
    fn bits_pass_at_the_rate_of_their_time() {
        let integral = integral(&[(0, 10), (2, 40)], None);
        assert_eq!(integral.work(Time::from_nanos(3 * SEC)), bits(60));
        assert_eq!(integral.time_of(bits(20)), Time::from_nanos(2 * SEC));
        assert_eq!(integral.time_of(bits(30)), Time::from_nanos(2 * SEC + SEC / 4));
        assert_eq!(integral.time_of(1), Time::from_nanos(1), "rounded up");
    }

    #[test]
    fn nothing_passes_while_the_rate_is_zero() {
        let integral = integral(&[(0, 10), (2, 0), (5, 10)], None);
        assert_eq!(integral.time_of(bits(20)), Time::from_nanos(2 * SEC));
        assert_eq!(integral.time_of(bits(20) + 1), Time::from_nanos(5 * SEC + 1));
    }

    #[test]
    fn cycles_repeat() {
        // Begins with a pause: 10 bits in each cycle of 3 s.
        let integral = integral(&[(0, 0), (2, 10)], Some(3));
        assert_eq!(integral.work(Time::from_nanos(5 * SEC)), bits(10));
        assert_eq!(integral.time_of(bits(20)), Time::from_nanos(6 * SEC));
        assert_eq!(integral.time_of(bits(20) + 1), Time::from_nanos(8 * SEC + 1));
    }

    #[test]
    fn the_average_is_over_the_span_asked_for() {
        let integral = integral(&[(0, 10), (2, 40)], None);
        assert!((integral.mean_bps(Duration::from_secs(4)) - 25.0).abs() < 1e-9);
        assert!((integral.mean_bps(Duration::ZERO) - 10.0).abs() < 1e-9);
    }

    proptest::proptest! {
        #[test]
        fn time_of_is_the_inverse_of_work(
            rates in proptest::collection::vec(0_u64..3_000, 1..6),
            repeats: bool,
            target in 0_u128..100_000,
        ) {
            let mut steps: Vec<_> = (0..).zip(rates).collect();
            steps.push((steps.len() as u64, 1));
            let period = repeats.then_some(steps.len() as u64);
            let integral = integral(&steps, period);
            let target = target * u128::from(SEC / 7);
            let time = integral.time_of(target);
            proptest::prop_assert!(integral.work(time) >= target);
            let before = time - Duration::from_nanos(1);
            proptest::prop_assert!(time == Time::ZERO || integral.work(before) < target);
        }
    }
}
