//! The page in a real browser, where Chromium and ffmpeg are installed.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed

#[path = "../../../crates/tack-ffi/tests/skip/mod.rs"]
mod skip;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use skip::skip;

/// A browser that cannot begin a session never ends.
const GIVES_UP: Duration = Duration::from_secs(120);

/// The browser's name; `None`, and a line that says why, where there is none.
fn browser() -> Option<&'static str> {
    let runs = |name: &&str| {
        let run = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        run.is_ok_and(|status| status.success())
    };
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|n| runs(n));
    if found.is_none() {
        skip("neither chromium nor google-chrome is installed");
    } else if !tack_example_video::ffmpeg::is_installed() {
        skip("ffmpeg is not installed");
        return None;
    }
    found
}

/// A program that is killed when the test ends, however that does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_page_decodes_and_shows_what_is_sent_and_is_told_what_the_sender_measures() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("live.html");
    let server = Command::new(env!("CARGO_BIN_EXE_video"))
        .args(["serve-web", "--listen", "127.0.0.1:0", "--once", "--json", "--seconds", "4"])
        .args(["--rates", "400k,1M", "--page"])
        .arg(&page)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut server = Running(server.unwrap());
    let mut printed = BufReader::new(server.0.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert!(line.starts_with("open "), "{line}");
    let _browser = Running(
        Command::new(browser)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
            .arg(format!("file://{}", page.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let (tell, told) = channel();
    thread::spawn(move || {
        let mut report = String::new();
        printed.read_to_string(&mut report).unwrap();
        // The test may have given up.
        let _ = tell.send(report);
    });
    let report = told.recv_timeout(GIVES_UP).expect("the browser never came, or never left");
    let reports: Value = serde_json::from_str(&report).unwrap();
    let report = &reports[0];
    assert_eq!(report["error"], "", "{report}");
    // Four seconds of thirty pictures; a busy machine shows fewer than it decodes.
    assert!(report["decoded"].as_u64().unwrap() > 60, "{report}");
    assert!(report["shown"].as_u64().unwrap() > 20, "{report}");
    assert!(report["told"].as_u64().unwrap() > 5, "{report}");
    assert!(report["size"].as_str().unwrap().contains('x'), "{report}");
}
