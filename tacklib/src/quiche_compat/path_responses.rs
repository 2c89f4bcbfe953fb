//! Answers to path challenges that quiche forgets.
//!
//! What: remembers the challenges of the peer until a packet with the answer leaves on their path. Why:
//! quiche (0.30, `send_single`) takes a challenge off its list before it looks whether the answer fits,
//! and an acknowledgement goes first: in a packet without room for stream data
//! (see `buffer_limit`) the answer is lost, and the peer's validation of the path fails. Upstream: not
//! reported. To delete: when quiche keeps what did not fit.

use std::collections::VecDeque;

use super::AddressPair;

/// Challenges that are remembered; the peer of more repeats one.
const MAX_CHALLENGES: usize = 4;

/// Challenges that have not been answered.
#[derive(Debug, Default)]
pub struct PathResponses {
    owed: VecDeque<(AddressPair, [u8; 8])>,
}

impl PathResponses {
    /// A challenge has come over a path.
    pub fn on_challenge(&mut self, path: AddressPair, data: [u8; 8]) {
        if self.owed.len() == MAX_CHALLENGES {
            self.owed.pop_front();
        }
        self.owed.push_back((path, data));
    }

    /// Whether all challenges have been answered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// The data of the oldest challenge on that path.
    pub fn owed(&self, path: AddressPair) -> Option<[u8; 8]> {
        self.owed.iter().find(|(of, _)| *of == path).map(|(_, data)| *data)
    }

    /// The answer with that data has left over the path. Each challenge is answered once (RFC 9000 section 8.2.2).
    pub fn on_answered(&mut self, path: AddressPair, data: [u8; 8]) {
        if let Some(at) = self.owed.iter().position(|owed| *owed == (path, data)) {
            self.owed.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn path(port: u16) -> AddressPair {
        let address = |port| (Ipv4Addr::LOCALHOST, port).into();
        (address(443), address(port))
    }

    #[test]
    fn each_challenge_is_answered_on_its_own_path() {
        let mut responses = PathResponses::default();
        responses.on_challenge(path(1), [1; 8]);
        responses.on_challenge(path(2), [2; 8]);
        assert_eq!(responses.owed(path(2)), Some([2; 8]));
        responses.on_answered(path(2), [2; 8]);
        assert_eq!(responses.owed(path(2)), None);
        assert_eq!(responses.owed(path(1)), Some([1; 8]));
        responses.on_answered(path(1), [1; 8]);
        assert!(responses.is_empty());
    }

    #[test]
    fn a_flood_of_challenges_takes_no_memory() {
        let mut responses = PathResponses::default();
        (0..100).for_each(|data| responses.on_challenge(path(1), [data; 8]));
        assert_eq!(responses.owed.len(), MAX_CHALLENGES);
    }
}
