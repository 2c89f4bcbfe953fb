//! An end whose congestion window is full.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use quiche::Shutdown;

/// The most packets that leave at once: the acknowledgement, and one for the request.
const MOST: usize = 2;

/// Lets all leave that the client has to send. It is lost.
fn drain(client: &mut tacklib::Connection) -> usize {
    std::iter::from_fn(|| client.transmit(&mut [0; 1500])).count()
}

/// A client that has sent all that it may, and has got so many packets of a stock server's stream since, of which
/// the first ones have gaps between them. Nothing acknowledges what it sends, and more than 24 packets that elicit no
/// acknowledgement make quiche add both an acknowledgement and a PING to each packet.
fn full_client(gaps: u32, packets: u32) -> tacklib::Connection {
    let (mut client, mut server) = (tack_config(), stock_config());
    let mut pair = Pair::new(tack_client(&mut client), stock_server(&mut server))
        .with_delay(Duration::from_millis(1));
    pair.handshake();
    pair.run_for(Duration::from_millis(100));
    pair.server.stream_send(3, b"begin", false).unwrap();
    pair.run_for(Duration::from_millis(20));
    pair.client.stream_send(0, &vec![7; 500_000], false).unwrap();
    assert!(drain(&mut pair.client) > MOST);
    for at in 0..packets {
        pair.server.stream_send(3, &[0; 20], false).unwrap();
        let is_lost = at % 2 == 0 && at < 2 * gaps;
        pair.tamper_down(Box::new(move |datagram| (!is_lost).then_some(datagram)));
        pair.step_down();
        advance(Duration::from_micros(600));
        assert!(drain(&mut pair.client) <= MOST);
    }
    pair.client
}

/// How much the acknowledgement leaves free of the short packet that the client may write depends on its ranges and on
/// its delay. Where a PING does not fit that is to carry the request, it must not be tried again at once.
#[test]
fn a_request_to_stop_that_finds_no_room_beside_an_acknowledgement_waits() {
    for (gaps, packets) in (2..4).flat_map(|gaps| (28..60).map(move |packets| (gaps, packets)))
    {
        let mut client = full_client(gaps, packets);
        client.stream_shutdown(3, Shutdown::Read, 9).unwrap();
        let sent = drain(&mut client);
        assert!(sent <= MOST, "{sent} packets, behind {packets} with {gaps} gaps");
    }
}
