use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;
use crate::protocol::Suffix;

fn path(text: &str) -> WirePath {
    WirePath::new(text).unwrap()
}

fn target(text: &str) -> LinkTarget {
    LinkTarget::new(text).unwrap()
}

/// A directory beside a secret, and an editor for it.
fn editor(policy: Policy) -> (tempfile::TempDir, std::path::PathBuf, Editor) {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(dir.path().join("secret"), "secret").unwrap();
    fs::write(tree.join("file"), "file").unwrap();
    fs::write(tree.join("sub/deep"), "deep").unwrap();
    let root = Arc::new(Root::open(&tree).unwrap());
    (dir, tree, Editor::new(root, policy))
}

const TIME: Mtime = Mtime { seconds: 1_000_000, nanos: 7 };

#[test]
fn files_links_and_empty_directories_are_removed_and_full_ones_stay() {
    let (dir, tree, editor) = editor(Policy::default());
    symlink("../secret", tree.join("link")).unwrap();
    let apply = |edit| editor.apply(&edit).unwrap();
    assert_eq!(apply(Edit::RemoveDirectory(path("sub"))), Edited::Kept);
    for name in ["file", "link", "sub/deep"] {
        assert_eq!(apply(Edit::Remove(path(name))), Edited::Done, "{name}");
        assert_eq!(apply(Edit::Remove(path(name))), Edited::Unchanged, "{name}");
    }
    assert_eq!(apply(Edit::RemoveDirectory(path("sub"))), Edited::Done);
    assert_eq!(apply(Edit::Remove(path("sub/deep"))), Edited::Unchanged);
    assert_eq!(fs::read_dir(&tree).unwrap().count(), 0);
    assert!(dir.path().join("secret").exists());
}

#[test]
fn nothing_is_removed_from_a_file_system_that_is_mounted_inside() {
    let device = |path: &str| fs::metadata(path).map(|stat| stat.dev());
    let made = tempfile::Builder::new().prefix("tack-test-").tempdir_in("/dev/shm");
    let (Ok(outer), Ok(inner), Ok(dir)) = (device("/dev"), device("/dev/shm"), made) else {
        eprintln!("skipped: nothing is mounted at /dev/shm");
        return;
    };
    if outer == inner {
        eprintln!("skipped: nothing is mounted at /dev/shm");
        return;
    }
    fs::write(dir.path().join("file"), "").unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let root = Arc::new(Root::open(std::path::Path::new("/dev")).unwrap());
    let editor = Editor::new(root, Policy::default());
    let below = dir.path().strip_prefix("/dev").unwrap().to_str().unwrap();
    let remove = Edit::Remove(path(&format!("{below}/file")));
    let remove_directory = Edit::RemoveDirectory(path(&format!("{below}/sub")));
    for edit in [remove, remove_directory] {
        assert_eq!(editor.apply(&edit).unwrap(), Edited::Kept, "{edit:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn nothing_is_changed_through_a_link() {
    let (dir, tree, editor) = editor(Policy::default());
    symlink(dir.path(), tree.join("up")).unwrap();
    for edit in [
        Edit::Remove(path("up/secret")),
        Edit::RemoveDirectory(path("up/tree")),
        Edit::Symlink(path("up/new"), target("x"), TIME),
        Edit::HardLink(path("copy"), path("up/secret")),
        Edit::Directory(path("up"), 0, TIME),
    ] {
        assert!(editor.apply(&edit).is_err(), "{edit:?}");
    }
    let link = Edit::HardLink(path("copy"), path("up"));
    assert!(editor.apply(&link).is_err(), "a link to a link");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    assert!(dir.path().join("secret").exists() && !tree.join("copy").exists());
}

#[test]
fn a_symbolic_link_is_made_with_its_time_and_then_unchanged() {
    let (_dir, tree, editor) = editor(Policy::default());
    for text in ["/etc/passwd", "../../anywhere", "sub"] {
        let edit = Edit::Symlink(path("link"), target(text), TIME);
        assert_eq!(editor.apply(&edit).unwrap(), Edited::Done);
        assert_eq!(editor.apply(&edit).unwrap(), Edited::Unchanged);
        assert_eq!(fs::read_link(tree.join("link")).unwrap().to_str(), Some(text));
        let link = tree.join("link").symlink_metadata().unwrap();
        assert_eq!((link.mtime(), link.mtime_nsec()), (1_000_000, 7));
    }
    let over_directory = Edit::Symlink(path("sub"), target("x"), TIME);
    assert!(editor.apply(&over_directory).is_err());
    let over_file = Edit::Symlink(path("file"), target("x"), TIME);
    assert_eq!(editor.apply(&over_file).unwrap(), Edited::Done);
    assert_eq!(fs::read_dir(&tree).unwrap().count(), 3);
}

#[test]
fn with_update_a_link_takes_the_place_of_nothing_that_is_newer() {
    let (_dir, tree, editor) = editor(Policy { update: true, ..Policy::default() });
    symlink("mine", tree.join("link")).unwrap();
    for name in ["file", "link"] {
        let edit = Edit::Symlink(path(name), target("x"), TIME);
        assert_eq!(editor.apply(&edit).unwrap(), Edited::Kept, "{name}");
        let later = Mtime { seconds: i64::MAX, nanos: 0 };
        let edit = Edit::Symlink(path(name), target("x"), later);
        assert_eq!(editor.apply(&edit).unwrap(), Edited::Done, "{name}");
    }
}

#[test]
fn another_name_of_a_file_replaces_what_had_it() {
    let (_dir, tree, editor) = editor(Policy::default());
    for name in ["copy", "sub/deep"] {
        let edit = Edit::HardLink(path(name), path("file"));
        assert_eq!(editor.apply(&edit).unwrap(), Edited::Done);
        assert_eq!(editor.apply(&edit).unwrap(), Edited::Unchanged);
        let inode = |path| fs::metadata(path).unwrap().ino();
        assert_eq!(inode(tree.join(name)), inode(tree.join("file")));
    }
    let missing = Edit::HardLink(path("copy"), path("none"));
    assert!(editor.apply(&missing).is_err());
    assert_eq!(fs::read(tree.join("copy")).unwrap(), b"file");
}

#[test]
fn what_is_removed_or_replaced_is_kept_under_another_name() {
    let backup = Some(Suffix::new("~").unwrap());
    let (_dir, tree, editor) = editor(Policy { backup, ..Policy::default() });
    editor.apply(&Edit::Remove(path("file"))).unwrap();
    editor.apply(&Edit::Symlink(path("sub/deep"), target("x"), TIME)).unwrap();
    assert_eq!(fs::read(tree.join("file~")).unwrap(), b"file");
    assert_eq!(fs::read(tree.join("sub/deep~")).unwrap(), b"deep");
    assert!(!tree.join("file").exists());
}

#[test]
fn what_has_the_kept_name_already_as_another_link_is_removed() {
    let backup = Some(Suffix::new("~").unwrap());
    let (_dir, tree, editor) = editor(Policy { backup, ..Policy::default() });
    fs::hard_link(tree.join("file"), tree.join("file~")).unwrap();
    assert_eq!(editor.apply(&Edit::Remove(path("file"))).unwrap(), Edited::Done);
    assert!(!tree.join("file").exists());
    assert_eq!(fs::read(tree.join("file~")).unwrap(), b"file");
}

#[test]
fn what_is_there_stays_where_the_user_says_so() {
    let policy = Policy { ignore_existing: true, ..Policy::default() };
    let (_dir, tree, editor) = editor(policy);
    let edit = Edit::Symlink(path("file"), target("x"), TIME);
    assert_eq!(editor.apply(&edit).unwrap(), Edited::Kept);
    assert_eq!(fs::read(tree.join("file")).unwrap(), b"file");
}

#[test]
fn a_directory_takes_permissions_and_time_but_what_is_served_stays_usable() {
    let (_dir, tree, editor) = editor(Policy::default());
    let edit = Edit::Directory(path("sub"), 0o107_550, TIME);
    assert_eq!(editor.apply(&edit).unwrap(), Edited::Done);
    assert_eq!(editor.apply(&edit).unwrap(), Edited::Unchanged);
    let sub = tree.join("sub").metadata().unwrap();
    assert_eq!((sub.permissions().mode() & 0o7777, sub.mtime()), (0o3550, 1_000_000));
    let root = Arc::new(Root::open(&tree).unwrap());
    let server = Editor::of_server(root, Policy::default());
    server.apply(&Edit::Directory(WirePath::root(), 0o000, TIME)).unwrap();
    assert_eq!(tree.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_hidden_file_is_neither_removed_nor_replaced_nor_linked_to() {
    let (_dir, tree, _) = editor(Policy::default());
    let mut root = Root::open(&tree).unwrap();
    root.hide(&tree.join("file~")).unwrap();
    let backup = Some(Suffix::new("~").unwrap());
    let editor = Editor::of_server(Arc::new(root), Policy { backup, ..Policy::default() });
    fs::write(tree.join("file~"), "key").unwrap();
    for edit in [
        Edit::Remove(path("file~")),
        Edit::HardLink(path("copy"), path("file~")),
        Edit::Symlink(path("file~"), target("x"), TIME),
        Edit::Remove(path("file")),
    ] {
        assert!(editor.apply(&edit).is_err(), "{edit:?}");
    }
    assert_eq!(fs::read(tree.join("file~")).unwrap(), b"key");
}
