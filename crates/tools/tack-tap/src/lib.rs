//! Opens the 1-RTT packets of both ends of a connection with the keys from a key log, and counts
//! their frames.
//!
//! A tap follows one connection. Its connection ids may change; their length, which the tap learns
//! from the handshake, may not.

#![forbid(unsafe_code)]

mod key_log;
mod range_set;

use std::{
    collections::HashMap,
    ops::{AddAssign, Range},
};

use tack_packet::{CipherSuite, IncomingKeys, Opened, Packet, packets};
use tack_proto::frame::{Frame, Frames, Located};

pub use self::{key_log::KeyLog, range_set::RangeSet};

/// Which end a datagram goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// Data in a STREAM frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamData {
    /// The stream.
    pub stream_id: u64,
    /// Offsets of the data in the stream.
    pub range: Range<u64>,
    /// How many of its bytes had been sent before.
    pub retransmitted: u64,
}

/// A 1-RTT packet that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedPacket<'a> {
    /// Its number.
    pub number: u64,
    /// How many key updates came before the keys that opened it.
    pub key_updates: u64,
    /// The frames in it.
    pub payload: &'a [u8],
}

/// What one end sent in 1-RTT packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TapCounters {
    /// Packets opened.
    pub packets: u64,
    /// Their length in bytes.
    pub bytes: u64,
    /// Packets with a STREAM frame.
    pub data_packets: u64,
    /// Packets that only acknowledge: no frame in them is ack-eliciting, but a PING or an IMMEDIATE_ACK, by which the
    /// receiver wants to hear whether the acknowledgement has arrived.
    pub ack_packets: u64,
    /// Length of those in bytes.
    pub ack_path_bytes: u64,
    /// ACK frames.
    pub ack_frames: u64,
    /// TACK frames.
    pub tacks: u64,
    /// IACK frames.
    pub iacks: u64,
    /// ACK_FREQUENCY frames.
    pub ack_frequency: u64,
    /// IMMEDIATE_ACK frames.
    pub immediate_acks: u64,
    /// TIMESTAMP frames.
    pub timestamps: u64,
    /// PATH_CHALLENGE frames.
    pub path_challenges: u64,
    /// PATH_RESPONSE frames.
    pub path_responses: u64,
    /// Bytes of data in STREAM frames.
    pub stream_bytes: u64,
    /// Those among them that had been sent before.
    pub retransmitted_stream_bytes: u64,
    /// Packets with a frame that could not be read; the frames before it are counted.
    pub malformed: u64,
    /// Packets that no key opened: of another connection, before the key log had a key, or
    /// stateless resets.
    pub undecryptable: u64,
}

/// Counts what passes in both directions.
pub struct Tap {
    key_log: KeyLog,
    to_server: Sender,
    to_client: Sender,
}

impl Tap {
    /// A tap for the first connection whose secrets arrive in `key_log`.
    pub fn new(key_log: KeyLog) -> Self {
        Self {
            key_log,
            to_server: Sender::new(Direction::ToServer),
            to_client: Sender::new(Direction::ToClient),
        }
    }

    /// What was sent in one direction so far.
    pub const fn counters(&self, direction: Direction) -> &TapCounters {
        match direction {
            Direction::ToServer => &self.to_server.counters,
            Direction::ToClient => &self.to_client.counters,
        }
    }

    /// Counts a datagram as the endpoint sent it.
    pub fn datagram(&mut self, direction: Direction, bytes: &[u8]) {
        self.inspect(direction, bytes, |_| {});
    }

    /// Counts a datagram, and shows the stream data in it.
    pub fn inspect(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        mut data: impl FnMut(StreamData),
    ) {
        self.look(direction, bytes, &mut data, &mut |_| {});
    }

    /// Counts a datagram, and shows the packets in it that were opened.
    pub fn open(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        mut opened: impl FnMut(OpenedPacket<'_>),
    ) {
        self.look(direction, bytes, &mut |_| {}, &mut opened);
    }

    fn look(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        data: &mut dyn FnMut(StreamData),
        opened: &mut dyn FnMut(OpenedPacket<'_>),
    ) {
        let (sender, peer) = match direction {
            Direction::ToServer => (&mut self.to_server, &mut self.to_client),
            Direction::ToClient => (&mut self.to_client, &mut self.to_server),
        };
        for packet in packets(bytes) {
            match packet {
                // What one end calls itself is what the other will write.
                Packet::Long(long) if long.header.packet_type.is_protected() => {
                    peer.dcid_len = long.header.scid.len();
                }
                Packet::Long(_) => {}
                Packet::Short(packet) => {
                    sender.packet(packet, &self.key_log, data, opened);
                }
            }
        }
    }
}

/// One end of the connection, as the origin of packets.
struct Sender {
    direction: Direction,
    /// None before the key log has the secret. Then one for each suite that takes a secret of
    /// this length, as a key log does not name the suite; the one that opens a packet stays.
    keys: Vec<IncomingKeys>,
    /// The frames of the packet that was opened last.
    scratch: Vec<u8>,
    /// Length of the connection id in its short headers.
    dcid_len: usize,
    expected_pn: u64,
    streams: HashMap<u64, RangeSet>,
    counters: TapCounters,
}

impl Sender {
    fn new(direction: Direction) -> Self {
        Self {
            direction,
            keys: Vec::new(),
            scratch: Vec::new(),
            dcid_len: 0,
            expected_pn: 0,
            streams: HashMap::new(),
            counters: TapCounters::default(),
        }
    }

    fn packet(
        &mut self,
        packet: &[u8],
        key_log: &KeyLog,
        data: &mut dyn FnMut(StreamData),
        opened: &mut dyn FnMut(OpenedPacket<'_>),
    ) {
        if self.keys.is_empty()
            && let Some(secret) = key_log.secret(self.direction)
        {
            let keys = |suite| IncomingKeys::new(suite, &secret).ok();
            self.keys = CipherSuite::ALL.into_iter().filter_map(keys).collect();
        }
        let Some(Opened { header, payload, generation, .. }) = self.open(packet) else {
            self.counters.undecryptable += 1;
            return;
        };
        self.expected_pn = self.expected_pn.max(header.packet_number + 1);
        self.counters.packets += 1;
        self.counters.bytes += packet.len() as u64;

        let content = self.count_frames(payload.clone(), data);
        opened(OpenedPacket {
            number: header.packet_number,
            key_updates: generation,
            payload: &self.scratch[payload],
        });
        self.counters.data_packets += u64::from(content.data);
        if content.acknowledges && !content.asks {
            self.counters.ack_packets += 1;
            self.counters.ack_path_bytes += packet.len() as u64;
        }
    }

    /// Opens a packet into `scratch`.
    fn open(&mut self, packet: &[u8]) -> Option<Opened> {
        for (at, keys) in self.keys.iter_mut().enumerate() {
            let header = keys.read_header(packet, self.dcid_len, self.expected_pn).ok()?;
            if let Ok(opened) = keys.open(packet, header, &mut self.scratch) {
                self.keys.swap(0, at);
                self.keys.truncate(1);
                return Some(opened);
            }
        }
        None
    }

    fn count_frames(
        &mut self,
        payload: Range<usize>,
        data: &mut dyn FnMut(StreamData),
    ) -> Content {
        let mut content = Content::default();
        for frame in Frames::new(&self.scratch[payload]) {
            let Ok(Located { frame, .. }) = frame else {
                self.counters.malformed += 1;
                content.asks = true; // the rest of the packet is unknown
                break;
            };
            content.note(&frame);
            self.counters.note(&frame);
            if let Frame::Stream(stream) = frame {
                let sent = self.streams.entry(stream.stream_id).or_default();
                let retransmitted = sent.insert(stream.data());
                self.counters.retransmitted_stream_bytes += retransmitted;
                data(StreamData {
                    stream_id: stream.stream_id,
                    range: stream.data(),
                    retransmitted,
                });
            }
        }
        content
    }
}

/// Of several connections together.
impl AddAssign for TapCounters {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.data_packets += other.data_packets;
        self.ack_packets += other.ack_packets;
        self.ack_path_bytes += other.ack_path_bytes;
        self.ack_frames += other.ack_frames;
        self.tacks += other.tacks;
        self.iacks += other.iacks;
        self.ack_frequency += other.ack_frequency;
        self.immediate_acks += other.immediate_acks;
        self.timestamps += other.timestamps;
        self.path_challenges += other.path_challenges;
        self.path_responses += other.path_responses;
        self.stream_bytes += other.stream_bytes;
        self.retransmitted_stream_bytes += other.retransmitted_stream_bytes;
        self.malformed += other.malformed;
        self.undecryptable += other.undecryptable;
    }
}

impl TapCounters {
    fn note(&mut self, frame: &Frame<'_>) {
        match frame {
            Frame::Ack(_) => self.ack_frames += 1,
            Frame::Tack(_) => self.tacks += 1,
            Frame::Iack(_) => self.iacks += 1,
            Frame::AckFrequency(_) => self.ack_frequency += 1,
            Frame::ImmediateAck => self.immediate_acks += 1,
            Frame::Timestamp(_) => self.timestamps += 1,
            Frame::PathChallenge(_) => self.path_challenges += 1,
            Frame::PathResponse(_) => self.path_responses += 1,
            Frame::Stream(stream) => self.stream_bytes += stream.len,
            _ => {}
        }
    }
}

/// What kinds of frames a packet holds.
#[derive(Default)]
struct Content {
    data: bool,
    acknowledges: bool,
    /// A frame that tells or asks for something else.
    asks: bool,
}

impl Content {
    fn note(&mut self, frame: &Frame<'_>) {
        self.data |= matches!(frame, Frame::Stream(_));
        self.acknowledges |= matches!(frame, Frame::Ack(_) | Frame::Tack(_) | Frame::Iack(_));
        // These tell nothing: such a packet leaves for what it acknowledges.
        let is_bare = matches!(frame, Frame::Ping | Frame::ImmediateAck);
        self.asks |= frame.is_ack_eliciting() && !is_bare
            || matches!(frame, Frame::ConnectionClose { .. });
    }
}

#[cfg(test)]
mod tests;
