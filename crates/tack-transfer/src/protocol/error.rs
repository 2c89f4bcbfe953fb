//! Why a transfer of one file failed.

use std::io;
use std::sync::Arc;

use super::wire::{Fail, FailCode, Message};
use super::{NameError, RootError, WireError};

/// A failed transfer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The peer reports a failure.
    #[error("the other side reports: {0}")]
    Remote(Fail),
    /// Reading or writing on this machine failed.
    #[error("{action} failed: {cause}{}", advice(.cause))]
    Local {
        /// What was being done.
        action: &'static str,
        /// What the system says.
        cause: io::Error,
    },
    /// A path can't be opened or created.
    #[error("{error}{advice}", error = .0, advice = advice_on_root(.0))]
    Root(#[from] RootError),
    /// A name can't cross the wire.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another transfer into the same name is running.
    #[error(
        "another transfer into the same name is running; wait for it or choose another name"
    )]
    Busy,
    /// The file kept changing while it was read.
    #[error("{0}")]
    SourceChanged(Fail),
    /// The server does not take symbolic links.
    #[error("this server takes no symbolic links")]
    NoLinks,
    /// More names than can be remembered.
    #[error("more than {0} names; transfer parts of the tree one by one")]
    TooManyNames(usize),
    /// What a source has can't be transferred, such as a name that is not UTF-8.
    #[error("skipped, {0}")]
    Skipped(String),
    /// Writing is not allowed.
    #[error("this server is read-only; it does not accept files")]
    ReadOnly,
    /// What arrived is not what was sent.
    #[error(
        "size or digest differ from the sender's; what was received is thrown away, transfer it \
         again"
    )]
    Verification,
    /// The file that is to be replaced has become shorter while parts of it were used.
    #[error(
        "the file that is to be replaced changed meanwhile; transfer it again, once nothing \
         writes to it"
    )]
    BasisChanged,
    /// The client has said a wrong access token, or none.
    #[error("wrong or missing access token")]
    WrongToken,
    /// The peer broke the protocol.
    #[error("the other side broke the protocol: {0}")]
    Protocol(String),
    /// A message could not be read or laid out.
    #[error("the other side broke the protocol: {0}")]
    Wire(#[from] WireError),
    /// What several files have failed of, such as a directory that can't be made.
    #[error(transparent)]
    Shared(Arc<TransferError>),
    /// The stream or the connection ended early.
    #[error("the connection ended before the file was complete; transfer it again to resume")]
    Disconnected,
}

impl TransferError {
    /// An error of reading a file.
    pub(crate) fn reading(cause: io::Error) -> Self {
        Self::Local { action: "reading", cause }
    }

    /// An error of writing a file.
    pub(crate) fn writing(cause: io::Error) -> Self {
        Self::Local { action: "writing", cause }
    }

    /// The thread that did the work has panicked.
    pub(crate) fn panicked() -> Self {
        let cause = io::Error::other("its thread has panicked, which is a fault of tack");
        Self::Local { action: "the transfer", cause }
    }

    /// A message that does not fit the state.
    pub(crate) fn unexpected(message: &Message) -> Self {
        let mut text = format!("{message:?}");
        text.truncate(text.find([' ', '(', '{']).unwrap_or(text.len()));
        Self::Protocol(format!("unexpected message {text}"))
    }

    /// Is a disk of this machine or the peer's full?
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Local { cause, .. } | Self::Root(RootError::Io(cause)) => is_full(cause),
            Self::Remote(fail) => fail.code == FailCode::NoSpace,
            Self::Shared(error) => error.is_disk_full(),
            _ => false,
        }
    }

    /// What to tell the peer; `None` if there is nobody to tell or the peer knows.
    pub(crate) fn to_fail(&self) -> Option<Fail> {
        let code = match self {
            Self::Remote(_) | Self::Disconnected => return None,
            Self::Local { .. } | Self::Root(RootError::Io(_)) if self.is_disk_full() => {
                FailCode::NoSpace
            }
            Self::Local { .. } | Self::Root(RootError::Io(_) | RootError::Replaced(_)) => {
                FailCode::Io
            }
            Self::Root(RootError::NotFound(_)) => FailCode::NotFound,
            Self::Root(
                RootError::Symlink(_) | RootError::Foreign(_) | RootError::Hidden(_),
            )
            | Self::ReadOnly
            | Self::NoLinks
            | Self::WrongToken => FailCode::Refused,
            Self::Root(RootError::WrongKind(..)) | Self::Name(_) | Self::Skipped(_) => {
                FailCode::BadPath
            }
            Self::Busy => FailCode::Busy,
            Self::SourceChanged(fail) => return Some(fail.clone()),
            Self::Shared(error) => return error.to_fail(),
            Self::Verification | Self::BasisChanged => FailCode::Verification,
            Self::Protocol(_) | Self::Wire(_) | Self::TooManyNames(_) => FailCode::Protocol,
        };
        let text = match self {
            // Its path is the server's own.
            Self::Root(RootError::Replaced(_)) => {
                "what is shared is another directory now, or gone; it has to be shared anew"
                    .to_owned()
            }
            _ => self.to_string(),
        };
        Some(Fail { code, text })
    }
}

fn is_full(cause: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(cause.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn advice_on_root(error: &RootError) -> &'static str {
    match error {
        RootError::Io(cause) => advice(cause),
        _ => "",
    }
}

fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        _ if is_full(cause) => "; make room there and transfer it again",
        io::ErrorKind::PermissionDenied => "; check the permissions there",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_to_the_peer_as_such_with_advice() {
        let error = TransferError::writing(io::ErrorKind::StorageFull.into());
        let fail = error.to_fail().unwrap();
        assert_eq!(fail.code, FailCode::NoSpace);
        assert!(fail.text.contains("make room"), "{}", fail.text);
        assert!(TransferError::Remote(fail).is_disk_full());
    }

    #[test]
    fn what_the_disk_refuses_is_told_as_its_error_wherever_it_is_met() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let shared = Arc::new(TransferError::from(RootError::Io(denied())));
        for error in [
            TransferError::reading(denied()),
            RootError::Io(denied()).into(),
            TransferError::Shared(shared),
        ] {
            assert_eq!(error.to_fail().map(|fail| fail.code), Some(FailCode::Io), "{error:?}");
        }
    }

    #[test]
    fn a_peer_does_not_hear_the_path_of_what_is_shared() {
        let error = TransferError::from(RootError::Replaced("/home/secret".to_owned()));
        assert!(!error.to_fail().unwrap().text.contains("secret"));
        assert!(error.to_string().contains("secret"), "the server's own user hears it");
    }

    #[test]
    fn an_unexpected_message_is_named_without_its_content() {
        let error = TransferError::unexpected(&Message::Data(b"secret".to_vec()));
        assert!(error.to_string().ends_with("unexpected message Data"));
    }
}
