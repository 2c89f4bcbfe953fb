//! Trees of many small files: in bundles, in batches, and not again if nothing has changed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use common::{Served, assert_same_tree, noise, run, write};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const SEED: u64 = 20_261_123;

/// Fills `dir` with files around the sizes where the way of transfer changes.
fn fill(dir: &Path, files: usize) {
    for n in 0..files {
        let size = match n % 100 {
            7 => 128 * 1024,
            8 => 128 * 1024 + 1,
            9 => 64 * 1024,
            _ => n % 5000,
        };
        write(&dir.join(format!("d{}/{n}", n / 150)), &noise(size, n as u64));
    }
    fs::create_dir(dir.join("void")).unwrap();
}

fn set_time(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn many_small_files_arrive_whole_in_both_directions() {
    let served = Served::new(&[]);
    fill(&served.path("tree"), 1000);
    let dest = served.outside("dest");
    let first = served.get_tree("tree", &dest).expect(0);
    assert_same_tree(&served.path("tree"), &dest);
    assert_eq!((first.number("files"), first.number("equal")), (1000, 0));
    assert_eq!(first.number("bytes"), first.number("transferred_bytes"));
    let digests = first.summary["digests"].as_array().unwrap();
    assert!(digests.len() == 1000 && digests.iter().all(|file| file["blake3"].is_string()));

    let sent = served.send(&dest, "in").expect(0);
    assert_same_tree(&dest, &served.path("in/dest"));
    assert_eq!((sent.number("files"), sent.number("equal")), (1000, 0));
    for again in [served.get_tree("tree", &dest), served.send(&dest, "in")] {
        let again = again.expect(0);
        assert_eq!((again.number("files"), again.number("equal")), (1000, 1000));
        assert_eq!(again.number("transferred_bytes"), 0);
    }
}

#[test]
fn only_what_has_changed_is_transferred_and_checksums_find_the_rest() {
    let served = Served::new(&[]);
    let source = served.outside("tree");
    fill(&source, 300);
    served.send(&source, "").expect(0);
    fs::write(source.join("d0/1"), "changed").unwrap();
    let found = served.send(&source, "").expect(0);
    assert_eq!((found.number("equal"), found.number("transferred_bytes")), (299, 7));
    assert_same_tree(&source, &served.path("tree"));

    // The same size and time, small and large.
    for name in ["d0/2", "d0/8"] {
        let path = source.join(name);
        let (old, time) =
            (fs::read(&path).unwrap(), path.metadata().unwrap().modified().unwrap());
        fs::write(&path, noise(old.len(), 999)).unwrap();
        set_time(&path, time);
    }
    let blind = served.send(&source, "").expect(0);
    assert_eq!(blind.number("equal"), 300);
    let mut client = served.client("send");
    let sure = run(client.arg("--checksum").arg(&source).arg(served.target(""))).expect(0);
    assert_eq!((sure.number("files"), sure.number("equal")), (300, 298));
    assert_same_tree(&source, &served.path("tree"));

    // The other way, with a file here that only looks like the server's.
    let dest = served.outside("copy");
    served.get_tree("tree", &dest).expect(0);
    let time = dest.join("d0/3").metadata().unwrap().modified().unwrap();
    fs::write(dest.join("d0/3"), "bad").unwrap();
    set_time(&dest.join("d0/3"), time);
    let mut client = served.client("get");
    client.args(["-r", "--checksum"]).arg(served.target("tree")).arg(&dest);
    let sure = run(&mut client).expect(0);
    assert_eq!((sure.number("equal"), sure.number("transferred_bytes")), (299, 3));
    assert_same_tree(&source, &dest);
}

#[test]
fn files_named_one_by_one_go_into_one_directory() {
    let served = Served::new(&[]);
    let mut client = served.client("send");
    for n in 0..300usize {
        let path = served.outside(&format!("file{n}"));
        fs::write(&path, noise(n, n as u64)).unwrap();
        client.arg(path);
    }
    let sent = run(client.arg(served.target("box"))).expect(0);
    assert_eq!(sent.number("files"), 300);
    for n in 0..300usize {
        assert!(fs::read(served.path(&format!("box/file{n}"))).unwrap() == noise(n, n as u64));
    }
}

#[test]
fn a_private_directory_stays_private_in_both_directions() {
    let served = Served::new(&[]);
    let source = served.outside("source");
    write(&source.join("a/b/file"), b"content");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for (path, bits) in [("", 0o750), ("a", 0o700), ("a/b", 0o755)] {
        fs::set_permissions(source.join(path), fs::Permissions::from_mode(bits)).unwrap();
    }
    served.send(&source, "").expect(0);
    served.get_tree("source", Path::new("back")).expect(0);
    for base in [served.path("source"), served.outside("back")] {
        for (path, bits) in [("", 0o750), ("a", 0o700), ("a/b", 0o755)] {
            assert_eq!(mode(&base.join(path)) & !bits, 0, "{}", base.join(path).display());
        }
    }
}

#[test]
fn a_file_that_cannot_be_stored_is_one_failure_and_holds_up_no_other() {
    let served = Served::new(&[]);
    let source = served.outside("source");
    fill(&source, 50);
    // Directories have the names of files there.
    fs::create_dir_all(served.path("source/d0/11")).unwrap();
    fs::create_dir_all(served.path("source/d0/12")).unwrap();
    let sent = served.send(&source, "").expect(6);
    assert_eq!((sent.number("files"), sent.number("failed")), (48, 2));
    for name in ["d0/11", "d0/12"] {
        assert!(sent.errors.contains(&format!("source/{name}: ")), "{}", sent.errors);
    }
    fs::create_dir_all(served.outside("back/d0/13")).unwrap();
    let fetched = served.get_tree("source", Path::new("back")).expect(5);
    assert_eq!((fetched.number("files"), fetched.number("failed")), (47, 1));
}

/// All files below `dir` that have their final names. Others come and go while a server still
/// finishes what a dead client had sent.
fn named_files(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "tack-part") {
                continue;
            }
            if path.is_dir() { pending.push(path) } else { found.push(path) }
        }
    }
    found
}

/// Holds that what has its final name in `dest` is what it is in `source`; returns how many.
fn check_named_files(source: &Path, dest: &Path, seed: u64) -> usize {
    let named = named_files(dest);
    for name in &named {
        let original = source.join(name.strip_prefix(dest).unwrap());
        let same = fs::read(&original).unwrap() == fs::read(name).unwrap();
        assert!(same, "{} (seed {seed})", name.display());
    }
    named.len()
}

/// Kills clients after random times. Whenever one has died, each file that has its name is whole.
fn kill_again_and_again(client: impl Fn() -> Command, source: &Path, dest: &Path, seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for _ in 0..8 {
        let mut child = client().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.random_range(30..300)));
        child.kill().unwrap();
        child.wait().unwrap();
        check_named_files(source, dest, seed);
    }
}

#[test]
fn clients_that_are_killed_never_leave_a_wrong_file() {
    let served = Served::new(&[]);
    fill(&served.path("tree"), 1500);
    let dest = served.outside("dest");
    let get = || {
        let mut client = served.client("get");
        client.arg("-r").arg(served.target("tree")).arg("dest");
        client
    };
    kill_again_and_again(get, &served.path("tree"), &dest, SEED);
    run(&mut get()).expect(0);
    assert_same_tree(&served.path("tree"), &dest);

    let send = || {
        let mut client = served.client("send");
        client.arg("dest").arg(served.target("in"));
        client
    };
    let received = served.path("in/dest");
    kill_again_and_again(send, &dest, &received, SEED + 1);
    // A dead client's large file may still be in the server's hands for some seconds.
    let mut last = run(&mut send());
    for _ in 0..10 {
        if last.code == Some(0) {
            break;
        }
        last = run(&mut send());
    }
    last.expect(0);
    // Requests of dead clients may still open, and leave, temporary files of large ones.
    assert_eq!(check_named_files(&dest, &received, SEED + 1), 1500);
}
