//! Settings that a server makes in BoringSSL's callbacks, for one connection.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use boring::ssl::{SslContextBuilder, SslMethod, SslRef};

use common::*;
use tacklib::{Config, Connection, Profile};

/// A server's configuration with a callback on each ClientHello.
fn with_callback(
    profile: Profile,
    callback: impl Fn(&mut SslRef) -> quiche::Result<()> + Send + Sync + 'static,
) -> Config {
    let mut builder = SslContextBuilder::new(SslMethod::tls()).unwrap();
    builder.set_select_certificate_callback(move |mut hello| {
        callback(hello.ssl_mut()).unwrap();
        Ok(())
    });
    let version = quiche::PROTOCOL_VERSION;
    let mut config = Config::with_boring_ssl_ctx_builder(version, builder).unwrap();
    configure(&mut config);
    config.set_profile(profile);
    config
}

fn established(mut server: Config) -> Pair<Connection, Connection> {
    let mut client = tack_config();
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    pair
}

#[test]
fn transport_parameters_of_a_callback_reach_the_peer_beside_the_extensions() {
    let pair = established(with_callback(Profile::Default, |ssl| {
        Connection::<tacklib::DefaultBufFactory>::set_max_idle_timeout_in_handshake(ssl, 4321)?;
        <Connection>::set_initial_max_streams_bidi_in_handshake(ssl, 7)
    }));
    let told = pair.client.peer_transport_params().unwrap();
    assert_eq!((told.max_idle_timeout, told.initial_max_streams_bidi), (4321, 7));
    assert_eq!(pair.client.peer_streams_left_bidi(), 7);
    assert!(pair.client.is_tack() && pair.server.is_tack());
}

#[test]
fn a_callback_cannot_close_the_window_that_the_layer_keeps_open() {
    let mut pair = established(with_callback(Profile::Default, |ssl| {
        <Connection>::set_cc_algorithm_name_in_handshake(ssl, "reno")?;
        <Connection>::set_initial_congestion_window_packets_in_handshake(ssl, 2)?;
        <Connection>::set_hystart_in_handshake(ssl, true)?;
        <Connection>::set_pacing_in_handshake(ssl, true)?;
        <Connection>::set_max_pacing_rate_in_handshake(ssl, Some(1000))?;
        <Connection>::set_enable_relaxed_loss_threshold_in_handshake(ssl, true)?;
        <Connection>::set_send_capacity_factor_in_handshake(ssl, 20.0)
    }));
    // quiche's own window, which holds 20,000 packets.
    let quiches: &quiche::Connection = &pair.server;
    assert!(quiches.path_stats().next().unwrap().cwnd > 20_000_000);
    transfer(&mut pair, 0, 1 << 20, true);
    assert!(pair.server.is_tack());
}

#[test]
fn without_tack_quiches_controller_takes_what_a_callback_sets() {
    let pair = established(with_callback(Profile::Off, |ssl| {
        <Connection>::set_initial_congestion_window_packets_in_handshake(ssl, 33)
    }));
    let path = pair.server.path_stats().next().unwrap();
    assert_eq!(path.cwnd, 33 * path.pmtu);
    assert!(!pair.server.is_tack());
}

#[test]
fn an_algorithm_that_does_not_exist_is_refused() {
    let pair = established(with_callback(Profile::Default, |ssl| {
        let result = <Connection>::set_cc_algorithm_name_in_handshake(ssl, "tahoe");
        assert_eq!(result, Err(quiche::Error::CongestionControl));
        Ok(())
    }));
    assert!(pair.server.is_tack());
}
