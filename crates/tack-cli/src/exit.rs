//! Exit codes.

/// What the process reports to whoever started it. Of several failures, whichever comes first, the highest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Everything is where it should be.
    Ok = 0,
    /// Something that should not happen.
    Internal = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// No connection, or it was lost.
    Connection = 3,
    /// Access refused, or the server is not trusted.
    Refused = 4,
    /// Reading or writing on this machine failed.
    LocalIo = 5,
    /// The other side failed.
    Remote = 6,
    /// What arrived is not what was sent.
    Verification = 7,
    /// Ended by SIGINT or SIGTERM.
    Interrupted = 8,
}

impl Exit {
    /// What an exit code of the other end means here.
    pub fn of_other_end(code: u8) -> Self {
        match code {
            code if code == Self::Usage as u8 => Self::Usage,
            code if code == Self::Connection as u8 => Self::Connection,
            code if code == Self::Refused as u8 => Self::Refused,
            _ => Self::Remote,
        }
    }
}

/// The table that `--help` shows.
pub const TABLE: &str = "\
Exit codes:
  0  everything is where it should be
  1  an error inside tack
  2  the command line makes no sense
  3  no connection, or it was lost; run get or send again to resume; a port to listen on is taken
  4  refused: wrong token, untrusted certificate, not allowed by the server
  5  reading or writing on this machine failed, for example a full disk
  6  the other side failed, for example a missing file or its disk is full
  7  what arrived is not what was sent
  8  ended by Ctrl-C or SIGTERM; run get or send again to resume
Of several things that fail, the one with the highest code counts.";

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
