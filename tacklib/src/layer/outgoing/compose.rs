//! Which frames of its own the layer puts into an outgoing packet, and where: beside what stays of quiche's, within what the
//! plan leaves. Nothing but that is decided here; what has left is recorded by the caller.

use tack_packet::{OpenedPacket, TAG_LEN};
use tack_proto::frame::{
    AckFrequency, EcnCounts, encode_immediate_ack, encode_path_response, put_ack_ecn,
};

use super::Job;
use super::scan::OutgoingScan;
use crate::layer::plan::{Plan, TACK_ROOM, TIMESTAMP_ROOM};
use crate::layer::{NumberSpace, SHORTEST_PAYLOAD};
use crate::quiche_compat::{StreamEnds, least_path_response_len};

/// Payload of a packet that only ends a packet train: as short as it may be to show a rate.
const TRAIN_TAIL: usize = 30;

/// PING (RFC 9000 section 19.2).
const PING: u8 = 0x01;

/// What the layer has put into a packet.
#[derive(Debug, Default)]
pub(super) struct Composed {
    /// Length of the layer's frames, which come first.
    pub(super) ours: usize,
    pub(super) marked: bool,
    /// It ends a packet train, and has room for a TIMESTAMP.
    pub(super) ends_train: bool,
    pub(super) has_timestamp: bool,
    pub(super) update: Option<AckFrequency>,
    /// IMMEDIATE_ACK is in it.
    pub(super) asks: bool,
    /// Ends of streams in it.
    pub(super) ends: usize,
    /// Requests to stop in it.
    pub(super) stops: usize,
    /// A PATH_RESPONSE that quiche has forgotten is in it.
    pub(super) answers_challenge: bool,
    /// quiche's acknowledgement is left out for want of room for its ECN counts.
    pub(super) drops_ack: bool,
}

impl NumberSpace {
    /// Puts the packet's frames together: the layer's first, because a STREAM frame without a length
    /// runs to the end.
    pub(super) fn compose(
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
    pub(in crate::layer) fn ecn_room(&self) -> usize {
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
