//! Setting the patch up, taking it back, and telling whether it is in force.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::copies::{self, State, Written};
use crate::error::Error;
use crate::lock;
use crate::manifest::{Entry, Manifest};
use crate::patch::Patch;
use crate::source::{self, Files};
use crate::workspace::Workspace;

/// The folder of the copies where none is named, below that of the workspace.
pub const DEFAULT_FOLDER: &str = ".tack-patch";

/// Where the tool works.
pub struct Tool<'a> {
    /// The program `cargo`.
    pub cargo: OsString,
    /// Cargo's home folder, which has the crate files.
    pub cargo_home: PathBuf,
    /// The manifest of the workspace, or of a package in it; none: that of the current folder.
    pub manifest: Option<PathBuf>,
    /// The folder of the copies; none: [`DEFAULT_FOLDER`].
    pub folder: Option<PathBuf>,
    /// What takes quiche's place.
    pub patch: Patch<'a>,
}

/// What [`Tool::apply`] has found and done.
#[derive(Debug, PartialEq, Eq)]
pub struct Applied {
    /// The workspace's manifest.
    pub manifest: PathBuf,
    /// The folder of the copies.
    pub folder: PathBuf,
    /// Nothing had to be done.
    pub was_in_force: bool,
}

/// What [`Tool::check`] has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Check {
    /// Every package of the workspace that uses this release of quiche gets the copies.
    InForce {
        /// The folder of the copies.
        folder: PathBuf,
    },
    /// Not so.
    NotInForce {
        /// Why, and what to do.
        reason: String,
    },
}

impl Tool<'_> {
    /// Puts the patch in force. What it changes is as before if it fails.
    pub fn apply(&self) -> Result<Applied, Error> {
        let workspace = self.workspace()?;
        let mut manifest = Manifest::read(workspace.manifest())?;
        let (folder, has_entry) = self.place(&workspace, &manifest)?;
        let state = copies::state(&folder, &self.patch)?;
        if state == State::Foreign {
            return Err(Error::ForeignFolder(folder));
        }
        let mut before = Before::of(&workspace)?;
        let found = (has_entry, state);
        if let Err(error) = self.set_up(&workspace, &mut manifest, &folder, found, &mut before)
        {
            before.restore(&workspace, &manifest)?;
            return Err(error);
        }
        before.forget();
        let was_in_force = has_entry && state == State::Current;
        Ok(Applied { manifest: workspace.manifest().to_owned(), folder, was_in_force })
    }

    /// The folder of the copies, and whether the manifest leads there.
    fn place(
        &self,
        workspace: &Workspace,
        manifest: &Manifest,
    ) -> Result<(PathBuf, bool), Error> {
        let folder = self.copies(workspace)?;
        let written = written_path(workspace, &folder)?;
        let path = match manifest.entry() {
            Entry::None => return Ok((folder, false)),
            Entry::Folder(path) if path == written => return Ok((folder, true)),
            Entry::Folder(path) => path,
            Entry::Other(entry) => return Err(other_patch(manifest, entry)),
        };
        match ours(workspace, &path, &self.patch)? {
            None => Err(other_patch(manifest, path)),
            // They stay where they are, unless another place is named.
            Some(there) if self.folder.is_none() => Ok((there, true)),
            Some(there) => Err(Error::OtherFolder(there)),
        }
    }

    /// Makes the copies and the entry, as far as they are missing.
    fn set_up(
        &self,
        workspace: &Workspace,
        manifest: &mut Manifest,
        folder: &Path,
        (mut has_entry, state): (bool, State),
        before: &mut Before,
    ) -> Result<(), Error> {
        let Patch { quiche_version: version, quiche_checksum: checksum, .. } = self.patch;
        if !has_entry {
            self.require_published_quiche(workspace)?;
        }
        if state != State::Current {
            let cached = source::cached(&self.cache(), version, checksum)?;
            let quiche = if let Some(quiche) = cached {
                quiche
            } else {
                // Cargo has to see the published package.
                self.take_out(workspace, manifest)?;
                has_entry = false;
                self.downloaded(workspace)?
            };
            before.copies = Some(copies::write(folder, &self.patch, &quiche)?);
        }
        if !has_entry {
            manifest.insert(&written_path(workspace, folder)?)?;
        }
        if let Ok(relative) = folder.strip_prefix(workspace.folder())
            && manifest.has_members(&copies::packages(relative, &self.patch))
        {
            manifest.exclude(&in_manifest(relative)?)?;
        }
        manifest.write()?;
        self.require_force(workspace, folder)
    }

    /// Takes the patch back. Returns the folder of the copies that are gone, or none if there was no patch.
    pub fn remove(&self) -> Result<Option<PathBuf>, Error> {
        let workspace = self.workspace()?;
        let mut manifest = Manifest::read(workspace.manifest())?;
        let folder = match manifest.entry() {
            Entry::None => return Ok(None),
            Entry::Folder(path) => ours(&workspace, &path, &self.patch)?
                .ok_or_else(|| other_patch(&manifest, path))?,
            Entry::Other(entry) => return Err(other_patch(&manifest, entry)),
        };
        let before = Before::of(&workspace)?;
        let taken_out = self
            .take_out(&workspace, &mut manifest)
            .and_then(|()| unpatched(&manifest))
            .and_then(|()| workspace.resolve(self.patch.quiche_version));
        if let Err(error) = taken_out {
            before.restore(&workspace, &manifest)?;
            return Err(error);
        }
        copies::remove(&folder)?;
        if let Ok(relative) = folder.strip_prefix(workspace.folder()) {
            // Not before they are gone: without it they could be members.
            manifest.forget(&in_manifest(relative)?);
            manifest.write()?;
        }
        Ok(Some(folder))
    }

    /// Tells whether the patch is in force, and changes nothing.
    pub fn check(&self) -> Result<Check, Error> {
        let workspace = self.workspace()?;
        let manifest = Manifest::read(workspace.manifest())?;
        let not = |reason: String| Ok(Check::NotInForce { reason });
        let folder = match manifest.entry() {
            Entry::None => {
                let manifest = manifest.path().display();
                return not(format!(
                    "{manifest} does not patch quiche: run `cargo tack-patch`"
                ));
            }
            Entry::Folder(path) => match ours(&workspace, &path, &self.patch)? {
                Some(folder) => folder,
                None => return not(other_patch(&manifest, path).to_string()),
            },
            Entry::Other(entry) => return not(other_patch(&manifest, entry).to_string()),
        };
        match copies::state(&folder, &self.patch)? {
            State::Current => {}
            State::Outdated => {
                let reason = "are of another build of cargo-tack-patch: run `cargo tack-patch`";
                return not(format!("the copies in {} {reason}", folder.display()));
            }
            State::Missing | State::Foreign => {
                let folder = folder.display();
                return not(format!("{folder} has no copies: run `cargo tack-patch`"));
            }
        }
        if !workspace.lock().exists() {
            return not("there is no Cargo.lock yet: build once".into());
        }
        match lock::locked(&workspace.lock(), self.patch.quiche_version) {
            Ok(package) if package.source.is_none() => {}
            Ok(_) => return not("Cargo.lock is from before the patch: build once".into()),
            Err(error @ Error::File { .. }) => return Err(error),
            Err(error) => return not(error.to_string()),
        }
        match workspace.locked_folder(self.patch.quiche_version) {
            Ok(found) => Ok(match elsewhere(found, &folder) {
                None => Check::InForce { folder },
                Some(found) => {
                    Check::NotInForce { reason: Error::PatchedElsewhere(found).to_string() }
                }
            }),
            Err(Error::Cargo { message, .. }) if message.contains("--locked") => {
                not("Cargo.lock is not what manifests and configuration ask for: build once"
                    .into())
            }
            Err(error) => Err(error),
        }
    }

    fn workspace(&self) -> Result<Workspace, Error> {
        Workspace::locate(self.cargo.clone(), self.manifest.as_deref())
    }

    /// The folder of the copies, absolute.
    fn copies(&self, workspace: &Workspace) -> Result<PathBuf, Error> {
        let Some(folder) = &self.folder else {
            return Ok(workspace.folder().join(DEFAULT_FOLDER));
        };
        let folder = std::path::absolute(folder).map_err(Error::at(folder))?;
        Ok(by_way_of(workspace, &folder).unwrap_or(folder))
    }

    /// The workspace must use the release that the patch is made for, as it was published.
    fn require_published_quiche(&self, workspace: &Workspace) -> Result<(), Error> {
        let Patch { quiche_version: version, quiche_checksum: wanted, .. } = self.patch;
        let lock = workspace.lock();
        let folder = workspace.resolve(version)?;
        let package = lock::locked(&lock, version)?;
        if package.source.is_none() {
            let source_id =
                folder.map_or("a folder".into(), |folder| folder.display().to_string());
            return Err(Error::OtherSource { version: version.to_owned(), source_id });
        }
        match package.checksum {
            Some(found) if found != wanted => {
                Err(Error::Checksum { path: lock, found, wanted: wanted.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Takes the entry out of the manifest, and the traces of it out of the lock file.
    fn take_out(&self, workspace: &Workspace, manifest: &mut Manifest) -> Result<(), Error> {
        let Patch { quiche_version: version, quiche_checksum: checksum, .. } = self.patch;
        let was_there = manifest.entry() != Entry::None;
        manifest.remove();
        manifest.write()?;
        if was_there && workspace.lock().exists() {
            lock::restore(&workspace.lock(), version, checksum)?;
        }
        Ok(())
    }

    /// quiche's own source, which is vendored, or which Cargo downloads.
    fn downloaded(&self, workspace: &Workspace) -> Result<Files, Error> {
        let Patch { quiche_version: version, quiche_checksum: checksum, .. } = self.patch;
        let folder = workspace.resolve(version)?;
        let cache = self.cache();
        if let Some(files) = source::cached(&cache, version, checksum)? {
            return Ok(files);
        }
        let vendored = folder.map(|folder| source::vendored(&folder, checksum)).transpose()?;
        vendored.flatten().ok_or_else(|| Error::NoSource { version: version.to_owned(), cache })
    }

    /// Cargo's crate files.
    fn cache(&self) -> PathBuf {
        self.cargo_home.join("registry/cache")
    }

    /// Has Cargo read the patch, and looks whether it takes quiche from there.
    fn require_force(&self, workspace: &Workspace, folder: &Path) -> Result<(), Error> {
        let version = self.patch.quiche_version;
        let found = workspace.resolve(version)?;
        let lock = workspace.lock();
        if let Some(source_id) = lock::locked(&lock, version)?.source {
            return Err(Error::NotInForce { lock, source_id });
        }
        elsewhere(found, folder).map_or(Ok(()), |found| Err(Error::PatchedElsewhere(found)))
    }
}

/// What there was before a change.
struct Before {
    lock: Option<Vec<u8>>,
    /// The copies that were written, which know what they have replaced.
    copies: Option<Written>,
}

impl Before {
    fn of(workspace: &Workspace) -> Result<Self, Error> {
        let lock = workspace.lock();
        let lock = match fs::read(&lock) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            read => Some(read.map_err(Error::at(&lock))?),
        };
        Ok(Self { lock, copies: None })
    }

    /// Takes a change back that has failed: all of it that can be.
    fn restore(self, workspace: &Workspace, manifest: &Manifest) -> Result<(), Error> {
        let copies = self.copies.map_or(Ok(()), Written::take_back);
        let manifest = manifest.restore();
        let lock = workspace.lock();
        let now = fs::read(&lock).ok();
        let lock = match self.lock {
            text if text == now => Ok(()),
            Some(text) => fs::write(&lock, text).map_err(Error::at(&lock)),
            // Cargo has written one.
            None => fs::remove_file(&lock).map_err(Error::at(&lock)),
        };
        copies.and(manifest).and(lock)
    }

    /// The change has succeeded.
    fn forget(self) {
        // The patch is in force, whatever cannot be deleted; the next renewal names that.
        let _ = self.copies.map(Written::keep);
    }
}

/// Where Cargo has found quiche, if that is not in the folder of the copies.
fn elsewhere(found: Option<PathBuf>, copies: &Path) -> Option<PathBuf> {
    let wanted = copies.join("quiche");
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    found.filter(|found| real(found) != real(&wanted))
}

/// Fails if a manifest still replaces quiche.
fn unpatched(manifest: &Manifest) -> Result<(), Error> {
    match manifest.entry() {
        Entry::None => Ok(()),
        Entry::Folder(entry) | Entry::Other(entry) => Err(other_patch(manifest, entry)),
    }
}

/// The folder by a path that leads through that of the workspace, if it is in that, though its own path leads there by
/// a link or by `..`.
fn by_way_of(workspace: &Workspace, folder: &Path) -> Option<PathBuf> {
    let is_plain = |path: &Path| !path.components().any(|part| part == Component::ParentDir);
    if folder.strip_prefix(workspace.folder()).is_ok_and(is_plain) {
        return None;
    }
    // It need not be there yet.
    let (there, real) =
        folder.ancestors().find_map(|there| Some((there, fs::canonicalize(there).ok()?)))?;
    let real = real.join(folder.strip_prefix(there).ok()?);
    let below = real.strip_prefix(fs::canonicalize(workspace.folder()).ok()?).ok()?;
    is_plain(below).then(|| workspace.folder().join(below))
}

/// How the folder of the crate `quiche` is written in the manifest: relative if it is in the workspace.
fn written_path(workspace: &Workspace, folder: &Path) -> Result<String, Error> {
    let folder = folder.strip_prefix(workspace.folder()).unwrap_or(folder);
    in_manifest(&folder.join("quiche"))
}

/// A path as manifests have it.
fn in_manifest(path: &Path) -> Result<String, Error> {
    let Some(text) = path.to_str() else {
        let message =
            "its name is not UTF-8, as a manifest has to be: name another folder with --dir";
        return Err(Error::malformed(path, &message));
    };
    Ok(if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() })
}

/// The folder of the copies that a path in the manifest leads into, if they are ours or gone.
fn ours(
    workspace: &Workspace,
    written: &str,
    patch: &Patch<'_>,
) -> Result<Option<PathBuf>, Error> {
    let path = workspace.folder().join(written);
    let Some(folder) = path.parent() else { return Ok(None) };
    Ok(match copies::state(folder, patch)? {
        State::Foreign => None,
        State::Missing if path.file_name() != Some("quiche".as_ref()) => None,
        _ => Some(folder.to_owned()),
    })
}

fn other_patch(manifest: &Manifest, entry: String) -> Error {
    Error::OtherPatch { manifest: manifest.path().to_owned(), entry }
}
