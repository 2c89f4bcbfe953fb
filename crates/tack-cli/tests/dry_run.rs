//! `--dry-run`: what would be transferred, while nothing changes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use common::{Finished, Served, run, tree, write};

/// Path and change of each file that would be transferred.
fn changes(finished: &Finished) -> Vec<(String, String)> {
    let listed = finished.summary["plan"]["changes"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut changes: Vec<_> =
        listed.iter().map(|file| (text(&file["path"]), text(&file["change"]))).collect();
    changes.sort();
    changes
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(path, change)| ((*path).to_owned(), (*change).to_owned())).collect()
}

/// Two names in a source that differ from what the destination has, beside one that does not.
fn change_two(dir: &Path) {
    write(&dir.join("deep/changed"), b"longer than before");
    write(&dir.join("new"), b"new");
}

fn fill(dir: &Path) {
    for name in ["same", "deep/changed"] {
        write(&dir.join(name), b"content");
    }
}

fn dry(mut command: Command) -> Finished {
    run(command.arg("--dry-run"))
}

/// All that is there, with what is in it.
fn state(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    tree(dir)
}

#[test]
fn a_fetch_is_planned_and_then_done_as_planned() {
    let served = Served::new(&[]);
    fill(&served.path("tree"));
    let dest = served.outside("dest");
    let fetch = || {
        let mut command = served.client("get");
        command.arg("-r").arg(served.target("tree")).arg(&dest);
        command
    };
    let planned = dry(fetch()).expect(0);
    assert_eq!(changes(&planned), pairs(&[("tree/deep/changed", "new"), ("tree/same", "new")]));
    assert_eq!((planned.number("files"), planned.number("transferred_bytes")), (0, 0));
    assert!(!dest.exists());

    run(&mut fetch()).expect(0);
    change_two(&served.path("tree"));
    let before = state(&dest);
    let planned = dry(fetch()).expect(0);
    let expected = [("tree/deep/changed", "changed"), ("tree/new", "new")];
    assert_eq!(changes(&planned), pairs(&expected));
    assert_eq!((planned.number("files"), planned.number("equal")), (1, 1));
    assert_eq!(state(&dest), before);
    assert_eq!(run(&mut fetch()).expect(0).number("equal"), 1);
}

#[test]
fn sending_is_planned_and_then_done_as_planned() {
    let served = Served::new(&[]);
    let source = served.outside("tree");
    fill(&source);
    let send = || {
        let mut command = served.client("send");
        command.arg(&source).arg(served.target("in/"));
        command
    };
    let planned = dry(send()).expect(0);
    let expected = [("in/tree/deep/changed", "new"), ("in/tree/same", "new")];
    assert_eq!(changes(&planned), pairs(&expected));
    assert!(!served.path("in").exists());

    run(&mut send()).expect(0);
    change_two(&source);
    let before = state(&served.path("in"));
    let planned = dry(send()).expect(0);
    let expected = [("in/tree/deep/changed", "changed"), ("in/tree/new", "new")];
    assert_eq!(changes(&planned), pairs(&expected));
    assert_eq!(state(&served.path("in")), before);
    assert_eq!(run(&mut send()).expect(0).number("equal"), 1);
}

#[test]
fn a_plan_leaves_out_what_patterns_do_and_tells_of_single_files() {
    let served = Served::new(&[]);
    fill(&served.path("tree"));
    let mut command = served.client("get");
    command.args(["-r", "--exclude", "deep"]).arg(served.target("tree")).arg("dest");
    assert_eq!(changes(&dry(command).expect(0)), pairs(&[("tree/same", "new")]));

    fs::write(served.outside("same"), "7 bytes").unwrap();
    let mut command = served.client("get");
    command.arg(served.target("tree/same"));
    assert_eq!(changes(&dry(command).expect(0)), pairs(&[("tree/same", "compared")]));

    let mut command = served.client("send");
    command.arg("same").arg(served.target("elsewhere"));
    assert_eq!(changes(&dry(command).expect(0)), pairs(&[("elsewhere", "new")]));
}

#[test]
fn a_plan_for_people_has_a_line_for_each_file() {
    let served = Served::plain(&[]);
    write(&served.path("tree/file"), b"content");
    let command = served.client("get");
    let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    let mut plain = Command::new(command.get_program());
    plain.args(arguments.iter().filter(|argument| *argument != "--json"));
    plain.env("TACK_TOKEN", served.token.as_ref().unwrap());
    plain.current_dir(served.outside(""));
    plain.args(["-n", "-r"]).arg(served.target("tree")).arg("dest");
    let output = plain.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["new", "7", "B", "tree/file"]);
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(line.contains("1 file, 7 B would be transferred"), "{line}");
}

#[test]
fn a_single_file_that_is_there_with_size_and_time_is_unchanged() {
    let served = Served::new(&[]);
    served.write("there", b"content");
    served.get("there", &served.outside("here")).expect(0);
    for (command, from, to) in [
        ("get", served.target("there"), "here".to_owned()),
        ("send", "here".to_owned(), served.target("there")),
    ] {
        let planned = run(served.client(command).args(["-n", &from, &to])).expect(0);
        assert_eq!(planned.summary["plan"]["files"].as_u64(), Some(0), "{command}");
        assert_eq!(planned.number("equal"), 1, "{command}");
    }
    let missing = run(served.client("send").args(["missing", &served.target("x")])).expect(5);
    assert_eq!(missing.summary["exit_code"].as_u64(), Some(5), "it is summed up all the same");
}

#[test]
fn what_is_left_alone_at_the_server_is_told_once() {
    let served = Served::new(&[]);
    fs::create_dir(served.outside("source")).unwrap();
    served.write("source/.x.tack-part", b"");
    served.write("source/gone", b"1");
    let send = |arguments: &[&str]| {
        let mut command = served.client("send");
        command.args(arguments).args(["-p", "--delete", "source"]).arg(served.target(""));
        run(&mut command).expect(0).number("skipped")
    };
    let planned = send(&["-n"]);
    assert_eq!(planned, send(&[]));
}

/// Three files of one size: one is the same, one has another time and the same content, one the same time and another
/// content.
fn three_alike(dir: &Path, other: &[u8], seconds: u64) {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    for (name, content, seconds) in [
        ("deep/same", b"content".as_slice(), 1_000_000_000),
        ("deep/later", b"content", seconds),
        ("edited", other, 1_000_000_000),
    ] {
        write(&dir.join(name), content);
        let file = fs::File::options().write(true).open(dir.join(name)).unwrap();
        file.set_modified(at(seconds)).unwrap();
    }
}

#[test]
fn content_decides_what_a_dry_run_with_checksum_says() {
    let served = Served::new(&[]);
    three_alike(&served.path("tree"), b"CONTENT", 1_000_000_000);
    three_alike(&served.outside("tree"), b"content", 1_000_000_001);
    let get = |name: &str, dest: &str| {
        let mut command = served.client("get");
        command.args(["-r", "--preserve"]).arg(served.target(name)).arg(served.outside(dest));
        command
    };
    let send = |name: &str, dest: &str| {
        let mut command = served.client("send");
        command.arg("--preserve").arg(served.outside(name)).arg(served.target(dest));
        command
    };
    let by_content = |mut command: Command| {
        command.arg("--checksum");
        let planned = dry(command).expect(0);
        (changes(&planned), planned.number("equal"))
    };
    let before = (state(&served.path("tree")), state(&served.outside("tree")));

    let planned = dry(get("tree", "tree")).expect(0);
    assert_eq!(changes(&planned), pairs(&[("tree/deep/later", "changed")]));
    let (planned, equal) = by_content(get("tree", "tree"));
    assert_eq!((planned, equal), (pairs(&[("tree/edited", "changed")]), 2));
    let (planned, equal) = by_content(send("tree", ""));
    assert_eq!((planned, equal), (pairs(&[("tree/edited", "changed")]), 2));

    let (planned, equal) = by_content(get("tree/edited", "tree/edited"));
    assert_eq!((planned, equal), (pairs(&[("tree/edited", "changed")]), 0));
    let (planned, equal) = by_content(send("tree/edited", "tree/edited"));
    assert_eq!((planned, equal), (pairs(&[("tree/edited", "changed")]), 0));
    let (planned, equal) = by_content(get("tree/deep/later", "tree/deep/later"));
    assert_eq!((planned, equal), (vec![], 1));
    let (planned, equal) = by_content(send("tree/deep/later", "tree/deep/later"));
    assert_eq!((planned, equal), (vec![], 1));
    assert_eq!((state(&served.path("tree")), state(&served.outside("tree"))), before);

    let mut plain = send("tree", "");
    plain.args(["--checksum", "--dry-run"]);
    let words = run(&mut plain).expect(0).summary["digests"].as_array().unwrap().clone();
    assert!(
        words.len() == 2 && words.iter().all(|file| file["blake3"].is_string()),
        "{words:?}"
    );

    // And then it is done so.
    let mut done = send("tree", "");
    let done = run(done.arg("--checksum")).expect(0);
    assert_eq!((done.number("equal"), done.number("transferred_bytes")), (2, 7));
}

#[test]
fn a_file_that_a_dry_run_cannot_compare_is_a_failure() {
    /// Nobody, as whom a test of root's can meet a file that is closed.
    const NOBODY: u32 = 65534;
    let served = Served::new(&[]);
    three_alike(&served.path("tree"), b"content", 1_000_000_000);
    three_alike(&served.outside("tree"), b"content", 1_000_000_000);
    let compare = || {
        let mut command = served.client("get");
        command.args(["-r", "--checksum"]).arg(served.target("tree"));
        command.arg(served.outside("tree"));
        command
    };
    assert_eq!(dry(compare()).expect(0).number("equal"), 3);
    if served.path("tree").metadata().unwrap().uid() != 0 {
        common::skip("only root can be somebody else");
        return;
    }
    for (name, mode) in [
        ("", 0o755),
        ("tree", 0o755),
        ("tree/deep", 0o755),
        ("tree/edited", 0o644),
        ("tree/deep/later", 0o644),
        ("tree/deep/same", 0),
    ] {
        fs::set_permissions(served.outside(name), fs::Permissions::from_mode(mode)).unwrap();
        chown(served.outside(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut command = compare();
    command.uid(NOBODY).gid(NOBODY);
    let planned = dry(command);
    assert_eq!(planned.code, Some(5), "{}", planned.errors);
    assert_eq!(planned.number("failed"), 1, "{}", planned.errors);
    assert!(planned.errors.contains("tree/deep/same"), "{}", planned.errors);
}

#[test]
fn a_dry_run_finds_out_that_the_server_is_read_only() {
    let served = Served::plain(&[]);
    fill(&served.outside("tree"));
    let send = || {
        let mut command = served.client("send");
        command.arg(served.outside("tree")).arg(served.target(""));
        command
    };
    let (planned, done) = (dry(send()), run(&mut send()));
    assert_eq!(planned.code, done.code, "{}", planned.errors);
    assert_eq!(planned.number("failed"), done.number("failed"));
    assert!(planned.errors.contains("read-only"), "{}", planned.errors);
}

#[test]
fn a_plan_that_cannot_be_printed_is_a_failure() {
    let served = Served::new(&[]);
    served.write("tree/file", b"content");
    let dry_run_into = |output: &str| {
        let mut client = Command::new(common::TACK);
        client.args(["get", "-n", "-r", "--fingerprint", &served.fingerprint]);
        client.env("TACK_TOKEN", served.token.as_ref().unwrap()).env("TACK_CONFIG", "");
        client.env("XDG_STATE_HOME", served.outside("state"));
        client.arg(served.target("tree")).arg(served.outside("dest"));
        let output = fs::File::options().write(true).open(output).unwrap();
        client.stdout(output).stderr(std::process::Stdio::piped());
        common::finish(client.spawn().unwrap())
    };
    let failed = dry_run_into("/dev/full").expect(5);
    assert!(failed.errors.contains("standard output"), "{}", failed.errors);
    dry_run_into("/dev/null").expect(0);
}

/// What is in the way in the place of something else, and what is transferred there.
#[test]
fn a_plan_fails_where_what_is_there_would_be_in_the_way() {
    let served = Served::new(&[]);
    let dir = served.outside("");
    write(&served.outside("A/b"), b"content");
    fs::create_dir(served.outside("A/sub")).unwrap();
    write(&served.outside("ff"), b"content");
    let served_dir = served.path("");
    fs::create_dir(served.path("A")).unwrap();
    symlink("nowhere", served.path("A/b")).unwrap();
    served.write("B/A/sub", b"in the way");
    fs::create_dir_all(served.path("d/ff")).unwrap();
    served.write("C/A", b"in the way");
    served.write("top/f", b"content");
    fs::create_dir_all(served.path("top/void")).unwrap();
    write(&served.outside("lf"), b"in the way");
    write(&served.outside("voids/void"), b"in the way");
    fs::create_dir_all(served.outside("ld/f")).unwrap();
    for (command, source, dest, code) in [
        ("send", "A", served.target(""), 4),
        ("send", "A", served.target("B/"), 6),
        ("send", "A", served.target("C/"), 6),
        ("send", "ff", served.target("d"), 6),
        ("get", "top", "lf".to_owned(), 5),
        ("get", "top", "voids".to_owned(), 5),
        ("get", "top/f", "ld".to_owned(), 5),
        ("get", "top/f", "lf/f".to_owned(), 5),
    ] {
        let client = || {
            let mut client = served.client(command);
            if command == "get" {
                client.arg("-r").arg(served.target(source));
            } else {
                client.arg(source);
            }
            client.arg(&dest);
            client
        };
        let before = (names(&dir), names(&served_dir));
        let planned = dry(client());
        assert_eq!(before, (names(&dir), names(&served_dir)));
        let done = run(&mut client());
        assert_eq!(done.code, Some(code), "{source} to {dest}: {}", done.errors);
        assert_eq!(planned.code, done.code, "{source} to {dest}: {}", planned.errors);
        assert_eq!(
            planned.summary["failed"], done.summary["failed"],
            "{} {}",
            planned.errors, done.errors
        );
    }
}

/// Everything below a directory, links among it.
fn names(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        if path.is_dir() && !path.is_symlink() && !path.ends_with("state") {
            found.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    // What a client keeps of servers.
    found.retain(|path| !path.ends_with("state"));
    found.sort();
    found
}
