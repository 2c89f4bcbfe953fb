//! The constants of each profile, in one place.
//!
//! They are what `tacklib` ships and what the tests of this crate run over.

use std::time::Duration;

use crate::sender::{BbrConfig, Frequency};

/// What a profile sets of the protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Equation (4) of the paper: L, beta and the bounds of alpha.
    pub frequency: Frequency,
    /// The controller.
    pub bbr: BbrConfig,
}

/// No TACK interval is shorter: a hundred acknowledgements a second at most.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Round trip up to which there is one TACK for each.
const SHORT_PATH_INTERVAL: Duration = Duration::from_millis(20);

/// No TACK interval of equation (4) is longer: half a round trip of 200 ms. A longer one tells a TACK peer that the load
/// is light (TACK-5.1-10).
pub(crate) const LONGEST_INTERVAL: Duration = Duration::from_millis(100);

impl Profile {
    /// L = 10 and beta = 2: few acknowledgements.
    pub const DEFAULT: Self = Self {
        name: "default",
        frequency: Frequency {
            packets: 10,
            per_round_trip: 2.0,
            shortest_interval: SHORTEST_INTERVAL,
            short_path_interval: SHORT_PATH_INTERVAL,
            longest_interval: LONGEST_INTERVAL,
        },
        bbr: BbrConfig::DEFAULT,
    };

    /// For live video (section VII-D of the paper): L = 2 and beta = 4, and a controller that
    /// follows a change of the path in half the time.
    pub const VIDEO: Self = Self {
        name: "video",
        frequency: Frequency {
            packets: 2,
            per_round_trip: 4.0,
            short_path_interval: Duration::ZERO,
            ..Self::DEFAULT.frequency
        },
        bbr: BbrConfig::VIDEO,
    };

    /// L = 1: small flows are acknowledged packet by packet, large ones are bound by beta.
    pub const QUICK: Self = Self {
        name: "quick",
        frequency: Frequency {
            packets: 1,
            short_path_interval: Duration::ZERO,
            ..Self::DEFAULT.frequency
        },
        bbr: BbrConfig::QUICK,
    };

    /// All of them.
    pub const ALL: [Self; 3] = [Self::DEFAULT, Self::VIDEO, Self::QUICK];
}
