//! quiche acknowledges whenever it is asked for a packet (RFC 9000 section 13.2.1 lets it wait): so the layer
//! must not ask (cloudflare/quiche#2136 would delay them).

use crate::harness::*;
use crate::missing_hooks::has_only;

#[test]
fn one_packet_is_acknowledged_at_once() {
    let mut ends = Ends::established();
    for datagram in ends.client_writes(2, b"x") {
        ends.deliver_to_server(datagram).unwrap();
    }
    assert_needed(!sent(&mut ends.server).is_empty(), "delayed_acks.rs");
}

#[test]
fn no_setting_says_when_to_acknowledge() {
    let known = [
        "enable_track_unknown_transport_parameters",
        "send_ack_eliciting",
        "send_ack_eliciting_on_path",
        "set_ack_delay_exponent",
        // "packets" has the word in it.
        "set_initial_congestion_window_packets",
        "set_initial_congestion_window_packets_in_handshake",
        "set_max_ack_delay",
    ];
    assert_needed(has_only(&["ack"], &known), "delayed_acks.rs");
}
