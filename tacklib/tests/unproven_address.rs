//! A server does not send more than three times what came from a client that has not proven that it
//! is where it says (RFC 9000 section 8.1), and does not wait for it there for ever.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use common::*;
use quiche::RecvInfo;
use tacklib::Connection;

#[test]
fn a_server_that_hears_nothing_more_probes_within_three_times_what_it_got() {
    let mut config = tack_config();
    // Probes follow each other as fast as they may.
    config.set_initial_rtt(Duration::from_millis(1));
    let mut server = tack_server(&mut config);
    let mut client = tack_client(&mut config);
    let mut datagram = [0; 1500];
    let mut received = 0;
    while let Ok((len, _)) = client.send(&mut datagram) {
        let info = RecvInfo { from: client_address(), to: server_address() };
        server.recv(&mut datagram[..len], info).unwrap();
        received += len;
    }
    let mut sent = 0;
    for _ in 0..10 {
        while let Ok((len, _)) = server.send(&mut datagram) {
            sent += len;
        }
        let Some(timeout) = server.timeout() else { break };
        advance(timeout.min(Duration::from_millis(200)));
        server.on_timeout();
    }
    assert!(sent > received, "{sent} bytes of probes after {received}");
    assert!(sent <= 3 * received, "{sent} bytes after {received}");
}

/// Gives the server what the client has to say, so many times as from an address; whether that was anything.
fn carry_up(
    client: &mut Connection,
    server: &mut Connection,
    from: SocketAddr,
    times: usize,
) -> bool {
    let (mut datagram, mut any) = ([0; 1500], false);
    while let Ok((len, _)) = client.send(&mut datagram) {
        let info = RecvInfo { from, to: server_address() };
        for _ in 0..times {
            let mut copy = datagram;
            server.recv(&mut copy[..len], info).unwrap();
        }
        any = true;
    }
    any
}

/// Gives the client what the server sends to it, but for the first `lost` packets; the rest goes nowhere.
fn carry_down(server: &mut Connection, client: &mut Connection, lost: &mut usize) -> bool {
    let (mut datagram, mut any) = ([0; 1500], false);
    while let Ok((len, sent)) = server.send(&mut datagram) {
        if sent.to == client_address() && *lost > 0 {
            *lost -= 1;
        } else if sent.to == client_address() {
            let info = RecvInfo { from: server_address(), to: client_address() };
            client.recv(&mut datagram[..len], info).unwrap();
        }
        any = true;
    }
    any
}

fn read_all(client: &mut Connection, stream_id: u64) -> bool {
    let mut buffer = [0; 4096];
    while let Ok((_, fin)) = client.stream_recv(stream_id, &mut buffer) {
        if fin {
            return true;
        }
    }
    false
}

/// Tells both ends of the timer that expires first.
fn wait(client: &mut Connection, server: &mut Connection) {
    let timers = [client.timeout_instant(), server.timeout_instant()];
    // Without a timer both would wait for ever.
    advance_to(timers.into_iter().flatten().min().unwrap());
    client.on_timeout();
    server.on_timeout();
}

/// What comes twice from an address lets more leave for it than the layer knows of.
#[test]
fn a_server_goes_on_where_its_client_is_though_another_sends_its_packets_several_times() {
    for (times, probes) in (1..5).flat_map(|times| (0..5).map(move |probes| (times, probes))) {
        fetch_beside_another_host(times, probes, 0);
    }
}

/// The way back rests on one PING.
#[test]
fn a_server_goes_on_where_its_client_is_though_what_it_sends_there_gets_lost() {
    for (times, lost) in (1..5).flat_map(|times| (1..6).map(move |lost| (times, lost))) {
        for probes in [0, 2] {
            fetch_beside_another_host(times, probes, lost);
        }
    }
}

/// A client fetches four streams. The last packet that it sends for each comes so many times from another host; then
/// so many timers expire, and so many packets on their way to the client get lost.
fn fetch_beside_another_host(times: usize, probes: usize, lost: usize) {
    let elsewhere = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 6666));
    let mut config = tack_config();
    let (mut client, mut server) = (tack_client(&mut config), tack_server(&mut config));
    while carry_up(&mut client, &mut server, client_address(), 1)
        | carry_down(&mut server, &mut client, &mut 0)
    {}
    let id = quiche::ConnectionId::from_ref(&[0xc2; 16]);
    client.new_scid(&id, 1, false).unwrap();
    carry_up(&mut client, &mut server, client_address(), 1);
    let mut to_lose = 0;
    for stream_id in [3, 7, 11, 15] {
        let mut unsent = &pattern(5000)[..];
        let give_up = Instant::now() + Duration::from_secs(30);
        loop {
            // Not all may be written while nothing may leave.
            if !unsent.is_empty()
                && let Ok(len) = server.stream_send(stream_id, unsent, true)
            {
                unsent = &unsent[len..];
            }
            let any = carry_down(&mut server, &mut client, &mut to_lose);
            if read_all(&mut client, stream_id) {
                break;
            }
            if !carry_up(&mut client, &mut server, client_address(), 1) && !any {
                wait(&mut client, &mut server);
            }
            assert!(Instant::now() < give_up, "{times} times, {probes} probes, {lost} lost");
        }
        // The last acknowledgement, behind which the client waits.
        carry_up(&mut client, &mut server, elsewhere, times);
        to_lose = lost;
        for _ in 0..probes {
            carry_down(&mut server, &mut client, &mut to_lose);
            wait(&mut client, &mut server);
        }
    }
}
