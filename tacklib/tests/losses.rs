//! Links that lose packets.

#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod common;

use std::time::{Duration, Instant};

use common::*;
use tacklib::{Connection, Profile};

fn pair() -> Pair<Connection, Connection> {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(5))
        .with_rate(40);
    pair.handshake();
    pair
}

#[test]
fn a_loss_is_reported_by_an_iack_and_repaired() {
    let mut pair = pair();
    pair.tamper_up(lossy(2, 1));
    transfer(&mut pair, 0, 4 << 20, false);
    let server = pair.server.tack_stats();
    let client = pair.client.tack_stats();
    assert!(client.lost_packets > 20, "{client:?}");
    assert!(server.iacks_sent > 0, "{server:?}");
    assert!(server.incoming_loss_rate > 0.0);
}

#[test]
fn losses_on_both_ways_are_survived() {
    for (percent, seed) in [(10, 2), (30, 3)] {
        let mut pair = pair();
        pair.tamper_up(lossy(percent, seed));
        pair.tamper_down(lossy(percent, seed + 100));
        transfer(&mut pair, 0, 1 << 20, false);
        let client = pair.client.tack_stats();
        assert!(client.ack_loss_rate > 0.02, "{client:?}");
    }
}

#[test]
fn an_acknowledgement_path_that_pauses_does_not_break_the_connection() {
    let mut pair = pair();
    pair.tamper_down(losing(|packet| (20..40).contains(&packet)));
    transfer(&mut pair, 0, 4 << 20, false);
}

#[test]
fn an_urgent_stream_that_was_acknowledged_late_does_not_hold_up_the_others() {
    let mut pair = pair();
    pair.run_for(Duration::from_millis(100));
    let (idle, other) = (3, 7);
    pair.server.stream_priority(idle, 0, false).unwrap();
    pair.server.stream_send(idle, &[1; 4000], false).unwrap();
    // Probe timeouts repeat a part of it, and then everything turns out to have arrived.
    pair.hold_up(true);
    pair.run_for(Duration::from_secs(2));
    pair.hold_up(false);
    pair.run_for(Duration::from_millis(100));
    pair.server.stream_send(other, &[2; 10_000], false).unwrap();
    pair.run_until(|pair| pair.client.stream_readable_len(other, usize::MAX) == 10_000);
    // It is as urgent as before once it has something to say again.
    pair.server.stream_send(other, &vec![2; 300_000], false).unwrap();
    pair.server.stream_send(idle, &[1; 4000], false).unwrap();
    pair.run_until(|pair| pair.client.stream_readable_len(idle, usize::MAX) == 8000);
    assert!(pair.client.stream_readable_len(other, usize::MAX) < 100_000);
}

/// A stream whose lost data is acknowledged before all of it has left again: after an outage of the way up.
fn others_arrive_after_an_outage(window: u64, takes_writable: bool, is_urgent: bool) {
    for ms in (100..1000).step_by(100) {
        let mut config = tack_config();
        config.set_initial_max_stream_data_uni(window);
        let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(&mut config))
            .with_delay(Duration::from_millis(20));
        pair.handshake();
        let (idle, other) = (2, 0);
        if is_urgent {
            pair.client.stream_priority(idle, 0, false).unwrap();
        }
        assert_eq!(pair.client.stream_send(idle, &[1; 3000], false), Ok(3000));
        pair.hold_up(true);
        // What applications do that wait to write.
        let run_for = |pair: &mut Pair<Connection, Connection>, time| {
            let until = Instant::now() + time;
            pair.run_until(|pair| {
                while takes_writable && pair.client.stream_writable_next().is_some() {}
                Instant::now() >= until
            });
        };
        run_for(&mut pair, Duration::from_millis(ms));
        pair.hold_up(false);
        run_for(&mut pair, Duration::from_millis(300));
        transfer(&mut pair, other, 100_000, false);
    }
}

#[test]
fn a_stream_that_was_acknowledged_late_and_is_known_to_be_writable_does_not_hold_up_the_others()
{
    for is_urgent in [false, true] {
        others_arrive_after_an_outage(1 << 20, true, is_urgent);
    }
}

#[test]
fn a_stream_that_was_acknowledged_late_and_waits_for_its_window_does_not_hold_up_the_others() {
    for is_urgent in [false, true] {
        others_arrive_after_an_outage(3000, false, is_urgent);
    }
}

/// More streams than are looked at once wait to be written to, and the one that holds up the others comes behind them.
#[test]
fn a_stream_that_was_acknowledged_late_holds_up_no_others_behind_however_many_are_idle() {
    const IDLE: u64 = 600;
    for ms in (100..1000).step_by(100) {
        let mut config = tack_config();
        config.set_initial_max_streams_uni(IDLE + 1);
        config.set_initial_max_stream_data_uni(3000);
        let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(&mut config))
            .with_delay(Duration::from_millis(20));
        pair.handshake();
        for stream in (0..IDLE).map(|at| 4 * at + 2) {
            assert_eq!(pair.client.stream_send(stream, b"!", false), Ok(1));
        }
        let late = 4 * IDLE + 2;
        pair.client.stream_priority(late, 0, false).unwrap();
        assert_eq!(pair.client.stream_send(late, &[1; 3000], false), Ok(3000));
        pair.hold_up(true);
        pair.run_for(Duration::from_millis(ms));
        pair.hold_up(false);
        pair.run_for(Duration::from_millis(300));
        transfer(&mut pair, 0, 100_000, false);
    }
}

#[test]
fn where_much_is_lost_four_iacks_leave_for_each_tack_at_most() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(20))
        .with_rate(200);
    pair.handshake();
    transfer(&mut pair, 0, 4 << 20, false);
    let before = pair.server.tack_stats();
    pair.tamper_up(lossy(20, 1));
    transfer(&mut pair, 4, 8 << 20, false);
    let after = pair.server.tack_stats();
    let (tacks, iacks) =
        (after.tacks_sent - before.tacks_sent, after.iacks_sent - before.iacks_sent);
    assert!((tacks..=4 * tacks).contains(&iacks), "{iacks} IACKs beside {tacks} TACKs");
}

#[test]
fn acknowledgements_that_fill_a_narrow_uplink_come_less_often() {
    let (mut client, mut server) =
        (profile_config(Profile::Video), profile_config(Profile::Video));
    // A TACK of 140 bytes takes it for 25 ms, longer than the profile's alpha.
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(20))
        .with_rate(10)
        .with_headers()
        .with_uplink(50);
    pair.handshake();
    let begin = Instant::now();
    transfer(&mut pair, 3, 10_000_000, true);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(20), "10 MB took {took:?}");
}
