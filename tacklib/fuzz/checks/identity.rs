//! The servers' certificate.

use std::sync::OnceLock;

use boring::asn1::Asn1Time;
use boring::hash::MessageDigest;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::x509::X509;

/// A self-signed certificate and its key. RSA, because its signatures have one length.
pub fn identity() -> &'static (X509, PKey<Private>) {
    static IDENTITY: OnceLock<(X509, PKey<Private>)> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder.set_pubkey(&key).unwrap();
        builder.set_not_before(&Asn1Time::from_unix(0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::from_unix(i64::from(i32::MAX)).unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        (builder.build(), key)
    })
}
