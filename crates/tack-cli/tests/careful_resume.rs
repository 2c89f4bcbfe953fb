//! What a client keeps of a path, for the next transfer over it (RFC 9959).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Served, noise, run, write};
use tack_emulator::relay::Relay;
use tack_link::{LinkSpec, PathSpec};

/// The entries of the file in `state`, without its heading.
fn entries(state: &Path) -> Vec<String> {
    let text = fs::read_to_string(state.join("tack/cc-parameters")).unwrap_or_default();
    text.lines().skip(1).map(str::to_owned).collect()
}

/// A server behind a path of 100 Mbit/s and 50 ms, and a file to send there.
fn behind_a_path() -> (Served, Relay, PathBuf) {
    let served = Served::new(&[]);
    let link = LinkSpec::resolve("pipe:100").unwrap();
    let link = link.build(&PathSpec::with_rtt(Duration::from_millis(50)), 1).unwrap();
    let relay = Relay::start(served.address.parse().unwrap(), link).unwrap();
    let file = served.outside("file");
    write(&file, &noise(4_000_000, 1));
    (served, relay, file)
}

#[test]
fn a_client_keeps_one_set_for_a_server_and_uses_it() {
    let (served, relay, file) = behind_a_path();
    let state = served.outside("own-state");
    for resumes in [false, true] {
        let mut send = served.client("send");
        // Under another name: what is there already is not sent.
        let target = format!("{}/{resumes}", relay.address());
        send.env("XDG_STATE_HOME", &state).arg(&file).arg(target);
        let sent = run(&mut send).expect(0);
        let ended = &sent.summary["transport"]["careful_resume"];
        assert_eq!(ended.is_string(), resumes, "{}", sent.summary);
        let kept = entries(&state);
        assert_eq!(kept.len(), 1, "{kept:?}");
        let server = format!("127.0.0.1 {} 01", relay.address());
        assert!(kept[0].starts_with(&server), "{kept:?}");
    }
    assert_eq!(state.join("tack/cc-parameters").metadata().unwrap().mode() & 0o777, 0o600);
}

#[test]
fn nothing_is_kept_where_it_is_switched_off() {
    let (served, relay, file) = behind_a_path();
    let state = served.outside("own-state");
    let mut send = served.client("send");
    send.args(["--no-careful-resume", "--no-early-data"]).env("XDG_STATE_HOME", &state);
    send.arg(&file).arg(format!("{}/", relay.address()));
    run(&mut send).expect(0);
    assert!(!state.exists());
}
