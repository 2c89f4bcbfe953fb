//! Files that have several names: where the server has one under another than the first, it is offered again under that.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Exchange, PutBatch};
use crate::protocol::{FileEntry, Group, Manifest, TransferError, WirePath};

impl Exchange {
    /// The server has these files under other names, which are offered in their place.
    pub(super) fn take_elsewhere(
        &mut self,
        elsewhere: &[(u32, u32)],
    ) -> Result<(), TransferError> {
        let (closing, base) = (&self.batch.closing, &self.batch.base);
        let mut offered = Offered::default();
        for (file, name) in elsewhere {
            let unknown = || {
                TransferError::Protocol(format!(
                    "it names a name of file {file} that it has not"
                ))
            };
            let (names, entry) = self.names.remove(file).ok_or_else(unknown)?;
            let other = names.get(*name as usize).ok_or_else(unknown)?;
            let (first, _) = self.files.get(*file as usize).ok_or_else(unknown)?;
            let theirs = base.join(other)?;
            closing.note_elsewhere(base.join(first)?, theirs.clone());
            closing.add_expected(&theirs);
            self.settled.insert(*file);
            offered.add(self.batch.origin.path_of(*file), other, &entry)?;
        }
        for (groups, paths) in offered.take() {
            let batch = PutBatch {
                base: base.clone(),
                groups,
                origin: self.batch.origin.with_paths(paths),
                policy: Arc::clone(&self.batch.policy),
                closing: closing.clone(),
                name_within: None,
                checksum: self.batch.checksum,
                is_brief: self.batch.is_brief,
                is_ahead: false,
                version: self.batch.version,
            };
            self.told.follow_up(batch.into_job(&self.told));
        }
        Ok(())
    }

    /// All files that are not elsewhere are there under their first names in the end.
    pub(super) fn expect_first_names(&self) -> Result<(), TransferError> {
        for file in self.names.keys() {
            if let Some((first, _)) = self.files.get(*file as usize) {
                self.batch.closing.add_expected(&self.batch.base.join(first)?);
            }
        }
        Ok(())
    }
}

/// Files that have several names, by their numbers, with the others.
pub(super) fn other_names(groups: &[Group]) -> HashMap<u32, (Vec<WirePath>, FileEntry)> {
    let mut found = HashMap::new();
    let mut number = 0;
    for group in groups {
        for (position, file) in group.files.iter().enumerate() {
            let names = group.names(position);
            if !names.is_empty() {
                let file = file.clone().with_inode(group.inode(position));
                found.insert(number, (names.to_vec(), file));
            }
            number += 1;
        }
    }
    found
}

/// Files that are offered under other names.
#[derive(Default)]
struct Offered {
    manifest: Manifest,
    /// The directory that has been begun.
    begun: Option<WirePath>,
    /// Where the files are here, if they are named one by one.
    paths: Vec<PathBuf>,
    full: Vec<(Vec<Group>, Vec<PathBuf>)>,
}

impl Offered {
    /// Offers what is known of a file under this `name`.
    fn add(
        &mut self,
        path: Option<PathBuf>,
        name: &WirePath,
        file: &FileEntry,
    ) -> Result<(), TransferError> {
        let (directory, name) = name.split_last().unwrap_or_default();
        if self.begun.as_ref() != Some(&directory) {
            self.begun = Some(directory.clone());
            let full = self.manifest.directory(Group::new(directory, Vec::new()));
            self.end(full);
        }
        let entry = FileEntry::new(WirePath::new(name)?, file.offer()).with_inode(file.inode());
        let full = self.manifest.file(entry);
        self.end(full);
        self.paths.extend(path);
        Ok(())
    }

    fn end(&mut self, full: Option<Vec<Group>>) {
        let paths = full.map(|groups| (groups, std::mem::take(&mut self.paths)));
        self.full.extend(paths);
    }

    /// All of them, message by message.
    fn take(mut self) -> Vec<(Vec<Group>, Vec<PathBuf>)> {
        if self.begun.is_some() {
            let last = self.manifest.take();
            self.end(Some(last));
        }
        self.full
    }
}
