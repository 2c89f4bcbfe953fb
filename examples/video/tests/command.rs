//! The `video` command over loopback, without ffmpeg.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn video(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_video"));
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    video(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A sender that ends behind its first player, and its address.
fn sender(arguments: &[&str]) -> (Child, String) {
    let mut command = video(&["send", "--listen", "127.0.0.1:0", "--once"]);
    let mut child =
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().strip_prefix("sending at ").unwrap().to_owned())
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_frame_comes_over_loopback_where_none_may_be_left_out() {
    for profile in ["video", "default", "off"] {
        let (mut sender, address) =
            sender(&["--synthetic", "--seconds", "3", "--reliable", "--profile", profile]);
        let played = run(&["play", &address, "--reliable", "--json", "--profile", profile]);
        let played = json(&played);
        assert_eq!(played["missing"], 0, "{played}");
        assert_eq!(played["shown"], played["sender"]["frames"], "{played}");
        assert!(played["shown"].as_u64().unwrap() >= 3 * 76, "{played}");
        assert_eq!(played["sender"]["tack"], profile != "off", "{played}");
        assert!(sender.wait().unwrap().success());
    }
}

#[test]
fn frames_come_in_datagrams_over_loopback() {
    let (mut sender, address) = sender(&["--synthetic", "--seconds", "2", "--datagrams"]);
    let played = json(&run(&["play", &address, "--json"]));
    assert_eq!(played["sender"]["datagrams"], true);
    assert!(played["received"].as_u64().unwrap() > 75, "{played}");
    assert!(sender.wait().unwrap().success());
}

#[test]
fn the_demo_prints_both_runs_beside_each_other() {
    let arguments = ["demo", "--synthetic", "--trace", "home", "--seconds", "3"];
    let table = run(&arguments);
    let printed = text(&table.stdout);
    assert!(table.status.success(), "{}", text(&table.stderr));
    let head = printed.lines().next().unwrap();
    assert!(head.contains("TACK") && head.contains("plain QUIC"), "{printed}");
    for row in ["startup", "rebuffering", "frame delay", "dropped", "packets of the player"] {
        assert!(printed.lines().any(|line| line.starts_with(row)), "{row}: {printed}");
    }
    let both = json(&run(&[&arguments[..], &["--json"]].concat()));
    for (name, tack) in [("TACK", true), ("plain QUIC", false)] {
        assert_eq!(both[name]["sender"]["tack"], tack, "{both}");
        assert!(both[name]["shown"].as_u64().unwrap() > 0, "{both}");
    }
}

#[test]
fn a_trace_is_printed_and_read_again_and_given_to_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("train.trace");
    let projected = run(&["trace", "train", "--seconds", "20", "--seed", "5"]);
    assert!(projected.status.success());
    std::fs::write(&file, &projected.stdout).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(text(&run(&["trace", file]).stdout), text(&projected.stdout));
    let link = text(&run(&["trace", file, "--link"]).stdout);
    assert!(tack_link::LinkSpec::from_toml(&link, "test").is_ok(), "{link}");
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_do() {
    let refused = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        text(&output.stderr)
    };
    assert!(
        refused(&["demo", "--synthetic", "--trace", "nowhere"]).contains("city, train, home")
    );
    let said = refused(&["demo", "--synthetic", "--out", "x"]);
    assert!(said.contains("--out needs media"), "{said}");
    assert!(refused(&["send", "/nonexistent"]).contains("/nonexistent"));
    assert!(refused(&["send", "--synthetic", "--rates", "1"]).contains("100k to 200M"));
    assert!(
        refused(&["play", "127.0.0.1:1", "--out", "/nonexistent/x"])
            .contains("cannot be written")
    );
}

#[test]
fn what_cannot_be_served_is_refused_with_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let other = file("other.m3u8", &"no playlist\n".repeat(1000));
    let segments = file("one.m3u8", "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n0.m4s\n");
    for command in ["send", "serve-web", "serve-http3"] {
        for playlist in [&other, &segments] {
            let output = run(&[command, playlist]);
            let said = text(&output.stderr);
            assert!(!output.status.success() && said.len() < 400, "{command}: {said}");
            assert!(said.contains("not a master playlist"), "{command}: {said}");
        }
    }
    let refused = |chain: &str, key: &str| {
        let output = run(&["send", "--synthetic", "--certificate", chain, "--key", key]);
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let said = refused("/nonexistent.pem", &other);
    assert!(said.contains("/nonexistent.pem: No such file"), "{said}");
    let said = refused(&other, &other);
    assert!(said.contains("not a certificate chain in PEM"), "{said}");
}

#[test]
fn without_ffmpeg_the_program_says_so_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let output =
        video(&["make", "media"]).current_dir(&directory).env("PATH", "").output().unwrap();
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("ffmpeg is not installed") && said.contains("--synthetic"), "{said}");
    let output = video(&["demo"]).env("PATH", "").output().unwrap();
    assert!(text(&output.stderr).contains("ffmpeg is not installed"), "{output:?}");
}

#[test]
fn a_player_that_asks_for_a_certificate_it_can_trust_refuses_another() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other.pem");
    std::fs::write(&other, made.cert.pem()).unwrap();
    let (mut sender, address) = sender(&["--synthetic", "--seconds", "1"]);
    let output = run(&["play", &address, "--ca", other.to_str().unwrap()]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("could not connect"), "{}", text(&output.stderr));
    sender.kill().unwrap();
    sender.wait().unwrap();
}
