//! Writing without ever leaving half of a file or folder.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Replaces a file at once.
pub fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let new = beside(path, ".tack-patch-new");
    fs::write(&new, text).map_err(Error::at(&new))?;
    fs::rename(&new, path).map_err(Error::at(path))
}

/// The same path with a longer last component.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Writes a file below a folder, and the folders between.
pub fn write_below(folder: &Path, name: &Path, content: &[u8]) -> Result<(), Error> {
    let path = folder.join(name);
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(Error::at(parent))?;
    fs::write(&path, content).map_err(Error::at(&path))
}
