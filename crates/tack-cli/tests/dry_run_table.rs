//! A dry run ends like the transfer that it plans, and names the same things.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use common::{Served, write};
use serde_json::Value;

/// Nobody, as whom a test of root's can meet a directory that is closed.
const NOBODY: u32 = 65534;

/// What a client has told: its exit code, and what has become of each path, or would.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    code: Option<i32>,
    outcomes: BTreeSet<(String, String)>,
}

fn told(client: &mut Command) -> (Told, String) {
    let output = client.arg("-v").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap_or_default();
    let planned = summary["plan"]["changes"].as_array().cloned().unwrap_or_default();
    let mut outcomes = BTreeSet::new();
    let planned = planned.iter().map(|line| (line, "change"));
    for (line, key) in lines.iter().map(|line| (line, "outcome")).chain(planned) {
        let outcome = match line[key].as_str().unwrap() {
            // The time of a directory alone is not planned.
            "attributes" => continue,
            "transferred" | "updated" | "new" | "changed" | "compared" => "moved",
            other => other,
        };
        outcomes.insert((line["path"].as_str().unwrap().to_owned(), outcome.to_owned()));
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (Told { code: output.status.code(), outcomes }, errors)
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Runs a transfer dry, and then in earnest, after `fill` has made a source and a destination: there, and from there. The
/// exit codes of these have to be the `codes`.
#[track_caller]
fn same(arguments: &[&str], codes: [i32; 2], fill: impl Fn(&Path, &Path)) {
    for (sends, code) in [true, false].into_iter().zip(codes) {
        let served = Served::new(&[]);
        let (mut source, mut dest) = (served.path("tree"), served.outside("tree"));
        if sends {
            std::mem::swap(&mut source, &mut dest);
        }
        fs::create_dir(&source).unwrap();
        fs::create_dir(&dest).unwrap();
        fill(&source, &dest);
        let client = || {
            let mut client = served.client(if sends { "send" } else { "get" });
            client.args(arguments);
            if sends {
                client.arg(&source).arg(served.target(""));
            } else {
                client.arg("-r").arg(served.target("tree")).arg(&dest);
            }
            client
        };
        compare(client, code, &format!("{arguments:?}, sends: {sends}"));
    }
}

#[track_caller]
fn compare(client: impl Fn() -> Command, code: i32, what: &str) {
    let (planned, plan_errors) = told(client().arg("-n"));
    let (done, errors) = told(&mut client());
    assert_eq!(planned, done, "{what}\nplanned: {plan_errors}\ndone: {errors}");
    assert_eq!(done.code, Some(code), "{what}\ndone: {errors}");
}

#[test]
fn links_in_the_place_of_something_else() {
    // A directory that stays full, with everything or with a part of it.
    same(&["-p"], [6, 5], |source, dest| {
        symlink("nowhere", source.join("l")).unwrap();
        write(&dest.join("l/file"), b"in the way");
    });
    same(&["-p", "--delete", "--backup"], [6, 5], |source, dest| {
        symlink("nowhere", source.join("l")).unwrap();
        write(&dest.join("l/file"), b"is kept, and so is in the way");
    });
    same(&["-p", "--delete"], [0, 0], |source, dest| {
        symlink("nowhere", source.join("l")).unwrap();
        write(&dest.join("l/sub/file"), b"goes");
        write(&dest.join("l/file"), b"goes");
        fs::create_dir(dest.join("void")).unwrap();
    });
    same(&["-p"], [0, 0], |source, dest| {
        symlink("nowhere", source.join("l")).unwrap();
        fs::create_dir(dest.join("l")).unwrap();
    });
    for arguments in [&["-p"][..], &["-p", "--delete"]] {
        same(arguments, [6, 5], |source, dest| {
            symlink("nowhere", source.join("l")).unwrap();
            pipe(&dest.join("l"));
        });
    }
    same(&["-p", "--backup"], [6, 5], |source, dest| {
        symlink("nowhere", source.join("l")).unwrap();
        write(&dest.join("l"), b"would be kept");
        write(&dest.join("l~/file"), b"in the way");
    });
    for arguments in [["-p", "--ignore-existing"], ["-p", "--update"]] {
        same(&arguments, [0, 0], |source, dest| {
            symlink("nowhere", source.join("l")).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            write(&dest.join("l/file"), b"stays");
        });
    }
}

#[test]
fn links_in_directories_that_cannot_be_made() {
    for arguments in [&["-p"][..], &["-p", "--delete"]] {
        same(arguments, [6, 5], |source, dest| {
            fs::create_dir_all(source.join("d/e")).unwrap();
            symlink("nowhere", source.join("d/l")).unwrap();
            symlink("nowhere", source.join("d/e/l")).unwrap();
            pipe(&dest.join("d"));
        });
    }
    same(&["-p", "--delete"], [0, 0], |source, dest| {
        fs::create_dir_all(source.join("d/e")).unwrap();
        symlink("nowhere", source.join("d/l")).unwrap();
        write(&dest.join("d"), b"makes way");
    });
}

#[test]
fn links_that_are_right_are_named() {
    same(&["-p"], [0, 0], |source, dest| {
        for name in ["right", "other"] {
            symlink("nowhere", source.join(name)).unwrap();
        }
        let copied = Command::new("cp").arg("-a").arg(source.join("right")).arg(dest).status();
        assert!(copied.unwrap().success());
        symlink("nowhere", dest.join("other")).unwrap();
    });
}

#[test]
fn pipes_make_no_way() {
    same(&["--delete"], [6, 5], |source, dest| {
        write(&source.join("d/file"), b"content");
        write(&source.join("d/e/file"), b"content");
        write(&source.join("f"), b"content");
        pipe(&dest.join("d"));
        pipe(&dest.join("f"));
    });
    same(&["--delete"], [6, 5], |source, dest| {
        write(&source.join("f"), b"content");
        write(&dest.join("f/file"), b"stays with the pipe");
        pipe(&dest.join("f/pipe"));
    });
}

#[test]
fn what_makes_way_is_listed_with_what_is_in_it() {
    same(&["--delete"], [0, 0], |source, dest| {
        write(&source.join("f"), b"content");
        write(&dest.join("f/sub/file"), b"goes");
        write(&dest.join("f/.x.tack-part"), b"goes");
        symlink("nowhere", dest.join("f/link")).unwrap();
        write(&dest.join("other"), b"goes");
    });
    // Whatever fails.
    same(&["--delete"], [6, 5], |source, dest| {
        write(&source.join("f"), b"content");
        write(&dest.join("f/sub/file"), b"goes");
        write(&source.join("fails"), b"content");
        pipe(&dest.join("fails"));
        write(&dest.join("other"), b"stays");
    });
}

#[test]
fn what_cannot_be_kept_under_another_name() {
    same(&["--delete", "--backup"], [6, 5], |source, dest| {
        write(&source.join("a"), b"content");
        write(&dest.join("b"), b"would be removed");
        fs::create_dir(dest.join("b~")).unwrap();
    });
    same(&["--backup"], [6, 5], |source, dest| {
        write(&source.join("a"), b"changed content");
        fs::create_dir(source.join("a~")).unwrap();
        write(&dest.join("a"), b"content");
    });
}

#[test]
fn sources_of_one_name() {
    let served = Served::new(&[]);
    write(&served.outside("d/f"), b"content");
    write(&served.outside("f"), b"other content");
    let client = || {
        let mut client = served.client("send");
        client.args(["d/.", "f"]).arg(served.target("in/"));
        client
    };
    compare(client, 5, "two of one name");
}

#[test]
fn named_files_do_not_replace_links() {
    let served = Served::new(&[]);
    served.write("there", b"content");
    served.write("target", b"stays");
    write(&served.outside("here"), b"another");
    symlink("target", served.path("link")).unwrap();
    fs::create_dir(served.outside("in")).unwrap();
    symlink("../here", served.outside("in/there")).unwrap();
    for arguments in [&[][..], &["-p"]] {
        let client = |command: &str, from: String, to: String| {
            let mut client = served.client(command);
            client.args(arguments).args([from, to]);
            client
        };
        let send = || client("send", "here".to_owned(), served.target("link"));
        compare(send, 4, "send over a link");
        let get = || client("get", served.target("there"), "in/".to_owned());
        compare(get, 5, "get over a link");
        // What is given as the destination is followed.
        let get = || client("get", served.target("there"), "in/there".to_owned());
        compare(get, 0, "get through a link");
    }
    for link in [served.path("link"), served.outside("in/there")] {
        assert!(link.is_symlink());
    }
    for (command, from, to) in [
        ("send", "here".to_owned(), served.target("link")),
        ("get", served.target("there"), "in/".to_owned()),
    ] {
        let client = || {
            let mut client = served.client(command);
            client.args(["-p", "--ignore-existing", &from, &to]);
            client
        };
        compare(client, 0, "what is there stays");
    }
}

#[test]
fn places_where_nothing_can_be_made() {
    let served = Served::new(&[]);
    served.write("tree/file", b"content");
    symlink("nowhere", served.outside("dangling")).unwrap();
    let get = |what: &str, to: &str| {
        let mut client = served.client("get");
        client.arg("-r").arg(served.target(what)).arg(to);
        client
    };
    for (what, to) in [
        ("tree", "dangling"),
        ("tree", "dangling/below"),
        ("tree/file", "dangling"),
        ("tree/file", "dangling/file"),
    ] {
        compare(|| get(what, to), 5, to);
    }
    if !rustix::process::geteuid().is_root() {
        common::skip("only root can be somebody else");
        return;
    }
    chown(served.outside(""), Some(NOBODY), Some(NOBODY)).unwrap();
    for (name, owner, mode) in [("closed", NOBODY, 0o555), ("others", 0, 0o755)] {
        fs::create_dir(served.outside(name)).unwrap();
        fs::create_dir(served.outside(&format!("{name}/d"))).unwrap();
        write(&served.outside(&format!("{name}/d/file")), b"another");
        for below in ["/d/file", "/d", ""] {
            let path = served.outside(&format!("{name}{below}"));
            chown(&path, Some(owner), Some(owner)).unwrap();
            let mode = if path.is_dir() { mode } else { 0o644 };
            set_mode(&path, mode);
        }
    }
    let as_nobody = |what: &str, to: &str| {
        let mut client = get(what, to);
        client.uid(NOBODY).gid(NOBODY);
        client
    };
    for (what, to, code) in [
        ("tree", "closed/new", 5),
        ("tree", "closed/new/below", 5),
        ("tree/file", "closed/new", 5),
        ("tree/file", "closed/d/file", 5),
        ("tree", "others/new", 5),
        ("tree", "others/d", 5),
        ("tree", "closed/d", 0),
    ] {
        compare(|| as_nobody(what, to), code, &format!("{what} to {to}"));
    }
}

#[test]
fn a_large_file_that_is_there_in_a_closed_directory() {
    let served = Served::new(&[]);
    served.write("tree/large", &vec![7; 1 << 20]);
    let dest = served.outside("dest");
    served.get_tree("tree", &dest).expect(0);
    set_mode(&dest, 0o555);
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        for path in [served.outside(""), dest.clone(), dest.join("large")] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    for (what, to, code) in [("tree", "dest", 0), ("tree/large", "dest/large", 0)] {
        let client = || {
            let mut client = served.client("get");
            client.args(["-r", "-c"]).arg(served.target(what)).arg(to);
            if is_root {
                client.uid(NOBODY).gid(NOBODY);
            }
            client
        };
        compare(client, code, what);
    }
}

#[test]
fn several_failures_end_with_the_highest_code_whichever_comes_first() {
    let served = Served::new(&[]);
    let source = served.outside("tree");
    for n in 0..6 {
        write(&source.join(format!("d{n}/f")), b"in a directory");
        write(&source.join(format!("l{n}")), b"file");
        served.write(&format!("tree/d{n}"), b"no directory");
        symlink("nowhere", served.path(&format!("tree/l{n}"))).unwrap();
    }
    let client = || {
        let mut client = served.client("send");
        client.arg(&source).arg(served.target(""));
        client
    };
    for _ in 0..5 {
        compare(client, 6, "a link is refused, and something is no directory");
    }
}

/// Sends or fetches `file` between `tree` and the closed directory `tree` of somebody who is not root.
struct Closed {
    served: Served,
    sends: bool,
    source: PathBuf,
    dest: PathBuf,
}

impl Closed {
    fn new(sends: bool, size: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (mut source, mut dest) = (dir.path().join("served/tree"), dir.path().join("tree"));
        if sends {
            std::mem::swap(&mut source, &mut dest);
        }
        for directory in [&source, &dest] {
            write(&directory.join("file"), &vec![7; size]);
        }
        let is_root = rustix::process::geteuid().is_root();
        let paths =
            [dir.path().to_owned(), dir.path().join("served"), dest.clone(), dest.join("file")];
        for path in paths.into_iter().filter(|_| is_root) {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        set_mode(&dest, 0o555);
        let mut program = Command::new(common::TACK);
        if is_root && sends {
            program.uid(NOBODY).gid(NOBODY);
        }
        let served = Served::in_dir(dir, program, "127.0.0.1:0", &["--write"]);
        Self { served, sends, source, dest }
    }

    fn run(&self, options: &[&str]) -> Option<i32> {
        let mut client = self.served.client(if self.sends { "send" } else { "get" });
        client.args(options);
        if self.sends {
            client.arg("tree/file").arg(self.served.target("tree/file"));
        } else {
            client.arg(self.served.target("tree/file")).arg("tree/file");
            if rustix::process::geteuid().is_root() {
                client.uid(NOBODY).gid(NOBODY);
            }
        }
        common::run(&mut client).code
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        set_mode(&self.dest, 0o755);
    }
}

#[test]
fn a_file_that_is_there_in_a_closed_directory_needs_nothing_of_it() {
    for (sends, size) in [(false, 5), (false, 300_000), (true, 5), (true, 300_000)] {
        for options in [&["-c"][..], &[]] {
            let closed = Closed::new(sends, size);
            let touched = UNIX_EPOCH + Duration::from_secs(1_000_000);
            let source = fs::File::open(closed.source.join("file")).unwrap();
            source.set_modified(touched).unwrap();
            let before = closed.dest.metadata().unwrap().modified().unwrap();
            let codes = [closed.run(&[options, &["-n"]].concat()), closed.run(options)];
            assert_eq!(codes, [Some(0); 2], "{options:?}, {size} bytes, sends: {sends}");
            assert_eq!(closed.dest.metadata().unwrap().modified().unwrap(), before);
            let there = closed.dest.join("file").metadata().unwrap();
            assert_eq!(there.modified().unwrap(), touched, "{options:?}, {size}, {sends}");
            // Another content has no place there, which only the receiver knows.
            write(&closed.source.join("file"), &vec![8; size]);
            if !sends {
                let codes = [closed.run(&[options, &["-n"]].concat()), closed.run(options)];
                assert_eq!(codes, [Some(5); 2], "{options:?}, {size} bytes");
            }
        }
    }
}

#[test]
fn permissions_of_directories_are_planned() {
    for sends in [true, false] {
        let served = Served::new(&[]);
        let (mut source, mut dest) = (served.path("tree"), served.outside("tree"));
        if sends {
            std::mem::swap(&mut source, &mut dest);
        }
        for (above, mode) in [(&source, 0o755), (&dest, 0o700)] {
            fs::create_dir_all(above.join("d")).unwrap();
            set_mode(&above.join("d"), mode);
            set_mode(above, 0o755);
        }
        let plan = |arguments: &[&str]| {
            let mut client = served.client(if sends { "send" } else { "get" });
            client.arg("-n").args(arguments);
            if sends {
                client.arg(&source).arg(served.target(""));
            } else {
                client.arg("-r").arg(served.target("tree")).arg(&dest);
            }
            common::run(&mut client).expect(0)
        };
        let planned = plan(&["-p"]);
        let changes = planned.summary["plan"]["changes"].as_array().unwrap();
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(
            (&changes[0]["path"], &changes[0]["change"]),
            (&"tree/d".into(), &"attributes".into())
        );
        assert!(plan(&[]).summary["plan"]["changes"][0].is_null());
        let planned = plan(&["-p", "--owner"]);
        assert!(
            planned.errors.contains("owners and extended attributes"),
            "{}",
            planned.errors
        );
    }
}
