//! Writing without ever leaving half of a file or folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Replaces a file at once.
pub fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let new = beside(path, ".tack-patch-new");
    fs::write(&new, text).map_err(Error::at(&new))?;
    fs::rename(&new, path).map_err(Error::at(path))
}

/// The same path with a longer last component, without a separator at its end.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Writes a file below a folder, and the folders between.
pub fn write_below(folder: &Path, name: &Path, content: &[u8]) -> Result<(), Error> {
    let path = folder.join(name);
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(Error::at(parent))?;
    fs::write(&path, content).map_err(Error::at(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beside_a_folder_is_not_in_it() {
        for folder in ["/a/copies", "/a/copies/", "/a/copies//", "/a/copies/."] {
            let beside = beside(Path::new(folder), ".new");
            assert_eq!(beside, Path::new("/a/copies.new"), "{folder}");
        }
    }
}
