//! Pictures as data: what is drawn, not how.

use serde::{Deserialize, Serialize};

/// A picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// To the right. For bars only the label is used.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn.
    pub chart: Chart,
    /// Moments or places on the x axis that are marked.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
}

/// How values become places on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Even, from zero.
    Linear,
    /// Even, from near the smallest value.
    Range,
    /// Logarithmic. Values of zero and below are not drawn.
    Log,
}

impl Axis {
    /// An even scale from zero.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear }
    }

    /// An even scale that begins near the smallest value.
    pub fn range(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Range }
    }

    /// A logarithmic scale.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log }
    }
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Chart {
    /// Points joined by straight lines.
    Lines {
        /// The lines.
        series: Vec<Series>,
    },
    /// Values that hold until the next point.
    Steps {
        /// The lines.
        series: Vec<Series>,
    },
    /// Points alone.
    Scatter {
        /// The clouds.
        series: Vec<Series>,
    },
    /// Bars side by side in groups.
    Bars {
        /// Names of the groups.
        groups: Vec<String>,
        /// One bar of each in every group.
        series: Vec<BarSeries>,
    },
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// For the legend.
    pub label: String,
    /// Which colour.
    pub colour: Colour,
    /// Where the points are from.
    pub source: Source,
    /// The points: x and y.
    pub points: Vec<(f64, f64)>,
}

/// One bar in every group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BarSeries {
    /// For the legend.
    pub label: String,
    /// Which colour.
    pub colour: Colour,
    /// Where the values are from.
    pub source: Source,
    /// One for each group; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// A marked place on the x axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// What is there.
    pub label: String,
}

/// Where values are from, which decides how they are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Found here.
    #[default]
    Measured,
    /// Reported by the paper, computed or given: drawn dashed and hollow.
    Reference,
}

/// Colours that people with any colour vision tell apart, on light and dark ground. The same
/// stack has the same colour in every picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "colours")]
pub enum Colour {
    Blue,
    Orange,
    Green,
    Pink,
    Sky,
    Red,
    Violet,
    Grey,
}

impl Colour {
    /// All of them, in the order in which one takes them where nothing else decides.
    pub const ALL: [Self; 8] = [
        Self::Blue,
        Self::Orange,
        Self::Green,
        Self::Pink,
        Self::Sky,
        Self::Red,
        Self::Violet,
        Self::Grey,
    ];

    /// A colour for the element at `index` of a list.
    pub fn nth(index: usize) -> Self {
        Self::ALL[index % Self::ALL.len()]
    }

    /// Place in the palette of the style sheet.
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|&colour| colour == self).unwrap_or(0)
    }
}

impl Plot {
    /// A picture without marks.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, chart: Chart) -> Self {
        Self { title: title.into(), x, y, chart, marks: Vec::new() }
    }

    /// Marks a place on the x axis.
    #[must_use]
    pub fn mark(mut self, x: f64, label: impl Into<String>) -> Self {
        self.marks.push(Mark { x, label: label.into() });
        self
    }
}

impl Series {
    /// Measured points.
    pub fn measured(label: impl Into<String>, colour: Colour, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), colour, source: Source::Measured, points }
    }

    /// Points to compare with.
    pub fn reference(
        label: impl Into<String>,
        colour: Colour,
        points: Vec<(f64, f64)>,
    ) -> Self {
        Self { source: Source::Reference, ..Self::measured(label, colour, points) }
    }
}

impl BarSeries {
    /// Measured values.
    pub fn measured(
        label: impl Into<String>,
        colour: Colour,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let values = values.into_iter().collect();
        Self { label: label.into(), colour, source: Source::Measured, values }
    }

    /// Values to compare with.
    pub fn reference(
        label: impl Into<String>,
        colour: Colour,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        Self { source: Source::Reference, ..Self::measured(label, colour, values) }
    }
}
