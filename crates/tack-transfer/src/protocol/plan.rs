//! What a transfer would do with a file.

use serde::Serialize;

use super::{Offer, Policy};

/// What is at the destination of a file that would be transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Nothing.
    New,
    /// Another file.
    Changed,
    /// One of the same size, of which nothing else is known: its content would be compared.
    Compared,
    /// One of the same size and time of modification.
    Unchanged,
    /// Something that stays, whatever is offered.
    Kept,
    /// Something that the source no longer has, and is removed.
    Deleted,
}

impl Change {
    /// For a file that is offered, where there is `found`.
    pub fn of(offer: &Offer, found: Option<&Offer>) -> Self {
        match found {
            None => Self::New,
            Some(found) if found.size != offer.size || found.modified != offer.modified => {
                Self::Changed
            }
            Some(_) => Self::Unchanged,
        }
    }

    /// The same, where a file may stay by the `policy`.
    pub fn by(policy: &Policy, offer: &Offer, found: Option<&Offer>) -> Self {
        match found {
            Some(found) if policy.keeps(found, offer) => Self::Kept,
            found => Self::of(offer, found),
        }
    }

    /// For a file of which only the size is known.
    pub fn of_size(size: u64, found: Option<u64>) -> Self {
        match found {
            None => Self::New,
            Some(found) if found != size => Self::Changed,
            Some(_) => Self::Compared,
        }
    }

    /// As people are told.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Compared => "compared",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
            Self::Deleted => "deleted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Mtime;

    #[test]
    fn size_and_time_of_modification_tell_a_change() {
        let offer =
            |size, seconds| Offer { size, modified: Mtime { seconds, nanos: 0 }, mode: 0 };
        let change = |found: Option<Offer>| Change::of(&offer(5, 1000), found.as_ref());
        assert_eq!(change(None), Change::New);
        assert_eq!(change(Some(offer(6, 1000))), Change::Changed);
        assert_eq!(change(Some(offer(5, 1001))), Change::Changed);
        assert_eq!(change(Some(offer(5, 1000))), Change::Unchanged);
        assert_eq!(Change::of_size(5, Some(5)), Change::Compared);
        assert_eq!(Change::of_size(5, Some(4)), Change::Changed);
    }
}
