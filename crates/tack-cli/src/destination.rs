//! Where what is fetched may go.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::error::Error;

/// A directory that no mirror empties.
#[derive(Debug)]
pub struct Protected {
    /// Device and number: several paths may lead there.
    pub number: (u64, u64),
    /// What it is, behind its path.
    pub what: &'static str,
}

/// Directories of which hardly anybody means all content: the root, the home and the current directory, with all that
/// they lie in.
pub fn protected() -> Vec<Protected> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let home = home.or_else(env::home_dir);
    let mut found = Vec::new();
    for (path, what) in [
        (Some(PathBuf::from("/")), "is the root of the file system"),
        (home, "is your home directory, or holds it"),
        (env::current_dir().ok(), "is the current directory, or holds it"),
    ] {
        let Some(full) = path.and_then(|path| path.canonicalize().ok()) else { continue };
        let numbers = full.ancestors().filter_map(number_at);
        found.extend(numbers.map(|number| Protected { number, what }));
    }
    found
}

/// Refuses to mirror into a protected directory.
pub fn check_mirror(dest: &Path) -> Result<(), Error> {
    // What does not exist has nothing to lose.
    let Some(number) = number_at(dest) else { return Ok(()) };
    match protected().iter().find(|protected| protected.number == number) {
        None => Ok(()),
        Some(Protected { what, .. }) => Err(Error::Usage(format!(
            "--delete would remove all that the source does not have from {}, which {what}; name a directory for the \
             source alone, such as ./mirror",
            dest.display()
        ))),
    }
}

/// Refuses a destination that [leads nowhere](leads_nowhere).
pub fn check_path(dest: &Path) -> Result<(), Error> {
    if leads_nowhere(dest) { Err(Error::Usage(nowhere(&dest.display()))) } else { Ok(()) }
}

/// Whether `..` follows a component that does not exist: once that is made, the path leads to a directory that was there
/// before.
pub fn leads_nowhere(path: &Path) -> bool {
    // Of what can't be looked at, the system says why.
    let is_there = |path: &&Path| path.try_exists().unwrap_or(true);
    let existing = path.ancestors().find(is_there).unwrap_or(Path::new(""));
    let missing = path.strip_prefix(existing).unwrap_or(path);
    missing.components().any(|component| component == Component::ParentDir)
}

/// Says of a path that it leads nowhere, and what to do.
pub fn nowhere(path: &impl std::fmt::Display) -> String {
    format!(
        "{path}: .. leads nowhere from a directory that does not exist; write the path without it"
    )
}

fn number_at(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}
