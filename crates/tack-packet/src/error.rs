use crate::CipherSuite;

/// Why a packet could not be opened or sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The traffic secret is not as long as the hash of the cipher suite.
    #[error(
        "{suite:?} takes a traffic secret of {} bytes, not {actual}: name the suite that TLS \
         negotiated",
        suite.secret_len()
    )]
    SecretLength {
        /// The suite asked for.
        suite: CipherSuite,
        /// The length of the secret given, in bytes.
        actual: usize,
    },

    /// The packet has a long header: Initial, 0-RTT, Handshake, Retry or Version Negotiation.
    #[error(
        "not a short-header packet: only 1-RTT packets can be handled, pass it on as it is"
    )]
    LongHeader,

    /// Too few bytes to hold the header-protection sample (RFC 9001 section 5.4.2).
    #[error(
        "{actual} bytes are too few for a 1-RTT packet: drop it, or pad what is to be \
         sealed to {needed}"
    )]
    TooShort {
        /// The least number of bytes that a packet with this connection id has.
        needed: usize,
        /// The number of bytes there are.
        actual: usize,
    },

    /// The packet does not authenticate: forged, damaged, or sealed with other keys.
    #[error(
        "the packet does not authenticate: drop it, or treat it as a possible stateless reset"
    )]
    Authentication,

    /// The keys of this generation are not held: never reached, or discarded already.
    #[error(
        "no keys for generation {generation}, the current one is {current}: drop the packet"
    )]
    UnknownGeneration {
        /// The generation asked for.
        generation: u64,
        /// The generation in use.
        current: u64,
    },

    /// The header to seal contradicts itself or the bytes in the buffer.
    #[error(
        "the header to seal does not match the buffer: write first byte, connection id and \
         truncated packet number before sealing"
    )]
    HeaderMismatch,

    /// The buffer has no room for header, payload and tag.
    #[error(
        "sealing needs a buffer of {needed} bytes, not {actual}: leave TAG_LEN bytes behind \
         the payload"
    )]
    BufferTooSmall {
        /// Bytes of header, payload and tag together.
        needed: usize,
        /// Bytes in the buffer.
        actual: usize,
    },

    /// The cryptography library refused a length that TLS 1.3 allows.
    #[error(
        "the cryptography library refused to derive or use a key: please report this as a bug"
    )]
    Crypto,
}

impl From<ring::error::Unspecified> for Error {
    fn from(_: ring::error::Unspecified) -> Self {
        Self::Crypto
    }
}
