//! A certificate that is the only good one, looked at within the handshake.
//!
//! A check behind the handshake would be too late for early data: when a server refuses that, it goes out once more as
//! soon as there are new keys.

use std::sync::{Arc, OnceLock};

use boring::error::ErrorStack;
use boring::ssl::{
    SslAlert, SslContextBuilder, SslMethod, SslRef, SslVerifyError, SslVerifyMode,
};
use tack_endpoint::certificate::Fingerprint;

/// The only good certificate, and the other one that a server has shown.
#[derive(Clone, Debug)]
pub struct Pin {
    expected: Fingerprint,
    other: Arc<OnceLock<Fingerprint>>,
}

impl Pin {
    /// Nothing but the certificate with this fingerprint is good.
    pub fn new(expected: Fingerprint) -> Self {
        Self { expected, other: Arc::default() }
    }

    /// The fingerprint that is good, and that of what was shown in its place, if anything was.
    pub(crate) fn mismatch(&self) -> Option<(Fingerprint, Fingerprint)> {
        self.other.get().map(|other| (self.expected, *other))
    }

    /// A TLS context whose handshakes fail with any other certificate.
    pub(crate) fn context(&self) -> Result<SslContextBuilder, ErrorStack> {
        let mut context = SslContextBuilder::new(SslMethod::tls())?;
        let pin = self.clone();
        context.set_custom_verify_callback(SslVerifyMode::PEER, move |ssl| pin.verify(ssl));
        Ok(context)
    }

    fn verify(&self, ssl: &SslRef) -> Result<(), SslVerifyError> {
        let certificate = ssl.peer_certificate().and_then(|shown| shown.to_der().ok());
        let actual = certificate.map(|der| Fingerprint::of(&der));
        if actual == Some(self.expected) {
            return Ok(());
        }
        if let Some(actual) = actual {
            // A handshake has one certificate.
            let _ = self.other.set(actual);
        }
        Err(SslVerifyError::Invalid(SslAlert::BAD_CERTIFICATE))
    }
}
