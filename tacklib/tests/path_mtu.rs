//! Path MTU discovery (RFC 9000 section 14.3): quiche probes, and what the layer adds stays within what was validated.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use tacklib::Connection;

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
    let (mut client, mut server) = (tack_config(), tack_config());
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
