//! Which connection a connection ID belongs to.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::ops::Deref;

use tack_packet::MAX_CID_LEN;

use crate::handle::Handle;

/// A connection ID this endpoint chose.
///
/// All that an endpoint chooses have one length, which [`CidGenerator`](crate::cid_generator::CidGenerator)
/// knows: a short header does not say it.
#[derive(Clone, Copy)]
pub(crate) struct Cid {
    bytes: [u8; MAX_CID_LEN],
    len: usize,
}

impl Deref for Cid {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Makes one of up to 20 bytes.
impl TryFrom<&[u8]> for Cid {
    type Error = ();

    fn try_from(id: &[u8]) -> Result<Self, ()> {
        let mut bytes = [0; MAX_CID_LEN];
        bytes.get_mut(..id.len()).ok_or(())?.copy_from_slice(id);
        Ok(Self { bytes, len: id.len() })
    }
}

/// Lets a map be asked with bytes of a packet.
impl Borrow<[u8]> for Cid {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Cid {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Cid {}

impl Hash for Cid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The connection IDs in use, all of which are forgotten together with their connection.
#[derive(Default)]
pub(crate) struct ConnectionIds {
    chosen: HashMap<Cid, Handle>,
    /// Destination IDs of the Initials that opened connections: what clients chose, or the source IDs of Retries. Two
    /// clients may choose the same one, so their address is part of the key.
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
        if let Some(handle) = self.chosen.get(dcid) {
            return Some(*handle);
        }
        if self.initial.is_empty() {
            return None;
        }
        self.initial.get(&(from, dcid.to_vec())).copied()
    }

    /// Whether an ID is in use.
    pub(crate) fn is_taken(&self, cid: &[u8]) -> bool {
        self.chosen.contains_key(cid)
    }

    /// Adds an ID that this endpoint chose.
    pub(crate) fn insert(&mut self, cid: Cid, handle: Handle) {
        self.chosen.insert(cid, handle);
        self.of.entry(handle).or_default().chosen.push(cid);
    }

    /// Adds the destination ID of the Initial that opened a connection: what the client chose, or the source ID of the
    /// Retry.
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
        let Some(handle) = self.chosen.remove(cid) else { return };
        if let Some(ids) = self.of.get_mut(&handle) {
            ids.chosen.retain(|other| **other != *cid);
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

    fn cid(byte: u8) -> Cid {
        Cid::try_from(&[byte; 8][..]).unwrap()
    }

    #[test]
    fn a_chosen_id_is_found_from_any_address() {
        let mut ids = ConnectionIds::default();
        let handle = Handle::for_test(1);
        ids.insert(cid(1), handle);
        assert_eq!(ids.find(address(1), &[1; 8]), Some(handle));
        assert_eq!(ids.find(address(2), &[1; 8]), Some(handle));
        assert_eq!(ids.find(address(1), &[2; 8]), None);
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
        ids.insert(cid(1), handle);
        ids.insert(cid(2), handle);
        ids.retire(&[1; 8]);
        assert_eq!(ids.find(address(1), &[1; 8]), None);
        assert_eq!(ids.find(address(1), &[2; 8]), Some(handle));
    }

    #[test]
    fn forgetting_a_connection_forgets_all_of_its_ids() {
        let mut ids = ConnectionIds::default();
        let handle = Handle::for_test(1);
        ids.insert(cid(1), handle);
        ids.insert(cid(2), handle);
        ids.insert_initial(address(1), &[9; 8], handle);
        ids.insert_reset((address(1), [3; 32]), handle);
        ids.forget(handle);
        assert!(ids.chosen.is_empty());
        assert!(ids.initial.is_empty());
        assert!(ids.resets.is_empty());
        assert!(ids.of.is_empty());
    }

    #[test]
    fn ids_of_different_lengths_differ_and_those_that_are_too_long_are_none() {
        let mut ids = ConnectionIds::default();
        let handle = Handle::for_test(1);
        for len in 0..=MAX_CID_LEN {
            ids.insert(Cid::try_from(&[0; MAX_CID_LEN][..len]).unwrap(), handle);
            assert_eq!(ids.chosen.len(), len + 1);
            assert!(ids.is_taken(&[0; MAX_CID_LEN][..len]));
        }
        assert!(Cid::try_from(&[0; MAX_CID_LEN + 1][..]).is_err());
    }
}
