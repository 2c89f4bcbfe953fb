//! Outgoing packets: scan what quiche has written, put the layer's frames in, seal.

mod compose;
mod scan;

use std::time::Instant;

use tack_packet::{PacketProtection, TAG_LEN, WrittenPacket};
use tack_proto::ecn::EcnCodepoint;
use tack_proto::frame::{Frame, Frames, Located, OnlyFrame};
use tack_proto::sender::{Departure, PathId};

use super::plan::{TIMESTAMP_ROOM, departure};
use super::{Layer, NumberSpace, Plan};
use crate::qlog::Direction;
use crate::quiche_compat::{ConnectionIdLengths, FirstFrame, StreamEnds, first_frame};
use compose::Composed;
use scan::{Noted, OutgoingScan};

/// The most packet numbers in a row that the layer does not see: quiche gives them to packets of all number spaces.
const MAX_SKIPPED: u64 = 1 << 12;

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
        let passes = plan.adds_acknowledgement_at_most()
            && job.to.response.is_none()
            && packet.can_pass()
            && !(is_tail && self.sender.wants_immediate_ack(now, true))
            && !(is_tail && self.sender.wants_tail_timestamp());
        let content = if passes && plan.due.is_none() { peek(&packet) } else { None };
        let content = content.or_else(|| if passes { self.peek_ack(&packet) } else { None });
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
        if content.is_ack_only {
            self.on_quiches_ack_sent(now);
        }
        let ack_eliciting = !content.is_ack_only;
        let ecn = self.sender.on_packet_sent(now, &departure(&departed, ack_eliciting, job.to));
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
            if scan.keeps_ack && !drops_ack {
                self.on_quiches_ack_sent(now);
            } else {
                self.quiche_owes.ack = false;
            }
        }
        self.receiver.on_packet_sent(scan.ack_eliciting.then_some(pn));
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
                Noted::MaxStreams { bidi, max } => self.max_streams.on_max_streams(bidi, max),
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

    /// An acknowledgement has left as quiche wrote it.
    fn on_quiches_ack_sent(&mut self, now: Instant) {
        self.quiche_owes.ack = false;
        self.receiver.on_ack_sent(now);
    }

    /// Whether a packet that may leave as quiche wrote it holds the acknowledgement of a stock peer's packets and nothing
    /// else, as far as its first bytes tell.
    fn peek_ack(&self, packet: &WrittenPacket<'_, '_>) -> Option<Sent> {
        if self.agreement.tack || self.zero_rtt || self.receiver.ecn_counts().is_some() {
            return None;
        }
        let payload_len = packet.packet_len() - packet.header().header_len - TAG_LEN;
        let first = packet.first_bytes()?;
        if first.len() < payload_len {
            return None;
        }
        let mut frames = Frames::new(&first);
        let is_ack = matches!(frames.next(), Some(Ok(Located { frame: Frame::Ack(_), .. })));
        let is_ack_only = is_ack && frames.next().is_none();
        is_ack_only.then_some(Sent { is_ack_only, ..Sent::default() })
    }
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
