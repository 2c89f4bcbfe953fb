//! Captures the 1-RTT secrets from quiche's key log.
//!
//! What: a writer that quiche takes for its key log. The two traffic secrets stay in memory, and every
//! line still goes to the application's own key log if it has one. Why: quiche has no other way to tell
//! the keys. Upstream: no hook. To delete: when quiche exports its keys, or takes frames of others.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use zeroize::Zeroizing;

/// Longest traffic secret: that of SHA-384.
const LONGEST_SECRET: usize = 48;

/// Wiped when it is dropped.
type Secret = Zeroizing<Vec<u8>>;

/// The application's writer.
type Sink = Box<dyn Write + Send + Sync>;

#[derive(Default)]
struct Shared {
    client: Option<Secret>,
    server: Option<Secret>,
    sink: Option<Sink>,
}

/// One half is given to quiche as its key log, the other is kept.
#[derive(Clone, Default)]
pub struct TrafficSecrets(Arc<Mutex<Shared>>);

impl TrafficSecrets {
    /// Whether quiche still holds the other half: an application that sets a key log on the quiche
    /// connection itself drops it.
    pub fn is_connected(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Forwards every line to `sink` from now on.
    pub fn set_sink(&self, sink: Sink) {
        self.lock().sink = Some(sink);
    }

    /// The client's and the server's first 1-RTT traffic secret, once both are
    /// known; this half forgets them.
    pub fn take_secrets(&self) -> Option<(Secret, Secret)> {
        let mut shared = self.lock();
        if shared.client.is_none() || shared.server.is_none() {
            return None;
        }
        shared.client.take().zip(shared.server.take())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        // Nothing in here panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for TrafficSecrets {
    /// quiche writes whole lines.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let mut shared = self.lock();
        for line in lines.split(|byte| *byte == b'\n') {
            match parse(line) {
                Some((b"CLIENT_TRAFFIC_SECRET_0", secret)) => shared.client = Some(secret),
                Some((b"SERVER_TRAFFIC_SECRET_0", secret)) => shared.server = Some(secret),
                _ => {}
            }
        }
        if let Some(sink) = &mut shared.sink {
            sink.write_all(lines)?;
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().sink.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Label and secret of a line `LABEL CLIENT_RANDOM SECRET`.
fn parse(line: &[u8]) -> Option<(&[u8], Zeroizing<Vec<u8>>)> {
    let mut words = line.split(|byte| *byte == b' ');
    let (label, _random, hex) = (words.next()?, words.next()?, words.next()?);
    let hex = std::str::from_utf8(hex).ok()?.trim_end();
    if hex.len() % 2 != 0 || hex.len() > 2 * LONGEST_SECRET || !hex.is_ascii() {
        return None;
    }
    let byte = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let mut secret = Zeroizing::new(Vec::with_capacity(LONGEST_SECRET));
    for at in (0..hex.len()).step_by(2) {
        secret.push(byte(at)?);
    }
    Some((label, secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Copy(Arc<Mutex<Vec<u8>>>);

    impl Write for Copy {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn secrets_are_captured_and_every_line_is_forwarded() {
        let mut log = TrafficSecrets::default();
        let copy = Copy::default();
        log.set_sink(Box::new(copy.clone()));
        let lines = b"SERVER_HANDSHAKE_TRAFFIC_SECRET aa bb\n\
            CLIENT_TRAFFIC_SECRET_0 aa 0102\nSERVER_TRAFFIC_SECRET_0 aa 0304\n";
        assert!(log.take_secrets().is_none());
        log.write_all(lines).unwrap();
        assert_eq!(
            log.take_secrets(),
            Some((Zeroizing::new(vec![1, 2]), Zeroizing::new(vec![3, 4])))
        );
        assert!(log.take_secrets().is_none(), "they are handed out once");
        assert_eq!(&copy.0.lock().unwrap()[..], lines);
    }

    #[test]
    fn lines_that_hold_no_secret_are_ignored() {
        let mut log = TrafficSecrets::default();
        let lines: [&[u8]; 4] = [
            b"CLIENT_TRAFFIC_SECRET_0 aa 010",
            b"CLIENT_TRAFFIC_SECRET_0",
            b"CLIENT_TRAFFIC_SECRET_0 aa \xff\xff",
            b"",
        ];
        for line in lines {
            log.write_all(line).unwrap();
        }
        log.write_all(b"SERVER_TRAFFIC_SECRET_0 aa 0304").unwrap();
        assert!(log.take_secrets().is_none());
    }
}
