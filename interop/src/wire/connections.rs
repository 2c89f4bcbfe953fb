//! All connections of a record, told apart by connection ids: those of the handshake, and those
//! given later. Addresses are of no use for that, as they change.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tack_packet::{LongPacketType, Packet, packets};
use tack_tap::{Direction, TapCounters};

use super::connection::{Connection, Named};
use super::recorder::Passage;

/// Tells the connections of a record apart.
pub struct Connections<'log> {
    key_log: &'log str,
    all: Vec<Connection>,
    /// By where packets with that id go.
    by_id: HashMap<(Direction, Vec<u8>), usize>,
    /// The lengths of those ids, as a short header does not tell.
    lengths: BTreeSet<usize>,
    /// The direction of packets to an end with an empty id, and its connection.
    unnamed: HashSet<(Direction, usize)>,
    /// The connections of each client, as they began: an empty id leaves no other choice.
    of_flow: HashMap<u32, Vec<usize>>,
    /// The connections on which the server has sent something.
    answered: HashSet<usize>,
}

impl<'log> Connections<'log> {
    /// Connections whose secrets are in the key log.
    pub fn new(key_log: &'log str) -> Self {
        Self {
            key_log,
            all: Vec::new(),
            by_id: HashMap::new(),
            lengths: BTreeSet::new(),
            unnamed: HashSet::new(),
            of_flow: HashMap::new(),
            answered: HashSet::new(),
        }
    }

    /// A datagram was sent, so long after the first. Returns the number of its connection, if it
    /// belongs to one.
    pub fn sent(&mut self, passage: &Passage, at: Duration) -> Option<usize> {
        let number = self.find(passage).or_else(|| self.begin(passage, at))?;
        if passage.direction == Direction::ToServer {
            // A client may go on from another socket: what comes back there is its as well.
            self.of_flow.entry(passage.flow).or_insert_with(|| vec![number]);
        } else {
            self.answered.insert(number);
        }
        for named in self.all[number].sent(passage, at, self.key_log) {
            self.name(named, number);
        }
        Some(number)
    }

    /// A datagram reached the server.
    pub fn arrived(&mut self, passage: &Passage) {
        if let Some(number) = self.find(passage) {
            self.all[number].arrived(passage);
        }
    }

    /// The connection that a datagram sent now belongs to.
    pub fn find(&self, passage: &Passage) -> Option<usize> {
        let Passage { direction, flow, ref bytes, .. } = *passage;
        let known = |id: &[u8]| self.by_id.get(&(direction, id.to_vec())).copied();
        match packets(bytes).next()? {
            Packet::Long(long) if long.header.dcid.is_empty() => {
                let is_answer = matches!(
                    long.header.packet_type,
                    LongPacketType::Initial
                        | LongPacketType::Retry
                        | LongPacketType::VersionNegotiation
                );
                self.with_empty_id(direction, flow, is_answer)
            }
            Packet::Long(long) => known(long.header.dcid),
            Packet::Short(packet) => {
                let ids = self.lengths.iter().rev().filter_map(|len| packet.get(1..1 + len));
                let mut found = ids.filter_map(known);
                found.next().or_else(|| self.with_empty_id(direction, flow, false))
            }
        }
    }

    /// What was counted so far of a connection, in one direction.
    pub fn counters(&self, number: usize, direction: Direction) -> TapCounters {
        *self.all[number].counters(direction)
    }

    /// All of them, in the order in which they began.
    pub fn into_all(self) -> Vec<Connection> {
        self.all
    }

    /// The client's last connection. Where that has yet to be answered, and the packet is no such
    /// answer, the one before: a client may be given the port of the one before it, and what was
    /// on its way to that comes late.
    fn with_empty_id(&self, direction: Direction, flow: u32, is_answer: bool) -> Option<usize> {
        let may_be = |number: &&usize| {
            direction == Direction::ToServer || is_answer || self.answered.contains(number)
        };
        let numbers = self.of_flow.get(&flow)?;
        let number = *numbers.iter().rev().find(may_be).or(numbers.last())?;
        self.unnamed.contains(&(direction, number)).then_some(number)
    }

    /// A client's Initial with an unknown destination id begins a connection; so does a packet of
    /// a version that only the ends know.
    fn begin(&mut self, passage: &Passage, at: Duration) -> Option<usize> {
        let Packet::Long(first) = packets(&passage.bytes).next()? else { return None };
        let begins = passage.direction == Direction::ToServer
            && matches!(
                first.header.packet_type,
                LongPacketType::Initial | LongPacketType::UnknownVersion
            );
        if !begins {
            return None;
        }
        let number = self.all.len();
        self.all.push(Connection::new(at));
        self.of_flow.entry(passage.flow).or_default().push(number);
        let cid = first.header.dcid.to_vec();
        self.name(Named { direction: Direction::ToServer, cid }, number);
        Some(number)
    }

    fn name(&mut self, Named { direction, cid }: Named, number: usize) {
        if cid.is_empty() {
            self.unnamed.insert((direction, number));
        } else {
            self.lengths.insert(cid.len());
            self.by_id.insert((direction, cid), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn passage(direction: Direction, flow: u32, bytes: Vec<u8>) -> Passage {
        let (at, len) = (Duration::ZERO, bytes.len());
        let ecn = tack_link::Ecn::NotEct;
        Passage { at, direction, flow, server: 0, path: flow, ecn, len, bytes, arrived: false }
    }

    /// An Initial with an empty source connection id.
    fn initial(dcid: &[u8]) -> Vec<u8> {
        let mut packet = vec![0xc0, 0, 0, 0, 1, dcid.len() as u8];
        packet.extend_from_slice(dcid);
        packet.extend_from_slice(&[0, 0, 0x41, 0x00]); // no id, no token, 256 bytes follow
        packet.extend_from_slice(&[0; 256]);
        packet
    }

    #[test]
    fn what_comes_late_for_the_client_that_had_the_port_before_is_not_the_new_ones() {
        let mut connections = Connections::new("");
        let mut sent =
            |direction, bytes| connections.sent(&passage(direction, 0, bytes), Duration::ZERO);
        let late = || vec![0x40; 40];
        assert_eq!(sent(Direction::ToServer, initial(&[1; 8])), Some(0));
        assert_eq!(sent(Direction::ToClient, initial(&[])), Some(0));
        assert_eq!(sent(Direction::ToServer, initial(&[2; 8])), Some(1));
        assert_eq!(sent(Direction::ToClient, late()), Some(0), "the other has no answer yet");
        assert_eq!(sent(Direction::ToClient, initial(&[])), Some(1));
        assert_eq!(sent(Direction::ToClient, late()), Some(1));
    }

    #[test]
    fn a_client_without_a_connection_id_is_known_at_the_socket_that_it_moves_to() {
        let mut connections = Connections::new("");
        let id = [7; 8];
        let first = passage(Direction::ToServer, 0, initial(&id));
        assert_eq!(connections.sent(&first, Duration::ZERO), Some(0));

        let back = passage(Direction::ToClient, 1, vec![0x40; 40]);
        assert_eq!(connections.find(&back), None, "no client has used that socket");
        let mut moved = vec![0x40];
        moved.extend_from_slice(&id);
        moved.extend_from_slice(&[0; 30]);
        let moved = passage(Direction::ToServer, 1, moved);
        assert_eq!(connections.sent(&moved, Duration::ZERO), Some(0));
        assert_eq!(connections.find(&back), Some(0));
    }
}
