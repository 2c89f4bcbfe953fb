//! Small files of a user's that are kept between transfers, and may be lost: each a heading, and lines.
//!
//! Nothing here may fail a transfer: what cannot be read or written is logged and forgotten.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// One of them. Only the user may read it.
#[derive(Clone, Debug)]
pub struct StateFile {
    directory: PathBuf,
    kind: Kind,
}

/// What is in such a file.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name, also that of its lock with `.lock` behind it.
    pub name: &'static str,
    /// The first line, with a version: a file that begins with another one counts as empty.
    pub heading: &'static str,
    /// Longest file that is read, bytes.
    pub most_bytes: u64,
}

impl StateFile {
    /// A file in a directory that is made when it is first needed.
    pub fn new(directory: PathBuf, kind: Kind) -> Self {
        Self { directory, kind }
    }

    /// Whether there is one. Without, taking something out need not make the directory.
    pub fn exists(&self) -> bool {
        self.path().exists()
    }

    /// Gives the lines to `change`, alone among all processes, and writes those that it returns, if any.
    pub fn change<T>(
        &self,
        change: impl FnOnce(Vec<String>) -> (T, Option<Vec<String>>),
    ) -> Option<T> {
        let path = self.path();
        let changed = || -> io::Result<T> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            let lock = private(&self.directory.join(format!("{}.lock", self.kind.name)))?;
            // Held until it is closed.
            lock.lock()?;
            let (result, lines) = change(self.lines());
            if let Some(lines) = lines {
                self.write(&lines)?;
            }
            Ok(result)
        };
        changed()
            .inspect_err(|error| log::debug!("{}: {error}: nothing is kept", path.display()))
            .ok()
    }

    /// What is in the file, without its heading.
    pub fn lines(&self) -> Vec<String> {
        let path = self.path();
        let mut text = String::new();
        let file = File::open(&path)
            .and_then(|file| file.take(self.kind.most_bytes).read_to_string(&mut text));
        let mut lines = text.lines();
        match file {
            Ok(_) if lines.next() == Some(self.kind.heading) => {
                return lines.map(str::to_owned).collect();
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => {
                log::debug!("{}: not `{}`: ignored", path.display(), self.kind.heading);
            }
            Err(error) => log::debug!("{}: {error}: ignored", path.display()),
        }
        Vec::new()
    }

    /// Writes a file beside the old one, which it then replaces.
    fn write(&self, lines: &[String]) -> io::Result<()> {
        let draft = format!(".{}.{}", self.kind.name, std::process::id());
        let draft = self.directory.join(draft);
        let write = || -> io::Result<()> {
            let mut file = private(&draft)?;
            writeln!(file, "{}", self.kind.heading)?;
            for line in lines {
                writeln!(file, "{line}")?;
            }
            // Not synced: a crash of the system may leave it empty, and waiting for the disk holds up a transfer.
            fs::rename(&draft, self.path())
        };
        write().inspect_err(|_| {
            // Left behind, it would only waste space.
            let _ = fs::remove_file(&draft);
        })
    }

    fn path(&self) -> PathBuf {
        self.directory.join(self.kind.name)
    }
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const KIND: Kind = Kind { name: "kept", heading: "tack kept 1", most_bytes: 1 << 10 };

    fn state_file() -> (tempfile::TempDir, StateFile) {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path().join("a/tack"), KIND);
        (directory, file)
    }

    fn put(file: &StateFile, line: &str) {
        file.change(|mut lines| {
            lines.push(line.to_owned());
            ((), Some(lines))
        });
    }

    #[test]
    fn only_the_user_may_read_the_file() {
        let (_directory, file) = state_file();
        put(&file, "line");
        assert_eq!(file.path().metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(file.directory.metadata().unwrap().mode() & 0o777, 0o700);
        let files = fs::read_dir(&file.directory).unwrap().count();
        assert_eq!(files, 2, "the file and the lock");
    }

    #[test]
    fn a_file_of_something_else_counts_as_empty_and_is_replaced() {
        let (_directory, file) = state_file();
        put(&file, "line");
        let good = fs::read(file.path()).unwrap();
        let long = [&good[..], &[b'x'; 2 << 10]].concat();
        for damage in [&b""[..], b"\xff\xfe", b"tack kept 2\nline\n", &good[1..]] {
            fs::write(file.path(), damage).unwrap();
            assert!(file.lines().is_empty());
            put(&file, "line");
            assert_eq!(file.lines(), ["line"]);
        }
        fs::write(file.path(), long).unwrap();
        assert!(file.lines().concat().len() < 1 << 10, "the rest is not read");
    }

    #[test]
    fn a_file_that_cannot_be_written_keeps_nothing_and_fails_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let file = StateFile::new(file.join("tack"), KIND);
        put(&file, "line");
        assert!(!file.exists() && file.lines().is_empty());
    }
}
