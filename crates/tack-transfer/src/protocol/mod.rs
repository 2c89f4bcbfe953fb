//! The transfer protocol, without sockets: messages, the two ends of one file, and the
//! directory tree they read from and write to.
//!
//! One QUIC stream carries one request. Its first message says what is wanted; the stream that
//! opens a connection carries [`Message::Hello`] and nothing else.
//!
//! | Request | Who sends the file | Messages after the request |
//! |---|---|---|
//! | `Get` | server | `Offer`, then `Start`, `Data`…, `End`, answered with `Stored`; or `Equal` |
//! | `Put` | client | answered with `Resume`; then as above |
//! | `GetMany` | server | `Bundle` and `Fault` …, `EndOfBundles` |
//! | `PutMany` | client | answered with `Fault` … and `Wanted`; then as above; answered with `Fault` … and `Stored` |
//! | `Edit` | – | answered with `Fault` … and `Edited`; further `Edit` … |
//! | `List` | – | `Entry`, for a directory `Manifest` and `Skipped` …, `EndOfList` |
//! | `GetAttributes` | – | `Fault` and `Attributes` …, `EndOfAttributes`; further `GetAttributes` … |
//! | `Stat` | – | `Entry` |
//!
//! Small files travel in bundles, hundreds with one request, and nobody waits for an answer before
//! the next request: requests are streams of their own, as many as the client likes, and QUIC's
//! flow control limits the bytes. A file whose size and time of modification are those of the
//! sender's is taken for equal, unless the user wants content to be compared.
//!
//! A large file that the receiver has in another version is put together from chunks of that version and
//! what is new: its sender answers what the receiver has with `WantChunks`, the receiver with `Chunks` … and
//! `EndOfChunks`, and among the `Data` behind `Start` there is `Copy`. A peer that does not know this sends
//! the file whole.
//!
//! Owners and extended attributes come behind the files: as `Edit`s to a server, as answers to `GetAttributes` from
//! one. Peers of version 3 know neither.
//!
//! Where something of another kind has made way for what a client sends, a server of version 8 tells what it has removed:
//! by `Removed` … before `Wanted` and before `Stored`.
//!
//! Either end may send `Fail` at any point instead of what was expected of it.
//!
//! What arrives is kept under a temporary name ([`part_file::PartFile`]) until its size and BLAKE3 digest
//! are those of the sender's file; only then does it take its final name. An interrupted
//! transfer leaves that temporary file, and the next attempt offers its length and digest. The
//! sender continues there if its own file begins with the same bytes, else it starts at zero,
//! so that a result is never put together from two versions of a file.

mod acl;
mod attributes;
mod basis;
mod bundle;
mod chunking;
mod comparing;
mod creation_mask;
mod delta;
mod digest;
mod disk;
mod edit;
mod editor;
mod error;
mod filter;
mod framing;
mod group_commit;
mod hidden;
mod holes;
mod incoming;
mod inodes;
mod make_way;
mod manifest;
mod names;
mod owner_writes;
mod part_file;
mod part_name;
mod part_opening;
mod pass_through;
mod paths;
mod pattern;
mod place;
mod plan;
mod policy;
mod receiver;
mod replace;
mod root;
mod sender;
mod small_file;
mod sparse;
#[cfg(test)]
mod testing;
mod tree;
mod walk;
mod wire;

pub use attributes::{Attributes, Wanted};
pub use basis::Basis;
pub use bundle::{Bundle, Content, Record, Records};
pub use chunking::ChunkSize;
pub use comparing::Comparing;
pub(crate) use comparing::Waiting;
pub use delta::KnownChunks;
pub use digest::{Digest, Hasher};
pub use disk::{FileSource, Found, Grain, WriteLimit, number_at};
pub use edit::{Edit, EditKind, Edited, LinkTarget};
pub use editor::Editor;
pub use error::TransferError;
pub use filter::Filter;
pub use framing::{Decoder, Encoded, MAX_CONTROL, WireError};
pub use group_commit::GroupCommit;
pub use incoming::Incoming;
pub use inodes::Inodes;
pub use make_way::{Goes, MadeWay, Removed};
pub use manifest::{FileEntry, Group, MAX_FILES, Manifest, SMALL_FILE};
pub use names::{Extraneous, Names};
pub use owner_writes::leave_directories_closed;
pub use part_file::PartFile;
pub use part_name::{RESERVED, is_absent};
pub use pass_through::{Destination, PassThrough, is_closed};
pub use paths::{NameError, WirePath, printable};
pub use place::{check_backup, check_place};
pub use plan::Change;
pub use policy::{Policy, Suffix};
pub use receiver::{Receiver, Step, Store};
pub use root::{Root, RootError, may_create_in};
pub use sender::Sender;
pub use small_file::SmallFile;
pub use tree::{Standing, Tree};
pub use walk::{IS_LINK, IS_SPECIAL, Walk, WalkItem, printed_below};
pub use wire::{
    CHUNK, EntryKind, Fail, FailCode, Message, Mtime, Offer, Resume, Secret, UNKNOWN_SIZE,
    Want, WantGroup, json_len,
};
