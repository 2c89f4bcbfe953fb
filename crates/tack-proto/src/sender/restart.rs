//! How much may leave at once behind a pause of the application (TACK-6.4-4).
//!
//! Ten packets (RFC 9002 section 7.7), until the path shows that it holds fewer: the pictures of a
//! video come behind such pauses, and each would lose its end to a shallow buffer.

use std::ops::RangeInclusive;
use std::time::Instant;

use super::INITIAL_WINDOW_PACKETS;
use super::pacer::BURST;

/// The minimum window (RFC 9002 section 7.2).
const LEAST: u64 = 2;

/// Bursts without a loss behind which one more packet is tried. A path that loses one packet in a hundred by
/// itself is left all ten, one that loses one in ten two or three.
const BURSTS_TO_GROW: u32 = 8;

/// How much may leave at once behind a pause.
#[derive(Debug)]
pub(super) struct Restart {
    packets: u64,
    /// Bursts as long as allowed that arrived whole, since `packets` has changed.
    whole: u32,
    /// The last burst, while its outcome is not known.
    burst: Option<Burst>,
}

#[derive(Debug)]
struct Burst {
    until: Instant,
    numbers: RangeInclusive<u64>,
    allowed: u64,
}

impl Default for Restart {
    fn default() -> Self {
        Self { packets: INITIAL_WINDOW_PACKETS, whole: 0, burst: None }
    }
}

impl Restart {
    /// Packets that may leave at once.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The first packet behind a pause leaves.
    pub fn begin(&mut self, now: Instant, packet_number: u64) {
        self.burst = Some(Burst {
            until: now + BURST,
            numbers: packet_number..=packet_number,
            allowed: self.packets,
        });
    }

    /// A packet leaves.
    pub fn on_sent(&mut self, now: Instant, packet_number: u64) {
        if let Some(burst) = &mut self.burst {
            let first = *burst.numbers.start();
            if now <= burst.until && packet_number - first < burst.allowed {
                burst.numbers = first..=packet_number;
            }
        }
    }

    /// Packets were acknowledged, or found lost. `was_delivered` tells which, and nothing of those that are
    /// still on their way.
    pub fn on_acknowledgement(&mut self, was_delivered: impl Fn(u64) -> Option<bool>) {
        let Some(burst) = &self.burst else { return };
        let Some(last_arrived) = was_delivered(*burst.numbers.end()) else { return };
        let arrived =
            burst.numbers.clone().filter(|pn| was_delivered(*pn) == Some(true)).count();
        let arrived = arrived as u64;
        if last_arrived {
            self.whole += u32::from(arrived >= self.packets);
        } else {
            // A buffer that overflows loses the end of a burst; what a path loses by itself is
            // seldom just that. Half leaves room for what other flows have in the buffer.
            self.packets = self.packets.min((arrived / 2).max(LEAST));
            self.whole = 0;
        }
        if self.whole >= BURSTS_TO_GROW {
            self.packets = INITIAL_WINDOW_PACKETS.min(self.packets + 1);
            self.whole = 0;
        }
        self.burst = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock;

    /// Sends a burst of which the first `arriving` packets arrive.
    fn burst(restart: &mut Restart, arriving: u64) {
        let now = test_clock();
        restart.begin(now, 100);
        for pn in 101..100 + restart.packets() {
            restart.on_sent(now, pn);
        }
        restart.on_acknowledgement(|pn| Some(pn < 100 + arriving));
    }

    #[test]
    fn a_burst_that_loses_its_end_is_followed_by_one_of_half_of_what_arrived() {
        let mut restart = Restart::default();
        burst(&mut restart, 7);
        assert_eq!(restart.packets(), 3);
        burst(&mut restart, 0);
        assert_eq!(restart.packets(), LEAST);
    }

    #[test]
    fn a_loss_within_a_burst_says_nothing_of_the_buffer() {
        let mut restart = Restart::default();
        let now = test_clock();
        restart.begin(now, 0);
        (1..10).for_each(|pn| restart.on_sent(now, pn));
        restart.on_acknowledgement(|pn| Some(pn != 5));
        assert_eq!(restart.packets(), INITIAL_WINDOW_PACKETS);
    }

    #[test]
    fn bursts_that_arrive_grow_again_up_to_the_initial_window() {
        let mut restart = Restart::default();
        burst(&mut restart, 6);
        for _ in 0..BURSTS_TO_GROW {
            burst(&mut restart, 10);
        }
        assert_eq!(restart.packets(), 4);
        for _ in 0..20 * BURSTS_TO_GROW {
            burst(&mut restart, 10);
        }
        assert_eq!(restart.packets(), INITIAL_WINDOW_PACKETS);
    }

    #[test]
    fn what_leaves_later_or_is_still_on_its_way_is_not_judged() {
        let mut restart = Restart::default();
        let now = test_clock();
        restart.begin(now, 0);
        (1..5).for_each(|pn| restart.on_sent(now, pn));
        restart.on_sent(now + 2 * BURST, 5);
        restart.on_acknowledgement(|pn| (pn < 4).then_some(false));
        assert_eq!(restart.packets(), INITIAL_WINDOW_PACKETS);
        // 4 is the burst's last: that 5 was lost says nothing of it.
        restart.on_acknowledgement(|pn| Some(pn != 5));
        assert_eq!(restart.packets(), INITIAL_WINDOW_PACKETS);
    }
}
