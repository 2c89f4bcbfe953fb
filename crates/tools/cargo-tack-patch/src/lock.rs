//! What the workspace's lock file says of quiche.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use toml_edit::{DocumentMut, value};

use crate::error::Error;
use crate::files::in_form_of;

/// The sources that stand for crates.io.
pub const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A package of the lock file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Package {
    name: String,
    /// Its release.
    pub version: String,
    /// Where it comes from; nothing says: from a folder.
    pub source: Option<String>,
    /// SHA-256 of its crate file.
    pub checksum: Option<String>,
}

/// All releases of quiche in a lock file.
pub fn quiche(lock: &Path) -> Result<Vec<Package>, Error> {
    #[derive(Deserialize)]
    struct Lock {
        #[serde(default)]
        package: Vec<Package>,
    }
    let text = fs::read_to_string(lock).map_err(Error::at(lock))?;
    let parsed: Lock = toml::from_str(&text).map_err(|error| Error::malformed(lock, &error))?;
    Ok(parsed.package.into_iter().filter(|package| package.name == "quiche").collect())
}

/// The package of this release, if it comes from crates.io, or from a folder.
///
/// Fails if there is no quiche, or none of this release and origin.
pub fn locked(lock: &Path, version: &str) -> Result<Package, Error> {
    let all = quiche(lock)?;
    let Some(any) = all.first() else { return Err(Error::NoQuiche { lock: lock.to_owned() }) };
    let Some(package) = all.iter().find(|package| package.version == version) else {
        let (found, wanted) = (any.version.clone(), version.to_owned());
        return Err(Error::OtherVersion { found, wanted });
    };
    match &package.source {
        Some(source) if source != CRATES_IO => {
            Err(Error::OtherSource { version: version.to_owned(), source_id: source.clone() })
        }
        _ => Ok(package.clone()),
    }
}

/// Says that this release comes from crates.io again, so that Cargo does not look for a newer one.
pub fn restore(lock: &Path, version: &str, checksum: &str) -> Result<(), Error> {
    let text = fs::read_to_string(lock).map_err(Error::at(lock))?;
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| Error::malformed(lock, &error))?;
    let packages = document.get_mut("package").and_then(|item| item.as_array_of_tables_mut());
    for package in packages.into_iter().flat_map(|packages| packages.iter_mut()) {
        let is = |key: &str, wanted: &str| {
            package.get(key).and_then(|item| item.as_str()) == Some(wanted)
        };
        if is("name", "quiche") && is("version", version) && !package.contains_key("source") {
            package.insert("source", value(CRATES_IO));
            package.insert("checksum", value(checksum));
        }
    }
    crate::files::replace(lock, &in_form_of(&text, &document.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(packages: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Cargo.lock");
        fs::write(&path, format!("version = 4\n\n{packages}")).unwrap();
        (folder, path)
    }

    fn package(version: &str, source: &str) -> String {
        format!("[[package]]\nname = \"quiche\"\nversion = \"{version}\"\n{source}\n")
    }

    #[test]
    fn another_release_is_named_in_the_error_with_what_to_run() {
        let (_folder, lock) = lock(&package("0.24.4", ""));
        let error = locked(&lock, "0.30.0").unwrap_err().to_string();
        assert!(error.contains("uses quiche 0.24.4"), "{error}");
        assert!(error.contains("cargo update quiche --precise 0.30.0"), "{error}");
    }

    #[test]
    fn one_of_two_releases_is_enough() {
        let both = package("0.24.4", "") + &package("0.30.0", "");
        let (_folder, lock) = lock(&both);
        assert_eq!(locked(&lock, "0.30.0").unwrap().version, "0.30.0");
    }

    #[test]
    fn a_tree_without_quiche_is_refused() {
        let (_folder, lock) = lock("[[package]]\nname = \"quinn\"\nversion = \"1.0.0\"\n");
        let error = locked(&lock, "0.30.0").unwrap_err();
        assert!(matches!(error, Error::NoQuiche { .. }), "{error}");
    }

    #[test]
    fn a_git_source_is_refused() {
        let source = "source = \"git+https://github.com/cloudflare/quiche#be47c501\"";
        let (_folder, lock) = lock(&package("0.30.0", source));
        let error = locked(&lock, "0.30.0").unwrap_err().to_string();
        assert!(error.contains("git+https://github.com/cloudflare/quiche"), "{error}");
    }

    #[test]
    fn a_restored_package_comes_from_crates_io_with_its_checksum() {
        let (_folder, lock) = lock(&package("0.30.0", ""));
        restore(&lock, "0.30.0", "abc").unwrap();
        let package = locked(&lock, "0.30.0").unwrap();
        assert_eq!(package.source.as_deref(), Some(CRATES_IO));
        assert_eq!(package.checksum.as_deref(), Some("abc"));
    }
}
