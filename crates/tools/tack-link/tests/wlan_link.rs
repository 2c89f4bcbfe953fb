//! The 802.11 medium as a link: what arrives when, and what does not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]

use std::time::Duration;

use tack_link::wlan::{Load, Options, Parameters, Profile, Role, Wlan, WlanConfig};
use tack_link::{Arrival, Direction, Link, Packet, Time};

const US: u64 = 1_000;

fn at_us(micros: u64) -> Time {
    Time::from_nanos(micros * US)
}

fn numbered(number: u32, sent: Time) -> Packet {
    Packet::new(1500, number, sent, Vec::new())
}

fn wlan(profile: Profile) -> Wlan {
    Wlan::new(&WlanConfig::new(Parameters::from(profile)), 1).unwrap()
}

fn damaging(profile: Profile, mpdu_error_rate: f64) -> Wlan {
    let options = Options { mpdu_error_rate: Some(mpdu_error_rate), ..Options::default() };
    let parameters = Parameters::new(profile, &options).unwrap();
    Wlan::new(&WlanConfig::new(parameters), 1).unwrap()
}

fn send(wlan: &mut Wlan, packets: u32, now: Time) {
    for number in 0..packets {
        wlan.send(Direction::Forward, numbered(number, now), now);
    }
}

/// Everything that still arrives, event by event.
fn drain(wlan: &mut Wlan) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for _ in 0..1_000_000 {
        let Some(now) = wlan.next_event() else { return arrivals };
        while let Some(arrival) = wlan.arrival(now) {
            arrivals.push(arrival);
        }
    }
    panic!("the link never comes to rest");
}

fn run_until(wlan: &mut Wlan, end: Time) {
    while wlan.arrival(end).is_some() {}
}

fn numbers(arrivals: &[Arrival]) -> Vec<u32> {
    arrivals.iter().map(|arrival| arrival.packet.flow).collect()
}

#[test]
fn a_lone_packet_on_an_idle_dcf_medium_takes_difs_and_ppdu() {
    let mut wlan = wlan(Profile::G);
    send(&mut wlan, 1, at_us(1_000));
    assert_eq!(drain(&mut wlan)[0].at, at_us(1_000 + 28 + 20 + 57 * 4 + 6));
}

#[test]
fn a_lone_packet_on_an_idle_edca_medium_waits_for_the_slot_boundary() {
    let mut wlan = wlan(Profile::N);
    send(&mut wlan, 1, at_us(1_000));
    let boundary = 43 + 107 * 9;
    let ppdu = Duration::from_nanos(40_000 + 12 * 3_600);
    assert_eq!(drain(&mut wlan)[0].at, at_us(boundary) + ppdu);
}

#[test]
fn a_lone_packet_right_at_the_beginning_waits_for_the_aifs() {
    let mut wlan = wlan(Profile::Ac);
    send(&mut wlan, 1, Time::ZERO);
    let ppdu = Duration::from_nanos(40_000 + 4 * 3_600);
    assert_eq!(drain(&mut wlan)[0].at, at_us(43) + ppdu);
}

#[test]
fn packets_of_one_ampdu_arrive_at_once() {
    let mut wlan = wlan(Profile::N);
    send(&mut wlan, 15, at_us(1_000));
    let arrivals = drain(&mut wlan);
    assert_eq!(arrivals.len(), 15);
    assert!(arrivals[..14].iter().all(|arrival| arrival.at == arrivals[0].at));
    assert!(arrivals[14].at > arrivals[0].at);
}

#[test]
fn the_same_seed_gives_the_same_arrivals_and_another_one_others() {
    let arrivals = |seed| {
        let config =
            WlanConfig { background: 2, ..WlanConfig::new(Parameters::from(Profile::G)) };
        let mut wlan = Wlan::new(&config, seed).unwrap();
        send(&mut wlan, 50, at_us(500));
        let end = at_us(500_000);
        std::iter::from_fn(|| wlan.arrival(end)).collect::<Vec<_>>()
    };
    assert_eq!(arrivals(7), arrivals(7));
    assert_ne!(arrivals(7), arrivals(8));
}

#[test]
fn a_driver_that_looks_late_sees_the_same_arrivals() {
    let mut prompt = wlan(Profile::N);
    let mut late = wlan(Profile::N);
    for wlan in [&mut prompt, &mut late] {
        send(wlan, 100, at_us(1_000));
        wlan.send(Direction::Reverse, numbered(200, at_us(1_500)), at_us(1_500));
    }
    let end = at_us(1_000_000);
    let late: Vec<_> = std::iter::from_fn(|| late.arrival(end)).collect();
    assert_eq!(drain(&mut prompt), late);
}

#[test]
fn damaged_mpdus_are_sent_again_and_delivered_in_order() {
    let mut wlan = damaging(Profile::N, 0.3);
    send(&mut wlan, 200, at_us(1_000));
    let arrivals = drain(&mut wlan);
    assert_eq!(numbers(&arrivals), (0..200).collect::<Vec<_>>());
    assert!(wlan.statistics(Direction::Forward).mpdus > 250);
}

#[test]
fn what_is_given_up_does_not_hold_up_the_rest() {
    let mut wlan = damaging(Profile::N, 0.7);
    send(&mut wlan, 300, at_us(1_000));
    let arrivals = drain(&mut wlan);
    let lost = wlan.losses(Direction::Forward).retries;
    assert!(lost > 3, "0.7^8 of 300 packets: {lost}");
    assert_eq!(arrivals.len() as u64 + lost, 300);
    assert!(numbers(&arrivals).is_sorted());
}

#[test]
fn a_frame_that_never_gets_through_is_given_up_after_seven_retries() {
    for profile in Profile::ALL {
        let mut wlan = damaging(profile, 1.0);
        send(&mut wlan, 1, at_us(1_000));
        assert!(drain(&mut wlan).is_empty());
        assert_eq!(wlan.losses(Direction::Forward).retries, 1);
        assert_eq!(wlan.statistics(Direction::Forward).attempts, 8, "{profile}");
    }
}

#[test]
fn an_ampdu_that_never_gets_through_is_given_up_after_seven_retries() {
    let mut wlan = damaging(Profile::Ac, 1.0);
    send(&mut wlan, 10, at_us(1_000));
    assert!(drain(&mut wlan).is_empty());
    assert_eq!(wlan.losses(Direction::Forward).retries, 10);
    assert_eq!(wlan.statistics(Direction::Forward).mpdus, 80);
}

#[test]
fn a_full_queue_loses_what_comes_last() {
    let parameters = Parameters::from(Profile::N);
    let config = WlanConfig { forward_queue_bytes: 15_000, ..WlanConfig::new(parameters) };
    let mut wlan = Wlan::new(&config, 1).unwrap();
    send(&mut wlan, 20, at_us(1_000));
    assert_eq!(wlan.losses(Direction::Forward).queue, 10);
    assert_eq!(numbers(&drain(&mut wlan)), (0..10).collect::<Vec<_>>());
}

#[test]
fn two_hops_take_twice_as_long_both_ways() {
    let parameters = Parameters::from(Profile::G);
    let config = WlanConfig { hops: 2, ..WlanConfig::new(parameters) };
    for direction in Direction::ALL {
        let mut wlan = Wlan::new(&config, 1).unwrap();
        wlan.send(direction, numbered(0, at_us(1_000)), at_us(1_000));
        let arrivals = drain(&mut wlan);
        assert_eq!(arrivals[0].direction, direction);
        assert!(arrivals[0].at >= at_us(1_000 + 2 * (28 + 254) + 10 + 34));
        assert_eq!(wlan.statistics(direction).attempts, 2);
    }
}

#[test]
fn a_lost_ampdu_costs_a_block_ack_request_before_it_is_sent_again() {
    let config = WlanConfig { background: 2, ..WlanConfig::new(Parameters::from(Profile::N)) };
    let mut wlan = Wlan::new(&config, 1).unwrap();
    run_until(&mut wlan, at_us(2_000_000));
    for (_, sent) in wlan.stations().filter(|(role, _)| *role == Role::Background) {
        assert!(sent.collisions > 100);
        let answered = sent.requests - sent.request_failures;
        assert!(sent.failures - answered <= 1, "{sent:?}");
    }
}

#[test]
fn a_lone_mpdu_is_sent_again_without_a_request() {
    let options = Options { ampdu_bytes: Some(1), ..Options::default() };
    let parameters = Parameters::new(Profile::N, &options).unwrap();
    let config = WlanConfig { background: 2, ..WlanConfig::new(parameters) };
    let mut wlan = Wlan::new(&config, 1).unwrap();
    run_until(&mut wlan, at_us(500_000));
    for (_, sent) in wlan.stations().filter(|(role, _)| *role == Role::Background) {
        assert!(sent.collisions > 10);
        assert_eq!(sent.requests, 0);
    }
}

#[test]
fn saturated_stations_share_the_medium_equally() {
    for profile in [Profile::G, Profile::N] {
        let config = WlanConfig { background: 4, ..WlanConfig::new(Parameters::from(profile)) };
        let mut wlan = Wlan::new(&config, 1).unwrap();
        run_until(&mut wlan, at_us(60_000_000));
        let background = wlan.stations().filter(|(role, _)| *role == Role::Background);
        let got: Vec<u64> = background.map(|(_, sent)| sent.attempts - sent.failures).collect();
        let mean = got.iter().sum::<u64>() as f64 / 4.0;
        for got in &got {
            assert!((*got as f64 / mean - 1.0).abs() < 0.05, "{profile}: {got} of {mean}");
        }
    }
}

#[test]
fn background_traffic_has_the_rate_that_was_asked_for() {
    let config = WlanConfig {
        background: 1,
        background_load: Load::Mbps(5.0),
        ..WlanConfig::new(Parameters::from(Profile::G))
    };
    let mut wlan = Wlan::new(&config, 1).unwrap();
    run_until(&mut wlan, at_us(5_000_000));
    let (role, sent) = wlan.stations().last().unwrap();
    assert_eq!(role, Role::Background);
    let expected = 5e6 * 5.0 / (8.0 * 1472.0);
    assert!((sent.mpdus as f64 - expected).abs() <= 2.0, "{} of {expected}", sent.mpdus);
}

#[test]
fn a_cell_that_makes_no_sense_is_refused() {
    let config = WlanConfig::new(Parameters::from(Profile::G));
    let hops = Wlan::new(&WlanConfig { hops: 3, ..config.clone() }, 1).unwrap_err();
    assert_eq!(hops.to_string(), "hops is 3; allowed: 1, 2");
    let crowd = Wlan::new(&WlanConfig { background: 201, ..config }, 1).unwrap_err();
    assert_eq!(crowd.to_string(), "background is 201; allowed: 0 to 200");
}
