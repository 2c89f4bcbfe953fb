//! The layer between quiche and the socket, once the handshake is done.
//!
//! Outgoing packets are opened where something has to be taken out or put in,
//! and sealed again under the same number and key; incoming packets are opened
//! to see what they are, and sealed again for quiche where they carried frames
//! that it does not know. Of the two ciphertexts of one number and key only one
//! ever leaves the process: quiche's own is overwritten in the same call.

use std::time::{Duration, Instant};

use tack_packet::{CipherSuite, ProtectionKeys, ShortHeader, TAG_LEN};
use tack_proto::frame::{
    AckFrequency, DecodeError, Frame, Frames, Located, Timestamp, encode_ack,
};
use tack_proto::receiver::{Due, Received, Receiver};
use tack_proto::sender::{BbrConfig, Frequency, Newly, Peer, Sender, SenderConfig, Violation};

use crate::config::TackConfig;
use crate::flow_control::FlowControl;
use crate::negotiation::{self, Agreement, MIN_ACK_DELAY};

/// The mark of packets that carry extension frames: the reserved bits of the
/// short header, which header protection hides. Both ends negotiated it.
const MARK: u8 = 0x18;

/// Room for a TIMESTAMP frame.
const TIMESTAMP_ROOM: usize = 10;

/// Room for an ACK_FREQUENCY frame.
const ACK_FREQUENCY_ROOM: usize = 24;

/// Room for a TACK in a packet that carries stream data too. Alone, it may fill
/// the packet.
const TACK_ROOM: usize = 200;

/// Shortest payload that header protection can sample (RFC 9001 section 5.4.2).
const SHORTEST_PAYLOAD: usize = 4;

/// Packet numbers that quiche remembers below the largest received; older ones
/// it takes for duplicates (0.30, `PktNumWindow`).
const QUICHE_WINDOW: u64 = 127;

/// kPacketThreshold, RFC 9002 section 6.1.1.
const PACKET_THRESHOLD: u64 = 3;

/// Packets in flight at most: what quiche's window of 20,000 leaves room for.
/// Where that window closed first, nothing would say when it opens again.
const MAX_IN_FLIGHT_PACKETS: u64 = 19_500;

/// What is not stream data in a full packet, until one has been looked into.
const ASSUMED_OVERHEAD: usize = 48;

/// Why the connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// A claim that our own record contradicts.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// A frame that the peer was not to send, or with values out of range.
    #[error("{0}")]
    Frame(&'static str),
    /// A frame that cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl ProtocolError {
    /// The transport error code of RFC 9000 section 20.1.
    pub fn to_wire(&self) -> u64 {
        match self {
            Self::Violation(_) | Self::Frame(_) => 0x0a,
            Self::Decode(error) => error.to_wire(),
        }
    }
}

/// What the next packet is to carry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    due: Option<Due>,
    timestamp: Option<Timestamp>,
    update: Option<AckFrequency>,
    leaves_path: bool,
}

impl Plan {
    /// The last packet for a path that quiche no longer sends data on.
    pub fn farewell() -> Self {
        Self { leaves_path: true, ..Self::default() }
    }

    /// Bytes that quiche has to leave free.
    pub fn room(&self) -> usize {
        self.timestamp.map_or(0, |_| TIMESTAMP_ROOM)
            + self.update.map_or(0, |_| ACK_FREQUENCY_ROOM)
            + self.due.map_or(0, |_| TACK_ROOM)
    }
}

/// How an incoming packet goes on to quiche.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// As it came.
    AsIs,
    /// As [`Layer::rewritten`] holds it.
    Rewritten,
}

/// What an incoming packet was, to be recorded if quiche accepts it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    received: Option<Received>,
    streams: Vec<(u64, u64, bool)>,
    updates: Vec<AckFrequency>,
    immediate_ack: bool,
    wants_answer: bool,
    /// Streams that the peer asked not to send on.
    pub stopped: Vec<u64>,
}

/// What an outgoing packet turned out to be.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its length after rewriting.
    pub len: usize,
    /// Stream data in it, bytes; an estimate if it was not looked into.
    pub stream_bytes: usize,
}

/// Everything the layer knows of an established connection.
pub struct Layer {
    agreement: Agreement,
    incoming: ProtectionKeys,
    outgoing: ProtectionKeys,
    pub sender: Sender,
    pub receiver: Receiver,
    pub windows: FlowControl,
    largest_received: Option<u64>,
    /// quiche has an acknowledgement to send.
    quiche_has_ack: bool,
    /// quiche has a window update to send.
    quiche_has_update: bool,
    /// 0-RTT was used: quiche acknowledges, or waits for acknowledgements of,
    /// packets that the layer never saw.
    zero_rtt: bool,
    first_received: Option<u64>,
    /// Numbers of the PINGs that were sent last on paths since left.
    farewells: Vec<u64>,
    scratch: Vec<u8>,
    rewritten: Vec<u8>,
    frames: Vec<u8>,
    /// Bytes of a full packet that are not stream data.
    overhead: usize,
}

/// What a layer is made from.
pub struct Parts<'a> {
    /// When.
    pub now: Instant,
    /// What was agreed.
    pub agreement: Agreement,
    /// The cipher suite.
    pub suite: CipherSuite,
    /// The peer's traffic secret.
    pub incoming: &'a [u8],
    /// Our traffic secret.
    pub outgoing: &'a [u8],
    /// Settings.
    pub config: &'a TackConfig,
    /// Our transport parameters.
    pub parameters: &'a [u8],
    /// Whether we are the server.
    pub is_server: bool,
    /// Largest packet, bytes.
    pub mss: usize,
    /// The handshake's round trip.
    pub rtt: Option<Duration>,
    /// Whether 0-RTT was used.
    pub zero_rtt: bool,
}

impl Layer {
    /// Begins after the handshake.
    pub fn new(parts: &Parts<'_>) -> Result<Self, tack_packet::Error> {
        let Parts { now, agreement, config, .. } = *parts;
        let (max_ack_delay, timestamp_exponent) = negotiation::ack_delays(parts.parameters);
        let peer = match agreement.min_ack_delay {
            min_ack_delay if agreement.tack => {
                Some(Peer::Tack { min_ack_delay: min_ack_delay.unwrap_or_default() })
            }
            Some(min_ack_delay) => {
                Some(Peer::Stock { min_ack_delay, max_ack_delay: agreement.max_ack_delay })
            }
            None => None,
        };
        let sender = SenderConfig {
            frequency: Frequency {
                packets: config.packets_per_ack,
                per_round_trip: config.acks_per_round_trip,
                longest_interval: agreement.max_ack_delay,
            },
            bbr: BbrConfig {
                cycle_intervals: config.probe_bw_intervals,
                filter_intervals: config.bandwidth_filter_intervals,
            },
            peer,
            timestamp_exponent,
            mss: parts.mss as u64,
            max_in_flight: MAX_IN_FLIGHT_PACKETS * parts.mss as u64,
            sees_all: !parts.zero_rtt,
        };
        Ok(Self {
            agreement,
            incoming: ProtectionKeys::new(parts.suite, parts.incoming)?,
            outgoing: ProtectionKeys::new(parts.suite, parts.outgoing)?,
            sender: Sender::new(now, sender, parts.rtt),
            receiver: Receiver::new(now, max_ack_delay, agreement.ack_delay_exponent),
            windows: FlowControl::new(parts.parameters, parts.is_server),
            largest_received: None,
            quiche_has_ack: true,
            quiche_has_update: false,
            zero_rtt: parts.zero_rtt,
            first_received: None,
            farewells: Vec::new(),
            scratch: Vec::new(),
            rewritten: Vec::new(),
            frames: Vec::new(),
            overhead: ASSUMED_OVERHEAD,
        })
    }

    /// What was agreed with the peer.
    pub fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// Whether quiche holds an acknowledgement back because we do.
    pub fn holds_ack(&self) -> bool {
        self.quiche_has_ack
    }

    /// Whether the peer has used up what may fail to authenticate.
    pub fn integrity_limit_reached(&self) -> bool {
        self.incoming.integrity_limit_reached()
    }

    /// Whether quiche has got a window update to send since the last call.
    pub fn take_window_update(&mut self, connection: &quiche::Connection) -> bool {
        let due = self.windows.take_due(connection);
        self.quiche_has_update |= due;
        due
    }

    /// What the next packet should carry; `data` if it may carry stream data.
    pub fn plan(&self, now: Instant, data: bool) -> Plan {
        let due = self.receiver.due(now);
        if !self.agreement.tack {
            let update = if data { self.sender.frequency_update() } else { None };
            return Plan { update, ..Plan::default() };
        }
        Plan {
            due,
            timestamp: if data { self.sender.timestamp(now) } else { None },
            update: if data { self.sender.frequency_update() } else { None },
            leaves_path: false,
        }
    }

    /// Looks at an incoming 1-RTT packet. What it says of our packets is applied;
    /// what it is itself is returned, to be recorded with [`Self::on_accepted`].
    pub fn on_incoming(
        &mut self,
        now: Instant,
        packet: &[u8],
        dcid_len: usize,
    ) -> Result<(Delivery, Seen), ProtocolError> {
        let untouched = Ok((Delivery::AsIs, Seen::default()));
        self.scratch.clear();
        self.scratch.extend_from_slice(packet);
        let expected = self.largest_received.map_or(0, |largest| largest + 1);
        let Ok(opened) = self.incoming.open(&mut self.scratch, dcid_len, expected) else {
            // Not for us, damaged, or a stateless reset: quiche knows.
            return untouched;
        };
        let pn = opened.header.packet_number;
        if self.is_old(pn) {
            return untouched;
        }
        if !self.agreement.tack && opened.header.reserved_bits() != 0 {
            // RFC 9000 section 17.3.1; quiche does not look.
            return Err(ProtocolError::Frame("reserved bits are set"));
        }
        // The buffers are moved out so that the frames may borrow from them.
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let seen = self.read_frames(
            now,
            pn,
            packet.len(),
            &scratch[opened.payload.clone()],
            &mut frames,
        );
        let result = seen.and_then(|(rewrite, seen)| {
            if !rewrite && opened.header.reserved_bits() == 0 {
                return Ok((Delivery::AsIs, seen));
            }
            let mut header = opened.header;
            header.first_byte &= !MARK;
            scratch[0] = header.first_byte;
            let plain = if rewrite { &frames[..] } else { &scratch[opened.payload.clone()] };
            let buffer = &mut self.rewritten;
            seal(&self.incoming, opened.generation, &scratch, &header, plain, buffer)?;
            Ok((Delivery::Rewritten, seen))
        });
        self.scratch = scratch;
        self.frames = frames;
        result
    }

    /// The packet that [`Delivery::Rewritten`] speaks of.
    pub fn rewritten(&mut self) -> &mut [u8] {
        &mut self.rewritten
    }

    /// quiche has accepted the packet. Returns whether it may have something to
    /// send at once.
    pub fn on_accepted(&mut self, now: Instant, seen: &Seen) -> bool {
        let Some(received) = seen.received else { return false };
        self.largest_received = self.largest_received.max(Some(received.packet_number));
        self.first_received.get_or_insert(received.packet_number);
        self.receiver.on_packet(now, received);
        self.quiche_has_ack |= received.ack_eliciting;
        for update in &seen.updates {
            if self.agreement.tack {
                self.receiver.on_frequency_update(update);
            } else {
                self.receiver.on_ack_frequency(update);
            }
        }
        if seen.immediate_ack {
            self.receiver.on_immediate_ack();
        }
        for &(stream_id, end, fin) in &seen.streams {
            self.windows.on_received(stream_id, end, fin);
        }
        seen.wants_answer
    }

    /// Rewrites, where needed, the 1-RTT packet of `len` bytes that quiche has
    /// written to the front of `out`, and records it.
    pub fn on_outgoing(
        &mut self,
        now: Instant,
        out: &mut [u8],
        len: usize,
        dcid_len: usize,
        plan: &Plan,
    ) -> Option<Sent> {
        let expected = self.sender.next_packet_number();
        let plain_data = plan.due.is_none()
            && plan.timestamp.is_none()
            && plan.update.is_none()
            && !plan.leaves_path
            && !self.quiche_has_update
            && !self.quiche_has_ack;
        if plain_data {
            let header = self.outgoing.peek(&out[..len], dcid_len, expected).ok()?;
            // The first packet after a key update is opened, so that none is missed.
            if header.key_phase() == (self.outgoing.generation() % 2 == 1) {
                // Without an acknowledgement, all that quiche sends elicits one.
                self.sender.on_packet_sent(now, header.packet_number, len, true, None);
                let stream_bytes = len.saturating_sub(self.overhead);
                return Some(Sent { len, stream_bytes });
            }
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut frames = std::mem::take(&mut self.frames);
        scratch.clear();
        scratch.extend_from_slice(&out[..len]);
        let sent = self.rewrite_outgoing(now, out, &mut scratch, &mut frames, dcid_len, plan);
        self.scratch = scratch;
        self.frames = frames;
        sent
    }

    /// quiche had nothing to send although it was asked.
    pub fn on_nothing_to_send(&mut self) {
        self.quiche_has_ack = false;
        self.quiche_has_update = false;
    }

    fn rewrite_outgoing(
        &mut self,
        now: Instant,
        out: &mut [u8],
        scratch: &mut [u8],
        frames: &mut Vec<u8>,
        dcid_len: usize,
        plan: &Plan,
    ) -> Option<Sent> {
        let len = scratch.len();
        let expected = self.sender.next_packet_number();
        let opened = self.outgoing.open(scratch, dcid_len, expected).ok()?;
        let payload = &scratch[opened.payload.clone()];
        let pn = opened.header.packet_number;
        let Some(kept) = self.sort_outgoing(now, payload) else {
            // A frame of quiche's that we cannot read leaves as it is.
            self.sender.on_packet_sent(now, pn, len, true, None);
            return Some(Sent { len, stream_bytes: 0 });
        };

        frames.clear();
        let mut marked = false;
        let mut update = None;
        if kept.ack_eliciting {
            if let Some(timestamp) = plan.timestamp {
                timestamp.encode(frames);
                marked = true;
            }
            if let Some(frame) = plan.update {
                frame.encode(frames);
                update = Some(frame);
                marked |= self.agreement.tack;
            }
        }
        let due = plan.due.or_else(|| kept.early_tack(&self.receiver));
        if let Some(due) = due.filter(|_| self.agreement.tack) {
            let overhead = opened.header.header_len + TAG_LEN;
            // In a packet without data a TACK may be as long as it likes; in
            // others it leaves the rest of the room to the frames beside it.
            let limit = if kept.stream_bytes > 0 {
                out.len().min(len + plan.room())
            } else {
                out.len()
            };
            let budget = limit.saturating_sub(overhead + frames.len() + kept.bytes.len());
            marked |= self.receiver.write(now, due, budget, frames);
        }
        // Ours first: a STREAM frame without a length runs to the end.
        for range in &kept.bytes.ranges {
            frames.extend_from_slice(&payload[range.clone()]);
        }
        if frames.len() < SHORTEST_PAYLOAD {
            frames.resize(SHORTEST_PAYLOAD, 0);
        }
        let mut header = opened.header;
        if marked {
            header.first_byte |= MARK;
        }
        let generation = opened.generation;
        let Some(total) =
            seal_into(&self.outgoing, generation, (scratch, &header), frames, out)
        else {
            // It does not fit, and quiche's packet leaves as it is.
            self.sender.on_packet_sent(now, pn, len, kept.ack_eliciting, None);
            return Some(Sent { len, stream_bytes: kept.stream_bytes });
        };
        self.sender.on_packet_sent(now, pn, total, kept.ack_eliciting, update.as_ref());
        if plan.leaves_path && !kept.needs_repair {
            self.farewells.push(pn);
        }
        if kept.stream_bytes > len / 2 {
            self.overhead = len - kept.stream_bytes;
        }
        Some(Sent { len: total, stream_bytes: kept.stream_bytes })
    }

    /// Decides which of quiche's frames stay in the packet, and learns from them.
    fn sort_outgoing(&mut self, now: Instant, payload: &[u8]) -> Option<Kept> {
        let mut kept = Kept::default();
        for located in Frames::new(payload) {
            let Located { frame, range } = located.ok()?;
            kept.ack_eliciting |= frame.is_ack_eliciting();
            kept.needs_repair |= needs_repair(&frame);
            match frame {
                Frame::Ack(ack) => {
                    self.quiche_has_ack = false;
                    if self.zero_rtt {
                        self.learn_zero_rtt(ack.ranges.iter());
                    }
                    if self.agreement.tack {
                        kept.had_ack = true;
                        continue;
                    }
                    self.receiver.on_ack_sent(now);
                }
                Frame::Padding { .. } if self.agreement.tack => {
                    // quiche pads what would be too short; we do it again.
                    kept.padding = Some(range);
                    continue;
                }
                Frame::MaxData(limit) => {
                    self.quiche_has_update = false;
                    self.windows.on_max_data(limit);
                }
                Frame::MaxStreamData { stream_id, max } => {
                    self.quiche_has_update = false;
                    self.windows.on_max_stream_data(stream_id, max);
                }
                Frame::Stream(stream) => kept.stream_bytes += stream.len as usize,
                _ => {}
            }
            kept.bytes.push(range);
        }
        // Padding of a probe, or of an unvalidated path, is meant.
        if let Some(padding) = kept.padding.take()
            && padding.len() > SHORTEST_PAYLOAD
        {
            kept.bytes.push(padding);
        }
        Some(kept)
    }

    /// Numbers below the first that the layer saw were received as 0-RTT.
    fn learn_zero_rtt(&mut self, ranges: impl Iterator<Item = std::ops::RangeInclusive<u64>>) {
        let Some(first) = self.first_received else { return };
        for range in ranges {
            let end = (*range.end()).min(first.saturating_sub(1));
            if first > 0 && *range.start() <= end {
                self.receiver.on_received_elsewhere(*range.start()..=end);
            }
        }
    }

    /// Reads an incoming packet's frames; `rest` becomes what quiche shall see
    /// if the first value returned is true.
    fn read_frames(
        &mut self,
        now: Instant,
        pn: u64,
        bytes: usize,
        payload: &[u8],
        rest: &mut Vec<u8>,
    ) -> Result<(bool, Seen), ProtocolError> {
        let mut seen = Seen::default();
        let mut rewrite = false;
        let (mut ack_eliciting, mut left_eliciting, mut ends_stream) = (false, false, false);
        let mut departure = None;
        let mut largest_acked = None;
        for located in Frames::new(payload) {
            let Located { frame, range } = located?;
            ack_eliciting |= frame.is_ack_eliciting();
            seen.wants_answer |= frame.wants_answer();
            if frame.is_extension() {
                rewrite = true;
            }
            match &frame {
                Frame::Tack(_) | Frame::Iack(_) | Frame::Timestamp(_)
                    if !self.agreement.tack =>
                {
                    if !matches!(frame, Frame::Timestamp(_)) {
                        return Err(ProtocolError::Frame("TACK frames were not negotiated"));
                    }
                }
                Frame::Tack(tack) => {
                    let newly = self.sender.on_tack(now, tack)?;
                    largest_acked = largest_acked.max(largest(&newly));
                    self.pass_ack(&newly, tack.ranges.iter(), tack.ack_delay_us, rest);
                }
                Frame::Iack(iack) => {
                    let newly = self.sender.on_iack(now, iack)?;
                    largest_acked = largest_acked.max(largest(&newly));
                    self.pass_ack(&newly, iack.ranges.iter(), iack.ack_delay_us, rest);
                }
                Frame::Timestamp(Timestamp(timestamp)) => departure = Some(*timestamp),
                Frame::AckFrequency(update) => {
                    self.check_update(update)?;
                    seen.updates.push(*update);
                }
                Frame::ImmediateAck => seen.immediate_ack = true,
                standard => {
                    if let Frame::Ack(ack) = standard {
                        let delay = Duration::from_micros(
                            ack.ack_delay
                                .saturating_mul(1 << self.agreement.ack_delay_exponent),
                        );
                        let newly = self.sender.on_ack(now, ack, delay)?;
                        largest_acked = largest_acked.max(largest(&newly));
                    }
                    if let Frame::Stream(stream) = standard {
                        let end = stream.offset + stream.len;
                        seen.streams.push((stream.stream_id, end, stream.fin));
                        ends_stream |= stream.fin;
                    }
                    if let Frame::StopSending { stream_id, .. } = standard {
                        seen.stopped.push(*stream_id);
                    }
                    left_eliciting |= standard.is_ack_eliciting();
                    rest.extend_from_slice(&payload[range]);
                }
            }
        }
        rewrite |= self.settle_farewells(largest_acked, rest);
        if ack_eliciting && !left_eliciting {
            // quiche must still owe an acknowledgement: leave a PING in place of
            // what was taken out. In front, because a STREAM frame may run to
            // the end.
            rest.insert(0, 0x01);
        }
        if rest.len() < SHORTEST_PAYLOAD {
            rest.resize(SHORTEST_PAYLOAD, 0);
        }
        seen.received =
            Some(Received { packet_number: pn, bytes, ack_eliciting, departure, ends_stream });
        Ok((rewrite, seen))
    }

    /// Puts what a TACK or IACK newly acknowledges into an ACK frame for quiche.
    fn pass_ack(
        &self,
        newly: &Newly,
        all: impl Iterator<Item = std::ops::RangeInclusive<u64>>,
        delay_us: u64,
        rest: &mut Vec<u8>,
    ) {
        // quiche divides nothing: the delay is scaled by the exponent that the
        // peer announced (RFC 9000 section 19.3).
        let delay = delay_us >> self.agreement.ack_delay_exponent;
        if self.zero_rtt {
            encode_ack(rest, all, delay, None, usize::MAX);
        } else if !newly.acked.is_empty() {
            encode_ack(rest, newly.acked.iter().rev().cloned(), delay, None, usize::MAX);
        }
    }

    /// Lets quiche see which packets of a path it has left are lost.
    ///
    /// quiche (0.30) looks for losses on each path by itself: below the largest
    /// acknowledged number that was sent *there*. What was lost behind that
    /// when the path was left is never sent again: an expired timer repeats the
    /// oldest two packets, and the same two each time. But there is one packet
    /// number space (RFC 9000 section 12.3), and what is acknowledged on the
    /// new path tells as much. So once it does, quiche is told that the PING
    /// behind the last data of the old path has arrived, which it need not have:
    /// a PING is not sent again if it is lost.
    fn settle_farewells(&mut self, largest_acked: Option<u64>, rest: &mut Vec<u8>) -> bool {
        let Some(largest_acked) = largest_acked.filter(|_| !self.farewells.is_empty()) else {
            return false;
        };
        let mut acks = Vec::new();
        self.farewells.retain(|&pn| {
            let settled = pn + PACKET_THRESHOLD <= largest_acked;
            if settled {
                encode_ack(&mut acks, std::iter::once(pn..=pn), 0, None, usize::MAX);
            }
            !settled
        });
        // In front, because a STREAM frame may run to the end.
        rest.splice(0..0, acks.iter().copied());
        !acks.is_empty()
    }

    /// draft-ietf-quic-ack-frequency section 4. Zero means "every packet"
    /// between TACK peers.
    fn check_update(&self, update: &AckFrequency) -> Result<(), ProtocolError> {
        let delay = Duration::from_micros(update.requested_max_ack_delay_us);
        if self.agreement.tack && delay.is_zero() {
            return Ok(());
        }
        if delay < MIN_ACK_DELAY || delay >= Duration::from_millis(1 << 14) {
            return Err(ProtocolError::Frame(
                "ACK_FREQUENCY asks for a delay below min_ack_delay or above 2^14 ms",
            ));
        }
        Ok(())
    }

    /// Whether quiche will take the number for a duplicate.
    fn is_old(&self, pn: u64) -> bool {
        self.largest_received.is_some_and(|largest| pn + QUICHE_WINDOW < largest)
            || self.receiver.has_received(pn)
    }
}

/// What stays of an outgoing packet.
#[derive(Debug, Default)]
struct Kept {
    bytes: Ranges,
    padding: Option<std::ops::Range<usize>>,
    had_ack: bool,
    stream_bytes: usize,
    ack_eliciting: bool,
    /// It carries what has to be sent again if it is lost.
    needs_repair: bool,
}

impl Kept {
    /// The packet leaves anyway, with an acknowledgement of quiche's taken out
    /// and no data to make room for: then the TACK may as well go now.
    fn early_tack(&self, receiver: &Receiver) -> Option<Due> {
        (self.had_ack && self.stream_bytes == 0 && receiver.pending() > 0
            || self.bytes.len() == 0)
            .then_some(Due::Tack)
    }
}

/// Whether quiche sends it again when it is lost.
fn needs_repair(frame: &Frame<'_>) -> bool {
    !matches!(
        frame,
        Frame::Ack(_)
            | Frame::Padding { .. }
            | Frame::Ping
            | Frame::PathChallenge
            | Frame::PathResponse
    )
}

/// The largest number that an acknowledgement has added.
fn largest(newly: &Newly) -> Option<u64> {
    newly.acked.last().map(|range| *range.end())
}

/// Byte ranges of a payload and their total length.
#[derive(Debug, Default)]
struct Ranges {
    ranges: Vec<std::ops::Range<usize>>,
    total: usize,
}

impl Ranges {
    fn push(&mut self, range: std::ops::Range<usize>) {
        self.total += range.len();
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }

    fn len(&self) -> usize {
        self.total
    }
}

/// Seals `plain` under the header at the front of `packet` into `buffer`.
fn seal(
    keys: &ProtectionKeys,
    generation: u64,
    packet: &[u8],
    header: &ShortHeader,
    plain: &[u8],
    buffer: &mut Vec<u8>,
) -> Result<(), ProtocolError> {
    buffer.clear();
    buffer.resize(header.header_len + plain.len() + TAG_LEN, 0);
    seal_into(keys, generation, (packet, header), plain, buffer)
        .map(|_| ())
        .ok_or(ProtocolError::Frame("a rewritten packet could not be sealed"))
}

/// Seals `plain` under the header at the front of `packet` into `out`.
fn seal_into(
    keys: &ProtectionKeys,
    generation: u64,
    (packet, header): (&[u8], &ShortHeader),
    plain: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let end = header.header_len + plain.len();
    if end + TAG_LEN > out.len() {
        return None;
    }
    out[..header.header_len].copy_from_slice(&packet[..header.header_len]);
    out[0] = header.first_byte;
    out[header.header_len..end].copy_from_slice(plain);
    keys.seal(generation, out, header, plain.len()).ok()
}
