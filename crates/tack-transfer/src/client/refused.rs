//! Directories of the source that can't be made at the receiver, with the files in them.

use super::producer::Reporter;
use crate::protocol::{TransferError, WirePath};

/// Directories and files that are kept before they are told: what is listed must not fill the memory.
const MAX_REFUSED: usize = 1 << 12;

/// What is told together, once it is known what is in directories below.
#[derive(Default)]
pub(super) struct Refused {
    directories: Vec<Directory>,
    names: usize,
    /// Only files tell of the directories that they lie in.
    by_files: bool,
}

/// One directory, or a part of it.
pub(super) struct Directory {
    /// Its path on the server.
    pub(super) path: WirePath,
    /// The paths of the files in it.
    pub(super) files: Vec<String>,
    pub(super) error: TransferError,
}

impl Refused {
    /// As servers tell what they could not make: each directory in which no file has failed.
    pub(super) fn of_server() -> Self {
        Self { by_files: true, ..Self::default() }
    }

    pub(super) fn add(&mut self, directory: Directory, told: &Reporter) {
        self.names += 1 + directory.files.len();
        self.directories.push(directory);
        if self.names >= MAX_REFUSED {
            self.tell(told);
        }
    }

    /// Tells what has failed. A directory without files goes without saying if one below it is refused, too.
    pub(super) fn tell(&mut self, told: &Reporter) {
        let (mut directories, by_files) =
            (std::mem::take(&mut self.directories), self.by_files);
        self.names = 0;
        // Whatever lies in one comes behind it.
        directories.sort_by(|one, other| one.path.components().cmp(other.path.components()));
        let mut above: Option<WirePath> = None;
        for Directory { path, mut files, error } in directories.into_iter().rev() {
            let is_above = above.as_ref().is_some_and(|below| below.below(&path).is_some());
            let tells_of_above = !by_files || is_above || !files.is_empty();
            if files.is_empty() && !is_above {
                files.push(path.as_str().to_owned());
            }
            if !files.is_empty() {
                told.batch_failed(files, error);
            }
            if tells_of_above {
                above = Some(path);
            }
        }
    }
}
