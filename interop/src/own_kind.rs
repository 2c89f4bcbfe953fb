//! The variants of this project's own end.

use clap::ValueEnum;
use tacklib::{LabSwitches, Profile, TackConfig};

/// A variant of this project's own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OwnKind {
    /// tacklib with TACK.
    Tack,
    /// Plain quiche: tacklib with the profile `off`.
    Quiche,
    /// tacklib with TACK, which sends no ACK_FREQUENCY to stock peers.
    TackUnasking,
}

impl OwnKind {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tack => "tack",
            Self::Quiche => "quiche",
            Self::TackUnasking => "tack-unasking",
        }
    }

    /// The settings of tacklib.
    pub fn settings(self) -> (TackConfig, LabSwitches) {
        let asks_stock_peers = !matches!(self, Self::TackUnasking);
        let lab = LabSwitches { asks_stock_peers, ..LabSwitches::default() };
        match self {
            Self::Tack | Self::TackUnasking => (TackConfig::default(), lab),
            Self::Quiche => (TackConfig::new(Profile::Off), lab),
        }
    }
}
