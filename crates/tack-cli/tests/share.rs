//! `tack share` and `tack receive`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Finished, TACK, assert_same_tree, finish, noise, run, wait_until, write};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Somebody who shares, with a directory that has more in it than is shared.
struct Sharing {
    dir: tempfile::TempDir,
    child: Child,
    ticket: String,
}

impl Sharing {
    fn new(arguments: &[&str], paths: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mine = dir.path().join("mine");
        write(&mine.join("tree/large"), &noise(300_000, 1));
        write(&mine.join("tree/deep/small"), b"small");
        write(&mine.join("file"), &noise(200_000, 2));
        write(&mine.join("secret"), b"secret");
        write(&mine.join(".hidden"), b"hidden");
        fs::create_dir(dir.path().join("yours")).unwrap();
        let mut share = Command::new(TACK);
        share.args(["share", "--json", "--address", "127.0.0.1"]).args(arguments).args(paths);
        share.current_dir(mine).stdout(Stdio::piped());
        let mut child = share.spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("a line with the ticket");
        Self { dir, child, ticket: ready["ticket"].as_str().unwrap().to_owned() }
    }

    fn mine(&self, name: &str) -> PathBuf {
        self.dir.path().join("mine").join(name)
    }

    fn yours(&self, name: &str) -> PathBuf {
        self.dir.path().join("yours").join(name)
    }

    fn client(&self, command: &str) -> Command {
        let mut client = Command::new(TACK);
        client.args([command, "--json"]).current_dir(self.yours(""));
        client.env("TACK_CONFIG", "").env("XDG_STATE_HOME", self.dir.path().join("state"));
        client
    }

    fn receive(&self, arguments: &[&str]) -> Finished {
        run(self.client("receive").arg(&self.ticket).args(arguments))
    }

    /// Whether sharing has ended by itself, and how.
    fn ended(&mut self) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_file_is_received_with_nothing_but_the_ticket_and_sharing_ends() {
    let mut sharing = Sharing::new(&[], &["file"]);
    let received = sharing.receive(&[]).expect(0);
    assert_eq!(received.number("files"), 1);
    assert!(fs::read(sharing.yours("file")).unwrap() == noise(200_000, 2));
    assert_eq!(sharing.ended(), Some(0));
    let late = sharing.receive(&["again"]).expect(3);
    assert!(late.errors.contains("tack share has ended"), "{}", late.errors);
    assert!(!late.errors.contains("tack serve"), "{}", late.errors);
}

#[test]
fn who_only_looks_what_there_is_has_not_received_it() {
    let mut sharing = Sharing::new(&[], &["file"]);
    let looked = sharing.receive(&["--dry-run"]).expect(0);
    assert_eq!(looked.number("files"), 0);
    std::thread::sleep(Duration::from_millis(200));
    assert!(sharing.child.try_wait().unwrap().is_none(), "it goes on");
    sharing.receive(&[]).expect(0);
    assert_eq!(sharing.ended(), Some(0));
}

#[test]
fn who_leaves_something_out_has_not_received_it() {
    let mut sharing = Sharing::new(&[], &["tree"]);
    sharing.receive(&["-r", "--exclude", "*"]).expect(0);
    std::thread::sleep(Duration::from_millis(200));
    assert!(sharing.child.try_wait().unwrap().is_none(), "it goes on");
    sharing.receive(&["-r"]).expect(0);
    assert_same_tree(&sharing.mine("tree"), &sharing.yours("tree"));
    assert_eq!(sharing.ended(), Some(0));
}

#[test]
fn several_things_go_into_a_directory_under_their_names() {
    let mut sharing = Sharing::new(&[], &["file", "tree"]);
    sharing.receive(&["-r", "into"]).expect(0);
    assert_same_tree(&sharing.mine("tree"), &sharing.yours("into/tree"));
    assert!(fs::read(sharing.yours("into/file")).unwrap() == noise(200_000, 2));
    assert_eq!(sharing.ended(), Some(0));
}

#[test]
fn who_could_not_receive_everything_can_try_again() {
    let mut sharing = Sharing::new(&[], &["tree"]);
    sharing.receive(&[]).expect(2);
    // A file in the place of a directory.
    fs::write(sharing.yours("tree"), "in the way").unwrap();
    sharing.receive(&["-r"]).expect(5);
    fs::remove_file(sharing.yours("tree")).unwrap();
    assert!(sharing.child.try_wait().unwrap().is_none(), "it goes on");
    sharing.receive(&["-r"]).expect(0);
    assert_same_tree(&sharing.mine("tree"), &sharing.yours("tree"));
    assert_eq!(sharing.ended(), Some(0));
}

#[test]
fn a_ticket_gives_what_is_shared_and_nothing_beside_it() {
    let sharing = Sharing::new(&["--keep"], &["file", "tree/deep"]);
    sharing.receive(&["-r"]).expect(0);
    assert!(sharing.yours("file").exists() && sharing.yours("deep/small").exists());
    let ticket: tack_cli::ticket::Ticket = sharing.ticket.parse().unwrap();
    for (path, code) in [("secret", 6), ("tree/large", 6), ("", 6), ("tree", 6), ("file", 0)] {
        let mut get = sharing.client("get");
        get.arg("-r").args(["--fingerprint", &ticket.fingerprint.to_string()]);
        get.env("TACK_TOKEN", &ticket.token).arg(format!("{}/{path}", ticket.addresses[0]));
        run(get.arg("stolen")).expect(code);
    }
    let mut send = sharing.client("send");
    send.args(["--fingerprint", &ticket.fingerprint.to_string()]).arg("file");
    send.env("TACK_TOKEN", &ticket.token).arg(format!("{}/tree/deep/", ticket.addresses[0]));
    run(&mut send).expect(4);
}

#[test]
fn hidden_names_need_a_directory_that_is_named() {
    let sharing = Sharing::new(&["--keep"], &[".hidden"]);
    let refused = sharing.receive(&[]).expect(2);
    assert!(refused.errors.contains("name the directory"), "{}", refused.errors);
    sharing.receive(&["seen"]).expect(0);
    assert_eq!(fs::read(sharing.yours("seen")).unwrap(), b"hidden");
}

#[test]
fn sharing_that_is_interrupted_says_that_nobody_has_it() {
    let mut sharing = Sharing::new(&[], &["file"]);
    common::signal(&sharing.child, Signal::SIGINT);
    assert_eq!(sharing.ended(), Some(8));
}

#[test]
fn what_cannot_be_shared_is_told_at_once() {
    let mut share = Command::new(TACK);
    let missing = Path::new("no-such-file");
    let finished = run(share.arg("share").arg(missing)).expect(5);
    assert!(finished.errors.contains("no-such-file"), "{}", finished.errors);
    let dir = tempfile::tempdir().unwrap();
    let mut share = Command::new(TACK);
    share.arg("share").current_dir(dir.path());
    for number in 0..1000 {
        let name = format!("{number}-{}", "name".repeat(20));
        fs::write(dir.path().join(&name), "").unwrap();
        share.arg(name);
    }
    let finished = run(&mut share).expect(2);
    assert!(finished.errors.contains("share the directory"), "{}", finished.errors);
    let mut receive = Command::new(TACK);
    let finished = run(receive.args(["receive", "tack1-AAAA"])).expect(2);
    assert!(finished.errors.contains("copy all of it"), "{}", finished.errors);
}

#[test]
fn what_nobody_could_receive_is_not_shared() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("1/same"), b"1");
    write(&dir.path().join("2/same"), b"2");
    let share = |paths: &[&str]| {
        run(Command::new(TACK).args(["share", "--json"]).args(paths).current_dir(dir.path()))
    };
    let twice = share(&["1/same", "2/same"]).expect(2);
    assert!(twice.errors.contains("same: two of what is shared"), "{}", twice.errors);
}

#[test]
fn a_ticket_on_standard_input_shows_in_no_list_of_processes() {
    let mut sharing = Sharing::new(&["--keep"], &["file"]);
    let mut client = sharing.client("receive");
    client.args(["-", "dest"]).stdin(Stdio::piped());
    let mut child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let arguments = || fs::read_to_string(format!("/proc/{}/cmdline", child.id())).unwrap();
    wait_until(|| arguments().contains("receive"));
    assert!(!arguments().contains("tack1-"), "{}", arguments());
    let mut stdin = child.stdin.take().unwrap();
    // What follows the line is not read.
    write!(stdin, "{}\nmore\n", sharing.ticket).unwrap();
    finish(child).expect(0);
    assert!(fs::read(sharing.yours("dest")).unwrap() == noise(200_000, 2));
    for said in ["", "\n", "host:4433\n", "tack1-AAAA\n"] {
        let mut client = sharing.client("receive");
        client.args(["-", "never"]).stdin(Stdio::piped());
        let mut child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
        let refused = finish(child).expect(2);
        assert!(refused.errors.contains("ticket"), "{said:?}: {}", refused.errors);
    }
    assert!(sharing.child.try_wait().unwrap().is_none(), "it goes on");
}

#[test]
fn a_ticket_in_a_variable_leaves_the_place_to_receive_into() {
    let sharing = Sharing::new(&["--keep"], &["file"]);
    let receive = |arguments: &[&str]| {
        run(sharing.client("receive").env("TACK_TICKET", &sharing.ticket).args(arguments))
    };
    receive(&[]).expect(0);
    receive(&["dest"]).expect(0);
    for name in ["file", "dest"] {
        assert!(fs::read(sharing.yours(name)).unwrap() == noise(200_000, 2), "{name}");
    }
    // What is typed wins.
    receive(&["tack1-AAAA", "dest"]).expect(2);
    receive(&["one", "two"]).expect(2);
    for arguments in [&[][..], &["dest"]] {
        let mut client = sharing.client("receive");
        let refused = run(client.env_remove("TACK_TICKET").args(arguments)).expect(2);
        assert!(refused.errors.contains("ticket"), "{}", refused.errors);
    }
}

#[test]
fn what_is_printed_to_be_typed_keeps_the_ticket_out_of_the_arguments() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("file"), b"content");
    let mut share = Command::new(TACK);
    share.args(["share", "--address", "127.0.0.1", "file"]).current_dir(dir.path());
    let mut child = share.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.into_iter().find(|line| line.contains("tack1-")).unwrap();
    let typed = format!("PATH=\"$1:$PATH\"; {}", line.trim());
    let mut shell = Command::new("sh");
    shell.args(["-c", &typed, "-"]).arg(Path::new(TACK).parent().unwrap());
    shell.env("TACK_CONFIG", "").env("XDG_STATE_HOME", dir.path().join("state"));
    fs::create_dir(dir.path().join("yours")).unwrap();
    run(shell.current_dir(dir.path().join("yours"))).expect(0);
    assert_eq!(fs::read(dir.path().join("yours/file")).unwrap(), b"content");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (before, _) = line.split_once("tack1-").unwrap();
    assert!(before.ends_with("TACK_TICKET="), "{line}");
}

/// What `tack share` prints before it waits, and what it has said on standard error until it is ended.
fn share_for_people(paths: &[&str], receive: impl FnOnce(&Path, &str)) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("tree/small"), b"small");
    write(&dir.path().join("file"), b"file");
    let mut share = Command::new(TACK);
    share.args(["share", "--keep", "--address", "127.0.0.1"]).args(paths);
    share.current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = share.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("tack receive") {
        assert!(output.read_line(&mut printed).unwrap() > 0, "{printed}");
    }
    let ticket = printed.split("TACK_TICKET=").nth(1).unwrap().split(' ').next().unwrap();
    receive(dir.path(), ticket);
    common::signal(&child, Signal::SIGTERM);
    let errors = finish(child).errors;
    (printed, errors)
}

#[test]
fn what_share_prints_receives_directories_too() {
    let (printed, _) = share_for_people(&["tree", "file"], |dir, ticket| {
        let mut receive = Command::new(TACK);
        receive.args(["receive", "-r"]).env("TACK_TICKET", ticket).env("TACK_CONFIG", "");
        fs::create_dir(dir.join("yours")).unwrap();
        run(receive.current_dir(dir.join("yours"))).expect(0);
    });
    assert!(printed.contains(" tack receive -r\n"), "{printed}");
    let (printed, _) = share_for_people(&["file"], |_, _| {});
    assert!(printed.contains(" tack receive\n"), "{printed}");
}

#[test]
fn nobody_hears_of_paths_and_programs_that_are_not_his() {
    let mut heard = String::new();
    let (_, said) = share_for_people(&["tree", "file"], |dir, ticket| {
        let mut receive = Command::new(TACK);
        receive.args(["receive", "-r", ticket, "yours"]).env("TACK_CONFIG", "");
        let moved = dir.with_extension("moved");
        fs::rename(dir, &moved).unwrap();
        heard = run(receive.current_dir(&moved)).expect(6).errors;
        fs::rename(&moved, dir).unwrap();
    });
    assert!(heard.contains("shared anew") && !heard.contains("/tmp"), "{heard}");
    assert!(said.contains("share it anew") && !said.contains("tack serve"), "{said}");
}

#[test]
fn what_nobody_can_receive_is_not_shared() {
    for (shared, code) in [("/dev/null", 2), (".x.tack-part", 2), ("missing", 5)] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".x.tack-part"), "").unwrap();
        let mut share = Command::new(TACK);
        share.args(["share", shared]).current_dir(dir.path()).env("TACK_CONFIG", "");
        let refused = run(&mut share).expect(code);
        assert!(refused.errors.contains(shared), "{}", refused.errors);
    }
}

#[test]
fn a_port_that_is_taken_has_one_exit_code_for_all_who_listen() {
    let taken = std::net::UdpSocket::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let listen = format!("[::]:{port}");
    for arguments in [
        &["share", "--udp-port", &port, "file"][..],
        &["serve", "--no-token", "--identity", "identity", "--listen", &listen, "."],
    ] {
        let mut server = Command::new(TACK);
        server.args(arguments).current_dir(dir.path()).env("TACK_CONFIG", "");
        run(&mut server).expect(3);
    }
}
