//! Outgoing packets: scan what quiche has written, put the layer's frames in, seal.

use std::ops::{Range, RangeInclusive};
use std::time::Instant;

use tack_packet::{OpenedPacket, PacketProtection, TAG_LEN, WrittenPacket};
use tack_proto::ecn::EcnCodepoint;
use tack_proto::frame::{
    AckFrequency, EcnCounts, Frame, Frames, Located, OnlyFrame, Stream, encode_immediate_ack,
    encode_path_response, put_ack_ecn,
};
use tack_proto::receiver::{Due, Receiver};
use tack_proto::sender::{Departure, PathId};

use super::plan::{TACK_ROOM, TIMESTAMP_ROOM, departure};
use super::{Layer, NumberSpace, Plan, SHORTEST_PAYLOAD};
use crate::qlog::Direction;
use crate::quiche_compat::{
    ConnectionIdLengths, FirstFrame, StreamEnds, first_frame, least_path_response_len,
};

/// The most packet numbers in a row that the layer does not see: quiche gives them to packets of all number spaces.
const MAX_SKIPPED: u64 = 1 << 12;

/// Payload of a packet that only ends a packet train: as short as it may be to show a rate.
const TRAIN_TAIL: usize = 30;

/// The bit of a STREAM frame's type that says that it ends the stream (RFC 9000 section 19.8).
const STREAM_FIN: u8 = 0x01;

/// PING (RFC 9000 section 19.2).
const PING: u8 = 0x01;

/// A packet that has left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Its number.
    pub packet_number: u64,
    /// Its length on the wire.
    pub len: usize,
    /// Stream data in it, bytes.
    pub stream_bytes: usize,
    /// The stream that the data is of.
    pub stream_id: Option<u64>,
    /// Where the data ends in it.
    pub stream_end: u64,
    /// The number of the packet and the data of a PATH_CHALLENGE in it.
    pub challenge: Option<(u64, [u8; 8])>,
    /// A PATH_RESPONSE is in it.
    pub answers_challenge: bool,
    /// quiche has written nothing into it that elicits an acknowledgement.
    pub is_ack_only: bool,
    /// The ECN codepoint that it is to leave with.
    pub ecn: EcnCodepoint,
}

/// A packet that will not leave: it could not be opened or sealed, or its number is skipped. Nothing
/// of it is left in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// Where a packet goes.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// Length of the active path's connection id.
    pub dcid_len: usize,
    /// Lengths of all connection ids of the peer.
    pub dcid_lens: ConnectionIdLengths,
    /// The longest packet that the path is known to take, bytes: what is longer is a probe of its MTU.
    pub mtu: usize,
    /// The path, if it is not the one that data goes over.
    pub path: Option<PathId>,
    /// Data goes over exactly these addresses. A change of the port alone makes no other path of it, and yet the peer
    /// follows what is not a probe.
    pub carries_data: bool,
    /// The address is proven, or not the peer's to prove.
    pub is_proven: bool,
    /// The data of a PATH_CHALLENGE that came over its path and has not been answered.
    pub response: Option<[u8; 8]>,
}

impl Layer {
    /// Finishes the 1-RTT packet of `len` bytes that quiche has written to the front of `out`.
    pub fn finish(
        &mut self,
        now: Instant,
        (out, len): (&mut [u8], usize),
        to: &Destination,
        plan: &Plan,
        ends: &mut StreamEnds,
    ) -> Result<Sent, Lost> {
        let Self { protection, space, plain, frames, .. } = self;
        let job = Job { now, room: out.len(), to, plan };
        let expected = space.sender.next_packet_number();
        let dcid_len = if to.dcid_lens.are_all(to.dcid_len) {
            to.dcid_len
        } else {
            dcid_len(protection, &out[..len], to, expected, plain)
        };
        let result = match protection.take(out, len, dcid_len, expected) {
            Ok(packet) if skips_too_many(packet.header().packet_number, expected) => Err(Lost),
            Ok(packet) => space.finish(packet, &job, ends, plain, frames),
            Err(_) => Err(Lost),
        };
        if result.is_err() && plan.skip.is_none() {
            space.stats.unsealed += 1;
        }
        result
    }
}

/// Whether no stack goes on with that number. Before the first packet any may have been used (0-RTT).
const fn skips_too_many(packet_number: u64, expected: u64) -> bool {
    expected > 0 && packet_number.saturating_sub(expected) > MAX_SKIPPED
}

/// How long the packet's connection id is, where the peer has issued ids of several lengths: the length with which the
/// packet authenticates. The peer chooses the bytes of its ids, and so what the header seems to be with a wrong one.
#[cold]
fn dcid_len(
    protection: &PacketProtection,
    packet: &[u8],
    to: &Destination,
    expected: u64,
    scratch: &mut Vec<u8>,
) -> usize {
    let fits = |len: &usize| protection.authenticates(packet, *len, expected, scratch);
    to.dcid_lens.candidates(to.dcid_len).find(fits).unwrap_or(to.dcid_len)
}

/// One outgoing packet on its way through the layer.
struct Job<'a> {
    now: Instant,
    /// Bytes that the packet may have on the wire.
    room: usize,
    to: &'a Destination,
    plan: &'a Plan,
}

impl NumberSpace {
    #[inline]
    fn finish(
        &mut self,
        packet: WrittenPacket<'_, '_>,
        job: &Job<'_>,
        ends: &mut StreamEnds,
        plain: &mut Vec<u8>,
        frames: &mut Vec<u8>,
    ) -> Result<Sent, Lost> {
        let Job { now, plan, .. } = *job;
        let is_tail = plan.is_tail(packet.packet_len(), job.room);
        let passes = plan.adds_nothing()
            && job.to.response.is_none()
            && packet.can_pass()
            && !(is_tail && self.sender.wants_immediate_ack(now, true))
            && !(is_tail && self.sender.wants_tail_timestamp());
        let content = if passes { peek(&packet) } else { None };
        let Some(content) = content else {
            return self.rewrite(packet, job, ends, plain, frames);
        };
        plan.assert_may_carry(content.stream_bytes);
        self.sends_data |= content.stream_bytes > 0;
        if self.sender.wants_payloads()
            && let Ok(payload) = packet.decrypt_copy(plain)
        {
            self.sender.on_payload(packet.header().packet_number, &plain[payload]);
        }
        let packet_number = packet.header().packet_number;
        let departed = packet.pass().map_err(|_| Lost)?;
        let ecn = self.sender.on_packet_sent(now, &departure(&departed, true, job.to));
        Ok(Sent { packet_number, len: departed.len, ecn, ..content })
    }

    /// Opens the packet, and seals it with the layer's frames in it.
    fn rewrite(
        &mut self,
        packet: WrittenPacket<'_, '_>,
        job: &Job<'_>,
        ends: &mut StreamEnds,
        plain: &mut Vec<u8>,
        frames: &mut Vec<u8>,
    ) -> Result<Sent, Lost> {
        let Job { now, plan, .. } = *job;
        let opened = packet.open(plain).map_err(|_| Lost)?;
        // What may not get longer has no room for a TACK in place of quiche's ACK.
        let takes_acks_out = self.agreement.tack && job.to.is_proven;
        let mut scan = OutgoingScan {
            adds_ecn: !self.agreement.tack
                && job.to.is_proven
                && self.receiver.ecn_counts().is_some(),
            ..OutgoingScan::default()
        };
        scan.read(opened.payload(), takes_acks_out, self.zero_rtt, ends);
        plan.assert_may_carry(scan.stream_bytes);
        self.sends_data |= scan.stream_bytes > 0;
        let pn = opened.header().packet_number;
        if let Some(random) = plan.skip
            && scan.is_bare()
        {
            opened.discard();
            self.sender.on_packet_skipped(now, pn, random);
            self.stats.skipped += 1;
            return Err(Lost);
        }
        self.learn_zero_rtt(&scan);
        let composed = self.compose(&opened, &scan, job, ends, frames);
        let is_unchanged = composed.ours == 0
            && !composed.marked
            && scan.keeps_all()
            && frames.len() == opened.payload().len();
        let departed = if is_unchanged && opened.can_pass() {
            opened.pass()
        } else {
            self.stats.resealed += 1;
            opened.seal(frames, composed.marked)
        };
        let departed = departed.map_err(|_| Lost)?;
        let sent = Departure {
            is_probe: !scan.is_non_probing,
            update: composed.update,
            has_timestamp: composed.has_timestamp,
            ..departure(&departed, scan.ack_eliciting || composed.answers_challenge, job.to)
        };
        let ecn = self.sender.on_packet_sent(now, &sent);
        // First those that were encoded, as they were chosen before quiche's were known to leave.
        self.on_composed_sent(now, pn, &composed, ends, frames);
        self.on_content_sent(now, pn, &scan, composed.drops_ack, ends);
        self.count_train_cost(plan, &scan, &composed, departed.len);
        if composed.answers_challenge {
            self.path_responses.extend(job.to.response);
        }
        if plan.flushes_path && !scan.needs_repair {
            self.flush_pings.on_sent(pn);
        }
        Ok(Sent {
            packet_number: pn,
            len: departed.len,
            challenge: scan.challenge.map(|data| (pn, data)),
            answers_challenge: scan.answers_challenge || composed.answers_challenge,
            ecn,
            ..scan.content()
        })
    }

    /// Puts the packet's frames together: the layer's first, because a STREAM frame without a length
    /// runs to the end.
    fn compose(
        &mut self,
        opened: &OpenedPacket<'_, '_, '_>,
        scan: &OutgoingScan,
        job: &Job<'_>,
        ends: &StreamEnds,
        frames: &mut Vec<u8>,
    ) -> Composed {
        frames.clear();
        let Job { room, plan, .. } = *job;
        let payload = opened.payload();
        let len = opened.packet_len();
        let overhead = opened.header().header_len + TAG_LEN;
        // What the layer may add: what was planned in a packet with stream data, all of the room in
        // others.
        let ends_train = plan.is_train_tail
            || scan.stream_bytes > 0
                && plan.is_tail(len, room)
                && self.sender.wants_tail_timestamp();
        let limit = if scan.stream_bytes > 0 && !plan.leaves_no_room {
            room.min(len + plan.room() + if ends_train { TIMESTAMP_ROOM } else { 0 })
        } else {
            room
        };
        let budget = limit.saturating_sub(overhead + scan.kept.len());
        let ends_full =
            scan.stream_bytes > 0 && !plan.leaves_no_room && !plan.is_tail(len, room);
        let mut composed = Composed { ends_train, ..Composed::default() };
        if scan.has_false_end {
            // It is shorter, and acknowledged as well.
            frames.push(PING);
        }
        self.compose_ecn(payload, scan, budget, &mut composed, frames);
        if let Some(data) = job.to.response.filter(|_| !scan.answers_challenge) {
            composed.answers_challenge =
                append_if_fits(frames, budget, |frames| encode_path_response(frames, data));
            composed.marked |= self.agreement.tack && composed.answers_challenge;
        }
        // TACK-2-6
        if scan.ack_eliciting && job.to.carries_data {
            self.compose_requests(scan, len, job, ends, budget, &mut composed, frames);
        }
        if job.to.carries_data {
            self.compose_acknowledgement(scan, job, budget, &mut composed, frames);
        }
        composed.ours = frames.len();
        // As long as its neighbours, or it would end the burst in which the system splits them.
        let slack = budget.saturating_sub(frames.len());
        if ends_full && slack <= TIMESTAMP_ROOM {
            frames.resize(frames.len() + slack, 0);
        }
        scan.put_kept(payload, frames);
        let mut least = SHORTEST_PAYLOAD;
        if scan.is_padded {
            // For its length, which our frames may be part of.
            least = payload.len();
        }
        let answers_challenge = scan.answers_challenge || composed.answers_challenge;
        if answers_challenge && job.to.is_proven && !self.sender.is_inflight_limited() {
            // A peer that asks for more than may be in flight gets shorter answers.
            least = least.max(least_path_response_len(room, overhead));
        }
        if plan.is_train_tail {
            least = least.max(TRAIN_TAIL);
        }
        if frames.len() < least {
            frames.resize(least, 0);
        }
        if self.sender.wants_payloads() {
            self.sender.on_payload(opened.header().packet_number, frames);
        }
        // TACK-2-1
        composed.marked |= self.agreement.tack && !scan.is_stream_only();
        composed
    }

    /// quiche's acknowledgement for a stock peer, with ECN counts (TACK-8-8). One that they do not fit
    /// behind is left out: a peer that has marked packets takes an acknowledgement without them for a
    /// failure (RFC 9000 section 13.4.2.1). The receiver then still has to acknowledge.
    fn compose_ecn(
        &self,
        payload: &[u8],
        scan: &OutgoingScan,
        budget: usize,
        composed: &mut Composed,
        frames: &mut Vec<u8>,
    ) {
        let Some((ack, counts)) = scan.ack.clone().zip(self.receiver.ecn_counts()) else {
            return;
        };
        composed.drops_ack = !append_if_fits(frames, budget, |frames| {
            put_ack_ecn(frames, &payload[ack], counts);
        });
    }

    /// Room for the ECN counts of an acknowledgement that quiche may write: none between TACK peers, nor
    /// before the first mark.
    #[inline]
    pub(super) fn ecn_room(&self) -> usize {
        if self.agreement.tack || !self.quiche_owes.ack {
            return 0;
        }
        self.receiver.ecn_counts().map_or(0, EcnCounts::encoded_len)
    }

    /// TIMESTAMP, ACK_FREQUENCY, IMMEDIATE_ACK, ends of streams and STOP_SENDING, where the packet elicits an
    /// acknowledgement and they fit.
    #[allow(clippy::too_many_arguments)] // one step of `compose`
    fn compose_requests(
        &self,
        scan: &OutgoingScan,
        len: usize,
        job: &Job<'_>,
        ends: &StreamEnds,
        budget: usize,
        composed: &mut Composed,
        frames: &mut Vec<u8>,
    ) {
        let Job { now, room, plan, .. } = *job;
        let timestamp = if composed.ends_train {
            Some(self.sender.clock(now))
        } else {
            self.sender.timestamp(now).filter(|_| plan.timestamp)
        };
        if let Some(timestamp) = timestamp {
            composed.has_timestamp =
                append_if_fits(frames, budget, |frames| timestamp.encode(frames));
        }
        let update = self.sender.frequency_update().filter(|_| plan.update);
        composed.update = update
            .filter(|frame| append_if_fits(frames, budget, |frames| frame.encode(frames)));
        // A TACK peer acknowledges the end of a stream at once by itself.
        let is_answered = scan.ends_stream && self.agreement.tack;
        let is_tail = scan.stream_bytes > 0 && plan.is_tail(len, room) && !is_answered;
        if plan.immediate_ack || is_tail && self.sender.wants_immediate_ack(now, true) {
            composed.asks = append_if_fits(frames, budget, encode_immediate_ack);
        }
        if plan.owed_room > 0 {
            self.compose_owed(scan, plan, ends, budget, composed, frames);
        }
        composed.marked |= self.agreement.tack && !frames.is_empty();
    }

    /// Ends of streams and STOP_SENDING: what was planned beside stream data, and else as many as fit beside an
    /// acknowledgement.
    fn compose_owed(
        &self,
        scan: &OutgoingScan,
        plan: &Plan,
        ends: &StreamEnds,
        budget: usize,
        composed: &mut Composed,
        frames: &mut Vec<u8>,
    ) {
        let room = |frames: &Vec<u8>, planned: usize| {
            let left = budget.saturating_sub(frames.len());
            let beside_ack =
                if plan.due.is_some() { left.saturating_sub(TACK_ROOM) } else { left };
            if scan.stream_bytes > 0 {
                left.min(planned)
            } else {
                beside_ack.max(left.min(planned))
            }
        };
        composed.ends = ends.encode(room(frames, ends.room()), frames);
        let stops = &self.stopped_reads;
        composed.stops = stops.encode(room(frames, stops.room()), frames);
    }

    /// The TACK or IACK that is due; towards another peer the ACK, where quiche has written none.
    fn compose_acknowledgement(
        &mut self,
        scan: &OutgoingScan,
        job: &Job<'_>,
        budget: usize,
        composed: &mut Composed,
        frames: &mut Vec<u8>,
    ) {
        let Job { now, plan, .. } = *job;
        let left = budget.saturating_sub(frames.len());
        if scan.keeps_ack {
            return;
        }
        if !self.agreement.tack {
            if plan.is_carrier && plan.due.is_some() && !scan.had_ack {
                self.receiver.write_ack(now, self.ack_delay_exponent, left, frames);
            }
            return;
        }
        let due = plan.due.or_else(|| scan.early_tack(&self.receiver));
        let Some(due) = due else { return };
        // TACK-5.2-2
        if !composed.has_timestamp {
            let clock = self.sender.clock(now);
            composed.marked |= append_if_fits(frames, budget, |frames| clock.encode(frames));
        }
        let left = budget.saturating_sub(frames.len());
        composed.marked |= self.receiver.write(now, due, left, frames);
    }

    /// Counts what has left for a packet train alone.
    fn count_train_cost(
        &mut self,
        plan: &Plan,
        scan: &OutgoingScan,
        composed: &Composed,
        len: usize,
    ) {
        if plan.splits.is_some() && scan.stream_bytes > 0 {
            self.sender.on_split();
        }
        if plan.is_train_tail {
            self.sender.on_train_tail(len as u64);
        } else if composed.ends_train && composed.has_timestamp && !plan.timestamp {
            self.sender.on_train_cost(TIMESTAMP_ROOM as u64);
        }
    }

    /// What quiche has sent is known to be on its way.
    fn on_content_sent(
        &mut self,
        now: Instant,
        pn: u64,
        scan: &OutgoingScan,
        drops_ack: bool,
        ends: &mut StreamEnds,
    ) {
        if scan.had_ack {
            self.quiche_owes.ack = false;
            if scan.keeps_ack && !drops_ack {
                self.receiver.on_ack_sent(now);
            }
        }
        if scan.answers_challenge {
            self.path_responses.clear();
        }
        if let Some((_, stream_id)) = scan.taken_off {
            ends.on_taken_off(stream_id);
        }
        for frame in &scan.noted {
            match *frame {
                Noted::ZeroRttAck(_) => {}
                Noted::MaxData(limit) => {
                    self.quiche_owes.update = false;
                    self.windows.on_max_data(limit);
                }
                Noted::MaxStreamData { stream_id, max } => {
                    self.quiche_owes.update = false;
                    self.windows.on_max_stream_data(stream_id, max);
                }
                Noted::End { stream_id, offset, len } => {
                    ends.on_sent(pn, stream_id, offset, len);
                }
                Noted::Reset { stream_id } => ends.on_reset(stream_id),
                Noted::PathResponse(data) => self.path_responses.push(data),
            }
        }
    }

    /// What the layer has put in is known to be on its way.
    fn on_composed_sent(
        &mut self,
        now: Instant,
        pn: u64,
        composed: &Composed,
        ends: &mut StreamEnds,
        frames: &[u8],
    ) {
        if composed.asks {
            self.sender.on_immediate_ack_sent(now);
        }
        if composed.ends > 0 {
            ends.on_encoded_sent(pn, composed.ends);
        }
        if composed.stops > 0 {
            self.stopped_reads.on_encoded_sent(pn, composed.stops);
        }
        if self.notes.is_enabled() {
            for located in Frames::new(&frames[..composed.ours]).flatten() {
                self.notes.on_frame(Direction::Sent, pn, &located.frame);
            }
        }
    }

    /// What quiche acknowledges of 0-RTT was received: all numbers below the first that the layer saw, or all if it has
    /// seen none. The acknowledgement that takes the place of quiche's names them.
    fn learn_zero_rtt(&mut self, scan: &OutgoingScan) {
        let below = self.first_received.unwrap_or(u64::MAX);
        if !self.zero_rtt || below == 0 {
            return;
        }
        for frame in &scan.noted {
            let Noted::ZeroRttAck(ranges) = frame else { continue };
            for range in ranges {
                let end = (*range.end()).min(below - 1);
                if *range.start() <= end {
                    self.receiver.on_received_elsewhere(*range.start()..=end);
                }
            }
        }
    }
}

/// Appends what `encode` writes, if it fits into `budget` bytes with what is there; whether it did.
fn append_if_fits(
    frames: &mut Vec<u8>,
    budget: usize,
    encode: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let before = frames.len();
    encode(frames);
    let fits = frames.len() <= budget;
    if !fits {
        frames.truncate(before);
    }
    fits
}

/// What the layer has put into a packet.
#[derive(Debug, Default)]
struct Composed {
    /// Length of the layer's frames, which come first.
    ours: usize,
    marked: bool,
    /// It ends a packet train, and has room for a TIMESTAMP.
    ends_train: bool,
    has_timestamp: bool,
    update: Option<AckFrequency>,
    /// IMMEDIATE_ACK is in it.
    asks: bool,
    /// Ends of streams in it.
    ends: usize,
    /// Requests to stop in it.
    stops: usize,
    /// A PATH_RESPONSE that quiche has forgotten is in it.
    answers_challenge: bool,
    /// quiche's acknowledgement is left out for want of room for its ECN counts.
    drops_ack: bool,
}

/// What a packet holds that nobody but quiche has looked into, if its first bytes tell: stream data or
/// DATAGRAMs and nothing else.
fn peek(packet: &WrittenPacket<'_, '_>) -> Option<Sent> {
    let first = packet.first_bytes()?;
    match first_frame(first[0]) {
        FirstFrame::Stream => {
            let payload_len = packet.packet_len() - packet.header().header_len - TAG_LEN;
            let Some(OnlyFrame::Stream(frame)) = OnlyFrame::read(&first, payload_len) else {
                return None;
            };
            Some(Sent {
                stream_bytes: frame.len as usize,
                stream_id: Some(frame.stream_id),
                stream_end: frame.data().end,
                ..Sent::default()
            })
        }
        FirstFrame::Datagram => Some(Sent::default()),
        FirstFrame::Other => None,
    }
}

/// What quiche has written into a packet. A value: nothing of it has taken effect.
#[derive(Debug, Default)]
struct OutgoingScan {
    /// The frames that stay.
    kept: Ranges,
    /// Bytes of quiche's that do not.
    taken_out: usize,
    /// Where the STREAM frame is whose end leaves alone, and its stream.
    taken_off: Option<(usize, u64)>,
    /// An end of a stream that was given up is one of them.
    has_false_end: bool,
    is_padded: bool,
    had_ack: bool,
    /// quiche's acknowledgement is left in.
    keeps_ack: bool,
    /// To the acknowledgement of a stock peer's packets ECN counts are added.
    adds_ecn: bool,
    /// Where that acknowledgement is.
    ack: Option<Range<usize>>,
    stream_bytes: usize,
    stream_id: Option<u64>,
    stream_end: u64,
    has_datagram: bool,
    ends_stream: bool,
    ack_eliciting: bool,
    /// It carries what has to be sent again if it is lost.
    needs_repair: bool,
    challenge: Option<[u8; 8]>,
    answers_challenge: bool,
    /// A frame in it has to be seen by the layer of the other end.
    wants_look: bool,
    /// A frame in it is not a probing one (RFC 9000 section 9.1).
    is_non_probing: bool,
    noted: Vec<Noted>,
}

/// A frame of quiche's that the layer follows.
#[derive(Debug)]
enum Noted {
    ZeroRttAck(Vec<RangeInclusive<u64>>),
    MaxData(u64),
    MaxStreamData { stream_id: u64, max: u64 },
    End { stream_id: u64, offset: u64, len: u64 },
    Reset { stream_id: u64 },
    PathResponse([u8; 8]),
}

impl OutgoingScan {
    /// Reads the frames of a packet; with `takes_acks_out` quiche's acknowledgement and padding are left
    /// out. A frame that cannot be read stays, with all behind it.
    fn read(
        &mut self,
        payload: &[u8],
        takes_acks_out: bool,
        notes_acks: bool,
        ends: &StreamEnds,
    ) {
        let mut end = 0;
        for located in Frames::new(payload) {
            let Ok(Located { frame, range }) = located else {
                self.kept.push(end..payload.len());
                self.ack_eliciting = true;
                self.needs_repair = true;
                self.wants_look = true;
                break;
            };
            end = range.end;
            if let Frame::Ack(ack) = &frame
                && notes_acks
            {
                self.noted.push(Noted::ZeroRttAck(ack.ranges.iter().collect()));
            }
            if self.is_false_end(&frame, ends) {
                self.has_false_end = true;
                self.ack_eliciting = true;
                self.is_non_probing = true;
                self.wants_look = true;
                self.taken_out += range.len();
                continue;
            }
            self.see(&frame, range, takes_acks_out, ends);
        }
    }

    /// Whether the frame says that a stream is complete that was given up, in this packet or before.
    fn is_false_end(&self, frame: &Frame<'_>, ends: &StreamEnds) -> bool {
        let Frame::Stream(Stream { stream_id, len: 0, fin: true, .. }) = *frame else {
            return false;
        };
        let is_this =
            |noted: &Noted| matches!(noted, Noted::Reset { stream_id: id } if *id == stream_id);
        ends.is_given_up(stream_id) || self.noted.iter().any(is_this)
    }

    fn see(
        &mut self,
        frame: &Frame<'_>,
        range: Range<usize>,
        takes_acks_out: bool,
        ends: &StreamEnds,
    ) {
        self.ack_eliciting |= frame.is_ack_eliciting();
        self.needs_repair |= needs_repair(frame);
        self.is_non_probing |= !frame.is_probing();
        let is_taken_out =
            takes_acks_out && matches!(frame, Frame::Ack(_) | Frame::Padding { .. });
        self.wants_look |= !is_taken_out && wants_look(frame);
        match frame {
            Frame::Ack(_) => {
                self.had_ack = true;
                self.keeps_ack = !takes_acks_out;
            }
            // quiche pads what would be too short, which the layer does again; a probe, or what goes
            // over an unvalidated path, is padded to be long.
            Frame::Padding { .. } => self.is_padded |= range.len() > SHORTEST_PAYLOAD,
            Frame::MaxData(limit) => self.noted.push(Noted::MaxData(*limit)),
            Frame::MaxStreamData { stream_id, max } => {
                self.noted.push(Noted::MaxStreamData { stream_id: *stream_id, max: *max });
            }
            Frame::Stream(stream) => {
                let Stream { stream_id, offset, len, fin } = *stream;
                self.stream_bytes += len as usize;
                self.stream_id = Some(stream_id);
                self.stream_end = stream.data().end;
                self.ends_stream |= fin;
                if fin && len > 0 && ends.leaves_alone(stream_id) {
                    self.taken_off = Some((range.start, stream_id));
                } else if fin {
                    self.noted.push(Noted::End { stream_id, offset, len });
                }
            }
            Frame::ResetStream { stream_id, .. } => {
                self.noted.push(Noted::Reset { stream_id: *stream_id });
            }
            Frame::Datagram { .. } => self.has_datagram = true,
            Frame::PathChallenge(data) => self.challenge = Some(*data),
            Frame::PathResponse(data) => {
                self.answers_challenge = true;
                self.noted.push(Noted::PathResponse(*data));
            }
            _ => {}
        }
        // TACK-4.1-4
        if is_taken_out || self.takes_for_ecn(frame, &range) {
            self.taken_out += range.len();
        } else {
            self.kept.push(range);
        }
    }

    /// Whether the frame is the acknowledgement that ECN counts are added to.
    fn takes_for_ecn(&mut self, frame: &Frame<'_>, range: &Range<usize>) -> bool {
        let takes = self.adds_ecn
            && self.ack.is_none()
            && matches!(frame, Frame::Ack(ack) if ack.ecn.is_none());
        if takes {
            self.ack = Some(range.clone());
        }
        takes
    }

    /// What is told of the packet's content.
    fn content(&self) -> Sent {
        Sent {
            stream_bytes: self.stream_bytes,
            stream_id: self.stream_id,
            stream_end: self.stream_end,
            is_ack_only: !self.ack_eliciting,
            ..Sent::default()
        }
    }

    /// Whether quiche's frames leave as they are.
    fn keeps_all(&self) -> bool {
        self.taken_out == 0 && self.taken_off.is_none()
    }

    /// Appends the frames that stay.
    fn put_kept(&self, payload: &[u8], frames: &mut Vec<u8>) {
        for range in &self.kept.ranges {
            let begin = frames.len();
            frames.extend_from_slice(&payload[range.clone()]);
            if let Some((at, _)) = self.taken_off
                && range.contains(&at)
            {
                frames[begin + at - range.start] &= !STREAM_FIN;
            }
        }
    }

    /// Whether the other end knows enough of the packet when it leaves without the mark.
    fn is_stream_only(&self) -> bool {
        self.ack_eliciting && !self.wants_look
    }

    /// Whether nothing is lost if the packet never leaves.
    fn is_bare(&self) -> bool {
        !self.needs_repair && self.challenge.is_none() && !self.answers_challenge
    }

    /// The packet leaves anyway, with an acknowledgement of quiche's taken out
    /// and no data to make room for: then the TACK may as well go now.
    fn early_tack(&self, receiver: &Receiver) -> Option<Due> {
        let carries_nothing_else = self.had_ack && self.stream_bytes == 0 && !self.has_datagram;
        (carries_nothing_else && receiver.pending() > 0 || self.kept.len() == 0)
            .then_some(Due::Tack)
    }
}

/// Whether the other end's layer must see the frame: all but stream data and DATAGRAMs.
fn wants_look(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Stream(stream) => stream.fin,
        Frame::Datagram { .. } | Frame::Padding { .. } => false,
        _ => true,
    }
}

/// Whether it matters that the frame is lost.
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
