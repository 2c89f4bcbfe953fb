//! What the runner and a peer's program agree on: environment variables, one line of output, and
//! exit codes. docs/interop.md describes it for adding a peer.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// `client` or `server`.
pub const ROLE: &str = "TACK_INTEROP_ROLE";
/// The name of the test case.
pub const TEST_CASE: &str = "TACK_INTEROP_TESTCASE";
/// The application protocol, a [`Protocol`]; `hq-interop` if it is not set.
pub const PROTOCOL: &str = "TACK_INTEROP_PROTOCOL";
/// Where a server listens (with port 0 for any), and where a client connects to.
pub const ADDRESS: &str = "TACK_INTEROP_ADDRESS";
/// What a client does: `GET name` and `PUT name`, with commas between.
pub const REQUESTS: &str = "TACK_INTEROP_REQUESTS";
/// The directory of what is sent.
pub const FILES: &str = "TACK_INTEROP_FILES";
/// The directory for what is received.
pub const RECEIVED: &str = "TACK_INTEROP_RECEIVED";
/// A server's certificate, a PEM file.
pub const CERTIFICATE: &str = "TACK_INTEROP_CERTIFICATE";
/// A server's private key, a PEM file.
pub const KEY: &str = "TACK_INTEROP_KEY";
/// The file for TLS secrets, by the name that many programs know already.
pub const KEY_LOG: &str = "SSLKEYLOGFILE";
/// The directory for qlog files, by the name of the quic-interop-runner.
pub const QLOG: &str = "QLOGDIR";

/// The exit code of a program that lacks what the test case needs. Shells and dynamic loaders have
/// it too, so it counts only after [`REFUSAL`].
pub const UNSUPPORTED: u8 = 127;
/// What such a program writes before, on a line of its standard output.
pub const REFUSAL: &str = "unsupported";
/// What a server writes in front of its address, on a line of its standard output.
pub const READY: &str = "ready ";

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Connects.
    Client,
    /// Listens.
    Server,
}

impl Role {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// The name in the environment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An application protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Protocol {
    /// HTTP/0.9 on streams.
    #[serde(rename = "hq-interop")]
    Hq,
    /// HTTP/3.
    #[serde(rename = "h3")]
    H3,
}

impl Protocol {
    /// The name in the environment and for ALPN.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hq => "hq-interop",
            Self::H3 => "h3",
        }
    }

    /// The protocol of a name.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Hq, Self::H3].into_iter().find(|protocol| protocol.name() == name)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Fetch a file.
    Get,
    /// Send a file. hq-interop has no such thing: a peer whose program cannot do it exits with
    /// [`UNSUPPORTED`].
    Put,
}

impl Method {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
        }
    }
}

/// Reads `GET name` or `PUT name`; a name is that of a file, without directories.
pub fn parse_request(text: &str) -> Option<(Method, &str)> {
    let (method, name) = text.split_once(' ')?;
    let method = match method {
        "GET" => Method::Get,
        "PUT" => Method::Put,
        _ => return None,
    };
    let is_name =
        !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', ' ']);
    is_name.then_some((method, name))
}

/// The address in the output of a server, once it is ready.
pub fn ready_address(output: &str) -> Option<std::net::SocketAddr> {
    let (lines, _) = output.rsplit_once('\n')?; // the last may not be whole yet
    lines.lines().find_map(|line| line.strip_prefix(READY)?.trim().parse().ok())
}

/// Whether the output of a program says that it lacks what the test case needs.
pub fn has_refused(output: &str) -> bool {
    output.lines().any(|line| line.trim_end() == REFUSAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_files_and_nothing_else() {
        assert_eq!(parse_request("GET a.bin"), Some((Method::Get, "a.bin")));
        assert_eq!(parse_request("PUT a"), Some((Method::Put, "a")));
        for text in ["GET", "GET ", "DELETE a", "GET ../a", "GET /a", "GET a b", "get a"] {
            assert_eq!(parse_request(text), None, "{text}");
        }
    }

    #[test]
    fn only_a_line_of_its_own_refuses_a_test_case() {
        assert!(has_refused("unsupported\n") && has_refused("hello\r\nunsupported\r\nmore"));
        assert!(!has_refused("") && !has_refused("it is unsupported\nunsupported option\n"));
    }

    #[test]
    fn a_server_is_ready_once_its_whole_line_is_there() {
        assert_eq!(ready_address("hello\nready 127.0.0.1:44"), None);
        let address = "127.0.0.1:443".parse().ok();
        assert_eq!(ready_address("hello\nready 127.0.0.1:443\nmore"), address);
        assert_eq!(ready_address("ready soon\n"), None);
    }
}
