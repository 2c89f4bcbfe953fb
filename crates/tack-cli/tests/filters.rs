//! Patterns that leave parts of a directory out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

use common::{Served, run, tree, write};

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
    write(&listed, b"# what others make\nbuild\n\n*.tmp\n");
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
