//! When no packet arrives from a peer for longer than an acknowledgement takes: an outage of the path.

use std::time::{Duration, Instant};

/// How long an acknowledgement may take beside the round trip.
const HELD: Duration = Duration::from_millis(100);

/// Packets that have come from one peer and left for it.
#[derive(Debug)]
pub(crate) struct Quiet {
    received: usize,
    /// Packets that had left when the last one came.
    sent: usize,
    /// When the first packet left that nothing has come behind.
    unanswered_since: Option<Instant>,
    lasts: bool,
    until: Option<Instant>,
}

impl Quiet {
    /// Nothing has come or left yet.
    pub fn new() -> Self {
        Self { received: 0, sent: 0, unanswered_since: None, lasts: false, until: None }
    }

    /// Counts the packets that have come and left in all, on a path with that round trip. Returns whether it was quiet
    /// and is no more. To be called often.
    ///
    /// Silence counts from the first packet sent behind the last one that came: a peer that is sent nothing has nothing
    /// to acknowledge.
    pub fn update(
        &mut self,
        now: Instant,
        received: usize,
        sent: usize,
        round_trip: Duration,
    ) -> bool {
        let was_quiet = self.lasts;
        if received != self.received {
            (self.received, self.sent) = (received, sent);
            (self.unanswered_since, self.lasts) = (None, false);
        } else if sent != self.sent {
            let since = *self.unanswered_since.get_or_insert(now);
            if now >= since + round_trip + HELD {
                self.lasts = true;
                self.until = Some(now);
            }
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

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_peer_is_quiet_from_a_round_trip_and_the_hold_of_an_acknowledgement_on() {
        let start = Instant::now();
        let mut quiet = Quiet::new();
        assert!(!quiet.update(start + 90 * MS, 1, 1, 40 * MS));
        assert!(!quiet.update(start + 100 * MS, 1, 2, 40 * MS));
        assert!(!quiet.update(start + 239 * MS, 1, 3, 40 * MS));
        assert!(!quiet.is_quiet() && quiet.until().is_none());
        assert!(!quiet.update(start + 240 * MS, 1, 3, 40 * MS));
        assert!(quiet.is_quiet());
        assert!(quiet.update(start + 300 * MS, 2, 3, 40 * MS));
        assert!(!quiet.is_quiet());
        assert_eq!(quiet.until(), Some(start + 240 * MS));
    }

    #[test]
    fn a_peer_that_is_sent_nothing_is_not_quiet() {
        let start = Instant::now();
        let mut quiet = Quiet::new();
        quiet.update(start, 1, 1, 40 * MS);
        quiet.update(start + 5000 * MS, 1, 1, 40 * MS);
        assert!(!quiet.is_quiet());
        quiet.update(start + 5000 * MS, 1, 2, 40 * MS);
        assert!(!quiet.is_quiet(), "it may still answer");
    }
}
