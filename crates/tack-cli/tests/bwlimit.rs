//! Limits on the bytes per second of a connection.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;

use common::{Finished, Served, noise, run, write};

const RATE: &str = "100k";
const SIZE: usize = 300_000;
/// At the rate it takes three seconds; each end may be ahead by a few packets.
const LEAST_SECONDS: f64 = 2.7;

#[track_caller]
fn assert_held_back(finished: Finished) {
    let finished = finished.expect(0);
    assert!(finished.number("transferred_bytes") >= SIZE as u64);
    let seconds = finished.summary["seconds"].as_f64().unwrap();
    assert!(seconds >= LEAST_SECONDS, "{seconds}");
}

#[test]
fn a_client_holds_back_what_it_fetches_and_sends() {
    let served = Served::new(&[]);
    served.write("file", &noise(SIZE, 1));
    let fetch = || run(served.client("get").args(["--bwlimit", RATE, &served.target("file")]));
    assert_held_back(fetch());
    assert!(fs::read(served.outside("file")).unwrap() == noise(SIZE, 1));
    let mut send = served.client("send");
    assert_held_back(run(send.args(["--bwlimit", RATE, "file", &served.target("sent")])));
    assert!(fs::read(served.path("sent")).unwrap() == noise(SIZE, 1));
}

#[test]
fn a_server_holds_back_what_it_gives_and_takes() {
    let served = Served::new(&["--bwlimit", RATE]);
    served.write("file", &noise(SIZE, 1));
    assert_held_back(served.get("file", &served.outside("file")));
    assert_held_back(served.send(&served.outside("file"), "sent"));
    assert!(fs::read(served.path("sent")).unwrap() == noise(SIZE, 1));
}

#[test]
fn many_files_share_the_limit_and_all_arrive() {
    let served = Served::new(&[]);
    for n in 0..30 {
        served.write(&format!("tree/{n}"), &noise(SIZE / 30, n));
    }
    served.write("tree/large", &noise(SIZE, 99));
    let mut fetch = served.client("get");
    fetch.args(["-r", "--bwlimit", "200k"]).arg(served.target("tree")).arg("dest");
    assert_held_back(run(&mut fetch));
    common::assert_same_tree(&served.path("tree"), &served.outside("dest"));
}

#[test]
fn a_rate_without_sense_is_refused() {
    let served = Served::plain(&[]);
    write(&served.path("file"), b"content");
    for rate in ["0", "10Mbit", "-1"] {
        let mut fetch = served.client("get");
        run(fetch.args([&format!("--bwlimit={rate}"), &served.target("file")])).expect(2);
    }
}
