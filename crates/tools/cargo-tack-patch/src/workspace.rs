//! The workspace that is patched, as Cargo sees it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// A workspace, or a package that is none of one.
#[derive(Debug)]
pub struct Workspace {
    cargo: OsString,
    manifest: PathBuf,
}

impl Workspace {
    /// Finds the workspace of a manifest, or of the current folder.
    pub fn locate(cargo: OsString, manifest: Option<&Path>) -> Result<Self, Error> {
        let mut command = Command::new(&cargo);
        command.args(["locate-project", "--workspace", "--message-format", "plain"]);
        if let Some(manifest) = manifest {
            command.arg("--manifest-path").arg(manifest);
        }
        let printed = run(&mut command)?;
        Ok(Self { cargo, manifest: printed.trim_end().into() })
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Path {
        &self.manifest
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new("."))
    }

    /// Its lock file.
    pub fn lock(&self) -> PathBuf {
        self.folder().join("Cargo.lock")
    }

    /// Has Cargo resolve the dependencies, bring the lock file up to date, and download what is missing.
    /// Returns the folder of this release of quiche.
    pub fn resolve(&self, version: &str) -> Result<Option<PathBuf>, Error> {
        self.metadata(version, &[])
    }

    /// Has Cargo say in which folder this release of quiche is, by the lock file as it is.
    pub fn locked_folder(&self, version: &str) -> Result<Option<PathBuf>, Error> {
        self.metadata(version, &["--locked"])
    }

    /// The folder of this release of quiche.
    fn metadata(&self, version: &str, options: &[&str]) -> Result<Option<PathBuf>, Error> {
        let mut command = Command::new(&self.cargo);
        // Cargo takes its configuration, which may name other registries, from where it runs.
        command.args(["metadata", "--format-version=1"]).args(options);
        let printed = run(command.current_dir(self.folder())).map_err(|error| match error {
            Error::Cargo { message, .. } if message.contains("directory source") => {
                Error::NotVendored { message }
            }
            error => error,
        })?;
        let metadata: serde_json::Value = serde_json::from_str(&printed)
            .map_err(|error| Error::malformed(&self.manifest, &error))?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let mut quiche = packages
            .filter(|package| package["name"] == "quiche" && package["version"] == version);
        let manifest = quiche.find_map(|package| package["manifest_path"].as_str());
        Ok(manifest.and_then(|manifest| Path::new(manifest).parent()).map(Path::to_owned))
    }
}

/// What a command prints.
fn run(command: &mut Command) -> Result<String, Error> {
    let output = command.output().map_err(|source| Error::NoCargo {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let arguments: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    Err(Error::Cargo {
        command: arguments.join(" "),
        message: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
    })
}
