//! quiche's controller cannot be replaced, only kept out of the way: by the widest initial window that it
//! accepts, which is not wide enough for every path.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use boring::ssl::{SslContextBuilder, SslMethod};

use crate::harness::*;
use crate::missing_hooks::has_only;

#[test]
fn secrets_that_quiche_logs_are_lost_to_the_contexts_own_callback() {
    let lines = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lines);
    let mut builder = SslContextBuilder::new(SslMethod::tls()).unwrap();
    builder.set_keylog_callback(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let version = quiche::PROTOCOL_VERSION;
    let mut client = quiche::Config::with_boring_ssl_ctx_builder(version, builder).unwrap();
    crate::common::configure(&mut client);
    client.log_keys();
    Ends::established_with(&mut client, &mut config());
    assert_needed(lines.load(Ordering::Relaxed) == 0, "inert_controller.rs");
}

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
