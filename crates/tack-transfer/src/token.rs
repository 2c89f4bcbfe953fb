//! Access tokens: made by the server, handed to whoever may connect, never logged.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::Error;
use crate::secret_file;

/// Random bytes in a token: beyond guessing.
const RANDOM_BYTES: usize = 20;
/// Longest token that is accepted from a file, in bytes; must fit into one message.
const MAX_TOKEN: u64 = 1024;

/// A new random token.
pub fn generate() -> Result<String, Error> {
    let mut bytes = [0; RANDOM_BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::Certificate("no random numbers from the system".to_owned()))?;
    Ok(bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit).collect())
}

fn hex_digit(value: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(value)])
}

/// Reads the token in the file at `path`; if there is no such file, makes a token and writes
/// it there, readable by its owner only.
pub fn read_or_create(path: &Path) -> Result<String, Error> {
    match read(path) {
        Err(Error::Local { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
            let token = generate()? + "\n";
            secret_file::write_once(path, token.as_bytes()).map_err(Error::local(path))?;
            // Another server that was started at the same time may have been faster.
            read(path)
        }
        other => other,
    }
}

/// Whether others than its owner may read the token in the file at `path`.
pub fn is_exposed(path: &Path) -> Result<bool, Error> {
    let metadata = path.metadata().map_err(Error::local(path))?;
    Ok(metadata.mode() & 0o077 != 0)
}

/// Reads the token in the file at `path`.
pub fn read(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let file = File::open(path).map_err(Error::local(path))?;
    file.take(MAX_TOKEN + 1).read_to_string(&mut text).map_err(Error::local(path))?;
    let token = text.trim();
    if token.is_empty() || token.len() as u64 > MAX_TOKEN || token.contains(char::is_whitespace)
    {
        return Err(Error::Invalid(format!(
            "{}: expected a token: one word of at most {MAX_TOKEN} bytes",
            path.display()
        )));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_created_once_for_its_owner_only_and_then_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let token = read_or_create(&path).unwrap();
        assert_eq!(token.len(), 2 * RANDOM_BYTES);
        assert_eq!(read_or_create(&path).unwrap(), token);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_ne!(generate().unwrap(), token);
    }

    #[test]
    fn servers_that_start_at_the_same_time_share_one_token() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let path = dir.path().join(round.to_string());
            let start = std::sync::Barrier::new(8);
            let tokens: Vec<_> = std::thread::scope(|scope| {
                let read = || {
                    start.wait();
                    read_or_create(&path).unwrap()
                };
                let servers: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
                servers.into_iter().map(|server| server.join().unwrap()).collect()
            });
            assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
        }
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for text in ["", "\n", "two words", &"x".repeat(2000)] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(read(&path), Err(Error::Invalid(_))), "{text:.10}");
        }
    }
}
