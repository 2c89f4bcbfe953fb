//! Where a server is: a host with a port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::error::Error;

/// The port that servers listen on unless told otherwise.
pub const DEFAULT_PORT: u16 = 4433;

/// Host and port of a server.
///
/// The host is a name or an address. An IPv6 address may name the interface that a link-local one belongs to
/// (RFC 4007 section 11), and has brackets where it is written together with a port.
///
/// ```
/// use tack_transfer::ServerAddress;
///
/// let server: ServerAddress = "[2001:db8::1]:4433".parse()?;
/// assert_eq!(server.host(), "2001:db8::1");
/// # Ok::<(), tack_transfer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    host: String,
    port: u16,
    /// The addresses of the host, if they need not be looked up.
    addresses: Option<Vec<SocketAddr>>,
}

impl ServerAddress {
    /// A host, without brackets, and its port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, addresses: None }
    }

    /// The same, at these addresses; nothing is looked up.
    #[must_use]
    pub fn at(mut self, addresses: Vec<SocketAddr>) -> Self {
        self.addresses = Some(addresses);
        self
    }

    /// Name or address of the host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host's address, if it was given as one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.host.split_once('%') {
            Some((address, zone)) if !zone.is_empty() => {
                address.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
            }
            Some(_) => None,
            None => self.host.parse().ok(),
        }
    }

    /// The addresses to try, in the system's order.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, Error> {
        if let Some(addresses) = &self.addresses {
            return Ok(addresses.clone());
        }
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        addresses
            .map(Iterator::collect)
            .map_err(|e| Error::Resolve { server: self.to_string(), reason: e.to_string() })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip() {
            Some(IpAddr::V6(_)) => write!(f, "[{}]:{}", self.host, self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().to_string(), address.port()).at(vec![address])
    }
}

impl FromStr for ServerAddress {
    type Err = Error;

    /// Reads `HOST[:PORT]`; without a port it is [`DEFAULT_PORT`].
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Invalid(format!("\"{text}\" is not of the form HOST[:PORT]"));
        let (host, rest) = match text.strip_prefix('[') {
            Some(inner) => inner.split_once(']').ok_or_else(wrong)?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
            None if rest.is_empty() => DEFAULT_PORT,
            None => return Err(wrong()),
        };
        let server = Self::new(host, port);
        let is_v6 = matches!(server.ip(), Some(IpAddr::V6(_)));
        if host.is_empty() || host.contains(['[', ']', '/']) || is_v6 != text.starts_with('[') {
            return Err(wrong());
        }
        Ok(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_addresses_are_read_and_shown_alike() {
        for (text, host, shown) in [
            ("host", "host", "host:4433"),
            ("host:1", "host", "host:1"),
            ("192.0.2.1:5", "192.0.2.1", "192.0.2.1:5"),
            ("[::1]", "::1", "[::1]:4433"),
            ("[fe80::1%eth0]:5", "fe80::1%eth0", "[fe80::1%eth0]:5"),
        ] {
            let server: ServerAddress = text.parse().unwrap();
            assert_eq!((server.host(), server.to_string().as_str()), (host, shown), "{text}");
        }
        for text in
            ["", ":1", "::1", "[host]:1", "[::1", "[::1]x", "host:0", "host:70000", "a/b"]
        {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn known_addresses_are_not_looked_up() {
        let address = SocketAddr::from(([192, 0, 2, 1], 9));
        let server = ServerAddress::new("no such host", 9).at(vec![address]);
        assert_eq!(server.resolve().unwrap(), [address]);
        assert_eq!(ServerAddress::from(address).to_string(), "192.0.2.1:9");
        assert!(ServerAddress::new("no such host", 9).resolve().is_err());
    }
}
