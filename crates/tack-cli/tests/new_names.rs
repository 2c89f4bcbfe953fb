//! Hard links that are new at the source, of files that the destination has.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Finished, Served, assert_same_tree, noise, run, write};

/// A source and a destination, one of which is served.
struct Pair {
    served: Served,
    source: PathBuf,
    dest: PathBuf,
    sends: bool,
}

impl Pair {
    fn both(test: impl Fn(&Self)) {
        for sends in [false, true] {
            let served = Served::new(&[]);
            let (mut source, mut dest) = (served.path("tree"), served.outside("tree"));
            if sends {
                (source, dest) = (dest, source);
            }
            fs::create_dir(&source).unwrap();
            test(&Self { served, source, dest, sends });
        }
    }

    fn transfer(&self, options: &[&str]) -> Finished {
        let mut client = self.served.client(if self.sends { "send" } else { "get" });
        client.arg("--preserve").args(options);
        if self.sends {
            client.arg("tree").arg(self.served.target(""));
        } else {
            client.args(["-r", &self.served.target("tree"), "tree"]);
        }
        run(&mut client)
    }

    /// Gives a file of the source further names, before and behind it in any order, and in other directories.
    fn link(&self, name: &str) {
        for directory in ["", "before", "old", "zz/new"] {
            fs::create_dir_all(self.source.join(directory)).unwrap();
            for at in 0..3 {
                let new = self.source.join(directory).join(format!("{at}-{}", name.len()));
                fs::hard_link(self.source.join(name), new).unwrap();
            }
        }
    }

    #[track_caller]
    fn assert_same(&self) {
        assert_same_tree(&self.source, &self.dest);
        let mut rsync = Command::new("rsync");
        rsync.arg("-nrlptHi").arg(self.source.join("")).arg(self.dest.join(""));
        let Ok(output) = rsync.output() else {
            common::skip("there is no rsync on this machine");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "sends: {}", self.sends);
    }
}

fn number(path: &Path) -> u64 {
    path.metadata().unwrap().ino()
}

#[test]
fn a_new_name_of_a_file_that_is_there_is_linked_and_nothing_is_sent() {
    Pair::both(|pair| {
        for options in [&[][..], &["--checksum"], &["--delete"]] {
            write(&pair.source.join("old/small"), b"small");
            write(&pair.source.join("old/larger"), &noise(300_000, 1));
            pair.transfer(options).expect(0);
            let old =
                (number(&pair.dest.join("old/small")), number(&pair.dest.join("old/larger")));
            pair.link("old/small");
            pair.link("old/larger");
            let done = pair.transfer(options).expect(0);
            assert_eq!(done.number("transferred_bytes"), 0, "{options:?} {}", done.summary);
            assert_eq!(done.number("linked"), 24, "{options:?} {}", done.summary);
            assert_eq!(done.number("equal"), 2, "{options:?} {}", done.summary);
            pair.assert_same();
            let now =
                (number(&pair.dest.join("old/small")), number(&pair.dest.join("old/larger")));
            assert_eq!(now, old, "the files that were there have stayed");
            let again = pair.transfer(options).expect(0);
            assert_eq!((again.number("linked"), again.number("transferred_bytes")), (0, 0));
            fs::remove_dir_all(&pair.source).unwrap();
            fs::remove_dir_all(&pair.dest).unwrap();
            fs::create_dir(&pair.source).unwrap();
        }
    });
}

#[test]
fn a_file_that_has_got_another_name_and_lost_its_first_one_is_linked_from_the_one_that_stays() {
    Pair::both(|pair| {
        write(&pair.source.join("m"), &noise(200_000, 1));
        fs::hard_link(pair.source.join("m"), pair.source.join("n")).unwrap();
        pair.transfer(&[]).expect(0);
        for (old, new) in [("m", "a"), ("n", "z")] {
            fs::rename(pair.source.join(old), pair.source.join(new)).unwrap();
            let done = pair.transfer(&["--delete"]).expect(0);
            assert_eq!(done.number("transferred_bytes"), 0, "{}", done.summary);
            assert_eq!((done.number("linked"), done.number("deleted")), (1, 1));
            pair.assert_same();
        }
    });
}

#[test]
fn of_a_file_that_has_changed_the_content_crosses_once_whatever_its_names_are() {
    Pair::both(|pair| {
        write(&pair.source.join("old/file"), &noise(100_000, 1));
        pair.transfer(&[]).expect(0);
        pair.link("old/file");
        fs::write(pair.source.join("old/file"), noise(100_000, 2)).unwrap();
        let done = pair.transfer(&[]).expect(0);
        assert_eq!(done.number("transferred_bytes"), 100_000, "{}", done.summary);
        pair.assert_same();
    });
}

#[test]
fn a_file_that_looks_like_another_name_and_is_another_file_is_told_apart() {
    Pair::both(|pair| {
        write(&pair.source.join("m"), b"content");
        let modified = pair.source.join("m").metadata().unwrap().modified().unwrap();
        pair.transfer(&[]).expect(0);
        fs::hard_link(pair.source.join("m"), pair.source.join("a")).unwrap();
        // Of the same size and another time.
        write(&pair.dest.join("m"), b"CONTENT");
        let other = modified - std::time::Duration::from_secs(100);
        File::open(pair.dest.join("m")).unwrap().set_modified(other).unwrap();
        let done = pair.transfer(&[]).expect(0);
        assert_eq!(done.number("transferred_bytes"), 7);
        pair.assert_same();
        // Of other permissions.
        fs::hard_link(pair.source.join("m"), pair.source.join("b")).unwrap();
        fs::set_permissions(pair.source.join("m"), Permissions::from_mode(0o600)).unwrap();
        assert_eq!(pair.transfer(&[]).expect(0).number("transferred_bytes"), 0);
        pair.assert_same();
    });
}

#[test]
fn a_name_that_is_taken_by_a_file_that_is_to_be_kept_is_kept() {
    Pair::both(|pair| {
        write(&pair.source.join("m"), b"content");
        pair.transfer(&["--backup"]).expect(0);
        fs::hard_link(pair.source.join("m"), pair.source.join("a")).unwrap();
        write(&pair.dest.join("a"), b"of somebody else");
        let done = pair.transfer(&["--backup"]).expect(0);
        assert_eq!(done.number("transferred_bytes"), 0);
        assert_eq!(fs::read(pair.dest.join("a~")).unwrap(), b"of somebody else");
        assert_eq!(number(&pair.dest.join("a")), number(&pair.dest.join("m")));
    });
}

#[test]
fn many_files_with_several_names_arrive_and_new_names_of_them_are_linked() {
    const FILES: usize = 600;
    Pair::both(|pair| {
        let name =
            |directory: &str, at: usize| pair.source.join(directory).join(format!("{at}"));
        for at in 0..FILES {
            write(&name("m", at), at.to_string().repeat(at % 70).as_bytes());
            fs::create_dir_all(pair.source.join("n")).unwrap();
            fs::hard_link(name("m", at), name("n", at)).unwrap();
        }
        let done = pair.transfer(&[]).expect(0);
        assert_eq!(
            (done.number("files"), done.number("linked")),
            (600, 600),
            "{}",
            done.summary
        );
        pair.assert_same();
        // In directories that come before and behind the others, and with more names than are offered with a file.
        for directory in ["a", "z", "m/within", "n/within"] {
            fs::create_dir(pair.source.join(directory)).unwrap();
            for at in (0..FILES).step_by(2) {
                fs::hard_link(name("m", at), name(directory, at)).unwrap();
            }
        }
        for at in 0..60 {
            fs::hard_link(name("m", 69), name("a", 1000 + at)).unwrap();
        }
        let done = pair.transfer(&["--delete"]).expect(0);
        assert_eq!(done.number("transferred_bytes"), 0, "{}", done.summary);
        assert_eq!(done.number("linked"), 4 * 300 + 60, "{}", done.summary);
        assert_eq!(done.number("deleted"), 0);
        pair.assert_same();
    });
}

#[test]
fn a_dry_run_shows_that_a_new_name_is_linked() {
    Pair::both(|pair| {
        write(&pair.source.join("old/file"), &noise(300_000, 1));
        pair.transfer(&[]).expect(0);
        pair.link("old/file");
        let planned = pair.transfer(&["-n"]).expect(0);
        assert_eq!(planned.summary["plan"]["linked"], 12, "{}", planned.summary);
        assert_eq!(planned.summary["plan"]["files"], 0, "{}", planned.summary);
    });
}

#[test]
fn named_files_are_linked_to_one_that_is_there() {
    let served = Served::new(&[]);
    write(&served.outside("b"), b"content");
    let send = |names: &[&str]| {
        let mut send = served.client("send");
        run(send.arg("-p").args(names).arg(served.target("dest/"))).expect(0)
    };
    send(&["b"]);
    fs::hard_link(served.outside("b"), served.outside("a")).unwrap();
    let done = send(&["a", "b"]);
    assert_eq!((done.number("linked"), done.number("transferred_bytes")), (1, 0));
    assert_eq!(number(&served.path("dest/a")), number(&served.path("dest/b")));
}
