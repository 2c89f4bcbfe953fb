//! The servers' certificate.

use std::sync::OnceLock;

use boring::asn1::Asn1Time;
use boring::bn::BigNum;
use boring::hash::MessageDigest;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::x509::{X509, X509NameBuilder};

/// A self-signed certificate and its key. RSA, because its signatures have one length: those of
/// ECDSA differ by a byte or two from run to run.
pub struct Identity {
    pub certificate: X509,
    pub key: PKey<Private>,
}

impl Identity {
    /// The identity of this process. Its first use must lie outside of virtual time, where
    /// randomness is real.
    pub fn get() -> &'static Self {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        IDENTITY.get_or_init(Self::generate)
    }

    fn generate() -> Self {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut name = X509NameBuilder::new().unwrap();
        name.append_entry_by_text("CN", "tack-attack").unwrap();
        let name = name.build();
        let serial = BigNum::from_u32(1).unwrap().to_asn1_integer().unwrap();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder.set_serial_number(&serial).unwrap();
        builder.set_subject_name(&name).unwrap();
        builder.set_issuer_name(&name).unwrap();
        builder.set_pubkey(&key).unwrap();
        builder.set_not_before(&Asn1Time::from_unix(0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::from_unix(i64::from(i32::MAX)).unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        Self { certificate: builder.build(), key }
    }
}
