//! What a flow sends before its first round trip is over.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use tacklib::{Config, Profile};

const STREAM: u64 = 0;
const ONE_WAY: Duration = Duration::from_millis(40);

/// Packets of a client with much to send: at once, and within its first round trip.
fn first_packets(configure: impl FnOnce(&mut Config)) -> (usize, usize) {
    let mut config = tack_config();
    configure(&mut config);
    let server = tack_server(&mut tack_config());
    let mut pair = Pair::new(tack_client(&mut config), server).with_delay(ONE_WAY);
    pair.handshake();
    let before = pair.client.stats().sent;
    pair.client.stream_send(STREAM, &pattern(200_000), false).unwrap();
    pair.run_for(Duration::from_millis(1));
    let at_once = pair.client.stats().sent - before;
    pair.run_for(ONE_WAY * 9 / 5);
    (at_once, pair.client.stats().sent - before)
}

#[test]
fn ten_packets_leave_in_the_first_round_trip() {
    let (at_once, in_all) = first_packets(|config| config.set_profile(Profile::Default));
    assert!((9..=11).contains(&at_once), "{at_once}");
    assert!((9..=11).contains(&in_all), "{in_all}");
}

#[test]
fn for_video_it_is_thirty_two_of_which_ten_leave_at_once() {
    let (at_once, in_all) = first_packets(|config| config.set_profile(Profile::Video));
    // The first, with ACK_FREQUENCY, is not quite full, and leaves room for another.
    assert!((9..=13).contains(&at_once), "{at_once}");
    assert!((31..=34).contains(&in_all), "{in_all}");
}

#[test]
fn the_window_that_the_application_sets_counts_whatever_profile_it_chooses_afterwards() {
    for profile in [Profile::Default, Profile::Video, Profile::Off] {
        let (_, in_all) = first_packets(|config| {
            config.set_initial_congestion_window_packets(20);
            config.set_profile(profile);
        });
        assert!((19..=22).contains(&in_all), "{profile:?}: {in_all}");
    }
    let (at_once, in_all) =
        first_packets(|config| config.set_initial_congestion_window_packets(1));
    assert!((1..=4).contains(&at_once) && in_all <= 4, "{at_once}, {in_all}");
}

// TACK-6.4-5
#[test]
fn no_burst_of_startup_has_more_than_ten_packets_though_the_rate_has_more_in_a_millisecond() {
    let server = tack_server(&mut tack_config());
    let mut pair = Pair::new(tack_client(&mut tack_config()), server)
        .with_delay(Duration::from_millis(5))
        .with_rate(1000);
    pair.handshake();
    let mut longest = 0;
    // Until the rate has more than twice that many packets in a millisecond.
    for _ in 0..100_000 {
        // What does not fit into the send buffer is written later.
        let _ = pair.client.stream_send(STREAM, &pattern(60_000), false);
        let before = pair.client.stats().sent;
        pair.run_for(Duration::from_micros(20));
        longest = longest.max(pair.client.stats().sent - before);
        let rate = pair.client.path_stats().next().unwrap().delivery_rate;
        if rate > 25 * 1200 * 1000 {
            assert!((5..=13).contains(&longest), "{longest}");
            return;
        }
    }
    panic!("the rate does not grow; bursts of {longest}");
}
