//! Loss events: when a hole in the packet numbers deserves an instant ACK.
//!
//! The paper sends one IACK for each loss event (section V-A) and waits for a
//! settling time first, so that reordering is not taken for loss (section VIII).
//! In QUIC the sender declares a packet lost when one at least three numbers
//! newer has been acknowledged (RFC 9002 section 6.1.1). An IACK that waits for
//! three newer packets, or for alpha where they do not come, meets that rule on
//! arrival and the retransmission leaves at once (TACK-4.3-1). Where that proves
//! too early both grow, see [`Tolerance`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Tolerance;

/// IACKs that report losses between two TACKs, at most (TACK-4.3-5).
const IACKS_PER_TACK: u32 = 4;

/// Holes watched at a time, and as many reported ones remembered. More are
/// reported together, with the next IACK.
const MAX_WATCHED: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Hole {
    first: u64,
    last: u64,
    since: Instant,
}

/// Watches young holes until they are filled or reported. Until the sender has
/// advertised alpha, the settling time is zero.
#[derive(Debug, Default)]
pub struct LossEvents {
    holes: VecDeque<Hole>,
    /// Holes that were reported as losses; a packet that fills one shows that it was none.
    reported: VecDeque<Hole>,
    largest: u64,
    tolerance: Tolerance,
    /// IACKs that have reported losses since the last TACK.
    iacks: u32,
}

impl LossEvents {
    /// Sets how long a hole may stay young on a path without reordering: alpha.
    pub fn set_settling_time(&mut self, time: Duration) {
        self.tolerance.set_least_time(time);
    }

    /// What makes a hole a loss now.
    pub fn tolerance(&self) -> &Tolerance {
        &self.tolerance
    }

    /// Packet `pn` came ahead of `missing` numbers directly below it.
    pub fn on_ahead(&mut self, now: Instant, pn: u64, missing: u64) {
        self.largest = self.largest.max(pn);
        if missing == 0 {
            return;
        }
        self.tolerance.decay(now);
        remember(&mut self.holes, Hole { first: pn - missing, last: pn - 1, since: now });
    }

    /// Packet `pn` came in order.
    pub fn on_in_order(&mut self, pn: u64) {
        self.largest = self.largest.max(pn);
    }

    /// Packet `pn` came late: it fills a hole, or a part of one.
    pub fn on_late(&mut self, now: Instant, pn: u64) {
        let young = fill(&mut self.holes, pn);
        let reported = young.is_none();
        let Some(hole) = young.or_else(|| fill(&mut self.reported, pn)) else { return };
        let (newer, age) = (self.largest - pn, now.saturating_duration_since(hole.since));
        self.tolerance.on_late(now, newer, age, reported);
    }

    /// Whether a hole is a loss now and is to be reported.
    pub fn is_due(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// The lowest number that is missing without having been reported as lost.
    pub fn lowest_watched(&self) -> Option<u64> {
        self.holes.front().map(|hole| hole.first)
    }

    /// When an IACK is due: when the oldest hole becomes a loss by its age; a past instant if newer packets have
    /// made one a loss already. What comes behind many IACKs is left to the next TACK (TACK-4.3-5).
    pub fn deadline(&self) -> Option<Instant> {
        if self.iacks >= IACKS_PER_TACK {
            return None;
        }
        let oldest = self.holes.iter().map(|hole| hole.since).min()?;
        if self.holes.iter().any(|hole| self.is_overtaken(hole)) {
            return Some(oldest);
        }
        Some(oldest + self.tolerance.time())
    }

    /// An IACK has reported losses.
    pub fn on_iack(&mut self) {
        self.iacks += 1;
    }

    /// A TACK has left.
    pub fn on_tack(&mut self) {
        self.iacks = 0;
    }

    /// A TACK or IACK has reported everything up to now. Holes that are
    /// still young stay watched: the sender does not take them for lost yet.
    pub fn on_reported(&mut self, now: Instant) {
        for _ in 0..self.holes.len() {
            let Some(hole) = self.holes.pop_front() else { break };
            if self.is_overtaken(&hole) || now >= hole.since + self.tolerance.time() {
                remember(&mut self.reported, hole);
            } else {
                self.holes.push_back(hole);
            }
        }
    }

    fn is_overtaken(&self, hole: &Hole) -> bool {
        self.largest >= hole.last + self.tolerance.packets()
    }
}

/// Adds a hole, and forgets the oldest if there are too many.
fn remember(holes: &mut VecDeque<Hole>, hole: Hole) {
    holes.push_back(hole);
    forget_oldest(holes);
}

fn forget_oldest(holes: &mut VecDeque<Hole>) {
    let too_many = holes.len().saturating_sub(MAX_WATCHED);
    holes.drain(..too_many);
}

/// Takes `pn` out of the hole that it lies in, which may leave a hole on either
/// side; the hole as it was.
fn fill(holes: &mut VecDeque<Hole>, pn: u64) -> Option<Hole> {
    // Most late packets are a few places late.
    let at = holes.iter().rposition(|hole| (hole.first..=hole.last).contains(&pn))?;
    let hole = holes.remove(at)?;
    if pn < hole.last {
        holes.insert(at, Hole { first: pn + 1, ..hole });
    }
    if hole.first < pn {
        holes.insert(at, Hole { last: pn - 1, ..hole });
    }
    forget_oldest(holes);
    Some(hole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn lost_five() -> (LossEvents, Instant) {
        let now = crate::test_clock();
        let mut events = LossEvents::default();
        events.set_settling_time(10 * MS);
        events.on_in_order(4);
        events.on_ahead(now, 6, 1);
        (events, now)
    }

    #[test]
    fn a_loss_is_reported_once_three_newer_packets_have_come() {
        let (mut events, now) = lost_five();
        events.on_in_order(7);
        assert!(!events.is_due(now + MS));
        events.on_in_order(8);
        assert!(events.is_due(now + MS));
        events.on_reported(now + MS);
        assert!(!events.is_due(now + 100 * MS), "one IACK for each loss event");
    }

    #[test]
    fn losses_behind_four_reported_ones_are_left_to_the_next_tack() {
        let (mut events, now) = lost_five();
        events.on_in_order(8);
        for at in 0..4 {
            assert!(events.is_due(now));
            events.on_reported(now);
            events.on_iack();
            events.on_ahead(now, 10 + 5 * at, 1);
            events.on_in_order(13 + 5 * at);
        }
        assert!(!events.is_due(now + 100 * MS) && events.deadline().is_none());
        events.on_tack();
        assert!(events.is_due(now));
    }

    #[test]
    fn without_newer_packets_it_is_reported_after_the_settling_time() {
        let (events, now) = lost_five();
        assert!(!events.is_due(now + 9 * MS));
        assert_eq!(events.deadline(), Some(now + 10 * MS));
        assert!(events.is_due(now + 10 * MS));
    }

    #[test]
    fn reordering_that_heals_in_time_is_not_reported() {
        let (mut events, now) = lost_five();
        events.on_late(now + MS, 5);
        events.on_in_order(9);
        assert!(!events.is_due(now + 100 * MS));
        assert_eq!(events.deadline(), None);
    }

    #[test]
    fn a_hole_filled_in_its_middle_leaves_both_ends_watched() {
        let now = crate::test_clock();
        let mut events = LossEvents::default();
        events.set_settling_time(10 * MS);
        events.on_ahead(now, 10, 5);
        events.on_late(now, 7);
        events.on_late(now, 5);
        events.on_late(now, 6);
        assert!(events.is_due(now + 10 * MS));
        events.on_late(now, 8);
        assert!(events.is_due(now + 10 * MS), "9 is still missing");
        events.on_late(now, 9);
        assert!(!events.is_due(now + 10 * MS));
    }

    #[test]
    fn an_early_report_does_not_hide_a_hole_that_is_still_young() {
        let (mut events, now) = lost_five();
        events.on_reported(now + MS);
        events.on_in_order(7);
        events.on_in_order(8);
        assert!(events.is_due(now + 2 * MS));
    }

    #[test]
    fn a_loss_that_fills_late_makes_the_next_hole_wait_longer() {
        let (mut events, now) = lost_five();
        for pn in 7..=9 {
            events.on_in_order(pn);
        }
        events.on_reported(now + MS);
        events.on_late(now + 2 * MS, 5);
        // Four newer packets had come.
        events.on_ahead(now + 3 * MS, 11, 1);
        for (pn, due) in [(12, false), (13, false), (14, false), (15, true)] {
            events.on_in_order(pn);
            assert_eq!(events.is_due(now + 3 * MS), due, "{pn}");
        }
    }

    #[test]
    fn the_holes_that_are_remembered_are_bounded() {
        let now = crate::test_clock();
        let mut events = LossEvents::default();
        for pn in (2..100_000).step_by(2) {
            events.on_ahead(now, pn, 1);
            if pn % 1000 == 0 {
                events.on_reported(now);
            }
        }
        assert_eq!((events.holes.len(), events.reported.len()), (256, 256));
    }

    // TACK-9-3
    #[test]
    fn late_packets_that_split_holes_leave_the_bound_as_it_is() {
        let now = crate::test_clock();
        for is_reported in [false, true] {
            let mut events = LossEvents::default();
            for pn in (10..100_000).step_by(10) {
                events.on_ahead(now, pn, 5);
                if is_reported {
                    events.on_reported(now);
                }
                events.on_late(now, pn - 3);
                let holes = if is_reported { &events.reported } else { &events.holes };
                assert!(holes.len() <= MAX_WATCHED, "{} holes", holes.len());
            }
        }
    }
}
