//! Delay variation as that of Wi-Fi.

use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::Schedule;
use crate::{ParameterError, Time};

/// One attempt after another to get at the medium: that many intervals of 1 ms on average.
const SHORT_INTERVAL_NS: f64 = 1e6;
const SHORT_MEAN: f64 = 1.0;
/// exp(-`SHORT_MEAN`), as a constant: libraries differ in the last bit.
const SHORT_NONE: f64 = 0.367_879_441_171_442_33;
/// Long hold-ups, of some packets only.
const LONG_INTERVAL_NS: f64 = 7.5e6;
const LONG_MEAN: f64 = 12.0;
/// exp(-`LONG_MEAN`).
const LONG_NONE: f64 = 6.144_212_353_328_21e-6;
/// Mean of the long hold-ups.
const LONG_NS: f64 = LONG_INTERVAL_NS * LONG_MEAN;

/// Lowest mean, besides 0.
const MIN_MEAN: Duration = Duration::from_millis(1);
/// Highest mean: all packets are held up for long.
const MAX_MEAN: Duration = Duration::from_millis(91);

/// Draws the jitter of packets, as draft-huitema-ccwg-c4-test describes that of Wi-Fi.
///
/// A packet is late by N1 intervals of 1 ms, less a uniform part of the last; N1 has a Poisson
/// distribution of mean 1. A share (mean - 1 ms) / 90 ms of the packets is late by N2 intervals of
/// 7.5 ms besides; N2 has one of mean 12. The uniform part takes off (1 - 1/e)/2 ms on average, so
/// the true mean lies 0.32 ms below the nominal one.
#[derive(Clone, Debug)]
pub(super) struct Jitter {
    mean: Schedule<Duration>,
    random: Pcg64Mcg,
}

/// What was drawn for a packet: its jitter, but for the mean, which is that of a later moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct JitterDraw {
    short: Duration,
    long: Duration,
    /// From 0 to 1: the share of packets that must have long hold-ups for this to be one of them.
    rank: f64,
}

impl Jitter {
    pub(super) const fn new(mean: Schedule<Duration>, random: Pcg64Mcg) -> Self {
        Self { mean, random }
    }

    /// Draws for the next packet, and always as often.
    pub(super) fn draw(&mut self) -> JitterDraw {
        let short = poisson(&mut self.random, SHORT_MEAN, SHORT_NONE);
        let part = self.random.random::<f64>();
        let short = if short > 0 { f64::from(short) - part } else { 0.0 };
        let rank = self.random.random();
        let long = f64::from(poisson(&mut self.random, LONG_MEAN, LONG_NONE));
        JitterDraw {
            short: Duration::from_nanos((short * SHORT_INTERVAL_NS) as u64),
            long: Duration::from_nanos((long * LONG_INTERVAL_NS) as u64),
            rank,
        }
    }

    /// How late a packet is that leaves the queue at `now`.
    pub(super) fn at(&self, now: Time, draw: JitterDraw) -> Duration {
        let mean = self.mean.at(now);
        if mean.is_zero() {
            return Duration::ZERO;
        }
        let share = (mean.saturating_sub(MIN_MEAN)).as_nanos() as f64 / LONG_NS;
        if draw.rank < share { draw.short + draw.long } else { draw.short }
    }
}

/// Fails if the model has no such mean.
pub(crate) fn check_jitter(field: &str, mean: Duration) -> Result<(), ParameterError> {
    if mean.is_zero() || (MIN_MEAN..=MAX_MEAN).contains(&mean) {
        return Ok(());
    }
    let allowed = format!("0, or {} to {} ms", MIN_MEAN.as_millis(), MAX_MEAN.as_millis());
    let value = format!("{} ms", mean.as_secs_f64() * 1e3);
    Err(ParameterError::new(field, value, allowed))
}

/// A number from a Poisson distribution, by inversion of one uniform draw; `none` is the
/// probability of 0.
fn poisson(random: &mut Pcg64Mcg, mean: f64, none: f64) -> u32 {
    let place = random.random::<f64>();
    let (mut number, mut probability, mut below) = (0, none, none);
    // Beyond ten times the mean lies less than rounding leaves of the sum.
    while place >= below && f64::from(number) < 10.0 * mean + 20.0 {
        number += 1;
        probability *= mean / f64::from(number);
        below += probability;
    }
    number
}
