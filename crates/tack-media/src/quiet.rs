//! When no packet arrives from a peer for longer than an acknowledgement takes: an outage of the path.

use std::time::{Duration, Instant};

/// How long an acknowledgement may take beside the round trip.
const HELD: Duration = Duration::from_millis(100);

/// What was heard of one peer.
#[derive(Debug)]
pub(crate) struct Quiet {
    packets: usize,
    heard: Instant,
    lasts: bool,
    until: Option<Instant>,
}

impl Quiet {
    /// Something has just come.
    pub fn new(now: Instant) -> Self {
        Self { packets: 0, heard: now, lasts: false, until: None }
    }

    /// So many packets have come in all, on a path with that round trip. Whether it was quiet and is no more. To be
    /// called often.
    pub fn update(&mut self, now: Instant, packets: usize, round_trip: Duration) -> bool {
        let was_quiet = self.lasts;
        if packets != self.packets {
            (self.packets, self.heard, self.lasts) = (packets, now, false);
        } else if now >= self.heard + round_trip + HELD {
            self.lasts = true;
            self.until = Some(now);
        }
        was_quiet && !self.lasts
    }

    /// Whether nothing has come for longer than an acknowledgement takes.
    pub fn is_quiet(&self) -> bool {
        self.lasts
    }

    /// When that was so last.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_quiet_from_a_round_trip_and_the_hold_of_an_acknowledgement_on() {
        const MS: Duration = Duration::from_millis(1);
        let start = Instant::now();
        let mut quiet = Quiet::new(start);
        assert!(!quiet.update(start + 100 * MS, 1, 40 * MS));
        assert!(!quiet.update(start + 239 * MS, 1, 40 * MS));
        assert!(!quiet.is_quiet() && quiet.until().is_none());
        assert!(!quiet.update(start + 240 * MS, 1, 40 * MS));
        assert!(quiet.is_quiet());
        assert!(quiet.update(start + 300 * MS, 2, 40 * MS));
        assert!(!quiet.is_quiet());
        assert_eq!(quiet.until(), Some(start + 240 * MS));
    }
}
