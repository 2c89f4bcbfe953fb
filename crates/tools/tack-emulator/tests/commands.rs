//! Two commands over a link, run by `run_over_link` in a process of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use common::{can_emulate, comes_true, is_in_use};
use rustix::process::{Pid, Signal, kill_process};

const RUN_OVER_LINK: &str = env!("CARGO_BIN_EXE_run_over_link");

/// The program with these arguments, on a machine that may be too busy for the link.
fn run_over_link(arguments: &[&str]) -> Command {
    let mut command = Command::new(RUN_OVER_LINK);
    command.arg("--allow-misses").args(arguments);
    command
}

/// Two shell commands, ready to start.
fn shells(at_a: &str, at_b: &str) -> Command {
    run_over_link(&["1", "sh", "-c", at_a, ":::", "sh", "-c", at_b])
}

fn run(at_a: &str, at_b: &str) -> Output {
    shells(at_a, at_b).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn commands_find_both_addresses_in_their_environment() {
    if !can_emulate() {
        return;
    }
    let output = run("sleep 60", "echo $TACK_LAB_LOCAL $TACK_LAB_PEER");
    assert_eq!(stdout(&output), "198.18.0.2 198.18.0.1\n");
    let output = run("echo $TACK_LAB_LOCAL $TACK_LAB_PEER", "sleep 60");
    assert_eq!(stdout(&output), "198.18.0.1 198.18.0.2\n");
}

#[test]
fn the_exit_code_is_that_of_the_command_that_ended_first() {
    if !can_emulate() {
        return;
    }
    assert_eq!(run("sleep 60", "exit 3").status.code(), Some(3));
    assert_eq!(run("exit 4", "sleep 60").status.code(), Some(4));
}

/// The exit code of a run whose commands succeed, and whose link stands still while packets are on it.
fn code_of_a_late_run(options: &[&str]) -> Option<i32> {
    let directory = tempfile::tempdir().unwrap();
    let [sent, enough] = ["sent", "enough"].map(|name| directory.path().join(name));
    let send = format!(
        "until [[ -e {} ]]; do echo >/dev/udp/$TACK_LAB_PEER/9; : >{}; sleep 0.005; done",
        enough.display(),
        sent.display()
    );
    let mut command = Command::new(RUN_OVER_LINK);
    command.args(options).args(["200", "sleep", "60", ":::", "bash", "-c", &send]);
    let mut emulator = command.stderr(Stdio::null()).spawn().unwrap();
    assert!(comes_true(|| sent.exists()));
    let pid = Pid::from_child(&emulator);
    thread::sleep(Duration::from_millis(100));
    kill_process(pid, Signal::STOP).unwrap();
    thread::sleep(Duration::from_millis(400));
    kill_process(pid, Signal::CONT).unwrap();
    fs::write(enough, "").unwrap();
    emulator.wait().unwrap().code()
}

#[test]
fn a_late_link_fails_the_run_unless_misses_are_allowed() {
    if !can_emulate() {
        return;
    }
    assert_eq!(code_of_a_late_run(&[]), Some(75));
    assert_eq!(code_of_a_late_run(&["--allow-misses"]), Some(0));
}

#[test]
fn when_both_are_waited_for_the_other_command_goes_on() {
    if !can_emulate() {
        return;
    }
    let mut command = Command::new(RUN_OVER_LINK);
    command.args([
        "--both",
        "--allow-misses",
        "1",
        "true",
        ":::",
        "sh",
        "-c",
        "sleep 0.5; echo done; exit 6",
    ]);
    let output = command.output().unwrap();
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("done\n", Some(6)));
}

#[test]
fn the_other_command_is_asked_to_end() {
    if !can_emulate() {
        return;
    }
    let server = "trap 'echo asked; exit 0' TERM; while :; do sleep 0.05; done";
    assert_eq!(stdout(&run(server, "sleep 0.5")), "asked\n");
}

#[test]
fn a_command_that_does_not_listen_is_killed() {
    if !can_emulate() {
        return;
    }
    let server = "trap '' TERM; echo deaf; while :; do sleep 0.05; done";
    let output = run(server, "sleep 0.5; exit 5");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("deaf\n", Some(5)));
}

#[test]
fn standard_input_is_empty() {
    if !can_emulate() {
        return;
    }
    assert_eq!(stdout(&run("sleep 60", "cat; echo end")), "end\n");
}

#[test]
fn a_command_that_does_not_exist_gives_the_code_of_a_shell_and_its_name() {
    if !can_emulate() {
        return;
    }
    let output =
        run_over_link(&["1", "sleep", "60", ":::", "no-such-command"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("no-such-command"), "{message}");
}

/// Tells its namespace, then starts something in the background in a session of its own.
fn tell_and_stay(at: &Path) -> String {
    let path = at.display();
    format!(
        "readlink /proc/self/ns/net > {path}.new; setsid sleep 60 & \
         mv {path}.new {path}; sleep 60"
    )
}

struct Staying {
    emulator: Child,
    namespaces: Vec<PathBuf>,
}

/// Starts two commands that stay, and waits until they are there.
fn staying(directory: &Path) -> Staying {
    let files = ["a", "b"].map(|name| directory.join(name));
    let emulator = shells(&tell_and_stay(&files[0]), &tell_and_stay(&files[1]))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(comes_true(|| files.iter().all(|file| file.exists())));
    let read = |file: &PathBuf| fs::read_to_string(file).unwrap().trim().into();
    let namespaces: Vec<PathBuf> = files.iter().map(read).collect();
    assert!(namespaces.iter().all(|namespace| is_in_use(namespace)));
    Staying { emulator, namespaces }
}

#[test]
fn nothing_remains_when_the_emulator_is_killed() {
    if !can_emulate() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut staying = staying(directory.path());
    staying.emulator.kill().unwrap();
    staying.emulator.wait().unwrap();
    assert!(comes_true(|| !staying.namespaces.iter().any(|namespace| is_in_use(namespace))));
}

#[test]
fn an_interrupt_ends_both_commands_and_all_that_they_started() {
    if !can_emulate() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut staying = staying(directory.path());
    kill_process(Pid::from_child(&staying.emulator), Signal::INT).unwrap();
    let status = staying.emulator.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(!staying.namespaces.iter().any(|namespace| is_in_use(namespace)));
}

#[test]
fn commands_get_the_signal_that_the_emulator_got() {
    if !can_emulate() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let ready = ["a", "b"].map(|name| directory.path().join(name));
    // Shells may lose a signal that comes while they start a program, or just before they wait: this one
    // does neither.
    let at_a = format!(
        "trap 'echo interrupted; exit' INT; : >{}; while :; do :; done",
        ready[0].display()
    );
    let at_b = format!(": >{}; sleep 60", ready[1].display());
    let emulator = shells(&at_a, &at_b).stdout(Stdio::piped()).spawn().unwrap();
    // The thread that starts a command takes signals until it has.
    assert!(comes_true(|| ready.iter().all(|file| file.exists())));
    kill_process(Pid::from_child(&emulator), Signal::INT).unwrap();
    let output = emulator.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "interrupted\n", "{output:?}");
}

#[test]
fn commands_do_not_inherit_blocked_signals() {
    if !can_emulate() {
        return;
    }
    let mut command =
        run_over_link(&["1", "sleep", "60", ":::", "grep", "SigBlk", "/proc/self/status"]);
    // Directly: a shell would clear the mask.
    assert_eq!(stdout(&command.output().unwrap()), "SigBlk:\t0000000000000000\n");
}

#[test]
fn without_privileges_the_message_says_what_to_do() {
    if !can_emulate() {
        return;
    }
    // Still root by name, so that it can read the program, but without capabilities.
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-all", "--inh-caps", "-all"])
        .arg(RUN_OVER_LINK)
        .args(["1", "true", ":::", "true"])
        .output();
    let Ok(output) = output else {
        common::skip("setpriv of util-linux is missing");
        return;
    };
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(message.contains("needs root"), "{message}");
    assert!(message.contains("sudo"), "{message}");
}
