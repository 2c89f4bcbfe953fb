//! Ending: closes that arrive, sockets that drain, and waking up for it.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::time::Duration;

use common::{App, Certificate, Direction, Relay, pattern, run_until, run_with};
use tack_endpoint::{CloseReason, EndpointConfig, Error};

fn connected() -> (App, App, tack_endpoint::Handle) {
    let config = EndpointConfig::default();
    let mut server = App::server(&Certificate::new(), config, pattern(1000, 2));
    let mut client = App::client();
    let to = server.local_addr();
    let handle = client.connect(to, pattern(1000, 1));
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    (server, client, handle)
}

#[test]
fn a_shutdown_tells_the_peers_drains_and_takes_no_more() {
    let (mut server, mut client, handle) = connected();
    server.endpoint.shutdown(42, b"maintenance");
    assert!(!server.endpoint.is_idle());
    run_until(&mut server, &mut client, |server, client| {
        server.endpoint.is_idle() && client.endpoint.is_idle()
    });
    let reason = b"maintenance".to_vec();
    assert_eq!(
        client.closed[&handle],
        CloseReason::Peer { application: true, code: 42, reason: reason.clone() }
    );
    assert_eq!(
        server.closed[&server.only()],
        CloseReason::Local { application: true, code: 42, reason }
    );

    let to = server.local_addr();
    client.connect(to, vec![]);
    run_until(&mut server, &mut client, |server, _| {
        server.endpoint.stats().dropped.not_accepting > 0
    });
    let refused = server.endpoint.connect(to, None, &mut common::client_config());
    assert!(matches!(refused, Err(Error::ShutDown)));
}

#[test]
fn a_close_that_was_lost_is_said_again_when_the_peer_goes_on() {
    let config = EndpointConfig::default();
    let mut server = App::server(&Certificate::new(), config, pattern(1000, 2));
    let mut client = App::client();
    let mut relay = Relay::new(server.local_addr());
    let handle = client.connect(relay.address(), pattern(1000, 1));
    run_with(
        &mut server,
        &mut client,
        || relay.turn(|_, _, _| true),
        |_, client| client.is_done(handle),
    );
    for _ in 0..20 {
        server.turn(Duration::from_millis(2));
        relay.turn(|_, _, _| true);
        client.turn(Duration::from_millis(2));
        relay.turn(|_, _, _| true);
    }

    server.endpoint.shutdown(42, b"");
    let mut lost = 0;
    server.turn(Duration::ZERO);
    for _ in 0..5 {
        relay.turn(|direction, _, _| {
            lost += usize::from(direction == Direction::ToClient);
            false
        });
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(lost, 1, "the close");
    assert_eq!(client.closed.get(&handle), None);

    client.endpoint.connection_mut(handle).unwrap().send_ack_eliciting().unwrap();
    run_with(
        &mut server,
        &mut client,
        || relay.turn(|_, _, _| true),
        |_, client| client.closed.contains_key(&handle),
    );
    assert!(
        matches!(client.closed[&handle], CloseReason::Peer { code: 42, .. }),
        "{}",
        client.closed[&handle]
    );
}

#[test]
fn a_closed_connection_can_be_read_until_the_next_poll() {
    let (mut server, mut client, handle) = connected();
    client.close(handle);
    run_until(&mut server, &mut client, |_, client| client.closed.contains_key(&handle));
    assert!(client.endpoint.connection(handle).is_some());
    run_until(&mut server, &mut client, |_, client| client.endpoint.is_idle());
    client.turn(Duration::ZERO);
    assert!(client.endpoint.connection(handle).is_none());
    assert!(client.endpoint.connection_mut(handle).is_none());
}

#[test]
fn the_waker_ends_a_poll_that_would_wait_for_ever() {
    let mut client = App::client();
    let waker = client.endpoint.waker();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        waker.wake().unwrap();
    });
    // An endpoint reads its socket once before it first waits.
    client.endpoint.poll(Some(Duration::ZERO)).unwrap();
    client.endpoint.poll(None).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_wake_before_the_poll_is_not_lost() {
    let mut client = App::client();
    client.endpoint.poll(Some(Duration::ZERO)).unwrap();
    client.endpoint.waker().wake().unwrap();
    client.endpoint.poll(None).unwrap();
}
