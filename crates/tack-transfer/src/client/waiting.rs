//! Files that wait until all their names are known: the receiver may have them under another one than the first.

use std::collections::HashMap;

use crate::protocol::WirePath;

/// Files with several names, by their numbers, with what is known of each.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    files: HashMap<u64, (usize, WirePath, T)>,
    /// How many there have been.
    count: usize,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { files: HashMap::new(), count: 0 }
    }
}

impl<T> Waiting<T> {
    /// A file with this number, and its first name.
    pub(super) fn add(&mut self, inode: u64, first: WirePath, file: T) {
        self.files.insert(inode, (self.count, first, file));
        self.count += 1;
    }

    /// Whether the file with this number waits.
    pub(super) fn contains(&self, inode: u64) -> bool {
        self.files.contains_key(&inode)
    }

    /// The first name of a file that waits no longer.
    pub(super) fn remove(&mut self, inode: u64) -> Option<WirePath> {
        self.files.remove(&inode).map(|(_, first, _)| first)
    }

    /// All that are left, with their first names, as they were found.
    pub(super) fn take(&mut self) -> Vec<(WirePath, T)> {
        let mut left: Vec<_> = self.files.drain().map(|(_, file)| file).collect();
        left.sort_by_key(|(at, ..)| *at);
        left.into_iter().map(|(_, first, file)| (first, file)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_comes_as_it_was_found() {
        let mut waiting = Waiting::default();
        let name = |at: u64| WirePath::new(at.to_string()).unwrap();
        for at in [5, 1, 4, 2, 3] {
            waiting.add(at, name(at), at * 10);
        }
        assert!(waiting.contains(4));
        assert_eq!(waiting.remove(4), Some(name(4)));
        assert!(!waiting.contains(4));
        assert_eq!(waiting.remove(4), None);
        let left = [5, 1, 2, 3].map(|at| (name(at), at * 10));
        assert_eq!(waiting.take(), left);
        assert!(waiting.take().is_empty());
    }
}
