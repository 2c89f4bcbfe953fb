//! The variants of this project's own end.

use clap::ValueEnum;
use tacklib::{Profile, TackConfig};

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
    pub fn settings(self) -> TackConfig {
        match self {
            Self::Tack => TackConfig::default(),
            Self::Quiche => TackConfig::new(Profile::Off),
            Self::TackUnasking => {
                TackConfig { asks_stock_peers: false, ..TackConfig::default() }
            }
        }
    }
}
