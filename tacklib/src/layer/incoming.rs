//! Incoming packets: open, scan, and, once quiche has accepted the packet, apply.

mod apply;
mod scan;

use std::time::Instant;

use tack_packet::{ProtectedHeader, TAG_LEN};
use tack_proto::ecn::EcnCodepoint;
use tack_proto::frame::{OnlyFrame, Stream};

use super::{Layer, NumberSpace};
use crate::error::ExtensionError;
use crate::quiche_compat::{self, LateReset, Stop};
use scan::{FrameReader, IncomingScan};

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

/// What an accepted packet means for the connection around the layer.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// quiche has a control frame to answer with, at once.
    pub wants_answer: bool,
    /// quiche may have something to send that it did not have, or could not send, before.
    pub may_unblock: bool,
    /// A stream of the peer has ended: quiche has MAX_STREAMS to send once the application has read it, if at all.
    pub ends_stream: bool,
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
    /// Whether more has to be known of stream data than number and size of its packets (TACK-2-4).
    fn follows_streams(&self) -> bool {
        self.windows.needs_offsets() || self.records_streams() || !self.stopped_reads.is_empty()
    }

    /// Whether the receiver's record of stream data is worth reading every packet for. After
    /// 0-RTT it would miss what came in packets that were not seen here.
    fn records_streams(&self) -> bool {
        self.agreement.tack && !self.zero_rtt && self.receiver.wants_streams()
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
