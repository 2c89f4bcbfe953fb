//! Reordering that elicits an acknowledgement at once, for a peer that knows
//! nothing of TACK: draft-ietf-quic-ack-frequency-14 section 6.2. Between TACK
//! peers loss events take its place.

use super::ReceivedPackets;

/// Follows what acknowledgements have reported, and finds what would be lost
/// to the peer without its knowing.
#[derive(Debug)]
pub struct Reordering {
    /// Reordering Threshold: 0 is never, 1 the rule of RFC 9000.
    threshold: u64,
    /// "Largest Unacked": the largest ack-eliciting number received.
    largest_eliciting: Option<u64>,
    /// "Largest Acked": the largest number that an acknowledgement has named.
    largest_acked: Option<u64>,
}

impl Default for Reordering {
    fn default() -> Self {
        Self { threshold: 1, largest_eliciting: None, largest_acked: None }
    }
}

impl Reordering {
    /// Sets the Reordering Threshold.
    pub fn set_threshold(&mut self, threshold: u64) {
        self.threshold = threshold;
    }

    /// Ack-eliciting packet `pn` is new and in the received; whether it is to be
    /// acknowledged at once.
    pub fn on_ack_eliciting(&mut self, pn: u64, received: &ReceivedPackets) -> bool {
        let is_late = self.largest_eliciting.is_some_and(|largest| pn < largest);
        self.largest_eliciting = self.largest_eliciting.max(Some(pn));
        match self.threshold {
            0 => false,
            // RFC 9000 section 13.2.1: any packet below another that elicits
            // acknowledgements. At a greater threshold only one that the peer
            // has taken for lost.
            1 => is_late || self.reveals_loss(received),
            _ => self.is_reported_missing(pn) || self.reveals_loss(received),
        }
    }

    /// An acknowledgement up to `largest` has left.
    pub fn on_acknowledged(&mut self, largest: Option<u64>) {
        self.largest_acked = self.largest_acked.max(largest);
    }

    /// Whether the smallest "Unreported Missing" number is at least the
    /// threshold below the largest ack-eliciting one: the peer can take it for
    /// lost once it hears of the latter.
    fn reveals_loss(&self, received: &ReceivedPackets) -> bool {
        let first_unreported = self.largest_reported_missing().map_or(0, |largest| largest + 1);
        received
            .first_missing_from(first_unreported)
            .zip(self.largest_eliciting)
            .is_some_and(|(missing, largest)| largest >= missing.saturating_add(self.threshold))
    }

    fn is_reported_missing(&self, pn: u64) -> bool {
        self.largest_reported_missing().is_some_and(|largest| pn <= largest)
    }

    /// "Largest Reported Missing": the largest number that the peer can have
    /// taken for lost.
    fn largest_reported_missing(&self) -> Option<u64> {
        self.largest_acked?.checked_sub(self.threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packets of `arrivals` that are acknowledged at once, where nothing
    /// else makes the receiver acknowledge.
    fn acknowledged(threshold: u64, arrivals: &[u64]) -> Vec<u64> {
        let (mut reordering, mut received) =
            (Reordering::default(), ReceivedPackets::default());
        reordering.set_threshold(threshold);
        let mut acknowledged = Vec::new();
        for &pn in arrivals {
            received.insert(pn);
            if reordering.on_ack_eliciting(pn, &received) {
                reordering.on_acknowledged(received.largest());
                acknowledged.push(pn);
            }
        }
        acknowledged
    }

    #[test]
    fn a_threshold_of_three_acts_as_in_the_drafts_first_table() {
        assert_eq!(acknowledged(3, &[0, 1, 3, 4, 5, 8, 9, 10]), [5, 9, 10]);
    }

    #[test]
    fn a_threshold_of_five_acts_as_in_the_drafts_second_table() {
        assert_eq!(acknowledged(5, &[0, 1, 3, 5, 6, 7, 8, 9]), [7, 9]);
    }

    #[test]
    fn a_threshold_of_one_means_every_gap_and_every_late_packet() {
        assert_eq!(acknowledged(1, &[0, 1, 3, 4, 6, 2, 7, 5, 8]), [3, 6, 2, 5]);
    }

    #[test]
    fn a_threshold_of_zero_means_never() {
        assert_eq!(acknowledged(0, &[0, 9, 4, 30, 1]), []);
    }

    #[test]
    fn a_packet_that_the_peer_has_taken_for_lost_is_acknowledged_at_once() {
        // 5 told the peer that 2 is lost; 4 came late, but within the window.
        assert_eq!(acknowledged(3, &[0, 1, 3, 5, 4, 2]), [5, 2]);
    }

    #[test]
    fn a_gap_beyond_the_threshold_is_acknowledged_at_its_far_end() {
        assert_eq!(acknowledged(3, &[0, 9]), [9]);
        assert_eq!(acknowledged(u64::MAX, &[0, 9]), []);
    }

    #[test]
    fn an_acknowledgement_for_another_reason_reports_the_gap_as_well() {
        let (mut reordering, mut received) =
            (Reordering::default(), ReceivedPackets::default());
        reordering.set_threshold(3);
        for pn in [0, 2, 3] {
            received.insert(pn);
            assert!(!reordering.on_ack_eliciting(pn, &received));
        }
        received.insert(4); // it elicits none, but is in the next
        reordering.on_acknowledged(Some(4));
        received.insert(5);
        assert!(!reordering.on_ack_eliciting(5, &received), "1 is three below 4");
    }
}
