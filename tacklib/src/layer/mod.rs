//! The layer between quiche and the socket, once the handshake is done.
//!
//! Outgoing packets are opened where something has to be taken out or put in,
//! and sealed again under the same number and key; incoming packets are opened
//! where their mark says that there is something to see, and sealed again for
//! quiche where they carried frames that it does not know. Of the two ciphertexts of one number and key only one
//! ever leaves the process: quiche's own is overwritten in the same call.

mod incoming;
mod outgoing;

use std::time::{Duration, Instant};

use tack_packet::{CipherSuite, ProtectionKeys, ShortHeader, TAG_LEN};
use tack_proto::frame::DecodeError;
use tack_proto::profiles;
use tack_proto::receiver::{Receiver, ReceiverConfig};
use tack_proto::sender::{Frequency, Peer, Sender, SenderConfig, Violation};

pub use incoming::Delivery;
pub use outgoing::{PATH_PROBE_LEN, Plan};

use crate::config::{Profile, TackConfig};
use crate::flow_control::FlowControl;
use crate::journal::Journal;
use crate::negotiation::{self, Agreement};

/// The mark of packets that carry anything but plain data: the reserved bits of
/// the short header, which header protection hides. Both ends negotiated it.
const MARK: u8 = 0x18;

/// Shortest payload that header protection can sample (RFC 9001 section 5.4.2).
const SHORTEST_PAYLOAD: usize = 4;

/// Packets in flight at most: what quiche's window of 20,000 leaves room for.
/// Where that window closed first, nothing would say when it opens again.
const MAX_IN_FLIGHT_PACKETS: u64 = 19_500;

/// What is not stream data in a full packet, until one has been looked into.
const ASSUMED_OVERHEAD: usize = 48;

/// Why the connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// A claim that our own record contradicts.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// A frame that the peer was not to send, or with values out of range.
    #[error("{0}")]
    Frame(&'static str),
    /// A frame that cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl ProtocolError {
    /// The transport error code of RFC 9000 section 20.1.
    pub fn to_wire(&self) -> u64 {
        match self {
            Self::Violation(_) | Self::Frame(_) => 0x0a,
            Self::Decode(error) => error.to_wire(),
        }
    }
}

/// Everything the layer knows of an established connection.
pub struct Layer {
    agreement: Agreement,
    /// Our own, as announced.
    min_ack_delay: Duration,
    incoming: ProtectionKeys,
    outgoing: ProtectionKeys,
    pub sender: Sender,
    pub receiver: Receiver,
    pub windows: FlowControl,
    pub journal: Journal,
    largest_received: Option<u64>,
    /// quiche has an acknowledgement to send.
    quiche_has_ack: bool,
    /// quiche has a window update to send.
    quiche_has_update: bool,
    /// 0-RTT was used: quiche acknowledges, or waits for acknowledgements of,
    /// packets that the layer never saw.
    zero_rtt: bool,
    first_received: Option<u64>,
    /// Numbers of the PINGs that were sent last on paths since left.
    farewells: Vec<u64>,
    scratch: Vec<u8>,
    rewritten: Vec<u8>,
    frames: Vec<u8>,
    /// Bytes of a full packet that are not stream data.
    overhead: usize,
}

/// What a layer is made from.
pub struct Parts<'a> {
    /// When.
    pub now: Instant,
    /// What was agreed.
    pub agreement: Agreement,
    /// The cipher suite.
    pub suite: CipherSuite,
    /// The peer's traffic secret.
    pub incoming: &'a [u8],
    /// Our traffic secret.
    pub outgoing: &'a [u8],
    /// Settings.
    pub config: &'a TackConfig,
    /// Our transport parameters.
    pub parameters: &'a [u8],
    /// Whether we are the server.
    pub is_server: bool,
    /// Largest packet, bytes.
    pub mss: usize,
    /// The handshake's round trip.
    pub rtt: Option<Duration>,
    /// Whether 0-RTT was used.
    pub zero_rtt: bool,
}

impl Layer {
    /// Begins after the handshake.
    pub fn new(parts: &Parts<'_>) -> Result<Self, tack_packet::Error> {
        let Parts { now, agreement, config, .. } = *parts;
        let (max_ack_delay, timestamp_exponent) = negotiation::ack_delays(parts.parameters);
        let peer = match agreement.min_ack_delay {
            min_ack_delay if agreement.tack => Some(Peer::Tack {
                min_ack_delay: min_ack_delay.unwrap_or_default(),
                max_ack_delay: agreement.max_ack_delay,
            }),
            Some(min_ack_delay) if config.asks_stock_peers => {
                Some(Peer::Stock { min_ack_delay, max_ack_delay: agreement.max_ack_delay })
            }
            _ => None,
        };
        let profile = match config.profile {
            Profile::Video => profiles::Profile::VIDEO,
            _ => profiles::Profile::DEFAULT,
        };
        let mut sender = SenderConfig::new(profile, parts.mss as u64, 0);
        sender.frequency = Frequency {
            packets: config.packets_per_ack,
            per_round_trip: config.acks_per_round_trip,
            shortest_interval: config.shortest_ack_interval,
            short_path_interval: config.short_path_ack_interval,
            longest_interval: if agreement.tack {
                config.longest_ack_interval.max(agreement.max_ack_delay)
            } else {
                agreement.max_ack_delay
            },
        };
        sender.bbr.cycle_units = config.probe_bw_intervals;
        sender.bbr.filter_units = config.bandwidth_filter_intervals;
        sender.peer = peer;
        sender.max_ack_delay = agreement.max_ack_delay;
        sender.timestamp_exponent = timestamp_exponent;
        sender.max_in_flight = MAX_IN_FLIGHT_PACKETS * parts.mss as u64;
        sender.plain_sampling = config.plain_sampling;
        sender.sees_all = !parts.zero_rtt;
        sender.is_server = parts.is_server;
        let mut receiver = ReceiverConfig::new(max_ack_delay);
        receiver.timestamp_exponent = agreement.ack_delay_exponent;
        receiver.schedule = config.schedule.into();
        receiver.reported_gaps = config.reported_gaps;
        Ok(Self {
            agreement,
            min_ack_delay: negotiation::min_ack_delay(max_ack_delay),
            incoming: ProtectionKeys::new(parts.suite, parts.incoming)?,
            outgoing: ProtectionKeys::new(parts.suite, parts.outgoing)?,
            sender: Sender::new(now, sender, parts.rtt),
            receiver: Receiver::new(now, receiver),
            windows: FlowControl::new(parts.parameters, parts.is_server),
            journal: Journal::default(),
            largest_received: None,
            quiche_has_ack: true,
            quiche_has_update: false,
            zero_rtt: parts.zero_rtt,
            first_received: None,
            farewells: Vec::new(),
            scratch: Vec::new(),
            rewritten: Vec::new(),
            frames: Vec::new(),
            overhead: ASSUMED_OVERHEAD,
        })
    }

    /// What was agreed with the peer.
    pub fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// Whether quiche holds an acknowledgement back because we do.
    pub fn holds_ack(&self) -> bool {
        self.quiche_has_ack
    }

    /// Whether the peer has used up what may fail to authenticate.
    pub fn integrity_limit_reached(&self) -> bool {
        self.incoming.integrity_limit_reached()
    }

    /// Whether quiche has got a window update to send since the last call.
    pub fn take_window_update(&mut self, connection: &quiche::Connection) -> bool {
        let due = self.windows.take_due(connection);
        self.quiche_has_update |= due;
        due
    }
}

/// TACK-9-1: seals `plain` under the header at the front of `packet` into `out`.
fn seal_into(
    keys: &ProtectionKeys,
    generation: u64,
    (packet, header): (&[u8], &ShortHeader),
    plain: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let end = header.header_len + plain.len();
    if end + TAG_LEN > out.len() {
        return None;
    }
    out[..header.header_len].copy_from_slice(&packet[..header.header_len]);
    out[0] = header.first_byte;
    out[header.header_len..end].copy_from_slice(plain);
    keys.seal(generation, out, header, plain.len()).ok()
}
