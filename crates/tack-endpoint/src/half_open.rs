//! How many clients a server lets begin a handshake without a Retry.
//!
//! The address that such a handshake is begun from may be forged (RFC 9000 section 8.1), and one packet may end it: a
//! limit on those that go on would bound nothing. So each takes its place for as long as a handshake may last,
//! whatever becomes of the connection, unless it completes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// How long a connection that has ended counts where a handshake may last for ever.
const WITHOUT_TIMEOUT: Duration = Duration::from_secs(10);

/// The places of one server, or of one of its workers.
pub(crate) struct HalfOpen {
    limit: usize,
    /// Connections in their handshake.
    connections: usize,
    /// Until when those count that ended before: never more than the limit.
    ended: BinaryHeap<Reverse<Instant>>,
}

impl HalfOpen {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, connections: 0, ended: BinaryHeap::new() }
    }

    /// Until when a connection counts that a client opens now.
    pub(crate) fn counts_until(now: Instant, handshake_timeout: Duration) -> Option<Instant> {
        now.checked_add(handshake_timeout).or_else(|| now.checked_add(WITHOUT_TIMEOUT))
    }

    /// Whether one more may begin its handshake without a Retry.
    pub(crate) fn has_room(&self) -> bool {
        self.connections.saturating_add(self.ended.len()) < self.limit
    }

    pub(crate) fn on_opened(&mut self) {
        self.connections += 1;
    }

    pub(crate) fn on_established(&mut self) {
        self.connections -= 1;
    }

    /// One has ended before its handshake was done; it counts until the time given.
    pub(crate) fn on_failed(&mut self, until: Option<Instant>) {
        self.connections -= 1;
        if let Some(until) = until
            && self.ended.len() < self.limit
        {
            self.ended.push(Reverse(until));
        }
    }

    /// Gives up the places whose time is over.
    pub(crate) fn on_time(&mut self, now: Instant) {
        while self.ended.peek().is_some_and(|Reverse(until)| *until <= now) {
            self.ended.pop();
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_handshake_that_completes_makes_room_at_once_and_one_that_fails_after_its_time() {
        let start = Instant::now();
        let until = HalfOpen::counts_until(start, 5 * SECOND);
        let mut half_open = HalfOpen::new(2);
        half_open.on_opened();
        half_open.on_opened();
        assert!(!half_open.has_room());
        half_open.on_failed(until);
        assert!(!half_open.has_room());
        half_open.on_established();
        assert!(half_open.has_room());
        half_open.on_opened();
        half_open.on_time(start + 4 * SECOND);
        assert!(!half_open.has_room());
        half_open.on_time(start + 5 * SECOND);
        assert!(half_open.has_room());
    }

    #[test]
    fn a_client_that_has_proven_its_address_makes_room_when_it_fails() {
        let mut half_open = HalfOpen::new(1);
        half_open.on_opened();
        half_open.on_failed(None);
        assert!(half_open.has_room());
    }

    #[test]
    fn places_are_given_up_in_the_order_of_their_times_whichever_connection_ends_first() {
        let start = Instant::now();
        let mut half_open = HalfOpen::new(3);
        for seconds in [3, 1, 2] {
            half_open.on_opened();
            half_open.on_failed(Some(start + seconds * SECOND));
        }
        for seconds in 1..=3 {
            half_open.on_time(start + seconds * SECOND);
            assert_eq!(half_open.ended.len(), 3 - seconds as usize);
        }
    }

    #[test]
    fn no_more_is_kept_of_connections_that_have_ended_than_there_are_places() {
        let start = Instant::now();
        for limit in [0, 3] {
            let mut half_open = HalfOpen::new(limit);
            for _ in 0..1000 {
                half_open.on_opened();
                half_open.on_failed(Some(start + SECOND));
            }
            assert_eq!(half_open.ended.len(), limit);
        }
    }

    #[test]
    fn one_that_has_ended_does_not_count_for_ever_where_a_handshake_may_last_so_long() {
        let start = Instant::now();
        let until = HalfOpen::counts_until(start, Duration::MAX);
        assert_eq!(until, Some(start + WITHOUT_TIMEOUT));
    }
}
