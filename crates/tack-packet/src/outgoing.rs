//! Packets from the stack to the wire, of which one ciphertext leaves for each packet number.

use std::{fmt, ops::Range};

use crate::{
    CipherSuite, Error, ShortHeader, TAG_LEN,
    generations::{Generations, key_phase},
    header::{KEY_PHASE, Mask, PlainHeader, RESERVED, check_payload_len},
    keys::FirstBytes,
};

/// Takes the 1-RTT packets that the stack has sealed, and seals them again.
///
/// [`take`](Self::take) begins what is done to a packet, and the types that it leads to own the
/// only ciphertext that may leave for that packet number: see [`WrittenPacket`].
///
/// The generation of the stack's keys and that of the wire's may differ by one: see
/// [`PacketProtection`](crate::PacketProtection).
pub struct OutgoingKeys {
    /// The current generation is the stack's.
    generations: Generations,
    /// The wire's generation is the one after the stack's.
    wire_is_ahead: bool,
    /// Packets that left with the keys in use on the wire.
    sealed: u64,
    /// The first packet number that left with them.
    first_on_wire: Option<u64>,
    confidentiality_limit: u64,
}

impl OutgoingKeys {
    /// Keys that follow from the secret of a `CLIENT_TRAFFIC_SECRET_0` or
    /// `SERVER_TRAFFIC_SECRET_0` line of a key log.
    ///
    /// Fails with [`Error::SecretLength`] if the secret is not one of this suite.
    pub fn new(suite: CipherSuite, traffic_secret: &[u8]) -> Result<Self, Error> {
        Ok(Self {
            generations: Generations::new(suite, traffic_secret)?,
            wire_is_ahead: false,
            sealed: 0,
            // The stack may have sent packets before these keys were made.
            first_on_wire: Some(0),
            confidentiality_limit: suite.confidentiality_limit(),
        })
    }

    /// Takes the packet that the stack has written to the first `len` bytes of `buf`. What of
    /// `buf` is behind it is room for the packet to grow.
    ///
    /// `dcid_len` is the length of the connection id in bytes, `expected_pn` one above the
    /// largest packet number taken so far. A packet with a new key phase is opened, and then the
    /// keys follow the stack's update.
    ///
    /// Fails as [`IncomingKeys::read_header`](crate::IncomingKeys::read_header) does, with
    /// [`Error::BufferTooSmall`] if `buf` has fewer than `len` bytes, or with
    /// [`Error::Authentication`] if a new key phase is not that of the next generation. The
    /// packet is then wiped from `buf`.
    #[inline]
    pub fn take<'k, 'b>(
        &'k mut self,
        buf: &'b mut [u8],
        len: usize,
        dcid_len: usize,
        expected_pn: u64,
    ) -> Result<WrittenPacket<'k, 'b>, Error> {
        let (needed, actual) = (len, buf.len());
        let buffer = Buffer { used: len.min(actual), keep: 0, bytes: buf };
        let packet = buffer.bytes.get(..len).ok_or(Error::BufferTooSmall { needed, actual })?;
        let (header, mask) = self.generations.header().read(packet, dcid_len, expected_pn)?;
        if header.key_phase() != key_phase(self.generations.generation()) {
            self.follow_stack(packet, &header, mask)?;
        }
        Ok(WrittenPacket { keys: self, buffer, header, mask })
    }

    /// Whether a packet of the stack's has a connection id of that length: with any other it does not authenticate. It
    /// is decrypted into `scratch`, and stays as it is.
    pub fn authenticates(
        &self,
        packet: &[u8],
        dcid_len: usize,
        expected_pn: u64,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let opened = self.generations.header().read(packet, dcid_len, expected_pn).and_then(
            |(header, mask)| {
                let plain = PlainHeader::of(packet, &header, mask)?;
                let ciphertext = packet.get(header.header_len..).unwrap_or_default();
                let keys = if header.key_phase() == key_phase(self.generations.generation()) {
                    self.generations.current()
                } else {
                    self.generations.next()
                };
                keys.open_copy(header.packet_number, plain.as_bytes(), ciphertext, scratch)
            },
        );
        opened.is_ok()
    }

    /// The stack writes the next generation.
    #[cold]
    fn follow_stack(
        &mut self,
        packet: &[u8],
        header: &ShortHeader,
        mask: Mask,
    ) -> Result<(), Error> {
        let plain = PlainHeader::of(packet, header, mask)?;
        let mut copy = Vec::with_capacity(packet.len());
        let ciphertext = packet.get(header.header_len..).unwrap_or_default();
        self.generations.next().open_copy(
            header.packet_number,
            plain.as_bytes(),
            ciphertext,
            &mut copy,
        )?;
        self.generations.advance()?;
        // The stack never goes back.
        self.generations.discard_previous();
        if self.wire_is_ahead {
            self.wire_is_ahead = false;
        } else {
            self.on_new_wire_generation();
        }
        Ok(())
    }

    /// The wire goes on to the generation after the stack's.
    pub(crate) fn lead_stack(&mut self) {
        if !self.wire_is_ahead {
            self.wire_is_ahead = true;
            self.on_new_wire_generation();
        }
    }

    fn on_new_wire_generation(&mut self) {
        self.sealed = 0;
        self.first_on_wire = None;
    }

    /// Counts a packet against the confidentiality limit, if it may still leave.
    #[inline]
    fn count(&mut self, packet_number: u64) -> Result<(), Error> {
        if self.confidentiality_limit_reached() {
            return Err(Error::ConfidentialityLimit);
        }
        self.sealed += 1;
        self.first_on_wire.get_or_insert(packet_number);
        Ok(())
    }

    /// Lets a packet leave as the stack sealed it.
    #[inline]
    fn let_pass(
        &mut self,
        buffer: &mut Buffer<'_>,
        header: &ShortHeader,
    ) -> Result<Departed, Error> {
        let generation = self.generations.generation();
        if self.wire_is_ahead {
            return Err(Error::NotOnTheWire { generation, wire: generation + 1 });
        }
        self.count(header.packet_number)?;
        buffer.keep = buffer.used;
        let packet_number = header.packet_number;
        Ok(Departed { packet_number, len: buffer.used, generation })
    }

    /// Whether the stack's packets have to be sealed again to leave.
    pub fn wire_is_ahead(&self) -> bool {
        self.wire_is_ahead
    }

    /// How many key updates came before the keys in use on the wire.
    pub fn wire_generation(&self) -> u64 {
        self.generations.generation() + u64::from(self.wire_is_ahead)
    }

    /// Whether a packet number belongs to the generation in use on the wire.
    pub(crate) fn is_of_wire_generation(&self, packet_number: u64) -> bool {
        self.first_on_wire.is_some_and(|first| packet_number >= first)
    }

    /// How many packets left with the keys in use on the wire.
    pub fn sealed(&self) -> u64 {
        self.sealed
    }

    /// How many packets may still leave with the keys in use on the wire (RFC 9001 section 6.6).
    pub fn packets_left(&self) -> u64 {
        self.confidentiality_limit.saturating_sub(self.sealed)
    }

    /// Whether a key update is due: half of what the confidentiality limit allows is used up.
    ///
    /// An update has to wait for the peer's answer to the one before, an acknowledgement, and
    /// three probe timeouts (RFC 9001 sections 6.1 and 6.5). The other half, four million
    /// packets, lasts four seconds even at a million packets each second, and an update after so
    /// many costs nothing that could be measured.
    #[inline]
    pub fn wants_update(&self) -> bool {
        self.sealed >= self.confidentiality_limit / 2
    }

    /// Whether nothing may leave any more with the keys in use on the wire. The connection
    /// should be closed with `AEAD_LIMIT_REACHED` while [`packets_left`](Self::packets_left) has
    /// room for that.
    pub fn confidentiality_limit_reached(&self) -> bool {
        self.packets_left() == 0
    }

    /// The cipher suite in use.
    pub fn suite(&self) -> CipherSuite {
        self.generations.suite()
    }
}

impl fmt::Debug for OutgoingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys stay out of logs.
        f.debug_struct("OutgoingKeys")
            .field("suite", &self.suite())
            .field("wire_generation", &self.wire_generation())
            .field("wire_is_ahead", &self.wire_is_ahead)
            .field("sealed", &self.sealed)
            .finish_non_exhaustive()
    }
}

/// The caller's buffer; wiped when it is dropped, but for what may leave.
struct Buffer<'b> {
    bytes: &'b mut [u8],
    /// The front that has held ciphertext or plaintext.
    used: usize,
    /// The front that may leave.
    keep: usize,
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if let Some(rest) = self.bytes.get_mut(self.keep..self.used) {
            rest.fill(0);
        }
    }
}

/// A packet that the stack has sealed, and that has not left yet.
///
/// It ends in one of three ways: [`pass`](Self::pass) lets it leave as it is,
/// [`open`](Self::open) leads to an [`OpenedPacket`] that can be sealed with other frames, and
/// dropping it wipes it. Each consumes it, and meanwhile it borrows the buffer. So of all
/// ciphertexts under its packet number, one leaves at most. The first of these compiles, the others
/// do not:
///
/// ```
/// # fn once(packet: tack_packet::WrittenPacket<'_, '_>) -> Result<(), tack_packet::Error> {
/// # let mut scratch = Vec::new();
/// let departed = packet.open(&mut scratch)?.seal(&[1; 4], false)?;
/// # Ok(drop(departed))
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # fn twice(packet: tack_packet::WrittenPacket<'_, '_>) -> Result<(), tack_packet::Error> {
/// packet.pass()?;
/// packet.pass()?;
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # fn twice(packet: tack_packet::WrittenPacket<'_, '_>) -> Result<(), tack_packet::Error> {
/// # let mut scratch = Vec::new();
/// packet.pass()?;
/// packet.open(&mut scratch)?.seal(&[1; 4], false)?;
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # fn twice(packet: tack_packet::OpenedPacket<'_, '_, '_>) -> Result<(), tack_packet::Error> {
/// packet.seal(&[1; 4], false)?;
/// packet.seal(&[2; 4], false)?;
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0505
/// # use tack_packet::{Error, OutgoingKeys};
/// # fn behind_its_back(keys: &mut OutgoingKeys, mut buf: Vec<u8>) -> Result<Vec<u8>, Error> {
/// let packet = keys.take(&mut buf, 100, 8, 0)?;
/// let stolen = buf; // still borrowed
/// packet.pass()?;
/// # Ok(stolen)
/// # }
/// ```
#[must_use = "a packet that is dropped is wiped and does not leave"]
pub struct WrittenPacket<'k, 'b> {
    keys: &'k mut OutgoingKeys,
    buffer: Buffer<'b>,
    header: ShortHeader,
    mask: Mask,
}

impl<'k, 'b> WrittenPacket<'k, 'b> {
    /// The header.
    pub fn header(&self) -> &ShortHeader {
        &self.header
    }

    /// Bytes of the packet as the stack wrote it.
    pub fn packet_len(&self) -> usize {
        self.buffer.used
    }

    /// The first bytes of the payload: the type of the first frame, and what follows it. `None` if the
    /// payload is empty. That costs a small part of opening the packet, and authenticates nothing:
    /// the packet is of our own process.
    #[inline]
    pub fn first_bytes(&self) -> Option<FirstBytes> {
        let end = self.buffer.used.saturating_sub(TAG_LEN);
        let sealed = self.buffer.bytes.get(self.header.header_len..end)?;
        if sealed.is_empty() {
            return None;
        }
        self.keys.generations.current().first_bytes(self.header.packet_number, sealed).ok()
    }

    /// Whether the packet may leave as it is: the stack's generation is the wire's.
    pub fn can_pass(&self) -> bool {
        !self.keys.wire_is_ahead
    }

    /// Decrypts a copy of the packet into `scratch` and returns where in it the frames are.
    ///
    /// Fails with [`Error::Authentication`]; `scratch` is then empty. The packet stays as it is.
    pub fn decrypt_copy(&self, scratch: &mut Vec<u8>) -> Result<Range<usize>, Error> {
        let packet = self.buffer.bytes.get(..self.buffer.used).unwrap_or_default();
        let plain = PlainHeader::of(packet, &self.header, self.mask)?;
        let ciphertext = packet.get(self.header.header_len..).unwrap_or_default();
        self.keys.generations.current().open_copy(
            self.header.packet_number,
            plain.as_bytes(),
            ciphertext,
            scratch,
        )?;
        Ok(0..scratch.len())
    }

    /// Lets the packet leave as the stack sealed it.
    ///
    /// Fails with [`Error::NotOnTheWire`] unless [`can_pass`](Self::can_pass), or with
    /// [`Error::ConfidentialityLimit`]; the packet is then wiped.
    #[inline]
    pub fn pass(self) -> Result<Departed, Error> {
        let Self { keys, mut buffer, header, .. } = self;
        keys.let_pass(&mut buffer, &header)
    }

    /// Decrypts the packet into `scratch`.
    ///
    /// Fails with [`Error::Authentication`]; `scratch` is then empty and the packet wiped.
    pub fn open<'s>(self, scratch: &'s mut Vec<u8>) -> Result<OpenedPacket<'k, 'b, 's>, Error> {
        let Self { keys, buffer, header, mask } = self;
        let packet = buffer.bytes.get_mut(..buffer.used).unwrap_or_default();
        mask.apply(packet, &header);
        let (start, ciphertext) =
            packet.split_at_checked(header.header_len).ok_or(Error::HeaderMismatch)?;
        let keys_of_stack = keys.generations.current();
        keys_of_stack.open_copy(header.packet_number, start, ciphertext, scratch)?;
        Ok(OpenedPacket { keys, buffer, header, mask, payload: scratch })
    }

    /// Wipes the packet. Its number is used up: to the peer it is lost.
    pub fn discard(self) {}
}

impl fmt::Debug for WrittenPacket<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenPacket").field("header", &self.header).finish_non_exhaustive()
    }
}

/// A packet of the stack's that has been decrypted, and that has not left yet.
///
/// As a [`WrittenPacket`] it leaves once at most; dropping it wipes it.
#[must_use = "a packet that is dropped is wiped and does not leave"]
pub struct OpenedPacket<'k, 'b, 's> {
    keys: &'k mut OutgoingKeys,
    buffer: Buffer<'b>,
    /// The buffer has it without its protection.
    header: ShortHeader,
    mask: Mask,
    payload: &'s mut Vec<u8>,
}

impl OpenedPacket<'_, '_, '_> {
    /// The header.
    pub fn header(&self) -> &ShortHeader {
        &self.header
    }

    /// Bytes of the packet as the stack wrote it.
    pub fn packet_len(&self) -> usize {
        self.buffer.used
    }

    /// The stack's frames.
    pub fn payload(&self) -> &[u8] {
        self.payload
    }

    /// The most bytes of frames that [`seal`](Self::seal) has room for.
    pub fn max_payload_len(&self) -> usize {
        self.buffer.bytes.len().saturating_sub(self.header.header_len + TAG_LEN)
    }

    /// Whether the packet may leave as it is: the stack's generation is the wire's.
    pub fn can_pass(&self) -> bool {
        !self.keys.wire_is_ahead
    }

    /// Lets the packet leave as the stack sealed it.
    ///
    /// Fails as [`WrittenPacket::pass`] does.
    pub fn pass(self) -> Result<Departed, Error> {
        let Self { keys, mut buffer, header, mask, .. } = self;
        mask.apply(buffer.bytes, &header);
        keys.let_pass(&mut buffer, &header)
    }

    /// Seals `frames` in place of the stack's, in the wire's generation, at the front of the
    /// buffer that was taken. `mark` sets both reserved bits.
    ///
    /// Fails with [`Error::BufferTooSmall`], [`Error::TooShort`] or
    /// [`Error::ConfidentialityLimit`]; the packet is then wiped.
    pub fn seal(self, frames: &[u8], mark: bool) -> Result<Departed, Error> {
        let Self { keys, mut buffer, header, .. } = self;
        let total = header.header_len.saturating_add(frames.len()).saturating_add(TAG_LEN);
        let actual = buffer.bytes.len();
        check_payload_len(&header, frames.len())?;
        let packet = buffer
            .bytes
            .get_mut(..total)
            .ok_or(Error::BufferTooSmall { needed: total, actual })?;
        keys.count(header.packet_number)?;

        // From here on there is plaintext in the buffer.
        buffer.used = buffer.used.max(total);
        let generation = keys.wire_generation();
        let (start, rest) = packet.split_at_mut(header.header_len);
        let (payload, tag) = rest.split_at_mut(frames.len());
        let mark = if mark { RESERVED } else { 0 };
        let phase = if key_phase(generation) { KEY_PHASE } else { 0 };
        start[0] = start[0] & !(RESERVED | KEY_PHASE) | mark | phase;
        payload.copy_from_slice(frames);
        let generations = &keys.generations;
        let sealing = generations.keys(generation)?;
        tag.copy_from_slice(&sealing.seal(header.packet_number, start, payload)?);
        generations.header().protect(packet, &header)?;
        buffer.keep = total;
        Ok(Departed { packet_number: header.packet_number, len: total, generation })
    }

    /// Wipes the packet. Its number is used up: to the peer it is lost.
    pub fn discard(self) {}
}

impl fmt::Debug for OpenedPacket<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedPacket").field("header", &self.header).finish_non_exhaustive()
    }
}

/// A packet that is at the front of the caller's buffer, ready to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the packet is in the buffer and is to be sent"]
#[non_exhaustive]
pub struct Departed {
    /// Its number.
    pub packet_number: u64,
    /// Its length in bytes.
    pub len: usize,
    /// How many key updates came before the keys that it is sealed with.
    pub generation: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProtectionKeys;

    const SUITE: CipherSuite = CipherSuite::Aes128GcmSha256;
    const SECRET: [u8; 32] = [7; 32];
    const HEADER_LEN: usize = 2;

    /// Keys that seal no more than four packets.
    fn outgoing() -> OutgoingKeys {
        OutgoingKeys { confidentiality_limit: 4, ..OutgoingKeys::new(SUITE, &SECRET).unwrap() }
    }

    /// A packet of `generation`, without a connection id.
    fn write(generation: u64, number: u8) -> Vec<u8> {
        let first_byte = if key_phase(generation) { 0x40 | KEY_PHASE } else { 0x40 };
        let header = ShortHeader {
            first_byte,
            packet_number: number.into(),
            pn_len: 1,
            header_len: HEADER_LEN,
        };
        let mut packet = [&[first_byte, number][..], b"frames", &[0; TAG_LEN]].concat();
        let keys = ProtectionKeys::new(SUITE, &SECRET).unwrap();
        keys.seal(generation, &mut packet, &header, 6).unwrap();
        packet
    }

    fn pass(keys: &mut OutgoingKeys, packet: &mut [u8]) -> Result<Departed, Error> {
        let len = packet.len();
        keys.take(packet, len, 0, 0)?.pass()
    }

    fn seal(keys: &mut OutgoingKeys, packet: &mut [u8]) -> Result<Departed, Error> {
        let len = packet.len();
        let mut scratch = Vec::new();
        keys.take(packet, len, 0, 0)?.open(&mut scratch)?.seal(b"others", true)
    }

    #[test]
    fn an_update_is_wanted_at_half_the_limit_and_nothing_leaves_at_the_whole() {
        let mut keys = outgoing();
        for number in 0..4 {
            assert_eq!(
                (keys.packets_left(), keys.wants_update()),
                (4 - u64::from(number), number >= 2)
            );
            let mut packet = write(0, number);
            let leave = if number % 2 == 0 { pass } else { seal };
            let _ = leave(&mut keys, &mut packet).unwrap();
        }
        assert!(keys.confidentiality_limit_reached());
        for leave in [pass, seal] {
            let mut packet = write(0, 4);
            assert_eq!(leave(&mut keys, &mut packet), Err(Error::ConfidentialityLimit));
            assert!(packet.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn what_does_not_leave_does_not_count() {
        let mut keys = outgoing();
        let mut packet = write(0, 0);
        let len = packet.len();
        keys.take(&mut packet, len, 0, 0).unwrap().discard();
        assert_eq!(keys.sealed(), 0);
    }

    #[test]
    fn the_count_begins_anew_when_this_end_updates_and_goes_on_when_the_stack_follows() {
        let mut keys = outgoing();
        for number in 0..4 {
            let _ = pass(&mut keys, &mut write(0, number)).unwrap();
        }
        keys.lead_stack();
        assert_eq!(seal(&mut keys, &mut write(0, 4)).unwrap().generation, 1);
        assert_eq!(pass(&mut keys, &mut write(1, 5)).unwrap().generation, 1);
        assert_eq!(keys.sealed(), 2);
    }

    #[test]
    fn the_count_begins_anew_when_the_stack_updates_first() {
        let mut keys = outgoing();
        for number in 0..4 {
            let _ = pass(&mut keys, &mut write(0, number)).unwrap();
        }
        assert_eq!(pass(&mut keys, &mut write(1, 4)).unwrap().generation, 1);
        assert_eq!(keys.sealed(), 1);
    }

    #[test]
    fn a_packet_of_the_stacks_generation_does_not_pass_when_the_wire_is_ahead() {
        let mut keys = outgoing();
        keys.lead_stack();
        let mut packet = write(0, 0);
        let error = Error::NotOnTheWire { generation: 0, wire: 1 };
        assert_eq!(pass(&mut keys, &mut packet), Err(error));
        assert!(packet.iter().all(|&byte| byte == 0));
        assert_eq!(keys.sealed(), 0);
    }

    #[test]
    fn the_stack_does_not_go_back() {
        let mut keys = outgoing();
        let _ = pass(&mut keys, &mut write(1, 0)).unwrap();
        assert_eq!(pass(&mut keys, &mut write(0, 1)), Err(Error::Authentication));
        assert_eq!(keys.wire_generation(), 1);
    }
}
