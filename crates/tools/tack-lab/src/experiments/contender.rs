//! The stacks that are compared, always under the same names and in the same colours.

use std::time::Duration;

use crate::report::Colour;
use crate::sim::{Acks, Congestion, EndConfig, Flow, Stack};
use tack_link::PathSpec;
use tacklib::Profile;

/// A stack with its way to acknowledge and its congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contender {
    /// For tables and legends.
    pub label: &'static str,
    /// In plots.
    pub colour: Colour,
    stack: Stack,
    acks: Acks,
    congestion: Congestion,
    profile: Profile,
    plain_sampling: bool,
}

impl Contender {
    /// tacklib as it comes.
    pub const TACK: Self = Self {
        label: "tacklib TACK",
        colour: Colour::Blue,
        stack: Stack::Tack,
        acks: Acks::Tack,
        congestion: Congestion::Bbr,
        profile: Profile::Default,
        plain_sampling: false,
    };
    /// TACK with the defaults for live video.
    pub const TACK_VIDEO: Self =
        Self { label: "tacklib TACK video", profile: Profile::Video, ..Self::TACK };
    /// TACK with the defaults for small flows.
    pub const TACK_QUICK: Self =
        Self { label: "tacklib TACK quick", profile: Profile::Quick, ..Self::TACK };
    /// TACK with round trips sampled as by TCP's timestamps.
    pub const TACK_PLAIN_SAMPLING: Self = Self {
        label: "tacklib, plain sampling",
        colour: Colour::Violet,
        plain_sampling: true,
        ..Self::TACK
    };
    /// TACKs that report one gap at most.
    pub const TACK_POOR: Self = Self {
        label: "tacklib TACK poor",
        colour: Colour::Grey,
        acks: Acks::TackPoor,
        ..Self::TACK
    };
    /// The same stack with the ACK rate of Linux TCP: the paper's rival.
    pub const EVERY_SECOND: Self =
        Self { label: "tacklib L=2", colour: Colour::Sky, acks: Acks::Every(2), ..Self::TACK };
    /// The same stack, every packet acknowledged.
    pub const EVERY_PACKET: Self = Self {
        label: "tacklib L=1",
        colour: Colour::Violet,
        acks: Acks::Every(1),
        ..Self::TACK
    };
    /// The same stack with the delayed ACKs of RFC 9000.
    pub const DELAYED: Self = Self {
        label: "tacklib delayed",
        colour: Colour::Grey,
        acks: Acks::Delayed,
        ..Self::TACK
    };
    /// Plain quiche with CUBIC.
    pub const QUICHE_CUBIC: Self = Self {
        label: "quiche CUBIC",
        colour: Colour::Red,
        stack: Stack::Plain,
        acks: Acks::Delayed,
        congestion: Congestion::Cubic,
        profile: Profile::Default,
        plain_sampling: false,
    };
    /// Plain quiche with BBRv2.
    pub const QUICHE_BBR: Self = Self {
        label: "quiche BBR2",
        colour: Colour::Orange,
        congestion: Congestion::Bbr,
        ..Self::QUICHE_CUBIC
    };
    /// quinn as it comes.
    pub const QUINN: Self = Self {
        label: "quinn CUBIC",
        colour: Colour::Green,
        stack: Stack::Quinn,
        acks: Acks::Delayed,
        congestion: Congestion::Cubic,
        profile: Profile::Default,
        plain_sampling: false,
    };
    /// quinn with its BBR.
    pub const QUINN_BBR: Self = Self {
        label: "quinn BBR",
        colour: Colour::Pink,
        congestion: Congestion::Bbr,
        ..Self::QUINN
    };
    /// quinn with its ACK-frequency extension, at the ratio that the QUIC working group's
    /// proposals mention.
    pub const QUINN_TENTH: Self = Self {
        label: "quinn L=10",
        colour: Colour::Pink,
        acks: Acks::Every(10),
        ..Self::QUINN
    };

    /// TACK and everything that it is held against.
    pub const ALL: [Self; 8] = [
        Self::TACK,
        Self::EVERY_SECOND,
        Self::EVERY_PACKET,
        Self::DELAYED,
        Self::QUICHE_CUBIC,
        Self::QUICHE_BBR,
        Self::QUINN,
        Self::QUINN_TENTH,
    ];

    /// The same with another way to acknowledge.
    pub(super) const fn acknowledging(self, label: &'static str, acks: Acks) -> Self {
        Self { label, acks, ..self }
    }

    /// In another colour.
    pub(super) const fn coloured(self, colour: Colour) -> Self {
        Self { colour, ..self }
    }

    /// One end of a connection.
    pub const fn end(&self) -> EndConfig {
        EndConfig {
            profile: self.profile,
            plain_sampling: self.plain_sampling,
            busy: Duration::ZERO,
            ..EndConfig::new(self.stack, self.acks, self.congestion)
        }
    }

    /// A bulk flow of this stack.
    pub const fn flow(&self, path: PathSpec) -> Flow {
        Flow::between(self.end(), self.end(), path)
    }
}
