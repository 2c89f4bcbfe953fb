//! Errors that end a command without a verdict.

use std::io;
use std::path::PathBuf;

/// The reason why a command ends without a report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no peer of that name.
    #[error("unknown peer {name:?}; known are {}", known.join(", "))]
    UnknownPeer {
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// There is no test case of that name.
    #[error("unknown test case {name:?}; known are {}", known.join(", "))]
    UnknownTest {
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// The command line names peers and roles that do not go together.
    #[error("no cell: none of the peers plays that role")]
    NoCells,
    /// SIGINT or SIGTERM.
    #[error("the run was interrupted")]
    Interrupted,
    /// Signals could not be waited for.
    #[error("waiting for signals: {0}")]
    Signals(io::Error),
    /// `--jobs 0`.
    #[error("--jobs must be at least 1")]
    NoJobs,
    /// A file or directory could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
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
    /// The exit code of the process: 2 for wrong usage, 1 for anything else.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownPeer { .. }
            | Self::UnknownTest { .. }
            | Self::NoCells
            | Self::NoJobs => 2,
            _ => 1,
        }
    }

    /// Returns a function that adds the path to an I/O error.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
