//! How long the destination connection id of an outgoing packet is.
//!
//! What: the lengths of the connection ids that the peer has issued. Why: a short header does not
//! carry the length, quiche tells the id of the active path alone, and a packet for another path may
//! carry an id of another length (RFC 9000 section 5.1). Upstream: `SendInfo` names the addresses and
//! not the id. To delete: when quiche tells the id, or the packet number, of what it has written.

/// Lengths that one peer is known to use at most.
const MAX_LENGTHS: usize = 4;

/// The lengths of a peer's connection ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionIdLengths {
    lengths: [usize; MAX_LENGTHS],
    known: usize,
}

impl ConnectionIdLengths {
    /// NEW_CONNECTION_ID has brought an id of this length.
    pub fn on_issued(&mut self, len: usize) {
        if self.known < MAX_LENGTHS && !self.lengths[..self.known].contains(&len) {
            self.lengths[self.known] = len;
            self.known += 1;
        }
    }

    /// The lengths to try for a packet: that of the active path first.
    pub fn candidates(self, active: usize) -> impl Iterator<Item = usize> {
        let others = self.lengths.into_iter().take(self.known);
        std::iter::once(active).chain(others.filter(move |len| *len != active))
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
    fn a_peer_cannot_make_the_list_long() {
        let mut lengths = ConnectionIdLengths::default();
        for len in 0..20 {
            lengths.on_issued(len);
        }
        assert_eq!(lengths.candidates(100).count(), 1 + MAX_LENGTHS);
    }
}
