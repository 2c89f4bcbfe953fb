//! What was seen of one connection.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use tack_tap::{Direction, TapCounters};

use super::announced::Announced;
use super::closing::Close;
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
    /// How often the client sent its ClientHello.
    pub client_hellos: u64,
    /// Those among them with a token.
    pub initials_with_token: u64,
    /// Initials that have reached the server since it last sent one; none are counted once the client sends under other
    /// keys.
    #[serde(skip)]
    pub unanswered_initials: u64,
    /// Retry packets that the server sent.
    pub retries: u64,
    /// TLS messages of the server under handshake keys, in bytes.
    pub server_flight_bytes: u64,
    /// What the server sent to a client that had not validated its address.
    pub amplification: Amplification,
    /// How it was closed: what each end sent first.
    pub closes: Vec<Close>,
    /// A request began with an HTTP/3 frame of a reserved type.
    pub reserved_frame_first: bool,
    /// The source connection ids in the server's long headers, except for a Retry's.
    pub server_ids: BTreeSet<Vec<u8>>,
    /// The lengths of the client's connection ids, those of NEW_CONNECTION_ID frames included.
    pub client_id_lengths: BTreeSet<usize>,
    /// The lengths of the server's connection ids, those of NEW_CONNECTION_ID frames included.
    pub server_id_lengths: BTreeSet<usize>,
    /// The sizes of the client's datagrams.
    pub sizes_to_server: DatagramSizes,
    /// The sizes of the server's datagrams.
    pub sizes_to_client: DatagramSizes,
    /// The client's addresses, in the order in which the server came to know them.
    pub paths: Vec<PathSeen>,
    /// The new stream data of both ends.
    #[serde(skip)]
    pub progress: Vec<Progress>,
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
    /// Stream data that the client sent and that arrived in none of its packets, bytes.
    #[serde(skip)]
    pub missing_at_server: u64,
}

/// A packet with stream data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// When it was sent, after the first datagram of all.
    pub at: Duration,
    /// Which end it was sent to.
    pub direction: Direction,
    /// How many bytes of its data had not been sent before.
    pub new_bytes: u64,
}

/// The sizes of the UDP payloads that an end sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatagramSizes {
    /// The largest that was sent.
    pub largest_sent: usize,
    /// The largest that arrived.
    pub largest_arrived: usize,
    /// The largest that was sent with stream data.
    pub largest_with_data: usize,
    /// Datagrams that did not arrive.
    pub lost: u64,
    /// Each that arrived with stream data which had not been sent before.
    #[serde(skip)]
    pub arrived_with_new_data: Vec<usize>,
}

impl DatagramSizes {
    /// Notes a datagram, with the bytes of its stream data that had not been sent before if it has
    /// stream data.
    pub(super) fn note(&mut self, len: usize, arrived: bool, new_bytes: Option<u64>) {
        self.largest_sent = self.largest_sent.max(len);
        if new_bytes.is_some() {
            self.largest_with_data = self.largest_with_data.max(len);
        }
        if arrived {
            self.largest_arrived = self.largest_arrived.max(len);
            if new_bytes.is_some_and(|bytes| bytes > 0) {
                self.arrived_with_new_data.push(len);
            }
        } else {
            self.lost += 1;
        }
    }
}

/// What passed between the server and one address of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathSeen {
    /// How many addresses the client had before.
    pub path: u32,
    /// Datagrams that arrived from there.
    pub arrived: u64,
    /// Datagrams that the server sent there.
    pub sent: u64,
    /// PATH_CHALLENGE frames that the server sent there.
    pub challenges: u64,
    /// PATH_RESPONSE frames that the client sent while it was there.
    pub responses: u64,
    /// Challenges in datagrams below 1,200 bytes, sent there after a response had come from there.
    pub short_challenges: u64,
    /// Responses in datagrams below 1,200 bytes.
    pub short_responses: u64,
    /// Before a response had come from there: by how many bytes the server had exceeded, at most,
    /// three times what had come (RFC 9000 section 8.1).
    pub excess: u64,
    /// Bytes that have come from there.
    #[serde(skip)]
    pub received_bytes: u64,
    /// Bytes that the server has sent there.
    #[serde(skip)]
    pub sent_bytes: u64,
    /// A PATH_RESPONSE has arrived from there.
    #[serde(skip)]
    pub is_validated: bool,
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

    /// The sizes of the datagrams in one direction.
    pub const fn sizes(&self, direction: Direction) -> &DatagramSizes {
        match direction {
            Direction::ToServer => &self.sizes_to_server,
            Direction::ToClient => &self.sizes_to_client,
        }
    }

    /// The lengths of the connection ids that packets in that direction may carry.
    pub const fn id_lengths(&self, direction: Direction) -> &BTreeSet<usize> {
        match direction {
            Direction::ToServer => &self.server_id_lengths,
            Direction::ToClient => &self.client_id_lengths,
        }
    }

    pub(super) fn path(&mut self, path: u32) -> &mut PathSeen {
        let at = self.paths.iter().position(|seen| seen.path == path).unwrap_or_else(|| {
            self.paths.push(PathSeen { path, ..PathSeen::default() });
            self.paths.len() - 1
        });
        &mut self.paths[at]
    }
}
