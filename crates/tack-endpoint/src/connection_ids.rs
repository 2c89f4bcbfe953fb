//! Which connection a connection ID belongs to.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::handle::Handle;

/// The length of every connection ID that this endpoint chooses, in bytes.
///
/// Each of the peer's packets carries one, so it is short: 64 random bits, as many as RFC 9000
/// section 7.2 asks of a client's first, do not collide among the connections of a socket.
pub(crate) const CID_LEN: usize = 8;

/// A connection ID this endpoint chose.
pub(crate) type Cid = [u8; CID_LEN];

/// The connection IDs in use, all of which are forgotten together with their connection.
#[derive(Default)]
pub(crate) struct ConnectionIds {
    chosen: HashMap<Cid, Handle>,
    /// Destination IDs that clients chose for their first Initial. Two clients may choose the same
    /// one, so their address is part of the key.
    initial: HashMap<Initial, Handle>,
    /// The stateless reset tokens that servers have announced.
    resets: HashMap<ResetTokenHash, Handle>,
    of: HashMap<Handle, Ids>,
}

type Initial = (SocketAddr, Vec<u8>);

/// A server's address and the keyed hash of a reset token. The time that the lookup of a hash takes
/// tells nothing about the token (RFC 9000 section 10.3.1).
pub(crate) type ResetTokenHash = (SocketAddr, [u8; 32]);

#[derive(Default)]
struct Ids {
    chosen: Vec<Cid>,
    initial: Option<Initial>,
    reset: Option<ResetTokenHash>,
}

impl ConnectionIds {
    /// The connection that a packet sent to `dcid` from `from` belongs to.
    pub(crate) fn find(&self, from: SocketAddr, dcid: &[u8]) -> Option<Handle> {
        let chosen = <&Cid>::try_from(dcid).ok().and_then(|cid| self.chosen.get(cid));
        if let Some(handle) = chosen {
            return Some(*handle);
        }
        if self.initial.is_empty() {
            return None;
        }
        self.initial.get(&(from, dcid.to_vec())).copied()
    }

    /// Adds an ID that this endpoint chose.
    pub(crate) fn insert(&mut self, cid: Cid, handle: Handle) {
        self.chosen.insert(cid, handle);
        self.of.entry(handle).or_default().chosen.push(cid);
    }

    /// Adds the ID that a client chose for us in its first Initial.
    ///
    /// It is kept as long as the connection: a late duplicate of that Initial must not open a
    /// second connection.
    pub(crate) fn insert_initial(&mut self, from: SocketAddr, dcid: &[u8], handle: Handle) {
        let initial = (from, dcid.to_vec());
        self.initial.insert(initial.clone(), handle);
        self.of.entry(handle).or_default().initial = Some(initial);
    }

    /// The connection that a server's stateless reset is for.
    pub(crate) fn find_reset(&self, hash: &ResetTokenHash) -> Option<Handle> {
        self.resets.get(hash).copied()
    }

    pub(crate) fn has_resets(&self) -> bool {
        !self.resets.is_empty()
    }

    /// Adds the reset that a server may send for a connection.
    pub(crate) fn insert_reset(&mut self, hash: ResetTokenHash, handle: Handle) {
        self.resets.insert(hash, handle);
        self.of.entry(handle).or_default().reset = Some(hash);
    }

    /// Removes an ID that the peer has retired.
    pub(crate) fn retire(&mut self, cid: &[u8]) {
        let Ok(cid) = <Cid>::try_from(cid) else { return };
        let Some(handle) = self.chosen.remove(&cid) else { return };
        if let Some(ids) = self.of.get_mut(&handle) {
            ids.chosen.retain(|other| *other != cid);
        }
    }

    /// Removes every ID of a connection.
    pub(crate) fn forget(&mut self, handle: Handle) {
        let Some(ids) = self.of.remove(&handle) else { return };
        for cid in ids.chosen {
            self.chosen.remove(&cid);
        }
        if let Some(initial) = ids.initial {
            self.initial.remove(&initial);
        }
        if let Some(hash) = ids.reset {
            self.resets.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_chosen_id_is_found_from_any_address() {
        let mut ids = ConnectionIds::default();
        let handle = Handle::for_test(1);
        ids.insert([1; CID_LEN], handle);
        assert_eq!(ids.find(address(1), &[1; CID_LEN]), Some(handle));
        assert_eq!(ids.find(address(2), &[1; CID_LEN]), Some(handle));
        assert_eq!(ids.find(address(1), &[2; CID_LEN]), None);
    }

    #[test]
    fn clients_that_chose_the_same_initial_id_are_told_apart() {
        let mut ids = ConnectionIds::default();
        let (a, b) = (Handle::for_test(1), Handle::for_test(2));
        ids.insert_initial(address(1), &[9; 8], a);
        ids.insert_initial(address(2), &[9; 8], b);
        assert_eq!(ids.find(address(1), &[9; 8]), Some(a));
        assert_eq!(ids.find(address(2), &[9; 8]), Some(b));
        assert_eq!(ids.find(address(3), &[9; 8]), None);
    }

    #[test]
    fn a_retired_id_is_gone_and_its_siblings_stay() {
        let mut ids = ConnectionIds::default();
        let handle = Handle::for_test(1);
        ids.insert([1; CID_LEN], handle);
        ids.insert([2; CID_LEN], handle);
        ids.retire(&[1; CID_LEN]);
        assert_eq!(ids.find(address(1), &[1; CID_LEN]), None);
        assert_eq!(ids.find(address(1), &[2; CID_LEN]), Some(handle));
    }

    #[test]
    fn forgetting_a_connection_forgets_all_of_its_ids() {
        let mut ids = ConnectionIds::default();
        let handle = Handle::for_test(1);
        ids.insert([1; CID_LEN], handle);
        ids.insert([2; CID_LEN], handle);
        ids.insert_initial(address(1), &[9; 8], handle);
        ids.insert_reset((address(1), [3; 32]), handle);
        ids.forget(handle);
        assert!(ids.chosen.is_empty());
        assert!(ids.initial.is_empty());
        assert!(ids.resets.is_empty());
        assert!(ids.of.is_empty());
    }
}
