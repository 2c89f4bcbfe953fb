//! Links that lose packets.

mod common;

use std::time::Duration;

use common::*;
use tacklib::Connection;

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
    let mut count = 0;
    pair.tamper_down(Box::new(move |datagram| {
        count += 1;
        (!(20..40).contains(&count)).then_some(datagram)
    }));
    transfer(&mut pair, 0, 4 << 20, false);
}
