//! All generations of one direction: which keys a packet needs, and when they advance.

use std::{fmt, mem, ops::Range};

use ring::hkdf;

use crate::{
    CipherSuite, Error, ShortHeader, TAG_LEN,
    header::{HeaderProtection, check_plain},
    keys::GenerationKeys,
};

/// Opens and seals the 1-RTT packets of one direction of a connection, across key updates.
///
/// Holds the keys of the current generation, of the one before it for packets that arrive late,
/// and of the one after it, so that a key phase bit costs no derivation until a packet that
/// carries it has been authenticated (RFC 9001 section 6.3).
pub struct ProtectionKeys {
    suite: CipherSuite,
    header: HeaderProtection,
    previous: Option<GenerationKeys>,
    current: GenerationKeys,
    next: GenerationKeys,
    generation: u64,
    /// The lowest packet number opened with the current keys; 0 before the first key update.
    first_of_current: u64,
    failed_opens: u64,
}

/// A packet that has been authenticated and decrypted in its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The header; the buffer holds it unprotected too.
    pub header: ShortHeader,
    /// Where in the buffer the frames are.
    pub payload: Range<usize>,
    /// How many key updates came before the keys that opened it; seal with the same.
    pub generation: u64,
}

impl ProtectionKeys {
    /// Keys that follow from the secret of a `CLIENT_TRAFFIC_SECRET_0` or
    /// `SERVER_TRAFFIC_SECRET_0` line of a key log.
    ///
    /// Fails with [`Error::SecretLength`] if the secret is not one of this suite.
    pub fn new(suite: CipherSuite, traffic_secret: &[u8]) -> Result<Self, Error> {
        if traffic_secret.len() != suite.secret_len() {
            return Err(Error::SecretLength { suite, actual: traffic_secret.len() });
        }
        let secret = hkdf::Prk::new_less_safe(suite.hash(), traffic_secret);
        let header = HeaderProtection::new(suite, &secret)?;
        let current = GenerationKeys::new(suite, secret)?;
        let next = current.next(suite)?;
        Ok(Self {
            suite,
            header,
            previous: None,
            current,
            next,
            generation: 0,
            first_of_current: 0,
            failed_opens: 0,
        })
    }

    /// Reads the header under its protection and leaves the packet as it is.
    ///
    /// `dcid_len` is the length of the connection id in bytes, `expected_pn` one above the
    /// largest packet number seen so far. Nothing read here is authenticated.
    ///
    /// Fails with [`Error::LongHeader`] or [`Error::TooShort`].
    pub fn peek(
        &self,
        packet: &[u8],
        dcid_len: usize,
        expected_pn: u64,
    ) -> Result<ShortHeader, Error> {
        self.header.read(packet, dcid_len, expected_pn).map(|(header, _)| header)
    }

    /// Whether the packet of this header was sealed with the current keys, as far as its key
    /// phase tells.
    pub fn is_current(&self, header: &ShortHeader) -> bool {
        header.key_phase() == (self.generation % 2 == 1)
    }

    /// Decrypts the first byte of a packet's payload, the type of its first frame, and leaves the
    /// packet as it is. This costs a small part of opening it, and authenticates nothing: it is
    /// meant for packets of the own process.
    ///
    /// `None` if there is no payload, or the packet was not sealed with the current keys.
    pub fn peek_first_byte(&self, packet: &[u8], header: &ShortHeader) -> Option<u8> {
        if !self.is_current(header) || packet.len() <= header.header_len + TAG_LEN {
            return None;
        }
        self.current.first_byte(header.packet_number, packet[header.header_len]).ok()
    }

    /// Authenticates and decrypts a packet in place, and follows the peer's key update.
    ///
    /// `dcid_len` and `expected_pn` are those of [`peek`](Self::peek). After
    /// [`Error::Authentication`] the content of the buffer is unspecified; after any other
    /// error it is untouched.
    pub fn open(
        &mut self,
        packet: &mut [u8],
        dcid_len: usize,
        expected_pn: u64,
    ) -> Result<Opened, Error> {
        let (header, mask) = self.header.read(packet, dcid_len, expected_pn)?;
        let payload = header.header_len..packet.len() - TAG_LEN;
        let generation = self.generation_of(&header);
        let keys = self.keys(generation)?;

        mask.apply(packet, &header);
        let (plain, ciphertext) = packet.split_at_mut(header.header_len);
        if let Err(error) = keys.open(header.packet_number, plain, ciphertext) {
            self.failed_opens += 1;
            return Err(error);
        }

        if generation > self.generation {
            self.advance(header.packet_number)?;
        } else if generation == self.generation {
            self.first_of_current = self.first_of_current.min(header.packet_number);
        }
        Ok(Opened { header, payload, generation })
    }

    /// Encrypts a packet in place, protects its header, and returns its length in bytes.
    ///
    /// `buf[..header.header_len]` holds the plain header, whose first byte carries the key
    /// phase and reserved bits that are wanted (`header.first_byte` is not looked at);
    /// `payload_len` bytes of frames follow, and room for [`TAG_LEN`] more. `generation` is the
    /// current one, the one before or the one after.
    ///
    /// The caller must see to it that of all packets sealed with one number and generation only
    /// one leaves the process.
    ///
    /// Fails with [`Error::BufferTooSmall`], [`Error::HeaderMismatch`], [`Error::TooShort`] or
    /// [`Error::UnknownGeneration`]; the buffer is then untouched.
    pub fn seal(
        &self,
        generation: u64,
        buf: &mut [u8],
        header: &ShortHeader,
        payload_len: usize,
    ) -> Result<usize, Error> {
        let total = check_plain(buf, header, payload_len)?;
        let keys = self.keys(generation)?;

        let packet = &mut buf[..total];
        let (plain, rest) = packet.split_at_mut(header.header_len);
        let (payload, tag) = rest.split_at_mut(payload_len);
        tag.copy_from_slice(&keys.seal(header.packet_number, plain, payload)?);
        self.header.protect(packet, header)?;
        Ok(total)
    }

    /// A packet that was not opened here has failed to authenticate elsewhere.
    pub fn on_failed_open(&mut self) {
        self.failed_opens += 1;
    }

    /// The number of key updates followed so far.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The cipher suite in use.
    pub fn suite(&self) -> CipherSuite {
        self.suite
    }

    /// Forgets the keys before the latest key update. RFC 9001 section 6.5 recommends it three
    /// probe timeouts after the update; later packets of theirs fail with
    /// [`Error::UnknownGeneration`].
    pub fn discard_previous(&mut self) {
        self.previous = None;
    }

    /// How many packets failed to authenticate, over all generations.
    pub fn failed_opens(&self) -> u64 {
        self.failed_opens
    }

    /// Whether so many packets failed to authenticate that the connection must be closed with
    /// `AEAD_LIMIT_REACHED` (RFC 9001 section 6.6).
    pub fn integrity_limit_reached(&self) -> bool {
        self.failed_opens > self.suite.integrity_limit()
    }

    /// Which generation sealed a packet, if it is genuine (RFC 9001 sections 6.3 and 6.5).
    fn generation_of(&self, header: &ShortHeader) -> u64 {
        let current_phase = self.generation % 2 == 1;
        if header.key_phase() == current_phase {
            self.generation
        } else if header.packet_number < self.first_of_current {
            // Only a key update raises `first_of_current` above zero.
            self.generation - 1
        } else {
            self.generation + 1
        }
    }

    fn keys(&self, generation: u64) -> Result<&GenerationKeys, Error> {
        const ONE_BEFORE: u64 = u64::MAX;

        match generation.wrapping_sub(self.generation) {
            0 => Some(&self.current),
            1 => Some(&self.next),
            ONE_BEFORE => self.previous.as_ref(),
            _ => None,
        }
        .ok_or(Error::UnknownGeneration { generation, current: self.generation })
    }

    /// Moves on by one generation, the first packet of which has been authenticated.
    fn advance(&mut self, packet_number: u64) -> Result<(), Error> {
        let after_next = self.next.next(self.suite)?;
        let new_current = mem::replace(&mut self.next, after_next);
        self.previous = Some(mem::replace(&mut self.current, new_current));
        self.generation += 1;
        self.first_of_current = packet_number;
        Ok(())
    }
}

impl fmt::Debug for ProtectionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys stay out of logs.
        f.debug_struct("ProtectionKeys")
            .field("suite", &self.suite)
            .field("generation", &self.generation)
            .field("failed_opens", &self.failed_opens)
            .finish_non_exhaustive()
    }
}
