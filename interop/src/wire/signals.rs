//! What the frames in 1-RTT packets ask of their receiver, and how it answers.

use std::collections::{HashSet, VecDeque};
use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;
use tack_link::Ecn;
use tack_proto::frame::{AckRanges, EcnCounts, Frame, Frames, Located};
use tack_tap::{Direction, OpenedPacket};

/// Ack-eliciting packets that need no acknowledgement where nothing else is asked for (RFC 9000
/// section 13.2.2).
const DEFAULT_THRESHOLD: u64 = 1;
/// `max_ack_delay` where an end announces none (RFC 9000 section 18.2).
const DEFAULT_HOLD_US: u64 = 25_000;
/// Requests that are remembered, and answers that are awaited: a peer may send any number.
const MOST: usize = 1000;

/// What one end asked of the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Signals {
    /// Its ACK_FREQUENCY frames.
    pub frequencies: Vec<Frequency>,
    /// For each IMMEDIATE_ACK that was answered, and that alone could be the reason for an
    /// acknowledgement at once: the time from where it passed to where the first acknowledgement of
    /// its packet did, in milliseconds.
    pub answers_ms: Vec<f64>,
    /// For each of these answers: how long the other end might have held it back otherwise, in
    /// milliseconds.
    pub holds_ms: Vec<f64>,
    /// IMMEDIATE_ACKs that were answered and decide nothing: a packet was missing before them, or
    /// enough had come for an acknowledgement anyway.
    pub answered_anyway: u64,
    /// How many times it changed its keys, on the connection where it did so most.
    pub key_updates: u64,
    /// Its packets under keys other than the first ones.
    pub packets_with_new_keys: u64,
    /// When it sent the first of those, in seconds since the record began.
    pub new_keys_seconds: Option<f64>,
    /// Its ack-eliciting packets.
    pub ack_eliciting: u64,
    /// When it sent the last of those, in seconds since the record began.
    pub ack_eliciting_until_seconds: f64,
    /// Its DATAGRAM frames.
    pub datagrams: u64,
    /// Those that the other end acknowledged: what its socket dropped has come out of the link, and
    /// its QUIC has not seen it.
    pub datagrams_acknowledged: u64,
    /// DATAGRAM frames of the other end whose data it had sent before.
    pub datagrams_returned: u64,
    /// Its 1-RTT packets that left with an ECT codepoint.
    pub marked: u64,
    /// Those that reached the other end.
    pub marked_arrived: u64,
    /// Its acknowledgements with ECN counts.
    pub ecn_acks: u64,
    /// The sum of the counts in the last of those: marked packets of the other end.
    pub reported_marks: u64,
}

/// An ACK_FREQUENCY frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Frequency {
    /// Its sequence number.
    pub sequence: u64,
    /// Ack-eliciting packets that need no acknowledgement.
    pub threshold: u64,
    /// The longest wait for one, in microseconds.
    pub max_ack_delay_us: u64,
    /// When it was sent, in seconds since the record began.
    pub at_seconds: f64,
    /// Ack-eliciting packets that its sender had sent before.
    pub packets_before: u64,
    /// It reached the other end.
    pub arrived: bool,
}

/// Follows the packets of both ends.
#[derive(Debug, Default)]
pub struct Conversation {
    to_server: Asking,
    to_client: Asking,
}

#[derive(Debug, Default)]
struct Asking {
    signals: Signals,
    /// Packets with IMMEDIATE_ACK.
    unanswered: VecDeque<Request>,
    /// The newest ack-eliciting packets that reached the other end and that it has not
    /// acknowledged, nor anything newer.
    held: VecDeque<u64>,
    /// A packet was lost since the last ack-eliciting one that reached the other end, which
    /// acknowledges the next one at once (RFC 9000 section 13.2.1).
    is_gap_open: bool,
    /// The data of its DATAGRAM frames that has not come back.
    datagrams: HashSet<Vec<u8>>,
    /// The packets of its DATAGRAM frames that are not acknowledged, once for each frame.
    unacknowledged: Vec<u64>,
}

/// A packet with IMMEDIATE_ACK.
#[derive(Debug)]
struct Request {
    number: u64,
    at: Duration,
    /// A packet is missing before it, or it is missing itself.
    is_behind_gap: bool,
    /// Ack-eliciting packets that need no acknowledgement.
    threshold: u64,
    /// How long the other end may hold an acknowledgement back.
    hold_us: u64,
}

impl Conversation {
    /// Looks into a packet, which left with that ECN field, and reached the other end or did not.
    pub fn packet(
        &mut self,
        at: Duration,
        direction: Direction,
        (arrived, ecn): (bool, Ecn),
        packet: OpenedPacket<'_>,
    ) {
        let (sender, receiver) = match direction {
            Direction::ToServer => (&mut self.to_server, &mut self.to_client),
            Direction::ToClient => (&mut self.to_client, &mut self.to_server),
        };
        sender.note_keys(at, packet);
        if ecn != Ecn::NotEct {
            sender.signals.marked += 1;
            sender.signals.marked_arrived += u64::from(arrived);
        }
        let frames = || Frames::new(packet.payload).map_while(Result::ok);
        let is_ack_eliciting = frames().any(|located| located.frame.is_ack_eliciting());
        sender.note_fate(arrived, is_ack_eliciting, packet.number);
        for located in frames() {
            sender.note_request(at, arrived, packet, &located);
            match located.frame {
                Frame::Ack(ack) => {
                    sender.note_counts(ack.ecn);
                    receiver.answered(at, &ack.ranges);
                }
                Frame::Tack(tack) => {
                    sender.note_counts(tack.ecn);
                    receiver.answered(at, &tack.ranges);
                }
                Frame::Iack(iack) => {
                    sender.note_counts(iack.ecn);
                    receiver.answered(at, &iack.ranges);
                }
                Frame::Datagram { len } => {
                    let data = datagram(packet.payload, &located, len);
                    sender.signals.datagrams += 1;
                    if sender.unacknowledged.len() < MOST {
                        sender.unacknowledged.push(packet.number);
                    }
                    if receiver.datagrams.remove(data) {
                        receiver.signals.datagrams_returned += 1;
                    } else if sender.datagrams.len() < MOST {
                        sender.datagrams.insert(data.to_vec());
                    }
                }
                _ => {}
            }
        }
        if is_ack_eliciting {
            sender.signals.ack_eliciting += 1;
            sender.signals.ack_eliciting_until_seconds = at.as_secs_f64();
            sender.is_gap_open &= !arrived;
        }
    }

    /// What was sent to the server, and what to the client.
    pub fn into_signals(self) -> (Signals, Signals) {
        (self.to_server.signals, self.to_client.signals)
    }
}

/// The data of a DATAGRAM frame, which is the end of the frame.
fn datagram<'a>(payload: &'a [u8], located: &Located<'_>, len: usize) -> &'a [u8] {
    payload.get(located.range.end.saturating_sub(len)..located.range.end).unwrap_or_default()
}

/// Adds what an end asked on another connection.
impl AddAssign for Signals {
    fn add_assign(&mut self, other: Self) {
        self.frequencies.extend(other.frequencies);
        self.answers_ms.extend(other.answers_ms);
        self.holds_ms.extend(other.holds_ms);
        self.answered_anyway += other.answered_anyway;
        self.key_updates = self.key_updates.max(other.key_updates);
        self.packets_with_new_keys += other.packets_with_new_keys;
        self.new_keys_seconds = self.new_keys_seconds.or(other.new_keys_seconds);
        self.ack_eliciting += other.ack_eliciting;
        self.ack_eliciting_until_seconds =
            self.ack_eliciting_until_seconds.max(other.ack_eliciting_until_seconds);
        self.datagrams += other.datagrams;
        self.datagrams_acknowledged += other.datagrams_acknowledged;
        self.datagrams_returned += other.datagrams_returned;
        self.marked += other.marked;
        self.marked_arrived += other.marked_arrived;
        self.ecn_acks += other.ecn_acks;
        self.reported_marks += other.reported_marks;
    }
}

impl Asking {
    fn note_keys(&mut self, at: Duration, packet: OpenedPacket<'_>) {
        let signals = &mut self.signals;
        signals.key_updates = signals.key_updates.max(packet.key_updates);
        if packet.key_updates > 0 {
            signals.packets_with_new_keys += 1;
            signals.new_keys_seconds.get_or_insert(at.as_secs_f64());
        }
    }

    /// A packet reached the other end or did not. Those before it have been looked into.
    fn note_fate(&mut self, arrived: bool, is_ack_eliciting: bool, number: u64) {
        self.is_gap_open |= !arrived;
        if arrived && is_ack_eliciting {
            self.held.push_back(number);
            // One more than that is acknowledged by any end.
            if self.held.len() > MOST {
                self.held.pop_front();
            }
        }
    }

    fn note_request(
        &mut self,
        at: Duration,
        arrived: bool,
        packet: OpenedPacket<'_>,
        located: &Located<'_>,
    ) {
        match &located.frame {
            Frame::ImmediateAck if self.unanswered.len() < MOST => {
                let in_force = self.signals.frequencies.iter().rfind(|frame| frame.arrived);
                self.unanswered.push_back(Request {
                    number: packet.number,
                    at,
                    is_behind_gap: self.is_gap_open,
                    threshold: in_force.map_or(DEFAULT_THRESHOLD, |frame| frame.threshold),
                    hold_us: in_force.map_or(DEFAULT_HOLD_US, |frame| frame.max_ack_delay_us),
                });
            }
            Frame::AckFrequency(update) if self.signals.frequencies.len() < MOST => {
                let frequency = Frequency {
                    sequence: update.sequence,
                    threshold: update.ack_eliciting_threshold,
                    max_ack_delay_us: update.requested_max_ack_delay_us,
                    at_seconds: at.as_secs_f64(),
                    packets_before: self.signals.ack_eliciting,
                    arrived,
                };
                self.signals.frequencies.push(frequency);
            }
            _ => {}
        }
    }

    fn note_counts(&mut self, counts: Option<EcnCounts>) {
        let Some(EcnCounts { ect0, ect1, ce }) = counts else { return };
        let reported = ect0.saturating_add(ect1).saturating_add(ce);
        self.signals.ecn_acks += 1;
        self.signals.reported_marks = self.signals.reported_marks.max(reported);
    }

    fn answered(&mut self, at: Duration, ranges: &AckRanges<'_>) {
        let Self { signals, unanswered, unacknowledged, held, .. } = self;
        let is_in = |number: &u64| ranges.iter().any(|range| range.contains(number));
        let named = held.iter().filter(|number| **number <= ranges.largest()).count() as u64;
        unanswered.retain(|asked| {
            if !is_in(&asked.number) {
                return true;
            }
            if asked.is_behind_gap || named > asked.threshold {
                signals.answered_anyway += 1;
            } else {
                let after = at.saturating_sub(asked.at);
                signals.answers_ms.push(after.as_secs_f64() * 1e3);
                signals.holds_ms.push(asked.hold_us as f64 / 1e3);
            }
            false
        });
        held.retain(|number| *number > ranges.largest());
        let before = unacknowledged.len();
        unacknowledged.retain(|number| !is_in(number));
        signals.datagrams_acknowledged += (before - unacknowledged.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ToClient, ToServer};

    const MS: Duration = Duration::from_millis(1);

    fn packet(number: u64, key_updates: u64, payload: &[u8]) -> OpenedPacket<'_> {
        OpenedPacket { number, key_updates, payload }
    }

    #[test]
    fn an_answer_is_the_first_acknowledgement_of_the_very_packet() {
        let mut conversation = Conversation::default();
        conversation.packet(10 * MS, ToServer, (true, Ecn::NotEct), packet(4, 0, &[0x1f]));
        conversation.packet(
            12 * MS,
            ToClient,
            (true, Ecn::NotEct),
            packet(0, 0, &[0x02, 3, 0, 0, 3]),
        );
        conversation.packet(
            17 * MS,
            ToClient,
            (true, Ecn::NotEct),
            packet(1, 0, &[0x02, 5, 0, 0, 5]),
        );
        conversation.packet(
            19 * MS,
            ToClient,
            (true, Ecn::NotEct),
            packet(2, 0, &[0x02, 6, 0, 0, 6]),
        );
        let (to_server, to_client) = conversation.into_signals();
        assert_eq!(to_server.answers_ms, [7.0]);
        assert_eq!(to_client, Signals::default());
    }

    /// An IMMEDIATE_ACK in packet 4, behind others of these numbers and fates, and an
    /// acknowledgement of all up to it.
    fn asked_behind(before: &[(u64, bool)], frame: &[u8]) -> Signals {
        let mut conversation = Conversation::default();
        let mut pass = |direction, arrived, number, payload: &[u8]| {
            let fate = (arrived, Ecn::NotEct);
            conversation.packet(10 * MS, direction, fate, packet(number, 0, payload));
        };
        pass(ToServer, true, 0, frame);
        pass(ToClient, true, 0, &[0x02, 0, 0, 0, 0]);
        for (number, arrived) in before {
            pass(ToServer, *arrived, *number, &[0x01]);
        }
        pass(ToServer, true, 4, &[0x1f]);
        pass(ToClient, true, 1, &[0x02, 4, 0, 0, 4]);
        conversation.into_signals().0
    }

    #[test]
    fn an_immediate_ack_behind_a_missing_packet_decides_nothing() {
        const PING: &[u8] = &[0x01];
        let in_order = asked_behind(&[], PING);
        assert_eq!((in_order.answers_ms.len(), in_order.answered_anyway), (1, 0));
        assert_eq!(in_order.holds_ms, [25.0]);
        let behind = asked_behind(&[(1, false), (2, false), (3, false)], PING);
        assert_eq!((behind.answers_ms.len(), behind.answered_anyway), (0, 1));
        let repaired =
            asked_behind(&[(1, false), (2, true)], &[0x40, 0xaf, 0, 9, 0x52, 0x08, 1]);
        assert_eq!(repaired.answers_ms.len(), 1, "the gap was told of with the packet before");
        assert_eq!(repaired.holds_ms, [4.616]);
    }

    #[test]
    fn an_immediate_ack_with_as_many_packets_as_are_acknowledged_anyway_decides_nothing() {
        let two = asked_behind(&[(3, true)], &[0x01]);
        assert_eq!((two.answers_ms.len(), two.answered_anyway), (0, 1));
        let frame = [0x40, 0xaf, 0, 3, 0x52, 0x08, 1];
        assert_eq!(asked_behind(&[(2, true), (3, true)], &frame).answers_ms.len(), 1);
        let four = asked_behind(&[(1, true), (2, true), (3, true)], &frame);
        assert_eq!(four.answers_ms.len(), 0);
    }

    #[test]
    fn frequencies_are_kept_with_their_place_among_the_packets() {
        let mut conversation = Conversation::default();
        let frame = [0x40, 0xaf, 2, 9, 0x59, 0x88, 1];
        conversation.packet(MS, ToClient, (true, Ecn::NotEct), packet(3, 0, &[0x01]));
        conversation.packet(2 * MS, ToClient, (false, Ecn::NotEct), packet(4, 0, &frame));
        let (_, to_client) = conversation.into_signals();
        let asked = Frequency {
            sequence: 2,
            threshold: 9,
            max_ack_delay_us: 0x1988,
            at_seconds: 0.002,
            packets_before: 1,
            arrived: false,
        };
        assert_eq!(to_client.frequencies, [asked]);
        assert_eq!(to_client.ack_eliciting, 2);
        assert!((to_client.ack_eliciting_until_seconds - 0.002).abs() < 1e-9);
    }

    #[test]
    fn key_updates_are_counted_with_the_packets_that_follow_them() {
        let mut conversation = Conversation::default();
        for (number, updates) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
            let at = MS * (1 + number as u32);
            conversation.packet(
                at,
                ToServer,
                (true, Ecn::NotEct),
                packet(number, updates, &[0x01]),
            );
        }
        let (to_server, to_client) = conversation.into_signals();
        assert_eq!((to_server.key_updates, to_server.packets_with_new_keys), (1, 2));
        assert_eq!(to_server.new_keys_seconds, Some(0.002));
        assert_eq!(to_client.new_keys_seconds, None);
    }

    #[test]
    fn a_datagram_comes_back_once_and_unchanged_or_not_at_all() {
        let mut conversation = Conversation::default();
        conversation.packet(
            MS,
            ToServer,
            (true, Ecn::NotEct),
            packet(0, 0, &[0x31, 2, 7, 8, 0x30, 9]),
        );
        conversation.packet(MS, ToClient, (true, Ecn::NotEct), packet(0, 0, &[0x30, 7, 8]));
        conversation.packet(MS, ToClient, (true, Ecn::NotEct), packet(1, 0, &[0x30, 7, 8]));
        conversation.packet(MS, ToClient, (true, Ecn::NotEct), packet(2, 0, &[0x30, 10]));
        let (to_server, to_client) = conversation.into_signals();
        assert_eq!((to_server.datagrams, to_server.datagrams_returned), (2, 1));
        assert_eq!((to_client.datagrams, to_client.datagrams_returned), (3, 0));
    }

    #[test]
    fn datagrams_count_as_acknowledged_when_an_acknowledgement_covers_their_packet() {
        let mut conversation = Conversation::default();
        let mut pass = |direction, number, payload: &[u8]| {
            conversation.packet(MS, direction, (true, Ecn::NotEct), packet(number, 0, payload));
        };
        pass(ToServer, 0, &[0x31, 2, 7, 8, 0x30, 9]); // two frames
        pass(ToServer, 1, &[0x30, 10]);
        pass(ToServer, 2, &[0x30, 11]);
        pass(ToClient, 0, &[0x02, 0, 0, 0, 0]);
        pass(ToClient, 1, &[0x02, 2, 0, 1, 0, 0, 0]); // 2 and 0, which was acknowledged before
        let (to_server, to_client) = conversation.into_signals();
        assert_eq!((to_server.datagrams, to_server.datagrams_acknowledged), (4, 3));
        assert_eq!(to_client.datagrams_acknowledged, 0);
    }

    #[test]
    fn marks_are_counted_with_what_the_other_end_reports_of_them() {
        let mut conversation = Conversation::default();
        for (number, arrived) in [(0, true), (1, false), (2, true)] {
            let ping = packet(number, 0, &[0x01]);
            conversation.packet(MS, ToServer, (arrived, Ecn::Ect0), ping);
        }
        let ack = [0x03, 2, 0, 1, 0, 0, 0, 2, 0, 0];
        conversation.packet(MS, ToClient, (true, Ecn::NotEct), packet(0, 0, &ack));
        let (to_server, to_client) = conversation.into_signals();
        assert_eq!((to_server.marked, to_server.marked_arrived), (3, 2));
        assert_eq!((to_client.ecn_acks, to_client.reported_marks), (1, 2));
        assert_eq!((to_client.marked, to_server.ecn_acks), (0, 0));
    }
}
