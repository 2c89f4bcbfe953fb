//! The matrix for a terminal.

use std::fmt::Write;

use super::Report;
use super::remarks::{remark, remarks};
use crate::cell::CellReport;
use crate::contract::Role;
use crate::verdict::Verdict;

/// Takes the longest mark and a space.
const MARK: usize = 5;
const LEGEND: &str = "Left: the peer as server, right: as client. ok: passed, -: unsupported, DEF.: a defect of \
                      the peer, abs.: the peer is not there.";

/// The word of a verdict.
pub const fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Pass { .. } | Verdict::Measured { .. } => "pass",
        Verdict::Fail { .. } => "FAIL",
        Verdict::Unsupported { .. } => "unsupp.",
        Verdict::Defect { .. } => "defect",
        Verdict::Unavailable { .. } => "absent",
    }
}

const fn mark(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Measured { figure, .. } => figure.as_str(),
        Verdict::Pass { .. } => "ok",
        Verdict::Fail { .. } => "FAIL",
        Verdict::Unsupported { .. } => "-",
        Verdict::Defect { .. } => "DEF.",
        Verdict::Unavailable { .. } => "abs.",
    }
}

/// A cell in one line.
pub fn line(cell: &CellReport) -> String {
    let CellReport { peer, role, test, verdict, seconds, .. } = cell;
    let remark = remark(verdict).map_or_else(String::new, |remark| format!("  {remark}"));
    format!("{:<7} {peer} {role}, {test} ({seconds:.1} s){remark}", word(verdict))
}

/// The matrix, the remarks on its cells, and a summary.
pub fn matrix(report: &Report) -> String {
    let tests = report.tests.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = " ".repeat(tests);
    // Writing to a string does not fail.
    for (peer, _) in &report.peers {
        let _ = write!(out, "  {peer:<width$}", width = 2 * MARK - 1);
    }
    end_line(&mut out);
    for (test, _) in &report.tests {
        let _ = write!(out, "{test:<tests$}");
        for (peer, _) in &report.peers {
            let of =
                |role| report.cell(peer, role, test).map_or("", |cell| mark(&cell.verdict));
            let (server, client) = (of(Role::Server), of(Role::Client));
            let _ = write!(
                out,
                "  {server:<MARK$}{client:<width$}",
                width = peer.len().max(2 * MARK - 1) - MARK
            );
        }
        end_line(&mut out);
    }
    let _ = writeln!(out, "\n{LEGEND}");
    for remark in remarks(report) {
        let (word, peers) = (word(remark.verdict), remark.peers());
        let _ = writeln!(out, "{word:<7} {}, {peers}: {}", remark.test, remark.text);
        for kept in remark.failed().filter_map(|cell| cell.kept.as_deref()) {
            let _ = writeln!(out, "        logs and traces: {kept}");
        }
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    summary(&mut out, report);
    out
}

/// How many cells passed, failed and decided nothing. Retries would belong here: there are none.
fn summary(out: &mut String, report: &Report) {
    let count = |word: &str| {
        report.cells.iter().filter(|cell| self::word(&cell.verdict) == word).count()
    };
    let (unsupported, defects, absent) = (count("unsupp."), count("defect"), count("absent"));
    let _ = writeln!(
        out,
        "each cell ran once, none was retried; skipped are {unsupported} unsupported, {defects} \
         with a known defect of the peer, {absent} without the peer\n\
         cells: {} passed, {} failed, {} skipped",
        count("pass"),
        count("FAIL"),
        unsupported + defects + absent
    );
}

fn end_line(out: &mut String) {
    out.truncate(out.trim_end().len());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, fail, pass};
    use super::*;

    #[test]
    fn a_line_for_each_test_case_and_the_reasons_below() {
        let failed = CellReport { kept: Some("here".into()), ..cell("quinn", fail()) };
        let server = CellReport { role: Role::Server, ..cell("quinn", pass()) };
        let mut report = Report::new(vec![cell("tack", pass()), server, failed]);
        report.warnings.push("old".to_owned());
        assert_eq!(
            matrix(&report),
            format!(
                "           tack       quinn\n\
                 handshake       ok    ok   FAIL\n\n\
                 {LEGEND}\n\
                 FAIL    handshake, quinn client: lost <it>\n        logs and traces: here\n\
                 warning: old\n\
                 each cell ran once, none was retried; skipped are 0 unsupported, 0 with a known \
                 defect of the peer, 0 without the peer\n\
                 cells: 2 passed, 1 failed, 0 skipped\n"
            )
        );
    }
}
