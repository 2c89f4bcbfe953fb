//! Patterns that leave parts of a directory out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::{Finished, Served, finish, run, tree, write};
use tack_endpoint::{Endpoint, EndpointConfig, Event};
use tack_transfer::{Digest, quic};

/// Nobody, as whom a test of root's can meet a directory that is closed.
const NOBODY: u32 = 65534;

const NAMES: [&str; 5] =
    ["photo.jpg", "note.tmp", "build/out.jpg", "src/main.rs", "src/build/deep.rs"];

fn fill(dir: &Path) {
    for name in NAMES {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, name.as_bytes());
    }
}

/// The files below a directory.
fn files(dir: &Path) -> Vec<String> {
    let entries = tree(dir).into_iter().filter(|(_, content)| content.is_some());
    let mut names: Vec<_> =
        entries.map(|(path, _)| path.to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_is_excluded_is_neither_fetched_nor_sent_nor_made() {
    let served = Served::new(&[]);
    let photos = served.path("photos");
    fill(&photos);
    let dest = served.outside("fetched");
    let patterns = ["--exclude", "/build", "--exclude", "*.tmp"];
    run(served.client("get").arg("-r").args(patterns).arg(served.target("photos")).arg(&dest))
        .expect(0);
    assert_eq!(files(&dest), ["photo.jpg", "src/build/deep.rs", "src/main.rs"]);
    assert!(!dest.join("build").exists());

    let listed = served.outside("patterns");
    write(&listed, b"\xef\xbb\xbfbuild\n# what others make\n\n*.tmp\n");
    let mut send = served.client("send");
    send.args(["--include", "note.tmp", "--exclude-from"]).arg(&listed);
    run(send.arg(&photos).arg(served.target("sent/"))).expect(0);
    assert_eq!(files(&served.path("sent/photos")), ["note.tmp", "photo.jpg", "src/main.rs"]);
    assert!(!served.path("sent/photos/build").exists());
}

#[test]
fn a_pattern_that_makes_no_sense_is_refused_before_anything_is_moved() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let dest = served.outside("fetched");
    let finished = run(served
        .client("get")
        .args(["-r", "--exclude", "x[z-a]"])
        .arg(served.target(""))
        .arg(&dest))
    .expect(2);
    assert!(finished.errors.contains("x[z-a]"), "{}", finished.errors);
    assert!(!dest.exists());
}

#[test]
fn names_that_begin_with_a_class_of_characters_are_neither_sent_nor_deleted() {
    let served = Served::new(&[]);
    let source = served.outside("tree");
    for name in ["1.key", "a", "]"] {
        write(&source.join(name), b"content");
    }
    served.write("tree/2.key", b"protected");
    let patterns = ["--exclude", "[[:digit:]].*", "--exclude", "[\\]]"];
    let mut send = served.client("send");
    run(send.args(patterns).arg("--delete").arg(&source).arg(served.target(""))).expect(0);
    assert_eq!(files(&served.path("tree")), ["2.key", "a"]);
    for pattern in ["[[:digits:]]", "[[:digit:]"] {
        let mut send = served.client("send");
        send.args(["--exclude", pattern]).arg(&source).arg(served.target(""));
        let refused = run(&mut send).expect(2);
        assert!(refused.errors.contains(pattern), "{}", refused.errors);
    }
}

#[test]
fn a_pattern_on_the_command_line_is_no_comment_and_keeps_its_blanks() {
    for sends in [false, true] {
        let served = Served::new(&[]);
        let (mut source, mut dest) = (served.path("tree"), served.outside("tree"));
        if sends {
            std::mem::swap(&mut source, &mut dest);
        }
        for name in ["stays", "also ", "not"] {
            write(&source.join(name), b"content");
        }
        for name in ["#x", "b ", "gone"] {
            write(&dest.join(name), b"content");
        }
        let mut client = served.client(if sends { "send" } else { "get" });
        client.args(["--delete", "--exclude", "#x", "--exclude", "b ", "--exclude", "*o*"]);
        client.args(["--include", "also ", "--include", "gone"]);
        if sends {
            client.arg("tree").arg(served.target(""));
        } else {
            client.arg("-r").arg(served.target("tree")).arg("tree");
        }
        run(&mut client).expect(0);
        assert_eq!(files(&dest), ["#x", "also ", "b ", "stays"]);
    }
}

#[test]
fn what_the_server_cannot_list_is_no_failure_if_it_is_excluded() {
    use std::os::unix::ffi::OsStrExt;
    let mut program = std::process::Command::new(common::TACK);
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("served/tree");
    write(&tree.join("file"), b"content");
    write(&tree.join(std::ffi::OsStr::from_bytes(b"odd\xff")), b"content");
    write(&tree.join("deep/secret/file"), b"content");
    let closed = tree.join("deep/secret");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o0)).unwrap();
    if rustix::process::geteuid().is_root() {
        for path in [dir.path(), closed.as_path()] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        program.uid(NOBODY).gid(NOBODY);
    }
    let served = Served::in_dir(dir, program, "127.0.0.1:0", &[]);
    for dry_run in [&["-n"][..], &[]] {
        let get = |options: &[&str]| {
            let mut client = served.client("get");
            client.args(["-r", "--delete"]).args(options).args(dry_run);
            run(client.arg(served.target("tree")).arg("dest"))
        };
        get(&[]).expect(6);
        get(&["--exclude", "secret"]).expect(6);
        get(&["--exclude", "secret/", "--exclude", "odd*"]).expect(0);
        get(&["--exclude", "/deep", "--exclude", "odd*"]).expect(0);
    }
    let opened = PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(served.path("tree/deep/secret"), opened).unwrap();
}

/// The content of every file of [`with_listing_of`].
const CONTENT: &[u8] = b"content";

/// What `tack get -r` makes of a server that lists `group` and has [`CONTENT`] under each name that is asked for.
fn with_listing_of(served: &Served, group: &str, arguments: &[&str]) -> Finished {
    let identity = served.outside("identity/identity.pem");
    let config = quic::server_config(tacklib::Profile::Off, &identity, &identity).unwrap();
    let local = "127.0.0.1:0".parse().unwrap();
    let mut server = Endpoint::server(local, config, EndpointConfig::default()).unwrap();
    let mut client = served.client("get");
    client.arg("-r").args(arguments).arg(format!("{}/tree", server.local_addr())).arg("dest");
    let mut child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        server.poll(Some(Duration::from_millis(20))).unwrap();
        while let Some(event) = server.next_event() {
            if let Event::Connected(handle) | Event::Activity(handle) = event
                && let Some(connection) = server.connection_mut(handle)
            {
                answer(connection, group);
            }
        }
        server.flush().unwrap();
    }
    finish(child)
}

/// Answers requests, each of which fits into a packet.
fn answer(connection: &mut tacklib::Connection, group: &str) {
    for stream in connection.readable() {
        let mut buffer = [0; 4096];
        let Ok((length, _)) = connection.stream_recv(stream, &mut buffer) else { continue };
        if length == 0 {
            // The end of what is answered already.
            continue;
        }
        let asked = String::from_utf8_lossy(&buffer[..length]);
        let control = |json: &str| frame(0, json.as_bytes());
        let answers = if asked.contains("\"list\"") {
            let kind = control("{\"entry\":{\"kind\":{\"directory\":{\"mode\":493}}}}");
            let listed = control(&format!("{{\"manifest\":[{group}]}}"));
            [kind, listed, control("\"end-of-list\"")].concat()
        } else if asked.contains("\"get-many\"") {
            let size = (CONTENT.len() as u32).to_be_bytes();
            let (number, kind, time, mode) = ([0; 4], [0], [0; 12], 0o644_u32.to_be_bytes());
            let digest = Digest::of(CONTENT);
            let head = [&number[..], &kind, &size, &time, &mode, digest.as_bytes()].concat();
            [frame(2, &[&head, CONTENT].concat()), control("\"end-of-bundles\"")].concat()
        } else {
            Vec::new()
        };
        let sent = connection.stream_send(stream, &answers, true).unwrap();
        assert_eq!(sent, answers.len());
    }
}

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind][..], &(content.len() as u32).to_be_bytes(), content].concat()
}

#[test]
fn a_server_cannot_name_anything_into_a_directory_that_is_excluded() {
    let served = Served::new(&[]);
    let dest = served.outside("dest");
    let file = |name| {
        format!("{{\"directory\":\"\",\"modes\":[493],\"files\":[[\"{name}\",7,0,0,420]]}}")
    };
    let exclude = ["--preserve", "--exclude", "secret/"];
    with_listing_of(&served, &file("x"), &exclude).expect(0);
    assert_eq!(std::fs::read(dest.join("x")).unwrap(), CONTENT);
    let link = "{\"directory\":\"\",\"modes\":[493],\"files\":[],\
                \"links\":[[\"secret/x\",\"target\",{\"seconds\":0,\"nanos\":0}]]}";
    std::fs::create_dir(dest.join("secret")).unwrap();
    for group in [&file("secret/x"), link] {
        for dry_run in [&["-n"][..], &[]] {
            let finished = with_listing_of(&served, group, &[&exclude[..], dry_run].concat());
            assert_ne!(finished.code, Some(0), "{group}: {}", finished.errors);
            assert!(finished.errors.contains("broke the protocol"), "{}", finished.errors);
            assert!(dest.join("secret/x").symlink_metadata().is_err(), "{group}");
        }
    }
}
