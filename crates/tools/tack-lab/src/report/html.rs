//! The page: all results in one file that needs nothing else, and has no date in it, so that the
//! same results give the same bytes.

use std::fmt::{Display, Write as _};

use serde_json::{Map, Value};

use super::svg::{self, Embedding, Escaped};
use super::{Check, Kind, Outcome, Plot, Table};
use crate::versions::Versions;

const STYLE: &str = include_str!("page.css");

/// A page with these results, in their order.
pub fn page(outcomes: &[Outcome]) -> String {
    let mut html = String::new();
    head(&mut html);
    summary(&mut html, outcomes);
    contents(&mut html, outcomes);
    for outcome in outcomes {
        section(&mut html, outcome);
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn head(html: &mut String) {
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>What acknowledgements cost</title>\n<style>\n{STYLE}{}</style>\n</head>\n\
         <body>\n",
        svg::STYLE
    );
}

fn summary(html: &mut String, outcomes: &[Outcome]) {
    html.push_str(
        "<header>\n<h1>What acknowledgements cost</h1>\n\
         <p class=\"lead\">TACK inside Cloudflare quiche, held against the stacks it competes \
         with and against the results of the paper (<cite>Revisiting Acknowledgment Mechanism \
         for Transport Control</cite>, IEEE/ACM Transactions on Networking, 2021). Real QUIC \
         stacks, emulated links, virtual time: the same seed gives the same numbers on any \
         machine.</p>\n",
    );
    let mut versions: Vec<&Versions> = Vec::new();
    for outcome in outcomes {
        if !versions.contains(&&outcome.versions) {
            versions.push(&outcome.versions);
        }
    }
    for versions in versions {
        let _ = writeln!(
            html,
            "<p class=\"versions\">tack-lab and tacklib <b>{}</b>, quiche <b>{}</b>, \
             quinn-proto <b>{}</b></p>",
            Escaped(&versions.tacklib),
            Escaped(&versions.quiche),
            Escaped(&versions.quinn_proto)
        );
    }
    let (passed, all) = tally(outcomes.iter().flat_map(|o| &o.checks), Kind::Model);
    let (agree, compared) = tally(outcomes.iter().flat_map(|o| &o.checks), Kind::Paper);
    let (met, targets) = tally(outcomes.iter().flat_map(|o| &o.checks), Kind::Target);
    let _ = writeln!(
        html,
        "<div class=\"tiles\">\n{}{}{}{}</div>\n</header>\n<main>",
        tile(outcomes.len(), "experiments", true),
        tile(format!("{passed} of {all}"), "checks of the emulation passed", passed == all),
        tile(format!("{agree} of {compared}"), "comparisons agree with the paper", true),
        tile(format!("{met} of {targets}"), "targets met", true)
    );
}

fn tile(number: impl Display, words: &str, good: bool) -> String {
    let class = if good { "tile" } else { "tile bad" };
    format!("<div class=\"{class}\"><b>{number}</b><span>{words}</span></div>\n")
}

fn tally<'a>(checks: impl Iterator<Item = &'a Check>, kind: Kind) -> (usize, usize) {
    checks
        .filter(|check| check.kind == kind)
        .fold((0, 0), |(passed, all), check| (passed + usize::from(check.passed), all + 1))
}

fn contents(html: &mut String, outcomes: &[Outcome]) {
    html.push_str("<nav aria-label=\"Experiments\">\n<ol>\n");
    for outcome in outcomes {
        let (passed, all) = tally(outcome.checks.iter(), Kind::Model);
        let (agree, compared) = tally(outcome.checks.iter(), Kind::Paper);
        let (met, targets) = tally(outcome.checks.iter(), Kind::Target);
        let mut marks = String::new();
        if all > 0 {
            let class = if passed == all { "pass" } else { "fail" };
            let _ = write!(marks, " <span class=\"{class}\">{passed}/{all}</span>");
        }
        if compared > 0 {
            let _ = write!(marks, " <span class=\"paper\">{agree}/{compared}</span>");
        }
        if targets > 0 {
            let class = if met == targets { "pass" } else { "differs" };
            let _ = write!(marks, " <span class=\"{class}\">{met}/{targets} targets</span>");
        }
        let _ = writeln!(
            html,
            "<li><a href=\"#{name}\"><code>{name}</code> {}</a>{marks}</li>",
            Escaped(&outcome.title),
            name = Escaped(&outcome.name)
        );
    }
    html.push_str(
        "</ol>\n<p class=\"key\"><span class=\"pass\">n/n</span> checks of the emulation passed, \
         <span class=\"paper\">n/n</span> comparisons that agree with the paper; \
         targets are those of this project. Dashed and \
         hollow marks in plots are values of the paper, or computed ones. Values are medians \
         over the seeds.</p>\n</nav>\n",
    );
}

fn section(html: &mut String, outcome: &Outcome) {
    let form = if outcome.quick { " <span class=\"form\">quick form</span>" } else { "" };
    let _ = writeln!(
        html,
        "<section id=\"{name}\">\n<h2><a href=\"#{name}\">{}</a> <code>{name}</code>{form}</h2>\n\
         <p class=\"question\">{}</p>\n<p class=\"source\"><b>Source:</b> {}</p>",
        Escaped(&outcome.title),
        Escaped(&outcome.question),
        Escaped(&outcome.paper),
        name = Escaped(&outcome.name)
    );
    if !outcome.plots.is_empty() {
        html.push_str("<div class=\"figures\">\n");
        outcome.plots.iter().for_each(|plot| figure(html, plot));
        html.push_str("</div>\n");
    }
    checks(html, &outcome.checks, Kind::Model);
    checks(html, &outcome.checks, Kind::Paper);
    checks(html, &outcome.checks, Kind::Target);
    outcome.tables.iter().for_each(|table| write_table(html, table));
    if !outcome.notes.is_empty() {
        html.push_str("<ul class=\"notes\">\n");
        for note in &outcome.notes {
            let _ = writeln!(html, "<li>{}</li>", Escaped(note));
        }
        html.push_str("</ul>\n");
    }
    parameters(html, outcome);
    html.push_str("</section>\n");
}

fn figure(html: &mut String, plot: &Plot) {
    let _ = writeln!(
        html,
        "<figure>\n<figcaption>{}</figcaption>\n<div class=\"wide\">{}</div>\n</figure>",
        Escaped(&plot.title),
        svg::render(plot, Embedding::Page)
    );
}

/// The checks of one kind: what was expected on the right of what was seen.
fn checks(html: &mut String, checks: &[Check], kind: Kind) {
    let mut checks = checks.iter().filter(|check| check.kind == kind).peekable();
    if checks.peek().is_none() {
        return;
    }
    let (class, heading) = match kind {
        Kind::Model => ("model", "expected"),
        Kind::Paper => ("paper", "paper says"),
        Kind::Target => ("target", "target"),
    };
    let _ = writeln!(
        html,
        "<div class=\"wide\"><table class=\"checks {class}\">\n<thead><tr><th></th><th></th>\
         <th>we see</th><th>{heading}</th></tr></thead>\n<tbody>"
    );
    for check in checks {
        let (mark, class) = match (kind, check.passed) {
            (Kind::Model | Kind::Target, true) => ("✓", "pass"),
            (Kind::Model, false) => ("✗", "fail"),
            (Kind::Paper, true) => ("=", "paper"),
            (Kind::Paper, false) if check.better => ("+", "paper"),
            (Kind::Paper, false) => ("≠", "differs"),
            (Kind::Target, false) => ("✗", "differs"),
        };
        let _ = writeln!(
            html,
            "<tr><td><span class=\"{class}\" title=\"{}\">{mark}</span></td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            check.verdict(),
            Escaped(&check.what),
            Escaped(&check.seen),
            Escaped(&check.expected)
        );
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn write_table(html: &mut String, table: &Table) {
    let _ = write!(
        html,
        "<div class=\"wide\"><table>\n<caption>{}</caption>\n<thead><tr>",
        Escaped(&table.title)
    );
    let classes: Vec<_> = table
        .columns
        .iter()
        .map(|column| if table.is_numeric(column) { " class=\"n\"" } else { "" })
        .collect();
    for (column, class) in table.columns.iter().zip(&classes) {
        let _ = write!(html, "<th{class}>{}", Escaped(&column.label));
        if !column.unit.is_empty() {
            let _ = write!(html, " <small>{}</small>", Escaped(&column.unit));
        }
        html.push_str("</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in table.cells() {
        html.push_str("<tr>");
        for (cell, class) in row.iter().zip(&classes) {
            let _ = write!(html, "<td{class}>{}</td>", Escaped(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn parameters(html: &mut String, outcome: &Outcome) {
    let seeds: Vec<_> = outcome.seeds.iter().map(u64::to_string).collect();
    let _ = writeln!(
        html,
        "<details>\n<summary>Parameters and how to repeat it</summary>\n\
         <pre><code>{}</code></pre>\n<dl>",
        Escaped(&outcome.command)
    );
    flatten("", &outcome.parameters, &mut |name, value| {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", Escaped(name), Escaped(value));
    });
    let _ = writeln!(html, "<dt>seeds</dt><dd>{}</dd>\n</dl>\n</details>", seeds.join(", "));
}

/// Names with dots for what is nested, lists of plain values on one line.
fn flatten(prefix: &str, map: &Map<String, Value>, show: &mut impl FnMut(&str, &str)) {
    for (key, value) in map {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Object(inner) => flatten(&name, inner, show),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(plain).collect();
                show(&name, &items.join(", "));
            }
            value => show(&name, &plain(value)),
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Chart, Colour, Series};
    use super::*;

    fn outcome(name: &str) -> Outcome {
        let mut table = Table::new("Goodput").text("stack", "stack").number(
            "goodput_mbps",
            "goodput",
            "Mbit/s",
            1,
        );
        table.row(["TACK <ours>".into(), 190.25.into()]);
        let series = vec![Series::measured("TACK", Colour::Blue, vec![(0.0, 1.0), (1.0, 2.0)])];
        let plot =
            Plot::new("p", Axis::linear("x"), Axis::linear("y"), Chart::Lines { series });
        Outcome {
            name: name.to_owned(),
            title: "Title".to_owned(),
            question: "Does <this> hold?".to_owned(),
            paper: "Figure 0".to_owned(),
            quick: true,
            command: format!("tack-lab run {name} --quick"),
            parameters: Map::from_iter([("rtt_ms".to_owned(), 80.into())]),
            versions: Versions::of_this_build(),
            seeds: vec![1, 2],
            tables: vec![table],
            plots: vec![plot],
            checks: vec![
                Check::model("baseline", 7.0, "Mbit/s", 6.8..=7.2),
                Check::paper("gain", "14 %", "28 %", false),
                Check::at_least("share", 98.0, "%", 95.0),
                Check::at_most("queue", 30.0, "ms", 20.0),
            ],
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn every_experiment_has_a_section_and_a_link_to_it() {
        let html = page(&[outcome("fig3"), outcome("fig6")]);
        for name in ["fig3", "fig6"] {
            assert!(html.contains(&format!("<section id=\"{name}\">")));
            assert!(html.contains(&format!("href=\"#{name}\"")));
        }
    }

    #[test]
    fn what_comes_from_results_is_escaped() {
        let html = page(&[outcome("fig3")]);
        assert!(html.contains("TACK &lt;ours&gt;") && html.contains("Does &lt;this&gt; hold?"));
        assert!(!html.contains("<ours>"));
    }

    #[test]
    fn the_page_loads_nothing() {
        let html = page(&[outcome("fig3")]);
        let html = html.replace("http://www.w3.org/2000/svg", "");
        for trace in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!html.contains(trace), "{trace}");
        }
    }

    #[test]
    fn the_same_results_give_the_same_bytes() {
        assert_eq!(page(&[outcome("fig3")]), page(&[outcome("fig3")]));
    }

    #[test]
    fn a_failed_model_check_is_marked() {
        let mut bad = outcome("calibration");
        bad.checks = vec![Check::model("baseline", 9.0, "Mbit/s", 6.8..=7.2)];
        let html = page(&[bad]);
        assert!(html.contains("<span class=\"fail\" title=\"FAIL\">✗</span>"));
        assert!(html.contains("0 of 1"));
    }

    #[test]
    fn model_and_paper_checks_and_targets_are_counted_apart() {
        let html = page(&[outcome("fig3")]);
        assert!(html.contains("<b>1 of 1</b><span>checks of the emulation passed"));
        assert!(html.contains("<b>0 of 1</b><span>comparisons agree"));
        assert!(html.contains("<b>1 of 2</b><span>targets met"));
    }
}
