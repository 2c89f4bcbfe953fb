//! What the system allows a process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::process::Command;

use common::{Served, noise, run, write};

/// The same command within limits, as ulimit takes them.
fn limited(command: &Command, limits: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limits} && exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(command.get_current_dir().unwrap());
    shell
}

#[test]
fn a_file_that_may_not_become_so_long_fails_alone() {
    let served = Served::new(&[]);
    served.write("tree/long", &noise(3_000_000, 1));
    served.write("tree/short", b"short");
    let mut get = served.client("get");
    get.args(["-r", &served.target("tree"), "out"]);
    let done = run(&mut limited(&get, "-f 1000")).expect(5);
    assert!(done.errors.contains("File too large"), "{}", done.errors);
    assert_eq!(done.number("failed"), 1);
    assert_eq!(fs::read(served.outside("out/short")).unwrap(), b"short");
    run(&mut get).expect(0);
    assert!(fs::read(served.outside("out/long")).unwrap() == noise(3_000_000, 1));
}

#[test]
fn many_files_are_fetched_by_a_process_that_may_open_few() {
    let served = Served::new(&[]);
    for number in 0..1000 {
        served.write(&format!("tree/{number}"), b"content");
    }
    let mut get = served.client("get");
    get.args(["-r", &served.target("tree"), "out"]);
    run(&mut limited(&get, "-n 100")).expect(0);
    assert_eq!(fs::read_dir(served.outside("out")).unwrap().count(), 1000);
    write(&served.outside("out/more"), b"more");
    let mut send = served.client("send");
    send.arg("out").arg(served.target("back"));
    run(&mut limited(&send, "-n 100")).expect(0);
    assert_eq!(fs::read_dir(served.path("back/out")).unwrap().count(), 1001);
}
