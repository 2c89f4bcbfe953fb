//! The four generations of Wi-Fi of the paper.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ParameterError;

/// A physical layer at the rate that the paper measures it at (Figure 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// 802.11b, 11 Mbit/s.
    B,
    /// 802.11g, 54 Mbit/s, in a cell without 802.11b stations.
    G,
    /// 802.11n, 40 MHz, two streams, MCS 15, short guard interval: 300 Mbit/s.
    N,
    /// 802.11ac, 80 MHz, two streams, MCS 9, short guard interval: 866.7 Mbit/s.
    Ac,
}

impl Profile {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [Self::B, Self::G, Self::N, Self::Ac];

    /// The name: `b`, `g`, `n` or `ac`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::B => "b",
            Self::G => "g",
            Self::N => "n",
            Self::Ac => "ac",
        }
    }

    /// Whether stations put several MPDUs into one transmission.
    pub const fn aggregates(self) -> bool {
        matches!(self, Self::N | Self::Ac)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = ParameterError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == name);
        found.ok_or_else(|| ParameterError::new("profile", name, "b, g, n, ac"))
    }
}

/// What stands before an 802.11b frame, and with it the rate of the ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preamble {
    /// 192 µs; the ACK goes at 2 Mbit/s.
    Long,
    /// 96 µs; the ACK goes at 11 Mbit/s.
    Short,
}

impl FromStr for Preamble {
    type Err = ParameterError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "long" => Ok(Self::Long),
            "short" => Ok(Self::Short),
            _ => Err(ParameterError::new("preamble", name, "long, short")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_a_name_that_leads_back_to_it() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let error = "ax".parse::<Profile>().unwrap_err();
        assert_eq!(error.to_string(), "profile is ax; allowed: b, g, n, ac");
        let error = "medium".parse::<Preamble>().unwrap_err();
        assert_eq!(error.to_string(), "preamble is medium; allowed: long, short");
    }
}
