//! Explicit congestion notification: the field of the IP header, and what a sender marks with it
//! (RFC 3168 section 5, RFC 9331 section 4.1).

use std::fmt;

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnCodepoint {
    /// `00`: the sender of the packet does not use ECN.
    #[default]
    NotEct,
    /// `01`: the sender asks for the treatment of L4S (RFC 9331 section 4.1).
    Ect1,
    /// `10`: the sender answers a mark as it would a loss.
    Ect0,
    /// `11`: congestion experienced.
    Ce,
}

impl EcnCodepoint {
    /// The field of these two bits. Higher bits do not count, so a whole TOS or traffic class octet
    /// will do.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits of the field.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

/// What a sender marks its packets with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ecn {
    /// Nothing.
    #[default]
    Off,
    /// ECT(0): a queue that marks means what it would mean by a drop (RFC 3168).
    Classic,
    /// ECT(1): a queue marks early and often (RFC 9331).
    L4s,
}

impl Ecn {
    /// The codepoint of marked packets.
    pub const fn codepoint(self) -> EcnCodepoint {
        match self {
            Self::Off => EcnCodepoint::NotEct,
            Self::Classic => EcnCodepoint::Ect0,
            Self::L4s => EcnCodepoint::Ect1,
        }
    }
}

/// What a sender knows of ECN on a path (RFC 9000 appendix A.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EcnState {
    /// The sender marks nothing.
    #[default]
    Off,
    /// The first packets are marked.
    Testing,
    /// The test is over and its result is awaited: nothing is marked.
    Unknown,
    /// Path or peer cannot be relied on: nothing is marked.
    Failed,
    /// All packets are marked, and marks of the path count.
    Capable,
}

impl fmt::Display for EcnState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Testing => "testing",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Capable => "capable",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_the_low_bits_of_the_traffic_class() {
        use EcnCodepoint::{Ce, Ect0, Ect1, NotEct};
        for (bits, codepoint) in (0..).zip([NotEct, Ect1, Ect0, Ce]) {
            assert_eq!(EcnCodepoint::from_bits(0b1011_1000 | bits), codepoint, "with a DSCP");
            assert_eq!(codepoint.bits(), bits);
        }
    }
}
