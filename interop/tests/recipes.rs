//! The scripts that fetch all peers and run every cell.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]
#![allow(missing_docs, reason = "nothing here is public")]

#[path = "../../crates/tack-ffi/tests/skip/mod.rs"]
mod skip;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use skip::skip;

/// Notes its arguments, and fails where they have the word in `FAILS`.
const CARGO: &str =
    "#!/bin/sh\necho \"$*\" >> calls\ncase \" $* \" in *\" $FAILS \"*) exit 1 ;; esac\n";

/// A copy of the files of that checkout, with a `cargo` that only notes what it is asked for.
fn checkout(directory: &Path, files: &[&str]) -> PathBuf {
    let programs = directory.join("programs");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join("cargo"), CARGO).unwrap();
    fs::set_permissions(programs.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    for file in files {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(file);
        let to = directory.join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
    programs
}

/// Runs a command there; the word makes `cargo` fail.
fn run(directory: &Path, programs: &Path, command: &[&str], fails: &str) -> (Output, String) {
    let calls = directory.join("calls");
    let _ = fs::remove_file(&calls);
    let inherited = std::env::var("PATH").unwrap();
    let output = Command::new(command[0])
        .args(&command[1..])
        .current_dir(directory)
        .env("PATH", format!("{}:{inherited}", programs.display()))
        .env("FAILS", fails)
        .output()
        .unwrap();
    (output, fs::read_to_string(calls).unwrap_or_default())
}

fn a_missing_peer_keeps_no_cell_from_running(files: &[&str], command: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let programs = checkout(directory.path(), files);
    let ran = |fails| run(directory.path(), &programs, command, fails);
    for fails in ["nothing", "fetch", "--html"] {
        let (output, calls) = ran(fails);
        assert!(
            calls.contains(" -- fetch\n") && calls.contains(" -- run "),
            "{fails}: {calls}"
        );
        assert_eq!(output.status.success(), fails == "nothing", "{fails}: {calls}");
    }
    let (output, calls) = ran("build");
    assert!(!output.status.success() && !calls.contains(" -- "), "{calls}");
}

#[test]
fn the_nightly_run_goes_on_without_a_peer_and_fails_in_the_end() {
    a_missing_peer_keeps_no_cell_from_running(&[".ci/nightly"], &[".ci/nightly", "interop"]);
}

#[test]
fn new_results_are_made_without_a_peer_that_cannot_be_fetched() {
    if Command::new("just").arg("--version").output().is_err() {
        skip("just is not installed");
        return;
    }
    a_missing_peer_keeps_no_cell_from_running(&["justfile"], &["just", "interop-results"]);
}
