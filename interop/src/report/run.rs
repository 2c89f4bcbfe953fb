//! Where and when a run took place.

use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::peers::Places;

/// Where and when a run took place.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// The version of this project.
    pub version: &'static str,
    /// The commit of the checkout as `git describe` has it; `None` without git or a checkout.
    pub commit: Option<String>,
    /// When it began, in UTC (RFC 3339).
    pub began: String,
    /// Cells at the same time.
    pub jobs: usize,
}

impl Run {
    /// A run that begins now.
    pub fn begin(places: &Places, jobs: usize) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(places),
            began: rfc3339(now.as_secs()),
            jobs,
        }
    }

    /// One line.
    pub fn line(&self) -> String {
        let Self { version, commit, began, jobs } = self;
        let commit = commit.as_ref().map_or_else(String::new, |commit| format!(" ({commit})"));
        let cells = if *jobs == 1 { "one cell".to_owned() } else { format!("{jobs} cells") };
        format!("tacklib {version}{commit}, begun {began}, {cells} at a time")
    }
}

fn commit(places: &Places) -> Option<String> {
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty", "--tags"])
        .current_dir(&places.manifests)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let commit = String::from_utf8_lossy(&described.stdout).trim().to_owned();
    (described.status.success() && !commit.is_empty()).then_some(commit)
}

/// A time in seconds since 1970, in UTC.
fn rfc3339(seconds: u64) -> String {
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

const fn days_of(year: u64) -> u64 {
    let is_leap =
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if is_leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_as_rfc_3339_has_it() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(rfc3339(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn a_run_is_told_in_a_line_with_its_commit_if_that_is_known() {
        let run = Run { version: "1.2", commit: None, began: "now".to_owned(), jobs: 1 };
        assert_eq!(run.line(), "tacklib 1.2, begun now, one cell at a time");
        let run = Run { commit: Some("v1-3-gabc".to_owned()), jobs: 4, ..run };
        assert_eq!(run.line(), "tacklib 1.2 (v1-3-gabc), begun now, 4 cells at a time");
    }
}
