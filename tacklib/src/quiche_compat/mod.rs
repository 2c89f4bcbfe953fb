//! The seam to quiche 0.30: what works around it, one concept a file.
//!
//! Each file says what it does, why quiche needs it, what upstream knows of it, and how to delete it
//! once quiche offers the hook or mends the fault. `tests/quiche_canaries` tests these behaviours on
//! plain quiche, and fails when a newer release behaves otherwise. quiche is pinned to the release
//! whose behaviour was read.
//!
//! The files are private modules: the rest of tacklib imports their types and functions from here. A
//! connection keeps its workarounds in [`Seam`], and the layer those that only packets concern; both
//! call their methods.

mod ack_carrier;
mod anti_amplification;
mod blocked_challenge;
mod buffer_limit;
mod connection_id_lengths;
mod datagram_room;
mod decrypted_in_place;
mod duplicate_window;
mod error_codes;
mod external_access;
mod frame_order;
mod frames_in_flight;
mod inert_controller;
mod late_resets;
mod max_streams;
mod no_usable_path;
mod path_flush_ping;
mod path_mtu;
mod path_response_padding;
mod path_responses;
mod path_validation;
mod quiche_counters;
mod read_ends;
mod receive_windows;
mod send_buffer;
mod stale_streams;
mod stopped_reads;
mod stopped_streams;
mod stream_ends;
mod traffic_secrets;
mod transport_parameters;

pub use ack_carrier::request_carrier;
pub use blocked_challenge::may_be_blocked;
pub use buffer_limit::without_stream_data;
pub use connection_id_lengths::ConnectionIdLengths;
pub use datagram_room::longest_datagram;
pub use decrypted_in_place::SealedStart;
pub use duplicate_window::is_duplicate_to_quiche;
pub use error_codes::{error_code, shortened};
pub use frame_order::{FirstFrame, first_frame};
pub use inert_controller::{
    ControllerLook, MAX_IN_FLIGHT_PACKETS, make_inert, restore_controller,
};
pub use late_resets::{AskedStreams, Fill, LateFills, LateReset, may_fill};
pub use max_streams::MaxStreams;
pub use no_usable_path::is_without_path;
pub use path_flush_ping::{FlushPings, ping_packet_len};
pub use path_response_padding::least_len as least_path_response_len;
pub use path_validation::AddressPair;
pub use quiche_counters::{QuicheCounters, QuicheDelta};
pub use read_ends::put_end;
pub use receive_windows::{ReceiveWindows, is_over};
pub use stopped_reads::{Dropped, GivenUp, StoppedReads, drop_readable};
pub use stopped_streams::Stop;
pub use stream_ends::{StreamEnds, WrittenState};
pub use traffic_secrets::TrafficSecrets;
pub use transport_parameters::{ServerIds, Template};

use anti_amplification::AntiAmplification;
use external_access::ExternalAccess;
use late_resets::LateResets;
use path_mtu::PathMtu;
use path_responses::PathResponses;
use path_validation::PathValidation;
use send_buffer::SendBuffer;
use stale_streams::StaleStreams;
use stopped_reads::GivenUpRequests;
use stopped_streams::StoppedStreams;

/// What is kept about one quiche connection because quiche does not tell.
#[derive(Debug)]
pub struct Seam {
    /// What quiche made of the datagrams that it was given.
    pub counters: QuicheCounters,
    /// What the application did with the quiche connection itself.
    pub external_access: ExternalAccess,
    /// Data written and not yet sent.
    pub send_buffer: SendBuffer,
    /// Streams that may hold up others.
    pub stale_streams: StaleStreams,
    /// Streams that the peer has stopped.
    pub stopped_streams: StoppedStreams,
    /// Requests that this end has stopped reading, or answering.
    pub given_up_requests: GivenUpRequests,
    /// Ends of streams that quiche may forget.
    pub stream_ends: StreamEnds,
    /// Streams that were reset behind their end.
    pub late_resets: LateResets,
    /// Challenges that have yet to be answered.
    pub path_responses: PathResponses,
    /// Paths that have yet to be validated.
    pub validation: PathValidation,
    /// What may be sent to an address that the client has not proven.
    pub anti_amplification: AntiAmplification,
    /// Lengths of the connection ids that the peer has issued.
    pub connection_id_lengths: ConnectionIdLengths,
    /// How long packets may be.
    pub path_mtu: PathMtu,
}

impl Seam {
    /// The seam of a new connection that buffers at most `send_buffer` bytes.
    pub fn new(send_buffer: usize) -> Self {
        Self {
            counters: QuicheCounters::default(),
            external_access: ExternalAccess::default(),
            send_buffer: SendBuffer::new(send_buffer),
            stale_streams: StaleStreams::default(),
            stopped_streams: StoppedStreams::default(),
            given_up_requests: GivenUpRequests::default(),
            stream_ends: StreamEnds::default(),
            late_resets: LateResets::default(),
            path_responses: PathResponses::default(),
            validation: PathValidation::default(),
            anti_amplification: AntiAmplification::unlimited(),
            connection_id_lengths: ConnectionIdLengths::default(),
            path_mtu: PathMtu::default(),
        }
    }

    /// A server's connection whose client has not proven its address.
    pub fn expect_unproven_client(&mut self) {
        self.anti_amplification = AntiAmplification::of_unproven_address();
    }
}
