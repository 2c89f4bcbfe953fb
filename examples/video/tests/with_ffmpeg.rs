//! Real media, where ffmpeg is installed: what the player writes has to decode.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed

#[path = "../../../crates/tack-ffi/tests/skip/mod.rs"]
mod skip;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use skip::skip;
use tempfile::TempDir;

const SECONDS: u64 = 4;
const FPS: u64 = 30;

/// Media of four seconds; `None`, and a line that says why, where ffmpeg is missing.
fn made() -> Option<&'static Path> {
    static MADE: OnceLock<Option<TempDir>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        if !tack_example_video::ffmpeg::is_installed() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let status = video(&["make", "media", "--seconds", &SECONDS.to_string()])
            .current_dir(&directory)
            .status();
        assert!(status.unwrap().success());
        Some(directory)
    });
    if made.is_none() {
        skip("ffmpeg is not installed");
    }
    made.as_ref().map(TempDir::path)
}

fn video(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_video"));
    command.args(arguments);
    command
}

/// Decodes a file; the pictures and pieces of sound in it.
fn decoded(file: &Path) -> (u64, u64) {
    let decode = Command::new("ffmpeg")
        .args(["-hide_banner", "-nostdin", "-v", "warning", "-xerror", "-i"])
        .arg(file)
        .args(["-f", "null", "-"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&decode.stderr).into_owned();
    assert!(decode.status.success() && said.is_empty(), "{}: {said}", file.display());
    let count = |kind: &str| {
        let probe = Command::new("ffprobe")
            .args(["-v", "error", "-count_frames", "-select_streams", kind])
            .args(["-show_entries", "stream=nb_read_frames", "-of", "csv=p=0", "-i"])
            .arg(file)
            .output()
            .unwrap();
        assert!(probe.stderr.is_empty(), "{}", String::from_utf8_lossy(&probe.stderr));
        String::from_utf8_lossy(&probe.stdout).trim().parse().unwrap()
    };
    (count("v"), count("a"))
}

/// Sends to one player; what it counted.
fn play(send: &[&str], play: &[&str]) -> Value {
    let mut sender = video(&["send", "--listen", "127.0.0.1:0", "--once"])
        .args(send)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(sender.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("sending at ").unwrap().to_owned();
    let played = video(&["play", &address, "--json"]).args(play).output().unwrap();
    assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
    assert!(sender.wait().unwrap().success());
    serde_json::from_slice(&played.stdout).unwrap()
}

#[test]
fn reliable_media_are_written_whole_and_decode_without_a_word() {
    let Some(made) = made() else { return };
    let media = made.join("media");
    let file = made.join("reliable.mp4");
    let report = play(
        &[media.to_str().unwrap(), "--reliable"],
        &["--reliable", "--out", file.to_str().unwrap()],
    );
    assert_eq!(report["written"], report["sender"]["frames"], "{report}");
    let (pictures, sounds) = decoded(&file);
    assert_eq!(pictures, SECONDS * FPS);
    // AAC of 1,024 samples at 48 kHz; an encoder begins with one or two more.
    assert!((185..=190).contains(&sounds), "{sounds}");
    assert!(report["switches"].as_u64().unwrap() > 0, "sizes change in the file: {report}");
}

#[test]
fn what_both_players_of_the_demo_write_decodes_though_frames_were_dropped() {
    let Some(made) = made() else { return };
    let (media, out) = (made.join("media"), made.join("out"));
    // A narrow link that fades: frames are dropped.
    let trace = made.join("narrow.trace");
    let lines: Vec<_> = (0..4000_u64)
        .filter(|ms| if (1500..2500).contains(ms) { ms % 200 == 0 } else { ms % 8 == 0 })
        .map(|ms| (ms + 1).to_string())
        .collect();
    std::fs::write(&trace, lines.join("\n")).unwrap();
    let demo = video(&["demo", media.to_str().unwrap(), "--json", "--seconds", "4"])
        .args(["--trace", trace.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(demo.status.success(), "{}", String::from_utf8_lossy(&demo.stderr));
    let reports: Value = serde_json::from_slice(&demo.stdout).unwrap();
    for (name, file) in [("TACK", "tack.mp4"), ("plain QUIC", "plain.mp4")] {
        let (pictures, sounds) = decoded(&out.join(file));
        let written = reports[name]["written"].as_u64().unwrap();
        assert_eq!(pictures + sounds, written, "{reports}");
        assert!(pictures >= 30, "{reports}");
    }
}

#[test]
fn media_that_are_made_while_they_are_sent_are_played_to_their_end() {
    let Some(made) = made() else { return };
    let live = made.join("live");
    let mut making = video(&["make", live.to_str().unwrap(), "--seconds", "4", "--realtime"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let master = live.join("master.m3u8");
    // It is there once the first segments are; a test that waits for ever is ended by whoever runs it.
    while !master.exists() {
        assert!(making.try_wait().unwrap().is_none(), "nothing was made");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let file = made.join("live.mp4");
    let report = play(&[live.to_str().unwrap()], &["--out", file.to_str().unwrap()]);
    assert!(making.wait().unwrap().success());
    let (pictures, _) = decoded(&file);
    assert!(pictures > 3 * FPS, "{pictures}: {report}");
}
