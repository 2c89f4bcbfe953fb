//! What the two ends say to each other over ssh: a line of JSON each.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::ops::RangeInclusive;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

/// The version of these messages.
pub const VERSION: u32 = 2;

/// How an [`Answer`] begins: a login may print other lines before it.
const FIRST_BYTES: &str = "{\"tack_copy\":";
/// Most bytes that are read for one line, those before it included.
const MAX_BYTES: u64 = 1 << 20;
/// Longest request in a command line: Linux takes 128 KiB for the whole of one that a shell gets.
const MAX_ARGUMENT_BYTES: usize = 64 << 10;

/// What the client wants to be served.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`]
    pub tack_copy: u32,
    /// What of the files there.
    pub wanted: Wanted,
    /// The ports of which one is to be listened on; the system chooses if there are none.
    pub ports: Option<Ports>,
    /// Seconds without a connection after which nobody will come any more.
    pub patience: u64,
    /// Whether the connection is to be plain QUIC.
    pub plain: bool,
    /// Whether what earlier connections have observed of the path is used, and kept (RFC 9959).
    #[serde(default)]
    pub careful_resume: bool,
    /// The names of what is sent, if they are few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The directories, below the one to write to, from which all is deleted that the sources do not have; an empty name
    /// is that one itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<String>,
}

impl Request {
    /// It as an argument that any shell passes on as it is, unless it is longer than arguments should be. sshd lets
    /// nothing into a command's standard input until the command has been started: that costs a round trip.
    pub fn to_argument(&self) -> Option<String> {
        let argument = BASE64URL_NOPAD.encode(&serde_json::to_vec(self).ok()?);
        (argument.len() <= MAX_ARGUMENT_BYTES).then_some(argument)
    }

    /// What was made an argument.
    pub fn from_argument(argument: &str) -> Option<Self> {
        serde_json::from_slice(&BASE64URL_NOPAD.decode(argument.as_bytes()).ok()?).ok()
    }
}

/// What a client is to get at. Paths are relative to the user's home.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// It fetches these.
    Read(Vec<String>),
    /// It sends to this file or directory, which need not exist.
    Write(String),
}

/// UDP ports, the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports(u16, u16);

impl Ports {
    /// All of them.
    pub fn range(self) -> RangeInclusive<u16> {
        self.0..=self.1
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 {
            write!(f, "{}", self.0)
        } else {
            write!(f, "{}-{}", self.0, self.1)
        }
    }
}

impl FromStr for Ports {
    type Err = String;

    /// `PORT` or `FIRST-LAST`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(Self(first, last)),
            _ => Err(format!("\"{text}\" is neither a port nor a range such as 60000-60100")),
        }
    }
}

/// What the other end says to a request.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// [`VERSION`]
    pub tack_copy: u32,
    /// The program that answers.
    pub program: String,
    /// What it makes of the request.
    pub result: Result<Ready, Refusal>,
}

/// The other end listens.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The UDP port.
    pub port: u16,
    /// The address that ssh has come to, if ssh tells.
    pub address: Option<String>,
    /// SHA-256 of its certificate, hexadecimal.
    pub fingerprint: String,
    /// The access token.
    pub token: String,
    /// What is wanted, as paths of this server.
    pub paths: Vec<String>,
    /// Whether the path to write to is a directory.
    pub is_directory: bool,
    /// Whether there is nothing yet of what is sent.
    pub has_nothing: bool,
    /// A TLS session, in Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Unlike a derived one, it shows neither the token nor the session.
impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("port", &self.port).finish_non_exhaustive()
    }
}

/// The other end cannot do it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why, for people.
    pub text: String,
    /// The exit code of the command.
    pub exit: u8,
}

impl Answer {
    /// One to a request of this version.
    pub fn new(result: Result<Ready, Refusal>) -> Self {
        let program = concat!("tack ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { tack_copy: VERSION, program, result }
    }
}

/// Reads a line that holds a message; passes over others, which a login may print. `None` if there is
/// none. So much else that there can't be one is an error.
pub fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut input = input.take(MAX_BYTES);
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            return match input.limit() {
                0 => Err(io::ErrorKind::InvalidData.into()),
                _ => Ok(None),
            };
        }
        if let Ok(text) = String::from_utf8(line)
            && text.starts_with(FIRST_BYTES)
        {
            return Ok(Some(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_behind_what_a_login_prints() {
        let ready = Ready {
            port: 1,
            address: None,
            fingerprint: "f".to_owned(),
            token: "secret".to_owned(),
            paths: vec!["a".to_owned()],
            is_directory: false,
            has_nothing: false,
            session: None,
        };
        let answer = Answer::new(Ok(ready));
        let json = serde_json::to_string(&answer).unwrap();
        let text = format!("Welcome!\n\n{{\"other\":1}}\n{json}\nmore");
        let line = read_line(&mut text.as_bytes()).unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&line).unwrap(), answer);
        assert_eq!(read_line(&mut &b"Welcome!\n"[..]).unwrap(), None);
        assert!(!format!("{answer:?}").contains("secret"));
    }

    #[test]
    fn no_more_is_read_than_a_login_may_print() {
        for byte in [b'x', b'\n'] {
            assert!(read_line(&mut io::BufReader::new(io::repeat(byte))).is_err());
        }
    }

    #[test]
    fn a_request_is_an_argument_for_any_shell_unless_it_is_long() {
        let of = |path: String| Request {
            tack_copy: VERSION,
            wanted: Wanted::Read(vec![path]),
            ports: Some(Ports(1, 2)),
            patience: 3,
            plain: true,
            careful_resume: true,
            mirrors: Vec::new(),
            names: vec!["name".to_owned()],
        };
        let request = of("-it's a \"path\"; with $all `that` *!\n".to_owned());
        let argument = request.to_argument().unwrap();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        assert!(argument.starts_with('e') && argument.chars().all(is_plain), "{argument}");
        assert_eq!(Request::from_argument(&argument), Some(request));
        assert_eq!(of("x".repeat(64 << 10)).to_argument(), None);
        for wrong in ["", "e", "e30", "{}"] {
            assert_eq!(Request::from_argument(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!("5".parse::<Ports>().unwrap().range(), 5..=5);
        assert_eq!("5-7".parse::<Ports>().unwrap().range(), 5..=7);
        assert_eq!("5-7".parse::<Ports>().unwrap().to_string(), "5-7");
        for text in ["", "0", "7-5", "x", "1-", "1-65536"] {
            assert!(text.parse::<Ports>().is_err(), "{text}");
        }
    }
}
