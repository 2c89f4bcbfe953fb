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

    /// A connection id is not as long as that (RFC 9000 section 17.2).
    #[error(
        "{actual} bytes are too many for a connection id, which has 20 at most: give the length \
         that this end's connection ids have"
    )]
    ConnectionIdLength {
        /// The length given, in bytes.
        actual: usize,
    },

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

    /// The packet's keys are not those in use on the wire, so it cannot leave as it is.
    #[error(
        "the packet has keys of generation {generation}, the wire those of {wire}: open it and \
         seal it again"
    )]
    NotOnTheWire {
        /// The generation that the packet was sealed in.
        generation: u64,
        /// The generation in use on the wire.
        wire: u64,
    },

    /// As many packets were sealed with these keys as they allow (RFC 9001 section 6.6).
    #[error(
        "the confidentiality limit of the keys is reached: nothing may leave any more, end the \
         connection without a further packet"
    )]
    ConfidentialityLimit,

    /// A key update may not be initiated now (RFC 9001 sections 6.1 and 6.5).
    #[error(
        "a key update may not be initiated yet: ask `can_update` again when more has been \
         acknowledged"
    )]
    UpdateNotAllowed,

    /// The peer acknowledges packets in keys older than theirs (RFC 9001 section 6.2).
    #[error(
        "the peer acknowledges packets of a new key phase in the old one: close the connection \
         with KEY_UPDATE_ERROR"
    )]
    KeyUpdate,

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
