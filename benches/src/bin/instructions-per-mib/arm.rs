//! What is measured: who talks to whom, and whose instructions count.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tack_benches::{Course, Side, Transport};
use tacklib::Profile;

/// A comparison of plain quiche with TACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// Both ends of a transfer on a stream.
    Streams,
    /// Both ends of a transfer in the body of an HTTP/3 request.
    Http3,
    /// Both ends of replies of 10,000 bytes to requests, one after the other.
    Requests,
    /// The client of a plain server, which sends the data; the client's instructions alone.
    ClientReceives,
    /// The client of a plain server, to which it sends the data; the client's instructions alone.
    ClientSends,
}

/// What one run of an arm uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// quiche without TACK.
    Plain,
    /// TACK, at both ends or at the client's.
    Tack,
}

impl Kind {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tack => "tack",
        }
    }
}

impl Arm {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Http3 => "http3",
            Self::Requests => "requests",
            Self::ClientReceives => "client-receives",
            Self::ClientSends => "client-sends",
        }
    }

    /// The course of this arm: `path` with ends of that kind.
    pub fn course(self, kind: Kind, path: Course) -> Course {
        let client = match kind {
            Kind::Plain => Profile::Off,
            Kind::Tack => Profile::Default,
        };
        Course {
            client,
            server: if self.is_of_client() { Profile::Off } else { client },
            sender: match self {
                Self::ClientReceives | Self::Requests => Side::Server,
                Self::Streams | Self::Http3 | Self::ClientSends => Side::Client,
            },
            transport: match self {
                Self::Http3 => Transport::Http3,
                Self::Requests => Transport::Requests,
                Self::Streams | Self::ClientReceives | Self::ClientSends => Transport::Stream,
            },
            ..path
        }
    }

    /// The function from whose call to whose return callgrind counts.
    pub const fn counted_function(self) -> &'static str {
        if self.is_of_client() { "counted_client" } else { "counted_transfer" }
    }

    const fn is_of_client(self) -> bool {
        matches!(self, Self::ClientReceives | Self::ClientSends)
    }
}
