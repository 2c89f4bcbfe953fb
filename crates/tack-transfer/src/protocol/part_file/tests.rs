use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use super::*;
use crate::protocol::wire::{Prefix, Resume};
use crate::protocol::{Digest, Incoming, Root, WirePath};

impl PartFile {
    /// Opens and locks the temporary file for `path`; creates it if it does not exist.
    pub(in crate::protocol) fn open(
        root: &Root,
        path: &WirePath,
        policy: &Arc<Policy>,
    ) -> Result<Self, TransferError> {
        Self::open_at(Place::find(root, path, policy)?)
    }

    /// Puts something in the place of the open file that can't be written to a disk: a pipe.
    pub(in crate::protocol) fn lose_disk(&mut self) {
        let (_, pipe) = io::pipe().unwrap();
        self.file = File::from(OwnedFd::from(pipe));
    }
}

/// The names in a directory.
fn names(dir: &tempfile::TempDir) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn nothing_is_resumed_from_what_was_thrown_away() {
    let (dir, root) = root();
    let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
    part.append(b"content").unwrap();
    part.throw_away();
    drop(part);
    assert_eq!(names(&dir), [""; 0]);
    let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
    part.append(b"content").unwrap();
    part.lose_disk();
    assert!(part.commit(&offer(7)).is_err());
    assert_eq!(names(&dir), [""; 0], "neither under its name nor to be resumed");
}

#[test]
fn a_part_that_has_another_name_or_another_owner_is_not_written_to() {
    let (dir, root) = root();
    let is_root = rustix::process::geteuid().is_root();
    for is_anothers in [false, true] {
        let planted = dir.path().join(".file.tack-part");
        std::fs::write(&planted, "planted").unwrap();
        let kept = File::open(&planted).unwrap();
        if is_anothers && is_root {
            chown(&planted, Some(12345), None).unwrap();
        } else {
            std::fs::hard_link(&planted, dir.path().join(format!("other{is_anothers}")))
                .unwrap();
        }
        let incoming = Incoming::open(&root, &path("file"), 9, None, &Arc::default()).unwrap();
        assert_eq!(incoming.resume, Resume::default(), "nothing is resumed");
        let mut part = incoming.store;
        part.begin().unwrap();
        part.append(b"secret").unwrap();
        part.commit(&offer(6)).unwrap();
        let file = dir.path().join("file").metadata().unwrap();
        let planted = kept.metadata().unwrap();
        assert_ne!(file.ino(), planted.ino());
        assert_eq!((planted.len(), file.uid()), (7, rustix::process::geteuid().as_raw()));
    }
}

#[test]
fn a_file_that_has_changed_since_it_was_compared_is_not_called_equal() {
    let (dir, root) = root();
    let file = dir.path().join("file");
    std::fs::write(&file, "content").unwrap();
    let open = || Incoming::open(&root, &path("file"), 7, None, &Arc::default()).unwrap();
    let mut incoming = open();
    assert_eq!(incoming.resume.whole, Some(Digest::of(b"content")));
    incoming.store.keep_equal(&offer(7)).unwrap();
    drop(incoming);
    let mut incoming = open();
    // The kernel's clock for file times ticks every few milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(30));
    std::fs::write(&file, "another").unwrap();
    let equal = incoming.store.keep_equal(&offer(7));
    assert!(matches!(equal, Err(TransferError::BasisChanged)), "{equal:?}");
    drop(incoming);
    // Attributes are no content: another name of the file may have been given others.
    let mut incoming = open();
    std::thread::sleep(std::time::Duration::from_millis(30));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(&file, mode).unwrap();
    incoming.store.keep_equal(&offer(7)).unwrap();
}

#[test]
fn the_old_owner_does_not_get_what_the_senders_owner_will_have() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may give files away");
        return;
    }
    let (dir, root) = root();
    let file = dir.path().join("file");
    for (owner, expected) in [(false, 12345), (true, 0)] {
        std::fs::write(&file, "old").unwrap();
        chown(&file, Some(12345), Some(12345)).unwrap();
        let policy = Policy { preserve: true, owner, ..Policy::default() };
        let mut part = PartFile::open(&root, &path("file"), &Arc::new(policy)).unwrap();
        part.append(b"new").unwrap();
        part.commit(&offer(3)).unwrap();
        assert_eq!(file.metadata().unwrap().uid(), expected);
    }
}

fn root() -> (tempfile::TempDir, Arc<Root>) {
    let dir = tempfile::tempdir().unwrap();
    let root = Arc::new(Root::open(dir.path()).unwrap());
    (dir, root)
}

fn path(text: &str) -> WirePath {
    WirePath::new(text).unwrap()
}

fn offer(size: u64) -> Offer {
    Offer { size, modified: Mtime { seconds: 1_000_000, nanos: 5 }, mode: 0o755 }
}

#[test]
fn content_has_no_final_name_before_it_is_committed() {
    let (dir, root) = root();
    let mut part = PartFile::open(&root, &path("d/file"), &Arc::default()).unwrap();
    part.append(b"content").unwrap();
    assert!(!dir.path().join("d/file").exists());
    part.commit(&offer(7)).unwrap();
    drop(part);
    let file = dir.path().join("d/file");
    assert_eq!(std::fs::read(&file).unwrap(), b"content");
    assert_eq!(std::fs::read_dir(dir.path().join("d")).unwrap().count(), 1);
    let modified = file.metadata().unwrap().modified().unwrap();
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(since, std::time::Duration::new(1_000_000, 5));
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o100, 0o100);
}

#[test]
fn an_interrupted_transfer_leaves_its_length_and_digest() {
    let (_dir, root) = root();
    let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
    part.append(b"begin").unwrap();
    drop(part);
    let incoming = Incoming::open(&root, &path("file"), 10, None, &Arc::default()).unwrap();
    let prefix = Prefix { length: 5, digest: Digest::of(b"begin") };
    assert_eq!(incoming.resume, Resume { part: Some(prefix), ..Resume::default() });
    let shorter = {
        drop(incoming);
        Incoming::open(&root, &path("file"), 4, None, &Arc::default()).unwrap()
    };
    assert_eq!(shorter.resume.part, None, "a part longer than the file is no beginning");
}

#[test]
fn appending_after_hashing_the_part_continues_it() {
    let (dir, root) = root();
    std::fs::write(dir.path().join(PartName::of("file")), "begin").unwrap();
    let mut incoming = Incoming::open(&root, &path("file"), 8, None, &Arc::default()).unwrap();
    incoming.store.append(b"end").unwrap();
    incoming.store.commit(&offer(8)).unwrap();
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"beginend");
}

#[test]
fn a_file_of_the_same_size_is_offered_for_comparison() {
    let (dir, root) = root();
    std::fs::write(dir.path().join("file"), "same").unwrap();
    let incoming = Incoming::open(&root, &path("file"), 4, None, &Arc::default()).unwrap();
    assert_eq!(incoming.resume.whole, Some(Digest::of(b"same")));
    drop(incoming);
    let incoming = Incoming::open(&root, &path("file"), 5, None, &Arc::default()).unwrap();
    assert_eq!(incoming.resume.whole, None);
}

#[test]
fn a_second_transfer_into_the_same_name_is_refused() {
    let (_dir, root) = root();
    let first = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
    let second = PartFile::open(&root, &path("file"), &Arc::default());
    assert!(matches!(second, Err(TransferError::Busy)));
    drop(first);
    assert!(PartFile::open(&root, &path("file"), &Arc::default()).is_ok());
}

#[test]
fn a_file_that_turns_out_to_be_there_gets_no_part() {
    let (dir, root) = root();
    std::fs::write(dir.path().join("file"), "same").unwrap();
    let before = dir.path().metadata().unwrap();
    let open = || Incoming::open(&root, &path("file"), 4, None, &Arc::default()).unwrap();
    let mut incoming = open();
    incoming.store.discard().unwrap();
    incoming.store.keep_equal(&offer(4)).unwrap();
    drop(incoming);
    let after = dir.path().metadata().unwrap();
    assert_eq!(
        (before.mtime(), before.mtime_nsec()),
        (after.mtime(), after.mtime_nsec()),
        "nothing was made in the directory"
    );
    // Two may find out so, and one receives.
    let (mut first, mut second) = (open().store, open().store);
    first.begin().unwrap();
    assert!(matches!(second.begin(), Err(TransferError::Busy)));
}

#[test]
fn a_part_file_that_was_not_written_to_disappears() {
    let (dir, root) = root();
    drop(PartFile::open(&root, &path("file"), &Arc::default()).unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_link_in_place_of_the_part_file_is_not_written_through() {
    let (dir, root) = root();
    let outside = tempfile::NamedTempFile::new().unwrap();
    let link = dir.path().join(PartName::of("file"));
    std::os::unix::fs::symlink(outside.path(), link).unwrap();
    assert!(PartFile::open(&root, &path("file"), &Arc::default()).is_err());
}

#[test]
fn a_directory_in_place_of_the_file_is_reported_at_once() {
    let (dir, root) = root();
    std::fs::create_dir(dir.path().join("file")).unwrap();
    let error = PartFile::open(&root, &path("file"), &Arc::default()).unwrap_err();
    assert!(error.to_string().contains("a directory has this name"));
}

fn mode_of(path: &Path) -> u32 {
    MetadataExt::mode(&path.metadata().unwrap()) & 0o7777
}

#[test]
fn nobody_else_may_read_what_is_not_complete() {
    let (dir, root) = root();
    let part = dir.path().join(PartName::of("file"));
    std::fs::write(&part, "from before").unwrap();
    let _open = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
    assert_eq!(mode_of(&part), 0o600);
}

#[test]
fn a_mode_is_wider_neither_than_the_source_nor_than_what_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, root) = root();
    let file = dir.path().join("file");
    for (source, old, expected) in [
        (0o600, None, 0o600),
        (0o700, None, 0o700),
        (0o4777, None, 0o777 & !creation_mask()),
        (0o755, Some(0o600), 0o600),
        (0o600, Some(0o644), 0o600),
        (0o664, Some(0o666), 0o664),
    ] {
        let _ = std::fs::remove_file(&file);
        if let Some(old) = old {
            std::fs::write(&file, "old").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(old)).unwrap();
        }
        let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
        part.append(b"new").unwrap();
        part.commit(&Offer { mode: source, ..offer(3) }).unwrap();
        assert_eq!(mode_of(&file), expected, "{source:o} over {old:?}");
    }
}

#[test]
fn a_file_that_is_replaced_keeps_its_owner() {
    let (dir, root) = root();
    let file = dir.path().join("file");
    std::fs::write(&file, "old").unwrap();
    if chown(&file, Some(12_345), Some(12_345)).is_err() {
        eprintln!("skipped: only root may give files away");
        return;
    }
    let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
    part.append(b"new").unwrap();
    part.commit(&offer(3)).unwrap();
    let found = file.metadata().unwrap();
    assert_eq!((found.uid(), found.gid()), (12_345, 12_345));
    assert_eq!(std::fs::read(file).unwrap(), b"new");
}

#[test]
fn zeros_become_a_hole_wherever_the_pieces_of_a_file_begin() {
    let (dir, root) = root();
    let policy = Arc::new(Policy { preserve: true, ..Policy::default() });
    let mut content = vec![0; 8_000_000];
    content[..10].fill(1);
    content[4_000_000..4_000_100].fill(1);
    let mut part = PartFile::open(&root, &path("file"), &policy).unwrap();
    part.append(&content[..33]).unwrap();
    // None of them begins or ends where a block does.
    for piece in content[33..].chunks(20_000) {
        part.append(piece).unwrap();
    }
    part.commit(&offer(content.len() as u64)).unwrap();
    let file = dir.path().join("file");
    assert!(std::fs::read(&file).unwrap() == content);
    let stored = file.metadata().unwrap().blocks() * 512;
    // A file system may store more than a block at a time.
    assert!(stored < 1_000_000, "{stored} bytes are stored of 110");
}

#[test]
fn links_and_pipes_are_not_replaced() {
    let (dir, root) = root();
    std::os::unix::fs::symlink("elsewhere", dir.path().join("link")).unwrap();
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for name in ["link", "fifo"] {
        let error = PartFile::open(&root, &path(name), &Arc::default()).unwrap_err();
        assert!(matches!(error, TransferError::Root(_)), "{name}: {error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}
