//! The pages in a real browser, where Chromium and ffmpeg are installed.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed

#[path = "../../../crates/tack-ffi/tests/skip/mod.rs"]
mod skip;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use skip::skip;

/// A browser that cannot begin a session never ends.
const GIVES_UP: Duration = Duration::from_secs(180);

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

/// One browser at a time: each shows pictures as fast as they are played.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    // Another test may have failed.
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn video(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_video"));
    command.args(arguments);
    command
}

/// A server that ends behind its first page, and what it prints.
struct Server {
    running: Running,
    printed: BufReader<ChildStdout>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let server = command
            .args(["--listen", "127.0.0.1:0", "--once", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut running = Running(server.unwrap());
        let printed = BufReader::new(running.0.stdout.take().unwrap());
        Self { running, printed }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.printed.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// What the first page told last.
    fn report(self) -> Value {
        let Self { running: _running, mut printed } = self;
        let (tell, told) = channel();
        thread::spawn(move || {
            let mut report = String::new();
            printed.read_to_string(&mut report).unwrap();
            // The test may have given up.
            let _ = tell.send(report);
        });
        let Ok(report) = told.recv_timeout(GIVES_UP) else {
            panic!("the browser never came, or never left")
        };
        let reports: Value = serde_json::from_str(&report).unwrap();
        reports[0].clone()
    }
}

/// A browser without a window, with a profile in that directory.
fn open(browser: &str, directory: &Path, arguments: &[&str]) -> Running {
    let started = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(started.unwrap())
}

/// Media of four seconds.
fn make(directory: &Path) -> PathBuf {
    let media = directory.join("media");
    let status = video(&["make", "--seconds", "4", "--rates", "400k,1M"])
        .arg(&media)
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    media
}

/// Serves media over HTTP/3 and opens the page with the command that the server prints, but for the profile; what the
/// page told.
fn watch(browser: &str, directory: &Path, media: &Path) -> Value {
    let mut server = Server::start(video(&["serve-http3"]).arg(media));
    let address = server.line();
    assert!(address.starts_with("serving https://127.0.0.1:"), "{address}");
    let command = server.line();
    let Some((_, options)) = command.split_once("\"$(mktemp -d)\" ") else {
        panic!("{command}")
    };
    let options: Vec<_> = options.split(' ').collect();
    let _browser = open(browser, directory, &options);
    server.report()
}

#[test]
fn the_page_decodes_and_shows_what_is_sent_and_is_told_what_the_sender_measures() {
    let Some(browser) = browser() else { return };
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("live.html");
    let mut server = Server::start(
        video(&["serve-web", "--seconds", "4", "--rates", "400k,1M", "--page"]).arg(&page),
    );
    let line = server.line();
    assert!(line.starts_with("open "), "{line}");
    let page = format!("file://{}", page.display());
    let _browser = open(browser, directory.path(), &[&page]);
    let report = server.report();
    assert_eq!(report["error"], "", "{report}");
    // Four seconds of thirty pictures; a busy machine shows fewer than it decodes.
    assert!(report["decoded"].as_u64().unwrap() > 60, "{report}");
    assert!(report["shown"].as_u64().unwrap() > 20, "{report}");
    assert!(report["told"].as_u64().unwrap() > 5, "{report}");
    assert!(report["size"].as_str().unwrap().contains('x'), "{report}");
}

#[test]
fn the_page_of_http3_plays_the_playlist_to_its_end() {
    let Some(browser) = browser() else { return };
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let media = make(directory.path());
    let report = watch(browser, directory.path(), &media);
    assert_eq!(report["error"], "", "{report}");
    assert_eq!(report["ended"], true, "{report}");
    assert_eq!(report["protocols"], json!(["h3"]), "{report}");
    assert_eq!((&report["segments"], &report["missing"]), (&json!(4), &json!(0)), "{report}");
    assert!(report["seconds"].as_f64().unwrap() > 3.8, "{report}");
    // Four seconds of thirty pictures; a busy machine leaves some out.
    assert!(report["shown"].as_u64().unwrap() > 20, "{report}");
    let rate = report["bits_per_second"].as_u64().unwrap();
    assert!((400_000..2_000_000).contains(&rate), "{report}");
    let sizes = ["426x240", "427x240", "640x360"];
    assert!(sizes.contains(&report["size"].as_str().unwrap()), "{report}");
}

#[test]
fn the_page_of_http3_passes_over_a_segment_that_is_missing() {
    let Some(browser) = browser() else { return };
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let media = make(directory.path());
    for rendition in ["0", "1"] {
        std::fs::remove_file(media.join(rendition).join("00001.m4s")).unwrap();
    }
    // At one bit rate only: another one takes its place.
    std::fs::remove_file(media.join("0/00002.m4s")).unwrap();
    let report = watch(browser, directory.path(), &media);
    assert_eq!(report["error"], "", "{report}");
    assert_eq!(report["ended"], true, "{report}");
    assert_eq!((&report["segments"], &report["missing"]), (&json!(3), &json!(1)), "{report}");
    let seconds = report["seconds"].as_f64().unwrap();
    assert!((2.8..3.8).contains(&seconds), "{report}");
}
