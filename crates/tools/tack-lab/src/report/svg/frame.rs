//! What stands around the marks: axes, grid, legend.

use std::fmt::Write as _;

use super::super::{Chart, Colour, Mark, Plot, Source};
use super::Embedding;
use super::scale::Mapping;
use super::xml::{Escaped, Px, text_width};

const WIDTH: f64 = 640.0;
const PLOT_HEIGHT: f64 = 270.0;
const FONT: f64 = 13.0;
const LINE: f64 = 18.0;
const MARGIN_RIGHT: f64 = 14.0;

/// The axes of a drawing and all the words in it.
pub(super) struct Frame<'a> {
    plot: &'a Plot,
    /// Left to right.
    pub x: Mapping,
    /// Bottom to top.
    pub y: Mapping,
    height: f64,
    title: bool,
    legend: Vec<Entry<'a>>,
}

/// One series in the legend.
struct Entry<'a> {
    label: &'a str,
    colour: Colour,
    source: Source,
    x: f64,
    y: f64,
}

impl<'a> Frame<'a> {
    pub fn new(plot: &'a Plot, embedding: Embedding) -> Self {
        let title = embedding == Embedding::File;
        let top = if title { LINE + 8.0 } else { 0.0 };
        let (legend, rows) = legend(plot, top + LINE);
        // The y label has a line of its own above the plot: horizontal text is read more easily.
        let plot_top = top + rows as f64 * LINE + 2.0 * LINE;
        let plot_bottom = plot_top + PLOT_HEIGHT;
        let (xs, ys) = values(plot);
        let y = Mapping::new(plot.y.scale, ys.into_iter(), 5).over(plot_bottom, plot_top);
        let widest =
            y.ticks().iter().map(|tick| text_width(&tick.label, FONT)).fold(0.0, f64::max);
        let x = Mapping::new(plot.x.scale, xs.into_iter(), 8)
            .over(widest + 14.0, WIDTH - MARGIN_RIGHT);
        let names = group_names(plot, x.pixels());
        let below = names + if plot.x.label.is_empty() { 0.0 } else { 1.0 } + 0.4;
        Self { plot, x, y, height: plot_bottom + below * LINE, title, legend }
    }

    /// The start tag, and the title for those who can't see the drawing.
    pub fn open(&self, svg: &mut String) {
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" \
             viewBox=\"0 0 {} {}\" font-size=\"{FONT}\">",
            Px(WIDTH),
            Px(self.height)
        );
        let _ = writeln!(svg, "<title>{}</title>", Escaped(&self.plot.title));
    }

    pub fn draw(&self, svg: &mut String) {
        if self.title {
            text(svg, "head", 0.0, LINE, &self.plot.title);
        }
        self.draw_legend(svg);
        self.draw_y(svg);
        match &self.plot.chart {
            Chart::Bars { .. } => {}
            _ => self.draw_x_ticks(svg),
        }
        let (left, right) = self.x.pixels();
        let (bottom, top) = self.y.pixels();
        let base = self.y.base();
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{}\" y1=\"{base}\" x2=\"{}\" y2=\"{base}\"/>",
            Px(left),
            Px(right),
            base = Px(base)
        );
        if !self.plot.x.label.is_empty() {
            text(svg, "label end", right, self.height - 6.0, &self.plot.x.label);
        }
        for mark in &self.plot.marks {
            self.draw_mark(svg, mark, bottom, top);
        }
    }

    /// The names of groups of bars under their middles, in two lines where they are long.
    pub fn group_label(&self, svg: &mut String, middle: f64, width: f64, name: &str) {
        let (bottom, _) = self.y.pixels();
        let (first, second) =
            if text_width(name, FONT) > width { halves(name) } else { (name, "") };
        text(svg, "tick middle", middle, bottom + LINE, first);
        if !second.is_empty() {
            text(svg, "tick middle", middle, bottom + 2.0 * LINE, second);
        }
    }

    fn draw_legend(&self, svg: &mut String) {
        for entry in &self.legend {
            let class = class(entry.colour, entry.source);
            let _ = writeln!(
                svg,
                "<rect class=\"bar {class}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"11\"/>",
                Px(entry.x),
                Px(entry.y - 10.0)
            );
            text(svg, "legend", entry.x + 18.0, entry.y, entry.label);
        }
    }

    fn draw_y(&self, svg: &mut String) {
        let (left, right) = self.x.pixels();
        let (_, top) = self.y.pixels();
        text(svg, "label", 0.0, top - LINE + 4.0, &self.plot.y.label);
        for tick in self.y.ticks() {
            let Some(y) = self.y.place(tick.value) else { continue };
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\"/>",
                Px(left),
                Px(right),
                y = Px(y)
            );
            text(svg, "tick end", left - 6.0, y + 4.5, &tick.label);
        }
    }

    fn draw_x_ticks(&self, svg: &mut String) {
        let (bottom, _) = self.y.pixels();
        for tick in self.x.ticks() {
            let Some(x) = self.x.place(tick.value) else { continue };
            let _ = writeln!(
                svg,
                "<line class=\"axis\" x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\"/>",
                Px(bottom),
                Px(bottom + 4.0),
                x = Px(x)
            );
            // A label at an end of the axis stays inside the drawing.
            let half = text_width(&tick.label, FONT) / 2.0;
            let middle = x.clamp(half, WIDTH - half);
            text(svg, "tick middle", middle, bottom + LINE, &tick.label);
        }
    }

    fn draw_mark(&self, svg: &mut String, mark: &Mark, bottom: f64, top: f64) {
        let Some(x) = self.x.place(mark.x) else { return };
        let _ = writeln!(
            svg,
            "<line class=\"mark\" x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\"/>",
            Px(bottom),
            Px(top - 4.0),
            x = Px(x)
        );
        text(svg, "tick middle", x, top - 8.0, &mark.label);
    }
}

/// Words at a place; the class says which side of the place they stand on.
pub(super) fn text(svg: &mut String, class: &str, x: f64, y: f64, words: &str) {
    let (x, y, words) = (Px(x), Px(y), Escaped(words));
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{words}</text>");
}

/// Classes of the style sheet for a series.
pub(super) fn class(colour: Colour, source: Source) -> String {
    let reference = if source == Source::Reference { " ref" } else { "" };
    format!("c{}{reference}", colour.index())
}

/// All values on the two axes.
fn values(plot: &Plot) -> (Vec<f64>, Vec<f64>) {
    match &plot.chart {
        Chart::Lines { series } | Chart::Steps { series } | Chart::Scatter { series } => {
            series.iter().flat_map(|series| series.points.iter().copied()).unzip()
        }
        Chart::Bars { groups, series } => {
            let values = series.iter().flat_map(|series| series.values.iter().flatten());
            (vec![0.0, groups.len() as f64], values.copied().collect())
        }
    }
}

/// Places for the legend's entries, and how many lines they take.
fn legend(plot: &Plot, first_line: f64) -> (Vec<Entry<'_>>, usize) {
    let named: Vec<_> = match &plot.chart {
        Chart::Lines { series } | Chart::Steps { series } | Chart::Scatter { series } => {
            series.iter().map(|s| (s.label.as_str(), s.colour, s.source)).collect()
        }
        Chart::Bars { series, .. } => {
            series.iter().map(|s| (s.label.as_str(), s.colour, s.source)).collect()
        }
    };
    let (mut x, mut y, mut rows) = (0.0, first_line - 4.0, 1);
    let mut entries = Vec::with_capacity(named.len());
    for (label, colour, source) in named {
        let width = 18.0 + text_width(label, FONT) + 16.0;
        if x > 0.0 && x + width > WIDTH {
            (x, y, rows) = (0.0, y + LINE, rows + 1);
        }
        entries.push(Entry { label, colour, source, x, y });
        x += width;
    }
    (entries, rows)
}

/// How many lines the names below the axis take.
fn group_names(plot: &Plot, (left, right): (f64, f64)) -> f64 {
    let Chart::Bars { groups, .. } = &plot.chart else { return 1.0 };
    let width = (right - left) / groups.len().max(1) as f64;
    if groups.iter().any(|name| text_width(name, FONT) > width) { 2.0 } else { 1.0 }
}

/// A text in two parts of like length, parted at a space.
fn halves(text: &str) -> (&str, &str) {
    let middle = text.len() / 2;
    text.match_indices(' ')
        .min_by_key(|(at, _)| at.abs_diff(middle))
        .map_or((text, ""), |(at, _)| (&text[..at], &text[at + 1..]))
}
