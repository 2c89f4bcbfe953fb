//! Ending: closes that arrive, sockets that drain, and waking up for it.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::time::Duration;

use common::{App, Certificate, Direction, Relay, pattern, run_alone, run_until, run_with};
use tack_endpoint::{CloseReason, EndpointConfig, Error, Handle};

fn connected() -> (App, App, Handle) {
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
    // Nothing is on its way in either direction.
    run_with(
        &mut server,
        &mut client,
        || relay.turn(|_, _, _| true),
        |server, client| {
            let (server, client) = (server.endpoint.stats(), client.endpoint.stats());
            server.datagrams_out == client.datagrams_in
                && client.datagrams_out == server.datagrams_in
        },
    );

    let sent = server.endpoint.stats().datagrams_out;
    server.endpoint.shutdown(42, b"");
    assert_eq!(server.endpoint.stats().datagrams_out, sent + 1, "the close");
    relay.lose_one(Direction::ToClient);
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

/// Closes the client's connection, polls it until it reports `Closed`, and never again, as a
/// program does that ends there; the server must learn of the close.
fn close_arrives(server: &mut App, client: &mut App, handle: Handle) {
    client.close(handle);
    let reported = |app: &App| app.closed.contains_key(&handle);
    run_alone(client, reported);
    run_alone(server, |server| !server.closed.is_empty());
    let reason = &server.closed[&server.only()];
    assert!(matches!(reason, CloseReason::Peer { code: 0, .. }), "{reason}");
}

#[test]
fn a_close_has_left_when_closed_is_reported() {
    let (mut server, mut client, handle) = connected();
    close_arrives(&mut server, &mut client, handle);
}

/// quiche's BBR gives the close a release time behind that of the data before it.
#[test]
fn a_close_behind_paced_data_has_left_when_closed_is_reported() {
    let mut slow = common::client_config();
    slow.set_profile(tacklib::Profile::Off);
    slow.set_cc_algorithm(quiche::CongestionControlAlgorithm::Bbr2Gcongestion);
    slow.enable_pacing(true);
    slow.set_max_pacing_rate(100_000);
    let config = EndpointConfig::default();
    let mut server = App::server(&Certificate::new(), config, pattern(1000, 2));
    let mut client = App::client();
    let to = server.local_addr();
    let handle = client.connect_with(to, pattern(1 << 20, 1), &mut slow);
    run_until(&mut server, &mut client, |server, _| {
        server.exchanges.values().any(|exchange| exchange.received() > 50_000)
    });
    close_arrives(&mut server, &mut client, handle);
}

#[test]
fn a_client_that_does_not_trust_the_server_tells_it_before_closed_is_reported() {
    // No idle timeout: the server learns of the failure by the close or not at all.
    let mut tack = common::server_config(&Certificate::new());
    tack.set_max_idle_timeout(0);
    let endless = Duration::from_secs(3600);
    let config = common::endpoint_config(|config| config.handshake_timeout = endless);
    let mut server = App::server_with(tack, config, vec![]);
    let mut client = App::client();
    let mut strict = common::client_config();
    strict.set_max_idle_timeout(0);
    strict.verify_peer(true);
    let to = server.local_addr();
    let handle = client.connect_with(to, vec![], &mut strict);
    run_until(&mut server, &mut client, |_, client| client.closed.contains_key(&handle));
    run_alone(&mut server, |server| server.endpoint.stats().handshakes_failed == 1);
}

#[test]
fn an_endpoint_that_is_dropped_sends_the_closes_that_were_asked_for() {
    let (mut server, mut client, handle) = connected();
    client.close(handle);
    drop(client);
    run_alone(&mut server, |server| !server.closed.is_empty());
    let reason = &server.closed[&server.only()];
    assert!(matches!(reason, CloseReason::Peer { code: 0, .. }), "{reason}");
}

#[test]
fn a_shutdown_alone_sends_the_closes() {
    let (mut server, mut client, _) = connected();
    client.endpoint.shutdown(7, b"");
    run_alone(&mut server, |server| !server.closed.is_empty());
    let reason = &server.closed[&server.only()];
    assert!(matches!(reason, CloseReason::Peer { code: 7, .. }), "{reason}");
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

/// An endpoint looks at its socket a few times without an event after it was opened, which ends as
/// many polls; the waker has to end the others.
const POLLS: usize = 20;

#[test]
fn the_waker_ends_a_poll_that_would_wait_for_ever() {
    let mut client = App::client();
    let waker = client.endpoint.waker();
    let (polling, is_polling) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        while is_polling.recv().is_ok() {
            waker.wake().unwrap();
        }
    });
    for _ in 0..POLLS {
        polling.send(()).unwrap();
        client.endpoint.poll(None).unwrap();
    }
    drop(polling);
    thread.join().unwrap();
}

#[test]
fn a_wake_before_the_poll_is_not_lost() {
    let mut client = App::client();
    for _ in 0..POLLS {
        client.endpoint.waker().wake().unwrap();
        client.endpoint.poll(None).unwrap();
    }
}
