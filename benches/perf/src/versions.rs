//! Versions of libraries that do not tell theirs.

/// The version of a package in a lock file.
pub fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let (_, entry) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    entry.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_package_is_in_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        let version = locked_version(lock, "quiche").unwrap();
        assert!(version.starts_with("0."), "{version}");
        assert_eq!(locked_version(lock, "no-such-package"), None);
    }
}
