//! What an incoming packet says, read frame by frame: a value, because nothing of it may take effect before quiche has
//! accepted the packet; and what quiche is to see in the packet's place.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use tack_proto::ecn::EcnCodepoint;
use tack_proto::frame::{
    Ack, AckFrequency, Frame, Frames, Iack, Located, Stream, Tack, Timestamp, encode_ack,
};
use tack_proto::receiver::Received;

use super::Applied;
use crate::error::ExtensionError;
use crate::layer::{NumberSpace, SHORTEST_PAYLOAD};
use crate::qlog::Direction;
use crate::quiche_compat::{AskedStreams, Fill, LateReset, Stop, may_fill, put_end};

/// Acknowledgements in one packet behind which TACKs and IACKs acknowledge nothing (TACK-3-3). An honest peer sends two;
/// what each newly covers is found while none is applied.
const MOST_ACKNOWLEDGEMENTS: usize = 4;

/// What an incoming packet says. A value: nothing of it has taken effect.
#[derive(Debug, Default)]
pub struct IncomingScan<'a> {
    /// The packet itself; `None` if the layer could not open it, or knows it already.
    pub(super) received: Option<Received>,
    pub(super) is_marked: bool,
    pub(super) acknowledgements: Vec<Acknowledgement<'a>>,
    /// The generation of keys that opened it.
    pub(super) generation: Option<u64>,
    /// The largest packet number that the acknowledgements cover.
    pub(super) largest_acked: Option<u64>,
    pub(super) streams: Vec<Stream>,
    /// Stream and final size.
    pub(super) reset_streams: Vec<(u64, u64)>,
    /// Streams that were reset and of which quiche was asked whether it has all.
    pub(super) asked_streams: AskedStreams,
    /// Streams that were reset, and of which quiche gets nothing yet.
    pub(super) waiting_resets: Vec<LateReset>,
    /// What takes the place of what reset streams lack.
    pub(super) fills: Vec<Fill>,
    /// How many zeros that are.
    pub(super) zeros: u64,
    pub(super) updates: Vec<AckFrequency>,
    pub(super) immediate_ack: bool,
    pub(super) confirms_handshake: bool,
    pub(super) effects: Applied,
}

#[derive(Debug)]
pub(super) enum Acknowledgement<'a> {
    Tack(Tack<'a>),
    /// A TACK of this sequence that is left to the next long one (TACK-5.4-7).
    LeftTack(u64),
    Iack(Iack<'a>),
    /// An IACK that is left to the next TACK (TACK-5.4-4).
    LeftIack,
    Ack(Ack<'a>, Duration),
}

impl IncomingScan<'_> {
    /// It came over another path than the one that data goes over: when it left says nothing of that (TACK-5.3-6).
    pub fn forget_departure(&mut self) {
        if let Some(received) = &mut self.received {
            received.departure = None;
        }
    }

    /// Keeps those of the streams that the peer asks not to send on for which `keep` is true.
    pub fn retain_stopped(&mut self, mut keep: impl FnMut(u64) -> bool) {
        self.effects.stopped.retain(|stop| keep(stop.stream_id));
    }

    /// Whether the packet has reset a stream before, and quiche does not learn of it.
    fn has_taken_reset(&self, stream_id: u64) -> bool {
        let filled = self.fills.iter().map(|fill| &fill.reset);
        filled.chain(&self.waiting_resets).any(|reset| reset.stream_id == stream_id)
    }

    fn see_largest(&mut self, newest: Option<&RangeInclusive<u64>>) {
        self.largest_acked = self.largest_acked.max(newest.map(|range| *range.end()));
    }
}

/// What is collected while the frames of a packet are read.
#[derive(Debug)]
pub(super) struct FrameReader<'a> {
    pub(super) scan: IncomingScan<'a>,
    packet_number: u64,
    bytes: usize,
    departure: Option<u64>,
    ack_eliciting: bool,
    /// Something that elicits an acknowledgement is left for quiche.
    left_eliciting: bool,
    has_extension: bool,
    /// quiche may get more than has come. Over a path that the peer has not proven to be its own quiche may send three
    /// times what it got (RFC 9000 section 8.1).
    pub(super) may_grow: bool,
    ends_stream: bool,
    /// A TACK has bubbles.
    has_bubbles: bool,
}

impl FrameReader<'_> {
    pub(super) fn new(packet_number: u64, bytes: usize) -> Self {
        Self {
            scan: IncomingScan::default(),
            packet_number,
            bytes,
            departure: None,
            ack_eliciting: false,
            left_eliciting: false,
            has_extension: false,
            may_grow: false,
            ends_stream: false,
            has_bubbles: false,
        }
    }
}

impl NumberSpace {
    /// Reads the frames of a packet. `rest` becomes what quiche is to see if the second value is true.
    pub(super) fn scan<'a>(
        &mut self,
        now: Instant,
        mut reader: FrameReader<'a>,
        payload: &'a [u8],
        readable: &dyn Fn(u64) -> usize,
        rest: &mut Vec<u8>,
    ) -> Result<(IncomingScan<'a>, bool), ExtensionError> {
        rest.clear();
        for located in Frames::new(payload) {
            let Located { frame, range } = located?;
            self.notes.on_frame(Direction::Received, reader.packet_number, &frame);
            if self.is_past_reset(&frame, readable, &mut reader) {
                (reader.ack_eliciting, reader.has_extension) = (true, true);
                continue;
            }
            self.scan_frame(now, frame, &payload[range], &mut reader, rest)?;
        }
        Ok(self.finish_scan(reader, rest))
    }

    /// Checks one frame, and keeps what it will change. Frames that quiche knows go on in `rest`.
    fn scan_frame<'a>(
        &self,
        now: Instant,
        frame: Frame<'a>,
        encoded: &[u8],
        reader: &mut FrameReader<'a>,
        rest: &mut Vec<u8>,
    ) -> Result<(), ExtensionError> {
        let scan = &mut reader.scan;
        reader.ack_eliciting |= frame.is_ack_eliciting();
        scan.effects.wants_answer |= wants_answer(&frame);
        scan.effects.may_unblock |= frame.may_unblock();
        reader.has_extension |= frame.is_extension();
        let too_many = scan.acknowledgements.len() >= MOST_ACKNOWLEDGEMENTS;
        match frame {
            Frame::Tack(_) | Frame::Iack(_) if !self.agreement.tack => {
                // TACK-7-5
                return Err(ExtensionError::NotNegotiated);
            }
            Frame::Timestamp(_) if !self.agreement.tack => {}
            Frame::Tack(mut tack) => {
                self.sender.check_tack(now, &tack)?;
                // TACK-3-3
                if tack.bubbles.is_some() && std::mem::replace(&mut reader.has_bubbles, true) {
                    tack.bubbles = None;
                }
                // What quiche is not told must not count here either, whatever comes before it in the packet (TACK-3-3).
                if too_many || self.sender.is_left_to_long_tack(&tack) {
                    scan.acknowledgements.push(Acknowledgement::LeftTack(tack.sequence));
                    return Ok(());
                }
                let newly = self.sender.newly_acknowledged(&tack);
                scan.see_largest(newly.last());
                self.pass_ack(newly, tack.ranges.iter(), tack.ack_delay_us, rest);
                scan.acknowledgements.push(Acknowledgement::Tack(tack));
            }
            Frame::Iack(iack) => {
                self.sender.check_iack(now, &iack)?;
                if too_many || self.sender.is_left_to_tack(&iack) {
                    scan.acknowledgements.push(Acknowledgement::LeftIack);
                    return Ok(());
                }
                let newly = self.sender.newly_acknowledged_by_iack(&iack);
                scan.see_largest(newly.last());
                self.pass_ack(newly, iack.ranges.iter(), iack.ack_delay_us, rest);
                scan.acknowledgements.push(Acknowledgement::Iack(iack));
            }
            Frame::Timestamp(Timestamp(timestamp)) => reader.departure = Some(timestamp),
            // TACK-7-10 holds before: quiche refuses it in long headers, and we always announce
            // min_ack_delay.
            Frame::AckFrequency(update) => {
                // TACK-7-11
                self.check_update(&update)?;
                scan.updates.push(update);
            }
            Frame::ImmediateAck => scan.immediate_ack = true,
            Frame::ResetStream { stream_id, error_code, final_size }
                if self.takes_reset(
                    LateReset { stream_id, error: error_code, final_size },
                    reader,
                    rest,
                ) => {}
            standard => {
                reader.left_eliciting |= standard.is_ack_eliciting();
                self.pass_on(&standard, encoded, reader, rest);
                self.scan_standard(now, standard, reader)?;
            }
        }
        Ok(())
    }

    /// Puts a frame of quiche's into what quiche is to see. An end with data that was read takes the place of both, and goes
    /// in front where it may have been.
    fn pass_on(
        &self,
        frame: &Frame<'_>,
        encoded: &[u8],
        reader: &mut FrameReader<'_>,
        rest: &mut Vec<u8>,
    ) {
        if let Frame::Stream(stream) = frame
            && stream.fin
            && stream.len > 0
        {
            let was_read = self.windows.was_read(stream.stream_id, stream.data().end);
            // What was read before the end of the handshake was not seen.
            let may_have = was_read.is_none() || self.zero_rtt;
            if was_read == Some(true) || may_have && reader.may_grow {
                reader.has_extension = true;
                put_end(stream, rest);
            }
            if was_read == Some(true) {
                return;
            }
        }
        rest.extend_from_slice(encoded);
    }

    /// Whether a frame resets a stream of which quiche has all: what came in place of an earlier reset, or what the
    /// peer has sent, of a stream that goes both ways.
    fn is_past_reset(
        &self,
        frame: &Frame<'_>,
        readable: &dyn Fn(u64) -> usize,
        reader: &mut FrameReader<'_>,
    ) -> bool {
        let &Frame::ResetStream { stream_id, final_size, .. } = frame else { return false };
        if self.windows.is_filled(stream_id) || reader.scan.has_taken_reset(stream_id) {
            return true;
        }
        if stream_id & 2 != 0 {
            return false;
        }
        let read = self.windows.read_of_ended(stream_id, final_size);
        read.is_some_and(|read| {
            let ask = || read + readable(stream_id) as u64 == final_size;
            reader.scan.asked_streams.is_whole(stream_id, ask)
        })
    }

    /// Whether quiche gets the rest of a stream in place of its reset, now or later.
    fn takes_reset(
        &self,
        reset: LateReset,
        reader: &mut FrameReader<'_>,
        rest: &mut Vec<u8>,
    ) -> bool {
        if !may_fill(reset.stream_id, self.stopped_reads.contains(reset.stream_id)) {
            return false;
        }
        let read = self.windows.read_of_ended(reset.stream_id, reset.final_size);
        let Some(read) = read else { return false };
        reader.has_extension = true;
        let scan = &mut reader.scan;
        let fill = if reader.may_grow {
            self.late_fills.fill(&reset, Some(read), &mut scan.zeros, rest)
        } else {
            None
        };
        reader.left_eliciting |= fill.is_some();
        match fill {
            Some(fill) => scan.fills.push(fill),
            None => scan.waiting_resets.push(reset),
        }
        true
    }

    /// Gives quiche something of the rest of streams that were reset before.
    #[cold]
    fn fill_waiting(&self, reader: &mut FrameReader<'_>, rest: &mut Vec<u8>) {
        let mut frames = Vec::new();
        let scan = &mut reader.scan;
        for waiting in self.late_fills.next(|id| self.stopped_reads.contains(id)) {
            let reset = &waiting.reset;
            let read = self.windows.read_of_ended(reset.stream_id, reset.final_size);
            scan.fills.extend(self.late_fills.fill(reset, read, &mut scan.zeros, &mut frames));
        }
        if !frames.is_empty() {
            // In front, because a STREAM frame may run to the end.
            rest.splice(0..0, frames);
            (reader.left_eliciting, reader.has_extension) = (true, true);
        }
    }

    fn scan_standard<'a>(
        &self,
        now: Instant,
        frame: Frame<'a>,
        reader: &mut FrameReader<'a>,
    ) -> Result<(), ExtensionError> {
        let scan = &mut reader.scan;
        match frame {
            Frame::Ack(ack) => {
                self.sender.check_ack(now, &ack)?;
                let units =
                    ack.ack_delay.saturating_mul(1 << self.agreement.ack_delay_exponent);
                scan.see_largest(Some(&(ack.ranges.largest()..=ack.ranges.largest())));
                let delay = Duration::from_micros(units);
                scan.acknowledgements.push(Acknowledgement::Ack(ack, delay));
            }
            Frame::Stream(stream) => {
                reader.ends_stream |= stream.fin;
                scan.effects.ends_stream |= stream.fin;
                scan.streams.push(stream);
            }
            Frame::ResetStream { stream_id, final_size, .. } => {
                scan.reset_streams.push((stream_id, final_size));
            }
            Frame::StopSending { stream_id, error_code } => {
                scan.effects.stopped.push(Stop { stream_id, error: error_code });
            }
            Frame::PathChallenge(data) => scan.effects.path_challenge = Some(data),
            Frame::PathResponse(data) => scan.effects.path_response = Some(data),
            Frame::NewConnectionId { cid, .. } => scan.effects.issued_id_lens.push(cid.len()),
            Frame::HandshakeDone => scan.confirms_handshake = true,
            _ => {}
        }
        Ok(())
    }

    /// Completes what quiche is to see in place of the packet.
    fn finish_scan<'a>(
        &self,
        mut reader: FrameReader<'a>,
        rest: &mut Vec<u8>,
    ) -> (IncomingScan<'a>, bool) {
        if reader.may_grow && !self.late_fills.is_empty() {
            self.fill_waiting(&mut reader, rest);
        }
        let mut scan = reader.scan;
        let mut is_rewritten = reader.has_extension;
        if let Some(largest) = scan.largest_acked {
            let mut acks = Vec::new();
            for pn in self.flush_pings.overtaken_by(largest) {
                encode_ack(&mut acks, std::iter::once(pn..=pn), 0, None, usize::MAX);
            }
            // In front, because a STREAM frame may run to the end.
            is_rewritten |= !acks.is_empty();
            rest.splice(0..0, acks);
        }
        if reader.ack_eliciting && !reader.left_eliciting {
            // quiche must still owe an acknowledgement: a PING takes the place of what was taken
            // out.
            rest.insert(0, 0x01);
        }
        if rest.len() < SHORTEST_PAYLOAD {
            rest.resize(SHORTEST_PAYLOAD, 0);
        }
        scan.received = Some(Received {
            packet_number: reader.packet_number,
            bytes: reader.bytes,
            ack_eliciting: reader.ack_eliciting,
            departure: reader.departure,
            ends_stream: reader.ends_stream,
            ecn: EcnCodepoint::NotEct,
        });
        (scan, is_rewritten)
    }

    /// Puts what a TACK or IACK newly acknowledges into an ACK frame for quiche.
    fn pass_ack(
        &self,
        newly: Vec<RangeInclusive<u64>>,
        all: impl Iterator<Item = RangeInclusive<u64>>,
        delay_us: u64,
        rest: &mut Vec<u8>,
    ) {
        // quiche divides nothing: the delay is scaled by the exponent that the
        // peer announced (RFC 9000 section 19.3).
        let delay = delay_us >> self.agreement.ack_delay_exponent;
        if self.zero_rtt {
            encode_ack(rest, all, delay, None, usize::MAX);
        } else if !newly.is_empty() {
            encode_ack(rest, newly.into_iter().rev(), delay, None, usize::MAX);
        }
    }

    /// draft-ietf-quic-ack-frequency section 4. Zero means "every packet"
    /// between TACK peers.
    fn check_update(&self, update: &AckFrequency) -> Result<(), ExtensionError> {
        let delay = Duration::from_micros(update.requested_max_ack_delay_us);
        if self.agreement.tack && delay.is_zero() {
            return Ok(());
        }
        let too_long = update.requested_max_ack_delay_us >= AckFrequency::DELAY_LIMIT_US;
        if delay < self.min_ack_delay || too_long {
            return Err(ExtensionError::RequestedDelay);
        }
        Ok(())
    }
}

/// Whether quiche answers the frame with another one, whatever else there is to send. Limits and
/// reports of blocked streams are not among them: they let data leave, or remind of window updates that
/// the layer follows by itself, and a peer may send as many as it likes.
const fn wants_answer(frame: &Frame<'_>) -> bool {
    matches!(
        frame,
        Frame::StopSending { .. } | Frame::NewConnectionId { .. } | Frame::PathChallenge(_)
    )
}
