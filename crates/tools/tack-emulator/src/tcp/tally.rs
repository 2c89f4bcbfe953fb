//! Counting what TCP sends, on the wire.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use tack_link::{Arrival, Direction, Packet, Time};

use super::segment::{Segment, is_before};
use crate::tun::Observer;

/// Whatever takes longer than an hour counts as an hour.
const LARGEST_US: u64 = 3_600_000_000;

/// Looks at the packets of one connection whose data goes forward.
pub(super) struct Tally {
    pub data_packets: u64,
    pub retransmitted: u64,
    pub ack_packets: u64,
    pub ack_bytes: u64,
    /// The shortest time from a data packet to its acknowledgement, both at the sender.
    pub min_rtt: Option<Duration>,
    /// How long data packets were on the link, in microseconds.
    delay_us: Histogram<u64>,
    /// The end of what has been sent.
    sent_end: Option<u32>,
    /// The ends of data packets that wait for their first acknowledgement, and when each left.
    unacknowledged: VecDeque<(u32, Time)>,
}

impl Tally {
    pub(super) fn new() -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self {
            data_packets: 0,
            retransmitted: 0,
            ack_packets: 0,
            ack_bytes: 0,
            min_rtt: None,
            delay_us: Histogram::new_with_max(LARGEST_US, 3)?,
            sent_end: None,
            unacknowledged: VecDeque::new(),
        })
    }

    /// 95th percentile of the time on the link, and how much of it exceeds the shortest: what
    /// packets spent waiting.
    pub(super) fn delay_and_queue_p95(&self) -> Option<(Duration, Duration)> {
        let p95 = (!self.delay_us.is_empty()).then(|| self.delay_us.value_at_quantile(0.95))?;
        let queue = p95.saturating_sub(self.delay_us.min());
        Some((Duration::from_micros(p95), Duration::from_micros(queue)))
    }

    fn data_sent(&mut self, segment: &Segment, now: Time) {
        self.data_packets += 1;
        let end = segment.end();
        if self.sent_end.is_some_and(|sent_end| is_before(segment.sequence, sent_end)) {
            self.retransmitted += 1;
            // Karn's algorithm: which copy an acknowledgement means is unknown, and those of
            // later packets may have waited for this one.
            self.unacknowledged.clear();
        } else {
            self.sent_end = Some(end);
            self.unacknowledged.push_back((end, now));
        }
    }

    fn acknowledged(&mut self, acknowledged: u32, now: Time) {
        let mut left = None;
        while let Some(&(end, time)) = self.unacknowledged.front() {
            if is_before(acknowledged, end) {
                break;
            }
            self.unacknowledged.pop_front();
            left = Some(time);
        }
        // The latest of them has waited least for the acknowledgement.
        if let Some(left) = left {
            let rtt = now.since(left);
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
    }
}

impl Observer for Tally {
    fn sent(&mut self, direction: Direction, packet: &Packet) {
        let Some(segment) = Segment::parse(&packet.bytes) else { return };
        match direction {
            Direction::Forward if segment.payload > 0 => self.data_sent(&segment, packet.sent),
            Direction::Reverse if segment.payload == 0 && !segment.is_control => {
                self.ack_packets += 1;
                self.ack_bytes += u64::from(packet.size);
            }
            _ => {}
        }
    }

    fn arrived(&mut self, arrival: &Arrival) {
        let Some(segment) = Segment::parse(&arrival.packet.bytes) else { return };
        match (arrival.direction, segment.acknowledged) {
            (Direction::Forward, _) if segment.payload > 0 => {
                let delay = arrival.at.since(arrival.packet.sent);
                let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
                self.delay_us.saturating_record(micros);
            }
            (Direction::Reverse, Some(acknowledged)) => {
                self.acknowledged(acknowledged, arrival.at);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::segment::tests::packet;

    const ACK: u8 = 0x10;

    fn at(millis: u64) -> Time {
        Time::from(Duration::from_millis(millis))
    }

    fn on_the_link(bytes: Vec<u8>, sent: Time) -> Packet {
        Packet::new(u32::try_from(bytes.len()).unwrap(), 0, sent, bytes)
    }

    /// Data bytes `from` up to `to`, sent at a millisecond.
    fn data(tally: &mut Tally, from: u32, to: u32, millis: u64) {
        let bytes = packet(from, 0, ACK, (to - from) as usize);
        tally.sent(Direction::Forward, &on_the_link(bytes, at(millis)));
    }

    /// An acknowledgement that reaches the sender at a millisecond.
    fn ack(tally: &mut Tally, acknowledged: u32, millis: u64) {
        let packet = on_the_link(packet(0, acknowledged, ACK, 0), at(millis));
        tally.sent(Direction::Reverse, &packet);
        let direction = Direction::Reverse;
        tally.arrived(&Arrival { at: at(millis), direction, packet });
    }

    #[test]
    fn a_packet_that_starts_in_what_was_sent_before_is_a_retransmission() {
        let mut tally = Tally::new().unwrap();
        data(&mut tally, 100, 200, 0);
        data(&mut tally, 200, 300, 0);
        data(&mut tally, 100, 200, 1);
        assert_eq!((tally.data_packets, tally.retransmitted), (3, 1));
    }

    #[test]
    fn sequence_numbers_that_wrap_are_not_retransmissions() {
        let mut tally = Tally::new().unwrap();
        tally.sent(Direction::Forward, &on_the_link(packet(u32::MAX - 49, 0, ACK, 100), at(0)));
        data(&mut tally, 50, 150, 0);
        assert_eq!(tally.retransmitted, 0);
    }

    #[test]
    fn pure_acknowledgements_are_counted_with_their_bytes() {
        let mut tally = Tally::new().unwrap();
        ack(&mut tally, 1, 0);
        ack(&mut tally, 2, 0);
        assert_eq!((tally.ack_packets, tally.ack_bytes), (2, 80));
    }

    #[test]
    fn handshake_packets_are_neither_data_nor_acknowledgements() {
        let mut tally = Tally::new().unwrap();
        let syn = on_the_link(packet(0, 0, 0x02, 0), at(0));
        tally.sent(Direction::Forward, &syn);
        tally.sent(Direction::Reverse, &on_the_link(packet(0, 1, 0x12, 0), at(0)));
        assert_eq!((tally.data_packets, tally.ack_packets), (0, 0));
    }

    #[test]
    fn the_rtt_is_taken_from_the_newest_packet_of_an_acknowledgement() {
        let mut tally = Tally::new().unwrap();
        data(&mut tally, 0, 100, 0);
        data(&mut tally, 100, 200, 8);
        ack(&mut tally, 200, 20);
        assert_eq!(tally.min_rtt, Some(Duration::from_millis(12)));
    }

    #[test]
    fn a_retransmitted_packet_gives_no_rtt() {
        let mut tally = Tally::new().unwrap();
        data(&mut tally, 0, 100, 0);
        data(&mut tally, 0, 100, 30);
        ack(&mut tally, 100, 31);
        assert_eq!(tally.min_rtt, None);
    }

    #[test]
    fn the_queue_is_what_exceeds_the_shortest_delay() {
        let mut tally = Tally::new().unwrap();
        for delay in [20, 25, 30] {
            let packet = on_the_link(packet(0, 0, ACK, 100), at(0));
            let direction = Direction::Forward;
            tally.arrived(&Arrival { at: at(delay), direction, packet });
        }
        let (delay, queue) = tally.delay_and_queue_p95().unwrap();
        assert_eq!((delay.as_micros() / 100, queue.as_micros() / 100), (300, 100));
    }

    #[test]
    fn without_data_there_is_no_delay() {
        assert_eq!(Tally::new().unwrap().delay_and_queue_p95(), None);
    }
}
