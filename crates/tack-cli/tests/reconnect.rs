//! Servers that go away and come back while a client is at work.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Served, TACK, assert_same_tree, finish, noise, signal, wait_until, write};
use nix::sys::signal::Signal;

const SIZE: usize = 4_000_000;
/// Slow enough for the server to be ended in the middle.
const RATE: &str = "2M";
/// Another user, who need not exist.
const OWNER: u32 = 12345;

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Ends the server by a signal and starts another one with the same certificate on the same port.
fn restart(served: &mut Served, by: Signal) {
    restart_after(served, by, || {});
}

/// The same; `meanwhile` happens while no server runs.
fn restart_after(served: &mut Served, by: Signal, meanwhile: impl FnOnce()) {
    signal(&served.child, by);
    served.child.wait().unwrap();
    meanwhile();
    // Long enough for a client to find nobody there.
    std::thread::sleep(Duration::from_secs(1));
    let mut program = Command::new(TACK);
    program.args(["serve", "--write", "--quiet", "--no-token", "--listen", &served.address]);
    program.arg("--identity").arg(served.outside("identity")).arg(served.path(""));
    served.child = program.stdout(Stdio::null()).spawn().unwrap();
}

#[test]
fn a_fetch_goes_on_when_the_server_is_back() {
    for by in [Signal::SIGTERM, Signal::SIGKILL] {
        let mut served = Served::new(&[]);
        served.write("tree/file", &noise(SIZE, 1));
        for n in 0..20 {
            served.write(&format!("tree/small/{n}"), &noise(5000, n));
        }
        let mut client = served.client("get");
        client.args(["-r", "--bwlimit", RATE]).arg(served.target("tree")).arg("dest");
        let child = start(&mut client);
        let part = served.outside("dest/.file.tack-part");
        wait_until(|| part.metadata().is_ok_and(|part| part.len() > 300_000));
        restart(&mut served, by);
        let finished = finish(child).expect(0);
        assert!(finished.errors.contains("trying to connect again"), "{}", finished.errors);
        assert!(finished.number("resumed_bytes") > 100_000, "{}", finished.summary);
        assert_eq!((finished.number("files"), finished.number("failed")), (21, 0));
        assert_same_tree(&served.path("tree"), &served.outside("dest"));
    }
}

#[test]
fn sending_goes_on_when_the_server_is_back() {
    let mut served = Served::new(&[]);
    let source = served.outside("source");
    write(&source.join("file"), &noise(SIZE, 1));
    for n in 0..20 {
        write(&source.join(format!("small/{n}")), &noise(5000, n));
    }
    served.write("source/gone", b"removed at the end, over the second connection");
    let mut client = served.client("send");
    client.args(["--delete", "--bwlimit", RATE]).arg(&source).arg(served.target(""));
    let child = start(&mut client);
    let part = served.path("source/.file.tack-part");
    wait_until(|| part.metadata().is_ok_and(|part| part.len() > 300_000));
    restart(&mut served, Signal::SIGTERM);
    let finished = finish(child).expect(0);
    assert!(finished.number("resumed_bytes") > 100_000, "{}", finished.summary);
    assert_eq!((finished.number("files"), finished.number("deleted")), (21, 1));
    assert_same_tree(&source, &served.path("source"));
}

/// A tree with a file that takes a while, and small ones.
fn fill(tree: &Path) {
    write(&tree.join("file"), &noise(SIZE, 1));
    for n in 0..20 {
        write(&tree.join(format!("small/{n}")), &noise(5000, n));
    }
}

/// Starts a transfer between `source` and `dest`, at either of which the server is.
fn start_between(served: &Served, sends: bool, options: &[&str]) -> (Child, PathBuf, PathBuf) {
    let mut client = served.client(if sends { "send" } else { "get" });
    client.args(["--bwlimit", RATE]).args(options);
    let (source, dest) = if sends {
        client.arg("tree").arg(served.target(""));
        (served.outside("tree"), served.path("tree"))
    } else {
        client.arg("-r").arg(served.target("tree")).arg("tree");
        (served.path("tree"), served.outside("tree"))
    };
    fill(&source);
    (start(&mut client), source, dest)
}

#[test]
fn nothing_is_deleted_that_was_there_before_the_connection_was_lost() {
    for (sends, options) in [(false, &["--delete"][..]), (true, &["--delete"]), (false, &[])] {
        let mut served = Served::new(&[]);
        let (child, source, dest) = start_between(&served, sends, options);
        let part = dest.join(".file.tack-part");
        let last = dest.join("small/19");
        wait_until(|| last.exists() && part.metadata().is_ok_and(|part| part.len() > 300_000));
        // As if a disk were not mounted yet.
        restart_after(&mut served, Signal::SIGKILL, || {
            fs::rename(&source, source.with_extension("away")).unwrap();
            fs::create_dir(&source).unwrap();
        });
        let finished = finish(child).expect(if sends { 5 } else { 6 });
        assert!(finished.errors.contains("before the connection was lost"));
        assert_eq!(finished.number("deleted"), 0, "{}", finished.summary);
        assert!(last.exists() && part.exists());
    }
}

#[test]
fn what_the_command_has_placed_is_not_taken_for_what_was_there() {
    if !rustix::process::geteuid().is_root() {
        common::skip("takes root");
        return;
    }
    for sends in [false, true] {
        let mut served = Served::new(&[]);
        let (mut source, mut dest) = (served.path("tree"), served.outside("tree"));
        if sends {
            std::mem::swap(&mut source, &mut dest);
        }
        fill(&source);
        for n in 0..20 {
            chown(source.join(format!("small/{n}")), Some(OWNER), Some(OWNER)).unwrap();
        }
        write(&dest.join("small/0"), b"was there");
        let options = ["-p", "--owner", "--ignore-existing"];
        let (child, _, _) = start_between(&served, sends, &options);
        let part = dest.join(".file.tack-part");
        let last = dest.join("small/19");
        wait_until(|| last.exists() && part.metadata().is_ok_and(|part| part.len() > 300_000));
        restart(&mut served, Signal::SIGKILL);
        let finished = finish(child).expect(0);
        assert!(finished.errors.contains("trying to connect again"), "{}", finished.errors);
        for n in 1..20 {
            let owner = dest.join(format!("small/{n}")).metadata().unwrap().uid();
            assert_eq!(owner, OWNER, "{n}, sends: {sends}");
        }
        assert_eq!((finished.number("kept"), finished.number("files")), (1, 20));
        assert_eq!(fs::read(dest.join("small/0")).unwrap(), b"was there");
        assert_ne!(dest.join("small/0").metadata().unwrap().uid(), OWNER);
    }
}

/// A fetch whose server is gone for good.
fn left_alone(served: &mut Served, arguments: &[&str]) -> Child {
    served.write("file", &noise(SIZE, 1));
    let mut client = served.client("get");
    client.args(["--bwlimit", RATE]).args(arguments).arg(served.target("file")).arg("dest");
    let child = start(&mut client);
    let part = served.outside(".dest.tack-part");
    wait_until(|| part.metadata().is_ok_and(|part| part.len() > 300_000));
    signal(&served.child, Signal::SIGTERM);
    served.child.wait().unwrap();
    child
}

#[test]
fn a_server_that_does_not_come_back_is_given_up_and_the_part_stays() {
    for (patience, tries) in [("0", false), ("2", true)] {
        let mut served = Served::new(&[]);
        let finished = finish(left_alone(&mut served, &["--retry", patience])).expect(3);
        assert!(finished.errors.contains("again to resume"), "{}", finished.errors);
        assert_eq!(finished.errors.contains("trying to connect again"), tries);
        let part = fs::read(served.outside(".dest.tack-part")).unwrap();
        assert!(noise(SIZE, 1).starts_with(&part));
    }
}

#[test]
fn waiting_for_a_server_can_be_interrupted() {
    let mut served = Served::new(&[]);
    let child = left_alone(&mut served, &[]);
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, Signal::SIGINT);
    finish(child).expect(8);
}
