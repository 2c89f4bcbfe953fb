//! Tickets: all that it takes to receive what somebody shares, on one line that fits into a message.
//!
//! A ticket is `tack1-` and base64url (RFC 4648 section 5) of JSON. Whoever has it gets what is shared, and
//! knows the right server by its certificate.

use std::ffi::OsStr;
use std::fmt;
use std::io::{IsTerminal, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use tack_transfer::{Fingerprint, WirePath};

use crate::error::Error;
use crate::progress::print;

/// Name of the environment variable that holds a ticket. Unlike arguments, it is its user's alone to see.
pub const VARIABLE: &str = "TACK_TICKET";

const PREFIX: &str = "tack1-";

/// What a ticket says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Where the server may be reached.
    pub addresses: Vec<SocketAddr>,
    /// Of its certificate.
    pub fingerprint: Fingerprint,
    /// The access token.
    pub token: String,
    /// What is shared, as it is called there.
    pub paths: Vec<WirePath>,
}

impl Ticket {
    /// Longest ticket that is read, in bytes.
    pub const MAX_LENGTH: usize = 64 << 10;

    /// Finds the ticket in the arguments of `tack receive`, or where they leave it out, in [`VARIABLE`]. Returns it and
    /// where to put what it stands for, if that is named.
    pub fn find(
        ticket: Option<&OsStr>,
        dest: Option<&Path>,
    ) -> Result<(Self, Option<PathBuf>), Error> {
        let variable = std::env::var_os(VARIABLE);
        let is_ticket = |text: &OsStr| {
            text == "-" || text.to_str().is_some_and(|text| text.trim().starts_with(PREFIX))
        };
        let (text, dest) = match (ticket, variable, dest) {
            (Some(typed), None, dest) => (typed.to_owned(), dest),
            (Some(typed), Some(_), dest) if is_ticket(typed) => (typed.to_owned(), dest),
            (typed, Some(variable), None) => (variable, typed.map(Path::new)),
            (Some(_), Some(_), Some(_)) => {
                return Err(Error::Usage(format!(
                    "{VARIABLE} has the ticket, and two places are named; one is where everything goes"
                )));
            }
            (None, ..) => {
                return Err(Error::Usage(format!(
                    "there is no ticket; set {VARIABLE} to what tack share has printed, or pass - to read it from \
                     standard input"
                )));
            }
        };
        let ticket = if text == "-" { Self::read()? } else { Self::parse(&text)? };
        Ok((ticket, dest.map(Path::to_owned)))
    }

    /// Reads the line that is a ticket from standard input.
    fn read() -> Result<Self, Error> {
        let mut input = std::io::stdin().lock();
        if input.is_terminal() {
            print("paste the ticket, and end the line");
        }
        // No more is kept than the longest ticket.
        let bytes = input.by_ref().bytes().take(Self::MAX_LENGTH + 2);
        let line = bytes.take_while(|byte| !matches!(byte, Ok(b'\n')));
        let line: Vec<u8> =
            line.collect::<Result<_, _>>().map_err(Error::local("standard input"))?;
        Self::parse(OsStr::new(&*String::from_utf8_lossy(&line)))
    }

    fn parse(text: &OsStr) -> Result<Self, Error> {
        text.to_string_lossy().parse().map_err(Error::Usage)
    }
}

/// As it is laid out: one letter for each, since people copy it.
#[derive(Serialize, Deserialize)]
struct Layout {
    a: Vec<SocketAddr>,
    f: String,
    t: String,
    p: Vec<WirePath>,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = Layout {
            a: self.addresses.clone(),
            f: BASE64URL_NOPAD.encode(self.fingerprint.as_bytes()),
            t: self.token.clone(),
            p: self.paths.clone(),
        };
        let json = serde_json::to_vec(&layout).map_err(|_| fmt::Error)?;
        write!(f, "{PREFIX}{}", BASE64URL_NOPAD.encode(&json))
    }
}

impl FromStr for Ticket {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some(encoded) =
            text.strip_prefix(PREFIX).filter(|_| text.len() <= Self::MAX_LENGTH)
        else {
            return Err(format!("a ticket begins with {PREFIX}; tack share prints it"));
        };
        // Mail programs break long lines.
        let encoded: String = encoded.split_whitespace().collect();
        let incomplete = || "the ticket is not complete; copy all of it".to_owned();
        let json = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| incomplete())?;
        let layout: Layout = serde_json::from_slice(&json).map_err(|_| incomplete())?;
        let bytes = BASE64URL_NOPAD.decode(layout.f.as_bytes()).ok();
        let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let fingerprint = Fingerprint::from_bytes(bytes.ok_or_else(incomplete)?);
        let Layout { a: addresses, t: token, p: paths, .. } = layout;
        if addresses.is_empty() || paths.is_empty() {
            return Err(incomplete());
        }
        Ok(Self { addresses, fingerprint, token, paths })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            addresses: vec!["192.0.2.1:5".parse().unwrap(), "[2001:db8::1]:5".parse().unwrap()],
            fingerprint: Fingerprint::of(b"certificate"),
            token: "00112233445566778899aabbccddeeff00112233".to_owned(),
            paths: vec![WirePath::new("a file").unwrap(), WirePath::new("ü").unwrap()],
        }
    }

    #[test]
    fn a_ticket_survives_being_copied_and_broken_into_lines() {
        let text = ticket().to_string();
        assert_eq!(text.parse(), Ok(ticket()));
        let broken = format!(" {}\n{} \n", &text[..90], &text[90..]);
        assert_eq!(broken.parse(), Ok(ticket()));
        assert!(text.len() < 320, "{}", text.len());
    }

    #[test]
    fn what_is_no_ticket_or_not_all_of_one_is_told_apart() {
        let text = ticket().to_string();
        for part in 7..text.len() {
            let error = text[..part].parse::<Ticket>().unwrap_err();
            assert!(error.contains("copy all of it"), "{part}: {error}");
        }
        for other in ["", "host:4433", "tack2-AAAA", &"x".repeat(100)] {
            assert!(other.parse::<Ticket>().unwrap_err().contains("begins with"), "{other}");
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_make_no_ticket() {
        let json = br#"{"a":["1.2.3.4:5"],"f":"","t":"","p":["../x"]}"#;
        let text = format!("{PREFIX}{}", BASE64URL_NOPAD.encode(json));
        assert!(text.parse::<Ticket>().is_err());
    }
}
