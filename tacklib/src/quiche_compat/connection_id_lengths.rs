//! How long the destination connection id of an outgoing packet is.
//!
//! What: the lengths of the connection ids that the peer has issued. Why: a short header does not
//! carry the length, quiche tells the id of the active path alone, and a packet for another path may
//! carry an id of another length (RFC 9000 section 5.1). Upstream: `SendInfo` names the addresses and
//! not the id. To delete: when quiche tells the id, or the packet number, of what it has written.

/// The longest connection id (RFC 9000 section 17.2).
const MAX_CID_LEN: usize = 20;

/// The lengths of a peer's connection ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionIdLengths {
    /// A bit for each length that an id was issued with.
    issued: u32,
}

impl ConnectionIdLengths {
    /// The peer has issued an id of this length: in its handshake, or by NEW_CONNECTION_ID.
    #[inline]
    pub fn on_issued(&mut self, len: usize) {
        if len <= MAX_CID_LEN {
            self.issued |= 1 << len;
        }
    }

    /// Whether all ids are as long as that of the active path.
    #[inline]
    pub fn are_all(self, active: usize) -> bool {
        self.issued & !(1 << active) == 0
    }

    /// The lengths to try for a packet: that of the active path first.
    pub fn candidates(self, active: usize) -> impl Iterator<Item = usize> {
        let is_other = move |len: &usize| *len != active && self.issued & 1 << len != 0;
        std::iter::once(active).chain((0..=MAX_CID_LEN).filter(is_other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_the_active_path_comes_first_and_no_length_twice() {
        let mut lengths = ConnectionIdLengths::default();
        for len in [8, 20, 8] {
            lengths.on_issued(len);
        }
        assert_eq!(lengths.candidates(20).collect::<Vec<_>>(), [20, 8]);
        assert_eq!(lengths.candidates(5).collect::<Vec<_>>(), [5, 8, 20]);
    }

    #[test]
    fn ids_of_one_length_need_no_search() {
        let mut lengths = ConnectionIdLengths::default();
        assert!(lengths.are_all(0));
        lengths.on_issued(8);
        assert!(lengths.are_all(8) && !lengths.are_all(20));
        lengths.on_issued(20);
        assert!(!lengths.are_all(8) && !lengths.are_all(20));
    }

    #[test]
    fn lengths_that_no_connection_id_has_are_ignored() {
        let mut lengths = ConnectionIdLengths::default();
        lengths.on_issued(100);
        assert!(lengths.are_all(8));
    }
}
