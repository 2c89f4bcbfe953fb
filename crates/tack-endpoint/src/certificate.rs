//! Certificates of peers, where the handshake alone does not tell whether they are good.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use boring::x509::X509;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

/// SHA-256 of a certificate in DER: 32 bytes. As text 64 hexadecimal digits, read with or without colons.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate in DER.
    pub fn of(der: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, der);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }

    /// The fingerprint of the first certificate of a PEM file's content; `None` if it holds no certificate.
    pub fn of_pem(pem: &[u8]) -> Option<Self> {
        let der = X509::from_pem(pem).and_then(|certificate| certificate.to_der());
        der.ok().map(|der| Self::of(&der))
    }

    /// The fingerprint that consists of these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    /// The error says what is wrong with the text.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits: String = text.chars().filter(|c| *c != ':').collect();
        let count = digits.chars().count();
        if count != 64 {
            return Err(format!(
                "a SHA-256 fingerprint has 64 hexadecimal digits, not {count}"
            ));
        }
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|e| e.to_string())?;
        let bytes = bytes.try_into().map_err(|_| "not 32 bytes".to_owned())?;
        Ok(Self(bytes))
    }
}

/// Whether a certificate in DER is for this address. A client whose server is given as an address has to ask,
/// as TLS checks names only.
pub fn names_address(der: &[u8], address: IpAddr) -> bool {
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

    #[test]
    fn a_fingerprint_is_read_as_openssl_writes_it_and_without_colons() {
        let fingerprint = Fingerprint::of(b"certificate");
        let plain = fingerprint.to_string();
        assert_eq!(plain.parse(), Ok(fingerprint));
        let digits: Vec<char> = plain.to_uppercase().chars().collect();
        let pairs: Vec<String> = digits.chunks(2).map(|pair| pair.iter().collect()).collect();
        assert_eq!(pairs.join(":").parse(), Ok(fingerprint));
        for wrong in
            ["", "00", &plain[1..], &plain.replace(&plain[..1], "g"), &"\u{e9}".repeat(32)]
        {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_certificate_is_for_the_addresses_that_it_names() {
        let names = ["192.0.2.1", "2001:db8::1", "host"].map(str::to_owned).to_vec();
        let der = rcgen::generate_simple_self_signed(names).unwrap().cert.der().to_vec();
        for (address, is_named) in
            [("192.0.2.1", true), ("2001:db8::1", true), ("192.0.2.2", false)]
        {
            assert_eq!(names_address(&der, address.parse().unwrap()), is_named, "{address}");
        }
        assert!(!names_address(b"no certificate", IpAddr::from([192, 0, 2, 1])));
    }

    #[test]
    fn the_first_certificate_of_a_pem_file_counts() {
        let made = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap().cert;
        let pem = made.pem() + &made.pem();
        assert_eq!(Fingerprint::of_pem(pem.as_bytes()), Some(Fingerprint::of(made.der())));
        assert_eq!(Fingerprint::of_pem(b"no certificate"), None);
    }
}
