//! The congestion controllers of the kernel's TCP.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A congestion controller for TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// BBR, the paper's rival.
    Bbr,
    /// CUBIC, RFC 9438.
    Cubic,
}

impl Congestion {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Bbr, Self::Cubic];

    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Congestion {
    type Err = UnknownCongestion;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|congestion| congestion.name() == name);
        known.ok_or_else(|| UnknownCongestion(name.to_owned()))
    }
}

/// No such congestion controller is known here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown congestion control {0:?}: use bbr or cubic")]
pub struct UnknownCongestion(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for congestion in Congestion::ALL {
            assert_eq!(congestion.to_string().parse(), Ok(congestion));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_names_that_would_do() {
        let error = "vegas".parse::<Congestion>().unwrap_err().to_string();
        assert!(error.contains("bbr or cubic"), "{error}");
    }
}
