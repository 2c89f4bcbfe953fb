//! Settings of quiche's controller, by which a configuration and whoever gets `&mut quiche::Config` may call it.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::sync::Mutex;

use common::*;
use quiche::CongestionControlAlgorithm;
use tacklib::{Config, Profile};

/// Keeps warnings of the test's own thread: each has its own.
struct Warnings;

std::thread_local! {
    static KEPT: Mutex<Vec<String>> = const { Mutex::new(Vec::new()) };
}

impl ::log::Log for Warnings {
    fn enabled(&self, metadata: &::log::Metadata<'_>) -> bool {
        metadata.level() <= ::log::Level::Warn
    }

    fn log(&self, record: &::log::Record<'_>) {
        if self.enabled(record.metadata()) {
            KEPT.with(|kept| kept.lock().unwrap().push(record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// Warnings about a configuration's controller when a connection is made with it.
fn warnings(config: &mut Config) -> usize {
    // Another test may have set it.
    let _ = ::log::set_logger(&Warnings);
    ::log::set_max_level(::log::LevelFilter::Warn);
    tack_client(config);
    KEPT.with(|kept| {
        let kept = std::mem::take(&mut *kept.lock().unwrap());
        kept.iter().filter(|text| text.contains("have no effect")).count()
    })
}

/// What an application's function does that knows quiche alone.
type Setting = fn(&mut quiche::Config);

#[test]
fn settings_of_quiches_controller_are_warned_of_by_whichever_type_they_are_made() {
    let mut config = tack_config();
    assert_eq!(warnings(&mut config), 0);
    config.set_max_idle_timeout(5_000);
    assert_eq!(warnings(&mut config), 0, "no setting of the controller");
    let settings: [Setting; 3] = [
        |config| config.set_cc_algorithm(CongestionControlAlgorithm::Reno),
        |config| config.enable_pacing(true),
        |config| config.set_initial_congestion_window_packets(40),
    ];
    for (at, set) in settings.into_iter().enumerate() {
        set(&mut config);
        assert_eq!(warnings(&mut config), 1, "setting {at}");
        assert_eq!(warnings(&mut config), 0, "it is told once");
        assert!(tack_client(&mut config).path_stats().next().unwrap().cwnd > 20_000_000);
    }
    let by_tacklib: [fn(&mut Config); 3] = [
        |config| config.enable_hystart(false),
        |config| config.set_send_capacity_factor(2.0),
        |config| config.set_enable_relaxed_loss_threshold(true),
    ];
    for (at, set) in by_tacklib.into_iter().enumerate() {
        let mut config = tack_config();
        set(&mut config);
        assert_eq!(warnings(&mut config), 1, "setting {at} of tacklib's");
    }
    // Of a configuration that no connection was made with, as far as it can be told.
    let mut config = tack_config();
    let quiches: &mut quiche::Config = &mut config;
    quiches.set_cc_algorithm(CongestionControlAlgorithm::Bbr2Gcongestion);
    assert_eq!(warnings(&mut config), 1);
    assert_eq!(warnings(&mut profile_config(Profile::Off)), 0);
}

/// What a client can write to a stream of a server that takes 100,000 bytes in all.
fn capacity(client: &mut Config) -> usize {
    let mut server = tack_config();
    server.set_initial_max_data(100_000);
    let mut pair = Pair::new(tack_client(client), tack_server(&mut server));
    pair.handshake();
    pair.client.stream_send(0, b"?", false).unwrap();
    pair.client.stream_capacity(0).unwrap()
}

#[test]
fn the_send_capacity_factor_counts_without_tack_alone() {
    let mut config = tack_config();
    config.set_send_capacity_factor(2.0);
    assert!(capacity(&mut config) < 100_000);
    config.set_initial_congestion_window_packets(100);
    config.set_profile(Profile::Off);
    assert!(capacity(&mut config) > 100_000);
    let mut config = tack_config();
    let quiches: &mut quiche::Config = &mut config;
    quiches.set_send_capacity_factor(2.0);
    assert!(capacity(&mut config) < 100_000);
}
