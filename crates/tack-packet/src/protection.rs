//! One direction of a connection, for tools that observe both ends or act as a peer.

use std::fmt;

use crate::{CipherSuite, Error, IncomingKeys, Opened, ShortHeader, header::check_plain};

/// Opens and seals 1-RTT packets in one direction, across key updates.
///
/// It is for tools that observe both ends of a connection, or that write the packets of a peer: it
/// seals any payload, under any packet number and as often as the caller asks. Code between a stack
/// and the wire uses [`PacketProtection`](crate::PacketProtection).
pub struct ProtectionKeys {
    keys: IncomingKeys,
}

impl ProtectionKeys {
    /// Keys that follow from the secret of a `CLIENT_TRAFFIC_SECRET_0` or
    /// `SERVER_TRAFFIC_SECRET_0` line of a key log.
    ///
    /// Fails with [`Error::SecretLength`] if the secret is not one of this suite.
    pub fn new(suite: CipherSuite, traffic_secret: &[u8]) -> Result<Self, Error> {
        Ok(Self { keys: IncomingKeys::new(suite, traffic_secret)? })
    }

    /// Reads the header under its protection and leaves the packet as it is.
    ///
    /// `dcid_len` is the length of the connection id in bytes, `expected_pn` one above the
    /// largest packet number seen so far. Nothing read here is authenticated.
    ///
    /// Fails with [`Error::LongHeader`], [`Error::TooShort`] or [`Error::ConnectionIdLength`].
    pub fn peek(
        &self,
        packet: &[u8],
        dcid_len: usize,
        expected_pn: u64,
    ) -> Result<ShortHeader, Error> {
        self.keys.read_header(packet, dcid_len, expected_pn).map(|header| *header.header())
    }

    /// Authenticates and decrypts a packet in place, and follows the peer's key update. The
    /// buffer afterwards has the header without its protection, too.
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
        let header = self.keys.read_header(packet, dcid_len, expected_pn)?;
        self.keys.open_in_place(packet, header)
    }

    /// Encrypts a packet in place, protects its header, and returns its length in bytes.
    ///
    /// `buf[..header.header_len]` holds the plain header, whose first byte carries the key
    /// phase and reserved bits that are wanted (`header.first_byte` is not looked at);
    /// `payload_len` bytes of frames follow, and room for [`TAG_LEN`](crate::TAG_LEN) more.
    /// `generation` is the current one, the one before or the one after.
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
        let generations = self.keys.generations();
        let keys = generations.keys(generation)?;

        let packet = &mut buf[..total];
        let (plain, rest) = packet.split_at_mut(header.header_len);
        let (payload, tag) = rest.split_at_mut(payload_len);
        tag.copy_from_slice(&keys.seal(header.packet_number, plain, payload)?);
        generations.header().protect(packet, header)?;
        Ok(total)
    }

    /// The number of key updates followed so far.
    pub fn generation(&self) -> u64 {
        self.keys.generation()
    }

    /// The cipher suite in use.
    pub fn suite(&self) -> CipherSuite {
        self.keys.suite()
    }

    /// Forgets the keys before the latest key update. Later packets of theirs fail with
    /// [`Error::UnknownGeneration`].
    pub fn discard_previous(&mut self) {
        self.keys.discard_previous_now();
    }

    /// How many packets failed to authenticate, over all generations.
    pub fn failed_opens(&self) -> u64 {
        self.keys.failed_opens()
    }

    /// Whether so many packets failed to authenticate that the connection must be closed with
    /// `AEAD_LIMIT_REACHED` (RFC 9001 section 6.6).
    pub fn integrity_limit_reached(&self) -> bool {
        self.keys.integrity_limit_reached()
    }
}

impl fmt::Debug for ProtectionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys stay out of logs.
        f.debug_struct("ProtectionKeys")
            .field("suite", &self.suite())
            .field("generation", &self.generation())
            .field("failed_opens", &self.failed_opens())
            .finish_non_exhaustive()
    }
}
