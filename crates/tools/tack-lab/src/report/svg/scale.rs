//! From values to places, and the ticks between.

use super::super::Scale;

/// One axis of a drawing: its values, and the pixels that they cover.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    logarithmic: bool,
    low: f64,
    high: f64,
    /// Pixels of `low` and `high`.
    pixels: (f64, f64),
    ticks: Vec<Tick>,
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub value: f64,
    pub label: String,
}

impl Mapping {
    /// An axis that holds all `values`, with about `wanted` ticks.
    pub fn new(scale: Scale, values: impl Iterator<Item = f64>, wanted: usize) -> Self {
        let logarithmic = scale == Scale::Log;
        let (mut low, mut high) = values
            .filter(|value| value.is_finite() && (!logarithmic || *value > 0.0))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = if logarithmic { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if scale == Scale::Linear {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        let values = if logarithmic { log_ticks(low, high) } else { ticks(low, high, wanted) };
        let (low, high) = match (values.first(), values.last()) {
            (Some(&first), Some(&last)) => (first, last),
            _ => (low, high),
        };
        let ticks = values.iter().map(|&value| Tick { value, label: label(value, &values) });
        Self { logarithmic, low, high, pixels: (0.0, 1.0), ticks: ticks.collect() }
    }

    /// The same axis over these pixels.
    pub fn over(mut self, from: f64, to: f64) -> Self {
        self.pixels = (from, to);
        self
    }

    /// The ticks from low to high.
    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    /// The pixels of the ends.
    pub fn pixels(&self) -> (f64, f64) {
        self.pixels
    }

    /// Where a value is drawn; `None` for what has no place on the axis.
    pub fn place(&self, value: f64) -> Option<f64> {
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let (from, to) = self.pixels;
        share.is_finite().then(|| from + share.clamp(0.0, 1.0) * (to - from))
    }

    /// Where bars start.
    pub fn base(&self) -> f64 {
        let value =
            if self.logarithmic { self.low } else { 0.0_f64.clamp(self.low, self.high) };
        self.place(value).unwrap_or(self.pixels.0)
    }
}

/// Multiples of 1, 2, 2.5 or 5 times a power of ten that enclose the range.
fn ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let span = if high > low { high - low } else { high.abs().max(1.0) };
    let rough = span / wanted.max(1) as f64;
    let power = 10.0_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * power);
    // Half a thousandth of a step: 0.3 / 0.1 is not 3.
    let first = (low / step + 0.0005).floor();
    let last = (high / step - 0.0005).ceil().max(first + 1.0);
    let count = (last - first) as usize;
    (0..=count).map(|at| (first + at as f64) * step).collect()
}

/// Powers of ten that enclose the range; over less than three of them with 2 and 5 between.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let fine = last - first < 3;
    let factors: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all: Vec<f64> = (first..=last.max(first + 1))
        .flat_map(|power| factors.iter().map(move |factor| factor * 10.0_f64.powi(power)))
        .collect();
    let from = all.iter().rposition(|tick| *tick <= low * 1.0001).unwrap_or(0);
    let to = all.iter().position(|tick| *tick >= high * 0.9999).unwrap_or(all.len() - 1);
    all[from..=to.max(from + 1).min(all.len() - 1)].to_vec()
}

/// As many decimals as tell the ticks apart.
fn label(value: f64, ticks: &[f64]) -> String {
    let decimals = (0..6)
        .find(|decimals| {
            let unit = 10.0_f64.powi(*decimals);
            ticks.iter().all(|tick| {
                let scaled = tick * unit;
                (scaled - scaled.round()).abs() < 1e-6 * scaled.abs().max(1.0)
            })
        })
        .unwrap_or(6) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let mapping = Mapping::new(scale, values.iter().copied(), 5);
        mapping.ticks().iter().map(|tick| tick.label.clone()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(
            labels(Scale::Linear, &[3.0, 211.6]),
            ["0", "50", "100", "150", "200", "250"]
        );
        assert_eq!(
            labels(Scale::Range, &[0.91, 1.02]),
            ["0.900", "0.925", "0.950", "0.975", "1.000", "1.025"]
        );
    }

    #[test]
    fn the_last_tick_is_not_one_too_far() {
        assert_eq!(labels(Scale::Linear, &[0.3]).last().unwrap(), "0.3");
        assert_eq!(labels(Scale::Linear, &[100.0]).last().unwrap(), "100");
    }

    #[test]
    fn a_logarithmic_axis_has_powers_of_ten() {
        assert_eq!(
            labels(Scale::Log, &[3.0, 24_777.0]),
            ["1", "10", "100", "1000", "10000", "100000"]
        );
        assert_eq!(labels(Scale::Log, &[12.0, 90.0]), ["10", "20", "50", "100"]);
        assert_eq!(labels(Scale::Log, &[20.0, 400.0]), ["20", "50", "100", "200", "500"]);
    }

    #[test]
    fn one_value_makes_an_axis() {
        assert!(labels(Scale::Range, &[7.0]).len() > 1);
        assert!(labels(Scale::Log, &[10.0]).len() > 1);
        assert!(labels(Scale::Linear, &[]).len() > 1);
    }

    #[test]
    fn values_without_a_place_are_not_drawn() {
        let mapping = Mapping::new(Scale::Log, [1.0, 100.0].into_iter(), 5).over(0.0, 200.0);
        assert_eq!(mapping.place(0.0), None);
        assert_eq!(mapping.place(-1.0), None);
        assert!((mapping.place(10.0).unwrap() - 100.0).abs() < 1e-9);
    }
}
