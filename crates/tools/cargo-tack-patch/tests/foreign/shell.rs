//! Commands of a guide, run as their reader would.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::guide::checkout;

/// Until when a server must have its socket.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder in which the commands run. It is outside of the checkout: `cargo new` would make what it creates a
/// member of the workspace around it.
pub struct Shell {
    home: TempDir,
    folder: PathBuf,
    /// One builds at a time: Cargo would have the server of one test wait until another has built.
    _turn: MutexGuard<'static, ()>,
}

impl Shell {
    pub fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        // A test that has failed leaves nothing behind that counts.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = home.path().to_owned();
        Self { home, folder, _turn: turn }
    }

    /// Runs commands to their end and goes where they went. Returns what they print.
    pub fn run(&mut self, commands: &str) -> String {
        let left = self.home.path().join("left");
        let script = format!("{commands}\npwd >'{}'", left.display());
        let output = self.bash(&script).stderr(Stdio::inherit()).output().expect("bash");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{commands}{printed}");
        self.folder =
            std::fs::read_to_string(left).expect("pwd has written it").trim_end().into();
        printed
    }

    /// Starts a command that serves on a port of the loopback interface.
    pub fn serve(&self, command: &str, profile: &str, port: u16) -> Server {
        assert!(is_free(port), "port {port}, which the example has built in, is in use");
        let mut bash = self.bash(command);
        // `cargo run` and the program go together.
        std::os::unix::process::CommandExt::process_group(&mut bash, 0);
        let child =
            bash.env("TACK_PROFILE", profile).stdout(Stdio::null()).spawn().expect("bash");
        let server = Server(child);
        let start = Instant::now();
        while is_free(port) {
            assert!(start.elapsed() < PATIENCE, "{command} opens no port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// A program of the project, by the name of its example.
    pub fn example(&self, name: &str) -> Command {
        let mut command = Command::new(target().join("debug/examples").join(name));
        command.current_dir(&self.folder);
        command
    }

    fn bash(&self, script: &str) -> Command {
        let own = Path::new(env!("CARGO_BIN_EXE_cargo-tack-patch")).parent().expect("a folder");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [own.to_owned()].into_iter().chain(std::env::split_paths(&path));
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(&self.folder)
            .env("PATH", std::env::join_paths(folders).expect("a path"))
            .env("TACKLIB", checkout())
            .env("CARGO_TARGET_DIR", target())
            // The builds are big, and nobody debugs them.
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        command
    }
}

/// Where the programs are built: kept for the next run.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign")
}

/// Whether no socket of the loopback interface has the port. To try it could keep a server from binding.
fn is_free(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/udp").expect("Linux has it");
    !sockets.contains(&format!(" 0100007F:{port:04X} "))
}

/// A server, which ends with the test.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It has not been waited for, so no other process has its id.
        if let Some(group) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}
