//! Long headers (RFC 9000 section 17.2, RFC 9369 section 3.2, RFC 8999 section 5.1).
//!
//! Nothing here looks at the fixed bit: [`packets`](crate::packets) says why.

/// The longest connection id of version 1 and 2, in bytes (RFC 9000 section 17.2).
pub const MAX_CID_LEN: usize = 20;

pub(crate) const LONG_FORM: u8 = 0x80;

/// QUIC version 1 (RFC 9000 section 15).
const VERSION_1: u32 = 1;
/// QUIC version 2 (RFC 9369 section 3.1).
const VERSION_2: u32 = 0x6b33_43cf;

/// The type of a packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LongPacketType {
    /// Carries the first CRYPTO frames of both ends.
    Initial,
    /// Carries a client's early data.
    ZeroRtt,
    /// Carries the rest of the TLS handshake.
    Handshake,
    /// Makes the client prove its address.
    Retry,
    /// Lists the versions that a server supports.
    VersionNegotiation,
    /// A packet of a version other than 1 and 2, of which only the invariants are known.
    UnknownVersion,
}

impl LongPacketType {
    /// The type that the first byte says in this version.
    fn of(first_byte: u8, version: u32) -> Self {
        // RFC 9369 section 3.2: version 2 counts one further, so that nobody relies on these.
        let first = match version {
            0 => return Self::VersionNegotiation,
            VERSION_1 => 0,
            VERSION_2 => 1,
            _ => return Self::UnknownVersion,
        };
        match (first_byte >> 4).wrapping_sub(first) & 0x03 {
            0 => Self::Initial,
            1 => Self::ZeroRtt,
            2 => Self::Handshake,
            _ => Self::Retry,
        }
    }

    /// Whether the packet has a Length field, a packet number and a protected payload.
    pub const fn is_protected(self) -> bool {
        matches!(self, Self::Initial | Self::ZeroRtt | Self::Handshake)
    }
}

/// What every version of QUIC has in its long headers (RFC 8999 section 5.1).
///
/// Nothing in it is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariants<'a> {
    /// The version; 0 in a Version Negotiation packet.
    pub version: u32,
    /// The destination connection id, of up to 255 bytes.
    pub dcid: &'a [u8],
    /// The source connection id, of up to 255 bytes.
    pub scid: &'a [u8],
}

impl<'a> Invariants<'a> {
    /// Reads them from the front of a datagram.
    ///
    /// `None` if it begins with a short header, or ends before the connection ids do.
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        Self::split(datagram).map(|(invariants, _)| invariants)
    }

    /// The invariants and what follows them.
    fn split(datagram: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (first, rest) = datagram.split_first()?;
        if first & LONG_FORM == 0 {
            return None;
        }
        let (version, rest) = rest.split_first_chunk()?;
        let (dcid, rest) = connection_id(rest)?;
        let (scid, rest) = connection_id(rest)?;
        Some((Self { version: u32::from_be_bytes(*version), dcid, scid }, rest))
    }
}

/// A long header, up to where header protection begins.
///
/// Nothing in it is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongHeader<'a> {
    /// The type of the packet.
    pub packet_type: LongPacketType,
    /// The version; 0 in a Version Negotiation packet.
    pub version: u32,
    /// The destination connection id.
    pub dcid: &'a [u8],
    /// The source connection id.
    pub scid: &'a [u8],
    /// The token of an Initial packet; empty in every other.
    pub token: &'a [u8],
    /// Where the packet number begins, still protected. In a packet without one, where that
    /// follows which is not of the invariants.
    pub pn_offset: usize,
    /// Bytes from there to the end of the packet: in a protected packet, the Length field.
    pub payload_len: usize,
}

impl<'a> LongHeader<'a> {
    /// Reads the header of the packet at the front of `datagram`.
    ///
    /// Retry, Version Negotiation and packets of unknown versions have no length of their own:
    /// they end with the datagram. `None` if it begins with a short header, ends before the
    /// packet does, or a connection id is longer than its version allows.
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (Invariants { version, dcid, scid }, mut rest) = Invariants::split(datagram)?;
        let packet_type = LongPacketType::of(*datagram.first()?, version);
        let has_known_version =
            packet_type.is_protected() || packet_type == LongPacketType::Retry;
        if has_known_version && dcid.len().max(scid.len()) > MAX_CID_LEN {
            return None;
        }
        let mut token: &[u8] = &[];
        if packet_type == LongPacketType::Initial {
            let len;
            (len, rest) = split_varint(rest)?;
            (token, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        }
        let mut payload_len = rest.len();
        if packet_type.is_protected() {
            let len;
            (len, rest) = split_varint(rest)?;
            payload_len = usize::try_from(len).ok().filter(|&len| len <= rest.len())?;
        }
        let pn_offset = datagram.len() - rest.len();
        Some(Self { packet_type, version, dcid, scid, token, pn_offset, payload_len })
    }

    /// Bytes of the whole packet: where the next one in the datagram begins.
    pub const fn packet_len(&self) -> usize {
        self.pn_offset + self.payload_len
    }
}

/// Splits off a connection id and the length before it.
fn connection_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    rest.split_at_checked(len.into())
}

/// Splits off a variable-length integer (RFC 9000 section 16).
fn split_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let (encoded, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let value = encoded[1..]
        .iter()
        .fold(u64::from(first & 0x3f), |value, &byte| value << 8 | u64::from(byte));
    Some((value, rest))
}
