//! Targets that content is written through to: pipes, terminals, character devices.
//!
//! Such a target can't be replaced, and what was written to it can't be taken back. The digest
//! is checked at the end all the same, and the exit code tells whoever reads the other end.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::receiver::Store;
use super::wire::Offer;

/// Links that are followed from one name before it is taken for a loop, as Linux does.
const MAX_LINKS: usize = 40;

/// An open target that is not a regular file.
#[derive(Debug)]
pub struct PassThrough {
    file: File,
    written: u64,
}

/// What a name that the user gave as a destination stands for.
#[derive(Debug)]
pub enum Destination {
    /// A place for a regular file or a directory; links are resolved.
    Path(PathBuf),
    /// Something that content is written through to.
    PassThrough(PassThrough),
}

/// What a name leads to.
enum Target {
    StandardOutput,
    /// A pipe or device that content is written through to.
    Through(PathBuf),
    Path(PathBuf),
}

impl Destination {
    /// Looks at `path`. Waits for the reader if it is a pipe. `-` and `/dev/stdout` are the
    /// standard output, whatever that leads to.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = match Target::of(path)? {
            Target::Path(path) => return Ok(Self::Path(path)),
            Target::StandardOutput if is_closed(&io::stdout()) => {
                return Err(refused("standard output is closed"));
            }
            Target::StandardOutput => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            Target::Through(path) => OpenOptions::new().write(true).open(&path)?,
        };
        Ok(Self::PassThrough(PassThrough { file, written: 0 }))
    }

    /// What `path` leads to; none if content would be written through it to something else, which is not opened.
    pub(crate) fn resolve(path: &Path) -> io::Result<Option<PathBuf>> {
        Ok(match Target::of(path)? {
            Target::Path(path) => Some(path),
            Target::StandardOutput | Target::Through(_) => None,
        })
    }
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            if is_standard_output(&path) {
                return Ok(Self::StandardOutput);
            }
            let Ok(metadata) = path.symlink_metadata() else { return Ok(Self::Path(path)) };
            let kind = metadata.file_type();
            if kind.is_symlink() && !is_of_process(&path) {
                let leads_to = path.read_link()?;
                path = path.parent().unwrap_or(Path::new("")).join(leads_to);
                if path.symlink_metadata().is_err() && !is_standard_output(&path) {
                    return Err(refused("a symbolic link that leads nowhere"));
                }
                continue;
            }
            let kind = path.metadata()?.file_type();
            if kind.is_fifo() || kind.is_char_device() {
                return Ok(Self::Through(path));
            }
            if kind.is_block_device() || kind.is_socket() || is_of_process(&path) {
                return Err(refused("neither a file, a directory, a pipe nor a terminal"));
            }
            return Ok(Self::Path(path));
        }
        Err(refused("too many symbolic links"))
    }
}

/// Whether a standard stream was closed when this process began. Rust's library puts `/dev/null` in its place, for reading
/// and writing, so that what goes there is lost, and nothing comes from there, without an error.
pub fn is_closed(stream: &impl AsFd) -> bool {
    let (Ok(stat), Ok(null)) = (rustix::fs::fstat(stream), rustix::fs::stat("/dev/null"))
    else {
        return true;
    };
    let flags = rustix::fs::fcntl_getfl(stream);
    stat.st_rdev == null.st_rdev
        && stat.st_ino == null.st_ino
        && flags.is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDWR)
}

fn is_standard_output(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]
        .iter()
        .any(|name| path == Path::new(name))
}

/// Is it an open file of some process? Its name can't be replaced.
fn is_of_process(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with("/dev/fd")
}

fn refused(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

impl Store for PassThrough {
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data)?;
        self.written += data.len() as u64;
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        if length == self.written {
            return Ok(());
        }
        Err(io::Error::other(
            "the file changed on the server while it was written through, and what was written \
             can't be taken back",
        ))
    }

    fn commit(&mut self, _: &Offer) -> io::Result<()> {
        self.file.flush()
    }

    fn discard(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn path_of(path: &Path) -> PathBuf {
        match Destination::open(path).unwrap() {
            Destination::Path(path) => path,
            Destination::PassThrough(_) => panic!("{} is written through", path.display()),
        }
    }

    #[test]
    fn links_are_resolved_to_the_file_they_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        symlink("file", dir.path().join("one")).unwrap();
        symlink(dir.path().join("one"), dir.path().join("two")).unwrap();
        assert_eq!(path_of(&dir.path().join("two")), file);
        assert_eq!(path_of(&dir.path().join("new")), dir.path().join("new"));
    }

    #[test]
    fn what_can_neither_be_replaced_nor_written_through_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let _socket =
            std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        for name in ["dangling", "loop", "socket"] {
            assert!(Destination::open(&dir.path().join(name)).is_err(), "{name}");
        }
        let open = File::create(dir.path().join("open")).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&open);
        assert!(Destination::open(&PathBuf::from(format!("/proc/self/fd/{number}"))).is_err());
    }

    #[test]
    fn devices_are_written_through_and_cannot_start_over() {
        let Destination::PassThrough(mut device) =
            Destination::open(Path::new("/dev/null")).unwrap()
        else {
            panic!("a device has no place for a file")
        };
        device.cut(0).unwrap();
        device.append(b"content").unwrap();
        assert!(device.cut(0).is_err());
    }
}
