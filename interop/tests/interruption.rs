//! What is left of a run that does not come to its end.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]
#![allow(missing_docs, reason = "nothing here is public")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const TURN: Duration = Duration::from_millis(10);

/// Starts a run whose handshake takes seconds.
fn begin(target: &Path, json: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tack-interop"))
        .args(["run", "--peers", "quiche", "--tests", "longrtt", "--role", "server"])
        .args(["--json", json.to_str().unwrap()])
        .env("CARGO_TARGET_DIR", target)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The two ends, once both run.
fn both_ends(runner: &Child) -> Vec<u32> {
    let start = Instant::now();
    loop {
        let programs = children(runner.id());
        if programs.len() == 2 {
            return programs;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{programs:?}");
        thread::sleep(TURN);
    }
}

/// The state and the parent of a process; `None` if it is gone.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    Some((rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}

fn children(of: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.filter(|pid| state(*pid).is_some_and(|(_, parent)| parent == of)).collect()
}

/// Whether a process runs. One that has ended may still wait for somebody to ask how.
fn is_running(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| state != 'Z')
}

fn end_within_two_seconds(programs: &[u32]) {
    let start = Instant::now();
    while programs.iter().any(|pid| is_running(*pid)) {
        assert!(start.elapsed() < Duration::from_secs(2), "{programs:?} are left");
        thread::sleep(TURN);
    }
}

#[test]
fn no_program_outlives_a_runner_that_is_killed() {
    let target = tempfile::tempdir().unwrap();
    let mut runner = begin(target.path(), &target.path().join("report.json"));
    let programs = both_ends(&runner);
    runner.kill().unwrap();
    runner.wait().unwrap();
    end_within_two_seconds(&programs);
}

#[test]
fn an_interrupted_run_ends_its_programs_and_writes_its_report() {
    for signal in ["-INT", "-TERM"] {
        let target = tempfile::tempdir().unwrap();
        let json = target.path().join("report.json");
        let mut runner = begin(target.path(), &json);
        let programs = both_ends(&runner);
        let sent = Command::new("kill").args([signal, &runner.id().to_string()]).status();
        assert!(sent.unwrap().success());
        assert_eq!(runner.wait().unwrap().code(), Some(1), "{signal}");
        end_within_two_seconds(&programs);
        let report: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
        assert_eq!(report["cells"].as_array().unwrap().len(), 0);
        let warning = report["warnings"][0].as_str().unwrap();
        assert!(warning.contains("interrupted"), "{warning}");
    }
}
