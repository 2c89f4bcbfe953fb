//! The servers' certificate.

use std::sync::OnceLock;

use boring::asn1::Asn1Time;
use boring::bn::BigNum;
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::x509::{X509, X509NameBuilder};

use super::Error;

/// A self-signed certificate and its key.
///
/// RSA, because its signatures have one length: those of ECDSA vary by a byte or two, and with
/// them the sizes of handshake packets from one run to the next.
pub struct Identity {
    pub certificate: X509,
    pub key: PKey<Private>,
}

impl Identity {
    /// The identity of this process. Call it outside of virtual time: making the key takes a
    /// while, and it is made from real randomness.
    pub fn get() -> Result<&'static Self, Error> {
        static IDENTITY: OnceLock<Result<Identity, ErrorStack>> = OnceLock::new();
        IDENTITY
            .get_or_init(Self::generate)
            .as_ref()
            .map_err(|error| Error::setup("TLS")(error))
    }

    fn generate() -> Result<Self, ErrorStack> {
        let key = PKey::from_rsa(Rsa::generate(2048)?)?;
        let mut name = X509NameBuilder::new()?;
        name.append_entry_by_text("CN", "tack-lab")?;
        let name = name.build();
        let serial = BigNum::from_u32(1)?.to_asn1_integer()?;
        let mut builder = X509::builder()?;
        builder.set_version(2)?;
        builder.set_serial_number(&serial)?;
        builder.set_subject_name(&name)?;
        builder.set_issuer_name(&name)?;
        builder.set_pubkey(&key)?;
        builder.set_not_before(&*Asn1Time::from_unix(0)?)?;
        builder.set_not_after(&*Asn1Time::from_unix(i64::from(i32::MAX))?)?;
        builder.sign(&key, MessageDigest::sha256())?;
        Ok(Self { certificate: builder.build(), key })
    }
}
