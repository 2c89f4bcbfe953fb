//! Plots as SVG: axes, lines, points and bars, with a title on every mark that a browser shows
//! as a tooltip. Colours come from a style sheet that follows the reader's light or dark mode.

mod bars;
mod frame;
mod lines;
mod scale;
mod xml;

use std::fmt::Write as _;

use super::{Chart, Plot};
use frame::Frame;
pub(super) use xml::Escaped;

/// Colours and lines of plots, for both modes.
pub(super) const STYLE: &str = include_str!("plot.css");

/// Where the drawing will stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedding {
    /// In a page that has a caption for it and the style sheet.
    Page,
    /// On its own.
    File,
}

/// Draws a plot.
pub fn render(plot: &Plot, embedding: Embedding) -> String {
    let frame = Frame::new(plot, embedding);
    let mut svg = String::new();
    frame.open(&mut svg);
    if embedding == Embedding::File {
        let _ = writeln!(svg, "<style>\n{}</style>", Escaped(STYLE));
    }
    frame.draw(&mut svg);
    match &plot.chart {
        Chart::Lines { series } => lines::joined(&mut svg, &frame, series),
        Chart::Steps { series } => lines::steps(&mut svg, &frame, series),
        Chart::Scatter { series } => lines::scatter(&mut svg, &frame, series),
        Chart::Bars { groups, series } => bars::draw(&mut svg, &frame, groups, series),
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, BarSeries, Colour, Series};
    use super::*;

    fn bars(values: [Option<f64>; 2]) -> Plot {
        Plot::new(
            "Goodput <n> & \"ac\"",
            Axis::linear("profile"),
            Axis::linear("Mbit/s"),
            Chart::Bars {
                groups: vec!["n".to_owned(), "ac".to_owned()],
                series: vec![BarSeries::measured("TACK", Colour::Blue, values)],
            },
        )
    }

    fn lines(chart: fn(Vec<Series>) -> Chart) -> Plot {
        let series = vec![
            Series::measured("TACK", Colour::Blue, vec![(0.0, 1.0), (1.0, 4.5)]),
            Series::reference("paper", Colour::Grey, vec![(0.0, 2.0), (1.0, f64::NAN)]),
        ];
        Plot::new("t", Axis::linear("x"), Axis::linear("y"), chart(series)).mark(0.5, "<half>")
    }

    /// Elements are closed in the order in which they were opened, attributes are quoted, and
    /// no bare `<` or `&` is left in text.
    fn assert_well_formed(xml: &str) {
        let mut open = Vec::new();
        let mut rest = xml;
        while let Some(at) = rest.find('<') {
            assert_entities(&rest[..at]);
            let end = at + rest[at..].find('>').expect("tag has an end");
            let tag = &rest[at + 1..end];
            assert!(!tag.contains('<'), "bare < in {tag}");
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes in {tag}");
            assert_entities(tag);
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "closed out of order");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().expect("tag has a name"));
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "left open: {open:?}");
    }

    fn assert_entities(text: &str) {
        for tail in text.split('&').skip(1) {
            let name = tail.split(';').next().unwrap_or_default();
            assert!(["amp", "lt", "gt", "quot"].contains(&name), "bare & in {text}");
        }
    }

    #[test]
    fn every_kind_of_plot_is_well_formed_xml() {
        let plots = [
            bars([Some(190.0), None]),
            lines(|series| Chart::Lines { series }),
            lines(|series| Chart::Steps { series }),
            lines(|series| Chart::Scatter { series }),
        ];
        for plot in plots {
            for embedding in [Embedding::File, Embedding::Page] {
                let svg = render(&plot, embedding);
                assert_well_formed(&svg);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn a_plot_without_values_is_still_drawn() {
        assert_well_formed(&render(&bars([None, None]), Embedding::File));
    }

    #[test]
    fn a_bar_is_as_high_as_its_value() {
        let svg = render(&bars([Some(50.0), Some(100.0)]), Embedding::Page);
        let heights: Vec<f64> = svg
            .lines()
            .filter(|line| line.starts_with("<rect class=\"bar") && line.contains("<title>"))
            .map(|line| {
                let from = line.find(" height=\"").expect("height") + 9;
                line[from..].split('"').next().unwrap().parse().unwrap()
            })
            .collect();
        assert_eq!(heights.len(), 2);
        assert!((heights[1] - 2.0 * heights[0]).abs() < 0.2, "{heights:?}");
    }

    #[test]
    fn marks_carry_their_values_as_tooltips() {
        let svg = render(&bars([Some(190.25), None]), Embedding::Page);
        assert!(svg.contains("<title>n, TACK: 190</title>"), "{svg}");
    }

    #[test]
    fn the_last_label_of_an_axis_is_inside_the_drawing() {
        let series =
            vec![Series::measured("TACK", Colour::Blue, vec![(0.2, 1.0), (30.0, 2.0)])];
        let plot = Plot::new("t", Axis::log("x"), Axis::linear("y"), Chart::Lines { series });
        let svg = render(&plot, Embedding::File);
        let label = svg.lines().find(|line| line.ends_with(">100.0</text>")).expect("label");
        let from = label.find(" x=\"").expect("place") + 4;
        let middle: f64 = label[from..].split('"').next().unwrap().parse().unwrap();
        assert!(middle + xml::text_width("100.0", 13.0) / 2.0 <= 640.1, "{label}");
    }

    #[test]
    fn the_same_plot_gives_the_same_bytes() {
        let plot = bars([Some(1.0), Some(2.0)]);
        assert_eq!(render(&plot, Embedding::File), render(&plot.clone(), Embedding::File));
    }
}
