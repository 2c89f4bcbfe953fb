//! How a client knows that it talks to the right server.

use std::net::IpAddr;
use std::path::PathBuf;

use boring::x509::X509;
use tack_endpoint::certificate::{Fingerprint, names_address};

use crate::error::Error;
use crate::pin::Pin;
use crate::protocol::Digest;
use crate::quic::Verify;
use crate::server_address::ServerAddress;
use crate::tls_sessions::Owner;

/// What makes a server's certificate good.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Trust {
    /// It is this one.
    Pinned(Fingerprint),
    /// A certificate authority of the system, or of this PEM file, issued it for the host.
    Authorities(Option<PathBuf>),
    /// Nothing does. [`Error::UnknownServer`] tells the fingerprint of one that the server has signed itself, so
    /// that a user can be asked about it.
    Asked,
    /// Anything goes: whoever answers gets the token.
    Anything,
}

impl Trust {
    /// What is left to the handshake.
    pub(super) fn verify(&self) -> Verify<'_> {
        match self {
            Self::Pinned(_) | Self::Asked | Self::Anything => Verify::Later,
            Self::Authorities(file) => Verify::Authorities(file.as_deref()),
        }
    }

    /// The pinned certificate, if there is one.
    pub(super) fn pin(&self) -> Option<Pin> {
        match self {
            Self::Pinned(expected) => Some(Pin::new(*expected)),
            _ => None,
        }
    }

    /// Whose sessions may be resumed with a `server`, if any: all that [`check`](Self::check) would look at has to be
    /// part of it, or be checked within the handshake.
    pub(super) fn session_owner(&self, server: &ServerAddress) -> Option<Owner> {
        let reason = match self {
            Self::Pinned(fingerprint) => format!("pinned {fingerprint}"),
            Self::Authorities(file) if server.ip().is_none() => {
                let file = file.as_ref().map_or(Some(""), |file| file.to_str())?;
                format!("authorities {file}")
            }
            Self::Authorities(_) | Self::Asked | Self::Anything => return None,
        };
        Some(Digest::of(format!("{server} {reason}").as_bytes()))
    }

    /// Checks, after the handshake and before anything is sent, what the handshake did not.
    /// `address` is the host if it was given as an IP address: TLS checks names only.
    pub(super) fn check(
        &self,
        der: Option<&[u8]>,
        address: Option<IpAddr>,
    ) -> Result<(), Error> {
        let Some(der) = der else {
            return Err(Error::Untrusted("there is none".to_owned()));
        };
        match self {
            Self::Anything => Ok(()),
            Self::Pinned(expected) => {
                let actual = Fingerprint::of(der);
                if actual == *expected {
                    return Ok(());
                }
                Err(Error::WrongFingerprint { expected: *expected, actual })
            }
            Self::Asked if is_self_signed(der) => {
                Err(Error::UnknownServer(Fingerprint::of(der)))
            }
            Self::Asked => Err(Error::Untrusted("no known authority has issued it".to_owned())),
            Self::Authorities(_) => match address {
                Some(address) if !names_address(der, address) => {
                    Err(Error::Untrusted(format!("it is not for the address {address}")))
                }
                _ => Ok(()),
            },
        }
    }
}

/// Whether issuer and subject of a certificate are the same, and its own key verifies it.
fn is_self_signed(der: &[u8]) -> bool {
    X509::from_der(der).is_ok_and(|certificate| {
        let is_own = certificate.issuer_name().try_cmp(certificate.subject_name());
        let key = certificate.public_key();
        is_own.is_ok_and(std::cmp::Ordering::is_eq)
            && key.is_ok_and(|key| certificate.verify(&key).unwrap_or(false))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(names: &[&str]) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        rcgen::generate_simple_self_signed(names).unwrap().cert.der().to_vec()
    }

    #[test]
    fn the_user_is_asked_about_certificates_that_a_server_signs_itself_and_no_others() {
        let own = certificate(&["a"]);
        let error = Trust::Asked.check(Some(&own), None).unwrap_err();
        assert!(matches!(error, Error::UnknownServer(told) if told == Fingerprint::of(&own)));

        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["issuer".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = rcgen::Issuer::new(params, key);
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        let issued = params.signed_by(&key, &issuer).unwrap().der().to_vec();
        let error = Trust::Asked.check(Some(&issued), None).unwrap_err();
        assert!(matches!(error, Error::Untrusted(_)), "{error}");
    }

    #[test]
    fn a_pinned_certificate_is_the_only_one_accepted() {
        let (good, other) = (certificate(&["a"]), certificate(&["a"]));
        let trust = Trust::Pinned(Fingerprint::of(&good));
        assert!(trust.check(Some(&good), None).is_ok());
        let error = trust.check(Some(&other), None).unwrap_err();
        assert!(matches!(error, Error::WrongFingerprint { .. }));
        assert!(matches!(trust.check(None, None), Err(Error::Untrusted(_))));
    }

    #[test]
    fn sessions_belong_to_a_server_and_to_why_it_is_trusted() {
        let (host, other) = (ServerAddress::new("host", 1), ServerAddress::new("host", 2));
        let file = |name: &str| Trust::Authorities(Some(PathBuf::from(name)));
        let pinned = |text: &[u8]| Trust::Pinned(Fingerprint::of(text));
        let owners = [
            pinned(b"a").session_owner(&host),
            pinned(b"a").session_owner(&other),
            pinned(b"b").session_owner(&host),
            Trust::Authorities(None).session_owner(&host),
            file("a").session_owner(&host),
            file("b").session_owner(&host),
        ];
        for (n, owner) in owners.iter().enumerate() {
            assert!(owner.is_some() && !owners[..n].contains(owner), "{n}");
        }
        assert_eq!(pinned(b"a").session_owner(&host), owners[0]);
        // TLS checks no addresses, and nothing is known of the others.
        let address = ServerAddress::new("192.0.2.1", 1);
        assert_eq!(Trust::Authorities(None).session_owner(&address), None);
        for trust in [Trust::Asked, Trust::Anything] {
            assert_eq!(trust.session_owner(&host), None);
        }
    }

    #[test]
    fn an_address_must_be_named_by_the_certificate() {
        let trust = Trust::Authorities(None);
        let address = Some(IpAddr::from([192, 0, 2, 1]));
        assert!(trust.check(Some(&certificate(&["192.0.2.1"])), address).is_ok());
        assert!(trust.check(Some(&certificate(&["192.0.2.2", "host"])), address).is_err());
    }
}
