//! Memory stays small whatever the size of a file and the speed of a disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Served, finish, noise, peak_kib};

const LIMIT_KIB: u64 = 64 * 1024;

/// Runs a client to its end and gives its peak memory.
fn peak_of(client: &mut Command) -> u64 {
    let mut child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_kib(child.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    finish(child).expect(0);
    peak
}

fn make_file(path: &std::path::Path, mebibytes: usize) {
    let mut file = File::create(path).unwrap();
    for n in 0..mebibytes {
        file.write_all(&noise(1 << 20, n as u64)).unwrap();
    }
}

fn same_content(left: &std::path::Path, right: &std::path::Path) -> bool {
    let digest = |path| {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path).unwrap()).unwrap();
        hasher.finalize()
    };
    digest(left) == digest(right)
}

fn check(served: &Served, client: u64) {
    let server = peak_kib(served.child.id()).unwrap();
    println!("peak memory: client {client} KiB, server {server} KiB");
    assert!(client < LIMIT_KIB, "client: {client} KiB");
    assert!(server < LIMIT_KIB, "server: {server} KiB");
}

#[test]
fn a_large_file_is_fetched_and_sent_in_little_memory() {
    let served = Served::new(&[]);
    make_file(&served.path("file"), 256);
    let mut client = served.client("get");
    let peak = peak_of(client.arg(served.target("file")).arg("copy"));
    check(&served, peak);
    assert!(same_content(&served.path("file"), &served.outside("copy")));

    let mut client = served.client("send");
    let peak = peak_of(client.arg("copy").arg(served.target("back")));
    check(&served, peak);
    assert!(same_content(&served.path("file"), &served.path("back")));
}

#[test]
fn a_slow_disk_holds_the_sender_back_instead_of_filling_memory() {
    let served = Served::new(&["--write-limit", "8M"]);
    make_file(&served.path("file"), 64);
    let mut client = served.client("get");
    client.args(["--write-limit", "8M"]).arg(served.target("file")).arg("copy");
    let peak = peak_of(&mut client);
    check(&served, peak);

    let mut client = served.client("send");
    let peak = peak_of(client.arg("copy").arg(served.target("back")));
    check(&served, peak);
    assert!(same_content(&served.path("file"), &served.path("back")));
}
