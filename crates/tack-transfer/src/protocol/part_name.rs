//! Names of temporary files, which no file of a user may have.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::Digest;

/// Why a file with such a name is left out.
pub const RESERVED: &str =
    "the name is one that tack keeps for unfinished transfers; remove or rename the file";

/// Names of temporary files.
pub struct PartName;

impl PartName {
    const PREFIX: &str = ".";
    const SUFFIX: &str = ".tack-part";

    /// The temporary name for `name`, in the same directory.
    pub fn of(name: &str) -> String {
        let full = format!("{}{name}{}", Self::PREFIX, Self::SUFFIX);
        if full.len() <= 255 {
            return full;
        }
        let short = Digest::of(name.as_bytes()).to_string();
        format!("{}{short}{}", Self::PREFIX, Self::SUFFIX)
    }

    /// The name of the file that the temporary name `part` is for, if that says it.
    pub fn file_of(part: &str) -> Option<&str> {
        let name = part.strip_prefix(Self::PREFIX)?.strip_suffix(Self::SUFFIX)?;
        // Otherwise it may be the digest of a long one.
        let is_digest = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        (!name.is_empty() && !is_digest).then_some(name)
    }

    /// Is `name` such a temporary name?
    pub fn is_reserved(name: &str) -> bool {
        name.starts_with(Self::PREFIX) && name.ends_with(Self::SUFFIX)
    }
}

/// Whether there is neither a file at `path` nor a part of one.
pub fn is_absent(path: &Path) -> bool {
    let is_missing = |path: &Path| {
        path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| {
        is_missing(path) && is_missing(&path.with_file_name(PartName::of(name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_fit_even_for_the_longest_names() {
        assert_eq!(PartName::of("a"), ".a.tack-part");
        let long = PartName::of(&"x".repeat(255));
        assert!(long.len() <= 255 && PartName::is_reserved(&long));
        assert_ne!(long, PartName::of(&"y".repeat(255)));
    }
}
