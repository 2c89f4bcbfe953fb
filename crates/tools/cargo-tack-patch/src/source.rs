//! The source of quiche as it was published.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use serde::Deserialize;

use crate::digest::sha256;
use crate::error::Error;

/// Most bytes that the source may have when it is unpacked. quiche 0.30 has 3 MB.
const MAX_LEN: u64 = 64 << 20;

/// Files by their path in the package.
pub type Files = Vec<(PathBuf, Vec<u8>)>;

/// Unpacks the crate file of a release from Cargo's cache, if it is there.
///
/// Fails if the file is not the one that was published.
pub fn cached(cache: &Path, version: &str, checksum: &str) -> Result<Option<Files>, Error> {
    let Ok(registries) = fs::read_dir(cache) else { return Ok(None) };
    let mut refused = None;
    for registry in registries.flatten() {
        let path = registry.path().join(format!("quiche-{version}.crate"));
        if !path.is_file() {
            continue;
        }
        let packed = fs::read(&path).map_err(Error::at(&path))?;
        let found = sha256([&packed[..]]);
        if found == checksum {
            return unpack(&path, &packed, version).map(Some);
        }
        refused = Some(Error::Checksum { path, found, wanted: checksum.to_owned() });
    }
    refused.map_or(Ok(None), Err)
}

/// The files of a crate file.
fn unpack(path: &Path, packed: &[u8], version: &str) -> Result<Files, Error> {
    let folder = format!("quiche-{version}");
    let mut archive = tar::Archive::new(GzDecoder::new(packed).take(MAX_LEN));
    let mut files = Files::new();
    for entry in archive.entries().map_err(Error::at(path))? {
        let mut entry = entry.map_err(Error::at(path))?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(Error::at(path))?.into_owned();
        let Some(name) = name.strip_prefix(&folder).ok().filter(|name| is_below(name)) else {
            let message = format!("holds {}, which is not below {folder}", name.display());
            return Err(Error::malformed(path, &message));
        };
        let name = name.to_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(Error::at(path))?;
        files.push((name, content));
    }
    Ok(files)
}

/// Reads a vendored package, if the folder of its manifest is one.
///
/// Fails if a file is not what was vendored, or if that was not the published release.
pub fn vendored(folder: &Path, checksum: &str) -> Result<Option<Files>, Error> {
    #[derive(Deserialize)]
    struct Checksums {
        files: std::collections::BTreeMap<String, String>,
        package: Option<String>,
    }
    let list = folder.join(".cargo-checksum.json");
    let Ok(text) = fs::read_to_string(&list) else { return Ok(None) };
    let checksums: Checksums =
        serde_json::from_str(&text).map_err(|error| Error::malformed(&list, &error))?;
    let package = checksums.package.unwrap_or_else(|| "none".into());
    if package != checksum {
        let wanted = checksum.to_owned();
        return Err(Error::Checksum { path: list, found: package, wanted });
    }
    let mut files = Files::new();
    for (name, wanted) in checksums.files {
        if !is_below(Path::new(&name)) {
            return Err(Error::malformed(&list, &format!("names {name}")));
        }
        let path = folder.join(&name);
        let content = fs::read(&path).map_err(Error::at(&path))?;
        let found = sha256([&content[..]]);
        if found != wanted {
            return Err(Error::Checksum { path, found, wanted });
        }
        files.push((name.into(), content));
    }
    Ok(Some(files))
}

/// Whether a path stays in its folder.
fn is_below(path: &Path) -> bool {
    path != OsStr::new("") && path.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn crate_file(files: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            // `set_path` would refuse what an attacker writes.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    /// A cache with one crate file, and its checksum.
    fn cache(files: &[(&str, &str)]) -> (tempfile::TempDir, String) {
        let cache = tempfile::tempdir().unwrap();
        let registry = cache.path().join("index.crates.io-0");
        fs::create_dir(&registry).unwrap();
        let packed = crate_file(files);
        fs::write(registry.join("quiche-0.30.0.crate"), &packed).unwrap();
        (cache, sha256([&packed[..]]))
    }

    #[test]
    fn a_crate_file_with_the_published_checksum_is_unpacked() {
        let (cache, checksum) =
            cache(&[("quiche-0.30.0/Cargo.toml", "a"), ("quiche-0.30.0/src/lib.rs", "b")]);
        let files = cached(cache.path(), "0.30.0", &checksum).unwrap().unwrap();
        let wanted =
            [("Cargo.toml".into(), b"a".to_vec()), ("src/lib.rs".into(), b"b".to_vec())];
        assert_eq!(files, wanted);
    }

    #[test]
    fn a_crate_file_that_was_changed_is_refused() {
        let (cache, _) = cache(&[("quiche-0.30.0/src/lib.rs", "b")]);
        let wanted = "0".repeat(64);
        let error = cached(cache.path(), "0.30.0", &wanted).unwrap_err();
        assert!(matches!(&error, Error::Checksum { wanted: w, .. } if *w == wanted), "{error}");
    }

    #[test]
    fn a_cache_without_the_release_has_none() {
        let (cache, checksum) = cache(&[]);
        assert_eq!(cached(cache.path(), "0.31.0", &checksum).unwrap(), None);
        assert_eq!(cached(&cache.path().join("none"), "0.30.0", &checksum).unwrap(), None);
    }

    #[test]
    fn a_file_outside_of_the_package_is_refused() {
        for name in ["quiche-0.30.0/../evil", "/etc/evil", "other/lib.rs", "quiche-0.30.0"] {
            let (cache, checksum) = cache(&[(name, "b")]);
            let error = cached(cache.path(), "0.30.0", &checksum).unwrap_err();
            assert!(matches!(error, Error::Malformed { .. }), "{name}: {error}");
        }
    }

    fn vendor(package: &str, content: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/lib.rs"), content).unwrap();
        let of_b = sha256([&b"b"[..]]);
        let list = format!(r#"{{"files":{{"src/lib.rs":"{of_b}"}},"package":"{package}"}}"#);
        fs::write(folder.path().join(".cargo-checksum.json"), list).unwrap();
        folder
    }

    #[test]
    fn a_vendored_package_is_read_if_all_its_files_are_as_published() {
        let files = vendored(vendor("f00", "b").path(), "f00").unwrap().unwrap();
        assert_eq!(files, [("src/lib.rs".into(), b"b".to_vec())]);
        for (package, content) in [("f00", "c"), ("ba5", "b")] {
            let folder = vendor(package, content);
            let error = vendored(folder.path(), "f00").unwrap_err();
            assert!(matches!(error, Error::Checksum { .. }), "{error}");
        }
        let plain = tempfile::tempdir().unwrap();
        assert_eq!(vendored(plain.path(), "f00").unwrap(), None);
    }
}
