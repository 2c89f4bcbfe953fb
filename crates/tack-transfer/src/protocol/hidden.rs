//! Files of a tree that nobody on the other side may see or replace.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Stat};

/// A file that is kept from peers under its name, and under any other name that it has.
#[derive(Debug)]
pub(super) struct Hidden {
    directory: (u64, u64),
    name: String,
    file: Option<(u64, u64)>,
}

impl Hidden {
    /// The file at `path`, which need not exist yet.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let directory = parent.unwrap_or(Path::new(".")).metadata()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = path.metadata().ok().map(|file| (file.dev(), file.ino()));
        Ok(Self { directory: (directory.dev(), directory.ino()), name, file })
    }

    /// Is it the entry `name` of `directory`?
    pub(super) fn is(&self, directory: &impl AsFd, name: &str) -> bool {
        (name == self.name && stat_of(directory).is_ok_and(|id| id == self.directory))
            || (self.file.is_some()
                && rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| Some(id_of(&stat)) == self.file))
    }
}

fn stat_of(directory: &impl AsFd) -> io::Result<(u64, u64)> {
    Ok(id_of(&rustix::fs::fstat(directory)?))
}

fn id_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
