//! Which certificates are good.

use std::net::IpAddr;

use tack_endpoint::certificate::{Fingerprint, names_address};

use crate::settings::Settings;

/// What makes a listener's certificate good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It is this one.
    Pinned(Fingerprint),
    /// An authority issued it for the host, which is checked in the handshake; addresses afterwards.
    Authorities,
    /// Nothing has to.
    Anything,
}

impl Trust {
    /// What the properties say; why they cannot be used.
    pub fn from_settings(settings: &Settings) -> Result<Self, String> {
        match &settings.fingerprint {
            Some(text) => text
                .parse()
                .map(Self::Pinned)
                .map_err(|why| format!("the property `fingerprint` cannot be read: {why}")),
            None if settings.insecure => Ok(Self::Anything),
            None => Ok(Self::Authorities),
        }
    }

    /// Checks, after the handshake and before anything is sent, what the handshake did not. `address` is the host
    /// if it was given as an IP address: TLS checks names only.
    pub fn check(self, der: Option<&[u8]>, address: Option<IpAddr>) -> Result<(), String> {
        let Some(der) = der else { return Err("there is none".to_owned()) };
        match self {
            Self::Anything => Ok(()),
            Self::Pinned(expected) => {
                let actual = Fingerprint::of(der);
                if actual == expected {
                    return Ok(());
                }
                Err(format!("its fingerprint is {actual}, not {expected}"))
            }
            Self::Authorities => match address {
                Some(address) if !names_address(der, address) => {
                    Err(format!("it is not for the address {address}"))
                }
                _ => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(names: &[&str]) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        rcgen::generate_simple_self_signed(names).unwrap().cert.der().to_vec()
    }

    #[test]
    fn a_pinned_certificate_is_the_only_one_accepted_even_where_any_would_be() {
        let (good, other) = (certificate(&["a"]), certificate(&["a"]));
        let fingerprint = Some(Fingerprint::of(&good).to_string());
        let settings = Settings { fingerprint, insecure: true, ..Settings::default() };
        let trust = Trust::from_settings(&settings).unwrap();
        assert_eq!(trust.check(Some(&good), None), Ok(()));
        assert!(trust.check(Some(&other), None).unwrap_err().contains("fingerprint"));
        assert!(trust.check(None, None).is_err());
    }

    #[test]
    fn an_address_must_be_named_by_the_certificate() {
        let address = Some(IpAddr::from([192, 0, 2, 1]));
        let check =
            |names: &[&str]| Trust::Authorities.check(Some(&certificate(names)), address);
        assert_eq!(check(&["192.0.2.1"]), Ok(()));
        assert!(check(&["192.0.2.2", "host"]).is_err());
    }
}
