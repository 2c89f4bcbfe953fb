//! A directory tree that many files are received into.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, Stat};

use super::disk::is_same_time;
use super::inodes::{Inodes, separate};
use super::make_way::MadeWay;
use super::part_file::{PartFile, keep_equal};
use super::place::{Place, may_chown_to};
use super::policy::Policy;
use super::replace::{entry_at, kind_of};
use super::root::{OPENED, Root, RootError, open_file};
use super::wire::Offer;
use super::{Digest, Hasher, SMALL_FILE, TransferError, WirePath};

/// What is there of a file that is offered.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing that would do.
    Wanted,
    /// A file of the same size and time of modification.
    Unchanged,
    /// The same, which has got the offered permissions.
    Attributes,
    /// Something that is to stay, whatever is offered.
    Kept,
    /// A file of the same size with this digest, which the sender has to compare.
    Compare(Digest),
}

/// Receives files below a directory of a [`Root`].
#[derive(Debug)]
pub struct Tree {
    root: Arc<Root>,
    base: WirePath,
    checksum: bool,
    write_limit: Option<u64>,
    policy: Arc<Policy>,
    inodes: Arc<Inodes>,
    made_way: MadeWay,
    /// The directory that was used last, opened.
    current: Option<(WirePath, Arc<OwnedFd>)>,
}

impl Tree {
    /// Receives below `base`. With `checksum`, content is compared; otherwise a file with the
    /// offered size and time of modification is taken for unchanged.
    pub fn new(
        root: Arc<Root>,
        base: WirePath,
        checksum: bool,
        write_limit: Option<u64>,
    ) -> Self {
        let (policy, inodes, made_way) = (Arc::default(), Arc::default(), MadeWay::default());
        Self { root, base, checksum, write_limit, policy, inodes, made_way, current: None }
    }

    /// The same by another policy.
    #[must_use]
    pub fn with_policy(self, policy: Arc<Policy>) -> Self {
        Self { policy, ..self }
    }

    /// The same; `inodes` are remembered for all of the same transfer.
    #[must_use]
    pub fn with_inodes(self, inodes: Arc<Inodes>) -> Self {
        Self { inodes, ..self }
    }

    /// The same; `made_way` hears what is removed for something of another kind.
    #[must_use]
    pub fn with_made_way(self, made_way: MadeWay) -> Self {
        Self { made_way, ..self }
    }

    /// Creates `directory`; `modes` are its permissions and before them those of its parents.
    pub fn create(&mut self, directory: &WirePath, modes: &[u32]) -> Result<(), TransferError> {
        let path = self.base.join(directory)?;
        let opened = Arc::new(self.create_directory(&path, modes)?);
        self.current = Some((path, Arc::clone(&opened)));
        // What is named, and not transferred, has none.
        let Some(mode) = modes.last().copied() else { return Ok(()) };
        if self.policy.preserve {
            let opens = self.policy.opens_directories;
            keep_out_others(&opened, mode, opens).map_err(TransferError::writing)?;
        } else if self.policy.opens_directories && !directory.is_root() {
            // What is named has the permissions that its owner has given it.
            close_to_owner(&opened, mode).map_err(TransferError::writing)?;
        }
        Ok(())
    }

    /// Looks at what is there of a file, which has this number if it has several names at the source. What is
    /// another file's there becomes a file of its own. Where that is impossible, the file fails: its permissions and
    /// time would become the other one's, too.
    pub fn standing(
        &mut self,
        path: &WirePath,
        offer: &Offer,
        inode: Option<u64>,
    ) -> Result<Standing, TransferError> {
        // What stands in the way shows when the file is transferred.
        let Ok((directory, name, _)) = self.place(path) else { return Ok(Standing::Wanted) };
        let look = || rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW);
        let mut stat = match look() {
            Ok(stat) if !self.root.hides(&directory, &name) => stat,
            _ => return Ok(Standing::Wanted),
        };
        if self.policy.keeps_entry(&stat, offer) {
            return Ok(Standing::Kept);
        }
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_size as u64 != offer.size {
            return Ok(Standing::Wanted);
        }
        if self.policy.preserve && self.inodes.is_anothers(&stat, inode) {
            separate(&directory, &name).map_err(TransferError::writing)?;
            // What the other file has got meanwhile, its permissions for example, the copy has too.
            stat = look().map_err(|error| TransferError::writing(error.into()))?;
        }
        if self.checksum {
            return Ok(compared(&directory, &name, offer));
        }
        if !is_same_time(&stat, offer.modified) {
            // What is named may lie in a directory that takes nothing new, and need nothing of it.
            let is_named = !self.policy.opens_directories;
            let compared = is_named.then(|| compared(&directory, &name, offer));
            return Ok(compared.unwrap_or(Standing::Wanted));
        }
        Ok(self.with_mode(&directory, &name, &stat, offer))
    }

    /// Whether there is a file that may be linked to, and that is what is offered, as far as its size tells and, where
    /// content is not compared, its time.
    pub fn has(&self, path: &WirePath, offer: &Offer) -> bool {
        let Ok(path) = self.base.join(path) else { return false };
        let Ok(Some((directory, name))) = self.root.place(&path) else { return false };
        let Ok(Some(stat)) = entry_at(&directory, &name) else { return false };
        kind_of(&stat) == FileType::RegularFile
            && stat.st_size as u64 == offer.size
            && (self.checksum || is_same_time(&stat, offer.modified))
            && may_chown_to(stat.st_uid)
    }

    /// Gives a file of the same size and time the offered permissions.
    fn with_mode(
        &self,
        directory: &OwnedFd,
        name: &str,
        stat: &Stat,
        offer: &Offer,
    ) -> Standing {
        let (there, mode) = if self.policy.preserve {
            // What runs as its owner or its group does not if the sender's does not.
            (stat.st_mode & 0o7777, offer.mode & 0o777)
        } else {
            // The sender has taken permissions away since.
            let there = stat.st_mode & 0o777;
            (there, there & offer.mode)
        };
        if there == mode {
            return Standing::Unchanged;
        }
        // Its owner may not be allowed to open it.
        let has_mode = open_file(directory, name)
            .is_ok_and(|file| rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).is_ok());
        if self.policy.preserve && !has_mode {
            // Without that, another user's file may permit more; with it, what is wrong shows when the file is
            // transferred, and stops no other.
            return Standing::Wanted;
        }
        if has_mode { Standing::Attributes } else { Standing::Unchanged }
    }

    /// An empty temporary file for `path`.
    pub fn part(&mut self, path: &WirePath) -> Result<PartFile, TransferError> {
        use super::Store;
        let (directory, name, path) = self.place(path)?;
        let place = Place::find_in(&self.root, &directory, &name, &path, &self.policy)?;
        let mut part = PartFile::open_at(place)?;
        part.cut(0).map_err(TransferError::writing)?;
        part.set_write_limit(self.write_limit);
        Ok(part.with_made_way(self.made_way.clone()))
    }

    /// Notes that the file at `path` has the content that is offered, whose digest is this, if it still has.
    pub fn keep_equal(
        &mut self,
        path: &WirePath,
        offer: &Offer,
        digest: Digest,
    ) -> Result<(), TransferError> {
        let (directory, name, _) = self.place(path)?;
        let mut file = open_file(&directory, &name)?;
        let mut hasher = Hasher::default();
        let length = hasher.read(&mut file, offer.size + 1).map_err(TransferError::reading)?;
        if length != offer.size || hasher.digest() != digest {
            return Err(TransferError::BasisChanged);
        }
        keep_equal(&file, &self.policy, offer).map_err(TransferError::writing)
    }

    fn create_directory(&self, path: &WirePath, modes: &[u32]) -> Result<OwnedFd, RootError> {
        let (base, made_way) = (&self.base, &self.made_way);
        self.root.create_directory_below(base, path, modes, &self.policy, made_way)
    }

    /// The directory that `path` lies in, its name there, and where it is below the root.
    fn place(
        &mut self,
        path: &WirePath,
    ) -> Result<(Arc<OwnedFd>, String, WirePath), TransferError> {
        let path = self.base.join(path)?;
        let Some((parent, name)) = path.split_last() else {
            let wanted = RootError::WrongKind(path.to_string(), "file name");
            return Err(wanted.into());
        };
        let name = name.to_owned();
        let directory = match &self.current {
            Some((current, opened)) if *current == parent => Arc::clone(opened),
            _ => {
                let opened = Arc::new(self.create_directory(&parent, &[])?);
                self.current = Some((parent, Arc::clone(&opened)));
                opened
            }
        };
        Ok((directory, name, path))
    }
}

/// What is there of a file of the offered size, where content decides.
fn compared(directory: &OwnedFd, name: &str, offer: &Offer) -> Standing {
    if offer.size > SMALL_FILE {
        // Compared when it is asked for on its own.
        return Standing::Wanted;
    }
    let Ok(mut file) = open_file(directory, name) else { return Standing::Wanted };
    let mut hasher = Hasher::default();
    match hasher.read(&mut file, offer.size) {
        Ok(_) => Standing::Compare(hasher.digest()),
        Err(_) => Standing::Wanted,
    }
}

/// What the owner of a directory needs to fill it.
const OWNER: u32 = 0o300;

/// Keeps those out of a directory for whom the sender's is closed, before there is anything in it that they may not
/// see; and gives its owner, whom an earlier transfer may have closed it to, what it takes to fill it. If it is opened
/// for each change (`opens`), it is closed to its owner as the sender's is. Its permissions are set again behind the last
/// file. Another user's directory stays as it is.
fn keep_out_others(directory: &OwnedFd, sent: u32, opens: bool) -> io::Result<()> {
    let stat = rustix::fs::fstat(directory)?;
    let mode = stat.st_mode & 0o7777;
    let (closed, owner) = if opens { (0o277, OPENED) } else { (0o077, OWNER) };
    // Where the sender's is open, so is this, and need not be opened for each file.
    let wanted = mode & (sent | !closed) | owner | sent & OWNER;
    if wanted != mode && may_chown_to(stat.st_uid) {
        rustix::fs::fchmod(directory, Mode::from_raw_mode(wanted))?;
    }
    Ok(())
}

/// Closes a directory to writing by its owner, if the sender's is. Another user's stays as it is.
fn close_to_owner(directory: &OwnedFd, sent: u32) -> io::Result<()> {
    const WRITES: u32 = 0o200;
    let stat = rustix::fs::fstat(directory)?;
    let mode = stat.st_mode & 0o7777;
    let wanted = mode & (sent | !WRITES);
    if wanted != mode && may_chown_to(stat.st_uid) {
        rustix::fs::fchmod(directory, Mode::from_raw_mode(wanted))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::sync::Barrier;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::protocol::Mtime;
    use crate::protocol::part_name::PartName;

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    fn tree(dir: &Path, checksum: bool) -> Tree {
        let root = Arc::new(Root::open(dir).unwrap());
        Tree::new(root, WirePath::root(), checksum, None)
    }

    fn mode_of(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    fn offer(size: u64, seconds: i64) -> Offer {
        Offer { size, modified: Mtime { seconds, nanos: 0 }, mode: 0o600 }
    }

    fn write(path: &Path, content: &str, seconds: u64) {
        let mut file = std::fs::File::create(path).unwrap();
        io::Write::write_all(&mut file, content.as_bytes()).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn a_file_of_the_same_size_and_time_is_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("file"), "same", 1000);
        let mut tree = tree(dir.path(), false);
        // What is named is compared, whatever its time says.
        let named = tree.standing(&path("file"), &offer(4, 1001), None).unwrap();
        assert_eq!(named, Standing::Compare(Digest::of(b"same")));
        let within = Policy { opens_directories: true, ..Policy::default() };
        tree = tree.with_policy(Arc::new(within));
        let mut standing =
            |size, seconds| tree.standing(&path("file"), &offer(size, seconds), None).unwrap();
        assert_eq!(standing(4, 1001), Standing::Wanted);
        assert_eq!(standing(5, 1000), Standing::Wanted);
        assert_ne!(mode_of(&dir.path().join("file")), 0o600);
        assert_eq!(standing(4, 1000), Standing::Attributes);
        assert_eq!(mode_of(&dir.path().join("file")), 0o600, "what was taken away is");
        assert_eq!(
            tree.standing(&path("file"), &offer(4, 1000), None).unwrap(),
            Standing::Unchanged
        );
    }

    #[test]
    fn with_checksums_only_content_counts() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("file"), "same", 1000);
        let mut tree = tree(dir.path(), true);
        let found = tree.standing(&path("file"), &offer(4, 1000), None).unwrap();
        let digest = Digest::of(b"same");
        assert_eq!(found, Standing::Compare(digest));
        tree.keep_equal(&path("file"), &offer(4, 1000), digest).unwrap();
        for changed in ["else", "same and more"] {
            std::fs::write(dir.path().join("file"), changed).unwrap();
            let equal = tree.keep_equal(&path("file"), &offer(4, 1000), digest);
            assert!(matches!(equal, Err(TransferError::BasisChanged)), "{changed}: {equal:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_separated_from_another_one_fails() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("one"), "same", 1000);
        std::fs::hard_link(dir.path().join("one"), dir.path().join("two")).unwrap();
        let policy = Policy { preserve: true, ..Policy::default() };
        let mut tree = tree(dir.path(), false).with_policy(Arc::new(policy));
        let offer = offer(4, 1000);
        assert_eq!(tree.standing(&path("one"), &offer, None).unwrap(), Standing::Attributes);
        // In the way of the copy.
        std::fs::create_dir(dir.path().join(PartName::of("two\\"))).unwrap();
        let failed = tree.standing(&path("two"), &offer, None);
        assert!(matches!(failed, Err(TransferError::Local { .. })), "{failed:?}");
    }

    #[test]
    fn files_that_are_separated_at_the_same_time_have_their_own_permissions() {
        for round in 0..1000 {
            let dir = tempfile::tempdir().unwrap();
            write(&dir.path().join("one"), "same", 1000);
            std::fs::hard_link(dir.path().join("one"), dir.path().join("two")).unwrap();
            let policy = Arc::new(Policy { preserve: true, ..Policy::default() });
            let before = PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(dir.path().join("two"), before).unwrap();
            let (inodes, barrier) = (Arc::new(Inodes::default()), Barrier::new(2));
            std::thread::scope(|scope| {
                for (name, number, mode) in [("one", 1, 0o600), ("two", 2, 0o644)] {
                    let (root, barrier) = (dir.path(), &barrier);
                    let tree = tree(root, false).with_policy(Arc::clone(&policy));
                    let mut tree = tree.with_inodes(Arc::clone(&inodes));
                    scope.spawn(move || {
                        let offer = Offer { mode, ..offer(4, 1000) };
                        barrier.wait();
                        // Each time later, as it may be at any moment of the other's.
                        (0..round * number).for_each(|_| std::hint::spin_loop());
                        tree.standing(&path(name), &offer, Some(number)).unwrap();
                        assert_eq!(mode_of(&root.join(name)), mode, "{name}");
                    });
                }
            });
        }
    }

    #[test]
    fn a_link_is_never_unchanged_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("file"), "same", 1000);
        symlink("file", dir.path().join("link")).unwrap();
        let mut tree = tree(dir.path(), false);
        let found = tree.standing(&path("link"), &offer(4, 1000), None).unwrap();
        assert_eq!(found, Standing::Wanted);
        assert!(tree.part(&path("link")).is_err());
    }

    #[test]
    fn a_directory_that_is_there_is_closed_before_anything_comes_into_it() {
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("closed");
        for (preserve, opens_directories, mode) in
            [(false, false, 0o775), (true, false, 0o750), (true, true, 0o550)]
        {
            std::fs::create_dir_all(&closed).unwrap();
            std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o775)).unwrap();
            let policy = Policy { preserve, opens_directories, ..Policy::default() };
            let mut tree = tree(dir.path(), false).with_policy(Arc::new(policy));
            tree.create(&path("closed"), &[0o700, 0o050]).unwrap();
            assert_eq!(mode_of(&closed), mode, "and its owner can fill it");
        }
    }

    #[test]
    fn a_directory_that_is_there_is_closed_to_its_owner_where_the_senders_is() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("directory");
        std::fs::create_dir(&directory).unwrap();
        let named = mode_of(dir.path());
        for (there, sent, left) in
            [(0o775, 0o555, 0o575), (0o755, 0o700, 0o755), (0o555, 0o755, 0o555)]
        {
            std::fs::set_permissions(&directory, PermissionsExt::from_mode(there)).unwrap();
            let policy = Policy { opens_directories: true, ..Policy::default() };
            let mut tree = tree(dir.path(), false).with_policy(Arc::new(policy));
            tree.create(&path("directory"), &[0o700, sent]).unwrap();
            assert_eq!(mode_of(&directory), left);
            tree.create(&WirePath::root(), &[0o555]).unwrap();
            assert_eq!(mode_of(dir.path()), named, "what is named stays as it is");
        }
    }

    #[test]
    fn directories_are_no_wider_than_the_senders() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = tree(dir.path(), false);
        tree.create(&path("given/a/b"), &[0o700, 0o2755]).unwrap();
        assert_eq!(mode_of(&dir.path().join("given/a")), 0o700);
        assert_eq!(mode_of(&dir.path().join("given/a/b")) & 0o022, 0);
        // Its owner has to be able to fill it.
        for (opens_directories, name, mode) in
            [(false, "filled", 0o750), (true, "opened", 0o550)]
        {
            let policy = Policy { opens_directories, ..Policy::default() };
            tree = tree.with_policy(Arc::new(policy));
            tree.create(&path(name), &[0o050]).unwrap();
            assert_eq!(mode_of(&dir.path().join(name)), mode);
        }
        // One that is there already stays as it is.
        tree.create(&path("given/a"), &[0o777]).unwrap();
        assert_eq!(mode_of(&dir.path().join("given/a")), 0o700);
    }
}
