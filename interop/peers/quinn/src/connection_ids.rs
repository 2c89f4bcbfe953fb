//! Connection ids of a chosen length.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use quinn::{ConnectionId, ConnectionIdGenerator};

/// Makes random connection ids of that length.
pub struct WithLength(pub usize);

impl ConnectionIdGenerator for WithLength {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = Vec::new();
        while bytes.len() < self.0 {
            bytes.extend(RandomState::new().build_hasher().finish().to_be_bytes());
        }
        ConnectionId::new(&bytes[..self.0])
    }

    fn cid_len(&self) -> usize {
        self.0
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
