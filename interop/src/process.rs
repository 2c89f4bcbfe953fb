//! A peer's program, started with the environment of the contract.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::contract::{self, Protocol, Role};
use crate::error::Error;
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

/// A program that runs; it is ended when this is dropped.
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
            .stdin(Stdio::null())
            .stdout(output("stdout")?)
            .stderr(output("stderr")?)
            .spawn()
            .map_err(Error::file(&program.file))?;
        Ok(Self { child, directory: directory.clone() })
    }

    /// Waits until the server says where it listens.
    ///
    /// If it does not, the inner result says what it did instead.
    pub fn ready(&mut self, patience: Duration) -> Result<Result<SocketAddr, Ending>, Error> {
        let path = self.directory.join("stdout");
        let start = Instant::now();
        loop {
            let ending = self.ending()?;
            let output = fs::read(&path).map_err(Error::file(&path))?;
            if let Some(address) = contract::ready_address(&String::from_utf8_lossy(&output)) {
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
    pub fn wait(&mut self, patience: Duration) -> Result<Ending, Error> {
        let start = Instant::now();
        loop {
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
        Ok(status.map_or(Ending::Running, |status| Ending::Exited(status.code())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
