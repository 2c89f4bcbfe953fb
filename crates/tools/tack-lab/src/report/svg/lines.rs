//! Lines, steps and points.

use std::fmt::Write as _;

use super::super::check::short;
use super::super::{Series, Source};
use super::frame::{Frame, class};
use super::xml::{Escaped, Px};

/// Lines with more points than this are drawn without a mark for each.
const MOST_MARKS: usize = 40;

/// Straight lines from point to point.
pub(super) fn joined(svg: &mut String, frame: &Frame<'_>, series: &[Series]) {
    for (index, series) in series.iter().enumerate() {
        line(svg, frame, series, false);
        if series.points.len() <= MOST_MARKS {
            marks(svg, frame, series, index);
        }
    }
}

/// Each value until the next point.
pub(super) fn steps(svg: &mut String, frame: &Frame<'_>, series: &[Series]) {
    for series in series {
        line(svg, frame, series, true);
    }
}

/// Points alone.
pub(super) fn scatter(svg: &mut String, frame: &Frame<'_>, series: &[Series]) {
    for (index, series) in series.iter().enumerate() {
        marks(svg, frame, series, index);
    }
}

/// A line that is interrupted where a point has no place.
fn line(svg: &mut String, frame: &Frame<'_>, series: &Series, steps: bool) {
    let mut path = String::new();
    let mut drawing = false;
    for &(x, y) in &series.points {
        let (Some(x), Some(y)) = (frame.x.place(x), frame.y.place(y)) else {
            drawing = false;
            continue;
        };
        let _ = match (drawing, steps) {
            (false, _) => write!(path, "M{} {}", Px(x), Px(y)),
            (true, false) => write!(path, "L{} {}", Px(x), Px(y)),
            (true, true) => write!(path, "H{}V{}", Px(x), Px(y)),
        };
        drawing = true;
    }
    if path.is_empty() {
        return;
    }
    let _ = writeln!(
        svg,
        "<path class=\"line {}\" d=\"{path}\"><title>{}</title></path>",
        class(series.colour, series.source),
        Escaped(&series.label)
    );
}

/// A mark for each point, of another shape for each series.
fn marks(svg: &mut String, frame: &Frame<'_>, series: &Series, index: usize) {
    let class = class(series.colour, series.source);
    for &(x, y) in &series.points {
        let (Some(left), Some(top)) = (frame.x.place(x), frame.y.place(y)) else { continue };
        let _ = write!(svg, "<path class=\"point {class}\" d=\"");
        shape(
            svg,
            index,
            left,
            top,
            if series.source == Source::Reference { 3.5 } else { 4.0 },
        );
        let _ = writeln!(
            svg,
            "\"><title>{}: {} at {}</title></path>",
            Escaped(&series.label),
            short(y),
            short(x)
        );
    }
}

/// Disc, square, triangle or diamond around a place.
fn shape(svg: &mut String, index: usize, x: f64, y: f64, size: f64) {
    let _ = match index % 4 {
        0 => write!(
            svg,
            "M{} {}a{s} {s} 0 1 0 {d} 0a{s} {s} 0 1 0 -{d} 0z",
            Px(x - size),
            Px(y),
            s = Px(size),
            d = Px(2.0 * size)
        ),
        1 => write!(
            svg,
            "M{} {}h{d}v{d}h-{d}z",
            Px(x - size * 0.85),
            Px(y - size * 0.85),
            d = Px(size * 1.7)
        ),
        2 => write!(
            svg,
            "M{} {}l{} {h}h-{}z",
            Px(x),
            Px(y - size),
            Px(size * 1.1),
            Px(size * 2.2),
            h = Px(size * 1.9)
        ),
        _ => write!(
            svg,
            "M{} {}l{s} {s}l-{s} {s}l-{s} -{s}z",
            Px(x),
            Px(y - size * 1.2),
            s = Px(size * 1.2)
        ),
    };
}
