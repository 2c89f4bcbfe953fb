//! The paper's UDP tool on the modelled medium: what its numbers mean, and what it refuses.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]

use std::time::Duration;

use tack_link::emulation::{Acks, Emulation};
use tack_link::wlan::{Load, Parameters, Profile};

fn emulation(profile: Profile) -> Emulation {
    let duration = Duration::from_secs(5);
    Emulation { duration, ..Emulation::new(Parameters::from(profile)) }
}

#[test]
fn one_acknowledgement_arrives_for_every_l_packets() {
    for every in [1, 2, 8] {
        let run = Emulation { acks: Acks::EveryN(every), ..emulation(Profile::G) };
        let report = run.run().unwrap();
        let packets = report.goodput_mbps / (8.0 * 1472.0);
        let acks = report.ack_goodput_mbps / (8.0 * 64.0);
        let ratio = packets / acks;
        assert!((ratio / f64::from(every) - 1.0).abs() < 0.01, "{every}: {ratio}");
    }
}

#[test]
fn acknowledgements_on_time_come_at_their_rate() {
    let run = Emulation { acks: Acks::Hz(100.0), ..emulation(Profile::Ac) };
    let report = run.run().unwrap();
    assert!((report.acks_hz - 100.0).abs() < 1.0, "{}", report.acks_hz);
}

#[test]
fn longer_acknowledgements_take_more_time() {
    let short = Emulation { acks: Acks::EveryN(1), ..emulation(Profile::B) };
    let long = Emulation { ack_bytes: 600, ..short.clone() };
    assert!(long.run().unwrap().goodput_mbps < 0.9 * short.run().unwrap().goodput_mbps);
}

#[test]
fn a_sender_that_is_not_saturated_gets_what_it_offers() {
    let run = Emulation { offered_mbps: Some(40.0), ..emulation(Profile::N) };
    let report = run.run().unwrap();
    assert!((report.goodput_mbps / 40.0 - 1.0).abs() < 0.005, "{}", report.goodput_mbps);
}

#[test]
fn two_hops_halve_the_goodput() {
    for profile in Profile::ALL {
        let one = emulation(profile).run().unwrap().goodput_mbps;
        let two = Emulation { hops: 2, ..emulation(profile) }.run().unwrap().goodput_mbps;
        let ratio = two / one;
        assert!((0.43..0.58).contains(&ratio), "{profile}: {ratio}");
    }
}

#[test]
fn background_stations_take_their_share() {
    let alone = emulation(Profile::N).run().unwrap().goodput_mbps;
    let shared = Emulation { background: 3, ..emulation(Profile::N) };
    let ratio = shared.run().unwrap().goodput_mbps / alone;
    assert!((0.15..0.27).contains(&ratio), "a quarter, less collisions: {ratio}");
}

#[test]
fn little_background_traffic_takes_little() {
    let alone = emulation(Profile::N).run().unwrap().goodput_mbps;
    let busy =
        Emulation { background: 3, background_load: Load::Mbps(1.0), ..emulation(Profile::N) };
    let ratio = busy.run().unwrap().goodput_mbps / alone;
    assert!((0.88..0.98).contains(&ratio), "{ratio}");
}

#[test]
fn the_seed_decides_the_outcome() {
    let run = Emulation { acks: Acks::EveryN(2), ..emulation(Profile::N) };
    let report = run.run().unwrap();
    assert_eq!(run.run().unwrap(), report);
    assert_ne!(Emulation { seed: 2, ..run }.run().unwrap(), report);
}

#[test]
fn a_report_names_its_units() {
    let report = emulation(Profile::B).run().unwrap();
    let text = toml::to_string(&report).unwrap();
    assert!(text.contains("goodput_mbps = 6.9"), "{text}");
    assert!(text.contains("ack_goodput_mbps = 0.0"), "{text}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = |emulation: Emulation| emulation.run().unwrap_err().field;
    let base = emulation(Profile::G);
    assert_eq!(refused(Emulation { acks: Acks::EveryN(0), ..base.clone() }), "ack_every");
    assert_eq!(refused(Emulation { acks: Acks::Hz(f64::NAN), ..base.clone() }), "ack_hz");
    assert_eq!(refused(Emulation { ack_bytes: 9, ..base.clone() }), "ack_bytes");
    assert_eq!(refused(Emulation { hops: 0, ..base.clone() }), "hops");
    let offered_mbps = Some(-1.0);
    assert_eq!(refused(Emulation { offered_mbps, ..base.clone() }), "offered_mbps");
    assert_eq!(refused(Emulation { duration: Duration::ZERO, ..base }), "duration");
}
