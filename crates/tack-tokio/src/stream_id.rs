//! Stream ids (RFC 9000 section 2.1).

use std::fmt;

/// Identifies a stream of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u64);

/// Whether both ends send on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Bi = 0,
    Uni = 1,
}

const OF_SERVER: u64 = 1;
const UNIDIRECTIONAL: u64 = 2;

impl StreamId {
    pub(crate) fn new(index: u64, direction: Direction, of_server: bool) -> Self {
        Self(index << 2 | (direction as u64) << 1 | u64::from(of_server))
    }

    /// The number on the wire.
    pub fn value(self) -> u64 {
        self.0
    }

    /// How many streams of its kind were opened before.
    pub fn index(self) -> u64 {
        self.0 >> 2
    }

    /// Whether the server has opened it.
    pub fn is_of_server(self) -> bool {
        self.0 & OF_SERVER != 0
    }

    /// Whether only the end that has opened it sends.
    pub fn is_unidirectional(self) -> bool {
        self.0 & UNIDIRECTIONAL != 0
    }

    pub(crate) fn direction(self) -> Direction {
        if self.is_unidirectional() { Direction::Uni } else { Direction::Bi }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_rfc() {
        use Direction::{Bi, Uni};
        let kinds = [(Bi, false), (Bi, true), (Uni, false), (Uni, true)];
        for (low_bits, (direction, of_server)) in kinds.into_iter().enumerate() {
            let id = StreamId::new(5, direction, of_server);
            assert_eq!(id.value(), 20 + low_bits as u64);
            assert_eq!(
                (id.index(), id.direction(), id.is_of_server()),
                (5, direction, of_server)
            );
        }
    }
}
