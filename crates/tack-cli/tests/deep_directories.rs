//! Directories that are deeper than any path reaches make no way, and stop no server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use common::{Served, run, write};

/// Removes a directory of any depth: the standard library needs an open file for each level.
struct Deep<'a>(&'a Path);

impl<'a> Deep<'a> {
    /// Makes so many directories in each other below `parent`.
    fn new(parent: &'a Path, depth: usize) -> Self {
        let made = Self(parent);
        fs::create_dir(parent).unwrap();
        let mut above = File::open(parent).unwrap();
        for _ in 0..depth {
            let next = format!("/proc/self/fd/{}/d", above.as_raw_fd());
            fs::create_dir(&next).unwrap();
            above = File::open(&next).unwrap();
        }
        made
    }
}

impl Drop for Deep<'_> {
    fn drop(&mut self) {
        let _ = Command::new("rm").arg("-r").arg(self.0).status();
    }
}

#[test]
fn a_directory_of_thousands_of_levels_makes_no_way_and_a_server_goes_on() {
    eprintln!("{:?}", std::time::SystemTime::now());
    let served = Served::new(&[]);
    let there = served.path("tree");
    let _there = Deep::new(&there, 5_000);
    write(&served.outside("tree/d"), b"content");
    eprintln!("{:?}", std::time::SystemTime::now());
    let sent = run(served.client("send").args(["--delete", "tree"]).arg(served.target("")));
    assert!(sent.errors.contains("too deep"), "{:?} {}", sent.code, sent.errors);
    eprintln!("{:?}", std::time::SystemTime::now());
    write(&served.path("other"), b"content");
    served.get("other", &served.outside("other")).expect(0);
    eprintln!("{:?}", std::time::SystemTime::now());
}
