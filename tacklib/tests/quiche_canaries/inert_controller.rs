//! quiche's controller cannot be replaced, only kept out of the way: by the widest initial window that it
//! accepts, which is not wide enough for every path.

use crate::harness::*;
use crate::missing_hooks::has_only;

#[test]
fn the_window_ends_at_20000_packets() {
    let mut client = config();
    client.set_cc_algorithm(quiche::CongestionControlAlgorithm::Bbr2Gcongestion);
    client.set_initial_congestion_window_packets(1_000_000);
    client.enable_pacing(false);
    let ends = Ends::established_with(&mut client, &mut config());
    let path = ends.client.path_stats().next().unwrap();
    assert_needed(path.cwnd <= 20_000 * path.pmtu, "inert_controller.rs");
}

#[test]
fn no_setting_takes_a_controller_of_the_application() {
    let known = [
        "gcongestion_enabled",
        "set_cc_algorithm",
        "set_cc_algorithm_in_handshake",
        "set_cc_algorithm_name",
        "set_cc_algorithm_name_in_handshake",
        "set_initial_congestion_window_packets",
        "set_initial_congestion_window_packets_in_handshake",
    ];
    let words = ["congestion", "cc_", "controller", "recovery"];
    assert_needed(has_only(&words, &known), "inert_controller.rs");
}
