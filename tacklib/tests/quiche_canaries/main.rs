//! What tacklib works around still has to be worked around.
//!
//! Each module shows on plain quiche, without tacklib, a hook that is missing or a defect. It fails once
//! quiche has mended it, and names the file that may then go.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

#[path = "../../src/boringssl.rs"]
#[allow(dead_code)] // the part that changes transport parameters is used
mod boringssl;
#[path = "../common/mod.rs"]
mod common;
mod harness;
#[path = "../quiche_source/mod.rs"]
mod quiche_source;

mod ack_ranges;
mod anti_amplification;
mod blocked_challenge;
mod connection_id_conflict;
mod decrypted_in_place;
mod delayed_acks;
mod error_codes;
mod extension_frames;
mod flow_control;
mod frame_order;
mod handshake_reserved_bits;
mod inert_controller;
mod late_packets;
mod late_resets;
mod missing_hooks;
mod no_usable_path;
mod packet_outcome;
mod path_flush_ping;
mod path_mtu;
mod path_response_padding;
mod path_responses;
mod read_ends;
mod rejected_parameters;
mod reserved_bits;
mod retry_backoff;
mod skipped_packet_numbers;
mod stale_streams;
mod stats_cost;
mod stopped_reads;
mod stopped_streams;
mod stream_ends;
mod transport_parameters;
mod unchecked_parameters;
mod zero_padding;
