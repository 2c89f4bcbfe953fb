//! Which certificates are good.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use boring::x509::X509;
use data_encoding::HEXLOWER_PERMISSIVE;

use crate::settings::Settings;

/// SHA-256 of a certificate in DER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub fn of(der: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, der).as_ref());
        Self(bytes)
    }

    /// The fingerprint of the first certificate of a PEM file's content; `None` if it holds no certificate.
    pub fn of_pem(pem: &[u8]) -> Option<Self> {
        let der = X509::from_pem(pem).and_then(|certificate| certificate.to_der());
        der.ok().map(|der| Self::of(&der))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    /// Takes 64 hexadecimal digits, with or without colons.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits: String = text.chars().filter(|c| *c != ':').collect();
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|e| e.to_string())?;
        let len = bytes.len();
        let bytes = bytes.try_into().map_err(|_| {
            format!("a SHA-256 fingerprint has 64 hexadecimal digits, not {}", 2 * len)
        })?;
        Ok(Self(bytes))
    }
}

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

fn names_address(der: &[u8], address: IpAddr) -> bool {
    let bytes = match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let names =
        X509::from_der(der).ok().and_then(|certificate| certificate.subject_alt_names());
    names.is_some_and(|names| {
        names.iter().any(|name| name.ipaddress() == Some(bytes.as_slice()))
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
    fn a_fingerprint_is_read_as_openssl_writes_it_and_without_colons() {
        let fingerprint = Fingerprint::of(b"certificate");
        let plain = fingerprint.to_string();
        assert_eq!(plain.parse(), Ok(fingerprint));
        let digits: Vec<char> = plain.to_uppercase().chars().collect();
        let pairs: Vec<String> = digits.chunks(2).map(|pair| pair.iter().collect()).collect();
        assert_eq!(pairs.join(":").parse(), Ok(fingerprint));
        for wrong in ["", "00", &plain[1..], &plain.replace(&plain[..1], "g")] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
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
