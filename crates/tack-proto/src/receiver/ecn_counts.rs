//! The ECN marks of received packets (RFC 9000 section 13.4.1).

use crate::ecn::EcnCodepoint;
use crate::frame::EcnCounts;

/// Counts the codepoints of the packets of a number space.
#[derive(Debug, Default)]
pub struct ReceivedMarks {
    counts: EcnCounts,
    /// The last packet came with CE.
    after_ce: bool,
}

impl ReceivedMarks {
    /// A packet was accepted that had not come before (TACK-4.6-1). Whether it is the first with CE
    /// behind one without: congestion has begun, or goes on.
    #[inline]
    pub fn on_packet(&mut self, codepoint: EcnCodepoint) -> bool {
        if codepoint == EcnCodepoint::NotEct && !self.after_ce {
            return false;
        }
        let EcnCounts { ect0, ect1, ce } = &mut self.counts;
        match codepoint {
            EcnCodepoint::NotEct => {}
            EcnCodepoint::Ect0 => *ect0 += 1,
            EcnCodepoint::Ect1 => *ect1 += 1,
            EcnCodepoint::Ce => *ce += 1,
        }
        let is_ce = codepoint == EcnCodepoint::Ce;
        let was_ce = std::mem::replace(&mut self.after_ce, is_ce);
        is_ce && !was_ce
    }

    /// What acknowledgements report; `None` before the first mark (TACK-4.6-2).
    pub fn counts(&self) -> Option<EcnCounts> {
        (self.counts != EcnCounts::default()).then_some(self.counts)
    }

    /// The totals.
    pub fn totals(&self) -> EcnCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EcnCodepoint::{Ce, Ect0, Ect1, NotEct};

    #[test]
    fn each_codepoint_has_its_total() {
        let mut marks = ReceivedMarks::default();
        marks.on_packet(NotEct);
        assert_eq!(marks.counts(), None);
        for codepoint in [Ect0, Ect0, Ect0, Ect1, Ect1, Ce] {
            marks.on_packet(codepoint);
        }
        assert_eq!(marks.counts(), Some(EcnCounts { ect0: 3, ect1: 2, ce: 1 }));
    }

    #[test]
    fn congestion_begins_with_each_ce_behind_a_packet_without() {
        let mut marks = ReceivedMarks::default();
        let begins =
            [Ect1, Ce, Ce, NotEct, Ce, Ect1, Ect1, Ce].map(|mark| marks.on_packet(mark));
        assert_eq!(begins, [false, true, false, false, true, false, false, true]);
    }
}
