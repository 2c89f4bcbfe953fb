//! Losses on a path that the connection has left.
//!
//! What: one PING leaves last on a path that is left, and once newer packet numbers are acknowledged
//! quiche is told that it has arrived. Why: quiche (0.30) looks for losses on each path by itself, below
//! the largest acknowledged number that was sent *there*. What was lost behind that when the path was
//! left is never sent again: an expired timer repeats the oldest two packets, and the same two each
//! time. But there is one packet number space (RFC 9000 section 12.3), and what is acknowledged on the
//! new path tells as much. The PING need not have arrived: a PING is not sent again if it is lost.
//! Upstream: not reported. To delete: when quiche declares losses over all paths of a number space.

use tack_packet::TAG_LEN;
use tack_proto::loss_detection::PACKET_THRESHOLD;

/// Room for a packet with a PING and no other frame that it would matter to lose: the header, the tag, and the
/// four bytes that quiche fills packets up to at least.
pub const fn ping_packet_len(dcid_len: usize) -> usize {
    1 + dcid_len + 4 + TAG_LEN + 4
}

/// The PINGs that have left last on paths since left, until quiche was told of them.
#[derive(Debug, Default)]
pub struct FlushPings(Vec<u64>);

/// Paths that a connection leaves between two acknowledgements; older ones are forgotten.
const MAX_PINGS: usize = 64;

impl FlushPings {
    /// A PING has left last on a path.
    pub fn on_sent(&mut self, packet_number: u64) {
        if self.0.len() == MAX_PINGS {
            self.0.remove(0);
        }
        self.0.push(packet_number);
    }

    /// The numbers that quiche is to take for acknowledged where `largest_acked` is.
    pub fn overtaken_by(&self, largest_acked: u64) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied().filter(move |pn| pn + PACKET_THRESHOLD <= largest_acked)
    }

    /// quiche was told of them.
    pub fn forget_overtaken(&mut self, largest_acked: u64) {
        self.0.retain(|pn| pn + PACKET_THRESHOLD > largest_acked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_counts_as_arrived_when_three_newer_packets_are_acknowledged_and_only_once() {
        let mut pings = FlushPings::default();
        pings.on_sent(10);
        assert_eq!(pings.overtaken_by(12).count(), 0);
        assert_eq!(pings.overtaken_by(13).collect::<Vec<_>>(), [10]);
        pings.forget_overtaken(13);
        assert_eq!(pings.overtaken_by(100).count(), 0);
    }

    #[test]
    fn paths_that_are_left_within_a_round_trip_are_remembered_and_not_without_bound() {
        let mut pings = FlushPings::default();
        (0..40).for_each(|pn| pings.on_sent(pn));
        assert_eq!(pings.overtaken_by(100).count(), 40);
        (40..1000).for_each(|pn| pings.on_sent(pn));
        assert_eq!(pings.overtaken_by(10_000).count(), MAX_PINGS);
    }
}
