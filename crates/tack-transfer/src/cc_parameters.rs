//! What connections have observed of their paths, for the next ones (RFC 9959): a client keeps it in a
//! file, a server in memory, or in a file if it does not live long.
//!
//! A set belongs to a remote endpoint, and is taken out before it is used, so that one connection at a
//! time uses it (TACK-6.7-9).

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use tacklib::CcParameters;

use crate::state_file::{Kind, StateFile};

/// Sets that are kept at most; the oldest give way.
const MOST_ENTRIES: usize = 256;

/// How old they may be: what `tacklib` would refuse needs no room.
const LIFETIME: Duration = Duration::from_secs(3600);

/// 64 KiB are more than as many entries take.
const KIND: Kind =
    Kind { name: "cc-parameters", heading: "tack cc-parameters 1", most_bytes: 64 << 10 };

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
pub struct Store(StateFile);

impl Store {
    /// A store in a directory that is made when it is first needed.
    pub fn in_directory(directory: PathBuf) -> Self {
        Self(StateFile::new(directory, KIND))
    }

    /// Takes a set out, if there is one that is not too old.
    pub fn take(&self, remote: &RemoteEndpoint, now: SystemTime) -> Option<CcParameters> {
        if !self.0.exists() {
            return None;
        }
        let taken = self.0.change(|lines| {
            let mut cache = read(&lines, now);
            let parameters = cache.take(remote);
            (parameters, parameters.map(|_| write(&cache)))
        });
        taken.flatten()
    }

    /// Puts a set in.
    pub fn put(&self, remote: RemoteEndpoint, parameters: CcParameters, now: SystemTime) {
        self.0.change(|lines| {
            let mut cache = read(&lines, now);
            cache.put(remote, parameters);
            ((), Some(write(&cache)))
        });
    }
}

/// What of the lines is right and not too old.
fn read(lines: &[String], now: SystemTime) -> Cache<RemoteEndpoint> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut cache = Cache::default();
    for line in lines {
        match parse(line) {
            Some((remote, parameters)) if parameters.is_current(now, LIFETIME) => {
                cache.put(remote, parameters);
            }
            Some(_) => {}
            None => log::debug!("no CC parameters, ignored: {line:.80}"),
        }
    }
    cache
}

fn write(cache: &Cache<RemoteEndpoint>) -> Vec<String> {
    let line = |((local, server), parameters): (&RemoteEndpoint, &CcParameters)| {
        format!("{local} {server} {}", HEXLOWER.encode(&parameters.to_bytes()))
    };
    cache.0.iter().map(line).collect()
}

fn parse(line: &str) -> Option<(RemoteEndpoint, CcParameters)> {
    let mut words = line.split(' ');
    let local = words.next()?.parse().ok()?;
    let server = words.next()?.parse().ok()?;
    let bytes = HEXLOWER.decode(words.next()?.as_bytes()).ok()?;
    if words.next().is_some() {
        return None;
    }
    Some(((local, server), CcParameters::from_bytes(&bytes)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    fn file(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().join("a/tack/cc-parameters")
    }

    // TACK-6.7-9
    #[test]
    fn what_was_put_in_is_taken_out_once() {
        let (directory, store) = store();
        assert_eq!(store.take(&remote(1), at(NOW)), None);
        assert!(!directory.path().join("a").exists(), "nothing is made for nothing");
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
        let (directory, store) = store();
        store.put(remote(1), parameters(NOW), at(NOW));
        let good = fs::read_to_string(file(&directory)).unwrap();
        for damage in
            ["", "x", "192.0.2.1 198.51.100.7:2 0102", "a b c d", "\u{fc} \u{fc} \u{fc}"]
        {
            fs::write(file(&directory), format!("{good}{damage}\n")).unwrap();
            assert_eq!(read(&store.0.lines(), at(NOW)).0.len(), 1, "{damage}");
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
}
