//! A peer's program, started with the environment of the contract.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::contract::{self, Protocol, Role, UNSUPPORTED};
use crate::error::Error;
use crate::interrupt;
use crate::peers::Program;
use crate::verdict::Ending;

/// In a long chain; together their certificates have some 9 KiB.
const AUTHORITIES: usize = 8;
const NAMES: usize = 25;
const TURN: Duration = Duration::from_millis(10);

/// The task of a program.
#[derive(Debug)]
pub struct Task<'a> {
    /// Its role.
    pub role: Role,
    /// The name of the test case.
    pub test_case: &'a str,
    /// The application protocol.
    pub protocol: Protocol,
    /// Where to listen or to connect to.
    pub address: SocketAddr,
    /// The requests of a client.
    pub requests: String,
    /// The directory of the files to send.
    pub files: &'a Path,
    /// A server's certificate and key.
    pub identity: &'a Identity,
    /// The directory of this program's own: `received`, `qlog`, `keys.log`, `stdout`, `stderr`.
    pub directory: PathBuf,
}

/// Files in PEM format.
#[derive(Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Identity {
    /// Makes a certificate for localhost in `directory`.
    pub fn create(directory: &Path) -> Result<Self, Error> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
            .map_err(|error| Error::Certificate(error.to_string()))?;
        Self::write(directory, &made.cert.pem(), &made.signing_key)
    }

    /// Makes a certificate with a chain that a server cannot send at once
    /// (RFC 9000 section 8.1).
    pub fn create_long(directory: &Path) -> Result<Self, Error> {
        let (chain, key) =
            long_chain().map_err(|error| Error::Certificate(error.to_string()))?;
        Self::write(directory, &chain, &key)
    }

    fn write(directory: &Path, certificates: &str, key: &KeyPair) -> Result<Self, Error> {
        let identity = Self {
            certificate: directory.join("certificate.pem"),
            key: directory.join("key.pem"),
        };
        let write = |path: &Path, pem: &str| fs::write(path, pem).map_err(Error::file(path));
        write(&identity.certificate, certificates)?;
        write(&identity.key, &key.serialize_pem())?;
        Ok(identity)
    }
}

/// A certificate for localhost, those of the authorities above it, and its key. Each authority has
/// many names, which makes its certificate long.
fn long_chain() -> Result<(String, KeyPair), rcgen::Error> {
    let mut above: Option<Issuer<'static, KeyPair>> = None;
    let mut chain = String::new();
    for at in 0..AUTHORITIES {
        let names = (0..NAMES).map(|name| format!("name-{name}.authority-{at}.test"));
        let mut params = CertificateParams::new(names.collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, format!("authority {at}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        chain.insert_str(0, &signed(&params, &key, above.as_ref())?);
        above = Some(Issuer::new(params, key));
    }
    let params = CertificateParams::new(vec!["localhost".to_owned()])?;
    let key = KeyPair::generate()?;
    chain.insert_str(0, &signed(&params, &key, above.as_ref())?);
    Ok((chain, key))
}

fn signed(
    params: &CertificateParams,
    key: &KeyPair,
    above: Option<&Issuer<'static, KeyPair>>,
) -> Result<String, rcgen::Error> {
    let made = match above {
        Some(issuer) => params.signed_by(key, issuer),
        None => params.self_signed(key),
    };
    Ok(made?.pem())
}

/// A program that runs; it is ended when this is dropped, with all that it has started. If this
/// process cannot do that any more, its standard input ends, and the contract has it end with that.
#[derive(Debug)]
pub struct Process {
    child: Child,
    directory: PathBuf,
}

/// Where a program keeps what it receives.
pub fn received(directory: &Path) -> PathBuf {
    directory.join("received")
}

/// Where a program writes its TLS secrets.
pub fn key_log(directory: &Path) -> PathBuf {
    directory.join("keys.log")
}

impl Process {
    /// Starts a program; what it writes goes into files in its directory.
    pub fn start(program: &Program, task: &Task<'_>) -> Result<Self, Error> {
        let directory = &task.directory;
        let (received, qlog) = (received(directory), directory.join("qlog"));
        for directory in [&received, &qlog] {
            fs::create_dir_all(directory).map_err(Error::file(directory))?;
        }
        let output = |name: &str| {
            let path = directory.join(name);
            File::create(&path).map_err(Error::file(path))
        };
        let child = Command::new(&program.file)
            .args(&program.arguments)
            .env(contract::ROLE, task.role.name())
            .env(contract::TEST_CASE, task.test_case)
            .env(contract::PROTOCOL, task.protocol.name())
            .env(contract::ADDRESS, task.address.to_string())
            .env(contract::REQUESTS, &task.requests)
            .env(contract::FILES, task.files)
            .env(contract::RECEIVED, received)
            .env(contract::CERTIFICATE, &task.identity.certificate)
            .env(contract::KEY, &task.identity.key)
            .env(contract::KEY_LOG, key_log(directory))
            .env(contract::QLOG, qlog)
            .stdin(Stdio::piped())
            .stdout(output("stdout")?)
            .stderr(output("stderr")?)
            .process_group(0)
            .spawn()
            .map_err(Error::file(&program.file))?;
        Ok(Self { child, directory: directory.clone() })
    }

    /// Waits until the server says where it listens.
    ///
    /// If it does not, the inner result says what it did instead.
    /// Fails if the run is interrupted.
    pub fn ready(&mut self, patience: Duration) -> Result<Result<SocketAddr, Ending>, Error> {
        let start = Instant::now();
        loop {
            interrupt::check()?;
            let ending = self.ending()?;
            if let Some(address) = contract::ready_address(&self.output()?) {
                return Ok(Ok(address));
            }
            if ending != Ending::Running {
                return Ok(Err(ending));
            }
            if start.elapsed() > patience {
                return Ok(Err(Ending::TimedOut));
            }
            thread::sleep(TURN);
        }
    }

    /// Waits until the program ends.
    ///
    /// Fails if the run is interrupted.
    pub fn wait(&mut self, patience: Duration) -> Result<Ending, Error> {
        let start = Instant::now();
        loop {
            interrupt::check()?;
            match self.ending()? {
                Ending::Running if start.elapsed() > patience => return Ok(Ending::TimedOut),
                Ending::Running => thread::sleep(TURN),
                ended => return Ok(ended),
            }
        }
    }

    /// How the program ended, if it has.
    pub fn ending(&mut self) -> Result<Ending, Error> {
        let status = self.child.try_wait().map_err(Error::file(&self.directory))?;
        let Some(status) = status else { return Ok(Ending::Running) };
        if status.code() == Some(UNSUPPORTED.into()) && contract::has_refused(&self.output()?) {
            return Ok(Ending::Unsupported);
        }
        Ok(Ending::Exited(status.code()))
    }

    /// What it has written to its standard output.
    fn output(&self) -> Result<String, Error> {
        let path = self.directory.join("stdout");
        let output = fs::read(&path).map_err(Error::file(path))?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if all of them have ended already. The program leads their group.
        let _ = killpg(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a shell script as a client.
    fn script(script: &str, directory: &Path) -> Process {
        let arguments = ["-c", script].map(PathBuf::from).to_vec();
        let program = Program { file: "sh".into(), arguments };
        let identity = Identity { certificate: PathBuf::new(), key: PathBuf::new() };
        let task = Task {
            role: Role::Client,
            test_case: "transfer",
            protocol: Protocol::Hq,
            address: ([127, 0, 0, 1], 1).into(),
            requests: String::new(),
            files: directory,
            identity: &identity,
            directory: directory.to_owned(),
        };
        Process::start(&program, &task).unwrap()
    }

    /// Whether a process runs: one that has ended may wait for its parent.
    fn is_running(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    #[test]
    fn exit_code_127_is_unsupported_only_with_the_line_that_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let ended =
            |text: &str| script(text, directory.path()).wait(Duration::from_secs(30)).unwrap();
        let loader = "echo error while loading shared libraries >&2; exit 127";
        assert_eq!(ended(loader), Ending::Exited(Some(127)));
        assert_eq!(ended("echo unsupported; exit 127"), Ending::Unsupported);
        assert_eq!(ended("echo unsupported; exit 1"), Ending::Exited(Some(1)));
    }

    #[test]
    fn a_program_ends_with_all_that_it_has_started() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = script("sleep 60 & echo $!; wait", directory.path());
        let start = Instant::now();
        let started = loop {
            let output = process.output().unwrap();
            if output.ends_with('\n') {
                break output.trim().to_owned();
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{output}");
            thread::sleep(TURN);
        };
        assert_eq!(process.ending().unwrap(), Ending::Running);
        assert!(is_running(&started));
        drop(process);
        while is_running(&started) {
            assert!(start.elapsed() < Duration::from_secs(30), "{started} still runs");
            thread::sleep(TURN);
        }
    }
}
