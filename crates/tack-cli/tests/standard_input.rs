//! Standard input that becomes a file at the server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use common::{Finished, Served, TACK, finish, noise, run};

fn start(served: &Served, arguments: &[&str]) -> Child {
    let mut client = served.client("send");
    client.args(arguments);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends `content`, in pieces that do not fill a frame.
fn send(served: &Served, content: &[u8], arguments: &[&str]) -> Finished {
    let mut child = start(served, arguments);
    let mut stdin = child.stdin.take().unwrap();
    for piece in content.chunks(10_007) {
        // A client that refuses reads nothing.
        if stdin.write_all(piece).is_err() {
            break;
        }
    }
    drop(stdin);
    finish(child)
}

#[test]
fn standard_input_arrives_whatever_its_length() {
    let served = Served::new(&[]);
    for length in [0, 1, 1_000_003] {
        let content = noise(length, 1);
        let target = served.target(&format!("deep/{length}"));
        let finished = send(&served, &content, &["-", &target]).expect(0);
        assert_eq!((finished.number("files"), finished.number("bytes")), (1, length as u64));
        assert!(fs::read(served.path(&format!("deep/{length}"))).unwrap() == content);
    }
}

#[test]
fn what_is_there_is_replaced_at_the_end_only_and_kept_if_so_wanted() {
    let served = Served::new(&[]);
    served.write("name", b"before");
    let mut child = start(&served, &["--backup", "-", &served.target("name")]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&noise(300_000, 1)).unwrap();
    while !served.path(".name.tack-part").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(fs::read(served.path("name")).unwrap(), b"before");
    drop(stdin);
    finish(child).expect(0);
    assert!(fs::read(served.path("name")).unwrap() == noise(300_000, 1));
    assert_eq!(fs::read(served.path("name~")).unwrap(), b"before");
}

#[test]
fn a_client_that_is_killed_leaves_no_file_under_the_name() {
    let served = Served::new(&[]);
    let mut child = start(&served, &["-", &served.target("name")]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&noise(300_000, 1)).unwrap();
    while !served.path(".name.tack-part").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
    // The next one starts over, whatever the first has left.
    send(&served, b"second", &["-", &served.target("name")]).expect(0);
    assert_eq!(fs::read(served.path("name")).unwrap(), b"second");
    assert!(!served.path(".name.tack-part").exists());
}

#[test]
fn what_is_cut_short_leaves_nothing_and_is_not_said_to_be_resumed() {
    let served = Served::new(&[]);
    let mut child = start(&served, &["-", &served.target("name")]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&noise(300_000, 1)).unwrap();
    let part = served.path(".name.tack-part");
    common::wait_until(|| part.exists());
    common::signal(&child, nix::sys::signal::Signal::SIGTERM);
    let ended = finish(child).expect(8);
    assert!(ended.errors.contains("begin again"), "{}", ended.errors);
    common::wait_until(|| !part.exists());
    drop(stdin);
}

#[test]
fn what_makes_no_sense_with_standard_input_is_refused() {
    let served = Served::new(&[]);
    fs::write(served.outside("file"), "1").unwrap();
    let target = served.target("name");
    let directory = served.target("dir/");
    for arguments in [
        &["-", "file", &target][..],
        &["-n", "-", &target],
        &["--update", "-", &target],
        &["-", &directory],
    ] {
        let finished =
            run(served.client("send").args(arguments).stdin(Stdio::null())).expect(2);
        assert!(finished.errors.contains("standard input"), "{}", finished.errors);
    }
    fs::create_dir(served.path("there")).unwrap();
    send(&served, b"content", &["-", &served.target("there")]).expect(6);
    assert_eq!(fs::read_dir(served.path("")).unwrap().count(), 1);
}

#[test]
fn a_closed_standard_input_is_no_empty_file() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let mut client = served.client("send");
    client.args(["-", &served.target("file")]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec \"$@\" <&-", "-"])
        .arg(client.get_program())
        .args(client.get_args());
    for (name, value) in client.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let refused = run(&mut shell).expect(2);
    assert!(refused.errors.contains("closed"), "{}", refused.errors);
    assert_eq!(fs::read(served.path("file")).unwrap(), b"content");
    run(client.stdin(Stdio::null())).expect(0);
    assert_eq!(fs::read(served.path("file")).unwrap(), b"", "that is an empty file");
}

#[test]
fn standard_input_has_no_permissions_that_could_be_preserved() {
    let mut server = Command::new("sh");
    server.args(["-c", "umask 027 && exec \"$@\"", "-", TACK]);
    let served = Served::with_program(server, &["--write"]);
    let file = served.path("name");
    let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    let target = served.target("name");
    send(&served, b"new", &["-p", "-", &target]).expect(0);
    assert_eq!(mode(), 0o640);
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    send(&served, b"newer", &["-p", "-", &target]).expect(0);
    assert_eq!((mode(), fs::read(&file).unwrap()), (0o600, b"newer".to_vec()));
    // As the configuration file says it for every transfer.
    let config = served.outside("config.toml");
    fs::write(&config, "[send]\npreserve = true\n").unwrap();
    let mut client = served.client("send");
    client.env("TACK_CONFIG", &config).args(["-", &served.target("other")]);
    run(client.stdin(Stdio::null())).expect(0);
    let other = fs::metadata(served.path("other")).unwrap().permissions().mode();
    assert_eq!(other & 0o777, 0o640);
}
