//! Servers and clients whose system gives them few threads.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{Served, TACK, assert_same_tree, noise, write};
use rustix::process::geteuid;

/// Users without any other process, one for each test: the system counts threads by user.
const USERS: [u32; 1] = [54321];

/// Sets how many threads `user`, who runs the process `id`, may have when that starts one.
fn allow_threads(user: u32, id: u32, threads: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &id.to_string(), &format!("--nproc={threads}:")]);
    assert!(prlimit.uid(user).gid(user).status().unwrap().success());
}

/// How many threads a process has.
fn threads(process: u32) -> u64 {
    fs::read_dir(format!("/proc/{process}/task")).unwrap().count() as u64
}

/// A server that `program` runs, in a directory of `user`; `None` where this is not root, who may choose users.
fn served(user: u32, program: Command) -> Option<Served> {
    if !geteuid().is_root() {
        eprintln!("skipped: takes root");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("served")).unwrap();
    for path in [dir.path().to_owned(), dir.path().join("served")] {
        chown(&path, Some(user), Some(user)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    Some(Served::in_dir(dir, program, "127.0.0.1:0", &["--write"]))
}

/// A server that runs as `user`.
fn served_by(user: u32) -> Option<Served> {
    let mut program = Command::new(TACK);
    program.uid(user).gid(user);
    served(user, program)
}

fn make_small_files(directory: &Path) {
    for n in 0..40 {
        write(&directory.join(n.to_string()), &noise(2000, n));
    }
}

#[test]
fn small_files_arrive_where_no_thread_is_left_to_write_several_at_once() {
    let Some(served) = served_by(USERS[0]) else { return };
    let source = served.outside("source");
    make_small_files(&source);
    let server = served.child.id();
    // One that takes the files.
    allow_threads(USERS[0], server, &(threads(server) + 1).to_string());
    served.send(&source, "").expect(0);
    assert_same_tree(&source, &served.path("source"));
}
