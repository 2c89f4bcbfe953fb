//! What `--qlog` writes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;

use common::{Served, noise, run};
use serde_json::Value;

/// The names of the events in the only file of `directory`, which begins with `role`.
fn events(directory: &Path, role: &str) -> Vec<String> {
    let files: Vec<_> = fs::read_dir(directory).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 1, "one connection");
    let path = files[0].path();
    assert!(path.file_stem().unwrap().to_str().unwrap().starts_with(role));
    assert_eq!(path.extension(), Some("sqlog".as_ref()));
    let text = fs::read_to_string(path).unwrap();
    let records = text.split('\x1e').skip(1).map(|record| {
        let record = record.strip_suffix('\n').expect("no record is cut");
        serde_json::from_str::<Value>(record).expect("a record is JSON")
    });
    records.filter_map(|record| record["name"].as_str().map(str::to_owned)).collect()
}

#[test]
fn both_ends_log_their_connection() {
    let logs = tempfile::tempdir().unwrap();
    let (up, down) = (logs.path().join("new/server"), logs.path().join("new/client"));
    let served = Served::new(&["--qlog", up.to_str().unwrap()]);
    served.write("file", &noise(3_000_000, 1));
    let mut get = served.client("get");
    get.arg("--qlog").arg(&down).arg(served.target("file")).arg(served.outside("copy"));
    run(&mut get).expect(0);

    let (server, client) = (events(&up, "server-"), events(&down, "client-"));
    let has = |events: &[String], name: &str| events.iter().any(|event| event == name);
    for (events, name) in [
        (&server, "tack:tack_received"),
        (&server, "tack:controller_state_updated"),
        (&server, "quic:packet_sent"),
        (&client, "tack:tack_sent"),
        (&client, "quic:packet_received"),
    ] {
        assert!(has(events, name), "{name}");
    }
}

#[test]
fn nothing_is_written_unasked() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    served.get("file", &served.outside("copy")).expect(0);
    let left: Vec<_> = fs::read_dir(served.path("")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
