//! Errors that end an operation.

use std::path::PathBuf;

use tack_endpoint::certificate::Fingerprint;

use crate::client::Summary;
use crate::protocol::{TransferError, WirePath, printable};
use crate::quic::{BACKSLASHES, VERSIONS};

/// Why an operation failed. Errors of single files are [`TransferError`]s.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting makes no sense, or a file does not hold what it should.
    #[error("{0}")]
    Invalid(String),
    /// Nobody answers.
    #[error("no answer from {server} within {seconds} s")]
    NoAnswer {
        /// Host and port.
        server: String,
        /// How long it was tried.
        seconds: u64,
    },
    /// The host answers that the port is closed.
    #[error("{server} is a closed port")]
    Refused {
        /// Host and port.
        server: String,
    },
    /// The host is unknown.
    #[error("{server}: {reason}")]
    Resolve {
        /// Host and port.
        server: String,
        /// What the system says.
        reason: String,
    },
    /// The connection ended before the work was done. The same operation over another one resumes.
    #[error("lost the connection to {server} ({reason})")]
    ConnectionLost {
        /// Host and port.
        server: String,
        /// What ended it.
        reason: String,
        /// Whether connecting again may help.
        may_pass: bool,
    },
    /// The operation was told to stop. The same one resumes.
    #[error("interrupted")]
    Interrupted,
    /// The peer speaks another protocol.
    #[error(
        "{0} speaks none of versions {first} to {last} of tack's file transfer protocol",
        first = VERSIONS.start(),
        last = VERSIONS.end()
    )]
    NotTack(String),
    /// The peer speaks an earlier version, in which something can't be asked for.
    #[error(
        "{server} speaks an earlier version of the protocol, which does not know {feature}"
    )]
    TooOld {
        /// Host and port.
        server: String,
        /// What it does not know.
        feature: Feature,
    },
    /// The certificate is not the pinned one. The access token was not sent.
    #[error("the server's certificate has the fingerprint {actual}, expected was {expected}")]
    WrongFingerprint {
        /// As pinned.
        expected: Fingerprint,
        /// As presented by the server.
        actual: Fingerprint,
    },
    /// The server has signed its certificate, which has this fingerprint, itself
    /// ([`Trust::Asked`](crate::Trust::Asked)). The access token was not sent.
    #[error("the server is not known; its certificate has the fingerprint {0}")]
    UnknownServer(Fingerprint),
    /// The certificate was not issued by a trusted authority for this host. The access token was not sent.
    #[error("the server's certificate is not trusted: {0}")]
    Untrusted(String),
    /// The access token is missing or wrong.
    #[error("the server refused the access token")]
    WrongToken,
    /// The server does not take more connections.
    #[error("the server has too many connections")]
    ServerBusy,
    /// A file of this machine can't be used.
    #[error("{}: {cause}", .path.display())]
    Local {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The system has no thread to spare.
    #[error(
        "starting a thread failed: {0}; raise the limit of processes of this user (ulimit -u)"
    )]
    Thread(std::io::Error),
    /// Whoever takes a listing has failed.
    #[error("passing on the listing failed: {0}")]
    Output(std::io::Error),
    /// The server has a directory where a file was asked for ([`Get::recursive`](crate::Get::recursive)).
    #[error("{} is a directory", printable(.0.as_str()))]
    Directory(WirePath),
    /// An exchange failed as a whole.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Some files were not transferred.
    #[error("{} of the files failed{}", .0.failed, first_of(.0))]
    Incomplete(Box<Summary>),
    /// The certificate could not be made.
    #[error("making a certificate failed: {0}")]
    Certificate(String),
    /// The socket can't be used.
    #[error("{0}")]
    Endpoint(#[from] tack_endpoint::Error),
    /// quiche refuses a configuration.
    #[error("QUIC: {0}")]
    Quic(#[from] quiche::Error),
}

/// What only a server of the current version can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// Attributes and links are kept ([`Policy::preserve`](crate::Policy::preserve)).
    Preserve,
    /// What the source no longer has is removed.
    Delete,
    /// Files that were modified later stay ([`Policy::update`](crate::Policy::update)).
    Update,
    /// Files that are there stay ([`Policy::ignore_existing`](crate::Policy::ignore_existing)).
    IgnoreExisting,
    /// What is replaced is kept ([`Policy::backup`](crate::Policy::backup)).
    Backup,
    /// A file is sent whose size is not known.
    UnknownSize,
    /// Owners are kept ([`TransferOptions::owner`](crate::TransferOptions::owner)).
    Owner,
    /// Extended attributes are kept ([`TransferOptions::xattrs`](crate::TransferOptions::xattrs)).
    Xattrs,
    /// A dry run compares the content of files
    /// ([`TransferOptions::checksum`](crate::TransferOptions::checksum)).
    Digests,
    /// Names with a backslash.
    Backslashes,
}

impl Feature {
    /// The version of the protocol that brought it.
    pub(crate) fn version(self) -> usize {
        match self {
            Self::Owner | Self::Xattrs => 4,
            Self::Digests => 6,
            Self::Backslashes => BACKSLASHES,
            _ => 3,
        }
    }
}

impl std::fmt::Display for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Preserve => "how to preserve attributes",
            Self::Delete => "how to delete what the source no longer has",
            Self::Update => "how to keep files that were modified later",
            Self::IgnoreExisting => "how to keep files that are there",
            Self::Backup => "how to keep what is replaced",
            Self::UnknownSize => "files of unknown size",
            Self::Owner => "owners",
            Self::Xattrs => "extended attributes",
            Self::Digests => "how to compare content in a dry run",
            Self::Backslashes => "names with a backslash",
        })
    }
}

impl Error {
    /// An error of using the file or directory at `path`.
    pub(crate) fn local(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |cause| Self::Local { path, cause }
    }

    /// Whether trying again may help: the server does not answer now, or the connection was cut.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoAnswer { .. }
            | Self::Refused { .. }
            | Self::Resolve { .. }
            | Self::ServerBusy
            | Self::Endpoint(_) => true,
            Self::ConnectionLost { may_pass, .. } => *may_pass,
            _ => false,
        }
    }
}

fn first_of(summary: &Summary) -> String {
    let first = summary.failures.first();
    first.map_or_else(String::new, |first| {
        format!(", the first of them {}: {}", printable(&first.path), first.error)
    })
}
