//! Runs the real program.

// Each test file uses its own part of this.
#![allow(dead_code)]

#[path = "../../../tack-ffi/tests/skip/mod.rs"]
mod skip;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

#[allow(unused_imports, reason = "not each test file skips")]
pub use skip::skip;

/// The program under test.
pub const TACK: &str = env!("CARGO_BIN_EXE_tack");

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// Bytes that look random and are the same for the same seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Pcg64Mcg::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// A directory with a served directory in it, and a running server.
pub struct Served {
    pub dir: tempfile::TempDir,
    pub address: String,
    pub fingerprint: String,
    pub token: Option<String>,
    pub child: Child,
    /// What it has printed behind that it is ready.
    printed: Arc<Mutex<String>>,
}

impl Served {
    /// A server that clients may write to.
    pub fn new(arguments: &[&str]) -> Self {
        Self::with_program(Command::new(TACK), &[&["--write"], arguments].concat())
    }

    /// A server with no other arguments than these.
    pub fn plain(arguments: &[&str]) -> Self {
        Self::with_program(Command::new(TACK), arguments)
    }

    /// Runs `program` with the arguments of `tack serve` appended.
    pub fn with_program(program: Command, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("served")).unwrap();
        Self::in_dir(dir, program, "127.0.0.1:0", arguments)
    }

    pub fn in_dir(
        dir: tempfile::TempDir,
        mut program: Command,
        listen: &str,
        arguments: &[&str],
    ) -> Self {
        let mut child = program
            .env("TACK_CONFIG", "")
            .args(["serve", "--json", "--listen", listen, "--identity"])
            .arg(dir.path().join("identity"))
            .args(arguments)
            .arg(dir.path().join("served"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let printed: Arc<Mutex<String>> = Arc::default();
        let taken = Arc::clone(&printed);
        // A server whose events nobody reads would wait.
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let mut taken = taken.lock().unwrap();
                taken.push_str(&line);
                taken.push('\n');
            }
        });
        let ready: Value = serde_json::from_str(&line).expect("a line that says ready");
        let text = |name: &str| ready[name].as_str().map(str::to_owned);
        Self {
            dir,
            address: text("address").unwrap(),
            fingerprint: text("fingerprint").unwrap(),
            token: text("token"),
            child,
            printed,
        }
    }

    /// Events that it has told so far.
    pub fn events(&self) -> Vec<Value> {
        let printed = self.printed.lock().unwrap();
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A path below the served directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("served").join(name)
    }

    /// A path that is not served.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file below the served directory.
    pub fn write(&self, name: &str, content: &[u8]) {
        write(&self.path(name), content);
    }

    /// `HOST:PORT/PATH`
    pub fn target(&self, path: &str) -> String {
        format!("{}/{path}", self.address)
    }

    /// A client command with everything it takes to be let in.
    pub fn client(&self, command: &str) -> Command {
        let mut client = Command::new(TACK);
        client.args([command, "--json", "--fingerprint", &self.fingerprint]);
        client.env_remove("TACK_TOKEN").env("TACK_CONFIG", "");
        client.env("XDG_STATE_HOME", self.dir.path().join("state"));
        if let Some(token) = &self.token {
            client.env("TACK_TOKEN", token);
        }
        client.current_dir(self.dir.path());
        client
    }

    pub fn get(&self, path: &str, dest: &Path) -> Finished {
        run(self.client("get").arg(self.target(path)).arg(dest))
    }

    /// Fetches a directory.
    pub fn get_tree(&self, path: &str, dest: &Path) -> Finished {
        run(self.client("get").arg("-r").arg(self.target(path)).arg(dest))
    }

    pub fn send(&self, source: &Path, path: &str) -> Finished {
        run(self.client("send").arg(source).arg(self.target(path)))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that has ended.
pub struct Finished {
    pub code: Option<i32>,
    pub summary: Value,
    pub errors: String,
}

impl Finished {
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.errors, self.summary);
        self
    }

    pub fn number(&self, name: &str) -> u64 {
        self.summary[name].as_u64().unwrap_or_else(|| panic!("{name} in {}", self.summary))
    }
}

/// Runs a client to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Finished {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    finish(child)
}

/// Waits for a client whose output is piped.
#[track_caller]
pub fn finish(mut child: Child) -> Finished {
    let deadline = Instant::now() + PATIENCE;
    let output = child.stdout.take().map(read_aside);
    let errors = child.stderr.take().map(read_aside);
    let text = |reader: Option<JoinHandle<Vec<u8>>>| {
        reader.map(|reader| reader.join().unwrap()).unwrap_or_default()
    };
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the client did not end: {}", String::from_utf8_lossy(&text(errors)));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Finished {
        code: status.code(),
        summary: serde_json::from_slice(&text(output)).unwrap_or(Value::Null),
        errors: String::from_utf8_lossy(&text(errors)).into_owned(),
    }
}

/// Reads on a thread of its own: a program whose output nobody reads would wait.
fn read_aside(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Peak resident memory of a process in KiB; `None` once it has ended.
pub fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Waits for something that happens soon, or the test is wrong.
#[track_caller]
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends a signal to a process, which may have ended.
pub fn signal(child: &Child, signal: Signal) {
    let _ = kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal);
}

pub fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Everything below `dir`: relative path and content, `None` for directories.
pub fn tree(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_owned();
            if path.is_dir() {
                pending.push(path);
                found.push((name, None));
            } else {
                found.push((name, Some(fs::read(&path).unwrap())));
            }
        }
    }
    found.sort();
    found
}

/// Compares trees without printing megabytes.
#[track_caller]
pub fn assert_same_tree(left: &Path, right: &Path) {
    let (left, right) = (tree(left), tree(right));
    let names = |tree: &[(PathBuf, Option<Vec<u8>>)]| {
        tree.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&left), names(&right));
    for (l, r) in left.iter().zip(&right) {
        assert!(l.1 == r.1, "{} differs", l.0.display());
    }
}
