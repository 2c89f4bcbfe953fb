//! Names of files as they cross the wire.
//!
//! A wire path is UTF-8, relative, separated by `/`, and every component is an ordinary name.
//! Names that are not UTF-8 can't be sent: the two ends may disagree on what such bytes mean,
//! and guessing would create files under other names. A backslash is a character like others, but towards
//! versions of the protocol before 8, in which it was refused.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::part_name::PartName;

/// Longest accepted path, in bytes.
const MAX_PATH: usize = 4096;
/// Longest accepted component, in bytes: what common file systems allow.
const MAX_COMPONENT: usize = 255;

/// A checked relative path. The empty path is the directory that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct WirePath(String);

/// As its text, which is not copied for that.
impl Serialize for WirePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Why a name can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is not valid UTF-8; it is given with the offending bytes replaced.
    #[error("the name \"{0}\" is not valid UTF-8; rename the file to send it")]
    NotUtf8(String),
    /// The path starts with a separator.
    #[error("\"{0}\" is absolute; paths are relative to the served directory")]
    Absolute(String),
    /// A component is empty, `.` or `..`.
    #[error("\"{0}\" has an empty, \".\" or \"..\" component")]
    Dots(String),
    /// A byte that no name has.
    #[error("\"{0}\" contains a NUL byte")]
    Forbidden(String),
    /// A backslash, which the peer does not take.
    #[error(
        "\"{0}\" contains a backslash, which the other end, an earlier version of tack, does not take; rename the file, \
         or use the same version at both ends"
    )]
    Backslash(String),
    /// The path or one of its components is too long.
    #[error("\"{0}\" is too long (4096 bytes at most, 255 for each component)")]
    TooLong(String),
    /// The name is kept for unfinished transfers.
    #[error("\"{0}\" is a name that tack keeps for unfinished transfers")]
    Reserved(String),
}

impl WirePath {
    /// The served directory itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// Checks `path`.
    pub fn new(path: impl Into<String>) -> Result<Self, NameError> {
        let path = path.into();
        if path.is_empty() {
            return Ok(Self(path));
        }
        if path.len() > MAX_PATH {
            return Err(NameError::TooLong(shortened(&path)));
        }
        if path.starts_with('/') {
            return Err(NameError::Absolute(printable(&path)));
        }
        for component in path.split('/') {
            check_component(component, &path)?;
        }
        Ok(Self(path))
    }

    /// Is this the served directory itself?
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The components, outermost first.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|component| !component.is_empty())
    }

    /// The parent's components and the last one; `None` for the root.
    pub fn split_last(&self) -> Option<(Self, &str)> {
        match self.0.rsplit_once('/') {
            Some((parent, name)) => Some((Self(parent.to_owned()), name)),
            None if self.0.is_empty() => None,
            None => Some((Self::root(), &self.0)),
        }
    }

    /// This path with `below` appended.
    pub fn join(&self, below: &Self) -> Result<Self, NameError> {
        match (self.is_root(), below.is_root()) {
            (true, _) => Ok(below.clone()),
            (_, true) => Ok(self.clone()),
            _ => Self::new(format!("{}/{}", self.0, below.0)),
        }
    }

    /// This path as seen from `base`, if it lies in it.
    pub fn below(&self, base: &Self) -> Option<Self> {
        if base.is_root() {
            return Some(self.clone());
        }
        let below = self.0.strip_prefix(&base.0)?.strip_prefix('/')?;
        Some(Self(below.to_owned()))
    }

    /// Whether a backslash is in it, which versions of the protocol before 8 refuse.
    pub fn has_backslash(&self) -> bool {
        self.0.contains('\\')
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_component(component: &str, path: &str) -> Result<(), NameError> {
    if matches!(component, "" | "." | "..") {
        Err(NameError::Dots(printable(path)))
    } else if component.contains('\0') {
        Err(NameError::Forbidden(printable(path)))
    } else if component.len() > MAX_COMPONENT {
        Err(NameError::TooLong(shortened(path)))
    } else if PartName::is_reserved(component) {
        Err(NameError::Reserved(printable(path)))
    } else {
        Ok(())
    }
}

/// `text` with control characters escaped, so that a name chosen by a peer can't drive the
/// terminal it is printed on.
pub fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

fn shortened(path: &str) -> String {
    let start: String = path.chars().take(60).collect();
    format!("{}…", printable(&start))
}

impl fmt::Display for WirePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() { f.write_str(".") } else { f.write_str(&printable(&self.0)) }
    }
}

impl From<WirePath> for String {
    fn from(path: WirePath) -> Self {
        path.0
    }
}

impl TryFrom<String> for WirePath {
    type Error = NameError;
    fn try_from(path: String) -> Result<Self, NameError> {
        Self::new(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_relative_names_are_accepted() {
        for path in
            ["a", "a/b/c.txt", "Ünïcödé/日本", "..a/b..", "a b", "-x", ".hidden", "..\\a"]
        {
            assert_eq!(WirePath::new(path).unwrap().as_str(), path);
        }
    }

    #[test]
    fn whatever_could_leave_the_directory_is_refused() {
        for path in ["/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "a/.", "../a", "/"] {
            assert!(WirePath::new(path).is_err(), "{path}");
        }
        assert!(matches!(WirePath::new("a\0b"), Err(NameError::Forbidden(_))));
    }

    #[test]
    fn long_paths_and_components_are_refused() {
        assert!(WirePath::new("x".repeat(255)).is_ok());
        assert!(WirePath::new("x".repeat(256)).is_err());
        assert!(WirePath::new(format!("{}y", "x/".repeat(2048))).is_err());
    }

    #[test]
    fn names_of_unfinished_transfers_are_refused() {
        assert!(matches!(WirePath::new("d/.x.tack-part"), Err(NameError::Reserved(_))));
        assert!(WirePath::new("x.tack-part").is_ok());
    }

    #[test]
    fn the_checks_hold_for_paths_that_arrive_as_json() {
        assert!(serde_json::from_str::<WirePath>("\"a/b\"").is_ok());
        assert!(serde_json::from_str::<WirePath>("\"../b\"").is_err());
    }

    #[test]
    fn joining_and_splitting_are_inverse() {
        let (dir, name) = (WirePath::new("a/b").unwrap(), WirePath::new("c").unwrap());
        let joined = dir.join(&name).unwrap();
        assert_eq!(joined.split_last(), Some((dir, "c")));
        assert_eq!(WirePath::root().join(&name).unwrap(), name);
        assert_eq!(WirePath::root().split_last(), None);
    }

    #[test]
    fn a_path_is_below_the_directories_it_lies_in_only() {
        let path = |text: &str| WirePath::new(text).unwrap();
        assert_eq!(path("a/b/c").below(&path("a")), Some(path("b/c")));
        assert_eq!(path("a").below(&WirePath::root()), Some(path("a")));
        assert_eq!(path("ab/c").below(&path("a")), None);
        assert_eq!(path("a").below(&path("a")), None);
    }

    #[test]
    fn printed_names_cannot_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c é"), "a\\u{1b}[2Jb\\u{202e}c é");
    }
}
