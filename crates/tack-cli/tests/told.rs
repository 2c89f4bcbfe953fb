//! What users are told is what happens: names and numbers of what is deleted, linked, transferred and kept.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Finished, Served, TACK, noise, run, signal, wait_until, write};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A source, a destination, and how the one is transferred into the other.
struct Pair {
    served: Served,
    sends: bool,
    source: PathBuf,
    dest: PathBuf,
}

impl Pair {
    fn new(sends: bool) -> Self {
        let served = Served::new(&[]);
        let (mut source, mut dest) = (served.path("tree"), served.outside("tree"));
        if sends {
            std::mem::swap(&mut source, &mut dest);
        }
        fs::create_dir(&source).unwrap();
        fs::create_dir(&dest).unwrap();
        Self { served, sends, source, dest }
    }

    fn both(test: impl Fn(&Self)) {
        for sends in [false, true] {
            test(&Self::new(sends));
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut client = self.served.client(if self.sends { "send" } else { "get" });
        client.args(arguments);
        if self.sends {
            client.arg(&self.source).arg(self.served.target(""));
        } else {
            client.arg("-r").arg(self.served.target("tree")).arg(&self.dest);
        }
        client
    }

    fn transfer(&self, arguments: &[&str]) -> Finished {
        run(&mut self.command(arguments))
    }

    /// Events and summary.
    fn told(&self, arguments: &[&str]) -> (Vec<Value>, Value) {
        told(self.command(arguments).arg("-v"))
    }

    fn source(&self, name: &str, content: &[u8]) {
        write(&self.source.join(name), content);
    }

    fn dest(&self, name: &str, content: &[u8]) {
        write(&self.dest.join(name), content);
    }
}

/// Events and summary of a client.
fn told(client: &mut Command) -> (Vec<Value>, Value) {
    lines(&client.output().unwrap().stdout)
}

fn lines(output: &[u8]) -> (Vec<Value>, Value) {
    let text = std::str::from_utf8(output).unwrap();
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap();
    (lines, summary)
}

/// The path of an event or a change; at a server, that of its directory may stand before it.
fn path_of(event: &Value) -> &str {
    let path = event["path"].as_str().unwrap();
    path.strip_prefix("./").unwrap_or(path)
}

/// The paths of all that has this outcome.
fn with_outcome<'a>(events: &'a [Value], outcome: &str) -> Vec<&'a str> {
    let found = events.iter().filter(|event| event["outcome"] == outcome);
    let mut paths: Vec<_> = found.map(path_of).collect();
    paths.sort_unstable();
    paths
}

/// The paths of all that is planned as this change.
fn planned<'a>(summary: &'a Value, change: &str) -> Vec<&'a str> {
    let changes = summary["plan"]["changes"].as_array().unwrap();
    let found = changes.iter().filter(|planned| planned["change"] == change);
    let mut paths: Vec<_> = found.map(path_of).collect();
    paths.sort_unstable();
    paths
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn what_makes_way_is_named_and_counted_as_deleted_and_a_dry_run_says_the_same() {
    Pair::both(|pair| {
        pair.source("small", b"a file now");
        pair.source("large", &noise(300_000, 1));
        pair.source("directory/deep/file", b"in a directory now");
        pair.dest("small/sub/one", b"1");
        pair.dest("small/.two.tack-part", b"2");
        pair.dest("large/three", b"3");
        pair.dest("directory", b"a file before");
        pair.dest("gone", b"extraneous");
        let expected = [
            "tree/directory",
            "tree/gone",
            "tree/large",
            "tree/large/three",
            "tree/small",
            "tree/small/.two.tack-part",
            "tree/small/sub",
            "tree/small/sub/one",
        ];
        let plan = pair.transfer(&["--delete", "-n"]).expect(0).summary;
        assert_eq!(planned(&plan, "deleted"), expected);
        let (events, summary) = pair.told(&["--delete"]);
        assert_eq!(with_outcome(&events, "deleted"), expected);
        assert_eq!(summary["deleted"], expected.len());
    });
}

#[test]
fn directories_that_make_way_for_files_of_one_batch_are_told_while_the_others_are_sent() {
    for limit in [&[][..], &["--bwlimit", "1M"]] {
        let pair = Pair::new(true);
        for n in 0..256 {
            pair.source(&format!("file{n:03}"), &noise(8000, n));
        }
        for n in [0, 1, 50, 100, 150, 255] {
            pair.dest(&format!("file{n:03}/inside"), b"in the way");
        }
        let done = pair.transfer(&[&["--delete"], limit].concat()).expect(0);
        assert_eq!((done.number("deleted"), done.number("files")), (12, 256));
        common::assert_same_tree(&pair.source, &pair.dest);
    }
}

#[test]
fn a_directory_that_takes_the_place_of_a_file_is_told_though_nothing_is_in_it() {
    Pair::both(|pair| {
        fs::create_dir(pair.source.join("empty")).unwrap();
        pair.dest("empty", b"a file before");
        let (events, summary) = pair.told(&["--delete"]);
        assert_eq!(with_outcome(&events, "deleted"), ["tree/empty"]);
        assert_eq!(summary["deleted"], 1);
    });
}

#[test]
fn a_dry_run_tells_sizes_of_what_is_deleted_and_counts_them_among_nothing() {
    Pair::both(|pair| {
        pair.source("new", b"12345");
        pair.dest("gone", b"1234567");
        pair.dest("sub/gone", b"12");
        let plan = pair.transfer(&["--delete", "-n"]).expect(0).summary["plan"].take();
        let changes = plan["changes"].as_array().unwrap();
        let size = |path: &str| {
            let found = changes.iter().find(|planned| path_of(planned) == path);
            found.unwrap()["bytes"].as_u64().unwrap()
        };
        assert_eq!((size("tree/gone"), size("tree/sub/gone"), size("tree/sub")), (7, 2, 0));
        assert_eq!((plan["bytes"].as_u64(), plan["deleted"].as_u64()), (Some(5), Some(3)));
    });
}

#[test]
fn a_dry_run_counts_links_as_links_and_a_file_with_two_names_once() {
    Pair::both(|pair| {
        pair.source("one", b"12");
        fs::hard_link(pair.source.join("one"), pair.source.join("two")).unwrap();
        symlink("one", pair.source.join("symbolic")).unwrap();
        let plan = pair.transfer(&["-p", "-n"]).expect(0).summary;
        let numbers = ["files", "bytes", "linked"].map(|name| plan["plan"][name].as_u64());
        assert_eq!(numbers, [Some(1), Some(2), Some(2)], "{plan}");
        let done = pair.transfer(&["-p"]).expect(0);
        assert_eq!(["files", "bytes", "linked"].map(|name| done.number(name)), [1, 2, 2]);
        let plan = pair.transfer(&["-p", "-n"]).expect(0).summary;
        let numbers = ["files", "bytes", "linked"].map(|name| plan["plan"][name].as_u64());
        assert_eq!(numbers, [Some(0), Some(0), Some(0)], "{plan}");
    });
}

#[test]
fn a_dry_run_fails_where_the_transfer_does() {
    Pair::both(|pair| {
        pair.source("pipe", b"content");
        fifo(&pair.dest.join("pipe"));
        pair.source("kept", b"newer");
        pair.dest("kept", b"old");
        pair.dest("kept~/inside", b"a directory");
        pair.source("full", b"content");
        pair.dest("full/inside", b"content");
        pair.source("devices", b"content");
        fs::create_dir(pair.dest.join("devices")).unwrap();
        fifo(&pair.dest.join("devices/pipe"));
        for (arguments, failed) in
            [(&["--backup"][..], 4), (&["--delete", "--backup"], 4), (&["--delete"], 2)]
        {
            let planned = pair.transfer(&[arguments, &["-n"]].concat());
            let done = pair.transfer(arguments);
            let numbers = (planned.number("failed"), done.number("failed"));
            assert_eq!(numbers, (failed, failed), "{}\n{}", planned.errors, done.errors);
            assert_eq!(planned.code, done.code);
        }
    });
}

#[test]
fn a_dry_run_through_a_pipe_or_device_is_planned_as_new_and_opens_nothing() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    fifo(&served.outside("pipe"));
    symlink("pipe", served.outside("link")).unwrap();
    for dest in ["/dev/null", "pipe", "link", "-"] {
        let mut get = served.client("get");
        let plan = run(get.arg("-n").arg(served.target("file")).arg(dest)).expect(0).summary;
        assert_eq!(planned(&plan, "new"), ["file"], "{dest}");
    }
    // In a directory, a pipe is in the way of a file.
    fs::create_dir(served.outside("into")).unwrap();
    fifo(&served.outside("into/file"));
    let mut get = served.client("get");
    run(get.arg("-n").arg(served.target("file")).arg("into/")).expect(5);
}

#[test]
fn a_dry_run_to_a_server_that_is_read_only_plans_nothing() {
    let served = Served::plain(&[]);
    for name in ["tree/a", "tree/b"] {
        write(&served.outside(name), b"content");
    }
    let send = |arguments: &[&str]| {
        let mut send = served.client("send");
        run(send.args(arguments).arg("tree").arg(served.target("")))
    };
    let (planned, done) = (send(&["-n"]), send(&[]));
    assert_eq!(planned.code, done.code);
    assert_eq!(planned.number("failed"), done.number("failed"), "{}", planned.errors);
    assert_eq!(planned.summary["plan"]["files"], 0, "{}", planned.summary);
}

/// Ends the server and starts another one with the same certificate on the same port.
fn restart(served: &mut Served) {
    signal(&served.child, Signal::SIGKILL);
    served.child.wait().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let mut program = Command::new(TACK);
    program.args(["serve", "--write", "--quiet", "--no-token", "--listen", &served.address]);
    program.arg("--identity").arg(served.outside("identity")).arg(served.path(""));
    served.child = program.stdout(Stdio::null()).spawn().unwrap();
}

#[test]
fn a_command_that_connects_again_tells_each_file_once_and_as_transferred() {
    for (sends, options) in [(false, &[][..]), (true, &[]), (true, &["-c"])] {
        let mut pair = Pair::new(sends);
        pair.source("large", &noise(4_000_000, 1));
        for n in 0..20 {
            pair.source(&format!("small/{n}"), &noise(5000, n));
        }
        symlink("large", pair.source.join("link")).unwrap();
        let mut command = pair.command(&[options, &["-v", "--bwlimit", "2M"]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (part, last) = (pair.dest.join(".large.tack-part"), pair.dest.join("small/19"));
        wait_until(|| last.exists() && part.metadata().is_ok_and(|part| part.len() > 300_000));
        std::thread::sleep(Duration::from_millis(300));
        restart(&mut pair.served);
        let output = child.wait_with_output().unwrap();
        let (events, summary) = lines(&output.stdout);
        let mut paths: Vec<_> =
            events.iter().map(|event| event["path"].as_str().unwrap()).collect();
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!((count, paths.len()), (22, 22), "{events:?}");
        assert_eq!(with_outcome(&events, "transferred").len(), 20, "{events:?}");
        let numbers =
            ["files", "equal", "failed", "skipped"].map(|name| summary[name].as_u64());
        assert_eq!(numbers, [Some(21), Some(0), Some(0), Some(1)], "{summary}");
        let digests = summary["digests"].as_array().unwrap();
        assert_eq!(digests.len(), 21);
        assert!(digests.iter().all(|file| file["blake3"].is_string()), "{summary}");
    }
}

#[test]
fn permissions_that_change_alone_are_told_and_planned() {
    Pair::both(|pair| {
        for name in ["changed", "same"] {
            pair.source(name, b"content");
        }
        let mode = |mode| {
            let path = pair.source.join("changed");
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        mode(0o644);
        pair.transfer(&["-p"]).expect(0);
        for (arguments, next) in [(&["-p"][..], 0o755), (&[], 0o700)] {
            mode(next);
            let plan = pair.transfer(&[arguments, &["-n"]].concat()).expect(0).summary;
            assert_eq!(planned(&plan, "attributes"), ["tree/changed"], "{plan}");
            assert_eq!(plan["plan"]["files"], 0);
            let (events, summary) = pair.told(arguments);
            assert_eq!(with_outcome(&events, "attributes"), ["tree/changed"], "{events:?}");
            assert_eq!(with_outcome(&events, "unchanged"), ["tree/same"], "{events:?}");
            assert_eq!((&summary["equal"], &summary["attributes"]), (&2.into(), &1.into()));
        }
    });
}

#[test]
fn what_is_not_deleted_has_an_event_and_a_number_and_the_reason_is_in_json() {
    Pair::both(|pair| {
        pair.source("file", b"content");
        fifo(&pair.dest.join("pipe"));
        let (events, summary) = pair.told(&["--delete"]);
        assert_eq!(with_outcome(&events, "not deleted"), ["tree/pipe"], "{events:?}");
        assert_eq!((&summary["not_deleted"], &summary["skipped"]), (&1.into(), &0.into()));
        // Where something fails, nothing is deleted.
        pair.dest("extraneous", b"stays");
        pair.source("pipe", b"cannot take its place");
        let (_, summary) = pair.told(&["--delete"]);
        let notes = summary["notes"].as_array().unwrap();
        let is_told =
            notes.iter().any(|note| note.as_str().unwrap().contains("nothing is deleted"));
        assert!(is_told, "{summary}");
        assert!(pair.dest.join("extraneous").exists());
    });
}

#[test]
fn a_transfer_of_nothing_has_a_line_and_what_fails_is_not_called_skipped() {
    let pair = Pair::new(false);
    let done = pair.transfer(&[]).expect(0);
    assert!(done.errors.contains("0 files"), "{}", done.errors);
    let pair = Pair::new(true);
    pair.source(".x.tack-part", b"a name that is kept for unfinished transfers");
    let done = pair.transfer(&[]);
    assert_eq!(done.number("failed") + done.number("skipped"), 1);
    let word = if done.number("failed") > 0 { "failed, " } else { "skipped, " };
    assert!(done.errors.contains(&format!(".x.tack-part: {word}")), "{}", done.errors);
}

#[test]
fn special_bits_that_are_lost_are_told_once_with_their_number() {
    Pair::both(|pair| {
        for (name, mode) in [("setuid", 0o4755), ("setgid", 0o2755), ("plain", 0o755)] {
            pair.source(name, b"content");
            let path = pair.source.join(name);
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        let done = pair.transfer(&["-p"]).expect(0);
        assert!(
            done.errors.contains("2 files have setuid, setgid or sticky bits"),
            "{}",
            done.errors
        );
        assert!(!pair.transfer(&[]).expect(0).errors.contains("setuid"));
    });
}

#[test]
fn zeros_become_holes_whatever_is_preserved() {
    Pair::both(|pair| {
        // With zeros at its end, too.
        let mut content = vec![0; 3_000_000];
        content[1_000_000..1_000_004].copy_from_slice(b"data");
        pair.source("sparse", &content);
        pair.source("small", &vec![0; 50_000]);
        pair.transfer(&[]).expect(0);
        for name in ["sparse", "small"] {
            assert!(
                fs::read(pair.dest.join(name)).unwrap()
                    == fs::read(pair.source.join(name)).unwrap()
            );
            let blocks = pair.dest.join(name).metadata().unwrap().blocks();
            assert!(blocks <= 16, "{name}: {blocks} blocks");
        }
    });
}
