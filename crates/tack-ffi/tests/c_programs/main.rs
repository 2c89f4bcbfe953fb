//! Programs in C and C++, compiled against the installed headers and libraries and run over loopback.

#![cfg(target_os = "linux")] // where the shared library is linked
#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod exports;
mod guide;
mod programs;
mod quiche_examples;
mod toolchain;

/// Says on the terminal that a test is skipped, and why.
fn skip(why: &str) {
    eprintln!("skipped: {why}");
}
