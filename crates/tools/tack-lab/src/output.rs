//! Standard output.

use std::io::{self, Write};

use serde::Serialize;

/// Prints one JSON object.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    text(&serde_json::to_string_pretty(value).map_err(io::Error::other)?)
}

/// Prints a text and a line feed. A reader that has gone away is no error.
pub fn text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
