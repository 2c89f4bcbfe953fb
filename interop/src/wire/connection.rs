//! Follows one connection, from its first Initial on.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use tack_packet::{LongPacket, LongPacketType, Packet, packets};
use tack_proto::frame::{Frame, Frames, Located, Stream};
use tack_tap::{Direction, KeyLog, OpenedPacket, RangeSet, Tap, TapCounters};

use super::announced::Announced;
use super::closing::{Close, begins_with_reserved_frame};
use super::handshake::{Greeting, Handshake};
use super::recorder::Passage;
use super::secrets;
use super::seen::{Progress, Seen};
use super::signals::{Conversation, Signals};

/// How long a datagram with a PATH_CHALLENGE or a PATH_RESPONSE is to be (RFC 9000 section 8.2).
const PATH_PROBE_LEN: usize = 1200;

/// Follows a connection.
pub struct Connection {
    tap: Tap,
    keys: KeyLog,
    /// The random whose secrets the tap has.
    keyed_as: Option<[u8; 32]>,
    handshake: Handshake,
    conversation: Conversation,
    seen: Seen,
    began: Duration,
    reached_server: Option<Duration>,
    arrived: Arrived,
    /// Datagrams of the client's with a PATH_RESPONSE that have not reached the server yet.
    responses: Vec<Vec<u8>>,
}

/// The stream data that has reached the end that it was sent to.
#[derive(Default)]
struct Arrived {
    at_client: HashMap<u64, RangeSet>,
    at_server: HashMap<u64, RangeSet>,
}

impl Arrived {
    fn insert(&mut self, direction: Direction, frame: &Stream) {
        let streams = match direction {
            Direction::ToClient => &mut self.at_client,
            Direction::ToServer => &mut self.at_server,
        };
        streams.entry(frame.stream_id).or_default().insert(frame.data());
    }

    fn bytes(&self, direction: Direction) -> u64 {
        let streams = match direction {
            Direction::ToClient => &self.at_client,
            Direction::ToServer => &self.at_server,
        };
        streams.values().map(RangeSet::len).sum()
    }
}

/// A connection id that one end gave to the other.
pub struct Named {
    /// Where packets with it go.
    pub direction: Direction,
    /// The connection id.
    pub cid: Vec<u8>,
}

/// What all connections ended with.
pub struct Summary {
    /// What was seen.
    pub seen: Seen,
    /// What the TLS messages say.
    pub greeting: Greeting,
    /// The application protocol.
    pub protocol: Option<String>,
    /// What the client asked of the server.
    pub of_server: Signals,
    /// What the server asked of the client.
    pub of_client: Signals,
}

impl Connection {
    /// A connection that begins now.
    pub fn new(began: Duration) -> Self {
        let keys = KeyLog::new();
        Self {
            tap: Tap::new(keys.clone()),
            keys,
            keyed_as: None,
            handshake: Handshake::default(),
            conversation: Conversation::default(),
            seen: Seen { began_seconds: began.as_secs_f64(), ..Seen::default() },
            began,
            reached_server: None,
            arrived: Arrived::default(),
            responses: Vec::new(),
        }
    }

    /// What was counted so far in one direction.
    pub const fn counters(&self, direction: Direction) -> &TapCounters {
        self.tap.counters(direction)
    }

    /// A datagram of this connection was sent, so long after the first of all. Returns the
    /// connection ids that are given in it.
    pub fn sent(&mut self, passage: &Passage, at: Duration, key_log: &str) -> Vec<Named> {
        let direction = passage.direction;
        if let (Direction::ToClient, Some(reached)) = (direction, self.reached_server) {
            let since = passage.at.saturating_sub(reached).as_secs_f64();
            self.seen.answered_seconds.get_or_insert(since);
        }
        let mut named = Vec::new();
        for packet in packets(&passage.bytes) {
            match packet {
                Packet::Long(long) => {
                    let is_retry = long.header.packet_type == LongPacketType::Retry;
                    let cid = long.header.scid.to_vec();
                    self.long_packet(direction, &long, at, key_log);
                    self.follow_initials(passage, long.header.packet_type);
                    self.name(
                        Named { direction: opposite(direction), cid },
                        is_retry,
                        &mut named,
                    );
                }
                Packet::Short(_) if direction == Direction::ToServer => self.handshake_done(at),
                Packet::Short(_) => {}
            }
        }
        self.look_for_keys(key_log);
        let before = *self.tap.counters(direction);
        for cid in self.open(passage) {
            self.name(Named { direction: opposite(direction), cid }, false, &mut named);
        }
        let after = *self.tap.counters(direction);
        let new_bytes = (after.data_packets > before.data_packets)
            .then(|| new_stream_bytes(&after) - new_stream_bytes(&before));
        if let Some(new_bytes) = new_bytes {
            self.seen.progress.push(Progress { at, direction, new_bytes });
        }
        let sizes = match direction {
            Direction::ToClient => &mut self.seen.sizes_to_client,
            Direction::ToServer => &mut self.seen.sizes_to_server,
        };
        sizes.note(passage.len, passage.arrived, new_bytes);
        match direction {
            Direction::ToClient => self.sent_to_client(passage, at, &before, &after),
            Direction::ToServer => self.sent_to_server(passage, &before, &after),
        }
        named
    }

    /// A datagram reached the server.
    pub fn arrived(&mut self, passage: &Passage) {
        let Passage { at, path, len, ref bytes, .. } = *passage;
        self.reached_server.get_or_insert(at);
        self.seen.amplification.arrived(len, bytes);
        let is_same = |sent: &Vec<u8>| sent.len() == len && sent.starts_with(bytes);
        let response = self.responses.iter().position(is_same);
        let response = response.map(|at| self.responses.swap_remove(at));
        let path = self.seen.path(path);
        path.arrived += 1;
        path.received_bytes += len as u64;
        path.is_validated |= response.is_some();
    }

    /// What was seen.
    pub fn into_summary(self) -> Summary {
        let (of_server, of_client) = self.conversation.into_signals();
        let missing = |direction| {
            let sent = new_stream_bytes(self.tap.counters(direction));
            sent.saturating_sub(self.arrived.bytes(direction))
        };
        let seen = Seen {
            missing_at_client: missing(Direction::ToClient),
            missing_at_server: missing(Direction::ToServer),
            to_server: *self.tap.counters(Direction::ToServer),
            to_client: *self.tap.counters(Direction::ToClient),
            client: self.handshake.client().map(Announced::from),
            server: self.handshake.server().map(Announced::from),
            client_hellos: self.handshake.client_hellos(),
            server_flight_bytes: self.handshake.server_flight_bytes(),
            ..self.seen
        };
        let (greeting, protocol) = (self.handshake.greeting(), self.handshake.protocol());
        Summary { seen, greeting, protocol, of_server, of_client }
    }

    fn long_packet(
        &mut self,
        direction: Direction,
        packet: &LongPacket<'_>,
        at: Duration,
        key_log: &str,
    ) {
        self.handshake.packet(direction, packet, key_log);
        match (direction, packet.header.packet_type) {
            (Direction::ToServer, LongPacketType::Initial) => {
                self.seen.client_initials += 1;
                self.seen.initials_with_token += u64::from(!packet.header.token.is_empty());
            }
            (Direction::ToServer, LongPacketType::Handshake) => self.handshake_done(at),
            (Direction::ToClient, LongPacketType::Retry) => self.seen.retries += 1,
            (Direction::ToClient, _) => {
                self.seen.server_ids.insert(packet.header.scid.to_vec());
            }
            _ => {}
        }
    }

    /// Counts the Initials that the server leaves unanswered.
    fn follow_initials(&mut self, passage: &Passage, packet_type: LongPacketType) {
        let is_in_handshake = self.seen.handshake_seconds.is_none();
        match (passage.direction, packet_type) {
            (Direction::ToClient, LongPacketType::Initial) => self.seen.unanswered_initials = 0,
            (Direction::ToServer, LongPacketType::Initial) if is_in_handshake => {
                self.seen.unanswered_initials += u64::from(passage.arrived);
            }
            _ if !is_in_handshake => self.seen.unanswered_initials = 0,
            _ => {}
        }
    }

    /// Notes a connection id. That of a Retry names the server for the next Initial alone.
    fn name(&mut self, new: Named, is_retry: bool, named: &mut Vec<Named>) {
        if !is_retry {
            let lengths = match new.direction {
                Direction::ToServer => &mut self.seen.server_id_lengths,
                Direction::ToClient => &mut self.seen.client_id_lengths,
            };
            lengths.insert(new.cid.len());
        }
        named.push(new);
    }

    /// Opens the 1-RTT packet of a datagram. Returns the ids in its NEW_CONNECTION_ID frames.
    fn open(&mut self, passage: &Passage) -> Vec<Vec<u8>> {
        let Self { tap, seen, arrived, conversation, .. } = self;
        let mut ids = Vec::new();
        tap.open(passage.direction, &passage.bytes, |packet| {
            for located in Frames::new(packet.payload).map_while(Result::ok) {
                if let Frame::NewConnectionId { cid, .. } = located.frame {
                    ids.push(cid.to_vec());
                }
                note_frame(seen, arrived, passage, packet, &located);
            }
            let fate = (passage.arrived, passage.ecn);
            conversation.packet(passage.at, passage.direction, fate, packet);
        });
        ids
    }

    fn sent_to_client(
        &mut self,
        passage: &Passage,
        at: Duration,
        before: &TapCounters,
        after: &TapCounters,
    ) {
        let len = passage.len;
        self.seen.last_of_server = at;
        self.seen.amplification.sent(len);
        let challenges = after.path_challenges - before.path_challenges;
        let path = self.seen.path(passage.path);
        path.sent += 1;
        path.sent_bytes += len as u64;
        path.challenges += challenges;
        if !path.is_validated {
            let excess = path.sent_bytes.saturating_sub(3 * path.received_bytes);
            path.excess = path.excess.max(excess);
        } else if len < PATH_PROBE_LEN {
            path.short_challenges += challenges;
        }
    }

    fn sent_to_server(&mut self, passage: &Passage, before: &TapCounters, after: &TapCounters) {
        let len = passage.len;
        let responses = after.path_responses - before.path_responses;
        let path = self.seen.path(passage.path);
        path.responses += responses;
        if len < PATH_PROBE_LEN {
            path.short_responses += responses;
        }
        if responses > 0 && passage.arrived {
            self.responses.push(passage.bytes.clone());
        }
    }

    fn handshake_done(&mut self, at: Duration) {
        let since = at.saturating_sub(self.began).as_secs_f64();
        self.seen.handshake_seconds.get_or_insert(since);
    }

    /// Gives the tap the secrets of the connection, which a key log names by the client's random.
    fn look_for_keys(&mut self, key_log: &str) {
        let random = self.handshake.client_random();
        if random == self.keyed_as {
            return;
        }
        self.keyed_as = random;
        for line in random.iter().flat_map(|random| secrets::lines_of(key_log, random)) {
            // A write to memory does not fail.
            let _ = writeln!(self.keys, "{line}");
        }
    }
}

fn note_frame(
    seen: &mut Seen,
    arrived: &mut Arrived,
    passage: &Passage,
    packet: OpenedPacket<'_>,
    located: &Located<'_>,
) {
    let direction = passage.direction;
    match (&located.frame, direction) {
        (Frame::Stream(stream), _) => {
            if direction == Direction::ToClient {
                seen.data_of_server = seen.data_of_server.max(Some(packet.number));
            }
            if passage.arrived {
                arrived.insert(direction, stream);
            }
        }
        (Frame::Ack(ack), Direction::ToServer) if passage.arrived => {
            let largest = Some(ack.ranges.largest());
            seen.acknowledged_to_server = seen.acknowledged_to_server.max(largest);
        }
        _ => {}
    }
    if let Some(close) = Close::from_frame(direction, &located.frame)
        && seen.closes.iter().all(|known| known.by_server != close.by_server)
    {
        seen.closes.push(close);
    }
    seen.reserved_frame_first |= begins_with_reserved_frame(direction, located, packet.payload);
}

/// The bytes of stream data that had not been sent before.
pub const fn new_stream_bytes(sent: &TapCounters) -> u64 {
    sent.stream_bytes.saturating_sub(sent.retransmitted_stream_bytes)
}

const fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::ToServer => Direction::ToClient,
        Direction::ToClient => Direction::ToServer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_retry_is_none_of_the_server_s_own() {
        let retry = Passage {
            at: Duration::ZERO,
            direction: Direction::ToClient,
            flow: 0,
            server: 0,
            path: 0,
            ecn: tack_link::Ecn::NotEct,
            arrived: true,
            len: 12,
            bytes: vec![0xf0, 0, 0, 0, 1, 2, 0xd, 0xd, 1, 0x5, 7, 7],
        };
        let mut connection = Connection::new(Duration::ZERO);
        let named = connection.sent(&retry, Duration::ZERO, "");
        assert_eq!(named[0].cid, [5], "the client's next Initial goes there");
        assert_eq!(connection.seen.retries, 1);
        assert!(connection.seen.server_ids.is_empty());
        assert!(connection.seen.server_id_lengths.is_empty());
    }

    #[test]
    fn an_address_is_validated_when_the_response_has_reached_the_server() {
        let datagram = |byte: u8| {
            let mut bytes = vec![byte; 1200];
            bytes[0] = 0x40;
            bytes
        };
        let arrival = |bytes: &[u8], path| Passage {
            at: Duration::ZERO,
            direction: Direction::ToServer,
            flow: 0,
            server: 0,
            path,
            ecn: tack_link::Ecn::NotEct,
            arrived: true,
            len: bytes.len(),
            bytes: bytes[..37].to_vec(),
        };
        let mut connection = Connection::new(Duration::ZERO);
        connection.responses.push(datagram(7));
        connection.arrived(&arrival(&datagram(8), 1));
        connection.arrived(&arrival(&datagram(7)[..1199], 1));
        assert!(!connection.seen.path(1).is_validated, "other datagrams have come");
        connection.arrived(&arrival(&datagram(7), 1));
        assert!(connection.seen.path(1).is_validated);
        assert_eq!(connection.seen.path(1).received_bytes, 1200 + 1199 + 1200);
        assert!(!connection.seen.path(0).is_validated);
        assert!(connection.responses.is_empty());
    }
}
