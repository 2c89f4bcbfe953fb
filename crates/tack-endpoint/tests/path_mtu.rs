//! Datagrams as large as the path takes (RFC 9000 section 14.3), over the loopback interface, which takes all.

#![cfg(target_os = "linux")] // elsewhere the system does not tell what the link takes
#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::net::SocketAddr;

use common::{
    App, Certificate, LOCALHOST, Relay, endpoint_config, pattern, run_until, run_with,
};
use tack_endpoint::{Endpoint, EndpointConfig};

/// The longest packet of quiche's, bytes.
const LARGEST: usize = 16_383;

/// What a link between the two takes, bytes of UDP payload.
const ETHERNET: usize = 1472;

const UPLOAD: usize = 4 << 20;
const DOWNLOAD: usize = 1000;

fn discovering() -> EndpointConfig {
    endpoint_config(|config| config.discover_path_mtu = true)
}

/// Accepts datagrams of every size.
fn accepting_all(mut config: tacklib::Config) -> tacklib::Config {
    config.set_max_recv_udp_payload_size(65_527);
    config
}

/// A server and a client, of which both find out what the path takes.
fn ends() -> (App, App) {
    let config = accepting_all(common::server_config(&Certificate::new()));
    let server = App::server_with(config, discovering(), pattern(DOWNLOAD, 2));
    let local = SocketAddr::from(LOCALHOST);
    (server, App::new(Endpoint::client(local, discovering()).unwrap(), None))
}

fn validated(app: &mut App, handle: tack_endpoint::Handle) -> usize {
    let connection = app.endpoint.connection_mut(handle).unwrap();
    connection.path_stats().find(|path| path.active).unwrap().pmtu
}

#[test]
fn datagrams_become_as_large_as_the_loopback_interface_takes() {
    let (mut server, mut client) = ends();
    let to = server.local_addr();
    let upload = pattern(UPLOAD, 1);
    let mut config = accepting_all(common::client_config());
    let handle = client.connect_with(to, upload.clone(), &mut config);
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    let accepted = server.only();
    server.exchanges[&accepted].assert_received(&upload);
    assert_eq!(validated(&mut client, handle), LARGEST);
    let sent = client.endpoint.connection_mut(handle).unwrap().stats().sent;
    let of_former_size = UPLOAD / ETHERNET;
    assert!(sent * 5 < of_former_size, "{sent} packets, {of_former_size} of the size before");
}

#[test]
fn a_link_in_between_that_takes_less_is_found_out() {
    let (mut server, mut client) = ends();
    let mut relay = Relay::new(server.local_addr());
    let upload = pattern(UPLOAD, 1);
    let mut config = accepting_all(common::client_config());
    let handle = client.connect_with(relay.address(), upload.clone(), &mut config);
    run_with(
        &mut server,
        &mut client,
        || relay.turn(|_, datagram, _| datagram.len() <= ETHERNET),
        |_, client| client.is_done(handle),
    );
    let accepted = server.only();
    server.exchanges[&accepted].assert_received(&upload);
    let validated = validated(&mut client, handle);
    assert!((1200..=ETHERNET).contains(&validated), "{validated}");
}
