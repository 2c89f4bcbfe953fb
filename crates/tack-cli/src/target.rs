//! Servers and paths on them, as users write them: `HOST[:PORT][/PATH]` or `HOST:PATH`. An address is `HOST[:PORT]`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use tack_transfer::{DEFAULT_PORT, ServerAddress, WirePath};

/// A path on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    server: ServerAddress,
    path: WirePath,
    /// Did the path end with a slash?
    directory: bool,
}

impl Target {
    /// Host and port.
    pub fn server(&self) -> &ServerAddress {
        &self.server
    }

    /// The path on the server.
    pub fn path(&self) -> &WirePath {
        &self.path
    }

    /// Does the path name a directory by its form: by a slash at the end, or by being empty?
    pub fn is_directory(&self) -> bool {
        self.directory || self.path.is_root()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            "expected HOST[:PORT][/PATH], for example host.example:4433/dir/file, or HOST:PATH";
        Self::parse(text, form).map(|(target, _port)| target)
    }
}

impl Target {
    /// A target, and the port if the text has one; `form` is what an error says is expected.
    fn parse(text: &str, form: &str) -> Result<(Self, Option<u16>), String> {
        let (host, rest) =
            split_host(text).ok_or(format!("\"{text}\" names no host; {form}"))?;
        let (port, path) = match rest.split_at_checked(1) {
            Some((":", rest)) => {
                let (word, path) = rest.split_once('/').unwrap_or((rest, ""));
                if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
                    let port = word.parse().ok().filter(|port| *port > 0);
                    (Some(port.ok_or(format!("\"{word}\" is not a port; {form}"))?), path)
                } else {
                    (None, rest)
                }
            }
            Some((_, path)) => (None, path),
            None => (None, ""),
        };
        let server = ServerAddress::new(host, port.unwrap_or(DEFAULT_PORT));
        if let Some(IpAddr::V6(address)) = server.ip()
            && address.is_unicast_link_local()
            && !host.contains('%')
        {
            return Err(format!(
                "{address} is an address of one link; name this machine's interface to it, as in [{address}%eth0]"
            ));
        }
        let directory = path.ends_with('/');
        let path = WirePath::new(path.trim_matches('/')).map_err(|e| e.to_string())?;
        Ok((Self { server, path, directory }, port))
    }
}

/// Where a server is, or who it is, as users write that: `HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Without brackets.
    host: String,
    port: Option<u16>,
}

impl Address {
    /// The address in the place of the one that `named` has; without a port of its own it takes that one's.
    pub fn for_server(&self, named: &ServerAddress) -> ServerAddress {
        ServerAddress::new(self.host.clone(), self.port.unwrap_or(named.port()))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "expected HOST[:PORT], for example host.example:4433";
        let (target, port) = Target::parse(text, form)?;
        // It would be ignored: what is transferred is named elsewhere.
        if !target.path.is_root() {
            return Err(format!("\"{text}\" names a path ({}); {form}", target.path.as_str()));
        }
        Ok(Self { host: target.server.host().to_owned(), port })
    }
}

/// The host that `text` begins with, without brackets, and what is behind it: nothing, or something that
/// begins with a colon or a slash.
fn split_host(text: &str) -> Option<(&str, &str)> {
    if let Some(inner) = text.strip_prefix('[') {
        let (host, rest) = inner.split_once(']')?;
        let is_followed_well = rest.is_empty() || rest.starts_with([':', '/']);
        return (is_followed_well && is_v6(host)).then_some((host, rest));
    }
    let (host, rest) = text.split_at(text.find([':', '/']).unwrap_or(text.len()));
    // More colons before the first slash: an IPv6 address without its brackets.
    let authority = rest.split('/').next().unwrap_or_default();
    let is_host = !host.is_empty() && !host.contains(['[', ']']);
    (is_host && authority.matches(':').count() < 2).then_some((host, rest))
}

fn is_v6(host: &str) -> bool {
    matches!(ServerAddress::new(host, DEFAULT_PORT).ip(), Some(IpAddr::V6(_)))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_addresses_and_paths_are_told_apart() {
        for (text, host, port, path) in [
            ("host:1", "host", 1, ""),
            ("host:1/", "host", 1, ""),
            ("10.0.0.1:4433/a/b c/", "10.0.0.1", 4433, "a/b c"),
            ("host", "host", 4433, ""),
            ("host/a", "host", 4433, "a"),
            ("host:", "host", 4433, ""),
            ("host:a/b", "host", 4433, "a/b"),
            ("host:/a/1", "host", 4433, "a/1"),
            ("host:1a", "host", 4433, "1a"),
            ("host:1/2", "host", 1, "2"),
            ("host/1", "host", 4433, "1"),
            ("[::1]:5/x", "::1", 5, "x"),
            ("[::1]", "::1", 4433, ""),
            ("[fe80::1%eth0]:5", "fe80::1%eth0", 5, ""),
        ] {
            let parsed = target(text);
            let server = parsed.server();
            assert_eq!((server.host(), server.port()), (host, port), "{text}");
            assert_eq!(parsed.path().as_str(), path, "{text}");
        }
        for text in ["host:1", "host:1/", "h:1/a/", "h:a/"] {
            assert!(target(text).is_directory(), "{text}");
        }
        assert!(!target("h:1/a").is_directory());
    }

    #[test]
    fn addresses_are_known_and_shown_in_brackets() {
        assert_eq!(target("[::1]:4433/x").server().ip(), Some("::1".parse().unwrap()));
        assert_eq!(target("[::1]:4433/x").to_string(), "[::1]:4433");
        assert_eq!(target("[fe80::1%lo]:1").server().ip(), Some("fe80::1".parse().unwrap()));
        assert_eq!(target("host:1").server().ip(), None);
        assert_eq!(target("host").to_string(), "host:4433");
    }

    #[test]
    fn an_address_takes_the_port_that_it_lacks_from_the_server_and_has_no_path() {
        let named = ServerAddress::new("nas", 7);
        for (text, expected) in [
            ("192.0.2.7", "192.0.2.7:7"),
            ("192.0.2.7:4433", "192.0.2.7:4433"),
            ("host:", "host:7"),
            ("[::1]", "[::1]:7"),
            ("[::1]:5", "[::1]:5"),
            ("[fe80::1%lo]", "[fe80::1%lo]:7"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.for_server(&named).to_string(), expected, "{text}");
        }
        for text in ["127.0.0.1:45037/foo", "127.0.0.1/foo/", "host:foo", "host:44x3"] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("names a path"), "{text}: {error}");
            assert!(error.contains("expected HOST[:PORT],"), "{text}: {error}");
        }
        for text in ["", "::1:5", "host:0", "[fe80::1]:5", "host/../x"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_of_a_link_is_resolved_with_its_interface() {
        let addresses = target("[fe80::1%lo]:7").server().resolve().unwrap();
        let [SocketAddr::V6(address)] = addresses[..] else { panic!("{addresses:?}") };
        assert_ne!(address.scope_id(), 0);
        assert!(target("[fe80::1%nosuch0]:7").server().resolve().is_err());
    }

    #[test]
    fn an_address_of_a_link_takes_its_interface() {
        let error = "[fe80::1]:7/x".parse::<Target>().unwrap_err();
        assert!(error.contains("[fe80::1%eth0]"), "{error}");
    }

    #[test]
    fn what_is_not_a_target_is_refused_with_the_expected_form() {
        for text in [
            "",
            ":1",
            "/a",
            "::1:4433",
            "[host]:1",
            "[::1",
            "[::1]x",
            "[fe80::1%]",
            "host:70000",
            "h:0",
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains("HOST[:PORT]"), "{text}: {error}");
        }
        assert!("host:1/../x".parse::<Target>().is_err());
    }
}
