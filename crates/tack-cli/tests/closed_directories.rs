//! Directories that their owner may not write to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use common::{
    Finished, Served, assert_same_tree, finish, noise, run, signal, wait_until, write,
};
use nix::sys::signal::Signal;
use rustix::fs::XattrFlags;

/// Some user who is not root.
const NOBODY: u32 = 65534;
/// The directories of the tree and their permissions, the deepest first.
const DIRECTORIES: [(&str, u32); 7] = [
    ("closed/private/deep", 0o555),
    ("closed/private", 0o500),
    ("closed/empty", 0o555),
    ("closed", 0o555),
    ("open/closed", 0o555),
    ("open", 0o755),
    ("", 0o555),
];

/// A source and a destination, one of which is served.
struct Pair {
    served: Served,
    source: PathBuf,
    dest: PathBuf,
    sends: bool,
    /// The receiver is not root, who may write everywhere.
    as_nobody: bool,
}

impl Pair {
    fn new(sends: bool, as_nobody: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("served")).unwrap();
        let mut program = Command::new(common::TACK);
        if as_nobody {
            for path in [dir.path().to_owned(), dir.path().join("served")] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        if as_nobody && sends {
            program.uid(NOBODY).gid(NOBODY);
        }
        let served = Served::in_dir(dir, program, "127.0.0.1:0", &["--write"]);
        let (mut source, mut dest) = (served.path("tree"), served.outside("tree"));
        if sends {
            (source, dest) = (dest, source);
        }
        Self { served, source, dest, sends, as_nobody }
    }

    /// Both directions, and receivers that are root and are not.
    fn each(test: impl Fn(&Self)) {
        let is_root = rustix::process::geteuid().is_root();
        for sends in [false, true] {
            for as_nobody in [false, true] {
                if is_root || !as_nobody {
                    test(&Self::new(sends, as_nobody));
                }
            }
        }
    }

    fn client(&self, options: &[&str]) -> Command {
        let mut client = self.served.client(if self.sends { "send" } else { "get" });
        client.args(options);
        if self.sends {
            client.arg("tree").arg(self.served.target(""));
        } else {
            client.args(["-r", &self.served.target("tree"), "tree"]);
            if self.as_nobody {
                client.uid(NOBODY).gid(NOBODY);
            }
        }
        client
    }

    fn transfer(&self, options: &[&str]) -> Finished {
        run(&mut self.client(options)).expect(0)
    }

    /// Gives the directories of the source their permissions, and a time that nothing has by itself.
    fn close(&self) {
        for (name, mode) in DIRECTORIES {
            let path = self.source.join(name);
            let time = UNIX_EPOCH + Duration::new(1_400_000, 123_456_789);
            File::open(&path).unwrap().set_modified(time).unwrap();
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    }

    fn fill(&self) {
        for (name, _) in DIRECTORIES {
            write(&self.source.join(name).join("file"), name.as_bytes());
        }
        write(&self.source.join("closed/private/large"), &noise(300_000, 1));
        fs::remove_file(self.source.join("closed/empty/file")).unwrap();
        self.close();
    }

    /// Adds files of all kinds to closed directories of the source, changes one and removes one.
    fn change(&self) {
        open_all(&self.source);
        for name in ["closed/new", "closed/private/file", "new"] {
            write(&self.source.join(name), b"has changed");
        }
        write(&self.source.join("closed/private/deep/large"), &noise(400_000, 2));
        fs::remove_file(self.source.join("open/closed/file")).unwrap();
        self.close();
    }

    #[track_caller]
    fn assert_same(&self, with_times: bool, context: &str) {
        assert_same_tree(&self.source, &self.dest);
        for (name, mode) in DIRECTORIES {
            let there = self.dest.join(name).metadata().unwrap();
            let context = format!("{name} {context}, sends: {}", self.sends);
            assert_eq!(
                format!("{:o}", there.mode() & 0o7777),
                format!("{mode:o}"),
                "{context}"
            );
            if with_times {
                let time = (there.mtime(), there.mtime_nsec());
                assert_eq!(time, (1_400_000, 123_456_789), "{context}");
            }
        }
    }
}

/// Lets an ordinary user remove what is in closed directories.
impl Drop for Pair {
    fn drop(&mut self) {
        for tree in [&self.source, &self.dest] {
            open_all(tree);
        }
    }
}

/// Lets the owner of the directories write to them.
fn open_all(tree: &Path) {
    for (name, _) in DIRECTORIES.iter().rev() {
        // It may not be there.
        let _ = fs::set_permissions(tree.join(name), Permissions::from_mode(0o755));
    }
}

/// What rsync would still transfer or change; `None` without rsync.
fn rsync_finds(source: &Path, dest: &Path) -> Option<String> {
    let mut rsync = Command::new("rsync");
    rsync.arg("-nrlptHi").arg(source.join("")).arg(dest.join(""));
    let Ok(output) = rsync.output() else {
        common::skip("there is no rsync on this machine");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_directory_that_is_closed_to_its_owner_arrives_closed_and_stays_so() {
    Pair::each(|pair| {
        pair.fill();
        for context in ["anew", "unchanged"] {
            pair.transfer(&[]);
            pair.assert_same(false, context);
        }
    });
}

#[test]
fn an_open_directory_is_closed_once_the_source_is() {
    Pair::each(|pair| {
        pair.fill();
        open_all(&pair.source);
        for options in [&[][..], &["--preserve"]] {
            pair.transfer(options);
            open_all(&pair.dest);
            pair.close();
            let again = pair.transfer(options);
            assert_eq!(again.number("transferred_bytes"), 0);
            if options.len() == 1 {
                pair.assert_same(true, "closed later");
                continue;
            }
            // Nothing else of a directory that is there changes, and nothing at all of the one that is named.
            for (name, mode) in DIRECTORIES {
                let there = pair.dest.join(name).metadata().unwrap().mode() & 0o7777;
                let writes = if name.is_empty() { 0o200 } else { mode & 0o200 };
                assert_eq!(format!("{there:o}"), format!("{:o}", 0o555 | writes), "{name}");
            }
        }
    });
}

#[test]
fn with_preserve_closed_directories_keep_their_times_and_rsync_finds_nothing_to_do() {
    Pair::each(|pair| {
        pair.fill();
        for context in ["anew", "unchanged", "without permission to write"] {
            pair.transfer(&["--preserve"]);
            pair.assert_same(true, context);
            let left = rsync_finds(&pair.source, &pair.dest).unwrap_or_default();
            assert_eq!(left, "", "{context}");
        }
    });
}

#[test]
fn a_closed_directory_takes_what_is_new_at_the_source_and_is_closed_again() {
    Pair::each(|pair| {
        for options in [&["--delete"][..], &["--preserve", "--delete"]] {
            pair.fill();
            pair.transfer(options);
            pair.change();
            let is_preserved = options.len() == 2;
            if is_preserved {
                open_all(&pair.source);
                symlink("file", pair.source.join("closed/link")).unwrap();
                fs::hard_link(pair.source.join("open/file"), pair.source.join("closed/same"))
                    .unwrap();
                pair.close();
            }
            pair.transfer(options);
            pair.assert_same(is_preserved, "changed");
            if is_preserved {
                let left = rsync_finds(&pair.source, &pair.dest).unwrap_or_default();
                assert_eq!(left, "");
            }
            for tree in [&pair.source, &pair.dest] {
                open_all(tree);
                fs::remove_dir_all(tree).unwrap();
            }
        }
    });
}

#[test]
fn what_is_kept_or_separated_in_a_closed_directory_leaves_it_closed() {
    Pair::each(|pair| {
        let options = ["--preserve", "--backup"];
        pair.fill();
        pair.transfer(&options);
        open_all(&pair.source);
        write(&pair.source.join("closed/file"), b"another version");
        fs::hard_link(pair.source.join("open/file"), pair.source.join("closed/same")).unwrap();
        pair.close();
        pair.transfer(&options);
        assert_eq!(fs::read(pair.dest.join("closed/file~")).unwrap(), b"closed");
        // Now it is a file of its own.
        open_all(&pair.source);
        let same = pair.source.join("closed/same");
        let modified = same.metadata().unwrap().modified().unwrap();
        fs::remove_file(&same).unwrap();
        write(&same, b"open");
        File::open(&same).unwrap().set_modified(modified).unwrap();
        pair.close();
        pair.transfer(&options);
        assert_eq!(pair.dest.join("closed/same").metadata().unwrap().nlink(), 1);
        let mode = pair.dest.join("closed").metadata().unwrap().mode();
        assert_eq!(mode & 0o7777, 0o555);
    });
}

#[test]
fn a_closed_directory_takes_extended_attributes() {
    let set = |path: &Path| {
        let (file, flags) = (File::open(path).unwrap(), XattrFlags::empty());
        rustix::fs::fsetxattr(&file, "user.a", b"value", flags).is_ok()
    };
    Pair::each(|pair| {
        pair.fill();
        open_all(&pair.source);
        if !set(&pair.source.join("closed/private")) || !set(&pair.source) {
            common::skip("no extended attributes on this file system");
            return;
        }
        pair.close();
        for _ in 0..2 {
            pair.transfer(&["--preserve", "--xattrs"]);
            pair.assert_same(true, "with attributes");
            for name in ["closed/private", ""] {
                let directory = File::open(pair.dest.join(name)).unwrap();
                let mut value = [0; 8];
                let length =
                    rustix::fs::fgetxattr(&directory, "user.a", &mut value[..]).unwrap();
                assert_eq!(&value[..length], b"value");
            }
        }
    });
}

#[test]
fn directories_are_closed_behind_a_transfer_that_was_killed_and_resumed() {
    Pair::each(|pair| {
        pair.fill();
        for options in [&[][..], &["--preserve"]] {
            let part = pair.dest.join("closed/private/.large.tack-part");
            let slowly = [options, &["--bwlimit", "200k"]].concat();
            let mut client = pair.client(&slowly);
            client.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = client.spawn().unwrap();
            wait_until(|| part.metadata().is_ok_and(|part| part.len() > 0));
            child.kill().unwrap();
            child.wait().unwrap();
            let mode = pair.dest.join("closed/private").metadata().unwrap().mode();
            assert_eq!(mode & 0o7777, 0o500, "it is never wider");
            let resumed = pair.transfer(options);
            assert!(resumed.number("transferred_bytes") > 0);
            pair.assert_same(!options.is_empty(), "resumed");
            open_all(&pair.dest);
            fs::remove_dir_all(&pair.dest).unwrap();
        }
    });
}

#[test]
fn directories_are_closed_behind_a_transfer_that_a_signal_ends() {
    // Root opens no directory.
    let pair = Pair::new(false, rustix::process::geteuid().is_root());
    for n in 0..1500 {
        write(&pair.source.join(format!("closed/file{n}")), b"content");
    }
    fs::set_permissions(pair.source.join("closed"), Permissions::from_mode(0o555)).unwrap();
    let mut interrupted = 0;
    for round in 0..20 {
        let closed = pair.dest.join("closed");
        let mut client = pair.client(&[]);
        let child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let count = || closed.read_dir().map_or(0, Iterator::count);
        wait_until(|| count() > 40 * round);
        signal(&child, Signal::SIGINT);
        let ended = finish(child);
        if ended.code == Some(8) {
            interrupted += 1;
            assert_eq!(closed.metadata().unwrap().mode() & 0o7777, 0o555, "round {round}");
        }
        open_all(&pair.dest);
        fs::remove_dir_all(&pair.dest).unwrap();
    }
    assert!(interrupted > 0);
}

#[test]
fn a_closed_directory_that_would_lose_its_setgid_bit_stays_as_it_is() {
    Pair::each(|pair| {
        if !pair.as_nobody {
            return;
        }
        write(&pair.source.join("closed/file"), b"content");
        fs::set_permissions(pair.source.join("closed"), Permissions::from_mode(0o555)).unwrap();
        let closed = pair.dest.join("closed");
        fs::create_dir_all(&closed).unwrap();
        chown(&pair.dest, Some(NOBODY), Some(NOBODY)).unwrap();
        // A group that the user is not in.
        chown(&closed, Some(NOBODY), Some(0)).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o2555)).unwrap();
        let codes = [&["-n"][..], &[]].map(|options| run(&mut pair.client(options)).code);
        // A server does not tell whose its directories are.
        assert!(pair.sends || codes[0] == codes[1], "{codes:?}");
        assert_ne!(codes[1], Some(0));
        assert_eq!(closed.metadata().unwrap().mode() & 0o7777, 0o2555);
        assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
        // In another one it is kept.
        chown(&closed, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o2555)).unwrap();
        pair.transfer(&[]);
        assert_eq!(closed.metadata().unwrap().mode() & 0o7777, 0o2555);
    });
}

#[test]
fn a_closed_directory_that_is_only_named_takes_no_file() {
    Pair::each(|pair| {
        if !pair.as_nobody {
            return;
        }
        write(&pair.source.join("file"), b"content");
        fs::create_dir(&pair.dest).unwrap();
        chown(&pair.dest, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&pair.dest, Permissions::from_mode(0o555)).unwrap();
        let mut client = pair.served.client(if pair.sends { "send" } else { "get" });
        if pair.sends {
            client.arg("tree/file").arg(pair.served.target("tree/"));
        } else {
            client.arg(pair.served.target("tree/file")).arg("tree").uid(NOBODY).gid(NOBODY);
        }
        let finished = run(&mut client);
        assert_ne!(finished.code, Some(0));
        assert!(finished.errors.contains("ermission denied"), "{}", finished.errors);
        assert_eq!(fs::read_dir(&pair.dest).unwrap().count(), 0);
    });
}
