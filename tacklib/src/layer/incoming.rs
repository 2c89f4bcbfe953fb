//! Packets on their way in: from the socket to quiche.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use tack_packet::{ProtectionKeys, ShortHeader, TAG_LEN};
use tack_proto::frame::{AckFrequency, Frame, Frames, Located, Stream, Timestamp, encode_ack};
use tack_proto::receiver::Received;
use tack_proto::sender::AckOutcome;

use super::{Layer, MARK, ProtocolError, SHORTEST_PAYLOAD, seal_into};
use crate::journal::Way;

/// Packet numbers that quiche remembers below the largest received; older ones
/// it takes for duplicates (0.30, `PktNumWindow`).
const QUICHE_WINDOW: u64 = 127;

/// kPacketThreshold, RFC 9002 section 6.1.1.
const PACKET_THRESHOLD: u64 = 3;

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
    streams: Vec<Stream>,
    reset: Vec<u64>,
    updates: Vec<AckFrequency>,
    immediate_ack: bool,
    wants_answer: bool,
    /// Streams that the peer asked not to send on.
    pub stopped: Vec<u64>,
    /// The data of a PATH_CHALLENGE that it answers.
    pub answer: Option<[u8; 8]>,
}

impl Layer {
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

    /// Takes a packet without the mark for what the mark's absence says it is: plain data, of
    /// which nothing but number and size is needed. What is read here proves to be genuine when
    /// quiche accepts the packet, and is to be recorded then with
    /// [`Self::record`]. `None` asks for a closer look.
    pub fn plain_data(&self, packet: &[u8], dcid_len: usize) -> Option<Received> {
        if !self.agreement.tack || self.looks_into_unmarked() {
            return None;
        }
        let expected = self.largest_received.map_or(0, |largest| largest + 1);
        let header = self.incoming.peek(packet, dcid_len, expected).ok()?;
        if header.reserved_bits() != 0 || !self.incoming.is_current(&header) {
            return None;
        }
        let pn = header.packet_number;
        (!self.is_old(pn)).then_some(Received {
            packet_number: pn,
            bytes: packet.len(),
            ack_eliciting: true,
            departure: None,
            ends_stream: false,
        })
    }

    /// Whether somebody needs to know which bytes of which stream a packet carries.
    fn looks_into_unmarked(&self) -> bool {
        self.windows.needs_offsets() || self.records_streams()
    }

    /// Whether the receiver's record of stream data is worth looking into every packet for. After
    /// 0-RTT it would miss what came in packets that were not seen here.
    fn records_streams(&self) -> bool {
        self.agreement.tack && !self.zero_rtt && self.receiver.wants_streams()
    }

    /// Tells the receiver of stream data in a packet that quiche has accepted.
    fn record_stream(
        &mut self,
        now: Instant,
        pn: u64,
        stream: &Stream,
        connection: &quiche::Connection,
    ) {
        let stream_id = stream.stream_id;
        if !self.receiver.knows_stream(stream_id) {
            // What has come of it so far may have come in packets that nobody looked into.
            let arrived = self.windows.arrived(stream_id, connection);
            let before = Stream { stream_id, offset: 0, len: arrived, fin: false };
            self.receiver.on_stream(now, pn, &before);
        }
        self.receiver.on_stream(now, pn, stream);
    }

    /// The packet that [`Delivery::Rewritten`] speaks of.
    pub fn rewritten(&mut self) -> &mut [u8] {
        &mut self.rewritten
    }

    /// quiche has accepted a packet.
    pub fn record(&mut self, now: Instant, received: Received) {
        self.largest_received = self.largest_received.max(Some(received.packet_number));
        self.first_received.get_or_insert(received.packet_number);
        self.receiver.on_packet(now, received);
        self.quiche_has_ack |= received.ack_eliciting;
    }

    /// quiche has not: most likely the packet did not authenticate.
    pub fn on_plain_refused(&mut self) {
        self.incoming.on_failed_open();
    }

    /// quiche has accepted the packet. Returns whether it may have something to
    /// send at once.
    pub fn on_accepted(
        &mut self,
        now: Instant,
        seen: &Seen,
        connection: &quiche::Connection,
    ) -> bool {
        let Some(received) = seen.received else { return false };
        self.record(now, received);
        for update in &seen.updates {
            if self.agreement.tack {
                self.receiver.on_frequency_update(update);
            } else {
                self.receiver.on_ack_frequency(update);
            }
        }
        if seen.immediate_ack {
            self.receiver.on_immediate_ack(now);
        }
        let records_streams = self.records_streams();
        for stream in &seen.streams {
            self.windows.on_received(stream.stream_id, stream.data().end, stream.fin);
            if records_streams {
                self.record_stream(now, received.packet_number, stream, connection);
            }
        }
        for &stream_id in &seen.reset {
            self.receiver.on_reset_stream(stream_id);
        }
        seen.wants_answer
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
            self.journal.on_frame(Way::Received, pn, &frame);
            ack_eliciting |= frame.is_ack_eliciting();
            seen.wants_answer |= frame.wants_answer();
            if frame.is_extension() {
                rewrite = true;
            }
            match &frame {
                Frame::Tack(_) | Frame::Iack(_) | Frame::Timestamp(_)
                    if !self.agreement.tack =>
                {
                    // TACK-7-5
                    if !matches!(frame, Frame::Timestamp(_)) {
                        return Err(ProtocolError::Frame("TACK frames were not negotiated"));
                    }
                }
                Frame::Tack(tack) => {
                    self.sender.check_tack(now, tack)?;
                    let newly = self.sender.on_tack(now, tack);
                    largest_acked = largest_acked.max(largest(&newly));
                    self.pass_ack(&newly, tack.ranges.iter(), tack.ack_delay_us, rest);
                }
                Frame::Iack(iack) => {
                    self.sender.check_iack(now, iack)?;
                    let newly = self.sender.on_iack(now, iack);
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
                        self.sender.check_ack(now, ack)?;
                        let newly = self.sender.on_ack(now, ack, delay);
                        largest_acked = largest_acked.max(largest(&newly));
                    }
                    if let Frame::Stream(stream) = standard {
                        seen.streams.push(*stream);
                        ends_stream |= stream.fin;
                    }
                    if let Frame::ResetStream { stream_id, .. } = standard {
                        seen.reset.push(*stream_id);
                    }
                    if let Frame::StopSending { stream_id, .. } = standard {
                        seen.stopped.push(*stream_id);
                    }
                    if let Frame::PathResponse(data) = standard {
                        seen.answer = Some(*data);
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
        newly: &AckOutcome,
        all: impl Iterator<Item = RangeInclusive<u64>>,
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
        let too_long = update.requested_max_ack_delay_us >= AckFrequency::DELAY_LIMIT_US;
        if delay < self.min_ack_delay || too_long {
            return Err(ProtocolError::Frame(
                "ACK_FREQUENCY asks for a delay below min_ack_delay or of 2^14 ms and above",
            ));
        }
        Ok(())
    }

    /// Whether quiche will take the number for a duplicate.
    fn is_old(&self, pn: u64) -> bool {
        self.largest_received.is_some_and(|largest| {
            pn + QUICHE_WINDOW < largest || pn <= largest && self.receiver.has_received(pn)
        })
    }
}

/// The largest number that an acknowledgement has added.
fn largest(newly: &AckOutcome) -> Option<u64> {
    newly.acked.last().map(|range| *range.end())
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
