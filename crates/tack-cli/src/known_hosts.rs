//! Servers that the user has trusted before: a file with a line for each, `HOST:PORT SHA256`, the
//! fingerprint of its certificate in hexadecimal. Empty lines and lines that begin with `#` are passed over.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::user_directories;
use tack_transfer::Fingerprint;

const FILE: &str = "known-hosts";
const HEADING: &str =
    "# Servers that tack trusts: HOST:PORT, and SHA-256 of the certificate.\n";

/// The file.
#[derive(Clone, Debug)]
pub struct KnownHosts {
    path: PathBuf,
}

/// A server that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHost {
    /// Of its certificate.
    pub fingerprint: Fingerprint,
    /// File and line that say so.
    pub place: String,
}

impl KnownHosts {
    /// The file at `path`.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The file of this user; `None` without a home.
    pub fn of_user() -> Option<Self> {
        user_directories::data().map(|directory| Self { path: directory.join(FILE) })
    }

    /// What is known of `host`: host and port, as [`Target`](crate::target::Target) shows them.
    pub fn find(&self, host: &str) -> Result<Option<KnownHost>, Error> {
        let text = match fs::read_to_string(&self.path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(Error::local(&self.path))?,
        };
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = || format!("{}:{number}", self.path.display());
            let Some((name, fingerprint)) = line.split_once(char::is_whitespace) else {
                return Err(Error::Usage(format!(
                    "{}: expected HOST:PORT and a fingerprint; mend or remove the line",
                    place()
                )));
            };
            if name.eq_ignore_ascii_case(host) {
                let fingerprint = fingerprint.trim().parse().map_err(|reason| {
                    Error::Usage(format!("{}: {reason}; mend or remove the line", place()))
                })?;
                return Ok(Some(KnownHost { fingerprint, place: place() }));
            }
        }
        Ok(None)
    }

    /// Adds a server, for its user's eyes alone.
    pub fn add(&self, host: &str, fingerprint: Fingerprint) -> Result<(), Error> {
        if let Some(directory) = self.path.parent().filter(|path| *path != Path::new("")) {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(Error::local(directory))?;
        }
        let add = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            let mut file = options.open(&self.path)?;
            let mut last = [0];
            let before = match file.metadata()?.len().checked_sub(1) {
                None => HEADING,
                Some(at) => {
                    file.read_exact_at(&mut last, at)?;
                    // An editor may have left the last line without its end.
                    if last == *b"\n" { "" } else { "\n" }
                }
            };
            // In one piece: another process may add a line at the same time.
            file.write_all(format!("{before}{host} {fingerprint}\n").as_bytes())?;
            file.sync_all()
        };
        add().map_err(Error::local(&self.path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn in_directory() -> (tempfile::TempDir, KnownHosts) {
        let dir = tempfile::tempdir().unwrap();
        let hosts = KnownHosts::at(&dir.path().join("new/known"));
        (dir, hosts)
    }

    #[test]
    fn servers_are_found_by_host_and_port_with_their_line() {
        let (_dir, hosts) = in_directory();
        assert_eq!(hosts.find("host:1").unwrap(), None);
        let (one, two) = (Fingerprint::of(b"1"), Fingerprint::of(b"2"));
        hosts.add("host:1", one).unwrap();
        hosts.add("[::1]:2", two).unwrap();
        let found = hosts.find("[::1]:2").unwrap().unwrap();
        assert_eq!(found.fingerprint, two);
        assert!(found.place.ends_with("known:3"), "{}", found.place);
        assert_eq!(hosts.find("host:1").unwrap().unwrap().fingerprint, one);
        assert_eq!(hosts.find("HOST:1").unwrap().unwrap().fingerprint, one);
        assert_eq!(hosts.find("host:2").unwrap(), None);
        assert_eq!(hosts.path().metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_last_line_without_an_end_stays_a_line() {
        let (_dir, hosts) = in_directory();
        let (one, two) = (Fingerprint::of(b"1"), Fingerprint::of(b"2"));
        hosts.add("host:1", one).unwrap();
        let text = fs::read_to_string(hosts.path()).unwrap();
        fs::write(hosts.path(), text.trim_end()).unwrap();
        hosts.add("host:2", two).unwrap();
        for (host, fingerprint) in [("host:1", one), ("host:2", two)] {
            assert_eq!(hosts.find(host).unwrap().unwrap().fingerprint, fingerprint);
        }
    }

    #[test]
    fn lines_that_cannot_be_read_are_told_with_their_number() {
        let (_dir, hosts) = in_directory();
        hosts.add("host:1", Fingerprint::of(b"1")).unwrap();
        for line in ["\nword\n", "\nother:1 nonsense\n"] {
            let mut text = fs::read_to_string(hosts.path()).unwrap();
            text.push_str(line);
            fs::write(hosts.path(), text).unwrap();
            let error = hosts.find("other:1").unwrap_err();
            assert!(error.to_string().contains("known:4"), "{error}");
            fs::write(hosts.path(), "# empty\n\n").unwrap();
        }
    }
}
