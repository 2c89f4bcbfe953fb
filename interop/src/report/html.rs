//! The report as a web page that needs nothing else: no script, no file, no network.

mod figures;

use std::fmt::Write;

use super::Report;
use super::remarks::{remark, remarks};
use crate::cell::CellReport;
use crate::contract::Role;
use crate::verdict::Verdict;

const STYLE: &str = include_str!("html/style.css");

/// The whole page.
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>TACK interoperability</title>\n<style>\n{STYLE}</style>\n\
         <header>\n<h1>TACK interoperability</h1>\n\
         <p>A TACK endpoint at one end, another QUIC implementation at the other, and an emulated \
         link between them. What passed is decided by digests of what was received and by the \
         packets on the wire, opened with the keys of our end; exit codes alone decide \
         nothing.</p>\n"
    );
    let _ = writeln!(out, "<p>{}</p>", escaped(&report.run.line()));
    tally(&mut out, report);
    out.push_str("</header>\n");
    legend(&mut out);
    matrix(&mut out, report);
    figures::acknowledgements(&mut out, report);
    details(&mut out, report);
    peers(&mut out, report);
    out
}

fn tally(out: &mut String, report: &Report) {
    out.push_str("<ul class=\"tally\">\n");
    for (class, word) in [
        ("pass", "passed"),
        ("fail", "failed"),
        ("defect", "defects of peers"),
        ("none", "unsupported"),
        ("absent", "unavailable"),
    ] {
        let count =
            report.cells.iter().filter(|cell| class_of(&cell.verdict).0 == class).count();
        let _ = writeln!(out, "<li class=\"{class}\"><b>{count}</b>{word}</li>");
    }
    out.push_str("</ul>\n");
}

fn legend(out: &mut String) {
    out.push_str(
        "<ul class=\"legend\">\n\
         <li><span class=\"v pass\"><i>S</i>✓</span> the peer as server: passed</li>\n\
         <li><span class=\"v fail\"><i>C</i>✕</span> the peer as client: failed</li>\n\
         <li><span class=\"v defect\"><i>S</i>!</span> failed, by a defect of the peer that the \
         wire shows</li>\n\
         <li><span class=\"v none\"><i>S</i>–</span> an end lacks what the test case is about</li>\n\
         <li><span class=\"v absent\"><i>S</i>○</span> the peer could not be installed</li>\n\
         <li>Reasons and figures: point at a cell, or see below.</li>\n\
         </ul>\n",
    );
}

fn matrix(out: &mut String, report: &Report) {
    out.push_str(
        "<div class=\"card scroll\"><table class=\"matrix\">\n<thead><tr><th>Test case</th>",
    );
    for (peer, about) in &report.peers {
        let _ = write!(out, "<th title=\"{}\">{}</th>", escaped(about), escaped(peer));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for ((test, about), conditions) in report.tests.iter().zip(&report.conditions) {
        let (test, about) = (escaped(test), escaped(about));
        let conditions = escaped(&conditions.to_string());
        let _ =
            write!(out, "<tr><th>{test}<small>{about}</small><small>{conditions}</small></th>");
        for (peer, _) in &report.peers {
            let cells = [Role::Server, Role::Client].map(|role| report.cell(peer, role, &test));
            out.push_str("<td><span class=\"both\">");
            cells.into_iter().flatten().for_each(|cell| badge(out, cell));
            out.push_str("</span></td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn badge(out: &mut String, cell: &CellReport) {
    let CellReport { peer, role, test, verdict, .. } = cell;
    let (class, sign, word) = class_of(verdict);
    let letter = match role {
        Role::Server => 'S',
        Role::Client => 'C',
    };
    let remark = remark(verdict).map_or_else(String::new, |remark| escaped(&remark));
    let _ = write!(
        out,
        "<span class=\"v {class} {role}\" tabindex=\"0\"><i>{letter}</i>{sign}<span class=\"tip\">\
         <b>{} as {role}, {}: {word}</b>{remark}</span></span>",
        escaped(peer),
        escaped(test)
    );
}

fn details(out: &mut String, report: &Report) {
    type Is = fn(&Verdict) -> bool;
    let parts: [(&str, &str, Is); 5] = [
        ("Failed", "", |verdict| matches!(verdict, Verdict::Fail { .. })),
        ("Known defects of peers", "Each is visible on the wire.", |verdict| {
            matches!(verdict, Verdict::Defect { .. })
        }),
        ("What was seen", "Figures and findings of cells that passed.", |verdict| {
            matches!(verdict, Verdict::Pass { .. } | Verdict::Measured { .. })
        }),
        (
            "What is not supported",
            "An end lacks what the test case is about: “our end” is this project's, with quiche \
             below it.",
            |verdict| matches!(verdict, Verdict::Unsupported { .. }),
        ),
        ("What is not there", "", |verdict| matches!(verdict, Verdict::Unavailable { .. })),
    ];
    let all = remarks(report);
    for (title, about, is) in parts {
        let mut remarks = all.iter().filter(|remark| is(remark.verdict)).peekable();
        if remarks.peek().is_none() {
            continue;
        }
        let _ = writeln!(out, "<h2>{title}</h2>");
        if !about.is_empty() {
            let _ = writeln!(out, "<p>{about}</p>");
        }
        out.push_str("<br><div class=\"card scroll\"><table class=\"remarks\"><tbody>\n");
        for remark in remarks {
            let (class, sign, _) = class_of(remark.verdict);
            let _ = writeln!(
                out,
                "<tr><td><span class=\"v {class}\">{sign}</span></td><td>{}</td><td>{}</td>\
                 <td>{}</td></tr>",
                escaped(remark.test),
                escaped(&remark.peers()),
                escaped(&remark.text)
            );
        }
        out.push_str("</tbody></table></div>\n");
    }
}

fn peers(out: &mut String, report: &Report) {
    out.push_str("<h2>Peers</h2>\n<dl class=\"peers\">\n");
    for (name, about) in &report.peers {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(about));
    }
    out.push_str("</dl>\n");
    for warning in &report.warnings {
        let _ = writeln!(out, "<p>Warning: {}</p>", escaped(warning));
    }
}

/// The class of a verdict in the style, its sign, and its word.
const fn class_of(verdict: &Verdict) -> (&'static str, &str, &'static str) {
    match verdict {
        Verdict::Pass { .. } => ("pass", "✓", "passed"),
        Verdict::Measured { figure, .. } => ("pass", figure.as_str(), "measured"),
        Verdict::Fail { .. } => ("fail", "✕", "failed"),
        Verdict::Unsupported { .. } => ("none", "–", "unsupported"),
        Verdict::Defect { .. } => ("defect", "!", "a defect of the peer"),
        Verdict::Unavailable { .. } => ("absent", "○", "unavailable"),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, fail};
    use super::*;

    #[test]
    fn the_page_needs_nothing_else_and_escapes_what_it_shows() {
        let page = html(&Report::new(vec![cell("quinn", fail())]));
        assert!(page.contains("lost &lt;it&gt;") && !page.contains("lost <it>"));
        assert!(page.contains("class=\"v fail\""));
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("url("));
    }
}
