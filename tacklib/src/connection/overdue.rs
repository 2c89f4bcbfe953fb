//! Streams whose deadline passes while all of them is on its way.
//!
//! That they have arrived in time is told half a round trip later, or more. So a stream that has
//! nothing left to send is not reset at its deadline but when something of it is lost: quiche would
//! send that again. Which packets a stream has left in says whether it is.
//!
//! When quiche's probe timer expires, or another of its timers, it sends again what may well have arrived. The stream
//! is reset before that, and the same packets tell whether it has expired: a frame that others depend on is not taken
//! for lost while its acknowledgement is late.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Streams without a packet that are remembered; of more none is known to be whole.
const MAX_UNTOUCHED: usize = 4096;

/// Ranges of packet numbers of a stream. What is beyond belongs to the last one with all between.
const MAX_RANGES: usize = 64;

/// What is known of packets that were sent.
pub(super) trait PacketRecord {
    /// All packets below have arrived, or been asked about.
    fn first(&self) -> u64;

    /// Whether a packet has been acknowledged, or lost; `None` while it is on its way.
    fn was_delivered(&self, packet_number: u64) -> Option<bool>;
}

/// The packets of streams with a deadline.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    /// Streams that were opened and of which no packet has left.
    untouched: BTreeSet<u64>,
    /// Packets of streams with a deadline that had been set before the first one left.
    packets: BTreeMap<u64, Packets>,
    /// Streams behind their deadline, and how many of their packets had been lost by then.
    waiting: BTreeMap<u64, usize>,
    /// Streams that were reset although nothing of them was known to be lost, and the same number of each.
    reset: BTreeMap<u64, usize>,
    /// Packets were acknowledged or lost since these were looked at.
    is_due: bool,
    /// Packets that had been lost then, by the layer's record.
    lost: u64,
    /// quiche has found losses that are not in that record.
    is_in_doubt: bool,
}

impl Overdue {
    /// A stream is about to be opened.
    pub fn on_opening(&mut self, stream_id: u64) {
        if self.untouched.len() >= MAX_UNTOUCHED {
            self.untouched.clear();
        }
        self.untouched.insert(stream_id);
    }

    /// Whether a stream was opened, as far as is known, and no packet of it has left.
    pub fn is_untouched(&self, stream_id: u64) -> bool {
        self.untouched.contains(&stream_id)
    }

    /// A stream gets a deadline, another one, or none.
    pub fn on_deadline(&mut self, stream_id: u64, has_one: bool) {
        self.waiting.remove(&stream_id);
        self.reset.remove(&stream_id);
        if !has_one {
            self.packets.remove(&stream_id);
        } else if self.untouched.contains(&stream_id) {
            self.packets.entry(stream_id).or_default();
        }
    }

    /// A packet has left with data of this stream, or of one that is not known.
    #[inline]
    pub fn on_sent(&mut self, packet_number: u64, stream_id: Option<u64>, bytes: usize) {
        if !self.untouched.is_empty() || !self.packets.is_empty() {
            self.record(packet_number, stream_id, bytes);
        }
    }

    fn record(&mut self, packet_number: u64, stream_id: Option<u64>, bytes: usize) {
        match stream_id {
            Some(stream_id) => {
                self.untouched.remove(&stream_id);
                if let Some(packets) = self.packets.get_mut(&stream_id) {
                    packets.add(packet_number);
                }
            }
            None if bytes > 0 => {
                self.untouched.clear();
                self.packets.values_mut().for_each(|packets| packets.add(packet_number));
            }
            None => {}
        }
    }

    /// The deadline of a stream that has nothing left to send has passed. Whether its packets tell what becomes of
    /// it; `repeats` is set if quiche may have something to send again. `lost` packets have been lost in all.
    pub fn wait(
        &mut self,
        stream_id: u64,
        repeats: bool,
        lost: u64,
        record: &impl PacketRecord,
    ) -> bool {
        let Some(packets) = self.packets.get(&stream_id) else { return false };
        let lost_of_it = packets.lost(record);
        if packets.is_empty() || repeats && lost_of_it > 0 {
            self.packets.remove(&stream_id);
            return false;
        }
        if self.waiting.is_empty() && self.reset.is_empty() {
            self.lost = lost;
        }
        self.waiting.insert(stream_id, lost_of_it);
        self.is_due = true;
        true
    }

    /// The deadline of a stream that needs none has passed, or it was reset.
    pub fn forget(&mut self, stream_id: u64) {
        self.packets.remove(&stream_id);
    }

    /// Whether nothing is remembered of streams that neither have a deadline, which `with_deadline` do, nor are behind
    /// it.
    pub fn is_bounded_by(&self, with_deadline: usize) -> bool {
        self.packets.len() <= with_deadline + self.waiting.len() + self.reset.len()
    }

    /// Packets were acknowledged. `lost` tells how many have been lost in all by the layer's record; quiche has just
    /// found some if `repeats` is set.
    pub fn on_acknowledged(&mut self, repeats: bool, lost: impl Fn() -> u64) {
        if self.waiting.is_empty() && self.reset.is_empty() {
            return;
        }
        let lost = lost();
        self.is_in_doubt |= repeats && lost == self.lost;
        self.lost = lost;
        self.is_due = true;
    }

    /// Whether [`take_lost`](Self::take_lost) has something to look at.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Streams behind their deadline of which something is lost since. Those that have arrived wait no longer.
    pub fn take_lost(&mut self, record: &impl PacketRecord) -> Vec<u64> {
        self.is_due = false;
        if std::mem::take(&mut self.is_in_doubt) {
            return take_all_of(&mut self.waiting, &mut self.packets);
        }
        take_lost_of(&mut self.waiting, &mut self.packets, record)
    }

    /// quiche is about to send something again whose packets are not known to be lost: the streams behind their
    /// deadline, which are to be reset. Their packets tell what has become of them.
    pub fn on_timeout(&mut self) -> Vec<u64> {
        let waiting = std::mem::take(&mut self.waiting);
        let to_reset = waiting.keys().copied().collect();
        self.reset.extend(waiting);
        to_reset
    }

    /// Whether a stream was reset and may have arrived all the same.
    pub fn is_open(&self, stream_id: u64) -> bool {
        self.reset.contains_key(&stream_id)
    }

    /// Streams that were reset and of which something is lost since. Those that have arrived are forgotten.
    pub fn take_expired(&mut self, record: &impl PacketRecord) -> Vec<u64> {
        take_lost_of(&mut self.reset, &mut self.packets, record)
    }

    /// Streams that were reset and of which nothing was heard since: they count as expired.
    pub fn take_unheard(&mut self) -> Vec<u64> {
        take_all_of(&mut self.reset, &mut self.packets)
    }
}

/// All of the `streams`.
fn take_all_of(
    streams: &mut BTreeMap<u64, usize>,
    packets: &mut BTreeMap<u64, Packets>,
) -> Vec<u64> {
    let streams = std::mem::take(streams);
    for stream_id in streams.keys() {
        packets.remove(stream_id);
    }
    streams.into_keys().collect()
}

/// Those of the `streams` of which more is lost than was before. They are taken out, as are those that have arrived.
fn take_lost_of(
    streams: &mut BTreeMap<u64, usize>,
    packets: &mut BTreeMap<u64, Packets>,
    record: &impl PacketRecord,
) -> Vec<u64> {
    let mut lost = Vec::new();
    streams.retain(|stream_id, lost_before| {
        let Some(of_stream) = packets.get(stream_id) else { return false };
        let is_lost = of_stream.lost(record) > *lost_before;
        if is_lost {
            lost.push(*stream_id);
        }
        let stays = !is_lost && !of_stream.are_settled(record);
        if !stays {
            packets.remove(stream_id);
        }
        stays
    });
    lost
}

/// Packet numbers in ascending ranges.
#[derive(Debug, Default)]
struct Packets(Vec<RangeInclusive<u64>>);

impl Packets {
    fn add(&mut self, number: u64) {
        let is_full = self.0.len() >= MAX_RANGES;
        match self.0.last_mut() {
            Some(last) if is_full || last.end() + 1 == number => *last = *last.start()..=number,
            _ => self.0.push(number..=number),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn lost(&self, record: &impl PacketRecord) -> usize {
        let numbers = self.numbers_from(record.first());
        numbers.filter(|number| record.was_delivered(*number) == Some(false)).count()
    }

    fn are_settled(&self, record: &impl PacketRecord) -> bool {
        self.numbers_from(record.first()).all(|number| record.was_delivered(number).is_some())
    }

    /// A stream may have left in many more packets than are on their way.
    fn numbers_from(&self, first: u64) -> impl Iterator<Item = u64> + '_ {
        let ranges = self.0.iter().filter(move |range| *range.end() >= first);
        ranges.flat_map(move |range| first.max(*range.start())..=*range.end())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// What has become of packets.
    struct Record<F>(F);

    impl<F: Fn(u64) -> Option<bool>> PacketRecord for Record<F> {
        fn first(&self) -> u64 {
            0
        }

        fn was_delivered(&self, packet_number: u64) -> Option<bool> {
            (self.0)(packet_number)
        }
    }

    /// A stream that has left in packets 5, 6 and 9.
    fn left() -> Overdue {
        let mut overdue = Overdue::default();
        overdue.on_opening(2);
        overdue.on_deadline(2, true);
        for number in [5, 6, 9] {
            overdue.on_sent(number, Some(2), 1000);
        }
        overdue.on_sent(7, Some(6), 1000);
        overdue
    }

    #[test]
    fn a_stream_waits_for_its_packets_and_for_no_others() {
        let mut overdue = left();
        assert!(overdue.wait(2, false, 0, &Record(|_| None)));
        assert!(overdue.take_lost(&Record(|number| (number == 7).then_some(false))).is_empty());
        assert!(overdue.take_lost(&Record(|number| (number < 9).then_some(true))).is_empty());
        assert_eq!(overdue.waiting.len(), 1);
        assert!(overdue.take_lost(&Record(|_| Some(true))).is_empty());
        assert!(overdue.waiting.is_empty() && overdue.packets.is_empty());
    }

    #[test]
    fn a_stream_of_which_a_packet_is_lost_expires() {
        let mut overdue = left();
        assert!(overdue.wait(2, false, 0, &Record(|_| None)));
        assert_eq!(overdue.take_lost(&Record(|number| Some(number != 6))), [2]);
        assert!(overdue.waiting.is_empty() && overdue.packets.is_empty());
    }

    #[test]
    fn what_was_lost_before_and_sent_again_counts_no_more() {
        let mut overdue = left();
        let lost_once = |number| (number == 5).then_some(false);
        assert!(
            !left().wait(2, true, 1, &Record(lost_once)),
            "it may be about to be sent again"
        );
        assert!(overdue.wait(2, false, 1, &Record(lost_once)));
        assert!(overdue.take_lost(&Record(lost_once)).is_empty());
        assert_eq!(overdue.take_lost(&Record(|number| (number != 9).then_some(false))), [2]);
    }

    #[test]
    fn a_stream_that_had_left_in_part_before_it_got_a_deadline_is_not_known() {
        let mut overdue = Overdue::default();
        overdue.on_opening(2);
        overdue.on_sent(1, Some(2), 1000);
        overdue.on_deadline(2, true);
        overdue.on_sent(2, Some(2), 1000);
        assert!(!overdue.wait(2, false, 0, &Record(|_| None)));
        // Nor is one if a packet may have been its.
        overdue.on_opening(6);
        overdue.on_sent(3, None, 1000);
        overdue.on_deadline(6, true);
        assert!(!overdue.wait(6, false, 0, &Record(|_| None)));
    }

    #[test]
    fn losses_of_unknown_packets_are_everybodys() {
        let mut overdue = left();
        assert!(overdue.wait(2, false, 0, &Record(|_| None)));
        overdue.on_acknowledged(true, || 1);
        assert!(overdue.is_due() && overdue.take_lost(&Record(|_| None)).is_empty());
        overdue.on_acknowledged(true, || 1);
        assert_eq!(overdue.take_lost(&Record(|_| None)), [2]);
    }

    #[test]
    fn many_ranges_and_streams_cost_bounded_memory() {
        let mut overdue = left();
        (10..10_000).filter(|number| number % 2 == 0).for_each(|number| {
            overdue.on_sent(number, Some(2), 1000);
            overdue.on_opening(number);
        });
        assert_eq!(overdue.packets[&2].0.len(), MAX_RANGES);
        assert!(overdue.untouched.len() <= MAX_UNTOUCHED);
        assert!(overdue.wait(2, false, 0, &Record(|_| None)));
        assert_eq!(overdue.take_lost(&Record(|number| Some(number != 9998))), [2]);
    }

    #[test]
    fn a_stream_that_was_reset_before_a_probe_expires_only_if_it_is_lost() {
        for is_lost in [false, true] {
            let mut overdue = left();
            assert!(overdue.wait(2, false, 0, &Record(|_| None)));
            assert_eq!(overdue.on_timeout(), [2]);
            assert!(overdue.is_open(2) && overdue.is_bounded_by(0));
            overdue.on_acknowledged(false, || 0);
            assert!(overdue.is_due());
            assert!(overdue.take_lost(&Record(|_| Some(false))).is_empty(), "it was reset");
            let expired = overdue.take_expired(&Record(|number| Some(!is_lost || number != 6)));
            assert_eq!(expired, if is_lost { vec![2] } else { vec![] });
            assert!(!overdue.is_open(2) && overdue.packets.is_empty());
            assert!(overdue.take_unheard().is_empty());
        }
    }

    /// All packets of a long stream have arrived but for the last ones.
    struct LongRecord {
        first: u64,
        asked: Cell<u64>,
    }

    impl PacketRecord for LongRecord {
        fn first(&self) -> u64 {
            self.first
        }

        fn was_delivered(&self, packet_number: u64) -> Option<bool> {
            self.asked.set(self.asked.get() + 1);
            (packet_number < self.first).then_some(true)
        }
    }

    #[test]
    fn of_a_long_stream_only_the_packets_on_their_way_are_asked_about() {
        const PACKETS: u64 = 1_000_000;
        let mut overdue = left();
        (10..PACKETS).for_each(|number| overdue.on_sent(number, Some(2), 1000));
        let record = LongRecord { first: PACKETS - 10, asked: Cell::new(0) };
        assert!(overdue.wait(2, false, 0, &record));
        for _ in 0..10 {
            assert!(overdue.take_lost(&record).is_empty());
        }
        assert!(record.asked.get() < 1000, "{} questions", record.asked.get());
    }
}
