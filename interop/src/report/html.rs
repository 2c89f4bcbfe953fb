//! The matrix as a web page that needs nothing else.

use std::fmt::Write;

use super::Report;
use super::matrix::remark;
use crate::cell::CellReport;
use crate::verdict::Verdict;

const STYLE: &str = "\
:root{--fg:#1c2733;--dim:#66788a;--bg:#fff;--line:#e3e8ee;--pass:#1a7f4b;--pass-bg:#e5f5ec;\
--fail:#b42318;--fail-bg:#fde8e6;--none:#66788a;--none-bg:#f1f4f7}\
@media(prefers-color-scheme:dark){:root{--fg:#e4eaf0;--dim:#93a4b5;--bg:#14191f;--line:#2b343e;\
--pass:#6fd39c;--pass-bg:#16352a;--fail:#ff9c92;--fail-bg:#46201d;--none:#93a4b5;--none-bg:#222a32}}\
body{margin:0 auto;padding:2.5rem 1.5rem;max-width:70rem;background:var(--bg);color:var(--fg);\
font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:2.5rem 0 .5rem}\
p{color:var(--dim);margin:0 0 1.5rem;max-width:45rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}\
th,td{padding:.45rem .7rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}\
th{font-weight:600;white-space:nowrap}thead th{color:var(--dim);font-size:.85rem}\
.as{color:var(--dim);font-weight:400}\
.v{display:inline-block;border-radius:1rem;padding:.05rem .7rem;font-size:.85rem;white-space:nowrap}\
.pass{color:var(--pass);background:var(--pass-bg)}\
.fail{color:var(--fail);background:var(--fail-bg);font-weight:600}\
.none{color:var(--none);background:var(--none-bg)}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem;margin:0}\
dt{font-weight:600}dd{margin:0;color:var(--dim)}";

/// The whole page.
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>TACK interoperability</title>\n<style>{STYLE}</style>\n\
         <h1>TACK interoperability</h1>\n\
         <p>A TACK endpoint at one end, the peer at the other, an emulated link between them. \
         Verdicts come from what was received and from what was on the wire.</p>\n\
         <div class=\"wide\"><table>\n<thead><tr><th>Peer</th>"
    );
    for (test, about) in &report.tests {
        let _ = write!(out, "<th title=\"{}\">{}</th>", escaped(about), escaped(test));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in report.rows() {
        let Some(first) = row.first() else { continue };
        let (peer, role) = (escaped(first.peer), first.role);
        let _ = write!(out, "<tr><th>{peer} <span class=\"as\">as {role}</span></th>");
        for (test, _) in &report.tests {
            out.push_str("<td>");
            if let Some(cell) = row.iter().find(|cell| cell.test == *test) {
                out.push_str(&badge(&cell.verdict));
            }
            out.push_str("</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    details(&mut out, report);
    definitions(&mut out, "Peers", &report.peers);
    for warning in &report.warnings {
        let _ = writeln!(out, "<p>Warning: {}</p>", escaped(warning));
    }
    definitions(&mut out, "Test cases", &report.tests);
    out
}

fn details(out: &mut String, report: &Report) {
    let said: Vec<_> =
        report.cells.iter().filter_map(|cell| Some((cell, remark(&cell.verdict)?))).collect();
    if said.is_empty() {
        return;
    }
    out.push_str("<h2>In detail</h2>\n<div class=\"wide\"><table><tbody>\n");
    for (CellReport { peer, role, test, verdict, .. }, remark) in said {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><th>{} <span class=\"as\">as {role}</span></th><td>{}</td>\
             <td>{}</td></tr>",
            badge(verdict),
            escaped(peer),
            escaped(test),
            escaped(&remark)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn definitions(out: &mut String, title: &str, of: &[(&str, &str)]) {
    let _ = write!(out, "<h2>{title}</h2>\n<dl>\n");
    for (name, about) in of {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(about));
    }
    out.push_str("</dl>\n");
}

fn badge(verdict: &Verdict) -> String {
    let (class, word) = match verdict {
        Verdict::Pass { .. } => ("pass", "pass"),
        Verdict::Fail { .. } => ("fail", "fail"),
        Verdict::Unsupported { .. } => ("none", "unsupported"),
        Verdict::Unavailable { .. } => ("none", "unavailable"),
    };
    let title = remark(verdict)
        .map_or_else(String::new, |remark| format!(" title=\"{}\"", escaped(&remark)));
    format!("<span class=\"v {class}\"{title}>{word}</span>")
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
        assert!(!page.contains("http") && !page.contains("<script"));
    }
}
