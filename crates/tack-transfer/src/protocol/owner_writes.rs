//! Removing something from a directory that its owner has closed to writing, as an earlier transfer may have done with
//! the sender's permissions.

use std::os::fd::OwnedFd;

use rustix::fs::Mode;
use rustix::io::Errno;

/// Write and search.
const OWNER: u32 = 0o300;

/// Makes a change in `directory`. Where only its permissions forbid that, and they are this user's to change, they are
/// given for as long as it takes.
pub(super) fn change(
    directory: &OwnedFd,
    make: impl Fn() -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let made = make();
    if made != Err(Errno::ACCESS) {
        return made;
    }
    let mode = rustix::fs::fstat(directory)?.st_mode & 0o7777;
    let is_closed = mode & OWNER != OWNER;
    if !is_closed || rustix::fs::fchmod(directory, Mode::from_raw_mode(mode | OWNER)).is_err() {
        return made;
    }
    let made = make();
    rustix::fs::fchmod(directory, Mode::from_raw_mode(mode))?;
    made
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::AtFlags;

    use super::*;

    #[test]
    fn a_closed_directory_is_changed_and_closed_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let closed = std::fs::Permissions::from_mode(0o555);
        std::fs::set_permissions(dir.path(), closed).unwrap();
        let directory = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        // root may always: what it would be told if it were somebody else.
        let mode = || std::fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777;
        let remove = || match mode() {
            0o555 => Err(Errno::ACCESS),
            _ => rustix::fs::unlinkat(&directory, "file", AtFlags::empty()),
        };
        assert_eq!(change(&directory, remove), Ok(()));
        assert_eq!(mode(), 0o555);
        assert!(!dir.path().join("file").exists());
    }

    #[test]
    fn an_open_directory_that_refuses_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let times = std::cell::Cell::new(0);
        let refuse = || {
            times.set(times.get() + 1);
            Err(Errno::ACCESS)
        };
        assert_eq!(change(&directory, refuse), Err(Errno::ACCESS));
        assert_eq!(times.get(), 1);
    }
}
