//! Which client gives way where a server has room for no more.

use std::collections::{HashMap, VecDeque};

use crate::network::Network;

/// Entries by the network of their client, the oldest of each network first.
///
/// A server that bounds how many there are lets one of [`ByNetwork::most`] give way to the next. However many come from
/// one network, they displace each other, and not the few of other networks.
#[derive(Clone, Debug)]
pub struct ByNetwork<T> {
    /// None of them is empty.
    of_network: HashMap<Network, VecDeque<T>>,
    len: usize,
}

impl<T> Default for ByNetwork<T> {
    fn default() -> Self {
        Self { of_network: HashMap::new(), len: 0 }
    }
}

impl<T: PartialEq> ByNetwork<T> {
    /// The number of entries of all networks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of entries of one network.
    pub fn count(&self, network: Network) -> usize {
        self.of_network.get(&network).map_or(0, VecDeque::len)
    }

    /// The entries of the network that has most, the oldest first; `None` if there is no entry.
    ///
    /// Of networks that have as many, it is any.
    pub fn most(&self) -> Option<&VecDeque<T>> {
        self.of_network.values().max_by_key(|entries| entries.len())
    }

    /// Adds an entry, the newest of its network. No entry is in there twice.
    pub fn push(&mut self, network: Network, entry: T) {
        self.of_network.entry(network).or_default().push_back(entry);
        self.len += 1;
    }

    /// Removes an entry of this network. Returns whether it was there.
    pub fn remove(&mut self, network: Network, entry: &T) -> bool {
        let Some(entries) = self.of_network.get_mut(&network) else { return false };
        let Some(at) = entries.iter().position(|other| other == entry) else { return false };
        entries.remove(at);
        if entries.is_empty() {
            self.of_network.remove(&network);
        }
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(n: u8) -> Network {
        Network::of([192, 0, 2, n].into())
    }

    fn oldest_of_most(entries: &ByNetwork<u32>) -> Option<u32> {
        entries.most()?.front().copied()
    }

    #[test]
    fn the_network_with_most_is_that_with_most_at_the_time_and_its_oldest_comes_first() {
        let mut entries = ByNetwork::default();
        assert_eq!(entries.most(), None);
        for (n, entry) in [(1, 10), (2, 20), (2, 21), (1, 11), (2, 22)] {
            entries.push(network(n), entry);
        }
        assert_eq!(entries.most().unwrap(), &[20, 21, 22]);
        assert_eq!((entries.count(network(1)), entries.count(network(2))), (2, 3));
        assert!(entries.remove(network(2), &20) && entries.remove(network(2), &22));
        assert_eq!(oldest_of_most(&entries), Some(10));
        entries.push(network(2), 20);
        entries.push(network(2), 23);
        assert_eq!(entries.most().unwrap(), &[21, 20, 23], "one that comes again is new");
    }

    #[test]
    fn a_network_that_fills_all_the_room_displaces_itself_alone() {
        let mut entries = ByNetwork::default();
        entries.push(network(1), 0);
        for entry in 1..1000 {
            entries.push(network(2), entry);
            if entries.len() > 8 {
                let oldest = oldest_of_most(&entries).unwrap();
                assert_eq!(oldest, entry - 7);
                assert!(entries.remove(network(2), &oldest));
            }
        }
        assert_eq!((entries.count(network(1)), entries.len()), (1, 8));
    }

    #[test]
    fn only_what_is_there_is_removed_and_nothing_is_kept_of_networks_without_entries() {
        let mut entries = ByNetwork::default();
        entries.push(network(1), 1);
        assert!(!entries.remove(network(2), &1) && !entries.remove(network(1), &2));
        assert_eq!((entries.len(), entries.is_empty()), (1, false));
        assert!(entries.remove(network(1), &1) && !entries.remove(network(1), &1));
        assert!(entries.is_empty() && entries.of_network.is_empty());
    }
}
