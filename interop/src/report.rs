//! The report of a run, for people and for programs.

mod html;
mod matrix;
mod remarks;
mod run;

use serde::Serialize;

use crate::cases::{self, Case, Described};
use crate::cell::CellReport;
use crate::contract::Role;
use crate::error::Error;
use crate::peers::{self, Places};
use crate::verdict::Verdict;

pub use self::html::html;
pub use self::matrix::{line, matrix};
pub use self::run::Run;

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where and when it took place.
    pub run: Run,
    /// Names and descriptions of the peers.
    pub peers: Vec<(&'static str, &'static str)>,
    /// Names and descriptions of the test cases.
    pub tests: Vec<(&'static str, &'static str)>,
    /// What the test cases are run with, in the same order.
    pub conditions: Vec<Described>,
    /// All cells, in the order of the matrix.
    pub cells: Vec<CellReport>,
    /// Differences from the versions of peers that were tested, and why cells are missing.
    pub warnings: Vec<String>,
}

impl Report {
    /// A report on these cells, with the peers and test cases that they name.
    pub fn new(cells: Vec<CellReport>) -> Self {
        let has_peer = |name: &str| cells.iter().any(|cell| cell.peer == name);
        let peers = peers::all().iter().map(|peer| (peer.name, peer.about));
        let has_test = |name: &str| cells.iter().any(|cell| cell.test == name);
        let tests = || cases::ALL.iter().filter(|case| has_test(case.name));
        Self {
            run: Run::default(),
            peers: peers.filter(|(name, _)| has_peer(name)).collect(),
            tests: tests().map(|case| (case.name, case.about)).collect(),
            conditions: tests().map(Case::described).collect(),
            cells,
            warnings: vec![],
        }
    }

    /// Says where and when the run took place.
    #[must_use]
    pub fn of_run(mut self, run: Run) -> Self {
        self.run = run;
        self
    }

    /// Adds warnings about the versions of the peers, and the reason why cells are missing.
    #[must_use]
    pub fn with_warnings(mut self, places: &Places, ended_by: Option<&Error>) -> Self {
        let is_shown = |name| self.peers.iter().any(|(shown, _)| *shown == name);
        let peers = peers::all().iter().filter(|peer| is_shown(peer.name));
        self.warnings = peers.flat_map(|peer| peer.warnings(places)).collect();
        if let Some(error) = ended_by {
            self.warnings.push(format!("the run ended early, not all cells are here: {error}"));
        }
        self
    }

    /// The exit code of the process. `named`: whether the command line names the peers.
    pub fn exit_code(&self, named: bool) -> u8 {
        let any = |is: fn(&Verdict) -> bool| self.cells.iter().any(|cell| is(&cell.verdict));
        if any(|verdict| matches!(verdict, Verdict::Fail { .. })) {
            1
        } else if named && any(|verdict| matches!(verdict, Verdict::Unavailable { .. })) {
            3
        } else {
            0
        }
    }

    /// The cell of a peer in a role in a test case, if it was run.
    fn cell(&self, peer: &str, role: Role, test: &str) -> Option<&CellReport> {
        let is_it =
            |cell: &&CellReport| (cell.peer, cell.role, cell.test) == (peer, role, test);
        self.cells.iter().find(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn cell(peer: &'static str, verdict: Verdict) -> CellReport {
        CellReport {
            peer,
            role: Role::Client,
            test: "handshake",
            verdict,
            seconds: 0.5,
            wire: vec![],
            kept: None,
        }
    }

    pub(super) fn pass() -> Verdict {
        Verdict::Pass { note: None }
    }

    pub(super) fn fail() -> Verdict {
        Verdict::Fail { reason: "lost <it>".to_owned() }
    }

    #[test]
    fn a_failed_cell_fails_the_run_and_a_missing_peer_only_if_it_was_named() {
        let missing = || Verdict::Unavailable { reason: "no compiler".to_owned() };
        let report = |verdicts: Vec<Verdict>| {
            Report::new(verdicts.into_iter().map(|verdict| cell("quinn", verdict)).collect())
        };
        assert_eq!(report(vec![pass()]).exit_code(true), 0);
        assert_eq!(report(vec![pass(), fail(), missing()]).exit_code(true), 1);
        assert_eq!(report(vec![pass(), missing()]).exit_code(true), 3);
        assert_eq!(report(vec![pass(), missing()]).exit_code(false), 0);
    }

    #[test]
    fn the_report_as_json_has_the_verdicts_words() {
        let report = Report::new(vec![cell("quinn", fail())]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["cells"][0]["verdict"], "fail");
        assert_eq!(json["cells"][0]["reason"], "lost <it>");
        assert_eq!(json["cells"][0]["role"], "client");
        assert_eq!(json["tests"][0][0], "handshake");
    }

    #[test]
    fn the_report_says_what_was_run_when_and_over_which_link() {
        let directory = tempfile::tempdir().unwrap();
        let places = Places {
            own: directory.path().join("tack-interop"),
            manifests: directory.path().to_owned(),
            output: directory.path().to_owned(),
        };
        let report = Report::new(vec![cell("quinn", pass())]).of_run(Run::begin(&places, 3));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["run"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(json["run"]["jobs"], 3);
        assert!(json["run"]["began"].as_str().unwrap().starts_with("20"));
        assert_eq!(json["conditions"].as_array().unwrap().len(), 1);
        assert_eq!(json["conditions"][0]["test"], "handshake");
        assert_eq!(json["conditions"][0]["link"]["seed"], 1);
        assert_eq!(json["conditions"][0]["files"][0]["bytes"], 1024);
        let page = html(&report);
        assert!(page.contains(&format!("tacklib {}", env!("CARGO_PKG_VERSION"))));
        assert!(page.contains("15 ms each way, 10 Mbit/s, a queue of 25 packets, seed 1"));
    }

    #[test]
    fn a_report_on_a_run_that_ended_early_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let places = Places {
            own: directory.path().join("tack-interop"),
            manifests: directory.path().to_owned(),
            output: directory.path().to_owned(),
        };
        let report = Report::new(vec![cell("tack", pass())]);
        let whole = report.clone().with_warnings(&places, None);
        assert!(whole.warnings.is_empty());
        let short = report.with_warnings(&places, Some(&Error::Interrupted));
        assert!(short.warnings[0].contains("the run ended early"), "{:?}", short.warnings);
    }
}
