//! Holes of sparse files cross the network as lengths.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Finished, Served, noise, run, wait_until, write};

const SIZE: u64 = 100 << 20;

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
            let (mut source, mut dest) = (served.path("file"), served.outside("file"));
            if sends {
                (source, dest) = (dest, source);
            }
            test(&Self { served, source, dest, sends });
        }
    }

    fn client(&self, options: &[&str]) -> Command {
        let mut client = self.served.client(if self.sends { "send" } else { "get" });
        client.args(options);
        if self.sends {
            client.arg("file").arg(self.served.target(""));
        } else {
            client.arg(self.served.target("file")).arg("file");
        }
        client
    }

    fn transfer(&self, options: &[&str]) -> Finished {
        run(&mut self.client(options)).expect(0)
    }

    #[track_caller]
    fn assert_same(&self) {
        assert!(same(&self.source, &self.dest), "sends: {}", self.sends);
        let stored = self.dest.metadata().unwrap().blocks() * 512;
        assert!(stored < 4 << 20, "{stored} bytes on disk");
    }
}

fn same(one: &Path, other: &Path) -> bool {
    let (mut one, mut other) = (File::open(one).unwrap(), File::open(other).unwrap());
    let (mut here, mut there) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let read = one.read(&mut here).unwrap();
        if read == 0 {
            return other.read(&mut there).unwrap() == 0;
        }
        if other.read_exact(&mut there[..read]).is_err() || here[..read] != there[..read] {
            return false;
        }
    }
}

/// Pieces of data in a large hole, which begin and end anywhere.
fn make_sparse(path: &Path, seed: u64) {
    let mut file = File::create(path).unwrap();
    for (offset, length) in [
        (0, 1),
        (65_530, 12),
        (7_000_001, 300_000),
        (20 << 20, 4096),
        (SIZE - (9 << 20), 70_000),
    ] {
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.write_all(&noise(length, seed)).unwrap();
    }
    file.set_len(SIZE).unwrap();
}

#[test]
fn a_hole_crosses_the_network_as_its_length() {
    Pair::both(|pair| {
        make_sparse(&pair.source, 1);
        let done = pair.transfer(&[]);
        assert!(done.number("transferred_bytes") < 600_000, "{}", done.summary);
        pair.assert_same();
        assert_eq!(pair.transfer(&["--checksum"]).number("transferred_bytes"), 0);
        // Of which the receiver has another version.
        make_sparse(&pair.source, 2);
        let done = pair.transfer(&[]);
        assert!(done.number("transferred_bytes") < 600_000, "{}", done.summary);
        pair.assert_same();
    });
}

#[test]
fn nothing_but_a_hole_arrives() {
    Pair::both(|pair| {
        File::create(&pair.source).unwrap().set_len(SIZE + 1).unwrap();
        assert!(pair.transfer(&[]).number("transferred_bytes") < 8192);
        pair.assert_same();
    });
}

#[test]
fn a_sparse_file_is_resumed_between_its_holes() {
    Pair::both(|pair| {
        let mut file = File::create(&pair.source).unwrap();
        for number in 0..20 {
            file.seek(SeekFrom::Start(number * (2 << 20))).unwrap();
            file.write_all(&noise(100_000, number)).unwrap();
        }
        file.set_len(SIZE).unwrap();
        drop(file);
        let part = pair.dest.with_file_name(".file.tack-part");
        let mut client = pair.client(&["--bwlimit", "500k"]);
        let mut child = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until(|| part.metadata().is_ok_and(|part| part.len() > 5 << 20));
        child.kill().unwrap();
        child.wait().unwrap();
        let done = pair.transfer(&[]);
        assert!(done.number("resumed_bytes") > 4 << 20, "{}", done.summary);
        assert!(done.number("transferred_bytes") < 2_000_000, "{}", done.summary);
        pair.assert_same();
    });
}

#[test]
fn holes_go_through_a_pipe_as_zeros() {
    let served = Served::new(&[]);
    let mut content = vec![0; 1_000_000];
    content[400_000..400_004].copy_from_slice(b"data");
    write(&served.path("file"), &content);
    let through = served.outside("through");
    assert!(Command::new("mkfifo").arg(&through).status().unwrap().success());
    let reader = std::thread::spawn({
        let through = through.clone();
        move || fs::read(through).unwrap()
    });
    // Without --json, which prints where the content may go.
    let mut get = Command::new(common::TACK);
    get.args(["get", "--fingerprint", &served.fingerprint]).env("TACK_CONFIG", "");
    get.env("TACK_TOKEN", served.token.as_ref().unwrap()).arg(served.target("file"));
    assert!(get.arg(&through).status().unwrap().success());
    assert!(reader.join().unwrap() == content);
}
