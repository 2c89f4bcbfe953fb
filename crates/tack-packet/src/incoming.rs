//! Packets from the wire to the stack.

use std::{
    fmt,
    ops::Range,
    time::{Duration, Instant},
};

use crate::{
    CipherSuite, Error, ShortHeader, TAG_LEN,
    generations::{Generations, key_phase},
    header::{KEY_PHASE, Mask, PlainHeader, RESERVED, check_payload_len},
    keys::{FirstBytes, GenerationKeys},
};

/// Probe timeouts that previous keys are kept for after an update (RFC 9001 section 6.5).
pub(crate) const PTOS_AFTER_UPDATE: u32 = 3;

/// Opens the 1-RTT packets that come from the peer, and seals them again for the stack.
///
/// It follows the peer's key updates. The stack follows them too, because it gets each packet in
/// the generation in which it came, once its handshake is confirmed. Before that, packets of the
/// first update are translated back into the generation before it.
pub struct IncomingKeys {
    generations: Generations,
    /// The lowest packet number opened with the current keys; 0 before the first key update.
    first_of_current: u64,
    /// When the previous keys are dropped; `None` before that has been asked.
    previous_expires: Option<Instant>,
    stack_follows: bool,
    failed_opens: u64,
}

/// A short header read under its protection, and what it takes to lift that.
///
/// Nothing in it is authenticated until the packet has been opened.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ProtectedHeader {
    header: ShortHeader,
    mask: Mask,
    is_current: bool,
}

impl ProtectedHeader {
    /// The header.
    pub const fn header(&self) -> &ShortHeader {
        &self.header
    }

    /// The full packet number.
    pub const fn packet_number(&self) -> u64 {
        self.header.packet_number
    }

    /// The two reserved bits, in place: a value within 0x18.
    pub fn reserved_bits(&self) -> u8 {
        self.header.reserved_bits()
    }

    /// Whether the packet is of the current generation, as far as its key phase bit tells, and
    /// the stack opens that without translation.
    pub const fn is_current(&self) -> bool {
        self.is_current
    }
}

/// A packet that has been authenticated and decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened {
    /// The header.
    pub header: ShortHeader,
    /// Where in the buffer that the packet was decrypted into the frames are.
    pub payload: Range<usize>,
    /// How many key updates came before the keys that opened it.
    pub generation: u64,
    plain: PlainHeader,
}

impl IncomingKeys {
    /// Keys that follow from the secret of a `CLIENT_TRAFFIC_SECRET_0` or
    /// `SERVER_TRAFFIC_SECRET_0` line of a key log.
    ///
    /// Fails with [`Error::SecretLength`] if the secret is not one of this suite.
    pub fn new(suite: CipherSuite, traffic_secret: &[u8]) -> Result<Self, Error> {
        Ok(Self {
            generations: Generations::new(suite, traffic_secret)?,
            first_of_current: 0,
            previous_expires: None,
            stack_follows: true,
            failed_opens: 0,
        })
    }

    /// Reads the header under its protection and leaves the packet as it is.
    ///
    /// `dcid_len` is the length of the connection id in bytes, `expected_pn` one above the
    /// largest packet number seen so far.
    ///
    /// Fails with [`Error::LongHeader`], [`Error::TooShort`] or [`Error::ConnectionIdLength`].
    #[inline]
    pub fn read_header(
        &self,
        packet: &[u8],
        dcid_len: usize,
        expected_pn: u64,
    ) -> Result<ProtectedHeader, Error> {
        let (header, mask) = self.generations.header().read(packet, dcid_len, expected_pn)?;
        let generation = self.generations.generation();
        let is_current =
            header.key_phase() == key_phase(generation) && !self.needs_translation(generation);
        Ok(ProtectedHeader { header, mask, is_current })
    }

    /// The first bytes of a packet's payload, without opening it; `None` if the payload is empty, or the
    /// packet is not of the current generation. They are what the packet holds if it turns out to be
    /// authentic.
    #[inline]
    pub fn first_bytes(&self, packet: &[u8], header: &ProtectedHeader) -> Option<FirstBytes> {
        let end = packet.len().saturating_sub(TAG_LEN);
        let sealed = packet.get(header.header.header_len..end)?;
        if sealed.is_empty() || !header.is_current {
            return None;
        }
        self.generations.current().first_bytes(header.header.packet_number, sealed).ok()
    }

    /// Authenticates a packet, decrypts it into `scratch`, and follows the peer's key update.
    ///
    /// `header` is what [`read_header`](Self::read_header) has read from the same packet. After
    /// an error `scratch` is empty.
    ///
    /// Fails with [`Error::Authentication`], which counts as a failed open, or
    /// [`Error::UnknownGeneration`].
    pub fn open(
        &mut self,
        packet: &[u8],
        header: ProtectedHeader,
        scratch: &mut Vec<u8>,
    ) -> Result<Opened, Error> {
        scratch.clear();
        let mask = header.mask;
        let header = header.header;
        let plain = PlainHeader::of(packet, &header, mask)?;
        let generation = self.authenticate(&header, |keys| {
            let ciphertext = packet.get(header.header_len..).unwrap_or_default();
            keys.open_copy(header.packet_number, plain.as_bytes(), ciphertext, scratch)
        })?;
        Ok(Opened { header, payload: 0..scratch.len(), generation, plain })
    }

    /// As [`open`](Self::open), in the packet's own buffer, which afterwards has the plain
    /// header too.
    pub(crate) fn open_in_place(
        &mut self,
        packet: &mut [u8],
        header: ProtectedHeader,
    ) -> Result<Opened, Error> {
        let mask = header.mask;
        let header = header.header;
        let plain = PlainHeader::of(packet, &header, mask)?;
        let generation = self.authenticate(&header, |keys| {
            let (start, ciphertext) = packet.split_at_mut(header.header_len);
            start.copy_from_slice(plain.as_bytes());
            keys.open(header.packet_number, plain.as_bytes(), ciphertext)
        })?;
        let payload = header.header_len..packet.len().saturating_sub(TAG_LEN);
        Ok(Opened { header, payload, generation, plain })
    }

    /// Opens with the keys that the header asks for, and returns their generation.
    fn authenticate(
        &mut self,
        header: &ShortHeader,
        open: impl FnOnce(&GenerationKeys) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let generation = self.generation_of(header);
        let current = self.generations.generation();
        if generation > current && self.needs_translation(current) {
            // One update is all that can be translated, and no honest peer gets any further:
            // it has to wait for the confirmation of the handshake and of the update.
            return Err(Error::UnknownGeneration { generation, current });
        }
        if let Err(error) = open(self.generations.keys(generation)?) {
            self.failed_opens += 1;
            return Err(error);
        }
        if generation > current {
            self.generations.advance()?;
            self.first_of_current = header.packet_number;
            self.previous_expires = None;
        } else if generation == current {
            self.first_of_current = self.first_of_current.min(header.packet_number);
        }
        Ok(generation)
    }

    /// Whether the stack gets a packet of this generation by
    /// [`seal_for_stack`](Self::seal_for_stack) only: its handshake is not confirmed, and until
    /// then it does not follow key updates.
    pub fn needs_translation(&self, generation: u64) -> bool {
        !self.stack_follows && generation > 0
    }

    /// Seals other frames under the header of a packet that was opened, into `out`.
    ///
    /// That packet is for the stack alone and must not get to the wire: the peer has used its
    /// number and keys already. `clear_mark` clears the reserved bits.
    ///
    /// Fails with [`Error::TooShort`] if the frames are too few for header protection, or
    /// [`Error::UnknownGeneration`]; `out` is then empty.
    pub fn seal_for_stack(
        &self,
        opened: &Opened,
        clear_mark: bool,
        frames: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        out.clear();
        let header = &opened.header;
        check_payload_len(header, frames.len())?;
        let generation =
            if self.needs_translation(opened.generation) { 0 } else { opened.generation };
        let keys = self.generations.keys(generation)?;
        let mut plain = opened.plain;
        plain.set_bits(KEY_PHASE, if key_phase(generation) { KEY_PHASE } else { 0 });
        if clear_mark {
            plain.set_bits(RESERVED, 0);
        }
        out.extend_from_slice(plain.as_bytes());
        out.extend_from_slice(frames);
        let sealed = keys
            .seal(header.packet_number, plain.as_bytes(), &mut out[header.header_len..])
            .and_then(|tag| {
                out.extend_from_slice(&tag);
                self.generations.header().protect(out, header)
            });
        if sealed.is_err() {
            out.fill(0);
            out.clear();
        }
        sealed
    }

    /// Drops the keys before the latest key update three probe timeouts after the first call
    /// that finds them (RFC 9001 section 6.5). Packets of theirs that arrive later fail with
    /// [`Error::UnknownGeneration`].
    ///
    /// Call it with each packet and each timeout; it costs nothing while there are none.
    pub fn discard_previous(&mut self, now: Instant, pto: Duration) {
        if !self.generations.has_previous() || !self.stack_follows {
            return;
        }
        match self.previous_expires {
            None => self.previous_expires = Some(now + pto * PTOS_AFTER_UPDATE),
            Some(expires) if expires <= now => self.discard_previous_now(),
            Some(_) => {}
        }
    }

    pub(crate) fn discard_previous_now(&mut self) {
        self.previous_expires = None;
        self.generations.discard_previous();
    }

    /// Whether the stack follows key updates by itself.
    pub(crate) fn set_stack_follows(&mut self, follows: bool) {
        self.stack_follows = follows;
    }

    pub(crate) fn generations(&self) -> &Generations {
        &self.generations
    }

    /// The number of key updates of the peer's followed so far.
    pub fn generation(&self) -> u64 {
        self.generations.generation()
    }

    /// The cipher suite in use.
    pub fn suite(&self) -> CipherSuite {
        self.generations.suite()
    }

    /// A packet that was not opened here has failed to authenticate elsewhere.
    pub fn on_failed_open(&mut self) {
        self.failed_opens += 1;
    }

    /// How many packets failed to authenticate, over all generations.
    pub fn failed_opens(&self) -> u64 {
        self.failed_opens
    }

    /// Whether so many packets failed to authenticate that the connection must be closed with
    /// `AEAD_LIMIT_REACHED` (RFC 9001 section 6.6).
    pub fn integrity_limit_reached(&self) -> bool {
        self.failed_opens > self.suite().integrity_limit()
    }

    /// Which generation sealed a packet, if it is genuine (RFC 9001 sections 6.3 and 6.5).
    fn generation_of(&self, header: &ShortHeader) -> u64 {
        let current = self.generations.generation();
        if header.key_phase() == key_phase(current) {
            current
        } else if header.packet_number < self.first_of_current {
            // Only a key update raises `first_of_current` above zero.
            current - 1
        } else {
            current + 1
        }
    }
}

impl fmt::Debug for IncomingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys stay out of logs.
        f.debug_struct("IncomingKeys")
            .field("suite", &self.suite())
            .field("generation", &self.generation())
            .field("failed_opens", &self.failed_opens)
            .finish_non_exhaustive()
    }
}
