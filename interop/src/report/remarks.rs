//! Remarks on cells; cells of a test case with the same remark share it.

use super::Report;
use crate::cell::CellReport;
use crate::verdict::Verdict;

/// A remark on cells of one test case.
#[derive(Debug)]
pub struct Remark<'a> {
    /// The test case.
    pub test: &'static str,
    /// The verdict of the first of them.
    pub verdict: &'a Verdict,
    /// The remark.
    pub text: String,
    /// The cells.
    pub cells: Vec<&'a CellReport>,
    /// Whether these are all cells of the test case.
    pub is_all: bool,
}

/// Returns the remark on a cell with this verdict.
pub fn remark(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Pass { note } => note.clone(),
        Verdict::Measured { note, .. } => Some(note.clone()),
        Verdict::Fail { reason }
        | Verdict::Defect { reason }
        | Verdict::Unavailable { reason } => Some(reason.clone()),
        Verdict::Unsupported { by, reason } => Some(format!("{by}: {reason}")),
    }
}

/// Returns all remarks by test case.
pub fn remarks(report: &Report) -> Vec<Remark<'_>> {
    let mut all: Vec<Remark<'_>> = Vec::new();
    for (test, _) in &report.tests {
        let first = all.len();
        let cells = || report.cells.iter().filter(|cell| cell.test == *test);
        for cell in cells() {
            let verdict = &cell.verdict;
            let Some(text) = remark(verdict) else { continue };
            let same = all[first..].iter_mut().find(|remark| {
                remark.text == text
                    && std::mem::discriminant(remark.verdict) == std::mem::discriminant(verdict)
            });
            if let Some(remark) = same {
                remark.cells.push(cell);
            } else {
                all.push(Remark { test, verdict, text, cells: vec![cell], is_all: false });
            }
        }
        for remark in &mut all[first..] {
            remark.is_all = remark.cells.len() == cells().count() && remark.cells.len() > 2;
        }
    }
    all
}

impl<'a> Remark<'a> {
    /// The cells that failed, or show a defect of the peer.
    pub fn failed(&self) -> impl Iterator<Item = &'a CellReport> {
        let failed = |cell: &&CellReport| {
            matches!(cell.verdict, Verdict::Fail { .. } | Verdict::Defect { .. })
        };
        self.cells.iter().copied().filter(failed)
    }

    /// The peers with their roles.
    pub fn peers(&self) -> String {
        if self.is_all {
            return "all".to_owned();
        }
        let peers = self.cells.chunk_by(|a, b| a.peer == b.peer);
        let named: Vec<_> = peers
            .filter_map(|cells| {
                let CellReport { peer, role, .. } = cells.first()?;
                let role = if cells.len() == 1 { role.name() } else { "both" };
                Some(format!("{peer} {role}"))
            })
            .collect();
        named.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, fail, pass};
    use super::*;
    use crate::contract::Role;

    #[test]
    fn cells_with_the_same_remark_share_it() {
        let lacks = || Verdict::Unavailable { reason: "gone".to_owned() };
        let server = |peer, verdict| CellReport { role: Role::Server, ..cell(peer, verdict) };
        let report = Report::new(vec![
            cell("tack", pass()),
            server("quinn", lacks()),
            cell("quinn", lacks()),
            server("quic-go", lacks()),
            cell("quic-go", fail()),
        ]);
        let remarks = remarks(&report);
        let said: Vec<_> =
            remarks.iter().map(|remark| (&remark.text[..], remark.peers())).collect();
        let gone = "quinn both, quic-go server".to_owned();
        assert_eq!(said, [("gone", gone), ("lost <it>", "quic-go client".to_owned())]);
    }

    #[test]
    fn a_remark_on_a_whole_test_case_names_no_peers() {
        let cells = ["tack", "quinn", "quic-go"].map(|peer| cell(peer, fail()));
        let report = Report::new(cells.to_vec());
        assert_eq!(remarks(&report)[0].peers(), "all");
    }
}
