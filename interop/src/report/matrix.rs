//! The matrix for a terminal.

use std::fmt::Write;

use super::Report;
use crate::cell::CellReport;
use crate::verdict::Verdict;

/// The word of a verdict.
pub const fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Pass { .. } => "pass",
        Verdict::Fail { .. } => "FAIL",
        Verdict::Unsupported { .. } => "unsupp.",
        Verdict::Unavailable { .. } => "absent",
    }
}

/// What there is to say besides the word.
pub fn remark(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Pass { note } => note.clone(),
        Verdict::Fail { reason } | Verdict::Unavailable { reason } => Some(reason.clone()),
        Verdict::Unsupported { by, reason } => Some(format!("{by}: {reason}")),
    }
}

/// A cell in one line.
pub fn line(cell: &CellReport) -> String {
    let CellReport { peer, role, test, verdict, seconds, .. } = cell;
    let remark = remark(verdict).map_or_else(String::new, |remark| format!("  {remark}"));
    format!("{:<7} {peer} {role}, {test} ({seconds:.1} s){remark}", word(verdict))
}

/// The matrix, and below it what there is to say of its cells.
pub fn matrix(report: &Report) -> String {
    let width = |names: &mut dyn Iterator<Item = usize>| names.max().unwrap_or(0).max(7);
    let peers = width(&mut report.peers.iter().map(|(name, _)| name.len()));
    let mut out = format!("{:<peers$}  {:<6}", "peer", "as");
    // Writing to a string does not fail.
    for (test, _) in &report.tests {
        let _ = write!(out, "  {test:<7}");
    }
    out.push('\n');
    let mut remarks = Vec::new();
    for row in report.rows() {
        let Some(first) = row.first() else { continue };
        let _ = write!(out, "{:<peers$}  {:<6}", first.peer, first.role);
        for (test, _) in &report.tests {
            let verdict = row.iter().find(|cell| cell.test == *test);
            let word = verdict.map_or("", |cell| word(&cell.verdict));
            let _ = write!(out, "  {word:<width$}", width = test.len().max(7));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        remarks.extend(row.into_iter().filter_map(|cell| Some((cell, remark(&cell.verdict)?))));
    }
    if !remarks.is_empty() {
        out.push('\n');
    }
    for (cell, remark) in remarks {
        let CellReport { peer, role, test, verdict, kept, .. } = cell;
        let _ = writeln!(out, "{} {peer} {role}, {test}: {remark}", word(verdict));
        if let (Verdict::Fail { .. }, Some(kept)) = (verdict, kept) {
            let _ = writeln!(out, "     logs and traces: {kept}");
        }
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, fail, pass};
    use super::*;

    #[test]
    fn a_row_for_each_peer_and_the_reasons_below() {
        let failed = CellReport { kept: Some("here".into()), ..cell("quinn", fail()) };
        let mut report = Report::new(vec![cell("tack", pass()), failed]);
        report.warnings = vec!["old".to_owned()];
        assert_eq!(
            matrix(&report),
            "peer     as      handshake\n\
             tack     client  pass\n\
             quinn    client  FAIL\n\
             \n\
             FAIL quinn client, handshake: lost <it>\n     logs and traces: here\n\
             warning: old\n"
        );
    }
}
