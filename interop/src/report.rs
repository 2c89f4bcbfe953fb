//! The report of a run, for people and for programs.

mod html;
mod matrix;
mod remarks;

use serde::Serialize;

use crate::cell::CellReport;
use crate::contract::Role;
use crate::peers::{self, Places};
use crate::verdict::Verdict;

pub use self::html::html;
pub use self::matrix::{line, matrix};

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Names and descriptions of the peers.
    pub peers: Vec<(&'static str, &'static str)>,
    /// Names and descriptions of the test cases.
    pub tests: Vec<(&'static str, &'static str)>,
    /// All cells, in the order of the matrix.
    pub cells: Vec<CellReport>,
    /// Differences from the versions of peers that were tested.
    pub warnings: Vec<String>,
}

impl Report {
    /// A report on these cells, with the peers and test cases that they name.
    pub fn new(cells: Vec<CellReport>) -> Self {
        let has_peer = |name: &str| cells.iter().any(|cell| cell.peer == name);
        let peers = peers::all().iter().map(|peer| (peer.name, peer.about));
        let has_test = |name: &str| cells.iter().any(|cell| cell.test == name);
        let tests = crate::cases::ALL.iter().map(|case| (case.name, case.about));
        Self {
            peers: peers.filter(|(name, _)| has_peer(name)).collect(),
            tests: tests.filter(|(name, _)| has_test(name)).collect(),
            cells,
            warnings: vec![],
        }
    }

    /// Adds warnings about the versions of the peers.
    #[must_use]
    pub fn with_warnings(mut self, places: &Places) -> Self {
        let is_shown = |name| self.peers.iter().any(|(shown, _)| *shown == name);
        let peers = peers::all().iter().filter(|peer| is_shown(peer.name));
        self.warnings = peers.flat_map(|peer| peer.warnings(places)).collect();
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
}
