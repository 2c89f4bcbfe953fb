//! The commands of docs/embedding.md, section "From GStreamer": from nothing to a picture.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[path = "../../tack-ffi/tests/skip/mod.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use skip::skip;

/// Longer than anything takes, on a busy machine too.
const LONG: Duration = Duration::from_secs(120);

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/embedding.md");

/// The blocks of shell commands of the section, without those that build and install.
fn commands() -> Vec<String> {
    let text = std::fs::read_to_string(DOCS).unwrap();
    let section = text.split("## From GStreamer").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap();
    section
        .split("```sh\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

fn block(commands: &[String], with: &str) -> String {
    let found = commands.iter().find(|block| block.contains(with));
    found.unwrap_or_else(|| panic!("no block with `{with}`")).clone()
}

/// The plugin that cargo has built for this test; the copy one directory up may be older.
fn plugin() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let plugin = test.with_file_name("libgsttack.so");
    assert!(plugin.exists(), "{}", plugin.display());
    plugin
}

/// A directory for what the commands write, with a registry of plugins of its own.
struct Shell {
    directory: tempfile::TempDir,
}

impl Shell {
    fn new() -> Self {
        let shell = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(shell.path("plugins")).unwrap();
        std::os::unix::fs::symlink(plugin(), shell.path("plugins/libgsttack.so")).unwrap();
        shell
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]);
        command.current_dir(self.directory.path());
        command.env("GST_PLUGIN_PATH", self.path("plugins"));
        command.env("GST_REGISTRY", self.directory.path().join("registry.bin"));
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, script: &str) -> String {
        let output = self.command(script).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{text}\n{errors}");
        text
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn has(&self, element: &str) -> bool {
        let script = format!("gst-inspect-1.0 --exists {element}");
        self.command(&script).status().is_ok_and(|status| status.success())
    }
}

/// A process that does not outlive the test.
struct Running(Child);

impl Running {
    fn wait(&mut self, what: &str) -> std::process::ExitStatus {
        let until = Instant::now() + LONG;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "{what} does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

#[test]
fn the_inspector_knows_both_elements() {
    let shell = Shell::new();
    let text = shell.run("gst-inspect-1.0 tack");
    assert!(
        text.contains("tacksink: TACK sink") && text.contains("tacksrc: TACK source"),
        "{text}"
    );
    for element in ["tacksink", "tacksrc"] {
        let text = shell.run(&format!("gst-inspect-1.0 {element}"));
        for property in ["mode", "fingerprint", "stats", "profile"] {
            assert!(text.contains(&format!("  {property} ")), "{property}\n{text}");
        }
    }
}

#[test]
fn from_nothing_to_a_picture() {
    let shell = Shell::new();
    for (element, package) in
        [("x264enc", "ugly"), ("h264parse", "bad"), ("avdec_h264", "libav")]
    {
        if !shell.has(element) {
            skip(format_args!("{element} is not installed (gstreamer1.0-plugins-{package})"));
            return;
        }
    }
    let commands = commands();
    shell.run(&block(&commands, "openssl req"));
    let sender = block(&commands, "tacksink mode=listener");
    let receiver = block(&commands, "tacksrc");
    let mut sender = Running(shell.command(&sender).spawn().unwrap());
    let mut receiver = Running(shell.command(&receiver).spawn().unwrap());
    assert!(receiver.wait("the receiver").success());
    assert!(sender.wait("the sender").success());
    // 320x240 in I420 are 115,200 bytes a picture, and ten seconds of thirty a second were sent.
    let bytes = size(&shell.path("pictures.yuv"));
    assert_eq!(bytes % 115_200, 0, "whole pictures");
    let pictures = bytes / 115_200;
    assert!(pictures > 100 && pictures <= 300, "{pictures} pictures");
}
