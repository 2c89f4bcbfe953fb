//! How a receiver treats what it has, and what it keeps of the sender's files beside their content.

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use super::disk::offer_of;
use super::paths::printable;
use super::replace::kind_of;
use super::wire::Offer;
use super::{NameError, WirePath};

/// Longest suffix of kept files, in bytes.
const MAX_SUFFIX: usize = 64;

/// What a user asks of the receiving end. The default replaces what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Policy {
    /// A file that was modified later than the sender's stays.
    pub update: bool,
    /// Whatever is there already stays.
    pub ignore_existing: bool,
    /// What is replaced or removed is kept under its name with this behind it.
    pub backup: Option<Suffix>,
    /// Permissions are the sender's and not merely no wider.
    pub preserve: bool,
    /// Owners follow behind the files: until then what replaces a file is this user's, and not the old owner's, for
    /// whom it may not be meant.
    pub owner: bool,
    /// Nothing of a file that is there is put into the new one.
    pub whole_file: bool,
    /// Below a directory that is transferred, what is of another kind makes way: a directory with everything in it for
    /// a file, and for a directory a file or, with [`preserve`](Self::preserve), a link. A client sets this where what
    /// is extraneous is deleted and nothing is filtered.
    pub make_way: bool,
    /// A directory that is transferred and that its owner may not write to is closed from the beginning, and opened
    /// for each change in it. Receivers that do not know the field leave it open until all of it is in place.
    #[serde(skip_serializing_if = "is_false")]
    pub opens_directories: bool,
    /// A link stays where a file is offered, also with [`preserve`](Self::preserve): the file is named, and whoever
    /// names it may mean what the link leads to. Receivers that do not know the field replace it.
    #[serde(skip_serializing_if = "is_false")]
    pub keeps_links: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Policy {
    /// Whether nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How many files have to be in place before this one, each kept under the name of the next: the old version
    /// of another one is to be moved away with its name, and not this. Zero for most.
    pub fn lateness(&self, path: &WirePath) -> usize {
        self.backup.as_ref().map_or(0, |suffix| suffix.times_at_end(path))
    }

    /// Whether what has the name of an offered file stays: a file or link by [`keeps`](Self::keeps), and whatever it is
    /// where all that is there does.
    pub(super) fn keeps_entry(&self, found: &Stat, offer: &Offer) -> bool {
        let is_file_or_link =
            matches!(kind_of(found), FileType::RegularFile | FileType::Symlink);
        self.ignore_existing || is_file_or_link && self.keeps(&offer_of(found), offer)
    }

    /// Whether a file stays, `found` in the place of one that is offered.
    pub fn keeps(&self, found: &Offer, offer: &Offer) -> bool {
        self.ignore_existing || (self.update && found.modified > offer.modified)
    }
}

/// What the names of kept files end with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Suffix(String);

impl Suffix {
    /// Checks `text`, which must be able to stand at the end of a name.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        if text.is_empty() || text.len() > MAX_SUFFIX || text.contains(['/', '\\', '\0']) {
            return Err(format!(
                "\"{}\" can't end a file name; expected 1 to {MAX_SUFFIX} bytes without slashes",
                printable(&text)
            ));
        }
        Ok(Self(text))
    }

    /// The name that `name` is kept under.
    pub fn name_of(&self, name: &str) -> Result<String, NameError> {
        WirePath::new(format!("{name}{}", self.0)).map(Into::into)
    }

    /// How often `path` ends with it.
    fn times_at_end(&self, path: &WirePath) -> usize {
        let (mut name, mut times) = (path.as_str(), 0);
        while let Some(shorter) = name.strip_suffix(&self.0) {
            (name, times) = (shorter, times + 1);
        }
        times
    }

    /// Whether `path` is the name of a kept file.
    pub fn ends(&self, path: &WirePath) -> bool {
        path.as_str().ends_with(&self.0)
    }
}

impl From<Suffix> for String {
    fn from(suffix: Suffix) -> Self {
        suffix.0
    }
}

impl TryFrom<String> for Suffix {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Mtime;

    #[test]
    fn a_later_file_stays_only_with_update_and_any_file_with_ignore_existing() {
        let offer =
            |seconds, nanos| Offer { size: 1, modified: Mtime { seconds, nanos }, mode: 0o644 };
        let update = Policy { update: true, ..Policy::default() };
        assert!(update.keeps(&offer(5, 1), &offer(5, 0)));
        assert!(!update.keeps(&offer(5, 0), &offer(5, 0)));
        assert!(!update.keeps(&offer(4, 9), &offer(5, 0)));
        assert!(!Policy::default().keeps(&offer(9, 0), &offer(5, 0)));
        let ignore = Policy { ignore_existing: true, ..Policy::default() };
        assert!(ignore.keeps(&offer(0, 0), &offer(5, 0)));
    }

    #[test]
    fn a_suffix_cannot_lead_elsewhere_or_to_names_of_unfinished_transfers() {
        for text in ["", "/x", "a/../b", "\\", "\0", &"x".repeat(65)] {
            assert!(Suffix::new(text).is_err(), "{text:?}");
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<Suffix>(&json).is_err(), "{text:?}");
        }
        assert_eq!(Suffix::new("~").unwrap().name_of("file").unwrap(), "file~");
        let part = Suffix::new(".tack-part").unwrap();
        assert!(part.name_of(".file").is_err());
        assert!(Suffix::new("~").unwrap().name_of(&"x".repeat(255)).is_err());
    }

    #[test]
    fn fields_that_a_peer_does_not_send_are_off() {
        assert!(serde_json::from_str::<Policy>("{}").unwrap().is_default());
        let json = "{\"update\":true,\"later\":1}";
        assert!(serde_json::from_str::<Policy>(json).unwrap().update);
    }
}
