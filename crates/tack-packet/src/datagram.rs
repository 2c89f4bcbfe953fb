//! The packets that share a datagram (RFC 9000 section 12.2).

use std::ops::Range;

use crate::{LongHeader, LongPacketType, long_header::LONG_FORM};

/// The fixed bit and the bit of the header form.
const FORM_AND_FIXED_BIT: u8 = LONG_FORM | 0x40;

/// A packet with a long header, still protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongPacket<'a> {
    /// Its header.
    pub header: LongHeader<'a>,
    /// The whole packet.
    pub bytes: &'a [u8],
}

/// One packet of a datagram, still protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A packet with a long header.
    Long(LongPacket<'a>),
    /// A 1-RTT packet, a stateless reset, or garbage. It has no length of its own and ends the
    /// datagram.
    Short(&'a [u8]),
}

/// The packets of a datagram in order.
///
/// The first that cannot be read ends the datagram, as does one without a length: Retry, Version
/// Negotiation and packets of unknown versions.
///
/// # The fixed bit
///
/// Nothing in this crate looks at the fixed bit, 0x40, of a first byte. Two ends may agree to
/// grease it (RFC 9287), quiche takes packets with and without it, and what reads a datagram
/// beside quiche must see the packets that quiche sees. The header form, 0x80, tells the two
/// headers apart, and the keys tell what is genuine. Only zeros to the end of the datagram behind
/// another packet are no packet but padding.
pub fn packets(datagram: &[u8]) -> Packets<'_> {
    Packets { datagram, at: 0 }
}

/// The iterator that [`packets`] returns.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    datagram: &'a [u8],
    /// Where the next packet begins.
    at: usize,
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        let rest = self.datagram.get(self.at..)?;
        let first = *rest.first()?;
        let is_behind_another = self.at > 0;
        self.at = self.datagram.len();
        if first & LONG_FORM != 0 {
            let header = LongHeader::parse(rest)?;
            let bytes = rest.get(..header.packet_len())?;
            self.at = self.datagram.len() - rest.len() + bytes.len();
            return Some(Packet::Long(LongPacket { header, bytes }));
        }
        let is_padding = is_behind_another
            && first & FORM_AND_FIXED_BIT == 0
            && rest.iter().all(|&byte| byte == 0);
        (!is_padding).then_some(Packet::Short(rest))
    }
}

/// Whether a datagram is one 1-RTT packet, a stateless reset, or garbage: packets with long headers
/// come first.
#[inline]
pub fn is_short(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & LONG_FORM == 0)
}

/// What a datagram is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramLayout {
    /// Where the packet with a short header begins, if there is one; it runs to the end.
    pub one_rtt: Option<usize>,
    /// Whether packets with long headers come first, or alone. Counts one that cannot be read.
    pub has_long: bool,
    /// How many packets with long headers could be told apart.
    pub long_packets: usize,
    /// Where the first 0-RTT packet begins, if there is one.
    pub zero_rtt: Option<usize>,
    /// Whether there is a Handshake packet.
    pub has_handshake: bool,
    /// Whether it is a Version Negotiation packet.
    pub is_version_negotiation: bool,
    /// Where the destination connection id of the first Initial packet is.
    pub initial_dcid: Option<Range<usize>>,
}

impl DatagramLayout {
    /// Reads the layout by the rules of [`packets`].
    pub fn parse(datagram: &[u8]) -> Self {
        let has_long = !datagram.is_empty() && !is_short(datagram);
        let mut layout = Self { has_long, ..Self::default() };
        let mut at = 0;
        for packet in packets(datagram) {
            match packet {
                Packet::Short(_) => layout.one_rtt = Some(at),
                Packet::Long(LongPacket { header, bytes }) => {
                    layout.long_packets += 1;
                    layout.note(&header, at);
                    at += bytes.len();
                }
            }
        }
        layout
    }

    fn note(&mut self, header: &LongHeader<'_>, at: usize) {
        /// First byte, version and the length of the connection id.
        const DCID_OFFSET: usize = 6;

        match header.packet_type {
            LongPacketType::ZeroRtt => {
                self.zero_rtt.get_or_insert(at);
            }
            LongPacketType::Handshake => self.has_handshake = true,
            LongPacketType::VersionNegotiation => self.is_version_negotiation = true,
            LongPacketType::Initial => {
                let start = at + DCID_OFFSET;
                self.initial_dcid.get_or_insert(start..start + header.dcid.len());
            }
            LongPacketType::Retry | LongPacketType::UnknownVersion => {}
        }
    }
}
