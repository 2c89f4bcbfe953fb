//! What the tests of emulated links share.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tack_emulator::tun::{Emulator, End, Error};
use tack_link::Link;
use tack_link::compose::Duplex;
use tack_link::pipe::{PipeConfig, Schedule};

/// Long enough for anything on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Whether links can be emulated here; says so if not.
pub fn can_emulate() -> bool {
    let obstacle = match Emulator::start(delay(Duration::ZERO), ()) {
        Ok(_) => return true,
        Err(error @ (Error::NeedsRoot { .. } | Error::NoTunDevice)) => error,
        Err(error) => panic!("{error}"),
    };
    skip(&obstacle.to_string());
    false
}

/// Says that a test does not run, and why, past the capture of test output.
pub fn skip(reason: &str) {
    let test = thread::current().name().unwrap_or("test").to_owned();
    let _ = writeln!(io::stderr(), "SKIPPED {test}: {reason}");
}

/// A link with a delay in each direction and nothing else.
pub fn delay(delay: Duration) -> Box<dyn Link + Send> {
    duplex(&PipeConfig { delay: Schedule::constant(delay), ..PipeConfig::default() })
}

/// The same pipe in both directions.
pub fn duplex(pipe: &PipeConfig) -> Box<dyn Link + Send> {
    Box::new(Duplex::new(pipe, pipe, 1).unwrap())
}

/// What identifies the network namespace of one end.
pub fn namespace_of<O: tack_emulator::tun::Observer>(
    emulator: &Emulator<O>,
    end: End,
) -> PathBuf {
    emulator.run_at(end, || Ok(fs::read_link("/proc/thread-self/ns/net").unwrap())).unwrap()
}

/// Whether a process is in a namespace or holds it open.
pub fn is_in_use(namespace: &Path) -> bool {
    let link = |path: &Path| fs::read_link(path).is_ok_and(|target| target == namespace);
    let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    entries("/proc".into()).any(|process| {
        entries(process.path().join("fd")).any(|fd| link(&fd.path()))
            || entries(process.path().join("task"))
                .any(|task| link(&task.path().join("ns/net")))
    })
}

/// Waits until something is so; says whether it came to that.
pub fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// The names of the devices in a table of the form of /proc/net/dev.
pub fn devices(table: &str) -> HashSet<String> {
    let names = table.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}
