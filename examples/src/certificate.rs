//! A self-signed certificate for localhost.

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A self-signed certificate and its key as PEM files, which are removed when this is dropped.
pub struct Certificate {
    directory: TempDir,
}

impl Certificate {
    /// Makes a new one for the name `localhost`.
    pub fn new() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let certificate = Self { directory: tempfile::tempdir()? };
        std::fs::write(certificate.chain()?, made.cert.pem())?;
        std::fs::write(certificate.key()?, made.signing_key.serialize_pem())?;
        Ok(certificate)
    }

    /// Path of the certificate chain.
    pub fn chain(&self) -> Result<String> {
        self.path("certificate.pem")
    }

    /// Path of the private key.
    pub fn key(&self) -> Result<String> {
        self.path("key.pem")
    }

    fn path(&self, name: &str) -> Result<String> {
        let path = self.directory.path().join(name);
        path.into_os_string()
            .into_string()
            .ok()
            .context("the temporary directory has no UTF-8 name")
    }
}
