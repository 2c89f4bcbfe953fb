//! Bars in groups.

use std::fmt::Write as _;

use super::super::BarSeries;
use super::super::check::short;
use super::frame::{Frame, class, text};
use super::xml::{Escaped, Px, text_width};

/// Part of a group's width that stays empty.
const GAP: f64 = 0.2;
const WIDEST: f64 = 64.0;

pub(super) fn draw(
    svg: &mut String,
    frame: &Frame<'_>,
    groups: &[String],
    series: &[BarSeries],
) {
    let (left, right) = frame.x.pixels();
    let slot = (right - left) / groups.len().max(1) as f64;
    let width = (slot * (1.0 - GAP) / series.len().max(1) as f64).min(WIDEST);
    let base = frame.y.base();
    for (at, group) in groups.iter().enumerate() {
        let middle = left + (at as f64 + 0.5) * slot;
        frame.group_label(svg, middle, slot, group);
        let start = middle - width * series.len() as f64 / 2.0;
        for (place, series) in series.iter().enumerate() {
            let Some(value) = series.values.get(at).copied().flatten() else { continue };
            let Some(end) = frame.y.place(value) else { continue };
            let x = start + place as f64 * width;
            let _ = writeln!(
                svg,
                "<rect class=\"bar {}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">\
                 <title>{}, {}: {}</title></rect>",
                class(series.colour, series.source),
                Px(x + 0.5),
                Px(end.min(base)),
                Px((width - 1.0).max(1.0)),
                Px((base - end).abs()),
                Escaped(group),
                Escaped(&series.label),
                short(value)
            );
            let label = short(value);
            if text_width(&label, 11.0) < width {
                let y = if end > base { end + 12.0 } else { end - 4.0 };
                text(svg, "value middle", x + width / 2.0, y, &label);
            }
        }
    }
}
