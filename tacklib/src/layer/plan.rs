//! What the next packet is to carry, and what room that takes.

use std::time::Instant;

use tack_packet::Departed;
use tack_proto::receiver::Due;
use tack_proto::sender::Departure;

use super::Layer;
use super::outgoing::Destination;
use crate::quiche_compat::{StoppedReads, StreamEnds};

/// Room for a TIMESTAMP frame.
pub(super) const TIMESTAMP_ROOM: usize = 10;

/// Room for an ACK_FREQUENCY frame.
const ACK_FREQUENCY_ROOM: usize = 24;

/// Room for an IMMEDIATE_ACK frame.
const IMMEDIATE_ACK_ROOM: usize = 1;

/// Room for a TACK and its TIMESTAMP in a packet that carries stream data too. Alone, it may fill
/// the packet.
pub(super) const TACK_ROOM: usize = 200;

/// Room for ECN counts behind quiche's acknowledgement: three numbers (RFC 9000 section 19.3.2).
const MOST_ECN_ROOM: usize = 3 * 8;

/// The most that quiche has to leave free.
pub const MOST_ROOM: usize = TIMESTAMP_ROOM
    + ACK_FREQUENCY_ROOM
    + TACK_ROOM
    + IMMEDIATE_ACK_ROOM
    + StreamEnds::MOST_ROOM
    + StoppedReads::MOST_ROOM
    + MOST_ECN_ROOM;

/// Ranges for which that is enough, of four bytes where hundreds of packets are in flight.
const RANGES_IN_ROOM: usize = 32;

/// Room that quiche may leave in a packet although it has more to send: too
/// little for another STREAM frame.
const UNUSABLE_ROOM: usize = 32;

/// What the next packet is to carry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// The acknowledgement that is due.
    pub due: Option<Due>,
    /// TIMESTAMP.
    pub timestamp: bool,
    /// ACK_FREQUENCY.
    pub update: bool,
    /// An acknowledgement is wanted at once, whatever the packet turns out to be.
    pub immediate_ack: bool,
    /// It is to elicit one, to tell whether what is due has arrived.
    pub wants_answer: bool,
    /// Room for ends of streams that quiche has forgotten, and for requests to stop.
    pub owed_room: usize,
    /// It is the last packet for a path that quiche no longer sends data on.
    pub flushes_path: bool,
    /// Stream data may leave in it.
    pub stream_data: bool,
    /// It is a probe of an expired timer (RFC 9002 section 6.2.4).
    pub is_probe: bool,
    /// quiche writes it to carry what is planned: it owes no acknowledgement, or has no room for it.
    pub is_carrier: bool,
    /// Its number is to be skipped if it carries nothing that matters, and these are the random bits
    /// for the distance to the next one.
    pub skip: Option<u64>,
    /// Room for ECN counts in quiche's acknowledgement, if it writes one.
    pub ecn_room: usize,
    /// It is to take half of what waits, so that there are two packets to measure the path with; so much
    /// waits, bytes.
    pub splits: Option<u64>,
    /// It is the end of a packet train, and nothing else.
    pub is_train_tail: bool,
    /// A DATAGRAM is waiting that may need the whole packet: quiche is to leave no room.
    pub leaves_no_room: bool,
}

impl Plan {
    /// The last packet for a path that quiche no longer sends data on.
    pub fn flush() -> Self {
        Self { flushes_path: true, ..Self::default() }
    }

    /// What is left of it for an address that is not proven, and may not be sent any amount
    /// (RFC 9000 section 8.1).
    #[must_use]
    pub fn to_unproven_address(self) -> Self {
        Self { timestamp: false, update: false, immediate_ack: false, owed_room: 0, ..self }
    }

    /// A packet whose number is skipped if nothing in it matters.
    pub fn skip(random: u64) -> Self {
        Self { skip: Some(random), is_carrier: true, ..Self::default() }
    }

    /// A packet that ends a packet train (TACK-6.8-7).
    pub fn train_tail() -> Self {
        Self { is_train_tail: true, is_carrier: true, ..Self::default() }
    }

    /// Holds the congestion invariant: stream data leaves only if the sender may send, or as a probe.
    #[inline]
    pub fn assert_may_carry(&self, stream_bytes: usize) {
        debug_assert!(
            stream_bytes == 0 || self.stream_data,
            "{stream_bytes} bytes of stream data in a packet that must not carry any"
        );
    }

    /// Whether the packet may leave as quiche wrote it.
    #[inline]
    pub fn adds_nothing(&self) -> bool {
        self.due.is_none() && self.adds_acknowledgement_at_most()
    }

    /// Whether it may where it carries an acknowledgement already.
    #[inline]
    pub fn adds_acknowledgement_at_most(&self) -> bool {
        self.skip.is_none()
            && !self.timestamp
            && !self.update
            && !self.immediate_ack
            && self.owed_room == 0
            && !self.flushes_path
            && !self.is_train_tail
    }

    /// Bytes that quiche has to leave free.
    #[inline]
    pub fn room(&self) -> usize {
        if self.leaves_no_room {
            return 0;
        }
        if self.adds_nothing() {
            return self.ecn_room;
        }
        let room_if = |is_planned, room| if is_planned { room } else { 0 };
        room_if(self.timestamp, TIMESTAMP_ROOM)
            + room_if(self.update, ACK_FREQUENCY_ROOM)
            + room_if(self.due.is_some(), TACK_ROOM)
            + room_if(self.immediate_ack, IMMEDIATE_ACK_ROOM)
            + self.owed_room
            + self.ecn_room
    }

    /// Whether quiche left room in the packet of `len` bytes that it could have
    /// filled: it has no more data.
    #[inline]
    pub fn is_tail(&self, len: usize, room: usize) -> bool {
        self.stream_data && self.splits.is_none() && len + self.room() + UNUSABLE_ROOM <= room
    }
}

/// The record of a packet that has left.
#[inline]
pub fn departure(departed: &Departed, ack_eliciting: bool, to: &Destination) -> Departure {
    Departure {
        packet_number: departed.packet_number,
        bytes: departed.len,
        ack_eliciting,
        path: to.path,
        is_probe: false,
        is_mtu_probe: departed.len > to.mtu,
        update: None,
        has_timestamp: false,
    }
}

impl Layer {
    /// Whether an acknowledgement that is due needs more room than there is beside stream data (TACK-4.1-3).
    pub fn is_long(&self, due: Due) -> bool {
        self.space.agreement.tack && self.space.receiver.names_more_than(RANGES_IN_ROOM, due)
    }

    /// What the next packet should carry. `stream_data` tells that stream data may leave, `due` what
    /// the receiver has to acknowledge, `datagrams` that DATAGRAMs wait in quiche.
    #[inline]
    pub fn plan(
        &self,
        now: Instant,
        stream_data: bool,
        due: Option<Due>,
        ends: &StreamEnds,
        datagrams: bool,
    ) -> Plan {
        let sender = &self.space.sender;
        let wants_answer =
            due.is_some() && self.space.agreement.tack && self.space.receiver.wants_answer(now);
        Plan {
            update: stream_data && sender.frequency_update().is_some(),
            timestamp: stream_data && self.space.agreement.tack && sender.wants_timestamp(now),
            immediate_ack: wants_answer || sender.wants_immediate_ack(now, false),
            wants_answer,
            owed_room: ends.room() + self.space.stopped_reads.room(),
            stream_data,
            due,
            ecn_room: self.space.ecn_room(),
            leaves_no_room: datagrams && stream_data,
            ..Plan::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unproven_address_gets_no_more_than_quiche_wrote_and_the_acknowledgement() {
        let plan = Plan {
            immediate_ack: true,
            owed_room: 18,
            due: Some(Due::Tack),
            ..Plan::default()
        };
        assert_eq!(plan.to_unproven_address().room(), TACK_ROOM);
        assert_eq!(plan.room(), TACK_ROOM + IMMEDIATE_ACK_ROOM + 18);
    }

    #[test]
    fn a_waiting_datagram_is_left_the_whole_packet() {
        let plan = Plan { due: Some(Due::Tack), ..Plan::default() };
        assert_eq!(Plan { leaves_no_room: true, ..plan }.room(), 0);
    }

    #[test]
    fn only_a_packet_that_may_carry_data_can_be_the_tail() {
        assert!(!Plan::default().is_tail(100, 1350));
        let plan = Plan { stream_data: true, ..Plan::default() };
        assert!(plan.is_tail(100, 1350));
        assert!(!plan.is_tail(1330, 1350));
    }
}
