//! The state of the adapter from which a peer was built.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// In the cache, once everything else is there: the digest of the manifest's directory.
const STAMP: &str = "fetched";

/// Whether what is in the cache was made of what is beside the manifest now.
pub fn is_current(manifest: &Path, cache: &Path) -> bool {
    let left = fs::read_to_string(path(cache));
    matches!((left, digest(manifest)), (Ok(left), Ok(now)) if left == now)
}

/// Whether a fetch has succeeded, whatever the adapter was then.
pub fn is_there(cache: &Path) -> bool {
    path(cache).is_file()
}

/// Remembers what the cache was made of.
pub fn leave(manifest: &Path, cache: &Path) -> io::Result<()> {
    fs::write(path(cache), digest(manifest)?)
}

/// The file that says what the cache was made of; without it, the cache is not fetched.
pub fn path(cache: &Path) -> PathBuf {
    cache.join(STAMP)
}

/// Of the names and the contents of all files.
fn digest(directory: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    files_below(directory, &mut files)?;
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in files {
        let contents = blake3::hash(&fs::read(&file)?);
        let name = file.strip_prefix(directory).unwrap_or(&file);
        hasher.update(blake3::hash(name.as_os_str().as_encoded_bytes()).as_bytes());
        hasher.update(contents.as_bytes());
    }
    Ok(hasher.finalize().to_string())
}

fn files_below(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type()?.is_dir() {
            files.push(path);
        } else if !is_made(&path) {
            files_below(&path, files)?;
        }
    }
    Ok(())
}

/// Files that compilers and interpreters leave beside a source.
fn is_made(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name == "target" || name == "__pycache__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_counts_until_something_beside_the_manifest_changes() {
        let directory = tempfile::tempdir().unwrap();
        let (manifest, cache) = (directory.path().join("peer"), directory.path().join("cache"));
        fs::create_dir_all(manifest.join("src")).unwrap();
        fs::create_dir_all(&cache).unwrap();
        fs::write(manifest.join("src/main.rs"), "1").unwrap();
        assert!(!is_current(&manifest, &cache));
        leave(&manifest, &cache).unwrap();
        assert!(is_current(&manifest, &cache));

        fs::create_dir(manifest.join("__pycache__")).unwrap();
        fs::write(manifest.join("__pycache__/made"), "").unwrap();
        assert!(is_current(&manifest, &cache), "not a part of it");
        fs::rename(manifest.join("src/main.rs"), manifest.join("src/lib.rs")).unwrap();
        assert!(!is_current(&manifest, &cache), "another name");
        fs::rename(manifest.join("src/lib.rs"), manifest.join("src/main.rs")).unwrap();
        fs::write(manifest.join("src/main.rs"), "2").unwrap();
        assert!(!is_current(&manifest, &cache) && is_there(&cache), "other contents");
    }
}
