//! Whether path and peer can be relied on to mark and to report (RFC 9000 section 13.4.2 and
//! appendix A.4).
//!
//! The receiver counts over all paths, so the totals that its claims are held against are those of
//! the number space ([`MarkRecord`]); the verdict is one path's ([`EcnValidation`]). Claims that do
//! not fit stop the marks and are no error: path and peer look alike from here.

use std::time::{Duration, Instant};

use crate::ecn::{Ecn, EcnCodepoint, EcnState};
use crate::frame::EcnCounts;

/// Marked packets of a test (RFC 9000 section 13.4.2, TACK-5.8-1).
const TEST_PACKETS: u64 = 10;

/// Probe timeouts that a test lasts at most (the same section).
const TEST_TIMEOUTS: u32 = 3;

/// Packets of which not all may have CE, where they have left over so many probe timeouts (TACK-5.8-4). An L4S queue
/// that another flow keeps at its threshold marks all of a test, which is a burst, and of Startup behind it; it leaves
/// some alone once the flow has answered.
const MOST_MARKED: u64 = 100;
const MARKED_TIMEOUTS: u32 = 5;

/// Probe timeouts in a row after which the marks may be the cause of the silence (TACK-5.8-5).
const SILENT_TIMEOUTS: u32 = 2;

/// What was marked in the number space, and what the peer has reported of it.
#[derive(Debug, Default)]
pub(super) struct MarkRecord {
    /// Packets sent with each codepoint.
    sent: EcnCounts,
    /// By how much the counts from which it last began anew were above those: of each codepoint, and in all.
    beyond: EcnCounts,
    all_beyond: u64,
    /// The newest counts.
    reported: EcnCounts,
}

impl MarkRecord {
    pub fn on_sent(&mut self, codepoint: EcnCodepoint) {
        match codepoint {
            EcnCodepoint::Ect0 => self.sent.ect0 += 1,
            EcnCodepoint::Ect1 => self.sent.ect1 += 1,
            EcnCodepoint::NotEct | EcnCodepoint::Ce => {}
        }
    }

    /// Packets reported as CE since the last report, if the counts can be true where this has newly
    /// acknowledged so many marked packets (TACK-5.8-3).
    fn newly_ce(&self, counts: EcnCounts, newly_acked: u64) -> Option<u64> {
        let Self { sent, beyond, all_beyond, reported } = self;
        let is_possible = counts.ect0.saturating_sub(beyond.ect0) <= sent.ect0
            && counts.ect1.saturating_sub(beyond.ect1) <= sent.ect1
            && total(counts).saturating_sub(*all_beyond) <= total(*sent)
            && counts.ect0 >= reported.ect0
            && counts.ect1 >= reported.ect1;
        let newly_ce = counts.ce.checked_sub(reported.ce)?;
        let newly_reported = total(counts).checked_sub(total(*reported))?;
        (is_possible && newly_reported >= newly_acked).then_some(newly_ce)
    }

    /// Begins anew from counts that nothing is concluded from: what a path has spoilt must not be
    /// held against the next one. What a peer has claimed and taken back is not believed there either.
    fn begin_anew(&mut self, counts: EcnCounts) {
        self.reported = counts;
        let Self { sent, beyond, all_beyond, .. } = self;
        beyond.ect0 = counts.ect0.saturating_sub(sent.ect0);
        beyond.ect1 = counts.ect1.saturating_sub(sent.ect1);
        *all_beyond = total(counts).saturating_sub(total(*sent));
    }
}

/// The sum of the counts. Each has 62 bits.
const fn total(counts: EcnCounts) -> u64 {
    counts.ect0.saturating_add(counts.ect1).saturating_add(counts.ce)
}

/// What an acknowledgement says of marked packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MarkedPackets {
    /// Newly acknowledged.
    pub acked: u64,
    /// Taken out of flight, acknowledged or lost.
    pub landed: u64,
}

/// The state of one path.
#[derive(Debug)]
pub(super) struct EcnValidation {
    setting: Ecn,
    state: EcnState,
    /// Packets that the test has marked, and its end.
    tested: u64,
    test_ends: Option<Instant>,
    /// From then on not all that has arrived may have CE.
    some_unmarked: Option<Instant>,
    /// Marked packets that elicit acknowledgements and are on their way.
    in_flight: u64,
    /// Since the test began or was repeated: marked packets that were acknowledged, and those
    /// reported as CE.
    acked: u64,
    ce: u64,
    silent_timeouts: u32,
}

impl EcnValidation {
    /// A path whose packets are to be marked so. It begins with a test.
    pub fn new(setting: Ecn) -> Self {
        let state = if setting == Ecn::Off { EcnState::Off } else { EcnState::Testing };
        Self {
            setting,
            state,
            tested: 0,
            test_ends: None,
            some_unmarked: None,
            in_flight: 0,
            acked: 0,
            ce: 0,
            silent_timeouts: 0,
        }
    }

    pub fn state(&self) -> EcnState {
        self.state
    }

    /// Data goes over the path again. A test that was interrupted is repeated.
    pub fn enter(&mut self) {
        self.in_flight = 0;
        if matches!(self.state, EcnState::Testing | EcnState::Unknown) {
            *self = Self::new(self.setting);
        }
    }

    /// The codepoint of a packet that leaves now (TACK-5.8-1, TACK-5.8-2).
    pub fn on_sent(
        &mut self,
        now: Instant,
        ack_eliciting: bool,
        probe_timeout: Duration,
    ) -> EcnCodepoint {
        match self.state {
            EcnState::Off | EcnState::Failed | EcnState::Unknown => {
                return EcnCodepoint::NotEct;
            }
            EcnState::Capable => {}
            EcnState::Testing => {
                let ends = now + TEST_TIMEOUTS * probe_timeout;
                self.some_unmarked.get_or_insert(now + MARKED_TIMEOUTS * probe_timeout);
                if now > *self.test_ends.get_or_insert(ends) {
                    self.state = EcnState::Unknown;
                    return EcnCodepoint::NotEct;
                }
                self.tested += u64::from(ack_eliciting);
                if self.tested == TEST_PACKETS {
                    self.state = EcnState::Unknown;
                }
            }
        }
        self.in_flight += u64::from(ack_eliciting);
        self.setting.codepoint()
    }

    /// An acknowledgement has been applied. `all` are the marked packets of the number space,
    /// `current` those of this path; `proves` tells that its largest number is above all before: RFC 9000
    /// section 13.4.2.1 has no verdict follow from others.
    /// Returns how many packets it newly reports as CE; none unless they can be relied on.
    pub fn on_acknowledged(
        &mut self,
        now: Instant,
        record: &mut MarkRecord,
        all: MarkedPackets,
        current: MarkedPackets,
        counts: Option<EcnCounts>,
        proves: bool,
    ) -> u64 {
        if self.state == EcnState::Off {
            return 0;
        }
        self.in_flight = self.in_flight.saturating_sub(current.landed);
        self.acked += current.acked;
        if current.acked > 0 {
            self.silent_timeouts = 0;
        }
        let newly_ce = match counts {
            Some(counts) if proves => self.judge(record, all, current, counts),
            None if proves && current.acked > 0 => {
                // TACK-5.8-3: the peer does not report.
                self.state = EcnState::Failed;
                0
            }
            _ => 0,
        };
        self.end_test(now, counts.is_some() && proves);
        if self.state == EcnState::Capable { newly_ce } else { 0 }
    }

    fn judge(
        &mut self,
        record: &mut MarkRecord,
        all: MarkedPackets,
        current: MarkedPackets,
        counts: EcnCounts,
    ) -> u64 {
        let newly_ce = record.newly_ce(counts, all.acked);
        if let Some(newly_ce) = newly_ce.filter(|_| self.state != EcnState::Failed) {
            record.reported = counts;
            self.ce += newly_ce;
            return newly_ce;
        }
        // What acknowledges packets of other paths alone says nothing of this one.
        if current.acked > 0 || all.acked == 0 {
            self.state = EcnState::Failed;
        }
        record.begin_anew(counts);
        0
    }

    /// Draws the conclusion of a test (TACK-5.8-4).
    fn end_test(&mut self, now: Instant, is_validated: bool) {
        let has_landed = self.in_flight == 0;
        let is_marked =
            self.ce >= self.acked && self.some_unmarked.is_some_and(|from| now >= from);
        self.state = match (self.state, self.acked) {
            // A path that sets CE in all of them does so whatever its load.
            (EcnState::Unknown | EcnState::Capable, MOST_MARKED..) if is_marked => {
                EcnState::Failed
            }
            // None has arrived: the path drops what is marked.
            (EcnState::Unknown, 0) if has_landed && self.tested > 0 => EcnState::Failed,
            (EcnState::Unknown, 1..) if is_validated => EcnState::Capable,
            (state, _) => state,
        };
    }

    /// The probe timer (RFC 9002 section 6.2) has expired: nothing arrives, it may be for the marks
    /// (TACK-5.8-5).
    pub fn on_probe_timeout(&mut self) {
        let is_marking = matches!(self.state, EcnState::Testing | EcnState::Capable);
        // Where nothing marked is on its way, the marks are not the cause.
        if !is_marking || self.in_flight == 0 {
            return;
        }
        self.silent_timeouts += 1;
        if self.silent_timeouts >= SILENT_TIMEOUTS {
            self.silent_timeouts = 0;
            // The packets in flight are the test.
            (self.acked, self.ce) = (0, 0);
            self.state = EcnState::Unknown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TIMEOUT: Duration = Duration::from_millis(100);

    /// A path, and what is in flight there.
    struct Path {
        validation: EcnValidation,
        record: MarkRecord,
        now: Instant,
    }

    impl Path {
        fn new(setting: Ecn) -> Self {
            let now = crate::test_clock();
            Self { validation: EcnValidation::new(setting), record: MarkRecord::default(), now }
        }

        /// Sends so many packets; how many were marked.
        fn send(&mut self, count: u64) -> u64 {
            let mut marked = 0;
            for _ in 0..count {
                let codepoint = self.validation.on_sent(self.now, true, TIMEOUT);
                self.record.on_sent(codepoint);
                marked += u64::from(codepoint != EcnCodepoint::NotEct);
            }
            marked
        }

        /// So many marked packets are newly acknowledged, with these totals of ECT(0), ECT(1)
        /// and CE. Returns what counts as CE.
        fn ack(&mut self, acked: u64, counts: Option<[u64; 3]>) -> u64 {
            self.ack_of(acked, acked, counts, true)
        }

        fn ack_of(
            &mut self,
            all: u64,
            current: u64,
            counts: Option<[u64; 3]>,
            proves: bool,
        ) -> u64 {
            let of = |count| MarkedPackets { acked: count, landed: count };
            let counts = counts.map(|[ect0, ect1, ce]| EcnCounts { ect0, ect1, ce });
            let Self { validation, record, now } = self;
            validation.on_acknowledged(*now, record, of(all), of(current), counts, proves)
        }

        fn lose(&mut self, count: u64) {
            let lost = MarkedPackets { acked: 0, landed: count };
            self.validation.on_acknowledged(self.now, &mut self.record, lost, lost, None, true);
        }

        fn state(&self) -> EcnState {
            self.validation.state()
        }
    }

    /// A path that has passed its test of ten packets.
    fn capable() -> Path {
        let mut path = Path::new(Ecn::Classic);
        path.send(10);
        path.ack(10, Some([10, 0, 0]));
        assert_eq!(path.state(), EcnState::Capable);
        path
    }

    #[test]
    fn ten_packets_are_marked_and_then_none_until_the_result_is_there() {
        // TACK-5.8-1, TACK-5.8-2
        let mut path = Path::new(Ecn::L4s);
        assert_eq!(path.send(30), 10);
        assert_eq!(path.state(), EcnState::Unknown);
        path.ack(1, Some([0, 1, 0]));
        assert_eq!((path.state(), path.send(30)), (EcnState::Capable, 30));
        assert_eq!(Path::new(Ecn::Off).send(30), 0);
    }

    #[test]
    fn what_was_claimed_in_vain_on_one_path_is_not_believed_on_the_next() {
        // TACK-5.8-3
        const LIE: u64 = 1 << 61;
        let mut path = capable();
        path.send(1);
        assert_eq!(path.ack(1, Some([11, 0, LIE])), 0);
        assert_eq!(path.state(), EcnState::Failed);
        path.ack(0, Some([11, 0, 0]));
        path.validation = EcnValidation::new(Ecn::Classic);
        path.send(10);
        path.ack(10, Some([21, 0, 0]));
        assert_eq!(path.state(), EcnState::Capable);
        path.send(1);
        assert_eq!(path.ack(1, Some([22, 0, LIE])), 0);
        assert_eq!(path.state(), EcnState::Failed);
    }

    #[test]
    fn a_test_lasts_three_probe_timeouts() {
        let mut path = Path::new(Ecn::Classic);
        path.send(1);
        path.now += 3 * TIMEOUT;
        assert_eq!(path.send(1), 1);
        path.now += MS;
        assert_eq!((path.send(1), path.state()), (0, EcnState::Unknown));
        path.ack(2, Some([2, 0, 0]));
        assert_eq!(path.state(), EcnState::Capable);
    }

    #[test]
    fn counts_that_cannot_be_true_are_a_failure() {
        // TACK-5.8-3
        for (counts, what) in [
            (None, "none"),
            (Some([14, 0, 0]), "fewer than were acknowledged"),
            (Some([9, 0, 6]), "one falls"),
            (Some([21, 0, 0]), "more than were sent"),
            (Some([15, 0, 6]), "more of all"),
            (Some([15, 1, 0]), "of a codepoint that was not sent"),
            (Some([15, 0, u64::MAX / 4]), "no overflow"),
        ] {
            let mut path = capable();
            path.send(10);
            assert_eq!(path.ack(5, counts), 0, "{what}");
            assert_eq!((path.state(), path.send(5)), (EcnState::Failed, 0), "{what}");
        }
        let mut path = capable();
        path.send(10);
        assert_eq!(path.ack(5, Some([12, 0, 3])), 3);
        assert_eq!(path.ack(5, Some([16, 0, 4])), 1);
        assert_eq!(path.state(), EcnState::Capable);
    }

    #[test]
    fn acknowledgements_that_were_overtaken_prove_nothing() {
        let mut path = capable();
        path.send(10);
        path.ack_of(1, 1, Some([3, 0, 0]), false);
        path.ack_of(1, 1, None, false);
        assert_eq!(path.state(), EcnState::Capable);
        path.ack(8, Some([20, 0, 0]));
        assert_eq!(path.state(), EcnState::Capable);
    }

    #[test]
    fn a_test_fails_if_all_is_lost_or_all_have_ce_for_long() {
        // TACK-5.8-4
        let mut path = Path::new(Ecn::Classic);
        path.send(20);
        path.lose(9);
        assert_eq!(path.state(), EcnState::Unknown);
        path.lose(1);
        assert_eq!(path.state(), EcnState::Failed);

        let mut path = Path::new(Ecn::Classic);
        path.send(20);
        path.ack(10, Some([0, 0, 10]));
        assert_eq!(path.state(), EcnState::Capable, "a burst into a queue at its threshold");
        assert_eq!(path.send(190), 190);
        assert_eq!(path.ack(180, Some([0, 0, 190])), 180);
        assert_eq!(path.state(), EcnState::Capable, "no time for an answer has passed");
        path.now += 5 * TIMEOUT;
        assert_eq!(path.ack(1, Some([0, 0, 191])), 0);
        assert_eq!((path.state(), path.send(20)), (EcnState::Failed, 0));
    }

    #[test]
    fn one_packet_that_a_queue_has_not_marked_proves_that_it_marks_by_its_load() {
        // TACK-5.8-4
        let mut path = Path::new(Ecn::L4s);
        path.send(10);
        path.ack(10, Some([0, 0, 10]));
        path.send(200);
        path.ack(50, Some([0, 1, 59]));
        path.now += 5 * TIMEOUT;
        path.ack(150, Some([0, 1, 209]));
        assert_eq!(path.state(), EcnState::Capable);
    }

    #[test]
    fn silence_makes_the_packets_in_flight_the_test() {
        // TACK-5.8-5
        let mut path = capable();
        path.send(30);
        path.validation.on_probe_timeout();
        assert_eq!(path.state(), EcnState::Capable);
        path.validation.on_probe_timeout();
        assert_eq!((path.state(), path.send(1)), (EcnState::Unknown, 0));
        path.lose(29);
        path.ack(1, Some([11, 0, 0]));
        assert_eq!(path.state(), EcnState::Capable, "it was an outage");

        for _ in 0..3 {
            path.validation.on_probe_timeout();
        }
        assert_eq!(path.state(), EcnState::Capable, "nothing marked is on its way");
        path.send(5);
        path.validation.on_probe_timeout();
        path.validation.on_probe_timeout();
        path.lose(5);
        assert_eq!(path.state(), EcnState::Failed);
    }

    #[test]
    fn what_one_path_has_spoilt_is_not_held_against_the_next() {
        let mut path = capable();
        path.send(10);
        path.ack(10, Some([10, 0, 1000]));
        assert_eq!(path.state(), EcnState::Failed);
        path.validation = EcnValidation::new(Ecn::Classic);
        path.send(10);
        path.ack(10, Some([20, 0, 1000]));
        assert_eq!(path.state(), EcnState::Capable);
    }

    #[test]
    fn acknowledgements_of_another_path_say_nothing_of_this_one() {
        let mut path = capable();
        path.validation = EcnValidation::new(Ecn::Classic);
        path.ack_of(5, 0, None, true);
        path.ack_of(5, 0, Some([3, 0, 0]), true);
        assert_eq!(path.state(), EcnState::Testing);
    }
}
