//! Servers that the user trusts when asked for the first time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{Served, TACK, finish, run};

fn file_of(served: &Served) -> PathBuf {
    served.outside("data/tack/known-hosts")
}

/// A client that is told nothing of the server's certificate.
fn client(served: &Served, program: &str) -> Command {
    let mut client = Command::new(program);
    client.env("TACK_TOKEN", served.token.as_ref().unwrap()).current_dir(served.dir.path());
    client.env("XDG_STATE_HOME", served.outside("state"));
    client.env("XDG_DATA_HOME", served.outside("data"));
    client
}

fn get(served: &Served) -> Command {
    let mut get = client(served, TACK);
    get.args(["get", "--json"]).arg(served.target("file")).arg("dest");
    get
}

/// Runs a fetch on a terminal where somebody types `answers`: whether it succeeds, and what is shown there.
/// `None` without the program that makes terminals.
fn on_a_terminal(served: &Served, answers: &str) -> Option<(bool, String)> {
    let command = format!("{TACK} get {} dest", served.target("file"));
    let mut script = client(served, "script");
    script.args(["-qec", &command, "/dev/null"]);
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = script.spawn() else {
        common::skip("script is not installed (Debian: bsdutils)");
        return None;
    };
    let mut input = child.stdin.take().unwrap();
    input.write_all(answers.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[test]
fn a_server_that_was_trusted_once_needs_no_fingerprint_any_more() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let Some((is_done, shown)) = on_a_terminal(&served, "perhaps\nyes\n") else { return };
    assert!(is_done, "{shown}");
    assert!(shown.contains(&served.fingerprint) && shown.contains("known-hosts"), "{shown}");
    assert_eq!(fs::read(served.outside("dest")).unwrap(), b"content");
    let line = format!("{} {}", served.address, served.fingerprint);
    let known = fs::read_to_string(file_of(&served)).unwrap();
    assert_eq!(known.lines().filter(|known| *known == line).count(), 1, "{known}");

    served.write("file", b"other content");
    run(&mut get(&served)).expect(0);
    assert_eq!(fs::read(served.outside("dest")).unwrap(), b"other content");
}

#[test]
fn a_server_that_is_not_trusted_gets_no_token_and_is_not_remembered() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    for answers in ["no\n", "\u{4}"] {
        let Some((is_done, shown)) = on_a_terminal(&served, answers) else { return };
        assert!(!is_done && shown.contains("token was not sent"), "{shown}");
        assert!(!served.outside("dest").exists() && !file_of(&served).exists());
    }
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let refused = run(get(&served).stdin(Stdio::null())).expect(4);
    assert!(refused.errors.contains("--fingerprint"), "{}", refused.errors);
    assert!(!file_of(&served).exists());
}

#[test]
fn another_certificate_of_a_known_server_is_refused_with_the_line_to_remove() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let file = served.outside("known");
    let wrong = "0".repeat(64);
    fs::write(&file, format!("# mine\n{} {wrong}\n", served.address)).unwrap();
    let mut client = get(&served);
    client.arg("--known-hosts").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let refused = finish(client.spawn().unwrap()).expect(4);
    let line = format!("{}:2", file.display());
    for told in [line.as_str(), &wrong, &served.fingerprint, "token was not sent"] {
        assert!(refused.errors.contains(told), "{told}: {}", refused.errors);
    }
    assert!(!served.outside("dest").exists());

    fs::write(&file, format!("{} {}\n", served.address, served.fingerprint)).unwrap();
    run(get(&served).arg("--known-hosts").arg(&file)).expect(0);
}

#[test]
fn another_certificate_is_refused_with_the_line_to_remove_though_a_session_is_kept() {
    for arguments in [&["get", "--json"][..], &["ls", "--json"]] {
        let mut served = Served::new(&[]);
        served.write("file", b"content");
        let file = served.outside("known");
        fs::write(&file, format!("{} {}\n", served.address, served.fingerprint)).unwrap();
        let command = |served: &Served| {
            let mut command = client(served, TACK);
            command.args(arguments).arg(served.target("file")).arg("--known-hosts").arg(&file);
            command
        };
        run(&mut command(&served)).expect(0);

        served.child.kill().unwrap();
        served.child.wait().unwrap();
        let mut other = Command::new(TACK);
        other.args(["serve", "--json", "--no-token", "--listen", &served.address]);
        other.arg("--identity").arg(served.outside("other")).arg(served.path(""));
        served.child = other.stdout(Stdio::piped()).spawn().unwrap();
        let mut printed = BufReader::new(served.child.stdout.take().unwrap());
        printed.read_line(&mut String::new()).unwrap();
        let refused = run(&mut command(&served)).expect(4);
        let line = format!("{}:1", file.display());
        for told in [line.as_str(), &served.fingerprint, "token was not sent"] {
            assert!(refused.errors.contains(told), "{told}: {}", refused.errors);
        }
    }
}
