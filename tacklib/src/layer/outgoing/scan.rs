//! What quiche has written into an outgoing packet: a value, read before anything of it takes effect, because a packet that
//! cannot be sealed must change nothing.

use std::ops::{Range, RangeInclusive};

use tack_proto::frame::{Frame, Frames, Located, Stream};
use tack_proto::receiver::{Due, Receiver};

use super::Sent;
use crate::layer::SHORTEST_PAYLOAD;
use crate::quiche_compat::StreamEnds;

/// The bit of a STREAM frame's type that says that it ends the stream (RFC 9000 section 19.8).
const STREAM_FIN: u8 = 0x01;

/// What quiche has written into a packet. A value: nothing of it has taken effect.
#[derive(Debug, Default)]
pub(super) struct OutgoingScan {
    /// The frames that stay.
    pub(super) kept: Ranges,
    /// Bytes of quiche's that do not.
    pub(super) taken_out: usize,
    /// Where the STREAM frame is whose end leaves alone, and its stream.
    pub(super) taken_off: Option<(usize, u64)>,
    /// An end of a stream that was given up is one of them.
    pub(super) has_false_end: bool,
    pub(super) is_padded: bool,
    pub(super) had_ack: bool,
    /// quiche's acknowledgement is left in.
    pub(super) keeps_ack: bool,
    /// To the acknowledgement of a stock peer's packets ECN counts are added.
    pub(super) adds_ecn: bool,
    /// Where that acknowledgement is.
    pub(super) ack: Option<Range<usize>>,
    pub(super) stream_bytes: usize,
    pub(super) stream_id: Option<u64>,
    pub(super) stream_end: u64,
    pub(super) has_datagram: bool,
    pub(super) ends_stream: bool,
    pub(super) ack_eliciting: bool,
    /// It carries what has to be sent again if it is lost.
    pub(super) needs_repair: bool,
    pub(super) challenge: Option<[u8; 8]>,
    pub(super) answers_challenge: bool,
    /// A frame in it has to be seen by the layer of the other end.
    pub(super) wants_look: bool,
    /// A frame in it is not a probing one (RFC 9000 section 9.1).
    pub(super) is_non_probing: bool,
    pub(super) noted: Vec<Noted>,
}

/// A frame of quiche's that the layer follows.
#[derive(Debug)]
pub(super) enum Noted {
    ZeroRttAck(Vec<RangeInclusive<u64>>),
    MaxData(u64),
    MaxStreamData { stream_id: u64, max: u64 },
    MaxStreams { bidi: bool, max: u64 },
    End { stream_id: u64, offset: u64, len: u64 },
    Reset { stream_id: u64 },
    PathResponse([u8; 8]),
}

impl OutgoingScan {
    /// Reads the frames of a packet; with `takes_acks_out` quiche's acknowledgement and padding are left
    /// out. A frame that cannot be read stays, with all behind it.
    pub(super) fn read(
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
            Frame::MaxStreams { bidi, max } => {
                self.noted.push(Noted::MaxStreams { bidi: *bidi, max: *max });
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
    pub(super) fn content(&self) -> Sent {
        Sent {
            stream_bytes: self.stream_bytes,
            stream_id: self.stream_id,
            stream_end: self.stream_end,
            is_ack_only: !self.ack_eliciting,
            ..Sent::default()
        }
    }

    /// Whether quiche's frames leave as they are.
    pub(super) fn keeps_all(&self) -> bool {
        self.taken_out == 0 && self.taken_off.is_none()
    }

    /// Appends the frames that stay.
    pub(super) fn put_kept(&self, payload: &[u8], frames: &mut Vec<u8>) {
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
    pub(super) fn is_stream_only(&self) -> bool {
        self.ack_eliciting && !self.wants_look
    }

    /// Whether nothing is lost if the packet never leaves.
    pub(super) fn is_bare(&self) -> bool {
        !self.needs_repair && self.challenge.is_none() && !self.answers_challenge
    }

    /// The packet leaves anyway, with an acknowledgement of quiche's taken out
    /// and no data to make room for: then the TACK may as well go now.
    pub(super) fn early_tack(&self, receiver: &Receiver) -> Option<Due> {
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
pub(super) struct Ranges {
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

    pub(super) fn len(&self) -> usize {
        self.total
    }
}
