//! The sender's record of 1-RTT packets: what is in flight, and what an
//! acknowledgement newly covers.
//!
//! It is also what every claim of the receiver is held against: a number that
//! was never sent, or was skipped on purpose, closes the connection
//! (RFC 9000 section 13.1).
//!
//! An acknowledgement costs what it newly covers. It repeats ranges of eight
//! TACKs, so the numbers that nothing has acknowledged are kept as ranges, and
//! those alone are visited (TACK-9-2).

mod ack_outcome;
mod check;
mod flight;
mod losses;
mod lost_run;
mod path_outcome;
#[cfg(test)]
mod tests;
mod tx_in_flight;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

pub use ack_outcome::AckOutcome;
pub use check::OptimisticAck;
pub use flight::RateSample;
pub use tx_in_flight::TxInFlight;

use self::flight::Flight;
pub(super) use self::flight::FlightId;
use self::lost_run::{LostRun, PersistentCongestion};
pub(super) use self::path_outcome::PathOutcome;
use super::black_hole::BASE_PLPMTU;
use crate::loss_detection::{
    MAX_PACKET_THRESHOLD, PACKET_THRESHOLD, REORDERING_TIME_THRESHOLD, TIME_THRESHOLD,
};
use crate::range_set::{RangeSet, normalise};

/// Packets that stay in the record although nothing waits for them: a late
/// acknowledgement of a lost one shows that the loss was spurious.
const MEMORY: usize = 256;

/// Packets recorded at most (TACK-9-3), some 25 MB. A peer that never acknowledges makes
/// the record grow by one for each acknowledgement that it is sent. Flows keep
/// a tenth of that in flight at most.
const MAX_RECORDED: usize = 1 << 18;

/// Ranges of skipped numbers that are remembered: far more than are skipped
/// while a packet is on its way.
const MAX_SKIPPED: usize = 256;

/// Paths whose bytes in flight are counted: those that [`super::paths`] keeps.
const MAX_FLIGHTS: usize = super::paths::MAX_PATHS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Never sent under this number.
    Skipped,
    /// Sent; not ack-eliciting, so not in flight.
    Uncounted,
    InFlight,
    Acked,
    Lost,
}

/// A packet of the record. There are as many as are on their way, and each is touched three times.
#[derive(Clone, Copy, Debug)]
struct Sent {
    state: State,
    app_limited: bool,
    pace: Pace,
    /// Whether it left with an ECT codepoint.
    is_marked: bool,
    bytes: u32,
    flight: FlightId,
    /// Bytes of [`TxInFlight`].
    tx_in_flight: u32,
    time: Time,
    /// `delivered` and its time when this packet left: a delivery-rate sample
    /// spans from then to its acknowledgement.
    delivered: u64,
    delivered_time: Time,
    first_sent_time: Time,
}

/// Nanoseconds since the record began: half the size of an [`Instant`], and a difference is one
/// instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Time(u64);

impl Time {
    fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// How fast a packet was sent, compared with what the path was known to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pace {
    /// As fast.
    #[default]
    Level,
    /// Faster: ProbeBW Up.
    Above,
    /// Slower, by what was delivered: ProbeBW Down.
    Below,
}

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub packet_number: u64,
    pub bytes: usize,
    pub ack_eliciting: bool,
    pub flight: FlightId,
    pub is_probe: bool,
    pub pace: Pace,
    pub is_marked: bool,
}

/// Sent packets, indexed by number.
#[derive(Debug)]
pub struct SentPackets {
    epoch: Instant,
    packets: VecDeque<Sent>,
    /// Number of the front packet.
    base: u64,
    has_begun: bool,
    /// The numbers in the record that were sent and nothing has acknowledged:
    /// in flight, lost, or not ack-eliciting.
    unacknowledged: RangeSet,
    /// Numbers that were never sent, also some below `base`.
    skipped: RangeSet,
    /// Numbers that were skipped on purpose and that no acknowledgement has
    /// reached beyond. The QUIC stack has written a packet for each (TACK-5.6-2).
    withheld: VecDeque<u64>,
    largest_acked: Option<u64>,
    /// The lowest number in flight above `largest_acked`.
    first_unknown: Option<u64>,
    /// No packet with a lower number is in flight.
    none_in_flight_below: u64,
    /// The current path's first, then those of paths that were left.
    flights: Vec<Flight>,
    /// The first number that left since data goes over the current path.
    current_from: u64,
    total_in_flight: u64,
    /// Whether every packet of the number space is recorded.
    sees_all: bool,
    packet_threshold: u64,
    time_threshold: (u32, u32),
    /// The losses right below `none_in_flight_below`.
    lost_run: LostRun,
    persistent: PersistentCongestion,
    /// Entries that acknowledgements have looked at.
    #[cfg(test)]
    visited: u64,
}

impl SentPackets {
    /// An empty record. Where it does not see all packets (around 0-RTT, before
    /// the keys were there), numbers below the first that it sees are let pass.
    pub(super) fn new(now: Instant, sees_all: bool, flight: FlightId) -> Self {
        Self {
            epoch: now,
            packets: VecDeque::new(),
            base: 0,
            has_begun: false,
            unacknowledged: RangeSet::new(MAX_RECORDED),
            skipped: RangeSet::new(MAX_SKIPPED),
            withheld: VecDeque::new(),
            largest_acked: None,
            first_unknown: None,
            none_in_flight_below: 0,
            flights: vec![Flight::new(Time::default(), flight)],
            current_from: 0,
            total_in_flight: 0,
            sees_all,
            packet_threshold: PACKET_THRESHOLD,
            time_threshold: TIME_THRESHOLD,
            lost_run: LostRun::default(),
            persistent: PersistentCongestion::default(),
            #[cfg(test)]
            visited: 0,
        }
    }

    /// How far below the largest acknowledged number a packet is lost.
    pub fn packet_threshold(&self) -> u64 {
        self.packet_threshold
    }

    fn time(&self, at: Instant) -> Time {
        let nanos = at.saturating_duration_since(self.epoch).as_nanos();
        // Five hundred years fit.
        Time(nanos as u64)
    }

    /// Counts what is sent from now on as that path's.
    pub(super) fn set_flight(&mut self, now: Instant, id: FlightId) {
        let now = self.time(now);
        let at = self.flights.iter().position(|flight| flight.id() == id);
        let flight = at.map_or_else(|| Flight::new(now, id), |at| self.flights.remove(at));
        (self.lost_run, self.persistent) = Default::default();
        self.current_from = self.next_packet_number();
        self.flights.insert(0, flight);
        self.flights.truncate(MAX_FLIGHTS);
    }

    /// Forgets what is in flight on a path: nothing asks for it any more.
    pub(super) fn forget_flight(&mut self, id: FlightId) {
        if self.current().id() != id {
            self.flights.retain(|flight| flight.id() != id);
        }
    }

    /// How long losses last at least that are persistent congestion, and when the first round trip of the
    /// current path had been measured.
    pub(super) fn set_persistent_duration(
        &mut self,
        sampled: Instant,
        duration: Option<Duration>,
    ) {
        let sampled = self.time(sampled);
        self.persistent.set_duration(sampled, duration);
    }

    /// Records a packet. Numbers between the last one and its own were skipped.
    /// A number that is not above the last is ignored.
    pub(super) fn on_sent(&mut self, now: Instant, leaving: Leaving) {
        let Leaving {
            packet_number: pn,
            bytes,
            ack_eliciting,
            flight,
            is_probe,
            pace,
            is_marked,
        } = leaving;
        let now = self.time(now);
        if !self.skip_to(now, pn) {
            return;
        }
        let bytes = bytes as u32;
        let mut sent = match self.flights.iter_mut().find(|known| known.id() == flight) {
            Some(known) => known.on_sent(now, bytes, ack_eliciting),
            // A path that data never went over.
            None => Flight::new(now, flight).on_sent(now, bytes, ack_eliciting),
        };
        sent.app_limited |= is_probe;
        sent.pace = pace;
        sent.is_marked = is_marked;
        if ack_eliciting {
            self.total_in_flight += u64::from(bytes);
            self.first_unknown.get_or_insert(pn);
        }
        self.packets.push_back(sent);
        self.unacknowledged.insert(pn);
    }

    /// Records a number that the QUIC stack has used for a packet that does not leave.
    pub fn on_withheld(&mut self, now: Instant, pn: u64) {
        let now = self.time(now);
        if self.skip_to(now, pn) && self.skip_to(now, pn + 1) {
            self.withheld.push_back(pn);
            // Nothing waits for them: they are PINGs to the stack.
            while self.withheld.len() > MAX_SKIPPED {
                self.withheld.pop_front();
            }
        }
    }

    /// The largest number that was acknowledged.
    pub fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// One above the largest number sent or skipped.
    pub fn next_packet_number(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// The lowest number that something may still wait for.
    pub fn first_packet_number(&self) -> u64 {
        self.base
    }

    /// Bytes sent over the current path and neither acknowledged nor lost.
    pub fn in_flight(&self) -> u64 {
        self.current().in_flight()
    }

    /// Bytes sent over any path and neither acknowledged nor lost.
    pub fn total_in_flight(&self) -> u64 {
        self.total_in_flight
    }

    /// Bytes delivered over the current path.
    pub fn delivered(&self) -> u64 {
        self.current().delivered()
    }

    /// Samples of what is in flight now say nothing of the path.
    pub fn on_app_limited(&mut self) {
        self.flights[0].on_app_limited();
    }

    /// The application has nothing more to send: neither do those of what is in flight when it writes again.
    pub fn on_run_dry(&mut self) {
        self.flights[0].on_run_dry();
    }

    /// Data of the application waits for its release, or for what is in flight.
    pub fn on_data_waits(&mut self) {
        self.flights[0].on_data_waits();
    }

    /// Whether the next packet leaves behind a pause in which nothing was on its way over the current path.
    pub fn restarts_from_idle(&self) -> bool {
        self.flights[0].restarts_from_idle()
    }

    /// Whether the application has less to send than may leave.
    pub fn is_app_limited(&self) -> bool {
        self.flights[0].is_app_limited()
    }

    /// Whether packet `pn` has been acknowledged, or lost. `None` while it is
    /// on its way.
    pub fn was_delivered(&self, pn: u64) -> Option<bool> {
        if pn < self.base {
            // Lost packets stay in the record until after they were asked for.
            return Some(true);
        }
        match self.state(pn)? {
            State::Acked => Some(true),
            State::Lost | State::Skipped => Some(false),
            State::InFlight | State::Uncounted => None,
        }
    }

    /// Whether every number above the largest acknowledged one and below
    /// `smallest` is one that the receiver has been silent about: then an
    /// acknowledgement that starts at `smallest` would make a QUIC sender take
    /// all of them for lost.
    pub fn leaves_unknown_below(&self, smallest: u64) -> bool {
        self.first_unknown.is_some_and(|unknown| unknown < smallest)
    }

    /// The numbers of `ranges` that nothing has acknowledged yet, and those
    /// skipped on purpose below the highest of `ranges`, in ascending ranges.
    pub fn unacknowledged(
        &self,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
    ) -> Vec<RangeInclusive<u64>> {
        let mut largest = None;
        let mut numbers = Vec::new();
        for range in ranges {
            largest = largest.max(Some(*range.end()));
            numbers.extend(self.unacknowledged.overlap(range));
        }
        numbers.extend(self.passed(largest).map(|pn| pn..=pn));
        normalise(&mut numbers);
        numbers
    }

    /// Packets in flight below the highest of `ranges`, which descend, and in none of them: at
    /// most `count`, the newest, ascending. All but the last few of them are lost once the
    /// ranges are applied, so that none is looked at in many acknowledgements.
    pub fn left_out(
        &self,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
        count: usize,
    ) -> Vec<u64> {
        let lowest = self.none_in_flight_below.max(self.base);
        let mut gaps = Vec::new();
        let mut above: Option<u64> = None;
        for range in ranges {
            let from = lowest.max(range.end().saturating_add(1));
            gaps.extend(above.filter(|above| *above > from).map(|above| from..=above - 1));
            above = Some(*range.start());
            if *range.start() <= lowest {
                break;
            }
        }
        gaps.extend(above.filter(|above| *above > lowest).map(|above| lowest..=above - 1));
        let missing = gaps
            .into_iter()
            .flat_map(|gap| self.unacknowledged.overlap(gap))
            .flat_map(RangeInclusive::rev);
        let in_flight = missing.filter(|pn| self.state(*pn) == Some(State::InFlight));
        let mut left_out: Vec<_> = in_flight.take(count).collect();
        left_out.reverse();
        left_out
    }

    /// Applies acknowledged ranges, newest first, and then the packets of `also`, which
    /// ascend: those whose data has arrived according to bubbles. `round_trip` is what
    /// time-based loss detection goes by. Claims that [`Self::check`] refuses have no effect.
    pub fn on_ack(
        &mut self,
        now: Instant,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
        also: &[u64],
        round_trip: Duration,
    ) -> AckOutcome {
        let now = self.time(now);
        let mut outcome = AckOutcome::default();
        let mut newest = Newest::default();
        let (mut largest, mut smallest) = (None, None);
        for range in ranges {
            largest = largest.max(Some(*range.end()));
            smallest = Some(*range.start());
            let new: Vec<_> = self.unacknowledged.overlap(range).collect();
            for range in new {
                self.unacknowledged.remove_range(range.clone());
                self.acknowledge(now, range.clone(), largest, &mut newest, &mut outcome);
                outcome.acked.push(range);
            }
        }
        self.deliver(also, &mut outcome);
        while self.withheld.front().is_some_and(|pn| Some(*pn) < largest) {
            outcome.acked.extend(self.withheld.pop_front().map(|pn| pn..=pn));
        }
        normalise(&mut outcome.acked);
        outcome.current.earliest_rtt = newest.earliest.map(|earliest| now.since(earliest));
        if let Some(sent) = newest.packet {
            outcome.current.sample = self.flights[0].on_newest_acked(now, &sent);
        }
        if let Some(pn) = newest.spurious {
            self.raise_thresholds(pn);
        }
        self.detect_losses(now, round_trip, smallest, &mut outcome);
        outcome
    }

    /// Marks a range that was not acknowledged before, from the top down.
    fn acknowledge(
        &mut self,
        now: Time,
        range: RangeInclusive<u64>,
        largest: Option<u64>,
        newest: &mut Newest,
        outcome: &mut AckOutcome,
    ) {
        self.largest_acked = self.largest_acked.max(Some(*range.end()));
        let current = self.current().id();
        for pn in range.rev() {
            let Some(sent) = self.entry(pn) else { continue };
            // TACK-5.4-1 and TACK-5.4-3: the first acknowledgement counts.
            let state = std::mem::replace(&mut sent.state, State::Acked);
            let before = *sent;
            if before.is_marked {
                outcome.on_marked_landed(
                    self.is_of_this_stay(pn, &before),
                    true,
                    state == State::InFlight,
                );
            }
            match state {
                State::InFlight => {}
                State::Lost => {
                    outcome.spurious += 1;
                    if before.flight == current {
                        outcome.current.spurious += 1;
                        outcome.current.has_long_acked |= before.bytes > BASE_PLPMTU;
                        newest.spurious = Some(pn);
                        self.lost_run.on_late_acked(pn);
                        outcome.current.was_no_persistent_congestion |=
                            self.persistent.on_late_acked(pn);
                    }
                    continue;
                }
                State::Skipped | State::Uncounted | State::Acked => continue,
            }
            outcome.acked_bytes += u64::from(before.bytes);
            self.land(&before, true);
            if before.flight != current {
                continue;
            }
            outcome.current.on_acked(&before);
            newest.earliest = Some(before.time);
            if newest.packet.is_none() {
                newest.packet = Some(before);
                // RFC 9002 section 5.1: the delay that came with it is that of the largest.
                if largest == Some(pn) {
                    outcome.current.largest_rtt = Some(now.since(before.time));
                }
            }
        }
    }

    /// Takes packets out of flight whose data has arrived (TACK-5.4-6). They yield no sample
    /// and do not count as delivered: bubbles name no packet numbers, so the trap of skipped
    /// ones (RFC 9000 section 21.4) would not catch a receiver that lies. In this way a lie
    /// gains no more than reporting the packets as lost would. Nor are they acknowledged for ECN: the data may
    /// have come in another packet, and RFC 9000 section 13.4.2.1 counts those that an ACK names
    /// (TACK-5.8-3).
    fn deliver(&mut self, packets: &[u64], outcome: &mut AckOutcome) {
        for &pn in packets {
            let Some(sent) = self.entry(pn).filter(|sent| sent.state == State::InFlight) else {
                continue;
            };
            sent.state = State::Acked;
            let sent = *sent;
            self.unacknowledged.remove_range(pn..=pn);
            if sent.is_marked {
                outcome.on_marked_landed(self.is_of_this_stay(pn, &sent), false, true);
            }
            self.land(&sent, false);
            outcome.by_bubbles += 1;
            outcome.acked.push(pn..=pn);
        }
    }

    /// Whether a packet left over the current path since data goes over it: a test of ECN that was interrupted has
    /// nothing to do with the one that repeats it (TACK-5.8-4).
    fn is_of_this_stay(&self, pn: u64, sent: &Sent) -> bool {
        sent.flight == self.current().id() && pn >= self.current_from
    }

    /// Takes a packet out of flight.
    fn land(&mut self, sent: &Sent, delivered: bool) {
        let bytes = u64::from(sent.bytes);
        self.total_in_flight -= bytes;
        let flight = self.flights.iter_mut().find(|flight| flight.id() == sent.flight);
        if let Some(flight) = flight {
            flight.land(sent, delivered);
        }
    }

    /// Packet `pn` had arrived and was taken for lost: it takes more to be lost
    /// from now on, as it does for quiche.
    fn raise_thresholds(&mut self, pn: u64) {
        let distance = self.largest_acked.map_or(0, |largest| largest.saturating_sub(pn) + 1);
        self.packet_threshold = self.packet_threshold.max(distance.min(MAX_PACKET_THRESHOLD));
        self.time_threshold = REORDERING_TIME_THRESHOLD;
    }

    /// Makes `pn` the next number; those before it that are not in the record were skipped.
    /// False for a number that is in the record already, or too far beyond it.
    fn skip_to(&mut self, now: Time, pn: u64) -> bool {
        if !self.has_begun {
            // The first number seen: those below it left before 1-RTT (0-RTT).
            self.base = pn;
            self.has_begun = true;
        }
        let next = self.next_packet_number();
        if pn < next {
            return false;
        }
        // Here and not with the acknowledgement, so that the fate of every
        // packet can be asked for between the two.
        self.forget_landed();
        if pn > next {
            if pn - next > MAX_RECORDED as u64 {
                // No stack skips as many; each would take an entry.
                return false;
            }
            self.skipped.insert_range(next..=pn - 1);
            let gap = self.flights[0].skipped(now);
            self.packets.extend(std::iter::repeat_n(gap, (pn - next) as usize));
        }
        true
    }

    #[inline]
    fn forget_landed(&mut self) {
        let waits = self.packets.front().is_none_or(|front| front.state == State::InFlight);
        if !waits || self.packets.len() >= MAX_RECORDED {
            self.forget_front();
        }
    }

    fn forget_front(&mut self) {
        let largest = self.largest_acked.unwrap_or(0);
        let (mut landed, mut given_up) = (0, false);
        for (pn, sent) in (self.base..).zip(&self.packets) {
            let left = self.packets.len() - landed;
            let has_landed = match sent.state {
                State::Acked | State::Skipped => pn < largest,
                State::Uncounted => pn < largest || left > MEMORY,
                State::Lost => pn + (MEMORY as u64) < largest,
                State::InFlight => false,
            };
            if !has_landed && left < MAX_RECORDED {
                break;
            }
            given_up |= sent.state == State::InFlight;
            landed += 1;
        }
        if landed == 0 {
            return;
        }
        if given_up {
            let front: Vec<_> = self.packets.iter().take(landed).copied().collect();
            for sent in front.iter().filter(|sent| sent.state == State::InFlight) {
                self.land(sent, false);
            }
        }
        self.packets.drain(..landed);
        self.base += landed as u64;
        if self.unacknowledged.smallest().is_some_and(|smallest| smallest < self.base) {
            self.unacknowledged.remove_below(self.base);
        }
        if self.first_unknown.is_some_and(|unknown| unknown < self.base) {
            self.first_unknown = self.first_in_flight_from(self.base.max(largest + 1));
        }
    }

    fn first_in_flight_from(&self, from: u64) -> Option<u64> {
        (from..self.next_packet_number()).find(|pn| self.state(*pn) == Some(State::InFlight))
    }

    /// Numbers skipped on purpose that an acknowledgement up to `largest` passes.
    fn passed(&self, largest: Option<u64>) -> impl Iterator<Item = u64> + '_ {
        self.withheld.iter().copied().take_while(move |pn| Some(*pn) < largest)
    }

    #[cfg(test)]
    pub(super) fn skipped_between(&self, first: u64, last: u64) -> Vec<u64> {
        let mut skipped: Vec<_> = self.skipped.overlap(first..=last).flatten().collect();
        skipped.sort_unstable();
        skipped
    }

    fn current(&self) -> &Flight {
        &self.flights[0]
    }

    fn entry(&mut self, pn: u64) -> Option<&mut Sent> {
        #[cfg(test)]
        {
            self.visited += 1;
        }
        let offset = pn.checked_sub(self.base)?;
        self.packets.get_mut(offset as usize)
    }

    fn state(&self, pn: u64) -> Option<State> {
        let offset = pn.checked_sub(self.base)?;
        self.packets.get(offset as usize).map(|sent| sent.state)
    }
}

/// What the walk over newly acknowledged packets has met first.
#[derive(Default)]
struct Newest {
    /// The newest packet of the current path.
    packet: Option<Sent>,
    /// When the oldest one of it left.
    earliest: Option<Time>,
    /// The oldest one of it that had been taken for lost.
    spurious: Option<u64>,
}
