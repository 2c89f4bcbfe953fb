//! What is held against what.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// A number that an experiment found, and what it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What a miss means.
    pub kind: Kind,
    /// What was looked at.
    pub what: String,
    /// What was found, with its unit.
    pub seen: String,
    /// What it should be, or what the paper reports.
    pub expected: String,
    /// The number behind `seen`, where it is one number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<f64>,
    /// Smallest accepted value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub low: Option<f64>,
    /// Largest accepted value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub high: Option<f64>,
    /// Whether it is as expected.
    pub passed: bool,
    /// It is not what the paper reports, and better by the paper's own measure.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub better: bool,
}

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The emulation itself against the standard, theory and reference simulations. A miss
    /// makes the run fail: nothing measured on a wrong medium means anything.
    Model,
    /// The stack against the paper. A miss is a finding, not a failure.
    Paper,
    /// The stack against what this project promises. A miss is a finding, not a failure: the
    /// measurement is as good as before.
    Target,
}

impl Check {
    /// A property of the emulation, which has to lie in a range.
    pub fn model(
        what: impl Into<String>,
        value: f64,
        unit: &str,
        range: RangeInclusive<f64>,
    ) -> Self {
        let (low, high) = (*range.start(), *range.end());
        Self {
            kind: Kind::Model,
            what: what.into(),
            seen: with_unit(value, unit),
            expected: format!("{} to {}", short(low), with_unit(high, unit)),
            value: Some(value),
            low: Some(low),
            high: Some(high),
            passed: range.contains(&value),
            better: false,
        }
    }

    /// A property of the emulation that should be within `percent` of a known value.
    pub fn model_near(
        what: impl Into<String>,
        value: f64,
        unit: &str,
        known: f64,
        percent: f64,
    ) -> Self {
        let slack = known.abs() * percent / 100.0;
        Self {
            expected: format!("{} ± {percent} %", with_unit(known, unit)),
            ..Self::model(what, value, unit, known - slack..=known + slack)
        }
    }

    /// What the paper says beside what we see; `agrees` holds on both sides, or compares with what
    /// the paper says in words.
    pub fn paper(
        what: impl Into<String>,
        seen: impl Into<String>,
        paper: impl Into<String>,
        agrees: bool,
    ) -> Self {
        Self {
            kind: Kind::Paper,
            what: what.into(),
            seen: seen.into(),
            expected: paper.into(),
            value: None,
            low: None,
            high: None,
            passed: agrees,
            better: false,
        }
    }

    /// What the paper says of something that has a good and a bad side, beside what we see. It
    /// `agrees` only if it is near on both sides; if it is not near and `better`, it is called that.
    pub fn paper_or_better(
        what: impl Into<String>,
        seen: impl Into<String>,
        paper: impl Into<String>,
        near: bool,
        better: bool,
    ) -> Self {
        Self { better: better && !near, ..Self::paper(what, seen, paper, near) }
    }

    /// A property of the stack that should reach a value. What is not a number does not.
    pub fn at_least(what: impl Into<String>, value: f64, unit: &str, low: f64) -> Self {
        let expected = format!("{} or more", with_unit(low, unit));
        Self { low: Some(low), ..Self::target(what, value, unit, expected, value >= low) }
    }

    /// A property of the stack that should not exceed a value. What is not a number does, or has no end.
    pub fn at_most(what: impl Into<String>, value: f64, unit: &str, high: f64) -> Self {
        let expected = format!("{} or less", with_unit(high, unit));
        Self {
            high: Some(high),
            ..Self::target(what, value, unit, expected, value.is_finite() && value <= high)
        }
    }

    /// A property of the stack that should lie in a range. What is not a number does not.
    pub fn between(
        what: impl Into<String>,
        value: f64,
        unit: &str,
        range: RangeInclusive<f64>,
    ) -> Self {
        let (low, high) = (*range.start(), *range.end());
        let expected = format!("{} to {}", short(low), with_unit(high, unit));
        let passed = range.contains(&value);
        Self {
            low: Some(low),
            high: Some(high),
            ..Self::target(what, value, unit, expected, passed)
        }
    }

    fn target(
        what: impl Into<String>,
        value: f64,
        unit: &str,
        expected: String,
        passed: bool,
    ) -> Self {
        let seen = if value.is_finite() { with_unit(value, unit) } else { "none".to_owned() };
        // A near miss shows by how much.
        let near_miss = !passed && expected.starts_with(&seen);
        let seen = if near_miss { format!("{value:.4} {unit}") } else { seen };
        Self {
            kind: Kind::Target,
            what: what.into(),
            seen,
            expected,
            value: Some(value).filter(|value| value.is_finite()),
            low: None,
            high: None,
            passed,
            better: false,
        }
    }

    /// Whether this alone makes the run fail.
    pub fn fails_the_run(&self) -> bool {
        self.kind == Kind::Model && !self.passed
    }

    /// How the result is called, as a word.
    pub fn verdict(&self) -> &'static str {
        match (self.kind, self.passed) {
            (Kind::Model | Kind::Target, true) => "pass",
            (Kind::Model, false) => "FAIL",
            (Kind::Paper, true) => "agrees",
            (Kind::Paper, false) if self.better => "better",
            (Kind::Paper, false) => "differs",
            (Kind::Target, false) => "fail",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.kind {
            Kind::Model => "expected",
            Kind::Paper => "paper says",
            Kind::Target => "target",
        };
        write!(
            f,
            "{:<7}  {}: {}; {source} {}",
            self.verdict(),
            self.what,
            self.seen,
            self.expected
        )
    }
}

/// A number with as many digits as one wants to read, and its unit.
pub fn with_unit(value: f64, unit: &str) -> String {
    if unit.is_empty() { short(value) } else { format!("{} {unit}", short(value)) }
}

/// A number with three significant digits at least.
pub fn short(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_outside_the_range_fails_a_model_check() {
        let check = Check::model("goodput", 7.2, "Mbit/s", 6.7..=7.1);
        assert!(check.fails_the_run());
        assert_eq!(check.expected, "6.70 to 7.10 Mbit/s");
    }

    #[test]
    fn a_value_within_the_percentage_passes() {
        assert!(Check::model_near("goodput", 205.3, "Mbit/s", 211.6, 3.0).passed);
        assert!(!Check::model_near("goodput", 205.2, "Mbit/s", 211.6, 3.0).passed);
    }

    #[test]
    fn not_a_number_fails_a_model_check() {
        assert!(Check::model("goodput", f64::NAN, "Mbit/s", 0.0..=1e9).fails_the_run());
    }

    #[test]
    fn what_has_no_end_exceeds_every_bound() {
        assert!(Check::at_most("delay", 3.0, "ms", f64::INFINITY).passed);
        assert!(!Check::at_most("delay", f64::INFINITY, "ms", f64::INFINITY).passed);
    }

    #[test]
    fn a_difference_from_the_paper_does_not_fail_the_run() {
        let check = Check::paper("gain", "14 %", "28 %", false);
        assert!(!check.fails_the_run());
        assert_eq!(check.verdict(), "differs");
    }

    #[test]
    fn what_is_far_from_the_paper_never_agrees_however_good_it_is() {
        let verdict = |near, better| {
            let check = Check::paper_or_better("ACKs", "56 Hz", "294 Hz", near, better);
            (check.verdict(), check.passed)
        };
        assert_eq!(verdict(true, true), ("agrees", true));
        assert_eq!(verdict(false, true), ("better", false));
        assert_eq!(verdict(false, false), ("differs", false));
    }

    #[test]
    fn a_target_is_met_at_its_bound_and_a_miss_does_not_fail_the_run() {
        assert!(Check::at_least("utilisation", 95.0, "%", 95.0).passed);
        assert!(Check::at_most("queue", 20.0, "ms", 20.0).passed);
        assert_eq!(Check::at_least("saved", 99.88, "%", 99.9).seen, "99.8800 %");
        let missed = Check::at_least("utilisation", 94.9, "%", 95.0);
        assert!(!missed.passed && !missed.fails_the_run());
        assert_eq!(missed.to_string(), "fail     utilisation: 94.9 %; target 95.0 % or more");
    }

    #[test]
    fn a_value_that_was_never_seen_meets_no_target() {
        for check in [
            Check::at_least("gain", f64::NAN, "%", 0.0),
            Check::at_most("time", f64::INFINITY, "RTT", 2.0),
        ] {
            assert!(!check.passed);
            assert_eq!((check.seen.as_str(), check.value), ("none", None));
        }
    }

    #[test]
    fn numbers_keep_three_significant_digits() {
        let shown: Vec<_> =
            [1234.5, 211.64, 25.12, 6.938, 0.057].into_iter().map(short).collect();
        assert_eq!(shown, ["1234", "212", "25.1", "6.94", "0.057"]);
    }
}
