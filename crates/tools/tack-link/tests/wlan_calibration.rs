//! The 802.11 medium against an independent reference simulation and against theory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]

use std::time::Duration;

use tack_link::emulation::{Acks, Emulation, Report};
use tack_link::wlan::{Options, Parameters, Preamble, Profile, bianchi, closed_form};

const SECONDS: u64 = 10;

fn emulation(parameters: Parameters, acks: Acks) -> Emulation {
    let duration = Duration::from_secs(SECONDS);
    Emulation { acks, duration, ..Emulation::new(parameters) }
}

fn goodput(profile: Profile, acks: Acks) -> f64 {
    emulation(Parameters::from(profile), acks).run().unwrap().goodput_mbps
}

#[track_caller]
fn assert_within(what: &str, got: f64, expected: f64, percent: f64) {
    let off = (got / expected - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{what}: {got:.2} is {off:+.2} % off {expected}");
}

fn assert_cells(acks: Acks, cells: [f64; 4], percent: f64) {
    for (profile, cell) in Profile::ALL.into_iter().zip(cells) {
        assert_within(&format!("{profile}, {acks:?}"), goodput(profile, acks), cell, percent);
    }
}

#[test]
fn udp_without_acknowledgements_is_as_fast_as_in_the_reference() {
    assert_cells(Acks::None, [6.94, 25.1, 211.6, 589.0], 1.0);
}

#[test]
fn an_acknowledgement_for_every_packet_costs_as_much_as_in_the_reference() {
    assert_cells(Acks::EveryN(1), [5.5, 18.9, 169.0, 446.1], 2.0);
}

#[test]
fn an_acknowledgement_for_every_second_packet_costs_as_much_as_in_the_reference() {
    assert_cells(Acks::EveryN(2), [6.2, 21.9, 173.6, 477.2], 2.0);
}

#[test]
fn few_acknowledgements_gain_over_one_for_every_second_packet_what_contention_is_worth() {
    for (profile, gain) in Profile::ALL.into_iter().zip([1.10, 1.14, 1.21, 1.22]) {
        let ratio = goodput(profile, Acks::Hz(50.0)) / goodput(profile, Acks::EveryN(2));
        assert_within(&format!("gain on {profile}"), ratio, gain, 1.5);
    }
}

#[test]
fn the_acknowledgement_rate_still_counts_at_400_hz() {
    for (profile, gain) in [(Profile::N, 1.08), (Profile::Ac, 1.07)] {
        let ratio = goodput(profile, Acks::Hz(50.0)) / goodput(profile, Acks::Hz(400.0));
        assert_within(&format!("50 Hz against 400 Hz on {profile}"), ratio, gain, 1.5);
    }
}

#[test]
fn acknowledgements_that_are_not_aggregated_cost_more_and_get_lost() {
    let options = Options { aggregate_acks: Some(false), ..Options::default() };
    let single = Parameters::new(Profile::N, &options).unwrap();
    let single = emulation(single, Acks::EveryN(1)).run().unwrap();
    let aggregated = emulation(Parameters::from(Profile::N), Acks::EveryN(1)).run().unwrap();
    assert!(single.goodput_mbps < 0.95 * aggregated.goodput_mbps);
    assert!((single.ack_ampdu_mean - 1.0).abs() < 1e-9);
    assert!(single.acks_dropped > 0);
}

#[test]
fn which_way_the_data_goes_makes_no_difference() {
    let down = emulation(Parameters::from(Profile::N), Acks::EveryN(2));
    let up = Emulation { uplink: true, ..down.clone() };
    let (down, up) = (down.run().unwrap(), up.run().unwrap());
    assert_within("up against down", up.goodput_mbps, down.goodput_mbps, 1.0);
}

#[test]
fn a_single_station_is_as_fast_as_the_closed_form() {
    let mut cases: Vec<(Profile, Options)> = Vec::new();
    for preamble in [Preamble::Long, Preamble::Short] {
        cases.push((Profile::B, Options { preamble: Some(preamble), ..Options::default() }));
    }
    for cw_min in [7, 15, 31, 63] {
        cases.push((Profile::G, Options { cw_min: Some(cw_min), ..Options::default() }));
    }
    for ampdu_bytes in [1, 3_839, 8_000, 21_700, 65_535] {
        let options = Options { ampdu_bytes: Some(ampdu_bytes), ..Options::default() };
        cases.push((Profile::N, options.clone()));
        cases.push((Profile::Ac, options));
    }
    for (profile, options) in cases {
        let parameters = Parameters::new(profile, &options).unwrap();
        let expected = closed_form(&parameters);
        let duration = Duration::from_secs(5);
        let run = Emulation { duration, ..Emulation::new(parameters) };
        let got = run.run().unwrap().goodput_mbps;
        assert_within(&format!("{profile}, {options:?}"), got, expected, 1.0);
    }
}

/// A cell in which that many stations always have something to send.
fn saturated(profile: Profile, cw_min: u32, stations: u32) -> Report {
    let options = Options { cw_min: Some(cw_min), ..Options::default() };
    let parameters = Parameters::new(profile, &options).unwrap();
    let run = emulation(parameters, Acks::None);
    Emulation { background: stations - 1, uplink: true, ..run }.run().unwrap()
}

#[test]
fn saturated_stations_collide_as_often_as_bianchi_says() {
    let cases = [
        (Profile::G, 31, 5, 2),
        (Profile::G, 15, 6, 2),
        (Profile::N, 15, 6, 2),
        (Profile::N, 31, 5, 2),
        (Profile::Ac, 15, 6, 2),
        (Profile::G, 31, 5, 5),
    ];
    for (profile, cw_min, stages, stations) in cases {
        let expected = bianchi(stations, cw_min, stages);
        let got = saturated(profile, cw_min, stations).collision_rate;
        let what = format!("{profile}, CWmin {cw_min}, {stations} stations");
        assert!((got - expected).abs() < 0.01, "{what}: {got:.4}, Bianchi {expected:.4}");
    }
}
