//! Whether a path has stopped taking packets as long as it took (RFC 8899 section 4.3).

use super::sent_packets::PathOutcome;

/// BASE_PLPMTU: what every path takes (RFC 8899 section 5.1.2, RFC 9000 section 14), bytes of UDP payload.
pub(super) const BASE_PLPMTU: u32 = 1200;

/// Longer packets in a row that are lost on a path which may be a black hole. Random losses of one packet in two
/// look like that once in a million packets; then the size is validated again, which costs a round trip of
/// short packets.
const LOST_IN_A_ROW: u64 = 20;

/// What became of the packets that not every path takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlackHole {
    lost: u64,
}

impl BlackHole {
    /// An acknowledgement has changed something.
    pub fn on_outcome(&mut self, outcome: &PathOutcome) {
        if outcome.has_long_acked {
            self.lost = 0;
        } else {
            self.lost += outcome.long_lost;
        }
    }

    /// Whether the path may be one, as far as is known since the last answer that it may.
    pub fn take(&mut self) -> bool {
        let is_suspected = self.lost >= LOST_IN_A_ROW;
        if is_suspected {
            self.lost = 0;
        }
        is_suspected
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Harness, PACKET, RTT};
    use super::*;
    use crate::loss_detection::PACKET_THRESHOLD;

    /// Sends packets of which all that are long get lost, and as many short ones arrive as it takes to see that.
    fn lose_long_ones(harness: &mut Harness, count: u64) {
        let long = harness.send(count);
        let short = harness.send_short(PACKET_THRESHOLD);
        harness.pass(RTT);
        harness.tack(&[short], None).unwrap();
        assert!(u64::from(BASE_PLPMTU) < PACKET as u64);
        assert_eq!(harness.sender.was_delivered(*long.end()), Some(false));
    }

    #[test]
    fn a_path_that_takes_short_packets_alone_is_noticed() {
        // TACK-6.5-12
        let mut harness = Harness::new();
        lose_long_ones(&mut harness, LOST_IN_A_ROW - 1);
        assert!(!harness.sender.take_black_hole());
        lose_long_ones(&mut harness, 1);
        assert!(harness.sender.take_black_hole());
        assert!(!harness.sender.take_black_hole(), "once");
    }

    #[test]
    fn a_path_that_takes_one_long_packet_is_no_black_hole() {
        let mut harness = Harness::new();
        lose_long_ones(&mut harness, LOST_IN_A_ROW - 1);
        let long = harness.send(1);
        harness.pass(RTT);
        harness.tack(&[long], None).unwrap();
        lose_long_ones(&mut harness, LOST_IN_A_ROW - 1);
        assert!(!harness.sender.take_black_hole());
    }
}
