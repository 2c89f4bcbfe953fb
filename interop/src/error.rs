//! What can go wrong besides a cell.

use std::io;
use std::path::PathBuf;

use crate::{cases, peers};

/// Why nothing, or no report, came of a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A peer of that name is not known.
    #[error("unknown peer {0:?}; known are {known}", known = peers::names().join(", "))]
    UnknownPeer(String),
    /// A test case of that name is not known.
    #[error(
        "unknown test case {0:?}; known are {known}",
        known = cases::names().join(", ")
    )]
    UnknownTest(String),
    /// A number of jobs that makes no sense.
    #[error("--jobs must be at least 1")]
    NoJobs,
    /// A file or directory.
    #[error("{path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A link could not be made.
    #[error("the emulated link: {0}")]
    Link(String),
    /// The certificate for the servers could not be made.
    #[error("no certificate for the servers: {0}")]
    Certificate(String),
}

impl Error {
    /// What the process reports: 2 for wrong usage, 1 for anything else.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownPeer(_) | Self::UnknownTest(_) | Self::NoJobs => 2,
            _ => 1,
        }
    }

    /// Says which file it was.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
