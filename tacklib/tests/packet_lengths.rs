//! Packets of bulk data are equally long, whatever the layer has put into them: the system takes datagrams
//! of one length in one call (generic segmentation offload), and a shorter one ends the burst.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;

/// Shorter datagrams than this carry no bulk data: acknowledgements, and the end of what was written.
const BULK: usize = 1000;

#[test]
fn a_packet_with_a_timestamp_is_as_long_as_its_neighbours() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(10))
        .with_rate(50);
    pair.handshake();
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let seen = lengths.clone();
    pair.tamper_up(Box::new(move |datagram| {
        seen.lock().unwrap().push(datagram.len());
        Some(datagram)
    }));
    transfer(&mut pair, 0, 4_000_000, false);
    let lengths = lengths.lock().unwrap();
    let bulk: Vec<_> = lengths.iter().copied().filter(|len| *len > BULK).collect();
    let longest = bulk.iter().copied().max().unwrap();
    let shorter = bulk.iter().filter(|len| **len < longest).count();
    // The last packet of what the application wrote at a time may be of any length. A TACK and an ACK_FREQUENCY frame
    // are given more room than they take.
    let stats = pair.client.tack_stats();
    let others = stats.tacks_sent + stats.frequency_updates_sent;
    assert!(others < 20, "{stats:?}");
    let most = 2 + others as usize;
    assert!(shorter <= most, "{shorter} of {} packets are shorter than {longest}", bulk.len());
}
