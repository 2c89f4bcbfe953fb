//! What a transfer would do, without doing it.
//!
//! The server is only asked what there is, and whether it may be changed, so that nothing changes there, whatever its
//! version.

pub(super) mod get;
pub(super) mod send;

use super::closing::Closing;
use super::server_tree::MAX_LISTED;
use super::waiting::Waiting;
use crate::protocol::{Change, Found, Offer, TransferError, WirePath};

/// The depth of all that there is. Who asks for a depth hears the time of a single file, too.
pub(super) const WHOLE: u32 = u32::MAX;

/// Puts off what may have to be kept under the name of a directory that is still to be listed.
fn wait_for_directories<T>(behind: &mut Vec<T>, file: T) -> Result<(), TransferError> {
    if behind.len() == MAX_LISTED {
        return Err(TransferError::TooManyNames(MAX_LISTED));
    }
    behind.push(file);
    Ok(())
}

/// Whether what is found may be what is offered.
fn is_there(found: Option<&Found>, offer: &Offer, checksum: bool) -> bool {
    let is_as_long = found.is_some_and(|found| found.offer.size == offer.size);
    checksum && is_as_long || Change::of(offer, found) == Change::Unchanged
}

/// A name of a file.
struct Name<'a> {
    path: &'a WirePath,
    inode: Option<u64>,
    offer: &'a Offer,
    /// The receiver has the file under this name.
    is_there: bool,
}

impl Name<'_> {
    /// Whether the file waits, or is there under another name.
    fn waits<T>(
        &self,
        closing: &Closing,
        waiting: &mut Waiting<T>,
        file: T,
    ) -> Result<bool, TransferError> {
        let Self { path, inode, offer, is_there } = *self;
        let is_another = closing.is_another_name(path, inode, offer)?;
        let Some(inode) = closing.waits_for_names(inode) else { return Ok(is_another) };
        if !is_another && !is_there {
            waiting.add(inode, path.clone(), file);
            return Ok(true);
        }
        let first = if is_there { waiting.remove(inode) } else { None };
        let is_elsewhere = first.is_some();
        if let Some(first) = first {
            closing.note_elsewhere(first, path.clone());
        }
        Ok(is_another && !is_elsewhere)
    }
}
