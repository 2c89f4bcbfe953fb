//! Listings of what a server has.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Output, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use common::Served;
use serde_json::{Value, json};

fn served() -> Served {
    let served = Served::plain(&[]);
    served.write("photos/2024/one.jpg", b"12345");
    served.write("photos/2024/deep/two.jpg", b"");
    served.write("photos/notes.txt", b"abc");
    for (name, mode) in
        [("photos/notes.txt", 0o640), ("photos/2024/one.jpg", 0o600), ("photos/2024", 0o750)]
    {
        fs::set_permissions(served.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let modified = UNIX_EPOCH + Duration::from_secs(951_782_400);
    let notes = File::options().write(true).open(served.path("photos/notes.txt")).unwrap();
    notes.set_modified(modified).unwrap();
    served
}

fn ls(served: &Served, arguments: &[&str], path: &str) -> Output {
    served.client("ls").args(arguments).arg(served.target(path)).output().unwrap()
}

/// The entries, by path.
fn entries(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut entries: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    entries.sort_by_key(|entry| entry["path"].as_str().unwrap().to_owned());
    entries
}

#[test]
fn a_listing_has_the_entries_of_a_directory_with_sizes_times_and_permissions() {
    let served = served();
    let expected = [
        json!({ "path": "2024", "kind": "directory", "mode": "0750" }),
        json!({ "path": "notes.txt", "kind": "file", "bytes": 3,
            "modified": "2000-02-29T00:00:00Z", "mode": "0640" }),
    ];
    assert_eq!(entries(&ls(&served, &[], "photos")), expected);
    assert_eq!(entries(&ls(&served, &[], "photos/notes.txt")), expected[1..]);
}

#[test]
fn a_recursive_listing_has_everything_below() {
    let served = served();
    let found = entries(&ls(&served, &["-r"], ""));
    let paths: Vec<&str> = found.iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    let expected = [
        "photos",
        "photos/2024",
        "photos/2024/deep",
        "photos/2024/deep/two.jpg",
        "photos/2024/one.jpg",
        "photos/notes.txt",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn names_that_a_server_chooses_cannot_drive_the_terminal() {
    let served = Served::plain(&[]);
    served.write("a\u{1b}[2J", b"");
    let mut client = std::process::Command::new(common::TACK);
    client.args(["ls", "--fingerprint", &served.fingerprint]).arg(served.target(""));
    client.env("XDG_STATE_HOME", served.outside("state"));
    client.env("TACK_TOKEN", served.token.as_ref().unwrap());
    let output = client.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with(" a\\u{1b}[2J\n"), "{text:?}");
}

#[test]
fn a_listing_leads_nowhere_through_a_link_and_tells_what_is_not_there() {
    let served = served();
    symlink("/etc", served.path("link")).unwrap();
    let output = ls(&served, &["-r"], "");
    assert!(entries(&output).iter().all(|entry| entry["path"] != "link"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("link: a symbolic link"));
    assert_ne!(ls(&served, &[], "link").status.code(), Some(0));
    assert_eq!(ls(&served, &[], "none").status.code(), Some(6));
}

#[test]
fn a_server_does_not_look_deeper_than_it_is_asked_to() {
    let served = served();
    let odd = OsStr::from_bytes(b"photos/2024/odd\xff");
    fs::write(served.path("").join(odd), b"a name that can't cross the wire").unwrap();
    assert_eq!(entries(&ls(&served, &[], "photos")).len(), 2);
    let output = ls(&served, &["-r"], "photos");
    assert_eq!(output.status.code(), Some(6), "the rest is listed, and the error told");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 6);
    let unlisted = text.lines().find(|line| line.contains("unlisted")).unwrap();
    let unlisted: Value = serde_json::from_str(unlisted).unwrap();
    assert_eq!(unlisted["path"], "2024/odd\u{fffd}");
    assert!(unlisted["error"].as_str().unwrap().contains("UTF-8"), "{unlisted}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("2024/odd"));
}

/// A listing that is longer than a pipe and what the program keeps hold.
fn served_with_many() -> Served {
    let served = Served::plain(&[]);
    for n in 0..3000 {
        served.write(&format!("many/{n}{}", "x".repeat(100)), b"");
    }
    served
}

/// A listing whose output is not read yet.
fn started(served: &Served) -> std::process::Child {
    let mut client = served.client("ls");
    client.args(["-r", &served.target("")]);
    client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_listing_quietly() {
    let served = served_with_many();
    let mut client = started(&served);
    let mut first = [0; 1];
    client.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn an_interrupted_listing_does_not_speak_of_resuming() {
    let served = served_with_many();
    let mut client = started(&served);
    let mut stdout = client.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1]).unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(client.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(8));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("interrupted") && !errors.contains("resum"), "{errors}");
}
