//! What attempts at one operation have found at its source and have placed, over one connection after the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::{Edit, EditKind, Names, WirePath};
use crate::session::Outcome;

/// What earlier attempts at an operation have seen, for those that follow when a connection is lost.
///
/// All attempts at the same operation have the same value ([`TransferOptions::attempts`](crate::TransferOptions::attempts)),
/// and no other operation has it. Names are kept as digests, 2,097,152 of them at most.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<History>);

#[derive(Debug, Default)]
struct History {
    earlier: Arc<Mutex<Seen>>,
    /// What the last attempt is still noting.
    last: Option<Arc<Attempt>>,
}

/// One of the attempts.
#[derive(Debug)]
pub(super) struct Attempt {
    earlier: Arc<Mutex<Seen>>,
    own: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// What the source has, by where it is listed.
    listed: HashMap<WirePath, Names>,
    /// There were more names than can be kept.
    is_cut_short: bool,
    /// Files that were not there, and which were transferred at least in part.
    begun: Names,
    /// Files of which the user has heard that they are transferred.
    told: Names,
    /// Edits that a server was asked for and has not answered: it may have made them.
    in_flight: Vec<Edit>,
}

impl Attempts {
    /// Begins the next attempt. What a thread of the last one still notes does not count.
    pub(super) fn begin(&self) -> Arc<Attempt> {
        let mut history = locked(&self.0);
        if let Some(last) = history.last.take() {
            let seen = std::mem::take(&mut *locked(&last.own));
            locked(&history.earlier).add(seen);
        }
        let (earlier, own) = (Arc::clone(&history.earlier), Mutex::default());
        let attempt = Arc::new(Attempt { earlier, own });
        history.last = Some(Arc::clone(&attempt));
        attempt
    }
}

impl Attempt {
    /// Notes that the source has `path` below `place`, as it is printed.
    pub(super) fn note_listed(&self, place: &WirePath, path: &str) {
        let mut own = locked(&self.own);
        if !own.listed.contains_key(place) {
            own.listed.insert(place.clone(), Names::default());
        }
        let noted = own.listed.get_mut(place).map(|names| names.insert(path));
        own.is_cut_short |= noted.is_some_and(|noted| noted.is_err());
    }

    /// Counts the names below `place` that earlier attempts found and this one did not, once it has listed all.
    pub(super) fn missing(&self, place: &WirePath) -> usize {
        let (earlier, own) = (locked(&self.earlier), locked(&self.own));
        if own.is_cut_short {
            return 0;
        }
        let none = Names::default();
        let now = own.listed.get(place).unwrap_or(&none);
        earlier.listed.get(place).map_or(0, |before| before.missing_in(now))
    }

    /// Notes that a file is about to be transferred to `path` of the server, or from there, because it is not there yet.
    pub(super) fn note_begun(&self, path: &WirePath) {
        // A file beyond the limit counts as one that was there.
        let _ = locked(&self.own).begun.insert(path.as_str());
    }

    /// Notes that it is there already.
    pub(super) fn forget_begun(&self, path: &WirePath) {
        locked(&self.own).begun.remove(path.as_str());
    }

    /// Notes the edits that a server is asked for; none once it has answered.
    pub(super) fn note_in_flight(&self, edits: &[Edit]) {
        locked(&self.own).in_flight = edits.to_vec();
    }

    /// Takes the removals that earlier attempts asked for and whose answer has not come.
    pub(super) fn take_removals(&self) -> Vec<Edit> {
        let mut earlier = locked(&self.earlier);
        let is_removal = |edit: &mut Edit| edit.kind() == EditKind::Removal;
        earlier.in_flight.extract_if(.., is_removal).collect()
    }

    /// Whether an earlier attempt asked for this edit, and no answer has come.
    pub(super) fn was_in_flight(&self, edit: &Edit) -> bool {
        locked(&self.earlier).in_flight.contains(edit)
    }

    /// What the user hears of a file, which is noted. One that is there already was transferred if an earlier attempt
    /// began that, and was cut off before it could tell.
    pub(super) fn tell(&self, path: &str, outcome: Outcome) -> Outcome {
        let Ok(path) = WirePath::new(path) else { return outcome };
        let is_placed = outcome.equal && !outcome.attributes && {
            let earlier = locked(&self.earlier);
            earlier.begun.contains(&path) && !earlier.told.contains(&path)
        };
        let told = Outcome { equal: outcome.equal && !is_placed, ..outcome };
        if !told.equal && !told.kept {
            // Beyond the limit it is told once more.
            let _ = locked(&self.own).told.insert(path.as_str());
        }
        told
    }

    /// Whether an earlier attempt has noted that a file was about to be transferred.
    pub(super) fn has_begun(&self, path: &WirePath) -> bool {
        locked(&self.earlier).begun.contains(path)
    }
}

impl Seen {
    fn add(&mut self, other: Self) {
        for (place, names) in other.listed {
            self.listed.entry(place).or_default().add(names);
        }
        self.begun.add(other.begun);
        self.told.add(other.told);
        self.in_flight.extend(other.in_flight);
    }
}

/// What is in it is whole whenever the lock is free.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_any_earlier_attempt_has_found_is_missing_until_it_is_found_again() {
        let (attempts, place) = (Attempts::default(), WirePath::new("tree").unwrap());
        let first = attempts.begin();
        first.note_listed(&place, "a");
        first.note_listed(&place, "b");
        assert_eq!(first.missing(&place), 0);
        let second = attempts.begin();
        second.note_listed(&place, "b");
        assert_eq!((second.missing(&place), second.missing(&WirePath::root())), (1, 0));
        let third = attempts.begin();
        // A thread of the first one has not ended yet.
        first.note_listed(&place, "a");
        third.note_listed(&place, "c");
        assert_eq!(third.missing(&place), 2);
        third.note_listed(&place, "a");
        third.note_listed(&place, "b");
        assert_eq!(third.missing(&place), 0);
    }

    #[test]
    fn a_file_that_was_placed_and_not_told_counts_as_transferred() {
        let (attempts, path) = (Attempts::default(), WirePath::new("file").unwrap());
        let there = Outcome { equal: true, ..Outcome::default() };
        let first = attempts.begin();
        for name in ["told", "file", "forgotten"] {
            first.note_begun(&WirePath::new(name).unwrap());
        }
        first.forget_begun(&WirePath::new("forgotten").unwrap());
        assert!(first.tell(path.as_str(), there).equal, "what is begun is not there yet");
        first.tell("told", Outcome::default());
        let second = attempts.begin();
        assert!(!second.tell("file", there).equal);
        for name in ["told", "forgotten", "other"] {
            assert!(second.tell(name, there).equal, "{name}");
        }
        assert!(attempts.begin().tell("file", there).equal, "it is told once");
    }

    #[test]
    fn files_count_as_begun_from_the_next_attempt_on() {
        let (attempts, path) = (Attempts::default(), WirePath::new("file").unwrap());
        let first = attempts.begin();
        first.note_begun(&path);
        assert!(!first.has_begun(&path));
        attempts.begin();
        assert!(attempts.begin().has_begun(&path));
    }
}
