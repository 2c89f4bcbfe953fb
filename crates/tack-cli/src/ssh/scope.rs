//! What of the file system a transfer that ssh has started gets at.

use std::io;
use std::path::{Path, PathBuf};

use super::Wanted;
use crate::destination::{leads_nowhere, nowhere};
use crate::error::Error;
use crate::exit::Exit;
use tack_transfer::{NameError, WirePath, printable};

/// A directory, and paths below it. Links that the user has named are followed, as `cp` does: whoever may
/// log in may read where they lead.
#[derive(Debug, PartialEq, Eq)]
pub struct Scope {
    /// The directory to serve.
    pub root: PathBuf,
    /// What is wanted of it.
    pub paths: Vec<WirePath>,
    /// Whether the path to write to is a directory.
    pub is_directory: bool,
}

impl Scope {
    /// Finds what is wanted; paths are relative to `home`.
    pub fn find(wanted: &Wanted, home: &Path) -> Result<Self, Error> {
        match wanted {
            Wanted::Read(paths) => Self::to_read(paths, home),
            Wanted::Write(path) => Self::to_write(path, home),
        }
    }

    /// Whether nothing is there yet of what is to be written under `names`, or of anything if there are none.
    pub fn has_nothing(&self, names: &[String]) -> bool {
        let Some(path) = self.paths.first() else { return false };
        let place = self.root.join(path.as_str());
        if is_absent(&place) {
            return true;
        }
        let Ok(mut entries) = place.read_dir() else { return false };
        let is_free = |name: &String| {
            let is_one = Path::new(name).file_name() == Some(name.as_ref());
            is_one && is_absent(&place.join(name))
        };
        entries.next().is_none() || !names.is_empty() && names.iter().all(is_free)
    }

    fn to_read(paths: &[String], home: &Path) -> Result<Self, Error> {
        let mut found = Vec::new();
        for path in paths {
            found.push(home.join(tilde(path)?).canonicalize().map_err(failed(path))?);
        }
        let parent = |path: &PathBuf| path.parent().unwrap_or(Path::new("/")).to_owned();
        let root = found.iter().map(parent).reduce(|left, right| common(&left, &right));
        let root = root.ok_or_else(|| Error::Usage("nothing is wanted".to_owned()))?;
        let paths = found.iter().map(|path| below(&root, path)).collect::<Result<_, _>>()?;
        Ok(Self { root, paths, is_directory: false })
    }

    fn to_write(path: &str, home: &Path) -> Result<Self, Error> {
        let full = home.join(tilde(path)?);
        // Only a directory has a name within it for itself.
        let is_directory = path.is_empty() || path.ends_with('/') || path.ends_with("/.");
        match full.canonicalize() {
            Ok(found) if found.is_dir() => {
                return Ok(Self {
                    root: found,
                    paths: vec![WirePath::root()],
                    is_directory: true,
                });
            }
            Ok(_) if is_directory => {
                return Err(failed(path)(io::ErrorKind::NotADirectory.into()));
            }
            Ok(found) => {
                let root = found.parent().unwrap_or(Path::new("/")).to_owned();
                let paths = vec![below(&root, &found)?];
                return Ok(Self { root, paths, is_directory });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(path)(error)),
        }
        // What does not exist yet is below something that does.
        let existing = full.ancestors().skip(1).find(|ancestor| ancestor.exists());
        let existing = existing.unwrap_or(Path::new("/"));
        if leads_nowhere(&full) {
            let text = nowhere(&printable(path));
            return Err(Error::OtherEnd { text, exit: Exit::Remote });
        }
        let root = existing.canonicalize().map_err(failed(path))?;
        if !root.is_dir() {
            return Err(failed(path)(io::ErrorKind::NotADirectory.into()));
        }
        let paths = vec![below(existing, &full)?];
        Ok(Self { root, paths, is_directory })
    }
}

/// Whether it is certain that nothing has this name.
fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A path below the home of whoever logs in, which is written as `~` where a shell would read it. What a shell would
/// take for the home of somebody else is refused: it was hardly meant to be a name.
fn tilde(path: &str) -> Result<&str, Error> {
    let Some(rest) = path.strip_prefix('~') else { return Ok(path) };
    if rest.is_empty() || rest.starts_with('/') {
        return Ok(rest.trim_start_matches('/'));
    }
    let text = printable(path);
    Err(Error::OtherEnd {
        text: format!(
            "{text}: only ~ alone stands for a home, that of whoever logs in; write the whole path of another one, \
             or ./{text} for what is called so"
        ),
        exit: Exit::Usage,
    })
}

fn common(left: &Path, right: &Path) -> PathBuf {
    let both = left.components().zip(right.components());
    both.take_while(|(left, right)| left == right).map(|(left, _)| left).collect()
}

/// `path` relative to `root`, which it lies in.
fn below(root: &Path, path: &Path) -> Result<WirePath, Error> {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let Some(text) = relative.to_str() else {
        return Err(unusable(&NameError::NotUtf8(printable(&relative.to_string_lossy()))));
    };
    WirePath::new(text).map_err(|error| unusable(&error))
}

/// The error of a name that no command takes.
fn unusable(name: &NameError) -> Error {
    Error::OtherEnd { text: name.to_string(), exit: Exit::Usage }
}

/// What the client is told.
fn failed(path: &str) -> impl FnOnce(io::Error) -> Error {
    let text = printable(path);
    move |cause| {
        let is_denied = cause.kind() == io::ErrorKind::PermissionDenied;
        let exit = if is_denied { Exit::Refused } else { Exit::Remote };
        Error::OtherEnd { text: format!("{text}: {cause}"), exit }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A home with the file `a/file`, the empty directory `b` and links to both.
    fn home() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        // Nobody else has files beside it.
        let home = dir.path().canonicalize().unwrap().join("home");
        fs::create_dir_all(home.join("a")).unwrap();
        fs::create_dir_all(home.join("b")).unwrap();
        fs::write(home.join("a/file"), "x").unwrap();
        symlink("a/file", home.join("to-file")).unwrap();
        symlink("b", home.join("to-b")).unwrap();
        (dir, home)
    }

    fn paths(scope: &Scope) -> Vec<&str> {
        scope.paths.iter().map(WirePath::as_str).collect()
    }

    #[test]
    fn what_is_read_lies_in_the_directory_that_all_of_it_shares() {
        let (_dir, home) = home();
        let find = |read: &[&str]| {
            let wanted = Wanted::Read(read.iter().map(|path| (*path).to_owned()).collect());
            Scope::find(&wanted, &home).unwrap()
        };
        for (read, root, expected) in [
            (&["a/file"][..], home.join("a"), &["file"][..]),
            (&["~/a/file"], home.join("a"), &["file"]),
            (&["to-file"], home.join("a"), &["file"]),
            (&["a/file", "b"], home.clone(), &["a/file", "b"]),
            (&["a/file", "a/file"], home.join("a"), &["file", "file"]),
            (&["a/../b/"], home.clone(), &["b"]),
        ] {
            let scope = find(read);
            assert_eq!(
                (scope.root.clone(), paths(&scope)),
                (root, expected.to_vec()),
                "{read:?}"
            );
        }
        let name = home.file_name().unwrap().to_str().unwrap();
        assert_eq!(paths(&find(&[""])), [name], "the home itself");
        assert_eq!(paths(&find(&["/"])), [""]);
    }

    #[test]
    fn what_is_written_may_be_there_or_not() {
        let (_dir, home) = home();
        let find = |path: &str| Scope::find(&Wanted::Write(path.to_owned()), &home).unwrap();
        for (path, root, expected, is_directory) in [
            ("", home.clone(), "", true),
            ("b", home.join("b"), "", true),
            ("to-b/", home.join("b"), "", true),
            ("a/file", home.join("a"), "file", false),
            ("to-file", home.join("a"), "file", false),
            ("new", home.clone(), "new", false),
            ("a/x/y/", home.join("a"), "x/y", true),
            ("to-b/x", home.join("b"), "x", false),
            ("a/../new", home.clone(), "new", false),
            ("a/../new/er", home.clone(), "new/er", false),
            ("new/.", home.clone(), "new", true),
            ("b/.", home.join("b"), "", true),
        ] {
            let scope = find(path);
            assert_eq!((scope.root.clone(), paths(&scope)), (root, vec![expected]), "{path}");
            assert_eq!(scope.is_directory, is_directory, "{path}");
        }
    }

    #[test]
    fn a_new_path_may_lead_out_of_a_directory_that_exists_and_of_no_other() {
        let (_dir, home) = home();
        let find = |path: &str| Scope::find(&Wanted::Write(path.to_owned()), &home);
        let beside = find("../new").unwrap();
        assert_eq!(
            (beside.root.as_path(), paths(&beside)),
            (home.parent().unwrap(), vec!["new"])
        );
        let error = find("missing/../new").unwrap_err();
        assert!(error.to_string().contains("missing/../new: .. leads nowhere"), "{error}");
        assert_eq!(error.exit(), Exit::Remote);
    }

    #[test]
    fn nothing_is_there_only_if_no_name_is_taken() {
        let (_dir, home) = home();
        symlink("nowhere", home.join("a/dangling")).unwrap();
        let has_nothing = |path: &str, names: &[&str]| {
            let scope = Scope::find(&Wanted::Write(path.to_owned()), &home).unwrap();
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            scope.has_nothing(&names)
        };
        for (path, names, expected) in [
            ("a", &["new"][..], true),
            ("a/", &["new", "newer"], true),
            ("a", &["new", "file"], false),
            ("a", &["dangling"], false),
            ("a", &["new/er"], false),
            ("a", &[".."], false),
            ("a", &[], false),
            ("a/file", &["file"], false),
            ("b", &[], true),
            ("to-b", &["new"], true),
            ("new", &[], true),
            ("new/er/", &["file"], true),
            ("", &["a"], false),
            ("", &["new"], true),
        ] {
            assert_eq!(has_nothing(path, names), expected, "{path} {names:?}");
        }
    }

    #[test]
    fn the_home_of_another_user_is_refused_and_a_name_that_looks_like_one_has_its_directory_before_it()
     {
        let (_dir, home) = home();
        fs::write(home.join("~bob"), "x").unwrap();
        for wanted in [
            Wanted::Write("~bob/x".to_owned()),
            Wanted::Write("~bob".to_owned()),
            Wanted::Read(vec!["a/file".to_owned(), "~bob".to_owned()]),
        ] {
            let error = Scope::find(&wanted, &home).unwrap_err();
            assert!(error.to_string().starts_with("~bob"), "{wanted:?}: {error}");
            assert!(error.to_string().contains("./~bob"), "{wanted:?}: {error}");
            assert_eq!(error.exit(), Exit::Usage, "{wanted:?}");
        }
        assert!(!home.join("~bob/x").exists());
        let read = Scope::find(&Wanted::Read(vec!["./~bob".to_owned()]), &home).unwrap();
        assert_eq!(paths(&read), ["~bob"]);
        let written = Scope::find(&Wanted::Write("./~eve/x".to_owned()), &home).unwrap();
        assert_eq!(paths(&written), ["~eve/x"]);
        for own in ["~", "~/", "~//", "~/./"] {
            let scope = Scope::find(&Wanted::Write(own.to_owned()), &home).unwrap();
            assert_eq!((scope.root, scope.is_directory), (home.clone(), true), "{own}");
        }
    }

    #[test]
    fn what_is_not_there_or_no_directory_is_told_with_its_path() {
        let (_dir, home) = home();
        let missing = Wanted::Read(vec!["a/nothing".to_owned()]);
        let error = Scope::find(&missing, &home).unwrap_err();
        assert!(error.to_string().contains("a/nothing"), "{error}");
        for path in ["a/file/", "a/file/x", "x/../y"] {
            assert!(Scope::find(&Wanted::Write(path.to_owned()), &home).is_err(), "{path}");
        }
    }
}
