//! What goes beyond copying: removals, files that stay, files that are kept under another name.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use common::{Finished, Served, finish, noise, run, tree, wait_until, write};

/// A source, a destination, and how the one is transferred into the other.
struct Pair {
    served: Served,
    sends: bool,
    source: PathBuf,
    dest: PathBuf,
}

impl Pair {
    /// The server has the destination (`sends`), or the source.
    fn new(sends: bool, server: &[&str]) -> Self {
        let served = Served::new(server);
        let (mut source, mut dest) = (served.path("tree"), served.outside("tree"));
        if sends {
            std::mem::swap(&mut source, &mut dest);
        }
        fs::create_dir(&source).unwrap();
        fs::create_dir(&dest).unwrap();
        Self { served, sends, source, dest }
    }

    fn both(server: &[&str], test: impl Fn(&Self)) {
        for sends in [false, true] {
            test(&Self::new(sends, server));
        }
    }

    fn transfer(&self, arguments: &[&str]) -> Finished {
        let mut client = self.served.client(if self.sends { "send" } else { "get" });
        client.args(arguments);
        self.add_places(&mut client);
        run(&mut client)
    }

    fn add_places(&self, client: &mut Command) {
        if self.sends {
            client.arg(&self.source).arg(self.served.target(""));
        } else {
            client.arg("-r").arg(self.served.target("tree")).arg(&self.dest);
        }
    }

    fn source(&self, name: &str, content: &[u8]) {
        write(&self.source.join(name), content);
    }

    fn dest(&self, name: &str, content: &[u8]) {
        write(&self.dest.join(name), content);
    }

    /// The names at the destination.
    fn names(&self) -> Vec<String> {
        names(&self.dest)
    }
}

fn names(dir: &Path) -> Vec<String> {
    tree(dir).into_iter().map(|(path, _)| path.to_str().unwrap().to_owned()).collect()
}

/// Nobody, as whom a test of root's can meet a directory that is closed.
const NOBODY: u32 = 65534;

fn modify(path: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn what_the_source_no_longer_has_is_removed_and_a_dry_run_shows_it() {
    Pair::both(&[], |pair| {
        pair.source("a/one", b"1");
        pair.source("top", b"t");
        pair.dest("a/gone", b"x");
        pair.dest("b/c/deep", b"x");
        pair.dest("gone", b"x");
        fs::write(pair.dest.parent().unwrap().join("outside"), "stays").unwrap();
        symlink("../outside", pair.dest.join("link")).unwrap();
        symlink("..", pair.dest.join("up")).unwrap();
        let before = names(&pair.dest.join("b"));
        let planned = pair.transfer(&["--delete", "-n"]).expect(0);
        assert_eq!(planned.summary["plan"]["deleted"], 7, "{}", planned.summary);
        assert_eq!(planned.summary["plan"]["files"], 2);
        assert_eq!(names(&pair.dest.join("b")), before);
        assert!(pair.dest.join("gone").exists());

        let done = pair.transfer(&["--delete"]).expect(0);
        assert_eq!(done.number("deleted"), 7);
        assert_eq!(pair.names(), ["a", "a/one", "top"]);
        assert!(pair.dest.parent().unwrap().join("outside").exists());
        assert_eq!(pair.transfer(&["--delete"]).expect(0).number("deleted"), 0);
    });
}

#[test]
fn what_is_excluded_is_not_removed() {
    Pair::both(&[], |pair| {
        pair.source("top", b"t");
        pair.source("new.tmp", b"excluded");
        pair.dest("cache/deep/file", b"x");
        pair.dest("old.tmp", b"x");
        pair.dest("sub/old.tmp", b"x");
        pair.dest("sub/gone", b"x");
        pair.transfer(&["--delete", "--exclude", "*.tmp", "--exclude", "/cache"]).expect(0);
        let expected =
            ["cache", "cache/deep", "cache/deep/file", "old.tmp", "sub", "sub/old.tmp", "top"];
        assert_eq!(pair.names(), expected);
    });
}

#[test]
fn nothing_is_removed_after_an_error() {
    Pair::both(&[], |pair| {
        pair.source("good", b"1");
        // Its name can't cross the wire: what the source has is not known for certain.
        write(&pair.source.join(OsStr::from_bytes(b"odd\xff")), b"1");
        pair.dest("gone", b"x");
        let finished = pair.transfer(&["--delete"]);
        assert_ne!(finished.code, Some(0));
        assert!(finished.errors.contains("nothing is deleted"), "{}", finished.errors);
        assert_eq!(pair.names(), ["gone", "good"]);
        let planned = pair.transfer(&["--delete", "-n"]);
        assert_eq!(planned.summary["plan"]["deleted"], 0);
    });
}

#[test]
fn nothing_is_removed_where_the_source_is_not_there() {
    let pair = Pair::new(false, &[]);
    pair.dest("gone", b"x");
    fs::remove_dir(&pair.source).unwrap();
    pair.transfer(&["--delete"]).expect(6);
    assert_eq!(pair.names(), ["gone"]);
}

#[test]
fn names_that_the_source_has_and_does_not_transfer_are_not_removed() {
    Pair::both(&[], |pair| {
        pair.source("good", b"1");
        symlink("anywhere", pair.source.join("link")).unwrap();
        pair.dest("link", b"what it was before");
        let finished = pair.transfer(&["--delete"]).expect(0);
        assert_eq!(finished.number("skipped"), 1);
        assert_eq!(pair.names(), ["good", "link"]);
    });
}

#[test]
fn nothing_is_removed_where_what_was_transferred_has_another_name() {
    Pair::both(&[], |pair| {
        pair.source("R.E.M./a", b"song");
        pair.source("large", &noise(4_000_000, 1));
        pair.dest("gone", b"x");
        let mut client = pair.served.client(if pair.sends { "send" } else { "get" });
        client.args(["--delete", "--bwlimit", "1M"]);
        pair.add_places(&mut client);
        let child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| pair.dest.join("R.E.M./a").exists());
        // As a file system does that leaves out dots at the end.
        fs::rename(pair.dest.join("R.E.M."), pair.dest.join("R.E.M")).unwrap();
        let finished = finish(child);
        assert!(matches!(finished.code, Some(5 | 6)), "{}", finished.errors);
        assert!(finished.errors.contains("2 names"), "{}", finished.errors);
        assert_eq!(finished.number("failed"), 1, "{}", finished.errors);
        assert_eq!(pair.names(), ["R.E.M", "R.E.M/a", "gone", "large"]);
        fs::rename(pair.dest.join("R.E.M"), pair.dest.join("R.E.M.")).unwrap();
        pair.transfer(&["--delete"]).expect(0);
        assert_eq!(pair.names(), ["R.E.M.", "R.E.M./a", "large"]);
    });
}

#[test]
fn directories_that_go_to_different_places_are_each_rid_of_what_they_do_not_have() {
    let served = Served::new(&[]);
    for name in ["one", "two"] {
        write(&served.outside(name).join("file"), name.as_bytes());
        served.write(&format!("all/{name}/gone/x"), b"x");
    }
    served.write("all/three/stays", b"x");
    fs::write(served.outside("file"), "beside them").unwrap();
    let mut send = served.client("send");
    send.args(["--delete", "one", "two", "file"]).arg(served.target("all"));
    assert_eq!(run(&mut send).expect(0).number("deleted"), 4);
    let left = ["file", "one", "one/file", "three", "three/stays", "two", "two/file"];
    assert_eq!(names(&served.path("all")), left);
}

#[test]
fn a_server_without_permission_to_write_removes_nothing() {
    let served = Served::plain(&[]);
    write(&served.path("tree/gone"), b"x");
    fs::create_dir(served.outside("tree")).unwrap();
    let mut send = served.client("send");
    let finished = run(send.args(["--delete", "tree"]).arg(served.target(""))).expect(4);
    assert!(finished.errors.contains("read-only"), "{}", finished.errors);
    assert!(served.path("tree/gone").exists());
}

#[test]
fn two_trees_into_one_place_do_not_remove_each_other() {
    let served = Served::new(&[]);
    for name in ["one", "two"] {
        write(&served.outside(name).join(name), name.as_bytes());
        fs::create_dir(served.outside(name).join("sub")).unwrap();
    }
    served.write("all/gone", b"x");
    let mut send = served.client("send");
    run(send.args(["--delete", "one/sub/..", "two/sub/.."]).arg(served.target("all")))
        .expect(0);
    assert_eq!(names(&served.path("all")), ["one", "sub", "two"]);
}

/// What the source has, the destination has as something else.
fn of_other_kinds(pair: &Pair) {
    pair.source("was_directory", b"small");
    pair.source("was_directory_too", &noise(300_000, 9));
    pair.source("was_file/deep/file", b"deep");
    pair.source("was_link/file", b"below");
    symlink("was_file", pair.source.join("link")).unwrap();
    pair.dest("was_directory/sub/old", b"old");
    pair.dest("was_directory_too/.old.tack-part", b"old");
    pair.dest("was_file", b"old");
    pair.dest("link/old", b"old");
    pair.dest("elsewhere/kept", b"kept");
    symlink(pair.dest.join("elsewhere"), pair.dest.join("was_link")).unwrap();
}

#[test]
fn what_is_of_another_kind_makes_way_where_the_rest_is_deleted() {
    Pair::both(&[], |pair| {
        of_other_kinds(pair);
        pair.source("elsewhere/kept", b"kept");
        pair.transfer(&["--preserve", "--delete", "-n"]).expect(0);
        pair.transfer(&["--preserve", "--delete"]).expect(0);
        assert_eq!(tree(&pair.dest), tree(&pair.source));
        assert_eq!(fs::read_link(pair.dest.join("link")).unwrap(), Path::new("was_file"));
        assert_eq!(names(&pair.dest.join("elsewhere")), ["kept"], "nothing through the link");
        let again = pair.transfer(&["--preserve", "--delete"]).expect(0);
        let numbers = ["linked", "deleted", "transferred_bytes"].map(|name| again.number(name));
        assert_eq!(numbers, [0, 0, 0], "{}", again.summary);
    });
}

#[test]
fn what_is_of_another_kind_stays_where_nothing_is_deleted_or_something_is_excluded() {
    Pair::both(&[], |pair| {
        of_other_kinds(pair);
        let before = tree(&pair.dest.join("was_directory"));
        for arguments in [&["-p"][..], &["-p", "--delete", "--exclude", "*.no"]] {
            let planned = pair.transfer(&[arguments, &["-n"]].concat());
            let done = pair.transfer(arguments);
            assert_ne!(done.code, Some(0));
            assert_ne!(planned.code, Some(0));
            assert_eq!(planned.number("failed"), done.number("failed"));
            assert!(done.errors.contains("a directory has this name"), "{}", done.errors);
            assert_eq!(tree(&pair.dest.join("was_directory")), before);
            assert_eq!(fs::read(pair.dest.join("was_file")).unwrap(), b"old");
            assert!(pair.dest.join("was_link").is_symlink());
        }
        let files_failed = pair.transfer(&["-p"]).number("failed");
        // Files of two directories, two files in the place of directories, and a link.
        assert_eq!(files_failed, 5);
        let backup = pair.transfer(&["-p", "--delete", "--backup"]);
        assert!(backup.errors.contains("can't be kept"), "{}", backup.errors);
        assert_eq!(tree(&pair.dest.join("was_directory")), before);
        assert_eq!(fs::read(pair.dest.join("was_file~")).unwrap(), b"old");
        assert_eq!(fs::read(pair.dest.join("was_file/deep/file")).unwrap(), b"deep");
    });
}

#[test]
fn only_what_is_below_a_directory_that_is_transferred_makes_way() {
    let pair = Pair::new(true, &[]);
    pair.source("file", b"file");
    pair.served.write("over", b"a file");
    pair.served.write("into/file/inside", b"inside");
    for (source, target) in [("tree", "over/deep"), ("tree/file", "into/")] {
        let mut send = pair.served.client("send");
        let done = run(send.args(["--delete", source]).arg(pair.served.target(target)));
        assert_ne!(done.code, Some(0));
    }
    assert_eq!(fs::read(pair.served.path("over")).unwrap(), b"a file");
    assert_eq!(fs::read(pair.served.path("into/file/inside")).unwrap(), b"inside");
}

#[test]
fn what_the_source_has_and_does_not_transfer_stays_with_all_that_is_in_it() {
    Pair::both(&[], |pair| {
        symlink("anywhere", pair.source.join("current")).unwrap();
        let fifo = Command::new("mkfifo").arg(pair.source.join("fifo")).status().unwrap();
        assert!(fifo.success());
        pair.dest("current/data", b"precious");
        pair.dest("fifo/sub/data", b"precious");
        pair.dest("gone/data", b"old");
        let done = pair.transfer(&["--delete"]).expect(0);
        assert_eq!(done.number("deleted"), 2, "{}", done.errors);
        let left = ["current", "current/data", "fifo", "fifo/sub", "fifo/sub/data"];
        assert_eq!(pair.names(), left);
    });
}

#[test]
fn what_can_not_be_named_at_the_destination_stays_and_is_no_failure() {
    Pair::both(&[], |pair| {
        pair.source("good", b"1");
        pair.dest("gone", b"x");
        let odd = pair.dest.join(OsStr::from_bytes(b"odd\xff"));
        fs::write(&odd, "x").unwrap();
        let done = pair.transfer(&["--delete"]).expect(0);
        assert!(done.errors.contains("not deleted"), "{}", done.errors);
        assert!(odd.exists() && !pair.dest.join("gone").exists());
    });
}

#[test]
fn what_one_source_has_sent_does_not_make_way_for_what_another_one_sends() {
    for sources in [["one/sub/..", "two/sub/.."], ["two/sub/..", "one/sub/.."]] {
        let served = Served::new(&[]);
        write(&served.outside("one/x"), b"a file");
        write(&served.outside("two/x/inside"), b"inside");
        fs::create_dir(served.outside("one/sub")).unwrap();
        fs::create_dir(served.outside("two/sub")).unwrap();
        let mut send = served.client("send");
        let done = run(send.args(["--delete"]).args(sources).arg(served.target("all")));
        assert_ne!(done.code, Some(0), "one of them is not there: {}", done.errors);
    }
}

#[test]
fn removing_takes_a_directory() {
    let served = Served::new(&[]);
    served.write("file", b"1");
    let finished = run(served.client("get").args(["--delete", &served.target("file")]));
    assert!(finished.expect(2).errors.contains("--delete"));
}

#[test]
fn a_file_that_was_modified_later_stays_with_update() {
    Pair::both(&[], |pair| {
        for (name, seconds) in [("older", 1000), ("newer", 3000), ("large-newer", 3000)] {
            pair.source(name, &noise(if name == "large-newer" { 200_000 } else { 10 }, 1));
            pair.dest(name, b"other");
            modify(&pair.source.join(name), 2000);
            modify(&pair.dest.join(name), seconds);
        }
        let planned = pair.transfer(&["--update", "-n"]).expect(0);
        assert_eq!(
            (planned.summary["plan"]["files"].as_u64(), planned.number("kept")),
            (Some(1), 2)
        );
        let done = pair.transfer(&["--update"]).expect(0);
        assert_eq!((done.number("files"), done.number("kept")), (1, 2));
        assert_eq!(fs::read(pair.dest.join("older")).unwrap(), noise(10, 1));
        for name in ["newer", "large-newer"] {
            assert_eq!(fs::read(pair.dest.join(name)).unwrap(), b"other");
        }
    });
}

#[test]
fn a_file_that_is_there_stays_with_ignore_existing() {
    Pair::both(&[], |pair| {
        for name in ["there", "new", "large"] {
            pair.source(name, &noise(if name == "large" { 200_000 } else { 10 }, 1));
        }
        pair.dest("there", b"old");
        pair.dest("large", b"old");
        let done = pair.transfer(&["--ignore-existing"]).expect(0);
        assert_eq!((done.number("files"), done.number("kept")), (1, 2));
        assert_eq!(fs::read(pair.dest.join("there")).unwrap(), b"old");
        assert_eq!(fs::read(pair.dest.join("large")).unwrap(), b"old");
        assert_eq!(fs::read(pair.dest.join("new")).unwrap(), noise(10, 1));
    });
}

#[test]
fn the_same_holds_for_a_single_file() {
    let served = Served::new(&[]);
    served.write("file", b"served");
    fs::write(served.outside("file"), "local").unwrap();
    modify(&served.path("file"), 2000);
    modify(&served.outside("file"), 3000);
    let get = |option: &str| run(served.client("get").args([option, &served.target("file")]));
    for option in ["--update", "--ignore-existing"] {
        assert_eq!(get(option).expect(0).number("kept"), 1);
        assert_eq!(fs::read(served.outside("file")).unwrap(), b"local");
    }
    let send = |option: &str| {
        run(served.client("send").args([option, "file", &served.target("file")]))
    };
    for option in ["--ignore-existing", "--update"] {
        for command in ["send", "get"] {
            // The destination's is the later one.
            modify(&served.path("file"), if command == "send" { 9000 } else { 1 });
            let mut dry = served.client(command);
            dry.args(["-n", option]);
            if command == "send" {
                dry.arg("file");
            }
            let planned = run(dry.arg(served.target("file"))).expect(0);
            assert_eq!(planned.number("kept"), 1, "{command} {option}");
        }
    }
    assert_eq!(send("--ignore-existing").expect(0).number("kept"), 1);
    assert_eq!(fs::read(served.path("file")).unwrap(), b"served");
    modify(&served.path("file"), 2000);
    modify(&served.outside("file"), 1000);
    assert_eq!(send("--update").expect(0).number("kept"), 1);
    assert_eq!(fs::read(served.path("file")).unwrap(), b"served");
    assert_eq!(get("--update").expect(0).number("kept"), 0);
    assert_eq!(fs::read(served.outside("file")).unwrap(), b"served");
}

/// A fetch of the file `file`, in the place of which is a link that was modified later.
fn fetch_over_link(served: &Served, arguments: &[&str]) -> Finished {
    let link = served.outside("file");
    let _ = fs::remove_file(&link);
    symlink("elsewhere", &link).unwrap();
    let done = run(served.client("get").args(arguments).arg(served.target("file")));
    assert!(link.is_symlink(), "{arguments:?}: {}", done.errors);
    done
}

#[test]
fn a_link_in_the_place_of_a_single_file_stays_as_a_file_does() {
    let served = Served::new(&[]);
    served.write("file", b"served");
    modify(&served.path("file"), 1000);
    fs::write(served.outside("elsewhere"), "local").unwrap();
    for option in ["--update", "--ignore-existing"] {
        for others in [&[][..], &["-p"], &["-n"], &["-p", "-n"], &["-p", "--checksum"]] {
            let done = fetch_over_link(&served, &[&[option], others].concat()).expect(0);
            assert_eq!(
                (done.number("kept"), done.number("files")),
                (1, 0),
                "{option} {others:?}"
            );
        }
    }
    assert_eq!(fs::read(served.outside("elsewhere")).unwrap(), b"local");
    // One that is not newer is not replaced either, nor is any without these options: that fails.
    for arguments in [&["-p", "-n"][..], &["-p"]] {
        assert_eq!(fetch_over_link(&served, arguments).expect(5).number("failed"), 1);
    }
    modify(&served.path("file"), 9_000_000_000);
    fetch_over_link(&served, &["-p", "--update"]).expect(5);
    assert!(served.outside("file").is_symlink());
    assert_eq!(fs::read(served.outside("elsewhere")).unwrap(), b"local");
}

#[test]
fn what_is_replaced_or_deleted_is_kept_under_another_name() {
    for option in ["--backup", "--backup=.old"] {
        let suffix = option.strip_prefix("--backup=").unwrap_or("~");
        Pair::both(&[], |pair| {
            let large = noise(200_000, 1);
            // Of another size: both may be written within one tick of the file system's clock.
            pair.source("small", b"newer");
            pair.source("large", &large);
            pair.dest("small", b"old");
            pair.dest("large", b"old large");
            pair.dest("gone", b"old gone");
            pair.transfer(&["--delete", option]).expect(0);
            for (name, content) in
                [("small", &b"old"[..]), ("large", b"old large"), ("gone", b"old gone")]
            {
                let kept = pair.dest.join(format!("{name}{suffix}"));
                assert_eq!(fs::read(kept).unwrap(), content, "{name}");
            }
            assert!(fs::read(pair.dest.join("large")).unwrap() == large);
            assert!(!pair.dest.join("gone").exists());
            // Kept files are not what the source no longer has.
            assert_eq!(pair.transfer(&["--delete", option]).expect(0).number("deleted"), 0);
            assert_eq!(pair.names().len(), 5);
        });
    }
}

#[test]
fn what_is_kept_does_not_take_the_place_of_what_is_transferred() {
    Pair::both(&[], |pair| {
        pair.source("f", b"new f");
        pair.source("f~", b"new f~");
        pair.source("sub/large", &noise(300_000, 1));
        pair.source("sub/large~", &noise(400_000, 2));
        pair.source("same", b"new same");
        pair.source("same~", b"as before");
        for name in ["f", "sub/large", "same"] {
            pair.dest(name, format!("old {name}").as_bytes());
        }
        pair.dest("same~", b"as before");
        modify(&pair.source.join("same~"), 1_000_000);
        modify(&pair.dest.join("same~"), 1_000_000);
        pair.transfer(&["--backup", "--preserve"]).expect(0);
        for name in ["f", "f~", "sub/large", "sub/large~", "same", "same~"] {
            let read = |dir: &Path| fs::read(dir.join(name)).unwrap();
            assert!(read(&pair.dest) == read(&pair.source), "{name}");
        }
        for (kept, content) in
            [("f~~", "old f"), ("sub/large~~", "old sub/large"), ("same~~", "old same")]
        {
            assert_eq!(fs::read_to_string(pair.dest.join(kept)).unwrap(), content);
        }
    });
}

#[test]
fn files_that_are_kept_under_the_name_of_the_next_are_all_right_in_the_end() {
    for suffix in ["~", "0"] {
        let backup = format!("--backup={suffix}");
        Pair::both(&[], |pair| {
            let names: Vec<_> =
                (0..5).map(|times| format!("f{}", suffix.repeat(times))).collect();
            for (name, at) in names.iter().zip(1_000_000..) {
                for large in ["", "large-"] {
                    let len = if large.is_empty() { 10 } else { 300_000 };
                    let content = noise(len, at);
                    pair.source(&format!("{large}{name}"), &content);
                    pair.dest(&format!("{large}{name}"), &content);
                    modify(&pair.source.join(format!("{large}{name}")), at);
                    modify(&pair.dest.join(format!("{large}{name}")), at);
                }
            }
            // The others would not be transferred.
            pair.source(&names[1], b"has changed");
            pair.source(&format!("large-{}", names[2]), &noise(299_999, 1));
            pair.transfer(&["--preserve", &backup]).expect(0);
            for name in names.iter().flat_map(|name| [name.clone(), format!("large-{name}")]) {
                let read = |dir: &Path| fs::read(dir.join(&name)).unwrap();
                assert!(read(&pair.dest) == read(&pair.source), "{name}");
            }
            let last = pair.dest.join(format!("f{}", suffix.repeat(5)));
            assert!(last.exists(), "what was replaced last is kept");
        });
    }
}

#[test]
fn what_would_be_kept_under_a_name_that_the_source_has_is_not_deleted() {
    Pair::both(&[], |pair| {
        pair.source("f~", b"new f~");
        pair.dest("f", b"old f");
        pair.dest("g", b"old g");
        let done = pair.transfer(&["--backup", "--delete"]).expect(0);
        assert!(done.errors.contains("would be kept as"), "{}", done.errors);
        assert_eq!(pair.names(), ["f", "f~", "g~"]);
        assert_eq!(fs::read(pair.dest.join("f~")).unwrap(), b"new f~");
    });
}

#[test]
fn a_suffix_that_leads_elsewhere_is_refused() {
    let served = Served::new(&[]);
    served.write("file", b"1");
    for suffix in ["", "/../x", "a\\b"] {
        let mut get = served.client("get");
        run(get.args([&format!("--backup={suffix}"), &served.target("file")])).expect(2);
    }
}

#[test]
fn a_backup_does_not_replace_what_the_server_hides() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("served")).unwrap();
    let token_file = dir.path().join("served/file~");
    fs::write(&token_file, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&token_file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(dir.path().join("served/file"), "old").unwrap();
    let program = Command::new(common::TACK);
    let arguments = ["--write", "--token-file", token_file.to_str().unwrap()];
    let served = Served::in_dir(dir, program, "127.0.0.1:0", &arguments);
    fs::write(served.outside("file"), "longer than before").unwrap();
    let mut send = served.client("send");
    send.arg("--token-file").arg(&token_file).args([
        "--backup",
        "file",
        &served.target("file"),
    ]);
    let finished = run(&mut send).expect(4);
    assert!(finished.errors.contains("keeps this file for itself"), "{}", finished.errors);
    assert!(fs::read_to_string(&token_file).unwrap().starts_with("0123456789"));
    assert_eq!(fs::read(served.path("file")).unwrap(), b"old");
}

/// The lines of standard output of a client with these arguments, as JSON.
fn events(pair: &Pair, arguments: &[&str]) -> Vec<serde_json::Value> {
    let mut client = pair.served.client(if pair.sends { "send" } else { "get" });
    client.args(arguments);
    pair.add_places(&mut client);
    let output = client.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_file_is_named_with_what_happened_to_it() {
    Pair::both(&[], |pair| {
        pair.source("new", b"new");
        pair.source("same", b"same");
        pair.source("large", &noise(200_000, 1));
        pair.source("later", b"x");
        pair.dest("same", b"same");
        pair.dest("gone", b"gone");
        pair.dest("later", b"stays");
        for dir in [&pair.source, &pair.dest] {
            modify(&dir.join("same"), 1000);
        }
        modify(&pair.source.join("later"), 1000);
        let mut events = events(pair, &["-v", "--delete", "--update"]);
        let summary = events.pop().unwrap();
        assert_eq!(summary["exit_code"], 0, "{summary}");
        let mut told: Vec<_> = events
            .iter()
            .map(|event| {
                assert_eq!(event["event"], "file");
                let name = Path::new(event["path"].as_str().unwrap());
                let name = name.file_name().unwrap().to_str().unwrap().to_owned();
                (name, event["outcome"].as_str().unwrap().to_owned())
            })
            .collect();
        told.sort();
        let expected = [
            ("gone", "deleted"),
            ("large", "transferred"),
            ("later", "kept"),
            ("new", "transferred"),
            ("same", "unchanged"),
        ];
        let expected = expected.map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
        assert_eq!(told, expected);
    });
}

#[test]
fn people_are_told_of_every_file_on_standard_error() {
    let pair = Pair::new(false, &[]);
    pair.source("new\u{1b}[2J", b"new");
    let client = pair.served.client("get");
    let arguments: Vec<_> = client.get_args().map(OsStr::to_owned).collect();
    let mut plain = Command::new(common::TACK);
    plain.args(arguments.iter().filter(|argument| *argument != "--json"));
    plain.env("TACK_TOKEN", pair.served.token.as_ref().unwrap());
    plain.env("XDG_STATE_HOME", pair.served.outside("state"));
    plain.args(["-r", "-v", &pair.served.target("tree")]).arg(&pair.dest);
    let output = plain.output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("transferred") && text.contains("tree/new\\u{1b}[2J"), "{text}");
}

#[test]
fn with_update_nothing_newer_makes_way_for_something_of_another_kind() {
    Pair::both(&[], |pair| {
        pair.source("dir/file", b"theirs");
        pair.source("other", b"theirs");
        symlink("other", pair.source.join("link")).unwrap();
        pair.source("file", b"theirs");
        modify(&pair.source.join("file"), 1000);
        modify(&pair.source.join("dir/file"), 1000);
        modify(&pair.source.join("other"), 1000);
        pair.dest("dir", b"mine");
        pair.dest("link", b"mine");
        pair.dest("other/file", b"mine");
        symlink("mine", pair.dest.join("file")).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let touched = Command::new("touch").arg(pair.dest.join("link")).status().unwrap();
        assert!(touched.success());
        let dry = pair.transfer(&["--update", "--preserve", "--delete", "-n", "-v"]);
        let finished = pair.transfer(&["--update", "--preserve", "--delete"]);
        assert!(!matches!(finished.code, Some(0)), "it is told: {}", finished.errors);
        assert_eq!(dry.code, finished.code, "{}", dry.errors);
        assert_eq!(fs::read(pair.dest.join("dir")).unwrap(), b"mine");
        assert_eq!(fs::read(pair.dest.join("other/file")).unwrap(), b"mine");
        assert_eq!(fs::read(pair.dest.join("link")).unwrap(), b"mine");
        assert!(pair.dest.join("file").is_symlink());
    });
}

#[test]
fn a_directory_that_cannot_be_looked_into_is_a_failure_to_delete() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        common::skip("only root can start a program as another user");
        return;
    }
    let served = Served::new(&[]);
    let dest = served.outside("tree");
    fs::set_permissions(served.outside(""), PermissionsExt::from_mode(0o755)).unwrap();
    write(&served.path("tree/file"), b"content");
    write(&dest.join("closed/file"), b"extraneous");
    for (name, mode) in [("", 0o755), ("closed", 0o700)] {
        fs::set_permissions(dest.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    chown(&dest, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut client = served.client("get");
    client.uid(NOBODY).gid(NOBODY);
    client.args(["-r", "--delete"]).arg(served.target("tree")).arg(&dest);
    let finished = run(&mut client);
    assert!(!matches!(finished.code, Some(0)), "{}", finished.errors);
    assert!(finished.errors.contains("closed: failed, not deleted"), "{}", finished.errors);
    let mut client = served.client("get");
    client.uid(NOBODY).gid(NOBODY);
    client.args(["-r", "--delete", "--exclude", "closed"]);
    run(client.arg(served.target("tree")).arg(&dest)).expect(0);
    assert_eq!(names(&dest).len(), 3, "{:?}", names(&dest));
}

#[test]
fn the_server_tells_deletions_links_and_attributes_apart() {
    let served = Served::new(&[]);
    let source = served.outside("tree");
    write(&source.join("file"), b"content");
    symlink("file", source.join("link")).unwrap();
    write(&served.path("tree/gone"), b"extraneous");
    let mut client = served.client("send");
    client.args(["--preserve", "--delete"]).arg(&source);
    run(client.arg(served.target(""))).expect(0);
    let told = || {
        let events = served.events();
        let of = |event: &str, path: &str| {
            events.iter().any(|told| told["event"] == event && told["path"] == path)
        };
        of("send", "tree/file")
            && of("delete", "tree/gone")
            && of("link", "tree/link")
            && of("attributes", "tree")
    };
    wait_until(told);
}

#[test]
fn parts_of_unfinished_transfers_go_with_what_the_source_does_not_have_as_the_dry_run_says() {
    Pair::both(&[], |pair| {
        pair.source("file", b"content");
        pair.transfer(&[]).expect(0);
        for rest in ["gone/.x.tack-part", ".file.tack-part", ".kept.tmp.tack-part"] {
            pair.dest(rest, b"rest");
        }
        let options = ["--delete", "--exclude", "*.tmp"];
        let planned = pair.transfer(&[&options[..], &["-n"]].concat()).expect(0);
        assert_eq!(planned.summary["plan"]["deleted"], 3, "{}", planned.summary);
        let done = pair.transfer(&options).expect(0);
        assert_eq!(names(&pair.dest), [".kept.tmp.tack-part", "file"]);
        assert_eq!(done.number("deleted"), 3, "{}", done.errors);
        assert!(done.errors.contains(".kept.tmp.tack-part: not deleted"), "{}", done.errors);
    });
}

#[test]
fn the_part_of_a_transfer_that_is_running_stays() {
    Pair::both(&[], |pair| {
        pair.source("file", b"content");
        let rest = pair.dest.join("gone/.x.tack-part");
        write(&rest, b"rest");
        let held = File::open(&rest).unwrap();
        held.lock().unwrap();
        pair.transfer(&["--delete"]).expect(0);
        assert!(rest.exists());
        held.unlock().unwrap();
        pair.transfer(&["--delete"]).expect(0);
        assert_eq!(names(&pair.dest), ["file"]);
    });
}

#[test]
fn what_the_source_has_too_and_what_is_excluded_is_no_part_that_goes() {
    Pair::both(&[], |pair| {
        pair.source("file", b"content");
        for name in [".mine.tack-part", "below/.mine.tack-part"] {
            pair.dest(name, b"user's");
        }
        pair.transfer(&["--delete", "--exclude", ".mine.*"]).expect(0);
        assert_eq!(
            names(&pair.dest),
            [".mine.tack-part", "below", "below/.mine.tack-part", "file"]
        );
        pair.source(".mine.tack-part", b"user's");
        let done = pair.transfer(&["--delete"]);
        assert!(done.errors.contains(".mine.tack-part: skipped"), "{}", done.errors);
        assert!(pair.dest.join(".mine.tack-part").exists(), "{}", done.errors);
    });
}

#[test]
fn a_directory_that_has_the_name_of_a_part_is_skipped_and_stays_at_the_destination() {
    Pair::both(&[], |pair| {
        pair.source("file", b"content");
        pair.source(".d.tack-part/x", b"content");
        pair.dest(".d.tack-part/x", b"content");
        let done = pair.transfer(&["--delete"]).expect(0);
        assert_eq!(done.number("skipped"), 1, "{}", done.errors);
        assert!(done.errors.contains(".d.tack-part: skipped"), "{}", done.errors);
        assert!(pair.dest.join(".d.tack-part/x").exists(), "{}", done.errors);
    });
}

#[test]
fn a_directory_with_the_part_of_a_transfer_that_is_running_does_not_make_way() {
    Pair::both(&[], |pair| {
        pair.source("a", b"content");
        let part = pair.dest.join("a/deep/.x.tack-part");
        write(&part, b"rest");
        let held = File::open(&part).unwrap();
        held.lock().unwrap();
        let done = pair.transfer(&["--delete"]);
        assert!(done.errors.contains("is running"), "{}", done.errors);
        assert!(done.number("failed") == 1 && part.exists(), "{}", done.errors);
        held.unlock().unwrap();
        pair.transfer(&["--delete"]).expect(0);
        assert_eq!(names(&pair.dest), ["a"]);
    });
}

#[test]
fn a_directory_that_stays_in_the_place_of_a_file_keeps_all_that_is_in_it() {
    Pair::both(&[], |pair| {
        pair.source("x", b"file");
        pair.dest("x/deep/user", b"user's");
        pair.dest("x/user", b"user's");
        pair.dest("gone", b"extraneous");
        let options = ["--delete", "--ignore-existing"];
        let planned = pair.transfer(&[&options[..], &["-n"]].concat()).expect(0);
        assert_eq!(planned.summary["plan"]["deleted"], 1, "{}", planned.summary);
        pair.transfer(&options).expect(0);
        assert_eq!(names(&pair.dest), ["x", "x/deep", "x/deep/user", "x/user"]);
    });
}

#[test]
fn what_an_interrupted_run_has_replaced_stays_kept_when_it_is_run_again() {
    Pair::both(&[], |pair| {
        for name in ["small", "second"] {
            pair.source(name, b"new content");
            pair.dest(name, b"what was there");
        }
        pair.transfer(&["--backup", "--preserve"]).expect(0);
        // As if both had been listed before they came into place.
        for name in ["small", "second"] {
            modify(&pair.dest.join(name), 1);
        }
        pair.transfer(&["--backup", "--preserve"]).expect(0);
        for name in ["small", "second"] {
            let kept = pair.dest.join(format!("{name}~"));
            assert_eq!(fs::read(kept).unwrap(), b"what was there", "{name}");
            assert_eq!(fs::read(pair.dest.join(name)).unwrap(), b"new content", "{name}");
        }
        // Another content is kept.
        pair.source("small", b"newest content");
        pair.transfer(&["--backup", "--preserve"]).expect(0);
        assert_eq!(fs::read(pair.dest.join("small~")).unwrap(), b"new content");
    });
}

#[test]
fn a_dry_run_knows_what_stays_whatever_kind_it_is_of() {
    Pair::both(&[], |pair| {
        for name in ["file", "below/file", "new"] {
            pair.source(name, b"theirs");
        }
        symlink("new", pair.source.join("link")).unwrap();
        pair.dest("file/mine", b"mine");
        pair.dest("below", b"mine");
        pair.dest("link", b"mine");
        let options = ["--ignore-existing", "--preserve", "--delete"];
        let dry = pair.transfer(&[&options[..], &["-n"]].concat());
        let planned: Vec<_> = dry.summary["plan"]["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| format!("{} {}", change["path"], change["change"]))
            .collect();
        let finished = pair.transfer(&options);
        assert_eq!(dry.code, finished.code, "{}", dry.errors);
        assert_eq!(planned, ["\"tree/new\" \"new\""], "{}", dry.summary);
        assert_eq!(dry.summary["plan"]["deleted"], 0, "something has failed");
        for name in ["file/mine", "below", "link"] {
            assert_eq!(fs::read(pair.dest.join(name)).unwrap(), b"mine", "{name}");
        }
        assert_eq!(fs::read(pair.dest.join("new")).unwrap(), b"theirs");
    });
}

#[test]
fn a_path_that_becomes_too_long_at_the_server_is_left_out_alone() {
    let served = Served::new(&[]);
    let source = served.outside("tree");
    let long = vec!["n".repeat(250); 16].join("/");
    for name in ["a/file", "z/file", "m/file"] {
        write(&source.join(name), b"content");
    }
    // Longer than a path may be for the system, so that it is made step by step.
    let made = Command::new("sh")
        .args(["-c", "for n in $(echo \"$1\" | tr / ' '); do mkdir $n && cd $n || exit; done; echo x > deep", "-"])
        .arg(&long)
        .current_dir(source.join("m"))
        .status()
        .unwrap();
    assert!(made.success());
    let to = format!("{}/", "p".repeat(100));
    let mut client = served.client("send");
    let finished = run(client.arg(&source).arg(served.target(&to)));
    assert_eq!((finished.code, finished.number("files")), (Some(5), 3), "{}", finished.errors);
    let mut client = served.client("ls");
    let listed = client.arg("-r").arg(served.target("")).output().unwrap();
    assert_eq!(listed.status.code(), Some(0), "{}", String::from_utf8_lossy(&listed.stderr));
}

#[test]
fn nothing_is_deleted_if_a_link_cannot_be_made() {
    Pair::both(&[], |pair| {
        symlink("anywhere", pair.source.join("l")).unwrap();
        pair.source("l~", b"of its own");
        pair.dest("l", b"mine");
        pair.dest("old", b"extraneous");
        let finished = pair.transfer(&["--preserve", "--backup", "--delete"]);
        assert!(!matches!(finished.code, Some(0)), "{}", finished.errors);
        assert_eq!(fs::read(pair.dest.join("l")).unwrap(), b"mine");
        assert!(pair.dest.join("old").exists(), "{}", finished.errors);
    });
}

#[test]
fn a_file_whose_permissions_may_not_be_changed_stops_no_other() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        common::skip("only root can start a program as another user");
        return;
    }
    for options in [&["-r"][..], &["-r", "--preserve"]] {
        let served = Served::new(&[]);
        let dest = served.outside("dest");
        fs::set_permissions(served.outside(""), PermissionsExt::from_mode(0o755)).unwrap();
        for name in ["tree/a", "tree/b", "tree/c"] {
            write(&served.path(name), b"content");
            fs::set_permissions(served.path(name), PermissionsExt::from_mode(0o644)).unwrap();
            modify(&served.path(name), 1000);
        }
        // Root's, with another mode.
        write(&dest.join("b"), b"content");
        fs::set_permissions(dest.join("b"), PermissionsExt::from_mode(0o666)).unwrap();
        modify(&dest.join("b"), 1000);
        fs::set_permissions(&dest, PermissionsExt::from_mode(0o777)).unwrap();
        chown(&dest, Some(NOBODY), Some(NOBODY)).unwrap();
        let mut client = served.client("get");
        client.uid(NOBODY).gid(NOBODY);
        let finished = run(client.args(options).arg(served.target("tree")).arg(&dest));
        assert_eq!(names(&dest), ["a", "b", "c"], "{options:?}: {}", finished.errors);
        // With --preserve it is a failure of that one.
        let code = if options.len() == 1 { 0 } else { 5 };
        assert_eq!(finished.code, Some(code), "{}", finished.errors);
    }
}
