//! One connection, from its first Initial on.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use tack_packet::{LongPacketType, Packet, packets};
use tack_proto::frame::{Frame, Frames};
use tack_tap::{Direction, KeyLog, RangeSet, Tap, TapCounters};

use super::Announced;
use super::announced::Handshake;
use super::closing::{Close, begins_with_reserved_frame};
use super::recorder::Passage;
use super::secrets;
use super::signals::{Conversation, Signals};
use super::validation::Amplification;

/// What was seen of a connection.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seen {
    /// What the client sent in 1-RTT packets.
    pub to_server: TapCounters,
    /// What the server sent in 1-RTT packets.
    pub to_client: TapCounters,
    /// What the client announced; `None` if it could not be read.
    pub client: Option<Announced>,
    /// What the server announced; `None` if it could not be read.
    pub server: Option<Announced>,
    /// When it began, in seconds after the first datagram of all.
    pub began_seconds: f64,
    /// From the client's first Initial to its first packet under other keys, in seconds; `None`
    /// if there was none.
    pub handshake_seconds: Option<f64>,
    /// From the first datagram that reached the server to the first that it sent, in seconds;
    /// `None` if there were not both.
    pub answered_seconds: Option<f64>,
    /// Initials that the client sent.
    pub client_initials: u64,
    /// TLS messages of the server under handshake keys, in bytes.
    pub server_flight_bytes: u64,
    /// What the server sent to a client that had not proven its address.
    pub amplification: Amplification,
    /// How it was closed: what each end sent first.
    pub closes: Vec<Close>,
    /// A request began with an HTTP/3 frame that has to be ignored.
    pub reserved_frame_first: bool,
    /// Connection ids that the server called itself by in long headers, but for a Retry.
    pub server_ids: BTreeSet<Vec<u8>>,
    /// The client's addresses, in the order in which the server came to know them.
    pub paths: Vec<PathSeen>,
    /// When new stream data was sent, after the first datagram of all, and how many bytes.
    #[serde(skip)]
    pub progress: Vec<(Duration, u64)>,
    /// When the server sent its last datagram, after the first of all.
    #[serde(skip)]
    pub last_of_server: Duration,
    /// The server's newest packet with stream data.
    #[serde(skip)]
    pub data_of_server: Option<u64>,
    /// The newest packet of the server's that an ACK frame named which reached it.
    #[serde(skip)]
    pub acknowledged_to_server: Option<u64>,
    /// Stream data that the server sent and that arrived in none of its packets, bytes.
    #[serde(skip)]
    pub missing_at_client: u64,
}

/// How long a datagram with a PATH_CHALLENGE or a PATH_RESPONSE is to be (RFC 9000 section 8.2).
const PATH_PROBE_LEN: usize = 1200;

/// What passed between the server and one address of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathSeen {
    /// How many the client had before.
    pub path: u32,
    /// Datagrams that arrived from there.
    pub arrived: u64,
    /// Datagrams that the server sent there.
    pub sent: u64,
    /// PATH_CHALLENGE frames among what the server sent there.
    pub challenges: u64,
    /// PATH_RESPONSE frames that the client sent while it was there.
    pub responses: u64,
    /// Challenges in datagrams below 1,200 bytes, sent there after a response had come from there.
    pub short_challenges: u64,
    /// Responses in datagrams below 1,200 bytes.
    pub short_responses: u64,
    /// Before a response had come from there: how many bytes more the server had sent there, at most,
    /// than three times what had come (RFC 9000 section 8.1).
    pub excess: u64,
    /// Bytes that have come from there.
    #[serde(skip)]
    pub received_bytes: u64,
    /// Bytes that the server has sent there.
    #[serde(skip)]
    pub sent_bytes: u64,
    /// A PATH_RESPONSE has arrived from there.
    #[serde(skip)]
    pub is_proven: bool,
}

impl Seen {
    /// What was sent in one direction.
    pub const fn counters(&self, direction: Direction) -> &TapCounters {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }

    /// What the end announced to which packets go in that direction.
    pub const fn receiver(&self, direction: Direction) -> Option<Announced> {
        match direction {
            Direction::ToServer => self.server,
            Direction::ToClient => self.client,
        }
    }
}

/// Follows a connection.
pub struct Connection {
    tap: Tap,
    keys: KeyLog,
    /// The key log has been searched.
    is_keyed: bool,
    is_retried: bool,
    handshake: Handshake,
    conversation: Conversation,
    seen: Seen,
    began: Duration,
    reached_server: Option<Duration>,
    /// What of each stream of the server's has reached the client.
    at_client: HashMap<u64, RangeSet>,
    /// Datagrams of the client's with a PATH_RESPONSE, on their way.
    answers: Vec<Vec<u8>>,
}

/// A connection id that one end gave to the other.
pub struct Named {
    /// Where packets with it go.
    pub direction: Direction,
    /// The connection id.
    pub cid: Vec<u8>,
}

impl Connection {
    /// A connection that begins now.
    pub fn new(began: Duration) -> Self {
        let keys = KeyLog::new();
        Self {
            tap: Tap::new(keys.clone()),
            keys,
            is_keyed: false,
            is_retried: false,
            handshake: Handshake::default(),
            conversation: Conversation::default(),
            seen: Seen { began_seconds: began.as_secs_f64(), ..Seen::default() },
            began,
            reached_server: None,
            at_client: HashMap::new(),
            answers: Vec::new(),
        }
    }

    /// What was counted so far in one direction.
    pub const fn counters(&self, direction: Direction) -> &TapCounters {
        self.tap.counters(direction)
    }

    /// A datagram of this connection was sent, so long after the first of all. Returns the
    /// connection ids that are given in it.
    pub fn sent(&mut self, passage: &Passage, at: Duration, key_log: &str) -> Vec<Named> {
        let Passage { direction, path, len, ref bytes, .. } = *passage;
        if let (Direction::ToClient, Some(reached)) = (direction, self.reached_server) {
            let since = passage.at.saturating_sub(reached).as_secs_f64();
            self.seen.answered_seconds.get_or_insert(since);
        }
        let mut named = Vec::new();
        for packet in packets(bytes) {
            match packet {
                Packet::Long(long) => {
                    self.handshake.packet(direction, &long);
                    let cid = long.header.scid.to_vec();
                    if direction == Direction::ToClient
                        && long.header.packet_type != LongPacketType::Retry
                    {
                        self.seen.server_ids.insert(cid.clone());
                    }
                    named.push(Named { direction: opposite(direction), cid });
                    let is_retry =
                        long.header.packet_type == LongPacketType::Retry && passage.arrived;
                    if is_retry && !self.is_retried {
                        // The client begins again, with another ClientHello if it likes. It
                        // takes one Retry and no more: RFC 9000 section 17.2.5.2.
                        self.is_retried = true;
                        self.handshake = Handshake::default();
                        self.is_keyed = false;
                    }
                    let is_clients = direction == Direction::ToServer;
                    match long.header.packet_type {
                        LongPacketType::Initial if is_clients => self.seen.client_initials += 1,
                        LongPacketType::Handshake if is_clients => self.handshake_done(at),
                        _ => {}
                    }
                }
                Packet::Short(_) if direction == Direction::ToServer => self.handshake_done(at),
                Packet::Short(_) => {}
            }
        }
        self.look_for_keys(key_log);

        let before = *self.tap.counters(direction);
        let conversation = &mut self.conversation;
        let at_client = &mut self.at_client;
        let Seen {
            closes, reserved_frame_first, data_of_server, acknowledged_to_server, ..
        } = &mut self.seen;
        self.tap.open(direction, bytes, |packet| {
            for located in Frames::new(packet.payload).map_while(Result::ok) {
                if let Frame::NewConnectionId { cid, .. } = located.frame {
                    named.push(Named { direction: opposite(direction), cid: cid.to_vec() });
                }
                match (&located.frame, direction) {
                    (Frame::Stream(stream), Direction::ToClient) => {
                        *data_of_server = (*data_of_server).max(Some(packet.number));
                        if passage.arrived {
                            let arrived = at_client.entry(stream.stream_id).or_default();
                            arrived.insert(stream.data());
                        }
                    }
                    (Frame::Ack(ack), Direction::ToServer) if passage.arrived => {
                        *acknowledged_to_server =
                            (*acknowledged_to_server).max(Some(ack.ranges.largest()));
                    }
                    _ => {}
                }
                let close = Close::from_frame(direction, &located.frame);
                let is_new = |close: &Close| {
                    closes.iter().all(|known| known.by_server != close.by_server)
                };
                closes.extend(close.filter(is_new));
                *reserved_frame_first |=
                    begins_with_reserved_frame(direction, &located, packet.payload);
            }
            conversation.packet(passage.at, direction, packet);
        });
        let after = *self.tap.counters(direction);
        let new = |counters: &TapCounters| {
            counters.stream_bytes - counters.retransmitted_stream_bytes
        };
        if after.data_packets > before.data_packets {
            self.seen.progress.push((at, new(&after) - new(&before)));
        }
        match direction {
            Direction::ToClient => {
                self.seen.last_of_server = at;
                self.seen.amplification.sent(len);
                let challenges = after.path_challenges - before.path_challenges;
                let path = self.path(path);
                path.sent += 1;
                path.sent_bytes += len as u64;
                path.challenges += challenges;
                if !path.is_proven {
                    let excess = path.sent_bytes.saturating_sub(3 * path.received_bytes);
                    path.excess = path.excess.max(excess);
                }
                if path.is_proven && len < PATH_PROBE_LEN {
                    path.short_challenges += challenges;
                }
            }
            Direction::ToServer => {
                let responses = after.path_responses - before.path_responses;
                let seen = self.path(path);
                seen.responses += responses;
                if len < PATH_PROBE_LEN {
                    seen.short_responses += responses;
                }
                if responses > 0 && passage.arrived {
                    self.answers.push(bytes.clone());
                }
            }
        }
        named
    }

    /// A datagram reached the server.
    pub fn arrived(&mut self, passage: &Passage) {
        let Passage { at, path, len, ref bytes, .. } = *passage;
        self.reached_server.get_or_insert(at);
        self.seen.amplification.arrived(len, bytes);
        let is_same = |sent: &Vec<u8>| sent.len() == len && sent.starts_with(bytes);
        let proves = self.answers.iter().position(is_same);
        let answer = proves.map(|at| self.answers.swap_remove(at));
        let path = self.path(path);
        path.arrived += 1;
        path.received_bytes += len as u64;
        path.is_proven |= answer.is_some();
    }

    /// What was seen, and what the ends asked of each other: of the server first.
    pub fn into_seen(self) -> (Seen, Option<String>, Signals, Signals) {
        let (of_server, of_client) = self.conversation.into_signals();
        let data = self.tap.counters(Direction::ToClient);
        let sent = data.stream_bytes - data.retransmitted_stream_bytes;
        let arrived: u64 = self.at_client.values().map(RangeSet::len).sum();
        let seen = Seen {
            missing_at_client: sent.saturating_sub(arrived),
            to_server: *self.tap.counters(Direction::ToServer),
            to_client: *self.tap.counters(Direction::ToClient),
            client: self.handshake.client().map(Announced::from),
            server: self.handshake.server().map(Announced::from),
            server_flight_bytes: self.handshake.server_flight_bytes(),
            ..self.seen
        };
        (seen, self.handshake.protocol(), of_server, of_client)
    }

    fn handshake_done(&mut self, at: Duration) {
        let since = at.saturating_sub(self.began).as_secs_f64();
        self.seen.handshake_seconds.get_or_insert(since);
    }

    /// The key log calls a connection by what its client began with.
    fn look_for_keys(&mut self, key_log: &str) {
        if self.is_keyed {
            return;
        }
        let Some(random) = self.handshake.client_random() else { return };
        self.is_keyed = true;
        if let Some(secret) =
            secrets::secret_of(key_log, "SERVER_HANDSHAKE_TRAFFIC_SECRET", &random)
        {
            self.handshake.take_secret(&secret);
        }
        for line in secrets::lines_of(key_log, &random) {
            // It is in memory: nothing can fail.
            let _ = writeln!(self.keys, "{line}");
        }
    }

    fn path(&mut self, path: u32) -> &mut PathSeen {
        let paths = &mut self.seen.paths;
        let at = paths.iter().position(|seen| seen.path == path).unwrap_or_else(|| {
            paths.push(PathSeen { path, ..PathSeen::default() });
            paths.len() - 1
        });
        &mut paths[at]
    }
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
    fn only_the_first_retry_that_arrives_makes_the_client_begin_again() {
        let retry = Passage {
            at: Duration::ZERO,
            direction: Direction::ToClient,
            flow: 0,
            server: 0,
            path: 0,
            arrived: true,
            len: 12,
            bytes: vec![0xf0, 0, 0, 0, 1, 2, 0xd, 0xd, 1, 0x5, 7, 7],
        };
        let mut connection = Connection::new(Duration::ZERO);
        connection.is_keyed = true;
        let lost = Passage { arrived: false, ..retry.clone() };
        connection.sent(&lost, Duration::ZERO, "");
        assert!(connection.is_keyed, "the client has not seen it");
        connection.sent(&retry, Duration::ZERO, "");
        assert!(!connection.is_keyed, "with another ClientHello there are other keys");
        connection.is_keyed = true;
        connection.sent(&retry, Duration::ZERO, "");
        assert!(connection.is_keyed, "the client does not look at a second one");
    }

    #[test]
    fn an_address_is_proven_when_the_response_has_reached_the_server() {
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
            arrived: true,
            len: bytes.len(),
            bytes: bytes[..37].to_vec(),
        };
        let mut connection = Connection::new(Duration::ZERO);
        connection.answers.push(datagram(7));
        connection.arrived(&arrival(&datagram(8), 1));
        connection.arrived(&arrival(&datagram(7)[..1199], 1));
        assert!(!connection.path(1).is_proven, "others have come");
        connection.arrived(&arrival(&datagram(7), 1));
        assert!(connection.path(1).is_proven);
        assert_eq!(connection.path(1).received_bytes, 1200 + 1199 + 1200);
        assert!(!connection.path(0).is_proven);
        assert!(connection.answers.is_empty());
    }
}
