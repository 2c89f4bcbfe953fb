//! What a destination is stays what it is: only regular files are replaced.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Served, TACK, finish, noise, run, write};

/// A client without `--json`, whose standard output is free.
fn plain(served: &Served) -> Command {
    let mut client = Command::new(TACK);
    client.args(["get", "--fingerprint", &served.fingerprint]);
    client.env("TACK_TOKEN", served.token.as_ref().unwrap()).current_dir(served.dir.path());
    client.arg(served.target("file"));
    client
}

#[test]
fn a_pipe_is_written_through_and_stays_a_pipe() {
    let served = Served::new(&[]);
    let content = noise(300_000, 1);
    served.write("file", &content);
    let fifo = served.outside("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut client = plain(&served);
    let child = client.arg(&fifo).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut received = Vec::new();
    File::open(&fifo).unwrap().read_to_end(&mut received).unwrap();
    finish(child).expect(0);
    assert!(received == content);
    assert!(fifo.symlink_metadata().unwrap().file_type().is_fifo());
}

#[test]
fn standard_output_is_written_to_whatever_it_is_called() {
    let served = Served::new(&[]);
    let content = noise(300_000, 1);
    served.write("file", &content);
    for name in ["-", "/dev/stdout", "out"] {
        if name == "out" {
            symlink("/dev/stdout", served.outside("out")).unwrap();
        }
        // A file behind it is appended to, as the shell's >> wants, and not replaced.
        let log = served.outside("log");
        fs::write(&log, "before").unwrap();
        let appended = File::options().append(true).open(&log).unwrap();
        let mut client = plain(&served);
        let child = client.arg(name).stdout(appended).stderr(Stdio::piped()).spawn().unwrap();
        finish(child).expect(0);
        assert!(fs::read(&log).unwrap() == [b"before", content.as_slice()].concat(), "{name}");
    }
    assert!(Path::new("/dev/stdout").symlink_metadata().unwrap().is_symlink());
    let mut client = served.client("get");
    run(client.arg(served.target("file")).arg("-")).expect(2);
}

#[test]
fn a_link_of_the_user_leads_to_the_file_that_is_replaced() {
    let served = Served::new(&[]);
    served.write("file", b"new");
    fs::create_dir(served.outside("sub")).unwrap();
    fs::write(served.outside("sub/file"), b"older").unwrap();
    symlink("sub/file", served.outside("link")).unwrap();
    symlink("/dev/null", served.outside("null")).unwrap();
    served.get("file", Path::new("link")).expect(0);
    assert!(served.outside("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::read(served.outside("sub/file")).unwrap(), b"new");
    let child = plain(&served).arg("null").stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    finish(child.unwrap()).expect(0);
    assert!(served.outside("null").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn a_link_on_the_server_that_is_refused_stays_and_counts_as_one_failure() {
    let served = Served::new(&[]);
    fs::create_dir(served.outside("elsewhere")).unwrap();
    symlink(served.outside("elsewhere"), served.path("up")).unwrap();
    fs::write(served.outside("mine"), "mine").unwrap();
    let finished = served.send(Path::new("mine"), "up").expect(4);
    assert!(finished.errors.contains("symbolic link"), "{}", finished.errors);
    assert_eq!(finished.number("failed"), 1);
    assert!(served.path("up").symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::read_dir(served.outside("elsewhere")).unwrap().count(), 0);
}

#[test]
fn options_may_stand_between_the_places() {
    let served = Served::new(&[]);
    for name in ["one", "two"] {
        write(&served.outside(name), name.as_bytes());
    }
    let mut client = served.client("send");
    client.arg(served.outside("one")).arg("--verbose").arg(served.outside("two"));
    run(client.args(["--retry", "1"]).arg(served.target(""))).expect(0);
    assert_eq!(fs::read(served.path("two")).unwrap(), b"two");
    let mut alone = served.client("send");
    let refused = run(alone.arg(served.target("")).arg("--verbose")).expect(2);
    assert!(refused.errors.contains("two are needed"), "{}", refused.errors);
}

#[test]
fn a_name_that_is_not_utf8_is_refused_and_no_other_one_is_made_up() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let odd = OsStr::from_bytes(b"odd\xff");
    let mut get = served.client("get");
    let refused = run(get.arg(served.target("file")).arg(served.outside("to/").join(odd)));
    assert!(refused.expect(2).errors.contains("UTF-8"));
    assert!(!served.outside("to").exists());
    let mut send = served.client("send");
    write(&served.outside("file"), b"content");
    let mut target = OsString::from(served.target("to/"));
    target.push(odd);
    let refused = run(send.arg("file").arg(&target)).expect(2);
    assert!(refused.errors.contains("UTF-8"), "{}", refused.errors);
    assert!(!served.path("to").exists());
}

#[test]
fn a_closed_standard_output_is_no_place_for_a_file() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let client = plain(&served);
    let run_with = |output: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" - {output}"), "-"]);
        shell.arg(client.get_program()).args(client.get_args());
        shell.env("TACK_TOKEN", served.token.as_ref().unwrap());
        run(shell.env("XDG_STATE_HOME", served.outside("state")))
    };
    let refused = run_with(">&-").expect(5);
    assert!(refused.errors.contains("closed"), "{}", refused.errors);
    run_with(">/dev/null").expect(0);
}
