//! Loss detection.

use std::time::Duration;

use super::lost_run::LostRun;
use super::{AckOutcome, FlightId, Sent, SentPackets, State, Time};
use crate::loss_detection::GRANULARITY;

impl SentPackets {
    /// RFC 9002 section 6.1, as quiche applies it to the same acknowledgement (TACK-5.4-2).
    /// `smallest` is the smallest number that the acknowledgement reports.
    pub(super) fn detect_losses(
        &mut self,
        now: Time,
        round_trip: Duration,
        smallest: Option<u64>,
        outcome: &mut AckOutcome,
    ) {
        let Some(largest) = self.largest_acked else { return };
        let time_threshold = round_trip * self.time_threshold.0 / self.time_threshold.1;
        let time_threshold = time_threshold.max(GRANULARITY);
        let end = largest.min(self.next_packet_number());
        let current = self.current().id();
        self.skip_what_landed(end);
        let (mut run, mut established) = (self.lost_run, None);
        for pn in self.none_in_flight_below..end {
            let threshold = self.packet_threshold;
            let Some(sent) = self.entry(pn) else { continue };
            let old = now.since(sent.time) >= time_threshold;
            let is_lost = largest >= pn + threshold || old;
            if sent.state != State::InFlight || !is_lost {
                let sent = *sent;
                self.follow_run(&mut run, pn, &sent, current);
                continue;
            }
            sent.state = State::Lost;
            let sent = *sent;
            self.land(&sent, false);
            outcome.lost_bytes += u64::from(sent.bytes);
            outcome.lost_packets += 1;
            if sent.is_marked {
                outcome.on_marked_landed(self.is_of_this_stay(pn, &sent), false, true);
            }
            if sent.flight == current {
                outcome.current.on_lost(&sent);
                // TACK-6.6-2: what the acknowledgement does not reach down to may have arrived.
                if smallest.is_some_and(|smallest| pn > smallest) {
                    self.follow_run(&mut run, pn, &sent, current);
                    if self.persistent.is_established_by(&run) {
                        established = Some(run);
                    }
                }
            }
        }
        self.skip_what_landed(end);
        if let Some(run) = established {
            self.persistent.on_established(now, &run);
            outcome.current.is_persistent_congestion = true;
        }
        if self.first_unknown.is_some_and(|unknown| unknown <= largest) {
            self.first_unknown = self.first_in_flight_from(largest + 1);
        }
    }

    /// Most of the record has landed and is not looked at again.
    pub(super) fn skip_what_landed(&mut self, end: u64) {
        self.none_in_flight_below = self.none_in_flight_below.max(self.base);
        while self.none_in_flight_below < end
            && self.state(self.none_in_flight_below) != Some(State::InFlight)
        {
            let pn = self.none_in_flight_below;
            let current = self.current().id();
            let mut run = self.lost_run;
            if let Some(sent) = self.packets.get((pn - self.base) as usize) {
                self.follow_run(&mut run, pn, sent, current);
            }
            self.lost_run = run;
            self.none_in_flight_below += 1;
            #[cfg(test)]
            {
                self.visited += 1;
            }
        }
    }

    /// Continues a walk over the packets of the current path, from the oldest.
    fn follow_run(&self, run: &mut LostRun, pn: u64, sent: &Sent, current: FlightId) {
        if sent.flight != current {
            return;
        }
        match sent.state {
            State::Acked => run.on_acked(),
            State::Lost if self.persistent.counts(sent.time) => run.on_lost(pn, sent.time),
            State::Lost | State::InFlight | State::Skipped | State::Uncounted => {}
        }
    }
}
