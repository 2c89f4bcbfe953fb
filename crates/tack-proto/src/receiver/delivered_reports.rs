//! Which reports the sender is known to have: those that left in packets which it has acknowledged (RFC 9000 section
//! 13.2.4, TACK-4.1-6).

use std::collections::VecDeque;

/// Reports that are waited for. With more of them under way the oldest are forgotten: what they report is repeated.
const MOST: usize = 16;

/// A report under way.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// The ack-eliciting packet that it left in.
    carrier: u64,
    /// It names everything received up to this number that the sender is not known to have heard of.
    largest: u64,
}

/// How far the sender is known to have heard.
#[derive(Debug, Default)]
pub struct DeliveredReports {
    /// Written, and not yet in a packet that has left.
    written: Option<u64>,
    /// Those under way, in the order in which they left.
    sent: VecDeque<Report>,
    known: Option<u64>,
}

impl DeliveredReports {
    /// Whether the sender is known to have heard what has become of the numbers up to this one.
    pub fn covers(&self, packet_number: u64) -> bool {
        self.known.is_some_and(|known| packet_number <= known)
    }

    /// An acknowledgement has been written: one that reports everything up to `largest`, or one that shows nothing.
    pub fn on_written(&mut self, largest: Option<u64>) {
        self.written = largest;
    }

    /// A packet has left with what was written last, if that has not left before; its number, if it is ack-eliciting.
    pub fn on_packet_sent(&mut self, carrier: Option<u64>) {
        let Some((largest, carrier)) = self.written.take().zip(carrier) else { return };
        if self.sent.len() == MOST {
            self.sent.pop_front();
        }
        self.sent.push_back(Report { carrier, largest });
    }

    /// Packets have been acknowledged; `was_delivered` tells of one what has become of it.
    pub fn on_acknowledgement(&mut self, was_delivered: impl Fn(u64) -> Option<bool>) {
        let newest =
            self.sent.iter().rposition(|report| was_delivered(report.carrier) == Some(true));
        if let Some(newest) = newest {
            self.known = self.known.max(Some(self.sent[newest].largest));
            self.sent.drain(..=newest);
        }
    }

    /// A number has come behind a larger one: no report that passes it has named it.
    pub fn on_late(&mut self, packet_number: u64) {
        self.written = self.written.filter(|largest| *largest < packet_number);
        self.sent.retain(|report| report.largest < packet_number);
        if self.covers(packet_number) {
            self.known = packet_number.checked_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports up to 9, 19 and 29 have left in the packets 1, 2 and 3.
    fn three() -> DeliveredReports {
        let mut reports = DeliveredReports::default();
        for carrier in 1..=3 {
            reports.on_written(Some(carrier * 10 - 1));
            reports.on_packet_sent(Some(carrier));
        }
        reports
    }

    #[test]
    fn a_report_counts_once_its_packet_is_acknowledged_and_so_do_those_before_it() {
        let mut reports = three();
        assert!(!reports.covers(0));
        reports.on_acknowledgement(|carrier| Some(carrier == 2));
        assert!(reports.covers(19) && !reports.covers(20));
        reports.on_acknowledgement(|carrier| (carrier == 1).then_some(true));
        assert!(reports.covers(19), "an older one takes nothing back");
        reports.on_acknowledgement(|_| Some(true));
        assert!(reports.covers(29) && !reports.covers(30));
    }

    #[test]
    fn one_in_a_packet_that_nobody_acknowledges_never_counts() {
        let mut reports = DeliveredReports::default();
        reports.on_written(Some(9));
        reports.on_packet_sent(None);
        reports.on_packet_sent(Some(7));
        reports.on_acknowledgement(|_| Some(true));
        assert!(!reports.covers(0));
    }

    #[test]
    fn one_whose_packet_never_left_says_nothing_of_the_next() {
        let mut reports = DeliveredReports::default();
        reports.on_written(Some(9));
        reports.on_written(None);
        reports.on_packet_sent(Some(7));
        reports.on_acknowledgement(|_| Some(true));
        assert!(!reports.covers(0));
    }

    #[test]
    fn what_comes_late_is_in_none_that_passes_it() {
        let mut reports = three();
        reports.on_acknowledgement(|carrier| Some(carrier == 1));
        reports.on_late(15);
        reports.on_acknowledgement(|_| Some(true));
        assert!(reports.covers(9) && !reports.covers(10));
        reports.on_late(5);
        assert!(reports.covers(4) && !reports.covers(5));
        reports.on_late(0);
        assert!(!reports.covers(0));
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_is_remembered_by_its_last_reports_alone() {
        let mut reports = DeliveredReports::default();
        for carrier in 0..1000 {
            reports.on_written(Some(carrier));
            reports.on_packet_sent(Some(carrier));
        }
        assert_eq!(reports.sent.len(), MOST);
    }
}
