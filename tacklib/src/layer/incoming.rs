//! Incoming packets: open, scan, and, once quiche has accepted the packet, apply.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use tack_packet::{ProtectedHeader, TAG_LEN};
use tack_proto::ecn::EcnCodepoint;
use tack_proto::frame::{
    Ack, AckFrequency, Frame, Frames, Iack, Located, OnlyFrame, Stream, Tack, Timestamp,
    encode_ack,
};
use tack_proto::receiver::Received;
use tack_proto::sender::AckOutcome;

use super::{Layer, NumberSpace, SHORTEST_PAYLOAD};
use crate::error::ExtensionError;
use crate::qlog::Direction;
use crate::quiche_compat::{
    self, AskedStreams, Fill, LateReset, Stop, is_over, may_fill, put_end,
};

/// Buffers of the incoming pipeline, taken out of the layer while a packet passes through it.
#[derive(Debug, Default)]
pub struct IncomingBuffers {
    plain: Vec<u8>,
    frames: Vec<u8>,
    sealed: Vec<u8>,
}

/// What a buffer may keep from one packet to the next: more than the largest datagram takes. quiche is told by ranges what
/// one TACK acknowledges, which takes more space once in a while.
const KEPT_BUFFER: usize = 1 << 17;

impl IncomingBuffers {
    fn shrink(&mut self) {
        for buffer in [&mut self.plain, &mut self.frames, &mut self.sealed] {
            if buffer.capacity() > KEPT_BUFFER {
                *buffer = Vec::new();
            }
        }
    }
}

/// Acknowledgements in one packet behind which TACKs and IACKs acknowledge nothing (TACK-3-3). An honest peer sends two;
/// what each newly covers is found while none is applied.
const MOST_ACKNOWLEDGEMENTS: usize = 4;

/// What an incoming packet says. A value: nothing of it has taken effect.
#[derive(Debug, Default)]
pub struct IncomingScan<'a> {
    /// The packet itself; `None` if the layer could not open it, or knows it already.
    received: Option<Received>,
    is_marked: bool,
    acknowledgements: Vec<Acknowledgement<'a>>,
    /// The generation of keys that opened it.
    generation: Option<u64>,
    /// The largest packet number that the acknowledgements cover.
    largest_acked: Option<u64>,
    streams: Vec<Stream>,
    /// Stream and final size.
    reset_streams: Vec<(u64, u64)>,
    /// Streams that were reset and of which quiche was asked whether it has all.
    asked_streams: AskedStreams,
    /// Streams that were reset, and of which quiche gets nothing yet.
    waiting_resets: Vec<LateReset>,
    /// What takes the place of what reset streams lack.
    fills: Vec<Fill>,
    /// How many zeros that are.
    zeros: u64,
    updates: Vec<AckFrequency>,
    immediate_ack: bool,
    confirms_handshake: bool,
    effects: Applied,
}

#[derive(Debug)]
enum Acknowledgement<'a> {
    Tack(Tack<'a>),
    /// A TACK of this sequence that is left to the next long one (TACK-5.4-7).
    LeftTack(u64),
    Iack(Iack<'a>),
    /// An IACK that is left to the next TACK (TACK-5.4-4).
    LeftIack,
    Ack(Ack<'a>, Duration),
}

/// What an accepted packet means for the connection around the layer.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// quiche has a control frame to answer with, at once.
    pub wants_answer: bool,
    /// quiche may have something to send that it did not have, or could not send, before.
    pub may_unblock: bool,
    /// Something was acknowledged.
    pub acknowledged: bool,
    /// Streams that the peer asked not to send on.
    pub stopped: Vec<Stop>,
    /// Streams that the peer has reset behind their end, and of which the application has to be told.
    pub late_resets: Vec<LateReset>,
    /// Something of them is missing that goes in with a packet, and the peer may have none to send.
    pub wants_packet: bool,
    /// The data of a PATH_CHALLENGE in it.
    pub path_challenge: Option<[u8; 8]>,
    /// The data of a PATH_CHALLENGE that it answers.
    pub path_response: Option<[u8; 8]>,
    /// Lengths of connection ids that the peer has issued.
    pub issued_id_lens: Vec<usize>,
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
}

impl Layer {
    /// The pipeline's buffers; to be given back with [`Self::return_buffers`].
    pub fn take_buffers(&mut self) -> IncomingBuffers {
        std::mem::take(&mut self.buffers)
    }

    /// Takes the buffers back, so that the next packet need not allocate.
    pub fn return_buffers(&mut self, buffers: IncomingBuffers) {
        self.buffers = buffers;
        self.buffers.shrink();
    }

    /// Looks at an incoming 1-RTT packet under its protection.
    ///
    /// Between TACK peers the header tells whether it holds stream data or DATAGRAMs and nothing else
    /// (TACK-2-2); of other peers, and where the peer may not mark packets yet (TACK-2-5), the first bytes of the
    /// payload tell whether it holds one such frame.
    /// Then it need not be opened here: it proves to be genuine when quiche accepts it.
    #[inline]
    pub fn look_at(&self, packet: &[u8], dcid_len: usize) -> Look {
        let space = &self.space;
        let expected = space.largest_received.map_or(0, |largest| largest + 1);
        let Ok(header) = self.protection.read_header(packet, dcid_len, expected) else {
            return Look::Other(None);
        };
        if space.is_known(header.packet_number()) {
            return Look::Other(None);
        }
        if header.reserved_bits() != 0 || !header.is_current() {
            return Look::Other(Some(header));
        }
        let (mut stream, follows_streams) = (None, space.follows_streams());
        let tells = space.agreement.tack
            && space.first_marked.is_some_and(|first| first <= header.packet_number());
        if !tells || follows_streams {
            match self.only_frame(packet, &header) {
                Some(OnlyFrame::Stream(frame)) if !frame.fin => {
                    stream = follows_streams.then_some(frame);
                }
                Some(OnlyFrame::Datagram) => {}
                _ => return Look::Other(Some(header)),
            }
        }
        Look::Data(Data {
            packet_number: header.packet_number(),
            payload_at: header.header().header_len,
            is_newest: space.largest_received.is_some_and(|pn| pn < header.packet_number()),
            bytes: packet.len(),
            stream,
        })
    }

    fn only_frame(&self, packet: &[u8], header: &ProtectedHeader) -> Option<OnlyFrame> {
        let first = self.protection.first_bytes(packet, header)?;
        OnlyFrame::read(&first, packet.len() - header.header().header_len - TAG_LEN)
    }

    /// Opens a packet and reads its frames, if [`Self::look_at`] gave its header. `readable` tells how many bytes of
    /// a stream quiche has for the application. What quiche gets in place of the packet is longer only if it `may_grow`.
    ///
    /// An error must close the connection: the packet is authentic and breaks a rule.
    pub fn scan_incoming<'a>(
        &mut self,
        now: Instant,
        packet: &[u8],
        header: Option<ProtectedHeader>,
        buffers: &'a mut IncomingBuffers,
        readable: &dyn Fn(u64) -> usize,
        may_grow: bool,
    ) -> Result<Scanned<'a>, ExtensionError> {
        let IncomingBuffers { plain, frames, sealed } = buffers;
        let opened = header.and_then(|header| self.protection.open(packet, header, plain).ok());
        let Some(opened) = opened else {
            // Not for us, damaged, or a stateless reset: quiche knows.
            return Ok(Scanned { scan: IncomingScan::default(), sealed: None });
        };
        self.space.stats.opened += 1;
        if !self.space.agreement.tack && opened.header.reserved_bits() != 0 {
            // RFC 9000 section 17.3.1; quiche (0.30) does not look.
            return Err(ExtensionError::ReservedBits);
        }
        let payload = &plain[opened.payload.clone()];
        let mut reader = FrameReader::new(opened.header.packet_number, packet.len());
        reader.scan.generation = Some(opened.generation);
        reader.may_grow = may_grow;
        let (mut scan, is_rewritten) =
            self.space.scan(now, reader, payload, readable, frames)?;
        let marked = opened.header.reserved_bits() != 0;
        scan.is_marked = marked;
        if !is_rewritten && !marked && !self.protection.needs_translation(&opened) {
            return Ok(Scanned { scan, sealed: None });
        }
        // TACK-2-3
        let content = if is_rewritten { &frames[..] } else { payload };
        self.protection
            .seal_for_stack(&opened, true, content, sealed)
            .map_err(|_| ExtensionError::Unsealable)?;
        Ok(Scanned { scan, sealed: Some(sealed) })
    }

    /// quiche has accepted the packet, which came with this ECN codepoint: what it says takes effect.
    ///
    /// An error must close the connection.
    pub fn apply<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        scan: IncomingScan<'_>,
        ecn: EcnCodepoint,
        connection: &quiche::Connection<F>,
    ) -> Result<Applied, ExtensionError> {
        if scan.confirms_handshake {
            self.protection.on_handshake_confirmed();
        }
        if let Some((largest, generation)) = scan.largest_acked.zip(scan.generation) {
            let probe_timeout = self.space.probe_timeout();
            self.protection
                .on_acknowledged(now, probe_timeout, largest, generation)
                .map_err(|_| ExtensionError::KeyUpdate)?;
        }
        Ok(self.space.apply(now, scan, ecn, connection))
    }

    /// quiche has accepted a packet that was not opened here.
    #[inline]
    pub fn apply_data<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        data: &Data,
        ecn: EcnCodepoint,
        connection: &quiche::Connection<F>,
    ) {
        self.space.apply_data(now, data, ecn, connection);
    }

    /// quiche has not accepted the packet.
    pub fn on_refused(&mut self) {
        self.space.stats.refused += 1;
    }

    /// quiche has not accepted a packet that was not opened here: most likely it did not authenticate,
    /// which quiche alone has found out.
    pub fn on_data_refused(&mut self) {
        self.space.stats.refused += 1;
        self.protection.on_failed_open();
    }
}

impl NumberSpace {
    /// Reads the frames of a packet. `rest` becomes what quiche is to see if the second value is true.
    fn scan<'a>(
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

    fn apply<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        mut scan: IncomingScan<'_>,
        ecn: EcnCodepoint,
        connection: &quiche::Connection<F>,
    ) -> Applied {
        let Some(received) = scan.received else { return Applied::default() };
        // TACK-4.6-1: it counts now that the packet is accepted.
        let received = Received { ecn, ..received };
        let mut effects = std::mem::take(&mut scan.effects);
        if scan.is_marked {
            let pn = received.packet_number;
            self.first_marked = Some(self.first_marked.map_or(pn, |first| first.min(pn)));
        }
        self.on_received(now, received);
        for acknowledgement in &scan.acknowledgements {
            let outcome = self.on_acknowledgement(now, acknowledgement);
            effects.acknowledged |= !outcome.acked.is_empty();
        }
        // Carriers of acknowledgements are in flight, too, and no data.
        let data_rate = if self.sends_data { self.sender.bulk_rate() } else { None };
        self.receiver.set_data_rate(data_rate);
        if let Some(largest) = scan.largest_acked {
            self.flush_pings.forget_overtaken(largest);
        }
        for update in &scan.updates {
            if self.agreement.tack {
                self.receiver.on_frequency_update(update);
            } else {
                self.receiver.on_ack_frequency(update);
            }
        }
        if scan.immediate_ack {
            self.receiver.on_immediate_ack(now);
        }
        for stream in &scan.streams {
            self.on_stream(now, received.packet_number, stream, connection);
        }
        if !scan.fills.is_empty()
            || !scan.waiting_resets.is_empty()
            || !self.late_fills.is_empty()
        {
            self.apply_fills(received.ack_eliciting, &scan, &mut effects, connection);
        }
        for stream_id in scan.asked_streams.whole() {
            self.windows.on_filled(stream_id);
        }
        for &(stream_id, final_size) in &scan.reset_streams {
            self.windows.on_reset(stream_id, final_size, &|id| is_over(connection, id));
            self.receiver.on_reset_stream(stream_id);
            self.stopped_reads.on_received(stream_id);
        }
        effects
    }

    /// What quiche has got of streams that were reset, and what has to wait.
    #[cold]
    fn apply_fills<F: quiche::BufFactory>(
        &mut self,
        is_ack_eliciting: bool,
        scan: &IncomingScan<'_>,
        effects: &mut Applied,
        connection: &quiche::Connection<F>,
    ) {
        let resets = scan.fills.iter().map(|fill| &fill.reset).chain(&scan.waiting_resets);
        for &LateReset { stream_id, .. } in resets {
            self.receiver.on_reset_stream(stream_id);
            self.windows.on_filled(stream_id);
            if self.late_fills.is_told(stream_id) {
                self.stopped_reads.touch(stream_id);
            } else {
                self.stopped_reads.on_received(stream_id);
            }
        }
        let firsts = scan.fills.iter().filter(|fill| fill.is_first);
        effects.late_resets.extend(firsts.map(|fill| fill.reset));
        self.late_fills.on_accepted(scan.zeros, &scan.fills, &scan.waiting_resets);
        self.late_fills.end_turn(&scan.fills, |id| is_over(connection, id));
        // quiche has one to send, whatever the peer's packet elicits.
        self.quiche_owes.ack |= !scan.fills.is_empty();
        // An acknowledgement alone must not answer one (RFC 9000 section 13.2.1).
        let follows = !is_ack_eliciting || !self.late_fills.is_empty();
        effects.wants_packet =
            !scan.waiting_resets.is_empty() || follows && !scan.fills.is_empty();
    }

    #[inline]
    fn apply_data<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        data: &Data,
        ecn: EcnCodepoint,
        connection: &quiche::Connection<F>,
    ) {
        let &Data { packet_number, bytes, stream, .. } = data;
        let received = Received {
            packet_number,
            bytes,
            ack_eliciting: true,
            departure: None,
            ends_stream: false,
            ecn,
        };
        self.on_received(now, received);
        if let Some(stream) = &stream {
            self.on_stream(now, packet_number, stream, connection);
        }
    }

    #[inline]
    fn on_received(&mut self, now: Instant, received: Received) {
        let pn = received.packet_number;
        if self.largest_received.is_none_or(|largest| largest < pn) {
            self.largest_received = Some(pn);
        }
        self.first_received.get_or_insert(pn);
        self.quiche_owes.ack |= received.ack_eliciting;
        self.late_fills.on_received(received.bytes);
        let above_lowest = self.receiver.on_packet(now, received);
        self.sender.on_ack_path_delay(now, above_lowest);
        if received.ack_eliciting {
            self.sender.on_peer_data(received.bytes);
        }
    }

    fn on_stream<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        pn: u64,
        stream: &Stream,
        connection: &quiche::Connection<F>,
    ) {
        let is_over = |id| is_over(connection, id);
        self.windows.on_received(stream.stream_id, stream.data().end, stream.fin, &is_over);
        self.stopped_reads.on_received(stream.stream_id);
        if self.records_streams() {
            self.record_stream(now, pn, stream, connection);
        }
    }

    fn on_acknowledgement(
        &mut self,
        now: Instant,
        acknowledgement: &Acknowledgement<'_>,
    ) -> AckOutcome {
        match acknowledgement {
            Acknowledgement::Tack(tack) => self.sender.on_tack(now, tack),
            Acknowledgement::LeftTack(sequence) => {
                self.sender.on_left_tack(*sequence);
                AckOutcome::default()
            }
            Acknowledgement::Iack(iack) => self.sender.on_iack(now, iack),
            Acknowledgement::LeftIack => {
                self.sender.on_left_iack();
                AckOutcome::default()
            }
            Acknowledgement::Ack(ack, delay) => self.sender.on_ack(now, ack, *delay),
        }
    }

    /// Whether more has to be known of stream data than number and size of its packets (TACK-2-4).
    fn follows_streams(&self) -> bool {
        self.windows.needs_offsets() || self.records_streams() || !self.stopped_reads.is_empty()
    }

    /// Whether the receiver's record of stream data is worth reading every packet for. After
    /// 0-RTT it would miss what came in packets that were not seen here.
    fn records_streams(&self) -> bool {
        self.agreement.tack && !self.zero_rtt && self.receiver.wants_streams()
    }

    /// Tells the receiver of stream data in a packet that quiche has accepted.
    fn record_stream<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        pn: u64,
        stream: &Stream,
        connection: &quiche::Connection<F>,
    ) {
        let stream_id = stream.stream_id;
        if !self.receiver.knows_stream(stream_id) {
            // What has come of it so far may have come in packets that were not read.
            let arrived = self.windows.arrived(stream_id, connection);
            let before = Stream { stream_id, offset: 0, len: arrived, fin: false };
            self.receiver.on_stream(now, pn, &before);
        }
        self.receiver.on_stream(now, pn, stream);
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

    /// Whether the number has come before, or quiche will take it for a duplicate.
    fn is_known(&self, pn: u64) -> bool {
        self.largest_received.is_some_and(|largest| {
            quiche_compat::is_duplicate_to_quiche(pn, largest)
                || pn <= largest && self.receiver.has_received(pn)
        })
    }
}

/// A packet that was read, and what quiche gets in its place if not the packet itself.
#[derive(Debug)]
pub struct Scanned<'a> {
    /// What it says.
    pub scan: IncomingScan<'a>,
    /// The packet for quiche, where it is not the one that came.
    pub sealed: Option<&'a mut Vec<u8>>,
}

/// What an incoming packet is, before it has been opened.
#[derive(Debug)]
pub enum Look {
    /// Stream data or DATAGRAMs and nothing else. Nothing of it has been authenticated.
    Data(Data),
    /// It has to be opened; or not even that, because it has no readable header or its number has come
    /// before, and quiche knows what to do.
    Other(Option<ProtectedHeader>),
}

/// A packet of stream data or DATAGRAMs that is not opened here.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    packet_number: u64,
    /// Where its payload begins.
    pub payload_at: usize,
    /// Its number is above all that have come, so that quiche cannot take it for a duplicate.
    pub is_newest: bool,
    /// Size on the wire.
    bytes: usize,
    /// Its only frame, where that had to be known.
    stream: Option<Stream>,
}

impl IncomingScan<'_> {
    /// Whether the packet has reset a stream before, and quiche does not learn of it.
    fn has_taken_reset(&self, stream_id: u64) -> bool {
        let filled = self.fills.iter().map(|fill| &fill.reset);
        filled.chain(&self.waiting_resets).any(|reset| reset.stream_id == stream_id)
    }

    fn see_largest(&mut self, newest: Option<&RangeInclusive<u64>>) {
        self.largest_acked = self.largest_acked.max(newest.map(|range| *range.end()));
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

/// What is collected while the frames of a packet are read.
#[derive(Debug)]
struct FrameReader<'a> {
    scan: IncomingScan<'a>,
    packet_number: u64,
    bytes: usize,
    departure: Option<u64>,
    ack_eliciting: bool,
    /// Something that elicits an acknowledgement is left for quiche.
    left_eliciting: bool,
    has_extension: bool,
    /// quiche may get more than has come. Over a path that the peer has not proven to be its own quiche may send three
    /// times what it got (RFC 9000 section 8.1).
    may_grow: bool,
    ends_stream: bool,
    /// A TACK has bubbles.
    has_bubbles: bool,
}

impl FrameReader<'_> {
    fn new(packet_number: u64, bytes: usize) -> Self {
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
