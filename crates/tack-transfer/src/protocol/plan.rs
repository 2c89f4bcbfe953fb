//! What a transfer would do with a file.

use serde::Serialize;

use super::{Found, Offer, Policy};

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
    /// One of the same size and time of modification, which gets other permissions.
    Attributes,
    /// Something that stays, whatever is offered.
    Kept,
    /// Something that the source no longer has, or that makes way for something of another kind, and is removed.
    Deleted,
    /// Nothing, or something else than the symbolic link or the further name of a file that is made.
    Linked,
}

impl Change {
    /// For a file that is offered, where there is `found`: its time is compared as a transfer does.
    pub fn of(offer: &Offer, found: Option<&Found>) -> Self {
        let is_same = |found: &Found| {
            found.offer.size == offer.size
                && found.grain.is_same(found.offer.modified, offer.modified)
        };
        match found {
            None => Self::New,
            Some(found) if is_same(found) => Self::Unchanged,
            Some(_) => Self::Changed,
        }
    }

    /// The same, where a file may stay by the `policy`.
    pub fn by(policy: &Policy, offer: &Offer, found: Option<&Found>) -> Self {
        match found {
            Some(found) if policy.keeps(&found.offer, offer) => Self::Kept,
            Some(found) if Self::of(offer, Some(found)) == Self::Unchanged => {
                let there = found.offer.mode;
                let narrower = there & offer.mode;
                let mode = if policy.preserve { offer.mode } else { narrower };
                let is_wider = policy.preserve && found.special;
                if mode == there && !is_wider { Self::Unchanged } else { Self::Attributes }
            }
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
            Self::Attributes => "attributes",
            Self::Kept => "kept",
            Self::Deleted => "deleted",
            Self::Linked => "linked",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Grain, Mtime};

    #[test]
    fn size_and_time_of_modification_tell_a_change() {
        let offer =
            |size, seconds| Offer { size, modified: Mtime { seconds, nanos: 0 }, mode: 0 };
        let change = |found: Option<Offer>| {
            let found =
                found.map(|offer| Found { offer, grain: Grain::FINEST, special: false });
            Change::of(&offer(5, 1000), found.as_ref())
        };
        assert_eq!(change(None), Change::New);
        assert_eq!(change(Some(offer(6, 1000))), Change::Changed);
        assert_eq!(change(Some(offer(5, 1001))), Change::Changed);
        assert_eq!(change(Some(offer(5, 1000))), Change::Unchanged);
        assert_eq!(Change::of_size(5, Some(5)), Change::Compared);
        assert_eq!(Change::of_size(5, Some(4)), Change::Changed);
    }

    #[test]
    fn a_plan_tells_times_apart_by_the_digits_that_the_file_system_keeps() {
        let file = tempfile::tempfile().unwrap();
        let offer =
            |nanos| Offer { size: 0, modified: Mtime { seconds: 1000, nanos }, mode: 0 };
        let change = |changed, found, offered| {
            let mut stat = rustix::fs::fstat(&file).unwrap();
            (stat.st_ctime_nsec, stat.st_mtime, stat.st_mtime_nsec) = (changed, 1000, found);
            Change::of(&offer(offered), Some(&Found::of(&stat)))
        };
        assert_eq!(change(123_456_789, 5, 5), Change::Unchanged);
        assert_eq!(change(123_456_789, 5, 6), Change::Changed);
        assert_eq!(change(0, 0, 999_999_999), Change::Unchanged, "whole seconds");
        assert_eq!(change(123_456_789, 0, 5), Change::Changed, "it was written at the second");
        assert_eq!(change(123_456_000, 7_000, 7_999), Change::Unchanged);
        assert_eq!(change(123_456_000, 7_000, 8_000), Change::Changed);
        assert_eq!(change(123_456_700, 200, 299), Change::Unchanged);
    }
}
