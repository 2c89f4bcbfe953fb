//! Values that change over time.

use std::time::Duration;

use crate::{ParameterError, Time};

/// A value that is constant until the next step, from the start of the link on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule<T> {
    /// From when on which value holds: the first from zero on, then later and later.
    steps: Vec<(Duration, T)>,
    /// After how long it begins again; none: the last value holds for ever.
    period: Option<Duration>,
}

impl<T: Copy> Schedule<T> {
    /// The same value at all times.
    pub fn constant(value: T) -> Self {
        Self { steps: vec![(Duration::ZERO, value)], period: None }
    }

    /// Each value from its time on; with a `period`, all of it again and again.
    ///
    /// Fails unless the first time is zero, the times increase, and the period is longer than
    /// the last of them.
    pub fn new(
        steps: Vec<(Duration, T)>,
        period: Option<Duration>,
    ) -> Result<Self, ParameterError> {
        match steps.first() {
            None => return Err(ParameterError::new("steps", "empty", "one step or more")),
            Some((first, _)) if !first.is_zero() => {
                let value = format!("a list that begins at {first:?}");
                return Err(ParameterError::new("steps", value, "a first step at time 0"));
            }
            Some(_) => {}
        }
        if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            let value = format!("a list with {:?} after {:?}", pair[1].0, pair[0].0);
            return Err(ParameterError::new("steps", value, "times that increase"));
        }
        let last = steps[steps.len() - 1].0;
        if let Some(period) = period.filter(|period| *period <= last) {
            let value = format!("a list with {last:?} that repeats after {period:?}");
            return Err(ParameterError::new("steps", value, "times before the repetition"));
        }
        Ok(Self { steps, period })
    }

    /// The value at a moment.
    pub fn at(&self, now: Time) -> T {
        let mut offset = now.since(Time::ZERO).as_nanos();
        if let Some(period) = self.period {
            offset %= period.as_nanos();
        }
        let next = self.steps.partition_point(|(from, _)| from.as_nanos() <= offset);
        self.steps[next - 1].1 // the first step is at zero
    }

    /// All values, in order of time.
    pub fn values(&self) -> impl Iterator<Item = T> {
        self.steps.iter().map(|(_, value)| *value)
    }

    pub(super) fn steps(&self) -> &[(Duration, T)] {
        &self.steps
    }

    pub(super) const fn period(&self) -> Option<Duration> {
        self.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_value_holds_until_the_next_step() {
        let schedule = Schedule::new(vec![(secs(0), 'a'), (secs(3), 'b')], None).unwrap();
        assert_eq!(schedule.at(Time::ZERO), 'a');
        assert_eq!(schedule.at(Time::from_nanos(2_999_999_999)), 'a');
        assert_eq!(schedule.at(secs(3).into()), 'b');
        assert_eq!(schedule.at(secs(1_000_000).into()), 'b');
    }

    #[test]
    fn a_period_begins_again() {
        let steps = vec![(secs(0), 'a'), (secs(3), 'b')];
        let schedule = Schedule::new(steps, Some(secs(5))).unwrap();
        let values = (0..10).map(|at| schedule.at(secs(at).into()));
        assert_eq!(values.collect::<String>(), "aaabbaaabb");
    }

    #[test]
    fn a_schedule_that_makes_no_sense_is_refused() {
        let error = |steps: &[u64], period: Option<u64>| {
            let steps = steps.iter().map(|at| (secs(*at), ())).collect();
            Schedule::new(steps, period.map(secs)).unwrap_err().to_string()
        };
        assert_eq!(error(&[], None), "steps is empty; allowed: one step or more");
        assert!(error(&[1], None).contains("a first step at time 0"));
        assert!(error(&[0, 2, 2], None).contains("times that increase"));
        assert!(error(&[0, 2], Some(2)).contains("2s that repeats after 2s"));
    }
}
