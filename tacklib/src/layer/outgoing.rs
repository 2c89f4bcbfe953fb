//! Packets on their way out: from quiche to the socket.

use std::ops::{Range, RangeInclusive};
use std::time::Instant;

use tack_packet::TAG_LEN;
use tack_proto::frame::{
    AckFrequency, Frame, Frames, Located, Timestamp, encode_immediate_ack,
};
use tack_proto::receiver::{Due, Receiver};
use tack_proto::sender::Departure;

use super::{Layer, MARK, SHORTEST_PAYLOAD, seal_into};
use crate::journal::Way;
use crate::stream_ends::StreamEnds;

/// Room for a TIMESTAMP frame.
const TIMESTAMP_ROOM: usize = 10;

/// Room for an ACK_FREQUENCY frame.
const ACK_FREQUENCY_ROOM: usize = 24;

/// Room for an IMMEDIATE_ACK frame.
const IMMEDIATE_ACK_ROOM: usize = 1;

/// Room that quiche may leave in a packet although it has more to send: too
/// little for another STREAM frame.
const UNUSABLE_ROOM: usize = 32;

/// How long a datagram with a PATH_CHALLENGE or a PATH_RESPONSE is to be, where the peer's address lets
/// it: what is found out is whether the path can carry that (RFC 9000 section 8.2.1). quiche compares
/// its challenges with the same.
pub const PATH_PROBE_LEN: usize = quiche::MIN_CLIENT_INITIAL_LEN;

/// Room for a TACK in a packet that carries stream data too. Alone, it may fill
/// the packet.
const TACK_ROOM: usize = 200;

/// What the next packet is to carry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    due: Option<Due>,
    timestamp: Option<Timestamp>,
    update: Option<AckFrequency>,
    /// An acknowledgement is wanted at once, whatever the packet turns out to be.
    immediate_ack: bool,
    /// Room for ends of streams that quiche has forgotten.
    ends_room: usize,
    leaves_path: bool,
    /// The address that it goes to is proven, or not the peer's to prove.
    is_proven: bool,
}

impl Plan {
    /// The last packet for a path that quiche no longer sends data on.
    pub fn farewell() -> Self {
        Self { leaves_path: true, ..Self::default() }
    }

    /// What is left of it for an address that is proven, or else may not be sent any amount
    /// (RFC 9000 section 8.1).
    #[must_use]
    pub fn to_address(self, is_proven: bool) -> Self {
        if is_proven {
            Self { is_proven, ..self }
        } else {
            Self { due: self.due, leaves_path: self.leaves_path, ..Self::default() }
        }
    }

    /// Whether the packet may leave as quiche wrote it.
    fn adds_nothing(&self) -> bool {
        self.due.is_none()
            && self.timestamp.is_none()
            && self.update.is_none()
            && !self.immediate_ack
            && self.ends_room == 0
            && !self.leaves_path
    }

    /// Bytes that quiche has to leave free.
    pub fn room(&self) -> usize {
        self.timestamp.map_or(0, |_| TIMESTAMP_ROOM)
            + self.update.map_or(0, |_| ACK_FREQUENCY_ROOM)
            + self.due.map_or(0, |_| TACK_ROOM)
            + if self.immediate_ack { IMMEDIATE_ACK_ROOM } else { 0 }
            + self.ends_room
    }

    /// Whether quiche left room in the packet of `len` bytes that it could have
    /// filled: it has no more data.
    fn leaves_room(&self, len: usize, out: &[u8]) -> bool {
        len + self.room() + UNUSABLE_ROOM <= out.len()
    }
}

/// What an outgoing packet turned out to be.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its length after rewriting.
    pub len: usize,
    /// Stream data in it, bytes; an estimate if it was not looked into.
    pub stream_bytes: usize,
    /// The data of a PATH_CHALLENGE in it.
    pub challenge: Option<[u8; 8]>,
}

impl Layer {
    /// What the next packet should carry; `data` if it may carry stream data, `due` as the
    /// receiver says.
    pub fn plan(&self, now: Instant, data: bool, due: Option<Due>, ends: &StreamEnds) -> Plan {
        let ends_room = ends.room();
        let update = if data { self.sender.frequency_update() } else { None };
        let immediate_ack = self.sender.wants_immediate_ack(now, false);
        if !self.agreement.tack {
            return Plan { update, immediate_ack, ends_room, ..Plan::default() };
        }
        let timestamp = if data { self.sender.timestamp(now) } else { None };
        Plan { due, timestamp, update, immediate_ack, ends_room, ..Plan::default() }
    }

    /// Records a 1-RTT packet of quiche's that may leave as it is, for which it must carry
    /// nothing but plain data.
    pub fn pass_outgoing(
        &mut self,
        now: Instant,
        (out, len): (&[u8], usize),
        dcid_len: usize,
        plan: &Plan,
    ) -> Option<Sent> {
        let packet = &out[..len];
        let is_tail = plan.leaves_room(len, out);
        if !plan.adds_nothing() || is_tail && self.sender.wants_immediate_ack(now, true) {
            return None;
        }
        let expected = self.sender.next_packet_number();
        let header = self.outgoing.peek(packet, dcid_len, expected).ok()?;
        // The first packet after a key update is opened, so that none is missed.
        self.outgoing
            .peek_first_byte(packet, &header)
            .filter(|first| opens_plain_data(*first))?;
        self.note_content(packet, dcid_len, expected);
        self.sender.on_packet_sent(now, &departure(header.packet_number, len, true, None));
        Some(Sent { len, stream_bytes: len.saturating_sub(self.overhead), challenge: None })
    }

    /// Rewrites the 1-RTT packet of `len` bytes that quiche has written to the
    /// front of `out`, and records it.
    pub fn on_outgoing(
        &mut self,
        now: Instant,
        out: &mut [u8],
        len: usize,
        dcid_len: usize,
        plan: &Plan,
        ends: &mut StreamEnds,
    ) -> Option<Sent> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut frames = std::mem::take(&mut self.frames);
        scratch.clear();
        scratch.extend_from_slice(&out[..len]);
        let buffers = (&mut scratch[..], &mut frames);
        let sent = self.rewrite_outgoing(now, out, buffers, dcid_len, plan, ends);
        self.scratch = scratch;
        self.frames = frames;
        sent
    }

    /// Looks up what stream data a packet carries that leaves as it is, where the
    /// peer has been asked for bubbles. That costs a decryption, and nothing where
    /// no acknowledgements get lost.
    fn note_content(&mut self, packet: &[u8], dcid_len: usize, expected: u64) {
        if !self.sender.wants_payloads() {
            return;
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(packet);
        if let Ok(opened) = self.outgoing.open(&mut self.scratch, dcid_len, expected) {
            let pn = opened.header.packet_number;
            self.sender.on_payload(pn, &self.scratch[opened.payload]);
        }
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
        (scratch, frames): (&mut [u8], &mut Vec<u8>),
        dcid_len: usize,
        plan: &Plan,
        ends: &mut StreamEnds,
    ) -> Option<Sent> {
        let len = scratch.len();
        let expected = self.sender.next_packet_number();
        let opened = self.outgoing.open(scratch, dcid_len, expected).ok()?;
        let payload = &scratch[opened.payload.clone()];
        let pn = opened.header.packet_number;
        let Some(kept) = self.sort_outgoing(now, pn, payload, ends) else {
            // A frame of quiche's that we cannot read leaves as it is.
            self.sender.on_packet_sent(now, &departure(pn, len, true, None));
            return Some(Sent { len, stream_bytes: 0, challenge: None });
        };

        frames.clear();
        let mut marked = false;
        let mut update = None;
        let mut asked = false;
        let with_ends = kept.ack_eliciting && plan.ends_room > 0;
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
            // A TACK peer acknowledges the end of a stream at once by itself.
            let is_answered = kept.ends_stream && self.agreement.tack;
            let is_tail = kept.stream_bytes > 0 && plan.leaves_room(len, out) && !is_answered;
            if plan.immediate_ack || is_tail && self.sender.wants_immediate_ack(now, true) {
                encode_immediate_ack(frames);
                asked = true;
                marked |= self.agreement.tack;
            }
            if with_ends {
                ends.encode(frames);
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
        let ours = frames.len();
        // Ours first: a STREAM frame without a length runs to the end.
        for range in &kept.bytes.ranges {
            frames.extend_from_slice(&payload[range.clone()]);
        }
        let mut least = SHORTEST_PAYLOAD;
        if kept.is_padded {
            // For its length, which our frames may be part of.
            least = payload.len();
        }
        if kept.answers_challenge && plan.is_proven && !self.sender.is_inflight_limited() {
            // RFC 9000 section 8.2.2, which quiche (0.30) leaves out. Who asks for more than may be
            // in flight gets shorter ones.
            let overhead = opened.header.header_len + TAG_LEN;
            least = least.max(out.len().min(PATH_PROBE_LEN).saturating_sub(overhead));
        }
        if frames.len() < least {
            frames.resize(least, 0);
        }
        if self.sender.wants_payloads() {
            self.sender.on_payload(pn, frames);
        }
        let mut header = opened.header;
        if marked || self.agreement.tack && !kept.is_plain_data() {
            header.first_byte |= MARK;
        }
        let generation = opened.generation;
        let Some(total) =
            seal_into(&self.outgoing, generation, (scratch, &header), frames, out)
        else {
            // It does not fit, and quiche's packet leaves as it is.
            self.sender.on_packet_sent(now, &departure(pn, len, kept.ack_eliciting, None));
            return Some(Sent {
                len,
                stream_bytes: kept.stream_bytes,
                challenge: kept.challenge,
            });
        };
        self.sender.on_packet_sent(now, &departure(pn, total, kept.ack_eliciting, update));
        if asked {
            self.sender.on_immediate_ack_sent(now);
        }
        if with_ends {
            ends.on_encoded_sent(pn);
        }
        if self.journal.is_enabled() {
            for located in Frames::new(&frames[..ours]).flatten() {
                self.journal.on_frame(Way::Sent, pn, &located.frame);
            }
        }
        if plan.leaves_path && !kept.needs_repair {
            self.farewells.push(pn);
        }
        if kept.stream_bytes > len / 2 {
            self.overhead = len - kept.stream_bytes;
        }
        Some(Sent { len: total, stream_bytes: kept.stream_bytes, challenge: kept.challenge })
    }

    /// Decides which of quiche's frames stay in the packet, and learns from them.
    fn sort_outgoing(
        &mut self,
        now: Instant,
        pn: u64,
        payload: &[u8],
        ends: &mut StreamEnds,
    ) -> Option<Kept> {
        let mut kept = Kept::default();
        for located in Frames::new(payload) {
            let Located { frame, range } = located.ok()?;
            kept.ack_eliciting |= frame.is_ack_eliciting();
            kept.needs_repair |= needs_repair(&frame);
            kept.wants_look |= !matches!(frame, Frame::Ack(_)) && wants_look(&frame);
            match frame {
                Frame::Ack(ack) => {
                    self.quiche_has_ack = false;
                    if self.zero_rtt {
                        self.learn_zero_rtt(ack.ranges.iter());
                    }
                    if self.agreement.tack {
                        // TACK-4.1-4
                        kept.had_ack = true;
                        continue;
                    }
                    self.receiver.on_ack_sent(now);
                }
                Frame::Padding { .. } if self.agreement.tack => {
                    // quiche pads what would be too short, which we do again; a probe, or what goes
                    // over an unvalidated path, is padded to be long.
                    kept.is_padded |= range.len() > SHORTEST_PAYLOAD;
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
                Frame::Stream(stream) => {
                    kept.stream_bytes += stream.len as usize;
                    kept.ends_stream |= stream.fin;
                    if stream.fin {
                        ends.on_sent(pn, stream.stream_id, stream.offset, stream.len);
                    }
                }
                Frame::ResetStream { stream_id, .. } => ends.on_reset(stream_id),
                Frame::PathChallenge(data) => kept.challenge = Some(data),
                Frame::PathResponse(_) => kept.answers_challenge = true,
                _ => {}
            }
            kept.bytes.push(range);
        }
        Some(kept)
    }

    /// Numbers below the first that the layer saw were received as 0-RTT.
    fn learn_zero_rtt(&mut self, ranges: impl Iterator<Item = RangeInclusive<u64>>) {
        let Some(first) = self.first_received else { return };
        for range in ranges {
            let end = (*range.end()).min(first.saturating_sub(1));
            if first > 0 && *range.start() <= end {
                self.receiver.on_received_elsewhere(*range.start()..=end);
            }
        }
    }
}

/// What stays of an outgoing packet.
#[derive(Debug, Default)]
struct Kept {
    bytes: Ranges,
    is_padded: bool,
    had_ack: bool,
    stream_bytes: usize,
    ends_stream: bool,
    ack_eliciting: bool,
    /// It carries what has to be sent again if it is lost.
    needs_repair: bool,
    challenge: Option<[u8; 8]>,
    answers_challenge: bool,
    /// A frame in it has to be seen by the layer of the other end.
    wants_look: bool,
}

impl Kept {
    /// Whether the other end knows enough of the packet when it leaves without the mark.
    fn is_plain_data(&self) -> bool {
        self.ack_eliciting && !self.wants_look
    }

    /// The packet leaves anyway, with an acknowledgement of quiche's taken out
    /// and no data to make room for: then the TACK may as well go now.
    fn early_tack(&self, receiver: &Receiver) -> Option<Due> {
        (self.had_ack && self.stream_bytes == 0 && receiver.pending() > 0
            || self.bytes.len() == 0)
            .then_some(Due::Tack)
    }
}

/// Whether a packet of quiche's whose first frame is of this type carries nothing but plain data.
///
/// quiche (0.30, `send_single`) writes one STREAM frame, or several DATAGRAM frames, behind
/// everything else and nothing but PADDING behind them. So what begins with one of these, and
/// is no end of a stream, has nothing in it that [`wants_look`].
fn opens_plain_data(frame_type: u8) -> bool {
    const STREAM: RangeInclusive<u8> = 0x08..=0x0f;
    const FIN: u8 = 0x01;
    const DATAGRAM: RangeInclusive<u8> = 0x30..=0x31;

    STREAM.contains(&frame_type) && frame_type & FIN == 0 || DATAGRAM.contains(&frame_type)
}

/// Whether the other end's layer must see the frame: all but plain data.
fn wants_look(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Stream(stream) => stream.fin,
        Frame::Datagram { .. } | Frame::Padding { .. } => false,
        _ => true,
    }
}

/// Whether quiche sends it again when it is lost.
fn needs_repair(frame: &Frame<'_>) -> bool {
    !matches!(
        frame,
        Frame::Ack(_)
            | Frame::Padding { .. }
            | Frame::Ping
            | Frame::PathChallenge(_)
            | Frame::PathResponse(_)
    )
}

/// Byte ranges of a payload and their total length.
#[derive(Debug, Default)]
struct Ranges {
    ranges: Vec<Range<usize>>,
    total: usize,
}

impl Ranges {
    fn push(&mut self, range: Range<usize>) {
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

/// A packet that leaves on the path that data goes over.
fn departure(
    packet_number: u64,
    bytes: usize,
    ack_eliciting: bool,
    update: Option<AckFrequency>,
) -> Departure {
    Departure { packet_number, bytes, ack_eliciting, path: None, is_probe: false, update }
}
