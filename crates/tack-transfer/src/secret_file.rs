//! Files with secrets, made by the first who needs them.

use std::io::{self, Write};
use std::path::Path;

/// Writes a new file at `path` that only its owner may read; it is on disk when this returns. A file that
/// is there already stays as it is. Whoever reads the file sees all of it: of several processes that start at
/// the same time each one finds what the first has written.
pub fn write_once(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new().prefix(".tack-draft-").tempfile_in(directory)?;
    draft.write_all(contents)?;
    draft.as_file().sync_all()?;
    match draft.persist_noclobber(path) {
        Err(failed) if failed.error.kind() != io::ErrorKind::AlreadyExists => Err(failed.error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_is_there_stays_and_no_draft_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        write_once(&path, b"first").unwrap();
        write_once(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write_once(&dir.path().join("missing/secret"), b"x").is_err());
    }
}
