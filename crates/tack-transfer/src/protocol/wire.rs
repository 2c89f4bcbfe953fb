//! Messages and what they are made of; [`framing`](super::framing) lays them out on a stream.
//!
//! The content of one file is the [`Message::Data`] and the [`Message::Hole`]s and [`Message::Copy`]s between them, in
//! their order: bytes, a number of zeros, chunks that the receiver has.

use std::{fmt, io};

use serde::{Deserialize, Serialize};

use super::framing::MAX_CONTROL;
use super::manifest::Group;
use super::policy::Policy;
use super::{Attributes, ChunkSize, Digest, Edit, Wanted, WirePath, printable};

/// Bytes of file content that this implementation puts into one frame.
pub const CHUNK: usize = 64 * 1024;

/// Most zeros in one [`Message::Hole`]: they take a receiver time, though no room.
pub const MAX_HOLE: u64 = 16 << 20;

/// Size of a file that is not known before its end.
pub const UNKNOWN_SIZE: u64 = u64::MAX;

/// One message of the protocol.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Opens a connection: the access token, if the user has one.
    Hello {
        /// The access token.
        token: Option<Secret>,
        /// Most bytes per second that the client wants to be sent. Peers that do not know the field
        /// send as fast as flow control lets them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<u64>,
        /// Characters that mean nothing, in early data: a server answers a client whose address is not proven with at
        /// most three times the bytes that came from there (RFC 9000 section 8.1).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filler: Option<String>,
    },
    /// The token is right.
    Welcome,
    /// Asks for a file, and says what the client has of it.
    Get {
        /// The file.
        path: WirePath,
        /// What the client has.
        resume: Resume,
    },
    /// Asks to take a file.
    Put {
        /// Its name on the server.
        path: WirePath,
        /// What is offered.
        offer: Offer,
        /// What to do with what is there.
        #[serde(default, skip_serializing_if = "Policy::is_default")]
        policy: Policy,
    },
    /// Asks for everything below a path.
    List {
        /// A directory or a file.
        path: WirePath,
        /// Directories this far below the path are named, but not looked into; of a file, time and
        /// permissions are told. Peers that do not know the field leave it out, and list everything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
        /// Tell symbolic links, which names are of the same file, and times of directories.
        #[serde(default, skip_serializing_if = "is_false")]
        links: bool,
        /// Of a file, the content is to follow behind the listing, as if a `Get` had asked for it that has nothing yet.
        #[serde(default, skip_serializing_if = "is_false")]
        content: bool,
    },
    /// Asks what a path is.
    Stat {
        /// A directory or a file.
        path: WirePath,
    },
    /// Asks for small files, at most [`MAX_FILES`](super::MAX_FILES).
    GetMany {
        /// The directory that their paths are relative to.
        base: WirePath,
        /// The files, by directory. The number of a file is its position in all groups.
        groups: Vec<WantGroup>,
    },
    /// Asks to take directories and files.
    PutMany {
        /// The directory that they go into.
        base: WirePath,
        /// What is offered. The number of a file is its position in all groups.
        groups: Vec<Group>,
        /// Compare content, and not only sizes and times of modification.
        checksum: bool,
        /// What to do with what is there.
        #[serde(default, skip_serializing_if = "Policy::is_default")]
        policy: Policy,
        /// It is one file, and not small: if it is wanted, its content may follow without a `Put`. Peers that do not
        /// know the field wait for that.
        #[serde(default, skip_serializing_if = "is_false")]
        sole: bool,
        /// If a directory has the path of the only file, this goes into it, under this name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name_within: Option<Box<WirePath>>,
        /// If no file is wanted, nothing follows `Wanted`. Peers that do not know the field say `EndOfBundles` and
        /// `Stored` then, too.
        #[serde(default, skip_serializing_if = "is_false")]
        brief: bool,
        /// All small files follow behind this message, which `Wanted` is no answer to: the sender takes it that none of
        /// them is there. What the receiver does not want of them it passes over. Peers that do not know the field would
        /// take that for an error.
        #[serde(default, skip_serializing_if = "is_false")]
        ahead: bool,
    },
    /// Asks to change what is there. More of these may follow on the stream, each after the answer to
    /// the one before.
    Edit {
        /// The changes, at most [`MAX_FILES`](super::MAX_FILES), in their order.
        edits: Vec<Edit>,
        /// What to do with what is there.
        #[serde(default, skip_serializing_if = "Policy::is_default")]
        policy: Policy,
    },
    /// Answer to `Edit`, behind a `Fault` for each that failed. All others are done.
    Edited {
        /// Those that found everything as it should be.
        unchanged: Vec<u32>,
        /// Those that left what is there.
        kept: Vec<u32>,
    },
    /// Asks for owners and extended attributes. More of these may follow on the stream, each after the answer
    /// to the one before.
    GetAttributes {
        /// What of them.
        wanted: Wanted,
        /// Of what, at most [`MAX_FILES`](super::MAX_FILES).
        paths: Vec<WirePath>,
    },
    /// Some of what `GetAttributes` asks for, by the position in that. `Fault`s tell what can't be read.
    Attributes(Vec<(u32, Attributes)>),
    /// All attributes have been told.
    EndOfAttributes,
    /// Asks for digests of files. More of these may follow on the stream, each after the answer to the one
    /// before.
    GetDigests {
        /// Of what, at most [`MAX_FILES`](super::MAX_FILES).
        paths: Vec<WirePath>,
    },
    /// The digest of a file that `GetDigests` asks for. `Fault`s tell what can't be read.
    Digest {
        /// Its position in that.
        file: u32,
        /// Of all of its content.
        digest: Digest,
    },
    /// All digests have been told.
    EndOfDigests,
    /// Answer to `PutMany`: the files to send. The others are there already.
    Wanted {
        /// Small files are sent behind this message, others with a `Put` each.
        files: Vec<u32>,
        /// The small ones among them to be compared first.
        compare: Box<[(u32, Digest)]>,
        /// Those that the policy keeps as they are.
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        kept: Box<[u32]>,
        /// Those that are there already, and have got other permissions.
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        attributes: Box<[u32]>,
        /// What the receiver has of the sole file: its content is to follow behind this message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume: Option<Box<Resume>>,
        /// A directory has the path of the only file, which goes into it.
        #[serde(default, skip_serializing_if = "is_false")]
        within: bool,
        /// Directories without files that the receiver can't make, by their position, and why not.
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        refused: Box<[(u32, Fail)]>,
    },
    /// Files of `PutMany` that are there under another of their names, and which of those they were offered with. Comes
    /// before `Wanted`, which they are not among.
    Elsewhere(Vec<(u32, u32)>),
    /// A file of `GetMany` or `PutMany` that its sender can't read or its receiver can't store.
    Fault {
        /// Its number.
        file: u32,
        /// Why.
        fail: Fail,
    },
    /// No bundle follows.
    EndOfBundles,
    /// What the path of `List` or `Stat` is.
    Entry {
        /// What it is.
        kind: EntryKind,
    },
    /// Part of a listing, relative to the listed directory.
    Manifest(Vec<Group>),
    /// Something in the listed directory that can't be transferred.
    Skipped {
        /// Its name, made printable.
        name: String,
        /// Why it is left out.
        reason: String,
        /// Is this an error (a name that can't be sent), or merely not a regular file?
        error: bool,
        /// Has looking at it failed? What is in it is not known then.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unread: bool,
    },
    /// The listing is complete.
    EndOfList,
    /// Answer to `Get`: the file as it is now.
    Offer(Offer),
    /// Answer to `Put`: what the receiver has.
    Resume(Resume),
    /// Content follows, starting at this offset.
    Start {
        /// Offset of the first byte that follows.
        offset: u64,
    },
    /// The receiver's file is the sender's: nothing follows.
    Equal,
    /// Asks the receiver for the chunks of its file, before `Start`.
    WantChunks,
    /// No digests follow.
    EndOfChunks,
    /// The next bytes of the file are chunks that the receiver has.
    Copy {
        /// Number of the first.
        first: u32,
        /// How many there are.
        count: u32,
        /// Their length together.
        bytes: u64,
    },
    /// The next bytes of the file are zeros. Peers of versions before 9 are sent them as content.
    Hole {
        /// How many there are, at most [`MAX_HOLE`].
        bytes: u64,
    },
    /// The sender's file changed while it was read: content follows from offset 0.
    Restart(Offer),
    /// All content has been sent.
    End {
        /// Digest of the whole file.
        digest: Digest,
    },
    /// What the server has removed to make way for what it receives: it is told before the answer that ends the exchange,
    /// and to clients of version 8 only.
    Removed {
        /// Paths below the served directory.
        paths: Vec<String>,
        /// How many there were beside these.
        #[serde(default, skip_serializing_if = "is_zero")]
        others: u64,
    },
    /// The receiver has verified and stored the file.
    Stored,
    /// The request failed.
    Fail(Fail),
    /// File content. Travels in a frame of its own kind, never as JSON.
    #[serde(skip)]
    Data(Vec<u8>),
    /// Small files. Travels in a frame of its own kind, never as JSON.
    #[serde(skip)]
    Bundle(Vec<u8>),
    /// Digests of chunks of the receiver's file, [`ChunkDigest::LEN`](super::chunking::ChunkDigest::LEN) bytes
    /// each. Travels in a frame of its own kind, never as JSON.
    #[serde(skip)]
    Chunks(Vec<u8>),
}

impl Message {
    /// Something that is not transferred, and no error.
    pub fn not_transferred(name: String, reason: String) -> Self {
        Self::Skipped { name, reason, error: false, unread: false }
    }

    /// Whether a request may change what the server has. Others can be answered twice.
    pub fn changes_something(&self) -> bool {
        !matches!(
            self,
            Self::Stat { .. }
                | Self::List { .. }
                | Self::Get { .. }
                | Self::GetMany { .. }
                | Self::GetAttributes { .. }
                | Self::GetDigests { .. }
        )
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A directory of `GetMany` and the files that are wanted of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantGroup(pub WirePath, pub Vec<Want>);

/// A file of `GetMany`: its name, and the digest of the receiver's if it is to be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want(pub WirePath, pub Option<Digest>);

/// A file that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Size in bytes; [`UNKNOWN_SIZE`] if the sender does not know, either.
    pub size: u64,
    /// When it was last modified.
    pub modified: Mtime,
    /// Its permissions: the nine bits for owner, group and others.
    pub mode: u32,
}

/// A time of modification.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Mtime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// What a receiver already has of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The beginning, from an interrupted transfer.
    pub part: Option<Prefix>,
    /// Digest of the file that has the final name, if it has the expected size.
    pub whole: Option<Digest>,
    /// Length of the chunks of the file that has the final name, if they can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<ChunkSize>,
}

/// The beginning of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// Its length in bytes.
    pub length: u64,
    /// Its digest.
    pub digest: Digest,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A regular file of this many bytes.
    File {
        /// Size in bytes.
        size: u64,
    },
    /// A directory.
    Directory {
        /// Its permissions.
        mode: u32,
    },
}

/// A failed request, as told to the peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}", printable(.text))]
pub struct Fail {
    /// For programs.
    pub code: FailCode,
    /// For people, as the peer says it. Shown as an error, it is [`printable`].
    pub text: String,
}

impl Fail {
    /// Whether something else is there than was asked for: a link, a pipe, a device or a socket.
    pub(crate) fn is_in_the_way(&self) -> bool {
        matches!(self.code, FailCode::Refused | FailCode::BadPath)
    }
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailCode {
    /// There is no such file.
    NotFound,
    /// The server does not allow it: read-only, a symbolic link, a file that it keeps for itself.
    Refused,
    /// The path is not acceptable.
    BadPath,
    /// Another transfer into the same name is running.
    Busy,
    /// The disk is full.
    NoSpace,
    /// Any other error of reading or writing.
    Io,
    /// The file kept changing while it was read.
    SourceChanged,
    /// Size or digest differ from what was announced.
    Verification,
    /// The peer broke the protocol.
    Protocol,
}

/// Text that must not appear in logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Bytes that a value takes as JSON. It is laid out for that, and kept nowhere.
pub fn json_len(value: &impl Serialize) -> usize {
    let mut length = Length(0);
    // What can't be laid out fails where it is sent.
    serde_json::to_writer(&mut length, value).map_or(MAX_CONTROL, |()| length.0)
}

/// Counts what is written to it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{TransferError, WireError};

    #[test]
    fn what_a_peer_says_of_a_failure_cannot_drive_the_terminal() {
        let text = "no\u{1b}[2J\n2026-01-01T00:00:00Z 192.0.2.1 send file: 1 kB verified";
        let shown = "no\\u{1b}[2J\\n2026-01-01T00:00:00Z 192.0.2.1 send file: 1 kB verified";
        let fail = Fail { code: FailCode::Io, text: text.to_owned() };
        assert_eq!(fail.to_string(), shown);
        let error = TransferError::Remote(fail).to_string();
        assert_eq!(error, format!("the other side reports: {shown}"));
        let json = serde_json::from_str::<Message>(r#""\u001b[2J""#).unwrap_err();
        let shown = WireError::from(json).to_string();
        assert!(shown.contains("[2J") && !shown.contains('\u{1b}'), "{shown}");
    }

    #[test]
    fn content_cannot_be_smuggled_in_as_json() {
        assert!(serde_json::from_str::<Message>("{\"data\":[1,2]}").is_err());
    }

    #[test]
    fn a_listing_can_be_asked_for_by_and_of_peers_that_know_no_depth() {
        let path = WirePath::new("a").unwrap();
        let list =
            |depth| Message::List { path: path.clone(), depth, links: false, content: false };
        let known = "{\"list\":{\"path\":\"a\"}}";
        assert_eq!(serde_json::to_string(&list(None)).unwrap(), known);
        assert_eq!(serde_json::from_str::<Message>(known).unwrap(), list(None));
        let more = "{\"list\":{\"path\":\"a\",\"depth\":1,\"later\":2}}";
        assert_eq!(serde_json::from_str::<Message>(more).unwrap(), list(Some(1)));
    }

    #[test]
    fn requests_without_options_are_those_of_version_2() {
        let path = || WirePath::new("a").unwrap();
        let offer = Offer { size: 1, modified: Mtime { seconds: 2, nanos: 3 }, mode: 4 };
        let json = "{\"size\":1,\"modified\":{\"seconds\":2,\"nanos\":3},\"mode\":4}";
        let group = Group::new(path(), vec![493]);
        let policy = Policy::default;
        let hello = Message::Hello { token: None, rate: None, filler: None };
        let put = Message::Put { path: path(), offer, policy: policy() };
        let (base, groups) = (path(), vec![group]);
        let many = Message::PutMany {
            base,
            groups,
            checksum: false,
            policy: policy(),
            sole: false,
            name_within: None,
            brief: false,
            ahead: false,
        };
        let wanted = Message::Wanted {
            files: vec![1],
            compare: Box::default(),
            kept: Box::default(),
            attributes: Box::default(),
            resume: None,
            within: false,
            refused: Box::default(),
        };
        let resume = Message::Resume(Resume::default());
        let group = "{\"directory\":\"a\",\"modes\":[493],\"files\":[]}";
        for (message, expected) in [
            (hello, "{\"hello\":{\"token\":null}}".to_owned()),
            (put, format!("{{\"put\":{{\"path\":\"a\",\"offer\":{json}}}}}")),
            (
                many,
                format!(
                    "{{\"put-many\":{{\"base\":\"a\",\"groups\":[{group}],\"checksum\":false}}}}"
                ),
            ),
            (wanted, "{\"wanted\":{\"files\":[1],\"compare\":[]}}".to_owned()),
            (resume, "{\"resume\":{\"part\":null,\"whole\":null}}".to_owned()),
        ] {
            assert_eq!(serde_json::to_string(&message).unwrap(), expected);
            assert_eq!(serde_json::from_str::<Message>(&expected).unwrap(), message);
        }
    }

    #[test]
    fn a_token_is_never_shown_by_debug() {
        let token = Some(Secret("hunter2".into()));
        let hello = Message::Hello { token, rate: None, filler: None };
        assert!(!format!("{hello:?}").contains("hunter2"));
    }
}
