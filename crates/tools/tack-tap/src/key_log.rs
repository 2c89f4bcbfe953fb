//! Traffic secrets, from the lines of the NSS key log format.

use std::{
    fmt,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Direction;

/// A key log in memory. Clones share it: give one to each endpoint and one to the tap.
///
/// Secrets are kept, never shown; only the first of each direction is, so both endpoints of one
/// connection may write to the same key log.
#[derive(Clone, Default)]
pub struct KeyLog {
    shared: Arc<Mutex<Secrets>>,
}

#[derive(Default)]
struct Secrets {
    /// The start of a line whose end has not been written yet.
    line: Vec<u8>,
    client: Option<Vec<u8>>,
    server: Option<Vec<u8>>,
}

impl KeyLog {
    /// An empty key log.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first 1-RTT traffic secret of whoever sends in `direction`.
    pub(crate) fn secret(&self, direction: Direction) -> Option<Vec<u8>> {
        let secrets = self.lock();
        match direction {
            Direction::ToServer => secrets.client.clone(),
            Direction::ToClient => secrets.server.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Secrets> {
        // No write leaves the secrets half changed, so a panic elsewhere spoils nothing.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for KeyLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut secrets = self.lock();
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            secrets.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                secrets.take_line();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Secrets {
    /// `<label> <client random> <secret>`, the latter two in hexadecimal digits.
    fn take_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut fields = line.trim_ascii().split(|&byte| byte == b' ');
        let secret = match fields.next() {
            Some(b"CLIENT_TRAFFIC_SECRET_0") => &mut self.client,
            Some(b"SERVER_TRAFFIC_SECRET_0") => &mut self.server,
            _ => return,
        };
        if secret.is_none() {
            *secret = fields.nth(1).and_then(from_hex);
        }
    }
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|value| value as u8);
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(&pair[0])? << 4 | digit(&pair[1])?)).collect()
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLog").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
        SERVER_HANDSHAKE_TRAFFIC_SECRET 00ff aaaa\n\
        CLIENT_TRAFFIC_SECRET_0 00ff 01fE\n\
        SERVER_TRAFFIC_SECRET_0 00ff c0ffee\n";

    #[test]
    fn the_secret_of_each_direction_is_found_however_the_lines_are_cut() {
        for size in 1..=LOG.len() {
            let mut log = KeyLog::new();
            let writer = &mut log.clone();
            for part in LOG.as_bytes().chunks(size) {
                writer.write_all(part).unwrap();
            }
            assert_eq!(log.secret(Direction::ToServer), Some(vec![0x01, 0xfe]));
            assert_eq!(log.secret(Direction::ToClient), Some(vec![0xc0, 0xff, 0xee]));
            log.flush().unwrap();
        }
    }

    #[test]
    fn a_line_without_its_end_says_nothing_yet() {
        let mut log = KeyLog::new();
        log.write_all(b"CLIENT_TRAFFIC_SECRET_0 00ff 01").unwrap();
        assert_eq!(log.secret(Direction::ToServer), None);
    }

    #[test]
    fn the_first_secret_stays_and_lines_that_make_no_sense_are_passed_over() {
        let mut log = KeyLog::new();
        log.write_all(b"CLIENT_TRAFFIC_SECRET_0 00ff xyz\n\nCLIENT_TRAFFIC_SECRET_0\n")
            .unwrap();
        log.write_all(b"CLIENT_TRAFFIC_SECRET_0 00ff 123\n").unwrap();
        assert_eq!(log.secret(Direction::ToServer), None);
        log.write_all(b"CLIENT_TRAFFIC_SECRET_0 00ff 12\n").unwrap();
        log.write_all(b"CLIENT_TRAFFIC_SECRET_0 00ff 34\n").unwrap();
        assert_eq!(log.secret(Direction::ToServer), Some(vec![0x12]));
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let mut log = KeyLog::new();
        log.write_all(LOG.as_bytes()).unwrap();
        assert_eq!(format!("{log:?}"), "KeyLog { .. }");
    }
}
