//! Servers and paths on them, as users write them: `HOST:PORT[/PATH]`.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::error::Error;
use crate::transfer::WirePath;

/// A path on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
    path: WirePath,
    /// Did the path end with a slash?
    directory: bool,
}

impl Target {
    /// Name or address of the host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host's address, if it was given as one.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The path on the server.
    pub fn path(&self) -> &WirePath {
        &self.path
    }

    /// Does the path name a directory by its form: by a slash at the end, or by being empty?
    pub fn is_directory(&self) -> bool {
        self.directory || self.path.is_root()
    }

    /// The addresses to try, in the system's order.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, Error> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        addresses
            .map(Iterator::collect)
            .map_err(|e| Error::Resolve { target: self.to_string(), reason: e.to_string() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        let form = "expected HOST:PORT[/PATH], for example host.example:4433/dir/file";
        let (host, port) = authority.rsplit_once(':').ok_or(form)?;
        let port = port.parse().map_err(|_| format!("\"{port}\" is not a port; {form}"))?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
            None if !host.is_empty() && !host.contains([':', '[', ']']) => host,
            _ => return Err(format!("\"{host}\" is not a host; {form}")),
        };
        let directory = path.ends_with('/');
        let path = WirePath::new(path.trim_end_matches('/')).map_err(|e| e.to_string())?;
        Ok(Self { host: host.to_owned(), port, path, directory })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_addresses_and_paths_are_told_apart() {
        let plain = target("host:1");
        assert_eq!((plain.host(), plain.port, plain.path().as_str()), ("host", 1, ""));
        assert!(plain.is_directory() && target("host:1/").is_directory());
        let deep = target("10.0.0.1:4433/a/b c/");
        assert_eq!(deep.path().as_str(), "a/b c");
        assert!(deep.is_directory() && !target("h:1/a").is_directory());
        let v6 = target("[::1]:4433/x");
        assert_eq!(v6.address(), Some("::1".parse().unwrap()));
        assert_eq!(v6.to_string(), "[::1]:4433");
    }

    #[test]
    fn what_is_not_a_target_is_refused_with_the_expected_form() {
        for text in ["host", "host:", ":1", "host:x/y", "::1:4433", "[host]:1", "host:70000"] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
        assert!("host:1/../x".parse::<Target>().is_err());
    }
}
