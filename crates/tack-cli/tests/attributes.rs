//! Owners and extended attributes (`--owner`, `--xattrs`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Finished, Served, noise, run, write};
use rustix::fs::XattrFlags;

/// Extended attributes and owner of an entry; the attributes of links are of no interest.
type State = BTreeMap<String, (u32, u32, u32, Vec<(String, Vec<u8>)>)>;

fn set(path: &Path, name: &str, value: &[u8]) -> bool {
    let file = File::open(path).unwrap();
    rustix::fs::fsetxattr(&file, name, value, XattrFlags::empty()).is_ok()
}

fn xattrs(path: &Path) -> Vec<(String, Vec<u8>)> {
    let file = File::open(path).unwrap();
    let mut list = vec![0; 4096];
    let length = rustix::fs::flistxattr(&file, &mut list[..]).unwrap();
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut found: Vec<_> = names
        .map(|name| {
            let name = String::from_utf8(name.to_vec()).unwrap();
            let mut value = vec![0; 32 * 1024];
            let length = rustix::fs::fgetxattr(&file, name.as_str(), &mut value[..]).unwrap();
            value.truncate(length);
            (name, value)
        })
        .collect();
    found.sort();
    found
}

fn state(dir: &Path) -> State {
    let (mut found, mut pending) = (State::new(), vec![dir.to_owned()]);
    while let Some(path) = pending.pop() {
        let stat = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        let attributes = if stat.is_symlink() { Vec::new() } else { xattrs(&path) };
        found.insert(name, (stat.uid(), stat.gid(), stat.mode(), attributes));
        if stat.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

/// A server, the source and the destination of a transfer in one direction.
fn places(sends: bool) -> (Served, PathBuf, PathBuf) {
    let served = Served::new(&[]);
    let (mut source, mut dest) = (served.path("source"), served.outside("dest/source"));
    if sends {
        (source, dest) = (served.outside("source"), served.path("dest/source"));
    }
    fs::create_dir_all(dest.parent().unwrap()).unwrap();
    write(&source.join("small"), b"small");
    write(&source.join("sub/large"), &noise(300_000, 1));
    write(&source.join("sub/read-only"), b"read-only");
    symlink("small", source.join("sub/link")).unwrap();
    (served, source, dest)
}

fn transfer(served: &Served, sends: bool, options: &[&str]) -> Finished {
    let mut client = served.client(if sends { "send" } else { "get" });
    client.arg("--preserve").args(options);
    if sends {
        client.arg("source").arg(served.target("dest/"));
    } else {
        client.args(["-r", &served.target("source"), "dest/source"]);
    }
    run(&mut client)
}

fn has_xattrs(path: &Path) -> bool {
    let has = set(path, "user.a", b"first \0 \xff");
    if !has {
        common::skip("no extended attributes on this file system");
    }
    has
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        common::skip("only root may give files away");
    }
    is_root
}

#[test]
fn extended_attributes_arrive_and_are_then_made_the_same() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        if !has_xattrs(&source.join("small")) {
            return;
        }
        for name in ["sub/large", "sub/read-only", "sub", ""] {
            assert!(set(&source.join(name), "user.b", &noise(500, 2)));
        }
        fs::set_permissions(source.join("sub/read-only"), PermissionsExt::from_mode(0o444))
            .unwrap();
        transfer(&served, sends, &["--xattrs"]).expect(0);
        assert_eq!(state(&source), state(&dest), "{sends}");
        assert!(!xattrs(&dest.join("sub/large")).is_empty());

        // Without a change of content, too; and what the source does not have goes.
        assert!(set(&dest.join("small"), "user.c", b"gone"));
        assert!(set(&source.join("small"), "user.a", b"second"));
        let again = transfer(&served, sends, &["--xattrs"]).expect(0);
        assert_eq!(again.number("transferred_bytes"), 0);
        assert_eq!(state(&source), state(&dest), "{sends}");
        // Not asked for: nothing is touched.
        assert!(set(&dest.join("small"), "user.c", b"stays"));
        transfer(&served, sends, &[]).expect(0);
        assert_eq!(xattrs(&dest.join("small")).len(), 2);
    }
}

#[test]
fn owners_of_files_directories_and_links_arrive_and_take_no_setuid_along() {
    if !is_root() {
        return;
    }
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        transfer(&served, sends, &[]).expect(0);
        for (name, owner) in [("small", 4001), ("sub/large", 4002), ("sub", 4003), ("", 4004)] {
            chown(source.join(name), Some(owner), Some(owner + 50)).unwrap();
        }
        lchown(source.join("sub/link"), Some(4005), Some(4055)).unwrap();
        fs::set_permissions(dest.join("sub/large"), PermissionsExt::from_mode(0o6755)).unwrap();
        assert_ne!(state(&source), state(&dest));
        transfer(&served, sends, &["--owner"]).expect(0);
        let mode = dest.join("sub/large").metadata().unwrap().mode();
        assert_eq!(mode & 0o6000, 0);
        assert_eq!(state(&source), state(&dest), "{sends}");
    }
}

#[test]
fn a_server_that_is_told_so_gives_nothing_away_and_keeps_the_rest() {
    if !is_root() {
        return;
    }
    let served = Served::new(&["--no-owners"]);
    let file = served.outside("file");
    write(&file, b"content");
    chown(&file, Some(4001), Some(4051)).unwrap();
    let has_xattrs = set(&file, "user.a", b"kept");
    let send = |name: &str| {
        let mut send = served.client("send");
        send.args(["--preserve", "--owner", "--xattrs"]).arg(&file).arg(served.target(name));
        run(&mut send).expect(0)
    };
    let sent = send("sent");
    assert!(sent.errors.contains("not all owners are kept"), "{}", sent.errors);
    let there = served.path("sent");
    assert_eq!((there.metadata().unwrap().uid(), there.metadata().unwrap().gid()), (0, 0));
    assert!(!has_xattrs || xattrs(&there) == xattrs(&file));
    // Nothing stays different that is the server's own.
    chown(&file, Some(0), Some(0)).unwrap();
    let again = send("sent");
    assert!(!again.errors.contains("not all owners are kept"), "{}", again.errors);
}

#[test]
fn attributes_that_grant_rights_stay_where_they_are() {
    if !is_root() {
        return;
    }
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        if !set(&source.join("small"), "trusted.a", b"no") || !has_xattrs(&source.join("small"))
        {
            common::skip("no trusted attributes on this file system");
            return;
        }
        transfer(&served, sends, &["--xattrs"]).expect(0);
        let names: Vec<_> = xattrs(&dest.join("small")).into_iter().map(|(n, _)| n).collect();
        assert_eq!(names, ["user.a"], "{sends}");
    }
}

#[test]
fn a_single_file_keeps_its_attributes() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        if !has_xattrs(&source.join("small")) {
            return;
        }
        let mut client = served.client(if sends { "send" } else { "get" });
        client.args(["--preserve", "--xattrs"]);
        if sends {
            client.arg("source/small").arg(served.target("dest/renamed"));
        } else {
            client.args([&served.target("source/small"), "dest/renamed"]);
        }
        run(&mut client).expect(0);
        let renamed = dest.parent().unwrap().join("renamed");
        assert_eq!(xattrs(&renamed), xattrs(&source.join("small")), "{sends}");
    }
}

/// Some user who is not root.
const NOBODY: u32 = 65534;

#[test]
fn a_receiver_that_may_not_give_files_away_says_so_once_and_keeps_the_rest() {
    if !is_root() {
        return;
    }
    for sends in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for name in ["served", "here"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            chown(dir.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut program = Command::new(common::TACK);
        if sends {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            program.uid(NOBODY).gid(NOBODY);
        }
        let served = Served::in_dir(dir, program, "127.0.0.1:0", &["--write"]);
        let (source, dest) = if sends {
            (served.outside("source"), served.path("source"))
        } else {
            (served.path("source"), served.outside("here/source"))
        };
        for name in ["one", "two", "sub/three"] {
            write(&source.join(name), name.as_bytes());
        }
        // Read-only, which only root may write all the same.
        let has_xattrs = has_xattrs(&source.join("two"));
        fs::set_permissions(source.join("two"), PermissionsExt::from_mode(0o444)).unwrap();
        let mut client = served.client(if sends { "send" } else { "get" });
        client.args(["--preserve", "--owner"]);
        if has_xattrs {
            client.arg("--xattrs");
        }
        if sends {
            client.arg("source").arg(served.target(""));
        } else {
            client.uid(NOBODY).gid(NOBODY);
            client.args(["-r", &served.target("source"), "here/source"]);
        }
        let finished = run(&mut client).expect(0);
        assert_eq!(finished.errors.matches("owners").count(), 1, "{}", finished.errors);
        let stat = dest.join("sub/three").metadata().unwrap();
        assert_eq!((stat.uid(), stat.gid()), (NOBODY, NOBODY));
        if has_xattrs {
            assert_eq!(xattrs(&dest.join("two")), xattrs(&source.join("two")));
            assert_eq!(dest.join("two").metadata().unwrap().mode() & 0o7777, 0o444);
        }
    }
}

#[test]
fn more_attributes_than_can_be_transferred_are_a_failure_of_their_file_alone() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        if !has_xattrs(&source.join("small")) {
            return;
        }
        for number in 0..65 {
            assert!(set(&source.join("sub/large"), &format!("user.{number}"), b""));
        }
        let finished =
            transfer(&served, sends, &["--xattrs"]).expect(if sends { 5 } else { 6 });
        assert!(
            finished.errors.contains("more than 64 extended attributes"),
            "{}",
            finished.errors
        );
        assert_eq!(xattrs(&dest.join("small")), xattrs(&source.join("small")));
        assert!(xattrs(&dest.join("sub/large")).is_empty());
    }
}

#[test]
fn attributes_take_preserve() {
    let served = Served::new(&[]);
    for option in ["--xattrs", "--owner"] {
        let mut client = served.client("get");
        let finished = run(client.args([option, &served.target("file"), "."])).expect(2);
        assert!(finished.errors.contains("--preserve"), "{}", finished.errors);
    }
}

#[test]
fn rsync_finds_nothing_to_change_in_what_has_arrived() {
    let rsync = || {
        let mut rsync = Command::new("rsync");
        rsync.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        rsync.status().is_ok_and(|status| status.success())
    };
    if !rsync() {
        common::skip("no rsync here");
        return;
    }
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        if !has_xattrs(&source.join("small")) {
            return;
        }
        let mut options = vec!["--xattrs"];
        if is_root() {
            chown(source.join("sub"), Some(4003), Some(4053)).unwrap();
            chown(source.join("sub/large"), Some(4002), Some(4052)).unwrap();
            options.push("--owner");
        }
        transfer(&served, sends, &options).expect(0);
        let (mut from, to) = (source.into_os_string(), dest.into_os_string());
        from.push("/");
        let compared = Command::new("rsync")
            .args(["-n", "-rlptogHX", "-i", "--numeric-ids", "--delete"])
            .args([from, to])
            .output()
            .unwrap();
        assert!(compared.status.success(), "{compared:?}");
        assert_eq!(String::from_utf8_lossy(&compared.stdout), "", "{sends}");
    }
}
