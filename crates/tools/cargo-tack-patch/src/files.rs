//! Writing without ever leaving half of a file or folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Replaces the text of a file at once. A link to it stays one, and who may read and write it stays as it was.
///
/// Fails if nobody may write to it: a rename would not ask.
pub fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let path = &fs::canonicalize(path).map_err(Error::at(path))?;
    let metadata = fs::metadata(path).map_err(Error::at(path))?;
    if metadata.permissions().readonly() {
        return Err(Error::ReadOnly(path.clone()));
    }
    let new = beside(path, ".tack-patch-new");
    let written = fs::write(&new, text)
        .and_then(|()| keep_owner(&new, &metadata))
        .and_then(|()| fs::set_permissions(&new, metadata.permissions()))
        .and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        // It may not even have been made.
        let _ = fs::remove_file(&new);
        Error::at(path)(error)
    })
}

/// Gives a new file to whom the old one belongs, which only root can, and only root has to.
#[cfg(unix)]
fn keep_owner(new: &Path, old: &fs::Metadata) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, chown};
    let made = fs::metadata(new)?;
    if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
        // A file of another user in a folder that this one may write to becomes this one's.
        let _ = chown(new, Some(old.uid()), Some(old.gid()));
    }
    Ok(())
}

#[cfg(not(unix))]
fn keep_owner(_new: &Path, _old: &fs::Metadata) -> std::io::Result<()> {
    Ok(())
}

/// What toml_edit makes of a text, with the line ends and the byte order mark that the text had.
pub fn in_form_of(original: &str, text: &str) -> String {
    const MARK: char = '\u{feff}';
    let lines = original.matches('\n').count();
    let is_dos = lines > 0 && original.matches("\r\n").count() == lines;
    let mut text = text.trim_start_matches(MARK).to_owned();
    if is_dos {
        text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if original.starts_with(MARK) {
        text.insert(0, MARK);
    }
    text
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

    #[cfg(unix)]
    #[test]
    fn a_linked_file_is_replaced_where_it_is_and_keeps_its_mode() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("shared")).unwrap();
        let file = folder.path().join("shared/Cargo.toml");
        let link = folder.path().join("Cargo.toml");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("shared/Cargo.toml", &link).unwrap();
        replace(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
        for parent in [folder.path(), &folder.path().join("shared")] {
            assert!(!parent.join("Cargo.toml.tack-patch-new").exists());
        }
    }

    #[test]
    fn a_file_that_nobody_may_write_to_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("Cargo.toml");
        fs::write(&file, "old").unwrap();
        let mut permissions = fs::metadata(&file).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&file, permissions).unwrap();
        let error = replace(&file, "new").unwrap_err().to_string();
        assert!(error.contains("Cargo.toml may not be written to"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn line_ends_and_the_byte_order_mark_are_those_of_the_original() {
        assert_eq!(in_form_of("a\r\nb\r\n", "a\nb\r\nc\n"), "a\r\nb\r\nc\r\n");
        assert_eq!(in_form_of("a\nb\n", "a\nc\n"), "a\nc\n");
        assert_eq!(in_form_of("", "a\n"), "a\n");
        assert_eq!(in_form_of("\u{feff}a\n", "a\n"), "\u{feff}a\n");
        assert_eq!(in_form_of("\u{feff}a\n", "\u{feff}b\n"), "\u{feff}b\n");
    }

    #[test]
    fn what_is_beside_a_folder_is_not_in_it() {
        for folder in ["/a/copies", "/a/copies/", "/a/copies//", "/a/copies/."] {
            let beside = beside(Path::new(folder), ".new");
            assert_eq!(beside, Path::new("/a/copies.new"), "{folder}");
        }
    }
}
