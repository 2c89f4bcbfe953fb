//! Limits that the ratios are held against.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::arm::Arm;

/// Where the limits of this repository are.
pub const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions-limits.toml");

/// What a file of limits says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Size of the counted transfer, MiB.
    pub mib: usize,
    #[serde(rename = "limit")]
    pub limits: Vec<Limit>,
}

/// The most instructions that TACK may take in one measurement, as a share of plain quiche's.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    pub arm: Arm,
    pub batch: usize,
    pub at_most: f64,
}

impl Gate {
    /// Reads a file of limits.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("the limits {} could not be read", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let gate: Self = toml::from_str(text)?;
        ensure!(!gate.limits.is_empty(), "there is no [[limit]]");
        ensure!(gate.mib > 0, "mib is 0");
        Ok(gate)
    }
}

impl Limit {
    /// One line for people, and whether the ratio is within the limit.
    pub fn judge(&self, ratio: f64) -> (String, bool) {
        let Self { arm, batch, at_most } = self;
        let holds = ratio <= *at_most;
        let verdict = if holds { "pass" } else { "FAIL" };
        let name = arm.name();
        (format!("{verdict}  {name}, batch {batch}: {ratio:.4}; limit {at_most}"), holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_this_repository_are_read() {
        let gate = Gate::read(Path::new(LIMITS)).unwrap();
        let batches = |arm| {
            let of_arm = gate.limits.iter().filter(move |limit| limit.arm == arm);
            of_arm.map(|limit| limit.batch).collect::<Vec<_>>()
        };
        assert_eq!(batches(Arm::Streams), [4, 14, 32]);
        assert!(gate.limits.iter().all(|limit| (0.5..2.0).contains(&limit.at_most)));
    }

    #[test]
    fn a_file_without_limits_or_with_unknown_ones_is_refused() {
        for text in [
            "mib = 4",
            "mib = 4\nlimit = []",
            "mib = 0\n[[limit]]\narm = \"streams\"\nbatch = 4\nat_most = 1.0",
            "mib = 4\n[[limit]]\narm = \"strems\"\nbatch = 4\nat_most = 1.0",
            "mib = 4\n[[limit]]\narm = \"streams\"\nbatch = 4\nat_least = 1.0",
        ] {
            assert!(Gate::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_ratio_holds_at_its_limit_and_not_above() {
        let limit = Limit { arm: Arm::Streams, batch: 14, at_most: 1.1 };
        assert!(limit.judge(1.1).1);
        let (line, holds) = limit.judge(1.1004);
        assert!(!holds && line == "FAIL  streams, batch 14: 1.1004; limit 1.1", "{line}");
    }
}
