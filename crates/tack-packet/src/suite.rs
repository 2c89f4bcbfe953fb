use ring::{aead, hkdf};

/// Length in bytes of the authentication tag that ends every protected packet.
pub const TAG_LEN: usize = 16;

/// The TLS 1.3 cipher suites that QUIC uses (RFC 9001 section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CipherSuite {
    /// `TLS_AES_128_GCM_SHA256`
    Aes128GcmSha256,
    /// `TLS_AES_256_GCM_SHA384`
    Aes256GcmSha384,
    /// `TLS_CHACHA20_POLY1305_SHA256`
    ChaCha20Poly1305Sha256,
}

impl CipherSuite {
    /// Every suite.
    pub const ALL: [Self; 3] =
        [Self::Aes128GcmSha256, Self::Aes256GcmSha384, Self::ChaCha20Poly1305Sha256];

    /// The suite of a name as IANA and OpenSSL write it, or as older BoringSSL does.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "TLS_AES_128_GCM_SHA256" | "AEAD-AES128-GCM-SHA256" => Some(Self::Aes128GcmSha256),
            "TLS_AES_256_GCM_SHA384" | "AEAD-AES256-GCM-SHA384" => Some(Self::Aes256GcmSha384),
            "TLS_CHACHA20_POLY1305_SHA256" | "AEAD-CHACHA20-POLY1305-SHA256" => {
                Some(Self::ChaCha20Poly1305Sha256)
            }
            _ => None,
        }
    }

    /// Length of a traffic secret in bytes: that of the suite's hash.
    pub const fn secret_len(self) -> usize {
        match self {
            Self::Aes128GcmSha256 | Self::ChaCha20Poly1305Sha256 => 32,
            Self::Aes256GcmSha384 => 48,
        }
    }

    /// How many packets may fail to authenticate, over all keys of a connection, before it must
    /// be closed with `AEAD_LIMIT_REACHED` (RFC 9001 section 6.6).
    pub const fn integrity_limit(self) -> u64 {
        match self {
            Self::Aes128GcmSha256 | Self::Aes256GcmSha384 => 1 << 52,
            Self::ChaCha20Poly1305Sha256 => 1 << 36,
        }
    }

    /// How many packets may be sealed with one set of keys (RFC 9001 section 6.6).
    ///
    /// For ChaCha20-Poly1305 that is more than there are packet numbers.
    pub const fn confidentiality_limit(self) -> u64 {
        match self {
            Self::Aes128GcmSha256 | Self::Aes256GcmSha384 => 1 << 23,
            Self::ChaCha20Poly1305Sha256 => 1 << 62,
        }
    }

    pub(crate) fn hash(self) -> hkdf::Algorithm {
        match self {
            Self::Aes128GcmSha256 | Self::ChaCha20Poly1305Sha256 => hkdf::HKDF_SHA256,
            Self::Aes256GcmSha384 => hkdf::HKDF_SHA384,
        }
    }

    pub(crate) fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128GcmSha256 => &aead::AES_128_GCM,
            Self::Aes256GcmSha384 => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305Sha256 => &aead::CHACHA20_POLY1305,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_iana_and_boringssl_are_known_and_others_are_not() {
        for (name, suite) in [
            ("TLS_AES_128_GCM_SHA256", CipherSuite::Aes128GcmSha256),
            ("TLS_AES_256_GCM_SHA384", CipherSuite::Aes256GcmSha384),
            ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::ChaCha20Poly1305Sha256),
            ("AEAD-AES128-GCM-SHA256", CipherSuite::Aes128GcmSha256),
            ("AEAD-AES256-GCM-SHA384", CipherSuite::Aes256GcmSha384),
            ("AEAD-CHACHA20-POLY1305-SHA256", CipherSuite::ChaCha20Poly1305Sha256),
        ] {
            assert_eq!(CipherSuite::from_name(name), Some(suite));
        }
        assert_eq!(CipherSuite::from_name("TLS_AES_128_CCM_SHA256"), None);
        assert_eq!(CipherSuite::from_name(""), None);
    }

    #[test]
    fn lengths_agree_with_the_algorithms() {
        for suite in CipherSuite::ALL {
            assert_eq!(suite.aead().tag_len(), TAG_LEN);
            assert_eq!(
                suite.secret_len(),
                suite.hash().hmac_algorithm().digest_algorithm().output_len()
            );
        }
    }
}
