//! What programs are told of each file, and of what has failed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{Served, TACK, run, wait_until, write};
use serde_json::Value;

const NOBODY: u32 = 65534;

/// Exit code, events and summary of a client.
fn told(client: &mut Command) -> (Option<i32>, Vec<Value>, Value) {
    let output = client.arg("-v").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap();
    (output.status.code(), lines, summary)
}

/// Path and outcome of each event, in order of the paths.
fn outcomes(events: &[Value]) -> Vec<(&str, &str)> {
    let mut outcomes: Vec<_> = events
        .iter()
        .map(|event| (event["path"].as_str().unwrap(), event["outcome"].as_str().unwrap()))
        .collect();
    outcomes.sort_unstable();
    outcomes
}

/// A server whose files another user than root serves, as root reads everything.
fn served_by_nobody(fill: impl FnOnce(&Path)) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("served");
    fs::create_dir(&tree).unwrap();
    fill(&tree);
    let mut program = Command::new(TACK);
    if rustix::process::geteuid().is_root() {
        let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(dir.path()).status();
        assert!(owned.unwrap().success());
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        program.uid(NOBODY).gid(NOBODY);
    }
    Served::in_dir(dir, program, "127.0.0.1:0", &["--write"])
}

fn close(path: &Path) {
    fs::set_permissions(path, PermissionsExt::from_mode(0o0)).unwrap();
}

#[test]
fn each_file_that_fails_has_an_event_with_its_own_path() {
    let served = Served::new(&[]);
    for name in ["t/d/a", "t/d/b", "t/d/c", "t/e"] {
        served.write(name, b"content");
    }
    write(&served.outside("here/d"), b"in the way");
    let mut get = served.client("get");
    let (code, events, summary) = told(get.arg("-r").arg(served.target("t")).arg("here"));
    let expected =
        [("t/d/a", "failed"), ("t/d/b", "failed"), ("t/d/c", "failed"), ("t/e", "transferred")];
    assert_eq!(outcomes(&events), expected);
    assert_eq!((code, summary["failed"].as_u64()), (Some(5), Some(3)));
    assert!(summary["errors"][0].as_str().unwrap().contains(" and 2 others: "));
    fs::remove_file(served.path("t/d/c")).unwrap();
    let mut get = served.client("get");
    let (_, _, summary) = told(get.arg("-r").arg(served.target("t")).arg("here"));
    assert!(summary["errors"][0].as_str().unwrap().contains(" and 1 other: "));
}

#[test]
fn what_is_left_out_has_an_event() {
    let served = served_by_nobody(|tree| {
        write(&tree.join("t/file"), b"content");
        write(&tree.join("t").join(OsStr::from_bytes(b"odd\xff")), b"content");
        fs::create_dir(tree.join("t/closed")).unwrap();
        symlink("file", tree.join("t/link")).unwrap();
        close(&tree.join("t/closed"));
    });
    let mut get = served.client("get");
    let (code, events, summary) = told(get.arg("-r").arg(served.target("t")).arg("here"));
    let expected = [
        ("t/closed", "failed"),
        ("t/file", "transferred"),
        ("t/link", "skipped"),
        ("t/odd\u{fffd}", "failed"),
    ];
    assert_eq!(outcomes(&events), expected);
    assert_eq!((code, summary["failed"].as_u64()), (Some(6), Some(2)));
    assert_eq!(summary["skipped"], 1);

    // The same from this end.
    let source = served.outside("source");
    write(&source.join(OsStr::from_bytes(b"odd\xff")), b"content");
    symlink("file", source.join("link")).unwrap();
    let mut send = served.client("send");
    let (code, events, _) = told(send.arg(&source).arg(served.target("in/")));
    let expected = [("in/source/link", "skipped"), ("in/source/odd\u{fffd}", "failed")];
    assert_eq!(outcomes(&events), expected);
    assert_eq!(code, Some(5));
}

#[test]
fn what_the_server_may_not_open_is_an_error_of_its_disk_and_told_as_its_own() {
    let served = served_by_nobody(|tree| {
        for name in ["t/small", "large", "small"] {
            let length = if name == "large" { 1 << 20 } else { 10 };
            write(&tree.join(name), &vec![0; length]);
            close(&tree.join(name));
        }
        fs::create_dir(tree.join("closed")).unwrap();
        close(&tree.join("closed"));
        write(&tree.join("in/s"), b"in the way");
    });
    write(&served.outside("s/file"), b"content");
    for name in ["small", "large", "t", "closed/file"] {
        let mut get = served.client("get");
        run(get.arg("-r").arg(served.target(name)).arg("here")).expect(6);
    }
    let source = served.outside("s");
    run(served.client("send").arg(&source).arg(served.target("closed/"))).expect(6);
    run(served.client("send").arg(&source).arg(served.target("in/"))).expect(6);
    let errors = || -> Vec<String> {
        let events = served.events();
        let errors = events.iter().filter_map(|event| event["error"].as_str());
        errors.map(str::to_owned).collect()
    };
    wait_until(|| errors().len() >= 6);
    assert!(errors().iter().all(|error| !error.contains("other side")), "{:?}", errors());
}
