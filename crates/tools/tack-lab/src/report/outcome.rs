//! Everything that one run of an experiment found.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Check, Plot, Table};
use crate::versions::Versions;

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name on the command line.
    pub name: String,
    /// A title for people.
    pub title: String,
    /// What is asked, in a sentence.
    pub question: String,
    /// Where this is from, in the paper as a rule, and what is reported there.
    pub paper: String,
    /// Whether this is the short form.
    pub quick: bool,
    /// The command that repeats it.
    pub command: String,
    /// What was set, with units in the names.
    pub parameters: Map<String, Value>,
    /// What it was made with.
    pub versions: Versions,
    /// The seeds of the runs. Values in tables are medians over them.
    pub seeds: Vec<u64>,
    /// The numbers.
    pub tables: Vec<Table>,
    /// The pictures.
    pub plots: Vec<Plot>,
    /// What the numbers were held against.
    pub checks: Vec<Check>,
    /// What a reader has to know to read the numbers.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Whether the emulation is as it should be.
    pub fn passed(&self) -> bool {
        !self.checks.iter().any(Check::fails_the_run)
    }
}

/// For a terminal.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", self.name, self.title)?;
        writeln!(f, "{}", wrapped(&self.question))?;
        writeln!(f, "{}", wrapped(&format!("Source: {}", self.paper)))?;
        for table in &self.tables {
            writeln!(f, "\n{table}")?;
        }
        if !self.checks.is_empty() {
            f.write_char('\n')?;
        }
        for check in &self.checks {
            writeln!(f, "{check}")?;
        }
        for note in &self.notes {
            writeln!(f, "{}", wrapped(&format!("Note: {note}")))?;
        }
        Ok(())
    }
}

/// A text in lines that fit into a terminal.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut wrapped = String::with_capacity(text.len());
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            wrapped.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_before_they_get_too_long() {
        let text = "word ".repeat(50);
        let wrapped = wrapped(text.trim_end());
        assert!(wrapped.lines().all(|line| line.len() <= 100), "{wrapped}");
        assert_eq!(wrapped.split_whitespace().count(), 50);
        assert!(wrapped.lines().count() == 3);
    }
}
