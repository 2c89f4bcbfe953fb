//! Permissions, times, links and holes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use common::{Finished, Served, noise, run, write};
use rustix::fs::XattrFlags;

/// Nobody, as whom a test of root's can meet a file that is closed.
const NOBODY: u32 = 65534;

/// Gives permissions and a time that nothing has by itself.
fn dress(path: &Path, mode: u32, seconds: u64) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let time = UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// A tree with everything that can be preserved.
fn fill(dir: &Path) {
    write(&dir.join("plain"), b"plain");
    write(&dir.join("sub/deep/file"), &noise(200_000, 1));
    write(&dir.join("sub/wide"), b"open to all");
    write(&dir.join("closed/file"), b"in a directory that can't be written");
    fs::create_dir(dir.join("void")).unwrap();
    fs::hard_link(dir.join("plain"), dir.join("sub/same")).unwrap();
    fs::hard_link(dir.join("sub/deep/file"), dir.join("void/same")).unwrap();
    for (name, target) in [
        ("inside", "sub/deep/file"),
        ("dangling", "nowhere"),
        ("outside", "/etc/passwd"),
        ("sub/up", "../../.."),
        ("void/directory", "../sub"),
    ] {
        symlink(target, dir.join(name)).unwrap();
    }
    dress(&dir.join("plain"), 0o640, 1_000_000);
    dress(&dir.join("sub/deep/file"), 0o751, 1_100_000);
    dress(&dir.join("sub/wide"), 0o666, 1_200_000);
    dress(&dir.join("closed/file"), 0o444, 1_300_000);
    for (name, mode) in
        [("closed", 0o555), ("sub/deep", 0o700), ("sub", 0o1777), ("void", 0o2775), ("", 0o751)]
    {
        dress(&dir.join(name), mode, 1_400_000);
    }
}

/// Transfers the tree in one direction.
fn transfer(served: &Served, sends: bool, arguments: &[&str]) -> Finished {
    let mut client = served.client(if sends { "send" } else { "get" });
    client.arg("--preserve").args(arguments);
    if sends {
        client.arg("source").arg(served.target("dest/"));
    } else {
        client.args(["-r", &served.target("source"), "dest/source"]);
    }
    run(&mut client)
}

/// A server, the source and the destination of a transfer in one direction.
fn places(sends: bool) -> (Served, std::path::PathBuf, std::path::PathBuf) {
    let served = Served::new(&[]);
    let (mut source, mut dest) = (served.path("source"), served.outside("dest/source"));
    if sends {
        (source, dest) = (served.outside("source"), served.path("dest/source"));
    }
    fs::create_dir_all(dest.parent().unwrap()).unwrap();
    (served, source, dest)
}

/// Everything that is preserved of an entry, by its path.
fn state(dir: &Path) -> Vec<(String, u32, i64, i64, Option<String>)> {
    let (mut found, mut pending) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(path) = pending.pop() {
        let stat = path.symlink_metadata().unwrap();
        let link = fs::read_link(&path).ok().map(|to| to.to_str().unwrap().to_owned());
        let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        found.push((name, stat.mode(), stat.mtime(), stat.mtime_nsec(), link));
        if stat.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().unwrap().ino()
}

#[test]
fn modes_times_and_links_of_a_tree_arrive_and_are_then_unchanged() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        fill(&source);
        let first = transfer(&served, sends, &[]).expect(0);
        assert_eq!(first.number("linked"), 7);
        assert_eq!(state(&source), state(&dest), "{sends}");
        assert_eq!(inode(&dest.join("plain")), inode(&dest.join("sub/same")));
        assert_eq!(inode(&dest.join("sub/deep/file")), inode(&dest.join("void/same")));
        let second = transfer(&served, sends, &["--delete"]).expect(0);
        assert_eq!(second.number("transferred_bytes"), 0);
        assert_eq!((second.number("linked"), second.number("deleted")), (0, 0));
        assert_eq!(state(&source), state(&dest), "{sends}");
    }
}

#[test]
fn a_file_that_fails_keeps_no_attributes_from_its_directories_and_one_that_cannot_be_made_is_told_once()
 {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        write(&source.join("outer/inner/failing"), b"x");
        write(&source.join("outer/fine"), b"x");
        write(&source.join("blocked/file"), b"x");
        fs::create_dir_all(dest.join("outer/inner")).unwrap();
        let pipe = Command::new("mkfifo").arg(dest.join("outer/inner/failing")).status();
        assert!(pipe.unwrap().success());
        write(&dest.join("blocked"), b"no directory");
        for name in ["outer/inner", "outer"] {
            dress(&source.join(name), 0o550, 1_400_000);
            dress(&dest.join(name), 0o700, 1_500_000);
        }
        let done = transfer(&served, sends, &[]).expect(if sends { 6 } else { 5 });
        assert_eq!(done.number("failed"), 2, "{}", done.errors);
        for name in ["outer/inner", "outer"] {
            let there = dest.join(name).metadata().unwrap();
            assert_eq!((there.mode() & 0o7777, there.mtime()), (0o550, 1_400_000), "{name}");
        }
    }
}

#[test]
fn rsync_finds_nothing_to_do_afterwards() {
    if Command::new("rsync").arg("--version").output().is_err() {
        common::skip("there is no rsync on this machine");
        return;
    }
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        fill(&source);
        transfer(&served, sends, &[]).expect(0);
        let mut rsync = Command::new("rsync");
        rsync.arg("-nrlptHi").arg(source.join("")).arg(dest.join(""));
        let output = rsync.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    }
}

#[test]
fn what_has_changed_kind_or_attributes_only_is_brought_up_to_date() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        fill(&source);
        write(&source.join("was-link"), b"a file now");
        symlink("sub", source.join("was-file")).unwrap();
        dress(&source, 0o751, 1_400_000);
        transfer(&served, sends, &[]).expect(0);
        fs::remove_file(dest.join("was-link")).unwrap();
        symlink("/etc/hostname", dest.join("was-link")).unwrap();
        fs::remove_file(dest.join("was-file")).unwrap();
        write(&dest.join("was-file"), b"a file before");
        fs::remove_file(dest.join("sub/same")).unwrap();
        write(&dest.join("sub/same"), b"plain");
        dress(&dest.join("sub/wide"), 0o600, 1_200_000);
        dress(&dest.join("void"), 0o700, 5);
        fs::remove_file(dest.join("inside")).unwrap();
        symlink("elsewhere", dest.join("inside")).unwrap();
        transfer(&served, sends, &[]).expect(0);
        assert_eq!(state(&source), state(&dest), "{sends}");
        assert_eq!(inode(&dest.join("plain")), inode(&dest.join("sub/same")));
    }
}

#[test]
fn compared_files_take_attributes_without_being_transferred() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        for (name, length) in [("small", 100), ("large", 300_000)] {
            write(&source.join(name), &noise(length, 1));
            write(&dest.join(name), &noise(length, 1));
            dress(&source.join(name), 0o604, 1_000_000);
        }
        dress(&source, 0o755, 1_000_000);
        let finished = transfer(&served, sends, &["--checksum"]).expect(0);
        assert_eq!(finished.number("transferred_bytes"), 0);
        assert_eq!(state(&source), state(&dest), "{sends}");
    }
}

#[test]
fn holes_stay_holes() {
    const SIZE: u64 = 40 << 20;
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        fs::create_dir_all(&source).unwrap();
        let mut file = File::create(source.join("sparse")).unwrap();
        for offset in [0, 7_000_001, 20 << 20] {
            file.seek(SeekFrom::Start(offset)).unwrap();
            file.write_all(b"data").unwrap();
        }
        file.set_len(SIZE).unwrap();
        write(&source.join("small"), &[vec![0; 50_000], vec![1], vec![0; 50_000]].concat());
        drop(file);
        transfer(&served, sends, &[]).expect(0);
        let copy = dest.join("sparse");
        assert!(fs::read(&copy).unwrap() == fs::read(source.join("sparse")).unwrap());
        assert!(
            fs::read(dest.join("small")).unwrap() == fs::read(source.join("small")).unwrap()
        );
        let blocks = |path: &Path| path.metadata().unwrap().blocks() * 512;
        assert!(blocks(&copy) < 1 << 20, "{} bytes on disk", blocks(&copy));
        assert!(blocks(&dest.join("small")) < 20_000);
    }
}

#[test]
fn a_link_is_never_followed_and_a_server_may_refuse_it() {
    let served = Served::new(&["--no-links"]);
    fs::create_dir(served.outside("source")).unwrap();
    symlink("/etc", served.outside("source/link")).unwrap();
    write(&served.outside("source/file"), b"content");
    let finished = transfer(&served, true, &[]).expect(4);
    assert!(finished.errors.contains("link: "), "{}", finished.errors);
    assert!(finished.errors.contains("takes no symbolic links"), "{}", finished.errors);
    assert!(served.path("dest/source/link").symlink_metadata().is_err());
    assert_eq!(fs::read(served.path("dest/source/file")).unwrap(), b"content");

    symlink("/etc", served.path("dest/source/link")).unwrap();
    let fetch = ["-r", "--preserve", &served.target("dest/source"), "back"];
    let finished = run(served.client("get").args(fetch)).expect(0);
    assert_eq!((finished.number("skipped"), finished.number("linked")), (1, 0));
    assert!(served.outside("back/link").symlink_metadata().is_err());
}

#[test]
fn links_at_the_destination_lead_nothing_out_of_it() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        write(&source.join("sub/file"), b"new");
        symlink("x", source.join("sub/link")).unwrap();
        let elsewhere = served.outside("elsewhere");
        write(&elsewhere.join("file"), b"old");
        write(&elsewhere.join("gone"), b"old");
        fs::create_dir(&dest).unwrap();
        symlink(&elsewhere, dest.join("sub")).unwrap();
        let finished = transfer(&served, sends, &[]);
        assert_ne!(finished.code, Some(0));
        assert!(dest.join("sub").is_symlink());
        // Here it makes way, as a link that the source does not have would.
        transfer(&served, sends, &["--delete"]).expect(0);
        assert_eq!(fs::read(dest.join("sub/file")).unwrap(), b"new");
        assert_eq!(fs::read(elsewhere.join("file")).unwrap(), b"old");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 2);
    }
}

#[test]
fn names_that_are_of_one_file_no_longer_become_files_of_their_own() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        for name in ["a", "b", "c", "d"] {
            let path = source.join(name);
            if name == "a" {
                write(&path, b"content");
            } else {
                fs::hard_link(source.join("a"), &path).unwrap();
            }
        }
        transfer(&served, sends, &[]).expect(0);
        // Now a and b are one file, c and d are others, of the same size and time.
        let modified = source.join("a").metadata().unwrap().modified().unwrap();
        for (name, mode) in [("c", 0o600), ("d", 0o640)] {
            fs::remove_file(source.join(name)).unwrap();
            write(&source.join(name), b"content");
            File::open(source.join(name)).unwrap().set_modified(modified).unwrap();
            fs::set_permissions(source.join(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        let again = transfer(&served, sends, &[]).expect(0);
        assert_eq!(again.number("transferred_bytes"), 0);
        let there = |name: &str| dest.join(name).metadata().unwrap();
        assert_eq!(there("a").ino(), there("b").ino());
        for name in ["a", "b", "c", "d"] {
            let here = source.join(name).metadata().unwrap();
            let found = (there(name).nlink(), there(name).mode(), there(name).mtime_nsec());
            assert_eq!(found, (here.nlink(), here.mode(), here.mtime_nsec()), "{name}");
        }
    }
}

#[test]
fn several_names_of_a_file_that_are_sent_together_stay_names_of_one() {
    let served = Served::new(&[]);
    write(&served.outside("a"), b"content");
    fs::hard_link(served.outside("a"), served.outside("b")).unwrap();
    fs::create_dir(served.path("dest")).unwrap();
    let mut send = served.client("send");
    let done = run(send.args(["-p", "a", "b"]).arg(served.target("dest/"))).expect(0);
    assert_eq!(done.number("linked"), 1);
    let inode = |name: &str| served.path("dest").join(name).metadata().unwrap().ino();
    assert_eq!(inode("a"), inode("b"));
}

#[test]
fn files_get_neither_setuid_nor_setgid() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        write(&source.join("program"), b"#!/bin/sh");
        dress(&source.join("program"), 0o6755, 1_000_000);
        transfer(&served, sends, &[]).expect(0);
        assert_eq!(dest.join("program").metadata().unwrap().mode() & 0o7777, 0o755);
    }
}

#[test]
fn a_dry_run_shows_links_and_changes_nothing() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        fill(&source);
        let planned = transfer(&served, sends, &["-n"]).expect(0);
        assert!(!dest.exists());
        let done = transfer(&served, sends, &[]).expect(0);
        for name in ["files", "linked"] {
            assert_eq!(planned.summary["plan"][name], done.number(name), "{name}");
        }
        fs::remove_file(dest.join("inside")).unwrap();
        let planned = transfer(&served, sends, &["-n"]).expect(0);
        assert_eq!(planned.summary["plan"]["linked"], 1, "{}", planned.summary);
        assert_eq!(planned.summary["plan"]["files"], 0, "{}", planned.summary);
    }
}

#[test]
fn other_names_become_files_where_what_the_receiver_has_may_stay() {
    for (sends, option) in [(false, "--update"), (true, "--ignore-existing")] {
        let (served, source, dest) = places(sends);
        write(&source.join("a"), b"of the source");
        fs::hard_link(source.join("a"), source.join("b")).unwrap();
        write(&dest.join("b"), b"of the destination, and newer");
        dress(&dest.join("b"), 0o644, 4_000_000_000);
        transfer(&served, sends, &[option]).expect(0);
        assert_eq!(fs::read(dest.join("a")).unwrap(), b"of the source", "{sends}");
        assert_eq!(fs::read(dest.join("b")).unwrap(), b"of the destination, and newer");
    }
}

#[test]
fn a_name_that_cannot_be_sent_keeps_no_other_name_of_a_file_from_being_made() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        write(&source.join("a"), b"content");
        fs::hard_link(source.join("a"), source.join("b")).unwrap();
        write(&source.join(OsStr::from_bytes(b"odd\xff")), b"nobody can have this");
        let ended = transfer(&served, sends, &[]).expect(if sends { 5 } else { 6 });
        assert_eq!((ended.number("linked"), ended.number("failed")), (1, 1), "{sends}");
        assert_eq!(inode(&dest.join("a")), inode(&dest.join("b")));
    }
}

#[test]
fn other_names_are_told_that_are_not_made_because_a_file_has_failed() {
    let (served, source, dest) = places(true);
    write(&source.join("a"), b"content");
    fs::hard_link(source.join("a"), source.join("b")).unwrap();
    // Where a file is to go there is a directory.
    write(&source.join("taken"), b"content");
    write(&dest.join("taken/file"), b"in the way");
    let ended = transfer(&served, true, &[]);
    assert_eq!((ended.number("linked"), ended.number("failed")), (0, 2), "{}", ended.summary);
    assert!(ended.errors.contains("another name of a file"), "{}", ended.errors);
}

#[test]
fn no_name_is_made_of_a_file_that_has_taken_the_place_of_the_one_that_was_listed() {
    for sends in [false, true] {
        let (served, source, dest) = places(sends);
        // Files come before what is in directories, so the second is reached when the first has been replaced.
        write(&source.join("long"), &noise(2_500_000, 1));
        let original = noise(300_000, 2);
        write(&source.join("sub/a"), &original);
        fs::hard_link(source.join("sub/a"), source.join("sub/b")).unwrap();
        // Files with several names are sent behind all others, and this one before those.
        fs::hard_link(source.join("long"), served.outside("spare")).unwrap();
        let mut names = fs::read_dir(source.join("sub")).unwrap();
        let first = names.next().unwrap().unwrap().path();
        let other = names.next().unwrap().unwrap().path();
        let finished = std::thread::scope(|scope| {
            let client = scope
                .spawn(|| transfer(&served, sends, &["--bwlimit", "1M", "--parallel", "1"]));
            common::wait_until(|| {
                let part = dest.join(".long.tack-part");
                part.metadata().is_ok_and(|part| part.len() > 0)
            });
            write(&source.join("new"), &noise(290_000, 3));
            fs::rename(source.join("new"), &first).unwrap();
            client.join().unwrap()
        });
        let there = |path: &Path| dest.join("sub").join(path.file_name().unwrap());
        assert!(fs::read(there(&first)).unwrap() == noise(290_000, 3), "{sends}");
        assert!(!there(&other).exists(), "{sends}: it has other content at the source");
        assert_eq!(finished.number("failed"), 1);
        assert!(finished.errors.contains("transfer it again"), "{}", finished.errors);
        transfer(&served, sends, &[]).expect(0);
        assert!(fs::read(there(&other)).unwrap() == original);
    }
}

#[test]
fn a_group_that_an_access_control_list_keeps_out_stays_out() {
    let served = Served::new(&[]);
    let source = served.path("tree");
    write(&source.join("file"), b"secret");
    fs::set_permissions(source.join("file"), PermissionsExt::from_mode(0o600)).unwrap();
    // As acl(5) has it: the owner, another user, the group, the mask, others.
    let entries = [
        (1, 6, u32::MAX),
        (2, 6, 12345),
        (4, 0, u32::MAX),
        (16, 6, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut list = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        list.extend([tag, 0, permissions, 0]);
        list.extend(id.to_le_bytes());
    }
    let (file, flags) = (File::open(source.join("file")).unwrap(), XattrFlags::empty());
    if rustix::fs::fsetxattr(&file, "system.posix_acl_access", &list, flags).is_err() {
        common::skip("no access control lists here");
        return;
    }
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&source.join("file")), 0o660, "as it seems");
    for options in [&["-r"][..], &["-r", "--preserve"], &["-r", "--preserve", "--checksum"]] {
        // Once anew, and once unchanged.
        for _ in 0..2 {
            let dest = served.outside("dest");
            let mut client = served.client("get");
            run(client.args(options).arg(served.target("tree")).arg(&dest)).expect(0);
            assert_eq!(mode(&dest.join("file")), 0o600, "{options:?}");
        }
        fs::remove_dir_all(served.outside("dest")).unwrap();
    }
}

#[test]
fn of_two_things_of_one_name_the_first_is_sent_and_the_other_is_told() {
    // What each source has: a link that leads to this, or a file.
    let (file, one, two) = (None, Some("one"), Some("two"));
    for (first, second) in [(file, two), (one, two), (one, file)] {
        let served = Served::new(&[]);
        for (name, leads_to) in [("first", first), ("second", second)] {
            let directory = served.outside(name);
            fs::create_dir(&directory).unwrap();
            match leads_to {
                Some(to) => symlink(to, directory.join("x")).unwrap(),
                None => fs::write(directory.join("x"), name).unwrap(),
            }
        }
        let mut send = served.client("send");
        send.args(["--preserve", "first/.", "second/."]);
        let finished = run(send.arg(served.target("all"))).expect(5);
        assert!(finished.errors.contains("another source has"), "{}", finished.errors);
        let sent = served.path("all/x");
        match first {
            Some(to) => assert_eq!(fs::read_link(sent).unwrap(), Path::new(to)),
            None => assert_eq!(fs::read_to_string(sent).unwrap(), "first"),
        }
    }
}

#[test]
fn permissions_are_set_of_a_file_that_its_owner_cannot_open() {
    if !rustix::process::geteuid().is_root() {
        common::skip("takes root");
        return;
    }
    for mode in [0o200, 0] {
        let served = Served::new(&[]);
        let dest = served.outside("tree");
        fs::set_permissions(served.outside(""), PermissionsExt::from_mode(0o777)).unwrap();
        for file in [served.path("tree/file"), dest.join("file")] {
            write(&file, b"content");
            dress(&file, 0o640, 1000);
        }
        dress(&dest.join("file"), mode, 1000);
        for path in [dest.join("file"), dest.clone()] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut client = served.client("get");
        client.uid(NOBODY).gid(NOBODY);
        run(client.args(["-r", "-p"]).arg(served.target("tree")).arg(&dest)).expect(0);
        let found = dest.join("file").metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, 0o640, "it was {mode:o}");
    }
}
