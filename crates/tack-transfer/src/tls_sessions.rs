//! TLS sessions of a client's, to be resumed with early data (RFC 9001 section 4.6): a request leaves with the
//! first packet, a round trip sooner.
//!
//! A session belongs to a server and to what had made its certificate good: whoever trusts it for another
//! reason makes a handshake of its own. It is taken out before it is used, since one that is used twice links
//! two connections (RFC 8446 appendix C.4).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64_NOPAD;

use crate::protocol::Digest;
use crate::state_file::{Kind, StateFile};

/// Sessions that are kept at most; the oldest give way.
const MOST_ENTRIES: usize = 32;

/// Longest session that is kept, bytes: certificate chains are in it.
const MOST_SESSION: usize = 16 << 10;

/// How old a session may be. Servers forget their keys sooner or later, and what a refused session costs is a
/// round trip.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

const KIND: Kind = Kind {
    name: "tls-sessions",
    heading: "tack tls-sessions 1",
    // As many of the longest, in Base64.
    most_bytes: MOST_ENTRIES as u64 * (MOST_SESSION as u64 * 4 / 3 + 200),
};

/// A session, and where it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// The server's address then.
    pub address: SocketAddr,
    /// What quiche tells as the session.
    pub bytes: Vec<u8>,
}

/// A file of a user's, which is as secret as a key.
#[derive(Clone, Debug)]
pub struct SessionStore(StateFile);

/// Whose session one is: the digest of the server's name, and of why it is trusted.
pub type Owner = Digest;

impl SessionStore {
    /// A store in a directory that is made when it is first needed.
    pub fn in_directory(directory: PathBuf) -> Self {
        Self(StateFile::new(directory, KIND))
    }

    /// Takes the session of a server out, if there is one that is not too old.
    pub fn take(&self, owner: Owner, now: SystemTime) -> Option<TlsSession> {
        if !self.0.exists() {
            return None;
        }
        let taken = self.0.change(|lines| {
            let mut entries = read(&lines, now);
            let position = entries.iter().position(|entry| entry.owner == owner);
            let session = position.map(|position| entries.swap_remove(position).session);
            let lines = session.is_some().then(|| write(&entries));
            (session, lines)
        });
        taken.flatten()
    }

    /// Puts a session in, in place of the one before.
    pub fn put(&self, owner: Owner, session: TlsSession, now: SystemTime) {
        if session.bytes.len() > MOST_SESSION {
            return;
        }
        self.0.change(|lines| {
            let mut entries = read(&lines, now);
            entries.retain(|entry| entry.owner != owner);
            entries.sort_unstable_by_key(|entry| entry.saved_at);
            entries.drain(..(entries.len() + 1).saturating_sub(MOST_ENTRIES));
            entries.push(Entry { owner, saved_at: seconds(now), session });
            ((), Some(write(&entries)))
        });
    }
}

struct Entry {
    owner: Owner,
    /// Seconds since 1970.
    saved_at: u64,
    session: TlsSession,
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What of the lines is right and not too old.
fn read(lines: &[String], now: SystemTime) -> Vec<Entry> {
    let now = seconds(now);
    let is_current = |entry: &Entry| {
        now.checked_sub(entry.saved_at).is_some_and(|age| age <= LIFETIME.as_secs())
    };
    lines.iter().filter_map(|line| parse(line)).filter(is_current).collect()
}

fn write(entries: &[Entry]) -> Vec<String> {
    let line = |Entry { owner, saved_at, session }: &Entry| {
        let bytes = BASE64_NOPAD.encode(&session.bytes);
        format!("{owner} {saved_at} {} {bytes}", session.address)
    };
    entries.iter().map(line).collect()
}

fn parse(line: &str) -> Option<Entry> {
    let mut words = line.split(' ');
    let owner = Owner::try_from(words.next()?.to_owned()).ok()?;
    let saved_at = words.next()?.parse().ok()?;
    let address = words.next()?.parse().ok()?;
    let bytes = BASE64_NOPAD.decode(words.next()?.as_bytes()).ok()?;
    words.next().is_none().then_some(Entry {
        owner,
        saved_at,
        session: TlsSession { address, bytes },
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NOW: u64 = 1_000_000;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn owner(n: u64) -> Owner {
        Digest::of(&n.to_be_bytes())
    }

    fn session(n: u64) -> TlsSession {
        let address = SocketAddr::from(([192, 0, 2, 1], 4433));
        TlsSession { address, bytes: n.to_be_bytes().to_vec() }
    }

    fn store() -> (tempfile::TempDir, SessionStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = SessionStore::in_directory(directory.path().to_path_buf());
        (directory, store)
    }

    #[test]
    fn a_session_is_its_owner_s_and_is_taken_out_once() {
        let (_directory, store) = store();
        assert_eq!(store.take(owner(1), at(NOW)), None);
        store.put(owner(1), session(1), at(NOW));
        store.put(owner(2), session(2), at(NOW));
        store.put(owner(1), session(3), at(NOW));
        assert_eq!(store.take(owner(3), at(NOW)), None);
        assert_eq!(store.take(owner(1), at(NOW)), Some(session(3)));
        assert_eq!(store.take(owner(1), at(NOW)), None);
        assert_eq!(store.take(owner(2), at(NOW)), Some(session(2)));
    }

    #[test]
    fn what_is_too_old_or_from_the_future_is_forgotten() {
        let (_directory, store) = store();
        store.put(owner(1), session(1), at(NOW));
        assert_eq!(store.take(owner(1), at(NOW + LIFETIME.as_secs() + 1)), None);
        assert_eq!(store.take(owner(1), at(NOW - 1)), None);
        assert_eq!(store.take(owner(1), at(NOW + LIFETIME.as_secs())), Some(session(1)));
    }

    #[test]
    fn the_oldest_give_way_and_the_longest_are_not_kept() {
        let (_directory, store) = store();
        for n in 0..=MOST_ENTRIES as u64 {
            store.put(owner(n), session(n), at(NOW + n));
        }
        let now = at(NOW + MOST_ENTRIES as u64);
        assert_eq!(store.take(owner(0), now), None);
        assert!((1..=MOST_ENTRIES as u64).all(|n| store.take(owner(n), now).is_some()));
        let longest = |length| TlsSession { bytes: vec![7; length], ..session(0) };
        store.put(owner(0), longest(MOST_SESSION + 1), now);
        assert_eq!(store.take(owner(0), now), None);
        for n in 0..MOST_ENTRIES as u64 {
            store.put(owner(n), longest(MOST_SESSION), now);
        }
        assert!((0..MOST_ENTRIES as u64).all(|n| store.take(owner(n), now).is_some()));
    }

    #[test]
    fn a_damaged_line_costs_no_more_than_itself() {
        let (directory, store) = store();
        store.put(owner(1), session(1), at(NOW));
        let file = directory.path().join("tls-sessions");
        let good = fs::read_to_string(&file).unwrap();
        let line = good.lines().nth(1).unwrap();
        for damage in
            ["", "x", "a b c d", "\u{fc}", &line[1..], &format!("{line} x"), &line[..80]]
        {
            fs::write(&file, format!("{good}{damage}\n")).unwrap();
            assert_eq!(read(&store.0.lines(), at(NOW)).len(), 1, "{damage}");
        }
    }
}
