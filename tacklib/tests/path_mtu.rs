//! Path MTU discovery (RFC 9000 section 14.3): quiche probes, and what the layer adds stays within what was validated.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use tacklib::{Config, Connection};

/// The largest packet that is tried, bytes of UDP payload.
const TRIED: usize = 1472;

/// Probes of a size that quiche sends before it takes that for too long.
const PROBES: usize = 3;

/// What a path does to the datagrams of the client.
#[derive(Default)]
struct Narrowness {
    takes: Cell<usize>,
    dropped: Cell<usize>,
    longest: Cell<usize>,
}

/// A client that finds out its path MTU, on a path that takes datagrams of up to `takes` bytes.
fn pair(takes: usize) -> (Pair<Connection, Connection>, Rc<Narrowness>) {
    pair_of(takes, tack_config(), tack_config())
}

fn pair_of(
    takes: usize,
    mut client: Config,
    mut server: Config,
) -> (Pair<Connection, Connection>, Rc<Narrowness>) {
    client.set_max_send_udp_payload_size(TRIED);
    client.discover_pmtu(true);
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(10))
        .with_rate(50);
    let path = Rc::new(Narrowness::default());
    path.takes.set(takes);
    let on_path = Rc::clone(&path);
    pair.tamper_up(Box::new(move |datagram| {
        if datagram.len() > on_path.takes.get() {
            on_path.dropped.set(on_path.dropped.get() + 1);
            return None;
        }
        on_path.longest.set(on_path.longest.get().max(datagram.len()));
        Some(datagram)
    }));
    pair.handshake();
    (pair, path)
}

#[test]
fn packets_become_as_long_as_the_path_takes() {
    let (mut pair, path) = pair(TRIED);
    transfer(&mut pair, 0, 1_000_000, false);
    assert_eq!(path.longest.get(), TRIED);
    assert_eq!(path.dropped.get(), 0);
}

#[test]
fn a_size_between_two_is_found() {
    let (mut pair, path) = pair(1400);
    transfer(&mut pair, 0, 10_000_000, false);
    assert_eq!(path.longest.get(), 1400);
}

#[test]
fn nothing_but_probes_is_longer_than_what_has_been_validated() {
    const SIZES: usize = 9; // from 1472 in halves to 1201
    let (mut pair, path) = pair(1200);
    transfer(&mut pair, 0, 4_000_000, false);
    let dropped = path.dropped.get();
    assert!((PROBES..=SIZES * PROBES).contains(&dropped), "{dropped} datagrams were too long");
    // Packets with a TIMESTAMP are among those that came, and nothing had to be sent again.
    let lost = pair.client.stats().lost;
    assert!(lost <= dropped, "{lost} packets were lost, {dropped} of them probes");
}

#[test]
fn lost_probes_are_no_congestion() {
    let time = |takes| {
        let (mut pair, path) = pair(takes);
        let start = std::time::Instant::now();
        transfer(&mut pair, 0, 10_000_000, false);
        (start.elapsed(), path.dropped.get())
    };
    let (wide, none) = time(TRIED);
    let (narrow, probes) = time(1200);
    assert!(none == 0 && probes >= PROBES, "{none} and {probes} probes were lost");
    // Smaller packets have more headers: 1,472 bytes carry 2 % more than 1,200 do.
    assert!(
        narrow < wide * 104 / 100,
        "{narrow:?} with {probes} lost probes, {wide:?} without"
    );
}

#[test]
fn a_path_that_becomes_narrower_is_no_black_hole() {
    let (mut pair, path) = pair(TRIED);
    transfer(&mut pair, 0, 1_000_000, false);
    assert_eq!(path.longest.get(), TRIED);
    path.takes.set(1300);
    path.longest.set(0);
    transfer(&mut pair, 4, 1_000_000, false);
    assert!((1200..=1300).contains(&path.longest.get()), "{}", path.longest.get());
}

/// The same for DATAGRAMs, both ends of which take them.
fn datagram_pair(takes: usize) -> (Pair<Connection, Connection>, Rc<Narrowness>) {
    let (mut client, mut server) = (tack_config(), tack_config());
    for config in [&mut client, &mut server] {
        config.enable_dgram(true, 100, 100);
    }
    pair_of(takes, client, server)
}

fn received(server: &mut Connection) -> Vec<usize> {
    let mut buffer = [0; 1500];
    std::iter::from_fn(|| server.dgram_recv(&mut buffer).ok()).collect()
}

#[test]
fn a_datagram_of_the_largest_writable_size_leaves_at_once_while_longer_packets_are_tried() {
    for takes in [1200, 1400, TRIED] {
        let (mut pair, path) = datagram_pair(takes);
        let mut sent = Vec::new();
        // From the end of the handshake on, while all sizes are tried, and behind that.
        for _ in 0..40 {
            let len = pair.client.dgram_max_writable_len().unwrap();
            assert_eq!(
                pair.client.dgram_send(&vec![7; len + 1]),
                Err(quiche::Error::BufferTooShort)
            );
            pair.client.dgram_send(&vec![7; len]).unwrap();
            pair.client.dgram_send(&[8; 100]).unwrap();
            sent.extend([len, 100]);
            pair.run_for(Duration::from_millis(50));
            assert_eq!(pair.client.dgram_send_queue_len(), 0, "{takes}");
        }
        assert_eq!(received(&mut pair.server), sent, "{takes}");
        assert_eq!(path.dropped.get() > 0, takes < TRIED);
        assert!(sent.contains(&(takes - 60)) || sent[78] > takes - 60, "{sent:?}");
    }
}

#[test]
fn a_datagram_that_the_path_no_longer_takes_holds_up_none_behind_it() {
    let (mut pair, path) = datagram_pair(TRIED);
    transfer(&mut pair, 0, 100_000, false);
    path.takes.set(1200);
    let len = pair.client.dgram_max_writable_len().unwrap();
    assert!(len > 1400, "{len}");
    // The path takes these no more, and quiche finds out with them.
    for _ in 0..20 {
        pair.client.dgram_send(&vec![7; len]).unwrap();
        pair.run_for(Duration::from_millis(10));
    }
    pair.client.dgram_send(&vec![7; len]).unwrap();
    pair.client.revalidate_pmtu();
    pair.client.dgram_send(&[8; 100]).unwrap();
    pair.run_for(Duration::from_millis(100));
    assert_eq!(received(&mut pair.server), [100]);
}
