//! What a browser needs of this program: a certificate that it takes, and pages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use data_encoding::BASE64;
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use tack_endpoint::certificate::Fingerprint;
use tempfile::TempDir;

use crate::transport::Identity;

/// Browsers take no certificate by its hash that is valid for more than fourteen days.
const VALID: Duration = Duration::from_secs(10 * 24 * 3600);
/// Clocks may differ by that.
const SKEW: Duration = Duration::from_secs(24 * 3600);
/// What the pages share.
const STYLE: &str = include_str!("style.css");
const GRAPH: &str = include_str!("graph.js");

/// A certificate for localhost that a page, or a browser's command line, can name by its hash.
#[derive(Debug)]
pub struct PageCertificate {
    chain: PathBuf,
    key: PathBuf,
    hash: Fingerprint,
    key_hash: String,
    /// Where both files are; they are removed with it.
    _directory: TempDir,
}

impl PageCertificate {
    /// Makes one.
    pub fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut params = CertificateParams::new(names)?;
        let now = SystemTime::now();
        params.not_before = (now - SKEW).into();
        params.not_after = (now + VALID).into();
        let certificate = params.self_signed(&key)?;
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name);
        let made = Self {
            chain: path("chain.pem"),
            key: path("key.pem"),
            hash: Fingerprint::of(certificate.der()),
            key_hash: BASE64.encode(Fingerprint::of(&key.subject_public_key_info()).as_bytes()),
            _directory: directory,
        };
        std::fs::write(&made.chain, certificate.pem())?;
        std::fs::write(&made.key, key.serialize_pem())?;
        Ok(made)
    }

    /// Its files.
    pub fn identity(&self) -> Identity<'_> {
        Identity { chain: &self.chain, key: &self.key }
    }

    /// SHA-256 of it.
    pub fn hash(&self) -> &Fingerprint {
        &self.hash
    }

    /// SHA-256 of its public key in Base64, as Chromium's command line takes it.
    pub fn key_hash(&self) -> &str {
        &self.key_hash
    }
}

/// Fills in what pages share.
pub fn page(template: &str) -> String {
    template.replace("__STYLE__", STYLE).replace("__GRAPH__", GRAPH.trim_end())
}

/// The address at which a browser on this machine finds a server that listens at `local`.
pub fn reachable(local: SocketAddr) -> SocketAddr {
    let ip = match local.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, local.port())
}

/// The command by which Chromium opens the page of a server of HTTP/3 whose certificate has a key of that hash.
///
/// Chromium would ask by TCP first, and only in a profile of its own does it ignore who has signed a certificate.
pub fn chromium_command(server: SocketAddr, key_hash: &str) -> String {
    // It forces no QUIC to an IPv6 address, only to a name.
    let (origin, rule) = if server.is_ipv6() {
        let rule = format!("--host-resolver-rules='MAP localhost [{}]' ", server.ip());
        (format!("localhost:{}", server.port()), rule)
    } else {
        (server.to_string(), String::new())
    };
    format!(
        "chromium --user-data-dir=\"$(mktemp -d)\" --origin-to-force-quic-on={origin} \
         --ignore-certificate-errors-spki-list={key_hash} {rule}https://{origin}/"
    )
}

/// A file name that needs no escapes, in a page or in an address.
pub fn is_plain_name(name: &Path) -> bool {
    name.to_str().is_some_and(|name| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_any_address_is_found_at_the_local_one() {
        let of = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(of("0.0.0.0:4443"), "127.0.0.1:4443");
        assert_eq!(of("[::]:4443"), "[::1]:4443");
        assert_eq!(of("192.0.2.1:4443"), "192.0.2.1:4443");
    }

    #[test]
    fn the_command_names_the_server_and_the_key() {
        let of = |server: &str| chromium_command(server.parse().unwrap(), "HASH");
        let v4 = of("127.0.0.1:4443");
        assert!(v4.contains("--origin-to-force-quic-on=127.0.0.1:4443 "), "{v4}");
        assert!(v4.contains("-spki-list=HASH https://127.0.0.1:4443/"), "{v4}");
        let v6 = of("[::1]:4443");
        assert!(v6.contains("--origin-to-force-quic-on=localhost:4443 "), "{v6}");
        assert!(v6.ends_with("'MAP localhost [::1]' https://localhost:4443/"), "{v6}");
    }
}
