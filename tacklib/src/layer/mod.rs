//! The layer between quiche and the socket, once the handshake is done.
//!
//! Each way is one pipeline. Incoming: open, scan, deliver to quiche, then apply what the scan found.
//! Outgoing: decide, let quiche write, scan, seal. A scan is a value; nothing of it takes effect before
//! quiche has accepted the packet, or before the packet is sealed for the wire. The types of
//! `tack_packet` see to it that one ciphertext of a packet number leaves the process, and no other
//! (TACK-9-1).

mod incoming;
mod outgoing;
mod plan;

use std::time::{Duration, Instant};

use tack_packet::{CipherSuite, PacketProtection};
use tack_proto::ecn::Ecn;
use tack_proto::receiver::{Due, Receiver, ReceiverConfig};
use tack_proto::sender::{CcParameters, Frequency, PathId, Peer, Sender, SenderConfig};

pub use incoming::{Applied, IncomingBuffers, Look, Scanned};
pub use outgoing::{Destination, Lost, Sent};
pub use plan::{MOST_ROOM, Plan};

use crate::config::TackConfig;
use crate::lab::LabSwitches;
use crate::negotiation::{self, Agreement};
use crate::qlog::EventNotes;
use crate::quiche_compat::{
    self, FlushPings, LateFills, MaxStreams, ReceiveWindows, StoppedReads,
};

/// Shortest payload that header protection can sample (RFC 9001 section 5.4.2).
const SHORTEST_PAYLOAD: usize = 4;

/// Everything the layer knows of an established connection.
pub struct Layer {
    protection: PacketProtection,
    space: NumberSpace,
    buffers: IncomingBuffers,
    plain: Vec<u8>,
    frames: Vec<u8>,
}

/// The application packet number space (RFC 9000 section 12.3): what was sent and received.
struct NumberSpace {
    agreement: Agreement,
    /// Our own, as announced.
    min_ack_delay: Duration,
    ack_delay_exponent: u32,
    sender: Sender,
    receiver: Receiver,
    windows: ReceiveWindows,
    max_streams: MaxStreams,
    stopped_reads: StoppedReads,
    late_fills: LateFills,
    /// What happened since the last event was written to qlog.
    notes: EventNotes,
    flush_pings: FlushPings,
    largest_received: Option<u64>,
    first_received: Option<u64>,
    /// The lowest number of a packet with a mark (TACK-2-5); from 0 on if the peer marks all that it should.
    first_marked: Option<u64>,
    quiche_owes: Owed,
    /// The data of each PATH_RESPONSE in the last packet.
    path_responses: Vec<[u8; 8]>,
    /// 0-RTT was used: quiche acknowledges, or waits for acknowledgements of,
    /// packets that the layer never saw.
    zero_rtt: bool,
    /// Stream data has left, and quiche has not run out of it since.
    sends_data: bool,
    stats: LayerStats,
}

/// What quiche has to send beside data.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    ack: bool,
    update: bool,
}

/// Packets that the pipeline has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerStats {
    /// Incoming packets that were opened and read.
    pub opened: u64,
    /// Incoming packets that quiche did not accept.
    pub refused: u64,
    /// Outgoing packets that were sealed again.
    pub resealed: u64,
    /// Packet numbers skipped on purpose.
    pub skipped: u64,
    /// Outgoing packets that could not be sealed, and were lost.
    pub unsealed: u64,
}

/// A packet of the number space that left before the layer was there.
#[derive(Clone, Copy, Debug)]
pub struct EarlyPacket {
    /// Packet number.
    pub packet_number: u64,
    /// When it left.
    pub at: Instant,
    /// Size on the wire, bytes.
    pub bytes: usize,
}

/// What a layer is made from.
pub struct Parts<'a> {
    /// When.
    pub now: Instant,
    /// What left before.
    pub early: &'a [EarlyPacket],
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
    /// What the lab compares.
    pub lab: LabSwitches,
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
    /// What the socket marks packets with, where the connection says so.
    pub ecn: Ecn,
    /// What an earlier connection observed of the path.
    pub cc_parameters: Option<CcParameters>,
    /// Random bits for the first skipped packet number.
    pub random: u64,
}

impl Layer {
    /// Begins after the handshake.
    pub fn new(parts: &Parts<'_>) -> Result<Self, tack_packet::Error> {
        let (max_ack_delay, own_exponent) = negotiation::ack_delays(parts.parameters);
        let mut receiver = ReceiverConfig::new(max_ack_delay);
        receiver.timestamp_exponent = parts.agreement.ack_delay_exponent;
        receiver.schedule = parts.lab.schedule.into();
        receiver.reported_gaps = parts.lab.reported_gaps;
        receiver.reports_arrivals = parts.agreement.tack && parts.agreement.reports_arrivals;
        let mut protection =
            PacketProtection::new(parts.suite, parts.incoming, parts.outgoing)?;
        if parts.is_server {
            protection.on_handshake_confirmed();
        }
        // RFC 9002 section 7.3.1: the window grows by what is acknowledged of it, early data included.
        let began = parts.early.first().map_or(parts.now, |first| first.at);
        let mut sender = Sender::new(began, sender_config(parts, own_exponent), parts.rtt);
        for early in parts.early {
            sender.on_early_packet_sent(early.at, early.packet_number, early.bytes);
        }
        let space = NumberSpace {
            agreement: parts.agreement,
            min_ack_delay: negotiation::min_ack_delay(max_ack_delay),
            ack_delay_exponent: own_exponent,
            sender,
            receiver: Receiver::new(parts.now, receiver),
            windows: ReceiveWindows::new(parts.parameters, parts.is_server),
            max_streams: MaxStreams::new(parts.parameters, parts.is_server),
            stopped_reads: StoppedReads::default(),
            late_fills: LateFills::default(),
            notes: EventNotes::default(),
            flush_pings: FlushPings::default(),
            largest_received: None,
            first_received: None,
            first_marked: (!parts.zero_rtt).then_some(0),
            quiche_owes: Owed { ack: true, update: false },
            path_responses: Vec::new(),
            zero_rtt: parts.zero_rtt,
            sends_data: false,
            stats: LayerStats::default(),
        };
        Ok(Self {
            protection,
            space,
            buffers: IncomingBuffers::default(),
            plain: Vec::new(),
            frames: Vec::new(),
        })
    }

    /// What was agreed with the peer.
    pub fn agreement(&self) -> Agreement {
        self.space.agreement
    }

    /// The sender's state.
    pub fn sender(&self) -> &Sender {
        &self.space.sender
    }

    /// The receiver's state.
    pub fn receiver(&self) -> &Receiver {
        &self.space.receiver
    }

    /// Counters of the pipeline.
    pub fn stats(&self) -> LayerStats {
        self.space.stats
    }

    /// Offers what an earlier connection observed of the path; false if it is too late.
    pub fn set_cc_parameters(&mut self, parameters: CcParameters) -> bool {
        self.space.sender.set_cc_parameters(parameters)
    }

    /// Begins or ends to measure the path with packet trains.
    pub fn set_packet_trains(&mut self, enabled: bool) {
        let enabled = enabled && self.space.agreement.tack;
        self.space.sender.set_packet_trains(enabled);
    }

    /// Whether data may leave now; `waits` tells that there is some.
    pub fn may_send(&mut self, now: Instant, waits: bool) -> bool {
        self.space.sender.may_send(now, waits)
    }

    /// Whether nothing is on its way that is still to be acknowledged.
    pub fn has_all_acknowledged(&self) -> bool {
        self.space.sender.total_in_flight() == 0
    }

    /// What has to be acknowledged now.
    pub fn due(&self, now: Instant) -> Option<Due> {
        self.space.receiver.due(now)
    }

    /// Notes for qlog what has changed in the states of sender and receiver.
    #[cfg(feature = "qlog")]
    pub fn note_state(&mut self) {
        self.space.notes.on_state(&self.space.sender, &self.space.receiver);
    }

    /// When the layer has something to send if nothing else happens; `waits` tells that data does.
    pub fn deadline(&self, waits: bool) -> Option<Instant> {
        let waits = waits && !self.space.sender.is_inflight_limited();
        let release = waits.then(|| self.space.sender.release_time());
        [release, self.space.receiver.deadline()].into_iter().flatten().min()
    }

    /// The acknowledgement that is due is given up: nothing can leave.
    pub fn give_up_acknowledgement(&mut self, now: Instant) {
        self.space.receiver.on_ack_sent(now);
    }

    /// Data goes over this path from now on.
    pub fn set_path(&mut self, now: Instant, path: PathId) {
        if path != self.space.sender.path() {
            self.space.receiver.on_new_path();
        }
        self.space.sender.set_path(now, path);
    }

    /// The probe timer has expired.
    pub fn on_probe_timeout(&mut self) {
        self.space.sender.on_probe_timeout();
    }

    /// Follows the size of packets that the path takes.
    pub fn set_mss(&mut self, mss: usize) {
        self.space.sender.set_mss(mss as u64);
    }

    /// Whether the path may have stopped taking long packets; told once.
    pub fn take_black_hole(&mut self) -> bool {
        self.space.sender.take_black_hole()
    }

    /// quiche had nothing to send although it was asked, with room for everything.
    pub fn on_nothing_to_send(&mut self, app_limited: bool) {
        self.space.quiche_owes = Owed::default();
        self.space.sends_data = false;
        if app_limited {
            self.space.sender.on_app_limited();
        }
    }

    /// Whether quiche holds an acknowledgement back because we do.
    pub fn holds_ack(&self) -> bool {
        self.space.quiche_owes.ack
    }

    /// The mirror of quiche's receive windows.
    pub fn windows(&mut self) -> &mut ReceiveWindows {
        &mut self.space.windows
    }

    /// The streams that this end has stopped reading.
    pub fn stopped_reads(&mut self) -> &mut StoppedReads {
        &mut self.space.stopped_reads
    }

    /// What reset streams get in place of what they lack.
    pub fn late_fills(&mut self) -> &mut LateFills {
        &mut self.space.late_fills
    }

    /// Whether something has come of such a stream.
    #[inline]
    pub fn has_unwanted(&self) -> bool {
        self.space.stopped_reads.has_touched()
    }

    /// How many streams the application has stopped reading through the layer.
    pub fn counted_stops(&self) -> u64 {
        self.space.stopped_reads.counted()
    }

    /// Follows what has become of the frames that ask the peer to stop.
    pub fn settle_stopped_reads(&mut self) {
        let NumberSpace { sender, stopped_reads, .. } = &mut self.space;
        if !stopped_reads.is_empty() {
            stopped_reads.settle(sender.largest_acked(), |pn| sender.was_delivered(pn));
        }
    }

    /// Whether quiche has got a window update to send since the last call.
    pub fn take_window_update<F: quiche::BufFactory>(
        &mut self,
        connection: &quiche::Connection<F>,
    ) -> bool {
        let due = self.space.windows.take_due(connection);
        self.space.quiche_owes.update |= due;
        due
    }

    /// Whether quiche is to be asked for MAX_STREAMS, now that the application has done with a stream.
    pub fn gives_stream_back<F: quiche::BufFactory>(
        &mut self,
        connection: &quiche::Connection<F>,
        stream_id: u64,
    ) -> bool {
        let NumberSpace { max_streams, receiver, .. } = &mut self.space;
        max_streams.on_over(connection, stream_id, receiver.pending() > 0)
    }

    /// Bytes of a packet in which quiche has no room for stream data.
    pub fn len_without_stream_data(&self, dcid_len: usize) -> usize {
        let known = if self.space.zero_rtt { None } else { self.space.sender.largest_acked() };
        quiche_compat::without_stream_data(
            dcid_len,
            self.space.sender.next_packet_number(),
            known,
        )
    }

    /// The data of each PATH_RESPONSE in the packet that has been finished last.
    pub fn take_path_responses(&mut self) -> Vec<[u8; 8]> {
        std::mem::take(&mut self.space.path_responses)
    }

    /// Whether packet `pn` has been acknowledged, or lost; `None` while it is on its way.
    pub fn was_delivered(&self, pn: u64) -> Option<bool> {
        self.space.sender.was_delivered(pn)
    }

    /// Whether the next packet number is to be skipped: a trap for optimistic acknowledgements.
    pub fn wants_skip(&self) -> bool {
        self.space.sender.wants_skip()
    }

    /// Whether a limit of RFC 9001 section 6.6 has been reached.
    pub fn aead_limit_reached(&self) -> bool {
        self.protection.incoming().integrity_limit_reached()
            || self.protection.outgoing().confidentiality_limit_reached()
    }

    /// Begins a key update if RFC 9001 section 6.1 lets it.
    pub fn initiate_key_update(&mut self, now: Instant) -> Result<(), tack_packet::Error> {
        self.protection.initiate_update(now)
    }

    /// Begins a key update before the confidentiality limit of RFC 9001 section 6.6, and drops keys
    /// that late packets no longer need.
    #[inline]
    pub fn maintain_keys(&mut self, now: Instant) {
        if self.protection.has_previous() {
            self.protection.discard_previous(now, self.space.probe_timeout());
        }
        if self.protection.outgoing().wants_update() && self.protection.can_update(now) {
            // It was just asked whether it may.
            let _ = self.protection.initiate_update(now);
        }
    }

    /// The events for qlog.
    #[cfg(feature = "qlog")]
    pub fn notes(&mut self) -> &mut EventNotes {
        &mut self.space.notes
    }
}

impl NumberSpace {
    /// An upper bound of the probe timeout (RFC 9002 section 6.2.1): quiche does not tell its own, and
    /// keys that are kept a little longer do no harm.
    fn probe_timeout(&self) -> Duration {
        self.sender.probe_timeout()
    }
}

/// kMinimumWindow, in packets (RFC 9002 section 7.2).
const LEAST_INITIAL_WINDOW: u64 = 2;

fn sender_config(parts: &Parts<'_>, timestamp_exponent: u32) -> SenderConfig {
    let Parts { agreement, config, .. } = *parts;
    let peer = match agreement.min_ack_delay {
        min_ack_delay if agreement.tack => Some(Peer::Tack {
            min_ack_delay: min_ack_delay.unwrap_or_default(),
            max_ack_delay: agreement.max_ack_delay,
        }),
        Some(min_ack_delay) if parts.lab.asks_stock_peers => {
            Some(Peer::Stock { min_ack_delay, max_ack_delay: agreement.max_ack_delay })
        }
        _ => None,
    };
    let profile = config.profile.constants();
    let mut sender = SenderConfig::new(profile, parts.mss as u64, parts.random);
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
    sender.bbr.initial_window_packets = config.initial_window_packets.max(LEAST_INITIAL_WINDOW);
    sender.bbr.cycle_units = config.probe_bw_units;
    sender.bbr.filter_units = config.bandwidth_filter_units;
    sender.peer = peer;
    sender.max_ack_delay = agreement.max_ack_delay;
    sender.timestamp_exponent = timestamp_exponent;
    sender.max_in_flight = quiche_compat::MAX_IN_FLIGHT_PACKETS * parts.mss as u64;
    sender.plain_sampling = parts.lab.plain_sampling;
    sender.bbr.deviations = parts.lab.deviations;
    sender.sees_all = !parts.zero_rtt;
    sender.is_server = parts.is_server;
    sender.ecn = parts.ecn;
    sender.saved = parts.cc_parameters;
    sender.max_jump = config.max_jump;
    sender.packet_trains = config.packet_trains && agreement.tack;
    sender.light_load_ack_interval = config.light_load_ack_interval;
    sender
}
