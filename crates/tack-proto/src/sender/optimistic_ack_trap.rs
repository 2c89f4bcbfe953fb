//! A trap for optimistic acknowledgements (RFC 9000 section 21.4, TACK-5.6-1).
//!
//! The sender skips a packet number now and then. A receiver that acknowledges
//! what it has not received acknowledges a skipped number sooner or later, which
//! no honest receiver can, and the connection is closed.
//!
//! What such a receiver gains until then depends on the distance between two
//! skipped numbers. They are at most two windows apart, where a window is what
//! can be in flight within a round trip: a lie about a round trip's packets
//! meets one within two round trips, and its acknowledgement takes a third. On
//! short windows no fewer would do, and on long ones more would only draw IACKs:
//! each skipped number is a hole to the receiver. The distance is random within the
//! upper half of that, or the receiver would know which numbers to leave out.

/// Packets between two skipped numbers at most: two of the longest windows that the QUIC stack
/// below allows.
const MAX_DISTANCE: u64 = 40_000;

/// Windows between two skipped numbers at most.
const WINDOWS: u64 = 2;

/// Decides which numbers to skip.
#[derive(Clone, Copy, Debug)]
pub struct OptimisticAckTrap {
    random: u64,
    /// The number that distances count from.
    last: Option<u64>,
    /// Packets that could be in flight within a round trip then.
    window: u64,
    /// From this number on the next is skipped.
    next: u64,
}

impl OptimisticAckTrap {
    /// Nothing has been skipped; `random` decides on the first distance.
    pub fn new(random: u64) -> Self {
        Self { random, last: None, window: 0, next: u64::MAX }
    }

    /// The first packet has left, when `window` packets may be in flight.
    pub fn on_first_sent(&mut self, packet_number: u64, window: u64) {
        if self.last.is_none() {
            self.restart(packet_number, window);
        }
    }

    /// A number has been skipped; `random` decides on the distance to the next.
    pub fn on_skipped(&mut self, packet_number: u64, random: u64, window: u64) {
        self.random = random;
        self.restart(packet_number, window);
    }

    /// Follows a window that shrinks. One that grows does not defer what was planned.
    pub fn set_window(&mut self, window: u64) {
        if window < self.window
            && let Some(last) = self.last
        {
            self.restart(last, window);
        }
    }

    /// Whether the number that comes next is to be skipped.
    pub fn wants_skip(&self, next_packet_number: u64) -> bool {
        next_packet_number >= self.next
    }

    fn restart(&mut self, packet_number: u64, window: u64) {
        self.window = window;
        self.last = Some(packet_number);
        let longest = window.saturating_mul(WINDOWS).clamp(2, MAX_DISTANCE);
        let shortest = longest / 2;
        self.next = packet_number + shortest + self.random % (longest - shortest + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(window: u64, random: u64) -> u64 {
        let mut trap = OptimisticAckTrap::new(0);
        trap.on_skipped(100, random, window);
        (101..10_000).find(|number| trap.wants_skip(*number)).unwrap() - 100
    }

    #[test]
    fn distances_lie_between_one_window_and_two() {
        for (window, shortest, longest) in [(4, 4, 8), (100, 100, 200), (1_000, 1_000, 2_000)] {
            let all: Vec<_> = (0..10_000).map(|random| distance(window, random)).collect();
            assert_eq!(all.iter().min(), Some(&shortest), "{window}");
            assert_eq!(all.iter().max(), Some(&longest), "{window}");
        }
    }

    #[test]
    fn a_window_that_shrinks_shortens_the_distance_and_one_that_grows_does_not_stretch_it() {
        let mut trap = OptimisticAckTrap::new(0);
        trap.on_skipped(0, u64::MAX, 100);
        assert!(!trap.wants_skip(99));
        trap.set_window(10);
        assert!(trap.wants_skip(20));
        trap.set_window(1000);
        assert!(trap.wants_skip(20));
    }

    #[test]
    fn nothing_is_skipped_before_the_first_packet_has_left() {
        let mut trap = OptimisticAckTrap::new(0);
        trap.set_window(10);
        assert!(!trap.wants_skip(1_000));
        trap.on_first_sent(7, 10);
        assert!(!trap.wants_skip(16));
        assert!(trap.wants_skip(17));
    }
}
