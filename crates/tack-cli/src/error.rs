//! Errors that end a command.

use std::path::PathBuf;

use tack_transfer::quic::VERSIONS;
use tack_transfer::{FailCode, Feature, Fingerprint, TransferError, printable};

use crate::exit::Exit;

/// Why a command failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Nobody answers.
    #[error(
        "no answer from {target} within {seconds} s; check the address, that tack serve runs \
         there, and that UDP is let through, in packets of 1,228 bytes"
    )]
    NoAnswer {
        /// As given by the user.
        target: String,
        /// How long it was tried.
        seconds: u64,
    },
    /// The host answers that the port is closed.
    #[error("{target} is a closed port; check that tack serve runs there, and on which port")]
    Refused {
        /// As given by the user.
        target: String,
    },
    /// The other end runs, but UDP does not get there.
    #[error(
        "{outcome} from {target} over UDP, though ssh gets there: a firewall is in the way, most likely; \
         let a port through, and name it with --udp-port"
    )]
    NoUdp {
        /// Host and port.
        target: String,
        /// What came instead of an answer.
        outcome: String,
    },
    /// ssh did not start the other end.
    #[error("{0}")]
    Ssh(String),
    /// The other end, started by ssh, cannot do what is wanted.
    #[error("{text}")]
    OtherEnd {
        /// What it says.
        text: String,
        /// The exit code for that.
        exit: Exit,
    },
    /// Sharing was ended before somebody had everything.
    #[error("nobody has received everything")]
    Unreceived,
    /// The server has a directory where a file was asked for.
    #[error("{0} is a directory; pass -r to fetch it with everything in it")]
    Directory(String),
    /// The host is unknown.
    #[error("{target}: {reason}")]
    Resolve {
        /// As given by the user.
        target: String,
        /// What the system says.
        reason: String,
    },
    /// The connection ended before the work was done.
    #[error("lost the connection to {target} ({reason}); run the same command again to resume")]
    ConnectionLost {
        /// As given by the user.
        target: String,
        /// What ended it.
        reason: String,
        /// Whether connecting again may help.
        may_pass: bool,
    },
    /// A signal ended the command.
    #[error("interrupted; run the same command again to resume")]
    Interrupted,
    /// The connection ended before all had gone through a pipe.
    #[error(
        "lost the connection to {target} ({reason}); what goes through a pipe can't be resumed, so begin again with \
         all of it"
    )]
    StreamLost {
        /// As given by the user.
        target: String,
        /// What ended it.
        reason: String,
    },
    /// A signal ended the command before all had gone through a pipe.
    #[error(
        "interrupted; what goes through a pipe can't be resumed, so begin again with all of it"
    )]
    StreamInterrupted,
    /// A signal ended a listing.
    #[error("interrupted; the listing is not complete")]
    ListingInterrupted,
    /// The connection ended before everything was listed.
    #[error("lost the connection to {target} ({reason}); the listing is not complete")]
    ListingLost {
        /// As given by the user.
        target: String,
        /// What ended it.
        reason: String,
    },
    /// The peer speaks another protocol.
    #[error(
        "{0} speaks none of versions {first} to {last} of tack's file transfer protocol, as this \
         program does; use the same version of tack at both ends",
        first = VERSIONS.start(),
        last = VERSIONS.end()
    )]
    NotTack(String),
    /// The peer speaks an earlier version, in which something can't be asked for.
    #[error(
        "{target} runs an earlier version of tack, which does not know {option}; leave it out, or \
         use the same version at both ends"
    )]
    TooOld {
        /// As given by the user.
        target: String,
        /// What it does not know, as on the command line.
        option: &'static str,
    },
    /// The certificate is not the expected one.
    #[error(
        "the server's certificate has the fingerprint\n  {actual}\nbut the expected one is\n  \
         {expected}\nEither the server has a new certificate (ask its owner) or somebody is in \
         between. The access token was not sent"
    )]
    WrongFingerprint {
        /// As pinned by the user.
        expected: String,
        /// As presented by the server.
        actual: String,
    },
    /// The certificate is not the one that the server had before.
    #[error(
        "the server's certificate has the fingerprint\n  {actual}\nbut it was\n  {expected}\nwhen you \
         trusted it. Either the server has a new certificate (ask its owner, and remove {place}) or \
         somebody is in between. The access token was not sent"
    )]
    ChangedCertificate {
        /// File and line that know the server.
        place: String,
        /// As it was.
        expected: String,
        /// As presented by the server.
        actual: String,
    },
    /// The server has signed its certificate itself, and is not known.
    #[error(
        "the server is not known; its certificate has the fingerprint {0}. Pass that with \
         --fingerprint if tack serve has printed it there. The access token was not sent"
    )]
    UnknownHost(Fingerprint),
    /// The certificate was not issued by a trusted authority for this host.
    #[error(
        "the server's certificate is not trusted ({0}); pass --fingerprint with what tack serve \
         printed, or --ca with the authority's certificate; on a terminal, tack asks whether to trust a \
         server. The access token was not sent"
    )]
    Untrusted(String),
    /// The token is missing or wrong.
    #[error(
        "the server refused the access token; pass the one that tack serve printed with --token, \
         --token-file or the variable TACK_TOKEN"
    )]
    WrongToken,
    /// The server does not take more connections, or does not look at tokens.
    #[error(
        "the server has too many connections, or others from this address have said wrong access tokens; \
         try again later"
    )]
    ServerBusy,
    /// Something else is where a directory is to be.
    #[error("{}: is no directory, and one is fetched; name another place, or remove what is there", .0.display())]
    InTheWay(PathBuf),
    /// A file of this machine can't be used.
    #[error("{}: {cause}{}", .path.display(), advice(.cause))]
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
    /// A transfer failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Some files were not transferred; each has been reported.
    #[error("not everything was transferred: {count} failed, see above")]
    Incomplete {
        /// How many.
        count: u64,
        /// The highest exit code of the failures.
        exit: Exit,
    },
    /// Some entries could not be listed; each has been reported.
    #[error("not everything was listed: {count} failed, see above")]
    Unlisted {
        /// How many.
        count: u64,
        /// The exit code.
        exit: Exit,
    },
    /// The certificate could not be made.
    #[error("making a certificate failed: {0}")]
    Certificate(String),
    /// The socket can't be used.
    #[error("{0}")]
    Endpoint(tack_endpoint::Error),
    /// quiche refuses a configuration.
    #[error("QUIC: {0}")]
    Quic(quiche::Error),
    /// Anything else that the library reports.
    #[error(transparent)]
    Other(tack_transfer::Error),
}

/// With what the user of a command line can do about it.
impl From<tack_transfer::Error> for Error {
    fn from(error: tack_transfer::Error) -> Self {
        use tack_transfer::Error as Cause;
        match error {
            Cause::Invalid(text) => Self::Usage(text),
            Cause::NoAnswer { server, seconds } => Self::NoAnswer { target: server, seconds },
            Cause::Refused { server } => Self::Refused { target: server },
            Cause::Resolve { server, reason } => Self::Resolve { target: server, reason },
            Cause::ConnectionLost { server, reason, may_pass } => {
                Self::ConnectionLost { target: server, reason, may_pass }
            }
            Cause::Interrupted => Self::Interrupted,
            Cause::NotTack(server) => Self::NotTack(server),
            Cause::TooOld { server, feature } => {
                Self::TooOld { target: server, option: option_of(feature) }
            }
            Cause::WrongFingerprint { expected, actual } => Self::WrongFingerprint {
                expected: expected.to_string(),
                actual: actual.to_string(),
            },
            Cause::UnknownServer(fingerprint) => Self::UnknownHost(fingerprint),
            Cause::Untrusted(reason) => Self::Untrusted(reason),
            Cause::WrongToken => Self::WrongToken,
            Cause::ServerBusy => Self::ServerBusy,
            Cause::Local { path, cause } => Self::Local { path, cause },
            Cause::Thread(cause) => Self::Thread(cause),
            Cause::Output(cause) => Self::local("standard output")(cause),
            Cause::Directory(path) => Self::Directory(printable(path.as_str())),
            Cause::Transfer(error) => Self::Transfer(error),
            Cause::Incomplete(summary) => {
                let codes = summary.failures.iter().map(|failure| exit_of(&failure.error));
                let exit = codes.max().unwrap_or(Exit::Internal);
                Self::Incomplete { count: summary.failed, exit }
            }
            Cause::Certificate(reason) => Self::Certificate(reason),
            Cause::Endpoint(error) => Self::Endpoint(error),
            Cause::Quic(error) => Self::Quic(error),
            other => Self::Other(other),
        }
    }
}

/// What to do about an error of the system.
fn advice(cause: &std::io::Error) -> &'static str {
    match cause.kind() {
        std::io::ErrorKind::PermissionDenied => "; check the permissions there",
        _ => "",
    }
}

/// The option that asks for something.
fn option_of(feature: Feature) -> &'static str {
    match feature {
        Feature::Preserve => "--preserve",
        Feature::Owner => "--owner",
        Feature::Xattrs => "--xattrs",
        Feature::Delete => "--delete",
        Feature::Update => "--update",
        Feature::IgnoreExisting => "--ignore-existing",
        Feature::Backup => "--backup",
        Feature::Backslashes => "names with a backslash",
        Feature::UnknownSize => "- for standard input",
        _ => "what is asked for",
    }
}

impl Error {
    /// An error of using the file or directory at `path`.
    pub fn local(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |cause| Self::Local { path, cause }
    }

    /// Whether trying again may help: the server does not answer now, or the connection was cut.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoAnswer { .. }
            | Self::Refused { .. }
            | Self::NoUdp { .. }
            | Self::Ssh(_)
            | Self::Resolve { .. }
            | Self::ServerBusy
            | Self::Endpoint(_) => true,
            Self::ConnectionLost { may_pass, .. } => *may_pass,
            _ => false,
        }
    }

    /// The same where what was moved can't be resumed.
    #[must_use]
    pub fn of_stream(self) -> Self {
        match self {
            Self::ConnectionLost { target, reason, .. } => Self::StreamLost { target, reason },
            Self::Interrupted => Self::StreamInterrupted,
            other => other,
        }
    }

    /// What has happened, without advice.
    pub fn reason(&self) -> String {
        match self {
            Self::ConnectionLost { target, reason, .. } => {
                format!("lost the connection to {target} ({reason})")
            }
            other => other.to_string(),
        }
    }

    /// The exit code for this error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Directory(_) => Exit::Usage,
            Self::NoAnswer { .. }
            | Self::Refused { .. }
            | Self::NoUdp { .. }
            | Self::Ssh(_)
            | Self::Resolve { .. }
            | Self::ConnectionLost { .. }
            | Self::StreamLost { .. }
            | Self::ListingLost { .. }
            | Self::NotTack(_)
            | Self::TooOld { .. }
            | Self::ServerBusy
            | Self::Endpoint(_) => Exit::Connection,
            Self::WrongFingerprint { .. }
            | Self::ChangedCertificate { .. }
            | Self::UnknownHost(_)
            | Self::Untrusted(_)
            | Self::WrongToken => Exit::Refused,
            Self::Interrupted
            | Self::StreamInterrupted
            | Self::ListingInterrupted
            | Self::Unreceived => Exit::Interrupted,
            Self::Local { .. } | Self::InTheWay(_) | Self::Thread(_) => Exit::LocalIo,
            Self::Transfer(e) => exit_of(e),
            Self::OtherEnd { exit, .. }
            | Self::Incomplete { exit, .. }
            | Self::Unlisted { exit, .. } => *exit,
            Self::Certificate(_) | Self::Quic(_) | Self::Other(_) => Exit::Internal,
        }
    }
}

/// The exit code for a failed transfer.
pub fn exit_of(error: &TransferError) -> Exit {
    match error {
        TransferError::Remote(fail) => match fail.code {
            FailCode::Refused => Exit::Refused,
            FailCode::Verification => Exit::Verification,
            _ => Exit::Remote,
        },
        TransferError::Local { .. }
        | TransferError::Root(_)
        | TransferError::SourceChanged(_)
        | TransferError::Name(_)
        | TransferError::TooManyNames(_)
        | TransferError::Skipped(_)
        | TransferError::BasisChanged
        | TransferError::Busy => Exit::LocalIo,
        TransferError::ReadOnly | TransferError::NoLinks | TransferError::WrongToken => {
            Exit::Refused
        }
        TransferError::Verification => Exit::Verification,
        TransferError::Protocol(_) | TransferError::Wire(_) => Exit::Remote,
        TransferError::Disconnected => Exit::Connection,
        TransferError::Shared(error) => exit_of(error),
        _ => Exit::Internal,
    }
}
