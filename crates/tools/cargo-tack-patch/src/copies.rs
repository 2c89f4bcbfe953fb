//! The folder with the patched copies.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::{beside, write_below};
use crate::patch::Patch;
use crate::renamed::{self, UNPATCHED};
use crate::source::Files;

/// The file that tells the folder from others.
const MARKER: &str = "tack-patch.toml";

/// What is not copied of a published package: Cargo's own records, and lock files, which count for
/// programs alone.
const NOT_COPIED: [&str; 4] =
    ["Cargo.toml.orig", "Cargo.lock", ".cargo-ok", ".cargo_vcs_info.json"];

/// What is in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing, or there is no folder.
    Missing,
    /// Something that is not ours.
    Foreign,
    /// Copies of another build of this program.
    Outdated,
    /// The copies that this build makes.
    Current,
}

#[derive(Serialize, Deserialize)]
struct Marker {
    digest: String,
    quiche_version: String,
    quiche_checksum: String,
}

/// Looks into the folder.
pub fn state(folder: &Path, patch: &Patch<'_>) -> Result<State, Error> {
    let marker = folder.join(MARKER);
    if let Ok(text) = fs::read_to_string(&marker) {
        let marker: Option<Marker> = toml::from_str(&text).ok();
        let is_current = marker.is_some_and(|marker| marker.digest == patch.digest());
        return Ok(if is_current { State::Current } else { State::Outdated });
    }
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            Ok(if entries.next().is_none() { State::Missing } else { State::Foreign })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(State::Missing),
        Err(error) => Err(Error::at(folder)(error)),
    }
}

/// Where copies of another build lie in the new ones until these have proved to be of use. Beside them they could be
/// members of the workspace, which excludes the folder of the copies alone.
const REPLACED: &str = ".replaced";

/// Copies that were written, with those of another build that they replace.
#[derive(Debug)]
pub struct Written {
    folder: PathBuf,
    has_old: bool,
}

/// Writes the copies; those of another build are replaced, and stay if this fails.
pub fn write(folder: &Path, patch: &Patch<'_>, quiche: &Files) -> Result<Written, Error> {
    let folder = &behind_links(folder);
    let new = beside(folder, ".new");
    remove_own(&new)?;
    let written = fill(&new, patch, quiche).and_then(|()| Written::swap(folder, &new));
    if written.is_err() {
        // Why the copies cannot be written says more than why a part of them cannot be deleted.
        let _ = remove_all(&new);
    }
    written
}

impl Written {
    /// Moves a new folder to where another one is, or none.
    fn swap(folder: &Path, new: &Path) -> Result<Self, Error> {
        let old = beside(folder, ".old");
        remove_own(&old)?;
        let has_old = match fs::rename(folder, &old) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(Error::at(folder)(error)),
        };
        let moved = fs::rename(new, folder).and_then(|()| {
            if has_old { fs::rename(&old, folder.join(REPLACED)) } else { Ok(()) }
        });
        let written = Self { folder: folder.to_owned(), has_old };
        match moved {
            Ok(()) => Ok(written),
            Err(error) => {
                written.take_back()?;
                Err(Error::at(folder)(error))
            }
        }
    }

    /// Deletes what was replaced.
    pub fn keep(self) -> Result<(), Error> {
        remove_all(&self.folder.join(REPLACED))
    }

    /// Puts what was replaced back.
    pub fn take_back(self) -> Result<(), Error> {
        let old = beside(&self.folder, ".old");
        let replaced = self.folder.join(REPLACED);
        if replaced.exists() {
            fs::rename(&replaced, &old).map_err(Error::at(&replaced))?;
        }
        remove_all(&self.folder)?;
        if !self.has_old {
            return Ok(());
        }
        fs::rename(&old, &self.folder).map_err(Error::at(&old))
    }
}

/// The folder and those of the packages in it.
pub fn packages(folder: &Path, patch: &Patch<'_>) -> Vec<PathBuf> {
    let names = patch.crates().into_iter().chain([UNPATCHED]);
    iter::once(folder.to_owned()).chain(names.map(|name| folder.join(name))).collect()
}

/// Removes the copies, if they are there.
pub fn remove(folder: &Path) -> Result<(), Error> {
    remove_all(&behind_links(folder))?;
    if folder.is_symlink() {
        fs::remove_file(folder).map_err(Error::at(folder))
    } else {
        Ok(())
    }
}

/// Where a folder really is: to rename a link would move that alone.
fn behind_links(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Removes a folder, if it is there.
fn remove_all(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::at(folder)(error))
        }
        _ => Ok(()),
    }
}

/// Removes what an earlier run has left there, and nothing else: every such folder has the marker, or nothing yet.
fn remove_own(folder: &Path) -> Result<(), Error> {
    let is_own = folder.join(MARKER).exists()
        || fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if is_own || !folder.exists() {
        remove_all(folder)
    } else {
        Err(Error::ForeignFolder(folder.to_owned()))
    }
}

fn fill(folder: &Path, patch: &Patch<'_>, quiche: &Files) -> Result<(), Error> {
    // First, so that what is left of this can be told from what is somebody else's.
    let marker = Marker {
        digest: patch.digest(),
        quiche_version: patch.quiche_version.to_owned(),
        quiche_checksum: patch.quiche_checksum.to_owned(),
    };
    let marker = toml::to_string(&marker).map_err(|error| Error::malformed(folder, &error))?;
    let marker = format!("# Written by `cargo tack-patch`.\n{marker}");
    write_below(folder, Path::new(MARKER), marker.as_bytes())?;
    for (name, text) in patch.files {
        let text = match name.strip_suffix("/Cargo.toml") {
            Some(package) => &renamed::copied(package, text, patch)?,
            None => *text,
        };
        write_below(folder, Path::new(name), text.as_bytes())?;
    }
    for (name, content) in quiche {
        if NOT_COPIED.iter().any(|left_out| name == Path::new(left_out)) {
            continue;
        }
        let path = Path::new(UNPATCHED).join(name);
        if name == Path::new("Cargo.toml") {
            let published = std::str::from_utf8(content)
                .map_err(|error| Error::malformed(&path, &error))?;
            write_below(folder, &path, renamed::unpatched(published)?.as_bytes())?;
        } else {
            write_below(folder, &path, content)?;
        }
    }
    write_below(folder, Path::new("Cargo.toml"), renamed::workspace(patch)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiche() -> Files {
        let manifest = b"[package]\nname = \"quiche\"\n[lib]\nname = \"quiche\"\n".to_vec();
        vec![
            ("Cargo.toml".into(), manifest),
            ("Cargo.toml.orig".into(), Vec::new()),
            ("src/lib.rs".into(), b"// quiche".to_vec()),
        ]
    }

    #[test]
    fn what_lies_beside_the_folder_under_its_names_is_not_deleted() {
        for suffix in [".new", ".old"] {
            let parent = tempfile::tempdir().unwrap();
            let folder = parent.path().join("copies");
            let other = beside(&folder, suffix);
            fs::create_dir(&other).unwrap();
            fs::write(other.join("thesis.tex"), "ten years").unwrap();
            let refused = write(&folder, &Patch::embedded(), &quiche()).unwrap_err();
            assert!(matches!(&refused, Error::ForeignFolder(named) if *named == other));
            assert_eq!(fs::read_to_string(other.join("thesis.tex")).unwrap(), "ten years");
            assert!(!folder.exists());
            fs::remove_dir_all(&other).unwrap();
            write(&folder, &Patch::embedded(), &quiche()).unwrap().keep().unwrap();
        }
    }

    #[test]
    fn a_folder_is_written_once_and_recognised() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("copies");
        let patch = Patch::embedded();
        assert_eq!(state(&folder, &patch).unwrap(), State::Missing);
        write(&folder, &patch, &quiche()).unwrap().keep().unwrap();
        assert_eq!(state(&folder, &patch).unwrap(), State::Current);
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(read("quiche-unpatched/src/lib.rs"), "// quiche");
        assert!(read("quiche-unpatched/Cargo.toml").contains("quiche_unpatched"));
        assert!(read("quiche/src/lib.rs").contains("pub use quiche::*;"));
        assert!(!folder.join("quiche-unpatched/Cargo.toml.orig").exists());
        assert_eq!(
            fs::read_dir(parent.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    /// Copies of another build, in a folder of their own.
    fn outdated() -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("copies");
        let old = Patch { quiche_checksum: "old", ..Patch::embedded() };
        write(&folder, &old, &quiche()).unwrap().keep().unwrap();
        fs::write(folder.join("quiche/gone.rs"), "").unwrap();
        assert_eq!(state(&folder, &Patch::embedded()).unwrap(), State::Outdated);
        (parent, folder)
    }

    /// The copies of another build are where they were, and nothing else is.
    fn assert_outdated_alone(parent: &Path, folder: &Path) {
        assert!(folder.join("quiche/gone.rs").exists());
        assert_eq!(fs::read_dir(parent).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn copies_of_another_build_are_replaced() {
        let (parent, folder) = outdated();
        let new = Patch::embedded();
        write(&folder, &new, &quiche()).unwrap().keep().unwrap();
        assert_eq!(state(&folder, &new).unwrap(), State::Current);
        assert!(!folder.join("quiche/gone.rs").exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn copies_of_another_build_lie_in_the_new_ones_meanwhile() {
        let (parent, folder) = outdated();
        let written = write(&folder, &Patch::embedded(), &quiche()).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing is beside them");
        assert_eq!(state(&folder, &Patch::embedded()).unwrap(), State::Current);
        written.take_back().unwrap();
        assert_outdated_alone(parent.path(), &folder);
    }

    #[cfg(unix)]
    #[test]
    fn a_linked_folder_stays_linked_until_the_copies_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let [folder, link] = ["real", "link"].map(|name| parent.path().join(name));
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        for round in ["first", "second"] {
            let patch = Patch { quiche_checksum: round, ..Patch::embedded() };
            write(&link, &patch, &quiche()).unwrap().keep().unwrap();
            assert!(link.is_symlink());
            assert_eq!(state(&folder, &patch).unwrap(), State::Current);
            assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
        }
        remove(&link).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn copies_of_another_build_come_back() {
        let (parent, folder) = outdated();
        write(&folder, &Patch::embedded(), &quiche()).unwrap().take_back().unwrap();
        assert_outdated_alone(parent.path(), &folder);
    }

    #[test]
    fn copies_of_another_build_stay_if_the_new_ones_cannot_be_moved_or_written() {
        let (parent, folder) = outdated();
        let error = Written::swap(&folder, &parent.path().join("nowhere")).unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error}");
        assert_outdated_alone(parent.path(), &folder);

        let broken = vec![("Cargo.toml".into(), b"[package\n".to_vec())];
        write(&folder, &Patch::embedded(), &broken).unwrap_err();
        assert_outdated_alone(parent.path(), &folder);
    }

    #[test]
    fn a_folder_of_the_users_is_foreign() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        assert_eq!(state(folder.path(), &Patch::embedded()).unwrap(), State::Foreign);
    }
}
