//! The server's certificate and key.
//!
//! Unless the user brings a certificate, the server makes one that it signs itself and keeps it
//! in one file, so that its fingerprint stays the same over restarts. Two servers that start at the
//! same time end up with the same identity.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use tack_endpoint::certificate::Fingerprint;

use crate::error::Error;
use crate::secret_file;

const FILE: &str = "identity.pem";
const COMMON_NAME: &str = "tack";

/// Where a certificate and its key are, and the certificate's fingerprint.
#[derive(Clone, Debug)]
pub struct Identity {
    /// PEM file with the certificate.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
    /// The certificate's SHA-256.
    pub fingerprint: Fingerprint,
}

impl Identity {
    /// Uses the user's own files.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let pem = fs::read(certificate).map_err(Error::local(certificate))?;
        let fingerprint = Fingerprint::of_pem(&pem).ok_or_else(|| {
            let path = certificate.display();
            Error::Invalid(format!("{path}: no certificate in PEM format"))
        })?;
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), fingerprint })
    }

    /// Uses the identity kept in `directory`; makes one if there is none.
    pub fn in_directory(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(FILE);
        if !path.exists() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(Error::local(directory))?;
            create(&path)?;
        }
        Self::from_files(&path, &path)
    }

    /// Whether others than its owner may read the private key.
    pub fn is_exposed(&self) -> Result<bool, Error> {
        let metadata = self.key.metadata().map_err(Error::local(&self.key))?;
        Ok(metadata.mode() & 0o077 != 0)
    }

    /// A key for stateless reset tokens that is the same as long as the private key is.
    pub(crate) fn reset_key(&self) -> Result<[u8; 32], Error> {
        let key = fs::read(&self.key).map_err(Error::local(&self.key))?;
        Ok(blake3::derive_key("tack-cli 2026 stateless reset key", &key))
    }
}

fn create(path: &Path) -> Result<(), Error> {
    let failed = |e: rcgen::Error| Error::Certificate(e.to_string());
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let mut params =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).map_err(failed)?;
    params.distinguished_name.push(rcgen::DnType::CommonName, COMMON_NAME);
    let certificate = params.self_signed(&key).map_err(failed)?;

    let pem = certificate.pem() + &key.serialize_pem();
    secret_file::write_once(path, pem.as_bytes()).map_err(Error::local(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_kept_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/b");
        let first = Identity::in_directory(&state).unwrap();
        let second = Identity::in_directory(&state).unwrap();
        assert_eq!(first.fingerprint, second.fingerprint);
        assert_eq!(first.reset_key().unwrap(), second.reset_key().unwrap());
        assert_eq!(first.key.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(state.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
        let other = Identity::in_directory(&dir.path().join("c")).unwrap();
        assert_ne!(other.fingerprint, first.fingerprint);
        assert_ne!(other.reset_key().unwrap(), first.reset_key().unwrap());
    }

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key-only.pem");
        fs::write(&file, "no certificate").unwrap();
        let error = Identity::from_files(&file, &file).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains("key-only.pem"), "{error}");
    }

    #[test]
    fn the_identity_works_as_a_server_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::in_directory(dir.path()).unwrap();
        let profile = tacklib::Profile::Off;
        crate::quic::server_config(profile, &identity.certificate, &identity.key).unwrap();
    }
}
