//! What connections have observed of their paths, for the next ones (RFC 9959): a client keeps it in a
//! file, a server in memory, or in a file if it does not live long.
//!
//! A set belongs to a remote endpoint, and is taken out before it is used, so that one connection at a
//! time uses it (TACK-6.7-9). Nothing here may fail a transfer: what cannot be read or written is
//! logged and forgotten.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::Hash;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tacklib::CcParameters;

/// Sets that are kept at most; the oldest give way.
const MOST_ENTRIES: usize = 256;

/// How old they may be: what `tacklib` would refuse needs no room.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Longest file that is read, bytes: more than as many entries take.
const MOST_BYTES: u64 = 64 << 10;

/// First line of the file.
const HEADING: &str = "tack cc-parameters 1";
const FILE: &str = "cc-parameters";
const LOCK: &str = "cc-parameters.lock";

/// Sets by remote endpoint.
#[derive(Debug)]
pub struct Cache<K>(HashMap<K, CcParameters>);

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Cache<K> {
    /// Takes a set out.
    pub fn take(&mut self, remote: &K) -> Option<CcParameters> {
        self.0.remove(remote)
    }

    /// Puts a set in, in place of the one before. The oldest is forgotten where there are too many.
    pub fn put(&mut self, remote: K, parameters: CcParameters) {
        self.0.insert(remote, parameters);
        while self.0.len() > MOST_ENTRIES {
            let oldest = self.0.iter().min_by_key(|(_, parameters)| parameters.saved_at);
            let Some(oldest) = oldest.map(|(remote, _)| remote.clone()) else { break };
            self.0.remove(&oldest);
        }
    }
}

/// A client's view of a path: the address of its own interface, and the server's address.
pub type RemoteEndpoint = (IpAddr, SocketAddr);

/// The remote endpoint of a connection to `server`, as the system would route it; `None` if it would
/// not. No packet is sent.
pub fn remote_endpoint(server: SocketAddr) -> Option<RemoteEndpoint> {
    let any = match server {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(server).ok()?;
    Some((socket.local_addr().ok()?.ip(), server))
}

/// A server's view of a path: whatever its own address, and the client's, whose port is another one each time.
pub fn path_to_client(client: IpAddr) -> RemoteEndpoint {
    // A dual-stack socket tells IPv4 addresses in the form of IPv6 (RFC 4291 section 2.5.5.2).
    let client = client.to_canonical();
    let any = match client {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    (any, SocketAddr::new(client, 0))
}

/// A file of a user's, as a client or as a server that does not live long.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    /// A store in a directory that is made when it is first needed.
    pub fn in_directory(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Takes a set out, if there is one that is not too old.
    pub fn take(&self, remote: &RemoteEndpoint, now: SystemTime) -> Option<CcParameters> {
        if !self.directory.join(FILE).exists() {
            return None;
        }
        self.change(now, |cache| {
            let parameters = cache.take(remote);
            (parameters, parameters.is_some())
        })
        .flatten()
    }

    /// Puts a set in.
    pub fn put(&self, remote: RemoteEndpoint, parameters: CcParameters, now: SystemTime) {
        self.change(now, |cache| {
            cache.put(remote, parameters);
            ((), true)
        });
    }

    /// Reads the file, and writes it again if `change` says so, alone among all processes.
    fn change<T>(
        &self,
        now: SystemTime,
        change: impl FnOnce(&mut Cache<RemoteEndpoint>) -> (T, bool),
    ) -> Option<T> {
        let path = self.directory.join(FILE);
        let changed = || -> io::Result<T> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            let lock = private(&self.directory.join(LOCK))?;
            // Held until it is closed.
            lock.lock()?;
            let mut cache = read(&path, now);
            let (result, is_new) = change(&mut cache);
            if is_new {
                write(&self.directory, &path, &cache)?;
            }
            Ok(result)
        };
        changed()
            .inspect_err(|error| {
                log::debug!("{}: {error}: the path's parameters are not kept", path.display());
            })
            .ok()
    }
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// What of the file is right and not too old.
fn read(path: &Path, now: SystemTime) -> Cache<RemoteEndpoint> {
    let mut text = String::new();
    let file =
        File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    let mut lines = text.lines();
    let mut cache = Cache::default();
    match file {
        Ok(_) if lines.next() == Some(HEADING) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return cache,
        Ok(_) => {
            log::debug!("{}: not a file of CC parameters: ignored", path.display());
            return cache;
        }
        Err(error) => {
            log::debug!("{}: {error}: ignored", path.display());
            return cache;
        }
    }
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for line in lines {
        match parse(line) {
            Some((remote, parameters)) if parameters.is_current(now, LIFETIME) => {
                cache.put(remote, parameters);
            }
            Some(_) => {}
            None => log::debug!("{}: ignored: {line:.80}", path.display()),
        }
    }
    cache
}

/// Writes a file beside the old one, which it then replaces.
fn write(directory: &Path, path: &Path, cache: &Cache<RemoteEndpoint>) -> io::Result<()> {
    let draft = directory.join(format!(".{FILE}.{}", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = private(&draft)?;
        writeln!(file, "{HEADING}")?;
        for ((local, server), parameters) in &cache.0 {
            write!(file, "{local} {server} ")?;
            for byte in parameters.to_bytes() {
                write!(file, "{byte:02x}")?;
            }
            writeln!(file)?;
        }
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().inspect_err(|_| {
        // Left behind, it would only waste space.
        let _ = fs::remove_file(&draft);
    })
}

fn parse(line: &str) -> Option<(RemoteEndpoint, CcParameters)> {
    let mut words = line.split(' ');
    let local = words.next()?.parse().ok()?;
    let server = words.next()?.parse().ok()?;
    let digits = words.next().filter(|digits| digits.is_ascii())?;
    if digits.len() != 2 * CcParameters::ENCODED_LEN || words.next().is_some() {
        return None;
    }
    let bytes: Option<Vec<u8>> = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect();
    Some(((local, server), CcParameters::from_bytes(&bytes?)?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const NOW: u64 = 1_000_000;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn parameters(saved_at: u64) -> CcParameters {
        CcParameters { saved_cwnd: 1_000_000, saved_rtt: Duration::from_millis(40), saved_at }
    }

    fn remote(port: u16) -> RemoteEndpoint {
        (IpAddr::from([192, 0, 2, 1]), SocketAddr::from(([198, 51, 100, 7], port)))
    }

    fn store() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::in_directory(directory.path().join("a/tack"));
        (directory, store)
    }

    // TACK-6.7-9
    #[test]
    fn what_was_put_in_is_taken_out_once() {
        let (_directory, store) = store();
        assert_eq!(store.take(&remote(1), at(NOW)), None);
        assert!(!store.directory.exists(), "nothing is made for nothing");
        store.put(remote(1), parameters(NOW), at(NOW));
        store.put(remote(2), parameters(NOW - 1), at(NOW));
        assert_eq!(store.take(&remote(3), at(NOW)), None);
        assert_eq!(store.take(&remote(1), at(NOW)), Some(parameters(NOW)));
        assert_eq!(store.take(&remote(1), at(NOW)), None);
        assert_eq!(store.take(&remote(2), at(NOW)), Some(parameters(NOW - 1)));
    }

    #[test]
    fn another_interface_is_another_path() {
        let (_directory, store) = store();
        store.put(remote(1), parameters(NOW), at(NOW));
        let other = (IpAddr::from([192, 0, 2, 2]), remote(1).1);
        assert_eq!(store.take(&other, at(NOW)), None);
    }

    #[test]
    fn only_the_user_may_read_the_file() {
        let (_directory, store) = store();
        store.put(remote(1), parameters(NOW), at(NOW));
        assert_eq!(store.directory.join(FILE).metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(store.directory.metadata().unwrap().mode() & 0o777, 0o700);
        let files = fs::read_dir(&store.directory).unwrap().count();
        assert_eq!(files, 2, "the file and the lock");
    }

    // TACK-6.7-1
    #[test]
    fn what_is_too_old_or_from_the_future_is_forgotten() {
        let (_directory, store) = store();
        store.put(remote(1), parameters(NOW), at(NOW));
        let expired = at(NOW + LIFETIME.as_secs() + 1);
        assert_eq!(store.take(&remote(1), expired), None);
        assert_eq!(store.take(&remote(1), at(NOW - 1)), None);
        assert_eq!(store.take(&remote(1), at(NOW)), Some(parameters(NOW)));
    }

    #[test]
    fn a_damaged_file_costs_no_more_than_what_is_damaged() {
        let (_directory, store) = store();
        store.put(remote(1), parameters(NOW), at(NOW));
        let path = store.directory.join(FILE);
        let good = fs::read_to_string(&path).unwrap();
        for damage in
            ["", "x", "192.0.2.1 198.51.100.7:2 0102", "a b c d", "\u{fc} \u{fc} \u{fc}"]
        {
            fs::write(&path, format!("{good}{damage}\n")).unwrap();
            assert_eq!(read(&path, at(NOW)).0.len(), 1, "{damage}");
        }
        for damage in [&b""[..], b"\xff\xfe", b"tack cc-parameters 2\n", &good.as_bytes()[1..]]
        {
            fs::write(&path, damage).unwrap();
            assert_eq!(store.take(&remote(1), at(NOW)), None);
            store.put(remote(2), parameters(NOW), at(NOW));
            assert_eq!(store.take(&remote(2), at(NOW)), Some(parameters(NOW)));
        }
    }

    #[test]
    fn the_oldest_give_way() {
        let mut cache = Cache::default();
        for age in 0..=MOST_ENTRIES as u64 {
            cache.put(age, parameters(NOW - age));
        }
        assert_eq!(cache.0.len(), MOST_ENTRIES);
        assert_eq!(cache.take(&(MOST_ENTRIES as u64)), None);
        assert!(cache.take(&0).is_some());
    }

    #[test]
    fn a_store_that_cannot_be_written_keeps_nothing_and_fails_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let store = Store::in_directory(file.join("tack"));
        store.put(remote(1), parameters(NOW), at(NOW));
        assert_eq!(store.take(&remote(1), at(NOW)), None);
    }
}
