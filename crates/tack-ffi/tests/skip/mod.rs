//! How a test says that it is skipped: all crates share this file.

use std::fmt::Display;
use std::io::Write;

/// Says on the terminal that a test is skipped, and why. `eprintln!` would not do: libtest shows what that prints for
/// tests that fail, and for no others.
pub fn skip(why: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Without a standard error the reason has no place to go.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
