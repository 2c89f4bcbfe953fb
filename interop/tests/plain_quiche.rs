//! The command, from the command line to the report, between our own ends.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]
#![allow(missing_docs, reason = "nothing here is public")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn interop(target: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tack-interop"))
        .args(arguments)
        .env("CARGO_TARGET_DIR", target)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn handshake_transfer_and_http3_pass_in_both_roles_with_plain_quiche() {
    let target = tempfile::tempdir().unwrap();
    let json = target.path().join("report.json");
    let html = target.path().join("report.html");
    let mut arguments =
        vec!["run", "--peers", "quiche", "--tests", "handshake,transfer,http3", "--jobs", "2"];
    arguments.extend(["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()]);
    let output = interop(target.path(), &arguments);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));

    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2 * 3);
    for cell in cells {
        assert_eq!(cell["verdict"], "pass");
        let wire = &cell["wire"][0][1];
        let (peer, us) = match cell["role"].as_str().unwrap() {
            "server" => ("server", "client"),
            _ => ("client", "server"),
        };
        assert_eq!(wire[us]["tack"], true, "our end announces TACK");
        assert_eq!(wire[peer]["tack"], false, "plain quiche does not");
        let (file, protocol) = match cell["test"].as_str().unwrap() {
            "handshake" => (1 << 10, "hq-interop"),
            "http3" => (1536 << 10, "h3"),
            _ => (3584 << 10, "hq-interop"),
        };
        assert_eq!(wire["protocol"], protocol);
        assert!(wire["to_client"]["stream_bytes"].as_u64().unwrap() >= file);
        assert!(cell["kept"].is_null(), "nothing is kept of what passed");
    }
    assert!(std::fs::read_to_string(html).unwrap().contains("class=\"v pass\""));
    let kept: Vec<_> = std::fs::read_dir(target.path().join("interop")).unwrap().collect();
    assert!(kept.is_empty(), "{kept:?}");
}

#[test]
fn unknown_names_are_refused_with_those_that_are_known() {
    let target = tempfile::tempdir().unwrap();
    for (option, known) in
        [("--peers", "tack, quiche, quinn"), ("--tests", "handshake, transfer")]
    {
        let output = interop(target.path(), &["run", option, "nonesuch"]);
        assert_eq!(output.status.code(), Some(2));
        let message = text(&output.stderr);
        assert!(message.contains("nonesuch") && message.contains(known), "{message}");
    }
    let output = interop(target.path(), &["run", "--tests", "handshake", "--jobs", "0"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_runs() {
    let target = tempfile::tempdir().unwrap();
    let there = target.path().join("there.json");
    std::fs::write(&there, "what is there").unwrap();
    let missing = target.path().join("missing").join("report.html");
    let arguments = ["run", "--peers", "quiche", "--tests", "handshake"];
    let reports = ["--json", there.to_str().unwrap(), "--html", missing.to_str().unwrap()];
    let output = interop(target.path(), &[&arguments[..], &reports].concat());
    assert!(!output.status.success());
    let errors = text(&output.stderr);
    assert!(errors.contains("report.html") && !errors.contains("pass"), "{errors}");
    assert_eq!(std::fs::read_to_string(there).unwrap(), "what is there");
}

#[test]
fn a_peer_that_is_not_there_is_reported_and_fails_the_run_that_names_it() {
    let target = tempfile::tempdir().unwrap();
    let output = interop(target.path(), &["run", "--peers", "quinn", "--tests", "handshake"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stdout).contains("tack-interop fetch --peers quinn"));
}

#[test]
fn a_peer_whose_program_is_gone_is_unavailable_and_the_others_are_judged() {
    let target = tempfile::tempdir().unwrap();
    let cache = target.path().join("interop/peers/quinn");
    std::fs::create_dir_all(&cache).unwrap();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/quinn");
    tack_interop::fetch::stamp::leave(&manifest, &cache).unwrap();
    let json = target.path().join("report.json");
    let mut arguments = vec!["run", "--peers", "quinn,quiche", "--tests", "handshake"];
    arguments.extend(["--role", "server", "--json", json.to_str().unwrap()]);
    let output = interop(target.path(), &arguments);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let verdict = |peer: &str| {
        let mut cells = report["cells"].as_array().unwrap().iter();
        cells.find(|cell| cell["peer"] == peer).unwrap()["verdict"].clone()
    };
    assert_eq!(verdict("quinn"), "unavailable");
    assert_eq!(verdict("quiche"), "pass");
}

#[test]
fn an_error_of_this_machine_leaves_a_report_on_what_was_done_before() {
    let target = tempfile::tempdir().unwrap();
    let json = target.path().join("report.json");
    // In the way of the second cell's directory.
    let run = target.path().join("interop/run-1");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tack-interop"))
        .args(["run", "--peers", "quiche", "--tests", "handshake,transfer", "--role", "server"])
        .args(["--json", json.to_str().unwrap()])
        .env("CARGO_TARGET_DIR", target.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !run.join("certificate.pem").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::write(run.join("quiche-server-transfer"), "in the way").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1);
    assert_eq!(
        (&cells[0]["test"], &cells[0]["verdict"]),
        (&"handshake".into(), &"pass".into())
    );
    assert!(report["warnings"][0].as_str().unwrap().contains("ended early"));
}

#[test]
fn a_command_line_that_leaves_no_cell_is_refused() {
    let target = tempfile::tempdir().unwrap();
    let output = interop(target.path(), &["run", "--peers", "caddy", "--role", "client"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no cell"));
}

#[test]
fn a_relative_target_directory_is_that_of_the_caller() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tack-interop"))
        .args(["run", "--peers", "quiche", "--tests", "handshake", "--role", "server"])
        .args(["--keep", "--json", "report.json"])
        .env("CARGO_TARGET_DIR", "made")
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let report = std::fs::read(directory.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let kept = Path::new(report["cells"][0]["kept"].as_str().unwrap());
    let made = directory.path().canonicalize().unwrap().join("made");
    assert!(kept.is_absolute() && kept.starts_with(made), "{kept:?}");
}

#[test]
fn an_own_end_that_does_not_know_a_test_case_says_so() {
    let target = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tack-interop"))
        .args(["peer", "tack"])
        .env("TACK_INTEROP_ROLE", "client")
        .env("TACK_INTEROP_TESTCASE", "nonesuch")
        .env("TACK_INTEROP_ADDRESS", "127.0.0.1:1")
        .env("TACK_INTEROP_FILES", target.path())
        .env("TACK_INTEROP_RECEIVED", target.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Its standard input stays open until it has ended.
    let _lifeline = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(text(&output.stdout), "unsupported\n");
}

#[test]
fn a_peer_without_its_environment_says_what_is_missing() {
    let target = tempfile::tempdir().unwrap();
    let output = interop(target.path(), &["peer", "tack"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("TACK_INTEROP_ROLE: not set"));
}
