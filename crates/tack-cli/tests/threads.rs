//! Servers and clients whose system gives them few threads.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Served, TACK, assert_same_tree, finish, noise, run, write};
use rustix::process::geteuid;

/// Users without any other process, one for each test: the system counts threads by user.
const USERS: [u32; 3] = [54321, 54322, 54323];

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
        common::skip("takes root");
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

#[test]
fn a_server_without_threads_serves_as_soon_as_it_gets_some() {
    let Some(mut served) = served_by(USERS[1]) else { return };
    served.write("file", b"content");
    let server = served.child.id();
    allow_threads(USERS[1], server, &threads(server).to_string());
    let mut client = served.client("get");
    client.arg(served.target("file")).arg("dest");
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Long enough for the request to arrive.
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(served.child.try_wait().unwrap().is_none(), "the server has ended");
    allow_threads(USERS[1], server, "1000");
    finish(client).expect(0);
    assert_eq!(fs::read(served.outside("dest")).unwrap(), b"content");
}

#[test]
fn a_client_with_few_threads_does_one_thing_after_the_other() {
    let Some(served) = served(USERS[2], Command::new(TACK)) else { return };
    make_small_files(&served.path("tree"));
    served.write("tree/large", &noise(300_000, 99));
    let mut client = served.client("get");
    client.arg("-r").arg(served.target("tree")).arg("dest");
    let mut limited = Command::new("prlimit");
    // Two of them for requests.
    limited.arg("--nproc=5").arg(client.get_program());
    limited.args(client.get_args()).current_dir(served.dir.path());
    for (name, value) in client.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    run(limited.uid(USERS[2]).gid(USERS[2])).expect(0);
    assert_same_tree(&served.path("tree"), &served.outside("dest"));
}
