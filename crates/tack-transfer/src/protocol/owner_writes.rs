//! Changes in a directory that its owner has closed to writing, as a transfer does with the sender's permissions.

use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Gid, Mode, Stat};
use rustix::io::Errno;

/// Write and search.
const OWNER: u32 = 0o300;
/// How often a change is tried while other processes open and close the same directory.
const ATTEMPTS: usize = 8;

/// Held while a directory is open for a change: another thread would close it too early, or take it for open.
static ALONE: Mutex<()> = Mutex::new(());

/// Makes a change in `directory`. Where only its permissions forbid that, and they are this user's to change, they are
/// given for as long as it takes. The change must be short and contain no other one.
pub(super) fn change<T>(
    directory: &impl AsFd,
    mut make: impl FnMut() -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    let mut made = make();
    if !is_denied(&made) {
        return made;
    }
    // There is nothing in it.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..ATTEMPTS {
        let stat = rustix::fs::fstat(directory)?;
        let (mode, opened) = (stat.st_mode & 0o7777, stat.st_mode & 0o7777 | OWNER);
        if mode == opened {
            // Another process may have opened it, and may close it again.
            made = make();
        } else if !loses_setgid(&stat)
            && rustix::fs::fchmod(directory, Mode::from_raw_mode(opened)).is_ok()
        {
            made = make();
            // Unless it has got other permissions meanwhile.
            if rustix::fs::fstat(directory)?.st_mode & 0o777 == opened & 0o777 {
                rustix::fs::fchmod(directory, Mode::from_raw_mode(mode))?;
            }
        } else {
            break;
        }
        if !is_denied(&made) {
            break;
        }
    }
    made
}

/// Whether a directory would lose its setgid bit with other permissions, which the system takes where the user is not in
/// its group.
pub(super) fn loses_setgid(directory: &Stat) -> bool {
    use rustix::process::{getegid, geteuid, getgroups};
    let group = Gid::from_raw(directory.st_gid);
    directory.st_mode & 0o2000 != 0
        && !geteuid().is_root()
        && getegid() != group
        && !getgroups().is_ok_and(|groups| groups.contains(&group))
}

/// Waits for the change that is being made in a closed directory, and lets no other one begin: to be called right before
/// the process ends, which would leave the directory open in the middle of one.
pub fn leave_directories_closed() {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::forget(alone);
}

fn is_denied<T>(made: &rustix::io::Result<T>) -> bool {
    matches!(made, Err(Errno::ACCESS))
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use rustix::fs::AtFlags;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    /// Refuses what root may do where anybody else may not.
    fn as_owner(path: &Path) -> rustix::io::Result<()> {
        if mode(path) & OWNER == OWNER { Ok(()) } else { Err(Errno::ACCESS) }
    }

    #[test]
    fn a_closed_directory_is_changed_and_closed_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        set_mode(dir.path(), 0o555);
        let directory = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let remove = || {
            as_owner(dir.path())?;
            rustix::fs::unlinkat(&directory, "file", AtFlags::empty())
        };
        assert_eq!(change(&directory, remove), Ok(()));
        assert_eq!(mode(dir.path()), 0o555);
        assert!(!dir.path().join("file").exists());
    }

    #[test]
    fn an_open_directory_that_refuses_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let before = mode(dir.path());
        let directory = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        assert_eq!(change::<()>(&directory, || Err(Errno::ACCESS)), Err(Errno::ACCESS));
        assert_eq!(mode(dir.path()), before);
    }

    #[test]
    fn changes_of_several_threads_all_succeed_and_leave_the_directory_closed() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o500);
        let directory = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert_eq!(change(&directory, || as_owner(dir.path())), Ok(()));
                    }
                });
            }
        });
        assert_eq!(mode(dir.path()), 0o500);
    }

    #[test]
    fn a_directory_that_another_process_opens_and_closes_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o555);
        let directory = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let mut times = 0;
        let made = change(&directory, || {
            times += 1;
            // Open when it is looked at, and closed when it is changed.
            set_mode(dir.path(), if times == 1 { 0o755 } else { 0o555 });
            if times < 4 { Err(Errno::ACCESS) } else { Ok(()) }
        });
        assert_eq!(made, Ok(()));
        assert_eq!(mode(dir.path()), 0o555);
    }

    #[test]
    fn permissions_that_are_set_during_a_change_stay() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o555);
        let directory = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let made = change(&directory, || {
            as_owner(dir.path())?;
            set_mode(dir.path(), 0o750);
            Ok(())
        });
        assert_eq!((made, mode(dir.path())), (Ok(()), 0o750));
    }
}
