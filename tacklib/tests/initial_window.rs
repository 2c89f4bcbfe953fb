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
    assert!((9..=12).contains(&at_once), "{at_once}");
    assert!((31..=33).contains(&in_all), "{in_all}");
}

#[test]
fn the_window_that_the_application_sets_counts_whatever_profile_it_chooses_afterwards() {
    for profile in [Profile::Default, Profile::Video, Profile::Off] {
        let (_, in_all) = first_packets(|config| {
            config.set_initial_congestion_window_packets(20);
            config.set_profile(profile);
        });
        assert!((19..=21).contains(&in_all), "{profile:?}: {in_all}");
    }
    let (at_once, in_all) =
        first_packets(|config| config.set_initial_congestion_window_packets(1));
    assert!((1..=4).contains(&at_once) && in_all <= 4, "{at_once}, {in_all}");
}
