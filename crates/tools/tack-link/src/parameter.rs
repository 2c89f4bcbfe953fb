//! What is said about a parameter that makes no sense.

use std::fmt::Display;
use std::ops::RangeInclusive;

use thiserror::Error;

/// A parameter of a link with a value that it can't have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} is {value}; allowed: {allowed}")]
pub struct ParameterError {
    /// Name of the parameter, with those of the tables around it: `reverse.reorder.delay`.
    pub field: String,
    /// The value that was given.
    pub value: String,
    /// What would be right.
    pub allowed: String,
}

impl ParameterError {
    pub(crate) fn new(field: &str, value: impl Display, allowed: impl Display) -> Self {
        Self { field: field.to_owned(), value: value.to_string(), allowed: allowed.to_string() }
    }

    /// The same about a parameter that is part of `table`.
    pub(crate) fn within(mut self, table: &str) -> Self {
        self.field = format!("{table}.{}", self.field);
        self
    }
}

/// The value, if it is a number in the range.
pub(crate) fn number(
    field: &str,
    value: f64,
    range: RangeInclusive<f64>,
    unit: &str,
) -> Result<f64, ParameterError> {
    if range.contains(&value) {
        return Ok(value);
    }
    let allowed = format!("{} to {} {unit}", range.start(), range.end());
    Err(ParameterError::new(field, value, allowed.trim_end()))
}

/// The value, if it is a probability.
pub(crate) fn probability(field: &str, value: f64) -> Result<f64, ParameterError> {
    number(field, value, 0.0..=1.0, "(a probability)")
}
