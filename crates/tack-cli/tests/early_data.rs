//! A second command at the same server asks with its first packet (0-RTT).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use common::{Served, run};
use serde_json::{Value, json};
use tack_emulator::relay::Relay;
use tack_link::{LinkSpec, PathSpec};

/// What became of the early data of three commands in turn, the second of which has further `arguments`.
fn early_data(serve: &[&str], arguments: &[&str]) -> (Served, Vec<Value>) {
    let served = Served::new(serve);
    served.write("file", b"content");
    let commands: [&[&str]; 3] = [&[], arguments, &[]];
    let told = commands.iter().map(|arguments| {
        let mut get = served.client("get");
        get.args(*arguments).arg(served.target("file")).arg(served.outside("copy"));
        run(&mut get).expect(0).summary["transport"]["early_data"].clone()
    });
    let told = told.collect();
    (served, told)
}

#[test]
fn commands_after_the_first_ask_early() {
    let (served, told) = early_data(&[], &[]);
    assert_eq!(told, [Value::Null, json!("accepted"), json!("accepted")]);
    let sessions = served.outside("state/tack/tls-sessions").metadata().unwrap();
    assert_eq!(sessions.mode() & 0o777, 0o600);
}

#[test]
fn several_workers_know_each_other_s_sessions() {
    let (_served, told) = early_data(&["--workers", "4"], &[]);
    assert_eq!(told, [Value::Null, json!("accepted"), json!("accepted")]);
}

#[test]
fn each_end_can_do_without() {
    let (_served, told) = early_data(&[], &["--no-early-data"]);
    assert_eq!(told, [Value::Null, Value::Null, json!("accepted")]);
    let (_served, told) = early_data(&["--no-early-data"], &[]);
    assert!(told.iter().all(Value::is_null), "{told:?}");
}

/// 300 ms between the ends: a round trip is longer than anything that a busy machine does.
#[test]
fn a_file_that_is_asked_for_early_arrives_a_round_trip_sooner() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let link = LinkSpec::resolve("pipe:100").unwrap();
    let link = link.build(&PathSpec::with_rtt(Duration::from_millis(600)), 1).unwrap();
    let relay = Relay::start(served.address.parse().unwrap(), link).unwrap();
    let round_trips = |arguments: &[&str]| {
        let mut get = served.client("get");
        let copy = served.outside("copy");
        let _ = std::fs::remove_file(&copy);
        get.args(arguments).arg(format!("{}/file", relay.address())).arg(copy);
        let start = Instant::now();
        let got = run(&mut get).expect(0);
        (start.elapsed().as_secs_f64() / 0.6, got.summary["transport"]["early_data"].clone())
    };
    let (first, _) = round_trips(&[]);
    let (again, early) = round_trips(&[]);
    assert_eq!(early, json!("accepted"));
    assert!(again < first - 0.5, "{again:.1} round trips after {first:.1}");
}
