//! What quiche offers nothing for, as far as the names of its functions tell.

use crate::harness::assert_needed;
use crate::quiche_source::*;

/// Whether no public function of the configuration or the connection has one of these words in its
/// name, but for those that are known.
pub fn has_only(words: &[&str], known: &[&str]) -> bool {
    let lib = read(&quiche_source().join("lib.rs"));
    let mut names = methods_of(&lib, "Config");
    names.extend(methods(&lib));
    names.extend(functions(&lib));
    assert!(known.iter().all(|name| names.contains(*name)), "{known:?}");
    names.retain(|name| words.iter().any(|word| name.contains(word)));
    names.retain(|name| !known.contains(&name.as_str()));
    if !names.is_empty() {
        eprintln!("new in quiche: {names:?}");
    }
    names.is_empty()
}

#[test]
fn the_key_log_is_the_only_way_to_the_secrets() {
    let known = ["load_priv_key_from_pem_file", "log_keys", "set_keylog", "set_ticket_key"];
    assert_needed(has_only(&["key", "secret", "export"], &known), "traffic_secrets.rs");
}

#[test]
fn transport_parameters_cannot_be_added() {
    let known = ["enable_track_unknown_transport_parameters", "peer_transport_params"];
    assert_needed(has_only(&["transport_param"], &known), "transport_parameters.rs");
}

#[test]
fn quiche_does_not_say_what_waits_to_be_sent() {
    let words = ["buffered", "unsent", "pending", "wants", "needs", "inflight", "in_flight"];
    assert_needed(has_only(&words, &[]), "send_buffer.rs");
}

#[test]
fn quiche_does_not_say_what_of_a_stream_was_acknowledged() {
    let words = ["stream_acked", "stream_send_complete", "delivered"];
    assert_needed(has_only(&words, &[]), "stream_ends.rs");
}

#[test]
fn nothing_is_reported_of_window_updates() {
    let known = [
        "set_initial_max_data",
        "set_max_connection_window",
        "set_max_stream_window",
        "set_initial_congestion_window_packets",
        "set_initial_congestion_window_packets_in_handshake",
        "set_use_initial_max_data_as_flow_control_win",
        "set_use_initial_max_data_as_flow_control_win_in_handshake",
    ];
    assert_needed(has_only(&["window", "max_data", "flow_control"], &known), "flow_control.rs");
}

#[test]
fn the_marks_of_datagrams_cannot_be_passed() {
    let fields = fields(&read(&quiche_source().join("lib.rs")), "RecvInfo");
    let known: Items = ["RecvInfo.from", "RecvInfo.to"].map(String::from).into();
    assert_needed(fields == known, "ecn.rs");
}

#[test]
fn a_key_update_cannot_be_begun() {
    assert_needed(has_only(&["key_update", "update_keys"], &[]), "key_update.rs");
}
