//! Programs in C and C++, compiled against the installed headers and libraries and run over loopback.

#![cfg(target_os = "linux")] // where the shared library is linked
#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod exports;
mod guide;
mod other_libraries;
mod programs;
mod quiche_examples;
mod toolchain;

#[path = "../skip/mod.rs"]
mod skip;

use std::process::Command;

use skip::skip;

#[test]
#[ignore = "has nothing to test: the one below runs it"]
fn one_that_is_skipped() {
    skip("to be seen");
}

#[test]
fn a_test_that_is_skipped_says_so_though_it_passes() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    let output = test.args(["--ignored", "--exact", "one_that_is_skipped"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("skipped: one_that_is_skipped: to be seen"), "{told:?}");
}
