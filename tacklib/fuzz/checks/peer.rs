//! A peer with valid keys whose packets are made by hand.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tack_packet::{CipherSuite, DatagramLayout, ProtectionKeys, ShortHeader, TAG_LEN};
use tack_proto::frame::{Frame, Frames, TackFields, encode_ack, encode_tack};
use tack_proto::range_set::RangeSet;
use tack_proto::varint;

use super::ends::{CID_LEN, End, Log, Side};

/// The mark, or the reserved bits of a peer that did not negotiate it.
const MARK: u8 = 0x18;

const KEY_PHASE: u8 = 0x04;

/// Ranges in an acknowledgement.
const RANGES: usize = 64;

/// Room for an acknowledgement.
const BUDGET: usize = 1000;

/// Packets with a PING and nothing else that may come: some for each step, and for the transfer behind.
const MOST_PINGS: usize = 1000;

/// What is in the header of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Header {
    pub number: u64,
    pub marked: bool,
    /// It is the first of the peer's next keys.
    pub updates_key: bool,
}

/// Seals packets for the end that is checked, and reads what comes from there.
pub struct Peer {
    side: Side,
    sealing: ProtectionKeys,
    opening: ProtectionKeys,
    dcid: Vec<u8>,
    /// Lengths of the connection ids that it may be sent to.
    id_lens: Vec<usize>,
    /// The next packet number.
    pub next: u64,
    expected: u64,
    received: RangeSet,
    received_bytes: u64,
    /// Packets with a PING and nothing else.
    pings: usize,
    sequence: u64,
    /// Since when an acknowledgement is owed.
    pub owes_since: Option<Instant>,
    challenges: Vec<[u8; 8]>,
    /// The first packet of its current keys, until that or a later one is acknowledged: before, it
    /// may not update them again (RFC 9001 section 6.1).
    updated_at: Option<u64>,
    /// Where it was last sent to.
    pub address: SocketAddr,
    /// The stream that is followed, and what has arrived of it.
    followed: Option<u64>,
    arrived: RangeSet,
    final_size: Option<u64>,
}

impl Peer {
    /// Takes over from the end `side` after the handshake; `seen` is what both have sent.
    pub fn new(side: Side, end: &mut dyn End, keys: &Log, seen: &[(Side, Vec<u8>)]) -> Self {
        let name = end.quic_mut().as_mut().current_cipher().unwrap().name().to_owned();
        let suite = CipherSuite::from_name(&name).unwrap();
        let of =
            |side: Side| ProtectionKeys::new(suite, &keys.secret(side.secret_label())).unwrap();
        let mut peer = Self {
            side,
            sealing: of(side),
            opening: of(side.peer()),
            dcid: end.quic().destination_id().to_vec(),
            id_lens: vec![CID_LEN],
            next: 0,
            expected: 0,
            received: RangeSet::new(4096),
            received_bytes: 0,
            pings: 0,
            sequence: 0,
            owes_since: None,
            challenges: Vec::new(),
            updated_at: None,
            address: side.address(),
            followed: None,
            arrived: RangeSet::new(4096),
            final_size: None,
        };
        for (sender, datagram) in seen {
            if *sender == side {
                peer.skip_number_of(datagram);
            } else {
                peer.receive(datagram, side.address());
            }
        }
        peer
    }

    /// A packet of the genuine end's: its number is used.
    fn skip_number_of(&mut self, datagram: &[u8]) {
        let Some(at) = DatagramLayout::parse(datagram).one_rtt else { return };
        let mut packet = datagram[at..].to_vec();
        if let Ok(opened) = self.sealing.open(&mut packet, self.dcid.len(), self.next) {
            self.next = self.next.max(opened.header.packet_number + 1);
            self.note_own(&packet[opened.payload]);
        }
    }

    /// A datagram of one packet.
    pub fn seal(&mut self, header: Header, payload: &[u8]) -> Vec<u8> {
        let may_update = header.number >= self.next && self.updated_at.is_none();
        let generation =
            self.sealing.generation() + u64::from(header.updates_key && may_update);
        let mut first_byte = 0x43;
        if header.marked {
            first_byte |= MARK;
        }
        if generation % 2 == 1 {
            first_byte |= KEY_PHASE;
        }
        let mut packet = vec![first_byte];
        packet.extend_from_slice(&self.dcid);
        packet.extend_from_slice(&(header.number as u32).to_be_bytes());
        let header = ShortHeader {
            first_byte,
            packet_number: header.number,
            pn_len: 4,
            header_len: packet.len(),
        };
        packet.extend_from_slice(payload);
        // Header protection needs as much (RFC 9001 section 5.4.2).
        let len = payload.len().max(4);
        packet.resize(header.header_len + len + TAG_LEN, 0);
        self.sealing.seal(generation, &mut packet, &header, len).unwrap();
        if generation > self.sealing.generation() {
            // Opening it makes the next keys the current ones.
            let expected = header.packet_number;
            self.sealing.open(&mut packet.clone(), self.dcid.len(), expected).unwrap();
            self.updated_at = Some(header.packet_number);
        }
        self.next = self.next.max(header.packet_number + 1);
        self.note_own(payload);
        packet
    }

    /// What it says itself, it must not contradict later.
    fn note_own(&mut self, payload: &[u8]) {
        for located in Frames::new(payload) {
            match located.map(|located| located.frame) {
                Ok(Frame::Tack(tack)) => {
                    self.sequence = self.sequence.max(tack.sequence + 1).min(varint::MAX);
                }
                Ok(Frame::NewConnectionId { cid, .. }) => self.id_lens.push(cid.len()),
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }

    /// Reads a datagram that was sent to `address`.
    pub fn receive(&mut self, datagram: &[u8], address: SocketAddr) {
        self.address = address;
        let Some(at) = DatagramLayout::parse(datagram).one_rtt else { return };
        let packet = &datagram[at..];
        for len in self.id_lens.clone() {
            let mut packet = packet.to_vec();
            let Ok(opened) = self.opening.open(&mut packet, len, self.expected) else {
                continue;
            };
            let number = opened.header.packet_number;
            assert!(self.received.insert(number), "packet number {number} was used twice");
            self.expected = self.expected.max(number + 1);
            if self.read(&packet[opened.payload]) {
                self.received_bytes += (datagram.len() - at) as u64;
                self.owes_since.get_or_insert_with(Instant::now);
            }
            return;
        }
        assert!(datagram.len() < 40, "a packet of {} bytes cannot be read", datagram.len());
    }

    /// Reads frames, which must be valid; whether they elicit an acknowledgement.
    fn read(&mut self, payload: &[u8]) -> bool {
        let (mut ack_eliciting, mut says_something) = (false, false);
        for located in Frames::new(payload) {
            let frame = located.unwrap().frame;
            ack_eliciting |= frame.is_ack_eliciting();
            says_something |= !matches!(frame, Frame::Ping | Frame::Padding { .. });
            match frame {
                Frame::PathChallenge(data) => self.challenges.push(data),
                Frame::Ack(ack) => self.on_acknowledged(ack.ranges.largest()),
                Frame::Tack(tack) => self.on_acknowledged(tack.ranges.largest()),
                Frame::Stream(stream) if self.followed == Some(stream.stream_id) => {
                    if stream.len > 0 {
                        let data = stream.data();
                        self.arrived.insert_range(data.start..=data.end - 1);
                    }
                    if stream.fin {
                        self.final_size = Some(stream.data().end);
                    }
                }
                _ => {}
            }
        }
        self.pings += usize::from(!says_something);
        assert!(self.pings <= MOST_PINGS, "it sends PINGs for ever");
        ack_eliciting
    }

    fn on_acknowledged(&mut self, largest: u64) {
        if self.updated_at.is_some_and(|first| first <= largest) {
            self.updated_at = None;
        }
    }

    /// Acknowledges all that has come, as an honest peer does, and answers path challenges.
    pub fn answer(&mut self, is_tack: bool) -> Vec<u8> {
        let since = self.owes_since.take();
        let delay = since.map_or(Duration::ZERO, |since| since.elapsed());
        let ack_delay_us = delay.as_micros() as u64;
        let mut frames = Vec::new();
        let ranges: Vec<_> = self.received.iter().rev().take(RANGES).collect();
        if is_tack {
            let fields = TackFields {
                sequence: self.sequence,
                ack_delay_us,
                received_bytes: self.received_bytes,
                ..TackFields::default()
            };
            encode_tack(&mut frames, &fields, ranges.into_iter(), std::iter::empty(), BUDGET);
        } else if !ranges.is_empty() {
            encode_ack(&mut frames, ranges.into_iter(), ack_delay_us >> 3, None, BUDGET);
        }
        for data in std::mem::take(&mut self.challenges) {
            frames.push(0x1b);
            frames.extend_from_slice(&data);
            frames.resize(1150, 0);
        }
        // The other end may have updated its keys.
        let updates_key = self.opening.generation() > self.sealing.generation();
        self.seal(Header { number: self.next, marked: is_tack, updates_key }, &frames)
    }

    /// Starts to follow a stream of the other end's.
    pub fn follow(&mut self, stream_id: u64) {
        self.followed = Some(stream_id);
    }

    /// Whether all of that stream has arrived.
    pub fn has_all(&self) -> bool {
        let arrived = self.arrived.range_of(0).map_or(0, |range| range.end() + 1);
        self.final_size == Some(arrived)
    }
}
