//! What can go wrong, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why the tool did nothing. Whatever it had begun is taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that has to be changed is read-only.
    #[error("{} may not be written to: allow it, for instance with `chmod u+w`", .0.display())]
    ReadOnly(PathBuf),
    /// Cargo cannot be started.
    #[error("cannot run `{program}`: {source}")]
    NoCargo {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Cargo has failed.
    #[error("`cargo {command}` has failed:\n{message}")]
    Cargo {
        /// Its arguments.
        command: String,
        /// What it has printed.
        message: String,
    },
    /// A file is not what Cargo writes or reads.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The workspace does not depend on quiche.
    #[error("nothing in {} depends on quiche: there is nothing to patch", lock.display())]
    NoQuiche {
        /// The lock file that was searched.
        lock: PathBuf,
    },
    /// The workspace depends on a release that tacklib does not know.
    #[error(
        "this workspace uses quiche {found}, and tacklib is made for {wanted}: ask for \
         `quiche = \"{wanted}\"`, or run `cargo update quiche --precise {wanted}` if {wanted} is allowed"
    )]
    OtherVersion {
        /// Which one is used.
        found: String,
        /// Which one is needed.
        wanted: String,
    },
    /// quiche does not come from crates.io.
    #[error(
        "quiche {version} comes from {source_id}; `[patch.crates-io]` changes only what comes from crates.io"
    )]
    OtherSource {
        /// Its version.
        version: String,
        /// Where it comes from, as in the lock file.
        source_id: String,
    },
    /// The workspace replaces quiche already.
    #[error(
        "{} replaces quiche already (`{entry}`): take that out of [patch] first", manifest.display()
    )]
    OtherPatch {
        /// The workspace's manifest.
        manifest: PathBuf,
        /// The entry there.
        entry: String,
    },
    /// The copies are in another folder than the one that is named.
    #[error(
        "the copies are in {}: to have them elsewhere, run `cargo tack-patch --remove` first", .0.display()
    )]
    OtherFolder(PathBuf),
    /// The folder for the copies holds something else.
    #[error(
        "{} is not empty, and not from `cargo tack-patch`: name another folder with --dir", .0.display()
    )]
    ForeignFolder(PathBuf),
    /// Cargo has no source of quiche.
    #[error(
        "the source of quiche {version} is neither in {} nor vendored: run `cargo fetch` in the workspace \
         and try again", cache.display()
    )]
    NoSource {
        /// The release.
        version: String,
        /// Cargo's folder of crate files.
        cache: PathBuf,
    },
    /// The source is not what was published.
    #[error(
        "{} has the checksum {found}, and {wanted} was published: delete the file and run `cargo fetch`",
        path.display()
    )]
    Checksum {
        /// What was checked.
        path: PathBuf,
        /// Its SHA-256, or what it claims.
        found: String,
        /// What it has to be.
        wanted: String,
    },
    /// Cargo takes quiche from another folder.
    #[error(
        "Cargo takes quiche from {}: something beside the workspace's Cargo.toml replaces it, such as [patch] or \
         `paths` in a .cargo/config.toml; take that out first", .0.display()
    )]
    PatchedElsewhere(PathBuf),
    /// The workspace has vendored its dependencies, and not what Cargo needs with the patch, or without.
    #[error(
        "the dependencies of this workspace are vendored, and what Cargo needs now is not among them: take [source] \
         out of the .cargo/config.toml, run this command again, then `cargo vendor`, and put it back\n{message}"
    )]
    NotVendored {
        /// What Cargo has printed.
        message: String,
    },
    /// Cargo has read the patch, and builds quiche from elsewhere.
    #[error(
        "the patch is set up, but {} still takes quiche from {source_id}: run `cargo update quiche`",
        lock.display()
    )]
    NotInForce {
        /// The lock file.
        lock: PathBuf,
        /// Where quiche comes from.
        source_id: String,
    },
}

impl Error {
    /// An error of a file operation, with the path that io errors lack.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, message: &dyn std::fmt::Display) -> Self {
        Self::Malformed { path: path.to_owned(), message: message.to_string() }
    }
}
