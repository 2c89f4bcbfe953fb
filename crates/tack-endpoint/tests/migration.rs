//! Clients whose address changes on the way: behind a NAT, or from one network to another.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::time::{Duration, Instant};

use common::{
    App, Certificate, Direction, LOCALHOST, Relay, client_config, endpoint_config, pattern,
    run_with, server_config,
};
use tack_endpoint::{Endpoint, EndpointConfig};
use tacklib::Profile;

const MEBIBYTE: usize = 1 << 20;

/// Datagrams that the server sends to an address the client has left, unless it has fewer to send
/// in [`GAP`].
const LOST: usize = 20;

/// Connection ids that each end takes.
const IDS: u64 = 4;

/// How long a client that moves is away at most.
const GAP: Duration = Duration::from_millis(50);

/// Exchanges a mebibyte in each direction. Each time another `every` bytes have passed to the
/// server, `lost` datagrams to the client are lost, then `change` gives it another address.
fn exchange(
    client_profile: Profile,
    ids: u64,
    every: usize,
    lost: usize,
    mut change: impl FnMut(&mut Relay),
) {
    let (upload, download) = (pattern(MEBIBYTE, 1), pattern(MEBIBYTE, 2));
    let mut config = server_config(&Certificate::new());
    config.set_active_connection_id_limit(ids);
    let mut server = App::server_with(config, EndpointConfig::default(), download.clone());
    let mut client = App::client();
    let mut relay = Relay::new(server.local_addr());
    let mut config = client_config();
    config.set_profile(client_profile);
    config.set_active_connection_id_limit(ids);
    let handle = client.connect_with(relay.address(), upload.clone(), &mut config);

    let (mut to_server, mut next_change) = (0, every);
    let mut away: Option<(usize, Instant)> = None;
    let mut changes = 0;
    run_with(
        &mut server,
        &mut client,
        || {
            relay.turn(|direction, datagram, _| {
                if direction == Direction::ToServer {
                    to_server += datagram.len();
                    return true;
                }
                if let Some((to_lose, _)) = &mut away {
                    *to_lose = to_lose.saturating_sub(1);
                }
                away.is_none()
            });
            if to_server >= next_change && next_change < MEBIBYTE {
                next_change += every;
                away = Some((lost, Instant::now() + GAP));
            }
            if away.is_some_and(|(to_lose, until)| to_lose == 0 || until <= Instant::now()) {
                away = None;
                change(&mut relay);
                changes += 1;
            }
        },
        |_, client| client.is_done(handle),
    );
    client.exchanges[&handle].assert_received(&download);
    server.exchanges[&server.only()].assert_received(&upload);
    assert!(changes >= 1);
}

#[test]
fn a_client_whose_address_changes_goes_on() {
    exchange(Profile::Default, IDS, MEBIBYTE / 2, 0, Relay::rebind);
}

#[test]
fn what_was_lost_on_the_way_to_the_old_port_is_sent_again() {
    exchange(Profile::Default, IDS, MEBIBYTE / 2, LOST, |relay| relay.move_to([127, 0, 0, 1]));
}

#[test]
fn what_was_lost_on_the_way_to_the_old_port_of_a_stock_client_is_sent_again() {
    exchange(Profile::Off, IDS, MEBIBYTE / 2, LOST, |relay| relay.move_to([127, 0, 0, 1]));
}

#[test]
#[cfg(target_os = "linux")] // which has all of 127.0.0.0/8
fn what_was_lost_on_the_way_to_the_old_host_is_sent_again() {
    exchange(Profile::Default, IDS, MEBIBYTE / 2, LOST, |relay| relay.move_to([127, 0, 0, 2]));
}

/// quiche keeps a path for every address it has seen, as many as there may be connection ids: four
/// in these tests.
#[test]
fn a_client_whose_port_changes_three_times_goes_on() {
    exchange(Profile::Default, IDS, MEBIBYTE / 4, LOST, |relay| relay.move_to([127, 0, 0, 1]));
}

/// When no id is left for a path of its own, it shares that of the path before.
#[test]
fn a_client_whose_port_changes_more_often_than_there_are_ids_goes_on() {
    const CHANGES: usize = 24;
    const PATHS: u64 = 32;
    let mut changes = 0;
    exchange(Profile::Default, PATHS, MEBIBYTE / CHANGES, 0, |relay| {
        changes += 1;
        relay.move_to([127, 0, 0, 1]);
    });
    // An endpoint issues eight.
    assert!(changes > 8, "{changes}");
}

/// A client that sends nothing does not tell the server of its new port.
#[test]
fn a_silent_client_whose_port_changes_is_reached_again() {
    const QUIET: Duration = Duration::from_millis(100);
    const NEWS: u64 = 1;
    let mut server = App::server(&Certificate::new(), EndpointConfig::default(), b"!".to_vec());
    let config = endpoint_config(|config| config.keep_alive = Some(QUIET));
    let mut client = App::new(Endpoint::client(LOCALHOST.into(), config).unwrap(), None);
    let mut relay = Relay::new(server.local_addr());
    let handle = client.connect(relay.address(), b"?".to_vec());
    let mut run_until =
        |relay: &mut Relay, done: &mut dyn FnMut(&mut App, &mut App) -> bool| {
            run_with(&mut server, &mut client, || relay.turn(|_, _, _| true), done);
        };
    run_until(&mut relay, &mut |_, client| client.is_done(handle));
    // All is acknowledged.
    let end = Instant::now() + QUIET / 2;
    run_until(&mut relay, &mut |_, _| Instant::now() >= end);
    relay.move_to([127, 0, 0, 1]);
    let mut is_told = false;
    run_until(&mut relay, &mut |server, client| {
        if !std::mem::replace(&mut is_told, true) {
            let connection = server.only();
            let connection = server.endpoint.connection_mut(connection).unwrap();
            assert_eq!(connection.stream_send(NEWS, b"news", true), Ok(4));
        }
        let connection = client.endpoint.connection_mut(handle).unwrap();
        connection.stream_recv(NEWS, &mut [0; 10]) == Ok((4, true))
    });
}
