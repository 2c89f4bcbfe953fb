//! BLAKE3 digests of whole files and of their beginnings.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use super::wire::CHUNK;

/// A BLAKE3 digest. Shown and serialised as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(blake3::Hash);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes))
    }

    /// The digest that consists of these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(blake3::Hash::from_bytes(bytes))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = blake3::HexError;
    fn try_from(hex: String) -> Result<Self, Self::Error> {
        blake3::Hash::from_hex(hex).map(Self)
    }
}

/// A digest in the making. Asking for the digest does not end it, so one pass over a file
/// gives the digests of its beginning and of the whole.
#[derive(Clone, Debug, Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of everything taken in so far.
    pub fn digest(&self) -> Digest {
        Digest(self.0.finalize())
    }

    /// Takes in exactly `length` bytes of `reader`, or fewer if it ends before; returns how
    /// many there were.
    pub fn read(&mut self, reader: &mut impl Read, length: u64) -> io::Result<u64> {
        let mut buffer = vec![0; CHUNK];
        let mut done = 0;
        while done < length {
            let want = buffer.len().min(usize::try_from(length - done).unwrap_or(usize::MAX));
            match reader.read(&mut buffer[..want]) {
                Ok(0) => break,
                Ok(n) => {
                    self.update(&buffer[..n]);
                    done += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_survives_being_written_as_text() {
        let digest = Digest::of(b"tack");
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(text.len(), 66);
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("\"00\"").is_err());
    }

    #[test]
    fn asking_for_a_prefix_digest_leaves_the_whole_digest_right() {
        let mut hasher = Hasher::default();
        assert_eq!(hasher.read(&mut &b"one"[..], 3).unwrap(), 3);
        assert_eq!(hasher.digest(), Digest::of(b"one"));
        assert_eq!(hasher.read(&mut &b"two"[..], 9).unwrap(), 3, "the reader ends early");
        assert_eq!(hasher.digest(), Digest::of(b"onetwo"));
    }
}
