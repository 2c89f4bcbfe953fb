//! Tables: aligned for a terminal, rows with named fields for programs.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Rows of named values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What the rows are about.
    pub title: String,
    /// The columns from left to right.
    pub columns: Vec<Column>,
    /// One object for each row, with the columns' keys.
    pub rows: Vec<Map<String, Value>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Name of the field in JSON, unit included.
    pub key: String,
    /// Heading.
    pub label: String,
    /// Unit, shown in the heading. Empty for none.
    pub unit: String,
    /// Digits shown behind the point.
    pub decimals: usize,
}

impl Table {
    /// A table without columns.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), columns: Vec::new(), rows: Vec::new() }
    }

    /// Adds a column of text.
    #[must_use]
    pub fn text(self, key: &str, label: &str) -> Self {
        self.number(key, label, "", 0)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn number(mut self, key: &str, label: &str, unit: &str, decimals: usize) -> Self {
        self.columns.push(Column {
            key: key.to_owned(),
            label: label.to_owned(),
            unit: unit.to_owned(),
            decimals,
        });
        self
    }

    /// Adds a row: one value for each column, in their order.
    ///
    /// # Panics
    ///
    /// When the number of values is not that of the columns, which is a slip in the program.
    pub fn row(&mut self, values: impl IntoIterator<Item = Value>) {
        let values: Vec<_> = values.into_iter().collect();
        assert_eq!(values.len(), self.columns.len(), "row of table \"{}\"", self.title);
        let keys = self.columns.iter().map(|column| column.key.clone());
        self.rows.push(keys.zip(values).collect());
    }

    /// What is shown, row by row.
    pub fn cells(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        self.rows.iter().map(|row| {
            self.columns
                .iter()
                .map(|column| column.show(row.get(&column.key).unwrap_or(&Value::Null)))
                .collect()
        })
    }

    /// Whether a column holds numbers, which are aligned to the right.
    pub fn is_numeric(&self, column: &Column) -> bool {
        self.rows.iter().any(|row| row.get(&column.key).is_some_and(Value::is_number))
    }
}

impl Column {
    /// Heading with unit.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} [{}]", self.label, self.unit)
        }
    }

    fn show(&self, value: &Value) -> String {
        match value {
            Value::Null => "–".to_owned(),
            Value::String(text) => text.clone(),
            Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
            Value::Number(number) => match number.as_f64() {
                Some(number) => grouped(&format!("{number:.*}", self.decimals)),
                None => number.to_string(),
            },
            other => other.to_string(),
        }
    }
}

/// A decimal number with a comma between thousands, from five digits on.
fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    if digits.len() < 5 {
        return number.to_owned();
    }
    let mut shown = sign.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown + fraction
}

/// Columns two spaces apart, numbers to the right, text to the left.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings: Vec<_> = self.columns.iter().map(Column::heading).collect();
        let rows: Vec<_> = self.cells().collect();
        let widths: Vec<_> = (0..headings.len())
            .map(|at| {
                let cells = rows.iter().map(|row| &row[at]);
                cells.chain([&headings[at]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let line = |cells: &[String]| {
            let padded: Vec<_> = cells
                .iter()
                .zip(&widths)
                .zip(&self.columns)
                .map(|((cell, &width), column)| {
                    if self.is_numeric(column) {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
            padded.join("  ").trim_end().to_owned()
        };
        writeln!(f, "{}", self.title)?;
        write!(f, "{}", line(&headings))?;
        for row in &rows {
            write!(f, "\n{}", line(row))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("Goodput")
            .text("stack", "stack")
            .number("goodput_mbps", "goodput", "Mbit/s", 1)
            .number("acks", "ACKs", "", 0);
        table.row(["plain, CUBIC".into(), 159.504.into(), 882_545.into()]);
        table.row(["TACK".into(), 7.25.into(), Value::Null]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            table().to_string(),
            "Goodput\n\
             stack         goodput [Mbit/s]     ACKs\n\
             plain, CUBIC             159.5  882,545\n\
             TACK                       7.2        –"
        );
    }

    #[test]
    fn rows_are_objects_with_named_fields() {
        let json = serde_json::to_value(table()).unwrap();
        assert_eq!(json["rows"][0]["goodput_mbps"], 159.504);
        assert_eq!(json["rows"][1]["acks"], Value::Null);
    }

    #[test]
    fn what_is_not_a_number_is_null() {
        let mut table = Table::new("t").number("x_ms", "x", "ms", 0);
        table.row([f64::NAN.into()]);
        assert_eq!(table.rows[0]["x_ms"], Value::Null);
    }

    #[test]
    fn thousands_are_grouped_from_five_digits_on() {
        let shown: Vec<_> =
            ["1234", "12345", "-1234567.5", "0.25"].into_iter().map(grouped).collect();
        assert_eq!(shown, ["1234", "12,345", "-1,234,567.5", "0.25"]);
    }
}
