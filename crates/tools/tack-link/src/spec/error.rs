//! What is wrong with the description of a link.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::ParameterError;

/// A link that can't be described or built this way.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Neither a known name nor a file.
    #[error(
        "there is no link profile and no file `{0}`: give b, g, n, ac, pipe:RATE or pipe:DOWN/UP \
         with rates in Mbit/s, or the path of a TOML file"
    )]
    Unknown(String),
    /// The file can't be read.
    #[error("{}: {source}; give a TOML file that describes a link", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not TOML, or has fields of unknown names or wrong types.
    #[error("{origin}: {message}")]
    Syntax {
        /// The file, or what else the description comes from.
        origin: String,
        /// What is wrong in which line, and what is expected there.
        message: String,
    },
    /// A parameter of the link as a whole.
    #[error("{origin}: {source}")]
    Link {
        /// The file, or what else the description comes from.
        origin: String,
        /// The parameter.
        source: ParameterError,
    },
    /// A parameter of one hop.
    #[error("{origin}: hop {hop}: {source}")]
    Hop {
        /// The file, or what else the description comes from.
        origin: String,
        /// Which hop; the first is 1.
        hop: usize,
        /// The parameter.
        source: ParameterError,
    },
    /// A parameter of the path behind the link.
    #[error("path: {0}")]
    Path(ParameterError),
}
