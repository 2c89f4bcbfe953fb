//! A link that stands still from time to time.

use std::time::Duration;

use super::BoxedLink;
use crate::{Arrival, Direction, Link, Losses, Packet, ParameterError, Time};

/// When a link stands still: a radio that scans other channels or saves power, for example, for
/// some tens or hundreds of milliseconds each time (draft-huitema-ccwg-bbr-realtime, section 2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// In order of time, one after another.
    pauses: Vec<Pause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    start: Time,
    length: Duration,
    /// All pauses before this one together.
    before: Duration,
}

impl Pauses {
    /// Pauses by their start, from the start of the link, and their length.
    ///
    /// Fails unless each begins after the end of the one before and lasts for some time.
    pub fn new(
        pauses: impl IntoIterator<Item = (Duration, Duration)>,
    ) -> Result<Self, ParameterError> {
        let mut checked: Vec<Pause> = Vec::new();
        let mut before = Duration::ZERO;
        for (start, length) in pauses {
            let start = Time::from(start);
            if length.is_zero() {
                return Err(ParameterError::new("pauses", "a pause of 0", "above 0"));
            }
            if checked.last().is_some_and(|last| start <= last.start + last.length) {
                let value = format!("a pause at {} s", start.as_secs_f64());
                return Err(ParameterError::new("pauses", value, "after the end of the last"));
            }
            checked.push(Pause { start, length, before });
            before += length;
        }
        Ok(Self { pauses: checked })
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.pauses.is_empty()
    }

    /// Whether one lasts at this moment. Its end is no part of it.
    pub(super) fn cover(&self, now: Time) -> bool {
        let begun = self.pauses.partition_point(|pause| pause.start <= now);
        let last = begun.checked_sub(1).map(|at| &self.pauses[at]);
        last.is_some_and(|last| now.since(last.start) < last.length)
    }

    /// How long the link has run by then.
    fn running(&self, now: Time) -> Time {
        let begun = self.pauses.partition_point(|pause| pause.start <= now);
        let Some(last) = begun.checked_sub(1).map(|at| &self.pauses[at]) else { return now };
        now - (last.before + last.length.min(now.since(last.start)))
    }

    /// When a link has run for so long. At the very start of a pause it has not yet done what
    /// happens then.
    fn moment(&self, running: Time) -> Time {
        let over = self.pauses.partition_point(|pause| pause.start - pause.before <= running);
        let last = over.checked_sub(1).map(|at| &self.pauses[at]);
        running + last.map_or(Duration::ZERO, |last| last.before + last.length)
    }
}

/// A link with pauses: its clock stands still meanwhile. What is being sent is finished
/// afterwards, and packets that come are queued as at any time.
pub struct Paused {
    link: BoxedLink,
    pauses: Pauses,
}

impl Paused {
    /// The link, which must be empty, with pauses.
    pub const fn new(link: BoxedLink, pauses: Pauses) -> Self {
        Self { link, pauses }
    }
}

impl Link for Paused {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        self.link.send(direction, packet, self.pauses.running(now));
    }

    fn next_event(&self) -> Option<Time> {
        self.link.next_event().map(|at| self.pauses.moment(at))
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        loop {
            let next = self.link.next_event().filter(|at| self.pauses.moment(*at) <= now)?;
            if let Some(arrival) = self.link.arrival(next) {
                return Some(Arrival { at: self.pauses.moment(arrival.at), ..arrival });
            }
        }
    }

    fn losses(&self, direction: Direction) -> Losses {
        self.link.losses(direction)
    }

    fn corrupted(&self, direction: Direction) -> u64 {
        self.link.corrupted(direction)
    }

    fn marked(&self, direction: Direction) -> u64 {
        self.link.marked(direction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::Duplex;
    use crate::pipe::PipeConfig;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(millis: u64) -> Time {
        Time::from(ms(millis))
    }

    /// A packet takes a millisecond; the link stands still from 10 to 60 and from 100 to 110 ms.
    fn link() -> Paused {
        let config = PipeConfig::new(12_000_000, Duration::ZERO, 1_000_000);
        let pipe = Duplex::new(&config, &config, 1).unwrap();
        let pauses = Pauses::new([(ms(10), ms(50)), (ms(100), ms(10))]).unwrap();
        Paused::new(Box::new(pipe), pauses)
    }

    fn send(link: &mut Paused, millis: u64) {
        let packet = Packet::new(1500, 0, at(millis), Vec::new());
        link.send(Direction::Forward, packet, at(millis));
    }

    /// When packets arrive, in milliseconds.
    fn arrivals(link: &mut Paused) -> Vec<u64> {
        let mut arrivals = Vec::new();
        while let Some(next) = link.next_event() {
            while let Some(arrival) = link.arrival(next) {
                assert!(arrival.at <= next);
                arrivals.push(arrival.at.as_nanos() / 1_000_000);
            }
        }
        arrivals
    }

    #[test]
    fn packets_of_a_pause_are_sent_after_it_at_the_rate_of_the_link() {
        let mut link = link();
        for millis in [5, 20, 30, 59] {
            send(&mut link, millis);
        }
        assert_eq!(arrivals(&mut link), [6, 61, 62, 63]);
    }

    #[test]
    fn what_is_being_sent_when_a_pause_begins_is_finished_after_it() {
        let mut link = link();
        for _ in 0..3 {
            send(&mut link, 8);
        }
        // The second packet would arrive at 10 ms, when the link has just stopped.
        assert_eq!(arrivals(&mut link), [9, 60, 61]);
        send(&mut link, 99);
        assert_eq!(arrivals(&mut link), [110]);
        send(&mut link, 200);
        assert_eq!(arrivals(&mut link), [201]);
    }

    #[test]
    fn nothing_arrives_during_a_pause_and_nothing_is_due() {
        let mut link = link();
        send(&mut link, 20);
        assert_eq!(link.next_event(), Some(at(61)));
        assert_eq!(link.arrival(at(60)), None);
        assert!(link.arrival(at(61)).is_some());
    }

    #[test]
    fn pauses_that_make_no_sense_are_refused() {
        assert!(Pauses::new([(ms(5), ms(0))]).is_err());
        assert!(Pauses::new([(ms(5), ms(5)), (ms(10), ms(1))]).is_err());
        assert!(Pauses::new([]).unwrap().is_empty());
    }
}
